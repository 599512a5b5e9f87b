/* SPDX-License-Identifier: ISC */
/*
 * memory.c - the device's memory: mappings, blocks of keys and values, and
 * recurrent states.
 *
 * A slot has a block for each layer, and a state what the host's has; the pages of
 * layers that are not at home here are never touched.
 */
#include <sys/mman.h>

#include <string.h>

#include "base/mem.h"
#include "engine/plain/plain.h"

static void
protect(const struct qwen_plain *d, int prot)
{
	const struct qwen_plain_buffer *b;

	for (b = d->buffer; b != NULL; b = b->next)
		(void)mprotect(b->p, b->bytes, prot);
}

void
qwen_plain_enter(struct qwen_plain *d)
{
	if (d->guarded)
		protect(d, PROT_READ | PROT_WRITE);
}

void
qwen_plain_leave(struct qwen_plain *d)
{
	if (d->guarded)
		protect(d, PROT_NONE);
}

void
qwen_plain_guard(struct qwen_resident *r, int on)
{
	struct qwen_plain *d = qwen_plain_of(r);

	qwen_plain_enter(d);
	d->guarded = on;
	qwen_plain_leave(d);
}

void *
qwen_plain_map(struct qwen_plain *d, size_t bytes)
{
	struct qwen_plain_buffer *b = qwen_alloc(1, sizeof *b);

	bytes = bytes > 0 ? bytes : 1;
	if (b == NULL || (b->p = qwen_map_zero(bytes)) == NULL) {
		free(b);
		return NULL;
	}
	b->bytes = bytes;
	b->next = d->buffer;
	d->buffer = b;
	return b->p;
}

void
qwen_plain_unmap(struct qwen_plain *d, void *p)
{
	struct qwen_plain_buffer **at = &d->buffer, *b;

	if (p == NULL)
		return;
	while ((*at)->p != p)
		at = &(*at)->next;
	b = *at;
	*at = b->next;
	qwen_unmap(b->p, b->bytes);
	free(b);
}

/* Returns the device's own of the memories that remote devices have. */
static void *
own_of(const struct qwen_plain *d, void *const *own)
{
	return own[d->r.index - 1];
}

/* Sets *own to new memory; -1 without memory. */
static int
map_own(struct qwen_resident *r, size_t bytes, void **own)
{
	struct qwen_plain *d = qwen_plain_of(r);

	*own = qwen_plain_map(d, bytes);
	qwen_plain_leave(d);
	return *own != NULL ? 0 : -1;
}

void
qwen_plain_own_free(struct qwen_resident *r, void *own)
{
	qwen_plain_unmap(qwen_plain_of(r), own);
}

/* -------------------------------------------------------------------- slots */

static size_t
block_bytes(const struct qwen_resident *r)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(&r->net->hp);

	return qwen_kv_block_bytes(&s);
}

uint8_t *
qwen_plain_block(const struct qwen_plain *d, const struct qwen_share *s,
    size_t layer, size_t slot)
{
	const struct qwen_kv_slot *k = s->mem->slot[s->skip +
	    slot / QWEN_KV_BLOCK];

	return (uint8_t *)own_of(d, k->own) + layer * block_bytes(&d->r);
}

int
qwen_plain_slot_new(struct qwen_resident *r, void **own)
{
	size_t bytes;

	*own = NULL;
	if (qwen_mul(r->net->hp.n_layer + 1, block_bytes(r), &bytes) < 0)
		return -1;
	return map_own(r, bytes, own);
}

void
qwen_plain_slot_put(struct qwen_resident *r, void *own, size_t layer,
    const void *block)
{
	size_t n = block_bytes(r);

	qwen_plain_enter(qwen_plain_of(r));
	memcpy((char *)own + layer * n, block, n);
	qwen_plain_leave(qwen_plain_of(r));
}

void
qwen_plain_slot_get(struct qwen_resident *r, const void *own, size_t layer,
    void *block)
{
	size_t n = block_bytes(r);

	qwen_plain_enter(qwen_plain_of(r));
	memcpy(block, (const char *)own + layer * n, n);
	qwen_plain_leave(qwen_plain_of(r));
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

	qwen_plain_enter(qwen_plain_of(r));
	for (i = 0; i <= r->net->hp.n_layer; i++) {
		if (qwen_plain_has(r, i) && is_attention(r->net, i))
			qwen_kv_clear(&s, (uint16_t *)((char *)own +
			    i * block_bytes(r)), from, to);
	}
	qwen_plain_leave(qwen_plain_of(r));
}

/* ------------------------------------------------------------------- states */

/* The state, then the journal's base, if there is one, then its rows. */
int
qwen_plain_state_new(struct qwen_resident *r, const struct qwen_memory *m,
    void **own)
{
	size_t bytes = m->recurrent_bytes;

	*own = NULL;
	if (m->journal != NULL && ((m->journal->base != NULL &&
	    qwen_add(bytes, m->recurrent_bytes, &bytes) < 0) ||
	    qwen_add(bytes, m->journal->row_bytes, &bytes) < 0))
		return -1;
	return map_own(r, bytes, own);
}

struct qwen_plain_state
qwen_plain_state_of(const struct qwen_plain *d, const struct qwen_memory *m,
    size_t layer)
{
	const struct qwen_layer_state *l = &m->layer[layer];
	float *own = own_of(d, m->own);
	size_t n = m->recurrent_bytes / sizeof *own;
	size_t s = (size_t)(l->s - (float *)m->recurrent);
	size_t conv = (size_t)(l->conv - (float *)m->recurrent);
	struct qwen_plain_state st = { .s = own + s, .conv = own + conv };

	if (m->journal == NULL)
		return st;
	st.journal = *m->journal;
	if (m->journal->base != NULL) {
		own += n;
		st.base_s = own + s;
		st.base_conv = own + conv;
	}
	st.journal.base = NULL;
	st.journal.row = own + n;
	return st;
}

/* Copies numbers to the device, or from it. */
static void
copy(float *own, float *host, size_t n, int put)
{
	memcpy(put ? own : host, put ? host : own, n * sizeof *own);
}

static void
copy_layer(const struct qwen_plain *d, const struct qwen_memory *m,
    size_t layer, int put)
{
	struct qwen_plain_state st = qwen_plain_state_of(d, m, layer);
	const struct qwen_layer_state *l = &m->layer[layer];
	const struct qwen_journal *j = m->journal;
	size_t width = qwen_journal_row_of(&d->r.net->hp).width, i;
	float *zero = m->recurrent, *base;

	copy(st.s, l->s, l->n_s, put);
	copy(st.conv, l->conv, l->n_conv, put);
	if (j == NULL)
		return;
	if ((base = j->base) != NULL) {
		copy(st.base_s, base + (l->s - zero), l->n_s, put);
		copy(st.base_conv, base + (l->conv - zero), l->n_conv, put);
	}
	for (i = 0; i < j->n_row; i++)
		copy(qwen_journal_row(&st.journal, layer, i),
		    qwen_journal_row(j, layer, i), width, put);
}

static void
copy_layers(struct qwen_resident *r, const struct qwen_memory *m, int put)
{
	struct qwen_plain *d = qwen_plain_of(r);
	size_t i;

	qwen_plain_enter(d);
	for (i = 0; i < r->net->hp.n_layer; i++) {
		if (qwen_plain_has(r, i) && !is_attention(r->net, i))
			copy_layer(d, m, i, put);
	}
	qwen_plain_leave(d);
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
