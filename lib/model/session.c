/* SPDX-License-Identifier: ISC */
/* session.c - one timeline: its tokens, KV cache and recurrent state. */
#include <sys/mman.h>

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "model/forward.h"

static void
init_layer(struct qwen_layer_state *s, const struct qwen_hparams *h,
    size_t layer)
{
	if (h->recurrent == NULL || !h->recurrent[layer]) {
		s->kv_block_bytes = 2 * h->n_head_kv * h->n_embd_head *
		    QWEN_KV_BLOCK * sizeof(uint16_t);
		return;
	}
	s->n_s = h->n_head_v * h->dk * h->dv;
	s->n_conv = (h->conv_kernel - 1) *
	    (2 * h->n_head_k * h->dk + h->n_head_v * h->dv);
}

/* Rows of vectors begin at a cache line. */
static size_t
padded(size_t n)
{
	return (n + 15) / 16 * 16;
}

/*
 * One piece for the recurrent state of all layers, zeroed by the system page by
 * page as it is touched: it is the greater part of the memory that a short run
 * needs, and is not to be paid for before the first token.
 */
static int
map_recurrent(struct qwen_session *s)
{
	size_t i, n = 0;
	float *p;

	for (i = 0; i < s->n_layer; i++) {
		if (qwen_add(n, padded(s->layer[i].n_s), &n) < 0 ||
		    qwen_add(n, padded(s->layer[i].n_conv), &n) < 0)
			return -1;
	}
	if (n == 0)
		return 0;
	if (qwen_mul(n, sizeof *p, &s->recurrent_bytes) < 0)
		return -1;
	p = s->recurrent = qwen_map_zero(s->recurrent_bytes);
	if (p == NULL)
		return -1;
	for (i = 0; i < s->n_layer; i++) {
		if (s->layer[i].n_s == 0)
			continue;
		s->layer[i].s = p;
		p += padded(s->layer[i].n_s);
	}
	for (i = 0; i < s->n_layer; i++) {
		if (s->layer[i].n_conv == 0)
			continue;
		s->layer[i].conv = p;
		p += padded(s->layer[i].n_conv);
	}
	return 0;
}

int
qwen_session_new(struct qwen_session **out, struct qwen_model *m,
    struct qwen_err *err)
{
	struct qwen_session *s = qwen_alloc(1, sizeof *s);
	size_t i;

	*out = NULL;
	if (s == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	s->model = m;
	s->n_layer = m->hp.n_layer;
	s->layer = qwen_alloc(s->n_layer, sizeof *s->layer);
	s->logits = qwen_alloc(m->hp.n_vocab, sizeof *s->logits);
	s->scratch = qwen_alloc(1, sizeof *s->scratch);
	if (s->layer == NULL || s->logits == NULL || s->scratch == NULL)
		goto nomem;
	for (i = 0; i < s->n_layer; i++)
		init_layer(&s->layer[i], &m->hp, i);
	if (map_recurrent(s) < 0)
		goto nomem;
	*out = s;
	return 0;
nomem:
	qwen_session_free(s);
	return qwen_fail(err, QWEN_ENOMEM, "out of memory");
}

/* Blocks of the layer from n on; those in mapped files are not ours. */
static void
drop_blocks(const struct qwen_session *s, struct qwen_layer_state *l, size_t n)
{
	const char *p;
	size_t i, j;

	for (i = n; i < l->n_block; i++) {
		p = (const char *)l->block[i];
		for (j = 0; j < s->n_mapping; j++) {
			const char *map = s->mapping[j].p;

			if (p >= map && p < map + s->mapping[j].bytes)
				break;
		}
		if (j == s->n_mapping)
			free(l->block[i]);
	}
	l->n_block = n < l->n_block ? n : l->n_block;
}

void
qwen_session_free(struct qwen_session *s)
{
	size_t i;

	if (s == NULL)
		return;
	for (i = 0; s->layer != NULL && i < s->n_layer; i++) {
		drop_blocks(s, &s->layer[i], 0);
		free(s->layer[i].block);
	}
	for (i = 0; i < s->n_mapping; i++)
		munmap(s->mapping[i].p, s->mapping[i].bytes);
	free(s->mapping);
	qwen_session_drop_kept(s);
	free(s->kept);
	qwen_unmap(s->recurrent, s->recurrent_bytes);
	if (s->scratch != NULL)
		qwen_scratch_free(s->scratch);
	free(s->scratch);
	free(s->layer);
	free(s->logits);
	free(s->tokens);
	free(s);
}

struct qwen_model *
qwen_session_model(const struct qwen_session *s)
{
	return s->model;
}

size_t
qwen_session_n_tokens(const struct qwen_session *s)
{
	return s->n_tokens;
}

const int32_t *
qwen_session_tokens(const struct qwen_session *s)
{
	return s->tokens;
}

const float *
qwen_session_logits(const struct qwen_session *s)
{
	return s->have_logits ? s->logits : NULL;
}

/* More blocks, in steps so that decoding seldom comes here. */
static int
reserve_layer(struct qwen_layer_state *l, size_t n)
{
	size_t want = (n + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
	uint16_t **list;

	if (l->kv_block_bytes == 0 || want <= l->n_block)
		return 0;
	list = realloc(l->block, want * sizeof *list);
	if (list == NULL)
		return -1;
	l->block = list;
	while (l->n_block < want) {
		l->block[l->n_block] = qwen_alloc(1, l->kv_block_bytes);
		if (l->block[l->n_block] == NULL)
			return -1;
		l->n_block++;
	}
	return 0;
}

int
qwen_session_reserve(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	size_t i, cap;
	int32_t *tokens;

	if (n > s->model->hp.n_ctx)
		return qwen_fail(err, QWEN_ERANGE,
		    "%zu tokens: the model's context is %zu", n,
		    s->model->hp.n_ctx);
	if (n > s->cap_tokens) {
		cap = n + n / 2 + 256;
		tokens = realloc(s->tokens, cap * sizeof *tokens);
		if (tokens == NULL)
			goto nomem;
		s->tokens = tokens;
		s->cap_tokens = cap;
	}
	for (i = 0; i < s->n_layer; i++) {
		if (reserve_layer(&s->layer[i], n) < 0)
			goto nomem;
	}
	return 0;
nomem:
	return qwen_fail(err, QWEN_ENOMEM,
	    "out of memory for the state of %zu tokens", n);
}

void
qwen_session_clear(struct qwen_session *s)
{
	size_t i, j;

	for (i = 0; i < s->n_layer; i++) {
		struct qwen_layer_state *l = &s->layer[i];

		if (s->n_mapping > 0)
			drop_blocks(s, l, 0);
		for (j = 0; j < l->n_block; j++)
			memset(l->block[j], 0, l->kv_block_bytes);
	}
	if (s->recurrent != NULL)
		memset(s->recurrent, 0, s->recurrent_bytes);
	qwen_session_drop_kept(s);
	s->n_tokens = 0;
	s->have_logits = 0;
}

/* K is [head][dimension][position], V [head][position][dimension]. */
void
qwen_session_clear_lanes(const struct qwen_hparams *h, void *p, size_t at,
    size_t n, size_t used)
{
	size_t d = h->n_embd_head, half = h->n_head_kv * d * QWEN_KV_BLOCK;
	size_t i, lane, first = at / sizeof(uint16_t);
	uint16_t *v = p;

	for (i = first; i < first + n / sizeof *v; i++) {
		lane = i < half ? i % QWEN_KV_BLOCK :
		    (i - half) / d % QWEN_KV_BLOCK;
		if (lane >= used)
			v[i - first] = 0;
	}
}

void
qwen_session_cut_cache(struct qwen_session *s, size_t n)
{
	size_t i, used = n % QWEN_KV_BLOCK;
	size_t blocks = (n + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;

	for (i = 0; i < s->n_layer; i++) {
		struct qwen_layer_state *l = &s->layer[i];

		if (l->kv_block_bytes == 0)
			continue;
		drop_blocks(s, l, blocks);
		if (used > 0 && l->n_block == blocks)
			qwen_session_clear_lanes(&s->model->hp,
			    l->block[blocks - 1], 0, l->kv_block_bytes, used);
	}
}

struct copy {
	char		*dst;
	const char	*src;
	size_t		 n;
};

enum { COPY_BYTES = 1 << 20 };	/* by one thread at a time */

static void
copy_part(void *arg, size_t item, int thread)
{
	const struct copy *c = arg;
	size_t at = item * COPY_BYTES;

	(void)thread;
	memcpy(c->dst + at, c->src + at,
	    c->n - at < COPY_BYTES ? c->n - at : COPY_BYTES);
}

void
qwen_session_copy_recurrent(const struct qwen_session *s, void *dst,
    const void *src)
{
	struct copy c = { dst, src, s->recurrent_bytes };

	if (c.n > COPY_BYTES)
		qwen_pool_run(s->model->pool, copy_part, &c,
		    (c.n + COPY_BYTES - 1) / COPY_BYTES);
	else if (c.n > 0)
		memcpy(dst, src, c.n);
}
