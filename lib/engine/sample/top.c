/* SPDX-License-Identifier: ISC */
/*
 * top.c - the best tokens of a row and their probabilities, to be shown to
 * users, and as a record of a stream.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/logprob.h"
#include "engine/sample/sample.h"

struct best {
	float	logit;
	int32_t	id;
};

static int
compare_logit(const void *a, const void *b)
{
	const struct best *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit < y->logit ? 1 : -1;
	return (x->id > y->id) - (x->id < y->id);
}

int
qwen_sample_top(const float *logits, const int32_t *ids, size_t n,
    size_t n_vocab, struct qwen_sample_top *out, size_t n_out,
    struct qwen_err *err)
{
	struct qwen_cands l;
	struct best *best = NULL;
	double sum;
	size_t i, above;
	int rc = -1;

	if (qwen_cands_init(&l, n, err) < 0)
		return -1;
	if (qwen_cands_fill(&l, logits, ids, n, n_vocab, err) < 0)
		goto out;
	sum = qwen_logprob_sum(l.logit, l.n, -1, &above);
	if (n_out < l.n)
		qwen_cands_keep(&l, l.logit, NULL,
		    n_out > 0 ? (double)n_out : 1);
	if ((best = qwen_alloc(l.n, sizeof *best)) == NULL) {
		qwen_oom(err);
		goto out;
	}
	for (i = 0; i < l.n; i++)
		best[i] = (struct best){ l.logit[i], l.id[i] };
	qsort(best, l.n, sizeof *best, compare_logit);
	for (i = 0; i < l.n && i < n_out; i++) {
		out[i].id = best[i].id;
		out[i].logit = best[i].logit;
		out[i].logprob = (double)best[i].logit - sum;
	}
	rc = (int)i;
out:
	free(best);
	qwen_cands_fini(&l);
	return rc;
}

int
qwen_write_top(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, size_t k, struct qwen_err *err)
{
	struct qwen_sample_top *top;
	int32_t *ids;
	float *best;
	size_t i;
	int rc = -1;

	if (k > n)
		k = n;
	top = qwen_alloc(k, sizeof *top);
	ids = qwen_alloc(k, sizeof *ids);
	best = qwen_alloc(k, sizeof *best);
	if (top == NULL || ids == NULL || best == NULL)
		qwen_oom(err);
	else if (k == 0)
		rc = qwen_write_best(w, pos, ids, best, 0, 0, err);
	else if (qwen_sample_top(logits, NULL, n, n, top, k, err) >= 0) {
		for (i = 0; i < k; i++) {
			ids[i] = top[i].id;
			best[i] = top[i].logit;
		}
		rc = qwen_write_best(w, pos, ids, best, k,
		    (float)(top[0].logit - top[0].logprob), err);
	}
	free(top);
	free(ids);
	free(best);
	return rc;
}
