/* SPDX-License-Identifier: ISC */
/* qchat.h - shared by the files of qchat. */
#ifndef QCHAT_H
#define QCHAT_H

#include <signal.h>

#include "text/request/request.h"
#include "tool/images.h"

/* The options of the command line. */
struct qchat_opts {
	const char	*model, *template, *system;
	enum qwen_systems systems;
	const char	*placeholder;	/* --image-placeholder, or NULL */
	const char	*question;	/* of the command line, or NULL */
	int		 think;		/* 0: on; 1: off; -1: the template's
					   default */
	int64_t		 n;
	int		 n_threads, mask_unused, hide_thinking, shift;
	uint64_t	 mem;		/* limit of the KV cache in bytes; 0:
					   none */
	unsigned	 numerics;
	struct tool_store store;
	struct cli_list	 data;		/* --data, and images */
	struct tool_qimage images;	/* --mmproj, ... */
};

extern struct qchat_opts qchat_opt;

/* Set by Ctrl-C; cleared before each input and answer. */
extern volatile sig_atomic_t qchat_interrupted;

/* Terminal sequences before and after thoughts on stderr, or "". */
extern const char *qchat_dim, *qchat_plain;

struct qchat_document {
	char	*name, *text;	/* text: n bytes of text or of an image file */
	size_t	 n;
	size_t	 message;	/* number of its message; SIZE_MAX: waits for
				   the next message */
	int	 is_image;
	struct qwen_span span;	/* of an image; start is not set */
};

struct qchat {
	struct qwen_model	*model;
	struct qwen_tok		*tok;
	struct qwen_template	*template;
	struct qwen_cache	*cache;
	struct qwen_session	*session;	/* in cache, which is NULL after
						   a restore from the store */
	size_t			 n_ctx;		/* limit of tokens by model and
						   memory */
	struct tool_draft	 draft;
	struct qwen_drafter	*drafter;	/* of session */
	struct qwen_sampler	*options;	/* as set by the user */
	struct qwen_sampler	*sampler;	/* of the last answer, or
						   NULL */
	struct qwen_pieces	*pieces;	/* for the sampler; or NULL */
	struct qwen_stop_finder	*cut;		/* stop texts, or NULL */
	struct qwen_header	 header;	/* has the ids of ending
						   tokens */
	struct qwen_messages	*messages;
	struct qchat_document	*documents;	/* those of messages, then the
						   waiting ones */
	size_t			 n_documents, cap_documents;
	size_t			 n_document_tokens;	/* prompt tokens up to
							   the end of the last
							   message's documents;
							   0: none */
	int32_t			 pad;		/* in the place of an image;
						   -1: the model has no
						   such token */
	struct tool_encoded	 encoded;	/* rows of images */
	struct qwen_span_rows	*spans;		/* images of the prompt that
						   qchat_encode() returned */
	size_t			 n_spans, cap_spans;
	struct qwen_store	*store;		/* or NULL */
	uint64_t		 n_retries;	/* /retry so far */
	int			 in_thought;	/* a thought is being printed */
	int			 has_text;	/* the reply has text */
};

/* -------------------------------------------------------- the conversation */

/* Add a message of the user or system; join: to the previous one. */
void qchat_say(struct qchat *c, const char *role, const char *text, size_t n,
    int join);

/* Set the template's enable_thinking by the options. */
void qchat_think(struct qchat *c);

/* Start a new conversation; system may be NULL. */
void qchat_reset(struct qchat *c, const char *system);

/* Set the texts that end answers, by the options. */
void qchat_stops(struct qchat *c);

/* ----------------------------------------------------------------- the rest */

/* Add a message of the user and print the answer: 0, or -1 without an answer. */
int qchat_turn(struct qchat *c, const char *text, size_t n);

/* The same for a message that is already the last one. */
int qchat_reply(struct qchat *c);

/*
 * Read the ids of a prompt that the session has not read yet.  The answer's
 * turn begins after the first turn ids.  0, or -1 after Ctrl-C.
 */
int qchat_read(struct qchat *c, const int32_t *ids, size_t n, size_t turn);

/*
 * qchat_render renders the prompt of the conversation: 0, or -1 and cli_err if
 * the template refuses it.  qchat_encode returns the *n ids of a prompt, to be
 * freed, and sets c->spans; *turn is the number of ids before its last turn.
 * turn may be NULL.  NULL and cli_err if it has other places than images.
 */
int qchat_render(struct qchat *c, struct qwen_prompt **p);
int32_t *qchat_encode(struct qchat *c, const struct qwen_prompt *p, size_t *n,
    size_t *turn);

/*
 * Render the prompt of the conversation.  Sets the number of its tokens, and
 * whether the answer begins with a thought; either may be NULL.  0, or -1 and
 * cli_err if the template refuses it.
 */
int qchat_prompt(struct qchat *c, size_t *n_tokens, int *thinks);

/* --------------------------------------------------------------- documents */

/*
 * Add a waiting document, which is put before the next message: a text, or an
 * image file.  c owns the text then.  0, or -1 and a warning if it is neither
 * UTF-8 nor an image that the model can read.
 */
int qchat_add_document(struct qchat *c, const char *name, char *text, size_t n);

/* Add a waiting document whose text is checked, and return it. */
struct qchat_document *qchat_append_document(struct qchat *c, const char *name,
    char *text, size_t n);

/*
 * Turn a last message without an answer, as /load may leave one, into waiting
 * documents: its texts, and its images, which are documents already.
 */
void qchat_unanswered_to_document(struct qchat *c);

/* Return the number of waiting documents. */
size_t qchat_n_waiting(const struct qchat *c);

/*
 * Add a message of the waiting documents, and return their number.  If that is
 * not 0, the caller drops the message again.
 */
size_t qchat_say_documents(struct qchat *c);

/*
 * Add a message of the waiting documents and a text, and set
 * c->n_document_tokens.
 */
void qchat_say_with_documents(struct qchat *c, const char *text, size_t n);

/*
 * Drop the last message, which is the user's; keep its documents for the next.
 */
void qchat_take_back(struct qchat *c);

/* Forget the documents of the oldest k messages, which are dropped. */
void qchat_forget_documents(struct qchat *c, size_t k);

/*
 * qchat_drop_document drops the last waiting document, with a note: 1, or 0 if
 * none waits.  qchat_drop_documents drops all waiting ones,
 * qchat_free_documents all.
 */
int qchat_drop_document(struct qchat *c);
void qchat_drop_documents(struct qchat *c);
void qchat_free_documents(struct qchat *c);

/* ------------------------------------------------------------------ images */

/* Call this when model, template and tokenizer are open. */
void qchat_image_init(struct qchat *c);

int qchat_reads_images(const struct qchat *c);

/* As qchat_add_document() does, for a file that must be an image. */
int qchat_add_image(struct qchat *c, const char *name, char *bytes, size_t n);

/*
 * Put the ids of the images' rows into their places, and set c->spans.  0, or
 * -1 and cli_err if there are more places than images.
 */
int qchat_place_images(struct qchat *c, struct qwen_ids *ids);

/*
 * Encode the images of c->spans that end after the first `at' ids, unless their
 * rows are there.  0, or -1 after a warning or Ctrl-C.
 */
int qchat_encode_images(struct qchat *c, size_t at);

/* Return the files of all images, in their order; to be freed, not the bytes. */
struct qwen_image_source *qchat_image_sources(const struct qchat *c);

/*
 * Replace the documents by the images of the messages, which lose their bytes.
 * 0, or -1 and cli_err; then nothing has changed.
 */
int qchat_load_images(struct qchat *c, struct qwen_messages *m);

/* Return 1 if the file exists and begins as images do. */
int qchat_is_image_file(const char *path);

/*
 * Find the paths of image files in a line that has nothing else, as terminals
 * paste them: in quotes, with backslashes or as file: URLs.  Returns their
 * number, or 0.  Changes the line, in which they are.
 */
size_t qchat_image_paths(char *line, char *path[], size_t most);

/*
 * If a line is only such paths, add their images with a note, and return their
 * number, else 0.
 */
size_t qchat_take_paths(struct qchat *c, const char *line);

/* Return 1 if the model thinks, or would after /think on. */
int qchat_model_thinks(struct qchat *c);

/* Print model, template, context and settings to stderr. */
void qchat_show(struct qchat *c);

/* Run a command.  Return 0 to leave the chat, else 1. */
int qchat_command(struct qchat *c, char *line);

/*
 * Return 1 if a line of n bytes begins with a command whose argument is a file.
 */
int qchat_wants_file(const char *line, size_t n);

/*
 * Return the i-th word that may complete a line of n bytes, or NULL after the
 * last one; sets *from to where in the line the word begins.
 */
const char *qchat_word(const char *line, size_t n, size_t i, size_t *from);

/* /set: arg is the name of an option and its new value; "" shows all. */
void qchat_set(struct qchat *c, const char *arg);

/* Read messages and commands from stdin or the terminal until the end. */
void qchat_talk(struct qchat *c);

/* ------------------------------------------------------------- line editing */

/*
 * Start editing lines: 1, or 0 if stdin is no terminal or libedit is missing.
 */
int qchat_edit_begin(void);

/*
 * qchat_edit_line returns a line, to be freed, with marks in place of pasted
 * text; NULL at the end or after Ctrl-C.  qchat_edit_unmark frees the line and
 * returns it with the pasted text; call it before the next line.
 */
char *qchat_edit_line(const char *prompt);
char *qchat_edit_unmark(char *line);

void qchat_edit_end(void);

/* Without libedit, the Makefile leaves edit.c out. */
#if !__has_include(<histedit.h>)
#define qchat_edit_begin() 0
#define qchat_edit_line(prompt) NULL
#define qchat_edit_unmark(line) (line)
#define qchat_edit_end() ((void)0)
#endif

/*
 * Turn the terminal's echo on or off.  Call qchat_echo_begin() first.  Signal
 * handlers may call qchat_echo_on().
 */
void qchat_echo_begin(void);
void qchat_echo_on(void);
void qchat_echo_off(void);

#endif
