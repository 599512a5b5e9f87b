/* SPDX-License-Identifier: ISC */
/*
 * qwen/trace.h - what a model computes on the way to its logits.
 *
 * A stage is a place of the forward pass that has a name and, for each token, a
 * row of numbers; qwen-trace(7) says which there are.
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
	const char *what;	/* makes it: "attention", "experts" */
	size_t	 n;		/* numbers of a token; 0: one for each position
				   up to the token's own */
	int	 choices;	/* they are numbers of experts, int32 */
	size_t	 first;		/* position that has the first row: 1 in the
				   block that predicts, else 0 */
	/*
	 * What it is made of, "" after the last: stages, or a pattern where
	 * all heads are meant.
	 */
	char	 from[3][QWEN_TRACE_NAME];
};

/*
 * Call each for all stages that the model in a file has, in the order of
 * computing, until it returns non-zero.  QWEN_EUNSUP and QWEN_EFORMAT as of
 * qwen_model_open.
 */
int qwen_trace_stages(const struct qwen_gguf *g,
    int (*each)(void *arg, const struct qwen_trace_stage *stage), void *arg,
    struct qwen_err *err);

/*
 * The same of those that a session can tell of: with the block that predicts if
 * the model was opened with it, and the session has all that its next rows are
 * made of.
 */
void qwen_session_stages(const struct qwen_session *s,
    int (*each)(void *arg, const struct qwen_trace_stage *stage), void *arg);

/* Positions first .. last. */
struct qwen_trace_range {
	uint64_t first, last;
};

struct qwen_trace {
	/* names of stages, or patterns of fnmatch(3) */
	const char	*const *patterns;
	size_t		 n_patterns;
	const struct qwen_trace_range *at;	/* in any order; */
	size_t		 n_at;		/* 0: every position */
	/*
	 * Called for each position in ascending order, and for each in the
	 * order of the stages; non-zero stops the evaluation, which fails with
	 * *err as the callback left it.
	 */
	int	(*value)(void *arg, const struct qwen_trace_value *v,
		    struct qwen_err *err);
	void	*arg;
};

/*
 * From now on tell what the session computes: of the tokens that it reads, not
 * of those that it has read, and none are guessed meanwhile.  All is copied; NULL
 * is the end of it.  Changes no result, and the values are the same in any
 * batch.  A pattern that is no stage's is QWEN_ERANGE.  The block that predicts
 * is computed in passes that tell of it; where a session was cut so far back that
 * it cannot be, the evaluation fails: QWEN_EMISMATCH.
 */
int qwen_session_trace_sized(size_t size, struct qwen_session *s,
    const struct qwen_trace *t, struct qwen_err *err);
#define qwen_session_trace(...) \
	qwen_session_trace_sized(sizeof(struct qwen_trace), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
