/* SPDX-License-Identifier: ISC */
/* lora.h - computing with adapters (LoRA). */
#ifndef QWEN_CPU_LORA_H
#define QWEN_CPU_LORA_H

#include <stddef.h>
#include <stdint.h>

#include "engine/cpu/cpu.h"
#include "engine/net/lora.h"

struct qwen_batch;
struct qwen_linear;

/*
 * Multiplies the n inputs x by each A of matrix e and by the scale: number k of
 * input t goes to low[t * stride + k]. y is scratch memory for n pointers.
 */
void qwen_lora_low(struct qwen_batch *b, const struct qwen_weight *w, size_t e,
    const void **x, float **y, size_t n, float *low, size_t stride,
    int thread);

/*
 * The same for a list of products with the same input, as in qwen_linears, on
 * all threads.  Results go to the scratch memory, [set][n][width]; consecutive
 * products with the same set share one entry.
 */
void qwen_lora_lows(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const uint32_t *at, size_t n);

/* Adds B low[t] to y[t], for n_rows rows from row r0 of matrix e. */
struct qwen_lora_rows {
	const struct qwen_weight *w;
	size_t		 e;
	size_t		 r0, n_rows;
	const float	*low;
	size_t		 stride;
	float *const	*y;
	size_t		 y_at;		/* index of row r0 in y[t] */
	size_t		 n;		/* rows of low and y */
};
void qwen_lora_add(struct qwen_batch *b, const struct qwen_lora_rows *p,
    int thread);

/* Prefetches the part of B that qwen_lora_add will read. */
void qwen_lora_ahead(const struct qwen_lora_rows *p);

/*
 * Adds the adapters' part to x, the embedding of id; low has room for the set.
 */
void qwen_lora_embed(const struct qwen_batch *b, const struct qwen_weight *w,
    size_t id, float *x, float *low);

#endif
