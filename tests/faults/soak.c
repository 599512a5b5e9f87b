/* SPDX-License-Identifier: ISC */
/*
 * soak.c - many clients of all kinds at a server at a time, drawn at random.
 * Some wait for their answers, which must be the expected ones; others
 * disconnect, are slow, stall, or send invalid requests.
 *
 *	soak PORT CASES N [-c clients] [-s seed] [-k pid] [-w seconds]
 *		N requests of waiting clients, with the others beside them.
 *		CASES has lines [PATH, BODY, TEXT]; TEXT is the expected text.
 *		-k: kill children of this process now and then.  -w: an answer
 *		that takes longer counts as a hang.
 *	soak PORT idle N
 *		N connections without a request until stdin ends; then each must
 *		still be open, and answer a request.
 *
 * Prints one line with the counts on stdout, and failures on stderr; status 1
 * if there are any.  A stream may end in an error if a process was killed since
 * the request.  An answer in one piece may be an error only after two kills,
 * because the server repeats such a request once; kills are at least one second
 * apart.
 */
#define _GNU_SOURCE
#include <sys/socket.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "text/json/json.h"

enum { CLIENTS_MAX = 1024, TOLD_MAX = 20 };

struct known {
	char	*path, *body, *text;
};

enum kind { GOOD, VANISH, RESET, STALL, SLOW, NOISE, MUTANT, N_KINDS };

/* Of a hundred clients. */
static const int shares[N_KINDS] = { 60, 12, 6, 4, 4, 8, 6 };
static const char *const names[N_KINDS] = { "good", "vanish", "reset", "stall",
    "slow", "noise", "mutant" };

struct client {
	int		 fd;		/* -1: none */
	enum kind	 kind;
	const struct known *ask;
	int		 streams, again;
	struct qwen_text out, in;
	size_t		 sent;
	size_t		 leave_at;	/* bytes read, or */
	double		 leave, next;	/* a time; of the next byte */
	double		 begun;
	unsigned	 n_kills;	/* how often processes were killed
					   since it asked */
};

static struct {
	uint16_t	 port;
	struct known	*known;
	size_t		 n_known;
	uint64_t	 rng;
	uint64_t	 wanted, started, right, failed, kills, done[N_KINDS];
	uint64_t	 wrong;		/* what must not be */
	double		 patience, next_kill;
	pid_t		 kill_of;
	struct client	 client[CLIENTS_MAX];
	size_t		 n_clients;
} soak = { .rng = 1, .patience = 120, .n_clients = 24 };

/* ------------------------------------------------------------------ helpers */

static uint64_t
draw(uint64_t below)
{
	uint64_t z = soak.rng += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (z ^ z >> 31) % below;
}

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
fatal(const char *what)
{
	fprintf(stderr, "soak: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void
wrong(const struct client *c, const char *what, const char *more)
{
	if (++soak.wrong <= TOLD_MAX)
		fprintf(stderr, "soak: %s: %s: %.300s\n   of %s %s\n",
		    names[c->kind], what, more, c->ask->path, c->ask->body);
}

static int
connect_to(uint16_t port, int waits)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | (waits ? 0 : SOCK_NONBLOCK), 0);
	int one = 1;

	if (fd == -1)
		fatal("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(fd, (struct sockaddr *)&a, sizeof a) == -1 &&
	    errno != EINPROGRESS)
		fatal("connect");
	return fd;
}

static void
read_known(const char *path)
{
	FILE *f = fopen(path, "r");
	struct qwen_err err;
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	if (f == NULL)
		fatal(path);
	while ((n = getline(&line, &cap, f)) > 0) {
		yyjson_doc *doc = qwen_json_open(line, (size_t)n, &err);
		yyjson_val *r = doc == NULL ? NULL : yyjson_doc_get_root(doc);
		struct known *k;

		if (yyjson_arr_size(r) != 3) {
			fprintf(stderr, "soak: %s: %s\n", path, line);
			exit(2);
		}
		soak.known = realloc(soak.known, (soak.n_known + 1) *
		    sizeof *soak.known);
		k = &soak.known[soak.n_known++];
		k->path = strdup(yyjson_get_str(yyjson_arr_get(r, 0)));
		k->body = strdup(yyjson_get_str(yyjson_arr_get(r, 1)));
		k->text = strdup(yyjson_get_str(yyjson_arr_get(r, 2)));
		yyjson_doc_free(doc);
	}
	free(line);
	fclose(f);
}

/* -------------------------------------------------------------- what is sent */

static void
add_request(struct qwen_text *t, const struct known *k, int streams)
{
	qwen_text_fmt(t, "POST %s HTTP/1.1\r\nHost: localhost\r\n"
	    "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n"
	    "{%s%s", k->path, strlen(k->body) + (streams ? 14 : 0),
	    streams ? "\"stream\":true," : "", k->body + 1);
}

/* Some bytes of a request are others, or more, or fewer. */
static void
damage(struct qwen_text *t, size_t from)
{
	size_t i, n = 1 + draw(8), at;

	for (i = 0; i < n && t->n > from; i++) {
		at = from + draw(t->n - from);
		switch (draw(4)) {
		case 0:
			t->s[at] = (char)draw(256);
			break;
		case 1:
			t->s[at] = "\"{}[]:,\\\0\r\n0e-"[draw(15)];
			break;
		case 2:
			t->n = at;
			break;
		default:
			memmove(t->s + from, t->s + at, t->n - at);
			t->n -= at - from;
		}
	}
}

static void
make_noise(struct qwen_text *t, const struct known *k)
{
	static const char *const odd[] = {
		"GET / HTTP/9.9\r\n\r\n", "POST", "\r\n\r\n\r\n",
		"GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
		    "Content-Length: 99999999999999999999\r\n\r\n{",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
		    "Content-Length: -1\r\n\r\n{}",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
		    "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
		"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\026\003\001\002",
	};
	size_t i, n;
	char c;

	switch (draw(4)) {
	case 0:
		for (i = 0, n = 1 + draw(4000); i < n; i++) {
			c = (char)draw(256);
			qwen_text_add(t, &c, 1);
		}
		break;
	case 1:
		add_request(t, k, (int)draw(2));
		damage(t, 0);
		break;
	case 2:
		qwen_text_str(t, "GET / HTTP/1.1\r\n");
		for (i = 0, n = draw(3000); i < n; i++)
			qwen_text_fmt(t, "X-%zu: %zu\r\n", i, i);
		break;
	default:
		qwen_text_str(t, odd[draw(sizeof odd / sizeof odd[0])]);
	}
}

static enum kind
draw_kind(void)
{
	int r = (int)draw(100), k = 0;

	while (r >= shares[k])
		r -= shares[k++];
	return (enum kind)k;
}

static void
ask(struct client *c, double now)
{
	size_t head;

	c->ask = &soak.known[draw(soak.n_known)];
	c->streams = c->kind == VANISH || c->kind == RESET || draw(2) == 0;
	c->out.n = c->in.n = c->sent = 0;
	c->again = c->kind == GOOD && draw(2) == 0;
	c->n_kills = 0;
	c->begun = c->next = now;
	c->leave = 0;
	c->leave_at = SIZE_MAX;
	if (c->kind == NOISE)
		make_noise(&c->out, c->ask);
	else
		add_request(&c->out, c->ask, c->streams);
	if (c->kind == MUTANT && c->out.s != NULL) {
		/* the length stays right, so that JSON is what is wrong, and
		   numbers, so that no answer is long */
		head = (size_t)(strstr(c->out.s, "\r\n\r\n") + 4 - c->out.s);
		head += draw(c->out.n - head);
		c->out.s[head] = c->out.s[head] >= '0' &&
		    c->out.s[head] <= '9' ? '}' : (char)(128 * draw(2) +
		    draw(2) * 92 + draw(34));
	}
	if (c->kind == VANISH || c->kind == RESET)
		c->leave_at = draw(2000);
	if (c->kind != GOOD)
		c->leave = now + (c->kind == STALL ? 2 + (double)draw(3) :
		    c->kind == MUTANT ? 30 : 1);
	soak.started += c->kind == GOOD;
}

static void
begin(struct client *c, double now)
{
	c->fd = connect_to(soak.port, 0);
	c->kind = draw_kind();
	ask(c, now);
}

static void
end(struct client *c)
{
	struct linger hard = { 1, 0 };

	if (c->kind == RESET)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
	close(c->fd);
	c->fd = -1;
	soak.done[c->kind]++;
}

/* ------------------------------------------------------------ what comes back */

/*
 * The body of the first reply in s, to be freed, and where it ends; NULL if it is
 * not whole.  *status below 0: it is no HTTP.
 */
static char *
body_of(const char *s, size_t n, int *status, size_t *end)
{
	const char *head = n == 0 ? NULL : memmem(s, n, "\r\n\r\n", 4), *v;
	size_t at, len, k = 0;
	char *body;

	if (head == NULL)
		return NULL;
	*status = sscanf(s, "HTTP/1.1 %d", status) == 1 ? *status : -1;
	at = (size_t)(head - s) + 4;
	body = calloc(1, n + 1);
	v = memmem(s, at, "\r\nContent-Length: ", 18);
	if (v != NULL) {
		len = strtoul(v + 18, NULL, 10);
		if (n - at < len)
			goto more;
		memcpy(body, s + at, len);
		*end = at + len;
		return body;
	}
	for (;;) {
		v = memmem(s + at, n - at, "\r\n", 2);
		if (v == NULL)
			goto more;
		len = strtoul(s + at, NULL, 16);
		at = (size_t)(v - s) + 2;
		if (n - at < len + 2)
			goto more;
		memcpy(body + k, s + at, len);
		k += len;
		at += len + 2;
		*end = at;
		if (len == 0)
			return body;
	}
more:
	free(body);
	return NULL;
}

struct told {
	struct qwen_text text;
	int		 finished, error;
};

static void
take_json(struct told *t, const char *s, size_t n)
{
	struct qwen_err err;
	yyjson_doc *doc = qwen_json_open(s, n, &err);
	yyjson_val *r = doc == NULL ? NULL : yyjson_doc_get_root(doc), *c, *v;
	static const char *const in[] = { "message", "delta" };
	size_t i;

	t->error |= doc == NULL || yyjson_obj_get(r, "error") != NULL;
	c = yyjson_arr_get_first(yyjson_obj_get(r, "choices"));
	v = yyjson_obj_get(c, "text");
	for (i = 0; i < 2 && v == NULL; i++)
		v = yyjson_obj_get(yyjson_obj_get(c, in[i]), "content");
	if (yyjson_is_str(v))
		qwen_text_add(&t->text, yyjson_get_str(v), yyjson_get_len(v));
	t->finished |= yyjson_is_str(yyjson_obj_get(c, "finish_reason"));
	yyjson_doc_free(doc);
}

static void
take_events(struct told *t, const char *s)
{
	const char *nl;

	for (; (nl = strchr(s, '\n')) != NULL; s = nl + 1) {
		if (strncmp(s, "data: ", 6) == 0 &&
		    strncmp(s, "data: [DONE]", 12) != 0)
			take_json(t, s + 6, (size_t)(nl - s) - 6);
	}
}

/* Is it the answer that is known; or an error, if there may be one? */
static void
judge(struct client *c, int status, const char *body)
{
	struct told t = { .error = status != 200 };
	const char *text;

	if (c->streams && status == 200)
		take_events(&t, body);
	else
		take_json(&t, body, strlen(body));
	text = t.text.s != NULL ? t.text.s : "";
	if (!t.error && t.finished && strcmp(text, c->ask->text) == 0)
		soak.right++;
	else if (!t.error)
		wrong(c, "another answer", text);
	else if (strncmp(text, c->ask->text, strlen(text)) != 0)
		wrong(c, "an error, and what was told before is wrong", body);
	else if (c->n_kills < (c->streams ? 1 : 2))
		wrong(c, "an error", body);
	else
		soak.failed++;
	qwen_text_fini(&t.text);
}

/* The connection is at its end, or has a whole reply. */
static void
look(struct client *c, int closed, double now)
{
	size_t used = 0;
	int status = 0;
	char *body;

	if (c->kind != GOOD && c->kind != SLOW && c->kind != MUTANT) {
		if (closed)
			end(c);
		return;
	}
	body = body_of(c->in.s, c->in.n, &status, &used);
	if (body == NULL && !closed)
		return;
	if (body == NULL && c->kind == GOOD)
		wrong(c, "the connection was closed", c->in.n > 0 ? c->in.s : "");
	else if (body != NULL && status < 0)
		wrong(c, "no HTTP", c->in.s);
	else if (c->kind != MUTANT && body != NULL)
		judge(c, status, body);
	else if (body != NULL && status >= 500 && c->n_kills == 0)
		wrong(c, "a request that is wrong is no error of the server", body);
	free(body);
	if (c->again && !closed && soak.started < soak.wanted) {
		soak.done[c->kind]++;
		ask(c, now);
	} else
		end(c);
}

/* -------------------------------------------------------------------- rounds */

static void
send_some(struct client *c, double now)
{
	size_t n = c->out.n - c->sent;
	ssize_t k;

	if (n == 0 || now < c->next)
		return;
	if (c->kind == SLOW) {
		n = n < 16 ? n : 16;
		c->next = now + 0.01;
		c->leave = now + 30;
	}
	k = send(c->fd, c->out.s + c->sent, n, MSG_NOSIGNAL);
	if (k > 0)
		c->sent += (size_t)k;
	else if (errno == EPIPE || errno == ECONNRESET)
		c->sent = c->out.n;	/* what it said is read all the same */
	else if (errno != EAGAIN && errno != ENOTCONN)
		fatal("send");
}

static void
read_some(struct client *c, double now)
{
	char buf[65536];
	ssize_t k = read(c->fd, buf, sizeof buf);

	if (k == -1 && (errno == EAGAIN || errno == ENOTCONN))
		return;
	if (k > 0)
		qwen_text_add(&c->in, buf, (size_t)k);
	if (k > 0 && c->in.n > c->leave_at)
		end(c);
	else
		look(c, k <= 0, now);
}

/* Who has waited long enough, or too long. */
static void
look_at_time(struct client *c, double now)
{
	if (c->fd == -1)
		return;
	if ((c->kind == GOOD || c->kind == SLOW || c->kind == MUTANT) &&
	    now - c->begun > soak.patience) {
		wrong(c, "no end to it", c->in.n > 0 ? c->in.s : "");
		end(c);
	} else if (c->leave > 0 && now > c->leave && c->kind != SLOW)
		end(c);
}

/* Processes are killed, of those that the server started. */
static void
kill_some(double now)
{
	DIR *d;
	struct dirent *e;
	char path[300], name[64];
	int pid, parent;
	size_t i;
	FILE *f;

	if (soak.kill_of == 0 || now < soak.next_kill)
		return;
	soak.next_kill = now + 1 + (double)draw(3000) * 1e-3;
	if ((d = opendir("/proc")) == NULL)
		fatal("/proc");
	while ((e = readdir(d)) != NULL) {
		snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
		if (atoi(e->d_name) == 0 || (f = fopen(path, "r")) == NULL)
			continue;
		if (fscanf(f, "%d (%60[^)]) %*c %d", &pid, name, &parent) == 3 &&
		    parent == soak.kill_of && kill(pid, SIGKILL) == 0)
			soak.kills++;
		fclose(f);
	}
	closedir(d);
	for (i = 0; i < soak.n_clients; i++)
		soak.client[i].n_kills++;
}

static size_t
gather(struct pollfd *p, double now)
{
	struct client *c;
	size_t i, n = 0;

	for (i = 0; i < soak.n_clients; i++) {
		c = &soak.client[i];
		look_at_time(c, now);
		if (c->fd == -1 && soak.started < soak.wanted)
			begin(c, now);
		n += c->fd != -1;
		p[i].fd = c->fd;
		p[i].events = (short)((c->kind == STALL ? 0 : POLLIN) |
		    (c->sent < c->out.n && now >= c->next ? POLLOUT : 0));
		p[i].revents = 0;
	}
	return n;
}

static void
run(void)
{
	static struct pollfd p[CLIENTS_MAX];
	double now;
	size_t i;

	for (i = 0; i < soak.n_clients; i++)
		soak.client[i].fd = -1;
	soak.next_kill = now_s() + 1;
	while (gather(p, now = now_s()) > 0) {
		poll(p, (nfds_t)soak.n_clients, 10);
		now = now_s();
		kill_some(now);
		for (i = 0; i < soak.n_clients; i++) {
			if (p[i].revents & (POLLOUT | POLLHUP | POLLERR))
				send_some(&soak.client[i], now);
			if (p[i].revents & (POLLIN | POLLHUP | POLLERR))
				read_some(&soak.client[i], now);
		}
	}
	printf("%llu right, %llu failed, %llu wrong, %llu killed;",
	    (unsigned long long)soak.right, (unsigned long long)soak.failed,
	    (unsigned long long)soak.wrong, (unsigned long long)soak.kills);
	for (i = 0; i < N_KINDS; i++)
		printf(" %llu %s", (unsigned long long)soak.done[i], names[i]);
	printf("\n");
}

/* ---------------------------------------------------------------------- idle */

static void
idle(size_t n)
{
	static const char get[] = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int *fd = calloc(n, sizeof *fd);
	size_t i, gone = 0;
	char buf[4096];

	for (i = 0; i < n; i++)
		fd[i] = connect_to(soak.port, 1);
	printf("%zu held\n", n);
	fflush(stdout);
	while (read(STDIN_FILENO, buf, sizeof buf) > 0)
		;
	for (i = 0; i < n; i++)
		gone += send(fd[i], get, sizeof get - 1, MSG_NOSIGNAL) == -1 ||
		    read(fd[i], buf, sizeof buf) < 12 ||
		    memcmp(buf, "HTTP/1.1 200", 12) != 0;
	printf("%zu gone\n", gone);
	exit(gone > 0);
}

int
main(int argc, char *argv[])
{
	int o;

	while ((o = getopt(argc, argv, "c:s:k:w:")) != -1) {
		switch (o) {
		case 'c': soak.n_clients = (size_t)atoi(optarg); break;
		case 's': soak.rng = (uint64_t)atoll(optarg); break;
		case 'k': soak.kill_of = (pid_t)atoi(optarg); break;
		case 'w': soak.patience = atof(optarg); break;
		default: return 2;
		}
	}
	if (argc - optind != 3 || soak.n_clients > CLIENTS_MAX) {
		fprintf(stderr, "soak PORT CASES N [-c clients] [-s seed] "
		    "[-k pid] [-w seconds]\nsoak PORT idle N\n");
		return 2;
	}
	soak.port = (uint16_t)atoi(argv[optind]);
	soak.wanted = (uint64_t)atoll(argv[optind + 2]);
	if (strcmp(argv[optind + 1], "idle") == 0)
		idle((size_t)soak.wanted);
	read_known(argv[optind + 1]);
	run();
	return soak.wrong > 0;
}
