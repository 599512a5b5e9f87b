/* SPDX-License-Identifier: ISC */
/* cpu.c - instruction sets that this machine has. */
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/cpu.h"

static const struct {
	const char	*name;
	unsigned	 features;
} levels[] = {
	{ "scalar", 0 },
	{ "avx2", QWEN_CPU_AVX2 },
	{ "avx512", QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI },
};

#define N_LEVELS (sizeof levels / sizeof levels[0])

#if defined(__x86_64__)
/* clang 14 knows no such name for __builtin_cpu_supports. */
static int
has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

unsigned
qwen_cpu_detect(void)
{
	unsigned f = 0;

#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	    has_f16c())
		f |= QWEN_CPU_AVX2;
	if (f != 0 && __builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vnni"))
		f |= QWEN_CPU_AVX512VNNI;
#endif
	return f;
}

int
qwen_cpu_level(const char *name, unsigned *features)
{
	size_t i;

	for (i = 0; i < N_LEVELS; i++) {
		if (strcmp(levels[i].name, name) == 0) {
			*features = levels[i].features;
			return 0;
		}
	}
	return -1;
}

const char *
qwen_cpu_name(unsigned features)
{
	size_t i;

	for (i = N_LEVELS; i-- > 1;) {
		if ((features & levels[i].features) == levels[i].features)
			return levels[i].name;
	}
	return levels[0].name;
}

int
qwen_cpu_count(void)
{
	cpu_set_t set;
	long n;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		return CPU_COUNT(&set);
	n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (int)n : 1;
}
