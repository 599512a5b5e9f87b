/* SPDX-License-Identifier: ISC */
/*
 * ones.c - the products of one row of activations, put off until it is known what
 * is done with their results: all of that is one launch.
 */
#include "engine/cuda/cuda.h"
#include "engine/cuda/layout.h"

/* So that a processor of the card has three blocks at once. */
enum { REGISTERS = 80 };

static void
launch(void *arg)
{
	struct qwen_cuda_work *w = arg;

	if (w->n_one == 0)
		return;
	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){ .module = "one",
	    .name = "one", .x = w->ones.end[w->n_one - 1],
	    .threads = ONE_THREADS, .shared = w->ones_bytes,
	    .registers = REGISTERS }, &w->ones, sizeof w->ones);
	w->n_one = 0;
}

/* ------------------------------------------------------------------- products */

/*
 * Returns how many rows of weights a warp multiplies: few enough to keep all
 * processors of the card busy, and enough to read weights ahead.
 */
static u32
rows_of_warp(const struct qwen_cuda_work *w, const struct dev_product *a,
    u32 nb)
{
	u32 least = nb < ONE_UNITS ? ONE_UNITS / nb : 1;
	u32 most = 128 / nb < 32 ? 128 / nb : 32;	/* a lane each */
	u32 rows = a->n_out * a->n / (3 * ONE_WARPS *
	    (u32)w->c->card->n_sm);

	rows = rows < most ? rows : most;
	return rows > least ? rows : least;
}

/* Is there one row of activations, or pairs of one and a matrix each? */
static int
is_one(const struct dev_product *a)
{
	return !a->two && (a->at != NULL ? a->matrix != NULL : a->n == 1);
}

int
qwen_cuda_ones_multiply(struct qwen_cuda_work *w,
    const struct qwen_cuda_weight *m, const struct dev_product *a)
{
	static const u32 format[] = { [QWEN_CUDA_Q4_K] = F_Q4_K,
	    [QWEN_CUDA_Q5_K] = F_Q5_K, [QWEN_CUDA_Q6_K] = F_Q6_K,
	    [QWEN_CUDA_Q8_0] = F_Q8_0, [QWEN_CUDA_Q4] = F_Q4,
	    [QWEN_CUDA_IQ4_XS] = F_IQ4_XS, [QWEN_CUDA_Q3_K] = F_Q3_K,
	    [QWEN_CUDA_Q2_K] = F_Q2_K };
	struct qwen_cuda_card *c = w->c->card;
	enum qwen_cuda_layout l = qwen_cuda_layout_of(m->of);
	u32 nb = (a->n_in + 255) / 256, rows = rows_of_warp(w, a, nb), i;
	int is_float = l == QWEN_CUDA_FLOATS;
	size_t bytes = is_float ? 16 : ONE_BYTES(nb, rows);

	if (!is_one(a) || (!is_float && l >= QWEN_CUDA_SUPER) ||
	    bytes > (size_t)c->shared_max)
		return 0;
	if (c->later_arg != w || w->n_one == ONES_MAX || w->ones.then != 0)
		qwen_cuda_settle(c);
	if (c->later == NULL) {
		w->ones = (struct dev_ones){
		    .counter = QWEN_CUDA_P(w->counter) };
		w->n_one = w->ones_bytes = 0;
		qwen_cuda_put_off(c, launch, w);
	}
	i = (u32)w->n_one++;
	w->ones.p[i] = *a;
	w->ones.p[i].rows = rows;
	w->ones.format[i] = is_float ? ONES_FLOATS + a->kind : format[l];
	rows = is_float ? ONE_FLOATS : ONE_WARPS * rows;
	w->ones.blocks[i] = (a->n_out + rows - 1) / rows;
	w->ones.end[i] = (i > 0 ? w->ones.end[i - 1] : 0) +
	    w->ones.blocks[i] * a->n;
	if (bytes > w->ones_bytes)
		w->ones_bytes = bytes;
	return 1;
}

/* ------------------------------------------------------------- what comes next */

/*
 * Returns 1 if the launch that was put off can also do `then', for which it needs
 * `bytes' of shared memory.
 */
static int
can_add(struct qwen_cuda_work *w, u32 then, size_t bytes)
{
	const struct qwen_cuda_card *c = w->c->card;

	if (c->later == NULL || c->later_arg != w || w->counter == 0 ||
	    (w->ones.then & ~(then == ONES_NORM ? ONES_COMBINE : 0u)) != 0 ||
	    bytes > (size_t)c->shared_max)
		return 0;
	return 1;
}

static void
add(struct qwen_cuda_work *w, u32 then, size_t bytes)
{
	w->ones.then |= then;
	if (bytes > w->ones_bytes)
		w->ones_bytes = bytes;
}

/* All rows of gate and up, side by side or not, must be results of these products. */
int
qwen_cuda_ones_silu(struct qwen_cuda_work *w, const struct dev_rows *a)
{
	int joined = a->stride == 2 * a->n;
	size_t got = 0, i;

	if (!can_add(w, ONES_SILU, 0) || (!joined && a->stride != a->n) ||
	    (size_t)a->n_row * ((a->n + 255) / 256) > QWEN_CUDA_COUNTERS)
		return 0;
	for (i = 0; i < w->n_one; i++) {
		const struct dev_product *p = &w->ones.p[i];
		int is_up = !joined && (uintptr_t)p->y >= (uintptr_t)a->up;

		if (p->n_out != a->stride || p->y_stride != a->stride)
			return 0;
		w->ones.column[i] = is_up ? a->n : 0;
		w->ones.row[i] = (u32)(((uintptr_t)p->y - (is_up ?
		    (uintptr_t)a->up : (uintptr_t)a->x)) /
		    (a->stride * sizeof(float)));
		got += (size_t)p->n * p->n_out;
	}
	if (got != (size_t)a->n_row * 2 * a->n)
		return 0;
	w->ones.silu = *a;
	add(w, ONES_SILU, 0);
	return 1;
}

int
qwen_cuda_ones_route(struct qwen_cuda_work *w, const struct dev_route *a)
{
	size_t bytes = sizeof(u32) * ROUTE_NUMBERS(a->n_expert, a->used);

	if (a->n != 1 || !can_add(w, ONES_ROUTE, bytes))
		return 0;
	w->ones.route = *a;
	add(w, ONES_ROUTE, bytes);
	return 1;
}

int
qwen_cuda_ones_combine(struct qwen_cuda_work *w, const struct dev_combine *a)
{
	if (a->n != 1 || a->n_embd % 4 != 0 || !can_add(w, ONES_COMBINE, 0))
		return 0;
	w->ones.combine = *a;
	add(w, ONES_COMBINE, 0);
	return 1;
}

int
qwen_cuda_ones_norm(struct qwen_cuda_work *w, const struct dev_norm *a)
{
	size_t bytes = (a->n + 1) * sizeof(float);

	if (a->pass.n != 1 || a->n % 4 != 0 || a->out == NULL ||
	    !can_add(w, ONES_NORM, bytes))
		return 0;
	w->ones.norm = *a;
	add(w, ONES_NORM, bytes);
	return 1;
}
