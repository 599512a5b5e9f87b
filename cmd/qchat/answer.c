/* SPDX-License-Identifier: ISC */
/* answer.c - read what is new, and answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qchat.h"

enum { PART = 512 };	/* tokens read between two looks at Ctrl-C */

/* Where the ids and the session part. */
static size_t
common(const struct chat *c, const int32_t *ids, size_t n)
{
	const int32_t *old = qwen_session_tokens(c->session);
	size_t have = qwen_session_n_tokens(c->session), i;

	for (i = 0; i < have && i < n && old[i] == ids[i]; i++)
		;
	return i;
}

/* Append ids in parts; 0, or -1 if Ctrl-C came in between. */
static int
read_part(struct chat *c, const int32_t *ids, size_t n)
{
	size_t i, k;

	for (i = 0; i < n; i += k) {
		if (qchat_interrupted)
			return -1;
		k = n - i < PART ? n - i : PART;
		tool_eval(c->session, ids + i, k, NULL);
	}
	return 0;
}

/*
 * Bring the session to the prompt: what it has read already is not read again.
 * A recurrent state can be cut at checkpoints alone, so there is one at turn,
 * where the answer's turn begins: the next prompt has another text from there,
 * since it leaves out what was thought.
 */
static int
read_prompt(struct chat *c, const int32_t *ids, size_t n, size_t turn)
{
	size_t at = common(c, ids, n);

	cli_must(NULL, qwen_session_rewind(c->session, at, at == n, &at,
	    &cli_err));
	if (cli_verbose)
		cli_note("%s to read, %zu were read before",
		    cli_count(n - at, "token"), at);
	if (at < turn) {
		if (read_part(c, ids + at, turn - at) < 0)
			return -1;
		at = turn;
		cli_must(NULL, qwen_session_keep(c->session, 0, &cli_err));
	}
	return read_part(c, ids + at, n - at);
}

/* The ids of a prompt, free(), and how many come before its last turn. */
static int32_t *
encode(struct chat *c, const struct qwen_prompt *p, size_t *n, size_t *turn)
{
	size_t len = qwen_prompt_text(p).len, last = 0, next, n_head;
	int32_t *ids, *head;

	while ((next = qwen_prompt_turn(p, last + 1)) < len)
		last = next;
	cli_must(NULL, qwen_prompt_encode(p, c->tok, 0, last, &head, &n_head,
	    &cli_err));
	cli_must(NULL, qwen_prompt_encode(p, c->tok, 0, len, &ids, n,
	    &cli_err));
	*turn = n_head;
	free(head);
	return ids;
}

/* Thoughts are commentary, and go to stderr; the answer to stdout. */
static int
put_event(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	struct chat *c = arg;
	int thought = e->kind == QWEN_REPLY_REASONING;

	(void)err;
	if (c->thought && !thought && !cli_quiet)
		fputs("\n\n", stderr);
	c->thought = thought;
	c->said |= e->text.len > 0;
	if (!thought) {
		cli_show_text(stdout, e->text.s, e->text.len);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
	} else if (!cli_quiet)
		cli_show_text(stderr, e->text.s, e->text.len);
	return 0;
}

/* Sampling begins anew, with what the model's makers advise for such a prompt. */
static void
begin_sampling(struct chat *c, enum qwen_thinking prompt)
{
	const struct qwen_session *s = c->session;
	const char *source;

	qwen_sampler_free(c->sampler);
	cli_must(NULL, qwen_sampler_copy(&c->sampler, c->options, &cli_err));
	source = tool_sampling_advise(c->sampler, qwen_model_gguf(c->model), 1,
	    qwen_template_thinks(c->template, prompt));
	tool_tell_sampling(c->sampler, source, "");
	cli_must(NULL, qwen_sampler_begin(c->sampler,
	    qwen_model_n_vocab(c->model), &cli_err));
	cli_must(NULL, qwen_sampler_accept(c->sampler, qwen_session_tokens(s),
	    qwen_session_n_tokens(s), 0, &cli_err));
}

static void
feed(struct qwen_reply *r, struct qwen_str s)
{
	cli_must(NULL, qwen_reply_feed(r, s.s, s.len, &cli_err));
}

/* Tokens until the turn ends, or Ctrl-C; their text goes to the reply. */
static void
generate(struct chat *c, struct qwen_reply *r, enum qwen_thinking prompt)
{
	struct qwen_tok_decoder *d;
	struct qwen_str s;
	int64_t n;
	int32_t id;
	int stopped = 0, cut = 0;

	begin_sampling(c, prompt);
	cli_must(NULL, qwen_tok_decoder_new(&d, c->tok, 0, &cli_err));
	for (n = 0; n < qchat_opt.n && !qchat_interrupted; n++) {
		id = tool_choose(c->sampler, c->session);
		if (tool_is_ending(&c->header, id))
			break;
		stopped = qwen_sampler_stopped(c->sampler);
		cli_must(NULL, qwen_tok_decoder_put(d, id, &s, &cli_err));
		cut = tool_stop_feed(c->cut, &s, stopped);
		feed(r, s);
		if (stopped)
			break;
		if (qwen_session_n_tokens(c->session) ==
		    qwen_model_n_ctx(c->model)) {
			warn("the model's context is full");
			break;
		}
		tool_eval(c->session, &id, 1, NULL);
	}
	qwen_tok_decoder_finish(d, &s);
	if (!cut) {
		tool_stop_feed(c->cut, &s, 0);
		feed(r, s);
	}
	s = tool_stop_end(c->cut);
	if (!cut)
		feed(r, s);
	cli_must(NULL, qwen_reply_finish(r, &cli_err));
	qwen_tok_decoder_free(d);
}

/* The reply as the next message. */
static void
keep_reply(struct chat *c, const struct qwen_reply *r)
{
	char *json;
	size_t n;

	cli_must(NULL, qwen_reply_message(r, &json, &n, &cli_err));
	cli_must(NULL, qwen_messages_add(c->messages, json, n, &cli_err));
	free(json);
}

static int
answer(struct chat *c, enum qwen_thinking thinking)
{
	struct qwen_reply_opts o = {
		.thinking = thinking, .event = put_event, .arg = c,
	};
	struct qwen_reply *r;

	c->thought = c->said = 0;
	cli_must(NULL, qwen_reply_new(&r, c->template, &o, &cli_err));
	generate(c, r, thinking);
	if (c->thought && !cli_quiet)
		fputs("\n", stderr);
	putchar('\n');
	if (fflush(stdout) == EOF)
		exit(cli_finish());
	if (c->said)
		keep_reply(c, r);
	qwen_reply_free(r);
	return c->said;
}

static void
say(struct chat *c, const char *line)
{
	if (c->document != NULL)
		qchat_say(c, "user", c->document, c->n_document, 0);
	qchat_say(c, "user", line, strlen(line), c->document != NULL);
	free(c->document);
	c->document = NULL;
}

/* The prompt for the conversation, or NULL with a warning. */
static struct qwen_prompt *
render(struct chat *c)
{
	struct qwen_prompt *p;
	char *json;
	size_t n;

	cli_must(NULL, qwen_messages_json(c->messages, 0, &json, &n, &cli_err));
	if (qwen_template_render(c->template, json, n, &p, &cli_err) < 0)
		warn("%s", cli_err.msg);
	free(json);
	return p;
}

void
qchat_turn(struct chat *c, const char *line)
{
	enum qwen_thinking thinking;
	struct qwen_prompt *p;
	size_t n, at;
	int32_t *ids;

	if (qwen_utf8_check(line, strlen(line)) < strlen(line)) {
		warn("that is not UTF-8");
		return;
	}
	say(c, line);
	qchat_interrupted = 0;
	p = render(c);
	if (p == NULL) {
		qwen_messages_drop(c->messages);
		return;
	}
	thinking = qwen_prompt_thinking(p);
	ids = encode(c, p, &n, &at);
	qwen_prompt_free(p);
	if (n >= qwen_model_n_ctx(c->model)) {
		warn("the conversation has %s, the model's context "
		    "%zu; see /reset", cli_count(n, "token"), qwen_model_n_ctx(c->model));
		qwen_messages_drop(c->messages);
	} else if (read_prompt(c, ids, n, at) < 0 || !answer(c, thinking))
		qwen_messages_drop(c->messages);
	free(ids);
}
