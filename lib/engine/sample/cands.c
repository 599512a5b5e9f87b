/* SPDX-License-Identifier: ISC */
/*
 * cands.c - the list of candidates: filling it, finding and removing
 * candidates.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/sample/sample.h"

#define BLOCK QWEN_SIFT_BLOCK

/* The arrays of a list, and how many candidates share one element. */
#define ARRAYS(DO) \
	DO(logit, 1) DO(id, 1) DO(weight, 1) DO(score, 1) DO(pick, 1) \
	DO(bin, 1) DO(bits, 64) DO(more, 64) DO(span, QWEN_SIFT_SPAN) \
	DO(block, BLOCK)

int
qwen_cands_init(struct qwen_cands *l, size_t cap, struct qwen_err *err)
{
	size_t padded, i;
	int failed = 0;

	memset(l, 0, sizeof *l);
	if (qwen_add(cap, BLOCK - 1, &padded) < 0)
		return qwen_oom(err);
	padded -= padded % BLOCK;
	l->sift = qwen_sift_choose(qwen_cpu_detect());
	l->cap = padded;
#define ALLOCATE(array, per) \
	failed |= (l->array = qwen_alloc(padded / (per), \
	    sizeof *l->array)) == NULL;
	ARRAYS(ALLOCATE)
	if (failed) {
		qwen_cands_fini(l);
		return qwen_oom(err);
	}
	for (i = 0; i < padded; i++)
		l->id[i] = (int32_t)i;
	return 0;
}

void
qwen_cands_fini(struct qwen_cands *l)
{
#define FREE(array, per) free(l->array);
	ARRAYS(FREE)
	memset(l, 0, sizeof *l);
}

int
qwen_sample_compare_ids(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

/* ------------------------------------------------------ filling the list */

static void
exchange(struct qwen_cands *l, size_t a, size_t b)
{
	int32_t id = l->id[a];
	float logit = l->logit[a];

	l->id[a] = l->id[b];
	l->logit[a] = l->logit[b];
	l->id[b] = id;
	l->logit[b] = logit;
}

/* Heap sort: it needs no memory, and every token has a row. */
static void
sort_by_id(struct qwen_cands *l, size_t n)
{
	size_t left = n / 2, end = n, i, child;

	while (end > 1) {
		if (left > 0)
			left--;
		else
			exchange(l, 0, --end);
		for (i = left; (child = 2 * i + 1) < end; i = child) {
			if (child + 1 < end && l->id[child] < l->id[child + 1])
				child++;
			if (l->id[i] >= l->id[child])
				break;
			exchange(l, i, child);
		}
	}
}

/* Notes that ids before n may have changed. */
static void
touch(struct qwen_cands *l, size_t n)
{
	n = n < l->cap ? n : l->cap;
	l->touched = n > l->touched ? n : l->touched;
}

/* Copies the ids of a row of selected tokens, checks and sorts them. */
static int
fill_ids(struct qwen_cands *l, const int32_t *ids, size_t n, size_t n_vocab,
    struct qwen_err *err)
{
	size_t i;
	int sorted = 1;

	touch(l, n);
	for (i = 0; i < n; i++) {
		if (ids[i] < 0 || (size_t)ids[i] >= n_vocab)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld is outside the vocabulary of %zu",
			    (long)ids[i], n_vocab);
		l->id[i] = ids[i];
		sorted &= i == 0 || ids[i - 1] < ids[i];
	}
	if (!sorted)
		sort_by_id(l, n);
	for (i = 1; i < n; i++) {
		if (l->id[i - 1] == l->id[i])
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld occurs twice in the row",
			    (long)l->id[i]);
	}
	return 0;
}

static int
not_finite(const float *logits, const int32_t *ids, struct qwen_err *err)
{
	size_t i;

	for (i = 0; isfinite(logits[i]); i++)
		;
	return qwen_fail(err, QWEN_ENUMERIC, "the logit of token %ld is %s",
	    ids != NULL ? (long)ids[i] : (long)i,
	    isnan(logits[i]) ? "NaN" : "infinite");
}

int
qwen_cands_fill(struct qwen_cands *l, const float *logits, const int32_t *ids,
    size_t n, size_t n_vocab, struct qwen_err *err)
{
	size_t i, j;
	int finite;

	if (n == 0 || n > l->cap || n > n_vocab)
		return qwen_fail(err, QWEN_ERANGE,
		    "%zu logits for a vocabulary of %zu", n, n_vocab);
	l->max = l->sift->highest(logits, n, &finite);
	if (!finite)
		return not_finite(logits, ids, err);
	memcpy(l->logit, logits, n * sizeof *logits);
	l->n = n;
	l->has_max = 1;
	l->weighed = 0;
	if (ids != NULL)
		return fill_ids(l, ids, n, n_vocab, err);
	/* the arrays have whole blocks, so writing 16 at a time fits */
	for (i = 0; i < l->touched; i += 16) {
		for (j = 0; j < 16; j++)
			l->id[i + j] = (int32_t)(i + j);
	}
	l->touched = 0;
	return 0;
}

/* ----------------------------------------- finding and removing candidates */

size_t
qwen_cands_find(const struct qwen_cands *l, int32_t id)
{
	size_t lo = 0, hi = l->n, mid;

	if (id >= 0 && (size_t)id < l->n && l->id[id] == id)
		return (size_t)id;
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (l->id[mid] < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < l->n && l->id[lo] == id ? lo : l->n;
}

void
qwen_cands_set(struct qwen_cands *l, size_t i, double to)
{
	float logit = to > FLT_MAX ? FLT_MAX : to < -FLT_MAX ? -FLT_MAX :
	    (float)to;

	if (logit >= l->max)
		l->max = logit + 0.0f;
	else if (l->logit[i] == l->max)
		l->has_max = 0;
	l->logit[i] = logit;
	l->weighed = 0;
}

void
qwen_cands_shrink(struct qwen_cands *l, size_t m)
{
	if (m < l->n)
		touch(l, m);
	l->n = m;
	l->has_max = 0;
	l->weighed = 0;
}

void
qwen_cands_only(struct qwen_cands *l, size_t i)
{
	l->logit[0] = l->logit[i];
	l->id[0] = l->id[i];
	touch(l, 1);
	qwen_cands_shrink(l, 1);
}

/* Moves candidates from .. to - 1 to m; returns their new end. */
static size_t
move(struct qwen_cands *l, size_t m, size_t from, size_t to)
{
	if (m != from && to > from) {
		memmove(l->logit + m, l->logit + from,
		    (to - from) * sizeof *l->logit);
		memmove(l->id + m, l->id + from, (to - from) * sizeof *l->id);
	}
	return m + (to - from);
}

void
qwen_cands_drop(struct qwen_cands *l, const int32_t *ids, size_t n)
{
	size_t i, at, from = 0, m = 0;

	for (i = 0; i < n; i++) {
		if ((at = qwen_cands_find(l, ids[i])) == l->n || at < from)
			continue;
		/* qwen_cands_find searches only where nothing was moved */
		m = move(l, m, from, at);
		from = at + 1;
	}
	m = move(l, m, from, l->n);
	if (m < l->n)
		qwen_cands_shrink(l, m);
}

void
qwen_cands_keep_bits(struct qwen_cands *l)
{
	const struct qwen_sift *k = l->sift;
	size_t n = l->n, m = k->squeeze(l->logit, l->bits, n);
	int weighed = l->weighed;

	k->squeeze(l->id, l->bits, n);
	if (weighed)
		k->squeeze(l->weight, l->bits, n);
	/* squeeze writes ids 16 at a time */
	touch(l, m + 16);
	qwen_cands_shrink(l, m);
	l->weighed = weighed;
}

void
qwen_cands_flip(struct qwen_cands *l)
{
	size_t i, last = l->n / 64;

	for (i = 0; i < last; i++)
		l->bits[i] = ~l->bits[i];
	if (l->n % 64 != 0)
		l->bits[last] ^= ((uint64_t)1 << l->n % 64) - 1;
}

void
qwen_cands_cut(struct qwen_cands *l, const float *score, float limit)
{
	int has_max = l->has_max && score != l->score;

	if (l->sift->at_least(l->bits, score, l->n, limit) == l->n)
		return;
	qwen_cands_keep_bits(l);
	l->has_max = has_max;	/* the best candidate remains if score is logits
				   or weights */
}
