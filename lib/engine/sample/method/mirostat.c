/* SPDX-License-Identifier: ISC */
/*
 * mirostat.c - Mirostat 2: removes tokens whose surprise exceeds mu bits, and
 * adjusts mu so that the surprise averages TAU.
 *
 * Basu et al., "Mirostat: A Neural Text Decoding Algorithm that Directly
 * Controls Perplexity", ICLR 2021 (arXiv:2007.14966), section 4.  Version 2, as
 * in the authors' program, does not estimate the distribution's shape. mu
 * begins at 2 TAU.  It depends on earlier logits, so it must be saved with a
 * state.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/math.h"
#include "engine/sample/sample.h"

enum { TAU, ETA };

static const struct qwen_sample_opt opts[] = {
	[TAU] = { .name = "mirostat", .type = QWEN_SAMPLE_REAL,
	  .arg = "TAU", .min = 0, .max = 100, .def = 0,
	  .help = "target surprise in bits (Mirostat 2); 0: off" },
	[ETA] = { .name = "mirostat-eta", .type = QWEN_SAMPLE_REAL,
	  .arg = "ETA", .min = 0, .max = 1, .def = 0.1,
	  .fields = { "mirostat_eta" },
	  .help = "how fast Mirostat adapts" },
};

#define LN2 0x1.62e42fefa39efp-1

struct memory {
	double	 mu;
	/* for accept: the candidates of the last choice and their weights */
	double	 total;
	int32_t	*id;
	float	*weight;
	size_t	 n;
};

static void
end(struct qwen_chain_method *s)
{
	struct memory *m = s->memory;

	free(m->id);
	free(m->weight);
}

static int
begin(struct qwen_chain_method *s, struct qwen_err *err)
{
	struct memory *m = s->memory;

	m->mu = 2 * s->v[TAU].d;
	m->id = qwen_alloc(s->w->n_vocab, sizeof *m->id);
	m->weight = qwen_alloc(s->w->n_vocab, sizeof *m->weight);
	return m->id != NULL && m->weight != NULL ? 0 : qwen_oom(err);
}

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	struct memory *m = s->memory;
	float max = qwen_cands_max(l);
	/* surprise in bits: (max - logit + ln Z) / ln 2 */
	double room = m->mu * LN2 - qwen_log(qwen_cands_weigh(l));

	/* the best token always stays */
	qwen_cands_cut(l, l->logit,
	    room > 0 ? (float)((double)max - room) : max);
	m->total = qwen_cands_weigh(l);
	m->n = l->n;
	memcpy(m->id, l->id, l->n * sizeof *m->id);
	memcpy(m->weight, l->weight, l->n * sizeof *m->weight);
}

static int
accept(struct qwen_chain_method *s, int32_t token, int generated)
{
	struct memory *m = s->memory;
	const int32_t *at;
	double surprise;
	float weight;

	if (!generated || m->n == 0)
		return 0;
	at = bsearch(&token, m->id, m->n, sizeof token,
	    qwen_sample_compare_ids);
	if (at != NULL && (weight = m->weight[at - m->id]) > 0) {
		surprise = qwen_log(m->total / (double)weight) / LN2;
		m->mu -= s->v[ETA].d * (surprise - s->v[TAU].d);
	}
	m->n = 0;
	return 0;
}

static double
save(const struct qwen_chain_method *s)
{
	return ((const struct memory *)s->memory)->mu;
}

static void
restore(struct qwen_chain_method *s, double saved)
{
	((struct memory *)s->memory)->mu = saved;
}

const struct qwen_sampler_method qwen_sampler_mirostat = {
	.name = "mirostat", .rank = QWEN_RANK_MIROSTAT, .draws = 1,
	.memory = sizeof(struct memory),
	.n_opts = 2, .opts = opts, .apply = apply,
	.begin = begin, .accept = accept, .save = save, .restore = restore,
	.end = end,
};
