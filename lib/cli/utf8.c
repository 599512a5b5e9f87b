/* SPDX-License-Identifier: ISC */
/* utf8.c - characters of text that may be anything. */
#include "cli/internal.h"

size_t
cli_utf8(const unsigned char *s, size_t n)
{
	uint32_t c;
	int len = qwen_utf8_read(s, n, &c);

	return len > 0 ? (size_t)len : 0;
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
