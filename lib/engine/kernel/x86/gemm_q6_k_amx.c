/* SPDX-License-Identifier: ISC */
/*
 * gemm_q6_k_amx.c - y = Wx for many tokens, W in Q6_K, AMX.
 *
 * Its scales of 16 columns would mean tiles a quarter deep.  Instead, with
 *	scale * w = 128 wh + wl	(wh -32 .. 32, wl -64 .. 63)
 *	a_j * q   = 128 xh + xl	(xh -7 .. 7, xl -64 .. 63)
 * the product needs sums of wh xh, of wl xl, and, after Karatsuba, of
 * (wh + wl)(xh + xl), from which the other two are taken away: three products
 * of whole tiles that run on over the 256 columns of a group.  All fit in
 * their bytes, and the sums in 32 bits.
 */
#define BLOCK_BYTES 210
#define PLANES 3
#define SCALES 2
#include "engine/kernel/x86/panel_amx.h"
#include "engine/kernel/x86/unpack_q6_k.h"

/*
 * Digits of 128 * c + even or odd lanes of 16 bits, which are made positive by
 * 64 + 128 * c: high, low, and their sum to p, p + stride, p + 2 * stride.
 */
PI void
store_digits(__m512i even, __m512i odd, int c, int8_t *p, size_t stride)
{
	const __mmask64 upper = 0xaaaaaaaaaaaaaaaaULL;
	__m512i h = _mm512_mask_blend_epi8(upper, _mm512_srli_epi16(even, 7),
	    _mm512_slli_epi16(odd, 1));
	__m512i l = _mm512_and_si512(_mm512_mask_blend_epi8(upper, even,
	    _mm512_slli_epi16(odd, 8)), _mm512_set1_epi8(127));

	h = _mm512_sub_epi8(h, _mm512_set1_epi8((char)c));
	l = _mm512_sub_epi8(l, _mm512_set1_epi8(64));
	_mm512_store_si512(p, h);
	_mm512_store_si512(p + stride, l);
	_mm512_store_si512(p + 2 * stride, _mm512_add_epi8(h, l));
}

/* Weights come 32 too large. */
PI void
store_quad(struct panel *p, size_t g, size_t j, int half, int quad, __m512i v)
{
	__m512i s = _mm512_load_si512(p->scale[g][2 * j + quad / 4] +
	    16 * half);
	__m512i even = _mm512_and_si512(s, _mm512_set1_epi32(255));
	__m512i bias;

	/* the scale's byte twice in a lane, at even bytes; all of it twice */
	even = _mm512_or_si512(even, _mm512_slli_epi32(even, 16));
	s = _mm512_mask_blend_epi16(0xaaaaaaaa, s, _mm512_slli_epi32(s, 16));
	bias = _mm512_sub_epi16(_mm512_set1_epi16(64 + 128 * 32),
	    _mm512_slli_epi16(s, 5));
	store_digits(_mm512_add_epi16(_mm512_maddubs_epi16(v, even), bias),
	    _mm512_add_epi16(_mm512_maddubs_epi16(v,
	    _mm512_slli_epi16(even, 8)), bias), 32,
	    p->w[g][0][8 * j + (size_t)quad][half], sizeof p->w[g][0]);
}

PI void
pack_group(const struct qwen_q8 *x, struct tokens *to, size_t tile, size_t g,
    size_t row)
{
	const __m512i bias = _mm512_set1_epi16(64 + 128 * 7);
	__m512i a, q;
	int i;

	for (i = 0; i < 4; i++) {
		a = _mm512_inserti64x4(_mm512_set1_epi16(x->a[2 * i]),
		    _mm256_set1_epi16(x->a[2 * i + 1]), 1);
		q = _mm512_load_si512(x->q + 64 * i);
		store_digits(_mm512_add_epi16(_mm512_maddubs_epi16(a, q),
		    bias), _mm512_add_epi16(_mm512_maddubs_epi16(
		    _mm512_slli_epi16(a, 8), q), bias), 7,
		    to->q[tile][g][0][row] + 64 * i, sizeof to->q[0][0][0]);
	}
}

/* Sums 0 .. 2 of the first 16 rows, 3 .. 5 of the others; tokens, weights. */
PI void
configure(struct amx_config *c, size_t rows)
{
	int i;

	for (i = 0; i < 7; i++)
		shape(c, i, rows, 64);
	shape(c, 7, 16, 64);
}

#define STEP(plane, sum0, sum1, k) do {					\
	amx_load(6, to->q[tile][g][plane][0] + 64 * (k), 256);		\
	amx_load(7, p->w[g][plane][16 * (k)][0], 128);			\
	amx_dpbssd(sum0, 6, 7);						\
	amx_load(7, p->w[g][plane][16 * (k)][1], 128);			\
	amx_dpbssd(sum1, 6, 7);						\
} while (0)

PI void
multiply(const struct panel *p, const struct tokens *to, size_t tile, size_t g,
    const struct qwen_q8 *const *x, size_t n, __m512 (*acc)[2])
{
	int32_t s[2][3][TILE_TOKENS][16] __attribute__((aligned(64)));
	size_t t, k;
	int half;

	amx_zero(0);
	amx_zero(1);
	amx_zero(2);
	amx_zero(3);
	amx_zero(4);
	amx_zero(5);
	for (k = 0; k < 4; k++) {
		STEP(0, 0, 3, k);
		STEP(1, 1, 4, k);
		STEP(2, 2, 5, k);
	}
	amx_store(0, s[0][0], 64);
	amx_store(1, s[0][1], 64);
	amx_store(2, s[0][2], 64);
	amx_store(3, s[1][0], 64);
	amx_store(4, s[1][1], 64);
	amx_store(5, s[1][2], 64);
	for (half = 0; half < 2; half++) {
		__m512 d = _mm512_load_ps(p->d[g][0] + 16 * half);

		for (t = 0; t < n; t++) {
			__m512i h = _mm512_load_si512(s[half][0][t]);
			__m512i l = _mm512_load_si512(s[half][1][t]);
			__m512i m = _mm512_sub_epi32(_mm512_load_si512(
			    s[half][2][t]), _mm512_add_epi32(h, l));

			/* (128 h + m) 128 + l */
			m = _mm512_add_epi32(m, _mm512_slli_epi32(h, 7));
			l = _mm512_add_epi32(l, _mm512_slli_epi32(m, 7));
			acc[t][half] = _mm512_fmadd_ps(_mm512_mul_ps(d,
			    _mm512_set1_ps(x[t]->d)), _mm512_cvtepi32_ps(l),
			    acc[t][half]);
		}
	}
}

const struct qwen_kernel AMX_VARIANT(gemm_q6_k_amx) = {
	.op = QWEN_OP_GEMM, .type = QT_Q6_K, .name = AMX_NAME,
	.rank = 50, .need = AMX_NEED, .min_tok = AMX_MIN_TOK(16),
	.below = AMX_BELOW(gemm_q6_k_avx512vnni), .run.matmul = gemm,
};
