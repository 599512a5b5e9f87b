/* SPDX-License-Identifier: ISC */
/*
 * sample.h - what a sampling method is, and the list of candidates it edits.
 *
 * A method is one file that exports qwen_sampler_<file>; chain.c collects them
 * by name, orders them by rank and owns the options' values.  Whatever decides
 * a token uses only +, -, *, / and comparisons of float and double in a
 * written order, so that the same logits give the same token everywhere.
 */
#ifndef QWEN_SAMPLE_SAMPLE_H
#define QWEN_SAMPLE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/kernel/kernel.h"
#include "qwen.h"

/* A candidate that may be the last to keep: its score, as a key to sort by. */
struct qwen_pick {
	uint32_t key;
	float	 weight;
};

/*
 * The tokens that may still be chosen, by ascending id, at least one; methods
 * keep that order.  Whatever takes some away ends with qwen_cands_shrink, or is
 * made of what does.
 */
struct qwen_cands {
	float		*logit;
	int32_t		*id;
	size_t		 n;
	double		 chance;	/* in [0, 1), for methods that toss a
					   coin: not the one of the draw */
	float		*weight;	/* filled by qwen_cands_weigh */
	float		*score;		/* for a method's own use */
	/* our own */
	const struct qwen_sift *sift;	/* passes over rows */
	uint64_t	*bits, *more;	/* one for each candidate */
	struct qwen_pick *pick;
	uint16_t	*bin;
	double		*block;		/* sums of weights */
	float		*span;		/* highest scores of spans */
	size_t		 cap;		/* the arrays' length, of whole blocks */
	size_t		 touched;	/* from here on, id[i] is i */
	float		 max;		/* the highest logit */
	int		 has_max;	/* max is known */
	int		 weighed;	/* weights are those of the logits */
	float		 weighed_by;	/* and of this highest one */
};

int qwen_cands_init(struct qwen_cands *l, size_t cap, struct qwen_err *err);
void qwen_cands_fini(struct qwen_cands *l);

/*
 * Choose with this list from now on, which is for the whole vocabulary, in place
 * of one of the sampler's own: many samplers that are asked in turn need but
 * one, which stays in the cache.  Before begin, or again for another one.
 */
void qwen_sampler_lend(struct qwen_sampler *s, struct qwen_cands *l);

/*
 * Fill the list from n logits of tokens ids[i], or 0 .. n - 1 where ids is
 * NULL; ids need no order.  Fails on a logit that is not finite (QWEN_ENUMERIC)
 * and on an id that is outside n_vocab or there twice (QWEN_ERANGE).
 */
int qwen_cands_fill(struct qwen_cands *l, const float *logits,
    const int32_t *ids, size_t n, size_t n_vocab, struct qwen_err *err);

/*
 * The index of the highest of n > 0 numbers, the first one among equals; *finite
 * says whether all of them are, without which the answer means nothing.
 */
size_t qwen_sample_best(const struct qwen_sift *k, const float *x, size_t n,
    int *finite);

/* The index of the highest logit, of the lowest id among equals. */
size_t qwen_cands_best(const struct qwen_cands *l);

/* The highest logit. */
float qwen_cands_max(struct qwen_cands *l);

/* The index of a token, or n if it is not there. */
size_t qwen_cands_find(const struct qwen_cands *l, int32_t id);

/* Give the candidate at index i another logit, the nearest that is finite. */
void qwen_cands_set(struct qwen_cands *l, size_t i, double to);

/*
 * Divide the logits by a temperature, the highest becoming 0; at 0 only the best
 * candidate stays.
 */
void qwen_cands_temper(struct qwen_cands *l, float temp);

/* The first m are the list now; those that stay were moved there. */
void qwen_cands_shrink(struct qwen_cands *l, size_t m);

/* Drop all candidates but the one at index i. */
void qwen_cands_only(struct qwen_cands *l, size_t i);

/* Drop those of these tokens, which ascend, that are there. */
void qwen_cands_drop(struct qwen_cands *l, const int32_t *ids, size_t n);

/* Drop those whose bit in l->bits, 64 in a word, is not set. */
void qwen_cands_squeeze(struct qwen_cands *l);

/* Those bits the other way round. */
void qwen_cands_flip(struct qwen_cands *l);

/* Drop those whose score is below the limit: a logit, weight or l->score. */
void qwen_cands_cut(struct qwen_cands *l, const float *score, float limit);

/* weight[i] = exp(logit[i] - highest); returns their sum, as kernel.h has it. */
double qwen_cands_weigh(struct qwen_cands *l);

/*
 * The mean of highest - logit, once weighed: the entropy less the logarithm of
 * the total, which qwen_cands_weigh gave.
 */
double qwen_cands_mean(struct qwen_cands *l, double total);

/*
 * Weigh, and return the index of the candidate at which the sum of weights, ids
 * ascending, first passes u times their total; u is in [0, 1).
 */
size_t qwen_cands_draw(struct qwen_cands *l, double u);

/*
 * Keep the candidates with the highest scores, then the lowest ids, until their
 * weights sum up to target: at least one, at most all.  weight NULL means one
 * for each; score may be l->logit or l->score.  Linear in n, whatever they are.
 */
void qwen_cands_keep(struct qwen_cands *l, const float *score,
    const float *weight, double target);

/* Token ids by which is lower, for qsort() and bsearch(). */
int qwen_sample_compare_ids(const void *a, const void *b);

/* The least float that is not below x. */
float qwen_sample_float_up(double x);

/* A text, or several. */
struct qwen_sample_list {
	size_t	  n;
	char	**text;
};

/* An option's value, by its type. */
union qwen_sample_value {
	double	 d;	/* QWEN_SAMPLE_REAL */
	int64_t	 i;	/* QWEN_SAMPLE_INT, QWEN_SAMPLE_FLAG (0 or 1) */
	uint64_t u;	/* QWEN_SAMPLE_UINT */
	struct qwen_sample_list list;	/* QWEN_SAMPLE_TEXT, QWEN_SAMPLE_LIST */
};

/* What a method may ask of a vocabulary and of the timeline's model. */
struct qwen_sample_world {
	size_t		 n_vocab;	/* 0 before begin */
	const struct qwen_pieces *pieces;	/* NULL: not given; of n_vocab */
	int32_t		*eog;		/* ascending */
	size_t		 n_eog;
	const int32_t	*biased;	/* beside those of --logit-bias, */
	const float	*bias;		/* this much */
	size_t		 n_biased;
};

/*
 * Where conventional methods stand in the chain; lower ranks come first.  Those
 * up to QWEN_RANK_FIXED say what must or must not be and cannot be moved.
 */
enum {
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

/*
 * A sampling method. v holds the values of its options, in the order of opts.
 * memory belongs to the method while a session is open: `memory' bytes,
 * initially zero; unused members are 0 or NULL.
 */
struct qwen_sampler_method {
	const char	*name;
	int		 rank;
	size_t		 n_opts;
	const struct qwen_sample_opt *opts;
	int		 keeps_best;	/* never drops the highest logit, and
					   changes none */
	int		 draws;		/* is there to draw: --temp's default
					   does not take the best then */
	int		 needs_pieces;	/* works on the texts of tokens */
	size_t		 memory;

	/* 0 if the values make it do nothing; NULL: if the first is the
	   default. */
	int	(*active)(const union qwen_sample_value *v);
	/* Whether a text may be a value: 0, or -1 and why. */
	int	(*check)(size_t opt, const char *text, struct qwen_err *err);
	void	(*apply)(const union qwen_sample_value *v, void *memory,
		    struct qwen_cands *l);

	/* A timeline, of a world that stays: 0; -1 and an error. */
	int	(*begin)(const union qwen_sample_value *v, void *memory,
		    const struct qwen_sample_world *w, struct qwen_err *err);
	/* A token of the timeline, from the prompt or generated; -1: ENOMEM. */
	int	(*accept)(const union qwen_sample_value *v, void *memory,
		    int32_t token, int generated);
	/* The token that comes next whatever the logits are, or -1. */
	int32_t	(*force)(const union qwen_sample_value *v, const void *memory);
	/* The last token accepted ends the generation; or may not. */
	int	(*stops)(const void *memory);
	int	(*holds)(const union qwen_sample_value *v, const void *memory);
	/* What tokens alone do not tell: a number to save, and it again. */
	double	(*save)(const void *memory);
	void	(*restore)(void *memory, double saved);
	/* Give back what memory points to, also after begin failed. */
	void	(*end)(void *memory);
};

/*
 * A number in [0, 1), a multiple of 2^-53, for the token at position pos: a
 * function of seed and pos alone.  Both steps are SplitMix64: the seed gives
 * the start of a sequence, and the position picks its element, so that
 * neighbouring seeds and positions have nothing in common.  The coin in
 * struct qwen_cands is that of the seed with every bit inverted.
 *	mix(z):  z ^= z >> 30;  z *= 0xbf58476d1ce4e5b9;
 *	         z ^= z >> 27;  z *= 0x94d049bb133111eb;  z ^= z >> 31
 *	G = 0x9e3779b97f4a7c15
 *	u = (mix(mix(seed + G) + (pos + 1) * G) >> 11) * 2^-53
 */
double qwen_sample_uniform(uint64_t seed, uint64_t pos);

/*
 * A reply by a constraint.  accept is told every token; fits says whether a
 * token may come next, apply drops those that may not.  1 or 0; -1 and an error.
 * After a token that ended the reply it is over.
 */
struct qwen_bound;

int qwen_bound_new(struct qwen_bound **out, const struct qwen_constraint *by,
    const struct qwen_pieces *p, struct qwen_err *err);
void qwen_bound_free(struct qwen_bound *c);
int qwen_bound_accept(struct qwen_bound *c, int32_t id,
    int generated, struct qwen_err *err);
int qwen_bound_is_over(const struct qwen_bound *c);
int qwen_bound_fits(struct qwen_bound *c, int32_t id,
    struct qwen_err *err);
int qwen_bound_apply(struct qwen_bound *c, struct qwen_cands *l,
    struct qwen_err *err);

#endif
