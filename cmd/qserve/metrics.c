/* SPDX-License-Identifier: ISC */
/* metrics.c - metrics of the server and its engines, in Prometheus format. */
#include <stdlib.h>

#include "qserve.h"

enum { PATIENCE_S = 2 };	/* seconds to wait for engines */

/* The statistics of an engine; a call has an array of them, or NULL. */
struct engine_stat {
	int		there;
	uint64_t	v[QWEN_N_STATS];
};

/* ------------------------------------------------------------------- output */

static void
put_head(struct qwen_text *t, const char *name, const char *type,
    const char *help)
{
	qwen_text_fmt(t, "# HELP qserve_%s %s\n# TYPE qserve_%s %s\n", name,
	    help, name, type);
}

static void
put_number(struct qwen_text *t, const char *name, const char *type, uint64_t v,
    const char *help)
{
	put_head(t, name, type, help);
	qwen_text_fmt(t, "qserve_%s %llu\n", name, cli_llu(v));
}

static void
put_times(struct qwen_text *t, const char *name, const struct qserve_times *v,
    const char *help)
{
	size_t i;

	put_head(t, name, "histogram", help);
	for (i = 0; i < QSERVE_BOUNDS; i++)
		qwen_text_fmt(t, "qserve_%s_bucket{le=\"%g\"} %llu\n", name,
		    qserve_bounds[i], cli_llu(v->at_most[i]));
	qwen_text_fmt(t, "qserve_%s_bucket{le=\"+Inf\"} %llu\nqserve_%s_sum "
	    "%.6f\nqserve_%s_count %llu\n", name, cli_llu(v->n),
	    name, v->sum, name, cli_llu(v->n));
}

/* in the order of enum qwen_event_stat */
static const struct {
	const char	*name, *type, *help;
} stats[QWEN_N_STATS] = {
	{ "running", "gauge", "Requests in progress." },
	{ "waiting", "gauge", "Requests waiting." },
	{ "clients", "gauge", "Clients of the engine." },
	{ "requests_total", "counter", "Requests accepted." },
	{ "cancelled_total", "counter", "Requests cancelled." },
	{ "prompt_tokens_read_total", "counter", "Prompt tokens read." },
	{ "prompt_tokens_shared_total", "counter", "Prompt tokens found in "
	    "memory." },
	{ "prompt_tokens_stored_total", "counter", "Prompt tokens found in the "
	    "store." },
	{ "tokens_chosen_total", "counter", "Tokens generated." },
	{ "tokens_scored_total", "counter", "Tokens scored." },
	{ "passes_total", "counter", "Passes over the weights." },
	{ "preempted_total", "counter", "Requests preempted." },
	{ "kept", "gauge", "Texts kept in memory." },
	{ "cache_bytes", "gauge", "Bytes of caches and states in use." },
	{ "cache_limit_bytes", "gauge", "Limit of bytes of caches and "
	    "states." },
	{ "dropped_total", "counter", "Clients dropped." },
};

static void
add_engines(struct qserve_call *c)
{
	const struct engine_stat *stat = c->state;
	struct qwen_text *t = &c->out;
	const struct qserve_engine *e;
	char name[64];
	size_t i, k, n;

	put_head(t, "engine_ready", "gauge", "Whether the engine is ready.");
	for (e = c->server->engines, n = 0; e != NULL; e = e->next, n++)
		qwen_text_fmt(t, "qserve_engine_ready{engine=\"%zu\"} %d\n", n,
		    e->ready);
	put_head(t, "engine_silent_seconds", "gauge",
	    "Seconds for which the engine has owed an answer.");
	for (e = c->server->engines, i = 0; e != NULL; e = e->next, i++)
		qwen_text_fmt(t, "qserve_engine_silent_seconds{engine=\"%zu\"} "
		    "%.3f\n", i, qserve_engine_unanswered_s(e, cli_now()));
	put_head(t, "engine_starts_total", "counter", "Times the engine was "
	    "started.");
	for (e = c->server->engines, i = 0; e != NULL; e = e->next, i++)
		qwen_text_fmt(t, "qserve_engine_starts_total{engine=\"%zu\"} "
		    "%llu\n", i, cli_llu(e->n_started));
	for (k = 0; stat != NULL && k < QWEN_N_STATS; k++) {
		snprintf(name, sizeof name, "engine_%s", stats[k].name);
		put_head(t, name, stats[k].type, stats[k].help);
		for (i = 0; i < n; i++) {
			if (stat[i].there)
				qwen_text_fmt(t, "qserve_%s{engine=\"%zu\"} "
				    "%llu\n", name, i, cli_llu(stat[i].v[k]));
		}
	}
}

static void
put_metrics(struct qserve_call *c)
{
	const struct qserve *s = c->server;
	const struct qserve_totals *all = &s->totals;
	struct qwen_text *t = &c->out;
	size_t i;

	put_head(t, "requests_total", "counter", "Requests by status.");
	for (i = 0; i < 600; i++) {
		if (all->status[i] > 0)
			qwen_text_fmt(t, "qserve_requests_total{status=\"%zu\"} "
			    "%llu\n", i, cli_llu(all->status[i]));
	}
	put_number(t, "clients_left_total", "counter", all->left,
	    "Requests whose client left or was dropped.");
	put_number(t, "connections", "gauge", s->n_conns, "Open connections.");
	put_number(t, "requests", "gauge", s->n_calls, "Requests in progress.");
	put_number(t, "jobs", "gauge", s->n_jobs, "Sequences that engines work "
	    "on for requests.");
	put_number(t, "prompt_tokens_total", "counter", all->prompt,
	    "Prompt tokens sent to engines.");
	put_number(t, "cached_tokens_total", "counter", all->cached,
	    "Prompt tokens that need no reading.");
	put_number(t, "generated_tokens_total", "counter", all->chosen,
	    "Tokens of answers.");
	put_number(t, "images_total", "counter", s->images.n_runs, "Images "
	    "that qimage encoded, or found in its folder.");
	put_times(t, "time_to_first_token_seconds", &all->ttft,
	    "Seconds from a request to the first token of its answer.");
	put_times(t, "time_per_output_token_seconds", &all->tpot,
	    "Average seconds between tokens of an answer.");
	put_times(t, "request_duration_seconds", &all->e2e,
	    "Seconds from a request to the end of its answer.");
	add_engines(c);
	c->type = "text/plain; version=0.0.4; charset=utf-8";
	qserve_done(c, 200);
}

/* ------------------------------------------------------------------ engines */

static int
make_request(struct qserve_call *c, size_t i, struct qwen_engine_request *o)
{
	(void)c;
	(void)i;
	o->kind = QWEN_ENGINE_STATS;
	return 0;
}

static void
on_event(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct engine_stat *stat = c->state;
	size_t k;

	if (ev->kind == QWEN_EVENT_STATS) {
		stat[i].there = 1;
		for (k = 0; k < QWEN_N_STATS; k++)
			stat[i].v[k] = ev->stat[k];
	}
	if (c->n_left == 0)
		put_metrics(c);
}

static void
fail(struct qserve_call *c, const char *code, const char *message)
{
	(void)code;
	(void)message;
	put_metrics(c);
}

static const struct qserve_handler numbers = { make_request, on_event, fail };

static void
begin(struct qserve_call *c)
{
	/* how many engines there are is not known to the table of kinds */
	c->state = calloc(c->server->n_engines, sizeof(struct engine_stat));
	if (c->state == NULL || qserve_ask_all(c, &numbers, PATIENCE_S) == 0)
		put_metrics(c);
}

const struct qserve_kind qserve_metrics = { begin, 0, NULL };
