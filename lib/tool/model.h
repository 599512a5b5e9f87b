/* SPDX-License-Identifier: ISC */
/*
 * model.h - part of tool.h: the model that a tool opens, its memory, adapters
 * and drafts, and what -v prints about it.
 */
#ifndef TOOL_MODEL_H
#define TOOL_MODEL_H

#include "cli/cli.h"
#include "qwen.h"
#include "qwentext.h"

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
 * Returns the name or alias that tool_model_find() resolved to this path, else
 * the last component of the path.
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
 * Returns $name/rest for a variable of the XDG specification, or
 * $HOME/usual/rest if the variable is unset or not an absolute path; NULL
 * without HOME.  To be freed.
 */
char *tool_xdg(const char *name, const char *usual, const char *rest);

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
/* The list of --device; NULL: that of QWEN_DEVICE. */
extern const char *tool_device;
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
struct qwen_model *tool_model_open(const char *opt, int n_threads,
    unsigned numerics);
struct qwen_model *tool_model_open_draft(const char *opt, int n_threads,
    unsigned numerics, const struct tool_draft *d);

/*
 * The open model whose threads compute for models opened afterwards; NULL: each
 * has threads of its own.
 */
extern const struct qwen_model *tool_share;

extern int tool_force;		/* --force */
extern int tool_kv[2];		/* --kv: an enum qwen_kv for keys, one for
				   values */
extern struct qwen_rope tool_rope;	/* --rope-scaling */
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

#endif
