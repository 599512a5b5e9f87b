/* SPDX-License-Identifier: ISC */
/* class.c - character classes: ASCII, white space, and lookup in unicode.c. */
#include "text/token/unicode.h"

#define O QWEN_CLASS_OTHER
#define L QWEN_CLASS_LETTER
#define N QWEN_CLASS_NUMBER
#define S QWEN_CLASS_SPACE
#define E QWEN_CLASS_NEWLINE

const unsigned char qwen_unicode_ascii[128] = {
	O,O,O,O,O,O,O,O, O,S,E,S,S,E,O,O, O,O,O,O,O,O,O,O, O,O,O,O,O,O,O,O,
	S,O,O,O,O,O,O,O, O,O,O,O,O,O,O,O, N,N,N,N,N,N,N,N, N,N,O,O,O,O,O,O,
	O,L,L,L,L,L,L,L, L,L,L,L,L,L,L,L, L,L,L,L,L,L,L,L, L,L,L,O,O,O,O,O,
	O,L,L,L,L,L,L,L, L,L,L,L,L,L,L,L, L,L,L,L,L,L,L,L, L,L,L,O,O,O,O,O,
};

/* Is it White_Space above ASCII?  All of these are OTHER in unicode.c. */
static int
is_space(uint32_t c)
{
	return c == 0x85 || c == 0xa0 || c == 0x1680 ||
	    (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	    c == 0x202f || c == 0x205f || c == 0x3000;
}

enum qwen_class
qwen_unicode_class(uint32_t c)
{
	unsigned bits = qwen_unicode_bits[qwen_unicode_index[c >> 8]]
	    [(c & 255) >> 2] >> 2 * (c & 3) & 3;

	if (bits == QWEN_CLASS_OTHER && is_space(c))
		return QWEN_CLASS_SPACE;
	return (enum qwen_class)bits;
}
