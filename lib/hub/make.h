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

/*
 * Add what an adapter has for a matrix: n pairs of tensors, one after the other,
 * more than one for experts.
 */
int qwen_hub_make_pair(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *pair, size_t n, struct qwen_err *err);

/* Add the rows of yes and no of an output, or of embeddings, as a classifier. */
int qwen_hub_make_classifier(struct qwen_hub_gguf *g,
    const struct qwen_st_tensor *w, struct qwen_err *err);

#endif
