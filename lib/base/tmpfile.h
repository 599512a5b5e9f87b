/* SPDX-License-Identifier: ISC */
/*
 * tmpfile.h - files that are complete or absent: written as a temporary file (the
 * draft) in the same folder, synced to disk, and renamed.
 */
#ifndef QWEN_TMPFILE_H
#define QWEN_TMPFILE_H

#include <sys/types.h>

#include "qwen/base.h"

struct qwen_tmpfile {
	int	 dir;		/* an open folder, or AT_FDCWD */
	char	*temp;		/* name of the draft in the folder */
	char	*name;		/* name of the complete file */
	int	 fd;		/* the draft; the caller writes to it and closes
				   it */
	int	 of_file;	/* lock the open file, not the process: other
				   threads write to the folder too */
};

/*
 * Creates the draft, a new file of this mode (less the umask), and locks it
 * while the process uses it.  Removes a draft of this name that a killed
 * process left.  Returns 1; 0 if another process is using the draft; -1 and
 * *err.
 */
int qwen_tmpfile_open(struct qwen_tmpfile *d, mode_t mode,
    struct qwen_err *err);

/*
 * Syncs the draft to disk and renames it into place.  The file stays open and
 * locked.  Returns 0; -1 and errno if the old file, or none, is still there.
 */
int qwen_tmpfile_commit(const struct qwen_tmpfile *d);

/* Removes and closes the draft. */
void qwen_tmpfile_drop(struct qwen_tmpfile *d);

/*
 * Locks a file open for writing: returns 1, 0 if another process has locked it,
 * -1 and errno.
 */
int qwen_tmpfile_lock(int fd);

/*
 * Removes a draft that no process has locked, however old.  Returns 1 if it was
 * removed; 0 if it is locked, locks are unavailable, or it is not writable.
 */
int qwen_tmpfile_sweep(int dir, const char *name);

/* Returns 1 if another process has locked the file. */
int qwen_tmpfile_in_use(int dir, const char *name);

#endif
