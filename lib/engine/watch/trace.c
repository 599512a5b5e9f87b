/* SPDX-License-Identifier: ISC */
/*
 * trace.c - a traced session. The numbers of each stage are copied as they are
 * computed, and reported at the end of the pass, position by position: so they
 * come in the same order in any batch.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/watch/trace.h"

/* Bytes of traced numbers in a pass; one position may take more. */
enum { ROOM = 64 << 20 };

/* A traced stage, and where its numbers are among those of a position. */
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
choose_all(struct qwen_tracing *tr, const struct qwen_net *net,
    unsigned parts, struct qwen_err *err)
{
	struct choice c = { &tr->t, tr, NULL };
	const char *but = parts != 0 || net->hp.n_block == net->hp.n_layer ?
	    "" : " without its MTP block";
	int rc = 0;
	size_t i;

	c.used = calloc(tr->t.n_patterns + 1, 1);
	if (c.used == NULL || qwen_stages(net->arch, &net->hp, parts, choose,
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
qwen_tracing_new(struct qwen_tracing **out, const struct qwen_net *net,
    unsigned mtp_parts, const struct qwen_trace *t, struct qwen_err *err)
{
	struct qwen_tracing *tr = calloc(1, sizeof *tr);

	*out = NULL;
	if (tr == NULL)
		return qwen_oom(err);
	tr->t = *t;
	tr->number = calloc(qwen_stage_count(&net->hp), sizeof *tr->number);
	if (tr->number == NULL)
		qwen_oom(err);
	if (tr->number == NULL || choose_all(tr, net, mtp_parts, err) < 0 ||
	    copy_ranges(tr, err) < 0) {
		qwen_tracing_free(tr);
		return -1;
	}
	*out = tr;
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
qwen_trace_limit(const struct qwen_tracing *tr, size_t pos, size_t n)
{
	size_t i, sum = 0;

	for (i = 0; tr != NULL && i < n; i++, pos++) {
		if (!is_told(tr, pos))
			continue;
		sum += numbers_of(tr, pos);
		if (i > 0 && sum > ROOM / sizeof *tr->v)
			return i;
	}
	return n;
}

int
qwen_trace_begin(struct qwen_tracing *tr, size_t pos, size_t n_rows,
    struct qwen_err *err)
{
	size_t i, n = 0;

	tr->on = 0;
	tr->pos = pos;
	tr->n = n_rows;
	if (qwen_grow(&tr->start, &tr->cap_start, n_rows,
	    sizeof *tr->start) < 0)
		return qwen_oom(err);
	for (i = 0; i < n_rows; i++) {
		tr->start[i] = SIZE_MAX;
		if (!is_told(tr, pos + i))
			continue;
		tr->start[i] = n;
		n += numbers_of(tr, pos + i);
	}
	if (n > 0 && qwen_grow(&tr->v, &tr->cap_v, n, sizeof *tr->v) < 0)
		return qwen_oom(err);
	tr->on = n > 0;
	return tr->on;
}

int
qwen_trace_block(const struct qwen_tracing *tr)
{
	return tr != NULL && tr->on && tr->block;
}

/* Returns the memory of a stage, for row i of the pass. */
static float *
place(const struct qwen_tracing *tr, size_t i, const struct chosen *st)
{
	return tr->v + tr->start[i] + st->at + st->ragged * (tr->pos + i + 1);
}

/*
 * Returns the traced stage in row t; NULL if it is not traced. Sets *i to the
 * index of the row in the trace.
 */
static const struct chosen *
find(const struct qwen_pass *p, const struct qwen_hparams *h, size_t t,
    enum qwen_trace_kind kind, size_t layer, size_t head, size_t *i)
{
	const struct qwen_share *s = &p->share[p->owner[t]];
	const struct qwen_tracing *tr = s->tracing;
	uint32_t at;

	*i = s->told + t - s->first;
	if (tr == NULL || !tr->on || *i >= tr->n || tr->start[*i] == SIZE_MAX)
		return NULL;
	at = tr->number[qwen_stage_number(h, kind, layer, head)];
	return at > 0 ? &tr->st[at - 1] : NULL;
}

float *
qwen_trace_at(const struct qwen_pass *p, const struct qwen_hparams *h, size_t t,
    enum qwen_trace_kind kind, size_t layer, size_t head)
{
	size_t i;
	const struct chosen *st = find(p, h, t, kind, layer, head, &i);

	return st != NULL ? place(p->share[p->owner[t]].tracing, i, st) : NULL;
}

/*
 * Records a row of an expert, at the expert's place among those of the token.
 */
static void
see_expert(const struct qwen_pass *p, const struct qwen_hparams *h,
    const struct qwen_seen *s, size_t slot, const float *x)
{
	size_t t = slot / s->used, k = slot % s->used;
	int routed = k < h->n_expert_used;
	size_t n = routed ? h->n_ff_exp : h->n_ff_shexp;
	float *to = qwen_trace_at(p, h, t, routed ? s->kind :
	    (enum qwen_trace_kind)(s->kind + QWEN_TRACE_SHARED_GATE -
	    QWEN_TRACE_EXPERTS_GATE), s->layer, 0);

	if (to != NULL)
		memcpy(to + (routed ? k * n : 0), x, n * sizeof *x);
}

void
qwen_trace_see(const struct qwen_pass *p, const struct qwen_hparams *h,
    const struct qwen_seen *s)
{
	const float *x = s->x;
	const struct chosen *st;
	size_t i, k, row;
	float *to;

	for (i = 0; i < s->n; i++, x += s->stride) {
		if (s->used > 0) {
			see_expert(p, h, s, s->at[i], x);
			continue;
		}
		st = find(p, h, s->t + i, s->kind, s->layer, 0, &row);
		if (st == NULL)
			continue;
		to = place(p->share[p->owner[s->t + i]].tracing, row, st);
		for (k = 0; k < s->pieces; k++)
			memcpy(to + k * s->width, x + k * s->step,
			    s->width * sizeof *x);
		if (s->pieces == 0)
			memcpy(to, x, st->n * sizeof *x);
	}
}

size_t
qwen_trace_logits(const struct qwen_pass *p, const struct qwen_hparams *h,
    enum qwen_trace_kind kind, size_t layer, uint32_t *at, float **y)
{
	size_t t, n = 0;

	for (t = 0; t < p->n; t++) {
		y[n] = qwen_trace_at(p, h, t, kind, layer, 0);
		if (y[n] != NULL)
			at[n++] = (uint32_t)t;
	}
	return n;
}

/* Reports all stages of one position. */
static int
tell(const struct qwen_tracing *tr, const int32_t *tokens, size_t i,
    struct qwen_err *err)
{
	struct qwen_trace_value v = { .position = tr->pos + i,
	    .token = tokens[i] };
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
		if (tr->t.value(tr->t.arg, &v, err))
			return -1;
	}
	return 0;
}

int
qwen_trace_end(struct qwen_tracing *tr, const int32_t *tokens, int failed,
    struct qwen_err *err)
{
	size_t i;

	if (tr == NULL || !tr->on)
		return 0;
	tr->on = 0;
	for (i = 0; i < tr->n && !failed; i++) {
		if (tr->start[i] != SIZE_MAX && tell(tr, tokens, i, err) < 0)
			return -1;
	}
	return 0;
}
