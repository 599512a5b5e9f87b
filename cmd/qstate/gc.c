/* SPDX-License-Identifier: ISC */
/* gc.c - the store made smaller: what was not used for longest goes. */
#include "qstate.h"

void
qstate_gc(char *none[])
{
	struct qwen_store *st = qstate_open_store();
	struct qwen_store_gc_result r = { 0 };
	struct qwen_err err;

	(void)none;
	if (qwen_store_gc(st, qstate_opt.store_max, &r, &err) < 0)
		cli_die_err(qstate_opt.store, &err);
	qstate_print_removed(&r);
	qwen_store_close(st);
}
