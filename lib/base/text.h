/* SPDX-License-Identifier: ISC */
/* text.h - growing strings. */
#ifndef QWEN_BASE_TEXT_H
#define QWEN_BASE_TEXT_H

#include "qwen/base.h"

/*
 * Initially zero.  If memory runs out, failed is set and nothing more is added:
 * check it once, at the end. s is NUL-terminated, for free(); NULL while
 * nothing was added.
 */
struct qwen_text {
	char	*s;
	size_t	 n, cap;
	int	 failed;
};

void qwen_text_add(struct qwen_text *t, const void *s, size_t n);
void qwen_text_str(struct qwen_text *t, const char *s);
void qwen_text_fmt(struct qwen_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a JSON string, with its quotes. */
void qwen_text_json(struct qwen_text *t, const char *s, size_t n);

/* Frees the string and empties it. */
void qwen_text_fini(struct qwen_text *t);

#endif
