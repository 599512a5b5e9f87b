/* SPDX-License-Identifier: ISC */
/* casing.h - upper, lower and title case of characters, as in Python. */
#ifndef QWEN_CHAT_CASING_H
#define QWEN_CHAT_CASING_H

#include <stddef.h>
#include <stdint.h>

enum qwen_case { QWEN_CASE_UPPER, QWEN_CASE_LOWER, QWEN_CASE_TITLE };

/* The case of a character. */
enum qwen_case_kind {
	QWEN_KIND_NONE, QWEN_KIND_LOWER, QWEN_KIND_UPPER, QWEN_KIND_TITLE
};

enum { QWEN_CASE_MAX = 16 };	/* bytes of a character in another case */

enum qwen_case_kind qwen_case_kind(uint32_t c);

/* Writes the character in that case as UTF-8; returns the number of bytes. */
size_t qwen_case_write(uint32_t c, enum qwen_case how,
    char out[QWEN_CASE_MAX]);

/*
 * Every step-th character from first to last, and the distances to their other
 * cases.
 */
struct qwen_case_range {
	uint32_t	first, last;
	unsigned char	step;
	int32_t		to[3];		/* indexed by enum qwen_case */
	unsigned char	kind;
};

/* Characters with a case of more than one character. */
struct qwen_case_odd {
	uint32_t	c;
	unsigned char	kind;
	const char	*to[3];
};

extern const struct qwen_case_range qwen_case_ranges[];
extern const struct qwen_case_odd qwen_case_odds[];
extern const size_t qwen_case_n_ranges, qwen_case_n_odds, qwen_case_overlap;

#endif
