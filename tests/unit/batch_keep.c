/* SPDX-License-Identifier: ISC */
/*
 * batch_keep.c - jobs of a server: cancelling them, keeping what they read for
 * the next turn in memory and in a store, priorities, and short pauses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "../ref/tiny.h"
#include "../tap.h"
#include "../tree.h"

enum { N_VOCAB = 19, N_CTX = 1200, MOST = 1200 };

static const struct tiny_shape hybrid = {
	.arch = "qwen35", .n_layer = 2, .n_embd = 32, .n_vocab = N_VOCAB,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	.n_ff = 48, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .interval = 2,
};

static struct qwen_err err;
static struct qwen_model *model;
static struct qwen_cache *cache;
static struct qwen_work *work;
static char dir[1024];

/* A text, what came of it, and in which order. */
struct talk {
	int32_t	 text[MOST];
	size_t	 n, n_prompt, cached;
	int	 begun, ended;
	enum qwen_job_end why;
	size_t	 first;			/* when its first token came */
	struct talk *victim;		/* cancelled with its third token */
};

static size_t events;

static void
open_model(void)
{
	struct qwen_model_opts opts = { .n_threads = 2 };
	struct tiny *t = tiny_new(&hybrid);
	char path[1100];

	snprintf(dir, sizeof dir, "%s/batch-keep-%ld",
	    getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp",
	    (long)getpid());
	snprintf(path, sizeof path, "%s.gguf", dir);
	tiny_u32(t, "context_length", N_CTX);
	tiny_write(t, path);
	tiny_free(t);
	if (qwen_model_open(&model, path, &opts, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	unlink(path);
}

static void
open_work(const struct qwen_work_opts *how, uint64_t limit)
{
	struct qwen_work_opts o = *how;

	o.model = model;
	if (qwen_cache_new(&cache, model, limit, &err) < 0)
		exit(1);
	o.cache = cache;
	if (qwen_work_new(&work, &o, &err) < 0)
		exit(1);
}

static void
close_work(void)
{
	qwen_work_free(work);
	qwen_cache_free(cache);
}

static void
on_begun(void *arg, size_t cached)
{
	struct talk *t = arg;

	t->begun++;
	t->cached = cached;
}

static int
on_token(void *arg, const struct qwen_choice *c)
{
	struct talk *t = arg;

	t->text[t->n++] = c->id;
	events++;
	if (c->n == 1)
		t->first = events;
	if (c->n == 3 && t->victim != NULL)
		qwen_work_cancel(work, t->victim);
	return 0;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	struct talk *t = arg;

	(void)e;
	t->why = why;
	t->ended++;
}

static struct qwen_job
job_of(struct talk *t, size_t max)
{
	t->n_prompt = t->n;
	t->begun = t->ended = 0;
	t->cached = t->first = 0;
	return (struct qwen_job){
		.tokens = t->text, .n = t->n, .max = max, .begun = on_begun,
		.token = on_token, .end = on_end, .arg = t,
	};
}

static int
add(struct talk *t, size_t max)
{
	struct qwen_job j = job_of(t, max);

	return qwen_work_add(work, &j, &err);
}

/* n more tokens at random of it, the same for a seed. */
static void
say(struct talk *t, size_t n, unsigned seed)
{
	unsigned x = seed * 2654435761u + 12345u;

	while (n-- > 0) {
		x = x * 1103515245u + 12345u;
		t->text[t->n++] = (int32_t)((x >> 16) % N_VOCAB);
	}
}

static int
finish(void)
{
	int r, steps = 0;

	while ((r = qwen_work_step(work, &err)) > 0 && steps < 100000)
		steps++;
	return r == 0 && qwen_work_n_jobs(work) == 0;
}

/* What was generated is what the plainest of means gives. */
static int
is_right(const struct talk *t)
{
	struct qwen_session *s;
	int32_t id;
	size_t i;
	int right = t->n > t->n_prompt;

	if (qwen_session_new(&s, model, &err) < 0 ||
	    qwen_session_eval(s, t->text, t->n_prompt, NULL, &err) < 0)
		exit(1);
	for (i = t->n_prompt; i < t->n; i++) {
		struct qwen_sample_top best;

		if (qwen_sample_top(qwen_session_logits(s), NULL, N_VOCAB,
		    N_VOCAB, &best, 1, &err) < 0)
			exit(1);
		id = best.id;
		right &= id == t->text[i];
		if (qwen_session_eval(s, &id, 1, NULL, &err) < 0)
			exit(1);
	}
	qwen_session_free(s);
	return right;
}

/* -------------------------------------------------------------- cancelling */

static void
test_cancel(void)
{
	static struct talk a, b, c;
	struct qwen_cache_usage u;
	struct qwen_work_stats st;
	int i;

	a.n = b.n = c.n = 0;
	say(&a, 40, 1);
	say(&b, 300, 2);
	say(&c, 30, 3);
	open_work(&(struct qwen_work_opts){ .n_sequences = 2, .n_pass = 64 },
	    0);
	ok(add(&a, 20) == 0 && add(&b, 20) == 0 && add(&c, 20) == 0,
	    "two jobs under way, one waits");
	for (i = 0; i < 3; i++)
		qwen_work_step(work, &err);
	ok(a.begun == 1 && b.begun == 1 && c.begun == 0 && b.n == 300,
	    "one generates, one still reads");
	ok(qwen_work_cancel(work, &b) == 1 && b.ended == 1 &&
	    b.why == QWEN_JOB_CANCELLED, "one that reads ends at once");
	ok(qwen_work_cancel(work, &c) == 1 && c.ended == 1 &&
	    c.begun == 0, "so does one that waits, and it never began");
	ok(qwen_work_cancel(work, &b) == 0 && b.ended == 1,
	    "there is nothing left to cancel");
	ok(finish() && a.ended == 1 && is_right(&a),
	    "the other one is none the worse");
	qwen_work_stats(work, &st);
	qwen_cache_usage(cache, &u);
	ok(st.cancelled == 2 && u.n_states == 0 && u.n_blocks == 0,
	    "nothing is left of them");
	close_work();
}

static void
test_cancel_within(void)
{
	static struct talk t[4];
	size_t i;
	int bad = 0;

	memset(t, 0, sizeof t);
	open_work(&(struct qwen_work_opts){ .n_sequences = 3 }, 0);
	for (i = 0; i < 4; i++) {
		say(&t[i], 20, (unsigned)i);
		t[i].victim = i == 3 ? NULL : &t[i + 1];
		bad += add(&t[i], 12) < 0;
	}
	t[2].victim = &t[2];		/* itself */
	bad += !finish();
	ok(bad == 0 && t[0].why == QWEN_JOB_LENGTH &&
	    t[1].why == QWEN_JOB_CANCELLED, "one cancels another within a step");
	ok(t[1].n <= 20 + 3 && t[2].ended == 1 && t[3].ended == 1 &&
	    is_right(&t[0]), "which takes its own with it, or not");
	ok(t[2].why == QWEN_JOB_CANCELLED && t[2].n == 23,
	    "one cancels itself, with its third token");
	ok(t[3].why == QWEN_JOB_LENGTH && is_right(&t[3]), "one is left alone");
	close_work();
}

/* ----------------------------------------------------------- conversations */

/* Turns of one conversation: all but what is new is there. */
static void
test_turns(void)
{
	static struct talk t, u;
	struct qwen_work_stats st;
	size_t had, i;
	int bad = 0;

	t.n = 0;
	open_work(&(struct qwen_work_opts){ .n_keep = 16 }, 0);
	say(&t, 200, 1);
	for (i = 0; i < 6; i++) {
		had = i > 0 ? t.n - 1 : 0;
		say(&t, 20, (unsigned)(2 + i));
		bad += add(&t, 15) < 0 || !finish() || t.cached != had ||
		    !is_right(&t);
	}
	qwen_work_stats(work, &st);
	ok(bad == 0 && st.read == 200 + 6 * 20 + 5,
	    "six turns: only what is new is read, %llu tokens",
	    (unsigned long long)st.read);
	/* the same question again: but for the last row there is no more */
	u = t;
	u.n = t.n_prompt;
	ok(add(&u, 15) == 0 && finish() && u.cached < u.n_prompt - 20 &&
	    is_right(&u), "asked again, it goes on from the turn before: %zu "
	    "of %zu tokens", u.cached, u.n_prompt);
	close_work();
}

/* Places to keep: the answer is thrown away and another question is asked. */
static void
test_places(void)
{
	static struct talk t;
	struct qwen_job j;
	size_t at[3] = { 100, 110, 160 }, kept, stored;

	t.n = 0;
	open_work(&(struct qwen_work_opts){ .n_keep = 16, .n_pass = 37 }, 0);
	say(&t, 160, 1);
	j = job_of(&t, 10);
	j.keep = at;
	j.n_keep = 3;
	ok(qwen_work_add(work, &j, &err) == 0 && finish() && is_right(&t),
	    "a prompt with places to keep");
	ok(qwen_work_cached(work, t.text, 130, &kept, &stored, &err) == 0 &&
	    kept == 100 && stored == 0, "an edit after the first goes on from "
	    "there; the second is too near");
	t.n = 160;
	ok(add(&t, 10) == 0 && finish() && t.cached == 160 && is_right(&t),
	    "the whole prompt again: all is there");
	t.text[105] = (t.text[105] + 1) % N_VOCAB;
	t.n = 140;
	ok(add(&t, 10) == 0 && finish() && t.cached == 100 && is_right(&t),
	    "edited: it costs what comes after the first place");
	j.n_keep = QWEN_JOB_KEEP_MAX + 1;
	ok(qwen_work_add(work, &j, &err) < 0, "%s", err.msg);
	close_work();
}

/* What was cancelled while it read goes on there. */
static void
test_cancelled_stays(void)
{
	static struct talk t;
	size_t had;

	t.n = 0;
	open_work(&(struct qwen_work_opts){ .n_keep = 4, .n_pass = 50 }, 0);
	say(&t, 300, 1);
	add(&t, 10);
	qwen_work_step(work, &err);
	qwen_work_step(work, &err);
	ok(qwen_work_cancel(work, &t) == 1 && t.n == 300, "cancelled");
	had = t.n;
	ok(add(&t, 10) == 0 && finish() && t.cached == 100 && had == 300 &&
	    is_right(&t), "and again: %zu tokens need not be read", t.cached);
	close_work();
}

/* Little memory: the least used goes, and no answer changes. */
static void
test_room(void)
{
	static struct talk t[6];
	struct qwen_cache_usage u;
	struct qwen_work_stats st;
	uint64_t limit = qwen_cache_need(model, 200) * 3;
	size_t i, k;
	int bad = 0;

	memset(t, 0, sizeof t);
	open_work(&(struct qwen_work_opts){ .n_keep = 64 }, limit);
	for (i = 0; i < 6; i++)
		say(&t[i], 100, (unsigned)i);
	for (k = 0; k < 4; k++) {
		for (i = 0; i < 6; i++) {
			say(&t[i], 5, (unsigned)(k * 6 + i));
			bad += add(&t[i], 4) < 0 || !finish() ||
			    !is_right(&t[i]);
		}
		/* the last one twice, so that it is there */
		say(&t[5], 5, (unsigned)k);
		bad += add(&t[5], 4) < 0 || !finish() || t[5].cached == 0;
	}
	qwen_work_stats(work, &st);
	qwen_cache_usage(cache, &u);
	ok(bad == 0, "with room for three, six conversations go on");
	ok(u.used <= limit && st.max_bytes <= limit && st.n_kept < 24,
	    "within the limit, %llu kept", (unsigned long long)st.n_kept);
	close_work();
}

/* ------------------------------------------------------------------- store */

static struct qwen_store *
open_store(void)
{
	struct qwen_store_opts o = { .dir = dir };
	struct qwen_store *s;

	if (qwen_store_open(&s, &o, &err) < 0)
		exit(1);
	return s;
}

static void
test_store(void)
{
	static struct talk t;
	struct qwen_store *store = open_store();
	size_t had, kept, stored;
	int n = 0, r;

	t.n = 0;
	open_work(&(struct qwen_work_opts){ .n_keep = 4, .store = store }, 0);
	say(&t, 120, 1);
	add(&t, 10);
	finish();
	qwen_work_cached(work, t.text, t.n, &kept, &stored, &err);
	ok(kept == t.n - 1 && stored == 0, "it stays in memory");
	while ((r = qwen_work_store(work, &err)) > 0)
		n++;
	qwen_work_cached(work, t.text, t.n, &kept, &stored, &err);
	ok(r == 0 && n == 1 && kept == t.n - 1 && stored == t.n - 1,
	    "when there is time it goes to the store too");
	close_work();
	had = t.n - 1;
	say(&t, 20, 2);
	open_work(&(struct qwen_work_opts){ .n_keep = 4, .store = store }, 0);
	ok(add(&t, 10) == 0 && finish() && t.cached == had && is_right(&t),
	    "another process goes on from there: %zu tokens", t.cached);
	close_work();
	/* one that has to leave memory goes there by itself */
	t.n = 0;
	say(&t, 120, 7);
	open_work(&(struct qwen_work_opts){ .n_sequences = 1, .n_keep = 1,
	    .store = store }, 0);
	for (n = 0; n < 10; n++) {
		t.n = 0;
		say(&t, 50, (unsigned)(70 + n));
		add(&t, 3);
		finish();
	}
	t.n = 0;
	say(&t, 50, 70);
	qwen_work_cached(work, t.text, t.n + 1, &kept, &stored, &err);
	ok(kept == 0 && stored == 0, "of the text alone nothing is there");
	add(&t, 3);
	finish();
	qwen_work_cached(work, t.text, t.n, &kept, &stored, &err);
	ok(stored == t.n - 1, "what left memory is in the store: %zu", stored);
	close_work();
	qwen_store_close(store);
	remove_tree(dir);
}

/* ---------------------------------------------------- who goes first; pauses */

static void
test_priority(void)
{
	static struct talk t[4];
	struct qwen_job j;
	size_t i;
	int bad = 0;

	memset(t, 0, sizeof t);
	open_work(&(struct qwen_work_opts){ .n_sequences = 1 }, 0);
	for (i = 0; i < 4; i++) {
		say(&t[i], 20, (unsigned)i);
		j = job_of(&t[i], 3);
		j.priority = i == 2 ? 1 : i == 1 ? -1 : 0;
		bad += qwen_work_add(work, &j, &err) < 0;
	}
	bad += !finish();
	ok(bad == 0 && t[2].first < t[0].first && t[0].first < t[3].first &&
	    t[3].first < t[1].first, "the highest first, then the oldest");
	for (i = 0; i < 4; i++)
		bad += !is_right(&t[i]);
	ok(bad == 0, "each as it is alone");
	close_work();
}

/* A long prompt beside one who generates. */
static uint64_t
passes(double pause_s, int *bad)
{
	static struct talk a, b;
	struct qwen_work_stats st;
	size_t before;

	a.n = b.n = 0;
	say(&a, 10, 1);
	say(&b, 1000, 2);
	open_work(&(struct qwen_work_opts){ .pause_s = pause_s,
	    .n_pass = 512 }, 0);
	*bad += add(&a, 100) < 0;
	qwen_work_step(work, &err);
	*bad += add(&b, 1) < 0;
	before = a.n;
	while (b.n == 1000)
		*bad += qwen_work_step(work, &err) != 1;
	/* a got a token with each of them */
	before = a.n - before;
	*bad += !finish() || !is_right(&a) || !is_right(&b);
	qwen_work_stats(work, &st);
	close_work();
	return before;
}

static void
test_pause(void)
{
	int bad = 0;
	uint64_t some = passes(0, &bad), many = passes(1e-9, &bad),
	    few = passes(3600, &bad);

	ok(some <= 3, "1000 tokens are read in %llu passes",
	    (unsigned long long)some);
	ok(many >= 30, "where none may take long in %llu",
	    (unsigned long long)many);
	ok(few <= 6, "where they may in %llu", (unsigned long long)few);
	ok(bad == 0, "and the tokens are the same");
}

/* A short prompt that comes after a long one. */
static void
test_short(void)
{
	static struct talk a, b;
	int steps = 0, r = 1;

	a.n = b.n = 0;
	say(&a, 1000, 1);
	say(&b, 30, 2);
	open_work(&(struct qwen_work_opts){ .pause_s = 1e-9 }, 0);
	add(&a, 3);
	qwen_work_step(work, &err);
	add(&b, 3);
	while (b.n == 30 && (r = qwen_work_step(work, &err)) == 1)
		steps++;
	ok(r == 1 && steps <= 4 && a.n == 1000,
	    "a short prompt is read beside a long one, in %d passes", steps);
	ok(finish() && is_right(&a) && is_right(&b), "both are right");
	close_work();
}

int
main(void)
{
	open_model();
	test_cancel();
	test_cancel_within();
	test_turns();
	test_places();
	test_cancelled_stays();
	test_room();
	test_store();
	test_priority();
	test_pause();
	test_short();
	qwen_model_close(model);
	return done_testing();
}
