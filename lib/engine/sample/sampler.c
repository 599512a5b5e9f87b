/* SPDX-License-Identifier: ISC */
/*
 * sampler.c - a sampler: creation, the tokens of its timeline, and choosing
 * tokens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/pieces.h"
#include "engine/sample/sampler.h"

int
qwen_sampler_new(struct qwen_sampler **out, struct qwen_err *err)
{
	struct qwen_sampler *s = calloc(1, sizeof *s);
	size_t i, k, n = qwen_sample_n_opts();
	struct qwen_chain_method *method;

	*out = NULL;
	if (s == NULL || (s->v = calloc(n, sizeof *s->v)) == NULL ||
	    (s->set = calloc(n, 1)) == NULL ||
	    (s->opt = calloc(n, sizeof *s->opt)) == NULL) {
		qwen_sampler_free(s);
		return qwen_oom(err);
	}
	s->features = qwen_cpu_detect();
	qwen_chain_methods(s->method);
	for (i = 0; i < QWEN_N_METHODS; i++) {
		method = &s->method[i];
		method->v = s->v + s->n_opts;
		method->w = &s->context;
		for (k = 0; k < method->m->n_opts; k++) {
			method->v[k] = qwen_sample_initial(&method->m->opts[k]);
			s->opt[s->n_opts++] = &method->m->opts[k];
		}
	}
	*out = s;
	return 0;
}

/* Ends the timeline; the options stay. */
static void
end_timeline(struct qwen_sampler *s)
{
	size_t i;

	for (i = 0; i < QWEN_N_METHODS; i++) {
		struct qwen_chain_method *method = &s->method[i];

		if (method->memory != NULL && method->m->end != NULL)
			method->m->end(method);
		free(method->memory);
		method->memory = NULL;
	}
	qwen_cands_fini(&s->list);
	qwen_constrained_free(s->reply);
	s->reply = NULL;
	s->n_run = 0;
	s->context.n_vocab = 0;
	s->generated = 0;
}

void
qwen_sampler_free(struct qwen_sampler *s)
{
	size_t i;

	if (s == NULL)
		return;
	end_timeline(s);
	for (i = 0; i < s->n_opts; i++) {
		if (qwen_sample_is_text(s->opt[i]))
			qwen_strings_fini(&s->v[i].list);
	}
	free(s->masked);
	free(s->context.eog);
	free(s->v);
	free(s->set);
	free(s->opt);
	free(s);
}

int
qwen_sampler_needs_pieces(const struct qwen_sampler *s)
{
	size_t i;
	int needs = s->constraint.ops != NULL;

	for (i = 0; i < QWEN_N_METHODS; i++)
		needs |= s->method[i].m->needs_pieces &&
		    qwen_chain_method_active(&s->method[i]);
	return needs;
}

void
qwen_sampler_pieces(struct qwen_sampler *s, const struct qwen_pieces *p)
{
	s->context.pieces = p;
}

void
qwen_sampler_constrain(struct qwen_sampler *s, struct qwen_constraint c)
{
	s->constraint = c;
}

/* Replaces a list of tokens by a sorted copy of another list. */
static int
copy_ids(int32_t **to, size_t *n_to, const int32_t *ids, size_t n,
    struct qwen_err *err)
{
	int32_t *copy = qwen_alloc(n, sizeof *copy);

	if (copy == NULL)
		return qwen_oom(err);
	if (n > 0)
		memcpy(copy, ids, n * sizeof *copy);
	qsort(copy, n, sizeof *copy, qwen_sample_compare_ids);
	free(*to);
	*to = copy;
	*n_to = n;
	return 0;
}

int
qwen_sampler_mask(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err)
{
	return copy_ids(&s->masked, &s->n_masked, ids, n, err);
}

void
qwen_sampler_bias(struct qwen_sampler *s, const int32_t *ids, const float *x,
    size_t n)
{
	s->context.biased = ids;
	s->context.bias = x;
	s->context.n_biased = n;
}

int
qwen_sampler_eog(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err)
{
	return copy_ids(&s->context.eog, &s->context.n_eog, ids, n, err);
}

int
qwen_sampler_copy(struct qwen_sampler **out, const struct qwen_sampler *from,
    struct qwen_err *err)
{
	struct qwen_sampler *s;

	*out = NULL;
	if (qwen_sampler_new(&s, err) < 0)
		return -1;
	s->features = from->features;
	s->context.pieces = from->context.pieces;
	s->constraint = from->constraint;
	qwen_sampler_bias(s, from->context.biased, from->context.bias,
	    from->context.n_biased);
	if (qwen_sample_copy_options(s, from, err) < 0 ||
	    qwen_sampler_eog(s, from->context.eog, from->context.n_eog,
	    err) < 0 ||
	    qwen_sampler_mask(s, from->masked, from->n_masked, err) < 0) {
		qwen_sampler_free(s);
		return -1;
	}
	*out = s;
	return 0;
}

int
qwen_sampler_cpu(struct qwen_sampler *s, const char *level,
    struct qwen_err *err)
{
	return qwen_cpu_limit(&s->features, level, err);
}

/* ----------------------------------------------------------- the timeline */

static int
begin_methods(struct qwen_sampler *s, struct qwen_err *err)
{
	const struct qwen_pieces *p = s->context.pieces;
	size_t i;

	for (i = 0; i < s->n_run; i++) {
		struct qwen_chain_method *method = s->run[i];

		if (method->m->needs_pieces && p == NULL)
			return qwen_fail(err, QWEN_EUNSUP,
			    "%s needs the texts of tokens", method->m->name);
		if (method->m->needs_pieces && p->n != s->context.n_vocab)
			return qwen_fail(err, QWEN_ERANGE, "texts of %zu "
			    "tokens for a vocabulary of %zu", p->n,
			    s->context.n_vocab);
		if (method->m->memory > 0 &&
		    (method->memory = qwen_alloc(1, method->m->memory)) == NULL)
			return qwen_oom(err);
		if (method->m->begin != NULL && method->m->begin(method,
		    err) < 0)
			return -1;
	}
	return 0;
}

static int
begin_reply(struct qwen_sampler *s, struct qwen_err *err)
{
	if (s->constraint.ops == NULL)
		return 0;
	if (s->context.pieces == NULL ||
	    s->context.pieces->n != s->context.n_vocab)
		return qwen_fail(err, QWEN_EUNSUP,
		    "a grammar needs the texts of tokens");
	return qwen_constrained_new(&s->reply, &s->constraint,
	    s->context.pieces, err);
}

int
qwen_sampler_begin(struct qwen_sampler *s, size_t n_vocab,
    struct qwen_err *err)
{
	int n;

	end_timeline(s);
	if (n_vocab == 0 || n_vocab > INT32_MAX)
		return qwen_fail(err, QWEN_ERANGE, "invalid vocabulary size "
		    "%zu", n_vocab);
	s->context.n_vocab = n_vocab;
	n = qwen_chain_arrange(s, s->run, err);
	s->n_run = n < 0 ? 0 : (size_t)n;
	if (n < 0 ||
	    (s->lent == NULL && qwen_cands_init(&s->list, n_vocab, err) < 0) ||
	    begin_methods(s, err) < 0 || begin_reply(s, err) < 0) {
		end_timeline(s);
		return -1;
	}
	s->sift = qwen_sift_choose(s->features);
	s->greedy = qwen_chain_takes_best(s->run, s->n_run);
	return 0;
}

void
qwen_sampler_lend(struct qwen_sampler *s, struct qwen_cands *l)
{
	s->lent = l;
}

int
qwen_sampler_accept(struct qwen_sampler *s, const int32_t *tokens, size_t n,
    int generated, struct qwen_err *err)
{
	size_t i, k;

	for (k = 0; k < n; k++) {
		if (tokens[k] < 0 ? generated :
		    (size_t)tokens[k] >= s->context.n_vocab)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld is outside the vocabulary of %zu",
			    (long)tokens[k], s->context.n_vocab);
	}
	for (i = 0; i < s->n_run; i++) {
		struct qwen_chain_method *method = s->run[i];

		if (method->m->accept == NULL)
			continue;
		for (k = 0; k < n; k++) {
			if (tokens[k] >= 0 && method->m->accept(method,
			    tokens[k], generated) < 0)
				return qwen_oom(err);
		}
	}
	for (k = 0; k < n && s->reply != NULL; k++) {
		if (tokens[k] >= 0 && qwen_constrained_accept(s->reply,
		    tokens[k], generated, err) < 0)
			return -1;
	}
	if (n > 0)
		s->generated = generated;
	return 0;
}

int
qwen_sampler_stopped(const struct qwen_sampler *s)
{
	int stops = 0, holds = 0, now;
	size_t i;

	for (i = 0; i < s->n_run; i++) {
		const struct qwen_chain_method *method = s->run[i];

		if (method->m->stops != NULL &&
		    (now = method->m->stops(method)) != 0 && stops == 0)
			stops = now;
		if (method->m->holds != NULL)
			holds |= method->m->holds(method);
	}
	if (!s->generated)
		return 0;
	if (s->reply != NULL && qwen_constrained_is_over(s->reply))
		return QWEN_STOPPED_TEXT;
	return holds ? 0 : stops;
}

/* Returns the only method with something to save, or NULL. */
static struct qwen_chain_method *
with_memory(const struct qwen_sampler *s)
{
	size_t i;

	for (i = 0; i < s->n_run; i++) {
		if (s->run[i]->m->save != NULL)
			return s->run[i];
	}
	return NULL;
}

void
qwen_sampler_save(const struct qwen_sampler *s, char buf[QWEN_SAMPLER_MEMORY])
{
	const struct qwen_chain_method *method = with_memory(s);

	buf[0] = '\0';
	if (method != NULL)
		snprintf(buf, QWEN_SAMPLER_MEMORY, "%s=%.17g", method->m->name,
		    method->m->save(method));
}

int
qwen_sampler_restore(struct qwen_sampler *s, const char *text,
    struct qwen_err *err)
{
	struct qwen_chain_method *method = with_memory(s);
	size_t n = strcspn(text, "=");
	char *tail;
	double d;

	/* ignore what another method saved */
	if (text[0] == '\0' || method == NULL || strlen(method->m->name) != n ||
	    memcmp(method->m->name, text, n) != 0)
		return 0;
	d = text[n] != '\0' ? strtod(text + n + 1, &tail) : 0;
	if (text[n] == '\0' || *tail != '\0' || !(d >= -1e6 && d <= 1e6))
		return qwen_fail(err, QWEN_EFORMAT,
		    "\"%.60s\" is not a saved sampler state", text);
	method->m->restore(method, d);
	return 0;
}

/* --------------------------------------------------------------- choosing */

static uint64_t
mix(uint64_t z)
{
	z ^= z >> 30;
	z *= 0xbf58476d1ce4e5b9;
	z ^= z >> 27;
	z *= 0x94d049bb133111eb;
	return z ^ z >> 31;
}

double
qwen_sample_uniform(uint64_t seed, uint64_t pos)
{
	const uint64_t g = 0x9e3779b97f4a7c15;

	return (double)(mix(mix(seed + g) + (pos + 1) * g) >> 11) * 0x1p-53;
}

/* Returns the token that a method forces, or -1. */
static int32_t
forced(const struct qwen_sampler *s)
{
	int32_t id = -1;
	size_t i;

	for (i = 0; i < s->n_run && id < 0; i++) {
		if (s->run[i]->m->forced_token != NULL)
			id = s->run[i]->m->forced_token(s->run[i]);
	}
	return id;
}

/* Returns the best token of a whole row if it is allowed; else -1. */
static int32_t
best_of_row(const struct qwen_sampler *s, const float *logits, size_t n)
{
	struct qwen_err err;
	int finite;
	int32_t id;

	if (n == 0 || n > s->context.n_vocab)
		return -1;
	id = (int32_t)qwen_sample_best(s->sift, logits, n, &finite);
	if (!finite || (s->n_masked > 0 && bsearch(&id, s->masked,
	    s->n_masked, sizeof id, qwen_sample_compare_ids) != NULL))
		return -1;
	/* the slower path reports the error */
	if (s->reply != NULL &&
	    qwen_constrained_fits(s->reply, id, &err) <= 0)
		return -1;
	return id;
}

int
qwen_sampler_sample(struct qwen_sampler *s, const float *logits,
    const int32_t *ids, size_t n, uint64_t pos, int32_t *out,
    struct qwen_err *err)
{
	struct qwen_cands *l = s->lent != NULL ? s->lent : &s->list;
	uint64_t seed = s->v[QWEN_OPT_SEED].u;
	size_t i;

	if ((*out = forced(s)) >= 0)
		return 0;
	if (logits == NULL)
		return qwen_fail(err, QWEN_ERANGE, "no logits to sample from");
	if (s->greedy && ids == NULL &&
	    (*out = best_of_row(s, logits, n)) >= 0)
		return 0;
	l->sift = s->sift;
	if (qwen_cands_fill(l, logits, ids, n, s->context.n_vocab, err) < 0)
		return -1;
	if (s->n_masked > 0)
		qwen_cands_drop(l, s->masked, s->n_masked);
	if (s->reply != NULL &&
	    qwen_constrained_apply(s->reply, l, err) < 0)
		return -1;
	l->uniform = qwen_sample_uniform(~seed, pos);
	for (i = 0; i < s->n_run && l->n > 0; i++) {
		if (s->run[i]->m->apply != NULL)
			s->run[i]->m->apply(s->run[i], l);
	}
	if (l->n == 0)
		return qwen_fail(err, QWEN_ERANGE, "no token of the row is "
		    "allowed");
	i = l->n == 1 ? 0 : qwen_cands_draw(l, qwen_sample_uniform(seed, pos));
	*out = l->id[i];
	return 0;
}
