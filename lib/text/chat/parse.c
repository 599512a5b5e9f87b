/* SPDX-License-Identifier: ISC */
/* parse.c - parses a template into a tree of statements. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/parse.h"

struct chat_node *
qwen_chat_parse_fail(struct chat_parser *p, const char *fmt, ...)
{
	char what[120];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (!p->failed)
		qwen_fail(p->err, QWEN_EUNSUP, "chat template, line %u: %s",
		    p->l.at, what);
	p->failed = 1;
	p->l.type = CHAT_T_END;
	return &p->none;
}

void *
qwen_chat_parse_alloc(struct chat_parser *p, size_t n)
{
	void *got = qwen_chat_alloc(&p->t->mem, n, 1);

	if (got == NULL && p->t->mem.no_memory && !p->failed)
		p->failed = qwen_oom(p->err) < 0;
	if (got == NULL)
		qwen_chat_parse_fail(p, "the template is too large");
	return got;
}

void
qwen_chat_advance(struct chat_parser *p)
{
	if (!p->failed)
		p->failed = qwen_chat_next(&p->l, p->err) < 0;
	if (p->failed)
		p->l.type = CHAT_T_END;
}

struct chat_node *
qwen_chat_node(struct chat_parser *p, enum chat_kind kind)
{
	struct chat_node *n = qwen_chat_parse_alloc(p, sizeof *n);

	if (n == NULL)
		return &p->none;
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
		return "";
	memcpy(s, p->l.s, p->l.n);
	s[p->l.n] = '\0';
	return s;
}

int
qwen_chat_is(const struct chat_parser *p, const char *s)
{
	return (p->l.type == CHAT_T_SIGN || p->l.type == CHAT_T_NAME) &&
	    strlen(s) == p->l.n && memcmp(p->l.s, s, p->l.n) == 0;
}

int
qwen_chat_pass(struct chat_parser *p, const char *s)
{
	int here = qwen_chat_is(p, s);

	if (here)
		qwen_chat_advance(p);
	return here;
}

void
qwen_chat_expect(struct chat_parser *p, const char *s)
{
	if (!qwen_chat_pass(p, s))
		qwen_chat_parse_fail(p, "expected '%s'", s);
}

const char *
qwen_chat_expect_name(struct chat_parser *p)
{
	const char *s;

	if (p->l.type != CHAT_T_NAME)
		qwen_chat_parse_fail(p, "expected a name");
	s = qwen_chat_word(p);
	qwen_chat_advance(p);
	return s;
}

void
qwen_chat_deeper(struct chat_parser *p)
{
	if (++p->depth > CHAT_PARSE_DEPTH)
		qwen_chat_parse_fail(p, "nested more than %d deep",
		    CHAT_PARSE_DEPTH);
}

/* -------------------------------------------------------------- statements */

static void statements(struct chat_parser *p, struct chat_node **out);

/* Advances past the end of the tag. */
static void
tag_ends(struct chat_parser *p, enum chat_token end)
{
	if (p->l.type != end)
		qwen_chat_parse_fail(p, "unexpected text at the end of the tag");
	qwen_chat_advance(p);
}

/*
 * Parses the end of the tag, then statements up to the next {% that ends or
 * divides the block.
 */
static void
part(struct chat_parser *p, struct chat_node **out)
{
	tag_ends(p, CHAT_T_BLOCK_END);
	statements(p, out);
}

/*
 * Parses the end of a block, {% name %}, and {% else %} before it if other is
 * not NULL.
 */
static void
last_part(struct chat_parser *p, struct chat_node **other, const char *name)
{
	if (other != NULL && qwen_chat_pass(p, "else"))
		part(p, other);
	qwen_chat_expect(p, name);
	tag_ends(p, CHAT_T_BLOCK_END);
}

/* for a in b if c: list; other if there are no items */
static void
for_block(struct chat_parser *p, struct chat_node *n)
{
	n->a = qwen_chat_target(p);
	qwen_chat_expect(p, "in");
	n->b = qwen_chat_plain_expr(p);
	if (n->a->kind == CHAT_K_ATTR)
		qwen_chat_parse_fail(p, "expected a name");
	if (qwen_chat_pass(p, "if"))
		n->c = qwen_chat_expr(p);
	n->name = qwen_chat_pass(p, "recursive") ? "recursive" : NULL;
	p->loops++;
	part(p, &n->list);
	p->loops--;
	last_part(p, &n->other, "endfor");
}

/* if a: list; other, which is an IF for elif */
static void
if_block(struct chat_parser *p, struct chat_node *n)
{
	for (;;) {
		n->a = qwen_chat_exprs(p);
		part(p, &n->list);
		if (!qwen_chat_is(p, "elif"))
			break;
		n = n->other = qwen_chat_node(p, CHAT_K_IF);
		qwen_chat_advance(p);
	}
	last_part(p, &n->other, "endif");
}

/* set a = b; or a becomes the output of list, filtered by b */
static void
set_block(struct chat_parser *p, struct chat_node *n)
{
	n->a = qwen_chat_target(p);
	if (qwen_chat_pass(p, "=")) {
		n->b = qwen_chat_exprs(p);
		tag_ends(p, CHAT_T_BLOCK_END);
		return;
	}
	n->kind = CHAT_K_SET_BLOCK;
	if (qwen_chat_is(p, "|"))
		n->b = qwen_chat_block_filters(p);
	part(p, &n->list);
	last_part(p, NULL, "endset");
}

/* (a, b=c): ARG with a name and, in a, the default or NULL */
static void
parameters(struct chat_parser *p, struct chat_node **out)
{
	struct chat_node **end = out, *arg;

	qwen_chat_expect(p, "(");
	while (!p->failed && !qwen_chat_pass(p, ")")) {
		if (*out != NULL)
			qwen_chat_expect(p, ",");
		arg = qwen_chat_node(p, CHAT_K_ARG);
		arg->name = qwen_chat_expect_name(p);
		if (qwen_chat_pass(p, "="))
			arg->a = qwen_chat_expr(p);
		*end = arg;
		end = &arg->next;
	}
}

/* Parses the body of a macro or call block, where no loop is open. */
static void
body(struct chat_parser *p, struct chat_node *n, const char *end)
{
	unsigned loops = p->loops;

	p->loops = 0;
	part(p, &n->list);
	p->loops = loops;
	last_part(p, NULL, end);
}

/* macro name(a): list */
static void
macro_block(struct chat_parser *p, struct chat_node *n)
{
	int outside = p->names_caller;

	n->name = qwen_chat_expect_name(p);
	parameters(p, &n->a);
	p->names_caller = 0;
	body(p, n, "endmacro");
	n->takes_caller = p->names_caller;
	p->names_caller = outside;
}

/* call(a) b: b calls a macro, whose caller is list */
static void
call_block(struct chat_parser *p, struct chat_node *n)
{
	n->name = "caller";
	if (qwen_chat_is(p, "("))
		parameters(p, &n->a);
	n->b = qwen_chat_expr(p);
	if (n->b->kind != CHAT_K_CALL)
		qwen_chat_parse_fail(p, "expected a call of a macro");
	body(p, n, "endcall");
}

/* with a=b, c=d: list; a: ARG with target a and value b */
static void
with_block(struct chat_parser *p, struct chat_node *n)
{
	struct chat_node **end = &n->a, *arg;

	while (!p->failed && p->l.type != CHAT_T_BLOCK_END) {
		if (n->a != NULL)
			qwen_chat_expect(p, ",");
		arg = qwen_chat_node(p, CHAT_K_ARG);
		arg->a = qwen_chat_target(p);
		qwen_chat_expect(p, "=");
		arg->b = qwen_chat_expr(p);
		*end = arg;
		end = &arg->next;
	}
	part(p, &n->list);
	last_part(p, NULL, "endwith");
}

/* filter b: the output of list is filtered by b */
static void
filter_block(struct chat_parser *p, struct chat_node *n)
{
	n->b = qwen_chat_block_filters(p);
	part(p, &n->list);
	last_part(p, NULL, "endfilter");
}

static void
do_statement(struct chat_parser *p, struct chat_node *n)
{
	n->a = qwen_chat_exprs(p);
	tag_ends(p, CHAT_T_BLOCK_END);
}

static void
loop_control(struct chat_parser *p, struct chat_node *n)
{
	(void)n;
	if (p->loops == 0)
		qwen_chat_parse_fail(p, "only allowed in a loop");
	tag_ends(p, CHAT_T_BLOCK_END);
}

/* Text to train a model on: an IF without a condition. */
static void
generation_block(struct chat_parser *p, struct chat_node *n)
{
	part(p, &n->list);
	last_part(p, NULL, "endgeneration");
}

/* Parses a statement after its first word. */
static void
block(struct chat_parser *p, const char *word, struct chat_node *n)
{
	static const struct {
		const char	*word;
		void		(*parse)(struct chat_parser *,
				    struct chat_node *);
		enum chat_kind	 kind;
	} statement[] = {
		{ "for", for_block, CHAT_K_FOR }, { "if", if_block, CHAT_K_IF },
		{ "set", set_block, CHAT_K_SET },
		{ "macro", macro_block, CHAT_K_MACRO },
		{ "call", call_block, CHAT_K_CALL_BLOCK },
		{ "with", with_block, CHAT_K_WITH },
		{ "filter", filter_block, CHAT_K_FILTER_BLOCK },
		{ "do", do_statement, CHAT_K_DO },
		{ "break", loop_control, CHAT_K_BREAK },
		{ "continue", loop_control, CHAT_K_CONTINUE },
		{ "generation", generation_block, CHAT_K_IF },
	};
	size_t i;

	for (i = 0; i < sizeof statement / sizeof *statement; i++) {
		if (strcmp(word, statement[i].word) == 0) {
			n->kind = statement[i].kind;
			statement[i].parse(p, n);
			return;
		}
	}
	qwen_chat_parse_fail(p, "unknown statement '%.40s'", word);
}

/* Returns 1 at a word that ends or divides a block; the caller handles it. */
static int
closes(const struct chat_parser *p)
{
	return (p->l.type == CHAT_T_NAME && p->l.n >= 3 &&
	    memcmp(p->l.s, "end", 3) == 0) ||
	    qwen_chat_is(p, "else") || qwen_chat_is(p, "elif");
}

/* {{ ... }} and text are an OUTPUT of a. */
static void
output(struct chat_parser *p, struct chat_node *n)
{
	struct chat_text t = { p->l.s, p->l.n, qwen_chat_all_own };

	if (p->l.type == CHAT_T_DATA) {
		n->a = qwen_chat_node(p, CHAT_K_CONST);
		n->a->value = chat_text(t);
		qwen_chat_advance(p);
		return;
	}
	qwen_chat_advance(p);
	n->a = qwen_chat_exprs(p);
	tag_ends(p, CHAT_T_PRINT_END);
}

/* Parses statements up to the end, or past the {% of a word that closes. */
static void
statements(struct chat_parser *p, struct chat_node **out)
{
	struct chat_node *n;
	const char *word;

	qwen_chat_deeper(p);
	while (p->l.type != CHAT_T_END) {
		n = qwen_chat_node(p, CHAT_K_OUTPUT);
		if (p->l.type == CHAT_T_BLOCK) {
			qwen_chat_advance(p);
			if (closes(p))
				break;
			if (p->l.type != CHAT_T_NAME)
				qwen_chat_parse_fail(p,
				    "expected a statement");
			word = qwen_chat_word(p);
			qwen_chat_advance(p);
			block(p, word, n);
		} else
			output(p, n);
		*out = n;
		out = &n->next;
	}
	p->depth--;
}

int
qwen_chat_parse(struct qwen_template *t, const char *source, size_t n,
    struct qwen_err *err)
{
	struct chat_parser p = { .t = t, .err = err };

	qwen_chat_lex(&p.l, source, n);
	qwen_chat_advance(&p);
	statements(&p, &t->body);
	if (!p.failed && p.l.type != CHAT_T_END)
		qwen_chat_parse_fail(&p, "'%.*s' ends nothing",
		    (int)(p.l.n < 40 ? p.l.n : 40), p.l.s);
	return p.failed ? -1 : 0;
}
