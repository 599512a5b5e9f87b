/* SPDX-License-Identifier: ISC */
/* run.c - measure prefill and decode with all settings, in rounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qbench.h"

/* Sequences that are decoded together, each with its own tokens. */
struct sequences {
	struct qwen_cache	*cache;		/* NULL: they are forks of others,
						   in the cache of these */
	struct qwen_session	**s;
	struct qwen_part	*part;
	size_t			 n;
};

/* Return the tokens of sequence i. */
static const int32_t *
ids_of(const struct qbench_phase *p, size_t i)
{
	return qbench_ids + i * (p->depth + p->n);
}

static void
sequences_alloc(struct sequences *t, size_t n)
{
	t->n = n;
	t->cache = NULL;
	t->s = cli_check_alloc(calloc(n, sizeof *t->s));
	t->part = cli_check_alloc(calloc(n, sizeof *t->part));
}

/* Create the sequences and read depth tokens in each. */
static void
sequences_init(struct sequences *t, const struct qbench_phase *p,
    struct qwen_model *m)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_NONE };
	size_t i;

	sequences_alloc(t, p->sequences);
	cli_must(qbench_model_name, qwen_cache_new(&t->cache, m, 0, &cli_err));
	for (i = 0; i < t->n; i++) {
		cli_must(qbench_model_name, qwen_session_new_in(&t->s[i],
		    t->cache, &cli_err));
		if (p->depth > 0)
			tool_eval(t->s[i], ids_of(p, i), p->depth, &how);
	}
}

/*
 * Create the sequences of a round.  With a depth they are forks of past, since
 * reading that many tokens takes longer than most rounds.
 */
static void
sequences_begin(struct sequences *t, const struct qbench_phase *p,
    struct qwen_model *m, const struct sequences *past)
{
	size_t i;

	if (p->depth == 0) {
		sequences_init(t, p, m);
		return;
	}
	sequences_alloc(t, past->n);
	for (i = 0; i < t->n; i++)
		cli_must(qbench_model_name, qwen_session_fork(&t->s[i],
		    past->s[i], &cli_err));
}

static void
sequences_fini(struct sequences *t)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		qwen_session_free(t->s[i]);
	qwen_cache_free(t->cache);
	free(t->s);
	free(t->part);
}

/* Evaluate one token in each sequence. */
static void
eval_sequences(const struct qbench_phase *p, struct sequences *t, size_t at)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		t->part[i] = (struct qwen_part){ .s = t->s[i],
		    .tokens = ids_of(p, i) + at, .n = 1 };
	cli_must(qbench_model_name, qwen_eval_parts(t->part, t->n, &cli_err));
	for (i = 0; i < t->n; i++) {
		if (t->part[i].failed)
			cli_die_err(qbench_model_name, &t->part[i].err);
	}
}

/* Evaluate the n tokens after the depth: all in one call, or one by one. */
static void
run_tokens(const struct qbench_phase *p, struct sequences *t, size_t n)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST,
	    .batch = p->batch };
	size_t i;

	if (!p->one_by_one)
		tool_eval(t->s[0], qbench_ids + p->depth, n, &how);
	for (i = 0; p->one_by_one && i < n; i++)
		eval_sequences(p, t, p->depth + i);
}

void
qbench_round_of(struct qbench_round *r, const struct qbench_counts *a,
    const struct qbench_counts *b, size_t n)
{
	r->tok_s = (double)n / ((double)(b->ns - a->ns) * 1e-9);
	r->minor = b->minor - a->minor;
	r->major = b->major - a->major;
	r->steal = b->ticks > a->ticks ? 100.0 *
	    (double)(b->steal - a->steal) / (double)(b->ticks - a->ticks) : 0;
	r->marked = r->major > 0 || r->steal > 2;
}

/*
 * On a shared machine, speed changes from second to second.  So the machine is
 * measured after every round.
 */
static void
timed_round(struct qbench_phase *p, struct qwen_model *m,
    const struct sequences *past, struct qbench_round *r)
{
	struct qwen_machine machine;
	struct qbench_counts a, b;
	struct sequences t;

	sequences_begin(&t, p, m, past);
	qbench_read_counts(&a);
	run_tokens(p, &t, p->n);
	qbench_read_counts(&b);
	qbench_update_memory(&p->mem);
	sequences_fini(&t);
	qbench_round_of(r, &a, &b, p->n * p->sequences);
	if (qbench_opt.csv)
		return;
	qbench_measure_machine(&machine, p->n_threads, 0.05);
	r->read = machine.read;
	r->int8 = machine.int8;
}

/* Order by time, longest first; equal times by name. */
static int
by_time(const void *a, const void *b)
{
	const struct qwen_kernel_stat *x = a, *y = b;

	return x->ms != y->ms ? (x->ms < y->ms) - (x->ms > y->ms) :
	    strcmp(x->name, y->name);
}

static struct qwen_kernel_stat *
stats_of(const struct qwen_model *m, size_t (*get)(const struct qwen_model *m,
    struct qwen_kernel_stat *out, size_t max), size_t *n)
{
	struct qwen_kernel_stat *s = cli_check_alloc(calloc(QBENCH_MAX_STATS,
	    sizeof *s));

	*n = get(m, s, QBENCH_MAX_STATS);
	*n = *n < QBENCH_MAX_STATS ? *n : QBENCH_MAX_STATS;
	qsort(s, *n, sizeof *s, by_time);
	return s;
}

static void
count_kernels(struct qbench_phase *p, struct qwen_model *m, struct sequences *t)
{
	cli_must(NULL, qwen_model_profile(m, 1, &cli_err));
	run_tokens(p, t, p->n);
	p->stat = stats_of(m, qwen_model_stats, &p->n_stat);
	p->purpose = stats_of(m, qwen_model_stats_by_purpose, &p->n_purpose);
	qwen_model_profile(m, 0, NULL);
}

/* A round without timing: it warms up and counts the work of each kernel. */
static void
counted_round(struct qbench_phase *p, struct qwen_model *m,
    const struct sequences *past)
{
	struct sequences t;

	sequences_begin(&t, p, m, past);
	if (qbench_opt.csv)
		run_tokens(p, &t, p->n < QBENCH_WARM_TOKENS ? p->n :
		    QBENCH_WARM_TOKENS);
	else
		count_kernels(p, m, &t);
	sequences_fini(&t);
}

static void
summarise(struct qbench_phase *p)
{
	double v[6][QBENCH_MAX_ROUNDS], bytes, macs;
	size_t i;

	qbench_work_of(p, &bytes, &macs);
	for (i = 0; i < qbench_opt.rounds; i++) {
		v[0][i] = p->round[i].tok_s;
		v[1][i] = (double)p->round[i].minor;
		v[2][i] = (double)p->round[i].major;
		v[3][i] = p->round[i].steal;
		v[4][i] = 100 * bytes * v[0][i] / p->round[i].read;
		v[5][i] = 100 * macs * v[0][i] / p->round[i].int8;
		p->n_marked += p->round[i].marked;
		if (p->round[i].major > 0)
			cli_note("%s of %zu, round %zu: %ld pages came from "
			    "the disk; the round is marked", p->name, p->n,
			    i + 1, p->round[i].major);
	}
	p->tok_s = qbench_spread_of(v[0], qbench_opt.rounds);
	p->minor = qbench_spread_of(v[1], qbench_opt.rounds);
	p->major = qbench_spread_of(v[2], qbench_opt.rounds);
	p->steal = qbench_spread_of(v[3], qbench_opt.rounds);
	if (qbench_opt.csv)
		return;
	p->of_read = qbench_spread_of(v[4], qbench_opt.rounds);
	p->of_int8 = qbench_spread_of(v[5], qbench_opt.rounds);
}

static void
measure(struct qbench_phase *p, struct qwen_model *m)
{
	struct sequences past;
	size_t i;

	p->mem.peak = p->mem.mapped = p->mem.private = -1;
	if (p->n == 0) {
		p->n_marked = NAN;
		p->tok_s = p->minor = p->major = (struct qbench_spread){ NAN,
		    NAN, NAN };
		return;
	}
	p->round = cli_check_alloc(calloc(qbench_opt.rounds, sizeof *p->round));
	qbench_reset_peak();
	if (p->depth > 0)
		sequences_init(&past, p, m);
	counted_round(p, m, &past);
	for (i = 0; i < qbench_opt.rounds; i++)
		timed_round(p, m, &past, &p->round[i]);
	if (p->depth > 0)
		sequences_fini(&past);
	summarise(p);
}

static void
phase_fini(struct qbench_phase *p)
{
	free(p->round);
	free(p->stat);
	free(p->purpose);
}

/* ------------------------------------------------------------ all settings */

/*
 * Measure decoding once per depth and number of sequences, since it does not
 * depend on the prompt.  Return the number of phases.
 */
static size_t
measure_decodes(struct qbench_phase *decode, struct qwen_model *m,
    int n_threads)
{
	size_t i, k, n = 0;

	for (i = 0; i < qbench_opt.depth.n; i++)
		for (k = 0; k < qbench_opt.sequences.n; k++, n++) {
			decode[n] = (struct qbench_phase){ .name = "decode",
			    .n = qbench_opt.n, .depth = qbench_opt.depth.v[i],
			    .sequences = qbench_opt.sequences.v[k],
			    .one_by_one = 1, .n_threads = n_threads };
			measure(&decode[n], m);
		}
	return n;
}

static void
measure_prefills(struct qbench_result *r, const struct qbench_phase *decode,
    size_t n_decode, struct qwen_model *m)
{
	size_t i, k, b;

	for (b = 0; b < qbench_opt.batch.n; b++)
		for (i = 0; i < qbench_opt.prompt.n; i++) {
			struct qbench_phase p = { .name = "prefill",
			    .n = qbench_opt.prompt.v[i],
			    .batch = qbench_opt.batch.v[b], .sequences = 1,
			    .n_threads = r->machine.n_threads };

			measure(&p, m);
			r->batch = p.batch;
			r->phase[0] = &p;
			for (k = 0; k < n_decode; k++) {
				r->phase[1] = &decode[k];
				qbench_show(r);
			}
			phase_fini(&p);
		}
}

void
qbench_run(int n_threads)
{
	struct qbench_phase *decode;
	struct qbench_result r;
	struct qwen_model *m;
	size_t i, n;

	/* before there are threads, since these fork processes */
	qbench_measure_start(&r.start, n_threads);
	qbench_measure_machine(&r.machine, n_threads, 0);
	m = tool_model_open(qbench_model_path, n_threads, qbench_opt.numerics);
	qbench_prepare_tokens(m);
	qbench_read_pages(qwen_model_gguf(m));
	decode =
	    cli_check_alloc(calloc(qbench_opt.depth.n * qbench_opt.sequences.n,
	    sizeof *decode));
	r.m = m;
	n = measure_decodes(decode, m, n_threads);
	measure_prefills(&r, decode, n, m);
	for (i = 0; i < n; i++)
		phase_fini(&decode[i]);
	free(decode);
	qwen_model_close(m);
}
