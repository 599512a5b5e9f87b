/* SPDX-License-Identifier: ISC */
/* ask.h - a request while it is read; for the files that read it. */
#ifndef QWEN_TEXT_REQUEST_ASK_H
#define QWEN_TEXT_REQUEST_ASK_H

#include "text/request/request.h"
#include <yyjson.h>

enum { QWEN_ASK_NUMBER = 64 };

struct qwen_ask;

/* What is wrong with a member, as "KEY: what".  For the caller to return: -1. */
int qwen_ask_wrong(struct qwen_refusal *no, const char *key, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));
#define wrong(no, ...) qwen_ask_wrong(no, __VA_ARGS__)
/* The same in words that name it, or with key NULL no member at all. */
#define bad(no, ...) qwen_refuse(no, "invalid_request", __VA_ARGS__)

/*
 * Where the refusal is for a member that the API calls otherwise: ours, and
 * theirs.
 */
void qwen_ask_rename(struct qwen_refusal *no, const char *const names[][2],
    size_t n);

/* ---- ask.c: what all kinds have in common; -1 is a refusal, or no memory */

/*
 * Reports err for a part of the request.  Out of memory, here and by
 * qwen_oom(), is a failure of the service, not of the request.
 */
int qwen_ask_failed(struct qwen_refusal *no, const char *key,
    const struct qwen_err *err);

/* An object of JSON, or NULL; to be freed is the document. */
yyjson_doc *qwen_ask_open(struct qwen_refusal *no, const char *json, size_t n,
    yyjson_val **root);

/* The same; half a surrogate pair is U+FFFD, which u (or NULL) notes. */
yyjson_doc *qwen_ask_open_mended(struct qwen_refusal *no,
    struct qwen_unknown *u, const char *json, size_t n, yyjson_val **root);

/* A member; NULL if it is not there or null. */
yyjson_val *qwen_ask_get(yyjson_val *object, const char *key);

/* The same if it is a text; and whether its type is that. */
yyjson_val *qwen_ask_text(yyjson_val *object, const char *key);
int qwen_ask_is(yyjson_val *object, const char *type);
#define text_of(object, key) qwen_ask_text(object, key)
#define is(object, type) qwen_ask_is(object, type)

/* A value as JSON, owned by the caller. */
int qwen_ask_json(struct qwen_refusal *no, yyjson_val *v, char **out,
    size_t *n);

/* A value as JSON; a key and a colon, with what is before the i-th member. */
void qwen_ask_write(struct qwen_text *t, yyjson_val *v);
void qwen_ask_write_key(struct qwen_text *t, size_t i, const char *key,
    size_t n);

/*
 * In place of the document comes this one, an object, written by us; t is
 * empty then.
 */
int qwen_ask_rewrite(struct qwen_ask *r, struct qwen_text *t);

/* The id of a request, a string or, if numbers may be, a number. */
int qwen_ask_id(struct qwen_refusal *no, yyjson_val *root, const char *key,
    int numbers, char **out);

/* The digits of a number as they stand there, but 2.0 and 2e0 as 2. */
int qwen_ask_number(struct qwen_refusal *no, const char *key, yyjson_val *v,
    char buf[QWEN_ASK_NUMBER]);

/* Digits and no more than a number of 63 bits has for sure; -1 if not. */
int qwen_ask_digits(const char *s, size_t n, uint64_t *out);

/* A text or a list of tokens as tokens. */
int qwen_ask_encode(struct qwen_refusal *no, const char *key,
    const struct qwen_tok *tok, unsigned flags, const char *s, size_t n,
    struct qwen_ids *out);
int qwen_ask_ids(struct qwen_refusal *no, const char *key, yyjson_val *v,
    size_t n_vocab, struct qwen_ids *out);

/*
 * shape.c: whether messages, tools and chat_template_kwargs of a chat request,
 * as far as they are there, are what they should be: 0; or -1, with what is not,
 * and in which member.  And tools alone, which may be NULL.
 */
int qwen_ask_check_shape(yyjson_val *request, const char **member,
    struct qwen_err *err);
int qwen_ask_check_tools(yyjson_val *tools, struct qwen_err *err);

/*
 * parts.c: the body with texts in place of parts that a model of text cannot see,
 * added to t: how many there were.  placeholder "" is a line that says what there
 * was.  hint: what to do about a part that is refused, or "".
 */
size_t qwen_ask_replace_parts(struct qwen_text *t, yyjson_val *body,
    const char *placeholder);
const char *qwen_ask_part_hint(yyjson_val *part);

/* ---- the parts of a request */
struct qwen_ask {
	const struct qwen_service *s;
	struct qwen_request	*q;
	struct qwen_refusal	*no;	/* the request's */
	yyjson_doc		*doc;
	yyjson_val		*body;	/* of doc */
	yyjson_val		*tools;	/* that may be called, or NULL: of */
	yyjson_doc		*allowed;	/* this, if it is not NULL */
	const char		*holds;	/* the member that a grammar is of, or
					   NULL */
	yyjson_val		*suffix;	/* what comes after the answer,
					   or NULL */
	struct qwen_text	*text;	/* gets the text of a chat's prompt, if
					   it is not NULL */
	struct qwen_ids		 before;	/* tokens that come before those
						   of the prompt */
	int			 only_reads;	/* the prompt, and generates
						   nothing */
};

/* parse.c: qwen_request_parse, with that */
int qwen_ask_parse(struct qwen_request **out, const struct qwen_service *s,
    enum qwen_form form, const char *json, size_t n, struct qwen_text *text,
    struct qwen_err *err);

/* system.c: a message as the template gets it */
void qwen_ask_write_message(const struct qwen_service *s, struct qwen_text *t,
    yyjson_val *m);

/*
 * infill.c: the suffix of a completion, if it has one; the tokens of a prompt of
 * text or ids before it.  /infill: its fields, what ends it, its prompt, for which
 * there is room.
 */
int qwen_ask_suffix(struct qwen_ask *r);
int qwen_ask_around(struct qwen_ask *r, struct qwen_str prefix,
    const struct qwen_ids *ids, struct qwen_ids *out);
int qwen_ask_infill(struct qwen_ask *r);
int qwen_ask_infill_endings(struct qwen_ask *r);
int qwen_ask_infill_prompt(struct qwen_ask *r);

/* prompt.c: whether a text may have as many tokens as a context has */
int qwen_ask_may_fit(struct qwen_ask *r, const char *key, struct qwen_str s);

/* vector.c: one more document, for which there is room */
int qwen_ask_rank(struct qwen_rank_request *q, const struct qwen_ranking *s,
    struct qwen_str query, struct qwen_str document);

/* What becomes of a member of a request. */
enum qwen_member_kind {
	QWEN_MEMBER_HEEDED,
	QWEN_MEMBER_IDLE,	/* known, and no answer depends on it */
	QWEN_MEMBER_REFUSED,	/* unless it asks for nothing */
	QWEN_MEMBER_FOREIGN,	/* what others call it */
	QWEN_MEMBER_PASSED,	/* heeded as in a chat of OpenAI's form */
};

struct qwen_member {
	const char		*name;
	enum qwen_member_kind	 kind;
	const char		*ours;	/* what is meant, of FOREIGN; of REFUSED,
					   a number: none up to that asks for
					   anything */
};

struct qwen_members {
	const struct qwen_member *row;	/* in the order of strcmp() */
	size_t			 n;
};

/*
 * members.c: of a body, in the form of OpenAI, or as the table has it; of an
 * object in one; whether one is taken as it is into that form; of what is around
 * a body
 */
int qwen_ask_members(struct qwen_ask *r, const struct qwen_members *table);
int qwen_ask_members_of(struct qwen_ask *r, const struct qwen_members *table,
    yyjson_val *object);
int qwen_ask_passes(const struct qwen_ask *r, const struct qwen_members *table,
    yyjson_val *key);
int qwen_ask_envelope(struct qwen_ask *r, yyjson_val *root);

/*
 * members.c: something that the request has and that nothing here can run is left
 * out, with a note: 0; or, where unknown members are errors, refused: -1.  Things
 * of a type, what being "tools" or "items", or what by itself.
 */
int qwen_ask_left_out(struct qwen_ask *r, const char *key, const char *what,
    yyjson_val *type);
int qwen_ask_leave_out(struct qwen_ask *r, const char *key, const char *what);

/* members.c: of a line for scores, for a vector, for ranking; u may be NULL */
enum qwen_line {
	QWEN_LINE_SCORE, QWEN_LINE_VECTOR, QWEN_LINE_RANK,
	/* bodies, these */
	QWEN_LINE_EMBEDDINGS, QWEN_LINE_RERANK, QWEN_LINE_OLLAMA_EMBED
};

int qwen_ask_line(struct qwen_refusal *no, enum qwen_line kind,
    struct qwen_unknown *u, yyjson_val *root);

/*
 * anthropic_in.c, responses_in.c, ollama_in.c, llama_in.c: the body as one of
 * OpenAI's chats (or completions), which is the document then; its members are checked.  rename: as those of the request itself
 * are called.
 */
int qwen_ask_anthropic(struct qwen_ask *r);
/* anthropic_tools.c: the members "tools" and "tool_choice", added to t */
int qwen_ask_anthropic_tools(struct qwen_ask *r, struct qwen_text *t);
void qwen_ask_rename_anthropic(struct qwen_refusal *no);
int qwen_ask_responses(struct qwen_ask *r);
/*
 * responses_items.c: the member "messages" is added to t, from instructions, input
 * and what was before; tools that came in these to more, as a list without its
 * end.
 */
int qwen_ask_items(struct qwen_ask *r, struct qwen_text *t,
    struct qwen_text *more);
void qwen_ask_rename_responses(struct qwen_refusal *no);
int qwen_ask_ollama(struct qwen_ask *r);
void qwen_ask_rename_ollama(struct qwen_refusal *no);
int qwen_ask_llama(struct qwen_ask *r);
void qwen_ask_rename_llama(struct qwen_refusal *no);

/* settings.c: one more sampling option; and those that are more than a number */
int qwen_ask_set(struct qwen_ask *r, const char *key, const char *option,
    const char *value);
int qwen_ask_settings(struct qwen_ask *r);

/*
 * kept.c: what the response of that id left, a list of items with its brackets;
 * the item of that id, or NULL and perhaps a refusal, until the next call or until
 * the document is freed; and what this request leaves, after the items of before.
 */
struct qwen_kept {
	yyjson_doc	*doc;		/* of the response */
	uint64_t	 number;	/* with this number */
	size_t		 steps;
};

int qwen_ask_recall(struct qwen_ask *r, yyjson_val *id,
    struct qwen_text *items);
yyjson_val *qwen_ask_kept_item(struct qwen_ask *r, struct qwen_kept *k,
    const char *id);
int qwen_ask_keep(struct qwen_ask *r, const struct qwen_text *before,
    yyjson_val *input);

/*
 * tool_list.c: tools as functions.  flat: of /v1/responses, with those of more (a
 * list, or NULL) that came in its input; the members "tools" and "tool_choice" are
 * added to t.  custom: a chat's body, written anew if it has tools or calls that are of
 * no functions.  join: what the model calls a tool of a namespace, which may be
 * NULL.
 */
int qwen_ask_flat_tools(struct qwen_ask *r, yyjson_val *more,
    struct qwen_text *t);
int qwen_ask_custom_tools(struct qwen_ask *r);
void qwen_ask_join_name(struct qwen_text *t, yyjson_val *space,
    yyjson_val *name);


/* fields.c: all but the prompt; prompt.c, which may free the document */
int qwen_ask_fields(struct qwen_ask *r);
int qwen_ask_prompt(struct qwen_ask *r);

/*
 * types.c: whether a parameter of this schema can be any text; root is what its
 * references are in, and steps what may be looked at by all such calls.  And
 * the tools as who reads calls needs them, for q.
 */
enum { QWEN_TYPE_STEPS = 1 << 20 };
int qwen_ask_is_text(yyjson_val *schema, yyjson_val *root, int *steps);
int qwen_ask_keep_tools(struct qwen_ask *r);

/* grammars.c: response_format, grammar, ...; what: the member that asks for it */
int qwen_ask_grammar(struct qwen_ask *r);
int qwen_ask_take_grammar(struct qwen_ask *r, const char *what,
    const char *text, size_t n, int is_schema);
/* The schema that the answer follows by now, or NULL; and no longer. */
const char *qwen_ask_schema(const struct qwen_ask *r, size_t *n);
void qwen_ask_drop_grammar(struct qwen_ask *r);

/*
 * tools.c: tools, tool_choice; calls.c: only calls, of that tool if not NULL, or,
 * with answer, what the schema of n bytes says
 */
int qwen_ask_tools(struct qwen_ask *r);
int qwen_ask_calls(struct qwen_ask *r, yyjson_val *only, const char *answer,
    size_t n);

#endif
