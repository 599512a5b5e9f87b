/* SPDX-License-Identifier: ISC */
/*
 * chat_cost.c - the steps counted for a template are in proportion to its time:
 * each filter, test, method, function, operator and statement with large
 * operands takes no more time than its steps allow, and less than a second per
 * megabyte. The tables of the library list them: a new row is tested
 * automatically, and a kind of node without an example fails.  Operands have
 * 100 kB; in make check-long 1 MB, in more pairs.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../tap.h"
#include "base/text.h"
#include "text/chat/request.h"

/* Bytes of an operand. */
static size_t size = 100000;
static int all_pairs;

/*
 * As much as a step may cost, in nanoseconds, beside what a run may take for
 * nothing; and what it may take for a byte: a second for a megabyte.
 */
static double step_ns = 150, free_ns = 2e5, byte_ns = 1000;

/* ---------------------------------------------------------------- operands */

/* All of that size, as JSON: begin, each so often as fits, end. */
static const struct shape {
	const char	*name, *begin, *each, *end;
	size_t		 bytes;		/* that each counts for, or 0: its own */
	int		 y;		/* is a second operand, too */
} shapes[] = {
	{ "text", "\"", "a", "\"", 0, 1 },
	{ "half of it that ends otherwise", "\"", "a", "b\xe4\xb8\xad\"", 2, 1 },
	{ "spaces", "\"", " ", "a b\"", 0, 0 },
	{ "three bytes a character", "\"", "\xe4\xb8\xad", "\xe6\x96\x87\"", 0, 0 },
	{ "all to be escaped", "\"", "\\u0001", "\"", 1, 0 },
	{ "lines", "\"", "\\n", "\"", 1, 0 },
	{ "zeros", "\"", "0", "1\"", 0, 0 },
	{ "a minus and digits", "\"-", "9", "\"", 0, 0 },
	{ "integer", "1", "0", "", 0, 0 },
	{ "small number", "3", "", "", 0, 1 },
	{ "numbers", "[1", ",1234567", "]", 0, 0 },
	{ "fractions", "[0.1", ",0.30000000000000004", ",\"a\"]", 0, 0 },
	{ "tiny fractions", "[0.1", ",4.94e-320", "]", 0, 0 },
	{ "short texts", "[\"a\"", ",\"abcd\"", ",\"b\"]", 0, 1 },
	{ "objects", "[{}", ",{\"k\":\"a\"}", "]", 0, 0 },
	{ "members", "{\"k\":1", ",\"@\":1", "}", 0, 0 },
	{ "undefined", NULL, NULL, NULL, 0, 0 },
};

enum {
	ENDS_OTHERWISE = 1, N_SHAPES = sizeof shapes / sizeof *shapes,
	LONG_KEYS = N_SHAPES, LONG_TEXTS, N_READ, SHARED = N_READ, N_OPERANDS
};

static struct qwen_text json;
static struct chat_value operand[N_OPERANDS];

static void
add_shape(const struct shape *s)
{
	const char *mark = s->each == NULL ? NULL : strchr(s->each, '@');
	size_t i, n = s->bytes > 0 ? s->bytes : strlen(s->each);

	qwen_text_str(&json, s->begin);
	for (i = 0; n > 0 && i < size / (mark != NULL ? 10 : n); i++) {
		if (mark != NULL)
			qwen_text_fmt(&json, "%.*s%zu%s",
			    (int)(mark - s->each), s->each, i, mark + 1);
		else
			qwen_text_str(&json, s->each);
	}
	qwen_text_str(&json, s->end);
}

/* Of 1 MB always: 16 that differ in the last byte, keys of an object or a list. */
static void
add_long(int keys)
{
	int i, k;

	qwen_text_str(&json, keys ? "{" : "[");
	for (i = 0; i < 16; i++) {
		qwen_text_str(&json, i > 0 ? ",\"" : "\"");
		for (k = 0; k < 1000000 / 16; k++)
			qwen_text_add(&json, "a", 1);
		qwen_text_fmt(&json, "%c\"%s", 'a' + i, keys ? ":1" : "");
	}
	qwen_text_str(&json, keys ? "}" : "]");
}

/* Few values, which written out are 2^60: each is both members of the next. */
static struct chat_value
shared(struct chat_exec *r)
{
	struct chat_value v = chat_int(1), key[2] = {
	    chat_text(chat_literal("k")), chat_text(chat_literal("l")) }, d;
	struct chat_list l;
	int i;

	for (i = 0; i < 30; i++) {
		d = qwen_chat_new_dict(r, CHAT_DICT);
		qwen_chat_dict_put(r, d.u.d, &key[0], &v);
		qwen_chat_dict_put(r, d.u.d, &key[1], &v);
		l = qwen_chat_new_list(r, 2);
		l.v[0] = l.v[1] = d;
		v = chat_list(l);
	}
	return v;
}

static void
read_operands(struct chat_exec *r, struct qwen_chat_request *q)
{
	const struct chat_value *v;
	char name[16];
	int i;

	qwen_text_str(&json, "{\"messages\":[{}]");
	for (i = 0; i < N_READ; i++) {
		if (i < N_SHAPES && shapes[i].begin == NULL)
			continue;
		qwen_text_fmt(&json, ",\"o%d\":", i);
		if (i < N_SHAPES)
			add_shape(&shapes[i]);
		else
			add_long(i == LONG_KEYS);
	}
	qwen_text_str(&json, "}");
	if (json.failed || qwen_chat_open_request(q, r, json.s, json.n, 0) < 0) {
		printf("# %s\n", r->err->msg);
		exit(1);
	}
	for (i = 0; i < N_READ; i++) {
		snprintf(name, sizeof name, "o%d", i);
		v = qwen_chat_get(r, name);
		operand[i] = v != NULL ? *v : chat_undefined("x", 1);
	}
	operand[SHARED] = shared(r);
}

static const char *
operand_name(int i)
{
	return i == LONG_KEYS ? "long keys" : i == LONG_TEXTS ? "long texts" :
	    i == SHARED ? "shared members" : shapes[i].name;
}

/* Whether y is tried with x. */
static int
is_second(int x, int y)
{
	if (!all_pairs)
		return y == x || (y == ENDS_OTHERWISE && x != SHARED);
	return y == x || y == LONG_KEYS || (y < N_SHAPES && shapes[y].y);
}

/* -------------------------------------------------------------------- trials */

static char at_work[400];
static int trials, slow;

static void
too_long(int sig)
{
	static const char no[] = "not ok - does not end: ";

	(void)sig;
	if (write(1, no, sizeof no - 1) < 0 ||
	    write(1, at_work, strlen(at_work)) < 0)
		_exit(2);
	_exit(1);
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* The time of the template with x and y; its steps. */
static double
run_once(const struct qwen_template *t, int x, int y, uint64_t steps_max,
    uint64_t *steps)
{
	struct chat_var var[2] = { { "x", operand[x] }, { "y", operand[y] } };
	struct chat_scope scope = { .var = var, .n = 2, .cap = 2 };
	struct chat_buf out = { 0 };
	struct qwen_err err = { 0 };
	struct chat_exec r = {
		.mem = { .max = CHAT_MEMORY + CHAT_MEMORY_BYTE * size },
		.steps_max = steps_max, .out = &out, .scope = &scope,
		.err = &err, .t = t,
	};
	double begin = now();

	alarm(60);
	qwen_chat_exec(&r);
	alarm(0);
	*steps = r.steps;
	qwen_chat_buf_fini(&out);
	qwen_chat_arena_fini(&r.mem);
	return now() - begin;
}

static void
try(const struct qwen_template *t, int x, int y, uint64_t steps_max)
{
	const struct timespec pause[] = { { 0, 50000000 }, { 0, 400000000 } };
	enum { TRIES = 40 };
	uint64_t steps = 0;
	double ns = 0, most = 0;
	int i;

	snprintf(at_work, sizeof at_work, "%.200s, x: %s, y: %s\n", t->source,
	    operand_name(x), operand_name(y));
	trials++;
	/* What else the machine does is not its fault: the best of some. */
	for (i = 0; i < TRIES; i++) {
		if (i >= 5)
			nanosleep(&pause[i >= 15], NULL);
		ns = run_once(t, x, y, steps_max, &steps);
		most = (double)steps * step_ns + free_ns;
		if (ns < most && ns < byte_ns * (double)size)
			break;
	}
	if (i < TRIES)
		return;
	slow++;
	printf("# %.1f ms, %.0f ns a step: %s", ns / 1e6, ns / (double)steps,
	    at_work);
}

/*
 * An example of the template language, with all operands; if "few", y is x.
 */
static void
example(int few, const char *fmt, ...)
{
	char source[400];
	struct qwen_template *t;
	struct qwen_err err;
	va_list ap;
	int x, y;

	va_start(ap, fmt);
	vsnprintf(source, sizeof source, fmt, ap);
	va_end(ap);
	if (qwen_template_open_text(&t, source, strlen(source), &err) < 0) {
		ok(0, "%s: %s", source, err.msg);
		return;
	}
	for (x = 0; x < N_OPERANDS; x++) {
		for (y = 0; y < N_OPERANDS; y++) {
			if (strchr(source, 'y') == NULL ? y == 0 :
			    few ? y == x : is_second(x, y))
				try(t, x, y, CHAT_STEPS +
				    CHAT_STEPS_BYTE * size);
		}
	}
	qwen_template_close(t);
}

/* How many were too slow since the last one. */
static void
done(const char *what)
{
	ok(slow == 0 && trials > 0, "%s: %d trials", what, trials);
	slow = trials = 0;
}

/* ------------------------------------------------------------ the language */

/* What may stand between the brackets of all that has brackets. */
static const char *const arguments[] = {
	"y", "", "y, y", "'k', 'eq', y", "indent=16, chars=y, d=y",
};

enum { N_ARGUMENTS = sizeof arguments / sizeof *arguments };

/* Calls try_name for each name of all rows of a use. */
static void
each_name(unsigned use, void (*try_name)(const char *name, const char *fmt),
    const char *fmt)
{
	const struct chat_table *t;
	const struct chat_builtin *row;
	char names[200], *name, *rest;

	for (t = qwen_chat_tables; t->rows != NULL; t++) {
		for (row = t->rows; row->name != NULL; row++) {
			if ((row->use & use) == 0)
				continue;
			snprintf(names, sizeof names, "%s", row->name);
			for (name = strtok_r(names, " ", &rest); name != NULL;
			    name = strtok_r(NULL, " ", &rest))
				try_name(name, fmt);
		}
	}
}

static void
try_row(const char *name, const char *fmt)
{
	int i;

	for (i = 0; i < N_ARGUMENTS; i++)
		example(i > 0, fmt, name, arguments[i]);
}

static void
rows(unsigned use, const char *fmt, const char *what)
{
	each_name(use, try_row, fmt);
	done(what);
}

/* Tests whose names are signs are there for select() alone. */
static void
try_test(const char *name, const char *fmt)
{
	(void)fmt;
	if (name[0] >= 'a') {
		example(0, "{%% if x is %s %%}{%% endif %%}", name);
		example(0, "{%% if x is %s(y) %%}{%% endif %%}", name);
	}
	example(1, "{%% set z = [x, y]|select('%s', y) %%}", name);
}

static void
tests(void)
{
	each_name(CHAT_AS_TEST, try_test, NULL);
	done("tests");
}

static void
operators(void)
{
	int i;

	for (i = 0; i < CHAT_N_OP; i++) {
		example(0, "{%% set z = x %s y %%}", qwen_chat_sign[i]);
		example(0, "{%% set z = 3 %s x %%}", qwen_chat_sign[i]);
	}
	done("operators");
}

static const char *const nodes[][4] = {
	[CHAT_K_CONST] = { "{{ 'a' }}" }, [CHAT_K_NAME] = { "{{ x }}" },
	[CHAT_K_LIST] = { "{{ [x, y] }}" }, [CHAT_K_TUPLE] = { "{{ (x, y) }}" },
	[CHAT_K_DICT] = { "{{ {x: y, y: x} }}", "{% set d = {x: 1, y: 2} %}" },
	[CHAT_K_ATTR] = { "{{ x.k }}", "{{ x.zz }}" },
	[CHAT_K_ITEM] = { "{{ x[y] }}", "{{ x[-1] }}", "{{ x[500000] }}",
	    "{% for k in x.keys() %}{% for i in range(3000) %}"
	    "{% set z = x[k] %}{% endfor %}{% endfor %}" },
	[CHAT_K_SLICE] = { "{{ x[9:] }}", "{{ x[:-9] }}", "{{ x[::2] }}",
	    "{{ x[-9::-1] }}" },
	[CHAT_K_CALL] = { "{{ x(y) }}" }, [CHAT_K_FILTER] = { "{{ x|safe }}" },
	[CHAT_K_TEST] = { "{{ x is none }}" }, [CHAT_K_NOT] = { "{{ not x }}" },
	[CHAT_K_NEG] = { "{{ -x }}" }, [CHAT_K_AND] = { "{{ x and y }}" },
	[CHAT_K_OR] = { "{{ x or y }}" }, [CHAT_K_BINARY] = { "{{ x + y }}" },
	[CHAT_K_COMPARE] = { "{{ x < y < x <= y }}", "{{ x == y == x }}" },
	[CHAT_K_IF_ELSE] = { "{{ x if y else x }}", "{{ x if x == y }}" },
	[CHAT_K_ARG] = { "{{ dict(a=x, b=y, c=x) }}" },
	[CHAT_K_OUTPUT] = { "{{ x }}", "{{ x }}{{ y }}" },
	[CHAT_K_FOR] = { "{% for i in x %}{{ i }}{% endfor %}",
	    "{% for i, j in x %}{% else %}{% endfor %}",
	    "{% for i in x if i == y %}{{ loop.index }}{% endfor %}",
	    "{% for i in x %}{{ loop.previtem }}{% endfor %}" },
	[CHAT_K_IF] = { "{% if x %}{{ y }}{% elif y %}{{ x }}{% endif %}" },
	[CHAT_K_SET] = { "{% set z = x %}{{ z }}", "{% set a, b, c = x %}",
	    "{% set n = namespace() %}{% set n.a = x %}{{ n.a }}" },
	[CHAT_K_SET_BLOCK] = { "{% set z %}{{ x }}{{ y }}{% endset %}{{ z }}" },
	[CHAT_K_MACRO] = { "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}"
	    "{{ m(x, b=y) }}{{ m(y) }}" },
	[CHAT_K_BREAK] = { "{% for i in x %}{% break %}{% endfor %}" },
	[CHAT_K_CONTINUE] = { "{% for i in x %}{% continue %}{% endfor %}" },
	[CHAT_K_DO] = { "{% do x %}" },
	[CHAT_K_WITH] = { "{% with z=x, q=y %}{{ z }}{{ q }}{% endwith %}" },
	[CHAT_K_FILTER_BLOCK] = { "{% filter upper|e %}{{ x }}{% endfilter %}" },
	[CHAT_K_CALL_BLOCK] = { "{% macro m(a) %}{{ caller(a) }}{% endmacro %}"
	    "{% call(b) m(x) %}{{ b }}{{ y }}{% endcall %}",
	    "{% for i in x recursive %}{{ loop(i) }}{% endfor %}",
	    "{% for i in x %}{{ loop.cycle(x, y) }}{{ loop.changed(y) }}"
	    "{% endfor %}" },
};

static void
statements(void)
{
	size_t i;
	int k;

	for (i = 0; i < CHAT_N_KIND; i++) {
		if (i >= sizeof nodes / sizeof *nodes || nodes[i][0] == NULL)
			ok(0, "kind %zu of nodes has an example", i);
		else for (k = 0; k < 4 && nodes[i][k] != NULL; k++)
			example(0, "%s", nodes[i][k]);
	}
	done("expressions and statements");
}

int
main(void)
{
	struct qwen_chat_request q = { 0 };
	struct chat_scope scope = { 0 };
	struct qwen_err err = { 0 };
	struct chat_exec r = {
		.mem = { .max = SIZE_MAX }, .steps_max = UINT64_MAX,
		.scope = &scope, .err = &err,
	};
	struct sigaction sa = { .sa_handler = too_long };
	int i;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	step_ns *= 10;
	free_ns *= 10;
	byte_ns *= 10;
#endif
	if (getenv("QPIPE_LONG") != NULL) {
		size = 1000000;
		all_pairs = 1;
	}
	sigaction(SIGALRM, &sa, NULL);
	read_operands(&r, &q);
	rows(CHAT_AS_FILTER, "{%% set z = x|%s(%s) %%}", "filters");
	for (i = 0; i < CHAT_N_TYPE; i++) {
		if (i == CHAT_TEXT || i == CHAT_DICT || i == CHAT_LIST ||
		    i == CHAT_TUPLE || i == CHAT_LOOP || i == CHAT_CYCLER)
			rows(CHAT_OF(i), "{%% set z = x.%s(%s) %%}", "methods");
	}
	rows(CHAT_AS_FUNCTION, "{%% set z = %s(%s) %%}", "functions");
	tests();
	operators();
	statements();
	qwen_chat_close_request(&q);
	qwen_chat_arena_fini(&r.mem);
	qwen_text_fini(&json);
	return done_testing();
}
