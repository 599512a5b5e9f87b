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
	int		 think;		/* 0: on; 1: off; -1: as the model likes */
	int64_t		 n;
	int		 n_threads, mask_unused;
	unsigned	 numerics;
};

extern struct qchat_opts qchat_opt;

/* Ctrl-C came since it was last set to 0. */
extern volatile sig_atomic_t qchat_interrupted;

struct chat {
	struct qwen_model	*model;
	struct qwen_tok		*tok;
	struct qwen_template	*template;
	struct qwen_session	*session;
	struct qwen_sampler	*options;	/* as they were given */
	struct qwen_sampler	*sampler;	/* of the answer, or NULL */
	struct qwen_pieces	*pieces;	/* what it needs; or NULL */
	struct qwen_cut		*cut;		/* answers end there; or NULL */
	struct qwen_header	 header;	/* has the endings */
	struct qwen_messages	*messages;
	char			*document;	/* /data, or NULL */
	size_t			 n_document;
	int			 thought;	/* the line on stderr is open */
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

/* ----------------------------------------------------------------- the rest */

/* A line that the user says: the answer to stdout. */
void qchat_turn(struct chat *c, const char *line);

/* A line that begins with a slash; 0: to leave. */
int qchat_command(struct chat *c, char *line);

/* Lines from stdin or the terminal, until they end. */
void qchat_talk(struct chat *c);

#endif
