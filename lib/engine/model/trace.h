/* SPDX-License-Identifier: ISC */
/* trace.h - tracing the stages of the forward pass. */
#ifndef QWEN_MODEL_TRACE_H
#define QWEN_MODEL_TRACE_H

#include "engine/model/model.h"

struct qwen_batch;
struct qwen_share;

/*
 * Stages, in the order of computation. stages.c has a table of those of a
 * layer.
 */
enum qwen_trace_kind {
	QWEN_TRACE_EMBED,
	/* inputs of the MTP block */
	QWEN_TRACE_ENORM, QWEN_TRACE_HNORM, QWEN_TRACE_EH_PROJ,
	QWEN_TRACE_Q, QWEN_TRACE_GATE, QWEN_TRACE_K, QWEN_TRACE_V,
	QWEN_TRACE_Q_ROPE, QWEN_TRACE_K_ROPE,
	QWEN_TRACE_SCORES, QWEN_TRACE_PROBS,	/* one per head */
	QWEN_TRACE_ATTN_OUT,
	QWEN_TRACE_QKV, QWEN_TRACE_Z, QWEN_TRACE_CONV,
	QWEN_TRACE_DECAY, QWEN_TRACE_BETA,
	QWEN_TRACE_DELTA_OUT, QWEN_TRACE_DELTA_NORM,
	QWEN_TRACE_MIXER, QWEN_TRACE_MIXER_RESIDUAL,
	QWEN_TRACE_ROUTER, QWEN_TRACE_EXPERTS, QWEN_TRACE_WEIGHTS,
	QWEN_TRACE_SHARED,
	QWEN_TRACE_EXPERTS_GATE, QWEN_TRACE_EXPERTS_UP, QWEN_TRACE_EXPERTS_ACT,
	QWEN_TRACE_SHARED_GATE, QWEN_TRACE_SHARED_UP, QWEN_TRACE_SHARED_ACT,
	QWEN_TRACE_MLP_GATE, QWEN_TRACE_MLP_UP, QWEN_TRACE_MLP_ACT,
	QWEN_TRACE_FFN, QWEN_TRACE_RESIDUAL,
	/* outputs of the MTP block */
	QWEN_TRACE_HEAD_NORM, QWEN_TRACE_HEAD,
	QWEN_TRACE_NORM, QWEN_TRACE_LOGITS,
	QWEN_TRACE_N
};

/* ---- the table of stages (stages.c) */

/*
 * Calls each for every stage of a model and of its MTP block with these parts.
 * Numbers ascend and are those of qwen_stage_number().  Stops at the first
 * nonzero result and returns it.
 */
int qwen_stages(const struct qwen_arch *a, const struct qwen_hparams *h,
    unsigned mtp_parts, int (*each)(void *arg, size_t number,
    const struct qwen_trace_stage *st), void *arg);

/*
 * Returns the number of a stage, below qwen_stage_count(). layer and head are 0
 * for stages without one; the MTP block is layer n_layer.
 */
size_t qwen_stage_number(const struct qwen_hparams *h,
    enum qwen_trace_kind kind, size_t layer, size_t head);
size_t qwen_stage_count(const struct qwen_hparams *h);

/* ---- a session that is traced (trace.c) */

struct qwen_tracing;

void qwen_tracing_free(struct qwen_tracing *tr);

/* Returns how many of n tokens one pass can trace. */
size_t qwen_trace_limit(const struct qwen_session *s, size_t n);

/* Returns 1 if the current pass traces the MTP block, in any row. */
int qwen_trace_block(const struct qwen_session *s);

/*
 * begin prepares a pass and returns 1 if any row is traced. end reports the
 * stages of a share after the pass, which may fail the share.
 */
int qwen_trace_begin(struct qwen_batch *b);
void qwen_trace_end(struct qwen_share *p);

/* Returns the memory for the numbers of row t; NULL if they are not traced. */
float *qwen_trace_at(const struct qwen_batch *b, size_t t,
    enum qwen_trace_kind kind, size_t layer, size_t head);

/*
 * Records all rows of x, stride numbers apart.  Call it only if b->trace is
 * set.
 */
void qwen_trace_rows(const struct qwen_batch *b, enum qwen_trace_kind kind,
    size_t layer, const void *x, size_t stride);

/*
 * Records scores and probabilities of attention.  The queries are ready, q_step
 * floats apart per head (probs.c).
 */
void qwen_trace_probs(struct qwen_batch *b, const struct qwen_layer *l,
    size_t q_step);

/* Records the logits that a head computes from xn. */
void qwen_trace_logits(struct qwen_batch *b, const struct qwen_weight *w,
    enum qwen_trace_kind kind, size_t layer);

#endif
