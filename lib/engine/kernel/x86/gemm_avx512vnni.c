/* SPDX-License-Identifier: ISC */
/*
 * gemm_avx512vnni.c - y = Wx for many tokens, AVX-512 VNNI: 32 rows unpacked
 * into a panel in cache, then tiles of 32 rows by up to six tokens with
 * VPDPBUSD.
 *
 * The panel holds, for every 32 weights of a row, eight quads; a quad is two
 * registers of 16 rows with four weights a lane, so one dword of a token,
 * broadcast once, is multiplied with 32 rows.  K is cut into slices, which
 * keeps the panel in L1; sums go on in y from one slice to the next, and the
 * order of float steps stays that of the scalar definition.
 *
 * Of a Zen 5's four vector ports two multiply: VPDPBUSD, and what its sums over
 * 32 columns or 16 are multiplied with.  Additions, shifts and conversions go
 * to the other two and cost nothing, so multiplications are what is saved:
 * many tokens share a table of scale times sub-scale, which is 1 to 7.
 */
#include "engine/kernel/x86/wide.h"

#define SLICE 2			/* groups of 256 in a panel: K = 512 */
#define MAX_TILE 6
#define TABLES_FROM 32		/* tokens that pay for making the tables */

struct panel {
	uint8_t	w[SLICE][8][8][2][64];	/* group, 32, quad, half, rows*4 */
	uint8_t	scale[SLICE * 8 * 2][64];	/* scale_at() */
	uint8_t	by_a[SLICE * 8 * 7 * 2][64];	/* by_a() */
	int32_t	min[SLICE][4][32];	/* pairs of int16 */
	float	d[SLICE][8][32];	/* of the group, or each 32 */
	float	dmin[SLICE][32];
} __attribute__((aligned(64)));

#include "engine/kernel/x86/unpack.h"
#include "engine/kernel/x86/panel_loop.h"

/*
 * Integer scales are pairs of int16: a dword has those of row i and row 16 + i,
 * so one multiplication with a sub-scale serves both, and a table is small
 * enough for the first cache.  This many pairs are for 32 columns.
 */
PI size_t
pairs(uint32_t type)
{
	return type == QT_Q6_K ? 2 : 1;
}

/* Pair k of 32-block j, where each block has n of them. */
PI size_t
scale_at(size_t n, size_t g, size_t j, size_t k)
{
	return (g * 8 + j) * n + k;
}

/* That, or the f32 scales of half k, times a, which is 1 to 7. */
PI const uint8_t *
by_a(const struct panel *p, size_t n, size_t g, size_t j, int16_t a, int k)
{
	return p->by_a[((g * 8 + j) * 7 + (size_t)a - 1) * n + (size_t)k];
}

PI void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m512i v)
{
	uint8_t *to = p->scale[scale_at(pairs(type), g, j, k)];

	if (half == 1)
		v = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_load_si512(to),
		    _mm512_slli_epi32(v, 16));
	_mm512_store_si512(to, v);
}

/* VPDPBUSD wants weights unsigned: those of Q8_0 become 128 too large. */
PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m512i v)
{
	if (type == QT_Q8_0)
		v = _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80));
	_mm512_store_si512(p->w[g][j][quad][half], v);
}

/* Kept in a register for both halves. */
PI __m512i
broadcast(const void *p)
{
	__m512i v = _mm512_set1_epi32(dword_at(p));

	__asm__("" : "+v"(v));
	return v;
}

PI __m512i
add_pairs(__m512i sum, __m512i a, __m512i b)
{
	return _mm512_dpwssd_epi32(sum, a, b);
}

/* x[t][0], x[t][1]: 32 rows' sums over quads q0 .. q1-1 of a 32-block. */
#define QUADS(x, panel_w, q0, q1, act, n) do {				\
	UNROLL								\
	for (int q_ = (q0); q_ < (q1); q_++) {				\
		__m512i w0_ = _mm512_load_si512((panel_w)[q_][0]);	\
		__m512i w1_ = _mm512_load_si512((panel_w)[q_][1]);	\
		UNROLL							\
		for (int t_ = 0; t_ < (n); t_++) {			\
			__m512i a_ = broadcast((act)[t_] + 4 * q_);	\
			x[t_][0] = _mm512_dpbusd_epi32(x[t_][0], w0_, a_); \
			x[t_][1] = _mm512_dpbusd_epi32(x[t_][1], w1_, a_); \
		}							\
	}								\
} while (0)

/* gcc would add two sums to each other first, and run out of registers. */
#define HOLD(sum) __asm__("" : "+v"(sum))

PI void
pair_tables(uint32_t type, struct panel *p, size_t ng)
{
	size_t i, a, n = pairs(type);

	for (i = 0; i < ng * 8 * n; i++) {
		__m512i s = _mm512_load_si512(p->scale[i]), v = s;

		for (a = 0; a < 7; a++) {
			_mm512_store_si512(p->by_a[(i / n * 7 + a) * n +
			    i % n], v);
			v = _mm512_add_epi16(v, s);
		}
	}
}

/* sum[half] += v[half] * scale * a */
PI void
add_scaled(uint32_t type, __m512i *sum, const __m512i *v,
    const struct panel *p, size_t g, int j, int k, int16_t a, int many)
{
	const size_t n = pairs(type);
	__m512i s = many ? _mm512_load_si512(by_a(p, n, g, (size_t)j, a, k)) :
	    _mm512_mullo_epi16(_mm512_load_si512(p->scale[scale_at(n, g,
	    (size_t)j, (size_t)k)]), _mm512_set1_epi16(a));
	__m512i lo, hi;

	if (type == QT_Q6_K) {		/* signed */
		lo = _mm512_srai_epi32(_mm512_slli_epi32(s, 16), 16);
		hi = _mm512_srai_epi32(s, 16);
	} else {
		lo = _mm512_and_si512(s, _mm512_set1_epi32(0xffff));
		hi = _mm512_srli_epi32(s, 16);
	}
	sum[0] = _mm512_add_epi32(sum[0], _mm512_mullo_epi32(v[0], lo));
	HOLD(sum[0]);
	sum[1] = _mm512_add_epi32(sum[1], _mm512_mullo_epi32(v[1], hi));
	HOLD(sum[1]);
}

/* ---- Q4_K and Q5_K */

PI void
fold_k4(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    int many, __m512 (*acc)[2], struct ahead *ahead)
{
	__m512i sum[MAX_TILE][2];
	int j, t;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];

		fetch_ahead(ahead);
		UNROLL
		for (t = 0; t < n; t++) {
			act[t] = x[t]->q + 32 * j;
			v[t][0] = v[t][1] = _mm512_setzero_si512();
		}
		QUADS(v, p->w[g][j], 0, 8, act, n);
		UNROLL
		for (t = 0; t < n; t++)
			add_scaled(QT_Q4_K, sum[t], v[t], p, g, j, 0,
			    x[t]->a[j], many);
	}
	add_group(p, g, x, n, 1, sum, acc);
}

/* ---- Q6_K */

/* Weights are 0 .. 63 in the panel: sums start at what comes off. */
PI void
fold_q6_k(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n, int many, __m512 (*acc)[2], struct ahead *ahead)
{
	__m512i sum[MAX_TILE][2];
	int j, t, k;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];

		fetch_ahead(ahead);
		UNROLL
		for (k = 0; k < 2; k++) {
			UNROLL
			for (t = 0; t < n; t++) {
				act[t] = x[t]->q + 32 * j;
				v[t][0] = v[t][1] = _mm512_set1_epi32(
				    x[t]->off6[2 * j + k]);
			}
			QUADS(v, p->w[g][j], 4 * k, 4 * k + 4, act, n);
			UNROLL
			for (t = 0; t < n; t++)
				add_scaled(QT_Q6_K, sum[t], v[t], p, g, j, k,
				    x[t]->a[j], many);
		}
	}
	add_group(p, g, x, n, 0, sum, acc);
}

/* ---- Q8_0 */

/* f16 times 1 to 7 is exact in f32. */
PI void
float_tables(struct panel *p, size_t ng)
{
	size_t i, h, a;

	for (i = 0; i < ng * 8; i++) {
		for (h = 0; h < 2; h++) {
			__m512 d = _mm512_load_ps(p->d[i / 8][i % 8] + 16 * h);

			for (a = 0; a < 7; a++)
				_mm512_store_ps((float *)(void *)p->by_a[
				    (i * 7 + a) * 2 + h], _mm512_mul_ps(d,
				    _mm512_set1_ps((float)(a + 1))));
		}
	}
}

/* part[half] += v[half] * a * scale, where v * a is below 2^24 */
PI void
add_to_part(__m512 *part, const __m512i *v, const struct panel *p, size_t g,
    int j, int16_t a, int many)
{
	int h;

	UNROLL
	for (h = 0; h < 2; h++) {
		__m512 d = many ? _mm512_load_ps((const void *)by_a(p, 2, g,
		    (size_t)j, a, h)) :
		    _mm512_load_ps(p->d[g][j] + 16 * h);

		part[h] = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(many ? v[h] :
		    _mm512_mullo_epi32(v[h], _mm512_set1_epi32(a))), part[h]);
		HOLD(part[h]);
	}
}

/* Weights are 128 too large in the panel: sums start at what comes off. */
PI void
fold_q8_0(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n, int many, __m512 (*acc)[2], struct ahead *ahead)
{
	__m512 part[MAX_TILE][2];
	int j, t;

	for (t = 0; t < n; t++)
		part[t][0] = part[t][1] = _mm512_setzero_ps();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];

		fetch_ahead(ahead);
		UNROLL
		for (t = 0; t < n; t++) {
			act[t] = x[t]->q + 32 * j;
			v[t][0] = v[t][1] = _mm512_set1_epi32(x[t]->off8[j]);
		}
		QUADS(v, p->w[g][j], 0, 8, act, n);
		UNROLL
		for (t = 0; t < n; t++)
			add_to_part(part[t], v[t], p, g, j, x[t]->a[j], many);
	}
	UNROLL
	for (t = 0; t < n; t++) {
		__m512 scale = _mm512_set1_ps(x[t]->d);

		acc[t][0] = _mm512_fmadd_ps(scale, part[t][0], acc[t][0]);
		acc[t][1] = _mm512_fmadd_ps(scale, part[t][1], acc[t][1]);
	}
}

PI void
tables(uint32_t type, struct panel *p, size_t ng)
{
	if (type == QT_Q8_0)
		float_tables(p, ng);
	else
		pair_tables(type, p, ng);
}

PI void
fold(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, __m512 (*acc)[2],
    struct ahead *ahead)
{
	if (type == QT_Q6_K)
		fold_q6_k(p, g, x, n, many, acc, ahead);
	else if (type == QT_Q8_0)
		fold_q8_0(p, g, x, n, many, acc, ahead);
	else
		fold_k4(p, g, x, n, many, acc, ahead);
}

/* In the order of QWEN_FORMATS: see amx.h. */
const struct qwen_kernel qwen_gemm_avx512vnni_kernels[] = {
	QWEN_FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .min_tok = 4,
	    QWEN_AVX512VNNI)
	{ 0 }
};
