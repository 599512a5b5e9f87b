/* SPDX-License-Identifier: ISC */
/* mutate.h - bytes of a kind, changed so that they are nearly of that kind. */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

enum mutate_kind {
	MUTATE_BYTES,	/* changes, drops, doubles or exchanges a few bytes */
	MUTATE_GGUF,	/* a count, length, type, offset, value or name */
	MUTATE_CBOR,	/* a head, a number, a key, an item; checks of states and
			   files of the store are put right, mostly */
	MUTATE_TEXT,	/* numbers, words of JSON, templates and grammars,
			   nested and repeated */
};

/* The next number of *seed. */
uint32_t mutate_random(uint64_t *seed);

/* The n bytes at p, in room for max, changed: how many there are then. */
size_t mutate(enum mutate_kind kind, unsigned char *p, size_t n, size_t max,
    uint64_t *seed);

/*
 * Make the checksums of the records of a state right, as far as these are
 * records.  The first head_n bytes are its header.
 */
void mutate_repair(unsigned char *p, size_t n, size_t head_n);

/* ----------------------------------------------------- of which they consist */

/* At least 0 and below n; a number that programs stumble over in place of v. */
size_t mutate_below(uint64_t *seed, size_t n);
uint64_t mutate_number(uint64_t v, uint64_t *seed);

/* len bytes from anywhere, at to, where the rest moves on; unless it is full. */
size_t mutate_insert(unsigned char *p, size_t n, size_t max, size_t to,
    const void *from, size_t len);
size_t mutate_drop(unsigned char *p, size_t n, size_t at, size_t len);

/* An integer, little-endian. */
void mutate_store(unsigned char *p, unsigned width, uint64_t v);

size_t mutate_bytes(unsigned char *p, size_t n, size_t max, uint64_t *seed);
size_t mutate_cbor(unsigned char *p, size_t n, size_t max, uint64_t *seed);

#endif
