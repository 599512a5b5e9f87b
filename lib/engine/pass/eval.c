/* SPDX-License-Identifier: ISC */
/* eval.c - tokens to append, to one timeline or several, in batches. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "engine/pass/pass.h"

/*
 * Tokens of one pass by default. Experts' weights are shared by more tokens in
 * larger passes; the other matrices reach full speed with fewer.
 */
#define DEFAULT_BATCH 512
#define DEFAULT_BATCH_MOE 1024
#define DEFAULT_BATCH_RANKS 4096	/* in pieces: the ranks then rest less */

size_t
qwen_batch_size(const struct qwen_model *m, size_t asked, size_t n,
    const struct qwen_checkpoints *keep)
{
	size_t batch = asked > 0 ? asked : m->place.n > 1 &&
	    m->place.on[1]->dev->ranks ? DEFAULT_BATCH_RANKS :
	    m->net.hp.n_expert > 0 ?
	    DEFAULT_BATCH_MOE : DEFAULT_BATCH;

	if (keep != NULL && keep->every > 0 && keep->every < batch)
		batch = (size_t)keep->every;
	return batch < n ? batch : n;
}

/*
 * Returns how many of n drafts may follow position end: none without logits, for
 * hidden states, in a traced session, or within a span.
 */
static size_t
n_guess_of(const struct qwen_session *s, uint64_t end, enum qwen_logits logits,
    int hidden, const int32_t *guess, size_t n)
{
	return guess != NULL && logits != QWEN_LOGITS_NONE && !hidden &&
	    s->tracing == NULL && !qwen_spans_open(s, end) ? n : 0;
}

/*
 * Returns how many of the tokens were drafted before. At the first difference,
 * the drafts after it are dropped.
 */
static size_t
find_guessed(struct qwen_session *s, const int32_t *tokens, size_t n,
    int hidden)
{
	size_t known = hidden ? 0 : qwen_ahead_match(s, tokens, n);

	if (known < n)
		qwen_ahead_cut(s, known);
	return known;
}

/*
 * Reads a token that was drafted before, and reports its logits if asked for.
 */
static int
read_guessed(struct qwen_session *s, enum qwen_logits logits, int last,
    int (*row)(void *, size_t, const float *, struct qwen_err *), void *arg,
    struct qwen_err *err)
{
	if (qwen_session_check(s, err) < 0)	/* then there are no drafts */
		return -1;
	qwen_ahead_read(s);
	s->have_logits = logits != QWEN_LOGITS_NONE;
	if (row == NULL || !(logits == QWEN_LOGITS_ALL ||
	    (logits == QWEN_LOGITS_LAST && last)))
		return 0;
	return row(arg, s->n_tokens - 1, s->logits, err) ? -1 : 0;
}

/* Reads the first tokens of n, which were drafted before. */
static int
read_known(struct qwen_session *s, size_t known, size_t n,
    const struct qwen_eval *how, struct qwen_err *err)
{
	size_t i;
	int cp;

	for (i = 0; i < known; i++) {
		if (qwen_session_leave_end(s, err) < 0)
			return -1;
		qwen_checkpoints_next(how->keep, s->n_tokens, 1, &cp);
		if (read_guessed(s, how->logits, i + 1 == n, how->row,
		    how->arg, err) < 0)
			return -1;
		if (cp > 0)
			qwen_session_keep(s, cp > 1, NULL);
	}
	if (known > 0 && how->progress != NULL)
		how->progress(how->arg, known, n);
	return 0;
}

/* A pass, for the callback within it. */
struct watched {
	const struct qwen_eval	*how;
	size_t			 done, m, n;	/* tokens before it, its own, all */
	size_t			 n_layer;
};

static void
tell_layer(void *arg, size_t i)
{
	const struct watched *w = arg;

	if (i + 1 < w->n_layer)
		w->how->within(w->how->arg, w->done + (size_t)((double)w->m *
		    (double)(i + 1) / (double)w->n_layer), w->n);
}

/* Reads the tokens of a call, from done on, in as many passes as they need. */
static int
read_rest(struct qwen_session *s, const int32_t *tokens, size_t done, size_t n,
    const struct qwen_eval *how, size_t batch, size_t n_guess,
    struct qwen_err *err)
{
	struct qwen_pass_part p = { .s = s, .logits = how->logits,
	    .hidden = how->hidden, .arg = how->arg, .guess = how->guess,
	    .spans = how->spans, .n_spans = how->n_spans };
	struct watched w = { .how = how, .n = n,
	    .n_layer = s->model->net.hp.n_layer };
	size_t m;
	int cp;

	for (; done < n; done += m) {
		if (qwen_session_leave_end(s, err) < 0)
			return -1;
		m = qwen_trace_limit(s->tracing, s->n_tokens,
		    n - done < batch ? n - done : batch);
		m = qwen_checkpoints_next(how->keep, s->n_tokens, m, &cp);
		p.tokens = tokens + done;
		p.n_tokens = m;
		p.n_guess = done + m == n ? n_guess : 0;
		p.stop = cp > 0 || done + m == n;
		/* the row of a checkpoint on the way is nobody's business */
		p.row = how->logits == QWEN_LOGITS_ALL || done + m == n ?
		    how->row : NULL;
		w.done = done;
		w.m = m;
		qwen_pass_run(s->cache, &p, 1, how->within != NULL && m > 1 ?
		    tell_layer : NULL, &w);
		if (p.failed) {
			if (err != NULL)
				*err = p.err;
			return -1;
		}
		if (cp > 0)
			qwen_session_keep(s, cp > 1, NULL);
		if (how->progress != NULL)
			how->progress(how->arg, done + m, n);
	}
	return 0;
}

int
qwen_session_eval_sized(size_t size, struct qwen_session *s,
    const int32_t *tokens, size_t n, const struct qwen_eval *how,
    struct qwen_err *err)
{
	static const struct qwen_eval plain = { .logits = QWEN_LOGITS_LAST };
	struct qwen_model *m = s->model;
	size_t known, batch, end, n_guess;
	struct qwen_eval own;

	if (QWEN_SIZED(how, own, size, err) < 0)
		return -1;
	how = how != NULL ? how : &plain;
	if (n == 0)
		return 0;
	batch = qwen_batch_size(m, how->batch, n, how->keep);
	if (qwen_spans_add(s, tokens, n, how->spans, how->n_spans, err) < 0 ||
	    qwen_add(s->n_tokens, n, &end) < 0)
		return -1;
	n_guess = n_guess_of(s, end, how->logits, how->hidden, how->guess,
	    how->n_guess);
	known = find_guessed(s, tokens, n, how->hidden);
	if (qwen_session_reserve(s, end, err) < 0 ||
	    qwen_pass_fit(s->cache, batch + (n_guess > 0 ? QWEN_GUESS_MAX : 0),
	    1, end, how->logits == QWEN_LOGITS_ALL && !how->hidden, err) < 0)
		return -1;
	if (how->keep != NULL && how->keep->every > 0)
		s->every = how->keep->every;
	if (read_known(s, known, n, how, err) < 0)
		return -1;
	if (known < n && n_guess > 0)
		n_guess = qwen_ahead_reserve(s, end, how->guess, n_guess);
	return read_rest(s, tokens, known, n, how, batch, n_guess, err);
}

/* ----------------------------------------------------- several timelines */

/*
 * Checks that each session occurs once and all share one cache; marks them
 * busy.
 */
static int
check_parts(struct qwen_part *part, size_t n_part, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < n_part; i++) {
		struct qwen_session *s = part[i].s;

		part[i].failed = 0;
		if (s->cache != part[0].s->cache)
			return qwen_fail(err, QWEN_EMISMATCH,
			    "the sessions belong to different caches");
		if (s->busy)
			return qwen_fail(err, QWEN_EMISMATCH,
			    "a session is given twice");
		s->busy = 1;
		if (part[i].n == 0)
			return qwen_fail(err, QWEN_ERANGE, "no tokens");
		if (qwen_spans_add(s, part[i].tokens, part[i].n, part[i].spans,
		    part[i].n_spans, err) < 0)
			return -1;
		if (part[i].n > s->model->net.hp.n_ctx - s->n_tokens)
			return qwen_fail(err, QWEN_ERANGE, "%zu tokens after "
			    "%zu exceed the model's context of %zu", part[i].n,
			    s->n_tokens, s->model->net.hp.n_ctx);
	}
	return 0;
}

/* What all parts need in a pass. */
struct needs {
	size_t	 n;		/* tokens */
	size_t	 slots;		/* of the cache */
	size_t	 longest;	/* timeline */
	size_t	 n_guess;
	int	 all;		/* logits of all tokens */
};

static int
sum_needs(const struct qwen_part *part, size_t n_part, struct needs *sum)
{
	size_t i, end;

	memset(sum, 0, sizeof *sum);
	for (i = 0; i < n_part; i++) {
		const struct qwen_part *p = &part[i];

		end = p->s->n_tokens + p->n;
		sum->longest = end > sum->longest ? end : sum->longest;
		sum->all |= p->logits == QWEN_LOGITS_ALL && !p->hidden;
		if (n_guess_of(p->s, end, p->logits, p->hidden, p->guess,
		    p->n_guess) > 0)
			sum->n_guess += QWEN_GUESS_MAX;
		if (qwen_add(sum->n, p->n, &sum->n) < 0 || qwen_add(sum->slots,
		    qwen_session_slots(p->s, p->n), &sum->slots) < 0)
			return -1;
	}
	return 0;
}

/* Makes slots free for all parts; drops drafts if they take the room. */
static int
prepare_slots(struct qwen_part *part, size_t n_part, struct needs *sum,
    struct qwen_err *err)
{
	struct qwen_cache *c = part[0].s->cache;
	size_t i;

	if (sum_needs(part, n_part, sum) < 0)
		return qwen_oom(err);
	if (qwen_cache_check(c, sum->slots, 0, NULL) < 0) {
		for (i = 0; i < n_part; i++)
			qwen_ahead_cut(part[i].s, 0);
		sum_needs(part, n_part, sum);
		if (qwen_cache_check(c, sum->slots, 0, err) < 0)
			return -1;
	}
	return sum->slots > 0 ? qwen_cache_prepare(c, sum->slots, err) : 0;
}

/* Makes room for all tokens of all parts before anything changes. */
static int
prepare_parts(struct qwen_part *part, size_t n_part, size_t *batch,
    struct qwen_err *err)
{
	struct qwen_cache *c = part[0].s->cache;
	struct needs sum;
	size_t i;

	for (i = 0; i < n_part; i++)
		find_guessed(part[i].s, part[i].tokens, part[i].n,
		    part[i].hidden);
	if (prepare_slots(part, n_part, &sum, err) < 0)
		return -1;
	*batch = qwen_batch_size(c->model, 0, sum.n + sum.n_guess, NULL);
	if (qwen_pass_fit(c, *batch, n_part, sum.longest, sum.all, err) < 0)
		return -1;
	for (i = 0; i < n_part; i++) {
		if (qwen_session_reserve(part[i].s, part[i].s->n_tokens +
		    part[i].n, err) < 0 ||
		    qwen_session_leave_end(part[i].s, err) < 0)
			return -1;
	}
	return 0;
}

/* Finds the drafted tokens of each part, and reserves room for new drafts. */
static void
begin_parts(struct qwen_progress *at, const struct qwen_part *part,
    size_t n_part)
{
	size_t i;

	memset(at, 0, n_part * sizeof *at);
	for (i = 0; i < n_part; i++) {
		const struct qwen_part *q = &part[i];

		at[i].known = qwen_ahead_match(q->s, q->tokens, q->n);
		if (at[i].known < q->n)
			at[i].n_guess = qwen_ahead_reserve(q->s,
			    q->s->n_tokens + q->n, q->guess,
			    n_guess_of(q->s, q->s->n_tokens + q->n, q->logits,
			    q->hidden, q->guess, q->n_guess));
	}
}

/* Reads the tokens that were drafted before, which need no pass. */
static void
read_parts(struct qwen_progress *at, struct qwen_part *part, size_t n_part)
{
	size_t i;

	for (i = 0; i < n_part; i++) {
		struct qwen_part *q = &part[i];

		for (; at[i].done < at[i].known && !q->failed; at[i].done++)
			q->failed = read_guessed(q->s, q->logits,
			    at[i].done + 1 == q->n, q->row, q->arg,
			    &q->err) < 0;
	}
}

/*
 * Fills the next pass: as many tokens of each part as there is room for, and after
 * the last ones, drafts.  Returns the number of its parts.
 */
static size_t
fill_pass(struct qwen_pass_memory *mem, struct qwen_part *part, size_t n_part,
    size_t room)
{
	struct qwen_progress *at = mem->progress;
	size_t i, n, m, n_in = 0;

	for (i = 0; i < n_part; i++) {
		struct qwen_part *q = &part[i];

		n = q->n - at[i].done < room ? q->n - at[i].done : room;
		n = qwen_trace_limit(q->s->tracing, q->s->n_tokens, n);
		at[i].in = n > 0 && !q->failed;
		if (!at[i].in)
			continue;
		m = at[i].done + n < q->n ? 0 : at[i].n_guess;
		m = m < room - n ? m : room - n;
		mem->part[n_in] = (struct qwen_pass_part){ .s = q->s,
		    .tokens = q->tokens + at[i].done, .n_tokens = n,
		    .guess = q->guess, .n_guess = m,
		    .logits = q->logits, .stop = at[i].done + n == q->n,
		    .row = q->row, .arg = q->arg, .hidden = q->hidden,
		    .spans = q->spans, .n_spans = q->n_spans };
		at[i].at = n_in++;
		at[i].done += n;
		room -= n + m;
	}
	return n_in;
}

static void
run_parts(struct qwen_cache *c, struct qwen_part *part, size_t n_part,
    size_t batch)
{
	struct qwen_pass_memory *mem = &c->pass;
	size_t i, n;

	begin_parts(mem->progress, part, n_part);
	read_parts(mem->progress, part, n_part);
	while ((n = fill_pass(mem, part, n_part, batch)) > 0) {
		qwen_pass_run(c, mem->part, n, NULL, NULL);
		for (i = 0; i < n_part; i++) {
			const struct qwen_progress *at = &mem->progress[i];

			if (!at->in || !mem->part[at->at].failed)
				continue;
			part[i].failed = 1;
			part[i].err = mem->part[at->at].err;
		}
	}
}

/*
 * -1 if other ranks have failed: no later pass will succeed, so that all parts
 * fail, and no caller takes it for a fault of one of them.
 */
static int
check_ranks(const struct qwen_cache *c, struct qwen_err *err)
{
	const struct qwen_placement *p = &c->model->place;

	return p->n > 1 && p->on[1]->dev->ranks ?
	    p->on[1]->dev->check(p->on[1], err) : 0;
}

static int
eval_parts(struct qwen_part *part, size_t n_part, struct qwen_err *err)
{
	size_t i, batch = 0;
	int rc;

	if (n_part == 0)
		return 0;
	if ((rc = check_parts(part, n_part, err)) == 0 &&
	    (rc = prepare_parts(part, n_part, &batch, err)) == 0) {
		run_parts(part[0].s->cache, part, n_part, batch);
		rc = check_ranks(part[0].s->cache, err);
	}
	for (i = 0; i < n_part; i++)
		part[i].s->busy = 0;
	return rc;
}

/* Elements of another size are copied; what the call sets is copied back. */
int
qwen_eval_parts_sized(size_t size, struct qwen_part *part, size_t n_part,
    struct qwen_err *err)
{
	size_t i, set = size < sizeof *part ? size : sizeof *part;
	struct qwen_part *own;
	int rc = 0;

	if (size == sizeof *part || n_part == 0)
		return eval_parts(part, n_part, err);
	if ((own = qwen_alloc(n_part, sizeof *own)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < n_part && rc == 0; i++)
		rc = qwen_sized(&own[i], sizeof *own, (char *)part + i * size,
		    size, __func__, err);
	if (rc == 0) {
		rc = eval_parts(own, n_part, err);
		for (i = 0; i < n_part; i++)
			memcpy((char *)part + i * size, &own[i], set);
	}
	free(own);
	return rc;
}
