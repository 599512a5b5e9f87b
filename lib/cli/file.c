/* SPDX-License-Identifier: ISC */
/* file.c - all of a file, in memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { STEP = 1 << 16 };

char *
cli_read_fd(int fd, const char *name, size_t max, size_t *n)
{
	size_t cap = 0, at = 0;
	char *p = NULL;
	ssize_t k;

	for (;;) {
		cli_grow(&p, &cap, at + STEP + 1, 1);
		k = read(fd, p + at, STEP);
		if (k == -1 && errno == EINTR)
			continue;
		if (k == -1)
			die("%s: %s", name, strerror(errno));
		if (k == 0)
			break;
		at += (size_t)k;
		if (at > max)
			die("%s: more than %zu bytes", name, max);
	}
	p[at] = '\0';
	*n = at;
	return p;
}

char *
cli_read_file(const char *path, size_t max, size_t *n)
{
	char *p;
	int fd;

	if (strcmp(path, "-") == 0) {
		cli_need_stdin();
		return cli_read_fd(STDIN_FILENO, "stdin", max, n);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	p = cli_read_fd(fd, path, max, n);
	close(fd);
	return p;
}
