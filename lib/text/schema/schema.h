/* SPDX-License-Identifier: ISC */
/*
 * schema.h - a JSON Schema, and the tree of the grammar that is made of it.
 * Other folders include only qwen/grammar.h (qwen_grammar_open_schema) and rules.h,
 * for grammars of several schemas.
 *
 * The grammar matches only texts that are valid by the schema, but not all of
 * them: no white space; fields in one order; and where the schema names fields
 * or items, no others, unless it describes those.
 */
#ifndef QWEN_SCHEMA_SCHEMA_H
#define QWEN_SCHEMA_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#include "qwentext.h"
#include "text/schema/rules.h"
#include <yyjson.h>

enum {
	SCHEMA_BYTES = 1 << 22,	/* of the schema */
	SCHEMA_GRAMMAR = 1 << 23,	/* bytes of the grammar */
	SCHEMA_DEPTH = 200,	/* nesting of the schema */
	SCHEMA_PARTS = 48,	/* schemas that hold for one value */
	SCHEMA_RULES = 4000,
	SCHEMA_NODES = 1 << 19,
	SCHEMA_KEYS = 1000,	/* named fields of an object */
	SCHEMA_RANGES = 1100,	/* of a set of characters */
	SCHEMA_PREFIX = 100,	/* items with a schema by position */
	SCHEMA_FORMATS = 32,
	SCHEMA_WORK = 1 << 22,	/* steps of algorithms that may be quadratic */
	SCHEMA_POOL = 1 << 20,	/* ranges of all sets of characters */
	SCHEMA_CONDITIONS = 24,	/* of a string, from all keywords */
	SCHEMA_STATES = 1500,	/* of the automaton of all conditions */
};

/* ----------------------------------------------------- tree of the grammar */

enum snode_kind {
	SNODE_TEXT,		/* grammar text: a literal, a class or a
				   group */
	SNODE_SEQ,
	SNODE_ALT,		/* without parts: matches nothing */
	SNODE_REPEAT,
	SNODE_RULE,
};

/* Conditions of a pattern on the position between two characters. */
enum schema_at { AT_ANY, AT_BEGIN, AT_END, AT_WORD, AT_NO_WORD };

/* A node of the tree; it has one parent, and its parts are a list. */
struct snode {
	enum snode_kind	kind;
	uint32_t	first, last, next;
	uint32_t	min, max;	/* REPEAT; max UINT32_MAX: no limit */
	uint32_t	text, len;	/* TEXT: offset, length in
					   schema.text */
	uint32_t	chars;		/* TEXT: characters of a string it
					   matches */
	uint32_t	set, n_set;	/* the set of such a character: offset,
					   length in schema.range */
	enum schema_at	at;		/* TEXT: or the condition that it stands
					   for */
	uint32_t	rule;
};

enum { SNODE_NEVER = 0, SNODE_EMPTY = 1 };

/* ------------------------------------------------------- schemas of a value */

/*
 * One of the schemas that hold for a value; chosen: an alternative of its
 * anyOf, of its oneOf was chosen.
 */
struct schema_part {
	yyjson_val	*v;
	int		 chosen[2];
	int		 parent;	/* the part that refers to it, or -1 */
};

struct schema_all {
	struct schema_part	part[SCHEMA_PARTS];
	int			n;
	int			never;	/* one of them is false */
	unsigned		out;	/* types that the value must not have */
};

/*
 * A rule, printed as "v" and its index. made: node is set; fits: some text
 * matches.
 */
struct schema_rule {
	struct schema_all	*all;	/* the schemas of its value; NULL: node
					   was set at once */
	uint32_t		 node;
	int			 made, fits;
};

struct schema_range {
	uint32_t	lo, hi;
};

/* The expansion, by sugar.c, of keywords that are short for others. */
struct schema_sugar {
	yyjson_val	*of;
	yyjson_doc	*doc;
};

struct schema {
	yyjson_doc		*doc;
	yyjson_val		*root;
	const char		*name;	/* prefix of the rules' names */
	struct snode		*node;
	size_t			 n_nodes, cap_nodes;
	struct schema_rule	*rule;
	size_t			 n_rules, cap_rules;
	struct qwen_text	 text;		/* of the nodes */
	size_t			 n_text;	/* bytes that nodes have */
	struct qwen_text	 out;		/* the printed grammar */
	size_t			 work;
	uint32_t		 format[SCHEMA_FORMATS]; /* rules, or 0 */
	struct schema_range	*range;		/* all sets of characters */
	size_t			 n_range, cap_range;
	struct schema_sugar	*sugar;
	size_t			 n_sugar, cap_sugar;
	struct qwen_schema_how	 how;
	int			 raw;	/* strings have no quotes and escapes */
	unsigned		 raw_types;	/* other types that the value
						   may have */
	int			 failed;	/* err is set */
	struct qwen_err		*err;
};

/* Types of values; an integer is also a number. */
enum {
	TYPE_NULL = 1, TYPE_BOOLEAN = 2, TYPE_INTEGER = 4, TYPE_REAL = 8,
	TYPE_STRING = 16, TYPE_ARRAY = 32, TYPE_OBJECT = 64,
	TYPE_NUMBER = TYPE_INTEGER | TYPE_REAL, TYPE_ANY = 127,
};

/*
 * Sets the error; where is the part of the schema for the message, or NULL.
 * After a failure all functions do nothing, and return 0, which is SNODE_NEVER.
 */
int qwen_schema_fail(struct schema *s, yyjson_val *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

int qwen_schema_oom(struct schema *s);

/*
 * Reports that a keyword is not enforced: a failure if how is strict, else a
 * note.  Returns 0 after a failure.
 */
int qwen_schema_note(struct schema *s, yyjson_val *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Counts a step; returns 0 if there are too many. */
int qwen_schema_step(struct schema *s);

/*
 * Returns the value of a key of n bytes in an object; NULL if object is not an
 * object or there were too many steps.  The search takes time in proportion to
 * the object, which counts as steps.  For keys from the schema.
 */
yyjson_val *qwen_schema_find(struct schema *s, yyjson_val *object,
    const char *key, size_t n);

/* tree.c */
uint32_t qwen_snode(struct schema *s, enum snode_kind kind);
/* A node for all that was appended to s->text since the last such node. */
uint32_t qwen_snode_made(struct schema *s);
#define qwen_snode_text(s, ...) \
	(qwen_text_fmt(&(s)->text, __VA_ARGS__), qwen_snode_made(s))
uint32_t qwen_snode_literal(struct schema *s, const char *text, size_t n);
uint32_t qwen_snode_repeat(struct schema *s, uint32_t a, uint32_t min,
    uint32_t max);
uint32_t qwen_snode_rule(struct schema *s, uint32_t rule);
void qwen_snode_add(struct schema *s, uint32_t parent, uint32_t part);
/* A comma and an item; a name, a colon and a value. */
uint32_t qwen_snode_after_comma(struct schema *s, uint32_t at);
uint32_t qwen_snode_field(struct schema *s, uint32_t name, uint32_t value);
/* A sequence: grammar text, a node, grammar text. */
uint32_t qwen_snode_around(struct schema *s, const char *before,
    uint32_t inside, const char *after);
uint32_t qwen_snode_then(struct schema *s, uint32_t a, uint32_t b);
uint32_t qwen_snode_or(struct schema *s, uint32_t a, uint32_t b);
/* Adds a rule for a node; returns its index. */
uint32_t qwen_schema_add_rule(struct schema *s, uint32_t node);
/* Appends the rules to out, unless it fails (-1); the first is called NAME. */
int qwen_schema_print(struct schema *s, const char *name,
    struct qwen_text *out);
/* Makes room for n elements; returns 0 on failure, now or earlier. */
int qwen_schema_grow(struct schema *s, void *array, size_t *cap, size_t n,
    size_t size);

/* set.c: a set of characters; ranges are sorted, with gaps between them. */
struct schema_set {
	size_t	n;
	struct schema_range r[SCHEMA_RANGES];
};

void qwen_set_add(struct schema *s, struct schema_set *set, uint32_t lo,
    uint32_t hi);
/*
 * Adds the characters of a Unicode property.  Returns 0 if the property is
 * unknown, or if turned is set (the complement is needed) and not all of them
 * are known.
 */
int qwen_set_property(struct schema *s, struct schema_set *set,
    const char *name, size_t n, int turned);
void qwen_set_unite(struct schema *s, struct schema_set *set,
    const struct schema_set *other);
void qwen_set_turn(struct schema *s, struct schema_set *set);
uint32_t qwen_snode_set(struct schema *s, const struct schema_set *set);
/* Notes for the automaton that node `at' is one character of the set. */
void qwen_snode_keep(struct schema *s, uint32_t at,
    const struct schema_set *set);

/*
 * auto.c: conditions that a text must meet together.  Of group 0, all must
 * hold; of each other group, at least one must not hold.
 */
struct schema_condition {
	int		group;
	uint32_t	tree;		/* of a pattern; 0: see below */
	uint32_t	min, max;	/* a length in characters; not used
					   with */
	uint32_t	multiple;	/* if not 0: the digits are a multiple
					   of this */
};

struct schema_together {
	struct schema_condition c[SCHEMA_CONDITIONS];
	int		 n, n_groups;	/* groups besides group 0 */
	int		 hard;		/* a tree alone is wrong: use the
					   automaton */
	int		 ends_first;	/* texts end as early as possible */
	int		 only_asked;	/* only test if a text exists: EMPTY or
					   NEVER */
	int		 full;		/* too many conditions or states */
};

void qwen_schema_condition(struct schema_together *t,
    struct schema_condition c);
/* The same for a tree; group -1: a new group. */
void qwen_schema_hold(struct schema_together *t, int group, uint32_t tree);
/*
 * Returns the rule of the texts that meet the conditions; NEVER if there are
 * none.  With too many states, sets t->full, which is not a failure.
 */
uint32_t qwen_schema_together(struct schema *s, struct schema_together *t);

/* keyword.c */
/*
 * Returns the types of values that a keyword constrains; 0 if it is about all
 * types or about none.
 */
int qwen_schema_speaks_of(const char *keyword);
/* Returns 1 if a keyword is known but not supported. */
int qwen_schema_cannot(const char *keyword);
/* Returns 1 if a keyword is only an annotation. */
int qwen_schema_is_note(const char *keyword);
/* Fails if the schema has an unknown keyword. */
void qwen_schema_check(struct schema *s, yyjson_val *v);
/* Returns the schema that $ref refers to; NULL on failure. */
yyjson_val *qwen_schema_refer(struct schema *s, yyjson_val *ref);
yyjson_val *qwen_schema_get(const struct schema_all *all, int part,
    const char *keyword);
int qwen_schema_has(const struct schema_all *all, const char *keyword);
/*
 * Returns the tightest bound (largest min..., smallest max...); none if there
 * is no bound.
 */
int64_t qwen_schema_bound(struct schema *s, const struct schema_all *all,
    const char *keyword, int64_t none);

/* gather.c: adds the schemas of a value; sets out to those of a field. */
void qwen_schema_gather(struct schema *s, struct schema_all *all,
    yyjson_val *v, int parent);
void qwen_schema_member(struct schema *s, const struct schema_all *all,
    const char *key, size_t n, struct schema_all *out);

/* type.c: the types that may be valid; as_made: those that are generated. */
int qwen_schema_types(struct schema *s, const struct schema_all *all,
    int as_made);
int qwen_schema_type_of(yyjson_val *v);
/* May the value be anything? */
int qwen_schema_is_any(struct schema *s, const struct schema_all *all);
/* Returns a part with alternatives to choose from, or -1. */
int qwen_schema_find_open(const struct schema_all *all, const char **which);
int qwen_schema_same(struct schema *s, yyjson_val *a, yyjson_val *b);
/* The values that a part lists: an array, or a single value. */
size_t qwen_schema_values(yyjson_val *part, yyjson_val **first);
/* Visits these values: n is a size_t. */
#define SCHEMA_EACH_VALUE(part, n, v) \
	for (n = qwen_schema_values(part, &v); n > 0; \
	    n--, v = unsafe_yyjson_get_next(v))

/* value.c */
uint32_t qwen_schema_value(struct schema *s, const struct schema_all *all);
/* Returns the types that a raw value may have besides string. */
unsigned qwen_schema_raw_types(struct schema *s, const struct schema_all *all);
/* qwen_schema_value for a part of a value: a rule, unless it is small. */
uint32_t qwen_schema_child(struct schema *s, const struct schema_all *all);

/* disjoint.c: returns 1 if no value made by a is valid by b. */
int qwen_schema_disjoint(struct schema *s, const struct schema_all *a,
    const struct schema_all *b, int depth);

/* object.c, array.c, string.c, number.c */
uint32_t qwen_schema_object(struct schema *s, const struct schema_all *all);
uint32_t qwen_schema_array(struct schema *s, const struct schema_all *all);
uint32_t qwen_schema_string(struct schema *s, const struct schema_all *all);
/* A text as a tree of characters; and whether a pattern matches a text. */
uint32_t qwen_schema_letters(struct schema *s, const char *text, size_t n);
int qwen_schema_matches(struct schema *s, yyjson_val *re, const char *text,
    size_t n);
int qwen_schema_has_format(struct schema *s, yyjson_val *kind,
    const char *text, size_t n);
/* Returns 1 if the string v may be valid; formats: as they are generated. */
int qwen_schema_takes(struct schema *s, const struct schema_all *all,
    yyjson_val *v, int formats);
/* Nodes for parts of long raw texts. */
void qwen_schema_raw_rules(struct schema *s, uint32_t *chunks,
    uint32_t *tail);
uint32_t qwen_schema_number(struct schema *s, const struct schema_all *all,
    int types);
/* A quoted JSON string, followed by other text. */
uint32_t qwen_schema_quoted(struct schema *s, const char *text, size_t n,
    const char *after);

/* enum.c: returns 1 if the schema lists values, with their node; else 0. */
int qwen_schema_listed(struct schema *s, const struct schema_all *all,
    uint32_t *out);

/*
 * pattern.c: adds a pattern's conditions on a string to t, in the group (-1: a
 * new group): a pattern of the schema, one of our own, or n bytes.
 */
void qwen_schema_pattern(struct schema *s, yyjson_val *re, int group,
    struct schema_together *t);
void qwen_schema_own_pattern(struct schema *s, const char *re, int group,
    struct schema_together *t);
void qwen_schema_any_pattern(struct schema *s, yyjson_val *where,
    const char *re, size_t n, int group, struct schema_together *t);
/* Limits the tree to texts of min to max characters; 0 if not possible. */
int qwen_schema_limit(struct schema *s, uint32_t tree, uint64_t min,
    uint64_t max);

/* sugar.c: expands keywords of v that are short for others; NULL: none */
yyjson_val *qwen_schema_sugar(struct schema *s, yyjson_val *v);

/* --------------------------------------------------- decimal.c: numbers */

/* A decimal number without exponent and without zeros at its ends. */
struct decimal {
	int	minus;
	int	n_int, n_frac;		/* numbers of digits; both are 0 for
					   zero */
	char	digit[2 * 40];
};

/* Read a JSON number; -1 if it is none or has too many digits. */
int qwen_decimal_read(struct decimal *d, yyjson_val *v);
int qwen_decimal_read_text(struct decimal *d, const char *t);
int qwen_decimal_compare(const struct decimal *a, const struct decimal *b);
/* Returns a whole number >= 0; -1 on failure. */
int64_t qwen_schema_count(struct schema *s, yyjson_val *where, yyjson_val *v);

#endif
