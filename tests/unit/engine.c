/* SPDX-License-Identifier: ISC */
/*
 * engine.c - requests to an engine and its events: they can be written and read
 * back, in pieces of any size, and errors name the invalid part.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "wire/engine.h"
#include "wire/put.h"
#include "../tap.h"

enum { N_VOCAB = 100 };

static struct qwen_err err;

/* ---------------------------------------------------------------- requests */

static int
same_bytes(const void *a, const void *b, size_t n)
{
	return (a == NULL) == (b == NULL) && (a == NULL ||
	    memcmp(a, b, n) == 0);
}

static int
same_order(const struct qwen_engine_request *a,
    const struct qwen_engine_request *b)
{
	return a->kind == b->kind && strcmp(a->id, b->id) == 0 &&
	    a->n == b->n && same_bytes(a->tokens, b->tokens, a->n * 4) &&
	    a->max == b->max && a->from == b->from &&
	    a->logprobs == b->logprobs && a->n_top == b->n_top &&
	    a->n_grammar == b->n_grammar &&
	    same_bytes(a->grammar, b->grammar, a->n_grammar) &&
	    (a->sampling == NULL) == (b->sampling == NULL) &&
	    (a->sampling == NULL || strcmp(a->sampling, b->sampling) == 0) &&
	    a->n_ending == b->n_ending &&
	    same_bytes(a->ending, b->ending, a->n_ending * 4) &&
	    a->n_logits == b->n_logits &&
	    (a->logits == NULL) == (b->logits == NULL) &&
	    same_bytes(a->logits, b->logits, a->n_logits * 4) &&
	    a->n_mask == b->n_mask &&
	    same_bytes(a->mask, b->mask, a->n_mask * 4) &&
	    a->n_bias == b->n_bias &&
	    same_bytes(a->bias_ids, b->bias_ids, a->n_bias * 4) &&
	    same_bytes(a->bias, b->bias, a->n_bias * 4) &&
	    a->n_keep == b->n_keep &&
	    memcmp(a->keep, b->keep, a->n_keep * sizeof *a->keep) == 0 &&
	    a->priority == b->priority && a->deadline_ms == b->deadline_ms &&
	    a->progress == b->progress && a->n_spans == b->n_spans &&
	    same_bytes(a->spans, b->spans, a->n_spans * sizeof *a->spans) &&
	    a->n_rows == b->n_rows && same_bytes(a->rows, b->rows,
	    a->n_rows * sizeof *a->rows) &&
	    a->hello.has_vocab == b->hello.has_vocab &&
	    memcmp(&a->hello.vocab, &b->hello.vocab,
	    sizeof a->hello.vocab) == 0;
}

static int32_t ids[] = { 5, 0, 99, 7 };
static int32_t none[1];
static float bias[] = { 1.5f, -100 };
static int32_t rows_ids[] = { 5, -77, -3, INT32_MIN, -9, 6 };
static float rows[] = { 1, -2, 0.5f, 3 };
static struct qwen_span_rows spans[] = { { { .start = 1, .n = 4, .height = 2,
    .width = 2, .hash = { { 9, 8, 7, [12] = 0xff } } }, NULL } };
static char sampling[] = "temp=0.7 seed=12", grammar[] = "root ::= \"\xc3\xa4\"";

static const struct qwen_engine_request orders[] = {
	{ .kind = QWEN_ENGINE_HELLO },
	{ .kind = QWEN_ENGINE_HELLO, .hello = { .has_vocab = 1,
	    .vocab = { { 1, 2, 0xff } } } },
	{ .kind = QWEN_ENGINE_GENERATE, .id = "a", .tokens = ids, .n = 4,
	    .max = 1 },
	{ .kind = QWEN_ENGINE_GENERATE, .id = "\xc3\xa4 b", .tokens = ids,
	    .n = 4, .max = UINT64_MAX, .logprobs = 1, .n_top = 64,
	    .sampling = sampling, .grammar = grammar, .n_grammar = 13,
	    .ending = none, .n_ending = 0, .mask = ids, .n_mask = 2,
	    .bias_ids = ids, .bias = bias, .n_bias = 2, .keep = { 1, 4 },
	    .n_keep = 2, .priority = 1000, .deadline_ms = UINT32_MAX,
	    .progress = 1 },
	{ .kind = QWEN_ENGINE_SCORE, .id = "s", .tokens = ids, .n = 4,
	    .from = 3, .logprobs = 1 },
	{ .kind = QWEN_ENGINE_HIDDEN, .id = "h", .tokens = ids, .n = 4 },
	{ .kind = QWEN_ENGINE_HIDDEN, .id = "l", .tokens = ids, .n = 4,
	    .from = 3, .logits = ids, .n_logits = 2 },
	{ .kind = QWEN_ENGINE_HIDDEN, .id = "k", .tokens = ids, .n = 4,
	    .from = 3, .logits = none },
	{ .kind = QWEN_ENGINE_GENERATE, .id = "i", .tokens = rows_ids, .n = 6,
	    .max = 1, .spans = spans, .n_spans = 1, .rows = rows, .n_rows = 4 },
	{ .kind = QWEN_ENGINE_CANCEL, .id = "a" },
	{ .kind = QWEN_ENGINE_CACHED, .id = "c", .tokens = rows_ids, .n = 3 },
	{ .kind = QWEN_ENGINE_STATS, .id = "x" },
};

enum { N_ORDERS = sizeof orders / sizeof orders[0] };

/* All of them in one stream, which comes in pieces of so many bytes. */
static void
test_orders(size_t piece)
{
	struct qwen_text t = { 0 };
	struct qwen_inbox in = { 0 };
	const unsigned char *p;
	struct qwen_engine_request o;
	unsigned char *to;
	size_t i, n, room, at = 0, got = 0, bad = 0;
	int rc;

	for (i = 0; i < N_ORDERS; i++)
		qwen_engine_request_encode(&orders[i], &t, 0);
	while (at < t.n) {
		n = t.n - at < piece ? t.n - at : piece;
		to = qwen_inbox_reserve(&in, &room);
		n = n < room ? n : room;
		memcpy(to, t.s + at, n);
		qwen_inbox_added(&in, n);
		at += n;
		while ((rc = qwen_inbox_next(&in, QWEN_ENGINE_MAX, &p, &n,
		    &err)) > 0 && got < N_ORDERS) {
			bad += qwen_engine_request_decode(&o, p, n, N_VOCAB,
			    &err) < 0 || !same_order(&o, &orders[got]);
			got++;
			qwen_engine_request_fini(&o);
		}
		bad += rc < 0;
	}
	ok(got == N_ORDERS && bad == 0,
	    "%zu requests in pieces of %zu bytes, %zu bad", got, piece, bad);
	qwen_inbox_fini(&in);
	qwen_text_fini(&t);
}

/* The rows of two spans, each with its own, are those of both in a list. */
static void
test_rows(void)
{
	struct qwen_span_rows two[] = { spans[0], spans[0] };
	float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
	struct qwen_engine_request o = { .kind = QWEN_ENGINE_GENERATE,
	    .id = "r", .tokens = rows_ids, .n = 6, .max = 1, .spans = two,
	    .n_spans = 2, .rows = x, .n_rows = 16 };
	int json;

	for (json = 0; json < 2; json++) {
		struct qwen_text t[2] = { { 0 }, { 0 } };

		two[0].rows = two[1].rows = NULL;
		o.rows = x;
		qwen_engine_request_encode(&o, &t[0], json);
		o.rows = NULL;
		two[0].rows = x;
		two[1].rows = x + 8;
		qwen_engine_request_encode(&o, &t[1], json);
		ok(t[0].n == t[1].n && memcmp(t[0].s, t[1].s, t[0].n) == 0,
		    "rows of spans, %s", json ? "JSON" : "CBOR");
		qwen_text_fini(&t[0]);
		qwen_text_fini(&t[1]);
	}
}

static void
test_lines(void)
{
	static const char text[] = "{}\n\n{\"a\":1}\nrest";
	static const size_t want[] = { 2, 0, 7 };
	struct qwen_inbox in = { 0 };
	const unsigned char *p;
	size_t i, n, room, got = 0, bad = 0;
	int rc;

	for (i = 0; i < sizeof text - 1; i++) {
		*qwen_inbox_reserve(&in, &room) = (unsigned char)text[i];
		qwen_inbox_added(&in, 1);
		while ((rc = qwen_inbox_line(&in, 8, &p, &n, &err)) > 0)
			bad += got >= 3 || n != want[got++];
		bad += rc < 0;
	}
	ok(got == 3 && bad == 0 && in.end - in.start == 4,
	    "lines, and what is left");
	for (i = 0; i < 6 && rc == 0; i++) {
		*qwen_inbox_reserve(&in, &room) = 'x';
		qwen_inbox_added(&in, 1);
		rc = qwen_inbox_line(&in, 8, &p, &n, &err);
	}
	ok(rc < 0 && i == 5, "one that is too long: %s", err.msg);
	qwen_inbox_fini(&in);
}

/* ---------------------------------------------------------------- what is bad */

/* A request of keys that the caller puts; what is wrong with it. */
static void
refused(struct qwen_text *t, const char *id, const char *say)
{
	struct qwen_engine_request o;
	int rc = qwen_engine_request_decode(&o, (const unsigned char *)t->s,
	    t->n,
	    N_VOCAB, &err);

	ok(rc < 0 && strcmp(o.id, id) == 0 && strstr(err.msg, say) != NULL,
	    "refused: %s", rc < 0 ? err.msg : "it was not");
	qwen_engine_request_fini(&o);
	t->n = 0;
}

static void
begin(struct qwen_put *p, const char *id)
{
	qwen_put_begin(p);
	qwen_put_text(p, "id", id, strlen(id));
}

static void
test_bad_orders(void)
{
	struct qwen_text t = { 0 };
	struct qwen_put p = { .t = &t };
	static int32_t out[] = { 5, N_VOCAB }, down[] = { 3, 2 };
	static float inf[] = { 1, 1.0f / 0.0f };
	struct qwen_engine_request o = orders[2];
	char id[QWEN_ENGINE_ID + 2] = "";

	begin(&p, "a");
	qwen_put_ids(&p, "tokens", out, 2);
	qwen_put_uint(&p, "max", 1);
	qwen_put_end(&p);
	refused(&t, "a", "outside the vocabulary");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 2);
	qwen_put_end(&p);
	refused(&t, "a", "give exactly one of max, score and hidden");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 2);
	qwen_put_uint(&p, "max", 0);
	qwen_put_end(&p);
	refused(&t, "a", "max must be at least 1");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 2);
	qwen_put_uint(&p, "score", 2);
	qwen_put_end(&p);
	refused(&t, "a", "score is 2");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 2);
	qwen_put_uint(&p, "max", 3);
	qwen_put_uint(&p, "colour", 3);
	qwen_put_end(&p);
	refused(&t, "a", "unknown key \"colour\"");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 2);
	qwen_put_text(&p, "max", "3", 1);
	qwen_put_end(&p);
	refused(&t, "a", "\"max\" is not a whole number");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 4);
	qwen_put_uint(&p, "max", 3);
	qwen_put_ids(&p, "keep", down, 2);
	qwen_put_end(&p);
	refused(&t, "a", "positions must ascend");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 4);
	qwen_put_uint(&p, "max", 3);
	qwen_put_ids(&p, "bias_ids", ids, 2);
	qwen_put_row(&p, "bias", inf, 2);
	qwen_put_end(&p);
	refused(&t, "a", "bias 1 is not finite");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 4);
	qwen_put_uint(&p, "max", 3);
	qwen_put_text(&p, "grammar", "\xff", 1);
	qwen_put_end(&p);
	refused(&t, "a", "grammar is not UTF-8");
	begin(&p, "a");
	qwen_put_ids(&p, "tokens", ids, 4);
	qwen_put_uint(&p, "max", 3);
	qwen_put_uint(&p, "progress", 2);
	qwen_put_end(&p);
	refused(&t, "a", "progress is 2");
	begin(&p, "a");
	qwen_put_text(&p, "cancel", "a", 1);
	qwen_put_end(&p);
	refused(&t, "a", "is not allowed with");
	memset(id, 'x', QWEN_ENGINE_ID + 1);
	begin(&p, id);
	qwen_put_ids(&p, "tokens", ids, 4);
	qwen_put_uint(&p, "max", 3);
	qwen_put_end(&p);
	refused(&t, "", "an id must be 1 to");
	o.id[0] = '\0';
	qwen_engine_request_encode(&o, &t, 0);
	refused(&t, "", "an id must be 1 to");
	qwen_put_begin(&p);
	qwen_put_end(&p);
	refused(&t, "", "one of the keys");
	qwen_put_begin(&p);
	qwen_put_uint(&p, "qwen", 2);
	qwen_put_text(&p, "kind", "requests", 8);
	qwen_put_end(&p);
	refused(&t, "", "version 2");
	qwen_text_fini(&t);
}

/* ------------------------------------------------------------------ events */

static float row[] = { 1.25f, -3, 0 };

static const struct qwen_event events[] = {
	{ .kind = QWEN_EVENT_HELLO, .hello = { .has_vocab = 1, .has_model = 1,
	    .n_vocab = 7, .vocab = { { 1 } }, .model = { { 2 } },
	    .numerics = 1, .n_ctx = 9, .n_embd = 3, .n_sequences = 4,
	    .n_eog = 2, .eog = { 5, 6 } } },
	{ .kind = QWEN_EVENT_STARTED, .id = "a", .n_prompt = 9,
	    .n_cached = 8 },
	{ .kind = QWEN_EVENT_TOKEN, .id = "a", .token = 5 },
	{ .kind = QWEN_EVENT_TOKEN, .id = "a", .token = 0, .has_logprob = 1,
	    .logprob = -0.1, .n_top = 2, .top_ids = { 5, 6 },
	    .top_logprobs = { -0.1, -1e-300 } },
	{ .kind = QWEN_EVENT_SCORE, .id = "s", .at = 3, .has_logprob = 1,
	    .logprob = -2.0 / 3, .rank = 17 },
	{ .kind = QWEN_EVENT_HIDDEN, .id = "h", .at = 1, .row = row,
	    .n_row = 3 },
	{ .kind = QWEN_EVENT_END, .id = "a", .why = "ending", .n_prompt = 9,
	    .n_cached = 8, .n_tokens = UINT64_MAX },
	{ .kind = QWEN_EVENT_END, .id = "a", .why = "failed",
	    .error = "failed", .message = "no room: \"\\ \n" },
	{ .kind = QWEN_EVENT_CACHED, .id = "c", .n_prompt = 1, .n_cached = 2,
	    .n_stored = 3 },
	{ .kind = QWEN_EVENT_STATS, .id = "x", .stat = { 1, 2, 3, 4, 5 } },
	{ .kind = QWEN_EVENT_ERROR, .error = "bad", .message = "worse" },
	{ .kind = QWEN_EVENT_HELLO, .hello = { .has_vocab = 1, .has_model = 1,
	    .n_vocab = 7, .numerics = 2, .k = QWEN_KV_Q8_0,
	    .tells_progress = 1 } },
	{ .kind = QWEN_EVENT_PROGRESS, .id = "a", .n_prompt = 9, .n_read = 7 },
};

static int
same_event(const struct qwen_event *a, const struct qwen_event *b)
{
	struct qwen_event x = *a, y = *b;
	int same = same_bytes(x.row, y.row, x.n_row * sizeof *x.row);

	x.row = y.row = NULL;
	return same && memcmp(&x.hello, &y.hello, sizeof x.hello) == 0 &&
	    x.kind == y.kind && strcmp(x.id, y.id) == 0 &&
	    x.n_prompt == y.n_prompt && x.n_cached == y.n_cached &&
	    x.n_stored == y.n_stored && x.n_tokens == y.n_tokens &&
	    x.n_read == y.n_read &&
	    x.token == y.token && x.has_logprob == y.has_logprob &&
	    memcmp(&x.logprob, &y.logprob, sizeof x.logprob) == 0 &&
	    x.at == y.at && x.rank == y.rank && x.n_top == y.n_top &&
	    memcmp(x.top_ids, y.top_ids, sizeof x.top_ids) == 0 &&
	    memcmp(x.top_logprobs, y.top_logprobs,
	    sizeof x.top_logprobs) == 0 && x.n_row == y.n_row &&
	    strcmp(x.why, y.why) == 0 && strcmp(x.error, y.error) == 0 &&
	    strcmp(x.message, y.message) == 0 &&
	    memcmp(x.stat, y.stat, sizeof x.stat) == 0;
}

static void
test_events(void)
{
	struct qwen_text t = { 0 };
	struct qwen_event e;
	size_t i, n, bad = 0, torn = 0;

	for (i = 0; i < sizeof events / sizeof events[0]; i++) {
		t.n = 0;
		qwen_event_encode(&events[i], &t, 0);
		bad += qwen_event_decode(&e, (unsigned char *)t.s, t.n,
		    &err) < 0 || !same_event(&e, &events[i]);
		qwen_event_fini(&e);
		/* no prefix of a record is one */
		for (n = 0; n < t.n; n++) {
			torn += qwen_event_decode(&e, (unsigned char *)t.s, n,
			    &err) == 0;
			qwen_event_fini(&e);
		}
	}
	ok(bad == 0 && torn == 0, "events are read back, and no part of one");
	qwen_text_fini(&t);
}

/* Whether an engine with these tells how far reading is. */
static int
features(const char *words)
{
	struct qwen_text t = { 0 };
	struct qwen_put p = { .t = &t };
	struct qwen_fp fp = { { 1 } };
	struct qwen_event e;
	int rc;

	qwen_put_begin(&p);
	qwen_put_uint(&p, "qwen", 1);
	qwen_put_text(&p, "kind", "events", 6);
	qwen_put_uint(&p, "n_vocab", 7);
	qwen_put_fp(&p, "vocabulary", &fp);
	qwen_put_fp(&p, "model", &fp);
	qwen_put_uint(&p, "numerics", 1);
	qwen_put_text(&p, "features", words, strlen(words));
	qwen_put_end(&p);
	rc = qwen_event_decode(&e, (unsigned char *)t.s, t.n, &err);
	qwen_event_fini(&e);
	qwen_text_fini(&t);
	return rc == 0 && e.hello.tells_progress;
}

/* A later engine says more. */
static void
test_later(void)
{
	struct qwen_text t = { 0 };
	struct qwen_put p = { .t = &t };
	struct qwen_event e;

	begin(&p, "a");
	qwen_put_uint(&p, "token", 3);
	qwen_put_ids(&p, "guessed", ids, 3);
	qwen_put_end(&p);
	ok(qwen_event_decode(&e, (unsigned char *)t.s, t.n, &err) == 0 &&
	    e.kind == QWEN_EVENT_TOKEN && e.token == 3,
	    "a key that is not known is passed over in events");
	qwen_event_fini(&e);
	t.n = 0;
	begin(&p, "a");
	qwen_put_uint(&p, "colour", 3);
	qwen_put_end(&p);
	ok(qwen_event_decode(&e, (unsigned char *)t.s, t.n, &err) < 0,
	    "an event of no known kind is not: %s", err.msg);
	qwen_event_fini(&e);
	ok(features("progress") && features("colour progress") &&
	    features("progress colour") && !features("") &&
	    !features("progressive") && !features("in-progress"),
	    "of the features of a later engine, those that are known");
	qwen_text_fini(&t);
}

static void
test_json(void)
{
	struct qwen_text t = { 0 };

	qwen_event_encode(&events[3], &t, 1);
	ok(t.s != NULL && strcmp(t.s, "{\"id\":\"a\",\"token\":0,\"logprob\":"
	    "-0.10000000000000001,\"top_ids\":[5,6],\"top_logprobs\":"
	    "[-0.10000000000000001,-1e-300]}\n") == 0,
	    "an event as a line: %s", t.s);
	t.n = 0;
	qwen_engine_request_encode(&orders[5], &t, 1);
	ok(strcmp(t.s, "{\"id\":\"h\",\"tokens\":[5,0,99,7],\"hidden\":0}\n")
	    == 0, "a request as a line: %s", t.s);
	qwen_text_fini(&t);
}

int
main(void)
{
	test_orders(1);
	test_orders(3);
	test_orders(4096);
	test_rows();
	test_lines();
	test_bad_orders();
	test_events();
	test_later();
	test_json();
	return done_testing();
}
