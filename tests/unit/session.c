/* SPDX-License-Identifier: ISC */
/*
 * session.c - a session and its limits: ids outside the vocabulary, more tokens
 * than the context, callbacks that stop, sessions after an error.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/timeline/timeline.h"
#include "../ref/tiny.h"
#include "../tap.h"

#define N_VOCAB 19
#define N_CTX 40

static const struct tiny_shape hybrid = {
	.arch = "qwen35", .n_layer = 2, .n_embd = 32, .n_vocab = N_VOCAB,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	.n_ff = 48, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .interval = 2,
};

static char path[1024];
static struct qwen_err err;

static struct qwen_model *
open_model(uint32_t n_ctx)
{
	struct qwen_model_opts opts = { .n_threads = 2 };
	struct tiny *t = tiny_new(&hybrid);
	struct qwen_model *m;

	tiny_u32(t, "context_length", n_ctx);
	tiny_write(t, path);
	tiny_free(t);
	if (qwen_model_open(&m, path, &opts, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	unlink(path);
	return m;
}

static struct qwen_session *
new_session(struct qwen_model *m)
{
	struct qwen_session *s;

	if (qwen_session_new(&s, m, &err) < 0)
		exit(1);
	return s;
}

static int32_t
id(size_t i)
{
	return (int32_t)(i * 7 % N_VOCAB);
}

static int
eval_some(struct qwen_session *s, size_t n, const struct qwen_eval *how)
{
	int32_t ids[200];
	size_t i, at = qwen_session_n_tokens(s);

	for (i = 0; i < n; i++)
		ids[i] = id(at + i);
	memset(&err, 0, sizeof err);
	return qwen_session_eval(s, ids, n, how, &err);
}

/* Same tokens, same logits, same bits after one more? */
static int
same(struct qwen_session *a, struct qwen_session *b)
{
	const size_t bytes = N_VOCAB * sizeof(float);
	size_t n = qwen_session_n_tokens(a);

	return n == qwen_session_n_tokens(b) &&
	    (n == 0 || memcmp(qwen_session_tokens(a), qwen_session_tokens(b),
	    n * sizeof(int32_t)) == 0) &&
	    eval_some(a, 1, NULL) == 0 && eval_some(b, 1, NULL) == 0 &&
	    memcmp(qwen_session_logits(a), qwen_session_logits(b), bytes) == 0;
}

static void
bad_ids(struct qwen_model *m)
{
	static const int32_t bad[] = { -1, N_VOCAB, INT32_MAX, INT32_MIN };
	struct qwen_session *s = new_session(m), *clean = new_session(m);
	float before[N_VOCAB];
	size_t i;

	eval_some(s, 5, NULL);
	eval_some(clean, 5, NULL);
	memcpy(before, qwen_session_logits(s), sizeof before);
	for (i = 0; i < 4; i++) {
		int32_t ids[3] = { 1, 2, bad[i] };
		char want[32];

		snprintf(want, sizeof want, "token %d ", (int)bad[i]);
		memset(&err, 0, sizeof err);
		ok(qwen_session_eval(s, ids, 3, NULL, &err) == -1 &&
		    err.code == QWEN_ERANGE && strstr(err.msg, want) != NULL,
		    "%s", err.msg);
	}
	ok(qwen_session_n_tokens(s) == 5 && qwen_session_logits(s) != NULL &&
	    memcmp(before, qwen_session_logits(s), sizeof before) == 0 &&
	    same(s, clean), "and nothing has changed");
	qwen_session_free(s);
	qwen_session_free(clean);
}

static void
full_context(struct qwen_model *m)
{
	struct qwen_session *s = new_session(m), *clean = new_session(m);

	ok(qwen_model_n_ctx(m) == N_CTX, "a context of %d", N_CTX);
	ok(eval_some(s, N_CTX + 1, NULL) == -1 && err.code == QWEN_ERANGE &&
	    qwen_session_n_tokens(s) == 0, "one too many: %s", err.msg);
	ok(eval_some(s, N_CTX - 1, NULL) == 0, "one less");
	ok(eval_some(s, 2, NULL) == -1 && err.code == QWEN_ERANGE &&
	    qwen_session_n_tokens(s) == N_CTX - 1, "then two: %s", err.msg);
	eval_some(clean, N_CTX - 1, NULL);
	ok(same(s, clean) && qwen_session_n_tokens(s) == N_CTX,
	    "then the last");
	ok(eval_some(s, 1, NULL) == -1 && err.code == QWEN_ERANGE &&
	    qwen_session_logits(s) != NULL, "full, and usable: %s", err.msg);
	ok(eval_some(s, 0, NULL) == 0 && qwen_session_logits(s) != NULL,
	    "no token at all is fine");
	qwen_session_free(s);
	qwen_session_free(clean);
}

/* ---- callbacks */

struct log {
	size_t	 n_row, stop_at, first, last;
	size_t	 done, total, n_progress;
	size_t	 within, n_within;
	int	 disorder;
	float	 row[N_VOCAB];
};

static int
see_row(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct log *l = arg;

	if (l->n_row == 0)
		l->first = pos;
	else
		l->disorder |= pos != l->last + 1;
	l->last = pos;
	memcpy(l->row, logits, sizeof l->row);
	if (++l->n_row == l->stop_at) {
		e->code = QWEN_EPIPE;
		snprintf(e->msg, sizeof e->msg, "enough");
		return -1;
	}
	return 0;
}

static void
see_progress(void *arg, size_t done, size_t total)
{
	struct log *l = arg;

	l->disorder |= done <= l->done || done > total;
	l->done = done;
	l->total = total;
	l->n_progress++;
}

static void
see_within(void *arg, size_t done, size_t total)
{
	struct log *l = arg;

	l->disorder |= l->n_progress > 0 || done < l->within ||
	    done >= total || total != 20;
	l->within = done;
	l->n_within++;
}

static void
within(struct qwen_model *m)
{
	struct log l = { 0 };
	struct qwen_eval how = { .progress = see_progress,
	    .within = see_within, .arg = &l };
	struct qwen_session *s = new_session(m);

	ok(eval_some(s, 20, &how) == 0 && !l.disorder && l.n_within ==
	    qwen_model_n_layer(m) - 1 && l.done == 20 && l.n_progress == 1,
	    "within a pass, after each layer but the last: %zu of %zu",
	    l.n_within, qwen_model_n_layer(m));
	qwen_session_free(s);
}

static void
rows(struct qwen_model *m)
{
	struct log l = { 0 };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = see_row,
	    .progress = see_progress, .arg = &l, .batch = 7 };
	struct qwen_session *s = new_session(m);

	eval_some(s, 3, NULL);
	ok(eval_some(s, 20, &how) == 0 && l.n_row == 20 && l.first == 3 &&
	    l.last == 22 && !l.disorder, "a row for each token, in order");
	ok(l.done == 20 && l.total == 20 && l.n_progress == 3,
	    "progress for each batch");
	ok(memcmp(l.row, qwen_session_logits(s), sizeof l.row) == 0,
	    "the last row stays");
	memset(&l, 0, sizeof l);
	how.logits = QWEN_LOGITS_LAST;
	ok(eval_some(s, 10, &how) == 0 && l.n_row == 1 && l.first == 32 &&
	    memcmp(l.row, qwen_session_logits(s), sizeof l.row) == 0,
	    "one row");
	memset(&l, 0, sizeof l);
	how.logits = QWEN_LOGITS_NONE;
	ok(eval_some(s, 2, &how) == 0 && l.n_row == 0 &&
	    qwen_session_logits(s) == NULL, "no row, no logits");
	qwen_session_free(s);
	s = new_session(m);
	ok(qwen_session_logits(s) == NULL, "no logits before the first token");
	memset(&l, 0, sizeof l);
	l.stop_at = 12;
	how.logits = QWEN_LOGITS_ALL;
	ok(eval_some(s, 20, &how) == -1 && l.n_row == 12 &&
	    err.code == QWEN_EPIPE && strcmp(err.msg, "enough") == 0,
	    "a callback that stops: %s", err.msg);
	ok(qwen_session_logits(s) == NULL, "and then no logits");
	qwen_session_free(s);
}

static void
clear_and_reserve(struct qwen_model *m)
{
	struct qwen_session *s = new_session(m), *clean = new_session(m);

	eval_some(s, 33, NULL);
	qwen_session_clear(s);
	ok(qwen_session_n_tokens(s) == 0 && qwen_session_logits(s) == NULL,
	    "cleared");
	ok(eval_some(s, 20, NULL) == 0 && eval_some(clean, 20, NULL) == 0 &&
	    same(s, clean), "and as good as new");
	ok(qwen_session_reserve(s, N_CTX + 1, &err) == -1 &&
	    err.code == QWEN_ERANGE, "no room for more than the context");
	ok(qwen_session_reserve(s, N_CTX, &err) == 0 && same(s, clean),
	    "room for all of it");
	qwen_session_free(s);
	qwen_session_free(clean);
	qwen_session_free(NULL);
}

/* A context of 2^30 is a promise, not a reason to allocate. */
static void
large_context(void)
{
	struct qwen_model *m = open_model(1u << 30);
	struct qwen_session *s = new_session(m);

	ok(qwen_model_n_ctx(m) == 1u << 30 && eval_some(s, 3, NULL) == 0,
	    "a context of 2^30 %s", err.msg);
	qwen_session_free(s);
	qwen_model_close(m);
}

/* ---- the model */

static void
options(void)
{
	struct qwen_model_opts opts = { .cpu = "sse" };
	struct tiny *t = tiny_new(&hybrid);
	struct qwen_model *m;
	char text[2048], part[10];
	size_t n;

	tiny_write(t, path);
	tiny_free(t);
	ok(qwen_model_open(&m, path, &opts, &err) == -1 && m == NULL &&
	    err.code == QWEN_ERANGE, "%s", err.msg);
	opts = (struct qwen_model_opts){ .n_threads = 1 << 20 };
	ok(qwen_model_open(&m, path, &opts, &err) == -1 && m == NULL &&
	    err.code == QWEN_ERANGE, "%s", err.msg);
	ok(qwen_cpu_check("sse") == -1 && qwen_cpu_check("") == -1 &&
	    qwen_cpu_check("scalar") == 1, "levels");
	ok(qwen_model_open(&m, path, NULL, &err) == 0 &&
	    qwen_model_n_threads(m) >= 1, "no options");
	n = qwen_model_describe(m, text, sizeof text);
	ok(n == strlen(text) && strstr(text, "matmul.F32") != NULL &&
	    qwen_model_describe(m, NULL, 0) == n &&
	    qwen_model_describe(m, part, sizeof part) == n &&
	    strlen(part) == sizeof part - 1 &&
	    memcmp(part, text, sizeof part - 1) == 0,
	    "its description, whole and cut off");
	ok(strcmp(qwen_model_arch(m), "qwen35") == 0 &&
	    qwen_model_n_layer(m) == 2 && qwen_model_n_vocab(m) == N_VOCAB,
	    "what it is");
	qwen_model_close(m);
	qwen_model_close(NULL);
	unlink(path);
	ok(qwen_model_open(&m, path, NULL, &err) == -1 && m == NULL &&
	    err.code == QWEN_EIO, "%s", err.msg);
}

int
main(void)
{
	const char *tmp = getenv("TMPDIR");
	struct qwen_model *m;

	snprintf(path, sizeof path, "%s/session.gguf", tmp != NULL ? tmp :
	    "/tmp");
	m = open_model(N_CTX);
	bad_ids(m);
	full_context(m);
	rows(m);
	within(m);
	clear_and_reserve(m);
	qwen_model_close(m);
	large_context();
	options();
	return done_testing();
}
