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

/* Sizes of tensors, of which some are made of several numbers of the shape. */
enum dim {
	NONE, EMBD, TWO_EMBD, QUERY, GATED, KEY, HEAD, QKV, INNER, TAPS, RANK,
	STATE, FF, FF_EXP, FF_SHEXP, EXPERTS, N_DIMS
};

/* Formats that are not the same in all files or layers, after ggml's numbers. */
enum { ATTN_TYPE = 100, V_TYPE, DOWN_TYPE, ROUTER_TYPE };

/* Which blocks have it. */
enum part { ALL, PLAIN, HYBRID, ATTENTION, DELTANET, DENSE, MOE, SHARED, MTP };

static const struct row {
	enum part	 part;
	const char	*name;		/* after "blk.N." */
	enum qwen_synth_content content;
	uint32_t	 type;
	enum dim	 dim[3];
} rows[] = {
	{ ALL, "attn_norm.weight", NORM, F32, { EMBD } },
	{ HYBRID, "post_attention_norm.weight", NORM, F32, { EMBD } },
	{ PLAIN, "ffn_norm.weight", NORM, F32, { EMBD } },

	{ DELTANET, "attn_qkv.weight", WEIGHT, Q8_0, { EMBD, QKV } },
	{ DELTANET, "attn_gate.weight", WEIGHT, Q8_0, { EMBD, INNER } },
	{ DELTANET, "ssm_conv1d.weight", CONV, F32, { TAPS, QKV } },
	{ DELTANET, "ssm_dt.bias", DT_BIAS, F32, { RANK } },
	{ DELTANET, "ssm_a", DECAY, F32, { RANK } },
	{ DELTANET, "ssm_beta.weight", WEIGHT, F32, { EMBD, RANK } },
	{ DELTANET, "ssm_alpha.weight", WEIGHT, F32, { EMBD, RANK } },
	{ DELTANET, "ssm_norm.weight", NORM, F32, { STATE } },
	{ DELTANET, "ssm_out.weight", WEIGHT, Q8_0, { INNER, EMBD } },

	{ ATTENTION, "attn_q.weight", WEIGHT, ATTN_TYPE, { EMBD, GATED } },
	{ ATTENTION, "attn_k.weight", WEIGHT, ATTN_TYPE, { EMBD, KEY } },
	{ ATTENTION, "attn_v.weight", WEIGHT, V_TYPE, { EMBD, KEY } },
	{ ATTENTION, "attn_output.weight", WEIGHT, ATTN_TYPE, { QUERY, EMBD } },
	{ ATTENTION, "attn_q_norm.weight", NORM, F32, { HEAD } },
	{ ATTENTION, "attn_k_norm.weight", NORM, F32, { HEAD } },

	{ MOE, "ffn_gate_inp.weight", WEIGHT, ROUTER_TYPE, { EMBD, EXPERTS } },
	{ MOE, "ffn_gate_exps.weight", WEIGHT, Q4_K, { EMBD, FF_EXP, EXPERTS } },
	{ MOE, "ffn_up_exps.weight", WEIGHT, Q4_K, { EMBD, FF_EXP, EXPERTS } },
	{ MOE, "ffn_down_exps.weight", WEIGHT, DOWN_TYPE,
	    { FF_EXP, EMBD, EXPERTS } },
	{ SHARED, "ffn_gate_inp_shexp.weight", WEIGHT, ROUTER_TYPE, { EMBD } },
	{ SHARED, "ffn_gate_shexp.weight", WEIGHT, Q8_0, { EMBD, FF_SHEXP } },
	{ SHARED, "ffn_up_shexp.weight", WEIGHT, Q8_0, { EMBD, FF_SHEXP } },
	{ SHARED, "ffn_down_shexp.weight", WEIGHT, Q8_0, { FF_SHEXP, EMBD } },

	{ DENSE, "ffn_gate.weight", WEIGHT, Q4_K, { EMBD, FF } },
	{ DENSE, "ffn_up.weight", WEIGHT, Q4_K, { EMBD, FF } },
	{ DENSE, "ffn_down.weight", WEIGHT, DOWN_TYPE, { FF, EMBD } },

	{ MTP, "nextn.eh_proj.weight", WEIGHT, Q8_0, { TWO_EMBD, EMBD } },
	{ MTP, "nextn.enorm.weight", NORM, F32, { EMBD } },
	{ MTP, "nextn.hnorm.weight", NORM, F32, { EMBD } },
	{ MTP, "nextn.shared_head_norm.weight", NORM, F32, { EMBD } },
};

static int
has_part(const struct qwen_synth_shape *s, uint32_t i, enum part part)
{
	int mtp = i >= s->info.n_layer;
	int recurrent = s->interval && !mtp && (i + 1) % s->interval != 0;

	switch (part) {
	case ALL: return 1;
	case PLAIN: return !s->interval;
	case HYBRID: return s->interval != 0;
	case ATTENTION: return !recurrent;
	case DELTANET: return recurrent;
	case DENSE: return !s->info.n_expert;
	case MOE: return s->info.n_expert != 0;
	case SHARED: return s->info.n_expert && s->ff_shexp;
	case MTP: return mtp;
	}
	return 0;
}

/* llama.cpp's Q4_K_M gives more bits to these layers' attn_v and ffn_down. */
static int
more_bits(const struct qwen_synth_shape *s, uint32_t i)
{
	uint32_t n = s->info.n_layer;

	return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static uint32_t
type_of(const struct qwen_synth_shape *s, uint32_t i, uint32_t type)
{
	switch (type) {
	case ATTN_TYPE:
		return s->ud ? Q8_0 : Q4_K;
	case ROUTER_TYPE:
		return i >= s->info.n_layer ? BF16 : F32;
	case V_TYPE:
		return s->ud ? Q8_0 : more_bits(s, i) ? Q6_K : Q4_K;
	case DOWN_TYPE:
		/* 38 of the 41 of the UD file are Q5_K, these are not */
		if (s->ud)
			return i == 34 || i == 38 || i == 39 ? Q6_K : Q5_K;
		return more_bits(s, i) ? Q6_K : Q4_K;
	default:
		return type;
	}
}

static void __attribute__((format(printf, 7, 8)))
add(struct qwen_synth *p, enum qwen_synth_content content, uint32_t type,
    uint64_t ne0, uint64_t ne1, uint64_t ne2, const char *fmt, ...)
{
	struct qwen_synth_tensor *t;
	va_list ap;

	p->failed |= qwen_grow(&p->t, &p->cap, p->n + 1, sizeof *p->t) < 0;
	if (p->failed)
		return;
	t = &p->t[p->n++];
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

void
qwen_synth_plan(struct qwen_synth *p)
{
	const struct qwen_synth_shape *s = &p->s;
	uint64_t query = (uint64_t)s->heads * s->head_dim;
	uint64_t inner = (uint64_t)s->rank * s->state;
	/* with the output gate, a query of twice the width */
	const uint64_t n[N_DIMS] = {
		[EMBD] = s->embd, [TWO_EMBD] = 2 * (uint64_t)s->embd,
		[QUERY] = query, [GATED] = s->interval ? 2 * query : query,
		[KEY] = (uint64_t)s->kv_heads * s->head_dim,
		[HEAD] = s->head_dim, [INNER] = inner, [TAPS] = s->conv,
		[QKV] = 2 * (uint64_t)s->groups * s->state + inner,
		[RANK] = s->rank, [STATE] = s->state, [FF] = s->ff,
		[FF_EXP] = s->ff_exp, [FF_SHEXP] = s->ff_shexp,
		[EXPERTS] = s->info.n_expert,
	};
	const struct row *r;
	uint32_t i;

	add(p, WEIGHT, s->ud ? Q8_0 : s->tied ? Q6_K : Q4_K, s->embd,
	    s->info.n_vocab, 0, "token_embd.weight");
	add(p, NORM, F32, s->embd, 0, 0, "output_norm.weight");
	if (!s->tied)
		add(p, WEIGHT, Q6_K, s->embd, s->info.n_vocab, 0,
		    "output.weight");
	for (i = 0; i < s->info.n_layer + s->info.n_mtp; i++) {
		for (r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
			if (has_part(s, i, r->part))
				add(p, r->content, type_of(s, i, r->type),
				    n[r->dim[0]], n[r->dim[1]], n[r->dim[2]],
				    "blk.%u.%s", i, r->name);
		}
	}
}
