/* SPDX-License-Identifier: ISC */
/* min_p.c - keep the tokens at least P times as probable as the best one. */
#include "sample/sample.h"

static const struct qwen_sample_opt opts[] = {
	{ .name = "min-p", .type = QWEN_SAMPLE_REAL, .arg = "P",
	  .min = 0, .max = 1, .def = 0,
	  .help = "keep tokens at least P times as probable as the best" },
};

static int
active(const union qwen_sample_value *v)
{
	return v[0].d > 0;
}

static void
apply(const union qwen_sample_value *v, void *memory, struct qwen_cands *l)
{
	size_t i, m = 0;

	(void)memory;
	qwen_cands_weigh(l);	/* the best one weighs 1 */
	for (i = 0; i < l->n; i++) {
		if (l->weight[i] >= v[0].d)
			l->c[m++] = l->c[i];
	}
	l->n = m;
}

const struct qwen_sampler_method qwen_sampler_min_p = {
	.name = "min-p", .rank = QWEN_RANK_MIN_P,
	.n_opts = 1, .opts = opts, .active = active, .apply = apply,
};
