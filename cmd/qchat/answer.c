/* SPDX-License-Identifier: ISC */
/* answer.c - add a message of the user, and generate the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qchat.h"

static void
end_thought(struct qchat *c)
{
	if (c->in_thought && qchat_opt.hide_thinking)
		cli_progress_end();
	else if (c->in_thought && !cli_quiet)
		fprintf(stderr, "\n</think>%s\n\n", qchat_plain);
	c->in_thought = 0;
}

/*
 * Print a piece of the reply: thoughts to stderr between tags, the answer to
 * stdout.
 */
static int
put_event(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	struct qchat *c = arg;

	(void)err;
	c->has_text |= e->text.len > 0;
	if (e->kind != QWEN_REPLY_REASONING) {
		end_thought(c);
		cli_show_text(stdout, e->text.s, e->text.len);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
		return 0;
	}
	if (!c->in_thought && qchat_opt.hide_thinking)
		cli_progress_start("tokens", 0);
	else if (!c->in_thought && !cli_quiet)
		fprintf(stderr, "%s<think>\n", qchat_dim);
	c->in_thought = 1;
	if (!cli_quiet && !qchat_opt.hide_thinking)
		cli_show_text(stderr, e->text.s, e->text.len);
	return 0;
}

/* After /retry: another seed, so that the answer differs. */
static void
set_seed(struct qchat *c)
{
	char seed[24];

	if (c->n_retries == 0)
		return;
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)
	    (qwen_sampler_seed(c->options) + c->n_retries));
	cli_must(NULL, qwen_sampler_set(c->sampler, "seed", seed, &cli_err));
	if (qwen_sampler_is_greedy(c->sampler))
		cli_note("the best token is taken each time, so the answer is "
		    "the same; /set temp 0.7 makes answers vary");
}

/*
 * Make a new sampler, with the model's recommended settings for such a prompt.
 */
static void
begin_sampling(struct qchat *c, enum qwen_thinking prompt)
{
	const struct qwen_session *s = c->session;
	const char *source;

	qwen_sampler_free(c->sampler);
	cli_must(NULL, qwen_sampler_copy(&c->sampler, c->options, &cli_err));
	source = tool_sampling_advise(c->sampler, qwen_model_gguf(c->model), 1,
	    qwen_template_thinks(c->template, prompt));
	set_seed(c);
	tool_report_sampling(c->sampler, source, "");
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

/*
 * Pass the text of a token to the reply.  Return nonzero if it is the last
 * token; *cut: the text ended at a stop text.
 */
static int
take_token(struct qchat *c, struct qwen_reply *r, struct qwen_tok_decoder *d,
    int32_t id, int *cut)
{
	int stopped = qwen_sampler_stopped(c->sampler);
	struct qwen_str s;

	cli_must(NULL, qwen_tok_decoder_put(d, id, &s, &cli_err));
	*cut = tool_stop_feed(c->cut, &s, stopped == QWEN_STOPPED_TEXT);
	feed(r, s);
	return stopped;
}

/* Pass the remaining text to the reply after the last token. */
static void
finish(struct qchat *c, struct qwen_reply *r, struct qwen_tok_decoder *d,
    int cut)
{
	struct qwen_str s;

	qwen_tok_decoder_finish(d, &s);
	if (!cut) {
		tool_stop_feed(c->cut, &s, 0);
		feed(r, s);
	}
	s = tool_stop_end(c->cut);
	if (!cut)
		feed(r, s);
	cli_must(NULL, qwen_reply_finish(r, &cli_err));
}

/*
 * Return how many tokens may follow the next one, at most QWEN_GUESS_MAX; n
 * tokens came before it.
 */
static size_t
room(int64_t n)
{
	int64_t left = qchat_opt.n - n - 1;

	return left < QWEN_GUESS_MAX ? (size_t)left : QWEN_GUESS_MAX;
}

enum end { ENDED, CUT_BY_COUNT, CUT_BY_CONTEXT, CUT_AS_LOOP, INTERRUPTED };

/*
 * Generate tokens until the turn ends or Ctrl-C; pass their text to the reply.
 * Return why it ended.
 */
static enum end
generate(struct qchat *c, struct qwen_reply *r)
{
	struct qwen_tok_decoder *d;
	double start = cli_now();
	enum end end = ENDED;
	int64_t n = 0;
	int32_t id;
	int cut = 0;

	cli_must(NULL, qwen_tok_decoder_new(&d, c->tok, 0, &cli_err));
	for (;; n++) {
		end = qchat_interrupted ? INTERRUPTED :
		    n >= qchat_opt.n ? CUT_BY_COUNT : ENDED;
		if (end != ENDED)
			break;
		id = tool_sample_token(c->sampler, c->session);
		if (tool_is_ending(&c->header, id) ||
		    take_token(c, r, d, id, &cut)) {
			if (qwen_sampler_stopped(c->sampler) ==
			    QWEN_STOPPED_REPEAT)
				end = CUT_AS_LOOP;
			break;
		}
		if (qwen_session_n_tokens(c->session) == c->n_ctx) {
			end = CUT_BY_CONTEXT;
			break;
		}
		tool_drafter_eval(c->drafter, c->session, id, room(n));
		if (c->in_thought && qchat_opt.hide_thinking)
			cli_progress((uint64_t)n + 1);
	}
	finish(c, r, d, cut);
	qwen_tok_decoder_free(d);
	end_thought(c);
	putchar('\n');
	if (fflush(stdout) == EOF)
		exit(cli_finish());
	if (cli_verbose)
		cli_note("%lld tokens in %.1f s", (long long)n,
		    cli_now() - start);
	return end;
}

/*
 * Return what to add to a message about a full context: commands that make
 * room.  A single question has no commands.
 */
static const char *
see_also(void)
{
	return qchat_opt.question != NULL ? "" : "; see /undo and /reset";
}

static void
note_end(const struct qchat *c, enum end end)
{
	if (end == CUT_BY_COUNT)
		cli_note("the answer is cut after %s (-n)%s",
		    cli_count((uint64_t)qchat_opt.n, "token"),
		    qchat_opt.question != NULL ? "" : "; /set n changes that");
	if (end == CUT_AS_LOOP)
		cli_note("the answer is cut: it repeats itself "
		    "(--stop-repeat)");
	if (end == CUT_BY_CONTEXT && c->n_ctx < qwen_model_n_ctx(c->model))
		warn("the answer is cut: memory holds only %zu tokens "
		    "(--mem)%s", c->n_ctx, see_also());
	else if (end == CUT_BY_CONTEXT)
		warn("the answer is cut: the model's context of %zu tokens is "
		    "full%s", qwen_model_n_ctx(c->model), see_also());
}

/* Add the reply to the conversation. */
static void
keep_reply(struct qchat *c, const struct qwen_reply *r)
{
	char *json;
	size_t n;

	cli_must(NULL, qwen_reply_message(r, &json, &n, &cli_err));
	cli_must(NULL, qwen_messages_add(c->messages, json, n, &cli_err));
	free(json);
}

static int
answer(struct qchat *c, enum qwen_thinking thinking)
{
	struct qwen_reply_opts o = {
		.thinking = thinking, .event = put_event, .arg = c,
	};
	struct qwen_reply *r;

	c->in_thought = c->has_text = 0;
	begin_sampling(c, thinking);
	cli_must(NULL, qwen_reply_new(&r, c->template, &o, &cli_err));
	note_end(c, generate(c, r));
	if (c->has_text)
		keep_reply(c, r);
	qwen_reply_free(r);
	return c->has_text ? 0 : -1;
}

/*
 * --shift: if less than a quarter of the context is left for the answer (or
 * less than -n), drop the oldest turns until the prompt fills at most half.
 * The remaining messages are read as a new conversation.
 */
static void
shift(struct qchat *c)
{
	size_t room = c->n_ctx / 4, dropped = 0, k, n;

	room = (uint64_t)qchat_opt.n < room ? (size_t)qchat_opt.n : room;
	if (!qchat_opt.shift || qchat_prompt(c, &n, NULL) < 0 ||
	    n + room <= c->n_ctx)
		return;
	while (n > c->n_ctx / 2 &&
	    (k = qwen_messages_drop_turn(c->messages)) > 0) {
		dropped += k;
		qchat_forget_documents(c, k);
		if (qchat_prompt(c, &n, NULL) < 0)
			break;
	}
	if (dropped > 0)
		cli_note("the context is full: the oldest %zu messages are "
		    "dropped, %zu tokens stay", dropped, n);
}

/* Warn that the conversation exceeds the model's context or the memory. */
static void
warn_too_long(const struct qchat *c, size_t n)
{
	size_t most = qwen_model_n_ctx(c->model);

	if (n >= most)
		warn("the conversation has %zu tokens, the model's context "
		    "%zu%s", n, most, see_also());
	else
		warn("the conversation has %zu tokens, which take %.1f MiB of "
		    "memory, but %.1f are available (--mem)%s", n,
		    (double)qwen_cache_need(c->model, n + 1) / 0x1p20,
		    (double)qchat_opt.mem / 0x1p20, see_also());
}

/* Warn unless the prompt has a place for each image: 0 or -1. */
static int
check_images(const struct qchat *c)
{
	size_t i, n = 0;

	for (i = 0; i < c->n_documents - qchat_n_waiting(c); i++)
		n += (size_t)c->documents[i].is_image;
	if (n == c->n_spans)
		return 0;
	warn("the chat template has %s for %s", cli_count(c->n_spans, "place"),
	    cli_count(n, "image"));
	return -1;
}

/*
 * Generate the answer to the last message: 0, or -1 without an answer, after a
 * warning unless Ctrl-C ended it.
 */
static int
reply(struct qchat *c)
{
	enum qwen_thinking thinking;
	struct qwen_prompt *p;
	size_t n, turn;
	int32_t *ids;
	int rc = -1;

	shift(c);
	if (qchat_render(c, &p) < 0) {
		warn("%s", cli_err.msg);
		return -1;
	}
	thinking = qwen_prompt_thinking(p);
	ids = qchat_encode(c, p, &n, &turn);
	qwen_prompt_free(p);
	if (ids == NULL)
		warn("%s", cli_err.msg);
	else if (check_images(c) < 0)
		;
	else if (n >= c->n_ctx)
		warn_too_long(c, n);
	else if (qchat_read(c, ids, n, turn) == 0)
		rc = answer(c, thinking);
	free(ids);
	return rc;
}

/*
 * Report that Ctrl-C took the message back.  Drop its documents too, unless
 * they were read to the end.
 */
static void
note_taken_back(struct qchat *c)
{
	size_t have = qwen_session_n_tokens(c->session);

	if (qchat_n_waiting(c) == 0)
		cli_note("the message is taken back");
	else if (have >= c->n_document_tokens)
		cli_note("the message is taken back; its document is kept for "
		    "the next one, unless /undo or /data drops it");
	else {
		qchat_drop_documents(c);
		cli_note("the message is taken back, and its document, of "
		    "which %s are read; if you give both again, reading "
		    "continues there", cli_count(have, "token"));
	}
}

int
qchat_reply(struct qchat *c)
{
	qchat_interrupted = 0;
	if (reply(c) == 0)
		return 0;
	qchat_take_back(c);
	if (qchat_interrupted)
		note_taken_back(c);
	return -1;
}

int
qchat_turn(struct qchat *c, const char *text, size_t n)
{
	if (qwen_utf8_check(text, n) < n) {
		warn("the input is not UTF-8");
		return -1;
	}
	qchat_say_with_documents(c, text, n);
	c->n_retries = 0;
	return qchat_reply(c);
}
