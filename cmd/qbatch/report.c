/* SPDX-License-Identifier: ISC */
/* report.c - how the items fared, as those who serve models count it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qbatch.h"

void
qbatch_goals_parse(struct qbatch_times *g, const char *s)
{
	static const char *const names[] = { "ttft", "tpot", "e2e" };
	char word[64];
	size_t i, n;

	for (;; s += n + 1) {
		n = strcspn(s, ",");
		for (i = 0; i < QBATCH_N_TIMES; i++) {
			if (strncmp(s, names[i], strlen(names[i])) == 0 &&
			    s[strlen(names[i])] == ':')
				break;
		}
		if (i == QBATCH_N_TIMES || n >= sizeof word)
			cli_usage("--goodput: '%s' is not like ttft:500,"
			    "tpot:50,e2e:5000, in milliseconds", s);
		snprintf(word, sizeof word, "%.*s", (int)n, s);
		g->ms[i] = cli_double("--goodput", word + strlen(names[i]) + 1,
		    0, 1e12);
		if (s[n] == '\0')
			return;
	}
}

static int
is_good(const struct qbatch_times *goals, const struct qbatch_times *t)
{
	int i;

	for (i = 0; i < QBATCH_N_TIMES; i++) {
		if (goals->ms[i] > 0 && t->ms[i] > goals->ms[i])
			return 0;
	}
	return 1;
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
	t->ms[QBATCH_TTFT] = (item->first - item->arrived) * 1e3;
	t->ms[QBATCH_E2E] = (item->last - item->arrived) * 1e3;
	t->ms[QBATCH_TPOT] = most < 2 ? -1 :
	    (item->last - item->first) * 1e3 / (double)(most - 1);
	r->n_good += (uint64_t)is_good(&r->goals, t);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static const struct stat {
	const char	*name;
	size_t		 percent;	/* that do not exceed it; 0: the mean */
} stats[] = {
	{ "mean", 0 }, { "p50", 50 }, { "p90", 90 }, { "p95", 95 },
	{ "p99", 99 }, { "max", 100 },
};

enum { N_STATS = sizeof stats / sizeof stats[0] };

/* Of these times; 0 if nothing has them. */
static size_t
summarise(const struct qbatch_report *r, int which, double *out)
{
	double *v = cli_got(calloc(r->n + 1, sizeof *v)), sum = 0;
	size_t i, n = 0;

	for (i = 0; i < r->n; i++) {
		v[n] = r->item[i].ms[which];
		if (v[n] >= 0)
			sum += v[n++];
	}
	qsort(v, n, sizeof *v, compare);
	for (i = 0; i < N_STATS; i++)
		out[i] = n == 0 ? 0 : stats[i].percent == 0 ?
		    sum / (double)n :
		    v[(n * stats[i].percent + 99) / 100 - 1];
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
		qwen_text_fmt(t, " %10s", stats[k].name);
	qwen_text_str(t, "\n");
	for (i = 0; i < QBATCH_N_TIMES; i++) {
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
	for (i = 0; i < QBATCH_N_TIMES; i++) {
		qwen_text_fmt(t, "\"%s\":{\"n\":%zu", time_names[i],
		    summarise(r, i, v));
		for (k = 0; k < N_STATS; k++)
			qwen_text_fmt(t, ",\"%s\":%.6g", stats[k].name, v[k]);
		qwen_text_str(t, i < QBATCH_E2E ? "}," : "}");
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
