/* SPDX-License-Identifier: ISC */
/*
 * fuzz_reply.c - any reply: the message does not depend on how the reply is
 * divided into chunks, is JSON, and agrees with the events.
 *
 * Input: a byte, whose low bits are the template (0 to 4), followed by the
 * state of thinking (0 to 2), then flags for tools, a truncated reply, and
 * strict calls; then the reply.
 */
#include "../unit/tok_util.h"
#include "text/chat/chat.h"
#include <yyjson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, "
    "\"n\": {\"type\": \"number\"}, \"i\": {\"type\": [\"integer\", \"null\"]}, "
    "\"b\": {\"type\": \"boolean\"}, \"o\": {\"type\": \"object\"}, "
    "\"a\": {\"anyOf\": [{\"type\": \"array\"}, {\"type\": \"string\"}]}, "
    "\"e\": {\"enum\": [1, \"x\", null]}}}}}, {\"name\": \"now\"}]";

struct heard {
	struct bytes	text[4];
	int		n_calls, cut;
};

static int
hear(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	struct heard *h = arg;
	yyjson_doc *d;

	(void)err;
	if (e->cut) {
		h->cut = 1;
		if (e->kind != QWEN_REPLY_CALL || e->name.len == 0)
			abort();
		return 0;
	}
	if (e->text.len == 0 ||
	    qwen_utf8_check(e->text.s, e->text.len) != e->text.len)
		abort();
	add_bytes(&h->text[e->kind], e->text.s, e->text.len);
	if (e->kind != QWEN_REPLY_CALL)
		return 0;
	h->n_calls++;
	d = yyjson_read(e->text.s, e->text.len, YYJSON_READ_NUMBER_AS_RAW);
	if (!yyjson_is_obj(yyjson_doc_get_root(d)) || e->name.len == 0)
		abort();
	yyjson_doc_free(d);
	return 0;
}

static int
says(const struct bytes *b, yyjson_val *v)
{
	return b->n == yyjson_get_len(v) &&
	    (b->n == 0 || memcmp(b->p, yyjson_get_str(v), b->n) == 0);
}

/*
 * What is unparsed is what the events said; of a reply that was cut off there may
 * be a call beside, which is no such event: one whose name is not complete, or one
 * that was given as cut off.
 */
static int
is_unparsed(const struct heard *h, yyjson_val *list, int cut)
{
	size_t i, max, lost = 0, told = h->text[QWEN_REPLY_UNPARSED].n;
	yyjson_val *v, *last = yyjson_arr_get_last(list);

	yyjson_arr_foreach(list, i, max, v)
		lost += yyjson_get_len(v);
	if (lost == told)
		return !h->cut;
	return cut && lost > told && lost - told == yyjson_get_len(last) &&
	    (h->cut || strncmp(yyjson_get_str(last), "<tool_call>", 11) == 0);
}

static void
check(const struct heard *h, const char *json, size_t n, int cut)
{
	yyjson_doc *d = yyjson_read(json, n, YYJSON_READ_NUMBER_AS_RAW);
	yyjson_val *m = yyjson_doc_get_root(d);

	if (!yyjson_is_obj(m) ||
	    !says(&h->text[QWEN_REPLY_REASONING],
	    yyjson_obj_get(m, "reasoning")) ||
	    !says(&h->text[QWEN_REPLY_CONTENT],
	    yyjson_obj_get(m, "content")) || (size_t)h->n_calls !=
	    yyjson_arr_size(yyjson_obj_get(m, "tool_calls")) ||
	    !is_unparsed(h, yyjson_obj_get(m, "unparsed"), cut))
		abort();
	yyjson_doc_free(d);
}

/* The message, free(), of the reply in parts of up to max bytes. */
static char *
read_reply(const struct qwen_template *t, unsigned flags, const uint8_t *p,
    size_t n, size_t max, uint64_t seed)
{
	struct heard h = { 0 };
	struct qwen_reply_opts o = {
		.thinking = (enum qwen_thinking)(flags >> 3 & 3) %
		    (QWEN_THINKING_CLOSED + 1),
		.tools = flags & 32 ? tools : NULL,
		.n_tools = sizeof tools - 1, .event = hear, .arg = &h,
		.strict = flags >> 7 & 1,
	};
	struct qwen_reply *r;
	char *json;
	size_t i, part;

	if (qwen_reply_new(&r, t, &o, NULL) < 0)
		abort();
	for (i = 0; i < n; i += part) {
		part = 1 + rnd(&seed) % max;
		part = part < n - i ? part : n - i;
		if (qwen_reply_feed(r, p + i, part, NULL) < 0)
			abort();
	}
	if ((flags & 64 ? qwen_reply_cut(r, NULL) :
	    qwen_reply_finish(r, NULL)) < 0 ||
	    qwen_reply_message(r, &json, &part, NULL) < 0)
		abort();
	check(&h, json, part, (flags & 64) != 0);
	qwen_reply_free(r);
	for (i = 0; i < 4; i++)
		free(h.text[i].p);
	return json;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct qwen_template *t[5];
	char *whole, *parts;
	unsigned flags, i;

	if (size == 0)
		return 0;
	flags = data[0];
	for (i = 0; i < 5; i++) {
		if (t[i] == NULL && qwen_template_open(&t[i],
		    qwen_template_name(i), NULL) < 0)
			abort();
	}
	whole = read_reply(t[flags % 8 % 5], flags, data + 1, size - 1,
	    SIZE_MAX / 2, 1);
	parts = read_reply(t[flags % 8 % 5], flags, data + 1, size - 1, 1, 1);
	if (strcmp(whole, parts) != 0)
		abort();
	free(parts);
	parts = read_reply(t[flags % 8 % 5], flags, data + 1, size - 1, 9,
	    size);
	if (strcmp(whole, parts) != 0)
		abort();
	free(parts);
	free(whole);
	return 0;
}
