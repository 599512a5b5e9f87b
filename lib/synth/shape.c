/* SPDX-License-Identifier: ISC */
/* shape.c - shapes of published models, and their tensors. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "synth/shape.h"

/* Sizes of DeltaNet that all hybrid shapes share. */
#define DELTANET_SIZES \
	.interval = 4, .rope_dim = 64, .conv = 4, .state = 128, .groups = 16

#define SHAPE(title_, size_, recipe_, arch_, layers, vocab) \
	.info = { .name = title_ "-" recipe_, .recipe = recipe_, \
	    .arch = arch_, .n_layer = layers, .n_vocab = vocab }, \
	.title = title_, .size = size_

#define IMAGES(size) .info.images = 1, .encoder = size##_ENCODER

static const struct qwen_synth_shape shapes[] = {
	{ SHAPE("Qwen3.6-35B-A3B", "35B-A3B", "UD-Q4_K_M", "qwen35moe", 40,
	    248320), .info.n_mtp = 1, .info.n_expert = 256, .embd = 2048,
	    .heads = 16, .kv_heads = 2, .head_dim = 256, .used = 8,
	    .ff_exp = 512, .ff_shexp = 512, .context = 262144,
	    .rope_base = 1e7f, DELTANET_SIZES, .rank = 32, IMAGES(LARGE) },
	{ SHAPE("Qwen3.8-27B", "27B", "UD-Q2_K_XL", "qwen35", 64, 248320),
	    .info.n_mtp = 1, .embd = 5120, .heads = 24, .kv_heads = 4,
	    .head_dim = 256, .ff = 17408, .context = 262144,
	    .rope_base = 1e7f, DELTANET_SIZES, .rank = 48, IMAGES(LARGE) },
	{ SHAPE("Qwen3-Coder-Next", "80B-A3B", "Q4_K_M", "qwen3next", 48,
	    151936), .info.n_expert = 512, .embd = 2048, .heads = 16,
	    .kv_heads = 2, .head_dim = 256, .ff = 5120, .used = 10,
	    .ff_exp = 512, .ff_shexp = 512, .context = 262144,
	    .rope_base = 5e6f, DELTANET_SIZES, .rank = 32 },
	{ SHAPE("Qwen3-235B-A22B", "235B-A22B", "Q4_K_M", "qwen3moe", 94,
	    151936), .info.n_expert = 128, .embd = 4096, .heads = 64,
	    .kv_heads = 4, .head_dim = 128, .ff = 12288, .used = 8,
	    .ff_exp = 1536, .context = 40960, .rope_base = 1e6f },
	{ SHAPE("Qwen3-30B-A3B", "30B-A3B", "Q4_K_M", "qwen3moe", 48, 151936),
	    .info.n_expert = 128, .embd = 2048, .heads = 32, .kv_heads = 4,
	    .head_dim = 128, .ff = 6144, .used = 8, .ff_exp = 768,
	    .context = 40960, .rope_base = 1e6f },
	{ SHAPE("Qwen2.5-Coder-7B", "7B", "Q4_K_M", "qwen2", 28, 152064),
	    .embd = 3584, .heads = 28, .kv_heads = 4, .head_dim = 128,
	    .ff = 18944, .context = 32768, .rope_base = 1e6f },
	{ SHAPE("Qwen3-Embedding-0.6B", "0.6B", "Q8_0", "qwen3", 28, 151669),
	    .tied = 1, .pooling = POOL_LAST, .embd = 1024, .heads = 16,
	    .kv_heads = 8, .head_dim = 128, .ff = 3072, .context = 32768,
	    .rope_base = 1e6f },
	{ SHAPE("Qwen3-Reranker-0.6B", "0.6B", "Q8_0", "qwen3", 28, 151669),
	    .tied = 1, .pooling = POOL_RANK, .embd = 1024, .heads = 16,
	    .kv_heads = 8, .head_dim = 128, .ff = 3072, .context = 40960,
	    .rope_base = 1e6f },
	{ SHAPE("Qwen3-0.6B", "0.6B", "Q4_K_M", "qwen3", 28, 151936),
	    .tied = 1, .embd = 1024, .heads = 16, .kv_heads = 8,
	    .head_dim = 128, .ff = 3072, .context = 40960,
	    .rope_base = 1e6f },
	{ SHAPE("Qwen3-1.7B", "1.7B", "Q4_K_M", "qwen3", 28, 151936),
	    .tied = 1, .embd = 2048, .heads = 16, .kv_heads = 8,
	    .head_dim = 128, .ff = 6144, .context = 40960,
	    .rope_base = 1e6f },
	{ SHAPE("Qwen3-4B", "4B", "Q4_K_M", "qwen3", 36, 151936), .tied = 1,
	    .embd = 2560, .heads = 32, .kv_heads = 8, .head_dim = 128,
	    .ff = 9728, .context = 40960, .rope_base = 1e6f },
	{ SHAPE("Qwen3-8B", "8B", "Q4_K_M", "qwen3", 36, 151936),
	    .embd = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128,
	    .ff = 12288, .context = 40960, .rope_base = 1e6f },
	{ SHAPE("Qwen3-VL-2B", "2B", "Q4_K_M", "qwen3vl", 28, 151936),
	    .tied = 1, .embd = 2048, .heads = 16, .kv_heads = 8,
	    .head_dim = 128, .ff = 6144, .context = 262144,
	    .rope_base = 5e6f, IMAGES(SMALL), .deepstack = { 5, 11, 17 },
	    .n_deepstack = 3 },
	{ SHAPE("Qwen3-VL-8B", "8B", "Q4_K_M", "qwen3vl", 36, 151936),
	    .embd = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128,
	    .ff = 12288, .context = 262144, .rope_base = 5e6f,
	    IMAGES(LARGE), .deepstack = { 8, 16, 24 }, .n_deepstack = 3 },
};

const struct qwen_synth_shape *
qwen_synth_shape(size_t i)
{
	return i < sizeof shapes / sizeof shapes[0] ? &shapes[i] : NULL;
}

/* Sizes of tensors; some are computed from several numbers of the shape. */
enum dim {
	NONE, EMBD, TWO_EMBD, QUERY, GATED, KEY, HEAD, QKV, INNER, TAPS, RANK,
	TWO_RANK, STATE, FF, FF_EXP, FF_SHEXP, EXPERTS, N_DIMS
};

/* Which layers have a tensor. */
enum part {
	ALL, PLAIN, HYBRID, ATTENTION, BIASES, QK_NORMS, DELTANET, BETA, BA,
	DENSE, MOE, SHARED, MTP
};

static const struct row {
	enum part	 part;
	const char	*name;		/* after "blk.N." */
	enum qwen_synth_content content;
	enum qwen_role role;
	enum dim	 dim[3];
} rows[] = {
	{ ALL, "attn_norm.weight", NORM, FIXED, { EMBD } },
	{ HYBRID, "post_attention_norm.weight", NORM, FIXED, { EMBD } },
	{ PLAIN, "ffn_norm.weight", NORM, FIXED, { EMBD } },

	{ DELTANET, "attn_qkv.weight", WEIGHT, QKV_ROLE, { EMBD, QKV } },
	{ DELTANET, "attn_gate.weight", WEIGHT, GATE_ROLE, { EMBD, INNER } },
	{ DELTANET, "ssm_conv1d.weight", CONV, FIXED, { TAPS, QKV } },
	{ DELTANET, "ssm_dt.bias", DT_BIAS, FIXED, { RANK } },
	{ DELTANET, "ssm_a", DECAY, FIXED, { RANK } },
	{ BETA, "ssm_beta.weight", WEIGHT, SSM_BA_ROLE, { EMBD, RANK } },
	{ BETA, "ssm_alpha.weight", WEIGHT, SSM_BA_ROLE, { EMBD, RANK } },
	{ BA, "ssm_ba.weight", WEIGHT, SSM_BA_ROLE, { EMBD, TWO_RANK } },
	{ DELTANET, "ssm_norm.weight", NORM, FIXED, { STATE } },
	{ DELTANET, "ssm_out.weight", WEIGHT, SSM_OUT_ROLE, { INNER, EMBD } },

	{ ATTENTION, "attn_q.weight", WEIGHT, Q_ROLE, { EMBD, GATED } },
	{ ATTENTION, "attn_k.weight", WEIGHT, K_ROLE, { EMBD, KEY } },
	{ ATTENTION, "attn_v.weight", WEIGHT, V_ROLE, { EMBD, KEY } },
	{ ATTENTION, "attn_output.weight", WEIGHT, OUT_ROLE, { QUERY, EMBD } },
	{ BIASES, "attn_q.bias", WEIGHT, FIXED, { QUERY } },
	{ BIASES, "attn_k.bias", WEIGHT, FIXED, { KEY } },
	{ BIASES, "attn_v.bias", WEIGHT, FIXED, { KEY } },
	{ QK_NORMS, "attn_q_norm.weight", NORM, FIXED, { HEAD } },
	{ QK_NORMS, "attn_k_norm.weight", NORM, FIXED, { HEAD } },

	{ MOE, "ffn_gate_inp.weight", WEIGHT, ROUTER_ROLE, { EMBD, EXPERTS } },
	{ MOE, "ffn_gate_exps.weight", WEIGHT, EXPERT_UP_ROLE,
	    { EMBD, FF_EXP, EXPERTS } },
	{ MOE, "ffn_up_exps.weight", WEIGHT, EXPERT_UP_ROLE,
	    { EMBD, FF_EXP, EXPERTS } },
	{ MOE, "ffn_down_exps.weight", WEIGHT, EXPERT_DOWN_ROLE,
	    { FF_EXP, EMBD, EXPERTS } },
	{ SHARED, "ffn_gate_inp_shexp.weight", WEIGHT, ROUTER_ROLE, { EMBD } },
	{ SHARED, "ffn_gate_shexp.weight", WEIGHT, SHARED_UP_ROLE,
	    { EMBD, FF_SHEXP } },
	{ SHARED, "ffn_up_shexp.weight", WEIGHT, SHARED_UP_ROLE,
	    { EMBD, FF_SHEXP } },
	{ SHARED, "ffn_down_shexp.weight", WEIGHT, SHARED_DOWN_ROLE,
	    { FF_SHEXP, EMBD } },

	{ DENSE, "ffn_gate.weight", WEIGHT, FFN_GATE_ROLE, { EMBD, FF } },
	{ DENSE, "ffn_up.weight", WEIGHT, FFN_UP_ROLE, { EMBD, FF } },
	{ DENSE, "ffn_down.weight", WEIGHT, FFN_DOWN_ROLE, { FF, EMBD } },

	{ MTP, "nextn.eh_proj.weight", WEIGHT, EH_PROJ_ROLE,
	    { TWO_EMBD, EMBD } },
	{ MTP, "nextn.enorm.weight", NORM, FIXED, { EMBD } },
	{ MTP, "nextn.hnorm.weight", NORM, FIXED, { EMBD } },
	{ MTP, "nextn.shared_head_norm.weight", NORM, FIXED, { EMBD } },
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
	case BIASES: return !recurrent && s->arch->no_qk_norm;
	case QK_NORMS: return !recurrent && !s->arch->no_qk_norm;
	case DELTANET: return recurrent;
	case BETA: return recurrent && !s->arch->grouped;
	case BA: return recurrent && s->arch->grouped;
	case DENSE: return !s->info.n_expert;
	case MOE: return s->info.n_expert != 0;
	case SHARED: return s->info.n_expert && s->ff_shexp;
	case MTP: return mtp;
	}
	return 0;
}

struct qwen_synth_tensor *
qwen_synth_new_tensor(struct qwen_synth *p)
{
	struct qwen_synth_tensor *t;

	p->failed |= qwen_grow(&p->t, &p->cap, p->n + 1, sizeof *p->t) < 0;
	if (p->failed)
		return NULL;
	t = &p->t[p->n++];
	memset(t, 0, sizeof *t);
	return t;
}

static void __attribute__((format(printf, 5, 6)))
add_tensor(struct qwen_synth *p, enum qwen_synth_content content, uint32_t type,
    const uint64_t ne[3], const char *fmt, ...)
{
	struct qwen_synth_tensor *t = qwen_synth_new_tensor(p);
	va_list ap;

	if (t == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(t->name, sizeof t->name, fmt, ap);
	va_end(ap);
	t->type = type;
	t->content = content;
	memcpy(t->ne, ne, 3 * sizeof *ne);
	t->n_dims = ne[2] ? 3 : ne[1] ? 2 : 1;
	t->inputs = (double)ne[0];
}

/* Adds NAME.scale for a matrix NAME.weight in NVFP4: one number per expert. */
static void
add_scale(struct qwen_synth *p)
{
	struct qwen_synth_tensor of;	/* a copy: the array moves */
	uint64_t ne[3] = { 1 };

	if (p->failed || p->t[p->n - 1].type != QT_NVFP4)
		return;
	of = p->t[p->n - 1];
	if (of.n_dims == 3)
		ne[0] = of.ne[2];
	add_tensor(p, SCALE, QT_F32, ne, "%.*s.scale",
	    (int)(strrchr(of.name, '.') - of.name), of.name);
	if (!p->failed)
		p->t[p->n - 1].inputs = of.inputs;
}

uint32_t
qwen_synth_type(const struct qwen_synth_shape *s, uint32_t block,
    enum qwen_role role)
{
	const struct qwen_recipe_model m = { .n_layer = s->info.n_layer,
	    .heads = s->heads, .kv_heads = s->kv_heads,
	    .n_expert = s->info.n_expert, .made = QWEN_MADE_PUBLISHED };

	return qwen_recipe_type(s->recipe, &m, block, role);
}

/* Adds the tensors outside the layers. */
static void
add_ends(struct qwen_synth *p, uint64_t embd, uint64_t vocab)
{
	const struct qwen_synth_shape *s = &p->s;
	const uint64_t matrix[3] = { embd, vocab }, norm[3] = { embd };
	const uint64_t labels[3] = { embd, 2 };

	add_tensor(p, WEIGHT, qwen_synth_type(s, 0, s->tied ? HEAD_ROLE :
	    EMBED_ROLE),
	    matrix, "token_embd.weight");
	add_tensor(p, NORM, QT_F32, norm, "output_norm.weight");
	if (!s->tied)
		add_tensor(p, WEIGHT, qwen_synth_type(s, 0, HEAD_ROLE), matrix,
		    "output.weight");
	if (s->pooling == POOL_RANK)
		add_tensor(p, WEIGHT, QT_F32, labels, "cls.output.weight");
}

void
qwen_synth_plan(struct qwen_synth *p)
{
	const struct qwen_synth_shape *s = &p->s;
	uint64_t query = (uint64_t)s->heads * s->head_dim;
	uint64_t inner = (uint64_t)s->rank * s->state;
	/* a query with its output gate is twice as wide */
	const uint64_t n[N_DIMS] = {
		[EMBD] = s->embd, [TWO_EMBD] = 2 * (uint64_t)s->embd,
		[QUERY] = query, [GATED] = s->interval ? 2 * query : query,
		[KEY] = (uint64_t)s->kv_heads * s->head_dim,
		[HEAD] = s->head_dim, [INNER] = inner, [TAPS] = s->conv,
		[QKV] = 2 * (uint64_t)s->groups * s->state + inner,
		[RANK] = s->rank, [TWO_RANK] = 2 * (uint64_t)s->rank,
		[STATE] = s->state, [FF] = s->ff, [FF_EXP] = s->ff_exp,
		[FF_SHEXP] = s->ff_shexp, [EXPERTS] = s->info.n_expert,
	};
	const struct row *r;
	uint32_t i;

	add_ends(p, s->embd, s->info.n_vocab);
	i = s->mtp_only ? s->info.n_layer : 0;
	for (; i < s->info.n_layer + s->info.n_mtp; i++) {
		for (r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
			const uint64_t ne[3] = { n[r->dim[0]], n[r->dim[1]],
			    n[r->dim[2]] };

			if (!has_part(s, i, r->part))
				continue;
			add_tensor(p, r->content, r->role == FIXED ? QT_F32 :
			    qwen_synth_type(s, i, r->role), ne, "blk.%u.%s", i,
			    r->name);
			add_scale(p);
		}
	}
}
