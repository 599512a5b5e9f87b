/* SPDX-License-Identifier: ISC */
/* text.h - growing strings, lists of strings, and parts of paths. */
#ifndef QWEN_BASE_TEXT_H
#define QWEN_BASE_TEXT_H

#include <stdint.h>
#include <string.h>

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

/* Formats a string, for free(); NULL without memory. */
char *qwen_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A list that owns its strings.  Initially zero. */
struct qwen_strings {
	char	**v;
	size_t	  n, cap;
};

/*
 * Adds s, which the list then owns.  Returns -1 without memory, also if s is
 * NULL because an earlier allocation failed; then s is freed.
 */
int qwen_strings_add(struct qwen_strings *l, char *s);

/* Sorts the strings by their bytes. */
void qwen_strings_sort(struct qwen_strings *l);

/* Frees the strings and empties the list. */
void qwen_strings_fini(struct qwen_strings *l);

/* Returns 1 if s, which may be empty, has exactly this text. */
static inline int
qwen_str_is(struct qwen_str s, const char *text)
{
	return s.len == strlen(text) &&
	    (s.len == 0 || memcmp(s.s, text, s.len) == 0);
}

/* Returns 1 if s ends in `end', and has something before it. */
static inline int
qwen_ends(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && strcmp(s + n - m, end) == 0;
}

/*
 * Reads the decimal digits at *s and moves *s behind the last digit.  Returns -1
 * without digits, and for a number above UINT64_MAX.
 */
int qwen_digits(const char **s, uint64_t *out);

/* Returns the part of a path after its last slash. */
static inline const char *
qwen_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

#endif
