/* SPDX-License-Identifier: ISC */
/* rules.h - schemas as some of the rules of a grammar. */
#ifndef QWEN_SCHEMA_RULES_H
#define QWEN_SCHEMA_RULES_H

#include "base/text.h"

/* How its texts are written, and what came of it. */
struct qwen_schema_how {
	int	spaced;		/* a space after each colon and comma */
	int	raw;		/* a value that is a string has no quotes and
				   no escapes, and not the text </parameter> */
	int	strict;		/* what cannot be kept is an error */
	char	note[200];	/* what is not kept, or empty */
};

/*
 * Add the rule NAME, of what is valid by a schema of n bytes of JSON, or by that
 * of one of its properties, and the rules that it needs, whose names begin with
 * the prefix and v.  They need the shared ones, once.
 */
int qwen_schema_rules(struct qwen_text *out, const char *name,
    const char *prefix, const char *text, size_t n, const char *property,
    struct qwen_schema_how *how, struct qwen_err *err);

/* The grammar of a schema as a text for free(). */
int qwen_schema_gbnf(char **out, size_t *n_out, const char *text, size_t n,
    struct qwen_schema_how *how, struct qwen_err *err);

/* The grammar of all that a regular expression is as a whole. */
int qwen_schema_regex(char **out, size_t *n_out, const char *re, size_t n,
    struct qwen_err *err);

/* The rules of JSON of any kind, and of any text without </parameter>. */
void qwen_schema_add_shared(struct qwen_text *out, int spaced);
void qwen_schema_add_raw(struct qwen_text *out);

#endif
