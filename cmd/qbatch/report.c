/* SPDX-License-Identifier: ISC */
/* report.c - latency and throughput of the items, as used for servers. */
#include <string.h>

#include "qbatch.h"

void
qbatch_report_add(struct qbatch_report *r, const struct qbatch_item *item)
{
	const struct qwen_request *q = item->request;
	enum qwen_cut_kind cut = qwen_request_cut(q);
	struct tool_times t;
	size_t i, most = 0;

	if (q->refusal.err.code != 0) {
		r->sum.failed++;
		return;
	}
	r->sum.n++;
	r->sum.cut += cut != QWEN_CUT_NONE;
	r->sum.broken += cut == QWEN_CUT_SCHEMA;
	r->prompt_tokens += q->n_prompt_tokens;
	for (i = 0; i < q->n_answers; i++) {
		r->generated += q->answer[i].n;
		if (q->answer[i].n > most)
			most = q->answer[i].n;
	}
	if (!r->wanted)
		return;
	t.ms[TOOL_TTFT] = (item->first - item->arrived) * 1e3;
	t.ms[TOOL_E2E] = (item->last - item->arrived) * 1e3;
	t.ms[TOOL_TPOT] = most < 2 ? -1 :
	    (item->last - item->first) * 1e3 / (double)(most - 1);
	for (i = 0; i < TOOL_N_TIMES; i++)
		tool_timings_add(&r->time[i], t.ms[i]);
	r->n++;
	r->n_good += (uint64_t)tool_goals_met(&r->goals, &t);
}

static const char *const time_names[] = { "ttft_ms", "tpot_ms", "e2e_ms" };

/* Add the name and value of everything that is a single number. */
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
		{ "failed", (double)r->sum.failed },
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

void
qbatch_report_write(struct qbatch_report *r,
    const struct qwen_work_stats *st, const char *path, int json)
{
	struct qwen_text t = { 0 };
	struct cli_output *o;
	int i;

	qwen_text_str(&t, json ? "{" : "");
	totals(&t, r, st, json ? "\"%s\":%.10g," : "%-26s %.10g\n");
	if (!json)
		tool_timings_head(&t);
	for (i = 0; i < TOOL_N_TIMES; i++) {
		(json ? tool_timings_json : tool_timings_text)(&t,
		    time_names[i], &r->time[i]);
		qwen_text_str(&t, !json ? "" : i < TOOL_E2E ? "," : "}\n");
	}
	if (t.failed)
		die("out of memory");
	if (strcmp(path, "-") == 0) {
		fputs(t.s, stderr);
	} else {
		o = cli_output_open(path);
		cli_write_all(cli_output_fd(o), path, &t);
		cli_output_commit(o);
		cli_protect_input(path, "the other report");
	}
	qwen_text_fini(&t);
}

/* Add a duration: "1:02:03", "2:04" or "1.3 s". */
static void
add_time(struct qwen_text *t, double s)
{
	unsigned long long n = (unsigned long long)(s + 0.5);

	if (s < 60)
		qwen_text_fmt(t, "%.1f s", s);
	else if (n < 3600)
		qwen_text_fmt(t, "%llu:%02llu", n / 60, n % 60);
	else
		qwen_text_fmt(t, "%llu:%02llu:%02llu", n / 3600, n / 60 % 60,
		    n % 60);
}

void
qbatch_report_print(const struct qbatch_report *r,
    const struct qbatch_tally *before)
{
	double s = r->end > r->start ? r->end - r->start : 1e-9;
	struct qwen_text t = { 0 };

	qwen_text_fmt(&t, "%llu done, %llu failed, %llu cut at the limit; %llu "
	    "prompt and %llu answer tokens in ", cli_llu(r->sum.n),
	    cli_llu(r->sum.failed), cli_llu(r->sum.cut),
	    cli_llu(r->prompt_tokens), cli_llu(r->generated));
	add_time(&t, s);
	qwen_text_fmt(&t, ", %.1f tok/s", (double)r->generated / s);
	if (before->n > 0)
		qwen_text_fmt(&t, "; %llu were done before",
		    cli_llu(before->n));
	if (!t.failed)
		cli_note("%s", t.s);
	qwen_text_fini(&t);
}
