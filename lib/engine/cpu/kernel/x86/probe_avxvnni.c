/* SPDX-License-Identifier: ISC */
/* probe_avxvnni.c - how fast 256-bit registers read and multiply, with VNNI. */
#define INT8_OP "VPDPBUSD ymm"
#include "engine/cpu/kernel/x86/probe.h"

KERNEL_INLINE __m256i
int8_step(__m256i s, __m256i a, __m256i b)
{
	return _mm256_dpbusd_avx_epi32(s, a, b);
}

const struct qwen_kernel qwen_probe_avxvnni_kernels[] = {
	{ .op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, QWEN_AVXVNNI,
	    .run.probe = &probe },
	{ 0 }
};
