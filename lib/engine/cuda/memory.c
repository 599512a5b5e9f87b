/* SPDX-License-Identifier: ISC */
/*
 * memory.c - what sessions have on the card: blocks of keys and values, and
 * recurrent states with their journal, in the layout of the host.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/cuda/cuda.h"

static struct qwen_cuda *
cuda_of(const struct qwen_resident *r)
{
	return (struct qwen_cuda *)(uintptr_t)r;
}

/* -------------------------------------------------------------------- blocks */

enum { SLAB_BYTES = 32 << 20 };

/* Slots that were allocated together. */
struct qwen_cuda_slab {
	struct qwen_cuda_slab	*next;
	cu_ptr			 data;
	struct qwen_cuda_slot {
		cu_ptr			 data;
		struct qwen_cuda_slot	*next;	/* unused one */
	} slot[];
};

static size_t
block_bytes(const struct qwen_net *net)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(&net->hp);

	return qwen_kv_block_bytes(&s);
}

/* Counts the attention layers before this one that are at home on the card. */
static size_t
blocks_before(const struct qwen_resident *r, size_t layer)
{
	size_t i, n = 0;

	for (i = 0; i < layer; i++)
		n += qwen_cuda_has(r, QWEN_MIXER(i)) && (i == r->net->hp.n_layer ||
		    r->net->layer[i].mixer == QWEN_ATTENTION);
	return n;
}

static size_t
slot_bytes(const struct qwen_resident *r)
{
	return blocks_before(r, r->net->hp.n_layer + 1) * block_bytes(r->net);
}

/* Adds a slab of unused slots; -1 without memory. */
static int
add_slab(struct qwen_cuda *c)
{
	size_t bytes = (slot_bytes(&c->r) + 255) / 256 * 256, i;
	size_t n = bytes > 0 && SLAB_BYTES / bytes > 0 ? SLAB_BYTES / bytes : 1;
	struct qwen_cuda_slab *s = qwen_alloc(1, sizeof *s +
	    n * sizeof s->slot[0]);

	if (s == NULL || (s->data = qwen_cuda_alloc(c->card, n * bytes)) == 0) {
		free(s);
		return -1;
	}
	for (i = 0; i < n; i++) {
		s->slot[i].data = s->data + i * bytes;
		s->slot[i].next = c->unused;
		c->unused = &s->slot[i];
	}
	s->next = c->slab;
	c->slab = s;
	return 0;
}

int
qwen_cuda_slot_new(struct qwen_resident *r, void **own)
{
	struct qwen_cuda *c = cuda_of(r);

	*own = NULL;
	qwen_cuda_enter(c->card);
	if (c->unused == NULL && add_slab(c) < 0)
		return -1;
	*own = c->unused;
	c->unused = c->unused->next;
	return 0;
}

void
qwen_cuda_slot_free(struct qwen_resident *r, void *own)
{
	struct qwen_cuda_slot *s = own;

	s->next = cuda_of(r)->unused;
	cuda_of(r)->unused = s;
}

void
qwen_cuda_slabs_free(struct qwen_cuda *c)
{
	struct qwen_cuda_slab *next;

	for (; c->slab != NULL; c->slab = next) {
		next = c->slab->next;
		qwen_cuda_free(c->card, c->slab->data);
		free(c->slab);
	}
	c->unused = NULL;
}

cu_ptr
qwen_cuda_slot_at(const void *own)
{
	return ((const struct qwen_cuda_slot *)own)->data;
}

/* Returns the address of a layer's block. */
static cu_ptr
block_at(const struct qwen_resident *r, const void *own, size_t layer)
{
	return qwen_cuda_slot_at(own) +
	    blocks_before(r, layer) * block_bytes(r->net);
}

void
qwen_cuda_slot_put(struct qwen_resident *r, void *own, size_t layer,
    const void *block)
{
	struct qwen_cuda_card *c = cuda_of(r)->card;

	qwen_cuda_enter(c);
	qwen_cuda_put(c, block_at(r, own, layer), block, block_bytes(r->net));
}

void
qwen_cuda_slot_get(struct qwen_resident *r, const void *own, size_t layer,
    void *block)
{
	struct qwen_cuda_card *c = cuda_of(r)->card;

	qwen_cuda_enter(c);
	qwen_cuda_get(c, block, block_at(r, own, layer), block_bytes(r->net));
}

/* Clears some positions of a block.  This is rare, so the host does it. */
static void
clear_part(struct qwen_resident *r, void *own, size_t from, size_t to)
{
	struct qwen_cuda_card *c = cuda_of(r)->card;
	struct qwen_kv_shape s = qwen_kv_shape_of(&r->net->hp);
	size_t n = block_bytes(r->net), i, end;
	cu_ptr p = qwen_cuda_slot_at(own);
	uint16_t *block = qwen_alloc(1, n);

	end = blocks_before(r, r->net->hp.n_layer + 1);
	if (block == NULL) {
		qwen_cuda_note(c, "clear", -1);
		return;
	}
	for (i = 0; i < end; i++) {
		qwen_cuda_get(c, block, p + i * n, n);
		qwen_kv_clear(&s, block, from, to);
		qwen_cuda_put(c, p + i * n, block, n);
	}
	free(block);
}

void
qwen_cuda_slot_clear(struct qwen_resident *r, void *own, size_t from,
    size_t to)
{
	struct qwen_cuda_card *c = cuda_of(r)->card;

	qwen_cuda_enter(c);
	if (from == 0 && to == QWEN_KV_BLOCK)
		qwen_cuda_zero(c, qwen_cuda_slot_at(own), slot_bytes(r));
	else
		clear_part(r, own, from, to);
}

/* -------------------------------------------------------------------- states */

/* The state, then the journal's rows. */
struct qwen_cuda_state {
	cu_ptr	data;
};

int
qwen_cuda_state_new(struct qwen_resident *r, const struct qwen_memory *m,
    void **own)
{
	struct qwen_cuda_card *c = cuda_of(r)->card;
	struct qwen_cuda_state *s = qwen_alloc(1, sizeof *s);
	size_t bytes = m->recurrent_bytes;

	*own = NULL;
	qwen_cuda_enter(c);
	if (s == NULL || (m->journal != NULL && qwen_add(bytes,
	    m->journal->row_bytes, &bytes) < 0) ||
	    (s->data = qwen_cuda_alloc(c, bytes)) == 0) {
		free(s);
		return -1;
	}
	*own = s;
	return 0;
}

void
qwen_cuda_state_free(struct qwen_resident *r, void *own)
{
	struct qwen_cuda_state *s = own;

	qwen_cuda_enter(cuda_of(r)->card);
	qwen_cuda_free(cuda_of(r)->card, s->data);
	free(s);
}

cu_ptr
qwen_cuda_state_at(const struct qwen_resident *r, const struct qwen_memory *m)
{
	const struct qwen_cuda_state *s = m->own[r->index - 1];

	return s != NULL ? s->data : 0;
}

/*
 * Copies the states of all layers, also of those at home elsewhere, since they
 * lie side by side.  state_get copies back only those at home on the card.
 */
void
qwen_cuda_state_put(struct qwen_resident *r, const struct qwen_memory *m)
{
	struct qwen_cuda_card *c = cuda_of(r)->card;
	cu_ptr p = qwen_cuda_state_at(r, m);

	qwen_cuda_enter(c);
	qwen_cuda_put(c, p, m->recurrent, m->recurrent_bytes);
	if (m->journal != NULL)
		qwen_cuda_put(c, p + m->recurrent_bytes, m->journal->row,
		    m->journal->row_bytes);
}

/* Copies n numbers at p, of the state, from the card. */
static void
get_numbers(struct qwen_cuda_card *c, cu_ptr state, const struct qwen_memory *m,
    float *p, size_t n)
{
	qwen_cuda_get(c, p, state + (size_t)((char *)p -
	    (char *)m->recurrent), n * sizeof *p);
}

void
qwen_cuda_state_get(struct qwen_resident *r, struct qwen_memory *m)
{
	struct qwen_cuda_card *c = cuda_of(r)->card;
	const struct qwen_journal *j = m->journal;
	size_t i, k, width = qwen_journal_row_of(&r->net->hp).width;
	cu_ptr p = qwen_cuda_state_at(r, m);
	float *row;

	qwen_cuda_enter(c);
	for (i = 0; i < r->net->hp.n_layer; i++) {
		if (!qwen_cuda_has(r, QWEN_MIXER(i)) || m->layer[i].n_s == 0)
			continue;
		get_numbers(c, p, m, m->layer[i].s, m->layer[i].n_s);
		get_numbers(c, p, m, m->layer[i].conv, m->layer[i].n_conv);
		for (k = 0; j != NULL && k < QWEN_GUESS_MAX; k++) {
			row = qwen_journal_row(j, i, k);
			qwen_cuda_get(c, row, p + m->recurrent_bytes +
			    (size_t)((char *)row - (char *)j->row),
			    width * sizeof *row);
		}
	}
}

struct qwen_cuda_place
qwen_cuda_place_of(const struct qwen_cuda_work *w, size_t layer)
{
	const struct qwen_resident *r = w->w.r;
	const struct qwen_memory *m = w->p->share[0].mem;
	const struct qwen_layer_state *l = &m->layer[layer];
	size_t width = qwen_journal_row_of(&r->net->hp).width * sizeof(float);

	if (l->n_s == 0)
		return (struct qwen_cuda_place){ .block =
		    blocks_before(r, layer) * block_bytes(r->net) };
	/* sessions of a model have their states in the same layout */
	return (struct qwen_cuda_place){
	    .s = (size_t)((char *)l->s - (char *)m->recurrent),
	    .conv = (size_t)((char *)l->conv - (char *)m->recurrent),
	    .journal = m->recurrent_bytes + layer * width,
	    .journal_row = m->n_layer * width };
}
