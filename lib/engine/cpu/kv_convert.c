/* SPDX-License-Identifier: ISC */
/*
 * kv_convert.c - keys and values of one kind as those of a coarser one, in
 * blocks as quant/kv.h lays them out, by plain C, and what gets lost by it.
 */
#include <string.h>

#include "base/err.h"
#include "engine/cpu/kernel/kernel.h"
#include "engine/cpu/kv_convert.h"
#include "engine/net/net.h"

/* Where a head's keys, or values, are in a block. */
static const uint8_t *
head_of(const struct qwen_kv_shape *s, const void *block, size_t head, int is_v)
{
	return (const uint8_t *)block + (is_v ? qwen_kv_v_at(s, head) :
	    qwen_kv_k_at(s, head));
}

/* Number i of position at, of keys or values in f16 or f32. */
static float
float_at(const uint8_t *p, enum qwen_kv kv, size_t d, int is_v, size_t at,
    size_t i)
{
	size_t n = is_v ? at * d + i : i * QWEN_KV_BLOCK + at;
	uint16_t half;
	float x;

	if (kv == QWEN_KV_F32) {
		memcpy(&x, p + n * sizeof x, sizeof x);
		return x;
	}
	memcpy(&half, p + n * sizeof half, sizeof half);
	return qwen_f16_f32(half);
}

/* The same of whole numbers, still rotated. */
static float
whole_at(const uint8_t *p, enum qwen_kv kv, size_t d, int is_v, size_t at,
    size_t i)
{
	size_t tile = i / QWEN_KV_GROUP, j = i % QWEN_KV_GROUP, half = 0, n;
	uint16_t scale;
	int q;

	memcpy(&scale, p + 2 * (tile * QWEN_KV_BLOCK + at), sizeof scale);
	p += d + tile * QWEN_KV_TILE(kv);
	if (kv == QWEN_KV_Q4_0) {
		half = j / 16;
		j %= 16;
	}
	if (is_v)
		n = at / 2 * (kv == QWEN_KV_Q8_0 ? 64 : 32) + 2 * j + at % 2;
	else
		n = j / 2 * 32 + 2 * at + j % 2;
	q = kv == QWEN_KV_Q8_0 ? (int8_t)p[n] : (p[n] >> 4 * half & 15) - 8;
	return (float)q * qwen_f16_f32(scale);
}

/* A head's key or value of a position, as it was before any rotation. */
static void
get(const struct qwen_kv_convert *c, const struct qwen_kv_shape *s,
    const void *block, size_t head, int is_v, size_t at, float *x)
{
	enum qwen_kv kv = is_v ? s->v : s->k;
	const uint8_t *p = head_of(s, block, head, is_v);
	size_t i;

	for (i = 0; i < s->d; i++)
		x[i] = qwen_kv_width(kv) > 0 ? float_at(p, kv, s->d, is_v, at,
		    i) : whole_at(p, kv, s->d, is_v, at, i);
	if (qwen_kv_width(kv) == 0)
		c->vec->hadamard(x, s->d);
}

/* f32 to f16. */
static int
put_half(struct qwen_kv_convert *c, const float *x, uint16_t *dst, size_t head,
    int is_v, size_t at, struct qwen_err *err)
{
	uint8_t *p = (uint8_t *)dst + (is_v ? qwen_kv_v_at(&c->to, head) :
	    qwen_kv_k_at(&c->to, head));
	size_t d = c->to.d, i;
	uint16_t half[QWEN_HEAD_MAX];

	c->vec->to_f16(half, x, d);
	for (i = 0; i < d; i++) {
		double y = (double)qwen_f16_f32(half[i]);

		if ((half[i] & 0x7c00) == 0x7c00)
			return qwen_fail(err, QWEN_ENUMERIC, "a %s is too "
			    "large for f16", is_v ? "value" : "key");
		c->loss[is_v].all += (double)x[i] * x[i];
		c->loss[is_v].lost += (x[i] - y) * (x[i] - y);
		memcpy(p + 2 * (is_v ? at * d + i : i * QWEN_KV_BLOCK + at),
		    &half[i], 2);
	}
	return 0;
}

/* One position of a head; what it was and has become is counted. */
static int
convert_one(struct qwen_kv_convert *c, const void *src, uint16_t *dst,
    size_t head, int is_v, size_t at, struct qwen_err *err)
{
	const struct qwen_kv_shape *to = &c->to;
	uint16_t scale[QWEN_HEAD_MAX / QWEN_KV_GROUP];
	float x[QWEN_HEAD_MAX], y[QWEN_HEAD_MAX];
	struct qwen_kv_loss *loss = &c->loss[is_v];
	int8_t q[QWEN_HEAD_MAX];
	size_t i;

	get(c, &c->from, src, head, is_v, at, x);
	if ((is_v ? to->v : to->k) == QWEN_KV_F16)
		return put_half(c, x, dst, head, is_v, at, err);
	memcpy(y, x, to->d * sizeof *y);
	c->vec->hadamard(y, to->d);
	if (!c->vec->round_kv(q, scale, y, to->d, is_v ? to->v :
	    to->k))
		return qwen_fail(err, QWEN_ENUMERIC, "a %s is too large for "
		    "%s", is_v ? "value" : "key", qwen_kv_name(is_v ? to->v :
		    to->k));
	if (is_v)
		qwen_kv_put_v(to, dst, head, at, q, scale);
	else
		qwen_kv_put_k(to, dst, head, at, q, scale);
	get(c, to, dst, head, is_v, at, y);
	for (i = 0; i < to->d; i++) {
		loss->all += (double)x[i] * x[i];
		loss->lost += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
	}
	return 0;
}

void
qwen_kv_convert_init(struct qwen_kv_convert *c)
{
	struct qwen_kernels k;

	qwen_kernels_init(&k, qwen_cpu_detect(), 1);
	c->vec = k.vec->run.vec;
}

static int
convert_head(struct qwen_kv_convert *c, void *dst, const void *src,
    size_t head, int is_v, struct qwen_err *err)
{
	enum qwen_kv to = is_v ? c->to.v : c->to.k;
	size_t at;

	if (to == (is_v ? c->from.v : c->from.k)) {
		memcpy((uint8_t *)dst + (is_v ? qwen_kv_v_at(&c->to, head) :
		    qwen_kv_k_at(&c->to, head)), head_of(&c->from, src, head,
		    is_v), qwen_kv_head_bytes(to, c->to.d));
		return 0;
	}
	for (at = 0; at < QWEN_KV_BLOCK; at++) {
		if (convert_one(c, src, dst, head, is_v, at, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_kv_convert(struct qwen_kv_convert *c, void *dst, const void *src,
    struct qwen_err *err)
{
	size_t head;

	if (c->to.d > QWEN_HEAD_MAX || (c->to.d % QWEN_KV_GROUP != 0 &&
	    (qwen_kv_width(c->to.k) == 0 || qwen_kv_width(c->to.v) == 0)))
		return qwen_fail(err, QWEN_EUNSUP, "head size %zu allows only "
		    "f32 and f16 as KV cache types", c->to.d);
	for (head = 0; head < c->to.n_head; head++) {
		if (convert_head(c, dst, src, head, 0, err) < 0 ||
		    convert_head(c, dst, src, head, 1, err) < 0)
			return -1;
	}
	return 0;
}
