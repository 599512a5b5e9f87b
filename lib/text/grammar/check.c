/* SPDX-License-Identifier: ISC */
/*
 * check.c - finds the nullable rules, and refuses left recursion: a rule that
 * begins with itself can be followed without end before its first byte.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/grammar/grammar.h"

struct walk {
	uint32_t	*todo;		/* by node: see push() and
					   find_calls() */
	unsigned char	*seen;		/* by node */
};

/* Pushes a node to a list. *head and todo[] are a node plus one; 0: the end. */
static void
push(struct walk *w, uint32_t *head, uint32_t node)
{
	w->todo[node] = *head;
	*head = node + 1;
}

static void
see(struct walk *w, uint32_t *head, uint32_t node)
{
	if (!w->seen[node])
		push(w, head, node);
	w->seen[node] = 1;
}

/*
 * Walks from all rules' starts as far as no byte is needed.  A call waits until
 * its rule is known to be nullable: so each node is visited once, a call twice.
 * waiting has a list per rule, empty before and after.
 */
static void
find_nullable(struct qwen_grammar *g, struct walk *w, uint32_t *waiting)
{
	uint32_t head = 0, at, i;

	for (i = 0; i < g->n_rules; i++)
		see(w, &head, g->rule[i].start);
	while (head != 0) {
		const struct qwen_gnode *d = &g->node[at = head - 1];

		head = w->todo[at];
		if (d->kind == QWEN_GNODE_SPLIT) {
			see(w, &head, d->next);
			see(w, &head, d->also);
		} else if (d->kind == QWEN_GNODE_CALL) {
			if (g->rule[d->also].nullable)
				see(w, &head, d->next);
			else
				push(w, &waiting[d->also], at);
		} else if (d->kind == QWEN_GNODE_END) {
			g->rule[d->also].nullable = 1;
			while ((at = waiting[d->also]) != 0) {
				waiting[d->also] = w->todo[at - 1];
				push(w, &head, at - 1);
			}
		}
	}
	memset(waiting, 0, g->n_rules * sizeof *waiting);
	memset(w->seen, 0, g->n_nodes);
}

/* Finds the rules that rule r calls before its first byte. */
static void
find_calls(const struct qwen_grammar *g, struct walk *w, uint32_t r,
    unsigned char *calls)
{
	size_t n = 0, i, used = 0;

	w->todo[n++] = g->rule[r].start;
	w->seen[g->rule[r].start] = 1;
	/* todo keeps all visited nodes, to clear seen afterwards */
	while (used < n) {
		const struct qwen_gnode *d = &g->node[w->todo[used++]];
		uint32_t to[2] = { d->next, d->also };
		int k, upto = 0;

		if (d->kind == QWEN_GNODE_SPLIT)
			upto = 2;
		else if (d->kind == QWEN_GNODE_CALL) {
			calls[d->also] = 1;
			upto = g->rule[d->also].nullable;
		}
		for (k = 0; k < upto; k++) {
			if (!w->seen[to[k]]) {
				w->seen[to[k]] = 1;
				w->todo[n++] = to[k];
			}
		}
	}
	for (i = 0; i < n; i++)
		w->seen[w->todo[i]] = 0;
}

/*
 * Returns a rule on a cycle.  Each remaining rule (n_calls is not 0) begins
 * with another one, so that after n steps the walk is on a cycle.
 */
static size_t
go_round(const unsigned char *calls, const uint32_t *n_calls, size_t n,
    size_t at)
{
	size_t k, left;

	for (left = n; left > 0; left--) {
		for (k = 0; !calls[at * n + k] || n_calls[k] == 0; k++)
			;
		at = k;
	}
	return at;
}

/*
 * Removes, one by one, the rules that begin with no remaining rule.  If any
 * remain, some of them begin with each other in a cycle. n_calls and todo have
 * room for one number per rule.
 */
static int
find_circle(const struct qwen_grammar *g, struct walk *w,
    unsigned char *calls, uint32_t *n_calls, uint32_t *todo,
    struct qwen_err *err)
{
	size_t n = g->n_rules, i, k, have = 0, used;

	for (i = 0; i < n; i++) {
		find_calls(g, w, (uint32_t)i, calls + i * n);
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
			    "with itself, directly or through other rules: "
			    "left recursion is not supported",
			    g->rule[go_round(calls, n_calls, n, i)].name);
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
		find_nullable(g, &w, count);
		rc = find_circle(g, &w, calls, count,
		    count + g->n_rules, err);
	}
	free(w.todo);
	free(w.seen);
	free(calls);
	free(count);
	return rc;
}
