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

static const struct qwen_sample_opt opts[] = {
	{ .name = "min-tokens", .type = QWEN_SAMPLE_INT, .arg = "N",
	  .min = 0, .max = INT32_MAX, .def = 0,
	  .fields = { "min_tokens" },
	  .help = "do not end before N tokens are generated" },
};

struct memory {
	uint64_t	 n;		/* tokens generated after the prompt */
	const struct qwen_sample_context *w;
};

static int
begin(const union qwen_sample_value *v, void *memory,
    const struct qwen_sample_context *w, struct qwen_err *err)
{
	(void)v;
	(void)err;
	((struct memory *)memory)->w = w;
	return 0;
}

static int
accept(const union qwen_sample_value *v, void *memory, int32_t token,
    int generated)
{
	struct memory *m = memory;

	(void)v;
	(void)token;
	m->n = generated ? m->n + 1 : 0;
	return 0;
}

static int
holds(const union qwen_sample_value *v, const void *memory)
{
	return ((const struct memory *)memory)->n < (uint64_t)v[0].i;
}

static void
apply(const union qwen_sample_value *v, void *memory, struct qwen_cands *l)
{
	const struct qwen_sample_context *w = ((struct memory *)memory)->w;
	size_t i, n = 0;

	if (!holds(v, memory))
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
	.n_opts = 1, .opts = opts, .apply = apply,
	.begin = begin, .accept = accept, .holds = holds,
};
