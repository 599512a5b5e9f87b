/* SPDX-License-Identifier: ISC */
/*
 * typical.c - keeps the tokens whose surprise is nearest to the expected
 * surprise, until their probabilities sum up to P.
 *
 * Meister et al., "Locally Typical Sampling", TACL 2023 (arXiv:2202.00666),
 * section 5.  With d = highest logit - logit, the surprise of a token is d + ln
 * Z and the entropy E[d] + ln Z, so their distance is |d - E[d]|.
 */
#include "engine/sample/sample.h"

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	double total = qwen_cands_weigh(l), mean = qwen_cands_mean(l, total);

	l->sift->nearness(l->score, l->logit, l->n, (double)qwen_cands_max(l),
	    mean);
	qwen_cands_keep(l, l->score, l->weight, s->v[0].d * total);
}

const struct qwen_sampler_method qwen_sampler_typical = {
	.name = "typical", .rank = QWEN_RANK_TYPICAL,
	.apply = apply,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "typical", .type = QWEN_SAMPLE_REAL, .arg = "P",
	  .min = 0, .max = 1, .def = 1,
	  .fields = { "typical_p" },
	  .help = "keep the most typical tokens up to a total probability of "
	      "P" },
};
