/* SPDX-License-Identifier: ISC */
/* template.c - templates from names, files and texts, and what they render. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"
#include "text/chat/request.h"

enum {
	PARSE_MEMORY = 256 << 20,
	REQUEST_MAX = 1 << 30,
};

/* The published ones, made from lib/text/chat/templates. */
#define TEMPLATE(name) { name, (const char[]){
#define TEMPLATE_END 0 } },
static const struct {
	const char	*name;
	const char	*source;
} builtin[] = {
#include "templates.inc"
};

const char *
qwen_template_name(size_t i)
{
	return i < sizeof builtin / sizeof *builtin ? builtin[i].name : NULL;
}

/* ----------------------------------------------------------------- opening */

/* Line ends of all sorts as LF, as the template language has it. */
static size_t
normalise(char *s, size_t n)
{
	size_t i, k = 0;

	for (i = 0; i < n; i++) {
		if (s[i] == '\r') {
			s[k++] = '\n';
			i += i + 1 < n && s[i + 1] == '\n';
		} else
			s[k++] = s[i];
	}
	return k;
}

int
qwen_template_open_text(struct qwen_template **out, const char *source,
    size_t n, struct qwen_err *err)
{
	struct qwen_template *t;

	*out = NULL;
	if (n > CHAT_TEMPLATE_MAX)
		return qwen_fail(err, QWEN_EUNSUP, "chat template of %zu "
		    "bytes; at most %d are read", n, CHAT_TEMPLATE_MAX);
	if ((t = calloc(1, sizeof *t)) == NULL)
		return qwen_oom(err);
	t->mem.max = PARSE_MEMORY;
	t->source = malloc(n + 1);
	if (t->source == NULL)
		qwen_oom(err);
	else {
		if (n > 0)
			memcpy(t->source, source, n);
		n = normalise(t->source, n);
		t->source[n] = '\0';
	}
	if (t->source == NULL || qwen_chat_parse(t, t->source, n, err) < 0) {
		qwen_template_close(t);
		return -1;
	}
	t->xml = strstr(t->source, "<function=") != NULL;
	t->json = !t->xml && strstr(t->source, "<tool_call>") != NULL;
	t->thinks = strstr(t->source, "<think>") != NULL;
	t->parsed_arguments = t->xml &&
	    strstr(t->source, "arguments is string") == NULL;
	*out = t;
	return 0;
}

int
qwen_template_thinks(const struct qwen_template *t, enum qwen_thinking prompt)
{
	return prompt == QWEN_THINKING_OPEN ||
	    (prompt == QWEN_THINKING_NONE && t->thinks);
}

int
qwen_template_open(struct qwen_template **out, const char *name,
    struct qwen_err *err)
{
	char names[160] = "";
	size_t i, n = 0;

	*out = NULL;
	for (i = 0; i < sizeof builtin / sizeof *builtin; i++) {
		if (strcmp(builtin[i].name, name) == 0)
			return qwen_template_open_text(out, builtin[i].source,
			    strlen(builtin[i].source), err);
	}
	for (i = 0; i < sizeof builtin / sizeof *builtin &&
	    n < sizeof names; i++)
		n += (size_t)snprintf(names + n, sizeof names - n, "%s%s",
		    i > 0 ? ", " : "", builtin[i].name);
	return qwen_fail(err, QWEN_EUNSUP, "there is no template '%.40s'; "
	    "known are %s", name, names);
}

int
qwen_template_open_gguf(struct qwen_template **out, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct qwen_str s;
	int there = qwen_gguf_get_str(g, "tokenizer.chat_template", &s, err);

	*out = NULL;
	if (there <= 0)
		return there < 0 ? -1 : qwen_fail(err, QWEN_EUNSUP,
		    "there is no tokenizer.chat_template");
	if (qwen_template_open_text(out, s.s, s.len, err) < 0)
		return -1;
	if (qwen_template_set_tokens(*out, g, QWEN_BOS_FILE, err) == 0)
		return 0;
	qwen_template_close(*out);
	*out = NULL;
	return -1;
}

void
qwen_template_close(struct qwen_template *t)
{
	if (t == NULL)
		return;
	qwen_chat_arena_fini(&t->mem);
	free(t->source);
	free(t);
}

int
qwen_template_calls(const struct qwen_template *t)
{
	return t->xml ? QWEN_CALLS_TAGS : t->json ? QWEN_CALLS_JSON : 0;
}

static int
is_of_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9') || c == '_';
}

int
qwen_template_names(const struct qwen_template *t, const char *word)
{
	const char *s = t->source;
	size_t n = strlen(word);

	while (n > 0 && (s = strstr(s, word)) != NULL) {
		if ((s == t->source || !is_of_word(s[-1])) &&
		    !is_of_word(s[n]))
			return 1;
		s++;
	}
	return 0;
}

/* --------------------------------------------------------------- rendering */

/* How a run goes, and what came of it. */
struct attempt {
	int		 right;		/* with a request that was put right */
	const char	*effort;	/* in place of its own, or NULL */
	int		 accident, raised;	/* why it failed */
	int		 level;		/* of the request's own effort */
};

static int
attempt(const struct qwen_template *t, const char *json, size_t n,
    struct attempt *a, struct chat_buf *out, struct qwen_err *err)
{
	struct qwen_chat_request q = { 0 };
	struct chat_scope scope = { 0 };
	struct chat_run r = {
		.mem = { .max = CHAT_MEMORY + CHAT_MEMORY_BYTE * n },
		.steps_max = CHAT_STEPS + CHAT_STEPS_BYTE * (uint64_t)n,
		.out = out, .scope = &scope, .err = err,
	};
	int rc;

	qwen_chat_set_tokens(&r, t);
	rc = qwen_chat_open_request(&q, &r, json, n, t->parsed_arguments);
	if (rc == 0)
		a->level = qwen_chat_take_effort(&r, t, a->effort);
	if (rc == 0 && a->right)
		rc = qwen_chat_put_right(&r, q.messages);
	r.accident = 0;
	if (rc == 0)
		rc = qwen_chat_exec(&r, t);
	if (rc == 0) {
		r.accident = 0;
		rc = qwen_chat_check_lost(&r, q.messages, t->source);
	}
	a->accident = rc < 0 && r.accident;
	a->raised = rc < 0 && r.raised;
	qwen_chat_close_request(&q);
	qwen_chat_arena_fini(&r.mem);
	if (rc < 0)
		qwen_chat_buf_fini(out);
	return rc;
}

/* As it is, or put right where the template fails by accident. */
static int
attempt_twice(const struct qwen_template *t, const char *json, size_t n,
    struct attempt *a, struct chat_buf *b, struct qwen_err *err)
{
	struct qwen_err second;

	a->right = 0;
	if (attempt(t, json, n, a, b, err) == 0)
		return 0;
	if (!a->accident)
		return -1;
	a->right = 1;
	if (attempt(t, json, n, a, b, &second) == 0)
		return 0;
	return second.code == QWEN_ENOMEM ? qwen_oom(err) : -1;
}

/* Also with other names of the effort; err is of the last run, without one. */
static int
render(const struct qwen_template *t, const char *json, size_t n,
    struct chat_buf *b, struct qwen_err *err)
{
	struct attempt a = { .level = -1 };
	size_t i;
	int level;

	if (attempt_twice(t, json, n, &a, b, err) == 0)
		return 0;
	level = a.level;
	for (i = 0; a.raised && (a.effort = qwen_chat_other_effort(t, level,
	    i)) != NULL; i++) {
		if (attempt_twice(t, json, n, &a, b, err) == 0)
			return 0;
		if (err->code == QWEN_ENOMEM)
			return -1;
	}
	return -1;
}

int
qwen_template_render(const struct qwen_template *t, const char *json,
    size_t n, struct qwen_prompt **out, struct qwen_err *err)
{
	struct chat_buf b = { 0 };

	*out = NULL;
	if (n > REQUEST_MAX)
		return qwen_fail(err, QWEN_ERANGE, "a request of %zu bytes",
		    n);
	if (render(t, json, n, &b, err) < 0)
		return -1;
	if (qwen_chat_begin(t, &b, err) < 0) {
		qwen_chat_buf_fini(&b);
		return -1;
	}
	*out = calloc(1, sizeof **out);
	if (*out == NULL) {
		qwen_chat_buf_fini(&b);
		return qwen_oom(err);
	}
	(*out)->s = b.s;
	(*out)->own = b.from;
	(*out)->n = b.n;
	return 0;
}
