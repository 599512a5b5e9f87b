/* SPDX-License-Identifier: ISC */
/* builtin.c - the filters, tests and functions of the template language. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"

typedef int filter_fn(struct chat_run *, const struct chat_value *,
    const struct chat_args *, struct chat_value *);

/* What put_it writes of x, as a value. */
static int
written(struct chat_run *r, const struct chat_value *x, int json, int indent,
    struct chat_value *out)
{
	struct chat_buf b = { 0 };

	if ((json ? qwen_chat_json(r, &b, x, indent) :
	    qwen_chat_print(r, &b, x)) < 0) {
		qwen_chat_buf_fini(&b);
		return -1;
	}
	return qwen_chat_take(r, &b, out);
}

static int
as_text(struct chat_run *r, const struct chat_value *x,
    struct chat_value *out)
{
	if (x->type != CHAT_TEXT)
		return written(r, x, 0, -1, out);
	*out = *x;
	return 0;
}

/* ----------------------------------------------------------------- filters */

static int
f_string(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	(void)a;
	return as_text(r, x, out);
}

static int
f_trim(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	const struct chat_value *set = qwen_chat_arg(a, 0, "chars");
	struct chat_value v;

	if (set != NULL && set->type != CHAT_TEXT && set->type != CHAT_NONE)
		return qwen_chat_fail(r, "trim by %s",
		    qwen_chat_type_name(set));
	if (as_text(r, x, &v) < 0 || qwen_chat_step(r, 1 + v.u.s.n / 64) < 0)
		return -1;
	*out = chat_text(qwen_chat_strip(&v.u.s, set != NULL &&
	    set->type == CHAT_TEXT ? &set->u.s : NULL, 3));
	return 0;
}

static int
f_length(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	size_t n;

	(void)a;
	if (qwen_chat_length(r, x, &n) < 0)
		return -1;
	*out = chat_int((int64_t)n);
	return 0;
}

static int
f_tojson(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	const struct chat_value *indent = qwen_chat_arg(a, 9, "indent");
	int64_t n = indent != NULL && indent->type == CHAT_INT ?
	    indent->u.i : -1;
	size_t i;

	/* As transformers defines it; the others would change the text. */
	for (i = 0; i < a->n_key; i++) {
		if (strcmp(a->key[i], "indent") != 0 &&
		    strcmp(a->key[i], "ensure_ascii") != 0)
			return qwen_chat_fail(r, "tojson with '%.40s'",
			    a->key[i]);
	}
	indent = qwen_chat_arg(a, 9, "ensure_ascii");
	if (n > 16 || (indent != NULL && qwen_chat_true(indent)))
		return qwen_chat_fail(r, "tojson that indents or escapes so");
	return written(r, x, 1, (int)n, out);
}

static int
pairs(struct chat_run *r, const struct chat_dict *d, struct chat_value *out)
{
	struct chat_value *v = qwen_chat_new(r, d->n, sizeof *v), *two;
	size_t i;

	two = v == NULL ? NULL : qwen_chat_new(r, d->n, 2 * sizeof *two);
	if (two == NULL || qwen_chat_step(r, d->n) < 0)
		return -1;
	for (i = 0; i < d->n; i++, two += 2) {
		two[0] = d->p[i].key;
		two[1] = d->p[i].v;
		v[i].type = CHAT_TUPLE;
		v[i].u.l.v = two;
		v[i].u.l.n = 2;
	}
	out->type = CHAT_LIST;
	out->u.l.v = v;
	out->u.l.n = d->n;
	return 0;
}

static int
f_items(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	static struct chat_dict empty;

	(void)a;
	if (x->type == CHAT_DICT)
		return pairs(r, x->u.d, out);
	if (x->type == CHAT_UNDEFINED)
		return pairs(r, &empty, out);
	return qwen_chat_fail(r, "items of %s", qwen_chat_type_name(x));
}

static int
by_name(const void *a, const void *b)
{
	const struct chat_pair *x = a, *y = b;
	size_t n = x->key.u.s.n < y->key.u.s.n ? x->key.u.s.n : y->key.u.s.n;
	int c = n > 0 ? memcmp(x->key.u.s.s, y->key.u.s.s, n) : 0;

	return c != 0 ? c : (x->key.u.s.n > y->key.u.s.n) -
	    (x->key.u.s.n < y->key.u.s.n);
}

/* Jinja sorts without regard to case: only for keys in lower case the same. */
static int
f_dictsort(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	struct chat_dict d;
	size_t i;

	(void)a;
	if (x->type != CHAT_DICT)
		return qwen_chat_fail(r, "dictsort of %s",
		    qwen_chat_type_name(x));
	d.n = d.cap = x->u.d->n;
	d.p = qwen_chat_new(r, d.n, sizeof *d.p);
	if (d.p == NULL || qwen_chat_step(r, 20 * d.n) < 0)
		return -1;
	for (i = 0; i < d.n; i++) {
		d.p[i] = x->u.d->p[i];
		if (d.p[i].key.type != CHAT_TEXT)
			return qwen_chat_fail(r, "dictsort of keys that are "
			    "no strings");
	}
	qsort(d.p, d.n, sizeof *d.p, by_name);
	return pairs(r, &d, out);
}

static int
f_same(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	(void)r;
	(void)a;
	*out = *x;
	return 0;
}

static int
f_default(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	static const struct chat_text none = { "", 0, NULL };
	const struct chat_value *v = qwen_chat_arg(a, 0, "default_value");
	const struct chat_value *falsy = qwen_chat_arg(a, 1, "boolean");

	(void)r;
	if (x->type != CHAT_UNDEFINED && !(falsy != NULL &&
	    qwen_chat_true(falsy) && !qwen_chat_true(x)))
		*out = *x;
	else
		*out = v != NULL ? *v : chat_text(none);
	return 0;
}

static int
f_list(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	(void)a;
	out->type = CHAT_LIST;
	return qwen_chat_iterate(r, x, &out->u.l);
}

/* The first (last) of a collection. */
static int
end_of(struct chat_run *r, const struct chat_value *x, int last,
    struct chat_value *out)
{
	struct chat_list l;

	if (qwen_chat_iterate(r, x, &l) < 0)
		return -1;
	*out = l.n > 0 ? l.v[last ? l.n - 1 : 0] :
	    chat_undefined("an item", 7);
	return 0;
}

static int
f_first(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	(void)a;
	return end_of(r, x, 0, out);
}

static int
f_last(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	(void)a;
	return end_of(r, x, 1, out);
}

static int
f_reverse(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	struct chat_value back = chat_int(-1), v = *x;
	const struct chat_value *part[3] = { NULL, NULL, &back };

	(void)a;
	if (x->type != CHAT_TEXT) {
		v.type = CHAT_LIST;
		if (qwen_chat_iterate(r, x, &v.u.l) < 0)
			return -1;
	}
	return qwen_chat_subset(r, &v, part, out);
}

static int
join(struct chat_run *r, const struct chat_list *l,
    const struct chat_text *between, struct chat_value *out)
{
	struct chat_buf b = { 0 };
	size_t i;

	for (i = 0; i < l->n; i++) {
		if ((i > 0 && between != NULL &&
		    qwen_chat_put(r, &b, between) < 0) ||
		    qwen_chat_step(r, 1) < 0 ||
		    qwen_chat_print(r, &b, &l->v[i]) < 0) {
			qwen_chat_buf_fini(&b);
			return -1;
		}
	}
	return qwen_chat_take(r, &b, out);
}

static int
f_join(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	const struct chat_value *d = qwen_chat_arg(a, 0, "d");
	struct chat_list l;

	if (d != NULL && d->type != CHAT_TEXT)
		return qwen_chat_fail(r, "join by %s",
		    qwen_chat_type_name(d));
	if (qwen_chat_iterate(r, x, &l) < 0)
		return -1;
	return join(r, &l, d != NULL ? &d->u.s : NULL, out);
}

/* A method of texts as a filter. */
static int
as_method(struct chat_run *r, const char *name, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	struct chat_value v;

	if (as_text(r, x, &v) < 0)
		return -1;
	return qwen_chat_method(r, name, &v, a, out);
}

static int
f_upper(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	return as_method(r, "upper", x, a, out);
}

static int
f_lower(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	return as_method(r, "lower", x, a, out);
}

static int
f_capitalize(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	return as_method(r, "capitalize", x, a, out);
}

static int
f_replace(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	return as_method(r, "replace", x, a, out);
}

/* Of what int() takes; anything else is 0, or the argument. */
static int
f_int(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	const struct chat_value *v = qwen_chat_arg(a, 0, "default");
	struct chat_text t;
	int64_t i = 0;
	size_t k;
	int minus;

	(void)r;
	*out = v != NULL ? *v : chat_int(0);
	if (x->type == CHAT_INT || x->type == CHAT_BOOL)
		*out = chat_int(x->u.i);
	if (x->type == CHAT_BIG)
		*out = *x;
	if (x->type == CHAT_FLOAT && fabs(x->u.f) < 9e18)
		*out = chat_int((int64_t)x->u.f);
	if (x->type != CHAT_TEXT)
		return 0;
	t = qwen_chat_strip(&x->u.s, NULL, 3);
	minus = t.n > 0 && t.s[0] == '-';
	for (k = (size_t)minus; k < t.n; k++) {
		if (t.s[k] < '0' || t.s[k] > '9' ||
		    __builtin_mul_overflow(i, 10, &i) ||
		    __builtin_add_overflow(i, t.s[k] - '0', &i))
			return 0;
	}
	if (t.n > (size_t)minus)
		*out = chat_int(minus ? -i : i);
	return 0;
}

static int
f_abs(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	struct chat_value zero = chat_int(0);

	(void)a;
	*out = *x;
	if (x->type == CHAT_FLOAT)
		out->u.f = fabs(x->u.f);
	else if (x->type != CHAT_INT || x->u.i < 0)
		return qwen_chat_binary(r, CHAT_SUB, &zero, x, out);
	return 0;
}

/* Those (keep 1) for whose attribute a test holds, or (keep 0) does not. */
static int
pick(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int attr, int keep, struct chat_value *out)
{
	struct chat_args more = { 0 };
	struct chat_value v, true_test;
	struct chat_list l, chosen = { NULL, 0 };
	size_t first = attr ? 1 : 0, i;
	const char *test = NULL;
	int yes;

	if (a->n_key > 0 || (attr && (a->n < 1 || a->v[0].type != CHAT_TEXT)))
		return qwen_chat_fail(r, "a choice of unknown form");
	if (a->n > first) {
		true_test = a->v[first];
		test = true_test.type == CHAT_TEXT ?
		    qwen_chat_test_name(&true_test.u.s) : NULL;
		if (test == NULL)
			return qwen_chat_fail(r, "a choice by no known test");
		more.v = a->v + first + 1;
		more.n = a->n - first - 1;
	}
	if (qwen_chat_iterate(r, x, &l) < 0 ||
	    (chosen.v = qwen_chat_new(r, l.n, sizeof v)) == NULL)
		return -1;
	for (i = 0; i < l.n; i++) {
		v = l.v[i];
		if (attr && qwen_chat_item(r, &l.v[i], &a->v[0], &v) < 0)
			return -1;
		yes = qwen_chat_true(&v);
		if (qwen_chat_step(r, 1) < 0 || (test != NULL &&
		    qwen_chat_test(r, test, &v, &more, &yes) < 0))
			return -1;
		if (yes == keep)
			chosen.v[chosen.n++] = l.v[i];
	}
	out->type = CHAT_LIST;
	out->u.l = chosen;
	return 0;
}

static int
f_select(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	return pick(r, x, a, 0, 1, out);
}

static int
f_reject(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	return pick(r, x, a, 0, 0, out);
}

static int
f_selectattr(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	return pick(r, x, a, 1, 1, out);
}

static int
f_rejectattr(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, struct chat_value *out)
{
	return pick(r, x, a, 1, 0, out);
}

static const struct filter {
	const char	*name;
	filter_fn	*run;
} filters[] = {
	{ "abs", f_abs }, { "capitalize", f_capitalize },
	{ "count", f_length }, { "d", f_default }, { "default", f_default },
	{ "dictsort", f_dictsort }, { "first", f_first }, { "int", f_int },
	{ "items", f_items }, { "join", f_join }, { "last", f_last },
	{ "length", f_length }, { "list", f_list }, { "lower", f_lower },
	{ "reject", f_reject }, { "rejectattr", f_rejectattr },
	{ "replace", f_replace }, { "reverse", f_reverse },
	{ "safe", f_same }, { "select", f_select },
	{ "selectattr", f_selectattr }, { "string", f_string },
	{ "tojson", f_tojson }, { "trim", f_trim }, { "upper", f_upper },
};

static const struct filter *
find_filter(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof filters / sizeof *filters; i++) {
		if (strcmp(filters[i].name, name) == 0)
			return &filters[i];
	}
	return NULL;
}

int
qwen_chat_has_filter(const char *name)
{
	return find_filter(name) != NULL;
}

int
qwen_chat_filter(struct chat_run *r, const char *name,
    const struct chat_value *x, const struct chat_args *a,
    struct chat_value *out)
{
	return find_filter(name)->run(r, x, a, out);
}

/* ------------------------------------------------------------------- tests */

enum test {
	T_BOOLEAN, T_CALLABLE, T_DEFINED, T_DIVISIBLEBY, T_EQ, T_EVEN, T_FALSE,
	T_FLOAT, T_GE, T_GT, T_IN, T_INTEGER, T_ITERABLE, T_LE, T_LT,
	T_MAPPING, T_NE, T_NONE, T_NUMBER, T_ODD, T_SEQUENCE, T_STRING,
	T_TRUE, T_UNDEFINED,
};

static const struct {
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

/* The table's own spelling of a name, or NULL. */
const char *
qwen_chat_test_name(const struct chat_text *name)
{
	size_t i;

	for (i = 0; i < sizeof tests / sizeof *tests; i++) {
		if (qwen_chat_same_text(name, tests[i].name))
			return tests[i].name;
	}
	return NULL;
}

int
qwen_chat_has_test(const char *name)
{
	struct chat_text t = { name, strlen(name), NULL };

	return qwen_chat_test_name(&t) != NULL;
}

/* Tests that compare with their argument, or divide by it. */
static int
with_argument(struct chat_run *r, enum test t, const struct chat_value *x,
    const struct chat_value *y, int *yes)
{
	struct chat_value left;

	if (y == NULL)
		return qwen_chat_fail(r, "a test without its argument");
	switch (t) {
	case T_EQ: return qwen_chat_compare(r, CHAT_EQ, x, y, yes);
	case T_NE: return qwen_chat_compare(r, CHAT_NE, x, y, yes);
	case T_LT: return qwen_chat_compare(r, CHAT_LT, x, y, yes);
	case T_LE: return qwen_chat_compare(r, CHAT_LE, x, y, yes);
	case T_GT: return qwen_chat_compare(r, CHAT_GT, x, y, yes);
	case T_GE: return qwen_chat_compare(r, CHAT_GE, x, y, yes);
	case T_IN: return qwen_chat_compare(r, CHAT_IN, x, y, yes);
	default: break;
	}
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
	enum test t = T_UNDEFINED;
	size_t i;

	for (i = 0; i < sizeof tests / sizeof *tests; i++) {
		if (strcmp(tests[i].name, name) == 0)
			t = tests[i].test;
	}
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
	struct chat_text name;
	struct chat_value key;
	size_t i;

	if (d == NULL)
		return -1;
	memset(d, 0, sizeof *d);
	if (a->n > a->n_key)
		return qwen_chat_fail(r, "a namespace of a value without a "
		    "name");
	for (i = 0; i < a->n_key; i++) {
		name.s = a->key[i];
		name.n = strlen(a->key[i]);
		name.from = qwen_chat_own;
		key = chat_text(name);
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
	out->type = CHAT_LIST;
	out->u.l.n = (size_t)n;
	out->u.l.v = qwen_chat_new(r, (size_t)n, sizeof *out->u.l.v);
	if (out->u.l.v == NULL)
		return -1;
	for (i = 0; i < n; i++)
		out->u.l.v[i] = chat_int(begin + i * step);
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
