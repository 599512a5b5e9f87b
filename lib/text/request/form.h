/* SPDX-License-Identifier: ISC */
/*
 * form.h - how each API writes answers: bodies, errors and events; for the
 * files that write them.
 */
#ifndef QWEN_TEXT_REQUEST_FORM_H
#define QWEN_TEXT_REQUEST_FORM_H

#include "text/json/json.h"
#include "text/request/request.h"

/* Returns 1 if answers of this form are replies of a chat. */
static inline int
qwen_form_is_chat(enum qwen_form form)
{
	return form == QWEN_FORM_CHAT || form == QWEN_FORM_RESPONSES ||
	    form == QWEN_FORM_MESSAGES || form == QWEN_FORM_OLLAMA_CHAT ||
	    form == QWEN_FORM_OLLAMA_GENERATE || form == QWEN_FORM_COMPACT;
}

/* Returns 1 if the form is one of Ollama's. */
static inline int
qwen_form_is_ollama(enum qwen_form form)
{
	return form == QWEN_FORM_OLLAMA_CHAT ||
	    form == QWEN_FORM_OLLAMA_GENERATE || form == QWEN_FORM_OLLAMA_RAW;
}

/* How much of an answer a stream has sent. */
struct qwen_sent {
	size_t	block;		/* index of the first block not sent
				   completely */
	size_t	at;		/* bytes sent of that block */
	int	is_open;	/* the block's first event was sent */
	int	ended;		/* the last event of the answer was sent */
	size_t	n_calls;
	size_t	lp[4];		/* bytes sent of each list of
				   log-probabilities */
	size_t	n_ids;		/* tokens sent */
};

struct qwen_answer_stream {
	const struct qwen_request *q;
	uint64_t		 created;
	const struct qwen_form_events *events;
	struct qwen_sent	*all;	/* one per answer */
	/* an answer while its events are written, else NULL; and its block */
	const struct qwen_answer *a;
	struct qwen_sent	*sent;	/* of a */
	const struct qwen_block	*block;	/* NULL: at the end */
	size_t			 n_events;	/* events sent, for APIs that
						   number them */
	size_t			 n_ended;	/* answers that have ended */
};

/* How an API writes events; NULL: the API has no such event. */
struct qwen_form_events {
	void (*begin)(struct qwen_answer_stream *s, struct qwen_text *t);
	void (*open)(struct qwen_answer_stream *s, struct qwen_text *t);
	/* the bytes of the block from sent->at on, at least one */
	void (*more)(struct qwen_answer_stream *s, struct qwen_text *t);
	void (*close)(struct qwen_answer_stream *s, struct qwen_text *t);
	void (*finish)(struct qwen_answer_stream *s, struct qwen_text *t);
	void (*end)(struct qwen_answer_stream *s, struct qwen_text *t);
	void (*progress)(struct qwen_answer_stream *s,
	    const struct qwen_progress *p, struct qwen_text *t);
	void (*on_idle)(struct qwen_answer_stream *s, struct qwen_text *t);
	const char *idle;	/* text of the keep-alive event, if on_idle is
				   NULL */
};

extern const struct qwen_form_events qwen_openai_events,
    qwen_responses_events, qwen_anthropic_events, qwen_ollama_events,
    qwen_llama_events;

/* Returns the bytes of a token; they live until the next call. */
struct qwen_str qwen_form_spell(const struct qwen_service *s, int32_t id);

/* Returns the index of an answer in its request. */
size_t qwen_answer_number(const struct qwen_answer *a);

/*
 * Appends the refusal of a stream as a server-sent event; before has the lines
 * in front of its data.
 */
void qwen_form_error_event(struct qwen_answer_stream *s, const char *before,
    struct qwen_text *t);

/* Returns the bytes of a block from offset at on. */
struct qwen_str qwen_block_text(const struct qwen_answer *a,
    const struct qwen_block *b, size_t at);

/*
 * Appends the arguments of a call as a JSON object; of a truncated call, only
 * those that are complete.
 */
void qwen_block_object(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b);

/* Append token ids to a list; a vector as a list of numbers. */
void qwen_form_ids(struct qwen_text *t, const int32_t *ids, size_t n);
void qwen_form_vector(struct qwen_text *t, const float *v, size_t n);

/* Returns the number of tokens of all answers together. */
size_t qwen_answers_tokens(const struct qwen_request *q);

/*
 * Appends the field "model": the name that was asked for, JSON, or, if that is
 * NULL, the name of the model.
 */
void qwen_form_model(struct qwen_text *t, const char *asked, const char *model);

/*
 * alias.c: qwen_block_alias returns the client's description of the tool that a
 * call is for; NULL for a plain function. qwen_block_input appends the input of
 * a custom tool's call, a string, as JSON.
 */
const struct qwen_tool_alias *qwen_block_alias(const struct qwen_answer *a,
    const struct qwen_block *b);
void qwen_block_input(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b);

/* ---- responses.c */
void qwen_responses_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);

void qwen_compact_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);

/* ---- anthropic.c */
void qwen_anthropic_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);
void qwen_anthropic_error(struct qwen_text *t, int status, const char *code,
    const char *message);

/* ---- ollama.c */
void qwen_ollama_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);
void qwen_ollama_error(struct qwen_text *t, const char *message);

/* ---- llama.c: bodies of /completion, and fields for answers of other forms */
void qwen_llama_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);
void qwen_llama_timings(struct qwen_text *t, const struct qwen_request *q);
void qwen_llama_progress(struct qwen_text *t, const struct qwen_progress *p);

/*
 * Appends a field: the part of the list after byte *sent, then sets *sent to
 * its end.
 */
void qwen_form_list(struct qwen_text *t, const char *key,
    const struct qwen_text *list, size_t *sent);

/* ---- infill.c */

/*
 * Appends the fields of a body of llama.cpp that the list names by their paths.
 */
void qwen_infill_pick(struct qwen_text *t, const char *fields,
    const struct qwen_text *body);

/*
 * Returns 1 if a line of the answer is indented too little; truncates the
 * answer before that line's text.
 */
int qwen_infill_outdents(struct qwen_answer *a);

/* The refusal code after which clients continue without threads. */
#define QWEN_NO_THREADS "thread_unsupported_request"

/* ---- openai.c: parts of bodies, with the names of their fields */
void qwen_openai_error(struct qwen_text *t, int status, const char *code,
    const char *param, const char *message);
void qwen_openai_answer(struct qwen_text *t, const struct qwen_answer *a);
void qwen_openai_choices(struct qwen_text *t, const struct qwen_request *q);
void qwen_openai_usage(struct qwen_text *t, const struct qwen_request *q);
/* Appends the seed if it was drawn for this request. */
void qwen_openai_seed(struct qwen_text *t, const struct qwen_request *q);
void qwen_openai_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);

#endif
