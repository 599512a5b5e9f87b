/* SPDX-License-Identifier: ISC */
/*
 * checkpoint.c - a session that is cut at any position and continued has the
 * bits of a session that was never longer: logits, KV cache, recurrent state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "../unit/state_util.h"
#include "../tap.h"

enum { N = 120, STEP = 8, N_RANDOM = 30 };

static struct qwen_err err;

/* n tokens, read in one go and without checkpoints. */
static struct qwen_session *
cold(struct qwen_model *m, const int32_t *ids, size_t n)
{
	struct qwen_session *s;

	if (qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, ids, n, NULL, &err) < 0)
		exit(1);
	return s;
}

/* Everything that a session keeps, every lane of every block included. */
static int
same_all(const struct qwen_session *a, const struct qwen_session *b)
{
	size_t i;

	for (i = 0; i < a->mem.n_layer; i++) {
		if (a->mem.layer[i].n_block != b->mem.layer[i].n_block)
			return 0;
	}
	return same_session(a, b);
}

/* Was at the best place that the checkpoints offer? */
static int
best_cut(const struct qwen_session *s, const struct qwen_checkpoint *c,
    size_t n_c, size_t n, size_t end, int end_logits, int want, size_t at)
{
	size_t i, best = 0;

	for (i = 0; i < n_c; i++) {
		if (c[i].at < n || (c[i].at == n && (c[i].logits || !want)))
			best = (size_t)c[i].at;
	}
	if (end < n || (end == n && (end_logits || !want)))
		best = end;
	if (s->mem.recurrent_bytes == 0 && best < n)
		best = want ? n - 1 : n;
	return at == best;
}

/* Cut s to n and read other tokens from there; is it as if it was ever so? */
static int
cut_and_go(struct qwen_session *s, struct qwen_model *m, const int32_t *ids,
    size_t n, int want, size_t more)
{
	struct qwen_checkpoint c[64];
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST, .keep =
	    &(struct qwen_checkpoints){ .every = STEP } };
	size_t i, at, end = s->n_tokens, n_c = qwen_session_n_checkpoints(s);
	int logits = s->have_logits, good;
	struct qwen_session *want_s;

	for (i = 0; i < n_c; i++)
		qwen_session_checkpoint(s, i, &c[i]);
	if (qwen_session_rewind(s, n, want, &at, &err) < 0 ||
	    !best_cut(s, c, n_c, n, end, logits, want, at))
		return 0;
	if (want && at == n && n > 0 && qwen_session_logits(s) == NULL)
		return 0;
	if (qwen_session_eval(s, ids + at, n + more - at, &how, &err) < 0)
		return 0;
	want_s = cold(m, ids, n + more);
	good = same_all(want_s, s);
	qwen_session_free(want_s);
	return good;
}

static struct qwen_session *
with_checkpoints(struct qwen_model *m, const int32_t *ids, size_t n,
    enum qwen_logits logits)
{
	static const uint64_t named[] = { 1, 15, 16, 17, 33, 64, 65 };
	struct qwen_checkpoints keep = { STEP, named, 7 };
	struct qwen_eval how = { .logits = logits, .keep = &keep, .batch = 21 };
	struct qwen_session *s;

	if (qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, ids, n, &how, &err) < 0)
		exit(1);
	return s;
}

/* Each kind of position, then random ones, one after the other. */
static void
check_cuts(struct qwen_model *m, const char *name, const int32_t *ids)
{
	static const size_t at[] = { N, N - 1, 113, 112, 111, 96, 95, 66, 65,
	    64, 63, 33, 32, 31, 17, 16, 15, 9, 8, 7, 1, 0 };
	struct qwen_session *s;
	uint64_t x = 7;
	size_t i, bad = 0, n;
	int want;

	for (want = 0; want < 4; want++) {
		for (i = bad = 0; i < sizeof at / sizeof at[0]; i++) {
			s = with_checkpoints(m, ids, N, want < 2 ?
			    QWEN_LOGITS_LAST : QWEN_LOGITS_NONE);
			if (!cut_and_go(s, m, ids, at[i], want % 2, 3)) {
				printf("# cut at %zu\n", at[i]);
				bad++;
			}
			qwen_session_free(s);
		}
		ok(bad == 0, "%s: cut at %zu kinds of positions%s%s", name, i,
		    want % 2 ? ", logits wanted" : "",
		    want < 2 ? "" : ", none kept");
	}
	s = with_checkpoints(m, ids, N, QWEN_LOGITS_LAST);
	for (i = bad = 0; i < N_RANDOM; i++) {
		n = next_random(&x) % (s->n_tokens + 1);
		bad += !cut_and_go(s, m, ids, n, (int)(i % 2),
		    1 + next_random(&x) % (N - n));
	}
	ok(bad == 0, "%s: %zu random cuts, one after the other", name, i);
	qwen_session_free(s);
}

/* What is kept changes nothing of the session that keeps it. */
static void
check_kept(struct qwen_model *m, const char *name, const int32_t *ids)
{
	struct qwen_session *a = cold(m, ids, N), *b;
	struct qwen_checkpoint c;
	size_t i, n, bad = 0, named = 0;
	uint64_t last = 0;

	b = with_checkpoints(m, ids, N, QWEN_LOGITS_LAST);
	ok(same_all(a, b), "%s: the same with checkpoints", name);
	n = qwen_session_n_checkpoints(b);
	for (i = 0; i < n; i++) {
		qwen_session_checkpoint(b, i, &c);
		bad += c.at <= last || c.at >= N || !c.logits ||
		    (!c.named && c.at % STEP != 0);
		named += c.named != 0;
		last = c.at;
	}
	ok(bad == 0 && named == 7 && n > 7 && last == 112,
	    "%s: %zu of them, %zu named", name, n, named);
	qwen_session_free(a);
	qwen_session_free(b);
}

static void
check_model(const struct golden_model *g)
{
	struct qwen_model_opts o = { .n_threads = 2 };
	int32_t ids[N + 8];
	struct qwen_model *m;
	uint64_t x = 1;
	size_t i;

	if (!ok(qwen_model_open(&m, g->path, &o, &err) == 0, "%s", g->name))
		return;
	for (i = 0; i < N + 8; i++)
		ids[i] = (int32_t)(next_random(&x) % g->n_vocab);
	check_kept(m, g->name, ids);
	check_cuts(m, g->name, ids);
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
