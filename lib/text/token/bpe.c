/* SPDX-License-Identifier: ISC */
/*
 * bpe.c - byte-pair encoding of one piece: merges the pair of neighbours whose
 * merge has the lowest rank, the leftmost among equals, until none has a merge.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/token/tok.h"

#define NONE UINT32_MAX
#define NO_RANK INT32_MAX

enum {
	SHORT_MAX = 64,		/* up to here, scanning all pairs is faster */
	WINDOW = 1024,		/* bytes of the first windows of a longer
				   piece */
	FAN = 16,		/* children of a node in the tree of minima */
	LEVELS = 8,		/* of the tree: FAN to this power are enough */
};

/* ----------------------------------------------------------- short pieces */

/* An array of symbols; rank[i] and to[i] are of the pair i, i + 1. */
struct symbols {
	uint32_t	id[SHORT_MAX], rank[SHORT_MAX], to[SHORT_MAX];
	size_t		n;
};

static void
start(struct symbols *r, const struct qwen_merges *m, const unsigned char *p,
    size_t n)
{
	const struct qwen_pair *pair;
	size_t i;

	for (i = 0; i + 1 < n; i++) {
		pair = &m->bytes[p[i] << 8 | p[i + 1]];
		r->id[i] = (uint32_t)m->byte_id[p[i]];
		r->rank[i] = pair->rank == 0 ? NONE : pair->rank;
		r->to[i] = pair->id;
	}
	r->id[i] = (uint32_t)m->byte_id[p[i]];
	r->n = n;
}

static void
look(struct symbols *r, const struct qwen_merges *m, size_t i)
{
	struct qwen_pair pair = qwen_merge_find(m, r->id[i], r->id[i + 1]);

	r->rank[i] = pair.rank == 0 ? NONE : pair.rank;
	r->to[i] = pair.id;
}

static size_t
lowest(const struct symbols *r)
{
	size_t i, best = 0;
	uint32_t rank = r->rank[0];

	for (i = 1; i + 1 < r->n; i++) {
		if (r->rank[i] < rank) {
			rank = r->rank[i];
			best = i;
		}
	}
	return best;
}

/* Merges the pair i, i + 1. */
static void
join(struct symbols *r, const struct qwen_merges *m, size_t i)
{
	size_t after = r->n - i - 2;

	r->id[i] = r->to[i];
	memmove(r->id + i + 1, r->id + i + 2, after * sizeof r->id[0]);
	if (after > 0) {
		memmove(r->rank + i + 1, r->rank + i + 2,
		    (after - 1) * sizeof r->rank[0]);
		memmove(r->to + i + 1, r->to + i + 2,
		    (after - 1) * sizeof r->to[0]);
	}
	r->n--;
	if (i > 0)
		look(r, m, i - 1);
	if (after > 0)
		look(r, m, i);
}

static size_t
bpe_short(const struct qwen_merges *m, const unsigned char *p, size_t n,
    int32_t *out)
{
	struct symbols r;
	size_t i;

	start(&r, m, p, n);
	while (r.n > 1) {
		i = lowest(&r);
		if (r.rank[i] == NONE)
			break;
		join(&r, m, i);
	}
	for (i = 0; i < r.n; i++)
		out[i] = (int32_t)r.id[i];
	return r.n;
}

/* ------------------------------------------------------------ long pieces */

/*
 * A linked list of symbols; the index of a symbol is that of its first byte.
 * The ranks of the pairs are the leaves of a tree of minima: the way down from
 * the top, each time to the first child with the value of its parent, ends at
 * the lowest rank, the leftmost among equals.
 */
struct list {
	const struct qwen_merges *m;
	uint32_t	*id, *prev, *next;	/* NONE at the ends */
	int32_t		*level[LEVELS];		/* [0]: rank of the pair with
						   the next */
	unsigned	 n_levels;
};

static inline int32_t
lower(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/*
 * Returns the lowest of FAN values; in a tree, since 15 steps in a chain are
 * slow.
 */
static inline int32_t
minimum(const int32_t *v)
{
	int32_t a = lower(lower(v[0], v[1]), lower(v[2], v[3]));
	int32_t b = lower(lower(v[4], v[5]), lower(v[6], v[7]));
	int32_t c = lower(lower(v[8], v[9]), lower(v[10], v[11]));
	int32_t d = lower(lower(v[12], v[13]), lower(v[14], v[15]));

	return lower(lower(a, b), lower(c, d));
}

/* Sets the rank of the pair at i, and updates the minima above. */
static void
set(struct list *l, uint32_t i, int32_t rank)
{
	unsigned k;

	l->level[0][i] = rank;
	for (k = 1; k < l->n_levels; k++) {
		i /= FAN;
		rank = minimum(l->level[k - 1] + i * FAN);
		if (l->level[k][i] == rank)
			break;
		l->level[k][i] = rank;
	}
}

static inline unsigned
first(const int32_t *v, int32_t x)
{
	unsigned i = 0;

	while (v[i] != x)
		i++;
	return i;
}

/* Returns the pair to merge next, or NONE. */
static uint32_t
find_lowest(const struct list *l)
{
	unsigned k = l->n_levels - 1;
	int32_t rank = minimum(l->level[k]);
	uint32_t i = 0;

	if (rank == NO_RANK)
		return NONE;
	for (;; k--) {
		i = i * FAN + first(l->level[k] + i * FAN, rank);
		if (k == 0)
			return i;
	}
}

/* Updates the pair at i after a change of one of its symbols. */
static void
renew(struct list *l, uint32_t i)
{
	uint32_t next = l->next[i], rank = 0;

	if (next != NONE)
		rank = qwen_merge_find(l->m, l->id[i], l->id[next]).rank;
	set(l, i, rank == 0 ? NO_RANK : (int32_t)rank);
}

static void
merge(struct list *l, uint32_t i)
{
	uint32_t gone = l->next[i], next = l->next[gone];

	l->id[i] = l->m->by_rank[l->level[0][i]].id;
	l->next[i] = next;
	if (next != NONE)
		l->prev[next] = i;
	set(l, gone, NO_RANK);
	renew(l, i);
	if (l->prev[i] != NONE)
		renew(l, l->prev[i]);
}

static void
fill(struct list *l, const unsigned char *p, size_t n)
{
	size_t i, count = n;
	uint32_t rank;
	unsigned k;

	for (i = 0; i < n; i++) {
		l->id[i] = (uint32_t)l->m->byte_id[p[i]];
		l->prev[i] = (uint32_t)i - 1;
		l->next[i] = (uint32_t)i + 1;
		rank = i + 1 == n ? 0 : l->m->bytes[p[i] << 8 | p[i + 1]].rank;
		l->level[0][i] = rank == 0 ? NO_RANK : (int32_t)rank;
	}
	l->next[n - 1] = NONE;
	for (k = 0;; k++) {
		for (i = count; i % FAN != 0; i++)
			l->level[k][i] = NO_RANK;
		count = i / FAN;
		if (count <= 1)
			break;
		for (i = 0; i < count; i++)
			l->level[k + 1][i] = minimum(l->level[k] + i * FAN);
	}
	l->n_levels = k + 1;
}

static void
merge_all(struct list *l, const unsigned char *p, size_t n)
{
	uint32_t i;

	fill(l, p, n);
	while ((i = find_lowest(l)) != NONE)
		merge(l, i);
}

/* Allocates memory for n symbols. */
static int
reserve(struct list *l, size_t n, struct qwen_bpe_scratch *scratch,
    struct qwen_err *err)
{
	size_t bytes, count = n;
	int32_t *level;
	unsigned k;

	if (n >= INT32_MAX || qwen_mul(n, 16, &bytes) < 0 ||
	    qwen_add(bytes, n + LEVELS * 2 * FAN * 4, &bytes) < 0)
		return qwen_fail(err, QWEN_EUNSUP,
		    "a word of %zu bytes; less than 2 GiB are supported", n);
	if (scratch->bytes < bytes) {
		free(scratch->mem);
		scratch->bytes = 0;
		scratch->mem = malloc(bytes);
		if (scratch->mem == NULL)
			return qwen_oom(err);
		scratch->bytes = bytes;
	}
	l->id = scratch->mem;
	l->prev = l->id + n;
	l->next = l->prev + n;
	level = (int32_t *)(l->next + n);
	for (k = 0; k < LEVELS; k++) {
		l->level[k] = level;
		count = (count + FAN - 1) / FAN;
		level += count * FAN;
	}
	return 0;
}

/*
 * Merges a piece in windows of w bytes and keeps the ids of the first three
 * quarters of each.  The next window begins with the first token t not kept.
 * If the first id of that window is t, the ids are those of the whole piece:
 *
 *   Ids are the result of merging the whole if each two neighbours are the
 *   result of merging their own bytes.  Proof: assume that they are not, and
 *   take the first merge of the whole that joins bytes of two neighbours.
 *   Until then, the bytes of the two were merged among themselves, in the
 *   same order as without the rest, since a pair that is lowest and leftmost
 *   in the whole is so among these bytes.  So merging these bytes alone joins
 *   the two as well: a contradiction.
 *
 * Neighbours within one window are such, and so are t and the token before it.
 * Returns the number of ids; -1 if a window began with another token.
 */
static int64_t
windows(struct list *l, const unsigned char *p, size_t n, size_t w,
    int32_t *out)
{
	size_t pos = 0, m, keep;
	int64_t n_out = 0, expect = -1;
	uint32_t i;

	for (;; pos += i) {
		m = n - pos < w ? n - pos : w;
		keep = pos + m == n ? n : m - m / 4;
		merge_all(l, p + pos, m);
		if (expect >= 0 && l->id[0] != expect)
			return -1;
		for (i = 0; i != NONE && (l->next[i] <= keep ||
		    keep == n); i = l->next[i])
			out[n_out++] = (int32_t)l->id[i];
		if (i == NONE)
			return n_out;
		if (i == 0)
			return -1;
		expect = l->id[i];
	}
}

/* Doubles the windows until they work, as one of the whole piece does. */
static int64_t
bpe_long(const struct qwen_merges *m, const unsigned char *p, size_t n,
    int32_t *out, struct qwen_bpe_scratch *scratch, struct qwen_err *err)
{
	struct list l = { .m = m };
	int64_t n_out = -1;
	size_t w;

	for (w = WINDOW; n_out < 0; w = w < n / 2 ? 2 * w : n) {
		if (reserve(&l, w < n ? w : n, scratch, err) < 0)
			return -1;
		n_out = windows(&l, p, n, w, out);
	}
	return n_out;
}

int64_t
qwen_bpe(const struct qwen_merges *m, const unsigned char *p, size_t n,
    int32_t *out, struct qwen_bpe_scratch *scratch, struct qwen_err *err)
{
	if (n <= SHORT_MAX)
		return (int64_t)bpe_short(m, p, n, out);
	return bpe_long(m, p, n, out, scratch, err);
}
