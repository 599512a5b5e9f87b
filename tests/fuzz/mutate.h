/* SPDX-License-Identifier: ISC */
/* mutate.h - changes valid inputs so that they remain almost valid. */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

enum mutate_kind {
	MUTATE_BYTES,	/* changes, drops, doubles or swaps a few bytes */
	MUTATE_GGUF,	/* changes a count, length, type, offset, value or
			   name */
	MUTATE_CBOR,	/* changes a head, number, key or item; mostly repairs
			   the checksums of states and store files */
	MUTATE_TEXT,	/* repeats and nests numbers and words of JSON,
			   templates and grammars */
};

/* Return the next random number of *seed. */
uint32_t mutate_random(uint64_t *seed);

/* Change the n bytes at p, which has room for max; return the new length. */
size_t mutate(enum mutate_kind kind, unsigned char *p, size_t n, size_t max,
    uint64_t *seed);

/*
 * Repair the checksums of all intact records of a state, whose header has
 * head_n bytes.
 */
void mutate_repair(unsigned char *p, size_t n, size_t head_n);

/* ------------------------------------------------------------ elements */

/*
 * mutate_below returns a random number below n; mutate_number an edge case to
 * replace v.
 */
size_t mutate_below(uint64_t *seed, size_t n);
uint64_t mutate_number(uint64_t v, uint64_t *seed);

/*
 * Insert len bytes at offset `to', unless there is no room; return the new
 * length.
 */
size_t mutate_insert(unsigned char *p, size_t n, size_t max, size_t to,
    const void *from, size_t len);
size_t mutate_drop(unsigned char *p, size_t n, size_t at, size_t len);

/* Store an integer, little-endian. */
void mutate_store(unsigned char *p, unsigned width, uint64_t v);

size_t mutate_bytes(unsigned char *p, size_t n, size_t max, uint64_t *seed);
size_t mutate_cbor(unsigned char *p, size_t n, size_t max, uint64_t *seed);

#endif
