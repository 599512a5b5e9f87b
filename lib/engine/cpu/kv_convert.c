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

/* Returns number i of position at; an integer is still rotated. */
static float
number_at(const uint8_t *p, enum qwen_kv kv, size_t d, int is_v, size_t at,
    size_t i)
{
	const uint8_t *from = p + qwen_kv_number_at(kv, d, is_v, at, i);
	uint16_t half;
	float x;
	int q;

	if (kv == QWEN_KV_F32) {
		memcpy(&x, from, sizeof x);
		return x;
	}
	if (kv == QWEN_KV_F16) {
		memcpy(&half, from, sizeof half);
		return qwen_f16_f32(half);
	}
	memcpy(&half, p + 2 * (i / QWEN_KV_GROUP * QWEN_KV_BLOCK + at),
	    sizeof half);
	q = kv == QWEN_KV_Q8_0 ? (int8_t)*from :
	    (*from >> (i % QWEN_KV_GROUP < 16 ? 0 : 4) & 15) - 8;
	return (float)q * qwen_f16_f32(half);
}

/* A head's key or value of a position, as it was before any rotation. */
static void
get(const struct qwen_kv_convert *c, const struct qwen_kv_shape *s,
    const void *block, size_t head, int is_v, size_t at, float *x)
{
	enum qwen_kv kv = is_v ? s->v : s->k;
	const uint8_t *p = (const uint8_t *)block +
	    qwen_kv_head_at(s, head, is_v);
	size_t i;

	for (i = 0; i < s->d; i++)
		x[i] = number_at(p, kv, s->d, is_v, at, i);
	if (qwen_kv_width(kv) == 0)
		c->vec->hadamard(x, s->d);
}

/* f32 to f16. */
static int
put_half(struct qwen_kv_convert *c, const float *x, uint16_t *dst, size_t head,
    int is_v, size_t at, struct qwen_err *err)
{
	uint8_t *p = (uint8_t *)dst + qwen_kv_head_at(&c->to, head, is_v);
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
		memcpy(p + qwen_kv_number_at(QWEN_KV_F16, d, is_v, at, i),
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
	qwen_kv_put(to, dst, head, is_v, at, q, scale);
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
		memcpy((uint8_t *)dst + qwen_kv_head_at(&c->to, head, is_v),
		    (const uint8_t *)src + qwen_kv_head_at(&c->from, head, is_v),
		    qwen_kv_head_bytes(to, c->to.d));
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
