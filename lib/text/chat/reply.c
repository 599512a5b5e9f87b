/* SPDX-License-Identifier: ISC */
/*
 * reply.c - parses a reply while it arrives: thoughts, text and calls.  Holds
 * back whatever may become a tag until that is decided.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/sized.h"
#include "text/chat/reply.h"
#include "text/chat/request.h"
#include "qwentext.h"

static const char think[] = "<think>", end_think[] = "</think>";
static const char no_character[] = "\xef\xbf\xbd";	/* U+FFFD */
static const char open_tag[] = "<tool_call>", function[] = "<function=";

enum { COMPACT = 1 << 12 };	/* parsed bytes kept in the buffer */

/* Appends text of the reply to the buffer. */
static int
extend(struct qwen_reply *r, const char *s, size_t n)
{
	size_t head = r->buf.n - r->text.len;

	if (head > r->text.len && head > COMPACT) {
		if (r->text.len > 0)
			memmove(r->buf.s, r->text.s, r->text.len);
		r->buf.n = r->text.len;
		head = 0;
	}
	qwen_text_add(&r->buf, s, n);
	if (r->buf.failed)
		return qwen_oom(r->err);
	r->text.s = r->buf.s + head;
	r->text.len = r->buf.n - head;
	return 0;
}

/* ------------------------------------------------------------------- states */

/*
 * Follows the content: fences of code, and whether a line has only white space.
 */
static void
note(struct qwen_reply *r, const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		r->ticks = s[i] == '`' ? r->ticks + 1 : 0;
		if (r->ticks == 3 && (r->fence || r->indent))
			r->fence = !r->fence;
		if (s[i] == '\n')
			r->indent = 1;
		else if (s[i] != ' ' && s[i] != '\t' && s[i] != '`')
			r->indent = 0;
	}
}

/*
 * Returns 1 if a call begins at s, of which n bytes are known; 0; -1: not
 * known.
 */
static int
call_begins(const struct qwen_reply *r, const char *s, size_t n)
{
	const size_t len = sizeof function - 1;
	const char *end;
	int is;

	if (!r->has_tools)
		return 0;
	is = chat_begins(s, n, open_tag);
	if (is != 0 || !r->xml || r->opts.strict ||
	    r->state != CHAT_REPLY_CONTENT || r->ticks > 0 || r->fence)
		return is;
	/* models sometimes forget the tag around it */
	is = chat_begins(s, n, function);
	if (is == 1)
		is = qwen_chat_tool_begins(r, s + len, n - len);
	if (is <= 0 || r->indent)
		return is;
	/* inside a line, the text may just mention the tag */
	end = memchr(s, '>', n);
	return end == NULL || end + 1 == s + n ? -1 : end[1] == '\n';
}

/* Returns 1 if the text at s ends the current state; 0; -1: not known. */
static int
ends_state(const struct qwen_reply *r, const char *s, size_t n)
{
	int is;

	if (r->state == CHAT_REPLY_CONTENT)
		return call_begins(r, s, n);
	is = chat_begins(s, n, end_think);
	return is == 0 && r->xml && !r->opts.strict ? call_begins(r, s, n) :
	    is;
}

/*
 * Passes text up to where it ends, or may end.  Returns 1 if it ends at the
 * beginning of r->text.
 */
static int
text(struct qwen_reply *r, struct chat_stream *t, int final)
{
	const char *s;
	size_t at = 0, from;
	int is = 0;

	while (is == 0 && at < r->text.len) {
		from = at;
		s = memchr(r->text.s + at, '<', r->text.len - at);
		at = s != NULL ? (size_t)(s - r->text.s) : r->text.len;
		note(r, r->text.s + from, at - from);
		if (s == NULL)
			break;
		is = ends_state(r, s, r->text.len - at);
		if (is < 0 && final)
			is = 0;
		if (is == 0)
			note(r, r->text.s + at++, 1);
	}
	if (qwen_reply_pass(r, t, at) < 0)
		return -1;
	return is == 1;
}

/*
 * Decides whether the reply begins with a thought.  Returns 1 when it is
 * decided.
 */
static int
start(struct qwen_reply *r, int final)
{
	struct chat_text t = { r->text.s, r->text.len, NULL };
	int is;

	if (t.n == 0)
		return 0;
	/* white space at the beginning is always dropped */
	qwen_reply_drop(r, t.n - qwen_chat_strip(NULL, &t, NULL, 1).n);
	if (r->text.len == 0)
		return 0;
	is = r->thinks ? chat_begins(r->text.s, r->text.len, think) : 0;
	if (is < 0 && !final)
		return 0;
	r->state = is == 1 ? CHAT_REPLY_THOUGHT : CHAT_REPLY_UNTAGGED;
	if (is == 1)
		qwen_reply_drop(r, sizeof think - 1);
	return 1;
}

/*
 * Ends the thought, or begins a call in it, which may be part of the thought.
 */
static int
end_thought(struct qwen_reply *r)
{
	if (chat_begins(r->text.s, r->text.len, end_think) == 1) {
		qwen_reply_drop(r, sizeof end_think - 1);
		r->state = CHAT_REPLY_UNTAGGED;
	} else
		r->state = CHAT_REPLY_THOUGHT_CALL;
	r->indent = 1;
	r->ticks = 0;
	r->fence = 0;
	return 1;
}

/* Parses a call; then another one follows, or content. */
static int
call(struct qwen_reply *r, int final)
{
	int rc = qwen_chat_call(r, final), again, tagged, fenced;

	if (rc <= 0)
		return rc;
	again = r->call.again;
	tagged = r->call.tagged;
	fenced = r->call.fenced;
	qwen_reply_drop(r, r->call.at);
	qwen_chat_call_reset(&r->call);
	r->call.tagged = again && tagged;
	r->call.fenced = again && fenced == 1;
	r->state = again ? CHAT_REPLY_CALL : CHAT_REPLY_CONTENT;
	return 1;
}

/* Runs the current state once: 1 if there may be more to do, 0 if not, -1. */
static int
step(struct qwen_reply *r, int final)
{
	int rc;

	switch (r->state) {
	case CHAT_REPLY_START:
		return start(r, final);
	case CHAT_REPLY_THOUGHT:
		rc = text(r, &r->reasoning, final);
		return rc <= 0 ? rc : end_thought(r);
	case CHAT_REPLY_THOUGHT_CALL:
		return qwen_chat_thought_call(r, final);
	case CHAT_REPLY_UNTAGGED:
		return qwen_chat_untagged(r, final);
	case CHAT_REPLY_CONTENT:
		rc = text(r, &r->content, final);
		if (rc == 1)
			r->state = CHAT_REPLY_CALL;
		return rc;
	default:
		return call(r, final);
	}
}

static int
run(struct qwen_reply *r, int final)
{
	int rc;

	do
		rc = step(r, final);
	while (rc > 0);
	return rc;
}

/* -------------------------------------------------------------------- input */

/* Adds a byte; passes complete characters, and U+FFFD for invalid bytes. */
static int
put_byte(struct qwen_reply *r, unsigned char b)
{
	uint32_t c;
	int k;

	r->tail[r->n_tail++] = b;
	while (r->n_tail > 0) {
		k = qwen_utf8_read(r->tail, r->n_tail, &c);
		if (k < 0)
			return 0;
		if (extend(r, k == 0 ? no_character :
		    (const char *)r->tail, k == 0 ? 3 : (size_t)k) < 0)
			return -1;
		k = k == 0 ? 1 : k;
		r->n_tail -= (size_t)k;
		memmove(r->tail, r->tail + k, r->n_tail);
	}
	return 0;
}

static int
put_text(struct qwen_reply *r, const unsigned char *p, size_t n)
{
	size_t i = 0, whole;

	while (i < n) {
		whole = r->n_tail > 0 ? 0 :
		    qwen_utf8_check((const char *)p + i, n - i);
		if (extend(r, (const char *)p + i, whole) < 0)
			return -1;
		i += whole;
		if (i < n && put_byte(r, p[i++]) < 0)
			return -1;
	}
	return 0;
}

/* --------------------------------------------------------- public functions */

static int
read_tools(struct qwen_reply *r)
{
	yyjson_val *list;

	if (qwen_chat_read(&r->tools, r->opts.tools, r->opts.n_tools, "tools",
	    r->err) < 0)
		return -1;
	list = yyjson_doc_get_root(r->tools);
	if (!yyjson_is_arr(list) && !yyjson_is_null(list))
		return qwen_fail(r->err, QWEN_EFORMAT, "tools is not a JSON "
		    "list");
	r->has_tools = yyjson_arr_size(list) > 0;
	return 0;
}

int
qwen_reply_new_sized(size_t size, struct qwen_reply **out,
    const struct qwen_template *t, const struct qwen_reply_opts *opts,
    struct qwen_err *err)
{
	struct qwen_reply_opts own;
	struct qwen_reply *r;

	*out = NULL;
	if (QWEN_SIZED(opts, own, size, err) < 0)
		return -1;
	if ((r = calloc(1, sizeof *r)) == NULL)
		return qwen_oom(err);
	r->err = err;
	r->opts = *opts;
	r->xml = t->xml;
	r->thinks = t->thinks;
	r->reasoning.kind = QWEN_REPLY_REASONING;
	r->content.kind = QWEN_REPLY_CONTENT;
	/* white space is not at the beginning of a continued text */
	r->reasoning.begun = opts->continues &&
	    opts->thinking == QWEN_THINKING_OPEN;
	r->content.begun = opts->continues && !r->reasoning.begun;
	r->state = opts->thinking == QWEN_THINKING_OPEN ?
	    CHAT_REPLY_THOUGHT : opts->thinking == QWEN_THINKING_NONE ?
	    CHAT_REPLY_START : CHAT_REPLY_UNTAGGED;
	r->text.s = "";
	r->indent = 1;
	r->doc = yyjson_mut_doc_new(NULL);
	r->calls = yyjson_mut_arr(r->doc);
	r->unparsed = yyjson_mut_arr(r->doc);
	if (r->calls == NULL || r->unparsed == NULL)
		qwen_oom(err);
	else if (opts->tools == NULL || read_tools(r) == 0) {
		*out = r;
		return 0;
	}
	qwen_reply_free(r);
	return -1;
}

int
qwen_reply_feed(struct qwen_reply *r, const void *text_in, size_t n,
    struct qwen_err *err)
{
	r->err = err;
	return put_text(r, text_in, n) < 0 ? -1 : run(r, 0);
}

int
qwen_reply_finish(struct qwen_reply *r, struct qwen_err *err)
{
	r->err = err;
	if (r->n_tail > 0 && extend(r, no_character, 3) < 0)
		return -1;
	r->n_tail = 0;
	return run(r, 1);
}

int
qwen_reply_cut(struct qwen_reply *r, struct qwen_err *err)
{
	r->cut = 1;
	return qwen_reply_finish(r, err);
}

void
qwen_reply_free(struct qwen_reply *r)
{
	if (r == NULL)
		return;
	yyjson_doc_free(r->tools);
	yyjson_mut_doc_free(r->doc);
	qwen_chat_call_reset(&r->call);
	qwen_text_fini(&r->buf);
	qwen_text_fini(&r->untagged.items);
	qwen_reply_free_stream(&r->reasoning);
	qwen_reply_free_stream(&r->content);
	free(r);
}

static int
add_text(yyjson_mut_doc *doc, yyjson_mut_val *root, const char *key,
    const struct qwen_text *b)
{
	return yyjson_mut_obj_add_strncpy(doc, root, key,
	    b->n > 0 ? b->s : "", b->n);
}

int
qwen_reply_message(const struct qwen_reply *r, char **json, size_t *n,
    struct qwen_err *err)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *m = yyjson_mut_obj(doc);
	int ok;

	*json = NULL;
	yyjson_mut_doc_set_root(doc, m);
	ok = yyjson_mut_obj_add_str(doc, m, "role", "assistant") &&
	    (r->reasoning.all.n == 0 ||
	    add_text(doc, m, "reasoning", &r->reasoning.all)) &&
	    add_text(doc, m, "content", &r->content.all) &&
	    (yyjson_mut_arr_size(r->calls) == 0 ||
	    yyjson_mut_obj_add_val(doc, m, "tool_calls",
	    yyjson_mut_val_mut_copy(doc, r->calls))) &&
	    (yyjson_mut_arr_size(r->unparsed) == 0 ||
	    yyjson_mut_obj_add_val(doc, m, "unparsed",
	    yyjson_mut_val_mut_copy(doc, r->unparsed)));
	if (ok)
		*json = yyjson_mut_write(doc, 0, n);
	yyjson_mut_doc_free(doc);
	return *json != NULL ? 0 : qwen_oom(err);
}
