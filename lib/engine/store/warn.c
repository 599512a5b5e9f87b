/* SPDX-License-Identifier: ISC */
/* warn.c - an open store, and the one thing it has to say. */
#include <sys/stat.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"

void
qwen_store_warn(struct qwen_store *st, const char *what,
    const struct qwen_err *err)
{
	struct qwen_err e;

	if (st->warned)
		return;
	st->warned = 1;
	if (st->warn == NULL)
		return;
	qwen_fail(&e, err->code, "%s: %s", what, err->msg);
	st->warn(st->arg, e.msg);
}

int
qwen_store_open(struct qwen_store **out, const struct qwen_store_opts *o,
    struct qwen_err *err)
{
	struct qwen_store *st = qwen_alloc(1, sizeof *st);
	struct qwen_err e;

	*out = NULL;
	if (o->dir[0] == '\0') {
		free(st);
		return qwen_fail(err, QWEN_ERANGE,
		    "the prefix store has no name");
	}
	if (st == NULL || (st->dir = strdup(o->dir)) == NULL) {
		free(st);
		return qwen_oom(err);
	}
	st->max = o->max;
	st->warn = o->warn;
	st->arg = o->arg;
	/* prompts are nobody else's business unless DIR was made so */
	if (mkdir(st->dir, 0700) == -1 && errno != EEXIST) {
		qwen_fail_errno(&e, "mkdir");
		qwen_store_warn(st, "not used", &e);
	}
	*out = st;
	return 0;
}

void
qwen_store_close(struct qwen_store *st)
{
	if (st == NULL)
		return;
	free(st->dir);
	free(st);
}
