/* SPDX-License-Identifier: ISC */
/* ask.h - a request while it is parsed; for the files that parse requests. */
#ifndef QWEN_TEXT_REQUEST_ASK_H
#define QWEN_TEXT_REQUEST_ASK_H

#include "text/request/request.h"
#include <yyjson.h>

enum { QWEN_ASK_NUMBER = 64 };

struct qwen_ask;

/* Refuse a request with "KEY: what is wrong".  Returns -1. */
int qwen_ask_wrong(struct qwen_refusal *no, const char *key, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));
#define wrong(no, ...) qwen_ask_wrong(no, __VA_ARGS__)
/* The same without the "KEY: " in front; key NULL: no field is to blame. */
#define bad(no, ...) qwen_refuse(no, "invalid_request", __VA_ARGS__)

/*
 * If the refusal is for the field names[i][0], renames the field to
 * names[i][1], in the message too: the name that the client's API has for our
 * field.
 */
void qwen_ask_rename(struct qwen_refusal *no, const char *const names[][2],
    size_t n);

/* ---- ask.c: for all kinds of requests; -1: refused, or out of memory */

/*
 * Reports err for a part of the request.  Out of memory, here and by
 * qwen_oom(), is a failure of the service, not of the request.
 */
int qwen_ask_failed(struct qwen_refusal *no, const char *key,
    const struct qwen_err *err);

/*
 * Parses a JSON object.  Returns the document, which the caller frees; sets
 * *root to the object, or to NULL after a refusal. json is NULL for a line of
 * more than n bytes.
 */
yyjson_doc *qwen_ask_open(struct qwen_refusal *no, const char *json, size_t n,
    yyjson_val **root);

/*
 * The same, with U+FFFD in place of half a surrogate pair; notes that in u (may
 * be NULL).
 */
yyjson_doc *qwen_ask_open_mended(struct qwen_refusal *no,
    struct qwen_unknown *u, const char *json, size_t n, yyjson_val **root);

/* Returns a field; NULL if it is absent or null. */
yyjson_val *qwen_ask_get(yyjson_val *object, const char *key);

/*
 * qwen_ask_text returns a field if it is a string, else NULL. qwen_ask_is
 * returns 1 if the field "type" equals type.
 */
yyjson_val *qwen_ask_text(yyjson_val *object, const char *key);
int qwen_ask_is(yyjson_val *object, const char *type);
#define text_of(object, key) qwen_ask_text(object, key)
#define is(object, type) qwen_ask_is(object, type)

/* Writes a value as JSON to *out; the caller frees it. */
int qwen_ask_json(struct qwen_refusal *no, yyjson_val *v, char **out,
    size_t *n);

/*
 * Append to t: a value as JSON; or the key of field i and a colon, after "{"
 * for field 0, else after a comma.
 */
void qwen_ask_write(struct qwen_text *t, yyjson_val *v);
void qwen_ask_write_key(struct qwen_text *t, size_t i, const char *key,
    size_t n);

/* Replaces the document of r by t, a JSON object, and parses it; frees t. */
int qwen_ask_rewrite(struct qwen_ask *r, struct qwen_text *t);

/*
 * Copies the id of a request to *out as JSON.  An id is a string or, if numbers
 * is set, a number; *out is unchanged if the request has none.
 */
int qwen_ask_id(struct qwen_refusal *no, yyjson_val *root, const char *key,
    int numbers, char **out);

/*
 * Writes the digits of a number to buf as they are in the request, except that
 * 2.0 and 2e0 become 2.
 */
int qwen_ask_number(struct qwen_refusal *no, const char *key, yyjson_val *v,
    char buf[QWEN_ASK_NUMBER]);

/* Parses at most 18 digits, which always fit into 63 bits; -1 otherwise. */
int qwen_ask_digits(const char *s, size_t n, uint64_t *out);

/* Token ids of a string (qwen_ask_encode), or of a JSON list of token ids. */
int qwen_ask_encode(struct qwen_refusal *no, const char *key,
    const struct qwen_tok *tok, unsigned flags, const char *s, size_t n,
    struct qwen_ids *out);
int qwen_ask_ids(struct qwen_refusal *no, const char *key, yyjson_val *v,
    size_t n_vocab, struct qwen_ids *out);

/*
 * shape.c: check the JSON types of messages, tools and chat_template_kwargs, if
 * present.  Return 0; -1 with the error set, and *member set to the name of the
 * bad field. qwen_ask_check_tools checks tools alone, which may be NULL.
 */
int qwen_ask_check_shape(yyjson_val *request, const char **member,
    struct qwen_err *err);
int qwen_ask_check_tools(yyjson_val *tools, struct qwen_err *err);

/*
 * parts.c: qwen_ask_replace_parts appends to t the body with a text in place of
 * each part that is not text (an image, for example).  Returns the number of
 * such parts.  A placeholder "" means a line that names the kind of the part.
 * qwen_ask_part_hint returns a hint for the message that refuses such a part,
 * or "".
 */
size_t qwen_ask_replace_parts(struct qwen_text *t, yyjson_val *body,
    const char *placeholder);
const char *qwen_ask_part_hint(yyjson_val *part);

/* A request while it is parsed. */
struct qwen_ask {
	const struct qwen_service *s;
	struct qwen_request	*q;
	struct qwen_refusal	*no;	/* of q */
	yyjson_doc		*doc;
	yyjson_val		*body;	/* in doc */
	yyjson_val		*tools;	/* that the model may call, in body or
					   allowed; NULL: none */
	yyjson_doc		*allowed;	/* document of tools, if
						   allowed_tools names only
						   some; or NULL */
	const char		*holds;	/* name of the field that set the
					   grammar, or NULL */
	yyjson_val		*suffix;	/* JSON text after the gap to
						   fill, or NULL */
	struct qwen_text	*text;	/* where to write the text of a chat's
					   prompt, or NULL */
	struct qwen_ids		 before;	/* tokens in front of the
						   prompt */
	int			 only_reads;	/* the client wants the prompt
						   read and no token
						   generated */
};

/* parse.c: qwen_request_parse, which also writes a chat's prompt to text */
int qwen_ask_parse(struct qwen_request **out, const struct qwen_service *s,
    enum qwen_form form, const char *json, size_t n, struct qwen_text *text,
    struct qwen_err *err);

/* system.c: write a message for the template */
void qwen_ask_write_message(const struct qwen_service *s, struct qwen_text *t,
    yyjson_val *m);

/*
 * infill.c. qwen_ask_suffix reads the field "suffix" of a completion, if
 * present. qwen_ask_around encodes a prompt with that suffix; the text before
 * the gap is prefix or ids.  The others are for /infill: its fields, the tokens
 * that end an answer, and its prompt (q->prompt must have room for one).
 */
int qwen_ask_suffix(struct qwen_ask *r);
int qwen_ask_around(struct qwen_ask *r, struct qwen_str prefix,
    const struct qwen_ids *ids, struct qwen_ids *out);
int qwen_ask_infill(struct qwen_ask *r);
int qwen_ask_infill_endings(struct qwen_ask *r);
int qwen_ask_infill_prompt(struct qwen_ask *r);

/* prompt.c: refuses a text that surely has more tokens than the context */
int qwen_ask_may_fit(struct qwen_ask *r, const char *key, struct qwen_str s);

/* vector.c: adds a document; q->prompt must have room for it */
int qwen_ask_rank(struct qwen_rank_request *q, const struct qwen_ranking *s,
    struct qwen_str query, struct qwen_str document);

/* How a request may use a field. */
enum qwen_member_kind {
	QWEN_MEMBER_HEEDED,	/* used by the request parser */
	QWEN_MEMBER_IDLE,	/* known; no answer depends on it */
	QWEN_MEMBER_REFUSED,	/* not supported, unless its value asks for
				   nothing */
	QWEN_MEMBER_FOREIGN,	/* the name that another API has for the field
				   in ours */
	QWEN_MEMBER_PASSED,	/* used; copied unchanged into a chat of
				   OpenAI's form */
};

struct qwen_member {
	const char		*name;
	enum qwen_member_kind	 kind;
	const char		*ours;	/* of FOREIGN: our name; of REFUSED: a
					   number (or NULL); values up to it ask
					   for nothing */
};

struct qwen_members {
	const struct qwen_member *row;	/* sorted by strcmp() */
	size_t			 n;
};

/*
 * members.c: look for unknown and unsupported fields in the body (table NULL: a
 * body of OpenAI's form); in an object inside the body; in the envelope of a
 * batch line. qwen_ask_passes returns 1 if a field is copied unchanged into a
 * body of OpenAI's form.
 */
int qwen_ask_members(struct qwen_ask *r, const struct qwen_members *table);
int qwen_ask_members_of(struct qwen_ask *r, const struct qwen_members *table,
    yyjson_val *object);
int qwen_ask_passes(const struct qwen_ask *r, const struct qwen_members *table,
    yyjson_val *key);
int qwen_ask_envelope(struct qwen_ask *r, yyjson_val *root);

/*
 * members.c: leave out a part of the request that is not supported here.
 * Return 0 after a note, or -1 (refused) if unknown fields are errors.
 * qwen_ask_left_out takes the plural word for the parts ("tools", "items") in
 * what, and their type; qwen_ask_leave_out takes the complete text in what.
 */
int qwen_ask_left_out(struct qwen_ask *r, const char *key, const char *what,
    yyjson_val *type);
int qwen_ask_leave_out(struct qwen_ask *r, const char *key, const char *what);

/*
 * members.c: check the fields of a line for scores, vectors or ranking, or of a
 * posted body; u may be NULL
 */
enum qwen_line {
	QWEN_LINE_SCORE, QWEN_LINE_VECTOR, QWEN_LINE_RANK,
	/* posted bodies */
	QWEN_LINE_EMBEDDINGS, QWEN_LINE_RERANK, QWEN_LINE_OLLAMA_EMBED
};

int qwen_ask_line(struct qwen_refusal *no, enum qwen_line kind,
    struct qwen_unknown *u, yyjson_val *root);

/*
 * anthropic_in.c, responses_in.c, ollama_in.c, llama_in.c: check the fields of
 * the body and rewrite the body in the form of OpenAI's chats (or completions);
 * it becomes the document of r.  The rename functions put the request's own
 * field names into the refusal.
 */
int qwen_ask_anthropic(struct qwen_ask *r);
/* anthropic_tools.c: append the fields "tools" and "tool_choice" to t */
int qwen_ask_anthropic_tools(struct qwen_ask *r, struct qwen_text *t);
void qwen_ask_rename_anthropic(struct qwen_refusal *no);
int qwen_ask_responses(struct qwen_ask *r);
/*
 * responses_items.c: appends the field "messages" to t, made from instructions,
 * input and the previous response.  Appends tools found in the input to more, a
 * JSON list without its closing bracket.
 */
int qwen_ask_items(struct qwen_ask *r, struct qwen_text *t,
    struct qwen_text *more);
void qwen_ask_rename_responses(struct qwen_refusal *no);
int qwen_ask_ollama(struct qwen_ask *r);
void qwen_ask_rename_ollama(struct qwen_refusal *no);
int qwen_ask_llama(struct qwen_ask *r);
void qwen_ask_rename_llama(struct qwen_refusal *no);

/* settings.c: add a sampling option; read those that are not just a number */
int qwen_ask_set(struct qwen_ask *r, const char *key, const char *option,
    const char *value);
int qwen_ask_settings(struct qwen_ask *r);

/*
 * kept.c: items of earlier responses. qwen_ask_recall appends those of response
 * id to items, a JSON list. qwen_ask_kept_item returns one item by its id; NULL
 * if it is unknown, or after a refusal.  The item lives until the next call, or
 * until k->doc is freed. qwen_ask_keep saves the items before, then those of
 * input, for later requests.
 */
struct qwen_kept {
	yyjson_doc	*doc;		/* items of a response, or NULL */
	uint64_t	 number;	/* number of that response */
	size_t		 steps;		/* work done so far, to limit it */
};

int qwen_ask_recall(struct qwen_ask *r, yyjson_val *id,
    struct qwen_text *items);
yyjson_val *qwen_ask_kept_item(struct qwen_ask *r, struct qwen_kept *k,
    const char *id);
int qwen_ask_keep(struct qwen_ask *r, const struct qwen_text *before,
    yyjson_val *input);

/*
 * tool_list.c: tools as functions. qwen_ask_flat_tools appends the fields
 * "tools" and "tool_choice" of a request to /v1/responses to t; more is the
 * list of tools from its input, or NULL. qwen_ask_custom_tools rewrites the
 * body of a chat that has tools or calls other than functions.
 * qwen_ask_join_name appends the name by which the model knows the tool of a
 * namespace (or NULL).
 */
int qwen_ask_flat_tools(struct qwen_ask *r, yyjson_val *more,
    struct qwen_text *t);
int qwen_ask_custom_tools(struct qwen_ask *r);
void qwen_ask_join_name(struct qwen_text *t, yyjson_val *space,
    yyjson_val *name);


/*
 * fields.c: all fields except the prompt; prompt.c: the prompt; it may free the
 * document
 */
int qwen_ask_fields(struct qwen_ask *r);
int qwen_ask_prompt(struct qwen_ask *r);

/*
 * types.c. qwen_ask_is_text returns 1 if a parameter of this schema may be any
 * string; root holds the definitions that it refers to, and *steps limits the
 * work of all calls together. qwen_ask_keep_tools saves the tools in r->q for
 * the parser of replies.
 */
enum { QWEN_TYPE_STEPS = 1 << 20 };
int qwen_ask_is_text(yyjson_val *schema, yyjson_val *root, int *steps);
int qwen_ask_keep_tools(struct qwen_ask *r);

/*
 * ways.c: response_format, grammar and so on. grammars.c: qwen_ask_take_grammar
 * sets the grammar that the field named what asks for.
 */
int qwen_ask_grammar(struct qwen_ask *r);
int qwen_ask_take_grammar(struct qwen_ask *r, const char *what,
    const char *text, size_t n, int is_schema);
/* The schema that the answer must follow, or NULL.  Drop the grammar again. */
const char *qwen_ask_schema(const struct qwen_ask *r, size_t *n);
void qwen_ask_drop_grammar(struct qwen_ask *r);

/*
 * tools.c: tools, tool_choice. calls.c: restrict the answer to calls, of the
 * tool only if it is not NULL; or, if answer is not NULL, to a call or a text
 * of that schema of n bytes.
 */
int qwen_ask_tools(struct qwen_ask *r);
int qwen_ask_calls(struct qwen_ask *r, yyjson_val *only, const char *answer,
    size_t n);

#endif
