/* SPDX-License-Identifier: ISC */
/*
 * trace.c - a session whose stages somebody looks at.  What a pass computes is
 * copied as it comes, stage by stage, and told at its end, position by
 * position: so it comes in the same order in any batch.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "engine/model/forward.h"
#include "engine/model/trace.h"

/* What a pass may keep, if one position does not take more. */
enum { ROOM = 64 << 20 };

/* A stage that is told of, and where its numbers are in those of a position. */
struct chosen {
	char	 name[QWEN_TRACE_NAME];
	size_t	 n;		/* 0: as many as positions up to its own */
	int	 choices;
	size_t	 first;		/* position */
	size_t	 at;		/* numbers before it, and such stages */
	size_t	 ragged;
};

struct qwen_tracing {
	struct qwen_trace	 t;		/* its patterns are not kept */
	struct qwen_trace_range	*range;
	struct chosen		*st;
	size_t			 n_st, cap_st;
	size_t			 fixed, ragged;	/* of a position */
	int			 block;		/* some are of the block that
						   predicts */
	uint32_t		*number;	/* of a stage: 1 + its place in
						   st, or 0 */
	/*
	 * Of a pass, of which the share is cut down on the way: its first
	 * position, and where the numbers of each row begin; SIZE_MAX where it
	 * is not told of.
	 */
	size_t			 pos, n;
	size_t			*start;
	size_t			 cap_start;
	float			*v;
	size_t			 cap_v;
	int			 on;
};

void
qwen_tracing_free(struct qwen_tracing *tr)
{
	if (tr == NULL)
		return;
	free(tr->range);
	free(tr->st);
	free(tr->number);
	free(tr->start);
	free(tr->v);
	free(tr);
}

/* ----------------------------------------------------------------- choosing */

struct choice {
	const struct qwen_trace	*t;
	struct qwen_tracing	*tr;
	unsigned char		*used;		/* of each pattern */
};

static int
choose(void *arg, size_t number, const struct qwen_trace_stage *stage)
{
	const struct choice *c = arg;
	struct qwen_tracing *tr = c->tr;
	struct chosen *st;
	size_t i;
	int any = 0;

	for (i = 0; i < c->t->n_patterns; i++) {
		if (fnmatch(c->t->patterns[i], stage->name, 0) == 0)
			any = c->used[i] = 1;
	}
	if (!any)
		return 0;
	if (qwen_grow(&tr->st, &tr->cap_st, tr->n_st + 1, sizeof *tr->st) < 0)
		return -1;
	st = &tr->st[tr->n_st++];
	memcpy(st->name, stage->name, sizeof st->name);
	st->n = stage->n;
	st->choices = stage->choices;
	st->first = stage->first;
	tr->block |= st->first > 0;
	st->at = tr->fixed;
	st->ragged = tr->ragged;
	tr->fixed += st->n;
	tr->ragged += st->n == 0;
	tr->number[number] = (uint32_t)tr->n_st;
	return 0;
}

static int
choose_all(struct qwen_tracing *tr, const struct qwen_session *s,
    struct qwen_err *err)
{
	const struct qwen_model *m = s->model;
	struct choice c = { &tr->t, tr, NULL };
	unsigned parts = qwen_mtp_whole(s);
	const char *but = parts != 0 || m->net.hp.n_block == m->net.hp.n_layer ? "" :
	    " without its MTP block";
	int rc = 0;
	size_t i;

	c.used = calloc(tr->t.n_patterns + 1, 1);
	if (c.used == NULL || qwen_stages(m->net.arch, &m->net.hp, parts, choose,
	    &c) < 0)
		rc = qwen_oom(err);
	for (i = 0; i < tr->t.n_patterns && rc == 0; i++) {
		if (!c.used[i])
			rc = qwen_fail(err, QWEN_ERANGE, "the model has no "
			    "stage \"%.60s\"%s", tr->t.patterns[i], but);
	}
	free(c.used);
	return rc;
}

static int
copy_ranges(struct qwen_tracing *tr, struct qwen_err *err)
{
	size_t n = tr->t.n_at;

	if (n == 0)
		return 0;
	if ((tr->range = qwen_alloc(n, sizeof *tr->range)) == NULL)
		return qwen_oom(err);
	memcpy(tr->range, tr->t.at, n * sizeof *tr->range);
	return 0;
}

int
qwen_session_trace_sized(size_t size, struct qwen_session *s,
    const struct qwen_trace *t, struct qwen_err *err)
{
	const struct qwen_model *m = s->model;
	struct qwen_tracing *tr = NULL;
	struct qwen_trace own;

	if (QWEN_SIZED(t, own, size, err) < 0)
		return -1;
	if (t != NULL) {
		if ((tr = calloc(1, sizeof *tr)) == NULL)
			return qwen_oom(err);
		tr->t = *t;
		tr->number = calloc(qwen_stage_count(&m->net.hp),
		    sizeof *tr->number);
		if (tr->number == NULL)
			qwen_oom(err);
		if (tr->number == NULL || choose_all(tr, s, err) < 0 ||
		    copy_ranges(tr, err) < 0) {
			qwen_tracing_free(tr);
			return -1;
		}
	}
	qwen_ahead_cut(s, 0);
	qwen_tracing_free(s->tracing);
	s->tracing = tr;
	return 0;
}

/* ------------------------------------------------------------------- a pass */

static int
is_told(const struct qwen_tracing *tr, uint64_t pos)
{
	size_t i;

	if (tr->n_st == 0)
		return 0;
	for (i = 0; i < tr->t.n_at; i++) {
		if (pos >= tr->range[i].first && pos <= tr->range[i].last)
			return 1;
	}
	return tr->t.n_at == 0;
}

/* Numbers of a position; contexts and layers are bounded by hparams.c. */
static size_t
numbers_of(const struct qwen_tracing *tr, size_t pos)
{
	return tr->fixed + tr->ragged * (pos + 1);
}

size_t
qwen_trace_limit(const struct qwen_session *s, size_t n)
{
	const struct qwen_tracing *tr = s->tracing;
	size_t i, pos, sum = 0;

	for (i = 0; tr != NULL && i < n; i++) {
		pos = s->n_tokens + i;
		if (!is_told(tr, pos))
			continue;
		sum += numbers_of(tr, pos);
		if (i > 0 && sum > ROOM / sizeof *tr->v)
			return i;
	}
	return n;
}

static int
begin(struct qwen_share *p)
{
	struct qwen_tracing *tr = p->s->tracing;
	size_t i, n = 0;

	tr->on = 0;
	tr->pos = p->pos;
	tr->n = p->n_sure;
	if (qwen_grow(&tr->start, &tr->cap_start, p->n_sure,
	    sizeof *tr->start) < 0)
		return qwen_oom(&p->err);
	for (i = 0; i < p->n_sure; i++) {
		tr->start[i] = SIZE_MAX;
		if (!is_told(tr, p->pos + i))
			continue;
		tr->start[i] = n;
		n += numbers_of(tr, p->pos + i);
	}
	if (n > 0 && qwen_grow(&tr->v, &tr->cap_v, n, sizeof *tr->v) < 0)
		return qwen_oom(&p->err);
	tr->on = n > 0;
	if (qwen_trace_block(p->s) && !qwen_mtp_whole(p->s))
		return qwen_fail(&p->err, QWEN_EMISMATCH, "the MTP block "
		    "cannot be traced: the session lacks the inputs of its "
		    "next rows");
	return tr->on;
}

int
qwen_trace_block(const struct qwen_session *s)
{
	const struct qwen_tracing *tr = s->tracing;

	return tr != NULL && tr->on && tr->block;
}

int
qwen_trace_begin(struct qwen_batch *b)
{
	int any = 0, rc;
	size_t i;

	for (i = 0; i < b->n_share; i++) {
		if (b->share[i].s->tracing == NULL)
			continue;
		if ((rc = begin(&b->share[i])) < 0)
			b->share[i].failed = 1;
		any |= rc > 0;
	}
	return any;
}

/* The numbers of a stage, of the i-th row of a pass. */
static float *
place(const struct qwen_tracing *tr, size_t i, const struct chosen *st)
{
	return tr->v + tr->start[i] + st->at + st->ragged * (tr->pos + i + 1);
}

float *
qwen_trace_at(const struct qwen_batch *b, size_t t, enum qwen_trace_kind kind,
    size_t layer, size_t head)
{
	const struct qwen_share *p = qwen_share_of(b, t);
	const struct qwen_tracing *tr = p->s->tracing;
	size_t i = p->told + t - p->first;
	uint32_t at;

	if (!b->trace || tr == NULL || !tr->on || p->failed ||
	    i >= tr->n || tr->start[i] == SIZE_MAX)
		return NULL;
	at = tr->number[qwen_stage_number(b->hp, kind, layer, head)];
	return at > 0 ? place(tr, i, &tr->st[at - 1]) : NULL;
}

/* How many numbers a row of such a stage has. */
static size_t
width_of(const struct qwen_batch *b, size_t t, enum qwen_trace_kind kind,
    size_t layer)
{
	const struct qwen_tracing *tr = qwen_share_of(b, t)->s->tracing;

	return tr->st[tr->number[qwen_stage_number(b->hp, kind, layer, 0)] -
	    1].n;
}

void
qwen_trace_rows(const struct qwen_batch *b, enum qwen_trace_kind kind,
    size_t layer, const void *x, size_t stride)
{
	const float *from = x;
	float *to;
	size_t t;

	for (t = 0; t < b->n; t++, from += stride) {
		if ((to = qwen_trace_at(b, t, kind, layer, 0)) != NULL)
			memcpy(to, from, width_of(b, t, kind, layer) *
			    sizeof *to);
	}
}

void
qwen_trace_logits(struct qwen_batch *b, const struct qwen_weight *w,
    enum qwen_trace_kind kind, size_t layer)
{
	struct qwen_scratch *s = b->b;
	const struct qwen_linear head = { w, NULL, 0, s->yrow };
	size_t t, n = 0;

	for (t = 0; t < b->n; t++) {
		s->yrow[n] = qwen_trace_at(b, t, kind, layer, 0);
		if (s->yrow[n] != NULL)
			s->wanted[n++] = (uint32_t)t;
	}
	if (n > 0)
		qwen_linears(b, &head, 1, s->xn, b->hp->n_embd, s->xq,
		    s->wanted, n);
}

/* All stages of one position. */
static int
tell(struct qwen_share *p, size_t i)
{
	const struct qwen_tracing *tr = p->s->tracing;
	struct qwen_trace_value v = { .position = tr->pos + i,
	    .token = p->tokens[i] };
	const struct chosen *st;
	const float *row;
	size_t k;

	for (k = 0; k < tr->n_st; k++) {
		st = &tr->st[k];
		if (v.position < st->first)
			continue;
		row = place(tr, i, st);
		v.stage = st->name;
		v.n = st->n > 0 ? st->n : tr->pos + i + 1;
		v.row = st->choices ? NULL : row;
		v.choices = st->choices ? (const int32_t *)(const void *)row :
		    NULL;
		if (tr->t.value(tr->t.arg, &v, &p->err))
			return -1;
	}
	return 0;
}

void
qwen_trace_end(struct qwen_share *p)
{
	struct qwen_tracing *tr = p->s->tracing;
	size_t i;

	if (tr == NULL || !tr->on)
		return;
	tr->on = 0;
	for (i = 0; i < tr->n && !p->failed; i++) {
		if (tr->start[i] != SIZE_MAX)
			p->failed = tell(p, i) < 0;
	}
}
