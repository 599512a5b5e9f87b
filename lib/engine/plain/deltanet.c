/* SPDX-License-Identifier: ISC */
/*
 * deltanet.c - gated DeltaNet (Yang et al. 2024): short convolution, l2-normed
 * q and k, the gated delta rule and a gated norm, row by row.
 */
#include <string.h>

#include "engine/plain/plain.h"

/* Sizes of a DeltaNet layer. */
struct net {
	const struct qwen_hparams	*h;
	const struct qwen_deltanet	*l;
	struct qwen_delta_row		 row;	/* of projections */
	struct qwen_journal_row		 note;	/* of the journal */
};

static struct net
net_of(const struct qwen_net *net, const struct qwen_layer *l)
{
	return (struct net){ .h = &net->hp, .l = &l->delta,
	    .row = qwen_delta_row_of(&net->hp),
	    .note = qwen_journal_row_of(&net->hp) };
}

/* Where the gates of a value head are, from alpha's first number on. */
static void
find_gates(const struct net *n, size_t head, size_t *alpha, size_t *beta)
{
	size_t rep = n->h->n_head_v / n->h->n_head_k;

	*alpha = head;
	*beta = n->h->n_head_v + head;
	if (n->l->by_key) {	/* for each key head, beta, then alpha */
		*beta = head / rep * 2 * rep + head % rep;
		*alpha = *beta + rep;
	}
}

/*
 * Moves the inputs before the convolution on by x, and sets y, which may be x,
 * to its result unless it is NULL.
 */
static void
convolve(const struct net *n, float *conv, const float *x, float *y)
{
	size_t taps = n->h->conv_kernel, nc = n->row.z, c, j;
	float sum, in;

	for (c = 0; c < nc; c++) {
		sum = 0.0f;
		for (j = 0; j < taps; j++) {
			in = j + 1 < taps ? conv[j * nc + c] : x[c];
			sum = fmaf(n->l->conv[j * nc + c], in, sum);
			if (j > 0)
				conv[(j - 1) * nc + c] = in;
		}
		if (y != NULL)
			y[c] = qwen_plain_silu(sum);
	}
}

static void
l2_norm(float *x, size_t n, float c)
{
	float r = c / sqrtf(qwen_plain_dot(x, x, n) + 1e-6f);
	size_t i;

	for (i = 0; i < n; i++)
		x[i] *= r;
}

/*
 * Sets q and k to unit length, q scaled, and the gates to the decay and beta of
 * each head.  exp and sigmoid hide an infinity, so it becomes NaN here.
 */
static void
prepare(const struct net *n, float *x)
{
	const struct qwen_hparams *h = n->h;
	float scale = (float)(1.0 / sqrt((double)h->dk)), in, g;
	float *gates = x + n->row.alpha;
	size_t i, alpha, beta;

	for (i = 0; i < 2 * h->n_head_k; i++)
		l2_norm(x + i * h->dk, h->dk, i < h->n_head_k ? scale : 1.0f);
	for (i = 0; i < h->n_head_v; i++) {
		find_gates(n, i, &alpha, &beta);
		in = gates[alpha] + n->l->dt[i];
		g = n->l->a[i] * qwen_softplusf(in);
		gates[alpha] = isfinite(in) && isfinite(g) ? qwen_expf(g) :
		    NAN;
		gates[beta] = isfinite(gates[beta]) ?
		    qwen_sigmoidf(gates[beta]) : NAN;
	}
}

/* The rule for column c of a head's state; returns its output. */
static float
apply_rule(float *s, size_t dk, size_t dv, const float *q, const float *k,
    float v, float g, float b)
{
	float kv = 0.0f, o = 0.0f, u;
	size_t d;

	for (d = 0; d < dk; d++) {
		s[d * dv] *= g;
		kv = fmaf(s[d * dv], k[d], kv);
	}
	u = b * (v - kv);
	for (d = 0; d < dk; d++) {
		s[d * dv] = fmaf(k[d], u, s[d * dv]);
		o = fmaf(s[d * dv], q[d], o);
	}
	return o;
}

/* The rule for all heads; sets o unless it is NULL. */
static void
update(const struct net *n, float *s, const float *q, const float *k,
    const float *v, const float *gates, float *o)
{
	const struct qwen_hparams *h = n->h;
	size_t i, c, key, alpha, beta;
	float y;

	for (i = 0; i < h->n_head_v; i++) {
		key = h->grouped ? i / (h->n_head_v / h->n_head_k) :
		    i % h->n_head_k;
		find_gates(n, i, &alpha, &beta);
		for (c = 0; c < h->dv; c++) {
			y = apply_rule(s + i * h->dk * h->dv + c, h->dk, h->dv,
			    q + key * h->dk, k + key * h->dk, v[i * h->dv + c],
			    gates[alpha], gates[beta]);
			if (o != NULL)
				o[i * h->dv + c] = y;
		}
	}
}

static void
norm_output(const struct net *n, const float *z, float *o)
{
	const struct qwen_hparams *h = n->h;
	size_t i, j;

	for (i = 0; i < h->n_head_v; i++, o += h->dv, z += h->dv) {
		qwen_plain_rms_norm(o, o, n->l->norm, h->dv, h->eps);
		for (j = 0; j < h->dv; j++)
			o[j] *= qwen_plain_silu(z[j]);
	}
}

/* ---- the journal */

/* Applies n tokens of the journal from a position on to a state. */
static void
replay(const struct net *net, const struct qwen_resident *r,
    const struct qwen_memory *m, size_t layer, float *s, float *conv,
    size_t from, size_t n)
{
	const float *p, *k;

	for (; n > 0; n--, from++) {
		p = qwen_plain_own(r, m, qwen_journal_row(m->journal, layer,
		    from));
		k = p + net->note.k;
		convolve(net, conv, p, NULL);
		update(net, s, k, k, p + net->note.v, p + net->note.gates,
		    NULL);
	}
}

void
qwen_plain_replay(struct qwen_resident *r, struct qwen_memory *m, size_t from,
    size_t n)
{
	struct net net;
	size_t i;

	qwen_plain_enter(r);
	for (i = 0; i < r->net->hp.n_layer; i++) {
		if (!qwen_plain_has(r, i) ||
		    r->net->layer[i].mixer != QWEN_DELTANET)
			continue;
		net = net_of(r->net, &r->net->layer[i]);
		replay(&net, r, m, i, qwen_plain_own(r, m, m->layer[i].s),
		    qwen_plain_own(r, m, m->layer[i].conv), from, n);
	}
	qwen_plain_leave(r);
}

/* ---- a pass */

/*
 * Takes a row of projections to o, and notes what the state takes of it, unless
 * note is NULL.
 */
static void
step(const struct net *n, float *s, float *conv, float *note, float *x,
    float *o)
{
	if (note != NULL)
		memcpy(note, x, n->row.z * sizeof *note);
	convolve(n, conv, x, x);
	prepare(n, x);
	if (note != NULL) {
		memcpy(note + n->note.k, x + n->h->n_head_k * n->h->dk,
		    (n->note.gates - n->note.k) * sizeof *note);
		memcpy(note + n->note.gates, x + n->row.alpha,
		    2 * n->h->n_head_v * sizeof *note);
	}
	update(n, s, x, x + n->h->n_head_k * n->h->dk, x + n->row.v,
	    x + n->row.alpha, o);
	norm_output(n, x + n->row.z, o);
}

/* Takes the rows of a session through the layer; drafts change a copy. */
static void
run_share(struct qwen_plain_work *w, const struct net *n,
    const struct qwen_share *p, size_t layer)
{
	const struct qwen_memory *m = p->mem;
	const struct qwen_layer_state *l = &m->layer[layer];
	const struct qwen_resident *r = w->w.r;
	float *s = qwen_plain_own(r, m, l->s), *note;
	float *conv = qwen_plain_own(r, m, l->conv);
	size_t i, t;

	replay(n, r, m, layer, s, conv, p->pos - p->owed, p->owed);
	for (i = 0; i < p->n; i++) {
		if (i == p->n_sure) {
			s = memcpy(w->state, s, l->n_s * sizeof *s);
			conv = memcpy(s + l->n_s, conv, l->n_conv *
			    sizeof *conv);
		}
		t = p->first + i;
		note = i < p->n_sure ? NULL : qwen_plain_own(r, m,
		    qwen_journal_row(m->journal, layer, p->pos + i));
		step(n, s, conv, note, w->in + t * w->width, w->o +
		    t * w->width);
	}
}

void
qwen_plain_deltanet(struct qwen_plain_work *w, const struct qwen_layer *l)
{
	const struct qwen_pass *p = w->p;
	struct net n = net_of(w->net, l);
	size_t i;

	for (i = 0; i < l->delta.n_in; i++)
		qwen_plain_multiply(w, &l->delta.in[i].w, w->xn, w->in +
		    l->delta.in[i].at, p->n);
	for (i = 0; i < p->n_share; i++)
		run_share(w, &n, &p->share[i], l->index);
	qwen_plain_multiply(w, &l->delta.out, w->o, w->out, p->n);
}
