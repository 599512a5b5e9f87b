/* SPDX-License-Identifier: ISC */
/*
 * sift.h - passes over a row of logits, for choosing a token; each says in which
 * order it adds.
 */
#ifndef QWEN_KERNEL_SIFT_H
#define QWEN_KERNEL_SIFT_H

#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

/*
 * Passes over a row of n logits, or of related numbers, for choosing a token.
 * Arrays have whole blocks.  Elements after the n-th may be read and changed,
 * unless a comment says otherwise.
 */
#define QWEN_SIFT_BLOCK 256	/* weights are summed in blocks of this size */
#define QWEN_SIFT_SPAN 64	/* numbers that share a maximum */
#define QWEN_SIFT_BINS 1024

struct qwen_sift {
	/*
	 * the highest of n > 0 numbers, not reading further; valid if *finite
	 * is set
	 */
	float	(*highest)(const float *x, size_t n, int *finite);
	/*
	 * the highest minus the lowest number; all are finite; *max is the
	 * highest
	 */
	float	(*range)(const float *x, size_t n, float *max);
	/* the highest number of each span */
	void	(*spans)(float *best, const float *x, size_t n);
	/*
	 * sets a bit per number, 64 in a word: x >= limit; returns how many are
	 * set
	 */
	size_t	(*at_least)(uint64_t *bits, const float *x, size_t n,
		    float limit);
	/*
	 * moves the 32-bit numbers whose bit is set to the front; returns how
	 * many
	 */
	size_t	(*squeeze)(void *x, const uint64_t *bits, size_t n);
	/* w = exp(x - max) for x <= max; 0 if x is 87 or more below max */
	void	(*weigh)(float *w, const float *x, size_t n, float max);
	/*
	 * Returns the sum of weights, and zeroes those after the n-th.  Each
	 * block has eight sums by index mod 8, added as ((0 + 4) + (2 + 6)) +
	 * ((1 + 5) + (3 + 7)); the blocks are added in order.
	 */
	double	(*sum)(double *block, float *w, size_t n);
	/*
	 * returns the sum of w (max - x): four sums by index mod 4, (0 + 1) +
	 * (2 + 3)
	 */
	double	(*mean)(const float *w, const float *x, size_t n, double max);
	/* the sums of max - x and of its square, in the same order */
	void	(*moments)(const float *x, size_t n, double max, double *first,
		    double *second);
	/* x = (x - max) / temp */
	void	(*temper)(float *x, size_t n, float max, float temp);
	/* score = -|max - x - middle|, but at least -1e38 */
	void	(*nearness)(float *score, const float *x, size_t n, double max,
		    double middle);
	/* bin = qwen_sift_bin(max - x, base) */
	void	(*bins)(uint16_t *bin, const float *x, size_t n, float max,
		    uint32_t base);
};

/*
 * Returns the bin of a distance: nearest first, 64 bins per power of two; a bin
 * is 2^17 consecutive floats, beginning at base.
 */
static inline uint32_t
qwen_sift_bin(float distance, uint32_t base)
{
	uint32_t u = qwen_f32_bits(distance) >> 17;

	u = u > base ? u - base : 0;
	return u < QWEN_SIFT_BINS ? u : QWEN_SIFT_BINS - 1;
}

#endif
