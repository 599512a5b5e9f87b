/* SPDX-License-Identifier: ISC */
/* what.h - what a file is, by its first bytes, to say so where it is refused. */
#ifndef QWEN_BASE_WHAT_H
#define QWEN_BASE_WHAT_H

#include <stddef.h>

enum qwen_what {
	QWEN_IS_OTHER,
	QWEN_IS_EMPTY,
	QWEN_IS_GGUF,
	QWEN_IS_STREAM,	/* ours: tokens, logits, a state */
	QWEN_IS_LFS,		/* a pointer of Git LFS */
	QWEN_IS_HTML,
	QWEN_IS_JSON,
	QWEN_IS_TEXT,		/* UTF-8 without control characters */
	QWEN_IS_ZEROS,
	QWEN_IS_ZIP,		/* what PyTorch writes, too */
	QWEN_IS_PACKED,	/* gzip, xz, zstd */
	QWEN_IS_TENSORS,	/* safetensors */
};

/* Of the first n bytes, which may be all; some hundred are enough. */
enum qwen_what qwen_what(const void *p, size_t n);

/* "a web page"; of OTHER "something else". */
const char *qwen_what_name(enum qwen_what what);

#endif
