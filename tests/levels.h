/* SPDX-License-Identifier: ISC */
/* levels.h - the instruction-set levels of the architecture. */
#ifndef LEVELS_H
#define LEVELS_H

#include <string.h>

#include "base/cpu.h"
#include "engine/cpu/kernel/kernel.h"

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

/* Get the kernels of a level, whatever the speed of the machine. */
static inline void
level_kernels(size_t l, unsigned numerics, struct qwen_kernels *k)
{
	unsigned features = 0;

	qwen_cpu_level(levels[l], &features);
	qwen_kernels_init(k, features & qwen_cpu_detect(), numerics);
	k->probe = NULL;
}

/* Return 1 if the level has other kernels than all levels before it. */
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
