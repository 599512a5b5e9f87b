/* SPDX-License-Identifier: ISC */
/*
 * amx_planes.h - AMX for formats with integer scales and one d per 256 weights.
 *
 * Scale times weight, and sub-scale times activation, are computed first and
 * split into a low and a high byte (planes).  Four products of bytes, each over
 * whole tiles, are summed over the 256 columns of a group.  Then
 *	I = ll + 256 (lh + hl) + 65536 hh
 * modulo 2^32, which is exact since I fits in 32 bits.  I is folded once per
 * group, not once per 16 or 32 columns.  If scale times weight fits in a byte,
 * there is no high plane, and two products suffice.  Activations without
 * factors have no high plane either, so the two terms of version 4 cost as much
 * as the one term of version 1.
 *
 * The sum of minimums comes from one more tile, of bf16: a minimum is exact in
 * bf16, a sum of 16 activations is exact as two, and no sum reaches 2^24, so
 * all are exact in f32 in any order.
 */
#ifndef QWEN_KERNEL_AMX_PLANES_H
#define QWEN_KERNEL_AMX_PLANES_H

#include <stdint.h>

#define PANELS 1		/* two would not leave room for tokens in the
				   first-level cache */

/* Tiles: sums, of which MID is lh + hl; weights; tokens. */
#define LL 0
#define MID 1
#define HH 2
#define LOW 3
#define HIGH 4
#define TOKENS 5

struct pack {
	uint8_t	q[4][2][16][64];	/* step, low or high, quad, token*4 */
	uint32_t sum16[16][16];	/* bf16: of asum16 the low byte, the rest */
	float	d[16];
};

struct panel {
	uint8_t	w[16][4][2][64];	/* row, step, low or high: a row's
					   lines are stored one after another */
	uint32_t min[16][16];	/* of 16 columns: bf16, twice */
	float	d[16], dmin[16];
} __attribute__((aligned(64)));

/* Sums of a block. */
struct sums {
	int32_t	ll[16][16], mid[16][16], hh[16][16];
	float	min[16][16];
} __attribute__((aligned(64)));

#include "engine/cpu/kernel/x86/amx_panel.h"

/*
 * Returns 1 if scale times weight fits in one byte, with its sign if it has
 * one.
 */
KERNEL_INLINE int
in_a_byte(uint32_t type)
{
	return type == QT_Q2_K || type == QT_TQ1_0 || type == QT_TQ2_0;
}

/* Returns 1 if scale times weight can be negative. */
KERNEL_INLINE int
is_signed(uint32_t type)
{
	return qwen_traits[type].bias > 0 || qwen_traits[type].signed_scale;
}

/* Return 1 if there are sums lh + hl, and sums hh. */
KERNEL_INLINE int
has_mid(uint32_t type, int plain)
{
	return !plain || !in_a_byte(type);
}

KERNEL_INLINE int
has_hh(uint32_t type, int plain)
{
	return !plain && !in_a_byte(type);
}

/* Returns the bits by which planes are shifted left: see unpack_k45(). */
KERNEL_INLINE int
shifted_by(uint32_t type)
{
	return type == QT_Q5_K ? 4 : 0;
}

/* ---- packing tokens */

/* Return the low, or high, bytes of int16 in even and odd lanes. */
KERNEL_INLINE __m512i
low_bytes(__m512i even, __m512i odd)
{
	return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaULL, even,
	    _mm512_slli_epi16(odd, 8));
}

KERNEL_INLINE __m512i
high_bytes(__m512i even, __m512i odd)
{
	return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaULL,
	    _mm512_srli_epi16(even, 8), odd);
}

/* Packs 32 columns of 16 tokens. */
KERNEL_INLINE void
pack_32(const struct qwen_q8 *const *x, size_t j, struct pack *to)
{
	int32_t a[16] __attribute__((aligned(64)));
	const unsigned char *q[16];
	__m512i v[8], even, odd, scale;
	size_t t, i, at = 8 * (j % 2);

	for (t = 0; t < 16; t++) {
		q[t] = (const unsigned char *)x[t]->q;
		a[t] = x[t]->a[j] * 0x10001;
	}
	scale = _mm512_load_si512(a);
	transpose(q, 32 * j, v);
	for (i = 0; i < 8; i++) {
		even = _mm512_maddubs_epi16(scale, v[i]);
		odd = _mm512_maddubs_epi16(_mm512_slli_epi16(scale, 8), v[i]);
		_mm512_store_si512(to->q[j / 2][0][at + i],
		    low_bytes(even, odd));
		_mm512_store_si512(to->q[j / 2][1][at + i],
		    high_bytes(even, odd));
	}
}

/* Returns small integers as pairs of bf16: a of b's, and b. */
KERNEL_INLINE __m512i
bf16_pairs(__m512i a, __m512i b)
{
	a = _mm512_castps_si512(_mm512_cvtepi32_ps(a));
	b = _mm512_castps_si512(_mm512_cvtepi32_ps(b));
	return _mm512_srli_epi32(a, 16) | b;
}

/* Packs sums of 16 activations: the low byte, and the rest. */
KERNEL_INLINE void
pack_sums(const struct qwen_q8 *const *x, struct pack *to)
{
	const unsigned char *sum[16];
	__m512i v[8], one, low;
	size_t t, i;

	for (t = 0; t < 16; t++)
		sum[t] = (const unsigned char *)x[t]->asum16;
	transpose(sum, 0, v);
	for (i = 0; i < 16; i++) {
		one = _mm512_srai_epi32(i % 2 ? v[i / 2] :
		    _mm512_slli_epi32(v[i / 2], 16), 16);
		low = one & _mm512_set1_epi32(255);
		_mm512_store_si512(to->sum16[i], bf16_pairs(low,
		    _mm512_sub_epi32(one, low)));
	}
}

static void
pack(void *to, const void *const *from, size_t n, size_t groups)
{
	static const struct qwen_q8 zero;
	const struct qwen_q8 *x[16];
	struct pack *p = to;
	size_t g, t, j;

	for (g = 0; g < groups; g++, p++) {
		for (t = 0; t < 16; t++) {
			x[t] = t < n ? (const struct qwen_q8 *)from[t] + g :
			    &zero;
			p->d[t] = x[t]->d;
		}
		for (j = 0; j < 8; j++)
			pack_32(x, j, p);
		pack_sums(x, p);
	}
}

static const struct qwen_packing packing = {
	.kind = QWEN_PACK_PLANES, .bytes = sizeof(struct pack), .pack = pack,
};

/* ---- unpacking weights */

/*
 * Stores columns 64k .. 64k + 63 of a row; scale has 16 scales for the 256
 * columns.
 */
KERNEL_INLINE void
put(uint32_t type, uint8_t (*to)[2][64], int k, __m512i w, __m128i scale)
{
	const __m512i each = _mm512_add_epi8(_mm512_set1_epi16((short)(4 * k)),
	    _mm512_set_epi64((long long)0x8003800380038003,
	    (long long)0x8003800380038003, (long long)0x8002800280028002,
	    (long long)0x8002800280028002, (long long)0x8001800180018001,
	    (long long)0x8001800180018001, (long long)0x8000800080008000,
	    (long long)0x8000800080008000));
	__m512i s = _mm512_shuffle_epi8(in_lanes(scale), each);
	__m512i even = _mm512_maddubs_epi16(w, s), off;
	__m512i odd = _mm512_maddubs_epi16(w, _mm512_slli_epi16(s, 8));

	if (qwen_traits[type].bias > 0) {
		off = _mm512_maddubs_epi16(set8(qwen_traits[type].bias), s);
		even = _mm512_sub_epi16(even, off);
		odd = _mm512_sub_epi16(odd, off);
	}
	_mm512_store_si512(to[k][0], low_bytes(even, odd));
	if (!in_a_byte(type))
		_mm512_store_si512(to[k][1], high_bytes(even, odd));
}

KERNEL_INLINE float
f32_at(const unsigned char *p)
{
	uint16_t h;

	memcpy(&h, p, 2);
	return _cvtsh_ss(h);
}

KERNEL_INLINE float
row_d(uint32_t type, const unsigned char *w)
{
	const unsigned char *rows[4] = { w, w, w, w };

	if (type == QT_IQ1_M)
		return _mm_cvtss_f32(load_d4(type, rows, 0));
	return f32_at(w + qwen_traits[type].d_at) * qwen_traits[type].d_by;
}

KERNEL_INLINE void
unpack_row(uint32_t type, const unsigned char *w, struct panel *p, size_t r)
{
	struct group u;
	__m512i min;
	__m128i scale;
	int k;

	p->d[r] = row_d(type, w);
	decode(type, w, &u);
	scale = _mm256_cvtepi16_epi8(u.scale);
	if (qwen_traits[type].has_min) {
		p->dmin[r] = f32_at(w + qwen_traits[type].d_at + 2);
		min = _mm512_cvtepi16_epi32(u.min);
		_mm512_store_si512(p->min[r], bf16_pairs(min, min));
	}
	UNROLL
	for (k = 0; k < 4; k++) {
		if (qwen_traits[type].bias == 128)
			u.w[k] ^= set8(0x80);
		put(type, p->w[r], k, u.w[k], scale);
	}
}

/* The scales and minimums of 16 rows of Q4_K or Q5_K, a row in each lane. */
struct heads {
	/* scales 2k and 2k + 1, as bytes, twice; minimums 0 .. 3 and 4 .. 7 */
	uint32_t scale[4][16], min[2][16];
} __attribute__((aligned(64)));

KERNEL_INLINE void
unpack_heads(const unsigned char *const *row, struct heads *to, struct panel *p)
{
	const __m512i m4 = set8(0x0f), m2 = set8(0x30), m6 = set8(0x3f);
	__m512i v[4], s;
	size_t k;

	transpose4(row, 0, v);
	_mm512_store_ps(p->d, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v[0])));
	_mm512_store_ps(p->dmin, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(
	    _mm512_srli_epi32(v[0], 16))));
	for (k = 0; k < 2; k++) {
		s = k == 0 ? v[1] & m6 :
		    (v[3] & m4) | (_mm512_srli_epi32(v[1], 2) & m2);
		_mm512_store_si512(to->scale[2 * k], _mm512_mask_blend_epi16(
		    0xaaaaaaaa, s, _mm512_slli_epi32(s, 16)));
		_mm512_store_si512(to->scale[2 * k + 1],
		    _mm512_mask_blend_epi16(0x55555555, s,
		    _mm512_srli_epi32(s, 16)));
	}
	_mm512_store_si512(to->min[0], v[2] & m6);
	_mm512_store_si512(to->min[1], (_mm512_srli_epi32(v[3], 4) & m4) |
	    (_mm512_srli_epi32(v[2], 2) & m2));
}

/* Stores the minimums of rows r and r + 1, each for twice 16 columns. */
KERNEL_INLINE void
put_two_mins(const struct heads *h, struct panel *p, size_t r)
{
	const __m512i each = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 8, 8, 9,
	    9, 10, 10, 11, 11);
	__m512i min = _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(
	    load8(h->min[0] + r), load8(h->min[1] + r)));

	min = bf16_pairs(min, min);
	_mm512_store_si512(p->min[r], _mm512_permutexvar_epi32(each, min));
	_mm512_store_si512(p->min[r + 1], _mm512_permutexvar_epi32(
	    _mm512_add_epi32(each, _mm512_set1_epi32(4)), min));
}

/* Returns the lower half of a and the upper half of b. */
KERNEL_INLINE __m512i
halves(__m512i a, __m512i b)
{
	return _mm512_mask_blend_epi64(0xf0, a, b);
}

/*
 * Unpacks row r of Q4_K or Q5_K.  A scale has only 16 products with four bits
 * of a weight; the bytes of two scales' products fill a register, in which both
 * planes are looked up.  The planes of Q5_K are those of 16 times the product,
 * so that the fifth bit adds the scale to the high one.
 */
KERNEL_INLINE void
unpack_k45(uint32_t type, const unsigned char *w, const struct heads *h,
    size_t r, uint8_t (*to)[2][64])
{
	const __m512i numbers = _mm512_slli_epi16(in_halves(_mm256_setr_epi16(
	    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
	    (unsigned)shifted_by(type));
	const __m512i of_two = halves(numbers, _mm512_slli_epi16(numbers, 8));
	const __m512i zero = _mm512_setzero_si512();
	/* an index is twice the weight, plus 1 for the high byte, plus 32 for
	   the second scale */
	const __m512i turn = halves(_mm512_set1_epi32(1),
	    _mm512_set1_epi32(29));
	const __m512i low = halves(zero, set8(32));
	__m512i bits = in_halves(load32(w + 16)), scale, table, q, high;
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		scale = _mm512_set1_epi32((int)h->scale[k][r]);
		table = _mm512_maddubs_epi16(of_two, scale);
		q = in_halves(load32(w + (type == QT_Q5_K ? 48 : 16) + 32 * k));
		/* (q & 0x1e) | low */
		q = _mm512_ternarylogic_epi32(_mm512_rolv_epi32(q, turn),
		    set8(0x1e), low, 0xea);
		_mm512_store_si512(to[k][0], _mm512_permutexvar_epi8(q, table));
		high = _mm512_permutexvar_epi8(q | set8(1), table);
		if (type == QT_Q5_K)
			high = _mm512_mask_add_epi8(high,
			    _mm512_test_epi8_mask(bits, halves(set8(1 << 2 * k),
			    set8(2 << 2 * k))), high, _mm512_shuffle_epi8(
			    scale, halves(zero, set8(1))));
		_mm512_store_si512(to[k][1], high);
	}
}

KERNEL_INLINE void
unpack_panel(uint32_t type, const struct qwen_matmul *m,
    const unsigned char *const *row, struct panel *p)
{
	struct heads h;
	size_t r;

	(void)m;
	if (type != QT_Q4_K && type != QT_Q5_K) {
		for (r = 0; r < TILE; r++)
			unpack_row(type, row[r], p, r);
		return;
	}
	unpack_heads(row, &h, p);
	for (r = 0; r < TILE; r++)
		unpack_k45(type, row[r], &h, r, p->w[r]);
	for (r = 0; r < TILE; r += 2)
		put_two_mins(&h, p, r);
}

/* ---- products */

KERNEL_INLINE int
overlaps(uint32_t type, const struct qwen_matmul *m)
{
	(void)type;
	(void)m;
	return 0;
}

KERNEL_INLINE void
configure(struct amx_config *c)
{
	int i;

	for (i = 0; i < 6; i++)
		tile_shape(c, i, 16, 64);
}

/* Returns I for row r of a block and 16 tokens. */
KERNEL_INLINE __m512i
sum_of(uint32_t type, int plain, const struct sums *s, int r)
{
	const unsigned by = (unsigned)shifted_by(type);
	__m512i i = _mm512_load_si512(s->ll[r]), mid;

	if (!has_mid(type, plain))
		return i;
	if (by > 0)
		i = _mm512_srai_epi32(i, by);
	mid = _mm512_load_si512(s->mid[r]);
	if (has_hh(type, plain))
		mid = _mm512_add_epi32(mid, _mm512_slli_epi32(
		    _mm512_load_si512(s->hh[r]), 8));
	return _mm512_add_epi32(i, _mm512_slli_epi32(mid, 8 - by));
}

/* Adds two rows of the block in work, if there is one, and prefetches. */
KERNEL_INLINE void
fold_two(uint32_t type, int plain, const struct work *k, int r,
    struct fetching *ahead)
{
	const struct block *b = &k->now;
	const struct panel *p = b->p;
	__m512 d, y;
	int end = r + 2;

	fetch(ahead);
	if (b->x == NULL)
		return;
	d = _mm512_load_ps(b->x->d);
	UNROLL
	for (; r < end; r++) {
		y = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(p->d[r])),
		    _mm512_cvtepi32_ps(sum_of(type, plain, &k->s, r)),
		    _mm512_load_ps(b->acc[r]));
		if (qwen_traits[type].has_min)
			y = _mm512_fnmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(
			    p->dmin[r])), _mm512_load_ps(k->s.min[r]), y);
		_mm512_store_ps(b->acc[r], y);
	}
}

/* Multiplies bytes, the first or the second signed; these are constants. */
#define DOT(sum, a, b, a_signed, b_signed) do {				\
	if ((a_signed) && (b_signed))					\
		amx_dpbssd(sum, a, b);					\
	else if (a_signed)						\
		amx_dpbsud(sum, a, b);					\
	else if (b_signed)						\
		amx_dpbusd(sum, a, b);					\
	else								\
		amx_dpbuud(sum, a, b);					\
} while (0)

/* Multiplies a block, each tile loaded once, and meanwhile folds the other. */
KERNEL_INLINE void
multiply_block(uint32_t type, int plain, const struct block *b,
    const struct work *other, struct fetching *ahead)
{
	const int one = in_a_byte(type), neg = is_signed(type);
	const size_t stride = sizeof b->p->w[0];
	int i;

	amx_zero(LL);
	amx_zero(MID);
	amx_zero(HH);
	ROLLED
	for (i = 0; i < 4; i++) {	/* one plane: its sign is there */
		amx_load(TOKENS, b->x->q[i][0], 64);
		amx_load(LOW, b->p->w[0][i][0], stride);
		DOT(LL, LOW, TOKENS, one && neg, plain);
		if (!one) {
			amx_load(HIGH, b->p->w[0][i][1], stride);
			DOT(MID, HIGH, TOKENS, neg, plain);
		}
		fold_two(type, plain, other, 4 * i, ahead);
		if (!plain) {
			amx_load(TOKENS, b->x->q[i][1], 64);
			if (!one)
				DOT(HH, HIGH, TOKENS, neg, 1);
			DOT(MID, LOW, TOKENS, one && neg, 1);
		}
		fold_two(type, plain, other, 4 * i + 2, ahead);
	}
}

KERNEL_INLINE void
next_block(uint32_t type, int plain, struct work *k, const struct block *next,
    struct fetching *ahead)
{
	multiply_block(type, plain, next, k, ahead);
	amx_store(LL, k->s.ll, 64);
	if (has_mid(type, plain))
		amx_store(MID, k->s.mid, 64);
	if (has_hh(type, plain))
		amx_store(HH, k->s.hh, 64);
	if (!qwen_traits[type].has_min)
		return;
	amx_load(LOW, next->p->min, 64);
	amx_load(TOKENS, next->x->sum16, 64);
	amx_zero(LL);
	amx_dpbf16(LL, LOW, TOKENS);
	amx_store(LL, k->s.min, 64);
}

KERNEL_INLINE void
finish(uint32_t type, int plain, struct work *k)
{
	int r;

	for (r = 0; r < TILE; r += 2)
		fold_two(type, plain, k, r, &(struct fetching){ 0 });
}

#endif
