/* SPDX-License-Identifier: ISC */
/* expr.c - parsing of expressions; the precedences are those of Jinja. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/chat/parse.h"

static struct chat_node *unary(struct chat_parser *p, int with_filter);

static int
append(struct chat_tail *t, struct chat_node *n)
{
	if (n == NULL)
		return -1;
	*t->end = n;
	t->end = &n->next;
	return 0;
}

/* No node, for this reason. */
static struct chat_node *
none(struct chat_parser *p, const char *what)
{
	qwen_chat_parse_fail(p, "%s", what);
	return NULL;
}

/* ---------------------------------------------------------------- literals */

/* The escape whose letter is at *s: what it stands for goes to out. */
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
	*out = '\\';	/* no escape after all */
	return 1;
}

/* Strings that stand side by side are one. */
static struct chat_node *
string(struct chat_parser *p)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_CONST);
	struct chat_text t = { "", 0, qwen_chat_own };
	const char *s, *end;
	char *out;

	if (n == NULL)
		return NULL;
	while (p->l.type == CHAT_T_STRING) {
		out = qwen_chat_parse_alloc(p, t.n + p->l.n);
		if (out == NULL)
			return NULL;
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
		if (qwen_chat_advance(p) < 0)
			return NULL;
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

	if (n == NULL || s == NULL)
		return NULL;
	if (p->l.type == CHAT_T_FLOAT) {
		n->value.type = CHAT_FLOAT;
		n->value.u.f = strtod(s, NULL);
	} else {
		for (; *s != '\0'; s++) {
			if (*s != '_' && (__builtin_mul_overflow(i, 10, &i) ||
			    __builtin_add_overflow(i, *s - '0', &i)))
				return none(p, "an integer over 64 "
				    "bits");
		}
		n->value = chat_int(i);
	}
	return qwen_chat_advance(p) < 0 ? NULL : n;
}

/* A name, or one of those that are values. */
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

	if (n == NULL || (n->name = qwen_chat_word(p)) == NULL)
		return NULL;
	for (i = 0; i < sizeof word / sizeof *word; i++) {
		if (strcmp(n->name, word[i].name) == 0) {
			n->kind = CHAT_K_CONST;
			n->value.type = word[i].type;
			n->value.u.i = word[i].i;
		}
	}
	return qwen_chat_advance(p) < 0 ? NULL : n;
}

/* [a, b] */
static struct chat_node *
list(struct chat_parser *p)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_LIST);
	struct chat_tail tail;

	if (n == NULL || qwen_chat_advance(p) < 0)
		return NULL;
	tail.end = &n->list;
	while (!qwen_chat_is_sign(p, "]")) {
		if (n->list != NULL && qwen_chat_expect(p, ",") < 0)
			return NULL;
		if (qwen_chat_is_sign(p, "]"))
			break;
		if (append(&tail, qwen_chat_expr(p)) < 0)
			return NULL;
	}
	return qwen_chat_advance(p) < 0 ? NULL : n;
}

/* {a: b}: a list of ARG, a the key and b the value. */
static struct chat_node *
dict(struct chat_parser *p)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_DICT), *pair;
	struct chat_tail tail;

	if (n == NULL || qwen_chat_advance(p) < 0)
		return NULL;
	tail.end = &n->list;
	while (!qwen_chat_is_sign(p, "}")) {
		if (n->list != NULL && qwen_chat_expect(p, ",") < 0)
			return NULL;
		if (qwen_chat_is_sign(p, "}"))
			break;
		pair = qwen_chat_node(p, CHAT_K_ARG);
		if (append(&tail, pair) < 0 ||
		    (pair->a = qwen_chat_expr(p)) == NULL ||
		    qwen_chat_expect(p, ":") < 0 ||
		    (pair->b = qwen_chat_expr(p)) == NULL)
			return NULL;
	}
	return qwen_chat_advance(p) < 0 ? NULL : n;
}

/* Something in brackets, or a tuple, which may be empty. */
static struct chat_node *
bracket(struct chat_parser *p)
{
	struct chat_node *n;

	if (qwen_chat_advance(p) < 0)
		return NULL;
	if (qwen_chat_is_sign(p, ")"))
		n = qwen_chat_node(p, CHAT_K_TUPLE);
	else
		n = qwen_chat_exprs(p);
	return n == NULL || qwen_chat_expect(p, ")") < 0 ? NULL : n;
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
	if (qwen_chat_is_sign(p, "["))
		return list(p);
	if (qwen_chat_is_sign(p, "{"))
		return dict(p);
	if (qwen_chat_is_sign(p, "("))
		return bracket(p);
	return none(p, "an expression was expected");
}

/* ------------------------------------------------------- what follows a value */

/* (a, name=b): a list of ARG with the value in a. */
static int
arguments(struct chat_parser *p, struct chat_node **out)
{
	struct chat_tail tail = { out };
	struct chat_node *arg;
	struct chat_lexer before;

	if (qwen_chat_advance(p) < 0)
		return -1;
	while (!qwen_chat_is_sign(p, ")")) {
		if (*out != NULL && qwen_chat_expect(p, ",") < 0)
			return -1;
		if (qwen_chat_is_sign(p, ")"))
			break;
		arg = qwen_chat_node(p, CHAT_K_ARG);
		if (append(&tail, arg) < 0)
			return -1;
		if (p->l.type == CHAT_T_NAME) {
			before = p->l;
			arg->name = qwen_chat_word(p);
			if (arg->name == NULL || qwen_chat_advance(p) < 0)
				return -1;
			if (!qwen_chat_is_sign(p, "=")) {
				arg->name = NULL;
				p->l = before;
			} else if (qwen_chat_advance(p) < 0)
				return -1;
		}
		if ((arg->a = qwen_chat_expr(p)) == NULL)
			return -1;
	}
	return qwen_chat_advance(p);
}

/* a[b], or a[b:c:other], of which each may be missing. */
static struct chat_node *
subscript(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_ITEM), **part[3];
	int i;

	if (n == NULL || qwen_chat_advance(p) < 0)
		return NULL;
	n->a = a;
	part[0] = &n->b;
	part[1] = &n->c;
	part[2] = &n->other;
	for (i = 0; i < 3; i++) {
		if (!qwen_chat_is_sign(p, ":") && !qwen_chat_is_sign(p, "]") &&
		    (*part[i] = qwen_chat_expr(p)) == NULL)
			return NULL;
		if (!qwen_chat_is_sign(p, ":"))
			break;
		n->kind = CHAT_K_SLICE;
		if (qwen_chat_advance(p) < 0)
			return NULL;
	}
	if (n->kind == CHAT_K_ITEM && n->b == NULL)
		return none(p, "nothing between the brackets");
	return qwen_chat_expect(p, "]") < 0 ? NULL : n;
}

static struct chat_node *
attribute(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_ATTR);

	if (n == NULL || qwen_chat_advance(p) < 0)
		return NULL;
	if (p->l.type == CHAT_T_INT) {
		n->kind = CHAT_K_ITEM;
		n->a = a;
		n->b = number(p);
		return n->b == NULL ? NULL : n;
	}
	if (p->l.type != CHAT_T_NAME)
		return none(p, "a name was expected");
	n->a = a;
	n->name = qwen_chat_word(p);
	return n->name == NULL || qwen_chat_advance(p) < 0 ? NULL : n;
}

static struct chat_node *
call(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_CALL);

	if (n == NULL)
		return NULL;
	n->a = a;
	return arguments(p, &n->list) < 0 ? NULL : n;
}

/* .name [key] (arguments), as many as there are */
static struct chat_node *
postfix(struct chat_parser *p, struct chat_node *n)
{
	while (n != NULL) {
		if (qwen_chat_is_sign(p, "."))
			n = attribute(p, n);
		else if (qwen_chat_is_sign(p, "["))
			n = subscript(p, n);
		else if (qwen_chat_is_sign(p, "("))
			n = call(p, n);
		else
			break;
	}
	return n;
}

/* The name that comes, which must be one that the interpreter has. */
static int
known_name(struct chat_parser *p, struct chat_node *n,
    int (*has)(const char *name), const char *what)
{
	n->name = qwen_chat_word(p);
	if (n->name == NULL)
		return -1;
	if (p->l.type != CHAT_T_NAME || !has(n->name))
		return qwen_chat_parse_fail(p, "there is no %s '%.40s'", what,
		    n->name);
	return qwen_chat_advance(p);
}

/* a|name(list) */
static struct chat_node *
filter(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_FILTER);

	if (n == NULL || qwen_chat_advance(p) < 0)
		return NULL;
	n->a = a;
	if (known_name(p, n, qwen_chat_has_filter, "filter") < 0)
		return NULL;
	if (qwen_chat_is_sign(p, "(") && arguments(p, &n->list) < 0)
		return NULL;
	return n;
}

/* A value that follows the name of a test without brackets. */
static int
bare_argument(const struct chat_parser *p)
{
	static const char *const not_one[] = {
		"else", "or", "and", "if", "is", "in", "not",
	};
	size_t i;

	for (i = 0; i < sizeof not_one / sizeof *not_one; i++) {
		if (qwen_chat_is_name(p, not_one[i]))
			return 0;
	}
	return p->l.type == CHAT_T_NAME || p->l.type == CHAT_T_STRING ||
	    p->l.type == CHAT_T_INT || p->l.type == CHAT_T_FLOAT ||
	    qwen_chat_is_sign(p, "[") || qwen_chat_is_sign(p, "{");
}

/* a is name(list), perhaps under NOT */
static struct chat_node *
test(struct chat_parser *p, struct chat_node *a)
{
	struct chat_node *n = qwen_chat_node(p, CHAT_K_TEST), *not_it = NULL;

	if (n == NULL || qwen_chat_advance(p) < 0)
		return NULL;
	if (qwen_chat_is_name(p, "not")) {
		not_it = qwen_chat_node(p, CHAT_K_NOT);
		if (not_it == NULL || qwen_chat_advance(p) < 0)
			return NULL;
		not_it->a = n;
	}
	n->a = a;
	if (known_name(p, n, qwen_chat_has_test, "test") < 0)
		return NULL;
	if (qwen_chat_is_sign(p, "(")) {
		if (arguments(p, &n->list) < 0)
			return NULL;
	} else if (bare_argument(p)) {
		n->list = qwen_chat_node(p, CHAT_K_ARG);
		if (n->list == NULL ||
		    (n->list->a = postfix(p, primary(p))) == NULL)
			return NULL;
	}
	return not_it != NULL ? not_it : n;
}

static struct chat_node *
filters(struct chat_parser *p, struct chat_node *n)
{
	while (n != NULL) {
		if (qwen_chat_is_sign(p, "|"))
			n = filter(p, n);
		else if (qwen_chat_is_name(p, "is"))
			n = test(p, n);
		else if (qwen_chat_is_sign(p, "("))
			n = call(p, n);
		else
			break;
	}
	return n;
}

/* --------------------------------------------------------------- operators */

static struct chat_node *
unary(struct chat_parser *p, int with_filter)
{
	struct chat_node *n;
	int minus = qwen_chat_is_sign(p, "-");

	if (qwen_chat_deeper(p) < 0)
		return NULL;
	if (minus || qwen_chat_is_sign(p, "+")) {
		n = minus ? qwen_chat_node(p, CHAT_K_NEG) : NULL;
		if ((minus && n == NULL) || qwen_chat_advance(p) < 0)
			return NULL;
		if (!minus)
			n = unary(p, 0);
		else if ((n->a = unary(p, 0)) == NULL)
			return NULL;
	} else
		n = primary(p);
	n = postfix(p, n);
	if (with_filter)
		n = filters(p, n);
	p->depth--;
	return n;
}

/* Of each level, from what binds least to what binds most. */
static const struct {
	const char	*sign;
	enum chat_op	 op;
	int		 level;
} ops[] = {
	{ "+", CHAT_ADD, 0 }, { "-", CHAT_SUB, 0 }, { "~", CHAT_CONCAT, 1 },
	{ "*", CHAT_MUL, 2 }, { "/", CHAT_DIV, 2 }, { "//", CHAT_FLOORDIV, 2 },
	{ "%", CHAT_MOD, 2 },
};

/* a op b, from the left */
static struct chat_node *
binary(struct chat_parser *p, int level)
{
	const size_t n_ops = sizeof ops / sizeof *ops;
	struct chat_node *a, *n;
	size_t i;

	if (level > ops[n_ops - 1].level)
		return unary(p, 1);
	a = binary(p, level + 1);
	while (a != NULL) {
		for (i = 0; i < n_ops; i++) {
			if (ops[i].level == level &&
			    qwen_chat_is_sign(p, ops[i].sign))
				break;
		}
		if (i == n_ops)
			break;
		n = qwen_chat_node(p, CHAT_K_BINARY);
		if (n == NULL || qwen_chat_advance(p) < 0)
			return NULL;
		n->op = ops[i].op;
		n->a = a;
		n->b = binary(p, level + 1);
		a = n->b == NULL ? NULL : n;
	}
	return a;
}

/* The comparison that is here: past it, and 1. */
static int
comparison(struct chat_parser *p, enum chat_op *op)
{
	static const char *const sign[] = { "==", "!=", "<", "<=", ">", ">=" };
	struct chat_lexer before = p->l;
	size_t i;

	for (i = 0; i < sizeof sign / sizeof *sign; i++) {
		if (qwen_chat_is_sign(p, sign[i])) {
			*op = (enum chat_op)(CHAT_EQ + i);
			return qwen_chat_advance(p) < 0 ? -1 : 1;
		}
	}
	*op = CHAT_IN;
	if (qwen_chat_is_name(p, "not")) {
		if (qwen_chat_advance(p) < 0)
			return -1;
		*op = CHAT_NOT_IN;
	}
	if (qwen_chat_is_name(p, "in"))
		return qwen_chat_advance(p) < 0 ? -1 : 1;
	p->l = before;
	return 0;
}

/* a and a list of ARG, each with op and a: a < b < c */
static struct chat_node *
compare(struct chat_parser *p)
{
	struct chat_node *a = binary(p, 0), *n = NULL, *arg;
	struct chat_tail tail = { NULL };
	enum chat_op op = CHAT_EQ;
	int there;

	while (a != NULL && (there = comparison(p, &op)) != 0) {
		if (there < 0)
			return NULL;
		if (n == NULL) {
			n = qwen_chat_node(p, CHAT_K_COMPARE);
			if (n == NULL)
				return NULL;
			tail.end = &n->list;
		}
		arg = qwen_chat_node(p, CHAT_K_ARG);
		if (append(&tail, arg) < 0 || (arg->a = binary(p, 0)) == NULL)
			return NULL;
		arg->op = op;
	}
	if (n == NULL)
		return a;
	n->a = a;
	return n;
}

static struct chat_node *
not_expr(struct chat_parser *p)
{
	struct chat_node *n;

	if (!qwen_chat_is_name(p, "not"))
		return compare(p);
	n = qwen_chat_node(p, CHAT_K_NOT);
	if (n == NULL || qwen_chat_deeper(p) < 0 || qwen_chat_advance(p) < 0)
		return NULL;
	n->a = not_expr(p);
	p->depth--;
	return n->a == NULL ? NULL : n;
}

/* a and b, or with or: a or b */
static struct chat_node *
logic(struct chat_parser *p, int or)
{
	struct chat_node *a = or ? logic(p, 0) : not_expr(p), *n;

	while (a != NULL && qwen_chat_is_name(p, or ? "or" : "and")) {
		n = qwen_chat_node(p, or ? CHAT_K_OR : CHAT_K_AND);
		if (n == NULL || qwen_chat_advance(p) < 0)
			return NULL;
		n->a = a;
		n->b = or ? logic(p, 0) : not_expr(p);
		a = n->b == NULL ? NULL : n;
	}
	return a;
}

struct chat_node *
qwen_chat_plain_expr(struct chat_parser *p)
{
	struct chat_node *n;

	if (qwen_chat_deeper(p) < 0)
		return NULL;
	n = logic(p, 1);
	p->depth--;
	return n;
}

/* a if b else c; c may be missing */
struct chat_node *
qwen_chat_expr(struct chat_parser *p)
{
	struct chat_node *a = qwen_chat_plain_expr(p), *n;

	while (a != NULL && qwen_chat_is_name(p, "if")) {
		n = qwen_chat_node(p, CHAT_K_IF_ELSE);
		if (n == NULL || qwen_chat_advance(p) < 0)
			return NULL;
		n->a = a;
		if ((n->b = qwen_chat_plain_expr(p)) == NULL)
			return NULL;
		if (qwen_chat_is_name(p, "else")) {
			if (qwen_chat_advance(p) < 0 ||
			    qwen_chat_deeper(p) < 0)
				return NULL;
			n->c = qwen_chat_expr(p);
			p->depth--;
			if (n->c == NULL)
				return NULL;
		}
		a = n;
	}
	return a;
}

struct chat_node *
qwen_chat_exprs(struct chat_parser *p)
{
	struct chat_node *a = qwen_chat_expr(p), *n;
	struct chat_tail tail;

	if (a == NULL || !qwen_chat_is_sign(p, ","))
		return a;
	n = qwen_chat_node(p, CHAT_K_TUPLE);
	if (n == NULL)
		return NULL;
	tail.end = &n->list;
	append(&tail, a);
	while (qwen_chat_is_sign(p, ",")) {
		if (qwen_chat_advance(p) < 0)
			return NULL;
		if (qwen_chat_is_sign(p, ")") ||
		    p->l.type == CHAT_T_BLOCK_END ||
		    p->l.type == CHAT_T_PRINT_END)
			break;
		if (append(&tail, qwen_chat_expr(p)) < 0)
			return NULL;
	}
	return n;
}

/* NAME, ATTR of a NAME, or a TUPLE of NAMEs */
struct chat_node *
qwen_chat_target(struct chat_parser *p)
{
	struct chat_node *n = NULL, *tuple = NULL;
	struct chat_tail tail = { NULL };

	for (;;) {
		if (p->l.type != CHAT_T_NAME)
			return none(p, "a name was expected");
		n = name(p);
		if (n == NULL)
			return NULL;
		if (n->kind != CHAT_K_NAME)
			return none(p, "this cannot be set");
		if (tuple == NULL && qwen_chat_is_sign(p, "."))
			return attribute(p, n);
		if (tuple == NULL && !qwen_chat_is_sign(p, ","))
			return n;
		if (tuple == NULL) {
			tuple = qwen_chat_node(p, CHAT_K_TUPLE);
			if (tuple == NULL)
				return NULL;
			tail.end = &tuple->list;
		}
		append(&tail, n);
		if (!qwen_chat_is_sign(p, ","))
			return tuple;
		if (qwen_chat_advance(p) < 0)
			return NULL;
	}
}
