/* SPDX-License-Identifier: ISC */
/*
 * mmproj.h - image encoder files ("mmproj"): the sizes that their keys have,
 * and their tensors.  Qwen3-VL, Qwen3.5 and later models have the same encoder.
 */
#ifndef QWEN_GGUF_MMPROJ_H
#define QWEN_GGUF_MMPROJ_H

#include "qwen/gguf.h"

#define QWEN_MMPROJ_ARCH "clip"
#define QWEN_MMPROJ_PROJECTOR "qwen3vl_merger"

enum {
	QWEN_MMPROJ_LAYERS_MAX = 256,
	QWEN_MMPROJ_MERGE = 2,		/* patches of a token, in each
					   direction */
	QWEN_MMPROJ_JOINED = QWEN_MMPROJ_MERGE * QWEN_MMPROJ_MERGE,
};

struct qwen_mmproj {
	uint32_t	 n_layer, n_embd, n_ff, n_head;
	uint32_t	 patch;		/* width and height of a patch, in
					   pixels */
	uint32_t	 side;		/* there are side * side learned
					   positions */
	uint32_t	 n_out;		/* numbers of a row: the text model's
					   n_embd */
	float		 eps;		/* of norms */
	float		 mean[3], std[3];	/* of red, green and blue */
	uint32_t	 n_deepstack;
	unsigned char	 deepstack[QWEN_MMPROJ_LAYERS_MAX];	/* 1: this
							   layer has one */
};

/* What a tensor is, which decides its number format in files that are made. */
enum qwen_mmproj_kind {
	QWEN_MMPROJ_MATRIX,	/* any, by rows */
	QWEN_MMPROJ_PATCHES,	/* of the patch embedding: F16 or F32 */
	QWEN_MMPROJ_POSITIONS,	/* F32, like the others */
	QWEN_MMPROJ_BIAS,
	QWEN_MMPROJ_NORM,
};

struct qwen_mmproj_tensor {
	char		 name[64];
	char		 hub[64];	/* name in Hugging Face folders, after
					   "visual." */
	enum qwen_mmproj_kind kind;
	unsigned	 n_dims;
	uint64_t	 ne[4];		/* as in struct qwen_gguf_tensor */
};

/*
 * Sets *out to tensor i of an encoder, in the order of computation, and returns
 * 1; 0 after the last.
 */
int qwen_mmproj_tensor(const struct qwen_mmproj *m, size_t i,
    struct qwen_mmproj_tensor *out);

/* Returns 1 if the file says that it is an image encoder, of any kind. */
int qwen_mmproj_is(const struct qwen_gguf *g);

/* Returns 0; -1 if the file is one, with an error for who needs a model. */
int qwen_mmproj_refuse(const struct qwen_gguf *g, struct qwen_err *err);

/*
 * Reads the sizes of an encoder; -1 with *err, which names the key, if one is
 * missing or not supported.
 */
int qwen_mmproj_read(struct qwen_mmproj *m, const struct qwen_gguf *g,
    struct qwen_err *err);

/*
 * Returns 0 if the file has all tensors of m, in F32, F16 or BF16, matrices also
 * in Q8_0; else -1.
 */
int qwen_mmproj_check(const struct qwen_mmproj *m, const struct qwen_gguf *g,
    struct qwen_err *err);

/* Returns 0 if sizes agree with each other and are within limits, else -1. */
int qwen_mmproj_check_sizes(const struct qwen_mmproj *m, struct qwen_err *err);

/* Writes the keys that qwen_mmproj_read() reads, as llama.cpp does. */
struct qwen_gguf_writer;
void qwen_mmproj_put_keys(struct qwen_gguf_writer *w,
    const struct qwen_mmproj *m);

/* Returns the multiply-adds that an image of n patches takes. */
double qwen_mmproj_macs(const struct qwen_mmproj *m, double n);

#endif
