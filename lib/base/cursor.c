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
