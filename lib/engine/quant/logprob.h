/* SPDX-License-Identifier: ISC */
/*
 * logprob.h - the logarithm of a softmax, computed in parts by several threads.
 *
 * A row is divided into parts of QWEN_LOGPROB_PART logits.  Each part has its
 * highest logit and the sum of e^(logit - highest) in eight lanes.  Parts are
 * joined in order, so the result does not depend on the threads.
 */
#ifndef QWEN_QUANT_LOGPROB_H
#define QWEN_QUANT_LOGPROB_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"

enum { QWEN_LOGPROB_PART = 4096 };

struct qwen_logprob_part {
	float	max;
	double	sum;
	size_t	above;		/* number of logits better than the token's */
};

/* Computes part i of a row of n logits.  If id is negative, above is 0. */
void qwen_logprob_part(struct qwen_logprob_part *p, const float *logits,
    size_t n, size_t i, int32_t id);

/*
 * Returns the logarithm of the row's sum of e^logit; *above is the total of
 * above.
 */
double qwen_logprob_join(const struct qwen_logprob_part *p, size_t n_part,
    size_t *above);

/* The same, from the row itself. */
double qwen_logprob_sum(const float *logits, size_t n, int32_t id,
    size_t *above);

/*
 * Sets out to the n_out best of a row, or all n: best first, equals by
 * ascending id. sum is the result of qwen_logprob_join.  Returns their number.
 */
size_t qwen_logprob_top(const float *logits, size_t n, double sum,
    struct qwen_sample_top *out, size_t n_out);

static inline size_t
qwen_logprob_n_parts(size_t n)
{
	return n / QWEN_LOGPROB_PART + (n % QWEN_LOGPROB_PART != 0);
}

#endif
