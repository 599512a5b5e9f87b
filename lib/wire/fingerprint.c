/* SPDX-License-Identifier: ISC */
/*
 * fingerprint.c - what tells models and vocabularies apart, and the header
 * of a stream that says whose it is.
 *
 * A fingerprint is an XXH3-128 over records as they lie in the GGUF file, each
 * with its name and length in front so that no two lists give the same bytes.
 */
#include <string.h>

#include <xxhash.h>

#include "base/cursor.h"
#include "base/err.h"

enum { SAMPLE_BYTES = 64 };	/* of each tensor */

static int
start(XXH3_state_t **st, struct qwen_err *err)
{
	if ((*st = XXH3_createState()) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	XXH3_128bits_reset(*st);
	return 0;
}

static void
finish(XXH3_state_t *st, struct qwen_fp *out)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(st));
	memcpy(out->b, c.digest, sizeof out->b);
	XXH3_freeState(st);
}

static void
add_u64(XXH3_state_t *st, uint64_t v)
{
	unsigned char b[8];

	qwen_put_le64(b, v);
	XXH3_128bits_update(st, b, sizeof b);
}

static void
add_bytes(XXH3_state_t *st, const void *p, size_t n)
{
	add_u64(st, n);
	XXH3_128bits_update(st, p, n);
}

static void
add_kv(XXH3_state_t *st, const struct qwen_gguf_kv *kv)
{
	add_bytes(st, kv->key.s, kv->key.len);
	add_u64(st, kv->type);
	add_u64(st, kv->elem);
	add_u64(st, kv->n);
	add_bytes(st, kv->data, kv->bytes);
}

/* The architecture's own keys, "qwen3.block_count" of architecture "qwen3". */
static int
is_hparam(const struct qwen_gguf_kv *kv, const struct qwen_str *arch)
{
	return kv->key.len > arch->len && kv->key.s[arch->len] == '.' &&
	    memcmp(kv->key.s, arch->s, arch->len) == 0;
}

static void
add_tensor(XXH3_state_t *st, const struct qwen_gguf_tensor *t)
{
	size_t i;

	add_bytes(st, t->name, strlen(t->name));
	add_u64(st, t->type);
	for (i = 0; i < 4; i++)
		add_u64(st, t->ne[i]);
	add_bytes(st, t->data, t->bytes < SAMPLE_BYTES ? (size_t)t->bytes :
	    SAMPLE_BYTES);
}

int
qwen_model_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err)
{
	struct qwen_str arch = { "", 0 };
	XXH3_state_t *st;
	size_t i;

	if (qwen_gguf_get_str(g, "general.architecture", &arch, err) < 0 ||
	    start(&st, err) < 0)
		return -1;
	add_bytes(st, arch.s, arch.len);
	for (i = 0; i < qwen_gguf_n_kv(g); i++) {
		if (is_hparam(qwen_gguf_kv(g, i), &arch))
			add_kv(st, qwen_gguf_kv(g, i));
	}
	add_u64(st, qwen_gguf_n_tensors(g));
	for (i = 0; i < qwen_gguf_n_tensors(g); i++)
		add_tensor(st, qwen_gguf_tensor(g, i));
	finish(st, out);
	return 0;
}

int
qwen_vocab_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err)
{
	static const char *const keys[] = {
		"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
		"tokenizer.ggml.merges", "tokenizer.ggml.pre",
	};
	const struct qwen_gguf_kv *kv;
	XXH3_state_t *st;
	size_t i;

	if (start(&st, err) < 0)
		return -1;
	for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if ((kv = qwen_gguf_find(g, keys[i])) != NULL)
			add_kv(st, kv);
		else
			add_u64(st, 0);
	}
	finish(st, out);
	return 0;
}

/* ------------------------------------------- what else a header must say */

static const struct qwen_gguf_kv *
find_tokens(const struct qwen_gguf *g)
{
	const struct qwen_gguf_kv *kv;

	kv = qwen_gguf_find(g, "tokenizer.ggml.tokens");
	return kv != NULL && kv->type == QWEN_GGUF_ARRAY &&
	    kv->elem == QWEN_GGUF_STRING ? kv : NULL;
}

/* The token list, or where there is none the rows of the embedding. */
static int
count_vocab(const struct qwen_gguf *g, uint32_t *out, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = find_tokens(g);
	const struct qwen_gguf_tensor *t;
	uint64_t n = 0;

	if (kv != NULL)
		n = kv->n;
	else if ((t = qwen_gguf_find_tensor(g, "token_embd.weight")) != NULL)
		n = t->ne[1];
	if (n == 0)
		return qwen_fail(err, QWEN_EFORMAT, "the file has no "
		    "vocabulary: no tokenizer.ggml.tokens");
	if (n > QWEN_VOCAB_MAX)
		return qwen_fail(err, QWEN_ERANGE, "a vocabulary of %llu "
		    "tokens; the limit is %d", (unsigned long long)n,
		    QWEN_VOCAB_MAX);
	*out = (uint32_t)n;
	return 0;
}

/* Insert into the ascending list, once. */
static int
add_id(int32_t *ids, int n, uint64_t id, uint64_t limit)
{
	int i, j;

	if (id >= limit || n == QWEN_EOG_MAX)
		return n;
	for (i = 0; i < n && (uint64_t)ids[i] < id; i++)
		;
	if (i < n && (uint64_t)ids[i] == id)
		return n;
	for (j = n; j > i; j--)
		ids[j] = ids[j - 1];
	ids[i] = (int32_t)id;
	return n + 1;
}

static int
is_ending(struct qwen_str s)
{
	static const char *const texts[] = { "<|im_end|>", "<|endoftext|>" };
	size_t i;

	for (i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		if (s.len == strlen(texts[i]) &&
		    memcmp(s.s, texts[i], s.len) == 0)
			return 1;
	}
	return 0;
}

int
qwen_vocab_eog(const struct qwen_gguf *g, int32_t ids[QWEN_EOG_MAX],
    struct qwen_err *err)
{
	static const char *const keys[] = {
		"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
	};
	const struct qwen_gguf_kv *kv = find_tokens(g);
	struct qwen_str s;
	uint64_t id, limit = QWEN_VOCAB_MAX;
	size_t i, pos = 0;
	int n = 0, r;

	if (kv != NULL && kv->n < limit)
		limit = kv->n;
	for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if ((r = qwen_gguf_get_u64(g, keys[i], 0, &id, err)) < 0)
			return -1;
		if (r > 0)
			n = add_id(ids, n, id, limit);
	}
	if (kv == NULL)
		return n;
	for (id = 0; qwen_gguf_next_str(kv, &pos, &s) == 1; id++) {
		if (is_ending(s))
			n = add_id(ids, n, id, limit);
	}
	return n;
}

int
qwen_header_init(struct qwen_header *h, enum qwen_stream_kind kind,
    const struct qwen_gguf *g, struct qwen_err *err)
{
	int n;

	memset(h, 0, sizeof *h);
	h->kind = kind;
	if (count_vocab(g, &h->n_vocab, err) < 0 ||
	    qwen_vocab_fingerprint(g, &h->vocab, err) < 0)
		return -1;
	if (kind == QWEN_STREAM_TOKENS)
		return 0;
	if (qwen_model_fingerprint(g, &h->model, err) < 0)
		return -1;
	h->numerics = qwen_numerics_version();
	if (kind == QWEN_STREAM_LOGITS) {
		if ((n = qwen_vocab_eog(g, h->eog, err)) < 0)
			return -1;
		h->n_eog = (size_t)n;
	}
	return 0;
}
