/* SPDX-License-Identifier: ISC */
/*
 * top_k.c - keeps the K best tokens.
 *
 * Fan, Lewis, Dauphin, "Hierarchical Neural Story Generation", ACL 2018
 * (arXiv:1805.04833), section 5.4.
 */
#include "engine/sample/sample.h"

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	if ((uint64_t)s->v[0].i < l->n)
		qwen_cands_keep(l, l->logit, NULL, (double)s->v[0].i);
}

const struct qwen_sampler_method qwen_sampler_top_k = {
	.name = "top-k", .rank = QWEN_RANK_TOP_K, .keeps_best = 1,
	.apply = apply,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "top-k", .type = QWEN_SAMPLE_INT, .arg = "K",
	  .min = 0, .max = INT32_MAX, .def = 0,
	  .fields = { "top_k" }, .below_off = 1,
	  .help = "keep the K best tokens; 0 keeps all" },
};
