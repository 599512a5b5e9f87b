/* SPDX-License-Identifier: ISC */
/* du.c - what the models in the store take up. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "qstate.h"

/* What the entries of a model, or all, come to. */
struct usage {
	uint64_t	files, bytes, tokens;
};

static void
print_usage(const char *what, const struct qwen_store_entry *e,
    const struct usage *u)
{
	char hex[33] = "all";

	if (e != NULL)
		qwen_fp_hex(&e->model, hex);
	if (qstate_opt.json) {
		printf("{\"%s\":\"%s\"", what, hex);
		if (e != NULL)
			printf(",\"numerics\":%lu",
			    (unsigned long)e->numerics);
		printf(",\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
		    ",\"tokens\":%" PRIu64 "}\n", u->files, u->bytes,
		    u->tokens);
		return;
	}
	printf("%-5s %-32s %8" PRIu64 " %14" PRIu64 " %10" PRIu64, what, hex,
	    u->files, u->bytes, u->tokens);
	if (e != NULL)
		printf(" numerics %lu", (unsigned long)e->numerics);
	putchar('\n');
}

void
qstate_du(char *none[])
{
	struct qwen_store *st = qstate_open_store();
	struct qwen_store_list *l = qstate_list_store(st);
	struct usage one = { 0 }, all = { 0 };
	const struct qwen_store_entry *e;
	size_t i, n = qwen_store_list_n(l);

	(void)none;
	for (i = 0; i < n; i++) {
		e = qwen_store_list_at(l, i);
		if (qstate_begins_model(l, i))
			memset(&one, 0, sizeof one);
		one.files++;
		one.bytes += e->bytes;
		one.tokens += e->end - e->from;
		if (i + 1 < n && !qstate_begins_model(l, i + 1))
			continue;
		print_usage("model", e, &one);
		all.files += one.files;
		all.bytes += one.bytes;
		all.tokens += one.tokens;
	}
	print_usage("total", NULL, &all);
	qwen_store_list_free(l);
	qwen_store_close(st);
}
