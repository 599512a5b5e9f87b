/* SPDX-License-Identifier: ISC */
/* ls.c - the entries of the store. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "qstate.h"

static const char *
kind_name(const struct qwen_store_entry *e)
{
	return e->kind == QWEN_STORE_KV ? "kv" : "checkpoint";
}

static void
ls_text(const struct qwen_store_entry *e)
{
	time_t used = (time_t)e->used;
	struct tm tm;
	char when[32], hex[33];

	if (gmtime_r(&used, &tm) == NULL ||
	    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		strcpy(when, "-");
	printf("%-10s %8" PRIu64 " %8" PRIu64 " %12" PRIu64 " %s %s%s",
	    kind_name(e), e->from, e->end, e->bytes, when,
	    qwen_fp_hex(&e->prefix, hex), e->orphan ? " orphan" : "");
	if (cli_verbose) {
		putchar(' ');
		qstate_print_masked(e->path);
	}
	putchar('\n');
}

static void
ls_json(const struct qwen_store_entry *e)
{
	char hex[33];

	printf("{\"kind\":\"%s\",\"prefix\":\"%s\"", kind_name(e),
	    qwen_fp_hex(&e->prefix, hex));
	qstate_json_fp("model", &e->model);
	qstate_json_fp("vocabulary", &e->vocab);
	printf(",\"numerics\":%lu,\"from\":%" PRIu64 ",\"end\":%" PRIu64
	    ",\"depth\":%zu,\"orphan\":%s,\"bytes\":%" PRIu64 ",\"used\":%"
	    PRId64 ",\"path\":", (unsigned long)e->numerics, e->from, e->end,
	    e->depth, qstate_json_bool(e->orphan), e->bytes, e->used);
	cli_json_string(e->path);
	printf("}\n");
}

void
qstate_ls(char *none[])
{
	struct qwen_store *st = qstate_open_store();
	struct qwen_store_list *l = qstate_list_store(st);
	const struct qwen_store_entry *e;
	char hex[33];
	size_t i;

	(void)none;
	for (i = 0; i < qwen_store_list_n(l); i++) {
		e = qwen_store_list_at(l, i);
		if (!qstate_opt.json && qstate_begins_model(l, i))
			printf("model %s numerics %lu\n",
			    qwen_fp_hex(&e->model, hex),
			    (unsigned long)e->numerics);
		if (qstate_opt.json)
			ls_json(e);
		else
			ls_text(e);
	}
	qwen_store_list_free(l);
	qwen_store_close(st);
}
