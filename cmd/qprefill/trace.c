/* SPDX-License-Identifier: ISC */
/* trace.c - what the model computes on the way, written as it comes. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "qprefill.h"

/* ------------------------------------------------------------ the command line */

/* A position; "last" is UINT64_MAX. */
static uint64_t
position(const char *what, const char *s)
{
	return strcmp(s, "last") == 0 ? UINT64_MAX :
	    (uint64_t)cli_int(what, s, 0, INT64_MAX);
}

/* "0,5,10-20,last" */
void
qprefill_trace_at(const struct cli_opt *o, const char *s)
{
	struct qprefill_trace *t = o->to;
	const char *what = cli_opt_name(o);
	struct qwen_trace_range *r;
	char word[48], *dash;
	size_t n;

	for (;; s += n + 1) {
		n = strcspn(s, ",");
		snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n :
		    (int)sizeof word - 1, s);
		cli_grow(&t->range, &t->cap_range, t->n_range + 1,
		    sizeof *t->range);
		r = &t->range[t->n_range++];
		if ((dash = strchr(word, '-')) != NULL && dash > word)
			*dash++ = '\0';
		else
			dash = word;
		r->first = position(what, word);
		r->last = position(what, dash);
		if (r->last < r->first)
			cli_usage("%s %.*s: it ends before it begins", what,
			    (int)n, s);
		if (s[n] == '\0')
			return;
	}
}

static void
split(struct qprefill_trace *t)
{
	char *s;

	t->text = cli_format("%s", t->stages);
	for (s = strtok(t->text, ","); s != NULL; s = strtok(NULL, ",")) {
		cli_grow(&t->pattern, &t->cap_pattern, t->n_pattern + 1,
		    sizeof *t->pattern);
		t->pattern[t->n_pattern++] = s;
	}
	if (t->n_pattern == 0)
		cli_usage("--trace: the names of stages, or patterns; see "
		    "gguf-inspect --graph");
}

/* The tokens that are read are begin .. end - 1. */
static void
resolve(struct qprefill_trace *t, uint64_t begin, uint64_t end)
{
	struct qwen_trace_range *r;
	size_t i;

	for (i = 0; i < t->n_range; i++) {
		r = &t->range[i];
		if (r->first == UINT64_MAX)
			r->first = end - 1;
		if (r->last == UINT64_MAX)
			r->last = end - 1;
		if (r->last >= end || r->first < begin)
			die("--trace-at %llu: the tokens that are read are %llu "
			    "to %llu", (unsigned long long)(r->last >= end ?
			    r->last : r->first), (unsigned long long)begin,
			    (unsigned long long)end - 1);
	}
}

/* ------------------------------------------------------- one stage as .npy */

static int
match(void *arg, const struct qwen_trace_stage *st)
{
	struct qprefill_trace *t = arg;
	size_t i;

	for (i = 0; i < t->n_pattern; i++) {
		if (fnmatch(t->pattern[i], st->name, 0) == 0) {
			t->stage = *st;
			t->n_stage++;
			break;
		}
	}
	return 0;
}

/* How many positions there are, and the last of them. */
static uint64_t
count(const struct qprefill_trace *t, uint64_t begin, uint64_t end,
    uint64_t *last)
{
	uint64_t pos, n = 0;
	size_t i;

	begin = begin > t->stage.first ? begin : t->stage.first;
	for (pos = begin; pos < end; pos++) {
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

/* Version 1.0: a magic, a length, and a line that ends at a multiple of 64. */
static void
npy_begin(struct qprefill_trace *t, const struct qwen_session *s,
    uint64_t begin, uint64_t end)
{
	struct qwen_text h = { 0 };
	uint64_t n, last = 0;
	size_t len;

	qwen_session_stages(s, match, t);
	if (t->n_stage > 1)
		die("-f npy has room for one stage: --trace %s is %zu",
		    t->stages, t->n_stage);
	n = count(t, begin, end, &last);
	t->width = t->stage.n > 0 ? t->stage.n : (size_t)last + 1;
	qwen_text_add(&h, "\x93NUMPY\x01\x00..", 10);
	qwen_text_fmt(&h, "{'descr': '<%s', 'fortran_order': False, 'shape': "
	    "(%llu, %zu), }", t->stage.choices ? "i4" : "f4",
	    (unsigned long long)n, t->width);
	while (h.n % 64 != 63 && !h.failed)
		qwen_text_str(&h, " ");
	qwen_text_str(&h, "\n");
	if (!h.failed) {
		len = h.n - 10;
		h.s[8] = (char)(len & 255);
		h.s[9] = (char)(len >> 8);
	}
	cli_write_all(cli_output_fd(t->to), cli_output_name(t->to), &h);
	qwen_text_fini(&h);
}

/* A row, and zeros where it is shorter than others. */
static void
npy_row(struct qprefill_trace *t, const struct qwen_trace_value *v)
{
	unsigned char b[4];
	uint32_t bits;
	size_t i;

	t->row.n = 0;
	for (i = 0; i < t->width; i++) {
		bits = 0;
		if (i < v->n)
			memcpy(&bits, v->row != NULL ? (const void *)&v->row[i]
			    : &v->choices[i], sizeof bits);
		qwen_put_le32(b, bits);
		qwen_text_add(&t->row, b, sizeof b);
	}
	cli_write_all(cli_output_fd(t->to), cli_output_name(t->to), &t->row);
}

/* ---------------------------------------------------------------- all of it */

static int
write_value(void *arg, const struct qwen_trace_value *v, struct qwen_err *err)
{
	struct qprefill_trace *t = arg;

	if (t->w == NULL)
		npy_row(t, v);
	else if (qwen_write_trace(t->w, v, err) < 0)
		cli_die_err(cli_output_name(t->to), err);
	return 0;
}

void
qprefill_trace_begin(struct qprefill_trace *t, const struct tool_intake *in,
    int format)
{
	struct qwen_model *m = qwen_session_model(in->session);
	uint64_t begin = qwen_session_n_tokens(in->session);
	struct qwen_trace trace = { .value = write_value, .arg = t };
	struct qwen_writer_opts how = { .buffered = 1 };

	if (in->n == 0)
		die("no token is read: there is nothing to trace");
	split(t);
	resolve(t, begin, begin + in->n);
	trace.patterns = (const char *const *)t->pattern;
	trace.n_patterns = t->n_pattern;
	trace.at = t->range;
	trace.n_at = t->n_range;
	if (qwen_session_trace(in->session, &trace, &cli_err) < 0) {
		if (cli_err.code == QWEN_ERANGE)
			die("--trace: %s; gguf-inspect --graph has all names",
			    cli_err.msg);
		cli_die_err("--trace", &cli_err);
	}
	t->to = cli_output_open(t->out);
	if (format == QPREFILL_NPY) {
		npy_begin(t, in->session, begin, begin + in->n);
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
	qwen_text_fini(&t->row);
	if (t->out != NULL)
		cli_output_commit(t->to);
	free(t->text);
	free(t->pattern);
	free(t->range);
}
