/* SPDX-License-Identifier: ISC */
/*
 * moe.c - the gated MLP on a card, and a mixture of experts: router, the best
 * experts of each row, a shared one, and their sum.
 */
#include "engine/cuda/cuda.h"
#include "engine/cuda/kernel/experts.h"
#include "engine/cuda/kernel/route.h"

static struct qwen_cuda_rows
normed_rows(const struct qwen_cuda_work *w)
{
	return (struct qwen_cuda_rows){ .x = w->array[QWEN_CUDA_XN],
	    .groups = w->array[QWEN_CUDA_GROUPS_X],
	    .stride = w->net->hp.n_embd, .n = w->p->n };
}

/*
 * down(silu(gate x) * up x) of all rows, to y; gate and up have room for the
 * hidden products.
 */
static void
gated(struct qwen_cuda_work *w, const struct qwen_cuda_mlp *l, cu_ptr gate,
    cu_ptr up, cu_ptr y)
{
	struct qwen_cuda_rows x = normed_rows(w);
	size_t n_ff = l->down.n_in;

	qwen_cuda_multiply(w, &l->gate, &x, gate, n_ff);
	qwen_cuda_multiply(w, &l->up, &x, up, n_ff);
	qwen_cuda_silu_multiply(w, gate, up, n_ff, n_ff, x.n);
	x = (struct qwen_cuda_rows){ .x = gate,
	    .groups = w->array[QWEN_CUDA_GROUPS], .stride = n_ff, .n = x.n };
	qwen_cuda_multiply(w, &l->down, &x, y, w->net->hp.n_embd);
}

void
qwen_cuda_mlp(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	gated(w, &l->mlp, w->array[QWEN_CUDA_GATE], w->array[QWEN_CUDA_UP],
	    w->array[QWEN_CUDA_OUT]);
}

/* -------------------------------------------------------- choice of experts */

/* u32: a pair of each row and expert, then where each expert's begin. */
uint64_t
qwen_cuda_moe_scratch(const struct qwen_net *net, size_t n)
{
	return ((uint64_t)n * net->hp.n_expert_used + net->hp.n_expert + 1) *
	    sizeof(u32);
}

/* Bytes of a block's memory that n rows need. */
static size_t
route_bytes(const struct qwen_hparams *h, size_t n)
{
	return sizeof(u32) * n * ROUTE_NUMBERS(h->n_expert, h->n_expert_used);
}

/* Can one block route and sort n rows? */
static int
is_one_block(const struct qwen_cuda_work *w, size_t n)
{
	const struct qwen_hparams *h = &w->net->hp;

	return n <= ROUTE_WARPS && route_bytes(h, n) +
	    h->n_expert * sizeof(u32) <= (size_t)w->c->card->shared_max;
}

/* Chooses and weighs the experts of all rows; returns them sorted. */
static struct qwen_cuda_pairs
route(struct qwen_cuda_work *w)
{
	const struct qwen_hparams *h = &w->net->hp;
	size_t n = w->p->n, n_pair = n * h->n_expert_used;
	struct qwen_cuda_pairs p = { .at = w->scratch, .first = w->scratch +
	    n_pair * sizeof(u32), .n_pair = n_pair, .per = h->n_expert_used };
	struct dev_route a = {
	    .logit = QWEN_CUDA_P(w->array[QWEN_CUDA_ROUTER]),
	    .share = QWEN_CUDA_P(w->array[QWEN_CUDA_SHARE]),
	    .chosen = QWEN_CUDA_P(w->array[QWEN_CUDA_CHOSEN]),
	    .at = QWEN_CUDA_P(p.at), .first = QWEN_CUDA_P(p.first),
	    .n = (u32)n, .n_expert = (u32)h->n_expert,
	    .used = (u32)h->n_expert_used,
	    .logit_stride = (u32)(w->width[QWEN_CUDA_ROUTER] / sizeof(f32)),
	    .share_stride = (u32)(w->width[QWEN_CUDA_SHARE] / sizeof(f32)),
	    .chosen_stride = (u32)(w->width[QWEN_CUDA_CHOSEN] / sizeof(u32)),
	    .has_shared = h->n_ff_shexp > 0,
	    .share_of_all = w->net->arch->share_of_all != 0,
	    .scale = h->expert_scale };
	int one = is_one_block(w, n);
	struct qwen_cuda_launch l = { .module = "route", .name = "route",
	    .x = one ? 1 : (unsigned)n, .threads = one ? 32 * (unsigned)n : 32,
	    .shared = route_bytes(h, one ? n : 1) +
	    h->n_expert * sizeof(u32) };

	qwen_cuda_run(w->c->card, &l, &a, sizeof a);
	if (!one) {
		l = (struct qwen_cuda_launch){ .module = "route",
		    .name = "sort_experts", .x = 1,
		    .threads = ROUTE_SORT_THREADS,
		    .shared = h->n_expert * sizeof(u32) };
		qwen_cuda_run(w->c->card, &l, &a, sizeof a);
	}
	return p;
}

/* ---------------------------------------------------------------- experts */

/* What chosen experts make of their rows, to y. */
static void
run_routed(struct qwen_cuda_work *w, const struct qwen_cuda_mlp *l,
    struct qwen_cuda_pairs p, cu_ptr y)
{
	struct qwen_cuda_rows x = normed_rows(w);
	cu_ptr gate = w->array[QWEN_CUDA_GATE], up = w->array[QWEN_CUDA_UP];
	size_t n_ff = l->down.n_in;

	qwen_cuda_multiply_pairs(w, &l->gate, &x, &p, gate, n_ff);
	qwen_cuda_multiply_pairs(w, &l->up, &x, &p, up, n_ff);
	qwen_cuda_silu_multiply(w, gate, up, n_ff, n_ff, p.n_pair);
	x = (struct qwen_cuda_rows){ .x = gate,
	    .groups = w->array[QWEN_CUDA_GROUPS], .stride = n_ff,
	    .n = p.n_pair };
	p.per = 1;
	qwen_cuda_multiply_pairs(w, &l->down, &x, &p, y, w->net->hp.n_embd);
}

/* Adds what experts have made to OUT. */
static void
combine(struct qwen_cuda_work *w, cu_ptr y)
{
	const struct qwen_hparams *h = &w->net->hp;
	struct dev_combine a = { .y = QWEN_CUDA_P(y),
	    .share = QWEN_CUDA_P(w->array[QWEN_CUDA_SHARE]),
	    .out = QWEN_CUDA_P(w->array[QWEN_CUDA_OUT]), .n = (u32)w->p->n,
	    .used = (u32)h->n_expert_used, .n_embd = (u32)h->n_embd,
	    .has_shared = h->n_ff_shexp > 0, .y_stride = (u32)h->n_embd,
	    .share_stride = (u32)(w->width[QWEN_CUDA_SHARE] / sizeof(f32)),
	    .out_stride = (u32)(w->width[QWEN_CUDA_OUT] / sizeof(f32)) };
	struct qwen_cuda_launch l = { .module = "experts",
	    .name = "combine_experts", .x = (unsigned)((h->n_embd +
	    COMBINE_THREADS - 1) / COMBINE_THREADS), .y = (unsigned)w->p->n,
	    .threads = COMBINE_THREADS };

	qwen_cuda_run(w->c->card, &l, &a, sizeof a);
}

void
qwen_cuda_moe(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	const struct qwen_hparams *h = &w->net->hp;
	struct qwen_cuda_rows x = normed_rows(w);
	cu_ptr logit = w->array[QWEN_CUDA_ROUTER], y = w->array[QWEN_CUDA_Y];
	size_t stride = w->width[QWEN_CUDA_ROUTER] / sizeof(float);
	size_t used = x.n * h->n_expert_used;

	qwen_cuda_multiply(w, &l->router, &x, logit, stride);
	if (h->n_ff_shexp > 0)
		qwen_cuda_multiply(w, &l->shared_router, &x, logit +
		    h->n_expert * sizeof(float), stride);
	run_routed(w, &l->routed, route(w), y);
	if (h->n_ff_shexp > 0)
		gated(w, &l->shared, w->array[QWEN_CUDA_GATE] +
		    used * h->n_ff_exp * sizeof(float),
		    w->array[QWEN_CUDA_UP] + used * h->n_ff_exp *
		    sizeof(float), y + used * h->n_embd * sizeof(float));
	combine(w, y);
}
