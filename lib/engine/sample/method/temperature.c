/* SPDX-License-Identifier: ISC */
/*
 * temperature.c - divides the logits by a temperature: below 1 sharpens the
 * distribution, above 1 flattens it, 0 keeps only the best token.
 */
#include "engine/sample/sample.h"

static int
active(const struct qwen_chain_method *s)
{
	return s->v[0].d != 1;
}

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	qwen_cands_temper(l, (float)s->v[0].d);
}

const struct qwen_sampler_method qwen_sampler_temperature = {
	.name = "temp", .rank = QWEN_RANK_TEMPERATURE,
	.active = active, .apply = apply,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "temp", .type = QWEN_SAMPLE_REAL, .arg = "T",
	  .min = 0, .max = 1000, .def = 0,
	  .fields = { "temperature" },
	  .help = "temperature; 0 takes the best token" },
};
