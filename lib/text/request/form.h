/* SPDX-License-Identifier: ISC */
/*
 * form.h - an API as what it is answered with: bodies, errors, events; for the
 * files that write them.
 */
#ifndef QWEN_TEXT_REQUEST_FORM_H
#define QWEN_TEXT_REQUEST_FORM_H

#include "text/request/request.h"

/* Whether its answers are replies of a chat. */
static inline int
qwen_form_is_chat(enum qwen_form form)
{
	return form == QWEN_FORM_CHAT || form == QWEN_FORM_RESPONSES ||
	    form == QWEN_FORM_MESSAGES || form == QWEN_FORM_OLLAMA_CHAT ||
	    form == QWEN_FORM_OLLAMA_GENERATE || form == QWEN_FORM_COMPACT;
}

/* Whether it is one of Ollama's. */
static inline int
qwen_form_is_ollama(enum qwen_form form)
{
	return form == QWEN_FORM_OLLAMA_CHAT ||
	    form == QWEN_FORM_OLLAMA_GENERATE || form == QWEN_FORM_OLLAMA_RAW;
}

/* What was told of an answer. */
struct qwen_told {
	size_t	block;		/* of this one and those after it something is
				   left, */
	size_t	at;		/* of it what comes after so many bytes; */
	int	is_open;	/* it has been begun */
	int	ended;		/* there is no more */
	size_t	n_calls;
	size_t	lp[4];		/* bytes of lists of probabilities */
	size_t	n_ids;		/* tokens */
};

struct qwen_sse {
	const struct qwen_request *q;
	uint64_t		 created;
	const struct qwen_form_events *events;
	struct qwen_told	*told;	/* of each answer */
	size_t			 n_events;	/* where they are numbered */
	size_t			 n_ended;	/* answers */
};

/* A place in an answer. */
struct qwen_answer_cursor {
	const struct qwen_answer *a;
	struct qwen_told	*told;
	const struct qwen_block	*block;
};

/* How an API writes events; those that are NULL are none. */
struct qwen_form_events {
	void (*begin)(struct qwen_sse *s, struct qwen_text *t);
	void (*open)(struct qwen_sse *s, struct qwen_answer_cursor *p,
	    struct qwen_text *t);
	/* what of the block is after told->at, at least a byte */
	void (*more)(struct qwen_sse *s, struct qwen_answer_cursor *p,
	    struct qwen_text *t);
	void (*close)(struct qwen_sse *s, struct qwen_answer_cursor *p,
	    struct qwen_text *t);
	void (*finish)(struct qwen_sse *s, struct qwen_answer_cursor *p,
	    struct qwen_text *t);
	void (*end)(struct qwen_sse *s, struct qwen_text *t);
	void (*progress)(struct qwen_sse *s, const struct qwen_progress *p,
	    struct qwen_text *t);
	void (*on_idle)(struct qwen_sse *s, struct qwen_text *t);
	const char *idle;	/* the same as a text, if that is NULL */
};

extern const struct qwen_form_events qwen_openai_events,
    qwen_responses_events, qwen_anthropic_events, qwen_ollama_events,
    qwen_llama_events;

/* The bytes of a block from at on. */
struct qwen_str qwen_block_text(const struct qwen_answer *a,
    const struct qwen_block *b, size_t at);

/*
 * The arguments of a call as a JSON object; of a call that was cut off, those that
 * are complete.
 */
void qwen_block_object(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b);

/* The number of tokens of all answers. */
size_t qwen_answers_tokens(const struct qwen_request *q);

/* What the request called the model, or its name, as JSON. */
void qwen_form_model(struct qwen_text *t, const struct qwen_request *q);

/*
 * alias.c: what the client knows the tool as that a call is of, or NULL: a plain
 * function; and of a custom tool's call the text, as JSON.
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
void qwen_anthropic_body(const struct qwen_request *q, struct qwen_text *t);
void qwen_anthropic_error(struct qwen_text *t, int status, const char *code,
    const char *message);

/* ---- ollama.c */
void qwen_ollama_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);
void qwen_ollama_error(struct qwen_text *t, const char *message);

/* ---- llama.c: bodies of /completion; and fields that all of its answers have */
void qwen_llama_body(const struct qwen_request *q, struct qwen_text *t);
void qwen_llama_timings(struct qwen_text *t, const struct qwen_request *q);
void qwen_llama_progress(struct qwen_text *t, const struct qwen_progress *p);

/* What of a list, from byte *told on, was not told; then it is. */
void qwen_form_list(struct qwen_text *t, const struct qwen_text *list,
    size_t *told);

/* ---- infill.c */

/* Of a body of llama.cpp those fields alone that the list names, each by its path. */
void qwen_infill_pick(struct qwen_text *t, const char *fields,
    const struct qwen_text *body);

/* Whether a line of an answer, which ends before it then, is indented too little. */
int qwen_infill_outdents(struct qwen_answer *a);

/* The code of a refusal after which clients go on without threads. */
#define QWEN_NO_THREADS "thread_unsupported_request"

/* ---- openai.c: parts of bodies, each with its members' names */
void qwen_openai_error(struct qwen_text *t, int status, const char *code,
    const char *param, const char *message);
void qwen_openai_answer(struct qwen_text *t, const struct qwen_answer *a);
void qwen_openai_choices(struct qwen_text *t, const struct qwen_request *q);
void qwen_openai_usage(struct qwen_text *t, const struct qwen_request *q);
/* The seed and a comma, where it was drawn for this request; else nothing. */
void qwen_openai_seed(struct qwen_text *t, const struct qwen_request *q);
void qwen_openai_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t);

#endif
