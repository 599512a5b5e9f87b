/* SPDX-License-Identifier: ISC */
/*
 * lora.h - low-rank additions to weights, of adapters: y = Wx + s B(Ax).
 *
 * A weight that an adapter changes points to a set, one addition for each
 * adapter, in their order.
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
					   embedding rank numbers an id */
	const float		*b;	/* of an expert see struct qwen_low */
	size_t			 rank;
	size_t			 n_out;	/* of the whole tensor */
	size_t			 b_expert;	/* from one to the next, or 0 */
	float			 scale;
};

struct qwen_lora_set {
	size_t			 n;
	size_t			 width;		/* the sum of ranks */
	struct qwen_lora	 v[];
};

/* ---- loading (lora_load.c) */

/* Open the files of opts, and look at what they say of themselves. */
int qwen_loras_open(struct qwen_model *m, const struct qwen_model_opts *opts,
    struct qwen_err *err);
void qwen_loras_close(struct qwen_loras *l);

/* What they have for the tensor, whose shape w has, goes to w->lora. */
void qwen_lora_load(struct qwen_loader *ld, struct qwen_weight *w,
    const char *tensor, size_t n_expert);

/* When all weights are loaded: has each tensor found its matrix? */
int qwen_loras_check(const struct qwen_model *m, struct qwen_err *err);

/* Bytes that they take of memory; numbers that a row takes, of one set. */
uint64_t qwen_loras_bytes(const struct qwen_model *m);
size_t qwen_loras_width(const struct qwen_model *m);

/* How many there are; file and scale of one; matrices, their highest rank. */
size_t qwen_loras_n(const struct qwen_model *m);
const struct qwen_gguf *qwen_loras_get(const struct qwen_model *m, size_t i,
    double *scale, size_t *n_matrices, size_t *rank);

/* Fingerprints of all, made once by make() (header.c). */
int qwen_loras_fingerprints(const struct qwen_model *m,
    int (*make)(const struct qwen_gguf *, struct qwen_fp *, struct qwen_err *),
    const struct qwen_fp **out, struct qwen_err *err);

/* ---- computing (lora.c) */

/* Numbers that a row takes for w: what its A make of the input. */
static inline size_t
qwen_lora_width(const struct qwen_weight *w)
{
	return w->lora != NULL ? w->lora->width : 0;
}

/*
 * Of the inputs x, what each A of matrix e makes, times the scale: number k to
 * low[t][k].  t counts the n inputs, stride numbers apart in low.
 */
void qwen_lora_low(struct qwen_batch *b, const struct qwen_weight *w, size_t e,
    const void **x, float **y, size_t n, float *low, size_t stride,
    int thread);

/*
 * The same for a list of products that share their input, as qwen_linears takes
 * them, on all threads: to the scratch memory, [set][n][width], sets that
 * follow one another and are the same being one.
 */
void qwen_lora_lows(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const uint32_t *at, size_t n);

/* y[t] += B low[t], of rows from r0 of matrix e; y[t] is that of row r0. */
struct qwen_lora_rows {
	const struct qwen_weight *w;
	size_t		 e;
	size_t		 r0, n_rows;
	const float	*low;
	size_t		 stride;
	float *const	*y;
	size_t		 y_at;		/* where row r0 is in y[t] */
	size_t		 n;		/* rows of low, and of y */
};
void qwen_lora_add(struct qwen_batch *b, const struct qwen_lora_rows *p,
    int thread);

/* Have what that will read of B on its way from memory. */
void qwen_lora_ahead(const struct qwen_lora_rows *p);

/* The embedding of id, with what adapters add; low has room for its set. */
void qwen_lora_embed(const struct qwen_batch *b, const struct qwen_weight *w,
    size_t id, float *x, float *low);

/* low[k], times the scale, of one row in double; v has room for n_in. */
void qwen_lora_low_exactly(const struct qwen_weight *w, const float *x,
    double *low, float *v);
/* And what is added to row r. */
double qwen_lora_row_exactly(const struct qwen_weight *w, size_t r,
    const double *low);

#endif
