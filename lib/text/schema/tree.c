/* SPDX-License-Identifier: ISC */
/*
 * tree.c - the tree of a schema, and printing it as a grammar.  Leaves out
 * parts that match no text of finite length.
 */
#include "base/mem.h"
#include "text/schema/rules.h"
#include "text/schema/schema.h"

/* Makes room for n elements; returns 0 on failure, now or earlier. */
int
qwen_schema_grow(struct schema *s, void *array, size_t *cap, size_t n,
    size_t size)
{
	if (!s->failed && qwen_grow(array, cap, n, size) < 0)
		qwen_schema_oom(s);
	return !s->failed;
}

/* Creates a node.  The caller creates SNODE_NEVER and SNODE_EMPTY first. */
uint32_t
qwen_snode(struct schema *s, enum snode_kind kind)
{
	if (s->n_nodes >= SCHEMA_NODES)
		qwen_schema_fail(s, NULL, "the schema is too large after "
		    "expanding its alternatives");
	if (!qwen_schema_grow(s, &s->node, &s->cap_nodes, s->n_nodes + 1,
	    sizeof *s->node))
		return SNODE_NEVER;
	s->node[s->n_nodes] = (struct snode){ .kind = kind };
	return (uint32_t)s->n_nodes++;
}

/* Fails if the nodes' texts and the printed grammar are too long. */
static int
check_text(struct schema *s)
{
	if (s->text.n + s->out.n > 2 * SCHEMA_GRAMMAR)
		qwen_schema_fail(s, NULL, "the schema makes a grammar of more "
		    "than %d bytes", SCHEMA_GRAMMAR);
	return s->text.failed || s->out.failed ? qwen_schema_oom(s) :
	    !s->failed;
}

uint32_t
qwen_snode_made(struct schema *s)
{
	uint32_t at = check_text(s) ? qwen_snode(s, SNODE_TEXT) : SNODE_NEVER;

	if (s->failed)
		return SNODE_NEVER;
	s->node[at].text = (uint32_t)s->n_text;
	s->node[at].len = (uint32_t)(s->text.n - s->n_text);
	s->n_text = s->text.n;
	return at;
}

/* A quoted literal of the grammar. */
uint32_t
qwen_snode_literal(struct schema *s, const char *text, size_t n)
{
	size_t i;

	qwen_text_str(&s->text, "\"");
	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == '"' || c == '\\')
			qwen_text_fmt(&s->text, "\\x%02x", c);
		else
			qwen_text_add(&s->text, text + i, 1);
	}
	return qwen_snode_text(s, "\"");
}

void
qwen_snode_add(struct schema *s, uint32_t parent, uint32_t part)
{
	struct snode *p;

	/* these two are shared: add a copy */
	if (part == SNODE_EMPTY || part == SNODE_NEVER)
		part = qwen_snode(s, part == SNODE_EMPTY ? SNODE_SEQ :
		    SNODE_ALT);
	if (s->failed)
		return;
	p = &s->node[parent];
	if (p->first == 0)
		p->first = part;
	else
		s->node[p->last].next = part;
	p->last = part;
}

uint32_t
qwen_snode_around(struct schema *s, const char *before, uint32_t inside,
    const char *after)
{
	uint32_t at = qwen_snode(s, SNODE_SEQ);

	qwen_snode_add(s, at, qwen_snode_text(s, "%s", before));
	qwen_snode_add(s, at, inside);
	qwen_snode_add(s, at, qwen_snode_text(s, "%s", after));
	return s->failed ? SNODE_NEVER : at;
}

static uint32_t
pair(struct schema *s, enum snode_kind kind, uint32_t a, uint32_t b)
{
	uint32_t at = qwen_snode(s, kind);

	qwen_snode_add(s, at, a);
	qwen_snode_add(s, at, b);
	return s->failed ? SNODE_NEVER : at;
}

uint32_t
qwen_snode_then(struct schema *s, uint32_t a, uint32_t b)
{
	return pair(s, SNODE_SEQ, a, b);
}

uint32_t
qwen_snode_or(struct schema *s, uint32_t a, uint32_t b)
{
	return pair(s, SNODE_ALT, a, b);
}

uint32_t
qwen_snode_repeat(struct schema *s, uint32_t a, uint32_t min, uint32_t max)
{
	uint32_t at;

	if (max == 0)
		return SNODE_EMPTY;
	at = qwen_snode(s, SNODE_REPEAT);
	qwen_snode_add(s, at, a);
	if (s->failed)
		return SNODE_NEVER;
	s->node[at].min = min;
	s->node[at].max = max;
	return at;
}

uint32_t
qwen_snode_rule(struct schema *s, uint32_t rule)
{
	uint32_t at = qwen_snode(s, SNODE_RULE);

	if (!s->failed)
		s->node[at].rule = rule;
	return at;
}

uint32_t
qwen_schema_add_rule(struct schema *s, uint32_t node)
{
	if (s->n_rules >= SCHEMA_RULES)
		qwen_schema_fail(s, NULL, "the schema is too large: more than "
		    "%d rules", SCHEMA_RULES);
	if (!qwen_schema_grow(s, &s->rule, &s->cap_rules, s->n_rules + 1,
	    sizeof *s->rule))
		return 0;
	s->rule[s->n_rules] = (struct schema_rule){ .node = node, .made = 1 };
	return (uint32_t)s->n_rules++;
}

/* ------------------------------------------------------- which rules match */

static int
fits(const struct schema *s, uint32_t at)
{
	const struct snode *d = &s->node[at];
	uint32_t i;

	switch (d->kind) {
	case SNODE_TEXT:
		return 1;
	case SNODE_RULE:
		return s->rule[d->rule].fits;
	case SNODE_REPEAT:
		return d->min == 0 || fits(s, d->first);
	case SNODE_SEQ:
		for (i = d->first; i != 0; i = s->node[i].next) {
			if (!fits(s, i))
				return 0;
		}
		return 1;
	case SNODE_ALT:
		for (i = d->first; i != 0; i = s->node[i].next) {
			if (fits(s, i))
				return 1;
		}
	}
	return 0;
}

/*
 * Finds the rules that some text matches; from the end, since most rules refer
 * to later ones.
 */
static void
find_fits(struct schema *s)
{
	int more = 1;
	size_t i, k, round;

	for (round = 0; more; round++) {
		for (more = 0, k = 0; k < s->n_rules; k++) {
			i = round % 2 ? k : s->n_rules - 1 - k;
			if (!s->rule[i].fits && fits(s, s->rule[i].node))
				more = s->rule[i].fits = 1;
		}
	}
}

/* ----------------------------------------------------------------- printing */

static void print(struct schema *s, uint32_t at);

static void
print_parts(struct schema *s, uint32_t first, int all, const char *between)
{
	uint32_t i;
	int n = 0;

	for (i = first; i != 0 && !s->failed; i = s->node[i].next) {
		if (!all && !fits(s, i))
			continue;
		if (n++ > 0)
			qwen_text_str(&s->out, between);
		print(s, i);
	}
	if (n == 0)
		qwen_text_str(&s->out, "\"\"");
}

static void
print_repeat(struct schema *s, const struct snode *d)
{
	if (!fits(s, d->first)) {
		qwen_text_str(&s->out, "\"\"");
		return;
	}
	qwen_text_str(&s->out, "(");
	print(s, d->first);
	qwen_text_fmt(&s->out, "){%u,", d->min);
	if (d->max != UINT32_MAX)
		qwen_text_fmt(&s->out, "%u", d->max);
	qwen_text_str(&s->out, "}");
}

static void
print(struct schema *s, uint32_t at)
{
	const struct snode *d = &s->node[at];

	switch (d->kind) {
	case SNODE_TEXT:
		qwen_text_add(&s->out, s->text.s + d->text, d->len);
		break;
	case SNODE_RULE:
		qwen_text_fmt(&s->out, "%sv%u", s->name, d->rule);
		break;
	case SNODE_REPEAT:
		print_repeat(s, d);
		break;
	case SNODE_SEQ:
		print_parts(s, d->first, 1, " ");
		break;
	case SNODE_ALT:
		qwen_text_str(&s->out, "(");
		print_parts(s, d->first, 0, " | ");
		qwen_text_str(&s->out, ")");
		break;
	}
	check_text(s);
}

static const char compact[] =
    "object ::= \"{\" (string \":\" value (\",\" string \":\" value)*)? \"}\"\n"
    "array ::= \"[\" (value (\",\" value)*)? \"]\"\n";

static const char spaced_out[] =
    "object ::= \"{\" (string \": \" value (\", \" string \": \" value)*)? "
    "\"}\"\n"
    "array ::= \"[\" (value (\", \" value)*)? \"]\"\n";

static const char shared[] =
    "value ::= object | array | string | number | \"true\" | \"false\" | "
    "\"null\"\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "char ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u00\" [01] "
    "[0-9a-f])\n"
    "plain ::= [^\"\\\\\\x00-\\x1f]\n"
    "number ::= \"-\"? whole (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n"
    "integer ::= \"0\" | \"-\"? [1-9] [0-9]{0,15}\n"
    "whole ::= \"0\" | [1-9] [0-9]{0,15}\n";

void
qwen_schema_add_shared(struct qwen_text *out, int spaced)
{
	qwen_text_str(out, spaced ? spaced_out : compact);
	qwen_text_str(out, shared);
}

uint32_t
qwen_snode_after_comma(struct schema *s, uint32_t at)
{
	return qwen_snode_then(s, qwen_snode_text(s, "%s",
	    s->how.spaced ? "\", \"" : "\",\""), at);
}

uint32_t
qwen_snode_field(struct schema *s, uint32_t name, uint32_t value)
{
	uint32_t at = qwen_snode_then(s, name, qwen_snode_text(s,
	    s->how.spaced ? "\": \"" : "\":\""));

	qwen_snode_add(s, at, value);
	return at;
}

int
qwen_schema_print(struct schema *s, const char *name, struct qwen_text *out)
{
	size_t i;

	if (s->failed)
		return -1;
	find_fits(s);
	if (!s->rule[0].fits)
		qwen_schema_fail(s, NULL, "no text of finite length matches "
		    "the schema");
	qwen_text_fmt(&s->out, "%s ::= %sv0\n", name, s->name);
	for (i = 0; i < s->n_rules && !s->failed; i++) {
		if (!s->rule[i].fits)
			continue;
		qwen_text_fmt(&s->out, "%sv%zu ::= ", s->name, i);
		print(s, s->rule[i].node);
		qwen_text_str(&s->out, "\n");
	}
	if (s->out.n > SCHEMA_GRAMMAR)
		qwen_schema_fail(s, NULL, "the schema makes a grammar of more "
		    "than %d bytes", SCHEMA_GRAMMAR);
	if (!check_text(s))
		return -1;
	qwen_text_add(out, s->out.s, s->out.n);
	return out->failed ? qwen_schema_oom(s) - 1 : 0;
}
