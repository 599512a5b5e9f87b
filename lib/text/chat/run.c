/* SPDX-License-Identifier: ISC */
/* run.c - what all parts of a run use: errors, limits, memory, variables. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"

int
qwen_chat_fail(struct chat_exec *r, const char *fmt, ...)
{
	char what[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (!r->failed) {
		r->eval_error = 1;
		qwen_fail(r->err, QWEN_EFORMAT, "chat template, line %u: %s",
		    r->line, what);
	}
	r->failed = 1;
	return -1;
}

int
qwen_chat_refuse(struct chat_exec *r, const char *what)
{
	if (!r->failed)
		qwen_fail(r->err, QWEN_EFORMAT, "%s", what);
	r->failed = 1;
	return -1;
}

int
qwen_chat_limit(struct chat_exec *r, const char *what)
{
	if (!r->failed)
		qwen_fail(r->err, QWEN_ERANGE, "chat template, line %u: over "
		    "the limit of %s", r->line, what);
	r->failed = 1;
	return -1;
}

int
qwen_chat_oom(struct chat_exec *r)
{
	if (!r->failed)
		qwen_oom(r->err);
	r->failed = 1;
	return -1;
}

int
qwen_chat_step(struct chat_exec *r, uint64_t n)
{
	if (n > r->steps_max - r->steps) {
		r->steps = r->steps_max;
		return qwen_chat_limit(r, "steps");
	}
	r->steps += n;
	return r->failed ? -1 : 0;
}

void *
qwen_chat_new(struct chat_exec *r, size_t n, size_t size)
{
	void *p = qwen_chat_alloc(&r->mem, n, size);

	if (p == NULL && r->mem.no_memory)
		qwen_chat_oom(r);
	else if (p == NULL)
		qwen_chat_limit(r, "memory");
	return p;
}

int
qwen_chat_more(struct chat_exec *r, void *array, size_t n, size_t *cap,
    size_t size)
{
	size_t more = n < 4 ? 4 : 2 * n;
	void *new, *old;

	if (n < *cap)
		return 0;
	if ((new = qwen_chat_new(r, more, size)) == NULL)
		return -1;
	/* the pointer may have any type, so copy its bytes */
	memcpy(&old, array, sizeof old);
	if (n > 0)
		memcpy(new, old, n * size);
	memcpy(array, &new, sizeof new);
	*cap = more;
	return 0;
}

/* --------------------------------------------------------------- variables */

const struct chat_value *
qwen_chat_get(struct chat_exec *r, const char *name)
{
	const struct chat_scope *s;
	uint64_t work = 0;
	size_t i;

	for (s = r->scope; s != NULL; s = s->up) {
		work += 1 + s->n;
		for (i = s->n; i-- > 0; ) {
			if (strcmp(s->var[i].name, name) != 0)
				continue;
			qwen_chat_step(r, work / 8);
			return &s->var[i].v;
		}
	}
	qwen_chat_step(r, work / 8);
	return NULL;
}

void
qwen_chat_set(struct chat_exec *r, const char *name, struct chat_value v)
{
	struct chat_scope *s = r->scope;
	size_t i;

	for (i = 0; i < s->n && strcmp(s->var[i].name, name) != 0; i++)
		;
	if (i == s->n) {
		if (qwen_chat_more(r, &s->var, s->n, &s->cap,
		    sizeof *s->var) < 0)
			return;
		s->var[s->n++].name = name;
	}
	s->var[i].v = v;
	qwen_chat_step(r, 1 + i / 8);
}
