/* SPDX-License-Identifier: ISC */
/* cat.c - a state to a pipe, after a look at all of it. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "qstate.h"

/* What is checked is what is written: one descriptor for both. */
void
qstate_cat(char *paths[])
{
	const char *name, *path = qstate_file(paths[0], &name);
	struct stat a, b;
	struct qwen_err err;
	int fd;

	cli_no_binary_tty();
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		die("%s: %s", name, strerror(errno));
	if (qwen_state_verify(path, 0, &err) < 0)
		cli_die_err(name, &err);
	if (fstat(fd, &a) == -1 || stat(path, &b) == -1)
		die("%s: %s", name, strerror(errno));
	if (a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		die("%s: it was replaced while it was read", name);
	qstate_copy_bytes(fd, name, STDOUT_FILENO, "stdout");
	close(fd);
	qstate_file_done();
}
