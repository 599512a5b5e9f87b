/* SPDX-License-Identifier: ISC */
/*
 * state.c - cut a prompt anywhere, save, load, go on: the bits are those of a
 * session that was never saved, on every model.
 */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "../unit/state_util.h"
#include "../tap.h"

static struct qwen_err err;

static struct qwen_session *
evaluate(struct qwen_session *s, struct qwen_model *m, const int32_t *ids,
    size_t n)
{
	if (s == NULL && qwen_session_new(&s, m, &err) < 0)
		return NULL;
	if (n > 0 && qwen_session_eval(s, ids, n, NULL, &err) < 0) {
		qwen_session_free(s);
		return NULL;
	}
	return s;
}

/* Evaluate cut tokens, go through bytes, evaluate the rest. */
static struct qwen_session *
by_way_of_bytes(struct qwen_model *m, const int32_t *ids, size_t n,
    size_t cut, int no_compress)
{
	struct qwen_session *s = evaluate(NULL, m, ids, cut), *t = NULL;
	struct bytes b = { 0 };

	if (s == NULL)
		return NULL;
	save_bytes(&b, s, NULL, no_compress, NULL);
	qwen_session_free(s);
	if (load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) == 0)
		t = evaluate(t, m, ids + cut, n - cut);
	bytes_free(&b);
	return t;
}

static void
check_model(const struct golden_model *g)
{
	static const size_t cuts[] = { 1, 15, 16, 33, 64, 65 };
	struct qwen_model_opts o = { .n_threads = 1 };
	const struct golden_case *c = NULL;
	struct qwen_session *whole, *s;
	struct qwen_model *m;
	size_t i;

	for (i = 0; i < g->n_case; i++) {
		if (g->cases[i].n_tokens == 65)
			c = &g->cases[i];
	}
	if (c == NULL) {
		skip(g->name, "no case of 65 tokens");
		return;
	}
	if (!ok(qwen_model_open(&m, g->path, &o, &err) == 0, "%s", g->name))
		return;
	whole = evaluate(NULL, m, c->tokens, 65);
	for (i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
		err.msg[0] = '\0';
		s = by_way_of_bytes(m, c->tokens, 65, cuts[i], i % 2 != 0);
		ok(s != NULL && whole != NULL && same_session(whole, s),
		    "%s: saved after %zu of 65 tokens%s%s", g->name, cuts[i],
		    err.msg[0] != '\0' ? ": " : "", err.msg);
		qwen_session_free(s);
	}
	qwen_session_free(whole);
	qwen_model_close(m);
}

int
main(void)
{
	static struct golden_model *g;	/* until the end */
	size_t i, n = golden_load(&g);

	ok(n > 0, "%zu models", n);
	for (i = 0; i < n; i++)
		check_model(&g[i]);
	golden_free(g, n);
	return done_testing();
}
