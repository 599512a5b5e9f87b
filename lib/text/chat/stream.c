/* SPDX-License-Identifier: ISC */
/*
 * stream.c - what a reply gives out: thoughts and content without white space
 * at both ends, calls, and texts that are no calls.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/chat/reply.h"

void
qwen_reply_drop(struct qwen_reply *r, size_t n)
{
	r->text.s += n;
	r->text.len -= n;
	r->from += n;
}

int
qwen_chat_report_event(struct qwen_reply *r, const struct qwen_reply_event *e)
{
	return r->opts.event == NULL ? 0 : r->opts.event(r->opts.arg, e,
	    r->err);
}

int
qwen_chat_report(struct qwen_reply *r, enum qwen_reply_kind kind,
    const char *s, size_t n, const char *name)
{
	struct qwen_reply_event e = { .kind = kind, .text = { s, n },
	    .at = r->from };

	if (name != NULL) {
		e.name.s = name;
		e.name.len = strlen(name);
	}
	return qwen_chat_report_event(r, &e);
}

int
qwen_chat_report_call(struct qwen_reply *r, const char *name,
    yyjson_mut_val *args)
{
	yyjson_mut_val *v = yyjson_mut_arr_add_obj(r->doc, r->calls);
	char *json_text;
	size_t n;
	int rc;

	json_text = yyjson_mut_val_write(args, 0, &n);
	if (v == NULL || json_text == NULL ||
	    !yyjson_mut_obj_add_strcpy(r->doc, v, "name", name) ||
	    !yyjson_mut_obj_add_val(r->doc, v, "arguments",
	    yyjson_mut_val_mut_copy(r->doc, args))) {
		free(json_text);
		return qwen_oom(r->err);
	}
	rc = qwen_chat_report(r, QWEN_REPLY_CALL, json_text, n, name);
	free(json_text);
	return rc;
}

static int
append(struct qwen_reply *r, struct qwen_text *b, const char *s, size_t n)
{
	qwen_text_add(b, s, n);
	return b->failed ? qwen_oom(r->err) : 0;
}

/* Holds back n bytes from offset at of the reply, which may be the end. */
static int
hold(struct qwen_reply *r, struct chat_stream *t, const char *s, size_t n,
    size_t at)
{
	struct chat_part *p;

	if (n == 0)
		return 0;
	p = t->n_part > 0 ? &t->part[t->n_part - 1] : NULL;
	if (p != NULL && p->at + p->n == at)
		p->n += n;
	else {
		if (qwen_grow(&t->part, &t->cap_part, t->n_part + 1,
		    sizeof *p) < 0)
			return qwen_oom(r->err);
		t->part[t->n_part++] = (struct chat_part){ at, n };
	}
	return append(r, &t->space, s, n);
}

int
qwen_reply_flush(struct qwen_reply *r, struct chat_stream *t)
{
	struct qwen_reply_event e = { .kind = t->kind };
	size_t i, from = t->all.n;

	if (append(r, &t->all, t->space.s, t->space.n) < 0)
		return -1;
	for (i = 0; i < t->n_part; i++) {
		e.text = (struct qwen_str){ t->all.s + from, t->part[i].n };
		e.at = t->part[i].at;
		from += t->part[i].n;
		if (qwen_chat_report_event(r, &e) < 0)
			return -1;
	}
	t->space.n = t->n_part = 0;
	return 0;
}

/*
 * Passes n bytes to a stream, without white space at its beginning and possible
 * end.
 */
static int
stream(struct qwen_reply *r, struct chat_stream *t, const char *s, size_t n)
{
	struct chat_text all = { s, n, NULL }, text;

	if (!t->begun)
		all = qwen_chat_strip(NULL, &all, NULL, 1);
	text = qwen_chat_strip(NULL, &all, NULL, 2);
	if (text.n > 0) {
		t->begun = 1;
		if (hold(r, t, text.s, text.n, r->from +
		    (size_t)(text.s - s)) < 0 || qwen_reply_flush(r, t) < 0)
			return -1;
	}
	return hold(r, t, text.s + text.n, all.n - text.n, r->from +
	    (size_t)(text.s - s) + text.n);
}

int
qwen_reply_pass(struct qwen_reply *r, struct chat_stream *t, size_t n)
{
	if (n > 0 && stream(r, t, r->text.s, n) < 0)
		return -1;
	qwen_reply_drop(r, n);
	return 0;
}

void
qwen_reply_free_stream(struct chat_stream *t)
{
	qwen_text_fini(&t->all);
	qwen_text_fini(&t->space);
	free(t->part);
}
