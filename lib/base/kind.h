/* SPDX-License-Identifier: ISC */
/* kind.h - what a file is, by its first bytes, to say so where it is refused. */
#ifndef QWEN_BASE_KIND_H
#define QWEN_BASE_KIND_H

#include <stddef.h>

enum qwen_kind {
	QWEN_KIND_OTHER,
	QWEN_KIND_EMPTY,
	QWEN_KIND_GGUF,
	QWEN_KIND_STREAM,	/* ours: tokens, logits, a state */
	QWEN_KIND_LFS,		/* a pointer of Git LFS */
	QWEN_KIND_HTML,
	QWEN_KIND_JSON,
	QWEN_KIND_TEXT,		/* UTF-8 without control characters */
	QWEN_KIND_ZEROS,
	QWEN_KIND_ZIP,		/* what PyTorch writes, too */
	QWEN_KIND_PACKED,	/* gzip, xz, zstd, bzip2 */
	QWEN_KIND_TENSORS,	/* safetensors */
};

/* Of the first n bytes, which may be all; some hundred are enough. */
enum qwen_kind qwen_kind_of(const void *p, size_t n);

/* "a web page"; of OTHER "something else". */
const char *qwen_kind_name(enum qwen_kind kind);

#endif
