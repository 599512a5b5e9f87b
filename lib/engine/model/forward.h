/* SPDX-License-Identifier: ISC */
/*
 * forward.h - the forward pass of one batch of tokens.
 *
 * Buffers hold one row per token, [n][width].  They are allocated for the
 * largest batch, and blocks share them.  The rows of one timeline, its share,
 * are contiguous.  Only attention, DeltaNet and code that uses positions
 * distinguish the timelines.
 */
#ifndef QWEN_MODEL_FORWARD_H
#define QWEN_MODEL_FORWARD_H

#include <stdatomic.h>

#include "engine/model/model.h"

/*
 * Rows of a matrix that one thread takes at a time: for few tokens, more, and
 * many.
 */
#define QWEN_ROW_CHUNK_FEW 32
#define QWEN_ROW_CHUNK 64
#define QWEN_ROW_CHUNK_MANY 256
#define QWEN_MANY_TOKENS 32
/*
 * Rows of tokens that are multiplied by a chunk of matrix rows while it is in
 * the cache.
 */
#define QWEN_TOKEN_CHUNK 192
/*
 * Maximum rows of logits computed together if the session has no memory for
 * them.
 */
#define QWEN_HEAD_ROWS 64

#define QWEN_SCRATCH_MAX 32

/* The progress of a part of qwen_eval_parts. */
struct qwen_progress {
	size_t	 done;
	size_t	 known;		/* tokens of done that were drafted and verified
				   before */
	size_t	 n_guess;	/* drafts of this part for which there is
				   room */
	size_t	 share;
	int	 in;
};

struct qwen_scratch {
	size_t		 cap;		/* maximum tokens of a batch */
	size_t		 cap_partial;	/* rows of part */
	float		*x;		/* [cap][n_embd] residual stream */
	float		*xn;		/* [cap][n_embd] normed x */
	unsigned char	*xq;		/* xn quantized; see qwen_operand() */
	float		*out;		/* [cap][out_width] result of a block */
	float		*in;		/* [cap][in_width] results of input
					   projections */
	float		*o;		/* [cap][o_width] results of mixers */
	unsigned char	*oq;		/* o quantized */
	float		*cos, *sin;	/* [cap][n_rot / 2] of RoPE angles */
	float		*router;	/* [cap][n_expert + 1] */
	/* per token: its routed experts, then the shared one, if any */
	uint32_t	*expert;	/* [cap][n_expert_used + 1] expert
					   numbers */
	float		*weight;	/* [cap][n_expert_used + 1] weights */
	uint32_t	*slot;		/* [slots] indices into expert, sorted
					   by expert */
	uint32_t	*first;		/* [n_expert + 2] first slot of each
					   expert */
	uint32_t	*active;	/* [n_expert + 1] experts that have
					   slots */
	float		*gate, *up;	/* [slots][ff_width] */
	unsigned char	*hq;		/* gate * up quantized, one row per
					   slot */
	/* packed tokens: shared by all threads, and of each thread */
	unsigned char	*packed;
	unsigned char	*own;		/* [threads][own_bytes] */
	size_t		 own_bytes;
	float		*tile;		/* per thread: results of products,
					   [QWEN_TOKEN_CHUNK][QWEN_ROW_CHUNK],
					   or scratch memory of attention */
	float		*second;	/* [threads][QWEN_TOKEN_CHUNK /
					   2][QWEN_ROW_CHUNK_MANY] products of
					   second terms, or NULL */
	float		*part;		/* [cap_partial][head + 2] attention
					   results of chunks */
	uint32_t	*owner;		/* [cap] index of a row's share */
	uint32_t	*wanted;	/* [cap] rows that are needed after the
					   last layer */
	float		**yrow;		/* [cap] destinations of logits */
	float		*logits;	/* [QWEN_HEAD_ROWS][n_vocab], or NULL */
	float		*draft;		/* [qwen_draft_rows()] logits of
					   drafts */
	float		*low;		/* products with the adapters' A: one
					   row per token or slot, for each set
					   of a list; or NULL */
	size_t		 low_width;	/* maximum width of a row of one set */
	const void	**xp;		/* [threads][slots] row pointers:
					   inputs, outputs */
	float		**yp;
	size_t		 in_width, o_width, ff_width, out_width;
	size_t		 slots;		/* maximum slots of a batch */
	void		*owned[QWEN_SCRATCH_MAX];	/* the arrays above,
							   except part */
	size_t		 n_owned;
	int		 failed;	/* out of memory */
	int		 count_only;	/* allocate nothing, only count bytes */
	size_t		 bytes;
	/* for qwen_eval_parts */
	struct qwen_share	*shares;	/* [cap_shares] */
	struct qwen_progress	*progress;	/* [cap_progress] */
	size_t			 cap_shares, cap_progress;
};

/* The rows of one timeline in a batch. */
struct qwen_share {
	struct qwen_session	*s;
	const int32_t		*tokens;	/* tokens to append */
	size_t			 n_tokens;
	const int32_t		*guess;		/* draft tokens after them */
	size_t			 n_guess;
	size_t			 first, n;	/* rows of the batch */
	size_t			 n_sure;	/* rows of tokens; the rows
						   after them are drafts */
	size_t			 pos;		/* position of the first row */
	size_t			 skip;	/* number of KV blocks before that of
					   position 0 */
	/*
	 * Results of rows before this row are not read: for them, a mixer only
	 * has to update the state.
	 */
	size_t			 from;
	/*
	 * first place (see qwen_note_bad) with a NaN or infinity, or SIZE_MAX
	 */
	_Atomic size_t		 bad;
	_Atomic size_t		 good;	/* number of drafts before the first one
					   with a NaN or infinity */
	/*
	 * The journal records the rows from noted on.  If base is not 0, the
	 * state after base rows is saved, so that the tokens after it can be
	 * taken back.
	 */
	size_t			 base, noted;
	/* which logits to compute (the last row, or all), or hidden states */
	enum qwen_logits	 logits;
	int			 hidden;
	int			 stop;		/* the last row is needed */
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);	/* receives the rows; may be
						   NULL */
	void			*arg;
	int			 failed;	/* err is set */
	struct qwen_err		 err;
	/*
	 * attention: number of work items before this share, groups of queries,
	 * chunks of keys
	 */
	size_t			 item, n_group, n_chunk;
	size_t			 partial;	/* first row of part, if
						   split */
	int			 split;
	/*
	 * mtp.c: first row in o; number of rows for the MTP block; whether all
	 * their results are needed, or only keys and values.  In a batch of MTP
	 * rows, told is the index in the trunk's pass of the row of the same
	 * position as the first row.
	 */
	size_t			 at, n_mtp;
	int			 whole;
	size_t			 told;
};

struct qwen_batch {
	struct qwen_model		*m;
	const struct qwen_hparams	*hp;
	const struct qwen_vec		*vec;
	struct qwen_scratch		*b;
	struct qwen_share		*share;
	size_t				 n_share;
	size_t				 n;	/* number of rows */
	/* in the last layer: rows that are needed, if not all; else NULL */
	const uint32_t			*wanted;
	size_t				 n_wanted;
	int				 trace;	/* stages of some rows are
						   traced */
	/*
	 * called after layer i of n_layer, except after the last one; or NULL
	 */
	void	(*layer)(void *arg, size_t i, size_t n_layer);
	void	*arg;
};

/* Returns the share of row t. */
static inline struct qwen_share *
qwen_share_of(const struct qwen_batch *b, size_t t)
{
	return &b->share[b->b->owner[t]];
}

/*
 * Notes that row t has a NaN or infinity. place numbers the steps of the pass;
 * the first bad place is reported.
 */
void qwen_note_bad(const struct qwen_batch *b, size_t t, size_t place);

/* Returns 1 if the result of row t is needed. */
static inline int
qwen_is_wanted(const struct qwen_batch *b, size_t t)
{
	const struct qwen_share *p = qwen_share_of(b, t);

	return t - p->first >= p->from;
}

/*
 * Runs one pass over all tokens of the shares; there must be room for them.  A
 * share that does not fail advances the end of its session.
 */
void qwen_batch_run(struct qwen_batch *b);

/*
 * Steps of a pass:
 *
 * number: numbers the rows of all shares; all are needed.
 *
 * norm: x += add, xn = norm(x); place as in qwen_note_bad.
 *
 * layer: runs one layer with input x + add.  After it only the needed rows
 * remain, in x and out (out is not yet added). add may be NULL.
 */
void qwen_batch_number(struct qwen_batch *b);
void qwen_batch_norm(struct qwen_batch *b, const float *add, const float *w,
    size_t place);
void qwen_batch_layer(struct qwen_batch *b, const struct qwen_layer *l,
    const float *add);

/*
 * The MTP block in a trunk's pass (mtp.c): before the pass; when xn has the
 * hidden states of all rows; at the end.
 */
void qwen_mtp_begin(struct qwen_batch *b);
void qwen_mtp_take(struct qwen_batch *b);
void qwen_mtp_fill(struct qwen_batch *b);

/*
 * Returns the MTP parts as qwen_mtp_parts() if every input of the next MTP row
 * is available, else 0.
 */
unsigned qwen_mtp_whole(const struct qwen_session *s);

/* Returns the bytes of the hidden states that a session keeps. */
size_t qwen_hidden_bytes(const struct qwen_model *m);

/* Returns the number of rows of the head among which a draft is chosen. */
size_t qwen_draft_rows(const struct qwen_model *m);

/*
 * Allocates scratch memory for n tokens, n_partial chunks of attention heads
 * and, if all is set, rows of logits.
 */
int qwen_scratch_fit(struct qwen_scratch *s, const struct qwen_model *m,
    size_t n, size_t n_partial, int all, struct qwen_err *err);
void qwen_scratch_free(struct qwen_scratch *b);

/* Returns the bytes of this scratch memory; UINT64_MAX on overflow. */
uint64_t qwen_scratch_bytes(const struct qwen_model *m, size_t n,
    size_t n_partial, int all);

/*
 * Returns the tokens per pass for n tokens, if the caller requested `asked' (0:
 * the default).  A pass ends at each checkpoint of keep (may be NULL).
 */
size_t qwen_batch_size(const struct qwen_model *m, size_t asked, size_t n,
    const struct qwen_checkpoints *keep);

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
qwen_token_chunk(const struct qwen_model *m)
{
	return m->net.operands[QWEN_AS_TWO_Q8] ? QWEN_TOKEN_CHUNK / 2 :
	    QWEN_TOKEN_CHUNK;
}

/* Returns the packing of the kernel that will compute m, or NULL. */
static inline const struct qwen_packing *
qwen_packing_of(const struct qwen_model *model, const struct qwen_weight *w,
    const struct qwen_matmul *m)
{
	struct qwen_matmul rows = *m;
	const struct qwen_kernel *k;

	rows.n_tok *= qwen_terms(w);
	k = qwen_gemm_for(qwen_matmul_of(model, w), qwen_gemms_of(model, w), &rows);
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
	return x + t * QWEN_Q8_GROUPS(width) * b->m->x_bytes;
}

/* Returns row t in the form that w takes, which is not f32. */
static inline const unsigned char *
qwen_operand(const struct qwen_batch *b, const struct qwen_weight *w,
    const unsigned char *x, size_t width, size_t t)
{
	return qwen_operands(b, x, width, t) + QWEN_Q8_GROUPS(width) *
	    b->m->x_at[w->operand];
}

/* Quantizes the first n numbers of row t to all forms in use. */
static inline void
qwen_make_operands(const struct qwen_batch *b, unsigned char *to, size_t width,
    size_t t, const float *x, size_t n)
{
	const struct qwen_model *m = b->m;
	const size_t groups = QWEN_Q8_GROUPS(width);

	to += t * groups * m->x_bytes;
	if (m->net.operands[QWEN_AS_Q8])
		b->vec->quantize((void *)(to + groups * m->x_at[QWEN_AS_Q8]),
		    x, n);
	if (m->net.operands[QWEN_AS_BF16])
		b->vec->to_bf16((void *)(to + groups * m->x_at[QWEN_AS_BF16]),
		    x, n);
	if (m->net.operands[QWEN_AS_TWO_Q8])
		b->vec->quantize_twice((void *)(to + groups *
		    m->x_at[QWEN_AS_TWO_Q8]), x, n);
}

/* Computes cos and sin of the positions of the batch. */
void qwen_rope_angles(struct qwen_batch *b);
/* Computes cos and sin of one position, n_rot / 2 of each. */
void qwen_rope_at(const struct qwen_hparams *h, size_t pos, float *cos,
    float *sin);

/*
 * Returns the rows of part that attention can use for timelines of at most end
 * tokens.
 */
size_t qwen_attention_partials(const struct qwen_model *m, size_t n_share,
    size_t end);

#endif
