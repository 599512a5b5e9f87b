/* SPDX-License-Identifier: ISC */
/*
 * attention.c - grouped-query softmax attention with biases or q and k norms,
 * RoPE and an output gate, query by query.
 */
#include <string.h>

#include "engine/plain/plain.h"

enum { CHUNK = 256 };		/* keys that are merged at once */

/* The keys and values of a session in a layer, and one of its key heads. */
struct cache {
	const struct qwen_resident	*r;
	const struct qwen_share		*share;
	size_t				 layer, head;
	struct qwen_kv_shape		 s;
};

/*
 * The result of a query for some keys: with the largest score m, the sums of
 * exp(score - m) and of that times the value.
 */
struct result {
	float	m, l;
	float	o[QWEN_HEAD_MAX];
};

static struct qwen_plain_place
place_of(const struct cache *c, size_t slot, int is_v)
{
	return (struct qwen_plain_place){ .s = &c->s, .head = c->head,
	    .block = qwen_plain_block(c->r, c->share, c->layer, slot),
	    .at = slot % QWEN_KV_BLOCK, .is_v = is_v };
}

static void
get(const struct cache *c, size_t slot, int is_v, struct qwen_plain_vector *v)
{
	struct qwen_plain_place p = place_of(c, slot, is_v);

	qwen_plain_get(&p, v);
}

/* ---- scores */

/* Rotates and rounds a query for integer keys; 0: a number is not finite. */
static int
round_query(struct qwen_plain_vector *q, size_t d)
{
	float most = 0.0f, k;
	int finite = 1;
	size_t i;

	qwen_plain_hadamard(q->x, d);
	for (i = 0; i < d; i++) {
		finite &= isfinite(q->x[i]) != 0;
		most = fmaxf(most, fabsf(q->x[i]));
	}
	k = most >= 0x1p-100f && finite ? 32767.0f / most : 0.0f;
	for (i = 0; i < d; i++)
		q->x[i] = k > 0.0f ? rintf(q->x[i] * k) : 0.0f;
	q->scale[0] = k > 0.0f ? most / 32767.0f : 0.0f;
	return finite;
}

static float
score(const struct qwen_kv_shape *s, const struct qwen_plain_vector *q,
    const struct qwen_plain_vector *k)
{
	float sum = 0.0f;
	int32_t whole;
	size_t i, j;

	for (i = 0; qwen_kv_width(s->k) > 0 && i < s->d; i++)
		sum = fmaf(q->x[i], k->x[i], sum);
	if (qwen_kv_width(s->k) > 0)
		return sum;
	for (i = 0; i < s->d; i += QWEN_KV_GROUP) {
		whole = 0;
		for (j = i; j < i + QWEN_KV_GROUP; j++)
			whole += (int32_t)q->x[j] * (int32_t)k->x[j];
		sum = fmaf((float)whole, k->scale[i / QWEN_KV_GROUP], sum);
	}
	return sum * q->scale[0];
}

/* ---- values: o = sum of weights p times those of n keys */

static void
sum_floats(const struct cache *c, size_t first, size_t n, const float *p,
    float *o)
{
	struct qwen_plain_vector v;
	size_t i, j;

	memset(o, 0, c->s.d * sizeof *o);
	for (i = 0; i < n; i++) {
		get(c, first + i, 1, &v);
		for (j = 0; j < c->s.d; j++)
			o[j] = fmaf(p[i], v.x[j], o[j]);
	}
}

/* Weights become integers, relative to the largest with its value's scale. */
static void
sum_integers(const struct cache *c, size_t first, size_t n, const float *p,
    float *o)
{
	int32_t sum[QWEN_HEAD_MAX] = { 0 };
	struct qwen_plain_vector v;
	float most = 0.0f, k;
	size_t i, j;

	for (i = 0; i < n; i++) {
		get(c, first + i, 1, &v);
		for (j = 0; j < c->s.d / QWEN_KV_GROUP; j++)
			most = fmaxf(most, p[i] * fabsf(v.scale[j]));
	}
	k = most >= 0x1p-100f ? 32767.0f / most : 0.0f;
	for (i = 0; i < n; i++) {
		get(c, first + i, 1, &v);
		for (j = 0; j < c->s.d; j++)
			sum[j] += (int32_t)rintf(p[i] * k * v.scale[j /
			    QWEN_KV_GROUP]) * (int32_t)v.x[j];
	}
	for (j = 0; j < c->s.d; j++)
		o[j] = k > 0.0f ? (float)sum[j] * (most / 32767.0f) : 0.0f;
}

/* ---- one query */

/* Computes the result for n keys from slot `first' on. */
static void
attend_chunk(const struct cache *c, const struct qwen_plain_vector *q,
    size_t first, size_t n, struct result *r)
{
	struct qwen_plain_vector k;
	float p[CHUNK];
	size_t i;

	r->m = -INFINITY;
	for (i = 0; i < n; i++) {
		get(c, first + i, 0, &k);
		p[i] = score(&c->s, q, &k);
		r->m = r->m > p[i] ? r->m : p[i];
	}
	for (i = 0; i < n; i++)
		p[i] = qwen_expf(p[i] - r->m);
	r->l = qwen_plain_sum(p, n);
	if (qwen_kv_width(c->s.v) > 0)
		sum_floats(c, first, n, p, r->o);
	else
		sum_integers(c, first, n, p, r->o);
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

/* Sets y to the attention of a query to the first n_key keys. */
static void
attend(const struct cache *c, const struct qwen_plain_vector *q, size_t n_key,
    float *y)
{
	size_t first, n, i, d = c->s.d;
	struct result all, next;

	for (first = 0; first < n_key; first += CHUNK) {
		n = n_key - first < CHUNK ? n_key - first : CHUNK;
		attend_chunk(c, q, first, n, first == 0 ? &all : &next);
		if (first > 0)
			merge(&all, &next, d);
	}
	for (i = 0; i < d; i++)
		y[i] = fmaf(all.o[i], 1.0f / all.l, 0.0f);
	if (qwen_kv_width(c->s.v) == 0)
		qwen_plain_hadamard(y, d);
}

/* ---- a row */

static void
norm_and_turn(const struct qwen_hparams *h, const float *norm, float *x,
    const uint32_t pos[3])
{
	if (norm != NULL)
		qwen_plain_rms_norm(x, x, norm, h->n_embd_head, h->eps);
	qwen_plain_rope(h, x, pos);
}

/* Appends the keys at k and their values; 0: a number cannot be an integer. */
static int
append_row(struct cache *c, const struct qwen_hparams *h, const float *norm,
    const struct qwen_input *in, float *k)
{
	size_t d = h->n_embd_head;
	struct qwen_plain_place p;
	int ok = 1;

	for (c->head = 0; c->head < h->n_head_kv; c->head++, k += d) {
		norm_and_turn(h, norm, k, in->pos);
		p = place_of(c, in->slot, 0);
		ok &= qwen_plain_put(&p, k);
		p.is_v = 1;
		ok &= qwen_plain_put(&p, k + h->n_head_kv * d);
	}
	return ok;
}

/* Attends with the queries at x; 0: a number cannot be an integer. */
static int
attend_row(struct cache *c, const struct qwen_hparams *h,
    const struct qwen_attention *l, const struct qwen_input *in, float *x,
    float *y)
{
	size_t d = h->n_embd_head, i, j, step = l->gated ? 2 * d : d;
	struct qwen_plain_vector q;
	const float *gate = x + d;
	int ok = 1;

	for (i = 0; i < h->n_head; i++, x += step, gate += step, y += d) {
		norm_and_turn(h, l->q_norm, x, in->pos);
		for (j = 0; j < d; j++)
			q.x[j] = x[j] * h->attn_scale;
		if (qwen_kv_width(h->k) == 0)
			ok &= round_query(&q, d);
		c->head = i / (h->n_head / h->n_head_kv);
		attend(c, &q, in->slot + 1, y);
		/* a gate that is infinite gives NaN */
		for (j = 0; l->gated && j < d; j++)
			y[j] = fmaf(gate[j], 0.0f, y[j] / (1.0f +
			    qwen_expf(-gate[j])));
	}
	return ok;
}

void
qwen_plain_attention(struct qwen_plain_work *w, const struct qwen_layer *l)
{
	const struct qwen_pass *p = w->p;
	const struct qwen_hparams *h = &w->net->hp;
	struct cache c = { .r = w->w.r, .layer = l->index,
	    .s = qwen_kv_shape_of(h) };
	size_t k = l->attn.q.n_out, t;
	float *in = w->in;
	int ok;

	qwen_plain_multiply(w, &l->attn.q, w->xn, in, p->n);
	qwen_plain_multiply(w, &l->attn.k, w->xn, in + k, p->n);
	qwen_plain_multiply(w, &l->attn.v, w->xn, in + k + l->attn.k.n_out,
	    p->n);
	for (t = 0; t < p->n; t++, in += w->width) {
		c.share = &p->share[p->owner[t]];
		ok = append_row(&c, h, l->attn.k_norm, &p->row[t], in + k);
		if (qwen_plain_is_wanted(p, l->index, t))
			ok &= attend_row(&c, h, &l->attn, &p->row[t], in,
			    w->o + t * w->width);
		if (!ok)
			qwen_note_bad(p, t, QWEN_PLACE_MIXER(l->index));
	}
	qwen_plain_multiply(w, &l->attn.output, w->o, w->out, p->n);
}
