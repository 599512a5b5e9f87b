/* SPDX-License-Identifier: ISC */
/* reply.h - inside of the reader of replies. */
#ifndef QWEN_CHAT_REPLY_H
#define QWEN_CHAT_REPLY_H

#include "base/text.h"
#include "text/chat/chat.h"
#include <yyjson.h>

enum {
	CHAT_NAME_MAX = 1000,	/* bytes of a name in a tag */
	CHAT_PARAMETERS_MAX = 1000,	/* of a call */
	CHAT_SPACE_MAX = 256,	/* of white space between tags, or before one
				   in its line, if it is to be looked over */
};

/* Where text of the reply went: n bytes that were at byte at of it. */
struct chat_part {
	size_t	at, n;
};

/* Text that goes out without white space at its ends. */
struct chat_stream {
	enum qwen_reply_kind	kind;
	int			begun;
	struct qwen_text	space;	/* may be the end */
	struct chat_part	*part;	/* which it was made of */
	size_t			n_part, cap_part;
	struct qwen_text	all;	/* what went out */
};

/* Where in a call the reader is; the texts are offsets into text. */
enum chat_call_state {
	CHAT_CALL_OPEN,		/* after <tool_call> */
	CHAT_CALL_JSON,		/* in the object, at the next byte of it */
	CHAT_CALL_BETWEEN,	/* parameters, or the end of the function */
	CHAT_CALL_VALUE,	/* in the value of a parameter */
	CHAT_CALL_WHOLE,	/* after the object, or </function> */
	CHAT_CALL_BAD,		/* no call: up to the next </tool_call> */
};

/* An object or a list, of which the bytes are looked at one by one. */
struct chat_json {
	unsigned	depth;		/* of brackets */
	int		in_string, escaped;
};

struct chat_call {
	enum chat_call_state	state;
	size_t			at;	/* read up to here */
	size_t			begin;	/* of the object, of the value, of
					   what follows the whole call */
	int			tagged;	/* <tool_call> came before it */
	int			fenced;	/* and a fence is around it; 2: up to
					   here */
	int			braced;	/* a brace too much was passed over */
	int			again;	/* another one follows at at */
	struct chat_json	json;
	int			lines;	/* the value begins with a line; 2:
					   lines end with CR and LF */
	size_t			indent;	/* of the value's end tag */
	size_t			nest[2];	/* calls in the value: how many
						   <function=, <tool_call> are
						   not closed there, */
	size_t			nest_parameter;	/* and <parameter= */
	int			torn;	/* a value has the end tag of a
					   parameter, which may be its own */
	yyjson_val		*tool;	/* what has the name, or NULL */
	char			*name;	/* function */
	char			*param;
	yyjson_mut_doc		*args;	/* its root is an object */
};

/* A whole answer that may be calls without a tag. */
struct chat_bare {
	size_t			at, begin;
	int			in_item;
	int			doubled;	/* the item begins with {{ */
	int			fence;	/* 1 in one, 2 after it */
	unsigned		n_strings;	/* of the item, the first two */
	size_t			string;	/* where one begins */
	int			named;	/* the first one is "name" */
	struct chat_json	json;
	struct qwen_text	items;	/* those that are whole, as a list */
};

enum chat_reply_state {
	CHAT_REPLY_START, CHAT_REPLY_THOUGHT,
	CHAT_REPLY_DRAFT,	/* in a thought, at what may be a call */
	CHAT_REPLY_BARE,	/* at the beginning of the content */
	CHAT_REPLY_CONTENT, CHAT_REPLY_CALL
};

struct qwen_reply {
	struct qwen_reply_opts	 opts;
	struct qwen_err		*err;	/* of the call that is at work */
	int			 xml, thinks, has_tools;
	int			 cut;	/* the reply was cut off here */
	yyjson_doc		*tools;
	enum chat_reply_state	 state;
	unsigned char		 tail[4];	/* of a character */
	size_t			 n_tail;
	struct qwen_text	 buf;
	struct qwen_str		 text;	/* not given out yet, the end of buf */
	size_t			 from;	/* where in the reply text begins */
	struct chat_stream	 reasoning, content;
	int			 indent;	/* the content is in a line, with
						   nothing but white space yet */
	unsigned		 ticks;		/* ` one after the other */
	int			 fence;		/* in a fence of ``` */
	size_t			 draft;		/* read up to here, */
	int			 in_draft;	/* which is in a call */
	struct chat_bare	 bare;
	struct chat_call	 call;
	yyjson_mut_doc		*doc;		/* holds the lists */
	yyjson_mut_val		*calls, *unparsed;
};

/* Without the first n bytes of the text. */
void qwen_reply_drop(struct qwen_reply *r, size_t n);

/* The first n bytes of the text to a stream. */
int qwen_reply_pass(struct qwen_reply *r, struct chat_stream *t, size_t n);

/* The white space that a stream holds is not its end: it goes out. */
int qwen_reply_flush(struct qwen_reply *r, struct chat_stream *t);

/* An event of a text that is at the beginning of r->text, or of a call. */
int qwen_chat_give(struct qwen_reply *r, enum qwen_reply_kind kind,
    const char *s, size_t n, const char *name);
int qwen_chat_give_call(struct qwen_reply *r, const char *name,
    yyjson_mut_val *args);

/* ---- call.c
 * Go on with the call at the beginning of r->text.  1: it is done with, and
 * r->call.at is after it; 0: more text must come; -1: error.
 */
int qwen_chat_call(struct qwen_reply *r, int final);
void qwen_chat_call_reset(struct chat_call *c);

/* What begins at s (n bytes are there): 1 it is x, 0 it is not, -1 not known. */
int qwen_chat_begins(const char *s, size_t n, const char *x);

/* ---- call_value.c
 * The value of a parameter, as qwen_chat_call.  1: it ends at *end, and c->at is
 * after its end tag, if it has one; 2: it could be read in two ways.
 */
int qwen_chat_value(struct qwen_reply *r, int final, size_t *end);

/* The value from c->begin to end without the indentation of its lines: 1, if
 * its tags are indented as well. */
int qwen_chat_unindent(struct qwen_reply *r, size_t end,
    struct qwen_text *out);

/* How many bytes at the end of a value may be the beginning of its end. */
size_t qwen_chat_half_end(const char *s, size_t n, int lines);

/* ---- call_json.c
 * One more byte: 1 the object (or list) is complete, -1 no JSON has it there.
 */
int qwen_chat_json_byte(struct chat_json *j, unsigned char b, int strict);

/* What calls in JSON must be like. */
enum {
	CHAT_EXACT = 1,		/* name and arguments, an object, or as below */
	CHAT_LOOSE = 2,		/* as models may write it, of a tool given */
	CHAT_BARE = 4,		/* there must be arguments */
	CHAT_ITEMS = 8,		/* a list, its items objects or lists of them */
};

/* All calls in a JSON text are given out: 1; 0: it has not only calls. */
int qwen_chat_json_calls(struct qwen_reply *r, const char *s, size_t n,
    unsigned how);

/*
 * Of an object that was cut off: the name of the tool in *name, for free(), and
 * as much as there is of its arguments: 1; 0: the name is not known.
 */
int qwen_chat_json_cut(struct qwen_reply *r, const char *s, size_t n,
    char **name, struct qwen_text *args);

/* ---- bare.c: as a state: 1 if there may be more to do, 0 if not, or -1. */
int qwen_chat_bare(struct qwen_reply *r, int final);
int qwen_chat_draft(struct qwen_reply *r, int final);

/*
 * ---- loose.c
 *
 * Converts JSON as models write it to JSON: control characters in strings,
 * extra commas, True and None, doubled braces; with python set, Python strings.
 * Returns 1 if it was truncated; -1 if it is not JSON.
 */
int qwen_chat_loose(struct qwen_text *out, const char *s, size_t n,
    int python);

/* ---- schema.c: the tool of that name, or NULL; the schema of a parameter. */
yyjson_val *qwen_chat_tool(const struct qwen_reply *r, const char *name,
    size_t n);
yyjson_val *qwen_chat_parameter(yyjson_val *tool, const char *name, size_t n);

/* Whether it must be called with arguments. */
int qwen_chat_needs(yyjson_val *tool);

/* Whether the arguments lack one that the tool must have. */
int qwen_chat_lacks(yyjson_val *tool, yyjson_mut_val *args);

/* A parameter's value, by its schema; strict: as JSON alone. NULL: no memory. */
yyjson_mut_val *qwen_chat_argument(yyjson_mut_doc *doc, yyjson_val *tool,
    yyjson_val *schema, const char *s, size_t n, int strict);

/* Whether a value can be nothing but text. */
int qwen_chat_only_text(yyjson_val *tool, yyjson_val *schema);

/* A name that a given tool has begins here and '>' ends it: as begins(). */
int qwen_chat_tool_begins(const struct qwen_reply *r, const char *s, size_t n);

#endif
