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
};

extern struct qchat_opts qchat_opt;

/* Ctrl-C came since it was last set to 0. */
extern volatile sig_atomic_t qchat_interrupted;

/* How thoughts begin to look different on stderr, and end to; or "". */
extern const char *qchat_dim, *qchat_plain;

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
	char			*document;	/* /data, or NULL */
	size_t			 n_document;
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

/* A document before what is said next, which becomes c's: UTF-8, or -1. */
int qchat_document(struct chat *c, const char *name, char *text, size_t n);

/*
 * The prompt for the conversation as it is: how many tokens it has, and whether
 * the answer to it begins with a thought; either may be NULL.  -1 if the
 * template refuses it: cli_err.
 */
int qchat_prompt(struct chat *c, size_t *n_tokens, int *thinks);

/* Model, template, context and settings, as notes. */
void qchat_show(struct chat *c);

/* A line that begins with a slash; 0: to leave. */
int qchat_command(struct chat *c, char *line);

/* The i-th command, with its slash, or NULL; what it takes, or NULL. */
const char *qchat_command_name(size_t i, const char **arg);

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

#endif
