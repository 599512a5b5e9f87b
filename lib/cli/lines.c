/* SPDX-License-Identifier: ISC */
/* lines.c - lines of a file or pipe, and what was seen in them. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "cli/batch.h"

enum { STEP = 1 << 16 };

/* More bytes behind those there are; 0 at the end. */
static int
fill(struct cli_lines *l)
{
	size_t cap;
	ssize_t got;
	char *p;

	if (l->at > 0) {
		memmove(l->buf, l->buf + l->at, l->n - l->at);
		l->n -= l->at;
		l->at = 0;
	}
	if (l->cap - l->n < STEP) {
		cap = l->cap * 2 + 2 * STEP;
		if ((p = realloc(l->buf, cap)) == NULL)
			die("out of memory");
		l->buf = p;
		l->cap = cap;
	}
	do
		got = read(l->fd, l->buf + l->n, STEP);
	while (got == -1 && errno == EINTR);
	if (got == -1)
		die("%s: %s", l->name, strerror(errno));
	l->eof = got == 0;
	l->n += (size_t)got;
	return got > 0;
}

/* The rest of a line that is too long goes by. */
static void
skip(struct cli_lines *l)
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

int
cli_lines_next(struct cli_lines *l, struct cli_line *out)
{
	size_t seen = 0;
	char *end = NULL;

	for (;;) {
		if (l->n - l->at > seen)
			end = memchr(l->buf + l->at + seen, '\n',
			    l->n - l->at - seen);
		seen = l->n - l->at;
		if (end != NULL || l->eof || seen > CLI_LINE_MAX)
			break;
		fill(l);
	}
	if (end == NULL && l->eof && seen == 0)
		return 0;
	l->line++;
	out->s = l->buf + l->at;
	out->n = end != NULL ? (size_t)(end - out->s) : seen;
	if (out->n > CLI_LINE_MAX) {
		out->s = NULL;
		skip(l);
		return 1;
	}
	l->torn = end == NULL;
	l->at += out->n + (end != NULL);
	l->offset += out->n + (end != NULL);
	return 1;
}

int
cli_line_is_blank(const struct cli_line *line)
{
	size_t i;

	for (i = 0; line->s != NULL && i < line->n; i++) {
		if (strchr(" \t\r", line->s[i]) == NULL || line->s[i] == '\0')
			return 0;
	}
	return line->s != NULL;
}

int
cli_lines_waiting(const struct cli_lines *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	if (l->eof || (l->n > l->at &&
	    memchr(l->buf + l->at, '\n', l->n - l->at) != NULL))
		return 1;
	return poll(&p, 1, 0) != 0;
}

uint64_t
cli_lines_count(int fd)
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
cli_lines_fini(struct cli_lines *l)
{
	free(l->buf);
	l->buf = NULL;
}

/* ------------------------------------------------------- what was seen */

static struct cli_seen_entry *
place(const struct cli_seen *s, uint64_t key)
{
	/* keys are numbers in order, too: spread them */
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15 >> 20) & (s->cap - 1);

	while (s->e[i].key != 0 && s->e[i].key != key)
		i = (i + 1) & (s->cap - 1);
	return &s->e[i];
}

static void
grow(struct cli_seen *s)
{
	struct cli_seen old = *s;
	size_t i;

	s->cap = old.cap == 0 ? 256 : old.cap * 2;
	if ((s->e = calloc(s->cap, sizeof *s->e)) == NULL)
		die("out of memory");
	for (i = 0; i < old.cap; i++) {
		if (old.e[i].key != 0)
			*place(s, old.e[i].key) = old.e[i];
	}
	free(old.e);
}

struct cli_seen_entry *
cli_seen_put(struct cli_seen *s, uint64_t key, uint64_t value, int *made)
{
	struct cli_seen_entry *e;

	if (s->n >= s->cap / 2)
		grow(s);
	e = place(s, key);
	if ((*made = e->key == 0)) {
		e->key = key;
		e->value = value;
		s->n++;
	}
	return e;
}

struct cli_seen_entry *
cli_seen_find(const struct cli_seen *s, uint64_t key)
{
	struct cli_seen_entry *e;

	if (s->cap == 0)
		return NULL;
	e = place(s, key);
	return e->key == key ? e : NULL;
}

void
cli_seen_fini(struct cli_seen *s)
{
	free(s->e);
	memset(s, 0, sizeof *s);
}

uint64_t
cli_id_hash(const char *id)
{
	uint64_t h = id == NULL ? 1 : XXH3_64bits(id, strlen(id));

	return h != 0 ? h : 2;
}
