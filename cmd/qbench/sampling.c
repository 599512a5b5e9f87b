/* SPDX-License-Identifier: ISC */
/* sampling.c - --sampling: what a choice from a row of logits costs. */
#include <stdio.h>
#include <stdlib.h>

#include "qbench.h"

enum { SAMPLING_ROWS = 4, SAMPLING_VOCAB = 248320 };

/* What people ask for, as qwen_sampler_read takes it. */
static const char *const chains[] = {
	"", "repeat-penalty=1.1", "temp=0.7 top-k=20 top-p=0.8",
	"temp=0.7 top-k=40 repeat-penalty=1.1", "temp=0.7",
	"temp=0.7 top-p=0.9", "temp=0.7 min-p=0.05", "temp=0.7 typical=0.9",
	"temp=0.7 top-n-sigma=1", "temp=1 xtc-probability=0.5",
	"dyntemp-max=1", "mirostat=5",
	"temp=2 top-p=0.9 chain=temp,top-p",
	"temp=1 typical=0.9 top-p=0.9 min-p=0.01",
};

/*
 * Rows like those of a model: a bell of small logits, and in a sure one a few
 * high ones.
 */
static float *
make_rows(size_t n, int sure)
{
	float *row = cli_got(calloc(n, SAMPLING_ROWS * sizeof *row));
	uint64_t rng = 1;
	size_t i, k;

	for (i = 0; i < n * SAMPLING_ROWS; i++) {
		double x = -6;

		for (k = 0; k < 12; k++)
			x += (double)(qbench_draw(&rng) >> 11) * 0x1p-53;
		row[i] = (float)(x * (sure ? 2.5 : 0.3));
	}
	for (i = 0; sure && i < SAMPLING_ROWS * 40; i++)
		row[i % SAMPLING_ROWS * n + qbench_draw(&rng) % n] =
		    (float)(12 + (double)(qbench_draw(&rng) >> 11) * 0x1p-50);
	return row;
}

/* Milliseconds of choices and what belongs to them. */
static struct spread
time_chain(const char *chain, const float *row, size_t n)
{
	static double ms[MAX_ROUNDS];
	struct qwen_sampler *s;
	struct qwen_err err;
	uint64_t start;
	size_t i;
	int32_t id;

	if (qwen_sampler_new(&s, &err) < 0 ||
	    qwen_sampler_cpu(s, tool_cpu(), &err) < 0 ||
	    qwen_sampler_read(s, chain, &err) < 0 ||
	    qwen_sampler_begin(s, n, &err) < 0)
		cli_die_err(NULL, &err);
	for (i = 0; i <= qbench_opt.rounds; i++) {
		start = qbench_now_ns();
		if (qwen_sampler_sample(s, row + i % SAMPLING_ROWS * n, NULL,
		    n, i, &id, &err) < 0 ||
		    qwen_sampler_accept(s, &id, 1, 1, &err) < 0)
			cli_die_err(NULL, &err);
		/* the first one takes up the memory */
		if (i > 0)
			ms[i - 1] = (double)(qbench_now_ns() - start) * 1e-6;
	}
	qwen_sampler_free(s);
	return qbench_spread_of(ms, qbench_opt.rounds);
}

static void
show_chain(const char *kind, const char *chain, const struct spread *s)
{
	const char *name = chain[0] != '\0' ? chain : "greedy";

	if (qbench_opt.json) {
		printf("{\"rows\": \"%s\", \"chain\": \"%s\", ", kind, name);
		qbench_json_spread("ms", s);
		printf("}\n");
	} else if (qbench_opt.csv) {
		printf("%s,", kind);
		qbench_csv_str(name);
		printf(",%.4g,%.4g,%.4g\n", s->median, s->min, s->max);
	} else {
		printf("%-5s %-38s %8.3f %8.3f %8.3f  ms\n", kind, name,
		    s->median, s->min, s->max);
	}
	fflush(stdout);
}

/* Where a schema has a say: the tokens of a text by it, from one row. */
static void
show_constrained(const struct constrained *c, const float *row)
{
	static const char *const with[] = {
		"", "temp=0.7 top-k=20 top-p=0.8", "temp=0.7 top-p=0.9"
	};
	size_t i;

	for (i = 0; i < sizeof with / sizeof with[0]; i++) {
		struct spread s = qbench_constrained_time(c, with[i], row);

		show_chain("json", with[i], &s);
	}
}

void
qbench_show_sampling(void)
{
	struct constrained c = { .n_vocab = qbench_opt.synth.n_vocab != 0 ?
	    qbench_opt.synth.n_vocab : SAMPLING_VOCAB };
	int sure;
	size_t i;

	if (qbench_opt.model != NULL)
		qbench_constrained_open(&c, qbench_opt.model);
	if (qbench_opt.csv)
		printf("rows,chain,median_ms,min_ms,max_ms\n");
	else if (!qbench_opt.json)
		printf("%-5s %-38s %8s %8s %8s\n", "rows", "chain", "median",
		    "min", "max");
	for (sure = 1; sure >= 0; sure--) {
		float *row = make_rows(c.n_vocab, sure);

		for (i = 0; i < sizeof chains / sizeof chains[0]; i++) {
			struct spread s = time_chain(chains[i], row,
			    c.n_vocab);

			show_chain(sure ? "sure" : "flat", chains[i], &s);
		}
		if (!sure && c.gguf != NULL)
			show_constrained(&c, row);
		free(row);
	}
	qbench_constrained_close(&c);
}
