/* SPDX-License-Identifier: ISC */
/* differ.c - what diff prints, as text and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "qstate.h"

int qstate_n_differ;

static void
json_next(void)
{
	if (qstate_opt.json)
		putchar(qstate_n_differ > 0 ? ',' : '[');
	qstate_n_differ++;
}

void
qstate_differ_text(const char *what, const char *a, const char *b)
{
	json_next();
	if (qstate_opt.json) {
		printf("{\"what\":\"%s\",\"a\":", what);
		cli_json_string(a);
		printf(",\"b\":");
		cli_json_string(b);
		putchar('}');
	} else if (!cli_quiet)
		printf("%s %s %s\n", what, a, b);
}

void
qstate_differ_number(const char *what, uint64_t a, uint64_t b)
{
	char x[24], y[24];

	snprintf(x, sizeof x, "%" PRIu64, a);
	snprintf(y, sizeof y, "%" PRIu64, b);
	qstate_differ_text(what, x, y);
}

void
qstate_differ_only(const char *side, const char *kind, int64_t layer,
    uint64_t at)
{
	json_next();
	if (qstate_opt.json)
		printf("{\"what\":\"%s\",\"layer\":%" PRId64 ",\"at\":%" PRIu64
		    ",\"only\":\"%s\"}", kind, layer, at, side);
	else if (!cli_quiet)
		printf("only %s %s %" PRId64 " %" PRIu64 "\n", side, kind,
		    layer, at);
}

static void
format_number(char buf[24], int is_kv, uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	if (is_kv)
		snprintf(buf, 24, "0x%04x", (unsigned)bits);
	else
		snprintf(buf, 24, "%.9g", (double)f);
}

void
qstate_differ_part(const struct object *o, const struct part *d)
{
	int kv = strcmp(o->kind, "kv") == 0;
	char a[24], b[24];

	format_number(a, kv, d->a);
	format_number(b, kv, d->b);
	json_next();
	if (qstate_opt.json) {
		printf("{\"what\":\"%s\"", o->kind);
		if (o->layer >= 0)
			printf(",\"layer\":%" PRId64, o->layer);
		if (kv)
			printf(",\"position\":%" PRIu64 ",\"of\":\"%s\"",
			    d->position, d->v ? "v" : "k");
		else
			printf(",\"at\":%" PRId64 ",\"index\":%" PRIu64,
			    o->at, d->index);
		printf(",\"a\":\"%s\",\"b\":\"%s\",\"count\":%" PRIu64 "}", a,
		    b, d->count);
	} else if (cli_quiet)
		return;
	else if (kv)
		printf("kv %" PRId64 " %" PRIu64 " %s %s %s %" PRIu64 "\n",
		    o->layer, d->position, d->v ? "v" : "k", a, b, d->count);
	else
		printf("%s %" PRId64 " %" PRId64 " %" PRIu64 " %s %s %" PRIu64
		    "\n", o->kind, o->layer, o->at, d->index, a, b, d->count);
}

void
qstate_differ_token(uint64_t i, const char *a, const char *b)
{
	json_next();
	if (qstate_opt.json)
		printf("{\"what\":\"token\",\"position\":%" PRIu64 ",\"a\":%s,"
		    "\"b\":%s}", i, a[0] == '-' ? "null" : a,
		    b[0] == '-' ? "null" : b);
	else if (!cli_quiet)
		printf("token %" PRIu64 " %s %s\n", i, a, b);
}
