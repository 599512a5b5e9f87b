/* SPDX-License-Identifier: ISC */
/* load.h - loads eight bytes as a little-endian number. */
#ifndef QWEN_TOKEN_LOAD_H
#define QWEN_TOKEN_LOAD_H

#include <stdint.h>
#include <string.h>

/* The same as qwen_le64, but every compiler makes a single load of it. */
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
