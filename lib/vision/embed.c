/* SPDX-License-Identifier: ISC */
/* embed.c - patches to the residual stream, and the positions of patches. */
#include <math.h>
#include <string.h>

#include "engine/quant/math.h"
#include "vision/encoder.h"

/* The base of the rotation's frequencies, and its logarithm. */
#define LN_10000 0x1.26bb1bbb55516p+3

enum { ROWS = 16 };	/* patches that a thread takes */

/*
 * Writes a patch as the kernel takes it: by channel, row and column.
 */
static void
write_patch(const struct qwen_vision_work *w, size_t i, float *to)
{
	const struct qwen_vision *v = w->v;
	size_t p = v->patch, step = w->width * p, c, y, x, at;

	for (c = 0; c < 3; c++)
	for (y = 0; y < p; y++)
	for (x = 0; x < p; x++) {
		at = ((qwen_vision_y(w, i) * p + y) * step +
		    qwen_vision_x(w, i) * p + x) * 3 + c;
		*to++ = w->numbers != NULL ? w->numbers[at] :
		    ((float)w->image->rgb[at] / 255.0f - v->mean[c]) /
		    v->std[c];
	}
}

static void
do_patches(struct qwen_vision_work *w, size_t item, float *own)
{
	size_t i, end = (item + 1) * ROWS;

	(void)own;
	for (i = item * ROWS; i < end && i < w->rows; i++)
		write_patch(w, w->first + i, w->in + i * w->wide_in);
}

/* Where a row or column of patches is in the table, and how far behind. */
struct place {
	size_t	at, next;
	float	share;		/* of the next one */
};

static struct place
place_of(const struct qwen_vision *v, size_t i, size_t n)
{
	struct place p = { 0, 0, 0.0f };
	double at = n > 1 ? (double)(i * (v->side - 1)) / (double)(n - 1) : 0;

	p.at = (size_t)at;
	p.next = p.at + 1 < v->side ? p.at + 1 : p.at;
	p.share = (float)(at - (double)p.at);
	return p;
}

/* Adds the position of a patch, between four of the table. */
static void
add_position(struct qwen_vision_work *w, size_t i, float *sum)
{
	const struct qwen_vision *v = w->v;
	const struct qwen_vec *vec = qwen_vision_vec(v);
	struct place y = place_of(v, qwen_vision_y(w, i), w->height);
	struct place x = place_of(v, qwen_vision_x(w, i), w->width);
	size_t n = v->info.n_embd_vision;
	const float *top = v->position + y.at * v->side * n;
	const float *low = v->position + y.next * v->side * n;
	float a = 1.0f - y.share, b = 1.0f - x.share;

	memset(sum, 0, n * sizeof *sum);
	vec->axpy(sum, a * b, top + x.at * n, n);
	vec->axpy(sum, a * x.share, top + x.next * n, n);
	vec->axpy(sum, y.share * b, low + x.at * n, n);
	vec->axpy(sum, y.share * x.share, low + x.next * n, n);
	vec->axpy(w->x + i * n, 1.0f, sum, n);
}

static void
do_positions(struct qwen_vision_work *w, size_t item, float *own)
{
	size_t i, end = (item + 1) * ROWS;

	for (i = item * ROWS; i < end && i < w->rows; i++)
		add_position(w, w->first + i, own);
}

void
qwen_vision_embed(struct qwen_vision_work *w)
{
	size_t n = w->v->info.n_embd_vision;

	for (w->first = 0; w->first < w->n; w->first += w->rows) {
		w->rows = w->n - w->first < PATCHES ? w->n - w->first : PATCHES;
		qwen_vision_run(w, do_patches, (w->rows + ROWS - 1) / ROWS);
		qwen_vision_product(w, &w->v->embed, w->in, w->wide_in,
		    w->x + w->first * n, n, w->rows);
		qwen_vision_run(w, do_positions, (w->rows + ROWS - 1) / ROWS);
	}
}

void
qwen_vision_angles(struct qwen_vision_work *w)
{
	size_t n = w->v->d / 4, i, k;
	size_t long_side = w->width > w->height ? w->width : w->height;
	double freq, s, c;

	for (k = 0; k < n; k++) {
		freq = qwen_exp(-((double)k / (double)n) * LN_10000);
		for (i = 0; i < long_side; i++) {
			qwen_sincos((double)i * freq, &s, &c);
			w->cos[i * n + k] = (float)c;
			w->sin[i * n + k] = (float)s;
		}
	}
}
