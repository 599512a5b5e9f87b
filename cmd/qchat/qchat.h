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
	size_t	 at;	/* number of its message; SIZE_MAX: the next */
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
	struct qchat_document	*documents;	/* those of messages, then
						   those for the next one */
	size_t			 n_documents, cap_documents;
	size_t			 mark;		/* tokens of the prompt up to
						   the end of the documents of
						   the last message; 0: none */
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
 * Read the ids of a prompt that the session has not read.  The answer's turn begins
 * after the first turn ids.  Returns 0, or -1 after Ctrl-C.
 */
int qchat_read(struct chat *c, const int32_t *ids, size_t n, size_t turn);

/*
 * qchat_render() makes the prompt of the conversation: 0, or -1 and cli_err if the
 * template refuses it.  qchat_encode() returns the ids of a prompt, to free(), and
 * in *turn how many of them come before its last turn; turn may be NULL.
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

/*
 * Put a document before the next message.  c owns the text then.  -1 and a warning
 * if it is not UTF-8.
 */
int qchat_document(struct chat *c, const char *name, char *text, size_t n);

/* The number of documents for the next message. */
size_t qchat_documents(const struct chat *c);

/*
 * Add a message with the documents for the next one, and return their number.  If
 * that is not 0, the caller drops the message again.
 */
size_t qchat_say_documents(struct chat *c);

/* Add a message of these documents and a text, and set c->mark. */
void qchat_say_all(struct chat *c, const char *text, size_t n);

/* Drop the last message, which is the user's; keep its documents for the next. */
void qchat_take_back(struct chat *c);

/* Forget the documents of the oldest k messages, which are dropped. */
void qchat_forget_documents(struct chat *c, size_t k);

/*
 * Drop the last document for the next message, with a note: 1, or 0 if there is
 * none.  Drop all documents for the next message; drop all documents.
 */
int qchat_drop_document(struct chat *c);
void qchat_drop_documents(struct chat *c);
void qchat_end_documents(struct chat *c);

/* Whether the model thinks, now or after /think on. */
int qchat_can_think(struct chat *c);

/* Model, template, context and settings, as notes. */
void qchat_show(struct chat *c);

/* A line that begins with a slash; 0: to leave. */
int qchat_command(struct chat *c, char *line);

/* Whether a line of n bytes begins with a command whose argument is a file. */
int qchat_wants_file(const char *line, size_t n);

/*
 * The i-th word that may complete the end of a line of n bytes, or NULL after the
 * last one; *from is where in the line the word begins.
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
 * Let the terminal show what the user types, or not.  Call qchat_echo_begin() first.
 * Signal handlers may call qchat_echo_on().
 */
void qchat_echo_begin(void);
void qchat_echo_on(void);
void qchat_echo_off(void);

#endif
