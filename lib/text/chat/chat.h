/* SPDX-License-Identifier: ISC */
/*
 * chat.h - internals of chat templates: text that records the origin of its
 * bytes, values, the parsed program, and its runs.  Other folders include only
 * qwen/chat.h and tools.h.
 *
 * Both a template and its data may be untrusted.  So a run has limits on its
 * steps, depth and memory.  Each byte that it produces is marked as written by
 * the template or as data, through all operations, since only text of the
 * template may contain control tokens.
 */
#ifndef QWEN_CHAT_CHAT_H
#define QWEN_CHAT_CHAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "qwentext.h"

enum {
	CHAT_TEMPLATE_MAX = 1 << 18,	/* bytes of a template */
	CHAT_PARSE_DEPTH = 100,		/* nesting of blocks and brackets */
	CHAT_RUN_DEPTH = 1000,		/* nesting of evaluation, including
					   macro calls */
	CHAT_VALUE_DEPTH = 200,		/* nesting of lists, in a request or
					   created */
	CHAT_RANGE_MAX = 100000,	/* numbers of a range() */
	CHAT_WORD_MAX = 200,		/* bytes of a name in a template */
	/*
	 * limits of a run; the second of each pair is added per byte of the
	 * request
	 */
	CHAT_STEPS = 2000000, CHAT_STEPS_BYTE = 32,
	CHAT_MEMORY = 64 << 20, CHAT_MEMORY_BYTE = 128,
};

/* ------------------------------------------------------------------ memory */

/* Memory that is freed all at once, with a limit. */
struct chat_arena {
	struct chat_chunk	*chunk;
	size_t			 left;		/* bytes left in the newest
						   chunk */
	size_t			 total, max;	/* bytes */
	int			 no_memory;	/* malloc() failed below max */
};

/* Returns NULL if the limit is reached or memory is out. */
void *qwen_chat_alloc(struct chat_arena *a, size_t n, size_t size);
void qwen_chat_arena_fini(struct chat_arena *a);

/* -------------------------------------------------------------------- text */

/*
 * UTF-8 text, and for each byte whether the template wrote it. origin is NULL
 * if all bytes are data, qwen_chat_all_own if the template wrote all.
 */
struct chat_text {
	const char		*s;
	size_t			 n;
	const unsigned char	*origin;
};

extern const unsigned char qwen_chat_all_own[1];

static inline const unsigned char *
chat_origin(const struct chat_text *t, size_t i)
{
	return t->origin == NULL || t->origin == qwen_chat_all_own ? t->origin :
	    t->origin + i;
}

static inline struct chat_text
chat_slice(const struct chat_text *t, size_t begin, size_t end)
{
	struct chat_text r = { t->s + begin, end - begin,
	    chat_origin(t, begin) };

	return r;
}

/* Returns 1 if the template wrote byte i. */
static inline int
chat_is_own(const struct chat_text *t, size_t i)
{
	return t->origin == qwen_chat_all_own || (t->origin != NULL &&
	    t->origin[i]);
}

/* Returns the name of the i-th published template, or NULL. */
const char *qwen_template_name(size_t i);

/* ------------------------------------------------------------------ values */

enum chat_type {
	CHAT_UNDEFINED, CHAT_NONE, CHAT_BOOL, CHAT_INT,
	CHAT_BIG,		/* integer of more than 64 bits, as digits */
	CHAT_FLOAT, CHAT_TEXT, CHAT_LIST, CHAT_TUPLE, CHAT_DICT,
	CHAT_NAMESPACE, CHAT_LOOP, CHAT_MACRO,
	CHAT_FUNCTION,		/* u.m.row is called */
	CHAT_METHOD,		/* the same, of u.m.self */
	CHAT_CYCLER, CHAT_JOINER,	/* u.loop: items and position */
	CHAT_N_TYPE
};

struct chat_list {
	struct chat_value	*v;
	size_t			 n;
};

struct chat_value {
	enum chat_type	type;
	int		markup;		/* of a text: HTML that must not be
					   escaped again */
	union {
		int64_t			 i;
		double			 f;
		struct chat_text	 s;	/* of BIG: digits; of UNDEFINED:
						   name */
		struct chat_list	 l;
		struct chat_dict	*d;
		struct chat_loop	*loop;
		const struct chat_macro	*macro;
		struct {
			const struct chat_builtin	*row;
			const struct chat_value	*self;
		} m;
	} u;
};

struct chat_pair {
	struct chat_value	key, v;
};

struct chat_dict {
	struct chat_pair	*p;
	size_t			 n, cap;
};

/* ----------------------------------------------------------------- program */

enum chat_kind {
	/* expressions */
	CHAT_K_CONST, CHAT_K_NAME, CHAT_K_LIST, CHAT_K_TUPLE, CHAT_K_DICT,
	CHAT_K_ATTR, CHAT_K_ITEM, CHAT_K_SLICE, CHAT_K_CALL, CHAT_K_FILTER,
	CHAT_K_TEST, CHAT_K_NOT, CHAT_K_NEG, CHAT_K_AND, CHAT_K_OR,
	CHAT_K_BINARY, CHAT_K_COMPARE, CHAT_K_IF_ELSE, CHAT_K_ARG,
	/* statements */
	CHAT_K_OUTPUT, CHAT_K_FOR, CHAT_K_IF, CHAT_K_SET, CHAT_K_SET_BLOCK,
	CHAT_K_MACRO, CHAT_K_BREAK, CHAT_K_CONTINUE, CHAT_K_DO, CHAT_K_WITH,
	CHAT_K_FILTER_BLOCK, CHAT_K_CALL_BLOCK,
	CHAT_N_KIND
};

enum chat_op {
	CHAT_ADD, CHAT_SUB, CHAT_MUL, CHAT_DIV, CHAT_FLOORDIV, CHAT_MOD,
	CHAT_POW, CHAT_CONCAT, CHAT_EQ, CHAT_NE, CHAT_LT, CHAT_LE, CHAT_GT, CHAT_GE,
	CHAT_IN, CHAT_NOT_IN,
	CHAT_N_OP
};

/* The operators in the template language. */
extern const char *const qwen_chat_sign[CHAT_N_OP];

/*
 * A node of the parsed program.  The parser, which creates the nodes, documents
 * the use of a, b, c, list and other for each kind.  Nodes of a list are linked
 * by next.
 */
struct chat_node {
	enum chat_kind		 kind;
	enum chat_op		 op;
	unsigned		 line;
	int			 takes_caller;	/* of a macro: uses caller() */
	struct chat_node	*a, *b, *c;
	struct chat_node	*list, *other;
	struct chat_node	*next;
	const char		*name;
	const struct chat_builtin	*row;	/* of a filter or a test */
	struct chat_value	 value;
};

static inline size_t
chat_count(const struct chat_node *list)
{
	size_t n = 0;

	for (; list != NULL; list = list->next)
		n++;
	return n;
}

struct chat_macro {
	const struct chat_node	*node;
	struct chat_scope	*scope;	/* where it was defined */
};

/* Token texts that a template can write. */
enum { CHAT_BOS, CHAT_EOS, CHAT_PAD, CHAT_N_NAMED };

struct qwen_template {
	struct chat_arena	 mem;
	struct chat_value	 named[CHAT_N_NAMED];	/* or undefined */
	int			 adds_bos;	/* prompts begin with BOS */
	const char		*effort;	/* default reasoning_effort, or
						   NULL */
	int			 (*now)(void *arg, struct tm *out);	/* or
							   NULL */
	void			*now_arg;
	int			 high_is_medium;	/* "high" becomes
							   medium, else xhigh */
	struct chat_node	*body;
	char			*source;
	int			 xml;		/* writes calls as
						   <function=...> */
	int			 json;		/* writes calls as JSON in
						   <tool_call> */
	int			 thinks;
	int			 parsed_arguments;	/* must not be
							   strings */
	enum qwen_systems	 systems;
};

struct qwen_prompt {
	char		*s;
	unsigned char	*own;	/* 1 if the template wrote the byte */
	size_t		 n;
	int		 continues;	/* the reply continues the last
					   message */
	enum qwen_thinking thinking;	/* OPEN if it continues a thought */
	int		 repaired;
};

/* Parses source, n bytes that stay valid, into t->body. */
int qwen_chat_parse(struct qwen_template *t, const char *source, size_t n,
    struct qwen_err *err);

/* --------------------------------------------------------------------- run */

struct chat_var {
	const char		*name;
	struct chat_value	 v;
};

struct chat_scope {
	struct chat_scope	*up;
	struct chat_var		*var;
	size_t			 n, cap;
};

struct chat_loop {
	struct chat_list	items;
	size_t			i;
	struct chat_list	seen;	/* last arguments of loop.changed() */
	int			has_seen;
	unsigned		depth;	/* recursion depth */
	const struct chat_node	*node;	/* node for recursion, or NULL */
};

struct chat_exec {
	struct chat_arena	 mem;
	uint64_t		 steps, steps_max;
	unsigned		 depth;
	unsigned		 line;		/* of the current node */
	int			 failed;	/* err has the first failure;
						   later ones are ignored */
	int			 eval_error;	/* failed by an error of
						   evaluation */
	int			 raised;	/* failed by raise_exception */
	int			 no_raise;	/* raise_exception does
						   nothing */
	const struct qwen_template *t;
	struct chat_buf		*out;
	struct chat_scope	*scope;
	struct qwen_err		*err;
};

/* Text that grows.  If the run has failed, nothing is added. */
struct chat_buf {
	char		*s;
	unsigned char	*origin;
	size_t		 n, cap;
};

/*
 * tokens.c: sets the variables bos_token and so on; puts BOS in front of a
 * prompt.
 */
void qwen_chat_set_tokens(struct chat_exec *r);
int qwen_chat_begin(const struct qwen_template *t, struct chat_buf *b,
    struct qwen_err *err);

/*
 * effort.c. qwen_chat_take_effort returns the level of the request's
 * reasoning_effort, or of the template's default; -1 if it is unknown.  Level
 * none turns thinking off. other is a name to use in place of the request's;
 * "": none; NULL: the request's own. qwen_chat_other_effort returns the i-th
 * name to try if the template raises an error, or NULL.
 */
int qwen_chat_take_effort(struct chat_exec *r, const char *other);
const char *qwen_chat_other_effort(const struct qwen_template *t, int level,
    size_t i);

/* Runs r->t->body; its output goes to r->out. */
int qwen_chat_exec(struct chat_exec *r);

/*
 * Errors: the template cannot handle its input; the request is wrong; a limit;
 * out of memory.  All return -1.
 */
int qwen_chat_fail(struct chat_exec *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int qwen_chat_refuse(struct chat_exec *r, const char *what);
int qwen_chat_limit(struct chat_exec *r, const char *what);
int qwen_chat_oom(struct chat_exec *r);

/*
 * Counts n steps; -1 if that exceeds the limit or the run has failed.  A step
 * is about ten nanoseconds of work: visiting a node, copying or comparing 64
 * bytes, or decoding 4 characters.  Each function counts its own work.
 */
int qwen_chat_step(struct chat_exec *r, uint64_t n);

/* Returns memory of the run; NULL with the error set. */
void *qwen_chat_new(struct chat_exec *r, size_t n, size_t size);
/* Makes room for one element after n in an array, like qwen_grow. */
int qwen_chat_more(struct chat_exec *r, void *array, size_t n, size_t *cap,
    size_t size);

/* Returns undefined after a failure: check r->failed before using the value. */
struct chat_value qwen_chat_eval(struct chat_exec *r,
    const struct chat_node *n);

/* The variable that holds the text of a filter block. */
#define CHAT_BLOCK_NAME " "

/*
 * Variables. qwen_chat_get returns the value in the innermost scope that has
 * the variable, or NULL. qwen_chat_set sets it in the innermost scope.
 */
const struct chat_value *qwen_chat_get(struct chat_exec *r, const char *name);
void qwen_chat_set(struct chat_exec *r, const char *name,
    struct chat_value v);

/*
 * Call a macro: args are K_ARG nodes, positional and named; caller is the
 * content of a {% call %} block, or NULL. qwen_chat_recurse runs loop(items),
 * the same loop over other items.
 */
struct chat_value qwen_chat_call_macro(struct chat_exec *r,
    const struct chat_macro *m, const struct chat_node *args,
    const struct chat_value *caller);
struct chat_value qwen_chat_recurse(struct chat_exec *r,
    const struct chat_loop *loop, const struct chat_value *items);

/* Growing text. */
void qwen_chat_put(struct chat_exec *r, struct chat_buf *b,
    const struct chat_text *t);
void qwen_chat_put_data(struct chat_exec *r, struct chat_buf *b, const char *s,
    size_t n);
/* A C string, as data; a part of t; n bytes with the origin of byte i of t. */
void qwen_chat_put_str(struct chat_exec *r, struct chat_buf *b, const char *s);
void qwen_chat_put_slice(struct chat_exec *r, struct chat_buf *b,
    const struct chat_text *t, size_t begin, size_t end);
void qwen_chat_put_like(struct chat_exec *r, struct chat_buf *b,
    const struct chat_text *t, size_t i, const char *s, size_t n);
void qwen_chat_put_times(struct chat_exec *r, struct chat_buf *b,
    const struct chat_text *t, int64_t times);
void qwen_chat_put_spaces(struct chat_exec *r, struct chat_buf *b, int64_t n);
void qwen_chat_buf_fini(struct chat_buf *b);
/* Returns the text in memory of the run and empties b. */
struct chat_value qwen_chat_buf_value(struct chat_exec *r, struct chat_buf *b);

/* ------------------------------------------------------- what values can do */

/* Evaluated arguments of a call. */
struct chat_args {
	struct chat_value	*v;
	size_t			 n;
	const char		**key;	/* names of the last n_key arguments */
	size_t			 n_key;
};

/* Returns argument i, or the argument named key, or NULL. */
const struct chat_value *qwen_chat_arg(const struct chat_args *a, size_t i,
    const char *key);

static inline struct chat_value
chat_bool(int b)
{
	struct chat_value v = { .type = CHAT_BOOL, .u.i = b != 0 };

	return v;
}

static inline struct chat_value
chat_int(int64_t i)
{
	struct chat_value v = { .type = CHAT_INT, .u.i = i };

	return v;
}

static inline struct chat_value
chat_text(struct chat_text s)
{
	struct chat_value v = { .type = CHAT_TEXT, .u.s = s };

	return v;
}

static inline struct chat_value
chat_list(struct chat_list l)
{
	struct chat_value v = { .type = CHAT_LIST, .u.l = l };

	return v;
}

/* Is a value missing, or none? */
static inline int
chat_missing(const struct chat_value *v)
{
	return v == NULL || v->type == CHAT_NONE;
}

static inline int
chat_is_list(const struct chat_value *v)
{
	return v->type == CHAT_LIST || v->type == CHAT_TUPLE;
}

/* Is it an integer of 64 bits, or a boolean? */
static inline int
chat_is_whole(const struct chat_value *v)
{
	return v->type == CHAT_INT || v->type == CHAT_BOOL;
}

/* A C string as data. */
static inline struct chat_text
chat_literal(const char *s)
{
	struct chat_text t = { s, strlen(s), NULL };

	return t;
}

static inline struct chat_value
chat_cstr(const char *s)
{
	return chat_text(chat_literal(s));
}

static inline struct chat_value
chat_none(void)
{
	return (struct chat_value){ .type = CHAT_NONE };
}

static inline struct chat_value
chat_undefined(const char *name, size_t n)
{
	struct chat_value v = { .type = CHAT_UNDEFINED,
	    .u.s = { name, n, NULL } };

	return v;
}

/* A phrase for messages: "a string", "undefined". */
const char *qwen_chat_type_name(const struct chat_value *v);
int qwen_chat_true(struct chat_value v);
int qwen_chat_equal(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b);
int qwen_chat_same_text(const struct chat_text *a, const char *b);

/* Is the value, which may be NULL, this text? */
static inline int
chat_is_text(const struct chat_value *v, const char *s)
{
	return v != NULL && v->type == CHAT_TEXT &&
	    qwen_chat_same_text(&v->u.s, s);
}

/*
 * Compares by bytes, for UTF-8 the order of code points: negative, 0 or
 * positive.
 */
int qwen_chat_compare_text(const struct chat_text *a,
    const struct chat_text *b);
/* Converts a boolean, integer or float to double; 0 for other types. */
int qwen_chat_number(const struct chat_value *v, double *f);
/* Returns the value of a key, or NULL. */
const struct chat_value *qwen_chat_find(struct chat_exec *r,
    const struct chat_dict *d, const struct chat_value *key);
/*
 * Returns an empty dictionary or namespace; undefined after a failure, when the
 * functions that put values do nothing.
 */
struct chat_value qwen_chat_new_dict(struct chat_exec *r, enum chat_type type);
/* Puts all values of a dictionary, from, into another. */
void qwen_chat_put_all(struct chat_exec *r, struct chat_dict *d,
    const struct chat_dict *from);
void qwen_chat_dict_put(struct chat_exec *r, struct chat_dict *d,
    const struct chat_value *key, const struct chat_value *v);
/* The same with a C string as the key. */
struct chat_value *qwen_chat_key(struct chat_exec *r,
    const struct chat_dict *d, const char *key);
void qwen_chat_put_key(struct chat_exec *r, struct chat_dict *d,
    const char *key, struct chat_value v);
size_t qwen_chat_length(struct chat_exec *r, const struct chat_value *v);
/*
 * Returns a list of n uninitialised values and counts n steps; an empty list
 * after a failure.
 */
struct chat_list qwen_chat_new_list(struct chat_exec *r, size_t n);
/* Returns a list of the keys, or of the values, of a dictionary. */
struct chat_list qwen_chat_members(struct chat_exec *r,
    const struct chat_dict *d, int values);
/* Returns a list of the keys and values of a dictionary, as tuples. */
struct chat_value qwen_chat_pairs(struct chat_exec *r,
    const struct chat_dict *d);
/* Returns a tuple of copies of n values. */
struct chat_value qwen_chat_tuple(struct chat_exec *r,
    const struct chat_value *v, size_t n);
/* Returns the items that a for loop iterates over. */
struct chat_list qwen_chat_iterate(struct chat_exec *r,
    const struct chat_value *v);
/*
 * The same for map and the selecting filters: an empty list for none and false.
 */
struct chat_list qwen_chat_iterate_if(struct chat_exec *r,
    const struct chat_value *v);

/* obj[key] */
struct chat_value qwen_chat_item(struct chat_exec *r,
    const struct chat_value *obj, const struct chat_value *key);
/* obj[begin:end:step], NULL for missing parts; and obj[::-1]. */
struct chat_value qwen_chat_subset(struct chat_exec *r,
    const struct chat_value *obj, const struct chat_value *part[3]);
struct chat_value qwen_chat_reverse(struct chat_exec *r,
    const struct chat_value *v);

struct chat_value qwen_chat_binary(struct chat_exec *r, enum chat_op op,
    const struct chat_value *a, const struct chat_value *b);
int qwen_chat_compare(struct chat_exec *r, enum chat_op op,
    const struct chat_value *a, const struct chat_value *b);

/*
 * Filters x|name(args), tests x is name(args), functions name(args) and methods
 * x.name(args) are rows of tables, which end with a row without a name.
 * Similar rows share run, which distinguishes them by variant.
 */
struct chat_builtin_call {
	struct chat_exec			*r;
	const struct chat_value		*x;
	const struct chat_text		*t;	/* x as a text, if it is one */
	const struct chat_args		*a;
	int				 variant;
};

struct chat_builtin {
	const char	*name;		/* or names, with spaces between */
	struct chat_value (*run)(const struct chat_builtin_call *);
	int		 variant;
	unsigned	 use;
};

/* The uses of rows, a set: a filter, ..., a method of the types of x. */
#define CHAT_AS_FILTER (1u << 31)
#define CHAT_AS_TEST (1u << 30)
#define CHAT_AS_FUNCTION (1u << 29)
#define CHAT_OF(type) (1u << (type))

/* Rows of a table. */
#define FILTER(name, run, variant) { name, run, variant, CHAT_AS_FILTER }
#define TEST(name, run, variant) { name, run, variant, CHAT_AS_TEST }
#define FUNCTION(name, run, variant) { name, run, variant, CHAT_AS_FUNCTION }
#define METHOD(type, name, run, variant) \
	{ name, run, variant, CHAT_OF(CHAT_##type) }

/* builtin.c: returns the row of that name and use, or NULL. */
const struct chat_builtin *qwen_chat_row_in(unsigned use,
    const struct chat_text *name);

/* All tables, with the uses that their rows have together. */
struct chat_table {
	const struct chat_builtin *rows;
	unsigned	 use;
};

extern const struct chat_table qwen_chat_tables[];

/* The tables of the other files. */
extern const struct chat_builtin qwen_chat_in_words[], qwen_chat_in_lists[],
    qwen_chat_in_formats[], qwen_chat_in_filters[], qwen_chat_in_tests[],
    qwen_chat_in_methods[];
struct chat_value qwen_chat_call_builtin(struct chat_exec *r,
    const struct chat_builtin *row, const struct chat_value *x,
    const struct chat_args *a);

/* Fails in a row with this message; returns x, which is then ignored. */
#define chat_refuse(c, ...) \
	(qwen_chat_fail((c)->r, __VA_ARGS__), *(c)->x)

/* builtin.c: is argument i or key true?  As an integer; usual if missing. */
int qwen_chat_flag(const struct chat_builtin_call *c, size_t i,
    const char *key);
int64_t qwen_chat_whole(const struct chat_builtin_call *c, size_t i,
    const char *key, int64_t usual);
/* Returns x as a text: itself, or as printed. */
struct chat_text qwen_chat_as_text(const struct chat_builtin_call *c);

/* JSON format. */
struct chat_dumps {
	int			 indent;	/* -1: on one line */
	int			 ascii, sorted;	/* escape non-ASCII; sort the
						   keys */
	struct chat_text	 comma, colon;	/* separators; NULL: default */
};

/* Print as {{ v }} does; as Python's repr(); as JSON. */
void qwen_chat_print(struct chat_exec *r, struct chat_buf *b,
    struct chat_value v);
void qwen_chat_repr(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v);
void qwen_chat_json(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v, const struct chat_dumps *how);

/*
 * list.c: returns the value at "a.b.0"; usual, if not NULL, replaces undefined
 * values.
 */
struct chat_value qwen_chat_path(struct chat_exec *r,
    const struct chat_value *v, const struct chat_value *path,
    const struct chat_value *usual);
/* list.c: joins the items, or an attribute of each; NULL: nothing between. */
struct chat_value qwen_chat_join_items(struct chat_exec *r,
    const struct chat_value *items, const struct chat_text *between,
    const struct chat_value *attr);
/*
 * format.c: t % values; words.c: escapes for HTML, the result is markup;
 * converts to lower case.
 */
struct chat_value qwen_chat_percent(struct chat_exec *r,
    const struct chat_text *t, const struct chat_value *values);
struct chat_value qwen_chat_escape(struct chat_exec *r,
    const struct chat_text *t);
struct chat_value qwen_chat_lower(struct chat_exec *r,
    const struct chat_text *t);

/* ----------------------------------------------------------- text functions */

/*
 * Decodes the code point at s + i; returns its length.  An invalid byte counts
 * as a character of length 1.
 */
size_t qwen_chat_char(const char *s, size_t i, size_t n, uint32_t *c);
int qwen_chat_space(uint32_t c);	/* white space for strip() */
size_t qwen_chat_chars(struct chat_exec *r, const char *s, size_t n);
/* Returns the byte offset of character i, or the length. */
size_t qwen_chat_offset(struct chat_exec *r, const struct chat_text *t,
    size_t i);
/*
 * Parses n digits after an optional minus; 0 if they are not digits or exceed
 * 64 bits.
 */
int qwen_chat_digits(const char *s, size_t n, int64_t *i);

/*
 * Removes characters of set (NULL: white space) from the beginning (ends & 1)
 * and the end (ends & 2).  Outside of a run, r and set are NULL.
 */
struct chat_text qwen_chat_strip(struct chat_exec *r, const struct chat_text *t,
    const struct chat_text *set, int ends);
/* Returns the first position of x in t from i on, or t->n + 1; counts steps. */
size_t qwen_chat_search(struct chat_exec *r, const struct chat_text *t,
    const struct chat_text *x, size_t i);
/* Returns the last position of x that ends at end or before, or t->n + 1. */
size_t qwen_chat_search_back(struct chat_exec *r, const struct chat_text *t,
    const struct chat_text *x, size_t end);
struct chat_value qwen_chat_join(struct chat_exec *r, const struct chat_text *a,
    const struct chat_text *b);

#endif
