/* SPDX-License-Identifier: ISC */
/*
 * gemm_amx.c - y = Wx for many tokens, AMX: Q4_K, Q5_K and Q8_0, whose sums are
 * folded every 32 columns, and Q6_K, which goes by planes.  See panel_amx.h.
 */
#include "engine/kernel/x86/panel_amx.h"

/* ---- Q4_K and Q5_K */

/*
 * What weights in the panel lack.  Those of Q4_K go in as -8 .. 7: the sum of
 * 32 products with -127 .. 127 is then 32512 at most, and one VPDPWSSD
 * multiplies and adds it.
 */
PI int
offset_k4(uint32_t type)
{
	return type == QT_Q4_K ? 8 : 0;
}

/* sum + s * m, where 0 <= m < 512 */
PI __m512i
add_scaled(int offset, __m512i sum, __m512i s, __m512i m)
{
	return offset == 8 ? _mm512_dpwssd_epi32(sum, s, m) :
	    _mm512_add_epi32(sum, _mm512_mullo_epi32(s, m));
}

/* Eight dwords of a panel, and four of pairs, times a token's 16-bit sums. */
PI __m512i
times_sums(const __m512i *pair, const struct qwen_q8 *x)
{
	__m512i v = _mm512_setzero_si512();
	int j;

#pragma GCC unroll 4
	for (j = 0; j < 4; j++)
		v = _mm512_dpwssd_epi32(v, pair[j], broadcast(x->asum +
		    2 * j));
	return v;
}

/*
 * Sums s[32-block][token][row] of one half, n tokens, into acc[token]; a are
 * the sub-scales as pack_fold() left them.
 */
PI void
fold_k4(int offset, const struct panel *p, size_t g, int half,
    int32_t (*s)[TILE_TOKENS][16], const struct qwen_q8 *const *x,
    const int32_t (*a)[8], size_t n, __m512 (*acc)[2])
{
	__m512i scale[8], pair[4], min[4];
	__m512 d = _mm512_load_ps(p->d[g][0] + 16 * half);
	__m512 dmin = _mm512_load_ps(p->dmin[g] + 16 * half);
	size_t t;
	int j;

#pragma GCC unroll 8
	for (j = 0; j < 8; j++)
		scale[j] = _mm512_load_si512(p->scale[g][j] + 16 * half);
#pragma GCC unroll 4
	for (j = 0; j < 4; j++) {
		min[j] = _mm512_load_si512(p->min[g][j] + 16 * half);
		pair[j] = _mm512_or_si512(scale[2 * j],
		    _mm512_slli_epi32(scale[2 * j + 1], 16));
	}
	for (t = 0; t < n; t++) {
		__m512 by = _mm512_set1_ps(x[t]->d);
		__m512i sum = offset == 0 ? _mm512_setzero_si512() :
		    _mm512_mullo_epi32(times_sums(pair, x[t]),
		    _mm512_set1_epi32(offset));

#pragma GCC unroll 8
		for (j = 0; j < 8; j++)
			sum = add_scaled(offset, sum,
			    _mm512_load_si512(s[j][t]), _mm512_mullo_epi16(
			    scale[j], broadcast(&a[t][j])));
		acc[t][half] = _mm512_fmadd_ps(_mm512_mul_ps(d, by),
		    _mm512_cvtepi32_ps(sum), acc[t][half]);
		acc[t][half] = _mm512_fnmadd_ps(_mm512_mul_ps(dmin, by),
		    _mm512_cvtepi32_ps(times_sums(min, x[t])), acc[t][half]);
	}
}

/* ---- Q8_0 */

/* As float: a_j times a sum of 32 is below 2^24, so nothing is rounded. */
PI void
fold_q8_0(const struct panel *p, size_t g, int half,
    int32_t (*s)[TILE_TOKENS][16], const struct qwen_q8 *const *x,
    const int32_t (*a)[8], size_t n, __m512 (*acc)[2])
{
	__m512 d[8];
	size_t t;
	int j;

#pragma GCC unroll 8
	for (j = 0; j < 8; j++)
		d[j] = _mm512_load_ps(p->d[g][j] + 16 * half);
	for (t = 0; t < n; t++) {
		__m512 part = _mm512_setzero_ps();

#pragma GCC unroll 8
		for (j = 0; j < 8; j++) {
			__m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(
			    _mm512_load_si512(s[j][t])),
			    _mm512_castsi512_ps(broadcast(&a[t][j])));

			part = _mm512_fmadd_ps(d[j], v, part);
		}
		acc[t][half] = _mm512_fmadd_ps(_mm512_set1_ps(x[t]->d), part,
		    acc[t][half]);
	}
}

/*
 * ---- a fold every 32 columns.  All eight products of a group are stored first
 * and folded after that: the processor then has the next group's tiles under
 * way while it folds.
 */

/* One token's group: a sub-scale is an integer, or for Q8_0 a float. */
PI void
pack_fold(uint32_t type, const struct qwen_q8 *x, struct tokens *to,
    size_t tile, size_t g, size_t row)
{
	int8_t *q = to->q[tile][g][row];
	__m256i a = _mm256_cvtepi16_epi32(_mm_loadu_si128(
	    (const __m128i *)x->a));
	size_t i;

	for (i = 0; i < 256; i += 64)
		_mm512_store_si512(q + i, _mm512_load_si512(x->q + i));
	if (type == QT_Q8_0)
		a = _mm256_castps_si256(_mm256_cvtepi32_ps(a));
	_mm256_store_si256((__m256i *)to->a[tile][g][row], a);
}

/* Two sets of tiles in turn: tokens 0 and 4, weights 1 and 5, sums the rest. */
PI void
configure_fold(struct amx_config *c, size_t rows)
{
	int i;

	for (i = 0; i < 8; i += 4) {
		shape(c, i, rows, 32);
		shape(c, i + 1, 8, 64);
		shape(c, i + 2, rows, 64);
		shape(c, i + 3, rows, 64);
	}
}

/* Products of 32 columns, both halves of the panel. */
#define STEP(tok, wei, sum0, sum1, j) do {				\
	amx_load(tok, q + 32 * (j), 256);				\
	amx_load(wei, w[8 * (j)][0], 128);				\
	amx_zero(sum0);							\
	amx_dpbssd(sum0, tok, wei);					\
	amx_store(sum0, s[0][j], 64);					\
	amx_load(wei, w[8 * (j)][1], 128);				\
	amx_zero(sum1);							\
	amx_dpbssd(sum1, tok, wei);					\
	amx_store(sum1, s[1][j], 64);					\
} while (0)

PI void
multiply_fold(uint32_t type, const struct panel *p, const struct tokens *to,
    size_t tile, size_t g, const struct qwen_q8 *const *x, size_t n,
    __m512 (*acc)[2])
{
	int32_t s[2][8][TILE_TOKENS][16] __attribute__((aligned(64)));
	const int8_t *q = to->q[tile][g][0];
	const int8_t (*w)[2][64] = p->w[g];
	int j;

	for (j = 0; j < 8; j += 2) {
		STEP(0, 1, 2, 3, j);
		STEP(4, 5, 6, 7, j + 1);
	}
	for (j = 0; j < 2; j++) {
		if (type == QT_Q8_0)
			fold_q8_0(p, g, j, s[j], x, to->a[tile][g], n, acc);
		else
			fold_k4(offset_k4(type), p, g, j, s[j], x,
			    to->a[tile][g], n, acc);
	}
}

/*
 * ---- Q6_K, by planes.  Its scales of 16 columns would mean tiles a quarter
 * deep.  Instead, with
 *	scale * w = 128 wh + wl	(wh -32 .. 32, wl -64 .. 63)
 *	a_j * q   = 128 xh + xl	(xh -7 .. 7, xl -64 .. 63)
 * the product needs sums of wh xh, of wl xl, and, after Karatsuba, of
 * (wh + wl)(xh + xl), from which the other two are taken away: three products
 * of whole tiles that run on over the 256 columns of a group.  All fit in
 * their bytes, and the sums in 32 bits.
 */

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

/* Weights of Q6_K, which come 32 too large, times their scales. */
PI void
store_planes(struct panel *p, size_t g, size_t j, int half, int quad, __m512i v)
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
	    p->w[3 * g][8 * j + (size_t)quad][half], sizeof p->w[0]);
}

PI void
pack_planes(const struct qwen_q8 *x, struct tokens *to, size_t tile, size_t g,
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
		    to->q[tile][3 * g][row] + 64 * i, sizeof to->q[0][0]);
	}
}

/* Sums 0 .. 2 of the first 16 rows, 3 .. 5 of the others; tokens, weights. */
PI void
configure_planes(struct amx_config *c, size_t rows)
{
	int i;

	for (i = 0; i < 7; i++)
		shape(c, i, rows, 64);
	shape(c, 7, 16, 64);
}

#define PLANE_STEP(plane, sum0, sum1, k) do {					\
	amx_load(6, to->q[tile][3 * g + (plane)][0] + 64 * (k), 256);		\
	amx_load(7, p->w[3 * g + (plane)][16 * (k)][0], 128);			\
	amx_dpbssd(sum0, 6, 7);						\
	amx_load(7, p->w[3 * g + (plane)][16 * (k)][1], 128);			\
	amx_dpbssd(sum1, 6, 7);						\
} while (0)

PI void
multiply_planes(const struct panel *p, const struct tokens *to, size_t tile,
    size_t g, const struct qwen_q8 *const *x, size_t n, __m512 (*acc)[2])
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
		PLANE_STEP(0, 0, 3, k);
		PLANE_STEP(1, 1, 4, k);
		PLANE_STEP(2, 2, 5, k);
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

/* ---- all of them */

PI void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m512i v)
{
	_mm512_store_si512(p->scale[g][type == QT_Q6_K ? 2 * j + k : j] +
	    16 * half, v);
}

PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m512i v)
{
	if (type == QT_Q6_K) {
		store_planes(p, g, j, half, quad, v);
		return;
	}
	if (type == QT_Q4_K)
		v = _mm512_sub_epi8(v, _mm512_set1_epi8(8));
	_mm512_store_si512(p->w[g][8 * j + (size_t)quad][half], v);
}

PI void
multiply(uint32_t type, const struct panel *p, const struct tokens *to,
    size_t tile, size_t g, const struct qwen_q8 *const *x, size_t n,
    __m512 (*acc)[2])
{
	if (type == QT_Q6_K)
		multiply_planes(p, to, tile, g, x, n, acc);
	else
		multiply_fold(type, p, to, tile, g, x, n, acc);
}

PI void
pack_group(uint32_t type, const struct qwen_q8 *x, struct tokens *to,
    size_t tile, size_t g, size_t row)
{
	if (type == QT_Q6_K)
		pack_planes(x, to, tile, g, row);
	else
		pack_fold(type, x, to, tile, g, row);
}

PI void
configure(uint32_t type, struct amx_config *c, size_t rows)
{
	if (type == QT_Q6_K)
		configure_planes(c, rows);
	else
		configure_fold(c, rows);
}

#define ENTRY(name, type, n)						\
	QWEN_ENTRY(name, type, .op = QWEN_OP_GEMM, AMX_SET,		\
	    .min_tok = AMX_MIN_TOK(n), .below = AMX_BELOW(name))

const struct qwen_kernel AMX_KERNELS(gemm_amx)[] = {
	ENTRY(q4_k, QT_Q4_K, 8)
	ENTRY(q5_k, QT_Q5_K, 8)
	ENTRY(q6_k, QT_Q6_K, 16)
	ENTRY(q8_0, QT_Q8_0, 8)
	{ 0 }
};
