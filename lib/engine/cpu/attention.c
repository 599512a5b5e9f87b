/* SPDX-License-Identifier: ISC */
/*
 * attention.c - grouped-query softmax attention with biases (Qwen2) or q and k
 * norms, RoPE, and (Qwen3-Next on) an output gate.
 *
 * Keys and values are rounded on their way into the cache, and always read from
 * there.
 */
#include <stdatomic.h>

#include "engine/cpu/attention.h"

/* Norms and rotates the row's queries in place. */
static void
turn_queries(const struct qwen_batch *b, const struct qwen_attention_pass *p,
    size_t t)
{
	const struct qwen_hparams *h = b->hp;
	size_t i, half = h->n_rot / 2;
	float *q = b->s->mix.in + t * b->s->mix.in_width;

	for (i = 0; i < h->n_head; i++, q += p->q_step) {
		if (p->l->attn.q_norm != NULL)
			b->vec->rmsnorm(q, q, p->l->attn.q_norm,
			    h->n_embd_head, h->eps);
		b->vec->rope(q, b->s->attn.cos + t * half,
		    b->s->attn.sin + t * half, half);
	}
}

static void
turn_keys(const struct qwen_batch *b, const struct qwen_attention_pass *p,
    size_t t)
{
	const struct qwen_hparams *h = b->hp;
	size_t i, d = h->n_embd_head, half = h->n_rot / 2;
	float *k = b->s->mix.in + t * b->s->mix.in_width + p->k;

	for (i = 0; i < h->n_head_kv; i++, k += d) {
		if (p->l->attn.k_norm != NULL)
			b->vec->rmsnorm(k, k, p->l->attn.k_norm, d, h->eps);
		b->vec->rope(k, b->s->attn.cos + t * half,
		    b->s->attn.sin + t * half, half);
	}
}

/*
 * Scales the queries, and rounds them if keys are integers; 0: a number is NaN or
 * infinite.
 */
static int
finish_queries(const struct qwen_batch *b, const struct qwen_attention_pass *p,
    size_t t)
{
	const struct qwen_hparams *h = b->hp;
	size_t i, j, d = h->n_embd_head;
	float *q = b->s->mix.in + t * b->s->mix.in_width;
	int ok = 1;

	for (i = 0; i < h->n_head; i++, q += p->q_step) {
		for (j = 0; j < d; j++)
			q[j] *= h->attn_scale;
		if (qwen_kv_width(h->k) > 0)
			continue;
		b->vec->hadamard(q, d);
		ok &= b->vec->query(q, d);
	}
	return ok;
}

/* Shows the queries and keys of a row after RoPE. */
static void
see_turned(const struct qwen_batch *b, const struct qwen_attention_pass *p,
    size_t t)
{
	const struct qwen_hparams *h = b->hp;
	struct qwen_seen q = { .kind = QWEN_TRACE_Q_ROPE, .layer = p->l->index,
	    .x = b->s->mix.in + t * b->s->mix.in_width, .t = t, .n = 1,
	    .pieces = h->n_head, .width = h->n_embd_head, .step = p->q_step };
	struct qwen_seen k = q;

	k.kind = QWEN_TRACE_K_ROPE;
	k.x = (const float *)q.x + p->k;
	k.pieces = 0;
	b->pass->see(b->pass, &q);
	b->pass->see(b->pass, &k);
}

/*
 * Prepares the queries in place and stores keys and values in the cache.
 * Integers cannot represent NaN or infinity, so rows with them are noted here.
 */
static void
prepare(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_attention_pass *p = arg;
	const struct qwen_profile *profile = &b->cpu->profile;
	int wanted = qwen_is_wanted(b, t), ok = 1;
	uint64_t begin;

	if (wanted)
		turn_queries(b, p, t);
	turn_keys(b, p, t);
	if (b->pass->see != NULL)
		see_turned(b, p, t);
	if (wanted)
		ok = finish_queries(b, p, t);
	begin = qwen_profile_begin(profile);
	ok &= qwen_kv_append(b, p, t);
	if (profile->on)
		atomic_fetch_add(p->append_ns, qwen_profile_begin(profile) -
		    begin);
	if (!ok)
		qwen_note_bad(b->pass, t, QWEN_PLACE_MIXER(p->l->index));
}

/* Projects keys and values of all rows, and queries of the wanted ones. */
static void
project(struct qwen_batch *b, const struct qwen_attention_pass *p)
{
	const struct qwen_attention *a = &p->l->attn;
	struct qwen_scratch *s = b->s;
	size_t n_embd = b->hp->n_embd, layer = p->l->index, width = b->hp->n_embd_head;
	struct qwen_linear lin[3] = {
		{ &a->q, s->mix.in, s->mix.in_width, NULL },
		{ &a->k, s->mix.in + p->k, s->mix.in_width, NULL },
		{ &a->v, s->mix.in + p->v, s->mix.in_width, NULL },
	};

	if (b->wanted == NULL) {
		qwen_linears(b, lin, 3, s->xn, n_embd, s->xq, NULL, b->n);
	} else {
		qwen_linears(b, lin + 1, 2, s->xn, n_embd, s->xq, NULL, b->n);
		qwen_linears(b, lin, 1, s->xn, n_embd, s->xq, b->wanted,
		    b->n_wanted);
	}
	qwen_see_pieces(b, QWEN_TRACE_Q, layer, s->mix.in, s->mix.in_width,
	    b->hp->n_head, width, p->q_step);
	if (a->gated)
		qwen_see_pieces(b, QWEN_TRACE_GATE, layer, s->mix.in + width,
		    s->mix.in_width, b->hp->n_head, width, p->q_step);
	qwen_see(b, QWEN_TRACE_K, layer, s->mix.in + p->k, s->mix.in_width);
	qwen_see(b, QWEN_TRACE_V, layer, s->mix.in + p->v, s->mix.in_width);
}

static void
make_operand(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_attention_pass *p = arg;
	const struct qwen_weight *w = &p->l->attn.output;

	if (qwen_is_wanted(b, t) && qwen_wants_operand(w))
		qwen_make_operands(b, b->s->mix.oq, b->s->mix.o_width, t,
		    b->s->mix.o + t * b->s->mix.o_width, w->n_in);
}

void
qwen_attention_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	const struct qwen_hparams *h = b->hp;
	struct qwen_scratch *s = b->s;
	size_t d = h->n_embd_head, n_kv = h->n_head_kv * d;
	_Atomic uint64_t append_ns = 0;
	struct qwen_attention_pass p = { .l = l, .append_ns = &append_ns,
	    .rep = h->n_head / h->n_head_kv,
	    .q_step = l->attn.gated ? 2 * d : d };
	struct qwen_linear o = { &l->attn.output, s->out, s->out_width, NULL };

	p.k = h->n_head * p.q_step;
	p.v = p.k + n_kv;
	project(b, &p);
	qwen_each_token(b, QWEN_STAGE_ATTN_PREPARE, prepare, &p,
	    2 * (p.v + n_kv));
	qwen_profile_move(&b->cpu->profile, QWEN_STAGE_ATTN_PREPARE,
	    QWEN_STAGE_KV_APPEND, b->n, append_ns, b->n * h->n_head_kv *
	    (qwen_kv_head_bytes(h->k, d) + qwen_kv_head_bytes(h->v, d)) /
	    QWEN_KV_BLOCK);
	if (b->n_wanted == 0)
		return;
	qwen_see_pieces(b, QWEN_TRACE_SCORES, l->index, s->mix.in,
	    s->mix.in_width, h->n_head, d, p.q_step);
	qwen_attend(b, &p);
	qwen_see(b, QWEN_TRACE_ATTN_OUT, l->index, s->mix.o, s->mix.o_width);
	qwen_each_token(b, QWEN_STAGE_ATTN_PREPARE, make_operand, &p,
	    h->n_head * d);
	qwen_linears(b, &o, 1, s->mix.o, s->mix.o_width, s->mix.oq, b->wanted,
	    b->n_wanted);
}
