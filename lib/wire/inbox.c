/* SPDX-License-Identifier: ISC */
/* inbox.c - a buffer for received bytes, and the complete records in it. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "wire/engine.h"

enum { LEAST_ROOM = 1 << 12, KEPT_ROOM = 1 << 18 };

unsigned char *
qwen_inbox_reserve(struct qwen_inbox *in, size_t *n)
{
	/* free the memory of a long record */
	if (in->start == in->end && in->cap > KEPT_ROOM)
		qwen_inbox_fini(in);
	if (in->start > 0 && in->cap - in->end < LEAST_ROOM) {
		memmove(in->buf, in->buf + in->start, in->end - in->start);
		in->end -= in->start;
		in->start = 0;
	}
	if (qwen_grow(&in->buf, &in->cap, in->end + LEAST_ROOM, 1) < 0)
		return NULL;
	*n = in->cap - in->end;
	return in->buf + in->end;
}

void
qwen_inbox_added(struct qwen_inbox *in, size_t n)
{
	in->end += n;
}

static int
too_long(size_t limit, struct qwen_err *err)
{
	return qwen_fail(err, QWEN_ERANGE, "record exceeds the limit of %zu "
	    "bytes", limit);
}

int
qwen_inbox_next(struct qwen_inbox *in, size_t limit, const unsigned char **p,
    size_t *n, struct qwen_err *err)
{
	size_t have = in->end - in->start, want = 0;
	const char *why;
	int got;

	if (have == 0)
		return 0;
	*p = in->buf + in->start;
	got = qwen_cbor_scan_step(&in->span, *p, have, limit, &want, &why);
	if (got < 0)
		return qwen_fail(err, QWEN_EFORMAT, "%s", why);
	if ((got > 0 ? in->span.off : want) > limit)
		return too_long(limit, err);
	if (got == 0)
		return 0;
	*n = in->span.off;
	in->start += *n;
	in->span = (struct qwen_cbor_scan){ 0 };
	return 1;
}

int
qwen_inbox_line(struct qwen_inbox *in, size_t limit, const unsigned char **p,
    size_t *n, struct qwen_err *err)
{
	size_t have = in->end - in->start;
	const unsigned char *end;

	/* bytes before span.off were searched and have no line feed */
	if (have <= in->span.off)
		return 0;
	*p = in->buf + in->start;
	end = memchr(*p + in->span.off, '\n', have - in->span.off);
	in->span.off = end == NULL ? have : 0;
	if ((end != NULL ? (size_t)(end - *p) : have) > limit)
		return too_long(limit, err);
	if (end == NULL)
		return 0;
	*n = (size_t)(end - *p);
	in->start += *n + 1;
	return 1;
}

void
qwen_inbox_fini(struct qwen_inbox *in)
{
	free(in->buf);
	memset(in, 0, sizeof *in);
}
