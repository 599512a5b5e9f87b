/* SPDX-License-Identifier: ISC */
/*
 * tool.h - what the tools that compute do alike: the model and its state, tokens
 * in, sampling, and the rows of these options.  Like lib/cli, on which it
 * stands, it is for cmd/ alone, and exits on errors.
 */
#ifndef TOOL_H
#define TOOL_H

#include "cli/cli.h"
#include "qwen.h"
#include "qwentext.h"
#include "tool/intake.h"

/* ----------------------------------------------------------- rows of options */

/* A const char *, for tool_model_path(); options of an alias are set. */
#define TOOL_OPT_MODEL(p) TOOL_OPT_MODEL_ROW(p, \
	"model: a GGUF file, Hugging Face folder, or name")
#define TOOL_OPT_MODEL_ROW(p, h) \
	{ CLI_ROW(TEXT, 'm', "model", "model", CLI_P(const char *, p), h), \
	  .completes = "file gguf", .ready = tool_model_ready }

#define TOOL_OPT_NUMERICS(p) \
	CLI_CALL(0, "numerics", "version", CLI_P(unsigned, p), \
	    tool_numerics_parse, "words 1 3 4", \
	    "version of the arithmetic, see qwen-numerics(7)")
/* With the arithmetic: whether weights are converted when they are loaded. */
#define TOOL_OPT_QUANTIZE \
	CLI_CALL(0, "quantize", "type", CLI_P(tool_quantize_fn *, \
	    &tool_quantize), tool_quantize_parse, "words none q8_0", \
	    "convert F32, F16 and BF16 weights when loading (default none)")
/* Of tool_kv: how models that are opened from then on keep keys and values. */
#define TOOL_KV_KINDS "f16 q8_0 q4_0 f32"
#define TOOL_OPT_KV \
	CLI_CALL(0, "kv", "kind", CLI_P(int, tool_kv), tool_kv_parse, \
	    "words " TOOL_KV_KINDS, \
	    "number format of the KV cache"), \
	CLI_WORD(0, "kv-k", "kind", CLI_P(int, &tool_kv[0]), TOOL_KV_KINDS, \
	    "format of keys, instead of that of --kv"), \
	CLI_WORD(0, "kv-v", "kind", CLI_P(int, &tool_kv[1]), TOOL_KV_KINDS, \
	    "format of values, instead of that of --kv")
/* Of tool_lora, likewise. */
#define TOOL_OPT_LORA \
	CLI_CALL(0, "lora", "adapter", CLI_P(struct tool_lora, &tool_lora), \
	    tool_lora_parse, "file gguf", TOOL_LORA_HELP)
#define TOOL_LORA_HELP \
	"apply this LoRA adapter, or FILE=SCALE; repeatable"
/* Of tool_rope: how positions of models that are opened then are scaled. */
#define TOOL_ROPE_KINDS "words none linear=4 yarn=4"
#define TOOL_ROPE_HELP \
	"RoPE scaling by a factor, for a longer context"
#define TOOL_OPT_ROPE \
	CLI_CALL(0, "rope-scaling", "how", CLI_P(struct qwen_rope, &tool_rope), \
	    tool_rope_parse, TOOL_ROPE_KINDS, TOOL_ROPE_HELP)
#define TOOL_OPT_BATCH(p) \
	CLI_INT(0, "batch", "n", p, 1, 1 << 20, \
	    "tokens per pass; changes no result")
#define TOOL_OPT_FORCE(h) CLI_FLAG(0, "force", &tool_force, h)
#define TOOL_FORCE_MEMORY "run even if memory does not suffice"
#define TOOL_OPT_FORCE_TEXT TOOL_OPT_FORCE("accept input that is not text; " \
	TOOL_FORCE_MEMORY)
/* Of a struct qwen_unknown. */
#define TOOL_OPT_STRICT(p) CLI_FLAG(0, "strict", p, \
	"reject requests with unknown fields")
#define TOOL_OPT_STRICT_CALLS(p) CLI_FLAG(0, "strict-calls", p, \
	"accept only tool calls in exactly the template's form")
/* An enum qwen_systems. */
#define TOOL_OPT_SYSTEMS(p) CLI_WORD(0, "system-messages", \
	"remind | first | template", \
	CLI_P(enum qwen_systems, p), "remind first template", \
	"how to pass system messages that the template rejects")
/* A const char *: NULL without it, "" without a text. */
#define TOOL_OPT_PLACEHOLDER(p) CLI_CALL(0, "image-placeholder", "[text]", \
	CLI_P(const char *, p), tool_placeholder, NULL, \
	"replace images and documents by a line of text")
#define TOOL_OPT_OUTPUT(p) CLI_STD('o', "output", "output", p, \
	"output", "write to this file instead of stdout")
/* Of a struct tool_store. */
#define TOOL_OPT_STORE_DIR(p) \
	{ CLI_ROW(TEXT, 0, "store", "folder", CLI_P(const char *, p), \
	    "prefix store: folder that keeps prompts already read"), \
	  .completes = "folder", .min = 1 }
#define TOOL_OPT_STORE_MAX(p) \
	CLI_CALL(0, "store-max", "size", CLI_P(uint64_t, p), tool_store_max, \
	    "words none 20G", \
	    "limit of the store's size")
#define TOOL_OPT_STORE(s) TOOL_OPT_STORE_DIR(&(s)->dir), \
	CLI_FLAG(0, "no-store", &(s)->none, "use no store, even if " \
	    "$QWEN_STORE names one"), \
	TOOL_OPT_STORE_MAX(&(s)->max)
/* Of a struct tool_work: how it computes, */
#define TOOL_OPT_COMPUTE(w) CLI_OPT_THREADS(&(w)->n_threads), \
	TOOL_OPT_NUMERICS(&(w)->numerics), TOOL_OPT_QUANTIZE, TOOL_OPT_KV
/* how much at a time, */
#define TOOL_OPT_PASSES(w) \
	TOOL_OPT_ROPE, \
	CLI_BYTES(0, "mem", "size", &(w)->mem, 1, \
	    "limit of memory for caches and states, as in 20G"), \
	CLI_INT(0, "max-sequences", "n", &(w)->n_sequences, 1, 4096, \
	    "at most N texts at the same time (default 32)"), \
	TOOL_OPT_BATCH(&(w)->n_pass)
/* and, where it serves, for whom. */
#define TOOL_OPT_TURNS(w) \
	CLI_INT(0, "keep", "n", &(w)->n_keep, 0, 1 << 16, \
	    "keep N texts in memory, to continue them (default 64)"), \
	CLI_INT(0, "pause", "ms", &(w)->pause_ms, 0, 1 << 20, \
	    "longest pause of generation for a prompt, in ms, roughly " \
	    "(default 500)"), \
	TOOL_OPT_DRAFT(&(w)->draft)
#define TOOL_OPT_WORK(w) TOOL_OPT_COMPUTE(w), TOOL_OPT_LORA, \
	TOOL_OPT_PASSES(w), TOOL_OPT_STORE(&(w)->at)
/* Of a struct tool_grammar. */
#define TOOL_OPT_GRAMMAR(g) \
	CLI_FILE(0, "grammar", "file", &(g)->path, "file", \
	    "generate only text that this grammar allows"), \
	CLI_FILE(0, "json-schema", "file", &(g)->schema, "file json", \
	    "generate only JSON that is valid by this schema")
/* Of a struct tool_draft. */
#define TOOL_OPT_DRAFT(d) \
	CLI_CALL(0, "draft", "how", CLI_P(struct tool_draft, d), \
	    tool_draft_parse, "words auto mtp lookup none", \
	    "speculative decoding, with :N for N drafts per pass; or a file " \
	    "with the MTP block"), \
	CLI_FILE(0, "draft-text", "file", &(d)->text, "file", \
	    "look up drafts in this text, too")
#define TOOL_OPT_NO_COMPRESS(p) CLI_FLAG(0, "no-compress", &(p)->no_compress, \
	"write the state uncompressed: larger, but faster")
#define TOOL_OPT_MASK_UNUSED(p) \
	CLI_FLAG(0, "mask-unused", p, "never choose an id that stands for no " \
	    "token")
/* What tool_tok() opens does so. */
#define TOOL_OPT_NFC \
	CLI_FLAG(0, "nfc", &tool_nfc, \
	    "normalise text to NFC before tokenizing it")
#define TOOL_OPT_IGNORE_EOS(p) \
	CLI_FLAG(0, "ignore-eos", p, "continue after tokens that end a text")
/* Whether texts begin with BOS: tool_bos(). */
#define TOOL_OPT_BOS \
	CLI_SET(0, "bos", &tool_bos_flags, TOOL_BOS, \
	    "always begin texts with the BOS token"), \
	CLI_SET(0, "no-bos", &tool_bos_flags, TOOL_NO_BOS, \
	    "never begin texts with the BOS token")
/* How hard models think, and what day it is for them: tool_effort. */
#define TOOL_OPT_EFFORT \
	CLI_FILE(0, "effort", "level", &tool_effort.level, \
	    "words none minimal low medium high xhigh max", \
	    "reasoning effort, if the template has it; none: no thinking"), \
	CLI_FILE(0, "effort-high", "medium | xhigh", &tool_effort.high, \
	    "words medium xhigh", \
	    "level to use for high if the template has no high (default " \
	    "xhigh)"), \
	CLI_TEXT(0, "date", "date", &tool_effort.date, \
	    "date for templates that print one, as in 2026-01-31")
/* A struct qwen_sampler *, which is made: NULL before. */
#define TOOL_OPT_SAMPLING(p) \
	CLI_ROWS(CLI_P(struct qwen_sampler *, p), tool_sampling_rows)

/* ---------------------------------------------------------------- the model */

/*
 * Returns the path of the model to use: opt (the argument of -m) if not NULL,
 * else $QWEN_MODEL, both resolved by tool_model_find(); else the demo model
 * installed with this executable.  Exits 1 if there is none.
 */
const char *tool_model_path(const char *opt);

/*
 * The same for a tool that reads a stream.  Where no model is named,
 * tool_model_path() notes that the demo model is used; tool_model_path_stream()
 * leaves this note to tool_demo_said().  A stream with a header (said is 1) comes
 * from another tool, which has printed the note, so that it is not repeated.
 */
const char *tool_model_path_stream(const char *opt);
void tool_demo_said(int said);

/*
 * Resolves the argument of -m or an operand: an existing path, else an alias,
 * else a model in tool_model_folders().  Dies if there is none or the name is
 * ambiguous.  Uses no network.
 */
const char *tool_model_find(const char *given);

/* The name by which tool_model_find() found a path, or the file's name. */
const char *tool_model_name(const char *path);

/*
 * Whether an option is one of sampling: 1, or 2 if it takes no argument.  The rows of sampling set it, which tools that
 * do not sample need not link.
 */
typedef int tool_is_sampling_fn(const char *name, size_t n);
extern tool_is_sampling_fn *tool_is_sampling;

/* If the model is an alias, set the options of its line. */
void tool_model_ready(const struct cli_opt *o);

/* Where this user's models are, by the environment. */
struct qwen_model_folders;
const struct qwen_model_folders *tool_model_folders(void);

/* The first place to put models of each kind; NULL without a home. */
const char *tool_hub_cache(void);
const char *tool_modelscope_cache(void);
const char *tool_ollama_models(void);

/*
 * Returns the model that an alias stands for; the name itself if it is not an
 * alias.
 */
const char *tool_alias(const char *name);

/* All aliases, and the file that they are from, which need not be there. */
struct qwen_aliases;
const struct qwen_aliases *tool_aliases(const char **file);

/*
 * Returns the path of a program in this executable's folder, or its name if it
 * is not there.
 */
const char *tool_beside(const char *name);

/*
 * The function that --quantize has set, or NULL.  It returns the model with its
 * matrices converted in memory by that many threads (0: one per processor), and
 * notes the time and the memory; it dies on errors.  g is the open file, which the
 * result then owns, or NULL if path is a Hugging Face folder.
 */
typedef struct qwen_gguf *tool_quantize_fn(struct qwen_gguf *g,
    const char *path, int threads);
extern tool_quantize_fn *tool_quantize;
void tool_quantize_parse(const struct cli_opt *o, const char *arg);

/* Open a GGUF file or a Hugging Face folder, and apply tool_quantize; dies. */
struct qwen_gguf *tool_gguf(const char *path);
struct qwen_gguf *tool_gguf_on(const char *path, int threads);

/* qwen_tok_open; dies.  A note where the file does not say how text is cut. */
struct qwen_tok *tool_tok(const struct qwen_gguf *g, unsigned what);
extern int tool_nfc;	/* TOOL_OPT_NFC */

/* What TOOL_OPT_BOS said; dies if both were given. */
enum { TOOL_BOS = 1, TOOL_NO_BOS = 2 };
extern unsigned tool_bos_flags;
enum qwen_bos tool_bos(void);

/*
 * No output takes the place of what a Hugging Face folder has of a model or an
 * adapter: weights, config, vocabulary, templates.
 */
void tool_protect_folder(const char *folder);

/*
 * Returns the tuning file in the user's cache folder, for struct
 * qwen_model_opts.tuning; NULL if there is no such folder.
 */
const char *tool_tuning(void);

/*
 * The level in $QWEN_CPU, for struct qwen_model_opts, NULL if unset or empty.
 * One this CPU lacks: one note, and the library uses the best below it.
 * An unknown one: usage error.
 */
const char *tool_cpu(void);

/*
 * tool_model_path, tool_cpu and qwen_model_open; numerics may be 0; dies.  The
 * other one has the block for drafts, if these are wanted and it is there.
 */
struct tool_draft;
struct qwen_model *tool_model_open(const char *opt, int n_threads,
    unsigned numerics);
struct qwen_model *tool_model_open_draft(const char *opt, int n_threads,
    unsigned numerics, const struct tool_draft *d);

extern int tool_force;		/* --force */
extern int tool_kv[2];		/* --kv: an enum qwen_kv of keys, of values */
extern struct qwen_rope tool_rope;	/* --rope-scaling */
struct cli_opt;
void tool_numerics_parse(const struct cli_opt *o, const char *arg);
/* Dies if no program can continue a state of this numerics version. */
void tool_numerics_check(const char *name, uint32_t version);
void tool_kv_parse(const struct cli_opt *o, const char *arg);
void tool_rope_parse(const struct cli_opt *o, const char *arg);

/* --lora: adapters of models that are opened from then on; o->to is one. */
struct tool_lora {
	struct qwen_adapter	*v;
	size_t			 n, cap;
};
extern struct tool_lora tool_lora;
void tool_lora_parse(const struct cli_opt *o, const char *arg);

/* Returns the bytes of available memory; UINT64_MAX if unknown. */
uint64_t tool_memory_free(void);

/* What is going to be computed, for tool_fits. */
struct tool_need {
	size_t		 n_tokens;	/* of each timeline */
	size_t		 n_sequences;	/* of those; 0: one */
	size_t		 batch;		/* 0: the usual number */
	const struct qwen_checkpoints *keep;	/* in each; NULL: none */
	const struct tool_draft *draft;		/* NULL: nothing is guessed */
	uint64_t	 cache;		/* bytes of cache and states at most;
					   0: no limit */
	int		 in_memory;	/* the weights are no file */
};

/*
 * Dies if memory does not suffice, as far as is known, before anything is
 * allocated.  --force skips the check.
 */
void tool_fits(const struct qwen_model *m, const struct tool_need *need);

/*
 * Creates a cache of *mem bytes; 0: seven eighths of the free memory by
 * tool_memory_spare, which *mem is set to. need->cache is set to it.  Dies if
 * that is too little, or more than is available.
 */
struct qwen_cache *tool_cache_open(struct qwen_model *m, uint64_t *mem,
    struct tool_need need);

/*
 * Returns `eighths' eighths of the memory left beside the weights; or the need
 * of one text that fills the context, if that is more and available.  0 if
 * unknown.
 */
uint64_t tool_memory_spare(const struct qwen_model *m, unsigned eighths);

/*
 * Returns freed memory to the system, for servers that have been idle for a
 * while.
 */
void tool_memory_return(void);

/* The header of a stream of this kind from or for the model; dies. */
void tool_header(struct qwen_header *h, enum qwen_stream_kind kind,
    const struct qwen_model *m);

/* -v: the model, threads and kernels in use; from here on time is counted. */
void tool_report_model(struct qwen_model *m);

/* -v: calls, time (summed over threads) and rates of each stage. */
void tool_report_stats(const struct qwen_model *m);

/* ---------------------------------------------------------------- streams */

/* A writer; the header of a stream of the model; they die. */
struct qwen_writer *tool_writer(int fd, enum qwen_format format);
void tool_write_header(struct qwen_writer *w, enum qwen_stream_kind kind,
    const struct qwen_model *m);

/*
 * What the first bytes of a text are instead, or NULL: "a GGUF model file". Text
 * in UTF-8 or not is text; with nuls, bytes 0 among others are, too.
 */
const char *tool_not_text(const void *p, size_t n, int nuls);

/* ----------------------------------------------------------------- signals */

/*
 * What is readable once SIGTERM or SIGINT came; a second one ends the process.
 * SIGPIPE is ignored from then on.  Dies.
 */
int tool_wake_open(void);

/*
 * Note that the server is ending, and waits until the n requests in progress are
 * what says: "done" or "answered".
 */
void tool_report_ending(size_t n, const char *what);

/* ----------------------------------------------------------------- sockets */

/*
 * Listens at a path that users admitted by mode may open.  Replaces a socket
 * that no process listens at.  Dies.  tool_socket_close unlinks it.
 */
int tool_socket_listen(const char *path, unsigned mode);
void tool_socket_close(int fd, const char *path);

/* The next client, not blocking and closed by exec; -1 and errno. */
int tool_socket_accept(int listener);

/* ----------------------------------------------------------------- guesses */

/* --draft and --draft-text; zero: no guesses. */
struct tool_draft {
	enum qwen_draft_mode	 mode;
	size_t			 n;
	const char		*text;
	const char		*file;		/* with the block; or NULL */
	struct qwen_drafts	*drafts;	/* once opened, to be freed */
};

void tool_draft_parse(const struct cli_opt *o, const char *arg);

/* When all options are read: usage error if they do not fit together. */
void tool_draft_check(const struct tool_draft *d);

/* How many guesses there are in a pass at most. */
size_t tool_draft_most(const struct tool_draft *d);

/* Get ready.  -v: how many guesses were right.  They die. */
void tool_draft_open(struct tool_draft *d, struct qwen_model *m);
void tool_report_draft(const struct tool_draft *d);

/* qwen_drafter_eval; dies. */
void tool_drafted(struct qwen_drafter *d, struct qwen_session *s, int32_t id,
    size_t room);

/* ----------------------------------------------------- many texts at a time */

/* The scheduler, what it needs, and what has failed; its rows set the options. */
struct tool_work {
	const char		*path;		/* -m */
	int			 n_threads;
	unsigned		 numerics;	/* 0: the usual version */
	uint64_t		 mem;		/* 0: no limit */
	size_t			 n_sequences;	/* TOOL_SEQUENCES at first */
	size_t			 n_pass;
	struct tool_store	 at;
	struct tool_draft	 draft;		/* tool_draft_open() before */
	size_t			 n_keep;	/* of struct qwen_work_opts, */
	unsigned		 pause_ms;	/* and this */
	/* opened */
	struct qwen_model	*model;
	const struct qwen_gguf	*gguf;		/* the model's */
	struct qwen_tok		*tok;
	struct qwen_tok_decoder	*spell;		/* bytes of single tokens */
	struct qwen_cache	*cache;
	struct qwen_store	*store;
	struct qwen_work	*work;
	size_t			 n_ahead;	/* texts to have read */
	/* so far */
	uint64_t		 n_failed, failed_line;	/* the first of them, */
	struct qwen_err		 failed;	/* and why */
};

enum { TOOL_SEQUENCES = 32 };

/* The model and its vocabulary; then the rest.  They die. */
void tool_work_model(struct tool_work *w);
void tool_work_open(struct tool_work *w);
void tool_work_close(struct tool_work *w);

/* qwen_work_step, or die. */
int tool_work_step(struct tool_work *w);

/* qwen_refuse for what err says; returns -1. */
struct qwen_refusal;
int tool_refuse(struct qwen_refusal *no, const char *code,
    const struct qwen_err *err);

/* Count what is done with, if it was refused. */
void tool_note_failed(struct tool_work *w, uint64_t line,
    const struct qwen_refusal *no);

/* Warn if one of n failed, besides those before; the exit status is 3. */
void tool_warn_failed(const struct tool_work *w, uint64_t before, uint64_t n);

/* A note of members of requests that may be misspelt, if there are any. */
struct qwen_text;
struct qwen_unknown;
void tool_report_unknown(const struct qwen_unknown *u);
/* What its notes say, each once. */
void tool_report_notes(struct qwen_unknown *u);

/*
 * How the result of a line of requests begins, {"line":3,"id":"a"; of one that
 * was refused all of it, and 0, else 1.
 */
int tool_begin_result(struct qwen_text *t, uint64_t line, const char *id,
    const struct qwen_refusal *no);

/* --------------------------------------------- texts, and results in order */

struct tool_queue;
struct qwen_ids;

/* A text or several that have one result; at the beginning of what a tool has. */
struct tool_item {
	struct tool_item	*next;
	struct tool_queue	*queue;
	struct qwen_refusal	*no;
	uint64_t		 line;
	size_t			 left;		/* jobs that have not ended */
	size_t			 bytes;		/* of memory, about */
};

/* Hidden states of a text, added up; then what end() makes of them. */
struct tool_pooled {
	struct tool_item	*item;
	double			*sum;		/* until then */
	size_t			 n, n_tokens;
	void			*result;	/* the tool's */
	double			 score;
};

struct tool_queue {
	/* set by the caller */
	struct tool_work	*work;		/* open */
	/* The next one: 1, or 0 at the end; *x may stay NULL, for none. */
	int	(*next)(void *arg, struct tool_item **x);
	/* One could be had without waiting. */
	int	(*waiting)(void *arg);
	/* The states of a text are all there: note what comes of them. */
	void	(*end)(void *arg, struct tool_pooled *p);
	/* All of its jobs have ended: write it, and free it. */
	void	(*put)(void *arg, struct tool_item *x);
	void	*arg;
	/* so far */
	uint64_t		 n_done, n_tokens;
	/* our own */
	struct tool_item	*head, *tail;
	size_t			 n, bytes;
	int			 read;
};

/* All of them, to the end.  Dies. */
void tool_run_in_order(struct tool_queue *o);

/*
 * A job for the item, in whose next() it is: the states of the text, as pooling
 * needs them, end in *p.  The ids are copied.
 */
void tool_pool(struct tool_pooled *p, struct tool_item *x,
    const struct qwen_embedding *how, const struct qwen_ids *text);

/* -v: how many, and how fast, in things called what. */
void tool_report_results(const struct tool_queue *o, const char *what,
    double start);

/* ----------------------------------------------------- how requests fared */

/*
 * Returns the seconds until the next request, for `rate' requests per second on
 * average: gamma distributed. burstiness is the shape: 1 for a Poisson process,
 * less for bursts, more for even gaps.  *rng advances.
 */
double tool_gap(uint64_t *rng, double rate, double burstiness);

/* Times of a request in ms: to the first token, for each after it, and all. */
enum { TOOL_TTFT, TOOL_TPOT, TOOL_E2E, TOOL_N_TIMES };

struct tool_times {
	double	ms[TOOL_N_TIMES];	/* of goals, 0: whatever; of tpot,
					   below 0: there is none */
};

/* "ttft:500,tpot:50,e2e:2000" into struct tool_times, or a usage error. */
void tool_goals_parse(const struct cli_opt *o, const char *s);
int tool_goals_met(const struct tool_times *goals, const struct tool_times *t);

/* Times that were measured; zero at first. */
struct tool_sample {
	double	*v;
	size_t	 n, cap;
};

/* Percentiles that are shown of each sample; 50, 90, 95 and 99 by default. */
enum { TOOL_PERCENTS_MAX = 16 };
extern struct tool_percents {
	size_t	n;
	double	v[TOOL_PERCENTS_MAX];
} tool_percents;
/* "50,90,99.9" into struct tool_percents, or a usage error. */
void tool_percents_parse(const struct cli_opt *o, const char *s);

/* Add a value, unless it is below 0. */
void tool_sample_add(struct tool_sample *s, double ms);
void tool_sample_fini(struct tool_sample *s);

/*
 * Mean, percentiles and maximum, which sorts them: the heading of a table and a
 * line of it; "name":{"n":9,...}; values of CSV, with a comma before each, or
 * for NULL the names of these columns.
 */
void tool_sample_head(struct qwen_text *t);
void tool_sample_text(struct qwen_text *t, const char *name,
    struct tool_sample *s);
void tool_sample_json(struct qwen_text *t, const char *name,
    struct tool_sample *s);
void tool_sample_csv(struct qwen_text *t, const char *name,
    struct tool_sample *s);

/* --------------------------------------------------------------- sampling */

/* The library's sampling options as rows; makes *to, a struct qwen_sampler *. */
const struct cli_opt *tool_sampling_rows(void *to);

/*
 * When all are set: usage error if they do not fit together.  Applies $QWEN_CPU
 * as well.
 */
void tool_sampling_check(struct qwen_sampler *s);

/*
 * --sampling: applies the model's recommended settings to options that have no
 * value; usual: also without --sampling. thinking: answers begin with a
 * thought.  Returns their source, for users, or NULL if there are none.  Dies.
 */
const char *tool_sampling_advise(struct qwen_sampler *s,
    const struct qwen_gguf *g, int usual, int thinking);

/*
 * A seed from the operating system, as digits: below 2^52, so that every program
 * that reads JSON keeps all of them, those of further answers too.  Dies.
 */
enum { TOOL_SEED_ROOM = 24 };
void tool_seed_draw(char buf[TOOL_SEED_ROOM]);

/* Before options are read: without --seed, requests get seeds that are drawn. */
void tool_seed_draws(void);

/* --seed random, or a number; and the note that tells which one was drawn. */
int tool_seed_is_random(void);
int tool_seed_is_given(void);
void tool_report_seed(const struct qwen_sampler *s);

/* -v: what is set, by whose advice, or NULL, and " when" or "". */
void tool_report_sampling(const struct qwen_sampler *s, const char *source,
    const char *when);

/* Whether --sampling asks for that, which takes the model. */
int tool_sampling_asked(void);

/*
 * Give the sampler the texts of the vocabulary if its options need them: what
 * to close when the sampler is gone, or NULL.  Dies.
 */
struct qwen_pieces *tool_sampling_pieces(struct qwen_sampler *s,
    const struct qwen_gguf *g);

struct qwen_cut;

/*
 * Adds a stop string of --stop; it is not copied.  The first call creates *cut,
 * which must be NULL.  Dies.
 */
void tool_stop_at(struct qwen_cut **cut, const char *stop);

/*
 * What is certain to be written of *s, and at the end what was held back; look
 * as of qwen_cut_feed.  Whether a stop was found.  Without a cut all is written.
 */
int tool_stop_feed(struct qwen_cut *cut, struct qwen_str *s, int look);
struct qwen_str tool_stop_end(struct qwen_cut *cut);

/* Choose the token that follows, and let the sampler know.  Dies. */
int32_t tool_choose(struct qwen_sampler *s, const struct qwen_session *from);

/* Whether this id ends a generation from rows with such a header. */
int tool_is_ending(const struct qwen_header *h, int32_t id);

/* --grammar or --json-schema; zero: none. */
struct tool_grammar {
	const char		*path;		/* --grammar; when open, either */
	const char		*schema;	/* --json-schema */
	struct qwen_grammar	*grammar;
	struct qwen_trie	*trie;
	uint64_t		 hash;		/* of the file's bytes */
};

/*
 * Read the file that was given, which tells the sampler that it needs texts;
 * then, with these, get ready; close when the sampler is gone.  They die.
 */
void tool_grammar_open(struct tool_grammar *c, struct qwen_sampler *s);
void tool_grammar_begin(struct tool_grammar *c, const struct qwen_pieces *p,
    struct qwen_sampler *s);
void tool_grammar_close(struct tool_grammar *c);

/* --mask-unused: never choose an id that stands for no token. Dies. */
void tool_mask_unused(struct qwen_sampler *s, const struct qwen_gguf *g);

/* For TOOL_OPT_PLACEHOLDER. */
void tool_placeholder(const struct cli_opt *o, const char *text);

/* A published template, by name; with a slash in it, that of a file.  Dies. */
struct qwen_template *tool_template(const char *name);

/*
 * Gives it the model's token texts, unless g is NULL, and BOS and effort as the
 * options say.  Dies.
 */
void tool_template_set(struct qwen_template *t, const struct qwen_gguf *g);

/*
 * The time for templates: of --date, of the environment, or now.  Returns 0; -1
 * if one of them is invalid. arg is not used.
 */
struct tm;
int tool_template_now(void *arg, struct tm *out);

/* --effort, --effort-high and --date: their words, or NULL. */
struct tool_effort {
	const char	*level, *high, *date;
};
extern struct tool_effort tool_effort;

/* ------------------------------------------------------------------- lines */

enum { TOOL_LINE_MAX = 16 << 20 };	/* bytes */

/* Reads lines of any length without keeping more than max of one. */
struct tool_lines {
	int		 fd;
	const char	*name;		/* for messages */
	size_t		 max;		/* bytes of a line; 0: TOOL_LINE_MAX */
	char		*buf;
	size_t		 n, at, cap;
	uint64_t	 line;		/* number of the last one, from 1 */
	uint64_t	 offset;	/* of the byte after it */
	int		 torn;		/* it had no newline */
	int		 eof;
};

struct tool_line {
	const char	*s;		/* without the newline; until the next
					   call; NULL if it is too long */
	size_t		 n;		/* then the most that one may have */
};

/* Of a file, or stdin: NULL.  Dies. */
void tool_lines_open(struct tool_lines *l, const char *file);

/*
 * Dies if the line is the first and does not look like text; hint says what to
 * do, such as "--force takes it for text".
 */
void tool_lines_check(const struct tool_lines *l, const struct tool_line *line,
    const char *hint);

/* The next line: 1, or 0 at the end. Dies when it cannot read. */
int tool_lines_next(struct tool_lines *l, struct tool_line *out);

/* Nothing but white space; one that is too long is not. */
int tool_line_is_blank(const struct tool_line *line);

/* A line could be had without waiting. */
int tool_lines_waiting(const struct tool_lines *l);

/* How many there are ahead in a regular file; it stays where it is. */
uint64_t tool_lines_count(int fd);

void tool_lines_fini(struct tool_lines *l);

#endif
