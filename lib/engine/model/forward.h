/* SPDX-License-Identifier: ISC */
/*
 * forward.h - one batch of tokens on its way through the layers.
 *
 * Buffers hold a row a token, [n][width], and are sized once for the largest
 * batch; blocks share them.  The rows of one timeline, its share, follow one
 * another; only attention, DeltaNet and what has to do with positions look at
 * whose a row is.
 */
#ifndef QWEN_MODEL_FORWARD_H
#define QWEN_MODEL_FORWARD_H

#include <stdatomic.h>

#include "engine/model/model.h"

/* Rows of a matrix that one thread takes at a time: few tokens, and many. */
#define QWEN_ROW_CHUNK_FEW 32
#define QWEN_ROW_CHUNK 64
#define QWEN_ROW_CHUNK_MANY 256
#define QWEN_MANY_TOKENS 32
/* Tokens' rows that pass by a chunk of rows while it is in cache. */
#define QWEN_TOKEN_CHUNK 192
/* Rows of logits computed together that the session has no place for. */
#define QWEN_HEAD_ROWS 64

#define QWEN_SCRATCH_MAX 32

/* How far a part of qwen_eval_parts has come, and its place in the pass. */
struct qwen_progress {
	size_t	 done;
	size_t	 known;		/* of done, had been guessed */
	size_t	 n_guess;	/* that there is room for */
	size_t	 share;
	int	 in;
};

struct qwen_scratch {
	size_t		 cap;		/* tokens */
	size_t		 cap_partial;	/* rows of part */
	float		*x;		/* [cap][n_embd] the residual stream */
	float		*xn;		/* [cap][n_embd] normed */
	unsigned char	*xq;		/* normed, see qwen_operand() */
	float		*out;		/* [cap][out_width] a block's result */
	float		*in;		/* [cap][in_width] projections */
	float		*o;		/* [cap][o_width] what mixers make */
	unsigned char	*oq;		/* o, likewise */
	float		*cos, *sin;	/* [cap][n_rot / 2] */
	float		*router;	/* [cap][n_expert + 1] */
	/* experts of a token, and the shared one if there is any */
	uint32_t	*expert;	/* [cap][n_expert_used + 1] */
	float		*weight;	/* likewise */
	uint32_t	*slot;		/* [slots] in expert, by its number */
	uint32_t	*first;		/* [n_expert + 2] in slot */
	uint32_t	*active;	/* [n_expert + 1] that have slots */
	float		*gate, *up;	/* [slots][ff_width] */
	unsigned char	*hq;		/* gate * up, a slot, likewise */
	/* tokens that are packed once for all, and by each thread for itself */
	unsigned char	*packed;
	unsigned char	*own;		/* [threads][own_bytes] */
	size_t		 own_bytes;
	float		*tile;		/* [threads][cap][QWEN_ROW_CHUNK] */
	float		*second;	/* [threads][QWEN_TOKEN_CHUNK / 2]
					   [QWEN_ROW_CHUNK_MANY] products with
					   second terms; or NULL */
	float		*part;		/* [cap_partial][head + 2] */
	uint32_t	*owner;		/* [cap] the share of a row */
	uint32_t	*wanted;	/* [cap] rows that are read at the end */
	float		**yrow;		/* [cap] where logits go */
	float		*logits;	/* [QWEN_HEAD_ROWS][n_vocab], or NULL */
	float		*draft;		/* [qwen_draft_rows()] */
	float		*low;		/* what adapters' A make: rows, or slots,
					   of all sets of a list; or NULL */
	size_t		 low_width;	/* of a row of one set, at most */
	const void	**xp;		/* [threads][slots] row pointers */
	float		**yp;
	size_t		 in_width, o_width, ff_width, out_width;
	size_t		 slots;		/* a batch has at most */
	void		*owned[QWEN_SCRATCH_MAX];	/* the arrays above,
							   but part */
	size_t		 n_owned;
	int		 failed;	/* one of them is not there */
	int		 count_only;	/* nothing is taken, but bytes counted */
	size_t		 bytes;
	/* of qwen_eval_parts */
	struct qwen_share	*shares;	/* [cap_shares] */
	struct qwen_progress	*progress;	/* [cap_progress] */
	size_t			 cap_shares, cap_progress;
};

/* The rows of one timeline in a batch. */
struct qwen_share {
	struct qwen_session	*s;
	const int32_t		*tokens;	/* to append */
	size_t			 n_tokens;
	const int32_t		*guess;		/* that follow them */
	size_t			 n_guess;
	size_t			 first, n;	/* rows */
	size_t			 n_sure;	/* those after are guesses */
	size_t			 pos;		/* of the first */
	size_t			 skip;	/* blocks of the KV cache before that
					   of position 0 */
	/*
	 * A block's results of the rows before this one are not read: a mixer
	 * may do for them just what the state needs.
	 */
	size_t			 from;
	/* the place of the first number that was not finite, or SIZE_MAX */
	_Atomic size_t		 bad;
	_Atomic size_t		 good;	/* guesses before such a number */
	/*
	 * The journal has the rows from noted on.  After base rows, if any,
	 * there is the state from which tokens can be taken back.
	 */
	size_t			 base, noted;
	/* logits, and who is told: the last row, or all; or hidden states */
	enum qwen_logits	 logits;
	int			 hidden;
	int			 stop;		/* the last row's are wanted */
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);	/* or NULL */
	void			*arg;
	int			 failed;	/* why: err */
	struct qwen_err		 err;
	/* attention: items before its own, and how they are made */
	size_t			 item, n_group, n_chunk;
	size_t			 partial;	/* its rows of part, if split */
	int			 split;
	/*
	 * mtp.c: the first row of the pass, and rows for the block, of which
	 * all results are wanted, or only what the cache needs; among rows for
	 * the block, that of the pass which the first one is told of.
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
	size_t				 n;	/* rows */
	/*
	 * In the last layer: the rows whose results are read, where those are
	 * not all; else NULL.
	 */
	const uint32_t			*wanted;
	size_t				 n_wanted;
	int				 trace;	/* of some rows somebody looks
						   at the stages */
	/* called after layer i of n_layer, except the last one; or NULL */
	void	(*layer)(void *arg, size_t i, size_t n_layer);
	void	*arg;
};

/* Whose row t is. */
static inline struct qwen_share *
qwen_share_of(const struct qwen_batch *b, size_t t)
{
	return &b->share[b->b->owner[t]];
}

/* Something in row t is not finite: note the first place, in the order of
   computing, that went wrong. */
void qwen_note_bad(const struct qwen_batch *b, size_t t, size_t place);

/* Is the result of row t read? */
static inline int
qwen_is_wanted(const struct qwen_batch *b, size_t t)
{
	const struct qwen_share *p = qwen_share_of(b, t);

	return t - p->first >= p->from;
}

/*
 * One pass: all tokens of the shares, for which there is room.  What does not
 * fail ends at the end of its session from then on.
 */
void qwen_batch_run(struct qwen_batch *b);

/*
 * Steps of it.  Number the rows of all shares, all of them wanted; xn =
 * norm(x += add), place as it is told in errors; one layer whose input is
 * x + add, after which nothing is left but the wanted rows, with x and out (not
 * yet added).  add may be NULL.
 */
void qwen_batch_number(struct qwen_batch *b);
void qwen_batch_norm(struct qwen_batch *b, const float *add, const float *w,
    size_t place);
void qwen_batch_layer(struct qwen_batch *b, const struct qwen_layer *l,
    const float *add);

/*
 * The block that predicts, in a pass (mtp.c): before it; when the hidden states
 * of all rows are in xn; and at its end.
 */
void qwen_mtp_begin(struct qwen_batch *b);
void qwen_mtp_take(struct qwen_batch *b);
void qwen_mtp_fill(struct qwen_batch *b);

/*
 * Is all there that its rows from the end of the session on are made of?  Then
 * what it has, as qwen_mtp_parts(), else 0.
 */
unsigned qwen_mtp_whole(const struct qwen_session *s);

/* What a session keeps of hidden states. */
size_t qwen_hidden_bytes(const struct qwen_model *m);

/* Rows of the head that a draft is chosen from. */
size_t qwen_draft_rows(const struct qwen_model *m);

/*
 * Make the scratch memory fit n tokens, the parts of attention of n_partial
 * heads and chunks, and, if all is set, rows of logits.
 */
int qwen_scratch_fit(struct qwen_scratch *s, const struct qwen_model *m,
    size_t n, size_t n_partial, int all, struct qwen_err *err);
void qwen_scratch_free(struct qwen_scratch *b);

/* How many bytes that takes; UINT64_MAX if that is too small a number. */
uint64_t qwen_scratch_bytes(const struct qwen_model *m, size_t n,
    size_t n_partial, int all);

/*
 * Tokens of a pass, if so many are asked for (0: the usual number) of n; one
 * ends at each checkpoint of keep (which may be NULL).
 */
size_t qwen_batch_size(const struct qwen_model *m, size_t asked, size_t n,
    const struct qwen_checkpoints *keep);

/*
 * One product of a list that shares its input: y[t * stride + row], or, where
 * rows is set, rows[t][row].
 */
struct qwen_linear {
	const struct qwen_weight	*w;
	float				*y;
	size_t				 stride;
	float *const			*rows;
};

/*
 * y = Wx for the n rows at[i] of x, or the first n if at is NULL.  They are
 * there as f32 and as operands, both stride numbers wide; whichever form the
 * weight takes is used.
 */
void qwen_linears(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const unsigned char *xq,
    const uint32_t *at, size_t n);

/*
 * m->r0 .. r1-1 of w, which m->w points into, by the kernel that fits best.  If
 * that wants tokens packed otherwise than they are, the thread does it and leaves
 * them in m: they are there until its next product.
 */
void qwen_batch_multiply(struct qwen_batch *b, const struct qwen_weight *w,
    struct qwen_matmul *m, int thread);

/* Rows of a token, as w multiplies it. */
static inline size_t
qwen_terms(const struct qwen_weight *w)
{
	return w->operand == QWEN_AS_TWO_Q8 ? 2 : 1;
}

/* Tokens of a product, at most. */
static inline size_t
qwen_token_chunk(const struct qwen_model *m)
{
	return m->operands[QWEN_AS_TWO_Q8] ? QWEN_TOKEN_CHUNK / 2 :
	    QWEN_TOKEN_CHUNK;
}

/* How the kernel that m will take wants its tokens, or NULL. */
static inline const struct qwen_packing *
qwen_packing_of(const struct qwen_weight *w, const struct qwen_matmul *m)
{
	struct qwen_matmul rows = *m;
	const struct qwen_kernel *k;

	rows.n_tok *= qwen_terms(w);
	k = qwen_gemm_for(w->matmul, w->gemm, &rows);
	return k != NULL ? k->packing : NULL;
}

/* Bytes of n tokens packed for w; the tokens x, at most of one product, to p. */
size_t qwen_batch_packed_bytes(const struct qwen_weight *w,
    const struct qwen_packing *k, size_t n);
void qwen_batch_pack(const struct qwen_weight *w, const struct qwen_packing *k,
    void *p, const void *const *x, size_t n);

/*
 * Call fn for every token of the batch, several at a time; it goes through so
 * many numbers of 32 bits for each, which the profile counts.
 */
void qwen_each_token(struct qwen_batch *b, enum qwen_stage stage,
    void (*fn)(struct qwen_batch *b, void *arg, size_t t), void *arg,
    size_t numbers);

/* Are activations not taken as f32? */
static inline int
qwen_wants_operand(const struct qwen_weight *w)
{
	return w->operand != QWEN_AS_F32;
}

/*
 * Row t of activations in the other forms that weights take, one form after the
 * other: struct qwen_q8, bf16.  Rows hold so many numbers, in whole groups.
 */
static inline const unsigned char *
qwen_operands(const struct qwen_batch *b, const unsigned char *x, size_t width,
    size_t t)
{
	return x + t * QWEN_Q8_GROUPS(width) * b->m->x_bytes;
}

/* The same in the form that w takes, which is not f32. */
static inline const unsigned char *
qwen_operand(const struct qwen_batch *b, const struct qwen_weight *w,
    const unsigned char *x, size_t width, size_t t)
{
	return qwen_operands(b, x, width, t) + QWEN_Q8_GROUPS(width) *
	    b->m->x_at[w->operand];
}

/* Make them, from the first n numbers of a row. */
static inline void
qwen_make_operands(const struct qwen_batch *b, unsigned char *to, size_t width,
    size_t t, const float *x, size_t n)
{
	const struct qwen_model *m = b->m;
	const size_t groups = QWEN_Q8_GROUPS(width);

	to += t * groups * m->x_bytes;
	if (m->operands[QWEN_AS_Q8])
		b->vec->quantize((void *)(to + groups * m->x_at[QWEN_AS_Q8]),
		    x, n);
	if (m->operands[QWEN_AS_BF16])
		b->vec->to_bf16((void *)(to + groups * m->x_at[QWEN_AS_BF16]),
		    x, n);
	if (m->operands[QWEN_AS_TWO_Q8])
		b->vec->quantize_twice((void *)(to + groups *
		    m->x_at[QWEN_AS_TWO_Q8]), x, n);
}

/* cos and sin of the batch's positions. */
void qwen_rope_angles(struct qwen_batch *b);
/* Cosines and sines of a position, n_rot / 2 of each. */
void qwen_rope_at(const struct qwen_hparams *h, size_t pos, float *cos,
    float *sin);

/* Rows of part that attention has use for: timelines of at most end tokens. */
size_t qwen_attention_partials(const struct qwen_model *m, size_t n_share,
    size_t end);

#endif
