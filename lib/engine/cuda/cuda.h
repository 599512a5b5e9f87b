/* SPDX-License-Identifier: ISC */
/*
 * cuda.h - a device: an NVIDIA card, with the bits of qwen-numerics(7).
 *
 * Weights, blocks of keys and values, recurrent states and the rows of a pass are
 * in the memory of the card.  An operation is a launch of a kernel of kernel/ on
 * one stream, so that all happen in the order in which they are asked for, and
 * the host waits only for results.  A pointer to the card's memory is a cu_ptr.
 */
#ifndef QWEN_CUDA_H
#define QWEN_CUDA_H

#include <string.h>

#include "engine/cuda/driver.h"
#include "engine/cuda/kernel/args.h"
#include "engine/cuda/kernel/ones.h"
#include "engine/device.h"
#include "engine/net/net.h"

/* ---- weights */

/*
 * A matrix, or a stack of n_matrix, on the card.  data is 0 where the model has no
 * such weight.
 */
struct qwen_cuda_weight {
	const struct qwen_weight *of;
	cu_ptr		 data;
	cu_ptr		 scale;		/* f32 [n_matrix] factors, or 0 */
	cu_ptr		 bias;		/* f32 [n_out], or 0 */
	uint32_t	 n_in, n_out, n_matrix;
	uint64_t	 row_bytes, matrix_bytes;	/* in the card's layout */
	const struct qwen_cuda_lora *lora;	/* what adapters add, or NULL:
						   lora.h */
	uint32_t	 lora_at;	/* row of the tensor that is row 0 */
};

struct qwen_cuda_mlp {
	struct qwen_cuda_weight	 gate, up, down;
};

struct qwen_cuda_layer {
	const struct qwen_layer	*of;
	cu_ptr			 mixer_norm, ffn_norm;	/* f32 [n_embd] */
	/* attention */
	struct qwen_cuda_weight	 q, k, v, output;
	cu_ptr			 q_norm, k_norm;	/* f32 [d], or 0 */
	/* DeltaNet */
	struct qwen_cuda_weight	*in;		/* of->delta.n_in pieces */
	struct qwen_cuda_weight	 out;
	cu_ptr			 conv, a, dt, norm;	/* as in qwen_deltanet */
	/* MLP, or experts and the shared one */
	struct qwen_cuda_mlp	 mlp, routed, shared;
	struct qwen_cuda_weight	 router, shared_router;
	/* MTP block */
	struct qwen_cuda_weight	 proj, head;
	cu_ptr			 embd_norm, hidden_norm, head_norm;
};

struct qwen_cuda {
	struct qwen_resident	 r;
	struct qwen_cuda_card	*card;
	struct qwen_cuda_layer	*layer;		/* [n_layer + 1] what is at home;
						   the MTP block is the last */
	struct qwen_cuda_weight	 output;	/* if the head is at home */
	cu_ptr			 output_norm;
	struct qwen_pool	*pool;		/* the host's threads */
	struct qwen_cuda_staging *staging;	/* while weights are loaded:
						   staging.c */
	struct qwen_cuda_lora	*lora;		/* of all weights: lora.c */
	struct qwen_cuda_slab	*slab;		/* of slots: memory.c */
	struct qwen_cuda_slot	*unused;	/* slots that are free */
	cu_ptr			*owned;		/* to be freed at the end */
	size_t			 n_owned, cap_owned;
};

/* Returns 1 if half a layer, or the head, is at home on the card. */
static inline int
qwen_cuda_has(const struct qwen_resident *r, size_t half)
{
	return r->home[half] == r->index;
}

/* Returns 1 if anything is at home on the card. */
static inline int
qwen_cuda_has_any(const struct qwen_resident *r)
{
	return memchr(r->home, (int)r->index,
	    QWEN_HOMES(r->net->hp.n_layer)) != NULL;
}

/*
 * Returns 1 if the card has kernels for the weight, and for what adapters add to
 * it: for its format, form of activations, and length (product.c).
 */
int qwen_cuda_can_multiply(const struct qwen_weight *w);

/*
 * Copies a weight to the card, in the layout of its kernels; n_matrix is the
 * number of matrices in a stack, or 1.  A weight that the model lacks has data 0
 * (product.c).
 */
int qwen_cuda_weight_put(struct qwen_cuda *c, struct qwen_cuda_weight *out,
    const struct qwen_weight *w, size_t n_matrix, struct qwen_err *err);

/* Returns the bytes that the weight takes on the card (product.c). */
uint64_t qwen_cuda_weight_bytes(const struct qwen_weight *w, size_t n_matrix);

/* Memory that lives as long as the device; 0 without memory. */
cu_ptr qwen_cuda_own(struct qwen_cuda *c, size_t bytes);

/* Copies a vector of n f32; p may be NULL, then *out is 0. */
int qwen_cuda_vector(struct qwen_cuda *c, cu_ptr *out, const float *p,
    size_t n, struct qwen_err *err);

/* ---- a pass */

#define QWEN_CUDA_CHUNK 256	/* keys whose results are merged at once */
#define QWEN_CUDA_COUNTERS 16384

/*
 * Arrays of a pass, with one row for each row of the pass; their widths are in
 * work.c.  Numbers are f32 unless noted.
 */
enum qwen_cuda_array {
	QWEN_CUDA_X,		/* [n_embd] the residual stream */
	QWEN_CUDA_XN,		/* [n_embd] normed */
	QWEN_CUDA_OUT,		/* [n_embd] result of a block */
	QWEN_CUDA_IN,		/* projections of a mixer, one after another: q, k,
				   v, or as qwen_delta_row has them */
	QWEN_CUDA_O,		/* result of a mixer before its last product */
	QWEN_CUDA_GATE,		/* of an MLP, or of all chosen experts and the
				   shared one: [used + 1][n_ff_exp] */
	QWEN_CUDA_UP,
	QWEN_CUDA_Y,		/* of experts: [used + 1][n_embd] */
	QWEN_CUDA_ROUTER,	/* [n_expert + 1] logits */
	QWEN_CUDA_SHARE,	/* [used + 1] weights of chosen experts */
	QWEN_CUDA_CHOSEN,	/* u32 [used] chosen experts, ascending */
	QWEN_CUDA_GROUPS,	/* a row's activations as integers, for the product
				   that comes next */
	QWEN_CUDA_GROUPS_X,	/* those of XN, for several products */
	QWEN_CUDA_TURN,		/* f32x2 [n_rot / 2] cos and sin of RoPE */
	QWEN_CUDA_DEEP,		/* [n_deepstack][n_embd] vectors to add to the
				   results of the first layers, of the rows that
				   have some */
	QWEN_CUDA_LOW,		/* [used + 1][rank] products with an adapter's
				   A */
	QWEN_CUDA_ARRAYS
};

struct qwen_cuda_work {
	struct qwen_work	 w;
	struct qwen_cuda	*c;
	const struct qwen_net	*net;
	const struct qwen_pass	*p;	/* what the device works on */
	size_t			 cap, cap_share, end;
	cu_ptr			 memory;	/* all that follows */
	cu_ptr			 array[QWEN_CUDA_ARRAYS];
	size_t			 width[QWEN_CUDA_ARRAYS];	/* bytes of a row */
	struct dev_pass		 pass;		/* for kernels: its pointers are
						   the card's */
	cu_ptr			 sent, flag, logits;
	cu_ptr			 row_last;	/* rows for the last mixer, which
						   skips those not wanted */
	/* memory for parts of attention, sorted experts, ... */
	cu_ptr			 scratch;
	size_t			 scratch_bytes;
	void			*pinned;	/* flags, then rows of logits */
	unsigned char		*host;		/* what is sent for a run */
	size_t			 host_bytes;
	struct qwen_cuda_graphs	*graphs;	/* graph.h; or NULL */
	cu_ptr			 counter;	/* u32 [QWEN_CUDA_COUNTERS] of
						   blocks that have ended: 0
						   between launches; or 0 */
	struct dev_ones		 ones;		/* put off: ones.c */
	size_t			 n_one, ones_bytes;
	int			 pending;	/* OUT is to be added to X */
	int			 is_sent;	/* the card has the pass' rows */
	size_t			 n_deep;	/* rows that it has in DEEP */
};

/*
 * Makes a pointer for the argument of a kernel.  The host must not read through
 * it: it points to the card's memory.
 */
#define QWEN_CUDA_P(p) ((void *)(uintptr_t)(p))

/*
 * Bytes of scratch that a block needs for n rows of sessions of at most `end'
 * tokens; the largest of them is there (attention.c, deltanet.c, moe.c,
 * product.c).  A block may use all of it, and leaves nothing there.
 */
uint64_t qwen_cuda_attention_scratch(const struct qwen_net *net, size_t n,
    size_t end);
uint64_t qwen_cuda_deltanet_scratch(const struct qwen_net *net, size_t n);
uint64_t qwen_cuda_moe_scratch(const struct qwen_net *net, size_t n);

/* Has each session one row, which is sure? */
static inline int
qwen_cuda_are_alone(const struct qwen_pass *p)
{
	size_t i;

	for (i = 0; i < p->n_share && p->share[i].n == 1 &&
	    p->share[i].n_sure == 1; i++)
		;
	return i == p->n_share;
}

/* ---- operations (product.c) */

/*
 * Bytes of a row of n numbers as integers, in both terms if there are two; rows
 * follow each other.
 */
size_t qwen_cuda_groups_bytes(const struct qwen_net *net, size_t n);

/*
 * Adds OUT to X (add), norms X to XN and, as integers, to GROUPS_X, and notes
 * numbers that are not finite, as plain/device.c's norm_rows does.
 */
void qwen_cuda_norm(struct qwen_cuda_work *w, cu_ptr weights, int add,
    size_t place);

/* Makes GROUPS of n rows of n_in numbers at x, `stride' numbers apart. */
void qwen_cuda_quantize(struct qwen_cuda_work *w, cu_ptr x, size_t stride,
    size_t n_in, size_t n);

/*
 * A product's rows: of f32 x, `stride' numbers apart, and their groups, made by
 * norm or quantize.  The weight's form decides which are read.
 */
struct qwen_cuda_rows {
	cu_ptr	x, groups;
	size_t	stride;
	size_t	n;
};

/* y[i] = W x[i] for all rows; rows of y are `stride' numbers apart. */
void qwen_cuda_multiply(struct qwen_cuda_work *w,
    const struct qwen_cuda_weight *m, const struct qwen_cuda_rows *x, cu_ptr y,
    size_t stride);

/*
 * The same with a stack of matrices: pair i, of n_pair, is row at[i] / per of x by
 * matrix e, where pairs first[e] .. first[e + 1] - 1 are those of matrix e; its
 * result is row at[i] of y.  at and first, u32, are in the card's memory, and
 * pairs are sorted by matrix.  per is the number of pairs of a row of x (1: each
 * pair has a row of x).
 */
struct qwen_cuda_pairs {
	cu_ptr	at, first;
	cu_ptr	matrix;		/* u32, of each pair, if no two have the same
				   and at[i] is i; or 0 */
	size_t	n_pair, per;
};
void qwen_cuda_multiply_pairs(struct qwen_cuda_work *w,
    const struct qwen_cuda_weight *m, const struct qwen_cuda_rows *x,
    const struct qwen_cuda_pairs *pairs, cu_ptr y, size_t stride);

/*
 * Sets gate[i] to silu(gate[i]) * up[i], for n rows of n_ff numbers, `stride'
 * numbers apart, and makes their GROUPS.
 */
void qwen_cuda_silu_multiply(struct qwen_cuda_work *w, cu_ptr gate, cu_ptr up,
    size_t stride, size_t n_ff, size_t n);

/*
 * Sets X to the inputs of the MTP block, the product of its projection with the
 * normed embedding and hidden state of each row (mtp.c).
 */
void qwen_cuda_join(struct qwen_work *work, const struct qwen_pass *p);

/*
 * Products of one row of activations are put off, so that one launch has several
 * of them, and what is done with their results (ones.c).  Each of these returns 0
 * if that launch cannot have it; then the caller launches it.
 */
int qwen_cuda_ones_multiply(struct qwen_cuda_work *w,
    const struct qwen_cuda_weight *m, const struct dev_product *a);
int qwen_cuda_ones_silu(struct qwen_cuda_work *w, const struct dev_rows *a);
int qwen_cuda_ones_route(struct qwen_cuda_work *w, const struct dev_route *a);
int qwen_cuda_ones_combine(struct qwen_cuda_work *w,
    const struct dev_combine *a);
int qwen_cuda_ones_norm(struct qwen_cuda_work *w, const struct dev_norm *a);

/* ---- blocks: each reads XN and GROUPS_X and sets OUT, for all rows */

typedef void qwen_cuda_block_fn(struct qwen_cuda_work *w,
    const struct qwen_cuda_layer *l);
qwen_cuda_block_fn qwen_cuda_attention;		/* attention.c */
qwen_cuda_block_fn qwen_cuda_deltanet;		/* deltanet.c */
qwen_cuda_block_fn qwen_cuda_mlp;		/* moe.c */
qwen_cuda_block_fn qwen_cuda_moe;

/* Applies the journal's rows of n tokens from `from' on (deltanet.c). */
void qwen_cuda_replay(struct qwen_resident *r, struct qwen_memory *m,
    size_t from, size_t n);

/* ---- memory of sessions (memory.c) */

int qwen_cuda_slot_new(struct qwen_resident *r, void **own);
void qwen_cuda_slot_free(struct qwen_resident *r, void *own);
void qwen_cuda_slot_put(struct qwen_resident *r, void *own, size_t layer,
    const void *block);
void qwen_cuda_slot_get(struct qwen_resident *r, const void *own,
    size_t layer, void *block);
void qwen_cuda_slot_clear(struct qwen_resident *r, void *own, size_t from,
    size_t to);
int qwen_cuda_state_new(struct qwen_resident *r, const struct qwen_memory *m,
    void **own);
void qwen_cuda_state_free(struct qwen_resident *r, void *own);
void qwen_cuda_state_put(struct qwen_resident *r,
    const struct qwen_memory *m);
void qwen_cuda_state_get(struct qwen_resident *r, struct qwen_memory *m);

/* Return the address of a slot; of a session's memory, or 0. */
cu_ptr qwen_cuda_slot_at(const void *own);
cu_ptr qwen_cuda_state_at(const struct qwen_resident *r,
    const struct qwen_memory *m);
void qwen_cuda_slabs_free(struct qwen_cuda *c);

/*
 * Where a layer's part is, in bytes: of a slot (dev_share.table), and of the
 * memory of a session (dev_share.state): its state, the inputs of the convolution,
 * and the first row of its journal.  The row of the next position is journal_row
 * bytes further; that of position p is number p % QWEN_GUESS_MAX.
 */
struct qwen_cuda_place {
	size_t	block;
	size_t	s, conv;
	size_t	journal, journal_row;
};
struct qwen_cuda_place qwen_cuda_place_of(const struct qwen_cuda_work *w,
    size_t layer);

#endif
