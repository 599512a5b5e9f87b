/* SPDX-License-Identifier: ISC */
/*
 * chat.c - the template language, the origin of each byte, hostile templates,
 * and requests: the cases of chat.test; and long requests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cases.h"
#include "../tap.h"
#include "text/chat/chat.h"
#include "text/chat/request.h"
#include "qwen.h"
#include "qwentext.h"

/* What those that say nothing else are given. */
static char *request;

/* Runs in which there was no memory where some was wanted; how many were done. */
static int starved, fed;

/*
 * Run with k bytes of memory and no more: whatever does not get any, the run
 * ends with an error, or the same text as with all of it.
 */
static int
starve(const struct qwen_template *t, const char *json, size_t n, size_t k)
{
	struct qwen_chat_request q = { 0 };
	struct chat_scope scope = { 0 };
	struct chat_buf out = { 0 };
	struct qwen_err err = { 0 };
	struct chat_exec r = {
		.mem = { .max = SIZE_MAX }, .steps_max = CHAT_STEPS,
		.out = &out, .scope = &scope, .err = &err, .t = t,
	};
	int rc;

	if (qwen_chat_alloc(&r.mem, 1, 1) == NULL || k + 16 > r.mem.left ||
	    qwen_chat_alloc(&r.mem, 1, r.mem.left - k) == NULL)
		abort();
	/* texts that grow are taken elsewhere: too little for another chunk */
	r.mem.max = r.mem.total + (1 << 15) - 1;
	rc = qwen_chat_open_request(&q, &r, json, n, t->parsed_arguments);
	if (rc == 0)
		rc = qwen_chat_exec(&r);
	if (rc < 0 && (err.code == 0 || err.msg[0] == '\0'))
		ok(0, "an error without a word: %.60s", t->source);
	*(rc < 0 ? &starved : &fed) += 1;
	qwen_chat_close_request(&q);
	qwen_chat_buf_fini(&out);
	qwen_chat_arena_fini(&r.mem);
	return rc;
}

/* Does the case's template, or the one that it names, take the request? */
static int
render(const struct test_case *c, struct qwen_prompt **p, struct qwen_err *err)
{
	const struct qwen_text *own = case_get(c, "request");
	const char *json = own != NULL ? own->s : request;
	size_t n = own != NULL ? own->n : strlen(json), k;
	struct qwen_template *t;
	struct qwen_text s;
	int rc;

	*p = NULL;
	if (case_get(c, "use") != NULL)
		rc = qwen_template_open(&t, case_str(c, "use"), err);
	else {
		s = case_build(c, "template");
		rc = qwen_template_open_text(&t, s.s, s.n, err);
		qwen_text_fini(&s);
	}
	if (rc == 0)
		rc = qwen_template_render(t, json, n, p, err);
	for (k = 0; rc == 0 && k < 20000 && starve(t, json, n, k) < 0; )
		k += 16;
	qwen_template_close(t);
	return rc;
}

static int
gives(const struct qwen_prompt *p, const struct qwen_text *want)
{
	struct qwen_str s = qwen_prompt_text(p);

	return s.len == want->n && memcmp(s.s, want->s, s.len) == 0;
}

static int
from_is(const struct qwen_prompt *p, const char *want)
{
	struct qwen_str s = qwen_prompt_text(p);
	const unsigned char *own = qwen_prompt_own(p);
	size_t i;

	for (i = 0; i < s.len && own[i] == (want[i] == 'T'); i++)
		;
	return i == s.len && s.len == strlen(want);
}

/* Turns are those of the template, not those that the user writes. */
static int
turns(const struct qwen_prompt *p, size_t want)
{
	size_t n = 0, at;

	for (at = 0; (at = qwen_prompt_turn(p, at)) < qwen_prompt_text(p).len;
	    at++)
		n++;
	return n == want;
}

static void
check(const struct test_case *c, const struct qwen_prompt *p)
{
	static const char *const thinking[] = {
		[QWEN_THINKING_NONE] = "none", [QWEN_THINKING_OPEN] = "open",
		[QWEN_THINKING_CLOSED] = "closed",
	};
	const char *what = c->l[0].text.s;
	int i;

	for (i = 0; i < c->n; i++) {
		const struct case_line *l = &c->l[i];
		int good;

		if (strcmp(l->key, "gives") == 0)
			good = gives(p, &l->text);
		else if (strcmp(l->key, "from") == 0)
			good = from_is(p, l->text.s);
		else if (strcmp(l->key, "thinking") == 0)
			good = strcmp(l->text.s, thinking[
			    qwen_prompt_thinking(p)]) == 0;
		else if (strcmp(l->key, "turns") == 0)
			good = turns(p, strtoul(l->text.s, NULL, 10));
		else
			continue;
		if (!ok(good, "%s: %.60s", l->key, what))
			fprintf(stderr, "%s\n%s\n", what,
			    qwen_prompt_text(p).s);
	}
}

static void
run_case(const struct test_case *c)
{
	const struct qwen_text *why = case_get(c, "error");
	struct qwen_err err = { 0 };
	struct qwen_prompt *p;
	int rc;

	if (strcmp(c->l[0].key, "request") == 0) {
		free(request);
		request = strdup(c->l[0].text.s);
		return;
	}
	rc = render(c, &p, &err);
	if (why != NULL) {
		if (!ok(rc < 0 && p == NULL && strstr(err.msg, why->s) != NULL,
		    "%s: %.60s", why->s, c->l[0].text.s))
			fprintf(stderr, "says: %s\n", err.msg);
	} else if (rc == 0)
		check(c, p);
	else
		ok(0, "%s: %s", c->l[0].text.s, err.msg);
	qwen_prompt_free(p);
}

/* Requests in which the published templates have much to do. */
static void
large(const char *part)
{
	size_t n = strlen(part), len = 1 << 19, i, at;
	char *s = malloc(len + 3 * n + 300);
	struct qwen_template *t;
	struct qwen_prompt *p;
	struct qwen_err err;

	if (s == NULL)
		exit(1);
	at = (size_t)sprintf(s, "{\"messages\": [{\"role\": \"user\", "
	    "\"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"");
	while (at < len) {
		memcpy(s + at, part, n);
		at += n;
	}
	strcpy(s + at, "\"}, {\"role\": \"user\", \"content\": \"x\"}]}");
	err.msg[0] = '\0';
	for (i = 0; qwen_template_name(i) != NULL; i++) {
		if (qwen_template_open(&t, qwen_template_name(i), NULL) < 0)
			exit(1);
		ok(qwen_template_render(t, s, strlen(s), &p, &err) == 0,
		    "%s: half a megabyte of %s %s", qwen_template_name(i),
		    part, err.msg);
		qwen_prompt_free(p);
		qwen_template_close(t);
	}
	free(s);
}

static void
wrong_requests(void)
{
	struct qwen_template *t;
	struct qwen_prompt *p;
	struct qwen_err err;
	char deep[1000];
	size_t n;

	if (qwen_template_open(&t, "qwen3.6", NULL) < 0)
		exit(1);
	n = (size_t)sprintf(deep, "{\"messages\": ");
	memset(deep + n, '[', 400);
	memset(deep + n + 400, ']', 400);
	strcpy(deep + n + 800, "}");
	ok(qwen_template_render(t, deep, strlen(deep), &p, &err) < 0 &&
	    strstr(err.msg, "too deeply") != NULL, "refused: lists in lists");
	qwen_template_close(t);
	ok(qwen_template_open(&t, "qwen9", &err) < 0 && t == NULL &&
	    strstr(err.msg, "known are qwen3") != NULL &&
	    strstr(err.msg, "qwen3.6-ud") != NULL, "no template qwen9");
}

int
main(void)
{
	static const char words[] = " request template use times each end "
	    "gives from thinking turns error ";
	struct test_case c = { .n = 0 };
	FILE *f = case_open("unit/chat.test");

	while (case_next(&c, f, words))
		run_case(&c);
	fclose(f);
	free(request);
	ok(starved > 10000 && fed > 100, "%d runs without memory", starved);
	large("<");
	large("</think>");
	large("<think></think>");
	large("\\n");
	wrong_requests();
	return done_testing();
}
