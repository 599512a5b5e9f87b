/* SPDX-License-Identifier: ISC */
/*
 * deltanet.c - gated DeltaNet (Yang et al. 2024), as Qwen3-Next and Qwen3.5
 * use it: short convolution, l2-normed q and k, the gated delta rule, and a
 * gated norm.
 *
 * Value head h uses key head h mod n_head_k, or in qwen3next files, where those
 * of a key head are together, h / (n_head_v / n_head_k).
 */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "engine/quant/math.h"
#include "engine/model/forward.h"
#include "engine/model/trace.h"

struct pass {
	struct qwen_batch	*b;
	const struct qwen_layer	*l;
	struct qwen_delta_row	 row;
	size_t			 nc;	/* channels of the convolution */
	size_t			 per_share;	/* items of one timeline */
};

/* Where alpha (later the decay) and beta of a value head are in a row. */
static void
find_gates(const struct qwen_hparams *h, const struct qwen_layer *l,
    const struct qwen_delta_row *row, size_t head, size_t *alpha, size_t *beta)
{
	size_t rep = h->n_head_v / h->n_head_k;

	*alpha = row->alpha + head;
	*beta = row->beta + head;
	if (l->delta.by_key) {	/* rep of beta, then of alpha */
		*beta = row->alpha + head / rep * 2 * rep + head % rep;
		*alpha = *beta + rep;
	}
}

/* Channels one thread takes at a time. */
#define CHANNELS 256

static const struct qwen_layer_state *
state_of(const struct pass *p, const struct qwen_share *share)
{
	return &share->s->layer[p->l->index];
}

/*
 * A row of the journal: the convolution's input, then k and v as the rule takes
 * them, then the gates.
 */
struct journal {
	size_t	k, v, gates, width;
};

static struct journal
journal_of(const struct qwen_hparams *h)
{
	struct qwen_delta_row row = qwen_delta_row_of(h);
	struct journal j;

	j.k = row.z;
	j.v = j.k + h->n_head_k * h->dk;
	j.gates = j.v + h->n_head_v * h->dv;
	j.width = (j.gates + 2 * h->n_head_v + 15) / 16 * 16;
	return j;
}

size_t
qwen_deltanet_journal_width(const struct qwen_hparams *h)
{
	return journal_of(h).width;
}

/* The last inputs before the convolution move on by n tokens. */
static void
shift(const struct qwen_session *s, size_t layer, float *hist, size_t c0,
    size_t c1, size_t from, size_t n)
{
	size_t taps = s->model->net.hp.conv_kernel, i, j;
	size_t nc = qwen_delta_row_of(&s->model->net.hp).z;

	for (i = 0; i + 1 < taps; i++) {
		j = i + n;
		memcpy(hist + i * nc + c0, c0 + (j + 1 < taps ?
		    hist + j * nc : qwen_journal_row(s->journal, layer,
		    from + j + 1 - taps)), (c1 - c0) * sizeof *hist);
	}
}

/* The last inputs, rows nc apart, copied. */
static void
copy_inputs(const struct pass *p, float *to, const float *from, size_t c0,
    size_t c1)
{
	size_t i;

	for (i = 0; i + 1 < p->b->hp->conv_kernel; i++)
		memcpy(to + i * p->nc + c0, from + i * p->nc + c0,
		    (c1 - c0) * sizeof *to);
}

/* Where the state before the last tokens has what is at this in the session. */
static float *
in_base(const struct qwen_session *s, const float *at)
{
	return (float *)s->journal->base + (at - (const float *)s->recurrent);
}

/*
 * Rows of guesses: what was before them is what the certain ones left, and
 * stays so.
 */
static void
conv_guesses(const struct pass *p, const struct qwen_share *share, float *x,
    float *hist, size_t c0, size_t c1)
{
	size_t i, taps = p->b->hp->conv_kernel, n = c1 - c0;
	float old[QWEN_TAPS_MAX][CHANNELS];

	for (i = 0; i + 1 < taps; i++)
		memcpy(old[i], hist + i * p->nc + c0, n * sizeof *hist);
	p->b->vec->conv(x + share->n_sure * p->b->b->in_width,
	    p->b->b->in_width, share->n - share->n_sure, p->l->delta.conv,
	    hist, taps, p->nc, c0, c1);
	for (i = 0; i + 1 < taps; i++)
		memcpy(hist + i * p->nc + c0, old[i], n * sizeof *hist);
}

/* Item: channels of a timeline. */
static void
do_conv(void *arg, size_t item, int thread)
{
	const struct pass *p = arg;
	const struct qwen_share *share = &p->b->share[item / p->per_share];
	const struct qwen_hparams *h = p->b->hp;
	size_t width = p->b->b->in_width, layer = p->l->index, i;
	struct qwen_profile *profile = &p->b->m->profile;
	uint64_t begin = qwen_profile_begin(profile);
	size_t c0 = item % p->per_share * CHANNELS;
	size_t c1 = c0 + CHANNELS < p->nc ? c0 + CHANNELS : p->nc;
	size_t owed = qwen_ahead_owed(share->s);
	float *hist = state_of(p, share)->conv;
	float *x = p->b->b->in + share->first * width;

	if (owed > 0)
		shift(share->s, layer, hist, c0, c1, share->pos - owed, owed);
	for (i = share->noted; i < share->n; i++)
		memcpy(qwen_journal_row(share->s->journal, layer,
		    share->pos + i) + c0, x + i * width + c0,
		    (c1 - c0) * sizeof *x);
	if (share->base > 0) {
		p->b->vec->conv(x, width, share->base, p->l->delta.conv, hist,
		    h->conv_kernel, p->nc, c0, c1);
		copy_inputs(p, in_base(share->s, hist), hist, c0, c1);
	}
	p->b->vec->conv(x + share->base * width, width, share->n_sure -
	    share->base, p->l->delta.conv, hist, h->conv_kernel, p->nc, c0,
	    c1);
	if (share->n > share->n_sure)
		conv_guesses(p, share, x, hist, c0, c1);
	/* rows in place; taps, and the history before and after */
	qwen_profile_end(profile, thread, QWEN_STAGE_CONV, begin,
	    (c1 - c0) * (2 * share->n + 3 * h->conv_kernel - 2) * sizeof *x,
	    (c1 - c0) * share->n * h->conv_kernel);
}

/*
 * q and k to unit length, q scaled; decay and beta of every head.  Exp and
 * sigmoid would make fair numbers of an infinity, so it is looked for here.
 */
static void
prepare(struct qwen_batch *b, void *arg, size_t t)
{
	const struct pass *p = arg;
	const struct qwen_hparams *h = b->hp;
	const struct qwen_deltanet *d = &p->l->delta;
	float *x = b->b->in + t * b->b->in_width;
	float scale = (float)(1.0 / sqrt((double)h->dk));
	size_t i, at_alpha, at_beta;

	for (i = 0; i < h->n_head_k; i++) {
		b->vec->l2norm(x + i * h->dk, h->dk, 1e-6f, scale);
		b->vec->l2norm(x + (h->n_head_k + i) * h->dk, h->dk, 1e-6f,
		    1.0f);
	}
	for (i = 0; i < h->n_head_v; i++) {
		float in, g, beta;

		find_gates(h, p->l, &p->row, i, &at_alpha, &at_beta);
		in = x[at_alpha] + d->dt[i];
		g = d->a[i] * qwen_softplusf(in);
		beta = x[at_beta];
		x[at_alpha] = isfinite(in) && isfinite(g) ? qwen_expf(g) : NAN;
		x[at_beta] = isfinite(beta) ? qwen_sigmoidf(beta) : NAN;
	}
}

/* Columns of a head's state one thread takes at a time. */
#define COLUMNS 64

/* The columns of an item's state; NULL beyond the last. */
static float *
columns(const struct pass *p, size_t item)
{
	const struct qwen_hparams *h = p->b->hp;
	size_t per_head = (h->dv + COLUMNS - 1) / COLUMNS, i;

	if (item >= p->b->n_share * p->per_share)
		return NULL;
	i = item % p->per_share;
	return state_of(p, &p->b->share[item / p->per_share])->s +
	    i / per_head * h->dk * h->dv + i % per_head * COLUMNS;
}

/* The key head of a value head. */
static size_t
key_head(const struct qwen_model *m, size_t head)
{
	const struct qwen_hparams *h = &m->net.hp;

	return h->grouped ? head / (h->n_head_v / h->n_head_k) :
	    head % h->n_head_k;
}

/*
 * n tokens of the journal from a position on, as the rule takes them for a
 * head, from column c0 on: in one piece, or in two where the rows begin again.
 */
static struct qwen_delta *
journal_rows(const struct qwen_session *s, const struct qwen_layer *l,
    size_t from, size_t n, size_t head, size_t c0, struct qwen_delta piece[2])
{
	const struct qwen_hparams *h = &s->model->net.hp;
	const struct journal j = journal_of(h);
	const struct qwen_delta_row row = qwen_delta_row_of(h);
	size_t k = j.k + key_head(s->model, head) * h->dk, alpha, beta, m, i;
	struct qwen_delta *last = NULL;
	size_t stride;

	if (n == 0)
		return NULL;
	stride = s->journal->by_row;
	find_gates(h, l, &row, head, &alpha, &beta);
	for (i = 0; n > 0; i++, from += m, n -= m) {
		const float *p = qwen_journal_row(s->journal, l->index, from);

		m = s->journal->n_row - from % s->journal->n_row;
		m = m < n ? m : n;
		piece[i] = (struct qwen_delta){ .dk = h->dk, .dv = h->dv,
		    .n_tok = m, .q = p + k, .k = p + k, .qk_stride = stride,
		    .v = p + j.v + head * h->dv + c0, .v_stride = stride,
		    .g = p + j.gates + alpha - row.alpha,
		    .b = p + j.gates + beta - row.alpha, .gb_stride = stride,
		    .before = last };
		last = &piece[i];
	}
	return last;
}

/* The rows of the batch, for columns of a head of a timeline. */
static struct qwen_delta
batch_rows(const struct pass *p, const struct qwen_share *share, size_t head,
    size_t c0)
{
	const struct qwen_hparams *h = p->b->hp;
	const struct qwen_scratch *s = p->b->b;
	const float *in = s->in + share->first * s->in_width;
	size_t head_k = key_head(p->b->m, head), alpha, beta;

	find_gates(h, p->l, &p->row, head, &alpha, &beta);
	return (struct qwen_delta){
		.s = state_of(p, share)->s + head * h->dk * h->dv + c0,
		.dk = h->dk, .dv = h->dv,
		.c1 = h->dv - c0 < COLUMNS ? h->dv - c0 : COLUMNS,
		.n_tok = share->n_sure, .n_ahead = share->n - share->n_sure,
		.q = in + head_k * h->dk,
		.k = in + (h->n_head_k + head_k) * h->dk,
		.qk_stride = s->in_width,
		.v = in + p->row.v + head * h->dv + c0,
		.v_stride = s->in_width,
		.g = in + alpha, .b = in + beta, .gb_stride = s->in_width,
		.o = s->o + share->first * s->o_width + head * h->dv + c0,
		.o_stride = s->o_width,
	};
}

/* The first n tokens by themselves; then their state is noted. */
static void
make_base(const struct pass *p, const struct qwen_share *share, size_t n,
    struct qwen_delta *d)
{
	struct qwen_delta first = *d;
	size_t i;

	first.n_tok = n;
	first.n_ahead = 0;
	first.next = NULL;
	p->b->m->kernels.delta->run.delta(&first);
	for (i = 0; i < d->dk; i++)
		memcpy(in_base(share->s, d->s + i * d->dv), d->s + i * d->dv,
		    d->c1 * sizeof *d->s);
	d->before = NULL;
	d->n_tok -= n;
	d->q += n * d->qk_stride;
	d->k += n * d->qk_stride;
	d->v += n * d->v_stride;
	d->g += n * d->gb_stride;
	d->b += n * d->gb_stride;
	d->o += n * d->o_stride;
}

/* Item: columns of a head of a timeline. */
static void
do_delta(void *arg, size_t item, int thread)
{
	const struct pass *p = arg;
	const struct qwen_share *share = &p->b->share[item / p->per_share];
	const struct qwen_hparams *h = p->b->hp;
	size_t per_head = (h->dv + COLUMNS - 1) / COLUMNS;
	size_t head = item % p->per_share / per_head;
	size_t c0 = item % per_head * COLUMNS, owed, i;
	struct qwen_delta before[2], d = batch_rows(p, share, head, c0);
	struct qwen_profile *profile = &p->b->m->profile;
	uint64_t begin = qwen_profile_begin(profile);

	d.next = columns(p, item + 1);
	owed = qwen_ahead_owed(share->s);
	d.before = journal_rows(share->s, p->l, share->pos - owed, owed, head,
	    c0, before);
	/* what they leave there is written over */
	for (i = 0; d.before != NULL && i < 2; i++)
		before[i].o = d.o;
	if (share->base > 0)
		make_base(p, share, share->base, &d);
	p->b->m->kernels.delta->run.delta(&d);
	/* S is read and written; four operations on each element a token */
	qwen_profile_end(profile, thread, QWEN_STAGE_DELTA, begin,
	    2 * h->dk * d.c1 * sizeof(float),
	    4 * h->dk * d.c1 * (owed + share->n));
}

/* What the rule took of a token. */
static void
note(const struct pass *p, const struct qwen_share *share, size_t i,
    const float *in)
{
	const struct qwen_hparams *h = p->b->hp;
	const struct journal j = journal_of(h);
	float *to = qwen_journal_row(share->s->journal, p->l->index,
	    share->pos + i);

	memcpy(to + j.k, in + h->n_head_k * h->dk,
	    (j.gates - j.k) * sizeof *to);
	memcpy(to + j.gates, in + p->row.alpha,
	    2 * h->n_head_v * sizeof *to);
}

static void
finish(struct qwen_batch *b, void *arg, size_t t)
{
	const struct pass *p = arg;
	const struct qwen_hparams *h = b->hp;
	float *o = b->b->o + t * b->b->o_width;
	const float *in = b->b->in + t * b->b->in_width, *z = in + p->row.z;
	const struct qwen_share *share = qwen_share_of(b, t);
	size_t i = t - share->first;

	if (i >= share->noted)
		note(p, share, i, in);
	if (!qwen_is_wanted(b, t))
		return;
	for (i = 0; i < h->n_head_v; i++)
		b->vec->gated_norm(o + i * h->dv, p->l->delta.norm,
		    z + i * h->dv, h->dv, h->eps);
	if (qwen_wants_operand(&p->l->delta.out))
		qwen_make_operands(b, b->b->oq, b->b->o_width, t, o,
		    h->n_head_v * h->dv);
}

/* How much of the state each value head keeps, and takes. */
static void
trace(struct qwen_batch *b, void *arg, size_t t)
{
	const struct pass *p = arg;
	const float *in = b->b->in + t * b->b->in_width;
	float *decay, *beta;
	size_t i, at_alpha, at_beta;

	decay = qwen_trace_at(b, t, QWEN_TRACE_DECAY, p->l->index, 0);
	beta = qwen_trace_at(b, t, QWEN_TRACE_BETA, p->l->index, 0);
	for (i = 0; i < b->hp->n_head_v; i++) {
		find_gates(b->hp, p->l, &p->row, i, &at_alpha, &at_beta);
		if (decay != NULL)
			decay[i] = in[at_alpha];
		if (beta != NULL)
			beta[i] = in[at_beta];
	}
}

void
qwen_deltanet_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	const struct qwen_hparams *h = b->hp;
	const struct qwen_deltanet *d = &l->delta;
	struct qwen_scratch *s = b->b;
	struct pass p = { .b = b, .l = l, .row = qwen_delta_row_of(h) };
	struct qwen_linear lin[QWEN_DELTA_PIECES_MAX];
	struct qwen_linear out = { &d->out, s->out, s->out_width, NULL };
	size_t i;

	p.nc = p.row.z;
	for (i = 0; i < d->n_in; i++)
		lin[i] = (struct qwen_linear){ &d->in[i].w, s->in + d->in[i].at,
		    s->in_width, NULL };
	qwen_linears(b, lin, d->n_in, s->xn, h->n_embd, s->xq, NULL, b->n);
	if (b->trace) {
		qwen_trace_rows(b, QWEN_TRACE_QKV, l->index, s->in,
		    s->in_width);
		qwen_trace_rows(b, QWEN_TRACE_Z, l->index, s->in + p.row.z,
		    s->in_width);
	}
	p.per_share = (p.nc + CHANNELS - 1) / CHANNELS;
	qwen_pool_run(b->m->pool, do_conv, &p, b->n_share * p.per_share);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_CONV, l->index, s->in,
		    s->in_width);
	qwen_each_token(b, QWEN_STAGE_DELTA_PREPARE, prepare, &p,
	    4 * (h->n_head_k * h->dk + h->n_head_v));
	if (b->trace)
		qwen_each_token(b, QWEN_STAGE_DELTA_PREPARE, trace, &p,
		    2 * h->n_head_v);
	p.per_share = h->n_head_v * ((h->dv + COLUMNS - 1) / COLUMNS);
	qwen_pool_run(b->m->pool, do_delta, &p, b->n_share * p.per_share);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_DELTA_OUT, l->index, s->o,
		    s->o_width);
	qwen_each_token(b, QWEN_STAGE_DELTA_FINISH, finish, &p,
	    3 * h->n_head_v * h->dv);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_DELTA_NORM, l->index, s->o,
		    s->o_width);
	qwen_linears(b, &out, 1, s->o, s->o_width, s->oq, b->wanted,
	    b->n_wanted);
}

/* ------------------------------------------- tokens that were computed once */

struct replay {
	const struct qwen_session	*s;
	float				*recurrent;
	size_t				 from, n;	/* of the journal */
	size_t				 per_layer;	/* items */
};

/* Item: a layer's convolution, or columns of a head. */
static void
do_replay(void *arg, size_t item, int thread)
{
	const struct replay *r = arg;
	const struct qwen_session *s = r->s;
	const struct qwen_hparams *h = &s->model->net.hp;
	size_t per_head = (h->dv + COLUMNS - 1) / COLUMNS;
	const struct qwen_layer *l = &s->model->net.layer[item / r->per_layer];
	const struct qwen_layer_state *state = &s->layer[l->index];
	size_t i = item % r->per_layer, head = i / per_head;
	size_t c0 = i % per_head * COLUMNS;
	struct qwen_delta piece[2], *d;
	float o[COLUMNS];

	(void)thread;
	if (state->s == NULL)
		return;
	if (i == r->per_layer - 1) {
		shift(s, l->index, r->recurrent + (state->conv -
		    (float *)s->recurrent), 0, qwen_delta_row_of(h).z, r->from, r->n);
		return;
	}
	d = journal_rows(s, l, r->from, r->n, head, c0, piece);
	piece[0].o = piece[1].o = o;
	d->s = r->recurrent + (state->s - (float *)s->recurrent) +
	    head * h->dk * h->dv + c0;
	d->c1 = h->dv - c0 < COLUMNS ? h->dv - c0 : COLUMNS;
	s->model->kernels.delta->run.delta(d);
}

void
qwen_deltanet_replay(const struct qwen_session *s, void *recurrent,
    size_t from, size_t n)
{
	const struct qwen_hparams *h = &s->model->net.hp;
	struct replay r = { s, recurrent, from, n, h->n_head_v *
	    ((h->dv + COLUMNS - 1) / COLUMNS) + 1 };

	if (n > 0)
		qwen_pool_run(s->model->pool, do_replay, &r,
		    h->n_layer * r.per_layer);
}
