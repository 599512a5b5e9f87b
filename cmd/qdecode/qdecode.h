/* SPDX-License-Identifier: ISC */
/* qdecode.h - resume interrupted runs, and shift a full context. */
#ifndef QDECODE_H
#define QDECODE_H

#include "tool/tool.h"

/*
 * A run: the tokens that one command generates, with the record of it in the
 * state file.  --save-every in qdecode(1) has the rules.
 */
struct qdecode_run {
	/* set by the caller */
	const char	*output;	/* -o */
	const char	*options;	/* all that influence the tokens */
	int		 new_run;	/* --new-run */
	/* internal */
	int		 in_place;	/* -s and -o are the same file */
	int		 announced;	/* upstream sent a ready record */
	struct qwen_fp	 base;		/* fingerprint of the announced state */
	int		 base_replaced;	/* the run saved over that state */
};

/*
 * Call after tool_intake_stdin, before tool_intake_state.  If the announced
 * state has been overwritten by this run's own saves, sets in->fp to the
 * fingerprint of the newer state.
 */
void qdecode_run_open(struct qdecode_run *run, struct tool_intake *in);

/*
 * Call after tool_intake_state.  Returns 1 if -o holds an earlier part of this
 * run: then the session is at the end of that part, in->extra.run describes it,
 * and no input is left to read.  Returns 0 if the run must begin.  Dies if the
 * file holds another, unfinished run.
 */
int qdecode_run_find(struct qdecode_run *run, struct tool_intake *in,
    struct qwen_model *m);

/*
 * Record the start of the run at the session's end, after n_input tokens of
 * stdin.
 */
void qdecode_run_begin(const struct qdecode_run *run, struct tool_intake *in,
    size_t n_input);

/*
 * Make room in a full context: replace the session by a new one, which reads
 * the first keep tokens and the newer half of the others again.
 */
void qdecode_shift(struct tool_intake *in, struct qwen_model *m, size_t keep);

#endif
