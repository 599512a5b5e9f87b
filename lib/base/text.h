/* SPDX-License-Identifier: ISC */
/* text.h - text that grows. */
#ifndef QWEN_BASE_TEXT_H
#define QWEN_BASE_TEXT_H

#include "qwen/base.h"

/*
 * Zero at first.  Where memory runs out failed is set, and from then on nothing
 * is added: look at it once, at the end.  s is NUL-terminated, or NULL as long
 * as nothing was added; for free().
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

/* A text as a JSON string, quotes included. */
void qwen_text_json(struct qwen_text *t, const char *s, size_t n);

/* Free it, and make it empty. */
void qwen_text_fini(struct qwen_text *t);

#endif
