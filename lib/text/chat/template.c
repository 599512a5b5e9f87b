/* SPDX-License-Identifier: ISC */
/*
 * template.c - opens templates from names, files and texts, and renders them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"
#include "text/chat/lex.h"
#include "text/chat/request.h"

enum {
	PARSE_MEMORY = 256 << 20,
	REQUEST_MAX = 1 << 30,
};

/* The published templates, made from lib/text/chat/templates. */
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

/* Converts all line ends to LF, as Jinja does. */
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

/*
 * Finds out whether arguments of calls must be objects: they need not if a
 * string of JSON renders the same. -1: out of memory.
 */
static int
parses_arguments(struct qwen_template *t, struct qwen_err *err)
{
	static const char *const arguments[] = {
		"\"{\\\"k\\\": \\\"v\\\"}\"", "{\"k\": \"v\"}"
	};
	struct chat_buf b[2] = { { 0 }, { 0 } };
	struct qwen_err e = { 0 };
	char json[320];
	size_t i;
	int rc[2] = { -1, -1 };

	for (i = 0; i < 2 && strstr(t->source, "arguments") != NULL; i++) {
		snprintf(json, sizeof json, "{\"messages\":[{\"role\":\"user\","
		    "\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
		    "\"\",\"tool_calls\":[{\"id\":\"b\",\"type\":\"function\","
		    "\"function\":{\"name\":\"f\",\"arguments\":%s}}]}]}",
		    arguments[i]);
		rc[i] = qwen_chat_probe(t, json, strlen(json), &b[i], &e);
		if (rc[i] < 0 && e.code == QWEN_ENOMEM)
			break;
	}
	t->parsed_arguments = rc[0] < 0 || (rc[1] == 0 && (b[0].n != b[1].n ||
	    memcmp(b[0].s, b[1].s, b[0].n) != 0));
	qwen_chat_buf_fini(&b[0]);
	qwen_chat_buf_fini(&b[1]);
	return e.code == QWEN_ENOMEM ? qwen_oom(err) : 0;
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
	if ((t = calloc(1, sizeof *t)) == NULL ||
	    (t->source = malloc(n + 1)) == NULL) {
		qwen_template_close(t);
		return qwen_oom(err);
	}
	t->mem.max = PARSE_MEMORY;
	if (n > 0)
		memcpy(t->source, source, n);
	n = normalise(t->source, n);
	t->source[n] = '\0';
	t->xml = strstr(t->source, "<function=") != NULL;
	t->json = !t->xml && strstr(t->source, "<tool_call>") != NULL;
	t->thinks = strstr(t->source, "<think>") != NULL;
	if (qwen_chat_parse(t, t->source, n, err) < 0 ||
	    parses_arguments(t, err) < 0) {
		qwen_template_close(t);
		return -1;
	}
	*out = t;
	return 0;
}

void
qwen_template_set_systems(struct qwen_template *t, enum qwen_systems how)
{
	t->systems = how;
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
	return qwen_fail(err, QWEN_EUNSUP, "unknown template '%.40s'; known "
	    "are %s", name, names);
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
		    "the file has no tokenizer.chat_template");
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

const char *
qwen_template_source(const struct qwen_template *t)
{
	return t->source;
}

int
qwen_template_calls(const struct qwen_template *t)
{
	return t->xml ? QWEN_CALLS_TAGS : t->json ? QWEN_CALLS_JSON : 0;
}

int
qwen_template_names(const struct qwen_template *t, const char *word)
{
	const char *s = t->source;
	size_t n = strlen(word);

	while (n > 0 && (s = strstr(s, word)) != NULL) {
		if ((s == t->source || !chat_is_word(s[-1])) &&
		    !chat_is_word(s[n]))
			return 1;
		s++;
	}
	return 0;
}

/* --------------------------------------------------------------- rendering */

/* An attempt to render: its settings, and its outcome. */
struct attempt {
	int	as_is;		/* use the messages unchanged */
	int	adapt;		/* adapt contents */
	int	fold_systems;	/* 1: fold system messages even if the template
				   seems to accept them; 2: and add no user
				   turn */
	int	add_user;	/* add a user message at the end */
	int	no_raise;	/* raise_exception() does nothing */
	const char *effort;	/* in place of the request's effort, or NULL */
	int	level;		/* level of the request's effort */
	int	eval_error, raised, folds;
	int	continues, repaired;
	enum qwen_thinking thinking;
};

/* Changes the messages as this attempt needs them. */
static int
prepare(struct qwen_chat_request *q, struct chat_exec *r, struct attempt *w)
{
	if (w->as_is)
		return 0;
	if (qwen_chat_contents(r, q->messages) < 0 ||
	    qwen_chat_place_systems(r, q->messages, w->fold_systems,
	    &w->folds) < 0 || (w->add_user ? qwen_chat_add_user(r,
	    q->messages) : qwen_chat_continue(q, r)) < 0)
		return -1;
	qwen_chat_set(r, "messages", *q->messages);
	if (w->adapt)
		return qwen_chat_adapt_contents(r, q->messages);
	return r->failed ? -1 : 0;
}

static int
render(const struct qwen_template *t, const char *json, size_t n,
    struct attempt *w, struct chat_buf *out, struct qwen_err *err)
{
	struct qwen_chat_request q = { 0 };
	struct chat_scope scope = { 0 };
	struct chat_exec r = {
		.mem = { .max = CHAT_MEMORY + CHAT_MEMORY_BYTE * n },
		.steps_max = CHAT_STEPS + CHAT_STEPS_BYTE * (uint64_t)n,
		.out = out, .scope = &scope, .err = err,
		.no_raise = w->no_raise, .t = t,
	};
	int rc;

	if (!w->as_is)
		qwen_chat_set_tokens(&r);
	rc = qwen_chat_open_request(&q, &r, json, n, w->as_is ? 0 :
	    t->parsed_arguments);
	if (rc == 0 && !w->as_is)
		w->level = qwen_chat_take_effort(&r, w->effort);
	if (rc == 0)
		rc = prepare(&q, &r, w);
	r.eval_error = 0;
	if (rc == 0)
		rc = qwen_chat_exec(&r);
	w->eval_error = rc < 0 && r.eval_error;
	w->raised = rc < 0 && r.raised;
	if (rc == 0 && !w->as_is)
		rc = qwen_chat_check_ignored(&r, q.messages, t->source);
	if (rc == 0)
		rc = qwen_chat_cut(&q, &r);
	w->continues = q.continues;
	w->thinking = q.thinking;
	w->repaired = q.repaired;
	qwen_chat_close_request(&q);
	qwen_chat_arena_fini(&r.mem);
	if (rc < 0)
		qwen_chat_buf_fini(out);
	return rc;
}

int
qwen_chat_probe(const struct qwen_template *t, const char *json, size_t n,
    struct chat_buf *out, struct qwen_err *err)
{
	struct attempt w = { .as_is = 1 };

	return render(t, json, n, &w, out, err);
}

/*
 * Returns 1 if the template refuses the request only because it does not end
 * with a user message: with one added, it renders.
 */
static int
wants_user(const struct qwen_template *t, const char *json, size_t n,
    const struct attempt *tried, struct qwen_err *err)
{
	struct attempt w = *tried;
	struct chat_buf b = { 0 };
	int rc;

	w.add_user = 1;
	rc = render(t, json, n, &w, &b, err);
	qwen_chat_buf_fini(&b);
	return rc == 0;
}

/*
 * Chooses the next attempt after a failure.  Returns 1; 0 if none is left; -1
 * if out of memory.
 */
static int
next_attempt(const struct qwen_template *t, const char *json, size_t n,
    struct attempt *w)
{
	struct qwen_err err = { 0 };

	if (w->eval_error && !w->adapt)
		return w->adapt = 1;
	if (w->raised && w->folds && w->fold_systems < 2)
		return ++w->fold_systems > 0;
	if (w->raised && !w->no_raise && t->systems != QWEN_SYSTEMS_TEMPLATE &&
	    wants_user(t, json, n, w, &err))
		return w->no_raise = 1;
	return err.code == QWEN_ENOMEM ? -1 : 0;
}

/*
 * Tries everything with one name of the effort; err is that of the first
 * attempt.
 */
static int
render_attempts(const struct qwen_template *t, const char *json, size_t n,
    struct attempt *w, struct chat_buf *b, struct qwen_err *err)
{
	struct qwen_err again, *at = err;
	int more;

	for (; render(t, json, n, w, b, at) < 0; at = &again) {
		if (at->code == QWEN_ENOMEM || (more = next_attempt(t, json, n,
		    w)) < 0)
			return qwen_oom(err);
		if (more == 0)
			return -1;
	}
	return 0;
}

/*
 * Tries other names of the effort if the template raises an error.  The error
 * is that of the last attempt, without an effort.
 */
static int
render_efforts(const struct qwen_template *t, const char *json, size_t n,
    struct attempt *w, struct chat_buf *b, struct qwen_err *err)
{
	const char *effort = NULL;
	size_t i;
	int level;

	for (i = 0;; i++) {
		*w = (struct attempt){ .effort = effort, .level = -1 };
		if (render_attempts(t, json, n, w, b, err) == 0)
			return 0;
		if (i == 0)
			level = w->level;
		if (err->code == QWEN_ENOMEM || !w->raised ||
		    (effort = qwen_chat_other_effort(t, level, i)) == NULL)
			return -1;
	}
}

int
qwen_template_render(const struct qwen_template *t, const char *json,
    size_t n, struct qwen_prompt **out, struct qwen_err *err)
{
	struct chat_buf b = { 0 };
	struct attempt w;

	*out = NULL;
	if (n > REQUEST_MAX)
		return qwen_fail(err, QWEN_ERANGE, "request of %zu bytes is "
		    "too large", n);
	if (render_efforts(t, json, n, &w, &b, err) < 0)
		return -1;
	*out = qwen_chat_begin(t, &b, err) < 0 ? NULL :
	    calloc(1, sizeof **out);
	if (*out == NULL) {
		qwen_chat_buf_fini(&b);
		return qwen_oom(err);
	}
	(*out)->s = b.s;
	(*out)->own = b.origin;
	(*out)->n = b.n;
	(*out)->continues = w.continues;
	(*out)->thinking = w.thinking;
	(*out)->repaired = w.repaired;
	return 0;
}
