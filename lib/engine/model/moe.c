/* SPDX-License-Identifier: ISC */
/*
 * moe.c - mixture of experts: router, top-k, gated MLPs, and a shared expert.
 *
 * A slot is one (token, expert) pair; slots are sorted by expert, the shared
 * expert's come last, one a token.  An output row is owned by one thread,
 * which walks the experts in ascending order: a token's sum is then the same
 * in any batch, with no buffer of experts' outputs and no atomics.
 */
#include "engine/kernel/math.h"
#include "engine/model/forward.h"

static void
load_experts(struct qwen_loader *ld, struct qwen_moe *e)
{
	const struct qwen_hparams *h = &ld->m->hp;
	size_t n = h->n_embd, ff = h->n_ff_exp;

	qwen_load_weight(ld, &e->down, "ffn_down_exps.weight", ff, n,
	    h->n_expert);
	if (!qwen_has_tensor(ld, "ffn_gate_up_exps.weight")) {
		qwen_load_weight(ld, &e->gate, "ffn_gate_exps.weight", n, ff,
		    h->n_expert);
		qwen_load_weight(ld, &e->up, "ffn_up_exps.weight", n, ff,
		    h->n_expert);
		return;
	}
	/* one stack: gate rows first, then up rows */
	qwen_load_weight(ld, &e->gate, "ffn_gate_up_exps.weight", n, 2 * ff,
	    h->n_expert);
	if (ld->rc < 0)
		return;
	e->gate.n_out = ff;
	e->up = e->gate;
	e->up.data += ff * e->up.row_bytes;
}

void
qwen_moe_load(struct qwen_loader *ld, struct qwen_layer *l, int shared)
{
	const struct qwen_hparams *h = &ld->m->hp;
	struct qwen_moe *e = &l->moe;
	size_t n = h->n_embd, ff = h->n_ff_shexp;

	l->ffn = qwen_moe_forward;
	qwen_load_weight(ld, &e->router, "ffn_gate_inp.weight", n, h->n_expert,
	    0);
	load_experts(ld, e);
	if (!shared)
		return;
	qwen_load_weight(ld, &e->shared_router, "ffn_gate_inp_shexp.weight", n,
	    1, 0);
	qwen_load_weight(ld, &e->shared.gate, "ffn_gate_shexp.weight", n, ff,
	    0);
	qwen_load_weight(ld, &e->shared.up, "ffn_up_shexp.weight", n, ff, 0);
	qwen_load_weight(ld, &e->shared.down, "ffn_down_shexp.weight", ff, n,
	    0);
}

struct work {
	const struct qwen_layer	*l;
	struct qwen_batch	*b;
	size_t			 rows;		/* of gate and up an item */
	size_t			 n_chunk;	/* of such rows */
	size_t			 n_chunk_shared;
	size_t			 n_routed;	/* slots before the shared */
	size_t			 n_active;	/* experts that have slots */
};

/*
 * The k largest logits, ties to the lower index, and their softmax: the same
 * as renormalising the softmax over all.
 */
static void
select_experts(const struct qwen_hparams *h, const float *logits,
    uint32_t *expert, float *weight)
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
	for (i = 0; i < k; i++)
		weight[i] = weight[i] / sum * h->expert_scale;
}

static void
route(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_hparams *h = b->hp;
	const float *logits = b->b->router + t * (h->n_expert + 1);
	float *w = b->b->weight + t * (h->n_expert_used + 1);
	size_t e;

	(void)arg;
	select_experts(h, logits, b->b->expert + t * h->n_expert_used, w);
	/* one that is NaN or -inf may not be among the chosen: show it */
	for (e = 0; e < h->n_expert; e++) {
		if (!isfinite(logits[e]))
			w[0] = NAN;
	}
	if (h->n_ff_shexp > 0)
		w[h->n_expert_used] = isfinite(logits[h->n_expert]) ?
		    qwen_sigmoidf(logits[h->n_expert]) : NAN;
}

/*
 * Counting sort of the slots by expert; within one, by token.  Returns how many
 * experts have any.
 */
static size_t
sort_slots(struct qwen_batch *b)
{
	const struct qwen_hparams *h = b->hp;
	struct qwen_scratch *s = b->b;
	size_t n = b->n * h->n_expert_used, i, e, n_active = 0;
	uint32_t at = 0, count;

	for (e = 0; e <= h->n_expert; e++)
		s->first[e] = 0;
	for (i = 0; i < n; i++)
		s->first[s->expert[i]]++;
	for (e = 0; e <= h->n_expert; e++) {
		count = s->first[e];
		if (count > 0)
			s->active[n_active++] = (uint32_t)e;
		s->first[e] = at;
		at += count;
	}
	for (i = 0; i < n; i++)
		s->slot[s->first[s->expert[i]]++] = (uint32_t)i;
	for (e = h->n_expert; e > 0; e--)
		s->first[e] = s->first[e - 1];
	s->first[0] = 0;
	return n_active;
}

static const unsigned char *
rows_at(const struct qwen_weight *w, size_t e, size_t r0)
{
	return w->data + e * w->expert_bytes + r0 * w->row_bytes;
}

/* Up to so many rows from r0 of one expert's matrix. */
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
		return qwen_operand(b, b->b->xq, b->hp->n_embd, t);
	return b->b->xn + t * b->hp->n_embd;
}

/*
 * Gate and up rows from r0 for n slots at i0, their tokens through slot[]; next
 * is what comes after them.
 */
static void
gate_up(const struct work *w, const struct qwen_weight *gate,
    const struct qwen_weight *up, size_t e, size_t i0, size_t n, size_t r0,
    const unsigned char *next, int thread)
{
	struct qwen_batch *b = w->b;
	struct qwen_scratch *s = b->b;
	const void **xp = s->xp + (size_t)thread * s->slots;
	float **yp = s->yp + (size_t)thread * s->slots;
	size_t i, j, m, k = b->hp->n_expert_used;
	struct qwen_matmul mm;

	for (i = 0; i < n; i += m) {
		m = n - i < QWEN_TOKEN_CHUNK ? n - i : QWEN_TOKEN_CHUNK;
		for (int second = 0; second < 2; second++) {
			float *y = second ? s->up : s->gate;

			for (j = 0; j < m; j++) {
				size_t at = i0 + i + j;
				size_t t = at < w->n_routed ?
				    s->slot[at] / k : at - w->n_routed;

				xp[j] = input(b, second ? up : gate, t);
				yp[j] = y + at * s->ff_width + r0;
			}
			mm = (struct qwen_matmul){ .x = xp, .y = yp,
			    .n_tok = m, .r0 = r0 };
			mm.next = second ? next : rows_at(up, e, r0);
			multiply(b, second ? up : gate, e, w->rows, &mm,
			    thread);
		}
	}
}

/* The gate rows of an item; NULL beyond the last. */
static const unsigned char *
gate_rows(const struct work *w, size_t item)
{
	const struct qwen_moe *moe = &w->l->moe;

	if (item < w->n_chunk_shared)
		return rows_at(&moe->shared.gate, 0, item * w->rows);
	item -= w->n_chunk_shared;
	if (item >= w->n_active * w->n_chunk)
		return NULL;
	return rows_at(&moe->gate, w->b->b->active[item / w->n_chunk],
	    item % w->n_chunk * w->rows);
}

/* Item: an expert's chunk of gate and up rows; the shared expert's first. */
static void
do_gate_up(void *arg, size_t item, int thread)
{
	const struct work *w = arg;
	const struct qwen_moe *moe = &w->l->moe;
	const struct qwen_scratch *s = w->b->b;
	const unsigned char *next = gate_rows(w, item + 1);
	size_t e;

	if (item < w->n_chunk_shared) {
		gate_up(w, &moe->shared.gate, &moe->shared.up, 0, w->n_routed,
		    w->b->n, item * w->rows, next, thread);
		return;
	}
	item -= w->n_chunk_shared;
	e = s->active[item / w->n_chunk];
	gate_up(w, &moe->gate, &moe->up, e, s->first[e],
	    s->first[e + 1] - s->first[e], item % w->n_chunk * w->rows, next,
	    thread);
}

/* Slots one thread takes at a time. */
#define SLOTS 4

static void
do_activate(void *arg, size_t item, int thread)
{
	const struct work *w = arg;
	struct qwen_batch *b = w->b;
	struct qwen_scratch *s = b->b;
	const struct qwen_moe *moe = &w->l->moe;
	size_t i, n = w->n_routed + (b->hp->n_ff_shexp > 0 ? b->n : 0);
	uint64_t begin = qwen_profile_begin(&b->m->profile);

	for (i = item * SLOTS; i < (item + 1) * SLOTS && i < n; i++) {
		const struct qwen_weight *down = i < w->n_routed ?
		    &moe->down : &moe->shared.down;
		float *g = s->gate + i * s->ff_width;

		b->vec->swiglu(g, g, s->up + i * s->ff_width, down->n_in);
		if (qwen_wants_operand(down))
			qwen_make_operand(b, s->hq, s->ff_width, i, g,
			    down->n_in);
	}
	qwen_profile_end(&b->m->profile, thread, QWEN_STAGE_ACTIVATE, begin, 0,
	    0);
}

/*
 * Add weight * down(h) of n slots at i0 to the output rows from r0; next is
 * what comes after it.
 */
static void
down_rows(const struct work *w, const struct qwen_weight *down, size_t e,
    size_t i0, size_t n, size_t r0, const unsigned char *next, int thread)
{
	struct qwen_batch *b = w->b;
	struct qwen_scratch *s = b->b;
	const void **xp = s->xp + (size_t)thread * s->slots;
	float **yp = s->yp + (size_t)thread * s->slots;
	float *tile = s->tile + (size_t)thread * QWEN_TOKEN_CHUNK *
	    QWEN_ROW_CHUNK;
	struct qwen_profile *profile = &b->m->profile;
	size_t i, j, m, k = b->hp->n_expert_used, t, rank;
	struct qwen_matmul mm;
	uint64_t begin;

	for (i = 0; i < n; i += m) {
		m = n - i < QWEN_TOKEN_CHUNK ? n - i : QWEN_TOKEN_CHUNK;
		for (j = 0; j < m; j++) {
			size_t at = i0 + i + j;

			xp[j] = qwen_wants_operand(down) ? (const void *)
			    qwen_operand(b, s->hq, s->ff_width, at) :
			    (const void *)(s->gate + at * s->ff_width);
			yp[j] = tile + j * QWEN_ROW_CHUNK;
		}
		mm = (struct qwen_matmul){ .x = xp, .y = yp, .n_tok = m,
		    .r0 = r0, .next = next };
		multiply(b, down, e, QWEN_ROW_CHUNK, &mm, thread);
		begin = qwen_profile_begin(profile);
		for (j = 0; j < m; j++) {
			size_t at = i0 + i + j;

			t = at < w->n_routed ? s->slot[at] / k :
			    at - w->n_routed;
			rank = at < w->n_routed ? s->slot[at] % k : k;
			b->vec->axpy(s->out + t * b->hp->n_embd + r0,
			    s->weight[t * (k + 1) + rank], yp[j], mm.r1);
		}
		qwen_profile_end(profile, thread, QWEN_STAGE_COMBINE, begin,
		    0, m * mm.r1);
	}
}

/*
 * The rows from r0 of the i-th matrix of those that add to an output: the
 * experts', then the shared one's, and then the first one's next chunk.
 */
static const unsigned char *
down_rows_at(const struct work *w, size_t i, size_t r0)
{
	const struct qwen_moe *moe = &w->l->moe;

	if (i < w->n_active)
		return rows_at(&moe->down, w->b->b->active[i], r0);
	if (i == w->n_active && w->b->hp->n_ff_shexp > 0)
		return rows_at(&moe->shared.down, 0, r0);
	r0 += QWEN_ROW_CHUNK;
	return r0 < w->b->hp->n_embd ? down_rows_at(w, 0, r0) : NULL;
}

/* Item: a chunk of output rows, for all experts in ascending order. */
static void
do_down(void *arg, size_t item, int thread)
{
	const struct work *w = arg;
	struct qwen_batch *b = w->b;
	const struct qwen_moe *moe = &w->l->moe;
	const uint32_t *first = b->b->first;
	size_t t, e, i, r, r0 = item * QWEN_ROW_CHUNK, n_embd = b->hp->n_embd;
	size_t r1 = r0 + QWEN_ROW_CHUNK < n_embd ? r0 + QWEN_ROW_CHUNK :
	    n_embd;

	for (t = 0; t < b->n; t++) {
		for (r = r0; r < r1; r++)
			b->b->out[t * n_embd + r] = 0.0f;
	}
	for (i = 0; i < w->n_active; i++) {
		e = b->b->active[i];
		down_rows(w, &moe->down, e, first[e], first[e + 1] - first[e],
		    r0, down_rows_at(w, i + 1, r0), thread);
	}
	if (b->hp->n_ff_shexp > 0)
		down_rows(w, &moe->shared.down, 0, w->n_routed, b->n, r0,
		    down_rows_at(w, i + 1, r0), thread);
}

static size_t
chunks(size_t rows, size_t chunk)
{
	return (rows + chunk - 1) / chunk;
}

void
qwen_moe_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	const struct qwen_hparams *h = b->hp;
	struct qwen_scratch *s = b->b;
	struct qwen_linear lin[2] = {
		{ &l->moe.router, s->router, h->n_expert + 1, NULL },
		{ &l->moe.shared_router, s->router + h->n_expert,
		    h->n_expert + 1, NULL },
	};
	size_t rows = b->n < QWEN_MANY_TOKENS ? QWEN_ROW_CHUNK :
	    QWEN_ROW_CHUNK_MANY;
	struct work w = { .l = l, .b = b, .rows = rows,
	    .n_chunk = chunks(h->n_ff_exp, rows),
	    .n_chunk_shared = chunks(h->n_ff_shexp, rows),
	    .n_routed = b->n * h->n_expert_used };
	size_t n_slot = w.n_routed + (h->n_ff_shexp > 0 ? b->n : 0);

	qwen_linears(b, lin, h->n_ff_shexp > 0 ? 2 : 1, s->xn, h->n_embd,
	    s->xq, NULL, b->n);
	qwen_each_token(b, QWEN_STAGE_ROUTE, route, NULL);
	w.n_active = sort_slots(b);
	qwen_pool_run(b->m->pool, do_gate_up, &w, w.n_chunk_shared +
	    w.n_active * w.n_chunk);
	qwen_pool_run(b->m->pool, do_activate, &w,
	    (n_slot + SLOTS - 1) / SLOTS);
	qwen_pool_run(b->m->pool, do_down, &w, chunks(h->n_embd, QWEN_ROW_CHUNK));
}
