/* SPDX-License-Identifier: ISC */
/*
 * lora.h - adapters (LoRA): y = Wx + s B(Ax).
 *
 * A weight that adapters change points to a set with one addition per adapter,
 * in order.
 */
#ifndef QWEN_MODEL_LORA_H
#define QWEN_MODEL_LORA_H

#include <stddef.h>
#include <stdint.h>

#include "engine/model/model.h"

struct qwen_batch;
struct qwen_linear;

struct qwen_lora {
	struct qwen_weight	 a;	/* rank rows, or stacks of them; of an
					   embedding, rank numbers per id */
	const float		*b;	/* layout as in struct qwen_low, for
					   each expert */
	size_t			 rank;
	size_t			 n_out;	/* of the whole tensor */
	size_t			 b_expert;	/* numbers from one expert's B
						   to the next, or 0 */
	float			 scale;
};

struct qwen_lora_set {
	size_t			 n;
	size_t			 width;		/* sum of the ranks */
	struct qwen_lora	 v[];
};

/* ---- loading (lora_load.c) */

/* Opens the files of opts and reads their metadata. */
int qwen_loras_open(struct qwen_model *m, const struct qwen_model_opts *opts,
    struct qwen_err *err);
void qwen_loras_close(struct qwen_loras *l);

/* Sets w->lora to the additions for this tensor; w has its shape already. */
void qwen_lora_load(struct qwen_loader *ld, struct qwen_weight *w,
    const char *tensor, size_t n_expert);

/*
 * Checks, after all weights are loaded, that each tensor of the adapters was
 * used.
 */
int qwen_loras_check(const struct qwen_model *m, struct qwen_err *err);

/*
 * qwen_loras_bytes returns the memory of the adapters; qwen_loras_width the
 * largest width of a set.
 */
uint64_t qwen_loras_bytes(const struct qwen_model *m);
size_t qwen_loras_width(const struct qwen_model *m);

/*
 * qwen_loras_n returns the number of adapters; qwen_loras_get the file of
 * adapter i, with its scale, number of matrices and highest rank.
 */
size_t qwen_loras_n(const struct qwen_model *m);
const struct qwen_gguf *qwen_loras_get(const struct qwen_model *m, size_t i,
    double *scale, size_t *n_matrices, size_t *rank);

/*
 * Sets *out to the fingerprints of all adapters, computed once by make()
 * (header.c).
 */
int qwen_loras_fingerprints(const struct qwen_model *m,
    int (*make)(const struct qwen_gguf *, struct qwen_fp *, struct qwen_err *),
    const struct qwen_fp **out, struct qwen_err *err);

/* ---- computing (lora.c) */

/* Returns the numbers per row that w needs for the products with its A. */
static inline size_t
qwen_lora_width(const struct qwen_weight *w)
{
	return w->lora != NULL ? w->lora->width : 0;
}

/*
 * Multiplies the n inputs x by each A of matrix e and by the scale: number k of
 * input t goes to low[t * stride + k]. y is scratch memory for n pointers.
 */
void qwen_lora_low(struct qwen_batch *b, const struct qwen_weight *w, size_t e,
    const void **x, float **y, size_t n, float *low, size_t stride,
    int thread);

/*
 * The same for a list of products with the same input, as in qwen_linears, on
 * all threads.  Results go to the scratch memory, [set][n][width]; consecutive
 * products with the same set share one entry.
 */
void qwen_lora_lows(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const uint32_t *at, size_t n);

/* Adds B low[t] to y[t], for n_rows rows from row r0 of matrix e. */
struct qwen_lora_rows {
	const struct qwen_weight *w;
	size_t		 e;
	size_t		 r0, n_rows;
	const float	*low;
	size_t		 stride;
	float *const	*y;
	size_t		 y_at;		/* index of row r0 in y[t] */
	size_t		 n;		/* rows of low and y */
};
void qwen_lora_add(struct qwen_batch *b, const struct qwen_lora_rows *p,
    int thread);

/* Prefetches the part of B that qwen_lora_add will read. */
void qwen_lora_ahead(const struct qwen_lora_rows *p);

/*
 * Adds the adapters' part to x, the embedding of id; low has room for the set.
 */
void qwen_lora_embed(const struct qwen_batch *b, const struct qwen_weight *w,
    size_t id, float *x, float *low);

/*
 * Computes low of one row in double, scale included; v has room for n_in
 * numbers.
 */
void qwen_lora_low_exactly(const struct qwen_weight *w, const float *x,
    double *low, float *v);
/* Returns the addition to row r. */
double qwen_lora_row_exactly(const struct qwen_weight *w, size_t r,
    const double *low);

#endif
