/* SPDX-License-Identifier: ISC */
/*
 * lookup.c - finds earlier occurrences of the last tokens of a text.  Two sets
 * of lists have the places of runs of 8 and of 3 tokens.  Long runs are rare,
 * so the longest match is among their few places.  If there are none, the short
 * runs decide.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/draft/lookup.h"

enum { FIRST_BITS = 10, LAST_BITS = 31, PLACES = 64 };

static const size_t order[QWEN_LOOKUP_ORDERS] = { 8, QWEN_LOOKUP_MIN };

/* Hashes the k tokens before p. */
static size_t
hash(const struct qwen_lookup *l, const int32_t *p, size_t k)
{
	uint64_t h = 0;
	size_t i;

	for (i = 1; i <= k; i++)
		h = (h ^ (uint32_t)p[-(ptrdiff_t)i]) * 0x9e3779b97f4a7c15;
	return (size_t)(h >> (64 - l->bits));
}

/* Adds the runs that end at place (counted from 1) to the lists. */
static void
add_place(struct qwen_lookup *l, size_t place)
{
	uint32_t *latest;
	size_t o;

	for (o = 0; o < QWEN_LOOKUP_ORDERS; o++) {
		if (place < order[o])
			continue;
		latest = &l->latest[o][hash(l, l->token + place, order[o])];
		l->previous[o][place - 1] = *latest;
		*latest = (uint32_t)place;
	}
}

/* Quadruples the hash tables and adds all places again. */
static int
rehash(struct qwen_lookup *l)
{
	unsigned bits = l->bits == 0 ? FIRST_BITS : l->bits + 2;
	uint32_t *new[QWEN_LOOKUP_ORDERS];
	size_t o, i;

	for (o = 0; o < QWEN_LOOKUP_ORDERS; o++)
		new[o] = calloc((size_t)1 << bits, sizeof *new[o]);
	for (o = 0; o < QWEN_LOOKUP_ORDERS && new[o] != NULL; o++)
		;
	if (o < QWEN_LOOKUP_ORDERS) {
		for (o = 0; o < QWEN_LOOKUP_ORDERS; o++)
			free(new[o]);
		return -1;
	}
	for (o = 0; o < QWEN_LOOKUP_ORDERS; o++) {
		free(l->latest[o]);
		l->latest[o] = new[o];
	}
	l->bits = bits;
	for (i = 1; i <= l->n; i++)
		add_place(l, i);
	return 0;
}

int
qwen_lookup_add(struct qwen_lookup *l, int32_t token, struct qwen_err *err)
{
	size_t o;

	/* a place has 32 bits */
	if (l->n >= UINT32_MAX - 1 ||
	    qwen_grow(&l->token, &l->cap, l->n + 1, sizeof *l->token) < 0)
		return qwen_oom(err);
	for (o = 0; o < QWEN_LOOKUP_ORDERS; o++) {
		if (qwen_grow(&l->previous[o], &l->cap_previous[o], l->n + 1,
		    sizeof *l->previous[o]) < 0)
			return qwen_oom(err);
		l->previous[o][l->n] = 0;
	}
	if ((l->bits == 0 || (l->n >> l->bits > 0 && l->bits < LAST_BITS)) &&
	    rehash(l) < 0)
		return qwen_oom(err);
	l->token[l->n++] = token;
	add_place(l, l->n);
	return 0;
}

void
qwen_lookup_cut(struct qwen_lookup *l, size_t n)
{
	size_t o;

	/* going backwards, each place is the first of its list */
	for (; l->n > n; l->n--) {
		for (o = 0; o < QWEN_LOOKUP_ORDERS; o++) {
			if (l->n >= order[o])
				l->latest[o][hash(l, l->token + l->n,
				    order[o])] = l->previous[o][l->n - 1];
		}
	}
}

/*
 * Returns how many tokens before place match the last of the n tokens at end.
 */
static size_t
common_length(const struct qwen_lookup *l, size_t place, const int32_t *end,
    size_t n)
{
	size_t most = n < place ? n : place, i;

	if (most > QWEN_LOOKUP_MAX)
		most = QWEN_LOOKUP_MAX;
	for (i = 0; i < most && l->token[place - 1 - i] == end[n - 1 - i]; i++)
		;
	return i;
}

size_t
qwen_lookup_find(const struct qwen_lookup *l, const int32_t *end, size_t n,
    size_t *len)
{
	size_t o, at, k, found = 0, left;

	*len = 0;
	for (o = 0; o < QWEN_LOOKUP_ORDERS && *len == 0 && l->bits > 0; o++) {
		if (n < order[o])
			continue;
		at = l->latest[o][hash(l, end + n, order[o])];
		for (left = PLACES; at > 0 && left > 0; left--,
		    at = l->previous[o][at - 1]) {
			if (end == l->token && at == n)
				continue;
			k = common_length(l, at, end, n);
			if (k >= order[o] && k > *len) {
				*len = k;
				found = at;
			}
		}
	}
	return found;
}

void
qwen_lookup_fini(struct qwen_lookup *l)
{
	size_t o;

	for (o = 0; o < QWEN_LOOKUP_ORDERS; o++) {
		free(l->latest[o]);
		free(l->previous[o]);
	}
	free(l->token);
	*l = (struct qwen_lookup){ 0 };
}
