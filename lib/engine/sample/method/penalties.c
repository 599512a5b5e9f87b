/* SPDX-License-Identifier: ISC */
/*
 * penalties.c - makes tokens that are already in the text less likely.
 *
 * For a token that occurs c > 0 times in the window, a positive logit is
 * divided by the repetition penalty, any other logit is multiplied by it.  Then
 * c times the frequency penalty, and the presence penalty, are subtracted.  The
 * window is the last N tokens generated or, with --penalty-prompt, of the whole
 * text.
 *
 * Keskar et al., "CTRL: A Conditional Transformer Language Model for
 * Controllable Generation", arXiv:1909.05858, section 4.1, but with the sign of
 * the logit taken into account.  Frequency and presence penalties as in common
 * HTTP APIs.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sample/sample.h"
#include "engine/sample/seen.h"

enum { REPEAT, PRESENCE, FREQUENCY, LAST_N, PROMPT };

static const struct qwen_sample_opt opts[] = {
	[REPEAT] = { .name = "repeat-penalty", .type = QWEN_SAMPLE_REAL,
	  .arg = "X", .min = 0.01, .max = 100, .def = 1,
	  .fields = { "repetition_penalty", "repeat_penalty" },
	  .help = "divide logits of tokens already in the text by X; 1: off" },
	[PRESENCE] = { .name = "presence-penalty", .type = QWEN_SAMPLE_REAL,
	  .arg = "X", .min = -100, .max = 100, .def = 0,
	  .fields = { "presence_penalty" },
	  .help = "subtract X from logits of tokens already in the text" },
	[FREQUENCY] = { .name = "frequency-penalty", .type = QWEN_SAMPLE_REAL,
	  .arg = "X", .min = -100, .max = 100, .def = 0,
	  .fields = { "frequency_penalty" },
	  .help = "subtract X once for each time a token is in the text" },
	[LAST_N] = { .name = "penalty-last-n", .type = QWEN_SAMPLE_INT,
	  .arg = "N", .min = -1, .max = INT32_MAX, .def = 64,
	  .fields = { "repeat_last_n" },
	  .help = "penalties look at the last N tokens; -1: at all of them" },
	[PROMPT] = { .name = "penalty-prompt", .type = QWEN_SAMPLE_FLAG,
	  .fields = { "penalty_prompt" },
	  .help = "penalties look at the prompt, too" },
};

struct memory {
	uint32_t	*count;		/* by token: occurrences in the
					   window */
	struct qwen_seen seen;		/* all tokens looked at */
};

static int
active(const struct qwen_chain_method *s)
{
	return (s->v[REPEAT].d != 1 || s->v[PRESENCE].d != 0 ||
	    s->v[FREQUENCY].d != 0) && s->v[LAST_N].i != 0;
}

static void
end(struct qwen_chain_method *s)
{
	struct memory *m = s->memory;

	free(m->count);
	free(m->seen.token);
}

static int
begin(struct qwen_chain_method *s, struct qwen_err *err)
{
	struct memory *m = s->memory;

	m->count = qwen_alloc(s->w->n_vocab, sizeof *m->count);
	return m->count != NULL ? 0 : qwen_oom(err);
}

static int
accept(struct qwen_chain_method *s, int32_t token, int generated)
{
	struct memory *m = s->memory;
	size_t from;

	if (!generated && !s->v[PROMPT].i)
		return 0;
	if (qwen_seen_add(&m->seen, token) < 0)
		return -1;
	m->count[token]++;
	/* the token before the window has just left it */
	if ((from = qwen_seen_from(&m->seen, s->v[LAST_N].i)) > 0)
		m->count[m->seen.token[from - 1]]--;
	return 0;
}

/*
 * Returns the logit x of a token that occurred `count' times, with its
 * penalties.
 */
static float
punish(const struct qwen_chain_method *s, float x, uint32_t count)
{
	float repeat = (float)s->v[REPEAT].d;
	float presence = (float)s->v[PRESENCE].d;
	float freq = (float)s->v[FREQUENCY].d;

	x = x > 0 ? x / repeat : x * repeat;
	return x - ((float)count * freq + presence);
}

#define DONE 0x80000000u	/* mark: the penalty was applied */

/* Loops over the window, not over the candidates, which may be many more. */
static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	struct memory *m = s->memory;
	size_t from = qwen_seen_from(&m->seen, s->v[LAST_N].i), i, at;
	const int32_t *token = m->seen.token;

	for (i = from; i < m->seen.n; i++) {
		uint32_t *count = &m->count[token[i]];

		if (*count & DONE)
			continue;
		if ((at = qwen_cands_find(l, token[i])) < l->n)
			qwen_cands_set(l, at,
			    (double)punish(s, l->logit[at], *count));
		*count |= DONE;
	}
	for (i = from; i < m->seen.n; i++)
		m->count[token[i]] &= ~DONE;
}

const struct qwen_sampler_method qwen_sampler_penalties = {
	.name = "penalties", .rank = QWEN_RANK_PENALTIES,
	.memory = sizeof(struct memory),
	.n_opts = sizeof opts / sizeof opts[0], .opts = opts,
	.active = active, .apply = apply,
	.begin = begin, .accept = accept, .end = end,
};
