/* SPDX-License-Identifier: ISC */
/*
 * adapter.h - the file of an adapter (LoRA), and what it has for each tensor
 * of a model: a pair A, NAME.lora_a, of shape [n_in, rank], and B, NAME.lora_b,
 * of shape [rank, n_out], of experts stacks of them.
 */
#ifndef QWEN_GGUF_ADAPTER_H
#define QWEN_GGUF_ADAPTER_H

#include "qwen/gguf.h"

struct qwen_adapter_file {
	struct qwen_gguf	*g;
	double			 scale, alpha;
	size_t			 n_matrices, rank;	/* the highest */
	unsigned char		*used;	/* [tensors] that a model has */
	int			 other_order;	/* of value heads */
};

/*
 * Open one for a model: it is of its architecture, and all tensors are pairs.
 * Messages name the file.  Fini also after a failure; *f was zero before.
 */
int qwen_adapter_open(struct qwen_adapter_file *f, const struct qwen_adapter *a,
    const struct qwen_gguf *model, struct qwen_err *err);
void qwen_adapter_fini(struct qwen_adapter_file *f);

/* "adapter FILE: " before the message. */
int qwen_adapter_fail(const struct qwen_adapter_file *f, struct qwen_err *err);

/* What is added to a tensor: scale * BA; of an embedding, (BA) turned. */
struct qwen_adapter_pair {
	const struct qwen_gguf_tensor *a, *b;
	size_t	 rank;
	float	 scale;		/* of the product; 0: nothing is added */
};

/*
 * The pair for a tensor of this name and shape: 1, 0 if there is none, or -1
 * if it does not fit, or has the value heads of DeltaNet in another order than
 * the model.  It is used then.
 */
int qwen_adapter_find(struct qwen_adapter_file *f, const char *tensor,
    const uint64_t ne[4], struct qwen_adapter_pair *out, struct qwen_err *err);

/*
 * When all tensors that can be changed were asked for: -1 if there is a pair
 * left, but for one that fits a tensor of a block from n_layer on.
 */
int qwen_adapter_check(const struct qwen_adapter_file *f,
    const struct qwen_gguf *model, size_t n_layer, struct qwen_err *err);

/*
 * Rows that are looked up: A has a row of rank numbers for each of them, and B
 * one for each of their numbers.
 */
int qwen_adapter_by_rows(const char *tensor);

/* Is it no product, so that nothing can be added to it? */
int qwen_adapter_never(const char *tensor);

/* "256x512x6", at least as many dimensions as asked for. */
struct qwen_shape_text { char s[96]; };
struct qwen_shape_text qwen_shape_text(const uint64_t ne[4], int n);

#endif
