/* SPDX-License-Identifier: ISC */
/*
 * effort.c - reasoning_effort for templates that use other names.
 *
 * Clients send the names of their API: none, minimal, low, medium, high, xhigh,
 * max.  A template may accept only some of them and raise an error for the
 * others, which only rendering shows.  After such an error, the nearest other
 * names are tried in turn, and finally no name, which gives the template's
 * default.
 */
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"

static const char variable[] = "reasoning_effort";

/* Names to try if the template refuses one; "" is last. */
static const struct {
	const char	*name;
	const char	*other[6];
} ladder[] = {
	{ "none", { "" } },
	{ "minimal", { "low", "medium", "high", "xhigh", "max", "" } },
	{ "low", { "minimal", "medium", "high", "xhigh", "max", "" } },
	{ "medium", { "high", "low", "xhigh", "minimal", "max", "" } },
	{ "high", { "xhigh", "max", "medium", "low", "minimal", "" } },
	{ "xhigh", { "max", "high", "medium", "low", "minimal", "" } },
	{ "max", { "xhigh", "high", "medium", "low", "minimal", "" } },
};

enum { N_LEVELS = sizeof ladder / sizeof ladder[0] };

static int
level_of(const struct chat_text *name)
{
	int i;

	for (i = 0; i < N_LEVELS; i++) {
		if (qwen_chat_same_text(name, ladder[i].name))
			return i;
	}
	return -1;
}

int
qwen_template_set_effort(struct qwen_template *t, const char *effort,
    const char *high, struct qwen_err *err)
{
	struct chat_text name = chat_literal(effort != NULL ? effort : "low");
	int level = level_of(&name);

	if (level < 0)
		return qwen_fail(err, QWEN_EUNSUP, "unknown reasoning effort "
		    "'%.40s'; known are none, minimal, low, medium, high, "
		    "xhigh, max", effort);
	t->effort = effort != NULL ? ladder[level].name : NULL;
	t->high_is_medium = high != NULL && strcmp(high, "medium") == 0;
	return 0;
}

int
qwen_chat_take_effort(struct chat_exec *r, const char *other)
{
	const struct chat_value *v = qwen_chat_get(r, variable);
	int level = -1;

	if (v == NULL && r->t->effort != NULL) {
		qwen_chat_set(r, variable, chat_cstr(r->t->effort));
		v = qwen_chat_get(r, variable);
	}
	if (v != NULL && v->type == CHAT_TEXT)
		level = level_of(&v->u.s);
	if (level == 0 && qwen_chat_get(r, "enable_thinking") == NULL)
		qwen_chat_set(r, "enable_thinking", chat_bool(0));
	if (other != NULL)
		qwen_chat_set(r, variable, *other != '\0' ? chat_cstr(other) :
		    chat_undefined(variable, sizeof variable - 1));
	return level;
}

const char *
qwen_chat_other_effort(const struct qwen_template *t, int level, size_t i)
{
	static const char *const medium[] = { "medium", "xhigh", "max", "low",
	    "minimal", "" };

	if (level < 0 || i > 5 ||
	    (i > 0 && ladder[level].other[i - 1][0] == '\0'))
		return NULL;
	return t->high_is_medium && strcmp(ladder[level].name, "high") == 0 ?
	    medium[i] : ladder[level].other[i];
}
