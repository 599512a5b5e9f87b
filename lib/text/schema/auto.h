/* SPDX-License-Identifier: ISC */
/* auto.h - automata for several conditions, shared by auto.c and graph.c. */
#ifndef QWEN_SCHEMA_AUTO_H
#define QWEN_SCHEMA_AUTO_H

#include "text/schema/schema.h"

enum {
	AUTO_SLOTS = 4096,		/* more than twice SCHEMA_STATES */
	AUTO_WORDS = 1 << 20,		/* words of all states together */
	AUTO_NODES = 1 << 14,		/* of the graph of a pattern */
	AUTO_SPANS = 1 << 12,
	AUTO_SETS = 256,
	AUTO_CLASSES = 400,
	AUTO_GROUPS = 16,
	AUTO_WORK = 1 << 21,		/* steps */
};

/* Numbered states; each is a list of words. */
struct auto_state {
	uint32_t	from, n;
};

struct auto_states {
	struct auto_state *state;
	size_t		 n, cap;
	uint32_t	*word;
	size_t		 n_word, cap_word;
	uint32_t	 slot[AUTO_SLOTS];
};

/* A node of the graph of a pattern. */
enum auto_kind { AUTO_MATCH, AUTO_CHARACTER, AUTO_SPLIT, AUTO_PLACE };

struct auto_node {
	enum auto_kind	kind;
	uint32_t	a;	/* a set, a node, or an enum schema_at */
	uint32_t	b;	/* the next node */
};

struct auto_part {
	struct auto_node *node;
	size_t		 n, cap;
	uint32_t	 start;
	int		 has_places;
	struct auto_states states;
	int		*next;	/* next state by state and class, plus one; 0:
				   unknown, -1: DEAD */
	size_t		 cap_next;
};

struct automaton {
	struct schema	*s;
	struct schema_together *want;
	struct auto_part part[SCHEMA_CONDITIONS];
	/* distinct sets, and classes of characters that no set tells apart */
	struct { uint32_t at, n; } set[AUTO_SETS];
	uint32_t	 n_sets;
	uint32_t	*from;		/* first characters of the spans, */
	size_t		 n_spans;
	uint16_t	*class;		/* and the classes of the spans */
	uint32_t	 n_classes;
	uint64_t	 has[AUTO_CLASSES][AUTO_SETS / 64];
	uint32_t	 digit[AUTO_CLASSES];	/* the digit, or more than 9 */
	char		 is_word[AUTO_CLASSES];
	/* states of all conditions together */
	struct auto_states all;
	int		*next;
	size_t		 cap_next;
	char		*may_end, *useful;
	size_t		 cap_end;
	uint32_t	 todo[AUTO_NODES];
	unsigned char	 seen[AUTO_NODES];
	size_t		 work;
};

/* Counts n steps; returns 0 if there are too many. */
static inline int
auto_spend(struct automaton *a, size_t n)
{
	a->work += n;
	return a->work <= AUTO_WORK && !a->s->failed;
}

/* Besides the numbers of states: no text continues so; too many states. */
enum { DEAD = -2, FULL = -1 };

/* Returns the number of a state, or FULL. */
int qwen_auto_intern(struct auto_states *t, const uint32_t *v, size_t n);

/* graph.c: builds the graphs and the classes; -1 if they are too large */
int qwen_auto_read(struct automaton *a);
/* Returns the state after a class, DEAD or FULL. */
int qwen_auto_step(struct automaton *a, int part, int from, uint32_t k);
int qwen_auto_accepts(struct automaton *a, int part, int state);

#endif
