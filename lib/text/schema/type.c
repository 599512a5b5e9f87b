/* SPDX-License-Identifier: ISC */
/*
 * type.c - the types of values that schemas allow, and the values that they
 * list.
 */
#include <string.h>
#include <strings.h>

#include "text/schema/schema.h"

size_t
qwen_schema_values(yyjson_val *part, yyjson_val **first)
{
	yyjson_val *v;

	if ((*first = yyjson_obj_get(part, "const")) != NULL)
		return 1;
	if (!yyjson_is_arr(v = yyjson_obj_get(part, "enum")))
		return 0;
	*first = yyjson_arr_get_first(v);
	return yyjson_arr_size(v);
}

/*
 * Equality of JSON Schema: 1 equals 1.0, and the order of fields does not
 * matter.
 */
int
qwen_schema_same(struct schema *s, yyjson_val *a, yyjson_val *b)
{
	struct decimal x, y;
	yyjson_val *key, *v, *w;
	size_t i, max;

	if (yyjson_get_type(a) != yyjson_get_type(b))
		return 0;
	if (yyjson_is_raw(a) && qwen_decimal_read(&x, a) == 0 &&
	    qwen_decimal_read(&y, b) == 0)
		return qwen_decimal_compare(&x, &y) == 0;
	if (yyjson_is_arr(a)) {
		if (yyjson_arr_size(a) != yyjson_arr_size(b))
			return 0;
		w = yyjson_arr_get_first(b);
		yyjson_arr_foreach(a, i, max, v) {
			if (!qwen_schema_step(s) || !qwen_schema_same(s, v, w))
				return 0;
			w = unsafe_yyjson_get_next(w);
		}
		return 1;
	}
	if (!yyjson_is_obj(a))
		return yyjson_equals(a, b);
	if (yyjson_obj_size(a) != yyjson_obj_size(b))
		return 0;
	yyjson_obj_foreach(a, i, max, key, v) {
		w = qwen_schema_find(s, b, yyjson_get_str(key),
		    yyjson_get_len(key));
		if (w == NULL || !qwen_schema_same(s, v, w))
			return 0;
	}
	return 1;
}

static int
type_named(struct schema *s, yyjson_val *v)
{
	static const struct { const char *name; int types; } type[] = {
		{ "null", TYPE_NULL }, { "boolean", TYPE_BOOLEAN },
		{ "integer", TYPE_INTEGER }, { "number", TYPE_NUMBER },
		{ "string", TYPE_STRING }, { "array", TYPE_ARRAY },
		{ "object", TYPE_OBJECT },
	};
	const char *name = yyjson_get_str(v);
	size_t i;

	for (i = 0; name != NULL && i < sizeof type / sizeof type[0]; i++) {
		/* Google's function declarations write types in capitals */
		if (strcasecmp(name, type[i].name) == 0)
			return type[i].types;
	}
	qwen_schema_fail(s, v, "%.40s is not a type",
	    name != NULL ? name : "this");
	return 0;
}

static int
types_of_keyword(struct schema *s, yyjson_val *v)
{
	yyjson_val *one;
	size_t i, max;
	int types = 0;

	if (!yyjson_is_arr(v))
		return type_named(s, v);
	yyjson_arr_foreach(v, i, max, one)
		types |= type_named(s, one);
	return types;
}

/* Returns the type of a value; 1.0 is an integer. */
int
qwen_schema_type_of(yyjson_val *v)
{
	static const int types[] = {
		[YYJSON_TYPE_NULL] = TYPE_NULL, [YYJSON_TYPE_STR] = TYPE_STRING,
		[YYJSON_TYPE_ARR] = TYPE_ARRAY, [YYJSON_TYPE_OBJ] = TYPE_OBJECT,
		[YYJSON_TYPE_BOOL] = TYPE_BOOLEAN,
	};
	struct decimal d;

	if (!yyjson_is_raw(v))
		return types[yyjson_get_type(v)];
	return qwen_decimal_read(&d, v) < 0 ? TYPE_NUMBER : d.n_frac == 0 ?
	    TYPE_INTEGER : TYPE_REAL;
}

/* Returns the types of the values that a part lists; all if it lists none. */
static int
types_listed(yyjson_val *part)
{
	yyjson_val *v;
	size_t n;
	int types = 0;

	SCHEMA_EACH_VALUE(part, n, v)
		types |= qwen_schema_type_of(v);
	return qwen_schema_values(part, &v) == 0 ? TYPE_ANY : types;
}

static int
is_number_format(yyjson_val *v)
{
	return yyjson_equals_str(v, "int32") || yyjson_equals_str(v, "int64") ||
	    yyjson_equals_str(v, "float") || yyjson_equals_str(v, "double");
}

/*
 * Returns the types that the keywords are about, for schemas without type; 0 if
 * none is about a type.
 */
static int
types_meant(const struct schema_all *all)
{
	yyjson_val *key, *v;
	int i, types = 0;
	size_t k, max;

	for (i = 0; i < all->n; i++) {
		yyjson_obj_foreach(all->part[i].v, k, max, key, v) {
			if (yyjson_equals_str(key, "format"))
				types |= is_number_format(v) ? TYPE_NUMBER :
				    TYPE_STRING;
			else if (!qwen_schema_cannot(yyjson_get_str(key)))
				types |= qwen_schema_speaks_of(
				    yyjson_get_str(key));
		}
	}
	return types;
}

/* Returns a part with alternatives to choose from, or -1. */
int
qwen_schema_find_open(const struct schema_all *all, const char **which)
{
	int i;

	for (i = 0; i < 2 * all->n; i++) {
		*which = i % 2 == 0 ? "anyOf" : "oneOf";
		if (!all->part[i / 2].chosen[i % 2] &&
		    qwen_schema_get(all, i / 2, *which) != NULL)
			return i / 2;
	}
	return -1;
}

/* nullable of OpenAPI: the value may also be null. */
static int
nullable(const struct schema_all *all, int i)
{
	return yyjson_is_true(qwen_schema_get(all, i, "nullable")) ?
	    TYPE_NULL : 0;
}

/* Returns the types that may be valid; as_made: those that are generated. */
int
qwen_schema_types(struct schema *s, const struct schema_all *all, int as_made)
{
	int i, types = TYPE_ANY, meant, said = 0;
	const char *which;

	for (i = 0; i < all->n; i++) {
		yyjson_val *v = qwen_schema_get(all, i, "type"), *list;

		if (v != NULL)
			types &= types_of_keyword(s, v) | nullable(all, i);
		types &= types_listed(all->part[i].v);
		said |= v != NULL || qwen_schema_values(all->part[i].v,
		    &list) > 0;
	}
	if (as_made)
		types &= ~(int)all->out;
	if (!as_made || said || qwen_schema_find_open(all, &which) >= 0)
		return types;
	meant = types_meant(all);
	return meant != 0 ? meant : types;
}

/* May the value be anything? */
int
qwen_schema_is_any(struct schema *s, const struct schema_all *all)
{
	return qwen_schema_types(s, all, 1) == TYPE_ANY && all->out == 0 &&
	    types_meant(all) == 0 && !qwen_schema_has(all, "not");
}
