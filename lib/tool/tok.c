/* SPDX-License-Identifier: ISC */
/* tok.c - the tokenizer of a model, and notes about it. */
#include "tool/tool.h"

unsigned tool_bos_flags;

enum qwen_bos
tool_bos(void)
{
	if (tool_bos_flags == (TOOL_BOS | TOOL_NO_BOS))
		cli_usage("--bos and --no-bos exclude each other");
	return tool_bos_flags == TOOL_BOS ? QWEN_BOS_ALWAYS :
	    tool_bos_flags == TOOL_NO_BOS ? QWEN_BOS_NEVER : QWEN_BOS_FILE;
}

int tool_nfc;

struct qwen_tok *
tool_tok_open(const struct qwen_gguf *g, unsigned what)
{
	const char *path = qwen_gguf_path(g, 0), *pre;
	struct qwen_tok *t;

	cli_must(path, qwen_tok_open(&t, g, what, &cli_err));
	cli_must(path, qwen_tok_set_bos(t, g, tool_bos(), &cli_err));
	if ((pre = qwen_tok_guess(t)) != NULL)
		cli_note("%s: has no tokenizer.ggml.pre: text is split as by "
		    "%s", path, pre);
	if (tool_nfc && (what & QWEN_TOK_ENCODE) != 0)
		cli_must(NULL, qwen_tok_set_nfc(t, 1, &cli_err));
	return t;
}
