/* SPDX-License-Identifier: ISC */
/* value.c - equality, contents and parts of values. */
#include <string.h>

#include "text/chat/chat.h"

const char *
qwen_chat_type_name(const struct chat_value *v)
{
	static const char *const name[] = {
		"undefined", "none", "a boolean", "an integer", "an integer",
		"a number", "a string", "a list", "a tuple", "an object",
		"a namespace", "the loop", "a macro", "a function", "a method",
		"a cycler", "a joiner",
	};

	return name[v->type];
}

int
qwen_chat_true(struct chat_value v)
{
	switch (v.type) {
	case CHAT_UNDEFINED: case CHAT_NONE: return 0;
	case CHAT_BOOL: case CHAT_INT: return v.u.i != 0;
	case CHAT_FLOAT: return v.u.f != 0;
	case CHAT_TEXT: return v.u.s.n > 0;
	case CHAT_LIST: case CHAT_TUPLE: return v.u.l.n > 0;
	case CHAT_DICT: return v.u.d->n > 0;
	default: return 1;
	}
}

int
qwen_chat_same_text(const struct chat_text *a, const char *b)
{
	return strlen(b) == a->n && memcmp(a->s, b, a->n) == 0;
}

int
qwen_chat_compare_text(const struct chat_text *a, const struct chat_text *b)
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

static int equal_at(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b, unsigned depth);

static int
equal_lists(struct chat_exec *r, const struct chat_list *a,
    const struct chat_list *b, unsigned depth)
{
	size_t i;
	int eq = a->n == b->n;

	for (i = 0; eq && i < a->n; i++)
		eq = equal_at(r, &a->v[i], &b->v[i], depth + 1);
	return eq;
}

static int
equal_dicts(struct chat_exec *r, const struct chat_dict *a,
    const struct chat_dict *b, unsigned depth)
{
	const struct chat_value *v;
	size_t i;
	int eq = a->n == b->n;

	for (i = 0; eq && i < a->n; i++) {
		v = qwen_chat_find(r, b, &a->p[i].key);
		eq = v != NULL && equal_at(r, &a->p[i].v, v, depth + 1);
	}
	return eq;
}

static int
equal_texts(struct chat_exec *r, const struct chat_text *a,
    const struct chat_text *b)
{
	return a->n == b->n && qwen_chat_step(r, a->n / 64) == 0 &&
	    memcmp(a->s, b->s, a->n) == 0;
}

static int
equal_at(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b, unsigned depth)
{
	double x, y;

	if (depth > CHAT_VALUE_DEPTH)
		qwen_chat_limit(r, "depth of a value");
	if (qwen_chat_step(r, 1) < 0)
		return 0;
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
qwen_chat_equal(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b)
{
	return equal_at(r, a, b, 0);
}

/* ----------------------------------------------------------------- objects */

const struct chat_value *
qwen_chat_find(struct chat_exec *r, const struct chat_dict *d,
    const struct chat_value *key)
{
	size_t i;

	qwen_chat_step(r, 1 + d->n / 4);
	for (i = 0; i < d->n && !r->failed; i++) {
		const struct chat_value *k = &d->p[i].key;

		if (k->type == CHAT_TEXT && key->type == CHAT_TEXT ?
		    equal_texts(r, &k->u.s, &key->u.s) :
		    qwen_chat_equal(r, k, key))
			return &d->p[i].v;
	}
	return NULL;
}

struct chat_value
qwen_chat_new_dict(struct chat_exec *r, enum chat_type type)
{
	struct chat_value v = { .type = type };

	v.u.d = qwen_chat_new(r, 1, sizeof *v.u.d);
	if (v.u.d == NULL)
		return chat_undefined("", 0);
	memset(v.u.d, 0, sizeof *v.u.d);
	return v;
}

void
qwen_chat_dict_put(struct chat_exec *r, struct chat_dict *d,
    const struct chat_value *key, const struct chat_value *v)
{
	const struct chat_value *old;

	if (r->failed)
		return;
	if (key->type > CHAT_TEXT || key->type == CHAT_UNDEFINED) {
		qwen_chat_fail(r, "%s cannot be a key",
		    qwen_chat_type_name(key));
		return;
	}
	old = qwen_chat_find(r, d, key);
	if (old != NULL)
		*(struct chat_value *)(uintptr_t)old = *v;
	else if (!r->failed &&
	    qwen_chat_more(r, &d->p, d->n, &d->cap, sizeof *d->p) == 0) {
		d->p[d->n].key = *key;
		d->p[d->n++].v = *v;
	}
}

struct chat_value *
qwen_chat_key(struct chat_exec *r, const struct chat_dict *d, const char *key)
{
	struct chat_value k = chat_cstr(key);

	return (struct chat_value *)(uintptr_t)qwen_chat_find(r, d, &k);
}

void
qwen_chat_put_key(struct chat_exec *r, struct chat_dict *d, const char *key,
    struct chat_value v)
{
	struct chat_value k = chat_cstr(key);

	qwen_chat_dict_put(r, d, &k, &v);
}

void
qwen_chat_put_all(struct chat_exec *r, struct chat_dict *d,
    const struct chat_dict *from)
{
	size_t i;

	for (i = 0; !r->failed && i < from->n; i++)
		qwen_chat_dict_put(r, d, &from->p[i].key, &from->p[i].v);
}

/* ------------------------------------------------------------- collections */

size_t
qwen_chat_length(struct chat_exec *r, const struct chat_value *v)
{
	switch (v->type) {
	case CHAT_UNDEFINED: return 0;
	case CHAT_TEXT:
		return qwen_chat_chars(r, v->u.s.s, v->u.s.n);
	case CHAT_LIST: case CHAT_TUPLE: return v->u.l.n;
	case CHAT_DICT: return v->u.d->n;
	case CHAT_LOOP: return v->u.loop->items.n;
	default:
		qwen_chat_fail(r, "%s has no length", qwen_chat_type_name(v));
		return 0;
	}
}

struct chat_list
qwen_chat_new_list(struct chat_exec *r, size_t n)
{
	struct chat_list l = { NULL, n };

	if (qwen_chat_step(r, n) == 0)
		l.v = qwen_chat_new(r, n, sizeof *l.v);
	if (l.v == NULL)
		l.n = 0;
	return l;
}

static struct chat_list
characters(struct chat_exec *r, const struct chat_text *t)
{
	struct chat_list l = qwen_chat_new_list(r, t->n);
	size_t i, k, n = l.n;
	uint32_t c;

	l.n = 0;
	for (i = 0; i < n; i += k) {
		k = qwen_chat_char(t->s, i, t->n, &c);
		l.v[l.n++] = chat_text(chat_slice(t, i, i + k));
	}
	return l;
}

struct chat_list
qwen_chat_members(struct chat_exec *r, const struct chat_dict *d, int values)
{
	struct chat_list l = qwen_chat_new_list(r, d->n);
	size_t i;

	for (i = 0; i < l.n; i++)
		l.v[i] = values ? d->p[i].v : d->p[i].key;
	return l;
}

struct chat_value
qwen_chat_pairs(struct chat_exec *r, const struct chat_dict *d)
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

struct chat_value
qwen_chat_tuple(struct chat_exec *r, const struct chat_value *v, size_t n)
{
	struct chat_list l = qwen_chat_new_list(r, n);

	if (l.n > 0)
		memcpy(l.v, v, n * sizeof *v);
	return (struct chat_value){ .type = CHAT_TUPLE, .u.l = l };
}

struct chat_list
qwen_chat_iterate(struct chat_exec *r, const struct chat_value *v)
{
	struct chat_list none = { NULL, 0 };

	switch (v->type) {
	case CHAT_UNDEFINED: return none;
	case CHAT_LIST: case CHAT_TUPLE: return v->u.l;
	case CHAT_TEXT: return characters(r, &v->u.s);
	case CHAT_DICT: return qwen_chat_members(r, v->u.d, 0);
	default:
		qwen_chat_fail(r, "%s cannot be iterated over",
		    qwen_chat_type_name(v));
		return none;
	}
}

struct chat_list
qwen_chat_iterate_if(struct chat_exec *r, const struct chat_value *v)
{
	struct chat_list none = { NULL, 0 };

	return qwen_chat_true(*v) ? qwen_chat_iterate(r, v) : none;
}

/* ------------------------------------------------------------------- items */

static struct chat_value
by_key(struct chat_exec *r, const struct chat_dict *d,
    const struct chat_value *key)
{
	const struct chat_value *v = qwen_chat_find(r, d, key);

	if (v != NULL)
		return *v;
	return key->type == CHAT_TEXT ?
	    chat_undefined(key->u.s.s, key->u.s.n) : chat_undefined("a key", 5);
}

/* Returns index i, counted from the end if negative; n if out of range. */
static size_t
position(int64_t i, size_t n)
{
	if (i < 0)
		i += (int64_t)n;
	return i < 0 || (uint64_t)i >= n ? n : (size_t)i;
}

static struct chat_value
text_item(struct chat_exec *r, const struct chat_text *t, int64_t i)
{
	size_t n = qwen_chat_chars(r, t->s, t->n), at = position(i, n);
	uint32_t c;

	if (at == n)
		return chat_undefined("a character", 11);
	at = qwen_chat_offset(r, t, at);
	return chat_text(chat_slice(t, at, at +
	    qwen_chat_char(t->s, at, t->n, &c)));
}

struct chat_value
qwen_chat_item(struct chat_exec *r, const struct chat_value *obj,
    const struct chat_value *key)
{
	int whole = chat_is_whole(key);
	size_t i;

	switch (obj->type) {
	case CHAT_UNDEFINED:
		qwen_chat_fail(r, "'%.*s' is undefined and has no items",
		    (int)(obj->u.s.n < 60 ? obj->u.s.n : 60),
		    obj->u.s.s);
		break;
	case CHAT_DICT: case CHAT_NAMESPACE:
		return by_key(r, obj->u.d, key);
	case CHAT_LIST: case CHAT_TUPLE:
		i = whole ? position(key->u.i, obj->u.l.n) : obj->u.l.n;
		if (i < obj->u.l.n)
			return obj->u.l.v[i];
		break;
	case CHAT_TEXT:
		if (whole)
			return text_item(r, &obj->u.s, key->u.i);
		break;
	default:
		break;
	}
	return chat_undefined("an item", 7);
}

/* ------------------------------------------------------------------ slices */

struct range {
	int64_t	begin, step;
	size_t	n;
};

static int64_t
whole(struct chat_exec *r, const struct chat_value *v, int64_t none)
{
	if (chat_missing(v))
		return none;
	if (chat_is_whole(v))
		return v->u.i;
	qwen_chat_fail(r, "a slice index cannot be %s", qwen_chat_type_name(v));
	return none;
}

static int64_t
clip(int64_t i, int64_t n, int64_t lo, int64_t hi)
{
	if (i < 0)
		i = i < -n ? lo : i + n;
	return i < lo ? lo : i > hi ? hi : i;
}

/* Computes begin:end:step for n items, as Python does. */
static struct range
slice_of(struct chat_exec *r, const struct chat_value *part[3], size_t len)
{
	int64_t n = (int64_t)len, step = whole(r, part[2], 1), begin, end;
	struct range s = { 0, step, 0 };

	if (step == 0 || step == INT64_MIN)
		qwen_chat_fail(r, "a slice with step 0");
	begin = whole(r, part[0], step > 0 ? 0 : INT64_MAX);
	end = whole(r, part[1], step > 0 ? INT64_MAX : INT64_MIN);
	if (r->failed)
		return s;
	if (step > 0) {
		begin = clip(begin, n, 0, n);
		end = clip(end, n, 0, n);
		s.n = begin >= end ? 0 : (size_t)((end - begin - 1) / step) + 1;
	} else {
		begin = clip(begin, n, -1, n - 1);
		end = end == INT64_MIN ? -1 : clip(end, n, -1, n - 1);
		s.n = begin <= end ? 0 :
		    (size_t)((begin - end - 1) / -step) + 1;
	}
	s.begin = begin;
	return s;
}

static struct chat_list
sublist(struct chat_exec *r, const struct chat_list *l, const struct range *s)
{
	struct chat_list out = { s->n == 0 ? NULL : l->v + s->begin, s->n };
	size_t i;

	if (s->step == 1)
		return out;
	out = qwen_chat_new_list(r, s->n);
	for (i = 0; i < out.n; i++)
		out.v[i] = l->v[s->begin + (int64_t)i * s->step];
	return out;
}

static struct chat_value
subtext(struct chat_exec *r, const struct chat_text *t, const struct range *s)
{
	struct chat_list l;
	struct chat_buf b = { 0 };
	size_t begin, i;

	if (s->step == 1) {
		begin = i = 0;
		if (s->n > 0) {
			begin = qwen_chat_offset(r, t, (size_t)s->begin);
			i = qwen_chat_offset(r, t, (size_t)s->begin + s->n);
		}
		return chat_text(chat_slice(t, begin, i > begin ? i : begin));
	}
	l = characters(r, t);
	if (!r->failed)
		l = sublist(r, &l, s);
	for (i = 0; i < l.n && !r->failed; i++)
		qwen_chat_put(r, &b, &l.v[i].u.s);
	return qwen_chat_buf_value(r, &b);
}

struct chat_value
qwen_chat_subset(struct chat_exec *r, const struct chat_value *obj,
    const struct chat_value *part[3])
{
	struct chat_value v = *obj;
	struct range s;

	if (obj->type != CHAT_TEXT && !chat_is_list(obj)) {
		qwen_chat_fail(r, "%s cannot be sliced",
		    qwen_chat_type_name(obj));
		return v;
	}
	s = slice_of(r, part, qwen_chat_length(r, obj));
	if (r->failed)
		return v;
	if (obj->type == CHAT_TEXT)
		return subtext(r, &obj->u.s, &s);
	v.u.l = sublist(r, &obj->u.l, &s);
	return v;
}

struct chat_value
qwen_chat_reverse(struct chat_exec *r, const struct chat_value *v)
{
	struct chat_value back = chat_int(-1);
	const struct chat_value *part[3] = { NULL, NULL, &back };

	return qwen_chat_subset(r, v, part);
}
