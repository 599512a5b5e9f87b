/* SPDX-License-Identifier: ISC */
/*
 * prefix.c - what several texts begin with is read once.
 *
 * A recurrent state cannot be cut, so a session that others shall go on from
 * must be copied at the very token after which their texts part.  While a
 * task reads its prompt it therefore stops wherever its text parts from that
 * of one that waits, and leaves a copy there, a node; whoever needs the node
 * waits for it.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/batch/batch.h"

size_t
qwen_task_common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
	size_t i, n = n_a < n_b ? n_a : n_b;

	for (i = 0; i < n && a[i] == b[i]; i++)
		;
	return i;
}

/* All of the node's text is the beginning of t's; how much that is, else 0. */
static size_t
fits(const struct qwen_node *node, const struct qwen_task *t)
{
	size_t n = qwen_session_n_tokens(node->s), limit = qwen_task_limit(t);

	if (n > limit || (n == limit && t->job.hidden == NULL &&
	    qwen_session_logits(node->s) == NULL))
		return 0;
	return memcmp(qwen_session_tokens(node->s), t->text,
	    n * sizeof *t->text) == 0 ? n : 0;
}

struct qwen_node *
qwen_node_find(struct qwen_work *w, const struct qwen_task *t)
{
	struct qwen_node *best = NULL;
	size_t i, n, most = 0;

	for (i = 0; i < w->n_node; i++) {
		if ((n = fits(w->node[i], t)) > most) {
			most = n;
			best = w->node[i];
		}
	}
	if (best != NULL)
		best->used = ++w->clock;
	return best;
}

/* How much of t's text is of use to another, which waits. */
static size_t
useful(const struct qwen_task *t, size_t n, const struct qwen_task *other)
{
	return qwen_task_common(t->text, n, other->text,
	    qwen_task_limit(other));
}

/* There is a node of exactly the first n tokens of the text. */
static int
is_kept(const struct qwen_work *w, const struct qwen_task *t, size_t n)
{
	size_t i;

	for (i = 0; i < w->n_node; i++) {
		if (qwen_session_n_tokens(w->node[i]->s) == n &&
		    fits(w->node[i], t) == n)
			return 1;
	}
	return 0;
}

void
qwen_task_branch(struct qwen_work *w, struct qwen_task *t)
{
	size_t i, n, done = qwen_task_done(t);

	t->branch = 0;
	/* nobody shares what it generates */
	if (t->n > t->n_prompt || done == t->n)
		return;
	for (i = 0; i < w->n_waiting; i++) {
		n = useful(t, t->n, w->waiting[i]);
		if (n < t->from + QWEN_SHARE_MIN || n <= done ||
		    (t->branch != 0 && n >= t->branch))
			continue;
		if (!is_kept(w, t, n))
			t->branch = n;
	}
}

int
qwen_task_promised(const struct qwen_work *w, const struct qwen_task *t,
    const struct qwen_node *have)
{
	size_t i, n = have != NULL ? qwen_session_n_tokens(have->s) : 0;

	for (i = 0; i < w->n_active; i++) {
		const struct qwen_task *a = w->active[i];

		if (a->branch <= n || a->branch > qwen_task_limit(t))
			continue;
		if (qwen_task_common(a->text, a->branch, t->text, t->n) ==
		    a->branch)
			return 1;
	}
	return 0;
}

void
qwen_node_free(struct qwen_node *node)
{
	if (node != NULL)
		qwen_session_free(node->s);
	free(node);
}

int
qwen_node_drop(struct qwen_work *w, const struct qwen_node *keep)
{
	size_t i, old = SIZE_MAX;

	for (i = 0; i < w->n_node; i++) {
		if (w->node[i] != keep && (old == SIZE_MAX ||
		    w->node[i]->used < w->node[old]->used))
			old = i;
	}
	if (old == SIZE_MAX)
		return 0;
	qwen_node_free(w->node[old]);
	w->node[old] = w->node[--w->n_node];
	return 1;
}

/* A copy; NULL and no error if there is no room for one. */
static int
copy(struct qwen_work *w, struct qwen_session *s, struct qwen_session **out,
    struct qwen_err *err)
{
	while (qwen_session_fork(out, s, err) < 0) {
		if (err->code != QWEN_EFULL)
			return -1;
		if (!qwen_node_drop(w, NULL))
			return 0;
	}
	return 0;
}

int
qwen_node_leave(struct qwen_work *w, struct qwen_task *t,
    struct qwen_err *err)
{
	struct qwen_node *node;
	int failed;

	t->from = t->branch;
	t->branch = 0;
	while (w->n_node >= w->cap_node && qwen_node_drop(w, NULL))
		;
	if ((node = qwen_alloc(1, sizeof *node)) == NULL)
		return qwen_oom(err);
	failed = copy(w, t->s, &node->s, err);
	if (node->s == NULL) {
		free(node);
		return failed;
	}
	node->used = ++w->clock;
	w->node[w->n_node++] = node;
	if (w->o.store != NULL)
		return qwen_store_insert(w->o.store, node->s, err);
	return 0;
}

int
qwen_node_share(struct qwen_work *w, struct qwen_task *t,
    struct qwen_err *err)
{
	size_t i, done = qwen_task_done(t), branch = t->branch;

	if (done < QWEN_SHARE_MIN || is_kept(w, t, done))
		return 0;
	for (i = 0; i < w->n_waiting; i++) {
		if (useful(t, done, w->waiting[i]) < done)
			continue;
		t->branch = done;
		if (qwen_node_leave(w, t, err) < 0)
			return -1;
		t->branch = branch;
		return 0;
	}
	return 0;
}
