/* SPDX-License-Identifier: ISC */
/*
 * http_stub.c - plays a server of language models for clients under test.  It
 * has no model, and one process per connection.
 *
 *	http_stub LOG
 *
 * Prints its port, and ends after five minutes at the latest.  Appends a line
 * to LOG for each request: method, path, Authorization or "-", body.  The path
 * before /v1 sets the behaviour, by words separated by commas:
 *	first=MS gap=MS	wait before the first token, and before all others
 *	tokens=N	send N tokens, whatever max_tokens says
 *	each=N		the words after this one apply to each N-th request
 *	status=N	answer with HTTP status N
 *	cut		break off the stream
 *	garbage		send invalid JSON
 *	error		send an error event
 *	plain		send a body, not a stream
 *	silent		never answer
 *	split		send a few bytes at a time
 *	nousage		do not count tokens
 *	nodone		omit the last line, [DONE]
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 16384, BODY_BYTES = 1 << 20 };

static int *n_asked;		/* of all processes */
static int log_fd;

struct request {
	char	head[HEAD_BYTES], *body;
	char	method[8], path[1024], key[256];
	size_t	n_body;
	int	at_fault;	/* what follows each=N is for this one */
};

static void
wait_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&t, &t) == -1 && errno == EINTR)
		;
}

static void
put(int fd, const char *s, size_t n)
{
	ssize_t k;

	for (; n > 0; s += k, n -= (size_t)k) {
		if ((k = write(fd, s, n)) <= 0)
			exit(0);
	}
}

/* Whether the word is among those of the path; *v: its number. */
static int
says(const struct request *q, const char *word, long *v)
{
	size_t n = strlen(word);
	const char *s = q->path, *end = strstr(s, "/v1/"), *each;

	each = strstr(s, "each=");
	while (s < end) {
		s++;
		if (strncmp(s, word, n) == 0 && strchr("=,/", s[n]) != NULL) {
			if (v != NULL)
				*v = strtol(s + n + 1, NULL, 10);
			return each == NULL || s <= each || q->at_fault;
		}
		s += strcspn(s, ",/");
	}
	return 0;
}

/* --------------------------------------------------------------- requests */

static const char *
header(const struct request *q, const char *name)
{
	const char *s = q->head;

	while ((s = strstr(s, "\r\n")) != NULL) {
		s += 2;
		if (strncasecmp(s, name, strlen(name)) == 0 &&
		    s[strlen(name)] == ':')
			return s + strlen(name) + 1 +
			    strspn(s + strlen(name) + 1, " ");
	}
	return NULL;
}

static void
note(const struct request *q)
{
	static char line[HEAD_BYTES + BODY_BYTES];
	int n = snprintf(line, sizeof line, "%s %s %s %.*s\n", q->method,
	    q->path, q->key[0] != '\0' ? q->key : "-", (int)q->n_body,
	    q->body);

	if (write(log_fd, line, (size_t)n) != n)
		exit(1);
}

/* The next one of the connection: 0 if there is none. */
static int
read_request(int fd, struct request *q)
{
	static char body[BODY_BYTES];
	size_t n = 0, have;
	const char *h;
	char *end;
	ssize_t k;
	long each;

	memset(q->head, 0, sizeof q->head);
	while ((end = strstr(q->head, "\r\n\r\n")) == NULL) {
		if (n + 1 >= sizeof q->head ||
		    (k = read(fd, q->head + n, sizeof q->head - 1 - n)) <= 0)
			return 0;
		n += (size_t)k;
	}
	have = n - (size_t)(end + 4 - q->head);
	q->body = body;
	memcpy(body, end + 4, have);
	end[2] = '\0';
	sscanf(q->head, "%7s %1023s", q->method, q->path);
	q->key[0] = '\0';
	if ((h = header(q, "Authorization")) != NULL)
		snprintf(q->key, sizeof q->key, "%.*s",
		    (int)strcspn(h, "\r"), h);
	q->key[strcspn(q->key, " ")] = '_';
	if (h == NULL)
		q->key[0] = '\0';
	q->n_body = (h = header(q, "Content-Length")) == NULL ? 0 :
	    strtoul(h, NULL, 10);
	if (q->n_body >= sizeof body)
		return 0;
	for (; have < q->n_body; have += (size_t)k) {
		if ((k = read(fd, body + have, q->n_body - have)) <= 0)
			return 0;
	}
	body[q->n_body] = '\0';
	note(q);
	q->at_fault = 0;
	if (q->n_body > 0 && says(q, "each", &each))
		q->at_fault = __sync_add_and_fetch(n_asked, 1) % each == 0;
	return 1;
}

/* ----------------------------------------------------------------- replies */

static void
reply(int fd, int status, const char *body)
{
	char s[1024];
	int n = snprintf(s, sizeof s, "HTTP/1.1 %d X\r\nContent-Type: "
	    "application/json\r\nContent-Length: %zu\r\n\r\n%s", status,
	    strlen(body), body);

	put(fd, s, (size_t)n);
}

static void
event(int fd, const struct request *q, const char *json)
{
	char s[1024], piece[64];
	int n = snprintf(s, sizeof s, "data: %s\n\n", json), i, k, step;

	step = says(q, "split", NULL) ? 7 : n;
	for (i = 0; i < n; i += step) {
		step = n - i < step ? n - i : step;
		k = snprintf(piece, sizeof piece, "%x\r\n", (unsigned)step);
		put(fd, piece, (size_t)k);
		put(fd, s + i, (size_t)step);
		put(fd, "\r\n", 2);
	}
}

static void
tokens(int fd, const struct request *q, long n)
{
	int chat = strstr(q->path, "/chat/") != NULL;
	long i, gap = 0;
	char s[256];

	says(q, "gap", &gap);
	for (i = 0; i < n; i++) {
		wait_ms(i > 0 ? gap : 0);
		if (i == 2 && says(q, "cut", NULL))
			exit(0);
		if (i == 2 && says(q, "garbage", NULL))
			event(fd, q, "{\"choices\":[{]");
		if (i == 2 && says(q, "error", NULL))
			event(fd, q, "{\"error\":{\"message\":\"out of "
			    "luck\",\"code\":500}}");
		snprintf(s, sizeof s, chat ? "{\"choices\":[{\"index\":0,"
		    "\"delta\":{\"%s\":\"w%ld\"},\"finish_reason\":null}]}" :
		    "{\"choices\":[{\"index\":0,\"text\":\"%.0sw%ld\","
		    "\"finish_reason\":null}]}", i == 0 ? "reasoning_content" :
		    "content", i);
		event(fd, q, s);
	}
}

static void
stream(int fd, const struct request *q)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: "
	    "text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
	const char *max = strstr(q->body, "\"max_tokens\":");
	long n = max != NULL ? strtol(max + 13, NULL, 10) : 4, ms = 0;
	char s[256];

	says(q, "tokens", &n);
	says(q, "first", &ms);
	put(fd, head, sizeof head - 1);
	event(fd, q, "{\"choices\":[{\"index\":0,\"delta\":{\"role\":"
	    "\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}");
	wait_ms(ms);
	tokens(fd, q, n);
	event(fd, q, "{\"choices\":[{\"index\":0,\"delta\":{},"
	    "\"finish_reason\":\"length\"}]}");
	snprintf(s, sizeof s, "{\"choices\":[],\"usage\":{\"prompt_tokens\":"
	    "100,\"completion_tokens\":%ld,\"prompt_tokens_details\":"
	    "{\"cached_tokens\":40}}}", n);
	if (!says(q, "nousage", NULL))
		event(fd, q, s);
	if (!says(q, "nodone", NULL))
		event(fd, q, "[DONE]");
	put(fd, "0\r\n\r\n", 5);
}

static void
serve(int fd)
{
	static struct request q;
	long status = 503;

	while (read_request(fd, &q)) {
		if (says(&q, "status", &status))
			reply(fd, (int)status, "{\"error\":{\"message\":"
			    "\"too many\",\"type\":\"x\"}}");
		else if (strcmp(q.method, "GET") == 0)
			reply(fd, 200, "{\"object\":\"list\",\n \"data\":[{"
			    "\"id\":\"stub \\u001b[1m\"},{\"id\":\"b\"}]}");
		else if (says(&q, "silent", NULL))
			wait_ms(600000);
		else if (says(&q, "plain", NULL))
			reply(fd, 200, "{\"choices\":[]}");
		else
			stream(fd, &q);
	}
}

int
main(int argc, char *argv[])
{
	struct sockaddr_in a = { .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof a;
	int s, c, one = 1;

	n_asked = mmap(NULL, sizeof *n_asked, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s = socket(AF_INET, SOCK_STREAM, 0);
	if (argc != 2 || n_asked == MAP_FAILED || (log_fd = open(argv[1],
	    O_WRONLY | O_CREAT | O_APPEND, 0600)) == -1 || s == -1 ||
	    bind(s, (struct sockaddr *)&a, n) == -1 || listen(s, 512) == -1 ||
	    getsockname(s, (struct sockaddr *)&a, &n) == -1) {
		perror("http_stub");
		return 1;
	}
	signal(SIGCHLD, SIG_IGN);
	printf("%d\n", ntohs(a.sin_port));
	fclose(stdout);
	alarm(300);
	while ((c = accept(s, NULL, NULL)) != -1) {
		setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		if (fork() == 0) {
			close(s);
			alarm(300);
			serve(c);
			exit(0);
		}
		close(c);
	}
	return 1;
}
