/* SPDX-License-Identifier: ISC */
/* rules.h - schemas as some of the rules of a grammar. */
#ifndef QWEN_SCHEMA_RULES_H
#define QWEN_SCHEMA_RULES_H

#include "base/text.h"

/*
 * Add the rule NAME, of what is valid by a schema of n bytes of JSON, or by that
 * of one of its properties, and the rules that it needs, whose names begin with
 * the prefix and v.  They need the shared ones, once.
 */
int qwen_schema_rules(struct qwen_text *out, const char *name,
    const char *prefix, const char *text, size_t n, const char *property,
    struct qwen_err *err);

extern const char qwen_schema_shared[];

#endif
