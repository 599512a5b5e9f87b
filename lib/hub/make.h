/* SPDX-License-Identifier: ISC */
/* make.h - internal: planning one tensor. */
#ifndef QWEN_HUB_MAKE_H
#define QWEN_HUB_MAKE_H

#include "base/half.h"
#include "hub/plan.h"

/*
 * Adds the result of converting n tensors of the folder (several only for
 * experts): one or two tensors, and separate scales if needed.
 */
int qwen_hub_make(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *w, size_t n);

/*
 * Adds the rows of "yes" and "no" of an output or embedding matrix as a
 * classifier.
 */
int qwen_hub_make_classifier(struct qwen_hub_gguf *g,
    const struct qwen_st_tensor *w);

/* ---- shared with adapters */

/* Tensors of a layer's experts: [3][n_expert][each] for down, gate and up. */
struct hub_experts {
	const struct qwen_st_tensor **w;
	uint32_t	 n[3];		/* experts met so far */
};

/* Adds the `each' tensors of the expert called name. */
int qwen_hub_gather(const struct qwen_hub_gguf *g, struct hub_experts *e,
    const struct hub_name *name, const struct qwen_st_tensor *const *w,
    size_t each);

/*
 * Adds one tensor to the file, and sources for it; checks the length of the
 * name.
 */
struct hub_tensor *qwen_hub_new_tensor(struct qwen_hub_gguf *g,
    const char *name);
int qwen_hub_add_sources(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *w, size_t n);

/* Sets the tensor's shape: rows x columns for each plane of its sources. */
void qwen_hub_shape(struct hub_tensor *t, const struct hub_source *s,
    uint64_t rows, uint64_t columns);

/* Returns the format of a matrix; F16 if its rows are not whole blocks. */
uint32_t qwen_hub_matrix_type(const struct qwen_hub_gguf *g,
    const struct hub_tensor *t);

/* Reorders the value heads, if `how' requires it. */
int qwen_hub_tile(const struct qwen_hub_gguf *g, struct hub_tensor *t,
    const struct hub_source *s, enum hub_how how);

int qwen_hub_bad_shape(const struct qwen_hub_gguf *g,
    const struct hub_source *s, const char *want);

#endif
