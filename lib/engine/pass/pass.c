/* SPDX-License-Identifier: ISC */
/*
 * pass.c - a pass over the devices:
 *
 *	x = embedding; x through runs of layers, each on the device that is its home;
 *	logits = head(output norm(x))
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/pass/pass.h"

/* ------------------------------------------------------------------- memory */

/* Makes room for all members of the host's memory that grow with n. */
static int
fit_rows(struct qwen_pass_memory *m, const struct qwen_hparams *h, size_t n)
{
	size_t cap[5] = { m->cap, m->cap, m->cap, m->cap, m->cap };

	if (n <= m->cap)
		return 0;
	free(m->x);
	m->x = NULL;
	m->cap = 0;
	if (qwen_grow(&m->row, &cap[0], n, sizeof *m->row) < 0 ||
	    qwen_grow(&m->owner, &cap[1], n, sizeof *m->owner) < 0 ||
	    qwen_grow(&m->at, &cap[2], n, sizeof *m->at) < 0 ||
	    qwen_grow(&m->y, &cap[3], n, sizeof *m->y) < 0 ||
	    (m->x = qwen_alloc_large(n * h->n_embd, sizeof *m->x)) == NULL)
		return -1;
	m->cap = n;
	return 0;
}

static int
fit_shares(struct qwen_pass_memory *m, size_t n)
{
	size_t cap[3] = { m->cap_share, m->cap_share, m->cap_share };

	if (n <= m->cap_share)
		return 0;
	m->cap_share = 0;
	if (qwen_grow(&m->share, &cap[0], n, sizeof *m->share) < 0 ||
	    qwen_grow(&m->part, &cap[1], n, sizeof *m->part) < 0 ||
	    qwen_grow(&m->progress, &cap[2], n, sizeof *m->progress) < 0)
		return -1;
	m->cap_share = n;
	return 0;
}

int
qwen_pass_fit(struct qwen_cache *c, size_t n, size_t n_share, size_t end,
    int all, struct qwen_err *err)
{
	const struct qwen_placement *place = &c->model->place;
	const struct qwen_net *net = &c->model->net;
	struct qwen_pass_memory *m = &c->pass;
	size_t i, first, rows;

	for (i = 0; i < place->n; i++) {
		const struct qwen_device *dev = place->on[i]->dev;

		if (c->work[i] == NULL && dev->work_new(&c->work[i],
		    place->on[i], err) < 0)
			return -1;
		while (dev->fit(c->work[i], dev->ranks ?
		    qwen_pieces_rows(c, n) : n, n_share, end, err) < 0) {
			if (qwen_device_lost(c->model, NULL) == 0)
				return -1;
			qwen_recover(c->model);
		}
	}
	rows = net->mtp.on ? qwen_draft_rows(net, &first) : 0;
	if (qwen_pieces_fit(c, n, n_share) < 0 ||
	    fit_rows(m, &net->hp, n) < 0 || fit_shares(m, n_share) < 0 ||
	    (rows > 0 && m->draft == NULL && (m->draft =
	    qwen_alloc_large(rows, sizeof *m->draft)) == NULL) ||
	    (all && m->logits == NULL && (m->logits = qwen_alloc_large(
	    QWEN_HEAD_ROWS * net->hp.n_vocab, sizeof *m->logits)) == NULL))
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for a batch of %zu tokens", n);
	return 0;
}

uint64_t
qwen_pass_bytes(const struct qwen_model *m, size_t n, size_t n_share,
    size_t end)
{
	const struct qwen_pass_memory *host = NULL;
	uint64_t sum = n * (sizeof *host->row + sizeof *host->owner +
	    sizeof *host->at + sizeof *host->y), bytes;
	size_t i, first;

	if (m->net.mtp.on)
		sum += (qwen_draft_rows(&m->net, &first) +
		    n * m->net.hp.n_embd) * sizeof(float);
	for (i = 0; i < m->place.n; i++) {
		bytes = m->place.on[i]->dev->bytes(m->place.on[i], n, n_share,
		    end);
		sum = bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes;
	}
	return sum;
}

/* ------------------------------------------------------------------- layers */

/* A pass and its parts. */
struct run {
	struct qwen_cache	*c;
	const struct qwen_net	*net;
	struct qwen_pass	 p;
	struct qwen_pass_part	*part;		/* that of each share */
	struct qwen_watch	 watch;
	const unsigned char	*home;		/* QWEN_HOMES; NULL: the CPU */
	float			*x;		/* the stream between devices */
	struct qwen_work	*work;		/* the device that has the stream */
	const struct qwen_device *dev;
	struct qwen_err		 err;		/* of bring_memory() */
};

/* Moves the residual stream to the home of half a layer, or of the head. */
static void
go_home(struct run *r, size_t half)
{
	struct qwen_work *work = r->c->work[r->home != NULL ?
	    r->home[half] : 0];

	if (work == r->work)
		return;
	if (r->work != NULL)
		r->dev->get(r->work, &r->p, r->x);
	r->dev = work->r->dev;
	r->dev->put(work, &r->p, r->x);
	r->work = work;
}

/*
 * Makes the residual stream from embeddings, where the first layer is at home, or
 * on the CPU.
 */
static void
embed(struct run *r)
{
	r->work = r->c->work[r->home != NULL ? r->home[0] : 0];
	if (r->work->r->dev->embed == NULL)
		r->work = r->c->work[0];
	r->dev = r->work->r->dev;
	r->dev->embed(r->work, &r->p);
}

/* Returns how many halves of layers from i to end - 1 have the same home. */
static size_t
run_of(const struct run *r, size_t i, size_t end)
{
	size_t n = 1;

	while (i + n < end && (r->home == NULL ||
	    r->home[i + n] == r->home[i]))
		n++;
	return n;
}

/* Takes all rows through halves i to end - 1. */
static void
run_halves(struct run *r, size_t i, size_t end)
{
	size_t n;

	for (; i < end && qwen_any_good(&r->p); i += n) {
		n = run_of(r, i, end);
		go_home(r, i);
		r->dev->run(r->work, &r->p, i, n);
	}
}

void
qwen_pass_start(struct qwen_cache *c, struct qwen_pass *p, float *x,
    size_t end)
{
	struct run r = { .c = c, .net = &c->model->net, .p = *p, .x = x,
	    .home = c->model->place.home };

	embed(&r);
	run_halves(&r, 0, end);
	r.dev->get(r.work, &r.p, x);
	*p = r.p;
}

void
qwen_pass_some(struct qwen_cache *c, struct qwen_pass *p, float *x,
    size_t first, size_t n)
{
	struct run r = { .c = c, .net = &c->model->net, .p = *p, .x = x,
	    .home = c->model->place.home };

	run_halves(&r, first, first + n);
	if (r.work != NULL)
		r.dev->get(r.work, &r.p, x);
	*p = r.p;
}

/*
 * Takes all rows through all layers and the output norm. Returns 0 if every
 * share has a NaN or infinity.
 */
static int
run_layers(struct run *r)
{
	int hidden = r->net->mtp.on;
	size_t i;

	if (r->home == NULL || !qwen_pieces_run(r->c, &r->p)) {
		embed(r);
		run_halves(r, 0, 2 * r->net->hp.n_layer);
	}
	if (!qwen_any_good(&r->p))
		return 0;
	for (i = 0; i < r->p.n_share && !hidden; i++)
		hidden = r->part[i].hidden;
	go_home(r, QWEN_HEAD(r->net->hp.n_layer));
	r->dev->norm(r->work, &r->p, QWEN_HEAD_OUTPUT, hidden ?
	    r->c->pass.x : NULL);
	return 1;
}

/* ------------------------------------------------------------------- logits */

struct check {
	struct run	*r;
	const uint32_t	*at;
	float		**y;
	size_t		 per_row;	/* items */
};

/* Numbers that one thread looks at. */
#define CHECK_PART 16384

/*
 * Returns 1 if a number is NaN or infinite. It has no branches, so it is
 * vectorised.
 */
static int
any_bad(const float *x, size_t n)
{
	unsigned bad = 0;
	uint32_t bits;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&bits, x + i, sizeof bits);
		bad |= (bits & 0x7f800000u) == 0x7f800000u;
	}
	return bad != 0;
}

static void
do_check(void *arg, size_t item, int thread)
{
	const struct check *c = arg;
	const struct qwen_hparams *h = &c->r->net->hp;
	size_t i = item / c->per_row, at = item % c->per_row * CHECK_PART;
	size_t n = h->n_vocab - at;

	(void)thread;
	if (any_bad(c->y[i] + at, n < CHECK_PART ? n : CHECK_PART))
		qwen_note_bad(&c->r->p, c->at[i], 2 * h->n_layer + 1);
}

/*
 * Computes the logits of rows at[i] to y[i], and checks that they are finite.
 */
static void
run_head(struct run *r, const uint32_t *at, size_t n, float **y)
{
	struct check c = { r, at, y, (r->net->hp.n_vocab + CHECK_PART - 1) /
	    CHECK_PART };

	r->dev->head(r->work, &r->p, QWEN_HEAD_OUTPUT, at, n, y);
	qwen_pool_run(r->c->model->place.pool, do_check, &c, n * c.per_row);
}

/* Gives a row to the part's callback, but once; returns 0 if that fails. */
static int
give_row(struct qwen_pass_part *p, size_t pos, const float *y)
{
	if (p->row == NULL || pos < p->told)
		return 1;
	p->failed = p->row(p->arg, pos, y, &p->err);
	p->told = pos + !p->failed;
	return !p->failed;
}

/* Gives the logits of row t, at y, to the part's callback and session. */
static void
tell(struct run *r, size_t t, const float *y)
{
	struct qwen_share *s = &r->p.share[r->p.owner[t]];
	struct qwen_pass_part *p = &r->part[r->p.owner[t]];
	size_t i = t - s->first;

	if (p->failed || atomic_load(&s->bad) != SIZE_MAX || i >= s->n_sure)
		return;
	if (!give_row(p, s->pos + i, y))
		return;
	if (i + 1 < s->n_sure)
		return;
	if (y != p->s->logits)
		memcpy(p->s->logits, y, r->net->hp.n_vocab * sizeof *y);
	p->s->have_logits = 1;
}

/* Gives the hidden state of row t, which pass.x has, to the part's callback. */
static void
tell_hidden(struct run *r, size_t t)
{
	struct qwen_share *s = &r->p.share[r->p.owner[t]];
	struct qwen_pass_part *p = &r->part[r->p.owner[t]];
	size_t n = r->net->hp.n_embd;
	const float *x = r->c->pass.x + t * n;

	if (p->failed)
		return;
	if (any_bad(x, n))
		qwen_note_bad(&r->p, t, 2 * r->net->hp.n_layer + 2);
	if (atomic_load(&s->bad) == SIZE_MAX)
		give_row(p, s->pos + t - s->first, x);
}

/*
 * Returns where the logits of row t go; NULL if this round has no room for
 * them.
 */
static float *
place_of(struct run *r, size_t t, size_t *room)
{
	const struct qwen_share *s = &r->p.share[r->p.owner[t]];
	const struct qwen_pass_part *p = &r->part[r->p.owner[t]];
	size_t i = t - s->first;

	assert(p->logits != QWEN_LOGITS_NONE);
	if (i >= s->n_sure)
		return p->s->ahead->row[i - s->n_sure];
	if (p->logits == QWEN_LOGITS_LAST)
		return p->s->logits;
	return *room < QWEN_HEAD_ROWS ? r->c->pass.logits +
	    (*room)++ * r->net->hp.n_vocab : NULL;
}

/*
 * Computes the logits of all wanted rows, many at a time. Those of a last token
 * and of drafts go to their session's memory, others to a shared one of
 * QWEN_HEAD_ROWS rows.
 */
static void
run_heads(struct run *r)
{
	uint32_t *at = r->c->pass.at;
	float **y = r->c->pass.y;
	size_t i, k, m, room, n = qwen_pass_wanted(&r->p, at);

	for (i = 0; i < n; i += m) {
		m = 1;
		if (r->part[r->p.owner[at[i]]].hidden) {
			tell_hidden(r, at[i]);
			continue;
		}
		room = 0;
		for (m = 0; i + m < n; m++) {
			if (r->part[r->p.owner[at[i + m]]].hidden ||
			    (y[m] = place_of(r, at[i + m], &room)) == NULL)
				break;
		}
		run_head(r, at + i, m, y);
		for (k = 0; k < m; k++)
			tell(r, at[i + k], y[k]);
	}
}

/* ------------------------------------------------------------------- passes */

/* Returns the first row whose logits are wanted; the rest of them follows. */
static size_t
first_wanted(const struct qwen_pass_part *p, const struct qwen_share *s)
{
	if (p->logits == QWEN_LOGITS_ALL)
		return 0;
	return p->logits == QWEN_LOGITS_LAST && p->stop ? s->n_sure - 1 : s->n;
}

static void
begin_part(struct qwen_pass_part *p, struct qwen_share *s)
{
	int rc;

	*s = (struct qwen_share){ .mem = &p->s->mem, .pos = p->s->n_tokens,
	    .n = p->n_tokens + p->n_guess, .n_sure = p->n_tokens,
	    .owed = qwen_ahead_owed(p->s), .tracing = p->s->tracing };
	atomic_store(&s->bad, SIZE_MAX);
	atomic_store(&s->good, p->n_guess);
	/* the caller has reserved the tokens' places */
	assert(p->n_tokens > 0 && s->pos + p->n_tokens <= p->s->cap_tokens);
	s->want = first_wanted(p, s);
	p->failed = qwen_session_check(p->s, &p->err) < 0;
	p->n_mtp = 0;
	p->s->have_logits = 0;
	if (s->tracing == NULL)
		return;
	rc = qwen_trace_begin(s->tracing, s->pos, s->n_sure, &p->err);
	if (rc == 0 || (rc > 0 && (!qwen_trace_block(s->tracing) ||
	    qwen_mtp_whole(p->s))))
		return;
	if (rc > 0)
		qwen_fail(&p->err, QWEN_EMISMATCH, "the MTP block cannot be "
		    "traced: the session lacks the inputs of its next rows");
	p->failed = 1;
	s->tracing = NULL;
}

/* Brings what the sessions have to the host if the pass is watched. */
static void
bring_back(struct run *r)
{
	int watched = r->watch.inputs != NULL;
	size_t i;

	for (i = 0; i < r->p.n_share && r->c->model->place.n > 1; i++)
		watched |= r->part[i].s->tracing != NULL;
	for (i = 0; i < r->p.n_share && watched; i++)
		qwen_memory_return(r->part[i].s);
}

/*
 * Brings what the sessions have to the devices of their layers; -1 with r->err.
 * Remote devices do not call the hook, so a pass with a hook runs on the CPU
 * alone.
 */
static int
bring_memory(struct run *r)
{
	size_t i;

	r->c->pass.cpu_only = r->p.see != NULL;
	r->home = r->p.see != NULL ? NULL : r->c->model->place.home;
	for (i = 0; i < r->p.n_share; i++) {
		struct qwen_session *s = r->part[i].s;

		if (r->p.see != NULL)
			qwen_blocks_changed(s);	/* they are on the host */
		else if (qwen_memory_send(s, &r->err) < 0)
			return -1;
	}
	return 0;
}

const float *
qwen_pass_span_row(const struct qwen_pass_part *p, size_t pos)
{
	const struct qwen_span_rows *r;
	size_t k;

	for (k = 0; k < p->n_spans; k++) {
		r = &p->spans[k];
		if (pos >= r->span.start && pos - r->span.start < r->span.n)
			return r->rows + (pos - r->span.start) *
			    qwen_net_row(&p->s->model->net);
	}
	return NULL;
}

/* Returns row i of a part. */
static struct qwen_input
input_of(const struct qwen_pass_part *p, const struct qwen_share *s, size_t i)
{
	const struct qwen_model *m = p->s->model;
	size_t pos = s->pos + i;
	struct qwen_input in = { .id = i < s->n_sure ? p->tokens[i] :
	    p->guess[i - s->n_sure], .slot = pos };

	qwen_spans_place(p->s, pos, in.pos);
	if (in.id < 0)
		in.vec = qwen_pass_span_row(p, pos);
	if (in.id < 0 && m->net.hp.n_deepstack > 0)
		in.deep = in.vec + m->net.hp.n_embd;
	assert((in.id < 0) == (in.vec != NULL));
	return in;
}

/* Fills in the rows and the hook; -1 without memory. */
static int
begin(struct run *r)
{
	size_t i, t;

	for (i = 0; i < r->p.n_share; i++) {
		begin_part(&r->part[i], &r->p.share[i]);
		r->watch.trace |= r->p.share[i].tracing != NULL;
	}
	if (r->watch.trace || r->watch.inputs != NULL)
		r->p.see = qwen_watch_see;
	r->p.last = r->net->mtp.on || r->p.see != NULL ? SIZE_MAX :
	    r->net->hp.n_layer - 1;
	if (bring_memory(r) < 0)
		return -1;
	if (r->net->mtp.on)
		qwen_mtp_begin(r->part, r->p.n_share);
	qwen_pass_number(&r->p);
	for (t = 0; t < r->p.n; t++) {
		const struct qwen_share *s = &r->p.share[r->p.owner[t]];

		r->p.row[t] = input_of(&r->part[r->p.owner[t]], s,
		    t - s->first);
	}
	return 0;
}

static int
fail_bad(size_t place, size_t n_layer, struct qwen_err *err)
{
	if (place == QWEN_PLACE_EMBEDDING)
		return qwen_fail(err, QWEN_ENUMERIC,
		    "the embedding has a value that is NaN or infinite");
	if (place > 2 * n_layer + 1)
		return qwen_fail(err, QWEN_ENUMERIC,
		    "the hidden state after output_norm has a value that is "
		    "NaN or infinite");
	if (place > 2 * n_layer)
		return qwen_fail(err, QWEN_ENUMERIC,
		    "a logit is NaN or infinite (output.weight)");
	return qwen_fail(err, QWEN_ENUMERIC,
	    "layer %zu: the hidden state after its %s has a value that is NaN "
	    "or infinite",
	    (place - 1) / 2, place % 2 == 1 ? "mixer" : "feed-forward block");
}

/* Advances the end of the session, unless the part has failed. */
static void
end_part(struct qwen_pass_part *p, const struct qwen_share *share)
{
	struct qwen_session *s = p->s;

	if (qwen_trace_end(share->tracing, p->tokens, p->failed, &p->err) < 0)
		p->failed = 1;
	if (p->failed) {
		s->have_logits = 0;
		return;
	}
	/* they are there already if they are computed again */
	memmove(s->tokens + s->n_tokens, p->tokens,
	    p->n_tokens * sizeof *p->tokens);
	if (s->model->place.n > 1)
		qwen_spans_keep(s, p->spans, p->n_spans);
	s->n_tokens += p->n_tokens;
	if (p->n_mtp > 0)
		s->mtp.filled = s->n_tokens;
	qwen_ahead_begin(s, p->guess, atomic_load(&share->good), p->n_guess);
}

static void
run_all(struct run *r)
{
	const struct qwen_hparams *h = &r->net->hp;
	struct qwen_pass_memory *m = &r->c->pass;
	size_t n;

	if (!run_layers(r))
		return;
	if (r->watch.trace) {
		n = qwen_trace_logits(&r->p, h, QWEN_TRACE_LOGITS, 0, m->at,
		    m->y);
		r->dev->head(r->work, &r->p, QWEN_HEAD_OUTPUT, m->at, n, m->y);
	}
	run_heads(r);
}

int
qwen_pass_try(struct qwen_cache *c, struct qwen_pass_part *part, size_t n_part,
    void (*layer)(void *arg, size_t i), void *arg)
{
	const struct qwen_net *net = &c->model->net;
	struct run r = { .c = c, .net = net, .part = part, .x = c->pass.x,
	    .watch = { .net = net, .pool = c->model->place.pool,
	    .inputs = c->model->inputs } };
	size_t i, bad;
	int rc;

	r.p = (struct qwen_pass){ .row = c->pass.row, .owner = c->pass.owner,
	    .share = c->pass.share, .n_share = n_part, .watch = &r.watch,
	    .layer = layer, .arg = arg };
	bring_back(&r);
	if ((rc = begin(&r)) == 0)
		run_all(&r);
	if (!c->pass.cpu_only && qwen_device_lost(c->model, NULL) != 0)
		return 1;
	for (i = 0; i < n_part; i++) {
		if (rc < 0) {
			part[i].err = r.err;
			part[i].failed = 1;
		} else if (qwen_session_check(part[i].s, &part[i].err) < 0)
			part[i].failed = 1;
		bad = atomic_load(&r.p.share[i].bad);
		if (bad == SIZE_MAX)
			continue;
		fail_bad(bad, net->hp.n_layer, &part[i].err);
		part[i].failed = 1;
	}
	if (net->mtp.on)
		qwen_mtp_fill(&r.p, part);
	for (i = 0; i < n_part; i++)
		end_part(&part[i], &r.p.share[i]);
	return 0;
}

void
qwen_pass_run(struct qwen_cache *c, struct qwen_pass_part *part, size_t n_part,
    void (*layer)(void *arg, size_t i), void *arg)
{
	while (qwen_pass_try(c, part, n_part, layer, arg))
		qwen_recover(c->model);
}
