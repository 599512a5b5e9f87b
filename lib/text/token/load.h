/* SPDX-License-Identifier: ISC */
/* load.h - eight bytes of text as a number, the first the lowest. */
#ifndef QWEN_TOKEN_LOAD_H
#define QWEN_TOKEN_LOAD_H

#include <stdint.h>
#include <string.h>

/* As qwen_le64; written so that every compiler makes one load of it. */
static inline uint64_t
qwen_load64(const void *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	x = __builtin_bswap64(x);
#endif
	return x;
}

#endif
