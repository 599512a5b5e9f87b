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

#include "qwen.h"

/* One token that may still be chosen. */
struct qwen_cand {
	float	logit;
	int32_t	id;
};

/* The best candidates' scratch of qwen_cands_keep. */
struct qwen_pick {
	uint32_t key;
	float	 weight;
};

/* Candidates by ascending id, at least one; methods keep that order. */
struct qwen_cands {
	struct qwen_cand *c;
	size_t		  n;
	float		 *weight;	/* filled by qwen_cands_weigh */
	struct qwen_pick *pick;
	size_t		  cap;		/* length of the three arrays */
};

int qwen_cands_init(struct qwen_cands *l, size_t cap, struct qwen_err *err);
void qwen_cands_fini(struct qwen_cands *l);

/*
 * Fill the list from n logits of tokens ids[i], or 0 .. n - 1 where ids is
 * NULL; ids need no order.  Fails on a logit that is not finite (QWEN_ENUMERIC)
 * and on an id that is outside n_vocab or there twice (QWEN_ERANGE).
 */
int qwen_cands_fill(struct qwen_cands *l, const float *logits,
    const int32_t *ids, size_t n, size_t n_vocab, struct qwen_err *err);

/* The index of the highest logit, of the lowest id among equals. */
size_t qwen_cands_best(const struct qwen_cands *l);

/* weight[i] = exp(logit[i] - highest); returns their sum, ids ascending. */
double qwen_cands_weigh(struct qwen_cands *l);

/* The sum of weight[from .. to - 1]; from is a multiple of 4, to that or n. */
double qwen_cands_sum(const struct qwen_cands *l, size_t from, size_t to);

/*
 * Weigh, and return the index of the candidate at which the sum of weights, ids
 * ascending, first passes u times their total; u is in [0, 1).
 */
size_t qwen_cands_draw(struct qwen_cands *l, double u);

/*
 * Keep the best candidates, by falling logit and then rising id, until their
 * weights sum up to target: at least one, at most all.  weight NULL means one
 * for each.  Linear in n, whatever the logits are.
 */
void qwen_cands_keep(struct qwen_cands *l, const float *weight, double target);

/* Drop all candidates but the one at index i. */
void qwen_cands_only(struct qwen_cands *l, size_t i);

/* An option's value, by its type. */
union qwen_sample_value {
	double	 d;	/* QWEN_SAMPLE_REAL */
	int64_t	 i;	/* QWEN_SAMPLE_INT, QWEN_SAMPLE_FLAG (0 or 1) */
	uint64_t u;	/* QWEN_SAMPLE_UINT */
};

/* Where conventional methods stand in the chain; lower ranks come first. */
enum {
	QWEN_RANK_PENALTIES = 100,
	QWEN_RANK_GREEDY = 200,
	QWEN_RANK_TOP_K = 300,
	QWEN_RANK_TOP_P = 400,
	QWEN_RANK_MIN_P = 500,
	QWEN_RANK_TEMPERATURE = 600,
};

/*
 * A method.  v holds the values of its options, in the order of opts.  memory
 * is what begin made, NULL without one; methods that look at earlier tokens
 * have begin, accept and end, others leave them NULL.
 */
struct qwen_sampler_method {
	const char	*name;
	int		 rank;
	size_t		 n_opts;
	const struct qwen_sample_opt *opts;

	/* 0 if the values make the method do nothing. */
	int	(*active)(const union qwen_sample_value *v);
	void	(*apply)(const union qwen_sample_value *v, void *memory,
		    struct qwen_cands *l);

	/* Memory for a timeline over n_vocab tokens; NULL: out of memory. */
	void	*(*begin)(const union qwen_sample_value *v, size_t n_vocab);
	/* A token of the timeline, from the prompt or generated; -1: ENOMEM. */
	int	(*accept)(const union qwen_sample_value *v, void *memory,
		    int32_t token, int generated);
	void	(*end)(void *memory);
};

/*
 * A number in [0, 1), a multiple of 2^-53, for the token at position pos: a
 * function of seed and pos alone.  Both steps are SplitMix64: the seed gives
 * the start of a sequence, and the position picks its element, so that
 * neighbouring seeds and positions have nothing in common.
 *	mix(z):  z ^= z >> 30;  z *= 0xbf58476d1ce4e5b9;
 *	         z ^= z >> 27;  z *= 0x94d049bb133111eb;  z ^= z >> 31
 *	G = 0x9e3779b97f4a7c15
 *	u = (mix(mix(seed + G) + (pos + 1) * G) >> 11) * 2^-53
 */
double qwen_sample_uniform(uint64_t seed, uint64_t pos);

#endif
