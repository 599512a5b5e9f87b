/* SPDX-License-Identifier: ISC */
/* timeline.h - what a session and a cache are made of: for this folder alone. */
#ifndef QWEN_MODEL_TIMELINE_H
#define QWEN_MODEL_TIMELINE_H

#include "engine/model/session.h"

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

/* For munmap(), by the last session that has it. */
struct qwen_mapping {
	void	*p;
	size_t	 bytes;
	size_t	*refs;		/* NULL: one */
};

/*
 * Memory for the blocks of all attention layers at QWEN_KV_BLOCK positions, in
 * the order of layers.  The memory of a layer is left unused where its block is
 * in a mapped file.
 */
struct qwen_kv_slot {
	char			*data;
	size_t			 refs;	/* sessions */
	int			 dirty;	/* was in use: not all zero */
	struct qwen_kv_slot	*next;	/* that is free */
};

/* Slots made at once; their memory is used as it is touched. */
struct qwen_slab {
	struct qwen_slab	*next;
	char			*data;
	size_t			 bytes;
	size_t			 n;
	struct qwen_kv_slot	 slot[];
};

struct qwen_cache {
	struct qwen_model	*model;
	uint64_t		 limit;		/* 0: none */
	size_t			 block_bytes;	/* of a slot */
	size_t			 state_bytes;
	size_t			 n_slot;	/* in all */
	size_t			 n_block;	/* in use */
	size_t			 n_state;
	size_t			 n_idle;	/* free, and not all zero */
	struct qwen_kv_slot	*free;
	struct qwen_slab	*slab;
	struct qwen_scratch	*scratch;	/* the forward pass's own */
	size_t			 refs;		/* sessions, and the owner */
};

struct qwen_session {
	struct qwen_model	*model;
	struct qwen_cache	*cache;
	int32_t			*tokens;
	size_t			 n_tokens;
	size_t			 cap_tokens;
	size_t			 n_layer;
	struct qwen_layer_state	*layer;
	struct qwen_kv_slot	**slot;		/* n_slot, as every layer's
						   n_block */
	size_t			 n_slot;
	size_t			 cap_slot;	/* of all lists of blocks */
	void			*recurrent;	/* all layers' s and conv */
	size_t			 recurrent_bytes;
	float			*logits;	/* n_vocab */
	int			 have_logits;
	int			 busy;		/* is part of a pass */
	/* mapped files that KV blocks may be part of */
	struct qwen_mapping	*mapping;
	size_t			 n_mapping, cap_mapping;
	/* checkpoints before the end, ascending */
	struct qwen_kept	*kept;
	size_t			 n_kept;
	size_t			 cap_kept;
	/*
	 * The end becomes a checkpoint when tokens follow, if keep_end.  Its
	 * data may be there already, of a checkpoint that was rewound to.
	 */
	int			 keep_end;
	struct qwen_kept	 end;
	uint64_t		 every;		/* for thinning; 0: default */
};

/* ---- the cache (cache.c) */

struct qwen_hparams;

/* Of an attention layer. */
size_t qwen_kv_block_bytes(const struct qwen_hparams *h);

/* The sizes of a layer's state; all else is left alone. */
void qwen_layer_state_init(struct qwen_layer_state *s,
    const struct qwen_hparams *h, size_t layer);

/* Where s and conv of n layers are in state_bytes of memory. */
void qwen_layer_states_place(struct qwen_layer_state *l, size_t n, float *p);

/* n slots more would be too many for the limit: QWEN_EFULL. */
int qwen_cache_check(const struct qwen_cache *c, size_t n_slot,
    size_t n_state, struct qwen_err *err);

/* Make sure that n slots are free, whatever the limit. */
int qwen_cache_prepare(struct qwen_cache *c, size_t n, struct qwen_err *err);

/* One of them, with one reference, all zero. */
struct qwen_kv_slot *qwen_cache_take(struct qwen_cache *c);
void qwen_cache_drop(struct qwen_cache *c, struct qwen_kv_slot *s);

/* ---- sessions */

/*
 * Slots that the session needs before n tokens can follow: new ones, and copies
 * of those that others have too.
 */
size_t qwen_session_slots(const struct qwen_session *s, size_t n);

/*
 * Make room for n tokens in all (tokens and KV blocks, new ones zeroed), of
 * which those after the end can be written.  QWEN_ERANGE if n is more than the
 * model's context; QWEN_EFULL.
 */
int qwen_session_reserve(struct qwen_session *s, size_t n,
    struct qwen_err *err);

/* Back to an empty timeline. */
void qwen_session_clear(struct qwen_session *s);

/*
 * Nothing of positions from n on in the KV cache: blocks after it go, lanes in
 * the last one become zero.  After an error nothing has changed.
 */
int qwen_session_cut_cache(struct qwen_session *s, size_t n,
    struct qwen_err *err);

/*
 * Copy the recurrent state of all layers, on the model's threads.  For memory
 * laid out like the session's, of recurrent_bytes.
 */
void qwen_session_copy_recurrent(const struct qwen_session *s, void *dst,
    const void *src);

/* ---- checkpoints (checkpoint.c) */

/* Forget all of them, and the data of the end. */
void qwen_session_drop_kept(struct qwen_session *s);

/* Tokens are about to follow: make a checkpoint of the end if that is wanted. */
int qwen_session_leave_end(struct qwen_session *s, struct qwen_err *err);

/*
 * Tokens until the next checkpoint of keep (which may be NULL), at most n; *cp
 * is set to 0 if there is none there, 1, or 2 if it is a named one.
 */
size_t qwen_checkpoints_next(const struct qwen_checkpoints *keep, uint64_t pos,
    size_t n, int *cp);

#endif
