/* SPDX-License-Identifier: ISC */
/*
 * plain.h - a device that computes what qwen-numerics(7) defines in straight C,
 * on one thread, in a memory of its own.
 *
 * It shares no kernel with the CPU device, so each proves the other.
 */
#ifndef QWEN_PLAIN_H
#define QWEN_PLAIN_H

#include "engine/device.h"
#include "engine/net/net.h"
#include "engine/quant/math.h"

/* A mapping that the device owns. */
struct qwen_plain_buffer {
	void				*p;
	size_t				 bytes;
	struct qwen_plain_buffer	*next;
};

struct qwen_plain {
	struct qwen_resident		 r;
	struct qwen_plain_buffer	*buffer;
	int				 guarded;
};

/* Returns 1 if the layer's mixer is at home in the device. */
static inline int
qwen_plain_has(const struct qwen_resident *r, size_t layer)
{
	return r->home[QWEN_MIXER(layer)] == r->index;
}

/*
 * For tests: from now on (1), or no longer (0), the device's memory can only be
 * touched within the device's functions.  Any other access ends the process by
 * SIGSEGV.
 */
void qwen_plain_guard(struct qwen_resident *r, int on);

/* ---- memory (memory.c) */

/* Each function of the device begins and ends with these two. */
void qwen_plain_enter(struct qwen_resident *r);
void qwen_plain_leave(struct qwen_resident *r);

/* Returns zeroed memory that the device owns; NULL without memory. */
void *qwen_plain_map(struct qwen_resident *r, size_t bytes);
void qwen_plain_unmap(struct qwen_resident *r, void *p); /* or NULL */

/* The functions of struct qwen_device for slots and states. */
int qwen_plain_slot_new(struct qwen_resident *r, void **own);
void qwen_plain_slot_put(struct qwen_resident *r, void *own, size_t layer,
    const void *block);
void qwen_plain_slot_get(struct qwen_resident *r, const void *own,
    size_t layer, void *block);
void qwen_plain_slot_clear(struct qwen_resident *r, void *own, size_t from,
    size_t to);
int qwen_plain_state_new(struct qwen_resident *r, const struct qwen_memory *m,
    void **own);
void qwen_plain_state_put(struct qwen_resident *r,
    const struct qwen_memory *m);
void qwen_plain_state_get(struct qwen_resident *r, struct qwen_memory *m);

/* Returns a session's block of a layer that has this slot. */
uint8_t *qwen_plain_block(const struct qwen_resident *r,
    const struct qwen_share *s, size_t layer, size_t slot);

/*
 * Returns the device's copy of a number that the host has at p, in the
 * recurrent state of m, or its journal's rows.
 */
float *qwen_plain_own(const struct qwen_resident *r,
    const struct qwen_memory *m, const float *p);

/* ---- the memory of a pass */

/* 256 activations as integers: x[i] is about d * a[i / 32] * q[i]. */
struct qwen_plain_group {
	float	d;
	int32_t	a[QWEN_GROUP / 32];
	int32_t	sum[QWEN_GROUP / 16];	/* of a q, for 16 numbers each */
	int8_t	q[QWEN_GROUP];
};

/* Returns the groups of a row of n numbers. */
static inline size_t
qwen_plain_groups(size_t n)
{
	return (n + QWEN_GROUP - 1) / QWEN_GROUP;
}

/* Rows of all arrays are `width' numbers apart, and as many as the pass has. */
struct qwen_plain_work {
	struct qwen_work	 w;
	const struct qwen_net	*net;
	const struct qwen_pass	*p;		/* that the device works on */
	size_t			 cap;		/* rows at most */
	size_t			 width;
	void			*memory;	/* has all that follows */
	float			*x, *xn, *out;	/* residual stream, normed;
						   result of a block */
	float			*in, *o;	/* projections, and result, of a
						   mixer */
	float			*gate, *up, *y;	/* of an MLP */
	float			*router;	/* logits of experts */
	float			*share;		/* their weights; -INFINITY: not
						   chosen */
	/* of a product: its rows, and their activations as it takes them */
	const float		**from;
	float			**to;
	float			*rounded;
	struct qwen_plain_group	*group;		/* two rows of groups each */
	float			*low;		/* [ranks] */
	/* one row of a matrix: floats, or groups */
	float			*row;
	struct qwen_unpacked	*unpacked;
	float			*state;		/* of a layer, for drafts */
};

/* ---- operations on vectors (vector.c) */

/* Returns the sum of a[k] b[k], and of x[k], with sixteen partial sums. */
float qwen_plain_dot(const float *a, const float *b, size_t n);
float qwen_plain_sum(const float *x, size_t n);

/*
 * Sets y to the RMS norm of x, which may be y, with weights w.  Returns the sum
 * of squares: not finite if a number of x is not.
 */
float qwen_plain_rms_norm(float *y, const float *x, const float *w, size_t n,
    float eps);

/* Rotates the pairs (x[i], x[i + half]) by the angles of a row's positions. */
void qwen_plain_rope(const struct qwen_hparams *h, float *x,
    const uint32_t pos[3]);

/* Multiplies x by Hadamard matrices. */
void qwen_plain_hadamard(float *x, size_t n);

static inline float
qwen_plain_silu(float x)
{
	return x / (1.0f + qwen_expf(-x));
}

/* ---- products (product.c, lora.c) */

/*
 * Computes y[i] = Wx[i] for the n rows in w->from and w->to, with matrix e of a
 * stack, its scale and bias, and what adapters add.
 */
void qwen_plain_product(struct qwen_plain_work *w,
    const struct qwen_weight *m, size_t e, size_t n);

/* The same for the first n rows of x and y. */
void qwen_plain_multiply(struct qwen_plain_work *w,
    const struct qwen_weight *m, const float *x, float *y, size_t n);

/* Returns the bytes of row 0 of matrix e. */
const unsigned char *qwen_plain_matrix(const struct qwen_weight *m, size_t e);

/* Adds what adapters add to a product. */
void qwen_plain_lora(struct qwen_plain_work *w, const struct qwen_weight *m,
    size_t e, size_t n);

/* Sets x to a token's row of an embedding, with what adapters add. */
void qwen_plain_embedding(struct qwen_plain_work *w,
    const struct qwen_weight *m, size_t id, float *x);

/* ---- keys and values (kv.c) */

/*
 * A key, a value or a query.  If its type has integers, x has these; each 32
 * share a scale, and all numbers of a query share scale[0].
 */
struct qwen_plain_vector {
	float	x[QWEN_HEAD_MAX];
	float	scale[QWEN_HEAD_MAX / QWEN_KV_GROUP];
};

/* A key, or (is_v) a value, of a head, at 0 .. 15 of a block. */
struct qwen_plain_place {
	const struct qwen_kv_shape	*s;
	uint8_t				*block;
	size_t				 head, at;
	int				 is_v;
};

/*
 * put writes x, which is rotated if the type has integers; 0: these cannot
 * represent it.  get reads it.
 */
int qwen_plain_put(const struct qwen_plain_place *p, float *x);
void qwen_plain_get(const struct qwen_plain_place *p,
    struct qwen_plain_vector *v);

/* Returns 1 if somebody reads what the mixer of a layer makes of row t. */
static inline int
qwen_plain_is_wanted(const struct qwen_pass *p, size_t layer, size_t t)
{
	const struct qwen_share *s = &p->share[p->owner[t]];

	return layer != p->last || t - s->first >= s->want;
}

/* ---- blocks: each reads w->xn and sets w->out, for all rows of the pass */

typedef void qwen_plain_block_fn(struct qwen_plain_work *w,
    const struct qwen_layer *l);
qwen_plain_block_fn qwen_plain_attention;
qwen_plain_block_fn qwen_plain_deltanet;
qwen_plain_block_fn qwen_plain_mlp;
qwen_plain_block_fn qwen_plain_moe;

/* Takes the n rows in w->from through a gated MLP, matrices e, to y. */
void qwen_plain_gated(struct qwen_plain_work *w, const struct qwen_mlp *l,
    size_t e, float *y, size_t n);

/* The device's replay (deltanet.c). */
void qwen_plain_replay(struct qwen_resident *r, struct qwen_memory *m,
    size_t from, size_t n);

#endif
