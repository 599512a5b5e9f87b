/* SPDX-License-Identifier: ISC */
/* qprefill.h - beginnings that were read before, and traces. */
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

/* ------------------------------------------------------------------- traces */

/* A form beside those of streams, enum qwen_format. */
enum { QPREFILL_NPY = QWEN_FORMAT_RAW + 1 };

/* --trace; zero at first. */
struct qprefill_trace {
	const char	*stages;	/* NULL: none */
	const char	*out;		/* NULL: stdout */
	struct qwen_trace_range *range;	/* of the tokens that are read; none:
					   all of them */
	size_t		 n_range, cap_range;
	/* under way */
	char		*text;
	char		**pattern;	/* in text */
	size_t		 n_pattern, cap_pattern;
	struct cli_output *to;
	struct qwen_writer *w;		/* NULL: .npy */
	struct qwen_trace_stage stage;	/* the last of n_stage */
	size_t		 n_stage;
	size_t		 width;
	struct qwen_text row;
};

/* The argument of --trace-at, of an option with a trace for a target. */
void qprefill_trace_at(const struct cli_opt *o, const char *s);

/*
 * Trace what follows to the output, in a format of enum qwen_format or
 * QPREFILL_NPY; and be done.  They die.
 */
void qprefill_trace_begin(struct qprefill_trace *t,
    const struct tool_intake *in, int format);
void qprefill_trace_end(struct qprefill_trace *t, struct qwen_session *s);

#endif
