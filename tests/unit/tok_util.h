/* SPDX-License-Identifier: ISC */
/*
 * tok_util.h - makes vocabularies: GGUF files in memory from tokens and merges,
 * whether they fit together or not.
 */
#ifndef TOK_UTIL_H
#define TOK_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "gguf/gguf.h"
#include "qwen.h"
#include "qwentext.h"
#include "text/token/tok.h"

struct bytes {
	unsigned char	*p;
	size_t		 n, cap;
};

struct vocab {
	const char	*pre, *model, *arch;	/* NULL: no such key */
	int		 no_types, no_merges;
	int64_t		 eos, eot;	/* below 0: no such key */
	const char	*key[8];	/* keys of other ids, ended by NULL */
	uint32_t	 key_id[8];
	struct bytes	 tokens, types, merges;	/* elements in the form of the
						   file */
	size_t		 n_tokens, n_types, n_merges;
	struct bytes	 file;
};

static inline void
add_bytes(struct bytes *b, const void *p, size_t n)
{
	if (b->cap - b->n < n) {
		b->cap = 2 * (b->cap + n);
		b->p = realloc(b->p, b->cap);
		if (b->p == NULL)
			abort();
	}
	if (n > 0)
		memcpy(b->p + b->n, p, n);
	b->n += n;
}

static inline void
add_u32(struct bytes *b, uint32_t v)
{
	unsigned char le[4];

	qwen_put_le32(le, v);
	add_bytes(b, le, sizeof le);
}

static inline void
add_u64(struct bytes *b, uint64_t v)
{
	unsigned char le[8];

	qwen_put_le64(le, v);
	add_bytes(b, le, sizeof le);
}

static inline void
add_str(struct bytes *b, const void *s, size_t n)
{
	add_u64(b, n);
	add_bytes(b, s, n);
}

/* Add a token with this text and type. */
static inline void
vocab_token_n(struct vocab *v, const void *text, size_t n, int type)
{
	add_str(&v->tokens, text, n);
	add_u32(&v->types, (uint32_t)type);
	v->n_tokens++;
	v->n_types++;
}

static inline void
vocab_token(struct vocab *v, const char *text, int type)
{
	vocab_token_n(v, text, strlen(text), type);
}

static inline void
vocab_merge_n(struct vocab *v, const void *line, size_t n)
{
	add_str(&v->merges, line, n);
	v->n_merges++;
}

static inline void
vocab_merge(struct vocab *v, const char *line)
{
	vocab_merge_n(v, line, strlen(line));
}

/* Add a merge, and its result as a token. */
static inline void
vocab_pair(struct vocab *v, const char *left, const char *right)
{
	char buf[8192];

	snprintf(buf, sizeof buf, "%s%s", left, right);
	vocab_token(v, buf, QWEN_TOKEN_NORMAL);
	snprintf(buf, sizeof buf, "%s %s", left, right);
	vocab_merge(v, buf);
}

/* Add the tokens of the 256 bytes, ordered by their characters: id 0 is '!'. */
static inline void
vocab_bytes(struct vocab *v)
{
	char s[4];
	unsigned c, b;
	size_t n;

	for (c = 0; c < 0x144; c++) {
		for (b = 0; b < 256; b++) {
			n = qwen_bytemap_write(b, s);
			if ((n == 1 ? s[0] & 0x7fu : (s[0] & 0x1fu) << 6 |
			    (s[1] & 0x3fu)) == c)
				vocab_token_n(v, s, n, QWEN_TOKEN_NORMAL);
		}
	}
}

/* Make a vocabulary of the tokens of bytes. */
static inline void
vocab_init(struct vocab *v, const char *pre)
{
	memset(v, 0, sizeof *v);
	v->pre = pre;
	v->model = "gpt2";
	v->arch = "qwen3";
	v->eos = v->eot = -1;
	vocab_bytes(v);
}

static inline void
put_key_str(struct bytes *f, const char *key, const char *s)
{
	add_str(f, key, strlen(key));
	add_u32(f, QWEN_GGUF_STRING);
	add_str(f, s, strlen(s));
}

static inline void
put_key_u32(struct bytes *f, const char *key, uint32_t x)
{
	add_str(f, key, strlen(key));
	add_u32(f, QWEN_GGUF_UINT32);
	add_u32(f, x);
}

static inline void
put_array(struct bytes *f, const char *key, enum qwen_gguf_type elem,
    const struct bytes *b, size_t n)
{
	add_str(f, key, strlen(key));
	add_u32(f, QWEN_GGUF_ARRAY);
	add_u32(f, elem);
	add_u64(f, n);
	add_bytes(f, b->p, b->n);
}

/* Write the file to v->file. */
static inline void
vocab_write(struct vocab *v)
{
	struct bytes *f = &v->file;
	uint64_t n = 1 + (v->arch != NULL) + (v->pre != NULL) + (v->model != NULL) +
	    !v->no_types + !v->no_merges + (v->eos >= 0) + (v->eot >= 0);

	size_t i;

	for (i = 0; v->key[i] != NULL; i++)
		n++;
	f->n = 0;
	add_bytes(f, "GGUF", 4);
	add_u32(f, 3);
	add_u64(f, 0);
	add_u64(f, n);
	if (v->arch != NULL)
		put_key_str(f, "general.architecture", v->arch);
	if (v->model != NULL)
		put_key_str(f, "tokenizer.ggml.model", v->model);
	if (v->pre != NULL)
		put_key_str(f, "tokenizer.ggml.pre", v->pre);
	put_array(f, "tokenizer.ggml.tokens", QWEN_GGUF_STRING, &v->tokens,
	    v->n_tokens);
	if (!v->no_types)
		put_array(f, "tokenizer.ggml.token_type", QWEN_GGUF_INT32,
		    &v->types, v->n_types);
	if (!v->no_merges)
		put_array(f, "tokenizer.ggml.merges", QWEN_GGUF_STRING,
		    &v->merges, v->n_merges);
	if (v->eos >= 0)
		put_key_u32(f, "tokenizer.ggml.eos_token_id", (uint32_t)v->eos);
	if (v->eot >= 0)
		put_key_u32(f, "tokenizer.ggml.eot_token_id", (uint32_t)v->eot);
	for (i = 0; v->key[i] != NULL; i++)
		put_key_u32(f, v->key[i], v->key_id[i]);
}

static inline void
vocab_free(struct vocab *v)
{
	free(v->tokens.p);
	free(v->types.p);
	free(v->merges.p);
	free(v->file.p);
	memset(v, 0, sizeof *v);
}

/* Open the file and its tokenizer; exit on errors. */
static inline struct qwen_tok *
vocab_open(struct vocab *v, struct qwen_gguf **g)
{
	struct qwen_tok *t;
	struct qwen_err err;

	vocab_write(v);
	if (qwen_gguf_open_memory(g, v->file.p, v->file.n, &err) < 0 ||
	    qwen_tok_open(&t, *g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE,
	    &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	return t;
}

/* Return the next number; the same on every machine. */
static inline uint32_t
rnd(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(*seed >> 33);
}

#endif
