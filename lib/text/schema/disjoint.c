/* SPDX-License-Identifier: ISC */
/*
 * disjoint.c - whether two schemas of oneOf have no value in common: by their
 * types, by the values that they list, or by a required field.
 */
#include "text/schema/schema.h"

/* Returns the values that one of the parts lists. */
static size_t
listed(const struct schema_all *all, yyjson_val **v)
{
	size_t n = 0;
	int i;

	for (i = 0; i < all->n && n == 0; i++)
		n = qwen_schema_values(all->part[i].v, v);
	return n;
}

/* Do both list values, and have none in common? */
static int
lists_differ(struct schema *s, const struct schema_all *a,
    const struct schema_all *b)
{
	yyjson_val *v, *w, *x;
	size_t n = listed(a, &v), m = listed(b, &w), k;

	if (n == 0 || m == 0)
		return 0;
	for (; n > 0; n--, v = unsafe_yyjson_get_next(v)) {
		for (x = w, k = 0; k < m; k++, x = unsafe_yyjson_get_next(x)) {
			if (!qwen_schema_step(s) || qwen_schema_same(s, v, x))
				return 0;
		}
	}
	return 1;
}

/* Do properties or required name this field? */
static int
is_named(struct schema *s, const struct schema_all *a, yyjson_val *key)
{
	yyjson_val *v;
	size_t k, max;
	int i;

	for (i = 0; i < a->n; i++) {
		if (qwen_schema_find(s, qwen_schema_get(a, i, "properties"),
		    yyjson_get_str(key), yyjson_get_len(key)) != NULL)
			return 1;
		yyjson_arr_foreach(qwen_schema_get(a, i, "required"), k, max,
		    v) {
			if (!qwen_schema_step(s) || yyjson_equals(v, key))
				return 1;
		}
	}
	return 0;
}

/* Is there a field that `who', a or b, requires and whose values differ? */
static int
members_differ(struct schema *s, const struct schema_all *who,
    const struct schema_all *a, const struct schema_all *b, int depth)
{
	struct schema_all x, y;
	yyjson_val *key;
	size_t k, max;
	int i;

	for (i = 0; i < who->n; i++) {
		yyjson_val *list = qwen_schema_get(who, i, "required");

		yyjson_arr_foreach(list, k, max, key) {
			const char *name = yyjson_get_str(key);

			if (name == NULL || !qwen_schema_step(s))
				return 0;
			qwen_schema_member(s, a, name, yyjson_get_len(key), &x);
			qwen_schema_member(s, b, name, yyjson_get_len(key), &y);
			if (qwen_schema_disjoint(s, &x, &y, depth + 1))
				return 1;
		}
	}
	return 0;
}

/* Is there a field that b requires and a, as generated, never has? */
static int
is_missing(struct schema *s, const struct schema_all *a,
    const struct schema_all *b)
{
	yyjson_val *key, *list;
	size_t k, max;
	int i;

	if (qwen_schema_has(a, "additionalProperties") ||
	    qwen_schema_has(a, "unevaluatedProperties") ||
	    qwen_schema_has(a, "patternProperties") ||
	    !qwen_schema_has(a, "properties"))
		return 0;
	for (i = 0; i < b->n; i++) {
		list = qwen_schema_get(b, i, "required");
		yyjson_arr_foreach(list, k, max, key) {
			if (!qwen_schema_step(s))
				return 0;
			if (!is_named(s, a, key))
				return 1;
		}
	}
	return 0;
}

/* Does one list strings that the other never matches? */
static int
texts_differ(struct schema *s, const struct schema_all *a,
    const struct schema_all *b)
{
	yyjson_val *v;
	size_t n;
	int is_b;

	for (is_b = 0; is_b < 2; is_b++) {
		n = listed(is_b ? b : a, &v);
		if (n == 0)
			continue;
		for (; n > 0 && qwen_schema_step(s); n--,
		    v = unsafe_yyjson_get_next(v)) {
			if (yyjson_is_str(v) && qwen_schema_takes(s, is_b ? a :
			    b, v, is_b))
				return 0;
		}
		return !s->failed;
	}
	return 0;
}

int
qwen_schema_disjoint(struct schema *s, const struct schema_all *a,
    const struct schema_all *b, int depth)
{
	int both;

	if (!qwen_schema_step(s))
		return 0;
	if (a->never || b->never)
		return 1;
	both = qwen_schema_types(s, a, 1) & qwen_schema_types(s, b, 0);
	if (both == 0 || lists_differ(s, a, b))
		return 1;
	if (both == TYPE_STRING)
		return texts_differ(s, a, b);
	return both == TYPE_OBJECT && depth < 4 && (is_missing(s, a, b) ||
	    members_differ(s, a, a, b, depth) ||
	    members_differ(s, b, a, b, depth));
}
