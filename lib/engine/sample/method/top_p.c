/* SPDX-License-Identifier: ISC */
/*
 * top_p.c - keeps the best tokens until their probabilities sum up to P.
 *
 * Holtzman et al., "The Curious Case of Neural Text Degeneration", ICLR 2020
 * (arXiv:1904.09751), section 3.1.
 */
#include "engine/sample/sample.h"

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	double total = qwen_cands_weigh(l);

	qwen_cands_keep(l, l->logit, l->weight, s->v[0].d * total);
}

const struct qwen_sampler_method qwen_sampler_top_p = {
	.name = "top-p", .rank = QWEN_RANK_TOP_P, .keeps_best = 1,
	.apply = apply,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "top-p", .type = QWEN_SAMPLE_REAL, .arg = "P",
	  .min = 0, .max = 1, .def = 1,
	  .fields = { "top_p" },
	  .help = "keep the best tokens up to a total probability of P" },
};
