/* SPDX-License-Identifier: ISC */
/*
 * wake.c - turn SIGTERM and SIGINT into a readable descriptor, for poll(2)
 * loops.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tool/tool.h"

static int wake_fd = -1;

static void
on_signal(int sig)
{
	int saved = errno;
	ssize_t n;

	/* the second signal ends the process */
	signal(sig, SIG_DFL);
	while ((n = write(wake_fd, "", 1)) == -1 && errno == EINTR)
		;
	if (n == -1)
		raise(sig);
	errno = saved;
}

void
tool_report_ending(size_t n, const char *what)
{
	if (n == 0)
		cli_note("ending: no request is in progress");
	else if (n == 1)
		cli_note("ending when the request in progress is %s", what);
	else
		cli_note("ending when the %zu requests in progress are %s", n,
		    what);
}

int
tool_wake_open(void)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;
	static const int sigs[] = { SIGTERM, SIGINT };
	int fd[2];
	size_t i;

	if (pipe(fd) == -1 || fcntl(fd[0], F_SETFD, FD_CLOEXEC) == -1 ||
	    fcntl(fd[1], F_SETFD, FD_CLOEXEC) == -1 ||
	    fcntl(fd[0], F_SETFL, O_NONBLOCK) == -1)
		die("pipe: %s", strerror(errno));
	wake_fd = fd[1];
	sigemptyset(&sa.sa_mask);
	for (i = 0; i < sizeof sigs / sizeof sigs[0]; i++) {
		if (sigaction(sigs[i], NULL, &old) == 0 &&
		    old.sa_handler != SIG_IGN)
			sigaction(sigs[i], &sa, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
	return fd[0];
}
