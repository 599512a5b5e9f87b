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
 * model files contain, that turn messages into a prompt.  A template may be
 * untrusted: steps, depth and memory of a run have limits that depend only on
 * the size of the request.  Threads may share an open template.
 */
struct qwen_template;

/*
 * Open a template: a published one by its name (qwen3, qwen3.5, qwen3.6,
 * qwen3.6-ud (as in the files of one publisher), qwen3.8, qwen3-coder); the one
 * in a model file (tokenizer.chat_template); or a source text.
 */
int qwen_template_open(struct qwen_template **out, const char *name,
    struct qwen_err *err);
int qwen_template_open_gguf(struct qwen_template **out,
    const struct qwen_gguf *g, struct qwen_err *err);
int qwen_template_open_text(struct qwen_template **out, const char *source,
    size_t n, struct qwen_err *err);
void qwen_template_close(struct qwen_template *t);

/* Returns the source text; it lives as long as the template. */
const char *qwen_template_source(const struct qwen_template *t);

/*
 * Sets the template's variables bos_token, eos_token and pad_token from the ids
 * in the model file.  If how (or, for QWEN_BOS_FILE, the file) wants BOS in
 * front of texts, each prompt begins with exactly one BOS, whether or not the
 * template writes it.  qwen_template_open_gguf calls this with QWEN_BOS_FILE.
 */
int qwen_template_set_tokens(struct qwen_template *t,
    const struct qwen_gguf *g, enum qwen_bos how, struct qwen_err *err);

/*
 * Sets how reasoning_effort of requests is handled. "none" turns thinking off
 * (enable_thinking is false unless the request sets it).  If the template
 * raises an error for one of minimal, low, medium, high, xhigh and max, it gets
 * the nearest value that it accepts. effort is the value for requests without
 * one (NULL: the template's default). high replaces "high" for templates that
 * do not know that word: "medium", "xhigh" or NULL for "xhigh".  Fails for an
 * unknown effort.
 */
int qwen_template_set_effort(struct qwen_template *t, const char *effort,
    const char *high, struct qwen_err *err);

/*
 * What to do with system (and developer) messages in places where the template
 * does not accept them.  Elsewhere they stay as they are; a developer message
 * becomes a system message if the template does not know the role.
 */
enum qwen_systems {
	QWEN_SYSTEMS_REMIND,	/* default: join those at the start into one
				   message; turn a later one into a reminder in
				   the next user turn */
	QWEN_SYSTEMS_FIRST,	/* join all into one message at the start */
	QWEN_SYSTEMS_TEMPLATE,	/* change no message; fail if the template
				   refuses one */
};

void qwen_template_set_systems(struct qwen_template *t,
    enum qwen_systems how);

/*
 * Sets the clock for strftime_now() in the template: now fills *out, or returns
 * -1.  Without it a template that asks for the time fails, since results of the
 * library depend only on its inputs.
 */
void qwen_template_set_clock(struct qwen_template *t,
    int (*now)(void *arg, struct tm *out), void *arg);

/*
 * Returns how the template writes tool calls, which qwen_reply parses; 0 if it
 * has none.
 */
enum qwen_calls {
	QWEN_CALLS_JSON = 1,	/* an object with name and arguments */
	QWEN_CALLS_TAGS,	/* <function=NAME> with a tag per parameter */
};

int qwen_template_calls(const struct qwen_template *t);

/*
 * Returns 1 if the source contains the word (letters, digits and _), delimited.
 */
int qwen_template_names(const struct qwen_template *t, const char *word);

/*
 * Renders a prompt from a request, n bytes of JSON: an object with a list of
 * messages and, if needed, tools and other variables of the template. null
 * counts as absent.  Fields of chat_template_kwargs count as fields of the
 * request.  Numbers keep their digits.
 *
 * A thought may be called reasoning_content, reasoning or thinking.  The role
 * "function" is read as "tool", the field function_call as tool_calls.
 * Arguments of calls become objects unless the template expects JSON: empty
 * arguments become {}, truncated JSON its readable part, and anything else the
 * value of "input".  Where the template cannot handle them, missing content
 * becomes empty, and text parts are joined by line feeds.  If the template
 * refuses a chat without a user message, the library makes it accept the chat.
 * Anything else that the template refuses fails.
 *
 * A last message of the assistant that has text and no calls is continued: the
 * prompt ends where its text ends.  continue_final_message false, or
 * add_generation_prompt, prevents that; with continue_final_message true, a
 * message that cannot be continued is an error.  add_generation_prompt defaults
 * to true.
 */
struct qwen_prompt;

int qwen_template_render(const struct qwen_template *t, const char *json,
    size_t n, struct qwen_prompt **out, struct qwen_err *err);
void qwen_prompt_free(struct qwen_prompt *p);

/*
 * qwen_prompt_text returns the text.  qwen_prompt_own returns for each byte 1
 * if the template wrote it, 0 if it came from the request, even through
 * variables.
 */
struct qwen_str qwen_prompt_text(const struct qwen_prompt *p);
const unsigned char *qwen_prompt_own(const struct qwen_prompt *p);

/*
 * Returns the first byte, at or after from, where a turn begins: where the
 * template wrote <|im_start|>.  Returns the length of the text if there is
 * none.
 */
size_t qwen_prompt_turn(const struct qwen_prompt *p, size_t from);

/*
 * Encodes bytes from .. to of the text; the caller frees *ids.  Only control
 * tokens that the template wrote are recognised.  If the text is cut where
 * turns begin, the ids of the parts are those of the whole text.
 */
int qwen_prompt_encode(const struct qwen_prompt *p, const struct qwen_tok *tok,
    size_t from, size_t to, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);

/* The state of thinking at the end of a prompt. */
enum qwen_thinking {
	QWEN_THINKING_NONE,	/* a reply may begin with <think> */
	QWEN_THINKING_OPEN,	/* the prompt opened a thought */
	QWEN_THINKING_CLOSED,	/* the prompt has an empty thought */
};

enum qwen_thinking qwen_prompt_thinking(const struct qwen_prompt *p);

/* Returns 1 if a reply continues the last message. */
int qwen_prompt_continues(const struct qwen_prompt *p);

/* Returns 1 if arguments of an earlier call were truncated or not an object. */
int qwen_prompt_repaired(const struct qwen_prompt *p);

/* Returns 1 if a reply begins with a thought, as far as the template shows. */
int qwen_template_thinks(const struct qwen_template *t,
    enum qwen_thinking prompt);

/*
 * Parses a reply while it arrives into thoughts, content and tool calls.  The
 * template determines the syntax of calls: JSON, or a tag per parameter, whose
 * values are read by the tool's schema.  Text that looks like a call but cannot
 * be parsed, or was truncated, is reported as unparsed; nothing is lost.  The
 * result does not depend on how the text is divided into chunks.
 *
 * Models forget tags, write almost valid JSON, or use the other syntax. qtok(1)
 * lists what is accepted as a call anyway: its name must be that of a tool, and
 * there must be only one way to read it.
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
	int			cut;	/* a truncated call: text is the
					   beginning of its arguments, or
					   empty */
	size_t			at;	/* offset of the text in the reply, in
					   bytes of UTF-8; not for calls */
};

struct qwen_reply_opts {
	enum qwen_thinking	 thinking;	/* of the prompt */
	int			 continues;	/* of the prompt: leading white
						   space is part of the text */
	const char		*tools;		/* of the request, a JSON list;
						   NULL: no tools, so calls are
						   text */
	size_t			 n_tools;	/* bytes */
	int			 strict;	/* accept only the template's
						   exact call syntax */
	/*
	 * Called for each piece of text as soon as it is certain, and for each
	 * call or unparsed text when it is complete; may be NULL.  It returns
	 * -1 with err to stop.
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
 * Instead of qwen_reply_finish, for a reply truncated by a token limit: a call
 * whose name is complete and that of a tool is reported with cut set.
 */
int qwen_reply_cut(struct qwen_reply *r, struct qwen_err *err);
void qwen_reply_free(struct qwen_reply *r);

/*
 * After finish: returns the reply as a JSON object with role and content, and
 * if present reasoning, tool_calls (each with name and arguments) and unparsed
 * (a list of strings).  The caller frees *json.  The text of each kind is the
 * concatenation of its events, without white space at its ends except before
 * unparsed text.
 */
int qwen_reply_message(const struct qwen_reply *r, char **json, size_t *n,
    struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
