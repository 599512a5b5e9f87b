/* SPDX-License-Identifier: ISC */
/*
 * http.c - HTTP with libmicrohttpd (MHD), which runs only when called and never
 * waits.  Sockets are accepted here and passed to MHD; MHD calls back with
 * requests; connections without output are suspended.
 */
#include <sys/socket.h>

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "qserve.h"

enum {
	HEADERS_MAX = 64 << 10,		/* MHD's memory per connection */
	OWN_FDS = 20,			/* descriptors of listeners, files,
					   ... */
	ENGINE_FDS = 2,			/* descriptors per engine */
	ACCEPT_PAUSE_S = 1,		/* seconds until the next accept(2)
					   after descriptors ran out */
	SWALLOW = 4,			/* times max_body: a client that sends
					   more is disconnected */
};

/* ---------------------------------------------------------------- requests */

static void
refuse_large(struct qserve_call *c)
{
	qserve_error(c, 413, "request_too_large", "the request has more than "
	    "%llu bytes", cli_llu(c->server->max_body));
}

/* Headers that determine where a request ends and its host. */
struct header_counts {
	int		 n_host, n_length, n_encoding, bad_name;
	const char	*encoding;
};

static enum MHD_Result
count_header(void *arg, enum MHD_ValueKind kind, const char *key,
    const char *value)
{
	struct header_counts *h = arg;

	(void)kind;
	h->bad_name |= key[0] == '\0' || key[strcspn(key, " \t")] != '\0';
	h->n_host += strcasecmp(key, "Host") == 0;
	h->n_length += strcasecmp(key, "Content-Length") == 0;
	if (strcasecmp(key, "Transfer-Encoding") == 0) {
		h->n_encoding++;
		h->encoding = value;
	}
	return MHD_YES;
}

/*
 * Return why a proxy in front could understand the request differently from us
 * (request smuggling), or NULL.
 */
static const char *
is_ambiguous(const struct qserve_call *c, const char *version)
{
	struct header_counts h = { 0 };

	MHD_get_connection_values(c->conn->mhd, MHD_HEADER_KIND, count_header,
	    &h);
	if (h.bad_name)
		return "the name of a header has a blank";
	if (h.n_host > 1 || (h.n_host == 0 && strcmp(version, "HTTP/1.0") != 0))
		return "exactly one Host header is needed";
	if (h.n_length + h.n_encoding > 1)
		return "only one of Content-Length and Transfer-Encoding is "
		    "allowed";
	if (h.n_encoding > 0 && (strcasecmp(h.encoding, "chunked") != 0 ||
	    strcmp(version, "HTTP/1.0") == 0))
		return "its Transfer-Encoding is not chunked";
	return NULL;
}

/* Check the headers; answers the call if they are wrong. */
static void
check_headers(struct qserve_call *c, const char *version)
{
	const char *wrong = is_ambiguous(c, version);
	const char *length = qserve_header(c, "Content-Length");
	const char *encoding = qserve_header(c, "Content-Encoding");
	int status;

	c->route = qserve_route(c->method, c->path, &status, &c->allow);
	c->form = c->route != NULL ? c->route->form :
	    strncmp(c->path, "/api/", 5) == 0 ? QWEN_FORM_OLLAMA_CHAT :
	    strncmp(c->path, "/v1/messages", 12) == 0 ? QWEN_FORM_MESSAGES :
	    QWEN_FORM_CHAT;
	/* all of Anthropic's clients send this, with any request */
	if ((c->route == NULL || strcmp(c->method, "POST") != 0) &&
	    qserve_header(c, "anthropic-version") != NULL)
		c->form = QWEN_FORM_MESSAGES;
	if (wrong != NULL) {
		c->hangs_up = 1;
		qserve_error(c, 400, "bad_request", "not a valid request: %s",
		    wrong);
		return;
	}
	if (qserve_check_access(c) < 0)
		return;
	if (c->server->draining && (c->route == NULL ||
	    c->route->what != QSERVE_OPEN))
		qserve_error(c, 503, "unavailable", "the server is shutting "
		    "down");
	else if (c->route == NULL && status == 405)
		qserve_error(c, 405, "method_not_allowed", "%s takes %s, not "
		    "%s", c->path, c->allow, c->method);
	else if (c->route == NULL)
		qserve_error(c, 404, "not_found", "there is nothing at %s",
		    c->path);
	else if (encoding != NULL && strcasecmp(encoding, "identity") != 0)
		qserve_error(c, 415, "unsupported_encoding", "Content-Encoding "
		    "%s is not supported: send the body as it is", encoding);
	else if (length != NULL && strtoull(length, NULL, 10) >
	    c->server->max_body)
		refuse_large(c);
}

static enum MHD_Result
receive_body(struct qserve_call *c, const char *data, size_t n)
{
	uint64_t max = c->server->max_body;
	size_t had = c->body.n;

	c->n_body += n;
	if (c->n_body > max * SWALLOW)
		return MHD_NO;
	if (c->status != 0)
		return MHD_YES;
	if (c->n_body > max)
		refuse_large(c);
	else if (c->server->n_body_bytes + n > c->server->max_bodies)
		qserve_error(c, 503, "overloaded", "the requests in progress "
		    "exceed %llu bytes together",
		    cli_llu(c->server->max_bodies));
	else {
		qwen_text_add(&c->body, data, n);
		c->server->n_body_bytes += c->body.n - had;
		if (c->body.failed)
			qserve_error(c, 500, "out_of_memory", "out of memory");
	}
	if (c->status != 0)
		qserve_body_free(c);
	return MHD_YES;
}

/* ---------------------------------------------------------------- responses */

/* MHD wants more bytes of a stream. */
static ssize_t
read_stream(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct qserve_call *c = arg;
	size_t n = c->out.n - c->at;

	(void)pos;
	if (c->client_left)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n == 0 && c->ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n == 0) {
		c->suspended = 1;
		MHD_suspend_connection(c->conn->mhd);
		return 0;
	}
	n = n < max ? n : max;
	memcpy(buf, c->out.s + c->at, n);
	tool_sent(&c->out, &c->at, n);
	return (ssize_t)n;
}

/*
 * Add the headers.  Those of CORS allow the page's origin, and in a preflight
 * the headers that the client wants to send.
 */
static void
add_headers(struct qserve_call *c, struct MHD_Response *r)
{
	const char *wanted = qserve_header(c, "Access-Control-Request-Headers");
	/* browsers send this for servers on private networks */
	const char *private = qserve_header(c,
	    "Access-Control-Request-Private-Network");
	int cors = c->origin != NULL, page = c->policy.n > 0;
	char retry[32];
	const struct {
		int		 is;
		const char	*name, *value;
	} rows[] = {
		{ 1, "Content-Type", c->is_stream ?
		    qwen_form_stream_type(c->form) : c->type != NULL ?
		    c->type : "application/json" },
		{ 1, "X-Content-Type-Options", "nosniff" },
		{ cors, "Access-Control-Allow-Origin", c->origin },
		{ cors, "Vary", "Origin" },
		{ cors && !c->preflight, "Access-Control-Expose-Headers",
		    "X-Seed" },
		{ c->preflight, "Access-Control-Allow-Methods",
		    "GET, POST, DELETE" },
		{ c->preflight && wanted != NULL,
		    "Access-Control-Allow-Headers", wanted },
		{ c->preflight && private != NULL,
		    "Access-Control-Allow-Private-Network", "true" },
		{ c->preflight, "Access-Control-Max-Age", "86400" },
		{ c->is_stream, "Cache-Control", "no-cache" },
		{ c->is_stream, "X-Accel-Buffering", "no" },
		{ page, "Cache-Control", "no-store" },
		{ page, "Content-Security-Policy", c->policy.s },
		{ c->seed[0] != '\0', "X-Seed", c->seed },
		{ c->retry_s > 0, "Retry-After", retry },
		{ c->status == 405 && c->allow != NULL, "Allow", c->allow },
		{ c->status == 401, "WWW-Authenticate", "Bearer" },
		{ c->server->draining || c->hangs_up, "Connection", "close" },
	};
	size_t i;

	snprintf(retry, sizeof retry, "%u", c->retry_s);
	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (rows[i].is)
			MHD_add_response_header(r, rows[i].name, rows[i].value);
	}
}

static enum MHD_Result
queue_response(struct qserve_call *c)
{
	struct MHD_Response *r = c->is_stream ?
	    MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1 << 12,
	    read_stream, c, NULL) : MHD_create_response_from_buffer(c->out.n,
	    c->out.s != NULL ? c->out.s : (void *)(uintptr_t)"",
	    MHD_RESPMEM_PERSISTENT);
	enum MHD_Result rc;

	if (r == NULL)
		return MHD_NO;
	add_headers(c, r);
	c->queued = 1;
	rc = MHD_queue_response(c->conn->mhd, (unsigned)c->status, r);
	MHD_destroy_response(r);
	return rc;
}

/* ------------------------------------------------------------ MHD callbacks */

/*
 * MHD calls this first with the headers, then with parts of the body, then
 * without data; and again after each resumption.
 */
static enum MHD_Result
on_request(void *arg, struct MHD_Connection *mhd, const char *url,
    const char *method, const char *version, const char *data, size_t *n,
    void **call)
{
	struct qserve *s = arg;
	struct qserve_conn *conn = *(void **)(uintptr_t)
	    MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct qserve_call *c = *call;
	size_t had = *n;

	if (c == NULL) {
		/* out of memory */
		if (conn == NULL || (*call = c = qserve_call_new(s, conn,
		    method, url)) == NULL)
			return MHD_NO;
		MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT,
		    s->stall_s);
		check_headers(c, version);
		/*
		 * a client that sent Expect gets an error before it sends the
		 * body
		 */
		return c->status != 0 && (c->hangs_up ||
		    qserve_header(c, "Expect") != NULL) ? queue_response(c) :
		    MHD_YES;
	}
	*n = 0;
	if (c->client_left)
		return MHD_NO;
	if (had > 0)
		return receive_body(c, data, had);
	if (!c->received) {
		c->received = 1;
		if (c->status == 0 && c->body.n == 0 &&
		    strcmp(c->method, "POST") == 0)
			qserve_error(c, 400, "invalid_json", "the request has "
			    "no body: send a JSON object");
		if (c->status == 0)
			qserve_call_begin(c);
		tool_report_notes(&c->server->unknown);
	}
	if (c->status != 0)
		return queue_response(c);
	c->suspended = 1;
	MHD_suspend_connection(mhd);
	return MHD_YES;
}

static void
on_completed(void *arg, struct MHD_Connection *mhd, void **call,
    enum MHD_RequestTerminationCode why)
{
	struct qserve *s = arg;
	struct qserve_call *c = *call;

	if (c == NULL)
		return;
	/* a client that has the whole stream may disconnect before its end */
	if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK &&
	    why != MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN &&
	    !(c->ended && c->at == c->out.n))
		qserve_call_left(c);
	if (cli_verbose)
		cli_note("%s %s: %d, %.3f s", c->method, c->path, c->status,
		    cli_now() - c->since);
	*call = NULL;
	qserve_call_free(c);
	MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT,
	    s->idle_s);
}

static void
on_connection(void *arg, struct MHD_Connection *mhd, void **context,
    enum MHD_ConnectionNotificationCode code)
{
	struct qserve *s = arg;
	struct qserve_conn *conn = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = conn = calloc(1, sizeof *conn);
		if (conn == NULL)
			return;
		conn->mhd = mhd;
		conn->fd = MHD_get_connection_info(mhd,
		    MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		conn->since = cli_now();
		conn->next = s->conns;
		if (conn->next != NULL)
			conn->next->prev = conn;
		s->conns = conn;
		s->n_conns++;
		return;
	}
	s->no_accept_until = 0;
	if (conn == NULL)
		return;
	*(conn->prev != NULL ? &conn->prev->next : &s->conns) = conn->next;
	if (conn->next != NULL)
		conn->next->prev = conn->prev;
	s->n_conns--;
	free(conn);
}

/* ------------------------------------------------------------------- daemon */

/* Unescape a path, unless it contains a NUL, where the path would end. */
static size_t
unescape(void *arg, struct MHD_Connection *mhd, char *path)
{
	(void)arg;
	(void)mhd;
	return strstr(path, "%00") != NULL ? strlen(path) :
	    MHD_http_unescape(path);
}

/*
 * Raise the limit of descriptors to what clients and engines need, or, if that
 * is not allowed, lower the number of clients.
 */
static void
fit_descriptors(struct qserve *s)
{
	size_t n_engines = s->commands.n > 0 ? s->commands.n : 1;
	uint64_t rest = OWN_FDS + ENGINE_FDS * n_engines, need = rest +
	    s->max_connections, got = tool_fd_limit(need);

	if (got >= need)
		return;
	if (got <= rest)
		die("%llu file descriptors (ulimit -n) are too few: %llu are "
		    "needed", cli_llu(got), cli_llu(rest) + 1);
	s->max_connections = (unsigned)(got - rest);
	cli_note("at most %u clients at the same time: the limit of file "
	    "descriptors is %llu (ulimit -n)", s->max_connections,
	    cli_llu(got));
}

/* libmicrohttpd calls this instead of abort(3) when a system call failed. */
static void
panic(void *arg, const char *file, unsigned line, const char *reason)
{
	(void)arg;
	(void)file;
	(void)line;
	die("libmicrohttpd: %s", reason != NULL ? reason : "a system call has failed");
}

void
qserve_http_open(struct qserve *s)
{
	const union MHD_DaemonInfo *info;

	fit_descriptors(s);
	MHD_set_panic_func(panic, NULL);

	s->http = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
	    MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, s,
	    MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
	    MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
	    MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS_MAX,
	    MHD_OPTION_CONNECTION_LIMIT, s->max_connections,
	    MHD_OPTION_CONNECTION_TIMEOUT, s->idle_s,
	    MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
	if (s->http == NULL && errno == ENOMEM)
		die("out of memory");
	if (s->http == NULL)
		die("libmicrohttpd cannot be used here: %s", strerror(errno));
	info = MHD_get_daemon_info(s->http, MHD_DAEMON_INFO_EPOLL_FD);
	s->http_fd = info->epoll_fd;
}

void
qserve_http_accept(struct qserve *s, int listener)
{
	struct sockaddr_storage sa;
	socklen_t len;
	int fd;

	while (s->n_conns < s->max_connections) {
		len = sizeof sa;
		fd = accept(listener, (struct sockaddr *)&sa, &len);
		if (fd == -1 && (errno == EMFILE || errno == ENFILE ||
		    errno == ENOMEM || errno == ENOBUFS))
			s->no_accept_until = cli_now() + ACCEPT_PAUSE_S;
		if (fd == -1)
			return;
		if (tool_fd_prepare(fd) == -1)
			close(fd);
		else	/* closes fd on failure */
			MHD_add_connection(s->http, fd,
			    (struct sockaddr *)&sa, len);
	}
}

void
qserve_http_run(struct qserve *s)
{
	s->resumed = 0;
	MHD_run(s->http);
}

int
qserve_http_timeout(const struct qserve *s)
{
	MHD_UNSIGNED_LONG_LONG ms;

	/* MHD does not count a connection that it resumes at its next run */
	if (s->resumed)
		return 0;
	if (MHD_get_timeout(s->http, &ms) != MHD_YES)
		return -1;
	return ms < 60000 ? (int)ms : 60000;
}
