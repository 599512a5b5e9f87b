/* SPDX-License-Identifier: ISC */
/* unicode.h - classes of code points. */
#ifndef QWEN_TOKEN_UNICODE_H
#define QWEN_TOKEN_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Character classes of the pre-tokenizers; the first four are those in
 * unicode.c.
 */
enum qwen_class {
	QWEN_CLASS_OTHER, QWEN_CLASS_LETTER, QWEN_CLASS_MARK,
	QWEN_CLASS_NUMBER,
	QWEN_CLASS_SPACE,		/* white space except CR and LF */
	QWEN_CLASS_NEWLINE,		/* CR, LF */
	QWEN_N_CLASSES
};

extern const unsigned char qwen_unicode_index[4352];
extern const unsigned char qwen_unicode_bits[][64];
extern const unsigned char qwen_unicode_ascii[128];

/* Returns the class of a code point from U+0080 to U+10FFFF. */
enum qwen_class qwen_unicode_class(uint32_t c);

#endif
