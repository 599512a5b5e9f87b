/* SPDX-License-Identifier: ISC */
/*
 * check.c - checks that opening a file leaves out: every scale of every tensor, and
 * the consistency of the vocabulary.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/sized.h"
#include "gguf/gguf.h"
#include "engine/quant/quant.h"

#define TOKEN_MAX (64 * 1024)		/* bytes of one token */
#define STEP_BYTES (4u << 20)		/* between two calls of progress */

struct run {
	const struct qwen_gguf		*g;
	const struct qwen_gguf_checker	*c;
	uint64_t			 problems;
};

static void __attribute__((format(printf, 2, 3)))
report(struct run *r, const char *fmt, ...)
{
	struct qwen_err e;
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	qwen_fail(&e, QWEN_EFORMAT, "%s", text);	/* masks names */
	r->c->problem(r->c->arg, e.msg);
	r->problems++;
}

/* ---- metadata */

static void
check_bools(struct run *r, const struct qwen_gguf_kv *kv)
{
	uint64_t i;

	if (kv->elem != QWEN_GGUF_BOOL)
		return;
	for (i = 0; i < kv->n; i++) {
		if (kv->data[i] > 1) {
			report(r, "key %.*s at %" PRIu64 ": BOOL %" PRIu64
			    " is %u, must be 0 or 1",
			    (int)(kv->key.len < 64 ? kv->key.len : 64),
			    kv->key.s, kv->offset, i, kv->data[i]);
			return;
		}
	}
}

/* Returns the array of key, or NULL; reports another element type. */
static const struct qwen_gguf_kv *
find_array(struct run *r, const char *key, enum qwen_gguf_type elem)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(r->g, key);

	if (kv == NULL)
		return NULL;
	if (kv->type == QWEN_GGUF_ARRAY && kv->elem == elem)
		return kv;
	report(r, "key %s at %" PRIu64 ": must be an ARRAY of %s", key,
	    kv->offset, qwen_gguf_type_name(elem));
	return NULL;
}

static void
check_tokens(struct run *r, const struct qwen_gguf_kv *tokens)
{
	struct qwen_str s;
	size_t pos = 0, i;

	for (i = 0; qwen_gguf_next_str(tokens, &pos, &s); i++) {
		if (s.len == 0 || s.len > TOKEN_MAX) {
			report(r, "tokenizer.ggml.tokens: token %zu has %zu"
			    " bytes, 1 to %d are allowed", i, s.len, TOKEN_MAX);
			return;
		}
	}
}

static void
check_length(struct run *r, const struct qwen_gguf_kv *kv,
    const struct qwen_gguf_kv *tokens)
{
	if (kv != NULL && kv->n != tokens->n)
		report(r, "%.*s has %" PRIu64 " entries, tokenizer.ggml.tokens"
		    " %" PRIu64, (int)kv->key.len, kv->key.s, kv->n,
		    tokens->n);
}

static void
check_types(struct run *r, const struct qwen_gguf_kv *types)
{
	uint64_t i;
	int32_t t;

	for (i = 0; types != NULL && i < types->n; i++) {
		t = (int32_t)qwen_le32(types->data + 4 * i);
		if (t < 1 || t > 6) {
			report(r, "tokenizer.ggml.token_type: token %" PRIu64
			    " has type %d, 1 to 6 are known", i, (int)t);
			return;
		}
	}
}

/* A merge is "left right". The left half is not empty, so search from byte 1. */
static void
check_merges(struct run *r, const struct qwen_gguf_kv *merges)
{
	const char *space;
	struct qwen_str s;
	size_t pos = 0, i, rest;

	if (merges == NULL)
		return;
	for (i = 0; qwen_gguf_next_str(merges, &pos, &s); i++) {
		space = s.len < 3 ? NULL : memchr(s.s + 1, ' ', s.len - 2);
		if (space != NULL) {
			rest = s.len - (size_t)(space + 1 - s.s);
			if (memchr(space + 1, ' ', rest) == NULL)
				continue;
		}
		report(r, "tokenizer.ggml.merges: entry %zu is not two parts"
		    " with one space between", i);
		return;
	}
}

static void
check_special_ids(struct run *r, uint64_t n_vocab)
{
	static const char prefix[] = "tokenizer.ggml.", suffix[] = "_token_id";
	const size_t np = sizeof prefix - 1, ns = sizeof suffix - 1;
	const struct qwen_gguf_kv *kv;
	struct qwen_err err;
	int32_t id;
	char key[64];
	size_t i;

	for (i = 0; (kv = qwen_gguf_kv(r->g, i)) != NULL; i++) {
		if (kv->key.len <= np + ns || kv->key.len >= sizeof key ||
		    memcmp(kv->key.s, prefix, np) != 0 ||
		    memcmp(kv->key.s + kv->key.len - ns, suffix, ns) != 0)
			continue;
		memcpy(key, kv->key.s, kv->key.len);
		key[kv->key.len] = '\0';
		if (qwen_vocab_id(r->g, key, (size_t)n_vocab, &id, &err) < 0)
			report(r, "%s", err.msg);
	}
}

static void
check_vocab(struct run *r)
{
	const struct qwen_gguf_kv *tokens, *types;
	const struct qwen_gguf_tensor *embd;

	tokens = find_array(r, "tokenizer.ggml.tokens", QWEN_GGUF_STRING);
	if (tokens == NULL)
		return;
	types = find_array(r, "tokenizer.ggml.token_type", QWEN_GGUF_INT32);
	check_tokens(r, tokens);
	check_length(r, types, tokens);
	check_length(r, find_array(r, "tokenizer.ggml.scores",
	    QWEN_GGUF_FLOAT32), tokens);
	check_types(r, types);
	check_merges(r, find_array(r, "tokenizer.ggml.merges",
	    QWEN_GGUF_STRING));
	check_special_ids(r, tokens->n);
	embd = qwen_gguf_find_tensor(r->g, "token_embd.weight");
	if (embd != NULL && embd->ne[1] != tokens->n)
		report(r, "token_embd.weight has %" PRIu64 " rows,"
		    " tokenizer.ggml.tokens %" PRIu64 " entries", embd->ne[1],
		    tokens->n);
}

/* ---- tensors */

/* Reports only the first bad block of a tensor. */
static void
check_tensor(struct run *r, const struct qwen_gguf_tensor *t)
{
	size_t len = qwen_ggml_block_len(t->type);
	size_t size = qwen_ggml_block_bytes(t->type);
	uint64_t blocks = t->bytes / size, step = STEP_BYTES / size, at, n;
	const unsigned char *p;
	uint64_t left;
	int64_t bad;

	for (at = 0; at < blocks; at += n) {
		p = qwen_gguf_data(t, at * size, &left);
		n = left / size < step ? left / size : step;
		bad = qwen_quant_find_nonfinite(t->type, p,
		    (size_t)(n * len));
		if (bad >= 0) {
			at += (uint64_t)bad;
			report(r, "tensor %s: not finite: row %" PRIu64
			    ", block %" PRIu64 ", at %" PRIu64, t->name,
			    at / (t->ne[0] / len), at % (t->ne[0] / len),
			    t->offset + at * size);
			break;
		}
		if (r->c->progress != NULL)
			r->c->progress(r->c->arg, n * size);
	}
}

int64_t
qwen_gguf_check_sized(size_t size, const struct qwen_gguf *g,
    const struct qwen_gguf_checker *c, struct qwen_err *err)
{
	struct qwen_gguf_checker own;
	struct run r = { .g = g };
	const struct qwen_gguf_kv *kv;
	size_t i;

	if (QWEN_SIZED(c, own, size, err) < 0)
		return -1;
	r.c = c;
	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++)
		check_bools(&r, kv);
	check_vocab(&r);
	for (i = 0; i < qwen_gguf_n_tensors(g); i++)
		check_tensor(&r, qwen_gguf_tensor(g, i));
	return (int64_t)r.problems;
}
