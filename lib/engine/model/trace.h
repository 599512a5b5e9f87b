/* SPDX-License-Identifier: ISC */
/* trace.h - the stages of the forward pass, and who looks on. */
#ifndef QWEN_MODEL_TRACE_H
#define QWEN_MODEL_TRACE_H

#include "engine/model/model.h"

struct qwen_batch;
struct qwen_share;

/* In the order of computing.  Those of a layer have a name in a table. */
enum qwen_trace_kind {
	QWEN_TRACE_EMBED,
	/* what goes into the block that predicts */
	QWEN_TRACE_ENORM, QWEN_TRACE_HNORM, QWEN_TRACE_EH_PROJ,
	QWEN_TRACE_Q, QWEN_TRACE_GATE, QWEN_TRACE_K, QWEN_TRACE_V,
	QWEN_TRACE_Q_ROPE, QWEN_TRACE_K_ROPE,
	QWEN_TRACE_SCORES, QWEN_TRACE_PROBS,	/* one a head */
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
	/* and what comes of it */
	QWEN_TRACE_HEAD_NORM, QWEN_TRACE_HEAD,
	QWEN_TRACE_NORM, QWEN_TRACE_LOGITS,
	QWEN_TRACE_N
};

/* ---- the table (stages.c) */

/*
 * Each stage of a model, and of a block that predicts of these parts: its
 * number, which ascends, as qwen_stage_number() has it.  Non-zero stops, and is
 * returned.
 */
int qwen_stages(const struct qwen_arch *a, const struct qwen_hparams *h,
    unsigned mtp_parts, int (*each)(void *arg, size_t number,
    const struct qwen_trace_stage *st), void *arg);

/*
 * Layer and head are 0 of what has none; the block that predicts is layer
 * n_layer.  Numbers are below the count.
 */
size_t qwen_stage_number(const struct qwen_hparams *h,
    enum qwen_trace_kind kind, size_t layer, size_t head);
size_t qwen_stage_count(const struct qwen_hparams *h);

/* ---- a session that is traced (trace.c) */

struct qwen_tracing;

void qwen_tracing_free(struct qwen_tracing *tr);

/* Of n tokens to read, as many as a pass has room to tell of. */
size_t qwen_trace_limit(const struct qwen_session *s, size_t n);

/* Is the block that predicts told of, of any row of the pass under way? */
int qwen_trace_block(const struct qwen_session *s);

/*
 * A pass: before it, whether any row is told of; after it, which may fail a
 * share.
 */
int qwen_trace_begin(struct qwen_batch *b);
void qwen_trace_end(struct qwen_share *p);

/* Where the numbers of row t go; NULL: nobody wants them. */
float *qwen_trace_at(const struct qwen_batch *b, size_t t,
    enum qwen_trace_kind kind, size_t layer, size_t head);

/* All rows of x, stride apart: for who has looked at b->trace. */
void qwen_trace_rows(const struct qwen_batch *b, enum qwen_trace_kind kind,
    size_t layer, const void *x, size_t stride);

/*
 * Scores and probabilities of attention, of queries that are ready, q_step from
 * one head's to the next (probs.c).
 */
void qwen_trace_probs(struct qwen_batch *b, const struct qwen_layer *l,
    size_t q_step);

/* The logits that a head makes of what is in xn. */
void qwen_trace_logits(struct qwen_batch *b, const struct qwen_weight *w,
    enum qwen_trace_kind kind, size_t layer);

#endif
