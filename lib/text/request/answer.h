/* SPDX-License-Identifier: ISC */
/*
 * answer.h - answers while they are generated, as a body, a result line or
 * events.
 */
#ifndef QWEN_TEXT_REQUEST_ANSWER_H
#define QWEN_TEXT_REQUEST_ANSWER_H

#include "text/request/service.h"

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

#endif
