/* SPDX-License-Identifier: ISC */
/* filter.c - the filters of the template language: x|name(a). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat/chat.h"

enum { REJECT, SELECT, ATTR };	/* ATTR beside the others */

/* x as it is written. */
static struct chat_value
f_string(const struct chat_use *c)
{
	struct chat_buf b = { 0 };

	if (c->x->type == CHAT_TEXT)
		return *c->x;
	qwen_chat_print(c->r, &b, c->x);
	return qwen_chat_take(c->r, &b);
}

/* A failure to do so with a value. */
static struct chat_value
cannot(const struct chat_use *c, const char *what, const struct chat_value *v)
{
	qwen_chat_fail(c->r, "%s %s", what, qwen_chat_type_name(v));
	return *v;
}

static struct chat_value
f_trim(const struct chat_use *c)
{
	const struct chat_value *set = qwen_chat_arg(c->a, 0, "chars");
	struct chat_value v;

	if (set != NULL && set->type != CHAT_TEXT && set->type != CHAT_NONE)
		return cannot(c, "trim by", set);
	v = f_string(c);
	return chat_text(qwen_chat_strip(c->r, &v.u.s, set != NULL &&
	    set->type == CHAT_TEXT ? &set->u.s : NULL, 3));
}

static struct chat_value
f_length(const struct chat_use *c)
{
	return chat_int((int64_t)qwen_chat_length(c->r, c->x));
}

static struct chat_value
f_tojson(const struct chat_use *c)
{
	const struct chat_value *indent = qwen_chat_arg(c->a, 9, "indent");
	int64_t n = indent == NULL || indent->type != CHAT_INT ? -1 :
	    indent->u.i > 0 ? indent->u.i : 0;
	struct chat_buf b = { 0 };
	size_t i;

	/* As transformers defines it; the others would change the text. */
	for (i = 0; i < c->a->n_key; i++) {
		if (strcmp(c->a->key[i], "indent") != 0 &&
		    strcmp(c->a->key[i], "ensure_ascii") != 0)
			qwen_chat_fail(c->r, "tojson with '%.40s'",
			    c->a->key[i]);
	}
	indent = qwen_chat_arg(c->a, 9, "ensure_ascii");
	if (n > 16 || (indent != NULL && qwen_chat_true(indent)))
		qwen_chat_fail(c->r, "tojson that indents or escapes so");
	qwen_chat_json(c->r, &b, c->x, (int)n);
	return qwen_chat_take(c->r, &b);
}

static struct chat_value
pairs(struct chat_run *r, const struct chat_dict *d)
{
	struct chat_list l = qwen_chat_new_list(r, d->n);
	struct chat_value *two = qwen_chat_new(r, l.n, 2 * sizeof *two);
	size_t i;

	for (i = 0; i < l.n && two != NULL; i++, two += 2) {
		two[0] = d->p[i].key;
		two[1] = d->p[i].v;
		l.v[i].type = CHAT_TUPLE;
		l.v[i].u.l = (struct chat_list){ two, 2 };
	}
	return chat_list(l);
}

static struct chat_value
f_items(const struct chat_use *c)
{
	struct chat_dict empty = { 0 };

	if (c->x->type != CHAT_DICT && c->x->type != CHAT_UNDEFINED)
		return cannot(c, "items of", c->x);
	return pairs(c->r, c->x->type == CHAT_DICT ? c->x->u.d : &empty);
}

static int
by_name(const void *a, const void *b)
{
	const struct chat_pair *x = a, *y = b;

	return qwen_chat_order(&x->key.u.s, &y->key.u.s);
}

/* Jinja sorts without regard to case: only for keys in lower case the same. */
static struct chat_value
f_dictsort(const struct chat_use *c)
{
	struct chat_dict d;
	uint64_t work = 0;
	size_t i;

	if (c->x->type != CHAT_DICT)
		return cannot(c, "dictsort of", c->x);
	d.n = d.cap = c->x->u.d->n;
	d.p = qwen_chat_new(c->r, d.n, sizeof *d.p);
	for (i = 0; i < d.n && !c->r->failed; i++) {
		d.p[i] = c->x->u.d->p[i];
		if (d.p[i].key.type != CHAT_TEXT)
			return cannot(c, "dictsort by", &d.p[i].key);
		work += 1 + d.p[i].key.u.s.n / 64;
	}
	/* each is compared with some twenty others */
	if (qwen_chat_step(c->r, 20 * work) < 0)
		return *c->x;
	qsort(d.p, d.n, sizeof *d.p, by_name);
	return pairs(c->r, &d);
}

static struct chat_value
f_same(const struct chat_use *c)
{
	return *c->x;
}

static struct chat_value
f_default(const struct chat_use *c)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "default_value");
	const struct chat_value *falsy = qwen_chat_arg(c->a, 1, "boolean");

	if (c->x->type != CHAT_UNDEFINED && !(falsy != NULL &&
	    qwen_chat_true(falsy) && !qwen_chat_true(c->x)))
		return *c->x;
	return v != NULL ? *v : chat_text(chat_literal(""));
}

static struct chat_value
f_list(const struct chat_use *c)
{
	return chat_list(qwen_chat_iterate(c->r, c->x));
}

static struct chat_value
f_first(const struct chat_use *c)
{
	struct chat_list l = qwen_chat_iterate(c->r, c->x);
	int last = c->how;

	return l.n > 0 ? l.v[last ? l.n - 1 : 0] :
	    chat_undefined("an item", 7);
}

static struct chat_value
f_reverse(const struct chat_use *c)
{
	struct chat_value v = *c->x;

	if (v.type != CHAT_TEXT)
		v = chat_list(qwen_chat_iterate(c->r, c->x));
	return qwen_chat_reverse(c->r, &v);
}

static struct chat_value
f_join(const struct chat_use *c)
{
	const struct chat_value *d = qwen_chat_arg(c->a, 0, "d");
	struct chat_buf b = { 0 };
	struct chat_list l;
	size_t i;

	if (d != NULL && d->type != CHAT_TEXT)
		return cannot(c, "join by", d);
	l = qwen_chat_iterate(c->r, c->x);
	for (i = 0; i < l.n && !c->r->failed; i++) {
		if (i > 0 && d != NULL)
			qwen_chat_put(c->r, &b, &d->u.s);
		qwen_chat_step(c->r, 1);
		qwen_chat_print(c->r, &b, &l.v[i]);
	}
	return qwen_chat_take(c->r, &b);
}

/* A method of texts as a filter. */
static struct chat_value
f_method(const struct chat_use *c)
{
	static const char *const name[] = {
		"upper", "lower", "capitalize", "replace",
	};
	struct chat_value v = f_string(c);
	struct chat_text method = chat_literal(name[c->how]);

	return qwen_chat_use(c->r, qwen_chat_row(qwen_chat_methods[CHAT_TEXT],
	    &method), &v, c->a);
}

/* Of what int() takes; anything else is 0, or the argument. */
static struct chat_value
f_int(const struct chat_use *c)
{
	const struct chat_value *x = c->x;
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "default");
	struct chat_value none = v != NULL ? *v : chat_int(0);
	struct chat_text t;
	int64_t i;

	if (x->type == CHAT_INT || x->type == CHAT_BOOL)
		return chat_int(x->u.i);
	if (x->type == CHAT_BIG)
		return *x;
	if (x->type == CHAT_FLOAT && fabs(x->u.f) < 9e18)
		return chat_int((int64_t)x->u.f);
	if (x->type != CHAT_TEXT)
		return none;
	t = qwen_chat_strip(c->r, &x->u.s, NULL, 3);
	qwen_chat_step(c->r, t.n / 8);
	return qwen_chat_digits(t.s, t.n, &i) ? chat_int(i) : none;
}

static struct chat_value
f_abs(const struct chat_use *c)
{
	struct chat_value zero = chat_int(0), v = *c->x;

	if (v.type == CHAT_FLOAT)
		v.u.f = fabs(v.u.f);
	else if (v.type != CHAT_INT || v.u.i < 0)
		return qwen_chat_binary(c->r, CHAT_SUB, &zero, &v);
	return v;
}

/* Those for which, or for whose attribute, a test holds or does not. */
static struct chat_value
f_select(const struct chat_use *c)
{
	const struct chat_args *a = c->a;
	struct chat_args more = { 0 };
	struct chat_value v;
	struct chat_list l, chosen = { NULL, 0 };
	size_t attr = (c->how & ATTR) != 0, i;
	const struct chat_row *test = NULL;

	if (a->n_key > 0 || (attr && (a->n < 1 || a->v[0].type != CHAT_TEXT)))
		qwen_chat_fail(c->r, "a choice of unknown form");
	else if (a->n > attr) {
		v = a->v[attr];
		if (v.type == CHAT_TEXT)
			test = qwen_chat_row(qwen_chat_tests, &v.u.s);
		if (test == NULL)
			qwen_chat_fail(c->r, "a choice by no known test");
		more.v = a->v + attr + 1;
		more.n = a->n - attr - 1;
	}
	l = qwen_chat_iterate(c->r, c->x);
	chosen.v = qwen_chat_new(c->r, l.n, sizeof v);
	for (i = 0; i < l.n && !c->r->failed; i++) {
		v = l.v[i];
		if (attr)
			v = qwen_chat_item(c->r, &l.v[i], &a->v[0]);
		if (test != NULL)
			v = qwen_chat_use(c->r, test, &v, &more);
		qwen_chat_step(c->r, 1);
		if (qwen_chat_true(&v) == (c->how & SELECT))
			chosen.v[chosen.n++] = l.v[i];
	}
	return chat_list(chosen);
}

const struct chat_row qwen_chat_filters[] = {
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
	{ NULL, NULL, 0 }
};
