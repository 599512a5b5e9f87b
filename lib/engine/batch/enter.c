/* SPDX-License-Identifier: ISC */
/*
 * enter.c - starts waiting jobs: each gets a session that continues a kept
 * prefix or a state from the store.
 */
#include <string.h>

#include "base/err.h"
#include "engine/batch/batch.h"
#include "engine/timeline/session.h"

/*
 * Returns the bytes that the job needs to start: a state, blocks for the unread
 * text and the next token, and one block per running job, so that none is
 * preempted at once.
 */
static uint64_t
bytes_needed(const struct qwen_work *w, const struct qwen_batch_job *t,
    const struct qwen_prefix *prefix)
{
	size_t shared = prefix != NULL ? qwen_session_n_tokens(prefix->s) / 16 :
	    0;
	uint64_t blocks = t->n / 16 + 1 - shared + w->n_active;

	return w->usage.state_bytes + blocks * w->usage.block_bytes;
}

/*
 * Returns 1 if the cache has room for the job; drops kept prefixes, except this
 * one, to make room.
 */
static int
has_room(struct qwen_work *w, const struct qwen_batch_job *t,
    const struct qwen_prefix *prefix)
{
	struct qwen_cache_usage u;
	uint64_t need = bytes_needed(w, t, prefix);

	if (w->usage.limit == 0)
		return 1;
	do {
		qwen_cache_usage(w->o.cache, &u);
		if (u.used <= u.limit && need <= u.limit - u.used)
			return 1;
	} while (qwen_prefix_drop(w, prefix));
	return 0;
}

/*
 * Restores a session from the store if it has more of the text than the prefix.
 */
static int
session_from_store(struct qwen_work *w, struct qwen_batch_job *t,
    const struct qwen_prefix *prefix, struct qwen_err *err)
{
	size_t n, have = prefix != NULL ? qwen_session_n_tokens(prefix->s) : 0;
	struct qwen_session *s;
	int rc;

	if (w->o.store == NULL)
		return 0;
	if (qwen_store_find(w->o.store, &w->header, t->text,
	    qwen_batch_job_limit(t), &n, err) < 0)
		return -1;
	if (n < have + QWEN_SHARE_MIN)
		return 0;
	if (qwen_store_restore(w->o.store, &s, w->o.model, t->text,
	    qwen_batch_job_limit(t), err) < 0)
		return -1;
	/* the files may have been removed meanwhile */
	if (s == NULL || qwen_session_n_tokens(s) <= have) {
		qwen_session_free(s);
		return 0;
	}
	rc = qwen_session_fork_in(&t->s, w->o.cache, s, err);
	qwen_session_free(s);
	if (rc == 0 && t->n_seen == 0)
		w->stats.stored += qwen_session_n_tokens(t->s);
	return rc;
}

/* Creates the job's session: 0, or -1, with QWEN_EFULL if the cache is full. */
static int
make_session(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_prefix *prefix, struct qwen_err *err)
{
	if (session_from_store(w, t, prefix, err) < 0)
		return -1;
	if (t->s != NULL)
		return 0;
	if (prefix == NULL)
		return qwen_session_new_in(&t->s, w->o.cache, err);
	if (qwen_session_fork(&t->s, prefix->s, err) < 0)
		return -1;
	if (t->n_seen == 0)
		w->stats.shared += qwen_session_n_tokens(t->s);
	return 0;
}

/* Moves waiting job i to the running jobs. */
static void
activate(struct qwen_work *w, size_t i)
{
	struct qwen_batch_job *t = w->waiting[i];

	w->n_waiting--;
	memmove(w->waiting + i, w->waiting + i + 1,
	    (w->n_waiting - i) * sizeof *w->waiting);
	qwen_batch_job_insert(w->active, &w->n_active, t);
	t->last_keep = qwen_batch_job_done(t);
	qwen_batch_job_set_next_keep(w, t);
	if (!t->begun_called && t->job.begun != NULL)
		t->job.begun(t->job.arg, qwen_batch_job_done(t));
	t->begun_called = 1;
}

/* Fails if the job must read rows that its caller has left out. */
static int
check_rows(const struct qwen_batch_job *t, struct qwen_err *err)
{
	const struct qwen_span_rows *p = t->job.spans;
	size_t i, done = qwen_batch_job_done(t);

	for (i = 0; i < t->job.n_spans; i++) {
		if (p[i].rows == NULL && p[i].span.start + p[i].span.n > done)
			return qwen_spans_missing(&p[i].span, err);
	}
	return 0;
}

/*
 * Tries to start the i-th waiting job: returns 1 if it runs or has failed, 0 if
 * there is no room, -1 on errors.
 */
static int
try_start(struct qwen_work *w, size_t i, struct qwen_prefix *prefix,
    struct qwen_err *err)
{
	struct qwen_batch_job *t = w->waiting[i];

	/* if no other job runs, the job must start even without room */
	while (has_room(w, t, prefix) || w->n_active == 0) {
		if (make_session(w, t, prefix, err) == 0) {
			if (check_rows(t, err) < 0) {
				qwen_batch_job_end(w, t, QWEN_JOB_FAILED, err);
				return 1;
			}
			activate(w, i);
			return qwen_batch_job_row_at_end(t, err) < 0 ||
			    qwen_prefix_keep_shared(w, t, err) < 0 ? -1 : 1;
		}
		if (err->code != QWEN_EFULL)
			return -1;
		if (qwen_prefix_drop(w, prefix))
			continue;
		if (w->n_active > 0)
			return 0;
		if (prefix == NULL)
			return -1;
		/* read the prefix again rather than wait forever */
		qwen_prefix_drop(w, NULL);
		prefix = NULL;
	}
	return 0;
}

int
qwen_work_enter(struct qwen_work *w, struct qwen_err *err)
{
	struct qwen_prefix *prefix;
	size_t i = 0;
	int r;

	for (i = 0; i < w->n_active; i++)
		qwen_batch_job_set_next_keep(w, w->active[i]);
	if (w->preempted && w->n_active > 0)
		return 0;
	for (i = 0; i < w->n_waiting &&
	    w->n_active < w->o.n_sequences; ) {
		prefix = qwen_prefix_find(w, w->waiting[i]);
		if (qwen_batch_job_promised(w, w->waiting[i], prefix)) {
			i++;
			continue;
		}
		if ((r = try_start(w, i, prefix, err)) < 0)
			return -1;
		if (r == 0)
			break;
	}
	return 0;
}
