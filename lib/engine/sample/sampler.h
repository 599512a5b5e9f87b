/* SPDX-License-Identifier: ISC */
/*
 * sampler.h - a sampler: methods, the values of their options, and the timeline
 * that it samples for.
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
	QWEN_N_METHODS
};

/* The chain's own options come first. */
enum { QWEN_OPT_SEED, QWEN_OPT_CHAIN, QWEN_N_CHAIN_OPTS };

/* A method and the values of its options. */
struct qwen_chain_method {
	const struct qwen_sampler_method *m;
	union qwen_sample_value	*v;		/* part of the sampler's v */
	void			*memory;
};

struct qwen_sampler {
	struct qwen_chain_method method[QWEN_N_METHODS];	/* ordered by
								   rank */
	struct qwen_chain_method *run[QWEN_N_METHODS];	/* methods in use, in
							   order */
	size_t			 n_run;
	int			 greedy;	/* the methods always choose the
						   best token */
	union qwen_sample_value	*v;		/* values of all options, the
						   chain's own first */
	unsigned char		*set;		/* per option: set by the
						   caller */
	const struct qwen_sift	*sift;
	struct qwen_cands	 list;		/* its own list of
						   candidates, */
	struct qwen_cands	*lent;		/* or one lent by
						   qwen_sampler_lend */
	struct qwen_sample_context context;
	int32_t			*masked;	/* forbidden tokens,
						   ascending */
	size_t			 n_masked;
	struct qwen_constraint	 constraint;	/* on the reply */
	struct qwen_constrained	*reply;		/* the current reply, or NULL */
	int			 generated;	/* the last token was
						   generated */
	unsigned		 features;	/* CPU features that may be
						   used */
};

/*
 * Fills method with the QWEN_N_METHODS methods in order of rank, without
 * memory.
 */
void qwen_chain_methods(struct qwen_chain_method *method);

/* Returns 1 if the method's options turn it on. */
int qwen_chain_method_active(const struct qwen_chain_method *method);

/* Returns the default of an option. */
union qwen_sample_value qwen_sample_initial(const struct qwen_sample_opt *o);

/* Returns 1 if the value is not the default. */
int qwen_sample_differs(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v);

int qwen_sample_is_text(const struct qwen_sample_opt *o);
void qwen_sample_free_list(struct qwen_sample_list *l);

/* Copies the values of the options; those of `to' must be the defaults. */
int qwen_sample_copy_options(struct qwen_sampler *to,
    const struct qwen_sampler *from, struct qwen_err *err);

/*
 * Returns 1 if option i belongs to a method of the chain or to one that cannot
 * be moved, or is the chain's own.
 */
int qwen_chain_has(struct qwen_sampler *s, size_t i);

/*
 * Parses "top-k,temp" into at most QWEN_N_METHODS methods; returns their
 * number, or -1.
 */
int qwen_chain_read(const char *text, struct qwen_chain_method *method,
    struct qwen_chain_method **out, struct qwen_err *err);

/* Fills s->run with the methods in use, in order. */
int qwen_chain_arrange(struct qwen_sampler *s, struct qwen_err *err);

/* Returns 1 if the methods always choose the best token. */
int qwen_chain_is_greedy(const struct qwen_sampler *s);

#endif
