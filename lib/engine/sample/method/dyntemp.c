/* SPDX-License-Identifier: ISC */
/*
 * dyntemp.c - a temperature that depends on the entropy: A if one token has all
 * the probability, B if all tokens are equally likely.
 *
 * "Dynamic Temperature" by entropy: Kalomaze, llama.cpp, pull request 4972
 * (2024): T = A + (B - A) * (H / ln n)^E with the entropy H of n tokens.
 */
#include "engine/quant/math.h"
#include "engine/sample/sample.h"

enum { LOW, HIGH, EXPONENT };

static const struct qwen_sample_opt opts[] = {
	[LOW] = { .name = "dyntemp-min", .type = QWEN_SAMPLE_REAL,
	  .arg = "A", .min = 0.001, .max = 1000, .def = 0.001,
	  .fields = { "dyntemp_min" },
	  .help = "temperature where the model is sure" },
	[HIGH] = { .name = "dyntemp-max", .type = QWEN_SAMPLE_REAL,
	  .arg = "B", .min = 0, .max = 1000, .def = 0,
	  .fields = { "dyntemp_max" },
	  .help = "temperature where the model is unsure; 0: always use "
	      "--temp" },
	[EXPONENT] = { .name = "dyntemp-exponent", .type = QWEN_SAMPLE_REAL,
	  .arg = "E", .min = 0.01, .max = 100, .def = 1,
	  .fields = { "dynatemp_exponent" },
	  .help = "shape of the curve between the two temperatures" },
};

static int
active(const struct qwen_chain_method *s)
{
	return s->v[HIGH].d > 0;
}

/* Returns x^e for x in [0, 1]. */
static double
power(double x, double e)
{
	double y;

	if (x < 1e-300)
		return 0;
	y = e * qwen_log(x);
	return y < -700 ? 0 : y > 0 ? 1 : qwen_exp(y);
}

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	double z = qwen_cands_weigh(l), low = s->v[LOW].d, share, temp;

	if (l->n < 2)
		return;
	share = (qwen_cands_mean(l, z) + qwen_log(z)) / qwen_log((double)l->n);
	temp = low + (s->v[HIGH].d - low) * power(share, s->v[EXPONENT].d);
	qwen_cands_temper(l, (float)temp);
}

const struct qwen_sampler_method qwen_sampler_dyntemp = {
	.name = "dyntemp", .rank = QWEN_RANK_DYNTEMP, .draws = 1,
	.n_opts = 3, .opts = opts, .active = active, .apply = apply,
};
