/* SPDX-License-Identifier: ISC */
/*
 * rows.h - small functions over rows of f32.  Sums are sixteen partial sums by
 * index mod 16, ascending, added up as a tree: lanes i and i + 8, then i + 4,
 * i + 2, i + 1.
 */
#ifndef QWEN_KERNEL_ROWS_H
#define QWEN_KERNEL_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/cpu/kernel/matmul.h"
#include "engine/quant/kv.h"

/*
 * Adds the product with a matrix B of few columns to rows r .. r + n_rows - 1:
 * y[t][i] = fma(low[t][k], B[r + i][k], y[t][i]) for k ascending.  B is stored
 * transposed (quant/operand.h).
 */
struct qwen_low {
	const float	*b;
	size_t		 rank;		/* columns of B */
	size_t		 r, n_rows;
	const float	*low;		/* per token: [rank] */
	size_t		 low_stride;
	float *const	*y;
	size_t		 y_at;		/* index of row r in y[t] */
	size_t		 n_tok;
};

/* Small functions over rows of f32; n need not be a multiple of the lanes. */
struct qwen_vec {
	/* y = x / sqrt(mean(x^2) + eps) * w; returns the sum of squares */
	float	(*rmsnorm)(float *y, const float *x, const float *w, size_t n,
		    float eps);
	/* y = (rmsnorm of y with w) * silu(z) */
	void	(*gated_norm)(float *y, const float *w, const float *z,
		    size_t n, float eps);
	/* y *= scale / sqrt(sum(y^2) + eps) */
	void	(*l2norm)(float *y, size_t n, float eps, float scale);
	/* x to 8 bits */
	void	(*quantize)(struct qwen_q8 *q, const float *x, size_t n);
	/*
	 * x to two 8-bit terms: the first terms, then as many groups with the
	 * remainders
	 */
	void	(*quantize_twice)(struct qwen_q8 *q, const float *x, size_t n);
	/* x to bf16; values below QWEN_BF16_LEAST become 0 */
	void	(*to_bf16)(uint16_t *y, const float *x, size_t n);
	/* y = silu(g) * u */
	void	(*swiglu)(float *y, const float *g, const float *u, size_t n);
	/* y *= sigmoid(g) */
	void	(*gate)(float *y, const float *g, size_t n);
	/* y = fma(w, x, y) */
	void	(*axpy)(float *y, float w, const float *x, size_t n);
	void	(*low)(const struct qwen_low *p);
	/* rotates the pairs (x[i], x[i+half]) by the angles of cos, sin */
	void	(*rope)(float *x, const float *cos, const float *sin,
		    size_t half);
	/*
	 * Causal depthwise convolution and SiLU over n_tok rows of stride
	 * floats, in place, channels c0 .. c1-1 of nc.  Taps w [kc][nc]. hist
	 * [kc-1][nc] has the inputs before the rows, and afterwards the last
	 * inputs.
	 */
	void	(*conv)(float *x, size_t stride, size_t n_tok, const float *w,
		    float *hist, size_t kc, size_t nc, size_t c0, size_t c1);
	/*
	 * Merges a chunk's attention (m1, l1, o1) into (m, l, o); chunks are
	 * merged in the order of positions.
	 */
	void	(*attn_merge)(float *m, float *l, float *o, float m1, float l1,
		    const float *o1, size_t d);
	/* y = o / l */
	void	(*attn_finish)(float *y, const float *o, float l, size_t d);
	/* f32 to f16 */
	void	(*to_f16)(uint16_t *y, const float *x, size_t n);
	/*
	 * For integer keys and values; n is a multiple of 32. hadamard
	 * multiplies x by the orthonormal Hadamard matrix, in pieces of the
	 * largest power of two that divides n. round_kv rounds x to integers
	 * with a scale per 32 numbers; query rounds x to 16 bits, in place.
	 * These two return 0, and set all to zero, if a number is NaN or
	 * infinite.
	 */
	void	(*hadamard)(float *x, size_t n);
	int	(*round_kv)(int8_t *q, uint16_t *scale, const float *x,
		    size_t n, enum qwen_kv kv);
	int	(*query)(float *x, size_t n);
	/*
	 * For encoders of images: layernorm sets y to (x - mean) / sqrt(variance +
	 * eps) * w + b; y may be x.  gelu sets y to the approximation of x times
	 * the normal distribution that has a tanh, in place.
	 */
	void	(*layernorm)(float *y, const float *x, const float *w,
		    const float *b, size_t n, float eps);
	void	(*gelu)(float *y, size_t n);
};

#endif
