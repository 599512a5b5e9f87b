/* SPDX-License-Identifier: ISC */
/*
 * unpack.h - unpacks a group of 256 weights of LANES rows, transposed so that
 * rows are in the lanes: half a panel.
 *
 * The including file defines struct panel, with min (pairs of int16), d and
 * dmin, indexed by group.  It also defines store_quad() and store_scale(),
 * which write weights and scales to the panel; the format is a constant at each
 * call.
 */
#ifndef QWEN_KERNEL_UNPACK_H
#define QWEN_KERNEL_UNPACK_H

#include "engine/cpu/kernel/x86/decode.h"
#include "engine/cpu/kernel/x86/turn.h"

/* Stores a quad of 32-block j of group g: a dword of four weights per row. */
KERNEL_INLINE void store_quad(uint32_t type, struct panel *p, size_t g,
    size_t j,
    int half, int quad, wide_i v);

/* Stores scale k (0 or 1) of 32-block j of group g, a dword per row. */
KERNEL_INLINE void store_scale(uint32_t type, struct panel *p, size_t g,
    size_t j,
    size_t k, int half, wide_i v);

/* Converts the f16 in the lower halves of dwords. */
KERNEL_INLINE wide_f
low_f16(wide_i v)
{
#ifdef __AVX512F__
	return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
#else
	v &= _mm256_set1_epi32(0xffff);
	return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(v),
	    _mm256_extracti128_si256(v, 1)));
#endif
}

/* Loads the f16 at this offset of the rows. */
KERNEL_INLINE wide_f
load_d(const unsigned char *const *p, size_t at)
{
	uint16_t h[LANES];
	wide_half v;
	int i;

	for (i = 0; i < LANES; i++)
		memcpy(&h[i], p[i] + at, 2);
	memcpy(&v, h, sizeof v);
	return MM(cvtph_ps)(v);
}

/* Loads the dwords at this offset of the rows. */
KERNEL_INLINE wide_i
dwords(const unsigned char *const *p, size_t at)
{
	__m128i v[LANES / 4];
	int i;

	UNROLL
	for (i = 0; i < LANES / 4; i++)
		v[i] = _mm_setr_epi32(dword_at(p[4 * i] + at),
		    dword_at(p[4 * i + 1] + at), dword_at(p[4 * i + 2] + at),
		    dword_at(p[4 * i + 3] + at));
#ifdef __AVX512F__
	return join(_mm256_set_m128i(v[1], v[0]),
	    _mm256_set_m128i(v[3], v[2]));
#else
	return _mm256_set_m128i(v[1], v[0]);
#endif
}

/* Stores four bytes of minimums as two pairs of int16: 2i and 2i + 1. */
KERNEL_INLINE void
store_mins(wide_i n, struct panel *to, size_t g, size_t i, int half)
{
	unsigned j;

	for (j = 0; j < 2; j++) {
		wide_i v = MM(srli_epi32)(n, 16 * j);

		store_i(to->min[g][2 * i + j] + LANES * half,
		    (v & MM(set1_epi32)(255)) | (MM(slli_epi32)(v, 8) &
		    MM(set1_epi32)(0xff0000)));
	}
}

/* ---- Q4_K and Q5_K */

/*
 * Unpacks d, dmin, scales and minimums: the first 16 bytes of the rows' blocks.
 */
KERNEL_INLINE void
unpack_scales_k4(uint32_t type, const unsigned char *const *p,
    struct panel *to, size_t g, int half)
{
	const wide_i m6 = MM(set1_epi32)(0x3f3f3f3f);
	const wide_i m4 = MM(set1_epi32)(0x0f0f0f0f);
	const wide_i m2 = MM(set1_epi32)(0x30303030);
	const wide_i byte = MM(set1_epi32)(255);
	wide_i h[4], s[2], n[2];
	unsigned i, j;

	transpose4(p, 0, h);
	MM(store_ps)(to->d[g][0] + LANES * half, low_f16(h[0]));
	MM(store_ps)(to->dmin[g] + LANES * half,
	    low_f16(MM(srli_epi32)(h[0], 16)));
	s[0] = h[1] & m6;
	n[0] = h[2] & m6;
	s[1] = (h[3] & m4) | (MM(srli_epi32)(h[1], 2) & m2);
	n[1] = (MM(srli_epi32)(h[3], 4) & m4) | (MM(srli_epi32)(h[2], 2) & m2);
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 4; j++)
			store_scale(type, to, g, 4 * i + j, 0, half,
			    MM(srli_epi32)(s[i], 8 * j) & byte);
		store_mins(n[i], to, g, i, half);
	}
}

KERNEL_INLINE void
unpack_q4_k(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const wide_i m4 = MM(set1_epi8)(15);
	wide_i v[TURN];
	size_t j;
	int i, k;

	unpack_scales_k4(QT_Q4_K, p, to, g, half);
	for (j = 0; j < 8; j += 2) {
		for (k = 0; k < 8; k += TURN) {
			transpose(p, 16 + 16 * j + 4 * (size_t)k, v);
			UNROLL
			for (i = 0; i < TURN; i++) {
				store_quad(QT_Q4_K, to, g, j, half, k + i,
				    v[i] & m4);
				store_quad(QT_Q4_K, to, g, j + 1, half, k + i,
				    MM(srli_epi16)(v[i], 4) & m4);
			}
		}
	}
}

/* Returns the nibbles with the given bit of h as bit 4. */
KERNEL_INLINE wide_i
with_bit(wide_i nibbles, wide_i h, unsigned bit)
{
	return nibbles | MM(slli_epi16)(MM(srli_epi16)(h, bit) &
	    MM(set1_epi8)(1), 4);
}

KERNEL_INLINE void
unpack_q5_k(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const wide_i m4 = MM(set1_epi8)(15);
	wide_i v[TURN], h[TURN];
	unsigned j;
	int i, k;

	unpack_scales_k4(QT_Q5_K, p, to, g, half);
	for (k = 0; k < 8; k += TURN) {
		transpose(p, 16 + 4 * (size_t)k, h);
		for (j = 0; j < 8; j += 2) {
			transpose(p, 48 + 16 * j + 4 * (size_t)k, v);
			UNROLL
			for (i = 0; i < TURN; i++) {
				store_quad(QT_Q5_K, to, g, j, half, k + i,
				    with_bit(v[i] & m4, h[i], j));
				store_quad(QT_Q5_K, to, g, j + 1, half, k + i,
				    with_bit(MM(srli_epi16)(v[i], 4) & m4, h[i],
				    j + 1));
			}
		}
	}
}

/* ---- Q6_K */

/* Stores sixteen signed scales, four bytes per register. */
KERNEL_INLINE void
store_scales(uint32_t type, const wide_i *v, struct panel *to, size_t g,
    int half)
{
	unsigned i, j;

	for (i = 0; i < 4; i++)
		for (j = 0; j < 4; j++)
			store_scale(type, to, g, 2 * i + j / 2, j % 2, half,
			    MM(srai_epi32)(MM(slli_epi32)(v[i], 24 - 8 * j),
			    24));
}

KERNEL_INLINE void
unpack_q6_k(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const wide_i m4 = MM(set1_epi8)(15), m2 = MM(set1_epi8)(0x30);
	wide_i a[TURN], b[TURN], h[TURN];
	size_t k;
	int i, l;

	transpose4(p, 192, a);
	store_scales(QT_Q6_K, a, to, g, half);
	MM(store_ps)(to->d[g][0] + LANES * half, load_d(p, 208));
	for (k = 0; k < 2; k++) {
		for (l = 0; l < 8; l += TURN) {
			transpose(p, 64 * k + 4 * (size_t)l, a);
			transpose(p, 64 * k + 32 + 4 * (size_t)l, b);
			transpose(p, 128 + 32 * k + 4 * (size_t)l, h);
#define PUT(j, nibbles, high)						\
	store_quad(QT_Q6_K, to, g, 4 * k + (j), half, l + i,		\
	    ((nibbles) & m4) | ((high) & m2))
			UNROLL
			for (i = 0; i < TURN; i++) {
				PUT(0, a[i], MM(slli_epi16)(h[i], 4));
				PUT(1, b[i], MM(slli_epi16)(h[i], 2));
				PUT(2, MM(srli_epi16)(a[i], 4), h[i]);
				PUT(3, MM(srli_epi16)(b[i], 4),
				    MM(srli_epi16)(h[i], 2));
			}
#undef PUT
		}
	}
}

/* ---- Q2_K and Q3_K */

/*
 * Products of a weight and its scale fit in a byte; those of Q3_K with inverted
 * sign (-128 to 124).  A panel may hold them instead of weights: then sums need
 * no scales.
 */
KERNEL_INLINE int
premultiplied(uint32_t type)
{
	return type == QT_Q2_K || type == QT_Q3_K;
}

/*
 * Returns the products of a quad; the scales are in both halves of the rows'
 * dwords.
 */
KERNEL_INLINE wide_i
premultiply(uint32_t type, wide_i w, wide_i scale)
{
	wide_i odd;

	if (type == QT_Q3_K)
		w = MM(sub_epi8)(set8(4), w);
	odd = MM(mullo_epi16)(w & MM(set1_epi16)(-256), scale);
	return odd | (MM(mullo_epi16)(w, scale) & MM(set1_epi16)(255));
}

KERNEL_INLINE void
unpack_scales_q2_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const wide_i m4 = set8(15);
	wide_i v[4], s[4], d = dwords(p, 80);
	size_t i;

	transpose4(p, 0, v);
	for (i = 0; i < 4; i++) {
		s[i] = v[i] & m4;
		store_mins(MM(srli_epi32)(v[i], 4) & m4, to, g, i, half);
	}
	store_scales(QT_Q2_K, s, to, g, half);
	MM(store_ps)(to->d[g][0] + LANES * half, low_f16(d));
	MM(store_ps)(to->dmin[g] + LANES * half,
	    low_f16(MM(srli_epi32)(d, 16)));
}

KERNEL_INLINE void
unpack_scales_q3_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const wide_i m4 = set8(15), m2 = set8(0x30);
	wide_i v[4], s[4];
	int i;

	transpose4(p, 92, v);	/* the scales begin at 96 */
	s[0] = (v[1] & m4) | (MM(slli_epi32)(v[3], 4) & m2);
	s[1] = (v[2] & m4) | (MM(slli_epi32)(v[3], 2) & m2);
	s[2] = (MM(srli_epi32)(v[1], 4) & m4) | (v[3] & m2);
	s[3] = (MM(srli_epi32)(v[2], 4) & m4) | (MM(srli_epi32)(v[3], 2) & m2);
	for (i = 0; i < 4; i++)
		s[i] = MM(sub_epi8)(s[i], set8(32));
	store_scales(QT_Q3_K, s, to, g, half);
	MM(store_ps)(to->d[g][0] + LANES * half, load_d(p, 108));
}

/*
 * Unpacks two bits per weight, and for Q3_K the third bit from the 32 bytes
 * before.
 */
KERNEL_INLINE void
unpack_k23(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, int half)
{
	const size_t at = type == QT_Q3_K ? 32 : 16;
	wide_i v[TURN], h[TURN], w;
	unsigned c, j;
	int i, k;

	if (type == QT_Q3_K)
		unpack_scales_q3_k(p, to, g, half);
	else
		unpack_scales_q2_k(p, to, g, half);
	for (k = 0; k < 8; k += TURN) {
		if (type == QT_Q3_K)
			transpose(p, 4 * (size_t)k, h);
		for (c = 0; c < 2; c++) {
			transpose(p, at + 32 * c + 4 * (size_t)k, v);
			for (j = 0; j < 4; j++) {
				UNROLL
				for (i = 0; i < TURN; i++) {
					w = MM(srli_epi16)(v[i], 2 * j) &
					    set8(3);
					if (type == QT_Q3_K)
						w |= MM(slli_epi16)(
						    MM(srli_epi16)(h[i],
						    4 * c + j) & set8(1), 2);
					store_quad(type, to, g, 4 * c + j,
					    half, k + i, w);
				}
			}
		}
	}
}

/* ---- small blocks */

/*
 * Loads d and minimum of block k.  Called between transpositions, one block at
 * a time: loading all of a group at once would stall.
 */
KERNEL_INLINE void
unpack_floats(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, size_t k, int half)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const size_t each = f->len / f->span, at = (size_t)(LANES * half);
	size_t i, j;
	wide_i v;

	if (type == QT_MXFP4 || type == QT_NVFP4) {
		for (j = each * k; j < each * (k + 1); j++) {
			for (i = 0; i < (size_t)LANES; i += 4)
				_mm_store_ps(to->d[g][j] + at + i,
				    load_d4(type, p + i, j));
		}
		return;
	}
	if (!f->has_min) {
		MM(store_ps)(to->d[g][k] + at,
		    load_d(p, f->bytes * k + f->d_at));
		return;
	}
	v = dwords(p, f->bytes * k + f->d_at);
	MM(store_ps)(to->d[g][k] + at, low_f16(v));
	MM(store_ps)(to->m[g][k] + at, low_f16(MM(srli_epi32)(v, 16)));
}

/* ---- Q8_0 */

KERNEL_INLINE void
unpack_q8_0(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	wide_i v[TURN];
	size_t j;
	int i, k;

	for (j = 0; j < 8; j++) {
		unpack_floats(QT_Q8_0, p, to, g, j, half);
		for (k = 0; k < 8; k += TURN) {
			transpose(p, 34 * j + 2 + 4 * (size_t)k, v);
			UNROLL
			for (i = 0; i < TURN; i++)
				store_quad(QT_Q8_0, to, g, j, half, k + i,
				    v[i]);
		}
	}
}

/* ---- nibbles in blocks of 32, low ones before high ones */

/* Moves the fifth bits of a quad's columns to bit 4 of their bytes. */
KERNEL_INLINE wide_i
fifths_of(wide_i h, int quad)
{
	const wide_i bit = MM(set1_epi32)(quad % 2 == 0 ? 0x08040201 :
	    (int)0x80402010);
	const wide_i at = MM(add_epi8)(in_lanes(_mm_setr_epi8(0, 0, 0, 0, 4, 4,
	    4, 4, 8, 8, 8, 8, 12, 12, 12, 12)), set8(quad / 2));
	wide_i v = MM(shuffle_epi8)(h, at);

#ifdef __AVX512F__
	return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(v, bit), set8(16));
#else
	return _mm256_cmpeq_epi8(v & bit, bit) & set8(16);
#endif
}

/*
 * Unpacks block j: 16 bytes from `at' on, and fifth bits before them, if any.
 */
KERNEL_INLINE void
unpack_nibbles(uint32_t type, const unsigned char *const *p, size_t at,
    struct panel *to, size_t g, size_t j, int half)
{
	static const int8_t fp4[16] = {
		16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4
	};
	const int five = type == QT_Q5_0 || type == QT_Q5_1;
	const wide_i m4 = set8(15);
	wide_i v[8], h = m4;
	int i;

	transpose4(p, at, v);
	if (five)
		h = dwords(p, at - 4);
	UNROLL
	for (i = 0; i < 4; i++) {
		v[i + 4] = MM(srli_epi16)(v[i], 4) & m4;
		v[i] &= m4;
	}
	UNROLL
	for (i = 0; i < 8; i++) {
		if (type == QT_IQ4_NL || type == QT_IQ4_XS)
			v[i] = look_up(v[i], qwen_iq4_values);
		else if (type == QT_MXFP4)
			v[i] = look_up(v[i], fp4);
		else if (five)
			v[i] |= fifths_of(h, i);
		store_quad(type, to, g, j, half, i, v[i]);
	}
}

KERNEL_INLINE void
unpack_by_nibbles(uint32_t type, const unsigned char *const *p,
    struct panel *to, size_t g, int half)
{
	const size_t bytes = qwen_traits[type].bytes;
	size_t j;

	for (j = 0; j < 8; j++) {
		unpack_floats(type, p, to, g, j, half);
		unpack_nibbles(type, p, bytes * (j + 1) - 16, to, g, j, half);
	}
}

/*
 * Unpacks IQ4_XS: each block has an integer scale, four bits and two more bits,
 * which are stored together.
 */
KERNEL_INLINE void
unpack_iq4_xs(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	wide_i v[4], low, high;
	unsigned j;

	transpose4(p, 0, v);
	MM(store_ps)(to->d[g][0] + LANES * half, low_f16(v[0]));
	for (j = 0; j < 8; j++) {
		low = MM(srli_epi32)(v[1], 4 * j) & MM(set1_epi32)(15);
		high = MM(srli_epi32)(v[0], 16 + 2 * j) & MM(set1_epi32)(3);
		store_scale(QT_IQ4_XS, to, g, j, 0, half, MM(sub_epi32)(
		    low | MM(slli_epi32)(high, 4), MM(set1_epi32)(32)));
	}
	for (j = 0; j < 8; j++)
		unpack_nibbles(QT_IQ4_XS, p, 8 + 16 * j, to, g, j, half);
}

/*
 * ---- other formats: rows are decoded one by one, which takes longer than
 * transposing the file's layout
 */

struct rows {
	uint8_t	w[LANES][QWEN_GROUP];
	int16_t	scale[LANES][16], min[LANES][16];
} __attribute__((aligned(64)));

/* Transposes pairs of int16: registers have one pair of each row. */
KERNEL_INLINE void
turn_pairs(int16_t (*from)[16], wide_i *o)
{
	const unsigned char *p[LANES];
	int i;

	for (i = 0; i < LANES; i++)
		p[i] = (const unsigned char *)from[i];
	for (i = 0; i < 8; i += TURN)
		transpose(p, 4 * (size_t)i, o + i);
}

/* Unpacks scales and minimums of decoded rows, with d. */
KERNEL_INLINE void
unpack_scales(uint32_t type, const unsigned char *const *p, struct rows *r,
    struct panel *to, size_t g, int half)
{
	const struct qwen_traits *f = &qwen_traits[type];
	wide_i v[8];
	size_t j, i;

	turn_pairs(r->scale, v);
	for (j = 0; j < 8; j++) {
		store_scale(type, to, g, j, 0, half,
		    MM(srai_epi32)(MM(slli_epi32)(v[j], 16), 16));
		if (f->span == 16)
			store_scale(type, to, g, j, 1, half,
			    MM(srai_epi32)(v[j], 16));
	}
	for (i = 0; i < (size_t)LANES; i += 4)
		_mm_store_ps(to->d[g][0] + (size_t)(LANES * half) + i,
		    load_d4(type, p + i, 0));
	if (!f->has_min)
		return;
	turn_pairs(r->min, v);
	for (j = 0; j < 8; j++)
		store_i(to->min[g][j] + LANES * half, v[j]);
	MM(store_ps)(to->dmin[g] + LANES * half, load_d(p, f->d_at + 2));
}

/*
 * Decodes rows of grid weights; the indices of a row are computed while the row
 * before is looked up.
 */
KERNEL_INLINE void
decode_grids(uint32_t type, const unsigned char *const *p, struct rows *r)
{
	struct grid g[2];
	int i, k;

	grid_open(type, p[0], &g[0]);
	for (i = 0; i < LANES; i++) {
		if (i + 1 < LANES)
			grid_open(type, p[i + 1], &g[(i + 1) % 2]);
		UNROLL
		for (k = 0; k < GROUP_REGS; k++)
			store_i(r->w[i] + WIDE * k,
			    grid_register(type, &g[i % 2], k));
		_mm256_store_si256((__m256i *)r->scale[i], g[i % 2].scale);
	}
}

KERNEL_INLINE void
decode_rows(uint32_t type, const unsigned char *const *p, struct rows *r)
{
	struct group u;
	int i, k;

	for (i = 0; i < LANES; i++) {
		if (qwen_traits[type].by_block) {
			for (k = 0; k < GROUP_REGS; k++)
				store_i(r->w[i] + WIDE * k,
				    block_weights(type, p[i], k));
			continue;
		}
		decode(type, p[i], &u);
		for (k = 0; k < GROUP_REGS; k++)
			store_i(r->w[i] + WIDE * k, u.w[k]);
		_mm256_store_si256((__m256i *)r->scale[i], u.scale);
		if (qwen_traits[type].has_min)
			_mm256_store_si256((__m256i *)r->min[i], u.min);
	}
}

KERNEL_INLINE void
unpack_rows(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, int half)
{
	const unsigned char *row[LANES];
	struct rows r;
	wide_i v[TURN];
	size_t j;
	int i, k;

	for (i = 0; i < LANES; i++)
		row[i] = r.w[i];
	if (in_grid(type))
		decode_grids(type, p, &r);
	else
		decode_rows(type, p, &r);
	if (!qwen_traits[type].by_block)
		unpack_scales(type, p, &r, to, g, half);
	for (j = 0; qwen_traits[type].by_block &&
	    j < QWEN_GROUP / qwen_traits[type].len; j++)
		unpack_floats(type, p, to, g, j, half);
	for (j = 0; j < 8; j++) {
		for (k = 0; k < 8; k += TURN) {
			transpose(row, 32 * j + 4 * (size_t)k, v);
			UNROLL
			for (i = 0; i < TURN; i++)
				store_quad(type, to, g, j, half, k + i, v[i]);
		}
	}
}

/* ---- all formats */

#ifdef UNPACK_GRID
/* The including file's function for grid weights. */
KERNEL_INLINE void UNPACK_GRID(uint32_t type, const unsigned char *const *p,
    struct panel *to, size_t g, int half);
#define HAS_GRID 1
#else
#define UNPACK_GRID unpack_rows
#define HAS_GRID 0
#endif

/*
 * Unpacks one group of LANES rows into half a panel; p: the group's first bytes
 * in each row.  The type is a constant at each call.
 */
KERNEL_INLINE void
unpack(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, int half)
{
	if (type == QT_Q4_K)
		unpack_q4_k(p, to, g, half);
	else if (type == QT_Q5_K)
		unpack_q5_k(p, to, g, half);
	else if (type == QT_Q6_K)
		unpack_q6_k(p, to, g, half);
	else if (type == QT_Q8_0)
		unpack_q8_0(p, to, g, half);
	else if (type == QT_Q2_K || type == QT_Q3_K)
		unpack_k23(type, p, to, g, half);
	else if (type == QT_IQ4_XS)
		unpack_iq4_xs(p, to, g, half);
	else if (in_nibbles(type))
		unpack_by_nibbles(type, p, to, g, half);
	else if (HAS_GRID && in_grid(type))
		UNPACK_GRID(type, p, to, g, half);
	else
		unpack_rows(type, p, to, g, half);
}

/* Unpacks a whole panel: ng groups from g0 on of the rows from r on. */
KERNEL_INLINE void
unpack_panel(uint32_t type, const struct qwen_matmul *m, struct panel *p,
    size_t r, size_t g0, size_t ng)
{
	const size_t bytes = group_bytes(m);
	const unsigned char *row[LANES];
	size_t g;
	int half, i;

	for (g = 0; g < ng; g++) {
		for (half = 0; half < 2; half++) {
			for (i = 0; i < LANES; i++)
				row[i] = m->w + (r + (size_t)(LANES * half +
				    i)) * m->row_bytes + (g0 + g) * bytes;
			unpack(type, row, p, g, half);
		}
	}
}

#endif
