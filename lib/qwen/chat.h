/* SPDX-License-Identifier: ISC */
/* qwen/chat.h - chat templates and replies. */
#ifndef QWEN_QWEN_CHAT_H
#define QWEN_QWEN_CHAT_H

#include <time.h>

#include "qwen/tok.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Chat templates: programs in a subset of the template language Jinja, which
 * model files carry, that make a prompt of messages.  One may come from
 * anybody: steps, depth and memory of a run have limits that grow with the
 * request alone.  A template that is open can be used by many threads.
 */
struct qwen_template;

/*
 * A published one by name: qwen3, qwen3.5, qwen3.6, qwen3.6-ud (as in the files
 * of one publisher), qwen3.8, qwen3-coder; name i of these, or NULL; that of a
 * model file (tokenizer.chat_template); a text.
 */
int qwen_template_open(struct qwen_template **out, const char *name,
    struct qwen_err *err);
const char *qwen_template_name(size_t i);
int qwen_template_open_gguf(struct qwen_template **out,
    const struct qwen_gguf *g, struct qwen_err *err);
int qwen_template_open_text(struct qwen_template **out, const char *source,
    size_t n, struct qwen_err *err);
void qwen_template_close(struct qwen_template *t);

/* Its text, as long as it is open. */
const char *qwen_template_source(const struct qwen_template *t);

/*
 * Gives the template the variables bos_token, eos_token and pad_token, from the
 * model file's ids.  If how (or with QWEN_BOS_FILE the file) wants BOS in front
 * of texts, each prompt begins with it: once, whether the template writes it or
 * not.  qwen_template_open_gguf does this with QWEN_BOS_FILE.
 */
int qwen_template_set_tokens(struct qwen_template *t,
    const struct qwen_gguf *g, enum qwen_bos how, struct qwen_err *err);

/*
 * reasoning_effort of requests: none turns thinking off (enable_thinking is
 * false, unless the request sets it).  Where the template raises on another of
 * minimal, low, medium, high, xhigh and max, it gets the nearest that it takes.
 * effort is for requests that have none (NULL: the template's own default), high
 * what "high" is for templates that do not know it: "medium", or else NULL or
 * "xhigh".  Fails if there is no such effort.
 */
int qwen_template_set_effort(struct qwen_template *t, const char *effort,
    const char *high, struct qwen_err *err);

/*
 * What becomes of messages of systems (and developers) that the template does
 * not take where they are.  Where it takes them, they stay as they are, and a
 * developer is a system for a template that does not know the word.
 */
enum qwen_systems {
	QWEN_SYSTEMS_REMIND,	/* those at the start are one message; a later
				   one is a reminder in the next turn of the
				   user: so unless set otherwise */
	QWEN_SYSTEMS_FIRST,	/* all are one message at the start */
	QWEN_SYSTEMS_TEMPLATE,	/* no message is changed; what the template
				   refuses fails */
};

void qwen_template_set_systems(struct qwen_template *t,
    enum qwen_systems how);

/*
 * What time it is for strftime_now() in the template: now fills in *out, or
 * returns -1.  Without it a template that asks for the time fails, since what
 * the library gives depends on nothing else than what it is given.
 */
void qwen_template_set_clock(struct qwen_template *t,
    int (*now)(void *arg, struct tm *out), void *arg);

/* The way in which it has tools called, which qwen_reply reads; 0: in none. */
enum qwen_calls {
	QWEN_CALLS_JSON = 1,	/* an object with name and arguments */
	QWEN_CALLS_TAGS,	/* <function=NAME>, and a tag for each parameter */
};

int qwen_template_calls(const struct qwen_template *t);

/* Whether its text has the word, letters, digits and _, apart from others. */
int qwen_template_names(const struct qwen_template *t, const char *word);

/*
 * What the template makes of a request, n bytes of JSON: an object with a list
 * of messages and, if wanted, tools and other things that the template asks
 * for.  null counts as not given; fields of chat_template_kwargs are as if they
 * were fields of the request.  Numbers keep their digits.
 *
 * A thought may be called reasoning_content, reasoning or thinking; the role
 * function and the field function_call are taken for tool and tool_calls.
 * Arguments of calls become objects unless the template reads JSON: nothing is
 * {}, of JSON that was cut the readable part counts, and what is no object is the
 * value of "input".  Where the template has no use for them as they are, content
 * that is missing is empty, and parts of text are joined by line feeds.  A
 * template that refuses a chat without a question of the user is made to take
 * it.  What the template refuses otherwise, or cannot take, fails.
 *
 * A last message of the assistant, of text and without calls, is continued: the
 * prompt ends where its text does.  With continue_final_message false, or with
 * add_generation_prompt, it is not; with continue_final_message true, what cannot
 * be continued fails.  add_generation_prompt is true unless given.
 */
struct qwen_prompt;

int qwen_template_render(const struct qwen_template *t, const char *json,
    size_t n, struct qwen_prompt **out, struct qwen_err *err);
void qwen_prompt_free(struct qwen_prompt *p);

/*
 * The text, and for each byte 1 if the template wrote it, 0 if it was in the
 * request, wherever it went in between.
 */
struct qwen_str qwen_prompt_text(const struct qwen_prompt *p);
const unsigned char *qwen_prompt_own(const struct qwen_prompt *p);

/*
 * Where, from byte from on, the next turn begins: the template wrote
 * <|im_start|> there.  The length of the text if none does.
 */
size_t qwen_prompt_turn(const struct qwen_prompt *p, size_t from);

/*
 * The ids of the text from byte from to byte to, free(*ids); control tokens are
 * those that the template wrote.  Parts that are cut where turns begin have the
 * ids that the whole has.
 */
int qwen_prompt_encode(const struct qwen_prompt *p, const struct qwen_tok *tok,
    size_t from, size_t to, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);

/* What a prompt says of thinking, and a reply to it goes on with. */
enum qwen_thinking {
	QWEN_THINKING_NONE,	/* nothing: a reply may begin with <think> */
	QWEN_THINKING_OPEN,	/* a thought has begun */
	QWEN_THINKING_CLOSED,	/* there was an empty one */
};

enum qwen_thinking qwen_prompt_thinking(const struct qwen_prompt *p);

/* Whether a reply continues the last message. */
int qwen_prompt_continues(const struct qwen_prompt *p);

/* Whether arguments of an earlier call were cut, or no object. */
int qwen_prompt_repaired(const struct qwen_prompt *p);

/* Whether a reply to it begins with a thought, as far as its template tells. */
int qwen_template_thinks(const struct qwen_template *t,
    enum qwen_thinking prompt);

/*
 * A reply, read as it comes: what is thought, what is said, and which tools are
 * called.  The template says how calls are written: as JSON, or with a tag for
 * each parameter, whose values are read by the tool's schema.  What looks like a
 * call and is none, or was cut off, is called unparsed; nothing is lost.  The
 * result does not depend on where the text is cut.
 *
 * Models forget tags, write JSON that is nearly right, or the other way of
 * calls; qtok(1) lists what is read as a call all the same.  Its name must be
 * that of a tool, and there must be no second way to read it.
 */
struct qwen_reply;

enum qwen_reply_kind {
	QWEN_REPLY_REASONING, QWEN_REPLY_CONTENT, QWEN_REPLY_CALL,
	QWEN_REPLY_UNPARSED
};

struct qwen_reply_event {
	enum qwen_reply_kind	kind;
	struct qwen_str		text;	/* UTF-8; of a call, its arguments: a
					   JSON object */
	struct qwen_str		name;	/* of a call */
	int			cut;	/* a call that was cut off: the text is the
					   beginning of its arguments, or empty */
	size_t			at;	/* byte of the reply, as UTF-8, that the
					   text begins with; not of calls */
};

struct qwen_reply_opts {
	enum qwen_thinking	 thinking;	/* of the prompt */
	int			 continues;	/* likewise: white space at the
						   beginning is part of it */
	const char		*tools;		/* those of the request, a JSON
						   list; NULL: none, and then
						   calls are text */
	size_t			 n_tools;	/* bytes */
	int			 strict;	/* calls must be exactly as the
						   template asks for them */
	/*
	 * Called for each piece as soon as it is certain, each unparsed text
	 * and each call when it is whole; may be NULL.  -1 ends with err.
	 */
	int			 (*event)(void *arg,
				     const struct qwen_reply_event *e,
				     struct qwen_err *err);
	void			*arg;
};

int qwen_reply_new_sized(size_t size, struct qwen_reply **out,
    const struct qwen_template *t, const struct qwen_reply_opts *opts,
    struct qwen_err *err);
#define qwen_reply_new(...) \
	qwen_reply_new_sized(sizeof(struct qwen_reply_opts), __VA_ARGS__)
int qwen_reply_feed(struct qwen_reply *r, const void *text, size_t n,
    struct qwen_err *err);
int qwen_reply_finish(struct qwen_reply *r, struct qwen_err *err);

/*
 * In place of finish, for a reply that was cut off, by a limit on its tokens: a
 * call whose name is complete and that of a tool comes as an event with cut set.
 */
int qwen_reply_cut(struct qwen_reply *r, struct qwen_err *err);
void qwen_reply_free(struct qwen_reply *r);

/*
 * After finish: all of it as a JSON object, free(*json), with role, content, and
 * where there are some reasoning, tool_calls (each with name and arguments) and
 * unparsed (a list of texts).  Pieces of an event's kind add up to its text,
 * which has no white space at its ends, but before what is unparsed.
 */
int qwen_reply_message(const struct qwen_reply *r, char **json, size_t *n,
    struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
