/* SPDX-License-Identifier: ISC */
/* eval.c - tokens to append, to one timeline or several, in batches. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/forward.h"

/*
 * Tokens computed together: the more, the more share an expert's weights.
 * Matrices that every token uses are busy with fewer.
 */
#define DEFAULT_BATCH 512
#define DEFAULT_BATCH_MOE 1024

static struct qwen_batch
batch_of(const struct qwen_session *s, struct qwen_share *share)
{
	return (struct qwen_batch){ .m = s->model, .hp = &s->model->hp,
	    .vec = s->model->kernels.vec->run.vec, .b = s->cache->scratch,
	    .share = share };
}

size_t
qwen_batch_size(const struct qwen_model *m, size_t asked, size_t n)
{
	size_t batch = asked > 0 ? asked : m->hp.n_expert > 0 ?
	    DEFAULT_BATCH_MOE : DEFAULT_BATCH;

	return batch < n ? batch : n;
}

static int
check_tokens(const struct qwen_session *s, const int32_t *tokens, size_t n,
    struct qwen_err *err)
{
	size_t i, n_vocab = s->model->hp.n_vocab;

	for (i = 0; i < n; i++) {
		if (tokens[i] < 0 || (size_t)tokens[i] >= n_vocab)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %d (number %zu): ids go from 0 to %zu",
			    (int)tokens[i], i, n_vocab - 1);
	}
	return 0;
}

int
qwen_session_eval(struct qwen_session *s, const int32_t *tokens, size_t n,
    const struct qwen_eval *how, struct qwen_err *err)
{
	static const struct qwen_eval plain = { .logits = QWEN_LOGITS_LAST };
	struct qwen_share p = { .s = s };
	struct qwen_batch b = batch_of(s, &p);
	size_t done, batch, end, m;
	int cp;

	how = how != NULL ? how : &plain;
	if (n == 0)
		return 0;
	batch = qwen_batch_size(s->model, how->batch, n);
	if (check_tokens(s, tokens, n, err) < 0 ||
	    qwen_add(s->n_tokens, n, &end) < 0 ||
	    qwen_session_reserve(s, end, err) < 0 ||
	    qwen_scratch_fit(b.b, b.m, batch, qwen_attention_partials(b.m, 1,
	    end), how->logits == QWEN_LOGITS_ALL && !how->hidden, err) < 0)
		return -1;
	if (how->keep != NULL && how->keep->every > 0)
		s->every = how->keep->every;
	b.n_share = 1;
	p.logits = how->logits;
	p.hidden = how->hidden;
	p.arg = how->arg;
	for (done = 0; done < n; done += m) {
		if (qwen_session_leave_end(s, err) < 0)
			return -1;
		m = n - done < batch ? n - done : batch;
		m = qwen_checkpoints_next(how->keep, s->n_tokens, m, &cp);
		p.tokens = tokens + done;
		p.n_tokens = m;
		p.stop = cp > 0 || done + m == n;
		/* the row of a checkpoint on the way is nobody's business */
		p.row = how->logits == QWEN_LOGITS_ALL || done + m == n ?
		    how->row : NULL;
		qwen_batch_run(&b);
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

/* ----------------------------------------------------- several timelines */

/* Each session once, all of one cache; marks them until free_parts. */
static int
check_parts(struct qwen_part *part, size_t n_part, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < n_part; i++) {
		struct qwen_session *s = part[i].s;

		part[i].failed = 0;
		if (s->cache != part[0].s->cache)
			return qwen_fail(err, QWEN_EMISMATCH,
			    "sessions of different caches");
		if (s->busy)
			return qwen_fail(err, QWEN_EMISMATCH,
			    "a session twice");
		s->busy = 1;
		if (part[i].n == 0)
			return qwen_fail(err, QWEN_ERANGE, "no tokens");
		if (check_tokens(s, part[i].tokens, part[i].n, err) < 0)
			return -1;
		if (part[i].n > s->model->hp.n_ctx - s->n_tokens)
			return qwen_fail(err, QWEN_ERANGE, "%zu tokens after "
			    "%zu: the model's context is %zu", part[i].n,
			    s->n_tokens, s->model->hp.n_ctx);
	}
	return 0;
}

/* Room for all tokens of all, before anything changes. */
static int
prepare_parts(struct qwen_part *part, size_t n_part, size_t *batch,
    struct qwen_err *err)
{
	struct qwen_cache *c = part[0].s->cache;
	struct qwen_scratch *sc = c->scratch;
	size_t i, end, n = 0, slots = 0, longest = 0;
	int all = 0;

	for (i = 0; i < n_part; i++) {
		end = part[i].s->n_tokens + part[i].n;
		longest = end > longest ? end : longest;
		all |= part[i].logits == QWEN_LOGITS_ALL && !part[i].hidden;
		if (qwen_add(n, part[i].n, &n) < 0 || qwen_add(slots,
		    qwen_session_slots(part[i].s, part[i].n), &slots) < 0)
			return qwen_oom(err);
	}
	*batch = qwen_batch_size(c->model, 0, n);
	if (qwen_cache_check(c, slots, 0, err) < 0 ||
	    (slots > 0 && qwen_cache_prepare(c, slots, err) < 0) ||
	    qwen_scratch_fit(sc, c->model, *batch,
	    qwen_attention_partials(c->model, n_part, longest), all, err) < 0)
		return -1;
	if (qwen_grow(&sc->shares, &sc->cap_shares, n_part,
	    sizeof *sc->shares) < 0 || qwen_grow(&sc->progress,
	    &sc->cap_progress, n_part, sizeof *sc->progress) < 0)
		return qwen_oom(err);
	for (i = 0; i < n_part; i++) {
		if (qwen_session_reserve(part[i].s, part[i].s->n_tokens +
		    part[i].n, err) < 0 ||
		    qwen_session_leave_end(part[i].s, err) < 0)
			return -1;
	}
	return 0;
}

/* Shares of the next pass: as many tokens of each part as there is room for. */
static size_t
fill_pass(struct qwen_batch *b, struct qwen_part *part, size_t n_part,
    size_t room)
{
	struct qwen_progress *at = b->b->progress;
	size_t i, n;

	b->n_share = 0;
	for (i = 0; i < n_part; i++) {
		struct qwen_part *q = &part[i];

		n = q->n - at[i].done < room ? q->n - at[i].done : room;
		at[i].in = n > 0 && !q->failed;
		if (!at[i].in)
			continue;
		b->share[b->n_share] = (struct qwen_share){ .s = q->s,
		    .tokens = q->tokens + at[i].done, .n_tokens = n,
		    .logits = q->logits, .stop = at[i].done + n == q->n,
		    .row = q->row, .arg = q->arg, .hidden = q->hidden };
		at[i].share = b->n_share++;
		at[i].done += n;
		room -= n;
	}
	return b->n_share;
}

static void
run_parts(struct qwen_batch *b, struct qwen_part *part, size_t n_part,
    size_t batch)
{
	struct qwen_progress *at = b->b->progress;
	size_t i;

	memset(at, 0, n_part * sizeof *at);
	while (fill_pass(b, part, n_part, batch) > 0) {
		qwen_batch_run(b);
		for (i = 0; i < n_part; i++) {
			const struct qwen_share *p = &b->share[at[i].share];

			if (!at[i].in || !p->failed)
				continue;
			part[i].failed = 1;
			part[i].err = p->err;
		}
	}
}

int
qwen_eval_parts(struct qwen_part *part, size_t n_part, struct qwen_err *err)
{
	struct qwen_batch b;
	size_t i, batch = 0;
	int rc;

	if (n_part == 0)
		return 0;
	if ((rc = check_parts(part, n_part, err)) == 0 &&
	    (rc = prepare_parts(part, n_part, &batch, err)) == 0) {
		b = batch_of(part[0].s, part[0].s->cache->scratch->shares);
		run_parts(&b, part, n_part, batch);
	}
	for (i = 0; i < n_part; i++)
		part[i].s->busy = 0;
	return rc;
}
