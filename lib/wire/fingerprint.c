/* SPDX-License-Identifier: ISC */
/*
 * fingerprint.c - fingerprints of models and adapters, and stream headers.
 *
 * A fingerprint is an XXH3-128 over records as they are in the GGUF file, each
 * with its name and length in front, so that different lists give different
 * bytes.
 */
#include <sys/mman.h>

#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/cursor.h"
#include "base/err.h"
#include "wire/record.h"

enum { SAMPLE_BYTES = 64 };	/* of each tensor */

XXH3_state_t *
qwen_fp_start(void)
{
	XXH3_state_t *st = XXH3_createState();

	if (st != NULL)
		XXH3_128bits_reset(st);
	return st;
}

void
qwen_fp_get(const XXH3_state_t *st, struct qwen_fp *out)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(st));
	memcpy(out->b, c.digest, sizeof out->b);
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

/* Is it a key of the architecture, such as "qwen3.block_count" of "qwen3"? */
static int
is_hparam(const struct qwen_gguf_kv *kv, const struct qwen_str *arch)
{
	return kv->key.len > arch->len && kv->key.s[arch->len] == '.' &&
	    memcmp(kv->key.s, arch->s, arch->len) == 0;
}

static void
add_tensor(XXH3_state_t *st, const struct qwen_gguf_tensor *t, uint64_t most)
{
	size_t i;

	add_bytes(st, t->name, strlen(t->name));
	add_u64(st, t->type);
	for (i = 0; i < 4; i++)
		add_u64(st, t->ne[i]);
	add_bytes(st, t->data, (size_t)(t->bytes < most ? t->bytes : most));
}

/*
 * Requests the sampled bytes of all tensors before the first one is read: if
 * the file is not in memory, they are in many places on the disk.
 */
static void
fetch_samples(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at;
	size_t i;

	for (i = 0; i < qwen_gguf_n_tensors(g); i++) {
		t = qwen_gguf_tensor(g, i);
		at = (uintptr_t)t->data & ~(page - 1);
		posix_madvise((void *)at, page, POSIX_MADV_WILLNEED);
	}
}

/*
 * Hashes the hyperparameters, the tensor directory and the first 64 bytes of
 * each tensor: takes milliseconds for a 20 GiB file.
 */
int
qwen_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err)
{
	struct qwen_str arch = { "", 0 };
	XXH3_state_t *st;
	size_t i;

	if (qwen_gguf_get_str(g, "general.architecture", &arch, err) < 0)
		return -1;
	if ((st = qwen_fp_start()) == NULL)
		return qwen_oom(err);
	fetch_samples(g);
	add_bytes(st, arch.s, arch.len);
	for (i = 0; i < qwen_gguf_n_kv(g); i++) {
		if (is_hparam(qwen_gguf_kv(g, i), &arch))
			add_kv(st, qwen_gguf_kv(g, i));
	}
	add_u64(st, qwen_gguf_n_tensors(g));
	for (i = 0; i < qwen_gguf_n_tensors(g); i++)
		add_tensor(st, qwen_gguf_tensor(g, i), SAMPLE_BYTES);
	qwen_fp_get(st, out);
	XXH3_freeState(st);
	return 0;
}

/* ---------------------------------------------------------------- adapters */

int
qwen_adapter_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err)
{
	static const struct qwen_str ours = { "adapter", 7 };
	XXH3_state_t *st = qwen_fp_start();
	size_t i;

	if (st == NULL)
		return qwen_oom(err);
	for (i = 0; i < qwen_gguf_n_kv(g); i++) {
		if (is_hparam(qwen_gguf_kv(g, i), &ours))
			add_kv(st, qwen_gguf_kv(g, i));
	}
	for (i = 0; i < qwen_gguf_n_tensors(g); i++)
		add_tensor(st, qwen_gguf_tensor(g, i), UINT64_MAX);
	qwen_fp_get(st, out);
	XXH3_freeState(st);
	return 0;
}

void
qwen_header_add_adapter(struct qwen_header *h, const struct qwen_fp *adapter,
    double scale)
{
	static const struct qwen_fp none;
	unsigned char b[2 * sizeof none.b + 8];
	XXH128_canonical_t c;
	uint64_t bits;

	if (scale == 0 || h->kind == QWEN_STREAM_TOKENS)
		return;
	if (memcmp(&h->base, &none, sizeof none) == 0)
		h->base = h->model;
	memcpy(&bits, &scale, sizeof bits);
	memcpy(b, h->model.b, sizeof none.b);
	memcpy(b + sizeof none.b, adapter->b, sizeof none.b);
	qwen_put_le64(b + 2 * sizeof none.b, bits);
	XXH128_canonicalFromHash(&c, XXH3_128bits(b, sizeof b));
	memcpy(h->model.b, c.digest, sizeof h->model.b);
}

int
qwen_header_adapt(struct qwen_header *h, const struct qwen_adapter *a,
    size_t n, struct qwen_err *err)
{
	struct qwen_gguf *g;
	struct qwen_fp fp;
	size_t i;
	int rc;

	for (i = 0; i < n; i++) {
		if (a[i].scale == 0)
			continue;
		if (qwen_gguf_open(&g, a[i].path, err) < 0)
			return qwen_fail_in(err, "adapter %s", a[i].path);
		rc = qwen_adapter_fingerprint(g, &fp, err);
		qwen_gguf_close(g);
		if (rc < 0)
			return -1;
		qwen_header_add_adapter(h, &fp, a[i].scale);
	}
	return 0;
}

/* ------------------------------------------------------------------ headers */

/*
 * A model without a vocabulary can be run, too: then the embedding's size is
 * the number of ids, and the vocabulary's fingerprint is zero.
 */
static int
describe_vocab(struct qwen_header *h, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	size_t n = 0;

	if (qwen_gguf_find(g, "tokenizer.ggml.tokens") != NULL) {
		if (qwen_vocab_size(g, &n, err) < 0 ||
		    qwen_vocab_fingerprint(g, &h->vocab, err) < 0)
			return -1;
	} else if ((t = qwen_gguf_find_tensor(g, "token_embd.weight")) != NULL)
		n = (size_t)t->ne[1];
	if (n == 0 || n > QWEN_VOCAB_MAX)
		return qwen_fail(err, QWEN_ERANGE, "a vocabulary of %zu "
		    "tokens; 1..%d are supported", n, QWEN_VOCAB_MAX);
	h->n_vocab = (uint32_t)n;
	return 0;
}

int
qwen_header_init(struct qwen_header *h, enum qwen_stream_kind kind,
    const struct qwen_gguf *g, struct qwen_err *err)
{
	memset(h, 0, sizeof *h);
	h->kind = kind;
	if (describe_vocab(h, g, err) < 0)
		return -1;
	if (kind == QWEN_STREAM_TOKENS)
		return 0;
	if (qwen_fingerprint(g, &h->model, err) < 0)
		return -1;
	h->numerics = QWEN_NUMERICS;
	if (kind != QWEN_STREAM_LOGITS ||
	    qwen_gguf_find(g, "tokenizer.ggml.tokens") == NULL)
		return 0;
	if (qwen_vocab_eog(g, h->eog, QWEN_EOG_MAX, &h->n_eog, err) < 0)
		return -1;
	if (h->n_eog > QWEN_EOG_MAX)
		h->n_eog = QWEN_EOG_MAX;
	return 0;
}
