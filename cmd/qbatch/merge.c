/* SPDX-License-Identifier: ISC */
/*
 * merge.c - results of several runs, by the numbers of the lines that
 * they answer.  Only where each line is stays in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qbatch.h"

struct place {
	uint64_t	number;
	uint64_t	offset;
	size_t		n;	/* bytes, the newline not among them */
	int		file;
	int		failed;
};

struct merge {
	char *const	*name;
	int		*fd;
	struct place	*place;
	size_t		 n, cap;
};

static void
scan(struct merge *m, int file)
{
	struct tool_lines l = { .fd = m->fd[file], .name = m->name[file] };
	struct tool_line line;
	struct qbatch_result one;
	struct place p = { .file = file };

	for (; qbatch_result_next(&l, &line, &one); p.offset = l.offset) {
		p.number = one.number;
		p.failed = one.failed;
		p.n = line.n;
		cli_grow(&m->place, &m->cap, m->n + 1, sizeof p);
		m->place[m->n++] = p;
	}
	if (l.torn)
		die("%s: the last line is not complete: resume the run",
		    l.name);
	tool_lines_fini(&l);
}

/* By number, and what has failed last. */
static int
compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	if (x->failed != y->failed)
		return x->failed - y->failed;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The line, with its newline. */
static void
load(const struct merge *m, const struct place *p, struct qwen_text *t)
{
	size_t at = 0;
	ssize_t got;

	t->n = 0;
	qwen_text_fmt(t, "%*s\n", (int)p->n, "");
	if (t->failed)
		die("out of memory");
	while (at < p->n) {
		got = pread(m->fd[p->file], t->s + at, p->n - at,
		    (off_t)(p->offset + at));
		if (got == -1 && errno == EINTR)
			continue;
		if (got <= 0)
			die("%s: %s", m->name[p->file], got == 0 ?
			    "it became shorter" : strerror(errno));
		at += (size_t)got;
	}
}

/*
 * A line twice is welcome if it says the same, for a part that was done again; or
 * if it failed the other time.
 */
static void
check_again(const struct merge *m, const struct place *p)
{
	struct qwen_text a = { 0 }, b = { 0 };

	if (p[1].failed)
		return;
	load(m, &p[0], &a);
	load(m, &p[1], &b);
	if (a.n != b.n || memcmp(a.s, b.s, a.n) != 0)
		die("%s and %s have different results for line %llu",
		    m->name[p[0].file], m->name[p[1].file],
		    (unsigned long long)p->number);
	qwen_text_fini(&a);
	qwen_text_fini(&b);
}

/* In order, each line once. */
static void
sort_all(struct merge *m)
{
	size_t i, n = 0;

	if (m->n == 0)
		return;
	qsort(m->place, m->n, sizeof *m->place, compare);
	for (i = 1; i < m->n; i++) {
		if (m->place[i].number == m->place[i - 1].number)
			check_again(m, &m->place[i - 1]);
	}
	for (i = 0; i < m->n; i++) {
		if (i == 0 || m->place[i].number != m->place[n - 1].number)
			m->place[n++] = m->place[i];
	}
	m->n = n;
}

static void
write_all(const struct merge *m, const char *path)
{
	struct cli_output *o = cli_output_open(path);
	struct qwen_text line = { 0 };
	size_t i;

	for (i = 0; i < m->n; i++) {
		load(m, &m->place[i], &line);
		cli_write_all(cli_output_fd(o), cli_output_name(o), &line);
	}
	qwen_text_fini(&line);
	cli_output_commit(o);
}

void
qbatch_merge(char *const *files, int n, const char *path)
{
	struct merge m = { .name = files };
	uint64_t failed = 0;
	size_t k;
	int i;

	m.fd = cli_got(calloc((size_t)n, sizeof *m.fd));
	for (i = 0; i < n; i++) {
		m.fd[i] = open(files[i], O_RDONLY | O_CLOEXEC);
		if (m.fd[i] == -1)
			die("%s: %s", files[i], strerror(errno));
		scan(&m, i);
	}
	sort_all(&m);
	write_all(&m, path);
	for (i = 0; i < n; i++)
		close(m.fd[i]);
	for (k = 0; k < m.n; k++)
		failed += (uint64_t)m.place[k].failed;
	if (failed > 0)
		cli_warn_part("%llu of %s failed", (unsigned long long)failed,
		    cli_count(m.n, "item"));
	free(m.place);
	free(m.fd);
}
