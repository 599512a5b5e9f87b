/* SPDX-License-Identifier: ISC */
/* levels.h - the instruction-set levels of the architecture, up to NULL. */
#ifndef LEVELS_H
#define LEVELS_H

#include <string.h>

#include "base/cpu.h"
#include "engine/kernel/kernel.h"

static const char *const levels[] = {
	"scalar",
#if defined(__x86_64__)
	"avx2", "avxvnni", "avx512", "vbmi", "bf16",
	"amx",
#elif defined(__aarch64__)
	"neon", "dotprod", "i8mm",
#endif
};

#define N_LEVELS (sizeof levels / sizeof levels[0])

/* The kernels of a level; how fast the machine is does not count. */
static inline void
level_kernels(size_t l, unsigned numerics, struct qwen_kernels *k)
{
	unsigned features = 0;

	qwen_cpu_level(levels[l], &features);
	qwen_kernels_init(k, features & qwen_cpu_detect(), numerics);
	k->probe = NULL;
}

/* Does the level have other kernels than those before it? */
static inline int
level_differs(size_t l, unsigned numerics)
{
	struct qwen_kernels a, b;
	size_t i;

	level_kernels(l, numerics, &a);
	for (i = 0; i < l; i++) {
		level_kernels(i, numerics, &b);
		if (memcmp(&a, &b, sizeof a) == 0)
			return 0;
	}
	return 1;
}

#endif
