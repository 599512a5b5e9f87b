/* SPDX-License-Identifier: ISC */
/* warn.c - opening a store, and its single warning. */
#include <sys/stat.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/disk.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
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
qwen_store_open_sized(size_t size, struct qwen_store **out,
    const struct qwen_store_opts *o, struct qwen_err *err)
{
	struct qwen_store_opts own;
	struct qwen_store *st;
	struct qwen_err e;
	uint64_t room;

	*out = NULL;
	if (QWEN_SIZED(o, own, size, err) < 0)
		return -1;
	if (o->dir[0] == '\0')
		return qwen_fail(err, QWEN_ERANGE,
		    "the prefix store's path is empty");
	if ((st = qwen_alloc(1, sizeof *st)) == NULL ||
	    (st->dir = strdup(o->dir)) == NULL) {
		free(st);
		return qwen_oom(err);
	}
	st->warn = o->warn;
	st->arg = o->arg;
	/* prompts are private; a folder that exists keeps its mode */
	if (mkdir(st->dir, 0700) == -1 && errno != EEXIST) {
		qwen_fail_errno(&e, "mkdir");
		qwen_store_warn(st, "not used", &e);
	}
	st->by_disk = o->max == QWEN_STORE_MAX_DEFAULT;
	if (!st->by_disk)
		st->max = o->max;
	else if (qwen_disk_share(st->dir, &st->max, &room) < 0)
		st->max = 0;
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
