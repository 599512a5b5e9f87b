/* SPDX-License-Identifier: ISC */
/* lora.h - adapters (LoRA) on the card: y = Wx + s B(Ax). */
#ifndef QWEN_CUDA_LORA_H
#define QWEN_CUDA_LORA_H

#include "engine/cuda/cuda.h"

/* What the adapters add to the weights of a tensor, one after another. */
struct qwen_cuda_lora {
	const struct qwen_lora_set	*of;
	struct qwen_cuda_lora		*next;	/* of another tensor */
	size_t				 n;
	struct qwen_cuda_low {
		struct qwen_cuda_weight	 a;	/* its factor is the adapter's */
		cu_ptr			 b;	/* as in quant/operand.h */
		uint64_t		 b_expert;	/* numbers, or 0 */
		uint32_t		 rank;
	}				 v[];
};

/* Returns 1 if the card has kernels for what adapters add to the weight. */
int qwen_cuda_can_lora(const struct qwen_weight *w);

/* Returns the bytes that this takes on the card. */
uint64_t qwen_cuda_lora_bytes(const struct qwen_weight *w, size_t n_matrix);

/*
 * Sets out->lora to the additions of the weight, which are copied to the card
 * once for all weights of a tensor.
 */
int qwen_cuda_lora_put(struct qwen_cuda *c, struct qwen_cuda_weight *out,
    const struct qwen_weight *w, size_t n_matrix, struct qwen_err *err);
void qwen_cuda_lora_free(struct qwen_cuda *c);

/* Adds them to a product of rows x, or of pairs unless NULL, in y. */
void qwen_cuda_lora_add(struct qwen_cuda_work *w,
    const struct qwen_cuda_weight *m, const struct qwen_cuda_rows *x,
    const struct qwen_cuda_pairs *pairs, cu_ptr y, size_t stride);

/*
 * Sets x to a token's row of an embedding, which the host has, with what adapters
 * add.
 */
void qwen_cuda_embedding(const struct qwen_weight *m, size_t id, float *x);

#endif
