/* SPDX-License-Identifier: ISC */
/*
 * listen.c - listening sockets: addresses, paths, and sockets from systemd; and
 * notifications to systemd.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <netinet/in.h>

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qserve.h"

enum { BACKLOG = 512, PORTS_TRIED = 16, FIRST_SYSTEMD_FD = 3 };

static const char unix_prefix[] = "unix:";

/*
 * Split "127.0.0.1:8080", "[::1]:8080" or ":8080" (all addresses) into host and
 * port; return the port as a number.
 */
static int64_t
split(const char *where, char *host, size_t size, const char **port)
{
	const char *colon = strrchr(where, ':');
	size_t n;

	if (colon == NULL || colon[1] == '\0')
		cli_usage("--listen: '%s' is neither like 127.0.0.1:8080 nor "
		    "unix:/path", where);
	*port = colon + 1;
	n = (size_t)(colon - where);
	if (n > 1 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	}
	if (n >= size)
		cli_usage("--listen: '%s' is too long", where);
	memcpy(host, where, n);
	host[n] = '\0';
	return cli_int("--listen", *port, 0, 65535);
}

/* Append a listener. */
static void
add_listener(struct qserve *s, int fd, const char *path)
{
	if (s->n_listeners == QSERVE_LISTENERS)
		cli_usage("--listen: more than %d addresses", QSERVE_LISTENERS);
	s->listener_path[s->n_listeners] = path;
	s->listener[s->n_listeners++] = fd;
}

/* Open a listening socket for one address; IPv6 sockets do not accept IPv4. */
static int
open_one(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol), on = 1;
	int saved;

	if (fd == -1)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if ((a->ai_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6,
	    IPV6_V6ONLY, &on, sizeof on) == 0) &&
	    tool_fd_prepare(fd) == 0 &&
	    bind(fd, a->ai_addr, a->ai_addrlen) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Print the paths, and the addresses with their actual ports. */
void
qserve_listeners_print(const struct qserve *s)
{
	struct sockaddr_storage sa;
	char host[NI_MAXHOST], port[NI_MAXSERV];
	socklen_t len;
	size_t i;
	int v6;

	for (i = s->n_given; i < s->n_listeners; i++) {
		len = sizeof sa;
		if (s->listener_path[i] != NULL) {
			cli_note("listening at %s%s", unix_prefix,
			    s->listener_path[i]);
			continue;
		}
		if (getsockname(s->listener[i], (struct sockaddr *)&sa,
		    &len) == -1 || getnameinfo((struct sockaddr *)&sa, len,
		    host, sizeof host, port, sizeof port, NI_NUMERICHOST |
		    NI_NUMERICSERV) != 0)
			continue;
		v6 = strchr(host, ':') != NULL;
		cli_note("listening at http://%s%s%s:%s", v6 ? "[" : "", host,
		    v6 ? "]" : "", port);
	}
}

/* Return a pointer to the port in network byte order, or NULL. */
static in_port_t *
port_of(struct sockaddr *sa)
{
	return sa->sa_family == AF_INET ?
	    &((struct sockaddr_in *)(void *)sa)->sin_port :
	    sa->sa_family == AF_INET6 ?
	    &((struct sockaddr_in6 *)(void *)sa)->sin6_port : NULL;
}

/* For port 0: the other addresses get the port that the first one got. */
static void
share_port(int fd, struct addrinfo *a)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof sa;
	in_port_t *got = NULL, *to;

	if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
		got = port_of((struct sockaddr *)&sa);
	for (; got != NULL && a != NULL; a = a->ai_next) {
		if ((to = port_of(a->ai_addr)) != NULL && *to == 0)
			*to = *got;
	}
}

/*
 * Return 1 if the address is in the list before; a hosts file may repeat one.
 */
static int
came_before(const struct addrinfo *list, const struct addrinfo *a)
{
	while (list != a && (list->ai_addrlen != a->ai_addrlen ||
	    memcmp(list->ai_addr, a->ai_addr, a->ai_addrlen) != 0))
		list = list->ai_next;
	return list != a;
}

/*
 * Open all addresses of the list that this machine has: 0.  With port 0, -1 if
 * the port that one address got is in use at another.
 */
static int
open_all(struct qserve *s, const char *where, struct addrinfo *list,
    int any_port)
{
	size_t had = s->n_listeners;
	struct addrinfo *a;
	int fd, why = 0;

	for (a = list; a != NULL; a = a->ai_next) {
		if (came_before(list, a))
			continue;
		if ((fd = open_one(a)) != -1) {
			add_listener(s, fd, NULL);
			share_port(fd, a->ai_next);
		} else if (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL) {
			why = errno;
		} else if (errno == EADDRINUSE && any_port &&
		    s->n_listeners > had) {
			while (s->n_listeners > had)
				close(s->listener[--s->n_listeners]);
			return -1;
		} else
			die("%s: %s", where, strerror(errno));
	}
	if (s->n_listeners == had)
		die("%s: %s", where, strerror(why));
	return 0;
}

static void
listen_net(struct qserve *s, const char *where)
{
	struct addrinfo how = { .ai_socktype = SOCK_STREAM,
	    .ai_flags = AI_PASSIVE }, *list;
	int rc, left = PORTS_TRIED;
	char host[256];
	const char *port;
	int any_port = split(where, host, sizeof host, &port) == 0;

	tool_network_init();
	do {
		rc = getaddrinfo(host[0] != '\0' ? host : NULL, port, &how,
		    &list);
		if (rc != 0)
			die("%s: %s", where, gai_strerror(rc));
		rc = open_all(s, where, list, any_port && --left > 0);
		freeaddrinfo(list);
	} while (rc < 0);
}

/* Add the sockets passed by systemd as listeners; return their number. */
static size_t
take_systemd_sockets(struct qserve *s)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	size_t i, count = 0;

	if (pid != NULL && n != NULL && strtoll(pid, NULL, 10) == getpid())
		count = (size_t)strtoul(n, NULL, 10);
	if (count > QSERVE_LISTENERS)
		die("LISTEN_FDS: more than %d sockets", QSERVE_LISTENERS);
	for (i = 0; i < count; i++) {
		s->listener[i] = FIRST_SYSTEMD_FD + (int)i;
		if (tool_fd_prepare(s->listener[i]) == -1)
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
qserve_listen(struct qserve *s)
{
	static const char *const usual[] = { "127.0.0.1:8080" };
	const char *const *v = s->listen.n > 0 ? s->listen.v : usual;
	size_t i, n = s->listen.n > 0 ? s->listen.n : 1;
	size_t prefix = sizeof unix_prefix - 1;

	s->n_given = take_systemd_sockets(s);
	if (s->n_given > 0 && s->listen.n == 0)
		return;
	for (i = 0; i < n; i++) {
		if (strncmp(v[i], unix_prefix, prefix) != 0)
			listen_net(s, v[i]);
		else
			add_listener(s, tool_socket_listen(v[i] + prefix,
			    s->socket_mode), v[i] + prefix);
	}
}

void
qserve_unlisten(struct qserve *s)
{
	size_t i;

	for (i = 0; i < s->n_listeners; i++) {
		if (s->listener_path[i] != NULL)
			tool_socket_close(s->listener[i], s->listener_path[i]);
		else
			close(s->listener[i]);
	}
	s->n_listeners = 0;
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
