/* SPDX-License-Identifier: ISC */
/* utf8.h - characters as UTF-8, in JSON, and on a terminal. */
#ifndef QWEN_BASE_UTF8_H
#define QWEN_BASE_UTF8_H

#include "qwen/base.h"

/* The UTF-8 of a code point up to U+10FFFF: its length, 1 to 4. */
size_t qwen_utf8_write(uint32_t c, char out[4]);

enum { QWEN_JSON_CHAR = 6 };	/* bytes that one character takes at most */

/*
 * The first character of the n > 0 bytes at s as it is inside of a JSON string:
 * its length, and in *used how many bytes it was.  Controls (C0, DEL and C1, which
 * steer terminals) and what JSON asks for are escaped; a byte that is no
 * UTF-8 is U+FFFD; all else is as it was.
 */
size_t qwen_json_char(const char *s, size_t n, size_t *used,
    char out[QWEN_JSON_CHAR]);

/*
 * A character that steers a terminal or hides on it, which text of others must
 * not: controls (C0, DEL, C1), the direction of text, separators of lines, what
 * has no width, tags.
 */
int qwen_utf8_steers(uint32_t c);

enum { QWEN_SHOWN_CHAR = 16 };	/* bytes that one character takes at most */

/*
 * The first character of the n > 0 bytes at s as it may be shown on a terminal:
 * its length, and in *used how many bytes it was.  What steers and what is no
 * UTF-8 becomes \n, \t, \r or \xHH for each byte, \ becomes \\; all else is as
 * it was.
 */
size_t qwen_shown_char(const char *s, size_t n, size_t *used,
    char out[QWEN_SHOWN_CHAR]);

/* A message in place: what steers and what is no UTF-8 becomes ?, each byte. */
void qwen_utf8_mask(char *s);

/* n hexadecimal digits, 8 at most, as a number; -1 if one of them is none. */
int qwen_hex_read(const char *s, size_t n, uint32_t *out);

#endif
