/* SPDX-License-Identifier: ISC */
/* parse.c - a template as a tree of statements. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/parse.h"

int
qwen_chat_parse_fail(struct chat_parser *p, const char *fmt, ...)
{
	char what[120];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return qwen_fail(p->err, QWEN_EUNSUP, "chat template, line %u: %s",
	    p->l.at, what);
}

void *
qwen_chat_parse_alloc(struct chat_parser *p, size_t n)
{
	void *got = qwen_chat_alloc(&p->t->mem, n, 1);

	if (got == NULL && p->t->mem.no_memory)
		qwen_oom(p->err);
	else if (got == NULL)
		qwen_chat_parse_fail(p, "it is too large");
	return got;
}

int
qwen_chat_advance(struct chat_parser *p)
{
	return qwen_chat_next(&p->l, p->err);
}

struct chat_node *
qwen_chat_node(struct chat_parser *p, enum chat_kind kind)
{
	struct chat_node *n = qwen_chat_parse_alloc(p, sizeof *n);

	if (n == NULL)
		return NULL;
	memset(n, 0, sizeof *n);
	n->kind = kind;
	n->line = p->l.at;
	return n;
}

const char *
qwen_chat_word(struct chat_parser *p)
{
	char *s = qwen_chat_parse_alloc(p, p->l.n + 1);

	if (s == NULL)
		return NULL;
	memcpy(s, p->l.s, p->l.n);
	s[p->l.n] = '\0';
	return s;
}

static int
is(const struct chat_parser *p, enum chat_token type, const char *s)
{
	return p->l.type == type && strlen(s) == p->l.n &&
	    memcmp(p->l.s, s, p->l.n) == 0;
}

int
qwen_chat_is_sign(const struct chat_parser *p, const char *s)
{
	return is(p, CHAT_T_SIGN, s);
}

int
qwen_chat_is_name(const struct chat_parser *p, const char *s)
{
	return is(p, CHAT_T_NAME, s);
}

int
qwen_chat_expect(struct chat_parser *p, const char *sign)
{
	if (!qwen_chat_is_sign(p, sign))
		return qwen_chat_parse_fail(p, "'%s' was expected", sign);
	return qwen_chat_advance(p);
}

int
qwen_chat_deeper(struct chat_parser *p)
{
	if (++p->depth > CHAT_PARSE_DEPTH)
		return qwen_chat_parse_fail(p, "more than %d things in each "
		    "other", CHAT_PARSE_DEPTH);
	return 0;
}

/* -------------------------------------------------------------- statements */

static int statements(struct chat_parser *p, struct chat_node **out);

/* The end of the tag must be here; past it. */
static int
tag_ends(struct chat_parser *p)
{
	if (p->l.type != CHAT_T_BLOCK_END)
		return qwen_chat_parse_fail(p, "the tag goes on unexpectedly");
	return qwen_chat_advance(p);
}

/* {% name %}, with which a block goes on or ends: past {% and the name. */
static int
keyword(struct chat_parser *p, const char *name)
{
	if (!qwen_chat_is_name(p, name))
		return qwen_chat_parse_fail(p, "'%s' was expected", name);
	return qwen_chat_advance(p);
}

/* Statements up to {% name %}, and past that. */
static int
body(struct chat_parser *p, struct chat_node **out, const char *name)
{
	if (tag_ends(p) < 0 || statements(p, out) < 0 ||
	    keyword(p, name) < 0)
		return -1;
	return tag_ends(p);
}

/* a in b if c: list, or other if there was nothing */
static int
for_block(struct chat_parser *p, struct chat_node *n)
{
	n->kind = CHAT_K_FOR;
	if ((n->a = qwen_chat_target(p)) == NULL || keyword(p, "in") < 0 ||
	    (n->b = qwen_chat_plain_expr(p)) == NULL)
		return -1;
	if (n->a->kind == CHAT_K_ATTR)
		return qwen_chat_parse_fail(p, "a name was expected");
	if (qwen_chat_is_name(p, "if") && (qwen_chat_advance(p) < 0 ||
	    (n->c = qwen_chat_expr(p)) == NULL))
		return -1;
	p->loops++;
	if (tag_ends(p) < 0 || statements(p, &n->list) < 0)
		return -1;
	p->loops--;
	if (qwen_chat_is_name(p, "else"))
		return qwen_chat_advance(p) < 0 ? -1 :
		    body(p, &n->other, "endfor");
	if (keyword(p, "endfor") < 0)
		return -1;
	return tag_ends(p);
}

/* a: list, else other, which an elif makes an IF again */
static int
if_block(struct chat_parser *p, struct chat_node *n)
{
	for (;;) {
		n->kind = CHAT_K_IF;
		if ((n->a = qwen_chat_exprs(p)) == NULL || tag_ends(p) < 0 ||
		    statements(p, &n->list) < 0)
			return -1;
		if (!qwen_chat_is_name(p, "elif"))
			break;
		n->other = qwen_chat_node(p, CHAT_K_IF);
		if (n->other == NULL || qwen_chat_advance(p) < 0)
			return -1;
		n = n->other;
	}
	if (qwen_chat_is_name(p, "else"))
		return qwen_chat_advance(p) < 0 ? -1 :
		    body(p, &n->other, "endif");
	if (keyword(p, "endif") < 0)
		return -1;
	return tag_ends(p);
}

/* a = b; or a is what list writes */
static int
set_block(struct chat_parser *p, struct chat_node *n)
{
	n->kind = CHAT_K_SET;
	if ((n->a = qwen_chat_target(p)) == NULL)
		return -1;
	if (qwen_chat_is_sign(p, "=")) {
		if (qwen_chat_advance(p) < 0 ||
		    (n->b = qwen_chat_exprs(p)) == NULL)
			return -1;
		return tag_ends(p);
	}
	n->kind = CHAT_K_SET_BLOCK;
	return body(p, &n->list, "endset");
}

/* name(a): list; a are ARG with a name and, in a, perhaps a default */
static int
macro_block(struct chat_parser *p, struct chat_node *n)
{
	struct chat_node **end = &n->a, *arg;
	unsigned loops = p->loops;
	int rc;

	n->kind = CHAT_K_MACRO;
	if (p->l.type != CHAT_T_NAME)
		return qwen_chat_parse_fail(p, "a name was expected");
	if ((n->name = qwen_chat_word(p)) == NULL ||
	    qwen_chat_advance(p) < 0 || qwen_chat_expect(p, "(") < 0)
		return -1;
	while (!qwen_chat_is_sign(p, ")")) {
		if (n->a != NULL && qwen_chat_expect(p, ",") < 0)
			return -1;
		if (p->l.type != CHAT_T_NAME)
			return qwen_chat_parse_fail(p, "a name was expected");
		arg = qwen_chat_node(p, CHAT_K_ARG);
		if (arg == NULL || (arg->name = qwen_chat_word(p)) == NULL ||
		    qwen_chat_advance(p) < 0)
			return -1;
		if (qwen_chat_is_sign(p, "=") && (qwen_chat_advance(p) < 0 ||
		    (arg->a = qwen_chat_expr(p)) == NULL))
			return -1;
		*end = arg;
		end = &arg->next;
	}
	p->loops = 0;
	rc = qwen_chat_advance(p) < 0 ? -1 : body(p, &n->list, "endmacro");
	p->loops = loops;
	return rc;
}

static int
loop_control(struct chat_parser *p, struct chat_node *n, enum chat_kind kind)
{
	n->kind = kind;
	if (p->loops == 0)
		return qwen_chat_parse_fail(p, "this is in no loop");
	return tag_ends(p);
}

/* What comes after the word that the tag begins with. */
static int
block(struct chat_parser *p, const char *word, struct chat_node *n)
{
	if (strcmp(word, "for") == 0)
		return for_block(p, n);
	if (strcmp(word, "if") == 0)
		return if_block(p, n);
	if (strcmp(word, "set") == 0)
		return set_block(p, n);
	if (strcmp(word, "macro") == 0)
		return macro_block(p, n);
	if (strcmp(word, "break") == 0)
		return loop_control(p, n, CHAT_K_BREAK);
	if (strcmp(word, "continue") == 0)
		return loop_control(p, n, CHAT_K_CONTINUE);
	/* Marks what a model is trained to say; an IF without a condition. */
	if (strcmp(word, "generation") == 0) {
		n->kind = CHAT_K_IF;
		return body(p, &n->list, "endgeneration");
	}
	return qwen_chat_parse_fail(p, "there is no statement '%.40s'", word);
}

/* A word with which the statements end: that is for who called. */
static int
closes(const struct chat_parser *p)
{
	return (p->l.type == CHAT_T_NAME && p->l.n >= 3 &&
	    memcmp(p->l.s, "end", 3) == 0) ||
	    qwen_chat_is_name(p, "else") || qwen_chat_is_name(p, "elif");
}

/* {{ ... }}, and text, are an OUTPUT of a */
static int
output(struct chat_parser *p, struct chat_node *n)
{
	struct chat_text t = { p->l.s, p->l.n, qwen_chat_own };

	n->kind = CHAT_K_OUTPUT;
	if (p->l.type == CHAT_T_DATA) {
		n->a = qwen_chat_node(p, CHAT_K_CONST);
		if (n->a == NULL)
			return -1;
		n->a->value = chat_text(t);
		return qwen_chat_advance(p);
	}
	if (qwen_chat_advance(p) < 0 || (n->a = qwen_chat_exprs(p)) == NULL)
		return -1;
	if (p->l.type != CHAT_T_PRINT_END)
		return qwen_chat_parse_fail(p, "the tag goes on unexpectedly");
	return qwen_chat_advance(p);
}

/* All up to the end, or past the {% of one that closes. */
static int
statements(struct chat_parser *p, struct chat_node **out)
{
	struct chat_node *n;
	const char *word;

	if (qwen_chat_deeper(p) < 0)
		return -1;
	while (p->l.type != CHAT_T_END) {
		n = qwen_chat_node(p, CHAT_K_OUTPUT);
		if (n == NULL)
			return -1;
		if (p->l.type == CHAT_T_BLOCK) {
			if (qwen_chat_advance(p) < 0)
				return -1;
			if (closes(p))
				break;
			if (p->l.type != CHAT_T_NAME)
				return qwen_chat_parse_fail(p,
				    "a statement was expected");
			if ((word = qwen_chat_word(p)) == NULL ||
			    qwen_chat_advance(p) < 0 || block(p, word, n) < 0)
				return -1;
		} else if (output(p, n) < 0)
			return -1;
		*out = n;
		out = &n->next;
	}
	p->depth--;
	return 0;
}

int
qwen_chat_parse(struct qwen_template *t, const char *source, size_t n,
    struct qwen_err *err)
{
	struct chat_parser p = { .t = t, .err = err };

	qwen_chat_lex(&p.l, source, n);
	if (qwen_chat_advance(&p) < 0 || statements(&p, &t->body) < 0)
		return -1;
	if (p.l.type != CHAT_T_END)
		return qwen_chat_parse_fail(&p, "'%.*s' without a beginning",
		    (int)(p.l.n < 40 ? p.l.n : 40), p.l.s);
	return 0;
}
