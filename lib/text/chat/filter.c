/* SPDX-License-Identifier: ISC */
/* filter.c - the filters of the template language: x|name(a). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat/chat.h"

/* Filters that are nearly the same are told apart by how. */
typedef int filter_fn(struct chat_run *, const struct chat_value *,
    const struct chat_args *, int how, struct chat_value *);

enum { REJECT, SELECT, ATTR };	/* ATTR beside the others */

static int
as_text(struct chat_run *r, const struct chat_value *x,
    struct chat_value *out)
{
	struct chat_buf b = { 0 };

	*out = *x;
	if (x->type == CHAT_TEXT)
		return 0;
	qwen_chat_print(r, &b, x);
	return qwen_chat_take(r, &b, out);
}

static int
f_string(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	(void)a, (void)how;
	return as_text(r, x, out);
}

static int
f_trim(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	const struct chat_value *set = qwen_chat_arg(a, 0, "chars");
	struct chat_value v;

	(void)how;
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
    const struct chat_args *a, int how, struct chat_value *out)
{
	size_t n;

	(void)a, (void)how;
	if (qwen_chat_length(r, x, &n) < 0)
		return -1;
	*out = chat_int((int64_t)n);
	return 0;
}

static int
f_tojson(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	const struct chat_value *indent = qwen_chat_arg(a, 9, "indent");
	int64_t n = indent != NULL && indent->type == CHAT_INT ?
	    indent->u.i : -1;
	struct chat_buf b = { 0 };
	size_t i;

	(void)how;
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
	qwen_chat_json(r, &b, x, (int)n);
	return qwen_chat_take(r, &b, out);
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
	*out = chat_list((struct chat_list){ v, d->n });
	return 0;
}

static int
f_items(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	struct chat_dict empty = { 0 };

	(void)a, (void)how;
	if (x->type != CHAT_DICT && x->type != CHAT_UNDEFINED)
		return qwen_chat_fail(r, "items of %s",
		    qwen_chat_type_name(x));
	return pairs(r, x->type == CHAT_DICT ? x->u.d : &empty, out);
}

static int
by_name(const void *a, const void *b)
{
	const struct chat_pair *x = a, *y = b;

	return qwen_chat_order(&x->key.u.s, &y->key.u.s);
}

/* Jinja sorts without regard to case: only for keys in lower case the same. */
static int
f_dictsort(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	struct chat_dict d;
	size_t i;

	(void)a, (void)how;
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
    const struct chat_args *a, int how, struct chat_value *out)
{
	(void)r, (void)a, (void)how;
	*out = *x;
	return 0;
}

static int
f_default(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	const struct chat_value *v = qwen_chat_arg(a, 0, "default_value");
	const struct chat_value *falsy = qwen_chat_arg(a, 1, "boolean");

	(void)r, (void)how;
	if (x->type != CHAT_UNDEFINED && !(falsy != NULL &&
	    qwen_chat_true(falsy) && !qwen_chat_true(x)))
		*out = *x;
	else
		*out = v != NULL ? *v : chat_text(chat_literal(""));
	return 0;
}

static int
f_list(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	(void)a, (void)how;
	out->type = CHAT_LIST;
	return qwen_chat_iterate(r, x, &out->u.l);
}

static int
f_first(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int last, struct chat_value *out)
{
	struct chat_list l;

	(void)a;
	if (qwen_chat_iterate(r, x, &l) < 0)
		return -1;
	*out = l.n > 0 ? l.v[last ? l.n - 1 : 0] :
	    chat_undefined("an item", 7);
	return 0;
}

static int
f_reverse(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	struct chat_value back = chat_int(-1), v = *x;
	const struct chat_value *part[3] = { NULL, NULL, &back };

	(void)a, (void)how;
	if (x->type != CHAT_TEXT) {
		v.type = CHAT_LIST;
		if (qwen_chat_iterate(r, x, &v.u.l) < 0)
			return -1;
	}
	return qwen_chat_subset(r, &v, part, out);
}

static int
f_join(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	const struct chat_value *d = qwen_chat_arg(a, 0, "d");
	struct chat_buf b = { 0 };
	struct chat_list l;
	size_t i;

	(void)how;
	if (d != NULL && d->type != CHAT_TEXT)
		return qwen_chat_fail(r, "join by %s",
		    qwen_chat_type_name(d));
	if (qwen_chat_iterate(r, x, &l) < 0)
		return -1;
	for (i = 0; i < l.n && !b.failed; i++) {
		if (i > 0 && d != NULL)
			qwen_chat_put(r, &b, &d->u.s);
		b.failed |= qwen_chat_step(r, 1) < 0;
		qwen_chat_print(r, &b, &l.v[i]);
	}
	return qwen_chat_take(r, &b, out);
}

/* A method of texts as a filter. */
static int
f_method(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	static const char *const name[] = {
		"upper", "lower", "capitalize", "replace",
	};
	struct chat_value v;

	return as_text(r, x, &v) < 0 ? -1 :
	    qwen_chat_method(r, name[how], &v, a, out);
}

/* Of what int() takes; anything else is 0, or the argument. */
static int
f_int(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	const struct chat_value *v = qwen_chat_arg(a, 0, "default");
	struct chat_text t;
	int64_t i = 0;
	size_t k;
	int minus;

	(void)r, (void)how;
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
    const struct chat_args *a, int how, struct chat_value *out)
{
	struct chat_value zero = chat_int(0);

	(void)a, (void)how;
	*out = *x;
	if (x->type == CHAT_FLOAT)
		out->u.f = fabs(x->u.f);
	else if (x->type != CHAT_INT || x->u.i < 0)
		return qwen_chat_binary(r, CHAT_SUB, &zero, x, out);
	return 0;
}

/* Those for which, or for whose attribute, a test holds or does not. */
static int
f_select(struct chat_run *r, const struct chat_value *x,
    const struct chat_args *a, int how, struct chat_value *out)
{
	struct chat_args more = { 0 };
	struct chat_value v, true_test;
	struct chat_list l, chosen = { NULL, 0 };
	size_t attr = (how & ATTR) != 0, i;
	const char *test = NULL;
	int yes;

	if (a->n_key > 0 || (attr && (a->n < 1 || a->v[0].type != CHAT_TEXT)))
		return qwen_chat_fail(r, "a choice of unknown form");
	if (a->n > attr) {
		true_test = a->v[attr];
		test = true_test.type == CHAT_TEXT ?
		    qwen_chat_test_name(&true_test.u.s) : NULL;
		if (test == NULL)
			return qwen_chat_fail(r, "a choice by no known test");
		more.v = a->v + attr + 1;
		more.n = a->n - attr - 1;
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
		if (yes == (how & SELECT))
			chosen.v[chosen.n++] = l.v[i];
	}
	*out = chat_list(chosen);
	return 0;
}

static const struct filter {
	const char	*name;
	filter_fn	*run;
	int		 how;
} filters[] = {
	{ "abs", f_abs, 0 }, { "capitalize", f_method, 2 },
	{ "count", f_length, 0 }, { "d", f_default, 0 },
	{ "default", f_default, 0 }, { "dictsort", f_dictsort, 0 },
	{ "first", f_first, 0 }, { "int", f_int, 0 },
	{ "items", f_items, 0 }, { "join", f_join, 0 },
	{ "last", f_first, 1 }, { "length", f_length, 0 },
	{ "list", f_list, 0 }, { "lower", f_method, 1 },
	{ "reject", f_select, REJECT }, { "replace", f_method, 3 },
	{ "rejectattr", f_select, REJECT | ATTR },
	{ "reverse", f_reverse, 0 }, { "safe", f_same, 0 },
	{ "select", f_select, SELECT },
	{ "selectattr", f_select, SELECT | ATTR },
	{ "string", f_string, 0 }, { "tojson", f_tojson, 0 },
	{ "trim", f_trim, 0 }, { "upper", f_method, 0 },
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
	const struct filter *f = find_filter(name);

	return f->run(r, x, a, f->how, out);
}
