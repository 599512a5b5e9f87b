/* SPDX-License-Identifier: ISC */
/*
 * results.c - write results to a file that grows by whole lines.  After a kill,
 * only its last line can be incomplete, so the run can be resumed.  The file is
 * changed only after all of it was read and found to be results of this run.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qbatch.h"

/*
 * Open a regular file, or a new one, for reading too.  A FIFO is opened only
 * for writing: otherwise this process would count as its reader, and results
 * that no other process reads would be lost.
 */
static int
open_once(const char *name)
{
	const int how = O_APPEND | O_CLOEXEC;
	struct stat st;

	return stat(name, &st) == 0 && !S_ISREG(st.st_mode) ?
	    open(name, O_WRONLY | how) :
	    open(name, O_RDWR | O_CREAT | how, 0666);
}

/*
 * Open r->name, and lock it if it is a regular file.  While we wait for the
 * lock, its owner may replace the file.  So check that the open file still has
 * the name; if not, open again.
 */
static void
open_file(struct qbatch_results *r, struct stat *st)
{
	struct stat named;

	for (;;) {
		r->fd = open_once(r->name);
		if (r->fd == -1 || fstat(r->fd, st) == -1)
			die("%s: %s", r->name, strerror(errno));
		r->regular = S_ISREG(st->st_mode);
		if (!r->regular)
			return;
		cli_must(r->name, cli_check_protected(r->fd, &cli_err));
		cli_lock(r->fd, r->name);
		/* the owner of the lock may have changed the size */
		if (fstat(r->fd, st) == -1)
			die("%s: %s", r->name, strerror(errno));
		if (stat(r->name, &named) == 0 && named.st_dev == st->st_dev &&
		    named.st_ino == st->st_ino)
			break;
		close(r->fd);
	}
	r->linked = st->st_nlink > 0;
}

/*
 * Die if the file was removed or replaced: without a name, it is lost when
 * closed.
 */
static void
check_linked(const struct qbatch_results *r)
{
	struct stat st;

	if (r->linked && fstat(r->fd, &st) == 0 && st.st_nlink == 0)
		die("%s: another program removed or replaced this file while "
		    "qbatch wrote to it: the results are lost", r->name);
}

void
qbatch_results_open(struct qbatch_results *r, const char *path, int resume)
{
	struct stat st;
	const char *what;
	char buf[512];
	ssize_t n;

	r->fd = STDOUT_FILENO;
	r->name = "stdout";
	if (path == NULL)
		return;
	r->name = path;
	open_file(r, &st);
	if (r->regular && (n = pread(r->fd, buf, sizeof buf, 0)) > 0 &&
	    buf[0] != '{') {
		what = tool_not_text(buf, (size_t)n, 0);
		die("%s: this is %s, not results: give another file to -o", path,
		    what != NULL ? what : "text");
	}
	if (r->regular && !resume && st.st_size > 0)
		die("%s: has results already; --resume keeps them and continues",
		    path);
}

void
qbatch_results_peek(struct qbatch_results *r, const char *path)
{
	struct stat st;

	r->name = path;
	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (r->fd == -1 && errno == ENOENT)
		return;
	if (r->fd == -1 || fstat(r->fd, &st) == -1)
		die("%s: %s", path, strerror(errno));
	r->regular = S_ISREG(st.st_mode);
}

void
qbatch_results_read(struct qbatch_results *r, int retry_failed,
    const struct qbatch_origin *retry_cut)
{
	struct qbatch_index *ix = &r->done;
	struct qbatch_index_entry *p;
	size_t i, n = 0;

	if (!r->regular)
		return;
	r->torn = qbatch_index_scan(ix, r->fd, r->name, 0, &r->end);
	for (i = 0; i < ix->n; i++) {
		p = &ix->entry[i];
		/* not again if it was cut at a limit as large as the new one */
		if (p->failed ? !retry_failed : retry_cut == NULL || !p->cut ||
		    (p->origin > 0 && qbatch_origin_cuts(
		    &ix->origin[p->origin - 1], retry_cut)))
			ix->entry[n++] = *p;
	}
	r->drops = n < ix->n;
	ix->n = n;
	/* all remaining cut answers have a limit not below the new one */
	for (i = 0; retry_cut != NULL && i < ix->n_origins; i++)
		ix->origin[i].cut = 0;
	qbatch_index_sort(ix);
	for (i = 1; i < n; i++) {
		p = &ix->entry[i];
		if (p->number == p[-1].number)
			die("%s: line %llu is a second result for line %llu of "
			    "the input", r->name, cli_llu(p->line),
			    cli_llu(p->number));
	}
	if (ix->n_unrecorded > 0)
		cli_note("%s: %s by an older qbatch, which recorded no model, "
		    "options and request: kept unchecked", r->name,
		    cli_count(ix->n_unrecorded, "result"));
}

static int
by_offset(const void *a, const void *b)
{
	const struct qbatch_index_entry *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Replace the file by one with only the results to keep, in their order. */
static void
rewrite(struct qbatch_results *r)
{
	struct cli_output *o = cli_output_open(r->name);
	struct qbatch_index *ix = &r->done;
	struct qwen_text line = { 0 };
	struct stat st;
	size_t i;

	if (ix->n > 0)
		qsort(ix->entry, ix->n, sizeof *ix->entry, by_offset);
	r->end = 0;
	for (i = 0; i < ix->n; i++) {
		qbatch_index_load(&ix->entry[i], r->fd, r->name, &line);
		cli_write_all(cli_output_fd(o), r->name, &line);
		r->end += line.n;
	}
	qwen_text_fini(&line);
	cli_output_commit(o);
	close(r->fd);
	open_file(r, &st);
	if ((uint64_t)st.st_size != r->end)
		die("%s: another process is writing it", r->name);
	qbatch_index_sort(ix);
}

void
qbatch_results_begin(struct qbatch_results *r)
{
	if (!r->regular)
		return;
	if (r->drops)
		rewrite(r);
	cli_protect_fd(r->fd, "the file of results");
	if (ftruncate(r->fd, (off_t)r->end) == -1 ||
	    lseek(r->fd, 0, SEEK_END) == -1)
		die("%s: %s", r->name, strerror(errno));
}

void
qbatch_index_load(const struct qbatch_index_entry *p, int fd, const char *name,
    struct qwen_text *t)
{
	char buf[1 << 16];
	size_t left;
	ssize_t got;

	t->n = 0;
	for (left = p->n; left > 0; left -= (size_t)got) {
		got = pread(fd, buf, left < sizeof buf ? left : sizeof buf,
		    (off_t)(p->offset + p->n - left));
		if (got <= 0)
			die("%s: %s", name, got == 0 ?
			    "the file became shorter" : strerror(errno));
		qwen_text_add(t, buf, (size_t)got);
	}
	qwen_text_str(t, "\n");
	if (t->failed)
		die("out of memory");
}

void
qbatch_results_write(struct qbatch_results *r, const struct qwen_text *line)
{
	size_t n = cli_write(r->fd, line);
	int error = errno;
	off_t end;

	if (n == line->n) {
		check_linked(r);
		return;
	}
	/* remove what was written; if that fails, --resume does it later */
	end = r->regular && n > 0 ? lseek(r->fd, 0, SEEK_CUR) : -1;
	if (end >= (off_t)n)
		(void)!ftruncate(r->fd, end - (off_t)n);
	die("%s: %s", r->name, strerror(error));
}

void
qbatch_results_close(struct qbatch_results *r)
{
	check_linked(r);
	if (r->regular && fsync(r->fd) == -1)
		die("%s: %s", r->name, strerror(errno));
	if (r->fd != STDOUT_FILENO && close(r->fd) == -1)
		die("%s: %s", r->name, strerror(errno));
}
