/* SPDX-License-Identifier: ISC */
/*
 * intake.h - part of tool.h: the tokens and the state that a tool reads, reuse
 * of prefixes that were read before, and saving of states.
 */
#ifndef TOOL_INTAKE_H
#define TOOL_INTAKE_H

#include "cli/cli.h"
#include "qwen.h"

/* ---------------------------------------------- tokens and state from input */

/*
 * The images in a text: spans, and the rows that came for them.  All zero at
 * first, except name.
 */
struct tool_spans {
	const char		*name;	/* of the stream, for messages */
	struct qwen_span_rows	*v;	/* ascending; rows may be NULL */
	size_t			 n, cap;
	struct tool_rows {
		struct qwen_fp	 hash;
		size_t		 n, need, cap;	/* numbers */
		float		*x;
	}			*rows;	/* by hash */
	size_t			 n_rows, cap_rows;
};

/*
 * tool_spans_add appends a span that begins at a position; m is the model that
 * will read it.  tool_spans_take takes a record of rows.  tool_spans_end gives
 * each span its rows after the last record, and moves all spans by this many
 * positions.  tool_spans_check dies if rows are missing that come after this
 * position.  All die if the stream is wrong.
 */
void tool_spans_add(struct tool_spans *p, const struct qwen_model *m,
    const struct qwen_span *s, uint64_t start);
void tool_spans_take(struct tool_spans *p, const struct qwen_record *rec);
void tool_spans_end(struct tool_spans *p, uint64_t by);
void tool_spans_check(const struct tool_spans *p, uint64_t from);
void tool_spans_fini(struct tool_spans *p);

/*
 * The input of a command: a state (FILE of -s, or on stdin) or none, and the
 * tokens on stdin after it.
 */
struct tool_saves;
struct tool_intake {
	const char		*state;		/* -s, or NULL; set by caller */
	int			 whole;		/* the tokens are the whole
						   text, so a state on stdin is
						   an error; set by caller */
	struct qwen_session	*session;	/* of the state, or empty */
	struct qwen_state_extra	 extra;		/* of the state */
	int			 restored;	/* a state was loaded */
	int			 begins;	/* no token since the last
						   header */
	int			 ready;		/* a ready record came on
						   stdin */
	struct qwen_fp		 fp;		/* of the state file, by that
						   record */
	int32_t			*tokens;	/* not in the session yet */
	size_t			 n, cap;
	struct tool_spans	 spans;		/* of the tokens; starts are
						   positions in tokens, and
						   after tool_intake in the
						   session */
	uint64_t		*marks;		/* positions in tokens from mark
						   records, ascending */
	size_t			 n_marks, cap_marks;
	size_t			*places;	/* positions in tokens where the
						   store gets checkpoints,
						   descending */
	size_t			 n_places, cap_places;
	int			 saved;		/* the caller will save the
						   state, so that notes give its
						   size; set by caller */
	size_t			 n_end;		/* tokens of the session after
						   tool_prefill */
	struct qwen_store	*store;		/* tool_prefill saves to it; or
						   NULL */
	struct tool_saves	*saves;		/* tool_prefill calls
						   tool_saves_now; or NULL */
};

/*
 * Reads stdin to its end and the state, by the rules of -s in qdecode(1); dies
 * if they are broken. *in must be zero except state and whole.
 */
void tool_intake(struct tool_intake *in, struct qwen_model *m);

/*
 * The steps of tool_intake: read stdin to its end; load the state; check that
 * the tokens fit into the context.
 */
void tool_intake_stdin(struct tool_intake *in, struct qwen_model *m);
void tool_intake_state(struct tool_intake *in, struct qwen_model *m);
void tool_intake_fits(const struct tool_intake *in, const struct qwen_model *m);

void tool_intake_fini(struct tool_intake *in);

/* -------------------------------------------------------- the prefix store */

/* Options of the prefix store; all zero at first. */
struct tool_store {
	const char	*dir;		/* NULL: no store */
	uint64_t	 max;		/* bytes; 0: a share of the disk */
	int		 none;		/* --no-store */
};

/* The value of max for "none" or 0: no limit. */
#define TOOL_STORE_UNLIMITED UINT64_MAX
/* Parses the size of --store-max into a uint64_t; usage error if invalid. */
void tool_store_max_parse(const struct cli_opt *o, const char *arg);

/* Takes $QWEN_STORE if there was no --store; call after reading all options. */
void tool_store_from_env(struct tool_store *o);

/*
 * Opens the store.  Returns NULL if none is named or if it cannot be used,
 * which is noted. o must live as long as the store.
 */
struct qwen_store *tool_store_open(struct tool_store *o);

/* Where to find the beginning of a text that was read before. */
struct tool_reuse {
	struct cli_list	 states;	/* state files, tried in order */
	struct tool_store store;
};

/*
 * Replaces in->session by the session of the state or store entry that has read
 * most of the whole text (the session's tokens and in->tokens), and removes the
 * tokens read from in->tokens.  Opens in->store; tool_prefill then saves to it.
 * Dies if a state is unreadable; only notes errors of the store. u must live as
 * long as in.
 */
void tool_reuse(struct tool_intake *in, struct tool_reuse *u);

/*
 * Restores the longest prefix of the ids from the store; the caller frees the
 * session.  Returns NULL if the store has no prefix of more than `have' tokens.
 * Errors of the store are noted; dies if out of memory.
 */
struct qwen_session *tool_store_restore(struct qwen_store *st,
    struct qwen_model *m, const int32_t *ids, size_t n, size_t have);

/* Saves the session to the store; st may be NULL. */
void tool_store_save(struct qwen_store *st, const struct qwen_session *s);

/* tokens between two calls of tool_store_save, roughly */
enum { TOOL_STORE_STEP = 1024 };

/*
 * Sets in->places, the positions in in->tokens where the store gets
 * checkpoints: marks, and ends of turns, paragraphs, lines and sentences.  Two
 * places are far enough apart that a checkpoint costs little beside reading the
 * tokens between them; their distance grows with the distance from the end.
 * Models without recurrent state have no places.
 */
void tool_places(struct tool_intake *in);

/* ------------------------------------------------------- reading and saving */

/* qwen_session_eval; dies on errors. */
void tool_eval(struct qwen_session *s, const int32_t *ids, size_t n,
    const struct qwen_eval *how);

/*
 * Starts a progress display of n tokens that the session will read.  Its
 * estimate takes into account that attention takes longer for later tokens.
 */
void tool_progress_start(struct qwen_session *s, size_t n);

/*
 * Notes the time that reading n tokens takes, in seconds.  Appends more, such
 * as "; the state will take about 344 MB", or "".
 */
void tool_report_reading(uint64_t n, double seconds, const char *more);

/*
 * Appends in->tokens to the session, shows progress, and prints the speed with
 * -v. how may be NULL; its progress callback is replaced.  Saves what it has
 * read to in->store at intervals and at the end, so that a killed run loses
 * little.  Dies.
 */
void tool_prefill(struct tool_intake *in, const struct qwen_eval *how);

/*
 * Saves the session and in->extra to a descriptor; name is for messages, fp may
 * be NULL.  Dies.
 */
void tool_save(struct tool_intake *in, int fd, const char *name,
    const struct qwen_state_opts *opts, struct qwen_fp *fp);

/* The same at the descriptor's offset, without messages: -1 with *err set. */
int tool_save_to(struct tool_intake *in, int fd,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err);

/* Periodic saves for --save-every. */
struct tool_saves {
	/* set by the caller */
	struct cli_output	*out;	/* a regular file, or missing */
	struct qwen_state_opts	 opts;
	double			 every;	/* seconds between two saves */
	/* used by saves.c only: */
	struct qwen_state_steps	*steps;	/* state of the file's saves */
	int			 fd;	/* of the file, or -1 */
	double			 due;	/* time of the next save */
	int			 failed;	/* the last save failed */
	uint64_t		 n;	/* number of successful saves, */
	uint64_t		 bytes;	/* bytes written by them, */
	double			 s;	/* and their seconds */
};

/* Dies unless path is a regular file or does not exist. */
void tool_saves_check(const char *path);

/* Starts the clock. */
void tool_saves_begin(struct tool_saves *p);

/*
 * From now on, the first SIGINT or SIGTERM makes tool_saves_now save and end
 * the process by the signal; a second one ends it at once.  Call before the
 * output is opened.
 */
void tool_saves_on_signal(void);

/*
 * Saves if a save is due: at most as often as requested, spending at most half
 * of the time on saving.  Notes the first failure and continues.
 */
void tool_saves_now(struct tool_saves *p, struct tool_intake *in);

/* Frees *p's memory; with -v, prints the number and time of the saves. */
void tool_saves_end(struct tool_saves *p);

#endif
