/* SPDX-License-Identifier: ISC */
/* store.c - the prefix store, as ls, du, gc, rm and verify see it. */
#include <sys/stat.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qstate.h"

#undef warn	/* struct qwen_store_opts has a member of that name */

static void
warn_store(void *arg, const char *msg)
{
	(void)arg;
	cli_warn("%s: %s", qstate_opt.store, msg);
}

struct qwen_store *
qstate_open_store(void)
{
	struct qwen_store_opts o = { .max = 0 };
	struct qwen_store *st;
	struct stat sb;
	struct qwen_err err;

	if (qstate_opt.store == NULL)
		qstate_opt.store = getenv("QWEN_STORE");
	if (qstate_opt.store == NULL || qstate_opt.store[0] == '\0')
		cli_usage("which store? Give --store, or set QWEN_STORE");
	if (stat(qstate_opt.store, &sb) == -1)
		die("%s: %s", qstate_opt.store, strerror(errno));
	o.dir = qstate_opt.store;
	o.warn = warn_store;
	if (qwen_store_open(&st, &o, &err) < 0)
		cli_die_err(qstate_opt.store, &err);
	return st;
}

struct qwen_store_list *
qstate_list_store(struct qwen_store *st)
{
	struct qwen_store_list *l;
	struct qwen_err err;

	if (qwen_store_list(&l, st, &err) < 0)
		cli_die_err(qstate_opt.store, &err);
	return l;
}

int
qstate_begins_model(const struct qwen_store_list *l, size_t i)
{
	const struct qwen_store_entry *e = qwen_store_list_at(l, i), *before;

	if (i == 0)
		return 1;
	before = qwen_store_list_at(l, i - 1);
	return memcmp(&e->model, &before->model, sizeof e->model) != 0 ||
	    e->numerics != before->numerics;
}

void
qstate_print_removed(const struct qwen_store_gc_result *r)
{
	if (qstate_opt.json)
		printf("{\"removed\":{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
		    "},\"left\":{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
		    "}}\n", r->files, r->bytes, r->left_files, r->left_bytes);
	else if (!cli_quiet)
		printf("removed %" PRIu64 " %" PRIu64 "\nleft %" PRIu64 " %"
		    PRIu64 "\n", r->files, r->bytes, r->left_files,
		    r->left_bytes);
}
