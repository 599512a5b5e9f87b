/* SPDX-License-Identifier: ISC */
/* quantize.h - encoding weights in smaller formats, and quantised files. */
#ifndef QWEN_QUANTIZE_QUANTIZE_H
#define QWEN_QUANTIZE_QUANTIZE_H

#include "gguf/write.h"

/* Returns 1 if numbers can be encoded in a format, plain formats included. */
int qwen_encode_known(uint32_t type);

/*
 * Encodes rows of n_row numbers (whole blocks, all finite). w[i] weighs the
 * squared error of number i of each row; NULL: equal weights. cpu: instruction
 * sets to use, see base/cpu.h; the bytes do not depend on it.
 */
int qwen_encode_rows(uint32_t type, unsigned cpu, const float *x,
    const float *w, size_t n_row, size_t rows, unsigned char *out,
    struct qwen_err *err);

/* ------------------------------------------------------- importance */

/*
 * An importance matrix, as written by llama.cpp: the strength of each matrix's
 * inputs.
 */
struct qwen_imatrix;

int qwen_imatrix_open(struct qwen_imatrix **out, const char *path,
    struct qwen_err *err);
void qwen_imatrix_close(struct qwen_imatrix *m);

/*
 * Creates an importance matrix: after qwen_imatrix_start, the model adds up its
 * inputs of all rows that it reads; the sums do not depend on threads or
 * batches.  qwen_imatrix_write writes them.  n_tokens and dataset (or NULL) are
 * recorded in the file.
 */
struct qwen_model;
int qwen_imatrix_start(struct qwen_model *m, struct qwen_err *err);
int qwen_imatrix_write(const struct qwen_model *m, size_t n_tokens,
    const char *dataset, int fd, struct qwen_err *err);

/* ------------------------------------------------------------- files */

struct qwen_quantize_opts {
	/*
	 * "Q4_K_M", ignoring case; not with size.  NULL, and no size: keep all
	 * formats.
	 */
	const char	*recipe;
	uint64_t	 size;		/* limit for the file; 0: by recipe */
	/*
	 * Lines of a shell pattern for tensor names and a format: the first
	 * match counts, before the recipe.  Or NULL.
	 */
	const char	*types;
	const struct qwen_imatrix *imatrix;	/* or NULL */
	const char	*imatrix_name;	/* recorded in the file */
	/*
	 * With size: the ids of a text with which to measure the model's
	 * sensitivity to errors in each of its parts; `measuring' (or NULL)
	 * reports progress in tokens, with measuring_arg.  None: use the
	 * sensitivities of the demo model.
	 */
	const int32_t	*calibration;
	size_t		 n_calibration;
	qwen_gguf_progress *measuring;
	void		*measuring_arg;
	const char	*cpu;		/* a level of qwen_cpu_level, or NULL */
	int		 threads;	/* 0: one per processor */
	/*
	 * Adapters to add to the weights, W + s BA, in double before rounding
	 * to the tensor's format; not with size.  If an output head tied to the
	 * embedding is changed, or the embedding is, both are written.
	 */
	const struct qwen_adapter *adapters;
	size_t		 n_adapters;
};

struct qwen_quantize;

/* Plans a quantised file from an open one, which must outlive it. */
int qwen_quantize_new(struct qwen_quantize **out, const struct qwen_gguf *in,
    const struct qwen_quantize_opts *opts, struct qwen_err *err);
void qwen_quantize_free(struct qwen_quantize *p);

/* Returns the writer of the file (gguf/write.h): it has notes for the user. */
struct qwen_gguf_writer *qwen_quantize_writer(const struct qwen_quantize *p);

/* Returns the name of recipe i; NULL after the last. */
const char *qwen_quantize_recipe(size_t i);

/* Finds a recipe by name; *recipe is its number in gguf/recipe.h. */
int qwen_quantize_find(size_t *recipe, const char *name, struct qwen_err *err);

/*
 * Writes the file, once, from beginning to end.  Memory: some rows per thread,
 * however large the tensors are.
 */
int qwen_quantize_write(struct qwen_quantize *p, int fd, struct qwen_err *err);

/*
 * Opens in as the file that quantising would write, bit for bit, without
 * writing it.  Tensors that keep their format stay in the file; others are made
 * in memory: *made bytes, at most `most'.  On success *out owns in and closes
 * it.  QWEN_EUNSUP if a tensor to convert is not F32, F16 or BF16.
 */
int qwen_quantize_load(struct qwen_gguf **out, struct qwen_gguf *in,
    const struct qwen_quantize_opts *opts, uint64_t most, uint64_t *made,
    struct qwen_err *err);

#endif
