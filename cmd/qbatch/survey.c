/* SPDX-License-Identifier: ISC */
/*
 * survey.c - compare an input with existing results: which lines have a result,
 * and whether the result answers the line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "qbatch.h"

enum { RANGES_SHOWN = 12 };

/* ------------------------------------------------------------------- ranges */

/* Add the last range to the text: "21" or "25-30". */
static void
put_range(struct qbatch_ranges *r)
{
	if (r->to == 0 || r->n_shown++ >= RANGES_SHOWN)
		return;
	qwen_text_fmt(&r->text, "%s%llu", r->n_shown > 1 ? ", " : "",
	    cli_llu(r->from));
	if (r->to > r->from)
		qwen_text_fmt(&r->text, "%s%llu", r->to == r->from + 1 ?
		    ", " : "-", cli_llu(r->to));
}

void
qbatch_ranges_add(struct qbatch_ranges *r, uint64_t from, uint64_t to)
{
	r->n += to - from + 1;
	if (r->to != 0 && from == r->to + 1) {
		r->to = to;
		return;
	}
	put_range(r);
	r->from = from;
	r->to = to;
}

const char *
qbatch_ranges_text(struct qbatch_ranges *r)
{
	put_range(r);
	r->to = 0;
	if (r->n_shown > RANGES_SHOWN)
		qwen_text_str(&r->text, " ...");
	qwen_text_str(&r->text, "");
	if (r->text.failed)
		die("out of memory");
	return r->text.n == 0 ? "" : r->text.s;
}

/* ------------------------------------------------------------------- hashes */

uint64_t
qbatch_hash_text(const char *s)
{
	return s == NULL ? 0 : XXH3_64bits(s, strlen(s));
}

/* White space between JSON values does not change a request. */
uint64_t
qbatch_hash_line(const struct tool_line *line)
{
	static char *buf;
	static size_t cap;
	size_t i, n = 0;
	int in_text = 0;
	char c;

	if (line->s == NULL)
		return 0;
	cli_grow(&buf, &cap, line->n + 1, 1);
	for (i = 0; i < line->n; i++) {
		c = line->s[i];
		if (!in_text && (c == ' ' || c == '\t' || c == '\r'))
			continue;
		buf[n++] = c;
		if (in_text && c == '\\' && i + 1 < line->n)
			buf[n++] = line->s[++i];
		else if (c == '"')
			in_text = !in_text;
	}
	return XXH3_64bits(buf, n);
}

/* ------------------------------------------------------------------- survey */

int
qbatch_index_answers(const struct qbatch_index_entry *p,
    const struct tool_line *line)
{
	enum qwen_line_kind kind;
	uint64_t hash;
	char *id;

	if (p->failed)		/* a failed request may be corrected before a
				   retry */
		return 1;
	if (p->request != 0)
		return p->request == qbatch_hash_line(line);
	cli_must(NULL, qwen_request_line_id(line->s, line->n, &id, &kind,
	    &cli_err));
	hash = qbatch_hash_text(id);
	free(id);
	return hash == p->id;
}

static void
survey_line(struct qbatch_survey *s, const struct qbatch_index_entry *p,
    const struct tool_line *line, uint64_t number)
{
	enum qwen_line_kind kind;
	char *id;

	if (tool_line_is_blank(line)) {
		if (p != NULL)
			qbatch_ranges_add(&s->other, number, number);
		return;
	}
	if (s->kind == QWEN_LINE_BAD) {
		cli_must(NULL, qwen_request_line_id(line->s, line->n, &id,
		    &kind, &cli_err));
		s->kind = kind;
		free(id);
	}
	s->n++;
	if (p == NULL)
		qbatch_ranges_add(&s->lacking, number, number);
	else if (!qbatch_index_answers(p, line))
		qbatch_ranges_add(&s->other, number, number);
}

void
qbatch_survey(struct qbatch_survey *s, const struct qbatch_index *ix,
    const struct tool_lines *in)
{
	struct tool_lines l = { .fd = in->fd, .name = in->name,
	    .max = in->max };
	off_t start = lseek(l.fd, 0, SEEK_CUR);
	const struct qbatch_index_entry *p;
	struct tool_line line;
	size_t at = 0;

	if (start == -1 && errno != ESPIPE)
		die("%s: %s", in->name, strerror(errno));
	while ((ix != NULL || s->kind == QWEN_LINE_BAD) &&
	    tool_lines_next(&l, &line)) {
		tool_lines_check(&l, &line, "requests");
		p = ix != NULL && at < ix->n &&
		    ix->entry[at].number == l.line ? &ix->entry[at++] : NULL;
		survey_line(s, p, &line, l.line);
	}
	s->n_beyond = ix != NULL ? ix->n - at : 0;
	s->beyond = s->n_beyond > 0 ? ix->entry[at].number : 0;
	tool_lines_fini(&l);
	/* go back, to read the requests again */
	if (start != -1 && lseek(l.fd, start, SEEK_SET) == -1)
		die("%s: %s", in->name, strerror(errno));
}

void
qbatch_survey_check(struct qbatch_survey *s, const char *results,
    const char *input, int mixed, const char *way_on)
{
	if (s->n_beyond > 0)
		die("%s: %s without a line of %s, the first of line %llu: they "
		    "are of another input", results, cli_count(s->n_beyond,
		    "result"), input, cli_llu(s->beyond));
	if (s->other.n > 0 && !mixed)
		die("%s: %s of %s changed since %s answered: %s; %s", results,
		    cli_count(s->other.n, "line"), input, s->other.n == 1 ?
		    "it was" : "they were", qbatch_ranges_text(&s->other),
		    way_on);
}

void
qbatch_survey_fini(struct qbatch_survey *s)
{
	qwen_text_fini(&s->lacking.text);
	qwen_text_fini(&s->other.text);
}
