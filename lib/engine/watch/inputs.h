/* SPDX-License-Identifier: ISC */
/* inputs.h - measures the inputs of each matrix: sums of squares. */
#ifndef QWEN_WATCH_INPUTS_H
#define QWEN_WATCH_INPUTS_H

#include <stddef.h>
#include <stdint.h>

struct qwen_err;
struct qwen_model;

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

/* Adds the squares of what weights will be multiplied with. */
struct qwen_pool;
struct qwen_seen;
void qwen_inputs_see(struct qwen_input_sums *sums, struct qwen_pool *pool,
    const struct qwen_seen *s);

#endif
