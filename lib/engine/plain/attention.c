/* SPDX-License-Identifier: ISC */
/*
 * attention.c - grouped-query softmax attention with biases or q and k norms,
 * RoPE and an output gate, query by query.
 */
#include <string.h>

#include "engine/plain/plain.h"

enum { CHUNK = 256 };		/* keys that are merged at once */

/* The attention of a layer over a session's keys and values. */
struct attention {
	const struct qwen_plain	*d;
	const struct qwen_share	*share;
	size_t			 layer;
	struct qwen_kv_shape	 shape;
};

/* The result of a query for some keys: exp(score - m), summed, and with values. */
struct result {
	float	m, l;
	float	o[QWEN_HEAD_MAX];
};

/* ---- scores */

/* Rotates and rounds a query for integer keys; 0: a number is not finite. */
static int
round_query(struct qwen_plain_vector *q, size_t d)
{
	float most = 0.0f;
	size_t i;

	qwen_plain_hadamard(q->x, d);
	for (i = 0; i < d && isfinite(most); i++)
		most = isfinite(q->x[i]) ? fmaxf(most, fabsf(q->x[i])) : NAN;
	q->scale[0] = most >= 0x1p-100f ? most / 32767.0f : 0.0f;
	for (i = 0; i < d; i++)
		q->x[i] = most >= 0x1p-100f ? rintf(q->x[i] *
		    (32767.0f / most)) : 0.0f;
	return isfinite(most);
}

static float
score(const struct qwen_kv_shape *s, const struct qwen_plain_vector *q,
    const struct qwen_plain_vector *k)
{
	float sum = 0.0f;
	int32_t whole = 0;
	size_t i;

	if (qwen_kv_width(s->k) > 0) {
		for (i = 0; i < s->d; i++)
			sum = fmaf(q->x[i], k->x[i], sum);
		return sum;
	}
	for (i = 0; i < s->d; i++) {
		if (i % QWEN_KV_GROUP == 0)
			whole = 0;
		whole += (int32_t)q->x[i] * (int32_t)k->x[i];
		if (i % QWEN_KV_GROUP == QWEN_KV_GROUP - 1)
			sum = fmaf((float)whole, k->scale[i / QWEN_KV_GROUP],
			    sum);
	}
	return sum * q->scale[0];
}

/* Sets p to the scores of n keys from slot `first' on. */
static void
score_keys(const struct attention *a, size_t head,
    const struct qwen_plain_vector *q, size_t first, size_t n, float *p)
{
	struct qwen_plain_vector k;
	size_t i;

	for (i = 0; i < n; i++) {
		qwen_plain_get_k(&a->shape, qwen_plain_block(a->d, a->share,
		    a->layer, first + i), head, (first + i) % QWEN_KV_BLOCK,
		    &k);
		p[i] = score(&a->shape, q, &k);
	}
}

/* ---- values */

static void
get_value(const struct attention *a, size_t head, size_t slot,
    struct qwen_plain_vector *v)
{
	qwen_plain_get_v(&a->shape, qwen_plain_block(a->d, a->share, a->layer,
	    slot), head, slot % QWEN_KV_BLOCK, v);
}

/* o = sum of weights p times values */
static void
sum_floats(const struct attention *a, size_t head, size_t first, size_t n,
    const float *p, float *o)
{
	struct qwen_plain_vector v;
	size_t i, j;

	memset(o, 0, a->shape.d * sizeof *o);
	for (i = 0; i < n; i++) {
		get_value(a, head, first + i, &v);
		for (j = 0; j < a->shape.d; j++)
			o[j] = fmaf(p[i], v.x[j], o[j]);
	}
}

/* Returns the largest product of a weight and a scale of its value. */
static float
largest_product(const struct attention *a, size_t head, size_t first, size_t n,
    const float *p)
{
	struct qwen_plain_vector v;
	float most = 0.0f, scale;
	size_t i, g;

	for (i = 0; i < n; i++) {
		get_value(a, head, first + i, &v);
		scale = 0.0f;
		for (g = 0; g < a->shape.d / QWEN_KV_GROUP; g++)
			scale = fmaxf(scale, fabsf(v.scale[g]));
		most = fmaxf(most, p[i] * scale);
	}
	return most;
}

/* The same where values are integers: weights become integers too. */
static void
sum_integers(const struct attention *a, size_t head, size_t first, size_t n,
    const float *p, float *o)
{
	float most = largest_product(a, head, first, n, p), u;
	int32_t sum[QWEN_HEAD_MAX] = { 0 };
	struct qwen_plain_vector v;
	size_t i, j;

	memset(o, 0, a->shape.d * sizeof *o);
	if (!(most >= 0x1p-100f))
		return;
	for (i = 0; i < n; i++) {
		get_value(a, head, first + i, &v);
		u = p[i] * (32767.0f / most);
		for (j = 0; j < a->shape.d; j++)
			sum[j] += (int32_t)rintf(u * v.scale[j /
			    QWEN_KV_GROUP]) * (int32_t)v.x[j];
	}
	for (j = 0; j < a->shape.d; j++)
		o[j] = (float)sum[j] * (most / 32767.0f);
}

/* ---- one query */

/* Computes the result for n keys from slot `first' on. */
static void
attend_chunk(const struct attention *a, size_t head,
    const struct qwen_plain_vector *q, size_t first, size_t n,
    struct result *r)
{
	float p[CHUNK];
	size_t i;

	score_keys(a, head, q, first, n, p);
	r->m = -INFINITY;
	for (i = 0; i < n; i++)
		r->m = r->m > p[i] ? r->m : p[i];
	for (i = 0; i < n; i++)
		p[i] = qwen_expf(p[i] - r->m);
	r->l = qwen_plain_sum(p, n);
	if (qwen_kv_width(a->shape.v) > 0)
		sum_floats(a, head, first, n, p, r->o);
	else
		sum_integers(a, head, first, n, p, r->o);
}

/* Adds the result of a later chunk to that of all before it. */
static void
merge(struct result *r, const struct result *next, size_t d)
{
	float m = r->m > next->m ? r->m : next->m;
	float e = qwen_expf(r->m - m), e1 = qwen_expf(next->m - m);
	size_t i;

	r->m = m;
	r->l = fmaf(r->l, e, next->l * e1);
	for (i = 0; i < d; i++)
		r->o[i] = fmaf(r->o[i], e, next->o[i] * e1);
}

/* Sets y to the attention of a query of a key head to the first n_key keys. */
static void
attend(const struct attention *a, size_t head,
    const struct qwen_plain_vector *q, size_t n_key, float *y)
{
	size_t first, n, i, d = a->shape.d;
	struct result all, next;

	for (first = 0; first < n_key; first += CHUNK) {
		n = n_key - first < CHUNK ? n_key - first : CHUNK;
		attend_chunk(a, head, q, first, n, first == 0 ? &all : &next);
		if (first > 0)
			merge(&all, &next, d);
	}
	for (i = 0; i < d; i++)
		y[i] = fmaf(all.o[i], 1.0f / all.l, 0.0f);
	if (qwen_kv_width(a->shape.v) == 0)
		qwen_plain_hadamard(y, d);
}

/* ---- a row */

/* A gate that is infinite makes NaN, where it would pass for 0 or 1. */
static void
apply_gate(float *y, const float *gate, size_t d)
{
	size_t i;

	for (i = 0; i < d; i++)
		y[i] = fmaf(gate[i], 0.0f, y[i] / (1.0f +
		    qwen_expf(-gate[i])));
}

static void
norm_and_turn(const struct qwen_hparams *h, const float *norm, float *x,
    uint32_t pos)
{
	if (norm != NULL)
		qwen_plain_rms_norm(x, x, norm, h->n_embd_head, h->eps);
	qwen_plain_rope(h, x, pos);
}

/* Attends with the queries at x; 0: a number cannot be an integer. */
static int
attend_row(const struct attention *a, const struct qwen_hparams *h,
    const struct qwen_attention *l, const struct qwen_input *in, float *x,
    float *y)
{
	size_t d = h->n_embd_head, i, j, step = l->gated ? 2 * d : d;
	struct qwen_plain_vector q;
	int ok = 1;

	for (i = 0; i < h->n_head; i++, x += step, y += d) {
		norm_and_turn(h, l->q_norm, x, in->pos[0]);
		for (j = 0; j < d; j++)
			q.x[j] = x[j] * h->attn_scale;
		if (qwen_kv_width(h->k) == 0)
			ok &= round_query(&q, d);
		attend(a, i / (h->n_head / h->n_head_kv), &q, in->slot + 1, y);
		if (l->gated)
			apply_gate(y, x + d, d);
	}
	return ok;
}

/* Appends keys and values; 0: a number cannot be an integer. */
static int
append_row(const struct attention *a, const struct qwen_hparams *h,
    const struct qwen_attention *l, const struct qwen_input *in, float *k,
    float *v)
{
	uint8_t *block = qwen_plain_block(a->d, a->share, a->layer, in->slot);
	size_t d = h->n_embd_head, i, at = in->slot % QWEN_KV_BLOCK;
	int ok = 1;

	for (i = 0; i < h->n_head_kv; i++, k += d, v += d) {
		norm_and_turn(h, l->k_norm, k, in->pos[0]);
		ok &= qwen_plain_put_k(&a->shape, block, i, at, k);
		ok &= qwen_plain_put_v(&a->shape, block, i, at, v);
	}
	return ok;
}

void
qwen_plain_attention(struct qwen_plain_work *w, const struct qwen_pass *p,
    const struct qwen_layer *l)
{
	const struct qwen_hparams *h = &w->net->hp;
	const struct qwen_weight *m[3] = { &l->attn.q, &l->attn.k, &l->attn.v };
	struct attention a = { .d = w->d, .layer = l->index,
	    .shape = qwen_kv_shape_of(h) };
	size_t at[4] = { 0 }, t, i;
	float *in;
	int ok;

	for (i = 0; i < 3; i++) {
		qwen_plain_multiply(w, m[i], w->xn, h->n_embd, w->in + at[i],
		    w->in_width, p->n);
		at[i + 1] = at[i] + m[i]->n_out;
	}
	for (t = 0; t < p->n; t++) {
		a.share = &p->share[p->owner[t]];
		in = w->in + t * w->in_width;
		ok = append_row(&a, h, &l->attn, &p->row[t], in + at[1],
		    in + at[2]);
		if (qwen_plain_is_wanted(p, l->index, t))
			ok &= attend_row(&a, h, &l->attn, &p->row[t], in,
			    w->o + t * w->o_width);
		if (!ok)
			qwen_note_bad(p, t, QWEN_PLACE_MIXER(l->index));
	}
	qwen_plain_multiply(w, &l->attn.output, w->o, w->o_width, w->out,
	    h->n_embd, p->n);
}
