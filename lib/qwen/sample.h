/* SPDX-License-Identifier: ISC */
/*
 * qwen/sample.h - sampling: choosing tokens from logits.
 *
 * Order of calls: new; set, any number of times; begin; accept the prompt; then
 * sample and accept in turn.  Without options the sampler always chooses the
 * most likely token.
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
 * Options of a sampler.  The sampling methods are collected when the library is
 * built, and each declares its options: a tool takes its option table, ranges
 * and help from here.  A sampler serves one thread and one session at a time;
 * different samplers share nothing.
 */
enum qwen_sample_type {
	QWEN_SAMPLE_FLAG,	/* no value; 0 or 1 */
	QWEN_SAMPLE_INT,	/* 64 bits, signed */
	QWEN_SAMPLE_UINT,	/* 64 bits, unsigned; min and max are not
				   used */
	QWEN_SAMPLE_REAL,	/* a double */
	QWEN_SAMPLE_TEXT,	/* a text */
	QWEN_SAMPLE_LIST,	/* strings: each setting adds one */
};

struct qwen_sample_opt {
	const char	*name;	/* long option without dashes, "top-k" */
	enum qwen_sample_type type;
	const char	*arg;	/* name of the value in usage; NULL for a
				   flag */
	double		 min, max;	/* inclusive */
	double		 def;	/* default */
	const char	*help;	/* one line, no full stop */
	/*
	 * The JSON fields of requests that set this option, NULL-terminated: a
	 * number, for a flag true or false, for a list strings.  If a request
	 * has several, the last of this list counts.  below_off: a negative
	 * number in a request means 0, which turns the option off.
	 */
	const char	*fields[3];
	int		 below_off;
};

/*
 * All options: seed and chain first, then in the default order of the methods.
 */
size_t qwen_sample_n_opts(void);
const struct qwen_sample_opt *qwen_sample_opt(size_t i);

struct qwen_sampler;

/* Creates a sampler with all options at their defaults: it chooses greedily. */
int qwen_sampler_new(struct qwen_sampler **out, struct qwen_err *err);
void qwen_sampler_free(struct qwen_sampler *s);

/*
 * Creates a sampler, not begun, with the same options, ending and masked tokens
 * and CPU level.  It shares pieces, biases and constraint, which are not
 * copied.
 */
int qwen_sampler_copy(struct qwen_sampler **out, const struct qwen_sampler *from,
    struct qwen_err *err);

/*
 * Sets an option from a string, before begin; NULL sets a flag.  QWEN_EUNSUP
 * for an unknown option, QWEN_ERANGE for a bad value.
 */
int qwen_sampler_set(struct qwen_sampler *s, const char *name,
    const char *text, struct qwen_err *err);

/* Resets an option to its default, as if it was never set; before begin. */
void qwen_sampler_reset(struct qwen_sampler *s, const char *name);

/* Returns the value of a numeric option; NaN for an unknown one. */
double qwen_sampler_number(const struct qwen_sampler *s, const char *name);

/* Returns all 64 bits of the option "seed". */
uint64_t qwen_sampler_seed(const struct qwen_sampler *s);

/*
 * Returns 1 if the sampler would always choose the most likely token, the
 * lowest id among equals, so that a caller can do without it.
 */
int qwen_sampler_is_greedy(const struct qwen_sampler *s);

/* Returns 1 if choices depend on the seed, 0 if no random number is used. */
int qwen_sampler_draws(const struct qwen_sampler *s);

/*
 * Writes the options that differ from their defaults, "temp=0.7 top-k=40", to
 * buf.  Returns the length, like snprintf.  In strings, white space, non-ASCII
 * bytes and % become % and two hexadecimal digits.
 */
size_t qwen_sampler_describe(const struct qwen_sampler *s, char *buf,
    size_t size);

/* Returns the i-th string that an option was set to, or NULL. */
const char *qwen_sampler_text(const struct qwen_sampler *s, const char *name,
    size_t i);

/* Sets the options that qwen_sampler_describe wrote. */
int qwen_sampler_read(struct qwen_sampler *s, const char *text,
    struct qwen_err *err);

/*
 * The recommended settings of a model, in the form of qwen_sampler_describe:
 * those of its file (general.sampling.*), or else those of the published model
 * family that it belongs to, by name, else by architecture and vocabulary.
 * thinking: for answers that begin with a thought. settings is "" if there is
 * no recommendation. source says, for users, where the settings come from.
 * Fails if a key of the file is not a number.
 */
struct qwen_advice {
	char		 settings[256];
	const char	*source;
};

int qwen_sampling_advice(const struct qwen_gguf *g, int thinking,
    struct qwen_advice *out, struct qwen_err *err);

/*
 * Applies recommended settings to the options that the caller has not set,
 * replacing those of an earlier call.  Skips options whose method the chain
 * leaves out.  If the caller has set temp=0 or greedy, applies none and returns
 * 1: such a caller gets the most likely token, after the penalties that the
 * caller has set.  Before begin.
 */
int qwen_sampler_advise(struct qwen_sampler *s, const char *settings,
    struct qwen_err *err);

/*
 * Checks that the options fit together: QWEN_ERANGE if one is set whose method
 * the chain leaves out.
 */
int qwen_sampler_check(const struct qwen_sampler *s, struct qwen_err *err);

/*
 * Sets the highest instruction-set level to use, as in struct qwen_model_opts;
 * the chosen tokens are the same.
 */
int qwen_sampler_cpu(struct qwen_sampler *s, const char *level,
    struct qwen_err *err);

/*
 * Returns 1 if an option needs the texts of tokens: call qwen_sampler_pieces.
 */
int qwen_sampler_needs_pieces(const struct qwen_sampler *s);

/*
 * Sets the texts of the vocabulary (qwen_pieces_open of libqwentext), which
 * must outlive s; before begin.
 */
struct qwen_pieces;

void qwen_sampler_pieces(struct qwen_sampler *s, const struct qwen_pieces *p);

/* Sets the tokens that end a generation, for min-tokens; copies ids. */
int qwen_sampler_eog(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err);

/*
 * Restricts the reply (the tokens generated after the prompt) to texts of the
 * constraint; the reply ends where such a text ends.  A thinking block may come
 * before it.  Needs qwen_sampler_pieces of the same vocabulary.  Before begin.
 */
void qwen_sampler_constrain(struct qwen_sampler *s, struct qwen_constraint c);

/*
 * Adds x[i] to the logit of token ids[i], after --logit-bias. x must be finite.
 * Borrows both arrays, also for copies of the sampler.  Before begin.
 */
void qwen_sampler_bias(struct qwen_sampler *s, const int32_t *ids,
    const float *x, size_t n);

/* Never choose these tokens; copies ids. n = 0 allows all tokens again. */
int qwen_sampler_mask(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err);

/*
 * Begins a session over n_vocab tokens: forgets accepted tokens.  The options
 * cannot be changed afterwards.
 */
int qwen_sampler_begin(struct qwen_sampler *s, size_t n_vocab,
    struct qwen_err *err);

/* Accepts the next tokens of the session, of the prompt or generated. */
int qwen_sampler_accept(struct qwen_sampler *s, const int32_t *tokens,
    size_t n, int generated, struct qwen_err *err);

/*
 * Returns why generation should stop after the last accepted token, if it was
 * generated: QWEN_STOPPED_TEXT if it completes a stop string or a text of the
 * grammar; QWEN_STOPPED_REPEAT if the tokens are an endless loop (stop-repeat);
 * else 0.
 */
enum { QWEN_STOPPED_TEXT = 1, QWEN_STOPPED_REPEAT };

int qwen_sampler_stopped(const struct qwen_sampler *s);

/*
 * Sampler state that does not follow from the tokens alone.  qwen_sampler_save
 * writes it as a string of less than QWEN_SAMPLER_MEMORY bytes (mostly "").
 * qwen_sampler_restore sets it, after the tokens were accepted; "" sets the
 * initial state.
 */
enum { QWEN_SAMPLER_MEMORY = 64 };

void qwen_sampler_save(const struct qwen_sampler *s,
    char buf[QWEN_SAMPLER_MEMORY]);
int qwen_sampler_restore(struct qwen_sampler *s, const char *text,
    struct qwen_err *err);

/*
 * Chooses the token at absolute position pos (the row's own position plus one)
 * from n logits of the tokens ids[i], or of 0 .. n - 1 if ids is NULL.  The
 * same options, accepted tokens, logits and position give the same token on
 * every machine.  Does not accept the token.  QWEN_ENUMERIC if a logit is not
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
 * Writes the n_out best tokens of a row, by falling logit, to out, to be shown
 * to users.  Returns their number, at most n.
 */
int qwen_sample_top(const float *logits, const int32_t *ids, size_t n,
    size_t n_vocab, struct qwen_sample_top *out, size_t n_out,
    struct qwen_err *err);

/* qwen_write_best of the k best of a row of n logits. */
int qwen_write_top(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, size_t k, struct qwen_err *err);

/*
 * Compares two rows of n finite logits at the same position, of a model and of
 * the base model that it is compared with. id is the token that follows there;
 * it must be in the row.  All results are the same on every machine.
 */
struct qwen_row_pair {
	double	 kl;		/* KL divergence of the model from the base in
				   nats, over the row */
	double	 logprob, base_logprob;	/* natural logarithm of the token's
					   softmax */
	int	 same_best;	/* both rows have the same best token */
};

void qwen_compare_rows(const float *logits, const float *base, size_t n,
    int32_t id, struct qwen_row_pair *out);

/* Returns e^nats, the same on every machine; infinity above 700. */
double qwen_perplexity(double nats);

#ifdef __cplusplus
}
#endif

#endif
