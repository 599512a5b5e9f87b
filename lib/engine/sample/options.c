/* SPDX-License-Identifier: ISC */
/* options.c - setting the options of a sampler, and asking for them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "engine/sample/sampler.h"

/* Returns the index of the option with this name, or the number of options. */
static size_t
find_option(const struct qwen_sampler *s, const char *name)
{
	size_t i = 0;

	while (i < s->n_opts && strcmp(s->opt[i]->name, name) != 0)
		i++;
	return i;
}

static int
is_open(const struct qwen_sampler *s, struct qwen_err *err)
{
	return s->context.n_vocab == 0 ? 0 : qwen_fail(err, QWEN_ERANGE,
	    "options cannot be set after the first token");
}

static int
set_text(struct qwen_sampler *s, size_t i, const char *text,
    struct qwen_err *err)
{
	struct qwen_strings *l = &s->v[i].list;
	size_t at = i;
	const struct qwen_chain_method *method =
	    qwen_chain_method_of(s->method, &at);

	if (method->m->check != NULL && method->m->check(text, err) < 0)
		return -1;
	if (s->opt[i]->type == QWEN_SAMPLE_TEXT)
		qwen_strings_fini(l);
	return qwen_strings_add(l, strdup(text)) < 0 ? qwen_oom(err) : 0;
}

/* Sets option i unless the timeline has begun or the value is invalid. */
static int
set_option(struct qwen_sampler *s, size_t i, const char *name,
    const char *text, struct qwen_err *err)
{
	const struct qwen_sample_opt *o;
	union qwen_sample_value v = { 0 };

	if (i == s->n_opts)
		return qwen_fail(err, QWEN_EUNSUP,
		    "unknown sampling option %.60s", name);
	if (is_open(s, err) < 0)
		return -1;
	o = s->opt[i];
	if (text == NULL && o->type == QWEN_SAMPLE_FLAG)
		text = "1";
	if (text == NULL)
		return qwen_fail(err, QWEN_ERANGE, "a value is missing");
	if (qwen_sample_is_text(o))
		return set_text(s, i, text, err);
	if (qwen_sample_parse(o, text, &v, err) < 0)
		return -1;
	s->v[i] = v;
	return 0;
}

int
qwen_sampler_set(struct qwen_sampler *s, const char *name, const char *text,
    struct qwen_err *err)
{
	size_t i = find_option(s, name);

	if (set_option(s, i, name, text, err) < 0)
		return -1;
	s->set[i] = 1;
	return 0;
}

static void
reset_option(struct qwen_sampler *s, size_t i)
{
	if (qwen_sample_is_text(s->opt[i]))
		qwen_strings_fini(&s->v[i].list);
	s->v[i] = qwen_sample_initial(s->opt[i]);
}

void
qwen_sampler_reset(struct qwen_sampler *s, const char *name)
{
	size_t i = find_option(s, name);

	if (i == s->n_opts)
		return;
	reset_option(s, i);
	s->set[i] = 0;
}

/* --------------------------------------------------- recommended settings */

/* Sets one "name=value", unless the caller set that option. */
static int
advise_option(struct qwen_sampler *s, const char *word, size_t n,
    struct qwen_err *err)
{
	size_t len = strcspn(word, "="), i, at;
	char name[64], value[64];

	if (n >= sizeof name || len >= n)
		return qwen_fail(err, QWEN_EFORMAT, "\"%.*s\" is not a setting "
		    "NAME=VALUE",
		    n < 64 ? (int)n : 64, word);
	snprintf(name, sizeof name, "%.*s", (int)len, word);
	snprintf(value, sizeof value, "%.*s", (int)(n - len - 1),
	    word + len + 1);
	at = i = find_option(s, name);
	if (i < s->n_opts && (s->set[i] ||
	    !qwen_chain_has(s, qwen_chain_method_of(s->method, &at))))
		return 0;
	if (set_option(s, i, name, value, err) < 0)
		return qwen_fail_in(err, "%s", name);
	return 0;
}

/* Returns 1 if the caller set the option to this number. */
static int
is_set_to(const struct qwen_sampler *s, const char *name, double value)
{
	return s->set[find_option(s, name)] &&
	    qwen_sampler_number(s, name) == value;
}

int
qwen_sampler_advise(struct qwen_sampler *s, const char *settings,
    struct qwen_err *err)
{
	size_t i, n;

	if (is_open(s, err) < 0)
		return -1;
	for (i = 0; i < s->n_opts; i++) {
		if (!s->set[i])
			reset_option(s, i);
	}
	/* a caller that wants the best token gets no advice */
	if (is_set_to(s, "temp", 0) || is_set_to(s, "greedy", 1))
		return 1;
	for (; *settings != '\0'; settings += n + (settings[n] == ' ')) {
		n = strcspn(settings, " ");
		if (n > 0 && advise_option(s, settings, n, err) < 0)
			return -1;
	}
	return 0;
}

/* ----------------------------------------------------------------- asking */

uint64_t
qwen_sampler_seed(const struct qwen_sampler *s)
{
	return s->v[QWEN_OPT_SEED].u;
}

double
qwen_sampler_number(const struct qwen_sampler *s, const char *name)
{
	size_t i = find_option(s, name);

	if (i == s->n_opts || qwen_sample_is_text(s->opt[i]))
		return NAN;
	return qwen_sample_number(s->opt[i], &s->v[i]);
}

const char *
qwen_sampler_text(const struct qwen_sampler *s, const char *name, size_t i)
{
	size_t k = find_option(s, name);

	return k < s->n_opts && qwen_sample_is_text(s->opt[k]) &&
	    i < s->v[k].list.n ? s->v[k].list.v[i] : NULL;
}

int
qwen_sample_copy_options(struct qwen_sampler *to,
    const struct qwen_sampler *from, struct qwen_err *err)
{
	const struct qwen_strings *texts;
	size_t i, k;

	memcpy(to->set, from->set, to->n_opts);
	for (i = 0; i < to->n_opts; i++) {
		if (!qwen_sample_is_text(to->opt[i])) {
			to->v[i] = from->v[i];
			continue;
		}
		texts = &from->v[i].list;
		for (k = 0; k < texts->n; k++) {
			if (qwen_strings_add(&to->v[i].list,
			    strdup(texts->v[k])) < 0)
				return qwen_oom(err);
		}
	}
	return 0;
}
