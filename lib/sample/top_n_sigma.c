/* SPDX-License-Identifier: ISC */
/*
 * top_n_sigma.c - keep the tokens whose logit is at most N standard deviations
 * of all the logits below the best one.
 *
 * Tang et al., "Top-n-sigma: Not All Logits Are You Need", arXiv:2411.07641,
 * section 3 (algorithm 1).
 */
#include <float.h>
#include <math.h>

#include "sample/sample.h"

static const struct qwen_sample_opt opts[] = {
	{ .name = "top-n-sigma", .type = QWEN_SAMPLE_REAL, .arg = "N",
	  .min = 0, .max = 1000, .def = 0,
	  .help = "keep logits up to N standard deviations below the best" },
};

static int
active(const union qwen_sample_value *v)
{
	return v[0].d > 0;
}

/* Mean of the squared distances from the mean, over distances from max. */
static double
variance(const struct qwen_cands *l, double max)
{
	double s[4] = { 0 }, q[4] = { 0 }, d[4], mean;
	const float *x = l->logit;
	size_t i, j;

	for (i = 0; i + 4 <= l->n; i += 4) {
		for (j = 0; j < 4; j++)
			d[j] = max - (double)x[i + j];
		for (j = 0; j < 4; j++)
			s[j] += d[j];
		for (j = 0; j < 4; j++)
			q[j] += d[j] * d[j];
	}
	for (; i < l->n; i++) {
		d[0] = max - (double)x[i];
		s[0] += d[0];
		q[0] += d[0] * d[0];
	}
	mean = ((s[0] + s[1]) + (s[2] + s[3])) / (double)l->n;
	return ((q[0] + q[1]) + (q[2] + q[3])) / (double)l->n - mean * mean;
}

static void
apply(const union qwen_sample_value *v, void *memory, struct qwen_cands *l)
{
	float max = l->logit[qwen_cands_best(l)];
	double limit = variance(l, (double)max);

	(void)memory;
	limit = limit > 0 ? (double)max - v[0].d * sqrt(limit) : (double)max;
	qwen_cands_cut(l, limit > -FLT_MAX ? (float)limit : -FLT_MAX);
}

const struct qwen_sampler_method qwen_sampler_top_n_sigma = {
	.name = "top-n-sigma", .rank = QWEN_RANK_TOP_N_SIGMA, .keeps_best = 1,
	.n_opts = 1, .opts = opts, .active = active, .apply = apply,
};
