/* SPDX-License-Identifier: ISC */
/* seen.h - a list of tokens, for methods that look back. */
#ifndef QWEN_SAMPLE_SEEN_H
#define QWEN_SAMPLE_SEEN_H

#include <stddef.h>
#include <stdint.h>

struct qwen_seen {
	int32_t	*token;		/* in order; the owner frees it */
	size_t	 n, cap;
};

/* Adds a token; -1 without memory. */
int qwen_seen_add(struct qwen_seen *s, int32_t token);

/*
 * Returns the index of the first of the last `last' tokens; 0 if last is
 * negative.
 */
size_t qwen_seen_from(const struct qwen_seen *s, int64_t last);

#endif
