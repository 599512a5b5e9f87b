/* SPDX-License-Identifier: ISC */
/* seen.c - a growing list of tokens. */
#include "base/mem.h"
#include "engine/sample/seen.h"

int
qwen_seen_add(struct qwen_seen *s, int32_t token)
{
	/* grow rarely, by 256 tokens or more */
	if (s->n == s->cap && qwen_grow(&s->token, &s->cap, s->n + 256,
	    sizeof *s->token) < 0)
		return -1;
	s->token[s->n++] = token;
	return 0;
}

size_t
qwen_seen_from(const struct qwen_seen *s, int64_t last)
{
	return last >= 0 && s->n > (uint64_t)last ? s->n - (size_t)last : 0;
}
