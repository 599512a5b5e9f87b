/* SPDX-License-Identifier: ISC */
/*
 * grid.h - encoders of formats whose codes are entries of a grid: groups of
 * four or eight magnitudes, with separate signs and odd scales (static inline
 * only).
 *
 * Each group tries all entries, sixteen groups at a time.  The error of an
 * entry is the sum of the errors of its two halves; few halves differ.
 */
#ifndef QWEN_QUANTIZE_GRID_H
#define QWEN_QUANTIZE_GRID_H

#include "engine/quant/codebook.h"
#include "quantize/block.h"

enum { HALVES = 81, GROUPS = 64 };	/* maxima: 3^4 or 8^2 halves; 256 / 4
					   groups */

struct grid {
	const uint8_t	*entry;		/* [n][dim] */
	int		 n, dim;
	int		 sub;		/* numbers per scale */
	int		 even;		/* of eight signs, an even number is
					   - */
	float		 unit;		/* a scale is d * unit * (2 code + 1) */
	const float	*try;		/* see find_grid_scales() */
	int		 n_try;
	int		 n_level;
	float		 level[8];	/* the grid's magnitudes */
};

/* The two halves of each entry, as numbers of halves. */
struct halves {
	uint8_t	 a[1024], b[1024];
};

/*
 * A block of 256 numbers; y: magnitudes, below 0 where the stored sign must be
 * wrong to keep the number of signs even.
 */
struct grid_block {
	float		 y[256], w[256];
	uint8_t		 sign[32];	/* one bit per number */
	struct tile	 tile[4];	/* the groups */
};

/*
 * Result for given scales: error and sums (see struct sums) and entry of each
 * group.
 */
struct grid_fit {
	float		 err[GROUPS], rq[GROUPS], qq[GROUPS];
	int32_t		 index[GROUPS];
} ALIGNED;

INLINE int
half_of(const struct grid *f, const uint8_t *e)
{
	int i, k, h = 0;

	for (i = f->dim / 2; i-- > 0;) {
		for (k = 0; (float)e[i] != f->level[k]; k++)
			continue;
		h = h * f->n_level + k;
	}
	return h;
}

INLINE void
find_halves(const struct grid *f, struct halves *h)
{
	int i;

	for (i = 0; i < f->n; i++) {
		h->a[i] = (uint8_t)half_of(f, f->entry + i * f->dim);
		h->b[i] = (uint8_t)half_of(f, f->entry + i * f->dim +
		    f->dim / 2);
	}
}

/* Loads a block: splits signs and magnitudes, and fills the tiles. */
INLINE void
load_block(const struct grid *f, const float *x, const float *w,
    struct grid_block *b)
{
	int i, k, least_at, negative;
	float v, cost, least_cost;

	for (i = 0; i < 256; i += 8) {
		least_cost = INFINITY;
		least_at = negative = 0;
		b->sign[i / 8] = 0;
		for (k = 0; k < 8; k++) {
			v = x[i + k];
			v = v > TOO_LARGE ? TOO_LARGE : v < -TOO_LARGE ?
			    -TOO_LARGE : v;
			b->sign[i / 8] |= (uint8_t)((v < 0.0f) << k);
			negative += v < 0.0f;
			b->y[i + k] = fabsf(v);
			b->w[i + k] = w[i + k];
			cost = w[i + k] * fabsf(v);
			if (cost < least_cost) {
				least_cost = cost;
				least_at = k;
			}
		}
		if (f->even && negative % 2 != 0) {
			b->sign[i / 8] ^= (uint8_t)(1 << least_at);
			b->y[i + least_at] = -b->y[i + least_at];
		}
	}
	for (i = 0; i < 256; i++) {
		k = i / f->dim;
		b->tile[k / WIDE].x[i % f->dim][k % WIDE] = b->y[i];
		b->tile[k / WIDE].w[i % f->dim][k % WIDE] = b->w[i];
	}
}

/* Computes the error of each possible half for the groups in LANES lanes. */
INLINE void
half_errors(const struct grid *f, const struct tile *t, int first, int g,
    lanes s, lanes *out)
{
	lanes part[4][8], x, w;
	int i, k, n = f->dim / 2, o = 0;
	int a, b, c, d;

	for (i = 0; i < n; i++) {
		x = at(t->x[first + i] + g);
		w = at(t->w[first + i] + g);
		for (k = 0; k < f->n_level; k++)
			part[i][k] = w * (s * f->level[k]) *
			    (s * f->level[k] - (x + x));
	}
	if (n == 2) {
		for (a = 0; a < f->n_level; a++) {
			for (b = 0; b < f->n_level; b++)
				out[o++] = part[0][b] + part[1][a];
		}
		return;
	}
	for (a = 0; a < f->n_level; a++) {
		for (b = 0; b < f->n_level; b++) {
			lanes high = part[3][a] + part[2][b];

			for (c = 0; c < f->n_level; c++) {
				for (d = 0; d < f->n_level; d++)
					out[o++] = high + (part[1][c] +
					    part[0][d]);
			}
		}
	}
}

/* Finds the best entry for each group of a tile with scales s. */
INLINE void
best_entries(const struct grid *f, const struct halves *h,
    const struct tile *t, const struct wide *s, struct grid_fit *out, int from)
{
	lanes a[HALVES], b[HALVES], best, e;
	masks index, less;
	int g, i, l;

	for (g = 0; g < WIDE; g += LANES) {
		half_errors(f, t, 0, g, at(s->v + g), a);
		half_errors(f, t, f->dim / 2, g, at(s->v + g), b);
		best = a[h->a[0]] + b[h->b[0]];
		index = (masks){ 0 };
		for (i = 1; i < f->n; i++) {
			e = a[h->a[i]] + b[h->b[i]];
			less = e < best;
			best = least(e, best);
			index = (less & i) | (~less & index);
		}
		for (l = 0; l < LANES; l++)
			out->index[from + g + l] = index[l];
	}
}

/* Finds entries and sums for all groups; s[j] is the scale of sub-block j. */
INLINE void
find_entries(const struct grid *f, const struct halves *h,
    const struct grid_block *b, const float *s, struct grid_fit *out)
{
	int n = 256 / f->dim, i, k;
	const uint8_t *e;
	struct wide scale;
	float r, q, w;

	for (i = 0; i < n; i += WIDE) {
		for (k = 0; k < WIDE; k++)
			scale.v[k] = s[(i + k) * f->dim / f->sub];
		best_entries(f, h, &b->tile[i / WIDE], &scale, out, i);
	}
	for (i = 0; i < n; i++) {
		out->err[i] = out->rq[i] = out->qq[i] = 0.0f;
		e = f->entry + out->index[i] * f->dim;
		for (k = 0; k < f->dim; k++) {
			w = b->w[i * f->dim + k];
			q = (float)e[k];
			r = b->y[i * f->dim + k] - s[i * f->dim / f->sub] * q;
			out->err[i] += w * r * r;
			out->rq[i] += w * r * q;
			out->qq[i] += w * q * q;
		}
	}
}

/* Returns the sum of v over the groups of sub-block j. */
INLINE float
over_sub(const struct grid *f, const float *v, int j)
{
	int per = f->sub / f->dim, i;
	float sum = 0.0f;

	for (i = j * per; i < (j + 1) * per; i++)
		sum += v[i];
	return sum;
}

/*
 * Finds the best scale of each sub-block alone: tries its largest magnitude
 * divided by each of f->try, then improves the best.
 */
INLINE void
find_grid_scales(const struct grid *f, const struct halves *h,
    const struct grid_block *b, float *s)
{
	int n = 256 / f->sub, i, j, k;
	float top[16], now[16], best[16], e, step, qq;
	struct grid_fit fit;

	for (j = 0; j < n; j++) {
		best[j] = INFINITY;
		s[j] = top[j] = 0.0f;
		for (k = 0; k < f->sub; k++)
			top[j] = fabsf(b->y[j * f->sub + k]) > top[j] ?
			    fabsf(b->y[j * f->sub + k]) : top[j];
	}
	for (i = 0; i < f->n_try + 2; i++) {
		for (j = 0; j < n; j++)
			now[j] = i < f->n_try ? top[j] * (1.0f / f->try[i]) :
			    s[j];
		find_entries(f, h, b, now, &fit);
		for (j = 0; j < n; j++) {
			qq = over_sub(f, fit.qq, j);
			step = qq > 0.0f ? over_sub(f, fit.rq, j) / qq : 0.0f;
			e = over_sub(f, fit.err, j) - step *
			    over_sub(f, fit.rq, j);
			if (e < best[j]) {
				best[j] = e;
				s[j] = now[j] + step;
			}
		}
	}
}

/* Returns the scale code nearest to scale s if the common scale is d. */
INLINE int
scale_code(float s, float d)
{
	float c = nearest1(s * inverse(d) > 100.0f ? 50.0f :
	    (s * inverse(d) - 1.0f) * 0.5f);

	return c < 0.0f ? 0 : c > 15.0f ? 15 : (int)c;
}

/* A common scale, the scale codes of the sub-blocks, and the entries. */
struct grid_choice {
	float		 d, err;
	uint16_t	 half;
	int		 code[16];
	int32_t		 index[GROUPS];
};

/*
 * Chooses scale codes and entries for the common scale c->d: for each sub-block
 * the best of the `tries' codes nearest to want[j].  Sets want[] and *refit to
 * the best scales, and common scale, for the chosen entries.
 */
INLINE void
choose_codes(const struct grid *f, const struct halves *h,
    const struct grid_block *b, int tries, float *want, struct grid_choice *c,
    float *refit)
{
	int n = 256 / f->sub, per = f->sub / f->dim, i, j, k, code[16];
	float s[16], best[16], e, over = 0.0f, under = 0.0f, rq, qq, next[16];
	float brq[16], bqq[16], odd;
	struct grid_fit fit;

	for (j = 0; j < n; j++) {
		best[j] = INFINITY;
		brq[j] = bqq[j] = next[j] = 0.0f;
	}
	for (i = 0; i < tries; i++) {
		for (j = 0; j < n; j++) {
			code[j] = scale_code(want[j], c->d) + (i + 1) % 3 - 1 +
			    (tries == 1);
			code[j] = code[j] < 0 ? 0 : code[j] > 15 ? 15 : code[j];
			s[j] = c->d * (float)(2 * code[j] + 1);
		}
		find_entries(f, h, b, s, &fit);
		for (j = 0; j < n; j++) {
			e = over_sub(f, fit.err, j);
			if (!(e < best[j]))
				continue;
			rq = over_sub(f, fit.rq, j);
			qq = over_sub(f, fit.qq, j);
			best[j] = e;
			brq[j] = rq;
			bqq[j] = qq;
			next[j] = s[j] + (qq > 0.0f ? rq / qq : 0.0f);
			c->code[j] = code[j];
			for (k = j * per; k < (j + 1) * per; k++)
				c->index[k] = fit.index[k];
		}
	}
	for (c->err = 0.0f, j = 0; j < n; j++) {
		odd = (float)(2 * c->code[j] + 1);
		c->err += best[j];
		over += odd * brq[j];
		under += odd * odd * bqq[j];
		want[j] = next[j];
	}
	*refit = c->d + (under > 0.0f ? over / under : 0.0f);
}

INLINE void
set_d(const struct grid *f, float d, struct grid_choice *c)
{
	c->half = half_near(d / f->unit, 0);
	c->d = qwen_f16_f32(c->half) * f->unit;
}

INLINE void
choose_grid(const struct grid *f, const struct halves *h,
    const struct grid_block *b, const float *s, struct grid_choice *best)
{
	static const float where[] = { 31.5f, 29.5f, 27.5f, 25.5f };
	float top = 0.0f, want[16], from[16], refit = 0.0f, again = 0.0f;
	struct grid_choice c;
	int n = 256 / f->sub, i, j;

	memset(best, 0, sizeof *best);
	memset(&c, 0, sizeof c);
	best->err = INFINITY;
	for (j = 0; j < n; j++) {
		top = s[j] > top ? s[j] : top;
		from[j] = s[j];
	}
	for (i = 0; i < 4 + 3; i++) {
		set_d(f, i < 4 ? top / where[i] : again, &c);
		for (j = 0; j < n; j++)
			want[j] = i < 4 ? s[j] : from[j];
		choose_codes(f, h, b, i < 4 ? 1 : 3, want, &c, &refit);
		if (!(c.err < best->err))
			continue;
		*best = c;
		again = refit;
		for (j = 0; j < n; j++)
			from[j] = want[j];
	}
}

/* ------------------------------------------------------------------- bytes */

/* Returns seven of eight signs; the eighth follows from their parity. */
INLINE uint32_t
seven(const struct grid_block *b, int i)
{
	return b->sign[i] & 127u;
}

INLINE void
pack_grid(uint32_t type, size_t bytes, const struct grid *f,
    const struct grid_block *b, const struct grid_choice *c, unsigned char *p)
{
	uint32_t a;
	int i, k;

	for (i = 0; i < (int)bytes; i++)
		p[i] = 0;
	qwen_put_le16(p, c->half);
	for (i = 0; i < 256 / f->dim && type != QT_IQ2_XS; i++)
		p[type == QT_IQ2_XXS ? 2 + i / 4 * 8 + i % 4 : 2 + i] =
		    (unsigned char)c->index[i];
	for (i = 0; i < 8 && f->even && type != QT_IQ2_XS; i++) {
		a = (uint32_t)c->code[i] << 28;
		for (k = 0; k < 4; k++)
			a |= seven(b, 4 * i + k) << 7 * k;
		qwen_put_le32(p + (type == QT_IQ2_XXS ? 6 + 8 * i :
		    66 + 4 * i), a);
	}
	for (i = 0; i < 32; i++) {
		if (type == QT_IQ2_XS)
			qwen_put_le16(p + 2 + 2 * i, (uint16_t)(
			    (uint32_t)c->index[i] | seven(b, i) << 9));
		if (type == QT_IQ2_S) {
			p[34 + i] = b->sign[i];
			p[66 + i / 4] |= (unsigned char)(c->index[i] >> 8 <<
			    2 * (i % 4));
		}
		if (type == QT_IQ3_S)
			p[74 + i] = b->sign[i];
	}
	for (i = 0; i < 64 && type == QT_IQ3_S; i++)
		p[66 + i / 8] |= (unsigned char)(c->index[i] >> 8 << i % 8);
	for (i = 0; i < 256 / f->sub && (!f->even || type == QT_IQ2_XS); i++)
		p[(type == QT_IQ2_XS ? 66 : type == QT_IQ2_S ? 74 : 106) +
		    i / 2] |= (unsigned char)(c->code[i] << 4 * (i & 1));
}

INLINE void
encode_grid(uint32_t type, size_t bytes, const struct grid *f, ARGS)
{
	struct grid_choice c;
	struct grid_block b;
	struct halves h;
	float s[16];
	size_t i;

	find_halves(f, &h);
	for (i = 0; i < n; i++) {
		load_block(f, x + i * 256, w + i * 256 % n_row, &b);
		find_grid_scales(f, &h, &b, s);
		choose_grid(f, &h, &b, s, &c);
		pack_grid(type, bytes, f, &b, &c, out + i * bytes);
	}
}

#endif
