/* SPDX-License-Identifier: ISC */
/* run.c - all settings, one after the other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qbench.h"

static void
show(const struct result *r)
{
	static int shown;

	if (qbench_opt.csv)
		qbench_csv_result(r);
	else if (qbench_opt.json)
		qbench_json_result(r);
	else {
		printf("%s", shown++ ? "\n" : "");
		qbench_text_result(r);
	}
	if (fflush(stdout) == EOF)
		die("stdout: %s", strerror(errno));
}

/*
 * Decoding does not depend on the prompt: once for each depth and number of
 * timelines.
 */
static size_t
measure_decodes(struct phase *decode, struct qwen_model *m, int n_threads)
{
	size_t i, k, n = 0;

	for (i = 0; i < qbench_opt.depth.n; i++)
		for (k = 0; k < qbench_opt.sequences.n; k++, n++) {
			decode[n] = (struct phase){ .name = "decode",
			    .n = qbench_opt.n, .depth = qbench_opt.depth.v[i],
			    .sequences = qbench_opt.sequences.v[k],
			    .one_by_one = 1, .n_threads = n_threads };
			qbench_measure(&decode[n], m);
		}
	return n;
}

static void
measure_prefills(struct result *r, const struct phase *decode,
    size_t n_decode, struct qwen_model *m)
{
	size_t i, k, b;

	for (b = 0; b < qbench_opt.batch.n; b++)
		for (i = 0; i < qbench_opt.prompt.n; i++) {
			struct phase p = { .name = "prefill",
			    .n = qbench_opt.prompt.v[i],
			    .batch = qbench_opt.batch.v[b], .sequences = 1,
			    .n_threads = r->machine.n_threads };

			qbench_measure(&p, m);
			r->batch = p.batch;
			r->phase[0] = &p;
			for (k = 0; k < n_decode; k++) {
				r->phase[1] = &decode[k];
				show(r);
			}
			qbench_phase_fini(&p);
		}
}

/* Tokens for the longest of all that is measured. */
static void
prepare_tokens(const struct qwen_model *m)
{
	size_t one = qbench_longest(&qbench_opt.depth) + qbench_opt.n;
	size_t p = qbench_longest(&qbench_opt.prompt);
	size_t need = one > p ? one : p;

	if (need > qwen_model_n_ctx(m))
		die("%s: %zu tokens, and the context is %zu",
		    qbench_model_name, need, qwen_model_n_ctx(m));
	one *= qbench_longest(&qbench_opt.sequences);
	qbench_make_tokens(one > p ? one : p, qwen_model_n_vocab(m));
}

void
qbench_run(int n_threads)
{
	struct phase *decode;
	struct result r;
	struct qwen_model *m;
	size_t i, n;

	/* these start processes, so they come before the threads */
	qbench_measure_start(&r.start, n_threads);
	qbench_measure_machine(&r.machine, n_threads, 0);
	m = tool_model_open(qbench_model_path, n_threads, qbench_opt.numerics);
	prepare_tokens(m);
	qbench_touch(qwen_model_gguf(m));
	decode = cli_got(calloc(qbench_opt.depth.n * qbench_opt.sequences.n,
	    sizeof *decode));
	r.m = m;
	n = measure_decodes(decode, m, n_threads);
	measure_prefills(&r, decode, n, m);
	for (i = 0; i < n; i++)
		qbench_phase_fini(&decode[i]);
	free(decode);
	qwen_model_close(m);
}
