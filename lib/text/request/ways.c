/* SPDX-License-Identifier: ISC */
/*
 * ways.c - the fields by which requests restrict their answers: those of
 * OpenAI, llama.cpp, vLLM, SGLang and others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/ask.h"
#include "text/schema/rules.h"

/* Takes a schema: an object, or a string with its JSON. */
static int
take_schema(struct qwen_ask *r, const char *what, yyjson_val *schema)
{
	char *text;
	size_t n;
	int rc;

	if (yyjson_is_str(schema))
		return qwen_ask_take_grammar(r, what, yyjson_get_str(schema),
		    yyjson_get_len(schema), 1);
	if ((text = yyjson_val_write(schema, 0, &n)) == NULL)
		return qwen_oom(&r->no->err);
	rc = qwen_ask_take_grammar(r, what, text, n, 1);
	free(text);
	return rc;
}

/* Takes a regular expression that the whole answer must match. */
static int
take_regex(struct qwen_ask *r, const char *what, yyjson_val *v)
{
	struct qwen_err err;
	char *text;
	size_t n;
	int rc;

	if (!yyjson_is_str(v))
		return wrong(r->no, what, "is not a string");
	if (qwen_schema_regex(&text, &n, yyjson_get_str(v), yyjson_get_len(v),
	    &err) < 0)
		return qwen_ask_failed(r->no, what, &err);
	rc = qwen_ask_take_grammar(r, what, text, n, 0);
	free(text);
	return rc;
}

/* The answer is one of these strings. */
static int
take_choice(struct qwen_ask *r, const char *what, yyjson_val *v)
{
	struct qwen_text t = { 0 };
	yyjson_val *one;
	const char *s;
	size_t i, n, k;
	int rc;

	if (yyjson_arr_size(v) == 0)
		return wrong(r->no, what, "is not a list of strings");
	qwen_text_str(&t, "root ::= ");
	yyjson_arr_foreach(v, i, n, one) {
		if (!yyjson_is_str(one)) {
			qwen_text_fini(&t);
			return wrong(r->no, what, "is not a list of strings");
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
	rc = t.failed ? qwen_oom(&r->no->err) :
	    qwen_ask_take_grammar(r, what, t.s, t.n, 0);
	qwen_text_fini(&t);
	return rc;
}

static int take_gbnf(struct qwen_ask *r, const char *what, yyjson_val *v);

/*
 * Takes {"type": "regex", "pattern": ...} and the like; returns 0 for other
 * types.
 */
static int
take_typed(struct qwen_ask *r, const char *what, yyjson_val *v, int *rc)
{
	static const struct {
		const char	*type, *key;
		int		(*take)(struct qwen_ask *r, const char *what,
				    yyjson_val *v);
	} types[] = {
		{ "regex", "pattern", take_regex },
		{ "regex", "value", take_regex },
		{ "grammar", "grammar", take_gbnf },
		{ "json", "value", take_schema },
		{ "json_object", "value", take_schema },
	};
	yyjson_val *type = yyjson_obj_get(v, "type"), *value;
	size_t i;

	for (i = 0; i < sizeof types / sizeof types[0]; i++) {
		value = qwen_ask_get(v, types[i].key);
		if (!yyjson_equals_str(type, types[i].type) || value == NULL)
			continue;
		*rc = types[i].take(r, what, value);
		return 1;
	}
	return 0;
}

/*
 * Takes {"type": "json_schema", "json_schema": {"schema": ...}}; or, as in
 * llama.cpp, a schema beside the type, also for json_object.
 */
static int
take_format(struct qwen_ask *r, const char *what, yyjson_val *v)
{
	yyjson_val *type = yyjson_obj_get(v, "type"), *schema;
	int any = yyjson_equals_str(type, "json_object"), rc;

	if (take_typed(r, what, v, &rc))
		return rc;
	if (yyjson_equals_str(type, "text"))
		return 0;
	if (!any && !yyjson_equals_str(type, "json_schema"))
		return wrong(r->no, what, "the type is not text, json_object, "
		    "json_schema, regex (with a pattern) or grammar");
	schema = any ? NULL : qwen_ask_get(yyjson_obj_get(v, "json_schema"),
	    "schema");
	if (schema == NULL)
		schema = qwen_ask_get(v, "schema");
	if (schema != NULL)
		return take_schema(r, what, schema);
	return any ? qwen_ask_take_grammar(r, what, "{\"type\":\"object\"}",
	    17, 1) : wrong(r->no, what, "json_schema has no schema");
}

static int
take_gbnf(struct qwen_ask *r, const char *what, yyjson_val *v)
{
	if (!yyjson_is_str(v))
		return wrong(r->no, what, "is not a string");
	return qwen_ask_take_grammar(r, what, yyjson_get_str(v),
	    yyjson_get_len(v), 0);
}

static int
take_object(struct qwen_ask *r, const char *what, yyjson_val *v)
{
	if (!yyjson_is_bool(v))
		return wrong(r->no, what, "json_object is not true or false");
	return yyjson_is_false(v) ? 0 : qwen_ask_take_grammar(r, what,
	    "{\"type\":\"object\"}", 17, 1);
}

struct way {
	const char	*key;
	int		(*take)(struct qwen_ask *r, const char *what,
			    yyjson_val *v);
};

/* Takes at most one of these fields. */
static int
take_one(struct qwen_ask *r, yyjson_val *in, const struct way *way, size_t n,
    const char *what)
{
	const char *name;
	yyjson_val *v;

	for (; n > 0; n--, way++) {
		/* clients of llama.cpp send an empty grammar to mean none */
		if ((v = qwen_ask_get(in, way->key)) == NULL ||
		    (way->take == take_gbnf && yyjson_equals_str(v, "")))
			continue;
		name = what != NULL ? what : way->key;
		if (r->holds != NULL && what != NULL)
			return wrong(r->no, what, "json, regex, choice and the "
			    "like cannot be combined");
		if (r->holds != NULL)
			return bad(r->no, way->key, "%s and %s cannot be "
			    "combined", way->key, r->holds);
		if (way->take(r, name, v) < 0)
			return -1;
	}
	return 0;
}

/* {"json": ...}, {"regex": ...} and so on, as in vLLM. */
static int
take_structured(struct qwen_ask *r, const char *what, yyjson_val *v)
{
	static const struct way ways[] = {
		{ "json", take_schema }, { "regex", take_regex },
		{ "choice", take_choice }, { "grammar", take_gbnf },
		{ "json_object", take_object },
	};

	if (!yyjson_is_obj(v))
		return wrong(r->no, what, "is not an object");
	if (qwen_ask_get(v, "structural_tag") != NULL)
		return wrong(r->no, what, "structural_tag is not supported");
	return take_one(r, v, ways, sizeof ways / sizeof ways[0], what);
}

int
qwen_ask_grammar(struct qwen_ask *r)
{
	static const struct way ways[] = {
		{ "response_format", take_format },
		{ "json_schema", take_schema }, { "guided_json", take_schema },
		{ "grammar", take_gbnf }, { "guided_grammar", take_gbnf },
		{ "ebnf", take_gbnf }, { "regex", take_regex },
		{ "guided_regex", take_regex },
		{ "guided_choice", take_choice },
		{ "structured_outputs", take_structured },
	};

	return take_one(r, r->body, ways, sizeof ways / sizeof ways[0], NULL);
}
