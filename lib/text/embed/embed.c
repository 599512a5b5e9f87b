/* SPDX-License-Identifier: ISC */
/*
 * embed.c - encodes texts for embedding models, and turns hidden states into
 * vectors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "qwentext.h"

/* Returns the token id under a key; -1 if there is none or it is invalid. */
static int32_t
token(const struct qwen_gguf *g, const char *key)
{
	size_t n_vocab;
	int32_t id;

	return qwen_vocab_size(g, &n_vocab, NULL) < 0 ||
	    qwen_vocab_id(g, key, n_vocab, &id, NULL) != 1 ? -1 : id;
}

int32_t
qwen_embedding_eos(const struct qwen_gguf *g)
{
	return token(g, "tokenizer.ggml.eos_token_id");
}

/* Reads the token if the file wants it to be added. */
static int
read_token(const struct qwen_gguf *g, const char *add, const char *key,
    int32_t *out, struct qwen_err *err)
{
	int wanted = 0;

	*out = -1;
	if (qwen_gguf_get_bool(g, add, 0, &wanted, err) < 0)
		return -1;
	if (wanted && (*out = token(g, key)) < 0)
		return qwen_fail(err, QWEN_EFORMAT, "%s is true, but there is "
		    "no token under %s", add, key);
	return 0;
}

int
qwen_embedding_read(struct qwen_embedding *e, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct qwen_str arch = { "", 0 };
	uint64_t type = QWEN_POOLING_NONE;
	char key[128];

	*e = (struct qwen_embedding){ .first = -1, .last = -1 };
	if (qwen_gguf_get_str(g, "general.architecture", &arch, err) < 0)
		return -1;
	snprintf(key, sizeof key, "%.*s.pooling_type",
	    arch.len > 60 ? 60 : (int)arch.len, arch.s);
	if (qwen_gguf_get_u64(g, key, 0, &type, err) < 0)
		return -1;
	if (type > QWEN_POOLING_RANK)
		return qwen_fail(err, QWEN_EUNSUP, "%s is %llu; 0 to %d are "
		    "supported", key, (unsigned long long)type,
		    QWEN_POOLING_RANK);
	e->pooling = (enum qwen_pooling)type;
	return read_token(g, "tokenizer.ggml.add_bos_token",
	    "tokenizer.ggml.bos_token_id", &e->first, err) < 0 ? -1 :
	    read_token(g, "tokenizer.ggml.add_eos_token",
	    "tokenizer.ggml.eos_token_id", &e->last, err);
}

int
qwen_embedding_enclose(const struct qwen_embedding *e, int32_t **ids,
    size_t *n, struct qwen_err *err)
{
	int front = e->first >= 0 && (*n == 0 || (*ids)[0] != e->first);
	int back = e->last >= 0 && (*n == 0 || (*ids)[*n - 1] != e->last);
	size_t cap = 0;

	if (qwen_grow(ids, &cap, *n + 2, sizeof **ids) < 0)
		return qwen_oom(err);
	if (front) {
		memmove(*ids + 1, *ids, *n * sizeof **ids);
		(*ids)[0] = e->first;
		++*n;
	}
	if (back)
		(*ids)[(*n)++] = e->last;
	return 0;
}

int
qwen_embedding_encode(const struct qwen_embedding *e,
    const struct qwen_tok *tok, const char *instruct, const void *text,
    size_t n, unsigned flags, int32_t **ids, size_t *n_ids,
    struct qwen_err *err)
{
	struct qwen_text t = { 0 };
	int rc;

	*ids = NULL;
	*n_ids = 0;
	if (instruct != NULL) {
		qwen_text_str(&t, "Instruct: ");
		qwen_text_str(&t, instruct);
		qwen_text_str(&t, "\nQuery:");
		qwen_text_add(&t, text, n);
		text = t.s;
		n = t.n;
	}
	rc = t.failed ? qwen_oom(err) : qwen_tok_encode(tok, text, n, flags,
	    ids, n_ids, err);
	qwen_text_fini(&t);
	if (rc == 0 && (rc = qwen_embedding_enclose(e, ids, n_ids, err)) < 0) {
		free(*ids);
		*ids = NULL;
		*n_ids = 0;
	}
	return rc;
}

void
qwen_embedding_cut(const struct qwen_embedding *e, int32_t *ids, size_t *n,
    size_t max)
{
	if (*n <= max || max == 0)
		return;
	if (e->last >= 0)
		ids[max - 1] = ids[*n - 1];
	*n = max;
}

size_t
qwen_embedding_from(const struct qwen_embedding *e, size_t *n)
{
	switch (e->pooling) {
	case QWEN_POOLING_CLS:
		*n = *n > 0;
		return 0;
	case QWEN_POOLING_MEAN:
		return 0;
	default:
		return *n > 0 ? *n - 1 : 0;
	}
}

void
qwen_embedding_add(double *sum, const float *hidden, size_t n_embd)
{
	size_t i;

	for (i = 0; i < n_embd; i++)
		sum[i] += (double)hidden[i];
}

void
qwen_embedding_finish(const struct qwen_embedding *e, const double *sum,
    size_t n_states, size_t n_embd, float *out, size_t *n)
{
	double square = 0, scale = n_states > 1 ? (double)n_states : 1;
	size_t i;

	*n = e->dimensions > 0 && e->dimensions < n_embd ? e->dimensions :
	    n_embd;
	if (!e->unscaled) {
		for (i = 0; i < *n; i++)
			square += sum[i] * sum[i];
		scale = sqrt(square);
	}
	/* the vector of zeros cannot be normalised */
	for (i = 0; i < *n; i++)
		out[i] = scale > 0 ? (float)(sum[i] / scale) : 0;
}
