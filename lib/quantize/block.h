/* SPDX-License-Identifier: ISC */
/*
 * block.h - encoders of formats with blocks of 32 numbers, each with its own
 * scale (static inline only).
 */
#ifndef QWEN_QUANTIZE_BLOCK_H
#define QWEN_QUANTIZE_BLOCK_H

#include <string.h>

#include "base/cursor.h"
#include "base/half.h"
#include "engine/quant/quant.h"
#include "quantize/fit.h"

/*
 * Larger numbers are cut to this, so that sums cannot overflow.  No format
 * holds them.
 */
#define TOO_LARGE 0x1p30f

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

/* ------------------------------------------------ a scale without a minimum */

/*
 * Rounds scales to f16: to the best of the nearest f16 and its neighbours, and
 * of the scale at which the number furthest from 0 becomes `usual'.
 */
INLINE void
round_scale(const struct tile *t, struct code c, float usual, struct wide *s,
    uint16_t *half)
{
	struct wide now, best = everywhere(INFINITY), x, from = *s;
	struct sums m;
	uint16_t h;
	int i, l;

	extremes(t, 32, &x);
	for (i = 0; i < 4; i++) {
		for (l = 0; l < WIDE; l++) {
			h = i < 3 ? half_near(from.v[l], (i + 1) % 3 - 1) :
			    half_near(x.v[l] / usual, 0);
			now.v[l] = qwen_f16_f32(h);
		}
		measure(t, 32, c, &now, NULL, &m);
		for (l = 0; l < WIDE; l++) {
			if (!(m.err.v[l] < best.v[l]))
				continue;
			best.v[l] = m.err.v[l];
			s->v[l] = now.v[l];
			half[l] = qwen_f32_f16(now.v[l]);
		}
	}
}

INLINE void
encode_scaled(uint32_t type, struct code c, float usual, const float *try,
    int n_try, const float *x, const float *w, size_t n_row, size_t n,
    unsigned char *out)
{
	signed char q[32][WIDE];
	uint16_t half[WIDE];
	struct tile t;
	struct wide s;
	size_t i, l;
	int k;

	for (i = 0; i < n; i += WIDE) {
		gather(&t, 32, x, w, n_row, i * 32, n - i);
		find_scale(&t, 32, c, try, n_try, 3, &s);
		round_scale(&t, c, usual, &s, half);
		codes(&t, 32, c, &s, NULL, q);
		for (l = 0; l < WIDE && i + l < n; l++) {
			qwen_put_le16(out, half[l]);
			out += 2;
			if (type == QT_Q8_0) {
				for (k = 0; k < 32; k++)
					*out++ = (unsigned char)q[k][l];
				continue;
			}
			if (type == QT_Q5_0) {
				qwen_put_le32(out, fifths(q, l, 16));
				out += 4;
			}
			put_nibbles(out, q, l, type == QT_Q4_0 ? 8 :
			    type == QT_Q5_0 ? 16 : 0);
			out += 16;
		}
	}
}

/* ---------------------------------------------------- a scale and a minimum */

/* Rounds scale and minimum to the best f16 near them. */
INLINE void
round_scale2(const struct tile *t, struct code c, struct wide *s,
    struct wide *min, uint16_t *half, uint16_t *half_min)
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
		for (l = 0; l < WIDE; l++) {
			if (!(m.err.v[l] < best.v[l]))
				continue;
			best.v[l] = m.err.v[l];
			s->v[l] = ts.v[l];
			min->v[l] = tm.v[l];
			half[l] = qwen_f32_f16(ts.v[l]);
			half_min[l] = qwen_f32_f16(tm.v[l]);
		}
	}
}

INLINE void
encode_ranged(uint32_t type, struct code c, float cut, int cuts,
    const float *x, const float *w, size_t n_row, size_t n,
    unsigned char *out)
{
	signed char q[32][WIDE];
	uint16_t half[WIDE], half_min[WIDE];
	struct wide s, min;
	struct tile t;
	size_t i, l;

	for (i = 0; i < n; i += WIDE) {
		gather(&t, 32, x, w, n_row, i * 32, n - i);
		find_scale2(&t, 32, c, 0, cut, cuts, 3, &s, &min);
		round_scale2(&t, c, &s, &min, half, half_min);
		codes(&t, 32, c, &s, &min, q);
		for (l = 0; l < WIDE && i + l < n; l++) {
			qwen_put_le16(out, half[l]);
			qwen_put_le16(out + 2, half_min[l]);
			out += 4;
			if (type == QT_Q5_1) {
				qwen_put_le32(out, fifths(q, l, 0));
				out += 4;
			}
			put_nibbles(out, q, l, 0);
			out += 16;
		}
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

/*
 * Finds the best byte for each block: tries the four scales that bring the
 * largest number to 1 to 16 (E2M1 ends at 6).
 */
INLINE void
find_power(const struct tile *t, struct code c, struct wide *s, int *byte)
{
	struct wide x, now, best = everywhere(INFINITY);
	struct sums m;
	int i, l, b[WIDE];

	extremes(t, 32, &x);
	for (i = 0; i < 4; i++) {
		for (l = 0; l < WIDE; l++) {
			b[l] = (int)(qwen_f32_bits(x.v[l]) >> 23 & 255) - 3 + i;
			b[l] = b[l] < 0 ? 0 : b[l] > 252 ? 252 : b[l];
			now.v[l] = power(b[l]);
		}
		measure(t, 32, c, &now, NULL, &m);
		for (l = 0; l < WIDE; l++) {
			if (!(m.err.v[l] < best.v[l]))
				continue;
			best.v[l] = m.err.v[l];
			s->v[l] = now.v[l];
			byte[l] = b[l];
		}
	}
}

INLINE void
encode_mxfp4(const float *x, const float *w, size_t n_row, size_t n,
    unsigned char *out)
{
	const struct code c = { FP4_TABLE, -12, 12 };
	signed char q[32][WIDE];
	int byte[WIDE];
	struct wide s;
	struct tile t;
	size_t i, l;

	for (i = 0; i < n; i += WIDE) {
		gather(&t, 32, x, w, n_row, i * 32, n - i);
		find_power(&t, c, &s, byte);
		codes(&t, 32, c, &s, NULL, q);
		for (l = 0; l < WIDE && i + l < n; l++) {
			*out++ = (unsigned char)byte[l];
			put_nibbles(out, q, l, 0);
			out += 16;
		}
	}
}

#endif
