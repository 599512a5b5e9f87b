/* SPDX-License-Identifier: ISC */
/* chain.c - the methods, and the order in which they apply. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/sample/sampler.h"

static int check_chain(const char *text, struct qwen_err *err);

static const struct qwen_sample_opt chain_opts[QWEN_N_CHAIN_OPTS] = {
	[QWEN_OPT_SEED] = { .name = "seed", .type = QWEN_SAMPLE_UINT,
	  .arg = "N",
	  .def = 0, .fields = { "seed" },
	  .help = "seed of the random numbers" },
	[QWEN_OPT_CHAIN] = { .name = "chain", .type = QWEN_SAMPLE_TEXT,
	  .arg = "LIST",
	  .help = "use these sampling methods in this order, as in "
	      "top-k,temp" },
};

static const struct qwen_sampler_method own = {
	.name = "sampler", .rank = QWEN_RANK_OWN, .keeps_best = 1,
	.n_opts = QWEN_N_CHAIN_OPTS, .opts = chain_opts, .check = check_chain,
};

static const struct qwen_sampler_method *const table[QWEN_N_METHODS] = {
	&own,
#define SAMPLER(name) &name,
#include "samplers.inc"
#undef SAMPLER
};

/* Compares methods by rank, then by name. */
static int
compare_rank(const void *a, const void *b)
{
	const struct qwen_sampler_method *x =
	    ((const struct qwen_chain_method *)a)->m;
	const struct qwen_sampler_method *y =
	    ((const struct qwen_chain_method *)b)->m;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(x->name, y->name);
}

void
qwen_chain_methods(struct qwen_chain_method *method)
{
	size_t i;

	for (i = 0; i < QWEN_N_METHODS; i++)
		method[i] = (struct qwen_chain_method){ .m = table[i] };
	qsort(method, QWEN_N_METHODS, sizeof *method, compare_rank);
}

size_t
qwen_sample_n_opts(void)
{
	size_t n = 0, i;

	for (i = 0; i < QWEN_N_METHODS; i++)
		n += table[i]->n_opts;
	return n;
}

const struct qwen_sample_opt *
qwen_sample_opt(size_t i)
{
	struct qwen_chain_method method[QWEN_N_METHODS];

	if (i >= qwen_sample_n_opts())
		return NULL;
	qwen_chain_methods(method);
	return &qwen_chain_method_of(method, &i)->m->opts[i];
}

struct qwen_chain_method *
qwen_chain_method_of(struct qwen_chain_method *method, size_t *i)
{
	for (; *i >= method->m->n_opts; method++)
		*i -= method->m->n_opts;
	return method;
}

int
qwen_chain_method_active(const struct qwen_chain_method *method)
{
	return method->m->active != NULL ? method->m->active(method) :
	    qwen_sample_differs(method->m->opts, method->v);
}

static int
is_movable(const struct qwen_sampler_method *m)
{
	return m->rank > QWEN_RANK_FIXED && m->rank != QWEN_RANK_GREEDY;
}

/* Returns the movable method with this name of n bytes, or NULL. */
static struct qwen_chain_method *
find_movable(struct qwen_chain_method *method, const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < QWEN_N_METHODS; i++) {
		const struct qwen_sampler_method *m = method[i].m;

		if (is_movable(m) && strlen(m->name) == n &&
		    memcmp(m->name, name, n) == 0)
			return &method[i];
	}
	return NULL;
}

/* Parses "top-k,temp" into methods; returns their number, or -1. */
static int
read_chain(const char *text, struct qwen_chain_method *method,
    struct qwen_chain_method **out, struct qwen_err *err)
{
	size_t len, i, n = 0;

	for (;; text += len + 1) {
		struct qwen_chain_method *found;

		len = strcspn(text, ",");
		found = find_movable(method, text, len);
		if (found == NULL)
			return qwen_fail(err, QWEN_ERANGE,
			    "the chain has an unknown method \"%.*s\"",
			    len < 40 ? (int)len : 40, text);
		for (i = 0; i < n; i++) {
			if (out[i] == found)
				return qwen_fail(err, QWEN_ERANGE,
				    "%s occurs twice", found->m->name);
		}
		out[n++] = found;
		if (text[len] == '\0')
			return (int)n;
	}
}

static int
check_chain(const char *text, struct qwen_err *err)
{
	struct qwen_chain_method method[QWEN_N_METHODS], *out[QWEN_N_METHODS];

	qwen_chain_methods(method);
	return read_chain(text, method, out, err) < 0 ? -1 : 0;
}

/* Returns an option that has turned the method on, or NULL. */
static const struct qwen_sample_opt *
set_option(const struct qwen_chain_method *s)
{
	size_t i;

	for (i = 0; i < s->m->n_opts && qwen_chain_method_active(s); i++) {
		if (qwen_sample_differs(&s->m->opts[i], &s->v[i]))
			return &s->m->opts[i];
	}
	return NULL;
}

/*
 * Fills out with the movable methods in the order in which they apply; returns
 * their number, or -1.
 */
static int
movable(const struct qwen_sampler *s, struct qwen_chain_method **out,
    struct qwen_err *err)
{
	const struct qwen_strings *chain = &s->v[QWEN_OPT_CHAIN].list;
	/* methods are only pointed to, not changed */
	struct qwen_chain_method *method =
	    ((struct qwen_sampler *)(uintptr_t)s)->method;
	const struct qwen_sample_opt *o;
	int n = 0, k, found;
	size_t i;

	if (chain->n > 0) {
		n = read_chain(chain->v[0], method, out, err);
		if (n < 0)
			return -1;
	}
	for (i = 0; i < QWEN_N_METHODS; i++) {
		if (!is_movable(method[i].m))
			continue;
		if (chain->n == 0) {
			out[n++] = &method[i];
			continue;
		}
		for (k = found = 0; k < n; k++)
			found |= out[k] == &method[i];
		if (!found && (o = set_option(&method[i])) != NULL)
			return qwen_fail(err, QWEN_ERANGE,
			    "%s is set, but the chain has no %s", o->name,
			    method[i].m->name);
	}
	return n;
}

int
qwen_chain_has(struct qwen_sampler *s, const struct qwen_chain_method *method)
{
	const struct qwen_strings *chain = &s->v[QWEN_OPT_CHAIN].list;
	struct qwen_chain_method *out[QWEN_N_METHODS];
	int n, k = 0;

	if (!is_movable(method->m) || chain->n == 0)
		return 1;
	n = read_chain(chain->v[0], s->method, out, NULL);
	while (k < n && out[k] != method)
		k++;
	return k < n;
}

int
qwen_sampler_check(const struct qwen_sampler *s, struct qwen_err *err)
{
	struct qwen_chain_method *order_of[QWEN_N_METHODS];

	return movable(s, order_of, err) < 0 ? -1 : 0;
}

static int
has_rank(const struct qwen_chain_method *s, int rank)
{
	return s->m->rank == rank;
}

/*
 * Returns 1 if the method applies. draws: another method needs a random draw,
 * so temperature 0 does not.
 */
static int
takes_part(const struct qwen_chain_method *s, int draws)
{
	if (!qwen_chain_method_active(s))
		return 0;
	return !(has_rank(s, QWEN_RANK_TEMPERATURE) && s->v[0].d == 0 && draws);
}

/* Returns 1 for an active method that cannot be moved by --chain. */
static int
is_fixed(const struct qwen_sampler *s, const struct qwen_chain_method *method)
{
	return method->m->rank <= QWEN_RANK_FIXED &&
	    (qwen_chain_method_active(method) || (has_rank(method,
	    QWEN_RANK_LOGIT_BIAS) && s->context.n_biased > 0));
}

int
qwen_chain_arrange(const struct qwen_sampler *s,
    struct qwen_chain_method **run, struct qwen_err *err)
{
	struct qwen_chain_method *chain[QWEN_N_METHODS], *greedy = NULL;
	/* methods are only pointed to, not changed */
	struct qwen_chain_method *all =
	    ((struct qwen_sampler *)(uintptr_t)s)->method;
	int n = movable(s, chain, err), n_run = 0, i, draws = 0;

	if (n < 0)
		return -1;
	for (i = 0; i < (int)QWEN_N_METHODS; i++) {
		struct qwen_chain_method *method = &all[i];

		if (is_fixed(s, method))
			run[n_run++] = method;
		if (has_rank(method, QWEN_RANK_GREEDY) &&
		    qwen_chain_method_active(method))
			greedy = method;
	}
	for (i = 0; i < n; i++)
		draws |= chain[i]->m->draws &&
		    qwen_chain_method_active(chain[i]);
	for (i = 0; i < n; i++) {
		if (takes_part(chain[i], draws) && (greedy == NULL ||
		    chain[i]->m->rank < QWEN_RANK_GREEDY))
			run[n_run++] = chain[i];
	}
	if (greedy != NULL)
		run[n_run++] = greedy;
	return n_run;
}

/* Returns 1 for a method that leaves only the best token. */
static int
is_best(const struct qwen_chain_method *s)
{
	return has_rank(s, QWEN_RANK_GREEDY) ||
	    (has_rank(s, QWEN_RANK_TEMPERATURE) && s->v[0].d == 0);
}

int
qwen_chain_takes_best(struct qwen_chain_method *const *run, size_t n)
{
	size_t i;

	for (i = 0; i < n && run[i]->m->keeps_best && !is_best(run[i]); i++)
		;
	return i < n && is_best(run[i]);
}

int
qwen_sampler_is_greedy(const struct qwen_sampler *s)
{
	struct qwen_chain_method *run[QWEN_N_METHODS];
	int n = qwen_chain_arrange(s, run, NULL), i;

	for (i = 0; i < n; i++) {
		if (run[i]->m->forced_token != NULL || run[i]->m->stops != NULL)
			return 0;
	}
	return n > 0 && s->n_masked == 0 && s->constraint.ops == NULL &&
	    qwen_chain_takes_best(run, (size_t)n);
}

int
qwen_sampler_draws(const struct qwen_sampler *s)
{
	struct qwen_chain_method *run[QWEN_N_METHODS];
	int n = qwen_chain_arrange(s, run, NULL), i, best = 0, coin = 0;

	for (i = 0; i < n; i++) {
		best |= is_best(run[i]);
		coin |= has_rank(run[i], QWEN_RANK_XTC);
	}
	return !best || coin;
}
