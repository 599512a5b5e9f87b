/* SPDX-License-Identifier: ISC */
/*
 * deltanet.c - gated DeltaNet (Yang et al. 2024), as Qwen3-Next and Qwen3.5
 * use it: short convolution, l2-normed q and k, the gated delta rule, and a
 * gated norm.
 *
 * Value head h uses key head h mod n_head_k, or in qwen3next files, where those
 * of a key head are together, h / (n_head_v / n_head_k).
 */
#include <math.h>

#include "engine/cpu/deltanet.h"
#include "engine/quant/math.h"

/*
 * Sets q and k to unit length, scales q, and computes decay and beta of every
 * head. exp and sigmoid hide an infinity, so it becomes NaN here.
 */
static void
prepare(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_deltanet_pass *p = arg;
	const struct qwen_hparams *h = b->hp;
	const struct qwen_deltanet *d = &p->l->delta;
	float *x = b->s->mix.in + t * b->s->mix.in_width;
	float scale = (float)(1.0 / sqrt((double)h->dk));
	size_t i, at_alpha, at_beta;

	for (i = 0; i < h->n_head_k; i++) {
		b->vec->l2norm(x + i * h->dk, h->dk, 1e-6f, scale);
		b->vec->l2norm(x + (h->n_head_k + i) * h->dk, h->dk, 1e-6f,
		    1.0f);
	}
	for (i = 0; i < h->n_head_v; i++) {
		float in, g, beta;

		qwen_find_gates(h, p->l, &p->row, i, &at_alpha, &at_beta);
		in = x[at_alpha] + d->dt[i];
		g = d->a[i] * qwen_softplusf(in);
		beta = x[at_beta];
		x[at_alpha] = isfinite(in) && isfinite(g) ? qwen_expf(g) : NAN;
		x[at_beta] = isfinite(beta) ? qwen_sigmoidf(beta) : NAN;
	}
}

static void
finish(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_deltanet_pass *p = arg;
	const struct qwen_hparams *h = b->hp;
	float *o = b->s->mix.o + t * b->s->mix.o_width;
	const float *z = b->s->mix.in + t * b->s->mix.in_width + p->row.z;
	size_t i;

	qwen_delta_note(p, t);
	if (!qwen_is_wanted(b, t))
		return;
	for (i = 0; i < h->n_head_v; i++)
		b->vec->gated_norm(o + i * h->dv, p->l->delta.norm,
		    z + i * h->dv, h->dv, h->eps);
	if (qwen_wants_operand(&p->l->delta.out))
		qwen_make_operands(b, b->s->mix.oq, b->s->mix.o_width, t, o,
		    h->n_head_v * h->dv);
}

/* Tells the hook of each value head's decay and beta. */
static void
see_gates(const struct qwen_deltanet_pass *p)
{
	const struct qwen_batch *b = p->b;
	const struct qwen_hparams *h = b->hp;
	size_t alpha, beta, width = h->n_head_v, n = 1, step = 0;
	const float *in = b->s->mix.in;

	qwen_find_gates(h, p->l, &p->row, 0, &alpha, &beta);
	if (p->l->delta.by_key) {
		n = h->n_head_k;
		width = h->n_head_v / n;
		step = 2 * width;
	}
	qwen_see_pieces(b, QWEN_TRACE_DECAY, p->l->index, in + alpha,
	    b->s->mix.in_width, n, width, step);
	qwen_see_pieces(b, QWEN_TRACE_BETA, p->l->index, in + beta,
	    b->s->mix.in_width, n, width, step);
}

void
qwen_deltanet_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	const struct qwen_hparams *h = b->hp;
	const struct qwen_deltanet *d = &l->delta;
	struct qwen_scratch *s = b->s;
	struct qwen_deltanet_pass p = { .b = b, .l = l,
	    .row = qwen_delta_row_of(h) };
	struct qwen_linear lin[QWEN_DELTA_PIECES_MAX];
	struct qwen_linear out = { &d->out, s->out, s->out_width, NULL };
	size_t i;

	for (i = 0; i < d->n_in; i++)
		lin[i] = (struct qwen_linear){ &d->in[i].w, s->mix.in +
		    d->in[i].at, s->mix.in_width, NULL };
	qwen_linears(b, lin, d->n_in, s->xn, h->n_embd, s->xq, NULL, b->n);
	qwen_see(b, QWEN_TRACE_QKV, l->index, s->mix.in, s->mix.in_width);
	qwen_see(b, QWEN_TRACE_Z, l->index, s->mix.in + p.row.z,
	    s->mix.in_width);
	qwen_delta_conv(&p);
	qwen_see(b, QWEN_TRACE_CONV, l->index, s->mix.in, s->mix.in_width);
	qwen_each_token(b, QWEN_STAGE_DELTA_PREPARE, prepare, &p,
	    4 * (h->n_head_k * h->dk + h->n_head_v));
	see_gates(&p);
	qwen_delta_rule(&p);
	qwen_see(b, QWEN_TRACE_DELTA_OUT, l->index, s->mix.o, s->mix.o_width);
	qwen_each_token(b, QWEN_STAGE_DELTA_FINISH, finish, &p,
	    3 * h->n_head_v * h->dv);
	qwen_see(b, QWEN_TRACE_DELTA_NORM, l->index, s->mix.o, s->mix.o_width);
	qwen_linears(b, &out, 1, s->mix.o, s->mix.o_width, s->mix.oq,
	    b->wanted, b->n_wanted);
}
