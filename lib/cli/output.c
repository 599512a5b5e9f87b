/* SPDX-License-Identifier: ISC */
/*
 * output.c - output files that appear complete or not at all: see base/draft.h.
 * The draft of DIR/NAME is DIR/.NAME.qpipe-tmp for every process; NAME is shortened
 * there if the name would be too long.  The draft is removed when the tool exits.
 */
#include <sys/stat.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/draft.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/internal.h"

enum { MAX_LINKS = 40, PATIENCE_S = 3, N_DOOMED = 4 };

struct cli_output {
	char	*name;		/* as the user gave it */
	mode_t	 mode;		/* of the existing target, or 0 */
	struct qwen_draft d;	/* temp is NULL: written in place */
};

/* ---------------------------------------------------------------- signals */

static const int fatal_signals[] = {
	SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXCPU,
};

/* Drafts to remove; a tool has no more outputs at a time. */
static const char *volatile doomed[N_DOOMED];
static volatile sig_atomic_t busy;	/* renaming: leave it alone */
static volatile sig_atomic_t pending;	/* a signal that came meanwhile */

void
cli_output_abandon(void)
{
	size_t i;

	for (i = 0; i < N_DOOMED; i++) {
		if (doomed[i] != NULL && !busy)
			unlink(doomed[i]);
		doomed[i] = NULL;
	}
}

/*
 * Makes only async-signal-safe calls.  It ends the tool here, rather than setting a
 * flag for a loop, so that the tool stops at once during a computation.
 */
static void
on_signal(int sig)
{
	if (busy) {
		pending = sig;
		return;
	}
	cli_output_abandon();
	signal(sig, SIG_DFL);
	raise(sig);
}

/* From here to let_go() signals wait, since the list of drafts changes. */
static void
hold(void)
{
	static int registered;
	struct sigaction sa, old;
	size_t i;

	busy = 1;
	if (registered)
		return;
	if (atexit(cli_output_abandon) != 0)
		cli_must(NULL, qwen_oom(&cli_err));
	registered = 1;
	memset(&sa, 0, sizeof sa);
	sa.sa_handler = on_signal;
	sigfillset(&sa.sa_mask);
	for (i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++) {
		/* leave alone signals that nohup or the tool ignores */
		if (sigaction(fatal_signals[i], NULL, &old) == 0 &&
		    old.sa_handler == SIG_DFL)
			sigaction(fatal_signals[i], &sa, NULL);
	}
}

/* From here the draft, if it exists, is removed when the program ends. */
static void
let_go(const char *temp, int there)
{
	size_t i, slot = N_DOOMED;

	for (i = 0; i < N_DOOMED; i++) {
		if (doomed[i] == temp)
			doomed[i] = NULL;
		if (doomed[i] == NULL)
			slot = i;
	}
	assert(!there || slot < N_DOOMED);
	if (there)
		doomed[slot] = temp;
	busy = 0;
	if (pending != 0)
		on_signal(pending);
}

/* ------------------------------------------------------------------ paths */

/* Returns the length of the folder part of a path, with its slash. */
static size_t
folder_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/*
 * Returns the path after following symbolic links; the file need not exist.  NULL
 * with errno on failure.
 */
static char *
resolve(const char *path)
{
	char *at = cli_format("%s", path), *next;
	char text[PATH_MAX];
	ssize_t n;
	int i;

	for (i = 0; i < MAX_LINKS; i++) {
		n = readlink(at, text, sizeof text - 1);
		if (n == -1)
			return at;	/* not a link, or no file */
		text[n] = '\0';
		/* absolute, or relative to the link's folder */
		next = text[0] == '/' ? cli_format("%s", text) :
		    cli_format("%.*s%s", (int)folder_len(at), at, text);
		free(at);
		at = next;
	}
	free(at);
	errno = ELOOP;
	return NULL;
}

/* -------------------------------------------------------------- the draft */

static int
by_errno(struct qwen_err *err)
{
	return qwen_fail_errno(err, "%s", "");
}

/* Returns whether another output already has this draft. */
static int
is_twice(const struct cli_output *o)
{
	struct stat a, b;
	size_t i;

	for (i = 0; i < N_DOOMED; i++) {
		if (doomed[i] != NULL && fstat(o->d.fd, &a) == 0 &&
		    stat(doomed[i], &b) == 0 && a.st_dev == b.st_dev &&
		    a.st_ino == b.st_ino)
			return 1;
	}
	return 0;
}

/*
 * A tool that continues after a commit holds the lock of the new target until
 * the next draft exists.
 */
static int
make_temp(struct cli_output *o, struct qwen_err *err)
{
	int rc = qwen_draft_open(&o->d, o->mode != 0 ? 0600 : 0666, err);

	if (rc != 1)
		return rc;
	if (is_twice(o))
		rc = qwen_fail(err, QWEN_EIO, "two outputs name this file");
	else if (qwen_draft_in_use(AT_FDCWD, o->d.name))
		rc = 0;
	else if (o->mode != 0 && fchmod(o->d.fd, o->mode & 07777) == -1)
		rc = by_errno(err);
	if (rc != 1)
		qwen_draft_drop(&o->d);
	return rc;
}

/*
 * Waits, and returns whether to try again: a killed process that was writing holds
 * its locks for a moment longer.
 */
static int
patience(double *until)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	if (*until == 0)
		*until = cli_now() + PATIENCE_S;
	nanosleep(&pause, NULL);
	return cli_now() < *until;
}

void
cli_lock(int fd, const char *name)
{
	double until = 0;
	int got;

	while ((got = qwen_draft_lock(fd)) != 1) {
		if (got == -1)
			die("%s: lock: %s", name, strerror(errno));
		if (!patience(&until))
			die("%s: another process is writing it", name);
	}
}

static int
open_temp(struct cli_output *o, struct qwen_err *err)
{
	double until = 0;
	int rc;

	for (hold(); (rc = make_temp(o, err)) != 1; hold()) {
		let_go(o->d.temp, 0);
		if (rc == -1)
			return -1;
		if (!patience(&until))
			return qwen_fail(err, QWEN_EIO,
			    "another process is writing it");
	}
	let_go(o->d.temp, 1);
	return 0;
}

/* Opens the file at path; in place if it is not a regular file. */
static int
open_output(struct cli_output *o, const char *path, struct qwen_err *err)
{
	struct stat st;
	int n;

	if (stat(path, &st) == 0) {
		if (!S_ISREG(st.st_mode)) {
			o->d.fd = open(path, O_WRONLY | O_CLOEXEC);
			return o->d.fd != -1 ? 0 : by_errno(err);
		}
		if (cli_check_replace(&st, err) < 0)
			return -1;
		/* renaming over it would defeat its write protection */
		if (access(path, W_OK) == -1)
			return by_errno(err);
		o->mode = st.st_mode;
	}
	if ((o->d.name = resolve(path)) == NULL)
		return by_errno(err);
	n = (int)folder_len(o->d.name);
	o->d.temp = cli_format("%.*s.%.*s.qpipe-tmp", n, o->d.name,
	    NAME_MAX - (int)strlen("..qpipe-tmp"), o->d.name + n);
	return open_temp(o, err);
}

static struct cli_output *
new_output(const char *name)
{
	struct cli_output *o = cli_check_alloc(calloc(1, sizeof *o));

	o->name = cli_format("%s", name);
	o->d.dir = AT_FDCWD;
	o->d.fd = -1;
	return o;
}

struct cli_output *
cli_output_open(const char *path)
{
	struct cli_output *o = new_output(path != NULL ? path : "stdout");

	if (path == NULL)
		o->d.fd = STDOUT_FILENO;
	else if (path[folder_len(path)] == '\0')
		cli_usage("'%s' is not the name of a file", path);
	else
		cli_must(path, open_output(o, path, &cli_err));
	return o;
}

int
cli_output_fd(const struct cli_output *o)
{
	return o->d.fd;
}

const char *
cli_output_name(const struct cli_output *o)
{
	return o->name;
}

/* Makes the rename itself durable, if the file system can. */
static void
sync_folder(const char *target)
{
	size_t n = folder_len(target);
	char *folder = cli_format("%.*s.", (int)n, target);
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd != -1) {
		if (fsync(fd) == -1 && errno == EIO)
			die("%s: %s", folder, strerror(errno));
		close(fd);
	}
	free(folder);
}

/* Returns -1 with errno if the target was not replaced. */
static int
commit_temp(struct cli_output *o)
{
	int rc = fsync(o->d.fd), why;

	if (rc == -1)	/* takes long, and signals need not wait here */
		return -1;
	busy = 1;
	rc = qwen_draft_commit(&o->d);
	why = errno;
	let_go(o->d.temp, rc != 0);
	errno = why;
	return rc;
}

/*
 * Also closes the file, which drops the lock; until then no other process takes
 * the draft.
 */
static int
commit(struct cli_output *o, struct qwen_err *err)
{
	int fd = o->d.fd;
	struct stat st;

	if (o->d.temp != NULL) {
		/* an input may have been opened after the output */
		if (stat(o->d.name, &st) == 0 && cli_check_replace(&st, err) < 0)
			return -1;
		if (commit_temp(o) == -1)
			return by_errno(err);
		sync_folder(o->d.name);
	}
	o->d.fd = -1;
	if (fd != STDOUT_FILENO && close(fd) == -1)
		return by_errno(err);
	return 0;
}

void
cli_output_commit(struct cli_output *o)
{
	cli_must(o->name, commit(o, &cli_err));
	cli_output_cancel(o);
}

int
cli_output_replace(struct cli_output *o, int *was)
{
	int fd = o->d.fd;

	if (commit_temp(o) == -1)
		return -1;
	cli_must(o->name, open_temp(o, &cli_err));
	if (*was != -1)
		close(*was);
	*was = fd;
	sync_folder(o->d.name);
	return 0;
}

void
cli_output_rewind(struct cli_output *o)
{
	if (ftruncate(o->d.fd, 0) == -1 || lseek(o->d.fd, 0, SEEK_SET) == -1)
		die("%s: %s", o->name, strerror(errno));
}

/* A committed or unopened output has no descriptor. */
void
cli_output_cancel(struct cli_output *o)
{
	if (o->d.temp != NULL) {
		hold();
		qwen_draft_drop(&o->d);
		let_go(o->d.temp, 0);
	} else if (o->d.fd != -1)
		close(o->d.fd);
	free(o->d.temp);
	free(o->d.name);
	free(o->name);
	free(o);
}

int
cli_replace_file(const char *path, const struct qwen_text *t,
    struct qwen_err *err)
{
	struct cli_output *o = new_output(path);
	int rc = open_output(o, path, err);

	if (rc == 0 && cli_write(o->d.fd, t) < t->n)
		rc = by_errno(err);
	if (rc == 0)
		rc = commit(o, err);
	cli_output_cancel(o);
	return rc;
}
