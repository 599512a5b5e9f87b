/* SPDX-License-Identifier: ISC */
/* url.c - the options of --url. */
#include <time.h>

#include "url.h"

enum { MAX_CLIENTS = 65536 };

struct qbench_url_opts qbench_url = {
	.clients = { 1, { 1 } }, .warmup = 1,
};

static const struct cli_opt options[] = {
	CLI_GROUP("server under load (-p and -n apply to each request):"),
	CLI_TEXT(0, "url", "url", &qbench_url.url,
	    "send requests to this server: http://127.0.0.1:8080 or unix:PATH"),
	CLI_WORD(0, "api", "name", &qbench_url.api, "chat completions",
	    "API to call (default chat)"),
	QBENCH_LIST(0, "clients", "n", &qbench_url.clients, 1, MAX_CLIENTS,
	    "requests at the same time; with --rate the limit; a list (default "
	    "1)"),
	QBENCH_REALS("rate", "r", &qbench_url.rate, 1e-3, 1e6,
	    "send R requests per second, at random times; a list"),
	CLI_INT(0, "requests", "n", &qbench_url.requests, 1, INT64_MAX,
	    "requests per setting (default 4 per client, or 32)"),
	CLI_REAL(0, "seconds", "s", &qbench_url.seconds, 1e-3, 1e9,
	    "stop sending after this many seconds"),
	CLI_INT(0, "warmup", "n", &qbench_url.warmup, 0, 1000000,
	    "requests sent first, and not measured (default 1)"),
	CLI_REAL(0, "timeout", "s", &qbench_url.timeout, 1e-3, 1e6,
	    "count a request as failed after this many seconds"),
	CLI_INT(0, "prefix", "tokens", &qbench_url.prefix, 0, QBENCH_MAX_TOKENS,
	    "tokens of -p that are the same in all prompts"),
	CLI_U64(0, "seed", "number", &qbench_url.seed,
	    "seed of prompts and times (default the clock)"),
	CLI_FILE(0, "input", "file", &qbench_url.input, "file",
	    "send the requests of this file (as for qbatch), over and over"),
	CLI_TEXT(0, "body", "json", &qbench_url.body,
	    "JSON fields to add to every request, as {\"temperature\":0}"),
	CLI_CALL(0, "goodput", "goals", &qbench_url.goals, tool_goals_parse,
	    NULL, "count requests within these ms, as in "
	    "ttft:500,tpot:50,e2e:5000"),
	CLI_END,
};

const struct cli_opt *
qbench_url_rows(void *to)
{
	(void)to;
	return options;
}

static void
exclude(const void *a, const char *name, const void *b, const char *other)
{
	if (cli_given(a) && cli_given(b))
		cli_usage("%s and %s exclude each other", name, other);
}

int
qbench_url_check(void)
{
	struct qbench_url_opts *o = &qbench_url;
	const struct cli_opt *row;
	struct timespec now;
	size_t i;

	for (row = options; row->kind != CLI_KIND_END; row++) {
		if (o->url == NULL && row->to != NULL && cli_given(row->to))
			cli_usage("%s needs --url", cli_opt_name(row));
	}
	if (o->url == NULL)
		return 0;
	exclude(&o->input, "--input", &o->api, "--api");
	exclude(&o->input, "--input", &o->prefix, "--prefix");
	exclude(&o->input, "--input", &qbench_opt.prompt, "-p");
	exclude(&o->input, "--input", &qbench_opt.count, "-n");
	for (i = 0; i < qbench_opt.prompt.n; i++) {
		if (qbench_opt.prompt.v[i] == 0)
			cli_usage("-p 0: nothing to ask");
	}
	for (i = 0; i < qbench_opt.count.n; i++) {
		if (qbench_opt.count.v[i] == 0)
			cli_usage("-n 0: nothing to answer");
	}
	if (!cli_given(&o->seed)) {
		clock_gettime(CLOCK_REALTIME, &now);
		o->seed = (uint64_t)now.tv_sec * 1000 +
		    (uint64_t)now.tv_nsec / 1000000;
	}
	return 1;
}
