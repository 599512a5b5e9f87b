/* SPDX-License-Identifier: ISC */
/*
 * min_p.c - keeps the tokens at least P times as probable as the best one.
 *
 * Nguyen et al., "Turning Up the Heat: Min-p Sampling for Creative and Coherent
 * LLM Outputs", arXiv:2407.01082, section 3.
 */
#include "engine/quant/math.h"
#include "engine/sample/sample.h"

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	float max = qwen_cands_max(l);

	/*
	 * first a rough cut by logits, which is cheaper than computing all
	 * weights
	 */
	if (s->v[0].d > 1e-30)
		qwen_cands_cut(l, l->logit, max + (float)qwen_log(s->v[0].d) -
		    0.01f);
	qwen_cands_weigh(l);	/* the weight of the best token is 1 */
	qwen_cands_cut(l, l->weight, qwen_sample_float_up(s->v[0].d));
}

const struct qwen_sampler_method qwen_sampler_min_p = {
	.name = "min-p", .rank = QWEN_RANK_MIN_P, .keeps_best = 1,
	.apply = apply,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "min-p", .type = QWEN_SAMPLE_REAL, .arg = "P",
	  .min = 0, .max = 1, .def = 0,
	  .fields = { "min_p" },
	  .help = "keep tokens at least P times as probable as the best" },
};
