/* SPDX-License-Identifier: ISC */
/* todo.c - so that the tree links until the kernels are there. */
#include "engine/cuda/cuda.h"

#define WEAK __attribute__((weak))

WEAK uint64_t qwen_cuda_deltanet_scratch(const struct qwen_net *net, size_t n) { (void)net; return n; }
WEAK uint64_t qwen_cuda_moe_scratch(const struct qwen_net *net, size_t n) { (void)net; return n; }
WEAK void qwen_cuda_deltanet(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l) { (void)w; (void)l; }
WEAK void qwen_cuda_mlp(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l) { (void)w; (void)l; }
WEAK void qwen_cuda_moe(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l) { (void)w; (void)l; }
WEAK void qwen_cuda_replay(struct qwen_resident *r, struct qwen_memory *m, size_t f, size_t n) { (void)r; (void)m; (void)f; (void)n; }
