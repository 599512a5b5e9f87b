/* SPDX-License-Identifier: ISC */
/* utf8.c - strict UTF-8: no overlong form, no surrogate. */
#include "qwen/base.h"

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
