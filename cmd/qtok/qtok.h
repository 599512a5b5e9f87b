/* SPDX-License-Identifier: ISC */
/* qtok.h - shared by the files of qtok. */
#ifndef QTOK_H
#define QTOK_H

#include "text/request/request.h"
#include "tool/images.h"

enum { QTOK_PROMPT = 3 };	/* in addition to the formats of tokens */

/* A message of a chat given by options, in their order. */
struct qtok_message {
	const char	*role;		/* "data": user message from a file;
					   "image": image for the user's
					   message, or "-" */
	const char	*arg;
	char		*text;		/* of the file, once read */
	size_t		 n;
};

struct qtok_opts {
	int		 documents;	/* -0 */
	int		 count;		/* -c */
	int		 decode;	/* -d */
	int		 form;		/* -f: enum qwen_format or PROMPT */
	enum qwen_format format;	/* the same if not PROMPT */
	const char	*model;
	const char	*mark;		/* --mark, or NULL */
	unsigned	 encode_flags, decode_flags;
	int		 force;		/* take any bytes as text */
	int		 fim;		/* --fim */
	int		 chat;		/* --chat */
	int		 parse;		/* --parse */
	int		 stream;	/* --stream */
	int		 strict_calls;	/* --strict-calls */
	int		 thinking;	/* enum qwen_thinking, or -1 */
	const char	*template;	/* --template, or NULL */
	enum qwen_systems systems;	/* --system-messages */
	const char	*placeholder;	/* --image-placeholder, or NULL */
	struct tool_qimage images;	/* --mmproj, ...; model unset */
	const char	*image_dir;	/* --image-dir, or NULL */
	const char	*tools;		/* --tools, or NULL */
	int		 think;		/* --think: 0 on, 1 off, or -1 */
	struct cli_list	 stops;		/* --stop */
	struct qwen_stop_finder	*cut;		/* built from stops, or NULL */
	struct qtok_message *messages;
	size_t		 n_messages, cap_messages;
};

/* ----------------------------------------------------------------- commands */

void qtok_encode(const struct qtok_opts *o, char *paths[]);
void qtok_decode(const struct qtok_opts *o, char *paths[]);
/*
 * Run the command.  paths ends with NULL; for qtok_fim the first two are the
 * texts before and after the gap.
 */
void qtok_fim(const struct qtok_opts *o, char *paths[]);
void qtok_chat(const struct qtok_opts *o, char *paths[]);
void qtok_parse(const struct qtok_opts *o, char *paths[]);

/* ------------------------------------------------------------------- inputs */

struct qtok_input {
	const char	*name;		/* for messages */
	int		 fd;
};

/*
 * Call f for each operand, or for stdin without operands.  First checks that
 * all can be read: a stream that ends early could pass for complete.
 */
void qtok_each(char *paths[], void (*f)(const struct qtok_input *, void *),
    void *arg);

/* ----------------------------------------------------------------- counting */

/* Returns 1 if -c prints one line per operand and a total, like wc(1). */
int qtok_counts_each(const struct qtok_opts *o, char *paths[]);

/* Print a count with the name of its operand; NULL: without a name. */
void qtok_put_count(uint64_t n, const char *name);

/* ----------------------------------------------------------------- encoding */

/* The output of tokens.  chat.c leaves bos unset, since prompts contain BOS. */
struct qtok_encoding {
	const struct qtok_opts	*o;
	struct qwen_tok_encoder	*e;
	struct qwen_writer	*w;	/* NULL: only count */
	int			 open;	/* a document has begun */
	int32_t			 bos;	/* written before each document; -1:
					   none */
	uint64_t		 n_document;	/* tokens of this document */
	int			 each;	/* print a count per operand */
	const char		*name;
	uint64_t		 n_bytes, n_tokens;
};

/*
 * qtok_stream writes the header of the stream at once, so that the reader can
 * start.
 */
struct qwen_writer *qtok_stream(const struct qtok_opts *o,
    const struct qwen_gguf *g);
void qtok_put_ids(struct qtok_encoding *c, const int32_t *ids, size_t n);
void qtok_put_mark(struct qtok_encoding *c);

/* -v: print the amounts and the seconds since begin. */
void qtok_report(uint64_t n_bytes, uint64_t n_tokens, double begin);

/* -------------------------------------------------------------------- chats */

/*
 * Open the template of --template or the model's.  Prints a note if --tools is
 * given and the template has no tool calls.
 */
struct qwen_template *qtok_template(const struct qtok_opts *o);

/* The images of a chat, in the order of their places.  All zero at first. */
struct qtok_images {
	int		 may;		/* the chat may have images */
	struct qwen_image_sources src;	/* kind NONE: from stdin */
	struct tool_encoded on_stdin, others;
	struct qwen_span *span;		/* [src.n], once they are read */
	size_t		 next;		/* the span to write next */
	int32_t		 pad;		/* <|image_pad|>, in the place of an
					   image; -1: there are no images */
};

/*
 * qtok_images_stdin reads the images of --image - for the model of g, which may
 * be NULL. qtok_images_read encodes the others, for a prompt that has a place
 * for each.  They die.
 */
void qtok_images_stdin(struct qtok_images *im, const struct qtok_opts *o,
    const struct qwen_gguf *g);
void qtok_images_read(struct qtok_images *im, const struct qtok_opts *o,
    const struct qwen_gguf *g, const struct qwen_prompt *p,
    const struct qwen_tok *t);

/* Write ids with spans in the place of <|image_pad|>; at the end, the rows. */
void qtok_images_put_ids(struct qtok_images *im, struct qtok_encoding *c,
    const int32_t *ids, size_t n);
void qtok_images_put_rows(const struct qtok_images *im,
    struct qtok_encoding *c);
void qtok_images_fini(struct qtok_images *im);

/* Returns --think in JSON: "true", "false" or "null". */
const char *qtok_think(const struct qtok_opts *o);

#endif
