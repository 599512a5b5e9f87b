/* SPDX-License-Identifier: ISC */
/*
 * super.h - encoders of formats with blocks of 256 numbers in sub-blocks, whose
 * scales are integers (static inline only).
 *
 * A tile holds 16 sub-blocks: one block if they have 16 numbers, two if 32.
 */
#ifndef QWEN_QUANTIZE_SUPER_H
#define QWEN_QUANTIZE_SUPER_H

#include "quantize/block.h"

/*
 * How a format divides 256 numbers.  With minimums (cuts > 0), find_scale2()
 * explains cut and cuts.  Without them, find_scale() tries try[n_try], and the
 * common scale is tried so that the largest sub-block scale becomes each of
 * where[n_where].  With minimums, both common scales are tried at n_where
 * places, `apart' apart, below hi + 0.5.
 */
struct layout {
	int		 sub;		/* numbers per sub-block */
	struct code	 code;
	float		 lo, hi;	/* range of sub-block scales */
	const float	*try;
	int		 n_try;
	const float	*where;
	int		 n_where;
	float		 cut;
	int		 cuts;
	float		 apart;
};

/*
 * Scales of the blocks in a tile: d and dmin common to a block, scale and min
 * of each sub-block.
 */
struct scales {
	float		 d[2], dmin[2];
	struct wide	 scale, min;	/* integers */
	struct wide	 s, m;		/* products: d scale, -dmin min */
};

INLINE float
clamp1(float v, float lo, float hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

INLINE float
f16_of(float f)
{
	return qwen_f16_f32(half_near(f, 0));
}

/*
 * Sums v over the sub-blocks of each block of a tile; per: sub-blocks per
 * block.
 */
INLINE void
sum_blocks(const struct wide *v, int per, float sum[2])
{
	int l;

	sum[0] = sum[1] = 0.0f;
	for (l = 0; l < WIDE; l++)
		sum[l / per] += v->v[l];
}

/*
 * Chooses sub-block scales for the common scale c->d: the best of three
 * integers around want / d.  With want_min (or NULL) each sub-block also has a
 * minimum of 0 to -f->hi times c->dmin.  *m gets errors and sums of the chosen
 * ones.
 */
INLINE void
choose(const struct tile *t, const struct layout *f, const struct wide *want,
    const struct wide *want_min, struct scales *c, struct sums *m)
{
	int per = 256 / f->sub, i, l, both = want_min != NULL;
	struct wide sc, mn, s, min = both ? *want_min : everywhere(0.0f);
	struct sums one = { .r = everywhere(0.0f), .w = everywhere(0.0f) };
	float at_min;

	m->err = everywhere(INFINITY);
	for (i = 0; i < (both ? 6 : 3); i++) {
		for (l = 0; l < WIDE; l++) {
			sc.v[l] = nearest1(clamp1(want->v[l] *
			    inverse(c->d[l / per]), f->lo, f->hi));
			sc.v[l] = clamp1(sc.v[l] + (float)(((both ? i / 2 : i) +
			    1) % 3 - 1), f->lo, f->hi);
			s.v[l] = c->d[l / per] * sc.v[l];
			if (!both)
				continue;
			at_min = i % 2 == 0 ? want_min->v[l] :
			    min.v[l] + one.r.v[l] * inverse(one.w.v[l]);
			mn.v[l] = nearest1(clamp1(-at_min *
			    inverse(c->dmin[l / per]), 0, f->hi));
			min.v[l] = -(c->dmin[l / per] * mn.v[l]);
		}
		measure(t, f->sub, f->code, &s, both ? &min : NULL, &one);
		for (l = 0; l < WIDE; l++) {
			if (!(one.err.v[l] < m->err.v[l]))
				continue;
			m->err.v[l] = one.err.v[l];
			m->rq.v[l] = one.rq.v[l];
			m->qq.v[l] = one.qq.v[l];
			c->scale.v[l] = sc.v[l];
			c->s.v[l] = s.v[l];
			if (!both)
				continue;
			m->r.v[l] = one.r.v[l];
			m->q.v[l] = one.q.v[l];
			m->w.v[l] = one.w.v[l];
			c->min.v[l] = mn.v[l];
			c->m.v[l] = min.v[l];
		}
	}
}

/*
 * Copies those blocks from c to best that have less error, and sets want and
 * want_min (or NULL) to what is best for their codes.
 */
INLINE void
keep(struct scales *best, float best_err[2], struct wide *want,
    struct wide *want_min, const struct scales *c, const struct sums *m,
    int per)
{
	float err[2];
	int b, l;

	sum_blocks(&m->err, per, err);
	for (b = 0; b < WIDE / per; b++) {
		if (!(err[b] < best_err[b]))
			continue;
		best_err[b] = err[b];
		best->d[b] = c->d[b];
		best->dmin[b] = c->dmin[b];
		for (l = b * per; l < (b + 1) * per; l++) {
			best->scale.v[l] = c->scale.v[l];
			best->min.v[l] = c->min.v[l];
			best->s.v[l] = want->v[l] = c->s.v[l];
			best->m.v[l] = c->m.v[l];
			if (want_min != NULL) {
				want_min->v[l] = c->m.v[l];
				better2(m, l, 1, &want->v[l], &want_min->v[l]);
			} else if (m->qq.v[l] > 0.0f)
				want->v[l] += m->rq.v[l] / m->qq.v[l];
		}
	}
}

/*
 * Sets both common scales to the best for the chosen codes and sub-blocks.
 * Without minimums their sums are 0, and so is dmin.
 */
INLINE void
refit(struct scales *c, const struct sums *m, int per)
{
	float det, ss[2], mm[2], sm[2], rs[2], rm[2];
	struct wide v[5];
	int i;

	for (i = 0; i < WIDE; i++) {
		v[0].v[i] = c->scale.v[i] * c->scale.v[i] * m->qq.v[i];
		v[1].v[i] = c->min.v[i] * c->min.v[i] * m->w.v[i];
		v[2].v[i] = -(c->scale.v[i] * c->min.v[i] * m->q.v[i]);
		v[3].v[i] = c->scale.v[i] * m->rq.v[i];
		v[4].v[i] = -(c->min.v[i] * m->r.v[i]);
	}
	sum_blocks(&v[0], per, ss);
	sum_blocks(&v[1], per, mm);
	sum_blocks(&v[2], per, sm);
	sum_blocks(&v[3], per, rs);
	sum_blocks(&v[4], per, rm);
	for (i = 0; i < WIDE / per; i++) {
		det = ss[i] * mm[i] - sm[i] * sm[i];
		if (det > 0.0f) {
			c->d[i] += (rs[i] * mm[i] - rm[i] * sm[i]) / det;
			c->dmin[i] += (rm[i] * ss[i] - rs[i] * sm[i]) / det;
		} else if (ss[i] > 0.0f)
			c->d[i] += rs[i] / ss[i];
		c->d[i] = f16_of(c->d[i]);
		c->dmin[i] = f16_of(c->dmin[i]);
	}
}

/*
 * Chooses common scales and sub-block scales, from the best scales s and
 * minimums (or NULL) of the sub-blocks alone.  Tries the common scales of the
 * layout, then improves the best three times.
 */
INLINE void
share_scale(const struct tile *t, const struct layout *f, const struct wide *s,
    const struct wide *min, struct scales *best)
{
	int per = 256 / f->sub, i, l, both = min != NULL;
	int tries = both ? f->n_where * f->n_where : f->n_where;
	struct wide want = *s, next = *s, next_min, want_min;
	float top[2] = { 0, 0 }, top_min[2] = { 0, 0 };
	float err[2] = { INFINITY, INFINITY };
	struct scales c = { .d = { 0 } };
	struct sums m = { .err = { { 0 } } };

	*best = c;
	want_min = next_min = both ? *min : everywhere(0.0f);
	for (l = 0; l < WIDE; l++) {
		if (both ? s->v[l] > top[l / per] :
		    fabsf(s->v[l]) > fabsf(top[l / per]))
			top[l / per] = s->v[l];
		if (-want_min.v[l] > top_min[l / per])
			top_min[l / per] = -want_min.v[l];
	}
	for (i = 0; i < tries + 3; i++) {
		for (l = 0; i < tries && l < 2; l++) {
			c.d[l] = f16_of(top[l] / (both ? f->hi + .5f - f->apart
			    * (float)(i % f->n_where) : f->where[i]));
			c.dmin[l] = f16_of(top_min[l] / (both ? f->hi + .5f -
			    f->apart * (float)(i / f->n_where) : 1.0f));
		}
		if (i == tries) {	/* continue from the best */
			c = *best;
			want = next;
			want_min = next_min;
			choose(t, f, &want, both ? &want_min : NULL, &c, &m);
		}
		if (i >= tries) {
			refit(&c, &m, per);
			want = next;
			want_min = next_min;
		}
		choose(t, f, &want, both ? &want_min : NULL, &c, &m);
		keep(best, err, &next, both ? &next_min : NULL, &c, &m, per);
	}
}

#endif
