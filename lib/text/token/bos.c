/* SPDX-License-Identifier: ISC */
/* bos.c - the BOS token in front of texts. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/token/tok.h"

int
qwen_bos_read(int32_t *id, const struct qwen_gguf *g, enum qwen_bos how,
    struct qwen_err *err)
{
	static const char key[] = "tokenizer.ggml.bos_token_id";
	int add = 0, there;
	size_t n = 0;

	*id = -1;
	if (how == QWEN_BOS_NEVER)
		return 0;
	if (qwen_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", 0, &add,
	    err) < 0)
		return -1;
	if (!add && how == QWEN_BOS_FILE)
		return 0;
	if (qwen_vocab_size(g, &n, err) < 0 ||
	    (there = qwen_vocab_id(g, key, n, id, err)) < 0)
		return -1;
	if (there == 0 && how == QWEN_BOS_ALWAYS)
		return qwen_fail(err, QWEN_EUNSUP, "the file has no %s", key);
	return 0;
}

int32_t
qwen_tok_bos(const struct qwen_tok *t)
{
	return t->bos;
}

int
qwen_tok_set_bos(struct qwen_tok *t, const struct qwen_gguf *g,
    enum qwen_bos how, struct qwen_err *err)
{
	return qwen_bos_read(&t->bos, g, how, err);
}

int
qwen_tok_begin(const struct qwen_tok *t, int32_t **ids, size_t *n,
    struct qwen_err *err)
{
	size_t cap = 0;

	if (t->bos < 0 || (*n > 0 && (*ids)[0] == t->bos))
		return 0;
	if (qwen_grow(ids, &cap, *n + 1, sizeof **ids) < 0)
		return qwen_oom(err);
	memmove(*ids + 1, *ids, *n * sizeof **ids);
	(*ids)[0] = t->bos;
	++*n;
	return 0;
}
