/* SPDX-License-Identifier: ISC */
/* near.h - suggest the closest known word for a misspelt one. */
#ifndef QWEN_BASE_NEAR_H
#define QWEN_BASE_NEAR_H

#include <stddef.h>

enum { QWEN_NEAR_MAX = 40 };	/* longest words that are compared */

/*
 * Returns the edit distance (changed, added, dropped or swapped letters)
 * between the n bytes at a and b; QWEN_NEAR_MAX if one of them is longer than
 * that.
 */
int qwen_near(const char *a, size_t n, const char *b);

/*
 * Returns the limit for suggestions: suggest only words nearer than this to a
 * misspelt word of n letters.
 */
int qwen_near_enough(size_t n);

#endif
