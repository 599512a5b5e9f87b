/* SPDX-License-Identifier: ISC */
/* mem.h - checked sizes and aligned allocation. */
#ifndef QWEN_BASE_MEM_H
#define QWEN_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* *out = a * b (or a + b); -1 when it does not fit. */
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
 * Make room for n elements of size bytes in an array that grows: array is the
 * address of the pointer to it (NULL at first, for free()), *cap what there is
 * room for.  By half as much again, so that appending is linear.  -1 if there is
 * not the memory; then nothing changes.
 */
int qwen_grow(void *array, size_t *cap, size_t n, size_t size);

/* n * size zeroed bytes at a multiple of 64, for free(); NULL on overflow. */
void *qwen_alloc(size_t n, size_t size);

/*
 * n * size bytes at a multiple of 64, not set to anything, for free(); NULL on
 * overflow.  What is large comes in huge pages where the system has them: a
 * page fault for each 2 MiB, not for each 4 KiB.
 */
void *qwen_alloc_large(size_t n, size_t size);

/*
 * bytes of zeroes at a page border, for qwen_unmap(); NULL if there is no room.
 * Memory is used as it is touched, in huge pages where the system has them.
 */
void *qwen_map_zero(size_t bytes);
void qwen_unmap(void *p, size_t bytes);	/* p may be NULL */

/*
 * The contents of these bytes of such memory are not needed any more; what they
 * are then is not known.
 */
void qwen_give_back(void *p, size_t bytes);

#endif
