/* SPDX-License-Identifier: ISC */
/* schema.c - converts values of parameters by the schemas of the tools. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text/chat/reply.h"
#include "text/chat/request.h"
#include "text/chat/tools.h"
#include "text/json/json.h"

yyjson_val *
qwen_chat_tool_function(yyjson_val *tool)
{
	yyjson_val *f = yyjson_obj_get(tool, "function");

	return yyjson_is_obj(f) ? f : tool;
}

yyjson_val *
qwen_chat_tool(const struct qwen_reply *r, const char *name, size_t n)
{
	yyjson_val *t, *f, *v;
	size_t i, max;

	yyjson_arr_foreach(yyjson_doc_get_root(r->tools), i, max, t) {
		f = qwen_chat_tool_function(t);
		v = yyjson_obj_get(f, "name");
		if (yyjson_is_str(v) && yyjson_equals_strn(v, name, n))
			return f;
	}
	return NULL;
}

/* Returns the schema of all parameters, or NULL. */
static yyjson_val *
parameters_of(yyjson_val *tool)
{
	return qwen_json_resolve_top(yyjson_obj_get(tool, "parameters"));
}

yyjson_val *
qwen_chat_parameter(yyjson_val *tool, const char *name, size_t n)
{
	return yyjson_obj_getn(yyjson_obj_get(parameters_of(tool),
	    "properties"), name, n);
}

int
qwen_chat_has_required(yyjson_val *tool)
{
	return yyjson_arr_size(yyjson_obj_get(parameters_of(tool),
	    "required")) > 0;
}

int
qwen_chat_lacks_required(yyjson_val *tool, yyjson_mut_val *args)
{
	yyjson_val *list = yyjson_obj_get(yyjson_obj_get(tool, "parameters"),
	    "required"), *name;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, name) {
		if (yyjson_is_str(name) && yyjson_mut_obj_getn(args,
		    yyjson_get_str(name), yyjson_get_len(name)) == NULL)
			return 1;
	}
	return 0;
}

int
qwen_chat_tool_begins(const struct qwen_reply *r, const char *s, size_t n)
{
	yyjson_val *t, *name;
	const char *end = memchr(s, '>', n);
	size_t i, max, len;
	int may = 0;

	yyjson_arr_foreach(yyjson_doc_get_root(r->tools), i, max, t) {
		name = yyjson_obj_get(qwen_chat_tool_function(t), "name");
		len = yyjson_get_len(name);
		if (!yyjson_is_str(name) || len == 0)
			continue;
		if (end != NULL && (size_t)(end - s) == len &&
		    memcmp(s, yyjson_get_str(name), len) == 0)
			return 1;
		may |= end == NULL && n <= len &&
		    memcmp(s, yyjson_get_str(name), n) == 0;
	}
	return may ? -1 : 0;
}

/* ------------------------------------------------------------------- types */

const char *const qwen_json_types[QWEN_JSON_TYPES] = { "string", "integer",
    "number", "boolean", "null", "object", "array" };

unsigned
qwen_json_type_named(yyjson_val *name)
{
	unsigned i;

	for (i = 0; yyjson_is_str(name) && i < QWEN_JSON_TYPES; i++) {
		/* Google's declarations have types in capitals */
		if (strcasecmp(yyjson_get_str(name), qwen_json_types[i]) == 0)
			return 1u << i;
	}
	return 0;
}

/* Returns 1 if a JSON number is a whole number. */
static int
is_whole(const char *s)
{
	double f = strtod(s, NULL);

	return strpbrk(s, ".eE") == NULL || (isfinite(f) && f == floor(f));
}

unsigned
qwen_json_types_of(yyjson_val *v)
{
	switch (yyjson_get_type(v)) {
	case YYJSON_TYPE_RAW:
		return QWEN_JSON_NUMBER |
		    (is_whole(yyjson_get_raw(v)) ? QWEN_JSON_INTEGER : 0);
	case YYJSON_TYPE_BOOL: return QWEN_JSON_BOOLEAN;
	case YYJSON_TYPE_STR: return QWEN_JSON_STRING;
	case YYJSON_TYPE_ARR: return QWEN_JSON_ARRAY;
	case YYJSON_TYPE_OBJ: return QWEN_JSON_OBJECT;
	default: return QWEN_JSON_NULL;
	}
}

/* A search through a schema. */
struct schema_search {
	yyjson_val	*root;		/* resolves references, or NULL */
	unsigned	 left;		/* schemas left to visit */
};

/* Follows references to the root. */
static yyjson_val *
resolve(struct schema_search *l, yyjson_val *schema)
{
	const char *ref;

	while (l->root != NULL && l->left > 0 && (ref = yyjson_get_str(
	    yyjson_obj_get(schema, "$ref"))) != NULL && ref[0] == '#') {
		l->left--;
		schema = yyjson_ptr_get(l->root, ref + 1);
	}
	return schema;
}

/*
 * Returns the types that a schema allows: by type, by its alternatives, or by
 * its constant values.
 */
static unsigned
allowed_by(struct schema_search *l, yyjson_val *schema, int depth)
{
	static const char *const lists[] = { "anyOf", "oneOf", "allOf" };
	yyjson_val *type, *v;
	unsigned set;
	size_t i, n, k;

	schema = resolve(l, schema);
	type = yyjson_obj_get(schema, "type");
	set = qwen_json_type_named(type);
	yyjson_arr_foreach(type, i, n, v)
		set |= qwen_json_type_named(v);
	/* without a root, ignore allOf: grammars treat such a value as text */
	for (k = 0; k < (l->root != NULL ? 3 : 2) && depth < 8; k++) {
		/* of allOf, the first schema with a type counts */
		yyjson_arr_foreach(yyjson_obj_get(schema, lists[k]), i, n, v) {
			if (l->left == 0 || (k == 2 && set != 0))
				break;
			l->left--;
			set |= allowed_by(l, v, depth + 1);
		}
	}
	if (set == 0) {
		yyjson_arr_foreach(yyjson_obj_get(schema, "enum"), i, n, v)
			set |= qwen_json_types_of(v);
		if ((v = yyjson_obj_get(schema, "const")) != NULL)
			set |= qwen_json_types_of(v);
	}
	return set;
}

static unsigned
allowed(yyjson_val *tool, yyjson_val *schema)
{
	struct schema_search l = { yyjson_obj_get(tool, "parameters"), 1000 };

	return allowed_by(&l, schema, 0);
}

int
qwen_chat_only_text(yyjson_val *tool, yyjson_val *schema)
{
	return (allowed(tool, schema) & ~(unsigned)QWEN_JSON_STRING) == 0;
}

/* ------------------------------------------------------------------ values */

/*
 * Converts True, False or None, as Python writes them.  Returns 1; 0 if t is
 * none of these; -1 if out of memory. json and literal return the same.
 */
static int
python(yyjson_mut_doc *doc, unsigned set, const struct chat_text *t,
    yyjson_mut_val **v)
{
	if ((set & QWEN_JSON_BOOLEAN) != 0 && qwen_chat_same_text(t, "True"))
		*v = yyjson_mut_true(doc);
	else if ((set & QWEN_JSON_BOOLEAN) != 0 &&
	    qwen_chat_same_text(t, "False"))
		*v = yyjson_mut_false(doc);
	else if ((set & QWEN_JSON_NULL) != 0 && qwen_chat_same_text(t, "None"))
		*v = yyjson_mut_null(doc);
	else
		return 0;
	return *v != NULL ? 1 : -1;
}

static int
json(yyjson_mut_doc *doc, unsigned set, const struct chat_text *t,
    yyjson_mut_val **v)
{
	yyjson_doc *d;
	int rc = qwen_chat_try_json(&d, t->s, t->n, NULL);

	if (rc > 0)
		rc = (qwen_json_types_of(yyjson_doc_get_root(d)) & set) != 0;
	if (rc > 0) {
		*v = yyjson_val_mut_copy(doc, yyjson_doc_get_root(d));
		rc = *v != NULL ? 1 : -1;
	}
	yyjson_doc_free(d);
	return rc;
}

/*
 * Converts a list or an object in Python's notation, or in almost valid JSON.
 */
static int
literal(yyjson_mut_doc *doc, unsigned set, const struct chat_text *t,
    yyjson_mut_val **v)
{
	struct qwen_text made = { 0 };
	struct chat_text m;
	int rc = 0;

	set &= QWEN_JSON_OBJECT | QWEN_JSON_ARRAY;
	if (set == 0 || t->n == 0 || (t->s[0] != '[' && t->s[0] != '{'))
		return 0;
	if (qwen_chat_fix_json(&made, t->s, t->n, 1) == 0 && !made.failed) {
		m = (struct chat_text){ made.s, made.n, NULL };
		rc = json(doc, set, &m, v);
	}
	rc = made.failed ? -1 : rc;
	qwen_text_fini(&made);
	return rc;
}

yyjson_mut_val *
qwen_chat_argument(yyjson_mut_doc *doc, yyjson_val *tool,
    yyjson_val *schema, const char *s, size_t n, int strict)
{
	struct chat_text t = { s, n, NULL };
	unsigned set = allowed(tool, schema) & ~(unsigned)QWEN_JSON_STRING;
	yyjson_mut_val *v = NULL;
	int rc = 0;

	if (set != 0) {
		t = qwen_chat_strip(NULL, &t, NULL, 3);
		rc = python(doc, set, &t, &v);
		if (rc == 0)
			rc = json(doc, set, &t, &v);
		if (rc == 0 && !strict)
			rc = literal(doc, set, &t, &v);
	}
	return rc != 0 ? v : yyjson_mut_strncpy(doc, s, n);
}
