/* SPDX-License-Identifier: ISC */
/*
 * schema.h - a JSON Schema on its way to a grammar.  The face of this folder is
 * qwen_schema_grammar in qwen/grammar.h, and rules.h for grammars of several
 * schemas: others include nothing else of it.
 *
 * What is made of a schema takes only texts that are valid by it, though not
 * always all of them: no white space, members in one order, and nothing that
 * the schema does not speak of where it speaks of something.
 */
#ifndef QWEN_SCHEMA_SCHEMA_H
#define QWEN_SCHEMA_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#include "qwentext.h"
#include <yyjson.h>

enum {
	SCHEMA_BYTES = 1 << 22,	/* of the text */
	SCHEMA_GRAMMAR = 1 << 23,	/* of the grammar's */
	SCHEMA_DEPTH = 200,	/* of brackets in the text */
	SCHEMA_PARTS = 48,	/* schemas that hold for one value */
	SCHEMA_RULES = 4000,
	SCHEMA_NODES = 1 << 19,
	SCHEMA_KEYS = 1000,	/* members that an object is told of */
	SCHEMA_RANGES = 1100,	/* of a set of characters */
	SCHEMA_PREFIX = 100,	/* items that an array has by place */
	SCHEMA_FORMATS = 32,
	SCHEMA_WORK = 1 << 22,	/* steps of what may be quadratic */
	SCHEMA_POOL = 1 << 20,	/* ranges of all sets of characters */
	SCHEMA_EXCLUDED = 8,	/* schemas that a value must not fit */
	SCHEMA_CONDITIONS = 24,	/* of a string, by several keywords */
	SCHEMA_STATES = 1500,	/* of the automaton that holds them all */
};

/* ---------------------------------------------------------------- the tree */

enum snode_kind {
	SNODE_TEXT,		/* of a grammar: a literal, a class, a group */
	SNODE_SEQ,
	SNODE_ALT,		/* without parts: nothing fits */
	SNODE_REPEAT,
	SNODE_RULE,
};

/* Places in a string that a pattern may ask for: no character is there. */
enum schema_at { AT_ANY, AT_BEGIN, AT_END, AT_WORD, AT_NO_WORD };

/* A node has one parent; its parts are a list. */
struct snode {
	enum snode_kind	kind;
	uint32_t	first, last, next;
	uint32_t	min, max;	/* of REPEAT; max UINT32_MAX: no limit */
	uint32_t	text, len;	/* in the text of the schema */
	uint32_t	chars;		/* of a string that TEXT stands for */
	uint32_t	set, n_set;	/* which, in the ranges of the schema */
	enum schema_at	at;		/* or a place that TEXT asks for */
	uint32_t	rule;
};

enum { SNODE_NEVER = 0, SNODE_EMPTY = 1 };

/* ------------------------------------------------- what holds for one value */

/* A schema, and which of its alternatives have been chosen from. */
struct schema_part {
	yyjson_val	*v;
	int		 any, one;
	int		 parent;	/* the part that named it, or -1 */
};

struct schema_all {
	struct schema_part	part[SCHEMA_PARTS];
	int			n;
	int			never;	/* false is among them */
	unsigned		out;	/* types that a value must not have */
};

/* A rule: v and its number, the whole of what holds for a value; or other. */
struct schema_rule {
	struct schema_all	*all;	/* NULL: it is in the tree already */
	uint32_t		 node;
	int			 made, fits;
};

struct schema_range {
	uint32_t	lo, hi;
};

/* A schema in place of keywords that are others in short; see sugar.c. */
struct schema_sugar {
	yyjson_val	*of;
	yyjson_doc	*doc;
};

struct schema {
	yyjson_doc		*doc;
	yyjson_val		*root;
	const char		*name;	/* that those of rules begin with */
	struct snode		*node;
	size_t			 n_nodes, cap_nodes;
	struct schema_rule	*rule;
	size_t			 n_rules, cap_rules;
	char			*text;
	size_t			 n_text, cap_text;
	size_t			 work;
	uint32_t		 format[SCHEMA_FORMATS]; /* rules, or 0 */
	struct schema_range	*range;		/* of sets of characters */
	size_t			 n_range, cap_range;
	struct schema_sugar	*sugar;
	size_t			 n_sugar, cap_sugar;
	struct qwen_schema_how	*how;
	int			 raw;	/* strings stand as they are, */
	unsigned		 raw_types;	/* and what others may stand there */
	int			 failed;	/* err says why */
	struct qwen_err		*err;
};

/* Types of values; an integer is a number as well. */
enum {
	TYPE_NULL = 1, TYPE_BOOLEAN = 2, TYPE_INTEGER = 4, TYPE_REAL = 8,
	TYPE_STRING = 16, TYPE_ARRAY = 32, TYPE_OBJECT = 64,
	TYPE_NUMBER = TYPE_INTEGER | TYPE_REAL, TYPE_ANY = 127,
};

/*
 * After a failure all of these go on with nothing, and make SNODE_NEVER, which is
 * 0, as these return; where says which part of the schema it is, or is NULL.
 */
int qwen_schema_fail(struct schema *s, yyjson_val *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

int qwen_schema_oom(struct schema *s);

/* What is not kept: an error if it must be, or for a note; 0 if it failed. */
int qwen_schema_note(struct schema *s, yyjson_val *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A step of what might be too long; 0 if it is. */
int qwen_schema_step(struct schema *s);

/*
 * The value of a key of n bytes in an object, or NULL; also NULL if object is not an
 * object, or if the steps are used up.  The search takes time by the size of the
 * object, which counts as steps.  For keys that come from the schema.
 */
yyjson_val *qwen_schema_find(struct schema *s, yyjson_val *object,
    const char *key, size_t n);

/* tree.c */
uint32_t qwen_snode(struct schema *s, enum snode_kind kind);
uint32_t qwen_snode_text(struct schema *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* More of it, if it is the last that was made. */
void qwen_snode_more(struct schema *s, uint32_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
uint32_t qwen_snode_literal(struct schema *s, const char *text, size_t n);
uint32_t qwen_snode_repeat(struct schema *s, uint32_t a, uint32_t min,
    uint32_t max);
uint32_t qwen_snode_rule(struct schema *s, uint32_t rule);
void qwen_snode_add(struct schema *s, uint32_t parent, uint32_t part);
/* The texts of a grammar before and after it. */
uint32_t qwen_snode_around(struct schema *s, const char *before,
    uint32_t inside, const char *after);
uint32_t qwen_snode_pair(struct schema *s, enum snode_kind kind, uint32_t a,
    uint32_t b);
/* A rule of this tree. */
uint32_t qwen_schema_add_rule(struct schema *s, uint32_t node);
/* The rules as text, for free(), the first called NAME; NULL after a failure. */
char *qwen_schema_print(struct schema *s, const char *name, size_t *n);

/* set.c: characters from lo to hi, in order and apart. */
struct schema_set {
	size_t	n;
	struct schema_range r[SCHEMA_RANGES];
};

void qwen_set_add(struct schema *s, struct schema_set *set, uint32_t lo,
    uint32_t hi);
/* Those of a Unicode property: 0 if we do not know it, or not for its opposite. */
int qwen_set_property(struct schema *s, struct schema_set *set,
    const char *name, size_t n, int turned);
void qwen_set_turn(struct schema *s, struct schema_set *set);
uint32_t qwen_snode_set(struct schema *s, const struct schema_set *set);
/* Replace one of them by a text, for the maker of the automaton. */
void qwen_snode_keep(struct schema *s, uint32_t at,
    const struct schema_set *set);

/*
 * auto.c: conditions that hold for one text together.  Each is of a group: all of
 * group 0 hold, and of each other group one at least does not.
 */
struct schema_condition {
	int		group;
	uint32_t	tree;		/* of a pattern, or 0: */
	uint32_t	min, max;	/* a length, unless the */
	uint32_t	multiple;	/* whole numbers of these are meant */
};

struct schema_together {
	struct schema_condition c[SCHEMA_CONDITIONS];
	int		 n, n_groups;	/* the latter beside group 0 */
	int		 hard;		/* a tree is of no use alone */
	int		 ends_first;	/* a text ends as soon as it may */
	int		 only_asked;	/* whether there are any: EMPTY or NEVER */
	int		 full;		/* there were too many */
};

void qwen_schema_condition(struct schema_together *t,
    struct schema_condition c);
/* The texts, or NEVER; with too many states full is set, and nothing failed. */
uint32_t qwen_schema_together(struct schema *s, struct schema_together *t);

/* gather.c */
/* Types of values that a keyword says something about; 0 if it does not. */
int qwen_schema_speaks_of(const char *keyword);
/* Whether we know it, and cannot do it. */
int qwen_schema_cannot(const char *keyword);
/* Whether it says nothing about what is valid. */
int qwen_schema_is_note(const char *keyword);
/* What $ref names; NULL and a failure. */
yyjson_val *qwen_schema_refer(struct schema *s, yyjson_val *ref);
void qwen_schema_gather(struct schema *s, struct schema_all *all,
    yyjson_val *v, int parent);
yyjson_val *qwen_schema_get(const struct schema_all *all, int part,
    const char *keyword);
int qwen_schema_has(const struct schema_all *all, const char *keyword);
/* A whole number from 0 on, or none; -1. */
int64_t qwen_schema_count(struct schema *s, yyjson_val *where, yyjson_val *v);
/* The tightest of such: the largest min, the smallest max; none if none is. */
int64_t qwen_schema_bound(struct schema *s, const struct schema_all *all,
    const char *keyword, int64_t none);

/* value.c */
uint32_t qwen_schema_value(struct schema *s, const struct schema_all *all);
/* Types that it may have beside that of a string. */
unsigned qwen_schema_raw_types(struct schema *s, const struct schema_all *all);
/* The same where it is a part of something: a rule if it is not small. */
uint32_t qwen_schema_child(struct schema *s, const struct schema_all *all);
int qwen_schema_types(struct schema *s, const struct schema_all *all,
    int as_made);
int qwen_schema_type_of(yyjson_val *v);

/* disjoint.c: whether no value that is made of a is valid by b. */
int qwen_schema_disjoint(struct schema *s, const struct schema_all *a,
    const struct schema_all *b, int depth);

/* object.c, array.c, string.c, number.c */
uint32_t qwen_schema_object(struct schema *s, const struct schema_all *all);
void qwen_schema_member(struct schema *s, const struct schema_all *all,
    const char *key, size_t n, struct schema_all *out);
uint32_t qwen_schema_array(struct schema *s, const struct schema_all *all);
uint32_t qwen_schema_string(struct schema *s, const struct schema_all *all);
/* A text as a tree of characters; and whether a pattern matches one. */
uint32_t qwen_schema_letters(struct schema *s, const char *text, size_t n);
int qwen_schema_matches(struct schema *s, yyjson_val *re, const char *text,
    size_t n);
int qwen_schema_has_format(struct schema *s, yyjson_val *kind,
    const char *text, size_t n);
/* Whether it may be this string; with formats, as we make them. */
int qwen_schema_takes(struct schema *s, const struct schema_all *all,
    yyjson_val *v, int formats);
/* A string that is not among the values that a part lists. */
void qwen_schema_none_of(struct schema *s, yyjson_val *list,
    struct schema_together *t);
/* What long texts are made of where they stand as they are. */
void qwen_schema_raw_rules(struct schema *s, uint32_t *chunks,
    uint32_t *tail);
uint32_t qwen_schema_name(struct schema *s, const struct schema_all *all);
uint32_t qwen_schema_number(struct schema *s, const struct schema_all *all,
    int types);
/* Whether a format, or none, says nothing of a string. */
int qwen_schema_vague(yyjson_val *v);
/* What is between two texts of a list, and after the name of a member. */
const char *qwen_schema_comma(const struct schema *s);
const char *qwen_schema_colon(const struct schema *s);
/* A JSON string as it is written in a text. */
uint32_t qwen_schema_quoted(struct schema *s, const char *text, size_t n,
    const char *after);

/* enum.c: the values that are listed, if some are; 0 if none are. */
int qwen_schema_listed(struct schema *s, const struct schema_all *all,
    uint32_t *out);
int qwen_schema_same(struct schema *s, yyjson_val *a, yyjson_val *b);
/* Those of a part: an array, or one value. */
size_t qwen_schema_values(yyjson_val *part, yyjson_val **first);

/* pattern.c: what is between the quotes; into t as conditions of the group. */
void qwen_schema_pattern(struct schema *s, yyjson_val *where,
    const char *re, size_t n, int group, struct schema_together *t);
/* Of the tree, those of so many characters alone; 0 if it cannot be said. */
int qwen_schema_limit(struct schema *s, uint32_t tree, uint32_t min,
    uint32_t max);

/* sugar.c: what keywords of v come to that are others in short; NULL: none */
yyjson_val *qwen_schema_sugar(struct schema *s, yyjson_val *v);

/* ------------------------------------------------------------- numbers */

/* A number in decimal, without an exponent; zeros that say nothing are gone. */
struct decimal {
	int	minus;
	int	n_int, n_frac;		/* digits; of 0, n_int is 0 */
	char	digit[2 * 40];
};

int qwen_decimal_read(struct decimal *d, yyjson_val *v);
int qwen_decimal_compare(const struct decimal *a, const struct decimal *b);

#endif
