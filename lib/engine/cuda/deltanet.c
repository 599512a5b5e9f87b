/* SPDX-License-Identifier: ISC */
/*
 * deltanet.c - gated DeltaNet on a card: projections; what the rule takes of each
 * row; the rule, session by session; a gated norm, and what sessions keep.
 */
#include <assert.h>
#include <math.h>

#include "engine/cuda/cuda.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/kernel/deltanet.h"

_Static_assert((int)DELTA_JOURNAL == (int)QWEN_GUESS_MAX, "rows of a journal");

/* Numbers of a row of `made': see struct dev_delta. */
static size_t
made_width(const struct qwen_hparams *h)
{
	return (qwen_delta_row_of(h).z + 3) / 4 * 4 + 4 * h->n_head_v;
}

uint64_t
qwen_cuda_deltanet_scratch(const struct qwen_net *net, size_t n)
{
	return (uint64_t)n * made_width(&net->hp) * sizeof(float);
}

static struct dev_delta
arguments(const struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	const struct qwen_hparams *h = &w->net->hp;
	struct qwen_cuda_place at = qwen_cuda_place_of(w, l->of->index);
	int two = w->net->operands[QWEN_AS_TWO_Q8];
	int has_groups = two || w->net->operands[QWEN_AS_Q8];

	return (struct dev_delta){ .pass = w->pass,
	    .n_share = (u32)w->p->n_share,
	    .n_head_k = (u32)h->n_head_k, .n_head_v = (u32)h->n_head_v,
	    .dk = (u32)h->dk, .dv = (u32)h->dv, .taps = (u32)h->conv_kernel,
	    .grouped = h->grouped != 0, .by_key = l->of->delta.by_key != 0,
	    .eps = h->eps, .q_scale = (float)(1.0 / sqrt((double)h->dk)),
	    .in_stride = (u32)(w->width[QWEN_CUDA_IN] / sizeof(float)),
	    .o_stride = (u32)(w->width[QWEN_CUDA_O] / sizeof(float)),
	    .made_stride = (u32)made_width(h),
	    .in = QWEN_CUDA_P(w->array[QWEN_CUDA_IN]),
	    .o = QWEN_CUDA_P(w->array[QWEN_CUDA_O]),
	    .made = QWEN_CUDA_P(w->scratch),
	    .conv = QWEN_CUDA_P(l->conv), .a = QWEN_CUDA_P(l->a),
	    .dt = QWEN_CUDA_P(l->dt), .norm = QWEN_CUDA_P(l->norm),
	    .groups = has_groups ?
	    QWEN_CUDA_P(w->array[QWEN_CUDA_GROUPS]) : NULL,
	    .group_bytes = qwen_cuda_groups_bytes(w->net, h->n_head_v * h->dv),
	    .two = two != 0,
	    .s = at.s, .state_conv = at.conv, .journal = at.journal,
	    .journal_row = at.journal_row };
}

static void
run(struct qwen_cuda_card *c, const struct qwen_cuda_launch *l,
    const struct dev_delta *a)
{
	if (l->x > 0)
		qwen_cuda_run(c, l, a, sizeof *a);
}

/* Makes what the rule takes of all rows. */
static void
prepare(struct qwen_cuda_card *c, const struct dev_delta *a)
{
	struct qwen_cuda_launch l = { .module = "deltanet",
	    .name = "delta_prepare", .x = 2 * a->n_head_k + a->n_head_v + 1,
	    .y = (a->pass.n + DELTA_ROWS - 1) / DELTA_ROWS,
	    .threads = DELTA_THREADS };

	run(c, &l, a);
}

/* Is there a kernel that has columns of the state in registers? */
static int
is_fast(const struct dev_delta *a)
{
	return a->dk == DELTA_K && a->dv == DELTA_K;
}

/* The rule for all rows, which are made if is_short is 0. */
static void
apply_rule(struct qwen_cuda_card *c, struct dev_delta *a, int is_short)
{
	struct qwen_cuda_launch l = { .module = "delta_rule",
	    .name = is_short ? "delta_step" : "delta_rule", .x = a->n_head_v,
	    .y = a->dv / DELTA_COLUMNS, .z = a->n_share,
	    .threads = (is_short ? 1 : DELTA_WARPS) * DELTA_COLUMNS,
	    .shared = sizeof(float) * (is_short ? DELTA_RING * DELTA_TOKEN :
		DELTA_RULE_NUMBERS) };
	size_t most = (size_t)c->shared_max / (a->dk * sizeof(float));

	/* where there are few blocks, more warps make rows */
	if (is_short && l.x * l.y * l.z <= 4 * (unsigned)c->n_sm)
		l.threads = 4 * DELTA_COLUMNS;
	if (!is_fast(a)) {
		a->columns = most < DELTA_COLUMNS ? (u32)most : DELTA_COLUMNS;
		assert(a->columns > 0);
		l.module = "deltanet";
		l.name = "delta_any";
		l.threads = DELTA_COLUMNS;
		l.y = (a->dv + a->columns - 1) / a->columns;
		l.shared = a->dk * a->columns * sizeof(float);
	}
	run(c, &l, a);
}

/*
 * Norms the rule's results, and lets sessions keep what they need; also makes the
 * results' groups if dv is DELTA_K.
 */
static void
finish(struct qwen_cuda_card *c, const struct dev_delta *a)
{
	u32 channels = 2 * a->n_head_k * a->dk + a->n_head_v * a->dv;
	struct qwen_cuda_launch l = { .module = "deltanet",
	    .name = "delta_finish", .threads = DELTA_THREADS };

	if (a->dv == DELTA_K) {
		l.name = "delta_finish_128";
		l.shared = 256 * DELTA_GROUPS * sizeof(float);
		l.x = (a->pass.n * ((a->n_head_v + 1) / 2) + DELTA_GROUPS -
		    1) / DELTA_GROUPS;
	} else
		l.x = (a->pass.n + DELTA_ROWS - 1) / DELTA_ROWS * a->n_head_v;
	l.x += (channels + DELTA_THREADS - 1) / DELTA_THREADS * a->n_share;
	run(c, &l, a);
}

/* A graph's launches must not depend on how rows are shared out. */
_Static_assert((int)DELTA_STEPS >= QWEN_CUDA_GRAPH_ROWS, "rows of a graph");

/* Have all sessions few rows? */
static int
are_short(const struct qwen_pass *p)
{
	size_t i;

	for (i = 0; i < p->n_share; i++) {
		if (p->share[i].n > DELTA_STEPS)
			return 0;
	}
	return 1;
}

/* Can delta_step do what delta_finish does?  Sets the argument so. */
static int
is_alone(const struct qwen_cuda_work *w, struct dev_delta *a)
{
	size_t each = (a->n_head_v + 1) / 2 + a->n_head_k;

	if (!qwen_cuda_are_alone(w->p) || w->counter == 0 ||
	    w->p->n_share * each > QWEN_CUDA_COUNTERS)
		return 0;
	a->counter = QWEN_CUDA_P(w->counter);
	return 1;
}

void
qwen_cuda_deltanet(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	struct dev_delta a = arguments(w, l);
	struct qwen_cuda_rows x = { .x = w->array[QWEN_CUDA_XN],
	    .groups = w->array[QWEN_CUDA_GROUPS_X],
	    .stride = w->net->hp.n_embd, .n = w->p->n };
	const struct qwen_deltanet *of = &l->of->delta;
	size_t i, n_out = w->net->hp.n_head_v * w->net->hp.dv;
	int is_short = is_fast(&a) && a.taps == DELTA_TAPS && are_short(w->p);
	int alone = is_short && is_alone(w, &a);

	for (i = 0; i < of->n_in; i++) {
		if (l->in[i].data != 0)		/* not joined to another */
			qwen_cuda_multiply(w, &l->in[i], &x,
			    w->array[QWEN_CUDA_IN] +
			    of->in[i].at * sizeof(float), a.in_stride);
	}
	if (!is_short)
		prepare(w->c->card, &a);
	apply_rule(w->c->card, &a, is_short);
	if (!alone)
		finish(w->c->card, &a);
	if (a.dv != DELTA_K)
		qwen_cuda_quantize(w, w->array[QWEN_CUDA_O], a.o_stride, n_out,
		    w->p->n);
	x.x = w->array[QWEN_CUDA_O];
	x.groups = w->array[QWEN_CUDA_GROUPS];
	x.stride = a.o_stride;
	qwen_cuda_multiply(w, &l->out, &x, w->array[QWEN_CUDA_OUT],
	    w->width[QWEN_CUDA_OUT] / sizeof(float));
}

void
qwen_cuda_replay(struct qwen_resident *r, struct qwen_memory *m, size_t from,
    size_t n)
{
	struct qwen_cuda *c = (struct qwen_cuda *)(void *)r;
	/* a pass of one session, without rows */
	struct qwen_share share = { .mem = m };
	struct qwen_pass pass = { .share = &share, .n_share = 1 };
	struct qwen_cuda_work w = { .w = { r }, .c = c, .net = r->net,
	    .p = &pass };
	struct dev_delta a;
	size_t i;

	qwen_cuda_enter(c->card);
	for (i = 0; i < r->net->hp.n_layer; i++) {
		if (!qwen_cuda_has(r, QWEN_MIXER(i)) ||
		    r->net->layer[i].mixer != QWEN_DELTANET)
			continue;
		a = arguments(&w, &c->layer[i]);
		a.alone = (struct dev_share){ .state = qwen_cuda_state_at(r, m),
		    .pos = (u32)(from + n), .owed = (u32)n };
		apply_rule(c->card, &a, 0);
		finish(c->card, &a);
	}
}
