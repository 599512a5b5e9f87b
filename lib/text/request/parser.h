/* SPDX-License-Identifier: ISC */
/*
 * parser.h - a request while it is parsed; for the files that parse requests.
 */
#ifndef QWEN_TEXT_REQUEST_PARSER_H
#define QWEN_TEXT_REQUEST_PARSER_H

#include "text/json/json.h"
#include "text/request/request.h"

enum { QWEN_NUMBER_SIZE = 64 };

struct qwen_parser;

/* Refuse a request with "KEY: what is wrong".  Returns -1. */
int qwen_refuse_field(struct qwen_refusal *refusal, const char *key,
    const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define qwen_wrong(r, ...) qwen_refuse_field((r)->refusal, __VA_ARGS__)
/* The same without the "KEY: " in front; key NULL: no field is to blame. */
#define qwen_refuse_invalid(refusal, ...) \
	qwen_refuse(refusal, "invalid_request", __VA_ARGS__)
#define qwen_invalid(r, ...) qwen_refuse_invalid((r)->refusal, __VA_ARGS__)

/*
 * Replaces our name of the refused field by the one that the client's API has
 * for it, in the message too. names has our name, theirs, ... up to NULL.
 */
void qwen_refusal_rename(struct qwen_refusal *refusal,
    const char *const *names);

/* ---- common.c: for all kinds of requests; -1: refused, or out of memory */

/* Refuses a line of more than n bytes, which was dropped. */
int qwen_refuse_long(struct qwen_refusal *refusal, size_t n);

/*
 * Reports err for a part of the request, or for all of it (key NULL).  Out of
 * memory, here and by qwen_oom(), is a failure of the service, not of the
 * request.
 */
int qwen_refuse_error(struct qwen_refusal *refusal, const char *key,
    const struct qwen_err *err);

/*
 * Parses a JSON object.  Returns the document, which the caller frees; sets
 * *root to the object, or to NULL after a refusal. json is NULL for a line of
 * more than n bytes.
 */
yyjson_doc *qwen_parse_open(struct qwen_refusal *refusal, const char *json,
    size_t n, yyjson_val **root);

/*
 * The same, with U+FFFD in place of half a surrogate pair; notes that in u (may
 * be NULL).
 */
yyjson_doc *qwen_parse_open_mended(struct qwen_refusal *refusal,
    struct qwen_unknown *u, const char *json, size_t n, yyjson_val **root);

/* Returns a field; NULL if it is absent or null. */
yyjson_val *qwen_parse_get(yyjson_val *object, const char *key);

/*
 * qwen_parse_get_text returns a field if it is a string, else NULL.
 * qwen_parse_has_type returns 1 if the field "type" equals type.
 */
yyjson_val *qwen_parse_get_text(yyjson_val *object, const char *key);
int qwen_parse_has_type(yyjson_val *object, const char *type);

/* The bytes of a string; s is NULL for other values and for NULL. */
struct qwen_str qwen_parse_str(yyjson_val *v);

/*
 * Read a field; -1: refused. qwen_parse_string sets *out to a string.
 * qwen_parse_truth returns 1 for true and 0 for false.  qwen_parse_number_of
 * writes a number as qwen_parse_number does, and returns 1.  qwen_parse_whole
 * reads a whole number from min to max, and returns 1.  If the field is absent
 * or null, they return 0 (qwen_parse_truth: usual), and *out is unchanged.
 */
int qwen_parse_string(struct qwen_refusal *refusal, yyjson_val *object,
    const char *key, struct qwen_str *out);
int qwen_parse_truth(struct qwen_refusal *refusal, yyjson_val *object,
    const char *key, int usual);
int qwen_parse_number_of(struct qwen_refusal *refusal, yyjson_val *object,
    const char *key, char out[QWEN_NUMBER_SIZE]);
int qwen_parse_whole(struct qwen_refusal *refusal, yyjson_val *object,
    const char *key, int64_t min, int64_t max, int64_t *out);

/* The same for a field of a parser's body. */
#define qwen_read_string(r, ...) \
	qwen_parse_string((r)->refusal, (r)->body, __VA_ARGS__)
#define qwen_read_truth(r, ...) \
	qwen_parse_truth((r)->refusal, (r)->body, __VA_ARGS__)
#define qwen_read_number_of(r, ...) \
	qwen_parse_number_of((r)->refusal, (r)->body, __VA_ARGS__)
#define qwen_read_whole(r, ...) \
	qwen_parse_whole((r)->refusal, (r)->body, __VA_ARGS__)

/* Copies the name of the model, if there is one, to *out as JSON. */
int qwen_parse_model(struct qwen_refusal *refusal, yyjson_val *root,
    char **out);

/* Writes a value as JSON to *out; the caller frees it. */
int qwen_parse_to_json(struct qwen_refusal *refusal, yyjson_val *v, char **out);

/* Appends a field of an object to t under the name as, unless it is absent. */
void qwen_parse_copy(struct qwen_text *t, yyjson_val *object, const char *key,
    const char *as);

/* Moves the text t to *to, a field of the request; or frees it: no memory. */
int qwen_parse_keep_text(struct qwen_parser *r, struct qwen_text *t, char **to);

/* Returns -1 if memory ran out for the request, else 0. */
int qwen_refusal_oom(const struct qwen_refusal *refusal, struct qwen_err *err);

/* Parses r->out, a JSON object, as the new document of r; empties r->out. */
int qwen_parse_replace_body(struct qwen_parser *r);

/*
 * Copies the id of a request to *out as JSON.  An id is a string or, if numbers
 * is set, a number; *out is unchanged if the request has none.
 */
int qwen_parse_id(struct qwen_refusal *refusal, yyjson_val *root,
    const char *key, int numbers, char **out);

/*
 * Writes the digits of a number to buf as they are in the request, except that
 * 2.0 and 2e0 become 2.
 */
int qwen_parse_number(struct qwen_refusal *refusal, const char *key,
    yyjson_val *v, char buf[QWEN_NUMBER_SIZE]);

/* Parses at most 18 digits, which always fit into 63 bits; -1 otherwise. */
int qwen_parse_digits(const char *s, size_t n, uint64_t *out);

/* Token ids of a string (qwen_parse_encode), or of a JSON list of token ids. */
int qwen_parse_encode(struct qwen_refusal *refusal, const char *key,
    const struct qwen_tok *tok, unsigned flags, const char *s, size_t n,
    struct qwen_ids *out);
int qwen_parse_ids(struct qwen_refusal *refusal, const char *key, yyjson_val *v,
    size_t n_vocab, struct qwen_ids *out);

/*
 * shape.c: check the JSON types of messages, tools and chat_template_kwargs, if
 * present; messages may have images if images is set.  Return 0; -1 with the
 * error set, and *member set to the name of the bad field.
 * qwen_parse_check_tools checks tools alone, which may be NULL.
 */
int qwen_parse_check_shape(yyjson_val *request, int images,
    const char **member, struct qwen_err *err);
int qwen_parse_check_tools(yyjson_val *tools, struct qwen_err *err);

/*
 * parts.c: qwen_parse_replace_parts appends to t the body with a text in place
 * of each part that is not text (an image, for example).  Returns the number of
 * such parts.  A placeholder "" means a line that names the kind of the part.
 * With images set, images stay as they are.  qwen_parse_part_hint returns a hint for the message that refuses such a part,
 * or "".
 */
size_t qwen_parse_replace_parts(struct qwen_text *t, yyjson_val *body,
    const char *placeholder, int images);
const char *qwen_parse_part_hint(yyjson_val *part);

/*
 * images.c: qwen_parse_is_image returns 1 for a part that is an image, in any
 * API's form. qwen_parse_images appends the sources of the images of a list of
 * messages, in their order; -1: the message says which image is wrong.
 */
int qwen_parse_is_image(yyjson_val *part);
/* The same for the part's type, a string or NULL. */
int qwen_parse_names_image(const char *type);
int qwen_parse_images(struct qwen_image_sources *all, yyjson_val *messages,
    struct qwen_err *err);

/* A request while it is parsed. */
struct qwen_parser {
	const struct qwen_service *s;
	struct qwen_request	*q;
	struct qwen_refusal	*refusal;	/* of q */
	yyjson_doc		*doc;
	yyjson_val		*body;	/* in doc */
	struct qwen_text	 out;	/* a new body, while it is written */
	const struct qwen_parts	*parts;	/* of the API, for content.c */
	size_t			 at;	/* number of the message that is read,
					   from 1 */
	size_t			 nth;	/* index of the element that
					   qwen_parse_each reads */
	yyjson_val		*tools;	/* that the model may call, in body or
					   allowed; NULL: none */
	yyjson_doc		*allowed;	/* document of tools, if
						   allowed_tools names only
						   some; or NULL */
	const char		*grammar_field;	/* name of the field that
						   set the grammar, or NULL */
	struct qwen_str		 suffix;	/* text after the gap to fill,
						   in doc; s NULL: no gap */
	struct qwen_text	*text;	/* where to write the text of a chat's
					   prompt, or NULL */
	struct qwen_ids		 before;	/* tokens in front of the
						   prompt */
	int			 only_reads;	/* the client wants the prompt
						   read and no token
						   generated */
};

/*
 * common.c: calls read for each element of a list, with begin before and end
 * after what it appends to r->out. -1: as soon as one fails.
 */
int qwen_parse_each(struct qwen_parser *r, const char *begin, yyjson_val *list,
    int (*read)(struct qwen_parser *r, yyjson_val *v), const char *end);

/* parse.c: qwen_request_parse, which also writes a chat's prompt to text */
int qwen_parse_request(struct qwen_request **out, const struct qwen_service *s,
    enum qwen_form form, const char *json, size_t n, struct qwen_text *text,
    struct qwen_err *err);

/*
 * infill.c. qwen_parse_suffix reads the field "suffix" of a completion, if
 * present. qwen_parse_encode_fim encodes a prompt with that suffix; the text
 * before the gap is prefix or ids.  The others are for /infill: its fields, the
 * tokens that end an answer, and its prompt (q->prompt must have room for one).
 */
int qwen_parse_suffix(struct qwen_parser *r);
int qwen_parse_encode_fim(struct qwen_parser *r, struct qwen_str prefix,
    const struct qwen_ids *ids, struct qwen_ids *out);
int qwen_parse_infill(struct qwen_parser *r);
int qwen_parse_infill_ends(struct qwen_parser *r);
int qwen_parse_infill_prompt(struct qwen_parser *r);

/* prompt.c: refuses a text that surely has more tokens than the context */
int qwen_parse_check_length(struct qwen_parser *r, const char *key,
    struct qwen_str s);

/* vector.c: adds a list of documents; objects: they may be in "text" */
int qwen_parse_documents(struct qwen_rank_request *q,
    const struct qwen_ranking *s, struct qwen_str query, yyjson_val *list,
    int objects);

/* How a request may use a field. */
enum qwen_field_use {
	QWEN_FIELD_USED,	/* used by the request parser */
	QWEN_FIELD_COPIED,	/* used; copied unchanged into a chat of
				   OpenAI's form */
	QWEN_FIELD_IGNORED,	/* known; no answer depends on it */
	QWEN_FIELD_REFUSED,	/* not supported, unless its value asks for
				   nothing */
	QWEN_FIELD_ABOVE,	/* refused, except for numbers up to the next
				   word */
	QWEN_FIELD_ALIAS,	/* the name that another API has for our field,
				   the next word */
	QWEN_FIELD_USES,
	QWEN_FIELD_UNKNOWN = QWEN_FIELD_USES
};

/* The fields that may occur, by their use: words up to NULL, or NULL: none. */
struct qwen_fields {
	const char *const *words[QWEN_FIELD_USES];
};
#define QWEN_WORDS(...) (const char *const[]){ __VA_ARGS__, NULL }

/*
 * known_fields.c: look for unknown and unsupported fields in the body (table
 * NULL: a body of OpenAI's form); in an object inside the body; in the envelope
 * of a batch line. qwen_parse_is_copied returns 1 if a field is copied
 * unchanged into a body of OpenAI's form; qwen_parse_copy_known appends all
 * such fields of the body to r->out.
 */
int qwen_parse_check_fields(struct qwen_parser *r,
    const struct qwen_fields *table);
int qwen_parse_check_object(struct qwen_parser *r,
    const struct qwen_fields *table, yyjson_val *object);
int qwen_parse_is_copied(const struct qwen_parser *r,
    const struct qwen_fields *table, yyjson_val *key);
void qwen_parse_copy_known(struct qwen_parser *r,
    const struct qwen_fields *table);
int qwen_parse_check_envelope(struct qwen_parser *r, yyjson_val *root);

/*
 * known_fields.c: leave out a part of the request that is not supported here.
 * Return 0 after a note, or -1 (refused) if unknown fields are errors.
 * qwen_parse_skip_type takes the plural word for the parts ("tools", "items")
 * in what, and their type; qwen_parse_skip takes the complete text in what.
 */
int qwen_parse_skip_type(struct qwen_parser *r, const char *key,
    const char *what, yyjson_val *type);
int qwen_parse_skip(struct qwen_parser *r, const char *key, const char *what);

/*
 * known_fields.c: check the fields of a line for scores, vectors or ranking, or
 * of a posted body; u may be NULL
 */
enum qwen_body_kind {
	QWEN_BODY_SCORE, QWEN_BODY_VECTOR, QWEN_BODY_RANK,
	/* posted bodies */
	QWEN_BODY_EMBEDDINGS, QWEN_BODY_RERANK, QWEN_BODY_OLLAMA_EMBED
};

int qwen_parse_check_body(struct qwen_refusal *refusal,
    enum qwen_body_kind kind, struct qwen_unknown *u, yyjson_val *root);

/*
 * anthropic_in.c, responses_in.c, ollama_in.c, llama_in.c: check the fields of
 * the body and rewrite the body in the form of OpenAI's chats (or completions);
 * it becomes the document of r.
 */
int qwen_parse_anthropic(struct qwen_parser *r);
int qwen_parse_responses(struct qwen_parser *r);
int qwen_parse_ollama(struct qwen_parser *r);
int qwen_parse_llama(struct qwen_parser *r);
/* Names of their fields, for qwen_refusal_rename. */
extern const char *const qwen_anthropic_names[], *const qwen_responses_names[],
    *const qwen_ollama_names[], *const qwen_llama_names[];

/* anthropic_tools.c: appends the fields "tools" and "tool_choice" to r->out */
int qwen_parse_anthropic_tools(struct qwen_parser *r);
/*
 * responses_items.c: appends the field "messages" to r->out, made from
 * instructions, input and the previous response.  Appends tools found in the
 * input to more, a JSON list without brackets.
 */
int qwen_parse_items(struct qwen_parser *r, struct qwen_text *more);

/*
 * content.c: messages of APIs that have parts of content with types of their
 * own; all is appended to r->out.
 */
struct qwen_parts {
	const char		*item, *part;	/* the words for a message and
						   a part */
	const char		*param, *param0; /* the fields that have the
						   messages; and message 0, */
	const char		*item0;		/* and the word for it */
	const char		*only;		/* "(text only)", for parts;
						   for messages; or "" */
	const char *const	*texts;		/* type of a part with a text,
						   the field with the text, and
						   so on up to NULL */
	const char *const	*hosted;	/* types of tools that only the
						   API's own servers have, or
						   that only they can read */
	const char		*hosted_end;	/* end of more such types */
};

/* Refuse message r->at for a reason; or for its part (or what) of a type. */
int qwen_refuse_item(struct qwen_parser *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int qwen_refuse_type(struct qwen_parser *r, const char *what, yyjson_val *part);

/* Returns the text of a part, or NULL after a refusal. */
yyjson_val *qwen_parse_part_text(struct qwen_parser *r, yyjson_val *part);

/* Appends a part with text, or an image if the model reads them, to a list. */
int qwen_parse_add_part(struct qwen_parser *r, yyjson_val *part);

/* Append a message, from the content: a string or a list of parts. */
int qwen_parse_add_message(struct qwen_parser *r, const char *role,
    yyjson_val *content);

/* Appends the result of a tool; content NULL: an empty one. */
int qwen_parse_add_result(struct qwen_parser *r, yyjson_val *id,
    yyjson_val *content);

/*
 * Appends a call to t, up to its arguments; the caller appends these and "}}".
 * id may be NULL.
 */
void qwen_parse_begin_call(struct qwen_text *t, yyjson_val *id,
    struct qwen_str name);

/*
 * Returns 1 for the type of a hosted tool: the conversation can be understood
 * without it.
 */
int qwen_parse_is_hosted(const struct qwen_parser *r, yyjson_val *part);

/* The field "response_format" for a schema. */
void qwen_parse_add_schema(struct qwen_parser *r, yyjson_val *schema);

/* settings.c: add a sampling option; read those that are not just a number */
int qwen_parse_add_setting(struct qwen_parser *r, const char *key,
    const char *option, const char *value);
int qwen_parse_settings(struct qwen_parser *r);

/*
 * tool_list.c: tools as functions. qwen_parse_flatten_tools appends the fields
 * "tools" and "tool_choice" of a request to /v1/responses to r->out; more is
 * the list of tools from its input, or NULL.  qwen_parse_custom_tools rewrites
 * the body of a chat that has tools or calls other than functions.
 * qwen_parse_join_name appends the name by which the model knows the tool of a
 * namespace (or NULL).
 */
int qwen_parse_flatten_tools(struct qwen_parser *r, yyjson_val *more);
int qwen_parse_custom_tools(struct qwen_parser *r);
void qwen_parse_join_name(struct qwen_text *t, yyjson_val *space,
    yyjson_val *name);

/*
 * fields.c: all fields except the prompt; prompt.c: the prompt; it may free the
 * document
 */
int qwen_parse_fields(struct qwen_parser *r);
int qwen_parse_prompt(struct qwen_parser *r);

/*
 * types.c. qwen_parse_may_be_string returns 1 if a parameter of this schema may
 * be any string; root holds the definitions that it refers to, and *steps
 * limits the work of all calls together. qwen_parse_save_tools saves the tools
 * in r->q for the parser of replies.
 */
enum { QWEN_TYPE_STEPS = 1 << 20 };
int qwen_parse_may_be_string(yyjson_val *schema, yyjson_val *root, int *steps);
int qwen_parse_save_tools(struct qwen_parser *r);

/*
 * constraints.c: response_format, grammar and so on. grammars.c:
 * qwen_parse_set_grammar sets the grammar that the field named what asks for.
 */
int qwen_parse_constraints(struct qwen_parser *r);
int qwen_parse_set_grammar(struct qwen_parser *r, const char *what,
    const char *text, size_t n, int is_schema);
/* The schema that the answer must follow, or NULL.  Drop the grammar again. */
const char *qwen_parse_get_schema(const struct qwen_parser *r, size_t *n);
void qwen_parse_drop_grammar(struct qwen_parser *r);

/*
 * tools.c: tools, tool_choice. calls.c: restrict the answer to calls, of the
 * tool only if it is not NULL; or, if answer is not NULL, to a call or a text
 * of that schema of n bytes.
 */
int qwen_parse_tools(struct qwen_parser *r);
int qwen_parse_restrict_calls(struct qwen_parser *r, yyjson_val *only,
    const char *answer, size_t n);

#endif
