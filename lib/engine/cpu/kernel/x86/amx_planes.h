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
 * Tiles 0 and 1 have sums, 2 weights, 3 tokens.
 */
#ifndef QWEN_KERNEL_AMX_PLANES_H
#define QWEN_KERNEL_AMX_PLANES_H

#define PANELS_ALIVE 2
#include "engine/cpu/kernel/x86/amx_panel.h"

struct pack {
	uint8_t	q[4][2][16][64];	/* step, low or high, quad, token*4 */
	int32_t	asum[4][16];		/* pairs of int16 */
	int32_t	asum16[8][16];		/* pairs of int16 */
	float	d[16];
};

struct panel {
	uint8_t	w[2][4][2][16][64];	/* half, step, low or high, row */
	float	d[PANEL], dmin[PANEL];
	int16_t	min[PANEL][16];
} __attribute__((aligned(64)));

struct work {
	int32_t	s[2][3][16][16];
	struct block b;		/* if busy, its sums are in s[turn] */
	int	busy, turn;
	int	plain;		/* activations are one byte; the other sums are
				   0 */
} __attribute__((aligned(64)));

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

static void
pack(void *to, const void *const *from, size_t n, size_t groups)
{
	static const struct qwen_q8 zero;
	const struct qwen_q8 *x[16];
	struct pack *p = to;
	size_t g, t, j;

	for (g = 0; g < groups; g++, p++) {
		for (t = 0; t < 16; t++)
			x[t] = t < n ? (const struct qwen_q8 *)from[t] + g :
			    &zero;
		for (j = 0; j < 8; j++)
			pack_32(x, j, p);
		for (t = 0; t < 16; t++) {
			for (j = 0; j < 4; j++)
				p->asum[j][t] = dword_at(x[t]->asum + 2 * j);
			for (j = 0; j < 8; j++)
				p->asum16[j][t] = dword_at(x[t]->asum16 +
				    2 * j);
			p->d[t] = x[t]->d;
		}
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
put(uint32_t type, struct panel *p, size_t r, int k, __m512i w, __m128i scale)
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
	uint8_t (*to)[16][64] = p->w[r / TILE][k];

	if (qwen_traits[type].bias > 0) {
		off = _mm512_maddubs_epi16(set8(qwen_traits[type].bias), s);
		even = _mm512_sub_epi16(even, off);
		odd = _mm512_sub_epi16(odd, off);
	}
	_mm512_store_si512(to[0][r % TILE], low_bytes(even, odd));
	if (!in_a_byte(type))
		_mm512_store_si512(to[1][r % TILE], high_bytes(even, odd));
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

/*
 * Unpacks the scales of Q4_K and Q5_K, eight per 256 weights; stores minimums
 * in the panel.
 */
KERNEL_INLINE __m128i
unpack_scales_k4(const unsigned char *w, struct panel *p, size_t r)
{
	uint32_t a = (uint32_t)dword_at(w + 4), b = (uint32_t)dword_at(w + 8);
	uint32_t c = (uint32_t)dword_at(w + 12);
	uint64_t scale = (a & 0x3f3f3f3f) | (uint64_t)((c & 0x0f0f0f0f) |
	    (a >> 2 & 0x30303030)) << 32;
	uint64_t min = (b & 0x3f3f3f3f) | (uint64_t)((c >> 4 & 0x0f0f0f0f) |
	    (b >> 2 & 0x30303030)) << 32;
	__m128i v = _mm_cvtsi64_si128((long long)scale);

	_mm_store_si128((__m128i *)p->min[r],
	    _mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)min)));
	return _mm_unpacklo_epi8(v, v);
}

KERNEL_INLINE void
unpack_k4(uint32_t type, const unsigned char *w, struct panel *p, size_t r)
{
	__m128i scale = unpack_scales_k4(w, p, r);
	__m256i h = load32(w + 16), v;
	__m512i q;
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		v = load32(w + (type == QT_Q5_K ? 48 : 16) + 32 * k);
		q = join(v, _mm256_srli_epi16(v, 4)) & set8(15);
		if (type == QT_Q5_K)
			q = _mm512_mask_add_epi8(q, _mm512_test_epi8_mask(
			    in_halves(h), join(_mm256_set1_epi8((char)(1 <<
			    2 * k)), _mm256_set1_epi8((char)(2 << 2 * k)))), q,
			    set8(16));
		put(type, p, r, k, q, scale);
	}
}

KERNEL_INLINE int
is_direct(uint32_t type, const struct qwen_matmul *m)
{
	(void)type;
	(void)m;
	return 0;
}

KERNEL_INLINE void
unpack_row(uint32_t type, const unsigned char *w, struct panel *p, size_t r,
    int direct)
{
	struct group u;
	__m128i scale;
	int k;

	(void)direct;
	p->d[r] = row_d(type, w);
	if (qwen_traits[type].has_min)
		p->dmin[r] = f32_at(w + qwen_traits[type].d_at + 2);
	if (type == QT_Q4_K || type == QT_Q5_K) {
		unpack_k4(type, w, p, r);
		return;
	}
	decode(type, w, &u);
	scale = _mm256_cvtepi16_epi8(u.scale);
	if (qwen_traits[type].has_min)
		_mm256_store_si256((__m256i *)p->min[r], u.min);
	UNROLL
	for (k = 0; k < 4; k++) {
		if (qwen_traits[type].bias == 128)
			u.w[k] ^= set8(0x80);
		put(type, p, r, k, u.w[k], scale);
	}
}

/* ---- products */

KERNEL_INLINE void
configure(uint32_t type, struct amx_config *c)
{
	int i;

	(void)type;
	for (i = 0; i < 4; i++)
		tile_shape(c, i, 16, 64);
}

/* Returns I for row r of a block and 16 tokens. */
KERNEL_INLINE __m512i
sum_of(uint32_t type, int32_t (*s)[16][16], int r)
{
	__m512i i = _mm512_load_si512(s[1][r]);

	if (!in_a_byte(type))
		i = _mm512_add_epi32(i, _mm512_slli_epi32(_mm512_load_si512(
		    s[2][r]), 8));
	return _mm512_add_epi32(_mm512_load_si512(s[0][r]),
	    _mm512_slli_epi32(i, 8));
}

/*
 * Returns the sum of minimums: pairs of minimums times pairs of sums of
 * activations.
 */
KERNEL_INLINE __m512i
min_of(uint32_t type, const struct pack *x, const int16_t *min)
{
	const int by16 = qwen_traits[type].span == 16;
	const int n = by16 ? 8 : 4;
	__m512i a = _mm512_setzero_si512(), b = a;
	int j;

	UNROLL
	for (j = 0; j < n; j += 2) {
		const int32_t *sum = by16 ? x->asum16[j] : x->asum[j];

		a = _mm512_dpwssd_epi32(a, _mm512_load_si512(sum),
		    _mm512_set1_epi32(dword_at(min + 2 * j)));
		b = _mm512_dpwssd_epi32(b, _mm512_load_si512(sum + 16),
		    _mm512_set1_epi32(dword_at(min + 2 * j + 2)));
	}
	return _mm512_add_epi32(a, b);
}

/* Folds n rows of a block from r on. */
KERNEL_INLINE void
fold(uint32_t type, const struct block *b, int32_t (*s)[16][16], int r, int n)
{
	const struct pack *x = b->x;
	__m512 d = _mm512_load_ps(x->d), y;
	int row = TILE * b->half + r;

	UNROLL
	for (int i = 0; i < n; i++, r++, row++) {
		y = b->first ? _mm512_setzero_ps() :
		    _mm512_load_ps(b->acc[r]);
		y = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(
		    b->p->d[row])), _mm512_cvtepi32_ps(sum_of(type, s, r)), y);
		if (qwen_traits[type].has_min)
			y = _mm512_fnmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(
			    b->p->dmin[row])), _mm512_cvtepi32_ps(min_of(type,
			    x, b->p->min[row])), y);
		_mm512_store_ps(b->acc[r], y);
	}
}

/*
 * After one of the n steps of a block: folds rows of the block before, and
 * unpacks rows of the next panel.
 */
KERNEL_INLINE void
unpack_meanwhile(uint32_t type, struct work *k, struct unpacking *u, int step,
    int n)
{
	if (k->busy)
		fold(type, &k->b, k->s[k->turn], 16 / n * step, 16 / n);
	unpack_some(type, u);
	if (n == 4)
		unpack_some(type, u);
}

/*
 * 64 columns: the weight bytes w times the tokens' plane xb, then the other
 * plane.
 */
#define STEP(w, xb, sum_a, dot_a, sum_b, dot_b, i) do {			\
	amx_load(2, w, 64);						\
	amx_load(3, b->x->q[i][xb], 64);				\
	dot_a(sum_a, 2, 3);						\
	amx_load(3, b->x->q[i][!(xb)], 64);				\
	dot_b(sum_b, 2, 3);						\
} while (0)

KERNEL_INLINE void
multiply_byte(uint32_t type, struct work *k, const struct block *b,
    struct unpacking *u, int32_t (*s)[16][16])
{
	const uint8_t (*w)[2][16][64] = b->p->w[b->half];
	int i;

	ROLLED
	for (i = 0; i < 4; i++) {
		if (is_signed(type))
			STEP(w[i][0], 0, 0, amx_dpbsud, 1, amx_dpbssd, i);
		else
			STEP(w[i][0], 0, 0, amx_dpbuud, 1, amx_dpbusd, i);
		unpack_meanwhile(type, k, u, i, 4);
	}
	amx_store(0, s[0], 64);
	amx_store(1, s[1], 64);
}

/*
 * Multiplies the low bytes of weights, then the high ones: ll and lh, hh and
 * hl.
 */
KERNEL_INLINE void
multiply_bytes(uint32_t type, struct work *k, const struct block *b,
    struct unpacking *u, int32_t (*s)[16][16])
{
	const uint8_t (*w)[2][16][64] = b->p->w[b->half];
	int i;

	ROLLED
	for (i = 0; i < 4; i++) {
		STEP(w[i][0], 0, 0, amx_dpbuud, 1, amx_dpbusd, i);
		unpack_meanwhile(type, k, u, i, 8);
	}
	amx_store(0, s[0], 64);
	amx_zero(0);
	ROLLED
	for (i = 0; i < 4; i++) {
		if (is_signed(type))
			STEP(w[i][1], 1, 0, amx_dpbssd, 1, amx_dpbsud, i);
		else
			STEP(w[i][1], 1, 0, amx_dpbusd, 1, amx_dpbuud, i);
		unpack_meanwhile(type, k, u, 4 + i, 8);
	}
	amx_store(1, s[1], 64);
	amx_store(0, s[2], 64);
}

/* Multiplies one-byte activations by the low and high bytes of weights. */
KERNEL_INLINE void
multiply_plain(uint32_t type, struct work *k, const struct block *b,
    struct unpacking *u, int32_t (*s)[16][16])
{
	const uint8_t (*w)[2][16][64] = b->p->w[b->half];
	int i;

	ROLLED
	for (i = 0; i < 4; i++) {
		amx_load(2, w[i][0], 64);
		amx_load(3, b->x->q[i][0], 64);
		if (in_a_byte(type) && is_signed(type))
			amx_dpbssd(0, 2, 3);
		else
			amx_dpbusd(0, 2, 3);
		if (!in_a_byte(type)) {
			amx_load(2, w[i][1], 64);
			if (is_signed(type))
				amx_dpbssd(1, 2, 3);
			else
				amx_dpbusd(1, 2, 3);
		}
		unpack_meanwhile(type, k, u, i, 4);
	}
	amx_store(0, s[0], 64);
	if (!in_a_byte(type))
		amx_store(1, s[1], 64);
}

KERNEL_INLINE void
begin_panel(uint32_t type, struct work *k, const struct block *b,
    struct unpacking *u)
{
	int32_t (*s)[16][16] = k->s[!k->turn];

	amx_zero(0);
	amx_zero(1);
	if (k->plain)
		multiply_plain(type, k, b, u, s);
	else if (in_a_byte(type))
		multiply_byte(type, k, b, u, s);
	else
		multiply_bytes(type, k, b, u, s);
	k->b = *b;
	k->busy = 1;
	k->turn = !k->turn;
}

KERNEL_INLINE void
get_ready(struct work *k, const struct qwen_matmul *m)
{
	k->busy = k->turn = 0;
	k->plain = m->plain;
	if (k->plain)
		memset(k->s, 0, sizeof k->s);
}

KERNEL_INLINE void
end_panel(uint32_t type, struct work *k, struct unpacking *u)
{
	(void)u;
	fold(type, &k->b, k->s[k->turn], 0, 16);
}

#include "engine/cpu/kernel/x86/amx_rows.h"

#endif
