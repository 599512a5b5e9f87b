/* SPDX-License-Identifier: ISC */
/* state_util.h - sessions without weights, and states in memory. */
#ifndef STATE_UTIL_H
#define STATE_UTIL_H

#include <fcntl.h>

#include "base/mem.h"
#include "engine/timeline/timeline.h"
#include "engine/state/state.h"
#include "wire/record.h"
#include "wire_util.h"
#include "gguf/write.h"

/* Sizes of a model; every second layer has a KV cache. */
struct shape {
	size_t	n_layer, n_ctx, n_vocab, n_head_kv, n_embd_head;
	size_t	n_head_k, n_head_v, dk, dv, conv_kernel;
};

static const struct shape small_shape = {
	.n_layer = 2, .n_ctx = 4096, .n_vocab = 9, .n_head_kv = 1,
	.n_embd_head = 2, .n_head_k = 1, .n_head_v = 1, .dk = 2, .dv = 3,
	.conv_kernel = 3,
};

/*
 * Return a model that cannot compute: it has the metadata and sizes that saving
 * and loading need.  The fingerprint depends on name.
 */
static inline struct qwen_model *
fake_model(const struct shape *sh, const char *name, const char *token)
{
	struct qwen_model *m = qwen_alloc(1, sizeof *m);
	struct qwen_str *text = qwen_alloc(sh->n_vocab, sizeof *text);
	struct qwen_gguf_writer *w;
	struct qwen_err err;
	const char *tmp = getenv("TMPDIR");
	char path[1024];
	size_t i;
	int fd;

	snprintf(path, sizeof path, "%s/state-test-XXXXXX", tmp != NULL ? tmp :
	    "/tmp");
	fd = mkstemp(path);
	if (m == NULL || text == NULL || fd == -1 ||
	    qwen_gguf_writer_new(&w, &err) < 0)
		abort();
	for (i = 0; i < sh->n_vocab; i++)
		text[i] = (struct qwen_str){ token, strlen(token) };
	qwen_gguf_put_str(w, "general.architecture", "fake");
	qwen_gguf_put_str(w, "fake.name", name);
	qwen_gguf_put_str(w, "tokenizer.ggml.model", "gpt2");
	qwen_gguf_put_str(w, "tokenizer.ggml.pre", "qwen35");
	qwen_gguf_put_strs(w, "tokenizer.ggml.tokens", text, sh->n_vocab);
	if (qwen_gguf_write_head(w, fd, &err) < 0 ||
	    qwen_gguf_open(&m->net.gguf, path, &err) < 0) {
		printf("# %s\n", err.msg);
		abort();
	}
	qwen_gguf_writer_free(w);
	free(text);
	close(fd);
	unlink(path);
	m->net.numerics = QWEN_NUMERICS;
	m->net.hp = (struct qwen_hparams){ .n_layer = sh->n_layer,
	    .n_ctx = sh->n_ctx, .n_vocab = sh->n_vocab,
	    .n_head_kv = sh->n_head_kv, .n_embd_head = sh->n_embd_head,
	    .n_head_k = sh->n_head_k, .n_head_v = sh->n_head_v,
	    .dk = sh->dk, .dv = sh->dv, .conv_kernel = sh->conv_kernel };
	m->net.hp.recurrent = qwen_alloc(sh->n_layer, 1);
	for (i = 0; i < sh->n_layer; i++)
		m->net.hp.recurrent[i] = i % 2 == 0;
	if (qwen_pool_new(&m->place.pool, 2, &err) < 0)
		abort();
	return m;
}

static inline void
fake_model_free(struct qwen_model *m)
{
	qwen_gguf_close(m->net.gguf);
	qwen_pool_free(m->place.pool);
	free(m->net.hp.recurrent);
	free(m);
}

static inline uint32_t
next_random(uint64_t *x)
{
	*x = *x * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*x >> 32);
}

/*
 * Fill a KV cache with random values up to the last token; the rest stays zero.
 */
static inline void
fill_cache(struct qwen_session *s, size_t layer, uint64_t *x)
{
	const struct qwen_hparams *h = &s->model->net.hp;
	size_t b, i, half = h->n_head_kv * h->n_embd_head * QWEN_KV_BLOCK;

	for (b = 0; b < s->mem.layer[layer].n_block; b++) {
		for (i = 0; i < 2 * half; i++) {
			size_t lane = i < half ? i % QWEN_KV_BLOCK :
			    (i - half) / h->n_embd_head % QWEN_KV_BLOCK;
			uint16_t v = (uint16_t)(0x3800 + next_random(x) % 999);

			if (b * QWEN_KV_BLOCK + lane < s->n_tokens)
				s->mem.layer[layer].block[b][i] = v;
		}
	}
}

static inline void
fill_floats(float *f, size_t n, uint64_t *x)
{
	size_t i;

	for (i = 0; i < n; i++)
		f[i] = ((float)next_random(x) - 0x1p31f) * 0x1p-31f;
}

/* Return a session of n tokens with contents that depend on the seed. */
static inline struct qwen_session *
fake_session(struct qwen_model *m, size_t n, uint64_t seed)
{
	struct qwen_session *s;
	struct qwen_err err;
	uint64_t x = seed;
	size_t i;

	if (qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_reserve(s, n, &err) < 0)
		abort();
	s->n_tokens = n;
	for (i = 0; i < n; i++)
		s->tokens[i] = (int32_t)(next_random(&x) % m->net.hp.n_vocab);
	for (i = 0; i < s->mem.n_layer; i++) {
		if (s->mem.layer[i].kv_block_bytes != 0)
			fill_cache(s, i, &x);
		else {
			fill_floats(s->mem.layer[i].s, s->mem.layer[i].n_s, &x);
			fill_floats(s->mem.layer[i].conv, s->mem.layer[i].n_conv, &x);
		}
	}
	s->have_logits = n > 0;
	if (n > 0)
		fill_floats(s->logits, m->net.hp.n_vocab, &x);
	return s;
}

/*
 * Return 1 if two sessions have the same bits in all positions up to their end.
 */
static inline int
same_session(const struct qwen_session *a, const struct qwen_session *b)
{
	size_t i, j, n = (a->n_tokens + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;

	if (a->n_tokens != b->n_tokens || a->mem.n_layer != b->mem.n_layer ||
	    a->have_logits != b->have_logits ||
	    (a->n_tokens > 0 && memcmp(a->tokens, b->tokens,
	    a->n_tokens * sizeof *a->tokens) != 0))
		return 0;
	if (a->have_logits && memcmp(a->logits, b->logits,
	    a->model->net.hp.n_vocab * sizeof *a->logits) != 0)
		return 0;
	for (i = 0; i < a->mem.n_layer; i++) {
		const struct qwen_layer_state *p = &a->mem.layer[i];
		const struct qwen_layer_state *q = &b->mem.layer[i];

		if (p->kv_block_bytes == 0) {
			if (memcmp(p->s, q->s, p->n_s * sizeof *p->s) != 0 ||
			    memcmp(p->conv, q->conv,
			    p->n_conv * sizeof *p->conv) != 0)
				return 0;
			continue;
		}
		if (p->n_block < n || q->n_block < n)
			return 0;
		for (j = 0; j < n; j++) {
			if (memcmp(p->block[j], q->block[j],
			    p->kv_block_bytes) != 0)
				return 0;
		}
	}
	return 1;
}

/* Save the state of s to out. */
static inline void
save_bytes(struct bytes *out, const struct qwen_session *s,
    const struct qwen_state_extra *x, int no_compress, struct qwen_fp *fp)
{
	struct qwen_state_opts o = { .no_compress = no_compress };
	struct qwen_writer *w;
	struct qwen_err err;
	int fd = fd_of("", 0);

	if (qwen_writer_open(&w, fd, NULL, &err) < 0 ||
	    qwen_state_save(s, x, w, &o, fp, &err) < 0 ||
	    qwen_writer_close(w, &err) < 0) {
		printf("# %s\n", err.msg);
		abort();
	}
	bytes_of_fd(out, fd);
	close(fd);
}

/* Load a state from n bytes. */
static inline int
load_bytes(struct qwen_session **s, struct qwen_state_extra *x,
    struct qwen_model *m, const void *p, size_t n, const struct qwen_fp *want,
    struct qwen_err *err)
{
	char path[64];
	int fd = fd_of(p, n), r;

	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	r = qwen_state_load_file(s, x, m, path, want, err);
	close(fd);
	return r;
}

#endif
