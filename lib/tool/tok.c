/* SPDX-License-Identifier: ISC */
/* tok.c - the tokenizer of a model, and what is to be told of it. */
#include "tool/tool.h"

struct qwen_tok *
tool_tok(const struct qwen_gguf *g, unsigned what)
{
	const char *path = qwen_gguf_path(g, 0), *pre;
	struct qwen_tok *t;

	cli_must(path, qwen_tok_open(&t, g, what, &cli_err));
	if ((pre = qwen_tok_guess(t)) != NULL)
		cli_note("%s: has no tokenizer.ggml.pre: text is cut as by %s",
		    path, pre);
	return t;
}
