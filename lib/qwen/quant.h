/* SPDX-License-Identifier: ISC */
/*
 * qwen/quant.h - number formats of tensors, and a full check of a file.
 *
 * For tools that inspect files; qwen_model_open does not need it.
 */
#ifndef QWEN_QWEN_QUANT_H
#define QWEN_QWEN_QUANT_H

#include "qwen/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns 1 if the library can compute with the type (and dequantise it), else
 * 0.
 */
int qwen_quant_supported(uint32_t type);

/*
 * Dequantises n elements (a multiple of the block length) from src to dst.  -1
 * if the type is not supported.
 */
int qwen_quant_dequantize(uint32_t type, const void *src, float *dst,
    size_t n, struct qwen_err *err);

/*
 * Checks everything that qwen_gguf_open does not: BOOL values, the vocabulary,
 * and all scales (of float types, all numbers) for NaN and infinity.  Reads the
 * whole file.  Calls problem once per problem (msg as in struct qwen_err), and
 * progress, if not NULL, with the bytes read since its last call.  Returns the
 * number of problems, or -1 if the size of *c is wrong.  Skips types that the
 * library cannot compute with.
 */
struct qwen_gguf_checker {
	void	(*problem)(void *arg, const char *msg);
	void	(*progress)(void *arg, uint64_t bytes);
	void	 *arg;
};

int64_t qwen_gguf_check_sized(size_t size, const struct qwen_gguf *g,
    const struct qwen_gguf_checker *c, struct qwen_err *err);
#define qwen_gguf_check(...) \
	qwen_gguf_check_sized(sizeof(struct qwen_gguf_checker), __VA_ARGS__)

/*
 * Reports every problem that would make qwen_model_open fail, through
 * c->problem as above; one message covers all tensors of an unsupported type.
 * Returns the number of messages, 0 if the model would open, -1 if out of
 * memory.
 */
int qwen_model_check_sized(size_t size, const struct qwen_gguf *g,
    const struct qwen_gguf_checker *c, struct qwen_err *err);
#define qwen_model_check(...) \
	qwen_model_check_sized(sizeof(struct qwen_gguf_checker), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
