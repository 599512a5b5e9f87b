/* SPDX-License-Identifier: ISC */
/*
 * logits.c - the forward pass against reference logits (transformers, f32),
 * within the limits of expected.json, and greedy continuations; in all numerics
 * versions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden.h"
#include "qwen.h"
#include "qwentext.h"
#include "../tap.h"

struct take {
	const struct golden_case	*c;
	size_t				 next, n_vocab;
	float				*got;
};

static int
keep_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct take *t = arg;

	(void)err;
	if (t->next < t->c->n_rows && t->c->rows[t->next] == pos)
		memcpy(t->got + t->next++ * t->n_vocab, logits,
		    t->n_vocab * sizeof *logits);
	return 0;
}

/* Over the cases that have a peer's: log of KL / the peer's KL. */
static double log_ratio;
static int n_ratio;
/* Of the version under test, in descriptions. */
static unsigned numerics;

static void
check_case(struct qwen_model *m, const struct golden_model *g,
    const struct golden_case *c)
{
	static const char *const names[6] = { "mean_kl", "median_kl",
	    "max_abs", "median_abs", "p90_abs", "top1" };
	struct take t = { .c = c, .n_vocab = g->n_vocab };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = keep_row,
	    .arg = &t };
	struct qwen_session *s = NULL;
	struct qwen_err err = { 0 };
	double d[6];
	int i, good;

	t.got = calloc(c->n_rows, g->n_vocab * sizeof *t.got);
	good = t.got != NULL && qwen_session_new(&s, m, &err) == 0 &&
	    qwen_session_eval(s, c->tokens, c->n_tokens, &how, &err) == 0 &&
	    t.next == c->n_rows;
	if (!ok(good, "%u: %s %s: evaluates %s", numerics, g->name, c->name,
	    err.msg))
		goto out;
	golden_distance(g, c, t.got, d);
	for (i = 0; i < 6; i++) {
		good = c->limit[i] < 0 || (i == 5 ? d[i] >= c->limit[i] :
		    d[i] <= c->limit[i]);
		ok(good, "%u: %s %s: %s %.6g (limit %.6g)", numerics, g->name,
		    c->name, names[i], d[i], c->limit[i]);
	}
	if (c->peer_kl > 1e-6 && d[0] > 0) {
		log_ratio += log(d[0] / c->peer_kl);
		n_ratio++;
	}
out:
	qwen_session_free(s);
	free(t.got);
}

static int32_t
argmax(const float *x, size_t n)
{
	size_t i, b = 0;

	for (i = 1; i < n; i++)
		b = x[i] > x[b] ? i : b;
	return (int32_t)b;
}

/* Exact until a margin is within what rounding may move (the limit given). */
static void
check_greedy(struct qwen_model *m, const struct golden_model *g, double slack)
{
	struct qwen_session *s = NULL;
	struct qwen_err err = { 0 };
	size_t i = 0;
	int32_t id;

	if (qwen_session_new(&s, m, &err) == 0 &&
	    qwen_session_eval(s, g->prompt, g->n_prompt, NULL, &err) == 0) {
		for (; i < g->n_greedy; i++) {
			id = argmax(qwen_session_logits(s), g->n_vocab);
			if (id != g->greedy[i] || qwen_session_eval(s, &id, 1,
			    NULL, &err) < 0)
				break;
		}
	}
	ok(i == g->n_greedy || (err.code == 0 && g->margin[i] <= slack),
	    "%u: %s: greedy continuation, %zu of %zu, margin %g %s", numerics,
	    g->name, i, g->n_greedy, i < g->n_greedy ? g->margin[i] : 0.0,
	    err.msg);
	qwen_session_free(s);
}

static void
check_model(const struct golden_model *g)
{
	struct qwen_model_opts opts = { .numerics = numerics };
	struct qwen_model *m;
	struct qwen_err err;
	double slack = 0;
	size_t j;

	if (!ok(qwen_model_open(&m, g->path, &opts, &err) == 0 &&
	    qwen_model_numerics(m) == numerics, "%u: %s opens", numerics,
	    g->name)) {
		fprintf(stderr, "%s\n", err.msg);
		return;
	}
	for (j = 0; j < g->n_case; j++) {
		if (g->cases[j].n_rows > 0)
			check_case(m, g, &g->cases[j]);
		if (strcmp(g->cases[j].name, "n65") == 0)
			slack = g->cases[j].limit[2];
	}
	check_greedy(m, g, slack);
	qwen_model_close(m);
}

int
main(void)
{
	struct golden_model *g;
	struct qwen_model_opts opts = { .numerics = 2 };
	struct qwen_model *m;
	struct qwen_err err;
	static const unsigned versions[] = { 1, 3, 4 };
	double ratio[5] = { 0 };
	size_t v;
	size_t i, n = golden_load(&g);

	ok(n >= 4, "%zu models found", n);
	for (v = 0; v < 3; v++) {
		numerics = versions[v];
		log_ratio = n_ratio = 0;
		for (i = 0; i < n; i++)
			check_model(&g[i]);
		if (n_ratio == 0)
			continue;
		ratio[numerics] = exp(log_ratio / n_ratio);
		printf("# version %u: KL / llama.cpp's KL, geometric mean of "
		    "%d cases: %.3g\n", numerics, n_ratio, ratio[numerics]);
	}
	ok(n_ratio == 0 || ratio[4] < 0.001 * ratio[1],
	    "version 4 is nearer to the reference by far than version 1");
	ok(n > 0 && qwen_model_open(&m, g[0].path, &opts, &err) < 0 &&
	    strcmp(err.msg, "numerics version 2 does not exist; there are 1, 3 and 4") == 0,
	    "a version that there is not");
	golden_free(g, n);
	return done_testing();
}
