/* SPDX-License-Identifier: ISC */
/* graph.c - makes a graph of a pattern's tree; a state is a set of nodes. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/schema/auto.h"

enum { BEFORE_ALL, BEFORE_WORD, BEFORE_OTHER };	/* the character before a
						   position */

/* ------------------------------------------------------------------ states */

static uint32_t
hash(const uint32_t *v, size_t n)
{
	uint32_t h = 2166136261u;

	for (; n > 0; n--)
		h = (h ^ *v++) * 16777619u;
	return h ^ h >> 15;
}

int
qwen_auto_intern(struct auto_states *t, const uint32_t *v, size_t n)
{
	uint32_t at = hash(v, n) % AUTO_SLOTS;
	struct auto_state *s;

	for (; t->slot[at] != 0; at = (at + 1) % AUTO_SLOTS) {
		s = &t->state[t->slot[at] - 1];
		if (s->n == n && memcmp(t->word + s->from, v,
		    n * sizeof *v) == 0)
			return (int)t->slot[at] - 1;
	}
	if (t->n == SCHEMA_STATES || t->n_word + n > AUTO_WORDS)
		return FULL;
	if (qwen_grow(&t->word, &t->cap_word, t->n_word + n, sizeof *t->word) <
	    0 || qwen_grow(&t->state, &t->cap, t->n + 1, sizeof *t->state) < 0)
		return FULL;
	if (n > 0)
		memcpy(t->word + t->n_word, v, n * sizeof *v);
	t->state[t->n] = (struct auto_state){ (uint32_t)t->n_word,
	    (uint32_t)n };
	t->n_word += n;
	t->slot[at] = (uint32_t)++t->n;
	return (int)t->n - 1;
}

/* ------------------------------------------------------- sets of characters */

/* Returns the number of a set of s->range; -1 if there are too many. */
static int
find_set(struct automaton *a, uint32_t at, uint32_t n)
{
	const struct schema_range *r = a->s->range;
	uint32_t i;

	for (i = 0; i < a->n_sets && auto_spend(a, 1); i++) {
		if (a->set[i].n == n && memcmp(r + a->set[i].at, r + at,
		    n * sizeof *r) == 0)
			return (int)i;
	}
	if (a->n_sets == AUTO_SETS)
		return -1;
	a->set[a->n_sets].at = at;
	a->set[a->n_sets].n = n;
	return (int)a->n_sets++;
}

static int
compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Finds where spans begin: where a set begins or ends, and at each digit. */
static int
find_spans(struct automaton *a)
{
	const struct schema_range *r = a->s->range;
	size_t i, k, n = 0, most = 16;

	for (i = 0; i < a->n_sets; i++)
		most += 2 * (size_t)a->set[i].n;
	if (most > 64 * AUTO_SPANS || (a->from = qwen_alloc(most,
	    sizeof *a->from)) == NULL)
		return -1;
	a->from[n++] = 0;
	for (i = '0'; i <= '9' + 1; i++)
		a->from[n++] = (uint32_t)i;
	for (i = 0; i < a->n_sets; i++) {
		for (k = 0; k < a->set[i].n; k++) {
			a->from[n++] = r[a->set[i].at + k].lo;
			if (r[a->set[i].at + k].hi < 0x10ffff)
				a->from[n++] = r[a->set[i].at + k].hi + 1;
		}
	}
	qsort(a->from, n, sizeof *a->from, compare);
	for (i = k = 1; i < n; i++) {
		if (a->from[i] != a->from[k - 1])
			a->from[k++] = a->from[i];
	}
	a->n_spans = k;
	return k > AUTO_SPANS ? -1 : 0;
}

static int
is_in(const struct automaton *a, uint32_t set, uint32_t c)
{
	const struct schema_range *r = a->s->range + a->set[set].at;
	size_t lo = 0, hi = a->set[set].n, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (c > r[mid].hi)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < a->set[set].n && c >= r[lo].lo;
}

/* Groups spans that no set tells apart into classes; each digit has its own. */
static int
find_classes(struct automaton *a)
{
	uint64_t has[AUTO_SETS / 64];
	uint32_t set, k, digit;
	size_t i;

	if ((a->class = qwen_alloc(a->n_spans, sizeof *a->class)) == NULL)
		return -1;
	for (i = 0; i < a->n_spans; i++) {
		memset(has, 0, sizeof has);
		for (set = 0; set < a->n_sets && auto_spend(a, 1); set++)
			has[set / 64] |= (uint64_t)is_in(a, set, a->from[i]) <<
			    set % 64;
		digit = a->from[i] - '0';
		for (k = 0; k < a->n_classes && auto_spend(a, 1); k++) {
			if (memcmp(a->has[k], has, sizeof has) == 0 &&
			    (a->digit[k] == digit || (a->digit[k] > 9 &&
			    digit > 9)))
				break;
		}
		if (k == a->n_classes && k == AUTO_CLASSES)
			return -1;
		if (k == a->n_classes) {
			memcpy(a->has[k], has, sizeof has);
			a->digit[k] = digit;
			a->is_word[k] = (char)is_in(a, 0, a->from[i]);
			a->n_classes++;
		}
		a->class[i] = (uint16_t)k;
	}
	return a->s->failed ? -1 : 0;
}

/* --------------------------------------------------------------- the graph */

/* Adds a node; -1 if there are too many.  The first one is MATCH. */
static int64_t
add_node(struct automaton *a, struct auto_part *p, enum auto_kind kind,
    uint32_t x,
    uint32_t y)
{
	if (p->n == AUTO_NODES || !auto_spend(a, 1) ||
	    qwen_grow(&p->node, &p->cap, p->n + 1, sizeof *p->node) < 0)
		return -1;
	p->node[p->n] = (struct auto_node){ kind, x, y };
	return (int64_t)p->n++;
}

static int64_t build(struct automaton *a, struct auto_part *p, uint32_t at,
    uint32_t next);

/* Builds the parts of a sequence from the last to the first. */
static int64_t
build_sequence(struct automaton *a, struct auto_part *p, uint32_t at,
    uint32_t next)
{
	const struct snode *node = a->s->node;
	uint32_t i, *list;
	int64_t to = next;
	size_t n = 0;

	for (i = node[at].first; i != 0; i = node[i].next)
		n++;
	if (n > AUTO_NODES || (list = qwen_alloc(n, sizeof *list)) == NULL)
		return -1;
	for (n = 0, i = node[at].first; i != 0; i = node[i].next)
		list[n++] = i;
	while (n-- > 0 && to >= 0)
		to = build(a, p, list[n], (uint32_t)to);
	free(list);
	return to;
}

static int64_t
build_repeat(struct automaton *a, struct auto_part *p, uint32_t at,
    uint32_t next)
{
	const struct snode *d = &a->s->node[at];
	int64_t to = next, loop;
	uint32_t i;

	if (d->max == UINT32_MAX) {
		if ((loop = add_node(a, p, AUTO_SPLIT, 0, next)) < 0 ||
		    (to = build(a, p, d->first, (uint32_t)loop)) < 0)
			return -1;
		p->node[loop].a = (uint32_t)to;
		to = loop;
	} else {
		for (i = d->min; i < d->max && to >= 0; i++) {
			to = build(a, p, d->first, (uint32_t)to);
			if (to >= 0)
				to = add_node(a, p, AUTO_SPLIT, (uint32_t)to,
				    next);
		}
	}
	for (i = 0; i < d->min && to >= 0; i++)
		to = build(a, p, d->first, (uint32_t)to);
	return to;
}

/* Builds a tree's nodes, which continue at next; returns the first, or -1. */
static int64_t
build(struct automaton *a, struct auto_part *p, uint32_t at, uint32_t next)
{
	const struct snode *d = &a->s->node[at];
	int64_t to, other;
	uint32_t i;
	int set;

	switch (d->kind) {
	case SNODE_TEXT:
		if (d->at != AT_ANY) {
			p->has_places = 1;
			return add_node(a, p, AUTO_PLACE, d->at, next);
		}
		if (d->n_set == 0 || (set = find_set(a, d->set, d->n_set)) < 0)
			return -1;
		return add_node(a, p, AUTO_CHARACTER, (uint32_t)set, next);
	case SNODE_SEQ:
		return build_sequence(a, p, at, next);
	case SNODE_REPEAT:
		return build_repeat(a, p, at, next);
	case SNODE_ALT:
		/* without parts: a loop that leads nowhere */
		if ((to = add_node(a, p, AUTO_SPLIT, (uint32_t)p->n,
		    (uint32_t)p->n)) < 0)
			return -1;
		for (i = d->first; i != 0; i = a->s->node[i].next) {
			if ((other = build(a, p, i, next)) < 0 || (to =
			    add_node(a,
			    p, AUTO_SPLIT, (uint32_t)to, (uint32_t)other)) < 0)
				return -1;
		}
		return to;
	default:
		return -1;
	}
}

/* Adds the set of letters, digits and _ as the first set. */
static int
add_word_set(struct automaton *a)
{
	static const struct schema_range word[] = { { '0', '9' },
	    { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
	struct schema *s = a->s;
	size_t at = s->n_range;

	if (qwen_grow(&s->range, &s->cap_range, at + 4, sizeof *s->range) < 0)
		return -1;
	memcpy(s->range + at, word, sizeof word);
	s->n_range += 4;
	return find_set(a, (uint32_t)at, 4);
}

int
qwen_auto_read(struct automaton *a)
{
	int64_t start;
	int i;

	if (add_word_set(a) < 0)
		return -1;
	for (i = 0; i < a->want->n; i++) {
		struct auto_part *p = &a->part[i];

		if (a->want->c[i].tree == 0)
			continue;
		if (add_node(a, p, AUTO_MATCH, 0, 0) < 0 || (start = build(a, p,
		    a->want->c[i].tree, 0)) < 0)
			return -1;
		p->start = (uint32_t)start;
		/* state 0: before all characters, at the start */
		if (qwen_auto_intern(&p->states, (uint32_t[]){ BEFORE_ALL,
		    p->start }, 2) != 0)
			return -1;
	}
	return find_spans(a) < 0 || find_classes(a) < 0 ? -1 : 0;
}

/* ------------------------------------------------------------------- a step */

/*
 * Does the condition hold between the character before and the next one, or the
 * end?
 */
static int
holds(uint32_t place, uint32_t before, int is_end, int is_word)
{
	switch (place) {
	case AT_BEGIN:
		return before == BEFORE_ALL;
	case AT_END:
		return is_end;
	case AT_WORD:
		return (before == BEFORE_WORD) != is_word;
	case AT_NO_WORD:
		return (before == BEFORE_WORD) == is_word;
	}
	return 1;
}

/*
 * Collects in todo all nodes that a state reaches without a character; returns
 * their number.
 */
static size_t
closure(struct automaton *a, struct auto_part *p, int state, int is_end,
    int is_word)
{
	const struct auto_state *s = &p->states.state[state];
	const uint32_t *v = p->states.word + s->from;
	size_t n = 0, i;

	auto_spend(a, p->n / 8);
	memset(a->seen, 0, p->n);
	for (i = 1; i < s->n; i++) {
		a->seen[v[i]] = 1;
		a->todo[n++] = v[i];
	}
	for (i = 0; i < n && auto_spend(a, 1); i++) {
		const struct auto_node *d = &p->node[a->todo[i]];
		int both = d->kind == AUTO_SPLIT;

		if (d->kind == AUTO_MATCH || d->kind == AUTO_CHARACTER ||
		    (d->kind == AUTO_PLACE && !holds(d->a, v[0], is_end,
		    is_word)))
			continue;
		if (both && !a->seen[d->a]) {
			a->seen[d->a] = 1;
			a->todo[n++] = d->a;
		}
		if (!a->seen[d->b]) {
			a->seen[d->b] = 1;
			a->todo[n++] = d->b;
		}
	}
	return n;
}

static int
find_step(struct automaton *a, struct auto_part *p, int from, uint32_t k)
{
	size_t n = closure(a, p, from, 0, a->is_word[k]), i, m = 1;
	uint32_t *v = a->todo, before = !p->has_places ? BEFORE_ALL :
	    a->is_word[k] ? BEFORE_WORD : BEFORE_OTHER;

	memset(a->seen, 0, p->n);
	for (i = 0; i < n; i++) {
		const struct auto_node *d = &p->node[a->todo[i]];

		if (d->kind == AUTO_CHARACTER &&
		    a->has[k][d->a / 64] >> d->a % 64 & 1)
			a->seen[d->b] = 1;
	}
	/* sorted, so that equal sets have equal words */
	for (i = 0; i < p->n && m < AUTO_NODES; i++) {
		if (a->seen[i])
			v[m++] = (uint32_t)i;
	}
	if (m == 1)
		return DEAD;
	v[0] = before;
	return qwen_auto_intern(&p->states, v, m);
}

int
qwen_auto_step(struct automaton *a, int part, int from, uint32_t k)
{
	struct auto_part *p = &a->part[part];
	size_t at = (size_t)from * a->n_classes + k, had = p->cap_next;
	int to;

	if (qwen_grow(&p->next, &p->cap_next, at + 1, sizeof *p->next) < 0)
		return -1;
	if (p->cap_next > had)
		memset(p->next + had, 0, (p->cap_next - had) * sizeof *p->next);
	if (p->next[at] == 0) {
		to = find_step(a, p, from, k);
		if (to == FULL || a->s->failed)
			return FULL;
		p->next[at] = to == DEAD ? -1 : to + 1;
	}
	return p->next[at] == -1 ? DEAD : p->next[at] - 1;
}

int
qwen_auto_accepts(struct automaton *a, int part, int state)
{
	struct auto_part *p = &a->part[part];

	closure(a, p, state, 1, 0);
	return a->seen[0];
}
