/* SPDX-License-Identifier: ISC */
/* test.c - the tests and functions of the template language. */
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"

/* ------------------------------------------------------------------- tests */

#define OF(type) (1u << (type))
#define SEQUENCE (OF(CHAT_TEXT) | OF(CHAT_LIST) | OF(CHAT_TUPLE) | \
    OF(CHAT_DICT) | OF(CHAT_UNDEFINED))
#define INTEGER (OF(CHAT_INT) | OF(CHAT_BIG))

static const struct test {
	const char	*name;
	enum { TYPES, IS, COMPARE, DIVIDES, PARITY } how;
	unsigned	 what;		/* a set of types; the value; an
					   operator; nothing; the rest */
} tests[] = {
	{ "!=", COMPARE, CHAT_NE }, { "<", COMPARE, CHAT_LT },
	{ "<=", COMPARE, CHAT_LE }, { "==", COMPARE, CHAT_EQ },
	{ ">", COMPARE, CHAT_GT }, { ">=", COMPARE, CHAT_GE },
	{ "boolean", TYPES, OF(CHAT_BOOL) },
	{ "callable", TYPES,
	    OF(CHAT_MACRO) | OF(CHAT_FUNCTION) | OF(CHAT_METHOD) },
	{ "defined", TYPES, ~OF(CHAT_UNDEFINED) },
	{ "divisibleby", DIVIDES, 0 }, { "eq", COMPARE, CHAT_EQ },
	{ "equalto", COMPARE, CHAT_EQ }, { "even", PARITY, 0 },
	{ "false", IS, 0 }, { "float", TYPES, OF(CHAT_FLOAT) },
	{ "ge", COMPARE, CHAT_GE }, { "greaterthan", COMPARE, CHAT_GT },
	{ "gt", COMPARE, CHAT_GT }, { "in", COMPARE, CHAT_IN },
	{ "integer", TYPES, INTEGER },
	{ "iterable", TYPES, SEQUENCE | OF(CHAT_LOOP) },
	{ "le", COMPARE, CHAT_LE }, { "lessthan", COMPARE, CHAT_LT },
	{ "lt", COMPARE, CHAT_LT }, { "mapping", TYPES, OF(CHAT_DICT) },
	{ "ne", COMPARE, CHAT_NE }, { "none", TYPES, OF(CHAT_NONE) },
	{ "number", TYPES, INTEGER | OF(CHAT_FLOAT) | OF(CHAT_BOOL) },
	{ "odd", PARITY, 1 }, { "sequence", TYPES, SEQUENCE },
	{ "string", TYPES, OF(CHAT_TEXT) }, { "true", IS, 1 },
	{ "undefined", TYPES, OF(CHAT_UNDEFINED) },
};

static const struct test *
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
	const struct test *t = find(name);

	return t != NULL ? t->name : NULL;
}

int
qwen_chat_has_test(const char *name)
{
	struct chat_text t = chat_literal(name);

	return find(&t) != NULL;
}

int
qwen_chat_test(struct chat_run *r, const char *name,
    const struct chat_value *x, const struct chat_args *a)
{
	const struct chat_value *y = a->n > 0 ? &a->v[0] : NULL;
	struct chat_value two = chat_int(2), left;
	struct chat_text text = chat_literal(name);
	const struct test *t = find(&text);

	if (t->how == TYPES)
		return t->what >> x->type & 1;
	if (t->how == IS)
		return x->type == CHAT_BOOL && x->u.i == (int64_t)t->what;
	if (t->how == PARITY)
		y = &two;
	if (y == NULL) {
		qwen_chat_fail(r, "a test without its argument");
		return 0;
	}
	if (t->how == COMPARE)
		return qwen_chat_compare(r, (enum chat_op)t->what, x, y);
	left = qwen_chat_binary(r, CHAT_MOD, x, y);
	return qwen_chat_true(&left) == (int)t->what;
}

/* --------------------------------------------------------------- functions */

static void
raise(struct chat_run *r, const struct chat_args *a)
{
	const struct chat_value *v = qwen_chat_arg(a, 0, "message");
	int n = v != NULL && v->type == CHAT_TEXT ?
	    (int)(v->u.s.n < 160 ? v->u.s.n : 160) : 0;

	r->failed = 1;
	r->accident = 0;
	qwen_fail(r->err, QWEN_EFORMAT, "the chat template refuses: %.*s",
	    n > 0 ? n : 10, n > 0 ? v->u.s.s : "no reason.");
}

static struct chat_value
new_dict(struct chat_run *r, enum chat_type type, const struct chat_args *a)
{
	struct chat_value out = qwen_chat_new_dict(r, type), key;
	size_t i;

	if (a->n > a->n_key)
		qwen_chat_fail(r, "a namespace of a value without a name");
	for (i = 0; i < a->n_key && !r->failed; i++) {
		key = chat_text(chat_literal(a->key[i]));
		key.u.s.from = qwen_chat_own;
		qwen_chat_dict_put(r, out.u.d, &key, &a->v[i]);
	}
	return out;
}

static struct chat_value
range(struct chat_run *r, const struct chat_args *a)
{
	int64_t begin = 0, end = 0, step = 1, n = 0;
	struct chat_list l = { NULL, 0 };
	size_t k;

	if (a->n < 1 || a->n > 3 || a->n_key > 0)
		qwen_chat_fail(r, "range() of other than 1 to 3");
	for (k = 0; k < a->n; k++) {
		if (a->v[k].type != CHAT_INT ||
		    a->v[k].u.i > INT64_C(1) << 60 ||
		    a->v[k].u.i < -(INT64_C(1) << 60))
			qwen_chat_fail(r, "range() of no integer, or a "
			    "very large one");
	}
	if (r->failed)
		return chat_list(l);
	end = a->v[a->n > 1].u.i;
	if (a->n > 1)
		begin = a->v[0].u.i;
	if (a->n > 2)
		step = a->v[2].u.i;
	if (step == 0)
		qwen_chat_fail(r, "range() by steps of zero");
	if (step > 0 && end > begin)
		n = (end - begin - 1) / step + 1;
	if (step < 0 && end < begin)
		n = (begin - end - 1) / -step + 1;
	if (n > CHAT_RANGE_MAX)
		qwen_chat_limit(r, "a range");
	else
		l = qwen_chat_new_list(r, (size_t)n);
	for (k = 0; k < l.n; k++)
		l.v[k] = chat_int(begin + (int64_t)k * step);
	return chat_list(l);
}

int
qwen_chat_has_function(const char *name)
{
	return strcmp(name, "namespace") == 0 || strcmp(name, "range") == 0 ||
	    strcmp(name, "dict") == 0 || strcmp(name, "raise_exception") == 0;
}

struct chat_value
qwen_chat_function(struct chat_run *r, const char *name,
    const struct chat_args *a)
{
	if (strcmp(name, "range") == 0)
		return range(r, a);
	if (strcmp(name, "raise_exception") == 0)
		raise(r, a);
	return new_dict(r, strcmp(name, "dict") == 0 ? CHAT_DICT :
	    CHAT_NAMESPACE, a);
}
