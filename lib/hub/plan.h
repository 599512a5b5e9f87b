/* SPDX-License-Identifier: ISC */
/* plan.h - internal: the tensors of the GGUF file, and their sources. */
#ifndef QWEN_HUB_PLAN_H
#define QWEN_HUB_PLAN_H

#include "base/text.h"
#include "gguf/mmproj.h"
#include "gguf/type.h"
#include "gguf/write.h"
#include "hub/arch.h"

/*
 * Weights in the folder: planes of rows; if they are quantised, also their
 * scales: one per block of block_rows x block_columns, in as many planes.
 */
struct hub_source {
	const struct qwen_st_tensor *w, *scale;
	uint64_t	 planes, rows, columns;	/* of w, in elements */
	uint64_t	 block_rows, block_columns, scale_columns;
	/* for MLX codes, with a scale and a bias per group of a row; else 0 */
	const struct qwen_st_tensor *bias;
	unsigned	 bits;
	uint64_t	 group;
};

enum hub_order {
	HUB_AS_IS,
	HUB_TILED_ROWS,		/* value heads of head_rows rows each, from row
				   head_from on */
	HUB_TILED_COLUMNS,	/* the same for columns */
	HUB_SPLIT_QKV, HUB_SPLIT_Z,	/* rows of a HUB_QKVZ tensor */
	HUB_TRANSPOSED,		/* rows are columns of the source */
	HUB_MIXED,		/* columns of the planes alternate */
	HUB_MIXED_TRANSPOSED,
	HUB_PICKED,		/* two rows, those of "yes" and "no" */
};

enum hub_op { HUB_KEEP, HUB_PLUS_ONE, HUB_MINUS_EXP, HUB_TIMES };

enum hub_kind {
	HUB_NUMBERS,		/* rows of numbers */
	HUB_FP4,		/* 4-bit codes, repacked into GGUF blocks */
	HUB_AFFINE,		/* MLX codes, repacked into Q4_1 blocks */
	HUB_SCALES,		/* one number per source */
};

/* A tensor of the GGUF file. */
struct hub_tensor {
	char		 name[64];
	uint32_t	 type, n_dims;
	uint64_t	 ne[4];
	size_t		 from, n_from;	/* consecutive sources */
	enum hub_kind	 kind;
	enum hub_order	 order;
	enum hub_op	 op;
	uint64_t	 row0;		/* first row of each plane */
	uint64_t	 head_from, head_rows;
	int		 inverse;	/* scales: store 1/scale */
	float		 by;		/* factor of HUB_TIMES */
};

/* Kind of reranker, by the tensor that its classifier is made of. */
enum hub_rank {
	HUB_NO_RANK,
	HUB_RANK_WORDS,		/* rows of "yes" and "no" of the output */
	HUB_RANK_SCORE,		/* a separate tensor */
};

/* Sizes of linear attention, if any. */
struct hub_heads {
	uint64_t	 n_key, n_value, key_dim, value_dim;
};

struct qwen_hub_gguf {
	struct qwen_hub		*hub;
	struct qwen_hub_opts	 opts;
	uint32_t		 type;		/* of matrices */
	uint32_t		 n_layer, n_mtp;	/* n_mtp: 0 if left
							   out */
	uint32_t		 n_expert;
	int			 turned;	/* experts in one tensor are
						   transposed: inputs are
						   rows */
	int			 mlx;		/* norms already include 1,
						   convolutions are [C, K, 1] */
	struct hub_heads	 heads;
	enum hub_rank		 rank;
	uint64_t		 word[2];	/* ids of "yes" and "no" */
	int			 tied;		/* their rows are embeddings */
	int			 fp4;		/* type of 4-bit float matrices,
						   or 0 */
	int			 q4_1;		/* there are Q4_1 matrices from
						   MLX */
	float			 alpha;		/* of an adapter */
	struct qwen_mmproj	 mmproj;	/* of an image encoder */
	struct hub_tensor	*t;
	size_t			 n, cap;
	struct hub_source	*source;
	size_t			 n_sources, cap_sources;
	struct qwen_gguf_writer	*w;
	float			 e4m3[256], e5m2[256];	/* values of the 256
							   bytes */
};

/* Determines the tensors of the file. */
int qwen_hub_plan(struct qwen_hub_gguf *g);

/* The same for the file of the image encoder, if the options ask for that. */
int qwen_hub_plan_mmproj(struct qwen_hub_gguf *g);

/* Returns the format that the options name; own if they name none. */
uint32_t qwen_hub_type_of(const struct qwen_hub_gguf *g, uint32_t own);

/*
 * Sets all of *s for the weights w: how they are scaled.  Returns 0; -1 if
 * scales are missing or have the wrong shape.
 */
int qwen_hub_source(const struct qwen_hub_gguf *g,
    const struct qwen_st_tensor *w, struct hub_source *s);

/*
 * Returns the tensor whose name is that of w, less "_packed", with ending
 * appended; if ending begins with a dot, it replaces the last part of the name.
 * NULL if there is none.
 */
const struct qwen_st_tensor *qwen_hub_after(const struct qwen_hub *h,
    const struct qwen_st_tensor *w, const char *ending);

/* Returns 1 if the name is that of a scale or of another companion tensor. */
int qwen_hub_is_scale(const char *name);

/* Returns the GGUF type of weights that are 4-bit float codes, else 0. */
uint32_t qwen_hub_fp4(const struct qwen_hub *h, const struct qwen_st_tensor *w);

/* Returns the object in config.json that describes MLX codes, or NULL. */
yyjson_val *qwen_hub_mlx(const struct qwen_hub *h);

/* Returns 1 if w has MLX codes, with scales and biases in the folder. */
int qwen_hub_is_affine(const struct qwen_hub *h,
    const struct qwen_st_tensor *w);

/* Completes *s, whose w and shape are set; -1 with *err. */
int qwen_hub_affine(const struct qwen_hub_gguf *g, struct hub_source *s);

/*
 * qwen_hub_affine_row dequantises row r of plane p; qwen_hub_affine_is_q4_1
 * returns 1 if Q4_1 represents all rows exactly; qwen_hub_affine_q4_1 writes a
 * row in that format.
 */
void qwen_hub_affine_row(const struct hub_source *s, uint64_t p, uint64_t r,
    float *x);
int qwen_hub_affine_is_q4_1(const struct hub_source *s);
void qwen_hub_affine_q4_1(const struct hub_source *s, uint64_t p, uint64_t r,
    unsigned char *dst);

/*
 * Write the metadata, in the order of llama.cpp's converter; the vocabulary
 * comes last.
 */
int qwen_hub_put_keys(struct qwen_hub_gguf *g);
int qwen_hub_put_vocab(struct qwen_hub_gguf *g);

/* Refuses or notes settings of config.json that have no key in GGUF. */
int qwen_hub_check(struct qwen_hub_gguf *g);

/*
 * Looks up an id of the vocabulary: 1, 0 if the folder does not have the token,
 * -1.
 */
int qwen_hub_token_id(const struct qwen_hub *h, const char *token,
    uint64_t *id);

/*
 * Determines whether the model is a reranker: sets g->rank and related members.
 */
int qwen_hub_find_rank(struct qwen_hub_gguf *g);

/* Writes the metadata of a reranker. */
void qwen_hub_put_rank(struct qwen_hub_gguf *g);

/* Returns the row of plane 0 of the source that becomes row r. */
uint64_t qwen_hub_row(const struct qwen_hub_gguf *g,
    const struct hub_tensor *t, uint64_t r);

/*
 * Converts rows first .. first + n - 1 of plane p of source s to the tensor's
 * format, into dst; x has room for two rows of numbers.  Returns the number of
 * rows converted: if less than n, the next row has a number that the format
 * cannot hold: too large, or for block formats NaN or infinite.
 */
uint64_t qwen_hub_rows(const struct qwen_hub_gguf *g, const struct hub_tensor *t,
    const struct hub_source *s, uint64_t p, uint64_t first, uint64_t n,
    float *x, unsigned char *dst);

#endif
