/* SPDX-License-Identifier: ISC */
/*
 * chain.c - the sampler: methods in order of their ranks, then one draw.
 *
 * The methods are collected at build time (samplers.inc has a line a file).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "sample/sample.h"

#define SAMPLER(name) extern const struct qwen_sampler_method name;
#include "samplers.inc"
#undef SAMPLER

static const struct qwen_sampler_method *const table[] = {
#define SAMPLER(name) &name,
#include "samplers.inc"
#undef SAMPLER
};

#define N_METHODS (sizeof table / sizeof table[0])

/* The chain's own option, the first of all. */
static const struct qwen_sample_opt seed_opt = {
	.name = "seed", .type = QWEN_SAMPLE_UINT, .arg = "N", .def = 0,
	.help = "seed of the random numbers",
};

/* A method in the chain. */
struct slot {
	const struct qwen_sampler_method *m;
	union qwen_sample_value	*v;		/* into the sampler's values */
	void			*memory;
};

struct qwen_sampler {
	struct slot		 slot[N_METHODS];
	union qwen_sample_value	*v;		/* of all options, seed first */
	struct qwen_cands	 list;
	size_t			 n_vocab;	/* 0 before begin */
	int32_t			*masked;	/* ascending */
	size_t			 n_masked;
};

/* Methods by rank, and by name among equals. */
static int
compare_rank(const void *a, const void *b)
{
	const struct qwen_sampler_method *x = ((const struct slot *)a)->m;
	const struct qwen_sampler_method *y = ((const struct slot *)b)->m;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void
order(struct slot *slot)
{
	size_t i;

	for (i = 0; i < N_METHODS; i++) {
		slot[i] = (struct slot){ .m = table[i] };
	}
	qsort(slot, N_METHODS, sizeof *slot, compare_rank);
}

size_t
qwen_sample_n_opts(void)
{
	size_t i, n = 1;

	for (i = 0; i < N_METHODS; i++)
		n += table[i]->n_opts;
	return n;
}

const struct qwen_sample_opt *
qwen_sample_opt(size_t i)
{
	struct slot slot[N_METHODS];
	size_t s;

	if (i == 0)
		return &seed_opt;
	i--;
	order(slot);
	for (s = 0; s < N_METHODS; s++) {
		if (i < slot[s].m->n_opts)
			return &slot[s].m->opts[i];
		i -= slot[s].m->n_opts;
	}
	return NULL;
}

/* The default, which is given as a double. */
static union qwen_sample_value
initial(const struct qwen_sample_opt *o)
{
	union qwen_sample_value v;

	if (o->type == QWEN_SAMPLE_REAL)
		v.d = o->def;
	else if (o->type == QWEN_SAMPLE_UINT)
		v.u = (uint64_t)o->def;
	else
		v.i = (int64_t)o->def;
	return v;
}

int
qwen_sampler_new(struct qwen_sampler **out, struct qwen_err *err)
{
	struct qwen_sampler *s = calloc(1, sizeof *s);
	size_t i, n = qwen_sample_n_opts();

	*out = NULL;
	if (s == NULL || (s->v = calloc(n, sizeof *s->v)) == NULL) {
		free(s);
		return qwen_fail(err, QWEN_ENOMEM, "a sampler");
	}
	for (i = 0; i < n; i++)
		s->v[i] = initial(qwen_sample_opt(i));
	order(s->slot);
	for (i = 0, n = 1; i < N_METHODS; i++) {
		s->slot[i].v = s->v + n;
		n += s->slot[i].m->n_opts;
	}
	*out = s;
	return 0;
}

/* Forget the timeline; the options stay. */
static void
end(struct qwen_sampler *s)
{
	size_t i;

	for (i = 0; i < N_METHODS; i++) {
		if (s->slot[i].memory != NULL)
			s->slot[i].m->end(s->slot[i].memory);
		s->slot[i].memory = NULL;
	}
	qwen_cands_fini(&s->list);
	s->n_vocab = 0;
}

void
qwen_sampler_free(struct qwen_sampler *s)
{
	if (s == NULL)
		return;
	end(s);
	free(s->masked);
	free(s->v);
	free(s);
}

/* "5000 is not a number from 0 to 1000": the caller names the option. */
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

/* Whole numbers in decimal, others in decimal with point and exponent. */
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

int
qwen_sampler_set(struct qwen_sampler *s, const char *name, const char *text,
    struct qwen_err *err)
{
	const struct qwen_sample_opt *o;
	union qwen_sample_value v = { 0 };
	size_t i, n = qwen_sample_n_opts();

	for (i = 0; i < n; i++) {
		o = qwen_sample_opt(i);
		if (strcmp(o->name, name) != 0)
			continue;
		if (s->n_vocab != 0)
			return qwen_fail(err, QWEN_ERANGE,
			    "set after the first token");
		if (text == NULL && o->type == QWEN_SAMPLE_FLAG)
			text = "1";
		if (text == NULL)
			return qwen_fail(err, QWEN_ERANGE,
			    "a value is missing");
		if (parse(o, text, &v, err) < 0)
			return -1;
		s->v[i] = v;
		return 0;
	}
	return qwen_fail(err, QWEN_EUNSUP,
	    "no sampling method has the option %.60s", name);
}

/* The shortest decimal that reads back as d. */
static void
print_real(double d, char *buf, size_t size)
{
	int digits;

	for (digits = 1; digits <= 17; digits++) {
		snprintf(buf, size, "%.*g", digits, d);
		if (strtod(buf, NULL) == d)
			break;
	}
}

int
qwen_sampler_get(const struct qwen_sampler *s, size_t i, char *buf,
    size_t size)
{
	const struct qwen_sample_opt *o = qwen_sample_opt(i);
	union qwen_sample_value def;

	if (o == NULL)
		return -1;
	def = initial(o);
	if (o->type == QWEN_SAMPLE_REAL) {
		print_real(s->v[i].d, buf, size);
		return s->v[i].d != def.d;
	}
	if (o->type == QWEN_SAMPLE_UINT) {
		snprintf(buf, size, "%llu", (unsigned long long)s->v[i].u);
		return s->v[i].u != def.u;
	}
	snprintf(buf, size, "%lld", (long long)s->v[i].i);
	return s->v[i].i != def.i;
}

size_t
qwen_sampler_describe(const struct qwen_sampler *s, char *buf, size_t size)
{
	char text[32];
	size_t i, n = qwen_sample_n_opts(), len = 0;
	int k;

	if (size > 0)
		buf[0] = '\0';
	for (i = 0; i < n; i++) {
		if (qwen_sampler_get(s, i, text, sizeof text) != 1)
			continue;
		k = snprintf(len < size ? buf + len : NULL,
		    len < size ? size - len : 0, "%s%s=%s",
		    len > 0 ? " " : "", qwen_sample_opt(i)->name, text);
		len += (size_t)k;
	}
	return len;
}

static int
compare_i32(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

int
qwen_sampler_mask(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err)
{
	int32_t *copy = qwen_alloc(n, sizeof *copy);

	if (copy == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "%zu masked tokens", n);
	if (n > 0)
		memcpy(copy, ids, n * sizeof *copy);
	qsort(copy, n, sizeof *copy, compare_i32);
	free(s->masked);
	s->masked = copy;
	s->n_masked = n;
	return 0;
}

int
qwen_sampler_begin(struct qwen_sampler *s, size_t n_vocab,
    struct qwen_err *err)
{
	size_t i;

	end(s);
	if (n_vocab == 0 || n_vocab > INT32_MAX)
		return qwen_fail(err, QWEN_ERANGE, "a vocabulary of %zu",
		    n_vocab);
	if (qwen_cands_init(&s->list, n_vocab, err) < 0)
		return -1;
	for (i = 0; i < N_METHODS; i++) {
		struct slot *slot = &s->slot[i];

		if (slot->m->begin == NULL || !slot->m->active(slot->v))
			continue;
		if ((slot->memory = slot->m->begin(slot->v, n_vocab)) == NULL) {
			end(s);
			return qwen_fail(err, QWEN_ENOMEM, "sampling: %s",
			    slot->m->name);
		}
	}
	s->n_vocab = n_vocab;
	return 0;
}

int
qwen_sampler_accept(struct qwen_sampler *s, const int32_t *tokens, size_t n,
    int generated, struct qwen_err *err)
{
	size_t i, k;

	for (k = 0; k < n; k++) {
		if (tokens[k] < 0 || (size_t)tokens[k] >= s->n_vocab)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld is outside the vocabulary of %zu",
			    (long)tokens[k], s->n_vocab);
	}
	for (i = 0; i < N_METHODS; i++) {
		struct slot *slot = &s->slot[i];

		if (slot->memory == NULL)
			continue;
		for (k = 0; k < n; k++) {
			if (slot->m->accept(slot->v, slot->memory, tokens[k],
			    generated) < 0)
				return qwen_fail(err, QWEN_ENOMEM,
				    "sampling: %s", slot->m->name);
		}
	}
	return 0;
}

/* Take out the masked tokens. */
static int
mask(struct qwen_sampler *s, struct qwen_err *err)
{
	struct qwen_cands *l = &s->list;
	size_t i, k = 0, m = 0;

	for (i = 0; i < l->n; i++) {
		while (k < s->n_masked && s->masked[k] < l->c[i].id)
			k++;
		if (k == s->n_masked || s->masked[k] != l->c[i].id)
			l->c[m++] = l->c[i];
	}
	l->n = m;
	return m > 0 ? 0 :
	    qwen_fail(err, QWEN_ERANGE, "every token of the row is masked");
}

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

int
qwen_sampler_sample(struct qwen_sampler *s, const float *logits,
    const int32_t *ids, size_t n, uint64_t pos, int32_t *out,
    struct qwen_err *err)
{
	struct qwen_cands *l = &s->list;
	size_t i;

	if (qwen_cands_fill(l, logits, ids, n, s->n_vocab, err) < 0)
		return -1;
	if (s->n_masked > 0 && mask(s, err) < 0)
		return -1;
	for (i = 0; i < N_METHODS; i++) {
		struct slot *slot = &s->slot[i];

		if (l->n > 1 && slot->m->active(slot->v))
			slot->m->apply(slot->v, slot->memory, l);
	}
	i = l->n == 1 ? 0 :
	    qwen_cands_draw(l, qwen_sample_uniform(s->v[0].u, pos));
	*out = l->c[i].id;
	return 0;
}
