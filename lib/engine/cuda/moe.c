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

/* Where rows of hidden numbers are: gate's, `stride' numbers apart, and up's. */
struct hidden {
	cu_ptr	gate, up;
	size_t	n_ff, stride;
};

/* Were gate and up joined?  Then a product with gate gives both results. */
static int
is_joined(const struct qwen_cuda_mlp *l)
{
	return l->up.data == 0;
}

/* Shares out the memory of GATE, and of UP, which follows it, for n rows. */
static struct hidden
hidden_of(const struct qwen_cuda_work *w, const struct qwen_cuda_mlp *l,
    size_t n)
{
	struct hidden h = { .gate = w->array[QWEN_CUDA_GATE],
	    .n_ff = l->down.n_in };

	h.stride = is_joined(l) ? 2 * h.n_ff : h.n_ff;
	h.up = h.gate + (is_joined(l) ? 1 : n) * h.n_ff * sizeof(float);
	return h;
}

/* The products of gate and up, of all rows or of pairs, to rows from `at' on. */
static void
multiply_hidden(struct qwen_cuda_work *w, const struct qwen_cuda_mlp *l,
    const struct qwen_cuda_pairs *p, const struct hidden *h, size_t at)
{
	struct qwen_cuda_rows x = normed_rows(w);
	cu_ptr to[] = { h->gate + at * h->stride * sizeof(float),
	    h->up + at * h->stride * sizeof(float) };
	const struct qwen_cuda_weight *m[] = { &l->gate, &l->up };
	int i;

	for (i = 0; i < 2 - is_joined(l); i++) {
		if (p != NULL)
			qwen_cuda_multiply_pairs(w, m[i], &x, p, to[i],
			    h->stride);
		else
			qwen_cuda_multiply(w, m[i], &x, to[i], h->stride);
	}
}

/* Makes silu(gate) * up of n rows, and their groups. */
static struct qwen_cuda_rows
activate(struct qwen_cuda_work *w, const struct hidden *h, size_t n)
{
	qwen_cuda_silu_multiply(w, h->gate, h->up, h->stride, h->n_ff, n);
	return (struct qwen_cuda_rows){ .x = h->gate,
	    .groups = w->array[QWEN_CUDA_GROUPS], .stride = h->stride, .n = n };
}

/* down(silu(gate x) * up x) of all rows, to y. */
static void
gated(struct qwen_cuda_work *w, const struct qwen_cuda_mlp *l, cu_ptr y)
{
	struct hidden h = hidden_of(w, l, w->p->n);
	struct qwen_cuda_rows x;

	multiply_hidden(w, l, NULL, &h, 0);
	x = activate(w, &h, w->p->n);
	qwen_cuda_multiply(w, &l->down, &x, y, w->net->hp.n_embd);
}

void
qwen_cuda_mlp(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	gated(w, &l->mlp, w->array[QWEN_CUDA_OUT]);
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
	    n_pair * sizeof(u32), .n_pair = n_pair, .per = each,
	    .matrix = n == 1 ? w->array[QWEN_CUDA_CHOSEN] : 0 };
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

	if (qwen_cuda_ones_route(w, &a))
		return p;
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

	if (!qwen_cuda_ones_combine(w, &a))
		qwen_cuda_run(w->c->card, &l, &a, sizeof a);
}

/* Computes the router's logits, and the shared expert's. */
static void
multiply_router(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	struct qwen_cuda_rows x = normed_rows(w);
	cu_ptr logit = w->array[QWEN_CUDA_ROUTER];
	size_t stride = w->width[QWEN_CUDA_ROUTER] / sizeof(float);

	qwen_cuda_multiply(w, &l->router, &x, logit, stride);
	if (l->shared_router.data != 0)		/* not joined to the router */
		qwen_cuda_multiply(w, &l->shared_router, &x, logit +
		    w->net->hp.n_expert * sizeof(float), stride);
}

/*
 * Experts of pairs, to rows of y, then the shared one of all rows, which has no
 * pairs, if `apart'.
 */
static void
run_experts(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l,
    struct qwen_cuda_pairs p, int apart)
{
	size_t n = w->p->n, n_embd = w->net->hp.n_embd;
	cu_ptr y = w->array[QWEN_CUDA_Y];
	cu_ptr y_shared = y + p.n_pair * n_embd * sizeof(float);
	/* can one launch activate the rows of both? */
	int both = apart && l->shared.down.n_in == l->routed.down.n_in &&
	    is_joined(&l->shared) == is_joined(&l->routed);
	size_t rows = p.n_pair + (both ? n : 0);
	struct hidden h = hidden_of(w, &l->routed, rows);
	struct qwen_cuda_rows x;

	multiply_hidden(w, &l->routed, &p, &h, 0);
	if (both)
		multiply_hidden(w, &l->shared, NULL, &h, p.n_pair);
	x = activate(w, &h, rows);
	p.per = 1;
	qwen_cuda_multiply_pairs(w, &l->routed.down, &x, &p, y, n_embd);
	if (both) {
		x.x += p.n_pair * h.stride * sizeof(float);
		x.groups += p.n_pair * qwen_cuda_groups_bytes(w->net, h.n_ff);
		x.n = n;
		qwen_cuda_multiply(w, &l->shared.down, &x, y_shared, n_embd);
	} else if (apart) {
		/* the same memory has the rows of both, in turn */
		qwen_cuda_settle(w->c->card);
		gated(w, &l->shared, y_shared);
	}
}

void
qwen_cuda_moe(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	int alike = is_alike(w, l);
	int apart = w->net->hp.n_ff_shexp > 0 && !alike;
	struct qwen_cuda_pairs p;

	multiply_router(w, l);
	p = route(w, alike);
	run_experts(w, l, p, apart);
	combine(w, p.per, apart);
}
