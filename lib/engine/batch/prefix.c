/* SPDX-License-Identifier: ISC */
/*
 * prefix.c - common prefixes of several texts are read once.
 *
 * A recurrent state cannot be cut.  So a session that other jobs will continue
 * from must be copied exactly after the last token that their texts share.  A
 * job that reads its prompt therefore stops wherever its text departs from that
 * of a waiting job, and keeps a copy of its session there, a kept prefix.  Jobs
 * that need this prefix wait for it.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/batch/batch.h"

/* Returns the length of the prefix if the text begins with it, else 0. */
static size_t
fits(const struct qwen_prefix *prefix, const int32_t *text, size_t limit,
    int logits)
{
	size_t n = qwen_session_n_tokens(prefix->s);

	if (n > limit || (n == limit && logits &&
	    qwen_session_logits(prefix->s) == NULL))
		return 0;
	return memcmp(qwen_session_tokens(prefix->s), text,
	    n * sizeof *text) == 0 ? n : 0;
}

struct qwen_prefix *
qwen_prefix_longest(const struct qwen_work *w, const int32_t *text,
    size_t limit, int logits)
{
	struct qwen_prefix *best = NULL;
	size_t i, n, most = 0;

	for (i = 0; i < w->n_prefix; i++) {
		if ((n = fits(w->prefix[i], text, limit, logits)) > most) {
			most = n;
			best = w->prefix[i];
		}
	}
	return best;
}

struct qwen_prefix *
qwen_prefix_find(struct qwen_work *w, const struct qwen_batch_job *t)
{
	struct qwen_prefix *best = qwen_prefix_longest(w, t->text,
	    qwen_batch_job_limit(t), t->job.hidden == NULL);

	if (best != NULL)
		best->used = ++w->clock;
	return best;
}

/*
 * Returns how many of the first n tokens of t's text a waiting job could use.
 */
static size_t
n_useful(const struct qwen_batch_job *t, size_t n,
    const struct qwen_batch_job *other)
{
	return qwen_ids_common(t->text, n, other->text,
	    qwen_batch_job_limit(other));
}

/* Returns 1 if a prefix is kept of exactly the first n tokens of the text. */
static int
is_kept(const struct qwen_work *w, const struct qwen_batch_job *t, size_t n)
{
	size_t i;

	for (i = 0; i < w->n_prefix; i++) {
		if (qwen_session_n_tokens(w->prefix[i]->s) == n &&
		    fits(w->prefix[i], t->text, qwen_batch_job_limit(t),
		    t->job.hidden == NULL) == n)
			return 1;
	}
	return 0;
}

/*
 * Returns the next position of t->keep after done that is not kept yet; or 0.
 */
static size_t
next_wanted(const struct qwen_work *w, const struct qwen_batch_job *t,
    size_t done)
{
	size_t i;

	for (i = 0; i < t->job.n_keep; i++) {
		if (t->keep[i] > done &&
		    t->keep[i] >= t->last_keep + QWEN_SHARE_MIN &&
		    t->keep[i] <= qwen_batch_job_limit(t) &&
		    !is_kept(w, t, t->keep[i]))
			return t->keep[i];
	}
	return 0;
}

void
qwen_batch_job_set_next_keep(struct qwen_work *w, struct qwen_batch_job *t)
{
	size_t i, n, done = qwen_batch_job_done(t);

	t->next_keep = 0;
	/* generated tokens are not shared */
	if (t->n > t->n_prompt || done == t->n)
		return;
	t->next_keep = next_wanted(w, t, done);
	for (i = 0; i < w->n_waiting; i++) {
		n = n_useful(t, t->n, w->waiting[i]);
		if (n < t->last_keep + QWEN_SHARE_MIN || n <= done ||
		    (t->next_keep != 0 && n >= t->next_keep))
			continue;
		if (!is_kept(w, t, n))
			t->next_keep = n;
	}
}

int
qwen_batch_job_promised(const struct qwen_work *w,
    const struct qwen_batch_job *t, const struct qwen_prefix *have)
{
	size_t i, n = have != NULL ? qwen_session_n_tokens(have->s) : 0;

	for (i = 0; i < w->n_active; i++) {
		const struct qwen_batch_job *a = w->active[i];

		if (a->next_keep <= n || a->next_keep > qwen_batch_job_limit(t))
			continue;
		if (qwen_ids_common(a->text, a->next_keep, t->text,
		    t->n) == a->next_keep)
			return 1;
	}
	return 0;
}

void
qwen_prefix_free(struct qwen_prefix *prefix)
{
	if (prefix != NULL)
		qwen_session_free(prefix->s);
	free(prefix);
}

int
qwen_prefix_drop(struct qwen_work *w, const struct qwen_prefix *keep)
{
	size_t i, old = SIZE_MAX;

	for (i = 0; i < w->n_prefix; i++) {
		if (w->prefix[i] != keep && (old == SIZE_MAX ||
		    w->prefix[i]->used < w->prefix[old]->used))
			old = i;
	}
	if (old == SIZE_MAX)
		return 0;
	/* a store that cannot save it warns by itself */
	if (!w->prefix[old]->stored)
		qwen_store_insert(w->o.store, w->prefix[old]->s, NULL);
	qwen_prefix_free(w->prefix[old]);
	w->prefix[old] = w->prefix[--w->n_prefix];
	return 1;
}

/* Adds a prefix that owns the session from now on. */
static int
add_prefix(struct qwen_work *w, struct qwen_session *s, struct qwen_err *err)
{
	struct qwen_prefix *prefix;

	while (w->n_prefix >= w->cap_prefix && qwen_prefix_drop(w, NULL))
		;
	if ((prefix = qwen_alloc(1, sizeof *prefix)) == NULL)
		return qwen_oom(err);
	prefix->s = s;
	prefix->used = ++w->clock;
	prefix->stored = w->o.store == NULL || w->o.n_keep == 0;
	w->prefix[w->n_prefix++] = prefix;
	return 0;
}

void
qwen_prefix_keep_session(struct qwen_work *w, struct qwen_batch_job *t)
{
	const struct qwen_prefix *same;

	if (w->o.n_keep == 0 || t->s == NULL || t->job.hidden != NULL ||
	    qwen_batch_job_done(t) < QWEN_SHARE_MIN)
		return;
	same = qwen_prefix_longest(w, qwen_session_tokens(t->s),
	    qwen_batch_job_done(t), qwen_session_logits(t->s) != NULL);
	if (same != NULL && qwen_session_n_tokens(same->s) ==
	    qwen_batch_job_done(t))
		return;
	if (add_prefix(w, t->s, NULL) == 0)
		t->s = NULL;
}

/* Copies the session; *out is NULL, without an error, if there is no room. */
static int
fork_session(struct qwen_work *w, struct qwen_session *s,
    struct qwen_session **out, struct qwen_err *err)
{
	while (qwen_session_fork(out, s, err) < 0) {
		if (err->code != QWEN_EFULL)
			return -1;
		if (!qwen_prefix_drop(w, NULL))
			return 0;
	}
	return 0;
}

int
qwen_prefix_keep(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_err *err)
{
	struct qwen_session *s;

	t->last_keep = t->next_keep;
	t->next_keep = 0;
	if (fork_session(w, t->s, &s, err) < 0)
		return -1;
	if (s == NULL)
		return 0;
	if (add_prefix(w, s, err) < 0) {
		qwen_session_free(s);
		return -1;
	}
	if (w->o.store != NULL && w->o.n_keep == 0)
		return qwen_store_insert(w->o.store, s, err);
	return 0;
}

int
qwen_work_store(struct qwen_work *w, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < w->n_prefix && w->prefix[i]->stored; i++)
		;
	if (i == w->n_prefix)
		return 0;
	w->prefix[i]->stored = 1;
	return qwen_store_insert(w->o.store, w->prefix[i]->s, err) < 0 ? -1 : 1;
}

int
qwen_work_cached(const struct qwen_work *w, const int32_t *tokens, size_t n,
    size_t *kept, size_t *stored, struct qwen_err *err)
{
	const struct qwen_prefix *prefix = qwen_prefix_longest(w, tokens, n, 1);

	*kept = prefix != NULL ? qwen_session_n_tokens(prefix->s) : 0;
	*stored = 0;
	return w->o.store == NULL ? 0 : qwen_store_find(w->o.store, &w->header,
	    tokens, n, stored, err);
}

int
qwen_prefix_keep_shared(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_err *err)
{
	size_t i, done = qwen_batch_job_done(t), next_keep = t->next_keep;

	if (done < QWEN_SHARE_MIN || is_kept(w, t, done))
		return 0;
	for (i = 0; i < w->n_waiting; i++) {
		if (n_useful(t, done, w->waiting[i]) < done)
			continue;
		t->next_keep = done;
		if (qwen_prefix_keep(w, t, err) < 0)
			return -1;
		t->next_keep = next_keep;
		return 0;
	}
	return 0;
}
