/* SPDX-License-Identifier: ISC */
/*
 * cpu.h - the CPU as a device: a batch of rows through a layer, on all threads,
 * by the kernels of kernel/.
 *
 * Buffers hold one row per token, [n][width].  They are allocated for the
 * largest batch, and blocks share them.  The rows of one session, its share,
 * are contiguous.  Only attention, DeltaNet and code that uses positions
 * distinguish the sessions.
 */
#ifndef QWEN_CPU_H
#define QWEN_CPU_H

#include "base/pool.h"
#include "engine/cpu/kernel/kernel.h"
#include "engine/cpu/profile.h"
#include "engine/device.h"

/* What the CPU holds of a model: kernels for its formats. */
struct qwen_cpu {
	struct qwen_resident	 r;
	struct qwen_kernels	 kernels;
	/*
	 * bytes of a group of 256 activations in all quantized forms; offset of
	 * each form's part in a group's share
	 */
	size_t			 x_bytes, x_at[QWEN_OPERANDS];
	struct qwen_pool	*pool;
	struct qwen_profile	 profile;
};

/* Return the kernels that multiply by a weight. */
static inline const struct qwen_kernel *
qwen_matmul_of(const struct qwen_cpu *c, const struct qwen_weight *w)
{
	return w->operand == QWEN_AS_F32 ? c->kernels.matmul_f32[w->quant->type] :
	    c->kernels.matmul[w->quant->type];
}

static inline const struct qwen_gemms *
qwen_gemms_of(const struct qwen_cpu *c, const struct qwen_weight *w)
{
	return w->operand == QWEN_AS_F32 ? NULL : &c->kernels.gemm[w->quant->type];
}

/*
 * Rows of a matrix that one thread takes at a time: for few tokens, more, and
 * many.
 */
#define QWEN_ROW_CHUNK_FEW 32
#define QWEN_ROW_CHUNK 64
#define QWEN_ROW_CHUNK_MANY 256
#define QWEN_MANY_TOKENS 32

/*
 * Returns the rows of n_out that a thread takes at a time, for n_tok tokens;
 * fewer than QWEN_ROW_CHUNK_MANY where threads would wait for the last one.
 */
static inline size_t
qwen_row_chunk(const struct qwen_cpu *c, size_t n_tok, size_t n_out,
    size_t few)
{
	size_t rows = QWEN_ROW_CHUNK_MANY;

	if (n_tok < QWEN_MANY_TOKENS)
		return few;
	while (rows > QWEN_ROW_CHUNK && n_out < 2 * rows *
	    (size_t)qwen_pool_threads(c->pool))
		rows /= 2;
	return rows;
}

/*
 * Rows of tokens that are multiplied by a chunk of matrix rows while it is in
 * the cache.
 */
#define QWEN_TOKEN_CHUNK 192
#define QWEN_SCRATCH_MAX 32

/* How the rows of one session are shared out for attention. */
struct qwen_attend {
	const struct qwen_share	*share;
	size_t	 row;		/* the first row that is needed */
	size_t	 n_query;	/* per key-value head */
	size_t	 item, n_group, n_chunk;	/* items before it, groups of
						   queries, chunks of keys */
	size_t	 partial;	/* first row of part, if split */
	int	 split;
};

/* The memory of passes, for cap rows. */
struct qwen_scratch {
	struct qwen_work	 work;
	size_t		 cap, cap_share;
	float		*x;		/* [cap][n_embd] residual stream */
	float		*xn;		/* [cap][n_embd] normed x */
	unsigned char	*xq;		/* xn quantized; see qwen_operand() */
	float		*out;		/* [cap][out_width] result of a block */
	size_t		 out_width;
	int		 pending;	/* out is not yet added to x */
	uint32_t	*wanted;	/* [cap] rows that are needed after the
					   last layer */
	struct {			/* mixers */
		float		*in;	/* [cap][in_width] results of input
					   projections */
		float		*o;	/* [cap][o_width] results */
		unsigned char	*oq;	/* o quantized */
		size_t		 in_width, o_width;
	} mix;
	struct {			/* attention */
		float		*cos, *sin;	/* [cap][n_rot / 2] */
		float		*part;	/* [cap_part][head + 2] results of
					   chunks */
		size_t		 cap_part;
		struct qwen_attend	*share;	/* [cap_share] */
	} attn;
	struct {			/* per row: its routed experts, then the
					   shared one, if any */
		float		*router;	/* [cap][n_expert + 1] */
		uint32_t	*expert;	/* [cap][n_expert_used + 1] */
		float		*weight;	/* [cap][n_expert_used + 1] */
		uint32_t	*slot;	/* [slots] indices into expert, sorted
					   by expert */
		uint32_t	*first;	/* [n_expert + 2] first slot of each
					   expert */
		uint32_t	*active;	/* [n_expert + 1] experts that
						   have slots */
	} moe;
	struct {			/* feed-forward blocks */
		float		*gate, *up;	/* [slots][width] */
		unsigned char	*q;	/* gate * up quantized, one row per
					   slot */
		size_t		 width;
	} ffn;
	unsigned char	*packed;	/* packed rows, shared by all threads */
	struct {			/* of each thread */
		unsigned char	*packed;	/* [packed_bytes] */
		size_t		 packed_bytes;
		float		*tile;	/* results of products, [QWEN_TOKEN_CHUNK]
					   [QWEN_ROW_CHUNK_MANY], or scratch
					   memory
					   of attention */
		float		*second;	/* [QWEN_TOKEN_CHUNK / 2]
						   [QWEN_ROW_CHUNK_MANY] products
						   of second terms, or NULL */
		const void	**xp;	/* [slots] row pointers: inputs, */
		float		**yp;	/* outputs */
	} thread;
	struct {			/* adapters */
		float		*v;	/* products with A: one row per token or
					   slot, for each set of a list; or
					   NULL */
		size_t		 width;	/* maximum width of a row of one set */
	} low;
	size_t		 slots;		/* maximum slots of a batch */
	void		*owned[QWEN_SCRATCH_MAX];	/* the arrays above,
							   except part */
	size_t		 n_owned;
	int		 failed;	/* out of memory */
	int		 count_only;	/* allocate nothing, only count bytes */
	size_t		 bytes;
};

/* A pass on the CPU. */
struct qwen_batch {
	struct qwen_cpu			*cpu;
	const struct qwen_net		*net;
	const struct qwen_hparams	*hp;
	const struct qwen_vec		*vec;
	struct qwen_scratch		*s;
	const struct qwen_pass		*pass;
	const struct qwen_share		*share;
	size_t				 n;	/* number of rows */
	/* in the last layer: rows that are needed, if not all; else NULL */
	const uint32_t			*wanted;
	size_t				 n_wanted;
};

/* Returns the share of row t. */
static inline struct qwen_share *
qwen_share_of(const struct qwen_batch *b, size_t t)
{
	return &b->pass->share[b->pass->owner[t]];
}

/* Returns the first row of a share whose result is needed. */
static inline size_t
qwen_from(const struct qwen_batch *b, const struct qwen_share *p)
{
	return b->wanted != NULL ? p->want : 0;
}

/* Returns 1 if the result of row t is needed. */
static inline int
qwen_is_wanted(const struct qwen_batch *b, size_t t)
{
	const struct qwen_share *p = qwen_share_of(b, t);

	return t - p->first >= qwen_from(b, p);
}

/* Tells the pass's hook, if there is one, of all rows of a stage. */
static inline void
qwen_see(const struct qwen_batch *b, enum qwen_trace_kind kind, size_t layer,
    const void *x, size_t stride)
{
	if (b->pass->see != NULL)
		b->pass->see(b->pass, &(struct qwen_seen){ .kind = kind,
		    .layer = layer, .x = x, .stride = stride, .n = b->n });
}

/* The same for rows that consist of pieces. */
static inline void
qwen_see_pieces(const struct qwen_batch *b, enum qwen_trace_kind kind,
    size_t layer, const void *x, size_t stride, size_t pieces, size_t width,
    size_t step)
{
	if (b->pass->see != NULL)
		b->pass->see(b->pass, &(struct qwen_seen){ .kind = kind,
		    .layer = layer, .x = x, .stride = stride, .n = b->n,
		    .pieces = pieces, .width = width, .step = step });
}

/* Tells the hook what weights will be multiplied with: see struct qwen_seen. */
void qwen_see_inputs(const struct qwen_batch *b,
    const struct qwen_weight *const *w, size_t n_w, const float *x,
    size_t stride, const uint32_t *at, size_t n);

/* The memory of passes: functions of struct qwen_device (device.h). */
int qwen_scratch_new(struct qwen_work **out, struct qwen_resident *r,
    struct qwen_err *err);
void qwen_scratch_free(struct qwen_work *w);
int qwen_scratch_fit(struct qwen_work *w, size_t n, size_t n_share, size_t end,
    struct qwen_err *err);
uint64_t qwen_scratch_bytes(const struct qwen_resident *r, size_t n,
    size_t n_share, size_t end);

/* A block reads b->s->xn and xq and writes its result to b->s->out. */
void qwen_attention_forward(struct qwen_batch *b, const struct qwen_layer *l);
void qwen_deltanet_forward(struct qwen_batch *b, const struct qwen_layer *l);
void qwen_mlp_forward(struct qwen_batch *b, const struct qwen_layer *l);
void qwen_moe_forward(struct qwen_batch *b, const struct qwen_layer *l);

/* A function of struct qwen_device (device.h), in delta_rule.c. */
void qwen_deltanet_replay(struct qwen_resident *r, struct qwen_memory *m,
    size_t from, size_t n);

/* Computes cos and sin of the positions of the rows. */
void qwen_rope_angles(struct qwen_batch *b);
/* Computes cos and sin of a row's three positions, n_rot / 2 of each. */
void qwen_rope_at(const struct qwen_hparams *h, const uint32_t pos[3],
    float *cos, float *sin);

/*
 * Returns the rows of part that attention can use for sessions of at most end
 * tokens.
 */
size_t qwen_attention_partials(const struct qwen_hparams *h, size_t n_share,
    size_t end);

/*
 * One product in a list of products with the same input.  The result of row r
 * goes to y[t * stride + r] or, if rows is set, to rows[t][r].
 */
struct qwen_linear {
	const struct qwen_weight	*w;
	float				*y;
	size_t				 stride;
	float *const			*rows;
};

/*
 * Computes y = Wx for the n rows at[i] of x, or the first n rows if at is NULL.
 * x has the rows as f32 and xq quantized, both stride numbers wide; each weight
 * uses the form that it needs.
 */
void qwen_linears(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const unsigned char *xq,
    const uint32_t *at, size_t n);

/*
 * Computes rows m->r0 .. r1 - 1 of w (m->w points into w) with the best kernel.
 * If the kernel needs the tokens packed differently, packs them into the
 * thread's memory and sets m->packing and m->packed; they are valid until the
 * thread's next product.
 */
void qwen_batch_multiply(struct qwen_batch *b, const struct qwen_weight *w,
    struct qwen_matmul *m, int thread);

/* Returns the rows that one token takes when multiplied by w. */
static inline size_t
qwen_terms(const struct qwen_weight *w)
{
	return w->operand == QWEN_AS_TWO_Q8 ? 2 : 1;
}

/* Returns the maximum tokens of one product. */
static inline size_t
qwen_token_chunk(const struct qwen_net *net)
{
	return net->operands[QWEN_AS_TWO_Q8] ? QWEN_TOKEN_CHUNK / 2 :
	    QWEN_TOKEN_CHUNK;
}

/* Returns the packing of the kernel that will compute m, or NULL. */
static inline const struct qwen_packing *
qwen_packing_of(const struct qwen_cpu *c, const struct qwen_weight *w,
    const struct qwen_matmul *m)
{
	struct qwen_matmul rows = *m;
	const struct qwen_kernel *k;

	rows.n_tok *= qwen_terms(w);
	k = qwen_gemm_for(qwen_matmul_of(c, w), qwen_gemms_of(c, w), &rows);
	return k != NULL ? k->packing : NULL;
}

/*
 * qwen_batch_packed_bytes returns the bytes of n tokens packed for w;
 * qwen_batch_pack packs at most qwen_token_chunk() tokens x to p.
 */
size_t qwen_batch_packed_bytes(const struct qwen_weight *w,
    const struct qwen_packing *k, size_t n);
void qwen_batch_pack(const struct qwen_weight *w, const struct qwen_packing *k,
    void *p, const void *const *x, size_t n);

/*
 * Calls fn for every token of the batch, on all threads. numbers is how many
 * 32-bit numbers it reads and writes per token, for the profile.
 */
void qwen_each_token(struct qwen_batch *b, enum qwen_stage stage,
    void (*fn)(struct qwen_batch *b, void *arg, size_t t), void *arg,
    size_t numbers);

/* Returns 1 if the weight does not take activations as f32. */
static inline int
qwen_wants_operand(const struct qwen_weight *w)
{
	return w->operand != QWEN_AS_F32;
}

/*
 * Returns row t of quantized activations: all forms (struct qwen_q8, bf16) in a
 * row. width is the numbers of a row, rounded up to whole groups.
 */
static inline const unsigned char *
qwen_operands(const struct qwen_batch *b, const unsigned char *x, size_t width,
    size_t t)
{
	return x + t * QWEN_Q8_GROUPS(width) * b->cpu->x_bytes;
}

/* Returns row t in the form that w takes, which is not f32. */
static inline const unsigned char *
qwen_operand(const struct qwen_batch *b, const struct qwen_weight *w,
    const unsigned char *x, size_t width, size_t t)
{
	return qwen_operands(b, x, width, t) + QWEN_Q8_GROUPS(width) *
	    b->cpu->x_at[w->operand];
}

/* Quantizes the first n numbers of row t to all forms in use. */
static inline void
qwen_make_operands(const struct qwen_batch *b, unsigned char *to, size_t width,
    size_t t, const float *x, size_t n)
{
	const struct qwen_cpu *m = b->cpu;
	const size_t groups = QWEN_Q8_GROUPS(width);

	to += t * groups * m->x_bytes;
	if (b->net->operands[QWEN_AS_Q8])
		b->vec->quantize((void *)(to + groups * m->x_at[QWEN_AS_Q8]),
		    x, n);
	if (b->net->operands[QWEN_AS_BF16])
		b->vec->to_bf16((void *)(to + groups * m->x_at[QWEN_AS_BF16]),
		    x, n);
	if (b->net->operands[QWEN_AS_TWO_Q8])
		b->vec->quantize_twice((void *)(to + groups *
		    m->x_at[QWEN_AS_TWO_Q8]), x, n);
}

#endif
