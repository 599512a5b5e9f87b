/* SPDX-License-Identifier: ISC */
/*
 * qwen/quant.h - the number formats of tensors, and a check of all of a file.
 *
 * qwen_model_open does without: this is for tools that look into files.
 */
#ifndef QWEN_QWEN_QUANT_H
#define QWEN_QWEN_QUANT_H

#include "qwen/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1 if the library can compute with the type (and dequantise it). */
int qwen_quant_supported(uint32_t type);

/*
 * The numbers that n elements (a multiple of the block length) at src stand
 * for.  -1 if the type is not supported.
 */
int qwen_quant_dequantize(uint32_t type, const void *src, float *dst,
    size_t n, struct qwen_err *err);

/*
 * Look at everything that open does not: BOOL values, the vocabulary, and all
 * scales (in float types, all numbers) for NaN and infinity, which reads the
 * whole file.  problem is told each one (msg as in struct qwen_err); progress,
 * if not NULL, the bytes done since its last call.  Returns the number of
 * problems, or -1 if the size of *c is wrong.  Types the library cannot compute
 * with are passed over.
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
 * All that is in the way of qwen_model_open: told as above, one line for all
 * tensors of a type that is not supported.  Returns the number of lines, 0 where
 * it would open, or -1 where memory ran out.
 */
int qwen_model_check_sized(size_t size, const struct qwen_gguf *g,
    const struct qwen_gguf_checker *c, struct qwen_err *err);
#define qwen_model_check(...) \
	qwen_model_check_sized(sizeof(struct qwen_gguf_checker), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
