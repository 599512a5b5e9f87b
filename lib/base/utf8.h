/* SPDX-License-Identifier: ISC */
/* utf8.h - characters as UTF-8, in JSON, and on a terminal. */
#ifndef QWEN_BASE_UTF8_H
#define QWEN_BASE_UTF8_H

#include "qwen/base.h"

/*
 * Writes the UTF-8 of a code point up to U+10FFFF; returns its length, 1 to 4.
 */
size_t qwen_utf8_write(uint32_t c, char out[4]);

enum { QWEN_JSON_CHAR = 6 };	/* most bytes per character */

/*
 * Writes the first character of the n > 0 bytes at s as it must be in a JSON
 * string.  Returns the length written; *used is the number of bytes read.
 * Escapes controls (C0, DEL and C1, which affect terminals) and what JSON
 * requires.  An invalid byte becomes U+FFFD; any other character is unchanged.
 */
size_t qwen_json_char(const char *s, size_t n, size_t *used,
    char out[QWEN_JSON_CHAR]);

/*
 * Returns 1 for a character that controls a terminal or is invisible on it, so
 * that untrusted text must not contain it: controls (C0, DEL, C1), text
 * direction, line separators, zero-width characters, tags.
 */
int qwen_utf8_steers(uint32_t c);

enum { QWEN_SHOWN_CHAR = 16 };	/* most bytes per character */

/*
 * Writes the first character of the n > 0 bytes at s as it may be shown on a
 * terminal.  Returns the length written; *used is the number of bytes read.
 * Unsafe characters (qwen_utf8_steers) and invalid bytes become \n, \t, \r or
 * \xHH per byte, \ becomes \\; any other character is unchanged.
 */
size_t qwen_shown_char(const char *s, size_t n, size_t *used,
    char out[QWEN_SHOWN_CHAR]);

/*
 * Replaces each byte of unsafe characters and invalid UTF-8 in a message by ?.
 */
void qwen_utf8_mask(char *s);

/*
 * Replaces each % and two hexadecimal digits of s by their byte, in place.
 * Returns -1 if a % is not followed by two digits, or stands for a NUL; it then
 * stays as it is.
 */
int qwen_percent_decode(char *s);

/* Parses n hexadecimal digits, at most 8; -1 if one is not a digit. */
int qwen_hex_read(const char *s, size_t n, uint32_t *out);

#endif
