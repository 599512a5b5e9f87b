/* SPDX-License-Identifier: ISC */
/* value.c - which values are equal, what they contain, what is a part of them. */
#include <stdlib.h>
#include <string.h>

#include "text/chat/chat.h"

const char *
qwen_chat_type_name(const struct chat_value *v)
{
	static const char *const name[] = {
		"undefined", "none", "a boolean", "an integer", "an integer",
		"a number", "a string", "a list", "a tuple", "an object",
		"a namespace", "the loop", "a macro", "a function", "a method",
	};

	return name[v->type];
}

int
qwen_chat_true(const struct chat_value *v)
{
	switch (v->type) {
	case CHAT_UNDEFINED: case CHAT_NONE: return 0;
	case CHAT_BOOL: case CHAT_INT: return v->u.i != 0;
	case CHAT_FLOAT: return v->u.f != 0;
	case CHAT_TEXT: return v->u.s.n > 0;
	case CHAT_LIST: case CHAT_TUPLE: return v->u.l.n > 0;
	case CHAT_DICT: return v->u.d->n > 0;
	default: return 1;
	}
}

int
qwen_chat_same_text(const struct chat_text *a, const char *b)
{
	return strlen(b) == a->n && memcmp(a->s, b, a->n) == 0;
}

int
qwen_chat_order(const struct chat_text *a, const struct chat_text *b)
{
	size_t n = a->n < b->n ? a->n : b->n;
	int c = n > 0 ? memcmp(a->s, b->s, n) : 0;

	return c != 0 ? c : (a->n > b->n) - (a->n < b->n);
}

/* ---------------------------------------------------------------- equality */

int
qwen_chat_number(const struct chat_value *v, double *f)
{
	if (v->type == CHAT_FLOAT)
		*f = v->u.f;
	else if (v->type == CHAT_BOOL || v->type == CHAT_INT)
		*f = (double)v->u.i;
	else
		return 0;
	return 1;
}

static int equal_at(struct chat_run *r, const struct chat_value *a,
    const struct chat_value *b, unsigned depth);

static int
equal_lists(struct chat_run *r, const struct chat_list *a,
    const struct chat_list *b, unsigned depth)
{
	size_t i;
	int eq = a->n == b->n;

	for (i = 0; eq == 1 && i < a->n; i++)
		eq = equal_at(r, &a->v[i], &b->v[i], depth + 1);
	return eq;
}

static int
equal_dicts(struct chat_run *r, const struct chat_dict *a,
    const struct chat_dict *b, unsigned depth)
{
	const struct chat_value *v;
	size_t i;
	int eq = a->n == b->n;

	for (i = 0; eq == 1 && i < a->n; i++) {
		if (qwen_chat_find(r, b, &a->p[i].key, &v) < 0)
			return -1;
		eq = v == NULL ? 0 : equal_at(r, &a->p[i].v, v, depth + 1);
	}
	return eq;
}

static int
equal_texts(struct chat_run *r, const struct chat_text *a,
    const struct chat_text *b)
{
	if (a->n != b->n)
		return 0;
	if (qwen_chat_step(r, a->n / 64) < 0)
		return -1;
	return memcmp(a->s, b->s, a->n) == 0;
}

static int
equal_at(struct chat_run *r, const struct chat_value *a,
    const struct chat_value *b, unsigned depth)
{
	double x, y;

	if (depth > CHAT_VALUE_DEPTH)
		return qwen_chat_limit(r, "depth of a value");
	if (qwen_chat_step(r, 1) < 0)
		return -1;
	if (a->type <= CHAT_INT && b->type <= CHAT_INT &&
	    a->type >= CHAT_BOOL && b->type >= CHAT_BOOL)
		return a->u.i == b->u.i;
	if (qwen_chat_number(a, &x) && qwen_chat_number(b, &y))
		return x == y;
	if (a->type != b->type)
		return 0;
	switch (a->type) {
	case CHAT_UNDEFINED: case CHAT_NONE: return 1;
	case CHAT_BIG: case CHAT_TEXT:
		return equal_texts(r, &a->u.s, &b->u.s);
	case CHAT_LIST: case CHAT_TUPLE:
		return equal_lists(r, &a->u.l, &b->u.l, depth);
	case CHAT_DICT: return equal_dicts(r, a->u.d, b->u.d, depth);
	case CHAT_NAMESPACE: return a->u.d == b->u.d;
	default: return 0;
	}
}

int
qwen_chat_equal(struct chat_run *r, const struct chat_value *a,
    const struct chat_value *b)
{
	return equal_at(r, a, b, 0);
}

/* ----------------------------------------------------------------- objects */

int
qwen_chat_find(struct chat_run *r, const struct chat_dict *d,
    const struct chat_value *key, const struct chat_value **out)
{
	const struct chat_value *k;
	size_t i;
	int eq;

	*out = NULL;
	if (qwen_chat_step(r, 1 + d->n / 4) < 0)
		return -1;
	for (i = 0; i < d->n; i++) {
		k = &d->p[i].key;
		if (k->type == CHAT_TEXT && key->type == CHAT_TEXT)
			eq = k->u.s.n == key->u.s.n &&
			    memcmp(k->u.s.s, key->u.s.s, k->u.s.n) == 0;
		else
			eq = qwen_chat_equal(r, k, key);
		if (eq < 0)
			return -1;
		if (eq) {
			*out = &d->p[i].v;
			return 0;
		}
	}
	return 0;
}

struct chat_value
qwen_chat_new_dict(struct chat_run *r, enum chat_type type)
{
	struct chat_value v = { .type = type };

	v.u.d = qwen_chat_new(r, 1, sizeof *v.u.d);
	if (v.u.d != NULL)
		memset(v.u.d, 0, sizeof *v.u.d);
	return v;
}

int
qwen_chat_dict_put(struct chat_run *r, struct chat_dict *d,
    const struct chat_value *key, const struct chat_value *v)
{
	const struct chat_value *old;

	if (key->type > CHAT_TEXT || key->type == CHAT_UNDEFINED)
		return qwen_chat_fail(r, "%s cannot be a key",
		    qwen_chat_type_name(key));
	if (qwen_chat_find(r, d, key, &old) < 0)
		return -1;
	if (old != NULL) {
		*(struct chat_value *)(uintptr_t)old = *v;
		return 0;
	}
	if (qwen_chat_more(r, &d->p, d->n, &d->cap, sizeof *d->p) < 0)
		return -1;
	d->p[d->n].key = *key;
	d->p[d->n++].v = *v;
	return 0;
}

/* ------------------------------------------------------------- collections */

int
qwen_chat_length(struct chat_run *r, const struct chat_value *v, size_t *n)
{
	switch (v->type) {
	case CHAT_UNDEFINED: *n = 0; return 0;
	case CHAT_TEXT:
		*n = qwen_chat_chars(v->u.s.s, v->u.s.n);
		return qwen_chat_step(r, v->u.s.n / 16);
	case CHAT_LIST: case CHAT_TUPLE: *n = v->u.l.n; return 0;
	case CHAT_DICT: *n = v->u.d->n; return 0;
	case CHAT_LOOP: *n = v->u.loop->items.n; return 0;
	default:
		return qwen_chat_fail(r, "%s has no length",
		    qwen_chat_type_name(v));
	}
}

static int
characters(struct chat_run *r, const struct chat_text *t,
    struct chat_list *out)
{
	size_t i, k;
	uint32_t c;

	out->n = 0;
	if (qwen_chat_step(r, t->n) < 0)
		return -1;
	out->v = qwen_chat_new(r, t->n, sizeof *out->v);
	if (out->v == NULL)
		return -1;
	for (i = 0; i < t->n; i += k) {
		k = qwen_chat_char(t->s, i, t->n, &c);
		out->v[out->n++] = chat_text(chat_slice(t, i, i + k));
	}
	return 0;
}

static int
keys(struct chat_run *r, const struct chat_dict *d, struct chat_list *out)
{
	size_t i;

	if (qwen_chat_step(r, d->n) < 0)
		return -1;
	out->v = qwen_chat_new(r, d->n, sizeof *out->v);
	if (out->v == NULL)
		return -1;
	for (i = 0; i < d->n; i++)
		out->v[i] = d->p[i].key;
	out->n = d->n;
	return 0;
}

int
qwen_chat_iterate(struct chat_run *r, const struct chat_value *v,
    struct chat_list *out)
{
	out->v = NULL;
	out->n = 0;
	switch (v->type) {
	case CHAT_UNDEFINED: return 0;
	case CHAT_LIST: case CHAT_TUPLE: *out = v->u.l; return 0;
	case CHAT_TEXT: return characters(r, &v->u.s, out);
	case CHAT_DICT: return keys(r, v->u.d, out);
	default:
		return qwen_chat_fail(r, "%s cannot be gone over",
		    qwen_chat_type_name(v));
	}
}

static int
in_list(struct chat_run *r, const struct chat_list *l,
    const struct chat_value *v, int *yes)
{
	size_t i;

	*yes = 0;
	for (i = 0; *yes == 0 && i < l->n; i++)
		*yes = qwen_chat_equal(r, &l->v[i], v);
	return *yes < 0 ? -1 : 0;
}

int
qwen_chat_contains(struct chat_run *r, const struct chat_value *in,
    const struct chat_value *v, int *yes)
{
	const struct chat_value *found;
	size_t at;

	*yes = 0;
	switch (in->type) {
	case CHAT_UNDEFINED: return 0;
	case CHAT_TEXT:
		if (v->type != CHAT_TEXT)
			return qwen_chat_fail(r, "%s is looked for in a "
			    "string", qwen_chat_type_name(v));
		if (qwen_chat_search(r, &in->u.s, &v->u.s, 0, &at) < 0)
			return -1;
		*yes = at <= in->u.s.n;
		return 0;
	case CHAT_LIST: case CHAT_TUPLE:
		return in_list(r, &in->u.l, v, yes);
	case CHAT_DICT:
		if (qwen_chat_find(r, in->u.d, v, &found) < 0)
			return -1;
		*yes = found != NULL;
		return 0;
	default:
		return qwen_chat_fail(r, "%s contains nothing",
		    qwen_chat_type_name(in));
	}
}

/* ------------------------------------------------------ attributes and items */

static void
loop_attr(const struct chat_loop *l, const char *name, struct chat_value *out)
{
	size_t n = l->items.n, i = l->i;

	if (strcmp(name, "index0") == 0)
		*out = chat_int((int64_t)i);
	else if (strcmp(name, "index") == 0)
		*out = chat_int((int64_t)i + 1);
	else if (strcmp(name, "revindex0") == 0)
		*out = chat_int((int64_t)(n - i) - 1);
	else if (strcmp(name, "revindex") == 0)
		*out = chat_int((int64_t)(n - i));
	else if (strcmp(name, "first") == 0)
		*out = chat_bool(i == 0);
	else if (strcmp(name, "last") == 0)
		*out = chat_bool(i + 1 == n);
	else if (strcmp(name, "length") == 0)
		*out = chat_int((int64_t)n);
	else if (strcmp(name, "depth") == 0)
		*out = chat_int(1);	/* of recursion, which is not here */
	else if (strcmp(name, "depth0") == 0)
		*out = chat_int(0);
	else if (strcmp(name, "previtem") == 0 && i > 0)
		*out = l->items.v[i - 1];
	else if (strcmp(name, "nextitem") == 0 && i + 1 < n)
		*out = l->items.v[i + 1];
	else
		*out = chat_undefined(name, strlen(name));
}

static int
by_key(struct chat_run *r, const struct chat_dict *d,
    const struct chat_value *key, struct chat_value *out)
{
	const struct chat_value *v;

	if (qwen_chat_find(r, d, key, &v) < 0)
		return -1;
	if (v != NULL)
		*out = *v;
	else if (key->type == CHAT_TEXT)
		*out = chat_undefined(key->u.s.s, key->u.s.n);
	else
		*out = chat_undefined("a key", 5);
	return 0;
}

int
qwen_chat_attr(struct chat_run *r, const struct chat_value *obj,
    const char *name, struct chat_value *out)
{
	struct chat_value key = chat_text(chat_literal(name)), *self;

	if (obj->type == CHAT_UNDEFINED)
		return qwen_chat_fail(r, "'%.*s' is undefined, and asked for "
		    "its '%s'", (int)(obj->u.s.n < 60 ? obj->u.s.n : 60),
		    obj->u.s.s, name);
	if (qwen_chat_has_method(obj->type, name)) {
		self = qwen_chat_new(r, 1, sizeof *self);
		if (self == NULL)
			return -1;
		*self = *obj;
		out->type = CHAT_METHOD;
		out->u.m.name = name;
		out->u.m.self = self;
		return 0;
	}
	if (obj->type == CHAT_DICT || obj->type == CHAT_NAMESPACE)
		return by_key(r, obj->u.d, &key, out);
	if (obj->type == CHAT_LOOP)
		loop_attr(obj->u.loop, name, out);
	else
		*out = chat_undefined(name, strlen(name));
	return 0;
}

/* i, counted from the end if negative; n if there is none. */
static size_t
position(int64_t i, size_t n)
{
	if (i < 0)
		i += (int64_t)n;
	return i < 0 || (uint64_t)i >= n ? n : (size_t)i;
}

/* Byte offset of character i of n bytes. */
static size_t
offset(const struct chat_text *t, size_t i)
{
	size_t at = 0;
	uint32_t c;

	while (i-- > 0 && at < t->n)
		at += qwen_chat_char(t->s, at, t->n, &c);
	return at;
}

static int
text_item(struct chat_run *r, const struct chat_text *t, int64_t i,
    struct chat_value *out)
{
	size_t n = qwen_chat_chars(t->s, t->n), at = position(i, n);
	uint32_t c;

	if (qwen_chat_step(r, t->n / 8) < 0)
		return -1;
	if (at == n) {
		*out = chat_undefined("a character", 11);
		return 0;
	}
	at = offset(t, at);
	*out = chat_text(chat_slice(t, at, at +
	    qwen_chat_char(t->s, at, t->n, &c)));
	return 0;
}

int
qwen_chat_item(struct chat_run *r, const struct chat_value *obj,
    const struct chat_value *key, struct chat_value *out)
{
	int whole = key->type == CHAT_INT || key->type == CHAT_BOOL;
	size_t i;

	switch (obj->type) {
	case CHAT_UNDEFINED:
		return qwen_chat_fail(r, "'%.*s' is undefined, and asked for "
		    "an item", (int)(obj->u.s.n < 60 ? obj->u.s.n : 60),
		    obj->u.s.s);
	case CHAT_DICT: case CHAT_NAMESPACE:
		return by_key(r, obj->u.d, key, out);
	case CHAT_LIST: case CHAT_TUPLE:
		i = whole ? position(key->u.i, obj->u.l.n) : obj->u.l.n;
		*out = i < obj->u.l.n ? obj->u.l.v[i] :
		    chat_undefined("an item", 7);
		return 0;
	case CHAT_TEXT:
		if (whole)
			return text_item(r, &obj->u.s, key->u.i, out);
		break;
	default:
		break;
	}
	*out = chat_undefined("an item", 7);
	return 0;
}

/* ------------------------------------------------------------------ slices */

struct range {
	int64_t	begin, step;
	size_t	n;
};

static int
whole(struct chat_run *r, const struct chat_value *v, int64_t none,
    int64_t *out)
{
	if (v == NULL || v->type == CHAT_NONE)
		*out = none;
	else if (v->type == CHAT_INT || v->type == CHAT_BOOL)
		*out = v->u.i;
	else
		return qwen_chat_fail(r, "a slice by %s",
		    qwen_chat_type_name(v));
	return 0;
}

static int64_t
clip(int64_t i, int64_t n, int64_t lo, int64_t hi)
{
	if (i < 0)
		i = i < -n ? lo : i + n;
	return i < lo ? lo : i > hi ? hi : i;
}

/* begin:end:step of n things, as Python has it. */
static int
slice_of(struct chat_run *r, const struct chat_value *part[3], size_t len,
    struct range *s)
{
	int64_t n = (int64_t)len, begin = 0, end = 0, step = 1;

	if (whole(r, part[2], 1, &step) < 0)
		return -1;
	if (step == 0 || step == INT64_MIN)
		return qwen_chat_fail(r, "a slice by steps of zero");
	if (whole(r, part[0], step > 0 ? 0 : INT64_MAX, &begin) < 0 ||
	    whole(r, part[1], step > 0 ? INT64_MAX : INT64_MIN, &end) < 0)
		return -1;
	if (step > 0) {
		begin = clip(begin, n, 0, n);
		end = clip(end, n, 0, n);
		s->n = begin >= end ? 0 : (size_t)((end - begin - 1) / step) + 1;
	} else {
		begin = clip(begin, n, -1, n - 1);
		end = end == INT64_MIN ? -1 : clip(end, n, -1, n - 1);
		s->n = begin <= end ? 0 :
		    (size_t)((begin - end - 1) / -step) + 1;
	}
	s->begin = begin;
	s->step = step;
	return 0;
}

static int
sublist(struct chat_run *r, const struct chat_list *l, const struct range *s,
    struct chat_list *out)
{
	size_t i;

	out->n = s->n;
	if (s->step == 1) {
		out->v = s->n == 0 ? NULL : l->v + s->begin;
		return 0;
	}
	if (qwen_chat_step(r, s->n) < 0)
		return -1;
	out->v = qwen_chat_new(r, s->n, sizeof *out->v);
	if (out->v == NULL)
		return -1;
	for (i = 0; i < s->n; i++)
		out->v[i] = l->v[s->begin + (int64_t)i * s->step];
	return 0;
}

static int
subtext(struct chat_run *r, const struct chat_text *t, const struct range *s,
    struct chat_value *out)
{
	struct chat_list l, part;
	struct chat_buf b = { 0 };
	size_t begin, i;

	if (s->step == 1) {
		begin = s->n == 0 ? 0 : offset(t, (size_t)s->begin);
		i = s->n == 0 ? 0 : offset(t, (size_t)s->begin + s->n);
		*out = chat_text(chat_slice(t, begin, i));
		return qwen_chat_step(r, t->n / 8);
	}
	if (characters(r, t, &l) < 0 || sublist(r, &l, s, &part) < 0)
		return -1;
	for (i = 0; i < part.n; i++)
		qwen_chat_put(r, &b, &part.v[i].u.s);
	return qwen_chat_take(r, &b, out);
}

int
qwen_chat_subset(struct chat_run *r, const struct chat_value *obj,
    const struct chat_value *part[3], struct chat_value *out)
{
	struct chat_value v = *obj;
	struct range s;
	size_t n;

	if (obj->type != CHAT_TEXT && obj->type != CHAT_LIST &&
	    obj->type != CHAT_TUPLE)
		return qwen_chat_fail(r, "a slice of %s",
		    qwen_chat_type_name(obj));
	if (qwen_chat_length(r, obj, &n) < 0 || slice_of(r, part, n, &s) < 0)
		return -1;
	if (obj->type == CHAT_TEXT)
		return subtext(r, &obj->u.s, &s, out);
	if (sublist(r, &obj->u.l, &s, &v.u.l) < 0)
		return -1;
	*out = v;
	return 0;
}
