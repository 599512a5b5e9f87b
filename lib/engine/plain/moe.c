/* SPDX-License-Identifier: ISC */
/*
 * moe.c - mixture of experts: router, the best experts of each row, and a shared
 * one, which is the last.
 */
#include <string.h>

#include "engine/plain/plain.h"

/* Chooses the experts with the largest logits, and weighs them by softmax. */
static void
choose(const struct qwen_net *net, const float *logit, unsigned char *chosen,
    float *share)
{
	const struct qwen_hparams *h = &net->hp;
	size_t i, e, best, first = 0, n = h->n_expert;
	float sum = 0.0f;

	memset(chosen, 0, n);
	for (i = 0; i < h->n_expert_used; i++) {
		for (best = n, e = 0; e < n; e++) {
			if (!chosen[e] && (best == n ||
			    logit[e] > logit[best]))
				best = e;
		}
		first = i == 0 ? best : first;
		chosen[best] = 1;
		share[best] = qwen_expf(logit[best] - logit[first]);
		sum += share[best];
	}
	if (net->arch->share_of_all) {
		for (sum = 0.0f, e = 0; e < n; e++)
			sum += qwen_expf(logit[e] - logit[first]);
	}
	for (e = 0; e < n; e++) {
		if (chosen[e])
			share[e] = share[e] / sum * h->expert_scale;
	}
}

/* Weighs the experts of a row, the shared one last. */
static void
route(const struct qwen_net *net, const float *logit, unsigned char *chosen,
    float *share)
{
	size_t e, n = net->hp.n_expert;
	int shared = net->hp.n_ff_shexp > 0, finite = 1;

	choose(net, logit, chosen, share);
	for (e = 0; e < n; e++)
		finite &= isfinite(logit[e]) != 0;
	for (e = 0; e < n && !finite; e++)
		share[e] = NAN;
	chosen[n] = (unsigned char)shared;
	if (shared)
		share[n] = isfinite(logit[n]) ? qwen_sigmoidf(logit[n]) : NAN;
}

/* Adds what expert e makes of the rows that chose it. */
static void
add_expert(struct qwen_plain_work *w, const struct qwen_pass *p,
    const struct qwen_mlp *l, size_t e, size_t matrix)
{
	size_t n_embd = w->net->hp.n_embd, width = w->net->hp.n_expert + 1;
	size_t t, i, n = 0;

	for (t = 0; t < p->n; t++) {
		if (w->chosen[t * width + e])
			w->from[n++] = w->xn + t * n_embd;
	}
	if (n == 0)
		return;
	qwen_plain_gated(w, l, matrix, w->y, n);
	for (t = n = 0; t < p->n; t++) {
		if (!w->chosen[t * width + e])
			continue;
		for (i = 0; i < n_embd; i++)
			w->out[t * n_embd + i] = fmaf(w->share[t * width + e],
			    w->y[n * n_embd + i], w->out[t * n_embd + i]);
		n++;
	}
}

void
qwen_plain_moe(struct qwen_plain_work *w, const struct qwen_pass *p,
    const struct qwen_layer *l)
{
	const struct qwen_hparams *h = &w->net->hp;
	size_t t, e, n_embd = h->n_embd, width = h->n_expert + 1;

	qwen_plain_multiply(w, &l->moe.router, w->xn, n_embd, w->router, width,
	    p->n);
	if (h->n_ff_shexp > 0)
		qwen_plain_multiply(w, &l->moe.shared_router, w->xn, n_embd,
		    w->router + h->n_expert, width, p->n);
	for (t = 0; t < p->n; t++)
		route(w->net, w->router + t * width, w->chosen + t * width,
		    w->share + t * width);
	memset(w->out, 0, p->n * n_embd * sizeof *w->out);
	for (e = 0; e < h->n_expert; e++)
		add_expert(w, p, &l->moe.routed, e, e);
	if (h->n_ff_shexp > 0)
		add_expert(w, p, &l->moe.shared, e, 0);
}
