/* SPDX-License-Identifier: ISC */
/*
 * constraints.c - the fields by which requests restrict their answers: those of
 * OpenAI, llama.cpp, vLLM, SGLang and others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/schema/rules.h"

/* Takes a schema: an object, or a string with its JSON. */
static int
set_schema(struct qwen_parser *r, const char *what, yyjson_val *schema)
{
	char *text;
	size_t n;
	int rc;

	if (yyjson_is_str(schema))
		return qwen_parse_set_grammar(r, what, yyjson_get_str(schema),
		    yyjson_get_len(schema), 1);
	if ((text = yyjson_val_write(schema, 0, &n)) == NULL)
		return qwen_oom(&r->refusal->err);
	rc = qwen_parse_set_grammar(r, what, text, n, 1);
	free(text);
	return rc;
}

/* Takes a regular expression that the whole answer must match. */
static int
set_regex(struct qwen_parser *r, const char *what, yyjson_val *v)
{
	struct qwen_err err;
	char *text;
	size_t n;
	int rc;

	if (!yyjson_is_str(v))
		return qwen_wrong(r, what, "is not a string");
	if (qwen_schema_regex(&text, &n, yyjson_get_str(v), yyjson_get_len(v),
	    &err) < 0)
		return qwen_refuse_error(r->refusal, what, &err);
	rc = qwen_parse_set_grammar(r, what, text, n, 0);
	free(text);
	return rc;
}

/* The answer is one of these strings. */
static int
set_choice(struct qwen_parser *r, const char *what, yyjson_val *v)
{
	struct qwen_text t = { 0 };
	yyjson_val *one;
	const char *s;
	size_t i, n, k;
	int rc;

	if (yyjson_arr_size(v) == 0)
		return qwen_wrong(r, what, "is not a list of strings");
	qwen_text_str(&t, "root ::= ");
	yyjson_arr_foreach(v, i, n, one) {
		if (!yyjson_is_str(one)) {
			qwen_text_fini(&t);
			return qwen_wrong(r, what, "is not a list of strings");
		}
		s = yyjson_get_str(one);
		qwen_text_str(&t, i > 0 ? " | \"" : "\"");
		for (k = 0; k < yyjson_get_len(one); k++) {
			unsigned char c = (unsigned char)s[k];

			qwen_text_fmt(&t, c < 0x20 || c == '"' || c == '\\' ?
			    "\\x%02x" : "%c", c);
		}
		qwen_text_str(&t, "\"");
	}
	rc = t.failed ? qwen_oom(&r->refusal->err) :
	    qwen_parse_set_grammar(r, what, t.s, t.n, 0);
	qwen_text_fini(&t);
	return rc;
}

static int set_gbnf(struct qwen_parser *r, const char *what, yyjson_val *v);

/*
 * Takes {"type": "regex", "pattern": ...} and the like; returns 0 for other
 * types.
 */
static int
set_typed(struct qwen_parser *r, const char *what, yyjson_val *v, int *rc)
{
	static const struct {
		const char	*type, *key;
		int		(*set)(struct qwen_parser *r, const char *what,
				    yyjson_val *v);
	} types[] = {
		{ "regex", "pattern", set_regex },
		{ "regex", "value", set_regex },
		{ "grammar", "grammar", set_gbnf },
		{ "json", "value", set_schema },
		{ "json_object", "value", set_schema },
	};
	yyjson_val *type = yyjson_obj_get(v, "type"), *value;
	size_t i;

	for (i = 0; i < sizeof types / sizeof types[0]; i++) {
		value = qwen_parse_get(v, types[i].key);
		if (!yyjson_equals_str(type, types[i].type) || value == NULL)
			continue;
		*rc = types[i].set(r, what, value);
		return 1;
	}
	return 0;
}

/*
 * Takes {"type": "json_schema", "json_schema": {"schema": ...}}; or, as in
 * llama.cpp, a schema beside the type, also for json_object.
 */
static int
set_format(struct qwen_parser *r, const char *what, yyjson_val *v)
{
	yyjson_val *type = yyjson_obj_get(v, "type"), *schema;
	int any = yyjson_equals_str(type, "json_object"), rc;

	if (set_typed(r, what, v, &rc))
		return rc;
	if (yyjson_equals_str(type, "text"))
		return 0;
	if (!any && !yyjson_equals_str(type, "json_schema"))
		return qwen_wrong(r, what, "the type is not text, json_object, "
		    "json_schema, regex (with a pattern) or grammar");
	schema = any ? NULL : qwen_parse_get(yyjson_obj_get(v, "json_schema"),
	    "schema");
	if (schema == NULL)
		schema = qwen_parse_get(v, "schema");
	if (schema != NULL)
		return set_schema(r, what, schema);
	return any ? qwen_parse_set_grammar(r, what, "{\"type\":\"object\"}",
	    17, 1) : qwen_wrong(r, what, "json_schema has no schema");
}

static int
set_gbnf(struct qwen_parser *r, const char *what, yyjson_val *v)
{
	if (!yyjson_is_str(v))
		return qwen_wrong(r, what, "is not a string");
	return qwen_parse_set_grammar(r, what, yyjson_get_str(v),
	    yyjson_get_len(v), 0);
}

static int
set_json_object(struct qwen_parser *r, const char *what, yyjson_val *v)
{
	if (!yyjson_is_bool(v))
		return qwen_wrong(r, what, "json_object is not true or false");
	return yyjson_is_false(v) ? 0 : qwen_parse_set_grammar(r, what,
	    "{\"type\":\"object\"}", 17, 1);
}

struct constraint_field {
	const char	*key;
	int		(*set)(struct qwen_parser *r, const char *what,
			    yyjson_val *v);
};

/* Takes at most one of these fields. */
static int
set_one(struct qwen_parser *r, yyjson_val *in, const struct constraint_field *f,
    size_t n, const char *what)
{
	const char *name;
	yyjson_val *v;

	for (; n > 0; n--, f++) {
		/* clients of llama.cpp send an empty grammar to mean none */
		if ((v = qwen_parse_get(in, f->key)) == NULL ||
		    (f->set == set_gbnf && yyjson_equals_str(v, "")))
			continue;
		name = what != NULL ? what : f->key;
		if (r->grammar_field != NULL && what != NULL)
			return qwen_wrong(r, what, "json, regex, choice and "
			    "the like cannot be combined");
		if (r->grammar_field != NULL)
			return qwen_invalid(r, f->key, "%s and %s cannot be "
			    "combined", f->key, r->grammar_field);
		if (f->set(r, name, v) < 0)
			return -1;
	}
	return 0;
}

/* {"json": ...}, {"regex": ...} and so on, as in vLLM. */
static int
set_structured(struct qwen_parser *r, const char *what, yyjson_val *v)
{
	static const struct constraint_field fields[] = {
		{ "json", set_schema }, { "regex", set_regex },
		{ "choice", set_choice }, { "grammar", set_gbnf },
		{ "json_object", set_json_object },
	};

	if (!yyjson_is_obj(v))
		return qwen_wrong(r, what, "is not an object");
	if (qwen_parse_get(v, "structural_tag") != NULL)
		return qwen_wrong(r, what, "structural_tag is not supported");
	return set_one(r, v, fields, sizeof fields / sizeof fields[0], what);
}

int
qwen_parse_constraints(struct qwen_parser *r)
{
	static const struct constraint_field fields[] = {
		{ "response_format", set_format },
		{ "json_schema", set_schema }, { "guided_json", set_schema },
		{ "grammar", set_gbnf }, { "guided_grammar", set_gbnf },
		{ "ebnf", set_gbnf }, { "regex", set_regex },
		{ "guided_regex", set_regex },
		{ "guided_choice", set_choice },
		{ "structured_outputs", set_structured },
	};

	return set_one(r, r->body, fields, sizeof fields / sizeof fields[0],
	    NULL);
}
