/* SPDX-License-Identifier: ISC */
/*
 * number.c - numbers, by their least and their largest: the digits of one that
 * is between two others.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/schema/schema.h"

/* ----------------------------------------------------------------- decimals */

/* 12.5e-3: where the point comes to be among the digits. */
static int
read_text(struct decimal *d, const char *t)
{
	char all[40];
	int n = 0, point = -1, e = 0, minus = 0, i;

	*d = (struct decimal){ .minus = *t == '-' };
	t += d->minus;
	for (; (*t >= '0' && *t <= '9') || *t == '.'; t++) {
		if (*t == '.') {
			point = n;
			continue;
		}
		if (n == 40)
			return -1;
		all[n++] = *t;
	}
	if (n == 0)
		return -1;
	if (*t == 'e' || *t == 'E') {
		minus = t[1] == '-';
		for (t += 1 + (t[1] == '-' || t[1] == '+'); *t >= '0' &&
		    *t <= '9'; t++)
			e = e > 1000 ? e : e * 10 + (*t - '0');
	}
	point = (point < 0 ? n : point) + (minus ? -e : e);
	/* zeros at both ends say nothing */
	for (i = 0; i < n && all[i] == '0'; i++)
		;
	while (n > i && all[n - 1] == '0')
		n--;
	if (i == n) {
		d->minus = 0;
		return 0;
	}
	if (point - i > 40 || n - point > 40)
		return -1;
	for (; i < point || (i < n && point > i); i++)
		d->digit[d->n_int++] = i < n ? all[i] : '0';
	for (e = point; e < i; e++)
		d->digit[d->n_int + d->n_frac++] = '0';
	for (; i < n; i++)
		d->digit[d->n_int + d->n_frac++] = all[i];
	return 0;
}

int
qwen_decimal_read(struct decimal *d, yyjson_val *v)
{
	return read_text(d, yyjson_is_raw(v) ? yyjson_get_raw(v) : "");
}

int
qwen_decimal_compare(const struct decimal *a, const struct decimal *b)
{
	int sign = a->minus ? -1 : 1, i, n, c = 0;

	if (a->minus != b->minus)
		return sign;
	if (a->n_int != b->n_int)
		return a->n_int > b->n_int ? sign : -sign;
	n = a->n_int + (a->n_frac < b->n_frac ? a->n_frac : b->n_frac);
	for (i = 0; i < n && c == 0; i++)
		c = a->digit[i] - b->digit[i];
	if (c == 0)
		c = a->n_frac - b->n_frac;
	return c == 0 ? 0 : c > 0 ? sign : -sign;
}

/* ------------------------------------------------------- digits as a grammar */

static uint32_t
digits(struct schema *s, int lo, int hi, int more)
{
	if (lo > hi)
		return SNODE_NEVER;
	return more == 0 ? qwen_snode_text(s, "[%c-%c]", lo, hi) :
	    more < 0 ? qwen_snode_text(s, "[%c-%c] [0-9]{0,6}", lo, hi) :
	    qwen_snode_text(s, "[%c-%c] [0-9]{%d}", lo, hi, more);
}

static uint32_t
first_then(struct schema *s, char first, uint32_t then)
{
	return qwen_snode_pair(s, SNODE_SEQ, qwen_snode_text(s, "\"%c\"",
	    first), then);
}

/* Numbers of n digits from a on, up to b, or between them. */
static uint32_t
from_on(struct schema *s, const char *a, int n)
{
	if (n == 0)
		return SNODE_EMPTY;
	return qwen_snode_pair(s, SNODE_ALT, first_then(s, a[0],
	    from_on(s, a + 1, n - 1)), digits(s, a[0] + 1, '9', n - 1));
}

static uint32_t
up_to(struct schema *s, const char *b, int n)
{
	if (n == 0)
		return SNODE_EMPTY;
	return qwen_snode_pair(s, SNODE_ALT, first_then(s, b[0],
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
	out = qwen_snode_pair(s, SNODE_ALT,
	    first_then(s, a[0], from_on(s, a + 1, n - 1)),
	    digits(s, a[0] + 1, b[0] - 1, n - 1));
	qwen_snode_add(s, out, first_then(s, b[0],
	    up_to(s, b + 1, n - 1)));
	return out;
}

/* Whole numbers from lo to hi; UINT64_MAX: without an end. */
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
		qwen_snode_add(s, out, qwen_snode_text(s,
		    "[1-9] [0-9]{%d,15}", n));
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
 * After the point, six digits more than a bound has, so that a double can tell
 * them from it.
 *
 * At least f, which has no zeros at its end, or beyond that.
 * As a rest of more digits it may_end at once.
 */
static uint32_t
fraction_from(struct schema *s, const char *f, int n, int beyond, int may_end)
{
	if (n == 0)
		return beyond ? qwen_snode_text(s,
		    "[0-9]{0,5} [1-9]") :
		    qwen_snode_text(s, "[0-9]{%d,6}", !may_end);
	return qwen_snode_pair(s, SNODE_ALT, digits(s, f[0] + 1, '9', -1),
	    first_then(s, f[0], fraction_from(s, f + 1, n - 1, beyond, 1)));
}

static uint32_t
fraction_to(struct schema *s, const char *f, int n, int beyond, int may_end)
{
	uint32_t out;

	if (n == 0)
		return beyond ? SNODE_NEVER :
		    qwen_snode_text(s, "\"0\"{%d,6}", !may_end);
	out = qwen_snode_pair(s, SNODE_ALT, digits(s, '0', f[0] - 1, -1),
	    first_then(s, f[0], fraction_to(s, f + 1, n - 1, beyond, 1)));
	if (may_end)
		qwen_snode_add(s, out, SNODE_EMPTY);
	return out;
}

/* A bound: the fraction of a number, and whether that itself is out. */
struct bound {
	const char	*f;
	int		 n, out;
};

static uint32_t
fraction_between(struct schema *s, struct bound a, struct bound b, int may_end)
{
	char x = a.n > 0 ? a.f[0] : '0', y;
	struct bound a1 = a, b1 = b;
	uint32_t out;

	if (b.n == 0)
		return a.out || b.out ? SNODE_NEVER :
		    qwen_snode_text(s, "\"0\"{%d,6}", !may_end);
	if (a.n == 0 && !a.out)
		return fraction_to(s, b.f, b.n, b.out, may_end);
	if (a.n > 0) {
		a1.f++;
		a1.n--;
	}
	b1.f++;
	b1.n--;
	y = b.f[0];
	if (x == y)
		return first_then(s, x, fraction_between(s, a1, b1, 1));
	out = qwen_snode_pair(s, SNODE_ALT,
	    first_then(s, x, fraction_from(s, a1.f, a1.n, a.out, 1)),
	    digits(s, x + 1, y - 1, -1));
	qwen_snode_add(s, out, first_then(s, y,
	    fraction_to(s, b1.f, b1.n, b.out, 1)));
	return out;
}

/* . and one of these; or nothing, if nought is among them. */
static uint32_t
pointed(struct schema *s, uint32_t fraction, int nought)
{
	uint32_t out = qwen_snode_pair(s, SNODE_SEQ,
	    qwen_snode_text(s, "\".\""), fraction);

	return nought ? qwen_snode_pair(s, SNODE_ALT, SNODE_EMPTY, out) : out;
}

/* ------------------------------------------------------------------- bounds */

struct range {
	struct decimal	lo, hi;
	int		has_lo, has_hi;
	int		beyond_lo, beyond_hi;	/* these themselves are out */
};

/* The tighter of what is there and text, which v says. */
static void
tighten(struct schema *s, yyjson_val *v, const char *text, int is_low,
    int beyond, struct range *r)
{
	struct decimal *to = is_low ? &r->lo : &r->hi, d;
	int *has = is_low ? &r->has_lo : &r->has_hi;
	int *out = is_low ? &r->beyond_lo : &r->beyond_hi;
	int c;

	if (text == NULL || read_text(&d, text) < 0) {
		qwen_schema_fail(s, v, "not a number, or one with too many "
		    "digits");
		return;
	}
	c = *has ? qwen_decimal_compare(&d, to) : 0;
	if (*has && (is_low ? c < 0 : c > 0))
		return;
	*out = beyond || (*has && c == 0 && *out);
	*to = d;
	*has = 1;
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
		/* in an old draft it says how the other is meant */
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

/* ------------------------------------------------------------------ integers */

/* The whole part; UINT64_MAX if it is more than that. */
static uint64_t
whole_part(const struct decimal *d)
{
	uint64_t n = 0;
	int i;

	if (d->n_int > 19)
		return UINT64_MAX;
	for (i = 0; i < d->n_int; i++) {
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, d->digit[i] - '0', &n))
			return UINT64_MAX;
	}
	return n;
}

/* Distances from nought, on one side of it, between these two. */
struct side {
	const struct decimal *near, *far;	/* NULL: nought; no end */
	int		near_out, far_out;	/* these themselves are */
};

/* The numbers below nought are those above it, turned; it is one of the latter. */
static int
find_side(const struct range *r, int minus, struct side *e)
{
	const struct decimal *lo = r->has_lo ? &r->lo : NULL;
	const struct decimal *hi = r->has_hi ? &r->hi : NULL;

	*e = minus ? (struct side){ hi, lo, r->beyond_hi, r->beyond_lo } :
	    (struct side){ lo, hi, r->beyond_lo, r->beyond_hi };
	if (e->near == NULL || e->near->minus != minus) {
		e->near = NULL;
		e->near_out = minus;
	}
	return e->far == NULL || e->far->minus == minus;
}

static uint32_t
integers(struct schema *s, const struct side *e)
{
	uint64_t lo = 0, hi = UINT64_MAX;
	int above = e->near_out;

	if (e->near != NULL) {
		lo = whole_part(e->near);
		above |= e->near->n_frac > 0;
	}
	if (e->far != NULL)
		hi = whole_part(e->far);
	if (lo == UINT64_MAX)
		qwen_schema_fail(s, NULL, "an integer of more than 2^64");
	if (hi != UINT64_MAX && e->far->n_frac == 0 && e->far_out) {
		if (hi == 0)
			return SNODE_NEVER;
		hi--;
	}
	return whole(s, lo + (uint64_t)above, hi);
}

/* ---------------------------------------------------------------- any numbers */

/* This whole part, and a fraction. */
static uint32_t
with(struct schema *s, uint64_t n, uint32_t fraction, int nought)
{
	uint32_t at = qwen_snode_text(s, "\"%" PRIu64 "\"", n);

	return qwen_snode_pair(s, SNODE_SEQ, at, pointed(s, fraction, nought));
}

static struct bound
bound_of(const struct decimal *d, int out)
{
	return d == NULL ? (struct bound){ "", 0, out } :
	    (struct bound){ d->digit + d->n_int, d->n_frac, out };
}

static uint32_t
reals(struct schema *s, const struct side *e)
{
	struct bound a = bound_of(e->near, e->near_out);
	struct bound b = bound_of(e->far, e->far_out);
	uint64_t lo = e->near != NULL ? whole_part(e->near) : 0;
	uint64_t hi = e->far != NULL ? whole_part(e->far) : UINT64_MAX;
	int nought_a = a.n == 0 && !a.out, nought_b = b.n > 0 || !b.out;
	uint32_t out = qwen_snode(s, SNODE_ALT);

	if (lo == UINT64_MAX)
		qwen_schema_fail(s, NULL, "a number of more than 2^64");
	if (lo > hi)
		return SNODE_NEVER;
	if (lo == hi) {
		qwen_snode_add(s, out, with(s, lo, fraction_between(s, a, b, 0),
		    nought_a && nought_b));
		return out;
	}
	qwen_snode_add(s, out, with(s, lo,
	    fraction_from(s, a.f, a.n, a.out, 0), nought_a));
	if (hi - lo > 1)
		qwen_snode_add(s, out, qwen_snode_pair(s, SNODE_SEQ,
		    whole(s, lo + 1, hi == UINT64_MAX ? hi : hi - 1),
		    qwen_snode_text(s, "(\".\" [0-9]{1,6})?")));
	if (hi != UINT64_MAX)
		qwen_snode_add(s, out, with(s, hi,
		    fraction_to(s, b.f, b.n, b.out, 0), nought_b));
	return out;
}

/* ------------------------------------------------------------------- together */

/* Multiples of 1 are whole; of others we know nothing. */
static int
find_multiple(struct schema *s, const struct schema_all *all)
{
	struct decimal d;
	int i, whole_ones = 0;

	for (i = 0; i < all->n; i++) {
		yyjson_val *v = qwen_schema_get(all, i, "multipleOf");

		if (v == NULL)
			continue;
		if (qwen_decimal_read(&d, v) < 0 || d.minus || d.n_int != 1 ||
		    d.n_frac > 0 || d.digit[0] != '1')
			qwen_schema_fail(s, all->part[i].v, "multipleOf of "
			    "anything but 1 is not supported");
		whole_ones = 1;
	}
	return whole_ones;
}

uint32_t
qwen_schema_number(struct schema *s, const struct schema_all *all, int types)
{
	struct range r = { .has_lo = 0 };
	struct side e;
	uint32_t out = qwen_snode(s, SNODE_ALT), side;
	int c, minus, only_whole;

	only_whole = find_multiple(s, all) || types == TYPE_INTEGER;
	find_range(s, all, &r);
	find_format(s, all, &r);
	if (s->failed)
		return SNODE_NEVER;
	if (!r.has_lo && !r.has_hi)
		return qwen_snode_text(s, only_whole ? "integer" : "number");
	c = r.has_lo && r.has_hi ? qwen_decimal_compare(&r.lo, &r.hi) : -1;
	if (c > 0 || (c == 0 && (r.beyond_lo || r.beyond_hi)))
		return SNODE_NEVER;
	for (minus = 0; minus < 2; minus++) {
		if (!find_side(&r, minus, &e))
			continue;
		side = only_whole ? integers(s, &e) : reals(s, &e);
		qwen_snode_add(s, out, minus ? qwen_snode_pair(s, SNODE_SEQ,
		    qwen_snode_text(s, "\"-\""), side) : side);
	}
	return out;
}
