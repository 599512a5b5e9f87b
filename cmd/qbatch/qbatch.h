/* SPDX-License-Identifier: ISC */
/*
 * qbatch.h - read requests from lines, answer them, write and number results,
 * and merge several result files.
 */
#ifndef QBATCH_H
#define QBATCH_H

#include "tool/images.h"
#include "tool/service.h"

/* Bytes of a line of requests, which may have images. */
enum { QBATCH_LINE_MAX = 128 << 20 };

/* ------------------------------------------------------------------ hashes */

/*
 * A map from hashes to numbers, NULL at first, is a tree of tsearch(3).
 * qbatch_map_put returns the number of key; a key without a number gets this
 * one, and the result is 0.
 */
uint64_t qbatch_map_put(void **map, uint64_t key, uint64_t number);

/* Returns the hash of a text; 0 for NULL. */
uint64_t qbatch_hash_text(const char *s);

/*
 * Returns the hash of a request, ignoring its white space; 0 if the line was
 * too long to be kept.
 */
uint64_t qbatch_hash_line(const struct tool_line *line);

/* Writes a hash as 16 hexadecimal digits to out; returns out. */
enum { QBATCH_HASH = 17 };
char *qbatch_hex(uint64_t hash, char out[QBATCH_HASH]);

/* ----------------------------------------------- the run that made a result */

/*
 * The model and options of a run, which each of its results records ("run").
 * Every line has them, so that every line is a result, also for jq and for
 * readers of OpenAI's format, and lines that were concatenated, sorted or
 * extracted still name their run.
 */
struct qbatch_origin {
	char		*model, *hash;	/* name and hash of the model; owned */
	char		*options;	/* that influence answers, without -n
					   and images; owned */
	char		*images;	/* the same for images; NULL: its
					   requests have none; owned */
	uint64_t	 max;		/* -n; UINT64_MAX: the context; 0:
					   requests had their own limit */
	const char	*file;		/* file of its first result, borrowed;
					   and line there */
	uint64_t	 line;
	int		 cut;		/* it has an answer cut at the limit */
};

void qbatch_origin_set(struct qbatch_origin *m, const char *model,
    const char *hash, const char *options);

/*
 * Returns 1 if a run of x would also cut the answers that m cut: the same model
 * and options, with no larger limit.
 */
int qbatch_origin_cuts(const struct qbatch_origin *m,
    const struct qbatch_origin *x);

/* The run of this process. */
struct qbatch_self {
	const char		*model;		/* borrowed */
	char			 hash[QBATCH_HASH];
	/* 0: for requests without images; 1: with images */
	char			*options[2];	/* for requests with their own
						   limit */
	char			*limited[2];	/* with -n, for the others */
	struct qbatch_origin	 origin;
};

/* How options of images begin, which are the last ones. */
#define QBATCH_MMPROJ "mmproj="

/*
 * Fill in self from an open service and the header of its model; images has the
 * options of images, or is NULL.  Dies on errors.
 */
void qbatch_self_open(struct qbatch_self *self, const struct tool_service *w,
    const struct qwen_header *h, const char *images);

/* ------------------------------------------------------ an index of results */

struct qbatch_index_entry {
	uint64_t	 number;	/* number of the answered line */
	uint64_t	 id;		/* qbatch_hash_text() of its id */
	uint64_t	 request;	/* qbatch_hash_line(); 0: not
					   recorded */
	uint64_t	 line;		/* line in the result file, from 1 */
	uint64_t	 offset;
	size_t		 n;		/* bytes, without the newline */
	unsigned	 file;		/* number of the file, given by the
					   caller */
	unsigned	 origin;	/* number of its run, from 1; 0: not
					   recorded */
	int		 failed;
	enum qwen_cut_kind cut;
};

struct qbatch_index {
	struct qbatch_index_entry *entry;
	size_t			 n, cap;
	struct qbatch_origin	*origin;
	size_t			 n_origins, cap_origins;
	uint64_t		 n_unrecorded;	/* answers without a recorded
						   run */
};

/* Counts of results. */
struct qbatch_tally {
	uint64_t	 n, failed;
	uint64_t	 cut, broken;	/* cut at the token limit; and of these,
					   within a schema */
};

#define QBATCH_BROKEN "%s cut by the token limit inside a grammar or schema, " \
	"so not complete; --retry-cut with a larger limit answers again"

/*
 * Add the results of a file.  Returns 1 if its last line is incomplete, else 0;
 * *end is the offset after the last complete line.  Dies if the file contains
 * anything else.  Call sort after the last file.  find needs a sorted index
 * with at most one entry per number.
 */
int qbatch_index_scan(struct qbatch_index *ix, int fd, const char *name,
    unsigned file, uint64_t *end);
void qbatch_index_sort(struct qbatch_index *ix);
const struct qbatch_index_entry *qbatch_index_find(const struct qbatch_index *ix,
    uint64_t number);
void qbatch_index_count(const struct qbatch_index *ix,
    struct qbatch_tally *out);

/*
 * Die unless all answers come from one run, or from self if it is not NULL.
 * way_on ends the message: what the user can do.
 */
void qbatch_index_check(const struct qbatch_index *ix,
    const struct qbatch_origin *self, const char *way_on);

/* Read the line of a result into t, with its newline.  Dies on errors. */
void qbatch_index_load(const struct qbatch_index_entry *p, int fd,
    const char *name,
    struct qwen_text *t);

/* Returns 1 if the result answers this request, as far as that was recorded. */
int qbatch_index_answers(const struct qbatch_index_entry *p,
    const struct tool_line *line);

/* ------------------------------------------- results compared with an input */

/* A text of ascending line numbers: "21, 23, 25-30". */
struct qbatch_ranges {
	uint64_t		 n;		/* how many numbers */
	struct qwen_text	 text;
	uint64_t		 from, to;	/* the last range, not yet in
						   text; to 0: none */
	size_t			 n_shown;
};

void qbatch_ranges_add(struct qbatch_ranges *r, uint64_t from, uint64_t to);
/* Call it once, at the end. */
const char *qbatch_ranges_text(struct qbatch_ranges *r);

struct qbatch_survey {
	enum qwen_line_kind	 kind;		/* of the first JSON object */
	uint64_t		 n;		/* number of requests */
	struct qbatch_ranges	 lacking;	/* lines without a result */
	struct qbatch_ranges	 other;		/* lines with a result of
						   another request */
	uint64_t		 n_beyond;	/* results after the last
						   line, */
	uint64_t		 beyond;	/* and the line number of the
						   first */
};

/*
 * Compare the input with the results in ix.  Restores the offset of a regular
 * file.  If ix is NULL, reads only up to the first JSON object, for kind.
 */
void qbatch_survey(struct qbatch_survey *s, const struct qbatch_index *ix,
    const struct tool_lines *in);

/*
 * Die if there are results after the input's last line or, unless mixed,
 * results of another request.
 */
void qbatch_survey_check(struct qbatch_survey *s, const char *results,
    const char *input, int mixed, const char *way_on);
void qbatch_survey_fini(struct qbatch_survey *s);

/* --------------------------------------------------------------- results */

/* The output: stdout, or a file that grows by whole lines. */
struct qbatch_results {
	int		 fd;
	const char	*name;
	int		 regular;
	int		 linked;	/* it had a name when opened */
	struct qbatch_index done;	/* existing results to keep */
	uint64_t	 end;		/* offset after the complete lines */
	int		 torn;		/* the last line is incomplete */
	int		 drops;		/* some results are not kept */
};

/*
 * Open the file at path, or stdout if path is NULL.  Without resume, dies if
 * the file is not empty.  With resume, call read, which chooses the results to
 * keep: all except those to be answered again.  With retry_failed, these are
 * failed ones; unless retry_cut is NULL, also ones that were cut at a limit
 * below that of retry_cut.  Then call begin, which removes the other results
 * and an incomplete last line; until then the file is unchanged.
 */
void qbatch_results_open(struct qbatch_results *r, const char *path,
    int resume);
/* The same for --plan: does not create, lock or change the file. */
void qbatch_results_peek(struct qbatch_results *r, const char *path);
void qbatch_results_read(struct qbatch_results *r, int retry_failed,
    const struct qbatch_origin *retry_cut);
void qbatch_results_begin(struct qbatch_results *r);
void qbatch_results_write(struct qbatch_results *r,
    const struct qwen_text *line);
void qbatch_results_close(struct qbatch_results *r);

/*
 * Write all results of these files, sorted by line number, to output (NULL:
 * stdout).  If a line has a failed result and another one, the failed one is
 * left out.  Warns of lines of input (which may be NULL) without a result.
 * mixed: also merge results of different runs.
 */
void qbatch_merge(char *const *files, int n, const char *output,
    const char *input, int mixed);

/* Print the counts of --status; the last file is the input. */
void qbatch_status(char *const *files, int n);

/* ---------------------------------------------------------------- report */

struct qbatch_report {
	struct tool_times goals;	/* of --goodput */
	int		 wanted;	/* 0: times are not recorded */
	double		 start, end;
	struct tool_timings time[TOOL_N_TIMES];
	size_t		 n;
	struct qbatch_tally sum;		/* sum.n: answered items; n
						   counts those with times */
	uint64_t	 n_good;
	uint64_t	 prompt_tokens, generated;
};

struct qbatch_item;

void qbatch_report_add(struct qbatch_report *r,
    const struct qbatch_item *item);
/* Write the report as text or JSON to a file; "-" is stderr. */
void qbatch_report_write(struct qbatch_report *r,
    const struct qwen_work_stats *st, const char *path, int json);
/* Print a summary of this run and the number of earlier results. */
void qbatch_report_print(const struct qbatch_report *r,
    const struct qbatch_tally *before);

/* ------------------------------------------------------------------ images */

/*
 * The images of all requests.  Each is encoded once: for the requests that are
 * being answered, and, as far as memory is spared for that, for later ones.
 */
struct qbatch_image;
struct qbatch_images {
	/* set by the caller */
	struct tool_qimage	 how;		/* no_rows: for --plan */
	const char		*dir;		/* --image-dir, or NULL */
	/* internal */
	int32_t			 pad;
	struct qwen_header	 self;
	struct qbatch_image	*first;		/* the last one used comes
						   first */
};

/* The images of a request; all zero: none. */
struct qbatch_pictures {
	struct qbatch_image	**v;
	struct qwen_span_rows	*spans;		/* [n] */
	size_t			 n;
	size_t			 bytes;		/* of rows that were encoded
						   for this request */
};

/*
 * Set the service's reads_images, if model and template do.  Return the options
 * that influence the rows of images, to be freed; NULL if it reads none.
 */
char *qbatch_images_open(struct qbatch_images *all, struct tool_service *w);

/*
 * Encode the images of a request and put their ids into its prompt.  Returns 0,
 * or -1 after a refusal.  Frees the bytes of the images.  Call fini in any case,
 * when the jobs of the request have ended.
 */
int qbatch_images_read(struct qbatch_images *all, struct qwen_request *q,
    struct qbatch_pictures *out);
void qbatch_images_fini(struct qbatch_images *all, struct qbatch_pictures *p);

/* ------------------------------------------------------------------- a run */

/* A line of the input, until its result is written. */
struct qbatch_item {
	struct tool_input	 input;		/* left: unfinished answers */
	struct qbatch_run	*run;
	struct qwen_request	*request;	/* NULL once there is a
						   result */
	struct qwen_sampler	*sampler;	/* for its first answer */
	struct qbatch_pictures	 pictures;
	uint64_t		 hash;		/* qbatch_hash_line() */
	struct qwen_text	 result;	/* line of output */
	double			 arrived, first, last;
};

struct qbatch_run {
	/* set by the caller */
	struct tool_service	 with;
	struct tool_work	 work;
	struct qbatch_images	 images;
	struct tool_lines	 in;
	struct qbatch_results	 out;
	struct qbatch_self	 self;
	int			 mixed;		/* keep results of other
						   requests */
	struct qbatch_report	 report;
	struct qwen_header	 header;	/* has the ids of ending
						   tokens */
	struct qwen_unknown	 unknown;
	uint64_t		 shard, n_shards;	/* answer lines shard +
							   1, shard + 1 +
							   n_shards, ... */
	double			 arrivals;	/* simulated items per second;
						   0: all arrive at once */
	uint64_t		 seed;		/* of the arrival times */
	int			 is_pipe;	/* the input is a pipe */
	enum qwen_line_kind	 kind;		/* of the first JSON object read
						   so far */
	/* internal */
	void			*ids;		/* map from custom_id to line */
	struct tool_queue	 queue;		/* unordered is set by the
						   caller */
	double			 next_arrival;	/* arrival time of the next
						   item */
	uint64_t		 n_skipped, n_tokens;
};

/*
 * On Ctrl-C, print the command that resumes the run.  Call qbatch_command_keep
 * before options are parsed.  resumes: the command has --resume or a similar
 * option already.  model: the model's variable in the environment if no option
 * names the model, else NULL.  has_stdin: the requests come from stdin.
 */
void qbatch_command_keep(int argc, char *argv[]);
void qbatch_interrupt_watch(const char *tool, int resumes,
    const char *model, int has_stdin);

/*
 * Returns 1 if the line just read need not be answered: it belongs to another
 * shard or has a result.  Its id is still checked against later ones.
 */
int qbatch_is_skipped(struct qbatch_run *r, const struct tool_line *line);

/* Refuse the request of the line just read if an earlier line has its id. */
void qbatch_check_id(struct qbatch_run *r, struct qwen_request *q);

/*
 * Print the tokens to read and, at most, to generate, and the seconds at a
 * measured speed.  Counts shared prefixes of prompts once, and skips lines with
 * results in out.done.  The model must be open, the work not.
 */
void qbatch_plan(struct qbatch_run *r);

/* Answer all lines of the input. */
void qbatch_answer_all(struct qbatch_run *r);

#endif
