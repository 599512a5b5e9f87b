/* SPDX-License-Identifier: ISC */
/*
 * stats.c - how much two models differ: the statistics of llama.cpp's
 * --kl-divergence, by the same definitions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qscore.h"

enum { BAR = 50 };		/* characters of the longest bar */

/* A mean, or a function of means, and its standard error. */
struct figure {
	double	x, error;
};

void
qscore_add_pair(struct qscore_stats *j, const struct qwen_row_pair *p)
{
	size_t cap = j->cap;
	double own = -p->logprob, base = -p->base_logprob;

	cli_grow(&j->kl, &cap, j->n + 1, sizeof *j->kl);
	cli_grow(&j->diff, &j->cap, j->n + 1, sizeof *j->diff);
	j->kl[j->n] = p->kl;
	j->diff[j->n] = qwen_perplexity(p->logprob) -
	    qwen_perplexity(p->base_logprob);
	j->n++;
	j->n_same += p->same_best != 0;
	j->nll += own;
	j->base_nll += base;
	j->square += own * own;
	j->base_square += base * base;
	j->product += own * base;
}

/*
 * Return the mean of n values with these sums; the error assumes independent
 * values.
 */
static struct figure
mean(double sum, double square, size_t n)
{
	struct figure f = { sum / (double)n, 0 };
	double var = square / (double)n - f.x * f.x;

	if (n > 1 && var > 0)
		f.error = sqrt(var / (double)(n - 1));
	return f;
}

/* Return the mean of x, or of its squares. */
static struct figure
mean_of(const double *x, size_t n, int squares)
{
	double sum = 0, square = 0, y;
	size_t i;

	for (i = 0; i < n; i++) {
		y = squares ? x[i] * x[i] : x[i];
		sum += y;
		square += y * y;
	}
	return mean(sum, square, n);
}

static struct figure
root_mean_square(const double *x, size_t n)
{
	struct figure f = mean_of(x, n, 1);

	f.x = sqrt(f.x);
	f.error = f.x > 0 ? f.error / (2 * f.x) : 0;
	return f;
}

/* Return the value below which this share of n sorted numbers lies. */
static double
quantile(const double *x, size_t n, double share)
{
	double at = share * (double)(n - 1);
	size_t i = (size_t)at;

	at -= (double)i;
	return i + 1 < n ? (1 - at) * x[i] + at * x[i + 1] : x[n - 1];
}

static const struct {
	const char	*name, *key;
	double		 share;
} quantiles[] = {
	{ "maximum", "max", 1 }, { "99.9 %", "p99_9", 0.999 },
	{ "99 %", "p99", 0.99 }, { "95 %", "p95", 0.95 },
	{ "90 %", "p90", 0.9 }, { "median", "median", 0.5 },
	{ "10 %", "p10", 0.1 }, { "5 %", "p5", 0.05 },
	{ "1 %", "p1", 0.01 }, { "0.1 %", "p0_1", 0.001 },
	{ "minimum", "min", 0 },
};

enum { N_QUANTILES = sizeof quantiles / sizeof *quantiles };

/* The perplexities of both models, their ratio and its logarithm. */
struct pair {
	struct figure	own, base, ratio, log;
	double		correlation;
};

static struct pair
perplexities(const struct qscore_stats *j)
{
	double n = (double)j->n, cov = 0, var;
	struct pair p = {
		.own = mean(j->nll, j->square, j->n),
		.base = mean(j->base_nll, j->base_square, j->n),
	};

	if (j->n > 1)
		cov = (j->product / n - p.own.x * p.base.x) / (n - 1);
	var = p.own.error * p.own.error + p.base.error * p.base.error -
	    2 * cov;
	p.correlation = p.own.error > 0 && p.base.error > 0 ?
	    cov / (p.own.error * p.base.error) : 1;
	p.log.x = p.own.x - p.base.x;
	p.log.error = var > 0 ? sqrt(var) : 0;
	p.ratio.x = qwen_perplexity(p.log.x);
	p.ratio.error = p.ratio.x * p.log.error;
	p.own.x = qwen_perplexity(p.own.x);
	p.own.error *= p.own.x;
	p.base.x = qwen_perplexity(p.base.x);
	p.base.error *= p.base.x;
	return p;
}

static struct figure
same_best(const struct qscore_stats *j)
{
	struct figure f = { (double)j->n_same / (double)j->n, 0 };

	if (j->n > 1)
		f.error = sqrt(f.x * (1 - f.x) / (double)(j->n - 1));
	return f;
}

/* ----------------------------------------------------------------- printing */

/*
 * Append a figure, in text times scale, where 100 makes it a percentage.  NAN
 * as its error: none.
 */
static void
add_figure(struct qwen_text *t, int json, const char *name, const char *key,
    double scale, struct figure f)
{
	char error[64];

	if (!json) {
		qwen_text_fmt(t, scale > 1 ? "%-28s %14.4f %%" :
		    "%-28s %14.6f ", name, scale * f.x);
		if (!isnan(f.error))
			qwen_text_fmt(t, scale > 1 ? " +- %.4f" : " +- %.6f",
			    scale * f.error);
		qwen_text_str(t, "\n");
		return;
	}
	qscore_number(t, key, f.x);
	snprintf(error, sizeof error, "%s_error", key);
	if (!isnan(f.error))
		qscore_number(t, error, f.error);
}

static void
add_quantiles(struct qwen_text *t, int json, const double *x, size_t n,
    double scale)
{
	size_t i;
	double v;

	for (i = 0; i < N_QUANTILES; i++) {
		v = quantile(x, n, quantiles[i].share);
		if (json)
			qscore_number(t, quantiles[i].key, v);
		else
			qwen_text_fmt(t, "  %-26s %14.6f%s\n",
			    quantiles[i].name, scale * v, scale > 1 ? " %" :
			    "");
	}
	qwen_text_str(t, json ? "}" : "");
}

/* Draw a histogram of the divergences. */
static void
add_plot(struct qwen_text *t, const double *kl, size_t n)
{
	static const double up_to[] = { 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4,
	    1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, INFINITY };
	enum { N = sizeof up_to / sizeof *up_to };
	size_t count[N] = { 0 }, most = 0, i, k, lo = N, hi = 0;

	for (i = 0, k = 0; i < n; i++) {
		while (kl[i] > up_to[k])
			k++;
		count[k]++;
		most = count[k] > most ? count[k] : most;
		lo = k < lo ? k : lo;
		hi = k;
	}
	qwen_text_str(t, "\ntokens by divergence\n");
	for (i = lo; i <= hi; i++) {
		if (i + 1 < N)
			qwen_text_fmt(t, "  to %-7g %9zu ", up_to[i], count[i]);
		else
			qwen_text_fmt(t, "  above 3    %9zu ", count[i]);
		for (k = 0; k < (count[i] * BAR + most - 1) / most; k++)
			qwen_text_str(t, "#");
		qwen_text_str(t, "\n");
	}
}

void
qscore_write_stats(struct qscore_stats *j, int json, struct qwen_text *t)
{
	struct pair p = perplexities(j);

	qsort(j->kl, j->n, sizeof *j->kl, tool_by_value);
	qsort(j->diff, j->n, sizeof *j->diff, tool_by_value);
	qwen_text_fmt(t, json ? "{\"%s\":%zu" : "%-28s %14zu\n", json ?
	    "tokens_scored" : "tokens scored", j->n);
	add_figure(t, json, "perplexity", "perplexity", 1, p.own);
	add_figure(t, json, "perplexity of the base", "base_perplexity", 1,
	    p.base);
	add_figure(t, json, "ratio", "perplexity_ratio", 1, p.ratio);
	add_figure(t, json, "logarithm of the ratio", "log_perplexity_ratio",
	    1, p.log);
	add_figure(t, json, "correlation of logarithms", "correlation", 100,
	    (struct figure){ p.correlation, NAN });
	add_figure(t, json, "same best token", "same_top", 100, same_best(j));
	if (json)
		qwen_text_fmt(t, ",\"kl\":{\"n\":%zu", j->n);
	add_figure(t, json, "KL divergence, mean", "mean", 1,
	    mean_of(j->kl, j->n, 0));
	add_quantiles(t, json, j->kl, j->n, 1);
	if (json)
		qwen_text_fmt(t, ",\"p_difference\":{\"n\":%zu", j->n);
	add_figure(t, json, "p less the base's, mean", "mean", 100,
	    mean_of(j->diff, j->n, 0));
	add_figure(t, json, "  root mean square", "rms", 100,
	    root_mean_square(j->diff, j->n));
	add_quantiles(t, json, j->diff, j->n, 100);
	if (json)
		qwen_text_str(t, "}\n");
	else
		add_plot(t, j->kl, j->n);
}
