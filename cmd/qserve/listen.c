/* SPDX-License-Identifier: ISC */
/* listen.c - where clients come: addresses of the net, and paths. */
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qserve.h"

enum { BACKLOG = 512 };

static const char unix_prefix[] = "unix:";

static const char *
path_of(const char *where)
{
	size_t n = sizeof unix_prefix - 1;

	return strncmp(where, unix_prefix, n) == 0 ? where + n : NULL;
}

/* "127.0.0.1:8080", "[::1]:8080", ":8080" (all addresses), in two parts. */
static void
split(const char *where, char *host, size_t size, const char **port)
{
	const char *colon = strrchr(where, ':');
	size_t n;

	if (colon == NULL || colon[1] == '\0')
		cli_usage("--listen: '%s' is neither like 127.0.0.1:8080 nor "
		    "unix:/path", where);
	*port = colon + 1;
	cli_int("--listen", *port, 0, 65535);
	n = (size_t)(colon - where);
	if (n > 1 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	}
	if (n >= size)
		cli_usage("--listen: '%s' is too long", where);
	memcpy(host, where, n);
	host[n] = '\0';
}

static int
open_one(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol), on = 1;

	if (fd == -1)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
	    fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
	    bind(fd, a->ai_addr, a->ai_addrlen) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The address that it has: another port than 0. */
static void
tell(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof sa;
	char host[NI_MAXHOST], port[NI_MAXSERV];
	int v6;

	if (getsockname(fd, (struct sockaddr *)&sa, &len) == -1 ||
	    getnameinfo((struct sockaddr *)&sa, len, host, sizeof host, port,
	    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return;
	v6 = strchr(host, ':') != NULL;
	cli_note("listening at http://%s%s%s:%s", v6 ? "[" : "", host,
	    v6 ? "]" : "", port);
}

static int
listen_net(const char *where)
{
	struct addrinfo how = { .ai_socktype = SOCK_STREAM,
	    .ai_flags = AI_PASSIVE }, *list, *a;
	char host[256];
	const char *port;
	int fd = -1, rc;

	split(where, host, sizeof host, &port);
	if ((rc = getaddrinfo(host[0] != '\0' ? host : NULL, port, &how,
	    &list)) != 0)
		die("%s: %s", where, gai_strerror(rc));
	for (a = list; a != NULL && fd == -1; a = a->ai_next)
		fd = open_one(a);
	if (fd == -1)
		die("%s: %s", where, strerror(errno));
	freeaddrinfo(list);
	tell(fd);
	return fd;
}

static int
listen_path(const char *path, unsigned mode)
{
	int fd = tool_socket_listen(path, mode);

	cli_note("listening at %s%s", unix_prefix, path);
	return fd;
}

void
qserve_listen(struct qserve *s)
{
	static const char *const usual[] = { "127.0.0.1:8080" };
	const char *const *v = s->listen.n > 0 ? s->listen.v : usual;
	size_t i, n = s->listen.n > 0 ? s->listen.n : 1;

	if (qserve_given_sockets(s) > 0 && s->listen.n == 0)
		return;
	n += s->n_listeners;
	if (n > QSERVE_LISTENERS)
		cli_usage("--listen: more than %d of them", QSERVE_LISTENERS);
	s->n_given = s->n_listeners;
	for (i = 0; s->n_listeners < n; i++)
		s->listener[s->n_listeners++] = path_of(v[i]) != NULL ?
		    listen_path(path_of(v[i]), s->socket_mode) :
		    listen_net(v[i]);
}

void
qserve_unlisten(struct qserve *s)
{
	const char *path;
	size_t i;

	for (i = 0; i < s->n_listeners; i++) {
		path = i >= s->n_given && s->listen.n > 0 ?
		    path_of(s->listen.v[i - s->n_given]) : NULL;
		if (path != NULL)
			tool_socket_close(s->listener[i], path);
		else
			close(s->listener[i]);
	}
	s->n_listeners = 0;
}
