/* SPDX-License-Identifier: ISC */
/* test.c - tests and functions of the template language. */
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"

/* ------------------------------------------------------------------- tests */

#define OF(type) (1 << CHAT_##type)
#define SEQUENCE (OF(TEXT) | OF(LIST) | OF(TUPLE) | OF(DICT) | OF(UNDEFINED))
#define INTEGER (OF(INT) | OF(BIG))

/* variant: a set of types. */
static struct chat_value
t_type(const struct chat_builtin_call *c)
{
	return chat_bool((unsigned)c->variant >> c->x->type & 1);
}

/* variant: the boolean value. */
static struct chat_value
t_is(const struct chat_builtin_call *c)
{
	return chat_bool(c->x->type == CHAT_BOOL && c->x->u.i == c->variant);
}

/* Returns the argument that a test requires; fails with NULL. */
static const struct chat_value *
other(const struct chat_builtin_call *c)
{
	if (c->a->n == 0)
		qwen_chat_fail(c->r, "a test lacks its argument");
	return c->a->n > 0 ? &c->a->v[0] : NULL;
}

/* variant: an operator. */
static struct chat_value
t_compare(const struct chat_builtin_call *c)
{
	const struct chat_value *y = other(c);

	return chat_bool(y != NULL &&
	    qwen_chat_compare(c->r, (enum chat_op)c->variant, c->x, y));
}

static struct chat_value
t_divisible(const struct chat_builtin_call *c)
{
	const struct chat_value *y = other(c);

	return chat_bool(y != NULL && !qwen_chat_true(qwen_chat_binary(c->r,
	    CHAT_MOD, c->x, y)));
}

/* variant: the remainder of division by 2. */
static struct chat_value
t_parity(const struct chat_builtin_call *c)
{
	struct chat_value two = chat_int(2);

	return chat_bool(qwen_chat_true(qwen_chat_binary(c->r, CHAT_MOD, c->x,
	    &two)) == c->variant);
}

static struct chat_value
t_same(const struct chat_builtin_call *c)
{
	const struct chat_value *y = other(c), *x = c->x;

	if (y == NULL || x->type != y->type)
		return chat_bool(0);
	/* Python's singletons, and equal addresses */
	return chat_bool(x->type == CHAT_LIST || x->type == CHAT_TUPLE ?
	    x->u.l.v == y->u.l.v && x->u.l.n == y->u.l.n :
	    x->type == CHAT_DICT || x->type == CHAT_NAMESPACE ?
	    x->u.d == y->u.d : qwen_chat_equal(c->r, x, y));
}

/* --------------------------------------------------------------- functions */

static struct chat_value
raise(const struct chat_builtin_call *c)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "message");
	int n = v != NULL && v->type == CHAT_TEXT ?
	    (int)(v->u.s.n < 160 ? v->u.s.n : 160) : 0;

	if (c->r->no_raise)
		return chat_cstr("");
	c->r->failed = c->r->raised = 1;
	c->r->eval_error = 0;
	qwen_fail(c->r->err, QWEN_EFORMAT, "the chat template refuses: %.*s",
	    n > 0 ? n : 10, n > 0 ? v->u.s.s : "no reason.");
	return chat_undefined("", 0);
}

/*
 * dict() and namespace(): a copy of a dictionary, if given, and named values.
 */
static struct chat_value
new_dict(const struct chat_builtin_call *c)
{
	struct chat_value out = qwen_chat_new_dict(c->r,
	    (enum chat_type)c->variant), key;
	size_t i, plain = c->a->n - c->a->n_key;
	const struct chat_dict *d;

	if (plain > 1 || (plain == 1 && c->a->v[0].type != CHAT_DICT))
		return chat_refuse(c, "dict() and namespace() take one "
		    "dictionary and named values");
	d = plain == 1 ? c->a->v[0].u.d : NULL;
	if (d != NULL && qwen_chat_step(c->r, d->n) == 0)
		qwen_chat_put_all(c->r, out.u.d, d);
	for (i = 0; i < c->a->n_key && !c->r->failed; i++) {
		key = chat_cstr(c->a->key[i]);
		key.u.s.origin = qwen_chat_all_own;
		qwen_chat_dict_put(c->r, out.u.d, &key, &c->a->v[plain + i]);
	}
	return out;
}

static struct chat_value
range(const struct chat_builtin_call *c)
{
	const struct chat_args *a = c->a;
	int64_t begin = 0, end = 0, step = 1, n = 0;
	struct chat_list l = { NULL, 0 };
	size_t k;

	if (a->n < 1 || a->n > 3 || a->n_key > 0)
		qwen_chat_fail(c->r, "range() takes 1 to 3 arguments");
	for (k = 0; k < a->n; k++) {
		if (a->v[k].type != CHAT_INT ||
		    a->v[k].u.i > INT64_C(1) << 60 ||
		    a->v[k].u.i < -(INT64_C(1) << 60))
			qwen_chat_fail(c->r, "range() needs integers of "
			    "moderate size");
	}
	if (c->r->failed)
		return chat_list(l);
	end = a->v[a->n > 1].u.i;
	if (a->n > 1)
		begin = a->v[0].u.i;
	if (a->n > 2)
		step = a->v[2].u.i;
	if (step == 0)
		qwen_chat_fail(c->r, "range() with step 0");
	if (step > 0 && end > begin)
		n = (end - begin - 1) / step + 1;
	if (step < 0 && end < begin)
		n = (begin - end - 1) / -step + 1;
	if (n > CHAT_RANGE_MAX)
		qwen_chat_limit(c->r, "a range");
	else
		l = qwen_chat_new_list(c->r, (size_t)n);
	for (k = 0; k < l.n; k++)
		l.v[k] = chat_int(begin + (int64_t)k * step);
	return chat_list(l);
}

enum { TIME_MAX = 1000 };	/* bytes of a format, and of its result */

void
qwen_template_set_clock(struct qwen_template *t,
    int (*now)(void *arg, struct tm *out), void *arg)
{
	t->now = now;
	t->now_arg = arg;
}

/* strftime_now(): the time from the caller's clock, as text. */
static struct chat_value
now(const struct chat_builtin_call *c)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "format");
	char form[TIME_MAX + 2], out[TIME_MAX + 2];
	struct chat_buf b = { 0 };
	struct tm tm = { 0 };
	size_t n;

	if (c->a->n != 1 || v == NULL || v->type != CHAT_TEXT ||
	    v->u.s.n > TIME_MAX || memchr(v->u.s.s, '\0', v->u.s.n) != NULL)
		return chat_refuse(c, "strftime_now needs one short string");
	if (c->r->t->now == NULL || c->r->t->now(c->r->t->now_arg, &tm) < 0)
		return chat_refuse(c, "strftime_now is not available: no clock "
		    "was set");
	/* strftime() returns 0 for an empty result too, so add a space */
	memcpy(form, v->u.s.s, v->u.s.n);
	form[v->u.s.n] = ' ';
	form[v->u.s.n + 1] = '\0';
	qwen_chat_step(c->r, 500 + v->u.s.n);
	n = strftime(out, sizeof out, form, &tm);
	if (n == 0)
		return chat_refuse(c, "strftime_now: the result exceeds %d "
		    "bytes", TIME_MAX);
	qwen_chat_put_data(c->r, &b, out, n - 1);
	return qwen_chat_buf_value(c->r, &b);
}

const struct chat_builtin qwen_chat_in_tests[] = {
	TEST("== eq equalto", t_compare, CHAT_EQ),
	TEST("!= ne", t_compare, CHAT_NE),
	TEST("< lt lessthan", t_compare, CHAT_LT),
	TEST("<= le", t_compare, CHAT_LE), TEST(">= ge", t_compare, CHAT_GE),
	TEST("> gt greaterthan", t_compare, CHAT_GT),
	TEST("in", t_compare, CHAT_IN), TEST("divisibleby", t_divisible, 0),
	TEST("even", t_parity, 0), TEST("odd", t_parity, 1),
	TEST("false", t_is, 0), TEST("true", t_is, 1),
	TEST("sameas", t_same, 0),
	TEST("boolean", t_type, OF(BOOL)), TEST("float", t_type, OF(FLOAT)),
	TEST("integer", t_type, INTEGER), TEST("mapping", t_type, OF(DICT)),
	TEST("none", t_type, OF(NONE)), TEST("string", t_type, OF(TEXT)),
	TEST("number", t_type, INTEGER | OF(FLOAT) | OF(BOOL)),
	TEST("undefined", t_type, OF(UNDEFINED)),
	TEST("defined", t_type, ~OF(UNDEFINED)),
	TEST("sequence", t_type, SEQUENCE),
	TEST("iterable", t_type, SEQUENCE | OF(LOOP)),
	TEST("callable", t_type, OF(MACRO) | OF(FUNCTION) | OF(METHOD) |
	    OF(JOINER)),
	FUNCTION("dict", new_dict, CHAT_DICT),
	FUNCTION("namespace", new_dict, CHAT_NAMESPACE),
	FUNCTION("raise_exception", raise, 0), FUNCTION("range", range, 0),
	FUNCTION("strftime_now", now, 0),
	{ NULL, NULL, 0, 0 }
};
