/* SPDX-License-Identifier: ISC */
/* inputs.h - measures the inputs of each matrix: sums of squares. */
#ifndef QWEN_MODEL_INPUTS_H
#define QWEN_MODEL_INPUTS_H

#include <stddef.h>
#include <stdint.h>

struct qwen_batch;
struct qwen_err;
struct qwen_linear;
struct qwen_model;
struct qwen_weight;

/* The inputs of one matrix, or of a stack of experts' matrices. */
struct qwen_inputs {
	const char		*name;		/* name of the tensor */
	const unsigned char	*data;
	uint64_t		 bytes;
	size_t			 n_in, n_matrix;
	double			*sum;		/* [n_matrix][n_in] sums of
						   squares; NULL: not used
						   yet */
	uint64_t		*count;		/* [n_matrix] number of
						   tokens */
};

struct qwen_input_sums {
	struct qwen_inputs	*v;		/* sorted by data */
	size_t			 n, cap;
	int			 failed;	/* out of memory */
};

/*
 * qwen_model_measure_inputs starts measuring. qwen_model_inputs returns matrix
 * i; NULL after the last one.
 */
int qwen_model_measure_inputs(struct qwen_model *m, struct qwen_err *err);
const struct qwen_inputs *qwen_model_inputs(const struct qwen_model *m,
    size_t i);
int qwen_model_inputs_failed(const struct qwen_model *m);
void qwen_inputs_free(struct qwen_input_sums *s);

/*
 * Measure inputs: n rows at[i] of x, or the first n if at is NULL, for these
 * matrices (each tensor counts once), or for matrix e of w.
 */
void qwen_inputs_linear(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const uint32_t *at, size_t n);
void qwen_inputs_expert(struct qwen_batch *b, const struct qwen_weight *w,
    size_t e, const float *x, size_t stride, const uint32_t *at, size_t n);

#endif
