/* SPDX-License-Identifier: ISC */
/*
 * memory.c - what sessions have on other ranks: slots and recurrent states, by
 * number.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/mpi/mpi.h"

/* ------------------------------------------------------------------- commands */

void
qwen_mpi_begin(struct qwen_mpi *d, enum qwen_mpi_what what, uint32_t id,
    uint64_t a, uint64_t b)
{
	struct qwen_mpi_command c = { .what = what, .id = id, .a = a, .b = b };

	d->out.n = 0;
	d->got_slot = UINT32_MAX;
	qwen_text_add(&d->out, &c, sizeof c);
}

int
qwen_mpi_order(struct qwen_mpi *d, int rank)
{
	if (d->out.failed)
		return qwen_mpi_fail(d->link, "no memory for a message to "
		    "rank %d%s%s", rank);
	return qwen_mpi_send(d->link, rank, QWEN_MPI_COMMAND, d->out.s,
	    d->out.n);
}

int
qwen_mpi_is_used(const struct qwen_mpi *d, int rank)
{
	return memchr(d->rank, rank, d->r.net->hp.n_layer) != NULL;
}

/* Sends the message to all ranks that have layers. */
static void
order_all(struct qwen_mpi *d)
{
	int i;

	for (i = 1; i < d->link->n; i++) {
		if (qwen_mpi_is_used(d, i) && qwen_mpi_order(d, i) < 0)
			return;
	}
}

/* Sets *id to a number that is not in use; -1 without memory. */
static int
take_id(struct qwen_mpi_ids *ids, uint32_t *id)
{
	if (ids->n > 0) {
		*id = ids->free[--ids->n];
		return 0;
	}
	/* room for its return, so that this cannot fail */
	if (qwen_grow(&ids->free, &ids->cap, (size_t)ids->next + 1,
	    sizeof *ids->free) < 0)
		return -1;
	*id = ids->next++;
	return 0;
}

static void
return_id(struct qwen_mpi_ids *ids, uint32_t id)
{
	assert(ids->n < ids->cap);
	ids->free[ids->n++] = id;
}

/* ---------------------------------------------------------------------- slots */

/* Ranks make room for a number when they first read of it, and keep it. */
int
qwen_mpi_slot_new(struct qwen_resident *r, void **own)
{
	struct qwen_mpi_slot *s = qwen_alloc(1, sizeof *s);

	*own = NULL;
	if (s == NULL || take_id(&qwen_mpi_of(r)->slots, &s->id) < 0) {
		free(s);
		return -1;
	}
	*own = s;
	return 0;
}

void
qwen_mpi_slot_free(struct qwen_resident *r, void *own)
{
	return_id(&qwen_mpi_of(r)->slots, ((struct qwen_mpi_slot *)own)->id);
	free(own);
}

static size_t
block_bytes(const struct qwen_mpi *d)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(&d->r.net->hp);

	return qwen_kv_block_bytes(&s);
}

void
qwen_mpi_slot_put(struct qwen_resident *r, void *own, size_t layer,
    const void *block)
{
	struct qwen_mpi *d = qwen_mpi_of(r);

	qwen_mpi_begin(d, QWEN_MPI_SLOT_PUT, ((struct qwen_mpi_slot *)own)->id,
	    layer, 0);
	qwen_text_add(&d->out, block, block_bytes(d));
	qwen_mpi_order(d, d->rank[layer]);
}

void
qwen_mpi_slot_clear(struct qwen_resident *r, void *own, size_t from, size_t to)
{
	struct qwen_mpi *d = qwen_mpi_of(r);

	qwen_mpi_begin(d, QWEN_MPI_SLOT_CLEAR,
	    ((struct qwen_mpi_slot *)own)->id, from, to);
	order_all(d);
}

/* Fetches the blocks of all layers of a slot, from all ranks at once. */
static void
fetch_slot(struct qwen_mpi *d, uint32_t id)
{
	size_t i, bytes = 0;
	int k;

	qwen_mpi_begin(d, QWEN_MPI_SLOT_GET, id, 0, 0);
	order_all(d);
	for (k = 1; k < d->link->n; k++) {
		d->got[k].at = 0;
		for (bytes = i = 0; i < d->r.net->hp.n_layer; i++)
			bytes += qwen_mpi_has_blocks(d, i, k) ?
			    block_bytes(d) : 0;
		if (!qwen_mpi_is_used(d, k))
			continue;
		if (qwen_mpi_next(d->link, k, QWEN_MPI_REPLY, &d->got[k].p,
		    &d->got[k].cap) != (int64_t)bytes) {
			qwen_mpi_fail(d->link, "rank %d%s%s has answered with "
			    "too few bytes", k);
			return;
		}
	}
	d->got_slot = id;
}

/*
 * Layers are read in ascending order, and often all of them: one question to
 * each rank fetches a slot.
 */
void
qwen_mpi_slot_get(struct qwen_resident *r, const void *own, size_t layer,
    void *block)
{
	struct qwen_mpi *d = qwen_mpi_of(r);
	uint32_t id = ((const struct qwen_mpi_slot *)own)->id;
	struct qwen_mpi_got *g;
	size_t i;

	if (d->got_slot != id || layer <= d->got_layer) {
		fetch_slot(d, id);
		d->got_layer = SIZE_MAX;
	}
	memset(block, 0, block_bytes(d));
	if (d->got_slot != id)		/* the link has failed */
		return;
	for (i = d->got_layer + 1; i <= layer; i++) {
		g = &d->got[d->rank[i]];
		if (d->rank[i] == 0 || !qwen_mpi_has_blocks(d, i, d->rank[i]))
			continue;
		if (i == layer)
			memcpy(block, (char *)g->p + g->at, block_bytes(d));
		g->at += block_bytes(d);
	}
	d->got_layer = layer;
}

/* --------------------------------------------------------------------- states */

int
qwen_mpi_state_new(struct qwen_resident *r, const struct qwen_memory *m,
    void **own)
{
	struct qwen_mpi *d = qwen_mpi_of(r);
	struct qwen_mpi_state *s = qwen_alloc(1, sizeof *s);

	*own = NULL;
	if (s == NULL || take_id(&d->states, &s->id) < 0) {
		free(s);
		return -1;
	}
	qwen_mpi_begin(d, QWEN_MPI_STATE_NEW, s->id, m->journal != NULL, 0);
	order_all(d);
	*own = s;
	return 0;
}

void
qwen_mpi_state_free(struct qwen_resident *r, void *own)
{
	struct qwen_mpi *d = qwen_mpi_of(r);
	struct qwen_mpi_state *s = own;

	qwen_mpi_begin(d, QWEN_MPI_STATE_FREE, s->id, 0, 0);
	order_all(d);
	return_id(&d->states, s->id);
	free(s->slot);
	free(s);
}

static uint32_t
state_id(const struct qwen_mpi *d, const struct qwen_memory *m)
{
	return ((struct qwen_mpi_state *)m->own[d->r.index - 1])->id;
}

/* All bits are zero: -0 is a number of its own. */
static int
is_zero(const float *x, size_t n)
{
	const char *p = (const char *)x;

	n *= sizeof *x;
	return n == 0 || (*p == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* The numbers of a layer in a message: its state, then its rows of the journal. */
struct piece {
	float	*p;
	size_t	 n;
};

static size_t
pieces_of(const struct qwen_mpi *d, const struct qwen_memory *m, size_t layer,
    struct piece *out)
{
	const struct qwen_layer_state *l = &m->layer[layer];
	size_t width = qwen_journal_row_of(&d->r.net->hp).width, i;

	out[0] = (struct piece){ l->s, l->n_s };
	out[1] = (struct piece){ l->conv, l->n_conv };
	for (i = 0; m->journal != NULL && i < QWEN_GUESS_MAX; i++)
		out[2 + i] = (struct piece){ qwen_journal_row(m->journal,
		    layer, i), width };
	return 2 + i;
}

void
qwen_mpi_states_add(const struct qwen_mpi *d, int rank,
    const struct qwen_memory *m, struct qwen_text *out)
{
	struct piece piece[2 + QWEN_GUESS_MAX];
	size_t i, k, n, at;
	char any;

	for (i = 0; i < d->r.net->hp.n_layer; i++) {
		if (!qwen_mpi_has_state(d, i, rank))
			continue;
		n = pieces_of(d, m, i, piece);
		for (any = 0, k = 0; k < n && !any; k++)
			any = !is_zero(piece[k].p, piece[k].n);
		at = out->n;
		qwen_text_add(out, &any, 1);
		for (k = 0; any && k < n; k++)
			qwen_text_add(out, piece[k].p, piece[k].n *
			    sizeof *piece[k].p);
		if (out->failed)
			out->n = at;
	}
}

int
qwen_mpi_states_take(const struct qwen_mpi *d, int rank,
    struct qwen_memory *m, const char *p, size_t n)
{
	struct piece piece[2 + QWEN_GUESS_MAX];
	size_t i, k, n_piece, bytes;
	char any;

	for (i = 0; i < d->r.net->hp.n_layer; i++) {
		if (!qwen_mpi_has_state(d, i, rank))
			continue;
		if (n-- == 0)
			return -1;
		any = *p++;
		n_piece = pieces_of(d, m, i, piece);
		for (k = 0; k < n_piece; k++) {
			bytes = piece[k].n * sizeof *piece[k].p;
			if (!any) {
				memset(piece[k].p, 0, bytes);
				continue;
			}
			if (n < bytes)
				return -1;
			memcpy(piece[k].p, p, bytes);
			p += bytes;
			n -= bytes;
		}
	}
	return n == 0 ? 0 : -1;
}

void
qwen_mpi_state_put(struct qwen_resident *r, const struct qwen_memory *m)
{
	struct qwen_mpi *d = qwen_mpi_of(r);
	int i;

	for (i = 1; i < d->link->n; i++) {
		if (!qwen_mpi_is_used(d, i))
			continue;
		qwen_mpi_begin(d, QWEN_MPI_STATE_PUT, state_id(d, m), 0, 0);
		qwen_mpi_states_add(d, i, m, &d->out);
		if (qwen_mpi_order(d, i) < 0)
			return;
	}
}

void
qwen_mpi_state_get(struct qwen_resident *r, struct qwen_memory *m)
{
	struct qwen_mpi *d = qwen_mpi_of(r);
	int64_t n;
	int i;

	qwen_mpi_begin(d, QWEN_MPI_STATE_GET, state_id(d, m), 0, 0);
	order_all(d);
	for (i = 1; i < d->link->n; i++) {
		if (!qwen_mpi_is_used(d, i))
			continue;
		n = qwen_mpi_next(d->link, i, QWEN_MPI_REPLY, &d->got[i].p,
		    &d->got[i].cap);
		if (n < 0)
			return;
		if (qwen_mpi_states_take(d, i, m, d->got[i].p,
		    (size_t)n) < 0)
			qwen_mpi_fail(d->link, "rank %d%s%s has answered with "
			    "too few bytes", i);
	}
}

void
qwen_mpi_replay(struct qwen_resident *r, struct qwen_memory *m, size_t from,
    size_t n)
{
	struct qwen_mpi *d = qwen_mpi_of(r);

	qwen_mpi_begin(d, QWEN_MPI_REPLAY, state_id(d, m), from, n);
	order_all(d);
}
