/* SPDX-License-Identifier: ISC */
/*
 * untagged.c - calls that can be decided only at the end of a reply: an answer
 * that consists only of JSON, and calls in a thought that has no end tag.
 */
#include <string.h>

#include "base/err.h"
#include "text/chat/reply.h"

enum { INFO_MAX = 20 };		/* bytes of the word after ``` */

static const char end_tag[] = "</tool_call>", open_tag[] = "<tool_call>";

/* ------------------------------------------------------------------ answers */

/* It is not a call: treat it as content. */
static int
release(struct qwen_reply *r)
{
	qwen_text_fini(&r->untagged.items);
	r->state = CHAT_REPLY_CONTENT;
	return 1;
}

/*
 * A string of the object has ended: returns 1 if the object may still be a
 * call.  So other JSON is held back only at its beginning.
 */
static int
may_be(struct qwen_reply *r, const char *s, size_t n)
{
	struct chat_untagged *b = &r->untagged;

	if (++b->n_strings == 1) {
		b->named = n == 4 && memcmp(s, "name", 4) == 0;
		return qwen_chat_call_key(s, n) != 0;
	}
	return b->n_strings > 2 || !b->named ||
	    qwen_chat_tool(r, s, n) != NULL;
}

/* Scans an object or a list: 1 complete, 0 more is needed, -1 not a call. */
static int
item(struct qwen_reply *r)
{
	struct chat_untagged *b = &r->untagged;
	int rc, was;

	while (b->at < r->text.len) {
		was = b->json.in_string;
		/* a list must contain objects */
		if (!was && b->json.depth == 1 && r->text.s[b->begin] == '[' &&
		    strchr(" \t\r\n,{]", r->text.s[b->at]) == NULL)
			return -1;
		rc = qwen_chat_json_byte(&b->json,
		    (unsigned char)r->text.s[b->at], 0);
		b->at++;
		if (!was && b->json.in_string)
			b->string = b->at;
		if (rc < 0 || (was && !b->json.in_string && b->n_strings < 2 &&
		    !may_be(r, r->text.s + b->string,
		    b->at - 1 - b->string)))
			return -1;
		if (rc > 0)
			return 1;
	}
	return 0;
}

/* Adds a complete item to the list. */
static int
keep(struct qwen_reply *r)
{
	struct chat_untagged *b = &r->untagged;

	qwen_text_str(&b->items, b->items.n > 0 ? "," : "[");
	qwen_text_add(&b->items, r->text.s + b->begin, b->at - b->begin);
	b->in_item = 0;
	return b->items.failed ? qwen_oom(r->err) : 1;
}

/* Parses ``` and a word: 1 after it, 0 more is needed, -1 no fence of JSON. */
static int
fence(struct qwen_reply *r, int final)
{
	struct chat_untagged *b = &r->untagged;
	const char *s = r->text.s;
	size_t i = b->at + 3, n = r->text.len;

	if (b->fence == 1) {
		b->fence = 2;
		b->at += 3;
		return 1;
	}
	while (i < n && i < b->at + 3 + INFO_MAX && ((s[i] >= 'a' &&
	    s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_'))
		i++;
	if (i == n)
		return final ? -1 : 0;
	if (!chat_is_blank(s[i]) && s[i] != '{' && s[i] != '[')
		return -1;
	b->fence = 1;
	b->at = i;
	return 1;
}

/*
 * Parses between items; returns like qwen_chat_untagged, -1 if out of memory.
 * *text: it is content.
 */
static int
between(struct qwen_reply *r, int final, int *text)
{
	struct chat_untagged *b = &r->untagged;
	const char *s = r->text.s;
	size_t n;
	int is;

	b->at = chat_skip_blanks(s, r->text.len, b->at);
	n = r->text.len - b->at;
	if (n == 0)
		return 0;
	s += b->at;
	if (*s == ',' && b->items.n > 0) {
		b->at++;
		return 1;
	}
	if ((*s == '{' || *s == '[') && b->fence != 2) {
		if (n == 1 && !final)
			return 0;
		/* of doubled braces, parse the inner one */
		b->doubled = n > 1 && *s == '{' && s[1] == '{';
		b->at += (size_t)b->doubled;
		b->begin = b->at;
		b->in_item = 1;
		b->n_strings = 0;
		memset(&b->json, 0, sizeof b->json);
		return 1;
	}
	if (*s == '}' && b->doubled) {
		b->doubled = 0;
		b->at++;
		return 1;
	}
	is = chat_begins(s, n, "```");
	if (is == 1) {
		is = fence(r, final);
		*text = is < 0;
		return is > 0;
	}
	if (is == 0 && b->items.n > 0) {
		is = chat_begins(s, n, end_tag);
		b->at += is == 1 ? sizeof end_tag - 1 : 0;
	}
	*text = is == 0 || (is < 0 && final);
	return is == 1;
}

/* Decides at the end of the reply. */
static int
decide(struct qwen_reply *r)
{
	struct chat_untagged *b = &r->untagged;
	int rc = 0;

	if (!r->cut && b->items.n > 0 && !b->in_item) {
		qwen_text_str(&b->items, "]");
		if (b->items.failed)
			return qwen_oom(r->err);
		rc = qwen_chat_json_calls(r, b->items.s, b->items.n,
		    CHAT_LOOSE | CHAT_NEEDS_ARGS | CHAT_ITEMS);
	}
	if (rc > 0)
		qwen_reply_drop(r, r->text.len);
	return rc < 0 ? -1 : release(r);
}

int
qwen_chat_untagged(struct qwen_reply *r, int final)
{
	struct chat_untagged *b = &r->untagged;
	int rc = 1, text = !r->has_tools || r->opts.strict;

	while (rc > 0 && !text) {
		if (!b->in_item) {
			rc = between(r, final, &text);
			continue;
		}
		rc = item(r);
		text = rc < 0;
		if (rc > 0)
			rc = keep(r);
	}
	return text ? release(r) : rc < 0 ? -1 : final ? decide(r) : 0;
}

/* ----------------------------------------------------------------- thoughts */

/* Passes the text up to r->thought_at to the thought. */
static int
pass_thought(struct qwen_reply *r)
{
	size_t n = r->thought_at;

	r->thought_at = 0;
	r->in_thought_call = 0;
	r->state = CHAT_REPLY_THOUGHT;
	return qwen_reply_pass(r, &r->reasoning, n) < 0 ? -1 : 1;
}

/*
 * Searches the end of a call: 1 found; 0 more is needed; -1 the thought ends
 * first.
 */
static int
find_call_end(struct qwen_reply *r)
{
	const char *s;
	size_t n;
	int is;

	while ((s = memchr(r->text.s + r->thought_at, '<',
	    r->text.len - r->thought_at)) != NULL) {
		r->thought_at = (size_t)(s - r->text.s);
		n = r->text.len - r->thought_at;
		is = chat_begins(s, n, "</think>");
		if (is == 1)
			return -1;
		if (is == 0 && (is = chat_begins(s, n, end_tag)) == 1) {
			r->thought_at += sizeof end_tag - 1;
			return 1;
		}
		if (is < 0)
			return 0;
		r->thought_at++;
	}
	r->thought_at = r->text.len;
	return 0;
}

/*
 * A call in a thought counts only if it ends the reply and the thought has no
 * end tag: the model forgot that tag.  Else the call is part of the thought.
 */
int
qwen_chat_thought_call(struct qwen_reply *r, int final)
{
	int is;

	for (;;) {
		if (r->in_thought_call) {
			is = find_call_end(r);
			if (is < 0)
				return pass_thought(r);
			if (is == 0)
				break;
			r->in_thought_call = 0;
		}
		r->thought_at = chat_skip_blanks(r->text.s, r->text.len,
		    r->thought_at);
		if (r->thought_at == r->text.len)
			break;
		is = chat_begins(r->text.s + r->thought_at,
		    r->text.len - r->thought_at, open_tag);
		if (is == 0 || (is < 0 && final))
			return pass_thought(r);
		if (is < 0)
			return 0;
		r->thought_at += sizeof open_tag - 1;
		r->in_thought_call = 1;
	}
	if (!final)
		return 0;
	if (r->in_thought_call || r->cut) {
		r->thought_at = r->text.len;
		return pass_thought(r);
	}
	r->thought_at = 0;
	r->state = CHAT_REPLY_CALL;
	return 1;
}
