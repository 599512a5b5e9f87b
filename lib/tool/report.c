/* SPDX-License-Identifier: ISC */
/* report.c - requests that came at random, and how they fared, in figures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/synth.h"
#include "tool/tool.h"

/* ---------------------------------------------------------------- arrivals */

/* Of the standard normal distribution: Box and Muller's. */
static double
normal(uint64_t *rng)
{
	double r = sqrt(-2 * log1p(-qwen_gguf_random_uniform(rng)));

	return r * cos(2 * 3.141592653589793 * qwen_gguf_random_uniform(rng));
}

/*
 * Of the gamma distribution with mean 1: Marsaglia and Tsang's method, which
 * takes a shape of at least 1, and a power of a uniform number below that.
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
tool_gap(uint64_t *rng, double rate, double burstiness)
{
	/* times between events of a Poisson process */
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

/* ----------------------------------------------------------------- figures */

static const struct stat {
	const char	*name;
	size_t		 percent;	/* that do not exceed it; 0: the mean */
} stats[] = {
	{ "mean", 0 }, { "p50", 50 }, { "p90", 90 }, { "p95", 95 },
	{ "p99", 99 }, { "max", 100 },
};

enum { N_STATS = sizeof stats / sizeof stats[0] };

void
tool_sample_add(struct tool_sample *s, double ms)
{
	if (ms < 0)
		return;
	cli_grow(&s->v, &s->cap, s->n + 1, sizeof *s->v);
	s->v[s->n++] = ms;
}

void
tool_sample_fini(struct tool_sample *s)
{
	free(s->v);
	*s = (struct tool_sample){ 0 };
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* All are 0 if there are none. */
static void
summarise(struct tool_sample *s, double *out)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < s->n; i++)
		sum += s->v[i];
	if (s->n > 0)
		qsort(s->v, s->n, sizeof *s->v, compare);
	for (i = 0; i < N_STATS; i++)
		out[i] = s->n == 0 ? 0 : stats[i].percent == 0 ?
		    sum / (double)s->n :
		    s->v[(s->n * stats[i].percent + 99) / 100 - 1];
}

void
tool_sample_head(struct qwen_text *t)
{
	size_t i;

	qwen_text_fmt(t, "%-8s", "");
	for (i = 0; i < N_STATS; i++)
		qwen_text_fmt(t, " %10s", stats[i].name);
	qwen_text_str(t, "\n");
}

void
tool_sample_text(struct qwen_text *t, const char *name, struct tool_sample *s)
{
	double v[N_STATS];
	size_t i;

	qwen_text_fmt(t, "%-8s", name);
	summarise(s, v);
	for (i = 0; i < N_STATS && s->n > 0; i++)
		qwen_text_fmt(t, " %10.2f", v[i]);
	qwen_text_str(t, "\n");
}

void
tool_sample_json(struct qwen_text *t, const char *name, struct tool_sample *s)
{
	double v[N_STATS];
	size_t i;

	summarise(s, v);
	qwen_text_fmt(t, "\"%s\":{\"n\":%zu", name, s->n);
	for (i = 0; i < N_STATS; i++)
		qwen_text_fmt(t, ",\"%s\":%.6g", stats[i].name, v[i]);
	qwen_text_str(t, "}");
}

void
tool_sample_csv(struct qwen_text *t, const char *name, struct tool_sample *s)
{
	double v[N_STATS];
	size_t i;

	if (s != NULL)
		summarise(s, v);
	for (i = 0; i < N_STATS; i++) {
		if (s == NULL)
			qwen_text_fmt(t, ",%s_%s", name, stats[i].name);
		else if (s->n == 0)
			qwen_text_str(t, ",");
		else
			qwen_text_fmt(t, ",%.6g", v[i]);
	}
}
