/* SPDX-License-Identifier: ISC */
/*
 * ref.c - three results must agree: the recorded logits, the reference pass of
 * tests/ref, and the library's pass.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "qwen.h"
#include "qwentext.h"
#include "../kernel/random.h"
#include "../ref/ref.h"
#include "../tap.h"

/*
 * The recorded logits are from a pass in double, as is the reference; what
 * is left is their rounding to f32 (measured: at most 4.8e-7).
 */
#define RECORDED_MAX 1e-5

#define N_RANDOM 40

static void *
need(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (p == NULL)
		abort();
	return p;
}

static double
largest_difference(const struct golden_model *g, const struct golden_case *c,
    const double *logits)
{
	double max = 0, d;
	size_t r, i;

	for (r = 0; r < c->n_rows; r++) {
		const double *row = logits + c->rows[r] * g->n_vocab;

		for (i = 0; i < g->n_vocab; i++) {
			d = fabs(row[i] - (double)c->logits[r * g->n_vocab +
			    i]);
			max = d > max || d != d ? d : max;
		}
	}
	return max;
}

static void
check_recorded(const struct ref_model *m, const struct golden_model *g,
    const struct golden_case *c)
{
	double *logits = need(c->n_tokens * g->n_vocab, sizeof *logits), d;

	ref_logits(m, c->tokens, c->n_tokens, logits);
	d = largest_difference(g, c, logits);
	ok(d < RECORDED_MAX, "%s %s: the reference is within %.3g of the "
	    "recorded logits", g->name, c->name, d);
	free(logits);
}

static int
keep_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	const struct golden_model *g = ((void **)arg)[0];
	float *got = ((void **)arg)[1];

	(void)err;
	memcpy(got + pos * g->n_vocab, logits, g->n_vocab * sizeof *got);
	return 0;
}

/* A case of random tokens whose expected logits are the reference's. */
static void
random_case(const struct ref_model *m, const struct golden_model *g,
    struct golden_case *c)
{
	double *logits = need(N_RANDOM * g->n_vocab, sizeof *logits);
	size_t i;

	c->n_tokens = c->n_rows = N_RANDOM;
	c->tokens = need(N_RANDOM, sizeof *c->tokens);
	c->rows = need(N_RANDOM, sizeof *c->rows);
	c->logits = need(N_RANDOM * g->n_vocab, sizeof *c->logits);
	for (i = 0; i < N_RANDOM; i++) {
		c->tokens[i] = (int32_t)(random_u32() % g->n_vocab);
		c->rows[i] = i;
	}
	ref_logits(m, c->tokens, N_RANDOM, logits);
	for (i = 0; i < N_RANDOM * g->n_vocab; i++)
		c->logits[i] = (float)logits[i];
	free(logits);
}

/*
 * The limits of the case n65, but for the largest difference of any row, in
 * which one choice of experts shows, the widest of all cases.
 */
static void
find_limits(const struct golden_model *g, double limit[6])
{
	size_t j;

	for (j = 0; j < g->n_case; j++) {
		if (strcmp(g->cases[j].name, "n65") == 0)
			memcpy(limit, g->cases[j].limit, 6 * sizeof *limit);
	}
	for (j = 0; j < g->n_case; j++) {
		if (g->cases[j].limit[2] > limit[2])
			limit[2] = g->cases[j].limit[2];
	}
}

/* The library on tokens nobody has seen, within the limits of known cases. */
static void
check_library(const struct ref_model *ref, const struct golden_model *g,
    const double limit[6])
{
	static const char *const names[] = { "mean_kl", "median_kl",
	    "max_abs", "median_abs", "p90_abs" };
	struct golden_case c = { 0 };
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;
	struct qwen_err err = { 0 };
	void *arg[2];
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = keep_row,
	    .arg = arg };
	double d[6];
	int i;

	/* a model's tokens do not depend on which other models are there */
	random_state = 88172645463325252ULL;
	random_case(ref, g, &c);
	arg[0] = (void *)(uintptr_t)g;
	arg[1] = need(N_RANDOM * g->n_vocab, sizeof(float));
	if (ok(qwen_model_open(&m, g->path, NULL, &err) == 0 &&
	    qwen_session_new(&s, m, &err) == 0 &&
	    qwen_session_eval(s, c.tokens, c.n_tokens, &how, &err) == 0,
	    "%s: evaluates random tokens %s", g->name, err.msg)) {
		golden_distance(g, &c, arg[1], d);
		for (i = 0; i < 5; i++)
			ok(limit[i] < 0 || d[i] <= limit[i], "%s: the library"
			    " on random tokens: %s %.3g (limit %.3g)",
			    g->name, names[i], d[i], limit[i]);
	}
	qwen_session_free(s);
	qwen_model_close(m);
	free(arg[1]);
	free(c.tokens);
	free(c.rows);
	free(c.logits);
}

int
main(void)
{
	struct golden_model *g;
	double limit[6];
	size_t i, j, n = golden_load(&g);

	ok(n >= 4, "%zu models found", n);
	for (i = 0; i < n; i++) {
		struct ref_model *m = ref_open(g[i].path);

		for (j = 0; j < g[i].n_case; j++) {
			const struct golden_case *c = &g[i].cases[j];

			if (c->n_rows == 0)
				continue;
			if (strcmp(c->name, "n7") == 0 ||
			    strcmp(c->name, "n65") == 0 ||
			    getenv("QPIPE_LONG") != NULL)
				check_recorded(m, &g[i], c);
		}
		find_limits(&g[i], limit);
		check_library(m, &g[i], limit);
		ref_close(m);
	}
	golden_free(g, n);
	return done_testing();
}
