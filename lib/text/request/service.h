/* SPDX-License-Identifier: ISC */
/*
 * service.h - requests for answers, and what is the same for all of them; what
 * needs only the tokenizer and the template.
 */
#ifndef QWEN_TEXT_REQUEST_SERVICE_H
#define QWEN_TEXT_REQUEST_SERVICE_H

#include "text/request/images.h"
#include "text/request/refusal.h"

enum {
	QWEN_CHOICES_MAX = 128,		/* answers per request */
	QWEN_STOPS_MAX = 64,
	QWEN_LOGPROBS_MAX = 20,		/* most likely tokens listed per
					   token */
	QWEN_VALUES_MAX = 1 << 18,	/* JSON values in a chat request */
};

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
	int			 reads_images;	/* the model does, and the
						   template has places for
						   them */
	const char		*placeholder;	/* line in place of an image
						   that the model does not read;
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
	struct qwen_image_sources images;	/* of a chat; its prompt has the
						   token <|image_pad|> once in
						   the place of each */
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

/* ------------------------------------------------------------------- tokens */

/*
 * Requests about tokens: the tokens of a text or of a chat's prompt; the text
 * of tokens; a chat's prompt as text; the number of prompt tokens of a parsed
 * request (messages, responses).  Each appends the body of the answer or
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
int qwen_tokens_count(const struct qwen_request *q, int *status,
    struct qwen_text *t, struct qwen_err *err);

#endif
