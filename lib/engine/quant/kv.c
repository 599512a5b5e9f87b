/* SPDX-License-Identifier: ISC */
/* kv.c - blocks of the KV cache, as quant/kv.h lays them out. */
#include <assert.h>
#include <string.h>

#include "engine/quant/kv.h"

/* ------------------------------------------------------------ whole numbers */

/* One position's scales in [d/32][16]; the tiles begin after all of them. */
static uint8_t *
put_scales(uint8_t *head, size_t d, size_t at, const uint16_t *scale)
{
	uint16_t *p = (uint16_t *)(void *)head;
	size_t i;

	for (i = 0; i < d / QWEN_KV_GROUP; i++)
		p[i * QWEN_KV_BLOCK + at] = scale[i];
	return head + d / QWEN_KV_GROUP * QWEN_KV_BLOCK * sizeof *p;
}

/* Two numbers of 4 bits. */
static uint8_t
nibbles(int low, int high)
{
	return (uint8_t)((low + 8) | (high + 8) << 4);
}

/* Pairs of dimensions, positions in the lanes. */
void
qwen_kv_put_k(const struct qwen_kv_shape *s, uint16_t *block, size_t head,
    size_t at, const int8_t *q, const uint16_t *scale)
{
	uint8_t *p = put_scales((uint8_t *)block + qwen_kv_k_at(s, head), s->d,
	    at, scale) + 2 * at;
	size_t t, i;

	for (t = 0; t < s->d; t += QWEN_KV_GROUP, q += QWEN_KV_GROUP) {
		for (i = 0; s->k == QWEN_KV_Q8_0 && i < 32; i++)
			p[i / 2 * 32 + i % 2] = (uint8_t)q[i];
		for (i = 0; s->k == QWEN_KV_Q4_0 && i < 16; i++)
			p[i / 2 * 32 + i % 2] = nibbles(q[i], q[16 + i]);
		p += QWEN_KV_TILE(s->k);
	}
}

/* Pairs of positions, dimensions in the lanes. */
void
qwen_kv_put_v(const struct qwen_kv_shape *s, uint16_t *block, size_t head,
    size_t at, const int8_t *q, const uint16_t *scale)
{
	uint8_t *p = put_scales((uint8_t *)block + qwen_kv_v_at(s, head), s->d,
	    at, scale) + at % 2;
	size_t t, i;

	p += at / 2 * (s->v == QWEN_KV_Q8_0 ? 64 : 32);
	for (t = 0; t < s->d; t += QWEN_KV_GROUP, q += QWEN_KV_GROUP) {
		for (i = 0; s->v == QWEN_KV_Q8_0 && i < 32; i++)
			p[2 * i] = (uint8_t)q[i];
		for (i = 0; s->v == QWEN_KV_Q4_0 && i < 16; i++)
			p[2 * i] = nibbles(q[i], q[16 + i]);
		p += QWEN_KV_TILE(s->v);
	}
}

/* ------------------------------------------------------- positions of a block */

static void
clear_scales(uint8_t *p, size_t n, size_t from, size_t to)
{
	for (; n-- > 0; p += QWEN_KV_BLOCK * 2)
		memset(p + 2 * from, 0, 2 * (to - from));
}

static void
clear_k(enum qwen_kv kv, size_t d, uint8_t *p, size_t from, size_t to)
{
	size_t i, rows = d, width = qwen_kv_width(kv);

	if (width == 0) {
		clear_scales(p, d / 32, from, to);
		p += d;
		rows = d / 32 * QWEN_KV_TILE(kv) / 32;
		width = 2;	/* bytes a position */
	}
	for (i = 0; i < rows; i++, p += QWEN_KV_BLOCK * width)
		memset(p + width * from, 0, width * (to - from));
}

static void
clear_v(enum qwen_kv kv, size_t d, uint8_t *p, size_t from, size_t to)
{
	size_t at, i, tile, pair = kv == QWEN_KV_Q8_0 ? 64 : 32;
	size_t width = qwen_kv_width(kv);

	if (width > 0) {
		memset(p + width * from * d, 0, width * (to - from) * d);
		return;
	}
	clear_scales(p, d / 32, from, to);
	p += d;
	for (tile = 0; tile < d / 32; tile++, p += QWEN_KV_TILE(kv)) {
		for (at = from; at < to; at++) {
			for (i = 0; i < pair; i += 2)
				p[at / 2 * pair + i + at % 2] = 0;
		}
	}
}

void
qwen_kv_clear(const struct qwen_kv_shape *s, uint16_t *block, size_t from,
    size_t to)
{
	uint8_t *p = (uint8_t *)block;
	size_t i;

	for (i = 0; i < s->n_head; i++) {
		clear_k(s->k, s->d, p + qwen_kv_k_at(s, i), from, to);
		clear_v(s->v, s->d, p + qwen_kv_v_at(s, i), from, to);
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
