/* SPDX-License-Identifier: ISC */
/* stream.c - opening record writers, and recognising input that is not text. */
#include <string.h>

#include "base/what.h"
#include "tool/tool.h"

struct qwen_writer *
tool_writer(int fd, enum qwen_format format)
{
	struct qwen_writer_opts o = { .format = format };
	struct qwen_writer *w;

	cli_must(NULL, qwen_writer_open(&w, fd, &o, &cli_err));
	return w;
}

int
tool_read_ids(int fd, const struct qwen_reader_opts *o, size_t need,
    int32_t **ids, size_t *n, struct qwen_err *err)
{
	struct qwen_reader *r;
	struct qwen_record rec;
	size_t cap = 0;
	int got = 1;

	*ids = NULL;
	*n = 0;
	if (qwen_reader_open(&r, fd, o, err) < 0)
		return -1;
	while (*n < need && (got = qwen_reader_next(r, &rec, err)) > 0) {
		if (rec.kind != QWEN_REC_TOKENS || rec.n == 0)
			continue;
		cli_grow(ids, &cap, *n + rec.n, sizeof **ids);
		memcpy(*ids + *n, rec.ids, rec.n * sizeof **ids);
		*n += rec.n;
	}
	qwen_reader_close(r);
	return got < 0 ? -1 : 0;
}

enum { LOOK = 512 };		/* bytes that are searched for a 0 */

const char *
tool_not_text(const void *p, size_t n, int nuls)
{
	enum qwen_what what = qwen_what(p, n);

	switch (what) {
	case QWEN_IS_GGUF:
	case QWEN_IS_STREAM:
	case QWEN_IS_ZIP:
	case QWEN_IS_PACKED:
	case QWEN_IS_TENSORS:
	case QWEN_IS_IMAGE:
		return qwen_what_name(what);
	default:
		return !nuls && n > 0 && memchr(p, 0, n < LOOK ? n : LOOK) !=
		    NULL ? "a binary file" : NULL;
	}
}
