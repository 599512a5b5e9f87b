/* SPDX-License-Identifier: ISC */
/* what.h - the type of a file, by its first bytes, for error messages. */
#ifndef QWEN_BASE_WHAT_H
#define QWEN_BASE_WHAT_H

#include <stddef.h>

enum qwen_what {
	QWEN_IS_OTHER,
	QWEN_IS_EMPTY,
	QWEN_IS_GGUF,
	QWEN_IS_STREAM,	/* qpipe's: tokens, logits, a state */
	QWEN_IS_LFS,		/* a Git LFS pointer */
	QWEN_IS_HTML,
	QWEN_IS_JSON,
	QWEN_IS_TEXT,		/* UTF-8 without control characters */
	QWEN_IS_ZEROS,
	QWEN_IS_ZIP,		/* also PyTorch files */
	QWEN_IS_PACKED,	/* gzip, xz, zstd */
	QWEN_IS_TENSORS,	/* safetensors */
	QWEN_IS_IMAGE,		/* also of formats that qimage refuses */
};

/* Returns the type by the first n bytes (or all); some hundred are enough. */
enum qwen_what qwen_what(const void *p, size_t n);

/* Returns a name, such as "a web page"; OTHER is "something else". */
const char *qwen_what_name(enum qwen_what what);

#endif
