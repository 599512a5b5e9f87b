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

#define COUNT(a) ((int)(sizeof (a) / sizeof (a)[0]))
#define ARGS const float *x, const float *w, size_t n_row, size_t n,	\
    unsigned char *out

/* ------------------------------------------------------- blocks of 32 */

static const float try_q8[] = { -128, 127, 126.75f, 126.5f, 126, 125 };
static const float try_q4[] = { -9, -8.5f, -8, -7.75f, -7.5f, -7.25f, -7, -6.5f,
    -6, -5.5f, -5, 6, 6.5f, 7, 7.25f, 7.5f, 8 };
static const float try_q5[] = { -17, -16.5f, -16, -15.5f, -15, -14.5f, -14,
    -13, -12, 13, 14, 14.5f, 15, 15.5f, 16 };
static const float try_iq4[] = { -140, -132, -127, -122, -118, -112, -107, -104,
    -98, -88, -75, 130, 122, 113, 108, 102, 98, 94, 89, 80, 69 };

static void
encode_q8_0(ARGS)
{
	const struct code c = { INTEGERS, -128, 127 };

	encode_scaled(QT_Q8_0, c, 127, try_q8, COUNT(try_q8), x, w, n_row, n,
	    out);
}

static void
encode_q4_0(ARGS)
{
	const struct code c = { INTEGERS, -8, 7 };

	encode_scaled(QT_Q4_0, c, -8, try_q4, COUNT(try_q4), x, w, n_row, n,
	    out);
}

static void
encode_q5_0(ARGS)
{
	const struct code c = { INTEGERS, -16, 15 };

	encode_scaled(QT_Q5_0, c, -16, try_q5, COUNT(try_q5), x, w, n_row, n,
	    out);
}

static void
encode_iq4_nl(ARGS)
{
	const struct code c = { IQ4_TABLE, -127, 113 };

	encode_scaled(QT_IQ4_NL, c, -127, try_iq4, COUNT(try_iq4), x, w, n_row,
	    n, out);
}

static void
encode_q4_1(ARGS)
{
	const struct code c = { INTEGERS, 0, 15 };

	encode_ranged(QT_Q4_1, c, 0.025f, 6, x, w, n_row, n, out);
}

static void
encode_q5_1(ARGS)
{
	const struct code c = { INTEGERS, 0, 31 };

	encode_ranged(QT_Q5_1, c, 0.01f, 7, x, w, n_row, n, out);
}

/* ------------------------------------------------------- blocks of 256 */

/* Packs codes with the chosen scales into `blocks' blocks of `bytes' bytes. */
INLINE void
pack(const struct layout *f, const struct tile *t, const struct scales *c,
    int min, pack_fn *fn, size_t bytes, size_t blocks, unsigned char *out)
{
	signed char q[32][WIDE];
	size_t b;

	codes(t, f->sub, f->code, &c->s, min ? &c->m : NULL, q);
	for (b = 0; b < blocks; b++)
		fn(c, (int)b * (256 / f->sub), q, out + b * bytes);
}

INLINE void
encode_super(const struct layout *f, const float *try, int n_try,
    const float *where, int n_where, pack_fn *fn, size_t bytes, ARGS)
{
	size_t per = 256 / (size_t)f->sub, at_once = WIDE / per, i, k;
	struct scales c;
	struct wide s;
	struct tile t;

	for (i = 0; i < n; i += at_once) {
		k = n - i < at_once ? n - i : at_once;
		gather(&t, f->sub, x, w, n_row, i * 256, k * per);
		find_scale(&t, f->sub, f->code, try, n_try, 2, &s);
		share_scale(&t, f, where, n_where, 0, &s, NULL, &c);
		pack(f, &t, &c, 0, fn, bytes, k, out + i * bytes);
	}
}

/*
 * The same for formats with minimums; cut and cuts: see find_scale2(); n_where
 * and apart: see share_scale().
 */
INLINE void
encode_super2(const struct layout *f, float cut, int cuts, int n_where,
    float apart, pack_fn *fn, size_t bytes, ARGS)
{
	size_t per = 256 / (size_t)f->sub, at_once = WIDE / per, i, k;
	struct scales c;
	struct wide s, min;
	struct tile t;

	for (i = 0; i < n; i += at_once) {
		k = n - i < at_once ? n - i : at_once;
		gather(&t, f->sub, x, w, n_row, i * 256, k * per);
		find_scale2(&t, f->sub, f->code, 1, cut, cuts, 2, &s, &min);
		share_scale(&t, f, NULL, n_where, apart, &s, &min, &c);
		pack(f, &t, &c, 1, fn, bytes, k, out + i * bytes);
	}
}

static const float try_q3[] = { -5, -4.5f, -4.25f, -4, -3.75f, -3.5f, -3.25f,
    -3, -2.75f, -2.5f, 2.25f, 2.5f, 2.75f, 3, 3.25f, 3.5f, 4 };
static const float try_q6[] = { -33, -32.5f, -32, -31.5f, -31, -30.5f, -30,
    30, 30.5f, 31, 31.5f };
static const float where_6bits[] = { -33, -32, -31, -30, -28.5f, 31, 30, 29 };
static const float where_8bits[] = { -128, -126, -123, 127 };

static void
encode_q2_k(ARGS)
{
	const struct layout f = { QT_Q2_K, 16, { INTEGERS, 0, 3 }, 0, 15 };

	encode_super2(&f, 0.1f, 5, 4, 1.0f, pack_q2_k, 84, x, w, n_row, n, out);
}

static void
encode_q3_k(ARGS)
{
	const struct layout f = { QT_Q3_K, 16, { INTEGERS, -4, 3 }, -32, 31 };

	encode_super(&f, try_q3, COUNT(try_q3), where_6bits,
	    COUNT(where_6bits), pack_q3_k, 110, x, w, n_row, n, out);
}

static void
encode_q4_k(ARGS)
{
	const struct layout f = { QT_Q4_K, 32, { INTEGERS, 0, 15 }, 0, 63 };

	encode_super2(&f, 0.03f, 4, 2, 1.0f, pack_q4_k, 144, x, w, n_row, n, out);
}

static void
encode_q5_k(ARGS)
{
	const struct layout f = { QT_Q5_K, 32, { INTEGERS, 0, 31 }, 0, 63 };

	encode_super2(&f, 0.015f, 4, 2, 1.0f, pack_q5_k, 176, x, w, n_row, n, out);
}

static void
encode_q6_k(ARGS)
{
	const struct layout f = { QT_Q6_K, 16, { INTEGERS, -32, 31 },
	    -128, 127 };

	encode_super(&f, try_q6, COUNT(try_q6), where_8bits,
	    COUNT(where_8bits), pack_q6_k, 210, x, w, n_row, n, out);
}

static void
encode_iq4_xs(ARGS)
{
	const struct layout f = { QT_IQ4_XS, 32, { IQ4_TABLE, -127, 113 },
	    -32, 31 };

	encode_super(&f, try_iq4, COUNT(try_iq4), where_6bits,
	    COUNT(where_6bits), pack_iq4_xs, 136, x, w, n_row, n, out);
}

/* --------------------------------------------------------------- grids */

#define LEVELS_2 3, { 8, 25, 43 }
#define LEVELS_3 8, { 4, 12, 20, 28, 36, 44, 52, 62 }
#define LEVELS_3S 8, { 1, 3, 5, 7, 9, 11, 13, 15 }

static const float try_2[] = { 53, 48, 43, 39, 35, 31, 27 };
static const float try_3[] = { 70, 66, 62, 58, 54, 50, 45, 40 };
static const float try_3s[] = { 17, 16, 15, 14, 13, 12, 11, 10 };

static void
encode_iq2_xxs(ARGS)
{
	const struct grid f = { QT_IQ2_XXS, qwen_grid_iq2_xxs[0], 256, 8, 32, 1,
	    0x1p-3f, LEVELS_2 };

	encode_grid(&f, try_2, COUNT(try_2), 66, x, w, n_row, n, out);
}

static void
encode_iq2_xs(ARGS)
{
	const struct grid f = { QT_IQ2_XS, qwen_grid_iq2_xs[0], 512, 8, 16, 1,
	    0x1p-3f, LEVELS_2 };

	encode_grid(&f, try_2, COUNT(try_2), 74, x, w, n_row, n, out);
}

static void
encode_iq2_s(ARGS)
{
	const struct grid f = { QT_IQ2_S, qwen_grid_iq2_s[0], 1024, 8, 16, 0,
	    0x1p-3f, LEVELS_2 };

	encode_grid(&f, try_2, COUNT(try_2), 82, x, w, n_row, n, out);
}

static void
encode_iq3_xxs(ARGS)
{
	const struct grid f = { QT_IQ3_XXS, qwen_grid_iq3_xxs[0], 256, 4, 32, 1,
	    0x1p-2f, LEVELS_3 };

	encode_grid(&f, try_3, COUNT(try_3), 98, x, w, n_row, n, out);
}

static void
encode_iq3_s(ARGS)
{
	const struct grid f = { QT_IQ3_S, qwen_grid_iq3_s[0], 512, 4, 32, 0,
	    1.0f, LEVELS_3S };

	encode_grid(&f, try_3s, COUNT(try_3s), 110, x, w, n_row, n, out);
}

#define ENCODERS {							\
	{ QT_Q8_0, encode_q8_0 }, { QT_Q4_0, encode_q4_0 },		\
	{ QT_Q4_1, encode_q4_1 }, { QT_Q5_0, encode_q5_0 },		\
	{ QT_Q5_1, encode_q5_1 }, { QT_Q2_K, encode_q2_k },		\
	{ QT_Q3_K, encode_q3_k }, { QT_Q4_K, encode_q4_k },		\
	{ QT_Q5_K, encode_q5_k }, { QT_Q6_K, encode_q6_k },		\
	{ QT_IQ4_NL, encode_iq4_nl }, { QT_IQ4_XS, encode_iq4_xs },	\
	{ QT_MXFP4, encode_mxfp4 }, { QT_IQ3_S, encode_iq3_s },		\
	{ QT_IQ3_XXS, encode_iq3_xxs }, { QT_IQ2_S, encode_iq2_s },	\
	{ QT_IQ2_XS, encode_iq2_xs }, { QT_IQ2_XXS, encode_iq2_xxs },	\
	{ 0, NULL }							\
}

#endif
