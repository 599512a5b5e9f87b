/* SPDX-License-Identifier: ISC */
/* unicode.h - classes of code points, and reading them out of UTF-8. */
#ifndef QWEN_TOKEN_UNICODE_H
#define QWEN_TOKEN_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* What a pre-tokenizer distinguishes; the first four are as in unicode.c. */
enum qwen_class {
	QWEN_CLASS_OTHER, QWEN_CLASS_LETTER, QWEN_CLASS_MARK,
	QWEN_CLASS_NUMBER,
	QWEN_CLASS_SPACE,		/* white space, but for the next */
	QWEN_CLASS_NEWLINE,		/* CR, LF */
	QWEN_N_CLASSES
};

extern const unsigned char qwen_unicode_index[4352];
extern const unsigned char qwen_unicode_bits[][64];
extern const unsigned char qwen_unicode_ascii[128];

/* Class of a code point from U+0080 to U+10FFFF. */
enum qwen_class qwen_unicode_class(uint32_t c);

/*
 * The code point that begins at p (n > 0 bytes are there): returns its length,
 * 1 to 4, or 0 if p is no UTF-8 (overlong, surrogate, above U+10FFFF, a stray
 * byte), or minus the number of bytes present if they are the beginning of
 * one and n ends it.
 */
int qwen_utf8_read(const unsigned char *p, size_t n, uint32_t *c);

#endif
