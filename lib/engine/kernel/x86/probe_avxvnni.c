/* SPDX-License-Identifier: ISC */
/* probe_avxvnni.c - how fast 256-bit registers read and multiply, with VNNI. */
#include "engine/kernel/x86/probe256.h"

static uint64_t
int8(size_t n)
{
	__m256i s[CHAINS], a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(-1);
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = _mm256_setzero_si256();
	UNKNOWN(a);
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) s[i] = _mm256_dpbusd_avx_epi32(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			TWELVE(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] = _mm256_add_epi32(s[0], s[i]);
	return (uint64_t)_mm256_extract_epi64(s[0], 0);
}

static const struct qwen_probe probe = {
	.int8_op = "VPDPBUSD ymm", .read = read_all,
	.int8 = int8, .int8_macs = 32 * CHAINS * ROUNDS,
	.f32 = f32, .f32_macs = 8 * CHAINS * ROUNDS,
};

const struct qwen_kernel qwen_probe_avxvnni = {
	.op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, .name = "avxvnni",
	.rank = 30, .need = QWEN_CPU_AVX2 | QWEN_CPU_AVXVNNI,
	.run.probe = &probe,
};
