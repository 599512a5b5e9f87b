/* SPDX-License-Identifier: ISC */
/*
 * random.h - pseudo-random numbers (xorshift64), the same in every run.  A test
 * that runs once per kernel variant calls random_seed() in each round, so that
 * its numbers do not depend on which variants the processor has.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

#include "../seed.h"

static uint64_t random_state = 88172645463325252ULL;

static inline void __attribute__((unused))
random_seed(const char *check)
{
	random_state = seed_of(check);
}

static inline uint32_t
random_u32(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 16);
}

/* Return a number from -1 to 1. */
static inline float
random_float(void)
{
	return (float)random_u32() * 0x1p-31f - 1.0f;
}

#endif
