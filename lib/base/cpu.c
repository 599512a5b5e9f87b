/* SPDX-License-Identifier: ISC */
/* cpu.c - instruction sets that this machine has. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "base/cgroup.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/half.h"

static const struct {
	const char	*name;
	unsigned	 features;
} levels[] = {
	{ "scalar", 0 },
	{ "avx2", QWEN_CPU_AVX2 },
	{ "avxvnni", QWEN_CPU_AVX2 | QWEN_CPU_AVXVNNI },
	/* the first AVX-512 CPUs lack VEX-encoded VNNI */
	{ "avx512", QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI },
	{ "vbmi", QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI | QWEN_CPU_AVX512VBMI },
	{ "bf16", QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI | QWEN_CPU_AVX512VBMI |
	    QWEN_CPU_AVX512BF16 },
	{ "amx", QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI | QWEN_CPU_AVX512VBMI |
	    QWEN_CPU_AVX512BF16 | QWEN_CPU_AMX },
	/* arm64 */
	{ "neon", QWEN_CPU_NEON },
	{ "dotprod", QWEN_CPU_NEON | QWEN_CPU_DOTPROD },
	{ "i8mm", QWEN_CPU_NEON | QWEN_CPU_DOTPROD | QWEN_CPU_I8MM },
};

#define N_LEVELS (sizeof levels / sizeof levels[0])

#if defined(__x86_64__)
/* Does EAX of leaf 7, subleaf 1 have this bit?  gcc 12 lacks some names. */
static int
has_bit_7_1(int bit)
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1 &&
	    __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> bit & 1) != 0;
}

/* Two bf16 numbers of any sign and mantissa, of magnitude 2^-8 to 2^7. */
static uint32_t
random_pair(uint32_t *r)
{
	*r = *r * 1664525 + 1013904223;
	return ((*r ^ *r >> 15) & 0x87ff87ff) + 0x3b803b80;
}

/*
 * Does VDPBF16PS add the product of the upper halves to the sum, then that of
 * the lower halves, each with one rounding, as documented?  If not, the last
 * bits of these sums differ.
 */
__attribute__((target("avx512f,avx512bf16")))
static int
adds_in_order(void)
{
	float sum = 0.0f, got[16];
	__m512 v = _mm512_setzero_ps();
	uint32_t r = 1, w, x;
	int i;

	for (i = 0; i < 256; i++) {
		w = random_pair(&r);
		x = random_pair(&r);
		v = _mm512_dpbf16_ps(v, (__m512bh)_mm512_set1_epi32((int)w),
		    (__m512bh)_mm512_set1_epi32((int)x));
		sum = fmaf(qwen_bf16_f32((uint16_t)(w >> 16)),
		    qwen_bf16_f32((uint16_t)(x >> 16)), sum);
		sum = fmaf(qwen_bf16_f32((uint16_t)w),
		    qwen_bf16_f32((uint16_t)x), sum);
	}
	_mm512_storeu_ps(got, v);
	for (i = 0; i < 16; i++) {
		if (qwen_f32_bits(got[i]) != qwen_f32_bits(sum))
			return 0;
	}
	return 1;
}

static int
has_avx512bf16(void)
{
	static _Atomic int answer;	/* 1: no, 2: yes */

	if (answer == 0)
		answer = 1 + (has_bit_7_1(5) && adds_in_order());
	return answer == 2;
}

/* Does the OS save the tile state, and may this process use it? */
static int
allows_tiles(void)
{
#if defined(__linux__)
	static const unsigned tile_state = 3u << 17;
	unsigned a, b, c, d;

	/* XGETBV faults without OSXSAVE */
	if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0)
		return 0;
	__asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	/* ARCH_REQ_XCOMP_PERM of feature 18, the tile data */
	return (a & tile_state) == tile_state &&
	    syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#else
	return 0;
#endif
}

/* Leaf 7, EDX: bits 22, 24 and 25 are AMX-BF16, -TILE and -INT8. */
static int
has_amx(void)
{
	static const unsigned bits = 1u << 22 | 1u << 24 | 1u << 25;
	static _Atomic int answer;	/* 1: no, 2: yes */
	unsigned a, b, c, d;

	if (answer == 0)
		answer = 1 + (__get_cpuid_count(7, 0, &a, &b, &c, &d) &&
		    (d & bits) == bits && allows_tiles());
	return answer == 2;
}
#endif

#if defined(__aarch64__) && defined(__APPLE__)
static int
has(const char *name)
{
	int yes = 0;
	size_t size = sizeof yes;

	return sysctlbyname(name, &yes, &size, NULL, 0) == 0 && yes;
}
#endif

#if defined(__aarch64__)
static unsigned
detect_arm(void)
{
	unsigned f = QWEN_CPU_NEON;

#if defined(__linux__)
	/* HWCAP_ASIMDDP and HWCAP2_I8MM, which old headers lack */
	if (getauxval(AT_HWCAP) >> 20 & 1)
		f |= QWEN_CPU_DOTPROD;
	if ((f & QWEN_CPU_DOTPROD) != 0 && getauxval(AT_HWCAP2) >> 13 & 1)
		f |= QWEN_CPU_I8MM;
#elif defined(__APPLE__)
	if (has("hw.optional.arm.FEAT_DotProd"))
		f |= QWEN_CPU_DOTPROD;
	if ((f & QWEN_CPU_DOTPROD) != 0 && has("hw.optional.arm.FEAT_I8MM"))
		f |= QWEN_CPU_I8MM;
#endif
	return f;
}
#endif

unsigned
qwen_cpu_detect(void)
{
	unsigned f = 0;

#if defined(__x86_64__)
	unsigned a, b, c, d;

	__builtin_cpu_init();
	/* clang 14's __builtin_cpu_supports does not know f16c */
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	    __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0)
		f |= QWEN_CPU_AVX2;
	if (f != 0 && has_bit_7_1(4))
		f |= QWEN_CPU_AVXVNNI;
	if (f != 0 && __builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vnni"))
		f |= QWEN_CPU_AVX512VNNI;
	if ((f & QWEN_CPU_AVX512VNNI) != 0 &&
	    __builtin_cpu_supports("avx512vbmi") &&
	    __builtin_cpu_supports("bmi2"))
		f |= QWEN_CPU_AVX512VBMI;
	if ((f & QWEN_CPU_AVX512VNNI) != 0 && has_avx512bf16())
		f |= QWEN_CPU_AVX512BF16;
	if ((f & QWEN_CPU_AVX512VNNI) != 0 && has_amx())
		f |= QWEN_CPU_AMX;
#elif defined(__aarch64__)
	f = detect_arm();
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

int
qwen_cpu_limit(unsigned *features, const char *level, struct qwen_err *err)
{
	unsigned limit;

	*features = qwen_cpu_detect();
	if (level == NULL)
		return 0;
	if (qwen_cpu_level(level, &limit) < 0)
		return qwen_fail(err, QWEN_ERANGE, "unknown instruction-set "
		    "level %.40s", level);
	*features &= limit;
	return 0;
}

/* Sets *count to the CPU quota of a control group, in processors. */
static void
take_quota(void *count, const char *group, int v1)
{
	uint64_t quota, period;
	int *n = count;
	char second[32];

	quota = qwen_number_in(group, v1 ? "/cpu.cfs_quota_us" : "/cpu.max", "",
	    UINT64_MAX);
	if (quota == 0 || quota > INT_MAX)	/* also -1, which means no
						   quota */
		return;
	snprintf(second, sizeof second, "%" PRIu64 " ", quota);
	period = v1 ? qwen_number_in(group, "/cpu.cfs_period_us", "", 0) :
	    qwen_number_in(group, "/cpu.max", second, 0);
	if (period > 0 && (quota + period - 1) / period < (uint64_t)*n)
		*n = (int)((quota + period - 1) / period);
}

#if defined(__linux__)
/* Reads the list of a core's processors, as "0,64" or "0-1"; -1 if unknown. */
static int
siblings(const char *tree, int cpu, char *list, size_t size)
{
	static const char *const names[] = { "core_cpus_list",
	    "thread_siblings_list" };
	char path[256];
	size_t i;
	FILE *f = NULL;
	int ok;

	for (i = 0; i < 2 && f == NULL; i++) {
		snprintf(path, sizeof path, "%s/cpu%d/topology/%s", tree, cpu,
		    names[i]);
		f = fopen(path, "r");
	}
	if (f == NULL)
		return -1;
	ok = fgets(list, (int)size, f) != NULL && *list != '\n';
	fclose(f);
	return ok ? 0 : -1;
}

/* Returns the first processor of the list that is in the set. */
static int
first_of(const char *list, const cpu_set_t *set)
{
	char *end;
	long a, b;

	while (*list != '\0' && *list != '\n') {
		a = b = strtol(list, &end, 10);
		if (end == list)
			return -1;
		if (*end == '-')
			b = strtol(end + 1, &end, 10);
		for (; a >= 0 && a <= b && a < CPU_SETSIZE; a++) {
			if (CPU_ISSET(a, set))
				return (int)a;
		}
		list = end + (*end == ',');
	}
	return -1;
}
#endif

int
qwen_cpu_cores(const char *tree)
{
#if defined(__linux__)
	cpu_set_t set;
	char list[1024];
	int cpu, first, n = 0;

	if (sched_getaffinity(0, sizeof set, &set) != 0)
		return INT_MAX;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		if (siblings(tree, cpu, list, sizeof list) < 0 ||
		    (first = first_of(list, &set)) < 0)
			return INT_MAX;
		n += first == cpu;
	}
	return n > 0 ? n : INT_MAX;
#else
	(void)tree;
	return INT_MAX;
#endif
}

int
qwen_cpu_count(void)
{
	int n = (int)sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		n = CPU_COUNT(&set);
#endif
	if (n < 1)
		n = 1;
	qwen_cgroup_each("cpu", take_quota, &n);
	return n;
}
