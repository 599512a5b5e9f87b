/* SPDX-License-Identifier: ISC */
/* trace.c - write intermediate values of the forward pass while it runs. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "qprefill.h"

/* --------------------------------------------------------- the command line */

/* Parse a position; "last" becomes UINT64_MAX. */
static uint64_t
position(const char *what, const char *s)
{
	return strcmp(s, "last") == 0 ? UINT64_MAX :
	    (uint64_t)cli_int(what, s, 0, INT64_MAX);
}

/* Parse a list like "0,5,10-20,last". */
void
qprefill_trace_at(const struct cli_opt *o, const char *s)
{
	struct qprefill_trace *t = o->to;
	const char *what = cli_opt_name(o);
	struct qwen_trace_range *r;
	char word[48], *dash;

	while (cli_next_word(&s, word, sizeof word)) {
		cli_grow(&t->range, &t->cap_range, t->n_range + 1,
		    sizeof *t->range);
		r = &t->range[t->n_range++];
		if ((dash = strchr(word, '-')) != NULL && dash > word)
			*dash = '\0';
		else
			dash = NULL;
		r->first = position(what, word);
		r->last = dash != NULL ? position(what, dash + 1) : r->first;
		if (r->last < r->first)
			cli_usage("%s %s-%s: the range ends before it begins",
			    what, word, dash + 1);
	}
}

static void
split_stages(struct qprefill_trace *t)
{
	char *s;

	t->text = cli_format("%s", t->stages);
	for (s = strtok(t->text, ","); s != NULL; s = strtok(NULL, ",")) {
		cli_grow(&t->pattern, &t->cap_pattern, t->n_pattern + 1,
		    sizeof *t->pattern);
		t->pattern[t->n_pattern++] = s;
	}
	if (t->n_pattern == 0)
		cli_usage("--trace: no stage given; gguf-inspect --graph lists "
		    "them");
}

/* Replace "last" by the last position; die if a position is not read. */
static void
resolve_positions(struct qprefill_trace *t)
{
	uint64_t begin = t->begin, end = t->end;
	struct qwen_trace_range *r;
	size_t i;

	for (i = 0; i < t->n_range; i++) {
		r = &t->range[i];
		if (r->first == UINT64_MAX)
			r->first = end - 1;
		if (r->last == UINT64_MAX)
			r->last = end - 1;
		if (r->last >= end || r->first < begin)
			die("--trace-at %llu: the tokens read are %llu to %llu",
			    cli_llu(r->last >= end ?
			    r->last : r->first), cli_llu(begin),
			    cli_llu(end) - 1);
	}
}

/* ------------------------------------------------------------- NumPy arrays */

/*
 * Return the number of traced positions from first on; set *last to the last
 * one.
 */
static uint64_t
count(const struct qprefill_trace *t, uint64_t first, uint64_t *last)
{
	uint64_t pos, n = 0;
	size_t i;

	for (pos = first > t->begin ? first : t->begin; pos < t->end; pos++) {
		for (i = 0; i < t->n_range; i++) {
			if (pos >= t->range[i].first && pos <= t->range[i].last)
				break;
		}
		if (i == t->n_range && t->n_range > 0)
			continue;
		*last = pos;
		n++;
	}
	return n;
}

/*
 * Called for each stage of the session: add an array if the stage is requested.
 */
static int
add_stage(void *arg, const struct qwen_trace_stage *st)
{
	struct qprefill_trace *t = arg;
	struct qprefill_array *a = &t->array;
	uint64_t last = 0;
	size_t i;

	for (i = 0; i < t->n_pattern; i++) {
		if (fnmatch(t->pattern[i], st->name, 0) == 0)
			break;
	}
	if (i == t->n_pattern)
		return 0;
	t->n_stage++;
	a->integers = st->choices;
	a->n_rows = count(t, st->first, &last);
	a->width = st->n > 0 ? st->n : (size_t)last + 1;
	if (t->npz != NULL)
		qprefill_npz_add(t->npz, st->name, a);
	return 0;
}

static void
arrays_begin(struct qprefill_trace *t, const struct qwen_session *s,
    int format)
{
	const char *name = cli_output_name(t->to);

	if (format == QPREFILL_NPZ)
		t->npz = qprefill_npz_new(cli_output_fd(t->to), name);
	qwen_session_stages(s, add_stage, t);
	if (t->npz != NULL)
		return;
	if (t->n_stage > 1)
		die("-f npy holds only one stage, --trace %s matches %zu: use "
		    "-f npz", t->stages, t->n_stage);
	qprefill_npy_header(&t->row, &t->array);
	cli_write_all(cli_output_fd(t->to), name, &t->row);
}

/* -------------------------------------------------------------- all formats */

static int
write_value(void *arg, const struct qwen_trace_value *v, struct qwen_err *err)
{
	struct qprefill_trace *t = arg;
	const void *row = v->row != NULL ? (const void *)v->row : v->choices;

	if (t->w != NULL) {
		if (qwen_write_trace(t->w, v, err) < 0)
			cli_die_err(cli_output_name(t->to), err);
	} else if (t->npz != NULL)
		qprefill_npz_row(t->npz, v->stage, row, v->n);
	else {
		t->row.n = 0;
		qprefill_npy_row(&t->row, &t->array, row, v->n);
		cli_write_all(cli_output_fd(t->to), cli_output_name(t->to),
		    &t->row);
	}
	return 0;
}

void
qprefill_trace_begin(struct qprefill_trace *t, const struct tool_intake *in,
    int format)
{
	struct qwen_model *m = qwen_session_model(in->session);
	struct qwen_trace trace = { .value = write_value, .arg = t };
	struct qwen_writer_opts how = { .buffered = 1 };

	if (in->n == 0)
		die("no token is read: nothing to trace");
	t->begin = qwen_session_n_tokens(in->session);
	t->end = t->begin + in->n;
	split_stages(t);
	resolve_positions(t);
	trace.patterns = (const char *const *)t->pattern;
	trace.n_patterns = t->n_pattern;
	trace.at = t->range;
	trace.n_at = t->n_range;
	if (qwen_session_trace(in->session, &trace, &cli_err) < 0) {
		if (cli_err.code == QWEN_ERANGE)
			die("--trace: %s; gguf-inspect --graph lists all "
			    "stages", cli_err.msg);
		cli_die_err("--trace", &cli_err);
	}
	t->to = cli_output_open(t->out);
	if (format == QPREFILL_NPY || format == QPREFILL_NPZ) {
		arrays_begin(t, in->session, format);
		return;
	}
	how.format = (enum qwen_format)format;
	cli_must(NULL, qwen_writer_open(&t->w, cli_output_fd(t->to), &how,
	    &cli_err));
	tool_write_header(t->w, QWEN_STREAM_TRACE, m);
}

void
qprefill_trace_end(struct qprefill_trace *t, struct qwen_session *s)
{
	cli_must(NULL, qwen_session_trace(s, NULL, &cli_err));
	cli_must(cli_output_name(t->to), qwen_writer_close(t->w, &cli_err));
	if (t->npz != NULL)
		qprefill_npz_end(t->npz);
	qwen_text_fini(&t->row);
	if (t->out != NULL)
		cli_output_commit(t->to);
}
