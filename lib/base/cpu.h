/* SPDX-License-Identifier: ISC */
/* cpu.h - instruction sets that this machine has, and a mask to use fewer. */
#ifndef QWEN_BASE_CPU_H
#define QWEN_BASE_CPU_H

enum {
	QWEN_CPU_AVX2 = 1 << 0,		/* AVX2, FMA, F16C */
	QWEN_CPU_AVX512VNNI = 1 << 1,	/* AVX-512 F, BW, VL, DQ, VNNI */
	QWEN_CPU_AVXVNNI = 1 << 2,	/* VNNI with VEX, 256 bits */
	QWEN_CPU_AMX = 1 << 3,		/* tiles, of int8 and of bf16 */
	QWEN_CPU_AVX512VBMI = 1 << 4,	/* bytes by index; with BMI2 */
	QWEN_CPU_AVX512BF16 = 1 << 5,	/* VDPBF16PS that adds as numerics
					   version 3 wants it */
	QWEN_CPU_NEON = 1 << 16,	/* all of arm64 has it */
	QWEN_CPU_DOTPROD = 1 << 17,	/* SDOT, Armv8.2 */
	QWEN_CPU_I8MM = 1 << 18,	/* SMMLA, Armv8.6 */
};

/*
 * What the CPU and the operating system allow (CPUID, XGETBV).  For AMX, Linux
 * wants to be asked: a process that may use it has larger signal frames.
 */
unsigned qwen_cpu_detect(void);

/*
 * The features of a level and of those below it that every CPU of that level
 * has: "scalar", "avx2", "avxvnni", "avx512", "vbmi", "bf16", "amx"; "neon",
 * "dotprod", "i8mm".  -1 for another name.
 */
int qwen_cpu_level(const char *name, unsigned *features);

/*
 * Threads worth starting: processors this process may run on, and on Linux no
 * more than their time that its control groups have (cpu.max, or
 * cpu.cfs_quota_us), rounded up: what is beyond that is spent waiting.
 */
int qwen_cpu_count(void);

/*
 * Cores that those processors are of, by the folder where Linux tells of them
 * (cpuN/topology/core_cpus_list, before Linux 5.7 thread_siblings_list): fewer
 * where some are siblings, as Hyper-Threading makes them; INT_MAX if it is not
 * known.
 */
#define QWEN_CPU_TREE "/sys/devices/system/cpu"
int qwen_cpu_cores(const char *tree);

#endif
