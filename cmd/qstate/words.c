/* SPDX-License-Identifier: ISC */
/*
 * words.c - the first words of a run of tokens in the store, for qstate ls -m.
 */
#include <sys/stat.h>

#include <stdlib.h>
#include <string.h>

#include "qstate.h"

enum { WORDS_TOKENS = 24, WORDS_BYTES = 48 };

static struct {
	struct qwen_gguf	*gguf;
	struct qwen_tok		*tok;
	struct qwen_header	 header;	/* for the vocabulary
						   fingerprint */
} words;

void
qstate_words_open(const char *model)
{
	words.gguf = tool_gguf_open(tool_model_path(model));
	words.tok = tool_tok_open(words.gguf, QWEN_TOK_DECODE);
	cli_must(qwen_gguf_path(words.gguf, 0), qwen_header_init(&words.header,
	    QWEN_STREAM_TOKENS, words.gguf, &cli_err));
}

void
qstate_words_close(void)
{
	qwen_tok_close(words.tok);
	qwen_gguf_close(words.gguf);
	memset(&words, 0, sizeof words);
}

/*
 * Add the text of the tokens, at most about WORDS_BYTES; line feeds and tabs
 * become blanks.
 */
static void
spell(struct qwen_text *out, const int32_t *ids, size_t n)
{
	struct qwen_tok_decoder *d;
	struct qwen_str s;
	size_t i, k;

	cli_must(NULL, qwen_tok_decoder_new(&d, words.tok,
	    QWEN_TOK_SHOW_SPECIAL, &cli_err));
	for (i = 0; i < n && out->n < WORDS_BYTES; i++) {
		if (qwen_tok_decoder_put(d, ids[i], &s, NULL) < 0)
			break;
		qwen_text_add(out, s.s, s.len);
	}
	qwen_tok_decoder_free(d);
	for (k = 0; k < out->n; k++) {
		if (strchr("\n\r\t", out->s[k]) != NULL)
			out->s[k] = ' ';
	}
}

int
qstate_words(struct qwen_text *out, const char *store,
    const struct qwen_store_entry *e)
{
	struct qwen_state_file *f;
	const struct qwen_state_info *info;
	struct stat st;
	size_t n;
	char *path;

	if (words.tok == NULL || e->kind != QWEN_STORE_KV ||
	    memcmp(&e->vocab, &words.header.vocab, sizeof e->vocab) != 0)
		return 0;
	path = cli_format("%s/%s", store, e->path);
	/* in a shared store, another user may have put a link there */
	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	    qwen_state_open(&f, path, NULL) == 0) {
		info = qwen_state_info(f);
		n = (size_t)(info->n_tokens - info->from);
		spell(out, info->tokens, n < WORDS_TOKENS ? n : WORDS_TOKENS);
		qwen_state_close(f);
	}
	free(path);
	return out->n > 0 && !out->failed;
}
