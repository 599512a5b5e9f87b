/* SPDX-License-Identifier: ISC */
/*
 * sse_util.h - assembles server-sent events to a body, as clients of each API
 * do.
 */
#ifndef SSE_UTIL_H
#define SSE_UTIL_H

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/chat/tools.h"
#include "text/request/request.h"
#include <yyjson.h>

/* A body assembled from events. */
struct sse_body {
	yyjson_mut_doc	*doc;
	yyjson_mut_val	*root;	/* NULL: no event so far */
	int		 done;	/* the end of the stream was sent */
	int		 bad;	/* an event was invalid */
	size_t		 n_events;
};

static inline void
sse_body_init(struct sse_body *b)
{
	memset(b, 0, sizeof *b);
	if ((b->doc = yyjson_mut_doc_new(NULL)) == NULL)
		abort();
}

static inline void
sse_body_fini(struct sse_body *b)
{
	yyjson_mut_doc_free(b->doc);
	memset(b, 0, sizeof *b);
}

/* Return the concatenation of two strings. */
static inline yyjson_mut_val *
sse_concat(yyjson_mut_doc *d, yyjson_mut_val *a, yyjson_mut_val *b)
{
	struct qwen_text t = { 0 };
	yyjson_mut_val *v;

	qwen_text_add(&t, yyjson_mut_get_str(a), yyjson_mut_get_len(a));
	qwen_text_add(&t, yyjson_mut_get_str(b), yyjson_mut_get_len(b));
	v = yyjson_mut_strncpy(d, t.n > 0 ? t.s : "", t.n);
	qwen_text_fini(&t);
	return v;
}

static inline void sse_add(yyjson_mut_doc *d, yyjson_mut_val *to,
    yyjson_mut_val *from);

/*
 * Append the elements of a list; elements whose index the list has are merged.
 */
static inline void
sse_add_list(yyjson_mut_doc *d, yyjson_mut_val *to, yyjson_mut_val *from)
{
	yyjson_mut_val *v, *old, *at;
	size_t i, n, k, n_old;

	yyjson_mut_arr_foreach(from, i, n, v) {
		at = yyjson_mut_obj_get(v, "index");
		yyjson_mut_arr_foreach(to, k, n_old, old) {
			if (at != NULL && yyjson_mut_equals(at,
			    yyjson_mut_obj_get(old, "index")))
				break;
		}
		if (k < n_old)
			sse_add(d, old, v);
		else
			yyjson_mut_arr_append(to, yyjson_mut_val_mut_copy(d, v));
	}
}

/* Merge fields of an object into another: strings and lists are appended. */
static inline void
sse_add(yyjson_mut_doc *d, yyjson_mut_val *to, yyjson_mut_val *from)
{
	static const char once[] = " id object model type role finish_reason "
	    "created_at done_reason ";
	yyjson_mut_val *key, *v, *old;
	const char *s;
	char name[64];
	size_t i, n;

	yyjson_mut_obj_foreach(from, i, n, key, v) {
		s = yyjson_mut_get_str(key);
		old = yyjson_mut_obj_get(to, s);
		snprintf(name, sizeof name, " %s ", s != NULL ? s : "");
		if (old != NULL && yyjson_mut_is_null(v))
			continue;
		if (yyjson_mut_is_obj(old) && yyjson_mut_is_obj(v))
			sse_add(d, old, v);
		else if (yyjson_mut_is_arr(old) && yyjson_mut_is_arr(v))
			sse_add_list(d, old, v);
		else
			yyjson_mut_obj_put(to, yyjson_mut_strcpy(d, s),
			    yyjson_mut_is_str(old) && yyjson_mut_is_str(v) &&
			    strstr(once, name) == NULL ? sse_concat(d, old, v) :
			    yyjson_mut_val_mut_copy(d, v));
	}
}

static inline void
sse_take_openai(struct sse_body *b, yyjson_mut_val *v)
{
	if (b->root == NULL)
		b->root = yyjson_mut_obj(b->doc);
	sse_add(b->doc, b->root, v);
}

/* Sort the answers by their index. */
static inline void
sse_sort(struct sse_body *b, yyjson_mut_val *list)
{
	yyjson_mut_val *sorted = yyjson_mut_arr(b->doc), *v;
	size_t i, k, n, m;
	char s[24];

	for (k = 0; k < yyjson_mut_arr_size(list); k++) {
		snprintf(s, sizeof s, "%zu", k);
		yyjson_mut_arr_foreach(list, i, n, v) {
			m = yyjson_mut_get_len(yyjson_mut_obj_get(v, "index"));
			if (m == strlen(s) && memcmp(yyjson_mut_get_raw(
			    yyjson_mut_obj_get(v, "index")), s, m) == 0)
				yyjson_mut_arr_append(sorted,
				    yyjson_mut_val_mut_copy(b->doc, v));
		}
	}
	yyjson_mut_obj_put(b->root, yyjson_mut_str(b->doc, "choices"), sorted);
}

/* Remove the differences between chunks and a complete body. */
static inline void
sse_end_openai(struct sse_body *b)
{
	yyjson_mut_val *choice, *call, *calls;
	size_t i, n, k, m;

	sse_sort(b, yyjson_mut_obj_get(b->root, "choices"));
	if (yyjson_mut_equals_str(yyjson_mut_obj_get(b->root, "object"),
	    "chat.completion.chunk"))
		yyjson_mut_obj_put(b->root, yyjson_mut_str(b->doc, "object"),
		    yyjson_mut_str(b->doc, "chat.completion"));
	yyjson_mut_arr_foreach(yyjson_mut_obj_get(b->root, "choices"), i, n,
	    choice) {
		calls = yyjson_mut_obj_get(yyjson_mut_obj_get(choice, "delta"),
		    "tool_calls");
		yyjson_mut_arr_foreach(calls, k, m, call)
			yyjson_mut_obj_remove_key(call, "index");
		yyjson_mut_obj_rename_key(b->doc, choice, "delta", "message");
	}
}

/* ---- Anthropic: a message that begins empty, and its blocks */

static inline void
sse_put(struct sse_body *b, yyjson_mut_val *object, const char *key,
    yyjson_mut_val *v)
{
	yyjson_mut_obj_put(object, yyjson_mut_strcpy(b->doc, key),
	    yyjson_mut_val_mut_copy(b->doc, v));
}

/* Append text to a block, or part of the JSON of a call's input. */
static inline void
sse_take_delta(struct sse_body *b, yyjson_mut_val *block, yyjson_mut_val *delta)
{
	static const char *const keys[] = { "text", "thinking", "signature",
	    "partial_json" };
	yyjson_mut_val *v, *old;
	size_t i;

	for (i = 0; i < 4; i++) {
		if ((v = yyjson_mut_obj_get(delta, keys[i])) == NULL)
			continue;
		old = yyjson_mut_obj_get(block, keys[i]);
		sse_put(b, block, keys[i], old != NULL ?
		    sse_concat(b->doc, old, v) : v);
	}
}

static inline void
sse_take_stop(struct sse_body *b, yyjson_mut_val *block)
{
	yyjson_mut_val *v = yyjson_mut_obj_remove_key(block, "partial_json");
	struct qwen_text t = { 0 };
	yyjson_doc *doc;

	if (v == NULL)
		return;
	doc = yyjson_read(yyjson_mut_get_str(v), yyjson_mut_get_len(v),
	    YYJSON_READ_NUMBER_AS_RAW);
	if (doc == NULL) {	/* the JSON was truncated */
		qwen_chat_close_json(&t, yyjson_mut_get_str(v),
		    yyjson_mut_get_len(v));
		doc = t.n == 0 ? yyjson_read("{}", 2, 0) :
		    yyjson_read(t.s, t.n, YYJSON_READ_NUMBER_AS_RAW);
		qwen_text_fini(&t);
	}
	yyjson_mut_obj_put(block, yyjson_mut_str(b->doc, "input"),
	    yyjson_val_mut_copy(b->doc, yyjson_doc_get_root(doc)));
	b->bad |= doc == NULL;
	yyjson_doc_free(doc);
}

static inline void
sse_take_anthropic(struct sse_body *b, const char *name, yyjson_mut_val *v)
{
	yyjson_mut_val *content = yyjson_mut_obj_get(b->root, "content");
	yyjson_mut_val *at = yyjson_mut_obj_get(v, "index"), *block, *key, *x;
	yyjson_mut_val *delta = yyjson_mut_obj_get(v, "delta");
	size_t n = yyjson_mut_arr_size(content), i, max;
	char s[24];

	block = yyjson_mut_arr_get_last(content);
	snprintf(s, sizeof s, "%zu", strcmp(name, "content_block_start") == 0 ?
	    n : n - 1);
	/* only one block is open at a time: the last one */
	b->bad |= !yyjson_mut_equals_str(yyjson_mut_obj_get(v, "type"), name) ||
	    (at != NULL && (yyjson_mut_get_len(at) != strlen(s) ||
	    memcmp(yyjson_mut_get_raw(at), s, strlen(s)) != 0));
	if (strcmp(name, "message_start") == 0 && b->root == NULL)
		b->root = yyjson_mut_val_mut_copy(b->doc,
		    yyjson_mut_obj_get(v, "message"));
	else if (strcmp(name, "content_block_start") == 0)
		yyjson_mut_arr_append(content, yyjson_mut_val_mut_copy(b->doc,
		    yyjson_mut_obj_get(v, "content_block")));
	else if (strcmp(name, "content_block_delta") == 0)
		sse_take_delta(b, block, delta);
	else if (strcmp(name, "content_block_stop") == 0)
		sse_take_stop(b, block);
	else if (strcmp(name, "message_delta") == 0) {
		yyjson_mut_obj_foreach(delta, i, max, key, x)
			sse_put(b, b->root, yyjson_mut_get_str(key), x);
		sse_put(b, b->root, "usage", yyjson_mut_obj_get(v, "usage"));
	} else
		b->done = strcmp(name, "message_stop") == 0;
}

/* ---- Responses: items that grow; the last event repeats all of them */

static inline int
sse_says(yyjson_mut_val *v, const char *key, yyjson_mut_val *event)
{
	return yyjson_mut_equals(yyjson_mut_obj_get(v, key),
	    yyjson_mut_obj_get(event, key));
}

/* Apply an event that belongs to the last item. */
static inline void
sse_take_item(struct sse_body *b, const char *name, yyjson_mut_val *item,
    yyjson_mut_val *v)
{
	yyjson_mut_val *content = yyjson_mut_obj_get(item, "content"), *whole;
	yyjson_mut_val *part = yyjson_mut_arr_get_last(content), *d, *at;
	const char *key = part != NULL ? "text" : yyjson_mut_obj_get(item,
	    "input") != NULL ? "input" : "arguments";

	at = part != NULL ? part : item;
	if (strcmp(name, "response.content_part.added") == 0) {
		b->bad |= yyjson_mut_arr_size(content) > 0;
		yyjson_mut_arr_append(content, yyjson_mut_val_mut_copy(b->doc,
		    yyjson_mut_obj_get(v, "part")));
	} else if ((d = yyjson_mut_obj_get(v, "delta")) != NULL) {
		sse_put(b, at, key, sse_concat(b->doc, yyjson_mut_obj_get(at,
		    key), d));
		if ((d = yyjson_mut_obj_get(v, "logprobs")) != NULL)
			sse_add_list(b->doc, yyjson_mut_obj_get(part,
			    "logprobs"), d);
	} else if (strcmp(name, "response.content_part.done") == 0)
		b->bad |= !yyjson_mut_equals(part, yyjson_mut_obj_get(v,
		    "part"));
	else if (strcmp(name, "response.output_item.done") == 0) {
		whole = yyjson_mut_obj_get(v, "item");
		sse_put(b, item, "status", yyjson_mut_obj_get(whole, "status"));
		/* object arguments arrive complete, without deltas */
		if (yyjson_mut_is_obj(yyjson_mut_obj_get(item, "arguments")))
			sse_put(b, item, "arguments", yyjson_mut_obj_get(whole,
			    "arguments"));
		b->bad |= !yyjson_mut_equals(item, whole);
	} else
		b->bad |= !sse_says(at, key, v) || (part != NULL &&
		    yyjson_mut_obj_get(v, "logprobs") != NULL &&
		    !sse_says(part, "logprobs", v));
}

static inline void
sse_take_response(struct sse_body *b, const char *name, yyjson_mut_val *v)
{
	yyjson_mut_val *response = yyjson_mut_obj_get(v, "response"), *item;
	yyjson_mut_val *at = yyjson_mut_obj_get(v, "output_index");
	yyjson_mut_val *output = yyjson_mut_obj_get(b->root, "output");
	yyjson_mut_val *number = yyjson_mut_obj_get(v, "sequence_number");
	char s[24];

	snprintf(s, sizeof s, "%zu", b->n_events - 1);
	b->bad |= !yyjson_mut_equals_str(yyjson_mut_obj_get(v, "type"), name) ||
	    yyjson_mut_get_len(number) != strlen(s) ||
	    memcmp(yyjson_mut_get_raw(number), s, strlen(s)) != 0;
	if (strcmp(name, "response.output_item.added") == 0)
		yyjson_mut_arr_append(output, yyjson_mut_val_mut_copy(b->doc,
		    yyjson_mut_obj_get(v, "item")));
	item = yyjson_mut_arr_get_last(output);
	snprintf(s, sizeof s, "%zu", yyjson_mut_arr_size(output) - 1);
	if (at != NULL)
		b->bad |= yyjson_mut_get_len(at) != strlen(s) ||
		    memcmp(yyjson_mut_get_raw(at), s, strlen(s)) != 0 ||
		    (yyjson_mut_obj_get(v, "item_id") != NULL &&
		    !yyjson_mut_equals(yyjson_mut_obj_get(v, "item_id"),
		    yyjson_mut_obj_get(item, "id")));
	if (response == NULL) {
		if (strcmp(name, "response.output_item.added") != 0)
			sse_take_item(b, name, item, v);
		return;
	}
	b->done = b->n_events > 2;
	b->bad |= b->done && !yyjson_mut_equals(output,
	    yyjson_mut_obj_get(response, "output"));
	b->root = yyjson_mut_val_mut_copy(b->doc, response);
}

/*
 * ---- Ollama: lines that add up; llama.cpp: events with their answer's index
 */

static inline void
sse_take_ollama(struct sse_body *b, yyjson_mut_val *v)
{
	sse_take_openai(b, v);
	b->done = yyjson_mut_is_true(yyjson_mut_obj_get(v, "done"));
}

static inline void
sse_take_llama(struct sse_body *b, yyjson_mut_val *v)
{
	yyjson_mut_val *list = yyjson_mut_arr(b->doc);

	if (b->root == NULL)
		b->root = yyjson_mut_arr(b->doc);
	yyjson_mut_arr_append(list, v);
	sse_add_list(b->doc, b->root, list);
}

/*
 * Sort the answers and check that all have ended; a single answer is no list.
 */
static inline void
sse_end_llama(struct sse_body *b)
{
	yyjson_mut_val *list = b->root, *v;
	size_t i, n;

	b->root = yyjson_mut_obj(b->doc);
	sse_sort(b, list);
	b->root = yyjson_mut_obj_get(b->root, "choices");
	b->done = 1;
	yyjson_mut_arr_foreach(b->root, i, n, v)
		b->done &= yyjson_mut_is_true(yyjson_mut_obj_get(v, "stop"));
	if (yyjson_mut_arr_size(b->root) == 1)
		b->root = yyjson_mut_arr_get_first(b->root);
}

static inline int
sse_is_ollama(enum qwen_form form)
{
	return form == QWEN_FORM_OLLAMA_CHAT ||
	    form == QWEN_FORM_OLLAMA_GENERATE || form == QWEN_FORM_OLLAMA_RAW;
}

/* Take the data of an event; name is "" if the event has none. */
static inline void
sse_take(struct sse_body *b, enum qwen_form form, const char *name,
    const char *data, size_t n)
{
	yyjson_doc *doc;
	yyjson_mut_val *v;

	b->bad |= b->done;
	b->n_events++;
	if (form <= QWEN_FORM_CHAT && n == 6 &&
	    memcmp(data, "[DONE]", 6) == 0) {
		b->done = 1;
		return;
	}
	doc = yyjson_read(data, n, YYJSON_READ_NUMBER_AS_RAW);
	v = yyjson_val_mut_copy(b->doc, yyjson_doc_get_root(doc));
	yyjson_doc_free(doc);
	if (!yyjson_mut_is_obj(v) || b->bad)
		b->bad = 1;
	else if (form == QWEN_FORM_MESSAGES)
		sse_take_anthropic(b, name, v);
	else if (form == QWEN_FORM_RESPONSES)
		sse_take_response(b, name, v);
	else if (sse_is_ollama(form))
		sse_take_ollama(b, v);
	else if (form == QWEN_FORM_LLAMA)
		sse_take_llama(b, v);
	else
		sse_take_openai(b, v);
}

/*
 * Take events in the form they are sent: lines, and an empty line after each
 * event.
 */
static inline void
sse_feed(struct sse_body *b, enum qwen_form form, const char *s, size_t n)
{
	const char *end = s + n, *line;
	char name[64];

	while (sse_is_ollama(form) && s < end && !b->bad) {
		if ((line = memchr(s, '\n', (size_t)(end - s))) == NULL) {
			b->bad = 1;
			return;
		}
		sse_take(b, form, "", s, (size_t)(line - s));
		s = line + 1;
	}
	while (s < end && !b->bad) {
		name[0] = '\0';
		line = memchr(s, '\n', (size_t)(end - s));
		if (line != NULL && strncmp(s, "event: ", 7) == 0) {
			snprintf(name, sizeof name, "%.*s", (int)(line - s - 7),
			    s + 7);
			s = line + 1;
			line = memchr(s, '\n', (size_t)(end - s));
		}
		if (line == NULL || strncmp(s, "data: ", 6) != 0 ||
		    end - line < 2 || line[1] != '\n') {
			b->bad = 1;
			return;
		}
		sse_take(b, form, name, s + 6, (size_t)(line - s - 6));
		s = line + 2;
	}
}

/* Return 1 if the assembled body equals json. */
static inline int
sse_is(struct sse_body *b, enum qwen_form form, const char *json, size_t n)
{
	yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)json, n,
	    YYJSON_READ_NUMBER_AS_RAW, NULL, NULL);
	yyjson_mut_val *v = yyjson_val_mut_copy(b->doc,
	    yyjson_doc_get_root(doc));

	yyjson_doc_free(doc);
	if (form <= QWEN_FORM_CHAT)
		sse_end_openai(b);
	else if (form == QWEN_FORM_LLAMA)
		sse_end_llama(b);
	return !b->bad && b->done && v != NULL && yyjson_mut_equals(b->root, v);
}

#endif
