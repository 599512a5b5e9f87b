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
/* Here 8 + c for each weight: all bits turned are 7 - c, which is minus that. */
#undef E
#define E(c) (((c) & 0x77) | 0x88)
TABLE(iq3_xxs_0, 256) = {
#include "engine/quant/iq3_xxs.inc"
};
TABLE(iq3_s_0, 512) = {
#include "engine/quant/iq3_s.inc"
};
#undef E
#define E(c) (((c) >> 8 & 0x77) | 0x88)
TABLE(iq3_xxs_1, 256) = {
#include "engine/quant/iq3_xxs.inc"
};
TABLE(iq3_s_1, 512) = {
#include "engine/quant/iq3_s.inc"
};

/* 64 indices of up to ten bits, those above the eighth as masks. */
struct indices {
	__m512i		i;
	__mmask64	ninth, tenth;
};

/*
 * Look n times 64 up in 256 bytes: what is in o stays, where keep is not NULL,
 * unless the bit in there is set.  All use the registers that the table is
 * loaded into, since loading one takes as long as looking up in it.
 */
PI void
look_up256(const uint8_t *table, const struct indices *x, int n,
    const __mmask64 *keep, __m512i *o)
{
	__m512i t[4];
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		t[k] = _mm512_load_si512(table + 64 * k);
		__asm__("" : "+v"(t[k]));
	}
	UNROLL
	for (k = 0; k < n; k++) {
		__m512i v = _mm512_mask_blend_epi8(
		    _mm512_movepi8_mask(x[k].i),
		    _mm512_permutex2var_epi8(t[0], x[k].i, t[1]),
		    _mm512_permutex2var_epi8(t[2], x[k].i, t[3]));

		o[k] = keep == NULL ? v :
		    _mm512_mask_blend_epi8(keep[k], o[k], v);
	}
}

/* In size bytes: 256, 512 or 1024. */
PI void
in_table(const uint8_t *table, int size, const struct indices *x, int n,
    __m512i *o)
{
	__mmask64 m[4];
	int k;

	look_up256(table, x, n, NULL, o);
	for (k = 0; k < n; k++)
		m[k] = x[k].ninth;
	if (size >= 512)
		look_up256(table + 256, x, n, m, o);
	if (size < 1024)
		return;
	for (k = 0; k < n; k++)
		m[k] = x[k].tenth & ~x[k].ninth;
	look_up256(table + 512, x, n, m, o);
	for (k = 0; k < n; k++)
		m[k] = x[k].tenth & x[k].ninth;
	look_up256(table + 768, x, n, m, o);
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

/*
 * Where bytes have two weights each: 4i and 4i + 1 in a, the next in b.  Weights
 * of IQ3_S are 2n - 15, and left as n.
 */
PI void
nibble_weights(uint32_t type, __m512i a, __m512i b, __m256i sign,
    struct row *r)
{
	/* 64 more or less the magnitude */
	static const int8_t xxs[16] = { 2, 12, 20, 28, 36, 44, 52, 60, 68, 76,
	    84, 92, 100, 108, 116, 126 };
	/* nibbles of two signs */
	static const int8_t first[16] = { 0, 15, -16, -1, 0, 15, -16, -1, 0,
	    15, -16, -1, 0, 15, -16, -1 };
	static const int8_t second[16] = { 0, 0, 0, 0, 15, 15, 15, 15, -16,
	    -16, -16, -16, -1, -1, -1, -1 };
	const __m512i m4 = set8(15), s = spread(sign) & m4;
	int j;

	a ^= look_up(s, first);
	b ^= look_up(s, second);
	r->w[0] = a & m4;
	r->w[1] = _mm512_srli_epi16(a, 4) & m4;
	r->w[2] = b & m4;
	r->w[3] = _mm512_srli_epi16(b, 4) & m4;
	UNROLL
	for (j = 0; type == QT_IQ3_XXS && j < 4; j++)
		r->w[j] = look_up(r->w[j], xxs);
}

/* Where bytes have four, two bits each: two at a time. */
PI void
crumb_weights(uint32_t type, __m512i v, __m256i sign, struct row *r)
{
	static const int8_t first[16] = { 72, 89, 107, 0, 72, 89, 107, 0, 72,
	    89, 107, 0, 72, 89, 107, 0 };
	static const int8_t second[16] = { 72, 72, 72, 72, 89, 89, 89, 89,
	    107, 107, 107, 107 };
	const __m512i s = spread(sign), m4 = set8(15);
	__m512i high = _mm512_srli_epi16(v, 4) & m4;
	int j;

	v &= m4;
	r->w[0] = look_up(v, first);
	r->w[1] = look_up(v, second);
	r->w[2] = look_up(high, first);
	r->w[3] = look_up(high, second);
	UNROLL
	for (j = 0; j < 4; j++)
		r->w[j] = turn_signs(r->w[j], s, j, qwen_traits[type].bias);
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
take_iq3(uint32_t type, const unsigned char *const *p, struct row *r)
{
	const int s = type == QT_IQ3_S;
	__m512i a[4], b[4];
	struct indices x[4];
	__m256i sign;
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		x[k].i = _mm512_loadu_si512(p[k] + 2);
		x[k].ninth = qword_at(p[k] + 66);	/* of IQ3_S */
	}
	in_table(s ? iq3_s_0 : iq3_xxs_0, s ? 512 : 256, x, 4, a);
	in_table(s ? iq3_s_1 : iq3_xxs_1, s ? 512 : 256, x, 4, b);
	UNROLL
	for (k = 0; k < 4; k++) {
		if (s) {
			sign = load32(p[k] + 74);
			r[k].scale = _mm512_cvtepi16_epi32(odd(twice(
			    _mm_cvtepu8_epi16(nibbles_of(load4(p[k] +
			    106))))));
		} else {
			sign = take_xxs(load32(p[k] + 66), &r[k]);
		}
		nibble_weights(type, a[k], b[k], sign, &r[k]);
	}
}

/* ---- IQ2 has 32 entries of eight weights: two rows fill a register */

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
take_iq2_xxs(const unsigned char *const *p, struct indices *x, __m256i *sign,
    struct row *r)
{
	__m512i a = _mm512_loadu_si512(p[0] + 2);
	__m512i b = _mm512_loadu_si512(p[1] + 2);

	x->i = bytes_of_both(a, b, xxs);
	sign[0] = take_xxs(_mm512_cvtepi64_epi32(_mm512_srli_epi64(a, 32)), r);
	sign[1] = take_xxs(_mm512_cvtepi64_epi32(_mm512_srli_epi64(b, 32)),
	    r + 1);
}

PI void
take_iq2_xs(const unsigned char *const *p, struct indices *x, __m256i *sign,
    struct row *r)
{
	__m512i a = _mm512_loadu_si512(p[0] + 2);
	__m512i b = _mm512_loadu_si512(p[1] + 2);
	__m512i h = bytes_of_both(_mm512_srli_epi16(a, 8),
	    _mm512_srli_epi16(b, 8), even);
	int k;

	x->i = bytes_of_both(a, b, even);
	x->ninth = _mm512_test_epi8_mask(h, set8(1));
	h = _mm512_srli_epi16(h, 1) & set8(127);
	sign[0] = eighth_sign(_mm512_castsi512_si256(h));
	sign[1] = eighth_sign(_mm512_extracti64x4_epi64(h, 1));
	for (k = 0; k < 2; k++)
		r[k].scale = _mm512_cvtepi16_epi32(odd(_mm256_cvtepu8_epi16(
		    nibbles_of(load8(p[k] + 66)))));
}

/* Every other bit of both rows' high bits. */
PI __mmask64
every_other(const unsigned char *const *p, unsigned from)
{
	const uint64_t bits = 0x5555555555555555u << from;

	return _pext_u64(qword_at(p[0] + 66), bits) |
	    _pext_u64(qword_at(p[1] + 66), bits) << 32;
}

PI void
take_iq2_s(const unsigned char *const *p, struct indices *x, __m256i *sign,
    struct row *r)
{
	int k;

	x->i = join(load32(p[0] + 2), load32(p[1] + 2));
	x->ninth = every_other(p, 0);
	x->tenth = every_other(p, 1);
	for (k = 0; k < 2; k++) {
		sign[k] = load32(p[k] + 34);
		r[k].scale = _mm512_cvtepi16_epi32(odd(_mm256_cvtepu8_epi16(
		    nibbles_of(load8(p[k] + 74)))));
	}
}

PI void
take_iq2(uint32_t type, const unsigned char *const *p, struct row *r)
{
	const uint8_t *t0 = type == QT_IQ2_XXS ? iq2_xxs_0 :
	    type == QT_IQ2_XS ? iq2_xs_0 : iq2_s_0;
	const uint8_t *t1 = type == QT_IQ2_XXS ? iq2_xxs_1 :
	    type == QT_IQ2_XS ? iq2_xs_1 : iq2_s_1;
	const int size = type == QT_IQ2_XXS ? 256 :
	    type == QT_IQ2_XS ? 512 : 1024;
	struct indices x[2];
	__m256i sign[4];
	__m512i a[2], b[2];
	int k;

	UNROLL
	for (k = 0; k < 2; k++) {
		if (type == QT_IQ2_XXS)
			take_iq2_xxs(p + 2 * k, &x[k], sign + 2 * k, r + 2 * k);
		else if (type == QT_IQ2_XS)
			take_iq2_xs(p + 2 * k, &x[k], sign + 2 * k, r + 2 * k);
		else
			take_iq2_s(p + 2 * k, &x[k], sign + 2 * k, r + 2 * k);
	}
	in_table(t0, size, x, 2, a);
	in_table(t1, size, x, 2, b);
	UNROLL
	for (k = 0; k < 2; k++)
		both_rows(type, a[k], b[k], sign + 2 * k, r + 2 * k);
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
}

/* 16 int32 that add up to a block's sum. */
PI __m512i
dot(uint32_t type, const struct row *r, const struct act *x)
{
	__m512i v = type == QT_IQ3_S ? _mm512_setzero_si512() : x->off;
	int j;

	UNROLL
	for (j = 0; j < 4; j++)
		v = _mm512_dpbusd_epi32(v, r->w[j], x->q[j]);
	if (type == QT_IQ3_S)
		v = _mm512_add_epi32(_mm512_add_epi32(v, v), x->off);
	return _mm512_mullo_epi32(v, _mm512_mullo_epi32(r->scale, x->a));
}

PI void
sums_grid(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n_in, int nt, const unsigned char *ahead, __m128 *acc)
{
	const struct qwen_traits *f = &qwen_traits[type];
	size_t b, i;
	int j;

	for (b = 0; b < n_in / QWEN_GROUP; b++) {
		__m128 d = load_d4(type, w, 0);
		__m512i sum[4];
		struct row r[4];
		struct act y;

		prefetch(ahead + 4 * b * f->bytes, 4 * f->bytes);
		if (type == QT_IQ3_S || type == QT_IQ3_XXS)
			take_iq3(type, w, r);
		else
			take_iq2(type, w, r);
		for (j = 0; j < nt; j++) {
			order(type, x[j] + b, &y);
			for (i = 0; i < 4; i++)
				sum[i] = dot(type, &r[i], &y);
			acc[j] = _mm_fmadd_ps(_mm_mul_ps(d,
			    _mm_set1_ps(x[j][b].d)),
			    _mm_cvtepi32_ps(sum16x4(sum)), acc[j]);
		}
		for (i = 0; i < 4; i++)
			w[i] += f->bytes;
	}
}

/* Not those of IQ1: 2048 entries are too many for registers. */
#define ROW_SUMS sums_grid
#define ROW_TOKENS 8		/* looking up takes longest */
#define ROW_FORMATS(DO, ...)						\
	DO(iq2_xxs, QT_IQ2_XXS, __VA_ARGS__)				\
	DO(iq2_xs, QT_IQ2_XS, __VA_ARGS__)				\
	DO(iq2_s, QT_IQ2_S, __VA_ARGS__)				\
	DO(iq3_xxs, QT_IQ3_XXS, __VA_ARGS__)				\
	DO(iq3_s, QT_IQ3_S, __VA_ARGS__)
#include "engine/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_grid_avx512vbmi_kernels[] = {
	ROW_KERNELS(.min_tok = ROW_TOKENS + 1, QWEN_AVX512VBMI)
	{ 0 }
};
