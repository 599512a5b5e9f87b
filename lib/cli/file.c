/* SPDX-License-Identifier: ISC */
/* file.c - reading files. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { STEP = 1 << 16 };

#define INPUT "an input of this run"

/* Returns NULL with errno set; EFBIG if there are more than max bytes. */
static char *
read_all(int fd, size_t max, size_t *n)
{
	size_t cap = 0, at = 0;
	char *p = NULL;
	ssize_t k;

	for (;;) {
		cli_grow(&p, &cap, at + STEP + 1, 1);
		k = read(fd, p + at, STEP);
		if (k <= 0)	/* EINTR, too, is an error */
			break;
		at += (size_t)k;
		if (at > max) {
			errno = EFBIG;
			k = -1;
			break;
		}
	}
	if (k == -1) {
		free(p);
		return NULL;
	}
	p[at] = '\0';
	*n = at;
	return p;
}

static void __attribute__((noreturn))
die_read(const char *name, size_t max)
{
	if (errno == EFBIG)
		die("%s: more than %zu bytes", name, max);
	die("%s: %s", name, strerror(errno));
}

char *
cli_read_fd(int fd, const char *name, size_t max, size_t *n)
{
	char *p = read_all(fd, max, n);

	if (p == NULL)
		die_read(name, max);
	return p;
}

char *
cli_try_file(const char *path, size_t max, size_t *n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), why;
	char *p = fd != -1 ? read_all(fd, max, n) : NULL;

	if (fd == -1)
		return NULL;
	why = errno;
	close(fd);
	errno = why;
	return p;
}

int
cli_open(const char *path, const char **name)
{
	int is_stdin = path == NULL || strcmp(path, "-") == 0;

	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

	*name = is_stdin ? "stdin" : path;
	if (fd != -1)
		cli_protect_fd(fd, INPUT);
	return fd;
}

char *
cli_read_file(const char *path, size_t max, size_t *n)
{
	char *p;

	if (strcmp(path, "-") == 0) {
		cli_need_stdin();
		return cli_read_fd(STDIN_FILENO, "stdin", max, n);
	}
	if ((p = cli_try_file(path, max, n)) == NULL)
		die_read(path, max);
	cli_protect_input(path, INPUT);
	return p;
}

int
cli_temporary(const char *name, char *path, size_t size)
{
	const char *dir = getenv("TMPDIR");
	int fd;

	if (dir == NULL || dir[0] == '\0')
		dir = "/tmp";
	if ((size_t)snprintf(path, size, "%s/%s.XXXXXX", dir, name) >= size)
		die("TMPDIR: its name is too long");
	if ((fd = mkstemp(path)) == -1)
		die("%s: %s", path, strerror(errno));
	return fd;
}

size_t
cli_read(int fd, const char *name, void *buf, size_t n)
{
	ssize_t got;

	do
		got = read(fd, buf, n);
	while (got == -1 && errno == EINTR);
	if (got == -1)
		die("%s: %s", name, strerror(errno));
	return (size_t)got;
}

int
cli_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 &&
	    x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
