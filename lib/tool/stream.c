/* SPDX-License-Identifier: ISC */
/* stream.c - records to a descriptor. */
#include "tool/tool.h"

struct qwen_writer *
tool_writer(int fd, enum qwen_format format)
{
	struct qwen_writer_opts o = { .format = format };
	struct qwen_writer *w;

	cli_must(NULL, qwen_writer_open(&w, fd, &o, &cli_err));
	return w;
}
