/* SPDX-License-Identifier: ISC */
/* plan.h - inside: which tensors a GGUF file gets, and from what each is made. */
#ifndef QWEN_HUB_PLAN_H
#define QWEN_HUB_PLAN_H

#include "base/text.h"
#include "gguf/write.h"
#include "hub/arch.h"

/* ggml's numbers of the formats that are written. */
enum {
	GGML_F32 = 0, GGML_F16 = 1, GGML_Q4_1 = 3, GGML_Q8_0 = 8, GGML_BF16 = 30,
	GGML_MXFP4 = 39, GGML_NVFP4 = 40
};

/*
 * Weights of the folder: planes of rows, and where they are not whole numbers,
 * their scales: one for so many rows and columns, in as many planes.
 */
struct hub_source {
	const struct qwen_st_tensor *w, *scale;
	uint64_t	 planes, rows, columns;	/* of w, in elements */
	uint64_t	 block_rows, block_columns, scale_columns;
	/* for codes of MLX, with a scale and a bias per group of a row; else 0 */
	const struct qwen_st_tensor *bias;
	unsigned	 bits;
	uint64_t	 group;
};

enum hub_order {
	HUB_AS_IS,
	HUB_TILED_ROWS,		/* value heads, of head_rows each, from row
				   head_from on */
	HUB_TILED_COLUMNS,	/* likewise columns */
	HUB_SPLIT_QKV, HUB_SPLIT_Z,	/* rows of HUB_QKVZ */
	HUB_TRANSPOSED,		/* rows are columns of the source */
	HUB_MIXED,		/* the planes' columns take turns */
	HUB_MIXED_TRANSPOSED,
	HUB_PICKED,		/* two rows, those of yes and no */
};

enum hub_op { HUB_KEEP, HUB_PLUS_ONE, HUB_MINUS_EXP, HUB_TIMES };

enum hub_kind {
	HUB_NUMBERS,		/* rows of numbers */
	HUB_FP4,		/* codes of 4 bits, put into GGUF's blocks */
	HUB_AFFINE,		/* codes of MLX, put into blocks of Q4_1 */
	HUB_SCALES,		/* a number of each source */
};

/* A tensor of the GGUF file. */
struct hub_tensor {
	char		 name[64];
	uint32_t	 type, n_dims;
	uint64_t	 ne[4];
	size_t		 from, n_from;	/* sources, one after another */
	enum hub_kind	 kind;
	enum hub_order	 order;
	enum hub_op	 op;
	uint64_t	 row0;		/* the first row of each plane */
	uint64_t	 head_from, head_rows;
	int		 inverse;	/* of scales, one over them */
	float		 by;		/* where HUB_TIMES */
};

/* Whether it is made for ranking, and from what its classifier is made. */
enum hub_rank {
	HUB_NO_RANK,
	HUB_RANK_WORDS,		/* rows of yes and no in the output */
	HUB_RANK_SCORE,		/* a tensor of its own */
};

/* The linear attention's sizes, where there is one. */
struct hub_heads {
	uint64_t	 n_key, n_value, key_dim, value_dim;
};

struct qwen_hub_gguf {
	const struct qwen_hub	*hub;
	struct qwen_hub_opts	 opts;
	uint32_t		 type;		/* of matrices */
	uint32_t		 n_layer, n_mtp;	/* n_mtp: 0 if left out */
	uint32_t		 n_expert;
	int			 turned;	/* all experts in one: inputs
						   are rows */
	int			 mlx;		/* 1 is already added to norms,
						   convolutions are [C, K, 1] */
	struct hub_heads	 heads;
	enum hub_rank		 rank;
	uint64_t		 word[2];	/* ids of yes and no */
	int			 tied;		/* their rows are embeddings */
	int			 fp4;		/* a type, if there are such */
	int			 q4_1;		/* there are matrices of that type, of MLX */
	float			 alpha;		/* of an adapter */
	struct hub_tensor	*t;
	size_t			 n, cap;
	struct hub_source	*source;
	size_t			 n_sources, cap_sources;
	struct qwen_text	*note;
	size_t			 n_notes, cap_notes;
	struct qwen_gguf_writer	*w;
	float			 e4m3[256], e5m2[256];	/* what bytes mean */
};

/* Fill in what tensors there are. */
int qwen_hub_plan(struct qwen_hub_gguf *g, struct qwen_err *err);

/*
 * How the weights of a tensor are scaled: set all of *s for w, whose name is
 * that; -1 if scales that it needs are missing or have another shape.
 */
int qwen_hub_source(const struct qwen_hub_gguf *g,
    const struct qwen_st_tensor *w, struct hub_source *s,
    struct qwen_err *err);

/*
 * The tensor called as w, less "_packed", and this after it, or, if it begins
 * with a dot, in place of the last part; or NULL.
 */
const struct qwen_st_tensor *qwen_hub_after(const struct qwen_hub *h,
    const struct qwen_st_tensor *w, const char *ending);

/* Whether a name is of a scale, or of what belongs to another tensor. */
int qwen_hub_is_scale(const char *name);

/*
 * Of weights that are codes of 4 bits: their type in GGUF; 0 if w is no such.
 */
uint32_t qwen_hub_fp4(const struct qwen_hub *h, const struct qwen_st_tensor *w);

/* The object in config.json that describes codes of MLX, or NULL. */
yyjson_val *qwen_hub_mlx(const struct qwen_hub *h);

/* Whether w has such codes, with its scales and biases in the folder. */
int qwen_hub_is_affine(const struct qwen_hub *h,
    const struct qwen_st_tensor *w);

/* Fill in the rest of *s, whose w and shape are set; -1 and *err. */
int qwen_hub_affine(const struct qwen_hub_gguf *g, struct hub_source *s,
    struct qwen_err *err);

/* Write row r of plane p as numbers; or, if that is exact, as blocks of Q4_1. */
void qwen_hub_affine_row(const struct hub_source *s, uint64_t p, uint64_t r,
    float *x);
int qwen_hub_affine_is_q4_1(const struct hub_source *s);
void qwen_hub_affine_q4_1(const struct hub_source *s, uint64_t p, uint64_t r,
    unsigned char *dst);

/* A note for the user. */
int qwen_hub_note(struct qwen_hub_gguf *g, struct qwen_err *err,
    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The metadata, in the order of llama.cpp's converter; vocab.c its end. */
int qwen_hub_put_keys(struct qwen_hub_gguf *g, struct qwen_err *err);
int qwen_hub_put_vocab(struct qwen_hub_gguf *g, struct qwen_err *err);

/* What the config says that has no key: refused, or noted. */
int qwen_hub_check(struct qwen_hub_gguf *g, struct qwen_err *err);

/* An id of the vocabulary: 1, 0 if the folder does not have the token, -1. */
int qwen_hub_token_id(const struct qwen_hub *h, const char *token,
    uint64_t *id, struct qwen_err *err);

/* Whether the model ranks: sets g->rank and what belongs to it. */
int qwen_hub_find_rank(struct qwen_hub_gguf *g, struct qwen_err *err);

/* The metadata of one that does. */
int qwen_hub_put_rank(struct qwen_hub_gguf *g, struct qwen_err *err);

/* Where source row r of plane 0 of a tensor's source lies. */
uint64_t qwen_hub_row(const struct qwen_hub_gguf *g,
    const struct hub_tensor *t, uint64_t r);

/*
 * Rows first to first + n of plane p of source s, as the tensor has them, in its
 * format, to dst; x has room for two rows of numbers.  How many were made: after
 * less than n comes one with a number that the format cannot have.  That is one
 * too large for it, or for blocks one that is not finite.
 */
uint64_t qwen_hub_rows(const struct qwen_hub_gguf *g, const struct hub_tensor *t,
    const struct hub_source *s, uint64_t p, uint64_t first, uint64_t n,
    float *x, unsigned char *dst);

/*
 * The file as one that is open: what lies in the folder as it is to be stays
 * there; norms, biases and routers that do not are made in memory, *made bytes,
 * at most that many; where the options name a type, matrices too.
 * The folder must outlive it.
 */
int qwen_hub_gguf_place(struct qwen_hub_gguf *g, struct qwen_gguf **out,
    uint64_t most, uint64_t *made, struct qwen_err *err);

#endif
