/* SPDX-License-Identifier: ISC */
/* reply.h - inside of the reader of replies. */
#ifndef QWEN_CHAT_REPLY_H
#define QWEN_CHAT_REPLY_H

#include "base/text.h"
#include "text/chat/chat.h"
#include <yyjson.h>

enum { CHAT_NAME_MAX = 1000 };	/* bytes of a name in a tag */

/* Text that goes out without white space at its ends. */
struct chat_stream {
	enum qwen_reply_kind	kind;
	int			begun;
	struct qwen_text	space;	/* may be the end */
	struct qwen_text	all;	/* what went out */
};

/* Where in a call the reader is; the texts are offsets into text. */
enum chat_call_state {
	CHAT_CALL_OPEN,		/* after <tool_call> */
	CHAT_CALL_JSON,		/* in the object, at the next byte of it */
	CHAT_CALL_BETWEEN,	/* parameters, or the end of the function */
	CHAT_CALL_LINES,	/* in a value that ends with a line */
	CHAT_CALL_INLINE,	/* in one that ends with the tag */
	CHAT_CALL_WHOLE,	/* after the object, or </function> */
	CHAT_CALL_BAD,		/* no call: up to the next </tool_call> */
};

struct chat_call {
	enum chat_call_state	state;
	size_t			at;	/* read up to here */
	size_t			begin;	/* of the object, of the value, of
					   what follows the whole call */
	size_t			seen;	/* no line ends from at to here */
	unsigned		depth;	/* of brackets, in JSON */
	int			in_string, escaped;
	char			*name;	/* function */
	char			*param;
	yyjson_mut_doc		*args;	/* its root is an object */
};

enum chat_reply_state {
	CHAT_REPLY_START, CHAT_REPLY_THOUGHT, CHAT_REPLY_CONTENT,
	CHAT_REPLY_CALL
};

struct qwen_reply {
	struct qwen_reply_opts	 opts;
	struct qwen_err		*err;	/* of the call that is at work */
	int			 xml, thinks, has_tools;
	yyjson_doc		*tools;
	enum chat_reply_state	 state;
	unsigned char		 tail[4];	/* of a character */
	size_t			 n_tail;
	struct qwen_text	 text;		/* not given out yet */
	struct chat_stream	 reasoning, content;
	struct chat_call	 call;
	yyjson_mut_doc		*doc;		/* holds the lists */
	yyjson_mut_val		*calls, *unparsed;
};

/*
 * Go on with the call at the beginning of r->text.  1: it is done with, and
 * r->call.at is after it; 0: more text must come; -1: error.
 */
int qwen_chat_call(struct qwen_reply *r, int final);
void qwen_chat_call_reset(struct chat_call *c);

/* The schema of the tool's parameter, or NULL; whether there is the tool. */
yyjson_val *qwen_chat_schema(const struct qwen_reply *r, const char *tool,
    const char *param, int *known);

/* A parameter's value, by its schema. NULL: no memory. */
yyjson_mut_val *qwen_chat_argument(yyjson_mut_doc *doc, yyjson_val *schema,
    const char *s, size_t n);

/* What begins at s (n bytes are there): 1 it is x, 0 it is not, -1 not known. */
int qwen_chat_begins(const char *s, size_t n, const char *x);

/* A name that a given tool has begins here and '>' ends it: as above. */
int qwen_chat_tool_begins(const struct qwen_reply *r, const char *s, size_t n);

int qwen_chat_give(struct qwen_reply *r, enum qwen_reply_kind kind,
    const char *s, size_t n, const char *name);

#endif
