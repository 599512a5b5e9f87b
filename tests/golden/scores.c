/* SPDX-License-Identifier: ISC */
/*
 * scores.c - log-probabilities of the tokens of the reference texts against
 * those of the reference logits (transformers, f32).  A logit differs by at
 * most max_abs of the case, and so does the logarithm of the sum.
 */
#include <math.h>
#include <stdlib.h>

#include "golden.h"
#include "qwen.h"
#include "qwentext.h"
#include "../tap.h"

struct take {
	const struct golden_case	*c;
	double				*logprob;
	int				 ended;
};

static void
on_score(void *arg, const struct qwen_score *s)
{
	struct take *t = arg;

	t->logprob[s->at] = s->logprob;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *err)
{
	struct take *t = arg;

	(void)err;
	t->ended = why == QWEN_JOB_LENGTH;
}

static double
reference(const float *row, size_t n, int32_t id)
{
	double max = (double)row[0], sum = 0;
	size_t i;

	for (i = 1; i < n; i++)
		max = (double)row[i] > max ? (double)row[i] : max;
	for (i = 0; i < n; i++)
		sum += exp((double)row[i] - max);
	return (double)row[id] - max - log(sum);
}

static void
compare(const struct golden_model *g, const struct golden_case *c,
    const double *got)
{
	double worst = 0, d;
	size_t i, pos, n = 0;

	for (i = 0; i < c->n_rows; i++) {
		pos = c->rows[i];
		if (pos + 1 >= c->n_tokens)
			continue;
		d = fabs(got[pos + 1] - reference(c->logits + i * g->n_vocab,
		    g->n_vocab, c->tokens[pos + 1]));
		worst = d > worst ? d : worst;
		n++;
	}
	ok(c->limit[2] < 0 || worst <= 2 * c->limit[2],
	    "%s %s: %zu scores, at most %.6g off (limit %.6g)", g->name,
	    c->name, n, worst, 2 * c->limit[2]);
}

static void
check_model(const struct golden_model *g)
{
	struct qwen_work_opts o = { 0 };
	struct qwen_model *m;
	struct qwen_work *w = NULL;
	struct qwen_cache *cache = NULL;
	struct take *t = calloc(g->n_case + 1, sizeof *t);
	struct qwen_err err = { 0 };
	size_t i;
	int r;

	if (t == NULL || qwen_model_open(&m, g->path, NULL, &err) < 0 ||
	    qwen_cache_new(&cache, m, 0, &err) < 0)
		exit(1);
	o.model = m;
	o.cache = cache;
	if (qwen_work_new(&w, &o, &err) < 0)
		exit(1);
	for (i = 0; i < g->n_case; i++) {
		const struct golden_case *c = &g->cases[i];
		struct qwen_job j = {
			.tokens = c->tokens, .n = c->n_tokens, .from = 1,
			.score = on_score, .end = on_end, .arg = &t[i],
		};

		if ((t[i].logprob = calloc(c->n_tokens + 1,
		    sizeof *t[i].logprob)) == NULL)
			exit(1);
		/* one that did not come along has no tokens */
		if (c->tokens != NULL && c->n_tokens > 1 &&
		    qwen_work_add(w, &j, &err) < 0)
			exit(1);
	}
	while ((r = qwen_work_step(w, &err)) > 0)
		;
	ok(r == 0, "%s: all texts together %s", g->name, err.msg);
	for (i = 0; i < g->n_case; i++) {
		if (t[i].ended)
			compare(g, &g->cases[i], t[i].logprob);
		free(t[i].logprob);
	}
	free(t);
	qwen_work_free(w);
	qwen_cache_free(cache);
	qwen_model_close(m);
}

int
main(void)
{
	struct golden_model *g;
	size_t i, n = golden_load(&g);

	for (i = 0; i < n; i++)
		check_model(&g[i]);
	golden_free(g, n);
	return done_testing();
}
