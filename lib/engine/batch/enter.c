/* SPDX-License-Identifier: ISC */
/*
 * enter.c - starts waiting jobs: each gets a session that continues a kept
 * prefix or a state from the store.
 */
#include <string.h>

#include "base/err.h"
#include "engine/batch/batch.h"

/*
 * Returns the bytes that the job needs to start: a state, blocks for the unread
 * text and the next token, and one block per running job, so that none is
 * preempted at once.
 */
static uint64_t
demand(const struct qwen_work *w, const struct qwen_batch_job *t,
    const struct qwen_node *node)
{
	size_t shared = node != NULL ? qwen_session_n_tokens(node->s) / 16 : 0;
	uint64_t blocks = t->n / 16 + 1 - shared + w->n_active;

	return w->usage.state_bytes + blocks * w->usage.block_bytes;
}

/*
 * Returns 1 if the cache has room for the job; drops nodes, except node, to
 * make room.
 */
static int
has_room(struct qwen_work *w, const struct qwen_batch_job *t,
    const struct qwen_node *node)
{
	struct qwen_cache_usage u;
	uint64_t need = demand(w, t, node);

	if (w->usage.limit == 0)
		return 1;
	do {
		qwen_cache_usage(w->o.cache, &u);
		if (u.used <= u.limit && need <= u.limit - u.used)
			return 1;
	} while (qwen_node_drop(w, node));
	return 0;
}

/*
 * Restores a session from the store if it has more of the text than the node.
 */
static int
ask_store(struct qwen_work *w, struct qwen_batch_job *t,
    const struct qwen_node *node, struct qwen_err *err)
{
	size_t n, have = node != NULL ? qwen_session_n_tokens(node->s) : 0;
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
find_session(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_node *node,
    struct qwen_err *err)
{
	if (ask_store(w, t, node, err) < 0)
		return -1;
	if (t->s != NULL)
		return 0;
	if (node == NULL)
		return qwen_session_new_in(&t->s, w->o.cache, err);
	if (qwen_session_fork(&t->s, node->s, err) < 0)
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
	t->from = qwen_batch_job_done(t);
	qwen_batch_job_branch(w, t);
	if (!t->told && t->job.begun != NULL)
		t->job.begun(t->job.arg, qwen_batch_job_done(t));
	t->told = 1;
}

/*
 * Tries to start the i-th waiting job: returns 1 if it runs, 0 if there is no
 * room, -1 on errors.
 */
static int
admit(struct qwen_work *w, size_t i, struct qwen_node *node,
    struct qwen_err *err)
{
	struct qwen_batch_job *t = w->waiting[i];

	/* if no other job runs, the job must start even without room */
	while (has_room(w, t, node) || w->n_active == 0) {
		if (find_session(w, t, node, err) == 0) {
			activate(w, i);
			return qwen_batch_job_row_at_end(t, err) < 0 ||
			    qwen_node_share(w, t, err) < 0 ? -1 : 1;
		}
		if (err->code != QWEN_EFULL)
			return -1;
		if (qwen_node_drop(w, node))
			continue;
		if (w->n_active > 0)
			return 0;
		if (node == NULL)
			return -1;
		/* read the prefix again rather than wait forever */
		qwen_node_drop(w, NULL);
		node = NULL;
	}
	return 0;
}

int
qwen_work_enter(struct qwen_work *w, struct qwen_err *err)
{
	struct qwen_node *node;
	size_t i = 0;
	int r;

	for (i = 0; i < w->n_active; i++)
		qwen_batch_job_branch(w, w->active[i]);
	if (w->tight && w->n_active > 0)
		return 0;
	for (i = 0; i < w->n_waiting &&
	    w->n_active < w->o.n_sequences; ) {
		node = qwen_node_find(w, w->waiting[i]);
		if (qwen_batch_job_promised(w, w->waiting[i], node)) {
			i++;
			continue;
		}
		if ((r = admit(w, i, node, err)) < 0)
			return -1;
		if (r == 0)
			break;
	}
	return 0;
}
