/* SPDX-License-Identifier: ISC */
/* probe_avx2.c - how fast 256-bit registers read and multiply. */
#include "engine/kernel/x86/probe256.h"

/* The three instructions that 32 products take without VNNI. */
static uint64_t
int8(size_t n)
{
	__m256i s[CHAINS], a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(-1);
	__m256i one = _mm256_set1_epi16(1), t;
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = _mm256_setzero_si256();
	while (n-- > 0) {
#define MAC(i) \
		UNKNOWN(a); \
		t = _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), one); \
		s[i] = _mm256_add_epi32(s[i], t);
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
	.int8_op = "VPMADDUBSW ymm", .read = read_all,
	.int8 = int8, .int8_macs = 32 * CHAINS * ROUNDS,
	.f32 = f32, .f32_macs = 8 * CHAINS * ROUNDS,
};

const struct qwen_kernel qwen_probe_avx2 = {
	.op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.probe = &probe,
};
