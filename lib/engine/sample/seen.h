/* SPDX-License-Identifier: ISC */
/* seen.h - the tokens of a timeline that a method looks back at. */
#ifndef QWEN_SAMPLE_SEEN_H
#define QWEN_SAMPLE_SEEN_H

#include <stddef.h>
#include <stdint.h>

struct qwen_seen {
	int32_t	*token;		/* in order; free() it */
	size_t	 n, cap;
};

/* Adds a token; -1 without memory. */
int qwen_seen_add(struct qwen_seen *s, int32_t token);

/* Where the last of them begin: last of them, or all if that is negative. */
size_t qwen_seen_from(const struct qwen_seen *s, int64_t last);

#endif
