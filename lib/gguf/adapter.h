/* SPDX-License-Identifier: ISC */
/*
 * adapter.h - LoRA adapter files.  For each changed tensor NAME of the model
 * the file has a pair: A, NAME.lora_a, of shape [n_in, rank], and B,
 * NAME.lora_b, of shape [rank, n_out]; for experts, stacks of these.
 */
#ifndef QWEN_GGUF_ADAPTER_H
#define QWEN_GGUF_ADAPTER_H

#include "qwen/gguf.h"

struct qwen_adapter_file {
	struct qwen_gguf	*g;
	double			 scale, alpha;
	size_t			 n_matrices, rank;	/* rank: the largest */
	unsigned char		*used;	/* [tensors] used by the model */
	int			 other_order;	/* value heads ordered
						   differently */
};

/*
 * Opens an adapter for a model: checks its architecture and that its tensors
 * form pairs.  Messages name the file.  Call fini even after a failure; *f must
 * be zero before.
 */
int qwen_adapter_open(struct qwen_adapter_file *f, const struct qwen_adapter *a,
    const struct qwen_gguf *model, struct qwen_err *err);
void qwen_adapter_fini(struct qwen_adapter_file *f);

/* Prepends "adapter FILE: " to the message. */
int qwen_adapter_fail(const struct qwen_adapter_file *f, struct qwen_err *err);

/* The change of one tensor: scale * BA; for embeddings, the transpose of BA. */
struct qwen_adapter_pair {
	const struct qwen_gguf_tensor *a, *b;
	size_t	 rank;
	float	 scale;		/* 0: no change */
};

/*
 * Finds the pair for a tensor of this name and shape, and marks it as used.
 * Returns 1; 0 if there is no pair; -1 if the pair does not fit, or orders
 * DeltaNet value heads differently from the model.
 */
int qwen_adapter_find(struct qwen_adapter_file *f, const char *tensor,
    const uint64_t ne[4], struct qwen_adapter_pair *out, struct qwen_err *err);

/*
 * Checks, after all changeable tensors of the model were looked up, that no
 * pair is unused.  Pairs that fit a tensor of a layer >= n_layer are allowed.
 */
int qwen_adapter_check(const struct qwen_adapter_file *f,
    const struct qwen_gguf *model, size_t n_layer, struct qwen_err *err);

/*
 * Returns 1 if the tensor is read by row (embeddings): then A has a row of rank
 * numbers per row of the tensor, and B one per column.
 */
int qwen_adapter_by_rows(const char *tensor);

/* Formats a shape as "256x512x6", with at least n dimensions. */
struct qwen_shape_text { char s[96]; };
struct qwen_shape_text qwen_shape_text(const uint64_t ne[4], int n);

#endif
