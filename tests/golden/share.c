/* SPDX-License-Identifier: ISC */
/*
 * share.c - models that share threads: each has its own bits, none adds threads,
 * and the threads live as long as one of the models.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "qwen.h"
#include "../tap.h"

static struct qwen_err err;

static int
n_threads(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];
	int n = 0;

	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	}
	if (f != NULL)
		fclose(f);
	return n;
}

static struct qwen_model *
open_model(const struct golden_model *g, const struct qwen_model *share)
{
	struct qwen_model_opts o = { .n_threads = share != NULL ? 0 : 3,
	    .share = share };
	struct qwen_model *m;

	if (qwen_model_open(&m, g->path, &o, &err) < 0)
		abort();
	return m;
}

/* Returns a model's logits after three tokens; the caller frees them. */
static float *
logits(struct qwen_model *m, const struct golden_model *g)
{
	static const int32_t tokens[] = { 1, 2, 3 };
	size_t n = g->n_vocab * sizeof(float);
	float *out = malloc(n);
	struct qwen_session *s;

	if (out == NULL || qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, tokens, 3, NULL, &err) < 0)
		abort();
	memcpy(out, qwen_session_logits(s), n);
	qwen_session_free(s);
	return out;
}

static int
same(struct qwen_model *m, const struct golden_model *g, const float *want)
{
	float *got = logits(m, g);
	int r = memcmp(got, want, g->n_vocab * sizeof *got) == 0;

	free(got);
	return r;
}

int
main(void)
{
	static struct golden_model *g;	/* until the end */
	struct qwen_model *a, *b, *c;
	float *want[2];
	size_t i, n = golden_load(&g);
	int before, with;

	if (n < 2)
		abort();
	for (i = 0; i < 2; i++) {
		a = open_model(&g[i], NULL);
		want[i] = logits(a, &g[i]);
		qwen_model_close(a);
	}
	a = open_model(&g[0], NULL);
	before = n_threads();
	b = open_model(&g[1], a);
	c = open_model(&g[0], b);
	with = n_threads();
	ok(with == before && before > 1, "%d threads, with three models %d",
	    before, with);
	ok(qwen_model_n_threads(b) == 3 && qwen_model_n_threads(c) == 3,
	    "each computes on the 3 threads of the first");
	ok(same(a, &g[0], want[0]) && same(b, &g[1], want[1]) &&
	    same(c, &g[0], want[0]), "in turn: the logits that each has alone");
	qwen_model_close(a);
	ok(same(b, &g[1], want[1]) && same(c, &g[0], want[0]),
	    "also when the first is closed");
	qwen_model_close(c);
	qwen_model_close(b);
	ok(n_threads() == 1, "no thread is left after the last: %d",
	    n_threads());
	free(want[0]);
	free(want[1]);
	golden_free(g, n);
	return done_testing();
}
