/* SPDX-License-Identifier: ISC */
/* graph.c - makes the graph of a rule, byte by byte, from its parts. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/grammar/gbnf.h"

int
qwen_gbnf_more(struct gbnf_parser *p, void *array, size_t *cap, size_t n,
    size_t size)
{
	if (!p->failed && qwen_grow(array, cap, n + 1, size) < 0)
		p->failed = qwen_oom(p->err) < 0;
	return !p->failed;
}

uint32_t
qwen_gbnf_node(struct gbnf_parser *p, enum qwen_gnode_kind kind, uint32_t next,
    uint32_t also)
{
	struct qwen_grammar *g = p->g;

	/* repetitions may expand to at most QWEN_GRAMMAR_NODES */
	if (g->n_nodes >= QWEN_GRAMMAR_NODES + 2 * p->n && !p->failed)
		p->failed = qwen_fail(p->err, QWEN_ERANGE, "the grammar "
		    "exceeds %d nodes after expanding its repetitions",
		    QWEN_GRAMMAR_NODES) < 0;
	if (!qwen_gbnf_more(p, &g->node, &g->cap_nodes, g->n_nodes,
	    sizeof *g->node))
		return 0;
	g->node[g->n_nodes] = (struct qwen_gnode){
		.kind = (unsigned char)kind, .next = next, .also = also };
	return (uint32_t)g->n_nodes++;
}

/* Returns a node that continues at a or b; 0: at the other one. */
static uint32_t
either(struct gbnf_parser *p, uint32_t a, uint32_t b)
{
	return a == 0 ? b : b == 0 ? a :
	    qwen_gbnf_node(p, QWEN_GNODE_SPLIT, a, b);
}

/*
 * Creates nodes for the characters lo .. hi, whose UTF-8 has equal length.
 * Splits the range if the first bytes differ and the bytes after them have
 * limits.
 */
static uint32_t
put_span(struct gbnf_parser *p, uint32_t lo, uint32_t hi, uint32_t next)
{
	char a[4], b[4];
	int n = (int)qwen_utf8_write(lo, a), k, j;

	for (k = 1; k < n; k++) {
		/* the bits after byte k */
		uint32_t low = (1u << (6 * (n - k))) - 1;

		if ((lo & ~low) == (hi & ~low))
			continue;
		if ((lo & low) != 0)
			return either(p, put_span(p, lo, lo | low, next),
			    put_span(p, (lo | low) + 1, hi, next));
		if ((hi & low) != low)
			return either(p, put_span(p, lo, (hi & ~low) - 1, next),
			    put_span(p, hi & ~low, hi, next));
	}
	qwen_utf8_write(hi, b);
	for (j = n - 1; j >= 0 && !p->failed; j--) {
		next = qwen_gbnf_node(p, QWEN_GNODE_BYTE, next, 0);
		p->g->node[next].lo = (unsigned char)a[j];
		p->g->node[next].hi = (unsigned char)b[j];
	}
	return next;
}

/* Creates nodes for a range, split by UTF-8 length and without surrogates. */
static uint32_t
put_range(struct gbnf_parser *p, struct gbnf_range r, uint32_t next)
{
	static const struct gbnf_range part[] = {
		{ 0, 0x7f }, { 0x80, 0x7ff }, { 0x800, 0xd7ff },
		{ 0xe000, 0xffff }, { 0x10000, 0x10ffff },
	};
	uint32_t all = 0;
	size_t i;

	for (i = 0; i < 5; i++) {
		uint32_t lo = r.lo > part[i].lo ? r.lo : part[i].lo;
		uint32_t hi = r.hi < part[i].hi ? r.hi : part[i].hi;

		if (lo > hi)
			continue;
		all = either(p, all, put_span(p, lo, hi, next));
	}
	return all;
}

static uint32_t
put_text(struct gbnf_parser *p, const unsigned char *s, size_t n, uint32_t next)
{
	while (n-- > 0 && !p->failed) {
		next = qwen_gbnf_node(p, QWEN_GNODE_BYTE, next, 0);
		p->g->node[next].lo = p->g->node[next].hi = s[n];
	}
	return next;
}

static int
compare_word(const void *a, const void *b)
{
	const struct gbnf_word *x = a, *y = b;
	int c = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);

	return c != 0 ? c : (x->n > y->n) - (x->n < y->n);
}

/* Returns byte i of the text; -1 at its end. */
static int
byte_at(const struct gbnf_word *w, size_t i)
{
	return i < w->n ? w->s[i] : -1;
}

/*
 * Creates nodes for a choice of n sorted texts that agree before byte from.
 * Common prefixes share nodes, so that a text is at few places of a long list.
 */
static uint32_t
put_words(struct gbnf_parser *p, const struct gbnf_word *w, size_t n,
    size_t from, uint32_t next)
{
	size_t same = from, i, k;
	uint32_t all = 0, one;

	while (same < w->n && byte_at(&w[n - 1], same) == w->s[same])
		same++;
	for (i = 0; i < n && !p->failed; i = k) {
		int byte = byte_at(&w[i], same);

		for (k = i + 1; k < n && byte_at(&w[k], same) == byte; k++)
			;
		one = byte < 0 ? next : put_words(p, w + i, k - i, same, next);
		all = either(p, one, all);
	}
	return put_text(p, w->s + from, same - from, all);
}

/*
 * Creates nodes for alternatives; literals share their prefixes.  GBNF_ALT
 * nests to the left, so this is a loop.
 */
static uint32_t
put_alternatives(struct gbnf_parser *p, uint32_t ast, uint32_t next)
{
	uint32_t at, part, all = 0;

	p->n_word = 0;
	for (at = ast; ; at = p->ast[at].a) {
		int last = p->ast[at].kind != GBNF_ALT;
		const struct gbnf_part *a = &p->ast[last ? at : p->ast[at].b];

		if (a->kind == GBNF_TEXT && qwen_gbnf_more(p, &p->word,
		    &p->cap_word, p->n_word, sizeof *p->word))
			p->word[p->n_word++] = (struct gbnf_word){
			    (unsigned char *)p->text.s + a->a, a->b };
		if (last)
			break;
	}
	if (p->n_word > 0) {
		qsort(p->word, p->n_word, sizeof *p->word, compare_word);
		all = put_words(p, p->word, p->n_word, 0, next);
	}
	for (at = ast; !p->failed; at = p->ast[at].a) {
		part = p->ast[at].kind == GBNF_ALT ? p->ast[at].b : at;
		if (p->ast[part].kind != GBNF_TEXT)
			all = either(p, qwen_gbnf_put(p, part, next), all);
		if (part == at)
			break;
	}
	return all;
}

/* Creates nodes for min to max repetitions. */
static uint32_t
put_repeat(struct gbnf_parser *p, struct gbnf_part a, uint32_t next)
{
	uint32_t at = next, body, k;

	if (a.max == UINT32_MAX) {
		at = qwen_gbnf_node(p, QWEN_GNODE_SPLIT, next, next);
		body = qwen_gbnf_put(p, a.a, at);
		if (!p->failed)
			p->g->node[at].also = body;
	} else {
		for (k = a.min; k < a.max && !p->failed; k++)
			at = either(p, qwen_gbnf_put(p, a.a, at), next);
	}
	/* repeating nothing is the same as one time */
	for (k = 0, body = UINT32_MAX; k < a.min && body != at && !p->failed;
	    k++) {
		body = at;
		at = qwen_gbnf_put(p, a.a, at);
	}
	return at;
}

uint32_t
qwen_gbnf_put(struct gbnf_parser *p, uint32_t ast, uint32_t next)
{
	struct gbnf_part a = p->ast[ast];
	uint32_t i, all = 0;

	if (p->failed)
		return 0;
	switch (a.kind) {
	case GBNF_EMPTY:
		break;
	case GBNF_TEXT:
		return put_text(p, (unsigned char *)p->text.s + a.a, a.b, next);
	case GBNF_RANGES:
		for (i = 0; i < a.b && !p->failed; i++)
			all = either(p, all, put_range(p, p->range[a.a + i],
			    next));
		return all;
	case GBNF_CAT:
		/* GBNF_CAT nests to the left: loop from the end */
		for (; a.kind == GBNF_CAT; ast = a.a, a = p->ast[ast])
			next = qwen_gbnf_put(p, a.b, next);
		return qwen_gbnf_put(p, ast, next);
	case GBNF_ALT:
		return put_alternatives(p, ast, next);
	case GBNF_REPEAT:
		return put_repeat(p, a, next);
	case GBNF_RULE:
		return qwen_gbnf_node(p, QWEN_GNODE_CALL, next, a.a);
	}
	return next;
}
