/* SPDX-License-Identifier: ISC */
/*
 * attention.c - grouped-query softmax attention with q and k norms, RoPE, and
 * (Qwen3.5 on) an output gate.
 *
 * Keys and values are rounded to f16 on their way into the cache, and always
 * read from there.  The queries that share a key-value head are numbered
 * token by token.
 */
#include "model/forward.h"

#define MIN_GROUP 8		/* queries that go through a chunk at once */

int
qwen_attention_load(struct qwen_model *m, struct qwen_layer *l, int gated,
    struct qwen_err *err)
{
	const struct qwen_hparams *h = &m->hp;
	struct qwen_attention *a = &l->attn;
	size_t q = h->n_head * h->n_embd_head, kv = h->n_head_kv *
	    h->n_embd_head;
	long i = (long)l->index;

	a->gated = gated;
	if (qwen_load_weight(m, &a->q, i, "attn_q.weight", h->n_embd,
	    gated ? 2 * q : q, 0, err) < 0 ||
	    qwen_load_weight(m, &a->k, i, "attn_k.weight", h->n_embd, kv, 0,
	    err) < 0 ||
	    qwen_load_weight(m, &a->v, i, "attn_v.weight", h->n_embd, kv, 0,
	    err) < 0 ||
	    qwen_load_weight(m, &a->output, i, "attn_output.weight", q,
	    h->n_embd, 0, err) < 0 ||
	    qwen_load_vector(m, &a->q_norm, i, "attn_q_norm.weight",
	    h->n_embd_head, err) < 0 ||
	    qwen_load_vector(m, &a->k_norm, i, "attn_k_norm.weight",
	    h->n_embd_head, err) < 0)
		return -1;
	l->mixer = qwen_attention_forward;
	return 0;
}

/* Where things are in a row of projections: q (and gate), k, v. */
struct row {
	size_t	 q_step;	/* from one head's query to the next */
	size_t	 k, v;
};

struct pass {
	const struct qwen_layer	*l;
	struct qwen_layer_state	*kv;
	struct row		 row;
	size_t			 rep;	/* queries a kv head serves */
	size_t			 from;	/* the first token with queries */
};

/* One key into column pos of its block's [d][16], one value into a row. */
static void
store(const struct qwen_batch *b, const struct qwen_layer_state *kv,
    size_t head, size_t pos, const float *k, const float *v)
{
	size_t d = b->hp->n_embd_head, i, at = pos % QWEN_KV_BLOCK;
	uint16_t *block = kv->block[pos / QWEN_KV_BLOCK];
	uint16_t *kt = block + head * d * QWEN_KV_BLOCK + at;
	uint16_t row[QWEN_HEAD_MAX];

	b->vec->to_f16(row, k, d);
	for (i = 0; i < d; i++)
		kt[i * QWEN_KV_BLOCK] = row[i];
	b->vec->to_f16(block + (b->hp->n_head_kv + head) * d * QWEN_KV_BLOCK +
	    at * d, v, d);
}

/* Norm, rotate and scale the queries in place; keys and values to the cache. */
static void
prepare(struct qwen_batch *b, void *arg, size_t t)
{
	const struct pass *p = arg;
	const struct qwen_hparams *h = b->hp;
	const struct qwen_attention *a = &p->l->attn;
	const float *c = b->b->cos + t * h->n_rot / 2;
	const float *s = b->b->sin + t * h->n_rot / 2;
	float *x = b->b->in + t * b->b->in_width;
	size_t i, j, d = h->n_embd_head;

	for (i = 0; t >= p->from && i < h->n_head; i++) {
		float *q = x + i * p->row.q_step;

		b->vec->rmsnorm(q, q, a->q_norm, d, h->eps);
		b->vec->rope(q, c, s, h->n_rot / 2);
		for (j = 0; j < d; j++)
			q[j] *= h->attn_scale;
	}
	for (i = 0; i < h->n_head_kv; i++) {
		float *k = x + p->row.k + i * d;

		b->vec->rmsnorm(k, k, a->k_norm, d, h->eps);
		b->vec->rope(k, c, s, h->n_rot / 2);
		store(b, p->kv, i, b->pos + t, k, x + p->row.v + i * d);
	}
}

/* Flat query i of a kv head: its token and its head. */
static void
locate(const struct pass *p, size_t head_kv, size_t i, size_t *t, size_t *head)
{
	*t = p->from + i / p->rep;
	*head = head_kv * p->rep + i % p->rep;
}

/* n queries of a kv head from i0 on. */
static void
set_up(const struct qwen_batch *b, const struct pass *p, size_t head_kv,
    size_t i0, size_t n, struct qwen_attn *a)
{
	size_t i, t, head, d = b->hp->n_embd_head;

	a->d = d;
	a->n_q = n;
	a->block = p->kv->block;
	a->k_off = head_kv * d * QWEN_KV_BLOCK;
	a->v_off = (b->hp->n_head_kv + head_kv) * d * QWEN_KV_BLOCK;
	for (i = 0; i < n; i++) {
		locate(p, head_kv, i0 + i, &t, &head);
		a->q[i] = b->b->in + t * b->b->in_width +
		    head * p->row.q_step;
		a->limit[i] = b->pos + t + 1;
	}
}

/* The result of query i, and its gate. */
static void
finish(const struct qwen_batch *b, const struct pass *p, size_t head_kv,
    size_t i, const float *o, float l)
{
	size_t t, head, d = b->hp->n_embd_head;
	float *y;

	locate(p, head_kv, i, &t, &head);
	y = b->b->o + t * b->b->o_width + head * d;
	b->vec->attn_finish(y, o, l, d);
	if (p->l->attn.gated)
		b->vec->gate(y, b->b->in + t * b->b->in_width +
		    head * p->row.q_step + d, d);
}

/* One call of the kernel, counted. */
static void
run_chunk(const struct qwen_batch *b, const struct qwen_attn *a, int thread)
{
	struct qwen_profile *profile = &b->m->profile;
	uint64_t begin = qwen_profile_begin(profile);
	size_t i, first = a->chunk * QWEN_ATTN_CHUNK, keys = 0, most = 0, n;

	b->m->kernels.attn->run.attn(a);
	if (!profile->on)
		return;
	for (i = 0; i < a->n_q; i++) {
		n = a->limit[i] > first ? a->limit[i] - first : 0;
		n = n < QWEN_ATTN_CHUNK ? n : QWEN_ATTN_CHUNK;
		keys += n;
		most = n > most ? n : most;
	}
	qwen_profile_end(profile, thread, QWEN_STAGE_ATTN, begin,
	    2 * most * a->d * sizeof(uint16_t), 2 * keys * a->d);
}

struct item_job {
	struct qwen_batch	*b;
	const struct pass	*p;
	size_t			 n_flat;	/* queries of a kv head */
	size_t			 many;		/* of them in a group */
	size_t			 n_group;
	size_t			 n_chunk;	/* split: chunks of keys */
};

/* Group g of a kv head: its first query; how many, in n. */
static size_t
group(const struct item_job *j, size_t g, size_t *n)
{
	size_t i0 = g * j->many;

	*n = j->n_flat - i0 < j->many ? j->n_flat - i0 : j->many;
	return i0;
}

/* The blocks of a chunk if it has all of them, or NULL. */
static uint16_t *const *
blocks_of(const struct pass *p, size_t chunk)
{
	size_t n = QWEN_ATTN_CHUNK / QWEN_KV_BLOCK;

	return (chunk + 1) * n <= p->kv->n_block ? p->kv->block + chunk * n :
	    NULL;
}

static float *
work_of(const struct qwen_batch *b, int thread)
{
	return b->b->tile + (size_t)thread *
	    QWEN_ATTN_WORK(b->hp->n_embd_head);
}

/*
 * Item: a group of queries; their chunks one after the other, merged as they
 * come.  The last tokens, which see the most, are first.
 */
static void
do_group(void *arg, size_t item, int thread)
{
	const struct item_job *j = arg;
	const struct qwen_batch *b = j->b;
	size_t n_kv = b->hp->n_head_kv, head_kv = item % n_kv;
	size_t t, head, i, n, last, d = b->hp->n_embd_head;
	size_t i0 = group(j, j->n_group - 1 - item / n_kv, &n);
	float m[QWEN_ATTN_MAX_Q], l[QWEN_ATTN_MAX_Q];
	struct qwen_attn a = { .m = m, .l = l, .work = work_of(b, thread) };

	set_up(b, j->p, head_kv, i0, n, &a);
	for (i = 0; i < n; i++) {
		locate(j->p, head_kv, i0 + i, &t, &head);
		a.o[i] = b->b->o + t * b->b->o_width + head * d;
	}
	last = (a.limit[n - 1] - 1) / QWEN_ATTN_CHUNK;
	for (a.chunk = 0; a.chunk <= last; a.chunk++) {
		a.merge = a.chunk > 0;
		a.next = a.chunk < last ? blocks_of(j->p, a.chunk + 1) : NULL;
		run_chunk(b, &a, thread);
	}
	for (i = 0; i < n; i++)
		finish(b, j->p, head_kv, i0 + i, a.o[i], l[i]);
}

/* One token, long context.  part: a row of d + 2 for each head and chunk. */
static float *
part_of(const struct item_job *j, size_t head, size_t chunk)
{
	return j->b->b->part + (head * j->b->b->cap_chunk + chunk) *
	    (j->b->hp->n_embd_head + 2);
}

/*
 * Item: a group of queries and one chunk.  With all threads at work, this one
 * comes back for the item n_threads later.
 */
static void
do_split(void *arg, size_t item, int thread)
{
	const struct item_job *j = arg;
	const struct qwen_batch *b = j->b;
	size_t head_kv = item / j->n_chunk / j->n_group, i, n;
	size_t i0 = group(j, item / j->n_chunk % j->n_group, &n);
	size_t d = b->hp->n_embd_head;
	float m[QWEN_ATTN_MAX_Q], l[QWEN_ATTN_MAX_Q];
	struct qwen_attn a = { .m = m, .l = l, .chunk = item % j->n_chunk,
	    .work = work_of(b, thread) };

	set_up(b, j->p, head_kv, i0, n, &a);
	i = a.chunk + (size_t)qwen_pool_threads(b->m->pool);
	a.next = i < j->n_chunk ? blocks_of(j->p, i) : NULL;
	for (i = 0; i < n; i++)
		a.o[i] = part_of(j, head_kv * j->p->rep + i0 + i, a.chunk);
	run_chunk(b, &a, thread);
	for (i = 0; i < n; i++) {
		a.o[i][d] = m[i];
		a.o[i][d + 1] = l[i];
	}
}

/* Item: a head; its chunks in the order of positions. */
static void
do_merge(void *arg, size_t head, int thread)
{
	const struct item_job *j = arg;
	const struct qwen_batch *b = j->b;
	size_t c, d = b->hp->n_embd_head;
	float *o = part_of(j, head, 0), *o1;

	(void)thread;
	for (c = 1; c < j->n_chunk; c++) {
		o1 = part_of(j, head, c);
		b->vec->attn_merge(o + d, o + d + 1, o, o1[d], o1[d + 1], o1,
		    d);
	}
	finish(b, j->p, head / j->p->rep, head % j->p->rep, o, o[d + 1]);
}

/* As many queries a group as leave each thread some groups. */
static void
make_groups(struct item_job *j)
{
	size_t n_kv = j->b->hp->n_head_kv;
	size_t want = 4 * (size_t)qwen_pool_threads(j->b->m->pool);

	for (j->many = QWEN_ATTN_MAX_Q;; j->many /= 2) {
		j->n_group = (j->n_flat + j->many - 1) / j->many;
		if (j->many <= MIN_GROUP || n_kv * j->n_group >= want)
			return;
	}
}

static void
attend(struct qwen_batch *b, const struct pass *p)
{
	size_t n = b->n - p->from, n_kv = b->hp->n_head_kv;
	struct item_job j = { .b = b, .p = p, .n_flat = n * p->rep };

	make_groups(&j);
	j.n_chunk = (b->pos + b->n + QWEN_ATTN_CHUNK - 1) / QWEN_ATTN_CHUNK;
	if (n > 1 || j.n_chunk < 2 || qwen_pool_threads(b->m->pool) == 1) {
		qwen_pool_run(b->m->pool, do_group, &j, n_kv * j.n_group);
		return;
	}
	qwen_pool_run(b->m->pool, do_split, &j, n_kv * j.n_group * j.n_chunk);
	qwen_pool_run(b->m->pool, do_merge, &j, b->hp->n_head);
}

static void
make_operand(struct qwen_batch *b, void *arg, size_t t)
{
	const struct pass *p = arg;
	const struct qwen_weight *w = &p->l->attn.output;

	if (t >= p->from && qwen_wants_operand(w))
		qwen_make_operand(b, b->b->oq, b->b->o_width, t,
		    b->b->o + t * b->b->o_width, w->n_in);
}

/* Keys and values of all tokens, queries of those from p->from on. */
static void
project(struct qwen_batch *b, const struct pass *p)
{
	const struct qwen_attention *a = &p->l->attn;
	struct qwen_scratch *s = b->b;
	size_t from = p->from, n_embd = b->hp->n_embd;
	struct qwen_linear lin[3] = {
		{ &a->q, s->in + from * s->in_width, s->in_width },
		{ &a->k, s->in + p->row.k, s->in_width },
		{ &a->v, s->in + p->row.v, s->in_width },
	};

	if (from == 0) {
		qwen_linears(b, lin, 3, s->xn, n_embd, s->xq, b->n);
		return;
	}
	qwen_linears(b, lin + 1, 2, s->xn, n_embd, s->xq, b->n);
	qwen_linears(b, lin, 1, s->xn + from * n_embd, n_embd,
	    qwen_operand(b, s->xq, n_embd, from), b->n - from);
}

void
qwen_attention_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	const struct qwen_hparams *h = b->hp;
	struct qwen_scratch *s = b->b;
	size_t d = h->n_embd_head;
	struct pass p = { .l = l, .kv = &b->s->layer[l->index],
	    .rep = h->n_head / h->n_head_kv, .from = b->from };
	struct qwen_linear o = { &l->attn.output,
	    s->out + p.from * h->n_embd, h->n_embd };

	p.row.q_step = l->attn.gated ? 2 * d : d;
	p.row.k = h->n_head * p.row.q_step;
	p.row.v = p.row.k + h->n_head_kv * d;
	project(b, &p);
	qwen_each_token(b, QWEN_STAGE_ATTN_PREPARE, prepare, &p);
	if (p.from == b->n)
		return;
	attend(b, &p);
	qwen_each_token(b, QWEN_STAGE_ATTN_PREPARE, make_operand, &p);
	qwen_linears(b, &o, 1, s->o + p.from * s->o_width, s->o_width,
	    qwen_operand(b, s->oq, s->o_width, p.from), b->n - p.from);
}
