/* SPDX-License-Identifier: ISC */
/* start.c - the first and the last call of every main. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/internal.h"

/*
 * If a tool starts with stdin, stdout or stderr closed, opens /dev/null there,
 * so that no other file gets that number.  The mode is the wrong one, so that
 * use of the descriptor fails as if it was closed.
 */
static void
fill_std_fds(void)
{
	int fd, got;

	for (fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
			continue;
		got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
		if (got != fd)
			_exit(1);
	}
}

void
cli_start(const char *name)
{
	cli_name = name;
	fill_std_fds();
	/* exceeding the file size limit becomes an error of write() */
	signal(SIGXFSZ, SIG_IGN);
	cli_guard_maps();
}

void
cli_on_signals(void (*handler)(int sig), int flags)
{
	static const int signals[] = { SIGINT, SIGTERM };
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags }, old;
	size_t i;

	sigfillset(&sa.sa_mask);
	for (i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		if (sigaction(signals[i], NULL, &old) == 0 &&
		    old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	}
}

void
cli_check_stdout(void)
{
	int error = errno;

	if (!ferror(stdout))
		return;
	/* discards the rest of the buffer at exit */
	close(STDOUT_FILENO);
	if (error == EPIPE)
		exit(1);
	die("stdout: %s", strerror(error));
}

int
cli_finish(void)
{
	int failed = ferror(stdout), before = errno;

	cli_progress_end();
	/* report the error of this flush, else the earlier one */
	errno = 0;
	if (fflush(stdout) == EOF || failed) {
		errno = errno != 0 ? errno : before;
		if (errno == EPIPE)
			return 1;
		die("stdout: %s", strerror(errno));
	}
	/* a file system may report a full disk only now */
	if (close(STDOUT_FILENO) == -1 && errno != EBADF)
		die("stdout: %s", strerror(errno));
	return cli_status;
}
