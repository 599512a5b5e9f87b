/* SPDX-License-Identifier: ISC */
/* unicode.h - classes of code points. */
#ifndef QWEN_TOKEN_UNICODE_H
#define QWEN_TOKEN_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* What a pre-tokenizer distinguishes; all but the last are in unicode.c, too. */
enum qwen_class {
	QWEN_CLASS_OTHER, QWEN_CLASS_LETTER, QWEN_CLASS_MARK,
	QWEN_CLASS_NUMBER,
	QWEN_CLASS_SPACE,		/* white space, but for the next */
	QWEN_CLASS_NEWLINE,		/* CR, LF */
	QWEN_N_CLASSES
};

/* From U+0080 on n characters of one class: 8 * n + class; ended by 0. */
extern const uint32_t qwen_unicode_run[];
extern const unsigned char qwen_unicode_ascii[128];

/* Class of a code point from U+0080 to U+10FFFF. */
enum qwen_class qwen_unicode_class(uint32_t c);

#endif
