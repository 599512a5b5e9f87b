/* SPDX-License-Identifier: ISC */
/* utf8.c - strict UTF-8, and the classes that unicode.c does not hold. */
#include "qwen.h"
#include "token/unicode.h"

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

/* White_Space above ASCII; all of it is Z* or Cc, so never in unicode.c. */
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

/* Bytes that a lead byte announces; *lo and *hi bound the second one. */
static int
lead(unsigned char b, unsigned char *lo, unsigned char *hi)
{
	*lo = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
	*hi = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
	if (b < 0x80)
		return 1;
	if (b < 0xc2 || b > 0xf4)
		return 0;
	return b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

int
qwen_utf8_read(const unsigned char *p, size_t n, uint32_t *c)
{
	unsigned char lo, hi;
	int i, len = lead(p[0], &lo, &hi);

	if (len == 0)
		return 0;
	if (len == 1) {
		*c = p[0];
		return 1;
	}
	*c = p[0] & (0x7f >> len);
	for (i = 1; i < len; i++) {
		if ((size_t)i == n)
			return -i;
		if (p[i] < lo || p[i] > hi)
			return 0;
		*c = *c << 6 | (p[i] & 0x3f);
		lo = 0x80;
		hi = 0xbf;
	}
	return len;
}

size_t
qwen_utf8_check(const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t c;
	size_t i = 0;
	int k;

	while (i < n) {
		k = p[i] < 0x80 ? 1 : qwen_utf8_read(p + i, n - i, &c);
		if (k <= 0)
			break;
		i += (size_t)k;
	}
	return i;
}
