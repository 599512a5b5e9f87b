/* SPDX-License-Identifier: ISC */
/*
 * output.c - output files that appear complete or not at all, see base/tmpfile.h.
 * The temporary file of DIR/NAME is DIR/.NAME.qpipe-tmp, with NAME shortened if
 * the result would be too long.
 */
#include <sys/stat.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/tmpfile.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/internal.h"

enum { MAX_LINKS = 40, PATIENCE_S = 3, N_DOOMED = 4 };

struct cli_output {
	char	*name;		/* as the user gave it */
	mode_t	 mode;		/* of an existing target, or 0 */
	struct qwen_tmpfile d;	/* d.temp is NULL: written in place */
};

/* ---------------------------------------------------------------- signals */

static const int fatal_signals[] = {
	SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXCPU,
};

/* temporary files to remove; at most N_DOOMED outputs are open */
static const char *volatile doomed[N_DOOMED];
static volatile sig_atomic_t busy;	/* renaming: do not remove files */
static volatile sig_atomic_t pending;	/* a signal that arrived while busy */

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
 * Uses only async-signal-safe calls.  Ends the process here, without a flag
 * that loops must check, so that the tool stops at once even within a
 * computation.
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

/*
 * From here to let_go(), signals wait, since the list of files to remove
 * changes.
 */
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
		/* nohup ignores some signals, and tools handle some */
		if (sigaction(fatal_signals[i], NULL, &old) == 0 &&
		    old.sa_handler == SIG_DFL)
			sigaction(fatal_signals[i], &sa, NULL);
	}
}

/*
 * Removes the temporary file from the list of files to remove, or (there) adds
 * it; then handles signals again.
 */
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
 * Returns the file that path names after symbolic links, which need not exist,
 * to be freed; NULL with errno set.
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
			return at;	/* not a link, or missing */
		text[n] = '\0';
		/* relative to the root or to the link's folder */
		next = text[0] == '/' ? cli_format("%s", text) :
		    cli_format("%.*s%s", (int)folder_len(at), at, text);
		free(at);
		at = next;
	}
	free(at);
	errno = ELOOP;
	return NULL;
}

/* --------------------------------------------------------- temporary file */

static int
by_errno(struct qwen_err *err)
{
	return qwen_fail_errno(err, "%s", "");
}

/* Does another output of this tool write the same target, by another name? */
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
 * Returns 1 with the temporary file open and locked; 0 if another process is
 * using it or the target; -1 with *err set.  A tool that continues after a
 * commit holds the lock of the new target until the next temporary file exists.
 */
static int
make_temp(struct cli_output *o, struct qwen_err *err)
{
	int rc = qwen_tmpfile_open(&o->d, o->mode != 0 ? 0600 : 0666, err);

	if (rc != 1)
		return rc;
	if (is_twice(o))
		rc = qwen_fail(err, QWEN_EIO, "two outputs name this file");
	else if (qwen_tmpfile_in_use(AT_FDCWD, o->d.name))
		rc = 0;
	else if (o->mode != 0 && fchmod(o->d.fd, o->mode & 07777) == -1)
		rc = by_errno(err);
	if (rc != 1)
		qwen_tmpfile_drop(&o->d);
	return rc;
}

/*
 * Waits a moment; returns 0 after PATIENCE_S seconds in all.  A killed process
 * holds its locks until it is gone, which takes a moment if it was writing.
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

	while ((got = qwen_tmpfile_lock(fd)) != 1) {
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

/* Opens the output for path: in place if that is not a regular file. */
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
		/* rename does not need write permission of the target */
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

/* Makes the rename durable, if the file system can. */
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

/* Returns -1 with errno set if the target is unchanged. */
static int
commit_temp(struct cli_output *o)
{
	int rc = fsync(o->d.fd), why;

	if (rc == -1)	/* fsync takes long; signals need not wait */
		return -1;
	busy = 1;
	rc = qwen_tmpfile_commit(&o->d);
	why = errno;
	let_go(o->d.temp, rc != 0);
	errno = why;
	return rc;
}

/*
 * Commits, then closes the file, which drops the lock: until then no other
 * process uses the temporary file.
 */
static int
commit(struct cli_output *o, struct qwen_err *err)
{
	int fd = o->d.fd;
	struct stat st;

	if (o->d.temp != NULL) {
		/* the target may have become an input since it was opened */
		if (stat(o->d.name, &st) == 0 && cli_check_replace(&st, err) < 0)
			return -1;
		if (commit_temp(o) == -1)
			return by_errno(err);
		sync_folder(o->d.name);
	}
	o->d.fd = -1;
	return fd != STDOUT_FILENO && close(fd) == -1 ? by_errno(err) : 0;
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

/* After a commit, or a failed open, o->d.fd is -1. */
void
cli_output_cancel(struct cli_output *o)
{
	if (o->d.temp != NULL) {
		hold();
		qwen_tmpfile_drop(&o->d);
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
