/* SPDX-License-Identifier: ISC */
/*
 * xtc.c - at random, excludes the top choices: of the tokens with a probability
 * of at least T, only the least likely stays.
 *
 * Weidmann, "Exclude Top Choices (XTC)", text-generation-webui, pull request
 * 6335 (2024).  The random decision, like the draw, depends only on seed and
 * position.
 */
#include "engine/sample/sample.h"

enum { CHANCE, THRESHOLD };

static const struct qwen_sample_opt opts[] = {
	[CHANCE] = { .name = "xtc-probability", .type = QWEN_SAMPLE_REAL,
	  .arg = "P", .min = 0, .max = 1, .def = 0,
	  .fields = { "xtc_probability" },
	  .help = "probability of dropping all likely tokens except the last" },
	[THRESHOLD] = { .name = "xtc-threshold", .type = QWEN_SAMPLE_REAL,
	  .arg = "T", .min = 0, .max = 1, .def = 0.1,
	  .fields = { "xtc_threshold" },
	  .help = "a token counts as likely at probability T or more" },
};

static int
active(const struct qwen_chain_method *s)
{
	/* two tokens cannot both have more than a half */
	return s->v[CHANCE].d > 0 && s->v[THRESHOLD].d <= 0.5;
}

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	size_t i, at, last = l->n, likely;
	uint64_t w;
	double limit;

	if (l->uniform >= s->v[CHANCE].d)
		return;
	limit = s->v[THRESHOLD].d * qwen_cands_weigh(l);
	likely = l->sift->at_least(l->bits, l->weight, l->n,
	    qwen_sample_float_up(limit));
	if (likely < 2)
		return;
	/* among equals the highest id counts as the least likely */
	for (i = 0; i < l->n; i += 64) {
		for (w = l->bits[i / 64]; w != 0; w &= w - 1) {
			at = i + (size_t)__builtin_ctzll(w);
			if (last == l->n || l->logit[at] <= l->logit[last])
				last = at;
		}
	}
	qwen_cands_flip(l);
	l->bits[last / 64] |= (uint64_t)1 << last % 64;
	qwen_cands_keep_bits(l);
}

const struct qwen_sampler_method qwen_sampler_xtc = {
	.name = "xtc", .rank = QWEN_RANK_XTC,
	.n_opts = 2, .opts = opts, .active = active, .apply = apply,
};
