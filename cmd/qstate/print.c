/* SPDX-License-Identifier: ISC */
/* print.c - words that more than one command prints. */
#include <stdio.h>

#include "qstate.h"

void
qstate_print_masked(const char *s)
{
	for (; *s != '\0'; s++)
		putchar((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s);
}

const char *
qstate_json_bool(int v)
{
	return v ? "true" : "false";
}

void
qstate_json_fp(const char *key, const struct qwen_fp *fp)
{
	char hex[33];

	printf(",\"%s\":\"%s\"", key, qwen_fp_hex(fp, hex));
}
