/* SPDX-License-Identifier: ISC */
/*
 * qwen/trace.h - intermediate values of the forward pass.
 *
 * A stage is a named place in the forward pass that has a row of numbers for
 * each token; qwen-trace(7) lists the stages.
 */
#ifndef QWEN_QWEN_TRACE_H
#define QWEN_QWEN_TRACE_H

#include "qwen/session.h"
#include "qwen/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qwen_trace_stage {
	char	 name[QWEN_TRACE_NAME];	/* "blk.3.ffn" */
	const char *what;	/* operation: "attention", "experts" */
	size_t	 n;		/* numbers per token; 0: one per position up to
				   the token's own */
	int	 choices;	/* the values are expert numbers, int32 */
	size_t	 first;		/* first position that has a row: 1 in the MTP
				   block, else 0 */
	/*
	 * The stages it is computed from, ended by ""; a pattern means all
	 * heads.
	 */
	char	 from[3][QWEN_TRACE_NAME];
};

/*
 * Calls each for all stages of the model in a file, in the order of
 * computation, until it returns nonzero.  QWEN_EUNSUP and QWEN_EFORMAT as in
 * qwen_model_open.
 */
int qwen_trace_stages(const struct qwen_gguf *g,
    int (*each)(void *arg, const struct qwen_trace_stage *stage), void *arg,
    struct qwen_err *err);

/*
 * The same for the stages that a session can trace: with the MTP block if the
 * model was opened with it and the session has the inputs of the block's next
 * rows.
 */
void qwen_session_stages(const struct qwen_session *s,
    int (*each)(void *arg, const struct qwen_trace_stage *stage), void *arg);

/* Positions first .. last. */
struct qwen_trace_range {
	uint64_t first, last;
};

struct qwen_trace {
	/* names of stages, or fnmatch(3) patterns */
	const char	*const *patterns;
	size_t		 n_patterns;
	const struct qwen_trace_range *at;	/* in any order */
	size_t		 n_at;		/* 0: every position */
	/*
	 * Called for each position in ascending order, and for each stage in
	 * order; if it returns nonzero, the evaluation stops and fails with
	 * *err as set by the callback.
	 */
	int	(*value)(void *arg, const struct qwen_trace_value *v,
		    struct qwen_err *err);
	void	*arg;
};

/*
 * Starts tracing the tokens that the session evaluates from now on; copies *t;
 * NULL stops tracing.  Changes no result; the values do not depend on the batch
 * size.  No drafts are computed while tracing.  QWEN_ERANGE for a pattern that
 * matches no stage.  If the MTP block is traced and the session was cut so far
 * back that the block cannot be computed, the evaluation fails with
 * QWEN_EMISMATCH.
 */
int qwen_session_trace_sized(size_t size, struct qwen_session *s,
    const struct qwen_trace *t, struct qwen_err *err);
#define qwen_session_trace(...) \
	qwen_session_trace_sized(sizeof(struct qwen_trace), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
