/* SPDX-License-Identifier: ISC */
/*
 * panel_vnni.h - many tokens with AVX-512 VNNI, or with AVX-VNNI in registers
 * of half the width: 32 or 16 rows are unpacked into a panel in the cache, then
 * multiplied in tiles of these rows by up to six tokens with VPDPBUSD.
 *
 * The panel has eight quads per 32 weights of a row.  A quad is two registers
 * of LANES rows with four weights per lane, so one dword of a token, broadcast
 * once, is multiplied with all rows.  K is divided into slices, which keeps the
 * panel in L1.  Sums continue in y from slice to slice, and the order of float
 * steps is that of the scalar definition.
 *
 * Two of the four vector ports of a Zen 5 multiply: VPDPBUSD, and the
 * multiplications of its sums over 16 or 32 columns.  Additions, shifts and
 * conversions use the other two ports and cost nothing.  So AVX-512 saves
 * multiplications: many tokens share a table of scale times sub-scale, which is
 * 1 to 7.
 */
#ifndef QWEN_KERNEL_PANEL_VNNI_H
#define QWEN_KERNEL_PANEL_VNNI_H

#include "engine/cpu/kernel/x86/decode.h"

#define MAX_TILE 6
#ifdef __AVX512F__
#define SLICE 2			/* groups of 256 in a panel: K = 512 */
#define TABLES_FROM 32		/* minimum tokens for which the tables pay */
#else
#define SLICE 4
#endif

struct panel {
	uint8_t	w[SLICE][8][8][2][WIDE];	/* group, 32, quad, half,
						   rows*4 */
	uint8_t	scale[SLICE * 8 * 2][WIDE];	/* indexed by scale_at() */
	uint8_t	by_a[SLICE * 8 * 7 * 2][WIDE];	/* accessed by by_a() */
	int32_t	min[SLICE][8][2 * LANES];	/* pairs of int16 */
	float	d[SLICE][16][2 * LANES];	/* of the group, or of each
						   span */
	float	dmin[SLICE][2 * LANES];
	float	m[SLICE][8][2 * LANES];		/* of each 32 weights */
} __attribute__((aligned(64)));

#include "engine/cpu/kernel/x86/unpack.h"
#include "engine/cpu/kernel/x86/panel_loop.h"

/*
 * Returns the pairs of scales per 32 columns.  Integer scales are pairs of
 * int16: a dword has those of row i and row LANES + i, so one multiplication
 * with a sub-scale serves both, and a table fits in the first-level cache.  For
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

/* Returns the lower half of each dword of a, and the upper half of b. */
KERNEL_INLINE wide_i
upper_words(wide_i a, wide_i b)
{
#ifdef __AVX512F__
	return _mm512_mask_blend_epi16(0xaaaaaaaa, a, b);
#else
	return _mm256_blend_epi16(a, b, 0xaa);
#endif
}

KERNEL_INLINE void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, wide_i v)
{
	uint8_t *to = p->scale[scale_at(pairs(type), g, j, k)];

	if (half == 1 || premultiplied(type))
		v = upper_words(premultiplied(type) ? v : load_i(to),
		    MM(slli_epi32)(v, 16));
	store_i(to, v);
}

/* Stores a quad as unsigned weights, for VPDPBUSD. */
KERNEL_INLINE void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, wide_i v)
{
	if (premultiplied(type))
		v = premultiply(type, v, load_i(p->scale[scale_at(2, g, j,
		    (size_t)quad / 4)]));
	if (bias_of(type) == 128)
		v ^= set8(0x80);
	store_i(p->w[g][j][quad][half], v);
}

/* The instructions of the set: sum + products of bytes, or of int16. */
#ifdef __AVX512F__
#define DPBUSD _mm512_dpbusd_epi32
#define DPWSSD _mm512_dpwssd_epi32
#else
#define DPBUSD _mm256_dpbusd_avx_epi32
#define DPWSSD _mm256_dpwssd_avx_epi32
#endif

/*
 * Keeps v in a register: broadcasts for both halves, and sums in their order.
 * gcc would add two sums first, and run out of registers.  With half as many
 * registers, it is the sums over a group that go to memory.
 */
#ifdef __AVX512F__
#define HOLD(v) __asm__("" : "+v"(v))
#define LET_GO(v) HOLD(v)
#elif !defined(__clang__)
#define HOLD(v) ((void)(v))
#define LET_GO(v) __asm__("" : "+m"(v))
#else
#define HOLD(v) ((void)(v))
#define LET_GO(v) ((void)(v))
#endif

KERNEL_INLINE wide_i
broadcast(const void *p)
{
	wide_i v = MM(set1_epi32)(dword_at(p));

	HOLD(v);
	return v;
}

KERNEL_INLINE wide_i
add_pairs(wide_i sum, wide_i a, wide_i b)
{
	return DPWSSD(sum, a, b);
}

/* Adds the products of quads q0 .. q1 - 1 of a 32-block to v[t][half]. */
KERNEL_INLINE void
add_quads(wide_i (*v)[2], const uint8_t (*w)[2][WIDE],
    const int8_t *const *x, int q0, int q1, int n)
{
	int q, t;

	UNROLL
	for (q = q0; q < q1; q++) {
		wide_i w0 = load_i(w[q][0]), w1 = load_i(w[q][1]);

		UNROLL
		for (t = 0; t < n; t++) {
			wide_i b = broadcast(x[t] + 4 * q);

			v[t][0] = DPBUSD(v[t][0], w0, b);
			v[t][1] = DPBUSD(v[t][1], w1, b);
		}
	}
}

/* ---- tables, for many tokens */

/* Returns 1 if the format has tables. */
KERNEL_INLINE int
has_table(uint32_t type)
{
	return qwen_traits[type].by_block ? qwen_traits[type].span == 32 :
	    !premultiplied(type);
}

KERNEL_INLINE void
pair_tables(uint32_t type, struct panel *p, size_t ng)
{
	size_t i, a, n = pairs(type);

	for (i = 0; i < ng * 8 * n; i++) {
		wide_i s = load_i(p->scale[i]), v = s;

		for (a = 0; a < 7; a++) {
			store_i(p->by_a[(i / n * 7 + a) * n +
			    i % n], v);
			v = MM(add_epi16)(v, s);
		}
	}
}

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
			wide_f d = MM(load_ps)(p->d[i / 8][i % 8] + LANES * h);

			for (a = 0; a < 7; a++)
				MM(store_ps)((float *)(void *)p->by_a[
				    (i * 7 + a) * 2 + h], MM(mul_ps)(d,
				    MM(set1_ps)((float)(a + 1))));
		}
	}
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

/* ---- sums of products, times their scales */

/*
 * sum[half] += v[half] * a, where v has premultiplied weights; Q3_K has the
 * opposite sign
 */
KERNEL_INLINE void
add_premultiplied(uint32_t type, wide_i *sum, const wide_i *v, int16_t a)
{
	const wide_i by = MM(set1_epi32)(a);
	int h;

	UNROLL
	for (h = 0; h < 2; h++) {
		wide_i s = MM(mullo_epi32)(v[h], by);

		sum[h] = type == QT_Q3_K ? MM(sub_epi32)(sum[h], s) :
		    MM(add_epi32)(sum[h], s);
		LET_GO(sum[h]);
	}
}

/* sum[half] += v[half] * scale * a */
KERNEL_INLINE void
add_scaled(uint32_t type, wide_i *sum, const wide_i *v,
    const struct panel *p, size_t g, int j, int k, int16_t a, int many)
{
	const size_t n = pairs(type);
	wide_i s = many ? load_i(by_a(p, n, g, (size_t)j, a, k)) :
	    MM(mullo_epi16)(load_i(p->scale[scale_at(n, g,
	    (size_t)j, (size_t)k)]), MM(set1_epi16)(a));
	wide_i lo, hi;

	if (qwen_traits[type].signed_scale) {
		lo = MM(srai_epi32)(MM(slli_epi32)(s, 16), 16);
		hi = MM(srai_epi32)(s, 16);
	} else {
		lo = s & MM(set1_epi32)(0xffff);
		hi = MM(srli_epi32)(s, 16);
	}
	sum[0] = MM(add_epi32)(sum[0], MM(mullo_epi32)(v[0], lo));
	LET_GO(sum[0]);
	sum[1] = MM(add_epi32)(sum[1], MM(mullo_epi32)(v[1], hi));
	LET_GO(sum[1]);
}

/*
 * Returns the start of the sums of part k of 32-block j: minus the excess due
 * to the bias.
 */
KERNEL_INLINE wide_i
bias_start(uint32_t type, const struct qwen_q8 *x, int j, int k)
{
	const int bias = bias_of(type);
	wide_i v;

	if (bias == 0)
		return set8(0);
	if (parts_of(type) == 2)		/* -32 times the sum of 16 */
		v = MM(slli_epi32)(MM(set1_epi32)(x->off6[2 * j + k]),
		    2);
	else					/* -128 times the sum of 32 */
		v = MM(set1_epi32)(x->off8[j]);
	return bias == 128 ? v : MM(srai_epi32)(v,
	    (unsigned)__builtin_ctz(128u / (unsigned)bias));
}

/* Sets v[t] to the sums of part k, n_quad quads, of 32-block j. */
KERNEL_INLINE void
part_sums(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int j, int k, int n_quad, int n,
    wide_i (*v)[2])
{
	const int8_t *act[MAX_TILE];
	int t;

	UNROLL
	for (t = 0; t < n; t++) {
		act[t] = x[t]->q + 32 * j;
		v[t][0] = v[t][1] = bias_start(type, x[t], j, k);
	}
	add_quads(v, p->w[g][j], act, n_quad * k, n_quad * (k + 1), n);
}

/* ---- 256 weights per d */

KERNEL_INLINE void
fold_super(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, wide_f (*acc)[2],
    struct ahead *ahead)
{
	const int parts = parts_of(type);
	wide_i sum[MAX_TILE][2], v[MAX_TILE][2];
	int j, t, k;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = set8(0);
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

/* part[half] += v[half] * a * scale i, where v * a is below 2^24 */
KERNEL_INLINE void
add_to_part(wide_f *part, const wide_i *v, const struct panel *p, size_t g,
    int i, int16_t a, int many)
{
	int h;

	UNROLL
	for (h = 0; h < 2; h++) {
		wide_f d = many ? MM(load_ps)((const void *)by_a(p, 2, g,
		    (size_t)i, a, h)) :
		    MM(load_ps)(p->d[g][i] + LANES * h);

		part[h] = MM(fmadd_ps)(d, MM(cvtepi32_ps)(many ? v[h] :
		    MM(mullo_epi32)(v[h], MM(set1_epi32)(a))), part[h]);
		HOLD(part[h]);
	}
}

/*
 * Adds block j to the sums over the blocks of a longer span; a complete span is
 * added to part.
 */
KERNEL_INLINE void
add_long(uint32_t type, wide_f *part, const wide_i *v, const struct panel *p,
    size_t g, int j, int16_t a, wide_i *run)
{
	const int n = (int)qwen_traits[type].span / 32;
	int h;

	for (h = 0; h < 2; h++) {
		wide_i s = MM(mullo_epi32)(v[h], MM(set1_epi32)(a));

		run[h] = j % n == 0 ? s : MM(add_epi32)(run[h], s);
	}
	if (j % n == n - 1)
		add_to_part(part, run, p, g, j / n, 1, 0);
}

KERNEL_INLINE void
fold_block(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, wide_f (*acc)[2],
    struct ahead *ahead)
{
	const int parts = (int)pairs(type);
	wide_i v[MAX_TILE][2], run[MAX_TILE][2];
	wide_f part[MAX_TILE][2];
	int j, t, k;

	for (t = 0; t < n; t++) {
		part[t][0] = part[t][1] = MM(setzero_ps)();
		run[t][0] = run[t][1] = set8(0);
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
fold(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, wide_f (*acc)[2],
    struct ahead *ahead)
{
	if (qwen_traits[type].by_block)
		fold_block(type, p, g, x, n, many, acc, ahead);
	else
		fold_super(type, p, g, x, n, many, acc, ahead);
}

#ifdef __AVX512F__
#define SET QWEN_AVX512VNNI
#else
#define SET QWEN_AVXVNNI
#endif
#define PANEL_KERNELS(FORMATS, n)					\
	FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .min_tok = n, SET)	\
	{ 0 }

#endif
