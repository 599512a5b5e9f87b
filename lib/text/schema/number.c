/* SPDX-License-Identifier: ISC */
/* number.c - numbers by their bounds: the digits of numbers in a range. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/schema/schema.h"

/* ------------------------------------------------------ digits as a grammar */

/* A digit or sign lo .. hi; also usable for an automaton. */
static uint32_t
between_two(struct schema *s, char lo, char hi)
{
	uint32_t at = lo == hi ? qwen_snode_text(s, "\"%c\"", lo) :
	    qwen_snode_text(s, "[%c-%c]", lo, hi);
	struct schema_set set = { .n = 0 };

	qwen_set_add(s, &set, (uint32_t)lo, (uint32_t)hi);
	qwen_snode_keep(s, at, &set);
	return s->failed ? SNODE_NEVER : at;
}

static uint32_t
some_digits(struct schema *s, char lo, char hi, uint32_t min, uint32_t max)
{
	return qwen_snode_repeat(s, between_two(s, lo, hi), min, max);
}

/* A digit lo .. hi and `more' digits; if more < 0, up to ~more digits. */
static uint32_t
digits(struct schema *s, int lo, int hi, int more)
{
	uint32_t one;

	if (lo > hi)
		return SNODE_NEVER;
	one = between_two(s, (char)lo, (char)hi);
	if (more == 0 || more == -1)
		return one;
	return qwen_snode_then(s, one, more < 0 ?
	    some_digits(s, '0', '9', 0, (uint32_t)~more) :
	    some_digits(s, '0', '9', (uint32_t)more, (uint32_t)more));
}

static uint32_t
first_then(struct schema *s, char first, uint32_t then)
{
	return qwen_snode_then(s, between_two(s, first, first), then);
}

/* Digits of numbers of n digits: a or more, b or less, or a to b. */
static uint32_t
from_on(struct schema *s, const char *a, int n)
{
	if (n == 0)
		return SNODE_EMPTY;
	return qwen_snode_or(s, first_then(s, a[0],
	    from_on(s, a + 1, n - 1)), digits(s, a[0] + 1, '9', n - 1));
}

static uint32_t
up_to(struct schema *s, const char *b, int n)
{
	if (n == 0)
		return SNODE_EMPTY;
	return qwen_snode_or(s, first_then(s, b[0],
	    up_to(s, b + 1, n - 1)), digits(s, '0', b[0] - 1, n - 1));
}

static uint32_t
between(struct schema *s, const char *a, const char *b, int n)
{
	uint32_t out;

	if (n == 0)
		return SNODE_EMPTY;
	if (a[0] == b[0])
		return first_then(s, a[0], between(s, a + 1, b + 1, n - 1));
	out = qwen_snode_or(s, first_then(s, a[0], from_on(s, a + 1, n - 1)),
	    digits(s, a[0] + 1, b[0] - 1, n - 1));
	qwen_snode_add(s, out, first_then(s, b[0], up_to(s, b + 1, n - 1)));
	return out;
}

/* Whole numbers lo .. hi; UINT64_MAX: no limit. */
static uint32_t
whole(struct schema *s, uint64_t lo, uint64_t hi)
{
	uint32_t out = qwen_snode(s, SNODE_ALT);
	char a[24], b[24];
	int n, most;

	if (lo > hi)
		return SNODE_NEVER;
	snprintf(a, sizeof a, "%" PRIu64, lo);
	snprintf(b, sizeof b, "%" PRIu64, hi);
	n = (int)strlen(a);
	most = hi == UINT64_MAX ? n : (int)strlen(b);
	if (hi == UINT64_MAX && n < 16)
		qwen_snode_add(s, out, qwen_snode_then(s, between_two(s, '1',
		    '9'), some_digits(s, '0', '9', (uint32_t)n, 15)));
	for (; n <= most && !s->failed; n++) {
		char to[24];

		memset(to, '9', sizeof to);
		qwen_snode_add(s, out, between(s, a,
		    n == most && hi != UINT64_MAX ? b : to, n));
		memset(a, '0', sizeof a);
		a[0] = '1';
	}
	return out;
}

/* ---------------------------------------------------------------- fractions */

/*
 * Fractions have at most MORE digits more than their bound, enough for a double
 * to differ from it; if left >= 0, at most left digits in all.
 *
 * fraction_from() makes the fractions of at least a bound, or above it if it is
 * excluded.  A bound has no zeros at its end. may_end: it may be empty, since
 * digits come before it.
 */
enum { MORE = 6 };

/* Returns `more' for digits(), for at most left digits in all. */
static int
rest(int left)
{
	return ~(left < 0 ? MORE : left - 1);
}

/* Returns the digits left after one more. */
static int
less(int left)
{
	return left < 0 ? left : left - 1;
}

/* A bound: its fraction, and whether the bound itself is excluded. */
struct bound {
	const char	*f;
	int		 n, out;
};

/* The bound without its first digit. */
static struct bound
after(struct bound b)
{
	b.f += b.n > 0;
	b.n -= b.n > 0;
	return b;
}

static uint32_t
fraction_from(struct schema *s, struct bound a, int may_end, int left)
{
	uint32_t most = (uint32_t)(left < 0 ? MORE : left);

	if (a.n == 0 && a.out)
		return left == 0 ? SNODE_NEVER : qwen_snode_then(s,
		    some_digits(s, '0', '9', 0, most - 1),
		    between_two(s, '1', '9'));
	if (a.n == 0)
		return left == 0 && !may_end ? SNODE_NEVER :
		    some_digits(s, '0', '9', (uint32_t)!may_end, most);
	if (left == 0)
		return SNODE_NEVER;
	return qwen_snode_or(s, digits(s, a.f[0] + 1, '9', rest(left)),
	    first_then(s, a.f[0], fraction_from(s, after(a), 1, less(left))));
}

static uint32_t
fraction_to(struct schema *s, struct bound b, int may_end, int left)
{
	uint32_t out;

	if (b.n == 0)
		return b.out || (left == 0 && !may_end) ? SNODE_NEVER :
		    some_digits(s, '0', '0', (uint32_t)!may_end,
		    (uint32_t)(left < 0 ? MORE : left));
	if (left == 0)
		return may_end ? SNODE_EMPTY : SNODE_NEVER;
	out = qwen_snode_or(s, digits(s, '0', b.f[0] - 1, rest(left)),
	    first_then(s, b.f[0], fraction_to(s, after(b), 1, less(left))));
	if (may_end)
		qwen_snode_add(s, out, SNODE_EMPTY);
	return out;
}

static uint32_t
fraction_between(struct schema *s, struct bound a, struct bound b,
    int may_end, int left)
{
	char x = a.n > 0 ? a.f[0] : '0';
	uint32_t out;

	if (b.n == 0)
		return a.out || b.out ? SNODE_NEVER :
		    fraction_to(s, b, may_end, left);
	if (a.n == 0 && !a.out)
		return fraction_to(s, b, may_end, left);
	if (left == 0)
		return SNODE_NEVER;
	if (x == b.f[0])
		return first_then(s, x, fraction_between(s, after(a), after(b),
		    1, less(left)));
	out = qwen_snode_or(s, first_then(s, x, fraction_from(s, after(a), 1,
	    less(left))), digits(s, x + 1, b.f[0] - 1, rest(left)));
	qwen_snode_add(s, out, first_then(s, b.f[0],
	    fraction_to(s, after(b), 1, less(left))));
	return out;
}

/* A point and a fraction; nought: or neither. */
static uint32_t
pointed(struct schema *s, uint32_t fraction, int nought)
{
	uint32_t out = qwen_snode_then(s, between_two(s, '.', '.'), fraction);

	return nought ? qwen_snode_or(s, SNODE_EMPTY, out) : out;
}

/* ------------------------------------------------------------------- bounds */

struct limit {
	struct decimal	d;
	int		is_set, out;		/* the bound is excluded */
};

struct range {
	struct limit	hi, lo;
};

/* Sets a bound if it is tighter than the present one; v is for the message. */
static void
tighten(struct schema *s, yyjson_val *v, const char *text, int is_low,
    int beyond, struct range *r)
{
	struct limit *to = is_low ? &r->lo : &r->hi;
	struct decimal d;
	int c;

	if (text == NULL || qwen_decimal_read_text(&d, text) < 0) {
		qwen_schema_fail(s, v, "not a number, or one with too many "
		    "digits");
		return;
	}
	c = to->is_set ? qwen_decimal_compare(&d, &to->d) : 0;
	if (is_low ? c < 0 : c > 0)
		return;
	*to = (struct limit){ d, 1, beyond || (c == 0 && to->out) };
}

static void
find_range(struct schema *s, const struct schema_all *all, struct range *r)
{
	static const char *const name[2][2] = {
		{ "maximum", "exclusiveMaximum" },
		{ "minimum", "exclusiveMinimum" },
	};
	int i, low;

	for (i = 0; i < 2 * all->n; i++) {
		yyjson_val *v, *x;

		low = i % 2;
		v = qwen_schema_get(all, i / 2, name[low][0]);
		x = qwen_schema_get(all, i / 2, name[low][1]);
		/* in old drafts, true: the bound is excluded */
		if (v != NULL)
			tighten(s, v, yyjson_get_raw(v), low,
			    yyjson_is_true(x), r);
		if (x != NULL && !yyjson_is_bool(x))
			tighten(s, x, yyjson_get_raw(x), low, 1, r);
	}
}

static void
find_format(struct schema *s, const struct schema_all *all, struct range *r)
{
	static const struct { const char *name, *lo, *hi; } known[] = {
		{ "int32", "-2147483648", "2147483647" },
		{ "int64", "-9223372036854775808", "9223372036854775807" },
	};
	int i, k;

	for (i = 0; i < 2 * all->n; i++) {
		yyjson_val *v = qwen_schema_get(all, i / 2, "format");

		k = i % 2;
		if (!yyjson_equals_str(v, known[k].name))
			continue;
		tighten(s, v, known[k].lo, 1, 0, r);
		tighten(s, v, known[k].hi, 0, 0, r);
	}
}

/* ----------------------------------------------------------------- integers */

/* Returns the whole part; UINT64_MAX if it is too large. */
static uint64_t
whole_part(const struct decimal *d)
{
	uint64_t n = 0;
	int i;

	if (d->n_int > 19)
		return UINT64_MAX;
	/* 19 digits fit */
	for (i = 0; i < d->n_int; i++)
		n = n * 10 + (uint64_t)(d->digit[i] - '0');
	return n;
}

/*
 * Numbers on one side of zero, by the bounds of their distance from zero; not
 * set: zero, no limit.
 */
struct side {
	struct limit	near, far;
};

/* Finds the range on one side of zero; returns 0 if it is empty. */
static int
find_side(const struct range *r, int minus, struct side *e)
{
	*e = minus ? (struct side){ r->hi, r->lo } :
	    (struct side){ r->lo, r->hi };
	if (!e->near.is_set || e->near.d.minus != minus)
		e->near = (struct limit){ .out = minus };
	return !e->far.is_set || e->far.d.minus == minus;
}

static uint32_t
integers(struct schema *s, const struct side *e)
{
	uint64_t lo = whole_part(&e->near.d), hi = UINT64_MAX;
	int above = e->near.out || e->near.d.n_frac > 0;

	if (e->far.is_set)
		hi = whole_part(&e->far.d);
	if (lo == UINT64_MAX)
		qwen_schema_fail(s, NULL, "an integer exceeds 2^64");
	if (hi != UINT64_MAX && e->far.d.n_frac == 0 && e->far.out) {
		if (hi == 0)
			return SNODE_NEVER;
		hi--;
	}
	return whole(s, lo + (uint64_t)above, hi);
}

/* -------------------------------------------------------------- any numbers */

/* Numbers of whole part n and a fraction; nought: or no fraction. */
static uint32_t
with(struct schema *s, uint64_t n, uint32_t fraction, int nought)
{
	uint32_t at = qwen_snode(s, SNODE_SEQ);
	char text[24];
	int i;

	snprintf(text, sizeof text, "%" PRIu64, n);
	for (i = 0; text[i] != '\0'; i++)
		qwen_snode_add(s, at, between_two(s, text[i], text[i]));
	return qwen_snode_then(s, at, pointed(s, fraction, nought));
}

static struct bound
bound_of(const struct limit *l)
{
	return (struct bound){ l->d.digit + l->d.n_int, l->d.n_frac, l->out };
}

static uint32_t
reals(struct schema *s, const struct side *e, int left)
{
	struct bound a = bound_of(&e->near), b = bound_of(&e->far);
	uint64_t lo = whole_part(&e->near.d);
	uint64_t hi = e->far.is_set ? whole_part(&e->far.d) : UINT64_MAX;
	int nought_a = a.n == 0 && !a.out, nought_b = b.n > 0 || !b.out;
	uint32_t out = qwen_snode(s, SNODE_ALT);

	if (lo == UINT64_MAX)
		qwen_schema_fail(s, NULL, "a number exceeds 2^64");
	if (lo > hi)
		return SNODE_NEVER;
	if (lo == hi) {
		qwen_snode_add(s, out, with(s, lo, fraction_between(s, a, b, 0,
		    left), nought_a && nought_b));
		return out;
	}
	qwen_snode_add(s, out, with(s, lo,
	    fraction_from(s, a, 0, left), nought_a));
	if (hi - lo > 1)
		qwen_snode_add(s, out, qwen_snode_then(s, whole(s, lo + 1, hi ==
		    UINT64_MAX ? hi : hi - 1), pointed(s, some_digits(s, '0',
		    '9', 1, (uint32_t)(left < 0 ? MORE : left)), 1)));
	if (hi != UINT64_MAX)
		qwen_snode_add(s, out, with(s, hi,
		    fraction_to(s, b, 0, left), nought_b));
	return out;
}

/* ---------------------------------------------------------- all constraints */

/* What multipleOf requires: a multiple of n * 10^-left. */
struct multiple {
	int		left;		/* digits after the point; -1: any
					   number */
	uint32_t	n;		/* 0 or 1: any multiple of 10^-left */
};

static void
one_multiple(struct schema *s, yyjson_val *v, struct multiple *m)
{
	struct decimal d;
	uint64_t n = 0;
	int i;

	if (qwen_decimal_read(&d, v) < 0 || d.minus || d.n_int + d.n_frac == 0 ||
	    d.n_int > 15 || d.n_frac > 9) {
		qwen_schema_fail(s, v, "this multipleOf is not supported");
		return;
	}
	for (i = 0; i < d.n_int + d.n_frac && n < 100000; i++)
		n = n * 10 + (uint64_t)(d.digit[i] - '0');
	if (n == 1 && m->left >= 0 && d.n_frac >= m->left)
		return;
	if (n > 1000 || (m->left >= 0 && (m->n > 1 || n > 1)))
		qwen_schema_fail(s, v, "multipleOf above 1000, with too many "
		    "digits, or twice for one value is not supported");
	m->n = (uint32_t)n;
	if (m->left < 0 || d.n_frac < m->left)
		m->left = d.n_frac;
}

/*
 * A later multipleOf must be 1, 0.1, 0.01 ...; the larger of two counts.
 */
static struct multiple
find_multiple(struct schema *s, const struct schema_all *all, int types)
{
	struct multiple m = { .left = -1 };
	yyjson_val *v;
	int i;

	for (i = 0; i < all->n; i++) {
		if ((v = qwen_schema_get(all, i, "multipleOf")) != NULL)
			one_multiple(s, v, &m);
	}
	/* each integer is a multiple of 0.1 */
	if (types == TYPE_INTEGER && m.left > 0 && m.n > 1)
		qwen_schema_fail(s, all->part[0].v, "a multipleOf that is not "
		    "an integer is not supported for integers");
	if (types == TYPE_INTEGER)
		m.left = 0;
	return m;
}

/* The numbers in the range. */
static uint32_t
by_range(struct schema *s, const struct range *r, int left)
{
	uint32_t out = qwen_snode(s, SNODE_ALT), side;
	struct side e;
	int c, minus;

	c = r->lo.is_set && r->hi.is_set ? qwen_decimal_compare(&r->lo.d,
	    &r->hi.d) : -1;
	if (c > 0 || (c == 0 && (r->lo.out || r->hi.out)))
		return out;
	for (minus = 0; minus < 2; minus++) {
		if (!find_side(r, minus, &e))
			continue;
		side = left == 0 ? integers(s, &e) : reals(s, &e, left);
		qwen_snode_add(s, out, minus ? qwen_snode_then(s,
		    between_two(s, '-', '-'), side) : side);
	}
	return out;
}

/*
 * Adds conditions: none of the numbers that not lists, with any zeros at the
 * end.
 */
static void
exclude(struct schema *s, const struct schema_all *all,
    struct schema_together *t)
{
	char re[120];
	struct decimal d;
	yyjson_val *v;
	size_t n;
	int i;

	for (i = 0; i < all->n; i++) {
		SCHEMA_EACH_VALUE(qwen_schema_get(all, i, "not"), n, v) {
			if (s->failed || !yyjson_is_raw(v) ||
			    qwen_decimal_read(&d, v) < 0)
				continue;
			/* 0 equals -0 */
			snprintf(re, sizeof re, "^%s%s%.*s%s%.*s%s$",
			    d.n_int + d.n_frac == 0 ? "-?" : d.minus ? "-" :
			    "", d.n_int == 0 ? "0" : "", d.n_int, d.digit,
			    d.n_frac > 0 ? "\\." : "", d.n_frac, d.digit +
			    d.n_int, d.n_frac > 0 ? "0*" : "(?:\\.0+)?");
			qwen_schema_own_pattern(s, re, -1, t);
		}
	}
}

/* Numbers that meet all constraints; t->full: there are too many. */
static uint32_t
together(struct schema *s, const struct schema_all *all, struct multiple m,
    uint32_t tree, struct schema_together *t)
{
	static const char part[] = "\\.\\d*[1-9]$";
	uint32_t out;
	char re[40];

	if (tree == 0 && (all->out & TYPE_INTEGER)) {
		/* few digits, so that no double rounds it to an integer */
		static const char few[] = "^-?(?:0|[1-9]\\d{0,8})\\.\\d{1,6}$";

		qwen_schema_own_pattern(s, few, 0, t);
	} else if (tree != 0)
		qwen_schema_hold(t, 0, tree);
	else {
		snprintf(re, sizeof re, m.left == 0 ? "^(?:0|-?[1-9]\\d{0,15})$" :
		    "^-?(?:0|[1-9]\\d{0,15})(?:\\.\\d{1,%d})?$", m.left < 0 ?
		    15 : m.left);
		qwen_schema_own_pattern(s, re, 0, t);
	}
	if (m.n > 1 && m.left > 0) {
		/* digits form a whole number only with all decimals */
		snprintf(re, sizeof re, "\\.\\d{%d}$", m.left);
		qwen_schema_own_pattern(s, re, 0, t);
	}
	if (all->out & TYPE_INTEGER)
		qwen_schema_own_pattern(s, part, 0, t);
	if (m.n > 1)
		qwen_schema_condition(t, (struct schema_condition){
		    .multiple = m.n });
	exclude(s, all, t);
	out = qwen_schema_together(s, t);
	if (t->full && !s->failed)
		qwen_schema_fail(s, all->part[0].v, "too many constraints on "
		    "one number");
	return out;
}

uint32_t
qwen_schema_number(struct schema *s, const struct schema_all *all, int types)
{
	struct schema_together t = { .n = 0 }, u = { .n = 0 };
	struct range r = { .lo.out = 0 };
	struct multiple m = find_multiple(s, all, types);
	uint32_t tree = 0;

	find_range(s, all, &r);
	find_format(s, all, &r);
	exclude(s, all, &u);
	if (s->failed)
		return SNODE_NEVER;
	if (r.lo.is_set || r.hi.is_set)
		tree = by_range(s, &r, m.left);
	if (m.n > 1 || (all->out & TYPE_INTEGER) || u.n > 0 ||
	    (tree == 0 && m.left > 0))
		return together(s, all, m, tree, &t);
	return tree != 0 ? tree : qwen_snode_text(s, m.left == 0 ? "integer" :
	    "number");
}
