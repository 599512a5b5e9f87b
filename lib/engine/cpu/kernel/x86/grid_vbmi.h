/* SPDX-License-Identifier: ISC */
/*
 * grid_vbmi.h - grid weights with AVX-512 VBMI: a grid is held in registers,
 * and VPERMI2B looks 64 entries up in 128 bytes of it.
 *
 * A table has half of each entry, two or four weights, as a byte.  The result
 * is, for weight j of four, a register with the weights 4i + j.  IQ1 is
 * missing: its 2048 entries are too many for registers.
 */
#ifndef QWEN_X86_GRID_VBMI_H
#define QWEN_X86_GRID_VBMI_H

#include "engine/cpu/kernel/x86/decode.h"

/* Minimum tokens for which panels are faster than rows. */
#define FROM_TOKENS 4

/* ---- tables: bytes 0 and 1 of the entries */

#define TABLE(name, n) static const uint8_t name[n] __attribute__((aligned(64)))

#define E(c) ((c) & 255)
TABLE(iq2_xxs_0, 256) = {
#include "grids/iq2_xxs.inc"
};
TABLE(iq2_xs_0, 512) = {
#include "grids/iq2_xs.inc"
};
TABLE(iq2_s_0, 1024) = {
#include "grids/iq2_s.inc"
};
#undef E
#define E(c) ((c) >> 8)
TABLE(iq2_xxs_1, 256) = {
#include "grids/iq2_xxs.inc"
};
TABLE(iq2_xs_1, 512) = {
#include "grids/iq2_xs.inc"
};
TABLE(iq2_s_1, 1024) = {
#include "grids/iq2_s.inc"
};
/*
 * Entries are 8 + c per weight: inverting all bits gives 7 - c, for negative
 * weights.
 */
#undef E
#define E(c) (((c) & 0x77) | 0x88)
TABLE(iq3_xxs_0, 256) = {
#include "grids/iq3_xxs.inc"
};
TABLE(iq3_s_0, 512) = {
#include "grids/iq3_s.inc"
};
#undef E
#define E(c) (((c) >> 8 & 0x77) | 0x88)
TABLE(iq3_xxs_1, 256) = {
#include "grids/iq3_xxs.inc"
};
TABLE(iq3_s_1, 512) = {
#include "grids/iq3_s.inc"
};

/* 64 indices of up to ten bits; the ninth and tenth bits are masks. */
struct indices {
	__m512i		i;
	__mmask64	ninth, tenth;
};

/*
 * Looks n times 64 indices up in 256 bytes.  If keep is not NULL, o[k] changes
 * only where the bit in keep[k] is set.  All lookups share the registers of the
 * table, since loading it takes as long as a lookup.
 */
KERNEL_INLINE void
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

/* Looks up in a table of 256, 512 or 1024 bytes. */
KERNEL_INLINE void
in_table(const uint8_t *table, int size, const struct indices *x, int n,
    __m512i *o)
{
	__mmask64 ninth[4];
	__m512i v[4];
	int k;

	for (k = 0; k < n; k++)
		ninth[k] = x[k].ninth;
	look_up256(table, x, n, NULL, o);
	if (size >= 512)
		look_up256(table + 256, x, n, ninth, o);
	if (size < 1024)
		return;
	look_up256(table + 512, x, n, NULL, v);
	look_up256(table + 768, x, n, ninth, v);
	for (k = 0; k < n; k++)
		o[k] = _mm512_mask_blend_epi8(x[k].tenth, o[k], v[k]);
}

/* Looks n times 64 indices up in both tables of a format. */
KERNEL_INLINE void
in_tables(uint32_t type, const struct indices *x, int n, __m512i *a, __m512i *b)
{
	switch (type) {
	case QT_IQ2_XXS:
		in_table(iq2_xxs_0, 256, x, n, a);
		in_table(iq2_xxs_1, 256, x, n, b);
		break;
	case QT_IQ2_XS:
		in_table(iq2_xs_0, 512, x, n, a);
		in_table(iq2_xs_1, 512, x, n, b);
		break;
	case QT_IQ2_S:
		in_table(iq2_s_0, 1024, x, n, a);
		in_table(iq2_s_1, 1024, x, n, b);
		break;
	case QT_IQ3_XXS:
		in_table(iq3_xxs_0, 256, x, n, a);
		in_table(iq3_xxs_1, 256, x, n, b);
		break;
	default:
		in_table(iq3_s_0, 512, x, n, a);
		in_table(iq3_s_1, 512, x, n, b);
	}
}

/* ---- weights and signs */

#define QWORD8(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)

/* Returns the bytes of x at the indices in the lowest six bits of `at'. */
KERNEL_INLINE __m512i
bytes_at(const void *x, __m512i at)
{
	return _mm512_permutexvar_epi8(at, _mm512_load_si512(x));
}

/* Tables of f(i) for i = 0 .. 63, indexed by six bits. */
#define VALUE8(f, i) f(i), f((i) + 1), f((i) + 2), f((i) + 3), f((i) + 4), \
	f((i) + 5), f((i) + 6), f((i) + 7)
#define VALUE64(f) { VALUE8(f, 0), VALUE8(f, 8), VALUE8(f, 16),		\
	VALUE8(f, 24), VALUE8(f, 32), VALUE8(f, 40), VALUE8(f, 48),	\
	VALUE8(f, 56) }

/*
 * Bytes have two weights, as codes of four bits: a has 4i and 4i + 1, b the
 * next two.  Sets byte i of w[j] to weight 4i + j: its code, or the table's
 * value for it.  The four lowest bits of each byte of sign are the signs.
 */
KERNEL_INLINE void
nibble_weights(const uint8_t *table, __m512i a, __m512i b, __m512i sign,
    __m512i *w)
{
	/*
	 * four bits set if a sign is set, of the first or the last two weights
	 */
#define FIRST(i) (((i) & 1 ? 15 : 0) | ((i) & 2 ? 240 : 0))
#define SECOND(i) FIRST((i) >> 2)
	TABLE(first, 64) = VALUE64(FIRST);
	TABLE(second, 64) = VALUE64(SECOND);
	const __m512i m4 = set8(15);
	__m512i high[2];
	int j;

	a ^= bytes_at(first, sign);
	b ^= bytes_at(second, sign);
	high[0] = _mm512_srli_epi16(a, 4);
	high[1] = _mm512_srli_epi16(b, 4);
	w[0] = a;
	w[1] = high[0];
	w[2] = b;
	w[3] = high[1];
	UNROLL
	for (j = 0; j < 4; j++)
		w[j] = table != NULL ? bytes_at(table, w[j]) :
		    (__m512i)(w[j] & m4);
}

/*
 * Values of codes: for IQ3_XXS 64 plus or minus the magnitude; for IQ3_S the
 * weight plus 16.
 */
#define XXS_WEIGHT(i) ((i) % 16 == 0 ? 2 : (i) % 16 == 15 ? 126 :	\
	4 + 8 * ((i) % 16))
#define S_WEIGHT(i) (2 * ((i) % 16) + 1)
TABLE(iq3_xxs_weights, 64) = VALUE64(XXS_WEIGHT);
TABLE(iq3_s_weights, 64) = VALUE64(S_WEIGHT);

/*
 * Bytes have four weights, as codes of two bits: 64 plus the magnitude, or
 * minus it where the sign is set.  `first' selects the bits of the first
 * weights' signs in two bytes of sign; the other weights follow.
 */
KERNEL_INLINE void
crumb_weights(__m512i v, __m512i sign, int first, __m512i *w)
{
#define MAGNITUDE(i) 64 + ((i) % 4 == 0 ? 8 : (i) % 4 == 1 ? 25 : 43)
#define MAGNITUDE_2(i) MAGNITUDE((i) / 4)
#define MAGNITUDE_4(i) MAGNITUDE((i) / 16)
	TABLE(at_0, 64) = VALUE64(MAGNITUDE);
	TABLE(at_2, 64) = VALUE64(MAGNITUDE_2);
	TABLE(at_4, 64) = VALUE64(MAGNITUDE_4);
	int j;

	w[0] = bytes_at(at_0, v);
	w[1] = bytes_at(at_2, v);
	w[2] = bytes_at(at_4, v);
	w[3] = bytes_at(at_0, _mm512_srli_epi16(v, 6));
	UNROLL
	for (j = 0; j < 4; j++)
		w[j] = _mm512_mask_sub_epi8(w[j],
		    _mm512_test_epi8_mask(sign,
		    _mm512_set1_epi16((short)(first << j))), set8(-128),
		    w[j]);
}

/*
 * Completes bytes of seven signs with an eighth, so that the number of ones is
 * even.
 */
KERNEL_INLINE __m512i
eighth_signs(__m512i v)
{
#define ONES(i) (((i) ^ (i) >> 1 ^ (i) >> 2 ^ (i) >> 3 ^ (i) >> 4 ^		\
	(i) >> 5 ^ (i) >> 6) & 1)
#define WITH_EIGHTH(i) ((i) | ONES(i) << 7)
#define WITH_EIGHTH_64(i) WITH_EIGHTH((i) + 64)
	TABLE(low, 64) = VALUE64(WITH_EIGHTH);
	TABLE(high, 64) = VALUE64(WITH_EIGHTH_64);

	return _mm512_permutex2var_epi8(_mm512_load_si512(low), v,
	    _mm512_load_si512(high));
}

/* The bit offsets of four times seven signs in dwords. */
#define SIGNS_OF_8(q) 0, 7, 14, 21, 32, 39, 46, 53,
TABLE(signs_of_8, 64) = { QWORD8(SIGNS_OF_8) };

#endif
