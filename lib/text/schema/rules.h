/* SPDX-License-Identifier: ISC */
/* rules.h - schemas as rules of a grammar. */
#ifndef QWEN_SCHEMA_RULES_H
#define QWEN_SCHEMA_RULES_H

#include "base/text.h"
#include "qwen/grammar.h"

/* How to write values, and what was not enforced. */
struct qwen_schema_how {
	int	spaced;		/* a space after each colon and comma */
	int	raw;		/* a string value has no quotes and escapes, and
				   no text </parameter> */
	int	strict;		/* fail if something cannot be enforced */
	char	note[200];	/* what is not enforced, or "" */
};

/*
 * Appends the rule NAME, which matches values that are valid by a schema (n
 * bytes of JSON) or by the schema of one of its properties, and the rules that
 * it needs, whose names begin with the prefix and v.  These use the shared
 * rules, which the caller adds once.
 */
int qwen_schema_rules(struct qwen_text *out, const char *name,
    const char *prefix, const char *text, size_t n, const char *property,
    struct qwen_schema_how *how, struct qwen_err *err);

/* Makes the grammar of a schema as a text; the caller frees *out. */
int qwen_schema_gbnf(char **out, size_t *n_out, const char *text, size_t n,
    struct qwen_schema_how *how, struct qwen_err *err);

/* The same, ready for use. */
int qwen_schema_open(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_schema_how *how, struct qwen_err *err);

/* Makes the grammar of what a regular expression matches as a whole. */
int qwen_schema_regex(char **out, size_t *n_out, const char *re, size_t n,
    struct qwen_err *err);

/* Append the rules of any JSON value, and of any text without </parameter>. */
void qwen_schema_add_shared(struct qwen_text *out, int spaced);
void qwen_schema_add_raw(struct qwen_text *out);

#endif
