/* SPDX-License-Identifier: ISC */
/* options.c - the options of all methods, and parsing their values. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sample/sampler.h"

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

size_t
qwen_sample_n_opts(void)
{
	size_t n = 0;

	while (qwen_sample_opt(n) != NULL)
		n++;
	return n;
}

const struct qwen_sample_opt *
qwen_sample_opt(size_t i)
{
	struct qwen_chain_method method[QWEN_N_METHODS];
	size_t s;

	if (i < QWEN_N_CHAIN_OPTS)
		return &chain_opts[i];
	i -= QWEN_N_CHAIN_OPTS;
	qwen_chain_methods(method);
	for (s = 0; s < QWEN_N_METHODS; s++) {
		if (i < method[s].m->n_opts)
			return &method[s].m->opts[i];
		i -= method[s].m->n_opts;
	}
	return NULL;
}

/* The default is stored as a double. */
union qwen_sample_value
qwen_sample_initial(const struct qwen_sample_opt *o)
{
	union qwen_sample_value v;

	memset(&v, 0, sizeof v);
	if (o->type == QWEN_SAMPLE_REAL)
		v.d = o->def;
	else if (o->type == QWEN_SAMPLE_UINT)
		v.u = (uint64_t)o->def;
	else if (o->type == QWEN_SAMPLE_INT || o->type == QWEN_SAMPLE_FLAG)
		v.i = (int64_t)o->def;
	return v;
}

void
qwen_sample_free_list(struct qwen_sample_list *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		free(l->text[i]);
	free(l->text);
	l->text = NULL;
	l->n = 0;
}

int
qwen_sample_is_text(const struct qwen_sample_opt *o)
{
	return o->type == QWEN_SAMPLE_TEXT || o->type == QWEN_SAMPLE_LIST;
}

int
qwen_sample_differs(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v)
{
	union qwen_sample_value def = qwen_sample_initial(o);

	if (qwen_sample_is_text(o))
		return v->list.n > 0;
	if (o->type == QWEN_SAMPLE_REAL)
		return v->d != def.d;
	return o->type == QWEN_SAMPLE_UINT ? v->u != def.u : v->i != def.i;
}

/*
 * Error: "5000 is not a number from 0 to 1000"; the caller adds the option's
 * name.
 */
static int
bad_value(const struct qwen_sample_opt *o, const char *text,
    struct qwen_err *err)
{
	if (o->type == QWEN_SAMPLE_FLAG)
		return qwen_fail(err, QWEN_ERANGE, "\"%.40s\" is not 0 or 1", text);
	if (o->type == QWEN_SAMPLE_UINT)
		return qwen_fail(err, QWEN_ERANGE,
		    "\"%.40s\" is not a whole number from 0 to 2^64 - 1", text);
	return qwen_fail(err, QWEN_ERANGE,
	    "\"%.40s\" is not a %snumber from %.10g to %.10g", text,
	    o->type == QWEN_SAMPLE_INT ? "whole " : "", o->min, o->max);
}

/* Parses integers in decimal, reals in decimal with point and exponent. */
static int
parse(const struct qwen_sample_opt *o, const char *text,
    union qwen_sample_value *v, struct qwen_err *err)
{
	const char *set = o->type == QWEN_SAMPLE_REAL ? "+-.0123456789eE" :
	    o->type == QWEN_SAMPLE_UINT ? "0123456789" : "+-0123456789";
	char *tail;
	double d;

	if (text[0] == '\0' || text[strspn(text, set)] != '\0')
		return bad_value(o, text, err);
	errno = 0;
	if (o->type == QWEN_SAMPLE_REAL)
		d = v->d = strtod(text, &tail);
	else if (o->type == QWEN_SAMPLE_UINT)
		d = (double)(v->u = strtoull(text, &tail, 10));
	else
		d = (double)(v->i = strtoll(text, &tail, 10));
	if (*tail != '\0' || tail == text)
		return bad_value(o, text, err);
	if (o->type == QWEN_SAMPLE_REAL ? !(d >= o->min && d <= o->max) :
	    errno != 0)
		return bad_value(o, text, err);
	if (o->type == QWEN_SAMPLE_INT && (d < o->min || d > o->max))
		return bad_value(o, text, err);
	if (o->type == QWEN_SAMPLE_FLAG && (v->i < 0 || v->i > 1))
		return bad_value(o, text, err);
	return 0;
}

/* Checks a text value of option i: 0, or -1 with *err. */
static int
check_text(struct qwen_sampler *s, size_t i, const char *text,
    struct qwen_err *err)
{
	struct qwen_chain_method *out[QWEN_N_METHODS], *method = s->method;

	if (i == QWEN_OPT_CHAIN)
		return qwen_chain_read(text, s->method, out, err) < 0 ? -1 : 0;
	for (i -= QWEN_N_CHAIN_OPTS; i >= method->m->n_opts; method++)
		i -= method->m->n_opts;
	return method->m->check != NULL ? method->m->check(i, text, err) : 0;
}

static int
set_text(struct qwen_sampler *s, size_t i, const char *text,
    struct qwen_err *err)
{
	struct qwen_sample_list *l = &s->v[i].list;
	char *copy, **more;

	if (check_text(s, i, text, err) < 0)
		return -1;
	copy = qwen_alloc(strlen(text) + 1, 1);
	if (copy == NULL)
		return qwen_oom(err);
	memcpy(copy, text, strlen(text));
	if (qwen_sample_opt(i)->type == QWEN_SAMPLE_TEXT)
		qwen_sample_free_list(l);
	if ((more = realloc(l->text, (l->n + 1) * sizeof *more)) == NULL) {
		free(copy);
		return qwen_oom(err);
	}
	l->text = more;
	l->text[l->n++] = copy;
	return 0;
}

/* Returns the index of the option with this name, or the number of options. */
static size_t
find_option(const char *name)
{
	const struct qwen_sample_opt *o;
	size_t i;

	for (i = 0; (o = qwen_sample_opt(i)) != NULL; i++) {
		if (strcmp(o->name, name) == 0)
			break;
	}
	return i;
}

/* Sets option i unless the timeline has begun or the value is invalid. */
static int
set_option(struct qwen_sampler *s, size_t i, const char *name,
    const char *text, struct qwen_err *err)
{
	const struct qwen_sample_opt *o = qwen_sample_opt(i);
	union qwen_sample_value v = { 0 };

	if (o == NULL)
		return qwen_fail(err, QWEN_EUNSUP,
		    "unknown sampling option %.60s", name);
	if (s->context.n_vocab != 0)
		return qwen_fail(err, QWEN_ERANGE, "options cannot be set "
		    "after the first token");
	if (text == NULL && o->type == QWEN_SAMPLE_FLAG)
		text = "1";
	if (text == NULL)
		return qwen_fail(err, QWEN_ERANGE, "a value is missing");
	if (qwen_sample_is_text(o))
		return set_text(s, i, text, err);
	if (parse(o, text, &v, err) < 0)
		return -1;
	s->v[i] = v;
	return 0;
}

int
qwen_sampler_set(struct qwen_sampler *s, const char *name, const char *text,
    struct qwen_err *err)
{
	size_t i = find_option(name);

	if (set_option(s, i, name, text, err) < 0)
		return -1;
	s->set[i] = 1;
	return 0;
}

static void
reset_option(struct qwen_sampler *s, size_t i)
{
	const struct qwen_sample_opt *o = qwen_sample_opt(i);

	if (qwen_sample_is_text(o))
		qwen_sample_free_list(&s->v[i].list);
	s->v[i] = qwen_sample_initial(o);
}

/* Sets one "name=value", unless the caller set that option. */
static int
advise_option(struct qwen_sampler *s, const char *word, size_t n,
    struct qwen_err *err)
{
	size_t len = strcspn(word, "="), i;
	char name[64], value[64];

	if (n >= sizeof name || len >= n)
		return qwen_fail(err, QWEN_EFORMAT, "\"%.*s\" is not a setting "
		    "NAME=VALUE",
		    n < 64 ? (int)n : 64, word);
	snprintf(name, sizeof name, "%.*s", (int)len, word);
	snprintf(value, sizeof value, "%.*s", (int)(n - len - 1),
	    word + len + 1);
	i = find_option(name);
	if (qwen_sample_opt(i) != NULL &&
	    (s->set[i] || !qwen_chain_has(s, i)))
		return 0;
	if (set_option(s, i, name, value, err) < 0)
		return qwen_fail_in(err, "%s", name);
	return 0;
}

/* Returns 1 if the caller set the option to this number. */
static int
is_set_to(const struct qwen_sampler *s, const char *name, double value)
{
	return s->set[find_option(name)] && qwen_sampler_number(s,
	    name) == value;
}

/*
 * Returns 1 if the caller set temperature 0 or greedy: then no advice applies.
 */
static int
wants_best(const struct qwen_sampler *s)
{
	return is_set_to(s, "temp", 0) || is_set_to(s, "greedy", 1);
}

int
qwen_sampler_advise(struct qwen_sampler *s, const char *settings,
    struct qwen_err *err)
{
	size_t i, n;

	if (s->context.n_vocab != 0)
		return qwen_fail(err, QWEN_ERANGE, "options cannot be set "
		    "after the first token");
	for (i = 0; qwen_sample_opt(i) != NULL; i++) {
		if (!s->set[i])
			reset_option(s, i);
	}
	if (wants_best(s))
		return 1;
	for (; *settings != '\0'; settings += n + (settings[n] == ' ')) {
		n = strcspn(settings, " ");
		if (n > 0 && advise_option(s, settings, n, err) < 0)
			return -1;
	}
	return 0;
}

void
qwen_sampler_reset(struct qwen_sampler *s, const char *name)
{
	size_t i = find_option(name);

	if (qwen_sample_opt(i) == NULL)
		return;
	reset_option(s, i);
	s->set[i] = 0;
}

uint64_t
qwen_sampler_seed(const struct qwen_sampler *s)
{
	return s->v[QWEN_OPT_SEED].u;
}

double
qwen_sampler_number(const struct qwen_sampler *s, const char *name)
{
	size_t i = find_option(name);
	const struct qwen_sample_opt *o = qwen_sample_opt(i);

	if (o == NULL || qwen_sample_is_text(o))
		return NAN;
	if (o->type == QWEN_SAMPLE_REAL)
		return s->v[i].d;
	return o->type == QWEN_SAMPLE_UINT ? (double)s->v[i].u :
	    (double)s->v[i].i;
}

const char *
qwen_sampler_text(const struct qwen_sampler *s, const char *name, size_t i)
{
	size_t k = find_option(name);
	const struct qwen_sample_opt *o = qwen_sample_opt(k);

	return o != NULL && qwen_sample_is_text(o) && i < s->v[k].list.n ?
	    s->v[k].list.text[i] : NULL;
}

int
qwen_sample_copy_options(struct qwen_sampler *to,
    const struct qwen_sampler *from, struct qwen_err *err)
{
	const struct qwen_sample_opt *o;
	size_t i, k;

	for (i = 0; (o = qwen_sample_opt(i)) != NULL; i++) {
		to->set[i] = from->set[i];
		if (!qwen_sample_is_text(o))
			to->v[i] = from->v[i];
		for (k = 0; qwen_sample_is_text(o) && k < from->v[i].list.n;
		    k++) {
			if (set_text(to, i, from->v[i].list.text[k], err) < 0)
				return -1;
		}
	}
	return 0;
}
