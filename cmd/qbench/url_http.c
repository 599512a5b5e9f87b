/* SPDX-License-Identifier: ISC */
/*
 * url_http.c - concurrent requests to a server, with libcurl.
 *
 * The shared libcurl is loaded when needed, not linked: with its dependencies it
 * would add 5 ms to the start of a process, which qbench measures too. A static
 * libcurl takes no time.
 */
#include <stdlib.h>
#include <string.h>

#include "url.h"

#include <curl/curl.h>
#ifndef QPIPE_STATIC
#include <dlfcn.h>
#endif

#define CALLS(X) X(global_init) X(slist_append) X(slist_free_all) \
	X(easy_init) X(easy_setopt) X(easy_getinfo) X(easy_cleanup) \
	X(easy_strerror) X(multi_init) X(multi_setopt) X(multi_add_handle) \
	X(multi_remove_handle) X(multi_perform) X(multi_poll) \
	X(multi_info_read) X(multi_cleanup) X(multi_strerror)
#define AS_MEMBER(f) __typeof__(curl_##f) *f;
#define AS_NAME(f) { "curl_" #f, (void **)&curl.f },

#ifdef QPIPE_STATIC
#define AS_ADDRESS(f) .f = curl_##f,

static const struct {
	CALLS(AS_MEMBER)
} curl = { CALLS(AS_ADDRESS) };

static void
load_libcurl(void)
{
}

#else
static struct {
	CALLS(AS_MEMBER)
} curl;

static void
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
		die("--url needs libcurl, which is not installed: %s",
		    dlerror());
	for (i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		*calls[i].to = dlsym(lib, calls[i].name);
		if (*calls[i].to == NULL)
			die("--url needs a newer libcurl: %s", dlerror());
	}
}
#endif

static CURLM *multi;
static struct curl_slist *headers;
static const char *unix_socket;		/* or NULL */

static void
add_header(const char *s)
{
	headers = cli_check_alloc(curl.slist_append(headers, s));
}

void
qbench_http_open(const char *socket)
{
	const char *key = getenv("QSERVE_API_KEY");
	char *s;

	load_libcurl();
	tool_network_init();
	if (curl.global_init(CURL_GLOBAL_DEFAULT) != 0)
		die("cannot initialise libcurl");
	multi = cli_check_alloc(curl.multi_init());
	unix_socket = socket;
	/* keep all connections for later requests */
	curl.multi_setopt(multi, CURLMOPT_MAXCONNECTS, 65536L);
	add_header("Content-Type: application/json");
	add_header("Expect:");
	if (key != NULL && key[0] != '\0') {
		s = cli_format("Authorization: Bearer %s", key);
		if (s[strcspn(s, "\r\n")] != '\0')
			die("QSERVE_API_KEY is not one line");
		add_header(s);
		free(s);
	}
}

static size_t
on_data(char *p, size_t size, size_t n, void *arg)
{
	struct qbench_request *c = arg;

	qbench_stream_feed(&c->reply, p, size * n, cli_now());
	return size * n;
}

static void
set_up(struct qbench_request *c)
{
	const char *ca = tool_ca_file();
	CURL *e = c->easy;

	if (ca != NULL)
		curl.easy_setopt(e, CURLOPT_CAINFO, ca);
	curl.easy_setopt(e, CURLOPT_URL, c->url);
	curl.easy_setopt(e, CURLOPT_PRIVATE, c);
	curl.easy_setopt(e, CURLOPT_ERRORBUFFER, c->error);
	curl.easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	curl.easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl.easy_setopt(e, CURLOPT_PROXY, "");
	curl.easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
	curl.easy_setopt(e, CURLOPT_WRITEDATA, c);
	if (unix_socket != NULL)
		curl.easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, unix_socket);
	if (qbench_url.timeout > 0)
		curl.easy_setopt(e, CURLOPT_TIMEOUT_MS,
		    (long)(qbench_url.timeout * 1e3));
	if (c->body.n > 0) {
		curl.easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
		    (curl_off_t)c->body.n);
		curl.easy_setopt(e, CURLOPT_POSTFIELDS, c->body.s);
	}
}

void
qbench_http_start(struct qbench_request *c)
{
	CURLMcode rc;

	c->easy = cli_check_alloc(curl.easy_init());
	set_up(c);
	rc = curl.multi_add_handle(multi, c->easy);
	if (rc != CURLM_OK)
		die("libcurl: %s", curl.multi_strerror(rc));
}

/* Set the reply's error, if there was one. */
static void
judge(struct qbench_request *c, CURLcode rc)
{
	struct qbench_stream *s = &c->reply;
	char kind[24];

	qbench_stream_end(s, c->end);
	if (rc == CURLE_OPERATION_TIMEDOUT && c->status == 0 &&
	    s->n_chunks == 0 && strstr(c->error, "onnect") != NULL)
		rc = CURLE_COULDNT_CONNECT;
	if (rc != CURLE_OK) {
		qbench_stream_fail(s, rc == CURLE_OPERATION_TIMEDOUT ? "timeout" :
		    rc == CURLE_COULDNT_CONNECT ||
		    rc == CURLE_COULDNT_RESOLVE_HOST ? "connect" :
		    rc == CURLE_PARTIAL_FILE || rc == CURLE_RECV_ERROR ||
		    rc == CURLE_SEND_ERROR || rc == CURLE_GOT_NOTHING ?
		    "cut_short" : "transport",
		    c->error[0] != '\0' ? c->error : curl.easy_strerror(rc));
	} else if (c->status != 200) {
		snprintf(kind, sizeof kind, "http_%ld", c->status);
		qbench_stream_message(s);
		qbench_stream_fail(s, kind, s->why);
	} else if (c->body.n > 0 && !s->ended)
		qbench_stream_fail(s, s->n_chunks > 0 ? "cut_short" : "no_stream",
		    s->n_chunks > 0 ? "the stream ended without its last "
		    "event" :
		    "the reply is not a stream of tokens");
}

struct qbench_request *
qbench_http_wait(double seconds)
{
	struct qbench_request *c;
	char *private;
	CURLMsg *m;
	int n;

	for (;;) {
		curl.multi_perform(multi, &n);
		while ((m = curl.multi_info_read(multi, &n)) != NULL) {
			if (m->msg != CURLMSG_DONE)
				continue;
			curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE,
			    &private);
			c = (struct qbench_request *)(void *)private;
			curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE,
			    &c->status);
			c->end = cli_now();
			judge(c, m->data.result);
			curl.multi_remove_handle(multi, c->easy);
			curl.easy_cleanup(c->easy);
			return c;
		}
		if (seconds < 0)
			return NULL;
		/* a wait below 1 ms only polls */
		curl.multi_poll(multi, NULL, 0, (int)(seconds * 1e3), NULL);
		seconds = -1;
	}
}

void
qbench_http_close(void)
{
	curl.multi_cleanup(multi);
	curl.slist_free_all(headers);
}

void
qbench_request_free(struct qbench_request *c)
{
	if (c == NULL)
		return;
	free(c->url);
	qwen_text_fini(&c->body);
	qbench_stream_fini(&c->reply);
	free(c);
}
