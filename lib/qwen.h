/* SPDX-License-Identifier: ISC */
/*
 * qwen.h - libqwen, the engine: token ids in, token ids, logits and state out.
 *
 * These generate n tokens after those of a prompt; each that has err returns -1
 * where it fails, and says why in it:
 *
 *	qwen_model_open(&m, "model.gguf", NULL, &err);	  weights, mapped
 *	qwen_session_new(&s, m, &err);			  a timeline
 *	qwen_session_eval(s, prompt, n_prompt, NULL, &err);
 *
 *	qwen_sampler_new(&c, &err);			  what chooses
 *	qwen_sampler_set(c, "temp", "0.7", &err);	  as often as wanted
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
 * libqwen(3) has it as a program; qwentext.h makes ids of text, and text of ids.
 */
#ifndef QWEN_H
#define QWEN_H

/* Errors and the like; a model, a timeline on it, and choosing tokens. */
#include "qwen/base.h"
#include "qwen/model.h"
#include "qwen/session.h"
#include "qwen/draft.h"
#include "qwen/sample.h"

/* Many timelines at the same time. */
#include "qwen/work.h"

/* What is kept: a timeline in a file, and a folder of those. */
#include "qwen/state.h"
#include "qwen/store.h"

/* What the tools say to each other in pipes. */
#include "qwen/stream.h"

/* What a model computes on the way. */
#include "qwen/trace.h"

/* A model file itself; replies that must be of a form; this machine; what fits. */
#include "qwen/gguf.h"
#include "qwen/quant.h"
#include "qwen/constraint.h"
#include "qwen/machine.h"
#include "qwen/plan.h"

#endif
