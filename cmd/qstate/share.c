/* SPDX-License-Identifier: ISC */
/* share.c - the states that the command line names, and JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qstate.h"

void
qstate_copy_bytes(int from, const char *name, int to, const char *to_name)
{
	static char buf[1 << 16];
	ssize_t n, part, done;

	while ((n = read(from, buf, sizeof buf)) != 0) {
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			die("%s: %s", name, strerror(errno));
		for (done = 0; done < n; done += part) {
			part = write(to, buf + done, (size_t)(n - done));
			if (part == -1 && errno == EINTR)
				part = 0;
			else if (part == -1 && errno == EPIPE)
				exit(1);
			else if (part == -1)
				die("%s: %s", to_name, strerror(errno));
		}
	}
}

static char spooled[1024];	/* what came from stdin */

void
qstate_file_done(void)
{
	if (spooled[0] != '\0')
		unlink(spooled);
	spooled[0] = '\0';
}

/* A state is opened by its end, which a pipe does not have. */
static void
spool(void)
{
	const char *dir = getenv("TMPDIR");
	int fd;

	cli_need_stdin();
	if (dir == NULL || dir[0] == '\0')
		dir = "/tmp";
	if ((size_t)snprintf(spooled, sizeof spooled, "%s/qstate.XXXXXX",
	    dir) >= sizeof spooled)
		die("TMPDIR: the name is too long");
	if ((fd = mkstemp(spooled)) == -1)
		die("%s: %s", spooled, strerror(errno));
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
	spool();
	return spooled;
}

void
qstate_open(struct state *s, const char *operand)
{
	const char *path = qstate_file(operand, &s->name);

	cli_must(s->name, qwen_state_open(&s->f, path, &cli_err));
	s->info = qwen_state_info(s->f);
	qstate_file_done();
}

void
qstate_open_whole(struct state *s, const char *operand)
{
	qstate_open(s, operand);
	if (s->info->part)
		die("%s: a part of a state, from position %" PRIu64 " on",
		    s->name, s->info->from);
}

/* ---------------------------------------------------------------- printing */

const char *
qstate_bool(int v)
{
	return v ? "true" : "false";
}

void
qstate_json_fp(const char *key, const struct qwen_fp *fp)
{
	char hex[33];

	printf(",\"%s\":\"%s\"", key, qwen_fp_hex(fp, hex));
}

void
qstate_json_text(const char *before, const char *text)
{
	printf("%s", before);
	cli_json_string(text);
}
