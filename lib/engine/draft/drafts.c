/* SPDX-License-Identifier: ISC */
/* drafts.c - the state shared by all timelines, and passes of one timeline. */
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "engine/draft/draft.h"

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int
read_text(struct qwen_drafts *d, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < d->o.n_text; i++) {
		if (qwen_lookup_add(&d->text, d->o.text[i], err) < 0)
			return -1;
	}
	d->o.text = NULL;
	return 0;
}

int
qwen_drafts_new_sized(size_t size, struct qwen_drafts **out,
    struct qwen_model *m, const struct qwen_draft_opts *o,
    struct qwen_err *err)
{
	struct qwen_draft_opts own;
	struct qwen_drafts *d;

	*out = NULL;
	if (QWEN_SIZED(o, own, size, err) < 0)
		return -1;
	if (o->n > QWEN_GUESS_MAX)
		return qwen_fail(err, QWEN_ERANGE, "%zu drafts per pass; the "
		    "limit is %d", o->n, QWEN_GUESS_MAX);
	if (o->mode == QWEN_DRAFT_MTP && !qwen_model_has_mtp(m))
		return qwen_fail(err, QWEN_EUNSUP,
		    "the model has no MTP block");
	if ((d = qwen_alloc(1, sizeof *d)) == NULL)
		return qwen_oom(err);
	d->o = *o;
	d->now = now;
	if (qwen_model_has_mtp(m))
		d->chain = qwen_session_draft;
	if (read_text(d, err) < 0) {
		qwen_drafts_free(d);
		return -1;
	}
	*out = d;
	return 0;
}

void
qwen_drafts_free(struct qwen_drafts *d)
{
	if (d == NULL)
		return;
	qwen_lookup_fini(&d->text);
	free(d);
}

void
qwen_drafts_stats(const struct qwen_drafts *d, struct qwen_draft_stats *out)
{
	*out = d->stats;
}

void
qwen_drafts_passed(struct qwen_drafts *d, size_t rows, double seconds)
{
	qwen_cost_pass(&d->cost, rows, seconds);
}

int
qwen_drafter_propose(struct qwen_drafter *d, struct qwen_session *s,
    int32_t next, const struct qwen_draft_pass *pass, const int32_t **guess,
    size_t *n, struct qwen_err *err)
{
	*guess = d->id;
	*n = 0;
	if (d->all->o.mode == QWEN_DRAFT_NONE)
		return 0;
	if (qwen_drafter_follow(d, qwen_session_tokens(s),
	    qwen_session_n_tokens(s), next, err) < 0 ||
	    qwen_drafter_guess(d, s, pass, err) < 0)
		return -1;
	*n = d->n;
	return 0;
}

int
qwen_drafter_eval(struct qwen_drafter *d, struct qwen_session *s, int32_t id,
    size_t room, struct qwen_err *err)
{
	struct qwen_draft_pass pass = { .max_drafts = room, .rows = 1,
	    .tokens = 1 };
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST };
	double start;

	if (qwen_session_n_guessed(s) > 0 && qwen_session_guessed(s)[0] == id)
		return qwen_session_eval(s, &id, 1, &how, err);
	if (qwen_drafter_propose(d, s, id, &pass, &how.guess, &how.n_guess,
	    err) < 0)
		return -1;
	start = now();
	if (qwen_session_eval(s, &id, 1, &how, err) < 0)
		return -1;
	qwen_drafts_passed(d->all, 1 + qwen_session_n_guessed(s),
	    now() - start);
	return 0;
}
