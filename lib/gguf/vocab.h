/* SPDX-License-Identifier: ISC */
/* vocab.h - the vocabulary in a GGUF file. */
#ifndef QWEN_GGUF_VOCAB_H
#define QWEN_GGUF_VOCAB_H

#include "qwen/gguf.h"

enum { QWEN_TEXT_MAX = 1 << 16 };	/* bytes of a token, of a merge */

/* tokenizer.ggml.token_type */
enum qwen_token_type {
	QWEN_TOKEN_NORMAL = 1, QWEN_TOKEN_UNKNOWN, QWEN_TOKEN_CONTROL,
	QWEN_TOKEN_USER_DEFINED, QWEN_TOKEN_UNUSED, QWEN_TOKEN_BYTE
};

/* The arrays of the file, checked against each other. */
struct qwen_vocab {
	const struct qwen_gguf_kv *tokens;
	const struct qwen_gguf_kv *types;	/* NULL: all are normal */
	size_t			  n;
	uint32_t		 *text;		/* offset of each id's text in
						   tokens->data; n + 1 */
};

int qwen_vocab_init(struct qwen_vocab *v, const struct qwen_gguf *g,
    struct qwen_err *err);
void qwen_vocab_fini(struct qwen_vocab *v);

/* Returns the type of an id below v->n. */
enum qwen_token_type qwen_vocab_type(const struct qwen_vocab *v, size_t id);

/* Returns the text of an id below v->n, as it is in the file. */
static inline struct qwen_str
qwen_vocab_text(const struct qwen_vocab *v, size_t id)
{
	struct qwen_str s = {
		.s = (const char *)v->tokens->data + v->text[id],
		.len = v->text[id + 1] - v->text[id] - 8,
	};

	return s;
}

#endif
