/* SPDX-License-Identifier: ISC */
/*
 * fit.h - measures the error of codes, and finds the scales with the least
 * error (static inline only).
 */
#ifndef QWEN_QUANTIZE_FIT_H
#define QWEN_QUANTIZE_FIT_H

#include "quantize/lanes.h"

/* Values of codes: the integers from lo to hi, or those of a table. */
enum table { INTEGERS, IQ4_TABLE, FP4_TABLE };

struct code {
	enum table	 table;
	float		 lo, hi;
};

/* Midpoints between the values of IQ4_NL, and the differences across them. */
static const float iq4_middle[15] = {
	-115.5f, -93.5f, -74.0f, -57.0f, -42.0f, -28.5f, -16.0f, -4.5f, 7.0f,
	19.0f, 31.5f, 45.5f, 61.0f, 79.0f, 101.0f
};
static const float iq4_step[15] = {
	23, 21, 18, 16, 14, 13, 12, 11, 12, 12, 13, 15, 16, 20, 24
};

/* The same between the doubled magnitudes of E2M1. */
static const float fp4_middle[7] = { 0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10 };
static const float fp4_step[7] = { 1, 1, 1, 1, 2, 2, 4 };

/* Returns base plus the steps at all midpoints below v. */
INLINE lanes
climb(lanes v, float base, const float *middle, const float *step, int n)
{
	lanes q = all(base);
	int i;

	for (i = 0; i < n; i++)
#if defined __AVX512F__
		q = (lanes)_mm512_mask_add_ps((__m512)q,
		    _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(middle[i]),
		    _CMP_GT_OQ), (__m512)q, _mm512_set1_ps(step[i]));
#else
		q += (lanes)((v > middle[i]) & (masks)all(step[i]));
#endif
	return q;
}

/* Returns the value nearest to v. */
INLINE lanes
coded(lanes v, struct code c)
{
	masks sign;

	if (c.table == IQ4_TABLE)
		return climb(v, -127.0f, iq4_middle, iq4_step, 15);
	if (c.table == FP4_TABLE) {
		sign = (masks)v & INT32_MIN;
		v = (lanes)((masks)v & INT32_MAX);
		v = climb(v, 0.0f, fp4_middle, fp4_step, 7);
		return (lanes)((masks)v | sign);
	}
	return nearest(least(most(v, all(c.lo)), all(c.hi)));
}

/*
 * For each block with scale s, minimum m and error r = x - (s q + m), the
 * weighted sums of r r (err), r q, r, q q, q and 1 (w).  Without a minimum, if
 * m is NULL, only err, rq and qq are set: for the same codes, the best scale is
 * then s + rq / qq, and reduces the error by rq rq / qq.
 */
struct sums {
	struct wide	 err, rq, r, qq, q, w;
};

INLINE void
measure(const struct tile *t, int n, struct code c, const struct wide *s,
    const struct wide *m, struct sums *out)
{
	lanes scale, min, inv, err, rq, sr, qq, sq, sw, x, q, r, w;
	int g, k;

	for (g = 0; g < WIDE; g += LANES) {
		scale = at(s->v + g);
		min = m != NULL ? at(m->v + g) : all(0.0f);
		inv = inverses(scale);
		err = rq = sr = qq = sq = sw = all(0.0f);
		for (k = 0; k < n; k++) {
			x = at(t->x[k] + g);
			w = at(t->w[k] + g);
			q = coded((m != NULL ? (lanes)(x - min) : x) * inv, c);
			r = x - (m != NULL ? scale * q + min : scale * q);
			sw += w;
			sr += w * r;
			sq += w * q;
			err += w * r * r;
			rq += w * r * q;
			qq += w * q * q;
		}
		put(out->err.v + g, err);
		put(out->rq.v + g, rq);
		put(out->qq.v + g, qq);
		if (m == NULL)
			continue;
		put(out->r.v + g, sr);
		put(out->q.v + g, sq);
		put(out->w.v + g, sw);
	}
}

/* Sets q to the codes: integers, or indices of a table's values. */
INLINE void
codes(const struct tile *t, int n, struct code c, const struct wide *s,
    const struct wide *m, signed char q[32][WIDE])
{
	static const float ones[15] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	    1, 1 };
	struct wide v;
	lanes x;
	int g, k, l;

	for (k = 0; k < n; k++) {
		for (g = 0; g < WIDE; g += LANES) {
			x = at(t->x[k] + g);
			if (m != NULL)
				x -= at(m->v + g);
			x *= inverses(at(s->v + g));
			if (c.table == IQ4_TABLE)
				x = climb(x, 0.0f, iq4_middle, ones, 15);
			else if (c.table == FP4_TABLE)
				x = climb((lanes)((masks)x & INT32_MAX), 0.0f,
				    fp4_middle, ones, 7) +
				    (lanes)((x < -0.5f) & (masks)all(8.0f));
			else
				x = coded(x, c);
			put(v.v + g, x);
		}
		for (l = 0; l < WIDE; l++)
			q[k][l] = (signed char)v.v[l];
	}
}

/*
 * Keeps the scales now, and the minimums now_min (or NULL), of those blocks
 * whose error is below the best one so far.
 */
INLINE void
keep_better(const struct wide *err, const struct wide *now,
    const struct wide *now_min, struct wide *best, struct wide *s,
    struct wide *min)
{
	int l;

	for (l = 0; l < WIDE; l++) {
		if (!(err->v[l] < best->v[l]))
			continue;
		best->v[l] = err->v[l];
		s->v[l] = now->v[l];
		if (now_min != NULL)
			min->v[l] = now_min->v[l];
	}
}

/* ------------------------------------------------ a scale without a minimum */

/* Finds the number furthest from 0 of each block. */
INLINE void
extremes(const struct tile *t, int n, struct wide *out)
{
	int k, l;

	for (l = 0; l < WIDE; l++)
		out->v[l] = t->x[0][l];
	for (k = 1; k < n; k++) {
		for (l = 0; l < WIDE; l++)
			out->v[l] = fabsf(t->x[k][l]) > fabsf(out->v[l]) ?
			    t->x[k][l] : out->v[l];
	}
}

/*
 * Finds the best scale of each block.  Tries the scales that bring the number
 * furthest from 0 to each of n_try values; then improves the best one for its
 * codes, `rounds' times.
 */
INLINE void
find_scale(const struct tile *t, int n, struct code c, const float *try,
    int n_try, int rounds, struct wide *s)
{
	struct wide x, now, best = everywhere(INFINITY);
	struct sums m;
	float step;
	int i, l;

	extremes(t, n, &x);
	*s = everywhere(0.0f);
	for (i = 0; i < n_try + rounds; i++) {
		for (l = 0; l < WIDE; l++)
			now.v[l] = i < n_try ? x.v[l] * (1.0f / try[i]) : s->v[l];
		measure(t, n, c, &now, NULL, &m);
		for (l = 0; l < WIDE; l++) {
			step = m.qq.v[l] > 0.0f ? m.rq.v[l] / m.qq.v[l] : 0.0f;
			m.err.v[l] -= step * m.rq.v[l];
			now.v[l] += step;
		}
		keep_better(&m.err, &now, NULL, &best, s, NULL);
	}
}

/* ------------------------------------------------------ a scale and minimum */

/*
 * Improves scale and minimum by the sums for their codes; returns the error
 * that remains.  below: the minimum must be at most 0.
 */
INLINE float
better2(const struct sums *m, int l, int below, float *scale, float *min)
{
	float det = m->qq.v[l] * m->w.v[l] - m->q.v[l] * m->q.v[l];
	float s = 0.0f, b = 0.0f, e = m->err.v[l];

	if (det > 0.0f) {
		s = (m->rq.v[l] * m->w.v[l] - m->r.v[l] * m->q.v[l]) / det;
		b = (m->r.v[l] * m->qq.v[l] - m->rq.v[l] * m->q.v[l]) / det;
	}
	if (below && *min + b > 0.0f) {
		b = -*min;
		s = m->qq.v[l] > 0.0f ?
		    (m->rq.v[l] - b * m->q.v[l]) / m->qq.v[l] : 0.0f;
	}
	e += s * (s * m->qq.v[l] - 2.0f * m->rq.v[l]) +
	    b * (b * m->w.v[l] - 2.0f * m->r.v[l] + 2.0f * s * m->q.v[l]);
	*scale += s;
	*min += b;
	return e;
}

/*
 * Finds the best scale and minimum (at most 0 if below) of each block.  Tries
 * ranges of numbers: the block's whole range, reduced at both ends by 0 to cuts
 * - 1 times `cut' of its width; then improves the best, `rounds' times.
 */
INLINE void
find_scale2(const struct tile *t, int n, struct code c, int below, float cut,
    int cuts, int rounds, struct wide *s, struct wide *min)
{
	struct wide lo, hi, ts, tm, best = everywhere(INFINITY);
	struct sums m;
	float d;
	int i, k, l;

	for (l = 0; l < WIDE; l++) {
		lo.v[l] = hi.v[l] = below ? 0.0f : t->x[0][l];
		for (k = 0; k < n; k++) {
			lo.v[l] = t->x[k][l] < lo.v[l] ? t->x[k][l] : lo.v[l];
			hi.v[l] = t->x[k][l] > hi.v[l] ? t->x[k][l] : hi.v[l];
		}
	}
	*s = *min = everywhere(0.0f);
	for (i = 0; i < cuts * cuts + rounds; i++) {
		for (l = 0; l < WIDE; l++) {
			d = (hi.v[l] - lo.v[l]) * cut;
			tm.v[l] = lo.v[l] + d * (float)(i % cuts);
			ts.v[l] = (hi.v[l] - d * (float)(i / cuts) - tm.v[l]) *
			    (1.0f / c.hi);
			if (i >= cuts * cuts) {
				ts.v[l] = s->v[l];
				tm.v[l] = min->v[l];
			}
		}
		measure(t, n, c, &ts, &tm, &m);
		for (l = 0; l < WIDE; l++)
			m.err.v[l] = better2(&m, l, below, &ts.v[l], &tm.v[l]);
		keep_better(&m.err, &ts, &tm, &best, s, min);
	}
}

#endif
