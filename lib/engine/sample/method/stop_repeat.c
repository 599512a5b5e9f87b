/* SPDX-License-Identifier: ISC */
/*
 * stop_repeat.c - ends endless loops: the generated tokens end with the same
 * sequence K times in a row.
 *
 * A sequence has 1 to PERIOD_MAX tokens, and its copies at least TOKENS_MIN
 * tokens together, so that a line of dashes or a short table does not count.
 * For each length p the sampler counts how many of the last tokens equal the
 * token p places before.  So each token takes the same time, however long the
 * text is.
 */
#include "engine/sample/sample.h"

enum { PERIOD_MAX = 512, TOKENS_MIN = 64 };

struct memory {
	int32_t		 last[PERIOD_MAX];	/* ring buffer of the last
						   tokens */
	uint32_t	 same[PERIOD_MAX];	/* by length - 1 */
	uint64_t	 n;			/* tokens generated after the
						   prompt */
	int		 stopped;
};

static int
accept(struct qwen_chain_method *s, int32_t token, int generated)
{
	struct memory *m = s->memory;
	uint64_t p, copies = (uint64_t)s->v[0].i, want;

	m->stopped = 0;
	if (!generated) {
		m->n = 0;
		return 0;
	}
	for (p = 1; p <= PERIOD_MAX && p <= m->n; p++) {
		m->same[p - 1] = m->last[(m->n - p) % PERIOD_MAX] != token ?
		    0 : m->same[p - 1] < UINT32_MAX ? m->same[p - 1] + 1 :
		    UINT32_MAX;
		want = p * copies > TOKENS_MIN ? p * copies : TOKENS_MIN;
		if (copies > 1 && m->same[p - 1] >= want - p)
			m->stopped = QWEN_STOPPED_REPEAT;
	}
	if (p <= PERIOD_MAX)
		m->same[p - 1] = 0;
	m->last[m->n++ % PERIOD_MAX] = token;
	return 0;
}

static int
stops(const struct qwen_chain_method *s)
{
	return ((const struct memory *)s->memory)->stopped;
}

const struct qwen_sampler_method qwen_sampler_stop_repeat = {
	.name = "stop-repeat", .rank = QWEN_RANK_STOP_REPEAT, .keeps_best = 1,
	.memory = sizeof(struct memory),
	.accept = accept, .stops = stops,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "stop-repeat", .type = QWEN_SAMPLE_INT, .arg = "K",
	  .min = 0, .max = 1000, .def = 0,
	  .fields = { "stop_repeat" },
	  .help = "end if the same tokens come K times in a row; 0: never" },
};
