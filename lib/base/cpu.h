/* SPDX-License-Identifier: ISC */
/* cpu.h - instruction sets of this machine, and a mask to use fewer of them. */
#ifndef QWEN_BASE_CPU_H
#define QWEN_BASE_CPU_H

enum {
	QWEN_CPU_AVX2 = 1 << 0,		/* AVX2, FMA, F16C */
	QWEN_CPU_AVX512VNNI = 1 << 1,	/* AVX-512 F, BW, VL, DQ, VNNI */
	QWEN_CPU_AVXVNNI = 1 << 2,	/* VNNI with VEX, 256 bits */
	QWEN_CPU_AMX = 1 << 3,		/* tiles of int8 and of bf16 */
	QWEN_CPU_AVX512VBMI = 1 << 4,	/* byte permutes; with BMI2 */
	QWEN_CPU_AVX512BF16 = 1 << 5,	/* VDPBF16PS with the rounding of
					   numerics version 3 */
	QWEN_CPU_NEON = 1 << 16,	/* all of arm64 has it */
	QWEN_CPU_DOTPROD = 1 << 17,	/* SDOT, Armv8.2 */
	QWEN_CPU_I8MM = 1 << 18,	/* SMMLA, Armv8.6 */
};

/*
 * Returns the features that the CPU and the operating system allow (CPUID,
 * XGETBV).  Linux allows AMX only on request, since processes that use it need
 * larger signal frames.
 */
unsigned qwen_cpu_detect(void);

/*
 * Sets *features to those of a level, including lower levels that every such
 * CPU has: "scalar", "avx2", "avxvnni", "avx512", "vbmi", "bf16", "amx";
 * "neon", "dotprod", "i8mm".  Returns 0, -1 for an unknown name.
 */
int qwen_cpu_level(const char *name, unsigned *features);

/*
 * Sets *features to those of this processor that a level has, or to all if
 * level is NULL; QWEN_ERANGE for an unknown level.
 */
struct qwen_err;
int qwen_cpu_limit(unsigned *features, const char *level,
    struct qwen_err *err);

/*
 * Returns the number of threads worth starting: the processors that this
 * process may use, on Linux limited to the CPU quota of its control groups
 * (cpu.max, cpu.cfs_quota_us), rounded up.  More threads would only wait.
 */
int qwen_cpu_count(void);

/*
 * Returns the number of cores that these processors belong to, by the folder
 * tree (cpuN/topology/core_cpus_list, before Linux 5.7 thread_siblings_list):
 * fewer than the processors with Hyper-Threading.  INT_MAX if unknown.
 */
#define QWEN_CPU_TREE "/sys/devices/system/cpu"
int qwen_cpu_cores(const char *tree);

#endif
