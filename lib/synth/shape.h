/* SPDX-License-Identifier: ISC */
/* shape.h - inside of synthetic models: their shapes and tensors. */
#ifndef QWEN_SYNTH_SHAPE_H
#define QWEN_SYNTH_SHAPE_H

#include "gguf/recipe.h"
#include "synth/synth.h"

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
    enum qwen_role role);

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
