/* SPDX-License-Identifier: ISC */
/* reply.h - internals of the reply parser. */
#ifndef QWEN_CHAT_REPLY_H
#define QWEN_CHAT_REPLY_H

#include "base/text.h"
#include "text/chat/chat.h"
#include <yyjson.h>

enum {
	CHAT_NAME_MAX = 1000,	/* bytes of a name in a tag */
	CHAT_PARAMETERS_MAX = 1000,	/* of a call */
	CHAT_SPACE_MAX = 256,	/* bytes of white space considered between tags,
				   or before a tag on its line */
};

/* n bytes of a stream that were at offset at of the reply. */
struct chat_part {
	size_t	at, n;
};

/* Output text, trimmed of white space at both ends. */
struct chat_stream {
	enum qwen_reply_kind	kind;
	int			begun;
	struct qwen_text	space;	/* white space held back: it may be at
					   the end */
	struct chat_part	*part;	/* the parts that space consists of */
	size_t			n_part, cap_part;
	struct qwen_text	all;	/* text given out */
};

/* States of parsing a call; offsets are into r->text. */
enum chat_call_state {
	CHAT_CALL_OPEN,		/* after <tool_call> */
	CHAT_CALL_JSON,		/* inside the JSON object */
	CHAT_CALL_BETWEEN,	/* before a parameter or the end of the
				   function */
	CHAT_CALL_VALUE,	/* in the value of a parameter */
	CHAT_CALL_WHOLE,	/* after the JSON object, or </function> */
	CHAT_CALL_BAD,		/* not a call: skip to the next </tool_call> */
};

/*
 * Brackets and strings of a JSON object or list that is scanned byte by byte.
 */
struct chat_json {
	unsigned	depth;		/* open brackets */
	int		in_string, escaped;
};

struct chat_call {
	enum chat_call_state	state;
	size_t			at;	/* parsed up to here */
	size_t			begin;	/* of the object; of the value; of the
					   text after the complete call */
	int			tagged;	/* <tool_call> precedes it */
	int			fenced;	/* in a ``` fence; 2: the fence is
					   closed */
	int			braced;	/* a superfluous brace was skipped */
	int			again;	/* another call follows at at */
	struct chat_json	json;
	int			on_lines;	/* the value begins on a new
						   line; 2: lines end in CR
						   LF */
	size_t			indent;	/* indentation of the value's end tag */
	size_t			n_open[2];	/* <function= and <tool_call> in
						   the value that are not closed
						   there */
	size_t			n_open_parameters;	/* the same for
							   <parameter= */
	int			has_end_tag;	/* a value contains an end tag
						   of a parameter, which may
						   end the value itself */
	yyjson_val		*tool;	/* tool of that name, or NULL */
	char			*name;	/* of the function */
	char			*param;	/* name of the parameter */
	yyjson_mut_doc		*args;	/* the root is an object */
};

/* A reply that may consist only of calls without a tag. */
struct chat_untagged {
	size_t			at, begin;	/* parsed up to; start of the
						   item */
	int			in_item;
	int			doubled;	/* the item begins with {{ */
	int			fence;	/* 1: inside a fence, 2: after it */
	unsigned		n_strings;	/* strings seen in the item */
	size_t			string;	/* start of the current string */
	int			named;	/* the first string is "name" */
	struct chat_json	json;
	struct qwen_text	items;	/* complete items, as a JSON list */
};

enum chat_reply_state {
	CHAT_REPLY_START, CHAT_REPLY_THOUGHT,
	CHAT_REPLY_THOUGHT_CALL, /* inside a thought, at a possible call */
	CHAT_REPLY_UNTAGGED,	/* at the start of the content */
	CHAT_REPLY_CONTENT, CHAT_REPLY_CALL
};

struct qwen_reply {
	struct qwen_reply_opts	 opts;
	struct qwen_err		*err;	/* of the running function */
	int			 xml, thinks, has_tools;
	int			 cut;	/* the reply is truncated */
	yyjson_doc		*tools;
	enum chat_reply_state	 state;
	unsigned char		 tail[4];	/* bytes of an incomplete
						   character */
	size_t			 n_tail;
	struct qwen_text	 buf;
	struct qwen_str		 text;	/* text not given out yet: the end of
					   buf */
	size_t			 from;	/* offset of text in the reply */
	struct chat_stream	 reasoning, content;
	int			 indent;	/* the current line of the
						   content has only white
						   space */
	unsigned		 ticks;		/* consecutive backquotes */
	int			 fence;		/* inside a ``` fence */
	size_t			 thought_at;	/* possible calls in a thought:
						   parsed up to here */
	int			 in_thought_call;	/* inside such a call */
	struct chat_untagged	 untagged;
	struct chat_call	 call;
	yyjson_mut_doc		*doc;		/* contains the lists */
	yyjson_mut_val		*calls, *unparsed;
};

/*
 * Compares the n bytes at s with x. 1: s begins with x; 0: not; -1: n is too
 * small to tell.
 */
static inline int
chat_begins(const char *s, size_t n, const char *x)
{
	size_t len = strlen(x);

	if (memcmp(s, x, n < len ? n : len) != 0)
		return 0;
	return n < len ? -1 : 1;
}

/* White space of JSON. */
static inline int
chat_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Returns the offset of the first byte of s from at on that is not blank. */
static inline size_t
chat_skip_blanks(const char *s, size_t n, size_t at)
{
	while (at < n && chat_is_blank(s[at]))
		at++;
	return at;
}

/*
 * ---- stream.c
 *
 * Drops the first n bytes of the text.
 */
void qwen_reply_drop(struct qwen_reply *r, size_t n);

/* Passes the first n bytes of the text to a stream. */
int qwen_reply_pass(struct qwen_reply *r, struct chat_stream *t, size_t n);

/* Gives out the white space that a stream held back. */
int qwen_reply_flush(struct qwen_reply *r, struct chat_stream *t);

void qwen_reply_free_stream(struct chat_stream *t);

/* Report an event; a text at the beginning of r->text; a call. */
int qwen_chat_report_event(struct qwen_reply *r,
    const struct qwen_reply_event *e);
int qwen_chat_report(struct qwen_reply *r, enum qwen_reply_kind kind,
    const char *s, size_t n, const char *name);
int qwen_chat_report_call(struct qwen_reply *r, const char *name,
    yyjson_mut_val *args);

/*
 * ---- call.c
 *
 * Parses the call at the beginning of r->text further. 1: it is complete, and
 * ends at r->call.at; 0: more text is needed; -1: error.
 */
int qwen_chat_call(struct qwen_reply *r, int final);
void qwen_chat_call_reset(struct chat_call *c);

/*
 * ---- call_value.c
 *
 * Parses the value of a parameter, like qwen_chat_call. 1: it ends at *end, and
 * c->at is after its end tag, if any; 2: ambiguous.
 */
int qwen_chat_value(struct qwen_reply *r, int final, size_t *end);

/*
 * Copies the value from c->begin to end without the indentation of its lines,
 * if its tags are indented too: then returns 1.
 */
int qwen_chat_unindent(struct qwen_reply *r, size_t end,
    struct qwen_text *out);

/* Returns how many bytes at the end of a value may begin its end tag. */
size_t qwen_chat_half_end(const char *s, size_t n, int lines);

/*
 * ---- call_json.c
 *
 * Scans one byte. 1: the object (or list) is complete; -1: the byte is not
 * allowed there in JSON.
 */
int qwen_chat_json_byte(struct chat_json *j, unsigned char b, int strict);

/* Returns 2 for a key of the arguments; 1 for another key of a call; else 0. */
int qwen_chat_call_key(const char *s, size_t n);

/* Requirements for calls in JSON; at least one of the first two. */
enum {
	CHAT_EXACT = 1,		/* a name, and arguments that are an object */
	CHAT_LOOSE = 2,		/* the forms that models write, for a given
				   tool */
	CHAT_NEEDS_ARGS = 4,	/* arguments must be present */
	CHAT_ITEMS = 8,		/* a list of objects, or of lists of objects */
};

/*
 * Reports all calls in a JSON text.  Returns 1; 0, reporting none, if it has
 * anything else; -1.
 */
int qwen_chat_json_calls(struct qwen_reply *r, const char *s, size_t n,
    unsigned how);

/*
 * From a truncated object, gets the name of the tool in *name, for free(), and
 * the beginning of its arguments.  Returns 1; 0 if the name is not known; -1.
 */
int qwen_chat_json_cut(struct qwen_reply *r, const char *s, size_t n,
    char **name, struct qwen_text *args);

/*
 * ---- untagged.c: steps of two states: 1 if there may be more to do, 0 if not,
 * -1.
 */
int qwen_chat_untagged(struct qwen_reply *r, int final);
int qwen_chat_thought_call(struct qwen_reply *r, int final);

/*
 * ---- fix_json.c
 *
 * Converts JSON as models write it to JSON: control characters in strings,
 * extra commas, True and None, doubled braces; with python set, Python strings.
 * Returns 1 if it was truncated; -1 if it is not JSON.
 */
int qwen_chat_fix_json(struct qwen_text *out, const char *s, size_t n,
    int python);

/*
 * ---- schema.c: returns the tool of that name, or NULL; the schema of a
 * parameter.
 */
yyjson_val *qwen_chat_tool(const struct qwen_reply *r, const char *name,
    size_t n);
yyjson_val *qwen_chat_parameter(yyjson_val *tool, const char *name, size_t n);

/* Returns 1 if the tool has required arguments. */
int qwen_chat_has_required(yyjson_val *tool);

/* Returns 1 if args lacks a required argument of the tool. */
int qwen_chat_lacks_required(yyjson_val *tool, yyjson_mut_val *args);

/*
 * Converts a parameter's value by its schema; strict: JSON only.  NULL: out of
 * memory.
 */
yyjson_mut_val *qwen_chat_argument(yyjson_mut_doc *doc, yyjson_val *tool,
    yyjson_val *schema, const char *s, size_t n, int strict);

/* Returns 1 if a value can only be a string. */
int qwen_chat_only_text(yyjson_val *tool, yyjson_val *schema);

/*
 * Compares s with "NAME>" for the names of the given tools, like
 * qwen_chat_begins.
 */
int qwen_chat_tool_begins(const struct qwen_reply *r, const char *s, size_t n);

#endif
