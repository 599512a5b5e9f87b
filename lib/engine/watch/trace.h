/* SPDX-License-Identifier: ISC */
/* trace.h - tracing the stages of a pass: qwen-trace(7). */
#ifndef QWEN_WATCH_TRACE_H
#define QWEN_WATCH_TRACE_H

#include "engine/device.h"

/* ---- the table of stages (stages.c) */

/*
 * Calls each for every stage of a model and of its MTP block with these parts.
 * Numbers ascend and are those of qwen_stage_number().  Stops at the first
 * nonzero result and returns it.
 */
int qwen_stages(const struct qwen_arch *a, const struct qwen_hparams *h,
    unsigned mtp_parts, int (*each)(void *arg, size_t number,
    const struct qwen_trace_stage *st), void *arg);

/* The same without numbers. */
void qwen_stages_plain(const struct qwen_arch *a, const struct qwen_hparams *h,
    unsigned mtp_parts, int (*each)(void *arg,
    const struct qwen_trace_stage *st), void *arg);

/*
 * Returns the number of a stage, below qwen_stage_count(). layer and head are 0
 * for stages without one; the MTP block is layer n_layer.
 */
size_t qwen_stage_number(const struct qwen_hparams *h,
    enum qwen_trace_kind kind, size_t layer, size_t head);
size_t qwen_stage_count(const struct qwen_hparams *h);

/* ---- a session that is traced (trace.c) */

/*
 * Chooses the stages that t asks for, of a model whose MTP block has these parts
 * in the session (0: it cannot be traced).
 */
int qwen_tracing_new(struct qwen_tracing **out, const struct qwen_net *net,
    unsigned mtp_parts, const struct qwen_trace *t, struct qwen_err *err);
void qwen_tracing_free(struct qwen_tracing *tr);

/*
 * Returns how many of n tokens from position pos on one pass can trace; all if tr
 * is NULL.
 */
size_t qwen_trace_limit(const struct qwen_tracing *tr, size_t pos, size_t n);

/*
 * begin prepares a pass over n rows from position pos on; returns 1 if any is
 * traced.  end tells of them, unless the pass has failed.  Both return -1 with the
 * error set.
 */
int qwen_trace_begin(struct qwen_tracing *tr, size_t pos, size_t n,
    struct qwen_err *err);
int qwen_trace_end(struct qwen_tracing *tr, const int32_t *tokens, int failed,
    struct qwen_err *err);

/* Returns 1 if the current pass traces the MTP block; tr may be NULL. */
int qwen_trace_block(const struct qwen_tracing *tr);

/* Returns the memory for a stage of row t; NULL if it is not traced. */
float *qwen_trace_at(const struct qwen_pass *p, const struct qwen_hparams *h,
    size_t t, enum qwen_trace_kind kind, size_t layer, size_t head);

/* Records what an operation has computed. */
void qwen_trace_see(const struct qwen_pass *p, const struct qwen_hparams *h,
    const struct qwen_seen *s);

/*
 * Writes the rows whose logits are traced, and where these go; returns their
 * number.
 */
size_t qwen_trace_logits(const struct qwen_pass *p,
    const struct qwen_hparams *h, enum qwen_trace_kind kind, size_t layer,
    uint32_t *at, float **y);

#endif
