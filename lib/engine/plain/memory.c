/* SPDX-License-Identifier: ISC */
/*
 * memory.c - the device's memory: mappings, blocks of keys and values, and
 * recurrent states.
 *
 * A slot has a block for each layer, and a state what the host's has; the pages
 * of layers that are not at home here are never touched.
 */
#include <sys/mman.h>

#include <string.h>

#include "base/mem.h"
#include "engine/plain/plain.h"

static struct qwen_plain *
plain_of(const struct qwen_resident *r)
{
	return (struct qwen_plain *)(uintptr_t)r;
}

/* Sets the protection of all memory, if it is guarded. */
static void
protect(struct qwen_resident *r, int prot)
{
	const struct qwen_plain_buffer *b = plain_of(r)->buffer;

	for (; plain_of(r)->guarded && b != NULL; b = b->next)
		(void)mprotect(b->p, b->bytes, prot);
}

void
qwen_plain_enter(struct qwen_resident *r)
{
	protect(r, PROT_READ | PROT_WRITE);
}

void
qwen_plain_leave(struct qwen_resident *r)
{
	protect(r, PROT_NONE);
}

void
qwen_plain_guard(struct qwen_resident *r, int on)
{
	qwen_plain_enter(r);
	plain_of(r)->guarded = on;
	qwen_plain_leave(r);
}

void *
qwen_plain_map(struct qwen_resident *r, size_t bytes)
{
	struct qwen_plain_buffer *b = qwen_alloc(1, sizeof *b);

	bytes = bytes > 0 ? bytes : 1;
	if (b == NULL || (b->p = qwen_map_zero(bytes)) == NULL) {
		free(b);
		return NULL;
	}
	b->bytes = bytes;
	b->next = plain_of(r)->buffer;
	plain_of(r)->buffer = b;
	qwen_plain_leave(r);
	return b->p;
}

void
qwen_plain_unmap(struct qwen_resident *r, void *p)
{
	struct qwen_plain_buffer **at = &plain_of(r)->buffer, *b;

	for (; (b = *at) != NULL; at = &b->next) {
		if (b->p != p)
			continue;
		*at = b->next;
		qwen_unmap(b->p, b->bytes);
		free(b);
		return;
	}
}

/* Returns the device's own of the memories that remote devices have. */
static char *
own_of(const struct qwen_resident *r, void *const *own)
{
	return own[r->index - 1];
}

/* -------------------------------------------------------------------- slots */

static size_t
block_bytes(const struct qwen_resident *r)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(&r->net->hp);

	return qwen_kv_block_bytes(&s);
}

uint8_t *
qwen_plain_block(const struct qwen_resident *r, const struct qwen_share *s,
    size_t layer, size_t slot)
{
	const struct qwen_kv_slot *k = s->mem->slot[s->skip +
	    slot / QWEN_KV_BLOCK];

	return (uint8_t *)own_of(r, k->own) + layer * block_bytes(r);
}

int
qwen_plain_slot_new(struct qwen_resident *r, void **own)
{
	size_t bytes;

	*own = NULL;
	if (qwen_mul(r->net->hp.n_layer + 1, block_bytes(r), &bytes) < 0)
		return -1;
	*own = qwen_plain_map(r, bytes);
	return *own != NULL ? 0 : -1;
}

void
qwen_plain_slot_put(struct qwen_resident *r, void *own, size_t layer,
    const void *block)
{
	size_t n = block_bytes(r);

	qwen_plain_enter(r);
	memcpy((char *)own + layer * n, block, n);
	qwen_plain_leave(r);
}

void
qwen_plain_slot_get(struct qwen_resident *r, const void *own, size_t layer,
    void *block)
{
	size_t n = block_bytes(r);

	qwen_plain_enter(r);
	memcpy(block, (const char *)own + layer * n, n);
	qwen_plain_leave(r);
}

static int
is_attention(const struct qwen_net *net, size_t layer)
{
	return layer == net->hp.n_layer ||
	    net->layer[layer].mixer == QWEN_ATTENTION;
}

void
qwen_plain_slot_clear(struct qwen_resident *r, void *own, size_t from,
    size_t to)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(&r->net->hp);
	size_t i;

	qwen_plain_enter(r);
	for (i = 0; i <= r->net->hp.n_layer; i++) {
		if (qwen_plain_has(r, i) && is_attention(r->net, i))
			qwen_kv_clear(&s, (uint16_t *)((char *)own +
			    i * block_bytes(r)), from, to);
	}
	qwen_plain_leave(r);
}

/* ------------------------------------------------------------------- states */

/* The state, then the journal's rows. */
int
qwen_plain_state_new(struct qwen_resident *r, const struct qwen_memory *m,
    void **own)
{
	size_t bytes = m->recurrent_bytes;

	*own = NULL;
	if (m->journal != NULL &&
	    qwen_add(bytes, m->journal->row_bytes, &bytes) < 0)
		return -1;
	*own = qwen_plain_map(r, bytes);
	return *own != NULL ? 0 : -1;
}

/* Returns the bytes from `from' to p; huge if p is before it. */
static size_t
distance(const void *from, const void *p)
{
	return (uintptr_t)p - (uintptr_t)from;
}

float *
qwen_plain_own(const struct qwen_resident *r, const struct qwen_memory *m,
    const float *p)
{
	size_t n = m->recurrent_bytes, at = distance(m->recurrent, p);
	const struct qwen_journal *j = m->journal;

	if (j != NULL && at >= n)
		at = n + distance(j->row, p);
	return (float *)(void *)(own_of(r, m->own) + at);
}

/* Copies n numbers at p in the host's memory to the device, or from it. */
static void
copy(const struct qwen_resident *r, const struct qwen_memory *m, const float *p,
    size_t n, int put)
{
	float *own = qwen_plain_own(r, m, p);

	if (put)
		memcpy(own, p, n * sizeof *p);
	else
		memcpy((float *)(uintptr_t)p, own, n * sizeof *p);
}

static void
copy_layer(const struct qwen_resident *r, const struct qwen_memory *m,
    size_t layer, int put)
{
	const struct qwen_layer_state *l = &m->layer[layer];
	const struct qwen_journal *j = m->journal;
	size_t width = qwen_journal_row_of(&r->net->hp).width, i;

	copy(r, m, l->s, l->n_s, put);
	copy(r, m, l->conv, l->n_conv, put);
	for (i = 0; j != NULL && i < QWEN_GUESS_MAX; i++)
		copy(r, m, qwen_journal_row(j, layer, i), width, put);
}

static void
copy_layers(struct qwen_resident *r, const struct qwen_memory *m, int put)
{
	size_t i;

	qwen_plain_enter(r);
	for (i = 0; i < r->net->hp.n_layer; i++) {
		if (qwen_plain_has(r, i) && !is_attention(r->net, i))
			copy_layer(r, m, i, put);
	}
	qwen_plain_leave(r);
}

void
qwen_plain_state_put(struct qwen_resident *r, const struct qwen_memory *m)
{
	copy_layers(r, m, 1);
}

void
qwen_plain_state_get(struct qwen_resident *r, struct qwen_memory *m)
{
	copy_layers(r, m, 0);
}
