/* SPDX-License-Identifier: ISC */
/*
 * serve.c - a rank that is not 0: it computes its layers of rank 0's passes, and
 * keeps keys, values and recurrent states of these layers.
 *
 * Sessions and slots have rank 0's numbers.  A session here has memory and a
 * list of blocks, but no tokens and no logits: rank 0 has these.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/mpi/mpi.h"
#include "engine/pass/pass.h"

struct server {
	struct qwen_model	*m;
	struct qwen_mpi		*d;
	struct qwen_cache	*c;
	struct qwen_session	**session;	/* by number; or NULL */
	size_t			 cap_session;
	struct qwen_kv_slot	**slot;		/* by number; or NULL */
	size_t			 cap_slot;
	struct qwen_session	*window;	/* to look at one slot through */
	void			*in, *rows;	/* messages, of rank 0 and of the
						   rank before */
	size_t			 cap_in, cap_rows;
	struct qwen_text	 sent;		/* rows on their way, or done */
	void			*sending;
};

/* Rank 0 and this rank do not understand each other: a mistake of ours. */
static int
fail_message(struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EFORMAT, "rank 0 has sent a message that "
	    "this rank cannot read");
}

/* ------------------------------------------------------------ slots, sessions */

/* Sets array[id] to a place for the pointer; -1 without memory. */
static int
make_room(void *array, size_t *cap, uint32_t id, struct qwen_err *err)
{
	size_t old = *cap;
	void **p;

	if (id < old)
		return 0;
	if (qwen_grow(array, cap, (size_t)id + 1, sizeof *p) < 0)
		return qwen_oom(err);
	p = *(void ***)array;
	memset(p + old, 0, (*cap - old) * sizeof *p);
	return 0;
}

/* Returns the slot with this number, new ones all zero; NULL without memory. */
static struct qwen_kv_slot *
find_slot(struct server *s, uint32_t id, struct qwen_err *err)
{
	if (make_room(&s->slot, &s->cap_slot, id, err) < 0)
		return NULL;
	if (s->slot[id] == NULL) {
		if (qwen_cache_prepare(s->c, 1, err) < 0)
			return NULL;
		s->slot[id] = qwen_cache_take(s->c);
	}
	return s->slot[id];
}

/* Lets the window look at a slot, with what devices have brought to the host. */
static int
open_window(struct server *s, uint32_t id, struct qwen_err *err)
{
	struct qwen_kv_slot *slot = find_slot(s, id, err);

	if (slot == NULL)
		return -1;
	qwen_blocks_place(s->window, 0, slot);
	qwen_block_fetch(s->window, 0);
	return 0;
}

static struct qwen_session *
find_session(const struct server *s, uint32_t id)
{
	return id < s->cap_session ? s->session[id] : NULL;
}

/* Frees a session, whose slots stay. */
static void
free_session(struct qwen_session *s)
{
	if (s != NULL)
		s->mem.n_slot = 0;
	qwen_session_free(s);
}

static int
new_session(struct server *s, struct qwen_session **out, struct qwen_err *err)
{
	struct qwen_mpi *d = s->d;
	size_t i;

	if (qwen_session_new_in(out, s->c, err) < 0)
		return -1;
	/* states of other ranks' layers are no business of this rank */
	for (i = 0; i < d->r.net->hp.n_layer; i++) {
		if (d->rank[i] != d->link->rank)
			(*out)->mem.layer[i].s = (*out)->mem.layer[i].conv =
			    NULL;
	}
	return 0;
}

static int
state_new(struct server *s, uint32_t id, int journal, struct qwen_err *err)
{
	if (make_room(&s->session, &s->cap_session, id, err) < 0)
		return -1;
	free_session(s->session[id]);
	s->session[id] = NULL;
	if (new_session(s, &s->session[id], err) < 0)
		return -1;
	return journal && qwen_journal_need(s->session[id]) < 0 ?
	    qwen_oom(err) : 0;
}

/* --------------------------------------------------------------------- passes */

/* What follows in a message; NULL, and *left is 0, if there is too little. */
static const void *
take(const char **p, size_t *left, size_t n, size_t size)
{
	const char *was = *p;
	size_t bytes;

	if (qwen_mul(n, size, &bytes) < 0 || bytes > *left) {
		*left = 0;
		return NULL;
	}
	*p += bytes;
	*left -= bytes;
	return was;
}

/* Gives a session the list of its blocks. */
static int
list_slots(struct server *s, struct qwen_session *q,
    const struct qwen_mpi_share *in, const uint32_t *id, struct qwen_err *err)
{
	struct qwen_kv_slot *slot;
	size_t b, i;

	if (qwen_blocks_grow_lists(q, in->n_slot) < 0)
		return qwen_oom(err);
	for (b = in->same; b < in->n_slot; b++) {
		if ((slot = find_slot(s, id[b - in->same], err)) == NULL)
			return -1;
		qwen_blocks_place(q, b, slot);
	}
	q->mem.n_slot = in->n_slot;
	for (i = 0; i < q->mem.n_layer; i++) {
		if (q->mem.layer[i].kv_block_bytes != 0)
			q->mem.layer[i].n_block = in->n_slot;
	}
	return 0;
}

/* Sets a share of the pass, and brings the session to where it is computed. */
static int
take_share(struct server *s, struct qwen_share *out,
    const struct qwen_mpi_share *in, const char **p, size_t *left,
    struct qwen_err *err)
{
	struct qwen_session *q = find_session(s, in->id);
	const uint32_t *id;

	if (q == NULL || in->same > in->n_slot || in->same > q->mem.n_slot ||
	    in->want > in->n || in->n_sure > in->n ||
	    (id = take(p, left, in->n_slot - in->same, sizeof *id)) == NULL)
		return fail_message(err);
	if (list_slots(s, q, in, id, err) < 0)
		return -1;
	*out = (struct qwen_share){ .mem = &q->mem, .n = (size_t)in->n,
	    .n_sure = (size_t)in->n_sure, .pos = (size_t)in->pos,
	    .skip = (size_t)in->skip, .want = (size_t)in->want,
	    .owed = (size_t)in->owed };
	atomic_store(&out->bad, (size_t)in->good.bad);
	atomic_store(&out->good, (size_t)in->good.good);
	q->n_tokens = (size_t)in->pos;
	return qwen_memory_send(q, err);
}

/* Reads rows and shares; what follows is the stream, if rank 0 sent it. */
static int
take_pass(struct server *s, struct qwen_pass *p, const char **at, size_t *left,
    const struct qwen_mpi_run *run, struct qwen_err *err)
{
	const struct qwen_mpi_row *row;
	const struct qwen_mpi_share *share;
	size_t i, sum = 0;

	if (run->n > s->c->pass.cap || run->n_share > s->c->pass.cap_share ||
	    (row = take(at, left, (size_t)run->n, sizeof *row)) == NULL ||
	    (share = take(at, left, (size_t)run->n_share, sizeof *share)) ==
	    NULL)
		return fail_message(err);
	for (i = 0; i < run->n; i++) {
		p->row[i] = (struct qwen_input){ .id = row[i].id,
		    .slot = (size_t)row[i].slot };
		memcpy(p->row[i].pos, row[i].pos, sizeof row[i].pos);
	}
	for (i = 0; i < run->n_share; i++) {
		sum += (size_t)share[i].n;
		if (take_share(s, &p->share[i], &share[i], at, left, err) < 0)
			return -1;
	}
	if (sum != run->n)
		return fail_message(err);
	qwen_pass_number(p);
	return 0;
}

/* Sets the residual stream, from rank 0's message or from the rank before. */
static int
take_stream(struct server *s, struct qwen_pass *p, float *x,
    const struct qwen_mpi_run *run, const char *at, size_t left,
    struct qwen_err *err)
{
	size_t bytes = p->n * s->m->net.hp.n_embd * sizeof *x, i;
	const struct qwen_mpi_good *good;
	int64_t n;

	if (run->from != 0) {
		n = qwen_mpi_next(s->d->link, run->from, QWEN_MPI_ROWS,
		    &s->rows, &s->cap_rows);
		if (n < 0)
			return -1;
		at = s->rows;
		left = (size_t)n;
		good = take(&at, &left, p->n_share, sizeof *good);
		for (i = 0; good != NULL && i < p->n_share; i++) {
			atomic_store(&p->share[i].bad, (size_t)good[i].bad);
			atomic_store(&p->share[i].good, (size_t)good[i].good);
		}
	}
	/* a pass whose shares are all bad has rows that were not dropped */
	if (left < bytes)
		return fail_message(err);
	memcpy(x, at, bytes);
	return 0;
}

/* Within a pass: a sign of life, and the rows before it may move on. */
static void
show_life(void *arg, size_t layer)
{
	struct server *s = arg;

	(void)layer;
	qwen_mpi_sign(s->d->link);
	qwen_mpi_progress(s->d->link, &s->sending);
}

/* Sends the rows to the next rank, and does not wait until they are there. */
static int
send_stream(struct server *s, const struct qwen_pass *p, const float *x,
    int to)
{
	struct qwen_mpi_good good;
	void *before = s->sending;
	size_t i;

	s->sending = NULL;
	if (qwen_mpi_wait(s->d->link, before) < 0)
		return -1;
	s->sent.n = 0;
	for (i = 0; i < p->n_share; i++) {
		good.bad = atomic_load(&p->share[i].bad);
		good.good = atomic_load(&p->share[i].good);
		qwen_text_add(&s->sent, &good, sizeof good);
	}
	qwen_text_add(&s->sent, x, p->n * s->m->net.hp.n_embd * sizeof *x);
	if (s->sent.failed)
		return qwen_mpi_fail(s->d->link, "no memory for rows to rank "
		    "%d%s%s", to);
	s->sending = qwen_mpi_begin_send(s->d->link, to, QWEN_MPI_ROWS,
	    s->sent.s, s->sent.n);
	return s->sending != NULL ? 0 : -1;
}

static int
run_pass(struct server *s, size_t n, struct qwen_err *err)
{
	const struct qwen_mpi_run *run = s->in;
	struct qwen_pass_memory *mem = &s->c->pass;
	const char *at = (const char *)s->in + sizeof *run;
	size_t left = n > sizeof *run ? n - sizeof *run : 0;
	struct qwen_pass p = { .row = mem->row, .owner = mem->owner,
	    .share = mem->share, .layer = show_life, .arg = s };

	if (n < sizeof *run)
		return fail_message(err);
	p.n_share = (size_t)run->n_share;
	p.last = (size_t)run->last;
	if (run->first + run->n_half > 2 * s->m->net.hp.n_layer ||
	    run->n_half == 0 || run->to < 0 || run->to >= s->d->link->n ||
	    run->from < 0 || run->from >= s->d->link->n)
		return fail_message(err);
	if (take_pass(s, &p, &at, &left, run, err) < 0 ||
	    take_stream(s, &p, mem->x, run, at, left, err) < 0)
		return -1;
	qwen_pass_some(s->c, &p, mem->x, (size_t)run->first,
	    (size_t)run->n_half);
	return send_stream(s, &p, mem->x, run->to);
}

/* ------------------------------------------------------------------- commands */

static int
reply(struct server *s, const void *p, size_t n)
{
	return qwen_mpi_send(s->d->link, 0, QWEN_MPI_REPLY, p, n);
}

static int
fit(struct server *s, const struct qwen_mpi_command *c)
{
	struct qwen_err err = { .msg = "" };

	if (qwen_pass_fit(s->c, (size_t)c->a, (size_t)c->b, (size_t)c->c, 0,
	    &err) == 0)
		err.msg[0] = '\0';
	return reply(s, err.msg, strlen(err.msg));
}

/* The block of a layer in the window. */
static char *
block_of(const struct server *s, size_t layer)
{
	return (char *)s->window->mem.layer[layer].block[0];
}

static int
put_slot(struct server *s, const struct qwen_mpi_command *c, const char *p,
    size_t n, struct qwen_err *err)
{
	size_t layer = (size_t)c->a;

	if (layer >= s->m->net.hp.n_layer || !qwen_mpi_has_blocks(s->d, layer,
	    s->d->link->rank) || n != s->window->mem.layer[layer].kv_block_bytes)
		return fail_message(err);
	if (open_window(s, c->id, err) < 0)
		return -1;
	memcpy(block_of(s, layer), p, n);
	s->window->mem.slot[0]->there = 0;
	return 0;
}

static int
clear_slot(struct server *s, const struct qwen_mpi_command *c,
    struct qwen_err *err)
{
	struct qwen_kv_shape shape = qwen_kv_shape_of(&s->m->net.hp);
	size_t i;

	if (c->a > c->b || c->b > QWEN_KV_BLOCK)
		return fail_message(err);
	if (open_window(s, c->id, err) < 0)
		return -1;
	for (i = 0; i < s->m->net.hp.n_layer; i++) {
		if (qwen_mpi_has_blocks(s->d, i, s->d->link->rank))
			qwen_kv_clear(&shape, (uint16_t *)(void *)block_of(s,
			    i), (size_t)c->a, (size_t)c->b);
	}
	s->window->mem.slot[0]->there = 0;
	return 0;
}

static int
get_slot(struct server *s, uint32_t id, struct qwen_err *err)
{
	struct qwen_text out = { 0 };
	size_t i;
	int rc = -1;

	if (open_window(s, id, err) < 0)
		return -1;
	for (i = 0; i < s->m->net.hp.n_layer; i++) {
		if (qwen_mpi_has_blocks(s->d, i, s->d->link->rank))
			qwen_text_add(&out, block_of(s, i),
			    s->window->mem.layer[i].kv_block_bytes);
	}
	rc = out.failed ? qwen_oom(err) : reply(s, out.s, out.n);
	qwen_text_fini(&out);
	return rc;
}

static int
get_state(struct server *s, struct qwen_session *q, struct qwen_err *err)
{
	struct qwen_text out = { 0 };
	int rc;

	qwen_state_fetch(q);
	qwen_mpi_states_add(s->d, s->d->link->rank, &q->mem, &out);
	rc = out.failed ? qwen_oom(err) : reply(s, out.s, out.n);
	qwen_text_fini(&out);
	return rc;
}

/* A command about a session. */
static int
obey_state(struct server *s, const struct qwen_mpi_command *c, const char *p,
    size_t n, struct qwen_err *err)
{
	struct qwen_session *q = find_session(s, c->id);

	if (q == NULL)
		return fail_message(err);
	switch (c->what) {
	case QWEN_MPI_STATE_FREE:
		free_session(q);
		s->session[c->id] = NULL;
		return 0;
	case QWEN_MPI_STATE_PUT:
		qwen_state_fetch(q);
		if (qwen_mpi_states_take(s->d, s->d->link->rank, &q->mem, p,
		    n) < 0)
			return fail_message(err);
		qwen_state_changed(q);
		return 0;
	case QWEN_MPI_STATE_GET:
		return get_state(s, q, err);
	case QWEN_MPI_REPLAY:
		if (q->mem.journal == NULL)
			return fail_message(err);
		qwen_journal_replay(q, (size_t)c->a, (size_t)c->b);
		return 0;
	}
	return fail_message(err);
}

/* Does what a message of n bytes says; 2: rank 0 opens the next model. */
static int
obey(struct server *s, size_t n, struct qwen_err *err)
{
	const struct qwen_mpi_command *c = s->in;
	const char *more = (const char *)s->in + sizeof *c;

	if (n < sizeof *c)
		return fail_message(err);
	switch (c->what) {
	case QWEN_MPI_FIT:
		return fit(s, c);
	case QWEN_MPI_RUN:
		return run_pass(s, n, err);
	case QWEN_MPI_SLOT_PUT:
		return put_slot(s, c, more, n - sizeof *c, err);
	case QWEN_MPI_SLOT_CLEAR:
		return clear_slot(s, c, err);
	case QWEN_MPI_SLOT_GET:
		return get_slot(s, c->id, err);
	case QWEN_MPI_STATE_NEW:
		return state_new(s, c->id, c->a != 0, err);
	case QWEN_MPI_CLOSE:
		return 0;	/* and nothing more about this model */
	case QWEN_MPI_OPEN:
		return 2;
	}
	return obey_state(s, c, more, n - sizeof *c, err);
}

/* ---------------------------------------------------------------- the server */

static int
begin(struct server *s, struct qwen_err *err)
{
	struct qwen_placement *place = &s->m->place;
	size_t i;

	/* the layers of other ranks are at home nowhere here: on an idle CPU */
	for (i = 0; i < QWEN_HOMES(s->m->net.hp.n_layer); i++)
		place->home[i] = place->home[i] == s->d->r.index ? 0 :
		    place->home[i];
	if (qwen_cache_new(&s->c, s->m, 0, err) < 0 ||
	    qwen_session_new_in(&s->window, s->c, err) < 0)
		return -1;
	if (qwen_blocks_grow_lists(s->window, 1) < 0)
		return qwen_oom(err);
	return 0;
}

static void
finish(struct server *s)
{
	size_t i;

	if (s->sending != NULL)
		qwen_mpi_wait(s->d->link, s->sending);
	for (i = 0; i < s->cap_session; i++)
		free_session(s->session[i]);
	free_session(s->window);
	for (i = 0; i < s->cap_slot; i++) {
		if (s->slot[i] != NULL)
			qwen_cache_drop(s->c, s->slot[i]);
	}
	qwen_cache_free(s->c);
	free(s->session);
	free(s->slot);
	free(s->in);
	free(s->rows);
	qwen_text_fini(&s->sent);
}

int
qwen_model_serve(struct qwen_model *m, struct qwen_err *err)
{
	struct server s = { .m = m };
	int64_t n;
	int rc;

	if (m->place.n < 2 || m->place.on[1]->dev != &qwen_mpi_device)
		return 0;
	s.d = qwen_mpi_of(m->place.on[1]);
	if (s.d->link->rank == 0)
		return 0;
	rc = begin(&s, err);
	while (rc == 0 && (n = qwen_mpi_next(s.d->link, 0, QWEN_MPI_COMMAND,
	    &s.in, &s.cap_in)) >= 0)
		rc = obey(&s, (size_t)n, err);
	if (s.d->link->ended)
		rc = 1;
	else if (s.d->link->failed)
		rc = qwen_mpi_check(s.d->link, err);
	if (rc < 0)
		qwen_fail_in(err, "rank %d", s.d->link->rank);
	finish(&s);
	s.d->link->ended |= rc == 2;
	return rc;
}
