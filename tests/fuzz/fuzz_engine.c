/* SPDX-License-Identifier: ISC */
/*
 * fuzz_engine.c - any bytes as requests to an engine, and as events from one:
 * accepted ones keep the promises of wire/engine.h, and can be written and read
 * back.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 4096 };

static void
check_ids(const int32_t *ids, size_t n)
{
	size_t i;

	for (i = 0; ids != NULL && i < n; i++) {
		if (ids[i] < 0 || ids[i] >= N_VOCAB)
			abort();
	}
}

static void
check_order(const struct qwen_engine_request *o)
{
	size_t i;

	check_ids(o->tokens, o->n);
	check_ids(o->ending, o->n_ending);
	check_ids(o->mask, o->n_mask);
	check_ids(o->bias_ids, o->n_bias);
	for (i = 0; i < o->n_bias; i++) {
		if (!(o->bias[i] - o->bias[i] == 0))
			abort();
	}
	for (i = 0; i < o->n_keep; i++) {
		if (o->keep[i] < 1 || o->keep[i] > o->n)
			abort();
	}
	if (o->kind != QWEN_ENGINE_HELLO && o->id[0] == '\0')
		abort();
	if ((o->kind == QWEN_ENGINE_SCORE || o->kind == QWEN_ENGINE_HIDDEN) &&
	    o->from >= o->n)
		abort();
	if (o->n_top > QWEN_ENGINE_TOP || (o->kind == QWEN_ENGINE_GENERATE &&
	    o->max == 0))
		abort();
}

static void
order(const unsigned char *p, size_t n)
{
	struct qwen_text t = { 0 }, again = { 0 };
	struct qwen_engine_request o, other;
	struct qwen_err err = { 0 };

	if (qwen_engine_request_decode(&o, p, n, N_VOCAB, &err) < 0) {
		if (err.msg[0] == '\0')
			abort();
		qwen_engine_request_fini(&o);
		return;
	}
	check_order(&o);
	qwen_engine_request_encode(&o, &t, 0);
	if (qwen_engine_request_decode(&other, (unsigned char *)t.s, t.n,
	    N_VOCAB,
	    &err) < 0)
		abort();
	qwen_engine_request_encode(&other, &again, 0);
	if (again.n != t.n || memcmp(again.s, t.s, t.n) != 0)
		abort();
	qwen_engine_request_fini(&o);
	qwen_engine_request_fini(&other);
	qwen_text_fini(&t);
	qwen_text_fini(&again);
}

static void
event(const unsigned char *p, size_t n)
{
	struct qwen_text t = { 0 }, again = { 0 };
	struct qwen_event e, other;
	struct qwen_err err = { 0 };

	if (qwen_event_decode(&e, p, n, &err) < 0) {
		if (err.msg[0] == '\0')
			abort();
		qwen_event_fini(&e);
		return;
	}
	qwen_event_encode(&e, &t, 0);
	if (qwen_event_decode(&other, (unsigned char *)t.s, t.n, &err) < 0)
		abort();
	qwen_event_encode(&other, &again, 0);
	if (again.n != t.n || memcmp(again.s, t.s, t.n) != 0)
		abort();
	qwen_event_fini(&e);
	qwen_event_fini(&other);
	qwen_text_fini(&t);
	qwen_text_fini(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qwen_inbox in = { 0 };
	const unsigned char *p;
	unsigned char *to;
	size_t n, room;

	while (size > 0) {
		if ((to = qwen_inbox_reserve(&in, &room)) == NULL)
			abort();
		n = size < room ? size : room;
		memcpy(to, data, n);
		qwen_inbox_added(&in, n);
		data += n;
		size -= n;
		while (qwen_inbox_next(&in, 1 << 16, &p, &n, NULL) > 0) {
			order(p, n);
			event(p, n);
		}
	}
	qwen_inbox_fini(&in);
	return 0;
}
