/* SPDX-License-Identifier: ISC */
/* make.h - inside: one tensor of the plan. */
#ifndef QWEN_HUB_MAKE_H
#define QWEN_HUB_MAKE_H

#include "base/half.h"
#include "hub/plan.h"

/*
 * Add what becomes of n tensors of the folder, more than one for experts alone:
 * one tensor, or two, and scales where these have tensors of their own.
 */
int qwen_hub_make(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *w, size_t n, struct qwen_err *err);

/* Add the rows of yes and no of an output, or of embeddings, as a classifier. */
int qwen_hub_make_classifier(struct qwen_hub_gguf *g,
    const struct qwen_st_tensor *w, struct qwen_err *err);

/* ---- what these and adapters are made with */

/* One more tensor of the file, and sources for it; its name is not too long. */
struct hub_tensor *qwen_hub_new_tensor(struct qwen_hub_gguf *g,
    const char *name, struct qwen_err *err);
int qwen_hub_add_sources(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *w, size_t n, struct qwen_err *err);

/* The tensor is rows x columns of each plane of its sources. */
void qwen_hub_shape(struct hub_tensor *t, const struct hub_source *s,
    uint64_t rows, uint64_t columns);

/* Its value heads are in another order, where what is done to it says so. */
int qwen_hub_tile(const struct qwen_hub_gguf *g, struct hub_tensor *t,
    const struct hub_source *s, enum hub_how how, struct qwen_err *err);

int qwen_hub_bad_shape(const struct hub_source *s, const char *want,
    struct qwen_err *err);

#endif
