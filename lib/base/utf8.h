/* SPDX-License-Identifier: ISC */
/* utf8.h - characters as UTF-8, and as they are written in JSON. */
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

/* n hexadecimal digits, 8 at most, as a number; -1 if one of them is none. */
int qwen_hex_read(const char *s, size_t n, uint32_t *out);

#endif
