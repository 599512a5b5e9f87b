/* SPDX-License-Identifier: ISC */
/*
 * attend.c - attention among all patches of an image, by the kernel that language
 * models have, in tiles: some queries of a head against a chunk of keys.
 *
 * A head is filled up with zeros to whole lanes, which change no sum.
 */
#include <math.h>
#include <string.h>

#include "vision/encoder.h"

static float *
query_at(const struct qwen_vision_work *w, size_t i, size_t head)
{
	return w->q + (i * w->v->info.n_head + head) * w->v->d_pad;
}

/* The shape of a block of keys and values. */
static struct qwen_kv_shape
shape_of(const struct qwen_vision *v)
{
	return (struct qwen_kv_shape){ .n_head = v->info.n_head,
	    .d = v->d_pad, .k = QWEN_KV_F32, .v = QWEN_KV_F32 };
}

/*
 * Rotates pairs of numbers half a head apart: the first half of the pairs by the
 * angles of the patch's row, the others by those of its column.
 */
static void
rotate(const struct qwen_vision_work *w, size_t i, float *x, float *turn)
{
	size_t n = w->v->d / 4, y = qwen_vision_y(w, i);
	size_t at = qwen_vision_x(w, i);

	memcpy(turn, w->cos + y * n, n * sizeof *turn);
	memcpy(turn + n, w->cos + at * n, n * sizeof *turn);
	memcpy(turn + 2 * n, w->sin + y * n, n * sizeof *turn);
	memcpy(turn + 3 * n, w->sin + at * n, n * sizeof *turn);
	qwen_vision_vec(w->v)->rope(x, turn, turn + 2 * n, 2 * n);
}

/* Takes a head of a patch, whose q, k and v are D numbers apart at p. */
static void
take_head(struct qwen_vision_work *w, size_t i, size_t head, float *p,
    float *turn)
{
	const struct qwen_vision *v = w->v;
	const struct qwen_kv_shape s = shape_of(v);
	size_t D = v->info.n_embd_vision, d = v->d, k;
	float *to = query_at(w, i, head);
	unsigned char *block = (unsigned char *)w->block[i / LANES];
	float *keys = (float *)(void *)(block + qwen_kv_k_at(&s, head));
	float *values = (float *)(void *)(block + qwen_kv_v_at(&s, head));
	const float scale = (float)(1.0 / sqrt((double)d));

	rotate(w, i, p, turn);
	rotate(w, i, p + D, turn);
	for (k = 0; k < d; k++) {
		to[k] = p[k] * scale;
		keys[k * LANES + i % LANES] = p[D + k];
		values[i % LANES * v->d_pad + k] = p[2 * D + k];
	}
	memset(to + d, 0, (v->d_pad - d) * sizeof *to);
}

static void
do_take(struct qwen_vision_work *w, size_t item, float *own)
{
	size_t i, h, end = (item + 1) * LANES;

	for (i = item * LANES; i < end && i < w->rows; i++)
		for (h = 0; h < w->v->info.n_head; h++)
			take_head(w, w->first + i, h, w->mid + i * w->wide_mid +
			    h * w->v->d, own);
}

void
qwen_vision_take_qkv(struct qwen_vision_work *w)
{
	qwen_vision_run(w, do_take, (w->rows + LANES - 1) / LANES);
}

/* Some queries of a head, from i0 on, see a chunk of keys. */
static void
see_chunk(const struct qwen_vision_work *w, struct qwen_attn *a, size_t head,
    size_t i0, float *o)
{
	const struct qwen_vision *v = w->v;
	const size_t blocks = QWEN_ATTN_CHUNK / QWEN_KV_BLOCK;
	size_t i;

	a->n_q = w->n - i0 < QWEN_ATTN_MAX_Q ? w->n - i0 : QWEN_ATTN_MAX_Q;
	for (i = 0; i < a->n_q; i++) {
		a->q[i] = query_at(w, i0 + i, head);
		a->limit[i] = w->n;
		a->o[i] = o + i * v->d_pad;
	}
	a->merge = a->chunk > 0;
	a->next = (a->chunk + 2) * QWEN_ATTN_CHUNK <= w->n ?
	    w->block + (a->chunk + 1) * blocks : NULL;
	v->kernels.attn->run.attn(a);
}

/*
 * QUERIES of a head through all chunks of keys, which come from memory once
 * for all of them.
 */
static void
do_queries(struct qwen_vision_work *w, size_t item, float *own)
{
	const struct qwen_vision *v = w->v;
	const struct qwen_kv_shape s = shape_of(v);
	const size_t chunks = (w->n + QWEN_ATTN_CHUNK - 1) / QWEN_ATTN_CHUNK;
	size_t groups = (w->n + QUERIES - 1) / QUERIES, head = item / groups;
	size_t i0 = item % groups * QUERIES, i;
	size_t n = w->n - i0 < QUERIES ? w->n - i0 : QUERIES;
	float m[QUERIES], l[QUERIES], *o = own + QWEN_ATTN_WORK(v->d_pad);
	struct qwen_attn a = { .d = v->d_pad, .n_zero = v->d_pad - v->d,
	    .k = s.k, .v = s.v, .block = w->block,
	    .k_off = qwen_kv_k_at(&s, head) / 2,
	    .v_off = qwen_kv_v_at(&s, head) / 2, .work = own };

	for (a.chunk = 0; a.chunk < chunks; a.chunk++) {
		for (i = 0; i < n; i += QWEN_ATTN_MAX_Q) {
			a.m = m + i;
			a.l = l + i;
			see_chunk(w, &a, head, i0 + i, o + i * v->d_pad);
		}
	}
	for (i = 0; i < n; i++)
		qwen_vision_vec(v)->attn_finish(query_at(w, i0 + i, head),
		    o + i * v->d_pad, l[i], v->d_pad);
}

void
qwen_vision_attend(struct qwen_vision_work *w)
{
	size_t groups = (w->n + QUERIES - 1) / QUERIES;

	qwen_vision_run(w, do_queries, groups * w->v->info.n_head);
}
