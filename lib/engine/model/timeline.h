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

/*
 * Guesses of what follows: computed with the pass that read the tokens before
 * them, and nothing of them is seen until they are read.  Their keys and values
 * are in the KV cache.  The recurrent state lacks them: what it takes of each
 * is in the journal, and is put in with the next pass, or when somebody looks.
 */
struct qwen_ahead {
	int32_t	 id[QWEN_GUESS_MAX];
	size_t	 n;		/* guesses of the last pass */
	size_t	 at;		/* of these, the first ones were read */
	size_t	 owed;		/* last tokens that the state lacks */
	size_t	 end;		/* no later position is in the KV cache */
	float	*row[QWEN_GUESS_MAX];	/* logits after each */
	float	*logits;	/* where the rows are */
	size_t	 logits_bytes;
};

/*
 * What the recurrent state takes of the token at a position is in row position
 * % n_row, as deltanet.c has it.
 */
struct qwen_journal {
	float	*row;
	size_t	 n_row;
	size_t	 by_row, by_layer;	/* floats from one to the next */
	size_t	 row_bytes;
	/* tokens that can be taken back, and the state before the rows of them */
	size_t	 back;
	void	*base;
	size_t	 base_at;	/* tokens before it; SIZE_MAX: there is none */
};

/*
 * For the block that predicts (mtp.c): the trunk's hidden states after the
 * output norm at the last positions, and how far its part of the KV cache, the
 * layer after the trunk's, has come.  Its row of position p, made of the token
 * there and the hidden state of p - 1, is in slot p - 1, so that there is none
 * for position 0.
 */
enum { QWEN_HIDDEN_ROWS = 80 };		/* a cut can come back to so many */

struct qwen_mtp_state {
	float	*hidden;	/* [QWEN_HIDDEN_ROWS][n_embd]: that of position
				   p is row p modulo their number; NULL: off */
	size_t	 first, end;	/* positions that are there */
	size_t	 from;		/* slots before it have nothing; a multiple of
				   QWEN_KV_BLOCK */
	size_t	 filled;	/* rows before it are there, those that are */
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
	float			*own_logits;	/* what was taken for them */
	int			 have_logits;
	struct qwen_ahead	*ahead;		/* NULL: never any guesses */
	struct qwen_journal	*journal;	/* NULL: nor any tracking */
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
	int			 converted;	/* session.h says of what */
	struct qwen_mtp_state	 mtp;
	struct qwen_tracing	*tracing;	/* NULL: nobody looks on */
};

/* ---- the cache (cache.c) */

struct qwen_hparams;

/* Of the attention layers. */
struct qwen_kv_shape qwen_kv_shape_of(const struct qwen_hparams *h);

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

/* Only the first n blocks stay. */
void qwen_session_trim(struct qwen_session *s, size_t n);

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

/* ---- the blocks (kv.c) */

/* Positions from .. to - 1 of a block become zero. */
void qwen_kv_clear(const struct qwen_kv_shape *s, uint16_t *block, size_t from,
    size_t to);

/* A head's key, or value, of position at (0 .. 15), as round_kv made it. */
void qwen_kv_put_k(const struct qwen_kv_shape *s, uint16_t *block, size_t head,
    size_t at, const int8_t *q, const uint16_t *scale);
void qwen_kv_put_v(const struct qwen_kv_shape *s, uint16_t *block, size_t head,
    size_t at, const int8_t *q, const uint16_t *scale);

/* ---- guesses (ahead.c) */

/*
 * How many of n guesses can follow the first end tokens, for which there is
 * room: 0 where memory is short.
 */
size_t qwen_ahead_reserve(struct qwen_session *s, size_t end,
    const int32_t *guess, size_t n);

/* How many of the n tokens are what was guessed, from the first on. */
size_t qwen_ahead_match(const struct qwen_session *s, const int32_t *tokens,
    size_t n);

/* Read the next one: the end moves on by it. */
void qwen_ahead_read(struct qwen_session *s);

/* The guesses of a pass that is over, of which the first n are good. */
void qwen_ahead_begin(struct qwen_session *s, const int32_t *guess, size_t n,
    size_t n_written);

/* Only the next n stay, and nothing of the others in the KV cache. */
void qwen_ahead_cut(struct qwen_session *s, size_t n);

/* The recurrent state in memory is that of the end from here on. */
void qwen_ahead_catch_up(const struct qwen_session *s);

/* That, and nothing is after the end: for who shares what there is. */
void qwen_ahead_hide(const struct qwen_session *s);

/* The end is elsewhere, with a state and a KV cache of its own. */
void qwen_ahead_forget(struct qwen_session *s);

void qwen_ahead_free(struct qwen_ahead *a);

/* Bytes that one guess of a timeline takes: logits, and rows of the journal. */
uint64_t qwen_ahead_bytes(const struct qwen_model *m);

/* The journal's row of guess i in a layer; those of the next one are n_layer
   rows on. */
float *qwen_ahead_journal(const struct qwen_ahead *a, size_t n_layer,
    size_t layer, size_t i);

/* The last tokens that the recurrent state in memory lacks. */
size_t qwen_ahead_owed(const struct qwen_session *s);

/* ---- what the recurrent state takes of tokens (journal.c) */

void qwen_journal_free(struct qwen_journal *j, size_t recurrent_bytes);

/* There is to be one, if the model has such a state; 0, or -1. */
int qwen_journal_need(struct qwen_session *s);

/* What a pass is to note of its rows: sets base and noted. */
struct qwen_share;
void qwen_journal_plan(struct qwen_share *p);

/* Can the timeline go back to its first n tokens? Then the state does. */
int qwen_journal_reaches(const struct qwen_session *s, size_t n);
void qwen_journal_go_back(struct qwen_session *s, size_t n);

/* The state changes in another way. */
void qwen_journal_forget(struct qwen_session *s);

/* The row of a position in a layer. */
static inline float *
qwen_journal_row(const struct qwen_journal *j, size_t layer, size_t pos)
{
	return j->row + pos % j->n_row * j->by_row + layer * j->by_layer;
}

/* Floats of a row, of which a model's projections have more (deltanet.c). */
size_t qwen_deltanet_journal_width(const struct qwen_hparams *h);

/*
 * Put n tokens from a position on, of which there are rows, into a recurrent
 * state, which is laid out as the session's.
 */
void qwen_deltanet_replay(const struct qwen_session *s, void *recurrent,
    size_t from, size_t n);

/* ---- the block that predicts (mtp.c); without one, these do nothing */

/* That of the position before the end is this one. */
void qwen_hidden_set(struct qwen_session *s, const float *hidden);

/* The timeline ends at n now. */
void qwen_mtp_cut(struct qwen_session *s, size_t n);

/* to is a copy of from, with memory for hidden states of its own. */
void qwen_mtp_copy(struct qwen_session *to, const struct qwen_session *from);

/* The first block that a pass may write to. */
size_t qwen_session_first_written(const struct qwen_session *s);

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

/*
 * How many of these (NULL: none) there are at most at a time while n_tokens are
 * read, the one that is being made included.
 */
size_t qwen_checkpoints_most(const struct qwen_checkpoints *keep,
    uint64_t n_tokens);

#endif
