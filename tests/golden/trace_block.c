/* SPDX-License-Identifier: ISC */
/*
 * trace_block.c - the block that predicts, of which golden/trace has the values:
 * sessions and models that have not what it needs.
 */
#include <string.h>

#include "trace_util.h"
#include "../tap.h"

/*
 * Rows that nobody needed yet; and those of a session that was cut: from its
 * start, or where it has not what the next one is made of.
 */
static void
check_cut(const struct tiny_case *c)
{
	static const char *const block[] = { "*.nextn.*" };
	struct log l = { 0 };
	struct qwen_trace t = { .patterns = block, .n_patterns = 1,
	    .value = keep, .arg = &l };
	struct qwen_model_opts o = { .n_threads = 2, .draft = 1 };
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;
	int32_t ids[200];
	size_t i, at = 0;
	int rc;

	for (i = 0; i < 200; i++)
		ids[i] = c->tokens[i % TINY_LENGTH];
	rc = qwen_model_open(&m, c->g.path, &o, &err);
	if (rc == 0)
		rc = qwen_session_new(&s, m, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, ids, 20, NULL, &err);
	if (rc == 0)
		rc = qwen_session_trace(s, &t, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, ids + 20, 1, NULL, &err);
	ok(rc == 0 && l.n == 5 && l.e[0].position == 20, "%s: rows that were "
	    "not made yet are made for one that is told of", c->g.name);
	if (rc == 0)
		rc = qwen_session_trace(s, NULL, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, ids, 170, NULL, &err);
	if (rc == 0)
		rc = qwen_session_trace(s, &t, &err);
	if (rc == 0)
		rc = qwen_session_rewind(s, 50, 0, &at, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, ids + at, 60, NULL, &err);
	ok(at == 0 ? rc == 0 && l.n == 5 + 59 * 5 : at == 50 && rc == -1 &&
	    err.code == QWEN_EMISMATCH && l.n == 5, "%s: cut to %zu tokens: %s",
	    c->g.name, at, rc < 0 ? err.msg : "all rows");
	empty(&l);
	qwen_session_free(s);
	qwen_model_close(m);
}

static void
check_absent(const struct tiny_case *c)
{
	struct how none = { .n_threads = 1, .no_block = 1,
	    .pattern = "blk.4.mixer" };
	struct log l = { 0 };

	ok(trace(&l, c->g.path, c->tokens, TINY_LENGTH, &none, NULL) == -1 &&
	    err.code == QWEN_ERANGE && strstr(err.msg, "without") != NULL,
	    "%s: a block that is not opened: %s", c->g.name, err.msg);
	none.pattern = "*";
	ok(trace(&l, c->g.path, c->tokens, TINY_LENGTH, &none, NULL) == 0 &&
	    l.n > 0 && !has_block(&l), "%s: the others without it",
	    c->g.name);
	empty(&l);
}

/* What drafts do without is an error for who looks on. */
static void
check_broken(const struct tiny_case *c)
{
	struct how h = { .n_threads = 2, .pattern = "norm" };
	struct log l = { 0 };

	ok(trace(&l, c->g.path, c->tokens, TINY_LENGTH, &h, NULL) == 0 &&
	    l.n == TINY_LENGTH, "%s: the others", c->g.name);
	l.n = 0;
	h.pattern = "*.mixer";
	ok(trace(&l, c->g.path, c->tokens, TINY_LENGTH, &h, NULL) == -1 &&
	    err.code == QWEN_ENUMERIC && l.n == 0, "%s: %s", c->g.name,
	    err.msg);
	empty(&l);
}

static void
check(const struct tiny_case *c)
{
	check_cut(c);
	check_absent(c);
}

int
main(void)
{
	struct tiny *t = tiny_new(&tiny_shapes[1]);

	each_tiny(check);
	memcpy(tiny_tensor(t, "blk.4.attn_norm.weight")->data,
	    "\0\0\300\177", 4);	/* NaN */
	tiny_case(t, "with a broken one", 0, check_broken);
	tiny_free(t);
	return done_testing();
}
