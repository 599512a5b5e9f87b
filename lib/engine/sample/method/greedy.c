/* SPDX-License-Identifier: ISC */
/* greedy.c - always takes the best token, the lowest id among equals. */
#include "engine/sample/sample.h"

static const struct qwen_sample_opt opts[] = {
	{ .name = "greedy", .type = QWEN_SAMPLE_FLAG,
	  .fields = { "greedy" },
	  .help = "always take the best token, whatever --temp says" },
};

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	(void)s;
	qwen_cands_only(l, qwen_cands_best(l));
}

const struct qwen_sampler_method qwen_sampler_greedy = {
	.name = "greedy", .rank = QWEN_RANK_GREEDY, .keeps_best = 1,
	.n_opts = 1, .opts = opts, .apply = apply,
};
