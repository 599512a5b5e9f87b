/* SPDX-License-Identifier: ISC */
/* shape.h - internal: shapes and tensors of synthetic models. */
#ifndef QWEN_SYNTH_SHAPE_H
#define QWEN_SYNTH_SHAPE_H

#include "gguf/arch.h"
#include "gguf/mmproj.h"
#include "gguf/recipe.h"
#include "synth/synth.h"

enum qwen_synth_pooling { POOL_NONE, POOL_LAST = 3, POOL_RANK = 4 };

/* The image encoders, by the size that a model has. */
enum qwen_synth_encoder { NO_ENCODER, LARGE_ENCODER, SMALL_ENCODER };

struct qwen_synth_shape {
	struct qwen_synth_info info;	/* the public part */
	const char	*title, *size;
	size_t		 recipe;	/* found by info.recipe */
	const struct qwen_arch *arch;	/* found by info.arch */
	int		 tied;		/* no output.weight */
	int		 mtp_only;	/* a draft file: no other layers */
	enum qwen_synth_pooling pooling;
	uint32_t	 embd, heads, kv_heads, head_dim, ff;
	uint32_t	 used, ff_exp, ff_shexp;
	uint32_t	 context;	/* training context, in tokens */
	float		 rope_base;
	/* DeltaNet, if interval is not 0 */
	uint32_t	 interval, rope_dim, conv, state, groups, rank;
	/* reading images */
	enum qwen_synth_encoder encoder;
	uint32_t	 deepstack[3], n_deepstack;	/* layers of the
							   encoder */
};

/* Distribution of a tensor's numbers. */
enum qwen_synth_content {
	WEIGHT,		/* mean 0, sd 1/sqrt(inputs) */
	SCALE,		/* near that sd, for blocks of sd 1 (NVFP4) */
	NORM,		/* near 1 */
	DECAY,		/* ssm_a: -1 to -16 */
	DT_BIAS,	/* its softplus is 0.001 to 0.1 */
	CONV,		/* taps, initialised as in PyTorch */
};

struct qwen_synth_tensor {
	char		name[64];
	uint32_t	type;
	unsigned	n_dims;
	uint64_t	ne[4];		/* 0 or 1 after the last dimension */
	enum qwen_synth_content content;
	double		inputs;		/* columns of the matrix */
};

struct qwen_synth {
	struct qwen_synth_shape	 s;	/* with the options applied */
	char			 name[64];	/* shape and recipe */
	struct qwen_synth_tensor *t;
	size_t			 n, cap;
	int			 failed;	/* out of memory */
	struct qwen_mmproj	 encoder;	/* n_layer 0: a model instead */
	uint64_t		 seed;
	int			 sparse;
	struct qwen_gguf_writer	*w;
};

/* Returns shape i as published, or NULL after the last. */
const struct qwen_synth_shape *qwen_synth_shape(size_t i);

/* Returns the format of a tensor of this role in the recipe of s. */
uint32_t qwen_synth_type(const struct qwen_synth_shape *s, uint32_t block,
    enum qwen_role role);

/* Adds all tensors of p->s; sets p->failed without memory. */
void qwen_synth_plan(struct qwen_synth *p);

/* Adds a tensor, all zero; NULL without memory, which sets p->failed. */
struct qwen_synth_tensor *qwen_synth_new_tensor(struct qwen_synth *p);

/*
 * Sets *m to the encoder of a shape, with n_layer layers (0: as published);
 * -1 with *err if the shape has none.
 */
int qwen_synth_choose_encoder(struct qwen_mmproj *m,
    const struct qwen_synth_shape *s, uint32_t n_layer, struct qwen_err *err);

/* Returns 0 if encoders can be in this recipe, else -1. */
int qwen_synth_encoder_recipe(size_t recipe, struct qwen_err *err);

/* qwen_synth_plan and qwen_synth_put_keys for an encoder. */
void qwen_synth_plan_encoder(struct qwen_synth *p);
void qwen_synth_put_encoder_keys(struct qwen_gguf_writer *w,
    const struct qwen_synth *p);

/* Adds the keys of the shape to the writer. */
void qwen_synth_put_keys(struct qwen_gguf_writer *w,
    const struct qwen_synth_shape *s);

/* Adds the keys of a tokenizer with the tokens of g, padded to n_vocab. */
int qwen_synth_put_vocab(struct qwen_gguf_writer *w,
    const struct qwen_synth_shape *s, const struct qwen_gguf *g,
    struct qwen_err *err);

#endif
