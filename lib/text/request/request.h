/* SPDX-License-Identifier: ISC */
/*
 * request.h - requests in the forms of OpenAI, Anthropic, Ollama and llama.cpp,
 * and what answers them, as a body or as events, for all that serve a model, from files or from
 * sockets.
 *
 * It knows text alone, and no weights: what a request says of sampling comes as
 * options by name, for a sampler wherever that is; tokens come back by number,
 * with what was asked for of their probabilities.  Nothing here exits, prints or
 * reads the environment.  What is wrong with a request is the request's refusal;
 * functions fail for want of memory only, unless they say something else.
 */
#ifndef QWEN_TEXT_REQUEST_REQUEST_H
#define QWEN_TEXT_REQUEST_REQUEST_H

#include "base/text.h"
#include "qwentext.h"

enum {
	QWEN_CHOICES_MAX = 128,		/* answers to one request */
	QWEN_STOPS_MAX = 64,
	QWEN_LOGPROBS_MAX = 20,		/* of the best tokens */
	QWEN_DOCUMENTS_MAX = 4096,	/* to rank, in a list */
	QWEN_VALUES_MAX = 1 << 18,	/* of JSON, that a template gets */
};

/* Token ids, owned. */
struct qwen_ids {
	int32_t	*id;
	size_t	 n;
};

/* Why a request is refused, or failed; err.code 0: it is not, and did not. */
struct qwen_refusal {
	struct qwen_err	 err;
	const char	*code;		/* a word */
	const char	*param;		/* the member that it is for, or NULL */
};

/*
 * Refuse, unless that was done before: the first reason counts.  code and param
 * are borrowed for as long.  Returns -1.
 */
int qwen_refuse(struct qwen_refusal *no, const char *code, const char *param,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/*
 * Returns -1, and refuses a prompt of n tokens (with is_least: of at least n)
 * for a context of n_ctx, with the code and in the words by which clients know
 * that the conversation must become shorter.
 */
#define QWEN_TOO_LONG "context_length_exceeded"
int qwen_refuse_length(struct qwen_refusal *no, const char *param, size_t n,
    int is_least, size_t n_ctx);

/*
 * As HTTP has it, by code: 200; 404 of "item_not_found", 429 of "queue_full",
 * 500 of "failed" and "out_of_memory", 503 of "unavailable", 504 of "deadline";
 * 400 of others, which are what the request has wrong.
 */
int qwen_refusal_status(const struct qwen_refusal *no);

/* ---------------------------------------------------------------- grammars */

/*
 * Grammars that requests bring: one that comes again is not read again.  With the
 * vocabulary that they work on, which is made when it is needed.
 */
struct qwen_shared_grammar;
struct qwen_unknown;
struct qwen_grammars {
	struct qwen_shared_grammar *first;
	struct qwen_unknown	*unknown;	/* gets notes of schemas, and
						   says if they are errors */
	const struct qwen_gguf	*gguf;
	const struct qwen_pieces *pieces;	/* set by the caller, or NULL:
						   made from gguf */
	struct qwen_pieces	*own;
	struct qwen_trie	*trie;
};

/*
 * As qwen_grammar_open_schema; but a keyword that cannot be kept is a note in u,
 * unless that is strict.
 */
int qwen_grammar_open_noted(struct qwen_grammar **out, const char *text,
    size_t n, struct qwen_unknown *u, struct qwen_err *err);

/* Make pieces and trie, if they are not there. */
int qwen_grammars_prepare(struct qwen_grammars *all, struct qwen_err *err);

/*
 * The grammar (or schema) of this text, read once for all who use it at the same
 * time: *c is it as a constraint, until unshare.  NULL is passed over there.
 */
struct qwen_shared_grammar;
int qwen_grammar_share(struct qwen_grammars *all, const char *text, size_t n,
    int is_schema, struct qwen_shared_grammar **out,
    struct qwen_constraint *c, struct qwen_err *err);
void qwen_grammar_unshare(struct qwen_shared_grammar *g);
void qwen_grammars_fini(struct qwen_grammars *all);

/* ---------------------------------------------------------------- requests */

/* Members of requests that nothing here knows: the first few of them. */
enum { QWEN_UNKNOWN_MAX = 8, QWEN_NOTES_MAX = 16 };

struct qwen_unknown {
	int		 strict;	/* refuse them, and note none */
	struct {
		char		 name[48];	/* its beginning */
		const char	*nearest;	/* what may be meant, or NULL */
	}		 member[QWEN_UNKNOWN_MAX];
	size_t		 n;
	int		 more;		/* there were others */
	/* what else of requests is not kept as it is written, each once */
	char		 note[QWEN_NOTES_MAX][240];
	size_t		 n_notes;
	size_t		 n_told;	/* of the notes, by the caller */
};

/* Keep a note, unless it is there, or there are too many, or u is NULL. */
void qwen_unknown_note(struct qwen_unknown *u, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Notes of what was read though it is damaged. */
const char *qwen_note_arguments(void);
const char *qwen_note_halves(void);

/* "temprature (did you mean temperature?), foo". */
void qwen_unknown_list(const struct qwen_unknown *u, struct qwen_text *t);

/* What holds for all requests, and for those that do not say; borrowed. */
struct qwen_service {
	const struct qwen_tok	*tok;
	struct qwen_tok_decoder	*spell;		/* bytes of single tokens */
	const struct qwen_template *template;	/* or NULL, and why not */
	const char		*no_template;
	const char		*model;		/* its name */
	size_t			 n_vocab;
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	size_t			 n_ctx;		/* tokens of a text at most; 0:
						   whoever computes says */
	size_t			 max;		/* tokens to generate */
	size_t			 min;		/* before a stop counts */
	const struct qwen_str	*stop;
	size_t			 n_stop;
	struct qwen_grammars	*grammars;
	int			 holds;		/* a grammar for those that have
						   none of their own */
	int			 streams;	/* requests may ask for that, */
	int			 echoes;	/* and completions for this */
	int			 plain_lines;	/* a line of a batch that is no
						   JSON object is answered in
						   the plain form, not in an
						   envelope */
	struct qwen_unknown	*unknown;	/* members, or NULL */
	/*
	 * qwen_sample_opt(), for the sampling options that fields of requests
	 * set; NULL: none.
	 */
	const struct qwen_sample_opt *(*sample_opt)(size_t i);
	int			 strict_calls;	/* as in qwen_reply_opts */
	const char		*placeholder;	/* the line in place of an
						   image; "": one of ours;
						   NULL: they are refused */
	/*
	 * Whether this line of what a system (or developer) says is as if it
	 * were not there.  NULL: none is.
	 */
	int			(*pass_over)(void *arg, const char *line,
				    size_t n);
	void			*pass_over_arg;
	/*
	 * Encodes a chat's prompt in place of qwen_prompt_encode, or NULL; for
	 * callers that know more about its parts.
	 */
	int			(*encode_prompt)(void *arg,
				    const struct qwen_prompt *p,
				    struct qwen_ids *out,
				    struct qwen_err *err);
	void			*encode_arg;
	/*
	 * The items of an earlier response, as qwen_response_items gave them,
	 * are added to items: 1; 0: it is not known; -1.  NULL: no request may
	 * ask for one.
	 */
	int			(*recall)(void *arg, const char *id,
				    struct qwen_text *items,
				    struct qwen_err *err);
	void			*recall_arg;
};

enum qwen_form {
	QWEN_FORM_PLAIN,	/* {"prompt": ...}, {"messages": ...} */
	QWEN_FORM_COMPLETION,	/* of /v1/completions */
	QWEN_FORM_CHAT,		/* of /v1/chat/completions */
	QWEN_FORM_RESPONSES,	/* of /v1/responses */
	QWEN_FORM_MESSAGES,	/* of /v1/messages, Anthropic's */
	QWEN_FORM_OLLAMA_CHAT,	/* of /api/chat, Ollama's */
	QWEN_FORM_OLLAMA_GENERATE, /* of /api/generate: a chat of one message */
	QWEN_FORM_OLLAMA_RAW,	/* the same with "raw": a plain prompt */
	QWEN_FORM_LLAMA,	/* of /completion, llama.cpp's */
	QWEN_FORM_COMPACT,	/* of /v1/responses/compact */
	QWEN_FORM_INFILL,	/* of /infill, llama.cpp's */
};

/* The media type of its streams, of its other answers it is JSON. */
const char *qwen_form_stream_type(enum qwen_form form);

/* How much of the prompts is read, in tokens. */
struct qwen_progress {
	size_t	total, cached, read;	/* of read some are cached */
	double	seconds;		/* since reading began */
};

/* How long parts of an answer took, in seconds. */
struct qwen_timings {
	int	known;		/* 0: not measured, as in a batch */
	double	total;		/* from when the request came */
	double	prompt;		/* until the first token of the answer */
	double	answer;		/* from that one to the last */
};

/* What the summary of a compacted conversation begins with. */
#define QWEN_COMPACTION "qpipe summary 1\n"

/* A sampling option, for qwen_sampler_set. */
struct qwen_setting {
	const char	*key;		/* what the request calls it */
	const char	*option;	/* what the sampler does */
	char		*value;
};

/* Where the seed of a request comes from. */
enum qwen_seed {
	QWEN_SEED_UNSAID,	/* the request has none */
	QWEN_SEED_GIVEN,	/* it is among its settings */
	QWEN_SEED_RANDOM,	/* the request wants one that is drawn */
};

/* A tool that the model knows as a function, and the client otherwise. */
enum qwen_tool_kind {
	QWEN_TOOL_FUNCTION,	/* of a namespace */
	QWEN_TOOL_CUSTOM,	/* is called with a text, not with JSON */
	QWEN_TOOL_SEARCH,	/* the client's search for further tools */
};

struct qwen_tool_alias {
	char			*called;	/* by the model */
	char			*name;		/* for the client, */
	char			*space;		/* and its namespace, or NULL */
	enum qwen_tool_kind	 kind;
};

struct qwen_answer;
struct qwen_request {
	void			*arg;		/* the caller's */
	const struct qwen_service *service;
	struct qwen_refusal	 no;
	enum qwen_form		 form;
	int			 is_object;	/* it is a JSON object; if not,
						   form is a guess */
	uint64_t		 number;	/* for ids of what it gets */
	char			*id;	/* JSON of custom_id or id, or NULL */
	char			*model;	/* JSON of what it asked for, or NULL */
	struct qwen_ids		*prompt;
	size_t			 n_prompts;
	size_t			 n_prompt_tokens;	/* of all of them */
	int			 names;	/* a plain prompt has the name of a */
	int32_t			 named;	/* control token, this one, as text */
	struct qwen_setting	*set;
	size_t			 n_set, cap_set;
	int32_t			*bias_id;	/* logit_bias: each token once, */
	float			*bias;		/* and what is added; owned */
	size_t			 n_bias;
	enum qwen_seed		 seed_from;
	int			 seed_told;	/* the caller drew this seed, */
	uint64_t		 seed;		/* and the answer has it */
	double			 temp_range;	/* above and below the
						   temperature; 0: none */
	int32_t			*stop_id;	/* tokens that end an answer, */
	size_t			 n_stop_ids;	/* beside the model's; owned */
	int32_t			*ending;	/* the caller's: those and the
						   model's, or NULL; owned */
	size_t			 n_ending;
	int			 keeps_stop;	/* the text has the stop string
						   that ended it */
	size_t			 n;	/* answers to each prompt */
	size_t			 max;	/* tokens of each; 0 may be with echo */
	int			 max_given;	/* by the request itself */
	size_t			 min;	/* tokens before a stop counts */
	int			 echo;	/* prompts come before answers */
	struct qwen_str		*stop;	/* owned */
	size_t			 n_stop;
	int			 stream;
	int			 include_usage;	/* at the end of a stream */
	int			 tells_progress; /* while prompts are read */
	int			 logprobs;
	size_t			 n_top;	/* of the best with each */
	struct qwen_shared_grammar *shared;	/* or NULL, and */
	const struct qwen_grammar *grammar;	/* what is in it */
	size_t			 n_bytes;	/* of its memory, about, beside
						   those of the line */
	enum qwen_thinking	 thinking;	/* of a chat's prompt, */
	int			 thinks;	/* and what comes of it */
	int			 continues;	/* the last message */
	int			 one_call;	/* at most, */
	int			 ends_itself;	/* and by its grammar no more */
	char			*tools;	/* JSON, or NULL */
	size_t			 n_tools;
	struct qwen_tool_alias	*alias;	/* of tools that are no functions */
	size_t			 n_alias, cap_alias;
	char			*said;	/* of a response: what it says of the
					   request, JSON of members; */
	char			*previous;	/* the id of the one before, or
						   NULL; */
	char			*items;	/* where these can be recalled, unless
					   the request wants it not: all that
					   went in, JSON of a list; or NULL */
	const char		*loads;	/* it asks for no answer, but that the
					   model is there: Ollama's word for
					   the end of that; or NULL */
	int			 keep_ids;	/* answers keep their tokens */
	struct qwen_timings	 times;	/* set by the caller before the end */
	char			*fields;	/* of /infill: JSON, a list of
						   those that the body has; or
						   NULL: all */
	size_t			 n_indent;	/* a line that is indented less
						   ends the answer */
	uint64_t		 line_ms;	/* after a line has ended, no
						   token later than that; 0 */
	size_t			 n_cached;	/* of the prompts' tokens: what */
	int			 has_cached;	/* was there, if usage tells it */
	struct qwen_answer	*answer;	/* those to a prompt together */
	size_t			 n_answers;
};

/* A request of that form: the body that is posted.  -1: no memory. */
int qwen_request_parse(struct qwen_request **out, const struct qwen_service *s,
    enum qwen_form form, const char *json, size_t n, struct qwen_err *err);

/* Refuse it (-1) if a prompt and one token more do not fit into n_ctx tokens. */
int qwen_request_fits(struct qwen_request *q, size_t n_ctx);

/*
 * The text in GBNF of the grammar that its answers follow, for free(); NULL if
 * they follow none.
 */
int qwen_request_grammar(const struct qwen_request *q, char **gbnf, size_t *n,
    struct qwen_err *err);

/*
 * A line of a batch: a request in its envelope, or one alone of the plain form.
 * The service's plain_lines decides the form of a line that is no JSON object.  json
 * is NULL for a line that was dropped since it has more than n bytes.
 */
int qwen_request_parse_line(struct qwen_request **out,
    const struct qwen_service *s, const char *json, size_t n,
    struct qwen_err *err);
void qwen_request_free(struct qwen_request *q);

/* What a line of a batch is; the id of an envelope must not come twice. */
enum qwen_line_kind { QWEN_LINE_BAD, QWEN_LINE_PLAIN, QWEN_LINE_ENVELOPE };

/*
 * The id alone of a line that is not answered: JSON, owned; NULL if it has
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

/* What follows each other in an answer; of a completion there is one. */
enum qwen_block_kind { QWEN_BLOCK_REASONING, QWEN_BLOCK_TEXT, QWEN_BLOCK_CALL };

struct qwen_block {
	enum qwen_block_kind kind;
	size_t		 from, n;	/* bytes of the answer's text of that
					   kind; a call is there as a whole */
	size_t		 n_name;	/* of those of a call, the rest being
					   its arguments, an object of JSON */
	int		 cut;		/* a call that was cut off: they are the
					   beginning of one, or nothing */
	size_t		 lp_from, lp_to;	/* of logprobs, those of a text */
};

/* A token of a chat whose text may become content. */
struct qwen_spoken {
	struct qwen_likely likely;
	size_t		 from, to;	/* bytes of the reply; to is 0 as long as
					   its character is not complete */
	size_t		 kept, kept_to;	/* of these what is content */
	size_t		 top, n_top;	/* bytes of lp_top: the most likely */
};

/*
 * An answer that is wanted, and as it comes.  text, reasoning, calls and
 * logprobs only grow, by whole characters, and never by what might yet be part
 * of a stop string: a stream sends what is beyond what it has sent before.
 */
struct qwen_answer {
	struct qwen_request	*request;
	const struct qwen_ids	*prompt;
	size_t			 n;		/* tokens */
	const char		*finish;	/* "stop", "length"; NULL: goes on */
	int			 repeats;	/* it was cut since it did */
	const struct qwen_str	*stopped;	/* the request's stop string that
						   ended it, or NULL */
	struct qwen_text	 text;
	struct qwen_text	 reasoning;	/* of chats, these two */
	struct qwen_text	 calls;		/* names and arguments */
	size_t			 n_calls;
	size_t			 n_thought;	/* tokens up to the last thought */
	struct qwen_block	*block;		/* all that is in these three */
	size_t			 n_blocks;
	struct qwen_text	 logprobs;	/* JSON, of a list; completions
						   have three other lists */
	struct qwen_text	 lp_tokens, lp_top, lp_offset;
	int32_t			*id;		/* all n tokens, if the request
						   has keep_ids */
	/* our own */
	size_t			 cap_ids;
	size_t			 cap_blocks;
	size_t			 n_chars;
	size_t			 n_bytes;	/* of a chat's reply, as text */
	struct qwen_spoken	*spoken;	/* those that may be in logprobs
						   later, from first on */
	size_t			 n_spoken, cap_spoken, first;
	int			 is_cut;
	size_t			 line;		/* where the last line begins */
	int			 outdents;	/* it ended for its indentation */
	struct qwen_tok_decoder	*decoder;
	struct qwen_cut		*cut;
	struct qwen_reply	*reply;
};

/*
 * The next token; top are n_top of the best, and with logprob only looked at if
 * the request wants them.  1 if a stop string is complete: no more of them.
 */
int qwen_answer_put(struct qwen_answer *a, const struct qwen_likely *token,
    const struct qwen_likely *top, size_t n_top, struct qwen_err *err);

/*
 * A token of the prompt, where the request has echo: all of them, before others
 * are put.  A logprob that is NAN is not known, as that of the first.
 */
int qwen_answer_echo(struct qwen_answer *a, const struct qwen_likely *token,
    const struct qwen_likely *top, size_t n_top, struct qwen_err *err);

/* There are no more; finish is "stop" or "length", and was not cut. */
int qwen_answer_end(struct qwen_answer *a, const char *finish,
    struct qwen_err *err);

/* ----------------------------------------------------------------- results */

/* The body of a response, with created 0 for "at no time"; or its error. */
void qwen_request_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);

/*
 * The body that a server sends in place of an answer, for reasons of its own.
 * code is a word, param the member that it is for; both may be NULL.  What sort
 * of error it is follows from the status.
 */
void qwen_error_body(enum qwen_form form, int status, const char *code,
    const char *param, const char *message, struct qwen_text *t);

/*
 * For who can recall it: a response as a list of items, JSON, of all that went in
 * and its answer.
 */
void qwen_response_items(const struct qwen_request *q, struct qwen_text *t);

/*
 * The run that made a result: the field "run" of its line.  All texts are borrowed;
 * hashes are hexadecimal digits.
 */
struct qwen_result_run {
	const char	*model;		/* its name */
	const char	*hash;		/* of the model */
	const char	*options;	/* that change answers */
	const char	*request;	/* hash of the line that is answered, or
					   NULL if the line was dropped */
};

/*
 * Add the result line of a request, in its form, with the run that made it (or
 * NULL).  It does not depend on the time, the machine or other lines.
 */
void qwen_request_result(const struct qwen_request *q,
    const struct qwen_result_run *run, struct qwen_text *t);

/* Whether an answer of a request ended at its limit of tokens. */
enum qwen_cut_kind {
	QWEN_CUT_NONE,		/* no */
	QWEN_CUT_LENGTH,	/* yes */
	QWEN_CUT_SCHEMA,	/* yes, within a grammar or schema, which the
				   answer therefore does not follow */
};

enum qwen_cut_kind qwen_request_cut(const struct qwen_request *q);

/* A result line; its texts are owned. */
struct qwen_result {
	uint64_t	 number;	/* of the line that it answers */
	char		*id;		/* of that line: JSON, or NULL */
	int		 failed;	/* it is an error */
	enum qwen_cut_kind cut;
	/* those of "run"; NULL in results of older versions */
	char		*model, *hash, *options, *request;
};

/* Fails if the line is not a result; then *out is zeroed. */
int qwen_result_parse(const char *json, size_t n, struct qwen_result *out,
    struct qwen_err *err);
void qwen_result_fini(struct qwen_result *r);

/* ------------------------------------------------------------------- events */

/*
 * An answer as server-sent events, in the form of the request's API, for each of
 * its tokens or for many at a time.  Put together they are the body, wherever
 * they are cut.
 */
struct qwen_sse;

int qwen_sse_new(struct qwen_sse **out, const struct qwen_request *q,
    uint64_t created, struct qwen_err *err);
void qwen_sse_free(struct qwen_sse *s);

/* What comes before all answers. */
void qwen_sse_begin(struct qwen_sse *s, struct qwen_text *t);

/* Writes the new parts of this answer, and its end if it has ended. */
void qwen_sse_step(struct qwen_sse *s, const struct qwen_answer *a,
    struct qwen_text *t);

/*
 * Writes the end after all answers have ended; or if the request was refused,
 * the refusal as the last event.
 */
void qwen_sse_end(struct qwen_sse *s, struct qwen_text *t);

/* How far reading is, where the form has a way to say so; before any step. */
void qwen_sse_progress(struct qwen_sse *s, const struct qwen_progress *p,
    struct qwen_text *t);

/* Writes a keep-alive event; between other events. */
void qwen_sse_idle(struct qwen_sse *s, struct qwen_text *t);

/* -------------------------------------------------------------- stop strings */

/*
 * Text as it comes, up to where one of some other texts begins.  feed gives what
 * is certain to be before that, in *s until the next call; *found says whether it
 * has begun, after which end is next.  Without look none counts that is whole by
 * now.  end gives what was held back for it might have been the beginning of
 * one, and leaves the rest for another text.
 */
struct qwen_cut;

int qwen_cut_new(struct qwen_cut **out, struct qwen_err *err);
void qwen_cut_free(struct qwen_cut *c);
/* The stop is not copied. */
int qwen_cut_add(struct qwen_cut *c, const char *stop, size_t n,
    struct qwen_err *err);
int qwen_cut_feed(struct qwen_cut *c, struct qwen_str *s, int look, int *found,
    struct qwen_err *err);
struct qwen_str qwen_cut_end(struct qwen_cut *c);
/* The number of the one that was found, as they were added. */
size_t qwen_cut_which(const struct qwen_cut *c);

/* ----------------------------------------------------------------- messages */

/* A chat request that is put together, or changed; see qwen_template_render. */
struct qwen_messages;

/* An empty one; or from JSON, an object, whose messages are text alone. */
int qwen_messages_new(struct qwen_messages **out, struct qwen_err *err);
int qwen_messages_read(struct qwen_messages **out, const char *json, size_t n,
    struct qwen_err *err);
/* The same, with a placeholder for images as qwen_service has it, or NULL. */
int qwen_messages_read_with(struct qwen_messages **out,
    const char *placeholder, const char *json, size_t n,
    struct qwen_err *err);
void qwen_messages_free(struct qwen_messages *m);

/* A note of what was read though it is damaged, or NULL. */
const char *qwen_messages_note(const struct qwen_messages *m);

/* Whether it has a list of messages, which what follows needs. */
int qwen_messages_are_there(const struct qwen_messages *m);

/*
 * A message of text, which must be UTF-8; with join, to the last one if that has
 * the role, after an empty line.  Or one of JSON.  Take the last one back.
 */
int qwen_messages_say(struct qwen_messages *m, const char *role,
    const char *text, size_t n, int join, struct qwen_err *err);
int qwen_messages_add(struct qwen_messages *m, const char *json, size_t n,
    struct qwen_err *err);
void qwen_messages_drop(struct qwen_messages *m);

/*
 * Drops the oldest turn (everything before the second user message, except
 * leading system messages).  Returns the number of messages dropped; 0 if there
 * is only one turn.
 */
size_t qwen_messages_forget(struct qwen_messages *m);

/* The number of messages; the role of the last one, or NULL. */
size_t qwen_messages_n(const struct qwen_messages *m);
const char *qwen_messages_last(const struct qwen_messages *m);

/* The content of the last message; s is NULL if it is not a text. */
struct qwen_str qwen_messages_last_text(const struct qwen_messages *m);

/* The content of the first message if it is the system's and a text, or NULL. */
const char *qwen_messages_system(const struct qwen_messages *m);

/* Another member of the request, in place of one of that name. */
int qwen_messages_set(struct qwen_messages *m, const char *key,
    const char *json, size_t n, struct qwen_err *err);

/* The request as JSON, to free(); pretty: for people to read. */
int qwen_messages_json(const struct qwen_messages *m, int pretty, char **json,
    size_t *n, struct qwen_err *err);

/* ------------------------------------------------------------------ scoring */

/* What holds for all texts whose tokens are scored; borrowed. */
struct qwen_scoring {
	const struct qwen_tok	*tok;
	size_t			 n_vocab;
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	int32_t			 first;	/* what texts begin with, -1: none */
	int			 bos;	/* put it in front of all texts that do
					   not begin with it */
	struct qwen_unknown	*unknown;	/* members, or NULL */
	int			 strict_calls;	/* as in qwen_reply_opts */
};

/* Tokens to score: a context and its continuation, or a whole text. */
struct qwen_score_request {
	struct qwen_refusal	 no;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		 text;
	size_t			 from;	/* the first that is scored */
	size_t			 front;	/* tokens put in front, 0 or 1 */
};

/* A line, as qwen_request_parse_line; q is zeroed. */
int qwen_score_request_parse(struct qwen_score_request *q,
    const struct qwen_scoring *s, const char *json, size_t n,
    struct qwen_err *err);

/*
 * A text that is scored from its first token on, or the second if nothing is in
 * front; the tokens become q's.
 */
int qwen_score_request_text(struct qwen_score_request *q,
    const struct qwen_scoring *s, struct qwen_ids *tokens,
    struct qwen_err *err);
void qwen_score_request_fini(struct qwen_score_request *q);

/* ------------------------------------------------------ vectors and ranking */

/* What holds for all texts of which vectors are made; borrowed. */
struct qwen_vectors {
	const struct qwen_tok	*tok;
	struct qwen_embedding	 how;
	const char		*instruct;	/* or NULL */
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	size_t			 n_vocab;
	size_t			 cut;	/* texts to so many tokens; 0: not */
	size_t			 n_ctx;	/* that a text may have; 0: not known */
	int			 untrained;	/* the model's vectors are those
						   of a language model */
	struct qwen_unknown	*unknown;	/* members, or NULL */
	int			 strict_calls;	/* as in qwen_reply_opts */
};

struct qwen_vector_request {
	struct qwen_refusal	 no;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		 text;	/* at least one */
	int			 is_cut;
};

/*
 * A line, as qwen_request_parse_line: {"text": ...} or {"tokens": [...]}, and if
 * wanted "instruct" and "id"; or a text as it is (NULL: one of more than n bytes);
 * or tokens, which become q's.  q is zeroed.
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

/* The same for documents that are ranked. */
struct qwen_ranking {
	const struct qwen_tok	*tok;
	const struct qwen_reranker *how;
	struct qwen_str		 query;	/* of texts as they are */
	unsigned		 encode;
	size_t			 cut;	/* prompts to so many tokens; 0: not */
	size_t			 n_ctx;	/* that one may have; 0: not known */
	struct qwen_unknown	*unknown;	/* members, or NULL */
	int			 strict_calls;	/* as in qwen_reply_opts */
};

struct qwen_rank_request {
	struct qwen_refusal	 no;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		*prompt;	/* one a document */
	size_t			 n;
	size_t			 n_tokens;	/* of all */
	size_t			 n_cut;
	int			 is_list;	/* documents, not document */
};

/* A line: {"query": ..., "document": ...} or "documents": [...]; or a text. */
int qwen_rank_request_parse(struct qwen_rank_request *q,
    const struct qwen_ranking *s, const char *json, size_t n,
    struct qwen_err *err);
int qwen_rank_request_text(struct qwen_rank_request *q,
    const struct qwen_ranking *s, const char *text, size_t n,
    struct qwen_err *err);
/* The prompts are not needed any more; nothing is. */
void qwen_rank_request_drop(struct qwen_rank_request *q);
void qwen_rank_request_fini(struct qwen_rank_request *q);

/* ----------------------------------------- vectors and ranking over a network */

enum { QWEN_INPUTS_MAX = 2048 };	/* texts of a request for vectors */

/* A request to /v1/embeddings: each text as a line has it. */
struct qwen_embeddings {
	struct qwen_refusal	 no;
	char			*model;	/* JSON of what it asked for, or NULL */
	struct qwen_ids		*text;
	size_t			 n;
	size_t			 n_tokens;	/* of all */
	size_t			 dimensions;	/* of a vector; 0: all */
	int			 base64;
	int			 untrained;	/* the body says so */
};

/*
 * q is zeroed.  An empty list and an empty text are refused, as OpenAI does; texts
 * are cut where the request wants it.
 */
int qwen_embeddings_parse(struct qwen_embeddings *q,
    const struct qwen_vectors *s, const char *json, size_t n,
    struct qwen_err *err);

/* Its body: n vectors of n_embd numbers, one after another; or its error. */
void qwen_embeddings_body(const struct qwen_embeddings *q, const char *model,
    const float *vectors, size_t n_embd, struct qwen_text *t);
void qwen_embeddings_fini(struct qwen_embeddings *q);

/* A request to /v1/rerank: a query, and documents as a list has them. */
struct qwen_rerank {
	struct qwen_rank_request rank;	/* the prompts, and the refusal */
	char			*model;	/* JSON, or NULL */
	size_t			 top;	/* so many of the best are wanted */
	char			**document;	/* JSON of texts, or NULL: not
						   wanted back */
};

int qwen_rerank_parse(struct qwen_rerank *q, const struct qwen_ranking *s,
    const char *json, size_t n, struct qwen_err *err);

/*
 * Its body: the best first, by a score for each prompt; those with the same score
 * as they came.  -1: no memory.
 */
int qwen_rerank_body(const struct qwen_rerank *q, uint64_t number,
    const char *model, const double *scores, struct qwen_text *t,
    struct qwen_err *err);
void qwen_rerank_fini(struct qwen_rerank *q);

/* --------------------------------------------------- Ollama's other requests */

/* Whether replies by this template can begin with a thought. */
int qwen_request_can_think(const struct qwen_template *t);

/*
 * The model that a body names, for free(), and whether it asks for all that is
 * known; either may be NULL.  -1 with the refusal.
 */
int qwen_ollama_name(struct qwen_refusal *no, const char *json, size_t n,
    char **name, int *verbose);

/*
 * As qwen_embeddings_parse, of /api/embed with key "input", of /api/embeddings
 * with "prompt".  Unless the request says otherwise texts are cut to n_ctx tokens
 * (0: not).  There may be none; the body says so.
 */
int qwen_ollama_embed_parse(struct qwen_embeddings *q, const struct qwen_vectors *s,
    size_t n_ctx, const char *key, const char *json, size_t n,
    struct qwen_err *err);
void qwen_ollama_embed_body(const struct qwen_embeddings *q, const char *model,
    const float *vectors, size_t n_embd, int old, double seconds,
    struct qwen_text *t);

/* -------------------------------------------------------------------- tokens */

/*
 * Tokens of a text, or of a chat's prompt; the text of tokens; the prompt of a
 * chat as text; how many tokens there are, of a request of that form to be
 * answered (messages, responses).  t is the body that answers it, or the error,
 * and *status 200, or what that has.  n_ctx is told as what a model takes, if
 * it is not 0.  -1: no memory.
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
