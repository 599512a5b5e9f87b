/* SPDX-License-Identifier: ISC */
/*
 * http.c - requests to hubs by libcurl: https alone, with certificates checked.
 *
 * Redirects are followed here and not by libcurl, since each hop is looked at: only
 * https, and a token for the host alone to which it belongs.
 */
#include "http.h"

#if FETCH_NETWORK
#include <sys/socket.h>

#include <netinet/in.h>

#include <ctype.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
	HOPS = 10,
	CONNECT_S = 10,
	SLOW = 1024,		/* bytes per second; a slower transfer has stalled */
	BUFFER = 512 << 10,
	REST = 1 << 20,		/* bytes to read of a body that is not the file */
	WAIT_MAX = 300,		/* seconds that a hub may ask us to wait */
};

static CURL *easy;
static int answered;		/* a host has replied in this run */

/* A hop of a request. */
struct hop {
	const struct http_ask *ask;
	struct http_reply *reply;
	uint64_t	 rest;	/* bytes received of a body that is not the file */
	int		 begun;		/* begin was called: a trailer is no head */
	int		 bad_head;	/* begin did not want it */
	int		 n_redirects;
};

char *
fetch_escape(const char *s, int slashes)
{
	struct qwen_text t = { 0 };

	for (; *s != '\0'; s++) {
		if (isalnum((unsigned char)*s) || strchr("-._~", *s) != NULL ||
		    (slashes && *s == '/'))
			qwen_text_add(&t, s, 1);
		else
			qwen_text_fmt(&t, "%%%02X", (unsigned char)*s);
	}
	return cli_check_alloc(t.failed ? NULL : t.s);
}

/* Returns "host:port" of an https URL, to free(); else NULL. */
static char *
host_of(const char *url)
{
	char *scheme = NULL, *host = NULL, *port = NULL, *out = NULL;
	CURLU *u = cli_check_alloc(curl_url());

	if (curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	    strcasecmp(scheme, "https") == 0 &&
	    curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) ==
	    CURLUE_OK)
		out = cli_format("%s:%s", host, port);
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	curl_url_cleanup(u);
	return out;
}

int
fetch_same_host(const char *a, const char *b)
{
	char *x = host_of(a), *y = host_of(b);
	int same = x != NULL && y != NULL && strcasecmp(x, y) == 0;

	free(x);
	free(y);
	return same;
}

/* ------------------------------------------------------------------ headers */

/* A number, digits alone, up to any of the ends: 1. */
static int
number(const char *s, const char *ends, uint64_t *out)
{
	uint64_t v;

	if (qwen_digits(&s, &v) < 0 ||
	    (*s != '\0' && strchr(ends, *s) == NULL))
		return 0;
	*out = v;
	return 1;
}

/* "bytes 5-9/10" or "bytes *" "/10" */
static void
take_range(struct http_reply *r, const char *s)
{
	const char *total = strchr(s, '/');

	if (strncasecmp(s, "bytes ", 6) != 0)
		return;
	if (total != NULL && !number(total + 1, " ", &r->total))
		r->total = 0;
	r->ranged = number(s + 6, "-", &r->from);
}

/* <URL>; rel="next" */
static void
take_link(struct http_reply *r, const char *s)
{
	const char *open = strchr(s, '<'), *end;

	for (; open != NULL; open = strchr(end, '<')) {
		if ((end = strchr(open, '>')) == NULL)
			return;
		s = end + 1;
		if (strncmp(s + strspn(s, "; "), "rel=\"next\"", 10) != 0 ||
		    (size_t)(end - open) > sizeof r->next)
			continue;
		memcpy(r->next, open + 1, (size_t)(end - open) - 1);
		r->next[end - open - 1] = '\0';
		return;
	}
}

/* A text without quotes and the W/ before them. */
static void
take_text(char *out, size_t size, const char *s)
{
	size_t n;

	if (strncmp(s, "W/", 2) == 0)
		s += 2;
	if (*s == '"')
		s++;
	n = strcspn(s, "\"");
	n = n < size ? n : 0;
	memcpy(out, s, n);
	out[n] = '\0';
}

static void
take_header(struct http_reply *r, const char *name, const char *s)
{
	uint64_t n;

	if (strcasecmp(name, "content-length") == 0)
		r->length_known = number(s, " ", &r->length);
	else if (strcasecmp(name, "content-range") == 0)
		take_range(r, s);
	else if (strcasecmp(name, "content-encoding") == 0)
		r->packed = *s != '\0' && strcasecmp(s, "identity") != 0;
	else if (strcasecmp(name, "retry-after") == 0 && number(s, " ", &n))
		r->retry_after = n < WAIT_MAX ? (long)n : WAIT_MAX;
	else if (strcasecmp(name, "x-error-code") == 0)
		take_text(r->code, sizeof r->code, s);
	else if (strcasecmp(name, "x-linked-etag") == 0)
		take_text(r->etag, sizeof r->etag, s);
	else if (strcasecmp(name, "link") == 0)
		take_link(r, s);
}

/* Of each reply anew; a hop's X-Linked-Etag stays. */
static void
reset(struct http_reply *r)
{
	char etag[sizeof r->etag];
	int away = r->away;

	memcpy(etag, r->etag, sizeof etag);
	memset(r, 0, sizeof *r);
	memcpy(r->etag, etag, sizeof etag);
	r->retry_after = -1;
	r->away = away;
}

static int
is_answer(long status)
{
	return status == 200 || status == 206;
}

static size_t
on_header(char *p, size_t size, size_t n, void *arg)
{
	struct hop *h = arg;
	char line[4096], *s, *end;

	n *= size;
	if (n >= sizeof line)
		return n;	/* no header that is used is this long */
	memcpy(line, p, n);
	line[n] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	if (strncmp(line, "HTTP/", 5) == 0) {
		reset(h->reply);
		h->begun = 0;
		return n;
	}
	if (line[0] == '\0') {
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE,
		    &h->reply->status);
		if (!is_answer(h->reply->status) || h->begun)
			return n;
		h->begun = 1;
		h->bad_head = h->reply->packed ||
		    h->ask->begin(h->ask->arg, h->reply) < 0;
		return h->bad_head ? 0 : n;
	}
	if ((s = strchr(line, ':')) == NULL)
		return n;
	*s++ = '\0';
	s += strspn(s, " \t");
	for (end = s + strlen(s); end > s && strchr(" \t", end[-1]) != NULL;)
		*--end = '\0';
	take_header(h->reply, line, s);
	return n;
}

static size_t
on_data(char *p, size_t size, size_t n, void *arg)
{
	struct hop *h = arg;

	n *= size;
	if (is_answer(h->reply->status))
		return h->ask->data(h->ask->arg, p, n) < 0 ? 0 : n;
	h->rest += n;
	return h->rest > REST ? 0 : n;
}

/* ------------------------------------------------------------------- requests */

/*
 * Refuse redirects to link-local addresses, where cloud machines fetch their
 * credentials.
 */
static curl_socket_t
on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	const struct sockaddr_in *v4 = (const void *)&a->addr;
	const struct sockaddr_in6 *v6 = (const void *)&a->addr;
	const struct hop *h = arg;

	(void)purpose;
	if (h->n_redirects > 0 && ((a->family == AF_INET &&
	    ntohl(v4->sin_addr.s_addr) >> 16 == 0xa9fe) ||
	    (a->family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))))
		return CURL_SOCKET_BAD;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void
open_easy(void)
{
	const char *ca = fetch_env("CURL_CA_BUNDLE"), *folder = NULL;

	if (easy != NULL)
		return;
	tool_network_init();
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
		die("cannot initialise libcurl");
	easy = cli_check_alloc(curl_easy_init());
	/* as curl(1) does */
	if (ca == NULL) {
		ca = fetch_env("SSL_CERT_FILE");
		folder = fetch_env("SSL_CERT_DIR");
	}
	if (ca == NULL)
		ca = tool_ca_file();
	if (ca != NULL) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
		curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, ca);
	}
	if (folder != NULL) {
		curl_easy_setopt(easy, CURLOPT_CAPATH, folder);
		curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, folder);
	}
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
#else
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)CURLPROTO_HTTPS);
#endif
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "qpipe/" QWEN_VERSION);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)fetch_opt.stall_s);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
}

static void
add_header(struct curl_slist **l, char *s)
{
	*l = cli_check_alloc(curl_slist_append(*l, s));
	free(s);
}

/* Build the headers of a request; home: it goes to the host of the token. */
static struct curl_slist *
headers(const struct http_ask *a, int home)
{
	const struct fetch_repo *r = a->repo;
	struct curl_slist *l = NULL;

	/* a sum is of the bytes as they are */
	add_header(&l, cli_format("Accept-Encoding: identity"));
	if (a->accept != NULL)
		add_header(&l, cli_format("Accept: %s", a->accept));
	if (a->from > 0 || a->to > 0) {
		if (a->to > 0)
			add_header(&l, cli_format("Range: bytes=%" PRIu64 "-%"
			    PRIu64, a->from, a->to - 1));
		else
			add_header(&l, cli_format("Range: bytes=%" PRIu64 "-",
			    a->from));
	}
	if (home && r->token != NULL) {
		add_header(&l, cli_format("Authorization: Bearer %s", r->token));
		if (r->hub == &fetch_ms)
			add_header(&l, cli_format("Cookie: m_session_id=%s",
			    r->token));
	}
	return l;
}

static enum http_end
judge(struct hop *h, CURLcode rc, const char *url, const char *why)
{
	const char *hint = "";
	char *host;
	int again = 1;

	if (h->reply->packed && h->bad_head) {
		fetch_fail("the server compressed the file, although asked not "
		    "to");
		return HTTP_FAILED;
	}
	if (h->bad_head || (rc == CURLE_WRITE_ERROR &&
	    is_answer(h->reply->status)))
		return HTTP_STOPPED;
	if (rc == CURLE_OK || (rc == CURLE_WRITE_ERROR && h->rest > REST)) {
		answered = 1;
		return HTTP_DONE;
	}
	if (why[0] == '\0')
		why = curl_easy_strerror(rc);
	if (rc == CURLE_PEER_FAILED_VERIFICATION ||
	    rc == CURLE_SSL_CACERT_BADFILE) {
		again = 0;
		hint = "; for a certificate authority of your own set "
		    "CURL_CA_BUNDLE to its file";
#ifdef QPIPE_STATIC
		if (fetch_env("CURL_CA_BUNDLE") == NULL && tool_ca_file() == NULL)
			hint = "; no CA certificates are here: install "
			    "ca-certificates, or set SSL_CERT_FILE";
#endif
	}
	/* a machine without network need not wait */
	if (!answered && (rc == CURLE_COULDNT_RESOLVE_HOST ||
	    rc == CURLE_COULDNT_RESOLVE_PROXY || rc == CURLE_COULDNT_CONNECT)) {
		again = 0;
		hint = "; --offline looks only on this machine";
	}
	host = host_of(url);
	if (rc == CURLE_OPERATION_TIMEDOUT && h->reply->status != 0)
		fetch_fail("%s: no data for %d seconds", host,
		    fetch_opt.stall_s);
	else
		fetch_fail("%.60s: %.110s%s", host, why, hint);
	free(host);
	if (rc == CURLE_OUT_OF_MEMORY)
		cli_must(NULL, qwen_oom(&cli_err));
	return again ? HTTP_AGAIN : HTTP_FAILED;
}

/* One request; the status is in the reply. */
static enum http_end
ask_once(struct hop *h, const char *url, int home)
{
	struct curl_slist *l = headers(h->ask, home);
	char why[CURL_ERROR_SIZE] = "";
	CURLcode rc;

	h->rest = 0;
	h->bad_head = 0;
	reset(h->reply);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, l);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, h);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, h);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, h);
	rc = curl_easy_perform(easy);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, NULL);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
	curl_slist_free_all(l);
	return judge(h, rc, url, why);
}

enum http_end
fetch_http(const struct http_ask *a, struct http_reply *r)
{
	struct hop h = { .ask = a, .reply = r };
	char *url = cli_check_alloc(strdup(a->url)), *next, *host;
	enum http_end end = HTTP_FAILED;

	open_easy();
	memset(r, 0, sizeof *r);
	for (; h.n_redirects <= HOPS; h.n_redirects++) {
		if ((host = host_of(url)) == NULL) {
			fetch_fail("the server redirects to %s, which is not "
			    "https", url);
			break;
		}
		free(host);
		r->away = !fetch_same_host(url, a->repo->endpoint);
		end = ask_once(&h, url, !r->away);
		if (end != HTTP_DONE || r->status < 300 || r->status > 399)
			break;
		end = HTTP_FAILED;
		next = NULL;
		curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &next);
		if (next == NULL) {
			fetch_fail("the server redirects with status %ld, but "
			    "does not say where", r->status);
			break;
		}
		next = cli_check_alloc(strdup(next));
		free(url);
		url = next;
	}
	if (h.n_redirects > HOPS)
		fetch_fail("the server redirects more than %d times", HOPS);
	free(url);
	return end;
}

enum http_end
fetch_status(const struct fetch_repo *repo, const struct http_reply *r)
{
	const struct qwen_name *n = repo->name;
	long s = r->status;

	if (is_answer(s))
		return HTTP_DONE;
	if (s == 408 || s == 429 || s >= 500 || (s == 403 && r->away)) {
		/* a signed address lives for minutes; the next one is new */
		fetch_fail("the server answers with status %ld%s", s, s == 429 ?
		    ", too many requests" : "");
		return HTTP_AGAIN;
	}
	if (strcmp(r->code, "GatedRepo") == 0)
		fetch_fail("its owner requires you to accept terms: do that at "
		    "%s/%s/%s, then set HF_TOKEN to a token of your account",
		    repo->endpoint, n->org, n->repo);
	else if (strcmp(r->code, "RevisionNotFound") == 0)
		fetch_fail("it has no branch, tag or commit %s", repo->rev);
	else if (strcmp(r->code, "EntryNotFound") == 0)
		fetch_fail("the file no longer exists: try again");
	else if (s == 401 || s == 403 || s == 404)
		fetch_fail("%s has no such model, or %s%s", repo->endpoint,
		    repo->token != NULL ? "does not show it to the owner of "
		    "this token" : "it is private: check the name",
		    repo->token != NULL || repo->hub == &fetch_ollama ? "" :
		    repo->hub == &fetch_hf ? ", or set HF_TOKEN" : ", or set "
		    "MODELSCOPE_API_TOKEN");
	else
		fetch_fail("the server answers with status %ld", s);
	return HTTP_FAILED;
}

int
fetch_wait(int *tries, const struct http_reply *r)
{
	long asked = r != NULL && (r->status == 429 || r->status == 503) ?
	    r->retry_after : -1;
	unsigned seconds = (unsigned)fetch_opt.delay_s <<
	    (*tries < 6 ? *tries : 6);

	if (*tries >= fetch_opt.retries || asked >= WAIT_MAX)
		return -1;
	++*tries;
	if (asked >= 0)
		seconds = (unsigned)asked;
	cli_note("%s; try %d of %d in %s", cli_err.msg, *tries,
	    fetch_opt.retries, cli_count(seconds, "second"));
	while (seconds > 0)
		seconds = sleep(seconds);
	return 0;
}

/* ------------------------------------------------------------ replies as text */

struct body {
	struct qwen_text *text;
	uint64_t	 to;		/* bytes wanted; 0: all */
};

static int
begin_body(void *arg, const struct http_reply *r)
{
	struct body *b = arg;

	b->text->n = 0;
	return b->to > 0 && r->status == 206 && (!r->ranged || r->from != 0) ?
	    fetch_fail("the server sent another part than requested") : 0;
}

static int
add_body(void *arg, const char *p, size_t n)
{
	struct body *b = arg;
	uint64_t room = (b->to > 0 ? b->to : FETCH_BODY_MAX) - b->text->n;

	if (n > room && b->to == 0)
		return fetch_fail("the answer is longer than %d MiB",
		    FETCH_BODY_MAX >> 20);
	qwen_text_add(b->text, p, n < room ? n : (size_t)room);
	if (b->text->failed)
		return qwen_oom(&cli_err);
	/* the server may ignore the range and send the whole file */
	cli_err.code = 0;
	return n > room ? -1 : 0;
}

int
fetch_text(struct qwen_text *out, const struct http_ask *a,
    struct http_reply *r)
{
	struct body body = { out, a->to };
	struct http_ask ask = *a;
	struct http_reply own;
	enum http_end end;
	int tries = 0;

	r = r != NULL ? r : &own;
	ask.begin = begin_body;
	ask.data = add_body;
	ask.arg = &body;
	do {
		end = fetch_http(&ask, r);
		if (end == HTTP_STOPPED && cli_err.code == 0)
			end = HTTP_DONE;
		if (end == HTTP_DONE)
			end = fetch_status(a->repo, r);
		if (end == HTTP_DONE && out->n < a->to) {
			fetch_fail("the beginning of %.120s is incomplete",
			    a->file);
			end = HTTP_AGAIN;
		}
	} while (end == HTTP_AGAIN && fetch_wait(&tries, r) == 0);
	if (end == HTTP_DONE && out->s == NULL)
		qwen_text_add(out, "", 0);
	return end == HTTP_DONE ? 0 : -1;
}

#endif
