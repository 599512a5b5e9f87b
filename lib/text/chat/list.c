/* SPDX-License-Identifier: ISC */
/* list.c - filters that select from, sort and regroup lists. */
#include <string.h>

#include "text/chat/chat.h"

/* -------------------------------------------------------------- attributes */

/* One part of "a.b.0": a key, or an index if it is a number. */
static struct chat_value
part_of(struct chat_exec *r, const struct chat_value *v,
    const struct chat_text *part)
{
	struct chat_value key = chat_text(*part);
	const struct chat_value *found;
	int64_t i;

	if (part->n < 20 && qwen_chat_digits(part->s, part->n, &i) && i >= 0)
		key = chat_int(i);
	if (v->type == CHAT_DICT) {
		found = qwen_chat_find(r, v->u.d, &key);
		return found != NULL ? *found :
		    chat_undefined(part->s, part->n);
	}
	return qwen_chat_item(r, v, &key);
}

struct chat_value
qwen_chat_path(struct chat_exec *r, const struct chat_value *v,
    const struct chat_value *path, const struct chat_value *usual)
{
	struct chat_text dot = chat_literal("."), part;
	const struct chat_text *t = &path->u.s;
	struct chat_value out = *v;
	size_t at, end;

	if (path->type == CHAT_INT)
		return qwen_chat_item(r, v, path);
	if (path->type != CHAT_TEXT) {
		qwen_chat_fail(r, "an attribute name cannot be %s",
		    qwen_chat_type_name(path));
		return out;
	}
	for (at = 0; at <= t->n && !r->failed; at = end + 1) {
		end = qwen_chat_search(r, t, &dot, at);
		end = end > t->n ? t->n : end;
		part = chat_slice(t, at, end);
		out = part_of(r, &out, &part);
		if (usual != NULL && out.type == CHAT_UNDEFINED)
			out = *usual;
	}
	return out;
}

/* Returns the attribute, or the item itself if attr is missing. */
static struct chat_value
attribute(struct chat_exec *r, const struct chat_value *item,
    const struct chat_value *attr)
{
	return chat_missing(attr) ? *item : qwen_chat_path(r, item, attr, NULL);
}

/* ------------------------------------------------------------------ sorting */

/* Converts strings to lower case for comparison, unless case matters. */
static struct chat_value
fold(const struct chat_builtin_call *c, const struct chat_value *v, int by_case)
{
	return by_case || v->type != CHAT_TEXT ? *v :
	    qwen_chat_lower(c->r, &v->u.s);
}

/* Returns the sort key of a value: an attribute, several ("a,b"), or itself. */
static struct chat_value
key_of(const struct chat_builtin_call *c, const struct chat_value *v,
    const struct chat_value *attr, const struct chat_value *usual, int by_case)
{
	struct chat_text comma = chat_literal(","), part;
	struct chat_value all[8], path, one;
	size_t at, end, n = 0;

	if (chat_missing(attr))
		return fold(c, v, by_case);
	if (attr->type != CHAT_TEXT ||
	    qwen_chat_search(c->r, &attr->u.s, &comma, 0) > attr->u.s.n) {
		one = qwen_chat_path(c->r, v, attr, usual);
		return fold(c, &one, by_case);
	}
	for (at = 0; at <= attr->u.s.n && n < 8 && !c->r->failed;
	    at = end + 1) {
		end = qwen_chat_search(c->r, &attr->u.s, &comma, at);
		end = end > attr->u.s.n ? attr->u.s.n : end;
		part = chat_slice(&attr->u.s, at, end);
		path = chat_text(part);
		one = qwen_chat_path(c->r, v, &path, usual);
		all[n++] = fold(c, &one, by_case);
	}
	return qwen_chat_tuple(c->r, all, n);
}

/* A value and its sort key. */
struct keyed {
	struct chat_value	key, v;
};

/* Stable merge sort. */
static void
merge(struct chat_exec *r, struct keyed *a, size_t n, struct keyed *room,
    int down)
{
	size_t half = n / 2, i = 0, j = half, k = 0;
	int second;

	if (n < 2 || r->failed)
		return;
	merge(r, a, half, room, down);
	merge(r, a + half, n - half, room, down);
	while (k < n && !r->failed) {
		if (i < half && j < n)
			second = down ? qwen_chat_compare(r, CHAT_LT,
			    &a[i].key, &a[j].key) : qwen_chat_compare(r,
			    CHAT_LT, &a[j].key, &a[i].key);
		else
			second = i == half;
		qwen_chat_step(r, 8);
		room[k++] = second ? a[j++] : a[i++];
	}
	if (k == n)
		memcpy(a, room, n * sizeof *a);
}

static struct chat_list
sorted(const struct chat_builtin_call *c, const struct chat_list *l,
    const struct chat_value *attr, const struct chat_value *usual,
    int by_case, int down)
{
	struct chat_list out = qwen_chat_new_list(c->r, l->n);
	struct keyed *k = qwen_chat_new(c->r, l->n, sizeof *k);
	struct keyed *room = qwen_chat_new(c->r, l->n, sizeof *room);
	size_t i;

	for (i = 0; i < out.n && !c->r->failed; i++) {
		k[i].v = l->v[i];
		k[i].key = key_of(c, &l->v[i], attr, usual, by_case);
	}
	if (!c->r->failed)
		merge(c->r, k, out.n, room, down);
	if (c->r->failed)
		return (struct chat_list){ .v = NULL };
	for (i = 0; i < out.n; i++)
		out.v[i] = k[i].v;
	return out;
}

static struct chat_value
f_sort(const struct chat_builtin_call *c)
{
	struct chat_list l = qwen_chat_iterate(c->r, c->x);

	return chat_list(sorted(c, &l, qwen_chat_arg(c->a, 2, "attribute"),
	    NULL, qwen_chat_flag(c, 1, "case_sensitive"),
	    qwen_chat_flag(c, 0, "reverse")));
}

static struct chat_value
f_dictsort(const struct chat_builtin_call *c)
{
	const struct chat_value *by = qwen_chat_arg(c->a, 1, "by");
	struct chat_value which = chat_int(0), pairs;

	if (c->x->type != CHAT_DICT)
		return chat_refuse(c, "dictsort of what is no object");
	if (chat_is_text(by, "value"))
		which = chat_int(1);
	else if (by != NULL && !chat_is_text(by, "key"))
		return chat_refuse(c, "dictsort by neither \"key\" nor \"value\"");
	pairs = qwen_chat_pairs(c->r, c->x->u.d);
	return chat_list(sorted(c, &pairs.u.l, &which, NULL,
	    qwen_chat_flag(c, 0, "case_sensitive"),
	    qwen_chat_flag(c, 2, "reverse")));
}

enum { LEAST, MOST };

static struct chat_value
f_extreme(const struct chat_builtin_call *c)
{
	const struct chat_value *attr = qwen_chat_arg(c->a, 1, "attribute");
	int by_case = qwen_chat_flag(c, 0, "case_sensitive");
	struct chat_list l = qwen_chat_iterate(c->r, c->x);
	struct chat_value best, key;
	size_t i, at = 0;

	if (l.n == 0)
		return chat_undefined("an item", 7);
	best = key_of(c, &l.v[0], attr, NULL, by_case);
	for (i = 1; i < l.n && !c->r->failed; i++) {
		key = key_of(c, &l.v[i], attr, NULL, by_case);
		qwen_chat_step(c->r, 2);
		if (!qwen_chat_compare(c->r, c->variant == LEAST ? CHAT_LT :
		    CHAT_GT, &key, &best))
			continue;
		best = key;
		at = i;
	}
	return l.v[at];
}

/* Keeps the first of equal items. */
static struct chat_value
f_unique(const struct chat_builtin_call *c)
{
	const struct chat_value *attr = qwen_chat_arg(c->a, 1, "attribute");
	int by_case = qwen_chat_flag(c, 0, "case_sensitive");
	struct chat_list l = qwen_chat_iterate(c->r, c->x);
	struct chat_list keys = qwen_chat_new_list(c->r, l.n);
	struct chat_list out = qwen_chat_new_list(c->r, l.n);
	size_t i, k, n = 0;

	for (i = 0; i < l.n && !c->r->failed; i++) {
		keys.v[n] = key_of(c, &l.v[i], attr, NULL, by_case);
		for (k = 0; k < n && !c->r->failed &&
		    !qwen_chat_equal(c->r, &keys.v[k], &keys.v[n]); k++)
			;
		if (k == n)
			out.v[n++] = l.v[i];
	}
	out.n = n;
	return chat_list(out);
}

/* --------------------------------------------------------------- regrouping */

/* A group: a tuple of the common attribute and the list of items. */
static struct chat_value
group(const struct chat_builtin_call *c, const struct chat_value *by,
    const struct chat_list *l, size_t from, size_t n)
{
	struct chat_value two[] = { *by,
	    chat_list((struct chat_list){ l->v + from, n }) };

	return qwen_chat_tuple(c->r, two, 2);
}

static struct chat_value
f_groupby(const struct chat_builtin_call *c)
{
	const struct chat_value *attr = qwen_chat_arg(c->a, 0, "attribute");
	const struct chat_value *usual = qwen_chat_arg(c->a, 1, "default");
	int by_case = qwen_chat_flag(c, 2, "case_sensitive");
	struct chat_list l = qwen_chat_iterate(c->r, c->x), out;
	struct chat_value first = { 0 }, by, key = { 0 }, last = { 0 };
	size_t i, from = 0;

	if (attr == NULL)
		return chat_refuse(c, "groupby of no attribute");
	l = sorted(c, &l, attr, usual, by_case, 0);
	out = qwen_chat_new_list(c->r, l.n);
	out.n = 0;
	for (i = 0; i <= l.n && !c->r->failed; i++) {
		if (i < l.n) {
			by = qwen_chat_path(c->r, &l.v[i], attr, usual);
			key = fold(c, &by, by_case);
		}
		if (i > 0 && (i == l.n ||
		    !qwen_chat_equal(c->r, &key, &last))) {
			out.v[out.n++] = group(c, &first, &l, from, i - from);
			from = i;
		}
		if (i == from)
			first = by;
		last = key;
	}
	return chat_list(out);
}

/* Returns n items from index from on, padded to width if there is a filler. */
static struct chat_value
row_of(const struct chat_builtin_call *c, const struct chat_list *l,
    size_t from, size_t n, size_t width)
{
	const struct chat_value *fill = qwen_chat_arg(c->a, 1, "fill_with");
	struct chat_list out;
	size_t i;

	if (chat_missing(fill) || n >= width)
		width = n;
	out = qwen_chat_new_list(c->r, width);
	for (i = 0; i < out.n; i++)
		out.v[i] = i < n ? l->v[from + i] : *fill;
	return chat_list(out);
}

static int64_t
count(const struct chat_builtin_call *c, const char *key)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, key);

	if (v != NULL && v->type == CHAT_INT && v->u.i > 0 &&
	    v->u.i <= CHAT_RANGE_MAX)
		return v->u.i;
	chat_refuse(c, "the number of items is not a positive integer");
	return 1;
}

static struct chat_value
f_batch(const struct chat_builtin_call *c)
{
	size_t width = (size_t)count(c, "linecount"), i, n;
	struct chat_list l = qwen_chat_iterate(c->r, c->x);
	struct chat_list out = qwen_chat_new_list(c->r,
	    (l.n + width - 1) / width);

	for (i = 0; i < out.n && !c->r->failed; i++) {
		n = l.n - i * width < width ? l.n - i * width : width;
		out.v[i] = row_of(c, &l, i * width, n, width);
	}
	return chat_list(out);
}

static struct chat_value
f_slice(const struct chat_builtin_call *c)
{
	size_t rows = (size_t)count(c, "slices"), i, at = 0, n;
	struct chat_list l = qwen_chat_iterate(c->r, c->x);
	struct chat_list out = qwen_chat_new_list(c->r, rows);

	for (i = 0; i < out.n && !c->r->failed; i++, at += n) {
		n = l.n / rows + (i < l.n % rows);
		/* the first rows have one more item; the others get a filler */
		out.v[i] = row_of(c, &l, at, n, n + (i >= l.n % rows));
	}
	return chat_list(out);
}

static struct chat_value
f_sum(const struct chat_builtin_call *c)
{
	const struct chat_value *attr = qwen_chat_arg(c->a, 0, "attribute");
	const struct chat_value *start = qwen_chat_arg(c->a, 1, "start");
	struct chat_list l = qwen_chat_iterate(c->r, c->x);
	struct chat_value sum = start != NULL ? *start : chat_int(0), v;
	size_t i;

	for (i = 0; i < l.n && !c->r->failed; i++) {
		v = attribute(c->r, &l.v[i], attr);
		qwen_chat_step(c->r, 2);
		sum = qwen_chat_binary(c->r, CHAT_ADD, &sum, &v);
	}
	return sum;
}

struct chat_value
qwen_chat_join_items(struct chat_exec *r, const struct chat_value *items,
    const struct chat_text *between, const struct chat_value *attr)
{
	struct chat_list l = qwen_chat_iterate(r, items);
	struct chat_buf b = { 0 };
	size_t i;

	for (i = 0; i < l.n && !r->failed; i++) {
		if (i > 0 && between != NULL)
			qwen_chat_put(r, &b, between);
		qwen_chat_step(r, 1);
		qwen_chat_print(r, &b, attribute(r, &l.v[i], attr));
	}
	return qwen_chat_buf_value(r, &b);
}

static struct chat_value
f_join(const struct chat_builtin_call *c)
{
	const struct chat_value *d = qwen_chat_arg(c->a, 0, "d");

	if (d != NULL && d->type != CHAT_TEXT)
		return chat_refuse(c, "join by %s", qwen_chat_type_name(d));
	return qwen_chat_join_items(c->r, c->x, d != NULL ? &d->u.s : NULL,
	    qwen_chat_arg(c->a, 1, "attribute"));
}

const struct chat_builtin qwen_chat_in_lists[] = {
	FILTER("batch", f_batch, 0), FILTER("dictsort", f_dictsort, 0),
	FILTER("groupby", f_groupby, 0), FILTER("join", f_join, 0),
	FILTER("max", f_extreme, MOST), FILTER("min", f_extreme, LEAST),
	FILTER("slice", f_slice, 0), FILTER("sort", f_sort, 0),
	FILTER("sum", f_sum, 0), FILTER("unique", f_unique, 0),
	{ NULL, NULL, 0, 0 }
};
