/* SPDX-License-Identifier: ISC */
/* plan.c - what a model takes: memory, and bytes and work for a token. */
#include "engine/net/lora.h"
#include "engine/pass/pass.h"

static const char *const names[] = {
	"embedding", "attention", "deltanet", "router", "experts",
	"shared-expert", "ffn", "output",
};

const char *
qwen_plan_part_name(enum qwen_plan_part part)
{
	return (unsigned)part < QWEN_PLAN_N ? names[part] : NULL;
}

static uint64_t
add(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static uint64_t
mul(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

/* What they add: A where it lies, B in memory of our own, all in f32. */
static void
count_adapters(struct qwen_plan *p, struct qwen_plan_sum *s,
    const struct qwen_weight *w, uint64_t n, uint64_t used)
{
	size_t i;

	for (i = 0; w->lora != NULL && i < w->lora->n; i++) {
		const struct qwen_lora *l = &w->lora->v[i];
		uint64_t macs = (uint64_t)l->rank * w->n_out;
		uint64_t bytes = macs * sizeof(float);

		if (w->lora_at == 0) {	/* once, if it is of several pieces */
			s->bytes += n * l->rank * l->a.row_bytes;
			bytes += l->rank * l->a.row_bytes;
			macs += (uint64_t)l->rank * w->n_in;
		}
		s->read += used * bytes;
		s->macs += used * macs;
		p->float_macs += used * macs;
	}
}

/* Counts a matrix, or a stack of n of which a token uses `used'. */
static void
count(struct qwen_plan *p, enum qwen_plan_part part,
    const struct qwen_weight *w, uint64_t n, uint64_t used)
{
	struct qwen_plan_sum *s = &p->part[part];
	uint64_t params = (uint64_t)w->n_in * w->n_out;
	uint64_t bytes = (uint64_t)w->row_bytes * w->n_out;
	uint64_t macs = params * (w->operand == QWEN_AS_TWO_Q8 ? 2 : 1);

	if (w->data == NULL)
		return;
	s->params += n * params;
	s->bytes += n * bytes;
	s->active += used * params;
	s->read += used * bytes;
	s->macs += used * macs;
	if (w->operand == QWEN_AS_F32 || w->operand == QWEN_AS_BF16)
		p->float_macs += used * macs;
	count_adapters(p, s, w, n, used);
}

/* Returns the channels of the convolution. */
static uint64_t
channels(const struct qwen_hparams *h)
{
	return 2 * h->n_head_k * h->dk + h->n_head_v * h->dv;
}

static void
count_mixer(struct qwen_plan *p, const struct qwen_hparams *h,
    const struct qwen_layer *l)
{
	const struct qwen_weight *const attn[] = { &l->attn.q, &l->attn.k,
	    &l->attn.v, &l->attn.output };
	uint64_t s = (uint64_t)h->n_head_v * h->dk * h->dv;
	uint64_t width = (uint64_t)h->n_embd_head * p->n_tokens;
	struct qwen_kv_shape shape = qwen_kv_shape_of(h);
	size_t i;

	for (i = 0; i < sizeof attn / sizeof attn[0]; i++)
		count(p, QWEN_PLAN_ATTENTION, attn[i], 1, 1);
	for (i = 0; i < l->delta.n_in; i++)
		count(p, QWEN_PLAN_DELTANET, &l->delta.in[i].w, 1, 1);
	count(p, QWEN_PLAN_DELTANET, &l->delta.out, 1, 1);
	if (l->delta.conv != NULL) {
		p->state_moved += 2 * s * sizeof(float);
		p->state_macs += 4 * s + channels(h) * h->conv_kernel;
	} else {
		p->kv_read = add(p->kv_read, mul(p->n_tokens,
		    qwen_kv_block_bytes(&shape)) / QWEN_KV_BLOCK);
		p->kv_macs = add(p->kv_macs, mul(width, 2 * h->n_head));
	}
}

static void
count_ffn(struct qwen_plan *p, const struct qwen_hparams *h,
    const struct qwen_layer *l)
{
	const struct qwen_moe *e = &l->moe;
	size_t n = h->n_expert, used = h->n_expert_used;

	count(p, QWEN_PLAN_FFN, &l->mlp.gate, 1, 1);
	count(p, QWEN_PLAN_FFN, &l->mlp.up, 1, 1);
	count(p, QWEN_PLAN_FFN, &l->mlp.down, 1, 1);
	count(p, QWEN_PLAN_ROUTER, &e->router, 1, 1);
	count(p, QWEN_PLAN_EXPERTS, &e->routed.gate, n, used);
	count(p, QWEN_PLAN_EXPERTS, &e->routed.up, n, used);
	count(p, QWEN_PLAN_EXPERTS, &e->routed.down, n, used);
	count(p, QWEN_PLAN_SHARED, &e->shared_router, 1, 1);
	count(p, QWEN_PLAN_SHARED, &e->shared.gate, 1, 1);
	count(p, QWEN_PLAN_SHARED, &e->shared.up, 1, 1);
	count(p, QWEN_PLAN_SHARED, &e->shared.down, 1, 1);
}

/* The MTP block's projection, and what it has of its own at its ends. */
static void
count_mtp_ends(struct qwen_plan *p, const struct qwen_model *m)
{
	const struct qwen_mtp *t = &m->net.mtp;

	count(p, QWEN_PLAN_FFN, &t->proj, 1, 1);
	if (t->embd.data != m->net.token_embd.data)
		count(p, QWEN_PLAN_EMBEDDING, &t->embd, 1, 1);
	if (t->head.data != m->net.output.data)
		count(p, QWEN_PLAN_OUTPUT, &t->head, 1, 1);
}

void
qwen_plan_half(struct qwen_plan *p, const struct qwen_model *m, size_t half)
{
	const struct qwen_hparams *h = &m->net.hp;

	if (half == QWEN_HEAD(h->n_layer))
		count(p, QWEN_PLAN_OUTPUT, &m->net.output, 1, 1);
	else if (half % 2 == 0)
		count_mixer(p, h, qwen_net_layer(&m->net, half / 2));
	else
		count_ffn(p, h, qwen_net_layer(&m->net, half / 2));
	if (half == QWEN_MIXER(h->n_layer))
		count_mtp_ends(p, m);
}

/*
 * The block that predicts, and what of the head drafts are made with: memory,
 * but no part of what a token takes.
 */
static void
count_mtp(struct qwen_plan *p, const struct qwen_model *m)
{
	struct qwen_plan all = { .n_tokens = 0 };
	size_t i;

	if (!m->net.mtp.on)
		return;
	qwen_plan_half(&all, m, QWEN_MIXER(m->net.hp.n_layer));
	qwen_plan_half(&all, m, QWEN_FFN(m->net.hp.n_layer));
	for (i = 0; i < QWEN_PLAN_N; i++)
		p->weights = add(p->weights, all.part[i].bytes);
}

/* A row of the embedding is read for a token; with tied weights, once more. */
static void
count_ends(struct qwen_plan *p, const struct qwen_model *m)
{
	struct qwen_plan_sum *s = &p->part[QWEN_PLAN_EMBEDDING];
	uint64_t extra = 0;
	size_t i;

	s->params = (uint64_t)m->net.token_embd.n_in * m->net.token_embd.n_out;
	s->bytes = (uint64_t)m->net.token_embd.row_bytes * m->net.token_embd.n_out;
	s->active = m->net.token_embd.n_in;
	s->read = m->net.token_embd.row_bytes;
	for (i = 0; m->net.token_embd.lora != NULL && i < m->net.token_embd.lora->n;
	    i++) {	/* a row of A, all of B */
		const struct qwen_lora *l = &m->net.token_embd.lora->v[i];

		extra += l->a.row_bytes * m->net.token_embd.n_out;
		s->read += l->a.row_bytes + l->rank * l->n_out * sizeof(float);
		s->macs += l->rank * l->n_out;
		p->float_macs += l->rank * l->n_out;
	}
	count(p, QWEN_PLAN_OUTPUT, &m->net.output, 1, 1);
	if (m->net.output.data == m->net.token_embd.data)
		s->params = s->bytes = 0;
	s->bytes += extra;
}

static void
add_up(struct qwen_plan *p)
{
	struct qwen_plan_sum *s = &p->sum;
	size_t i;

	for (i = 0; i < QWEN_PLAN_N; i++) {
		s->params += p->part[i].params;
		s->bytes += p->part[i].bytes;
		s->active += p->part[i].active;
		s->read += p->part[i].read;
		s->macs += p->part[i].macs;
	}
	p->weights = s->bytes;
	s->read = add(s->read, add(p->kv_read, p->state_moved));
	s->macs = add(s->macs, add(p->kv_macs, p->state_macs));
	p->float_macs = add(p->float_macs, add(p->kv_macs, p->state_macs));
}

static void
count_memory(struct qwen_plan *p, const struct qwen_model *m,
    const struct qwen_checkpoints *keep)
{
	uint64_t empty = qwen_cache_need(m, 0), n = p->n_tokens;
	uint64_t one = qwen_cache_need(m, n);
	size_t i;

	p->state = mul(empty, p->n_sequences);
	p->kv = one == UINT64_MAX ? one : mul(one - empty, p->n_sequences);
	p->checkpoints = mul(mul(qwen_checkpoints_most(keep, n), add(empty,
	    mul(m->net.hp.n_vocab, sizeof(float)))), p->n_sequences);
	p->scratch = qwen_pass_bytes(m, p->batch, p->n_sequences,
	    n > 0 ? n : 1);
	p->guesses = mul(mul(qwen_ahead_bytes(&m->net), p->n_guess), p->n_sequences);
	p->other = mul(add(add(mul(m->net.hp.n_vocab, sizeof(float)),
	    mul(n, sizeof(int32_t))), qwen_hidden_bytes(&m->net)), p->n_sequences);
	for (i = 0; i < m->net.hp.n_layer; i++) {
		if (m->net.layer[i].delta.conv != NULL)
			p->other = add(p->other, 2 * m->net.hp.conv_kernel *
			    channels(&m->net.hp) * sizeof(float));
	}
	p->other = add(p->other, qwen_loras_bytes(&m->net));
	p->own = add(add(add(p->kv, p->state), p->checkpoints),
	    add(add(p->scratch, p->guesses), p->other));
}

void
qwen_plan_make(struct qwen_plan *out, const struct qwen_model *m,
    size_t n_tokens, size_t n_sequences, size_t batch, size_t n_guess,
    const struct qwen_checkpoints *keep)
{
	struct qwen_plan p = { .n_tokens = n_tokens,
	    .n_sequences = n_sequences > 0 ? n_sequences : 1,
	    .n_guess = n_guess };
	size_t i, all = mul(n_tokens, p.n_sequences);

	p.batch = qwen_batch_size(m, batch, all > 0 ? all : 1, keep);
	for (i = 0; i < m->net.hp.n_layer; i++) {
		count_mixer(&p, &m->net.hp, &m->net.layer[i]);
		count_ffn(&p, &m->net.hp, &m->net.layer[i]);
	}
	count_ends(&p, m);
	add_up(&p);
	count_mtp(&p, m);
	count_memory(&p, m, keep);
	*out = p;
}
