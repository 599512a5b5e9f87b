/* SPDX-License-Identifier: ISC */
/* levels.h - the instruction-set levels of the architecture, up to NULL. */
#ifndef LEVELS_H
#define LEVELS_H

static const char *const levels[] = {
	"scalar",
#if defined(__x86_64__)
	"avx2", "avxvnni", "avx512", "amx",
#elif defined(__aarch64__)
	"neon", "dotprod", "i8mm",
#endif
};

#define N_LEVELS (sizeof levels / sizeof levels[0])

#endif
