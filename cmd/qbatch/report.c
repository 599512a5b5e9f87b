/* SPDX-License-Identifier: ISC */
/* report.c - how the items fared, as those who serve models count it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qbatch.h"

void
qbatch_goals_parse(struct qbatch_goals *g, const char *s)
{
	static const char *const names[] = { "ttft", "tpot", "e2e" };
	double *const values[] = { &g->ttft, &g->tpot, &g->e2e };
	char word[64];
	size_t i, n;

	for (;; s += n + 1) {
		n = strcspn(s, ",");
		for (i = 0; i < 3; i++) {
			if (strncmp(s, names[i], strlen(names[i])) == 0 &&
			    s[strlen(names[i])] == ':')
				break;
		}
		if (i == 3 || n >= sizeof word)
			cli_usage("--goodput: '%s' is not like ttft:500,"
			    "tpot:50,e2e:5000, in milliseconds", s);
		snprintf(word, sizeof word, "%.*s", (int)n, s);
		*values[i] = cli_double("--goodput", word + strlen(names[i]) +
		    1, 0, 1e12);
		if (s[n] == '\0')
			return;
	}
}

static int
is_good(const struct qbatch_goals *g, const struct qbatch_times *t)
{
	return (g->ttft <= 0 || t->ttft <= g->ttft) &&
	    (g->tpot <= 0 || t->tpot <= g->tpot) &&
	    (g->e2e <= 0 || t->e2e <= g->e2e);
}

void
qbatch_report_add(struct qbatch_report *r, const struct qbatch_item *item)
{
	const struct qwen_request *q = item->request;
	struct qbatch_times *t;
	size_t i, most = 0;

	if (q->no.err.code != 0) {
		r->n_failed++;
		return;
	}
	r->prompt_tokens += q->n_prompt_tokens;
	for (i = 0; i < q->n_answers; i++) {
		r->generated += q->answer[i].n;
		if (q->answer[i].n > most)
			most = q->answer[i].n;
	}
	if (!r->wanted)
		return;
	cli_grow(&r->item, &r->cap, r->n + 1, sizeof *r->item);
	t = &r->item[r->n++];
	t->ttft = (item->first - item->arrived) * 1e3;
	t->e2e = (item->last - item->arrived) * 1e3;
	t->tpot = most < 2 ? -1 :
	    (item->last - item->first) * 1e3 / (double)(most - 1);
	r->n_good += (uint64_t)is_good(&r->goals, t);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

enum { MEAN, P50, P90, P95, P99, MAX, N_STATS };

static const char *const stat_names[] = {
	"mean", "p50", "p90", "p95", "p99", "max",
};

/* The least value that so many of a hundred do not exceed. */
static double
percentile(const double *v, size_t n, size_t percent)
{
	size_t rank = (n * percent + 99) / 100;

	return v[rank > 0 ? rank - 1 : 0];
}

/* Of member number which; 0 if nothing has it. */
static size_t
summarise(const struct qbatch_report *r, int which, double *out)
{
	double *v = cli_got(calloc(r->n + 1, sizeof *v)), sum = 0;
	size_t i, n = 0;

	for (i = 0; i < r->n; i++) {
		const struct qbatch_times *t = &r->item[i];

		v[n] = which == 0 ? t->ttft : which == 1 ? t->tpot : t->e2e;
		if (v[n] >= 0)
			sum += v[n++];
	}
	memset(out, 0, N_STATS * sizeof *out);
	if (n > 0) {
		qsort(v, n, sizeof *v, compare);
		out[MEAN] = sum / (double)n;
		out[P50] = percentile(v, n, 50);
		out[P90] = percentile(v, n, 90);
		out[P95] = percentile(v, n, 95);
		out[P99] = percentile(v, n, 99);
		out[MAX] = v[n - 1];
	}
	free(v);
	return n;
}

static const char *const time_names[] = { "ttft_ms", "tpot_ms", "e2e_ms" };

/* name, value pairs of all that is one number. */
static void
totals(struct qwen_text *t, const struct qbatch_report *r,
    const struct qwen_work_stats *st, const char *fmt)
{
	double s = r->end - r->start;
	const struct {
		const char	*name;
		double		 v;
	} list[] = {
		{ "items", (double)r->n },
		{ "failed", (double)r->n_failed },
		{ "seconds", s },
		{ "prompt_tokens", (double)r->prompt_tokens },
		{ "generated_tokens", (double)r->generated },
		{ "items_per_s", (double)r->n / s },
		{ "goodput_items_per_s", (double)r->n_good / s },
		{ "generated_tokens_per_s", (double)r->generated / s },
		{ "tokens_per_s",
		  (double)(r->prompt_tokens + r->generated) / s },
		{ "passes", (double)st->n_passes },
		{ "seconds_in_passes", st->pass_s },
		{ "most_sequences", (double)st->max_sequences },
		{ "prompt_tokens_read", (double)st->read },
		{ "prompt_tokens_shared", (double)st->shared },
		{ "prompt_tokens_from_store", (double)st->stored },
		{ "preempted", (double)st->preempted },
		{ "tokens_read_again", (double)st->again },
		{ "most_bytes", (double)st->max_bytes },
		{ "kv_wasted", st->wasted },
	};
	size_t i;

	for (i = 0; i < sizeof list / sizeof list[0]; i++)
		qwen_text_fmt(t, fmt, list[i].name, list[i].v);
}

static void
as_text(struct qwen_text *t, const struct qbatch_report *r,
    const struct qwen_work_stats *st)
{
	double v[N_STATS];
	int i, k;

	totals(t, r, st, "%-26s %.10g\n");
	qwen_text_fmt(t, "%-8s", "");
	for (k = 0; k < N_STATS; k++)
		qwen_text_fmt(t, " %10s", stat_names[k]);
	qwen_text_str(t, "\n");
	for (i = 0; i < 3; i++) {
		qwen_text_fmt(t, "%-8s", time_names[i]);
		if (summarise(r, i, v) > 0) {
			for (k = 0; k < N_STATS; k++)
				qwen_text_fmt(t, " %10.2f", v[k]);
		}
		qwen_text_str(t, "\n");
	}
}

static void
as_json(struct qwen_text *t, const struct qbatch_report *r,
    const struct qwen_work_stats *st)
{
	double v[N_STATS];
	int i, k;

	qwen_text_str(t, "{");
	totals(t, r, st, "\"%s\":%.10g,");
	for (i = 0; i < 3; i++) {
		qwen_text_fmt(t, "\"%s\":{\"n\":%zu", time_names[i],
		    summarise(r, i, v));
		for (k = 0; k < N_STATS; k++)
			qwen_text_fmt(t, ",\"%s\":%.6g", stat_names[k], v[k]);
		qwen_text_str(t, i < 2 ? "}," : "}");
	}
	qwen_text_str(t, "}\n");
}

void
qbatch_report_write(const struct qbatch_report *r, const struct qwen_work_stats *st,
    const char *path, int json)
{
	struct qwen_text t = { 0 };
	struct cli_output *o;

	if (json)
		as_json(&t, r, st);
	else
		as_text(&t, r, st);
	if (t.failed)
		die("out of memory");
	if (strcmp(path, "-") == 0) {
		fputs(t.s, stderr);
	} else {
		o = cli_output_open(path);
		cli_write_all(cli_output_fd(o), path, &t);
		cli_output_commit(o);
	}
	qwen_text_fini(&t);
}
