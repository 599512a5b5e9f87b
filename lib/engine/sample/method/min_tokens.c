/* SPDX-License-Identifier: ISC */
/*
 * min_tokens.c - no end before N tokens: until then, tokens that end the
 * generation are removed (unless no others are allowed), and stop texts do not
 * end it.
 *
 * Counts from the last token of the prompt, so it continues counting in a
 * resumed run.  Name and meaning as in vLLM.
 */
#include "engine/sample/sample.h"

struct memory {
	uint64_t	 n;		/* tokens generated after the prompt */
};

static int
accept(struct qwen_chain_method *s, int32_t token, int generated)
{
	struct memory *m = s->memory;

	(void)token;
	m->n = generated ? m->n + 1 : 0;
	return 0;
}

static int
holds(const struct qwen_chain_method *s)
{
	return ((const struct memory *)s->memory)->n < (uint64_t)s->v[0].i;
}

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	const struct qwen_sample_context *w = s->w;
	size_t i, n = 0;

	if (!holds(s))
		return;
	for (i = 0; i < w->n_eog; i++)
		n += qwen_cands_find(l, w->eog[i]) < l->n;
	/* when a grammar's text is complete, only these tokens are left */
	if (n < l->n)
		qwen_cands_drop(l, w->eog, w->n_eog);
}

const struct qwen_sampler_method qwen_sampler_min_tokens = {
	.name = "min-tokens", .rank = QWEN_RANK_MIN_TOKENS,
	.memory = sizeof(struct memory),
	.apply = apply,
	.accept = accept, .holds = holds,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "min-tokens", .type = QWEN_SAMPLE_INT, .arg = "N",
	  .min = 0, .max = INT32_MAX, .def = 0,
	  .fields = { "min_tokens" },
	  .help = "do not end before N tokens are generated" },
};
