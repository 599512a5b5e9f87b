/* SPDX-License-Identifier: ISC */
/* quantize.h - weights in smaller number formats, and files of them. */
#ifndef QWEN_QUANTIZE_QUANTIZE_H
#define QWEN_QUANTIZE_QUANTIZE_H

#include "qwen/base.h"
#include "qwen/gguf.h"

/* Whether numbers can be encoded in a format, the plain ones included. */
int qwen_encode_known(uint32_t type);

/*
 * Encode rows of n_row numbers, whole blocks, all of them finite; w[i] says how
 * much the squared error of number i of a row matters, NULL all alike.  cpu is
 * the instruction sets to use, see base/cpu.h: the bytes are the same with any.
 */
int qwen_encode_rows(uint32_t type, unsigned cpu, const float *x,
    const float *w, size_t n_row, size_t rows, unsigned char *out,
    struct qwen_err *err);

/* ------------------------------------------------------- importance */

/*
 * A file that says how strong the inputs of each matrix are (an importance
 * matrix, as llama.cpp's).
 */
struct qwen_imatrix;

int qwen_imatrix_open(struct qwen_imatrix **out, const char *path,
    struct qwen_err *err);
void qwen_imatrix_close(struct qwen_imatrix *m);

/*
 * Make one: from _start on a model's inputs are added up, of all rows that it
 * reads, with the same sums whatever the threads and batches; _write writes
 * them.  n_tokens and dataset (or NULL) are what the file is to say.
 */
struct qwen_model;
int qwen_imatrix_start(struct qwen_model *m, struct qwen_err *err);
int qwen_imatrix_write(const struct qwen_model *m, size_t n_tokens,
    const char *dataset, int fd, struct qwen_err *err);

/* ------------------------------------------------------------- files */

struct qwen_quantize_progress {
	void	(*fn)(void *arg, uint64_t done, uint64_t total);
	void	 *arg;
};

struct qwen_quantize_opts {
	/*
	 * "Q4_K_M", in any case; not with size.  NULL, and no size: the formats
	 * that there are.
	 */
	const char	*recipe;
	uint64_t	 size;		/* of the file, at most; 0: by recipe */
	/*
	 * Lines of a pattern of tensors' names, as of the shell, and a format:
	 * the first that fits counts, before the recipe.  Or NULL.
	 */
	const char	*types;
	const struct qwen_imatrix *imatrix;	/* or NULL */
	const char	*imatrix_name;	/* what the file is to call it */
	/*
	 * With size: ids of a text, by which it is measured how much the model
	 * minds errors in each part of it, while that is told (or NULL), in
	 * tokens.  None: as much as the demo model.
	 */
	const int32_t	*calibration;
	size_t		 n_calibration;
	const struct qwen_quantize_progress *measuring;
	const char	*cpu;		/* a level of qwen_cpu_level, or NULL */
	int		 threads;	/* 0: one a processor */
	/*
	 * What these change is added to the weights, W + s BA, in double before
	 * it is rounded to the tensor's format; not with size.  Where a head is
	 * tied to an embedding and one of both changes, it is written too.
	 */
	const struct qwen_adapter *adapters;
	size_t		 n_adapters;
};

struct qwen_quantize;

/* A file planned, of an open one that must outlive it. */
int qwen_quantize_new(struct qwen_quantize **out, const struct qwen_gguf *in,
    const struct qwen_quantize_opts *opts, struct qwen_err *err);
void qwen_quantize_free(struct qwen_quantize *p);

/* What the user should know, but is no error: lines; NULL after the last. */
const char *qwen_quantize_note(const struct qwen_quantize *p, size_t i);

size_t qwen_quantize_n_tensors(const struct qwen_quantize *p);
uint64_t qwen_quantize_bytes(const struct qwen_quantize *p);	/* after writing */

/* Names of the recipes, 0, 1, ...; NULL after the last. */
const char *qwen_quantize_recipe(size_t i);

/* Whether there is one of this name; *recipe is its number in gguf/recipe.h. */
int qwen_quantize_find(size_t *recipe, const char *name, struct qwen_err *err);

/*
 * Write it, once, from its beginning to its end; progress, in bytes, may be
 * NULL.  Memory
 * is some rows for each thread, however large the tensors are.
 */
int qwen_quantize_write(struct qwen_quantize *p, int fd,
    const struct qwen_quantize_progress *progress, struct qwen_err *err);

/*
 * Open in as the file that quantizing would write, bit for bit, without writing it.
 * Tensors that keep their format stay in the file; others are made in memory: *made
 * bytes, which may be at most most.  On success *out owns in and closes it.
 * QWEN_EUNSUP if a tensor that would change is not F32, F16 or BF16.
 */
int qwen_quantize_load(struct qwen_gguf **out, struct qwen_gguf *in,
    const struct qwen_quantize_opts *opts, uint64_t most, uint64_t *made,
    struct qwen_err *err);

#endif
