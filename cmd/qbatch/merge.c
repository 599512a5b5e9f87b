/* SPDX-License-Identifier: ISC */
/*
 * merge.c - merge the results of several runs by their line numbers, and count
 * them for --status.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qbatch.h"

struct merge {
	const char		**name;
	int			*fd;
	int			 n_files;
	struct qbatch_index	 ix;
};

enum { OTHER_FILES = 32 };	/* other files that are open */

/*
 * Copy a pipe to a temporary file without a name, since results are not read in
 * order.  Return its descriptor.
 */
static int
keep_pipe(int fd, const char *name)
{
	static char buf[1 << 16];
	FILE *f = tmpfile();
	size_t got;

	while (f != NULL && (got = cli_read(fd, name, buf, sizeof buf)) > 0) {
		if (fwrite(buf, 1, got, f) < got)
			break;
	}
	if (f == NULL || fflush(f) == EOF || ferror(f))
		die("%s: cannot copy this pipe to a temporary file: %s",
		    name, strerror(errno));
	close(fd);
	rewind(f);
	fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 0);
	if (fd == -1)
		die("%s: %s", name, strerror(errno));
	fclose(f);
	return fd;
}

/* Open a file to read; "-" is stdin.  The output may be the same file. */
static int
open_results(const char *path, const char **name)
{
	int is_stdin = strcmp(path, "-") == 0;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	*name = is_stdin ? "stdin" : path;
	if (is_stdin)
		cli_need_stdin();
	if (fd == -1 || fstat(fd, &st) == -1)
		die("%s: %s", *name, strerror(errno));
	return S_ISFIFO(st.st_mode) ? keep_pipe(fd, *name) : fd;
}

static void
open_all(struct merge *m, char *const *files, int n, int may_be_torn)
{
	uint64_t end;
	int i;

	m->n_files = n;
	m->fd = cli_check_alloc(calloc((size_t)n, sizeof *m->fd));
	m->name = cli_check_alloc(calloc((size_t)n, sizeof *m->name));
	/* a job array may have more files of results than the limit allows */
	tool_fd_limit((uint64_t)n + OTHER_FILES);
	for (i = 0; i < n; i++) {
		m->fd[i] = open_results(files[i], &m->name[i]);
		if (qbatch_index_scan(&m->ix, m->fd[i], m->name[i], (unsigned)i,
		    &end) && !may_be_torn)
			die("%s: the last line is not complete: resume the run",
			    m->name[i]);
	}
	qbatch_index_sort(&m->ix);
	if (m->ix.n_unrecorded > 0)
		cli_note("%s by an older qbatch, which recorded no model, "
		    "options and request: merged unchecked",
		    cli_count(m->ix.n_unrecorded, "result"));
}

static void
load(const struct merge *m, const struct qbatch_index_entry *p,
    struct qwen_text *t)
{
	qbatch_index_load(p, m->fd[p->file], m->name[p->file], t);
}

/*
 * Check two results of one line, p[0] and p[1].  Die if they differ, unless one
 * is an error; equal ones come from a part that was run twice.
 */
static void
check_duplicate(const struct merge *m, const struct qbatch_index_entry *p)
{
	struct qwen_text a = { 0 }, b = { 0 };

	if (p[1].failed)
		return;
	load(m, &p[0], &a);
	load(m, &p[1], &b);
	if (a.n != b.n || memcmp(a.s, b.s, a.n) != 0)
		die("%s and %s have different results for line %llu",
		    m->name[p[0].file], m->name[p[1].file], cli_llu(p->number));
	qwen_text_fini(&a);
	qwen_text_fini(&b);
}

/* Keep one result per line. */
static void
drop_duplicates(struct merge *m)
{
	struct qbatch_index *ix = &m->ix;
	size_t i, n = 0;

	for (i = 1; i < ix->n; i++) {
		if (ix->entry[i].number == ix->entry[i - 1].number)
			check_duplicate(m, &ix->entry[i - 1]);
	}
	for (i = 0; i < ix->n; i++) {
		if (i == 0 || ix->entry[i].number != ix->entry[n - 1].number)
			ix->entry[n++] = ix->entry[i];
	}
	ix->n = n;
}

/* Without an input: lines without a result are the gaps between the numbers. */
static void
find_gaps(const struct qbatch_index *ix, struct qbatch_survey *s)
{
	uint64_t next = 1, number;
	size_t i;

	for (i = 0; i < ix->n; i++) {
		number = ix->entry[i].number;
		if (number > next)
			qbatch_ranges_add(&s->lacking, next, number - 1);
		next = number + 1;
	}
	s->n = next - 1;
}

#define WAY_ON "--mixed merges them anyway"

/* Compare the results with the input. */
static void
survey_file(struct qbatch_survey *s, const struct merge *m, const char *input,
    int mixed)
{
	struct tool_lines in = { 0 };

	tool_lines_open(&in, input);
	in.max = QBATCH_LINE_MAX;
	qbatch_survey(s, &m->ix, &in);
	qbatch_survey_check(s, m->n_files == 1 ? m->name[0] : "the results",
	    in.name, mixed, WAY_ON);
}

/* Warn of failed, cut and missing results; the exit status is then 3. */
static void
warn_unfinished(const struct qbatch_index *ix, struct qbatch_survey *s, int of)
{
	struct qbatch_tally t;

	qbatch_index_count(ix, &t);
	if (t.failed > 0)
		cli_warn_part("%llu of %s failed", cli_llu(t.failed),
		    cli_count(t.n, "item"));
	if (t.broken > 0)
		cli_warn_part(QBATCH_BROKEN, cli_count(t.broken, "answer"));
	if (s->lacking.n > 0)
		cli_warn_part("%llu of %s %s no result: %s%s",
		    cli_llu(s->lacking.n), cli_count(s->n, "line"),
		    s->lacking.n == 1 ? "has" : "have",
		    qbatch_ranges_text(&s->lacking), of ? "" :
		    " (--of input also finds those at the end)");
}

void
qbatch_merge(char *const *files, int n, const char *output, const char *input,
    int mixed)
{
	static struct merge m;
	struct qbatch_survey s = { 0 };
	struct qwen_text line = { 0 };
	struct cli_output *o;
	size_t i;

	open_all(&m, files, n, 0);
	if (!mixed)
		qbatch_index_check(&m.ix, NULL, WAY_ON);
	drop_duplicates(&m);
	if (input != NULL)
		survey_file(&s, &m, input, mixed);
	else
		find_gaps(&m.ix, &s);
	o = cli_output_open(output);
	for (i = 0; i < m.ix.n; i++) {
		load(&m, &m.ix.entry[i], &line);
		cli_write_all(cli_output_fd(o), cli_output_name(o), &line);
	}
	qwen_text_fini(&line);
	cli_output_commit(o);
	warn_unfinished(&m.ix, &s, input != NULL);
	qbatch_survey_fini(&s);
}

void
qbatch_status(char *const *files, int n)
{
	static struct merge m;
	struct qbatch_survey s = { 0 };
	struct qbatch_tally t;

	open_all(&m, files, n - 1, 1);
	drop_duplicates(&m);
	survey_file(&s, &m, files[n - 1], 1);
	qbatch_index_count(&m.ix, &t);
	printf("requests %llu\ndone     %llu\nfailed   %llu\ncut      "
	    "%llu\nleft     %llu\n", cli_llu(s.n), cli_llu(t.n - t.failed),
	    cli_llu(t.failed), cli_llu(t.cut), cli_llu(s.lacking.n));
	if (s.other.n > 0)
		cli_warn_part("%s changed since %s answered: %s",
		    cli_count(s.other.n, "line"), s.other.n == 1 ? "it was" :
		    "they were", qbatch_ranges_text(&s.other));
	warn_unfinished(&m.ix, &s, 1);
	qbatch_survey_fini(&s);
}
