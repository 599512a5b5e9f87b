/* SPDX-License-Identifier: ISC */
/*
 * moe.c - mixture of experts: router, the best experts of each row, and a
 * shared one, which is the last.
 */
#include <string.h>

#include "engine/plain/plain.h"

/* Returns the expert with the largest logit of those that are not chosen. */
static size_t
find_best(const float *logit, const float *share, size_t n)
{
	size_t e, best = n;

	for (e = 0; e < n; e++) {
		if (share[e] == -INFINITY && (best == n ||
		    logit[e] > logit[best]))
			best = e;
	}
	return best;
}

/*
 * Chooses and weighs the experts of a row.  A logit that is not finite may
 * belong to an expert that is not chosen, so it makes all weights NaN.
 */
static void
route(const struct qwen_net *net, const float *logit, float *share)
{
	const struct qwen_hparams *h = &net->hp;
	size_t i, e, best, n = h->n_expert;
	float sum = 0.0f, all = 0.0f, first = 0.0f;
	int finite = 1;

	for (e = 0; e < n; e++)
		share[e] = -INFINITY;
	for (i = 0; i < h->n_expert_used; i++) {
		best = find_best(logit, share, n);
		first = i == 0 ? logit[best] : first;
		share[best] = qwen_expf(logit[best] - first);
		sum += share[best];
	}
	for (e = 0; e < n; e++) {
		all += qwen_expf(logit[e] - first);
		finite &= isfinite(logit[e]) != 0;
	}
	sum = net->arch->share_of_all ? all : sum;
	for (e = 0; e < n; e++) {
		if (!finite)
			share[e] = NAN;
		else if (share[e] != -INFINITY)
			share[e] = share[e] / sum * h->expert_scale;
	}
	if (h->n_ff_shexp > 0)
		share[n] = isfinite(logit[n]) ? qwen_sigmoidf(logit[n]) : NAN;
}

/* Adds what expert e, matrix m of l, makes of the rows that chose it. */
static void
add_expert(struct qwen_plain_work *w, const struct qwen_mlp *l, size_t e,
    size_t m)
{
	const float *y = w->y;
	size_t t, i, n = 0;
	float share;

	for (t = 0; t < w->p->n; t++) {
		if (w->share[t * w->width + e] != -INFINITY)
			w->from[n++] = w->xn + t * w->width;
	}
	if (n > 0)
		qwen_plain_gated(w, l, m, w->y, n);
	for (t = 0; t < w->p->n; t++) {
		share = w->share[t * w->width + e];
		if (share == -INFINITY)
			continue;
		for (i = 0; i < w->net->hp.n_embd; i++)
			w->out[t * w->width + i] = fmaf(share, y[i],
			    w->out[t * w->width + i]);
		y += w->width;
	}
}

void
qwen_plain_moe(struct qwen_plain_work *w, const struct qwen_layer *l)
{
	const struct qwen_hparams *h = &w->net->hp;
	int shared = h->n_ff_shexp > 0;
	size_t t, e;

	qwen_plain_multiply(w, &l->moe.router, w->xn, w->router, w->p->n);
	if (shared)
		qwen_plain_multiply(w, &l->moe.shared_router, w->xn,
		    w->router + h->n_expert, w->p->n);
	for (t = 0; t < w->p->n; t++)
		route(w->net, w->router + t * w->width, w->share +
		    t * w->width);
	memset(w->out, 0, w->p->n * w->width * sizeof *w->out);
	for (e = 0; e < h->n_expert; e++)
		add_expert(w, &l->moe.routed, e, e);
	if (shared)
		add_expert(w, &l->moe.shared, e, 0);
}
