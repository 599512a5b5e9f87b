/* SPDX-License-Identifier: ISC */
/*
 * moe.c - mixture of experts: router, top-k, gated MLPs, and a shared expert.
 *
 * The shared expert is one more, the last, which all tokens use.  A slot is one
 * (token, expert) pair; slots are sorted by expert.  An output row is owned by
 * one thread, which walks the experts in ascending order: a token's sum is then
 * the same in any batch, with no buffer of experts' outputs and no atomics.
 */
#include <string.h>

#include "engine/quant/math.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/lora.h"

struct work {
	const struct qwen_moe	*moe;
	struct qwen_batch	*b;
	size_t			 used;		/* experts of a token */
	size_t			 rows;		/* of gate and up an item */
	size_t			 rows_down;	/* of down an item */
	size_t			 n_chunk;	/* of such rows */
	size_t			 n_chunk_shared;
	size_t			 n_active;	/* experts that have slots */
	size_t			 n_routed;	/* but for the shared one */
};

/* Returns the matrices of expert e. */
static const struct qwen_mlp *
mlp_of(const struct work *w, size_t e)
{
	return e < w->b->hp->n_expert ? &w->moe->routed : &w->moe->shared;
}

/*
 * Selects the k largest logits (ties: the lower index). Their weights are the
 * softmax over them, or their share of the softmax over all.
 */
static void
select_experts(const struct qwen_hparams *h, int share_of_all,
    const float *logits, uint32_t *expert, float *weight)
{
	size_t k = h->n_expert_used, n = 0, e, i;
	float sum = 0.0f;

	for (e = 0; e < h->n_expert; e++) {
		if (n == k && !(logits[e] > logits[expert[k - 1]]))
			continue;
		i = n < k ? n++ : k - 1;
		for (; i > 0 && logits[e] > logits[expert[i - 1]]; i--)
			expert[i] = expert[i - 1];
		expert[i] = (uint32_t)e;
	}
	for (i = 0; i < k; i++) {
		weight[i] = qwen_expf(logits[expert[i]] - logits[expert[0]]);
		sum += weight[i];
	}
	if (share_of_all) {
		for (sum = 0.0f, e = 0; e < h->n_expert; e++)
			sum += qwen_expf(logits[e] - logits[expert[0]]);
	}
	for (i = 0; i < k; i++)
		weight[i] = weight[i] / sum * h->expert_scale;
}

static void
route(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_hparams *h = b->hp;
	const struct work *work = arg;
	const float *logits = b->s->moe.router + t * (h->n_expert + 1);
	uint32_t *expert = b->s->moe.expert + t * work->used;
	float *w = b->s->moe.weight + t * work->used;
	size_t e;

	select_experts(h, b->net->arch->share_of_all, logits, expert, w);
	/* one that is NaN or -inf may not be among the chosen: show it */
	for (e = 0; e < h->n_expert; e++) {
		if (!isfinite(logits[e]))
			w[0] = NAN;
	}
	if (work->used == h->n_expert_used)
		return;
	expert[h->n_expert_used] = (uint32_t)h->n_expert;
	w[h->n_expert_used] = isfinite(logits[h->n_expert]) ?
	    qwen_sigmoidf(logits[h->n_expert]) : NAN;
}

/* Counting sort of the slots by expert; within one, by token. */
static void
sort_slots(struct work *w)
{
	struct qwen_scratch *s = w->b->s;
	size_t n = w->b->n * w->used, n_expert = w->b->hp->n_expert, i, e;

	memset(s->moe.first, 0, (n_expert + 2) * sizeof *s->moe.first);
	for (i = 0; i < n; i++)
		s->moe.first[s->moe.expert[i]]++;
	for (e = i = w->n_active = 0; e <= n_expert; e++) {
		if (s->moe.first[e] > 0)
			s->moe.active[w->n_active++] = (uint32_t)e;
		i += s->moe.first[e];
		s->moe.first[e] = (uint32_t)i;	/* where its slots end */
	}
	s->moe.first[e] = (uint32_t)n;
	for (i = n; i-- > 0; )
		s->moe.slot[--s->moe.first[s->moe.expert[i]]] = (uint32_t)i;
}

static const unsigned char *
rows_at(const struct qwen_weight *w, size_t e, size_t r0)
{
	const unsigned char *at = w->part != NULL ? w->part[e] :
	    w->data + e * w->expert_bytes;

	return at + r0 * w->row_bytes;
}

/* Multiplies by at most `rows' rows, from r0, of one expert's matrix. */
static void
multiply(struct qwen_batch *b, const struct qwen_weight *w, size_t e,
    size_t rows, struct qwen_matmul *mm, int thread)
{
	mm->w = rows_at(w, e, mm->r0);
	mm->row_bytes = w->row_bytes;
	mm->n_in = w->n_in;
	mm->quant = w->quant;
	mm->r1 = mm->r0 + rows < w->n_out ? rows : w->n_out - mm->r0;
	mm->r0 = 0;
	qwen_batch_multiply(b, w, mm, thread);
}

static const void *
input(const struct qwen_batch *b, const struct qwen_weight *w, size_t t)
{
	if (qwen_wants_operand(w))
		return qwen_operand(b, w, b->s->xq, b->hp->n_embd, t);
	return b->s->xn + t * b->hp->n_embd;
}

/* ---- what adapters add; slot i has its numbers in row i of low */

/* Returns where up's numbers are in a row of low, after gate's. */
static size_t
low_at(const struct qwen_mlp *mlp, const struct qwen_weight *w)
{
	return w == &mlp->up && w->lora != mlp->gate.lora ?
	    qwen_lora_width(&mlp->gate) : 0;
}

/* Multiplies the inputs of an expert's slots by the adapters' A. */
static void
low_of(const struct work *w, size_t e, const struct qwen_weight *of, int thread)
{
	struct qwen_batch *b = w->b;
	struct qwen_scratch *s = b->s;
	const struct qwen_mlp *mlp = mlp_of(w, e);
	const void **xp = s->thread.xp + (size_t)thread * s->slots;
	float **yp = s->thread.yp + (size_t)thread * s->slots;
	size_t i, j, m, end = s->moe.first[e + 1], most = qwen_token_chunk(b->net);

	for (i = s->moe.first[e]; i < end; i += m) {
		m = end - i < most ? end - i : most;
		for (j = 0; j < m; j++)
			xp[j] = of == &mlp->down ? s->ffn.gate + (i + j) *
			    s->ffn.width : s->xn + s->moe.slot[i + j] / w->used *
			    b->hp->n_embd;
		qwen_lora_low(b, of, e, xp, yp, m, s->low.v + i * 2 *
		    s->low.width + low_at(mlp, of), 2 * s->low.width, thread);
	}
}

/* Item: gate, or up, of an expert that has slots. */
static void
do_low_in(void *arg, size_t item, int thread)
{
	const struct work *w = arg;
	size_t e = w->b->s->moe.active[item / 2];
	const struct qwen_mlp *mlp = mlp_of(w, e);

	if (item % 2 == 0 && mlp->gate.lora != NULL)
		low_of(w, e, &mlp->gate, thread);
	if (item % 2 == 1 && mlp->up.lora != NULL &&
	    mlp->up.lora != mlp->gate.lora)
		low_of(w, e, &mlp->up, thread);
}

static void
do_low_down(void *arg, size_t nth, int thread)
{
	const struct work *w = arg;
	size_t e = w->b->s->moe.active[nth];

	if (mlp_of(w, e)->down.lora != NULL)
		low_of(w, e, &mlp_of(w, e)->down, thread);
}

/* The same for slots from i on, with what adapters add. */
static void
multiply_and_add(const struct work *w, size_t e, const struct qwen_weight *of,
    size_t rows, struct qwen_matmul *mm, size_t i, int thread)
{
	struct qwen_scratch *s = w->b->s;
	struct qwen_lora_rows p = { .w = of, .e = e, .r0 = mm->r0,
	    .n_rows = rows < of->n_out - mm->r0 ? rows : of->n_out - mm->r0,
	    .y = mm->y, .n = mm->n_tok, .stride = 2 * s->low.width };

	if (of->lora != NULL) {
		p.low = s->low.v + i * p.stride + low_at(mlp_of(w, e), of);
		qwen_lora_ahead(&p);
	}
	multiply(w->b, of, e, rows, mm, thread);
	if (of->lora != NULL)
		qwen_lora_add(w->b, &p, thread);
}

/*
 * Computes rows of gate and up, from r0, of expert e for its slots. next is
 * read after them.
 */
static void
gate_up(const struct work *w, size_t e, size_t r0, const unsigned char *next,
    int thread)
{
	struct qwen_batch *b = w->b;
	struct qwen_scratch *s = b->s;
	const struct qwen_mlp *mlp = mlp_of(w, e);
	const void **xp = s->thread.xp + (size_t)thread * s->slots;
	float **yp = s->thread.yp + (size_t)thread * s->slots;
	size_t i, j, m, end = s->moe.first[e + 1], most = qwen_token_chunk(b->net);
	struct qwen_matmul mm;

	for (i = s->moe.first[e]; i < end; i += m) {
		m = end - i < most ? end - i : most;
		mm = (struct qwen_matmul){ .x = xp, .y = yp, .n_tok = m };
		for (int second = 0; second < 2; second++) {
			const struct qwen_weight *of = second ? &mlp->up :
			    &mlp->gate;
			float *y = second ? s->ffn.up : s->ffn.gate;

			for (j = 0; j < m; j++) {
				xp[j] = input(b, of, s->moe.slot[i + j] / w->used);
				yp[j] = y + (i + j) * s->ffn.width + r0;
			}
			/* what is packed for gate serves up */
			mm.r0 = r0;
			mm.next = second ? next : rows_at(&mlp->up, e, r0);
			multiply_and_add(w, e, of, w->rows, &mm, i, thread);
		}
	}
}

/*
 * Finds an item's expert and first row of gate and up; 0 if there is no such
 * item. Chunks of the shared expert, which has the most slots, come first.
 */
static int
find_rows(const struct work *w, size_t item, size_t *e, size_t *r0)
{
	*e = w->b->hp->n_expert;
	*r0 = 0;
	if (item >= w->n_chunk_shared) {
		item -= w->n_chunk_shared;
		if (item >= w->n_routed * w->n_chunk)
			return 0;
		*e = w->b->s->moe.active[item / w->n_chunk];
		item %= w->n_chunk;
	}
	*r0 = item * w->rows;
	return 1;
}

/* Item: an expert's chunk of gate and up rows. */
static void
do_gate_up(void *arg, size_t item, int thread)
{
	const struct work *w = arg;
	const unsigned char *next = NULL;
	size_t e, r0;

	if (find_rows(w, item + 1, &e, &r0))
		next = rows_at(&mlp_of(w, e)->gate, e, r0);
	find_rows(w, item, &e, &r0);
	gate_up(w, e, r0, next, thread);
}

/* Slots one thread takes at a time. */
#define SLOTS 4

static void
do_activate(void *arg, size_t item, int thread)
{
	const struct work *w = arg;
	struct qwen_batch *b = w->b;
	struct qwen_scratch *s = b->s;
	struct qwen_profile *profile = &b->cpu->profile;
	size_t i, n = b->n * w->used;
	uint64_t begin = qwen_profile_begin(profile), bytes = 0;
	const struct qwen_weight *down = NULL, *last;

	for (i = item * SLOTS; i < (item + 1) * SLOTS && i < n; i++) {
		float *g = s->ffn.gate + i * s->ffn.width;

		last = down;
		down = &mlp_of(w, s->moe.expert[s->moe.slot[i]])->down;
		if (last != NULL && last != down) {
			qwen_profile_end_for(profile, thread,
			    QWEN_STAGE_ACTIVATE, last->purpose, begin, bytes,
			    0);
			begin = qwen_profile_begin(profile);
			bytes = 0;
		}
		b->vec->swiglu(g, g, s->ffn.up + i * s->ffn.width, down->n_in);
		bytes += 3 * down->n_in * sizeof *g;
		if (qwen_wants_operand(down))
			qwen_make_operands(b, s->ffn.q, s->ffn.width, i, g,
			    down->n_in);
	}
	if (down != NULL)
		qwen_profile_end_for(profile, thread, QWEN_STAGE_ACTIVATE,
		    down->purpose, begin, bytes, 0);
}

/*
 * Finds how the slots of an expert, the nth that has any, are packed for its
 * down matrix, and where the slots from the at-th on are.
 */
static void
find_packed(const struct work *w, const struct qwen_weight *down, size_t e,
    size_t nth, size_t at, struct qwen_matmul *mm)
{
	struct qwen_matmul m = { .n_in = down->n_in, .n_tok = mm->n_tok,
	    .r1 = down->n_out < w->rows_down ? down->n_out : w->rows_down };
	const struct qwen_scratch *s = w->b->s;
	size_t terms = qwen_terms(down);
	size_t tile = s->moe.first[e] * terms / QWEN_PACK_TOKENS + nth +
	    at * terms / QWEN_PACK_TOKENS;

	/* room for tiles of any kind, and of the widest expert */
	mm->packing = qwen_packing_of(w->b->cpu, down, &m);
	if (mm->packing != NULL)
		mm->packed = s->packed + tile * (s->ffn.width / QWEN_GROUP) *
		    w->b->cpu->kernels.pack_bytes;
}

/* Item: the slots of an expert, packed for its down. */
static void
do_pack(void *arg, size_t nth, int thread)
{
	const struct work *w = arg;
	struct qwen_batch *b = w->b;
	struct qwen_scratch *s = b->s;
	size_t e = s->moe.active[nth], i, j, m, end = s->moe.first[e + 1];
	size_t most = qwen_token_chunk(b->net);
	const struct qwen_weight *down = &mlp_of(w, e)->down;
	const void **xp = s->thread.xp + (size_t)thread * s->slots;
	uint64_t begin = qwen_profile_begin(&b->cpu->profile), bytes = 0;
	struct qwen_matmul mm;

	for (i = s->moe.first[e]; i < end; i += m) {
		m = end - i < most ? end - i : most;
		mm = (struct qwen_matmul){ .n_tok = m };
		find_packed(w, down, e, nth, i - s->moe.first[e], &mm);
		if (mm.packing == NULL)
			continue;
		for (j = 0; j < m; j++)
			xp[j] = qwen_operand(b, down, s->ffn.q, s->ffn.width,
			    i + j);
		qwen_batch_pack(down, mm.packing, (void *)(uintptr_t)mm.packed,
		    xp, m);
		bytes += qwen_batch_packed_bytes(down, mm.packing, m);
	}
	qwen_profile_end_for(&b->cpu->profile, thread, QWEN_STAGE_PACK,
	    down->purpose, begin, bytes, 0);
}

/*
 * Adds weight * down(h) of the slots of expert e, the nth that has any, to the
 * output rows from r0. next is read after them.
 */
static void
down_rows(const struct work *w, size_t e, size_t nth, size_t r0,
    const unsigned char *next, int thread)
{
	struct qwen_batch *b = w->b;
	struct qwen_scratch *s = b->s;
	const struct qwen_weight *down = &mlp_of(w, e)->down;
	const void **xp = s->thread.xp + (size_t)thread * s->slots;
	float **yp = s->thread.yp + (size_t)thread * s->slots;
	float *tile = s->thread.tile + (size_t)thread * QWEN_TOKEN_CHUNK *
	    QWEN_ROW_CHUNK_MANY;
	struct qwen_profile *profile = &b->cpu->profile;
	size_t i, j, m, end = s->moe.first[e + 1], most = qwen_token_chunk(b->net);
	struct qwen_matmul mm;
	uint64_t begin;

	for (i = s->moe.first[e]; i < end; i += m) {
		m = end - i < most ? end - i : most;
		for (j = 0; j < m; j++) {
			xp[j] = qwen_wants_operand(down) ? (const void *)
			    qwen_operand(b, down, s->ffn.q, s->ffn.width, i + j) :
			    (const void *)(s->ffn.gate + (i + j) * s->ffn.width);
			yp[j] = tile + j * w->rows_down;
		}
		mm = (struct qwen_matmul){ .x = xp, .y = yp, .n_tok = m,
		    .r0 = r0, .next = next };
		find_packed(w, down, e, nth, i - s->moe.first[e], &mm);
		multiply_and_add(w, e, down, w->rows_down, &mm, i, thread);
		begin = qwen_profile_begin(profile);
		for (j = 0; j < m; j++) {
			size_t slot = s->moe.slot[i + j];

			b->vec->axpy(s->out + slot / w->used * s->out_width +
			    r0, s->moe.weight[slot], yp[j], mm.r1);
		}
		qwen_profile_end_for(profile, thread, QWEN_STAGE_COMBINE,
		    down->purpose, begin, 3 * m * mm.r1 * sizeof(float),
		    m * mm.r1);
	}
}

/* Item: a chunk of output rows, for all experts in ascending order. */
static void
do_down(void *arg, size_t item, int thread)
{
	const struct work *w = arg;
	struct qwen_batch *b = w->b;
	const uint32_t *active = b->s->moe.active;
	size_t t, e, i, r, r0 = item * w->rows_down, n_embd = b->hp->n_embd;
	size_t r1 = r0 + w->rows_down < n_embd ? r0 + w->rows_down : n_embd;
	const unsigned char *next;

	for (t = 0; t < b->n; t++) {
		for (r = r0; r < r1; r++)
			b->s->out[t * b->s->out_width + r] = 0.0f;
	}
	for (i = 0; i < w->n_active; i++) {
		/* after the last one, the first one's next chunk */
		e = active[i + 1 < w->n_active ? i + 1 : 0];
		r = i + 1 < w->n_active ? r0 : r1;
		next = r < n_embd ? rows_at(&mlp_of(w, e)->down, e, r) : NULL;
		down_rows(w, active[i], i, r0, next, thread);
	}
}

static size_t
chunks(size_t rows, size_t chunk)
{
	return (rows + chunk - 1) / chunk;
}

/* Tells the hook what goes into one matrix of expert e. */
static void
see_input(const struct work *w, const struct qwen_weight *of, size_t e,
    const float *x, size_t stride, const uint32_t *at)
{
	struct qwen_scratch *s = w->b->s;

	w->b->pass->see(w->b->pass, &(struct qwen_seen){ .w = &of, .n_w = 1,
	    .e = e, .x = x, .stride = stride, .at = at, .used = w->used,
	    .n = s->moe.first[e + 1] - s->moe.first[e] });
}

static void
see_inputs(const struct work *w)
{
	const struct qwen_scratch *s = w->b->s;
	const struct qwen_mlp *mlp;
	const uint32_t *at;
	size_t i, e;

	for (i = 0; w->b->pass->see != NULL && i < w->n_active; i++) {
		e = s->moe.active[i];
		mlp = mlp_of(w, e);
		at = s->moe.slot + s->moe.first[e];
		see_input(w, &mlp->gate, e, s->xn, w->b->hp->n_embd, at);
		/* a stack of both is one tensor */
		if (mlp->gate.expert_bytes <= mlp->gate.n_out *
		    mlp->gate.row_bytes)
			see_input(w, &mlp->up, e, s->xn, w->b->hp->n_embd, at);
	}
}

/* The same for down, whose inputs are one row per slot. */
static void
see_down(const struct work *w)
{
	const struct qwen_scratch *s = w->b->s;
	size_t i, e;

	for (i = 0; w->b->pass->see != NULL && i < w->n_active; i++) {
		e = s->moe.active[i];
		see_input(w, &mlp_of(w, e)->down, e, s->ffn.gate +
		    s->moe.first[e] * s->ffn.width, s->ffn.width, NULL);
	}
}

/* Tells the hook of each row's experts, and of the shared one's weight. */
static void
see_choice(const struct work *w, size_t layer)
{
	const struct qwen_scratch *s = w->b->s;
	size_t n = w->b->hp->n_expert, used = w->b->hp->n_expert_used;

	qwen_see(w->b, QWEN_TRACE_ROUTER, layer, s->moe.router, n + 1);
	qwen_see(w->b, QWEN_TRACE_EXPERTS, layer, s->moe.expert, w->used);
	qwen_see(w->b, QWEN_TRACE_WEIGHTS, layer, s->moe.weight, w->used);
	if (w->used > used)
		qwen_see(w->b, QWEN_TRACE_SHARED, layer, s->moe.weight + used,
		    w->used);
}

/* Tells the hook of x, which has one row per slot. */
static void
see_slots(const struct work *w, enum qwen_trace_kind kind, size_t layer,
    const float *x)
{
	const struct qwen_batch *b = w->b;

	if (b->pass->see != NULL)
		b->pass->see(b->pass, &(struct qwen_seen){ .kind = kind,
		    .layer = layer, .x = x, .stride = b->s->ffn.width,
		    .n = b->n * w->used, .at = b->s->moe.slot,
		    .used = w->used });
}

void
qwen_moe_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	const struct qwen_hparams *h = b->hp;
	struct qwen_scratch *s = b->s;
	struct qwen_linear lin[2] = {
		{ &l->moe.router, s->moe.router, h->n_expert + 1, NULL },
		{ &l->moe.shared_router, s->moe.router + h->n_expert,
		    h->n_expert + 1, NULL },
	};
	size_t rows = b->n < QWEN_MANY_TOKENS ? QWEN_ROW_CHUNK :
	    QWEN_ROW_CHUNK_MANY;
	int shared = h->n_ff_shexp > 0;
	struct work w = { .moe = &l->moe, .b = b, .rows = rows,
	    .n_chunk = chunks(h->n_ff_exp, rows),
	    .n_chunk_shared = chunks(h->n_ff_shexp, rows),
	    .used = h->n_expert_used + (size_t)shared,
	    .rows_down = qwen_row_chunk(b->cpu, b->n, h->n_embd,
	    QWEN_ROW_CHUNK) };

	qwen_linears(b, lin, shared ? 2 : 1, s->xn, h->n_embd, s->xq, NULL,
	    b->n);
	qwen_each_token(b, QWEN_STAGE_ROUTE, route, &w, h->n_expert);
	see_choice(&w, l->index);
	sort_slots(&w);
	w.n_routed = w.n_active - (size_t)shared;
	see_inputs(&w);
	if (b->net->loras != NULL)
		qwen_pool_run(b->cpu->pool, do_low_in, &w, 2 * w.n_active);
	qwen_pool_run(b->cpu->pool, do_gate_up, &w, w.n_chunk_shared +
	    w.n_routed * w.n_chunk);
	see_slots(&w, QWEN_TRACE_EXPERTS_GATE, l->index, s->ffn.gate);
	see_slots(&w, QWEN_TRACE_EXPERTS_UP, l->index, s->ffn.up);
	qwen_pool_run(b->cpu->pool, do_activate, &w, chunks(b->n * w.used,
	    SLOTS));
	see_slots(&w, QWEN_TRACE_EXPERTS_ACT, l->index, s->ffn.gate);
	see_down(&w);
	if (b->net->loras != NULL)
		qwen_pool_run(b->cpu->pool, do_low_down, &w, w.n_active);
	if (b->cpu->kernels.pack_bytes > 0)
		qwen_pool_run(b->cpu->pool, do_pack, &w, w.n_active);
	qwen_pool_run(b->cpu->pool, do_down, &w, chunks(h->n_embd,
	    w.rows_down));
}
