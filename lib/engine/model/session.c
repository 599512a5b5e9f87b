/* SPDX-License-Identifier: ISC */
/* session.c - one timeline: its tokens, KV cache and recurrent state. */
#include <sys/mman.h>

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/forward.h"
#include "engine/model/trace.h"

/*
 * One piece for the recurrent state of all layers, zeroed by the system page by
 * page as it is touched: it is the greater part of the memory that a short run
 * needs, and is not to be paid for before the first token.
 */
static int
map_recurrent(struct qwen_session *s)
{
	s->recurrent_bytes = s->cache->state_bytes;
	if (s->recurrent_bytes == 0)
		return 0;
	s->recurrent = qwen_map_zero(s->recurrent_bytes);
	if (s->recurrent == NULL)
		return -1;
	qwen_layer_states_place(s->layer, s->n_layer, s->recurrent);
	return 0;
}

int
qwen_session_new_in(struct qwen_session **out, struct qwen_cache *c,
    struct qwen_err *err)
{
	struct qwen_model *m = c->model;
	struct qwen_session *s;
	size_t i;

	*out = NULL;
	if (qwen_cache_check(c, 0, 1, err) < 0)
		return -1;
	if ((s = qwen_alloc(1, sizeof *s)) == NULL)
		return qwen_oom(err);
	s->model = m;
	s->cache = c;
	c->refs++;
	c->n_state++;
	s->n_layer = qwen_model_n_state(m);
	s->layer = qwen_alloc(s->n_layer, sizeof *s->layer);
	s->logits = qwen_alloc(m->net.hp.n_vocab, sizeof *s->logits);
	s->own_logits = s->logits;
	if (s->layer == NULL || s->logits == NULL)
		goto nomem;
	for (i = 0; i < s->n_layer; i++)
		qwen_layer_state_init(&s->layer[i], &m->net.hp, i);
	if (map_recurrent(s) < 0)
		goto nomem;
	if (m->net.mtp.on && (s->mtp.hidden = qwen_alloc_large(
	    QWEN_HIDDEN_ROWS * m->net.hp.n_embd, sizeof *s->mtp.hidden)) == NULL)
		goto nomem;
	*out = s;
	return 0;
nomem:
	qwen_session_free(s);
	return qwen_oom(err);
}

int
qwen_session_new(struct qwen_session **out, struct qwen_model *m,
    struct qwen_err *err)
{
	struct qwen_cache *c;
	int rc;

	*out = NULL;
	if (qwen_cache_new(&c, m, 0, err) < 0)
		return -1;
	rc = qwen_session_new_in(out, c, err);
	qwen_cache_free(c);
	return rc;
}

/* Blocks in mapped files are not ours. */
void
qwen_session_trim(struct qwen_session *s, size_t n)
{
	size_t i;

	while (s->n_slot > n)
		qwen_cache_drop(s->cache, s->slot[--s->n_slot]);
	for (i = 0; s->layer != NULL && i < s->n_layer; i++) {
		if (s->layer[i].n_block > n)
			s->layer[i].n_block = n;
	}
}

/* The last one unmaps. */
static void
drop_mappings(struct qwen_session *s)
{
	struct qwen_mapping *m;

	while (s->n_mapping > 0) {
		m = &s->mapping[--s->n_mapping];
		if (m->refs != NULL && --*m->refs > 0)
			continue;
		free(m->refs);
		munmap(m->p, m->bytes);
	}
}

void
qwen_session_free(struct qwen_session *s)
{
	size_t i;

	if (s == NULL)
		return;
	qwen_session_trim(s, 0);
	for (i = 0; s->layer != NULL && i < s->n_layer; i++)
		free(s->layer[i].block);
	free(s->slot);
	drop_mappings(s);
	free(s->mapping);
	qwen_session_drop_kept(s);
	free(s->kept);
	qwen_ahead_free(s->ahead);
	qwen_journal_free(s->journal, s->recurrent_bytes);
	qwen_unmap(s->recurrent, s->recurrent_bytes);
	s->cache->n_state--;
	qwen_cache_free(s->cache);
	free(s->layer);
	free(s->own_logits);
	free(s->mtp.hidden);
	qwen_tracing_free(s->tracing);
	free(s->tokens);
	free(s);
}

struct qwen_model *
qwen_session_model(const struct qwen_session *s)
{
	return s->model;
}

size_t
qwen_session_n_tokens(const struct qwen_session *s)
{
	return s->n_tokens;
}

const int32_t *
qwen_session_tokens(const struct qwen_session *s)
{
	return s->tokens;
}

const float *
qwen_session_logits(const struct qwen_session *s)
{
	return s->have_logits ? s->logits : NULL;
}

/* ----------------------------------------------------------- what is inside */

static size_t
block_bytes(const struct qwen_session *s)
{
	struct qwen_kv_shape shape = qwen_kv_shape_of(&s->model->net.hp);

	return qwen_kv_block_bytes(&shape);
}

struct qwen_view
qwen_session_view(const struct qwen_session *s)
{
	qwen_ahead_catch_up(s);
	return (struct qwen_view){
		.kv_bytes = block_bytes(s),
		.recurrent = s->recurrent,
		.recurrent_bytes = s->recurrent_bytes, .row = s->logits,
		.end_named = s->keep_end > 1,
	};
}

void
qwen_session_shape(const struct qwen_session *s, size_t layer,
    struct qwen_state_layer *out)
{
	const struct qwen_hparams *h = &s->model->net.hp;

	if (s->layer[layer].kv_block_bytes != 0)
		*out = (struct qwen_state_layer){ .kv = 1,
		    .n = { h->n_head_kv, h->n_embd_head, h->k, h->v } };
	else
		*out = (struct qwen_state_layer){ .n = { h->n_head_v, h->dk,
		    h->dv, h->conv_kernel - 1,
		    2 * h->n_head_k * h->dk + h->n_head_v * h->dv } };
}

uint16_t **
qwen_session_kv(const struct qwen_session *s, size_t layer, size_t b)
{
	assert(b < s->layer[layer].n_block);
	return &s->layer[layer].block[b];
}

int
qwen_session_add_mapping(struct qwen_session *s, void *p, size_t bytes)
{
	if (qwen_grow(&s->mapping, &s->cap_mapping, s->n_mapping + 1,
	    sizeof *s->mapping) < 0)
		return -1;
	s->mapping[s->n_mapping++] = (struct qwen_mapping){ .p = p,
	    .bytes = bytes };
	return 0;
}

size_t
qwen_session_recurrent_at(const struct qwen_session *s, size_t layer, int conv)
{
	const struct qwen_layer_state *l = &s->layer[layer];

	assert(l->s != NULL || l->conv != NULL);
	return (size_t)((const char *)(conv ? l->conv : l->s) -
	    (const char *)s->recurrent);
}

int
qwen_session_settle(struct qwen_session *s, const struct qwen_settled *end,
    struct qwen_err *err)
{
	if (qwen_session_cut_cache(s, end->n_tokens, err) < 0)
		return -1;
	free(s->tokens);
	s->tokens = end->tokens;
	s->n_tokens = s->cap_tokens = end->n_tokens;
	qwen_mtp_cut(s, s->n_tokens);
	s->have_logits = end->logits;
	qwen_session_keep(s, end->named, NULL);
	if (end->src != NULL) {
		s->end.src = qwen_source_ref(end->src);
		s->end.c.at = end->n_tokens;
		s->end.c.logits = end->logits;
	}
	return 0;
}

/* --------------------------------------------------------------- the blocks */

static size_t
blocks_for(size_t n)
{
	return n / QWEN_KV_BLOCK + (n % QWEN_KV_BLOCK != 0);
}

/* Room in the lists of blocks. */
static int
grow_lists(struct qwen_session *s, size_t n)
{
	size_t i, cap;

	/* all are as long, the slots' last, which say how long */
	for (i = 0; i < s->n_layer; i++) {
		cap = s->cap_slot;
		if (s->layer[i].kv_block_bytes != 0 &&
		    qwen_grow(&s->layer[i].block, &cap, n,
		    sizeof *s->layer[i].block) < 0)
			return -1;
	}
	return qwen_grow(&s->slot, &s->cap_slot, n, sizeof *s->slot);
}

/* The block of each layer at b is in the slot. */
static void
place(struct qwen_session *s, size_t b, struct qwen_kv_slot *slot)
{
	char *p = slot->data;
	size_t i;

	s->slot[b] = slot;
	for (i = 0; i < s->n_layer; i++) {
		if (s->layer[i].kv_block_bytes == 0)
			continue;
		s->layer[i].block[b] = (uint16_t *)(void *)p;
		p += s->layer[i].kv_block_bytes;
	}
}

int
qwen_session_grow(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	size_t i;

	if (s->cache->block_bytes == 0 || n <= s->n_slot)
		return 0;
	if (qwen_cache_prepare(s->cache, n - s->n_slot, err) < 0)
		return -1;
	if (grow_lists(s, n) < 0)
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for the state of %zu tokens",
		    n * QWEN_KV_BLOCK);
	while (s->n_slot < n) {
		place(s, s->n_slot, qwen_cache_take(s->cache));
		s->n_slot++;
	}
	for (i = 0; i < s->n_layer; i++) {
		if (s->layer[i].kv_block_bytes != 0)
			s->layer[i].n_block = n;
	}
	return 0;
}

/*
 * Nobody else sees what is written to the blocks at b from now on; a slot for
 * a copy is free if it is needed.  A mapping of a file is private.
 */
static void
own_block(struct qwen_session *s, size_t b)
{
	struct qwen_kv_slot *old = s->slot[b], *new;
	char *to;
	size_t i;

	assert(b < s->n_slot && old->refs > 0);
	if (old->refs == 1)
		return;
	new = qwen_cache_take(s->cache);
	for (i = 0, to = new->data; i < s->n_layer; i++) {
		const struct qwen_layer_state *l = &s->layer[i];

		if (l->kv_block_bytes != 0)
			memcpy(to, l->block[b], l->kv_block_bytes);
		to += l->kv_block_bytes;
	}
	place(s, b, new);
	qwen_cache_drop(s->cache, old);
}

size_t
qwen_session_slots(const struct qwen_session *s, size_t n)
{
	size_t b, end = blocks_for(s->n_tokens + n), need = 0;

	if (s->cache->block_bytes == 0)
		return 0;
	for (b = qwen_session_first_written(s); b < end && b < s->n_slot; b++)
		need += s->slot[b]->refs > 1;
	return need + (end > s->n_slot ? end - s->n_slot : 0);
}

static int
grow_tokens(struct qwen_session *s, size_t n)
{
	/* with some to spare: decoding does not come here often */
	return n <= s->cap_tokens ? 0 : qwen_grow(&s->tokens, &s->cap_tokens,
	    n + 256, sizeof *s->tokens);
}

int
qwen_session_reserve(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	size_t b, need;

	if (n > s->model->net.hp.n_ctx)
		return qwen_fail(err, QWEN_ERANGE,
		    "%zu tokens exceed the model's context of %zu", n,
		    s->model->net.hp.n_ctx);
	if (n < s->n_tokens)
		return 0;
	need = qwen_session_slots(s, n - s->n_tokens);
	if (qwen_cache_check(s->cache, need, 0, err) < 0 ||
	    (need > 0 && qwen_cache_prepare(s->cache, need, err) < 0))
		return -1;
	if (grow_tokens(s, n) < 0)
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for the state of %zu tokens", n);
	for (b = qwen_session_first_written(s); b < s->n_slot &&
	    b < blocks_for(n); b++)
		own_block(s, b);
	if (qwen_session_grow(s, blocks_for(n), err) < 0)
		return -1;
	assert(s->cache->block_bytes == 0 || s->n_slot >= blocks_for(n));
	return 0;
}

void
qwen_session_clear(struct qwen_session *s)
{
	qwen_ahead_forget(s);
	qwen_session_trim(s, 0);
	if (s->recurrent != NULL)
		memset(s->recurrent, 0, s->recurrent_bytes);
	qwen_session_drop_kept(s);
	s->n_tokens = 0;
	s->have_logits = s->converted = 0;
	qwen_mtp_cut(s, 0);
}

int
qwen_session_cut_cache(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	struct qwen_kv_shape shape = qwen_kv_shape_of(&s->model->net.hp);
	size_t i, used = n % QWEN_KV_BLOCK, blocks = blocks_for(n);

	if (used > 0 && s->n_slot >= blocks) {
		if (s->slot[blocks - 1]->refs > 1 &&
		    (qwen_cache_check(s->cache, 1, 0, err) < 0 ||
		    qwen_cache_prepare(s->cache, 1, err) < 0))
			return -1;
		own_block(s, blocks - 1);
	}
	qwen_ahead_forget(s);
	qwen_session_trim(s, blocks);
	for (i = 0; used > 0 && i < s->n_layer; i++) {
		struct qwen_layer_state *l = &s->layer[i];

		if (l->kv_block_bytes != 0 && l->n_block == blocks)
			qwen_kv_clear(&shape, l->block[blocks - 1],
			    used, QWEN_KV_BLOCK);
	}
	return 0;
}

struct copy {
	char		*dst;
	const char	*src;
	size_t		 n;
};

enum { COPY_BYTES = 1 << 20 };	/* by one thread at a time */

static void
copy_part(void *arg, size_t item, int thread)
{
	const struct copy *c = arg;
	size_t at = item * COPY_BYTES;

	(void)thread;
	memcpy(c->dst + at, c->src + at,
	    c->n - at < COPY_BYTES ? c->n - at : COPY_BYTES);
}

void
qwen_session_copy_recurrent(const struct qwen_session *s, void *dst,
    const void *src)
{
	struct copy c = { dst, src, s->recurrent_bytes };

	if (c.n > COPY_BYTES)
		qwen_pool_run(s->model->pool, copy_part, &c,
		    (c.n + COPY_BYTES - 1) / COPY_BYTES);
	else if (c.n > 0)
		memcpy(dst, src, c.n);
}

/* ------------------------------------------------------------------ forking */

/* The files stay mapped for as long as one of the two lives. */
static int
share_mappings(struct qwen_session *to, const struct qwen_session *from)
{
	size_t i;

	if (from->n_mapping == 0)
		return 0;
	if (qwen_grow(&to->mapping, &to->cap_mapping, from->n_mapping,
	    sizeof *to->mapping) < 0)
		return -1;
	for (i = 0; i < from->n_mapping; i++) {
		struct qwen_mapping *m = &from->mapping[i];

		if (m->refs == NULL) {
			if ((m->refs = qwen_alloc(1, sizeof *m->refs)) == NULL)
				return -1;
			*m->refs = 1;
		}
		++*m->refs;
		to->mapping[to->n_mapping++] = *m;
	}
	return 0;
}

static int
share_blocks(struct qwen_session *to, const struct qwen_session *from)
{
	size_t i, n = blocks_for(from->n_tokens);

	if (to->cache->block_bytes == 0 || n == 0)
		return 0;
	if (share_mappings(to, from) < 0 || grow_lists(to, n) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		to->slot[i] = from->slot[i];
		to->slot[i]->refs++;
	}
	to->n_slot = n;
	for (i = 0; i < to->n_layer; i++) {
		if (to->layer[i].kv_block_bytes == 0)
			continue;
		memcpy(to->layer[i].block, from->layer[i].block,
		    n * sizeof *to->layer[i].block);
		to->layer[i].n_block = n;
	}
	return 0;
}

struct block_copy {
	struct qwen_session		*to;
	const struct qwen_session	*from;
};

static void
copy_block(void *arg, size_t b, int thread)
{
	const struct block_copy *c = arg;
	size_t i;

	(void)thread;
	for (i = 0; i < c->to->n_layer; i++) {
		const struct qwen_layer_state *l = &c->from->layer[i];

		if (l->kv_block_bytes != 0)
			memcpy(c->to->layer[i].block[b], l->block[b],
			    l->kv_block_bytes);
	}
}

static int
copy_blocks(struct qwen_session *to, const struct qwen_session *from,
    struct qwen_err *err)
{
	struct block_copy c = { to, from };

	if (qwen_session_reserve(to, from->n_tokens, err) < 0)
		return -1;
	qwen_pool_run(to->model->pool, copy_block, &c, to->n_slot);
	return 0;
}

/* All but the blocks. */
static int
copy_rest(struct qwen_session *to, const struct qwen_session *from)
{
	if (grow_tokens(to, from->n_tokens) < 0)
		return -1;
	if (from->n_tokens > 0) {
		memcpy(to->tokens, from->tokens,
		    from->n_tokens * sizeof *to->tokens);
		qwen_session_copy_recurrent(from, to->recurrent,
		    from->recurrent);
	}
	if (from->have_logits)
		memcpy(to->logits, from->logits,
		    from->model->net.hp.n_vocab * sizeof *to->logits);
	qwen_mtp_copy(to, from);
	to->n_tokens = from->n_tokens;
	to->have_logits = from->have_logits;
	to->converted = from->converted;
	return 0;
}

int
qwen_session_converted(const struct qwen_session *s)
{
	return s->converted;
}

void
qwen_session_set_converted(struct qwen_session *s)
{
	s->converted = 1;
}

int
qwen_session_fork_in(struct qwen_session **out, struct qwen_cache *c,
    const struct qwen_session *s, struct qwen_err *err)
{
	struct qwen_session *to;
	int rc;

	*out = NULL;
	if (c->model != s->model)
		return qwen_fail(err, QWEN_EMISMATCH,
		    "the cache belongs to another model");
	qwen_ahead_hide(s);
	if (qwen_session_new_in(&to, c, err) < 0)
		return -1;
	if (c != s->cache)
		rc = copy_blocks(to, s, err);
	else if ((rc = share_blocks(to, s)) < 0)
		qwen_oom(err);
	if (rc == 0 && (rc = copy_rest(to, s)) < 0)
		qwen_oom(err);
	if (rc < 0) {
		qwen_session_free(to);
		return -1;
	}
	*out = to;
	return 0;
}

int
qwen_session_fork(struct qwen_session **out, const struct qwen_session *s,
    struct qwen_err *err)
{
	return qwen_session_fork_in(out, s->cache, s, err);
}
