/* SPDX-License-Identifier: ISC */
/*
 * hidden.c - hidden states: the head makes the logits from them, with the same
 * bits alone and beside other sessions; and the outputs of a classifier.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/quant/quant.h"
#include "../ref/tiny.h"
#include "../tap.h"

enum { N_VOCAB = 19, N_EMBD = 32, N_CTX = 120, N_TEXTS = 40, MOST = 120 };

static const struct tiny_shape hybrid = {
	.arch = "qwen35", .n_layer = 2, .n_embd = N_EMBD, .n_vocab = N_VOCAB,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	.n_ff = 48, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .interval = 2,
};

static const struct tiny_shape dense = {
	.arch = "qwen3", .n_layer = 2, .n_embd = N_EMBD, .n_vocab = N_VOCAB,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_ff = 48,
};

static struct qwen_err err;
static struct qwen_model *model;
static char path[1024];

struct text {
	int32_t	 id[MOST];
	size_t	 n, from, next;
	float	 want[MOST][N_EMBD], got[MOST][N_EMBD];
	int	 ended, disorder;
	enum qwen_job_end why;
};

static struct text text[N_TEXTS];

/* Numbers that are the same every time. */
static unsigned
draw(unsigned n)
{
	static unsigned x = 4711;

	x = x * 1103515245u + 12345u;
	return (x >> 16) % n;
}

static void
must(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s\n", err.msg);
	exit(1);
}

static void
open_model(const struct tiny_shape *shape)
{
	struct qwen_model_opts opts = { .n_threads = 2 };
	struct tiny *t = tiny_new(shape);

	tiny_u32(t, "context_length", N_CTX);
	tiny_add(t, "cls.output.weight", QT_F16, N_EMBD, 2, 1, 0, 0.1);
	tiny_add(t, "cls.output.bias", QT_F32, 2, 1, 1, 0.5, 0);
	tiny_write(t, path);
	tiny_free(t);
	must(qwen_model_open(&model, path, &opts, &err));
	unlink(path);
}

/* ------------------------------------------------------------------- alone */

static int
keep(void *arg, size_t pos, const float *row, struct qwen_err *e)
{
	float (*to)[N_EMBD] = arg;

	(void)e;
	memcpy(to[pos], row, sizeof *to);
	return 0;
}

static void
read_alone(struct text *t, size_t batch)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .hidden = 1,
	    .batch = batch, .row = keep, .arg = t->want };
	struct qwen_session *s;

	must(qwen_session_new(&s, model, &err));
	must(qwen_session_eval(s, t->id, t->n, &how, &err));
	if (qwen_session_logits(s) != NULL)
		exit(1);
	qwen_session_free(s);
}

static void
make_texts(void)
{
	size_t i, k, same;

	for (i = 0; i < N_TEXTS; i++) {
		struct text *t = &text[i];

		same = i % 4 != 0 ? 17 + draw(40) : 0;
		t->n = same + 1 + draw(MOST - 60);
		for (k = 0; k < t->n; k++)
			t->id[k] = k < same && k < text[i / 4 * 4].n ?
			    text[i / 4 * 4].id[k] : (int32_t)draw(N_VOCAB);
		/* the last, as embeddings have it; all; some */
		t->from = i % 3 == 0 ? 0 : i % 3 == 1 ? t->n - 1 :
		    draw((unsigned)t->n);
		read_alone(t, i % 2 * 7);
	}
	/* one within another */
	text[2].n = text[1].n / 2 + 1;
	memcpy(text[2].id, text[1].id, sizeof text[2].id);
	text[2].from = text[2].n - 1;
	read_alone(&text[2], 0);
}

/* -------------------------------------------------------------- in company */

static void
on_hidden(void *arg, size_t at, const float *x)
{
	struct text *t = arg;

	t->disorder += at != t->next++;
	if (at < MOST)
		memcpy(t->got[at], x, sizeof t->got[at]);
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	struct text *t = arg;

	(void)e;
	t->why = why;
	t->ended++;
}

static int
on_token(void *arg, const struct qwen_choice *c)
{
	(void)c;
	++*(size_t *)arg;
	return 0;
}

static void
on_other_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	(void)arg;
	(void)why;
	(void)e;
}

static int
add(struct qwen_work *w, struct text *t)
{
	struct qwen_job j = { .tokens = t->id, .n = t->n, .from = t->from,
	    .hidden = on_hidden, .end = on_end, .arg = t };

	t->next = t->from;
	t->ended = t->disorder = 0;
	memset(t->got, 0, sizeof t->got);
	return qwen_work_add(w, &j, &err);
}

static int
is_wrong(const struct text *t)
{
	return t->ended != 1 || t->why != QWEN_JOB_LENGTH || t->disorder ||
	    t->next != t->n || memcmp(t->got[t->from], t->want[t->from],
	    (t->n - t->from) * sizeof t->got[0]) != 0;
}

/* All texts, and others between them that generate from the same. */
static int
read_all(uint64_t limit, size_t n_sequences, size_t n_pass,
    struct qwen_store *store, struct qwen_work_stats *st)
{
	struct qwen_work_opts o = { .model = model, .n_pass = n_pass,
	    .n_sequences = n_sequences, .store = store };
	struct qwen_work *w;
	size_t i, chosen = 0;
	int bad = 0, rc;

	must(qwen_cache_new(&o.cache, model, limit, &err));
	must(qwen_work_new(&w, &o, &err));
	for (i = 0; i < N_TEXTS; i++) {
		struct qwen_job j = { .tokens = text[i].id, .n = text[i].n,
		    .max = 3, .token = on_token, .end = on_other_end,
		    .arg = &chosen };

		must(add(w, &text[i]));
		if (i % 5 == 0 && text[i].n < N_CTX)
			must(qwen_work_add(w, &j, &err));
	}
	while ((rc = qwen_work_step(w, &err)) > 0)
		;
	must(rc);
	for (i = 0; i < N_TEXTS; i++)
		bad += is_wrong(&text[i]);
	qwen_work_stats(w, st);
	bad += st->chosen != chosen || chosen == 0;
	qwen_work_free(w);
	qwen_cache_free(o.cache);
	return bad;
}

static void
test_store(const char *what)
{
	struct qwen_store_opts o = { 0 };
	struct qwen_work_stats st;
	struct qwen_store *store;
	char dir[1200], cmd[1300];
	int i, bad;

	snprintf(dir, sizeof dir, "%s.store", path);
	o.dir = dir;
	must(qwen_store_open(&store, &o, &err));
	for (i = 1; i <= 2; i++) {
		bad = read_all(0, 0, 0, store, &st);
		ok(bad == 0 && (i == 1 || st.stored > 0), "%s: with a store, "
		    "time %d, %llu from there: the same bits", what, i,
		    (unsigned long long)st.stored);
	}
	qwen_store_close(store);
	snprintf(cmd, sizeof cmd, "rm -r '%s'", dir);
	ok(system(cmd) == 0, "%s: the store can go", what);
}

static void
test_company(const char *what)
{
	uint64_t most = qwen_cache_need(model, N_CTX);
	struct qwen_work_stats st;
	int bad;

	make_texts();
	ok(read_all(0, 1, 0, NULL, &st) == 0, "%s: one after another", what);
	bad = read_all(0, 0, 0, NULL, &st);
	ok(bad == 0 && st.shared > 0, "%s: all at once, %llu tokens shared: "
	    "the same bits", what, (unsigned long long)st.shared);
	ok(read_all(0, 5, 3, NULL, &st) == 0,
	    "%s: 3 tokens a pass: the same bits", what);
	bad = read_all(most, 0, 40, NULL, &st);
	ok(bad == 0 && st.preempted > 0, "%s: %llu times one made room: the "
	    "same bits", what, (unsigned long long)st.preempted);
}

static void
test_refused(void)
{
	struct qwen_cache *c;
	struct qwen_work_opts o = { .model = model };
	struct qwen_job j = { .tokens = text[0].id, .n = N_CTX,
	    .from = N_CTX - 1, .hidden = on_hidden, .end = on_end,
	    .arg = &text[0] };
	struct qwen_work *w;
	int32_t more[N_CTX + 1] = { 0 };

	must(qwen_cache_new(&c, model, 0, &err));
	o.cache = c;
	must(qwen_work_new(&w, &o, &err));
	j.tokens = more;
	ok(qwen_work_add(w, &j, &err) == 0, "a text as long as the context");
	j.n++;
	ok(qwen_work_add(w, &j, &err) < 0, "but not longer: %s", err.msg);
	j.n = j.from;
	ok(qwen_work_add(w, &j, &err) < 0, "nothing after the end: %s",
	    err.msg);
	qwen_work_free(w);
	qwen_cache_free(c);
}

/* ---------------------------------------------------- what is made of them */

static void
test_rows(const char *what)
{
	const struct text *t = &text[0];
	struct qwen_session *s;
	int32_t ids[3] = { 7, 0, N_VOCAB - 1 }, none = N_VOCAB;
	float got[3], cls[2];
	const float *row;
	double worst = 0, d;
	size_t i;

	must(qwen_session_new(&s, model, &err));
	must(qwen_session_eval(s, t->id, t->n, NULL, &err));
	row = qwen_session_logits(s);
	must(qwen_model_logits(model, t->want[t->n - 1], ids, 3, got, &err));
	for (i = 0; i < 3; i++) {
		d = fabs((double)got[i] - (double)row[ids[i]]);
		worst = d > worst ? d : worst;
	}
	ok(worst < 1e-4, "%s: logits of three tokens, %g off", what, worst);
	ok(qwen_model_logits(model, t->want[0], &none, 1, got, &err) < 0,
	    "%s: of one that is none: %s", what, err.msg);
	must(qwen_model_classify(model, t->want[0], cls, &err));
	ok(qwen_model_n_classes(model) == 2 && cls[0] != cls[1],
	    "%s: two classes, %g and %g", what, (double)cls[0],
	    (double)cls[1]);
	qwen_session_free(s);
}

static void
test_model(const struct tiny_shape *shape)
{
	open_model(shape);
	ok(qwen_model_n_embd(model) == N_EMBD, "%s: %d numbers", shape->arch,
	    N_EMBD);
	test_company(shape->arch);
	test_store(shape->arch);
	test_rows(shape->arch);
	test_refused();
	qwen_model_close(model);
}

/* One infinity among the weights of the last norm. */
static void
test_not_finite(void)
{
	static const unsigned char inf[] = { 0, 0, 0x80, 0x7f };
	struct tiny *t = tiny_new(&dense);
	struct qwen_session *s;
	struct qwen_eval how = { .hidden = 1 };
	int32_t id = 1;

	memcpy(tiny_tensor(t, "output_norm.weight")->data + 8, inf, 4);
	tiny_write(t, path);
	tiny_free(t);
	must(qwen_model_open(&model, path, NULL, &err));
	unlink(path);
	ok(qwen_model_n_classes(model) == 0 && qwen_model_classify(model,
	    text[0].want[0], text[0].want[0], &err) < 0 &&
	    err.code == QWEN_EUNSUP, "a model without classes: %s", err.msg);
	must(qwen_session_new(&s, model, &err));
	ok(qwen_session_eval(s, &id, 1, &how, &err) < 0 &&
	    err.code == QWEN_ENUMERIC, "an infinity is refused: %s", err.msg);
	qwen_session_free(s);
	qwen_model_close(model);
}

int
main(void)
{
	snprintf(path, sizeof path, "%s/hidden-%ld.gguf",
	    getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp",
	    (long)getpid());
	test_model(&dense);
	test_model(&hybrid);
	test_not_finite();
	return done_testing();
}
