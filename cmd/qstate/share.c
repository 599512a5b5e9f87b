/* SPDX-License-Identifier: ISC */
/* share.c - open the operands of the command line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qstate.h"

void
qstate_copy_bytes(int from, const char *name, int to, const char *to_name)
{
	static char buf[1 << 16];
	struct qwen_text t = { .s = buf };
	ssize_t n;

	while ((n = read(from, buf, sizeof buf)) != 0) {
		if (n == -1 && errno != EINTR)
			die("%s: %s", name, strerror(errno));
		t.n = n > 0 ? (size_t)n : 0;
		cli_write_all(to, to_name, &t);
	}
}

static char spooled[1024];	/* path of the copy of stdin */

void
qstate_file_done(void)
{
	if (spooled[0] != '\0')
		unlink(spooled);
	spooled[0] = '\0';
}

/*
 * Copy stdin to a temporary file: opening a state starts at the end of the
 * file, and a pipe has no end.
 */
static void
spool(void)
{
	int fd;

	cli_need_stdin();
	fd = cli_temporary("qstate", spooled, sizeof spooled);
	if (atexit(qstate_file_done) != 0)
		die("out of memory");
	qstate_copy_bytes(STDIN_FILENO, "stdin", fd, spooled);
	if (close(fd) == -1)
		die("%s: %s", spooled, strerror(errno));
}

const char *
qstate_file(const char *operand, const char **name)
{
	*name = operand;
	if (strcmp(operand, "-") != 0)
		return operand;
	*name = "stdin";
	if (spooled[0] == '\0')
		spool();
	return spooled;
}

void
qstate_open(struct qstate_state *s, const char *operand)
{
	const char *path = qstate_file(operand, &s->name);

	cli_must(s->name, qwen_state_open(&s->f, path, &cli_err));
	s->info = qwen_state_info(s->f);
	qstate_file_done();
}

void
qstate_open_whole(struct qstate_state *s, const char *operand)
{
	qstate_open(s, operand);
	if (s->info->part)
		die("%s: only a part of a state, from token %" PRIu64 " on",
		    s->name, s->info->from);
}
