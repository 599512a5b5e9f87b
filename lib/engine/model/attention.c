/* SPDX-License-Identifier: ISC */
/*
 * attention.c - grouped-query softmax attention with biases (Qwen2) or q and k
 * norms, RoPE, and (Qwen3-Next on) an output gate.
 *
 * Keys and values are rounded to f16, or to whole numbers after a rotation of
 * their head, on their way into the cache, and always read from there.  The
 * queries that share a key-value head are numbered
 * token by token.
 */
#include <stdatomic.h>
#include <string.h>

#include "engine/model/forward.h"
#include "engine/model/trace.h"

#define MIN_GROUP 8		/* queries that go through a chunk at once */

/* Where things are in a row of projections: q (and gate), k, v. */
struct row {
	size_t	 q_step;	/* from one head's query to the next */
	size_t	 k, v;
};

struct pass {
	const struct qwen_layer	*l;
	struct row		 row;
	size_t			 rep;	/* queries a kv head serves */
	_Atomic uint64_t	*append_ns;	/* profiled: all of append() */
};

static struct qwen_layer_state *
cache_of(const struct pass *p, const struct qwen_share *share)
{
	return &share->s->layer[p->l->index];
}

/* A key's or value's whole numbers; not finite: 0, and all of them are 0. */
struct rounded {
	int8_t		q[QWEN_HEAD_MAX];
	uint16_t	scale[QWEN_HEAD_MAX / QWEN_KV_GROUP];
};

static int
round_head(const struct qwen_batch *b, struct rounded *r, float *x,
    enum qwen_kv kv)
{
	b->vec->hadamard(x, b->hp->n_embd_head);
	return b->vec->round_kv(r->q, r->scale, x, b->hp->n_embd_head, kv);
}

/* One key into column at of its block's [d][16], one value into a row. */
static int
store_k(const struct qwen_batch *b, const struct qwen_kv_shape *s,
    uint16_t *block, size_t head, size_t at, float *k)
{
	uint16_t *kt, row[QWEN_HEAD_MAX];
	struct rounded r;
	size_t i;
	int ok;

	if (qwen_kv_width(s->k) == 0) {
		ok = round_head(b, &r, k, s->k);
		qwen_kv_put_k(s, block, head, at, r.q, r.scale);
		return ok;
	}
	if (s->k == QWEN_KV_F32) {
		float *kf = (float *)(void *)((uint8_t *)block +
		    qwen_kv_k_at(s, head)) + at;

		for (i = 0; i < s->d; i++)
			kf[i * QWEN_KV_BLOCK] = k[i];
		return 1;
	}
	kt = block + qwen_kv_k_at(s, head) / sizeof *kt + at;
	b->vec->to_f16(row, k, s->d);
	for (i = 0; i < s->d; i++)
		kt[i * QWEN_KV_BLOCK] = row[i];
	return 1;
}

static int
store_v(const struct qwen_batch *b, const struct qwen_kv_shape *s,
    uint16_t *block, size_t head, size_t at, float *v)
{
	struct rounded r;
	int ok;

	if (qwen_kv_width(s->v) == 0) {
		ok = round_head(b, &r, v, s->v);
		qwen_kv_put_v(s, block, head, at, r.q, r.scale);
		return ok;
	}
	if (s->v == QWEN_KV_F32) {
		memcpy((uint8_t *)block + qwen_kv_v_at(s, head) +
		    at * s->d * sizeof *v, v, s->d * sizeof *v);
		return 1;
	}
	b->vec->to_f16(block + qwen_kv_v_at(s, head) / sizeof *block +
	    at * s->d, v, s->d);
	return 1;
}

/* An f16 or f32. */
static int
is_finite(const uint8_t *p, size_t width)
{
	uint32_t x = 0;

	memcpy(&x, p, width);
	return width == 2 ? (x & 0x7c00) != 0x7c00 :
	    (x & 0x7f800000) != 0x7f800000;
}

/*
 * Clears the values of a draft token in a head that has a NaN or infinity, and notes
 * the row: the tokens before it multiply the values by zero, which would give NaN.
 */
static void
check_guess(const struct qwen_batch *b, const struct qwen_layer_state *kv,
    size_t t, size_t pos)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(b->hp);
	size_t d = s.d, head, i, at = pos % QWEN_KV_BLOCK;
	const size_t width = qwen_kv_width(s.v);
	uint8_t *v;

	for (head = 0; width > 0 && head < s.n_head; head++) {
		v = (uint8_t *)kv->block[pos / QWEN_KV_BLOCK] +
		    qwen_kv_v_at(&s, head) + at * d * width;
		for (i = 0; i < d && is_finite(v + i * width, width);)
			i++;
		if (i == d)
			continue;
		memset(v, 0, d * width);
		qwen_note_bad(b, t, 0);
	}
}

/* Copy a head of a stage for the trace, unless told is NULL. */
static void
tell(float *told, size_t head, const float *x, size_t d)
{
	if (told != NULL)
		memcpy(told + head * d, x, d * sizeof *x);
}

/* Norm, rotate and scale a query in place, for keys as the cache has them. */
static int
prepare_query(const struct qwen_batch *b, const struct qwen_attention *a,
    float *q, const float *c, const float *s, float *told, size_t head)
{
	const struct qwen_hparams *h = b->hp;
	size_t j, d = h->n_embd_head;

	if (a->q_norm != NULL)
		b->vec->rmsnorm(q, q, a->q_norm, d, h->eps);
	b->vec->rope(q, c, s, h->n_rot / 2);
	tell(told, head, q, d);
	for (j = 0; j < d; j++)
		q[j] *= h->attn_scale;
	if (qwen_kv_width(h->k) > 0)
		return 1;
	b->vec->hadamard(q, d);
	return b->vec->query(q, d);
}

/* Append the keys and values of a token in x to the cache; 0 if not finite. */
static int
append(const struct qwen_batch *b, const struct pass *p, float *x,
    uint16_t *block, size_t at)
{
	const struct qwen_hparams *h = b->hp;
	const struct qwen_profile *profile = &b->m->profile;
	uint64_t begin = qwen_profile_begin(profile);
	struct qwen_kv_shape shape = qwen_kv_shape_of(h);
	size_t i, d = h->n_embd_head;
	int ok = 1;

	for (i = 0; i < h->n_head_kv; i++) {
		ok &= store_k(b, &shape, block, i, at, x + p->row.k + i * d);
		ok &= store_v(b, &shape, block, i, at, x + p->row.v + i * d);
	}
	if (profile->on)
		atomic_fetch_add(p->append_ns, qwen_profile_begin(profile) -
		    begin);
	return ok;
}

/*
 * Prepares the queries in place and stores keys and values in the cache.  Integers
 * cannot represent NaN or infinity, so rows with them are noted here.
 */
static void
prepare(struct qwen_batch *b, void *arg, size_t t)
{
	const struct pass *p = arg;
	const struct qwen_hparams *h = b->hp;
	const struct qwen_attention *a = &p->l->attn;
	const float *c = b->b->cos + t * h->n_rot / 2;
	const float *s = b->b->sin + t * h->n_rot / 2;
	const struct qwen_share *share = qwen_share_of(b, t);
	float *x = b->b->in + t * b->b->in_width;
	size_t i, d = h->n_embd_head, pos = share->pos + t - share->first;
	uint16_t *block = cache_of(p, share)->block[share->skip +
	    pos / QWEN_KV_BLOCK];
	int wanted = qwen_is_wanted(b, t), ok = 1;
	size_t layer = p->l->index;
	float *told = !b->trace ? NULL :
	    qwen_trace_at(b, t, QWEN_TRACE_Q_ROPE, layer, 0);

	for (i = 0; wanted && i < h->n_head; i++)
		ok &= prepare_query(b, a, x + i * p->row.q_step, c, s, told, i);
	told = !b->trace ? NULL :
	    qwen_trace_at(b, t, QWEN_TRACE_K_ROPE, layer, 0);
	for (i = 0; i < h->n_head_kv; i++) {
		float *k = x + p->row.k + i * d;

		if (a->k_norm != NULL)
			b->vec->rmsnorm(k, k, a->k_norm, d, h->eps);
		b->vec->rope(k, c, s, h->n_rot / 2);
		tell(told, i, k, d);
	}
	ok &= append(b, p, x, block, pos % QWEN_KV_BLOCK);
	if (!ok)
		qwen_note_bad(b, t, 2 * layer + 1);
	if (t - share->first >= share->n_sure)
		check_guess(b, cache_of(p, share), t, pos);
}

/* Flat query i of a kv head of a timeline: its row and its head. */
static void
locate(const struct pass *p, const struct qwen_share *share, size_t head_kv,
    size_t i, size_t *t, size_t *head)
{
	*t = share->first + share->from + i / p->rep;
	*head = head_kv * p->rep + i % p->rep;
}

/* n queries of a kv head from i0 on. */
static void
set_up(const struct qwen_batch *b, const struct pass *p,
    const struct qwen_share *share, size_t head_kv, size_t i0, size_t n,
    struct qwen_attn *a)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(b->hp);
	size_t i, t, head;

	a->d = s.d;
	a->k = s.k;
	a->v = s.v;
	a->n_q = n;
	a->block = cache_of(p, share)->block + share->skip;
	a->k_off = qwen_kv_k_at(&s, head_kv) / sizeof(uint16_t);
	a->v_off = qwen_kv_v_at(&s, head_kv) / sizeof(uint16_t);
	for (i = 0; i < n; i++) {
		locate(p, share, head_kv, i0 + i, &t, &head);
		a->q[i] = b->b->in + t * b->b->in_width +
		    head * p->row.q_step;
		a->limit[i] = share->pos + t - share->first + 1;
	}
}

/* The result of query i, and its gate. */
static void
finish(const struct qwen_batch *b, const struct pass *p,
    const struct qwen_share *share, size_t head_kv, size_t i, const float *o,
    float l)
{
	size_t t, head, d = b->hp->n_embd_head;
	float *y;

	locate(p, share, head_kv, i, &t, &head);
	y = b->b->o + t * b->b->o_width + head * d;
	b->vec->attn_finish(y, o, l, d);
	if (qwen_kv_width(b->hp->v) == 0)	/* back from the rotated values */
		b->vec->hadamard(y, d);
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
	    most * (qwen_kv_head_bytes(a->k, a->d) +
	    qwen_kv_head_bytes(a->v, a->d)) / QWEN_KV_BLOCK,
	    2 * keys * a->d);
}

struct item_job {
	struct qwen_batch	*b;
	const struct pass	*p;
	size_t			 many;		/* queries in a group */
};

/* Queries of a kv head that the timeline has. */
static size_t
queries(const struct pass *p, const struct qwen_share *share)
{
	return (share->n - share->from) * p->rep;
}

/* Group g of a kv head: its first query; how many, in n. */
static size_t
group(const struct item_job *j, const struct qwen_share *share, size_t g,
    size_t *n)
{
	size_t i0 = g * j->many, all = queries(j->p, share);

	*n = all - i0 < j->many ? all - i0 : j->many;
	return i0;
}

/* The blocks of a chunk if it has all of them, or NULL. */
static uint16_t *const *
blocks_of(const struct item_job *j, const struct qwen_share *share,
    size_t chunk)
{
	const struct qwen_layer_state *kv = cache_of(j->p, share);
	size_t n = QWEN_ATTN_CHUNK / QWEN_KV_BLOCK;

	return share->skip + (chunk + 1) * n <= kv->n_block ?
	    kv->block + share->skip + chunk * n : NULL;
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
do_group(const struct item_job *j, const struct qwen_share *share, size_t item,
    int thread)
{
	const struct qwen_batch *b = j->b;
	size_t n_kv = b->hp->n_head_kv, head_kv = item % n_kv;
	size_t t, head, i, n, last, d = b->hp->n_embd_head;
	size_t i0 = group(j, share, share->n_group - 1 - item / n_kv, &n);
	float m[QWEN_ATTN_MAX_Q], l[QWEN_ATTN_MAX_Q];
	struct qwen_attn a = { .m = m, .l = l, .work = work_of(b, thread) };

	set_up(b, j->p, share, head_kv, i0, n, &a);
	for (i = 0; i < n; i++) {
		locate(j->p, share, head_kv, i0 + i, &t, &head);
		a.o[i] = b->b->o + t * b->b->o_width + head * d;
	}
	last = (a.limit[n - 1] - 1) / QWEN_ATTN_CHUNK;
	for (a.chunk = 0; a.chunk <= last; a.chunk++) {
		a.merge = a.chunk > 0;
		a.next = a.chunk < last ? blocks_of(j, share, a.chunk + 1) :
		    NULL;
		run_chunk(b, &a, thread);
	}
	for (i = 0; i < n; i++)
		finish(b, j->p, share, head_kv, i0 + i, a.o[i], l[i]);
}

/*
 * Few tokens, long context.  part: a row of d + 2 for each query, of all kv
 * heads, and chunk.
 */
static float *
part_of(const struct item_job *j, const struct qwen_share *share,
    size_t head_kv, size_t i, size_t chunk)
{
	size_t query = head_kv * queries(j->p, share) + i;

	return j->b->b->part + (share->partial + query * share->n_chunk +
	    chunk) * (j->b->hp->n_embd_head + 2);
}

/*
 * Item: a group of queries and one chunk, the groups of a chunk one after the
 * other.  With all threads at work, this one comes back for the item n_threads
 * later.
 */
static void
do_split(const struct item_job *j, const struct qwen_share *share, size_t item,
    int thread)
{
	const struct qwen_batch *b = j->b;
	size_t ng = share->n_group, nt, i, n;
	size_t head_kv = item / ng / share->n_chunk;
	size_t i0 = group(j, share, item % ng, &n);
	size_t d = b->hp->n_embd_head;
	float m[QWEN_ATTN_MAX_Q], l[QWEN_ATTN_MAX_Q];
	struct qwen_attn a = { .m = m, .l = l, .chunk = item / ng % share->n_chunk,
	    .work = work_of(b, thread) };

	set_up(b, j->p, share, head_kv, i0, n, &a);
	nt = (size_t)qwen_pool_threads(b->m->pool);
	i = a.chunk + (nt + ng - 1) / ng;
	a.next = i < share->n_chunk ? blocks_of(j, share, i) : NULL;
	for (i = 0; i < n; i++)
		a.o[i] = part_of(j, share, head_kv, i0 + i, a.chunk);
	run_chunk(b, &a, thread);
	for (i = 0; i < n; i++) {
		a.o[i][d] = m[i];
		a.o[i][d + 1] = l[i];
	}
}

static void
do_item(void *arg, size_t item, int thread)
{
	const struct item_job *j = arg;
	const struct qwen_share *share = j->b->share;
	size_t lo = 0, hi = j->b->n_share, mid;

	/* the last timeline that begins at it or before */
	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (share[mid].item <= item)
			lo = mid;
		else
			hi = mid;
	}
	share += lo;
	if (share->split)
		do_split(j, share, item - share->item, thread);
	else
		do_group(j, share, item - share->item, thread);
}

/* Item: a row's head; the chunks that it sees, in the order of positions. */
static void
do_merge(void *arg, size_t item, int thread)
{
	const struct item_job *j = arg;
	const struct qwen_batch *b = j->b;
	size_t t = item / b->hp->n_head, head = item % b->hp->n_head;
	size_t rep = j->p->rep, d = b->hp->n_embd_head, c, last, i;
	const struct qwen_share *share = qwen_share_of(b, t);
	float *o, *o1;

	(void)thread;
	if (!share->split || t < share->first + share->from)
		return;
	i = (t - share->first - share->from) * rep + head % rep;
	last = (share->pos + t - share->first) / QWEN_ATTN_CHUNK;
	o = part_of(j, share, head / rep, i, 0);
	for (c = 1; c <= last; c++) {
		o1 = part_of(j, share, head / rep, i, c);
		b->vec->attn_merge(o + d, o + d + 1, o, o1[d], o1[d + 1], o1,
		    d);
	}
	finish(b, j->p, share, head / rep, i, o, o[d + 1]);
}

/*
 * As many queries a group as leave each thread some groups; how many there are.
 */
static size_t
make_groups(struct item_job *j, size_t want)
{
	const struct qwen_batch *b = j->b;
	size_t i, n;

	for (j->many = QWEN_ATTN_MAX_Q;; j->many /= 2) {
		for (i = n = 0; i < b->n_share; i++) {
			struct qwen_share *share = &b->share[i];

			share->n_group = (queries(j->p, share) + j->many - 1) /
			    j->many;
			n += share->n_group;
		}
		n *= b->hp->n_head_kv;
		if (j->many <= MIN_GROUP || n >= want)
			return n;
	}
}

/* Groups a thread should have, so that none waits long for another. */
#define GROUPS_A_THREAD 4

/* Chunks of all rows that are taken apart, if one row has not more. */
#define PARTIAL_CHUNKS 512

/*
 * Where groups are few, those of few tokens and several chunks of keys are taken
 * chunk by chunk, as far as there is room for their results.  Returns the number of items; *split: is there any?
 */
static size_t
plan(struct item_job *j, int *split)
{
	struct qwen_batch *b = j->b;
	size_t nt = (size_t)qwen_pool_threads(b->m->pool), partial = 0, i, n;
	size_t want = GROUPS_A_THREAD * nt, items = 0, need;
	int few = make_groups(j, want) < want;

	*split = 0;
	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *s = &b->share[i];

		s->item = items;
		s->n_chunk = (s->pos + s->n + QWEN_ATTN_CHUNK - 1) /
		    QWEN_ATTN_CHUNK;
		need = (s->n - s->from) * b->hp->n_head * s->n_chunk;
		s->split = (few || (b->n_share == 1 && s->n - s->from == 1)) &&
		    nt > 1 && s->n_chunk > 1 &&
		    need <= b->b->cap_partial - partial;
		n = b->hp->n_head_kv * s->n_group;
		items += s->split ? n * s->n_chunk : n;
		s->partial = partial;
		partial += s->split ? need : 0;
		*split |= s->split;
	}
	return items;
}

size_t
qwen_attention_partials(const struct qwen_model *m, size_t n_share, size_t end)
{
	size_t one = (end + QWEN_ATTN_CHUNK - 1) / QWEN_ATTN_CHUNK, n;

	n_share *= QWEN_GUESS_MAX + 1;
	n = n_share < PARTIAL_CHUNKS / one ? n_share * one : PARTIAL_CHUNKS;
	return m->net.hp.n_head * (n > one ? n : one);
}

static void
attend(struct qwen_batch *b, const struct pass *p)
{
	struct item_job j = { .b = b, .p = p };
	size_t n;
	int split;

	n = plan(&j, &split);
	qwen_pool_run(b->m->pool, do_item, &j, n);
	if (split)
		qwen_pool_run(b->m->pool, do_merge, &j, b->n * b->hp->n_head);
}

static void
make_operand(struct qwen_batch *b, void *arg, size_t t)
{
	const struct pass *p = arg;
	const struct qwen_weight *w = &p->l->attn.output;

	if (qwen_is_wanted(b, t) && qwen_wants_operand(w))
		qwen_make_operands(b, b->b->oq, b->b->o_width, t,
		    b->b->o + t * b->b->o_width, w->n_in);
}

/* Keys and values of all rows, queries of those that are wanted. */
static void
project(struct qwen_batch *b, const struct pass *p)
{
	const struct qwen_attention *a = &p->l->attn;
	struct qwen_scratch *s = b->b;
	size_t n_embd = b->hp->n_embd;
	struct qwen_linear lin[3] = {
		{ &a->q, s->in, s->in_width, NULL },
		{ &a->k, s->in + p->row.k, s->in_width, NULL },
		{ &a->v, s->in + p->row.v, s->in_width, NULL },
	};

	if (b->wanted == NULL) {
		qwen_linears(b, lin, 3, s->xn, n_embd, s->xq, NULL, b->n);
		return;
	}
	qwen_linears(b, lin + 1, 2, s->xn, n_embd, s->xq, NULL, b->n);
	qwen_linears(b, lin, 1, s->xn, n_embd, s->xq, b->wanted,
	    b->n_wanted);
}

/* The projections of all rows, before they change. */
static void
trace_projections(const struct qwen_batch *b, const struct pass *p)
{
	const struct qwen_scratch *s = b->b;
	size_t d = b->hp->n_embd_head, layer = p->l->index, t, i;
	const float *x;
	float *q, *gate;

	for (t = 0; t < b->n; t++) {
		q = qwen_trace_at(b, t, QWEN_TRACE_Q, layer, 0);
		gate = qwen_trace_at(b, t, QWEN_TRACE_GATE, layer, 0);
		x = s->in + t * s->in_width;
		for (i = 0; i < b->hp->n_head; i++, x += p->row.q_step) {
			tell(q, i, x, d);
			tell(gate, i, x + d, d);
		}
	}
	qwen_trace_rows(b, QWEN_TRACE_K, layer, s->in + p->row.k, s->in_width);
	qwen_trace_rows(b, QWEN_TRACE_V, layer, s->in + p->row.v, s->in_width);
}

void
qwen_attention_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	const struct qwen_hparams *h = b->hp;
	struct qwen_scratch *s = b->b;
	size_t d = h->n_embd_head;
	_Atomic uint64_t append_ns = 0;
	struct pass p = { .l = l, .rep = h->n_head / h->n_head_kv,
	    .append_ns = &append_ns };
	struct qwen_linear o = { &l->attn.output, s->out, s->out_width, NULL };

	p.row.q_step = l->attn.gated ? 2 * d : d;
	p.row.k = h->n_head * p.row.q_step;
	p.row.v = p.row.k + h->n_head_kv * d;
	project(b, &p);
	if (b->trace)
		trace_projections(b, &p);
	/* turned where they are; into the cache */
	qwen_each_token(b, QWEN_STAGE_ATTN_PREPARE, prepare, &p,
	    2 * (p.row.v + h->n_head_kv * d));
	qwen_profile_move(&b->m->profile, QWEN_STAGE_ATTN_PREPARE,
	    QWEN_STAGE_KV_APPEND, b->n, append_ns, b->n * h->n_head_kv *
	    (qwen_kv_head_bytes(h->k, d) + qwen_kv_head_bytes(h->v, d)) /
	    QWEN_KV_BLOCK);
	if (b->n_wanted == 0)
		return;
	if (b->trace)
		qwen_trace_probs(b, l, p.row.q_step);
	attend(b, &p);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_ATTN_OUT, l->index, s->o,
		    s->o_width);
	qwen_each_token(b, QWEN_STAGE_ATTN_PREPARE, make_operand, &p,
	    h->n_head * d);
	qwen_linears(b, &o, 1, s->o, s->o_width, s->oq, b->wanted,
	    b->n_wanted);
}
