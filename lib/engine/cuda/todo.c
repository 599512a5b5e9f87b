/* SPDX-License-Identifier: ISC */
/* todo.c - so that the tree links until the kernels are there. */
#include "engine/cuda/cuda.h"

#define WEAK __attribute__((weak))

WEAK int qwen_cuda_can_multiply(const struct qwen_weight *w) { (void)w; return 0; }
WEAK int
qwen_cuda_weight_put(struct qwen_cuda *c, struct qwen_cuda_weight *out, const struct qwen_weight *w, size_t n, struct qwen_err *err)
{
	(void)c; (void)out; (void)w; (void)n; (void)err;
	return -1;
}
WEAK uint64_t qwen_cuda_weight_bytes(const struct qwen_weight *w, size_t n) { (void)w; return n; }
WEAK size_t qwen_cuda_groups_bytes(const struct qwen_net *net, size_t n) { (void)net; return n; }
WEAK uint64_t qwen_cuda_deltanet_scratch(const struct qwen_net *net, size_t n) { (void)net; return n; }
WEAK uint64_t qwen_cuda_moe_scratch(const struct qwen_net *net, size_t n) { (void)net; return n; }
WEAK void qwen_cuda_norm(struct qwen_cuda_work *w, cu_ptr p, int a, size_t b) { (void)w; (void)p; (void)a; (void)b; }
WEAK void qwen_cuda_quantize(struct qwen_cuda_work *w, cu_ptr x, size_t s, size_t a, size_t b) { (void)w; (void)x; (void)s; (void)a; (void)b; }
WEAK void qwen_cuda_multiply(struct qwen_cuda_work *w, const struct qwen_cuda_weight *m, const struct qwen_cuda_rows *x, cu_ptr y, size_t s) { (void)w; (void)m; (void)x; (void)y; (void)s; }
WEAK void qwen_cuda_deltanet(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l) { (void)w; (void)l; }
WEAK void qwen_cuda_mlp(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l) { (void)w; (void)l; }
WEAK void qwen_cuda_moe(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l) { (void)w; (void)l; }
WEAK void qwen_cuda_replay(struct qwen_resident *r, struct qwen_memory *m, size_t f, size_t n) { (void)r; (void)m; (void)f; (void)n; }
