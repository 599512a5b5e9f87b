/* SPDX-License-Identifier: ISC */
/* qchat.h - what the parts of qchat share. */
#ifndef QCHAT_H
#define QCHAT_H

#include <signal.h>

#include "tool/tool.h"
#include "text/request/request.h"

/* What the command line says. */
struct qchat_opts {
	const char	*model, *template, *system;
	enum qwen_systems systems;
	const char	*placeholder;	/* --image-placeholder, or NULL */
	const char	*question;	/* the only one, or NULL */
	int		 think;		/* 0: on; 1: off; -1: as the model likes */
	int64_t		 n;
	int		 n_threads, mask_unused, hide_thinking, shift;
	uint64_t	 mem;		/* bytes of its cache */
	unsigned	 numerics;
	struct tool_store store;
	struct cli_list	 data;		/* documents to begin with */
};

extern struct qchat_opts qchat_opt;

/* Ctrl-C came since it was last set to 0. */
extern volatile sig_atomic_t qchat_interrupted;

/* How thoughts begin to look different on stderr, and end to; or "". */
extern const char *qchat_dim, *qchat_plain;

struct qchat_document {
	char	*name, *text;
	size_t	 n;
	size_t	 at;	/* number of its message; SIZE_MAX: none yet */
};

struct chat {
	struct qwen_model	*model;
	struct qwen_tok		*tok;
	struct qwen_template	*template;
	struct qwen_cache	*cache;
	struct qwen_session	*session;	/* in it */
	size_t			 n_ctx;		/* tokens, by model and cache */
	struct tool_draft	 draft;
	struct qwen_drafter	*drafter;	/* of the session */
	struct qwen_sampler	*options;	/* as they were given */
	struct qwen_sampler	*sampler;	/* of the answer, or NULL */
	struct qwen_pieces	*pieces;	/* what it needs; or NULL */
	struct qwen_cut		*cut;		/* answers end there; or NULL */
	struct qwen_header	 header;	/* has the endings */
	struct qwen_messages	*messages;
	struct qchat_document	*documents;	/* of messages in order, then
						   of what is said next */
	size_t			 n_documents, cap_documents;
	size_t			 mark;		/* tokens of the prompt up to
						   their end; 0: there are none */
	struct qwen_store	*store;		/* or NULL */
	uint64_t		 tries;		/* answers before, to the same */
	int			 thought;	/* one has begun on stderr */
	int			 said;		/* there is something of a reply */
};

/* -------------------------------------------------------- the conversation */

/* What a user or the system says; join: on top of what was said. */
void qchat_say(struct chat *c, const char *role, const char *text, size_t n,
    int join);

/* Whether to think, as the options say. */
void qchat_think(struct chat *c);

/* Begin anew; system may be NULL. */
void qchat_reset(struct chat *c, const char *system);

/* Where answers stop, by the options. */
void qchat_stops(struct chat *c);

/* ----------------------------------------------------------------- the rest */

/* What the user says, and the answer to stdout; -1 after a warning. */
int qchat_turn(struct chat *c, const char *text, size_t n);

/* The answer to the last message, which is the user's; likewise. */
int qchat_reply(struct chat *c);

/*
 * The session reads what it lacks of the ids of a prompt, of which the first turn
 * ones are before the answer's turn: 0, or -1 after Ctrl-C.
 */
int qchat_read(struct chat *c, const int32_t *ids, size_t n, size_t turn);

/*
 * The prompt for the conversation, or -1: the template refuses it, cli_err.  Its
 * ids, free(), and how many are before its last turn, which may be NULL.
 */
int qchat_render(struct chat *c, struct qwen_prompt **p);
int32_t *qchat_encode(struct chat *c, const struct qwen_prompt *p, size_t *n,
    size_t *turn);

/*
 * The prompt for the conversation as it is: how many tokens it has, and whether
 * the answer to it begins with a thought; either may be NULL.  -1 if the
 * template refuses it: cli_err.
 */
int qchat_prompt(struct chat *c, size_t *n_tokens, int *thinks);

/* --------------------------------------------------------------- documents */

/* One more before what is said next, which becomes c's: UTF-8, or -1. */
int qchat_document(struct chat *c, const char *name, char *text, size_t n);

/* How many wait for what is said next. */
size_t qchat_documents(const struct chat *c);

/* Say them, for now: a message, to be dropped, if it is not 0. */
size_t qchat_say_documents(struct chat *c);

/* Say them and a text, which is a message, and set c->mark. */
void qchat_say_all(struct chat *c, const char *text, size_t n);

/* Drop the last message, which is the user's; its documents wait again. */
void qchat_take_back(struct chat *c);

/* The oldest k messages are gone. */
void qchat_forget_documents(struct chat *c, size_t k);

/* Drop the last that waits, with a note: 1, or 0; all that wait; all. */
int qchat_drop_document(struct chat *c);
void qchat_drop_documents(struct chat *c);
void qchat_end_documents(struct chat *c);

/* Whether the template can be told to let the model think. */
int qchat_can_think(struct chat *c);

/* Model, template, context and settings, as notes. */
void qchat_show(struct chat *c);

/* A line that begins with a slash; 0: to leave. */
int qchat_command(struct chat *c, char *line);

/* Whether the command that a line of n bytes begins with takes a file. */
int qchat_wants_file(const char *line, size_t n);

/*
 * The i-th word that can stand where a line of n bytes ends, and where in it that
 * word begins; NULL after the last.
 */
const char *qchat_word(const char *line, size_t n, size_t i, size_t *from);

/* /set: the name of an option, and its value. */
void qchat_set(struct chat *c, const char *arg);

/* Lines from stdin or the terminal, until they end. */
void qchat_talk(struct chat *c);

/* ------------------------------------------------------- lines, to be edited */

/* Whether it is so, on a terminal. */
int qchat_edit_begin(void);

/*
 * A line as it was typed, to free(), with marks for what was pasted; NULL where
 * there are no more, or after Ctrl-C.  The same with that in their places, before
 * the next line: it takes the line.
 */
char *qchat_edit_line(const char *prompt);
char *qchat_edit_unmark(char *line);

void qchat_edit_end(void);

/*
 * What is typed is shown by the terminal, or not; begin before either.  The first
 * one may be called by handlers of signals.
 */
void qchat_echo_begin(void);
void qchat_echo_on(void);
void qchat_echo_off(void);

#endif
