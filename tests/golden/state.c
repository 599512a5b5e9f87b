/* SPDX-License-Identifier: ISC */
/*
 * state.c - a prompt divided anywhere, saved, loaded and continued has the bits
 * of a session that was never saved; on every model.
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

/* Save with checkpoints; restore what serves for n tokens, read on from there. */
static int
by_way_of_index(struct qwen_model *m, const int32_t *ids, size_t n, size_t cut,
    int no_compress, const struct qwen_session *whole)
{
	struct qwen_checkpoints keep = { .every = 16 };
	struct qwen_eval how = { .keep = &keep };
	struct qwen_session *s = NULL, *t = NULL;
	struct qwen_state_file *f;
	struct bytes b = { 0 };
	char path[64];
	size_t at;
	int fd, good;

	if (qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, ids, n, &how, &err) < 0)
		return 0;
	save_bytes(&b, s, NULL, no_compress, NULL);
	qwen_session_free(s);
	fd = fd_of(b.p, b.n);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	if (qwen_state_open(&f, path, &err) < 0)
		return 0;
	good = qwen_state_restore(&t, NULL, m, &f, 1, cut, 1, &err) == 0;
	at = good ? qwen_session_n_tokens(t) : 0;
	good = good && at <= cut && (at + 16 >= cut) &&
	    evaluate(t, m, ids + at, n - at) != NULL && same_session(whole, t);
	qwen_session_free(t);
	qwen_state_close(f);
	close(fd);
	bytes_free(&b);
	return good;
}

static void
check_model(const struct golden_model *g)
{
	static const size_t cuts[] = { 1, 15, 16, 33, 64, 65 };
	struct qwen_model_opts o = { .n_threads = 1 };
	const struct golden_case *c = NULL;
	struct qwen_session *whole, *s;
	struct qwen_model *m;
	size_t i, bad;

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
	for (i = bad = 0; i <= 65; i += i % 16 == 15 || i % 16 == 0 ? 1 : 5)
		bad += !by_way_of_index(m, c->tokens, 65, i, i % 2 != 0, whole);
	ok(bad == 0, "%s: cut by the index, and read on", g->name);
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
