/* SPDX-License-Identifier: ISC */
/* write.c - writes the best tokens of a row as a record of a stream. */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sample/sample.h"

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
