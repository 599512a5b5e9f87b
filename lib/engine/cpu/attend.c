/* SPDX-License-Identifier: ISC */
/*
 * attend.c - attention's queries, shared out over threads.  The queries that share
 * a key-value head are numbered row by row.  A task is a group of them, which goes
 * through its chunks of keys one after the other; or, where tasks would be few, a
 * group and one chunk, and the results of the chunks are merged at the end.
 */
#include "engine/cpu/attention.h"

#define MIN_GROUP 8		/* queries that go through a chunk at once */

/* Groups a thread should have, so that none waits long for another. */
#define GROUPS_A_THREAD 4

/* Chunks of all rows that are taken apart, if one row has not more. */
#define PARTIAL_CHUNKS 512

struct job {
	const struct qwen_batch			*b;
	const struct qwen_attention_pass	*p;
	size_t					 many;	/* queries of a group */
};

/* Finds the row and the head of query i of a key-value head of a share. */
static void
locate(const struct job *j, const struct qwen_attend *at, size_t head_kv,
    size_t i, size_t *t, size_t *head)
{
	*t = at->row + i / j->p->rep;
	*head = head_kv * j->p->rep + i % j->p->rep;
}

static const struct qwen_layer_state *
cache_of(const struct job *j, const struct qwen_attend *at)
{
	return &at->share->mem->layer[j->p->l->index];
}

/* Describes n queries of a key-value head, from query i0 on, to the kernel. */
static void
set_up(const struct job *j, const struct qwen_attend *at, size_t head_kv,
    size_t i0, size_t n, struct qwen_attn *a)
{
	const struct qwen_batch *b = j->b;
	struct qwen_kv_shape s = qwen_kv_shape_of(b->hp);
	size_t i, t, head;

	a->d = s.d;
	a->k = s.k;
	a->v = s.v;
	a->n_q = n;
	a->block = cache_of(j, at)->block + at->share->skip;
	a->k_off = qwen_kv_k_at(&s, head_kv) / sizeof(uint16_t);
	a->v_off = qwen_kv_v_at(&s, head_kv) / sizeof(uint16_t);
	for (i = 0; i < n; i++) {
		locate(j, at, head_kv, i0 + i, &t, &head);
		a->q[i] = b->s->mix.in + t * b->s->mix.in_width +
		    head * j->p->q_step;
		a->limit[i] = b->pass->row[t].slot + 1;
	}
}

/* Writes the result of query i, from o and l, and applies its gate. */
static void
finish(const struct job *j, const struct qwen_attend *at, size_t head_kv,
    size_t i, const float *o, float l)
{
	const struct qwen_batch *b = j->b;
	size_t t, head, d = b->hp->n_embd_head;
	float *y;

	locate(j, at, head_kv, i, &t, &head);
	y = b->s->mix.o + t * b->s->mix.o_width + head * d;
	b->vec->attn_finish(y, o, l, d);
	if (qwen_kv_width(b->hp->v) == 0)	/* back from the rotated values */
		b->vec->hadamard(y, d);
	if (j->p->l->attn.gated)
		b->vec->gate(y, b->s->mix.in + t * b->s->mix.in_width +
		    head * j->p->q_step + d, d);
}

/* Calls the kernel, and counts the call. */
static void
run_chunk(const struct qwen_batch *b, const struct qwen_attn *a, int thread)
{
	struct qwen_profile *profile = &b->cpu->profile;
	uint64_t begin = qwen_profile_begin(profile);
	size_t i, first = a->chunk * QWEN_ATTN_CHUNK, keys = 0, most = 0, n;

	b->cpu->kernels.attn->run.attn(a);
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

/* Returns the first query of group g of a key-value head; *n: how many. */
static size_t
find_group(const struct job *j, const struct qwen_attend *at, size_t g,
    size_t *n)
{
	size_t i0 = g * j->many;

	*n = at->n_query - i0 < j->many ? at->n_query - i0 : j->many;
	return i0;
}

/* Returns the blocks of a chunk; NULL if the session lacks some of them. */
static uint16_t *const *
blocks_of(const struct job *j, const struct qwen_attend *at, size_t chunk)
{
	const struct qwen_layer_state *kv = cache_of(j, at);
	size_t n = QWEN_ATTN_CHUNK / QWEN_KV_BLOCK, skip = at->share->skip;

	return skip + (chunk + 1) * n <= kv->n_block ?
	    kv->block + skip + chunk * n : NULL;
}

static float *
work_of(const struct qwen_batch *b, int thread)
{
	return b->s->thread.tile + (size_t)thread *
	    QWEN_ATTN_WORK(b->hp->n_embd_head);
}

/*
 * Computes a group with all its chunks. The last rows, which see the most, come
 * first.
 */
static void
do_group(const struct job *j, const struct qwen_attend *at, size_t item,
    int thread)
{
	const struct qwen_batch *b = j->b;
	size_t n_kv = b->hp->n_head_kv, head_kv = item % n_kv;
	size_t t, head, i, n, last, d = b->hp->n_embd_head;
	size_t i0 = find_group(j, at, at->n_group - 1 - item / n_kv, &n);
	float m[QWEN_ATTN_MAX_Q], l[QWEN_ATTN_MAX_Q];
	struct qwen_attn a = { .m = m, .l = l, .work = work_of(b, thread) };

	set_up(j, at, head_kv, i0, n, &a);
	for (i = 0; i < n; i++) {
		locate(j, at, head_kv, i0 + i, &t, &head);
		a.o[i] = b->s->mix.o + t * b->s->mix.o_width + head * d;
	}
	last = (a.limit[n - 1] - 1) / QWEN_ATTN_CHUNK;
	for (a.chunk = 0; a.chunk <= last; a.chunk++) {
		a.merge = a.chunk > 0;
		a.next = a.chunk < last ? blocks_of(j, at, a.chunk + 1) : NULL;
		run_chunk(b, &a, thread);
	}
	for (i = 0; i < n; i++)
		finish(j, at, head_kv, i0 + i, a.o[i], l[i]);
}

/* Returns where the result of a query and chunk is: o, then m and l. */
static float *
part_of(const struct job *j, const struct qwen_attend *at, size_t head_kv,
    size_t i, size_t chunk)
{
	size_t query = head_kv * at->n_query + i;

	return j->b->s->attn.part + (at->partial + query * at->n_chunk +
	    chunk) * (j->b->hp->n_embd_head + 2);
}

/*
 * Computes a group and one chunk; the groups of a chunk follow one another.
 * With all threads at work, this thread's next item is n_threads later.
 */
static void
do_split(const struct job *j, const struct qwen_attend *at, size_t item,
    int thread)
{
	const struct qwen_batch *b = j->b;
	size_t ng = at->n_group, nt, i, n;
	size_t head_kv = item / ng / at->n_chunk;
	size_t i0 = find_group(j, at, item % ng, &n);
	size_t d = b->hp->n_embd_head;
	float m[QWEN_ATTN_MAX_Q], l[QWEN_ATTN_MAX_Q];
	struct qwen_attn a = { .m = m, .l = l,
	    .chunk = item / ng % at->n_chunk, .work = work_of(b, thread) };

	set_up(j, at, head_kv, i0, n, &a);
	nt = (size_t)qwen_pool_threads(b->cpu->pool);
	i = a.chunk + (nt + ng - 1) / ng;
	a.next = i < at->n_chunk ? blocks_of(j, at, i) : NULL;
	for (i = 0; i < n; i++)
		a.o[i] = part_of(j, at, head_kv, i0 + i, a.chunk);
	run_chunk(b, &a, thread);
	for (i = 0; i < n; i++) {
		a.o[i][d] = m[i];
		a.o[i][d + 1] = l[i];
	}
}

static void
do_item(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	const struct qwen_attend *at = j->b->s->attn.share;
	size_t lo = 0, hi = j->b->pass->n_share, mid;

	/* the last share that begins at it or before */
	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (at[mid].item <= item)
			lo = mid;
		else
			hi = mid;
	}
	at += lo;
	if (at->split)
		do_split(j, at, item - at->item, thread);
	else
		do_group(j, at, item - at->item, thread);
}

/* Item: a row's head; merges its chunks in the order of positions. */
static void
do_merge(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	const struct qwen_batch *b = j->b;
	size_t t = item / b->hp->n_head, head = item % b->hp->n_head;
	size_t rep = j->p->rep, d = b->hp->n_embd_head, c, last, i;
	const struct qwen_attend *at = &b->s->attn.share[b->pass->owner[t]];
	float *o, *o1;

	(void)thread;
	if (!at->split || t < at->row)
		return;
	i = (t - at->row) * rep + head % rep;
	last = b->pass->row[t].slot / QWEN_ATTN_CHUNK;
	o = part_of(j, at, head / rep, i, 0);
	for (c = 1; c <= last; c++) {
		o1 = part_of(j, at, head / rep, i, c);
		b->vec->attn_merge(o + d, o + d + 1, o, o1[d], o1[d + 1], o1,
		    d);
	}
	finish(j, at, head / rep, i, o, o[d + 1]);
}

/* Chooses groups as large as leaves each thread some; returns their number. */
static size_t
make_groups(struct job *j, size_t want)
{
	const struct qwen_batch *b = j->b;
	size_t i, n;

	for (j->many = QWEN_ATTN_MAX_Q;; j->many /= 2) {
		for (i = n = 0; i < b->pass->n_share; i++) {
			struct qwen_attend *at = &b->s->attn.share[i];

			at->n_group = (at->n_query + j->many - 1) / j->many;
			n += at->n_group;
		}
		n *= b->hp->n_head_kv;
		if (j->many <= MIN_GROUP || n >= want)
			return n;
	}
}

/*
 * Plans the items.  Where groups are few, those of few rows and several chunks
 * are split by chunk, as far as there is room for the results.  Returns the number
 * of items; *split is 1 if any is split.
 */
static size_t
plan(struct job *j, int *split)
{
	const struct qwen_batch *b = j->b;
	size_t nt = (size_t)qwen_pool_threads(b->cpu->pool), partial = 0, i, n;
	size_t want = GROUPS_A_THREAD * nt, items = 0, rows, need;
	size_t n_share = b->pass->n_share;
	int few;

	for (i = 0; i < n_share; i++) {
		const struct qwen_share *s = &b->share[i];
		struct qwen_attend *at = &b->s->attn.share[i];

		at->share = s;
		at->row = s->first + qwen_from(b, s);
		at->n_query = (s->n - qwen_from(b, s)) * j->p->rep;
		at->n_chunk = (s->pos + s->n + QWEN_ATTN_CHUNK - 1) /
		    QWEN_ATTN_CHUNK;
	}
	few = make_groups(j, want) < want;
	*split = 0;
	for (i = 0; i < n_share; i++) {
		struct qwen_attend *at = &b->s->attn.share[i];

		rows = at->n_query / j->p->rep;
		need = rows * b->hp->n_head * at->n_chunk;
		at->item = items;
		at->split = (few || (n_share == 1 && rows == 1)) && nt > 1 &&
		    at->n_chunk > 1 && need <= b->s->attn.cap_part - partial;
		n = b->hp->n_head_kv * at->n_group;
		items += at->split ? n * at->n_chunk : n;
		at->partial = partial;
		partial += at->split ? need : 0;
		*split |= at->split;
	}
	return items;
}

size_t
qwen_attention_partials(const struct qwen_hparams *h, size_t n_share,
    size_t end)
{
	size_t one = (end + QWEN_ATTN_CHUNK - 1) / QWEN_ATTN_CHUNK, n;

	n_share *= QWEN_GUESS_MAX + 1;
	n = n_share < PARTIAL_CHUNKS / one ? n_share * one : PARTIAL_CHUNKS;
	return h->n_head * (n > one ? n : one);
}

void
qwen_attend(struct qwen_batch *b, const struct qwen_attention_pass *p)
{
	struct job j = { .b = b, .p = p };
	size_t n;
	int split;

	n = plan(&j, &split);
	qwen_pool_run(b->cpu->pool, do_item, &j, n);
	if (split)
		qwen_pool_run(b->cpu->pool, do_merge, &j, b->n * b->hp->n_head);
}
