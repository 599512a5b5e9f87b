/* SPDX-License-Identifier: ISC */
/*
 * cache.c - memory that timelines share: slots for blocks of the KV cache,
 * counted with the recurrent states against a limit.
 *
 * A slot holds the blocks of all attention layers at 16 positions, so there is
 * one count of its users and one step to share or copy them.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/timeline.h"

#define SLOTS_MIN 16			/* of a slab */
#define SLAB_MAX ((size_t)1 << 30)	/* bytes, if one slot is not more */
#define IDLE_MAX ((size_t)64 << 20)	/* bytes that free slots may keep */

/* Rows of vectors begin at a cache line. */
static size_t
padded(size_t n)
{
	return (n + 15) / 16 * 16;
}

void
qwen_layer_state_init(struct qwen_layer_state *s, const struct qwen_hparams *h,
    size_t layer)
{
	struct qwen_kv_shape shape = qwen_kv_shape_of(h);

	if (layer >= h->n_layer || h->recurrent == NULL ||
	    !h->recurrent[layer]) {
		s->kv_block_bytes = qwen_kv_block_bytes(&shape);
		return;
	}
	s->n_s = h->n_head_v * h->dk * h->dv;
	s->n_conv = (h->conv_kernel - 1) *
	    (2 * h->n_head_k * h->dk + h->n_head_v * h->dv);
}

/* Sets the bytes of a slot and of all recurrent states, padded. */
static int
find_sizes(struct qwen_cache *c, const struct qwen_net *net)
{
	size_t i, n = 0;

	for (i = 0; i < qwen_n_state(net); i++) {
		struct qwen_layer_state l = { 0 };

		qwen_layer_state_init(&l, &net->hp, i);
		if (qwen_add(c->block_bytes, l.kv_block_bytes,
		    &c->block_bytes) < 0 ||
		    qwen_add(n, padded(l.n_s), &n) < 0 ||
		    qwen_add(n, padded(l.n_conv), &n) < 0)
			return -1;
	}
	return qwen_mul(n, sizeof(float), &c->state_bytes);
}

void
qwen_layer_states_place(struct qwen_layer_state *l, size_t n, float *p)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (l[i].n_s > 0)
			l[i].s = p;
		p += padded(l[i].n_s);
	}
	for (i = 0; i < n; i++) {
		if (l[i].n_conv > 0)
			l[i].conv = p;
		p += padded(l[i].n_conv);
	}
}

int
qwen_cache_new(struct qwen_cache **out, struct qwen_model *m, uint64_t limit,
    struct qwen_err *err)
{
	struct qwen_cache *c = qwen_alloc(1, sizeof *c);

	*out = NULL;
	if (c == NULL)
		return qwen_oom(err);
	c->model = m;
	c->next = m->caches;
	m->caches = c;
	c->limit = limit;
	c->refs = 1;
	if (find_sizes(c, &m->net) < 0) {
		qwen_cache_free(c);
		return qwen_oom(err);
	}
	*out = c;
	return 0;
}

void
qwen_cache_leave(struct qwen_cache *c)
{
	struct qwen_resident *const *on = c->model->place.on;
	struct qwen_slab *slab;
	size_t i, r;

	for (r = 1; r < c->model->place.n; r++) {
		for (slab = c->slab; slab != NULL; slab = slab->next) {
			for (i = 0; i < slab->n; i++) {
				struct qwen_kv_slot *slot = &slab->slot[i];

				if (slot->own[r - 1] != NULL)
					on[r]->dev->slot_free(on[r],
					    slot->own[r - 1]);
				slot->own[r - 1] = NULL;
				slot->there = slot->stale = 0;
			}
		}
		if (c->work[r] != NULL)
			on[r]->dev->work_free(c->work[r]);
		c->work[r] = NULL;
	}
}

static void
free_pass(struct qwen_pass_memory *p)
{
	free(p->row);
	free(p->owner);
	free(p->at);
	free(p->y);
	free(p->logits);
	free(p->draft);
	free(p->x);
	free(p->share);
	free(p->part);
	free(p->progress);
	free(p->piece_row);
	free(p->piece_owner);
	free(p->piece_share);
}

void
qwen_cache_free(struct qwen_cache *c)
{
	struct qwen_slab *next;
	struct qwen_cache **p;

	if (c == NULL)
		return;
	assert(c->refs > 0);
	if (--c->refs > 0)
		return;
	assert(c->n_block == 0 && c->n_state == 0);
	qwen_cache_leave(c);
	for (p = &c->model->caches; *p != c;)
		p = &(*p)->next;
	*p = c->next;
	for (; c->slab != NULL; c->slab = next) {
		next = c->slab->next;
		qwen_unmap(c->slab->data, c->slab->bytes);
		free(c->slab);
	}
	if (c->work[0] != NULL)
		c->work[0]->r->dev->work_free(c->work[0]);
	free_pass(&c->pass);
	free(c);
}

int
qwen_cache_is_of(const struct qwen_cache *c, const struct qwen_model *m)
{
	return c->model == m;
}

/* ------------------------------------------------------------------- limits */

/* Returns the bytes of the slots and states; UINT64_MAX on overflow. */
static uint64_t
bytes_of(const struct qwen_cache *c, uint64_t n_slot, uint64_t n_state)
{
	uint64_t slots, states, sum;

	if (__builtin_mul_overflow(n_slot, c->block_bytes, &slots) ||
	    __builtin_mul_overflow(n_state, c->state_bytes, &states) ||
	    __builtin_add_overflow(slots, states, &sum))
		return UINT64_MAX;
	return sum;
}

void
qwen_cache_usage(const struct qwen_cache *c, struct qwen_cache_usage *out)
{
	*out = (struct qwen_cache_usage){ .limit = c->limit,
	    .used = bytes_of(c, c->n_block, c->n_state),
	    .block_bytes = c->block_bytes, .state_bytes = c->state_bytes,
	    .n_blocks = c->n_block, .n_states = c->n_state };
}

uint64_t
qwen_cache_need(const struct qwen_model *m, uint64_t n_tokens)
{
	struct qwen_cache c = { 0 };

	if (find_sizes(&c, &m->net) < 0)
		return UINT64_MAX;
	return bytes_of(&c, n_tokens / QWEN_KV_BLOCK +
	    (n_tokens % QWEN_KV_BLOCK != 0), 1);
}

int
qwen_cache_check(const struct qwen_cache *c, size_t n_slot, size_t n_state,
    struct qwen_err *err)
{
	uint64_t more = bytes_of(c, n_slot, n_state);
	uint64_t used = bytes_of(c, c->n_block, c->n_state);

	if (c->limit == 0 || more == 0 ||
	    (used <= c->limit && more <= c->limit - used))
		return 0;
	return qwen_fail(err, QWEN_EFULL, "the cache is full: %llu of %llu "
	    "bytes are in use, and %llu more are needed",
	    (unsigned long long)used, (unsigned long long)c->limit,
	    (unsigned long long)more);
}

/* -------------------------------------------------------------------- slots */

/* Adds at least n slots, more if few were added so far. */
static int
add_slab(struct qwen_cache *c, size_t n)
{
	size_t want = c->n_slot > SLOTS_MIN ? c->n_slot : SLOTS_MIN, i, bytes;
	size_t most = SLAB_MAX / c->block_bytes;
	struct qwen_slab *s;

	want = want < most ? want : most;
	n = n > want ? n : want;
	if (qwen_mul(n, sizeof s->slot[0], &bytes) < 0 ||
	    qwen_add(bytes, sizeof *s, &bytes) < 0 ||
	    (s = qwen_alloc(1, bytes)) == NULL)
		return -1;
	if (qwen_mul(n, c->block_bytes, &s->bytes) < 0 ||
	    (s->data = qwen_map_zero(s->bytes)) == NULL) {
		free(s);
		return -1;
	}
	s->n = n;
	s->next = c->slab;
	c->slab = s;
	c->n_slot += n;
	/* the first one is taken first: memory is touched in order */
	for (i = n; i-- > 0; ) {
		s->slot[i].data = s->data + i * c->block_bytes;
		s->slot[i].next = c->free;
		c->free = &s->slot[i];
	}
	return 0;
}

int
qwen_cache_prepare(struct qwen_cache *c, size_t n, struct qwen_err *err)
{
	size_t have = c->n_slot - c->n_block;

	if (have >= n || add_slab(c, n - have) == 0)
		return 0;
	return qwen_fail(err, QWEN_ENOMEM, "out of memory for the KV cache");
}

struct qwen_kv_slot *
qwen_cache_take(struct qwen_cache *c)
{
	struct qwen_kv_slot *s = c->free;

	assert(s != NULL && s->refs == 0);	/* they were prepared */
	c->free = s->next;
	c->n_block++;
	if (s->dirty) {
		memset(s->data, 0, c->block_bytes);
		c->n_idle--;
	}
	s->dirty = 1;
	s->there = s->stale = 0;
	s->refs = 1;
	s->next = NULL;
	return s;
}

/*
 * A freed slot keeps its pages for the next user, up to IDLE_MAX bytes in all.
 */
void
qwen_cache_drop(struct qwen_cache *c, struct qwen_kv_slot *s)
{
	assert(s->refs > 0 && c->n_block > 0);
	if (--s->refs > 0)
		return;
	s->next = c->free;
	c->free = s;
	c->n_block--;
	c->n_idle++;
	if (c->n_idle > IDLE_MAX / c->block_bytes)
		qwen_give_back(s->data, c->block_bytes);
}

int
qwen_cache_scatter(struct qwen_cache *c, size_t n, struct qwen_err *err)
{
	struct qwen_kv_slot **all, *s;
	uint64_t rng = 1;
	size_t i, j;

	if (c->block_bytes == 0 || n == 0)
		return 0;
	if (qwen_cache_prepare(c, n, err) < 0)
		return -1;
	n = c->n_slot - c->n_block;
	if ((all = qwen_alloc(n, sizeof *all)) == NULL)
		return qwen_oom(err);
	for (i = 0, s = c->free; s != NULL; s = s->next) {
		rng = rng * 6364136223846793005u + 1442695040888963407u;
		j = (size_t)(rng >> 32) % (i + 1);
		all[i++] = all[j];
		all[j] = s;
	}
	for (c->free = NULL; i-- > 0; ) {
		all[i]->next = c->free;
		c->free = all[i];
	}
	free(all);
	return 0;
}
