/* SPDX-License-Identifier: ISC */
/*
 * session.h - what a timeline holds, for the forward pass and for lib/state.
 *
 * The KV cache of an attention layer is a list of blocks of QWEN_KV_BLOCK
 * positions: block b holds positions 16b .. 16b+15, in f16:
 *	K [n_head_kv][n_embd_head][16 positions], then
 *	V [n_head_kv][16 positions][n_embd_head]
 * so that scores have positions in the lanes and values have dimensions there.
 * Positions not yet written are zero.  The recurrent state of a DeltaNet layer
 * is S, f32 [n_head_v][dk][dv] (row d of S is multiplied by k[d]), and the
 * last conv_kernel - 1 rows of the convolution's input, f32 [row][channel],
 * oldest first, zero before the first token.
 */
#ifndef QWEN_MODEL_SESSION_H
#define QWEN_MODEL_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"

#define QWEN_KV_BLOCK 16

struct qwen_layer_state {
	/* attention layers: n_block blocks of kv_block_bytes; else NULL */
	uint16_t	**block;
	size_t		  n_block;
	size_t		  kv_block_bytes;
	/* DeltaNet layers: n_s and n_conv floats; else NULL */
	float		 *s;
	size_t		  n_s;
	float		 *conv;
	size_t		  n_conv;
};

struct qwen_session {
	struct qwen_model	*model;
	int32_t			*tokens;
	size_t			 n_tokens;
	size_t			 cap_tokens;
	size_t			 n_layer;
	struct qwen_layer_state	*layer;
	void			*recurrent;	/* all layers' s and conv */
	size_t			 recurrent_bytes;
	float			*logits;	/* n_vocab */
	int			 have_logits;
	struct qwen_scratch	*scratch;	/* the forward pass's own */
};

/*
 * Make room for n tokens in all (tokens and KV blocks, new ones zeroed).
 * QWEN_ERANGE if n is more than the model's context.
 */
int qwen_session_reserve(struct qwen_session *s, size_t n,
    struct qwen_err *err);

/* Back to an empty timeline; memory is kept. */
void qwen_session_clear(struct qwen_session *s);

#endif
