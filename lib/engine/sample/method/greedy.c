/* SPDX-License-Identifier: ISC */
/* greedy.c - always takes the best token, the lowest id among equals. */
#include "engine/sample/sample.h"

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	(void)s;
	qwen_cands_only(l, qwen_cands_best(l));
}

const struct qwen_sampler_method qwen_sampler_greedy = {
	.name = "greedy", .rank = QWEN_RANK_GREEDY, .keeps_best = 1,
	.apply = apply,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "greedy", .type = QWEN_SAMPLE_FLAG,
	  .fields = { "greedy" },
	  .help = "always take the best token, whatever --temp says" },
};
