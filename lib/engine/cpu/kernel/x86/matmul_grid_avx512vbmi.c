/* SPDX-License-Identifier: ISC */
/*
 * matmul_grid_avx512vbmi.c - y = Wx, x in 8 bits, AVX-512 VBMI: weights of grids.
 *
 * With activations in the order in which grid_vbmi.h has weights, lane l has
 * columns 16l .. 16l + 15, which is what an integer scale is for: VPDPBUSD adds
 * them up over all four registers, and one multiplication with the scales
 * follows.
 */
#define ROW_COUNT 8
#include "engine/cpu/kernel/x86/grid_vbmi.h"
#include "engine/cpu/kernel/x86/rows4.h"

/* ---- a row's group */

struct row {
	__m512i	w[4];		/* [j], byte i: weight 4i + j, with its bias */
	__m512i	scale;		/* int32 n for 16 weights: it is 2 n + 1 */
};

/* Dwords of four bits, whose places in qwords of v bytes 0 and 4 of at name. */
KERNEL_INLINE __m512i
four_bits(const uint8_t *at, __m512i v)
{
	return _mm512_multishift_epi64_epi8(_mm512_load_si512(at), v) &
	    _mm512_set1_epi32(15);
}

#define PLACE_OF_32(q) 4 * (q), 0, 0, 0, 4 * (q), 0, 0, 0,
#define PLACE_OF_16(q) 8 * (q), 0, 0, 0, 8 * (q) + 4, 0, 0, 0,
#define PLACE_TOP(q) 28, 0, 0, 0, 28, 0, 0, 0,
TABLE(of_32, 64) = { QWORD8(PLACE_OF_32) };
TABLE(of_16, 64) = { QWORD8(PLACE_OF_16) };
TABLE(top, 64) = { QWORD8(PLACE_TOP) };

/* ---- IQ3: rows have 64 entries of four weights */

/* 64 bytes that begin with four signs each, of dwords of four times seven. */
#define SIGNS_OF_4(q) 0, 0, 7, 7, 14, 14, 21, 21,
TABLE(signs_of_4, 64) = { QWORD8(SIGNS_OF_4) };

KERNEL_INLINE __m512i
signs_iq3_xxs(__m512i dwords)
{
	__m512i v = eighth_signs(_mm512_multishift_epi64_epi8(
	    _mm512_load_si512(signs_of_4), dwords));

	return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, v,
	    _mm512_srli_epi16(v, 4));
}

/* The same of 32 bytes of eight. */
KERNEL_INLINE __m512i
signs_iq3_s(__m256i eights)
{
	__m512i v = _mm512_cvtepu8_epi16(eights);

	return v | _mm512_slli_epi16(v, 4);
}

KERNEL_INLINE void
take_iq3(uint32_t type, const unsigned char *const *p, struct row *r)
{
	const int s = type == QT_IQ3_S;
	__m512i a[4], b[4], sign;
	struct indices x[4];
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		x[k].i = _mm512_loadu_si512(p[k] + 2);
		x[k].ninth = qword_at(p[k] + 66);	/* of IQ3_S */
	}
	in_tables(type, x, 4, a, b);
	UNROLL
	for (k = 0; k < 4; k++) {
		if (s) {
			sign = signs_iq3_s(load32(p[k] + 74));
			r[k].scale = four_bits(of_32, _mm512_set1_epi32(
			    dword_at(p[k] + 106)));
		} else {
			__m512i v = _mm512_cvtepu32_epi64(load32(p[k] + 66));

			sign = signs_iq3_xxs(v);
			r[k].scale = four_bits(top, v);
		}
		/* weights of IQ3_S are 2n - 15, and left as n */
		nibble_weights(s ? NULL : iq3_xxs_weights, a[k], b[k], sign,
		    r[k].w);
	}
}

/* ---- IQ2 has 32 entries of eight weights: two rows fill a register */

#define ROW8(f, n) f(n) f((n) + 1) f((n) + 2) f((n) + 3) f((n) + 4)	\
	f((n) + 5) f((n) + 6) f((n) + 7)
#define ROW32(f) ROW8(f, 0) ROW8(f, 8) ROW8(f, 16) ROW8(f, 24)

/* Two looked up halves of entries, and the signs, to rows r[0] and r[1]. */
KERNEL_INLINE void
both_rows(__m512i a, __m512i b, __m512i sign, struct row *r)
{
	/* bytes n of both in turn, and each twice; then from place 32 on */
#define BOTH(n) (n), 64 + (n),
#define TWICE(n) (n), (n),
	TABLE(in_turn, 64) = { ROW32(BOTH) };
	TABLE(doubled, 64) = { ROW32(TWICE) };
	const __m512i turn = _mm512_load_si512(in_turn);
	const __m512i two = _mm512_load_si512(doubled), more = set8(32);

	crumb_weights(_mm512_permutex2var_epi8(a, turn, b),
	    _mm512_permutexvar_epi8(two, sign), 0x1001, r[0].w);
	crumb_weights(_mm512_permutex2var_epi8(a, turn | more, b),
	    _mm512_permutexvar_epi8(two | more, sign), 0x1001, r[1].w);
}

/* The dwords of a, then b, from dword `from' of each qword. */
KERNEL_INLINE __m512i
dwords_of_both(__m512i a, __m512i b, int from)
{
	const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16,
	    18, 20, 22, 24, 26, 28, 30);

	return _mm512_permutex2var_epi32(a,
	    even | _mm512_set1_epi32(from), b);
}

/* Qwords of four indices, then four times seven signs and a scale. */
KERNEL_INLINE void
take_iq2_xxs(const unsigned char *const *p, struct indices *x, __m512i *sign,
    struct row *r)
{
#define PLACE_60(q) 60, 0, 0, 0, 60, 0, 0, 0,
	TABLE(at_60, 64) = { QWORD8(PLACE_60) };
	__m512i a = _mm512_loadu_si512(p[0] + 2);
	__m512i b = _mm512_loadu_si512(p[1] + 2);

	x->i = dwords_of_both(a, b, 0);
	*sign = eighth_signs(_mm512_multishift_epi64_epi8(
	    _mm512_load_si512(signs_of_8), dwords_of_both(a, b, 1)));
	r[0].scale = four_bits(at_60, a);
	r[1].scale = four_bits(at_60, b);
}

/* Words of nine bits of index and seven signs. */
KERNEL_INLINE void
take_iq2_xs(const unsigned char *const *p, struct indices *x, __m512i *sign,
    struct row *r)
{
#define APART(q) 0, 16, 32, 48, 9, 25, 41, 57,
	TABLE(apart, 64) = { QWORD8(APART) };
	const __m512i at = _mm512_load_si512(apart);
	const __m512i bit = _mm512_set1_epi16(256);
	__m512i a = _mm512_loadu_si512(p[0] + 2);
	__m512i b = _mm512_loadu_si512(p[1] + 2);
	int k;

	x->ninth = _mm512_kunpackd(_mm512_test_epi16_mask(b, bit),
	    _mm512_test_epi16_mask(a, bit));
	a = _mm512_multishift_epi64_epi8(at, a);
	b = _mm512_multishift_epi64_epi8(at, b);
	x->i = dwords_of_both(a, b, 0);
	*sign = eighth_signs(dwords_of_both(a, b, 1));
	for (k = 0; k < 2; k++)
		r[k].scale = four_bits(of_16, _mm512_set1_epi64(
		    (long long)qword_at(p[k] + 66)));
}

KERNEL_INLINE void
take_iq2_s(const unsigned char *const *p, struct indices *x, __m512i *sign,
    struct row *r)
{
	/* two bits for each index, 16 for each eight of them */
#define TWO_BITS(q) 16 * ((q) & 3), 16 * ((q) & 3) + 2, 16 * ((q) & 3) + 4, \
	16 * ((q) & 3) + 6, 16 * ((q) & 3) + 8, 16 * ((q) & 3) + 10,	\
	16 * ((q) & 3) + 12, 16 * ((q) & 3) + 14,
	TABLE(two_bits, 64) = { QWORD8(TWO_BITS) };
	__m512i h = _mm512_multishift_epi64_epi8(_mm512_load_si512(two_bits),
	    _mm512_mask_set1_epi64(_mm512_set1_epi64(
	    (long long)qword_at(p[0] + 66)), 0xf0,
	    (long long)qword_at(p[1] + 66)));
	int k;

	x->i = join(load32(p[0] + 2), load32(p[1] + 2));
	x->ninth = _mm512_test_epi8_mask(h, set8(1));
	x->tenth = _mm512_test_epi8_mask(h, set8(2));
	*sign = join(load32(p[0] + 34), load32(p[1] + 34));
	for (k = 0; k < 2; k++)
		r[k].scale = four_bits(of_16, _mm512_set1_epi64(
		    (long long)qword_at(p[k] + 74)));
}

KERNEL_INLINE void
take_iq2(uint32_t type, const unsigned char *const *p, struct row *r)
{
	struct indices x[2];
	__m512i a[2], b[2], sign[2];
	int k;

	UNROLL
	for (k = 0; k < 2; k++) {
		if (type == QT_IQ2_XXS)
			take_iq2_xxs(p + 2 * k, &x[k], &sign[k], r + 2 * k);
		else if (type == QT_IQ2_XS)
			take_iq2_xs(p + 2 * k, &x[k], &sign[k], r + 2 * k);
		else
			take_iq2_s(p + 2 * k, &x[k], &sign[k], r + 2 * k);
	}
	in_tables(type, x, 2, a, b);
	UNROLL
	for (k = 0; k < 2; k++)
		both_rows(a[k], b[k], sign[k], r + 2 * k);
}

/* ---- activations */

struct act {
	__m512i	q[4];		/* [j], byte i: activation 4i + j */
	__m512i	off, a, a2;	/* of 16: what the bias comes to, a, and 2 a */
};

#define FOURTH(n) 4 * (n),
TABLE(fourth, 64) = { ROW32(FOURTH) ROW32(FOURTH) };

KERNEL_INLINE void
order_acts(uint32_t type, const struct qwen_q8 *x, struct act *y)
{
	const __m512i *q = (const __m512i *)x->q;
	int j;

	UNROLL
	for (j = 0; j < 4; j++) {
		__m512i at = _mm512_load_si512(fourth) | set8(j);

		y->q[j] = _mm512_mask_blend_epi64(0xf0,
		    _mm512_permutex2var_epi8(q[0], at, q[1]),
		    _mm512_permutex2var_epi8(q[2], at, q[3]));
	}
	y->off = _mm512_load_si512(x->off6);	/* -32 times their sum */
	if (type == QT_IQ3_S)			/* -15 */
		y->off = _mm512_sub_epi32(_mm512_srai_epi32(y->off, 1),
		    _mm512_srai_epi32(y->off, 5));
	else					/* -64 */
		y->off = _mm512_slli_epi32(y->off, 1);
	y->a = _mm512_cvtepi16_epi32(twice(load16(x->a)));
	y->a2 = _mm512_add_epi32(y->a, y->a);
}

/* 16 int32 that add up to a block's sum. */
KERNEL_INLINE __m512i
dot(uint32_t type, const struct row *r, const struct act *x)
{
	__m512i v = type == QT_IQ3_S ? _mm512_setzero_si512() : x->off;
	int j;

	UNROLL
	for (j = 0; j < 4; j++)
		v = _mm512_dpbusd_epi32(v, r->w[j], x->q[j]);
	if (type == QT_IQ3_S)
		v = _mm512_add_epi32(_mm512_add_epi32(v, v), x->off);
	return _mm512_mullo_epi32(v, _mm512_dpwssd_epi32(x->a, r->scale, x->a2));
}

/*
 * Eight rows: activations are put in order once for two times the four whose
 * entries are looked up together.
 */
KERNEL_INLINE void
sums_grid(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n_in, int nt, const unsigned char *ahead, __m128 *acc)
{
	const struct qwen_traits *f = &qwen_traits[type];
	struct act y[4];
	size_t b, i;
	int h, j;

	for (b = 0; b < n_in / QWEN_GROUP; b++) {
		prefetch(ahead + 8 * b * f->bytes, 8 * f->bytes);
		for (j = 0; j < nt; j++)
			order_acts(type, x[j] + b, &y[j]);
		for (h = 0; h < 2; h++) {
			const unsigned char **four = w + 4 * h;
			__m128 d = load_d4(type, four, 0);
			__m512i sum[4];
			struct row r[4];

			if (type == QT_IQ3_S || type == QT_IQ3_XXS)
				take_iq3(type, four, r);
			else
				take_iq2(type, four, r);
			for (j = 0; j < nt; j++) {
				__m128 *a = &acc[2 * j + h];

				for (i = 0; i < 4; i++)
					sum[i] = dot(type, &r[i], &y[j]);
				*a = _mm_fmadd_ps(_mm_mul_ps(d,
				    _mm_set1_ps(x[j][b].d)),
				    _mm_cvtepi32_ps(add_halves(in_256(sums_by_lane(sum)))), *a);
			}
			for (i = 0; i < 4; i++)
				four[i] += f->bytes;
		}
	}
}

#define ROW_SUMS sums_grid
#define ROW_FORMATS QWEN_SMALL_GRID_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_grid_avx512vbmi_kernels[] = {
	ROW_KERNELS(.min_tok = FROM_TOKENS, QWEN_AVX512VBMI)
	{ 0 }
};
