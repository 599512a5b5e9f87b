/* SPDX-License-Identifier: ISC */
/* qwen/plan.h - what a model needs: memory, and bytes and work per token. */
#ifndef QWEN_QWEN_PLAN_H
#define QWEN_QWEN_PLAN_H

#include "qwen/model.h"
#include "qwen/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The purpose of weights. */
enum qwen_plan_part {
	QWEN_PLAN_EMBEDDING, QWEN_PLAN_ATTENTION, QWEN_PLAN_DELTANET,
	QWEN_PLAN_ROUTER, QWEN_PLAN_EXPERTS, QWEN_PLAN_SHARED,
	QWEN_PLAN_FFN, QWEN_PLAN_OUTPUT, QWEN_PLAN_N
};

/* Sums over all weights of a part, and over those that one token uses. */
struct qwen_plan_sum {
	uint64_t	 params;	/* number of weights */
	uint64_t	 bytes;
	uint64_t	 active;	/* weights that one token uses */
	uint64_t	 read;		/* bytes read for one token */
	uint64_t	 macs;		/* multiply-adds for one token */
};

struct qwen_plan {
	/* the arguments of qwen_plan_make */
	size_t		 n_tokens;	/* per session */
	size_t		 n_sequences;	/* sessions */
	size_t		 batch;		/* tokens per pass */
	size_t		 n_guess;	/* drafts per pass and session */
	/* memory, in bytes */
	uint64_t	 weights;	/* mapped; processes share it */
	uint64_t	 kv;		/* KV cache of all sessions */
	uint64_t	 state;		/* recurrent state of all sessions */
	uint64_t	 checkpoints;	/* of all sessions */
	uint64_t	 scratch;	/* scratch memory of a pass */
	uint64_t	 guesses;	/* logits and state copies for drafts */
	uint64_t	 other;		/* logits, tokens, widened tensors */
	uint64_t	 own;		/* all except the weights */
	/* the cost of one token after n_tokens others */
	uint64_t	 kv_read, kv_macs;	/* attention to these tokens */
	uint64_t	 state_moved, state_macs;	/* DeltaNet */
	struct qwen_plan_sum part[QWEN_PLAN_N];	/* by purpose */
	struct qwen_plan_sum sum;		/* all parts and the two lines
						   above */
	uint64_t	 float_macs;	/* part of sum.macs in floating point */
};

/* Returns "embedding", "shared-expert" and so on; NULL for an unknown part. */
const char *qwen_plan_part_name(enum qwen_plan_part part);

/*
 * Computes the figures for n_sequences (0: one) sessions of n_tokens tokens
 * each, read in passes of batch tokens (0: the default), with these checkpoints
 * (NULL: none) and n_guess drafts per pass (at most QWEN_GUESS_MAX).  Memory is
 * an upper bound of what is touched.  Overflow gives UINT64_MAX.
 */
void qwen_plan_make(struct qwen_plan *out, const struct qwen_model *m,
    size_t n_tokens, size_t n_sequences, size_t batch, size_t n_guess,
    const struct qwen_checkpoints *keep);

/* What one device has of a model. */
struct qwen_plan_home {
	char		 device[128];	/* "cpu", "cuda:0" */
	char		 card[96];	/* its name, if it was opened; or "" */
	char		 what[400];	/* "layers 0-39, head" */
	/* bytes; of the embedding and the MTP block, nothing */
	uint64_t	 weights;	/* as in the file */
	uint64_t	 kv, state;	/* of n_sequences sessions */
	uint64_t	 scratch;	/* to compute a pass */
	uint64_t	 read;		/* for one token after n_tokens others */
	uint64_t	 macs, float_macs;	/* for it; the latter in floating
						   point */
	/* of a card; 0: unknown */
	uint64_t	 left;		/* bytes that it may take */
	double		 speed;		/* of its memory, bytes/s, by its clock
					   and width */
};

/*
 * Plans what each device of a list, as in qwen_model_opts, would have of the
 * model; NULL: what it has now.  The CPU is first.  n_tokens, n_sequences and
 * batch are as for qwen_plan_make.  A card is opened only if the list does not say
 * how much memory it may take.  Writes up to max elements and their number to *n.
 * 0, or -1: QWEN_ERANGE if the text names no device or layer, and errors of cards.
 */
int qwen_plan_homes(struct qwen_plan_home *out, size_t max, size_t *n,
    const struct qwen_model *m, const char *device, size_t n_tokens,
    size_t n_sequences, size_t batch, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
