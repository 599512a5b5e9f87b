/* SPDX-License-Identifier: ISC */
/*
 * output.c - output files that appear complete or not at all.
 *
 * The temporary of DIR/NAME is DIR/.NAME.qpipe-tmp, whoever writes it.  It is
 * always a new file: what has the name already may be somebody else's, or have
 * other names.  A record lock says whether it is in use; it dies with its
 * process, so what a killed run left is free to remove.  By the time a lock is
 * granted its last holder may have renamed the file into place, or another one
 * removed it: then it is not the temporary, and the search begins again.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/internal.h"

#ifndef O_DIRECTORY
#define O_DIRECTORY 0
#endif

#define SUFFIX ".qpipe-tmp"

enum { MAX_LINKS = 40, PATIENCE_S = 3 };

struct cli_output {
	char	*name;		/* as the user gave it */
	char	*target;	/* links followed */
	char	*temp;		/* NULL: written in place */
	mode_t	 mode;		/* of the target */
	int	 fd;
};

/* ---------------------------------------------------------------- signals */

static const int fatal_signals[] = {
	SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXCPU, SIGXFSZ,
};
enum { N_FATAL = sizeof fatal_signals / sizeof fatal_signals[0] };

static struct sigaction saved[N_FATAL];
static const char *volatile doomed;	/* the temporary to remove */
static volatile sig_atomic_t busy;	/* renaming: leave it alone */
static volatile sig_atomic_t pending;	/* a signal that came meanwhile */

/*
 * Only async-signal-safe calls.  To finish here, rather than in some loop that
 * looks at a flag, makes the tool stop at once in the midst of a computation.
 */
static void
on_signal(int sig)
{
	if (busy) {
		pending = sig;
		return;
	}
	if (doomed != NULL)
		unlink(doomed);
	signal(sig, SIG_DFL);
	raise(sig);
}

void
cli_output_abandon(void)
{
	if (doomed != NULL && !busy)
		unlink(doomed);
}

static void
remove_doomed(void)
{
	if (doomed != NULL)
		unlink(doomed);
	doomed = NULL;
}

/* Signals wait: what they would have to remove is about to be made. */
static void
hold(void)
{
	static int registered;
	struct sigaction sa;
	size_t i;

	if (!registered && atexit(remove_doomed) != 0)
		cli_must(NULL, qwen_oom(&cli_err));
	registered = 1;
	busy = 1;
	memset(&sa, 0, sizeof sa);
	sa.sa_handler = on_signal;
	sigfillset(&sa.sa_mask);
	for (i = 0; i < N_FATAL; i++) {
		sigaction(fatal_signals[i], NULL, &saved[i]);
		/* nohup ignores some, and a tool may go on after one */
		if (saved[i].sa_handler == SIG_DFL)
			sigaction(fatal_signals[i], &sa, NULL);
	}
}

/* They wait no longer. */
static void
let_go(void)
{
	busy = 0;
	if (pending != 0)
		on_signal(pending);
}

/* From here the temporary goes when the program does. */
static void
guard(const char *temp)
{
	doomed = temp;
	let_go();
}

static void
unguard(void)
{
	size_t i;

	doomed = NULL;
	for (i = 0; i < N_FATAL; i++)
		sigaction(fatal_signals[i], &saved[i], NULL);
	busy = 0;
	if (pending != 0)
		raise(pending);
}

/* ------------------------------------------------------------------ paths */

/* Length of the folder part of a path, its slash included. */
static size_t
folder_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/*
 * The file that path names, which need not exist, after symbolic links; NULL and
 * errno.
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
			return at;	/* no link, or nothing there */
		text[n] = '\0';
		/* from the root, or from where the link is */
		next = text[0] == '/' ? cli_format("%s", text) :
		    cli_format("%.*s%s", (int)folder_len(at), at, text);
		free(at);
		at = next;
	}
	free(at);
	errno = ELOOP;
	return NULL;
}

/* ----------------------------------------------------------- the temporary */

/* Whether the descriptor's file is the one that has this name now. */
static int
is_named(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * Whoever goes on after a commit holds the lock of what is now the target until
 * the next temporary is there.
 */
static int
is_held(const char *target)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = open(target, O_RDONLY | O_CLOEXEC | O_NONBLOCK), held;

	if (fd == -1)
		return 0;
	held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	close(fd);
	return held;
}

/* Lock it: 1, 0 if another process has it, -1 and errno. */
static int
lock(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd, F_SETLK, &l) == 0)
		return 1;
	if (errno == EAGAIN || errno == EACCES)
		return 0;
	/* no locks on this file system: go without */
	return errno == ENOLCK || errno == EINVAL || errno == ENOSYS ? 1 : -1;
}

static int
by_errno(struct qwen_err *err)
{
	return qwen_fail_errno(err, "%s", "");
}

static int
in_the_way(const struct cli_output *o, const char *why, struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EIO, "%s beside it is in the way: %s; "
	    "remove it",
	    o->temp + folder_len(o->temp), why);
}

/* Remove what has the name of the temporary, if nobody writes it. */
static int
remove_left(const struct cli_output *o, struct qwen_err *err)
{
	int fd = open(o->temp, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int got, rc = 0;
	struct stat st;

	if (fd == -1 && errno == ENOENT)
		return 0;
	if (fd == -1)
		return in_the_way(o, errno == ELOOP ? "a link" :
		    strerror(errno), err);
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		rc = in_the_way(o, "not a regular file", err);
	else if ((got = lock(fd)) == -1 ||
	    (got && is_named(fd, o->temp) && unlink(o->temp) == -1))
		rc = in_the_way(o, strerror(errno), err);
	close(fd);
	return rc;
}

/* Make and lock a new one: 1, or 0 to try again. */
static int
make_temp(struct cli_output *o, struct qwen_err *err)
{
	const int how = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
	int got, rc = 0;

	o->fd = open(o->temp, how, 0600);
	if (o->fd == -1 && errno == EEXIST) {
		if (remove_left(o, err) == -1)
			return -1;
		o->fd = open(o->temp, how, 0600);
	}
	if (o->fd == -1 && errno == EEXIST)
		return 0;
	if (o->fd == -1)
		return by_errno(err);
	got = lock(o->fd);
	if (got == -1)
		rc = qwen_fail_errno(err, "lock");
	if (got == 1 && is_named(o->fd, o->temp) && !is_held(o->target)) {
		if (fchmod(o->fd, o->mode) == 0)
			return 1;
		rc = by_errno(err);
	}
	if (got != 0 && is_named(o->fd, o->temp))
		unlink(o->temp);
	close(o->fd);
	return rc;
}

/*
 * A process that was killed holds its locks until it is gone, which may take a
 * moment if it was writing: so the next one is patient.
 */
static int
open_temp(struct cli_output *o, struct qwen_err *err)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	double patience = cli_now() + PATIENCE_S;
	int rc;

	for (hold(); (rc = make_temp(o, err)) != 1; hold()) {
		unguard();
		if (rc == -1)
			return -1;
		if (cli_now() > patience)
			return qwen_fail(err, QWEN_EIO,
			    "another process is writing it");
		nanosleep(&pause, NULL);
	}
	guard(o->temp);
	return 0;
}

static void
free_output(struct cli_output *o)
{
	free(o->temp);
	free(o->target);
	free(o->name);
	free(o);
}

/* Open what path names, in place if it is no regular file. */
static int
open_output(struct cli_output *o, const char *path, struct qwen_err *err)
{
	struct stat st;
	int n;

	o->mode = 0666 & ~cli_umask;
	if (stat(path, &st) == 0) {
		if (!S_ISREG(st.st_mode)) {
			o->fd = open(path, O_WRONLY | O_CLOEXEC);
			return o->fd != -1 ? 0 : by_errno(err);
		}
		/* renaming over it would defeat its write protection */
		if (access(path, W_OK) == -1)
			return by_errno(err);
		o->mode = st.st_mode & 07777;
	}
	if ((o->target = resolve(path)) == NULL)
		return by_errno(err);
	n = (int)folder_len(o->target);
	o->temp = cli_format("%.*s.%s" SUFFIX, n, o->target, o->target + n);
	return open_temp(o, err);
}

static struct cli_output *
new_output(const char *name)
{
	struct cli_output *o = cli_got(calloc(1, sizeof *o));

	o->name = cli_format("%s", name);
	o->fd = STDOUT_FILENO;
	return o;
}

struct cli_output *
cli_output_open(const char *path)
{
	struct cli_output *o = new_output(path != NULL ? path : "stdout");

	if (path == NULL)
		return o;
	if (path[folder_len(path)] == '\0')
		cli_usage("'%s' is not the name of a file", path);
	cli_must(path, open_output(o, path, &cli_err));
	return o;
}

int
cli_output_fd(const struct cli_output *o)
{
	return o->fd;
}

const char *
cli_output_name(const struct cli_output *o)
{
	return o->name;
}

/* Make the rename itself durable, where the file system can. */
static void
sync_folder(const char *target)
{
	size_t n = folder_len(target);
	char *folder = n == 0 ? cli_format(".") :
	    cli_format("%.*s", (int)n, target);
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd != -1) {
		if (fsync(fd) == -1 && errno == EIO)
			die("%s: %s", folder, strerror(errno));
		close(fd);
	}
	free(folder);
}

/* -1 and errno if the target is still what it was. */
static int
commit_temp(struct cli_output *o)
{
	int why;

	if (fsync(o->fd) == -1)
		return -1;
	busy = 1;
	if (!is_named(o->fd, o->temp)) {
		let_go();
		errno = ENOENT;
		return -1;
	}
	if (rename(o->temp, o->target) == -1) {
		why = errno;
		let_go();
		errno = why;
		return -1;
	}
	unguard();
	return 0;
}

/* Close too, which drops the lock; until then nobody takes the temporary. */
static int
commit(struct cli_output *o, struct qwen_err *err)
{
	int fd = o->fd;

	if (o->temp != NULL) {
		if (commit_temp(o) == -1)
			return by_errno(err);
		sync_folder(o->target);
	}
	o->fd = -1;
	if (fd != STDOUT_FILENO && close(fd) == -1)
		return by_errno(err);
	return 0;
}

void
cli_output_commit(struct cli_output *o)
{
	cli_must(o->name, commit(o, &cli_err));
	free_output(o);
}

int
cli_output_replace(struct cli_output *o)
{
	int fd = o->fd;

	if (commit_temp(o) == -1)
		return -1;
	cli_must(o->name, open_temp(o, &cli_err));
	close(fd);
	sync_folder(o->target);
	return 0;
}

void
cli_output_rewind(struct cli_output *o)
{
	if (ftruncate(o->fd, 0) == -1 || lseek(o->fd, 0, SEEK_SET) == -1)
		die("%s: %s", o->name, strerror(errno));
}

void
cli_output_cancel(struct cli_output *o)
{
	if (o->temp != NULL) {
		remove_doomed();
		unguard();
	}
	close(o->fd);
	free_output(o);
}

int
cli_replace_file(const char *path, const struct qwen_text *t,
    struct qwen_err *err)
{
	struct cli_output *o = new_output(path);
	int rc = open_output(o, path, err);

	if (rc == -1) {
		free_output(o);
		return -1;
	}
	if (cli_write(o->fd, t) < t->n)
		rc = by_errno(err);
	if (rc == 0)
		rc = commit(o, err);
	if (rc == 0)
		free_output(o);
	else
		cli_output_cancel(o);
	return rc;
}
