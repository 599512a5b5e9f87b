/* SPDX-License-Identifier: ISC */
/* kv.c - a key or value in a block, which is laid out as quant/kv.h says. */
#include <string.h>

#include "base/half.h"
#include "engine/plain/plain.h"

static enum qwen_kv
type_of(const struct qwen_plain_place *p)
{
	return p->is_v ? p->s->v : p->s->k;
}

/* Returns the bytes of the head in the block. */
static uint8_t *
head_of(const struct qwen_plain_place *p)
{
	return p->block + (p->is_v ? qwen_kv_v_at(p->s, p->head) :
	    qwen_kv_k_at(p->s, p->head));
}

/* ---- f16 and f32 */

/* Returns where number i is. */
static uint8_t *
float_at(const struct qwen_plain_place *p, size_t i)
{
	return head_of(p) + (p->is_v ? p->at * p->s->d + i :
	    i * QWEN_KV_BLOCK + p->at) * qwen_kv_width(type_of(p));
}

static void
put_float(uint8_t *to, enum qwen_kv kv, float x)
{
	uint16_t half = qwen_f32_f16(x);

	if (kv == QWEN_KV_F32)
		memcpy(to, &x, sizeof x);
	else
		memcpy(to, &half, sizeof half);
}

static float
get_float(const uint8_t *from, enum qwen_kv kv)
{
	uint16_t half;
	float x;

	if (kv == QWEN_KV_F32) {
		memcpy(&x, from, sizeof x);
		return x;
	}
	memcpy(&half, from, sizeof half);
	return qwen_f16_f32(half);
}

/* ---- integers */

/* Returns the scale of 32 numbers in f16; NaN or infinity if there is none. */
static uint16_t
scale_of(const float *x, enum qwen_kv kv)
{
	float most = x[0];
	int i;

	for (i = 0; i < QWEN_KV_GROUP; i++) {
		if (!isfinite(x[i]))
			return qwen_f32_f16(NAN);
		if (fabsf(x[i]) > fabsf(most))
			most = x[i];
	}
	return qwen_f32_f16(kv == QWEN_KV_Q8_0 ? fabsf(most) / 127.0f :
	    most / -8.0f);
}

static int
put_integers(const struct qwen_plain_place *p, float *x)
{
	enum qwen_kv kv = type_of(p);
	float least = kv == QWEN_KV_Q8_0 ? -127.0f : -8.0f, f = 0.0f;
	float most = kv == QWEN_KV_Q8_0 ? 127.0f : 7.0f;
	uint16_t scale[QWEN_HEAD_MAX / QWEN_KV_GROUP];
	int8_t q[QWEN_HEAD_MAX];
	size_t i;

	qwen_plain_hadamard(x, p->s->d);
	for (i = 0; i < p->s->d && isfinite(f); i++) {
		if (i % QWEN_KV_GROUP == 0)
			scale[i / QWEN_KV_GROUP] = scale_of(x + i, kv);
		f = qwen_f16_f32(scale[i / QWEN_KV_GROUP]);
		q[i] = (int8_t)(f == 0.0f || !isfinite(f) ? 0.0f :
		    fmaxf(least, fminf(most, rintf(x[i] * (1.0f / f)))));
	}
	if (!isfinite(f)) {
		memset(q, 0, sizeof q);
		memset(scale, 0, sizeof scale);
	}
	qwen_kv_put(p->s, (uint16_t *)(void *)p->block, p->head, p->is_v, p->at,
	    q, scale);
	return isfinite(f) != 0;
}

/* Returns integer i; d / 32 scales of 16 positions come before all of them. */
static int
integer_at(const struct qwen_plain_place *p, size_t i)
{
	int two = type_of(p) == QWEN_KV_Q4_0;	/* in a byte */
	const uint8_t *tile = head_of(p) + p->s->d + i / QWEN_KV_GROUP *
	    QWEN_KV_TILE(type_of(p));
	size_t half = two ? 16 : 32, j = i % QWEN_KV_GROUP, k = j % half;
	uint8_t byte = p->is_v ?
	    tile[p->at / 2 * 2 * half + 2 * k + p->at % 2] :
	    tile[k / 2 * 32 + 2 * p->at + k % 2];

	return two ? (byte >> j / half * 4 & 15) - 8 : (int8_t)byte;
}

/* ---- both */

int
qwen_plain_put(const struct qwen_plain_place *p, float *x)
{
	size_t i;

	if (qwen_kv_width(type_of(p)) == 0)
		return put_integers(p, x);
	for (i = 0; i < p->s->d; i++)
		put_float(float_at(p, i), type_of(p), x[i]);
	return 1;
}

void
qwen_plain_get(const struct qwen_plain_place *p, struct qwen_plain_vector *v)
{
	size_t i, g;

	for (i = 0; i < p->s->d; i++) {
		if (qwen_kv_width(type_of(p)) > 0) {
			v->x[i] = get_float(float_at(p, i), type_of(p));
			continue;
		}
		g = i / QWEN_KV_GROUP;
		v->x[i] = (float)integer_at(p, i);
		v->scale[g] = get_float(head_of(p) + 2 * (g * QWEN_KV_BLOCK +
		    p->at), QWEN_KV_F16);
	}
}
