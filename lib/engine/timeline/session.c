/* SPDX-License-Identifier: ISC */
/* session.c - one timeline: its tokens, KV cache and recurrent state. */
#include <sys/mman.h>

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/timeline.h"
#include "engine/watch/trace.h"

/*
 * One piece for the recurrent state of all layers, zeroed by the system page by
 * page as it is touched: it is the greater part of the memory that a short run
 * needs, and is not to be paid for before the first token.
 */
static int
map_recurrent(struct qwen_session *s)
{
	s->mem.recurrent_bytes = s->cache->state_bytes;
	if (s->mem.recurrent_bytes == 0)
		return 0;
	s->mem.recurrent = qwen_map_zero(s->mem.recurrent_bytes);
	if (s->mem.recurrent == NULL)
		return -1;
	qwen_layer_states_place(s->mem.layer, s->mem.n_layer, s->mem.recurrent);
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
	s->next = c->sessions;
	c->sessions = s;
	s->mem.n_layer = qwen_n_state(&m->net);
	s->mem.layer = qwen_alloc(s->mem.n_layer, sizeof *s->mem.layer);
	s->logits = qwen_alloc(m->net.hp.n_vocab, sizeof *s->logits);
	s->own_logits = s->logits;
	if (s->mem.layer == NULL || s->logits == NULL)
		goto nomem;
	for (i = 0; i < s->mem.n_layer; i++)
		qwen_layer_state_init(&s->mem.layer[i], &m->net.hp, i);
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
	struct qwen_session **p;
	size_t i;

	if (s == NULL)
		return;
	for (p = &s->cache->sessions; *p != s;)
		p = &(*p)->next;
	*p = s->next;
	qwen_memory_drop(s);
	qwen_session_trim(s, 0);
	for (i = 0; s->mem.layer != NULL && i < s->mem.n_layer; i++)
		free(s->mem.layer[i].block);
	free(s->mem.slot);
	drop_mappings(s);
	free(s->mapping);
	qwen_session_drop_kept(s);
	free(s->kept);
	qwen_ahead_free(s->ahead);
	qwen_journal_free(s->mem.journal);
	qwen_unmap(s->mem.recurrent, s->mem.recurrent_bytes);
	s->cache->n_state--;
	qwen_cache_free(s->cache);
	free(s->mem.layer);
	free(s->own_logits);
	free(s->mtp.hidden);
	qwen_tracing_free(s->tracing);
	qwen_spans_drop(s);
	free(s->rows);
	free(s->tokens);
	free(s->span);
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
	qwen_state_fetch(s);
	return (struct qwen_view){
		.kv_bytes = block_bytes(s),
		.recurrent = s->mem.recurrent,
		.recurrent_bytes = s->mem.recurrent_bytes, .row = s->logits,
		.end_named = s->keep_end > 1,
	};
}

void
qwen_session_shape(const struct qwen_session *s, size_t layer,
    struct qwen_state_layer *out)
{
	const struct qwen_hparams *h = &s->model->net.hp;

	if (s->mem.layer[layer].kv_block_bytes != 0)
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
	assert(b < s->mem.layer[layer].n_block);
	qwen_block_fetch(s, b);
	return &s->mem.layer[layer].block[b];
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
	const struct qwen_layer_state *l = &s->mem.layer[layer];

	assert(l->s != NULL || l->conv != NULL);
	return (size_t)((const char *)(conv ? l->conv : l->s) -
	    (const char *)s->mem.recurrent);
}

void
qwen_session_clear(struct qwen_session *s)
{
	qwen_ahead_forget(s);
	qwen_session_trim(s, 0);
	if (s->mem.recurrent != NULL)
		memset(s->mem.recurrent, 0, s->mem.recurrent_bytes);
	qwen_state_changed(s);
	qwen_session_drop_kept(s);
	qwen_spans_drop(s);
	s->n_tokens = s->n_span = 0;
	s->have_logits = s->converted = s->lost = 0;
	qwen_mtp_cut(s, 0);
}

int
qwen_session_settle(struct qwen_session *s, const struct qwen_settled *end,
    struct qwen_err *err)
{
	if (qwen_spans_set(s, end->span, end->n_span) < 0)
		return qwen_oom(err);
	if (qwen_session_cut_cache(s, end->n_tokens, err) < 0)
		return -1;
	qwen_blocks_changed(s);
	qwen_state_changed(s);
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
	size_t i, n = (from->n_tokens + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;

	if (to->cache->block_bytes == 0 || n == 0)
		return 0;
	if (share_mappings(to, from) < 0 || qwen_blocks_grow_lists(to, n) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		to->mem.slot[i] = from->mem.slot[i];
		to->mem.slot[i]->refs++;
	}
	to->mem.n_slot = n;
	for (i = 0; i < to->mem.n_layer; i++) {
		if (to->mem.layer[i].kv_block_bytes == 0)
			continue;
		memcpy(to->mem.layer[i].block, from->mem.layer[i].block,
		    n * sizeof *to->mem.layer[i].block);
		to->mem.layer[i].n_block = n;
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
	for (i = 0; i < c->to->mem.n_layer; i++) {
		const struct qwen_layer_state *l = &c->from->mem.layer[i];

		if (l->kv_block_bytes != 0)
			memcpy(c->to->mem.layer[i].block[b], l->block[b],
			    l->kv_block_bytes);
	}
}

static int
copy_blocks(struct qwen_session *to, const struct qwen_session *from,
    struct qwen_err *err)
{
	struct block_copy c = { to, from };

	size_t b;

	if (qwen_session_reserve(to, from->n_tokens, err) < 0)
		return -1;
	for (b = 0; b < to->mem.n_slot; b++)
		qwen_block_fetch(from, b);
	qwen_pool_run(to->model->place.pool, copy_block, &c, to->mem.n_slot);
	return 0;
}

/* All but the blocks. */
static int
copy_rest(struct qwen_session *to, const struct qwen_session *from)
{
	const struct qwen_span *span;
	size_t n_span;

	span = qwen_session_spans(from, &n_span);
	if (qwen_session_grow_tokens(to, from->n_tokens) < 0 ||
	    qwen_spans_set(to, span, n_span) < 0)
		return -1;
	if (from->n_tokens > 0) {
		memcpy(to->tokens, from->tokens,
		    from->n_tokens * sizeof *to->tokens);
		qwen_state_fetch(from);
		qwen_session_copy_recurrent(from, to->mem.recurrent,
		    from->mem.recurrent);
	}
	if (from->have_logits)
		memcpy(to->logits, from->logits,
		    from->model->net.hp.n_vocab * sizeof *to->logits);
	qwen_mtp_copy(to, from);
	qwen_spans_copy(to, from);
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
	if (rc == 0)
		rc = qwen_session_check(s, err);
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
