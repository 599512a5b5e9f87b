/* SPDX-License-Identifier: ISC */
/*
 * match.c - follows a text through a grammar and finds the tokens that may be
 * next.
 *
 * A place is a node that reads a byte, or the end of the root rule, with the
 * list of its enclosing calls.  Equal lists are shared.  The sets of places are
 * states of an automaton that is built on demand.  When it grows too large, all
 * sets except those in use are dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/grammar/trie.h"

enum { DEAD = 0, FIRST = 1, UNKNOWN = UINT16_MAX };

struct match_state {
	uint32_t	node;		/* 0: end of the root rule */
	uint32_t	calls;		/* innermost enclosing call; 0: none */
};

struct match_call {
	uint32_t	node;		/* node to continue at after the call */
	uint32_t	outer;
};

struct set {
	uint32_t	from, n;	/* its places */
	int		ends;		/* the root rule may end here */
	int		mask;		/* index of its mask, or -1 */
	int		kept;		/* do not drop, in keep() */
	uint16_t	plain;		/* set after any plain character */
	uint16_t	next[256];
};

struct slot {
	uint32_t	stamp, at;
};

struct qwen_match {
	const struct qwen_grammar *g;
	const struct qwen_trie	*t;
	struct match_call	*call;		/* from index 1 */
	size_t		 n_calls, cap_calls;
	uint32_t	*call_slot;	/* hash table, two slots per call */
	struct match_state	*place;		/* of all sets */
	size_t		 n_places, cap_places;
	struct set	*set;		/* set 0 is empty */
	size_t		 n_sets;
	uint16_t	*set_slot;
	struct match_state	*work;		/* the set being made */
	size_t		 n_work;
	struct slot	*work_slot;	/* hash table of its places */
	uint32_t	 stamp;		/* slots of other stamps are empty */
	size_t		 spent;		/* places visited */
	uint16_t	 at;
	/* masks of some sets */
	uint64_t	*mask;
	size_t		 mask_words, n_masks;
	uint16_t	 owner[QWEN_GRAMMAR_MASKS];
	uint16_t	*stack;		/* sets on the path to a tree node */
};

#define SET_SLOTS (2 * QWEN_GRAMMAR_SETS)
#define WORK_SLOTS (2 * QWEN_GRAMMAR_PLACES)

void
qwen_match_free(struct qwen_match *m)
{
	if (m == NULL)
		return;
	free(m->call);
	free(m->call_slot);
	free(m->place);
	free(m->set);
	free(m->set_slot);
	free(m->work);
	free(m->work_slot);
	free(m->mask);
	free(m->stack);
	free(m);
}

/* ------------------------------------------------------------- making sets */

static uint32_t
hash(uint32_t a, uint32_t b)
{
	uint64_t h = (a * 0x9e3779b97f4a7c15u) ^ (b * 0xc2b2ae3d27d4eb4fu);

	return (uint32_t)((h ^ h >> 29) * 0xbf58476d1ce4e5b9u >> 32);
}

/* Returns the slot of a call, or the empty slot for it. */
static uint32_t *
find_call(const struct qwen_match *m, uint32_t node, uint32_t outer)
{
	uint32_t mask = (uint32_t)(2 * m->cap_calls - 1);
	uint32_t i = hash(node, outer) & mask, c;

	for (; (c = m->call_slot[i]) != 0; i = (i + 1) & mask) {
		if (m->call[c].node == node && m->call[c].outer == outer)
			break;
	}
	return &m->call_slot[i];
}

/* Doubles the room for calls; most texts need few. */
static int
more_calls(struct qwen_match *m)
{
	size_t cap = m->cap_calls > 0 ? 2 * m->cap_calls : 1024, i;
	struct match_call *call = realloc(m->call, cap * sizeof *call);
	uint32_t *slot = qwen_alloc(2 * cap, sizeof *slot);

	if (call != NULL)
		m->call = call;
	if (call == NULL || slot == NULL) {
		free(slot);
		return -1;
	}
	free(m->call_slot);
	m->call_slot = slot;
	m->cap_calls = cap;
	for (i = 1; i < m->n_calls; i++)
		*find_call(m, call[i].node, call[i].outer) = (uint32_t)i;
	return 0;
}

/* Returns the index of a call; 0 if there are too many. */
static uint32_t
intern_call(struct qwen_match *m, uint32_t node, uint32_t outer)
{
	uint32_t *slot = find_call(m, node, outer);

	if (*slot != 0)
		return *slot;
	if (m->n_calls == m->cap_calls) {
		if (m->n_calls == QWEN_GRAMMAR_CALLS || more_calls(m) < 0)
			return 0;
		slot = find_call(m, node, outer);
	}
	m->call[m->n_calls] = (struct match_call){ node, outer };
	return *slot = (uint32_t)m->n_calls++;
}

static int
too_much(struct qwen_err *err)
{
	return qwen_fail(err, QWEN_ERANGE, "the grammar is too ambiguous, or "
	    "the text nested too deeply");
}

/* Begins a new set. */
static void
begin_work(struct qwen_match *m)
{
	m->n_work = 0;
	if (++m->stamp == 0) {
		memset(m->work_slot, 0, WORK_SLOTS * sizeof *m->work_slot);
		m->stamp = 1;
	}
}

/* Adds a place to the new set, unless it has it. */
static int
add_place(struct qwen_match *m, uint32_t node, uint32_t calls,
    struct qwen_err *err)
{
	uint32_t i = hash(node, calls) & (WORK_SLOTS - 1);

	if (++m->spent > QWEN_GRAMMAR_WORK)
		return too_much(err);
	for (; m->work_slot[i].stamp == m->stamp; i = (i + 1) & (WORK_SLOTS - 1)) {
		const struct match_state *p = &m->work[m->work_slot[i].at];

		if (p->node == node && p->calls == calls)
			return 0;
	}
	if (m->n_work == QWEN_GRAMMAR_PLACES)
		return too_much(err);
	m->work_slot[i] = (struct slot){ m->stamp, (uint32_t)m->n_work };
	m->work[m->n_work++] = (struct match_state){ node, calls };
	return 0;
}

/* Adds the places that a place leads to without a byte. */
static int
follow(struct qwen_match *m, struct match_state p, struct qwen_err *err)
{
	const struct qwen_gnode *d = &m->g->node[p.node];
	uint32_t calls = p.calls;

	if (p.node == 0 || d->kind == QWEN_GNODE_BYTE)
		return 0;
	if (d->kind == QWEN_GNODE_SPLIT)
		return add_place(m, d->next, calls, err) < 0 ||
		    add_place(m, d->also, calls, err) < 0 ? -1 : 0;
	if (d->kind == QWEN_GNODE_END) {
		if (calls == 0)
			return add_place(m, 0, 0, err);
		return add_place(m, m->call[calls].node, m->call[calls].outer,
		    err);
	}
	/* a call at the end of a rule needs no return */
	if (m->g->node[d->next].kind != QWEN_GNODE_END &&
	    (calls = intern_call(m, d->next, calls)) == 0)
		return too_much(err);
	return add_place(m, m->g->rule[d->also].start, calls, err);
}

static int
compare_place(const void *a, const void *b)
{
	const struct match_state *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->calls > y->calls) - (x->calls < y->calls);
}

/* Follows all places, then keeps, in order, those that read a byte or end. */
static int
close_work(struct qwen_match *m, struct qwen_err *err)
{
	size_t i, n = 0;

	for (i = 0; i < m->n_work; i++) {
		if (follow(m, m->work[i], err) < 0)
			return -1;
	}
	for (i = 0; i < m->n_work; i++) {
		if (m->work[i].node == 0 || m->g->node[m->work[i].node].kind ==
		    QWEN_GNODE_BYTE)
			m->work[n++] = m->work[i];
	}
	m->n_work = n;
	qsort(m->work, n, sizeof *m->work, compare_place);
	return 0;
}

/* Returns the first slot to examine for a set of these places. */
static uint32_t
first_slot(const struct match_state *p, size_t n)
{
	uint32_t h = 0;

	for (; n > 0; n--, p++)
		h = hash(h ^ p->node, p->calls);
	return h & (SET_SLOTS - 1);
}

/* Marks everything about a set as unknown. */
static void
know_nothing(struct set *s)
{
	s->mask = -1;
	s->plain = UNKNOWN;
	memset(s->next, 0xff, sizeof s->next);
}

/* Returns the number of the set in work; -1 on errors. */
static int
intern_set(struct qwen_match *m, struct qwen_err *err)
{
	size_t bytes = m->n_work * sizeof *m->work;
	struct set *s;
	uint32_t k;

	if (m->n_work == 0)
		return DEAD;
	for (k = first_slot(m->work, m->n_work); m->set_slot[k] != 0;
	    k = (k + 1) & (SET_SLOTS - 1)) {
		s = &m->set[m->set_slot[k]];
		if (s->n == m->n_work &&
		    memcmp(m->place + s->from, m->work, bytes) == 0)
			return m->set_slot[k];
	}
	if (m->n_sets == QWEN_GRAMMAR_SETS ||
	    m->n_places + m->n_work > QWEN_GRAMMAR_HELD)
		return too_much(err);
	if (qwen_grow(&m->place, &m->cap_places, m->n_places + m->n_work,
	    sizeof *m->place) < 0)
		return qwen_oom(err);
	s = &m->set[m->n_sets];
	*s = (struct set){ .from = (uint32_t)m->n_places,
		.n = (uint32_t)m->n_work, .ends = m->work[0].node == 0 };
	know_nothing(s);
	memcpy(m->place + m->n_places, m->work, bytes);
	m->n_places += m->n_work;
	m->set_slot[k] = (uint16_t)m->n_sets;
	return (int)m->n_sets++;
}

/* Finds the range around a byte that all places of the set treat alike. */
static void
find_span(const struct qwen_match *m, const struct set *s, unsigned byte,
    unsigned *lo, unsigned *hi)
{
	uint32_t i;

	*lo = 0;
	*hi = 255;
	for (i = 0; i < s->n; i++) {
		const struct qwen_gnode *d =
		    &m->g->node[m->place[s->from + i].node];
		unsigned from = d->lo, to = d->hi;

		if (d->kind != QWEN_GNODE_BYTE)
			continue;
		if (byte < from) {
			to = from - 1u;
			from = 0;
		} else if (byte > to) {
			from = to + 1;
			to = 255;
		}
		*lo = from > *lo ? from : *lo;
		*hi = to < *hi ? to : *hi;
	}
}

/* Returns the set after a byte; DEAD if no text continues so; -1 on errors. */
static int
step(struct qwen_match *m, int from, unsigned char byte, struct qwen_err *err)
{
	const struct set *s = &m->set[from];
	int to = s->next[byte];
	unsigned lo, hi;
	uint32_t i;

	if (from == DEAD || to != UNKNOWN)
		return from == DEAD ? DEAD : to;
	find_span(m, s, byte, &lo, &hi);
	m->spent += s->n;
	begin_work(m);
	for (i = 0; i < s->n; i++) {
		struct match_state p = m->place[s->from + i];
		const struct qwen_gnode *d = &m->g->node[p.node];

		if (p.node != 0 && byte >= d->lo && byte <= d->hi &&
		    add_place(m, d->next, p.calls, err) < 0)
			return -1;
	}
	if (close_work(m, err) < 0 || (to = intern_set(m, err)) < 0)
		return -1;
	for (; lo <= hi; lo++)
		m->set[from].next[lo] = (uint16_t)to;
	return to;
}

/*
 * Returns the set after the bytes lo .. hi if it is the same for all; DEAD if
 * not; -1 on errors.
 */
static int
step_all(struct qwen_match *m, int from, unsigned lo, unsigned hi,
    struct qwen_err *err)
{
	int to = DEAD, one;
	unsigned b;

	for (b = lo; b <= hi; b++) {
		if ((one = step(m, from, (unsigned char)b, err)) < 0)
			return -1;
		if (one == DEAD || (b > lo && one != to))
			return DEAD;
		to = one;
	}
	return to;
}

/* The byte ranges of plain characters, by their first byte. */
static const struct {
	unsigned char	from, to, lo, hi;	/* of the first byte, the second
						   byte */
	int		more;			/* number of bytes after
						   these */
} plain[] = {
	{ 0x20, 0x21, 0, 0, 0 }, { 0x23, 0x5b, 0, 0, 0 },
	{ 0x5d, 0x7f, 0, 0, 0 }, { 0xc2, 0xdf, 0x80, 0xbf, 0 },
	{ 0xe0, 0xe0, 0xa0, 0xbf, 1 }, { 0xe1, 0xec, 0x80, 0xbf, 1 },
	{ 0xed, 0xed, 0x80, 0x9f, 1 }, { 0xee, 0xef, 0x80, 0xbf, 1 },
	{ 0xf0, 0xf0, 0x90, 0xbf, 2 }, { 0xf1, 0xf3, 0x80, 0xbf, 2 },
	{ 0xf4, 0xf4, 0x80, 0x8f, 2 },
};

/*
 * Returns the set after any plain character if it is the same for all; DEAD if
 * not; -1 on errors.
 */
static int
step_plain(struct qwen_match *m, int from, struct qwen_err *err)
{
	int to = DEAD, one, k;
	size_t i;

	if (m->set[from].plain != UNKNOWN)
		return m->set[from].plain;
	m->set[from].plain = DEAD;
	for (i = 0; i < sizeof plain / sizeof plain[0]; i++) {
		one = step_all(m, from, plain[i].from, plain[i].to, err);
		if (one > DEAD && plain[i].lo != 0)
			one = step_all(m, one, plain[i].lo, plain[i].hi, err);
		for (k = 0; k < plain[i].more && one > DEAD; k++)
			one = step_all(m, one, 0x80, 0xbf, err);
		if (one <= DEAD || (i > 0 && one != to))
			return one < 0 ? -1 : DEAD;
		to = one;
	}
	m->set[from].plain = (uint16_t)to;
	return to;
}

/*
 * Returns 1 if the next 1 << *k characters may be any plain ones; 0 if not even
 * the first; -1 on errors.
 */
static int
count_plain(struct qwen_match *m, int *k, struct qwen_err *err)
{
	int at = m->at, n, to;

	for (n = 0; n < QWEN_PLAIN_MAX; n++, at = to) {
		if (at == DEAD || (to = step_plain(m, at, err)) == DEAD)
			break;
		if (to < 0)
			return -1;
		if (to == at)
			n = QWEN_PLAIN_MAX - 1;
	}
	for (*k = 0; n >= 2 << *k; ++*k)
		;
	return n > 0;
}

/* Drops all sets. */
static void
forget(struct qwen_match *m)
{
	m->n_sets = FIRST;
	m->n_places = 0;
	m->n_masks = 0;
	memset(m->set_slot, 0, SET_SLOTS * sizeof *m->set_slot);
}

/* Drops all sets except the first n of the stack. */
static void
keep(struct qwen_match *m, size_t n)
{
	size_t n_sets = m->n_sets, i, k;
	struct set *s;
	uint32_t slot;

	for (i = 0; i < n; i++)
		m->set[m->stack[i]].kept = 1;
	forget(m);
	/* places are in the order of their sets */
	for (k = FIRST; k < n_sets; k++) {
		if (!m->set[k].kept)
			continue;
		s = &m->set[m->n_sets];
		*s = m->set[k];
		memmove(m->place + m->n_places, m->place + s->from,
		    s->n * sizeof *m->place);
		s->from = (uint32_t)m->n_places;
		s->kept = 0;
		m->n_places += s->n;
		know_nothing(s);
		for (slot = first_slot(m->place + s->from, s->n);
		    m->set_slot[slot] != 0; slot = (slot + 1) & (SET_SLOTS - 1))
			;
		m->set_slot[slot] = (uint16_t)m->n_sets;
		for (i = 0; i < n; i++) {
			if (m->stack[i] == k)
				m->stack[i] = (uint16_t)m->n_sets;
		}
		m->n_sets++;
	}
	m->at = m->stack[0];
	m->spent += m->n_places;
}

static int
is_full(const struct qwen_match *m)
{
	return m->n_sets >= QWEN_GRAMMAR_SETS / 2 ||
	    m->n_places >= QWEN_GRAMMAR_HELD / 2;
}

/* Before a walk: drops sets if too many are in use. */
static void
make_room(struct qwen_match *m)
{
	m->spent = 0;
	m->stack[0] = m->at;
	if (m->at != DEAD && is_full(m))
		keep(m, 1);
}

/* -------------------------------------------------------------------------- */

int
qwen_match_begin(struct qwen_match *m, struct qwen_err *err)
{
	int at;

	m->spent = 0;
	begin_work(m);
	if (add_place(m, m->g->rule[m->g->root].start, 0, err) < 0 ||
	    close_work(m, err) < 0 || (at = intern_set(m, err)) < 0)
		return -1;
	m->at = (uint16_t)at;
	return 0;
}

int
qwen_match_new(struct qwen_match **out, const struct qwen_grammar *g,
    const struct qwen_trie *t, struct qwen_err *err)
{
	struct qwen_match *m = qwen_alloc(1, sizeof *m);

	*out = NULL;
	if (m == NULL)
		return qwen_oom(err);
	m->g = g;
	m->t = t;
	m->n_calls = 1;
	m->mask_words = (t->n_vocab + 63) / 64;
	m->set = qwen_alloc_large(QWEN_GRAMMAR_SETS, sizeof *m->set);
	m->set_slot = qwen_alloc(SET_SLOTS, sizeof *m->set_slot);
	m->work = qwen_alloc(QWEN_GRAMMAR_PLACES, sizeof *m->work);
	m->work_slot = qwen_alloc(WORK_SLOTS, sizeof *m->work_slot);
	m->mask = qwen_alloc_large(QWEN_GRAMMAR_MASKS * m->mask_words,
	    sizeof *m->mask);
	m->stack = qwen_alloc(t->deepest + 1, sizeof *m->stack);
	if (more_calls(m) < 0 || m->set == NULL || m->set_slot == NULL ||
	    m->work == NULL || m->work_slot == NULL || m->mask == NULL ||
	    m->stack == NULL) {
		qwen_match_free(m);
		return qwen_oom(err);
	}
	forget(m);
	if (qwen_match_begin(m, err) < 0) {
		qwen_match_free(m);
		return -1;
	}
	*out = m;
	return 0;
}

/* Returns the set after n bytes; -1 on errors. */
static int
go(struct qwen_match *m, const char *s, size_t n, struct qwen_err *err)
{
	int at;
	size_t i;

	make_room(m);
	at = m->at;
	for (i = 0; i < n && at > DEAD; i++)
		at = step(m, at, (unsigned char)s[i], err);
	return at;
}

int
qwen_match_fits(struct qwen_match *m, const char *s, size_t n,
    struct qwen_err *err)
{
	int at = go(m, s, n, err);

	return at < 0 ? -1 : at != DEAD;
}

int
qwen_match_feed(struct qwen_match *m, const char *s, size_t n,
    struct qwen_err *err)
{
	int at = go(m, s, n, err);

	if (at > DEAD)
		m->at = (uint16_t)at;
	return at < 0 ? -1 : at != DEAD;
}

int
qwen_match_may_end(const struct qwen_match *m)
{
	return m->set[m->at].ends;
}

static int
walk(struct qwen_match *m, uint64_t *mask, struct qwen_err *err)
{
	const struct qwen_trie *t = m->t;
	size_t i = 0;
	int32_t id;
	int s, k, some = count_plain(m, &k, err);

	if (some < 0)
		return -1;
	if (some)
		memcpy(mask, t->plain[k], m->mask_words * sizeof *mask);
	else
		memset(mask, 0, m->mask_words * sizeof *mask);
	while (i < t->n) {
		const struct qwen_tnode *d = &t->node[i];

		/* the plain mask has these tokens */
		if (some && d->plain <= 1 << k) {
			i = d->end;
			continue;
		}
		s = m->set[m->stack[d->depth]].next[d->byte];
		if (s == UNKNOWN && is_full(m))
			keep(m, d->depth + 1);
		if (s == UNKNOWN && (s = step(m, m->stack[d->depth], d->byte,
		    err)) < 0)
			return -1;
		if (s == DEAD) {
			i = d->end;
			continue;
		}
		m->stack[d->depth + 1] = (uint16_t)s;
		for (id = d->id; id >= 0; id = t->same[id])
			mask[id / 64] |= (uint64_t)1 << (id % 64);
		i++;
	}
	return 0;
}

const uint64_t *
qwen_match_mask(struct qwen_match *m, struct qwen_err *err)
{
	size_t k, before;
	uint64_t *mask;

	make_room(m);
	if (m->set[m->at].mask >= 0)
		return m->mask + (size_t)m->set[m->at].mask * m->mask_words;
	/* the oldest mask is replaced */
	before = m->n_masks;
	k = before % QWEN_GRAMMAR_MASKS;
	if (m->n_masks >= QWEN_GRAMMAR_MASKS)
		m->set[m->owner[k]].mask = -1;
	mask = m->mask + k * m->mask_words;
	if (walk(m, mask, err) < 0) {
		/* the replaced mask is lost all the same */
		m->owner[k] = DEAD;
		m->n_masks++;
		return NULL;
	}
	if (m->n_masks != before) {	/* keep() has dropped all masks */
		memmove(m->mask, mask, m->mask_words * sizeof *mask);
		mask = m->mask;
		k = 0;
	}
	m->owner[k] = m->at;
	m->set[m->at].mask = (int)k;
	m->n_masks++;
	return mask;
}

/* ---------------------------------------------- constraint of a sampler */

static int
open_match(struct qwen_match **out, const struct qwen_constraint *c,
    struct qwen_err *err)
{
	*out = NULL;
	if (c->tokens == NULL)
		return qwen_fail(err, QWEN_EUNSUP,
		    "a grammar needs the texts of tokens");
	return qwen_match_new(out, c->of, c->tokens, err);
}

struct qwen_constraint
qwen_grammar_constraint(const struct qwen_grammar *g, const struct qwen_trie *t)
{
	static const struct qwen_constraint_ops ops = {
		open_match, qwen_match_free, qwen_match_begin, qwen_match_feed,
		qwen_match_fits, qwen_match_may_end, qwen_match_mask
	};
	struct qwen_constraint c = { &ops, g, t };

	if (g == NULL)
		c.ops = NULL;
	return c;
}
