/* SPDX-License-Identifier: ISC */
/* pack.c - a state in the other form, or with less in it. */
#include <unistd.h>

#include "qstate.h"

static void
copy_state(struct state *s, int fd, const char *name)
{
	struct qwen_writer *w = tool_writer(fd, QWEN_FORMAT_CBOR);
	struct qwen_err err;

	if (qwen_state_copy(s->f, w, &qstate_opt.state, NULL, &err) < 0)
		cli_die_err(err.code == QWEN_EIO || err.code == QWEN_EPIPE ?
		    name : s->name, &err);
	if (qwen_writer_close(w, &err) < 0)
		cli_die_err(name, &err);
}

void
qstate_write_copy(struct state *s)
{
	struct cli_output *out;

	if (qstate_opt.output == NULL) {
		copy_state(s, STDOUT_FILENO, "stdout");
		return;
	}
	out = cli_output_open(qstate_opt.output);
	copy_state(s, cli_output_fd(out), qstate_opt.output);
	cli_output_commit(out);
}

void
qstate_pack(char *paths[])
{
	struct state s;

	if (qstate_opt.output == NULL)
		cli_no_binary_tty();
	qstate_open(&s, paths[0]);
	qstate_write_copy(&s);
	qstate_close(&s);
}
