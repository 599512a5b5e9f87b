/* SPDX-License-Identifier: ISC */
/*
 * formats.h - the encoders of all formats, compiled once per instruction set
 * (static only), and the scales that each tries.
 */
#ifndef QWEN_QUANTIZE_FORMATS_H
#define QWEN_QUANTIZE_FORMATS_H

#include "quantize/encode.h"
#include "quantize/grid.h"
#include "quantize/pack.h"

/* ------------------------------------------------------ blocks in sub-blocks */

INLINE void
encode_super(uint32_t type, size_t bytes, const struct layout *f, pack_fn *fn,
    ARGS)
{
	size_t per = 256 / (size_t)f->sub, at_once = WIDE / per, i, k, b;
	int both = f->cuts > 0;
	signed char q[32][WIDE];
	struct scales c;
	struct wide s, min;
	struct tile t;

	(void)type;
	for (i = 0; i < n; i += at_once) {
		k = n - i < at_once ? n - i : at_once;
		gather(&t, f->sub, x, w, n_row, i * 256, k * per);
		if (both)
			find_scale2(&t, f->sub, f->code, 1, f->cut, f->cuts, 2,
			    &s, &min);
		else
			find_scale(&t, f->sub, f->code, f->try, f->n_try, 2,
			    &s);
		share_scale(&t, f, &s, both ? &min : NULL, &c);
		codes(&t, f->sub, f->code, &c.s, both ? &c.m : NULL, q);
		for (b = 0; b < k; b++)
			fn(&c, (int)(b * per), q, out + (i + b) * bytes);
	}
}

/* -------------------------------------------------------------- the formats */

static const float try_q8[] = { -128, 127, 126.75f, 126.5f, 126, 125 };
static const float try_q4[] = { -9, -8.5f, -8, -7.75f, -7.5f, -7.25f, -7, -6.5f,
    -6, -5.5f, -5, 6, 6.5f, 7, 7.25f, 7.5f, 8 };
static const float try_q5[] = { -17, -16.5f, -16, -15.5f, -15, -14.5f, -14,
    -13, -12, 13, 14, 14.5f, 15, 15.5f, 16 };
static const float try_iq4[] = { -140, -132, -127, -122, -118, -112, -107, -104,
    -98, -88, -75, 130, 122, 113, 108, 102, 98, 94, 89, 80, 69 };
static const float try_q3[] = { -5, -4.5f, -4.25f, -4, -3.75f, -3.5f, -3.25f,
    -3, -2.75f, -2.5f, 2.25f, 2.5f, 2.75f, 3, 3.25f, 3.5f, 4 };
static const float try_q6[] = { -33, -32.5f, -32, -31.5f, -31, -30.5f, -30,
    30, 30.5f, 31, 31.5f };
static const float where_6bits[] = { -33, -32, -31, -30, -28.5f, 31, 30, 29 };
static const float where_8bits[] = { -128, -126, -123, 127 };
static const float try_2[] = { 53, 48, 43, 39, 35, 31, 27 };
static const float try_3[] = { 70, 66, 62, 58, 54, 50, 45, 40 };
static const float try_3s[] = { 17, 16, 15, 14, 13, 12, 11, 10 };

#define LIST(a) a, (int)(sizeof (a) / sizeof (a)[0])
#define SCALED(lo, hi, usual, try)					\
	&(const struct block){ { INTEGERS, lo, hi }, usual, LIST(try), 0, 0 }
#define RANGED(hi, cut, cuts)						\
	&(const struct block){ { INTEGERS, 0, hi }, 0, NULL, 0, cut, cuts }
#define TABLE(table, lo, hi, usual, ...)				\
	&(const struct block){ { table, lo, hi }, usual, __VA_ARGS__, 0, 0 }
#define SUPER(sub, table, lo, hi, from, to, try, where)			\
	&(const struct layout){ sub, { table, lo, hi }, from, to, LIST(try), \
	    LIST(where), 0, 0, 0 }
#define SUPER2(sub, hi, to, cut, cuts, n_where)				\
	&(const struct layout){ sub, { INTEGERS, 0, hi }, 0, to, NULL, 0, \
	    NULL, n_where, cut, cuts, 1 }
#define GRID(entries, n, dim, sub, even, unit, try, ...)			\
	&(const struct grid){ entries[0], n, dim, sub, even, unit, LIST(try), \
	    __VA_ARGS__ }
#define LEVELS_2 3, { 8, 25, 43 }
#define LEVELS_3 8, { 4, 12, 20, 28, 36, 44, 52, 62 }
#define LEVELS_3S 8, { 1, 3, 5, 7, 9, 11, 13, 15 }

/* Each row: a format, the function that encodes it, and its arguments. */
#define FORMATS(DO)							\
	DO(Q8_0, encode_blocks, SCALED(-128, 127, 127, try_q8))		\
	DO(Q4_0, encode_blocks, SCALED(-8, 7, -8, try_q4))		\
	DO(Q5_0, encode_blocks, SCALED(-16, 15, -16, try_q5))		\
	DO(Q4_1, encode_blocks, RANGED(15, 0.025f, 6))			\
	DO(Q5_1, encode_blocks, RANGED(31, 0.01f, 7))			\
	DO(IQ4_NL, encode_blocks,					\
	    TABLE(IQ4_TABLE, -127, 113, -127, LIST(try_iq4)))		\
	DO(MXFP4, encode_blocks, TABLE(FP4_TABLE, -12, 12, 0, NULL, 0))	\
	DO(Q2_K, encode_super, SUPER2(16, 3, 15, 0.1f, 5, 4), pack_q2_k) \
	DO(Q3_K, encode_super, SUPER(16, INTEGERS, -4, 3, -32, 31,	\
	    try_q3, where_6bits), pack_q3_k)				\
	DO(Q4_K, encode_super, SUPER2(32, 15, 63, 0.03f, 4, 2), pack_q4_k) \
	DO(Q5_K, encode_super, SUPER2(32, 31, 63, 0.015f, 4, 2), pack_q5_k) \
	DO(Q6_K, encode_super, SUPER(16, INTEGERS, -32, 31, -128, 127,	\
	    try_q6, where_8bits), pack_q6_k)				\
	DO(IQ4_XS, encode_super, SUPER(32, IQ4_TABLE, -127, 113, -32, 31, \
	    try_iq4, where_6bits), pack_iq4_xs)				\
	DO(IQ2_XXS, encode_grid, GRID(qwen_grid_iq2_xxs, 256, 8, 32, 1,	\
	    0x1p-3f, try_2, LEVELS_2))					\
	DO(IQ2_XS, encode_grid, GRID(qwen_grid_iq2_xs, 512, 8, 16, 1,	\
	    0x1p-3f, try_2, LEVELS_2))					\
	DO(IQ2_S, encode_grid, GRID(qwen_grid_iq2_s, 1024, 8, 16, 0,	\
	    0x1p-3f, try_2, LEVELS_2))					\
	DO(IQ3_XXS, encode_grid, GRID(qwen_grid_iq3_xxs, 256, 4, 32, 1,	\
	    0x1p-2f, try_3, LEVELS_3))					\
	DO(IQ3_S, encode_grid, GRID(qwen_grid_iq3_s, 512, 4, 32, 0, 1.0f, \
	    try_3s, LEVELS_3S))

#define DEFINE(name, encode, ...)					\
	static void							\
	encode_##name(ARGS)						\
	{								\
		encode(QT_##name, QT_BYTES_##name, __VA_ARGS__, x, w, n_row, \
		    n, out);						\
	}
FORMATS(DEFINE)
#undef DEFINE

#define ENCODER(name, ...) { QT_##name, encode_##name },
#define ENCODERS { FORMATS(ENCODER) { 0, NULL } }

#endif
