/* SPDX-License-Identifier: ISC */
/*
 * seed.h - a seed for each check, from $SEED and the check's name.
 *
 * A test that runs once per instruction set or per model draws its numbers
 * from a seed of its own in each round.  So the numbers of one round do not
 * depend on how many rounds came before it, which differs between processors.
 */
#ifndef SEED_H
#define SEED_H

#include <stdint.h>
#include <stdlib.h>

/*
 * Return the seed: never 0, which some generators cannot use.  Without $SEED it
 * is made from 1.
 */
static inline uint64_t
seed_of(const char *check)
{
	const char *s = getenv("SEED");
	uint64_t h = 0xcbf29ce484222325u ^
	    (s != NULL ? strtoull(s, NULL, 10) : 1);

	while (*check != '\0')
		h = (h ^ (unsigned char)*check++) * 0x100000001b3u;
	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
	return (h ^ h >> 29) | 1;
}

#endif
