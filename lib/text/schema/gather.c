/* SPDX-License-Identifier: ISC */
/*
 * gather.c - collects all schemas that hold for one value: a schema, the one
 * that its $ref refers to, and those of its allOf; and those of a field.
 */
#include <string.h>

#include "text/schema/schema.h"

/* Is v part i, or a part that led to it? */
static int
is_above(const struct schema_all *all, int i, const yyjson_val *v)
{
	for (; i >= 0; i = all->part[i].parent) {
		if (all->part[i].v == v)
			return 1;
	}
	return 0;
}

/* Collects all schemas of a list, as of allOf. */
static void
gather_list(struct schema *s, struct schema_all *all, yyjson_val *list, int at)
{
	yyjson_val *v;
	size_t i, max;

	if (!yyjson_is_arr(list) || yyjson_arr_size(list) == 0)
		qwen_schema_fail(s, list, "not a list of schemas");
	yyjson_arr_foreach(list, i, max, v)
		qwen_schema_gather(s, all, v, at);
}

void
qwen_schema_gather(struct schema *s, struct schema_all *all, yyjson_val *v,
    int parent)
{
	yyjson_val *ref, *list, *to, *sugar;
	int i, at = all->n;

	if (!qwen_schema_step(s))
		return;
	if (yyjson_is_bool(v)) {
		all->never |= !yyjson_get_bool(v);
		return;
	}
	for (i = 0; i < at && all->part[i].v != v; i++)
		;
	if (!yyjson_is_obj(v))
		qwen_schema_fail(s, v, "not a schema: neither an object nor "
		    "true or false");
	else if (is_above(all, parent, v))
		qwen_schema_fail(s, v, "the schema refers only to itself");
	else if (i == SCHEMA_PARTS)
		qwen_schema_fail(s, v, "more than %d schemas apply to one "
		    "value", SCHEMA_PARTS);
	if (s->failed || i < at)
		return;
	qwen_schema_check(s, v);
	sugar = qwen_schema_sugar(s, v);
	if (s->failed)
		return;
	all->part[all->n++] = (struct schema_part){ .v = v, .parent = parent };
	if (!yyjson_is_null(ref = yyjson_obj_get(v, "$ref")) && ref != NULL &&
	    (to = qwen_schema_refer(s, ref)) != NULL)
		qwen_schema_gather(s, all, to, at);
	list = yyjson_obj_get(v, "allOf");
	if (list != NULL && !yyjson_is_null(list))
		gather_list(s, all, list, at);
	if (sugar != NULL)
		qwen_schema_gather(s, all, sugar, at);
}

/* ------------------------------------------------------------------- fields */

static yyjson_val *
property(struct schema *s, const struct schema_all *all, int i,
    const char *key, size_t n)
{
	return qwen_schema_find(s, qwen_schema_get(all, i, "properties"), key,
	    n);
}

/*
 * Does part i, or a part that it refers to, describe the field?  Then its
 * unevaluatedProperties does not apply.
 */
static int
says(struct schema *s, const struct schema_all *all, int i, const char *key,
    size_t n)
{
	int k, up;

	for (k = i; k < all->n; k++) {
		for (up = k; up > i; up = all->part[up].parent)
			;
		if (up == i && (property(s, all, k, key, n) != NULL ||
		    qwen_schema_get(all, k, "additionalProperties") != NULL ||
		    qwen_schema_get(all, k, "patternProperties") != NULL))
			return 1;
	}
	return 0;
}

/*
 * Adds the schemas of part i's patterns that match the name; returns their
 * number.
 */
static int
add_matching(struct schema *s, const struct schema_all *all, int i,
    const char *key, size_t n, struct schema_all *out)
{
	yyjson_val *list = qwen_schema_get(all, i, "patternProperties");
	yyjson_val *re, *v;
	size_t k, max;
	int found = 0;

	yyjson_obj_foreach(list, k, max, re, v) {
		if (s->failed || !qwen_schema_matches(s, re, key, n))
			continue;
		qwen_schema_gather(s, out, v, -1);
		found++;
	}
	return found;
}

/* Collects the schemas of a field's value. */
void
qwen_schema_member(struct schema *s, const struct schema_all *all,
    const char *key, size_t n, struct schema_all *out)
{
	int i;

	*out = (struct schema_all){ .n = 0 };
	for (i = 0; i < all->n; i++) {
		yyjson_val *v = property(s, all, i, key, n);
		int matched = add_matching(s, all, i, key, n, out);

		if (v == NULL && !matched)
			v = qwen_schema_get(all, i, "additionalProperties");
		if (v == NULL && !says(s, all, i, key, n))
			v = qwen_schema_get(all, i, "unevaluatedProperties");
		if (v != NULL)
			qwen_schema_gather(s, out, v, -1);
	}
}
