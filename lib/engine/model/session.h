/* SPDX-License-Identifier: ISC */
/*
 * session.h - what lies inside a timeline, for those who save and restore it,
 * and the threads of a model.  The face of this folder to the rest of lib/engine
 * is this beside qwen/model.h and qwen/session.h: others include nothing else
 * of it.  What a session is made of, timeline.h alone knows.
 *
 * The KV cache of an attention layer is a list of blocks of QWEN_KV_BLOCK
 * positions: block b holds positions 16b .. 16b+15, as kernel/kv.h says.
 * Positions not yet written are zero.  The recurrent state of a DeltaNet layer
 * is S, f32 [n_head_v][dk][dv] (row d of S is multiplied by k[d]), and the
 * last conv_kernel - 1 rows of the convolution's input, f32 [row][channel],
 * oldest first, zero before the first token.
 */
#ifndef QWEN_MODEL_SESSION_H
#define QWEN_MODEL_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "engine/kernel/kv.h"
#include "qwen.h"

struct qwen_pool;
struct qwen_vec;

/* The threads that the model computes on. */
struct qwen_pool *qwen_model_pool(const struct qwen_model *m);

/* Does the cache belong to the model? */
int qwen_cache_is_of(const struct qwen_cache *c, const struct qwen_model *m);

/* ---- what a session holds */

struct qwen_view {
	size_t	 kv_bytes;		/* a block of an attention layer */
	void	*recurrent;		/* the state of all layers */
	size_t	 recurrent_bytes;	/* that in all */
	float	*row;			/* where logits go, whether or not
					   there are any */
	int	 end_named;		/* is it to be a named checkpoint? */
};

struct qwen_view qwen_session_view(const struct qwen_session *s);

/* The shape of a layer's state, as files of state tell it. */
void qwen_session_shape(const struct qwen_session *s, size_t layer,
    struct qwen_state_layer *out);

/*
 * Where the session has block b of an attention layer: memory, or part of a
 * mapping that was added.
 */
uint16_t **qwen_session_kv(const struct qwen_session *s, size_t layer,
    size_t b);

/* A mapped file that blocks may be part of: the session unmaps it.  0, or -1. */
int qwen_session_add_mapping(struct qwen_session *s, void *p, size_t bytes);

/*
 * Where in it, in bytes, the recurrent state of a DeltaNet layer is: S, or the
 * rows of the convolution.
 */
size_t qwen_session_recurrent_at(const struct qwen_session *s, size_t layer,
    int conv);

/* Blocks for n * 16 positions in all; those that are new are zero. */
int qwen_session_grow(struct qwen_session *s, size_t n, struct qwen_err *err);

/*
 * In a block of 16 positions: whose byte at is; zero those of positions from
 * used on in the n bytes at p, which are from byte at on; the n bytes at p have
 * a scale or f16 number that is not finite: where, or n.
 */
size_t qwen_kv_lane(const struct qwen_kv_shape *s, size_t at);
void qwen_kv_clear_lanes(const struct qwen_kv_shape *s, void *p, size_t at,
    size_t n, size_t used);
size_t qwen_kv_finite(const struct qwen_kv_shape *s, const void *p, size_t at,
    size_t n);

/*
 * Keys and values of one kind as another (kv_convert.c), which must be no finer.
 * dst is a block of to; all 16 positions of it are written.
 */
struct qwen_kv_convert {
	struct qwen_kv_shape	 from, to;
	const struct qwen_vec	*vec;
	struct qwen_kv_loss {
		double	lost, all;	/* sums of squares of numbers */
	}			 loss[2];	/* of keys, of values */
};

void qwen_kv_convert_init(struct qwen_kv_convert *c);
int qwen_kv_convert(struct qwen_kv_convert *c, void *dst, const void *src,
    struct qwen_err *err);

/*
 * Does s go on from keys and values that were converted?  Then it is not what
 * reading its tokens gives.
 */
int qwen_session_converted(const struct qwen_session *s);
void qwen_session_set_converted(struct qwen_session *s);

/*
 * ---- the block that predicts, if the model was opened with one.  Its part of
 * the KV cache is the layer after the trunk's, with the row of position p in
 * slot p - 1.
 */

/*
 * Make what is still missing of it for the tokens that were read; -1 if there
 * is no memory.
 */
int qwen_session_mtp_ready(struct qwen_session *s);

/* The first slot that there is, a multiple of QWEN_KV_BLOCK. */
size_t qwen_session_mtp_from(const struct qwen_session *s);

/*
 * Slots from on are there for n tokens, and (if it is not NULL) the trunk's
 * hidden state after the last of them: before qwen_session_settle().
 */
void qwen_session_mtp_set(struct qwen_session *s, size_t from, size_t n,
    const float *hidden);

/*
 * The trunk's hidden state after the output norm at a position before the end,
 * qwen_model_n_embd numbers; NULL: it was not kept.
 */
const float *qwen_hidden_at(const struct qwen_session *s, size_t pos);

/* The file that the block is from. */
int qwen_model_mtp_fp(const struct qwen_model *m, struct qwen_fp *out,
    struct qwen_err *err);

/* ---- checkpoints */

/*
 * Where checkpoints are that were left where they came from: a file of state.
 * Shared by those that it holds; the last one releases it.
 */
struct qwen_source {
	/*
	 * The recurrent state, laid out as in the session, the logits (if not
	 * NULL) after at tokens, and the hidden state (likewise), if it is
	 * there: *any.
	 */
	int	(*read)(struct qwen_source *src, struct qwen_session *s,
		    uint64_t at, void *recurrent, float *logits,
		    float *hidden, int *any, struct qwen_err *err);
	void	(*release)(struct qwen_source *src);
	size_t	 refs;
};

struct qwen_source *qwen_source_ref(struct qwen_source *src);

/* A checkpoint: its data in memory, or with src. */
struct qwen_kept {
	struct qwen_checkpoint	 c;
	void			*recurrent;	/* as in the session */
	float			*logits;
	float			*hidden;	/* after the output norm; or
						   NULL */
	struct qwen_source	*src;
};

void qwen_kept_fini(struct qwen_kept *k, size_t recurrent_bytes);

/* That of qwen_session_checkpoint(i). */
const struct qwen_kept *qwen_session_kept(const struct qwen_session *s,
    size_t i);

/*
 * Add one with the data in k, which is the session's from now on, whatever the
 * outcome.  Positions ascend; of two at one position, one with logits stays, and
 * it is named if one of them was.
 */
int qwen_session_add_kept(struct qwen_session *s, struct qwen_kept *k,
    struct qwen_err *err);

/* ---- the end of a session that was filled from elsewhere */

struct qwen_settled {
	int32_t			*tokens;	/* malloc'd */
	size_t			 n_tokens;
	int			 logits;	/* they are there */
	int			 named;		/* as a checkpoint, */
	struct qwen_source	*src;		/* whose data are here, or NULL */
};

/*
 * It ends after these tokens, which are the session's unless this fails; of
 * later positions nothing stays in the KV cache.
 */
int qwen_session_settle(struct qwen_session *s, const struct qwen_settled *end,
    struct qwen_err *err);

/*
 * Drop checkpoints as they age.  The last two and the named ones stay; of the
 * others, from the last to the first, each is dropped whose two neighbours are
 * no more than max(every, d / 2) apart, where d is its distance from the end
 * and every that of the last evaluation that had one, or the model's default.
 * Done whenever a checkpoint is added.
 */
void qwen_session_thin(struct qwen_session *s);

#endif
