/* SPDX-License-Identifier: ISC */
/* filter.c - the filters of the template language: x|name(a). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat/chat.h"

enum { REJECT, SELECT, ATTR };	/* ATTR is a flag */

/* Converts x to a string. */
static struct chat_value
f_string(const struct chat_builtin_call *c)
{
	struct chat_buf b = { 0 };

	if (c->x->type == CHAT_TEXT)
		return *c->x;
	qwen_chat_print(c->r, &b, c->x);
	return qwen_chat_buf_value(c->r, &b);
}

/* Fails with this message and the type of v. */
static struct chat_value
cannot(const struct chat_builtin_call *c, const char *what,
    const struct chat_value *v)
{
	qwen_chat_fail(c->r, "%s %s", what, qwen_chat_type_name(v));
	return *v;
}

static struct chat_value
f_trim(const struct chat_builtin_call *c)
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
f_length(const struct chat_builtin_call *c)
{
	return chat_int((int64_t)qwen_chat_length(c->r, c->x));
}

/* Reads JSON separators: a pair of strings. */
static void
separators(const struct chat_builtin_call *c, struct chat_dumps *how)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 2, "separators");

	if (v == NULL || v->type == CHAT_NONE)
		return;
	if ((v->type != CHAT_TUPLE && v->type != CHAT_LIST) ||
	    v->u.l.n != 2 || v->u.l.v[0].type != CHAT_TEXT ||
	    v->u.l.v[1].type != CHAT_TEXT) {
		cannot(c, "tojson with separators that are", v);
		return;
	}
	how->comma = v->u.l.v[0].u.s;
	how->colon = v->u.l.v[1].u.s;
}

/* tojson(ensure_ascii, indent, separators, ...), as in transformers. */
static struct chat_value
f_tojson(const struct chat_builtin_call *c)
{
	static const char *const known[] = { "ensure_ascii", "indent",
	    "separators", "sort_keys" };
	const struct chat_value *indent = qwen_chat_arg(c->a, 1, "indent");
	const struct chat_value *ascii = qwen_chat_arg(c->a, 0, known[0]);
	const struct chat_value *sort = qwen_chat_arg(c->a, 3, known[3]);
	struct chat_dumps how = { .indent = -1 };
	struct chat_buf b = { 0 };
	size_t i, k;

	for (i = 0; i < c->a->n_key; i++) {
		for (k = 0; k < 4 && strcmp(c->a->key[i], known[k]) != 0; k++)
			;
		if (k == 4)
			qwen_chat_fail(c->r, "tojson has no argument '%.40s'",
			    c->a->key[i]);
	}
	if (indent != NULL && indent->type == CHAT_INT)
		how.indent = indent->u.i > 16 ? 17 : indent->u.i > 0 ?
		    (int)indent->u.i : 0;
	else if (indent != NULL && indent->type != CHAT_NONE)
		return cannot(c, "tojson with an indent that is", indent);
	if (how.indent > 16)
		qwen_chat_fail(c->r, "tojson: indent exceeds 16");
	how.ascii = ascii != NULL && qwen_chat_true(ascii);
	how.sorted = sort != NULL && qwen_chat_true(sort);
	separators(c, &how);
	if (!c->r->failed)
		qwen_chat_json(c->r, &b, c->x, &how);
	return qwen_chat_buf_value(c->r, &b);
}

static struct chat_value
pairs(struct chat_exec *r, const struct chat_dict *d)
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
f_items(const struct chat_builtin_call *c)
{
	struct chat_dict empty = { 0 };

	if (c->x->type != CHAT_DICT && c->x->type != CHAT_UNDEFINED)
		return cannot(c, "items of", c->x);
	return pairs(c->r, c->x->type == CHAT_DICT ? c->x->u.d : &empty);
}

static struct chat_value
f_default(const struct chat_builtin_call *c)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "default_value");
	const struct chat_value *falsy = qwen_chat_arg(c->a, 1, "boolean");

	if (c->x->type != CHAT_UNDEFINED && !(falsy != NULL &&
	    qwen_chat_true(falsy) && !qwen_chat_true(c->x)))
		return *c->x;
	return v != NULL ? *v : chat_text(chat_literal(""));
}

static struct chat_value
f_list(const struct chat_builtin_call *c)
{
	return chat_list(qwen_chat_iterate(c->r, c->x));
}

static struct chat_value
f_first(const struct chat_builtin_call *c)
{
	struct chat_list l = qwen_chat_iterate(c->r, c->x);
	int last = c->variant;

	return l.n > 0 ? l.v[last ? l.n - 1 : 0] :
	    chat_undefined("an item", 7);
}

static struct chat_value
f_reverse(const struct chat_builtin_call *c)
{
	struct chat_value v = *c->x;

	if (v.type != CHAT_TEXT)
		v = chat_list(qwen_chat_iterate(c->r, c->x));
	return qwen_chat_reverse(c->r, &v);
}

static struct chat_value
f_join(const struct chat_builtin_call *c)
{
	const struct chat_value *d = qwen_chat_arg(c->a, 0, "d");
	const struct chat_value *attr = qwen_chat_arg(c->a, 1, "attribute");
	struct chat_buf b = { 0 };
	struct chat_value v;
	struct chat_list l;
	size_t i;

	if (d != NULL && d->type != CHAT_TEXT)
		return cannot(c, "join by", d);
	l = qwen_chat_iterate(c->r, c->x);
	for (i = 0; i < l.n && !c->r->failed; i++) {
		if (i > 0 && d != NULL)
			qwen_chat_put(c->r, &b, &d->u.s);
		qwen_chat_step(c->r, 1);
		v = attr == NULL || attr->type == CHAT_NONE ? l.v[i] :
		    qwen_chat_path(c->r, &l.v[i], attr, NULL);
		qwen_chat_print(c->r, &b, &v);
	}
	return qwen_chat_buf_value(c->r, &b);
}

static struct chat_value
f_replace(const struct chat_builtin_call *c)
{
	struct chat_value v = f_string(c);
	struct chat_text method = chat_literal("replace");

	return qwen_chat_call_builtin(c->r, qwen_chat_row_in(
	    qwen_chat_methods[CHAT_TEXT], &method), &v, c->a);
}

int
qwen_chat_read_float(struct chat_exec *r, const struct chat_value *v,
    double *f)
{
	char s[400], *end;
	struct chat_text t;

	if (v->type != CHAT_TEXT && v->type != CHAT_BIG)
		return 0;
	t = qwen_chat_strip(r, &v->u.s, NULL, 3);
	/* strtod() accepts more than Python's float() */
	if (t.n == 0 || t.n >= sizeof s || memchr(t.s, 'x', t.n) != NULL ||
	    memchr(t.s, 'X', t.n) != NULL || memchr(t.s, '(', t.n) != NULL ||
	    qwen_chat_step(r, 64 + t.n) < 0)
		return 0;
	memcpy(s, t.s, t.n);
	s[t.n] = '\0';
	*f = strtod(s, &end);
	return end == s + t.n;
}

/* Like int(); 0, or the argument, for what int() does not accept. */
static struct chat_value
f_int(const struct chat_builtin_call *c)
{
	const struct chat_value *x = c->x;
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "default");
	struct chat_value none = v != NULL ? *v : chat_int(0);
	struct chat_text t;
	int64_t i;
	double f;

	if (x->type == CHAT_INT || x->type == CHAT_BOOL)
		return chat_int(x->u.i);
	if (x->type == CHAT_BIG)
		return *x;
	if (qwen_chat_arg(c->a, 1, "base") != NULL)
		return cannot(c, "int with a base, of", x);
	if (x->type == CHAT_FLOAT && fabs(x->u.f) < 9e18)
		return chat_int((int64_t)x->u.f);
	if (x->type != CHAT_TEXT)
		return none;
	t = qwen_chat_strip(c->r, &x->u.s, NULL, 3);
	qwen_chat_step(c->r, t.n / 8);
	if (qwen_chat_digits(t.s, t.n, &i))
		return chat_int(i);
	return qwen_chat_read_float(c->r, x, &f) && fabs(f) < 9e18 ?
	    chat_int((int64_t)f) : none;
}

static struct chat_value
f_abs(const struct chat_builtin_call *c)
{
	struct chat_value zero = chat_int(0), v = *c->x;

	if (v.type == CHAT_FLOAT)
		v.u.f = fabs(v.u.f);
	else if (v.type != CHAT_INT || v.u.i < 0)
		return qwen_chat_binary(c->r, CHAT_SUB, &zero, &v);
	return v;
}

/*
 * Selects the items for which, or for whose attribute, a test holds or fails.
 */
static struct chat_value
f_select(const struct chat_builtin_call *c)
{
	const struct chat_args *a = c->a;
	struct chat_args more = { 0 };
	struct chat_value v;
	struct chat_list l, chosen = { NULL, 0 };
	size_t attr = (c->variant & ATTR) != 0, i;
	const struct chat_builtin *test = NULL;

	if (a->n_key > 0 || (attr && a->n < 1))
		qwen_chat_fail(c->r, "select or reject with bad arguments");
	else if (a->n > attr) {
		v = a->v[attr];
		if (v.type == CHAT_TEXT)
			test = qwen_chat_row_in(qwen_chat_tests, &v.u.s);
		if (test == NULL)
			qwen_chat_fail(c->r, "select or reject with an unknown "
			    "test");
		more.v = a->v + attr + 1;
		more.n = a->n - attr - 1;
	}
	l = qwen_chat_iterate_if(c->r, c->x);
	chosen.v = qwen_chat_new(c->r, l.n, sizeof v);
	for (i = 0; i < l.n && !c->r->failed; i++) {
		v = l.v[i];
		if (attr)
			v = qwen_chat_path(c->r, &l.v[i], &a->v[0], NULL);
		if (test != NULL)
			v = qwen_chat_call_builtin(c->r, test, &v, &more);
		qwen_chat_step(c->r, 1);
		if (qwen_chat_true(&v) == (c->variant & SELECT))
			chosen.v[chosen.n++] = l.v[i];
	}
	return chat_list(chosen);
}

static const struct chat_builtin usual[] = {
	{ "abs", f_abs, 0 }, { "count", f_length, 0 },
	{ "d", f_default, 0 }, { "default", f_default, 0 },
	{ "first", f_first, 0 }, { "int", f_int, 0 },
	{ "items", f_items, 0 }, { "join", f_join, 0 },
	{ "last", f_first, 1 }, { "length", f_length, 0 },
	{ "list", f_list, 0 }, { "reject", f_select, REJECT },
	{ "rejectattr", f_select, REJECT | ATTR },
	{ "replace", f_replace, 0 }, { "reverse", f_reverse, 0 },
	{ "select", f_select, SELECT },
	{ "selectattr", f_select, SELECT | ATTR },
	{ "string", f_string, 0 }, { "tojson", f_tojson, 0 },
	{ "trim", f_trim, 0 }, { NULL, NULL, 0 }
};

const struct chat_builtin *const qwen_chat_filters[] = {
	usual, qwen_chat_word_filters, qwen_chat_list_filters,
	qwen_chat_format_filters, NULL
};
