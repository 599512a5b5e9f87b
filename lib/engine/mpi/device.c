/* SPDX-License-Identifier: ISC */
/*
 * device.c - the other ranks as a device: struct qwen_device, in rank 0.
 *
 * `run' sends the pass to all ranks with layers of the run, and does not wait.
 * Each rank sends the rows to the next one, and the last one sends them to
 * rank 0, where `get' waits for them.  So several passes may be on their way;
 * they come back in order.
 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/mpi/mpi.h"

/* --------------------------------------------------------------- the device */

/* Tells all ranks, also those without layers, something about the model. */
static void
tell_all(struct qwen_mpi *d, enum qwen_mpi_what what)
{
	int i;

	for (i = 1; d->link->rank == 0 && i < d->link->n; i++) {
		qwen_mpi_begin(d, what, 0, 0, 0);
		qwen_mpi_order(d, i);
	}
}

static void
mpi_close(struct qwen_resident *r)
{
	struct qwen_mpi *d = qwen_mpi_of(r);
	int i;

	if (d->link != NULL && d->rank != NULL && !d->link->failed)
		tell_all(d, QWEN_MPI_CLOSE);
	/* rank 0 would wait for a rank that leaves unasked: all end with it */
	if (d->link != NULL && d->link->rank > 0 && !d->link->ended)
		d->link->calls->fail();
	for (i = 0; d->got != NULL && i < d->link->n; i++)
		free(d->got[i].p);
	qwen_mpi_close(d->link);
	free(d->got);
	free(d->rank);
	free(d->slots.free);
	free(d->states.free);
	qwen_text_fini(&d->out);
	free(d);
}

/* Makes the device the home of the layers of all ranks but this one. */
static void
settle(const struct qwen_mpi *d, unsigned char *home)
{
	size_t i, n = d->r.net->hp.n_layer;

	for (i = 0; i < n; i++)
		home[QWEN_MIXER(i)] = home[QWEN_FFN(i)] = d->rank[i] ==
		    d->link->rank ? 0 : (unsigned char)d->r.index;
	home[QWEN_HEAD(n)] = home[QWEN_MIXER(n)] = home[QWEN_FFN(n)] = 0;
}

static int
mpi_open(struct qwen_resident **out, struct qwen_engine *e,
    const struct qwen_net *net, unsigned char *home, size_t index,
    const struct qwen_wish *wish, struct qwen_err *err)
{
	struct qwen_mpi *d = qwen_alloc(1, sizeof *d);
	struct qwen_mpi_wish w;

	*out = NULL;
	if (d == NULL)
		return qwen_oom(err);
	d->r = (struct qwen_resident){ .dev = &qwen_mpi_device, .net = net,
	    .home = home, .index = index };
	d->got_slot = UINT32_MAX;
	if (qwen_mpi_wish_read(&w, wish, err) < 0 ||
	    qwen_mpi_open(&d->link, w.deadline_s, err) < 0) {
		free(d);
		return -1;
	}
	d->rank = NULL;
	d->got = qwen_alloc((size_t)d->link->n, sizeof *d->got);
	if (d->got == NULL || (d->rank = qwen_alloc(net->hp.n_layer, 1)) ==
	    NULL) {
		mpi_close(&d->r);
		return qwen_oom(err);
	}
	if (d->link->again)
		tell_all(d, QWEN_MPI_OPEN);
	if (qwen_mpi_agree(d, &w, e->pool, err) < 0) {
		free(d->rank);
		d->rank = NULL;
		mpi_close(&d->r);
		return -1;
	}
	settle(d, home);
	*out = &d->r;
	return 0;
}

/* --------------------------------------------------------- memory of a pass */

/* A pass on its way: the message of the last rank. */
struct flight {
	void	*p;
	size_t	 cap;
	void	*request;
};

struct qwen_mpi_work {
	struct qwen_work	 w;
	struct qwen_mpi		*d;
	float			*x;	/* the stream that put was given; it
					   belongs to the caller */
	struct flight		*flight;	/* a ring of cap_flight */
	size_t			 first, n, cap_flight;
	/* what all ranks have room for */
	size_t			 rows, shares, end;
};

static struct qwen_mpi_work *
work_of(struct qwen_work *w)
{
	return (struct qwen_mpi_work *)(void *)w;
}

static int
mpi_work_new(struct qwen_work **out, struct qwen_resident *r,
    struct qwen_err *err)
{
	struct qwen_mpi_work *w = qwen_alloc(1, sizeof *w);

	*out = NULL;
	if (w == NULL)
		return qwen_oom(err);
	w->w.r = r;
	w->d = qwen_mpi_of(r);
	*out = &w->w;
	return 0;
}

static void
mpi_work_free(struct qwen_work *work)
{
	struct qwen_mpi_work *w;
	size_t i;

	if (work == NULL)
		return;
	w = work_of(work);
	for (i = 0; i < w->cap_flight; i++) {
		if (w->flight[i].request != NULL)
			w->d->link->calls->drop(w->flight[i].request);
		free(w->flight[i].p);
	}
	free(w->flight);
	free(w);
}

/* Returns the bytes of what a rank sends for n rows. */
static size_t
rows_bytes(const struct qwen_net *net, size_t n, size_t n_share)
{
	return n_share * sizeof(struct qwen_mpi_good) +
	    n * net->hp.n_embd * sizeof(float);
}

static uint64_t
mpi_bytes(const struct qwen_resident *r, size_t n, size_t n_share, size_t end)
{
	uint64_t row = r->net->hp.n_embd * sizeof(float), all;

	(void)end;
	return __builtin_mul_overflow(2 * row + sizeof(struct qwen_mpi_row),
	    n, &all) || all > UINT64_MAX / 2 ? UINT64_MAX :
	    all + n_share * sizeof(struct qwen_mpi_share);
}

/* Asks the ranks for room; the first that has none says why. */
static int
ask_room(struct qwen_mpi *d, size_t n, size_t n_share, size_t end,
    struct qwen_err *err)
{
	int64_t got;
	int i, rc = 0;

	for (i = 1; i < d->link->n; i++) {
		if (!qwen_mpi_is_used(d, i))
			continue;
		qwen_mpi_begin(d, QWEN_MPI_FIT, 0, n, n_share);
		((struct qwen_mpi_command *)(void *)d->out.s)->c = end;
		qwen_mpi_order(d, i);
	}
	for (i = 1; i < d->link->n && !d->link->failed; i++) {
		if (!qwen_mpi_is_used(d, i))
			continue;
		got = qwen_mpi_next(d->link, i, QWEN_MPI_REPLY, &d->got[i].p,
		    &d->got[i].cap);
		if (got > 0 && rc == 0)
			rc = qwen_fail(err, QWEN_ENOMEM, "rank %d on %.*s: "
			    "%.*s", i, (int)strcspn(d->link->peer[i].name,
			    ","), d->link->peer[i].name, (int)got,
			    (char *)d->got[i].p);
	}
	return rc < 0 ? -1 : qwen_mpi_check(d->link, err);
}

/* With some to spare, so that a text which grows does not ask for each token. */
static int
mpi_fit(struct qwen_work *work, size_t n, size_t n_share, size_t end,
    struct qwen_err *err)
{
	struct qwen_mpi_work *w = work_of(work);
	size_t most = w->w.r->net->hp.n_ctx;

	/* a server's own passes: nothing is at home here then */
	if (memchr(w->w.r->home, (int)w->w.r->index, QWEN_HOMES(
	    w->w.r->net->hp.n_layer)) == NULL)
		return 0;
	if (w->d->link->rank > 0)
		return qwen_fail(err, QWEN_EUNSUP, "this process is rank %d, "
		    "which only serves rank 0", w->d->link->rank);
	if (rows_bytes(w->w.r->net, n, n_share) > INT_MAX / 2)
		return qwen_fail(err, QWEN_ERANGE, "%zu tokens in a pass are "
		    "too many for a message", n);
	if (n <= w->rows && n_share <= w->shares && end <= w->end)
		return 0;
	n = n > w->rows ? n : w->rows;
	n_share = n_share > w->shares ? n_share : w->shares;
	end = end > most / 2 ? most > end ? most : end : 2 * end;
	end = end > w->end ? end : w->end;
	if (ask_room(w->d, n, n_share, end, err) < 0)
		return -1;
	w->rows = n;
	w->shares = n_share;
	w->end = end;
	return 0;
}

static int
mpi_check(const struct qwen_resident *r, struct qwen_err *err)
{
	return qwen_mpi_check(qwen_mpi_of(r)->link, err);
}

/* ------------------------------------------------------------------- a pass */

static void
mpi_put(struct qwen_work *work, const struct qwen_pass *p, const float *x)
{
	(void)p;
	work_of(work)->x = (float *)(uintptr_t)x;
}

/* Makes room for one more pass that is on its way; NULL without memory. */
static struct flight *
add_flight(struct qwen_mpi_work *w, size_t bytes)
{
	struct flight *f;
	size_t i, cap = w->cap_flight;

	if (w->n == w->cap_flight) {
		if (qwen_grow(&w->flight, &cap, 2 * w->n + 4,
		    sizeof *w->flight) < 0)
			return NULL;
		memset(w->flight + w->n, 0, (cap - w->n) * sizeof *w->flight);
		/* the ring begins anew: what was before its first comes last */
		for (i = 0; i < w->first; i++) {
			struct flight t = w->flight[i];

			w->flight[i] = w->flight[w->n + i];
			w->flight[w->n + i] = t;
		}
		w->cap_flight = cap;
	}
	f = &w->flight[(w->first + w->n) % w->cap_flight];
	if (bytes > f->cap) {
		free(f->p);
		f->cap = 0;
		if ((f->p = qwen_alloc_large(bytes, 1)) == NULL)
			return NULL;
		f->cap = bytes;
	}
	w->n++;
	return f;
}

/* Returns the session's state, and how many of its blocks all ranks know. */
static struct qwen_mpi_state *
known_slots(const struct qwen_mpi *d, const struct qwen_memory *m,
    size_t *same)
{
	struct qwen_mpi_state *s = m->own[d->r.index - 1];
	size_t i;

	for (i = 0; i < m->n_slot && i < s->n_slot; i++) {
		if (s->slot[i] != ((struct qwen_mpi_slot *)m->slot[i]->own[
		    d->r.index - 1])->id)
			break;
	}
	*same = i;
	return s;
}

/* Adds a share to the message, and the slots that the ranks do not know. */
static void
add_share(struct qwen_mpi *d, const struct qwen_share *s)
{
	const struct qwen_memory *m = s->mem;
	struct qwen_mpi_share out = { .n = s->n, .n_sure = s->n_sure,
	    .pos = s->pos, .skip = s->skip, .want = s->want, .owed = s->owed,
	    .good = { .bad = atomic_load(&s->bad), .good =
	    atomic_load(&s->good) }, .n_slot = (uint32_t)m->n_slot };
	size_t same;

	out.id = known_slots(d, m, &same)->id;
	out.same = (uint32_t)same;
	qwen_text_add(&d->out, &out, sizeof out);
}

/* Adds the slots of all shares. */
static void
add_slots(struct qwen_mpi *d, const struct qwen_pass *p)
{
	const struct qwen_memory *m;
	size_t i, k, same;

	for (i = 0; i < p->n_share; i++) {
		m = p->share[i].mem;
		known_slots(d, m, &same);
		for (k = same; k < m->n_slot; k++)
			qwen_text_add(&d->out, &((struct qwen_mpi_slot *)
			    m->slot[k]->own[d->r.index - 1])->id,
			    sizeof(uint32_t));
	}
}

/* All ranks know the slots now; -1 without memory. */
static int
note_slots(struct qwen_mpi *d, const struct qwen_pass *p)
{
	struct qwen_mpi_state *s;
	const struct qwen_memory *m;
	size_t i, k, same;

	for (i = 0; i < p->n_share; i++) {
		m = p->share[i].mem;
		s = known_slots(d, m, &same);
		if (qwen_grow(&s->slot, &s->cap_slot, m->n_slot,
		    sizeof *s->slot) < 0)
			return qwen_mpi_fail(d->link, "no memory for a list "
			    "of blocks, to send to rank %d%s%s", 1);
		for (k = same; k < m->n_slot; k++)
			s->slot[k] = ((struct qwen_mpi_slot *)m->slot[k]->own[
			    d->r.index - 1])->id;
		s->n_slot = m->n_slot;
	}
	return 0;
}

/* Sends the pass to one rank, which has n halves of layers from first on. */
static void
send_pass(struct qwen_mpi_work *w, const struct qwen_pass *p, size_t first,
    size_t n, int from, int to, int rank)
{
	struct qwen_mpi *d = w->d;
	struct qwen_mpi_run run = { .n = p->n, .n_share = p->n_share,
	    .last = p->last, .first = first, .n_half = n, .from = from,
	    .to = to };
	size_t i;

	qwen_mpi_begin(d, QWEN_MPI_RUN, 0, 0, 0);
	run.command = *(struct qwen_mpi_command *)(void *)d->out.s;
	d->out.n = 0;
	qwen_text_add(&d->out, &run, sizeof run);
	for (i = 0; i < p->n; i++) {
		struct qwen_mpi_row row = { .slot = p->row[i].slot,
		    .id = p->row[i].id };

		memcpy(row.pos, p->row[i].pos, sizeof row.pos);
		qwen_text_add(&d->out, &row, sizeof row);
	}
	for (i = 0; i < p->n_share; i++)
		add_share(d, &p->share[i]);
	add_slots(d, p);
	if (from == 0)
		qwen_text_add(&d->out, w->x, p->n * d->r.net->hp.n_embd *
		    sizeof *w->x);
	qwen_mpi_order(d, rank);
}

/* Returns how many of the halves from first to end - 1 the same rank has. */
static size_t
run_of(const struct qwen_mpi *d, size_t first, size_t end)
{
	size_t i;

	for (i = first + 1; i < end && d->rank[i / 2] == d->rank[first / 2];
	    i++)
		;
	return i - first;
}

/* Begins to receive the rows that the last rank of the run will send. */
static int
expect(struct qwen_mpi_work *w, const struct qwen_pass *p, int rank)
{
	size_t bytes = rows_bytes(w->d->r.net, p->n, p->n_share);
	struct flight *f = add_flight(w, bytes);

	if (f == NULL)
		return qwen_mpi_fail(w->d->link, "no memory for the rows of "
		    "rank %d%s%s", rank);
	f->request = qwen_mpi_begin_receive(w->d->link, rank, QWEN_MPI_ROWS,
	    f->p, bytes);
	return f->request != NULL ? 0 : -1;
}

static void
mpi_run(struct qwen_work *work, struct qwen_pass *p, size_t first, size_t n)
{
	struct qwen_mpi_work *w = work_of(work);
	struct qwen_mpi *d = w->d;
	size_t i, k, end = first + n;
	int from = 0;

	if (d->link->failed || expect(w, p, d->rank[(end - 1) / 2]) < 0)
		return;
	for (i = first; i < end; i += k) {
		k = run_of(d, i, end);
		send_pass(w, p, i, k, from, i + k < end ? d->rank[(i + k) /
		    2] : 0, d->rank[i / 2]);
		from = d->rank[i / 2];
		/* as the rank does after this layer's mixer */
		if (2 * p->last >= i && 2 * p->last < i + k)
			qwen_pass_drop(p);
	}
	note_slots(d, p);
	for (i = first; i < end && p->layer != NULL; i++) {
		if (i % 2 != 0)
			p->layer(p->arg, i / 2);
	}
}

static void
mpi_get(struct qwen_work *work, const struct qwen_pass *p, float *x)
{
	struct qwen_mpi_work *w = work_of(work);
	size_t i, n = p->n * w->d->r.net->hp.n_embd;
	const struct qwen_mpi_good *good;
	struct flight *f;
	void *request;

	if (w->n == 0) {		/* nothing was sent: the link failed */
		memset(x, 0, n * sizeof *x);
		return;
	}
	f = &w->flight[w->first];
	request = f->request;
	f->request = NULL;
	w->first = (w->first + 1) % w->cap_flight;
	w->n--;
	if (qwen_mpi_wait(w->d->link, request) < 0) {
		memset(x, 0, n * sizeof *x);
		return;
	}
	good = f->p;
	for (i = 0; i < p->n_share; i++) {
		atomic_store(&p->share[i].bad, (size_t)good[i].bad);
		atomic_store(&p->share[i].good, (size_t)good[i].good);
	}
	memcpy(x, good + p->n_share, n * sizeof *x);
}

/* The embedding, the head and the MTP block stay in rank 0. */
const struct qwen_device qwen_mpi_device = {
	.name = "mpi", .remote = 1, .ranks = 1,
	.open = mpi_open, .close = mpi_close,
	.work_new = mpi_work_new, .work_free = mpi_work_free,
	.fit = mpi_fit, .check = mpi_check, .bytes = mpi_bytes,
	.put = mpi_put, .get = mpi_get, .run = mpi_run,
	.replay = qwen_mpi_replay,
	.slot_new = qwen_mpi_slot_new, .slot_free = qwen_mpi_slot_free,
	.slot_put = qwen_mpi_slot_put, .slot_get = qwen_mpi_slot_get,
	.slot_clear = qwen_mpi_slot_clear,
	.state_new = qwen_mpi_state_new, .state_free = qwen_mpi_state_free,
	.state_put = qwen_mpi_state_put, .state_get = qwen_mpi_state_get,
};
