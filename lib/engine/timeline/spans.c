/* SPDX-License-Identifier: ISC */
/*
 * spans.c - rows of a session that are no tokens: which they are, and their
 * positions in RoPE.
 *
 * A token at position p of the text has three equal positions.  In a span that
 * has a grid and begins at p, row (y, x) has the positions (p, p + y, p + x), and
 * the token after the span has position p + max(height, width).
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/timeline.h"

const struct qwen_span *
qwen_session_spans(const struct qwen_session *s, size_t *n)
{
	for (*n = s->n_span; *n > 0 && s->span[*n - 1].start >= s->n_tokens;)
		--*n;
	return s->span;
}

int
qwen_spans_open(const struct qwen_session *s, uint64_t pos)
{
	size_t i;

	for (i = s->n_span; i-- > 0;) {
		if (s->span[i].start < pos)
			return s->span[i].start + s->span[i].n > pos;
	}
	return 0;
}

void
qwen_spans_place(const struct qwen_session *s, uint64_t pos, uint32_t out[3])
{
	uint64_t at = pos, row;
	size_t i;

	out[1] = out[2] = 0;
	for (i = 0; i < s->n_span && s->span[i].start <= pos; i++) {
		const struct qwen_span *p = &s->span[i];

		row = pos - p->start;
		if (p->width == 0)
			continue;
		if (row < p->n) {
			out[1] = (uint32_t)(row / p->width);
			out[2] = (uint32_t)(row % p->width);
			at -= row;
		} else
			at -= p->n - (p->height > p->width ? p->height :
			    p->width);
	}
	out[0] = (uint32_t)at;
	out[1] += out[0];
	out[2] += out[0];
}

int
qwen_spans_set(struct qwen_session *s, const struct qwen_span *span, size_t n)
{
	if (qwen_grow(&s->span, &s->cap_span, n, sizeof *span) < 0)
		return -1;
	if (n > 0)
		memcpy(s->span, span, n * sizeof *span);
	s->n_span = n;
	return 0;
}

/* --------------------------------------------- rows, for when a device is lost */

static void
drop_rows(struct qwen_rows *r)
{
	if (--r->refs == 0)
		free(r);
}

/* Adds rows to the list, and drops others from the same position. */
static void
add_rows(struct qwen_session *s, struct qwen_rows *r)
{
	size_t i, n = 0;

	for (i = 0; i < s->n_rows; i++) {
		if (s->rows[i]->span.start == r->span.start)
			drop_rows(s->rows[i]);
		else
			s->rows[n++] = s->rows[i];
	}
	s->n_rows = n;
	if (qwen_grow(&s->rows, &s->cap_rows, n + 1, sizeof *s->rows) < 0)
		drop_rows(r);
	else
		s->rows[s->n_rows++] = r;
}

static int
is_kept(const struct qwen_session *s, const struct qwen_span *span)
{
	size_t i;

	for (i = 0; i < s->n_rows; i++) {
		if (memcmp(&s->rows[i]->span, span, sizeof *span) == 0)
			return 1;
	}
	return 0;
}

void
qwen_spans_keep(struct qwen_session *s, const struct qwen_span_rows *spans,
    size_t n)
{
	struct qwen_rows *r;
	size_t i, bytes;

	for (i = 0; i < n; i++) {
		if (spans[i].rows == NULL || is_kept(s, &spans[i].span) ||
		    qwen_mul((size_t)spans[i].span.n,
		    qwen_net_row(&s->model->net) * sizeof(float), &bytes) < 0 ||
		    (r = qwen_alloc(1, sizeof *r + bytes)) == NULL)
			continue;
		r->refs = 1;
		r->span = spans[i].span;
		memcpy(r->v, spans[i].rows, bytes);
		add_rows(s, r);
	}
}

void
qwen_spans_copy(struct qwen_session *to, const struct qwen_session *from)
{
	size_t i;

	for (i = 0; i < from->n_rows; i++) {
		from->rows[i]->refs++;
		add_rows(to, from->rows[i]);
	}
}

void
qwen_spans_drop(struct qwen_session *s)
{
	while (s->n_rows > 0)
		drop_rows(s->rows[--s->n_rows]);
}

/* ---------------------------------------------------------- tokens to be read */

/* Checks the shape of a span that may begin at `from'. */
static int
check_shape(const struct qwen_hparams *h, const struct qwen_span *p,
    uint64_t from, struct qwen_err *err)
{
	if (p->start < from || p->n < QWEN_SPAN_MIN || p->start > h->n_ctx ||
	    p->n > h->n_ctx - p->start)
		return qwen_fail(err, QWEN_ERANGE, "a span of %llu rows at "
		    "position %llu is too short or long, or not after the one "
		    "before it", (unsigned long long)p->n,
		    (unsigned long long)p->start);
	if ((p->height != 0 || p->width != 0) &&
	    (uint64_t)p->height * p->width != p->n)
		return qwen_fail(err, QWEN_ERANGE, "a span of %llu rows has a "
		    "grid of %lu times %lu", (unsigned long long)p->n,
		    (unsigned long)p->height, (unsigned long)p->width);
	if (p->height != 0 && h->rope_section[0] == 0)
		return qwen_fail(err, QWEN_EUNSUP, "the model has no positions "
		    "for the rows of an image");
	return 0;
}

/* Checks the id of token i, at a position; p is the span there, or NULL. */
static int
check_id(const struct qwen_hparams *h, int32_t id, size_t i, uint64_t pos,
    const struct qwen_span_rows *p, struct qwen_err *err)
{
	if (p == NULL)
		return id >= 0 && (size_t)id < h->n_vocab ? 0 :
		    qwen_fail(err, QWEN_ERANGE, "token %d (number %zu) is out "
		    "of range: ids go from 0 to %zu", (int)id, i,
		    h->n_vocab - 1);
	if (id != qwen_span_id(&p->span, pos - p->span.start))
		return qwen_fail(err, QWEN_EMISMATCH, "token %d (number %zu) "
		    "is not that of the span at its position", (int)id, i);
	return p->rows != NULL ? 0 : qwen_fail(err, QWEN_EMISMATCH,
	    "the rows of the span at position %llu are missing",
	    (unsigned long long)p->span.start);
}

int
qwen_spans_check(const struct qwen_model *m, uint64_t pos,
    const int32_t *tokens, size_t n, const struct qwen_span_rows *spans,
    size_t n_spans, struct qwen_err *err)
{
	const struct qwen_hparams *h = &m->net.hp;
	uint64_t from = 0;
	size_t i, k;

	for (i = 0; i < n_spans; i++) {
		if (check_shape(h, &spans[i].span, from, err) < 0)
			return -1;
		from = spans[i].span.start + spans[i].span.n;
	}
	for (i = k = 0; i < n; i++, pos++) {
		while (k < n_spans && spans[k].span.start + spans[k].span.n <=
		    pos)
			k++;
		if (check_id(h, tokens[i], i, pos, k < n_spans &&
		    spans[k].span.start <= pos ? &spans[k] : NULL, err) < 0)
			return -1;
	}
	return 0;
}

static int
is_same(const struct qwen_span *a, const struct qwen_span *b)
{
	return a->start == b->start && a->n == b->n &&
	    a->height == b->height && a->width == b->width &&
	    memcmp(&a->hash, &b->hash, sizeof a->hash) == 0;
}

/* Checks that the spans continue those that the session has begun. */
static int
check_begun(const struct qwen_session *s, const struct qwen_span_rows *spans,
    size_t n_spans, struct qwen_err *err)
{
	size_t n, i, k = 0;
	const struct qwen_span *old = qwen_session_spans(s, &n);

	for (i = 0; i < n_spans && spans[i].span.start < s->n_tokens; i++) {
		while (k < n && old[k].start < spans[i].span.start)
			k++;
		if (k == n || !is_same(&old[k], &spans[i].span))
			return qwen_fail(err, QWEN_EMISMATCH, "the span at "
			    "position %llu is not the one that was read there",
			    (unsigned long long)spans[i].span.start);
	}
	if (qwen_spans_open(s, s->n_tokens) && (i == 0 ||
	    spans[i - 1].span.start != old[n - 1].start))
		return qwen_fail(err, QWEN_EMISMATCH, "position %llu is within "
		    "a span, which was not given",
		    (unsigned long long)s->n_tokens);
	return 0;
}

int
qwen_spans_add(struct qwen_session *s, const int32_t *tokens, size_t n,
    const struct qwen_span_rows *spans, size_t n_spans, struct qwen_err *err)
{
	size_t i;

	qwen_session_spans(s, &s->n_span);
	if (qwen_spans_check(s->model, s->n_tokens, tokens, n, spans, n_spans,
	    err) < 0 || check_begun(s, spans, n_spans, err) < 0)
		return -1;
	if (qwen_grow(&s->span, &s->cap_span, s->n_span + n_spans,
	    sizeof *s->span) < 0)
		return qwen_oom(err);
	for (i = 0; i < n_spans; i++) {
		if (spans[i].span.start >= s->n_tokens)
			s->span[s->n_span++] = spans[i].span;
	}
	return 0;
}
