/* SPDX-License-Identifier: ISC */
/* mem.h - checked sizes and aligned allocation. */
#ifndef QWEN_BASE_MEM_H
#define QWEN_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* *out = a * b (or a + b); returns -1 on overflow. */
static inline int
qwen_mul(size_t a, size_t b, size_t *out)
{
	return __builtin_mul_overflow(a, b, out) ? -1 : 0;
}

static inline int
qwen_add(size_t a, size_t b, size_t *out)
{
	return __builtin_add_overflow(a, b, out) ? -1 : 0;
}

/*
 * Makes room for n elements of size bytes in a growing array: array is the
 * address of its pointer (initially NULL; for free()), *cap its capacity.
 * Grows by half, so that appending takes linear time.  Returns -1 without
 * memory; then nothing changes.
 */
int qwen_grow(void *array, size_t *cap, size_t n, size_t size);

/*
 * Appends a zeroed element of size bytes to a growing array of *n elements and
 * returns its address.  Returns NULL without memory, with *err set.
 */
struct qwen_err;
void *qwen_push(void *array, size_t *cap, size_t *n, size_t size,
    struct qwen_err *err);

/*
 * Allocates n * size zeroed bytes, aligned to 64, for free(); NULL on overflow.
 */
void *qwen_alloc(size_t n, size_t size);

/*
 * Allocates n * size uninitialised bytes, aligned to 64, for free(); NULL on
 * overflow.  Large blocks use huge pages if the system has them: one page fault
 * per 2 MiB, not per 4 KiB.
 */
void *qwen_alloc_large(size_t n, size_t size);

/*
 * Maps bytes of zeroes at a page border, for qwen_unmap(); NULL without memory.
 * Uses memory only as it is touched, in huge pages if the system has them.
 */
void *qwen_map_zero(size_t bytes);
void qwen_unmap(void *p, size_t bytes);	/* p may be NULL */

/*
 * Releases the memory of these bytes of a mapping; their contents become
 * undefined.
 */
void qwen_give_back(void *p, size_t bytes);

#endif
