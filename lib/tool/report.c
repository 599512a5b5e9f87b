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

/* Returns a standard normal number (Box-Muller method). */
static double
normal(uint64_t *rng)
{
	double r = sqrt(-2 * log1p(-qwen_gguf_random_uniform(rng)));

	return r * cos(2 * 3.141592653589793 * qwen_gguf_random_uniform(rng));
}

/*
 * Returns a gamma-distributed number with mean 1: Marsaglia and Tsang's method,
 * which needs a shape of at least 1; below that, shape + 1 and a power of a
 * uniform number.
 */
static double
gamma_of(uint64_t *rng, double shape)
{
	double a = shape < 1 ? shape + 1 : shape, d = a - 1.0 / 3, x, v, u;

	do {
		x = normal(rng);
		v = 1 + x / sqrt(9 * d);
		v = v * v * v;
		u = 1 - qwen_gguf_random_uniform(rng);
	} while (v <= 0 || log(u) > x * x / 2 + d - d * v + d * log(v));
	if (shape < 1)
		v *= pow(1 - qwen_gguf_random_uniform(rng), 1 / shape);
	return d * v / shape;
}

double
tool_request_gap(uint64_t *rng, double rate, double burstiness)
{
	/* gaps of a Poisson process */
	if (burstiness == 1)
		return -log1p(-qwen_gguf_random_uniform(rng)) / rate;
	return gamma_of(rng, burstiness) / rate;
}

/* ------------------------------------------------------------------- goals */

void
tool_goals_parse(const struct cli_opt *o, const char *s)
{
	static const char *const names[] = { "ttft", "tpot", "e2e" };
	struct tool_times *g = o->to;
	char word[64];
	size_t i, n;

	for (;; s += n + 1) {
		n = strcspn(s, ",");
		for (i = 0; i < TOOL_N_TIMES; i++) {
			if (strncmp(s, names[i], strlen(names[i])) == 0 &&
			    s[strlen(names[i])] == ':')
				break;
		}
		if (i == TOOL_N_TIMES || n >= sizeof word)
			cli_usage("--goodput: '%s' is not like ttft:500,"
			    "tpot:50,e2e:5000, in milliseconds", s);
		snprintf(word, sizeof word, "%.*s", (int)n, s);
		g->ms[i] = cli_double("--goodput", word + strlen(names[i]) + 1,
		    0, 1e12);
		if (s[n] == '\0')
			return;
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

struct tool_percents tool_percents = { 4, { 50, 90, 95, 99 } };

void
tool_percents_parse(const struct cli_opt *o, const char *s)
{
	struct tool_percents *l = o->to;
	char word[32];
	size_t n;

	for (l->n = 0;; s += n + 1) {
		n = strcspn(s, ",");
		if (l->n == TOOL_PERCENTS_MAX)
			cli_usage("%s: more than %d values", cli_opt_name(o),
			    TOOL_PERCENTS_MAX);
		snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ?
		    n : sizeof word - 1), s);
		l->v[l->n++] = cli_double(cli_opt_name(o), word, 0.001, 100);
		if (s[n] == '\0')
			return;
	}
}

/* the mean, the percentiles, and the maximum */
enum { MAX_STATS = TOOL_PERCENTS_MAX + 2 };

static size_t
n_stats(void)
{
	return tool_percents.n + 2;
}

/* Returns the name of statistic i, perhaps in buf. */
static const char *
stat_name(size_t i, char buf[32])
{
	if (i == 0 || i > tool_percents.n)
		return i == 0 ? "mean" : "max";
	snprintf(buf, 32, "p%.10g", tool_percents.v[i - 1]);
	return buf;
}

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

static int
compare(const void *a, const void *b)
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

/* Computes the statistics; all are 0 for an empty sample. */
static void
summarise(struct tool_timings *s, double out[MAX_STATS])
{
	double sum = 0;
	size_t i;

	for (i = 0; i < s->n; i++)
		sum += s->v[i];
	memset(out, 0, MAX_STATS * sizeof *out);
	if (s->n == 0)
		return;
	qsort(s->v, s->n, sizeof *s->v, compare);
	out[0] = sum / (double)s->n;
	for (i = 0; i < tool_percents.n; i++)
		out[i + 1] = percentile(s->v, s->n, tool_percents.v[i]);
	out[tool_percents.n + 1] = s->v[s->n - 1];
}

void
tool_timings_head(struct qwen_text *t)
{
	char buf[32];
	size_t i;

	qwen_text_fmt(t, "%-8s", "");
	for (i = 0; i < n_stats(); i++)
		qwen_text_fmt(t, " %10s", stat_name(i, buf));
	qwen_text_str(t, "\n");
}

void
tool_timings_text(struct qwen_text *t, const char *name, struct tool_timings *s)
{
	double v[MAX_STATS];
	size_t i;

	qwen_text_fmt(t, "%-8s", name);
	summarise(s, v);
	for (i = 0; i < n_stats() && s->n > 0; i++)
		qwen_text_fmt(t, " %10.2f", v[i]);
	qwen_text_str(t, "\n");
}

void
tool_timings_json(struct qwen_text *t, const char *name, struct tool_timings *s)
{
	double v[MAX_STATS];
	char buf[32];
	size_t i;

	summarise(s, v);
	qwen_text_fmt(t, "\"%s\":{\"n\":%zu", name, s->n);
	for (i = 0; i < n_stats(); i++)
		qwen_text_fmt(t, ",\"%s\":%.6g", stat_name(i, buf), v[i]);
	qwen_text_str(t, "}");
}

void
tool_timings_csv(struct qwen_text *t, const char *name, struct tool_timings *s)
{
	double v[MAX_STATS];
	char buf[32];
	size_t i;

	if (s != NULL)
		summarise(s, v);
	for (i = 0; i < n_stats(); i++) {
		if (s == NULL)
			qwen_text_fmt(t, ",%s_%s", name, stat_name(i, buf));
		else if (s->n == 0)
			qwen_text_str(t, ",");
		else
			qwen_text_fmt(t, ",%.6g", v[i]);
	}
}
