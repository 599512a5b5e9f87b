/* SPDX-License-Identifier: ISC */
/*
 * url_stream.c - parse a streamed reply: server-sent events with JSON, as in
 * /v1/chat/completions and /v1/completions.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json/json.h"
#include "url.h"

enum { LINE_MAX_BYTES = 16 << 20, OTHER_MAX_BYTES = 1 << 16 };

void
qbench_stream_fail(struct qbench_stream *s, const char *kind, const char *why)
{
	if (s->kind[0] != '\0')
		return;		/* keep the first error */
	snprintf(s->kind, sizeof s->kind, "%s", kind);
	if (why != s->why)
		snprintf(s->why, sizeof s->why, "%s", why);
}

const char *
qbench_error_text(const char *kind, const char *why)
{
	static char text[256];

	snprintf(text, sizeof text, "%s%s%s", kind, why[0] != '\0' ? ": " : "",
	    why);
	return text;
}

/* Return 1 for a string that is not empty. */
static int
has_text(yyjson_val *v)
{
	return yyjson_is_str(v) && yyjson_get_len(v) > 0;
}

static void
count(int64_t *to, yyjson_val *v)
{
	const char *s = yyjson_get_raw(v);

	if (s != NULL && s[0] >= '0' && s[0] <= '9')
		*to = strtoll(s, NULL, 10) + 1;
}

/* Take the token counts of usage, or of llama.cpp's timings. */
static void
take_usage(struct qbench_stream *s, yyjson_val *root)
{
	yyjson_val *u = yyjson_obj_get(root, "usage");

	count(&s->cached, yyjson_obj_get(yyjson_obj_get(root, "timings"),
	    "cache_n"));
	count(&s->prompt, yyjson_obj_get(u, "prompt_tokens"));
	count(&s->generated, yyjson_obj_get(u, "completion_tokens"));
	count(&s->cached, yyjson_obj_get(yyjson_obj_get(u,
	    "prompt_tokens_details"), "cached_tokens"));
}

static void
take_error(struct qbench_stream *s, yyjson_val *error)
{
	yyjson_val *m = yyjson_is_obj(error) ?
	    yyjson_obj_get(error, "message") : error;

	qbench_stream_fail(s, "error_event", yyjson_is_str(m) ?
	    yyjson_get_str(m) : "without a message");
}

/* Return 1 if this choice has a token of any kind. */
static int
take_choice(struct qbench_stream *s, yyjson_val *choice)
{
	yyjson_val *d = yyjson_obj_get(choice, "delta");

	if (yyjson_is_str(yyjson_obj_get(choice, "finish_reason")))
		s->ended = 1;
	return has_text(yyjson_obj_get(choice, "text")) ||
	    has_text(yyjson_obj_get(d, "content")) ||
	    has_text(yyjson_obj_get(d, "reasoning_content")) ||
	    has_text(yyjson_obj_get(d, "reasoning")) ||
	    yyjson_arr_size(yyjson_obj_get(d, "tool_calls")) > 0;
}

static void
take_json(struct qbench_stream *s, const char *p, size_t n, double now)
{
	struct qwen_err err;
	yyjson_doc *doc = qwen_json_open(p, n, &err);
	yyjson_val *root = doc == NULL ? NULL : yyjson_doc_get_root(doc);
	yyjson_val *choices = yyjson_obj_get(root, "choices"), *error, *choice;
	size_t i, max;
	int has = 0;

	if (doc == NULL) {
		qbench_stream_fail(s, "bad_json", err.msg);
		return;
	}
	if ((error = yyjson_obj_get(root, "error")) != NULL &&
	    !yyjson_is_null(error))
		take_error(s, error);
	yyjson_arr_foreach(choices, i, max, choice)
		has |= take_choice(s, choice);
	take_usage(s, root);
	yyjson_doc_free(doc);
	if (!has)
		return;
	if (s->n_chunks++ == 0)
		s->first = now;
	else
		tool_timings_add(&s->gaps, (now - s->last) * 1e3);
	s->last = now;
}

static int
begins(const char *p, size_t n, const char *with)
{
	return n >= strlen(with) && memcmp(p, with, strlen(with)) == 0;
}

static void
take_line(struct qbench_stream *s, const char *p, size_t n, double now)
{
	if (n > 0 && p[n - 1] == '\r')
		n--;
	if (n == 0 || p[0] == ':' || begins(p, n, "event:") ||
	    begins(p, n, "id:") || begins(p, n, "retry:"))
		return;
	if (!begins(p, n, "data:")) {
		if (s->other.n + n < OTHER_MAX_BYTES) {
			qwen_text_add(&s->other, p, n);
			qwen_text_str(&s->other, "\n");
		}
		return;
	}
	for (p += 5, n -= 5; n > 0 && *p == ' '; p++)
		n--;
	if (n == 6 && memcmp(p, "[DONE]", 6) == 0)
		s->ended = 1;
	else
		take_json(s, p, n, now);
}

void
qbench_stream_feed(struct qbench_stream *s, const char *p, size_t n, double now)
{
	const char *nl;
	size_t len;

	for (; (nl = memchr(p, '\n', n)) != NULL; n -= len, p += len) {
		len = (size_t)(nl - p) + 1;
		if (s->line.n > 0) {
			qwen_text_add(&s->line, p, len - 1);
			take_line(s, s->line.s, s->line.n, now);
			s->line.n = 0;
		} else
			take_line(s, p, len - 1, now);
	}
	if (s->line.n + n > LINE_MAX_BYTES)
		qbench_stream_fail(s, "bad_json", "an event of more than 16 MiB");
	else
		qwen_text_add(&s->line, p, n);
	if (s->line.failed || s->other.failed)
		die("out of memory");
}

void
qbench_stream_end(struct qbench_stream *s, double now)
{
	take_line(s, s->line.s, s->line.n, now);
	s->line.n = 0;
}

void
qbench_stream_message(struct qbench_stream *s)
{
	struct qwen_err err;
	yyjson_doc *doc;
	yyjson_val *e, *m;

	doc = s->other.n == 0 ? NULL : qwen_json_open(s->other.s, s->other.n,
	    &err);
	e = doc == NULL ? NULL : yyjson_doc_get_root(doc);
	if (yyjson_obj_get(e, "error") != NULL)
		e = yyjson_obj_get(e, "error");
	m = yyjson_is_str(e) ? e : yyjson_obj_get(e, "message");
	if (m == NULL)
		m = yyjson_obj_get(e, "detail");
	snprintf(s->why, sizeof s->why, "%s", yyjson_is_str(m) ?
	    yyjson_get_str(m) : s->other.n > 0 ? s->other.s : "");
	s->why[strcspn(s->why, "\n")] = '\0';
	yyjson_doc_free(doc);
}

void
qbench_stream_fini(struct qbench_stream *s)
{
	qwen_text_fini(&s->line);
	qwen_text_fini(&s->other);
	tool_timings_fini(&s->gaps);
}
