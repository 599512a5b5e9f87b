/* SPDX-License-Identifier: ISC */
/*
 * tmpfile.c - temporary files that become complete files by renaming.
 *
 * The draft is always a new file: an existing file of its name may belong to
 * another user or have other links.  A record lock says that the draft is in
 * use.  The lock ends with its process, so the draft of a killed process is
 * free to be removed.  By the time a lock is granted, the previous holder may
 * have renamed the file into place, or another process may have removed it:
 * then it is no longer the draft.
 */
#define _GNU_SOURCE	/* F_OFD_SETLK */

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/tmpfile.h"
#include "base/err.h"
#include "base/text.h"

/* Does the open file still have this name in the folder? */
static int
has_name(int dir, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 &&
	    fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int
is_named(const struct qwen_tmpfile *d, int fd)
{
	return has_name(d->dir, d->temp, fd);
}

/*
 * A lock of the process ends when any of its threads closes the file.  A lock
 * of the open file does not, and also excludes other threads.  Systems without
 * such locks must use the lock of the process.
 */
static int
set_lock(int fd, int of_file)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

#ifdef F_OFD_SETLK
	if (of_file && fcntl(fd, F_OFD_SETLK, &l) == 0)
		return 0;
	if (of_file && errno != EINVAL)
		return -1;
#endif
	return fcntl(fd, F_SETLK, &l);
}

static int
lock_draft(int fd, int of_file)
{
	if (set_lock(fd, of_file) == 0)
		return 1;
	if (errno == EAGAIN || errno == EACCES)
		return 0;
	/* this file system has no locks: continue without */
	return errno == ENOLCK || errno == EINVAL || errno == ENOSYS ? 1 : -1;
}

int
qwen_tmpfile_lock(int fd)
{
	return lock_draft(fd, 0);
}

int
qwen_tmpfile_in_use(int dir, const char *name)
{
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd, r;

	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd == -1)
		return 0;
	r = fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
	close(fd);
	return r;
}

int
qwen_tmpfile_sweep(int dir, const char *name)
{
	struct stat st;
	int fd, gone;

	fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd == -1)
		return 0;
	/* a writer that has not yet locked its new draft cannot lock it now */
	gone = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    set_lock(fd, 1) == 0 && has_name(dir, name, fd) &&
	    unlinkat(dir, name, 0) == 0;
	close(fd);
	return gone;
}

/*
 * Removes an existing file of the draft's name, unless a process is writing it.
 */
static int
remove_left(const struct qwen_tmpfile *d, struct qwen_err *err)
{
	const char *why = NULL;
	struct stat st;
	int fd, got;

	fd = openat(d->dir, d->temp, O_RDWR | O_CLOEXEC | O_NOFOLLOW |
	    O_NONBLOCK);
	if (fd == -1)
		why = errno == ENOENT ? NULL : errno == ELOOP ? "a link" :
		    strerror(errno);
	else if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		why = "not a regular file";
	else if ((got = qwen_tmpfile_lock(fd)) == -1 ||
	    (got && is_named(d, fd) && unlinkat(d->dir, d->temp, 0) == -1))
		why = strerror(errno);
	if (fd != -1)
		close(fd);
	return why == NULL ? 0 : qwen_fail(err, QWEN_EIO, "temporary file %s "
	    "is in the way: %s; remove it", qwen_base_name(d->temp), why);
}

int
qwen_tmpfile_open(struct qwen_tmpfile *d, mode_t mode, struct qwen_err *err)
{
	const int how = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
	int got;

	d->fd = openat(d->dir, d->temp, how, mode);
	if (d->fd == -1 && errno == EEXIST) {
		if (remove_left(d, err) == -1)
			return -1;
		d->fd = openat(d->dir, d->temp, how, mode);
	}
	if (d->fd == -1)
		return errno == EEXIST ? 0 : qwen_fail_errno(err, "%s", "");
	if ((got = lock_draft(d->fd, d->of_file)) == -1) {
		qwen_fail_errno(err, "lock");
		qwen_tmpfile_drop(d);
	} else if (!got || !is_named(d, d->fd)) {
		close(d->fd);
		got = 0;
	}
	return got;
}

int
qwen_tmpfile_commit(const struct qwen_tmpfile *d)
{
	if (fsync(d->fd) == -1)
		return -1;
	if (!is_named(d, d->fd)) {
		errno = ENOENT;
		return -1;
	}
	return renameat(d->dir, d->temp, d->dir, d->name);
}

void
qwen_tmpfile_drop(struct qwen_tmpfile *d)
{
	if (is_named(d, d->fd))
		unlinkat(d->dir, d->temp, 0);
	close(d->fd);
	d->fd = -1;
}
