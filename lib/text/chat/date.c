/* SPDX-License-Identifier: ISC */
/* date.c - strftime_now(): the time from the caller's clock, as text. */
#include <time.h>

#include "text/chat/chat.h"

enum { TEXT_MAX = 1000 };	/* bytes of a format, and of its result */

void
qwen_template_set_clock(struct qwen_template *t,
    int (*now)(void *arg, struct tm *out), void *arg)
{
	t->now = now;
	t->now_arg = arg;
}

static struct chat_value
now(const struct chat_builtin_call *c)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "format");
	char form[TEXT_MAX + 2], out[TEXT_MAX + 2];
	struct chat_value none = chat_undefined("a time", 6);
	struct chat_buf b = { 0 };
	struct tm tm = { 0 };
	size_t n;

	if (c->a->n != 1 || v == NULL || v->type != CHAT_TEXT ||
	    v->u.s.n > TEXT_MAX || memchr(v->u.s.s, '\0', v->u.s.n) != NULL) {
		qwen_chat_fail(c->r, "strftime_now needs one short string");
		return none;
	}
	if (c->r->t->now == NULL || c->r->t->now(c->r->t->now_arg, &tm) < 0) {
		qwen_chat_fail(c->r, "strftime_now is not available: no clock "
		    "was set");
		return none;
	}
	/* strftime() returns 0 for an empty result too, so add a space */
	memcpy(form, v->u.s.s, v->u.s.n);
	form[v->u.s.n] = ' ';
	form[v->u.s.n + 1] = '\0';
	qwen_chat_step(c->r, 500 + v->u.s.n);
	n = strftime(out, sizeof out, form, &tm);
	if (n == 0) {
		qwen_chat_fail(c->r, "strftime_now: the result exceeds %d "
		    "bytes", TEXT_MAX);
		return none;
	}
	qwen_chat_put_data(c->r, &b, out, n - 1);
	return qwen_chat_buf_value(c->r, &b);
}

const struct chat_builtin qwen_chat_date_functions[] = {
	{ "strftime_now", now, 0 }, { NULL, NULL, 0 }
};
