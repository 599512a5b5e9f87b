/* SPDX-License-Identifier: ISC */
/*
 * draft.h - a file that is complete or not there: it is written under another
 * name beside its own, brought to the disk, and renamed.
 */
#ifndef QWEN_BASE_DRAFT_H
#define QWEN_BASE_DRAFT_H

#include <sys/types.h>

#include "qwen/base.h"

struct qwen_draft {
	int	 dir;		/* an open folder, or AT_FDCWD */
	char	*temp;		/* what the draft is called there, */
	char	*name;		/* and what the file will be */
	int	 fd;		/* of the draft, to write to and to close */
	int	 of_file;	/* lock the open file, not for the process:
				   other threads may write to the folder, too */
};

/*
 * Make the draft, a new file of this mode (less the umask), and lock it: that
 * says it is in use, and ends with its process.  What a killed process has left
 * under its name is removed.  1; 0 if another process has it now; -1 and *err.
 */
int qwen_draft_open(struct qwen_draft *d, mode_t mode, struct qwen_err *err);

/*
 * Bring it to the disk and into its place; -1 and errno if there is still what
 * there was.  It stays open, and locked.
 */
int qwen_draft_commit(const struct qwen_draft *d);

/* Remove and close it. */
void qwen_draft_drop(struct qwen_draft *d);

/* Lock a file, open for writing: 1, 0 if another process has it, -1 and errno. */
int qwen_draft_lock(int fd);

/*
 * Remove a draft, of any age, that no process has locked.  Returns 1 if it is
 * removed; 0 if it is locked, if there are no locks, or if we may not write to it.
 */
int qwen_draft_sweep(int dir, const char *name);

/* Whether another process has a file locked. */
int qwen_draft_in_use(int dir, const char *name);

#endif
