/* SPDX-License-Identifier: ISC */
/* answer.h - completions and chats; for answer.c and echo.c. */
#ifndef QSERVE_ANSWER_H
#define QSERVE_ANSWER_H

#include "qserve.h"

/* The state of a call. */
struct qserve_answering {
	struct qserve_reader	 reader;
	struct qwen_request	*q;
	uint64_t		 created;
	struct qwen_answer_stream *sse;
	struct qwen_sampler	*sampler;
	char			*grammar;	/* GBNF, or NULL */
	size_t			 n_grammar;
	struct qwen_text	 sampling;	/* settings in the last
						   request */
	struct qserve_ids	{
		int32_t	*id;
		size_t	 n, cap;
	}			*ids;		/* ids of each answer to a chat,
						   for the history; or NULL */
};

/*
 * Put the prompts in front of the answers, then call qserve_answer_generate(),
 * which generates the answers.
 */
void qserve_echo(struct qserve_call *c);
void qserve_answer_generate(struct qserve_call *c);

/*
 * qserve_answer_fail ends the call with an error and cancels its jobs.
 * qserve_answer_ended handles the end event of job i.
 */
void qserve_answer_fail(struct qserve_call *c, const char *code,
    const char *message);
void qserve_answer_ended(struct qserve_call *c, size_t i,
    const struct qwen_event *ev);

#endif
