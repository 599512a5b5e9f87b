/* SPDX-License-Identifier: ISC */
/* batch_ask.h - a request while it is read; for the files that read it. */
#ifndef CLI_BATCH_ASK_H
#define CLI_BATCH_ASK_H

#include "cli/batch.h"
#include <yyjson.h>

enum { CLI_NUMBER_MAX = 64 };

struct cli_ask {
	const struct cli_batch	*b;
	struct cli_item		*item;
	yyjson_val		*root, *body;
	struct qwen_sampler	*sampler;	/* of the first answer */
};

/* The item's error; -1, for the caller to return. */
int cli_ask_bad(struct cli_ask *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#define bad cli_ask_bad

/* Zeroed; dies. */
void *cli_ask_alloc(size_t n, size_t size);

/* The value of a key of the request, NULL if it is not there or null. */
yyjson_val *cli_ask_get(const struct cli_ask *r, const char *key);

/* A string or a number as JSON, owned by the caller. */
char *cli_ask_json(yyjson_val *v);

/* The digits of a number as they stand in the line. */
int cli_ask_number(struct cli_ask *r, const char *key, yyjson_val *v,
    char buf[CLI_NUMBER_MAX]);

/* A sampler with the options of another one; its seed is that much higher. */
struct qwen_sampler *cli_ask_sampler(const struct cli_batch *b,
    const struct qwen_sampler *from, uint64_t add);

/* It would always choose the best token, which needs no sampler. */
int cli_ask_is_greedy(const struct cli_batch *b,
    const struct qwen_sampler *s);

/* ---- batch_fields.c: everything but the prompt */
int cli_ask_parameters(struct cli_ask *r);

/* ---- batch_grammar.c: response_format and grammar, for all samplers */
int cli_ask_grammar(struct cli_ask *r);
void cli_item_put_grammar(const struct cli_batch *b,
    const struct cli_item *item, struct qwen_sampler *s);
int cli_item_has_grammar(const struct cli_batch *b,
    const struct cli_item *item);
void cli_item_drop_grammar(struct cli_item *item);

/* ---- batch_prompt.c */
int cli_ask_input(struct cli_ask *r);

#endif
