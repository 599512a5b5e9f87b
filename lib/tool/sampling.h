/* SPDX-License-Identifier: ISC */
/*
 * sampling.h - part of tool.h: sampling options, seeds, stop strings, grammars
 * and chat templates.
 */
#ifndef TOOL_SAMPLING_H
#define TOOL_SAMPLING_H

#include "cli/cli.h"
#include "qwen.h"
#include "qwentext.h"

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

/* Set before options are read: --help shows "random" as default seed. */
extern int tool_seed_draws;

/* --seed.  tool_report_seed prints a random seed. */
extern enum tool_seed {
	TOOL_SEED_USUAL, TOOL_SEED_NUMBER, TOOL_SEED_RANDOM
} tool_seed;
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

#endif
