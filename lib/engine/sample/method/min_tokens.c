/* SPDX-License-Identifier: ISC */
/*
 * min_tokens.c - no end before N tokens: until then the tokens that end a
 * generation cannot be chosen, and no text ends it either.
 *
 * Counted from the last token of the prompt, so a run that is divided counts
 * on.  The name and the sense are vLLM's.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sample/sample.h"

static const struct qwen_sample_opt opts[] = {
	{ .name = "min-tokens", .type = QWEN_SAMPLE_INT, .arg = "N",
	  .min = 0, .max = INT32_MAX, .def = 0,
	  .help = "do not end before N tokens after the prompt" },
};

struct memory {
	uint64_t	 n;		/* generated, behind the prompt */
	size_t		 n_eog;
	int32_t		 eog[];		/* ascending */
};

static int
active(const union qwen_sample_value *v)
{
	return v[0].i > 0;
}

static void *
begin(const union qwen_sample_value *v, const struct qwen_sample_world *w,
    struct qwen_err *err)
{
	struct memory *m = qwen_alloc(1, sizeof *m +
	    w->n_eog * sizeof *m->eog);

	(void)v;
	if (m == NULL) {
		qwen_oom(err);
		return NULL;
	}
	m->n_eog = w->n_eog;
	if (w->n_eog > 0)
		memcpy(m->eog, w->eog, w->n_eog * sizeof *m->eog);
	return m;
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
	const struct memory *m = memory;

	if (holds(v, memory))
		qwen_cands_drop(l, m->eog, m->n_eog);
}

static void
end(void *memory)
{
	free(memory);
}

const struct qwen_sampler_method qwen_sampler_min_tokens = {
	.name = "min-tokens", .rank = QWEN_RANK_MIN_TOKENS,
	.n_opts = 1, .opts = opts, .active = active, .apply = apply,
	.begin = begin, .accept = accept, .holds = holds, .end = end,
};
