/* SPDX-License-Identifier: ISC */
/* json.c - text as a JSON string. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/internal.h"

void
cli_json_string(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n;

	putchar('"');
	for (; *s != '\0'; s += n) {
		n = cli_printable(s);
		if (n > 0) {
			if (*s == '"' || *s == '\\')
				putchar('\\');
			fwrite(s, 1, n, stdout);
			continue;
		}
		/* bytes that are no UTF-8 have no other form in JSON */
		printf(*s < 0x80 ? "\\u%04x" : "\\ufffd", *s);
		n = 1;
	}
	putchar('"');
}
