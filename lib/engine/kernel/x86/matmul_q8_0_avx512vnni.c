/* SPDX-License-Identifier: ISC */
/*
 * matmul_q8_0_avx512vnni.c - y = Wx, W in Q8_0, x in 8 bits, AVX-512 VNNI: four rows
 * and up to four tokens at a time, a float step every 32 weights.
 */
#define BLOCK_BYTES 34
#include "engine/kernel/x86/rowdot_32.h"

/* Four rows' sums: of lanes 0 .. 7 in *lo, of lanes 8 .. 15 in *hi. */
RI void
sum8x4x2(const __m512i *v, __m128i *lo, __m128i *hi)
{
	__m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
	    _mm512_unpackhi_epi32(v[0], v[1]));
	__m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
	    _mm512_unpackhi_epi32(v[2], v[3]));
	__m256i l, h;

	a = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b),
	    _mm512_unpackhi_epi64(a, b));
	l = _mm512_castsi512_si256(a);
	h = _mm512_extracti64x4_epi64(a, 1);
	*lo = _mm_add_epi32(_mm256_castsi256_si128(l),
	    _mm256_extracti128_si256(l, 1));
	*hi = _mm_add_epi32(_mm256_castsi256_si128(h),
	    _mm256_extracti128_si256(h, 1));
}

/* part += d * (a * sum): the sum has 128 too much for each activation. */
RI __m128
step(__m128 part, __m128 d, __m128i sum, int16_t a, int16_t asum)
{
	sum = _mm_sub_epi32(_mm_mullo_epi32(sum, _mm_set1_epi32(a)),
	    _mm_set1_epi32(128 * asum));
	return _mm_fmadd_ps(d, _mm_cvtepi32_ps(sum), part);
}

/*
 * nb blocks of a group, two at a time.  VPDPBUSD wants one factor unsigned:
 * the weight plus 128, which comes off through the activations' sum.
 */
RI void
group(const unsigned char *const *w, const struct qwen_q8 *const *x, size_t g,
    size_t nb, int nt, __m128 *acc)
{
	const __m512i flip = _mm512_set1_epi8((char)0x80);
	__m128 part[4];
	__m512i v[4][4];
	__m128i lo, hi;
	size_t b, i;
	int j;

	for (j = 0; j < nt; j++)
		part[j] = _mm_setzero_ps();
	for (b = 0; b < nb; b += 2) {
		int two = b + 1 < nb;

		for (i = 0; i < 4; i++) {
			const unsigned char *p = w[i] + b * BLOCK_BYTES + 2;
			__m512i q = _mm512_castsi256_si512(_mm256_loadu_si256(
			    (const __m256i *)p));

			q = _mm512_inserti64x4(q, _mm256_loadu_si256(
			    (const __m256i *)(p + (two ? BLOCK_BYTES : 0))),
			    1);
			q = _mm512_xor_si512(q, flip);
			for (j = 0; j < nt; j++)
				v[j][i] = _mm512_dpbusd_epi32(
				    _mm512_setzero_si512(), q,
				    _mm512_loadu_si512(x[j][g].q + 32 * b));
		}
		for (j = 0; j < nt; j++) {
			const struct qwen_q8 *y = &x[j][g];

			sum8x4x2(v[j], &lo, &hi);
			part[j] = step(part[j], load_d4(w, b * BLOCK_BYTES),
			    lo, y->a[b], y->asum[b]);
			if (two)
				part[j] = step(part[j], load_d4(w, (b + 1) *
				    BLOCK_BYTES), hi, y->a[b + 1],
				    y->asum[b + 1]);
		}
	}
	for (j = 0; j < nt; j++)
		acc[j] = _mm_fmadd_ps(_mm_set1_ps(x[j][g].d), part[j],
		    acc[j]);
}

const struct qwen_kernel qwen_matmul_q8_0_avx512vnni = {
	.op = QWEN_OP_MATMUL, .type = QT_Q8_0, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
