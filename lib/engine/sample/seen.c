/* SPDX-License-Identifier: ISC */
/* seen.c - a list of tokens that grows. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/sample/seen.h"

int
qwen_seen_add(struct qwen_seen *s, int32_t token)
{
	size_t cap = s->cap * 2 + 64, bytes;
	int32_t *p;

	if (s->n == s->cap) {
		if (qwen_mul(cap, sizeof *p, &bytes) < 0 ||
		    (p = realloc(s->token, bytes)) == NULL)
			return -1;
		s->token = p;
		s->cap = cap;
	}
	s->token[s->n++] = token;
	return 0;
}

size_t
qwen_seen_from(const struct qwen_seen *s, int64_t last)
{
	return last >= 0 && s->n > (uint64_t)last ? s->n - (size_t)last : 0;
}
