/* SPDX-License-Identifier: ISC */
/* shape.h - inside of synthetic models: their shapes and tensors. */
#ifndef QWEN_SYNTH_SHAPE_H
#define QWEN_SYNTH_SHAPE_H

#include "synth/synth.h"

/* ggml's numbers of the formats. */
enum {
	F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8,
	Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14,
	IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18, IQ1_S = 19, IQ4_NL = 20,
	IQ3_S = 21, IQ2_S = 22, IQ4_XS = 23, IQ1_M = 29, BF16 = 30,
	TQ1_0 = 34, TQ2_0 = 35, MXFP4 = 39, NVFP4 = 40, Q1_0 = 41, Q2_0 = 42
};

/* What a tensor is for, as far as recipes make a difference. */
enum qwen_synth_role {
	FIXED = 0,			/* F32 in all files */
	EMBED_ROLE = 1 << 0,		/* token_embd, where output is there */
	HEAD_ROLE = 1 << 1,		/* output, or token_embd as both */
	Q_ROLE = 1 << 2, K_ROLE = 1 << 3, V_ROLE = 1 << 4, OUT_ROLE = 1 << 5,
	QKV_ROLE = 1 << 6, GATE_ROLE = 1 << 7,	/* of DeltaNet */
	SSM_BA_ROLE = 1 << 8, SSM_OUT_ROLE = 1 << 9,
	FFN_GATE_ROLE = 1 << 10, FFN_UP_ROLE = 1 << 11, FFN_DOWN_ROLE = 1 << 12,
	EXPERT_UP_ROLE = 1 << 13,		/* gate, too */
	EXPERT_DOWN_ROLE = 1 << 14,
	SHARED_UP_ROLE = 1 << 15, SHARED_DOWN_ROLE = 1 << 16,
	ROUTER_ROLE = 1 << 17,
	EH_PROJ_ROLE = 1 << 18,			/* of MTP */
};

enum qwen_synth_pooling { POOL_NONE, POOL_LAST = 3, POOL_RANK = 4 };

struct qwen_synth_shape {
	struct qwen_synth_info info;	/* what the public may know */
	const char	*title, *size, *pre;
	size_t		 recipe;	/* number, found by info.recipe */
	int		 tied;		/* no output.weight */
	int		 qwen2;		/* biases, no norms of q and k */
	int		 next;		/* DeltaNet as qwen3next has it */
	int		 mtp_only;	/* a side file: no other block */
	enum qwen_synth_pooling pooling;
	uint32_t	 embd, heads, kv_heads, head_dim, ff;
	uint32_t	 used, ff_exp, ff_shexp;
	uint32_t	 context;	/* tokens it was trained for */
	float		 rope_base;
	/* DeltaNet, where interval is not 0 */
	uint32_t	 interval, rope_dim, conv, state, groups, rank;
};

/* What the numbers of a tensor look like. */
enum qwen_synth_content {
	WEIGHT,		/* mean 0, sd 1/sqrt(inputs) */
	SCALE,		/* near that sd, of blocks that have sd 1 */
	NORM,		/* near 1 */
	DECAY,		/* ssm_a: -1 to -16 */
	DT_BIAS,	/* softplus of it: 0.001 to 0.1 */
	CONV,		/* taps, as torch starts them */
};

struct qwen_synth_tensor {
	char		name[64];
	uint32_t	type;
	unsigned	n_dims;
	uint64_t	ne[3];
	enum qwen_synth_content content;
	double		inputs;		/* of the matrix */
};

struct qwen_synth {
	struct qwen_synth_shape	 s;	/* after the options */
	char			 name[64];	/* shape and recipe */
	struct qwen_synth_tensor *t;
	size_t			 n, cap;
	int			 failed;	/* memory was short */
	uint64_t		 seed;
	int			 sparse;
	struct qwen_gguf_writer	*w;
};

/* Shape i as published, or NULL after the last. */
const struct qwen_synth_shape *qwen_synth_shape(size_t i);

/* The format of a tensor of this role, in the recipe of s. */
uint32_t qwen_synth_type(const struct qwen_synth_shape *s, uint32_t block,
    enum qwen_synth_role role);
uint32_t qwen_synth_file_type(const struct qwen_synth_shape *s);
int qwen_synth_find_recipe(size_t *recipe, const char *name,
    struct qwen_err *err);

/* Add all tensors of p->s; sets p->failed if memory is short. */
void qwen_synth_plan(struct qwen_synth *p);

/* Put the keys of the shape into the writer. */
void qwen_synth_put_keys(struct qwen_gguf_writer *w,
    const struct qwen_synth_shape *s);

/* And those of a tokenizer with the tokens of g, padded to n_vocab. */
int qwen_synth_put_vocab(struct qwen_gguf_writer *w,
    const struct qwen_synth_shape *s, const struct qwen_gguf *g,
    struct qwen_err *err);

#endif
