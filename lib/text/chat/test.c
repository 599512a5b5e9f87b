/* SPDX-License-Identifier: ISC */
/* test.c - the tests and functions of the template language. */
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"

/* ------------------------------------------------------------------- tests */

enum test {
	T_BOOLEAN, T_CALLABLE, T_DEFINED, T_DIVISIBLEBY, T_EQ, T_EVEN, T_FALSE,
	T_FLOAT, T_GE, T_GT, T_IN, T_INTEGER, T_ITERABLE, T_LE, T_LT,
	T_MAPPING, T_NE, T_NONE, T_NUMBER, T_ODD, T_SEQUENCE, T_STRING,
	T_TRUE, T_UNDEFINED,
};

static const struct named {
	const char	*name;
	enum test	 test;
} tests[] = {
	{ "!=", T_NE }, { "<", T_LT }, { "<=", T_LE }, { "==", T_EQ },
	{ ">", T_GT }, { ">=", T_GE }, { "boolean", T_BOOLEAN },
	{ "callable", T_CALLABLE }, { "defined", T_DEFINED },
	{ "divisibleby", T_DIVISIBLEBY }, { "eq", T_EQ },
	{ "equalto", T_EQ }, { "even", T_EVEN }, { "false", T_FALSE },
	{ "float", T_FLOAT }, { "ge", T_GE }, { "greaterthan", T_GT },
	{ "gt", T_GT }, { "in", T_IN }, { "integer", T_INTEGER },
	{ "iterable", T_ITERABLE }, { "le", T_LE }, { "lessthan", T_LT },
	{ "lt", T_LT }, { "mapping", T_MAPPING }, { "ne", T_NE },
	{ "none", T_NONE }, { "number", T_NUMBER }, { "odd", T_ODD },
	{ "sequence", T_SEQUENCE }, { "string", T_STRING },
	{ "true", T_TRUE }, { "undefined", T_UNDEFINED },
};

static const struct named *
find(const struct chat_text *name)
{
	size_t i;

	for (i = 0; i < sizeof tests / sizeof *tests; i++) {
		if (qwen_chat_same_text(name, tests[i].name))
			return &tests[i];
	}
	return NULL;
}

/* The table's own spelling of a name, or NULL. */
const char *
qwen_chat_test_name(const struct chat_text *name)
{
	const struct named *t = find(name);

	return t != NULL ? t->name : NULL;
}

int
qwen_chat_has_test(const char *name)
{
	struct chat_text t = chat_literal(name);

	return find(&t) != NULL;
}

/* Tests that compare with their argument, or divide by it. */
static int
with_argument(struct chat_run *r, enum test t, const struct chat_value *x,
    const struct chat_value *y, int *yes)
{
	static const enum chat_op op[] = {
		[T_EQ] = CHAT_EQ, [T_NE] = CHAT_NE, [T_LT] = CHAT_LT,
		[T_LE] = CHAT_LE, [T_GT] = CHAT_GT, [T_GE] = CHAT_GE,
		[T_IN] = CHAT_IN,
	};
	struct chat_value left;

	if (y == NULL)
		return qwen_chat_fail(r, "a test without its argument");
	if (t != T_DIVISIBLEBY)
		return qwen_chat_compare(r, op[t], x, y, yes);
	if (qwen_chat_binary(r, CHAT_MOD, x, y, &left) < 0)
		return -1;
	*yes = !qwen_chat_true(&left);
	return 0;
}

static int
of_type(enum test t, const struct chat_value *x)
{
	enum chat_type k = x->type;
	int sequence = k == CHAT_TEXT || k == CHAT_LIST || k == CHAT_TUPLE ||
	    k == CHAT_DICT || k == CHAT_UNDEFINED;

	switch (t) {
	case T_BOOLEAN: return k == CHAT_BOOL;
	case T_CALLABLE:
		return k == CHAT_MACRO || k == CHAT_FUNCTION ||
		    k == CHAT_METHOD;
	case T_DEFINED: return k != CHAT_UNDEFINED;
	case T_FALSE: return k == CHAT_BOOL && x->u.i == 0;
	case T_FLOAT: return k == CHAT_FLOAT;
	case T_INTEGER: return k == CHAT_INT || k == CHAT_BIG;
	case T_ITERABLE: return sequence || k == CHAT_LOOP;
	case T_MAPPING: return k == CHAT_DICT;
	case T_NONE: return k == CHAT_NONE;
	case T_NUMBER:
		return k == CHAT_INT || k == CHAT_BIG || k == CHAT_FLOAT ||
		    k == CHAT_BOOL;
	case T_SEQUENCE: return sequence;
	case T_STRING: return k == CHAT_TEXT;
	case T_TRUE: return k == CHAT_BOOL && x->u.i != 0;
	default: return k == CHAT_UNDEFINED;
	}
}

int
qwen_chat_test(struct chat_run *r, const char *name,
    const struct chat_value *x, const struct chat_args *a, int *yes)
{
	const struct chat_value *y = a->n > 0 ? &a->v[0] : NULL;
	struct chat_value two = chat_int(2);
	struct chat_text text = chat_literal(name);
	enum test t = find(&text)->test;

	switch (t) {
	case T_EQ: case T_NE: case T_LT: case T_LE: case T_GT: case T_GE:
	case T_IN: case T_DIVISIBLEBY:
		return with_argument(r, t, x, y, yes);
	case T_EVEN: case T_ODD:
		if (with_argument(r, T_DIVISIBLEBY, x, &two, yes) < 0)
			return -1;
		*yes = *yes == (t == T_EVEN);
		return 0;
	default:
		*yes = of_type(t, x);
		return 0;
	}
}

/* --------------------------------------------------------------- functions */

static int
raise(struct chat_run *r, const struct chat_args *a)
{
	const struct chat_value *v = qwen_chat_arg(a, 0, "message");
	int n = v != NULL && v->type == CHAT_TEXT ?
	    (int)(v->u.s.n < 160 ? v->u.s.n : 160) : 0;

	r->accident = 0;
	return qwen_fail(r->err, QWEN_EFORMAT, "the chat template refuses: "
	    "%.*s", n > 0 ? n : 10, n > 0 ? v->u.s.s : "no reason.");
}

static int
new_dict(struct chat_run *r, enum chat_type type, const struct chat_args *a,
    struct chat_value *out)
{
	struct chat_dict *d = qwen_chat_new(r, 1, sizeof *d);
	struct chat_value key;
	size_t i;

	if (d == NULL)
		return -1;
	memset(d, 0, sizeof *d);
	if (a->n > a->n_key)
		return qwen_chat_fail(r, "a namespace of a value without a "
		    "name");
	for (i = 0; i < a->n_key; i++) {
		key = chat_text(chat_literal(a->key[i]));
		key.u.s.from = qwen_chat_own;
		if (qwen_chat_dict_put(r, d, &key, &a->v[i]) < 0)
			return -1;
	}
	out->type = type;
	out->u.d = d;
	return 0;
}

static int
range(struct chat_run *r, const struct chat_args *a, struct chat_value *out)
{
	int64_t begin = 0, end, step = 1, n = 0, i;
	struct chat_list l = { NULL, 0 };
	size_t k;

	if (a->n < 1 || a->n > 3 || a->n_key > 0)
		return qwen_chat_fail(r, "range() of other than 1 to 3");
	for (k = 0; k < a->n; k++) {
		if (a->v[k].type != CHAT_INT ||
		    a->v[k].u.i > INT64_C(1) << 60 ||
		    a->v[k].u.i < -(INT64_C(1) << 60))
			return qwen_chat_fail(r, "range() of no integer, or a "
			    "very large one");
	}
	end = a->v[a->n > 1].u.i;
	if (a->n > 1)
		begin = a->v[0].u.i;
	if (a->n > 2)
		step = a->v[2].u.i;
	if (step == 0)
		return qwen_chat_fail(r, "range() by steps of zero");
	if (step > 0 && end > begin)
		n = (end - begin - 1) / step + 1;
	if (step < 0 && end < begin)
		n = (begin - end - 1) / -step + 1;
	if (n > CHAT_RANGE_MAX)
		return qwen_chat_limit(r, "a range");
	if (qwen_chat_step(r, (uint64_t)n) < 0)
		return -1;
	if ((l.v = qwen_chat_new(r, (size_t)n, sizeof *l.v)) == NULL)
		return -1;
	for (i = 0; i < n; i++)
		l.v[l.n++] = chat_int(begin + i * step);
	*out = chat_list(l);
	return 0;
}

int
qwen_chat_has_function(const char *name)
{
	return strcmp(name, "namespace") == 0 || strcmp(name, "range") == 0 ||
	    strcmp(name, "dict") == 0 || strcmp(name, "raise_exception") == 0;
}

int
qwen_chat_function(struct chat_run *r, const char *name,
    const struct chat_args *a, struct chat_value *out)
{
	if (strcmp(name, "raise_exception") == 0)
		return raise(r, a);
	if (strcmp(name, "range") == 0)
		return range(r, a, out);
	return new_dict(r, strcmp(name, "dict") == 0 ? CHAT_DICT :
	    CHAT_NAMESPACE, a, out);
}
