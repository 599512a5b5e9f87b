/* SPDX-License-Identifier: ISC */
/*
 * encode.c - an image through the encoder:
 *
 *	x = patches + positions
 *	x += attention(norm(x)); x += mlp(norm(x))	for each block
 *	rows = merger(norm(x))
 *
 * and after some blocks a merger of their own, which makes a deepstack vector.
 * Attention sees all patches; all else goes through by PATCHES.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/math.h"
#include "vision/encoder.h"

enum { ROWS = 8 };	/* patches, or tokens, that a thread takes */

/* ------------------------------------------------------------------- memory */

static size_t
max(size_t a, size_t b)
{
	return a > b ? a : b;
}

static float *
floats(size_t n)
{
	return qwen_alloc_large(n, sizeof(float));
}

static size_t
threads_of(const struct qwen_vision *v)
{
	return (size_t)qwen_pool_threads(v->engine->pool);
}

/* Points to the blocks of keys and values, which are zero. */
static void
place_blocks(struct qwen_vision_work *w, size_t row)
{
	size_t i, blocks = (w->n + LANES - 1) / LANES;

	memset(w->kv, 0, blocks * row * sizeof *w->kv);
	for (i = 0; i < blocks; i++)
		w->block[i] = (uint16_t *)(void *)(w->kv + i * row);
}

int
qwen_vision_work_init(struct qwen_vision_work *w,
    const struct qwen_vision *v, size_t width, size_t height,
    struct qwen_err *err)
{
	const struct qwen_vision_info *f = &v->info;
	size_t D = f->n_embd_vision, kernel = 3 * v->patch * v->patch;
	size_t blocks, row = 2 * LANES * f->n_head * v->d_pad, most;

	*w = (struct qwen_vision_work){ .v = v, .width = width,
	    .height = height, .n = width * height };
	blocks = (w->n + LANES - 1) / LANES;
	most = w->n < PATCHES ? w->n : PATCHES;
	w->wide_in = max(D, kernel);
	w->wide_mid = max(3 * D, f->n_ff);
	w->own_floats = max(qwen_vision_product_own(v), max(D,
	    QWEN_ATTN_WORK(v->d_pad) + QUERIES * v->d_pad));
	w->own_floats = (w->own_floats + LANES - 1) / LANES * LANES;
	w->x = floats(w->n * D);
	w->q = floats(w->n * f->n_head * v->d_pad);
	w->kv = floats(blocks * row);
	w->block = qwen_alloc_large(blocks, sizeof *w->block);
	w->cos = floats(max(width, height) * (v->d / 4));
	w->sin = floats(max(width, height) * (v->d / 4));
	w->in = floats(most * w->wide_in);
	w->mid = floats(most * w->wide_mid);
	w->own = floats(threads_of(v) * w->own_floats);
	if (w->x == NULL || w->q == NULL || w->kv == NULL ||
	    w->block == NULL || w->cos == NULL || w->sin == NULL ||
	    w->in == NULL || w->mid == NULL || w->own == NULL) {
		qwen_vision_work_fini(w);
		return qwen_fail(err, QWEN_ENOMEM, "out of memory for an image "
		    "of %zu patches", w->n);
	}
	place_blocks(w, row);
	return 0;
}

void
qwen_vision_work_fini(struct qwen_vision_work *w)
{
	free(w->x);
	free(w->q);
	free(w->kv);
	free(w->block);
	free(w->cos);
	free(w->sin);
	free(w->in);
	free(w->mid);
	free(w->own);
}

/* ------------------------------------------------------------------ threads */

struct run {
	struct qwen_vision_work	*w;
	qwen_vision_fn		*fn;
};

static void
do_item(void *arg, size_t item, int thread)
{
	const struct run *r = arg;

	r->fn(r->w, item, r->w->own + (size_t)thread * r->w->own_floats);
}

void
qwen_vision_run(struct qwen_vision_work *w, qwen_vision_fn *fn, size_t n)
{
	struct run r = { w, fn };

	qwen_pool_run(w->v->engine->pool, do_item, &r, n);
}

/* Runs fn for the rows, ROWS at a time; rows_end is the end of an item's. */
static void
run_rows(struct qwen_vision_work *w, qwen_vision_fn *fn, const void *arg)
{
	w->arg = arg;
	qwen_vision_run(w, fn, (w->rows + ROWS - 1) / ROWS);
}

static size_t
rows_end(const struct qwen_vision_work *w, size_t item)
{
	size_t end = (item + 1) * ROWS;

	return end < w->rows ? end : w->rows;
}

/* Goes to the first rows, or the next ones; returns 0 after the last. */
static int
first_rows(struct qwen_vision_work *w)
{
	w->first = 0;
	w->rows = w->n < PATCHES ? w->n : PATCHES;
	return 1;
}

static int
next_rows(struct qwen_vision_work *w)
{
	w->first += w->rows;
	if (w->rows > w->n - w->first)
		w->rows = w->n - w->first;
	return w->rows > 0;
}

/* --------------------------------------------------------------- the blocks */

static float *
x_at(const struct qwen_vision_work *w, size_t i)
{
	return w->x + (w->first + i) * w->v->info.n_embd_vision;
}

/* Rows of in become the norm of those of x. */
static void
do_norm(struct qwen_vision_work *w, size_t item, float *own)
{
	const struct qwen_vision_norm *p = w->arg;
	size_t i;

	(void)own;
	for (i = item * ROWS; i < rows_end(w, item); i++)
		qwen_vision_vec(w->v)->layernorm(w->in + i * p->n, x_at(w, i),
		    p->w, p->b, p->n, w->v->eps);
}

/* Rows of in become the results of attention, without what fills heads up. */
static void
do_heads(struct qwen_vision_work *w, size_t item, float *own)
{
	const struct qwen_vision *v = w->v;
	size_t i, h;

	(void)own;
	for (i = item * ROWS; i < rows_end(w, item); i++)
		for (h = 0; h < v->info.n_head; h++)
			memcpy(w->in + i * v->info.n_embd_vision + h * v->d,
			    w->q + ((w->first + i) * v->info.n_head + h) *
			    v->d_pad, v->d * sizeof *w->in);
}

/* Adds rows of y, D numbers each, to x. */
static void
do_add(struct qwen_vision_work *w, size_t item, float *own)
{
	const float *y = w->arg;
	size_t i, n = w->v->info.n_embd_vision;

	(void)own;
	for (i = item * ROWS; i < rows_end(w, item); i++)
		qwen_vision_vec(w->v)->axpy(x_at(w, i), 1.0f, y + i * n, n);
}

static void
do_gelu(struct qwen_vision_work *w, size_t item, float *own)
{
	size_t i, n = w->v->info.n_ff;

	(void)own;
	for (i = item * ROWS; i < rows_end(w, item); i++)
		qwen_vision_vec(w->v)->gelu(w->mid + i * n, n);
}

static void
run_block(struct qwen_vision_work *w, const struct qwen_vision_block *b)
{
	size_t D = w->v->info.n_embd_vision, F = w->v->info.n_ff;
	int more;

	for (more = first_rows(w); more; more = next_rows(w)) {
		run_rows(w, do_norm, &b->norm);
		qwen_vision_product(w, &b->qkv, w->in, D, w->mid, w->wide_mid,
		    w->rows);
		qwen_vision_take_qkv(w);
	}
	qwen_vision_attend(w);
	for (more = first_rows(w); more; more = next_rows(w)) {
		run_rows(w, do_heads, NULL);
		qwen_vision_product(w, &b->out, w->in, D, w->mid, D, w->rows);
		run_rows(w, do_add, w->mid);
		run_rows(w, do_norm, &b->mlp.norm);
		qwen_vision_product(w, &b->mlp.up, w->in, D, w->mid, F,
		    w->rows);
		run_rows(w, do_gelu, NULL);
		qwen_vision_product(w, &b->mlp.down, w->mid, F, w->in, D,
		    w->rows);
		run_rows(w, do_add, w->in);
	}
}

/* -------------------------------------------------------------- the mergers */

/*
 * Rows of in become the norm of x: of whole tokens, or patch by patch, as the
 * norm is wide.
 */
static void
do_merge(struct qwen_vision_work *w, size_t item, float *own)
{
	const struct qwen_vision_mlp *m = w->arg;
	size_t D = w->v->info.n_embd_vision, wide = PER_TOKEN * D, i, k;

	(void)own;
	for (i = item * ROWS; i < rows_end(w, item); i++)
		for (k = 0; k < wide; k += m->norm.n)
			qwen_vision_vec(w->v)->layernorm(w->in + i * wide + k,
			    w->x + (w->first + i) * wide + k, m->norm.w,
			    m->norm.b, m->norm.n, w->v->eps);
}

static void
do_erf(struct qwen_vision_work *w, size_t item, float *own)
{
	size_t wide = PER_TOKEN * w->v->info.n_embd_vision, i;
	float *p = w->mid + item * ROWS * wide;

	(void)own;
	for (i = 0; i < (rows_end(w, item) - item * ROWS) * wide; i++)
		p[i] = qwen_geluf(p[i]);
}

/* Computes a vector for each token, to y, a row apart. */
static void
run_merger(struct qwen_vision_work *w, const struct qwen_vision_mlp *m,
    float *y)
{
	size_t wide = PER_TOKEN * w->v->info.n_embd_vision;
	size_t tokens = w->n / PER_TOKEN, most = PATCHES / PER_TOKEN;
	size_t n_row = w->v->info.n_row;

	for (w->first = 0; w->first < tokens; w->first += w->rows) {
		w->rows = tokens - w->first < most ? tokens - w->first : most;
		run_rows(w, do_merge, m);
		qwen_vision_product(w, &m->up, w->in, wide, w->mid, wide,
		    w->rows);
		run_rows(w, do_erf, NULL);
		qwen_vision_product(w, &m->down, w->mid, wide,
		    y + w->first * n_row, n_row, w->rows);
	}
}

/* ----------------------------------------------------------------- an image */

/* Multiply-adds of the products and attention of a block, and of a merger. */
static uint64_t
block_macs(const struct qwen_vision *v, uint64_t n)
{
	uint64_t D = v->info.n_embd_vision;

	return n * (4 * D * D + 2 * D * v->info.n_ff) + 2 * n * n * D;
}

static uint64_t
merger_macs(const struct qwen_vision *v, uint64_t n)
{
	uint64_t wide = PER_TOKEN * v->info.n_embd_vision;

	return n / PER_TOKEN * wide * (wide + v->info.n_embd);
}

static uint64_t
macs(const struct qwen_vision *v, uint64_t n)
{
	return n * v->embed.n_in * v->embed.n_out +
	    v->info.n_layer * block_macs(v, n) +
	    (1 + v->info.n_deepstack) * merger_macs(v, n);
}

/* Checks that all rows are finite. */
static int
check_rows(const struct qwen_vision *v, const float *x, size_t n,
    struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < n * v->info.n_row; i++) {
		if (!isfinite(x[i]))
			return qwen_fail(err, QWEN_ENUMERIC, "row %zu of the "
			    "image has a value that is NaN or infinite",
			    i / v->info.n_row);
	}
	return 0;
}

struct sink {
	float	*rows;
	void	(*progress)(void *arg, uint64_t done, uint64_t total);
	void	*arg;
};

static int
run_all(struct qwen_vision_work *w, const struct sink *to,
    struct qwen_err *err)
{
	const struct qwen_vision *v = w->v;
	size_t i, k, E = v->info.n_embd;
	uint64_t all = macs(v, w->n), done = w->n * v->embed.n_in *
	    v->embed.n_out;

	qwen_vision_angles(w);
	qwen_vision_embed(w);
	for (i = 0; i < v->info.n_layer; i++) {
		if (to->progress != NULL)
			to->progress(to->arg, done, all);
		run_block(w, &v->block[i]);
		done += block_macs(v, w->n);
		if (v->block[i].deep == NULL)
			continue;
		k = 1 + (size_t)(v->block[i].deep - v->deep);
		run_merger(w, v->block[i].deep, to->rows + k * E);
		done += merger_macs(v, w->n);
	}
	run_merger(w, &v->merger, to->rows);
	if (to->progress != NULL)
		to->progress(to->arg, all, all);
	return check_rows(v, to->rows, w->n / PER_TOKEN, err);
}

int
qwen_vision_encode(struct qwen_vision *v,
    const struct qwen_vision_image *image, float *rows,
    void (*progress)(void *arg, uint64_t done, uint64_t total), void *arg,
    struct qwen_err *err)
{
	struct sink to = { rows, progress, arg };
	struct qwen_vision_work w;
	struct qwen_span s;
	int rc;

	if (qwen_vision_span(v, image, &s, err) < 0 ||
	    qwen_vision_work_init(&w, v, image->width / v->patch,
	    image->height / v->patch, err) < 0)
		return -1;
	w.image = image;
	rc = run_all(&w, &to, err);
	qwen_vision_work_fini(&w);
	return rc;
}

int
qwen_vision_encode_numbers(struct qwen_vision *v, const float *numbers,
    size_t width, size_t height, float *rows, struct qwen_err *err)
{
	struct sink to = { .rows = rows };
	struct qwen_vision_work w;
	int rc;

	if (qwen_vision_work_init(&w, v, width / v->patch, height / v->patch,
	    err) < 0)
		return -1;
	w.numbers = numbers;
	rc = run_all(&w, &to, err);
	qwen_vision_work_fini(&w);
	return rc;
}
