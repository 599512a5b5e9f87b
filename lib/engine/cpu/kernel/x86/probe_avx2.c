/* SPDX-License-Identifier: ISC */
/* probe_avx2.c - how fast 256-bit registers read and multiply. */
#define INT8_OP "VPMADDUBSW ymm"
#include "engine/cpu/kernel/x86/probe.h"

/* The three instructions that 32 products take without VNNI. */
KERNEL_INLINE __m256i
int8_step(__m256i s, __m256i a, __m256i b)
{
	return _mm256_add_epi32(s, _mm256_madd_epi16(
	    _mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}

const struct qwen_kernel qwen_probe_avx2_kernels[] = {
	{ .op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, QWEN_AVX2,
	    .run.probe = &probe },
	{ 0 }
};
