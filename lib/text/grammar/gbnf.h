/* SPDX-License-Identifier: ISC */
/* gbnf.h - a grammar that is being parsed, shared by gbnf.c and graph.c. */
#ifndef QWEN_GRAMMAR_GBNF_H
#define QWEN_GRAMMAR_GBNF_H

#include "base/text.h"
#include "text/grammar/grammar.h"

enum gbnf_kind {
	GBNF_EMPTY, GBNF_TEXT, GBNF_RANGES, GBNF_CAT, GBNF_ALT, GBNF_REPEAT,
	GBNF_RULE
};

/* characters lo .. hi */
struct gbnf_range {
	uint32_t	lo, hi;
};

/* A part of a rule.  Parts are indices; 0 is GBNF_EMPTY. */
struct gbnf_part {
	enum gbnf_kind	kind;
	uint32_t	a, b;		/* parts; TEXT: offset, length; RANGES:
					   first, number */
	uint32_t	min, max;	/* REPEAT; max UINT32_MAX: no limit */
};

/* One of the texts of a list of alternatives. */
struct gbnf_word {
	const unsigned char *s;
	size_t		 n;
};

enum { GBNF_SLOTS = 2 * QWEN_GRAMMAR_RULES };

struct gbnf_parser {
	struct qwen_grammar *g;
	const char	*s;
	size_t		 n, i;
	struct gbnf_part *ast;
	size_t		 n_ast, cap_ast;
	struct gbnf_range *range;
	size_t		 n_range, cap_range;
	struct qwen_text text;		/* of all literals */
	struct gbnf_word *word;
	size_t		 n_word, cap_word;
	uint16_t	 slot[GBNF_SLOTS];	/* hash table of rule names:
						   index + 1 */
	int		 depth;
	int		 failed;	/* err is set, parsing has stopped */
	struct qwen_err	*err;
};

/* Makes room for one more element; returns 0 on failure, now or earlier. */
int qwen_gbnf_more(struct gbnf_parser *p, void *array, size_t *cap, size_t n,
    size_t size);

/* Creates a node; returns 0, an END, on failure. */
uint32_t qwen_gbnf_node(struct gbnf_parser *p, enum qwen_gnode_kind kind,
    uint32_t next, uint32_t also);

/* Creates nodes that match the part and continue at next; returns the first. */
uint32_t qwen_gbnf_put(struct gbnf_parser *p, uint32_t part, uint32_t next);

#endif
