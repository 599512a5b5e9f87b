/* SPDX-License-Identifier: ISC */
/* near.h - which word may have been meant by one that nobody knows. */
#ifndef QWEN_BASE_NEAR_H
#define QWEN_BASE_NEAR_H

#include <stddef.h>

enum { QWEN_NEAR_MAX = 40 };	/* letters of words that are compared */

/*
 * Letters to change, add, drop or swap with the next to make b of the n bytes at
 * a; QWEN_NEAR_MAX if one is longer than that.
 */
int qwen_near(const char *a, size_t n, const char *b);

/* What is not nearer than this to a word of n letters was not meant by it. */
int qwen_near_enough(size_t n);

#endif
