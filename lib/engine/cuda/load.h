/* SPDX-License-Identifier: ISC */
/* load.h - a model's weights on the card. */
#ifndef QWEN_CUDA_LOAD_H
#define QWEN_CUDA_LOAD_H

#include "engine/cuda/cuda.h"

/* Returns 1 if the card has kernels for half a layer, or the head. */
int qwen_cuda_can(const struct qwen_net *net, size_t half);

/* Returns the bytes of its weights on the card. */
uint64_t qwen_cuda_half_bytes(const struct qwen_net *net, size_t half);

/* Copies the weights of what is at home; unload frees what load has taken. */
int qwen_cuda_load(struct qwen_cuda *c, struct qwen_err *err);
void qwen_cuda_unload(struct qwen_cuda *c);

#endif
