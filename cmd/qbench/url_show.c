/* SPDX-License-Identifier: ISC */
/*
 * url_show.c - print the results of a load on a server as text, JSON and CSV.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/json/json.h"
#include "url.h"

enum {
	N_SETTING = 8, N_TOTALS = 13, N_TIMES = QBENCH_N_SAMPLES * TOOL_N_STATS
};

static const char *const apis[] = { "chat", "completions" };
static const char *const sample_names[QBENCH_N_SAMPLES] = {
	"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms",
};

/*
 * Set the cells of the setting, then those of the totals.  What does not apply
 * is unknown.
 */
static void
set_cells(struct qbench_cell to[N_SETTING + N_TOTALS],
    const struct qbench_url_result *r)
{
	const struct qbench_url_opts *o = &qbench_url;
	int made = o->input == NULL;
	double s = r->seconds;
	const struct qbench_cell all[N_SETTING + N_TOTALS] = {
		QBENCH_TEXT("url", NULL, 0, o->url),
		QBENCH_TEXT("model", NULL, 0, r->model),
		QBENCH_TEXT("api", NULL, 0, made ? apis[o->api] : NULL),
		QBENCH_VALUE("clients", r->set.clients > 0 ?
		    (double)r->set.clients : NAN),
		QBENCH_VALUE("rate", r->set.rate > 0 ? r->set.rate : NAN),
		QBENCH_VALUE("prompt", made ? (double)r->set.prompt : NAN),
		QBENCH_VALUE("prefix", made ? (double)o->prefix : NAN),
		QBENCH_VALUE("count", made ? (double)r->set.count : NAN),

		QBENCH_VALUE("answered", (double)r->n_answered),
		QBENCH_VALUE("failed", (double)r->n_failed),
		QBENCH_VALUE("given_up", (double)r->n_running),
		QBENCH_VALUE("seconds", s),
		QBENCH_VALUE("most_at_once", (double)r->most),
		QBENCH_VALUE("prompt_tokens", (double)r->prompt),
		QBENCH_VALUE("cached_tokens", (double)r->cached),
		QBENCH_VALUE("generated_tokens", (double)r->generated),
		QBENCH_VALUE("requests_per_s", (double)r->n_answered / s),
		QBENCH_VALUE("goodput_requests_per_s", (double)r->n_good / s),
		QBENCH_VALUE("prompt_tokens_per_s", (double)r->prompt / s),
		QBENCH_VALUE("generated_tokens_per_s",
		    (double)r->generated / s),
		QBENCH_VALUE("late_ms", r->late),
	};

	memcpy(to, all, sizeof all);
}

static void
as_text(struct qwen_text *t, struct qbench_url_result *r)
{
	const struct qbench_url_opts *o = &qbench_url;
	struct qbench_cell cell[N_SETTING + N_TOTALS];
	size_t i;

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
		    o->prefix, r->set.count, (unsigned long long)o->seed);
	if (r->interrupted)
		qwen_text_str(t, "         interrupted: of what was measured "
		    "by then\n");
	qwen_text_str(t, "\n");
	set_cells(cell, r);
	for (i = N_SETTING; i < N_SETTING + N_TOTALS; i++)
		qwen_text_fmt(t, cell[i].v.median < 0 ? "%-26s -\n" :
		    "%-26s %.10g\n", cell[i].name, cell[i].v.median);
	tool_timings_head(t);
	for (i = 0; i < QBENCH_N_SAMPLES; i++)
		tool_timings_text(t, sample_names[i], &r->time[i]);
	for (i = 0; i < r->n_errors; i++)
		qwen_text_fmt(t, "%-8s %10llu  %s\n", "error",
		    (unsigned long long)r->error[i].n, qbench_error_text(
		    r->error[i].kind, r->error[i].why));
}

static void
as_json(struct qwen_text *t, struct qbench_url_result *r)
{
	static const char *const goals[] = { "ttft_ms", "tpot_ms", "e2e_ms" };
	struct qbench_cell cell[N_SETTING + N_TOTALS];
	size_t i;

	set_cells(cell, r);
	qwen_json_put(t, "{");
	qbench_json_cells(t, cell + N_SETTING, N_TOTALS);
	for (i = 0; i < QBENCH_N_SAMPLES; i++) {
		qwen_text_str(t, ",");
		tool_timings_json(t, sample_names[i], &r->time[i]);
	}
	qwen_json_put(t, ",'errors':[");
	for (i = 0; i < r->n_errors; i++)
		qwen_json_put(t, ",{'kind':'%s','n':%llu,'message':'%s'}",
		    r->error[i].kind, (unsigned long long)r->error[i].n,
		    r->error[i].why);
	qwen_json_put(t, "],'interrupted':%s,'setting':{", r->interrupted ?
	    "true" : "false");
	qbench_json_cells(t, cell, N_SETTING);
	qwen_json_put(t, ",'input':'%s','seed':%llu,'goodput':{",
	    qbench_url.input, (unsigned long long)qbench_url.seed);
	for (i = 0; i < TOOL_N_TIMES; i++) {
		if (qbench_url.goals.ms[i] > 0)
			qbench_json_number(t, goals[i],
			    qbench_url.goals.ms[i]);
	}
	qwen_text_str(t, "}}}\n");
}

static void
as_csv(struct qwen_text *t, struct qbench_url_result *r)
{
	char name[N_TIMES][16];
	struct qbench_cell cell[N_SETTING + N_TOTALS + N_TIMES];
	struct qbench_cell *c = cell + N_SETTING + N_TOTALS;
	double v[TOOL_N_STATS];
	size_t i, k, n = 0;

	set_cells(cell, r);
	for (i = 0; i < QBENCH_N_SAMPLES; i++) {
		tool_timings_stats(&r->time[i], v);
		for (k = 0; k < TOOL_N_STATS; k++, n++) {
			snprintf(name[n], sizeof name[n], "%s_%s",
			    sample_names[i], tool_stat_names[k]);
			c[n] = (struct qbench_cell)QBENCH_VALUE(name[n],
			    r->time[i].n > 0 ? v[k] : NAN);
		}
	}
	qbench_row(t, cell, N_SETTING + N_TOTALS + N_TIMES, 0);
}

void
qbench_url_show(struct qbench_url_result *r)
{
	struct qwen_text t = { 0 };

	qbench_begin(&t);
	(qbench_opt.csv ? as_csv : qbench_opt.json ? as_json : as_text)(&t, r);
	qbench_write(&t);
}
