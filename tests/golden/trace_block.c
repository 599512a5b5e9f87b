/* SPDX-License-Identifier: ISC */
/*
 * trace_block.c - the MTP block, whose values golden/trace checks: the sums
 * measured for the inputs of its matrices, and sessions and models that lack
 * what the block needs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/watch/inputs.h"
#include "trace_util.h"
#include "../tap.h"

/* ------------------------------------------------- what goes into a matrix */

/* From its column at on, are the sums of squares of a matrix those of a stage? */
static int
are_squares(const struct qwen_model *m, const char *matrix, size_t at,
    const struct log *l, const char *stage)
{
	const struct qwen_inputs *in;
	size_t i, k, n = 0;
	double *sum;
	int good;

	for (i = 0; (in = qwen_model_inputs(m, i)) != NULL; i++) {
		if (strcmp(in->name, matrix) == 0 && in->sum != NULL)
			break;
	}
	if (in == NULL || (sum = calloc(in->n_in, sizeof *sum)) == NULL)
		return 0;
	for (i = 0; i < l->n; i++) {
		if (strcmp(l->e[i].stage, stage) != 0)
			continue;
		for (k = 0, n++; k < l->e[i].n; k++)
			sum[k] += (double)l->v[l->e[i].at + k] *
			    (double)l->v[l->e[i].at + k];
	}
	good = n > 0 && in->count[0] == n && memcmp(sum, in->sum + at,
	    TINY_EMBD * sizeof *sum) == 0;
	free(sum);
	return good;
}

/* Of the ends of a block, and of the model's, which count for the trunk. */
static void
check_inputs(const struct tiny_case *c)
{
	const struct how plain = { .n_threads = 2, .pattern = "*norm" };
	struct qwen_model_opts o = { .n_threads = 2, .draft = 1 };
	struct qwen_eval how = { .batch = 7 };
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;
	struct log l = { 0 };
	int rc = trace(&l, c->g.path, c->tokens, TINY_LENGTH, &plain, NULL);

	if (rc == 0)
		rc = qwen_model_open(&m, c->g.path, &o, &err);
	if (rc == 0)
		rc = qwen_session_new(&s, m, &err);
	if (rc == 0)
		rc = qwen_model_measure_inputs(m, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, c->tokens, TINY_LENGTH, &how, &err);
	ok(rc == 0 && are_squares(m, "output.weight", 0, &l, "norm") &&
	    are_squares(m, "blk.4.nextn.eh_proj.weight", 0, &l,
	    "blk.4.nextn.enorm") &&
	    are_squares(m, "blk.4.nextn.eh_proj.weight", TINY_EMBD, &l,
	    "blk.4.nextn.hnorm") &&
	    are_squares(m, "blk.4.nextn.shared_head_head.weight", 0, &l,
	    "blk.4.nextn.shared_head_norm") == c->own_head,
	    "%s: sums of squares of what goes into its ends", c->g.name);
	empty(&l);
	qwen_session_free(s);
	qwen_model_close(m);
}

/* ------------------------------------------------------- what is not there */

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
	check_inputs(c);
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
