/* SPDX-License-Identifier: ISC */
/*
 * qbatch.h - lines of requests and results: how they are read, answered, written,
 * numbered, and put together from several files.
 */
#ifndef QBATCH_H
#define QBATCH_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "tool/service.h"

/* -------------------------------------------------------- what was seen */

/* Numbers and fingerprints. */
struct qbatch_entry {
	uint64_t	key, value;
};

struct qbatch_seen {
	void		*root;		/* of tsearch() */
	size_t		 n;
};

/* The entry of key, made with value if there is none: *made. */
struct qbatch_entry *qbatch_seen_put(struct qbatch_seen *s, uint64_t key,
    uint64_t value, int *made);
struct qbatch_entry *qbatch_seen_find(const struct qbatch_seen *s,
    uint64_t key);
void qbatch_seen_fini(struct qbatch_seen *s);

/* Of an id as it is written in JSON, or of none. */
uint64_t qbatch_id_hash(const char *id);

/* --------------------------------------------------------------- results */

/* Where results go: stdout, or a file that grows line by line. */
struct qbatch_results {
	int		 fd;
	const char	*name;
	int		 regular;
	struct qbatch_seen done;	/* line numbers, with qbatch_id_hash */
	uint64_t	 n_errors;	/* among them */
};

/*
 * path NULL: stdout.  resume: what is there stays, and is in done; retry: but
 * for what has failed, which goes.
 */
void qbatch_results_open(struct qbatch_results *r, const char *path,
    int resume, int retry);
void qbatch_results_write(struct qbatch_results *r,
    const struct qwen_text *line);
void qbatch_results_close(struct qbatch_results *r);

/* A line of results. */
struct qbatch_result {
	uint64_t	 number;	/* of the line that it answers */
	uint64_t	 id;		/* qbatch_id_hash() of that */
	int		 failed;
};

/*
 * The next one and its line; 0 at the end, and at a last line that is not whole:
 * l->torn.  Dies of a line that is none.
 */
int qbatch_result_next(struct tool_lines *l, struct tool_line *line,
    struct qbatch_result *out);

/*
 * All lines of these files by number, to stdout or path (may be NULL).  Of two
 * for the same number one that failed gives way.
 */
void qbatch_merge(char *const *files, int n, const char *path);

/* ---------------------------------------------------------------- report */

struct qbatch_report {
	struct tool_times goals;	/* what is good enough */
	int		 wanted;	/* else times are not kept */
	double		 start, end;
	struct tool_sample time[TOOL_N_TIMES];
	size_t		 n;
	uint64_t	 n_failed, n_good;
	uint64_t	 prompt_tokens, generated;
};

struct qbatch_item;

void qbatch_report_add(struct qbatch_report *r,
    const struct qbatch_item *item);
/* To a file ("-": stderr), as text or as JSON. */
void qbatch_report_write(struct qbatch_report *r,
    const struct qwen_work_stats *st, const char *path, int json);
void qbatch_report_fini(struct qbatch_report *r);

/* ------------------------------------------------------------------- a run */

/* A line on its way. */
struct qbatch_item {
	struct qbatch_item	*prev, *next;
	struct qbatch_run	*run;		/* that it belongs to */
	struct qwen_request	*request;	/* until there is a result */
	struct qwen_sampler	*sampler;	/* of its first answer */
	size_t			 n_left;	/* answers that are not finished */
	size_t			 bytes;		/* that it takes, about */
	struct qwen_text	 result;	/* the line */
	double			 arrived, first, last;
};

/* Items, in the order of their lines. */
struct qbatch_flight {
	struct qbatch_item *head, *tail;
	size_t		 n, bytes;
};

struct qbatch_run {
	/* set by the caller */
	struct tool_service	 with;
	struct tool_work	 work;
	struct tool_lines	 in;
	struct qbatch_results	 out;
	struct qbatch_report	 report;
	const int32_t		*ending;
	size_t			 n_ending;
	int			 unordered;
	uint64_t		 shard, n_shards;	/* lines shard + 1,
						   shard + 1 + n_shards, ... */
	double			 arrivals;	/* items a second; 0: they
						   are all there */
	uint64_t		 seed;		/* of their times */
	int			 waits;		/* input comes as it is made */
	/* our own */
	struct qbatch_seen	 ids;		/* custom_id to line */
	struct qbatch_flight	 flight;
	double			 next;		/* when the next one arrives */
	int			 read;		/* all of the input is */
	uint64_t		 n_done, n_skipped, n_tokens;
};

/*
 * What Ctrl-C says: the command line, kept before it is read, as one that goes
 * on with what is there; resumes: it is one already.
 */
void qbatch_command_keep(int argc, char *argv[]);
void qbatch_interrupt_watch(const char *tool, int resumes);
void qbatch_command_free(void);

/* Answer every line of the input. */
void qbatch_answer_all(struct qbatch_run *r);
void qbatch_fini(struct qbatch_run *r);

#endif
