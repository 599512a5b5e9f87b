/* SPDX-License-Identifier: ISC */
/*
 * tokens.c - token texts that templates can write, and BOS in front of prompts.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gguf/vocab.h"
#include "text/chat/chat.h"

static const struct {
	const char	*key, *name;
} row[CHAT_N_NAMED] = {
	[CHAT_BOS] = { "tokenizer.ggml.bos_token_id", "bos_token" },
	[CHAT_EOS] = { "tokenizer.ggml.eos_token_id", "eos_token" },
	[CHAT_PAD] = { "tokenizer.ggml.padding_token_id", "pad_token" },
};

/* Reads the ids of the file; -1 for a missing one. */
static int
read_ids(const struct qwen_gguf *g, size_t n_vocab, int64_t id[CHAT_N_NAMED],
    struct qwen_err *err)
{
	uint64_t u;
	size_t i;
	int rc;

	for (i = 0; i < CHAT_N_NAMED; i++) {
		rc = qwen_gguf_get_u64(g, row[i].key, 0, &u, err);
		if (rc < 0)
			return -1;
		id[i] = rc > 0 && u < n_vocab ? (int64_t)u : -1;
	}
	return 0;
}

/*
 * Converters copy bos_token_id from config.json for tokenizers without BOS.
 * The id is then that of padding or EOS, and add_bos_token is not set.  In
 * transformers, bos_token is undefined for these models.
 */
static int
is_copied(const int64_t id[CHAT_N_NAMED])
{
	return id[CHAT_BOS] == id[CHAT_PAD] || id[CHAT_BOS] == id[CHAT_EOS];
}

static int
keep_text(struct qwen_template *t, int which, struct qwen_str s,
    struct qwen_err *err)
{
	char *copy = qwen_chat_alloc(&t->mem, s.len, 1);

	if (copy == NULL)
		return qwen_oom(err);
	if (s.len > 0)
		memcpy(copy, s.s, s.len);
	t->named[which] = chat_text((struct chat_text){ copy, s.len,
	    qwen_chat_all_own });
	return 0;
}

int
qwen_template_set_tokens(struct qwen_template *t, const struct qwen_gguf *g,
    enum qwen_bos how, struct qwen_err *err)
{
	int64_t id[CHAT_N_NAMED];
	struct qwen_vocab v;
	int32_t bos;
	int i, rc;

	for (i = 0; i < CHAT_N_NAMED; i++)
		t->named[i] = chat_undefined(row[i].name,
		    strlen(row[i].name));
	if (qwen_bos_read(&bos, g, how, err) < 0)
		return -1;
	t->adds_bos = bos >= 0;
	if (qwen_gguf_find(g, "tokenizer.ggml.tokens") == NULL)
		return 0;
	if (qwen_vocab_init(&v, g, err) < 0)
		return -1;
	rc = read_ids(g, v.n, id, err);
	if (bos < 0 && (how == QWEN_BOS_NEVER || is_copied(id)))
		id[CHAT_BOS] = -1;
	for (i = 0; i < CHAT_N_NAMED && rc == 0; i++) {
		if (id[i] >= 0)
			rc = keep_text(t, i, qwen_vocab_text(&v,
			    (size_t)id[i]), err);
	}
	qwen_vocab_fini(&v);
	return rc;
}

void
qwen_chat_set_tokens(struct chat_exec *r)
{
	size_t i;

	for (i = 0; i < CHAT_N_NAMED; i++) {
		if (r->t->named[i].type == CHAT_TEXT)
			qwen_chat_set(r, row[i].name, r->t->named[i]);
	}
}

/* Returns 1 if the template wrote BOS at the beginning. */
static int
begins(const struct chat_buf *b, const struct chat_text *bos)
{
	return b->n >= bos->n && memcmp(b->s, bos->s, bos->n) == 0 &&
	    memchr(b->origin, 0, bos->n) == NULL;
}

int
qwen_chat_begin(const struct qwen_template *t, struct chat_buf *b,
    struct qwen_err *err)
{
	const struct chat_text *bos = &t->named[CHAT_BOS].u.s;
	size_t cap = b->cap;

	if (!t->adds_bos || t->named[CHAT_BOS].type != CHAT_TEXT ||
	    bos->n == 0 || (b->n > 0 && begins(b, bos)))
		return 0;
	if (qwen_grow(&b->s, &cap, b->n + bos->n, 1) < 0 ||
	    qwen_grow(&b->origin, &b->cap, b->n + bos->n, 1) < 0)
		return qwen_oom(err);
	memmove(b->s + bos->n, b->s, b->n);
	memmove(b->origin + bos->n, b->origin, b->n);
	memcpy(b->s, bos->s, bos->n);
	memset(b->origin, 1, bos->n);
	b->n += bos->n;
	return 0;
}
