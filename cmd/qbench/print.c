/* SPDX-License-Identifier: ISC */
/* print.c - print rows of cells as tables, CSV and JSON. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json/json.h"
#include "qbench.h"

static const char *const parts[] = { "median", "min", "max" };

struct qbench_spread
qbench_spread_of(double *v, size_t n)
{
	qsort(v, n, sizeof *v, tool_by_value);
	return (struct qbench_spread){ (v[(n - 1) / 2] + v[n / 2]) / 2, v[0],
	    v[n - 1] };
}

void
qbench_work_of(const struct qbench_phase *p, double *bytes, double *macs)
{
	double n = (double)(p->n * p->sequences);
	size_t i;

	*bytes = *macs = 0;
	for (i = 0; i < p->n_stat; i++) {
		*bytes += (double)p->stat[i].bytes / n;
		*macs += (double)p->stat[i].macs / n;
	}
}

static int
is_known(double v)
{
	return isfinite(v) && v >= 0;
}

/* Append a number for JSON or CSV, or the word for an unknown one. */
static void
put_number(struct qwen_text *t, double v, const char *unknown)
{
	if (is_known(v))
		qwen_text_fmt(t, v == rint(v) && v < 0x1p53 ? "%.0f" : "%.9g",
		    v);
	else
		qwen_text_str(t, unknown);
}

void
qbench_json_number(struct qwen_text *t, const char *name, double v)
{
	qwen_json_put(t, ",'%s':", name);
	put_number(t, v, "null");
}

void
qbench_json_spread(struct qwen_text *t, const char *name,
    struct qbench_spread s)
{
	qwen_json_put(t, ",'%s':{", name);
	qbench_json_number(t, "median", s.median);
	qbench_json_number(t, "min", s.min);
	qbench_json_number(t, "max", s.max);
	qwen_text_str(t, "}");
}

void
qbench_json_cells(struct qwen_text *t, const struct qbench_cell *c, size_t n)
{
	for (; n > 0; c++, n--) {
		if (c->name == NULL)
			continue;
		if (c->kind == QBENCH_NUMBER)
			qbench_json_number(t, c->name, c->v.median);
		else if (c->kind == QBENCH_SPREAD)
			qbench_json_spread(t, c->name, c->v);
		else if (c->kind == QBENCH_WORD)
			qwen_json_put(t, ",'%s':'%s'", c->name, c->word);
		else
			qwen_json_put(t, ",'%s':%s", c->name,
			    c->v.median != 0 ? "true" : "false");
	}
}

/* Append a text, in quotes if a comma or a quote needs them. */
static void
csv_word(struct qwen_text *t, const char *s)
{
	const char *quote = s != NULL && strpbrk(s, ",\"\n") ? "\"" : "";

	qwen_text_str(t, quote);
	for (; s != NULL && *s != '\0'; s++)
		qwen_text_fmt(t, *s == '"' ? "\"%c" : "%c",
		    (unsigned char)*s < 0x20 ? ' ' : *s);
	qwen_text_str(t, quote);
}

/* Append part k of a cell, or its name, for CSV. */
static void
csv_part(struct qwen_text *t, const struct qbench_cell *c, int k, int is_name)
{
	const double v[] = { c->v.median, c->v.min, c->v.max };

	if (is_name)
		qwen_text_fmt(t, c->kind == QBENCH_SPREAD ? "%s_%s" : "%s",
		    c->name, parts[k]);
	else if (c->kind == QBENCH_WORD)
		csv_word(t, c->word);
	else
		put_number(t, v[k], "");
}

/* The same for a table: the heading of a spread's median is the cell's. */
static void
table_part(struct qwen_text *t, const struct qbench_cell *c, int k,
    int is_name)
{
	const double v[] = { c->v.median, c->v.min, c->v.max };

	if (is_name)
		qwen_text_fmt(t, "%*s", c->width, k == 0 ? c->head : parts[k]);
	else if (c->kind == QBENCH_WORD)
		qwen_text_fmt(t, "%*s", c->width, c->word);
	else if (c->kind == QBENCH_FLAG || !is_known(v[k]))
		qwen_text_fmt(t, "%*s", c->width, v[k] > 0 ? "yes" : "-");
	else
		qwen_text_fmt(t, "%*.*f", c->width, c->digits, v[k]);
}

static void
put_row(struct qwen_text *t, const struct qbench_cell *c, size_t n, int names)
{
	const char *between = "";
	int k;

	for (; n > 0; c++, n--) {
		if ((qbench_opt.csv ? c->name : c->head) == NULL)
			continue;
		for (k = 0; k < (c->kind == QBENCH_SPREAD ? 3 : 1); k++) {
			qwen_text_str(t, between);
			(qbench_opt.csv ? csv_part : table_part)(t, c, k,
			    names);
			between = qbench_opt.csv ? "," : " ";
		}
	}
	qwen_text_str(t, "\n");
}

void
qbench_row(struct qwen_text *t, const struct qbench_cell *c, size_t n,
    int first)
{
	static int shown;

	if (qbench_opt.csv ? !shown : first)
		put_row(t, c, n, 1);
	put_row(t, c, n, 0);
	shown = 1;
}

void
qbench_text_model(struct qwen_text *t, const struct qwen_model *m)
{
	qwen_text_fmt(t, "model    %s: %s, %s\ncpu      %s, %s",
	    qbench_model_name, qwen_model_arch(m),
	    cli_count(qwen_model_n_layer(m), "layer"), qbench_cpu_name(),
	    cli_count((uint64_t)qwen_model_n_threads(m), "thread"));
}

void
qbench_json_model(struct qwen_text *t, const struct qwen_model *m)
{
	qwen_json_put(t, ",'model':{'name':'%s','arch':'%s','n_layer':%zu}",
	    qbench_model_name, qwen_model_arch(m), qwen_model_n_layer(m));
}

void
qbench_begin(struct qwen_text *t)
{
	static int shown;

	if (shown && !qbench_opt.csv && !qbench_opt.json)
		qwen_text_str(t, "\n");
	shown = 1;
}

void
qbench_write(struct qwen_text *t)
{
	if (t->failed)
		die("out of memory");
	cli_show_text(stdout, t->s, t->n);
	qwen_text_fini(t);
	if (fflush(stdout) == EOF)
		die("stdout: %s", strerror(errno));
}

void
qbench_show_row(const struct qbench_cell *c, size_t n, int first)
{
	struct qwen_text t = { 0 };

	if (qbench_opt.json) {
		qwen_text_str(&t, "{");
		qbench_json_cells(&t, c, n);
		qwen_text_str(&t, "}\n");
	} else
		qbench_row(&t, c, n, first);
	qbench_write(&t);
}
