/* SPDX-License-Identifier: ISC */
/* qdecode.h - runs that can be gone on with, when they were killed; and texts that
   are longer than the context. */
#ifndef QDECODE_H
#define QDECODE_H

#include "tool/tool.h"

/*
 * A command that generates, as its state tells of it.
 * By the rules of qdecode(1) on --save-every.
 */
struct qdecode_run {
	/* set by the caller */
	const char	*output;	/* -o */
	const char	*options;	/* all that decides about the tokens */
	int		 again;		/* --new-run */
	/* our own */
	int		 in_place;	/* -s and -o are the same file */
	int		 announced;	/* upstream told of a state */
	struct qwen_fp	 base;		/* with this fingerprint */
	int		 moved_on;	/* which the file no longer holds */
};

/*
 * After tool_intake_stdin, before tool_intake_state: what a ready record told of
 * may be a state that the run has left behind.
 */
void qdecode_run_open(struct qdecode_run *run, struct tool_intake *in);

/*
 * After tool_intake_state: 1 if this very run was begun before.  Then the
 * session is at its end, as in->extra.run tells, and no token is left to read.
 * 0 if it has yet to begin.  Dies if the file holds another one unfinished.
 */
int qdecode_run_find(struct qdecode_run *run, struct tool_intake *in,
    struct qwen_model *m);

/* The session is where the run begins, after n_input tokens of stdin. */
void qdecode_run_begin(const struct qdecode_run *run, struct tool_intake *in,
    size_t n_input);

/*
 * The context is full: a session of the first keep tokens and the newer half of
 * the others, read anew, in place of that of in.
 */
void qdecode_shift(struct tool_intake *in, struct qwen_model *m, size_t keep);

#endif
