/* SPDX-License-Identifier: ISC */
/*
 * panel512.h - many tokens with AVX-512 VNNI: 32 rows are unpacked into a panel
 * in the cache, then multiplied in tiles of 32 rows by up to six tokens with
 * VPDPBUSD.
 *
 * The panel has eight quads per 32 weights of a row.  A quad is two registers
 * of 16 rows with four weights per lane, so one dword of a token, broadcast
 * once, is multiplied with 32 rows.  K is divided into slices, which keeps the
 * panel in L1.  Sums continue in y from slice to slice, and the order of float
 * steps is that of the scalar definition.
 *
 * Two of the four vector ports of a Zen 5 multiply: VPDPBUSD, and the
 * multiplications of its sums over 16 or 32 columns.  Additions, shifts and
 * conversions use the other two ports and cost nothing.  So multiplications are
 * saved: many tokens share a table of scale times sub-scale, which is 1 to 7.
 */
#ifndef QWEN_KERNEL_PANEL512_H
#define QWEN_KERNEL_PANEL512_H

#include "engine/cpu/kernel/x86/decode.h"

#define SLICE 2			/* groups of 256 in a panel: K = 512 */
#define MAX_TILE 6
#define TABLES_FROM 32		/* minimum tokens for which the tables pay */

struct panel {
	uint8_t	w[SLICE][8][8][2][64];	/* group, 32, quad, half, rows*4 */
	uint8_t	scale[SLICE * 8 * 2][64];	/* indexed by scale_at() */
	uint8_t	by_a[SLICE * 8 * 7 * 2][64];	/* accessed by by_a() */
	int32_t	min[SLICE][8][32];	/* pairs of int16 */
	float	d[SLICE][16][32];	/* of the group, or of each span */
	float	dmin[SLICE][32];
	float	m[SLICE][8][32];	/* of each 32 weights */
} __attribute__((aligned(64)));

#include "engine/cpu/kernel/x86/unpack.h"
#include "engine/cpu/kernel/x86/panel_loop.h"

/*
 * Returns the pairs of scales per 32 columns.  Integer scales are pairs of
 * int16: a dword has those of row i and row 16 + i, so one multiplication with
 * a sub-scale serves both, and a table fits in the first-level cache.  For
 * formats whose panels hold products, a pair has one row's scale twice, used
 * only until half a panel is unpacked.
 */
KERNEL_INLINE size_t
pairs(uint32_t type)
{
	return qwen_traits[type].span == 16 ? 2 : 1;
}

/* Returns the parts of 32 columns whose sums have a scale each. */
KERNEL_INLINE int
parts_of(uint32_t type)
{
	return premultiplied(type) ? 1 : (int)pairs(type);
}

/* Returns the bias of weights in the panel. */
KERNEL_INLINE int
bias_of(uint32_t type)
{
	return type == QT_Q3_K ? 128 : qwen_traits[type].bias;
}

/* Returns the index of pair k of 32-block j, with n pairs per block. */
KERNEL_INLINE size_t
scale_at(size_t n, size_t g, size_t j, size_t k)
{
	return (g * 8 + j) * n + k;
}

/* Returns pair k, or the f32 scales of half k, times a, which is 1 to 7. */
KERNEL_INLINE const uint8_t *
by_a(const struct panel *p, size_t n, size_t g, size_t j, int16_t a, int k)
{
	return p->by_a[((g * 8 + j) * 7 + (size_t)a - 1) * n + (size_t)k];
}

KERNEL_INLINE void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m512i v)
{
	uint8_t *to = p->scale[scale_at(pairs(type), g, j, k)];

	if (half == 1 || premultiplied(type))
		v = _mm512_mask_blend_epi16(0xaaaaaaaa,
		    premultiplied(type) ? v : _mm512_load_si512(to),
		    _mm512_slli_epi32(v, 16));
	_mm512_store_si512(to, v);
}

/* Stores a quad as unsigned weights, for VPDPBUSD. */
KERNEL_INLINE void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m512i v)
{
	if (premultiplied(type))
		v = premultiply(type, v, _mm512_load_si512(p->scale[
		    scale_at(2, g, j, (size_t)quad / 4)]));
	if (bias_of(type) == 128)
		v ^= set8(0x80);
	_mm512_store_si512(p->w[g][j][quad][half], v);
}

/* Keeps the broadcast in a register for both halves. */
KERNEL_INLINE __m512i
broadcast(const void *p)
{
	__m512i v = _mm512_set1_epi32(dword_at(p));

	__asm__("" : "+v"(v));
	return v;
}

KERNEL_INLINE __m512i
add_pairs(__m512i sum, __m512i a, __m512i b)
{
	return _mm512_dpwssd_epi32(sum, a, b);
}

/* x[t][0], x[t][1]: adds 32 rows' sums over quads q0 .. q1-1 of a 32-block. */
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

/*
 * Keeps the order of sums: gcc would add two sums first, and run out of
 * registers.
 */
#define HOLD(sum) __asm__("" : "+v"(sum))

KERNEL_INLINE void
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

/*
 * sum[half] += v[half] * a, where v has premultiplied weights; Q3_K has the
 * opposite sign
 */
KERNEL_INLINE void
add_premultiplied(uint32_t type, __m512i *sum, const __m512i *v, int16_t a)
{
	const __m512i by = _mm512_set1_epi32(a);
	int h;

	UNROLL
	for (h = 0; h < 2; h++) {
		__m512i s = _mm512_mullo_epi32(v[h], by);

		sum[h] = type == QT_Q3_K ? _mm512_sub_epi32(sum[h], s) :
		    _mm512_add_epi32(sum[h], s);
		HOLD(sum[h]);
	}
}

/* sum[half] += v[half] * scale * a */
KERNEL_INLINE void
add_scaled(uint32_t type, __m512i *sum, const __m512i *v,
    const struct panel *p, size_t g, int j, int k, int16_t a, int many)
{
	const size_t n = pairs(type);
	__m512i s = many ? _mm512_load_si512(by_a(p, n, g, (size_t)j, a, k)) :
	    _mm512_mullo_epi16(_mm512_load_si512(p->scale[scale_at(n, g,
	    (size_t)j, (size_t)k)]), _mm512_set1_epi16(a));
	__m512i lo, hi;

	if (qwen_traits[type].signed_scale) {
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

/*
 * Returns the start of the sums of part k of 32-block j: minus the excess due
 * to the bias.
 */
KERNEL_INLINE __m512i
bias_start(uint32_t type, const struct qwen_q8 *x, int j, int k)
{
	const int bias = bias_of(type);
	__m512i v;

	if (bias == 0)
		return _mm512_setzero_si512();
	if (parts_of(type) == 2)		/* -32 times the sum of 16 */
		v = _mm512_slli_epi32(_mm512_set1_epi32(x->off6[2 * j + k]),
		    2);
	else					/* -128 times the sum of 32 */
		v = _mm512_set1_epi32(x->off8[j]);
	return bias == 128 ? v : _mm512_srai_epi32(v,
	    (unsigned)__builtin_ctz(128u / (unsigned)bias));
}

/* Sets v[t] to the sums of part k, n_quad quads, of 32-block j. */
KERNEL_INLINE void
part_sums(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int j, int k, int n_quad, int n,
    __m512i (*v)[2])
{
	const int8_t *act[MAX_TILE];
	int t;

	UNROLL
	for (t = 0; t < n; t++) {
		act[t] = x[t]->q + 32 * j;
		v[t][0] = v[t][1] = bias_start(type, x[t], j, k);
	}
	QUADS(v, p->w[g][j], n_quad * k, n_quad * (k + 1), act, n);
}

/* ---- 256 weights per d */

KERNEL_INLINE void
fold_super(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, __m512 (*acc)[2],
    struct ahead *ahead)
{
	const int parts = parts_of(type);
	__m512i sum[MAX_TILE][2], v[MAX_TILE][2];
	int j, t, k;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		UNROLL
		for (k = 0; k < parts; k++) {
			part_sums(type, p, g, x, j, k, 8 / parts, n, v);
			UNROLL
			for (t = 0; t < n; t++) {
				if (premultiplied(type))
					add_premultiplied(type, sum[t], v[t],
					    x[t]->a[j]);
				else
					add_scaled(type, sum[t], v[t], p, g, j,
					    k, x[t]->a[j], many);
			}
		}
	}
	add_group(type, p, g, x, n, sum, acc);
}

/* ---- fewer weights per d */

/*
 * Makes tables of f32 scales times 1 to 7, which is exact for an f16 and a
 * power of two.
 */
KERNEL_INLINE void
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

/* Returns 1 if the format has tables. */
KERNEL_INLINE int
has_table(uint32_t type)
{
	return qwen_traits[type].by_block ? qwen_traits[type].span == 32 :
	    !premultiplied(type);
}

/* part[half] += v[half] * a * scale i, where v * a is below 2^24 */
KERNEL_INLINE void
add_to_part(__m512 *part, const __m512i *v, const struct panel *p, size_t g,
    int i, int16_t a, int many)
{
	int h;

	UNROLL
	for (h = 0; h < 2; h++) {
		__m512 d = many ? _mm512_load_ps((const void *)by_a(p, 2, g,
		    (size_t)i, a, h)) :
		    _mm512_load_ps(p->d[g][i] + 16 * h);

		part[h] = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(many ? v[h] :
		    _mm512_mullo_epi32(v[h], _mm512_set1_epi32(a))), part[h]);
		HOLD(part[h]);
	}
}

/*
 * Adds block j to the sums over the blocks of a longer span; a complete span is
 * added to part.
 */
KERNEL_INLINE void
add_long(uint32_t type, __m512 *part, const __m512i *v, const struct panel *p,
    size_t g, int j, int16_t a, __m512i *run)
{
	const int n = (int)qwen_traits[type].span / 32;
	int h;

	for (h = 0; h < 2; h++) {
		__m512i s = _mm512_mullo_epi32(v[h], _mm512_set1_epi32(a));

		run[h] = j % n == 0 ? s : _mm512_add_epi32(run[h], s);
	}
	if (j % n == n - 1)
		add_to_part(part, run, p, g, j / n, 1, 0);
}

KERNEL_INLINE void
fold_block(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, __m512 (*acc)[2],
    struct ahead *ahead)
{
	const int parts = (int)pairs(type);
	__m512i v[MAX_TILE][2], run[MAX_TILE][2];
	__m512 part[MAX_TILE][2];
	int j, t, k;

	for (t = 0; t < n; t++) {
		part[t][0] = part[t][1] = _mm512_setzero_ps();
		run[t][0] = run[t][1] = _mm512_setzero_si512();
	}
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		UNROLL
		for (k = 0; k < parts; k++) {
			part_sums(type, p, g, x, j, k, 8 / parts, n, v);
			UNROLL
			for (t = 0; t < n; t++) {
				if (qwen_traits[type].span > 32)
					add_long(type, part[t], v[t], p, g, j,
					    x[t]->a[j], run[t]);
				else
					add_to_part(part[t], v[t], p, g,
					    j * parts + k, x[t]->a[j], many &&
					    has_table(type));
			}
		}
	}
	add_parts(type, p, g, x, n, part, acc);
}

KERNEL_INLINE void
tables(uint32_t type, struct panel *p, size_t ng)
{
	if (!has_table(type))
		return;
	if (qwen_traits[type].by_block)
		float_tables(p, ng);
	else
		pair_tables(type, p, ng);
}

KERNEL_INLINE void
fold(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, __m512 (*acc)[2],
    struct ahead *ahead)
{
	if (qwen_traits[type].by_block)
		fold_block(type, p, g, x, n, many, acc, ahead);
	else
		fold_super(type, p, g, x, n, many, acc, ahead);
}

#define PANEL_KERNELS(FORMATS, n)					\
	FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .min_tok = n,		\
	    QWEN_AVX512VNNI)						\
	{ 0 }

#endif
