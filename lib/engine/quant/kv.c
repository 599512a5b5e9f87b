/* SPDX-License-Identifier: ISC */
/* kv.c - blocks of the KV cache, as quant/kv.h lays them out. */
#include <assert.h>
#include <string.h>

#include "engine/quant/kv.h"

/* ------------------------------------------------------------ whole numbers */

/* Two numbers of 4 bits. */
static uint8_t
nibbles(int low, int high)
{
	return (uint8_t)((low + 8) | (high + 8) << 4);
}

void
qwen_kv_put(const struct qwen_kv_shape *s, uint16_t *block, size_t head,
    int is_v, size_t at, const int8_t *q, const uint16_t *scale)
{
	uint8_t *p = (uint8_t *)block + qwen_kv_head_at(s, head, is_v);
	const enum qwen_kv kv = is_v ? s->v : s->k;
	const size_t half = QWEN_KV_GROUP / 2;
	size_t i;

	for (i = 0; i < s->d / QWEN_KV_GROUP; i++)
		((uint16_t *)(void *)p)[i * QWEN_KV_BLOCK + at] = scale[i];
	for (i = 0; i < s->d; i++) {
		uint8_t *to = p + qwen_kv_number_at(kv, s->d, is_v, at, i);

		if (kv == QWEN_KV_Q8_0)
			*to = (uint8_t)q[i];
		else if (i % QWEN_KV_GROUP < half)
			*to = nibbles(q[i], q[i + half]);
	}
}

/* ------------------------------------------------------- positions of a block */

static void
clear(const struct qwen_kv_shape *s, uint16_t *block, size_t head, int is_v,
    size_t at)
{
	uint8_t *p = (uint8_t *)block + qwen_kv_head_at(s, head, is_v);
	const enum qwen_kv kv = is_v ? s->v : s->k;
	const size_t width = qwen_kv_width(kv);
	size_t i;

	for (i = 0; i < s->d; i++)
		memset(p + qwen_kv_number_at(kv, s->d, is_v, at, i), 0,
		    width > 0 ? width : 1);
	for (i = 0; width == 0 && i < s->d / QWEN_KV_GROUP; i++)
		((uint16_t *)(void *)p)[i * QWEN_KV_BLOCK + at] = 0;
}

void
qwen_kv_clear(const struct qwen_kv_shape *s, uint16_t *block, size_t from,
    size_t to)
{
	size_t head;

	for (; from < to; from++) {
		for (head = 0; head < s->n_head; head++) {
			clear(s, block, head, 0, from);
			clear(s, block, head, 1, from);
		}
	}
}

/* ------------------------------------------------- bytes of a block, anywhere */

/* Byte at of a head's keys, or values: of a float of so many; 0: of none. */
static size_t
float_width(enum qwen_kv kv, size_t d, size_t at)
{
	return qwen_kv_width(kv) > 0 ? qwen_kv_width(kv) : at < d ?
	    sizeof(uint16_t) : 0;
}

static size_t
lane(enum qwen_kv kv, size_t d, int is_v, size_t at)
{
	const size_t width = qwen_kv_width(kv);

	if (width > 0)
		return is_v ? at / width / d : at / width % QWEN_KV_BLOCK;
	if (at < d)		/* 16 scales for 32 dimensions */
		return at / 2 % QWEN_KV_BLOCK;
	at = (at - d) % QWEN_KV_TILE(kv);
	if (!is_v)
		return at / 2 % QWEN_KV_BLOCK;
	return at / (kv == QWEN_KV_Q8_0 ? 64 : 32) * 2 + at % 2;
}

/* The head that byte *at is in: its kind; *at becomes the byte in it. */
static enum qwen_kv
find_head(const struct qwen_kv_shape *s, size_t *at, int *is_v)
{
	size_t keys = qwen_kv_v_at(s, 0);

	*at %= qwen_kv_block_bytes(s);
	*is_v = *at >= keys;
	if (*is_v)
		*at -= keys;
	*at %= qwen_kv_head_bytes(*is_v ? s->v : s->k, s->d);
	return *is_v ? s->v : s->k;
}

size_t
qwen_kv_lane(const struct qwen_kv_shape *s, size_t at)
{
	int is_v;
	enum qwen_kv kv = find_head(s, &at, &is_v);

	return lane(kv, s->d, is_v, at);
}

void
qwen_kv_clear_lanes(const struct qwen_kv_shape *s, void *p, size_t at,
    size_t n, size_t used)
{
	uint8_t *b = p;
	size_t i;

	for (i = 0; i < n; i++) {
		if (qwen_kv_lane(s, at + i) >= used)
			b[i] = 0;
	}
}

/* Those of one head that are floats follow one another. */
size_t
qwen_kv_finite(const struct qwen_kv_shape *s, const void *p, size_t at,
    size_t n)
{
	const uint8_t *b = p;
	size_t i, in, width;
	enum qwen_kv kv;
	int is_v;

	for (i = 0; i + 1 < n; i += width) {
		in = at + i;
		kv = find_head(s, &in, &is_v);
		width = float_width(kv, s->d, in);
		if (width == 0)
			width = qwen_kv_head_bytes(kv, s->d) - in;
		else if (width == 2 ? (b[i + 1] & 0x7c) == 0x7c :
		    i + 3 < n && (b[i + 3] & 0x7f) == 0x7f &&
		    (b[i + 2] & 0x80) != 0)
			return i;
	}
	return n;
}
