/* SPDX-License-Identifier: ISC */
/* cursor.c - bounded little-endian reads with one sticky error. */
#include <string.h>

#include "base/cursor.h"

void
qwen_cursor_init(struct qwen_cursor *c, const void *p, size_t len)
{
	memset(c, 0, sizeof *c);
	c->p = p;
	c->len = len;
}

const unsigned char *
qwen_cursor_bytes(struct qwen_cursor *c, uint64_t n)
{
	const unsigned char *p;

	if (c->failed)
		return NULL;
	if (n > c->len - c->pos) {
		c->failed = 1;
		c->fail_pos = c->pos;
		c->fail_want = n;
		return NULL;
	}
	p = c->p + c->pos;
	c->pos += (size_t)n;
	return p;
}

const unsigned char *
qwen_cursor_array(struct qwen_cursor *c, uint64_t n, size_t size)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(n, (uint64_t)size, &bytes))
		bytes = UINT64_MAX;	/* no buffer is that long */
	return qwen_cursor_bytes(c, bytes);
}

uint8_t
qwen_cursor_u8(struct qwen_cursor *c)
{
	const unsigned char *p = qwen_cursor_bytes(c, 1);

	return p != NULL ? *p : 0;
}

uint16_t
qwen_cursor_u16(struct qwen_cursor *c)
{
	const unsigned char *p = qwen_cursor_bytes(c, 2);

	return p != NULL ? qwen_le16(p) : 0;
}

uint32_t
qwen_cursor_u32(struct qwen_cursor *c)
{
	const unsigned char *p = qwen_cursor_bytes(c, 4);

	return p != NULL ? qwen_le32(p) : 0;
}

uint64_t
qwen_cursor_u64(struct qwen_cursor *c)
{
	const unsigned char *p = qwen_cursor_bytes(c, 8);

	return p != NULL ? qwen_le64(p) : 0;
}
