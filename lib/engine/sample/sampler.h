/* SPDX-License-Identifier: ISC */
/*
 * sampler.h - a sampler: methods with the values of their options, and the
 * timeline that they are used for.
 */
#ifndef QWEN_SAMPLE_SAMPLER_H
#define QWEN_SAMPLE_SAMPLER_H

#include "engine/sample/sample.h"

/* All methods; samplers.inc has a line for each file of method/. */
#define SAMPLER(name) extern const struct qwen_sampler_method name;
#include "samplers.inc"
#undef SAMPLER

enum {
#define SAMPLER(name) COUNT_##name,
#include "samplers.inc"
#undef SAMPLER
	N_METHODS
};

/* The chain's own options, the first of all. */
enum { SEED, CHAIN, N_OWN };

/* A method and the values of its options. */
struct qwen_slot {
	const struct qwen_sampler_method *m;
	union qwen_sample_value	*v;		/* into the sampler's values */
	void			*memory;
};

struct qwen_sampler {
	struct qwen_slot	 slot[N_METHODS];	/* by rank */
	struct qwen_slot	*run[N_METHODS];	/* those that apply */
	size_t			 n_run;
	int			 greedy;	/* they come down to the best */
	union qwen_sample_value	*v;		/* of all options, ours first */
	unsigned char		*set;		/* of each: by the caller */
	const struct qwen_sift	*sift;
	struct qwen_cands	 list;		/* its own, and */
	struct qwen_cands	*lent;		/* another's, in place of it */
	struct qwen_sample_world world;
	int32_t			*masked;	/* ascending */
	size_t			 n_masked;
	struct qwen_constraint	 constraint;	/* on replies */
	struct qwen_bound	*bound;		/* this one by it, or NULL */
	int			 generated;	/* the last token was */
	unsigned		 features;	/* of the CPU, to use */
};

/* The N_METHODS methods in the order of their ranks, without memory. */
void qwen_chain_slots(struct qwen_slot *slot);

/* Do the values make the method do something? */
int qwen_slot_active(const struct qwen_slot *slot);

/* An option's default. */
union qwen_sample_value qwen_sample_initial(const struct qwen_sample_opt *o);

/* Whether a value is another than the default. */
int qwen_sample_differs(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v);

int qwen_sample_is_text(const struct qwen_sample_opt *o);
void qwen_sample_free_list(struct qwen_sample_list *l);

/* The options' values; those of to are the defaults. */
int qwen_sample_copy_options(struct qwen_sampler *to,
    const struct qwen_sampler *from, struct qwen_err *err);

/* Whether option i is of the chain, or of no method that can be moved. */
int qwen_chain_has(struct qwen_sampler *s, size_t i);

/* "top-k,temp" as slots, at most N_METHODS; how many, or -1. */
int qwen_chain_read(const char *text, struct qwen_slot *slot,
    struct qwen_slot **out, struct qwen_err *err);

/* Put what applies into s->run, in its order. */
int qwen_chain_arrange(struct qwen_sampler *s, struct qwen_err *err);

/* Whether nothing comes before the best token is taken that could change it. */
int qwen_chain_is_greedy(const struct qwen_sampler *s);

#endif
