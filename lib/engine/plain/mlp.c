/* SPDX-License-Identifier: ISC */
/* mlp.c - the gated MLP: down(silu(gate x) * up x). */
#include "engine/plain/plain.h"

void
qwen_plain_gated(struct qwen_plain_work *w, const struct qwen_mlp *l,
    size_t e, float *y, size_t n)
{
	size_t t, i;
	float *g;

	for (t = 0; t < n; t++)
		w->to[t] = w->gate + t * w->width;
	qwen_plain_product(w, &l->gate, e, n);
	for (t = 0; t < n; t++)
		w->to[t] = w->up + t * w->width;
	qwen_plain_product(w, &l->up, e, n);
	for (t = 0; t < n; t++) {
		g = w->gate + t * w->width;
		for (i = 0; i < l->down.n_in; i++)
			g[i] = qwen_plain_silu(g[i]) * w->up[t * w->width + i];
		w->from[t] = g;
		w->to[t] = y + t * w->width;
	}
	qwen_plain_product(w, &l->down, e, n);
}

void
qwen_plain_mlp(struct qwen_plain_work *w, const struct qwen_layer *l)
{
	size_t t;

	for (t = 0; t < w->p->n; t++)
		w->from[t] = w->xn + t * w->width;
	qwen_plain_gated(w, &l->mlp, 0, w->out, w->p->n);
}
