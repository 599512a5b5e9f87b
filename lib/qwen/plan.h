/* SPDX-License-Identifier: ISC */
/* qwen/plan.h - what a model will take: memory, bytes and work for a token. */
#ifndef QWEN_QWEN_PLAN_H
#define QWEN_QWEN_PLAN_H

#include "qwen/model.h"
#include "qwen/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What weights are for. */
enum qwen_plan_part {
	QWEN_PLAN_EMBEDDING, QWEN_PLAN_ATTENTION, QWEN_PLAN_DELTANET,
	QWEN_PLAN_ROUTER, QWEN_PLAN_EXPERTS, QWEN_PLAN_SHARED,
	QWEN_PLAN_FFN, QWEN_PLAN_OUTPUT, QWEN_PLAN_N
};

/* Of all weights of a part, and of those that one token uses. */
struct qwen_plan_sum {
	uint64_t	 params;	/* numbers */
	uint64_t	 bytes;
	uint64_t	 active;	/* numbers that a token uses */
	uint64_t	 read;		/* bytes read for it */
	uint64_t	 macs;		/* multiply-adds for it */
};

struct qwen_plan {
	/* asked for */
	size_t		 n_tokens;	/* of each timeline */
	size_t		 n_sequences;	/* timelines */
	size_t		 batch;		/* tokens of a pass */
	size_t		 n_guess;	/* guesses in a pass, of each timeline */
	/* bytes of memory */
	uint64_t	 weights;	/* mapped, shared by processes */
	uint64_t	 kv;		/* KV cache of all timelines */
	uint64_t	 state;		/* recurrent state of all timelines */
	uint64_t	 checkpoints;	/* that all timelines keep on the way */
	uint64_t	 scratch;	/* what a pass computes with */
	uint64_t	 guesses;	/* logits, and what states take of them */
	uint64_t	 other;		/* logits, tokens, widened tensors */
	uint64_t	 own;		/* all but the weights */
	/* one token after n_tokens others */
	uint64_t	 kv_read, kv_macs;	/* attention to them */
	uint64_t	 state_moved, state_macs;	/* DeltaNet */
	struct qwen_plan_sum part[QWEN_PLAN_N];	/* weights */
	struct qwen_plan_sum sum;		/* all of these, and those */
	uint64_t	 float_macs;	/* of sum.macs, as floats */
};

/* "embedding", "shared-expert"; NULL: no such part. */
const char *qwen_plan_part_name(enum qwen_plan_part part);

/*
 * The figures for n_sequences (0: one) timelines of n_tokens, read in passes of
 * batch tokens (0: the usual number), each with these checkpoints (NULL: none)
 * and so many guesses at a time (at most QWEN_GUESS_MAX).  Memory is what is
 * touched at most.  A number that would not fit is UINT64_MAX.
 */
void qwen_plan_make(struct qwen_plan *out, const struct qwen_model *m,
    size_t n_tokens, size_t n_sequences, size_t batch, size_t n_guess,
    const struct qwen_checkpoints *keep);

#ifdef __cplusplus
}
#endif

#endif
