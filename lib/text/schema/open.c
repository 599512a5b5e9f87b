/* SPDX-License-Identifier: ISC */
/* open.c - reads a schema and makes the rules of the grammar. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/json/json.h"
#include "text/schema/rules.h"
#include "text/schema/schema.h"

/* ------------------------------------------------------------------ reading */

/* Returns the nesting of the brackets in a JSON text. */
static size_t
depth(const char *s, size_t n)
{
	size_t i, now = 0, most = 0;
	int inside = 0;

	for (i = 0; i < n; i++) {
		if (inside && s[i] == '\\')
			i++;
		else if (s[i] == '"')
			inside = !inside;
		else if (!inside && (s[i] == '[' || s[i] == '{'))
			most = ++now > most ? now : most;
		else if (!inside && (s[i] == ']' || s[i] == '}') && now > 0)
			now--;
	}
	return most;
}

static int
read_json(struct schema *s, const char *text, size_t n)
{
	if (n > SCHEMA_BYTES)
		return qwen_fail(s->err, QWEN_ERANGE, "schema exceeds %d bytes",
		    SCHEMA_BYTES);
	if (depth(text, n) > SCHEMA_DEPTH)
		return qwen_fail(s->err, QWEN_ERANGE,
		    "schema nested more than %d deep", SCHEMA_DEPTH);
	if ((s->doc = qwen_json_open(text, n, s->err)) == NULL)
		return -1;
	s->root = yyjson_doc_get_root(s->doc);
	return 0;
}

/* -------------------------------------------------------------------- rules */

/* Creates the two shared nodes and the first rule. */
static void
begin(struct schema *s)
{
	qwen_snode(s, SNODE_ALT);
	qwen_snode(s, SNODE_SEQ);
	qwen_schema_add_rule(s, SNODE_NEVER);
}

/* Makes the rules one by one; making a rule may add others. */
static void
make_rules(struct schema *s, yyjson_val *v)
{
	struct schema_all all = { .n = 0 };
	uint32_t node;
	size_t i;

	qwen_schema_gather(s, &all, v, -1);
	if (s->failed)
		return;
	begin(s);
	if (s->raw)
		s->raw_types = qwen_schema_raw_types(s, &all);
	node = qwen_schema_value(s, &all);
	for (i = 0; i < s->n_rules && !s->failed; i++) {
		if (s->rule[i].made && i > 0)
			continue;
		if (i > 0)
			node = qwen_schema_value(s, s->rule[i].all);
		s->rule[i].node = node;
		s->rule[i].made = 1;
	}
}

static void
clear(struct schema *s)
{
	size_t i;

	for (i = 0; i < s->n_sugar; i++)
		yyjson_doc_free(s->sugar[i].doc);
	free(s->sugar);
	free(s->range);
	for (i = 0; i < s->n_rules; i++)
		free(s->rule[i].all);
	free(s->rule);
	free(s->node);
	qwen_text_fini(&s->text);
	qwen_text_fini(&s->out);
	yyjson_doc_free(s->doc);
}

int
qwen_schema_rules(struct qwen_text *out, const char *name, const char *prefix,
    const char *text, size_t n, const char *property,
    struct qwen_schema_how *how, struct qwen_err *err)
{
	struct schema s = { .err = err, .name = prefix, .how = *how,
		.raw = how->raw };
	int rc = read_json(&s, text, n);

	if (rc == 0) {
		make_rules(&s, property == NULL ? s.root : yyjson_obj_get(
		    yyjson_obj_get(qwen_json_resolve_top(s.root),
		    "properties"), property));
		rc = qwen_schema_print(&s, name, out);
	}
	memcpy(how->note, s.how.note, sizeof how->note);
	clear(&s);
	return rc;
}

/* Adds the rules rawchunk and rawtail, for raw texts. */
void
qwen_schema_add_raw(struct qwen_text *out)
{
	struct qwen_err err;
	struct schema s = { .err = &err, .name = "raw", .raw = 1 };
	uint32_t chunks, tail;

	begin(&s);
	s.rule[0].node = SNODE_EMPTY;
	qwen_schema_raw_rules(&s, &chunks, &tail);
	chunks = qwen_schema_add_rule(&s, chunks);
	tail = qwen_schema_add_rule(&s, tail);
	out->failed |= qwen_schema_print(&s, "rawall", out) < 0;
	qwen_text_fmt(out, "rawchunk ::= rawv%u\nrawtail ::= rawv%u\n",
	    chunks, tail);
	clear(&s);
}

/* Writes ^re$, with a group around re if it may have alternatives. */
static int
anchor(struct qwen_text *t, const char *re, size_t n)
{
	size_t slashes = 0, i;

	if (n > 0 && re[0] == '^') {
		re++;
		n--;
	}
	if (n > 0 && re[n - 1] == '$') {
		for (i = n - 1; i > 0 && re[i - 1] == '\\'; i--)
			slashes++;
		n -= slashes % 2 == 0;
	}
	qwen_text_str(t, "^");
	qwen_text_str(t, memchr(re, '|', n) != NULL ? "(?:" : "");
	qwen_text_add(t, re, n);
	qwen_text_str(t, memchr(re, '|', n) != NULL ? ")$" : "$");
	return t->failed ? -1 : 0;
}

int
qwen_schema_regex(char **out, size_t *n_out, const char *re, size_t n,
    struct qwen_err *err)
{
	struct schema s = { .err = err, .name = "", .raw = 1 };
	struct schema_together t = { .n = 0 };
	struct qwen_text whole = { 0 }, rules = { 0 };
	uint32_t node;
	int rc;

	*out = NULL;
	if (anchor(&whole, re, n) < 0)
		qwen_schema_oom(&s);
	begin(&s);
	if (!s.failed)
		qwen_schema_any_pattern(&s, NULL, whole.s, whole.n, 0, &t);
	node = t.n == 1 && !t.hard ? t.c[0].tree : qwen_schema_together(&s, &t);
	if (t.full)
		qwen_schema_fail(&s, NULL, "the pattern is too complex");
	if (!s.failed)
		s.rule[0].node = node;
	rc = qwen_schema_print(&s, "root", &rules);
	if (rc == 0) {
		*out = rules.s;
		*n_out = rules.n;
	}
	qwen_text_fini(&whole);
	clear(&s);
	return rc;
}

int
qwen_schema_gbnf(char **out, size_t *n_out, const char *text, size_t n,
    struct qwen_schema_how *how, struct qwen_err *err)
{
	struct qwen_text t = { 0 };
	int rc = qwen_schema_rules(&t, "root", "", text, n, NULL, how, err);

	*out = NULL;
	qwen_schema_add_shared(&t, how->spaced);
	if (rc == 0 && t.failed)
		rc = qwen_oom(err);
	if (rc < 0) {
		qwen_text_fini(&t);
		return -1;
	}
	*out = t.s;
	*n_out = t.n;
	return 0;
}

int
qwen_schema_open(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_schema_how *how, struct qwen_err *err)
{
	char *gbnf;
	size_t len;
	int rc;

	*out = NULL;
	if (qwen_schema_gbnf(&gbnf, &len, text, n, how, err) < 0)
		return -1;
	rc = qwen_grammar_open(out, gbnf, len, err);
	free(gbnf);
	return rc < 0 ? qwen_fail_in(err, "the grammar of the schema") : 0;
}

int
qwen_grammar_open_schema(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_err *err)
{
	struct qwen_schema_how how = { .strict = 1 };

	return qwen_schema_open(out, text, n, &how, err);
}
