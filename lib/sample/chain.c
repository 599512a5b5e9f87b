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
#include "base/pieces.h"
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

/* The chain's own options, the first of all. */
enum { SEED, CHAIN, N_OWN };

static const struct qwen_sample_opt own[N_OWN] = {
	[SEED] = { .name = "seed", .type = QWEN_SAMPLE_UINT, .arg = "N",
	  .def = 0, .help = "seed of the random numbers" },
	[CHAIN] = { .name = "chain", .type = QWEN_SAMPLE_TEXT, .arg = "LIST",
	  .help = "these methods in this order, as in top-k,temp" },
};

/* A method and the values of its options. */
struct slot {
	const struct qwen_sampler_method *m;
	union qwen_sample_value	*v;		/* into the sampler's values */
	void			*memory;
};

struct qwen_sampler {
	struct slot		 slot[N_METHODS];	/* by rank */
	struct slot		*run[N_METHODS];	/* those that apply */
	size_t			 n_run;
	int			 greedy;	/* they come down to the best */
	union qwen_sample_value	*v;		/* of all options, ours first */
	struct qwen_cands	 list;
	size_t			 n_vocab;	/* 0 before begin */
	int32_t			*masked;	/* ascending */
	size_t			 n_masked;
	int32_t			*eog;		/* likewise */
	size_t			 n_eog;
	const struct qwen_pieces *pieces;
	const struct qwen_grammar *grammar;	/* NULL: none */
	const struct qwen_trie	*trie;
	struct qwen_constraint	*constraint;	/* by that */
	int			 generated;	/* the last token was */
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
	size_t i, n = N_OWN;

	for (i = 0; i < N_METHODS; i++)
		n += table[i]->n_opts;
	return n;
}

const struct qwen_sample_opt *
qwen_sample_opt(size_t i)
{
	struct slot slot[N_METHODS];
	size_t s;

	if (i < N_OWN)
		return &own[i];
	i -= N_OWN;
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

	memset(&v, 0, sizeof v);
	if (o->type == QWEN_SAMPLE_REAL)
		v.d = o->def;
	else if (o->type == QWEN_SAMPLE_UINT)
		v.u = (uint64_t)o->def;
	else if (o->type == QWEN_SAMPLE_INT || o->type == QWEN_SAMPLE_FLAG)
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
	for (i = 0, n = N_OWN; i < N_METHODS; i++) {
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
	qwen_constraint_free(s->constraint);
	s->constraint = NULL;
	s->n_run = 0;
	s->n_vocab = 0;
	s->generated = 0;
}

static void
free_list(struct qwen_sample_list *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		free(l->text[i]);
	free(l->text);
	l->text = NULL;
	l->n = 0;
}

static int
is_text(const struct qwen_sample_opt *o)
{
	return o->type == QWEN_SAMPLE_TEXT || o->type == QWEN_SAMPLE_LIST;
}

void
qwen_sampler_free(struct qwen_sampler *s)
{
	size_t i, n = qwen_sample_n_opts();

	if (s == NULL)
		return;
	end(s);
	for (i = 0; i < n; i++) {
		if (is_text(qwen_sample_opt(i)))
			free_list(&s->v[i].list);
	}
	free(s->masked);
	free(s->eog);
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

/* ------------------------------------------------------- the chain's order */

static int
is_movable(const struct qwen_sampler_method *m)
{
	return m->rank > QWEN_RANK_FIXED && m->rank != QWEN_RANK_GREEDY;
}

/* A method of n bytes of name that can be moved, or NULL. */
static struct slot *
find_movable(struct slot *slot, const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < N_METHODS; i++) {
		const struct qwen_sampler_method *m = slot[i].m;

		if (is_movable(m) && strlen(m->name) == n &&
		    memcmp(m->name, name, n) == 0)
			return &slot[i];
	}
	return NULL;
}

/* "top-k,temp" as slots, at most N_METHODS; how many, or -1. */
static int
read_chain(const char *text, struct slot *slot, struct slot **out,
    struct qwen_err *err)
{
	size_t len, i, n = 0;

	for (;; text += len + 1) {
		struct slot *found;

		len = strcspn(text, ",");
		found = find_movable(slot, text, len);
		if (found == NULL)
			return qwen_fail(err, QWEN_ERANGE,
			    "no method of the chain is called \"%.*s\"",
			    len < 40 ? (int)len : 40, text);
		for (i = 0; i < n; i++) {
			if (out[i] == found)
				return qwen_fail(err, QWEN_ERANGE,
				    "%s is there twice", found->m->name);
		}
		out[n++] = found;
		if (text[len] == '\0')
			return (int)n;
	}
}

static int
differs(const struct qwen_sample_opt *o, const union qwen_sample_value *v)
{
	union qwen_sample_value def = initial(o);

	if (is_text(o))
		return v->list.n > 0;
	if (o->type == QWEN_SAMPLE_REAL)
		return v->d != def.d;
	return o->type == QWEN_SAMPLE_UINT ? v->u != def.u : v->i != def.i;
}

/* An option of the method that is set, or NULL. */
static const struct qwen_sample_opt *
set_option(const struct slot *s)
{
	size_t i;

	for (i = 0; i < s->m->n_opts; i++) {
		if (differs(&s->m->opts[i], &s->v[i]))
			return &s->m->opts[i];
	}
	return NULL;
}

/* The movable methods in the order in which they apply; how many, or -1. */
static int
movable(const struct qwen_sampler *s, struct slot **out, struct qwen_err *err)
{
	const struct qwen_sample_list *chain = &s->v[CHAIN].list;
	/* they are only pointed to */
	struct slot *slot = ((struct qwen_sampler *)(uintptr_t)s)->slot;
	const struct qwen_sample_opt *o;
	int n = 0, k, found;
	size_t i;

	if (chain->n > 0) {
		n = read_chain(chain->text[0], slot, out, err);
		if (n < 0)
			return -1;
	}
	for (i = 0; i < N_METHODS; i++) {
		if (!is_movable(slot[i].m))
			continue;
		if (chain->n == 0) {
			out[n++] = &slot[i];
			continue;
		}
		for (k = found = 0; k < n; k++)
			found |= out[k] == &slot[i];
		if (!found && (o = set_option(&slot[i])) != NULL)
			return qwen_fail(err, QWEN_ERANGE,
			    "%s is set, and the chain has no %s", o->name,
			    slot[i].m->name);
	}
	return n;
}

int
qwen_sampler_check(const struct qwen_sampler *s, struct qwen_err *err)
{
	struct slot *order_of[N_METHODS];

	return movable(s, order_of, err) < 0 ? -1 : 0;
}

static int
is(const struct slot *s, int rank)
{
	return s->m->rank == rank;
}

/* Whether the method applies; draws: another one wants to draw. */
static int
takes_part(const struct slot *s, int draws)
{
	if (!s->m->active(s->v))
		return 0;
	return !(is(s, QWEN_RANK_TEMPERATURE) && s->v[0].d == 0 && draws);
}

/* What applies, in its order: the fixed ones, the chain, or half and greedy. */
static int
arrange(struct qwen_sampler *s, struct qwen_err *err)
{
	struct slot *chain[N_METHODS], *greedy = NULL;
	int n = movable(s, chain, err), i, draws = 0;

	if (n < 0)
		return -1;
	s->n_run = 0;
	for (i = 0; i < (int)N_METHODS; i++) {
		struct slot *slot = &s->slot[i];

		if (slot->m->rank <= QWEN_RANK_FIXED && slot->m->active(slot->v))
			s->run[s->n_run++] = slot;
		if (is(slot, QWEN_RANK_GREEDY) && slot->m->active(slot->v))
			greedy = slot;
	}
	for (i = 0; i < n; i++)
		draws |= chain[i]->m->draws && chain[i]->m->active(chain[i]->v);
	for (i = 0; i < n; i++) {
		if (takes_part(chain[i], draws) && (greedy == NULL ||
		    chain[i]->m->rank < QWEN_RANK_GREEDY))
			s->run[s->n_run++] = chain[i];
	}
	if (greedy != NULL)
		s->run[s->n_run++] = greedy;
	return 0;
}

/* Whether nothing comes before the best token is taken that could change it. */
static int
comes_to_best(const struct qwen_sampler *s)
{
	size_t i;

	for (i = 0; i < s->n_run; i++) {
		const struct slot *slot = s->run[i];

		if (is(slot, QWEN_RANK_GREEDY) ||
		    (is(slot, QWEN_RANK_TEMPERATURE) && slot->v[0].d == 0))
			return 1;
		if (!slot->m->keeps_best)
			return 0;
	}
	return 0;
}

/* ------------------------------------------------------------ the options */

/* The method that option i is of, and its number there; or NULL. */
static const struct qwen_sampler_method *
method_of(const struct qwen_sampler *s, size_t i, size_t *opt)
{
	size_t k;

	if (i < N_OWN)
		return NULL;
	i -= N_OWN;
	for (k = 0; i >= s->slot[k].m->n_opts; k++)
		i -= s->slot[k].m->n_opts;
	*opt = i;
	return s->slot[k].m;
}

static int
check_text(struct qwen_sampler *s, size_t i, const char *text,
    struct qwen_err *err)
{
	const struct qwen_sampler_method *m;
	struct slot *out[N_METHODS];
	size_t opt = 0;

	if (i == CHAIN)
		return read_chain(text, s->slot, out, err) < 0 ? -1 : 0;
	m = method_of(s, i, &opt);
	return m->check != NULL ? m->check(opt, text, err) : 0;
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
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	memcpy(copy, text, strlen(text));
	if (qwen_sample_opt(i)->type == QWEN_SAMPLE_TEXT)
		free_list(l);
	if ((more = realloc(l->text, (l->n + 1) * sizeof *more)) == NULL) {
		free(copy);
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	}
	l->text = more;
	l->text[l->n++] = copy;
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
		if (is_text(o))
			return set_text(s, i, text, err);
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

static void
print_number(const struct qwen_sample_opt *o, const union qwen_sample_value *v,
    char *buf, size_t size)
{
	if (o->type == QWEN_SAMPLE_REAL)
		print_real(v->d, buf, size);
	else if (o->type == QWEN_SAMPLE_UINT)
		snprintf(buf, size, "%llu", (unsigned long long)v->u);
	else
		snprintf(buf, size, "%lld", (long long)v->i);
}

/* A text being written, like snprintf. */
struct out {
	char	*buf;
	size_t	 size, n;
};

static void
put(struct out *o, char c)
{
	if (o->n + 1 < o->size) {
		o->buf[o->n] = c;
		o->buf[o->n + 1] = '\0';
	}
	o->n++;
}

static void
put_word(struct out *o, const char *name, const char *value)
{
	const char *hex = "0123456789abcdef";

	if (o->n > 0)
		put(o, ' ');
	for (; *name != '\0'; name++)
		put(o, *name);
	put(o, '=');
	for (; *value != '\0'; value++) {
		unsigned char c = (unsigned char)*value;

		if (c > ' ' && c < 0x7f && c != '%') {
			put(o, *value);
			continue;
		}
		put(o, '%');
		put(o, hex[c >> 4]);
		put(o, hex[c & 15]);
	}
}

size_t
qwen_sampler_describe(const struct qwen_sampler *s, char *buf, size_t size)
{
	struct out out = { buf, size, 0 };
	size_t i, k, n = qwen_sample_n_opts();
	char number[40];

	if (size > 0)
		buf[0] = '\0';
	for (i = 0; i < n; i++) {
		const struct qwen_sample_opt *o = qwen_sample_opt(i);

		if (is_text(o)) {
			for (k = 0; k < s->v[i].list.n; k++)
				put_word(&out, o->name, s->v[i].list.text[k]);
		} else if (differs(o, &s->v[i])) {
			print_number(o, &s->v[i], number, sizeof number);
			put_word(&out, o->name, number);
		}
	}
	return out.n;
}

static int
digit(char c)
{
	const char *hex = "0123456789abcdef", *p = strchr(hex, c);

	return c == '\0' || p == NULL ? -1 : (int)(p - hex);
}

/* %20 and the like, in place; -1 for what is no digit, or stands for no byte. */
static int
unescape(char *s)
{
	char *to = s;
	int c;

	for (; *s != '\0'; s++) {
		if (*s != '%') {
			*to++ = *s;
			continue;
		}
		if (digit(s[1]) < 0 || digit(s[2]) < 0)
			return -1;
		c = digit(s[1]) * 16 + digit(s[2]);
		if (c == 0)
			return -1;
		*to++ = (char)c;
		s += 2;
	}
	*to = '\0';
	return 0;
}

int
qwen_sampler_read(struct qwen_sampler *s, const char *text,
    struct qwen_err *err)
{
	char *copy = qwen_alloc(strlen(text) + 1, 1), *word, *value, *save = NULL;
	struct qwen_err why;
	int rc = 0;

	if (copy == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	memcpy(copy, text, strlen(text));
	for (word = strtok_r(copy, " ", &save); word != NULL && rc == 0;
	    word = strtok_r(NULL, " ", &save)) {
		if ((value = strchr(word, '=')) != NULL)
			*value++ = '\0';
		if (value != NULL && unescape(value) < 0)
			rc = qwen_fail(err, QWEN_EFORMAT, "sampling option "
			    "%.40s: \"%.40s\" has a %% alone", word, value);
		else if (qwen_sampler_set(s, word, value, &why) < 0)
			rc = qwen_fail(err, why.code, "sampling option %.40s: "
			    "%.150s", word, why.msg);
	}
	free(copy);
	return rc;
}

int
qwen_sampler_needs_pieces(const struct qwen_sampler *s)
{
	size_t i;
	int needs = s->grammar != NULL;

	for (i = 0; i < N_METHODS; i++)
		needs |= s->slot[i].m->needs_pieces &&
		    s->slot[i].m->active(s->slot[i].v);
	return needs;
}

void
qwen_sampler_pieces(struct qwen_sampler *s, const struct qwen_pieces *p)
{
	s->pieces = p;
}

static int
compare_i32(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

void
qwen_sampler_grammar(struct qwen_sampler *s, const struct qwen_grammar *g,
    const struct qwen_trie *t)
{
	s->grammar = g;
	s->trie = t;
}

/* A sorted copy of a list of tokens in place of another. */
static int
copy_ids(int32_t **to, size_t *n_to, const int32_t *ids, size_t n,
    struct qwen_err *err)
{
	int32_t *copy = qwen_alloc(n, sizeof *copy);

	if (copy == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "a list of %zu tokens", n);
	if (n > 0)
		memcpy(copy, ids, n * sizeof *copy);
	qsort(copy, n, sizeof *copy, compare_i32);
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

int
qwen_sampler_eog(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err)
{
	return copy_ids(&s->eog, &s->n_eog, ids, n, err);
}

/* ----------------------------------------------------------- the timeline */

static int
begin_methods(struct qwen_sampler *s, size_t n_vocab, struct qwen_err *err)
{
	struct qwen_sample_world w = {
		.n_vocab = n_vocab, .pieces = s->pieces,
		.eog = s->eog, .n_eog = s->n_eog,
	};
	size_t i;

	for (i = 0; i < s->n_run; i++) {
		struct slot *slot = s->run[i];

		if (slot->m->needs_pieces && w.pieces == NULL)
			return qwen_fail(err, QWEN_EUNSUP,
			    "%s needs the texts of the tokens", slot->m->name);
		if (slot->m->needs_pieces && w.pieces->n != n_vocab)
			return qwen_fail(err, QWEN_ERANGE, "texts of %zu "
			    "tokens for a vocabulary of %zu", w.pieces->n,
			    n_vocab);
		if (slot->m->begin != NULL &&
		    (slot->memory = slot->m->begin(slot->v, &w, err)) == NULL)
			return -1;
	}
	return 0;
}

static int
begin_grammar(struct qwen_sampler *s, size_t n_vocab, struct qwen_err *err)
{
	if (s->grammar == NULL)
		return 0;
	if (s->pieces == NULL || s->trie == NULL || s->pieces->n != n_vocab)
		return qwen_fail(err, QWEN_EUNSUP,
		    "a grammar needs the texts of the tokens");
	return qwen_constraint_new(&s->constraint, s->grammar, s->trie,
	    s->pieces, err);
}

int
qwen_sampler_begin(struct qwen_sampler *s, size_t n_vocab,
    struct qwen_err *err)
{
	end(s);
	if (n_vocab == 0 || n_vocab > INT32_MAX)
		return qwen_fail(err, QWEN_ERANGE, "a vocabulary of %zu",
		    n_vocab);
	if (arrange(s, err) < 0 ||
	    qwen_cands_init(&s->list, n_vocab, err) < 0 ||
	    begin_methods(s, n_vocab, err) < 0 ||
	    begin_grammar(s, n_vocab, err) < 0) {
		end(s);
		return -1;
	}
	s->greedy = comes_to_best(s);
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
	for (i = 0; i < s->n_run; i++) {
		struct slot *slot = s->run[i];

		if (slot->m->accept == NULL)
			continue;
		for (k = 0; k < n; k++) {
			if (slot->m->accept(slot->v, slot->memory, tokens[k],
			    generated) < 0)
				return qwen_fail(err, QWEN_ENOMEM,
				    "sampling: %s", slot->m->name);
		}
	}
	for (k = 0; k < n && s->constraint != NULL; k++) {
		if (qwen_constraint_accept(s->constraint, tokens[k],
		    generated, err) < 0)
			return -1;
	}
	if (n > 0)
		s->generated = generated;
	return 0;
}

int
qwen_sampler_stopped(const struct qwen_sampler *s)
{
	int stops = 0, holds = 0;
	size_t i;

	for (i = 0; i < s->n_run; i++) {
		const struct slot *slot = s->run[i];

		if (slot->m->stops != NULL)
			stops |= slot->m->stops(slot->memory);
		if (slot->m->holds != NULL)
			holds |= slot->m->holds(slot->v, slot->memory);
	}
	return s->generated && stops && !holds;
}

/* There is one method with something to save. */
static const struct slot *
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
	const struct slot *slot = with_memory(s);

	buf[0] = '\0';
	if (slot != NULL)
		snprintf(buf, QWEN_SAMPLER_MEMORY, "%s=%.17g", slot->m->name,
		    slot->m->save(slot->memory));
}

int
qwen_sampler_restore(struct qwen_sampler *s, const char *text,
    struct qwen_err *err)
{
	const struct slot *slot = with_memory(s);
	size_t n = strcspn(text, "=");
	char *tail;
	double d;

	/* what another method left is of no use to this one */
	if (text[0] == '\0' || slot == NULL || strlen(slot->m->name) != n ||
	    memcmp(slot->m->name, text, n) != 0)
		return 0;
	d = text[n] != '\0' ? strtod(text + n + 1, &tail) : 0;
	if (text[n] == '\0' || *tail != '\0' || !(d >= -1e6 && d <= 1e6))
		return qwen_fail(err, QWEN_EFORMAT,
		    "\"%.60s\" is not what a sampler remembers", text);
	slot->m->restore(slot->memory, d);
	return 0;
}

/* ------------------------------------------------------------- the choice */

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

/* What a method says comes next, or -1. */
static int32_t
forced(const struct qwen_sampler *s)
{
	int32_t id = -1;
	size_t i;

	for (i = 0; i < s->n_run && id < 0; i++) {
		if (s->run[i]->m->force != NULL)
			id = s->run[i]->m->force(s->run[i]->v,
			    s->run[i]->memory);
	}
	return id;
}

/* The best token of a whole row if it may be chosen; or -1. */
static int32_t
best_of_row(const struct qwen_sampler *s, const float *logits, size_t n)
{
	struct qwen_err err;
	int finite;
	int32_t id;

	if (n == 0 || n > s->n_vocab)
		return -1;
	id = (int32_t)qwen_sample_best(logits, n, &finite);
	if (!finite || (s->n_masked > 0 && bsearch(&id, s->masked, s->n_masked,
	    sizeof id, compare_i32) != NULL))
		return -1;
	/* what is wrong comes out when all tokens are asked about */
	if (s->constraint != NULL &&
	    qwen_constraint_fits(s->constraint, id, &err) <= 0)
		return -1;
	return id;
}

static int
none_left(struct qwen_err *err)
{
	return qwen_fail(err, QWEN_ERANGE, "no token of the row may be chosen");
}

int
qwen_sampler_sample(struct qwen_sampler *s, const float *logits,
    const int32_t *ids, size_t n, uint64_t pos, int32_t *out,
    struct qwen_err *err)
{
	struct qwen_cands *l = &s->list;
	uint64_t seed = s->v[SEED].u;
	size_t i;

	if ((*out = forced(s)) >= 0)
		return 0;
	if (s->greedy && ids == NULL &&
	    (*out = best_of_row(s, logits, n)) >= 0)
		return 0;
	if (qwen_cands_fill(l, logits, ids, n, s->n_vocab, err) < 0)
		return -1;
	if (s->n_masked > 0)
		qwen_cands_drop(l, s->masked, s->n_masked);
	if (s->constraint != NULL &&
	    qwen_constraint_apply(s->constraint, l, err) < 0)
		return -1;
	l->chance = qwen_sample_uniform(~seed, pos);
	for (i = 0; i < s->n_run && l->n > 0; i++) {
		if (s->run[i]->m->apply != NULL)
			s->run[i]->m->apply(s->run[i]->v, s->run[i]->memory, l);
	}
	if (l->n == 0)
		return none_left(err);
	i = l->n == 1 ? 0 : qwen_cands_draw(l, qwen_sample_uniform(seed, pos));
	*out = l->id[i];
	return 0;
}
