/* SPDX-License-Identifier: ISC */
/* blocks.c - the lists of a session that grow: its KV blocks and tokens. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/timeline.h"

/* Blocks in mapped files do not belong to the session. */
void
qwen_session_trim(struct qwen_session *s, size_t n)
{
	size_t i;

	while (s->mem.n_slot > n)
		qwen_cache_drop(s->cache, s->mem.slot[--s->mem.n_slot]);
	for (i = 0; s->mem.layer != NULL && i < s->mem.n_layer; i++) {
		if (s->mem.layer[i].n_block > n)
			s->mem.layer[i].n_block = n;
	}
}

/* Returns the blocks of n positions. */
static size_t
blocks_for(size_t n)
{
	return n / QWEN_KV_BLOCK + (n % QWEN_KV_BLOCK != 0);
}

/* Makes room for n blocks in the lists. */
int
qwen_blocks_grow_lists(struct qwen_session *s, size_t n)
{
	size_t i, cap;

	/* all are as long, the slots' last, which say how long */
	for (i = 0; i < s->mem.n_layer; i++) {
		cap = s->mem.cap_slot;
		if (s->mem.layer[i].kv_block_bytes != 0 &&
		    qwen_grow(&s->mem.layer[i].block, &cap, n,
		    sizeof *s->mem.layer[i].block) < 0)
			return -1;
	}
	return qwen_grow(&s->mem.slot, &s->mem.cap_slot, n, sizeof *s->mem.slot);
}

void
qwen_blocks_place(struct qwen_session *s, size_t b, struct qwen_kv_slot *slot)
{
	char *p = slot->data;
	size_t i;

	s->mem.slot[b] = slot;
	for (i = 0; i < s->mem.n_layer; i++) {
		if (s->mem.layer[i].kv_block_bytes == 0)
			continue;
		s->mem.layer[i].block[b] = (uint16_t *)(void *)p;
		p += s->mem.layer[i].kv_block_bytes;
	}
}

int
qwen_session_grow(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	size_t i;

	if (s->cache->block_bytes == 0 || n <= s->mem.n_slot)
		return 0;
	if (qwen_cache_prepare(s->cache, n - s->mem.n_slot, err) < 0)
		return -1;
	if (qwen_blocks_grow_lists(s, n) < 0)
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for the state of %zu tokens",
		    n * QWEN_KV_BLOCK);
	while (s->mem.n_slot < n) {
		qwen_blocks_place(s, s->mem.n_slot, qwen_cache_take(s->cache));
		s->mem.n_slot++;
	}
	for (i = 0; i < s->mem.n_layer; i++) {
		if (s->mem.layer[i].kv_block_bytes != 0)
			s->mem.layer[i].n_block = n;
	}
	return 0;
}

/*
 * Makes the blocks at b the session's own; if it shares them, it gets a copy,
 * for which a slot must be free. Mapped files are mapped private.
 */
static void
own_block(struct qwen_session *s, size_t b)
{
	struct qwen_kv_slot *old = s->mem.slot[b], *new;
	char *to;
	size_t i;

	assert(b < s->mem.n_slot && old->refs > 0);
	if (old->refs == 1)
		return;
	qwen_block_fetch(s, b);		/* may compute, but moves no blocks */
	new = qwen_cache_take(s->cache);
	for (i = 0, to = new->data; i < s->mem.n_layer; i++) {
		const struct qwen_layer_state *l = &s->mem.layer[i];

		if (l->kv_block_bytes != 0)
			memcpy(to, l->block[b], l->kv_block_bytes);
		to += l->kv_block_bytes;
	}
	qwen_blocks_place(s, b, new);
	qwen_cache_drop(s->cache, old);
}

size_t
qwen_session_slots(const struct qwen_session *s, size_t n)
{
	size_t b, end = blocks_for(s->n_tokens + n), need = 0;

	if (s->cache->block_bytes == 0)
		return 0;
	for (b = qwen_session_first_written(s); b < end && b < s->mem.n_slot; b++)
		need += s->mem.slot[b]->refs > 1;
	return need + (end > s->mem.n_slot ? end - s->mem.n_slot : 0);
}

int
qwen_session_grow_tokens(struct qwen_session *s, size_t n)
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
	if (qwen_session_grow_tokens(s, n) < 0)
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for the state of %zu tokens", n);
	for (b = qwen_session_first_written(s); b < s->mem.n_slot &&
	    b < blocks_for(n); b++)
		own_block(s, b);
	if (qwen_session_grow(s, blocks_for(n), err) < 0)
		return -1;
	assert(s->cache->block_bytes == 0 || s->mem.n_slot >= blocks_for(n));
	return 0;
}

int
qwen_blocks_cut(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	size_t used = n % QWEN_KV_BLOCK, blocks = blocks_for(n);

	if (used > 0 && s->mem.n_slot >= blocks) {
		if (s->mem.slot[blocks - 1]->refs > 1 &&
		    (qwen_cache_check(s->cache, 1, 0, err) < 0 ||
		    qwen_cache_prepare(s->cache, 1, err) < 0))
			return -1;
		own_block(s, blocks - 1);
	}
	qwen_session_trim(s, blocks);
	if (used > 0 && s->mem.n_slot == blocks)
		qwen_block_clear(s, blocks - 1, used, QWEN_KV_BLOCK);
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
	struct copy c = { dst, src, s->mem.recurrent_bytes };

	if (c.n > COPY_BYTES)
		qwen_pool_run(s->model->place.pool, copy_part, &c,
		    (c.n + COPY_BYTES - 1) / COPY_BYTES);
	else if (c.n > 0)
		memcpy(dst, src, c.n);
}
