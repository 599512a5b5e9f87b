/* SPDX-License-Identifier: ISC */
/* filter.c - the filters of the template language: x|name(a). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat/chat.h"

/* Converts x to a string. */
static struct chat_value
f_string(const struct chat_builtin_call *c)
{
	return c->x->type == CHAT_TEXT ? *c->x :
	    chat_text(qwen_chat_as_text(c));
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

	if (chat_missing(v))
		return;
	if (!chat_is_list(v) || v->u.l.n != 2 ||
	    v->u.l.v[0].type != CHAT_TEXT ||
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
	how.ascii = qwen_chat_flag(c, 0, known[0]);
	how.sorted = qwen_chat_flag(c, 3, known[3]);
	separators(c, &how);
	if (!c->r->failed)
		qwen_chat_json(c->r, &b, c->x, &how);
	return qwen_chat_buf_value(c->r, &b);
}

static struct chat_value
f_items(const struct chat_builtin_call *c)
{
	struct chat_dict empty = { 0 };

	if (c->x->type != CHAT_DICT && c->x->type != CHAT_UNDEFINED)
		return cannot(c, "items of", c->x);
	return qwen_chat_pairs(c->r, c->x->type == CHAT_DICT ? c->x->u.d :
	    &empty);
}

static struct chat_value
f_default(const struct chat_builtin_call *c)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "default_value");

	if (c->x->type != CHAT_UNDEFINED && (qwen_chat_true(*c->x) ||
	    !qwen_chat_flag(c, 1, "boolean")))
		return *c->x;
	return v != NULL ? *v : chat_cstr("");
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

/* Converts a string like float(); returns 0 if it is not a number. */
static int
read_float(struct chat_exec *r, const struct chat_value *v, double *f)
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

	if (chat_is_whole(x))
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
	return read_float(c->r, x, &f) && fabs(f) < 9e18 ?
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

static struct chat_value
f_float(const struct chat_builtin_call *c)
{
	const struct chat_value *usual = qwen_chat_arg(c->a, 0, "default");
	struct chat_value v = { .type = CHAT_FLOAT };
	double f;

	if (qwen_chat_number(c->x, &f) || read_float(c->r, c->x, &f)) {
		v.u.f = f;
		return v;
	}
	return usual != NULL ? *usual : v;
}

static struct chat_value
f_round(const struct chat_builtin_call *c)
{
	const struct chat_value *how = qwen_chat_arg(c->a, 1, "method");
	const struct chat_value *digits = qwen_chat_arg(c->a, 0, "precision");
	int64_t n = digits != NULL && digits->type == CHAT_INT ?
	    digits->u.i : 0;
	struct chat_value v = *c->x;
	char s[400];
	double f, scale;

	if (!qwen_chat_number(&v, &f) || n < -300 || n > 300)
		return chat_refuse(c, "round of what is no number, or to too "
		    "many digits");
	if (how == NULL || chat_is_text(how, "common")) {
		if (v.type != CHAT_FLOAT && n >= 0)
			return v.type == CHAT_BOOL ? chat_int(v.u.i) : v;
		v.type = CHAT_FLOAT;
		if (n >= 0) {
			snprintf(s, sizeof s, "%.*f", (int)n, f);
			v.u.f = n > 20 ? f : strtod(s, NULL);
		} else {
			scale = pow(10, (double)-n);
			v.u.f = nearbyint(f / scale) * scale;
		}
		return v;
	}
	if (!chat_is_text(how, "ceil") && !chat_is_text(how, "floor"))
		return chat_refuse(c, "round by other than common, ceil, "
		    "floor");
	scale = pow(10, (double)n);
	v.type = CHAT_FLOAT;
	v.u.f = (how->u.s.s[0] == 'c' ? ceil(f * scale) : floor(f * scale)) /
	    scale;
	return v;
}

const struct chat_builtin qwen_chat_in_filters[] = {
	FILTER("abs", f_abs, 0), FILTER("count length", f_length, 0),
	FILTER("d default", f_default, 0), FILTER("first", f_first, 0),
	FILTER("last", f_first, 1), FILTER("float", f_float, 0),
	FILTER("int", f_int, 0), FILTER("items", f_items, 0),
	FILTER("list", f_list, 0), FILTER("reverse", f_reverse, 0),
	FILTER("round", f_round, 0), FILTER("string", f_string, 0),
	FILTER("tojson", f_tojson, 0), FILTER("trim", f_trim, 0),
	{ NULL, NULL, 0, 0 }
};
