/* SPDX-License-Identifier: ISC */
/*
 * logprob.h - the logarithm of a softmax, in parts that threads can share.
 *
 * A row is cut into parts of QWEN_LOGPROB_PART logits.  Each has its highest
 * logit and the sum of e^(logit - highest) in eight lanes; the parts are put
 * together in order.  So the result does not depend on who computed them.
 */
#ifndef QWEN_KERNEL_LOGPROB_H
#define QWEN_KERNEL_LOGPROB_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"

enum { QWEN_LOGPROB_PART = 4096 };

struct qwen_logprob_part {
	float	max;
	double	sum;
	size_t	above;		/* logits that are better than the token's */
};

/* Part i of a row of n; id may be negative: nothing is above. */
void qwen_logprob_part(struct qwen_logprob_part *p, const float *logits,
    size_t n, size_t i, int32_t id);

/* The logarithm of the sum of e^logit of a row, and how many are above. */
double qwen_logprob_join(const struct qwen_logprob_part *p, size_t n_part,
    size_t *above);

/* The same from the row. */
double qwen_logprob_sum(const float *logits, size_t n, int32_t id,
    size_t *above);

/*
 * The n_out best of a row, or all n, best first, equals by ascending id; sum is
 * the logarithm of above.  How many there are.
 */
size_t qwen_logprob_top(const float *logits, size_t n, double sum,
    struct qwen_sample_top *out, size_t n_out);

static inline size_t
qwen_logprob_n_parts(size_t n)
{
	return n / QWEN_LOGPROB_PART + (n % QWEN_LOGPROB_PART != 0);
}

#endif
