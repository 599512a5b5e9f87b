/* SPDX-License-Identifier: ISC */
/*
 * types.c - the types of tool parameters, for the parser of replies in which
 * arguments are plain text.  Replaces a schema that has its types in a
 * reference or in parts by a list of the types.
 */
#include <string.h>

#include "text/chat/tools.h"
#include "text/request/parser.h"

/* Returns the type that a listed value stands for. */
static unsigned
type_of(yyjson_val *v)
{
	return !yyjson_is_raw(v) ? qwen_json_types_of(v) : strpbrk(
	    yyjson_get_raw(v), ".eE") == NULL ? QWEN_JSON_INTEGER :
	    QWEN_JSON_NUMBER;
}

static yyjson_val *
referred(yyjson_val *schema, yyjson_val *root, int *steps)
{
	const char *ref = yyjson_get_str(yyjson_obj_get(schema, "$ref"));

	if (ref == NULL || strncmp(ref, "#/", 2) != 0)
		return NULL;
	/* the reference may be searched among all definitions */
	*steps -= (int)(yyjson_obj_size(root) + yyjson_obj_size(
	    yyjson_obj_get(root, "$defs")) + yyjson_obj_size(
	    yyjson_obj_get(root, "definitions")) + strlen(ref)) / 8;
	return *steps < 0 ? NULL : yyjson_ptr_get(root, ref + 1);
}

/*
 * Returns the types given by type, enum, const, or keywords of objects and
 * arrays.
 */
static unsigned
said(yyjson_val *schema)
{
	yyjson_val *type = yyjson_obj_get(schema, "type"), *v;
	unsigned set = qwen_json_type_named(type);
	size_t i, n;

	yyjson_arr_foreach(type, i, n, v)
		set |= qwen_json_type_named(v);
	if (set != 0)
		return set | (yyjson_is_true(yyjson_obj_get(schema,
		    "nullable")) ? QWEN_JSON_NULL : 0u);
	if ((v = yyjson_obj_get(schema, "const")) != NULL)
		return type_of(v);
	yyjson_arr_foreach(yyjson_obj_get(schema, "enum"), i, n, v)
		set |= type_of(v);
	if (set != 0)
		return set;
	if (yyjson_obj_get(schema, "properties") != NULL ||
	    yyjson_obj_get(schema, "additionalProperties") != NULL)
		return QWEN_JSON_OBJECT;
	return yyjson_obj_get(schema, "items") != NULL || yyjson_obj_get(schema,
	    "prefixItems") != NULL ? QWEN_JSON_ARRAY : 0;
}

/* Returns all types that a schema allows; 0 if it does not restrict them. */
static unsigned
types_of(yyjson_val *schema, yyjson_val *root, int *steps)
{
	static const char *const lists[] = { "anyOf", "oneOf", "allOf" };
	yyjson_val *v;
	unsigned set = said(schema), part;
	size_t i, n, k;

	if (--*steps < 0)
		return set;
	if ((v = referred(schema, root, steps)) != NULL && set == 0)
		set = types_of(v, root, steps);
	for (k = 0; k < 3 && set == 0; k++) {
		yyjson_arr_foreach(yyjson_obj_get(schema, lists[k]), i, n, v) {
			part = types_of(v, root, steps);
			if (k < 2)
				set |= part;
			else if (part != 0)
				set = set == 0 ? part : set & part;
		}
	}
	return set;
}

int
qwen_parse_may_be_string(yyjson_val *schema, yyjson_val *root, int *steps)
{
	unsigned set = types_of(schema, root, steps);

	return set == 0 || (set & QWEN_JSON_STRING) != 0;
}

/*
 * Returns 1 if a reader of type, anyOf, oneOf and enum alone would miss types.
 */
static int
is_hidden(yyjson_val *schema, int *steps)
{
	static const char *const keys[] = { "$ref", "allOf", "const",
	    "nullable" };
	yyjson_val *v;
	size_t i, n, k;

	if (--*steps < 0)
		return 1;
	for (k = 0; k < 4; k++) {
		if (yyjson_obj_get(schema, keys[k]) != NULL)
			return 1;
	}
	for (k = 0; k < 2; k++) {
		yyjson_arr_foreach(yyjson_obj_get(schema, k == 0 ? "anyOf" :
		    "oneOf"), i, n, v) {
			if (is_hidden(v, steps))
				return 1;
		}
	}
	return yyjson_is_obj(schema) && yyjson_obj_get(schema, "type") == NULL;
}

static void
write_property(struct qwen_text *t, yyjson_val *schema, yyjson_val *root,
    int *steps)
{
	unsigned set = types_of(schema, root, steps), i;

	if (set == 0 || !is_hidden(schema, steps)) {
		qwen_json_value(t, schema);
		return;
	}
	qwen_json_put(t, "{'type':[");
	for (i = 0; i < QWEN_JSON_TYPES; i++) {
		if (set >> i & 1)
			qwen_json_put(t, ",'%s'", qwen_json_types[i]);
	}
	qwen_text_str(t, "]}");
}

static void
write_parameters(struct qwen_text *t, yyjson_val *root, int *steps)
{
	yyjson_val *key, *v, *name, *schema;
	size_t i, n, k, max;

	qwen_text_str(t, "{");
	yyjson_obj_foreach(root, i, n, key, v) {
		qwen_json_put(t, ",%p:", key);
		if (!yyjson_equals_str(key, "properties") ||
		    !yyjson_is_obj(v)) {
			qwen_json_value(t, v);
			continue;
		}
		qwen_text_str(t, "{");
		yyjson_obj_foreach(v, k, max, name, schema) {
			qwen_json_put(t, ",%p:", name);
			write_property(t, schema, root, steps);
		}
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "}");
}

/* Writes a tool, and its function, with parameters rewritten that way. */
static void
write_tool(struct qwen_text *t, yyjson_val *tool, int *steps)
{
	yyjson_val *key, *v;
	size_t i, n;

	qwen_json_put(t, ",{");
	yyjson_obj_foreach(tool, i, n, key, v) {
		qwen_json_put(t, ",%p:", key);
		if (yyjson_equals_str(key, "function") && yyjson_is_obj(v))
			write_tool(t, v, steps);
		else if (yyjson_equals_str(key, "parameters") &&
		    yyjson_is_obj(v))
			write_parameters(t, v, steps);
		else
			qwen_json_value(t, v);
	}
	qwen_text_str(t, "}");
}

int
qwen_parse_save_tools(struct qwen_parser *r)
{
	struct qwen_text t = { 0 };
	int steps = QWEN_TYPE_STEPS;
	yyjson_val *tool;
	size_t i, n;

	qwen_text_str(&t, "[");
	yyjson_arr_foreach(r->tools, i, n, tool)
		write_tool(&t, tool, &steps);
	qwen_text_str(&t, "]");
	r->q->n_tools = t.n;
	return qwen_parse_keep_text(r, &t, &r->q->tools);
}
