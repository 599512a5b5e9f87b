/* SPDX-License-Identifier: ISC */
/*
 * report.c - random arrival times of requests, and statistics of their latency.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/synth.h"
#include "tool/tool.h"

/* ---------------------------------------------------------------- arrivals */

double
tool_request_gap(uint64_t *rng, double rate)
{
	return -log1p(-qwen_gguf_random_uniform(rng)) / rate;
}

/* ------------------------------------------------------------------- goals */

void
tool_goals_parse(const struct cli_opt *o, const char *s)
{
	static const char *const names[] = { "ttft", "tpot", "e2e" };
	struct tool_times *g = o->to;
	const char *at = s;
	char word[64];
	size_t i, n;

	for (; cli_next_word(&s, word, sizeof word); at = s) {
		n = strcspn(word, ":");
		for (i = 0; i < TOOL_N_TIMES && (strlen(names[i]) != n ||
		    memcmp(word, names[i], n) != 0); i++)
			;
		if (i == TOOL_N_TIMES || word[n] == '\0' ||
		    strlen(word) == sizeof word - 1)
			cli_usage("--goodput: '%s' is not like ttft:500,"
			    "tpot:50,e2e:5000, in milliseconds", at);
		g->ms[i] = cli_double("--goodput", word + n + 1, 0, 1e12);
	}
}

int
tool_goals_met(const struct tool_times *goals, const struct tool_times *t)
{
	int i;

	for (i = 0; i < TOOL_N_TIMES; i++) {
		if (goals->ms[i] > 0 && t->ms[i] > goals->ms[i])
			return 0;
	}
	return 1;
}

/* -------------------------------------------------------------- statistics */

static const double percents[] = { 50, 90, 95, 99 };

enum { N_PERCENTS = sizeof percents / sizeof percents[0] };

const char *const tool_stat_names[TOOL_N_STATS] = {
	"mean", "p50", "p90", "p95", "p99", "max",
};

void
tool_timings_add(struct tool_timings *s, double ms)
{
	if (ms < 0)
		return;
	cli_grow(&s->v, &s->cap, s->n + 1, sizeof *s->v);
	s->v[s->n++] = ms;
}

void
tool_timings_fini(struct tool_timings *s)
{
	free(s->v);
	*s = (struct tool_timings){ 0 };
}

int
tool_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Returns the smallest of n sorted values that at least percent % do not
 * exceed.
 */
static double
percentile(const double *v, size_t n, double percent)
{
	double rank = ceil((double)n * percent / 100 - 1e-9);

	return v[rank < 1 ? 0 : rank > (double)n ? n - 1 : (size_t)rank - 1];
}

void
tool_timings_stats(struct tool_timings *s, double out[TOOL_N_STATS])
{
	double sum = 0;
	size_t i;

	for (i = 0; i < s->n; i++)
		sum += s->v[i];
	memset(out, 0, TOOL_N_STATS * sizeof *out);
	if (s->n == 0)
		return;
	qsort(s->v, s->n, sizeof *s->v, tool_by_value);
	out[0] = sum / (double)s->n;
	for (i = 0; i < N_PERCENTS; i++)
		out[i + 1] = percentile(s->v, s->n, percents[i]);
	out[TOOL_N_STATS - 1] = s->v[s->n - 1];
}

void
tool_timings_head(struct qwen_text *t)
{
	size_t i;

	qwen_text_fmt(t, "%-8s", "");
	for (i = 0; i < TOOL_N_STATS; i++)
		qwen_text_fmt(t, " %10s", tool_stat_names[i]);
	qwen_text_str(t, "\n");
}

void
tool_timings_text(struct qwen_text *t, const char *name, struct tool_timings *s)
{
	double v[TOOL_N_STATS];
	size_t i;

	qwen_text_fmt(t, "%-8s", name);
	tool_timings_stats(s, v);
	for (i = 0; i < TOOL_N_STATS && s->n > 0; i++)
		qwen_text_fmt(t, " %10.2f", v[i]);
	qwen_text_str(t, "\n");
}

void
tool_timings_json(struct qwen_text *t, const char *name, struct tool_timings *s)
{
	double v[TOOL_N_STATS];
	size_t i;

	tool_timings_stats(s, v);
	qwen_text_fmt(t, "\"%s\":{\"n\":%zu", name, s->n);
	for (i = 0; i < TOOL_N_STATS; i++)
		qwen_text_fmt(t, ",\"%s\":%.6g", tool_stat_names[i], v[i]);
	qwen_text_str(t, "}");
}
