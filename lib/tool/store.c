/* SPDX-License-Identifier: ISC */
/*
 * store.c - which prefix store a command uses, and how large it may be.  It is
 * a cache: what is wrong with it is a note.
 */
#include <stdlib.h>

#include "tool/tool.h"

void
tool_store_choose(struct tool_store *o)
{
	const char *env = getenv("QWEN_STORE");

	if (o->none)
		o->dir = NULL;
	else if (o->dir == NULL && env != NULL && env[0] != '\0')
		o->dir = env;
	else if (o->dir == NULL && o->max > 0)
		cli_usage("--store-max is the size of a store; give --store");
}

static void
note_store(void *arg, const char *msg)
{
	const struct tool_store *o = arg;

	cli_note("store %s: %s", o->dir, msg);
}

struct qwen_store *
tool_store_open(struct tool_store *o)
{
	struct qwen_store_opts how = {
		.dir = o->dir, .max = o->max, .warn = note_store, .arg = o,
	};
	struct qwen_store *st = NULL;

	if (o->dir == NULL || qwen_store_open(&st, &how, &cli_err) == 0)
		return st;
	if (cli_err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &cli_err);
	cli_note("store %s: %s; going on without it", o->dir, cli_err.msg);
	return NULL;
}
