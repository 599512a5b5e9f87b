/* SPDX-License-Identifier: ISC */
/*
 * continue.c - a last message of the assistant that the reply continues.  The
 * template gets this message with a mark at its end, and the prompt ends where
 * the template wrote the mark.
 */
#include <string.h>

#include "text/chat/request.h"

/* If its last space is missing, the template trims texts. */
static const char mark[] = "qwen-continues-here ";
#define NAME "continue_final_message: "
static const char think[] = "<think>", end_think[] = "</think>";

/* Returns the text with the mark appended. */
static struct chat_value
marked(struct chat_exec *r, const struct chat_text *text)
{
	struct chat_buf b = { 0 };

	qwen_chat_put(r, &b, text);
	qwen_chat_put_str(r, &b, mark);
	return qwen_chat_buf_value(r, &b);
}

/*
 * Returns 1 for a message of the assistant without calls whose content is text.
 */
static int
is_open(struct chat_exec *r, struct chat_value *m, struct chat_text *text)
{
	struct chat_value *v, *calls = qwen_chat_key(r, m->u.d, "tool_calls");

	*text = chat_literal("");
	if (!chat_is_text(qwen_chat_key(r, m->u.d, "role"), "assistant") ||
	    (calls != NULL && calls->type == CHAT_LIST && calls->u.l.n > 0))
		return 0;
	v = qwen_chat_key(r, m->u.d, "content");
	if (chat_missing(v))
		return 1;
	if (v->type == CHAT_LIST)
		qwen_chat_join_parts(r, v, "");
	if (v->type == CHAT_TEXT)
		*text = v->u.s;
	return v->type == CHAT_TEXT;
}

/*
 * If the text begins with <think> and has no </think>, returns the offset after
 * <think>; else 0.
 */
static size_t
open_thought(struct chat_exec *r, const struct chat_text *text)
{
	struct chat_text end = chat_literal(end_think);
	struct chat_text rest = qwen_chat_strip(r, text, NULL, 1);

	if (rest.n < sizeof think - 1 ||
	    memcmp(rest.s, think, sizeof think - 1) != 0 ||
	    qwen_chat_search(r, text, &end, 0) <= text->n)
		return 0;
	return text->n - rest.n + sizeof think - 1;
}

/* Puts the mark where the reply continues: in the text, or in the thought. */
static void
put_mark(struct qwen_chat_request *q, struct chat_exec *r,
    struct chat_value *m, struct chat_text text)
{
	struct chat_value *thought =
	    qwen_chat_key(r, m->u.d, "reasoning_content");
	size_t begin = open_thought(r, &text);
	int has_thought = thought != NULL && thought->type == CHAT_TEXT &&
	    thought->u.s.n > 0;
	int knows = r->t->thinks &&
	    qwen_template_names(r->t, "reasoning_content");

	q->thinking = QWEN_THINKING_CLOSED;
	if (knows && ((begin > 0 && !has_thought) ||
	    (has_thought && text.n == 0))) {
		q->thinking = QWEN_THINKING_OPEN;
		text = begin > 0 ? chat_slice(&text, begin, text.n) :
		    thought->u.s;
		qwen_chat_put_key(r, m->u.d, "reasoning_content",
		    marked(r, &text));
		qwen_chat_put_key(r, m->u.d, "content", chat_cstr(""));
	} else
		qwen_chat_put_key(r, m->u.d, "content", marked(r, &text));
}

int
qwen_chat_continue(struct qwen_chat_request *q, struct chat_exec *r)
{
	struct chat_list *l = &q->messages->u.l;
	struct chat_value *m = &l->v[l->n - 1], *thought;
	int asked = q->continue_final != NULL &&
	    qwen_chat_true(*q->continue_final), open;
	struct chat_text text;

	if (!chat_missing(q->continue_final) &&
	    q->continue_final->type != CHAT_BOOL)
		return qwen_chat_refuse(r, NAME "is not true or false");
	if (asked && q->add_prompt != NULL && qwen_chat_true(*q->add_prompt))
		return qwen_chat_refuse(r, NAME "cannot be true together "
		    "with add_generation_prompt");
	if (!asked && (q->continue_final != NULL || q->add_prompt != NULL))
		return 0;
	open = is_open(r, m, &text);
	if (asked && !open)
		return qwen_chat_refuse(r, NAME "the last message is not a "
		    "text message of the assistant");
	if (!open || r->failed)
		return r->failed ? -1 : 0;
	thought = qwen_chat_key(r, m->u.d, "reasoning_content");
	if (!asked && qwen_chat_strip(r, &text, NULL, 3).n == 0 &&
	    (thought == NULL || thought->type != CHAT_TEXT ||
	    thought->u.s.n == 0)) {
		/* nothing to continue: drop the message and begin a new turn */
		l->n -= l->n > 1;
		return r->failed ? -1 : 0;
	}
	qwen_chat_set(r, "add_generation_prompt", chat_bool(0));
	q->continues = 1;
	put_mark(q, r, m, text);
	return r->failed ? -1 : 0;
}

int
qwen_chat_cut(const struct qwen_chat_request *q, struct chat_exec *r)
{
	struct chat_buf *b = r->out;
	const size_t n = sizeof mark - 2;	/* without the space */
	size_t at = b->n;
	int trimmed;

	if (!q->continues)
		return 0;
	while (at >= n && (memcmp(b->s + at - n, mark, n) != 0 ||
	    b->origin[at - n] != 0))
		at--;
	if (at < n)
		return qwen_chat_refuse(r, NAME "the template changes the text "
		    "of the last message");
	trimmed = at == b->n || b->s[at] != ' ' || b->origin[at] != 0;
	for (at -= n; trimmed && at > 0 && b->origin[at - 1] == 0 &&
	    strchr(" \t\r\n", b->s[at - 1]) != NULL; at--)
		;
	b->n = at;
	return 0;
}
