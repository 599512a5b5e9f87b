/* SPDX-License-Identifier: ISC */
/*
 * gbnf.c - parses GBNF: rules of literals, character classes, groups, rule
 * names and repetitions, in the syntax that language model tools share.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/grammar/gbnf.h"

/* Sets the error with the line, unless one is set.  Returns 0, no part. */
static uint32_t
fail(struct gbnf_parser *p, const char *what)
{
	size_t i, line = 1;

	if (p->failed)
		return 0;
	for (i = 0; i < p->i && i < p->n; i++)
		line += p->s[i] == '\n';
	qwen_fail(p->err, QWEN_EFORMAT, "line %zu: %s", line, what);
	p->failed = 1;
	return 0;
}

/* ----------------------------------------------------------------- reading */

/* Adds a part. */
static uint32_t
make(struct gbnf_parser *p, enum gbnf_kind kind, uint32_t a, uint32_t b)
{
	if (p->n_ast >= QWEN_GRAMMAR_NODES)
		fail(p, "the grammar is too large");
	if (!qwen_gbnf_more(p, &p->ast, &p->cap_ast, p->n_ast, sizeof *p->ast))
		return 0;
	p->ast[p->n_ast] = (struct gbnf_part){ .kind = kind, .a = a, .b = b };
	return (uint32_t)p->n_ast++;
}

static void
add_range(struct gbnf_parser *p, uint32_t lo, uint32_t hi)
{
	if (qwen_gbnf_more(p, &p->range, &p->cap_range, p->n_range,
	    sizeof *p->range))
		p->range[p->n_range++] = (struct gbnf_range){ lo, hi };
}

/* Is the next character c? pass() also skips it. */
static int
next_is(const struct gbnf_parser *p, char c)
{
	return !p->failed && p->i < p->n && p->s[p->i] == c;
}

static int
pass(struct gbnf_parser *p, char c)
{
	int here = next_is(p, c);

	p->i += (size_t)here;
	return here;
}

/* Skips white space and comments; lines: skips line feeds, too. */
static void
space(struct gbnf_parser *p, int lines)
{
	while (p->i < p->n) {
		char c = p->s[p->i];

		if (c == '#') {
			while (p->i < p->n && p->s[p->i] != '\n')
				p->i++;
		} else if (c == ' ' || c == '\t' || c == '\r' ||
		    (lines && c == '\n'))
			p->i++;
		else
			break;
	}
}

static int
is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Returns the rule of this name, and creates it if it is new. */
static uint32_t
find_rule(struct gbnf_parser *p, const char *name, size_t len)
{
	struct qwen_grammar *g = p->g;
	uint32_t h = 0;
	char *copy;
	size_t i;

	for (i = 0; i < len; i++)
		h = 31 * h + (unsigned char)name[i];
	for (h = h * 0x9e3779b1u >> 19; p->slot[h] != 0;
	    h = (h + 1) % GBNF_SLOTS) {
		i = p->slot[h] - 1u;
		if (g->rule[i].len == len &&
		    memcmp(g->rule[i].name, name, len) == 0)
			return (uint32_t)i;
	}
	if (g->n_rules >= QWEN_GRAMMAR_RULES)
		fail(p, "too many rules");
	if (!qwen_gbnf_more(p, &g->rule, &g->cap_rules, g->n_rules,
	    sizeof *g->rule))
		return 0;
	if ((copy = qwen_alloc(len + 1, 1)) == NULL) {
		p->failed = qwen_oom(p->err) < 0;
		return 0;
	}
	memcpy(copy, name, len);
	g->rule[g->n_rules] = (struct qwen_grule){ .name = copy, .len = len };
	p->slot[h] = (uint16_t)++g->n_rules;
	return (uint32_t)g->n_rules - 1;
}

/* Returns the length of the name here, 0 if there is none. */
static size_t
name_here(const struct gbnf_parser *p)
{
	size_t n = 0;

	while (p->i + n < p->n && is_name(p->s[p->i + n]))
		n++;
	return n;
}

static uint32_t
escape(struct gbnf_parser *p)
{
	static const char from[] = "nrt\\\"[]-^/'", to[] = "\n\r\t\\\"[]-^/'";
	const char *at;
	size_t digits;
	uint32_t out;
	char c;

	if (p->i >= p->n)
		return fail(p, "backslash at the end");
	c = p->s[p->i++];
	digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	if (digits > p->n - p->i || (digits > 0 &&
	    qwen_hex_read(p->s + p->i, digits, &out) < 0))
		return fail(p, "missing hexadecimal digit");
	p->i += digits;
	if (digits > 0)
		return out;
	if (c == '\0' || (at = strchr(from, c)) == NULL)
		return fail(p, "unknown escape");
	return (unsigned char)to[at - from];
}

/* Reads a UTF-8 character or an escape. */
static uint32_t
character(struct gbnf_parser *p)
{
	const unsigned char *s = (const unsigned char *)p->s + p->i;
	uint32_t c = 0;
	int len;

	if (p->i == p->n || *s == '\n')
		return fail(p, "unclosed quote or bracket");
	if (pass(p, '\\'))
		c = escape(p);
	else {
		len = qwen_utf8_read(s, p->n - p->i, &c);
		if (len <= 0)
			return fail(p, "not UTF-8");
		p->i += (size_t)len;
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return fail(p, "not a Unicode character");
	return c;
}

static uint32_t
literal(struct gbnf_parser *p)
{
	size_t from = p->text.n;
	char s[4];

	for (p->i++; !p->failed && !pass(p, '"'); )
		qwen_text_add(&p->text, s, qwen_utf8_write(character(p), s));
	if (p->text.failed && !p->failed)
		p->failed = qwen_oom(p->err) < 0;
	return p->text.n == from || p->failed ? 0 : make(p, GBNF_TEXT,
	    (uint32_t)from, (uint32_t)(p->text.n - from));
}

static int
compare_range(const void *a, const void *b)
{
	const struct gbnf_range *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

/*
 * Sorts and joins the ranges from first on; outside: then replaces them by all
 * characters outside of them.
 */
static void
settle(struct gbnf_parser *p, size_t first, int outside)
{
	size_t n = p->n_range - first, i, m = 0;
	struct gbnf_range *r = n > 0 ? p->range + first : NULL;
	uint32_t from = 0, next;

	if (n > 0)
		qsort(r, n, sizeof *r, compare_range);
	for (i = 0; i < n; i++) {
		if (m > 0 && r[i].lo <= r[m - 1].hi + 1) {
			if (r[i].hi > r[m - 1].hi)
				r[m - 1].hi = r[i].hi;
		} else
			r[m++] = r[i];
	}
	p->n_range = first + m;
	if (!outside)
		return;
	p->n_range = first;
	for (i = 0; i < m; i++) {
		next = r[i].hi + 1;
		if (r[i].lo > from)
			p->range[p->n_range++] = (struct gbnf_range){ from,
			    r[i].lo - 1 };
		from = next;
	}
	if (from <= 0x10ffff)
		add_range(p, from, 0x10ffff);
}

static uint32_t
class(struct gbnf_parser *p)
{
	size_t first = p->n_range;
	uint32_t lo, hi;
	int outside;

	p->i++;
	outside = pass(p, '^');
	while (!p->failed && !pass(p, ']')) {
		lo = hi = character(p);
		if (next_is(p, '-') && p->i + 1 < p->n &&
		    p->s[p->i + 1] != ']') {
			p->i++;
			hi = character(p);
		}
		if (hi < lo)
			fail(p, "range ends before it begins");
		add_range(p, lo, hi);
	}
	settle(p, first, outside);
	if (p->n_range == first)
		fail(p, "empty character class");
	return make(p, GBNF_RANGES, (uint32_t)first,
	    (uint32_t)(p->n_range - first));
}

static uint32_t alternatives(struct gbnf_parser *p);

static uint32_t
group(struct gbnf_parser *p)
{
	uint32_t a;

	p->i++;
	if (++p->depth > QWEN_GRAMMAR_DEPTH)
		return fail(p, "brackets nested too deeply");
	a = alternatives(p);
	p->depth--;
	return pass(p, ')') ? a : fail(p, "unclosed bracket");
}

static uint32_t
number(struct gbnf_parser *p)
{
	size_t from = p->i;
	uint32_t n = 0;

	for (; p->i < p->n && p->s[p->i] >= '0' && p->s[p->i] <= '9'; p->i++) {
		n = n * 10 + (uint32_t)(p->s[p->i] - '0');
		if (n > QWEN_GRAMMAR_NODES)
			return fail(p, "repetition too large");
	}
	return p->i > from ? n : fail(p, "missing number");
}

/* Reads {m}, {m,} or {m,n} after the brace. */
static void
bounds(struct gbnf_parser *p, uint32_t *min, uint32_t *max)
{
	space(p, 0);
	*max = *min = number(p);
	space(p, 0);
	if (pass(p, ',')) {
		space(p, 0);
		*max = p->i < p->n && p->s[p->i] != '}' ? number(p) :
		    UINT32_MAX;
		space(p, 0);
	}
	if (!pass(p, '}'))
		fail(p, "unclosed brace");
	if (*max < *min)
		fail(p, "repetition range ends before it begins");
}

/* Reads the *, +, ? or { after a part, if there is one. */
static uint32_t
repeat(struct gbnf_parser *p, uint32_t a)
{
	uint32_t min = 0, max = UINT32_MAX, r;

	if (pass(p, '{'))
		bounds(p, &min, &max);
	else if (pass(p, '+'))
		min = 1;
	else if (pass(p, '?'))
		max = 1;
	else if (!pass(p, '*'))
		return a;
	if (p->i < p->n && strchr("*+?{", p->s[p->i]) != NULL)
		fail(p, "repeated repetition needs brackets");
	if ((r = make(p, GBNF_REPEAT, a, 0)) != 0) {
		p->ast[r].min = min;
		p->ast[r].max = max;
	}
	return r;
}

static uint32_t
item(struct gbnf_parser *p)
{
	uint32_t a;
	size_t n;

	switch (p->s[p->i]) {
	case '"':
		return literal(p);
	case '[':
		return class(p);
	case '(':
		return group(p);
	case '.':
		p->i++;
		add_range(p, 0, 0x10ffff);
		return make(p, GBNF_RANGES, (uint32_t)p->n_range - 1, 1);
	}
	if ((n = name_here(p)) == 0)
		return fail(p, "expected a string, a character class, a group "
		    "or a rule name");
	a = find_rule(p, p->s + p->i, n);
	p->i += n;
	return make(p, GBNF_RULE, a, 0);
}

/* Returns the offset after "name ::=" if a rule begins here; else 0. */
static size_t
rule_here(struct gbnf_parser *p)
{
	size_t n = name_here(p), at = p->i, end;

	p->i += n;
	space(p, 0);
	end = n > 0 && p->n - p->i >= 3 &&
	    memcmp(p->s + p->i, "::=", 3) == 0 ? p->i + 3 : 0;
	p->i = at;
	return end;
}

static uint32_t
sequence(struct gbnf_parser *p)
{
	uint32_t all = 0, one;

	for (;;) {
		/* a line may end within a rule, even outside of brackets */
		space(p, 1);
		if (p->failed || p->i >= p->n || p->s[p->i] == '|' ||
		    p->s[p->i] == ')' || rule_here(p))
			return all;
		one = repeat(p, item(p));
		all = all == 0 ? one : make(p, GBNF_CAT, all, one);
	}
}

static uint32_t
alternatives(struct gbnf_parser *p)
{
	uint32_t a = sequence(p);

	while (pass(p, '|'))
		a = make(p, GBNF_ALT, a, sequence(p));
	return a;
}

/* ------------------------------------------------------------------- rules */

static void
rule(struct gbnf_parser *p)
{
	uint32_t name, ast;
	size_t n = name_here(p), body = rule_here(p);

	if (body == 0) {
		fail(p, "expected a rule: name ::= ...");
		return;
	}
	name = find_rule(p, p->s + p->i, n);
	if (!p->failed && p->g->rule[name].defined)
		fail(p, "duplicate rule");
	p->i = body;
	p->n_range = 0;
	p->text.n = 0;
	p->n_ast = 1;
	ast = alternatives(p);
	if (next_is(p, ')'))
		fail(p, "unmatched closing bracket");
	if (p->failed)
		return;
	p->g->rule[name].start = qwen_gbnf_put(p, ast,
	    qwen_gbnf_node(p, QWEN_GNODE_END, 0, name));
	p->g->rule[name].defined = 1;
}

static int
parse(struct gbnf_parser *p)
{
	size_t i;

	make(p, GBNF_EMPTY, 0, 0);
	qwen_gbnf_node(p, QWEN_GNODE_END, 0, 0);
	for (space(p, 1); p->i < p->n && !p->failed; space(p, 1))
		rule(p);
	if (p->failed)
		return -1;
	p->g->root = UINT32_MAX;
	for (i = 0; i < p->g->n_rules; i++) {
		const struct qwen_grule *r = &p->g->rule[i];

		if (!r->defined)
			return qwen_fail(p->err, QWEN_EFORMAT,
			    "unknown rule %.60s", r->name);
		if (strcmp(r->name, "root") == 0)
			p->g->root = (uint32_t)i;
	}
	return p->g->root != UINT32_MAX ? qwen_grammar_check(p->g, p->err) :
	    qwen_fail(p->err, QWEN_EFORMAT, "the grammar has no rule root");
}

int
qwen_grammar_open(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_err *err)
{
	struct qwen_grammar *g = qwen_alloc(1, sizeof *g);
	struct gbnf_parser p = { .g = g, .s = text, .n = n, .err = err };
	int rc = -1;

	*out = NULL;
	if (g == NULL)
		return qwen_oom(err);
	if (n > QWEN_GRAMMAR_BYTES)
		qwen_fail(err, QWEN_ERANGE, "grammar of %zu bytes is too large",
		    n);
	else
		rc = parse(&p);
	free(p.ast);
	free(p.range);
	free(p.word);
	qwen_text_fini(&p.text);
	if (rc < 0)
		qwen_grammar_close(g);
	else
		*out = g;
	return rc;
}

size_t
qwen_grammar_size(const struct qwen_grammar *g)
{
	return sizeof *g + g->cap_nodes * sizeof *g->node +
	    g->cap_rules * sizeof *g->rule;
}

void
qwen_grammar_close(struct qwen_grammar *g)
{
	size_t i;

	if (g == NULL)
		return;
	for (i = 0; i < g->n_rules; i++)
		free(g->rule[i].name);
	free(g->rule);
	free(g->node);
	free(g);
}
