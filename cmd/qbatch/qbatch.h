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

/* Returns the hash of a text; 0 for NULL. */
uint64_t qbatch_hash_text(const char *s);

/* Returns the hash of a request without its white space; 0: the line is too long. */
uint64_t qbatch_hash_line(const struct tool_line *line);

/* A hash as hexadecimal digits, into out; returns out. */
enum { QBATCH_HASH = 17 };
char *qbatch_hex(uint64_t hash, char out[QBATCH_HASH]);

/* ------------------------------------------------- the run that made a result */

/*
 * The model and options of a run, which each of its results records ("run").  They
 * are in each line, not in a first line or in a file beside: so each line of a file
 * is a result, for jq and for readers of OpenAI's form, and lines that were
 * concatenated, sorted or cut out with head(1) still name their run.
 */
struct qbatch_maker {
	char		*model, *hash;	/* name and hash of the model; owned */
	char		*options;	/* that change answers, without -n; owned */
	uint64_t	 max;		/* -n; UINT64_MAX: the context; 0: requests
					   had their own */
	const char	*file;		/* of its first result, with line; borrowed */
	uint64_t	 line;
	int		 cut;		/* one of its answers ended at its limit */
};

void qbatch_maker_set(struct qbatch_maker *m, const char *model,
    const char *hash, const char *options);
void qbatch_maker_fini(struct qbatch_maker *m);

/* Whether what m has cut, x would cut, too: no token would be added. */
int qbatch_maker_cuts(const struct qbatch_maker *m,
    const struct qbatch_maker *x);

/* The run of this process. */
struct qbatch_self {
	const char		*model;		/* borrowed */
	char			 hash[QBATCH_HASH];
	char			*options;	/* of requests with their own limit */
	char			*limited;	/* the same with -n, of others */
	struct qbatch_maker	 maker;
};

/* Fill in self from an open service and the header of its model; dies. */
void qbatch_self_open(struct qbatch_self *self, const struct tool_service *w,
    const struct qwen_header *h);
void qbatch_self_close(struct qbatch_self *self);

/* ------------------------------------------------------- an index of results */

struct qbatch_index_entry {
	uint64_t	 number;	/* of the line that it answers */
	uint64_t	 id;		/* qbatch_hash_text() of that line's id */
	uint64_t	 request;	/* qbatch_hash_line(); 0: not recorded */
	uint64_t	 line;		/* in its file, from 1 */
	uint64_t	 offset;
	size_t		 n;		/* bytes, the newline not among them */
	unsigned	 file;		/* the caller's number of it */
	unsigned	 maker;		/* number of its run, from 1; 0: not recorded */
	int		 failed;
	enum qwen_cut_kind cut;
};

struct qbatch_index {
	struct qbatch_index_entry	*place;
	size_t			 n, cap;
	struct qbatch_maker	*maker;
	size_t			 n_makers, cap_makers;
	uint64_t		 n_unsaid;	/* answers that record no run */
};

/* Numbers of results. */
struct qbatch_tally {
	uint64_t	 n, failed;
	uint64_t	 cut, broken;	/* at the limit; of these, within a schema */
};

#define QBATCH_BROKEN "%s cut by the token limit inside a grammar or schema, " \
	"so not complete; --retry-cut with a larger limit answers again"

/*
 * Add the results of a file.  Returns 1 if its last line is incomplete, else 0;
 * *end is the offset after the last complete line.  Dies if the file holds anything
 * else.  Call sort after the last file; find needs that, and at most one place for
 * each number.
 */
int qbatch_index_scan(struct qbatch_index *ix, int fd, const char *name,
    unsigned file, uint64_t *end);
void qbatch_index_sort(struct qbatch_index *ix);
const struct qbatch_index_entry *qbatch_index_find(const struct qbatch_index *ix,
    uint64_t number);
void qbatch_index_count(const struct qbatch_index *ix,
    struct qbatch_tally *out);
void qbatch_index_fini(struct qbatch_index *ix);

/*
 * Die unless all answers come from one run, or from self if it is not NULL.  way_on
 * ends the message: what the user can do.
 */
void qbatch_index_check(const struct qbatch_index *ix,
    const struct qbatch_maker *self, const char *way_on);

/* Replace t by the line of a result, with its newline; dies. */
void qbatch_index_load(const struct qbatch_index_entry *p, int fd,
    const char *name,
    struct qwen_text *t);

/* Whether the result answers this request, as far as it records that. */
int qbatch_index_answers(const struct qbatch_index_entry *p,
    const struct tool_line *line);

/* -------------------------------------------- results compared with an input */

/* Numbers of lines, ascending, as a text: "21, 23, 25-30". */
struct qbatch_ranges {
	uint64_t		 n;		/* numbers */
	struct qwen_text	 text;
	uint64_t		 from, to;	/* the last range; 0: none */
	size_t			 n_shown;
};

void qbatch_ranges_add(struct qbatch_ranges *r, uint64_t from, uint64_t to);
const char *qbatch_ranges_text(struct qbatch_ranges *r);	/* once, at the end */
void qbatch_ranges_fini(struct qbatch_ranges *r);

struct qbatch_survey {
	enum qwen_line_kind	 kind;		/* of the first JSON object */
	uint64_t		 n;		/* requests */
	struct qbatch_ranges	 lacking;	/* without a result */
	struct qbatch_ranges	 other;		/* with one of another request */
	uint64_t		 n_beyond;	/* results after the last line, */
	uint64_t		 beyond;	/* and the first of these */
};

/*
 * Compare the input with the results in ix.  A regular file is then at its old
 * offset again.  If ix is NULL, read only up to the first JSON object.
 */
void qbatch_survey(struct qbatch_survey *s, const struct qbatch_index *ix,
    const struct tool_lines *in);

/* Die if results have no line in the input, or, unless mixed, another request. */
void qbatch_survey_check(struct qbatch_survey *s, const char *results,
    const char *input, int mixed, const char *way_on);
void qbatch_survey_fini(struct qbatch_survey *s);

/* --------------------------------------------------------------- results */

/* Where results go: stdout, or a file that grows line by line. */
struct qbatch_results {
	int		 fd;
	const char	*name;
	int		 regular;
	int		 linked;	/* it had a name when it was opened */
	struct qbatch_index done;	/* existing results that are kept */
	uint64_t	 end;		/* offset after the complete lines */
	int		 torn;		/* the last line is incomplete */
	int		 drops;		/* there are results that are not kept */
};

/*
 * Open the file at path, or stdout if it is NULL.  Without resume, die if the file
 * is not empty.  With resume, call read, which chooses the results to keep: all
 * except those that are to be answered again.  These are failed ones, if so asked,
 * and, unless retry_cut is NULL, cut ones of runs with a limit below that of
 * retry_cut.  Then begin removes the other results and an incomplete last line;
 * until then the file is unchanged.
 */
void qbatch_results_open(struct qbatch_results *r, const char *path,
    int resume);
/* The same for --plan: the file is neither made, nor locked, nor changed. */
void qbatch_results_peek(struct qbatch_results *r, const char *path);
void qbatch_results_read(struct qbatch_results *r, int retry_failed,
    const struct qbatch_maker *retry_cut);
void qbatch_results_begin(struct qbatch_results *r);
void qbatch_results_write(struct qbatch_results *r,
    const struct qwen_text *line);
void qbatch_results_close(struct qbatch_results *r);

struct qbatch_merge_opts {
	const char	*output;	/* NULL: stdout */
	const char	*input;		/* that the results answer; or NULL */
	int		 mixed;		/* merge results of different runs, too */
};

/*
 * Write all lines of these files, sorted by number.  Of two results for the same
 * number, a failed one is left out.  Warns of numbers without a result.
 */
void qbatch_merge(char *const *files, int n,
    const struct qbatch_merge_opts *o);

/* Print the counts of --status; the last file is the input. */
void qbatch_status(char *const *files, int n);

/* ---------------------------------------------------------------- report */

struct qbatch_report {
	struct tool_times goals;	/* what is good enough */
	int		 wanted;	/* else times are not kept */
	double		 start, end;
	struct tool_sample time[TOOL_N_TIMES];
	size_t		 n;
	uint64_t	 n_done;		/* answered, also where n is not
						   counted */
	uint64_t	 n_failed, n_good;
	uint64_t	 n_cut, n_broken;	/* as in struct qbatch_tally */
	uint64_t	 prompt_tokens, generated;
};

struct qbatch_item;

void qbatch_report_add(struct qbatch_report *r,
    const struct qbatch_item *item);
/* To a file ("-": stderr), as text or as JSON. */
void qbatch_report_write(struct qbatch_report *r,
    const struct qwen_work_stats *st, const char *path, int json);
/* Note a summary of this run, and the number of results before it. */
void qbatch_report_tell(const struct qbatch_report *r,
    const struct qbatch_tally *before);
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
	uint64_t		 hash;		/* qbatch_hash_line() */
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
	struct qbatch_self	 self;
	int			 mixed;		/* results of other requests are
						   kept */
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
	enum qwen_line_kind	 kind;		/* of its first JSON object, as
						   far as it is known */
	/* our own */
	struct qbatch_seen	 ids;		/* custom_id to line */
	struct qbatch_flight	 flight;
	double			 next;		/* when the next one arrives */
	int			 read;		/* all of the input is */
	uint64_t		 n_done, n_skipped, n_tokens;
};

/*
 * On Ctrl-C, print the command that resumes the run.  The command line is kept
 * before it is parsed.  resumes: it already has such an option.  model: the one of
 * the environment, if no option names one, or NULL.
 * has_stdin: the requests are on stdin.
 */
void qbatch_command_keep(int argc, char *argv[]);
void qbatch_interrupt_watch(const char *tool, int resumes,
    const char *model, int has_stdin);
void qbatch_command_free(void);

/*
 * Whether the line just read is not to be answered: it is of another shard, or
 * has a result.  Its id counts all the same.
 */
int qbatch_is_passed(struct qbatch_run *r, const struct tool_line *line);

/* Refuse the request of the line just read if its id came before. */
void qbatch_check_id(struct qbatch_run *r, struct qwen_request *q);

/*
 * Print the tokens that the input takes to read and, at most, to write, and the
 * seconds, by rates that are measured.  Beginnings that prompts share are counted
 * once.  The model must be open, the work not.
 * Lines with results in out.done are left out.
 */
void qbatch_plan(struct qbatch_run *r);

/* Answer every line of the input. */
void qbatch_answer_all(struct qbatch_run *r);
void qbatch_fini(struct qbatch_run *r);

#endif
