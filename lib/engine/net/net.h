/* SPDX-License-Identifier: ISC */
/*
 * net.h - what a model file is: hyperparameters, weights and the blocks of its
 * layers.  Nothing here computes.
 *
 * An architecture is a row in gguf/arch.c.  It lists the blocks of a layer:
 * attention or deltanet, then mlp or moe.
 */
#ifndef QWEN_NET_NET_H
#define QWEN_NET_NET_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "engine/quant/operand.h"
#include "engine/net/purpose.h"
#include "gguf/arch.h"
#include "qwen.h"

#define QWEN_HEAD_MAX 4096		/* maximum values in an attention
					   head */

/*
 * Hyperparameters, named as in GGUF metadata; 0 if the architecture has none.
 */
struct qwen_hparams {
	size_t	 n_block;		/* block_count, MTP blocks included */
	size_t	 n_layer;		/* layers of the trunk */
	size_t	 n_ctx, n_vocab, n_embd;
	size_t	 n_ff;
	size_t	 n_deepstack;		/* first layers after which rows of
					   spans get further vectors */
	float	 eps;			/* attention.layer_norm_rms_epsilon */
	/* attention */
	size_t	 n_head, n_head_kv, n_embd_head;
	enum qwen_kv k, v;	/* types in the KV cache */
	float	 attn_scale;
	size_t	 n_rot;
	struct qwen_rope rope;	/* kind FILE: as in the file */
	struct qwen_rope rope_file;	/* setting of the file */
	double	*rope_freq;		/* [n_rot / 2] radians per position */
	size_t	 rope_section[3];	/* pairs of each of the three positions;
					   all 0: one position turns all */
	double	 rope_mscale;		/* factor of cos and sin (YaRN) */
	/* experts */
	size_t	 n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
	float	 expert_scale;		/* expert_weights_scale, or 1 */
	/* DeltaNet */
	size_t	 conv_kernel, dk, dv, n_head_k, n_head_v;
	int	grouped;		/* value head h uses key head h / (n_head_v
					   / n_head_k), else h % n_head_k */
	unsigned char *recurrent;	/* [n_layer] 1: DeltaNet, 0: attention */
};

/* A matrix, or a stack of one matrix per expert, in the mapped file. */
struct qwen_weight {
	const unsigned char	*data;	/* NULL: the model has no such weight */
	const float		*scale;	/* factor of the product, one per
					   matrix; or NULL */
	const float		*bias;	/* [n_out] added to the product; or
					   NULL */
	const struct qwen_quant	*quant;
	enum qwen_operand	 operand;	/* form of the activations */
	enum qwen_purpose	 purpose;	/* for the profile */
	size_t			 n_in, n_out;
	size_t			 row_bytes;
	size_t			 expert_bytes;	/* bytes from one expert to the
						   next, or 0 */
	const void *const	*part;		/* [n_expert] addresses of the
						   experts, or NULL */
	const struct qwen_lora_set *lora;	/* additions of adapters
						   (lora.h), or NULL */
	size_t			 lora_at;	/* row of the tensor that is
						   this weight's first row */
};

struct qwen_attention {
	struct qwen_weight	 q, k, v, output;
	const float		*q_norm, *k_norm;	/* NULL: no norm */
	int			 gated;	/* each head of q has a query and a
					   gate */
};

/*
 * Some rows of a projection, and the offset of their results in a row of
 * results.
 */
struct qwen_piece {
	struct qwen_weight	 w;
	size_t			 at;
};

/*
 * Limits of DeltaNet: taps of the convolution, key heads of a file whose
 * projections are in pieces by key head, and pieces.
 */
#define QWEN_TAPS_MAX 16
#define QWEN_KEY_HEADS_MAX 64
#define QWEN_DELTA_PIECES_MAX (4 * QWEN_KEY_HEADS_MAX + 2)

struct qwen_deltanet {
	struct qwen_piece	*in;	/* projections to q, k, v, z, alpha,
					   beta */
	size_t			 n_in;
	int			 by_key;	/* alpha and beta are grouped by
						   key head */
	struct qwen_weight	 out;
	const float		*conv;	/* [conv_kernel][channels] */
	const float		*a, *dt, *norm;
};

/* Offsets in a row of DeltaNet's projections; q and k come before v. */
struct qwen_delta_row {
	size_t	v, z, alpha, beta;
};

static inline struct qwen_delta_row
qwen_delta_row_of(const struct qwen_hparams *h)
{
	struct qwen_delta_row r;

	r.v = 2 * h->n_head_k * h->dk;
	r.z = r.v + h->n_head_v * h->dv;
	r.alpha = r.z + h->n_head_v * h->dv;
	r.beta = r.alpha + h->n_head_v;
	return r;
}

struct qwen_mlp {
	struct qwen_weight	 gate, up, down;
};

struct qwen_moe {
	struct qwen_weight	 router;
	struct qwen_mlp		 routed;	/* stacks of matrices */
	struct qwen_weight	 shared_router;	/* one row; may be missing */
	struct qwen_mlp		 shared;
};

enum qwen_mixer_kind { QWEN_ATTENTION, QWEN_DELTANET };
enum qwen_ffn_kind { QWEN_NO_FFN, QWEN_MLP, QWEN_MOE };

struct qwen_layer {
	size_t			 index;
	const float		*mixer_norm, *ffn_norm;
	enum qwen_mixer_kind	 mixer;
	enum qwen_ffn_kind	 ffn;
	struct qwen_attention	 attn;
	struct qwen_deltanet	 delta;
	struct qwen_mlp		 mlp;
	struct qwen_moe		 moe;
};

/*
 * The MTP block, which predicts one more token from the trunk's hidden state
 * and the token after it: mtp.c.
 */
struct qwen_mtp {
	int			 on;
	unsigned		 parts;	/* qwen_mtp_parts() */
	struct qwen_layer	 layer;	/* index: n_layer of the trunk; ffn is
					   QWEN_NO_FFN if the block has
					   none */
	struct qwen_weight	 embd, proj, head;
	size_t			 n_first;	/* drafts are chosen among the
						   first n_first and the last
						   rows of head */
	const float		*embd_norm, *hidden_norm, *norm;
	struct qwen_gguf	*side;	/* the file of the block, if it is not
					   the model's */
};

/*
 * What a model file is: hyperparameters and weights, where they are mapped.  The
 * numerics version decides which forms of activations the weights take.
 */
struct qwen_net {
	struct qwen_gguf	*gguf;
	const struct qwen_arch	*arch;
	struct qwen_hparams	 hp;
	unsigned		 numerics;	/* numerics version */
	struct qwen_weight	 token_embd, output;
	const float		*output_norm;
	struct qwen_weight	 cls;		/* classifier; may be missing */
	struct qwen_layer	*layer;
	struct qwen_mtp		 mtp;
	struct qwen_loras	*loras;		/* adapters, or NULL */
	unsigned char		 used[QT_N];	/* 1: a weight has this
						   format */
	unsigned char		 operands[QWEN_OPERANDS];	/* 1: a weight
								   takes this
								   form */
	/*
	 * memory owned besides the mapping: widened or transposed small tensors
	 */
	void			**owned;
	size_t			 n_owned, cap_owned;
};

/* Returns the numbers of a row of a span, with its deepstack vectors. */
static inline size_t
qwen_net_row(const struct qwen_net *net)
{
	return net->hp.n_embd * (1 + net->hp.n_deepstack);
}

/* Returns a layer of the trunk, or the MTP block's after them. */
static inline const struct qwen_layer *
qwen_net_layer(const struct qwen_net *net, size_t i)
{
	return i == net->hp.n_layer ? &net->mtp.layer : &net->layer[i];
}

/*
 * ---- hyperparameters (hparams.c). draft: the file may contain only an MTP
 * block.
 */
int qwen_hparams_read(struct qwen_hparams *h, const struct qwen_arch *a,
    const struct qwen_gguf *g, int draft, struct qwen_err *err);
void qwen_hparams_free(struct qwen_hparams *h);

/* ---- weights (load.c): shapes are checked; messages name the tensor */

/*
 * Loads tensors blk.<layer>.<name>. After an error rc is -1 and nothing more is
 * loaded, except if wrong is set: then all errors are reported.
 */
struct qwen_loader {
	struct qwen_net		*m;
	const struct qwen_gguf	*g;		/* the file */
	long			 layer;		/* negative: plain names,
						   without blk.<layer>. */
	struct qwen_err		*err;
	int			 rc;
	/*
	 * reports an error in err; t is a tensor of an unsupported type, or
	 * NULL
	 */
	void			(*wrong)(struct qwen_loader *ld,
				    const struct qwen_gguf_tensor *t);
	void			*arg;
	float			*taps;		/* memory for the next
						   convolutions */
	enum qwen_purpose	 purpose;	/* purpose of the next
						   weights */
};

/* Loads all tensors that the architecture needs. */
int qwen_load_weights(struct qwen_loader *ld);

/* Loads cls.output, if present (layers.c). */
void qwen_classifier_load(struct qwen_loader *ld);

/*
 * Binds w to n_expert matrices of n_out rows of n_in; n_expert 0: to one plain
 * matrix.  Also binds <name>.scale and, for a plain matrix, <name>.bias, if
 * present.  On errors *w is unchanged.
 */
void qwen_load_weight(struct qwen_loader *ld, struct qwen_weight *w,
    const char *name, size_t n_in, size_t n_out, size_t n_expert);
/* Returns n rows of the weight, from row `from' on. */
struct qwen_weight qwen_weight_rows(const struct qwen_weight *w, size_t from,
    size_t n);
/* Binds a vector of f32: in the mapping, or converted to owned memory. */
void qwen_load_vector(struct qwen_loader *ld, const float **v,
    const char *name, size_t n);
/* Returns 1 if the file has the tensor. */
int qwen_has_tensor(const struct qwen_loader *ld, const char *name);
/*
 * Returns zeroed memory that lives as long as the model; on errors NULL, and rc
 * is -1.
 */
void *qwen_load_memory(struct qwen_loader *ld, size_t n, size_t size);
/* The same for large memory with any content (qwen_alloc_large). */
void *qwen_load_large(struct qwen_loader *ld, size_t n, size_t size);

/* ---- the parts of a layer (layers.c): each loads its weights and sets its kind */
void qwen_attention_load(struct qwen_loader *ld, struct qwen_layer *l);
void qwen_deltanet_load(struct qwen_loader *ld, struct qwen_layer *l);
void qwen_ffn_load(struct qwen_loader *ld, struct qwen_layer *l);

/* The parts of an MTP block in a file, as bits; 0: no block (mtp.c). */
enum {
	QWEN_MTP_BLOCK = 1,
	QWEN_MTP_FFN = 2,	/* a feed-forward part; some blocks have none */
	QWEN_MTP_EMBD = 4,	/* its own embedding */
};

unsigned qwen_mtp_parts(const struct qwen_gguf *g, size_t block);

/*
 * Loads the MTP block from the model's file or the one in opts (may be NULL),
 * and turns it on. -1 if it cannot be used.  A file without a block is an error
 * only if opts names it (mtp.c).
 */
int qwen_mtp_load(struct qwen_net *m, const struct qwen_model_opts *opts,
    struct qwen_err *err);

#endif
