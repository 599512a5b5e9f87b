/* SPDX-License-Identifier: ISC */
/* utf8.c - characters of text that may be anything. */
#include "cli/internal.h"

size_t
cli_utf8(const unsigned char *s, size_t n)
{
	size_t len = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	return len <= n && qwen_utf8_check((const char *)s, len) == len ?
	    len : 0;
}

/* C1 controls (U+0080 to U+009F) steer some terminals. */
size_t
cli_printable(const unsigned char *s)
{
	size_t n = cli_utf8(s, 4);	/* a NUL ends what is too short */

	if (n == 1 && (s[0] < 0x20 || s[0] == 0x7f))
		return 0;
	return n == 2 && s[0] == 0xc2 && s[1] < 0xa0 ? 0 : n;
}
