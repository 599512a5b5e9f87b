/* SPDX-License-Identifier: ISC */
/* expr.c - parses expressions, with Jinja's precedences. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/chat/parse.h"

static struct chat_node *unary(struct chat_parser *p, int with_filter);

static struct chat_node **
append(struct chat_node **end, struct chat_node *n)
{
	*end = n;
	return &n->next;
}

/* Creates a node for the current token, and advances. */
static struct chat_node *
node_of_token(struct chat_parser *p, enum chat_kind kind, struct chat_node *a)
{
	struct chat_node *n = qwen_chat_node(p, kind);

	qwen_chat_advance(p);
	n->a = a;
	return n;
}

/*
 * Advances past a comma, or past close.  Returns 1 if a list has another
 * element.
 */
static int
another(struct chat_parser *p, const struct chat_node *list, const char *close)
{
	if (qwen_chat_pass(p, close))
		return 0;
	if (list != NULL)
		qwen_chat_expect(p, ",");
	return !p->failed && !qwen_chat_pass(p, close);
}

/* ---------------------------------------------------------------- literals */

/* Decodes the escape whose letter is at *s into out; returns its length. */
static size_t
escape(const char **s, const char *end, char *out)
{
	static const char letter[] = "nrtbfva0\\'\"",
	    means[] = "\n\r\t\b\f\v\a\0\\'\"";
	const char *p = memchr(letter, **s, sizeof letter - 1);
	int digits = **s == 'x' ? 2 : **s == 'u' ? 4 : **s == 'U' ? 8 : 0;
	uint32_t c;

	if (p != NULL) {
		++*s;
		*out = means[p - letter];
		return 1;
	}
	if (**s == '\n') {
		++*s;
		return 0;
	}
	if (digits > 0 && digits < end - *s &&
	    qwen_hex_read(*s + 1, (size_t)digits, &c) == 0 && c <= 0x10ffff &&
	    (c < 0xd800 || c >= 0xe000)) {
		*s += 1 + digits;
		return qwen_utf8_write(c, out);
	}
	*out = '\\';	/* not an escape */
	return 1;
}

/* Adjacent strings are concatenated. */
static struct chat_node *
string(struct chat_parser *p)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_CONST);
	struct chat_text t = { "", 0, qwen_chat_all_own };
	const char *s, *end;
	char *out;

	while (p->l.type == CHAT_T_STRING) {
		out = qwen_chat_parse_alloc(p, t.n + p->l.n);
		if (out == NULL)
			break;
		memcpy(out, t.s, t.n);
		t.s = out;
		end = p->l.s + p->l.n;
		for (s = p->l.s; s < end; ) {
			if (*s != '\\' || s + 1 == end) {
				out[t.n++] = *s++;
				continue;
			}
			s++;
			t.n += escape(&s, end, out + t.n);
		}
		qwen_chat_advance(p);
	}
	n->value = chat_text(t);
	return n;
}

static struct chat_node *
number(struct chat_parser *p)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_CONST);
	const char *s = qwen_chat_word(p);
	int64_t i = 0;

	if (p->l.type == CHAT_T_FLOAT) {
		n->value.type = CHAT_FLOAT;
		n->value.u.f = strtod(s, NULL);
	} else {
		for (; *s != '\0'; s++) {
			if (*s != '_' && (__builtin_mul_overflow(i, 10, &i) ||
			    __builtin_add_overflow(i, *s - '0', &i)))
				qwen_chat_parse_fail(p, "an integer exceeds 64 "
				    "bits");
		}
		n->value = chat_int(i);
	}
	qwen_chat_advance(p);
	return n;
}

/* A name, or a constant such as true. */
static struct chat_node *
name(struct chat_parser *p)
{
	static const struct {
		const char	*name;
		enum chat_type	 type;
		int		 i;
	} word[] = {
		{ "true", CHAT_BOOL, 1 }, { "True", CHAT_BOOL, 1 },
		{ "false", CHAT_BOOL, 0 }, { "False", CHAT_BOOL, 0 },
		{ "none", CHAT_NONE, 0 }, { "None", CHAT_NONE, 0 },
	};
	struct chat_node *n = qwen_chat_node(p, CHAT_K_NAME);
	size_t i;

	n->name = qwen_chat_word(p);
	p->names_caller |= strcmp(n->name, "caller") == 0;
	qwen_chat_advance(p);
	for (i = 0; i < sizeof word / sizeof *word; i++) {
		if (strcmp(n->name, word[i].name) == 0) {
			n->kind = CHAT_K_CONST;
			n->value.type = word[i].type;
			n->value.u.i = word[i].i;
		}
	}
	return n;
}

/* [a, b] */
static struct chat_node *
list(struct chat_parser *p)
{
	struct chat_node *n = node_of_token(p, CHAT_K_LIST, NULL), **end =
	    &n->list;

	while (another(p, n->list, "]"))
		end = append(end, qwen_chat_expr(p));
	return n;
}

/* {a: b}: a list of ARG; a: key, b: value. */
static struct chat_node *
dict(struct chat_parser *p)
{
	struct chat_node *n = node_of_token(p, CHAT_K_DICT, NULL), **end =
	    &n->list;
	struct chat_node *pair;

	while (another(p, n->list, "}")) {
		pair = qwen_chat_node(p, CHAT_K_ARG);
		pair->a = qwen_chat_expr(p);
		qwen_chat_expect(p, ":");
		pair->b = qwen_chat_expr(p);
		end = append(end, pair);
	}
	return n;
}

/* An expression in parentheses, or a tuple, also an empty one. */
static struct chat_node *
bracket(struct chat_parser *p)
{
	struct chat_node *n;

	qwen_chat_advance(p);
	n = qwen_chat_is(p, ")") ? qwen_chat_node(p, CHAT_K_TUPLE) :
	    qwen_chat_exprs(p);
	qwen_chat_expect(p, ")");
	return n;
}

static struct chat_node *
primary(struct chat_parser *p)
{
	switch (p->l.type) {
	case CHAT_T_NAME: return name(p);
	case CHAT_T_STRING: return string(p);
	case CHAT_T_INT: case CHAT_T_FLOAT: return number(p);
	default: break;
	}
	if (qwen_chat_is(p, "["))
		return list(p);
	if (qwen_chat_is(p, "{"))
		return dict(p);
	if (qwen_chat_is(p, "("))
		return bracket(p);
	return qwen_chat_parse_fail(p, "expected an expression");
}

/* ----------------------------------------------------- what follows a value */

/* (a, name=b): a list of ARG; a: value. */
static void
arguments(struct chat_parser *p, struct chat_node **out)
{
	struct chat_node **end = out, *arg;
	struct chat_lexer before;

	qwen_chat_advance(p);
	while (another(p, *out, ")")) {
		arg = qwen_chat_node(p, CHAT_K_ARG);
		before = p->l;
		if (p->l.type == CHAT_T_NAME) {
			arg->name = qwen_chat_expect_name(p);
			if (!p->failed && !qwen_chat_pass(p, "=")) {
				arg->name = NULL;
				p->l = before;
			}
		}
		arg->a = qwen_chat_expr(p);
		end = append(end, arg);
	}
}

/* a[b], or a[b:c:other] with any of these missing. */
static struct chat_node *
subscript(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = node_of_token(p, CHAT_K_ITEM, a);
	struct chat_node **const part[3] = { &n->b, &n->c, &n->other };
	int i;

	for (i = 0; i < 3; i++) {
		if (!qwen_chat_is(p, ":") && !qwen_chat_is(p, "]"))
			*part[i] = qwen_chat_expr(p);
		if (!qwen_chat_pass(p, ":"))
			break;
		n->kind = CHAT_K_SLICE;
	}
	if (n->kind == CHAT_K_ITEM && n->b == NULL)
		qwen_chat_parse_fail(p, "nothing between the brackets");
	qwen_chat_expect(p, "]");
	return n;
}

static struct chat_node *
attribute(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = node_of_token(p, CHAT_K_ATTR, a);

	if (p->l.type == CHAT_T_INT) {
		n->kind = CHAT_K_ITEM;
		n->b = number(p);
	} else
		n->name = qwen_chat_expect_name(p);
	return n;
}

static struct chat_node *
call(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_CALL);

	n->a = a;
	arguments(p, &n->list);
	return n;
}

/* any number of .name, [key] and (arguments) */
static struct chat_node *
postfix(struct chat_parser *p, struct chat_node *n)
{
	for (;;) {
		if (qwen_chat_is(p, "."))
			n = attribute(p, n);
		else if (qwen_chat_is(p, "["))
			n = subscript(p, n);
		else if (qwen_chat_is(p, "("))
			n = call(p, n);
		else
			return n;
	}
}

/* Returns the row of the current name, which must be a known one. */
static const struct chat_builtin *
known_row(struct chat_parser *p, unsigned use, const char *what)
{
	const struct chat_text t = { p->l.s, p->l.n, NULL };
	const struct chat_builtin *row = NULL;

	if (p->l.type == CHAT_T_NAME)
		row = qwen_chat_row_in(use, &t);
	if (row == NULL)
		qwen_chat_parse_fail(p, "unknown %s '%.40s'", what,
		    qwen_chat_word(p));
	qwen_chat_advance(p);
	return row;
}

/* a|name(list), after the "|" */
static struct chat_node *
filter(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_FILTER);

	n->a = a;
	n->row = known_row(p, CHAT_AS_FILTER, "filter");
	if (qwen_chat_is(p, "("))
		arguments(p, &n->list);
	return n;
}

/* Returns 1 if the argument of a test follows without parentheses. */
static int
bare_argument(const struct chat_parser *p)
{
	static const char *const not_one[] = {
		"else", "or", "and", "if", "is", "in", "not",
	};
	size_t i;

	for (i = 0; i < sizeof not_one / sizeof *not_one; i++) {
		if (qwen_chat_is(p, not_one[i]))
			return 0;
	}
	return p->l.type == CHAT_T_NAME || p->l.type == CHAT_T_STRING ||
	    p->l.type == CHAT_T_INT || p->l.type == CHAT_T_FLOAT ||
	    qwen_chat_is(p, "[") || qwen_chat_is(p, "{");
}

/* a is name(list), or with not */
static struct chat_node *
test(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = node_of_token(p, CHAT_K_TEST, a), *out = n;

	if (qwen_chat_is(p, "not"))
		out = node_of_token(p, CHAT_K_NOT, n);
	n->row = known_row(p, CHAT_AS_TEST, "test");
	if (qwen_chat_is(p, "("))
		arguments(p, &n->list);
	else if (bare_argument(p)) {
		n->list = qwen_chat_node(p, CHAT_K_ARG);
		n->list->a = postfix(p, primary(p));
	}
	return out;
}

struct chat_node *
qwen_chat_block_filters(struct chat_parser *p)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_NAME);

	n->name = CHAT_BLOCK_NAME;
	/* no "|" before the first one */
	if (p->l.type == CHAT_T_NAME)
		n = filter(p, n);
	while (qwen_chat_pass(p, "|"))
		n = filter(p, n);
	return n;
}

static struct chat_node *
filters(struct chat_parser *p, struct chat_node *n)
{
	for (;;) {
		if (qwen_chat_pass(p, "|"))
			n = filter(p, n);
		else if (qwen_chat_is(p, "is"))
			n = test(p, n);
		else if (qwen_chat_is(p, "("))
			n = call(p, n);
		else
			return n;
	}
}

/* --------------------------------------------------------------- operators */

static struct chat_node *
unary(struct chat_parser *p, int with_filter)
{
	struct chat_node *n;

	qwen_chat_deeper(p);
	if (qwen_chat_is(p, "-")) {
		n = node_of_token(p, CHAT_K_NEG, NULL);
		n->a = unary(p, 0);
	} else
		n = qwen_chat_pass(p, "+") ? unary(p, 0) : primary(p);
	n = postfix(p, n);
	if (with_filter)
		n = filters(p, n);
	p->depth--;
	return n;
}

/* Levels of the binary operators; a higher level binds more tightly. */
static const int level_of[] = {
	[CHAT_ADD] = 0, [CHAT_SUB] = 0, [CHAT_CONCAT] = 1, [CHAT_MUL] = 2,
	[CHAT_DIV] = 2, [CHAT_FLOORDIV] = 2, [CHAT_MOD] = 2, [CHAT_POW] = 3,
};

/* a op b, left-associative */
static struct chat_node *
binary(struct chat_parser *p, int level)
{
	struct chat_node *a;
	size_t i;

	if (level > 3)
		return unary(p, 1);
	a = binary(p, level + 1);
	for (i = 0; i < sizeof level_of / sizeof *level_of; ) {
		if (level_of[i] != level ||
		    !qwen_chat_is(p, qwen_chat_sign[i])) {
			i++;
			continue;
		}
		a = node_of_token(p, CHAT_K_BINARY, a);
		a->op = (enum chat_op)i;
		a->b = binary(p, level + 1);
		i = 0;
	}
	return a;
}

/* Parses a comparison operator; returns 0 if there is none. */
static int
comparison(struct chat_parser *p, enum chat_op *op)
{
	struct chat_lexer before = p->l;

	for (*op = CHAT_EQ; *op <= CHAT_GE; ++*op) {
		if (qwen_chat_pass(p, qwen_chat_sign[*op]))
			return 1;
	}
	*op = qwen_chat_pass(p, "not") ? CHAT_NOT_IN : CHAT_IN;
	if (qwen_chat_pass(p, "in"))
		return 1;
	if (!p->failed)
		p->l = before;
	return 0;
}

/* a < b < c: a, and a list of ARG with op and a */
static struct chat_node *
compare(struct chat_parser *p)
{
	struct chat_node *a = binary(p, 0), *n = NULL, *arg, **end = NULL;
	enum chat_op op;

	while (comparison(p, &op)) {
		if (n == NULL) {
			n = qwen_chat_node(p, CHAT_K_COMPARE);
			n->a = a;
			end = &n->list;
		}
		arg = qwen_chat_node(p, CHAT_K_ARG);
		arg->a = binary(p, 0);
		arg->op = op;
		end = append(end, arg);
	}
	return n == NULL ? a : n;
}

static struct chat_node *
not_expr(struct chat_parser *p)
{
	struct chat_node *n;

	if (!qwen_chat_is(p, "not"))
		return compare(p);
	qwen_chat_deeper(p);
	n = node_of_token(p, CHAT_K_NOT, NULL);
	n->a = not_expr(p);
	p->depth--;
	return n;
}

/* a and b, or with or: a or b */
static struct chat_node *
logic(struct chat_parser *p, int or)
{
	struct chat_node *a = or ? logic(p, 0) : not_expr(p);

	while (qwen_chat_is(p, or ? "or" : "and")) {
		a = node_of_token(p, or ? CHAT_K_OR : CHAT_K_AND, a);
		a->b = or ? logic(p, 0) : not_expr(p);
	}
	return a;
}

struct chat_node *
qwen_chat_plain_expr(struct chat_parser *p)
{
	struct chat_node *n;

	qwen_chat_deeper(p);
	n = logic(p, 1);
	p->depth--;
	return n;
}

/* a if b else c; c may be missing */
struct chat_node *
qwen_chat_expr(struct chat_parser *p)
{
	struct chat_node *a = qwen_chat_plain_expr(p);

	while (qwen_chat_is(p, "if")) {
		a = node_of_token(p, CHAT_K_IF_ELSE, a);
		a->b = qwen_chat_plain_expr(p);
		if (qwen_chat_pass(p, "else")) {
			qwen_chat_deeper(p);
			a->c = qwen_chat_expr(p);
			p->depth--;
		}
	}
	return a;
}

struct chat_node *
qwen_chat_exprs(struct chat_parser *p)
{
	struct chat_node *a = qwen_chat_expr(p), *n, **end;

	if (!qwen_chat_is(p, ","))
		return a;
	n = qwen_chat_node(p, CHAT_K_TUPLE);
	end = append(&n->list, a);
	while (qwen_chat_pass(p, ",")) {
		if (qwen_chat_is(p, ")") ||
		    p->l.type == CHAT_T_BLOCK_END ||
		    p->l.type == CHAT_T_PRINT_END)
			break;
		end = append(end, qwen_chat_expr(p));
	}
	return n;
}

/* NAME, ATTR of a NAME, or a TUPLE of NAMEs */
struct chat_node *
qwen_chat_target(struct chat_parser *p)
{
	struct chat_node *n = NULL, *tuple = NULL, **end = NULL;

	do {
		if (p->l.type != CHAT_T_NAME)
			return qwen_chat_parse_fail(p, "expected a name");
		n = name(p);
		if (n->kind != CHAT_K_NAME)
			return qwen_chat_parse_fail(p, "this cannot be "
			    "assigned to");
		if (tuple == NULL && qwen_chat_is(p, "."))
			return attribute(p, n);
		if (tuple == NULL && !qwen_chat_is(p, ","))
			return n;
		if (tuple == NULL) {
			tuple = qwen_chat_node(p, CHAT_K_TUPLE);
			end = &tuple->list;
		}
		end = append(end, n);
	} while (qwen_chat_pass(p, ","));
	return tuple;
}
