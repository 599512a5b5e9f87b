/* SPDX-License-Identifier: ISC */
/* cursor.h - bounded little-endian reads with one sticky error. */
#ifndef QWEN_BASE_CURSOR_H
#define QWEN_BASE_CURSOR_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reads from len bytes at p.  The first read that does not fit sets failed and
 * records its position and size.  After that the position stays, and every read
 * returns 0.  So a parser can read a whole record and check failed once, before
 * it uses any of the values.
 */
struct qwen_cursor {
	const unsigned char	*p;
	size_t			 len;
	size_t			 pos;
	int			 failed;
	size_t			 fail_pos;	/* position of the failed
						   read */
	uint64_t		 fail_want;	/* bytes that it needed */
};

void qwen_cursor_init(struct qwen_cursor *c, const void *p, size_t len);

/* Returns the next n bytes, or NULL.  Any n is safe. */
const unsigned char *qwen_cursor_bytes(struct qwen_cursor *c, uint64_t n);

uint32_t qwen_cursor_u32(struct qwen_cursor *c);
uint64_t qwen_cursor_u64(struct qwen_cursor *c);

/* Returns the number of unread bytes. */
static inline size_t
qwen_cursor_left(const struct qwen_cursor *c)
{
	return c->len - c->pos;
}

/* Little-endian loads and stores, on any host, at any address. */
static inline uint16_t
qwen_le16(const unsigned char *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t
qwen_le32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	    (uint32_t)p[3] << 24;
}

static inline uint64_t
qwen_le64(const unsigned char *p)
{
	return (uint64_t)qwen_le32(p) | (uint64_t)qwen_le32(p + 4) << 32;
}

static inline void
qwen_put_le16(unsigned char *p, uint16_t v)
{
	p[0] = (unsigned char)v;
	p[1] = (unsigned char)(v >> 8);
}

static inline void
qwen_put_le32(unsigned char *p, uint32_t v)
{
	qwen_put_le16(p, (uint16_t)v);
	qwen_put_le16(p + 2, (uint16_t)(v >> 16));
}

static inline void
qwen_put_le64(unsigned char *p, uint64_t v)
{
	qwen_put_le32(p, (uint32_t)v);
	qwen_put_le32(p + 4, (uint32_t)(v >> 32));
}

#endif
