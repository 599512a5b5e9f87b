/* SPDX-License-Identifier: ISC */
/*
 * batch.h - lines of requests and results, for qbatch: what is in one, how they
 * are read, written, numbered, and put together from several files.
 */
#ifndef CLI_BATCH_H
#define CLI_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"

enum {
	CLI_LINE_MAX = 16 << 20,	/* bytes of a line */
	CLI_CHOICES_MAX = 128,		/* answers to one line */
	CLI_STOPS_MAX = 64,
};

/* ------------------------------------------------------------------ text */

/* Bytes that grow; dies for want of memory. */
struct cli_text {
	char	*s;		/* a NUL behind them */
	size_t	 n, cap;
};

void cli_text_add(struct cli_text *t, const char *s, size_t n);
void cli_text_str(struct cli_text *t, const char *s);
void cli_text_fmt(struct cli_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* As a JSON string; what is no UTF-8 becomes U+FFFD. */
void cli_text_json(struct cli_text *t, const char *s, size_t n);
void cli_text_fini(struct cli_text *t);

/* ----------------------------------------------------------------- lines */

/* Reads lines of any length without keeping more than CLI_LINE_MAX of one. */
struct cli_lines {
	int		 fd;
	const char	*name;		/* for messages */
	char		*buf;
	size_t		 n, at, cap;
	uint64_t	 line;		/* number of the last one, from 1 */
	uint64_t	 offset;	/* of the byte behind it */
	int		 torn;		/* it had no newline */
	int		 eof;
};

struct cli_line {
	const char	*s;		/* without the newline; until the next
					   call; NULL if it is too long */
	size_t		 n;
};

/* The next line: 1, or 0 at the end. Dies when it cannot read. */
int cli_lines_next(struct cli_lines *l, struct cli_line *out);

/* Nothing but white space; one that is too long is not. */
int cli_line_is_blank(const struct cli_line *line);

/* A line could be had without waiting. */
int cli_lines_waiting(const struct cli_lines *l);

/* How many there are ahead in a regular file; it stays where it is. */
uint64_t cli_lines_count(int fd);

void cli_lines_fini(struct cli_lines *l);

/* Numbers and fingerprints that were seen. */
struct cli_seen {
	struct cli_seen_entry {
		uint64_t key, value;
	}	*e;
	size_t	 n, cap;
};

/* The entry of key (not 0), made with value if there is none: *made. */
struct cli_seen_entry *cli_seen_put(struct cli_seen *s, uint64_t key,
    uint64_t value, int *made);
struct cli_seen_entry *cli_seen_find(const struct cli_seen *s, uint64_t key);
void cli_seen_fini(struct cli_seen *s);

/* Not 0; of an id as it is written in JSON, or of none. */
uint64_t cli_id_hash(const char *id);

/* -------------------------------------------------------------- requests */

enum cli_form {
	CLI_PLAIN,		/* {"prompt": ...} */
	CLI_COMPLETION,		/* an OpenAI batch line, /v1/completions */
	CLI_CHAT,		/* likewise, /v1/chat/completions */
};

/* Grammars of requests, and what they work on. */
struct cli_shared_grammar;
struct cli_grammars {
	struct cli_shared_grammar *first;
	const struct qwen_grammar *usual;	/* of those that bring none; or
						   NULL */
	const struct qwen_gguf	*gguf;
	const struct qwen_pieces *pieces;
	struct qwen_pieces	*own;		/* the same, if made here */
	struct qwen_trie	*trie;		/* once it is needed */
};

/* pieces may be NULL: they are made when they are needed. */
void cli_grammars_open(struct cli_grammars *all, const struct qwen_gguf *g,
    const struct qwen_pieces *pieces, const struct qwen_grammar *usual);
void cli_grammars_fini(struct cli_grammars *all);

/* What holds for all lines: from the command line and the model. */
struct cli_batch {
	const struct qwen_tok	*tok;
	const struct qwen_template *template;	/* or NULL, and why not */
	const char		*no_template;
	struct qwen_sampler	*sampler;	/* options of -- */
	size_t			 n_vocab;
	const struct qwen_pieces *pieces;	/* or NULL */
	const int32_t		*eog;		/* tokens that end texts */
	size_t			 n_eog;
	const int32_t		*masked;	/* never to be chosen */
	size_t			 n_masked;
	size_t			 max;		/* -n */
	struct cli_grammars	*grammars;
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	const char		*model;		/* its name */
};

/* The seed among the options. */
uint64_t cli_sampler_seed(const struct qwen_sampler *s);

/* An answer that is wanted, and as it comes. */
struct cli_item;
struct cli_answer {
	struct cli_item		*item;
	const int32_t		*prompt;	/* one of the item's */
	size_t			 n_prompt;
	struct qwen_sampler	*sampler;
	struct qwen_tok_decoder	*decoder;
	struct cli_text		 text;
	/* of a chat, when it is complete: the text apart from these */
	struct cli_text		 reasoning;
	struct cli_text		 calls;		/* JSON */
	size_t			 n_calls;
	struct cli_text		 logprobs;	/* JSON, so far */
	size_t			 n;		/* tokens */
	size_t			 n_chars;	/* characters of text */
	const char		*finish;	/* "stop", "length"; or NULL */
	/* completions have four lists */
	struct cli_text		 lp_tokens, lp_top, lp_offset;
};

struct cli_item {
	struct cli_item		*prev, *next;
	struct cli_run_batch	*run;	/* that it belongs to */
	size_t			 bytes;	/* that it takes, about */
	uint64_t		 line;
	char			*id;	/* JSON of custom_id or id, or NULL */
	enum cli_form		 form;
	enum qwen_thinking	 thinking;	/* of a chat's prompt */
	struct cli_shared_grammar *grammar;	/* or NULL */
	char			*tools;	/* JSON, or NULL */
	size_t			 n_tools;
	char			*model;	/* JSON of what it asked for, or NULL */
	int32_t			**prompt;
	size_t			*n_prompt_tokens;
	size_t			 n_prompts;
	size_t			 n;	/* answers to each */
	size_t			 max;	/* tokens of each */
	struct qwen_str		*stop;	/* owned */
	size_t			 n_stop;
	size_t			 min;	/* tokens before one counts */
	int			 logprobs;
	size_t			 n_top;
	struct cli_answer	*answer;
	size_t			 n_answers, n_left;	/* not finished */
	struct qwen_err		 err;	/* code 0: none */
	const char		*code;	/* of the error, a word */
	struct cli_text		 result;	/* the line */
	double			 arrived, first, last;
};

/*
 * What a line asks for: prompts as tokens, answers to be filled.  An item with
 * err if it is not well formed.  Dies for want of memory.
 */
struct cli_item *cli_item_parse(const struct cli_batch *b,
    const struct cli_line *line, uint64_t number);
void cli_item_free(struct cli_item *item);

/*
 * The id alone, for a line that is not answered: JSON, owned; NULL if it has
 * none.  *unique: it must not come twice.
 */
char *cli_line_id(const struct cli_line *line, int *unique);
void cli_item_fail(struct cli_item *item, const char *code, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

/*
 * The next token of an answer: 1 if a stop string is complete, and the text was
 * cut before it.
 */
int cli_answer_put(struct cli_answer *a, const struct qwen_choice *c,
    struct qwen_tok_decoder *bytes);
/* The text is complete. */
void cli_answer_end(struct cli_answer *a, const char *finish);
/* Take a chat's text apart. */
void cli_answer_reply(struct cli_answer *a, const struct qwen_template *t);

/* item->result: the line, of the answers or the error. */
void cli_item_result(struct cli_item *item, const struct cli_batch *b);

/* --------------------------------------------------------------- results */

/* The number of the line that is answered, its id (JSON, owned); or -1. */
int cli_result_parse(const struct cli_line *line, uint64_t *number, char **id,
    int *is_error);

/* Where results go: stdout, or a file that grows line by line. */
struct cli_results {
	int		 fd;
	const char	*name;
	int		 regular;
	struct cli_seen	 done;		/* line numbers, with cli_id_hash */
	uint64_t	 n_errors;	/* among them */
};

/* path NULL: stdout.  resume: what is there stays, and is in done. */
void cli_results_open(struct cli_results *r, const char *path, int resume);
void cli_results_write(struct cli_results *r, const struct cli_text *line);
void cli_results_close(struct cli_results *r);

/* All lines of these files by number, to stdout or path (may be NULL). */
void cli_merge(char *const *files, int n, const char *path);

/* ---------------------------------------------------------------- report */

/* What is good enough, in milliseconds; 0: whatever. */
struct cli_goals {
	double	ttft, tpot, e2e;
};

struct cli_report {
	struct cli_goals goals;
	int		 wanted;	/* else items are not kept */
	double		 start, end;
	struct cli_times {
		double	ttft, tpot, e2e;	/* ms; tpot < 0: none */
	}		*item;
	size_t		 n, cap;
	uint64_t	 n_failed, n_good;
	uint64_t	 prompt_tokens, generated;
};

/* "ttft:500,tpot:50,e2e:2000", or a usage error. */
void cli_goals_parse(struct cli_goals *g, const char *s);
void cli_report_add(struct cli_report *r, const struct cli_item *item);
/* To a file ("-": stderr), as text or as JSON. */
void cli_report_write(const struct cli_report *r,
    const struct qwen_work_stats *st, const char *path, int json);
void cli_report_fini(struct cli_report *r);

/* ------------------------------------------------------------------- a run */

/* Items on their way, in the order of their lines. */
struct cli_flight {
	struct cli_item	*head, *tail;
	size_t		 n, bytes;
};

struct cli_run_batch {
	/* set by the caller */
	struct cli_batch	 b;
	struct qwen_work	*work;
	struct qwen_tok_decoder	*spell;		/* bytes of single tokens */
	struct cli_lines	 in;
	struct cli_results	 out;
	struct cli_report	 report;
	const int32_t		*ending;
	size_t			 n_ending;
	size_t			 n_ahead;	/* items read before the first
						   of them is written */
	int			 unordered;
	uint64_t		 shard, n_shards;	/* lines shard + 1,
						   shard + 1 + n_shards, ... */
	double			 arrivals;	/* items a second; 0: they
						   are all there */
	uint64_t		 seed;		/* of their times */
	int			 waits;		/* input comes as it is made */
	/* our own */
	struct cli_seen		 ids;		/* custom_id to line */
	struct cli_flight	 flight;
	double			 next;		/* when the next one arrives */
	int			 read;		/* all of the input is */
	uint64_t		 n_done, n_skipped, n_failed, n_tokens;
	uint64_t		 failed_line;	/* the first that failed, */
	char			 failed[240];	/* and why */
};

/* Answer every line of the input. */
void cli_batch_run(struct cli_run_batch *r);
void cli_batch_fini(struct cli_run_batch *r);

#endif
