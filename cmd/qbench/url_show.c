/* SPDX-License-Identifier: ISC */
/*
 * url_show.c - print the results of a load on a server as text, JSON and CSV.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "url.h"

enum { N_TOTALS = 13 };

static const char *const apis[] = { "chat", "completions" };
static const char *const time_names[] = { "ttft_ms", "tpot_ms", "e2e_ms" };

/* A result that is one number; below 0: unknown. */
struct total {
	const char	*name;
	double		 v;
};

static void
totals_of(const struct qbench_url_result *r, struct total t[N_TOTALS])
{
	double s = r->seconds;
	const struct total all[N_TOTALS] = {
		{ "answered", (double)r->n_answered },
		{ "failed", (double)r->n_failed },
		{ "given_up", (double)r->n_given_up },
		{ "seconds", s },
		{ "most_at_once", (double)r->most },
		{ "prompt_tokens", (double)r->prompt },
		{ "cached_tokens", (double)r->cached },
		{ "generated_tokens", (double)r->generated },
		{ "requests_per_s", (double)r->n_answered / s },
		{ "goodput_requests_per_s", (double)r->n_good / s },
		{ "prompt_tokens_per_s", (double)r->prompt / s },
		{ "generated_tokens_per_s", (double)r->generated / s },
		{ "late_ms", r->late },
	};

	memcpy(t, all, sizeof all);
}

/* Write the samples ttft, tpot, itl and e2e. */
static void
each_sample(struct qwen_text *t, struct qbench_url_result *r,
    void (*put)(struct qwen_text *, const char *, struct tool_timings *),
    const char *between)
{
	int i;

	for (i = 0; i < TOOL_N_TIMES; i++) {
		if (i == TOOL_E2E) {
			put(t, "itl_ms", r == NULL ? NULL : &r->gaps);
			qwen_text_str(t, between);
		}
		put(t, time_names[i], r == NULL ? NULL : &r->time[i]);
		qwen_text_str(t, i < TOOL_E2E ? between : "");
	}
}

/* -------------------------------------------------------------------- text */

static void
text_setting(struct qwen_text *t, const struct qbench_url_result *r)
{
	const struct qbench_url_opts *o = &qbench_url;

	qwen_text_fmt(t, "server   %s, %s\n", o->url, r->model != NULL ?
	    r->model : "which names no model");
	qwen_text_str(t, "setting  ");
	if (r->set.rate > 0)
		qwen_text_fmt(t, "%g requests a second", r->set.rate);
	if (r->set.rate > 0 && r->set.clients > 0)
		qwen_text_fmt(t, ", at most %zu at once", r->set.clients);
	else if (r->set.rate <= 0)
		qwen_text_str(t, cli_count(r->set.clients, "client"));
	if (o->input != NULL)
		qwen_text_fmt(t, "; requests of %s\n", o->input);
	else
		qwen_text_fmt(t, "; %s: prompts of %zu, %zu of them shared, "
		    "count %zu, seed %llu\n", apis[o->api], r->set.prompt,
		    o->prefix, r->set.count,
		    (unsigned long long)o->seed);
	if (r->interrupted)
		qwen_text_str(t, "         interrupted: of what was measured "
		    "by then\n");
	qwen_text_str(t, "\n");
}

static void
as_text(struct qwen_text *t, struct qbench_url_result *r)
{
	struct total all[N_TOTALS];
	size_t i;

	text_setting(t, r);
	totals_of(r, all);
	for (i = 0; i < N_TOTALS; i++) {
		if (all[i].v < 0)
			qwen_text_fmt(t, "%-26s -\n", all[i].name);
		else
			qwen_text_fmt(t, "%-26s %.10g\n", all[i].name,
			    all[i].v);
	}
	tool_timings_head(t);
	each_sample(t, r, tool_timings_text, "");
	for (i = 0; i < r->n_errors; i++)
		qwen_text_fmt(t, "%-8s %10llu  %s%s%s\n", "error",
		    (unsigned long long)r->error[i].n, r->error[i].kind,
		    r->error[i].why[0] != '\0' ? ": " : "", r->error[i].why);
}

/* -------------------------------------------------------------------- JSON */

static void
json_str(struct qwen_text *t, const char *name, const char *s)
{
	qwen_text_fmt(t, "\"%s\":", name);
	if (s == NULL)
		qwen_text_str(t, "null");
	else
		qwen_text_json(t, s, strlen(s));
}

static void
json_setting(struct qwen_text *t, const struct qbench_url_result *r)
{
	const struct qbench_url_opts *o = &qbench_url;
	int i, n = 0;

	qwen_text_str(t, "\"setting\":{");
	json_str(t, "url", o->url);
	qwen_text_str(t, ",");
	json_str(t, "model", r->model);
	qwen_text_str(t, ",");
	json_str(t, "input", o->input);
	if (o->input == NULL)
		qwen_text_fmt(t, ",\"api\":\"%s\",\"prompt\":%zu,\"prefix\":%zu,"
		    "\"count\":%zu", apis[o->api], r->set.prompt, o->prefix,
		    r->set.count);
	if (r->set.rate > 0)
		qwen_text_fmt(t, ",\"rate\":%g", r->set.rate);
	if (r->set.clients > 0)
		qwen_text_fmt(t, ",\"clients\":%zu", r->set.clients);
	qwen_text_fmt(t, ",\"seed\":%llu,\"goodput\":{",
	    (unsigned long long)o->seed);
	for (i = 0; i < TOOL_N_TIMES; i++) {
		if (o->goals.ms[i] > 0)
			qwen_text_fmt(t, "%s\"%s\":%g", n++ > 0 ? "," : "",
			    time_names[i], o->goals.ms[i]);
	}
	qwen_text_str(t, "}}");
}

static void
as_json(struct qwen_text *t, struct qbench_url_result *r)
{
	struct total all[N_TOTALS];
	size_t i;

	qwen_text_str(t, "{");
	totals_of(r, all);
	for (i = 0; i < N_TOTALS; i++) {
		qwen_text_fmt(t, "\"%s\":", all[i].name);
		if (all[i].v < 0)
			qwen_text_str(t, "null,");
		else
			qwen_text_fmt(t, "%.10g,", all[i].v);
	}
	each_sample(t, r, tool_timings_json, ",");
	qwen_text_str(t, ",\"errors\":[");
	for (i = 0; i < r->n_errors; i++) {
		qwen_text_fmt(t, "%s{\"kind\":\"%s\",\"n\":%llu,", i > 0 ?
		    "," : "", r->error[i].kind,
		    (unsigned long long)r->error[i].n);
		json_str(t, "message", r->error[i].why);
		qwen_text_str(t, "}");
	}
	qwen_text_fmt(t, "],\"interrupted\":%s,", r->interrupted ? "true" :
	    "false");
	json_setting(t, r);
	qwen_text_str(t, "}\n");
}

/* --------------------------------------------------------------------- CSV */

static void
csv_line(struct qbench_url_result *r)
{
	const struct qbench_url_opts *o = &qbench_url;
	struct total all[N_TOTALS];
	struct qwen_text t = { 0 };
	size_t i;

	qbench_csv_str(o->url);
	putchar(',');
	qbench_csv_str(r->model != NULL ? r->model : "");
	printf(",%s,%zu,%g,%zu,%zu,%zu", o->input != NULL ? "" :
	    apis[o->api], r->set.clients, r->set.rate, r->set.prompt, o->prefix, r->set.count);
	totals_of(r, all);
	for (i = 0; i < N_TOTALS; i++)
		printf(all[i].v < 0 ? "," : ",%.10g", all[i].v);
	each_sample(&t, r, tool_timings_csv, "");
	if (t.failed)
		die("out of memory");
	printf("%s\n", t.s);
	qwen_text_fini(&t);
}

static void
csv_head(void)
{
	struct qbench_url_result none = { .seconds = 1 };
	struct total all[N_TOTALS];
	struct qwen_text t = { 0 };
	size_t i;

	totals_of(&none, all);
	printf("url,model,api,clients,rate,prompt,prefix,count");
	for (i = 0; i < N_TOTALS; i++)
		printf(",%s", all[i].name);
	each_sample(&t, NULL, tool_timings_csv, "");
	if (t.failed)
		die("out of memory");
	printf("%s\n", t.s);
	qwen_text_fini(&t);
}

void
qbench_url_show(struct qbench_url_result *r)
{
	struct qwen_text t = { 0 };
	static int shown;

	if (qbench_opt.csv) {
		if (!shown)
			csv_head();
		csv_line(r);
	} else {
		if (qbench_opt.json)
			as_json(&t, r);
		else
			as_text(&t, r);
		if (t.failed)
			die("out of memory");
		printf("%s", shown && !qbench_opt.json ? "\n" : "");
		cli_show_text(stdout, t.s, t.n);
		qwen_text_fini(&t);
	}
	shown = 1;
	if (fflush(stdout) == EOF)
		die("stdout: %s", strerror(errno));
}
