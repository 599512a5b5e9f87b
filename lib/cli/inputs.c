/* SPDX-License-Identifier: ISC */
/*
 * inputs.c - the files that a run reads, which no output may replace.
 *
 * The option rows and the operands tell which files the command line names,
 * before any file is opened.  Tools add other files, such as the shards of a
 * model, with cli_protect_input().
 */
#include <sys/stat.h>

#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/internal.h"

static struct input {
	dev_t		 dev;
	ino_t		 ino;
	const char	*what;		/* "the file on stdin"; NULL: see row */
	const struct cli_opt *row;	/* option that reads the file */
	int		 inout;		/* the option "output" may replace it */
} *inputs;

#define STDIN_FILE "the file on stdin"

static size_t n_inputs, cap_inputs;

static struct input *
find_input(const struct stat *st)
{
	size_t i;

	for (i = 0; i < n_inputs; i++) {
		if (inputs[i].dev == st->st_dev && inputs[i].ino == st->st_ino)
			return &inputs[i];
	}
	return NULL;
}

/* Adds an input; for a known file, changes only an entry with inout set. */
static void
add_input(const struct stat *st, const char *what, const struct cli_opt *row,
    int inout)
{
	struct input *in;

	if (!S_ISREG(st->st_mode))
		return;
	if ((in = find_input(st)) != NULL) {
		in->what = in->inout ? what : in->what;
		in->row = in->inout ? row : in->row;
		in->inout &= inout;
		return;
	}
	cli_grow(&inputs, &cap_inputs, n_inputs + 1, sizeof *inputs);
	inputs[n_inputs].dev = st->st_dev;
	inputs[n_inputs].ino = st->st_ino;
	inputs[n_inputs].inout = inout;
	inputs[n_inputs].row = row;
	inputs[n_inputs++].what = what;
}

void
cli_protect_fd(int fd, const char *what)
{
	struct stat st;

	if (fstat(fd, &st) == 0)
		add_input(&st, what, NULL, 0);
}

void
cli_protect_input(const char *path, const char *what)
{
	struct stat st;

	if (stat(path, &st) == 0)
		add_input(&st, what, NULL, 0);
}

static int
refuse(const struct input *in, struct qwen_err *err)
{
	if (in->what != NULL)
		return qwen_fail(err, QWEN_EIO, "this is %s: not replaced",
		    in->what);
	return qwen_fail(err, QWEN_EIO, "this is what %s reads: not replaced",
	    cli_opt_name(in->row));
}

int
cli_check_replace(const struct stat *st, struct qwen_err *err)
{
	const struct input *in = find_input(st);

	return in == NULL || in->inout ? 0 : refuse(in, err);
}

int
cli_check_protected(int fd, struct qwen_err *err)
{
	struct stat st;

	return fstat(fd, &st) == -1 ? 0 : cli_check_replace(&st, err);
}

/* --------------------------------------------------------- the command line */

/* Is completes of this kind, perhaps with a suffix? */
static int
is(const char *completes, const char *kind)
{
	size_t n = strlen(kind);

	return completes != NULL && strncmp(completes, kind, n) == 0 &&
	    (completes[n] == '\0' || completes[n] == ' ');
}

void
cli_add_input(const char *completes, const char *path, const char *what,
    const struct cli_opt *row)
{
	struct stat st;

	if (path != NULL && (is(completes, "file") || is(completes, "inout")) &&
	    strcmp(path, "-") != 0 && stat(path, &st) == 0)
		add_input(&st, what, row, is(completes, "inout"));
}

void
cli_check_output(const struct cli_opt *o, const char *path)
{
	const struct input *in;
	struct stat st;

	if (path == NULL || !is(o->completes, "output") ||
	    strcmp(path, "-") == 0 || stat(path, &st) == -1 ||
	    (in = find_input(&st)) == NULL || (in->inout &&
	    strcmp(o->name, "output") == 0))
		return;
	cli_must(path, refuse(in, &cli_err));
}

/*
 * A tool that reads its own output would never end, and ">" has already emptied
 * the file.
 */
void
cli_check_stdio(int appends)
{
	const struct input *in;
	struct stat st;

	cli_protect_fd(STDIN_FILENO, STDIN_FILE);
	if (fstat(STDOUT_FILENO, &st) == -1 || (in = find_input(&st)) == NULL)
		return;
	if (in->what == NULL)
		die("stdout: this is what %s reads: write to another file",
		    cli_opt_name(in->row));
	if (!appends || strcmp(in->what, STDIN_FILE) != 0)
		die("stdout: this is %s: write to another file", in->what);
}
