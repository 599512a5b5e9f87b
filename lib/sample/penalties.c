/* SPDX-License-Identifier: ISC */
/*
 * penalties.c - make tokens that were there already less likely.
 *
 * For a token that occurs c > 0 times in the window: a positive logit is
 * divided by the repetition penalty, another one multiplied; then frequency
 * penalty times c and the presence penalty are taken off.  The window is the
 * last tokens generated, or of all the text with --penalty-prompt.
 */
#include <float.h>
#include <stdlib.h>

#include "base/mem.h"
#include "sample/sample.h"

enum { REPEAT, PRESENCE, FREQUENCY, LAST_N, PROMPT };

static const struct qwen_sample_opt opts[] = {
	[REPEAT] = { .name = "repeat-penalty", .type = QWEN_SAMPLE_REAL,
	  .arg = "X", .min = 0.01, .max = 100, .def = 1,
	  .help = "divide the logits of tokens already there; 1 does nothing" },
	[PRESENCE] = { .name = "presence-penalty", .type = QWEN_SAMPLE_REAL,
	  .arg = "X", .min = -100, .max = 100, .def = 0,
	  .help = "take X off the logits of tokens already there" },
	[FREQUENCY] = { .name = "frequency-penalty", .type = QWEN_SAMPLE_REAL,
	  .arg = "X", .min = -100, .max = 100, .def = 0,
	  .help = "take X off for each time a token is there" },
	[LAST_N] = { .name = "penalty-last-n", .type = QWEN_SAMPLE_INT,
	  .arg = "N", .min = -1, .max = INT32_MAX, .def = 64,
	  .help = "penalties look at the last N tokens; -1: at all" },
	[PROMPT] = { .name = "penalty-prompt", .type = QWEN_SAMPLE_FLAG,
	  .help = "penalties look at the prompt too" },
};

struct memory {
	uint32_t	*count;		/* of each token in the window */
	int32_t		*token;		/* all that were eligible, in order */
	size_t		 n, cap;
};

static int
active(const union qwen_sample_value *v)
{
	return (v[REPEAT].d != 1 || v[PRESENCE].d != 0 ||
	    v[FREQUENCY].d != 0) && v[LAST_N].i != 0;
}

static void
end(void *memory)
{
	struct memory *m = memory;

	if (m != NULL) {
		free(m->count);
		free(m->token);
	}
	free(m);
}

static void *
begin(const union qwen_sample_value *v, size_t n_vocab)
{
	struct memory *m = qwen_alloc(1, sizeof *m);

	(void)v;
	if (m == NULL)
		return NULL;
	m->count = qwen_alloc(n_vocab, sizeof *m->count);
	if (m->count == NULL) {
		end(m);
		return NULL;
	}
	return m;
}

static int
accept(const union qwen_sample_value *v, void *memory, int32_t token,
    int generated)
{
	struct memory *m = memory;
	size_t cap = m->cap * 2 + 64, bytes;
	int32_t *p;

	if (!generated && !v[PROMPT].i)
		return 0;
	if (m->n == m->cap) {
		if (qwen_mul(cap, sizeof *p, &bytes) < 0 ||
		    (p = realloc(m->token, bytes)) == NULL)
			return -1;
		m->token = p;
		m->cap = cap;
	}
	m->token[m->n++] = token;
	m->count[token]++;
	if (v[LAST_N].i >= 0 && m->n > (uint64_t)v[LAST_N].i)
		m->count[m->token[m->n - 1 - (size_t)v[LAST_N].i]]--;
	return 0;
}

static float
clamp(float x)
{
	return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

static void
apply(const union qwen_sample_value *v, void *memory, struct qwen_cands *l)
{
	const struct memory *m = memory;
	float repeat = (float)v[REPEAT].d, x;
	float presence = (float)v[PRESENCE].d, freq = (float)v[FREQUENCY].d;
	size_t i;

	for (i = 0; i < l->n; i++) {
		uint32_t count = m->count[l->c[i].id];

		if (count == 0)
			continue;
		x = l->c[i].logit;
		x = x > 0 ? x / repeat : x * repeat;
		l->c[i].logit = clamp(x - ((float)count * freq + presence));
	}
}

const struct qwen_sampler_method qwen_sampler_penalties = {
	.name = "penalties", .rank = QWEN_RANK_PENALTIES,
	.n_opts = sizeof opts / sizeof opts[0], .opts = opts,
	.active = active, .apply = apply,
	.begin = begin, .accept = accept, .end = end,
};
