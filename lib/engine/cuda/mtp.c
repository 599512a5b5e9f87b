/* SPDX-License-Identifier: ISC */
/* mtp.c - the inputs of the MTP block: x = proj [norm(embedding); norm(hidden)]. */
#include <string.h>

#include "engine/cuda/kernel/norm.h"
#include "engine/cuda/lora.h"
#include "engine/cuda/work.h"

/* Where the host puts the halves of all rows, and which of them are there. */
struct halves {
	const struct qwen_cuda_work	*w;
	float				*x;		/* [n][2][n_embd] */
	u32				*there;		/* [n][2] */
};

static void
put_row(void *arg, size_t t, int thread)
{
	const struct halves *h = arg;
	const struct qwen_input *in = &h->w->p->row[t];
	size_t n = h->w->net->hp.n_embd;
	float *x = h->x + 2 * t * n;

	(void)thread;
	memset(x, 0, 2 * n * sizeof *x);
	h->there[2 * t] = in->id >= 0 || in->embd != NULL;
	h->there[2 * t + 1] = in->vec != NULL;
	if (in->embd != NULL)
		memcpy(x, in->embd, n * sizeof *x);
	else if (in->id >= 0)
		qwen_cuda_embedding(&h->w->net->mtp.embd, (size_t)in->id, x);
	if (in->vec != NULL)
		memcpy(x + n, in->vec, n * sizeof *x);
}

void
qwen_cuda_join(struct qwen_work *work, const struct qwen_pass *p)
{
	struct qwen_cuda_work *w = qwen_cuda_work_of(work);
	const struct qwen_cuda_layer *l = &w->c->layer[w->net->hp.n_layer];
	size_t n = w->net->hp.n_embd, row = 2 * n * sizeof(float);
	struct halves h = { .w = w, .x = (float *)(void *)w->host,
	    .there = (u32 *)(void *)(w->host + p->n * row) };
	/* a row of IN has room for both halves, and OUT is unused so far */
	struct qwen_cuda_rows x = { .x = w->array[QWEN_CUDA_IN],
	    .groups = w->array[QWEN_CUDA_GROUPS], .stride = 2 * n, .n = p->n };
	struct dev_join a = { .x = QWEN_CUDA_P(x.x),
	    .weights = { QWEN_CUDA_P(l->embd_norm),
	    QWEN_CUDA_P(l->hidden_norm) },
	    .there = QWEN_CUDA_P(w->array[QWEN_CUDA_OUT]), .n = (u32)n,
	    .eps = w->net->hp.eps };

	w->p = p;
	qwen_cuda_enter(w->c->card);
	qwen_pool_run(w->c->pool, put_row, &h, p->n);
	qwen_cuda_put(w->c->card, x.x, h.x, p->n * row);
	qwen_cuda_put(w->c->card, w->array[QWEN_CUDA_OUT], h.there,
	    2 * p->n * sizeof *h.there);
	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
	    .module = "norm", .name = "join_rows", .x = (unsigned)(2 * p->n),
	    .threads = 256, .shared = (n + 1) * sizeof(float) }, &a, sizeof a);
	qwen_cuda_quantize(w, x.x, 2 * n, 2 * n, p->n);
	qwen_cuda_multiply(w, &l->proj, &x, w->array[QWEN_CUDA_X], n);
	qwen_cuda_clear_flags(w);
	w->pending = w->is_sent = 0;
}
