/* SPDX-License-Identifier: ISC */
/*
 * calls.c - the grammar of replies that call tools, in the syntax of the
 * model's template, as qwen_reply parses it.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/tools.h"
#include "text/request/parser.h"
#include "text/schema/rules.h"

enum { RULE = 32, TAG_MAX = 1000, SMALL = 1 << 16 };

struct calls_grammar {
	struct qwen_parser	*r;
	struct qwen_text t;		/* the grammar */
	yyjson_val	*f;		/* function being added */
	const char	*tool;		/* its name */
	const char	*rule;		/* name of its rule */
	struct qwen_text schema;	/* schema of its parameters, as JSON */
	int		 steps;		/* work left for
					   qwen_parse_may_be_string */
	int		 any;		/* ignore the schemas of all tools */
	size_t		 read;		/* bytes of schemas parsed so far */
};

enum {
	PARAMETERS_MAX = 1000,		/* of a tool that is called with tags */
	READ_MAX = 64 << 20,
};

/* Appends a literal of the grammar, between spaces. */
static void
literal(struct qwen_text *t, const char *s, size_t n)
{
	size_t i;

	qwen_text_str(t, " \"");
	for (i = 0; i < n; i++) {
		if ((unsigned char)s[i] < 0x20)
			qwen_text_fmt(t, "\\x%02x", (unsigned char)s[i]);
		else
			qwen_text_fmt(t, s[i] == '"' || s[i] == '\\' ?
			    "\\%c" : "%c", s[i]);
	}
	qwen_text_str(t, "\" ");
}

static void
words(struct qwen_text *t, const char *s)
{
	literal(t, s, strlen(s));
}

/*
 * Adds the rules of all parameters, or of the parameter property.  Returns 1; 0
 * if the schema is not supported, after a note; -1 if that is an error, or out
 * of memory.
 */
static int
add_schema(struct calls_grammar *c, const char *name, const char *property,
    int raw)
{
	struct qwen_unknown *u = c->r->s->unknown;
	struct qwen_schema_how how = { .spaced = 1, .raw = raw,
		.strict = u != NULL && u->strict };
	const char *between = property != NULL ? ", " : "";
	struct qwen_err err;
	int rc;

	property = property != NULL ? property : "";
	if (c->schema.failed)
		return qwen_oom(&c->r->refusal->err);
	if (c->any)
		return 0;
	/* the whole schema is parsed for each parameter */
	c->read += c->schema.n;
	rc = c->read > READ_MAX ? qwen_fail(&err, QWEN_ERANGE, "too many "
	    "parameters of large schemas") : qwen_schema_rules(&c->t, name,
	    name, c->schema.s, c->schema.n, between[0] != '\0' ? property :
	    NULL, &how, &err);
	if (rc < 0 && err.code == QWEN_ENOMEM)
		return qwen_oom(&c->r->refusal->err);
	if (rc < 0 && how.strict)
		return qwen_invalid(c->r, "tools", "tools: %.60s%s%.60s: %s",
		    c->tool, between, property, err.msg);
	if (rc < 0)
		qwen_unknown_note(u, "the schema of tool %.60s%s%.60s cannot "
		    "be held, so it is called with anything: %s", c->tool,
		    between, property, err.msg);
	else if (how.note[0] != '\0')
		qwen_unknown_note(u, "of the schema of tool %.60s%s%.60s not "
		    "all is held: %s", c->tool, between, property, how.note);
	return rc == 0;
}

/* The same; if the schema is not supported, the rule is another rule's name. */
static int
add_value(struct calls_grammar *c, const char *name, const char *property,
    int raw, const char *other)
{
	int rc = add_schema(c, name, property, raw);

	if (rc == 0)
		qwen_text_fmt(&c->t, "%s ::= %s\n", name, other);
	return rc < 0 ? -1 : 0;
}

/* Returns 1 if a key is one of n names. */
static int
is_named(yyjson_val *key, const char *const *names, size_t n)
{
	size_t i;

	for (i = 0; i < n && !yyjson_equals_str(key, names[i]); i++)
		;
	return i < n;
}

/* Returns 1 if a schema of an object, or a missing one, has no property. */
static int
is_empty(yyjson_val *schema)
{
	static const char *const idle[] = { "type", "title", "description",
	    "$schema", "required" };
	yyjson_val *key, *v;
	size_t i, n;

	yyjson_obj_foreach(schema, i, n, key, v) {
		if (!is_named(key, idle, sizeof idle / sizeof idle[0]) &&
		    !(yyjson_is_obj(v) && yyjson_obj_size(v) == 0 &&
		    yyjson_equals_str(key, "properties")) &&
		    !(yyjson_is_false(v) &&
		    yyjson_equals_str(key, "additionalProperties")))
			return 0;
	}
	return 1;
}

/* ---------------------------------------------------------------- as JSON */

/* {"name": "f", "arguments": {...}} */
static int
as_json(struct calls_grammar *c)
{
	yyjson_val *name = yyjson_obj_get(c->f, "name");
	int empty = is_empty(yyjson_obj_get(c->f, "parameters"));
	struct qwen_text quoted = { 0 };
	char arguments[RULE];

	snprintf(arguments, sizeof arguments, "%sa", c->rule);
	qwen_text_json(&quoted, yyjson_get_str(name), yyjson_get_len(name));
	qwen_text_fmt(&c->t, "%s ::=", c->rule);
	words(&c->t, "{\"name\": ");
	literal(&c->t, quoted.s, quoted.n);
	words(&c->t, ", \"arguments\": ");
	qwen_text_str(&c->t, empty ? "\"{}\"" : arguments);
	words(&c->t, "}\n");
	qwen_text_str(&c->t, "\n");
	c->t.failed |= quoted.failed;
	qwen_text_fini(&quoted);
	return empty ? 0 : add_value(c, arguments, NULL, 0, "object");
}

/* --------------------------------------------------------------- with tags */

/* Adds the tag <what=NAME> and a line feed. */
static int
add_tag(struct calls_grammar *c, const char *what, yyjson_val *name)
{
	const char *s = yyjson_get_str(name);
	struct qwen_text tag = { 0 };

	if (yyjson_get_len(name) > TAG_MAX || yyjson_get_len(name) == 0 ||
	    strlen(s) != yyjson_get_len(name) || strpbrk(s, "<>\n") != NULL)
		return qwen_invalid(c->r, "tools", "tools: this model cannot "
		    "call the name %.60s", s);
	qwen_text_fmt(&tag, "<%s=%s>\n", what, s);
	literal(&c->t, tag.s, tag.n);
	c->t.failed |= tag.failed;
	qwen_text_fini(&tag);
	return 0;
}

/* Adds the rule of a parameter: its tag, and its value on lines between. */
static int
add_parameter(struct calls_grammar *c, const char *rule, yyjson_val *key,
    yyjson_val *schema)
{
	int is_text = qwen_parse_may_be_string(schema, yyjson_obj_get(c->f,
	    "parameters"), &c->steps);
	char value[RULE + 1];

	snprintf(value, sizeof value, "%sa", rule);
	qwen_text_fmt(&c->t, "%s ::=", rule);
	if (add_tag(c, "parameter", key) < 0)
		return -1;
	qwen_text_str(&c->t, value);
	words(&c->t, "\n</parameter>\n");
	qwen_text_str(&c->t, "\n");
	return add_value(c, value, yyjson_get_str(key), is_text,
	    is_text ? "text" : "value");
}

/* Notes, or refuses, keywords of the whole schema that tags cannot express. */
static int
note_others(struct calls_grammar *c, yyjson_val *all)
{
	static const char *const held[] = { "$anchor", "$comment", "$defs",
	    "$id", "$schema", "additionalProperties", "components", "default",
	    "definitions", "deprecated", "description", "example", "examples",
	    "externalDocs", "properties", "propertyOrdering", "required",
	    "title", "type" };
	struct qwen_unknown *u = c->r->s->unknown;
	yyjson_val *key, *v;
	size_t i, n;

	yyjson_obj_foreach(all, i, n, key, v) {
		if (is_named(key, held, sizeof held / sizeof held[0]) ||
		    yyjson_is_null(v) ||
		    strncmp(yyjson_get_str(key), "x-", 2) == 0 ||
		    (yyjson_equals_str(key, "$ref") &&
		    qwen_json_resolve_top(all) != all))
			continue;
		if (u != NULL && u->strict)
			return qwen_invalid(c->r, "tools", "tools: %.60s: this "
			    "model's call syntax does not support %.40s in the "
			    "parameters", c->tool, yyjson_get_str(key));
		qwen_unknown_note(u, "of the schema of tool %.60s not all is "
		    "held: %.40s", c->tool, yyjson_get_str(key));
	}
	return 0;
}

static int
is_required(yyjson_val *parameters, yyjson_val *key)
{
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(yyjson_obj_get(parameters, "required"), i, n, v) {
		if (yyjson_equals(v, key))
			return 1;
	}
	return 0;
}

/*
 * Notes, or refuses, required names that are not properties: no tag can have
 * them.
 */
static int
note_missing(struct calls_grammar *c, yyjson_val *all)
{
	yyjson_val *list = yyjson_obj_get(all, "properties"), *key;
	struct qwen_unknown *u = c->r->s->unknown;
	size_t i, n;

	yyjson_arr_foreach(yyjson_obj_get(all, "required"), i, n, key) {
		if (!yyjson_is_str(key) || yyjson_obj_getn(list,
		    yyjson_get_str(key), yyjson_get_len(key)) != NULL)
			continue;
		if (u != NULL && u->strict)
			return qwen_invalid(c->r, "tools", "tools: %.60s: "
			    "%.40s is required but not one of the properties",
			    c->tool, yyjson_get_str(key));
		qwen_unknown_note(u, "tool %.60s is called without %.40s, "
		    "which is required, but is not one of the properties",
		    c->tool, yyjson_get_str(key));
		break;
	}
	return 0;
}

/*
 * Adds a function: parameters in the order of its schema, also optional ones.
 */
static int
with_tags(struct calls_grammar *c)
{
	yyjson_val *whole = yyjson_obj_get(c->f, "parameters"), *key, *schema;
	yyjson_val *all = qwen_json_resolve_top(whole);
	yyjson_val *list = yyjson_obj_get(all, "properties");
	char rule[RULE];
	size_t i, n;

	if (yyjson_obj_size(list) > PARAMETERS_MAX)
		return qwen_invalid(c->r, "tools", "tools: %.60s has more than "
		    "%d parameters", c->tool, PARAMETERS_MAX);
	qwen_text_fmt(&c->t, "%s ::=", c->rule);
	if (add_tag(c, "function", yyjson_obj_get(c->f, "name")) < 0 ||
	    note_others(c, whole) < 0 || (all != whole &&
	    note_others(c, all) < 0) || note_missing(c, all) < 0)
		return -1;
	yyjson_obj_foreach(list, i, n, key, schema)
		qwen_text_fmt(&c->t, "%sp%zu%s ", c->rule, i,
		    is_required(all, key) ? "" : "?");
	words(&c->t, "</function>\n");
	qwen_text_str(&c->t, "\n");
	yyjson_obj_foreach(list, i, n, key, schema) {
		snprintf(rule, sizeof rule, "%sp%zu", c->rule, i);
		if (add_parameter(c, rule, key, schema) < 0)
			return -1;
	}
	return 0;
}

/* Adds the rule of texts without the tag that ends a parameter. */
static void
add_text(struct qwen_text *t)
{
	static const char end[] = "</parameter>";
	const size_t last = sizeof end - 2;
	size_t i;

	/* after each "<", any part of the tag except all of it */
	qwen_text_str(t, "text ::= [^<]* (\"<\" ");
	for (i = 1; i < last; i++)
		qwen_text_fmt(t, "([^%c<] [^<]* | \"%c\" ", end[i], end[i]);
	qwen_text_fmt(t, "([^%c<] [^<]*)?", end[last]);
	for (i = 1; i < last; i++)
		qwen_text_str(t, ")?");
	qwen_text_str(t, ")*\n");
}

/* ------------------------------------------------------------ the grammar */

/* Writes the schema of the parameters; its type is object if it has none. */
static void
write_schema(struct calls_grammar *c)
{
	yyjson_val *schema = yyjson_obj_get(c->f, "parameters"), *key, *v;
	size_t i, n;

	c->schema.n = 0;
	qwen_json_put(&c->schema, yyjson_obj_get(schema, "type") != NULL ? "{" :
	    "{'type':'object'");
	yyjson_obj_foreach(schema, i, n, key, v)
		qwen_json_put(&c->schema, ",%p:%p", key, v);
	qwen_text_str(&c->schema, "}");
}

static int
add_function(struct calls_grammar *c, yyjson_val *tool, const char *rule,
    int tags)
{
	c->f = qwen_chat_tool_function(tool);
	c->tool = yyjson_get_str(yyjson_obj_get(c->f, "name"));
	c->rule = rule;
	write_schema(c);
	return tags ? with_tags(c) : as_json(c);
}

/* Adds the rule of an answer that is not a call. */
static int
add_answer(struct calls_grammar *c, const char *answer, size_t n)
{
	struct qwen_unknown *u = c->r->s->unknown;
	struct qwen_schema_how how = { .strict = u != NULL && u->strict };
	struct qwen_err err;

	if (qwen_schema_rules(&c->t, "answer", "answer", answer, n, NULL, &how,
	    &err) == 0)
		return 0;
	return qwen_refuse_error(c->r->refusal, "response_format", &err);
}

static int
add_all(struct calls_grammar *c, yyjson_val *only, int tags, int answers)
{
	yyjson_val *tool;
	char rule[RULE];
	size_t i, n;

	qwen_text_fmt(&c->t, "root ::= %scall%s\n", answers ? "answer | " : "",
	    c->r->q->one_call ? "" : " (\"\\n\" call)*");
	qwen_text_str(&c->t, "call ::=");
	words(&c->t, "<tool_call>\n");
	qwen_text_str(&c->t, "tool");
	words(&c->t, "</tool_call>");
	qwen_text_str(&c->t, "\ntool ::= ");
	yyjson_arr_foreach(c->r->tools, i, n, tool) {
		if (only == NULL || only == tool)
			qwen_text_fmt(&c->t, "%st%zu", only == NULL && i > 0 ?
			    " | " : "", i);
	}
	qwen_text_str(&c->t, "\n");
	qwen_schema_add_shared(&c->t, 1);
	if (tags) {
		add_text(&c->t);
		qwen_schema_add_raw(&c->t);
	}
	yyjson_arr_foreach(c->r->tools, i, n, tool) {
		snprintf(rule, sizeof rule, "t%zu", i);
		if ((only == NULL || only == tool) &&
		    add_function(c, tool, rule, tags) < 0)
			return -1;
	}
	return 0;
}

/*
 * Returns 1 if the rules of all tools together make a grammar; 0 with err if
 * not.  Small ones always do, so they need no second parsing.
 */
static int
is_small(const struct calls_grammar *c, struct qwen_err *err)
{
	struct qwen_grammar *g;

	if (c->t.failed || c->t.n < SMALL)
		return 1;
	if (qwen_grammar_open(&g, c->t.s, c->t.n, err) < 0)
		return err->code == QWEN_ENOMEM;
	qwen_grammar_close(g);
	return 1;
}

/*
 * Writes the grammar; without the schemas of the tools if together they are too
 * large.
 */
static int
write_all(struct calls_grammar *c, yyjson_val *only, int tags,
    const char *answer, size_t n)
{
	struct qwen_unknown *u = c->r->s->unknown;
	struct qwen_err err;
	int rc;

	for (;;) {
		rc = add_all(c, only, tags, answer != NULL);
		if (rc == 0 && answer != NULL)
			rc = add_answer(c, answer, n);
		if (rc < 0 || c->any || (u != NULL && u->strict) ||
		    is_small(c, &err))
			return rc;
		qwen_unknown_note(u, "the schemas of the tools cannot be held "
		    "together, so they are called with anything: %s", err.msg);
		c->any = 1;
		c->t.n = 0;
	}
}

int
qwen_parse_restrict_calls(struct qwen_parser *r, yyjson_val *only,
    const char *answer, size_t n)
{
	struct calls_grammar c = { .r = r, .steps = QWEN_TYPE_STEPS };
	int style = qwen_template_calls(r->s->template), rc;

	if (style == 0)
		return qwen_wrong(r, "tool_choice", "the model's chat template "
		    "does not support tool calls");
	rc = write_all(&c, only, style == QWEN_CALLS_TAGS, answer, n);
	if (rc == 0 && c.t.failed)
		rc = qwen_oom(&r->refusal->err);
	r->q->ends_itself = r->q->one_call;
	if (rc == 0)
		rc = qwen_parse_set_grammar(r, "tool_choice", c.t.s, c.t.n, 0);
	qwen_text_fini(&c.t);
	qwen_text_fini(&c.schema);
	return rc;
}
