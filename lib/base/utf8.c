/* SPDX-License-Identifier: ISC */
/* utf8.c - strict UTF-8: no overlong form, no surrogate. */
#include <string.h>

#include "base/utf8.h"

/*
 * Returns the sequence length that a lead byte announces; *lo and *hi bound the
 * second byte.
 */
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

size_t
qwen_utf8_write(uint32_t c, char out[4])
{
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;

	if (len == 1) {
		out[0] = (char)c;
		return 1;
	}
	for (i = len - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(0xf00 >> len | c);
	return len;
}

static size_t
escape(uint32_t c, char out[QWEN_JSON_CHAR])
{
	static const char digits[] = "0123456789abcdef", letters[] = "btn?fr";

	out[0] = '\\';
	if (c == '"' || c == '\\')
		out[1] = (char)c;
	else if (c >= 8 && c <= 13 && c != 11)
		out[1] = letters[c - 8];
	else {
		memcpy(out + 1, "u00", 3);
		out[4] = digits[c >> 4];
		out[5] = digits[c & 15];
		return 6;
	}
	return 2;
}

size_t
qwen_json_char(const char *s, size_t n, size_t *used, char out[QWEN_JSON_CHAR])
{
	uint32_t c;
	int len = qwen_utf8_read((const unsigned char *)s, n, &c);

	*used = 1;
	if (len <= 0)
		return qwen_utf8_write(0xfffd, out);
	*used = (size_t)len;
	if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == '"' || c == '\\')
		return escape(c, out);
	memcpy(out, s, (size_t)len);
	return (size_t)len;
}

int
qwen_utf8_steers(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad ||
	    c == 0x61c || c == 0x180e || (c >= 0x200b && c <= 0x200f) ||
	    (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
	    c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
	    (c >= 0xe0000 && c <= 0xe0fff);
}

size_t
qwen_shown_char(const char *s, size_t n, size_t *used,
    char out[QWEN_SHOWN_CHAR])
{
	static const char digits[] = "0123456789abcdef", from[] = "\n\t\r\\",
	    to[] = "ntr\\";
	const char *at;
	uint32_t c;
	int len = qwen_utf8_read((const unsigned char *)s, n, &c);
	size_t i;

	*used = len > 0 ? (size_t)len : 1;
	if (len > 0 && c != '\\' && !qwen_utf8_steers(c)) {
		memcpy(out, s, *used);
		return *used;
	}
	if ((at = memchr(from, s[0], sizeof from - 1)) != NULL) {
		out[0] = '\\';
		out[1] = to[at - from];
		return 2;
	}
	for (i = 0; i < *used; i++) {
		memcpy(out + 4 * i, "\\x", 2);
		out[4 * i + 2] = digits[(unsigned char)s[i] >> 4];
		out[4 * i + 3] = digits[s[i] & 15];
	}
	return 4 * *used;
}

void
qwen_utf8_mask(char *s)
{
	uint32_t c;
	int n;

	for (; *s != '\0'; s += n) {
		/* a NUL ends a truncated sequence */
		n = qwen_utf8_read((const unsigned char *)s, 4, &c);
		if (n <= 0 || qwen_utf8_steers(c)) {
			*s = '?';
			n = 1;
		}
	}
}

int
qwen_hex_read(const char *s, size_t n, uint32_t *out)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	const char *at;

	for (*out = 0; n > 0; n--, s++) {
		if ((at = memchr(digits, *s, sizeof digits - 1)) == NULL)
			return -1;
		*out = *out * 16 + (uint32_t)(at - digits < 16 ? at - digits :
		    at - digits - 6);
	}
	return 0;
}

int
qwen_percent_decode(char *s)
{
	char *to = s;
	uint32_t c;
	int rc = 0;

	for (; *s != '\0'; s++) {
		if (*s == '%' && qwen_hex_read(s + 1, 2, &c) == 0 && c != 0) {
			*to++ = (char)c;
			s += 2;
		} else {
			rc |= *s == '%' ? -1 : 0;
			*to++ = *s;
		}
	}
	*to = '\0';
	return rc;
}
