/* SPDX-License-Identifier: ISC */
/*
 * sample.h - sampling methods, and the list of candidates that they edit.
 *
 * A method is one file that exports qwen_sampler_<file>. chain.c collects the
 * methods by name, orders them by rank and owns the values of their options.
 * Everything that decides a token uses only +, -, *, / and comparisons of float
 * and double in a fixed order, so the same logits give the same token on every
 * machine.
 */
#ifndef QWEN_SAMPLE_SAMPLE_H
#define QWEN_SAMPLE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "engine/cpu/kernel/kernel.h"
#include "qwen.h"

/* A candidate near the cut-off: its score as a sortable key, and its weight. */
struct qwen_pick {
	uint32_t key;
	float	 weight;
};

/*
 * The candidates: tokens that may still be chosen, at least one, sorted by
 * ascending id.  Methods keep the order.  Code that removes candidates ends
 * with qwen_cands_shrink, or calls functions that do.
 */
struct qwen_cands {
	float		*logit;
	int32_t		*id;
	size_t		 n;
	double		 uniform;	/* in [0, 1), for methods with a random
					   decision; independent of the final
					   draw */
	float		*weight;	/* filled by qwen_cands_weigh */
	float		*score;		/* free for use by methods */
	/* internal members */
	const struct qwen_sift *sift;	/* kernels over rows */
	uint64_t	*bits, *more;	/* one bit per candidate */
	struct qwen_pick *pick;
	uint16_t	*bin;
	double		*block;		/* sums of weights */
	float		*span;		/* highest score of each span */
	size_t		 cap;		/* length of the arrays, a multiple of
					   QWEN_SIFT_BLOCK */
	size_t		 touched;	/* from this index on, id[i] is i */
	float		 max;		/* highest logit */
	int		 has_max;	/* max is known */
	int		 weighed;	/* weight belongs to the current
					   logits */
	float		 weighed_by;	/* max when weight was computed */
};

int qwen_cands_init(struct qwen_cands *l, size_t cap, struct qwen_err *err);
void qwen_cands_fini(struct qwen_cands *l);

/*
 * Makes the sampler use list l, which has room for the whole vocabulary,
 * instead of its own list.  Samplers that are used in turn can share one list,
 * which then stays in the CPU cache.  Call it before begin; it may be called
 * again with another list.
 */
void qwen_sampler_lend(struct qwen_sampler *s, struct qwen_cands *l);

/*
 * Fills the list from n logits of the tokens ids[i], or 0 .. n - 1 if ids is
 * NULL; ids need not be sorted.  Fails with QWEN_ENUMERIC for a logit that is
 * not finite, with QWEN_ERANGE for an id that is outside n_vocab or occurs
 * twice.
 */
int qwen_cands_fill(struct qwen_cands *l, const float *logits,
    const int32_t *ids, size_t n, size_t n_vocab, struct qwen_err *err);

/*
 * Returns the index of the highest of n > 0 numbers, the first among equals.
 * Sets *finite to 1 if all numbers are finite; if not, the index is
 * meaningless.
 */
size_t qwen_sample_best(const struct qwen_sift *k, const float *x, size_t n,
    int *finite);

/*
 * Returns the index of the highest logit, that with the lowest id among equals.
 */
size_t qwen_cands_best(const struct qwen_cands *l);

/* Returns the highest logit. */
float qwen_cands_max(struct qwen_cands *l);

/* Returns the index of a token, or l->n if it is no candidate. */
size_t qwen_cands_find(const struct qwen_cands *l, int32_t id);

/* Sets the logit of candidate i, clamped to finite floats. */
void qwen_cands_set(struct qwen_cands *l, size_t i, double to);

/*
 * Divides the logits by a temperature, relative to the highest, which becomes
 * 0.  At temperature 0 only the best candidate remains.
 */
void qwen_cands_temper(struct qwen_cands *l, float temp);

/*
 * Sets the number of candidates to m, after the caller moved the remaining ones
 * to the front.
 */
void qwen_cands_shrink(struct qwen_cands *l, size_t m);

/* Removes all candidates except that at index i. */
void qwen_cands_only(struct qwen_cands *l, size_t i);

/* Removes the candidates among these n tokens, which ascend. */
void qwen_cands_drop(struct qwen_cands *l, const int32_t *ids, size_t n);

/* Removes candidates whose bit in l->bits (64 per word) is 0. */
void qwen_cands_keep_bits(struct qwen_cands *l);

/* Inverts the candidates' bits. */
void qwen_cands_flip(struct qwen_cands *l);

/*
 * Removes candidates whose score is below the limit; score is l->logit,
 * l->weight or l->score.
 */
void qwen_cands_cut(struct qwen_cands *l, const float *score, float limit);

/*
 * Sets weight[i] = exp(logit[i] - highest) and returns the sum of the weights,
 * in the order that kernel.h defines.
 */
double qwen_cands_weigh(struct qwen_cands *l);

/*
 * Returns the mean of highest - logit, weighted; the caller has called
 * qwen_cands_weigh, which returned total.  Entropy is this mean plus ln(total).
 */
double qwen_cands_mean(struct qwen_cands *l, double total);

/*
 * Computes weights and returns the index of the first candidate at which the
 * sum of weights, by ascending id, exceeds u times their total; u is in [0, 1).
 */
size_t qwen_cands_draw(struct qwen_cands *l, double u);

/*
 * Keeps the candidates with the highest scores (the lowest ids among equals)
 * until their weights sum up to target: at least one, at most all. weight NULL:
 * every weight is 1. score may be l->logit or l->score.  Linear in n.
 */
void qwen_cands_keep(struct qwen_cands *l, const float *score,
    const float *weight, double target);

/* Compares token ids, for qsort() and bsearch(). */
int qwen_sample_compare_ids(const void *a, const void *b);

/* Returns the smallest float that is not below x. */
float qwen_sample_float_up(double x);

/* The value of an option, by its type. */
union qwen_sample_value {
	double	 d;	/* QWEN_SAMPLE_REAL */
	int64_t	 i;	/* QWEN_SAMPLE_INT, QWEN_SAMPLE_FLAG (0 or 1) */
	uint64_t u;	/* QWEN_SAMPLE_UINT */
	struct qwen_strings list;	/* QWEN_SAMPLE_TEXT, QWEN_SAMPLE_LIST */
};

/* The vocabulary and the model, for methods. */
struct qwen_sample_context {
	size_t		 n_vocab;	/* 0 before begin */
	const struct qwen_pieces *pieces;	/* of n_vocab tokens, or NULL */
	int32_t		*eog;		/* ascending */
	size_t		 n_eog;
	const int32_t	*biased;	/* more biases, besides those of
					   --logit-bias: */
	const float	*bias;		/* one per token */
	size_t		 n_biased;
};

/*
 * Ranks of the conventional methods: lower ranks come first.  Methods up to
 * QWEN_RANK_FIXED forbid or force tokens and cannot be moved by --chain.
 */
enum {
	QWEN_RANK_OWN = 0,
	QWEN_RANK_STOP = 10,
	QWEN_RANK_STOP_REPEAT = 15,
	QWEN_RANK_THINK = 20,
	QWEN_RANK_LOGIT_BIAS = 30,
	QWEN_RANK_MIN_TOKENS = 40,
	QWEN_RANK_FIXED = 99,
	QWEN_RANK_PENALTIES = 100,
	QWEN_RANK_DRY = 150,
	QWEN_RANK_GREEDY = 200,
	QWEN_RANK_TOP_N_SIGMA = 250,
	QWEN_RANK_TOP_K = 300,
	QWEN_RANK_TYPICAL = 350,
	QWEN_RANK_TOP_P = 400,
	QWEN_RANK_MIN_P = 500,
	QWEN_RANK_XTC = 550,
	QWEN_RANK_DYNTEMP = 590,
	QWEN_RANK_TEMPERATURE = 600,
	QWEN_RANK_MIROSTAT = 700,
};

/* A method in a sampler: what the functions of a method work on. */
struct qwen_chain_method {
	const struct qwen_sampler_method *m;
	union qwen_sample_value	*v;	/* of its options, in their order */
	void			*memory;	/* while a timeline is open */
	const struct qwen_sample_context *w;	/* likewise */
};

/*
 * A sampling method. `memory' is the number of bytes that the method has while
 * a timeline is open, initially zero.  Unused fields are 0 or NULL.
 */
struct qwen_sampler_method {
	const char	*name;
	int		 rank;
	size_t		 n_opts;
	const struct qwen_sample_opt *opts;
	int		 keeps_best;	/* never removes or changes the highest
					   logit */
	int		 draws;		/* needs a random draw, so the default
					   of --temp does not take the best
					   token */
	int		 needs_pieces;	/* uses the texts of tokens */
	size_t		 memory;

	/*
	 * Returns 0 if the values turn the method off.  NULL: off if the first
	 * value is its default.
	 */
	int	(*active)(const struct qwen_chain_method *s);
	/* Checks the text of its option that takes one: 0, or -1 with *err. */
	int	(*check)(const char *text, struct qwen_err *err);
	void	(*apply)(struct qwen_chain_method *s, struct qwen_cands *l);

	/* Begins a timeline: 0, or -1 with *err. */
	int	(*begin)(struct qwen_chain_method *s, struct qwen_err *err);
	/*
	 * Reports a token of the timeline, from the prompt or generated; -1
	 * without memory.
	 */
	int	(*accept)(struct qwen_chain_method *s, int32_t token,
		    int generated);
	/* Returns the token that must come next, or -1 if the logits decide. */
	int32_t	(*forced_token)(const struct qwen_chain_method *s);
	/*
	 * stops: nonzero if the last token ends the generation. holds: 1 if the
	 * generation must not end yet.
	 */
	int	(*stops)(const struct qwen_chain_method *s);
	int	(*holds)(const struct qwen_chain_method *s);
	/*
	 * Saves and restores the part of memory that the tokens do not
	 * determine.
	 */
	double	(*save)(const struct qwen_chain_method *s);
	void	(*restore)(struct qwen_chain_method *s, double saved);
	/* Frees what memory points to; called also after begin failed. */
	void	(*end)(struct qwen_chain_method *s);
};

/*
 * Returns a number in [0, 1), a multiple of 2^-53, for the token at position
 * pos.  It is a function of seed and pos only.  Both steps are SplitMix64: the
 * seed gives the start of a sequence, and pos selects its element, so
 * neighbouring seeds and positions give unrelated numbers.  The `uniform' of
 * struct qwen_cands uses the seed with every bit inverted.
 *
 *	mix(z):  z ^= z >> 30;  z *= 0xbf58476d1ce4e5b9;
 *	         z ^= z >> 27;  z *= 0x94d049bb133111eb;  z ^= z >> 31
 *	G = 0x9e3779b97f4a7c15
 *	u = (mix(mix(seed + G) + (pos + 1) * G) >> 11) * 2^-53
 */
double qwen_sample_uniform(uint64_t seed, uint64_t pos);

/*
 * A reply under a constraint.  The caller reports every token to accept. fits
 * returns whether a token may come next (1 or 0, or -1 with *err); apply
 * removes candidates that may not. is_over returns 1 after a token that ended
 * the reply.
 */
struct qwen_constrained;

int qwen_constrained_new(struct qwen_constrained **out,
    const struct qwen_constraint *by, const struct qwen_pieces *p,
    struct qwen_err *err);
void qwen_constrained_free(struct qwen_constrained *c);
int qwen_constrained_accept(struct qwen_constrained *c, int32_t id,
    int generated, struct qwen_err *err);
int qwen_constrained_is_over(const struct qwen_constrained *c);
int qwen_constrained_fits(struct qwen_constrained *c, int32_t id,
    struct qwen_err *err);
int qwen_constrained_apply(struct qwen_constrained *c, struct qwen_cands *l,
    struct qwen_err *err);

#endif
