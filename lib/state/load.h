/* SPDX-License-Identifier: ISC */
/* load.h - a state that is being loaded, between its records and the whole. */
#ifndef QWEN_STATE_LOAD_H
#define QWEN_STATE_LOAD_H

#include "state/state.h"

/* Bytes of an object that have come. */
struct qwen_state_got {
	uint64_t	 kv, delta, conv;
};

struct qwen_state_in {
	struct qwen_session	*s;	/* NULL: the tokens only */
	struct qwen_state_sum	 sum;
	struct qwen_coder	*coder;
	struct qwen_state_extra	 x;
	size_t			 n_vocab;
	int			 have_info, have_sampler, ended;
	uint64_t		 n_tokens;
	int32_t			*tokens;
	uint64_t		 tokens_got;	/* bytes, as below */
	uint64_t		 logits_got;
	uint64_t		 generated_got;
	struct qwen_state_got	*got;		/* of each layer */
	struct qwen_fp		 total;
};

/*
 * The next record, whose check and place are right: what it holds goes into *v.
 * The end record sets v->ended if nothing is missing; v->total is the total of
 * the records before this one.
 */
int qwen_state_take(struct qwen_state_in *v,
    const struct qwen_state_rec *rec, struct qwen_err *err);

#endif
