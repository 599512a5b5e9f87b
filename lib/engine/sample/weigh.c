/* SPDX-License-Identifier: ISC */
/* weigh.c - the best candidate, the weights of all, and drawing one. */
#include <math.h>

#include "engine/sample/sample.h"

#define BLOCK QWEN_SIFT_BLOCK

enum { PART = 4096 };	/* numbers that stay in the L1 cache for a second
			   look */

size_t
qwen_sample_best(const struct qwen_sift *k, const float *x, size_t n,
    int *finite)
{
	size_t i, part, from = 0;
	float max = x[0], m;
	int all = 1;

	for (i = 0; i < n; i += PART) {
		part = n - i < PART ? n - i : PART;
		m = k->highest(x + i, part, finite);
		all &= *finite;
		if (m > max) {
			max = m;
			from = i;
		}
	}
	*finite = all;
	for (i = from; i < n && !(x[i] == max); i++)
		;
	return i < n ? i : 0;
}

size_t
qwen_cands_best(const struct qwen_cands *l)
{
	int finite;

	return qwen_sample_best(l->sift, l->logit, l->n, &finite);
}

float
qwen_cands_max(struct qwen_cands *l)
{
	int finite;

	if (!l->has_max)
		l->max = l->sift->highest(l->logit, l->n, &finite);
	l->has_max = 1;
	return l->max;
}

void
qwen_cands_temper(struct qwen_cands *l, float temp)
{
	if (temp <= 0) {	/* also a temperature too small for a float */
		qwen_cands_only(l, qwen_cands_best(l));
		return;
	}
	/* relative to the best, so that no quotient overflows */
	l->sift->temper(l->logit, l->n, qwen_cands_max(l), temp);
	l->max = 0;
	l->weighed = 0;
}

double
qwen_cands_weigh(struct qwen_cands *l)
{
	float max = qwen_cands_max(l);

	if (!l->weighed || l->weighed_by != max)
		l->sift->weigh(l->weight, l->logit, l->n, max);
	l->weighed = 1;
	l->weighed_by = max;
	return l->sift->sum(l->block, l->weight, l->n);
}

double
qwen_cands_mean(struct qwen_cands *l, double total)
{
	return l->sift->mean(l->weight, l->logit, l->n,
	    (double)qwen_cands_max(l)) / total;
}

float
qwen_sample_float_up(double x)
{
	float f = (float)x;

	return (double)f < x ? nextafterf(f, INFINITY) : f;
}

size_t
qwen_cands_draw(struct qwen_cands *l, double u)
{
	double target = u * qwen_cands_weigh(l), sum = 0;
	size_t i, end;

	/* skip whole blocks */
	for (i = 0; i + BLOCK < l->n; i += BLOCK) {
		if (sum + l->block[i / BLOCK] > target)
			break;
		sum += l->block[i / BLOCK];
	}
	end = i + BLOCK < l->n ? i + BLOCK : l->n;
	while (i < end && (sum += (double)l->weight[i]) <= target)
		i++;
	if (i == end)	/* after rounding: take the last candidate with a
			   weight */
		i--;
	while (i > 0 && l->weight[i] == 0)
		i--;
	return i;
}
