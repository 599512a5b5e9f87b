/* SPDX-License-Identifier: ISC */
/*
 * vocab.c - the vocabulary in a GGUF file: texts and types.  Most functions
 * just walk the mapping.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/text.h"
#include "gguf/vocab.h"

#define TOKENS "tokenizer.ggml.tokens"
#define TYPES "tokenizer.ggml.token_type"
#define MERGES "tokenizer.ggml.merges"
#define PRE "tokenizer.ggml.pre"

/* Finds an array with elements of type elem; returns 1, 0 if absent, or -1. */
static int
find_array(const struct qwen_gguf *g, const char *key, enum qwen_gguf_type elem,
    const struct qwen_gguf_kv **out, struct qwen_err *err)
{
	*out = qwen_gguf_find(g, key);
	if (*out == NULL)
		return 0;
	if ((*out)->type == QWEN_GGUF_ARRAY && (*out)->elem == elem)
		return 1;
	return qwen_fail(err, QWEN_EFORMAT, "%s is not an array of %s", key,
	    elem == QWEN_GGUF_STRING ? "strings" : "INT32");
}

static int
find_tokens(const struct qwen_gguf *g, const struct qwen_gguf_kv **out,
    struct qwen_err *err)
{
	int rc = find_array(g, TOKENS, QWEN_GGUF_STRING, out, err);

	if (rc < 0)
		return -1;
	if (rc == 0 || (*out)->n == 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the file has no vocabulary (" TOKENS ")");
	if ((*out)->n > QWEN_VOCAB_MAX)
		return qwen_fail(err, QWEN_EUNSUP, "%llu tokens; at most %d "
		    "are supported", (unsigned long long)(*out)->n,
		    QWEN_VOCAB_MAX);
	if ((*out)->bytes > UINT32_MAX - 8)
		return qwen_fail(err, QWEN_EUNSUP,
		    TOKENS " is larger than 4 GiB");
	return 0;
}

int
qwen_vocab_size(const struct qwen_gguf *g, size_t *n, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv;

	*n = 0;
	if (find_tokens(g, &kv, err) < 0)
		return -1;
	*n = (size_t)kv->n;
	return 0;
}

/* Records the position of each text. */
static int
locate(struct qwen_vocab *v, struct qwen_err *err)
{
	struct qwen_str s;
	size_t pos = 0, i;

	for (i = 0; i < v->n && qwen_gguf_next_str(v->tokens, &pos, &s); i++) {
		if (s.len > QWEN_TEXT_MAX)
			return qwen_fail(err, QWEN_EFORMAT,
			    "token %zu is %zu bytes long; at most %d are "
			    "supported", i, s.len, QWEN_TEXT_MAX);
		v->text[i] = (uint32_t)(pos - s.len);
	}
	v->text[i] = (uint32_t)(pos + 8);
	return 0;
}

/* Finds tokens and types without reading the texts. */
static int
find_arrays(const struct qwen_gguf *g, struct qwen_vocab *v,
    struct qwen_err *err)
{
	v->text = NULL;
	if (find_tokens(g, &v->tokens, err) < 0 ||
	    find_array(g, TYPES, QWEN_GGUF_INT32, &v->types, err) < 0)
		return -1;
	v->n = (size_t)v->tokens->n;
	if (v->types != NULL && v->types->n != v->n)
		return qwen_fail(err, QWEN_EFORMAT,
		    "%zu tokens, but %llu token types", v->n,
		    (unsigned long long)v->types->n);
	return 0;
}

int
qwen_vocab_init(struct qwen_vocab *v, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	if (find_arrays(g, v, err) < 0)
		return -1;
	v->text = malloc((v->n + 1) * sizeof *v->text);
	if (v->text == NULL)
		return qwen_oom(err);
	if (locate(v, err) < 0) {
		qwen_vocab_fini(v);
		return -1;
	}
	return 0;
}

void
qwen_vocab_fini(struct qwen_vocab *v)
{
	free(v->text);
	v->text = NULL;
}

enum qwen_token_type
qwen_vocab_type(const struct qwen_vocab *v, size_t id)
{
	uint32_t type;

	if (v->types == NULL)
		return QWEN_TOKEN_NORMAL;
	type = qwen_le32(v->types->data + 4 * id);
	if (type < QWEN_TOKEN_NORMAL || type > QWEN_TOKEN_BYTE)
		return QWEN_TOKEN_UNUSED;
	return (enum qwen_token_type)type;
}

/* ---------------------------------------------------- ids of special tokens */

/* Is the value -1, or -1 converted to an unsigned type? */
static int
is_minus_one(const struct qwen_gguf_kv *kv)
{
	size_t i, n = kv->type == QWEN_GGUF_FLOAT32 || kv->type ==
	    QWEN_GGUF_FLOAT64 ? 0 : qwen_gguf_type_bytes(kv->type);

	for (i = 0; i < n && kv->data[i] == 0xff; i++)
		;
	return n >= 4 && i == n;
}

int
qwen_vocab_id(const struct qwen_gguf *g, const char *key, size_t n,
    int32_t *id, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, key);
	uint64_t v;

	*id = -1;
	if (kv == NULL || is_minus_one(kv))
		return 0;
	if (qwen_gguf_get_u64(g, key, 0, &v, err) < 0)
		return -1;
	if (v >= n)
		return qwen_fail(err, QWEN_ERANGE,
		    "%s is %llu, but there are %zu tokens", key,
		    (unsigned long long)v, n);
	*id = (int32_t)v;
	return 1;
}

/* ------------------------------------------------------------- fingerprint */

/*
 * Hashes lengths first, so that different vocabularies cannot give the same
 * bytes.
 */
static void
hash_part(XXH3_state_t *h, const void *p, uint64_t n, uint64_t bytes)
{
	unsigned char size[16];

	qwen_put_le64(size, n);
	qwen_put_le64(size + 8, bytes);
	XXH3_128bits_update(h, size, sizeof size);
	if (bytes > 0)
		XXH3_128bits_update(h, p, (size_t)bytes);
}

static int
hash_array(XXH3_state_t *h, const struct qwen_gguf *g, const char *key,
    enum qwen_gguf_type elem, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv;

	if (find_array(g, key, elem, &kv, err) < 0)
		return -1;
	if (kv == NULL)
		hash_part(h, NULL, 0, 0);
	else
		hash_part(h, kv->data, kv->n, kv->bytes);
	return 0;
}

int
qwen_vocab_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err)
{
	const struct qwen_gguf_kv *tokens;
	struct qwen_str pre = { NULL, 0 };
	XXH128_canonical_t canon;
	XXH3_state_t *h;
	int rc = -1;

	memset(out, 0, sizeof *out);
	if (find_tokens(g, &tokens, err) < 0)
		return -1;
	if (qwen_gguf_get_str(g, PRE, &pre, err) < 0)
		return -1;
	h = XXH3_createState();
	if (h == NULL)
		return qwen_oom(err);
	XXH3_128bits_reset(h);
	hash_part(h, pre.s, 1, pre.len);
	hash_part(h, tokens->data, tokens->n, tokens->bytes);
	if (hash_array(h, g, TYPES, QWEN_GGUF_INT32, err) == 0 &&
	    hash_array(h, g, MERGES, QWEN_GGUF_STRING, err) == 0) {
		XXH128_canonicalFromHash(&canon, XXH3_128bits_digest(h));
		memcpy(out->b, canon.digest, sizeof out->b);
		rc = 0;
	}
	XXH3_freeState(h);
	return rc;
}

/* ------------------------------------------------------- end of generation */

/* Ascending, without duplicates; at most four ids are looked up. */
struct ids {
	int32_t	 v[4];
	size_t	 n;
};

static void
add_id(struct ids *ids, int32_t id)
{
	size_t i;

	for (i = 0; i < ids->n && ids->v[i] < id; i++)
		;
	if (i < ids->n && ids->v[i] == id)
		return;
	memmove(ids->v + i + 1, ids->v + i, (ids->n++ - i) * sizeof id);
	ids->v[i] = id;
}

static int
add_key(struct ids *ids, const struct qwen_gguf *g, const char *key, size_t n,
    struct qwen_err *err)
{
	int32_t id;
	int rc = qwen_vocab_id(g, key, n, &id, err);

	if (rc > 0)
		add_id(ids, id);
	return rc < 0 ? -1 : 0;
}

/* Adds the first token with that text. */
static void
add_text(struct ids *ids, const struct qwen_gguf_kv *tokens, const char *text)
{
	size_t pos = 0;
	struct qwen_str s;
	int32_t id;

	for (id = 0; qwen_gguf_next_str(tokens, &pos, &s); id++) {
		if (qwen_str_is(s, text)) {
			add_id(ids, id);
			return;
		}
	}
}

int
qwen_vocab_eog(const struct qwen_gguf *g, int32_t *ids, size_t max, size_t *n,
    struct qwen_err *err)
{
	struct ids found = { .n = 0 };
	const struct qwen_gguf_kv *tokens;

	*n = 0;
	if (find_tokens(g, &tokens, err) < 0 ||
	    add_key(&found, g, "tokenizer.ggml.eos_token_id",
	    (size_t)tokens->n, err) < 0 ||
	    add_key(&found, g, "tokenizer.ggml.eot_token_id",
	    (size_t)tokens->n, err) < 0)
		return -1;
	add_text(&found, tokens, "<|im_end|>");
	add_text(&found, tokens, "<|endoftext|>");
	*n = found.n;
	if (found.n > 0 && max > 0)
		memcpy(ids, found.v, (max < *n ? max : *n) * sizeof *ids);
	return 0;
}

int
qwen_vocab_unused(const struct qwen_gguf *g, int32_t *ids, size_t max,
    size_t *n, struct qwen_err *err)
{
	struct qwen_vocab v;
	size_t i;

	*n = 0;
	if (find_arrays(g, &v, err) < 0)
		return -1;
	for (i = 0; i < v.n; i++) {
		if (qwen_vocab_type(&v, i) != QWEN_TOKEN_UNUSED)
			continue;
		if (*n < max)
			ids[*n] = (int32_t)i;
		++*n;
	}
	return 0;
}
