/* SPDX-License-Identifier: ISC */
/* qbench.h - what the parts of qbench share. */
#ifndef QBENCH_H
#define QBENCH_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "qwentext.h"
#include "tool/tool.h"
#include "synth/synth.h"

enum {
	MAX_LIST = 64, MAX_ROUNDS = 1000, MAX_STATS = 256,
	MAX_TOKENS = 1 << 24, WARM_TOKENS = 16, MAX_SEQUENCES = 4096
};

/* Settings to go through. */
struct list {
	size_t	n, v[MAX_LIST];
};

size_t qbench_longest(const struct list *l);

/* Ways to guess ahead; none is no member. */
struct drafts {
	size_t		 n;
	struct one_draft {
		char			 word[64];	/* as in "mtp:2" */
		struct tool_draft	 how;
	} v[MAX_LIST];
	struct tool_draft block;	/* the model's: if and where from */
};

/* Of a guess, to be right; or other numbers. */
struct chances {
	size_t	n;
	double	v[MAX_LIST];
};

/* What the command line says. */
struct qbench_opts {
	const char	*model, *tokens, *synthetic;
	struct qwen_synth_opts synth;
	struct list	 prompt, count, threads, depth, batch, sequences;
	struct drafts	 draft;
	struct chances	 accept;
	size_t		 n;		/* the first of count */
	size_t		 rounds;
	unsigned	 numerics;	/* 0: the usual version */
	int		 json, csv, machine, sampling, scattered, guessing;
	int		 tune;
	int		 by_kernel;	/* the second table; 0: by purpose */
	uint64_t	 since;		/* ns */
};

extern struct qbench_opts qbench_opt;

/*
 * Values with commas: whole numbers from min to max, numbers from low to high.
 */
void qbench_parse_list(const struct cli_opt *o, const char *s);
void qbench_parse_reals(const struct cli_opt *o, const char *s);

#define QBENCH_LIST(l, n, a, p, lo, hi, h) { CLI_ROW(CALL, l, n, a, p, h), \
	.call = qbench_parse_list, .min = (lo), .max = (hi) }
#define QBENCH_REALS(n, a, p, lo, hi, h) { CLI_ROW(CALL, 0, n, a, p, h), \
	.call = qbench_parse_reals, .low = (lo), .high = (hi) }

/* ------------------------------------------------------- what it can do */

/* Die if there is not the memory for all that is asked for. */
void qbench_fits(void);

/* All settings, for this number of threads. */
void qbench_run(int n_threads);
void qbench_run_drafts(int n_threads);
void qbench_show_machine(void);
void qbench_show_sampling(void);
void qbench_show_tuning(void);

/* --since: tell how long ago that was, twice, in ns; the exit status. */
int qbench_run_since(void);

/* -------------------------------------------------------- load on a server */

/* The options of --url; whether it is given, or usage errors. */
const struct cli_opt *qbench_url_rows(void *to);
int qbench_url_check(void);

/* All settings of it; the exit status. */
int qbench_run_url(void);

/* ------------------------------------------------- what the system counts */

struct counts {
	uint64_t	ns;
	long		minor, major;	/* page faults */
	uint64_t	steal, ticks;	/* of all processors; 0: not known */
};

/* MiB; below 0: not known. */
struct memory {
	double	peak;		/* resident, at most */
	double	mapped;		/* of it, files: the model */
	double	private;	/* and the process's own */
};

uint64_t qbench_now_ns(void);
void qbench_count(struct counts *c);

/* Raises m to what is in use now, and was at most. */
void qbench_look_at_memory(struct memory *m);

/* Forget the peak so far, where Linux lets us. */
void qbench_reset_peak(void);
const char *qbench_cpu_name(void);

/* ----------------------------------------------------- model and tokens */

extern const char	*qbench_model_path;	/* to open */
extern const char	*qbench_model_name;	/* to show */

/*
 * A file without a name, which the processes that qbench starts inherit: it is
 * gone when the last of them is.
 */
void qbench_make_synthetic(void);

/* Touch every page, so that none is missing when it is needed. */
void qbench_touch(const struct qwen_gguf *g);

/* Open the model and touch each page; qbench_load_s: the seconds it took. */
extern double qbench_load_s;
void qbench_warm_file(void);

/* The first need ids: of the file, over and over, or made. */
void qbench_make_tokens(size_t need, size_t n_vocab);

/* Those for the longest of all that is measured. */
void qbench_prepare_tokens(const struct qwen_model *m);
extern int32_t *qbench_ids;

/* ---------------------------------------------------------- measurements */

struct spread {
	double	median, min, max;
};

/* Sorts v. */
struct spread qbench_spread_of(double *v, size_t n);

struct start {
	struct spread	kernel, token;	/* ms */
};

/* These start processes: before there are threads. */
void qbench_measure_start(struct start *s, int n_threads);
void qbench_measure_machine(struct qwen_machine *m, int n_threads,
    double seconds);

struct round {
	double	tok_s, steal;		/* steal: percent */
	double	read, int8;		/* of the machine, right after it */
	long	minor, major;
	int	marked;			/* not to be relied on */
};

/* Of n tokens, by the counts before and after; not read and int8. */
void qbench_round_of(struct round *r, const struct counts *a,
    const struct counts *b, size_t n);

/* Prefill or decode at one setting. */
struct phase {
	const char	*name;
	size_t		 n;		/* tokens timed, of each timeline */
	size_t		 depth;		/* tokens before them */
	size_t		 sequences;	/* timelines */
	size_t		 batch;
	int		 one_by_one;
	int		 n_threads;
	struct round	*round;		/* as many as the options say */
	struct spread	 tok_s, minor, major, steal;
	struct spread	 of_read, of_int8;	/* percent */
	size_t		 n_marked;
	struct memory	 mem;
	/* of one more round, sorted by time */
	struct qwen_kernel_stat *stat;	/* by kernel */
	size_t		 n_stat;
	struct qwen_kernel_stat *purpose;
	size_t		 n_purpose;
};

/* All that is known of one setting. */
struct result {
	const struct qwen_model	*m;
	struct qwen_machine	 machine;
	struct start		 start;
	size_t			 batch;
	const struct phase	*phase[2];	/* prefill, decode */
};

/* Bytes moved, or multiply-adds, for a token. */
void qbench_work_of(const struct phase *p, double *bytes, double *macs);

/* ----------------------------------------------------------- their forms */

void qbench_show(const struct result *r);
void qbench_csv_str(const char *s);

/* "name": {...}; "machine": {...} */
void qbench_json_spread(const char *name, const struct spread *s);
void qbench_json_machine(const struct qwen_machine *m);

#endif
