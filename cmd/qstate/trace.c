/* SPDX-License-Identifier: ISC */
/* trace.c - show and compare traces of qprefill --trace. */
#include <sys/stat.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qstate.h"

/* ----------------------------------------------------------------- reading */

int
qstate_trace_open(struct qstate_trace *t, const char *operand)
{
	const struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TRACE };
	const char *path = qstate_file(operand, &t->name);
	struct stat st;

	if ((t->fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return 0;	/* qstate_open() reports the error */
	cli_must(t->name, qwen_reader_open(&t->r, t->fd, &o, &cli_err));
	cli_err.code = 0;
	if (qwen_reader_next(t->r, &t->rec, &cli_err) == 1 &&
	    t->rec.kind == QWEN_REC_HEADER) {
		t->header = *t->rec.header;
		return 1;
	}
	if (cli_err.code == QWEN_ENOMEM)
		cli_die_err(t->name, &cli_err);
	if (fstat(t->fd, &st) == 0 && S_ISFIFO(st.st_mode))
		die("%s: a state must be in a regular file", t->name);
	qstate_trace_close(t);
	return 0;
}

void
qstate_trace_close(struct qstate_trace *t)
{
	qwen_reader_close(t->r);
	close(t->fd);
}

/* Read the next value: 1, or 0 at the end.  Later headers repeat the first. */
static int
next_value(struct qstate_trace *t)
{
	do
		t->more = cli_must(t->name, qwen_reader_next(t->r, &t->rec,
		    &cli_err));
	while (t->more && t->rec.kind == QWEN_REC_HEADER);
	return t->more;
}

/* --------------------------------------------------------------- the stages */

/* more than any model has; limits the linear search */
enum { STAGES_MAX = 1 << 16 };

/*
 * How two rows of n numbers differ: largest difference, and the sums of squares
 * of the difference, of a, of b, and of the products.
 */
struct row_distance {
	double	 max, diff2, a2, b2, ab, n;
};

/* Totals of a stage; in a comparison, over both sides. */
struct stage {
	char	 name[QWEN_TRACE_NAME];
	int	 choices;
	size_t	 n;		/* numbers per position, at most */
	uint64_t count;		/* positions */
	uint64_t n_differ;	/* positions that differ */
	double	 numbers, sum, squares, low, high;
	struct row_distance d;
};

struct stages {
	struct stage	*v;
	size_t		 n, cap, at;	/* at: the stage after the last one
					   found */
};

/*
 * Find or add a stage.  All positions have the same stages in the same order,
 * so the search begins after the last one found.
 */
static struct stage *
find_stage(struct stages *s, const struct qwen_trace_value *v)
{
	struct stage *st;
	size_t i;

	for (i = 0; i < s->n; i++) {
		st = &s->v[(s->at + i) % s->n];
		if (strcmp(st->name, v->stage) == 0) {
			s->at = (size_t)(st - s->v) + 1;
			return st;
		}
	}
	if (s->n == STAGES_MAX)
		die("a trace of more than %d stages", STAGES_MAX);
	cli_grow(&s->v, &s->cap, s->n + 1, sizeof *s->v);
	st = &s->v[s->n++];
	memset(st, 0, sizeof *st);
	snprintf(st->name, sizeof st->name, "%s", v->stage);
	st->choices = v->choices != NULL;
	s->at = s->n;
	return st;
}

/* -------------------------------------------------------------------- show */

static void
add_value(struct stage *st, const struct qwen_trace_value *v)
{
	double x;
	size_t i;

	st->count++;
	st->n = v->n > st->n ? v->n : st->n;
	for (i = 0; i < v->n; i++) {
		x = v->row != NULL ? (double)v->row[i] : v->choices[i];
		if (st->numbers++ == 0)
			st->low = st->high = x;
		st->low = x < st->low ? x : st->low;
		st->high = x > st->high ? x : st->high;
		st->sum += x;
		st->squares += x * x;
	}
}

static void
show_stage(const struct stage *st)
{
	qstate_begin(NULL, "stage");
	qstate_word("stage", st->name);
	qstate_word("type", st->choices ? "i32" : "f32");
	qstate_uint("n", st->n);
	qstate_uint("positions", st->count);
	qstate_real("min", st->low);
	qstate_real("max", st->high);
	if (!st->choices) {
		qstate_real("mean", st->sum / st->numbers);
		qstate_real("rms", sqrt(st->squares / st->numbers));
	}
	qstate_end();
}

void
qstate_trace_show(struct qstate_trace *t)
{
	struct stages s = { 0 };
	size_t i;

	while (next_value(t))
		add_value(find_stage(&s, &t->rec.trace), &t->rec.trace);
	qstate_open_json(NULL, '{');
	qstate_word("trace", t->name);
	qstate_header(&t->header);
	qstate_open_json("stages", '[');
	for (i = 0; i < s.n; i++)
		show_stage(&s.v[i]);
	qstate_close_json(']');
	qstate_close_json(0);
	free(s.v);
}

/* -------------------------------------------------------------------- diff */

static void
compare_rows(struct row_distance *d, const float *a, const float *b, size_t n)
{
	double x, y, e;
	size_t i;

	for (i = 0; i < n; i++) {
		x = (double)a[i];
		y = (double)b[i];
		e = fabs(x - y);
		/* NaN stays NaN */
		d->max = e > d->max || e != e ? e : d->max;
		d->diff2 += e * e;
		d->a2 += x * x;
		d->b2 += y * y;
		d->ab += x * y;
	}
}

/*
 * Count the expert numbers of a that b lacks, in any order.  The sums are those
 * of vectors with ones at these numbers.
 */
static void
compare_choices(struct row_distance *d, const int32_t *a, const int32_t *b,
    size_t n)
{
	size_t i, k;

	for (i = 0; i < n; i++) {
		for (k = 0; k < n && b[k] != a[i]; k++)
			;
		d->max += k == n;
	}
	d->diff2 = d->max;
	d->a2 = d->b2 = (double)n;
	d->ab = (double)n - d->max;
}

static double
relative(const struct row_distance *d)
{
	return d->diff2 == 0 ? 0 : sqrt(d->diff2 / d->a2);
}

static double
cosine(const struct row_distance *d)
{
	return d->diff2 == 0 ? 1 : d->ab / sqrt(d->a2 * d->b2);
}

/*
 * Return 1 if two values of the same kind and length differ by more than
 * --within.
 */
static int
rows_differ(struct row_distance *d, const struct qwen_trace_value *a,
    const struct qwen_trace_value *b)
{
	memset(d, 0, sizeof *d);
	d->n = (double)a->n;
	if (a->row != NULL)
		compare_rows(d, a->row, b->row, a->n);
	else
		compare_choices(d, a->choices, b->choices, a->n);
	if (qstate_opt.within > 0)
		return !(relative(d) <= qstate_opt.within);
	return memcmp(a->row != NULL ? (const void *)a->row : a->choices,
	    b->row != NULL ? (const void *)b->row : b->choices,
	    a->n * sizeof *a->row) != 0;
}

static void
put_distance(const struct row_distance *d)
{
	qstate_real("max", d->max);
	qstate_real("rms", sqrt(d->diff2 / d->n));
	qstate_real("relative", relative(d));
	qstate_real("cosine", cosine(d));
	qstate_end();
}

/* Begin the line of a difference at a value. */
static void
put_value(const char *what, const char *side, const struct qwen_trace_value *v)
{
	qstate_begin("what", what);
	if (side != NULL)
		qstate_word("side", side);
	qstate_word("stage", v->stage);
	qstate_uint("position", v->position);
	qstate_int("token", v->token);
}

/* Add the differences of one position to the totals of a stage. */
static void
sum_up(struct stage *st, const struct row_distance *d, int differs)
{
	struct row_distance *sum = &st->d;

	st->count++;
	st->n_differ += (uint64_t)differs;
	sum->n += d->n;
	sum->max = d->max > sum->max || d->max != d->max ? d->max : sum->max;
	sum->diff2 += d->diff2;
	sum->a2 += d->a2;
	sum->b2 += d->b2;
	sum->ab += d->ab;
}

static void
put_sums(const struct stages *s)
{
	const struct stage *st;
	size_t i;

	for (i = 0; i < s->n; i++) {
		st = &s->v[i];
		qstate_begin(NULL, "stage");
		qstate_word("stage", st->name);
		qstate_uint("positions", st->count);
		qstate_uint("parted", st->n_differ);
		put_distance(&st->d);
	}
}

/*
 * Print a difference that is not one of numbers: where it is, and on which
 * side.  The traces cannot be compared from there on.
 */
static void
put_other(const char *what, const struct qstate_trace *t, const char *side)
{
	put_value(what, side, &t->rec.trace);
	qstate_uint("n", t->rec.trace.n);
	qstate_end();
}

/*
 * Return 1 if the next values of both traces belong together; if not, print
 * why.
 */
static int
same_value_next(const struct qstate_trace *a, const struct qstate_trace *b)
{
	const struct qwen_trace_value *x = &a->rec.trace, *y = &b->rec.trace;
	int first;

	if (a->more && b->more && strcmp(x->stage, y->stage) == 0 &&
	    x->position == y->position) {
		if (x->token == y->token && x->n == y->n &&
		    (x->row != NULL) == (y->row != NULL))
			return 1;
		put_other(x->token != y->token ? "token" : "size", a, "a");
		return 0;
	}
	first = !b->more || (a->more && x->position <= y->position);
	put_other("only", first ? a : b, first ? "a" : "b");
	return 0;
}

/* Compare the traces: return 1 if anything differs, else 0. */
static int
compare(struct qstate_trace *a, struct qstate_trace *b, struct stages *s)
{
	int any = 0, differs;
	struct row_distance d;

	for (;;) {
		next_value(a);
		next_value(b);
		if (!a->more && !b->more)
			return any;
		if (!same_value_next(a, b))
			return 1;
		differs = rows_differ(&d, &a->rec.trace, &b->rec.trace);
		if (differs && !any) {
			put_value("first", NULL, &a->rec.trace);
			put_distance(&d);
		}
		any |= differs;
		if (qstate_opt.all)
			sum_up(find_stage(s, &a->rec.trace), &d, differs);
		else if (any)
			return 1;
	}
}

int
qstate_trace_diff(struct qstate_trace t[2])
{
	struct stages s = { 0 };
	int differ;

	qstate_diff_begin(t[0].name, t[1].name);
	differ = compare(&t[0], &t[1], &s);
	qstate_close_json(']');
	qstate_open_json("stages", '[');
	if (qstate_opt.all)
		put_sums(&s);
	qstate_close_json(']');
	qstate_diff_end(differ);
	free(s.v);
	return differ;
}
