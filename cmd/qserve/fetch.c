/* SPDX-License-Identifier: ISC */
/*
 * fetch.c - get the image of a URL, in the child process that becomes qimage.
 * The server itself opens no connection, and libcurl is loaded in the child.
 */
#define _GNU_SOURCE	/* syscall */
#include <sys/socket.h>
#include <sys/syscall.h>

#include <netinet/in.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cursor.h"
#include "qserve.h"

#if defined(__has_include) && __has_include(<curl/curl.h>)
#include <curl/curl.h>
#ifndef QPIPE_STATIC
#include <dlfcn.h>
#endif

enum {
	CONNECT_S = 10, TRANSFER_S = 60,
	REDIRECTS = 5,
};

#define CALLS(X) X(global_init) X(easy_init) X(easy_setopt) X(easy_perform) \
	X(easy_strerror)
#define AS_MEMBER(f) __typeof__(curl_##f) *f;

#ifdef QPIPE_STATIC
#define AS_ADDRESS(f) .f = curl_##f,

static const struct {
	CALLS(AS_MEMBER)
} curl = { CALLS(AS_ADDRESS) };

static const char *
load_libcurl(void)
{
	return NULL;
}

#else
#define AS_NAME(f) { "curl_" #f, (void **)&curl.f },

static struct {
	CALLS(AS_MEMBER)
} curl;

/* Return why libcurl cannot be used, or NULL. */
static const char *
load_libcurl(void)
{
	static const char *const files[] = { "libcurl.so.4",
	    "libcurl-gnutls.so.4", "libcurl.4.dylib" };
	const struct {
		const char	*name;
		void		**to;
	} calls[] = { CALLS(AS_NAME) };
	void *lib = NULL;
	size_t i;

	for (i = 0; i < sizeof files / sizeof files[0] && lib == NULL; i++)
		lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL)
		return "URLs need libcurl, which is not installed";
	for (i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		*calls[i].to = dlsym(lib, calls[i].name);
		if (*calls[i].to == NULL)
			return "URLs need a newer libcurl";
	}
	return NULL;
}
#endif

/* What a transfer may do, and has done. */
struct transfer {
	int		 any;		/* private addresses too */
	uint64_t	 left;		/* bytes that may still come */
	int		 refused;	/* an address was not public */
};

/* Return 1 for an IPv4 address of the internet, most significant byte first. */
static int
is_public4(uint32_t a)
{
	static const struct { uint32_t net; int bits; } others[] = {
		{ 0x00000000, 8 }, { 0x0a000000, 8 }, { 0x64400000, 10 },
		{ 0x7f000000, 8 }, { 0xa9fe0000, 16 }, { 0xac100000, 12 },
		{ 0xc0000000, 24 }, { 0xc0000200, 24 }, { 0xc0586300, 24 },
		{ 0xc0a80000, 16 }, { 0xc6120000, 15 }, { 0xc6336400, 24 },
		{ 0xcb007100, 24 }, { 0xe0000000, 3 },
	};
	size_t i, n = sizeof others / sizeof others[0];

	for (i = 0; i < n && (a ^ others[i].net) >> (32 - others[i].bits) != 0;
	    i++)
		;
	return i == n;
}

/* The same for IPv6: global ones, except those that stand for IPv4 ones. */
static int
is_public6(const unsigned char b[16])
{
	unsigned first = (unsigned)b[0] << 8 | b[1];
	unsigned second = (unsigned)b[2] << 8 | b[3];

	return first >> 13 == 1 && first != 0x2002 && (first != 0x2001 ||
	    (second >= 0x0200 && second != 0x0db8)) && first < 0x3ff0;
}

static int
is_public(const struct sockaddr *sa)
{
	const struct sockaddr_in *in = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;

	return sa->sa_family == AF_INET ? is_public4(ntohl(
	    in->sin_addr.s_addr)) : sa->sa_family == AF_INET6 &&
	    is_public6(in6->sin6_addr.s6_addr);
}

/* libcurl is about to connect, also after a redirect. */
static curl_socket_t
on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct transfer *t = arg;

	(void)purpose;
	if (!t->any && !is_public(&a->addr)) {
		t->refused = 1;
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static size_t
on_data(char *p, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	ssize_t got;
	size_t at;

	n *= size;
	if (n > t->left) {
		t->left = 0;
		return 0;
	}
	t->left -= n;
	for (at = 0; at < n; at += (size_t)got) {
		if ((got = write(STDIN_FILENO, p + at, n - at)) <= 0)
			return 0;
	}
	return n;
}

static void
set_up(CURL *e, struct transfer *t, const char *url)
{
	const char *ca = tool_ca_file();

	if (ca != NULL)
		curl.easy_setopt(e, CURLOPT_CAINFO, ca);
	curl.easy_setopt(e, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
	curl.easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl.easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
	curl.easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP |
	    CURLPROTO_HTTPS));
	curl.easy_setopt(e, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP |
	    CURLPROTO_HTTPS));
#endif
	curl.easy_setopt(e, CURLOPT_FOLLOWLOCATION, 1L);
	curl.easy_setopt(e, CURLOPT_MAXREDIRS, (long)REDIRECTS);
	curl.easy_setopt(e, CURLOPT_FAILONERROR, 1L);
	curl.easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	/* a proxy would connect where it likes */
	curl.easy_setopt(e, CURLOPT_PROXY, "");
	curl.easy_setopt(e, CURLOPT_USERAGENT, "qserve/" QWEN_VERSION);
	curl.easy_setopt(e, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl.easy_setopt(e, CURLOPT_TIMEOUT, (long)TRANSFER_S);
	curl.easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	curl.easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
	curl.easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
	curl.easy_setopt(e, CURLOPT_WRITEDATA, t);
}

/* Get the URL to stdin.  Return what is wrong, or NULL. */
static const char *
get(const struct qserve_url *u)
{
	struct transfer t = { .any = u->any, .left = u->max };
	const char *why = load_libcurl();
	CURLcode code;
	CURL *e;

	if (why != NULL)
		return why;
	tool_network_init();
	if (curl.global_init(CURL_GLOBAL_DEFAULT) != 0 ||
	    (e = curl.easy_init()) == NULL)
		return "cannot initialise libcurl";
	set_up(e, &t, u->url);
	code = curl.easy_perform(e);
	if (t.refused)
		return "the URL leads to a private address: --image-url any "
		    "allows that";
	if (code == CURLE_WRITE_ERROR && t.left == 0)
		return "the file is larger than --max-body";
	return code != CURLE_OK ? curl.easy_strerror(code) : NULL;
}

#else
static const char *
get(const struct qserve_url *u)
{
	(void)u;
	return "URLs need libcurl, and this program was built without it";
}
#endif

/* Close what the child inherits: a client would not see that its end is gone. */
static void
close_others(void)
{
	long fd, n = sysconf(_SC_OPEN_MAX);

#ifdef SYS_close_range
	if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0)
		return;
#endif
	for (fd = 3; fd < n; fd++)
		close((int)fd);
}

void
qserve_fetch(void *arg)
{
	const struct qserve_url *u = arg;
	const char *why;

	close_others();
	if ((why = get(u)) == NULL && lseek(STDIN_FILENO, 0, SEEK_SET) == 0)
		return;
	/* as if qimage said it of the image */
	dprintf(STDERR_FILENO, "qimage: stdin: %.120s: %s\n", u->url,
	    why != NULL ? why : "cannot be kept");
	_exit(1);
}
