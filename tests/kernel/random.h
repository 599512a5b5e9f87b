/* SPDX-License-Identifier: ISC */
/* random.h - the same pseudo-random numbers in every run (xorshift64). */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

static uint64_t random_state = 88172645463325252ULL;

static inline uint32_t
random_u32(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 16);
}

/* -1 .. 1 */
static inline float
random_float(void)
{
	return (float)random_u32() * 0x1p-31f - 1.0f;
}

#endif
