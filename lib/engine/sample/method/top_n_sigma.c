/* SPDX-License-Identifier: ISC */
/*
 * top_n_sigma.c - keeps the tokens whose logit is at most N standard deviations
 * (of all logits) below the best one.
 *
 * Tang et al., "Top-n-sigma: Not All Logits Are You Need", arXiv:2411.07641,
 * section 3 (algorithm 1).
 */
#include <float.h>
#include <math.h>

#include "engine/sample/sample.h"

/* Returns the variance of the logits, computed from distances to max. */
static double
variance(const struct qwen_cands *l, double max)
{
	double first, second, mean;

	l->sift->moments(l->logit, l->n, max, &first, &second);
	mean = first / (double)l->n;
	return second / (double)l->n - mean * mean;
}

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	float max = qwen_cands_max(l);
	double limit = variance(l, (double)max);

	limit = limit > 0 ? (double)max - s->v[0].d * sqrt(limit) : (double)max;
	qwen_cands_cut(l, l->logit,
	    limit > -FLT_MAX ? (float)limit : -FLT_MAX);
}

const struct qwen_sampler_method qwen_sampler_top_n_sigma = {
	.name = "top-n-sigma", .rank = QWEN_RANK_TOP_N_SIGMA, .keeps_best = 1,
	.apply = apply,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "top-n-sigma", .type = QWEN_SAMPLE_REAL, .arg = "N",
	  .min = 0, .max = 1000, .def = 0,
	  .fields = { "top_n_sigma" }, .below_off = 1,
	  .help = "keep logits up to N standard deviations below the best" },
};
