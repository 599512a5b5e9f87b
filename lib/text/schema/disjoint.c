/* SPDX-License-Identifier: ISC */
/*
 * disjoint.c - whether two of oneOf can be told apart: by their types, by the
 * values that they list, or by a member that one of them must have.
 */
#include "text/schema/schema.h"

/* A list of values of one of the parts. */
static size_t
listed(const struct schema_all *all, yyjson_val **v)
{
	size_t n = 0;
	int i;

	for (i = 0; i < all->n && n == 0; i++)
		n = qwen_schema_values(all->part[i].v, v);
	return n;
}

/* Both list values, and none is in both. */
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
			if (!qwen_schema_step(s) || qwen_schema_same(v, x))
				return 0;
		}
	}
	return 1;
}

/* A member that a must have, and whose values differ: neither fits the other. */
static int
members_differ(struct schema *s, const struct schema_all *a,
    const struct schema_all *b, int depth)
{
	struct schema_all x, y;
	yyjson_val *key;
	size_t k, max;
	int i;

	for (i = 0; i < a->n; i++) {
		yyjson_val *list = qwen_schema_get(a, i, "required");

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

int
qwen_schema_disjoint(struct schema *s, const struct schema_all *a,
    const struct schema_all *b, int depth)
{
	int both;

	if (!qwen_schema_step(s))
		return 0;
	if (a->never || b->never)
		return 1;
	/* what is made for the one, and valid for the other */
	both = (qwen_schema_types(s, a, 1) & qwen_schema_types(s, b, 0)) |
	    (qwen_schema_types(s, b, 1) & qwen_schema_types(s, a, 0));
	if (both == 0 || lists_differ(s, a, b))
		return 1;
	return both == TYPE_OBJECT && depth < 4 &&
	    (members_differ(s, a, b, depth) || members_differ(s, b, a, depth));
}
