/* SPDX-License-Identifier: ISC */
/*
 * chat.h - inside of chat templates: text that knows where it comes from,
 * values, the parsed program, and one run of it.  The face of this folder is
 * qwen/chat.h, and tools.h: others include nothing else of it.
 *
 * A template is a program out of a file that somebody sent, and what it works
 * on may have been written by anybody.  So a run has limits on its steps, its
 * depth, its memory; and each byte it makes is the template's own or data,
 * whatever is done with it, since only in the former are control tokens seen.
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
	CHAT_PARSE_DEPTH = 100,		/* blocks and brackets in each other */
	CHAT_RUN_DEPTH = 1000,		/* of evaluation, macro calls included */
	CHAT_VALUE_DEPTH = 200,		/* lists in lists, in a request or made */
	CHAT_RANGE_MAX = 100000,	/* numbers of a range() */
	CHAT_WORD_MAX = 200,		/* bytes of a name in a template */
	/* A run may use these, and more for each byte of the request. */
	CHAT_STEPS = 2000000, CHAT_STEPS_BYTE = 32,
	CHAT_MEMORY = 64 << 20, CHAT_MEMORY_BYTE = 128,
};

/* ------------------------------------------------------------------ memory */

/* Memory that is given back all at once, and of which there is only so much. */
struct chat_arena {
	struct chat_chunk	*chunk;
	size_t			 left;		/* in the newest chunk */
	size_t			 total, max;	/* bytes */
	int			 no_memory;	/* there was less than max */
};

/* NULL: no more of it. */
void *qwen_chat_alloc(struct chat_arena *a, size_t n, size_t size);
void qwen_chat_arena_fini(struct chat_arena *a);

/* -------------------------------------------------------------------- text */

/*
 * UTF-8, and for each byte whether the template wrote it.  from is NULL if all
 * are data, qwen_chat_own if all are the template's.
 */
struct chat_text {
	const char		*s;
	size_t			 n;
	const unsigned char	*from;
};

extern const unsigned char qwen_chat_own[1];

static inline const unsigned char *
chat_from(const struct chat_text *t, size_t i)
{
	return t->from == NULL || t->from == qwen_chat_own ? t->from :
	    t->from + i;
}

static inline struct chat_text
chat_slice(const struct chat_text *t, size_t begin, size_t end)
{
	struct chat_text r = { t->s + begin, end - begin,
	    chat_from(t, begin) };

	return r;
}

/* Did the template write byte i? */
static inline int
chat_is_own(const struct chat_text *t, size_t i)
{
	return t->from == qwen_chat_own || (t->from != NULL && t->from[i]);
}

/* ------------------------------------------------------------------ values */

enum chat_type {
	CHAT_UNDEFINED, CHAT_NONE, CHAT_BOOL, CHAT_INT,
	CHAT_BIG,		/* an integer beyond 64 bits: its digits */
	CHAT_FLOAT, CHAT_TEXT, CHAT_LIST, CHAT_TUPLE, CHAT_DICT,
	CHAT_NAMESPACE, CHAT_LOOP, CHAT_MACRO,
	CHAT_FUNCTION,		/* a row, of those of all templates */
	CHAT_METHOD,		/* likewise, of a value */
	CHAT_CYCLER, CHAT_JOINER,	/* u.loop: their items, and how far */
	CHAT_N_TYPE
};

struct chat_list {
	struct chat_value	*v;
	size_t			 n;
};

struct chat_value {
	enum chat_type	type;
	int		markup;		/* of a text: HTML, not to be escaped
					   again */
	union {
		int64_t			 i;
		double			 f;
		struct chat_text	 s;	/* BIG; the name of UNDEFINED */
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

/* How the template language writes them. */
extern const char *const qwen_chat_sign[CHAT_N_OP];

/*
 * What a, b, c, list and other are is said in the parser, which builds them.
 * Nodes of a list are chained by next.
 */
struct chat_node {
	enum chat_kind		 kind;
	enum chat_op		 op;
	unsigned		 line;
	int			 takes_caller;	/* of a macro */
	struct chat_node	*a, *b, *c;
	struct chat_node	*list, *other;
	struct chat_node	*next;
	const char		*name;
	const struct chat_builtin	*row;	/* of a filter, or a test */
	struct chat_value	 value;
};

struct chat_macro {
	const struct chat_node	*node;
	struct chat_scope	*scope;	/* where it was defined */
};

/* Token texts that a template can write: bos_token, eos_token, pad_token. */
enum { CHAT_BOS, CHAT_EOS, CHAT_PAD, CHAT_N_NAMED };

struct qwen_template {
	struct chat_arena	 mem;
	struct chat_value	 named[CHAT_N_NAMED];	/* or undefined */
	int			 adds_bos;	/* a prompt must begin with it */
	const char		*effort;	/* of requests without, or NULL */
	int			 (*now)(void *arg, struct tm *out);	/* or
							   NULL */
	void			*now_arg;
	int			 high_is_medium;	/* or else xhigh */
	struct chat_node	*body;
	char			*source;
	int			 xml;		/* calls are <function=...>, */
	int			 json;		/* or JSON in <tool_call> */
	int			 thinks;
	int			 parsed_arguments;	/* those of calls must
							   not be strings */
	enum qwen_systems	 systems;
};

struct qwen_prompt {
	char		*s;
	unsigned char	*own;	/* 1: the template wrote the byte */
	size_t		 n;
	int		 continues;	/* the last message, and then */
	enum qwen_thinking thinking;	/* its thought (OPEN), or its text */
	int		 repaired;
};

/* Parse source (n bytes that live on) into t->body. */
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
	struct chat_list	seen;	/* by loop.changed(), last */
	int			has_seen;
	unsigned		depth;	/* loops around it, of recursion */
	const struct chat_node	*node;	/* to be run again, or NULL */
};

struct chat_exec {
	struct chat_arena	 mem;
	uint64_t		 steps, steps_max;
	unsigned		 depth;
	unsigned		 line;		/* of the node at work */
	int			 failed;	/* err says why: the first failure;
						   nothing after it counts */
	int			 accident;	/* failed for want of a branch, */
	int			 raised;	/* or by raise_exception, which */
	int			 mute;		/* does nothing here */
	int			 (*now)(void *arg, struct tm *out);
	void			*now_arg;
	struct chat_buf		*out;
	struct chat_scope	*scope;
	struct qwen_err		*err;
};

/* Text that grows; to a run that has failed nothing is added. */
struct chat_buf {
	char		*s;
	unsigned char	*from;
	size_t		 n, cap;
};

/* tokens.c: bos_token and others as variables; BOS in front of a prompt. */
void qwen_chat_set_tokens(struct chat_exec *r, const struct qwen_template *t);
int qwen_chat_begin(const struct qwen_template *t, struct chat_buf *b,
    struct qwen_err *err);

/*
 * effort.c: returns the level of reasoning_effort that the request asks for, or
 * else the template's default, -1 if it is no known one.  Level none turns
 * thinking off.  other: this name in its place, "" for none at all; NULL: as it
 * is.  And the i-th name to try where the template raises, or NULL.
 */
int qwen_chat_take_effort(struct chat_exec *r, const struct qwen_template *t,
    const char *other);
const char *qwen_chat_other_effort(const struct qwen_template *t, int level,
    size_t i);

/* Run t->body: its output goes to run->out. */
int qwen_chat_exec(struct chat_exec *r, const struct qwen_template *t);

/* Errors: what the input is not fit for; a limit; memory. All return -1. */
int qwen_chat_fail(struct chat_exec *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int qwen_chat_limit(struct chat_exec *r, const char *what);
int qwen_chat_oom(struct chat_exec *r);

/*
 * n more steps; -1 if that is too many, or the run has failed.  A step is some
 * ten nanoseconds of work: a look at a node, 64 bytes that are copied or
 * compared, 4 characters that are read one by one.  Who does the work counts it.
 */
int qwen_chat_step(struct chat_exec *r, uint64_t n);

/* Memory of the run, or NULL and the error is set. */
void *qwen_chat_new(struct chat_exec *r, size_t n, size_t size);
/* Room for one more after n in an array of it; as qwen_grow. */
int qwen_chat_more(struct chat_exec *r, void *array, size_t n, size_t *cap,
    size_t size);

/* Undefined after a failure: look at r->failed before doing much with it. */
struct chat_value qwen_chat_eval(struct chat_exec *r,
    const struct chat_node *n);

/* The value that filters of a block begin with has this name. */
#define CHAT_BLOCK_NAME " "

/* Variables: that of the innermost scope that has it, or NULL; set there. */
const struct chat_value *qwen_chat_get(struct chat_exec *r, const char *name);
void qwen_chat_set(struct chat_exec *r, const char *name,
    const struct chat_value *v);

/*
 * Call a macro; args are K_ARG nodes, named or not, caller what {% call %} has
 * inside, or NULL.  And loop(items), the same loop over others.
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
void qwen_chat_buf_fini(struct chat_buf *b);
/* The text in memory of the run; b is emptied. */
struct chat_value qwen_chat_take(struct chat_exec *r, struct chat_buf *b);

/* ------------------------------------------------------- what values can do */

/* Evaluated arguments of a call. */
struct chat_args {
	struct chat_value	*v;
	size_t			 n;
	const char		**key;	/* of the named ones, which come last */
	size_t			 n_key;
};

/* Argument i, or that of the name, or NULL. */
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

/* A text of C as data. */
static inline struct chat_text
chat_literal(const char *s)
{
	struct chat_text t = { s, strlen(s), NULL };

	return t;
}

static inline struct chat_value
chat_undefined(const char *name, size_t n)
{
	struct chat_value v = { .type = CHAT_UNDEFINED,
	    .u.s = { name, n, NULL } };

	return v;
}

/* A word for messages: "a string", "undefined". */
const char *qwen_chat_type_name(const struct chat_value *v);
int qwen_chat_true(const struct chat_value *v);
int qwen_chat_equal(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b);
int qwen_chat_same_text(const struct chat_text *a, const char *b);
/* Less than 0, 0, or more, by bytes: for UTF-8 that is by code points. */
int qwen_chat_order(const struct chat_text *a, const struct chat_text *b);
/* A boolean, an integer or a double as the latter; 0 if it is none. */
int qwen_chat_number(const struct chat_value *v, double *f);
/* The value of a key, or NULL. */
const struct chat_value *qwen_chat_find(struct chat_exec *r,
    const struct chat_dict *d, const struct chat_value *key);
/* A new one without members, or a namespace; undefined after a failure. */
struct chat_value qwen_chat_new_dict(struct chat_exec *r, enum chat_type type);
void qwen_chat_dict_put(struct chat_exec *r, struct chat_dict *d,
    const struct chat_value *key, const struct chat_value *v);
size_t qwen_chat_length(struct chat_exec *r, const struct chat_value *v);
/* n values, not set; n steps.  Without any after a failure. */
struct chat_list qwen_chat_new_list(struct chat_exec *r, size_t n);
/* The keys of an object, or its values. */
struct chat_list qwen_chat_members(struct chat_exec *r,
    const struct chat_dict *d, int values);
/* What a for goes over, as a list. */
struct chat_list qwen_chat_iterate(struct chat_exec *r,
    const struct chat_value *v);
/* The same for map and the filters that select: of none and false, nothing. */
struct chat_list qwen_chat_iterate_if(struct chat_exec *r,
    const struct chat_value *v);
int qwen_chat_contains(struct chat_exec *r, const struct chat_value *in,
    const struct chat_value *v);

/* obj.name and obj[key], as the template language has them. */
struct chat_value qwen_chat_attr(struct chat_exec *r,
    const struct chat_value *obj, const char *name);
struct chat_value qwen_chat_item(struct chat_exec *r,
    const struct chat_value *obj, const struct chat_value *key);
/* obj[begin:end:step], each NULL if not there; and obj[::-1] */
struct chat_value qwen_chat_subset(struct chat_exec *r,
    const struct chat_value *obj, const struct chat_value *part[3]);
struct chat_value qwen_chat_reverse(struct chat_exec *r,
    const struct chat_value *v);

struct chat_value qwen_chat_binary(struct chat_exec *r, enum chat_op op,
    const struct chat_value *a, const struct chat_value *b);
int qwen_chat_compare(struct chat_exec *r, enum chat_op op,
    const struct chat_value *a, const struct chat_value *b);

/*
 * x|name(args), x is name(args), name(args), x.name(args) are rows of tables,
 * which end with one without a name.  Rows that are nearly the same share run
 * and are told apart by how.
 */
struct chat_use {
	struct chat_exec			*r;
	const struct chat_value		*x;
	const struct chat_text		*t;	/* x, if that is a text */
	const struct chat_args		*a;
	int				 how;
};

struct chat_builtin {
	const char	*name;
	struct chat_value (*run)(const struct chat_use *);
	int		 how;
};

/* Tables, one after another, up to NULL. */
extern const struct chat_builtin *const qwen_chat_filters[];
extern const struct chat_builtin *const qwen_chat_tests[];
extern const struct chat_builtin *const qwen_chat_functions[];
/* By the type of x. */
enum { CHAT_TABLES_MAX = 4 };
extern const struct chat_builtin *const
    qwen_chat_methods[CHAT_N_TYPE][CHAT_TABLES_MAX];

/* The row of that name, or NULL. */
const struct chat_builtin *qwen_chat_row_in(const struct chat_builtin *const *tables,
    const struct chat_text *name);

/* Tables of words.c, list.c, format.c, date.c and method.c. */
extern const struct chat_builtin qwen_chat_word_methods[],
    qwen_chat_word_filters[], qwen_chat_word_tests[],
    qwen_chat_list_filters[], qwen_chat_format_methods[],
    qwen_chat_format_filters[], qwen_chat_date_functions[],
    qwen_chat_object_functions[];
struct chat_value qwen_chat_use(struct chat_exec *r,
    const struct chat_builtin *row, const struct chat_value *x,
    const struct chat_args *a);

/* Fail in a row, for this reason; returns x, which counts no more. */
static inline struct chat_value
chat_refuse(const struct chat_use *c, const char *what)
{
	qwen_chat_fail(c->r, "%s", what);
	return *c->x;
}

/* How JSON is written. */
struct chat_dumps {
	int			 indent;	/* -1: on one line */
	int			 ascii, sorted;	/* escapes, and keys */
	struct chat_text	 comma, colon;	/* between; NULL: as usual */
};

/* As {{ v }} writes it; as Python's repr(); as JSON. */
void qwen_chat_print(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v);
void qwen_chat_repr(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v);
void qwen_chat_json(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v, const struct chat_dumps *how);

/* list.c: the value at "a.b.0", usual in place of what is undefined. */
struct chat_value qwen_chat_path(struct chat_exec *r,
    const struct chat_value *v, const struct chat_value *path,
    const struct chat_value *usual);
/* format.c: t % values; words.c: as HTML, which is markup. */
struct chat_value qwen_chat_percent(struct chat_exec *r,
    const struct chat_text *t, const struct chat_value *values);
struct chat_value qwen_chat_escape(struct chat_exec *r,
    const struct chat_text *t);
/* method.c: the lines of a text, with their ends or without. */
struct chat_list qwen_chat_lines(struct chat_exec *r,
    const struct chat_text *t, int ends);
/* filter.c: a text as float() reads it; 0 if it is no number. */
int qwen_chat_read_float(struct chat_exec *r, const struct chat_value *v,
    double *f);

/* ----------------------------------------------------------- text functions */

/* The code point at s + i, of n bytes; its length. Bytes that are none: one. */
size_t qwen_chat_char(const char *s, size_t i, size_t n, uint32_t *c);
int qwen_chat_space(uint32_t c);	/* what strip() takes away */
size_t qwen_chat_chars(struct chat_exec *r, const char *s, size_t n);
/* n digits, after a minus or not; 0 if they are not that, or over 64 bits. */
int qwen_chat_digits(const char *s, size_t n, int64_t *i);

/*
 * Without the characters of set (NULL: white space) at the beginning (ends & 1)
 * and the end (ends & 2).  Outside of a run, r and set are NULL.
 */
struct chat_text qwen_chat_strip(struct chat_exec *r, const struct chat_text *t,
    const struct chat_text *set, int ends);
/* Where x is in t from i on, or t->n + 1 if nowhere; counted as steps. */
size_t qwen_chat_search(struct chat_exec *r, const struct chat_text *t,
    const struct chat_text *x, size_t i);
struct chat_value qwen_chat_join(struct chat_exec *r, const struct chat_text *a,
    const struct chat_text *b);

#endif
