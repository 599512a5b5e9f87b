/* SPDX-License-Identifier: ISC */
/*
 * kv.c - cost of q8_0 and q4_0 for keys and values: the KL divergence of a
 * text's logits from those with f16, beside the cost of numerics version 1,
 * which rounds activations to 8 bits.  All in version 4, which rounds little
 * else.
 *
 *	kv			the fixtures
 *	kv MODEL FILE [STEP]	prints it for this model and the ids in FILE,
 *				one per line; every STEPth row
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "qwen.h"
#include "../tap.h"

struct text {
	const char	*path;		/* of the model */
	const int32_t	*tokens;
	size_t		 n;
	size_t		 step;		/* rows step - 1, 2 * step - 1, ... */
};

/* Its rows under one way of computing. */
struct rows {
	float	*row;
	size_t	 n, n_vocab, step;
};

static int
keep(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct rows *r = arg;

	(void)err;
	if ((pos + 1) % r->step == 0)
		memcpy(r->row + pos / r->step * r->n_vocab, logits,
		    r->n_vocab * sizeof *logits);
	return 0;
}

/* The rows, to free; -1: *why. */
static int
run(struct rows *r, const struct text *t, unsigned numerics, enum qwen_kv k,
    enum qwen_kv v, struct qwen_err *why)
{
	struct qwen_model_opts o = { .n_threads = 2, .numerics = numerics,
	    .k = k, .v = v };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = keep,
	    .arg = r };
	struct qwen_session *s = NULL;
	struct qwen_model *m;
	int rc = -1;

	*r = (struct rows){ .step = t->step, .n = t->n / t->step };
	if (qwen_model_open(&m, t->path, &o, why) < 0)
		return -1;
	r->n_vocab = qwen_model_n_vocab(m);
	r->row = calloc(r->n * r->n_vocab, sizeof *r->row);
	if (r->row != NULL && qwen_session_new(&s, m, why) == 0)
		rc = qwen_session_eval(s, t->tokens, t->n, &how, why);
	qwen_session_free(s);
	qwen_model_close(m);
	return rc;
}

/* log of the sum of exp, in the order of the row. */
static double
log_sum(const float *x, size_t n)
{
	double top = x[0], sum = 0;
	size_t i;

	for (i = 1; i < n; i++)
		top = x[i] > top ? x[i] : top;
	for (i = 0; i < n; i++)
		sum += exp(x[i] - top);
	return top + log(sum);
}

/* The mean over the rows. */
static double
divergence(const struct rows *a, const struct rows *b)
{
	double sum = 0, la, lb;
	size_t i, r, n = a->n_vocab;

	for (r = 0; r < a->n; r++) {
		const float *x = a->row + r * n, *y = b->row + r * n;

		la = log_sum(x, n);
		lb = log_sum(y, n);
		for (i = 0; i < n; i++)
			sum += exp(x[i] - la) * ((x[i] - la) - (y[i] - lb));
	}
	return sum / (double)a->n;
}

/* ------------------------------------------------------------------ one text */

enum cost { EIGHT, Q8, Q8_K, Q8_V, Q4, Q4_K, Q4_V, N_COST };

static const struct {
	unsigned	 numerics;
	enum qwen_kv	 k, v;
} ways[N_COST] = {
	[EIGHT] = { 1, QWEN_KV_F16, QWEN_KV_F16 },
	[Q8] = { 4, QWEN_KV_Q8_0, QWEN_KV_Q8_0 },
	[Q8_K] = { 4, QWEN_KV_Q8_0, QWEN_KV_F16 },
	[Q8_V] = { 4, QWEN_KV_F16, QWEN_KV_Q8_0 },
	[Q4] = { 4, QWEN_KV_Q4_0, QWEN_KV_Q4_0 },
	[Q4_K] = { 4, QWEN_KV_Q4_0, QWEN_KV_F16 },
	[Q4_V] = { 4, QWEN_KV_F16, QWEN_KV_Q4_0 },
};

/* All of them, from f16 in version 4; -1: *why. */
static int
measure(double cost[N_COST], const struct text *t, struct qwen_err *why)
{
	struct rows f16, x = { 0 };
	int i, rc = run(&f16, t, 4, QWEN_KV_F16, QWEN_KV_F16, why);

	for (i = 0; rc == 0 && i < N_COST; i++) {
		rc = run(&x, t, ways[i].numerics, ways[i].k, ways[i].v, why);
		cost[i] = rc == 0 ? divergence(&f16, &x) : 0;
		free(x.row);
	}
	free(f16.row);
	return rc;
}

static void
tell(const char *name, const double c[N_COST])
{
	printf("# %s: 8-bit activations %.2e; q8_0 %.2e (keys %.2e, values "
	    "%.2e); q4_0 %.2e (keys %.2e, values %.2e)", name, c[EIGHT], c[Q8],
	    c[Q8_K], c[Q8_V], c[Q4], c[Q4_K], c[Q4_V]);
	if (c[EIGHT] > 0)
		printf("; %.3f and %.3f of it", c[Q8] / c[EIGHT],
		    c[Q4] / c[EIGHT]);
	putchar('\n');
}

/*
 * Fixtures of random weights: where all layers attend, small errors become
 * larger ones, and keys of 8 bits err as queries do that are made of 8-bit
 * activations.
 */
static void
check(const struct golden_model *g, const struct golden_case *c)
{
	const struct text t = { .path = g->path, .tokens = c->tokens,
	    .n = c->n_tokens, .step = 1 };
	struct qwen_err err = { 0 };
	double cost[N_COST];
	int hybrid = strncmp(g->name, "qwen35", 6) == 0;

	if (measure(cost, &t, &err) < 0) {
		ok(strstr(err.msg, "head size 16") != NULL, "%s: %s",
		    g->name, err.msg);
		return;
	}
	tell(g->name, cost);
	ok(cost[Q8] < 0.005 && cost[Q8] > 0 && cost[Q8] < cost[Q4] / 4,
	    "%s: q8_0 costs little, q4_0 more", g->name);
	if (cost[EIGHT] > 0)
		ok(cost[Q8] < cost[EIGHT] * (hybrid ? 0.1 : 1), "%s: q8_0 "
		    "costs less than %s8-bit activations", g->name,
		    hybrid ? "a tenth of " : "");
}

static int
measure_file(char *argv[])
{
	struct text t = { .path = argv[1] };
	FILE *f = fopen(argv[2], "r");
	int32_t *ids = calloc(1 << 20, sizeof *ids);
	struct qwen_err err = { 0 };
	double cost[N_COST];

	t.step = argv[3] != NULL ? strtoul(argv[3], NULL, 10) : 1;
	while (f != NULL && ids != NULL && t.n < 1 << 20 &&
	    fscanf(f, "%d", &ids[t.n]) == 1)
		t.n++;
	t.tokens = ids;
	if (f == NULL || t.n == 0 || t.step == 0 ||
	    measure(cost, &t, &err) < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], err.msg);
		return 1;
	}
	tell(t.path, cost);
	fclose(f);
	free(ids);
	return 0;
}

int
main(int argc, char *argv[])
{
	struct golden_model *g;
	size_t i, j, n;

	if (argc > 2)
		return measure_file(argv);
	n = golden_load(&g);
	ok(n > 0, "%zu models", n);
	for (i = 0; i < n; i++) {
		for (j = 0; j < g[i].n_case; j++) {
			if (g[i].cases[j].n_rows > 0 &&
			    strcmp(g[i].cases[j].name, "n600") == 0)
				check(&g[i], &g[i].cases[j]);
		}
	}
	golden_free(g, n);
	return done_testing();
}
