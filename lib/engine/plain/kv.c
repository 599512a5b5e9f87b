/* SPDX-License-Identifier: ISC */
/* kv.c - keys and values of one position in a block: quant/kv.h has the layout. */
#include <string.h>

#include "base/half.h"
#include "engine/plain/plain.h"

/* ---- f16 and f32: numbers `step' apart */

static void
put_floats(uint8_t *p, enum qwen_kv kv, size_t step, const float *x, size_t d)
{
	uint16_t half;
	size_t i;

	for (i = 0; i < d; i++) {
		half = qwen_f32_f16(x[i]);
		if (kv == QWEN_KV_F32)
			memcpy(p + i * step * sizeof *x, x + i, sizeof *x);
		else
			memcpy(p + i * step * sizeof half, &half, sizeof half);
	}
}

static void
get_floats(const uint8_t *p, enum qwen_kv kv, size_t step, float *x, size_t d)
{
	uint16_t half;
	size_t i;

	for (i = 0; i < d; i++) {
		if (kv == QWEN_KV_F32) {
			memcpy(x + i, p + i * step * sizeof *x, sizeof *x);
			continue;
		}
		memcpy(&half, p + i * step * sizeof half, sizeof half);
		x[i] = qwen_f16_f32(half);
	}
}

/* ---- integers */

/* Returns the first number of the largest magnitude; NaN if one is not finite. */
static float
largest(const float *x)
{
	float most = x[0];
	int i;

	for (i = 0; i < QWEN_KV_GROUP; i++) {
		if (!isfinite(x[i]))
			return NAN;
		if (fabsf(x[i]) > fabsf(most))
			most = x[i];
	}
	return most;
}

/* A key or value as integers, and their scales in f16. */
struct integers {
	int8_t		q[QWEN_HEAD_MAX];
	uint16_t	scale[QWEN_HEAD_MAX / QWEN_KV_GROUP];
};

/* Rotates x and rounds it; returns 0, with all of r 0, if it cannot. */
static int
round_head(struct integers *r, float *x, size_t d, enum qwen_kv kv)
{
	float least = kv == QWEN_KV_Q8_0 ? -127.0f : -8.0f;
	float most = kv == QWEN_KV_Q8_0 ? 127.0f : 7.0f, top, scale, q;
	size_t i;

	qwen_plain_hadamard(x, d);
	for (i = 0; i < d; i++) {
		if (i % QWEN_KV_GROUP == 0) {
			top = largest(x + i);
			r->scale[i / QWEN_KV_GROUP] = qwen_f32_f16(
			    kv == QWEN_KV_Q8_0 ? fabsf(top) / 127.0f :
			    top / -8.0f);
		}
		scale = qwen_f16_f32(r->scale[i / QWEN_KV_GROUP]);
		if (!isfinite(scale)) {
			memset(r, 0, sizeof *r);
			return 0;
		}
		q = scale != 0.0f ? rintf(x[i] * (1.0f / scale)) : 0.0f;
		r->q[i] = (int8_t)(q < least ? least : q > most ? most : q);
	}
	return 1;
}

/*
 * Reads integers: their scales are at p, and number i is in byte at[i % 32] of its
 * tile, in q4_0 in the upper four bits if i % 32 is 16 or more.
 */
static void
get_integers(const uint8_t *p, enum qwen_kv kv, size_t at,
    const size_t *byte, struct qwen_plain_vector *v, size_t d)
{
	const uint8_t *tile = p + d;	/* d / 32 scales of 16 positions */
	uint16_t half;
	size_t i, j;

	for (i = 0; i < d; i++) {
		j = i % QWEN_KV_GROUP;
		if (j == 0) {
			memcpy(&half, p + 2 * (i / 2 + at), sizeof half);
			v->scale[i / QWEN_KV_GROUP] = qwen_f16_f32(half);
		}
		v->x[i] = kv == QWEN_KV_Q8_0 ? (float)(int8_t)tile[byte[j]] :
		    (float)((tile[byte[j]] >> (j < 16 ? 0 : 4) & 15) - 8);
		if (j == QWEN_KV_GROUP - 1)
			tile += QWEN_KV_TILE(kv);
	}
}

/* ---- keys: positions are next to each other */

int
qwen_plain_put_k(const struct qwen_kv_shape *s, uint8_t *block, size_t head,
    size_t at, float *x)
{
	struct integers r;
	int ok;

	if (qwen_kv_width(s->k) > 0) {
		put_floats(block + qwen_kv_k_at(s, head) +
		    at * qwen_kv_width(s->k), s->k, QWEN_KV_BLOCK, x, s->d);
		return 1;
	}
	ok = round_head(&r, x, s->d, s->k);
	qwen_kv_put_k(s, (uint16_t *)(void *)block, head, at, r.q, r.scale);
	return ok;
}

void
qwen_plain_get_k(const struct qwen_kv_shape *s, const uint8_t *block,
    size_t head, size_t at, struct qwen_plain_vector *k)
{
	const uint8_t *p = block + qwen_kv_k_at(s, head);
	size_t byte[QWEN_KV_GROUP], i, half = s->k == QWEN_KV_Q4_0 ? 16 : 32;

	if (qwen_kv_width(s->k) > 0) {
		get_floats(p + at * qwen_kv_width(s->k), s->k, QWEN_KV_BLOCK,
		    k->x, s->d);
		return;
	}
	for (i = 0; i < QWEN_KV_GROUP; i++)
		byte[i] = i % half / 2 * 32 + 2 * at + i % 2;
	get_integers(p, s->k, at, byte, k, s->d);
}

/* ---- values: dimensions are next to each other */

int
qwen_plain_put_v(const struct qwen_kv_shape *s, uint8_t *block, size_t head,
    size_t at, float *x)
{
	struct integers r;
	int ok;

	if (qwen_kv_width(s->v) > 0) {
		put_floats(block + qwen_kv_v_at(s, head) +
		    at * s->d * qwen_kv_width(s->v), s->v, 1, x, s->d);
		return 1;
	}
	ok = round_head(&r, x, s->d, s->v);
	qwen_kv_put_v(s, (uint16_t *)(void *)block, head, at, r.q, r.scale);
	return ok;
}

void
qwen_plain_get_v(const struct qwen_kv_shape *s, const uint8_t *block,
    size_t head, size_t at, struct qwen_plain_vector *v)
{
	const uint8_t *p = block + qwen_kv_v_at(s, head);
	size_t byte[QWEN_KV_GROUP], i, half = s->v == QWEN_KV_Q4_0 ? 16 : 32;

	if (qwen_kv_width(s->v) > 0) {
		get_floats(p + at * s->d * qwen_kv_width(s->v), s->v, 1, v->x,
		    s->d);
		return;
	}
	for (i = 0; i < QWEN_KV_GROUP; i++)
		byte[i] = at / 2 * 2 * half + 2 * (i % half) + at % 2;
	get_integers(p, s->v, at, byte, v, s->d);
}
