/* SPDX-License-Identifier: ISC */
/*
 * gbnf.c - a grammar from text: rules of literals, classes of characters, groups,
 * names and repetitions, as language model tools write them.
 *
 *	root ::= "a" [b-d]+ ( "x" | other ){2,3}	# a comment
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/grammar/grammar.h"

enum ast_kind {
	AST_EMPTY, AST_RANGES, AST_CAT, AST_ALT, AST_REPEAT, AST_RULE
};

/* Characters lo .. hi. */
struct range {
	uint32_t	lo, hi;
};

/* What a rule says; parts are indices, 0 is AST_EMPTY. */
struct ast {
	enum ast_kind	kind;
	uint32_t	a, b;		/* parts; of RANGES: first, number */
	uint32_t	min, max;	/* of REPEAT; max 0: no limit */
};

struct parser {
	struct qwen_grammar *g;
	const char	*s;
	size_t		 n, i;
	struct ast	*ast;
	size_t		 n_ast, cap_ast;
	struct range	*range;
	size_t		 n_range, cap_range;
	int		 depth;
	struct qwen_err	*err;
};

static int
fail(const struct parser *p, const char *what)
{
	size_t i, line = 1;

	for (i = 0; i < p->i && i < p->n; i++)
		line += p->s[i] == '\n';
	return qwen_fail(p->err, QWEN_EFORMAT, "line %zu: %s", line, what);
}

/* No part, for this reason: what is none is UINT32_MAX. */
static uint32_t
none(const struct parser *p, const char *what)
{
	fail(p, what);
	return UINT32_MAX;
}

static uint32_t
no_memory(const struct parser *p)
{
	qwen_oom(p->err);
	return UINT32_MAX;
}

/* ----------------------------------------------------------------- reading */

/* A part, or UINT32_MAX. */
static uint32_t
make(struct parser *p, enum ast_kind kind, uint32_t a, uint32_t b)
{
	if (p->n_ast >= QWEN_GRAMMAR_NODES)
		return none(p, "the grammar is too large");
	if (qwen_grow(&p->ast, &p->cap_ast, p->n_ast + 1,
	    sizeof *p->ast) < 0)
		return no_memory(p);
	p->ast[p->n_ast] = (struct ast){ .kind = kind, .a = a, .b = b };
	return (uint32_t)p->n_ast++;
}

/* One after what there is; 0 is nothing. */
static uint32_t
cat(struct parser *p, uint32_t all, uint32_t one)
{
	return all == 0 || one == UINT32_MAX ? one :
	    make(p, AST_CAT, all, one);
}

static int
add_range(struct parser *p, uint32_t lo, uint32_t hi)
{
	if (qwen_grow(&p->range, &p->cap_range, p->n_range + 1,
	    sizeof *p->range) < 0)
		return qwen_oom(p->err);
	p->range[p->n_range++] = (struct range){ lo, hi };
	return 0;
}

static int
next_is(const struct parser *p, char c)
{
	return p->i < p->n && p->s[p->i] == c;
}

/* White space and comments; where a rule ends, not beyond a line. */
static void
space(struct parser *p, int lines)
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

/* The rule of a name, made if it is new, or UINT32_MAX. */
static uint32_t
find_rule(struct parser *p, const char *name, size_t len)
{
	struct qwen_grammar *g = p->g;
	char *copy;
	size_t i;

	for (i = 0; i < g->n_rules; i++) {
		if (g->rule[i].len == len &&
		    memcmp(g->rule[i].name, name, len) == 0)
			return (uint32_t)i;
	}
	if (g->n_rules >= QWEN_GRAMMAR_RULES)
		return none(p, "too many rules");
	if (qwen_grow(&g->rule, &g->cap_rules, g->n_rules + 1,
	    sizeof *g->rule) < 0 || (copy = qwen_alloc(len + 1, 1)) == NULL)
		return no_memory(p);
	memcpy(copy, name, len);
	g->rule[g->n_rules] = (struct qwen_grule){ .name = copy, .len = len };
	return (uint32_t)g->n_rules++;
}

/* A name here: its length. */
static size_t
name_here(const struct parser *p)
{
	size_t n = 0;

	while (p->i + n < p->n && is_name(p->s[p->i + n]))
		n++;
	return n;
}

static int
escape(struct parser *p, uint32_t *out)
{
	static const char from[] = "nrt\\\"[]-^/'", to[] = "\n\r\t\\\"[]-^/'";
	const char *at;
	size_t digits;
	char c;

	if (p->i >= p->n)
		return fail(p, "a backslash at the end");
	c = p->s[p->i++];
	digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	if (digits > p->n - p->i || (digits > 0 &&
	    qwen_hex_read(p->s + p->i, digits, out) < 0))
		return fail(p, "a hexadecimal digit is missing");
	p->i += digits;
	if (digits > 0)
		return 0;
	if (c == '\0' || (at = strchr(from, c)) == NULL)
		return fail(p, "an escape that is not known");
	*out = (unsigned char)to[at - from];
	return 0;
}

/* A character of UTF-8, or an escaped one. */
static int
character(struct parser *p, uint32_t *out)
{
	const unsigned char *s = (const unsigned char *)p->s + p->i;
	int len;

	if (p->i == p->n || *s == '\n')
		return fail(p, "a quote or bracket is not closed");
	if (*s == '\\') {
		p->i++;
		if (escape(p, out) < 0)
			return -1;
	} else {
		len = qwen_utf8_read(s, p->n - p->i, out);
		if (len <= 0)
			return fail(p, "not UTF-8");
		p->i += (size_t)len;
	}
	if (*out > 0x10ffff || (*out >= 0xd800 && *out < 0xe000))
		return fail(p, "no Unicode character");
	return 0;
}

static uint32_t
literal(struct parser *p)
{
	uint32_t all = 0, c;

	for (p->i++; !next_is(p, '"'); ) {
		if (character(p, &c) < 0 || add_range(p, c, c) < 0)
			return UINT32_MAX;
		all = cat(p, all, make(p, AST_RANGES,
		    (uint32_t)p->n_range - 1, 1));
		if (all == UINT32_MAX)
			return all;
	}
	p->i++;
	return all;
}

static int
compare_range(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Make the ranges from first on ascend and be apart; or what is outside. */
static int
settle(struct parser *p, size_t first, int outside)
{
	size_t n = p->n_range - first, i, m = 0;
	struct range *r = n > 0 ? p->range + first : NULL;
	uint32_t from = 0, lo, hi;

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
		return 0;
	p->n_range = first;
	for (i = 0; i < m; i++) {
		lo = r[i].lo;
		hi = r[i].hi;
		if (lo > from)
			p->range[p->n_range++] = (struct range){ from, lo - 1 };
		from = hi + 1;
	}
	return from <= 0x10ffff ? add_range(p, from, 0x10ffff) : 0;
}

static uint32_t
class(struct parser *p)
{
	size_t first = p->n_range;
	uint32_t lo, hi;
	int outside;

	p->i++;
	outside = next_is(p, '^');
	p->i += (size_t)outside;
	while (!next_is(p, ']')) {
		if (character(p, &lo) < 0)
			return UINT32_MAX;
		hi = lo;
		if (next_is(p, '-') && p->i + 1 < p->n &&
		    p->s[p->i + 1] != ']') {
			p->i++;
			if (character(p, &hi) < 0)
				return UINT32_MAX;
		}
		if (hi < lo)
			return none(p, "a range that ends before it begins");
		if (add_range(p, lo, hi) < 0)
			return UINT32_MAX;
	}
	p->i++;
	if (settle(p, first, outside) < 0)
		return UINT32_MAX;
	if (p->n_range == first)
		return none(p, "a class without a character");
	return make(p, AST_RANGES, (uint32_t)first,
	    (uint32_t)(p->n_range - first));
}

static uint32_t alternatives(struct parser *p);

static uint32_t
group(struct parser *p)
{
	uint32_t a;

	p->i++;
	if (++p->depth > QWEN_GRAMMAR_DEPTH)
		return none(p, "brackets are nested too deeply");
	a = alternatives(p);
	p->depth--;
	if (a == UINT32_MAX)
		return a;
	if (!next_is(p, ')'))
		return none(p, "a bracket is not closed");
	p->i++;
	return a;
}

static int
number(struct parser *p, uint32_t *out)
{
	size_t from = p->i;

	for (*out = 0; p->i < p->n && p->s[p->i] >= '0' && p->s[p->i] <= '9';
	    p->i++) {
		*out = *out * 10 + (uint32_t)(p->s[p->i] - '0');
		if (*out > QWEN_GRAMMAR_NODES)
			return fail(p, "a repetition that is too large");
	}
	return p->i > from ? 0 : fail(p, "a number is missing");
}

/* {m} {m,} {m,n} */
static int
bounds(struct parser *p, uint32_t *min, uint32_t *max)
{
	p->i++;
	space(p, 0);
	if (number(p, min) < 0)
		return -1;
	*max = *min;
	space(p, 0);
	if (next_is(p, ',')) {
		p->i++;
		space(p, 0);
		*max = UINT32_MAX;
		if (p->i < p->n && p->s[p->i] != '}' && number(p, max) < 0)
			return -1;
		space(p, 0);
	}
	if (!next_is(p, '}'))
		return fail(p, "a brace is not closed");
	p->i++;
	return *max >= *min ? 0 :
	    fail(p, "a repetition that ends before it begins");
}

/* What is after a part: * + ? { */
static uint32_t
repeat(struct parser *p, uint32_t a)
{
	uint32_t min, max, r;
	char c;

	if (a == UINT32_MAX || p->i >= p->n)
		return a;
	c = p->s[p->i];
	if (c == '{') {
		if (bounds(p, &min, &max) < 0)
			return UINT32_MAX;
	} else if (c == '*' || c == '+' || c == '?') {
		p->i++;
		min = c == '+';
		max = c == '?' ? 1 : UINT32_MAX;
	} else
		return a;
	if (p->i < p->n && strchr("*+?{", p->s[p->i]) != NULL)
		return none(p, "a repetition of a repetition needs brackets");
	if ((r = make(p, AST_REPEAT, a, 0)) != UINT32_MAX) {
		p->ast[r].min = min;
		p->ast[r].max = max;
	}
	return r;
}

static uint32_t
item(struct parser *p)
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
		if (add_range(p, 0, 0x10ffff) < 0)
			return UINT32_MAX;
		return make(p, AST_RANGES, (uint32_t)p->n_range - 1, 1);
	}
	if ((n = name_here(p)) == 0)
		return none(p, "neither a text, a class, a group nor a name");
	if ((a = find_rule(p, p->s + p->i, n)) == UINT32_MAX)
		return a;
	p->i += n;
	return make(p, AST_RULE, a, 0);
}

/* Where a rule that begins here goes on after a name and ::=, or 0. */
static size_t
rule_here(struct parser *p)
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
sequence(struct parser *p)
{
	uint32_t all = 0;

	for (;;) {
		/* a line may end where a rule goes on, in brackets or not */
		space(p, 1);
		if (p->i >= p->n || p->s[p->i] == '|' || p->s[p->i] == ')' ||
		    rule_here(p))
			return all;
		if ((all = cat(p, all, repeat(p, item(p)))) == UINT32_MAX)
			return all;
	}
}

static uint32_t
alternatives(struct parser *p)
{
	uint32_t a = sequence(p), b;

	while (a != UINT32_MAX && next_is(p, '|')) {
		p->i++;
		if ((b = sequence(p)) == UINT32_MAX)
			return b;
		a = make(p, AST_ALT, a, b);
	}
	return a;
}

/* --------------------------------------------------------------- the graph */

/* A node, or UINT32_MAX. */
static uint32_t
put(struct parser *p, enum qwen_gnode_kind kind, uint32_t next, uint32_t also)
{
	struct qwen_grammar *g = p->g;

	if (next == UINT32_MAX || also == UINT32_MAX)
		return UINT32_MAX;
	if (g->n_nodes >= QWEN_GRAMMAR_NODES) {
		qwen_fail(p->err, QWEN_ERANGE, "the grammar has more than %d "
		    "nodes, its repetitions written out", QWEN_GRAMMAR_NODES);
		return UINT32_MAX;
	}
	if (qwen_grow(&g->node, &g->cap_nodes, g->n_nodes + 1,
	    sizeof *g->node) < 0)
		return no_memory(p);
	g->node[g->n_nodes] = (struct qwen_gnode){
		.kind = (unsigned char)kind, .next = next, .also = also };
	return (uint32_t)g->n_nodes++;
}

/*
 * Characters lo .. hi, alike in length.  Where the first bytes differ and what
 * is after them is not everything, the range is cut in two.
 */
static uint32_t
put_span(struct parser *p, uint32_t lo, uint32_t hi, uint32_t next)
{
	char a[4], b[4];
	int n = (int)qwen_utf8_write(lo, a), k, j;

	for (k = 1; k < n; k++) {
		uint32_t low = (1u << (6 * (n - k))) - 1;	/* bits after k */

		if ((lo & ~low) == (hi & ~low))
			continue;
		if ((lo & low) != 0)
			return put(p, QWEN_GNODE_SPLIT,
			    put_span(p, lo, lo | low, next),
			    put_span(p, (lo | low) + 1, hi, next));
		if ((hi & low) != low)
			return put(p, QWEN_GNODE_SPLIT,
			    put_span(p, lo, (hi & ~low) - 1, next),
			    put_span(p, hi & ~low, hi, next));
	}
	qwen_utf8_write(hi, b);
	for (j = n - 1; j >= 0; j--) {
		next = put(p, QWEN_GNODE_BYTE, next, 0);
		if (next == UINT32_MAX)
			break;
		p->g->node[next].lo = (unsigned char)a[j];
		p->g->node[next].hi = (unsigned char)b[j];
	}
	return next;
}

/* One range, by the number of bytes; surrogates are no characters. */
static uint32_t
put_range(struct parser *p, struct range r, uint32_t next)
{
	static const struct range part[] = {
		{ 0, 0x7f }, { 0x80, 0x7ff }, { 0x800, 0xd7ff },
		{ 0xe000, 0xffff }, { 0x10000, 0x10ffff },
	};
	uint32_t all = 0, one;
	size_t i;

	for (i = 0; i < 5; i++) {
		uint32_t lo = r.lo > part[i].lo ? r.lo : part[i].lo;
		uint32_t hi = r.hi < part[i].hi ? r.hi : part[i].hi;

		if (lo > hi)
			continue;
		one = put_span(p, lo, hi, next);
		all = all == 0 ? one : put(p, QWEN_GNODE_SPLIT, all, one);
	}
	return all;
}

static uint32_t put_ast(struct parser *p, uint32_t ast, uint32_t next);

/* min times, and then up to max, or for ever. */
static uint32_t
put_repeat(struct parser *p, struct ast a, uint32_t next)
{
	uint32_t at = next, body, k;

	if (a.max == UINT32_MAX) {
		if ((at = put(p, QWEN_GNODE_SPLIT, next, next)) == UINT32_MAX ||
		    (body = put_ast(p, a.a, at)) == UINT32_MAX)
			return UINT32_MAX;
		p->g->node[at].also = body;
	} else {
		for (k = a.min; k < a.max && at != UINT32_MAX; k++)
			at = put(p, QWEN_GNODE_SPLIT, put_ast(p, a.a, at), next);
	}
	/* of nothing, once is as good as a million times */
	for (k = 0, body = UINT32_MAX; k < a.min && at != UINT32_MAX &&
	    body != at; k++) {
		body = at;
		at = put_ast(p, a.a, at);
	}
	return at;
}

/* Nodes that go through the part and then to next; where they begin. */
static uint32_t
put_ast(struct parser *p, uint32_t ast, uint32_t next)
{
	struct ast a = p->ast[ast];
	uint32_t i, all, one;

	if (next == UINT32_MAX)
		return next;
	switch (a.kind) {
	case AST_EMPTY:
		break;
	case AST_RANGES:
		for (all = 0, i = 0; i < a.b && all != UINT32_MAX; i++) {
			one = put_range(p, p->range[a.a + i], next);
			all = i == 0 ? one : put(p, QWEN_GNODE_SPLIT, all, one);
		}
		return all;
	case AST_CAT:
		/* to the left they are deep: from the end, in a loop */
		for (; a.kind == AST_CAT && next != UINT32_MAX;
		    ast = a.a, a = p->ast[ast])
			next = put_ast(p, a.b, next);
		return put_ast(p, ast, next);
	case AST_ALT:
		for (all = 0; a.kind == AST_ALT && all != UINT32_MAX;
		    ast = a.a, a = p->ast[ast]) {
			one = put_ast(p, a.b, next);
			all = all == 0 ? one : put(p, QWEN_GNODE_SPLIT, one, all);
		}
		return all == UINT32_MAX ? all : put(p, QWEN_GNODE_SPLIT,
		    put_ast(p, ast, next), all);
	case AST_REPEAT:
		return put_repeat(p, a, next);
	case AST_RULE:
		return put(p, QWEN_GNODE_CALL, next, a.a);
	}
	return next;
}

static int
rule(struct parser *p)
{
	uint32_t name, ast, end;
	size_t n = name_here(p), body = rule_here(p);

	if (body == 0)
		return fail(p, "a rule is missing: name ::= ...");
	if ((name = find_rule(p, p->s + p->i, n)) == UINT32_MAX)
		return -1;
	if (p->g->rule[name].defined)
		return fail(p, "a rule that is there already");
	p->i = body;
	p->n_range = 0;
	p->n_ast = 1;
	if ((ast = alternatives(p)) == UINT32_MAX)
		return -1;
	if (next_is(p, ')'))
		return fail(p, "a bracket that nothing opens");
	end = put(p, QWEN_GNODE_END, 0, 0);
	end = put_ast(p, ast, end);
	p->g->rule[name].start = end;
	p->g->rule[name].defined = 1;
	return end == UINT32_MAX ? -1 : 0;
}

static int
parse(struct parser *p)
{
	size_t i;

	if (make(p, AST_EMPTY, 0, 0) == UINT32_MAX ||
	    put(p, QWEN_GNODE_END, 0, 0) == UINT32_MAX)
		return -1;
	for (space(p, 1); p->i < p->n; space(p, 1)) {
		if (rule(p) < 0)
			return -1;
	}
	p->g->root = UINT32_MAX;
	for (i = 0; i < p->g->n_rules; i++) {
		const struct qwen_grule *r = &p->g->rule[i];

		if (!r->defined)
			return qwen_fail(p->err, QWEN_EFORMAT,
			    "there is no rule %.60s", r->name);
		if (strcmp(r->name, "root") == 0)
			p->g->root = (uint32_t)i;
	}
	return p->g->root != UINT32_MAX ? qwen_grammar_check(p->g, p->err) :
	    qwen_fail(p->err, QWEN_EFORMAT, "there is no rule root");
}

int
qwen_grammar_open(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_err *err)
{
	struct qwen_grammar *g = qwen_alloc(1, sizeof *g);
	struct parser p = { .g = g, .s = text, .n = n, .err = err };
	int rc = -1;

	*out = NULL;
	if (g == NULL)
		return qwen_oom(err);
	if (n > QWEN_GRAMMAR_BYTES)
		qwen_fail(err, QWEN_ERANGE, "a grammar of %zu bytes", n);
	else
		rc = parse(&p);
	free(p.ast);
	free(p.range);
	if (rc < 0)
		qwen_grammar_close(g);
	else
		*out = g;
	return rc;
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
