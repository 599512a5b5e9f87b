/* SPDX-License-Identifier: ISC */
/*
 * encoder.h - an open mmproj file: sizes, weights, and what computes.  Names are
 * those of the tensors.
 *
 * Patches of an image are in the order of its tokens: blocks of MERGE by MERGE
 * patches in raster order.  So the patches of a token follow one another.
 */
#ifndef QWEN_VISION_ENCODER_H
#define QWEN_VISION_ENCODER_H

#include "engine/cpu/kernel/kernel.h"
#include "engine/engine.h"
#include "vision/vision.h"

enum {
	MERGE = 2,			/* patches of a token, each way */
	PER_TOKEN = MERGE * MERGE,
	PATCHES = 1024,			/* that go through a product at once */
	LANES = 16,			/* patches of a block of keys */
	QUERIES = 4 * QWEN_ATTN_MAX_Q,	/* of a head that a thread takes */
	ROWS_MAX = 1 << 16,		/* of a span */
};

/* A matrix; its bias is added to each product. */
struct qwen_vision_matrix {
	const unsigned char	*data;
	const struct qwen_quant	*quant;
	const float		*bias;
	size_t			 n_in, n_out, row_bytes;
};

/* A layer norm over n numbers. */
struct qwen_vision_norm {
	const float		*w, *b;
	size_t			 n;
};

/* Two layers of an MLP, with a GELU between them, after a norm. */
struct qwen_vision_mlp {
	struct qwen_vision_norm	 norm;
	struct qwen_vision_matrix up, down;
};

struct qwen_vision_block {
	struct qwen_vision_norm	 norm;
	struct qwen_vision_matrix qkv, out;
	struct qwen_vision_mlp	 mlp;
	struct qwen_vision_mlp	*deep;	/* after this block; or NULL */
};

struct qwen_vision {
	struct qwen_gguf	*gguf;
	struct qwen_engine	*engine;
	struct qwen_kernels	 kernels;
	struct qwen_vision_info	 info;
	size_t			 patch;		/* pixels, each way */
	size_t			 side;		/* of the table of positions */
	size_t			 d, d_pad;	/* numbers of a head; filled up
						   to whole lanes */
	float			 eps, mean[3], std[3];
	const float		*position;	/* [side * side][n_embd_vision] */
	struct qwen_vision_matrix embed;	/* the sum of two kernels */
	struct qwen_vision_block *block;
	struct qwen_vision_mlp	*deep;		/* [n_deepstack] */
	struct qwen_vision_mlp	 merger;
	void			**owned;
	size_t			 n_owned, cap_owned;
};

/* An image on its way: [n] patches, and memory for PATCHES of them. */
struct qwen_vision_work {
	const struct qwen_vision *v;
	const struct qwen_vision_image *image;
	const float	*numbers;	/* in place of the image's; or NULL */
	size_t		 width, height;	/* in patches */
	size_t		 n;
	float		*x;		/* [n][n_embd_vision] */
	float		*q;		/* [n][n_head][d_pad] queries, then
					   results of attention */
	float		*kv;		/* blocks of LANES patches, by head, as
					   engine/quant/kv.h has them */
	uint16_t	**block;	/* [n / LANES] */
	float		*cos, *sin;	/* [longer side][d / 4] */
	float		*in;		/* [PATCHES][wide_in] */
	float		*mid;		/* [PATCHES][wide_mid] */
	size_t		 wide_in, wide_mid;
	float		*own;		/* of each thread */
	size_t		 own_floats;
	size_t		 first;		/* patch of row 0 of in and mid */
	size_t		 rows;		/* of in and mid in use */
	const void	*arg;		/* of the pass over rows */
};

/* Loads the file v->gguf: checks it, and sets all that follows. */
int qwen_vision_load(struct qwen_vision *v, struct qwen_err *err);

/* Return the place of patch i in the image. */
static inline size_t
qwen_vision_y(const struct qwen_vision_work *w, size_t i)
{
	return i / PER_TOKEN / (w->width / MERGE) * MERGE + i % PER_TOKEN /
	    MERGE;
}

static inline size_t
qwen_vision_x(const struct qwen_vision_work *w, size_t i)
{
	return i / PER_TOKEN % (w->width / MERGE) * MERGE + i % MERGE;
}

/* Takes the memory for an image of width by height patches. */
int qwen_vision_work_init(struct qwen_vision_work *w,
    const struct qwen_vision *v, size_t width, size_t height,
    struct qwen_err *err);
void qwen_vision_work_fini(struct qwen_vision_work *w);

/*
 * Calls fn for items 0 .. n - 1, on all threads; own is a thread's memory.
 */
typedef void qwen_vision_fn(struct qwen_vision_work *w, size_t item,
    float *own);
void qwen_vision_run(struct qwen_vision_work *w, qwen_vision_fn *fn, size_t n);

/*
 * Computes y[i] = m x[i] + bias for n rows; rows are x_step and y_step numbers
 * apart.
 */
void qwen_vision_product(struct qwen_vision_work *w,
    const struct qwen_vision_matrix *m, const float *x, size_t x_step,
    float *y, size_t y_step, size_t n);

/* Numbers of own that products take. */
size_t qwen_vision_product_own(const struct qwen_vision *v);

/* ---- embed.c */

/* Sets x: patches times the kernels, and their positions. */
void qwen_vision_embed(struct qwen_vision_work *w);

/* Sets cos and sin. */
void qwen_vision_angles(struct qwen_vision_work *w);

/* ---- attend.c */

/*
 * Takes rows first .. first + rows - 1 of mid, which have q, k and v, to q and
 * kv; rotates q and k.
 */
void qwen_vision_take_qkv(struct qwen_vision_work *w);

/* Replaces all of q by the results of attention. */
void qwen_vision_attend(struct qwen_vision_work *w);

static inline const struct qwen_vec *
qwen_vision_vec(const struct qwen_vision *v)
{
	return v->kernels.vec->run.vec;
}

#endif
