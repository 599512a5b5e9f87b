/* SPDX-License-Identifier: ISC */
/*
 * tool.h - what the tools that run a model share: opening models, reading
 * tokens and lines, sampling, and the option rows for these.  Only cmd/ uses
 * it.  Like lib/cli, which it calls, it exits on errors: "dies" below means one
 * line on stderr and exit status 1.
 */
#ifndef TOOL_H
#define TOOL_H

#include "cli/cli.h"
#include "qwen.h"
#include "qwentext.h"
#include "tool/intake.h"

/* ------------------------------------------------------------- option rows */

/*
 * p is a const char ** for tool_model_path().  If the model is an alias, the
 * options of the alias are set, too.
 */
#define TOOL_OPT_MODEL(p) TOOL_OPT_MODEL_ROW(p, \
	"model: a GGUF file, Hugging Face folder, or name")
#define TOOL_OPT_MODEL_ROW(p, h) \
	{ CLI_ROW(TEXT, 'm', "model", "model", CLI_P(const char *, p), h), \
	  .completes = "file gguf", .ready = tool_alias_apply }

#define TOOL_OPT_NUMERICS(p) \
	CLI_CALL(0, "numerics", "version", CLI_P(unsigned, p), \
	    tool_numerics_parse, "words 1 3 4", \
	    "version of the arithmetic, see qwen-numerics(7)")
/* Whether to convert weights when a model is loaded; sets tool_quantize. */
#define TOOL_OPT_QUANTIZE \
	CLI_CALL(0, "quantize", "type", CLI_P(tool_quantize_fn *, \
	    &tool_quantize), tool_quantize_parse, "words none q8_0", \
	    "convert F32, F16 and BF16 weights when loading (default none)")
/* KV cache formats of the models opened afterwards; sets tool_kv. */
#define TOOL_KV_KINDS "f16 q8_0 q4_0 f32"
#define TOOL_OPT_KV \
	CLI_CALL(0, "kv", "kind", CLI_P(int, tool_kv), tool_kv_parse, \
	    "words " TOOL_KV_KINDS, \
	    "number format of the KV cache"), \
	CLI_WORD(0, "kv-k", "kind", CLI_P(int, &tool_kv[0]), TOOL_KV_KINDS, \
	    "format of keys, instead of that of --kv"), \
	CLI_WORD(0, "kv-v", "kind", CLI_P(int, &tool_kv[1]), TOOL_KV_KINDS, \
	    "format of values, instead of that of --kv")
/* Adapters of the models opened afterwards; sets tool_lora. */
#define TOOL_OPT_LORA \
	CLI_CALL(0, "lora", "adapter", CLI_P(struct tool_lora, &tool_lora), \
	    tool_lora_parse, "file gguf", TOOL_LORA_HELP)
#define TOOL_LORA_HELP \
	"apply this LoRA adapter, or FILE=SCALE; repeatable"
/* RoPE scaling of the models opened afterwards; sets tool_rope. */
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
/* p is an int *, such as the strict member of a struct qwen_unknown. */
#define TOOL_OPT_STRICT(p) CLI_FLAG(0, "strict", p, \
	"reject requests with unknown fields")
#define TOOL_OPT_STRICT_CALLS(p) CLI_FLAG(0, "strict-calls", p, \
	"accept only tool calls in exactly the template's form")
/* p is an enum qwen_systems *. */
#define TOOL_OPT_SYSTEMS(p) CLI_WORD(0, "system-messages", \
	"remind | first | template", \
	CLI_P(enum qwen_systems, p), "remind first template", \
	"how to pass system messages that the template rejects")
/* p is a const char **: NULL without the option, "" without its argument. */
#define TOOL_OPT_PLACEHOLDER(p) CLI_CALL(0, "image-placeholder", "[text]", \
	CLI_P(const char *, p), tool_placeholder, NULL, \
	"replace images and documents by a line of text")
#define TOOL_OPT_OUTPUT(p) CLI_STD('o', "output", "output", p, \
	"output", "write to this file instead of stdout")
/* The options of a struct tool_store. */
#define TOOL_OPT_STORE_DIR(p) \
	{ CLI_ROW(TEXT, 0, "store", "folder", CLI_P(const char *, p), \
	    "prefix store: folder that keeps prompts already read"), \
	  .completes = "folder", .min = 1 }
#define TOOL_OPT_STORE_MAX(p) \
	CLI_CALL(0, "store-max", "size", CLI_P(uint64_t, p), tool_store_max_parse, \
	    "words none 20G", \
	    "limit of the store's size")
#define TOOL_OPT_STORE(s) TOOL_OPT_STORE_DIR(&(s)->dir), \
	CLI_FLAG(0, "no-store", &(s)->none, "use no store, even if " \
	    "$QWEN_STORE names one"), \
	TOOL_OPT_STORE_MAX(&(s)->max)
/* The options of a struct tool_work: how to compute, */
#define TOOL_OPT_COMPUTE(w) CLI_OPT_THREADS(&(w)->n_threads), \
	TOOL_OPT_NUMERICS(&(w)->numerics), TOOL_OPT_QUANTIZE, TOOL_OPT_KV
/* how many sequences and tokens at a time, */
#define TOOL_OPT_PASSES(w) \
	TOOL_OPT_ROPE, \
	CLI_BYTES(0, "mem", "size", &(w)->mem, 1, \
	    "limit of memory for caches and states, as in 20G"), \
	CLI_INT(0, "max-sequences", "n", &(w)->n_sequences, 1, 4096, \
	    "at most N texts at the same time (default 32)"), \
	TOOL_OPT_BATCH(&(w)->n_pass)
/* and, for tools that serve clients, what to keep and how long to pause. */
#define TOOL_OPT_TURNS(w) \
	CLI_INT(0, "keep", "n", &(w)->n_keep, 0, 1 << 16, \
	    "keep N texts in memory, to continue them (default 64)"), \
	CLI_INT(0, "pause", "ms", &(w)->pause_ms, 0, 1 << 20, \
	    "longest pause of generation for a prompt, in ms, roughly " \
	    "(default 500)"), \
	TOOL_OPT_DRAFT(&(w)->draft)
#define TOOL_OPT_WORK(w) TOOL_OPT_COMPUTE(w), TOOL_OPT_LORA, \
	TOOL_OPT_PASSES(w), TOOL_OPT_STORE(&(w)->at)
/* The options of a struct tool_grammar. */
#define TOOL_OPT_GRAMMAR(g) \
	CLI_FILE(0, "grammar", "file", &(g)->path, "file", \
	    "generate only text that this grammar allows"), \
	CLI_FILE(0, "json-schema", "file", &(g)->schema, "file json", \
	    "generate only JSON that is valid by this schema")
/* The options of a struct tool_draft. */
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
/* Applies to the tokenizers that tool_tok_open() opens. */
#define TOOL_OPT_NFC \
	CLI_FLAG(0, "nfc", &tool_nfc, \
	    "normalise text to NFC before tokenizing it")
#define TOOL_OPT_IGNORE_EOS(p) \
	CLI_FLAG(0, "ignore-eos", p, "continue after tokens that end a text")
/* Whether texts begin with BOS; read by tool_bos(). */
#define TOOL_OPT_BOS \
	CLI_SET(0, "bos", &tool_bos_flags, TOOL_BOS, \
	    "always begin texts with the BOS token"), \
	CLI_SET(0, "no-bos", &tool_bos_flags, TOOL_NO_BOS, \
	    "never begin texts with the BOS token")
/* Reasoning effort and date for chat templates; sets tool_effort. */
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
/* p is a struct qwen_sampler **; the row creates the sampler. */
#define TOOL_OPT_SAMPLING(p) \
	CLI_ROWS(CLI_P(struct qwen_sampler *, p), tool_sampling_rows)

/* ---------------------------------------------------------------- the model */

/*
 * Returns the path of the model to use: opt (the argument of -m) if not NULL,
 * else $QWEN_MODEL, both resolved by tool_model_find(); else the demo model
 * installed with this executable.  Dies if there is none.
 */
const char *tool_model_path(const char *opt);

/*
 * The same for a tool that reads a stream.  If the user named no model,
 * tool_model_path() notes that the demo model is used; tool_model_path_stream()
 * leaves this note to tool_demo_note().  Call that with said = 1 if the stream
 * has a header: then the tool upstream has printed the note, and it is not
 * repeated.
 */
const char *tool_model_path_stream(const char *opt);
void tool_demo_note(int said);

/*
 * Resolves the argument of -m or an operand: an existing path, else an alias,
 * else a model in tool_model_folders().  Dies if there is none or the name is
 * ambiguous.  Uses no network.
 */
const char *tool_model_find(const char *given);

/*
 * Returns the name that tool_model_find() resolved to this path, else the last
 * component of the path.
 */
const char *tool_model_name(const char *path);

/*
 * Whether n bytes of name are the name of a sampling option: 0 if not, 1 if the
 * option takes an argument, 2 if it takes none. tool_sampling_rows() sets the
 * pointer; it is NULL in tools that do not sample, so that they need not link
 * the sampler.
 */
typedef int tool_is_sampling_fn(const char *name, size_t n);
extern tool_is_sampling_fn *tool_is_sampling;

/* If the argument of -m is an alias, sets the options of the alias. */
void tool_alias_apply(const struct cli_opt *o);

/* Returns this user's model folders, from the environment. */
struct qwen_model_folders;
const struct qwen_model_folders *tool_model_folders(void);

/*
 * Return the first folder of Hugging Face, ModelScope and Ollama models; NULL
 * if neither their variable nor HOME is set.
 */
const char *tool_hub_cache(void);
const char *tool_modelscope_cache(void);
const char *tool_ollama_models(void);

/* Returns the model that an alias stands for; name itself if it is no alias. */
const char *tool_alias(const char *name);

/* Returns all aliases; *file is the path of their file, which may not exist. */
struct qwen_aliases;
const struct qwen_aliases *tool_aliases(const char **file);

/*
 * Returns the path of a program in this executable's folder, or its name if it
 * is not there.
 */
const char *tool_sibling_path(const char *name);

/*
 * The function that --quantize sets, or NULL.  It converts the matrices of a
 * model in memory with `threads' threads (0: one per processor) and returns the
 * model; it notes the time and the memory, and dies on errors. g is the open
 * file, which the result then owns, or NULL if path is a Hugging Face folder.
 */
typedef struct qwen_gguf *tool_quantize_fn(struct qwen_gguf *g,
    const char *path, int threads);
extern tool_quantize_fn *tool_quantize;
void tool_quantize_parse(const struct cli_opt *o, const char *arg);

/* Open a GGUF file or a Hugging Face folder, apply tool_quantize.  They die. */
struct qwen_gguf *tool_gguf_open(const char *path);
struct qwen_gguf *tool_gguf_open_threads(const char *path, int threads);

/*
 * Opens the tokenizer with the options --bos and --nfc applied.  Prints a note
 * if the file names no pre-tokenizer.  Dies.
 */
struct qwen_tok *tool_tok_open(const struct qwen_gguf *g, unsigned what);
extern int tool_nfc;	/* --nfc */

/* Returns the choice of --bos and --no-bos; a usage error if both are given. */
enum { TOOL_BOS = 1, TOOL_NO_BOS = 2 };
extern unsigned tool_bos_flags;
enum qwen_bos tool_bos(void);

/*
 * Protects the files of a Hugging Face model or adapter (weights, config,
 * vocabulary, templates) from being replaced by an output of the tool.
 */
void tool_protect_folder(const char *folder);

/*
 * Returns the tuning file in the user's cache folder, for struct
 * qwen_model_opts.tuning; NULL if there is no such folder.
 */
const char *tool_tuning(void);

/*
 * Returns the instruction-set level in $QWEN_CPU, for struct qwen_model_opts;
 * NULL if unset or empty.  If this CPU lacks the level, prints one note; the
 * library then uses the best level below it.  Usage error for an unknown level.
 */
const char *tool_cpu(void);

/*
 * Open the model of tool_model_path() with the options set so far; numerics 0
 * is the default. tool_model_open_draft also loads the MTP block, if d wants it
 * and the model has one.  They die.
 */
struct tool_draft;
struct qwen_model *tool_model_open(const char *opt, int n_threads,
    unsigned numerics);
struct qwen_model *tool_model_open_draft(const char *opt, int n_threads,
    unsigned numerics, const struct tool_draft *d);

extern int tool_force;		/* --force */
extern int tool_kv[2];		/* --kv: an enum qwen_kv for keys, one for
				   values */
extern struct qwen_rope tool_rope;	/* --rope-scaling */
struct cli_opt;
void tool_numerics_parse(const struct cli_opt *o, const char *arg);
/* Dies if no program can continue a state of this numerics version. */
void tool_numerics_check(const char *name, uint32_t version);
void tool_kv_parse(const struct cli_opt *o, const char *arg);
void tool_rope_parse(const struct cli_opt *o, const char *arg);

/* --lora: adapters of the models opened afterwards; o->to is one of these. */
struct tool_lora {
	struct qwen_adapter	*v;
	size_t			 n, cap;
};
extern struct tool_lora tool_lora;
void tool_lora_parse(const struct cli_opt *o, const char *arg);

/* Returns the bytes of available memory; UINT64_MAX if unknown. */
uint64_t tool_memory_free(void);

/* The resources that a command needs, for tool_memory_check. */
struct tool_need {
	size_t		 n_tokens;	/* of each sequence */
	size_t		 n_sequences;	/* 0: one */
	size_t		 batch;		/* tokens per pass; 0: the default */
	const struct qwen_checkpoints *keep;	/* in each sequence; NULL:
						   none */
	const struct tool_draft *draft;		/* NULL: no speculative
						   decoding */
	uint64_t	 cache;		/* limit of cache and states in bytes;
					   0: no limit */
	int		 in_memory;	/* the weights are in memory, not mapped
					   from a file */
};

/*
 * Dies if the available memory, as far as it is known, does not suffice.  Call
 * it before anything is allocated.  --force skips the check.
 */
void tool_memory_check(const struct qwen_model *m,
    const struct tool_need *need);

/*
 * Creates a cache of *mem bytes; if *mem is 0, sets it to seven eighths of the
 * available memory by tool_memory_share.  Checks *mem with tool_memory_check.  Dies if
 * *mem is too little for one sequence; notes if it is more than is available.
 */
struct qwen_cache *tool_cache_open(struct qwen_model *m, uint64_t *mem,
    struct tool_need need);

/*
 * Returns `eighths' eighths of the memory left beside the weights; or the need
 * of one sequence that fills the context, if that is more and at most seven
 * eighths. 0 if unknown.
 */
uint64_t tool_memory_share(const struct qwen_model *m, unsigned eighths);

/* Returns freed memory to the system, for servers that have become idle. */
void tool_memory_return(void);

/* Fills in the header of a stream of this kind for model m.  Dies. */
void tool_header_init(struct qwen_header *h, enum qwen_stream_kind kind,
    const struct qwen_model *m);

/*
 * -v: prints the model, the threads and the kernels in use, and starts the
 * counters of tool_report_stats().
 */
void tool_report_model(struct qwen_model *m);

/* -v: calls, time (summed over threads) and rates of each stage. */
void tool_report_stats(const struct qwen_model *m);

/* ---------------------------------------------------------------- streams */

/*
 * tool_writer opens a writer; tool_write_header writes the header of a stream
 * of model m.  They die.
 */
struct qwen_writer *tool_writer(int fd, enum qwen_format format);
void tool_write_header(struct qwen_writer *w, enum qwen_stream_kind kind,
    const struct qwen_model *m);

/*
 * Reads the *n ids of a token stream, to be freed, also after an error; stops
 * when it has at least `need'.  Returns -1 and *err on failure; dies if out of
 * memory.
 */
int tool_read_ids(int fd, const struct qwen_reader_opts *o, size_t need,
    int32_t **ids, size_t *n, struct qwen_err *err);

/*
 * Returns what the n bytes at the beginning of an input are, such as "a GGUF
 * model file", or NULL if they may be text.  Text need not be UTF-8. nuls:
 * bytes of value 0 are allowed in text.
 */
const char *tool_not_text(const void *p, size_t n, int nuls);

/* ----------------------------------------------------------------- servers */

/* Makes a descriptor close on exec and nonblocking; -1 with errno set. */
int tool_fd_prepare(int fd);

/*
 * Returns a descriptor that becomes readable when SIGTERM or SIGINT arrives; a
 * second signal ends the process.  SIGPIPE is ignored from then on.  Dies.
 */
int tool_wake_open(void);

/*
 * Notes that the server is ending and waits until the n requests in progress
 * are `what': "done" or "answered".
 */
void tool_report_ending(size_t n, const char *what);

/*
 * Listens at a path that the users admitted by mode may open, and returns the
 * descriptor.  Replaces a socket that no process listens at.  Dies.
 * tool_socket_close also removes the path.
 */
int tool_socket_listen(const char *path, unsigned mode);
void tool_socket_close(int fd, const char *path);

/*
 * Accepts the next client: returns its descriptor, nonblocking and
 * close-on-exec; -1 with errno set if there is none.
 */
int tool_socket_accept(int listener);

/* ---------------------------------------------------- speculative decoding */

/* --draft and --draft-text; all zero: auto. */
struct tool_draft {
	enum qwen_tmpfile_mode	 mode;
	size_t			 n;
	const char		*text;
	const char		*file;		/* has the MTP block; or NULL */
	struct qwen_drafts	*drafts;	/* from tool_draft_open; to be
						   freed */
};

void tool_draft_parse(const struct cli_opt *o, const char *arg);

/* Call after reading all options: usage error if they contradict each other. */
void tool_draft_check(const struct tool_draft *d);

/* Returns the largest number of drafts per pass. */
size_t tool_draft_max(const struct tool_draft *d);

/*
 * tool_draft_open creates d->drafts; tool_report_draft prints, with -v, how
 * many drafts were right.  They die.
 */
void tool_draft_open(struct tool_draft *d, struct qwen_model *m);
void tool_report_draft(const struct tool_draft *d);

/* qwen_drafter_eval; dies on errors. */
void tool_drafter_eval(struct qwen_drafter *d, struct qwen_session *s,
    int32_t id,
    size_t room);

/* ----------------------------------------------------- many texts at a time */

/*
 * The scheduler, everything it needs, and a count of the failed requests.  The
 * option rows set the first members.
 */
struct tool_work {
	const char		*path;		/* -m */
	int			 n_threads;
	unsigned		 numerics;	/* 0: the default version */
	uint64_t		 mem;		/* 0: no limit */
	size_t			 n_sequences;	/* the caller sets
						   TOOL_SEQUENCES */
	size_t			 n_pass;
	struct tool_store	 at;
	struct tool_draft	 draft;		/* opened by
						   tool_draft_open() */
	size_t			 n_keep;	/* as in struct
						   qwen_work_opts */
	unsigned		 pause_ms;	/* in ms; pause_s there */
	/* set by tool_work_open_model and tool_work_open: */
	struct qwen_model	*model;
	const struct qwen_gguf	*gguf;		/* of the model */
	struct qwen_tok		*tok;
	struct qwen_tok_decoder	*spell;		/* bytes of single tokens */
	struct qwen_cache	*cache;
	struct qwen_store	*store;
	struct qwen_work	*work;
	size_t			 n_ahead;	/* number of texts to read
						   ahead */
	/* results so far: */
	uint64_t		 n_failed, failed_line;	/* failed_line: of the
							   first failure */
	struct qwen_err		 failed;	/* the first failure */
};

enum { TOOL_SEQUENCES = 32 };

/*
 * tool_work_open_model opens the model and its tokenizer; then tool_work_open opens
 * the rest.  They die.
 */
void tool_work_open_model(struct tool_work *w);
void tool_work_open(struct tool_work *w);
void tool_work_close(struct tool_work *w);

/* qwen_work_step; dies on errors. */
int tool_work_step(struct tool_work *w);

/*
 * Refuses a request with the code and the message of err (qwen_refuse); returns
 * -1.  The code is out_of_memory for QWEN_EFULL and invalid_request for
 * QWEN_ERANGE.
 */
struct qwen_refusal;
int tool_refuse(struct qwen_refusal *refusal, const char *code,
    const struct qwen_err *err);

/* Counts a finished request if it was refused. */
void tool_note_failed(struct tool_work *w, uint64_t line,
    const struct qwen_refusal *refusal);

/*
 * If any of n requests failed, warns and sets exit status 3. `before' failures
 * are added to those counted in w.
 */
void tool_warn_failed(const struct tool_work *w, uint64_t before, uint64_t n);

/* Notes the unknown fields of requests, if any; they may be misspelt. */
struct qwen_text;
struct qwen_unknown;
void tool_report_unknown(const struct qwen_unknown *u);
/* Prints each note of u that was not printed yet. */
void tool_report_notes(struct qwen_unknown *u);

/*
 * Writes the beginning of the result of one request, {"line":3,"id":"a", and
 * returns 1.  For a refused request it writes the complete result and returns
 * 0.
 */
int tool_begin_result(struct qwen_text *t, uint64_t line, const char *id,
    const struct qwen_refusal *refusal);

/* ---------------------------------------------------------- results in order */

/*
 * One input whose result is one unit of output.  Tools put it first in a struct
 * of their own.
 */
struct tool_input {
	struct tool_input	*next;
	size_t			 left;		/* its jobs that have not
						   ended */
	size_t			 bytes;		/* of memory, roughly */
	int			 has_more;	/* more() has jobs to add */
};

struct tool_queue {
	/* set by the caller */
	struct tool_work	*work;		/* opened */
	/*
	 * Reads the next input and adds its jobs.  Returns 1, or 0 at the end
	 * of the input. *x stays NULL if the input gave no item.
	 */
	int	(*next)(void *arg, struct tool_input **x);
	/*
	 * Adds the next job of the last input, if that has more of them than
	 * the scheduler takes at once; may be NULL.
	 */
	void	(*more)(void *arg, struct tool_input *x);
	/* Returns 1 if next() would not wait for input. */
	int	(*waiting)(void *arg);
	/* All jobs of x have ended: write its result, and free x. */
	void	(*put)(void *arg, struct tool_input *x);
	void	*arg;
	int	unordered;	/* put results in any order */
	/* results so far: */
	uint64_t		 n_done;
	/* used by queue.c; bytes: of all items, for tools that change theirs */
	struct tool_input	*head, *tail;
	size_t			 n, bytes;
	int			 read;
};

/* Processes the input to its end.  Dies. */
void tool_queue_run(struct tool_queue *o);

/*
 * -v: prints how many results there are, of n_tokens tokens, and how fast; what
 * names them.
 */
void tool_report_results(const struct tool_work *w, uint64_t n,
    uint64_t n_tokens, const char *what, double start);

/* --------------------------------------------------------- request timing */

/*
 * Returns the seconds until the next request of a Poisson process with `rate'
 * requests per second on average.  *rng advances.
 */
double tool_request_gap(uint64_t *rng, double rate);

/* Times of a request in ms: to the first token, per later token, and total. */
enum { TOOL_TTFT, TOOL_TPOT, TOOL_E2E, TOOL_N_TIMES };

struct tool_times {
	double	ms[TOOL_N_TIMES];	/* of a goal: 0 for none; of a request:
					   tpot below 0 if there is none */
};

/*
 * tool_goals_parse parses "ttft:500,tpot:50,e2e:2000" into a struct tool_times;
 * usage error if invalid. tool_goals_met returns 1 if all times of t are within
 * the goals.
 */
void tool_goals_parse(const struct cli_opt *o, const char *s);
int tool_goals_met(const struct tool_times *goals, const struct tool_times *t);

/* Measured times; all zero at first. */
struct tool_timings {
	double	*v;
	size_t	 n, cap;
};

/* Adds a value unless it is negative. */
void tool_timings_add(struct tool_timings *s, double ms);
void tool_timings_fini(struct tool_timings *s);

/* Compares two doubles, for qsort(3). */
int tool_by_value(const void *a, const void *b);

/*
 * Computes the mean, the percentiles 50, 90, 95 and 99, and the maximum of a
 * sample, and sorts it; all are 0 for an empty sample.
 */
enum { TOOL_N_STATS = 6 };
extern const char *const tool_stat_names[TOOL_N_STATS];
void tool_timings_stats(struct tool_timings *s, double out[TOOL_N_STATS]);

/*
 * Write these statistics: head writes the heading of a table and text one line
 * of it; json writes "name":{"n":9,...}.
 */
void tool_timings_head(struct qwen_text *t);
void tool_timings_text(struct qwen_text *t, const char *name,
    struct tool_timings *s);
void tool_timings_json(struct qwen_text *t, const char *name,
    struct tool_timings *s);

/* --------------------------------------------------------------- sampling */

/*
 * Returns the library's sampling options as rows; creates *to, a struct
 * qwen_sampler *.
 */
const struct cli_opt *tool_sampling_rows(void *to);

/*
 * Applies $QWEN_CPU.  Call it after all options are set: usage error if they
 * contradict each other.
 */
void tool_sampling_check(struct qwen_sampler *s);

/*
 * --sampling: applies the model's recommended settings to the options that the
 * user did not set. usual: apply them also without --sampling. thinking: for
 * answers that begin with a thought.  Returns the source of the settings, for
 * messages, or NULL if none were applied.  Dies.
 */
const char *tool_sampling_advise(struct qwen_sampler *s,
    const struct qwen_gguf *g, int usual, int thinking);

/*
 * Writes a random seed from the operating system as decimal digits.  Seeds are
 * below 2^52, so that every JSON reader keeps all digits, even of the seeds
 * after them.  Dies.
 */
enum { TOOL_SEED_ROOM = 24 };
void tool_seed_draw(char buf[TOOL_SEED_ROOM]);

/* Call before options are read: --help then shows "random" as default seed. */
void tool_seed_draws(void);

/*
 * Whether --seed is "random", or a number.  The last one prints a random seed.
 */
int tool_seed_is_random(void);
int tool_seed_is_given(void);
void tool_report_seed(const struct qwen_sampler *s);

/*
 * -v: prints the sampling settings; source is from tool_sampling_advise or
 * NULL, when is " with thinking" or "".
 */
void tool_report_sampling(const struct qwen_sampler *s, const char *source,
    const char *when);

/* Returns 1 if --sampling wants recommended settings, which needs the model. */
int tool_sampling_asked(void);

/*
 * Gives the sampler the texts of the vocabulary if its options need them.
 * Returns them, to be closed after the sampler is freed, or NULL.  Dies.
 */
struct qwen_pieces *tool_sampling_pieces(struct qwen_sampler *s,
    const struct qwen_gguf *g);

struct qwen_stop_finder;

/*
 * Adds a stop string of --stop; it is not copied.  The first call creates *cut,
 * which must be NULL.  Dies.
 */
void tool_stop_at(struct qwen_stop_finder **cut, const char *stop);

/*
 * tool_stop_feed is qwen_stop_finder_feed that dies: it sets *s to the text that is
 * certain and returns 1 if a stop string was found. tool_stop_end returns the
 * text held back.  With cut NULL, all text is certain.
 */
int tool_stop_feed(struct qwen_stop_finder *cut, struct qwen_str *s, int look);
struct qwen_str tool_stop_end(struct qwen_stop_finder *cut);

/* Chooses the next token after the session and accepts it.  Dies. */
int32_t tool_sample_token(struct qwen_sampler *s,
    const struct qwen_session *from);

/* Returns 1 if id is one of the end-of-generation tokens of the header. */
int tool_is_ending(const struct qwen_header *h, int32_t id);

/* --grammar or --json-schema; all zero: neither. */
struct tool_grammar {
	const char		*path;		/* --grammar; after open, either
						   file */
	const char		*schema;	/* --json-schema */
	struct qwen_grammar	*grammar;
	struct qwen_trie	*trie;
	uint64_t		 hash;		/* of the file's bytes */
};

/*
 * tool_grammar_open reads the file and constrains the sampler, which then needs
 * the texts of tokens; tool_grammar_begin prepares the grammar with these
 * texts.  They die.
 */
void tool_grammar_open(struct tool_grammar *c, struct qwen_sampler *s);
void tool_grammar_begin(struct tool_grammar *c, const struct qwen_pieces *p,
    struct qwen_sampler *s);

/* --mask-unused: never chooses an id that stands for no token.  Dies. */
void tool_mask_unused(struct qwen_sampler *s, const struct qwen_gguf *g);

/* Parses the option of TOOL_OPT_PLACEHOLDER. */
void tool_placeholder(const struct cli_opt *o, const char *text);

/*
 * Opens a published template by its name, or a template file if name has a
 * slash.  Dies.
 */
struct qwen_template *tool_template(const char *name);

/*
 * Sets the clock, the BOS token and the reasoning effort of a template as the
 * options say; g has the model's token texts, or is NULL.  Dies.
 */
void tool_template_set(struct qwen_template *t, const struct qwen_gguf *g);

/*
 * Writes the time for templates to *out: that of --date, of $SOURCE_DATE_EPOCH,
 * or now.  Returns -1 if the date is invalid.  Ignores arg.
 */
struct tm;
int tool_template_now(void *arg, struct tm *out);

/* Arguments of --effort, --effort-high and --date, or NULL. */
struct tool_effort {
	const char	*level, *high, *date;
};
extern struct tool_effort tool_effort;

/* ------------------------------------------------------------------- lines */

enum { TOOL_LINE_MAX = 16 << 20 };	/* bytes */

/* A reader of lines of any length; it stores at most max bytes of a line. */
struct tool_lines {
	int		 fd;
	const char	*name;		/* for messages */
	size_t		 max;		/* bytes of a line; 0: TOOL_LINE_MAX */
	char		*buf;
	size_t		 n, at, cap;
	uint64_t	 line;		/* number of the last line, from 1 */
	uint64_t	 offset;	/* of the byte after that line */
	int		 torn;		/* the last line had no newline */
	int		 eof;
};

struct tool_line {
	const char	*s;		/* without the newline; valid until the
					   next call; NULL if the line is too
					   long */
	size_t		 n;		/* length; if s is NULL, the limit */
};

/* Opens a file; NULL is stdin.  Dies. */
void tool_lines_open(struct tool_lines *l, const char *file);

/*
 * Dies if the line is the first one and does not look like text.  The message
 * is "NAME: this is KIND, not HINT".
 */
void tool_lines_check(const struct tool_lines *l, const struct tool_line *line,
    const char *hint);

/* Reads the next line: returns 1, or 0 at the end.  Dies if reading fails. */
int tool_lines_next(struct tool_lines *l, struct tool_line *out);

/* Returns 1 if the line has only white space; 0 if it is too long. */
int tool_line_is_blank(const struct tool_line *line);

/* Returns 1 if tool_lines_next would not wait for input. */
int tool_lines_waiting(const struct tool_lines *l);

/*
 * Returns the number of newlines after the current offset of a regular file;
 * the offset does not change. 0 for a file without offsets.
 */
uint64_t tool_lines_count(int fd);

void tool_lines_fini(struct tool_lines *l);

/* ----------------------------------------------------------------- network */

/*
 * Call this before a host name is looked up.  In a static tool it limits the lookup
 * to /etc/hosts and DNS; otherwise it does nothing.
 */
void tool_network_init(void);

/*
 * Returns the file of CA certificates that a static tool passes to libcurl:
 * $SSL_CERT_FILE, or the one of the distribution that it runs on.  NULL if there is
 * none, and in tools that are not static, whose libcurl knows the file.
 */
const char *tool_ca_file(void);

#endif
