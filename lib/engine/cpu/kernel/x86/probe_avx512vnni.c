/* SPDX-License-Identifier: ISC */
/* probe_avx512vnni.c - how fast 512-bit registers read and multiply. */
#define INT8_OP "VPDPBUSD zmm"
#include "engine/cpu/kernel/x86/probe.h"

KERNEL_INLINE __m512i
int8_step(__m512i s, __m512i a, __m512i b)
{
	return _mm512_dpbusd_epi32(s, a, b);
}

const struct qwen_kernel qwen_probe_avx512vnni_kernels[] = {
	{ .op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, QWEN_AVX512VNNI,
	    .run.probe = &probe },
	{ 0 }
};
