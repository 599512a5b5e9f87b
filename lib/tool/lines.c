/* SPDX-License-Identifier: ISC */
/* lines.c - lines of a file or pipe, of any length. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/tool.h"

enum { STEP = 1 << 16 };

/* Reads more bytes into buf; returns 0 at the end. */
static int
fill(struct tool_lines *l)
{
	size_t got;

	if (l->at > 0) {
		memmove(l->buf, l->buf + l->at, l->n - l->at);
		l->n -= l->at;
		l->at = 0;
	}
	cli_grow(&l->buf, &l->cap, l->n + STEP, 1);
	got = cli_read(l->fd, l->name, l->buf + l->n, STEP);
	l->eof = got == 0;
	l->n += got;
	return got > 0;
}

/* Skips the rest of a line that is too long. */
static void
skip(struct tool_lines *l)
{
	char *end;

	for (;;) {
		end = memchr(l->buf + l->at, '\n', l->n - l->at);
		if (end != NULL) {
			l->offset += (size_t)(end + 1 - (l->buf + l->at));
			l->at = (size_t)(end + 1 - l->buf);
			return;
		}
		l->offset += l->n - l->at;
		l->at = l->n;
		if (!fill(l)) {
			l->torn = 1;
			return;
		}
	}
}

void
tool_lines_open(struct tool_lines *l, const char *file)
{
	l->fd = cli_open(file, &l->name);
	if (l->fd == -1)
		die("%s: %s", l->name, strerror(errno));
}

void
tool_lines_check(const struct tool_lines *l, const struct tool_line *line,
    const char *hint)
{
	const char *other = l->line != 1 || line->s == NULL ? NULL :
	    tool_not_text(line->s, line->n, 1);

	if (other != NULL)
		die("%s: this is %s, not %s", l->name, other, hint);
}

int
tool_lines_next(struct tool_lines *l, struct tool_line *out)
{
	size_t max = l->max != 0 ? l->max : TOOL_LINE_MAX, seen = 0;
	char *end = NULL;

	for (;;) {
		if (l->n - l->at > seen)
			end = memchr(l->buf + l->at + seen, '\n',
			    l->n - l->at - seen);
		seen = l->n - l->at;
		if (end != NULL || l->eof || seen > max)
			break;
		fill(l);
	}
	if (end == NULL && l->eof && seen == 0)
		return 0;
	l->line++;
	out->s = l->buf + l->at;
	out->n = end != NULL ? (size_t)(end - out->s) : seen;
	if (out->n > max) {
		out->s = NULL;
		out->n = max;
		skip(l);
		return 1;
	}
	l->torn = end == NULL;
	l->at += out->n + (end != NULL);
	l->offset += out->n + (end != NULL);
	return 1;
}

int
tool_line_is_blank(const struct tool_line *line)
{
	size_t i;

	for (i = 0; line->s != NULL && i < line->n; i++) {
		if (strchr(" \t\r", line->s[i]) == NULL || line->s[i] == '\0')
			return 0;
	}
	return line->s != NULL;
}

int
tool_lines_waiting(const struct tool_lines *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	if (l->eof || (l->n > l->at &&
	    memchr(l->buf + l->at, '\n', l->n - l->at) != NULL))
		return 1;
	return poll(&p, 1, 0) != 0;
}

uint64_t
tool_lines_count(int fd)
{
	static char buf[STEP];
	off_t at = lseek(fd, 0, SEEK_CUR);
	uint64_t count = 0;
	ssize_t n, i;

	while (at != -1 && (n = pread(fd, buf, sizeof buf, at)) > 0) {
		for (i = 0; i < n; i++)
			count += buf[i] == '\n';
		at += n;
	}
	return count;
}

void
tool_lines_fini(struct tool_lines *l)
{
	free(l->buf);
	l->buf = NULL;
}
