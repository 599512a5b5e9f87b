/* SPDX-License-Identifier: ISC */
/*
 * request.h - requests in the forms of OpenAI, Anthropic, Ollama and llama.cpp,
 * and their answers, as a body or as events.  For everything that serves a
 * model, from files or from sockets.
 *
 * This code handles text only and knows no weights.  It returns a request's
 * sampling settings as options by name, for the caller's sampler.  The caller
 * gives back token ids, with the log-probabilities that the request wants.
 * Nothing here exits, prints or reads the environment.  An error in a request
 * becomes its refusal; functions fail only when out of memory, unless they say
 * otherwise.
 */
#ifndef QWEN_TEXT_REQUEST_REQUEST_H
#define QWEN_TEXT_REQUEST_REQUEST_H

#include "base/text.h"
#include "qwentext.h"

enum {
	QWEN_CHOICES_MAX = 128,		/* answers per request */
	QWEN_STOPS_MAX = 64,
	QWEN_LOGPROBS_MAX = 20,		/* most likely tokens listed per
					   token */
	QWEN_DOCUMENTS_MAX = 4096,	/* in a list to rank */
	QWEN_VALUES_MAX = 1 << 18,	/* JSON values in a chat request */
};

/* Token ids, owned. */
struct qwen_ids {
	int32_t	*id;
	size_t	 n;
};

/* Why a request was refused, or failed; err.code is 0 if it was not. */
struct qwen_refusal {
	struct qwen_err	 err;
	const char	*code;		/* error code, a word */
	const char	*param;		/* the field that is wrong, or NULL */
};

/*
 * Refuses a request, unless it was refused before: the first reason stays. code
 * and param are borrowed as long as *no lives.  Returns -1.
 */
int qwen_refuse(struct qwen_refusal *refusal, const char *code,
    const char *param, const char *fmt, ...) __attribute__((format(printf, 4,
    5)));

/*
 * Refuses a prompt of n tokens (is_least: of at least n) for a context of n_ctx
 * tokens.  Uses the code and the words that tell clients to shorten the
 * conversation.  Returns -1.
 */
#define QWEN_TOO_LONG "context_length_exceeded"
int qwen_refuse_length(struct qwen_refusal *refusal, const char *param,
    size_t n, int is_least, size_t n_ctx);

/*
 * Returns the HTTP status of a refusal: 200 if there is none; 404 for
 * "item_not_found", 429 for "queue_full", 500 for "failed" and "out_of_memory",
 * 503 for "unavailable", 504 for "deadline"; 400 for all other codes, which are
 * errors of the client.
 */
int qwen_refusal_status(const struct qwen_refusal *refusal);

/* ---------------------------------------------------------------- grammars */

/*
 * Grammars of requests, parsed once per text, and the vocabulary that they work
 * on, which is built when needed.
 */
struct qwen_shared_grammar;
struct qwen_unknown;
struct qwen_grammars {
	struct qwen_shared_grammar *first;
	struct qwen_unknown	*unknown;	/* receives notes on schemas;
						   decides if notes are
						   errors */
	const struct qwen_gguf	*gguf;
	const struct qwen_pieces *pieces;	/* set by the caller; if NULL,
						   built from gguf */
	struct qwen_pieces	*own;
	struct qwen_trie	*trie;
};

/*
 * Like qwen_grammar_open_schema, but a keyword that is not supported becomes a
 * note in u, unless u is strict.
 */
int qwen_grammar_open_noted(struct qwen_grammar **out, const char *text,
    size_t n, struct qwen_unknown *u, struct qwen_err *err);

/* Builds pieces and trie, unless they exist. */
int qwen_grammars_prepare(struct qwen_grammars *all, struct qwen_err *err);

/*
 * Returns in *out the grammar (or schema) of this text, parsed once for all
 * requests that use it, and in *c its constraint.  The caller unshares *out
 * after use; NULL is ignored.
 */
struct qwen_shared_grammar;
int qwen_grammar_share(struct qwen_grammars *all, const char *text, size_t n,
    int is_schema, struct qwen_shared_grammar **out,
    struct qwen_constraint *c, struct qwen_err *err);
void qwen_grammar_unshare(struct qwen_shared_grammar *g);
void qwen_grammars_fini(struct qwen_grammars *all);

/* ---------------------------------------------------------------- requests */

/* Unknown fields of requests, and notes on requests. */
enum { QWEN_UNKNOWN_MAX = 8, QWEN_NOTES_MAX = 16 };

struct qwen_unknown {
	int		 strict;	/* refuse unknown fields */
	struct {
		char		 name[48];	/* truncated to fit */
		const char	*nearest;	/* a similar known field, or
						   NULL */
	}		 field[QWEN_UNKNOWN_MAX];
	size_t		 n;
	int		 more;		/* there were more unknown fields */
	/* notes on parts of requests that are not followed, each once */
	char		 note[QWEN_NOTES_MAX][240];
	size_t		 n_notes;
	size_t		 n_shown;	/* notes that the caller has shown */
};

/* Adds a note, unless it exists, there are too many, or u is NULL. */
void qwen_unknown_note(struct qwen_unknown *u, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Notes on input that was damaged but readable. */
const char *qwen_note_arguments(void);
const char *qwen_note_surrogates(void);

/* Appends the unknown fields: "temprature (did you mean temperature?), foo". */
void qwen_unknown_list(const struct qwen_unknown *u, struct qwen_text *t);

/*
 * Settings for all requests, and defaults for fields that they lack; borrowed.
 */
struct qwen_service {
	const struct qwen_tok	*tok;
	struct qwen_tok_decoder	*spell;		/* gives one token's bytes */
	const struct qwen_template *template;	/* NULL: see no_template */
	const char		*no_template;	/* why there is no template */
	const char		*model;		/* name of the model */
	size_t			 n_vocab;
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	size_t			 n_ctx;		/* most tokens of prompt and
						   answer; 0: checked later */
	size_t			 max;		/* default limit of tokens */
	size_t			 min;		/* default number of tokens
						   before a stop string
						   counts */
	const struct qwen_str	*stop;
	size_t			 n_stop;
	struct qwen_grammars	*grammars;
	int			 has_grammar;	/* the caller has a grammar for
						   requests without one */
	int			 streams;	/* requests may stream */
	int			 echoes;	/* completions may echo
						   prompts */
	int			 plain_lines;	/* the result of a batch line
						   that is not a JSON object is
						   in the plain form, not in an
						   envelope */
	struct qwen_unknown	*unknown;	/* unknown fields, or NULL */
	/*
	 * qwen_sample_opt(), for the sampling options that fields of requests
	 * set; NULL: none.
	 */
	const struct qwen_sample_opt *(*sample_opt)(size_t i);
	int			 strict_calls;	/* as in qwen_reply_opts */
	const char		*placeholder;	/* line in place of an image;
						   "": a built-in line; NULL:
						   images are refused */
	/*
	 * Returns 1 for a line of a system (or developer) message that the
	 * template must not get.  NULL: keep all lines.
	 */
	int			(*pass_over)(void *arg, const char *line,
				    size_t n);
	void			*pass_over_arg;
	/*
	 * Encodes a chat's prompt in place of qwen_prompt_encode, for callers
	 * that know more about its parts; or NULL.
	 */
	int			(*encode_prompt)(void *arg,
				    const struct qwen_prompt *p,
				    struct qwen_ids *out,
				    struct qwen_err *err);
	void			*encode_arg;
	/*
	 * Appends the items of an earlier response, as qwen_response_items
	 * wrote them.  Returns 1; 0 if the id is unknown; -1.  NULL: requests
	 * cannot refer to earlier responses.
	 */
	int			(*recall)(void *arg, const char *id,
				    struct qwen_text *items,
				    struct qwen_err *err);
	void			*recall_arg;
};

enum qwen_form {
	QWEN_FORM_PLAIN,	/* {"prompt": ...}, {"messages": ...} */
	QWEN_FORM_COMPLETION,	/* /v1/completions */
	QWEN_FORM_CHAT,		/* /v1/chat/completions */
	QWEN_FORM_RESPONSES,	/* /v1/responses */
	QWEN_FORM_MESSAGES,	/* /v1/messages (Anthropic) */
	QWEN_FORM_OLLAMA_CHAT,	/* /api/chat (Ollama) */
	QWEN_FORM_OLLAMA_GENERATE, /* /api/generate: a chat of one message */
	QWEN_FORM_OLLAMA_RAW,	/* /api/generate with "raw": plain prompt */
	QWEN_FORM_LLAMA,	/* /completion (llama.cpp) */
	QWEN_FORM_COMPACT,	/* /v1/responses/compact */
	QWEN_FORM_INFILL,	/* /infill (llama.cpp) */
};

/*
 * Returns the media type of streams of this form; all other answers are JSON.
 */
const char *qwen_form_stream_type(enum qwen_form form);

/* Progress of reading the prompts, in tokens. */
struct qwen_progress {
	size_t	total, cached, read;	/* read includes cached */
	double	seconds;		/* since reading began */
};

/* Durations of the parts of an answer, in seconds. */
struct qwen_timings {
	int	known;		/* 0: not measured, as in a batch */
	double	total;		/* since the request arrived */
	double	prompt;		/* until the first token of the answer */
	double	answer;		/* from the first token to the last */
};

/* The beginning of the summary of a compacted conversation. */
#define QWEN_COMPACTION "qpipe summary 1\n"

/* A sampling option, for qwen_sampler_set. */
struct qwen_setting {
	const char	*key;		/* name of the field in the request */
	const char	*option;	/* name of the sampler's option */
	char		*value;
};

/* Where the seed of a request comes from. */
enum qwen_seed {
	QWEN_SEED_UNSAID,	/* the request has none */
	QWEN_SEED_GIVEN,	/* it is one of the request's settings */
	QWEN_SEED_RANDOM,	/* the caller must draw it */
};

/* A tool that is a function for the model, but not for the client. */
enum qwen_tool_kind {
	QWEN_TOOL_FUNCTION,	/* function of a namespace */
	QWEN_TOOL_CUSTOM,	/* its input is a string, not JSON */
	QWEN_TOOL_SEARCH,	/* the client's search for more tools */
};

struct qwen_tool_alias {
	char			*called;	/* name for the model */
	char			*name;		/* name for the client */
	char			*space;		/* the client's namespace, or
						   NULL */
	enum qwen_tool_kind	 kind;
};

struct qwen_answer;
struct qwen_request {
	void			*arg;		/* for the caller */
	const struct qwen_service *service;
	struct qwen_refusal	 refusal;
	enum qwen_form		 form;
	int			 is_object;	/* the text is a JSON object; if
						   not, form is a guess */
	unsigned long long	 number;	/* for the ids of its answers */
	char			*id;	/* JSON of custom_id or id, or NULL */
	char			*model;	/* JSON of the wanted model, or NULL */
	struct qwen_ids		*prompt;
	size_t			 n_prompts;
	size_t			 n_prompt_tokens;	/* of all prompts */
	int			 has_control;	/* a plain prompt spells a
						   control token */
	int32_t			 control_id;	/* that token, taken as text */
	struct qwen_setting	*setting;
	size_t			 n_settings, cap_settings;
	int32_t			*bias_id;	/* logit_bias: tokens, each
						   once */
	float			*bias;		/* added to its logit; owned */
	size_t			 n_bias;
	enum qwen_seed		 seed_from;
	int			 seed_drawn;	/* the caller drew the seed; */
	unsigned long long	 seed;		/* the answer shows it */
	double			 temp_range;	/* width above and below the
						   temperature; 0: none */
	int32_t			*stop_id;	/* additional tokens that end an
						   answer; owned */
	size_t			 n_stop_ids;
	int32_t			*end_id;	/* of the caller: stop_id and
						   the model's ending tokens, or
						   NULL; owned */
	size_t			 n_end_ids;
	int			 keeps_stop;	/* the text includes the stop
						   string that ended it */
	size_t			 n;	/* answers per prompt */
	size_t			 max;	/* tokens per answer; 0 only with
					   echo */
	int			 max_given;	/* max is the request's own */
	size_t			 min;	/* tokens before a stop string counts */
	int			 echo;	/* answers begin with the prompt */
	struct qwen_str		*stop;	/* owned */
	size_t			 n_stop;
	int			 stream;
	int			 include_usage;	/* at the end of a stream */
	int			 tells_progress; /* as events */
	int			 logprobs;
	size_t			 n_top;	/* most likely tokens to list */
	struct qwen_shared_grammar *shared;	/* or NULL */
	const struct qwen_grammar *grammar;	/* in shared */
	size_t			 n_bytes;	/* rough size in memory, without
						   the bytes of the line */
	enum qwen_thinking	 thinking;	/* at the prompt's end */
	int			 thinks;	/* a thought may come first */
	int			 continues;	/* the last message */
	int			 one_call;	/* call only one tool */
	int			 ends_itself;	/* by its grammar alone */
	char			*tools;	/* JSON, or NULL */
	size_t			 n_tools;
	struct qwen_tool_alias	*alias;	/* of tools other than functions */
	size_t			 n_alias, cap_alias;
	char			*echoed;	/* JSON fields of the request
						   that its response repeats */
	char			*previous;	/* id of the previous response,
						   or NULL */
	char			*items;	/* JSON items of the conversation up to
					   the answer, without brackets, to be
					   kept for later requests; NULL: not
					   kept */
	const char		*done_reason;	/* Ollama's field, of a request
						   that only loads or unloads
						   the model; else NULL */
	int			 keep_ids;	/* answers keep token ids */
	struct qwen_timings	 times;	/* set by the caller at the end */
	char			*fields;	/* of /infill: JSON list of
						   fields wanted in the body, or
						   NULL: all */
	size_t			 n_indent;	/* less indentation in a line
						   ends the answer; 0: never */
	uint64_t		 line_ms;	/* once a line has ended, stop
						   this many ms after the first
						   token; 0: never */
	size_t			 n_cached;	/* cached tokens of the
						   prompts */
	int			 has_cached;	/* usage reports n_cached */
	struct qwen_answer	*answer;	/* by prompt */
	size_t			 n_answers;
};

/*
 * Parses the body of a request in this form. -1: out of memory; any other error
 * is the refusal in (*out)->no.
 */
int qwen_request_parse(struct qwen_request **out, const struct qwen_service *s,
    enum qwen_form form, const char *json, size_t n, struct qwen_err *err);

/*
 * Returns -1 and refuses the request if a prompt and one more token do not fit
 * into n_ctx tokens.
 */
int qwen_request_fits(struct qwen_request *q, size_t n_ctx);

/*
 * Writes the grammar that answers must follow to *gbnf, as GBNF, for free();
 * NULL if there is none.
 */
int qwen_request_grammar(const struct qwen_request *q, char **gbnf, size_t *n,
    struct qwen_err *err);

/*
 * Parses a line of a batch: a request in an envelope, or a request in the plain
 * form.  If the line is not a JSON object, s->plain_lines decides its form.
 * json is NULL for a line of more than n bytes, which was dropped.
 */
int qwen_request_parse_line(struct qwen_request **out,
    const struct qwen_service *s, const char *json, size_t n,
    struct qwen_err *err);
void qwen_request_free(struct qwen_request *q);

/* The kind of a batch line; ids of envelopes must be unique. */
enum qwen_line_kind { QWEN_LINE_BAD, QWEN_LINE_PLAIN, QWEN_LINE_ENVELOPE };

/*
 * Reads only the id of a line. *id is JSON, for free(); NULL if the line has
 * none.
 */
int qwen_request_line_id(const char *json, size_t n, char **id,
    enum qwen_line_kind *kind, struct qwen_err *err);

/* ----------------------------------------------------------------- answers */

/* A token, and the natural logarithm of its probability. */
struct qwen_likely {
	int32_t	id;
	double	logprob;
};

/* Blocks of an answer in their order; a completion has one block. */
enum qwen_block_kind { QWEN_BLOCK_REASONING, QWEN_BLOCK_TEXT, QWEN_BLOCK_CALL };

struct qwen_block {
	enum qwen_block_kind kind;
	size_t		 from, n;	/* bytes in the answer's text of that
					   kind; a call is one block */
	size_t		 n_name;	/* of a call: bytes of the name; the
					   rest is its arguments, a JSON
					   object */
	int		 cut;		/* a truncated call: its arguments are
					   incomplete or empty */
	size_t		 lp_from, lp_to;	/* range in logprobs */
};

/* A token of a chat's reply whose text may become content. */
struct qwen_pending_token {
	struct qwen_likely likely;
	size_t		 from, to;	/* its bytes in the reply; to is 0 until
					   its character is complete */
	size_t		 kept, kept_to;	/* its bytes that are content */
	size_t		 top, n_top;	/* range in lp_top */
};

/*
 * An answer, while it is generated. text, reasoning, calls and logprobs only
 * grow, by complete characters, and never contain the possible beginning of a
 * stop string.  So a stream can send the new part each time.
 */
struct qwen_answer {
	struct qwen_request	*request;
	const struct qwen_ids	*prompt;
	size_t			 n;		/* number of tokens */
	const char		*finish;	/* "stop", "length", or NULL */
	int			 repeats;	/* ended by a loop */
	const struct qwen_str	*stopped;	/* by this stop string, or
						   NULL */
	struct qwen_text	 text;
	struct qwen_text	 reasoning;	/* reasoning and calls: of
						   chats */
	struct qwen_text	 calls;		/* names and arguments */
	size_t			 n_calls;
	size_t			 n_thought;	/* tokens up to the last
						   thought */
	struct qwen_block	*block;		/* parts of these three, in
						   order */
	size_t			 n_blocks;
	struct qwen_text	 logprobs;	/* JSON list elements;
						   completions have three more
						   lists */
	struct qwen_text	 lp_tokens, lp_top, lp_offset;
	int32_t			*id;		/* all n tokens, if
						   request->keep_ids */
	/* private */
	size_t			 cap_ids;
	size_t			 cap_blocks;
	size_t			 n_chars;
	size_t			 n_bytes;	/* of a chat's reply so far */
	struct qwen_pending_token *pending;	/* tokens not yet in logprobs,
						   from first_pending on */
	size_t			 n_pending, cap_pending, first_pending;
	int			 at_stop;
	size_t			 line;		/* offset of the last line */
	int			 outdents;	/* ended by an indentation */
	struct qwen_tok_decoder	*decoder;
	struct qwen_stop_finder	*stop_finder;
	struct qwen_reply	*reply;
};

/*
 * Adds a token. top has its n_top most likely alternatives; these and the
 * log-probability matter only if the request wants them.  Returns 1 if the
 * answer has ended (by a stop string, for example): add no more tokens.
 */
int qwen_answer_put(struct qwen_answer *a, const struct qwen_likely *token,
    const struct qwen_likely *top, size_t n_top, struct qwen_err *err);

/*
 * Adds a token of the prompt, for requests with echo: all of the prompt, before
 * qwen_answer_put. logprob is NAN if unknown, as for the first token.
 */
int qwen_answer_echo(struct qwen_answer *a, const struct qwen_likely *token,
    const struct qwen_likely *top, size_t n_top, struct qwen_err *err);

/*
 * Ends the answer. finish is "stop" or "length"; a stop string that ended the
 * answer takes precedence. "length" also means that the call at the end of a
 * chat's reply may be truncated.
 */
int qwen_answer_end(struct qwen_answer *a, const char *finish,
    struct qwen_err *err);

/* ----------------------------------------------------------------- results */

/*
 * Appends the body of the response, or of the refusal. created is a time in
 * seconds since 1970; 0: no time.
 */
void qwen_request_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);

/*
 * Appends the body of an error that is not a refusal of a request. code is a
 * word, param the field that is wrong; both may be NULL.  The status determines
 * the type of the error.
 */
void qwen_error_body(enum qwen_form form, int status, const char *code,
    const char *param, const char *message, struct qwen_text *t);

/*
 * Appends the items of the conversation and of its answer, a JSON list: what
 * struct qwen_service's recall must give back later.
 */
void qwen_response_items(const struct qwen_request *q, struct qwen_text *t);

/*
 * The run that made a result: the field "run" of the result line.  All strings
 * are borrowed; hashes are hexadecimal digits.
 */
struct qwen_result_run {
	const char	*model;		/* name of the model */
	const char	*hash;		/* hash of the model */
	const char	*options;	/* options that change answers */
	const char	*request;	/* hash of the answered line; NULL if
					   the line was dropped */
};

/*
 * Appends the result line of a request in its form, with the run that made it
 * (may be NULL).  It does not depend on the time, the machine or other lines.
 */
void qwen_request_result(const struct qwen_request *q,
    const struct qwen_result_run *run, struct qwen_text *t);

/* Whether an answer ended at its token limit. */
enum qwen_cut_kind {
	QWEN_CUT_NONE,
	QWEN_CUT_LENGTH,	/* at the limit */
	QWEN_CUT_SCHEMA,	/* at the limit, within a grammar or schema that
				   the answer therefore does not follow */
};

enum qwen_cut_kind qwen_request_cut(const struct qwen_request *q);

/* A result line; its strings are owned. */
struct qwen_result {
	uint64_t	 number;	/* number of the answered line */
	char		*id;		/* JSON of that line's id, or NULL */
	int		 failed;	/* it is an error */
	enum qwen_cut_kind cut;
	/* fields of "run"; NULL in results of older versions */
	char		*model, *hash, *options, *request;
};

/* Fails if the line is not a result; then *out is zero. */
int qwen_result_parse(const char *json, size_t n, struct qwen_result *out,
    struct qwen_err *err);
void qwen_result_fini(struct qwen_result *r);

/* ------------------------------------------------------------------- events */

/*
 * Writes an answer as server-sent events in the form of the request's API, per
 * token or for many tokens at a time.  The events together have the content of
 * the body, wherever they are divided.
 */
struct qwen_answer_stream;

int qwen_answer_stream_new(struct qwen_answer_stream **out,
    const struct qwen_request *q, uint64_t created, struct qwen_err *err);
void qwen_answer_stream_free(struct qwen_answer_stream *s);

/* Writes the events before all answers. */
void qwen_answer_stream_begin(struct qwen_answer_stream *s,
    struct qwen_text *t);

/* Writes the new parts of this answer, and its end if it has ended. */
void qwen_answer_stream_step(struct qwen_answer_stream *s,
    const struct qwen_answer *a, struct qwen_text *t);

/*
 * Writes the end after all answers have ended; or if the request was refused,
 * the refusal as the last event.
 */
void qwen_answer_stream_end(struct qwen_answer_stream *s, struct qwen_text *t);

/*
 * Writes the progress of reading, if the form has such an event; before any
 * step.
 */
void qwen_answer_stream_progress(struct qwen_answer_stream *s,
    const struct qwen_progress *p, struct qwen_text *t);

/* Writes a keep-alive event; between other events. */
void qwen_answer_stream_idle(struct qwen_answer_stream *s, struct qwen_text *t);

/* ------------------------------------------------------------- stop strings */

/*
 * Searches a text for stop strings while it arrives.
 *
 * qwen_stop_finder_feed takes the next piece in *s and returns in *s the text
 * that is certainly before any stop string; it lives until the next call.
 * *found is set to 1 if a stop string follows; then call qwen_stop_finder_end.
 * With look 0, stop strings that are complete by now do not count.
 * qwen_stop_finder_end returns the text held back because it may have been the
 * beginning of a stop string, and makes *c ready for another text.
 */
struct qwen_stop_finder;

int qwen_stop_finder_new(struct qwen_stop_finder **out, struct qwen_err *err);
void qwen_stop_finder_free(struct qwen_stop_finder *c);
/* Adds a stop string, which is borrowed. */
int qwen_stop_finder_add(struct qwen_stop_finder *c, const char *stop, size_t n,
    struct qwen_err *err);
int qwen_stop_finder_feed(struct qwen_stop_finder *c, struct qwen_str *s,
    int look, int *found, struct qwen_err *err);
struct qwen_str qwen_stop_finder_end(struct qwen_stop_finder *c);
/*
 * Returns the index of the stop string that was found, in the order of adding.
 */
size_t qwen_stop_finder_which(const struct qwen_stop_finder *c);

/* ----------------------------------------------------------------- messages */

/* A chat request that is built or edited; see qwen_template_render. */
struct qwen_messages;

/*
 * Create a request without messages; or parse one from a JSON object.  Messages
 * may contain text only.
 */
int qwen_messages_new(struct qwen_messages **out, struct qwen_err *err);
int qwen_messages_read(struct qwen_messages **out, const char *json, size_t n,
    struct qwen_err *err);
/* The same; placeholder is that of struct qwen_service, or NULL. */
int qwen_messages_read_with(struct qwen_messages **out,
    const char *placeholder, const char *json, size_t n,
    struct qwen_err *err);
void qwen_messages_free(struct qwen_messages *m);

/* Returns a note about damage in the JSON that was repaired, or NULL. */
const char *qwen_messages_note(const struct qwen_messages *m);

/*
 * Returns 1 if the request has a list of messages.  The functions below need
 * it.
 */
int qwen_messages_has_list(const struct qwen_messages *m);

/*
 * qwen_messages_add_text appends a message with this text, which must be UTF-8.
 * With join set, if the last message has the same role, the text is added to
 * that message after an empty line. qwen_messages_add appends a message given
 * as JSON. qwen_messages_drop_last removes the last message.
 */
int qwen_messages_add_text(struct qwen_messages *m, const char *role,
    const char *text, size_t n, int join, struct qwen_err *err);
int qwen_messages_add(struct qwen_messages *m, const char *json, size_t n,
    struct qwen_err *err);
void qwen_messages_drop_last(struct qwen_messages *m);

/*
 * Drops the oldest turn (everything before the second user message, except
 * leading system messages).  Returns the number of messages dropped; 0 if there
 * is only one turn.
 */
size_t qwen_messages_drop_turn(struct qwen_messages *m);

/* qwen_messages_last_role returns the role of the last message, or NULL. */
size_t qwen_messages_n(const struct qwen_messages *m);
const char *qwen_messages_last_role(const struct qwen_messages *m);

/* Returns the content of the last message; s is NULL if it is not a string. */
struct qwen_str qwen_messages_last_text(const struct qwen_messages *m);

/*
 * Returns the content of the first message if its role is system and its
 * content a string, else NULL.
 */
const char *qwen_messages_system(const struct qwen_messages *m);

/* Sets a field of the request to a JSON value, replacing an earlier one. */
int qwen_messages_set(struct qwen_messages *m, const char *key,
    const char *json, size_t n, struct qwen_err *err);

/* Writes the request as JSON, for free(); with pretty set, indented. */
int qwen_messages_json(const struct qwen_messages *m, int pretty, char **json,
    size_t *n, struct qwen_err *err);

/* ------------------------------------------------------------------ scoring */

/* Settings for all texts whose tokens are scored; borrowed. */
struct qwen_scoring {
	const struct qwen_tok	*tok;
	size_t			 n_vocab;
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	int32_t			 bos_id;	/* token put in front of texts;
						   -1: none */
	int			 bos;	/* put it in front of every text that
					   does not begin with it */
	struct qwen_unknown	*unknown;	/* unknown fields, or NULL */
	int			 strict_calls;	/* as in qwen_reply_opts */
};

/* Tokens to score: of a continuation after its context, or of a whole text. */
struct qwen_score_request {
	struct qwen_refusal	 refusal;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		 text;
	size_t			 from;	/* index of the first token to score */
	size_t			 n_front;	/* number of tokens put in
						   front, 0 or 1 */
};

/* Parses a line, like qwen_request_parse_line; q must be zero. */
int qwen_score_request_parse(struct qwen_score_request *q,
    const struct qwen_scoring *s, const char *json, size_t n,
    struct qwen_err *err);

/*
 * Takes a text as tokens: scores all of it, except the first token if none was
 * put in front. q owns the tokens.
 */
int qwen_score_request_text(struct qwen_score_request *q,
    const struct qwen_scoring *s, struct qwen_ids *tokens,
    struct qwen_err *err);
void qwen_score_request_fini(struct qwen_score_request *q);

/* ------------------------------------------------------ vectors and ranking */

/* Settings for all texts that are embedded; borrowed. */
struct qwen_vectors {
	const struct qwen_tok	*tok;
	struct qwen_embedding	 how;
	const char		*instruct;	/* default instruction, or
						   NULL */
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	size_t			 n_vocab;
	size_t			 cut;	/* truncate texts to this many tokens;
					   0: never */
	size_t			 n_ctx;	/* context length in tokens; 0:
					   unknown */
	int			 untrained;	/* the model was not trained for
						   embeddings */
	struct qwen_unknown	*unknown;	/* unknown fields, or NULL */
	int			 strict_calls;	/* as in qwen_reply_opts */
};

/* A text to embed. */
struct qwen_vector_request {
	struct qwen_refusal	 refusal;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		 text;	/* at least one token */
	int			 is_cut;	/* the text was truncated */
};

/*
 * Take a text to embed; q must be zero. qwen_vector_request_parse parses a line
 * like qwen_request_parse_line: {"text": ...} or {"tokens": [...]}, optionally
 * with "instruct" and "id". qwen_vector_request_text takes a plain text (NULL:
 * a line of more than n bytes). qwen_vector_request_ids takes tokens, which q
 * then owns.
 */
int qwen_vector_request_parse(struct qwen_vector_request *q,
    const struct qwen_vectors *s, const char *json, size_t n,
    struct qwen_err *err);
int qwen_vector_request_text(struct qwen_vector_request *q,
    const struct qwen_vectors *s, const char *text, size_t n,
    struct qwen_err *err);
int qwen_vector_request_ids(struct qwen_vector_request *q,
    const struct qwen_vectors *s, struct qwen_ids *ids, struct qwen_err *err);
void qwen_vector_request_fini(struct qwen_vector_request *q);

/* The same for documents to rank. */
struct qwen_ranking {
	const struct qwen_tok	*tok;
	const struct qwen_reranker *how;
	struct qwen_str		 query;	/* for documents given as plain texts */
	unsigned		 encode;
	size_t			 cut;	/* truncate prompts to this many tokens;
					   0: never */
	size_t			 n_ctx;	/* context length in tokens; 0:
					   unknown */
	struct qwen_unknown	*unknown;	/* unknown fields, or NULL */
	int			 strict_calls;	/* as in qwen_reply_opts */
};

struct qwen_rank_request {
	struct qwen_refusal	 refusal;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		*prompt;	/* one per document */
	size_t			 n;
	size_t			 n_tokens;	/* of all prompts */
	size_t			 n_cut;		/* truncated prompts */
	int			 is_list;	/* the request has documents,
						   not document */
};

/*
 * Parse a line, {"query": ..., "document": ...} or "documents": [...]; or take
 * a plain text as the document.
 */
int qwen_rank_request_parse(struct qwen_rank_request *q,
    const struct qwen_ranking *s, const char *json, size_t n,
    struct qwen_err *err);
int qwen_rank_request_text(struct qwen_rank_request *q,
    const struct qwen_ranking *s, const char *text, size_t n,
    struct qwen_err *err);
/* Frees the prompts, which are no longer needed. */
void qwen_rank_request_free_prompts(struct qwen_rank_request *q);
void qwen_rank_request_fini(struct qwen_rank_request *q);

/* ---------------------------------- posted requests for vectors and ranking */

enum { QWEN_INPUTS_MAX = 2048 };	/* texts in a request for embeddings */

/* A request to /v1/embeddings. */
struct qwen_embeddings_request {
	struct qwen_refusal	 refusal;
	char			*model;	/* JSON of the model asked for, or
					   NULL */
	struct qwen_ids		*text;
	size_t			 n;
	size_t			 n_tokens;	/* of all texts */
	size_t			 dimensions;	/* length of a vector; 0: the
						   model's */
	int			 base64;
	int			 untrained;	/* the body warns of that */
};

/*
 * Parses a posted body; q must be zero.  Refuses an empty list and an empty
 * text, as OpenAI does; truncates texts if the request wants that.
 */
int qwen_embeddings_parse(struct qwen_embeddings_request *q,
    const struct qwen_vectors *s, const char *json, size_t n,
    struct qwen_err *err);

/*
 * Appends the body, of q->n vectors of n_embd numbers each; or of the refusal.
 */
void qwen_embeddings_body(const struct qwen_embeddings_request *q,
    const char *model, const float *vectors, size_t n_embd,
    struct qwen_text *t);
void qwen_embeddings_fini(struct qwen_embeddings_request *q);

/* A request to /v1/rerank: a query, and a list of documents. */
struct qwen_rerank_request {
	struct qwen_rank_request rank;	/* the prompts, and the refusal */
	char			*model;	/* JSON, or NULL */
	size_t			 n_top;	/* number of best documents to return */
	char			**document;	/* JSON of the texts; NULL: the
						   client does not want them
						   back */
};

int qwen_rerank_parse(struct qwen_rerank_request *q,
    const struct qwen_ranking *s, const char *json, size_t n,
    struct qwen_err *err);

/*
 * Appends the body: the best document first, by its score; equal scores in the
 * order of the request. -1: out of memory.
 */
int qwen_rerank_body(const struct qwen_rerank_request *q, uint64_t number,
    const char *model, const double *scores, struct qwen_text *t,
    struct qwen_err *err);
void qwen_rerank_fini(struct qwen_rerank_request *q);

/* ---------------------------------------------------- other Ollama requests */

/* Returns 1 if replies by this template can begin with a thought. */
int qwen_request_can_think(const struct qwen_template *t);

/*
 * Reads the model name (for free()) and the field "verbose" of a body; name and
 * verbose may be NULL. -1: refused.
 */
int qwen_ollama_name(struct qwen_refusal *refusal, const char *json, size_t n,
    char **name, int *verbose);

/*
 * Parses a body like qwen_embeddings_parse: key is "input" for /api/embed,
 * "prompt" for /api/embeddings.  Truncates texts to n_ctx tokens (0: never),
 * unless the request says otherwise.  There may be no text; then the body has
 * no vectors. old: write the body of /api/embeddings.
 */
int qwen_ollama_embed_parse(struct qwen_embeddings_request *q,
    const struct qwen_vectors *s, size_t n_ctx, const char *key,
    const char *json, size_t n, struct qwen_err *err);
void qwen_ollama_embed_body(const struct qwen_embeddings_request *q,
    const char *model, const float *vectors, size_t n_embd, int old,
    double seconds, struct qwen_text *t);

/* ------------------------------------------------------------------- tokens */

/*
 * Requests about tokens: the tokens of a text or of a chat's prompt; the text
 * of tokens; a chat's prompt as text; the number of prompt tokens of a request
 * in this form (messages, responses).  Each appends the body of the answer or
 * error to t and sets *status to its HTTP status. n_ctx is reported as the
 * model's context length if it is not 0. -1: out of memory.
 */
int qwen_tokens_tokenize(const struct qwen_service *s, size_t n_ctx,
    const char *json, size_t n, int *status, struct qwen_text *t,
    struct qwen_err *err);
int qwen_tokens_detokenize(const struct qwen_service *s, const char *json,
    size_t n, int *status, struct qwen_text *t, struct qwen_err *err);
int qwen_tokens_prompt(const struct qwen_service *s, const char *json,
    size_t n, int *status, struct qwen_text *t, struct qwen_err *err);
int qwen_tokens_count(const struct qwen_service *s, enum qwen_form form,
    const char *json, size_t n, int *status, struct qwen_text *t,
    struct qwen_err *err);

#endif
