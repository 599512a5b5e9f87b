/* SPDX-License-Identifier: ISC */
/*
 * qwen/sample.h - choosing tokens from logits.
 *
 * new; set, as often as wanted; begin; accept what was read; then sample and
 * accept in turn.  Without options the best token is chosen each time.
 */
#ifndef QWEN_QWEN_SAMPLE_H
#define QWEN_QWEN_SAMPLE_H

#include "qwen/base.h"
#include "qwen/constraint.h"
#include "qwen/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Choosing a token from a row of logits.  The sampling methods are collected
 * when the library is built, and each declares its options: a tool takes its
 * option table, its ranges and its help from here.  One sampler is for one
 * thread and one timeline at a time; different ones share nothing.
 */
enum qwen_sample_type {
	QWEN_SAMPLE_FLAG,	/* no value; 0 or 1 */
	QWEN_SAMPLE_INT,	/* 64 bits, signed */
	QWEN_SAMPLE_UINT,	/* 64 bits, unsigned; min and max do not count */
	QWEN_SAMPLE_REAL,	/* a double */
	QWEN_SAMPLE_TEXT,	/* a text */
	QWEN_SAMPLE_LIST,	/* texts: each setting adds one */
};

struct qwen_sample_opt {
	const char	*name;	/* long option without dashes, "top-k" */
	enum qwen_sample_type type;
	const char	*arg;	/* what usage calls the value, NULL for a flag */
	double		 min, max;	/* inclusive */
	double		 def;	/* default */
	const char	*help;	/* one line, no full stop */
	/*
	 * The JSON fields of requests that set it as a number, ending with NULL;
	 * of several in a request the last of this list counts.  below_off: a
	 * number below 0 in a request means 0, which turns it off.
	 */
	const char	*fields[3];
	int		 below_off;
};

/* All options: seed and chain first, then by the usual order of the methods. */
size_t qwen_sample_n_opts(void);
const struct qwen_sample_opt *qwen_sample_opt(size_t i);

struct qwen_sampler;

/* A sampler with all options at their defaults, which choose the best token. */
int qwen_sampler_new(struct qwen_sampler **out, struct qwen_err *err);
void qwen_sampler_free(struct qwen_sampler *s);

/*
 * Another sampler of the same options, ending and masked tokens, CPU level,
 * pieces, biases and constraint (which are not copied), that has not begun.
 */
int qwen_sampler_copy(struct qwen_sampler **out, const struct qwen_sampler *from,
    struct qwen_err *err);

/*
 * Set an option from text, before begin; NULL sets a flag.  QWEN_EUNSUP if no
 * method has it, QWEN_ERANGE for a bad value.
 */
int qwen_sampler_set(struct qwen_sampler *s, const char *name,
    const char *text, struct qwen_err *err);

/* Set an option back to its default, as if it was never set; before begin. */
void qwen_sampler_reset(struct qwen_sampler *s, const char *name);

/* The value of an option that is a number; NaN if there is none of that name. */
double qwen_sampler_number(const struct qwen_sampler *s, const char *name);

/* That of "seed", all of its 64 bits. */
uint64_t qwen_sampler_seed(const struct qwen_sampler *s);

/*
 * Whether all that it would ever do is to take the best token of each row, the
 * lowest id among equals: then none is needed.
 */
int qwen_sampler_is_greedy(const struct qwen_sampler *s);

/* Whether a choice depends on the seed: 1; 0 if no random number is used. */
int qwen_sampler_draws(const struct qwen_sampler *s);

/*
 * What differs from the defaults, "temp=0.7 top-k=40"; length as snprintf.  In
 * texts, white space, what is not ASCII and % are written as % and two
 * hexadecimal digits.
 */
size_t qwen_sampler_describe(const struct qwen_sampler *s, char *buf,
    size_t size);

/* The i-th text that an option was given, or NULL. */
const char *qwen_sampler_text(const struct qwen_sampler *s, const char *name,
    size_t i);

/* Set what qwen_sampler_describe wrote. */
int qwen_sampler_read(struct qwen_sampler *s, const char *text,
    struct qwen_err *err);

/*
 * What the makers of a model advise, as qwen_sampler_describe writes settings: its
 * file's own (general.sampling.*), or if it has none, those of the published
 * family that it is of, by name, else by architecture and vocabulary; thinking:
 * for answers that begin with a thought.  "" where nothing is known.  source is
 * where they come from, for people.  Fails where a key of the file has no number.
 */
struct qwen_advice {
	char		 settings[256];
	const char	*source;
};

int qwen_sampling_advice(const struct qwen_gguf *g, int thinking,
    struct qwen_advice *out, struct qwen_err *err);

/*
 * Such settings for the options that nobody has set, in place of those that an
 * earlier call gave; those of methods that the chain leaves out are passed over.
 * None of them applies if the caller has set temp=0 or greedy: such a caller gets
 * the best token, by the penalties that the caller has set: 1.  Before begin.
 */
int qwen_sampler_advise(struct qwen_sampler *s, const char *settings,
    struct qwen_err *err);

/*
 * Whether the options fit together: QWEN_ERANGE if one is set whose method the
 * chain leaves out.
 */
int qwen_sampler_check(const struct qwen_sampler *s, struct qwen_err *err);

/*
 * Use no instruction set beyond a level, as in struct qwen_model_opts; the
 * tokens are the same.
 */
int qwen_sampler_cpu(struct qwen_sampler *s, const char *level,
    struct qwen_err *err);

/* Whether the options work on the texts of tokens: qwen_sampler_pieces. */
int qwen_sampler_needs_pieces(const struct qwen_sampler *s);

/*
 * The texts of the vocabulary (qwen_pieces_open of libqwentext), which must live
 * as long as s; before begin.
 */
struct qwen_pieces;

void qwen_sampler_pieces(struct qwen_sampler *s, const struct qwen_pieces *p);

/* The tokens that end a generation, for min-tokens (a copy is kept). */
int qwen_sampler_eog(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err);

/*
 * Choose such tokens only that the reply, what is generated after the last
 * token of the prompt, goes on as the constraint has it, and ends where that
 * does.  A thinking block comes before it, if there is one.  Needs
 * qwen_sampler_pieces, of the vocabulary that the constraint is for.  Before
 * begin.
 */
void qwen_sampler_constrain(struct qwen_sampler *s, struct qwen_constraint c);

/*
 * Add x[i] to the logit of token ids[i], after --logit-bias does; finite numbers,
 * which are borrowed, and by copies of the sampler too.  Before begin.
 */
void qwen_sampler_bias(struct qwen_sampler *s, const int32_t *ids,
    const float *x, size_t n);

/* Never choose these tokens (a copy is kept; n 0 allows all again). */
int qwen_sampler_mask(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err);

/*
 * Begin a timeline over n_vocab tokens: forget what was accepted.  Afterwards
 * the options are fixed.
 */
int qwen_sampler_begin(struct qwen_sampler *s, size_t n_vocab,
    struct qwen_err *err);

/* Tokens of the timeline, in order: from the prompt or generated. */
int qwen_sampler_accept(struct qwen_sampler *s, const int32_t *tokens,
    size_t n, int generated, struct qwen_err *err);

/*
 * Whether the last token accepted was generated and completes a text at which
 * to stop, or ends that of a grammar: QWEN_STOPPED_TEXT; or is of an endless
 * loop (stop-repeat): QWEN_STOPPED_REPEAT; or else 0.
 */
enum { QWEN_STOPPED_TEXT = 1, QWEN_STOPPED_REPEAT };

int qwen_sampler_stopped(const struct qwen_sampler *s);

/*
 * What the tokens alone do not tell of the timeline, as text of less than
 * QWEN_SAMPLER_MEMORY bytes (mostly none), and it again, after the tokens were
 * accepted: "" begins anew.
 */
enum { QWEN_SAMPLER_MEMORY = 64 };

void qwen_sampler_save(const struct qwen_sampler *s,
    char buf[QWEN_SAMPLER_MEMORY]);
int qwen_sampler_restore(struct qwen_sampler *s, const char *text,
    struct qwen_err *err);

/*
 * Choose the token at absolute position pos (that of the row's own token plus
 * one) from n logits of the tokens ids[i], or of 0 .. n - 1 if ids is NULL.
 * The same options, accepted tokens, logits and position give the same token
 * on every machine.  Does not accept it.  QWEN_ENUMERIC if a logit is not
 * finite.
 */
int qwen_sampler_sample(struct qwen_sampler *s, const float *logits,
    const int32_t *ids, size_t n, uint64_t pos, int32_t *out,
    struct qwen_err *err);

struct qwen_sample_top {
	int32_t	id;
	float	logit;
	double	logprob;	/* natural logarithm, over the whole row */
};

/*
 * The n_out best tokens of a row by falling logit, for people to see.  Returns
 * how many there are, at most n.
 */
int qwen_sample_top(const float *logits, const int32_t *ids, size_t n,
    size_t n_vocab, struct qwen_sample_top *out, size_t n_out,
    struct qwen_err *err);

/* qwen_write_best of the k best of a row of n logits. */
int qwen_write_top(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, size_t k, struct qwen_err *err);

/*
 * How likely the token id is by a row of n finite logits: the natural logarithm
 * of its softmax, in double, the same bits on every machine.  *rank (may be
 * NULL) is how many tokens are better, equals with a lower id among them: 0
 * for the one that greedy choosing takes.  NaN and rank n for an id that is not
 * in the row.
 */
double qwen_logprob(const float *logits, size_t n, int32_t id, size_t *rank);

/*
 * Two rows of n finite logits for the same place in a text, that of a model and
 * that of one it is measured by, and the token that follows there, which is in
 * the row.  All of it is the same on every machine.
 */
struct qwen_row_pair {
	double	 kl;		/* Kullback-Leibler divergence of the model
				   from the base in nats, over the whole row */
	double	 logprob, base_logprob;	/* of the token, as of qwen_logprob */
	int	 same_best;	/* both think the same token likeliest */
};

void qwen_compare_rows(const float *logits, const float *base, size_t n,
    int32_t id, struct qwen_row_pair *out);

/* e^nats, likewise the same on every machine; infinity above 700. */
double qwen_perplexity(double nats);

#ifdef __cplusplus
}
#endif

#endif
