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

/* The sampler's own options are those of a method that does nothing. */
enum {
	COUNT_OWN,
#define SAMPLER(name) COUNT_##name,
#include "samplers.inc"
#undef SAMPLER
	QWEN_N_METHODS
};

/* The own options come first. */
enum { QWEN_OPT_SEED, QWEN_OPT_CHAIN, QWEN_N_CHAIN_OPTS };

struct qwen_sampler {
	struct qwen_chain_method method[QWEN_N_METHODS];	/* ordered by
								   rank */
	struct qwen_chain_method *run[QWEN_N_METHODS];	/* methods in use, in
							   order */
	size_t			 n_run;
	int			 greedy;	/* the methods always choose the
						   best token */
	union qwen_sample_value	*v;		/* values of all options, by
						   method */
	const struct qwen_sample_opt **opt;	/* what they are values of */
	unsigned char		*set;		/* per option: set by the
						   caller */
	size_t			 n_opts;
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

/*
 * value.c. qwen_sample_is_text returns 1 if the option has a list of texts;
 * qwen_sample_initial returns its default; qwen_sample_differs returns 1 if the
 * value is not the default.
 */
int qwen_sample_is_text(const struct qwen_sample_opt *o);
union qwen_sample_value qwen_sample_initial(const struct qwen_sample_opt *o);
int qwen_sample_differs(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v);

/*
 * For numbers: the value as a double; parsing, which fails with QWEN_ERANGE;
 * and printing it so that parsing gives the same value.
 */
double qwen_sample_number(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v);
int qwen_sample_parse(const struct qwen_sample_opt *o, const char *text,
    union qwen_sample_value *v, struct qwen_err *err);
void qwen_sample_print(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v, char *buf, size_t size);

/* Copies the values of the options; those of `to' must be the defaults. */
int qwen_sample_copy_options(struct qwen_sampler *to,
    const struct qwen_sampler *from, struct qwen_err *err);

/*
 * Returns the method of option i, which exists, and subtracts from *i the
 * options of the methods before.
 */
struct qwen_chain_method * qwen_chain_method_of(
    struct qwen_chain_method *method, size_t *i);

/* Returns 1 if the method is part of the chain, or cannot be moved. */
int qwen_chain_has(struct qwen_sampler *s,
    const struct qwen_chain_method *method);

/*
 * Fills run with the methods in use: the fixed ones, then the chain; with
 * greedy, only the part of the chain ranked before greedy, and then greedy.
 * Returns their number, or -1.
 */
int qwen_chain_arrange(const struct qwen_sampler *s,
    struct qwen_chain_method **run, struct qwen_err *err);

/*
 * Returns 1 if the best token is always chosen: a method takes the best, and
 * all methods before it keep the best.
 */
int qwen_chain_takes_best(struct qwen_chain_method *const *run, size_t n);

#endif
