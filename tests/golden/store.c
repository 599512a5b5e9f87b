/* SPDX-License-Identifier: ISC */
/*
 * store.c - sessions from the prefix store have the bits of computed ones, for
 * every length of a prompt, on every model.
 */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "../unit/store_util.h"
#include "../tap.h"

static struct qwen_err err;

/* The session of n tokens, from the store or without; NULL on errors. */
static struct qwen_session *
prefill(struct qwen_store *st, struct qwen_model *m, const int32_t *ids,
    size_t n, size_t *from_store)
{
	struct qwen_checkpoints keep = { .every = 16 };
	struct qwen_eval how = { .keep = &keep };
	struct qwen_session *s = NULL;
	size_t have = 0;

	if (st != NULL && qwen_store_restore(st, &s, m, ids, n, &err) < 0)
		return NULL;
	if (s != NULL)
		have = qwen_session_n_tokens(s);
	else if (qwen_session_new(&s, m, &err) < 0)
		return NULL;
	if (have < n && qwen_session_eval(s, ids + have, n - have, &how,
	    &err) < 0) {
		qwen_session_free(s);
		return NULL;
	}
	if (from_store != NULL)
		*from_store = have;
	return s;
}

/* Of each length up to n, from the store and by one more token. */
static void
check_lengths(struct qwen_store *st, struct qwen_model *m, const char *name,
    const int32_t *ids, size_t n)
{
	struct qwen_session *cold, *s;
	size_t i, have, reused = 0;
	int good = 1;

	if (qwen_session_new(&cold, m, &err) < 0)
		abort();
	for (i = 1; i <= n && good; i++) {
		s = prefill(st, m, ids, i, &have);
		good = s != NULL && qwen_session_eval(cold, ids + i - 1, 1,
		    NULL, &err) == 0 && same_session(cold, s);
		reused += have;
		if (!good)
			printf("# %zu tokens, %zu from the store\n", i, have);
		qwen_session_free(s);
	}
	ok(good, "%s: cold and from the store, at every length", name);
	ok(reused > n * n / 4, "%s: %zu of %zu tokens were not read again",
	    name, reused, n * (n + 1) / 2);
	qwen_session_free(cold);
}

static void
check_fork(struct qwen_store *st, struct qwen_model *m, const char *name,
    const int32_t *ids, size_t n, size_t part)
{
	struct qwen_session *cold, *s;
	int32_t t[128];
	size_t have;

	memcpy(t, ids, n * sizeof *t);
	t[part] = ids[part] != 0 ? 0 : 1;
	cold = prefill(NULL, m, t, n, NULL);
	s = prefill(st, m, t, n, &have);
	ok(cold != NULL && s != NULL && same_session(cold, s) && have <= part &&
	    have + 16 > part, "%s: a prompt that parts at %zu uses %zu", name,
	    part, have);
	if (s != NULL)
		qwen_store_insert(st, s, &err);
	qwen_session_free(s);
	s = prefill(st, m, t, n, &have);
	ok(cold != NULL && s != NULL && same_session(cold, s) && have == n,
	    "%s: and is there afterwards", name);
	qwen_session_free(s);
	qwen_session_free(cold);
}

static void
check_model(const struct golden_model *g)
{
	struct qwen_model_opts o = { .n_threads = 2 };
	const struct golden_case *c = NULL;
	const char *dir = store_dir();
	struct warnings w;
	struct qwen_store *st = open_store(dir, 0, &w);
	struct qwen_session *s;
	struct qwen_model *m;
	size_t i;

	for (i = 0; i < g->n_case; i++) {
		if (g->cases[i].n_tokens == 65)
			c = &g->cases[i];
	}
	if (!ok(c != NULL && qwen_model_open(&m, g->path, &o, &err) == 0, "%s",
	    g->name))
		return;
	s = prefill(NULL, m, c->tokens, 65, NULL);
	ok(s != NULL && qwen_store_insert(st, s, &err) == 0, "%s: inserted",
	    g->name);
	qwen_session_free(s);
	check_lengths(st, m, g->name, c->tokens, 65);
	check_fork(st, m, g->name, c->tokens, 65, 16);
	check_fork(st, m, g->name, c->tokens, 65, 39);
	check_lengths(st, m, g->name, c->tokens, 65);
	ok(w.n == 0 && count_bad(st, 0) == 0, "%s: no warning, no damage",
	    g->name);
	qwen_store_close(st);
	remove_tree(dir);
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
