/* SPDX-License-Identifier: ISC */
/*
 * spans.c - rows instead of tokens, as those of images: however they are
 * cut, batched, saved, restored and forked, and on whatever device, a session
 * has the same bits; other rows have other ids, and share nothing.
 *
 * ../shared/fixtures/vision has texts with images, and the logits that
 * PyTorch's float32 gave.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/timeline/session.h"
#include "golden.h"
#include "qwen/quant.h"
#include "../unit/state_util.h"
#include "../unit/store_util.h"
#include "../tap.h"

enum { N = 41, N_SPANS = 2 };

static struct qwen_err err;

/* A text with two spans. */
struct text {
	int32_t			 ids[N];
	struct qwen_span_rows	 spans[N_SPANS];
	float			*rows;
};

/* Writes the ids of the spans into the text. */
static void
put_ids(int32_t *ids, const struct qwen_span_rows *spans, size_t n)
{
	size_t i, k;

	for (k = 0; k < n; k++) {
		for (i = 0; i < spans[k].span.n; i++)
			ids[spans[k].span.start + i] =
			    qwen_span_id(&spans[k].span, i);
	}
}

/* Makes a text whose spans have grids if the model knows positions for them. */
static void
text_make(struct text *t, const struct qwen_model *m, unsigned char hash)
{
	static const struct qwen_span spans[N_SPANS] = {
		{ .start = 5, .n = 6, .height = 2, .width = 3 },
		{ .start = 13, .n = 20, .height = 5, .width = 4 } };
	size_t i, n_row = qwen_model_n_row(m);
	uint64_t x = hash + 1u;

	t->rows = qwen_alloc(26 * n_row, sizeof *t->rows);
	for (i = 0; i < 26 * n_row; i++)
		t->rows[i] = (float)((int)(next_random(&x) % 2001) - 1000) *
		    0x1p-14f;
	for (i = 0; i < N; i++)
		t->ids[i] = (int32_t)(3 + i * 7 % 90);
	for (i = 0; i < N_SPANS; i++) {
		struct qwen_span *p = &t->spans[i].span;

		*p = spans[i];
		memset(&p->hash, hash + (int)i, sizeof p->hash);
		if (m->net.hp.rope_section[0] == 0)
			p->height = p->width = 0;
		t->spans[i].rows = t->rows + (i > 0 ? 6 * n_row : 0);
	}
	put_ids(t->ids, t->spans, N_SPANS);
}

/* Reads tokens from .. to - 1 of the text. */
static int
read_part(struct qwen_session *s, const struct text *t, size_t from, size_t to)
{
	struct qwen_eval how = { .spans = t->spans, .n_spans = N_SPANS };

	return from == to ? 0 : qwen_session_eval(s, t->ids + from, to - from,
	    &how, &err);
}

static struct qwen_session *
read_text(struct qwen_model *m, const struct text *t, size_t n)
{
	struct qwen_session *s;

	if (qwen_session_new(&s, m, &err) < 0)
		abort();
	if (read_part(s, t, 0, n) < 0)
		printf("# %s\n", err.msg);
	return s;
}

struct drafts { int32_t id[3]; float prob[3]; };

/* Asks the MTP block of a fork: drafts leave keys and values behind. */
static size_t
draft(const struct qwen_session *s, struct drafts *d)
{
	struct qwen_session *fork;
	size_t n;

	memset(d, 0, sizeof *d);
	if (qwen_session_fork(&fork, s, &err) < 0 ||
	    qwen_session_draft(fork, 7, 3, d->id, d->prob, &n, &err) < 0)
		abort();
	qwen_session_free(fork);
	return n;
}

/* Does an MTP block, if there is one, say the same after both? */
static int
same_drafts(const struct qwen_session *a, const struct qwen_session *b)
{
	size_t n = qwen_model_has_mtp(qwen_session_model(a)) ? 3 : 0;
	struct drafts x, y;

	return draft(a, &x) == n && draft(b, &y) == n &&
	    memcmp(&x, &y, sizeof x) == 0;
}

/*
 * Do two sessions have the same tokens, spans, memory, logits and drafts, with all
 * rows of the MTP block?
 */
static int
same(struct qwen_session *a, struct qwen_session *b)
{
	size_t n, k;
	const struct qwen_span *p = qwen_session_spans(a, &n);
	const struct qwen_span *q = qwen_session_spans(b, &k);

	if (qwen_model_has_mtp(qwen_session_model(a)) &&
	    (qwen_session_mtp_ready(a) < 0 || qwen_session_mtp_ready(b) < 0))
		abort();
	return n == k && (n == 0 || memcmp(p, q, n * sizeof *p) == 0) &&
	    same_session(a, b) && same_drafts(a, b);
}

/* ------------------------------------------------------------ the same bits */

static void
check_cuts(struct qwen_model *m, const char *name, const struct text *t,
    struct qwen_session *whole)
{
	struct qwen_session *s, *fork, *again;
	size_t i, bad[5] = { 0 }, at;
	struct bytes b = { 0 };
	int form;

	for (i = 1; i < N; i++) {
		s = read_text(m, t, i);
		if (qwen_session_fork(&fork, s, &err) < 0)
			abort();
		for (form = 0; form < 2; form++) {
			b.n = 0;
			save_bytes(&b, s, NULL, form, NULL);
			if (load_bytes(&again, NULL, m, b.p, b.n, NULL,
			    &err) < 0) {
				bad[form]++;
				continue;
			}
			bad[form] += !same(s, again) ||
			    read_part(again, t, i, N) < 0 ||
			    !same(whole, again);
			qwen_session_free(again);
		}
		bad[2] += read_part(s, t, i, N) < 0 || !same(whole, s);
		bad[3] += read_part(fork, t, i, N) < 0 || !same(whole, fork);
		if (qwen_session_rewind(s, i, 0, &at, &err) < 0)
			abort();
		bad[4] += read_part(s, t, at, N) < 0 || !same(whole, s);
		qwen_session_free(s);
		qwen_session_free(fork);
	}
	ok(bad[2] == 0, "%s: read in two parts, cut anywhere: %zu differ",
	    name, bad[2]);
	ok(bad[0] + bad[1] == 0, "%s: by way of a state, cut anywhere: %zu "
	    "and %zu differ", name, bad[0], bad[1]);
	ok(bad[3] == 0, "%s: by a fork: %zu differ", name, bad[3]);
	ok(bad[4] == 0, "%s: rewound and read again: %zu differ", name, bad[4]);
	bytes_free(&b);
}

static void
check_batch(struct qwen_model *m, const char *name, const struct text *t,
    struct qwen_session *whole)
{
	static const int32_t plain[9] = { 9, 8, 7, 6, 5, 4, 3, 2, 1 };
	struct qwen_session *alone, *s[3];
	struct qwen_part part[3];
	struct qwen_cache *c;
	size_t i;

	if (qwen_session_new(&alone, m, &err) < 0 ||
	    qwen_session_eval(alone, plain, 9, NULL, &err) < 0 ||
	    qwen_cache_new(&c, m, 0, &err) < 0)
		abort();
	for (i = 0; i < 3; i++) {
		if (qwen_session_new_in(&s[i], c, &err) < 0)
			abort();
		part[i] = (struct qwen_part){ .s = s[i], .tokens = t->ids,
		    .n = N, .spans = t->spans, .n_spans = N_SPANS };
	}
	part[1] = (struct qwen_part){ .s = s[1], .tokens = plain, .n = 9 };
	ok(qwen_eval_parts(part, 3, &err) == 0 && same(whole, s[0]) &&
	    same(alone, s[1]) && same(whole, s[2]),
	    "%s: in one pass with others", name);
	for (i = 0; i < 3; i++)
		qwen_session_free(s[i]);
	qwen_session_free(alone);
	qwen_cache_free(c);
}

static void
check_store(struct qwen_model *m, const char *name, const struct text *t,
    struct qwen_session *whole)
{
	const char *dir = store_dir();
	struct warnings w;
	struct qwen_store *st = open_store(dir, 0, &w);
	struct qwen_session *s;
	struct text other;
	size_t i, have, bad = 0, most = 0;

	text_make(&other, m, 77);
	for (i = 4; i <= N; i++) {
		s = read_text(m, t, i);
		bad += qwen_store_insert(st, s, &err) < 0;
		qwen_session_free(s);
		if (qwen_store_restore(st, &s, m, t->ids, N, &err) < 0 ||
		    s == NULL) {
			bad++;
			continue;
		}
		have = qwen_session_n_tokens(s);
		bad += read_part(s, t, have, N) < 0 || !same(whole, s);
		qwen_session_free(s);
		if (qwen_store_restore(st, &s, m, other.ids, N, &err) == 0 &&
		    s != NULL) {
			have = qwen_session_n_tokens(s);
			most = have > most ? have : most;
			qwen_session_free(s);
		}
	}
	ok(bad == 0 && w.n == 0, "%s: from the store: %zu differ", name, bad);
	ok(most == 5, "%s: a text with other rows shares the first 5 tokens, "
	    "not %zu", name, most);
	free(other.rows);
	qwen_store_close(st);
	remove_tree(dir);
}

/* Generates a few tokens; the callback of a job. */
struct reply {
	int32_t	ids[8];
	size_t	n;
};

static int
on_token(void *arg, const struct qwen_choice *c)
{
	struct reply *r = arg;

	r->ids[r->n++] = c->id;
	return 0;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	(void)arg;
	if (why == QWEN_JOB_FAILED)
		printf("# %s\n", e->msg);
}

static void
check_work(struct qwen_model *m, const char *name, const struct text *t)
{
	struct reply got[3] = { { .n = 0 } }, want = { .n = 0 };
	struct qwen_session *s = read_text(m, t, N);
	size_t i, k, n_vocab = qwen_model_n_vocab(m);
	struct qwen_work *w;
	struct qwen_cache *c;

	for (i = 0; i < 6; i++) {
		const float *row = qwen_session_logits(s);

		for (k = want.ids[i] = 0; k < n_vocab; k++) {
			if (row[k] > row[want.ids[i]])
				want.ids[i] = (int32_t)k;
		}
		if (qwen_session_eval(s, &want.ids[i], 1, NULL, &err) < 0)
			abort();
	}
	if (qwen_cache_new(&c, m, 0, &err) < 0 || qwen_work_new(&w,
	    &(struct qwen_work_opts){ .model = m, .cache = c }, &err) < 0)
		abort();
	for (i = 0; i < 3; i++) {
		struct qwen_job job = { .tokens = t->ids, .n = N, .max = 6,
		    .spans = t->spans, .n_spans = N_SPANS, .token = on_token,
		    .end = on_end, .arg = &got[i] };

		if (qwen_work_add(w, &job, &err) < 0)
			printf("# %s\n", err.msg);
	}
	while (qwen_work_step(w, &err) > 0)
		;
	for (i = k = 0; i < 3; i++)
		k += got[i].n != 6 || memcmp(got[i].ids, want.ids, 24) != 0;
	ok(k == 0, "%s: three jobs with the same spans generate the same: %zu "
	    "do not", name, k);
	qwen_work_free(w);
	qwen_cache_free(c);
	qwen_session_free(s);
}

static void
check_plain(const char *path, const char *name, const struct text *t,
    struct qwen_session *whole)
{
	struct qwen_model_opts o = { .n_threads = 1, .device = "plain",
	    .draft = 1 };
	struct qwen_session *s;
	struct qwen_model *m;

	if (qwen_model_open(&m, path, &o, &err) < 0)
		abort();
	s = read_text(m, t, N);
	ok(memcmp(qwen_session_logits(whole), qwen_session_logits(s),
	    qwen_model_n_vocab(m) * sizeof(float)) == 0 &&
	    same_drafts(whole, s),
	    "%s: the same logits and drafts on the device plain", name);
	qwen_session_free(s);
	qwen_model_close(m);
}

/* Rows that are the embeddings of tokens act as these tokens. */
static void
check_embeddings(struct qwen_model *m, const char *name)
{
	const struct qwen_weight *w = &m->net.token_embd;
	size_t i, n_embd = qwen_model_n_embd(m), n_row = qwen_model_n_row(m);
	float *rows = qwen_alloc(8 * n_row, sizeof *rows);
	struct qwen_span_rows span = { { .start = 2, .n = 8 }, rows };
	struct qwen_eval how = { .spans = &span, .n_spans = 1 };
	struct qwen_session *a, *b;
	int32_t ids[12], with[12];

	for (i = 0; i < 12; i++)
		with[i] = ids[i] = (int32_t)(20 + 3 * i);
	for (i = 0; i < 8; i++)
		qwen_quant_dequantize(w->quant->type, w->data +
		    (size_t)ids[2 + i] * w->row_bytes, rows + i * n_row,
		    n_embd, &err);
	put_ids(with, &span, 1);
	if (qwen_session_new(&a, m, &err) < 0 ||
	    qwen_session_new(&b, m, &err) < 0 ||
	    qwen_session_eval(a, ids, 12, NULL, &err) < 0 ||
	    qwen_session_eval(b, with, 12, &how, &err) < 0)
		abort();
	ok(memcmp(qwen_session_logits(a), qwen_session_logits(b),
	    qwen_model_n_vocab(m) * sizeof(float)) == 0 && same_drafts(a, b),
	    "%s: the embeddings of tokens in a line act as the tokens", name);
	qwen_session_free(a);
	qwen_session_free(b);
	free(rows);
}

/* ----------------------------------------------------------------- refusals */

/* Expects a failure of this code that leaves the session as it was. */
static void
refuse(struct qwen_session *s, const int32_t *ids, size_t n,
    const struct qwen_span_rows *spans, size_t n_spans, int code,
    const char *what)
{
	struct qwen_eval how = { .spans = spans, .n_spans = n_spans };
	size_t before = qwen_session_n_tokens(s), k;

	qwen_session_spans(s, &k);
	ok(qwen_session_eval(s, ids, n, &how, &err) < 0 && err.code == code &&
	    qwen_session_n_tokens(s) == before, "%s: %s", what, err.msg);
}

static void
check_refusals(struct qwen_model *m, const struct text *t,
    struct qwen_session *whole)
{
	struct qwen_session *s = read_text(m, t, 8);
	struct qwen_span_rows p[N_SPANS];
	const int32_t text[2] = { 3, 4 };

	memcpy(p, t->spans, sizeof p);
	refuse(s, text, 2, NULL, 0, QWEN_EMISMATCH, "text within a span");
	refuse(s, t->ids + 8, 3, NULL, 0, QWEN_ERANGE, "ids without a span");
	refuse(s, t->ids + 9, 3, p, 2, QWEN_EMISMATCH, "ids of other rows");
	p[0].rows = NULL;
	refuse(s, t->ids + 8, 3, p, 2, QWEN_EMISMATCH, "no rows");
	p[0] = t->spans[0];
	p[0].span.hash.b[3] ^= 1;
	refuse(s, t->ids + 8, 3, p, 2, QWEN_EMISMATCH, "another hash");
	p[0] = t->spans[0];
	p[0].span.n = 7;
	refuse(s, t->ids + 8, 3, p, 2, p[0].span.width > 0 ? QWEN_ERANGE :
	    QWEN_EMISMATCH, "another number of rows");
	p[0] = t->spans[1];
	p[1] = t->spans[0];
	refuse(s, t->ids + 8, 3, p, 2, QWEN_ERANGE, "spans that descend");
	p[0] = t->spans[0];
	p[0].span.n = UINT64_MAX - 4;
	p[0].span.height = p[0].span.width = 0;
	refuse(s, t->ids + 8, 3, p, 1, QWEN_ERANGE, "more rows than a context");
	ok(read_part(s, t, 8, N) == 0 && same(whole, s),
	    "and the session goes on as if nothing had been");
	qwen_session_free(s);
}

static void
check_model(const struct golden_model *g)
{
	struct qwen_model_opts o = { .n_threads = 2, .draft = 1 };
	struct qwen_session *whole;
	struct qwen_model *m;
	struct text t;

	if (!ok(qwen_model_open(&m, g->path, &o, &err) == 0, "%s", g->name))
		return;
	text_make(&t, m, 1);
	whole = read_text(m, &t, N);
	ok(qwen_session_logits(whole) != NULL, "%s: a text with spans",
	    g->name);
	check_cuts(m, g->name, &t, whole);
	check_batch(m, g->name, &t, whole);
	check_store(m, g->name, &t, whole);
	check_work(m, g->name, &t);
	check_plain(g->path, g->name, &t, whole);
	check_embeddings(m, g->name);
	check_refusals(m, &t, whole);
	qwen_session_free(whole);
	free(t.rows);
	qwen_model_close(m);
}

/* ------------------------------------------------------- texts with images */

#define VISION "../shared/fixtures/vision/"

static float *
floats(const char *dir, const char *name, size_t n)
{
	float *x = qwen_alloc(n, sizeof *x);
	char path[200];
	FILE *f;

	snprintf(path, sizeof path, VISION "%s/%s", dir, name);
	if ((f = fopen(path, "rb")) == NULL || fread(x, sizeof *x, n, f) != n)
		abort();
	fclose(f);
	return x;
}

struct rows {
	const float	*want;
	size_t		 n_vocab;
	double		 worst;
	size_t		 n;
};

static int
on_row(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct rows *r = arg;
	size_t i;

	(void)e;
	for (i = 0; i < r->n_vocab; i++)
		r->worst = fmax(r->worst, fabs((double)logits[i] -
		    (double)r->want[pos * r->n_vocab + i]));
	r->n++;
	return 0;
}

/* The text and grids of ids.json. */
static void
check_vision(const char *dir)
{
	int32_t ids[36] = { 5, 9, 17, 252, 0, 0, 0, 0, 0, 0, 253, 30, 31, 252,
	    [29] = 253, 30, 31, 40, 41, 42, 43 };
	struct qwen_span_rows spans[2] = {
		{ { .start = 4, .n = 6, .height = 2, .width = 3,
		    .hash.b = { 1 } }, NULL },
		{ { .start = 14, .n = 15, .height = 3, .width = 5,
		    .hash.b = { 2 } }, NULL } };
	struct qwen_model_opts o = { .n_threads = 2, .k = QWEN_KV_OWN,
	    .v = QWEN_KV_OWN };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = on_row,
	    .spans = spans, .n_spans = 2 };
	struct rows r = { .n_vocab = 256 };
	float *file[3];
	struct qwen_session *s;
	struct qwen_model *m;
	char path[100];

	snprintf(path, sizeof path, VISION "%s/text.gguf", dir);
	if (access(path, R_OK) < 0) {
		skip("logits of texts with images", path);
		return;
	}
	if (!ok(qwen_model_open(&m, path, &o, &err) == 0, "%s", path))
		return;
	file[0] = floats(dir, "embd-0.f32", 6 * qwen_model_n_row(m));
	file[1] = floats(dir, "embd-1.f32", 15 * qwen_model_n_row(m));
	file[2] = floats(dir, "logits.f32", 36 * r.n_vocab);
	spans[0].rows = file[0];
	spans[1].rows = file[1];
	r.want = file[2];
	put_ids(ids, spans, 2);
	how.arg = &r;
	if (qwen_session_new(&s, m, &err) < 0)
		abort();
	if (qwen_session_eval(s, ids, 36, &how, &err) < 0)
		printf("# %s\n", err.msg);
	ok(r.n == 36 && r.worst < 1e-4, "%s, two images between text: logits "
	    "of %zu rows are at most %.2g from PyTorch's", dir, r.n, r.worst);
	free(file[0]);
	free(file[1]);
	free(file[2]);
	qwen_session_free(s);
	qwen_model_close(m);
}

int
main(void)
{
	static const struct golden_model deep = { .name = "qwen3vl",
	    .path = VISION "qwen3_vl/text.gguf" };
	static struct golden_model *g;	/* until the end */
	size_t i, n = golden_load(&g), tried = 0;

	for (i = 0; i < n; i++) {
		if (strcmp(g[i].name, "qwen3") != 0 &&
		    strcmp(g[i].name, "qwen35moe-spec") != 0 &&
		    strcmp(g[i].name, "qwen35moe-mtp") != 0 &&
		    strcmp(g[i].name, "qwen35-tied") != 0 &&
		    strcmp(g[i].name, "qwen35moe-ud") != 0)
			continue;
		check_model(&g[i]);
		tried++;
	}
	ok(tried >= 3, "%zu models", tried);
	golden_free(g, n);
	if (access(deep.path, R_OK) == 0)
		check_model(&deep);
	else
		skip("a model with deepstack", deep.path);
	check_vision("qwen3_5");
	check_vision("qwen3_vl");
	return done_testing();
}
