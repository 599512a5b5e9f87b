/* SPDX-License-Identifier: ISC */
/*
 * answer.c - an answer while it is generated: its text up to its end; for a
 * chat, thoughts, tool calls and content; the log-probabilities of its tokens.
 */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/request/form.h"

/* ------------------------------------------------------------ probabilities */

/* "token": "...", "logprob": ..., "bytes": [...] */
static void
chat_token(struct qwen_text *t, struct qwen_str s, double logprob)
{
	size_t i;

	qwen_json_put(t, "'token':%pS,'logprob':%.8g,'bytes':[", &s, logprob);
	for (i = 0; i < s.len; i++)
		qwen_json_put(t, ",%u", (unsigned)(unsigned char)s.s[i]);
	qwen_text_str(t, "]");
}

/*
 * The element of a list in OpenAI's chat form, for answers that are not chats;
 * /completion of llama.cpp adds the id.  The plain form has no bytes.
 */
static void
add_token(struct qwen_answer *a, const struct qwen_likely *c)
{
	struct qwen_str s = qwen_form_spell(a->request->service, c->id);
	enum qwen_form form = a->request->form;

	qwen_json_put(&a->logprobs, ",{");
	if (form == QWEN_FORM_PLAIN || form == QWEN_FORM_LLAMA)
		qwen_json_put(&a->logprobs, "'id':%ld,", (long)c->id);
	if (form == QWEN_FORM_PLAIN)
		qwen_json_put(&a->logprobs, "'token':%pS,'logprob':%.8g", &s,
		    c->logprob);
	else
		chat_token(&a->logprobs, s, c->logprob);
}

/* Adds an element with a nested list of the most likely tokens. */
static void
nested(struct qwen_answer *a, const struct qwen_likely *c,
    const struct qwen_likely *top, size_t n_top)
{
	size_t i;

	add_token(a, c);
	qwen_json_put(&a->logprobs, a->request->form == QWEN_FORM_PLAIN ?
	    ",'top':[" : ",'top_logprobs':[");
	for (i = 0; i < n_top; i++) {
		add_token(a, &top[i]);
		qwen_text_str(&a->logprobs, "}");
	}
	qwen_text_str(&a->logprobs, "]}");
}

/* Adds to the four parallel lists of a completion. */
static void
side_by_side(struct qwen_answer *a, const struct qwen_likely *c,
    const struct qwen_likely *top, size_t n_top)
{
	const struct qwen_service *service = a->request->service;
	struct qwen_str s = qwen_form_spell(service, c->id);
	size_t i;

	qwen_json_put(&a->lp_tokens, ",%pS", &s);
	qwen_json_put(&a->lp_offset, ",%zu", a->n_chars);
	if (isnan(c->logprob)) {
		qwen_json_put(&a->logprobs, ",null");
		qwen_json_put(&a->lp_top, ",null");
		return;
	}
	qwen_json_put(&a->logprobs, ",%.8g", c->logprob);
	qwen_json_put(&a->lp_top, ",{");
	for (i = 0; i < n_top; i++) {
		s = qwen_form_spell(service, top[i].id);
		qwen_json_put(&a->lp_top, ",%pS:%.8g", &s, top[i].logprob);
	}
	qwen_text_str(&a->lp_top, "}");
}

static size_t
characters(struct qwen_str s)
{
	size_t i, n = 0;

	for (i = 0; i < s.len; i++)
		n += ((unsigned char)s.s[i] & 0xc0) != 0x80;
	return n;
}

/* ------------------------------------------------- probabilities of a chat */

/*
 * Adds a token to those whose log-probabilities are not decided.  The list of a
 * chat has only tokens of its content, not of thoughts, calls and the ending
 * token.  Which tokens are content is known only after the reply is parsed.
 */
static int
add_pending(struct qwen_answer *a, const struct qwen_likely *c,
    const struct qwen_likely *top, size_t n_top, struct qwen_err *err)
{
	struct qwen_text *t = &a->lp_top;
	struct qwen_pending_token *p;
	size_t i;

	if (a->first_pending == a->n_pending)
		a->first_pending = a->n_pending = t->n = 0;
	if (qwen_grow(&a->pending, &a->cap_pending, a->n_pending + 1,
	    sizeof *p) < 0)
		return qwen_oom(err);
	p = &a->pending[a->n_pending++];
	*p = (struct qwen_pending_token){ .likely = *c, .top = t->n };
	for (i = 0; i < n_top; i++) {
		qwen_text_str(t, i > 0 ? ",{" : "{");
		chat_token(t, qwen_form_spell(a->request->service, top[i].id),
		    top[i].logprob);
		qwen_text_str(t, "}");
	}
	p->n_top = t->n - p->top;
	return 0;
}

/*
 * Assigns the text that the last token completed to this token and to the
 * tokens before it that began its first character.  Drops a token without text.
 */
static void
place_text(struct qwen_answer *a, struct qwen_str piece)
{
	size_t i = a->n_pending;
	struct qwen_str s;

	if (i == a->first_pending || a->pending[i - 1].to > 0)
		return;
	if (piece.len == 0) {
		s = qwen_form_spell(a->request->service,
		    a->pending[i - 1].likely.id);
		if (s.len == 0 || (unsigned char)s.s[0] < 0x80)
			a->n_pending--;
		return;
	}
	for (; i > a->first_pending && a->pending[i - 1].to == 0; i--) {
		a->pending[i - 1].from = a->n_bytes;
		a->pending[i - 1].to = a->n_bytes + piece.len;
	}
	a->n_bytes += piece.len;
}

/*
 * Moves the first undecided token to logprobs; in a chat, with only those of
 * its bytes that are content, if its bytes are known.
 */
static void
emit_first(struct qwen_answer *a)
{
	struct qwen_pending_token *p = &a->pending[a->first_pending++];
	struct qwen_str s = qwen_form_spell(a->request->service, p->likely.id);
	struct qwen_text *t = &a->logprobs;

	if (a->request->form == QWEN_FORM_CHAT && s.len == p->to - p->from) {
		s.s += p->kept - p->from;
		s.len = p->kept_to - p->kept;
	}
	qwen_json_put(t, ",{");
	chat_token(t, s, p->likely.logprob);
	qwen_json_put(t, ",'top_logprobs':[");
	if (p->n_top > 0)
		qwen_text_add(t, a->lp_top.s + p->top, p->n_top);
	qwen_text_str(t, "]}");
}

/* Marks bytes of the reply as content or as a thought. */
static void
mark_pending(struct qwen_answer *a, size_t from, size_t n, int is_content)
{
	struct qwen_pending_token *p;
	size_t to = from + n;

	while (a->first_pending < a->n_pending &&
	    (p = &a->pending[a->first_pending])->to > 0 && p->from < to) {
		if (p->to > from && is_content) {
			if (p->kept_to == 0)
				p->kept = from > p->from ? from : p->from;
			p->kept_to = to < p->to ? to : p->to;
		}
		if (p->to > to && a->request->form == QWEN_FORM_CHAT)
			break;		/* the token may have more content */
		if (p->kept_to > 0)
			emit_first(a);
		else if (p->to <= to)
			a->first_pending++;
		else
			break;
	}
}

/* Content has ended: decide the first token. */
static void
finish_pending(struct qwen_answer *a)
{
	if (a->first_pending < a->n_pending &&
	    a->pending[a->first_pending].kept_to > 0)
		emit_first(a);
}

/* -------------------------------------------------------------------- text */

/* The text of all blocks of this kind. */
static struct qwen_text *
text_of(struct qwen_answer *a, enum qwen_block_kind kind)
{
	return kind == QWEN_BLOCK_CALL ? &a->calls :
	    kind == QWEN_BLOCK_TEXT ? &a->text : &a->reasoning;
}

/* Appends to the last block if it is of this kind, else begins a block. */
static int
add_text(struct qwen_answer *a, enum qwen_block_kind kind, struct qwen_str s,
    struct qwen_err *err)
{
	struct qwen_text *t = text_of(a, kind);
	struct qwen_block *b;

	if (s.len == 0)
		return 0;
	if (a->n_blocks == 0 || a->block[a->n_blocks - 1].kind != kind ||
	    kind == QWEN_BLOCK_CALL) {
		if (qwen_grow(&a->block, &a->cap_blocks, a->n_blocks + 1,
		    sizeof *a->block) < 0)
			return qwen_oom(err);
		a->block[a->n_blocks] = (struct qwen_block){
			.kind = kind, .from = t->n,
			.lp_from = a->logprobs.n, .lp_to = a->logprobs.n,
		};
		a->n_blocks++;
	}
	qwen_text_add(t, s.s, s.len);
	if (t->failed)
		return qwen_oom(err);
	b = &a->block[a->n_blocks - 1];
	b->n += s.len;
	return 0;
}

static int
add_call(struct qwen_answer *a, const struct qwen_reply_event *e,
    struct qwen_err *err)
{
	struct qwen_block *p;
	size_t n;

	/* one piece of text may complete several calls */
	if (a->request->one_call && a->n_calls > 0)
		return 0;
	if (add_text(a, QWEN_BLOCK_CALL, e->name, err) < 0)
		return -1;
	n = a->calls.n;
	/* if a client sends the call back, the model reads its own tokens */
	qwen_json_spaced(&a->calls, e->text);
	if (a->calls.failed)
		return qwen_oom(err);
	p = &a->block[a->n_blocks - 1];
	p->n_name = e->name.len;
	p->n += a->calls.n - n;
	p->cut = e->cut;
	a->n_calls++;
	return 0;
}

static int
on_event(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	struct qwen_answer *a = arg;

	if (e->kind == QWEN_REPLY_CALL)
		return add_call(a, e, err);
	if (e->kind == QWEN_REPLY_REASONING) {
		a->n_thought = a->n;
		mark_pending(a, e->at, e->text.len, 0);
		return add_text(a, QWEN_BLOCK_REASONING, e->text, err);
	}
	if (add_text(a, QWEN_BLOCK_TEXT, e->text, err) < 0)
		return -1;
	mark_pending(a, e->at, e->text.len, 1);
	a->block[a->n_blocks - 1].lp_to = a->logprobs.n;
	return 0;
}

/* Creates what the text passes through, at the first token. */
static int
begin_answer(struct qwen_answer *a, struct qwen_err *err)
{
	const struct qwen_request *q = a->request;
	struct qwen_reply_opts o = {
		.thinking = q->thinking, .continues = q->continues,
		.tools = q->tools,
		.n_tools = q->n_tools, .event = on_event, .arg = a,
		/* a grammar already enforces the syntax */
		.strict = q->service->strict_calls || q->grammar != NULL,
	};
	size_t i;

	if (qwen_tok_decoder_new(&a->decoder, q->service->tok, 0, err) < 0 ||
	    (q->n_stop > 0 && qwen_stop_finder_new(&a->stop_finder, err) < 0))
		return -1;
	for (i = 0; i < q->n_stop; i++) {
		if (qwen_stop_finder_add(a->stop_finder, q->stop[i].s,
		    q->stop[i].len, err) < 0)
			return -1;
	}
	return qwen_form_is_chat(q->form) ?
	    qwen_reply_new(&a->reply, q->service->template, &o, err) : 0;
}

/* Takes text that is certainly before a stop string. */
static int
give(struct qwen_answer *a, struct qwen_str s, struct qwen_err *err)
{
	if (a->reply != NULL)
		return qwen_reply_feed(a->reply, s.s, s.len, err);
	return add_text(a, QWEN_BLOCK_TEXT, s, err);
}

static int
take_text(struct qwen_answer *a, struct qwen_str s, struct qwen_err *err)
{
	if (a->stop_finder != NULL && qwen_stop_finder_feed(a->stop_finder, &s,
	    a->n >= a->request->min, &a->at_stop, err) < 0)
		return -1;
	return give(a, s, err);
}

/* Fails if memory for log-probabilities ran out. */
static int
check(const struct qwen_answer *a, struct qwen_err *err)
{
	return a->logprobs.failed || a->lp_tokens.failed ||
	    a->lp_top.failed || a->lp_offset.failed ? qwen_oom(err) : 0;
}

int
qwen_answer_put(struct qwen_answer *a, const struct qwen_likely *token,
    const struct qwen_likely *top, size_t n_top, struct qwen_err *err)
{
	struct qwen_str piece;

	if (a->decoder == NULL && begin_answer(a, err) < 0)
		return -1;
	if (a->request->keep_ids) {
		if (qwen_grow(&a->id, &a->cap_ids, a->n + 1,
		    sizeof *a->id) < 0)
			return qwen_oom(err);
		a->id[a->n] = token->id;
	}
	a->n++;
	if (a->request->logprobs && a->reply != NULL) {
		if (add_pending(a, token, top, n_top, err) < 0)
			return -1;
	} else if (a->request->logprobs &&
	    a->request->form == QWEN_FORM_COMPLETION)
		side_by_side(a, token, top, n_top);
	else if (a->request->logprobs)
		nested(a, token, top, n_top);
	if (qwen_tok_decoder_put(a->decoder, token->id, &piece, err) < 0)
		return -1;
	if (a->request->logprobs && a->reply != NULL)
		place_text(a, piece);
	else if (a->request->logprobs)
		a->n_chars += characters(piece);
	if (take_text(a, piece, err) < 0 || check(a, err) < 0)
		return -1;
	if (a->request->n_indent > 0)
		a->outdents = qwen_infill_outdents(a);
	/* a grammar that allows one call ends the answer by itself */
	return a->at_stop || a->outdents || (a->request->one_call &&
	    a->n_calls > 0 && !a->request->ends_itself);
}

int
qwen_answer_echo(struct qwen_answer *a, const struct qwen_likely *token,
    const struct qwen_likely *top, size_t n_top, struct qwen_err *err)
{
	struct qwen_str piece;

	if (a->decoder == NULL && begin_answer(a, err) < 0)
		return -1;
	if (a->request->logprobs)
		side_by_side(a, token, top, n_top);
	if (qwen_tok_decoder_put(a->decoder, token->id, &piece, err) < 0)
		return -1;
	if (a->request->logprobs)
		a->n_chars += characters(piece);
	/* stop strings in the prompt do not count */
	return give(a, piece, err) < 0 ? -1 : check(a, err);
}

/* Takes the text held back until now, at the end of the answer. */
static int
flush(struct qwen_answer *a, int cut, struct qwen_err *err)
{
	struct qwen_str piece;

	if (a->outdents)
		return check(a, err);
	/* after a stop string no text follows */
	qwen_tok_decoder_finish(a->decoder, &piece);
	place_text(a, piece);
	if (!a->at_stop && take_text(a, piece, err) < 0)
		return -1;
	if (!a->at_stop && a->stop_finder != NULL &&
	    give(a, qwen_stop_finder_end(a->stop_finder), err) < 0)
		return -1;
	if (a->at_stop && a->request->keeps_stop && give(a,
	    a->request->stop[qwen_stop_finder_which(a->stop_finder)], err) < 0)
		return -1;
	if (a->reply != NULL && (cut && !a->at_stop ?
	    qwen_reply_cut(a->reply, err) : qwen_reply_finish(a->reply,
	    err)) < 0)
		return -1;
	finish_pending(a);
	return check(a, err);
}

int
qwen_answer_end(struct qwen_answer *a, const char *finish,
    struct qwen_err *err)
{
	int rc = a->decoder != NULL ? flush(a, strcmp(finish, "stop") != 0,
	    err) : 0;

	a->finish = a->outdents ? "length" : a->at_stop ? "stop" : finish;
	if (a->at_stop && !a->outdents)
		a->stopped =
		    &a->request->stop[qwen_stop_finder_which(a->stop_finder)];
	qwen_tok_decoder_free(a->decoder);
	qwen_stop_finder_free(a->stop_finder);
	qwen_reply_free(a->reply);
	a->decoder = NULL;
	a->stop_finder = NULL;
	a->reply = NULL;
	return rc;
}
