/* SPDX-License-Identifier: ISC */
/* qtok.h - what the parts of qtok share. */
#ifndef QTOK_H
#define QTOK_H

#include "tool/tool.h"
#include "text/request/request.h"

enum { PROMPT = 3 };	/* of -f: no format of tokens */

/* A part of a chat, in the order of the command line. */
struct chat_arg {
	const char	*role;		/* "data": of the user, from a file */
	const char	*arg;
	char		*text;		/* of the file, once it is read */
	size_t		 n;
};

struct opts {
	int		 documents;	/* -0 */
	int		 count;		/* -c */
	int		 decode;	/* -d */
	int		 form;		/* -f */
	enum qwen_format format;	/* the same, where it is not PROMPT */
	const char	*model;
	const char	*mark;		/* --mark, or NULL */
	unsigned	 encode_flags, decode_flags;
	int		 force;		/* any bytes are text */
	int		 fim;		/* --fim */
	int		 chat;		/* --chat */
	int		 parse;		/* --parse */
	int		 stream;	/* --stream */
	int		 strict_calls;	/* --strict-calls */
	int		 thinking;	/* enum qwen_thinking, or -1 */
	const char	*template;	/* --template, or NULL */
	enum qwen_systems systems;	/* --system-messages */
	const char	*placeholder;	/* --image-placeholder, or NULL */
	const char	*tools;		/* --tools, or NULL */
	int		 think;		/* --think: 0 on, 1 off, or -1 */
	struct cli_list	 stops;		/* --stop */
	struct qwen_cut	*cut;		/* the same, or NULL */
	struct chat_arg	*parts;
	size_t		 n_parts, cap_parts;
};

/* ------------------------------------------------------------ what it can do */

void qtok_encode(const struct opts *o, char *paths[]);
void qtok_decode(const struct opts *o, char *paths[]);
/* The first two operands are before and after the gap. */
void qtok_fim(const struct opts *o, char *paths[]);
void qtok_chat(const struct opts *o, char *paths[]);
void qtok_parse(const struct opts *o, char *paths[]);

/* ------------------------------------------------------------------- inputs */

struct input {
	const char	*name;		/* for messages */
	int		 fd;
};

/* An operand, or stdin for "-"; to be closed. */
struct input qtok_open(const char *path);
void qtok_close(const struct input *in);

/* Some of its bytes; 0 at the end. */
size_t qtok_read(const struct input *in, char *buf, size_t size);

/*
 * Each operand in turn to f.  That all are there is asked first: a stream
 * without the part in the middle would be taken for whole.
 */
void qtok_each(char *paths[], void (*f)(const struct input *, void *),
    void *arg);

/* ------------------------------------------------------------------ counting */

/* As wc(1) does: operands that are counted are not one text. */
int qtok_counts_each(const struct opts *o, char *paths[]);

/* Of what; NULL: it has no name. */
void qtok_put_count(uint64_t n, const char *name);

/* ------------------------------------------------------------------ encoding */

/* For chat.c, whose prompts have BOS in their text, bos is not used. */
struct encoding {
	const struct opts	*o;
	struct qwen_tok_encoder	*e;
	struct qwen_writer	*w;	/* NULL: only count */
	int			 open;	/* a document has begun */
	int32_t			 bos;	/* in front of each document, or -1 */
	uint64_t		 n;	/* tokens of the document */
	int			 each;	/* count each operand, by its name */
	const char		*name;
	uint64_t		 n_bytes, n_tokens;
};

/* The stream begins with its header at once, so that the reader can, too. */
struct qwen_writer *qtok_stream(const struct opts *o,
    const struct qwen_gguf *g);
void qtok_put_ids(struct encoding *c, const int32_t *ids, size_t n);
void qtok_put_mark(struct encoding *c);

/* -v: how much, and how fast, since begin. */
void qtok_report(uint64_t n_bytes, uint64_t n_tokens, double begin);

/* --------------------------------------------------------------------- chats */

/*
 * By name, from a file if the name has a slash, else the model's own.  A note if
 * there are tools and it has no word for them.
 */
struct qwen_template *qtok_template(const struct opts *o);

/* --think in JSON. */
const char *qtok_think(const struct opts *o);

#endif
