/* SPDX-License-Identifier: ISC */
/* load.h - a model's weights on the card. */
#ifndef QWEN_CUDA_LOAD_H
#define QWEN_CUDA_LOAD_H

#include "engine/cuda/cuda.h"

/*
 * Join weights of a half of a layer that can be one.  The first of those joined
 * has the rows of all, and the others only have `of'.  Other weights stay as
 * they are, to be copied one by one (join.c).
 */
int qwen_cuda_join_mixer(struct qwen_cuda *c, struct qwen_cuda_layer *out,
    const struct qwen_layer *l, struct qwen_err *err);
int qwen_cuda_join_ffn(struct qwen_cuda *c, struct qwen_cuda_layer *out,
    const struct qwen_layer *l, struct qwen_err *err);

/*
 * Copies the matrices of to->of, to->n_matrix of them, which are matrix_bytes
 * apart on the card, to where to->data is (product.c).
 */
int qwen_cuda_weight_fill(struct qwen_cuda *c,
    const struct qwen_cuda_weight *to, struct qwen_err *err);

/* Returns 1 if the card has kernels for half a layer, or the head. */
int qwen_cuda_can(const struct qwen_net *net, size_t half);

/*
 * Returns 1 if the MTP block's head is the model's, and that is at home on the
 * card.
 */
int qwen_cuda_shares_head(const struct qwen_resident *r);

/* Returns the bytes of its weights on the card; the MTP block's head is apart. */
uint64_t qwen_cuda_half_bytes(const struct qwen_net *net, size_t half);

/*
 * Leaves to the CPU what the card cannot compute or has no memory for: as much as
 * the wish says, or is free (choose.c).
 */
void qwen_cuda_choose(const struct qwen_cuda *c, unsigned char *home,
    const struct qwen_wish *wish);

/* Copies the weights of what is at home; unload frees what load has taken. */
int qwen_cuda_load(struct qwen_cuda *c, struct qwen_err *err);
void qwen_cuda_unload(struct qwen_cuda *c);

#endif
