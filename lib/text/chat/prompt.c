/* SPDX-License-Identifier: ISC */
/* prompt.c - a rendered prompt: its text, turns and tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"

void
qwen_prompt_free(struct qwen_prompt *p)
{
	if (p == NULL)
		return;
	free(p->s);
	free(p->own);
	free(p);
}

struct qwen_str
qwen_prompt_text(const struct qwen_prompt *p)
{
	struct qwen_str s = { p->n > 0 ? p->s : "", p->n };

	return s;
}

const unsigned char *
qwen_prompt_own(const struct qwen_prompt *p)
{
	return p->n > 0 ? p->own : qwen_chat_all_own;
}

/* Returns 1 if the template wrote all of s at i. */
static int
wrote(const struct qwen_prompt *p, size_t i, const char *s)
{
	size_t n = strlen(s);

	return n <= p->n - i && memcmp(p->s + i, s, n) == 0 &&
	    memchr(p->own + i, 0, n) == NULL;
}

size_t
qwen_prompt_turn(const struct qwen_prompt *p, size_t from)
{
	const char *at;
	size_t i;

	for (i = from; i < p->n; i++) {
		at = memchr(p->s + i, '<', p->n - i);
		if (at == NULL)
			break;
		i = (size_t)(at - p->s);
		if (wrote(p, i, "<|im_start|>"))
			return i;
	}
	return p->n;
}

enum qwen_thinking
qwen_prompt_thinking(const struct qwen_prompt *p)
{
	size_t n = p->n;

	if (p->continues)
		return p->thinking;
	while (n > 0 && (p->s[n - 1] == '\n' || p->s[n - 1] == ' '))
		n--;
	if (n >= 8 && wrote(p, n - 8, "</think>"))
		return QWEN_THINKING_CLOSED;
	if (n >= 7 && wrote(p, n - 7, "<think>"))
		return QWEN_THINKING_OPEN;
	return QWEN_THINKING_NONE;
}

int
qwen_prompt_continues(const struct qwen_prompt *p)
{
	return p->continues;
}

int
qwen_prompt_repaired(const struct qwen_prompt *p)
{
	return p->repaired;
}

int
qwen_prompt_encode(const struct qwen_prompt *p, const struct qwen_tok *tok,
    size_t from, size_t to, int32_t **ids, size_t *n_ids,
    struct qwen_err *err)
{
	return qwen_tok_encode_trusted(tok, qwen_prompt_text(p).s + from,
	    qwen_prompt_own(p) + from, to - from, ids, n_ids, err);
}
