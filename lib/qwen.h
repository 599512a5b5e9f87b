/* SPDX-License-Identifier: ISC */
/*
 * qwen.h - libqwen, the engine: token ids in; token ids, logits and states out.
 *
 * The program below generates n tokens after a prompt.  Every function that
 * takes err returns -1 on failure and writes the reason to err:
 *
 *	qwen_model_open(&m, "model.gguf", NULL, &err);	  maps the weights
 *	qwen_session_new(&s, m, &err);			  an empty session
 *	qwen_session_eval(s, prompt, n_prompt, NULL, &err);
 *
 *	qwen_sampler_new(&c, &err);			  chooses tokens
 *	qwen_sampler_set(c, "temp", "0.7", &err);	  any number of options
 *	qwen_sampler_begin(c, qwen_model_n_vocab(m), &err);
 *	qwen_sampler_accept(c, prompt, n_prompt, 0, &err);
 *	while (n-- > 0) {
 *		qwen_sampler_sample(c, qwen_session_logits(s), NULL,
 *		    qwen_model_n_vocab(m), qwen_session_n_tokens(s), &id, &err);
 *		qwen_sampler_accept(c, &id, 1, 1, &err);
 *		qwen_session_eval(s, &id, 1, NULL, &err);
 *	}
 *	qwen_sampler_free(c);
 *	qwen_session_free(s);
 *	qwen_model_close(m);				  last
 *
 * libqwen(3) has the complete program. qwentext.h converts text to ids and ids
 * to text.
 */
#ifndef QWEN_H
#define QWEN_H

/* Errors; a model; sessions on a model; speculative decoding; sampling. */
#include "qwen/base.h"
#include "qwen/model.h"
#include "qwen/session.h"
#include "qwen/draft.h"
#include "qwen/sample.h"

/* Batches: many sessions at the same time. */
#include "qwen/work.h"

/* Saved sessions: states in files, and stores (folders of states). */
#include "qwen/state.h"
#include "qwen/store.h"

/* The record streams that the tools exchange in pipes. */
#include "qwen/stream.h"

/* Intermediate values of the forward pass. */
#include "qwen/trace.h"

/*
 * GGUF files; number formats; constrained output; this machine; resource needs.
 */
#include "qwen/gguf.h"
#include "qwen/quant.h"
#include "qwen/constraint.h"
#include "qwen/machine.h"
#include "qwen/plan.h"

#endif
