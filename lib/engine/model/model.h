/* SPDX-License-Identifier: ISC */
/*
 * model.h - hyperparameters, weights and blocks of a model, inside the library.
 *
 * An architecture is a row in arch.c: what each layer is composed of, attention
 * or deltanet, then mlp or moe.
 */
#ifndef QWEN_MODEL_MODEL_H
#define QWEN_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "engine/kernel/kernel.h"
#include "engine/model/profile.h"
#include "engine/model/timeline.h"
#include "qwen.h"

#define QWEN_HEAD_MAX 4096		/* values in an attention head */

/* Names as in GGUF metadata; 0 where the architecture has none. */
struct qwen_hparams {
	size_t	 n_block;		/* block_count, MTP blocks included */
	size_t	 n_layer;		/* trunk */
	size_t	 n_ctx, n_vocab, n_embd;
	size_t	 n_ff;
	float	 eps;			/* attention.layer_norm_rms_epsilon */
	/* attention */
	size_t	 n_head, n_head_kv, n_embd_head;
	enum qwen_kv k, v;	/* how the cache has them */
	float	 attn_scale;
	size_t	 n_rot;
	struct qwen_rope rope;	/* where not as the file says */
	struct qwen_rope rope_file;	/* what the file says */
	double	*rope_freq;		/* [n_rot / 2] radians a position */
	double	 rope_mscale;		/* on cos and sin (YaRN) */
	/* experts */
	size_t	 n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
	float	 expert_scale;		/* expert_weights_scale, or 1 */
	/* DeltaNet */
	size_t	 conv_kernel, dk, dv, n_head_k, n_head_v;
	int	grouped;		/* value head h uses key head h / (n_head_v
					   / n_head_k), else h % n_head_k */
	unsigned char *recurrent;	/* [n_layer] 1: DeltaNet, 0: attention */
};

/* A matrix (or stack of matrices, one an expert) in the mapped file. */
struct qwen_weight {
	const unsigned char	*data;	/* NULL: this model has none */
	const float		*scale;	/* of the product, one a matrix; or
					   NULL */
	const float		*bias;	/* [n_out] added to it; or NULL */
	const struct qwen_quant	*quant;
	enum qwen_operand	 operand;	/* what it is multiplied with */
	enum qwen_purpose	 purpose;	/* for the profile */
	const struct qwen_kernel *matmul;
	const struct qwen_gemms	*gemm;
	size_t			 n_in, n_out;
	size_t			 row_bytes;
	size_t			 expert_bytes;	/* from one to the next, or 0 */
	const void *const	*part;		/* or each of them is here */
	const struct qwen_lora_set *lora;	/* what adapters add (lora.h); or
						   NULL */
	size_t			 lora_at;	/* the first row, among those of
						   the tensor */
};

struct qwen_attention {
	struct qwen_weight	 q, k, v, output;
	const float		*q_norm, *k_norm;	/* NULL: there is none */
	int			 gated;	/* q has query and gate, head by head */
};

/* Rows of a projection, and where its results go in a row of them. */
struct qwen_piece {
	struct qwen_weight	 w;
	size_t			 at;
};

struct qwen_deltanet {
	struct qwen_piece	*in;	/* of q, k, v, z, alpha, beta */
	size_t			 n_in;
	int			 by_key;	/* alpha and beta: those of a
						   key head together */
	struct qwen_weight	 out;
	const float		*conv;	/* [conv_kernel][channels] */
	const float		*a, *dt, *norm;
};

struct qwen_mlp {
	struct qwen_weight	 gate, up, down;
};

struct qwen_moe {
	struct qwen_weight	 router;
	struct qwen_mlp		 routed;	/* stacks */
	struct qwen_weight	 shared_router;	/* one row, or none */
	struct qwen_mlp		 shared;
};

struct qwen_batch;
struct qwen_layer;

/* A block reads b->xn and b->xq and leaves its result in b->out. */
typedef void qwen_block_fn(struct qwen_batch *b, const struct qwen_layer *l);

struct qwen_layer {
	size_t			 index;
	const float		*mixer_norm, *ffn_norm;
	qwen_block_fn		*mixer, *ffn;
	struct qwen_attention	 attn;
	struct qwen_deltanet	 delta;
	struct qwen_mlp		 mlp;
	struct qwen_moe		 moe;
};

/*
 * A block that predicts one token more, from the trunk's hidden state and the
 * token that follows it: mtp.c.
 */
struct qwen_mtp {
	int			 on;
	unsigned		 parts;	/* qwen_mtp_parts() */
	struct qwen_layer	 layer;	/* its index is the trunk's n_layer; ffn
					   NULL: it has none */
	struct qwen_weight	 embd, proj, head;
	size_t			 n_first;	/* rows of head that are looked
						   at, beside the last ones */
	const float		*embd_norm, *hidden_norm, *norm;
	struct qwen_gguf	*side;	/* the file it is from, if that is not
					   the model's */
};

/* What an architecture is made of, as its files have it. */
struct qwen_arch {
	const char	*name;		/* general.architecture */
	const char	*ffn_norm;	/* the tensor of that norm */
	int		 hybrid;	/* DeltaNet in most layers, gated
					   attention */
	int		 grouped;	/* hparams.grouped where no key says */
	int		 no_qk_norm;	/* q and k are not normed */
	int		 sections;	/* RoPE in sections */
	int		 moe;		/* experts, else one MLP */
	int		 shared;	/* and an expert that all tokens use */
	int		 share_of_all;	/* weights of experts: of all, not only
					   of the chosen */
};

struct qwen_model {
	struct qwen_gguf	*gguf;
	const struct qwen_arch	*arch;
	struct qwen_hparams	 hp;
	struct qwen_weight	 token_embd, output;
	const float		*output_norm;
	struct qwen_weight	 cls;		/* a classifier, or none */
	struct qwen_layer	*layer;
	struct qwen_mtp		 mtp;
	struct qwen_kernels	 kernels;
	unsigned char		 used[QT_N];	/* formats of weights */
	unsigned char		 operands[QWEN_OPERANDS];	/* what these
								   take */
	unsigned		 features;
	unsigned		 numerics;	/* version */
	/* of 256 activations in the forms that weights take, but for f32; where
	   in a group's share of a row each form is */
	size_t			 x_bytes, x_at[QWEN_OPERANDS];
	struct qwen_pool	*pool;
	struct qwen_profile	 profile;
	struct qwen_input_sums	*inputs;	/* NULL: nobody wants them */
	struct qwen_loras	*loras;		/* adapters, or NULL */
	/* memory owned beside the mapping: widened or turned small tensors */
	void			**owned;
	size_t			 n_owned, cap_owned;
};

/* ---- architectures (arch.c) */
const struct qwen_arch *qwen_arch_find(struct qwen_str name);
/* That of a file; NULL: it says none, or one that is not known. */
const struct qwen_arch *qwen_arch_of(const struct qwen_gguf *g,
    struct qwen_err *err);
/* "qwen3, qwen3moe, ..." */
void qwen_arch_names(char *buf, size_t size);

/*
 * ---- hyperparameters (hparams.c).  draft: the file may have nothing but the
 * block that predicts, as a model must not.
 */
int qwen_hparams_read(struct qwen_hparams *h, const struct qwen_arch *a,
    const struct qwen_gguf *g, int draft, struct qwen_err *err);
void qwen_hparams_free(struct qwen_hparams *h);

/* ---- weights (load.c): shapes are checked, messages name the tensor */

/*
 * Tensors blk.<layer>.<name>; once one is wrong, rc is -1 and no more follow,
 * unless there is somebody who wants to know of all.
 */
struct qwen_loader {
	struct qwen_model	*m;
	const struct qwen_gguf	*g;		/* where they are */
	long			 layer;		/* negative: plain names */
	struct qwen_err		*err;
	int			 rc;
	/* t is a tensor of a type that is not supported, or NULL: err says why */
	void			(*wrong)(struct qwen_loader *ld,
				    const struct qwen_gguf_tensor *t);
	void			*arg;
	float			*taps;		/* of convolutions to come */
	enum qwen_purpose	 purpose;	/* of the weights that are loaded next */
};

/* All tensors that the architecture needs. */
int qwen_load_weights(struct qwen_loader *ld);

/* cls.output, if it is there (classify.c). */
void qwen_classifier_load(struct qwen_loader *ld);

/*
 * Bind n_expert matrices of n_out rows of n_in; n_expert 0: a plain matrix.
 * With <name>.weight go <name>.scale and, to a plain one, <name>.bias if they
 * are there.  What cannot be had stays as it was.
 */
void qwen_load_weight(struct qwen_loader *ld, struct qwen_weight *w,
    const char *name, size_t n_in, size_t n_out, size_t n_expert);
/* n of its rows. */
struct qwen_weight qwen_weight_rows(const struct qwen_weight *w, size_t from,
    size_t n);
/* A vector as f32: in the mapping, or widened into owned memory. */
void qwen_load_vector(struct qwen_loader *ld, const float **v,
    const char *name, size_t n);
/* Is the tensor there? */
int qwen_has_tensor(const struct qwen_loader *ld, const char *name);
/* Zeroed memory that lives as long as the model; or NULL, and rc is -1. */
void *qwen_load_memory(struct qwen_loader *ld, size_t n, size_t size);
/* The same for what is large, with any bytes in it (qwen_alloc_large). */
void *qwen_load_large(struct qwen_loader *ld, size_t n, size_t size);

/* ---- blocks: each loads its weights and sets its pass in the layer */
void qwen_attention_load(struct qwen_loader *ld, struct qwen_layer *l);
void qwen_deltanet_load(struct qwen_loader *ld, struct qwen_layer *l);
void qwen_mlp_load(struct qwen_loader *ld, struct qwen_layer *l);
void qwen_moe_load(struct qwen_loader *ld, struct qwen_layer *l);

/* What such a block of a file has, as bits; 0: there is none (mtp_load.c). */
enum {
	QWEN_MTP_BLOCK = 1,
	QWEN_MTP_FFN = 2,	/* a feed-forward part, which some leave out */
	QWEN_MTP_EMBD = 4,	/* an embedding of its own */
};

unsigned qwen_mtp_parts(const struct qwen_gguf *g, size_t block);

/*
 * The block that predicts, of the model's file or the one in opts (which may be
 * NULL): it is on then.  -1 if it cannot be used; none at all is no error,
 * unless opts names a file (mtp_load.c).
 */
int qwen_mtp_load(struct qwen_model *m, const struct qwen_model_opts *opts,
    struct qwen_err *err);

/* Layers that keep something in a session: those of the trunk, then its own. */
static inline size_t
qwen_model_n_state(const struct qwen_model *m)
{
	return m->hp.n_layer + (m->mtp.on != 0);
}

qwen_block_fn qwen_attention_forward;
qwen_block_fn qwen_deltanet_forward;
qwen_block_fn qwen_mlp_forward;
qwen_block_fn qwen_moe_forward;

#endif
