/* SPDX-License-Identifier: ISC */
/*
 * kv_append.c - keys and values of a row on their way into a block of the cache:
 * as f32, rounded to f16, or, after a rotation of their head, to integers.
 */
#include <string.h>

#include "engine/cpu/attention.h"

/* A key or value as integers. */
struct rounded {
	int8_t		q[QWEN_HEAD_MAX];
	uint16_t	scale[QWEN_HEAD_MAX / QWEN_KV_GROUP];
};

/* Returns 0, with all integers 0, if a number is NaN or infinite. */
static int
round_head(const struct qwen_batch *b, struct rounded *r, float *x,
    enum qwen_kv kv)
{
	b->vec->hadamard(x, b->hp->n_embd_head);
	return b->vec->round_kv(r->q, r->scale, x, b->hp->n_embd_head, kv);
}

/* Writes a key to column `at' of its block's [d][16], a value to a row. */
static int
store_k(const struct qwen_batch *b, const struct qwen_kv_shape *s,
    uint16_t *block, size_t head, size_t at, float *k)
{
	uint16_t *kt, row[QWEN_HEAD_MAX];
	struct rounded r;
	size_t i;
	int ok;

	if (qwen_kv_width(s->k) == 0) {
		ok = round_head(b, &r, k, s->k);
		qwen_kv_put(s, block, head, 0, at, r.q, r.scale);
		return ok;
	}
	if (s->k == QWEN_KV_F32) {
		float *kf = (float *)(void *)((uint8_t *)block +
		    qwen_kv_k_at(s, head)) + at;

		for (i = 0; i < s->d; i++)
			kf[i * QWEN_KV_BLOCK] = k[i];
		return 1;
	}
	kt = block + qwen_kv_k_at(s, head) / sizeof *kt + at;
	b->vec->to_f16(row, k, s->d);
	for (i = 0; i < s->d; i++)
		kt[i * QWEN_KV_BLOCK] = row[i];
	return 1;
}

static int
store_v(const struct qwen_batch *b, const struct qwen_kv_shape *s,
    uint16_t *block, size_t head, size_t at, float *v)
{
	struct rounded r;
	int ok;

	if (qwen_kv_width(s->v) == 0) {
		ok = round_head(b, &r, v, s->v);
		qwen_kv_put(s, block, head, 1, at, r.q, r.scale);
		return ok;
	}
	if (s->v == QWEN_KV_F32) {
		memcpy((uint8_t *)block + qwen_kv_v_at(s, head) +
		    at * s->d * sizeof *v, v, s->d * sizeof *v);
		return 1;
	}
	b->vec->to_f16(block + qwen_kv_v_at(s, head) / sizeof *block +
	    at * s->d, v, s->d);
	return 1;
}

/* Returns 1 if the f16 or f32 at p is finite. */
static int
is_finite(const uint8_t *p, size_t width)
{
	uint32_t x = 0;

	memcpy(&x, p, width);
	return width == 2 ? (x & 0x7c00) != 0x7c00 :
	    (x & 0x7f800000) != 0x7f800000;
}

/*
 * Clears the values of a draft in a head that has a NaN or infinity, and notes the
 * row: the tokens before it multiply the values by zero, which would give NaN.
 */
static void
check_draft(const struct qwen_batch *b, const struct qwen_kv_shape *s,
    uint16_t *block, size_t t, size_t at)
{
	size_t d = s->d, head, i;
	const size_t width = qwen_kv_width(s->v);
	uint8_t *v;

	for (head = 0; width > 0 && head < s->n_head; head++) {
		v = (uint8_t *)block + qwen_kv_v_at(s, head) + at * d * width;
		for (i = 0; i < d && is_finite(v + i * width, width);)
			i++;
		if (i == d)
			continue;
		memset(v, 0, d * width);
		qwen_note_bad(b->pass, t, 0);
	}
}

int
qwen_kv_append(const struct qwen_batch *b, const struct qwen_attention_pass *p,
    size_t t)
{
	const struct qwen_hparams *h = b->hp;
	const struct qwen_share *share = qwen_share_of(b, t);
	size_t i, d = h->n_embd_head, slot = b->pass->row[t].slot;
	struct qwen_kv_shape shape = qwen_kv_shape_of(h);
	uint16_t *block = share->mem->layer[p->l->index].block[share->skip +
	    slot / QWEN_KV_BLOCK];
	float *x = b->s->mix.in + t * b->s->mix.in_width;
	int ok = 1;

	slot %= QWEN_KV_BLOCK;
	for (i = 0; i < h->n_head_kv; i++) {
		ok &= store_k(b, &shape, block, i, slot, x + p->k + i * d);
		ok &= store_v(b, &shape, block, i, slot, x + p->v + i * d);
	}
	if (t - share->first >= share->n_sure)
		check_draft(b, &shape, block, t, slot);
	return ok;
}
