/* SPDX-License-Identifier: ISC */
/*
 * mtp.c - the block that predicts one token more (MTP, "nextn"), and chains of
 * drafts by it.  Its row of position p is made of the token t at p and of a
 * hidden state h:
 *
 *	x = proj [norm(embedding of t); norm(h)]
 *	x += attention(norm(x)); x += ffn(norm(x)); f = norm(x)
 *
 * and f gives logits for p + 1.  In a true row h is the trunk's hidden state
 * after the output norm at p - 1; in a row of a chain it is f of the row before,
 * and t what that row said.
 *
 * The keys and values of true rows are kept, slot p - 1 for position p, and
 * nothing else of them is needed.  A pass of few tokens leaves its hidden states
 * in the session, and the rows are made up for when a draft is asked for: then
 * several share one pass.  A pass of many tokens, or of an image, makes them at
 * its end; and one that somebody looks at, or whose inputs are measured, all of
 * them, whole.
 *
 * RoPE turns by p - 1: only differences of positions matter to attention.
 */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "engine/pass/pass.h"
#include "engine/quant/logprob.h"
#include "engine/quant/math.h"

/* The most rows that one pass of the block computes after the trunk's pass. */
#define ROWS 32

/* Rows of the block, of one session. */
struct rows {
	struct qwen_session	*s;
	struct qwen_pass	 p;
	struct qwen_share	 share;
	struct qwen_work	*work;
	const struct qwen_device *dev;
};

/*
 * Begins rows of the n tokens at positions from pos on, of which the last `want'
 * are wanted.  The hidden states are those that the session keeps.
 */
static void
begin_rows(struct rows *r, struct qwen_session *s, size_t pos,
    const int32_t *tokens, size_t n, size_t want)
{
	struct qwen_pass_memory *m = &s->cache->pass;
	size_t t, layer = s->model->net.mtp.layer.index;
	size_t home = m->cpu_only ? 0 : s->model->place.home[QWEN_MIXER(layer)];

	r->s = s;
	r->share = (struct qwen_share){ .mem = &s->mem, .n = n, .n_sure = n,
	    .pos = pos - 1 - s->mtp.from, .skip = s->mtp.from / QWEN_KV_BLOCK,
	    .want = n - want };
	atomic_store(&r->share.bad, SIZE_MAX);
	r->p = (struct qwen_pass){ .row = m->row, .owner = m->owner,
	    .share = &r->share, .n_share = 1,
	    .last = want < n ? layer : SIZE_MAX };
	r->work = s->cache->work[home];
	r->dev = r->work->r->dev;
	assert(n <= m->cap);
	qwen_pass_number(&r->p);
	for (t = 0; t < n; t++) {
		m->row[t] = (struct qwen_input){ .id = tokens[t],
		    .vec = qwen_hidden_at(s, pos + t - 1),
		    .slot = r->share.pos + t };
		qwen_spans_place(s, pos + t - 1, m->row[t].pos);
	}
}

/*
 * Takes the rows through the block; writes f of the wanted rows to f, or NULL.
 */
static void
run_rows(struct rows *r, float *f)
{
	r->dev->join(r->work, &r->p);
	r->dev->run(r->work, &r->p, QWEN_MIXER(r->s->model->net.mtp.layer.index),
	    2);
	if (r->p.n > 0)
		r->dev->norm(r->work, &r->p, QWEN_HEAD_MTP, f);
}

/*
 * Computes the missing rows of positions before n, from the kept hidden states.
 */
static void
catch_up(struct qwen_session *s, size_t n)
{
	size_t at, m, most = s->cache->pass.cap;
	struct rows r;

	for (at = qwen_mtp_next_row(s); at < n; at += m) {
		m = n - at < most ? n - at : most;
		begin_rows(&r, s, at, s->tokens + at, m, 0);
		run_rows(&r, NULL);
	}
	if (s->mtp.filled < n)
		s->mtp.filled = n;
}

/* Makes room for a few rows, in a session of n tokens. */
static int
make_room(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	s->cache->pass.cpu_only = 0;
	return qwen_session_reserve(s, n, err) < 0 ||
	    qwen_pass_fit(s->cache, ROWS, 1, n, 0, err) < 0 ||
	    qwen_pass_send(s, err) < 0 ? -1 : 0;
}

int
qwen_session_mtp_ready(struct qwen_session *s)
{
	struct qwen_err e;

	if (qwen_mtp_next_row(s) >= s->n_tokens)
		return 0;
	if (make_room(s, s->n_tokens, &e) < 0)
		return -1;
	catch_up(s, s->n_tokens);
	return 0;
}

/* -------------------------------------------------------- in a trunk's pass */

/*
 * Returns 1 if the pass computes rows of the block: they are watched, or are rows of
 * spans, whose numbers only this pass has, or the session could not keep all
 * hidden states that the missing rows need.
 */
static int
is_made(const struct qwen_pass_part *p)
{
	size_t next = qwen_mtp_next_row(p->s);
	size_t end = p->s->n_tokens + p->n_tokens + p->n_guess, i;

	for (i = 0; i < p->n_tokens; i++) {
		if (p->tokens[i] < 0)
			return 1;
	}
	return p->whole || (end > next && end - next + 1 > QWEN_HIDDEN_ROWS);
}

void
qwen_mtp_begin(struct qwen_pass_part *part, size_t n_part)
{
	size_t i;

	for (i = 0; i < n_part; i++) {
		struct qwen_pass_part *p = &part[i];

		p->whole = p->s->model->inputs != NULL ||
		    qwen_trace_block(p->s->tracing);
		if (is_made(p) && qwen_mtp_next_row(p->s) < p->s->n_tokens)
			catch_up(p->s, p->s->n_tokens);
	}
}

/* Computes the block's logits of traced rows. */
static void
trace_logits(struct rows *r)
{
	struct qwen_pass_memory *m = &r->s->cache->pass;
	const struct qwen_net *net = &r->s->model->net;
	size_t n = qwen_trace_logits(&r->p, &net->hp, QWEN_TRACE_HEAD,
	    net->mtp.layer.index, m->at, m->y);

	if (n > 0)
		r->dev->head(r->work, &r->p, QWEN_HEAD_MTP, m->at, n, m->y);
}

/* Computes the block's rows of a part, whose hidden states are at x. */
static void
fill(struct qwen_pass_part *p, const struct qwen_pass *trunk, const float *x)
{
	struct qwen_session *s = p->s;
	size_t n_embd = s->model->net.hp.n_embd, at = qwen_mtp_next_row(s), t;
	size_t end = s->n_tokens + p->n_tokens;
	struct rows r;

	at = at > s->n_tokens ? at : s->n_tokens;
	if (!is_made(p) || at >= end)
		return;
	p->n_mtp = end - at;
	begin_rows(&r, s, at, p->tokens + (at - s->n_tokens), p->n_mtp,
	    p->whole ? p->n_mtp : 0);
	for (t = at > s->n_tokens ? 0 : 1; t < p->n_mtp; t++)
		r.p.row[t].vec = x + (at + t - 1 - s->n_tokens) * n_embd;
	for (t = 0; t < p->n_mtp; t++)
		r.p.row[t].embd = qwen_pass_span_row(p, at + t);
	if (p->whole) {
		r.share.tracing = s->tracing;
		r.share.told = at - s->n_tokens;
		r.p.see = trunk->see;
		r.p.watch = trunk->watch;
	}
	run_rows(&r, NULL);
	if (!p->whole)
		return;
	trace_logits(&r);
	if (atomic_load(&r.share.bad) == SIZE_MAX)
		return;
	qwen_fail(&p->err, QWEN_ENUMERIC, "a hidden state of the MTP block is "
	    "NaN or infinite");
	p->failed = 1;
}

void
qwen_mtp_fill(const struct qwen_pass *p, struct qwen_pass_part *part)
{
	size_t i;

	for (i = 0; i < p->n_share; i++) {
		const struct qwen_share *s = &p->share[i];
		const float *x = part[i].s->cache->pass.x + s->first *
		    part[i].s->model->net.hp.n_embd;

		if (!part[i].failed)
			fill(&part[i], p, x);
		if (!part[i].failed)
			qwen_hidden_keep(part[i].s, s->pos, x, s->n);
	}
}

/* ------------------------------------------------------------------- drafts */

/* Chooses the best of a draft's logits, with its probability; -1: not finite. */
static int
choose(const struct rows *r, const float *y, int32_t *id, float *prob)
{
	const struct qwen_net *net = &r->s->model->net;
	size_t first, i, best = 0, n = qwen_draft_rows(net, &first), above;
	double sum = qwen_logprob_sum(y, n, -1, &above);

	for (i = 1; i < n; i++) {
		if (y[i] > y[best])
			best = i;
	}
	if (atomic_load(&r->share.bad) != SIZE_MAX ||
	    !isfinite((double)y[best] - sum))
		return -1;
	*prob = (float)qwen_exp((double)y[best] - sum);
	if (best >= first)
		best += net->hp.n_vocab - n;
	*id = (int32_t)best;
	return 0;
}

/* Makes up to n drafts, for which there is room; returns how many they are. */
static size_t
draw(struct qwen_session *s, int32_t next, size_t n, int32_t *id, float *prob)
{
	struct qwen_pass_memory *m = &s->cache->pass;
	static const uint32_t first_row;
	size_t end = s->n_tokens, i, at;
	int32_t tokens[ROWS];
	struct rows r;

	if (end > ROWS - 1)
		catch_up(s, end - (ROWS - 1));
	at = qwen_mtp_next_row(s);
	memcpy(tokens, s->tokens + at, (end - at) * sizeof *tokens);
	tokens[end - at] = next;
	begin_rows(&r, s, at, tokens, end - at + 1, 1);
	run_rows(&r, m->x);
	s->mtp.filled = end;
	for (i = 0;;) {
		r.dev->head(r.work, &r.p, QWEN_HEAD_DRAFT, &first_row, 1,
		    &m->draft);
		if (choose(&r, m->draft, &id[i], &prob[i]) < 0 || ++i == n)
			return i;
		begin_rows(&r, s, end + i, &id[i - 1], 1, 1);
		m->row[0].vec = m->x;
		run_rows(&r, m->x);
	}
}

int
qwen_session_draft(struct qwen_session *s, int32_t next, size_t n,
    int32_t *id, float *prob, size_t *n_out, struct qwen_err *err)
{
	const struct qwen_hparams *h = &s->model->net.hp;
	size_t end = s->n_tokens, room = h->n_ctx - end;
	struct qwen_err e;

	*n_out = 0;
	if (next < 0 || (size_t)next >= h->n_vocab)
		return qwen_fail(err, QWEN_ERANGE, "token %d is out of range: "
		    "ids go from 0 to %zu", (int)next, h->n_vocab - 1);
	/* next has a place, and the drafts after it */
	n = n < room ? n : room > 0 ? room - 1 : 0;
	n = n < QWEN_GUESS_MAX ? n : QWEN_GUESS_MAX;
	if (s->mtp.hidden == NULL || n == 0 || end == 0 ||
	    qwen_mtp_next_row(s) > end)
		return 0;
	if (make_room(s, end + n, &e) < 0) {
		if (e.code == QWEN_EFULL)	/* not worth a failure */
			return 0;
		if (err != NULL)
			*err = e;
		return -1;
	}
	*n_out = draw(s, next, n, id, prob);
	return 0;
}
