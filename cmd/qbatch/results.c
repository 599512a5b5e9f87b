/* SPDX-License-Identifier: ISC */
/*
 * results.c - where results go: a file that grows by whole lines, so that
 * after a kill all but the last line of it can be trusted, and resumed from.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qbatch.h"

int
qbatch_result_next(struct tool_lines *l, struct tool_line *line,
    struct qbatch_result *out)
{
	struct qwen_err err;
	char *id;

	if (!tool_lines_next(l, line) || l->torn)
		return 0;
	if (qwen_result_parse(line->s, line->n, &out->number, &id,
	    &out->failed, &err) < 0) {
		if (err.code == QWEN_ENOMEM)
			cli_die_err(NULL, &err);
		die("%s: line %llu is not a result", l->name,
		    (unsigned long long)l->line);
	}
	out->id = qbatch_id_hash(id);
	free(id);
	return 1;
}

/* What is there; a line that was not written to its end goes. */
static void
read_results(struct qbatch_results *r)
{
	struct tool_lines l = { .fd = r->fd, .name = r->name };
	struct tool_line line;
	struct qbatch_result one;
	uint64_t end = 0;
	int made;

	while (qbatch_result_next(&l, &line, &one)) {
		qbatch_seen_put(&r->done, one.number, one.id, &made);
		if (!made)
			die("%s: line %llu is a second result for line %llu of "
			    "the input", r->name, (unsigned long long)l.line,
			    (unsigned long long)one.number);
		r->n_errors += (uint64_t)one.failed;
		end = l.offset;
	}
	tool_lines_fini(&l);
	if (ftruncate(r->fd, (off_t)end) == -1 ||
	    lseek(r->fd, 0, SEEK_END) == -1)
		die("%s: %s", r->name, strerror(errno));
}

/* 1 if it is a regular file. */
static int
open_file(struct qbatch_results *r, struct stat *st)
{
	r->fd = open(r->name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (r->fd == -1 && errno == EACCES) {	/* a FIFO, say */
		r->fd = open(r->name, O_WRONLY | O_APPEND | O_CLOEXEC);
		if (r->fd == -1 && errno == ENOENT)	/* or the folder */
			errno = EACCES;
	}
	if (r->fd == -1 || fstat(r->fd, st) == -1)
		die("%s: %s", r->name, strerror(errno));
	r->regular = S_ISREG(st->st_mode);
	if (r->regular)
		cli_lock(r->fd, r->name);
	return r->regular;
}

/* The file without what has failed takes the place of the one there is. */
static void
drop_failed(struct qbatch_results *r)
{
	struct tool_lines l = { .fd = r->fd, .name = r->name };
	struct cli_output *o = cli_output_open(r->name);
	struct qwen_text t = { 0 };
	struct qbatch_result one;
	struct tool_line line;
	uint64_t n = 0;

	while (qbatch_result_next(&l, &line, &one)) {
		n += (uint64_t)one.failed;
		if (one.failed)
			continue;
		t.n = 0;
		qwen_text_add(&t, line.s, line.n);
		qwen_text_str(&t, "\n");
		cli_write_all(cli_output_fd(o), r->name, &t);
	}
	tool_lines_fini(&l);
	qwen_text_fini(&t);
	if (n > 0)
		cli_output_commit(o);
	else
		cli_output_cancel(o);
}

void
qbatch_results_open(struct qbatch_results *r, const char *path, int resume,
    int retry)
{
	struct stat st;

	r->fd = STDOUT_FILENO;
	r->name = "stdout";
	if (path == NULL)
		return;
	r->name = path;
	if (!open_file(r, &st))
		return;
	if (retry) {
		drop_failed(r);
		close(r->fd);
		open_file(r, &st);
	}
	cli_spare_fd(r->fd, "where results go");
	if (resume || retry)
		read_results(r);
	else if (st.st_size > 0)
		die("%s: there are results in it; --resume goes on with it",
		    path);
}

/* Not all of a line found room: the file ends with the one before. */
static void
take_back(const struct qbatch_results *r, size_t n)
{
	off_t end = r->regular && n > 0 ? lseek(r->fd, 0, SEEK_CUR) : -1;

	if (end >= (off_t)n && ftruncate(r->fd, end - (off_t)n) == -1)
		return;		/* --resume cuts it off */
}

void
qbatch_results_write(struct qbatch_results *r, const struct qwen_text *line)
{
	size_t n = cli_write(r->fd, line);
	int error = errno;

	if (n == line->n)
		return;
	take_back(r, n);
	die("%s: %s", r->name, strerror(error));
}

void
qbatch_results_close(struct qbatch_results *r)
{
	if (r->regular && fsync(r->fd) == -1)
		die("%s: %s", r->name, strerror(errno));
	if (r->fd != STDOUT_FILENO && close(r->fd) == -1)
		die("%s: %s", r->name, strerror(errno));
	qbatch_seen_fini(&r->done);
}
