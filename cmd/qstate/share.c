/* SPDX-License-Identifier: ISC */
/* share.c - open the operands of the command line, print JSON. */
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
	const char *dir = getenv("TMPDIR");
	int fd;

	cli_need_stdin();
	if (dir == NULL || dir[0] == '\0')
		dir = "/tmp";
	if ((size_t)snprintf(spooled, sizeof spooled, "%s/qstate.XXXXXX",
	    dir) >= sizeof spooled)
		die("TMPDIR: its name is too long");
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

size_t
qstate_rows(const struct qwen_state_value *v)
{
	return v->type == QWEN_VALUE_LIST ? v->bytes / v->columns / v->width : 1;
}

/* Print a row of a list: "5 3"; in JSON [5,3], or 5 if it has one column. */
static void
print_row(const struct qwen_state_value *v, size_t row, int json)
{
	size_t i, n = v->columns, at = row * n;

	printf("%s", json && n > 1 ? "[" : "");
	for (i = 0; i < n; i++)
		printf("%s%" PRIu64, i == 0 ? "" : json ? "," : " ",
		    v->width == 4 ? ((const uint32_t *)v->data)[at + i] :
		    ((const uint64_t *)v->data)[at + i]);
	printf("%s", json && n > 1 ? "]" : "");
}

void
qstate_value(const struct qwen_state_value *v, size_t row, int json)
{
	const char *quote = json ? "\"" : "";
	size_t i;

	if (v->type == QWEN_VALUE_NUMBER)
		printf("%" PRIu64, *(const uint64_t *)v->data);
	else if (v->type == QWEN_VALUE_FLAG && json)
		printf("%s", qstate_bool(*(const int *)v->data));
	else if (v->type == QWEN_VALUE_FLAG)
		printf("%s%s", *(const int *)v->data ? "" : "un", v->name);
	else if (v->type == QWEN_VALUE_LIST)
		print_row(v, row, json);
	else if (v->data == NULL)
		printf("null");
	else if (v->type == QWEN_VALUE_TEXT && json)
		cli_json_string(v->data);
	else if (v->type == QWEN_VALUE_TEXT)
		cli_show(v->data, v->bytes);
	else {
		printf("%s", quote);
		for (i = 0; i < v->bytes; i++)
			printf("%02x", ((const unsigned char *)v->data)[i]);
		printf("%s", quote);
	}
}

void
qstate_json_value(const struct qwen_state_value *v)
{
	int list = v->type == QWEN_VALUE_LIST;
	size_t i;

	printf("%s", list ? "[" : "");
	for (i = 0; i < qstate_rows(v); i++) {
		printf("%s", i > 0 ? "," : "");
		qstate_value(v, i, 1);
	}
	printf("%s", list ? "]" : "");
}
