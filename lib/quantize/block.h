/* SPDX-License-Identifier: ISC */
/*
 * block.h - encoders of formats with blocks of 32 numbers, each with its own
 * scale (static inline only).
 */
#ifndef QWEN_QUANTIZE_BLOCK_H
#define QWEN_QUANTIZE_BLOCK_H

#include "base/cursor.h"
#include "base/half.h"
#include "engine/quant/quant.h"
#include "quantize/fit.h"

/*
 * Larger numbers are cut to this, so that sums cannot overflow.  No format
 * holds them.
 */
#define TOO_LARGE 0x1p30f

/* The parameters of an encoder, see qwen_encode_fn. */
#define ARGS const float *x, const float *w, size_t n_row, size_t n,	\
    unsigned char *out

/*
 * Loads the next WIDE sub-blocks of n numbers, from number i on.  Only `left'
 * sub-blocks are left: the other lanes are 0.
 */
INLINE void
gather(struct tile *t, int n, const float *x, const float *w, size_t n_row,
    size_t i, size_t left)
{
	size_t l, j;
	float v;
	int k;

	for (l = 0; l < WIDE; l++) {
		j = (i + l * (size_t)n) % n_row;
		for (k = 0; k < n; k++) {
			v = l < left ? x[i + l * (size_t)n + (size_t)k] : 0.0f;
			v = v > TOO_LARGE ? TOO_LARGE : v;
			t->x[k][l] = v < -TOO_LARGE ? -TOO_LARGE : v;
			t->w[k][l] = l < left ? w[j + (size_t)k] : 1.0f;
		}
	}
}

/* Returns the f16 that is `up' steps above the nearest to f; never infinite. */
INLINE uint16_t
half_near(float f, int up)
{
	uint16_t h = qwen_f32_f16(f);
	int a = (h & 0x7fff) + up;

	a = a < 0 ? 0 : a > 0x7bff ? 0x7bff : a;
	return (uint16_t)((h & 0x8000) | a);
}

/* Packs 32 codes as 4-bit codes in the order of Q4_0. */
INLINE void
put_nibbles(unsigned char *p, signed char q[32][WIDE], size_t l, int bias)
{
	int k;

	for (k = 0; k < 16; k++)
		p[k] = (unsigned char)(((q[k][l] + bias) & 15) |
		    ((q[k + 16][l] + bias) & 15) << 4);
}

/* Returns the fifth bits of 32 codes. */
INLINE uint32_t
fifths(signed char q[32][WIDE], size_t l, int bias)
{
	uint32_t h = 0;
	int k;

	for (k = 0; k < 32; k++)
		h |= (uint32_t)((q[k][l] + bias) >> 4 & 1) << k;
	return h;
}

/* Stores the codes of a block after its scales. */
INLINE void
put_codes(uint32_t type, struct code c, signed char q[32][WIDE], size_t l,
    unsigned char *p)
{
	int bias = c.table == INTEGERS ? -(int)c.lo : 0, k;

	if (type == QT_Q8_0) {
		for (k = 0; k < 32; k++)
			p[k] = (unsigned char)q[k][l];
		return;
	}
	if (type == QT_Q5_0 || type == QT_Q5_1) {
		qwen_put_le32(p, fifths(q, l, bias));
		p += 4;
	}
	put_nibbles(p, q, l, bias);
}

/* ----------------------------------------------------------- scales in f16 */

/*
 * Rounds scales to f16: to the best of the nearest f16 and its neighbours, and
 * of the scale at which the number furthest from 0 becomes `usual'.
 */
INLINE void
round_scale(const struct tile *t, struct code c, float usual, struct wide *s)
{
	struct wide now, best = everywhere(INFINITY), x, from = *s;
	struct sums m;
	int i, l;

	extremes(t, 32, &x);
	for (i = 0; i < 4; i++) {
		for (l = 0; l < WIDE; l++)
			now.v[l] = qwen_f16_f32(i < 3 ?
			    half_near(from.v[l], (i + 1) % 3 - 1) :
			    half_near(x.v[l] / usual, 0));
		measure(t, 32, c, &now, NULL, &m);
		keep_better(&m.err, &now, NULL, &best, s, NULL);
	}
}

/* Rounds scale and minimum to the best f16 near them. */
INLINE void
round_scale2(const struct tile *t, struct code c, struct wide *s,
    struct wide *min)
{
	struct wide ts, tm, best = everywhere(INFINITY), s0 = *s, m0 = *min;
	struct sums m = { .r = everywhere(0.0f), .w = everywhere(0.0f) };
	int i, l;

	tm = m0;
	for (i = 0; i < 6; i++) {
		for (l = 0; l < WIDE; l++) {
			ts.v[l] = qwen_f16_f32(half_near(s0.v[l],
			    (i / 2 + 1) % 3 - 1));
			tm.v[l] = qwen_f16_f32(half_near(i % 2 == 0 ? m0.v[l] :
			    tm.v[l] + m.r.v[l] * inverse(m.w.v[l]), 0));
		}
		measure(t, 32, c, &ts, &tm, &m);
		keep_better(&m.err, &ts, &tm, &best, s, min);
	}
}

/* ------------------------------------------------------------ a power of two */

/*
 * Returns the scale of an MXFP4 block with byte b, for the table's doubled
 * values.
 */
INLINE float
power(int b)
{
	return b < 2 ? qwen_bits_f32(0x200000u << b) :
	    qwen_bits_f32((uint32_t)(b - 1) << 23);
}

/* Returns the byte of a scale that power() returned. */
INLINE unsigned char
power_byte(float scale)
{
	uint32_t u = qwen_f32_bits(scale);

	return (unsigned char)(u < 0x800000 ? u >> 22 : (u >> 23) + 1);
}

/*
 * Finds the best power for each block: tries the four that bring the largest
 * number to 1 to 16 (E2M1 ends at 6).
 */
INLINE void
find_power(const struct tile *t, struct code c, struct wide *s)
{
	struct wide x, now, best = everywhere(INFINITY);
	struct sums m;
	int i, l, b;

	extremes(t, 32, &x);
	for (i = 0; i < 4; i++) {
		for (l = 0; l < WIDE; l++) {
			b = (int)(qwen_f32_bits(x.v[l]) >> 23 & 255) - 3 + i;
			now.v[l] = power(b < 0 ? 0 : b > 252 ? 252 : b);
		}
		measure(t, 32, c, &now, NULL, &m);
		keep_better(&m.err, &now, NULL, &best, s, NULL);
	}
}

/* ------------------------------------------------------------------ blocks */

/*
 * How a format encodes 32 numbers.  With a minimum (cuts > 0): see
 * find_scale2().  Without one: the values that the number furthest from 0 is
 * tried as, and the one that it usually becomes.  MXFP4 has only a code.
 */
struct block {
	struct code	 code;
	float		 usual;
	const float	*try;
	int		 n_try;
	float		 cut;
	int		 cuts;
};

INLINE void
encode_blocks(uint32_t type, size_t bytes, const struct block *f, ARGS)
{
	int power_of_2 = f->code.table == FP4_TABLE, ranged = f->cuts > 0;
	signed char q[32][WIDE];
	struct wide s, min;
	struct tile t;
	size_t i, l, head = power_of_2 ? 1 : ranged ? 4 : 2;

	for (i = 0; i < n; i += WIDE) {
		gather(&t, 32, x, w, n_row, i * 32, n - i);
		if (power_of_2)
			find_power(&t, f->code, &s);
		else if (ranged) {
			find_scale2(&t, 32, f->code, 0, f->cut, f->cuts, 3, &s,
			    &min);
			round_scale2(&t, f->code, &s, &min);
		} else {
			find_scale(&t, 32, f->code, f->try, f->n_try, 3, &s);
			round_scale(&t, f->code, f->usual, &s);
		}
		codes(&t, 32, f->code, &s, ranged ? &min : NULL, q);
		for (l = 0; l < WIDE && i + l < n; l++, out += bytes) {
			if (power_of_2)
				out[0] = power_byte(s.v[l]);
			else
				qwen_put_le16(out, qwen_f32_f16(s.v[l]));
			if (ranged)
				qwen_put_le16(out + 2, qwen_f32_f16(min.v[l]));
			put_codes(type, f->code, q, l, out + head);
		}
	}
}

#endif
