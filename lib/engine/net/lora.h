/* SPDX-License-Identifier: ISC */
/*
 * lora.h - adapters (LoRA) of a model: y = Wx + s B(Ax).
 *
 * A weight that adapters change points to a set with one addition per adapter,
 * in order.
 */
#ifndef QWEN_NET_LORA_H
#define QWEN_NET_LORA_H

#include "engine/net/net.h"
#include "gguf/adapter.h"

struct qwen_lora {
	struct qwen_weight	 a;	/* rank rows, or stacks of them; of an
					   embedding, rank numbers per id */
	const float		*b;	/* layout as in quant/operand.h, for
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

/*
 * Opens the files of opts and reads their metadata.  The threads of pool will copy
 * the matrices.
 */
int qwen_loras_open(struct qwen_net *m, const struct qwen_model_opts *opts,
    struct qwen_pool *pool, struct qwen_err *err);
void qwen_loras_close(struct qwen_loras *l);

/* Sets w->lora to the additions for this tensor; w has its shape already. */
void qwen_lora_load(struct qwen_loader *ld, struct qwen_weight *w,
    const char *tensor, size_t n_expert);

/*
 * Checks, after all weights are loaded, that each tensor of the adapters was
 * used.
 */
int qwen_loras_check(const struct qwen_net *m, struct qwen_err *err);

/*
 * qwen_loras_bytes returns the memory of the adapters; qwen_loras_width the
 * largest width of a set.
 */
uint64_t qwen_loras_bytes(const struct qwen_net *m);
size_t qwen_loras_width(const struct qwen_net *m);

/* Return the number of adapters, and adapter i. */
size_t qwen_loras_n(const struct qwen_net *m);
const struct qwen_adapter_file *qwen_loras_get(const struct qwen_net *m,
    size_t i);

/*
 * Sets *out to the fingerprints of all adapters, computed once by make()
 * (header.c).
 */
int qwen_loras_fingerprints(const struct qwen_net *m,
    int (*make)(const struct qwen_gguf *, struct qwen_fp *, struct qwen_err *),
    const struct qwen_fp **out, struct qwen_err *err);

/* Returns the numbers per row that w needs for the products with its A. */
static inline size_t
qwen_lora_width(const struct qwen_weight *w)
{
	return w->lora != NULL ? w->lora->width : 0;
}

#endif
