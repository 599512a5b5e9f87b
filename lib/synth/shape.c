/* SPDX-License-Identifier: ISC */
/* shape.c - shapes of published models, and the tensors they have. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "synth/shape.h"

static const struct qwen_synth_shape shapes[] = {
	{
		.info = { .name = "Qwen3.6-35B-A3B-UD-Q4_K_M",
		    .arch = "qwen35moe", .n_layer = 40, .n_mtp = 1,
		    .n_expert = 256, .n_vocab = 248320 },
		.title = "Qwen3.6-35B-A3B", .size = "35B-A3B",
		.pre = "qwen35", .ud = 1, .embd = 2048, .heads = 16,
		.kv_heads = 2, .head_dim = 256, .used = 8, .ff_exp = 512,
		.ff_shexp = 512, .context = 262144, .rope_base = 1e7f,
		.interval = 4,
		.rope_dim = 64, .conv = 4, .state = 128, .groups = 16,
		.rank = 32,
	}, {
		.info = { .name = "Qwen3-30B-A3B-Q4_K_M",
		    .arch = "qwen3moe", .n_layer = 48, .n_expert = 128,
		    .n_vocab = 151936 },
		.title = "Qwen3-30B-A3B", .size = "30B-A3B", .pre = "qwen2",
		.embd = 2048, .heads = 32, .kv_heads = 4, .head_dim = 128,
		.ff = 6144, .used = 8, .ff_exp = 768, .context = 40960,
		.rope_base = 1e6f,
	}, {
		.info = { .name = "Qwen3-0.6B-Q4_K_M", .arch = "qwen3",
		    .n_layer = 28, .n_vocab = 151936 },
		.title = "Qwen3-0.6B", .size = "0.6B", .pre = "qwen2",
		.tied = 1, .embd = 1024, .heads = 16, .kv_heads = 8,
		.head_dim = 128, .ff = 3072, .context = 40960,
		.rope_base = 1e6f,
	}, {
		.info = { .name = "Qwen3-8B-Q4_K_M", .arch = "qwen3",
		    .n_layer = 36, .n_vocab = 151936 },
		.title = "Qwen3-8B", .size = "8B", .pre = "qwen2",
		.embd = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128,
		.ff = 12288, .context = 40960, .rope_base = 1e6f,
	},
};

const struct qwen_synth_shape *
qwen_synth_shape(size_t i)
{
	return i < sizeof shapes / sizeof shapes[0] ? &shapes[i] : NULL;
}

static struct qwen_synth_tensor *
grow(struct qwen_synth *p)
{
	p->failed |= qwen_grow(&p->t, &p->cap, p->n + 1, sizeof *p->t) < 0;
	if (p->failed)
		return NULL;
	return &p->t[p->n++];
}

static void __attribute__((format(printf, 7, 8)))
add(struct qwen_synth *p, enum qwen_synth_content content, uint32_t type,
    uint64_t ne0, uint64_t ne1, uint64_t ne2, const char *fmt, ...)
{
	struct qwen_synth_tensor *t = grow(p);
	va_list ap;

	if (t == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(t->name, sizeof t->name, fmt, ap);
	va_end(ap);
	t->type = type;
	t->content = content;
	t->ne[0] = ne0;
	t->ne[1] = ne1;
	t->ne[2] = ne2;
	t->n_dims = ne2 ? 3 : ne1 ? 2 : 1;
}

/* llama.cpp's Q4_K_M gives more bits to these layers' attn_v and ffn_down. */
static int
more_bits(const struct qwen_synth_shape *s, uint32_t i)
{
	uint32_t n = s->info.n_layer;

	return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

/* 38 of the 41 ffn_down_exps of the UD file are Q5_K, these are not. */
static uint32_t
ud_down(uint32_t i)
{
	return i == 34 || i == 38 || i == 39 ? Q6_K : Q5_K;
}

static void
add_attention(struct qwen_synth *p, uint32_t i)
{
	const struct qwen_synth_shape *s = &p->s;
	uint64_t q = (uint64_t)s->heads * s->head_dim;
	uint64_t kv = (uint64_t)s->kv_heads * s->head_dim;
	uint32_t type = s->ud ? Q8_0 : Q4_K;
	uint32_t v_type = s->ud ? Q8_0 : more_bits(s, i) ? Q6_K : Q4_K;

	/* with the output gate, a query of twice the width */
	add(p, WEIGHT, type, s->embd, s->interval ? 2 * q : q, 0,
	    "blk.%u.attn_q.weight", i);
	add(p, WEIGHT, type, s->embd, kv, 0, "blk.%u.attn_k.weight", i);
	add(p, WEIGHT, v_type, s->embd, kv, 0, "blk.%u.attn_v.weight", i);
	add(p, WEIGHT, type, q, s->embd, 0, "blk.%u.attn_output.weight", i);
	add(p, NORM, F32, s->head_dim, 0, 0, "blk.%u.attn_q_norm.weight", i);
	add(p, NORM, F32, s->head_dim, 0, 0, "blk.%u.attn_k_norm.weight", i);
}

static void
add_deltanet(struct qwen_synth *p, uint32_t i)
{
	const struct qwen_synth_shape *s = &p->s;
	uint64_t inner = (uint64_t)s->rank * s->state;
	uint64_t qkv = 2 * (uint64_t)s->groups * s->state + inner;

	add(p, WEIGHT, Q8_0, s->embd, qkv, 0, "blk.%u.attn_qkv.weight", i);
	add(p, WEIGHT, Q8_0, s->embd, inner, 0, "blk.%u.attn_gate.weight", i);
	add(p, CONV, F32, s->conv, qkv, 0, "blk.%u.ssm_conv1d.weight", i);
	add(p, DT_BIAS, F32, s->rank, 0, 0, "blk.%u.ssm_dt.bias", i);
	add(p, DECAY, F32, s->rank, 0, 0, "blk.%u.ssm_a", i);
	add(p, WEIGHT, F32, s->embd, s->rank, 0, "blk.%u.ssm_beta.weight", i);
	add(p, WEIGHT, F32, s->embd, s->rank, 0, "blk.%u.ssm_alpha.weight", i);
	add(p, NORM, F32, s->state, 0, 0, "blk.%u.ssm_norm.weight", i);
	add(p, WEIGHT, Q8_0, inner, s->embd, 0, "blk.%u.ssm_out.weight", i);
}

static void
add_experts(struct qwen_synth *p, uint32_t i)
{
	const struct qwen_synth_shape *s = &p->s;
	int mtp = i >= s->info.n_layer;
	uint32_t router = mtp ? BF16 : F32;
	uint32_t down = s->ud ? ud_down(i) : more_bits(s, i) ? Q6_K : Q4_K;

	add(p, WEIGHT, router, s->embd, s->info.n_expert, 0,
	    "blk.%u.ffn_gate_inp.weight", i);
	add(p, WEIGHT, Q4_K, s->embd, s->ff_exp, s->info.n_expert,
	    "blk.%u.ffn_gate_exps.weight", i);
	add(p, WEIGHT, Q4_K, s->embd, s->ff_exp, s->info.n_expert,
	    "blk.%u.ffn_up_exps.weight", i);
	add(p, WEIGHT, down, s->ff_exp, s->embd, s->info.n_expert,
	    "blk.%u.ffn_down_exps.weight", i);
	if (s->ff_shexp == 0)
		return;
	add(p, WEIGHT, router, s->embd, 0, 0,
	    "blk.%u.ffn_gate_inp_shexp.weight", i);
	add(p, WEIGHT, Q8_0, s->embd, s->ff_shexp, 0,
	    "blk.%u.ffn_gate_shexp.weight", i);
	add(p, WEIGHT, Q8_0, s->embd, s->ff_shexp, 0,
	    "blk.%u.ffn_up_shexp.weight", i);
	add(p, WEIGHT, Q8_0, s->ff_shexp, s->embd, 0,
	    "blk.%u.ffn_down_shexp.weight", i);
}

static void
add_ffn(struct qwen_synth *p, uint32_t i)
{
	const struct qwen_synth_shape *s = &p->s;
	uint32_t down = more_bits(s, i) ? Q6_K : Q4_K;

	add(p, WEIGHT, Q4_K, s->embd, s->ff, 0, "blk.%u.ffn_gate.weight", i);
	add(p, WEIGHT, Q4_K, s->embd, s->ff, 0, "blk.%u.ffn_up.weight", i);
	add(p, WEIGHT, down, s->ff, s->embd, 0, "blk.%u.ffn_down.weight", i);
}

static void
add_block(struct qwen_synth *p, uint32_t i)
{
	const struct qwen_synth_shape *s = &p->s;

	add(p, NORM, F32, s->embd, 0, 0, "blk.%u.attn_norm.weight", i);
	add(p, NORM, F32, s->embd, 0, 0, s->interval ?
	    "blk.%u.post_attention_norm.weight" : "blk.%u.ffn_norm.weight", i);
	if (s->interval && i < s->info.n_layer && (i + 1) % s->interval != 0)
		add_deltanet(p, i);
	else
		add_attention(p, i);
	if (s->info.n_expert)
		add_experts(p, i);
	else
		add_ffn(p, i);
}

static void
add_nextn(struct qwen_synth *p, uint32_t i)
{
	const struct qwen_synth_shape *s = &p->s;

	add(p, WEIGHT, Q8_0, 2 * (uint64_t)s->embd, s->embd, 0,
	    "blk.%u.nextn.eh_proj.weight", i);
	add(p, NORM, F32, s->embd, 0, 0, "blk.%u.nextn.enorm.weight", i);
	add(p, NORM, F32, s->embd, 0, 0, "blk.%u.nextn.hnorm.weight", i);
	add(p, NORM, F32, s->embd, 0, 0,
	    "blk.%u.nextn.shared_head_norm.weight", i);
}

void
qwen_synth_plan(struct qwen_synth *p)
{
	const struct qwen_synth_shape *s = &p->s;
	uint32_t i;

	add(p, WEIGHT, s->ud ? Q8_0 : s->tied ? Q6_K : Q4_K, s->embd,
	    s->info.n_vocab, 0, "token_embd.weight");
	add(p, NORM, F32, s->embd, 0, 0, "output_norm.weight");
	if (!s->tied)
		add(p, WEIGHT, Q6_K, s->embd, s->info.n_vocab, 0,
		    "output.weight");
	for (i = 0; i < s->info.n_layer + s->info.n_mtp; i++) {
		add_block(p, i);
		if (i >= s->info.n_layer)
			add_nextn(p, i);
	}
}
