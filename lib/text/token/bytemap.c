/* SPDX-License-Identifier: ISC */
/*
 * bytemap.c - bytes as printable characters.  A byte that is printable in
 * Latin-1 stands for itself; the other 68 bytes, in order, are U+0100 to
 * U+0143.
 */
#include "base/utf8.h"
#include "text/token/tok.h"

static int
prints(unsigned b)
{
	return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
}

/* Returns the i-th of the other bytes: 00-20, 7f-a0, ad. */
static unsigned
other(unsigned i)
{
	return i <= 0x20 ? i : i < 0x43 ? i - 0x21 + 0x7f : 0xad;
}

static unsigned
rank(unsigned b)
{
	return b <= 0x20 ? b : b <= 0xa0 ? b - 0x7f + 0x21 : 0x43;
}

int
qwen_bytemap_read(const unsigned char *s, size_t n, size_t *len)
{
	unsigned c = s[0];

	*len = 1;
	if (c < 0x80)
		return prints(c) ? (int)c : -1;
	if (c < 0xc2 || c > 0xc5 || n < 2 || (s[1] & 0xc0) != 0x80)
		return -1;
	*len = 2;
	c = (c & 0x1f) << 6 | (s[1] & 0x3f);
	if (c < 0x100)
		return prints(c) ? (int)c : -1;
	return c <= 0x143 ? (int)other(c - 0x100) : -1;
}

size_t
qwen_bytemap_write(unsigned byte, char s[4])
{
	return qwen_utf8_write(prints(byte) ? byte : 0x100 + rank(byte), s);
}
