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
		return qwen_what_name(what);
	default:
		return !nuls && n > 0 && memchr(p, 0, n < LOOK ? n : LOOK) !=
		    NULL ? "a binary file" : NULL;
	}
}
