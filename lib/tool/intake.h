/* SPDX-License-Identifier: ISC */
/*
 * intake.h - a part of tool.h: the tokens and the state that a tool that computes
 * reads, what the prefix store has of them, and the state that it saves.
 */
#ifndef TOOL_INTAKE_H
#define TOOL_INTAKE_H

#include "cli/cli.h"
#include "qwen.h"

/* ------------------------------------------------------ state and tokens in */

/*
 * What a command continues from: a state (FILE of -s, or on stdin) or none, and
 * the tokens on stdin after it.
 */
struct tool_saves;
struct tool_intake {
	const char		*state;		/* -s, or NULL; set by caller */
	int			 whole;		/* the tokens are the whole
						   text: no state may come;
						   set by caller */
	struct qwen_session	*session;	/* as the state was, or empty */
	struct qwen_state_extra	 extra;		/* from the state */
	int			 restored;	/* there was a state */
	int			 begins;	/* no token yet of this stream */
	int			 ready;		/* stdin told that the file is */
	struct qwen_fp		 fp;		/* there, of this fingerprint */
	int32_t			*tokens;	/* not in the session yet */
	size_t			 n, cap;
	uint64_t		*marks;		/* among them: how many tokens
						   go before; ascending */
	size_t			 n_marks, cap_marks;
	size_t			*places;	/* where the store gets checkpoints:
						   numbers of tokens like those of
						   marks, but descending */
	size_t			 n_places, cap_places;
	int			 saved;		/* the caller will save the state
						   (for a note of its size); set
						   by caller */
	size_t			 n_end;		/* tokens of the session when
						   tool_prefill is done */
	struct qwen_store	*store;		/* where tool_prefill puts what it
						   reads, or NULL */
	struct tool_saves	*saves;		/* what it asks now and then,
						   or NULL */
};

/*
 * Read stdin to its end and the state, by the rules of qdecode(1) on -s; dies
 * when they are broken.  in is zero but for state and whole.
 */
void tool_intake(struct tool_intake *in, struct qwen_model *m);

/* Its steps: stdin to its end; the state; is there room for the tokens? */
void tool_intake_stdin(struct tool_intake *in, struct qwen_model *m);
void tool_intake_state(struct tool_intake *in, struct qwen_model *m);
void tool_intake_fits(const struct tool_intake *in, const struct qwen_model *m);

void tool_intake_fini(struct tool_intake *in);

/* -------------------------------------------------------- the prefix store */

/* Options of the prefix store; zero at first. */
struct tool_store {
	const char	*dir;		/* NULL: none */
	uint64_t	 max;		/* bytes; 0: a share of the disk */
	int		 none;		/* --no-store */
};

/* What tool_store_max() sets for "none" and for 0: no limit. */
#define TOOL_STORE_UNLIMITED UINT64_MAX
/* Parse the size of --store-max into a uint64_t, or die with a usage error. */
void tool_store_max(const struct cli_opt *o, const char *arg);

/* When all options are read: without --store, take QWEN_STORE. */
void tool_store_choose(struct tool_store *o);

/*
 * Returns the open store, or NULL if none is named, or if it cannot be used, which
 * is noted.  o must live as long as the store.
 */
struct qwen_store *tool_store_open(struct tool_store *o);

/* Where to look for the beginning of a text that was read before. */
struct tool_reuse {
	struct cli_list	 states;	/* state files, tried in order */
	struct tool_store store;
};

/*
 * Replace in->session by a session from a state or the store, whichever has read
 * the most of the whole text (the session's tokens and in->tokens), and remove
 * from in->tokens the tokens that it has read.  Opens in->store, to which
 * tool_prefill then adds.  An unreadable state is an error; of an unreadable store
 * there is a note.  u must live as long as in.
 */
void tool_reuse(struct tool_intake *in, struct tool_reuse *u);

/*
 * Returns a session that has read the longest prefix of the ids that the store
 * has, to be freed by the caller; NULL if that prefix has no more than have
 * tokens.  Faults of the store are noted; out of memory, it dies.
 */
struct qwen_session *tool_store_get(struct qwen_store *st,
    struct qwen_model *m, const int32_t *ids, size_t n, size_t have);

/* Add what the session has read to the store; st may be NULL. */
void tool_store_put(struct qwen_store *st, const struct qwen_session *s);

/* Tokens between two calls of tool_store_put, about. */
enum { TOOL_STORE_STEP = 1024 };

/*
 * Set in->places, where the store gets checkpoints, for the tokens that are about
 * to be read: at marks, and where turns, paragraphs, lines and sentences end.  The
 * distance between two places is at least what a checkpoint pays for, and grows
 * with the distance from the end.  Models without recurrent state have none.
 */
void tool_places(struct tool_intake *in);

/* ------------------------------------------------------- reading and saving */

/* qwen_session_eval; dies. */
void tool_eval(struct qwen_session *s, const int32_t *ids, size_t n,
    const struct qwen_eval *how);

/*
 * cli_progress_start for n tokens that the session is going to read.  The estimate
 * takes into account that attention takes longer for later tokens.
 */
void tool_progress_start(struct qwen_session *s, size_t n);

/*
 * Print a note with the time that reading n tokens takes, in seconds; more is
 * appended to the note, as in "; the state will take about 344 MB", or "".
 */
void tool_report_reading(uint64_t n, double seconds, const char *more);

/*
 * Append in->tokens to the session, with progress, and note for -v how fast.
 * how may be NULL; its progress is replaced.  With a store, what was read goes
 * there, now and then and at the end, so that a run that is killed was not for
 * nothing.  Dies.
 */
void tool_prefill(struct tool_intake *in, const struct qwen_eval *how);

/*
 * Save the session and in->extra to a descriptor, called name in messages;
 * fp may be NULL.  Dies.
 */
void tool_save(struct tool_intake *in, int fd, const char *name,
    const struct qwen_state_opts *opts, struct qwen_fp *fp);

/* Without a word, to a descriptor where it stands: -1 and *err. */
int tool_save_to(struct tool_intake *in, int fd,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err);

/* Saving on the way, --save-every: saves.c. */
struct tool_saves {
	/* set by the caller */
	struct cli_output	*out;	/* a regular file, or not there */
	struct qwen_state_opts	 opts;
	double			 every;	/* seconds from one save to the next */
	/* our own */
	struct qwen_state_steps	*steps;	/* what the file has of them */
	int			 fd;	/* of that file, or -1 */
	double			 due;	/* when to save next */
	int			 failed;	/* the last save did */
	uint64_t		 n;	/* that did not, */
	uint64_t		 bytes;	/* what they wrote */
	double			 s;	/* and the time they took */
};

/* Dies unless path is a regular file or not there. */
void tool_saves_check(const char *path);

/* The clock starts. */
void tool_saves_begin(struct tool_saves *p);

/*
 * From here on, before the output is opened, SIGINT and SIGTERM wait for
 * tool_saves_now, which saves and ends by them; the second one ends at once.
 */
void tool_saves_on_signal(void);

/*
 * Saves if it is due: at most as often as requested, and spending at most half
 * of the time on saving.  Notes the first failure and continues.
 */
void tool_saves_now(struct tool_saves *p, struct tool_intake *in);

/* With -v, how they were; frees. */
void tool_saves_end(struct tool_saves *p);

#endif
