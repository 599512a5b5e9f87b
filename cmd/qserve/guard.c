/* SPDX-License-Identifier: ISC */
/*
 * guard.c - decide which requests are allowed: API keys, names of this server,
 * and origins of web pages.
 *
 * A page of another site can make a browser send requests to this server.  If
 * it also gives its own host name this server's address (DNS rebinding), it can
 * read the answers.  So without API keys, the Host header must have a name of
 * this server; and any origin must be this server or one of --cors.
 */
#include <sys/stat.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "qserve.h"

enum { KEY_MAX = 256, KEYS_FILE_MAX = 1 << 20 };

/* -------------------------------------------------------------------- keys */

static void
add_key(struct qserve *s, const char *key, size_t n, const char *where)
{
	if (n > KEY_MAX)
		die("%s: a key has at most %d bytes", where, KEY_MAX);
	cli_grow(&s->keys.v, &s->keys.cap, s->keys.n + 1, sizeof *s->keys.v);
	s->keys.v[s->keys.n++] = cli_format("%.*s", (int)n, key);
}

/* Return s without surrounding blanks; *n: its length. */
static const char *
trim(const char *s, size_t *n)
{
	size_t before = strspn(s, " \t\r");

	s += before;
	for (*n = strlen(s); *n > 0 && strchr(" \t\r", s[*n - 1]) != NULL;)
		--*n;
	return s;
}

static void
read_keys(struct qserve *s)
{
	const char *key;
	char *text, *line, *rest;
	struct stat st;
	size_t n;

	text = rest = cli_read_file(s->key_file, KEYS_FILE_MAX, &n);
	while ((line = strsep(&rest, "\n")) != NULL) {
		key = trim(line, &n);
		if (n > 0 && key[0] != '#')
			add_key(s, key, n, s->key_file);
	}
	free(text);
	if (s->keys.n == 0)
		die("%s: the file has no key", s->key_file);
	if (stat(s->key_file, &st) == 0 && S_ISREG(st.st_mode) &&
	    (st.st_mode & (S_IRGRP | S_IROTH)) != 0)
		cli_note("%s: other users can read the keys (chmod 600)",
		    s->key_file);
}

/* Return 1 for an origin, which is only scheme, host and port, or "null". */
static int
is_origin(const char *s)
{
	const char *at = strstr(s, "://");

	return strcmp(s, "null") == 0 || (at != NULL && at != s &&
	    at[3] != '\0' && at[3 + strcspn(at + 3, "/ ?#*")] == '\0');
}

/* Return 1 for a host name as host_name() returns it. */
static int
is_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");

	return n > 0 && s[n] == '\0' && s[n - 1] != '.';
}

/* Return 1 for an IPv4 or IPv6 address. */
static int
is_address(const char *s)
{
	unsigned char addr[16];

	return inet_pton(AF_INET, s, addr) == 1 ||
	    inet_pton(AF_INET6, s, addr) == 1;
}

/*
 * Return the path of the key file in the service's credentials (LoadCredential=
 * of systemd.exec(5)), or NULL.
 */
static char *
credential(void)
{
	const char *folder = cli_env("CREDENTIALS_DIRECTORY");
	struct stat st;
	char *path;

	if (folder == NULL)
		return NULL;
	path = cli_format("%s/qserve.api-keys", folder);
	/* a file that cannot be read is an error of read_keys() */
	if (lstat(path, &st) == 0 || errno != ENOENT)
		return path;
	free(path);
	return NULL;
}

void
qserve_guard_open(struct qserve *s)
{
	const char *env = getenv("QSERVE_API_KEY");
	size_t i, n;

	for (i = 0; i < s->cors.n; i++) {
		if (strcmp(s->cors.v[i], "*") != 0 && !is_origin(s->cors.v[i]))
			cli_usage("--cors: '%s' is not an origin like "
			    "https://example.org", s->cors.v[i]);
	}
	for (i = 0; i < s->hosts.n; i++) {
		if (is_address(s->hosts.v[i]))
			cli_usage("--host: '%s' is an address, which is always "
			    "allowed; to listen there use --listen HOST:PORT",
			    s->hosts.v[i]);
		if (strcmp(s->hosts.v[i], "*") != 0 && !is_name(s->hosts.v[i]))
			cli_usage("--host: '%s' is not a name like example.org",
			    s->hosts.v[i]);
	}
	if (env != NULL && (env = trim(env, &n))[0] != '\0')
		add_key(s, env, n, "QSERVE_API_KEY");
	/* engines must not see it */
	unsetenv("QSERVE_API_KEY");
	if (s->key_file == NULL)
		s->key_file = credential();
	if (s->key_file != NULL)
		read_keys(s);
}

/* Compare keys in constant time. */
static int
is_key(const char *key, const char *given, size_t n)
{
	unsigned char a[KEY_MAX + 1] = { 0 }, b[KEY_MAX + 1] = { 0 };
	volatile unsigned char diff = 0;
	size_t i;

	memcpy(a, key, strlen(key));
	memcpy(b, given, n);
	for (i = 0; i < sizeof a; i++)
		diff |= a[i] ^ b[i];
	return diff == 0;
}

static int
has_key(const struct qserve_call *c)
{
	const char *given = qserve_header(c, "Authorization");
	const struct cli_list *keys = &c->server->keys;
	int found = 0;
	size_t i, n;

	if (given != NULL && strncasecmp(given, "Bearer ", 7) == 0)
		given += 7;
	else
		given = qserve_header(c, "x-api-key");
	if (given == NULL)
		return 0;
	given = trim(given, &n);
	if (n > KEY_MAX)
		return 0;
	for (i = 0; i < keys->n; i++)
		found |= is_key(keys->v[i], given, n);
	return found;
}

/* ------------------------------------------------------------------- names */

static int
is_in(const struct cli_list *l, const char *s)
{
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (strcmp(l->v[i], "*") == 0 || strcasecmp(l->v[i], s) == 0)
			return 1;
	}
	return 0;
}

/*
 * Copy the name of "name:8080" or "[::1]:8080", without port and brackets: 1,
 * or 0 if that is not possible.
 */
static int
host_name(const char *host, char *out, size_t size)
{
	int v6 = host[0] == '[';
	size_t n = strcspn(host += v6, v6 ? "]" : ":");

	/* the name may end with a dot */
	if (!v6 && n > 1 && host[n - 1] == '.')
		n--;
	if (n == 0 || n >= size)
		return 0;
	memcpy(out, host, n);
	out[n] = '\0';
	return 1;
}

/*
 * Return 1 if the host is a name or address of this server.  Addresses are
 * always safe: DNS rebinding needs a name.
 */
static int
is_ours(const struct qserve *s, const char *host)
{
	char name[256], self[256] = "";
	size_t n;

	if (!host_name(host, name, sizeof name))
		return 0;
	gethostname(self, sizeof self - 1);
	n = strlen(name);
	return is_address(name) || strcasecmp(name, "localhost") == 0 ||
	    (n > 10 && strcasecmp(name + n - 10, ".localhost") == 0) ||
	    strcasecmp(name, self) == 0 || is_in(&s->hosts, name);
}

/* ---------------------------------------------------------------- the guard */

enum { SHOWN = 120 };	/* bytes of a name or origin in a message */

/* Refuse the host; the message has the option that would allow it. */
static void
refuse_host(struct qserve_call *c, const char *host)
{
	char name[256];

	if (host_name(host, name, sizeof name) && is_name(name) &&
	    strlen(name) <= SHOWN)
		qserve_error(c, 403, "host_not_allowed", "this server is not "
		    "known as '%s'; to allow that name, start it with: "
		    "qserve --host %s", name, name);
	else
		qserve_error(c, 403, "host_not_allowed", "this server does not "
		    "go by the name in the header Host; to allow a name, start "
		    "it with: qserve --host NAME");
}

/*
 * Refuse the origin of a page; the message has the option that would allow it.
 */
static void
refuse_origin(struct qserve_call *c, const char *origin)
{
	size_t n = strspn(origin, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:/[]");

	if (is_origin(origin) && origin[n] == '\0' && n <= SHOWN)
		qserve_error(c, 403, "origin_not_allowed", "pages and apps of "
		    "the origin '%s' may not use this server; to allow them, "
		    "start it with: qserve --cors %s", origin, origin);
	else
		qserve_error(c, 403, "origin_not_allowed", "pages and apps of "
		    "this origin may not use this server; to allow them, start "
		    "it with: qserve --cors ORIGIN");
}

int
qserve_check_access(struct qserve_call *c)
{
	const struct qserve *s = c->server;
	const char *host = c->host != NULL ? c->host :
	    qserve_header(c, "Host");
	const char *origin = qserve_header(c, "Origin");
	const char *at = origin != NULL ? strstr(origin, "://") : NULL;

	if (s->keys.n == 0 && host != NULL && !is_ours(s, host)) {
		refuse_host(c, host);
		return -1;
	}
	if (origin != NULL && is_in(&s->cors, origin)) {
		c->origin = origin;
	} else if (origin != NULL && (host == NULL || at == NULL ||
	    strcasecmp(at + 3, host) != 0)) {
		/* not this server, by the name that the client uses */
		refuse_origin(c, origin);
		return -1;
	}
	if (c->origin != NULL && strcmp(c->method, "OPTIONS") == 0) {
		c->preflight = 1;
		qserve_done(c, 204);
		return -1;
	}
	if (s->keys.n > 0 && !has_key(c) && (c->route == NULL ||
	    c->route->what != QSERVE_OPEN)) {
		qserve_error(c, 401, "invalid_api_key", "the API key is "
		    "missing or wrong");
		return -1;
	}
	return 0;
}
