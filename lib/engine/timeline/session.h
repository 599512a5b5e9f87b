/* SPDX-License-Identifier: ISC */
/*
 * session.h - the inside of a session, for saving and restoring, and the
 * threads of a model.  Other folders of lib/engine include this header besides
 * qwen/model.h and qwen/session.h, and no others of this folder. timeline.h,
 * which only this folder includes, defines struct qwen_session.
 *
 * The KV cache of an attention layer is a list of blocks of QWEN_KV_BLOCK
 * positions: block b holds positions 16b .. 16b+15 (layout: quant/kv.h).
 * Positions not yet written are zero.  The recurrent state of a DeltaNet layer
 * is S, f32 [n_head_v][dk][dv] (row d of S is multiplied by k[d]), and the last
 * conv_kernel - 1 rows of the convolution's input, f32 [row][channel], oldest
 * first, zero before the first token.
 */
#ifndef QWEN_SESSION_H
#define QWEN_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "engine/quant/kv.h"
#include "qwen.h"

struct qwen_pool;

/* Returns the threads that the model computes on. */
struct qwen_pool *qwen_model_pool(const struct qwen_model *m);

/* Returns 1 if the cache belongs to the model. */
int qwen_cache_is_of(const struct qwen_cache *c, const struct qwen_model *m);

/*
 * Checks n tokens from position pos on, and the spans that they are part of:
 * see struct qwen_eval.
 */
int qwen_spans_check(const struct qwen_model *m, uint64_t pos,
    const int32_t *tokens, size_t n, const struct qwen_span_rows *spans,
    size_t n_spans, struct qwen_err *err);

/* ---- the contents of a session */

struct qwen_view {
	size_t	 kv_bytes;		/* bytes of a block of an attention
					   layer */
	void	*recurrent;		/* recurrent state of all layers */
	size_t	 recurrent_bytes;	/* its size */
	float	*row;			/* memory for logits, even if there are
					   none */
	int	 end_named;		/* the end becomes a named checkpoint */
};

struct qwen_view qwen_session_view(const struct qwen_session *s);

/* Sets *out to the shape of a layer's state, as state files have it. */
void qwen_session_shape(const struct qwen_session *s, size_t layer,
    struct qwen_state_layer *out);

/*
 * Returns the address of the pointer to block b of an attention layer: memory,
 * or part of a mapping that was added.
 */
uint16_t **qwen_session_kv(const struct qwen_session *s, size_t layer,
    size_t b);

/*
 * Brings all contents to the host, for several threads to read.  If a device
 * that had some of them has failed, they are computed again; -1 if that fails.
 */
int qwen_session_fetch(const struct qwen_session *s, struct qwen_err *err);

/* Returns -1 if a device's contents could not be computed again, else 0. */
int qwen_session_check(const struct qwen_session *s, struct qwen_err *err);

/*
 * Adds a mapped file that blocks may be part of; the session unmaps it.  0, or
 * -1.
 */
int qwen_session_add_mapping(struct qwen_session *s, void *p, size_t bytes);

/*
 * Returns the offset in bytes, in the recurrent state, of a DeltaNet layer's S
 * or (conv) rows of the convolution.
 */
size_t qwen_session_recurrent_at(const struct qwen_session *s, size_t layer,
    int conv);

/* Allocates blocks up to n in all; new ones are zero. */
int qwen_session_grow(struct qwen_session *s, size_t n, struct qwen_err *err);

/*
 * Whether s continues converted keys and values.  Its state then differs from
 * that of a session that read its tokens.
 */
int qwen_session_converted(const struct qwen_session *s);
void qwen_session_set_converted(struct qwen_session *s);

/*
 * ---- the MTP block, if the model was opened with one.  Its part of the KV
 * cache is the layer after the trunk's, with the row of position p in slot p -
 * 1.
 */

/*
 * Computes the missing rows for all tokens that were read; -1 without memory.
 */
int qwen_session_mtp_ready(struct qwen_session *s);

/* Returns the first slot, a multiple of QWEN_KV_BLOCK. */
size_t qwen_session_mtp_from(const struct qwen_session *s);

/*
 * Notes that slots from `from' on are filled for n tokens, and the trunk's
 * hidden state after the last token (may be NULL).  Call it before
 * qwen_session_settle().
 */
void qwen_session_mtp_set(struct qwen_session *s, size_t from, size_t n,
    const float *hidden);

/*
 * Returns the trunk's hidden state after the output norm at a position before
 * the end, qwen_model_n_embd numbers; NULL if it was not kept.
 */
const float *qwen_hidden_at(const struct qwen_session *s, size_t pos);

/* Sets *out to the fingerprint of the block's file. */
int qwen_model_mtp_fp(const struct qwen_model *m, struct qwen_fp *out,
    struct qwen_err *err);

/* ---- checkpoints */

/*
 * A source of checkpoints that were left in a state file.  Checkpoints share
 * it; the last reference releases it.
 */
struct qwen_source {
	/*
	 * Reads the recurrent state (layout as in the session) and, if not
	 * NULL, logits and hidden state after at tokens.  *any is 1 if there is
	 * a hidden state.
	 */
	int	(*read)(struct qwen_source *src, struct qwen_session *s,
		    uint64_t at, void *recurrent, float *logits,
		    float *hidden, int *any, struct qwen_err *err);
	void	(*release)(struct qwen_source *src);
	size_t	 refs;
};

struct qwen_source *qwen_source_ref(struct qwen_source *src);

/* A checkpoint: its data is in memory or in src. */
struct qwen_kept {
	struct qwen_checkpoint	 c;
	void			*recurrent;	/* layout as in the session */
	float			*logits;
	float			*hidden;	/* after the output norm; or
						   NULL */
	struct qwen_source	*src;
};

void qwen_kept_fini(struct qwen_kept *k, size_t recurrent_bytes);

/* Returns checkpoint i, as qwen_session_checkpoint(i). */
const struct qwen_kept *qwen_session_kept(const struct qwen_session *s,
    size_t i);

/*
 * Adds a checkpoint with the data in k, which the session owns from now on,
 * even on errors.  Positions ascend.  Of two at the same position, one with
 * logits is kept; it is named if one of them was.
 */
int qwen_session_add_kept(struct qwen_session *s, struct qwen_kept *k,
    struct qwen_err *err);

/* ---- ending a session that was filled from elsewhere */

struct qwen_settled {
	int32_t			*tokens;	/* malloc'd */
	size_t			 n_tokens;
	const struct qwen_span	*span;		/* copied; the last one may
						   reach beyond n_tokens */
	size_t			 n_span;
	int			 logits;	/* logits are in row */
	int			 named;		/* the end is a named
						   checkpoint */
	struct qwen_source	*src;		/* source of the end's data, or
						   NULL */
};

/*
 * Sets the end of the session after these tokens, which the session owns from
 * now on unless this fails.  Clears later positions of the KV cache.
 */
int qwen_session_settle(struct qwen_session *s, const struct qwen_settled *end,
    struct qwen_err *err);

/*
 * Drops checkpoints as they age.  The last two and named ones stay.  Of the
 * others, from the last to the first, a checkpoint is dropped if its two
 * neighbours are at most max(every, d / 2) apart; d is its distance from the
 * end, and `every' that of the last evaluation that set it, or the model's
 * default.  Called whenever a checkpoint is added.
 */
void qwen_session_thin(struct qwen_session *s);

#endif
