/* SPDX-License-Identifier: ISC */
/*
 * store.c - which prefix store a command uses, and its size limit.  A store is
 * a cache: its errors are only notes.
 */
#include <string.h>

#include "tool/tool.h"

void
tool_store_max_parse(const struct cli_opt *o, const char *arg)
{
	uint64_t *max = o->to;

	*max = strcmp(arg, "none") == 0 ? 0 : cli_bytes(cli_opt_name(o), arg,
	    0);
	if (*max == 0)
		*max = TOOL_STORE_UNLIMITED;
}

void
tool_store_from_env(struct tool_store *o)
{
	if (o->none)
		o->dir = NULL;
	else if (o->dir == NULL && (o->dir = cli_env("QWEN_STORE")) == NULL &&
	    o->max > 0)
		cli_usage("--store-max needs --store");
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
		.dir = o->dir, .warn = note_store, .arg = o,
		.max = o->max == 0 ? QWEN_STORE_MAX_DEFAULT :
		    o->max == TOOL_STORE_UNLIMITED ? 0 : o->max,
	};
	struct qwen_store *st = NULL;

	if (o->dir == NULL || qwen_store_open(&st, &how, &cli_err) == 0)
		return st;
	cli_die_oom(&cli_err);
	cli_note("store %s: %s; continuing without it", o->dir, cli_err.msg);
	return NULL;
}

struct qwen_session *
tool_store_restore(struct qwen_store *st, struct qwen_model *m,
    const int32_t *ids,
    size_t n, size_t have)
{
	struct qwen_session *s = NULL;
	struct qwen_header self;
	size_t found = n;

	tool_header_init(&self, QWEN_STREAM_STATE, m);
	/* find reads only file names: cheap, and restoring may gain nothing */
	if (have > 0)
		cli_must("store", qwen_store_find(st, &self, ids, n, &found,
		    &cli_err));
	if (found > have)
		cli_must("store", qwen_store_restore(st, &s, m, ids, n,
		    &cli_err));
	if (s == NULL || qwen_session_n_tokens(s) > have)
		return s;
	qwen_session_free(s);
	return NULL;
}

void
tool_store_save(struct qwen_store *st, const struct qwen_session *s)
{
	if (st != NULL)
		cli_must("store", qwen_store_insert(st, s, &cli_err));
}
