/* SPDX-License-Identifier: ISC */
/*
 * pattern.c - regular expressions of JSON Schema (ECMAScript), as far as they
 * decide which texts match.
 */
#include <string.h>

#include "base/utf8.h"
#include "text/schema/schema.h"

enum { DEPTH = 60, TIMES = 10000 };

struct parser {
	struct schema	*s;
	yyjson_val	*where;
	const char	*re;
	size_t		 n, i;
	int		 depth;
	int		 group;		/* of its conditions */
	int		 branches;	/* the pattern has alternatives */
	struct schema_together *t;	/* gets the conditions */
};

static uint32_t
fail(struct parser *p, const char *what)
{
	return (uint32_t)qwen_schema_fail(p->s, p->where,
	    "the pattern, at character %zu: %s", p->i + 1, what);
}

static int
next_is(const struct parser *p, char c)
{
	return p->i < p->n && p->re[p->i] == c;
}

/* Skips c if it is the next character. */
static int
pass(struct parser *p, char c)
{
	int here = next_is(p, c);

	p->i += (size_t)here;
	return here;
}

/* --------------------------------------------------------------- characters */

/* Reads a character; yyjson has checked that it is UTF-8. */
static uint32_t
character(struct parser *p)
{
	uint32_t c = 0;

	p->i += (size_t)qwen_utf8_read((const unsigned char *)p->re + p->i,
	    p->n - p->i, &c);
	return c;
}

static uint32_t
hex(struct parser *p, size_t digits)
{
	uint32_t c;

	if (digits > p->n - p->i || qwen_hex_read(p->re + p->i, digits, &c) < 0)
		return fail(p, "missing hexadecimal digit");
	p->i += digits;
	return c;
}

/* Adds \p{NAME} or \P{NAME}, after the backslash; returns 1 if it is there. */
static int
add_property(struct parser *p, struct schema_set *set, int turned)
{
	const char *t = p->re + p->i, *end;
	size_t left = p->n - p->i;
	int upper = left > 0 && t[0] == 'P';
	struct schema_set own;

	if (left < 3 || (t[0] != 'p' && t[0] != 'P') || t[1] != '{' ||
	    (end = memchr(t, '}', left)) == NULL)
		return 0;
	own.n = 0;
	if (!qwen_set_property(p->s, &own, t + 2, (size_t)(end - t) - 2,
	    upper != turned)) {
		fail(p, "this Unicode property is not supported");
		return 0;
	}
	if (upper)
		qwen_set_turn(p->s, &own);
	qwen_set_unite(p->s, set, &own);
	p->i += (size_t)(end - t) + 1;
	return 1;
}

/* Adds \d and the like, after the backslash; returns 1 if it is there. */
static int
add_class(struct parser *p, struct schema_set *set, int turned)
{
	static const struct { char c; uint32_t lo, hi; } range[] = {
		{ 'w', 'A', 'Z' }, { 'w', 'a', 'z' }, { 'w', '_', '_' },
		{ 'w', '0', '9' }, { 'd', '0', '9' },
		{ 's', '\t', '\r' }, { 's', ' ', ' ' },
		/* white space that need not be generated, but is not in \S */
		{ 'r', 0x1c, 0x1f }, { 'r', 0x85, 0x85 }, { 'r', 0xa0, 0xa0 },
		{ 'r', 0x1680, 0x1680 }, { 'r', 0x2000, 0x200a },
		{ 'r', 0x2028, 0x2029 }, { 'r', 0x202f, 0x202f },
		{ 'r', 0x205f, 0x205f }, { 'r', 0x3000, 0x3000 },
		{ 'r', 0xfeff, 0xfeff },
	};
	struct schema_set own = { .n = 0 };
	char c = p->i < p->n ? p->re[p->i] : '\0';
	int upper = c == 'D' || c == 'W' || c == 'S';
	char lower = upper ? (char)(c + ('a' - 'A')) : c;
	size_t i;

	if (lower != 'd' && lower != 'w' && lower != 's')
		return 0;
	p->i++;
	for (i = 0; i < sizeof range / sizeof range[0]; i++) {
		if (range[i].c == lower || (range[i].c == 'r' &&
		    lower == 's' && upper != turned))
			qwen_set_add(p->s, &own, range[i].lo, range[i].hi);
	}
	if (upper)
		qwen_set_turn(p->s, &own);
	qwen_set_unite(p->s, set, &own);
	return 1;
}

/* Reads an escape after the backslash, except classes. */
static uint32_t
escape(struct parser *p)
{
	static const char from[] = "nrtfv0", to[] = "\n\r\t\f\v";
	const char *at;
	uint32_t c;

	if (p->i >= p->n)
		return fail(p, "backslash at the end");
	c = character(p);
	if (c < 0x80 && c != 0 && (at = strchr(from, (int)c)) != NULL) {
		if (c == '0' && p->i < p->n && p->re[p->i] >= '0' &&
		    p->re[p->i] <= '9')
			return fail(p, "octal escapes are not supported");
		return c == '0' ? 0 : (unsigned char)to[at - from];
	}
	if (c == 'x')
		return hex(p, 2);
	if (c == 'u' && pass(p, '{')) {
		for (c = 0; !pass(p, '}') && !p->s->failed; )
			c = (c & 0xffffff) * 16 + hex(p, 1);
		return c <= 0x10ffff ? c : fail(p, "not a Unicode character");
	}
	if (c == 'u')
		return hex(p, 4);
	if (c >= 0x80 || c < ' ' || (c >= '0' && c <= '9') ||
	    (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
		return fail(p, "this escape is not supported");
	return c;
}

/* Reads a character of a class (returns 1) or adds a class within it (0). */
static int
class_part(struct parser *p, struct schema_set *set, int turned, uint32_t *c)
{
	if (!pass(p, '\\')) {
		*c = character(p);
		return 1;
	}
	*c = 0;
	if (add_class(p, set, turned) || add_property(p, set, turned))
		return 0;
	*c = pass(p, 'b') ? '\b' : escape(p);
	return 1;
}

static uint32_t
one_of(struct parser *p, const struct schema_set *set)
{
	uint32_t at = qwen_snode_set(p->s, set);

	if (!p->s->failed && at != SNODE_NEVER)
		qwen_snode_keep(p->s, at, set);
	return at;
}

static uint32_t
class(struct parser *p)
{
	struct schema_set set = { .n = 0 };
	uint32_t lo, hi;
	int turned;

	p->i++;
	turned = pass(p, '^');
	if (next_is(p, ']'))
		return fail(p, "empty classes are not supported");
	while (p->i < p->n && !next_is(p, ']') && !p->s->failed) {
		if (!class_part(p, &set, turned, &lo))
			continue;
		hi = lo;
		if (next_is(p, '-') && p->i + 1 < p->n &&
		    p->re[p->i + 1] != ']') {
			p->i++;
			if (!class_part(p, &set, turned, &hi))
				return fail(p, "a range cannot end with a "
				    "class");
		}
		if (hi < lo)
			return fail(p, "range ends before it begins");
		qwen_set_add(p->s, &set, lo, hi);
	}
	if (p->i >= p->n)
		return fail(p, "unclosed bracket");
	p->i++;
	if (turned)
		qwen_set_turn(p->s, &set);
	return one_of(p, &set);
}

static uint32_t
one(struct parser *p, uint32_t c)
{
	struct schema_set set = { .n = 0 };

	qwen_set_add(p->s, &set, c, c);
	return one_of(p, &set);
}

/* A condition on a position, which needs an automaton. */
static uint32_t
node_at(struct parser *p, enum schema_at at)
{
	uint32_t out = qwen_snode_text(p->s, "\"\"");

	if (!p->s->failed)
		p->s->node[out].at = at;
	p->t->hard = 1;
	return out;
}

/* -------------------------------------------------------------- expressions */

static uint32_t alternatives(struct parser *p);
static int looks_behind(struct parser *p);

static uint32_t
group(struct parser *p)
{
	uint32_t out;

	p->i++;
	if (next_is(p, '?')) {
		const char *t = p->re + p->i + 1;
		size_t left = p->n - p->i - 1;

		/* (?P<name>...): named groups of Python, Go and Rust */
		size_t at = left > 0 && t[0] == 'P';

		if (left > 0 && t[0] == ':')
			p->i += 2;
		else if (left > at + 1 && t[at] == '<' && t[at + 1] != '=' &&
		    t[at + 1] != '!') {
			while (p->i < p->n && p->re[p->i] != '>')
				p->i++;
			p->i++;
		} else
			return fail(p, left > 0 && strchr("=!<", t[0]) != NULL ?
			    "lookahead or lookbehind is not supported here" :
			    "this kind of group is not supported");
	}
	if (++p->depth > DEPTH)
		return fail(p, "groups nested too deeply");
	out = alternatives(p);
	p->depth--;
	return pass(p, ')') ? out : fail(p, "unclosed group");
}

static uint32_t
atom(struct parser *p)
{
	struct schema_set set = { .n = 0 };

	if (next_is(p, '('))
		return group(p);
	if (next_is(p, '['))
		return class(p);
	if (pass(p, '^'))
		return node_at(p, AT_BEGIN);
	if (pass(p, '$'))
		return node_at(p, AT_END);
	if (strchr("*+?", p->re[p->i]) != NULL && p->re[p->i] != '\0')
		return fail(p, "nothing to repeat");
	if (pass(p, '.')) {
		qwen_set_add(p->s, &set, '\n', '\n');
		qwen_set_add(p->s, &set, '\r', '\r');
		qwen_set_add(p->s, &set, 0x2028, 0x2029);
		qwen_set_turn(p->s, &set);
		return one_of(p, &set);
	}
	if (!pass(p, '\\'))
		return one(p, character(p));
	if (add_class(p, &set, 0) || add_property(p, &set, 0))
		return one_of(p, &set);
	if (pass(p, 'b'))
		return node_at(p, AT_WORD);
	return pass(p, 'B') ? node_at(p, AT_NO_WORD) : one(p, escape(p));
}

static int
number(const struct parser *p, size_t *i, uint32_t *out)
{
	size_t from = *i;

	for (*out = 0; *i < p->n && p->re[*i] >= '0' && p->re[*i] <= '9'; ++*i)
		*out = *out > TIMES ? *out : *out * 10 +
		    (uint32_t)(p->re[*i] - '0');
	return *i > from;
}

/* Reads {m}, {m,} or {m,n}; another brace stands for itself (0). */
static int
braces(struct parser *p, uint32_t *min, uint32_t *max)
{
	size_t i = p->i + 1;

	if (!number(p, &i, min))
		return 0;
	*max = *min;
	if (i < p->n && p->re[i] == ',') {
		i++;
		if (!number(p, &i, max))
			*max = UINT32_MAX;
	}
	if (i >= p->n || p->re[i] != '}')
		return 0;
	p->i = i + 1;
	if (*min > TIMES || (*max > TIMES && *max != UINT32_MAX))
		fail(p, "repetition too large");
	else if (*max < *min)
		fail(p, "repetition range ends before it begins");
	return 1;
}

static uint32_t
repeat(struct parser *p, uint32_t at)
{
	uint32_t min, max;

	if (next_is(p, '*') || next_is(p, '+') || next_is(p, '?')) {
		min = next_is(p, '+');
		max = next_is(p, '?') ? 1 : UINT32_MAX;
		p->i++;
	} else if (!next_is(p, '{') || !braces(p, &min, &max))
		return at;
	/* greedy or not, the same texts match */
	pass(p, '?');
	return qwen_snode_repeat(p->s, at, min, max);
}

/* Is this the $ at the end of the pattern or of an alternative? */
static int
is_last(const struct parser *p)
{
	return next_is(p, '$') && p->depth == 0 &&
	    (p->i + 1 == p->n || p->re[p->i + 1] == '|');
}

static uint32_t
sequence(struct parser *p)
{
	uint32_t out = qwen_snode(p->s, SNODE_SEQ);

	while (p->i < p->n && !next_is(p, '|') && !next_is(p, ')') &&
	    !is_last(p) && !p->s->failed && !looks_behind(p))
		qwen_snode_add(p->s, out, repeat(p, atom(p)));
	return out;
}

static uint32_t
alternatives(struct parser *p)
{
	uint32_t out = qwen_snode(p->s, SNODE_ALT);

	qwen_snode_add(p->s, out, sequence(p));
	while (!p->s->failed && pass(p, '|'))
		qwen_snode_add(p->s, out, sequence(p));
	return out;
}

/* Any characters, around a pattern without anchors. */
static uint32_t
any(struct parser *p)
{
	struct schema_set all = { .n = 0 };
	uint32_t at = qwen_snode_text(p->s, p->s->raw ? "rawchar" : "char");

	qwen_set_add(p->s, &all, 0, 0x10ffff);
	if (!p->s->failed)
		qwen_snode_keep(p->s, at, &all);
	return qwen_snode_repeat(p->s, at, 0, UINT32_MAX);
}

/* ---------------------------------------------------- lookahead, lookbehind */

/* Is there (?=X), a second condition, or (?!X), one that must not hold? */
static int
looks(struct parser *p, const char *yes, const char *no, int *turned)
{
	size_t n = strlen(yes);

	*turned = n <= p->n - p->i && memcmp(p->re + p->i, no, n) == 0;
	return *turned || (n <= p->n - p->i &&
	    memcmp(p->re + p->i, yes, n) == 0);
}

static void
look(struct parser *p, size_t skip, int turned, int behind)
{
	uint32_t in;

	if (p->branches || p->group != 0 || p->depth > 0) {
		fail(p, "lookahead and lookbehind are supported only at the "
		    "beginning and the end of a whole pattern");
		return;
	}
	p->i += skip;
	p->depth++;
	in = behind ? any(p) : alternatives(p);
	in = qwen_snode_then(p->s, in, behind ? alternatives(p) : any(p));
	p->depth--;
	p->t->hard = 1;
	if (!pass(p, ')'))
		fail(p, "unclosed group");
	else if (next_is(p, '*') || next_is(p, '+') || next_is(p, '?') ||
	    next_is(p, '{'))
		fail(p, "lookahead or lookbehind cannot be repeated");
	else
		qwen_schema_hold(p->t, turned ? -1 : 0, in);
}

/* Takes a lookbehind at the end of a pattern; returns 1 if there is one. */
static int
looks_behind(struct parser *p)
{
	size_t i = p->i, depth = 0;
	int turned;

	if (p->depth > 0 || !looks(p, "(?<=", "(?<!", &turned))
		return 0;
	for (; i < p->n; i++) {
		if (p->re[i] == '\\')
			i++;
		else if (p->re[i] == '(')
			depth++;
		else if (p->re[i] == ')' && --depth == 0)
			break;
	}
	if (i + 2 != p->n || p->re[i + 1] != '$')
		return 0;
	look(p, 4, turned, 1);
	return 1;
}

static uint32_t
anchored(struct parser *p)
{
	uint32_t out = qwen_snode(p->s, SNODE_SEQ);
	int turned;

	if (!pass(p, '^'))
		qwen_snode_add(p->s, out, any(p));
	else {
		while (!p->s->failed && looks(p, "(?=", "(?!", &turned))
			look(p, 3, turned, 0);
	}
	qwen_snode_add(p->s, out, sequence(p));
	if (!pass(p, '$'))
		qwen_snode_add(p->s, out, any(p));
	return out;
}

/* Is there a | outside of groups and classes? */
static int
has_branches(const struct parser *p)
{
	size_t i, depth = 0;
	int inside = 0;

	for (i = 0; i < p->n; i++) {
		char c = p->re[i];

		if (c == '\\')
			i++;
		else if (inside)
			inside = c != ']';
		else if (c == '[')
			inside = 1;
		else if (c == '|' && depth == 0)
			return 1;
		else
			depth += c == '(' ? 1 : c == ')' ? (size_t)-1 : 0;
	}
	return 0;
}

void
qwen_schema_any_pattern(struct schema *s, yyjson_val *where, const char *re,
    size_t n, int group, struct schema_together *t)
{
	struct parser p = { .s = s, .where = where, .re = re, .n = n,
		.group = group, .t = t };
	uint32_t out = qwen_snode(s, SNODE_ALT);

	p.branches = has_branches(&p);
	qwen_snode_add(s, out, anchored(&p));
	while (!s->failed && pass(&p, '|'))
		qwen_snode_add(s, out, anchored(&p));
	if (p.i < p.n && !s->failed)
		fail(&p, "unmatched closing bracket");
	if (!s->failed)
		qwen_schema_hold(t, group, out);
}

void
qwen_schema_pattern(struct schema *s, yyjson_val *re, int group,
    struct schema_together *t)
{
	qwen_schema_any_pattern(s, re, yyjson_get_str(re), yyjson_get_len(re),
	    group, t);
}

void
qwen_schema_own_pattern(struct schema *s, const char *re, int group,
    struct schema_together *t)
{
	qwen_schema_any_pattern(s, NULL, re, strlen(re), group, t);
}

/* ------------------------------------------------------------------ lengths */

/* Computes the least and the most characters; UINT32_MAX: no limit, or more. */
static void
lengths(const struct schema *s, uint32_t at, uint64_t *min, uint64_t *max)
{
	const struct snode *d = &s->node[at];
	uint64_t lo, hi;
	uint32_t i;

	*min = *max = d->kind == SNODE_TEXT ? d->chars : 0;
	for (i = d->first; i != 0; i = s->node[i].next) {
		lengths(s, i, &lo, &hi);
		if (d->kind == SNODE_SEQ) {
			*min += lo;
			*max += hi;
		} else if (d->kind == SNODE_ALT) {
			*min = i == d->first || lo < *min ? lo : *min;
			*max = hi > *max ? hi : *max;
		} else {
			*min = lo * d->min;
			*max = hi * d->max;
		}
	}
	*min = *min < UINT32_MAX ? *min : UINT32_MAX;
	*max = *max < UINT32_MAX ? *max : UINT32_MAX;
}

static void
nothing(struct schema *s, uint32_t at)
{
	s->node[at].kind = SNODE_ALT;
	s->node[at].first = s->node[at].last = 0;
}

/* Limits the one part of the sequence whose length varies. */
static int
limit_sequence(struct schema *s, uint32_t at, uint64_t min, uint64_t max)
{
	uint64_t lo, hi, fixed = 0;
	uint32_t i, loose = 0;

	for (i = s->node[at].first; i != 0; i = s->node[i].next) {
		lengths(s, i, &lo, &hi);
		if (lo == hi)
			fixed += lo;
		else if (loose != 0)
			return 0;
		else
			loose = i;
	}
	if (loose == 0 || max < fixed) {
		nothing(s, at);
		return 1;
	}
	return qwen_schema_limit(s, loose, min > fixed ? min - fixed : 0,
	    max == UINT32_MAX ? max : max - fixed);
}

static int
limit_repeat(struct schema *s, uint32_t at, uint64_t min, uint64_t max)
{
	struct snode *d = &s->node[at];
	uint64_t lo, hi;

	lengths(s, d->first, &lo, &hi);
	if (lo != hi || lo == 0)
		return 0;
	if ((min + lo - 1) / lo > d->min)
		d->min = (uint32_t)((min + lo - 1) / lo);
	if (max != UINT32_MAX && max / lo < d->max)
		d->max = (uint32_t)(max / lo);
	if (d->min > d->max)
		nothing(s, at);
	return 1;
}

int
qwen_schema_limit(struct schema *s, uint32_t at, uint64_t min, uint64_t max)
{
	uint64_t lo, hi;
	uint32_t i;

	lengths(s, at, &lo, &hi);
	if (lo >= min && (hi <= max || max == UINT32_MAX))
		return 1;
	if (hi < min || lo > max) {
		nothing(s, at);
		return 1;
	}
	switch (s->node[at].kind) {
	case SNODE_SEQ:
		return limit_sequence(s, at, min, max);
	case SNODE_REPEAT:
		return limit_repeat(s, at, min, max);
	case SNODE_ALT:
		for (i = s->node[at].first; i != 0; i = s->node[i].next) {
			if (!qwen_schema_limit(s, i, min, max))
				return 0;
		}
		return 1;
	default:
		return 0;
	}
}
