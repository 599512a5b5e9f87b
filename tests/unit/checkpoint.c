/* SPDX-License-Identifier: ISC */
/*
 * checkpoint.c - which checkpoints a session keeps, where the evaluation stops
 * for them, and which are dropped as they age.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state_util.h"
#include "../ref/tiny.h"
#include "../tap.h"

#define N_VOCAB 19

static const struct tiny_shape hybrid = {
	.arch = "qwen35", .n_layer = 2, .n_embd = 32, .n_vocab = N_VOCAB,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	.n_ff = 48, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .interval = 2,
};

static char path[1024];
static struct qwen_err err;

static struct qwen_model *
open_model(void)
{
	struct qwen_model_opts opts = { .n_threads = 2 };
	struct tiny *t = tiny_new(&hybrid);
	struct qwen_model *m;

	tiny_u32(t, "context_length", 4096);
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
eval_n(struct qwen_session *s, struct qwen_model *m, size_t n,
    const struct qwen_eval *how)
{
	int32_t ids[2000];
	size_t i;

	if (s == NULL && qwen_session_new(&s, m, &err) < 0)
		exit(1);
	for (i = 0; i < n; i++)
		ids[i] = (int32_t)((s->n_tokens + i) * 7 % N_VOCAB);
	if (qwen_session_eval(s, ids, n, how, &err) < 0)
		exit(1);
	return s;
}

/* "8 16* 24": positions, and which are named. */
static const char *
list(const struct qwen_session *s)
{
	static char text[4096];
	struct qwen_checkpoint c;
	size_t i, n = 0;

	text[0] = '\0';
	for (i = 0; i < qwen_session_n_checkpoints(s); i++) {
		qwen_session_checkpoint(s, i, &c);
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%llu%s",
		    i > 0 ? " " : "", (unsigned long long)c.at,
		    c.named ? "*" : "");
	}
	return text;
}

static void
is_list(const struct qwen_session *s, const char *want, const char *what)
{
	ok(strcmp(list(s), want) == 0, "%s: %s (%s)", what, list(s), want);
}

struct rows {
	size_t	 n;
	size_t	 pos;
};

static int
see(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct rows *r = arg;

	(void)logits;
	(void)e;
	r->n++;
	r->pos = pos;
	return 0;
}

static void
test_positions(struct qwen_model *m)
{
	static const uint64_t at[] = { 3, 10, 16, 30, 31, 32, 90 };
	struct qwen_checkpoints keep = { .at = at, .n_at = 7 };
	struct rows r = { 0, 0 };
	struct qwen_eval how = { .keep = &keep, .row = see, .arg = &r };
	struct qwen_session *s = eval_n(NULL, m, 40, &how);

	is_list(s, "3* 10* 16* 30* 31* 32*", "those asked for");
	ok(r.n == 1 && r.pos == 39, "one row of logits, the last");
	eval_n(s, m, 50, &how);
	is_list(s, "3* 10* 16* 30* 31* 32*", "one at the end is not yet one");
	eval_n(s, m, 1, NULL);
	is_list(s, "3* 10* 16* 30* 31* 32* 90*", "until tokens follow");
	qwen_session_free(s);
	keep = (struct qwen_checkpoints){ .every = 10, .at = at + 1,
	    .n_at = 1 };
	how.logits = QWEN_LOGITS_ALL;
	r.n = 0;
	s = eval_n(NULL, m, 35, &how);
	is_list(s, "10* 20 30", "multiples, and a name for one of them");
	ok(r.n == 35 && r.pos == 34, "all rows, each once");
	qwen_session_free(s);
	keep = (struct qwen_checkpoints){ .every = UINT64_MAX, .at = at };
	how.logits = QWEN_LOGITS_NONE;
	s = eval_n(NULL, m, 35, &how);
	is_list(s, "", "none so far away");
	qwen_session_free(s);
}

static void
test_keep(struct qwen_model *m)
{
	struct qwen_session *s;
	struct qwen_checkpoint c;
	size_t at;

	qwen_session_new(&s, m, &err);
	ok(qwen_session_keep(s, 1, &err) == 0, "nothing to keep at 0");
	eval_n(s, m, 20, NULL);
	is_list(s, "", "and nothing was kept");
	qwen_session_keep(s, 1, &err);
	qwen_session_keep(s, 0, &err);
	eval_n(s, m, 5, NULL);
	is_list(s, "20*", "a named one stays named");
	qwen_session_checkpoint(s, 0, &c);
	ok(c.logits && c.bytes == (4 * 32 * 32 + 3 * 256 + N_VOCAB) * 4,
	    "%llu bytes", (unsigned long long)c.bytes);
	ok(qwen_session_rewind(s, 22, 0, &at, &err) == 0 && at == 20 &&
	    s->n_tokens == 20, "cut to it");
	is_list(s, "", "where it is the end");
	eval_n(s, m, 10, NULL);
	is_list(s, "20*", "and then a checkpoint again");
	ok(qwen_session_rewind(s, 19, 0, &at, &err) == 0 && at == 0 &&
	    s->n_tokens == 0 && qwen_session_logits(s) == NULL,
	    "nothing before it but 0");
	ok(qwen_session_rewind(s, 0, 1, &at, &err) == 0 && at == 0,
	    "0 to 0");
	ok(qwen_session_rewind(s, 100, 1, &at, &err) == 0 && at == 0,
	    "further than the end");
	eval_n(s, m, 5, NULL);
	ok(qwen_session_rewind(s, SIZE_MAX, 1, &at, &err) == 0 && at == 5 &&
	    qwen_session_logits(s) != NULL, "the end as it is");
	eval_n(s, m, 1, NULL);
	is_list(s, "5", "is kept");
	qwen_session_keep(s, 0, &err);
	qwen_session_unkeep(s);
	eval_n(s, m, 1, NULL);
	is_list(s, "5", "one that is not to be kept is not");
	qwen_session_keep(s, 1, &err);
	qwen_session_unkeep(s);
	eval_n(s, m, 1, NULL);
	is_list(s, "5 7*", "unless it has a name");
	qwen_session_clear(s);
	is_list(s, "", "cleared");
	qwen_session_free(s);
}

/* A list of positions, without any data, up to an end. */
static struct qwen_session *
fake_list(struct qwen_model *m, const uint64_t *at, size_t n, size_t end,
    uint64_t every)
{
	struct qwen_session *s = fake_session(m, 0, 1);
	size_t i;

	for (i = 0; i < n; i++) {
		struct qwen_kept k = { .c.at = at[i] };

		qwen_session_add_kept(s, &k, &err);
	}
	s->n_tokens = end;
	s->every = every;
	return s;
}

static void
test_thin(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	uint64_t at[4000];
	struct qwen_session *s;
	char before[4096];
	size_t i, bad = 0;

	for (i = 0; i < 4000; i++)
		at[i] = 10 * (i + 1);
	s = fake_list(m, at, 4000, 40010, 10);
	s->kept[100].c.named = 1;
	qwen_session_thin(s);
	snprintf(before, sizeof before, "%s", list(s));
	ok(qwen_session_n_checkpoints(s) < 40, "4000 become %zu: %s",
	    qwen_session_n_checkpoints(s), before);
	ok(strstr(before, "1010*") != NULL &&
	    strstr(before, "39990 40000") != NULL,
	    "the named one and the last two are there");
	for (i = 0; i < s->n_kept; i++) {
		uint64_t older = i > 0 ? s->kept[i - 1].c.at : 0;
		uint64_t d = 40010 - older;

		bad += s->kept[i].c.at - older > (d / 2 > 10 ? d / 2 : 10);
	}
	ok(bad == 0, "no gap is longer than half the distance from the end");
	qwen_session_thin(s);
	ok(strcmp(before, list(s)) == 0, "thinned again: the same");
	qwen_session_free(s);
	s = fake_list(m, at, 4, 50, 1000);
	qwen_session_thin(s);
	is_list(s, "30 40", "turns of a short talk");
	qwen_session_free(s);
	s = fake_list(m, at, 0, 50, 1000);
	qwen_session_thin(s);
	is_list(s, "", "none");
	qwen_session_free(s);
	fake_model_free(m);
}

/*
 * What a plan counts is what there are at most, one at a time as tokens come;
 * named ones among them can only make others go.
 */
static void
test_most(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	size_t i, named, below = 0, other = 0;
	uint64_t x = 1, pos;

	for (i = 0; i < 400; i++) {
		uint64_t at[5], end = 1 + next_random(&x) % 3000;
		struct qwen_checkpoints keep = { 1 + next_random(&x) % 40,
		    at, i % 2 * 5 };
		struct qwen_session *s = fake_list(m, NULL, 0, 0, keep.every);
		size_t most = 0;

		for (pos = 0, named = 0; named < keep.n_at; named++)
			at[named] = pos += 1 + next_random(&x) % 500;
		for (pos = 1; pos < end; pos++) {
			struct qwen_kept k = { .c.at = pos };

			for (named = 0; named < keep.n_at; named++)
				k.c.named |= at[named] == pos;
			if (pos % keep.every != 0 && !k.c.named)
				continue;
			s->n_tokens = pos;
			qwen_session_add_kept(s, &k, &err);
			most = s->n_kept > most ? s->n_kept : most;
			qwen_session_thin(s);
		}
		below += most > qwen_checkpoints_most(&keep, end);
		other += keep.n_at == 0 &&
		    most != qwen_checkpoints_most(&keep, end);
		qwen_session_free(s);
	}
	ok(below == 0, "%zu times more than planned", below);
	ok(other == 0, "%zu times other than planned", other);
	ok(qwen_checkpoints_most(&(struct qwen_checkpoints){ .every =
	    UINT64_MAX / 4000 }, UINT64_MAX) < 220, "few of very many");
	ok(qwen_checkpoints_most(NULL, 100) == 0 &&
	    qwen_checkpoints_most(&(struct qwen_checkpoints){ .every = 0 },
	    100) == 0, "none of none");
	fake_model_free(m);
}

/* One at a time, as tokens come: the same bound. */
static void
test_growth(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_list(m, NULL, 0, 0, 4);
	size_t i, most = 0;

	for (i = 1; i < 100000; i++) {
		struct qwen_kept k = { .c.at = 4 * i };

		s->n_tokens = 4 * i;
		qwen_session_add_kept(s, &k, &err);
		qwen_session_thin(s);
		most = s->n_kept > most ? s->n_kept : most;
	}
	ok(most < 60, "%zu at most among 100,000 (%s)", most, list(s));
	qwen_session_free(s);
	fake_model_free(m);
}

static void
test_default(struct qwen_model *m)
{
	static const struct shape large = { .n_layer = 2, .n_ctx = 64,
	    .n_vocab = 3, .n_head_kv = 2, .n_embd_head = 256, .n_head_k = 16,
	    .n_head_v = 96, .dk = 128, .dv = 128, .conv_kernel = 4 };
	struct qwen_model *f = fake_model(&large, "a", "x");

	ok(qwen_model_checkpoint_every(m) == 1024, "a small model: 1024");
	/* 6.3 + 0.2 MB of state, 2 KiB a token */
	ok(qwen_model_checkpoint_every(f) == 4096, "a large one: %llu",
	    (unsigned long long)qwen_model_checkpoint_every(f));
	f->net.hp.recurrent[0] = 0;
	ok(qwen_model_checkpoint_every(f) == 0, "attention alone: 0");
	fake_model_free(f);
}

int
main(void)
{
	const char *tmp = getenv("TMPDIR");
	struct qwen_model *m;

	snprintf(path, sizeof path, "%s/checkpoint.gguf", tmp != NULL ? tmp :
	    "/tmp");
	m = open_model();
	test_positions(m);
	test_keep(m);
	test_thin();
	test_growth();
	test_most();
	test_default(m);
	qwen_model_close(m);
	return done_testing();
}
