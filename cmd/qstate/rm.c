/* SPDX-License-Identifier: ISC */
/* rm.c - prefixes taken out of the store. */
#include <string.h>

#include "qstate.h"

/* Each prefix is looked for; those that are not there are told of. */
void
qstate_rm(char *digits[])
{
	struct qwen_store *st;
	struct qwen_store_gc_result r, all = { 0 };
	struct qwen_err err;

	if (qstate_opt.all == (digits[0] != NULL))
		cli_usage("rm takes prefixes, or --all");
	st = qstate_open_store();
	do {
		memset(&r, 0, sizeof r);
		if (qwen_store_remove(st, digits[0], &r, &err) < 0) {
			if (err.code != QWEN_ERANGE || digits[0] == NULL)
				cli_die_err(qstate_opt.store, &err);
			cli_warn("%s: %s", qstate_opt.store, err.msg);
			continue;
		}
		all.files += r.files;
		all.bytes += r.bytes;
		all.left_files = r.left_files;
		all.left_bytes = r.left_bytes;
	} while (*digits != NULL && *++digits != NULL);
	qstate_print_removed(&all);
	qwen_store_close(st);
}
