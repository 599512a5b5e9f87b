/* SPDX-License-Identifier: ISC */
/* qbench.h - shared by the files of qbench. */
#ifndef QBENCH_H
#define QBENCH_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "qwentext.h"
#include "tool/tool.h"
#include "synth/synth.h"

enum {
	QBENCH_MAX_LIST = 64, QBENCH_MAX_ROUNDS = 1000, QBENCH_MAX_STATS = 256,
	QBENCH_MAX_TOKENS = 1 << 24, QBENCH_WARM_TOKENS = 16,
	QBENCH_MAX_SEQUENCES = 4096
};

/* The values of an option that takes a list. */
struct qbench_list {
	size_t	n, v[QBENCH_MAX_LIST];
};

size_t qbench_longest(const struct qbench_list *l);

/* The values of --draft without "none", which is always measured. */
struct qbench_drafts {
	size_t		 n;
	struct qbench_draft {
		char			 word[64];	/* such as "mtp:2" */
		struct tool_draft	 how;
	} v[QBENCH_MAX_LIST];
	struct tool_draft block;	/* whether the MTP block is needed, and
					   its file */
};

/* A list of real numbers: acceptance rates, or others. */
struct qbench_reals {
	size_t	n;
	double	v[QBENCH_MAX_LIST];
};

/* The options of the command line. */
struct qbench_opts {
	const char	*model, *tokens, *synthetic;
	struct qwen_synth_opts synth;
	struct qbench_list prompt, count, threads, depth, batch, sequences;
	struct qbench_drafts draft;
	struct qbench_reals accept;
	size_t		 n;		/* the first of count */
	size_t		 rounds;
	unsigned	 numerics;	/* 0: the default version */
	int		 json, csv, machine, sampling, has_drafts;
	int		 tune;
	int		 by_kernel;	/* second table by kernel; 0: by
					   purpose */
	uint64_t	 since;		/* start time of --since in ns */
};

extern struct qbench_opts qbench_opt;

/*
 * Parse and check the command line, into qbench_opt and qbench_url.  Returns 1
 * with --url, else 0; exits on usage errors.
 */
int qbench_options(int argc, char *argv[]);

/* ------------------------------------------------------------- commands */

/* Die if the memory does not suffice for all settings. */
void qbench_check_memory(void);

/* Measure all settings with this number of threads. */
void qbench_run(int n_threads);
void qbench_run_drafts(int n_threads);
void qbench_show_machine(void);
void qbench_show_cards(void);	/* of --device */
void qbench_show_sampling(void);
void qbench_show_tuning(void);

/* --since: print the time since then in ns, twice. */
void qbench_run_since(void);

/* -------------------------------------------------------- load on a server */

/* Measure all settings of --url; returns the exit status. */
int qbench_run_url(void);

/* ------------------------------------------------- results and their output */

struct qbench_spread {
	double	median, min, max;	/* below 0 or NAN: unknown */
};

/* Returns median, least and largest of n values; sorts v. */
struct qbench_spread qbench_spread_of(double *v, size_t n);

/* A value of a result, and where it is shown. */
struct qbench_cell {
	enum {
		QBENCH_WORD, QBENCH_FLAG, QBENCH_NUMBER, QBENCH_SPREAD
	}		 kind;
	const char	*name;		/* JSON field and column of CSV; a
					   spread has three, x_median, x_min
					   and x_max.  NULL: neither */
	const char	*head;		/* heading in the table; NULL: not in
					   the table */
	int		 width;		/* in the table; below 0: to the left */
	int		 digits;	/* after the point in the table */
	const char	*word;
	struct qbench_spread v;		/* a number or a flag is the median */
};

#define QBENCH_CELL(k, n, h, w) .kind = QBENCH_##k, .name = (n), .head = (h), \
	.width = (w)
#define QBENCH_TEXT(n, h, w, s) { QBENCH_CELL(WORD, n, h, w), .word = (s) }
#define QBENCH_YES(n, h, x) { QBENCH_CELL(FLAG, n, h, 0), .v.median = (x) }
#define QBENCH_REAL(n, h, w, d, x) { QBENCH_CELL(NUMBER, n, h, w), \
	.digits = (d), .v.median = (x) }
#define QBENCH_RANGE(n, h, w, d, x) { QBENCH_CELL(SPREAD, n, h, w), \
	.digits = (d), .v = (x) }
#define QBENCH_VALUE(n, x) QBENCH_REAL(n, NULL, 0, 0, x)
#define QBENCH_VALUES(n, x) QBENCH_RANGE(n, NULL, 0, 0, x)

/*
 * Append n cells to t: as a line of CSV, with the names before the first one of
 * all; or as a row of a table, with the headings if it is the first one.
 */
void qbench_row(struct qwen_text *t, const struct qbench_cell *c, size_t n,
    int first);

/*
 * Append fields to an object of JSON; unknown numbers are null.
 * qbench_json_model appends "model":{...}, qbench_json_machine
 * "machine":{...}.
 */
void qbench_json_cells(struct qwen_text *t, const struct qbench_cell *c,
    size_t n);
void qbench_json_number(struct qwen_text *t, const char *name, double v);
void qbench_json_spread(struct qwen_text *t, const char *name,
    struct qbench_spread s);
void qbench_json_model(struct qwen_text *t, const struct qwen_model *m);
void qbench_json_machine(struct qwen_text *t, const struct qwen_machine *m);

/* Append the lines of model and processor, without the last line feed. */
void qbench_text_model(struct qwen_text *t, const struct qwen_model *m);

/*
 * Begin a result: as text, append an empty line unless it is the first one.
 */
void qbench_begin(struct qwen_text *t);

/* Write a text to stdout and empty it.  Dies on errors. */
void qbench_write(struct qwen_text *t);

/* Write a row, or an object of JSON. */
void qbench_show_row(const struct qbench_cell *c, size_t n, int first);

/* ------------------------------------------------- counters of the system */

struct qbench_counts {
	uint64_t	ns;
	long		minor, major;	/* page faults */
	uint64_t	steal, ticks;	/* of all processors; 0: unknown */
};

/* Memory in MiB; below 0: unknown. */
struct qbench_memory {
	double	peak;		/* maximum of resident memory */
	double	mapped;		/* of it, files: the model */
	double	private;	/* of it, private to the process */
};

uint64_t qbench_now_ns(void);
void qbench_read_counts(struct qbench_counts *c);

/* Raise the members of m to the present values. */
void qbench_update_memory(struct qbench_memory *m);

/* Reset the peak, if the system allows it. */
void qbench_reset_peak(void);
const char *qbench_cpu_name(void);

/* ----------------------------------------------------- model and tokens */

extern const char	*qbench_model_path;	/* to open */
extern const char	*qbench_model_name;	/* to print */

/*
 * Make the synthetic model in a file without a name.  Processes started by
 * qbench inherit it; the system frees it with the last of them.
 */
void qbench_make_synthetic(void);

/* Read every page, so that measurements have no page faults. */
void qbench_read_pages(const struct qwen_gguf *g);

/* Open the model and read every page; qbench_load_s is the seconds taken. */
extern double qbench_load_s;
void qbench_warm_file(void);

/* Make the ids for the longest measurement. */
void qbench_prepare_tokens(const struct qwen_model *m);
extern int32_t *qbench_ids;

/* ---------------------------------------------------------- measurements */

struct qbench_start {
	struct qbench_spread	kernel, token;	/* ms */
};

/* These fork processes: call them before there are threads. */
void qbench_measure_start(struct qbench_start *s, int n_threads);
void qbench_measure_machine(struct qwen_machine *m, int n_threads,
    double seconds);

struct qbench_round {
	double	tok_s, steal;		/* steal in percent */
	double	read, int8;		/* speed of the machine right after the
					   round */
	long	minor, major;
	int	marked;			/* unreliable: page faults from disk, or
					   steal */
};

/*
 * Fill in r for n tokens, except read and int8, by the counts before and after.
 */
void qbench_round_of(struct qbench_round *r, const struct qbench_counts *a,
    const struct qbench_counts *b, size_t n);

/* Prefill or decode with one setting, and its results. */
struct qbench_phase {
	const char	*name;
	size_t		 n;		/* tokens timed, per sequence */
	size_t		 depth;		/* tokens before them */
	size_t		 sequences;	/* number of sequences */
	size_t		 batch;
	int		 one_by_one;
	int		 n_threads;
	struct qbench_round *round;	/* one per timed round */
	struct qbench_spread tok_s, minor, major, steal;
	struct qbench_spread of_read, of_int8;	/* percent of the machine's
						   speed */
	double		 n_marked;	/* NAN: not measured, like the
						   spreads */
	struct qbench_memory mem;
	/* of one more round, longest time first */
	struct qwen_kernel_stat *stat;	/* by kernel */
	size_t		 n_stat;
	struct qwen_kernel_stat *purpose;
	size_t		 n_purpose;
};

/* All results of one setting. */
struct qbench_result {
	const struct qwen_model	*m;
	struct qwen_machine	 machine;
	struct qbench_start	 start;
	size_t			 batch;
	const struct qbench_phase *phase[2];	/* prefill and decode */
};

/* Set the bytes moved and the multiply-adds per token. */
void qbench_work_of(const struct qbench_phase *p, double *bytes, double *macs);

void qbench_show(const struct qbench_result *r);

#endif
