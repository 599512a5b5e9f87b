/* SPDX-License-Identifier: ISC */
/* verify.c - check the checksums of states, or of the files of the store. */
#include <stdio.h>

#include "qstate.h"

static void
report(const char *name, const char *bad)
{
	if (qstate_opt.json) {
		qstate_open_json(NULL, '{');
		qstate_word("state", name);
		qstate_flag("ok", bad == NULL);
		if (bad != NULL)
			qstate_word("error", bad);
		qstate_close_json(0);
	} else if (bad == NULL && cli_verbose)
		cli_note("%s: whole", name);
	if (bad != NULL)
		warn("%s: %s", name, bad);
}

static void
bad_entry(void *arg, const char *path, const char *msg)
{
	char name[2048];

	(void)arg;
	snprintf(name, sizeof name, "%s/%s", qstate_opt.store, path);
	report(name, msg);
}

static void
add_progress(void *arg, uint64_t bytes)
{
	uint64_t *sum = arg;

	*sum += bytes;
	cli_progress(*sum >> 20);
}

static void
verify_store(void)
{
	struct qwen_store *st = qstate_open_store();
	uint64_t files = 0, n_bad = 0, bytes = 0;
	struct qwen_store_verifier v = {
		.bad = bad_entry, .progress = add_progress, .arg = &bytes,
		.remove = qstate_opt.remove,
		.n_threads = qstate_opt.state.n_threads,
	};
	int rc;

	cli_progress_start("MiB", 0);
	rc = qwen_store_verify(st, &v, &files, &n_bad, &cli_err);
	cli_progress_end();
	cli_must(qstate_opt.store, rc);
	if (cli_verbose)
		cli_note("%s: %s, %" PRIu64 " bad",
		    qstate_opt.store, cli_count(files, "file"), n_bad);
	qwen_store_close(st);
}

/* Check all files, also after a bad one. */
void
qstate_verify(char *paths[])
{
	const char *name, *path;
	struct qwen_err err;
	int bad;

	if (*paths == NULL) {
		verify_store();
		return;
	}
	if (qstate_opt.store != NULL || qstate_opt.remove)
		cli_usage("--store and --remove cannot be combined with files");
	for (; *paths != NULL; paths++) {
		path = qstate_file(*paths, &name);
		bad = qwen_state_verify(path, qstate_opt.state.n_threads,
		    &err) < 0;
		if (bad && err.code == QWEN_ENOMEM)
			cli_die_err(name, &err);
		report(name, bad ? err.msg : NULL);
		qstate_file_done();
	}
}
