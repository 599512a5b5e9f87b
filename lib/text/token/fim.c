/* SPDX-License-Identifier: ISC */
/* fim.c - fill in the middle: prompts from the text before and after a gap. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "text/token/tok.h"

/* Keys in llama.cpp's files, newer and older, and the tokens' names. */
static const struct {
	const char	*key, *old, *name;
} tokens[QWEN_FIM_N] = {
	[QWEN_FIM_PREFIX] = { "tokenizer.ggml.fim_pre_token_id",
	  "tokenizer.ggml.prefix_token_id", "<|fim_prefix|>" },
	[QWEN_FIM_SUFFIX] = { "tokenizer.ggml.fim_suf_token_id",
	  "tokenizer.ggml.suffix_token_id", "<|fim_suffix|>" },
	[QWEN_FIM_MIDDLE] = { "tokenizer.ggml.fim_mid_token_id",
	  "tokenizer.ggml.middle_token_id", "<|fim_middle|>" },
	[QWEN_FIM_PAD] = { "tokenizer.ggml.fim_pad_token_id", NULL,
	  "<|fim_pad|>" },
	[QWEN_FIM_REPO] = { "tokenizer.ggml.fim_rep_token_id", NULL,
	  "<|repo_name|>" },
	[QWEN_FIM_FILE] = { "tokenizer.ggml.fim_sep_token_id", NULL,
	  "<|file_sep|>" },
};

/* Returns the special token of this name, or -1. */
static int32_t
find_name(const struct qwen_specials *s, const char *name)
{
	size_t n = strlen(name), len, at;
	int32_t id = -1;

	at = qwen_specials_find(s, (const unsigned char *)name, 0, n, 1, &id,
	    &len);
	return at == 0 && len == n ? id : -1;
}

/*
 * Reads the token of a key.  Returns 1; 0 if the key is missing or not a token,
 * since a file is usable without; -1 if out of memory.
 */
static int
find_key(const struct qwen_gguf *g, const char *key, size_t n_vocab,
    int32_t *id, struct qwen_err *err)
{
	int rc = key == NULL ? 0 : qwen_vocab_id(g, key, n_vocab, id, err);

	return rc < 0 && err->code != QWEN_ENOMEM ? 0 : rc;
}

int
qwen_fim_find(struct qwen_tok *t, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	size_t i;
	int rc;

	for (i = 0; i < QWEN_FIM_N; i++) {
		rc = find_key(g, tokens[i].key, t->v.n, &t->fim[i], err);
		if (rc == 0)
			rc = find_key(g, tokens[i].old, t->v.n, &t->fim[i],
			    err);
		if (rc < 0)
			return -1;
		if (rc == 0)
			t->fim[i] = find_name(&t->special[1], tokens[i].name);
	}
	return 0;
}

int32_t
qwen_tok_fim(const struct qwen_tok *t, enum qwen_fim which)
{
	return (t->what & QWEN_TOK_ENCODE) != 0 ? t->fim[which] : -1;
}

/* ------------------------------------------------------------------ prompts */

/* Ids of the prompt so far. */
struct out {
	const struct qwen_tok *t;
	int32_t	*id;
	size_t	 n, cap;
};

static int
add_ids(struct out *o, const int32_t *ids, size_t n, struct qwen_err *err)
{
	size_t all;

	if (qwen_add(o->n, n, &all) < 0 ||
	    qwen_grow(&o->id, &o->cap, all + 1, sizeof *o->id) < 0)
		return qwen_oom(err);
	if (n > 0)
		memcpy(o->id + o->n, ids, n * sizeof *ids);
	o->n = all;
	return 0;
}

static int
add_token(struct out *o, enum qwen_fim which, struct qwen_err *err)
{
	int32_t id = qwen_tok_fim(o->t, which);

	return id < 0 ? 0 : add_ids(o, &id, 1, err);
}

static int
add_text(struct out *o, struct qwen_str s, struct qwen_err *err)
{
	int32_t *ids;
	size_t n;
	int rc;

	if (s.len == 0)
		return 0;
	if (qwen_tok_encode(o->t, s.s, s.len, 0, &ids, &n, err) < 0)
		return -1;
	rc = add_ids(o, ids, n, err);
	free(ids);
	return rc;
}

static int
add_line(struct out *o, struct qwen_str s, struct qwen_err *err)
{
	char *line = malloc(s.len + 1);
	int rc;

	if (line == NULL)
		return qwen_oom(err);
	if (s.len > 0)
		memcpy(line, s.s, s.len);
	line[s.len] = '\n';
	rc = add_text(o, (struct qwen_str){ line, s.len + 1 }, err);
	free(line);
	return rc;
}

#define STR(s) ((struct qwen_str){ s, sizeof s - 1 })

/*
 * Puts other files first, as on Qwen2.5-Coder's model card.  An unknown
 * repository or file name is replaced by the name that llama.cpp uses.
 */
static int
add_files(struct out *o, const struct qwen_fim_text *x, struct qwen_err *err)
{
	int named = qwen_tok_fim(o->t, QWEN_FIM_FILE) >= 0;
	size_t i;

	if (x->n_files == 0)
		return 0;
	if (qwen_tok_fim(o->t, QWEN_FIM_REPO) >= 0 &&
	    (add_token(o, QWEN_FIM_REPO, err) < 0 ||
	    add_text(o, STR("myproject\n"), err) < 0))
		return -1;
	for (i = 0; i < x->n_files; i++) {
		if (named ? add_token(o, QWEN_FIM_FILE, err) < 0 ||
		    add_line(o, x->file[i].name, err) < 0 :
		    add_text(o, STR("\n\n--- snippet ---\n\n"), err) < 0)
			return -1;
		if (add_text(o, x->file[i].text, err) < 0)
			return -1;
	}
	return !named ? 0 : add_token(o, QWEN_FIM_FILE, err) < 0 ? -1 :
	    x->name.len > 0 ? add_line(o, x->name, err) :
	    add_text(o, STR("filename\n"), err);
}

static int
add_all(struct out *o, const struct qwen_fim_text *x, struct qwen_err *err)
{
	return add_files(o, x, err) < 0 ||
	    add_token(o, QWEN_FIM_PREFIX, err) < 0 ||
	    add_text(o, x->prefix, err) < 0 || add_text(o, x->line, err) < 0 ||
	    add_ids(o, x->ids, x->n_ids, err) < 0 ||
	    add_token(o, QWEN_FIM_SUFFIX, err) < 0 ||
	    add_text(o, x->suffix, err) < 0 ||
	    add_token(o, QWEN_FIM_MIDDLE, err) < 0 ? -1 : 0;
}

int
qwen_tok_encode_fim_sized(size_t size, const struct qwen_tok *t,
    const struct qwen_fim_text *x, int32_t **ids, size_t *n_ids,
    struct qwen_err *err)
{
	struct out o = { .t = t };
	struct qwen_fim_text own;
	size_t i;

	*ids = NULL;
	*n_ids = 0;
	if (QWEN_SIZED(x, own, size, err) < 0)
		return -1;
	for (i = QWEN_FIM_PREFIX; i <= QWEN_FIM_MIDDLE; i++) {
		if (qwen_tok_fim(t, i) < 0)
			return qwen_fail(err, QWEN_EUNSUP, "this model cannot "
			    "fill in the middle: its vocabulary has no %s",
			    tokens[i].name);
	}
	if (add_all(&o, x, err) < 0) {
		free(o.id);
		return -1;
	}
	*ids = o.id;
	*n_ids = o.n;
	return 0;
}
