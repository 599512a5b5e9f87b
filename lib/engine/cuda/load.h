/* SPDX-License-Identifier: ISC */
/* load.h - a model's weights on the card. */
#ifndef QWEN_CUDA_LOAD_H
#define QWEN_CUDA_LOAD_H

#include "engine/cuda/cuda.h"

/* Returns 1 if the card has kernels for all that the layer computes. */
int qwen_cuda_can(const struct qwen_net *net, size_t layer);

/*
 * Returns the bytes of a layer's weights on the card; the last layer's include
 * the output's.
 */
uint64_t qwen_cuda_layer_bytes(const struct qwen_net *net, size_t layer);

/* Copies the weights of the layers at home; unload frees what load has taken. */
int qwen_cuda_load(struct qwen_cuda *c, struct qwen_err *err);
void qwen_cuda_unload(struct qwen_cuda *c);

#endif
