/* SPDX-License-Identifier: ISC */
/* systemd.c - sockets from systemd, and notifications to it. */
#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qserve.h"

enum { FIRST_FD = 3 };

size_t
qserve_systemd_sockets(struct qserve *s)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	size_t i, count = 0;

	if (pid != NULL && n != NULL && strtoll(pid, NULL, 10) == getpid())
		count = (size_t)strtoul(n, NULL, 10);
	if (count > QSERVE_LISTENERS)
		die("LISTEN_FDS: more than %d sockets", QSERVE_LISTENERS);
	for (i = 0; i < count; i++) {
		s->listener[i] = FIRST_FD + (int)i;
		if (fcntl(s->listener[i], F_SETFD, FD_CLOEXEC) == -1 ||
		    fcntl(s->listener[i], F_SETFL, O_NONBLOCK) == -1)
			die("LISTEN_FDS: %s", strerror(errno));
	}
	s->n_listeners = count;
	/* engines must not use them */
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return count;
}

void
qserve_notify_systemd(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t n = path != NULL ? strlen(path) : 0;
	int fd;

	if (n == 0 || n >= sizeof sa.sun_path ||
	    (fd = socket(AF_UNIX, SOCK_DGRAM, 0)) == -1)
		return;
	memcpy(sa.sun_path, path, n);
	/* abstract socket address */
	if (sa.sun_path[0] == '@')
		sa.sun_path[0] = '\0';
	/* best effort: an error does not matter */
	(void)!sendto(fd, state, strlen(state), 0, (struct sockaddr *)&sa,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	close(fd);
}
