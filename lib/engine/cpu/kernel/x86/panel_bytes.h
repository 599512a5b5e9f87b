/* SPDX-License-Identifier: ISC */
/*
 * panel_bytes.h - many tokens in 256-bit registers without AVX-VNNI, for
 * weights of at most 7 bits: VPMADDUBSW multiplies bytes and adds pairs of
 * products.
 *
 * As in panel_vnni.h, 16 rows are unpacked into a panel in the cache, and tiles
 * are 16 rows by a few tokens.  A quad of columns is two registers of 8 rows
 * with four weights per lane.  Sums stay in 16 bits, half the work of 32 bits,
 * over as many columns as 16 bits can hold the sums of unbiased weights.
 * Additions wrap, so the part of the bias can be subtracted at the end.  The
 * multiplication with the factors then widens the sums.
 */
#ifndef QWEN_KERNEL_PANEL_BYTES_H
#define QWEN_KERNEL_PANEL_BYTES_H

#include "engine/cpu/kernel/x86/decode.h"

#define SLICE 4			/* groups of 256 in a panel: K = 1024 */
#define MAX_TILE 4		/* tokens of a tile */

struct panel {
	uint8_t	w[SLICE][8][8][2][32];	/* group, 32, quad, half, rows*4 */
	int32_t	scale[SLICE][8][16];	/* a pair of int16: of two 16s, or of
					   32, twice */
	int32_t	min[SLICE][8][16];	/* pairs of int16 */
	float	d[SLICE][16][16];	/* of the group, or of each span */
	float	dmin[SLICE][16];
	float	m[SLICE][8][16];	/* of each 32 weights */
} __attribute__((aligned(64)));

/* A packed group of a token. */
struct bytes {
	int8_t	q[QWEN_GROUP];
	int32_t	a[8];		/* int16, twice */
	/*
	 * sums of half a 32-block's quads, and of a whole one: of the first and
	 * second columns of quads, and of the third and fourth
	 */
	int16_t	sum4[16][2], sum8[8][2];
	int16_t	asum16[16], asum[8];
	float	d;
} __attribute__((aligned(64)));
#define TOKEN struct bytes

/*
 * Returns the number of quads, a power of two, whose sums of unbiased weights
 * fit in 16 bits.  If that is only 2, returns 1: each product is widened, which
 * is not slower.
 */
KERNEL_INLINE int
run_of(uint32_t type)
{
	const int bias = qwen_traits[type].bias;
	const int most = qwen_traits[type].most - bias;
	int n = 8;

	while (n * 2 * 127 * (most > bias ? most : bias) > 32767)
		n /= 2;
	return n < 4 ? 1 : n;
}

#define TILE(type) (run_of(type) > 1 ? MAX_TILE : 3)

#include "engine/cpu/kernel/x86/unpack.h"
#include "engine/cpu/kernel/x86/panel_loop.h"

KERNEL_INLINE void
pack_tokens(int halves, struct bytes *p, const void *const *from, size_t n,
    size_t groups)
{
	const __m256i one = _mm256_set1_epi8(1);
	size_t t, g, j;

	for (t = 0; t < n; t++) {
		const struct qwen_q8 *x = from[t];

		for (g = 0; g < groups; g++, x++, p++) {
			for (j = 0; j < 8; j++) {
				__m256i v = load_i(x->q + 32 * j), s;
				__m128i a = _mm256_castsi256_si128(v);
				__m128i b = _mm256_extracti128_si256(v, 1);

				if (halves)
					v = _mm256_set_m128i(
					    _mm_unpackhi_epi16(a, b),
					    _mm_unpacklo_epi16(a, b));
				store_i(p->q + 32 * j, v);
				s = _mm256_maddubs_epi16(one, v);
				s = _mm256_add_epi16(s,
				    _mm256_shuffle_epi32(s, 0x4e));
				s = _mm256_add_epi16(s,
				    _mm256_shuffle_epi32(s, 0xb1));
				a = _mm256_castsi256_si128(s);
				b = _mm256_extracti128_si256(s, 1);
				_mm_storel_epi64((__m128i *)p->sum4[2 * j],
				    _mm_unpacklo_epi32(a, b));
				_mm_storeu_si32(p->sum8[j],
				    _mm_add_epi16(a, b));
				p->a[j] = x->a[j] * 0x10001;
			}
			memcpy(p->asum16, x->asum16, sizeof p->asum16);
			memcpy(p->asum, x->asum, sizeof p->asum);
			p->d = x->d;
		}
	}
}

static void
pack_quads(void *to, const void *const *from, size_t n, size_t groups)
{
	pack_tokens(0, to, from, n, groups);
}

static void
pack_halves(void *to, const void *const *from, size_t n, size_t groups)
{
	pack_tokens(1, to, from, n, groups);
}

static const struct qwen_packing packing_quads = {
	.kind = QWEN_PACK_QUADS,
	.bytes = QWEN_PACK_TOKENS * sizeof(struct bytes), .pack = pack_quads,
}, packing_halves = {
	.kind = QWEN_PACK_HALVES,
	.bytes = QWEN_PACK_TOKENS * sizeof(struct bytes), .pack = pack_halves,
};

/*
 * Returns 1 if a quad has two columns of the first 16 of a 32-block and the two
 * matching columns of the second 16.  With a scale per 16 columns, each pair in
 * a lane then belongs to one scale.
 */
KERNEL_INLINE int
by_halves(uint32_t type)
{
	return qwen_traits[type].span == 16 && run_of(type) > 1;
}

/* Returns v * bias, of which the low bits are used. */
KERNEL_INLINE __m256i
times_bias(uint32_t type, __m256i v)
{
	return _mm256_slli_epi16(v,
	    __builtin_ctz((unsigned)qwen_traits[type].bias));
}

/*
 * Sets v[t][half] to the sums of 16 rows over a run from quad q of 32-block j,
 * in pairs.
 */
KERNEL_INLINE void
run_sums(uint32_t type, const struct panel *p, size_t g,
    const struct bytes *const *x, int j, int q, int n, __m256i (*v)[2])
{
	const int run = run_of(type);
	int i, t, h;

	UNROLL
	for (i = 0; i < run; i++) {
		const __m256i w[2] = { load_i(p->w[g][j][q + i][0]),
		    load_i(p->w[g][j][q + i][1]) };

		UNROLL
		for (t = 0; t < n; t++) {
			__m256i b = broadcast(x[t]->q + 32 * j + 4 * (q + i));

			UNROLL
			for (h = 0; h < 2; h++) {
				__m256i s = _mm256_maddubs_epi16(w[h], b);

				v[t][h] = i == 0 ? s :
				    _mm256_add_epi16(v[t][h], s);
				IN_ORDER(v[t][h]);
			}
		}
	}
	if (qwen_traits[type].bias == 0)
		return;
	UNROLL
	for (t = 0; t < n; t++) {
		__m256i b = times_bias(type, broadcast(run == 8 ?
		    x[t]->sum8[j] : x[t]->sum4[2 * j + q / 4]));

		v[t][0] = _mm256_sub_epi16(v[t][0], b);
		v[t][1] = _mm256_sub_epi16(v[t][1], b);
	}
}

/* ---- 256 weights per d: sum += scale * a * w * q */

/* Returns a times the scales, in pairs. */
KERNEL_INLINE __m256i
factor(const struct panel *p, size_t g, const struct bytes *x, int j, int half)
{
	return _mm256_mullo_epi16(load_i(p->scale[g][j] + 8 * half),
	    broadcast(x->a + j));
}

KERNEL_INLINE void
add_runs(uint32_t type, const struct panel *p, size_t g,
    const struct bytes *const *x, int j, int n, __m256i (*sum)[2])
{
	const int run = run_of(type);
	__m256i v[MAX_TILE][2], by[MAX_TILE][2];
	int q, t, h;

	UNROLL
	for (q = 0; q < 8; q += run) {
		run_sums(type, p, g, x, j, q, n, v);
		UNROLL
		for (t = 0; t < n; t++) {
			UNROLL
			for (h = 0; h < 2; h++) {
				if (q == 0)
					by[t][h] = factor(p, g, x[t], j, h);
				sum[t][h] = add_pairs(sum[t][h], v[t][h],
				    by[t][h]);
			}
		}
	}
}

/* The same, with each product widened; the bias is still included. */
KERNEL_INLINE void
add_products(uint32_t type, const struct panel *p, size_t g,
    const struct bytes *const *x, int j, int n, __m256i (*sum)[2])
{
	const int each = (int)qwen_traits[type].span / 4;
	__m256i v[MAX_TILE][2];
	int q, t, h;

	UNROLL
	for (q = 0; q < 8; q++) {
		/* selects the scale's half of its pair */
		const __m256i of = _mm256_set1_epi32(q < each ? 1 : 1 << 16);
		const __m256i w[2] = { load_i(p->w[g][j][q][0]),
		    load_i(p->w[g][j][q][1]) };

		UNROLL
		for (t = 0; t < n; t++) {
			__m256i b = broadcast(x[t]->q + 32 * j + 4 * q);
			__m256i a = broadcast(x[t]->a + j);

			UNROLL
			for (h = 0; h < 2; h++) {
				__m256i s = _mm256_maddubs_epi16(w[h], b);

				v[t][h] = q % each == 0 ?
				    _mm256_madd_epi16(s, a) :
				    add_pairs(v[t][h], s, a);
				if (q % each < each - 1)
					continue;
				sum[t][h] = _mm256_add_epi32(sum[t][h],
				    _mm256_mullo_epi32(v[t][h],
				    _mm256_madd_epi16(load_i(p->scale[g][j] +
				    8 * h), of)));
			}
		}
	}
}

/* Returns the excess of sums due to the bias. */
KERNEL_INLINE __m256i
bias_sum(uint32_t type, const struct panel *p, size_t g,
    const struct bytes *x, int half)
{
	__m256i sum = _mm256_setzero_si256();
	int j;

	UNROLL
	for (j = 0; j < 8; j++)
		sum = add_pairs(sum, load_i(p->scale[g][j] + 8 * half),
		    broadcast(x->asum16 + 2 * j));
	return _mm256_slli_epi32(sum,
	    __builtin_ctz((unsigned)qwen_traits[type].bias));
}

KERNEL_INLINE void
fold_super(uint32_t type, const struct panel *p, size_t g,
    const struct bytes *const *x, int n, __m256 (*acc)[2],
    struct ahead *ahead)
{
	__m256i sum[MAX_TILE][2];
	int j, t, h;

	UNROLL
	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm256_setzero_si256();
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		if (run_of(type) > 1)
			add_runs(type, p, g, x, j, n, sum);
		else
			add_products(type, p, g, x, j, n, sum);
	}
	UNROLL
	for (t = 0; t < n; t++) {
		UNROLL
		for (h = 0; h < 2; h++) {
			if (run_of(type) == 1)
				sum[t][h] = _mm256_sub_epi32(sum[t][h],
				    bias_sum(type, p, g, x[t], h));
		}
		add_group(type, p, g, x + t, 1, sum + t, acc + t);
	}
}

/* ---- fewer weights per d */

/* Returns part + d[k] * sum. */
KERNEL_INLINE __m256
add_part(const struct panel *p, size_t g, int k, int half, __m256i sum,
    __m256 part)
{
	return _mm256_fmadd_ps(_mm256_load_ps(p->d[g][k] + 8 * half),
	    _mm256_cvtepi32_ps(sum), part);
}

/*
 * Adds the pairs v of a run from column `at' on, times a, to *sum, which has
 * the earlier runs of the span.  At the end of the span *sum is added to part.
 */
KERNEL_INLINE __m256
add_run(uint32_t type, const struct panel *p, size_t g, int half, int at,
    __m256i v, __m256i a, __m256i *sum, __m256 part)
{
	const int span = (int)qwen_traits[type].span;
	const __m256i first = _mm256_set1_epi32(0xffff);
	__m256i s;

	if (by_halves(type)) {
		part = add_part(p, g, at / span, half,
		    _mm256_madd_epi16(v, a & first), part);
		return add_part(p, g, at / span + 1, half,
		    _mm256_madd_epi16(v, _mm256_andnot_si256(first, a)), part);
	}
	s = _mm256_madd_epi16(v, a);
	if (at % span != 0)
		s = _mm256_add_epi32(s, *sum);
	*sum = s;
	return (at + 4 * run_of(type)) % span != 0 ? part :
	    add_part(p, g, at / span, half, s, part);
}

KERNEL_INLINE void
fold_block(uint32_t type, const struct panel *p, size_t g,
    const struct bytes *const *x, int n, __m256 (*acc)[2],
    struct ahead *ahead)
{
	const int run = run_of(type);
	__m256i v[MAX_TILE][2], sum[MAX_TILE][2];
	__m256 part[MAX_TILE][2];
	int j, q, t, h;

	UNROLL
	for (t = 0; t < n; t++) {
		part[t][0] = part[t][1] = _mm256_setzero_ps();
		sum[t][0] = sum[t][1] = _mm256_setzero_si256();
	}
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		UNROLL
		for (q = 0; q < 8; q += run) {
			const int at = 32 * j + 4 * q;

			run_sums(type, p, g, x, j, q, n, v);
			UNROLL
			for (t = 0; t < n; t++) {
				__m256i a = broadcast(x[t]->a + j);

				UNROLL
				for (h = 0; h < 2; h++)
					part[t][h] = add_run(type, p, g, h, at,
					    v[t][h], a, &sum[t][h], part[t][h]);
			}
		}
	}
	add_parts(type, p, g, x, n, part, acc);
}

KERNEL_INLINE void
fold(uint32_t type, const struct panel *p, size_t g,
    const struct bytes *const *x, int n, int many, __m256 (*acc)[2],
    struct ahead *ahead)
{
	(void)many;
	if (qwen_traits[type].by_block)
		fold_block(type, p, g, x, n, acc, ahead);
	else
		fold_super(type, p, g, x, n, acc, ahead);
}

KERNEL_INLINE void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m256i v)
{
	int32_t *to = p->scale[g][j] + 8 * half;

	(void)type;
	/* half 0 of a pair comes first */
	store_i(to, _mm256_blend_epi16(k == 0 ? v : load_i(to),
	    _mm256_slli_epi32(v, 16), 0xaa));
}

KERNEL_INLINE void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m256i v)
{
	uint8_t (*to)[2][32] = p->w[g][j] + quad;

	if (!by_halves(type)) {
		store_i(to[0][half], v);
		return;
	}
	/*
	 * the quads of the first half are stored before those that they are
	 * joined with
	 */
	to = p->w[g][j] + quad % 4 * 2;
	store_i(to[0][half], quad < 4 ? v : _mm256_blend_epi16(
	    load_i(to[0][half]), _mm256_slli_epi32(v, 16), 0xaa));
	store_i(to[1][half], quad < 4 ? _mm256_srli_epi32(v, 16) :
	    _mm256_blend_epi16(load_i(to[1][half]), v, 0xaa));
}

#define BY_16(type) ((type) == QT_Q2_K || (type) == QT_Q3_K ||		\
	(type) == QT_Q6_K || (type) == QT_IQ1_M || (type) == QT_NVFP4)
#define PANEL_ENTRY(name, type, ...)					\
	QWEN_ENTRY(name, type, .packing = BY_16(type) ?			\
	    &packing_halves : &packing_quads, __VA_ARGS__)
#define PANEL_KERNELS(FORMATS, n)					\
	FORMATS(PANEL_ENTRY, .op = QWEN_OP_GEMM, .min_tok = n, QWEN_AVX2) \
	{ 0 }

#endif
