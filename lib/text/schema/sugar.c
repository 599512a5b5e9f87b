/* SPDX-License-Identifier: ISC */
/*
 * sugar.c - expands keywords that are short for others: if, not,
 * dependentRequired and similar ones become a schema of anyOf, allOf and
 * negated keywords.  Only two forms of not remain: lists of plain values, and
 * patterns.  The generators of values handle these.
 */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "text/json/json.h"
#include "text/schema/schema.h"

enum { DEPTH = 24, TEXTS = 500, BYTES = 1 << 20 };

/* Appends JSON by a format, as qwen_json_put does, and counts the work. */
#define put(s, t, ...) \
	(qwen_json_put(t, __VA_ARGS__), check_size(s, t))

static void
check_size(struct schema *s, const struct qwen_text *t)
{
	if (t->n > BYTES)
		qwen_schema_fail(s, NULL, "if, not and similar keywords exceed "
		    "%d bytes", BYTES);
	qwen_schema_step(s);
}

/* ----------------------------------------------------------------- negation */

static void opposite(struct schema *s, struct qwen_text *t, yyjson_val *v,
    int depth);

/* Returns the value of a keyword; NULL if it is absent or null. */
static yyjson_val *
given(yyjson_val *v, const char *keyword)
{
	yyjson_val *got = yyjson_obj_get(v, keyword);

	return yyjson_is_null(got) ? NULL : got;
}

static int
is_type(yyjson_val *v, const char *name)
{
	return yyjson_is_str(v) && strcasecmp(yyjson_get_str(v), name) == 0;
}

/* Writes the schema of all other types; an integer counts as a number. */
static void
other_types(struct qwen_text *t, yyjson_val *type)
{
	static const char *const name[] = { "null", "boolean", "number",
	    "string", "array", "object" };
	yyjson_val *v;
	size_t i, k, max;
	int out;

	qwen_json_put(t, ",{'type':[");
	for (i = 0; i < sizeof name / sizeof name[0]; i++) {
		out = is_type(type, name[i]) || (i == 2 &&
		    is_type(type, "integer"));
		yyjson_arr_foreach(type, k, max, v)
			out |= is_type(v, name[i]) || (i == 2 &&
			    is_type(v, "integer"));
		if (!out)
			qwen_json_put(t, ",'%s'", name[i]);
	}
	qwen_text_str(t, "]}");
}

/* Writes a schema: one of the listed fields is missing. */
static void
one_missing(struct schema *s, struct qwen_text *t, yyjson_val *list)
{
	yyjson_val *key;
	size_t i, max;

	qwen_json_put(t, ",{'type':'object','anyOf':[");
	yyjson_arr_foreach(list, i, max, key)
		put(s, t, ",{'properties':{%p:false}}", key);
	qwen_json_put(t, ",false]}");
}

/* Writes a schema: one of the fields is present and not valid. */
static void
one_other(struct schema *s, struct qwen_text *t, yyjson_val *list, int depth)
{
	yyjson_val *key, *v;
	size_t i, max;

	qwen_json_put(t, ",{'type':'object','anyOf':[");
	yyjson_obj_foreach(list, i, max, key, v) {
		put(s, t, ",{'required':[%p],'properties':{%p:", key, key);
		opposite(s, t, v, depth + 1);
		qwen_text_str(t, "}}");
	}
	qwen_json_put(t, ",false]}");
}

/* Writes the negated schemas of a list as a list of keyword `as'. */
static void
opposites(struct schema *s, struct qwen_text *t, yyjson_val *list,
    const char *as, int depth)
{
	yyjson_val *v;
	size_t i, max;

	qwen_json_put(t, ",{'%s':[", as);
	yyjson_arr_foreach(list, i, max, v)
		opposite(s, t, v, depth + 1);
	qwen_text_str(t, "]}");
}

/* Writes the negation of a bound; returns 1 if name is one. */
static int
other_side(struct schema *s, struct qwen_text *t, const char *name,
    yyjson_val *v)
{
	static const struct { const char *name, *type, *other; int add; } b[] = {
		{ "minimum", "number", "exclusiveMaximum", 0 },
		{ "maximum", "number", "exclusiveMinimum", 0 },
		{ "exclusiveMinimum", "number", "maximum", 0 },
		{ "exclusiveMaximum", "number", "minimum", 0 },
		{ "minLength", "string", "maxLength", -1 },
		{ "maxLength", "string", "minLength", 1 },
		{ "minItems", "array", "maxItems", -1 },
		{ "maxItems", "array", "minItems", 1 },
	};
	int64_t n;
	size_t i;

	for (i = 0; i < sizeof b / sizeof b[0]; i++) {
		if (strcmp(name, b[i].name) != 0)
			continue;
		if (b[i].add == 0) {
			if (!yyjson_is_raw(v))
				qwen_schema_fail(s, v, "not a number");
			put(s, t, ",{'type':'%s','%s':%p}", b[i].type,
			    b[i].other, v);
			return 1;
		}
		n = qwen_schema_count(s, v, v) + b[i].add;
		if (n < 0)
			qwen_json_put(t, ",false");
		else
			qwen_json_put(t, ",{'type':'%s','%s':%lld}", b[i].type,
			    b[i].other, (long long)n);
		return 1;
	}
	return 0;
}

/* Does the list have no arrays and objects?  Only then can `not' remain. */
static int
is_plain_list(yyjson_val *part)
{
	yyjson_val *v;
	size_t n;

	SCHEMA_EACH_VALUE(part, n, v) {
		if (yyjson_is_ctn(v))
			return 0;
	}
	return 1;
}

static void
opposite_of(struct schema *s, struct qwen_text *t, yyjson_val *in,
    yyjson_val *key, yyjson_val *v, int depth)
{
	const char *name = yyjson_get_str(key);

	if (strcmp(name, "not") == 0)
		put(s, t, ",%p", v);
	else if (strcmp(name, "type") == 0)
		other_types(t, v);
	else if (strcmp(name, "required") == 0)
		one_missing(s, t, v);
	else if (strcmp(name, "properties") == 0)
		one_other(s, t, v, depth);
	else if (strcmp(name, "anyOf") == 0)
		opposites(s, t, v, "allOf", depth);
	else if (strcmp(name, "allOf") == 0)
		opposites(s, t, v, "anyOf", depth);
	else if (strcmp(name, "$ref") == 0)
		opposite(s, t, qwen_schema_refer(s, v), depth + 1);
	else if (((strcmp(name, "const") == 0 || strcmp(name, "enum") == 0) &&
	    is_plain_list(in)) || strcmp(name, "pattern") == 0)
		put(s, t, name[0] == 'p' ? ",{'type':'string','not':"
		    "{'%s':%p}}" : ",{'not':{'%s':%p}}", name, v);
	else if (!other_side(s, t, name, v))
		qwen_schema_fail(s, in, "keyword \"%s\" is not supported "
		    "within not or if", name);
}

/* Writes the negation of v: one of its keywords does not hold. */
static void
opposite(struct schema *s, struct qwen_text *t, yyjson_val *v, int depth)
{
	yyjson_val *key, *part;
	size_t i, max;

	if (yyjson_is_bool(v)) {
		qwen_json_put(t, yyjson_get_bool(v) ? ",false" : ",true");
		return;
	}
	if (depth > DEPTH || !yyjson_is_obj(v))
		qwen_schema_fail(s, v, depth > DEPTH ? "not and if are nested "
		    "too deeply" : "not a schema: neither an object nor true "
		    "or false");
	qwen_json_put(t, ",{'anyOf':[");
	yyjson_obj_foreach(v, i, max, key, part) {
		if (s->failed)
			return;
		if (!qwen_schema_is_note(yyjson_get_str(key)))
			opposite_of(s, t, v, key, part, depth);
	}
	qwen_json_put(t, ",false]}");
}

/* ---------------------------------------------------------------- expansion */

/* Writes for each field of the list: it is absent, or its condition holds. */
static void
add_dependent(struct schema *s, struct qwen_text *t, yyjson_val *v,
    const char *name)
{
	yyjson_val *list = yyjson_obj_get(v, name), *key, *what;
	size_t i, max;

	if (list != NULL && !yyjson_is_obj(list))
		qwen_schema_fail(s, v, "%s is not an object", name);
	yyjson_obj_foreach(list, i, max, key, what) {
		if (s->failed)
			return;
		put(s, t, yyjson_is_arr(what) ?
		    ",{'anyOf':[{'properties':{%p:false}},{'required':%p}]}" :
		    ",{'anyOf':[{'properties':{%p:false}},%p]}", key, what);
	}
}

static void
add_if(struct schema *s, struct qwen_text *t, yyjson_val *v)
{
	yyjson_val *when = given(v, "if");
	yyjson_val *then = yyjson_obj_get(v, "then");
	yyjson_val *other = yyjson_obj_get(v, "else");

	if (when == NULL || (then == NULL && other == NULL))
		return;
	put(s, t, ",{'anyOf':[{'allOf':[%p", when);
	if (then != NULL)
		put(s, t, ",%p", then);
	qwen_json_put(t, "]},{'allOf':[");
	opposite(s, t, when, 0);
	if (other != NULL)
		put(s, t, ",%p", other);
	qwen_text_str(t, "]}]}");
}

/*
 * Is not of v in a form that remains?  A pattern needs "type": "string" beside
 * it.
 */
static int
is_left(yyjson_val *v)
{
	yyjson_val *not = given(v, "not");

	if (!yyjson_is_obj(not) || yyjson_obj_size(not) != 1)
		return 0;
	if (yyjson_is_str(yyjson_obj_get(not, "pattern")))
		return is_type(yyjson_obj_get(v, "type"), "string");
	return (yyjson_obj_get(not, "const") != NULL ||
	    yyjson_is_arr(yyjson_obj_get(not, "enum"))) && is_plain_list(not);
}

static void
write(struct schema *s, struct qwen_text *t, yyjson_val *v)
{
	yyjson_val *not = given(v, "not");

	qwen_json_put(t, "{'allOf':[");
	add_dependent(s, t, v, "dependencies");
	add_dependent(s, t, v, "dependentRequired");
	add_dependent(s, t, v, "dependentSchemas");
	add_if(s, t, v);
	if (not != NULL && !is_left(v))
		opposite(s, t, not, 0);
	qwen_json_put(t, ",true]}");
	s->work += t->n / 16;
}

static int
has_any(yyjson_val *v)
{
	yyjson_val *not = given(v, "not");

	return given(v, "if") != NULL || (not != NULL && !is_left(v)) ||
	    given(v, "dependencies") != NULL || given(v, "dependentRequired") !=
	    NULL || given(v, "dependentSchemas") != NULL;
}

yyjson_val *
qwen_schema_sugar(struct schema *s, yyjson_val *v)
{
	struct qwen_text t = { 0 };
	yyjson_doc *doc = NULL;
	size_t i;

	if (!has_any(v))
		return NULL;
	for (i = 0; i < s->n_sugar && qwen_schema_step(s); i++) {
		if (s->sugar[i].of == v)
			return yyjson_doc_get_root(s->sugar[i].doc);
	}
	if (s->n_sugar == TEXTS)
		qwen_schema_fail(s, v, "more than %d if, not and similar "
		    "keywords", TEXTS);
	if (!s->failed)
		write(s, &t, v);
	if (!s->failed && (t.failed || qwen_grow(&s->sugar, &s->cap_sugar,
	    s->n_sugar + 1, sizeof *s->sugar) < 0))
		qwen_schema_oom(s);
	if (!s->failed && (doc = qwen_json_open(t.s, t.n, s->err)) == NULL)
		s->failed = 1;
	qwen_text_fini(&t);
	if (doc == NULL)
		return NULL;
	s->sugar[s->n_sugar++] = (struct schema_sugar){ v, doc };
	return yyjson_doc_get_root(doc);
}
