/* SPDX-License-Identifier: ISC */
/* url_run.c - send requests to a server on schedule, collect the results. */
#include <sys/resource.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "text/json/json.h"
#include "url.h"

static volatile sig_atomic_t interrupted;

static void
on_interrupt(int sig)
{
	interrupted = 1;
	signal(sig, SIG_DFL);	/* a second Ctrl-C ends the program */
}

/* The server, and what all settings share. */
static struct {
	char		*base;		/* such as "http://host:8080/v1" */
	char		*model;		/* or NULL */
	size_t		 n_bodies;	/* in the file of --input */
	uint64_t	 number;	/* number of the next request */
} server;

/* ---------------------------------------------------------------- a request */

/* Send a request of a setting, or with NULL, ask for the models. */
static struct qbench_request *
send_request(const struct qbench_url_setting *set, double due)
{
	struct qbench_request *c = cli_check_alloc(calloc(1, sizeof *c));
	const char *path = set == NULL ? "/models" : qbench_body(set,
	    server.model, server.number++, &c->body);

	c->url = cli_format("%s%s", server.base, path);
	c->due = due;
	qbench_http_start(c);
	return c;
}

/*
 * Send a request and wait until it has ended.  Dies on Ctrl-C, and if the
 * request fails, except with this status.
 */
static struct qbench_request *
ask(const struct qbench_url_setting *set, long status)
{
	struct qbench_request *c = send_request(set, cli_now());

	while (qbench_http_wait(0.1) != c)
		if (interrupted)
			raise(SIGINT);
	if (c->reply.kind[0] != '\0' && c->status != status)
		die("%s: %s", c->url, qbench_error_text(c->reply.kind,
		    c->reply.why));
	return c;
}

/* ------------------------------------------------------------------ results */

static void
note_error(struct qbench_url_result *r, const struct qbench_stream *s)
{
	struct qbench_url_error *e;
	size_t i;

	r->n_failed++;
	for (i = 0; i < r->n_errors; i++) {
		if (strcmp(r->error[i].kind, s->kind) == 0) {
			r->error[i].n++;
			return;
		}
	}
	cli_grow(&r->error, &r->cap_errors, r->n_errors + 1,
	    sizeof *r->error);
	e = &r->error[r->n_errors++];
	memcpy(e->kind, s->kind, sizeof e->kind);
	memcpy(e->why, s->why, sizeof e->why);
	e->n = 1;
}

/* Add a reported count to a sum.  If one reply lacks it, the sum is unknown. */
static void
add_reported(int64_t *sum, int64_t told)
{
	*sum = *sum < 0 || told == 0 ? -1 : *sum + told - 1;
}

static void
note_answer(struct qbench_url_result *r, const struct qbench_request *c)
{
	const struct qbench_stream *s = &c->reply;
	uint64_t n = s->generated > 0 ? (uint64_t)s->generated - 1 :
	    s->n_chunks;
	double last = s->n_chunks > 0 ? s->last : c->end;
	struct tool_times t;
	size_t i;

	r->n_answered++;
	add_reported(&r->prompt, s->prompt);
	add_reported(&r->cached, s->cached);
	r->generated += (int64_t)n;
	t.ms[TOOL_TTFT] = s->n_chunks > 0 ? (s->first - c->due) * 1e3 : -1;
	t.ms[TOOL_E2E] = (last - c->due) * 1e3;
	t.ms[TOOL_TPOT] = n < 2 || s->n_chunks < 2 ? -1 :
	    (s->last - s->first) * 1e3 / (double)(n - 1);
	tool_timings_add(&r->time[QBENCH_TTFT], t.ms[TOOL_TTFT]);
	tool_timings_add(&r->time[QBENCH_TPOT], t.ms[TOOL_TPOT]);
	tool_timings_add(&r->time[QBENCH_E2E], t.ms[TOOL_E2E]);
	for (i = 0; i < s->gaps.n; i++)
		tool_timings_add(&r->time[QBENCH_ITL], s->gaps.v[i]);
	r->n_good += (uint64_t)tool_goals_met(&qbench_url.goals, &t);
	cli_progress_also((uint64_t)r->generated, "tok");
}

static void
finish_request(struct qbench_url_result *r, struct qbench_request *c)
{
	r->n_running--;
	if (c->reply.kind[0] != '\0') {
		if (cli_verbose)
			cli_note("%s", qbench_error_text(c->reply.kind,
			    c->reply.why));
		note_error(r, &c->reply);
	} else
		note_answer(r, c);
	qbench_request_free(c);
	cli_progress(r->n_answered + r->n_failed);
}

/* ---------------------------------------------------------------- a setting */

/* Return 1 if another request is to be sent at this time. */
static int
continues(const struct qbench_url_result *r, double when)
{
	return !interrupted && r->n_started < r->wanted &&
	    (qbench_url.seconds <= 0 ||
	    when - r->start < qbench_url.seconds);
}

/*
 * Return 1 if a request is to be sent now; set r->is_blocked if one is due but
 * no client is free.
 */
static int
is_due(struct qbench_url_result *r, double now)
{
	const struct qbench_url_setting *set = &r->set;
	int has_client = r->n_running < set->clients || (set->rate > 0 &&
	    set->clients == 0);

	if (set->rate <= 0)
		return has_client && continues(r, now);
	if (r->due > now || !continues(r, r->due))
		return 0;
	r->is_blocked |= !has_client;
	return has_client;
}

/*
 * Send the requests that are due.  Return the seconds until the next one, at
 * most 0.1.
 */
static double
send_due(struct qbench_url_result *r)
{
	const struct qbench_url_setting *set = &r->set;
	double now = cli_now(), late;

	for (; is_due(r, now); now = cli_now()) {
		/* waiting for a free client is not a delay by this machine */
		late = set->rate > 0 && !r->is_blocked ? (now - r->due) * 1e3 :
		    0;
		r->is_blocked = 0;
		r->late = late > r->late ? late : r->late;
		send_request(set, set->rate > 0 ? r->due : now);
		if (set->rate > 0)
			r->due += tool_request_gap(&r->rng, set->rate);
		r->n_started++;
		if (++r->n_running > r->most)
			r->most = r->n_running;
	}
	return set->rate <= 0 || r->is_blocked || !continues(r, r->due) ? 0.1 :
	    fmin(0.1, r->due - now);
}

static void
run(struct qbench_url_result *r)
{
	struct qbench_request *c;
	double wait;

	r->start = r->due = cli_now();
	for (;;) {
		wait = send_due(r);
		if (r->n_running == 0 && !continues(r, r->set.rate > 0 ?
		    r->due : cli_now()))
			break;
		c = qbench_http_wait(wait);
		if (c != NULL)
			finish_request(r, c);
		else if (interrupted)
			break;
	}
	r->seconds = cli_now() - r->start;
	r->interrupted = interrupted;
}

static uint64_t
wanted(const struct qbench_url_setting *set)
{
	const struct qbench_url_opts *o = &qbench_url;

	return o->requests > 0 ? o->requests : o->seconds > 0 ? UINT64_MAX :
	    server.n_bodies > 0 ? server.n_bodies : set->rate > 0 ? 32 :
	    4 * set->clients;
}

static void
measure(const struct qbench_url_setting *set)
{
	struct qbench_url_result r = { .set = *set, .model = server.model,
	    .wanted = wanted(set), .rng = qbench_url.seed };
	int i;

	cli_progress_start("requests", r.wanted == UINT64_MAX ? 0 : r.wanted);
	run(&r);
	cli_progress_end();
	qbench_url_show(&r);
	if (r.n_failed > 0 && r.n_answered == 0)
		warn("no request was answered: %s: %s", r.error[0].kind,
		    r.error[0].why);
	else if (r.n_failed > 0)
		cli_warn_part("%llu of %s failed", (unsigned long long)
		    r.n_failed, cli_count(r.n_failed + r.n_answered,
		    "request"));
	if (r.late > 20)
		cli_note("requests were sent up to %.0f ms late: this machine "
		    "is busy", r.late);
	for (i = 0; i < QBENCH_N_SAMPLES; i++)
		tool_timings_fini(&r.time[i]);
	free(r.error);
}

/* --------------------------------------------------------------- the server */

/*
 * Return the base URL of --url, such as "http://host:8080/v1", to be freed.
 * Set *socket to the path of a UNIX domain socket, or NULL.
 */
static char *
base_of(const char *url, const char **socket)
{
	size_t n = strlen(url);
	char *s;

	*socket = NULL;
	if (strncmp(url, "unix:", 5) == 0 && url[5] != '\0') {
		*socket = url + 5;
		return cli_format("http://localhost/v1");
	}
	if ((strncmp(url, "http://", 7) != 0 || n == 7) &&
	    (strncmp(url, "https://", 8) != 0 || n == 8))
		cli_usage("--url: '%s' is not like http://127.0.0.1:8080 or "
		    "unix:/run/qserve", url);
	s = strstr(url, "://") + 3;
	if (memchr(s, '@', strcspn(s, "/")) != NULL)
		cli_usage("--url: give the key in QSERVE_API_KEY, not in the "
		    "address");
	while (n > 0 && url[n - 1] == '/')
		n--;
	return cli_format("%.*s%s", (int)n, url, n >= 3 &&
	    strncmp(url + n - 3, "/v1", 3) == 0 ? "" : "/v1");
}

/*
 * Return the server's name of its first model, or NULL; die if the server
 * cannot be reached.
 */
static char *
first_model(void)
{
	struct qbench_request *c = ask(NULL, 404);
	const struct qwen_text *body = &c->reply.other;
	struct qwen_err err;
	const char *id;
	char *name;
	yyjson_doc *doc;

	doc = body->n == 0 || c->status != 200 ? NULL :
	    qwen_json_open(body->s, body->n, &err);
	id = yyjson_get_str(yyjson_obj_get(yyjson_arr_get_first(
	    yyjson_obj_get(yyjson_doc_get_root(doc), "data")), "id"));
	name = id == NULL ? NULL : cli_format("%s", id);
	yyjson_doc_free(doc);
	qbench_request_free(c);
	return name;
}

static void
open_server(void)
{
	struct sigaction sa = { .sa_handler = on_interrupt }, old;
	struct rlimit files;
	const char *socket;

	server.base = base_of(qbench_url.url, &socket);
	server.n_bodies = qbench_bodies_open();
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	qbench_http_open(socket);
	sigemptyset(&sa.sa_mask);
	if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &sa, NULL);
	server.model = first_model();
}

/* Return the i-th combination of the lists of options, n in all. */
static struct qbench_url_setting
setting(size_t i, size_t *n)
{
	static const struct qbench_list one = { 1, { 0 } };
	const struct qbench_url_opts *o = &qbench_url;
	const struct qbench_list *prompt = o->input == NULL ?
	    &qbench_opt.prompt : &one;
	const struct qbench_list *count = o->input == NULL ? &qbench_opt.count :
	    &one;
	/* each rate with each limit of clients */
	int limited = o->rate.n == 0 || cli_given(&o->clients);
	size_t limits = limited ? o->clients.n : 1;
	size_t loads = limits * (o->rate.n > 0 ? o->rate.n : 1);

	*n = prompt->n * count->n * loads;
	return (struct qbench_url_setting){
		.prompt = prompt->v[i / loads / count->n],
		.count = count->v[i / loads % count->n],
		.clients = limited ? o->clients.v[i % limits] : 0,
		.rate = o->rate.n > 0 ? o->rate.v[i % loads / limits] : 0,
	};
}

int
qbench_run_url(void)
{
	struct qbench_url_setting set;
	size_t i, n;
	int status;

	open_server();
	set = setting(0, &n);
	for (i = 0; i < qbench_url.warmup; i++)
		qbench_request_free(ask(&set, 0));
	for (i = 0; i < n && !interrupted; i++) {
		set = setting(i, &n);
		measure(&set);
	}
	status = cli_finish();
	if (interrupted)
		raise(SIGINT);	/* some requests may be in progress */
	qbench_http_close();
	qbench_bodies_close();
	free(server.base);
	free(server.model);
	return status;
}
