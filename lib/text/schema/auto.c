/* SPDX-License-Identifier: ISC */
/*
 * auto.c - texts that meet several conditions.  Each condition is an automaton
 * over classes of characters that no condition tells apart.  A combination of
 * states, one per condition, becomes a rule.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/schema/auto.h"

static void
free_states(struct auto_states *t)
{
	free(t->word);
	free(t->state);
}

/* ------------------------------------------------------ step of a condition */

/* Counts a character; stops at the limit, or where more make no difference. */
static int
step_length(const struct schema_condition *c, uint32_t n)
{
	uint32_t cap = c->max == UINT32_MAX ? c->min : c->max;

	if (n < cap)
		return (int)n + 1;
	return c->max == UINT32_MAX ? (int)n : DEAD;
}

/* Returns the state of condition i after a character of class k, or DEAD. */
static int
step(struct automaton *a, int i, int from, uint32_t k)
{
	const struct schema_condition *c = &a->want->c[i];
	uint32_t digit = a->digit[k];

	if (from == DEAD)
		return DEAD;
	if (c->tree != 0)
		return qwen_auto_step(a, i, from, k);
	if (c->multiple == 0)
		return step_length(c, (uint32_t)from);
	return digit > 9 ? from : (int)(((uint32_t)from * 10 + digit) %
	    c->multiple);
}

static int
accepts(struct automaton *a, int i, int state)
{
	const struct schema_condition *c = &a->want->c[i];

	if (state == DEAD)
		return 0;
	if (c->tree != 0)
		return qwen_auto_accepts(a, i, state);
	return c->multiple != 0 ? state == 0 : (uint32_t)state >= c->min;
}

/* ---------------------------------------------------------------- together */

/* May a text end in these states? */
static int
ends(struct automaton *a, const uint32_t *v)
{
	unsigned out = 0;		/* groups of which a condition does not
					   hold */
	int i, ok;

	for (i = 0; i < a->want->n; i++) {
		ok = accepts(a, i, (int)v[i]);
		if (!ok && a->want->c[i].group == 0)
			return 0;
		if (!ok)
			out |= 1u << a->want->c[i].group;
	}
	return out == (1u << (a->want->n_groups + 1)) - 2;
}

/* Computes the states after class k; returns 0 if no text continues so. */
static int
step_all(struct automaton *a, const uint32_t *from, uint32_t k, uint32_t *to)
{
	int i, state;

	for (i = 0; i < a->want->n; i++) {
		if ((state = step(a, i, (int)from[i], k)) == FULL)
			return FULL;
		if (state == DEAD && a->want->c[i].group == 0)
			return 0;
		to[i] = (uint32_t)state;
	}
	return 1;
}

/* Finds all states and the next state for each class. */
static int
explore(struct automaton *a)
{
	uint32_t v[SCHEMA_CONDITIONS] = { 0 }, to[SCHEMA_CONDITIONS];
	size_t n = (size_t)a->want->n, i, k;
	int rc;

	if (qwen_auto_intern(&a->all, v, n) < 0)
		return FULL;
	for (i = 0; i < a->all.n; i++) {
		if (qwen_grow(&a->next, &a->cap_next, (i + 1) * a->n_classes,
		    sizeof *a->next) < 0 || qwen_grow(&a->may_end,
		    &a->cap_end, i + 1, 1) < 0)
			return qwen_schema_oom(a->s) - 1;
		memcpy(v, a->all.word + a->all.state[i].from, n * sizeof *v);
		a->may_end[i] = (char)ends(a, v);
		for (k = 0; k < a->n_classes; k++) {
			rc = 0;
			if (a->may_end[i] && a->want->ends_first) {
				a->next[i * a->n_classes + k] = DEAD;
				continue;
			}
			if (!auto_spend(a, 1))
				return FULL;
			rc = step_all(a, v, (uint32_t)k, to);
			if (rc > 0)
				rc = qwen_auto_intern(&a->all, to, n);
			else if (rc == 0)
				rc = DEAD;
			if (rc == FULL)
				return FULL;
			a->next[i * a->n_classes + k] = rc;
		}
	}
	return 0;
}

/* Finds the states from which some text reaches an end. */
static int
find_useful(struct automaton *a)
{
	size_t i, k, n = a->n_classes;
	int more = 1;

	if ((a->useful = qwen_alloc(a->all.n, 1)) == NULL)
		return qwen_schema_oom(a->s) - 1;
	memcpy(a->useful, a->may_end, a->all.n);
	while (more && !a->s->failed) {
		more = 0;
		for (i = a->all.n; i-- > 0; ) {
			for (k = 0; !a->useful[i] && k < n; k++) {
				int to = a->next[i * n + k];

				auto_spend(a, 1);
				if (to >= 0 && a->useful[to])
					more = a->useful[i] = 1;
			}
		}
	}
	return 0;
}

/* -------------------------------------------------------------------- rules */

/* A node for the characters that lead from a state to another. */
static uint32_t
characters(struct automaton *a, size_t from, int to)
{
	struct schema_set set;
	size_t i;

	set.n = 0;
	for (i = 0; i < a->n_spans && auto_spend(a, 1); i++) {
		if (a->next[from * a->n_classes + a->class[i]] == to)
			qwen_set_add(a->s, &set, a->from[i], i + 1 <
			    a->n_spans ? a->from[i + 1] - 1 : 0x10ffff);
	}
	return qwen_snode_set(a->s, &set);
}

static uint32_t
body(struct automaton *a, size_t i, const uint32_t *rule)
{
	struct schema *s = a->s;
	uint32_t out = qwen_snode(s, SNODE_ALT);
	size_t k, p, n = a->n_classes;

	if (a->may_end[i])
		qwen_snode_add(s, out, SNODE_EMPTY);
	for (k = 0; k < n && !s->failed; k++) {
		int to = a->next[i * n + k];

		if (to < 0 || !a->useful[to])
			continue;
		for (p = 0; a->next[i * n + p] != to; p++)
			;
		if (!auto_spend(a, p))
			break;
		if (p == k)
			qwen_snode_add(s, out, qwen_snode_then(s, characters(a,
			    i, to), qwen_snode_rule(s, rule[to])));
	}
	return out;
}

static uint32_t
make_rules(struct automaton *a)
{
	struct schema *s = a->s;
	uint32_t *rule = qwen_alloc(a->all.n, sizeof *rule), out;
	size_t i;

	if (rule == NULL)
		return qwen_schema_oom(s);
	for (i = 0; i < a->all.n && !s->failed; i++) {
		if (a->useful[i])
			rule[i] = qwen_schema_add_rule(s, SNODE_NEVER);
	}
	for (i = 0; i < a->all.n && !s->failed; i++) {
		uint32_t node = a->useful[i] ? body(a, i, rule) : SNODE_NEVER;

		if (a->useful[i] && !s->failed)
			s->rule[rule[i]].node = node;
	}
	out = a->useful[0] ? qwen_snode_rule(s, rule[0]) : SNODE_NEVER;
	free(rule);
	return s->failed ? SNODE_NEVER : out;
}

/* --------------------------------------------------------------- conditions */

void
qwen_schema_condition(struct schema_together *t, struct schema_condition c)
{
	if (t->n == SCHEMA_CONDITIONS) {
		t->full = 1;
		return;
	}
	if (c.group > t->n_groups)
		t->n_groups = c.group;
	t->c[t->n++] = c;
}

void
qwen_schema_hold(struct schema_together *t, int group, uint32_t tree)
{
	qwen_schema_condition(t, (struct schema_condition){
	    .group = group < 0 ? t->n_groups + 1 : group, .tree = tree });
}

static void
fini(struct automaton *a)
{
	int i;

	for (i = 0; i < a->want->n; i++) {
		free(a->part[i].node);
		free(a->part[i].next);
		free_states(&a->part[i].states);
	}
	free_states(&a->all);
	free(a->next);
	free(a->may_end);
	free(a->useful);
	free(a->from);
	free(a->class);
	free(a);
}

uint32_t
qwen_schema_together(struct schema *s, struct schema_together *t)
{
	struct automaton *a;
	uint32_t out = SNODE_NEVER;

	if (s->failed || t->full || t->n_groups > AUTO_GROUPS) {
		t->full = 1;
		return SNODE_NEVER;
	}
	if ((a = qwen_alloc(1, sizeof *a)) == NULL)
		return qwen_schema_oom(s);
	a->s = s;
	a->want = t;
	if (qwen_auto_read(a) < 0 || explore(a) < 0)
		t->full = 1;
	else if (find_useful(a) == 0)
		out = !t->only_asked ? make_rules(a) : a->useful[0] ?
		    SNODE_EMPTY : SNODE_NEVER;
	if (a->work > AUTO_WORK)
		t->full = 1;
	s->work += a->work / 4;
	fini(a);
	if (!qwen_schema_step(s) || t->full)
		return SNODE_NEVER;
	return s->failed ? SNODE_NEVER : out;
}
