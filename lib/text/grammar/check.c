/* SPDX-License-Identifier: ISC */
/*
 * check.c - which rules may be empty, and whether one begins with itself: then
 * following a text would never get to its first byte.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/grammar/grammar.h"

/* What a walk from a rule's start can reach without a byte. */
struct walk {
	uint32_t	*todo;
	unsigned char	*seen;		/* by node */
};

/*
 * 1 if the end of rule r can be reached by what is known to be nullable.  The
 * rules called on the way are counted in calls, if that is not NULL.
 */
static int
reach(const struct qwen_grammar *g, struct walk *w, uint32_t r,
    unsigned char *calls)
{
	size_t n = 0, i, used = 0;
	int ends = 0;

	w->todo[n++] = g->rule[r].start;
	w->seen[g->rule[r].start] = 1;
	/* todo keeps all that were seen, to forget them again */
	while (used < n) {
		const struct qwen_gnode *d = &g->node[w->todo[used++]];
		uint32_t to[2] = { d->next, d->also };
		int k, from = 0, upto = 0;

		if (d->kind == QWEN_GNODE_END)
			ends = 1;
		else if (d->kind == QWEN_GNODE_SPLIT)
			upto = 2;
		else if (d->kind == QWEN_GNODE_CALL) {
			if (calls != NULL)
				calls[d->also] = 1;
			upto = g->rule[d->also].nullable;
		}
		for (k = from; k < upto; k++) {
			if (!w->seen[to[k]]) {
				w->seen[to[k]] = 1;
				w->todo[n++] = to[k];
			}
		}
	}
	for (i = 0; i < n; i++)
		w->seen[w->todo[i]] = 0;
	return ends;
}

/* Again until nothing changes; every round but the last finds one. */
static void
find_nullable(struct qwen_grammar *g, struct walk *w)
{
	size_t i;
	int more = 1;

	while (more) {
		for (more = 0, i = 0; i < g->n_rules; i++) {
			if (!g->rule[i].nullable &&
			    reach(g, w, (uint32_t)i, NULL))
				more = g->rule[i].nullable = 1;
		}
	}
}

/*
 * Take away, one after another, rules that begin with none that is left: those
 * that stay begin with each other in a circle.  n_calls and todo have room for
 * a number for each rule.
 */
static int
find_circle(const struct qwen_grammar *g, struct walk *w,
    unsigned char *calls, uint32_t *n_calls, uint32_t *todo,
    struct qwen_err *err)
{
	size_t n = g->n_rules, i, k, have = 0, used;

	for (i = 0; i < n; i++) {
		reach(g, w, (uint32_t)i, calls + i * n);
		for (k = 0; k < n; k++)
			n_calls[i] += calls[i * n + k];
		if (n_calls[i] == 0)
			todo[have++] = (uint32_t)i;
	}
	for (used = 0; used < have; used++) {
		for (i = 0; i < n; i++) {
			if (calls[i * n + todo[used]] && --n_calls[i] == 0)
				todo[have++] = (uint32_t)i;
		}
	}
	for (i = 0; i < n && have < n; i++) {
		if (n_calls[i] > 0)
			return qwen_fail(err, QWEN_EUNSUP, "rule %.60s begins "
			    "with itself, perhaps by way of others: left "
			    "recursion is not supported", g->rule[i].name);
	}
	return 0;
}

int
qwen_grammar_check(struct qwen_grammar *g, struct qwen_err *err)
{
	struct walk w = {
		.todo = qwen_alloc(g->n_nodes, sizeof *w.todo),
		.seen = qwen_alloc(g->n_nodes, 1),
	};
	unsigned char *calls = qwen_alloc(g->n_rules, g->n_rules);
	uint32_t *count = qwen_alloc(2 * g->n_rules, sizeof *count);
	int rc;

	if (w.todo == NULL || w.seen == NULL || calls == NULL || count == NULL) {
		rc = qwen_oom(err);
	} else {
		find_nullable(g, &w);
		rc = find_circle(g, &w, calls, count,
		    count + g->n_rules, err);
	}
	free(w.todo);
	free(w.seen);
	free(calls);
	free(count);
	return rc;
}
