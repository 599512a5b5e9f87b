/* SPDX-License-Identifier: ISC */
/* qprefill.h - beginnings of a text that were read before. */
#ifndef QPREFILL_H
#define QPREFILL_H

#include "tool/tool.h"

/* Where the beginning of a text may have been read before. */
struct qprefill_reuse {
	struct cli_list	 states;	/* files, tried in order */
	struct tool_store store;
};

/*
 * Replace in->session by the one that has read most of what it and in->tokens
 * say, from a state or the store, and take what it has read off in->tokens.
 * Opens in->store, where tool_prefill then puts what it reads.  A state that
 * cannot be read is an error; of the store, a note.  u lives as long as in.
 */
void qprefill_reuse(struct tool_intake *in, struct qprefill_reuse *u);

#endif
