/* SPDX-License-Identifier: ISC */
/* server.c - descriptors and signals of tools that serve clients. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tool/tool.h"

enum { BACKLOG = 64 };

uint64_t
tool_fd_limit(uint64_t need)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < need) {
		r.rlim_cur = r.rlim_max < need ? r.rlim_max : (rlim_t)need;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	return getrlimit(RLIMIT_NOFILE, &r) == 0 ? r.rlim_cur : UINT64_MAX;
}

void
tool_poll_add(struct tool_polled *p, int fd, short events)
{
	cli_grow(&p->fd, &p->cap, p->n + 1, sizeof *p->fd);
	p->fd[p->n++] = (struct pollfd){ .fd = fd, .events = events };
}

int
tool_poll(struct tool_polled *p, int ms)
{
	int got;

	while ((got = poll(p->fd, (nfds_t)p->n, ms)) == -1 && errno == EINTR)
		;
	if (got == -1)
		die("poll: %s", strerror(errno));
	return got;
}

void
tool_sent(struct qwen_text *t, size_t *at, size_t n)
{
	*at += n;
	if (*at < t->n / 2)
		return;
	/* move the rest to the front, to reuse the memory */
	memmove(t->s, t->s + *at, t->n - *at);
	t->n -= *at;
	*at = 0;
}

int
tool_fd_prepare(int fd)
{
	return fcntl(fd, F_SETFD, FD_CLOEXEC) == -1 ||
	    fcntl(fd, F_SETFL, O_NONBLOCK) == -1 ? -1 : 0;
}

/* ------------------------------------------------------------------ sockets */

static int
make(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd == -1 || tool_fd_prepare(fd) == -1)
		die("socket: %s", strerror(errno));
	return fd;
}

/* Removes a socket left by a killed engine: no process listens there. */
static void
clear(const char *path, const struct sockaddr_un *sa)
{
	struct stat st;
	int fd, dead;

	if (lstat(path, &st) == -1)
		return;
	if (!S_ISSOCK(st.st_mode))
		die("%s: exists and is not a socket; give another path", path);
	fd = make();
	dead = connect(fd, (const struct sockaddr *)sa, sizeof *sa) == -1 &&
	    errno == ECONNREFUSED;
	close(fd);
	if (!dead)
		die("%s: another process listens on it", path);
	if (unlink(path) == -1 && errno != ENOENT)
		die("%s: %s", path, strerror(errno));
}

int
tool_socket_listen(const char *path, unsigned mode)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	mode_t mask;
	int fd, rc;

	/* systems may invent an address for an empty path, open to all users */
	if (path[0] == '\0')
		cli_usage("the path of a socket is empty");
	if (strlen(path) >= sizeof sa.sun_path)
		die("%s: the path of a socket has at most %zu bytes", path,
		    sizeof sa.sun_path - 1);
	strcpy(sa.sun_path, path);
	clear(path, &sa);
	fd = make();
	mask = umask(~(mode_t)mode & 0777);
	rc = bind(fd, (struct sockaddr *)&sa, sizeof sa);
	umask(mask);
	if (rc == -1 || listen(fd, BACKLOG) == -1)
		die("%s: %s", path, strerror(errno));
	return fd;
}

void
tool_socket_close(int fd, const char *path)
{
	close(fd);
	unlink(path);
}

int
tool_socket_accept(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd != -1 && tool_fd_prepare(fd) == -1) {
		close(fd);
		errno = ECONNABORTED;
		return -1;
	}
	return fd;
}

/* ------------------------------------------------------------------ signals */

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
	int fd[2];

	if (pipe(fd) == -1 || tool_fd_prepare(fd[0]) == -1 ||
	    fcntl(fd[1], F_SETFD, FD_CLOEXEC) == -1)
		die("pipe: %s", strerror(errno));
	wake_fd = fd[1];
	cli_on_signals(on_signal, 0);
	signal(SIGPIPE, SIG_IGN);
	return fd[0];
}
