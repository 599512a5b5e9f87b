/* SPDX-License-Identifier: ISC */
/*
 * matmul_grid_avx512vbmi.c - y = Wx, x in 8 bits, weights of grids, AVX-512 VBMI:
 * a grid lies in registers, and VPERMI2B looks 64 entries up in 128 bytes of it.
 *
 * A table has half of each entry, two weights or four, as a byte.  What comes
 * out of it is, for weight j of four, a register with the weights 4i + j; with
 * activations in that order lane l has columns 16l .. 16l + 15, which is what
 * an integer scale is for: VPDPBUSD adds them up over all four registers, and
 * one multiplication with the scales follows.
 */
#include "engine/kernel/x86/rows512.h"

/* ---- tables: bytes 0 and 1 of entries */

#define TABLE(name, n) static const uint8_t name[n] __attribute__((aligned(64)))

#define E(c) ((c) & 255)
TABLE(iq2_xxs_0, 256) = {
#include "engine/quant/iq2_xxs.inc"
};
TABLE(iq2_xs_0, 512) = {
#include "engine/quant/iq2_xs.inc"
};
TABLE(iq2_s_0, 1024) = {
#include "engine/quant/iq2_s.inc"
};
TABLE(iq3_xxs_0, 256) = {
#include "engine/quant/iq3_xxs.inc"
};
#undef E
#define E(c) ((c) >> 8)
TABLE(iq2_xxs_1, 256) = {
#include "engine/quant/iq2_xxs.inc"
};
TABLE(iq2_xs_1, 512) = {
#include "engine/quant/iq2_xs.inc"
};
TABLE(iq2_s_1, 1024) = {
#include "engine/quant/iq2_s.inc"
};
TABLE(iq3_xxs_1, 256) = {
#include "engine/quant/iq3_xxs.inc"
};
/* Here weights, 2c + 1. */
#undef E
#define E(c) (((c) & 0x77) * 2 + 0x11)
TABLE(iq3_s_0, 512) = {
#include "engine/quant/iq3_s.inc"
};
#undef E
#define E(c) (((c) >> 8 & 0x77) * 2 + 0x11)
TABLE(iq3_s_1, 512) = {
#include "engine/quant/iq3_s.inc"
};

/* In 256 bytes, by the eight bits of i. */
PI __m512i
look_up256(const uint8_t *table, __m512i i)
{
	const __m512i *t = (const __m512i *)table;

	return _mm512_mask_blend_epi8(_mm512_movepi8_mask(i),
	    _mm512_permutex2var_epi8(t[0], i, t[1]),
	    _mm512_permutex2var_epi8(t[2], i, t[3]));
}

/* In 512, with the ninth bits of indices. */
PI __m512i
look_up512(const uint8_t *table, __m512i i, __mmask64 ninth)
{
	return _mm512_mask_blend_epi8(ninth, look_up256(table, i),
	    look_up256(table + 256, i));
}

/* ---- a row's group */

struct row {
	__m512i	w[4];		/* [j], byte i: weight 4i + j, with its bias */
	__m512i	scale;		/* int32 for 16 weights */
};

/* Its 32 bytes of signs, two times four bits each, as 64 bytes of four. */
PI __m512i
spread(__m256i s)
{
	__m512i v = _mm512_cvtepu8_epi16(s);

	return v | _mm512_slli_epi16(v, 4);
}

/* bias - w where the bit is set: w has the bias already */
PI __m512i
turn_signs(__m512i w, __m512i signs, int j, int bias)
{
	return _mm512_mask_sub_epi8(w,
	    _mm512_test_epi8_mask(signs, set8(1 << j)), set8(2 * bias), w);
}

/* Where bytes have two weights each: 4i and 4i + 1 in a, the next in b. */
PI void
nibble_weights(uint32_t type, __m512i a, __m512i b, __m256i sign,
    struct row *r)
{
	/* 64 and the magnitude */
	static const int8_t xxs[16] = { 68, 76, 84, 92, 100, 108, 116, 126 };
	const __m512i s = spread(sign);
	int j;

	r->w[0] = a;
	r->w[1] = _mm512_srli_epi16(a, 4);
	r->w[2] = b;
	r->w[3] = _mm512_srli_epi16(b, 4);
	UNROLL
	for (j = 0; j < 4; j++) {
		r->w[j] &= set8(15);
		if (type == QT_IQ3_XXS)
			r->w[j] = look_up(r->w[j], xxs);
		else
			r->w[j] |= set8(16);
		r->w[j] = turn_signs(r->w[j], s, j,
		    qwen_traits[type].bias);
	}
}

/* Where bytes have four, two bits each. */
PI void
crumb_weights(uint32_t type, __m512i v, __m256i sign, struct row *r)
{
	static const int8_t values[16] = { 72, 89, 107 };
	const __m512i s = spread(sign);
	int j;

	UNROLL
	for (j = 0; j < 4; j++)
		r->w[j] = turn_signs(look_up(_mm512_srli_epi16(v,
		    2 * (unsigned)j) & set8(3), values), s, j,
		    qwen_traits[type].bias);
}

/* Signs and scales of the XXS formats from their eight dwords. */
PI __m256i
take_xxs(__m256i a, struct row *r)
{
	uint8_t sign[32] __attribute__((aligned(32)));

	r->scale = _mm512_cvtepi16_epi32(signs_xxs(a, sign));
	return load32(sign);
}

PI void
take_iq3(uint32_t type, const unsigned char *p, struct row *r)
{
	__m512i i = _mm512_loadu_si512(p + 2);

	if (type == QT_IQ3_XXS) {
		__m256i sign = take_xxs(load32(p + 66), r);

		nibble_weights(type, look_up256(iq3_xxs_0, i),
		    look_up256(iq3_xxs_1, i), sign, r);
		return;
	}
	r->scale = _mm512_cvtepi16_epi32(odd(twice(_mm_cvtepu8_epi16(
	    nibbles_of(load4(p + 106))))));
	nibble_weights(type, look_up512(iq3_s_0, i, qword_at(p + 66)),
	    look_up512(iq3_s_1, i, qword_at(p + 66)), load32(p + 74), r);
}

/* ---- IQ2 has 32 entries of eight weights: two rows are looked up at once */

/* The bytes of a, then b, that the table names: 32 of each. */
PI __m512i
bytes_of_both(__m512i a, __m512i b, const uint8_t *at)
{
	return _mm512_permutex2var_epi8(a, _mm512_load_si512(at), b);
}

#define ROW8(f, n) f(n) f((n) + 1) f((n) + 2) f((n) + 3) f((n) + 4)	\
	f((n) + 5) f((n) + 6) f((n) + 7)
#define ROW32(f) ROW8(f, 0) ROW8(f, 8) ROW8(f, 16) ROW8(f, 24)

/* Bytes 2n of both, or 2n + 1; of XXS those that are indices. */
#define EVEN(n) 2 * (n),
#define EVEN_B(n) 64 + 2 * (n),
#define XXS(n) (n) / 4 * 8 + (n) % 4,
#define XXS_B(n) 64 + (n) / 4 * 8 + (n) % 4,
TABLE(even, 64) = { ROW32(EVEN) ROW32(EVEN_B) };
TABLE(xxs, 64) = { ROW32(XXS) ROW32(XXS_B) };
/* Bytes n of both in turn; from the upper halves with 32 added. */
#define BOTH(n) (n), 64 + (n),
TABLE(in_turn, 64) = { ROW32(BOTH) };

/* Two looked up halves of entries to rows r[0] and r[1]. */
PI void
both_rows(uint32_t type, __m512i a, __m512i b, const __m256i *sign,
    struct row *r)
{
	const __m512i at = _mm512_load_si512(in_turn);

	crumb_weights(type, _mm512_permutex2var_epi8(a, at, b), sign[0], r);
	crumb_weights(type, _mm512_permutex2var_epi8(a, at | set8(32), b),
	    sign[1], r + 1);
}

PI void
take_iq2_xxs(const unsigned char *const *p, struct row *r)
{
	__m512i a = _mm512_loadu_si512(p[0] + 2);
	__m512i b = _mm512_loadu_si512(p[1] + 2), i = bytes_of_both(a, b, xxs);
	__m256i sign[2];

	sign[0] = take_xxs(_mm512_cvtepi64_epi32(_mm512_srli_epi64(a, 32)), r);
	sign[1] = take_xxs(_mm512_cvtepi64_epi32(_mm512_srli_epi64(b, 32)),
	    r + 1);
	both_rows(QT_IQ2_XXS, look_up256(iq2_xxs_0, i),
	    look_up256(iq2_xxs_1, i), sign, r);
}

PI void
take_iq2_xs(const unsigned char *const *p, struct row *r)
{
	__m512i a = _mm512_loadu_si512(p[0] + 2);
	__m512i b = _mm512_loadu_si512(p[1] + 2);
	__m512i i = bytes_of_both(a, b, even);
	__m512i h = bytes_of_both(_mm512_srli_epi16(a, 8),
	    _mm512_srli_epi16(b, 8), even);
	__mmask64 ninth = _mm512_test_epi8_mask(h, set8(1));
	__m256i sign[2];
	int k;

	h = _mm512_srli_epi16(h, 1) & set8(127);
	sign[0] = eighth_sign(_mm512_castsi512_si256(h));
	sign[1] = eighth_sign(_mm512_extracti64x4_epi64(h, 1));
	for (k = 0; k < 2; k++)
		r[k].scale = _mm512_cvtepi16_epi32(odd(_mm256_cvtepu8_epi16(
		    nibbles_of(load8(p[k] + 66)))));
	both_rows(QT_IQ2_XS, look_up512(iq2_xs_0, i, ninth),
	    look_up512(iq2_xs_1, i, ninth), sign, r);
}

/* Every other bit of both rows' high bits. */
PI __mmask64
every_other(const unsigned char *const *p, unsigned from)
{
	const uint64_t bits = 0x5555555555555555 << from;

	return _pext_u64(qword_at(p[0] + 66), bits) |
	    _pext_u64(qword_at(p[1] + 66), bits) << 32;
}

PI void
take_iq2_s(const unsigned char *const *p, struct row *r)
{
	__m512i i = join(load32(p[0] + 2), load32(p[1] + 2));
	__mmask64 ninth = every_other(p, 0), tenth = every_other(p, 1);
	__m256i sign[2] = { load32(p[0] + 34), load32(p[1] + 34) };
	int k;

	for (k = 0; k < 2; k++)
		r[k].scale = _mm512_cvtepi16_epi32(odd(_mm256_cvtepu8_epi16(
		    nibbles_of(load8(p[k] + 74)))));
	both_rows(QT_IQ2_S, _mm512_mask_blend_epi8(tenth,
	    look_up512(iq2_s_0, i, ninth),
	    look_up512(iq2_s_0 + 512, i, ninth)),
	    _mm512_mask_blend_epi8(tenth, look_up512(iq2_s_1, i, ninth),
	    look_up512(iq2_s_1 + 512, i, ninth)), sign, r);
}

PI void
take_two(uint32_t type, const unsigned char *const *p, struct row *r)
{
	if (type == QT_IQ2_XXS) {
		take_iq2_xxs(p, r);
	} else if (type == QT_IQ2_XS) {
		take_iq2_xs(p, r);
	} else if (type == QT_IQ2_S) {
		take_iq2_s(p, r);
	} else {
		take_iq3(type, p[0], r);
		take_iq3(type, p[1], r + 1);
	}
}

/* ---- activations */

struct act {
	__m512i	q[4];		/* [j], byte i: activation 4i + j */
	__m512i	off, a;		/* of 16: what the bias comes to, and a */
};

#define FOURTH(n) 4 * (n),
TABLE(fourth, 64) = { ROW32(FOURTH) ROW32(FOURTH) };

PI void
order(uint32_t type, const struct qwen_q8 *x, struct act *y)
{
	const __m512i *q = (const __m512i *)x->q;
	const int bias = qwen_traits[type].bias;
	int j;

	UNROLL
	for (j = 0; j < 4; j++) {
		__m512i at = _mm512_load_si512(fourth) | set8(j);

		y->q[j] = _mm512_mask_blend_epi64(0xf0,
		    _mm512_permutex2var_epi8(q[0], at, q[1]),
		    _mm512_permutex2var_epi8(q[2], at, q[3]));
	}
	y->off = _mm512_load_si512(x->off6);	/* -32 times their sum */
	y->off = bias == 64 ? _mm512_slli_epi32(y->off, 1) :
	    _mm512_srai_epi32(y->off, 1);
	y->a = _mm512_cvtepi16_epi32(twice(load16(x->a)));
}

/* 16 int32 that add up to a block's sum. */
PI __m512i
dot(const struct row *r, const struct act *x)
{
	__m512i v = x->off;
	int j;

	UNROLL
	for (j = 0; j < 4; j++)
		v = _mm512_dpbusd_epi32(v, r->w[j], x->q[j]);
	return _mm512_mullo_epi32(v, _mm512_mullo_epi32(r->scale, x->a));
}

PI void
sums_grid(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n_in, int nt, const unsigned char *ahead, __m128 *acc)
{
	const struct qwen_traits *f = &qwen_traits[type];
	size_t b, i;
	int j, k;

	for (b = 0; b < n_in / QWEN_GROUP; b++) {
		__m128 d = load_d4(type, w, 0);
		__m512i sum[4][4];
		struct act y[4];
		struct row r[2];

		for (j = 0; j < nt; j++)
			order(type, x[j] + b, &y[j]);
		for (i = 0; i < 4; i += 2) {
			prefetch(ahead + (4 * b + i) * f->bytes,
			    2 * f->bytes);
			take_two(type, w + i, r);
			for (j = 0; j < nt; j++) {
				for (k = 0; k < 2; k++)
					sum[j][i + (size_t)k] = dot(&r[k],
					    &y[j]);
			}
		}
		for (j = 0; j < nt; j++)
			acc[j] = _mm_fmadd_ps(_mm_mul_ps(d,
			    _mm_set1_ps(x[j][b].d)),
			    _mm_cvtepi32_ps(sum16x4(sum[j])), acc[j]);
		for (i = 0; i < 4; i++)
			w[i] += f->bytes;
	}
}

/* Not those of IQ1: 2048 entries are too many for registers. */
#define ROW_SUMS sums_grid
#define ROW_FORMATS(DO, ...)						\
	DO(iq2_xxs, QT_IQ2_XXS, __VA_ARGS__)				\
	DO(iq2_xs, QT_IQ2_XS, __VA_ARGS__)				\
	DO(iq2_s, QT_IQ2_S, __VA_ARGS__)				\
	DO(iq3_xxs, QT_IQ3_XXS, __VA_ARGS__)				\
	DO(iq3_s, QT_IQ3_S, __VA_ARGS__)
#include "engine/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_grid_avx512vbmi_kernels[] = {
	ROW_KERNELS(QWEN_AVX512VBMI)
	{ 0 }
};
