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
 * Makes silu(gate x) * up x and its groups, of the rows of x or, if p is not NULL,
 * of pairs.  `to' has room for twice the hidden numbers.
 */
static struct qwen_cuda_rows
hidden(struct qwen_cuda_work *w, const struct qwen_cuda_mlp *l,
    const struct qwen_cuda_pairs *p, cu_ptr to)
{
	struct qwen_cuda_rows x = normed_rows(w);
	size_t n_ff = l->down.n_in, n = p != NULL ? p->n_pair : x.n;
	/* gate may have the rows of both: then each row has both results */
	int joined = l->up.data == 0;
	size_t stride = joined ? 2 * n_ff : n_ff;
	cu_ptr up = to + (joined ? n_ff : n * n_ff) * sizeof(float);

	if (p != NULL)
		qwen_cuda_multiply_pairs(w, &l->gate, &x, p, to, stride);
	else
		qwen_cuda_multiply(w, &l->gate, &x, to, stride);
	if (!joined && p != NULL)
		qwen_cuda_multiply_pairs(w, &l->up, &x, p, up, stride);
	else if (!joined)
		qwen_cuda_multiply(w, &l->up, &x, up, stride);
	qwen_cuda_silu_multiply(w, to, up, stride, n_ff, n);
	return (struct qwen_cuda_rows){ .x = to,
	    .groups = w->array[QWEN_CUDA_GROUPS], .stride = stride, .n = n };
}

/* down(silu(gate x) * up x) of all rows, to y. */
static void
gated(struct qwen_cuda_work *w, const struct qwen_cuda_mlp *l, cu_ptr to,
    cu_ptr y)
{
	struct qwen_cuda_rows x = hidden(w, l, NULL, to);

	qwen_cuda_multiply(w, &l->down, &x, y, w->net->hp.n_embd);
}

/* UP follows GATE in memory, so that this has room for both. */
void
qwen_cuda_mlp(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	gated(w, &l->mlp, w->array[QWEN_CUDA_GATE], w->array[QWEN_CUDA_OUT]);
}

/* -------------------------------------------------------- choice of experts */

/* u32: a pair of each row and expert, then where each expert's begin. */
uint64_t
qwen_cuda_moe_scratch(const struct qwen_net *net, size_t n)
{
	return ((uint64_t)n * (net->hp.n_expert_used + 1) + net->hp.n_expert +
	    2) * sizeof(u32);
}

/* Is the shared expert the last of the stack of experts? */
static int
is_alike(const struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	return l->routed.down.n_matrix > w->net->hp.n_expert;
}

/* Bytes of a block's memory that n rows need. */
static size_t
route_bytes(const struct qwen_hparams *h, size_t n)
{
	return sizeof(u32) * (n * ROUTE_NUMBERS(h->n_expert,
	    h->n_expert_used) + h->n_expert + 1);
}

/* Can one block route and sort n rows? */
static int
is_one_block(const struct qwen_cuda_work *w, size_t n)
{
	return n <= ROUTE_WARPS && route_bytes(&w->net->hp, n) <=
	    (size_t)w->c->card->shared_max;
}

/* Chooses and weighs the experts of all rows; returns them sorted. */
static struct qwen_cuda_pairs
route(struct qwen_cuda_work *w, int alike)
{
	const struct qwen_hparams *h = &w->net->hp;
	size_t n = w->p->n, each = h->n_expert_used + (alike != 0);
	size_t n_pair = n * each;
	struct qwen_cuda_pairs p = { .at = w->scratch, .first = w->scratch +
	    n_pair * sizeof(u32), .n_pair = n_pair, .per = each };
	struct dev_route a = {
	    .logit = QWEN_CUDA_P(w->array[QWEN_CUDA_ROUTER]),
	    .share = QWEN_CUDA_P(w->array[QWEN_CUDA_SHARE]),
	    .chosen = QWEN_CUDA_P(w->array[QWEN_CUDA_CHOSEN]),
	    .at = QWEN_CUDA_P(p.at), .first = QWEN_CUDA_P(p.first),
	    .n = (u32)n, .n_expert = (u32)h->n_expert,
	    .used = (u32)h->n_expert_used, .each = (u32)each,
	    .logit_stride = (u32)(w->width[QWEN_CUDA_ROUTER] / sizeof(f32)),
	    .share_stride = (u32)(w->width[QWEN_CUDA_SHARE] / sizeof(f32)),
	    .chosen_stride = (u32)(w->width[QWEN_CUDA_CHOSEN] / sizeof(u32)),
	    .has_shared = h->n_ff_shexp > 0,
	    .share_of_all = w->net->arch->share_of_all != 0,
	    .scale = h->expert_scale };
	int one = is_one_block(w, n);
	struct qwen_cuda_launch l = { .module = "route", .name = "route",
	    .x = one ? 1 : (unsigned)n, .threads = one ? 32 * (unsigned)n : 32,
	    .shared = route_bytes(h, one ? n : 1) };

	qwen_cuda_run(w->c->card, &l, &a, sizeof a);
	if (!one) {
		l = (struct qwen_cuda_launch){ .module = "route",
		    .name = "sort_experts", .x = 1,
		    .threads = ROUTE_SORT_THREADS,
		    .shared = route_bytes(h, 0) };
		qwen_cuda_run(w->c->card, &l, &a, sizeof a);
	}
	return p;
}

/* ---------------------------------------------------------------- experts */

/* Adds what `each' experts, and perhaps the shared one, made of a row, to OUT. */
static void
combine(struct qwen_cuda_work *w, size_t each, int and_shared)
{
	const struct qwen_hparams *h = &w->net->hp;
	struct dev_combine a = { .y = QWEN_CUDA_P(w->array[QWEN_CUDA_Y]),
	    .share = QWEN_CUDA_P(w->array[QWEN_CUDA_SHARE]),
	    .out = QWEN_CUDA_P(w->array[QWEN_CUDA_OUT]), .n = (u32)w->p->n,
	    .used = (u32)each, .n_embd = (u32)h->n_embd,
	    .has_shared = (u32)and_shared, .y_stride = (u32)h->n_embd,
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
	cu_ptr to = w->array[QWEN_CUDA_GATE];
	size_t stride = w->width[QWEN_CUDA_ROUTER] / sizeof(float);
	int alike = is_alike(w, l), apart = h->n_ff_shexp > 0 && !alike;
	struct qwen_cuda_pairs p;

	qwen_cuda_multiply(w, &l->router, &x, logit, stride);
	if (l->shared_router.data != 0)		/* not joined to the router */
		qwen_cuda_multiply(w, &l->shared_router, &x, logit +
		    h->n_expert * sizeof(float), stride);
	p = route(w, alike);
	x = hidden(w, &l->routed, &p, to);
	p.per = 1;
	qwen_cuda_multiply_pairs(w, &l->routed.down, &x, &p, y, h->n_embd);
	to += 2 * p.n_pair * h->n_ff_exp * sizeof(float);
	if (apart)
		gated(w, &l->shared, to, y + p.n_pair * h->n_embd *
		    sizeof(float));
	combine(w, p.n_pair / w->p->n, apart);
}
