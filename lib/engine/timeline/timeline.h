/* SPDX-License-Identifier: ISC */
/*
 * timeline.h - the structs of sessions and caches, for this folder and those that
 * run passes (pass/).
 */
#ifndef QWEN_TIMELINE_H
#define QWEN_TIMELINE_H

#include "engine/model.h"
#include "engine/timeline/session.h"

/* A mapping, unmapped by the last session that uses it. */
struct qwen_mapping {
	void	*p;
	size_t	 bytes;
	size_t	*refs;		/* number of sessions; NULL: one */
};

/*
 * Slots that were allocated together; the kernel provides pages when they are
 * touched.
 */
struct qwen_slab {
	struct qwen_slab	*next;
	char			*data;
	size_t			 bytes;
	size_t			 n;
	struct qwen_kv_slot	 slot[];
};

/* The host's memory of passes, for cap rows. */
struct qwen_pass_memory {
	struct qwen_input	*row;		/* [cap] */
	uint32_t		*owner, *at;	/* [cap]; rows of a head */
	float			**y;		/* [cap] where their logits go */
	float			*logits;	/* rows of logits for which no
						   session has memory, or NULL */
	float			*draft;		/* logits of a draft, or NULL */
	float			*x;		/* [cap][n_embd] hidden states, or the
						   stream from one device to the next;
						   or NULL */
	size_t			 cap;
	int			 cpu_only;	/* the current pass is the CPU's
						   alone */
	struct qwen_share	*share;		/* [cap_share] */
	struct qwen_pass_part	*part;		/* [cap_share] */
	struct qwen_progress	*progress;	/* [cap_share] */
	size_t			 cap_share;
	/* of the pieces of a pass (pass/pieces.c) */
	struct qwen_input	*piece_row;	/* [cap_piece] */
	uint32_t		*piece_owner;
	size_t			 cap_piece;
	struct qwen_share	*piece_share;
	size_t			 cap_piece_share;
};

/* The rows of a span; sessions share them. */
struct qwen_rows {
	size_t			 refs;
	struct qwen_span	 span;
	float			 v[];
};

struct qwen_cache {
	struct qwen_model	*model;
	struct qwen_cache	*next;		/* of the model's */
	struct qwen_session	*sessions;
	uint64_t		 limit;		/* bytes; 0: none */
	size_t			 block_bytes;	/* bytes of a slot */
	size_t			 state_bytes;
	size_t			 n_slot;	/* all slots */
	size_t			 n_block;	/* slots in use */
	size_t			 n_state;
	size_t			 n_idle;	/* free slots that are not all
						   zero */
	struct qwen_kv_slot	*free;
	struct qwen_slab	*slab;
	/* memory of passes: each device's, and the host's (pass/) */
	struct qwen_work	*work[1 + QWEN_REMOTE_MAX];
	struct qwen_pass_memory	 pass;
	size_t			 refs;		/* number of sessions, plus the
						   owner */
};

/*
 * Draft tokens, computed in the pass that read the tokens before them.  Callers
 * do not see them until they are read.  Their keys and values are in the KV
 * cache.  The recurrent state does not contain them: the journal has their
 * contributions, which are applied with the next pass, or when the state is
 * read.
 */
struct qwen_ahead {
	int32_t	 id[QWEN_GUESS_MAX];
	size_t	 n;		/* drafts of the last pass */
	size_t	 at;		/* drafts that were read */
	size_t	 owed;		/* last tokens that the recurrent state does not
				   contain */
	size_t	 end;		/* end of the used KV positions */
	float	*row[QWEN_GUESS_MAX];	/* logits after each draft */
	float	*logits;	/* memory of the rows */
	size_t	 logits_bytes;
};

/*
 * For the MTP block (hidden.c): the trunk's hidden states after the output norm at
 * the last positions, and the progress of the block's part of the KV cache (the
 * layer after the trunk's).  The row of position p is computed from the token
 * at p and the hidden state of p - 1.  It is in slot p - 1, so position 0 has
 * none.
 */
enum { QWEN_HIDDEN_ROWS = 80 };		/* hidden states kept, which bounds how
					   far a cut may go back */

struct qwen_mtp_state {
	float	*hidden;	/* [QWEN_HIDDEN_ROWS][n_embd], position p in row
				   p % QWEN_HIDDEN_ROWS; NULL: off */
	size_t	 first, end;	/* positions of the kept rows */
	size_t	 from;		/* slots before it are empty; a multiple of
				   QWEN_KV_BLOCK */
	size_t	 filled;	/* rows before this position are computed */
};

struct qwen_session {
	struct qwen_model	*model;
	struct qwen_cache	*cache;
	struct qwen_session	*next;		/* of the cache's */
	int32_t			*tokens;
	size_t			 n_tokens;
	size_t			 cap_tokens;
	/*
	 * ascending; those from n_tokens on are of tokens that were not read, and
	 * do not count
	 */
	struct qwen_span	*span;
	size_t			 n_span, cap_span;
	struct qwen_rows	**rows;		/* of spans, which a device has
						   the keys of */
	size_t			 n_rows, cap_rows;
	struct qwen_memory	 mem;
	float			*logits;	/* [n_vocab] */
	float			*own_logits;	/* memory allocated for them */
	int			 have_logits;
	struct qwen_ahead	*ahead;		/* NULL: no drafts so far */
	int			 busy;		/* part of the current pass */
	/*
	 * redo: a device has failed that had the tokens from redo_from to
	 * redo_end - 1, and the state after them, which are to be computed
	 * again.  lost: that was not possible.
	 */
	int			 redo;
	size_t			 redo_from, redo_end;
	int			 lost;
	struct qwen_err		 why_lost;
	/* mapped files that may contain KV blocks */
	struct qwen_mapping	*mapping;
	size_t			 n_mapping, cap_mapping;
	/* checkpoints before the end, ascending */
	struct qwen_kept	*kept;
	size_t			 n_kept;
	size_t			 cap_kept;
	/*
	 * If keep_end, the end becomes a checkpoint when tokens follow.  `end'
	 * may have its data already, from a checkpoint that was rewound to.
	 */
	int			 keep_end;
	struct qwen_kept	 end;
	uint64_t		 every;		/* spacing of checkpoints; 0:
						   default */
	int			 converted;	/* see qwen_session_converted */
	struct qwen_mtp_state	 mtp;
	struct qwen_tracing	*tracing;	/* NULL: no tracing */
};

/* ---- the cache (cache.c) */

/*
 * Returns the number of layers with state in a session: the trunk's and the MTP
 * block's.
 */
static inline size_t
qwen_n_state(const struct qwen_net *net)
{
	return net->hp.n_layer + (net->mtp.on != 0);
}

/* Sets only the sizes of a layer's state. */
void qwen_layer_state_init(struct qwen_layer_state *s,
    const struct qwen_hparams *h, size_t layer);

/* Sets s and conv of n layers to their places in state_bytes of memory. */
void qwen_layer_states_place(struct qwen_layer_state *l, size_t n, float *p);

/* QWEN_EFULL if n_slot more slots and n_state more states exceed the limit. */
int qwen_cache_check(const struct qwen_cache *c, size_t n_slot,
    size_t n_state, struct qwen_err *err);

/* Makes at least n slots free, regardless of the limit. */
int qwen_cache_prepare(struct qwen_cache *c, size_t n, struct qwen_err *err);

/* Takes a free slot, all zero, with one reference. */
struct qwen_kv_slot *qwen_cache_take(struct qwen_cache *c);
void qwen_cache_drop(struct qwen_cache *c, struct qwen_kv_slot *s);

/* Frees what remote devices have of the cache, which is newest on the host. */
void qwen_cache_leave(struct qwen_cache *c);

/* ---- sessions */

/*
 * Returns the slots that the session needs for n more tokens: new ones, and
 * copies of those that it shares.
 */
size_t qwen_session_slots(const struct qwen_session *s, size_t n);

/*
 * Makes room for n tokens in all (tokens, and KV blocks, new ones zeroed);
 * blocks after the end become writable.  QWEN_ERANGE if n exceeds the model's
 * context; QWEN_EFULL.
 */
int qwen_session_reserve(struct qwen_session *s, size_t n,
    struct qwen_err *err);

/* Makes room for n tokens, or for n blocks in the lists; -1 without memory. */
int qwen_session_grow_tokens(struct qwen_session *s, size_t n);
int qwen_blocks_grow_lists(struct qwen_session *s, size_t n);

/* Puts the block of each layer at b into the slot; the lists have room. */
void qwen_blocks_place(struct qwen_session *s, size_t b,
    struct qwen_kv_slot *slot);

/* Keeps only the first n blocks. */
void qwen_session_trim(struct qwen_session *s, size_t n);

/* Empties the timeline. */
void qwen_session_clear(struct qwen_session *s);

/*
 * Clears positions from n on in the KV cache: drops blocks, and zeroes lanes of
 * the last one.  On errors nothing has changed.
 */
int qwen_session_cut_cache(struct qwen_session *s, size_t n,
    struct qwen_err *err);

/*
 * Copies the recurrent state of all layers on the model's threads.  The memory
 * has recurrent_bytes and the session's layout.
 */
void qwen_session_copy_recurrent(const struct qwen_session *s, void *dst,
    const void *src);

/* The same, but drafts and journal stay as they are. */
int qwen_blocks_cut(struct qwen_session *s, size_t n, struct qwen_err *err);

/* Zeroes positions from .. to - 1 of block b. */
void qwen_block_clear(const struct qwen_session *s, size_t b, size_t from,
    size_t to);

/*
 * ---- where the memory of a session is newest (newest.c).  Without remote
 * devices these functions do nothing.
 */

/*
 * Returns the number of a device, home of some layer, that has failed, with the
 * reason in err; or 0.  Other ranks do not count: this host may be too small for
 * their layers, so qwen_session_check() fails instead.
 */
size_t qwen_device_lost(const struct qwen_model *m, struct qwen_err *err);

/*
 * Brings block b of all layers, or the recurrent state, to the host.  If a
 * device has failed, what it had is computed again, on the threads of the model,
 * unless qwen_session_check() says otherwise.
 */
void qwen_block_fetch(const struct qwen_session *s, size_t b);
void qwen_state_fetch(const struct qwen_session *s);

/* Notes that the host has changed all blocks, or the recurrent state. */
void qwen_blocks_changed(const struct qwen_session *s);
void qwen_state_changed(const struct qwen_session *s);

/*
 * Before a pass, brings what a session has to the devices of its layers.  The
 * blocks that a pass may write to, and the state, are newest there from now on.
 */
int qwen_memory_send(struct qwen_session *s, struct qwen_err *err);

/*
 * qwen_memory_return brings all of a session to the host; both free what devices
 * have of its state.
 */
void qwen_memory_return(struct qwen_session *s);
void qwen_memory_drop(struct qwen_session *s);

/* ---- rows that are no tokens (spans.c) */

/*
 * Checks the n tokens that are to be read and their spans (qwen_spans_check), and
 * adds the spans to the session's.
 */
int qwen_spans_add(struct qwen_session *s, const int32_t *tokens, size_t n,
    const struct qwen_span_rows *spans, size_t n_spans, struct qwen_err *err);

/* Returns 1 if a span reaches from before position pos beyond it. */
int qwen_spans_open(const struct qwen_session *s, uint64_t pos);

/* Sets RoPE's three positions of the row at position pos. */
void qwen_spans_place(const struct qwen_session *s, uint64_t pos,
    uint32_t out[3]);

/*
 * Keeps the rows of n spans, unless they are kept or there is no memory, so that
 * what is lost with a device can be computed again; `copy' shares those of
 * another session.
 */
void qwen_spans_keep(struct qwen_session *s, const struct qwen_span_rows *spans,
    size_t n);
void qwen_spans_copy(struct qwen_session *to, const struct qwen_session *from);
void qwen_spans_drop(struct qwen_session *s);

/* Replaces the spans of the session by n others; -1 without memory. */
int qwen_spans_set(struct qwen_session *s, const struct qwen_span *span,
    size_t n);

/* ---- drafts (ahead.c) */

/*
 * Returns how many of n drafts can follow the first end tokens; reserves memory
 * for them.  0 without memory.
 */
size_t qwen_ahead_reserve(struct qwen_session *s, size_t end,
    const int32_t *guess, size_t n);

/* Returns how many of the n tokens equal the drafts. */
size_t qwen_ahead_match(const struct qwen_session *s, const int32_t *tokens,
    size_t n);

/* Reads the next draft: moves the end by one. */
void qwen_ahead_read(struct qwen_session *s);

/*
 * Notes the drafts of a finished pass, of which the first n are valid;
 * n_written have keys and values.
 */
void qwen_ahead_begin(struct qwen_session *s, const int32_t *guess, size_t n,
    size_t n_written);

/* Keeps only the next n drafts, and clears the KV cache after them. */
void qwen_ahead_cut(struct qwen_session *s, size_t n);

/*
 * Drops the drafts, and what their pass has left; writes those that were not
 * read to guess, [QWEN_GUESS_MAX], and returns their number.
 */
size_t qwen_ahead_take(struct qwen_session *s, int32_t *guess);

/* Brings the recurrent state in memory up to the end. */
void qwen_ahead_catch_up(const struct qwen_session *s);

/* The same, and drops the drafts: for copying or sharing the session. */
void qwen_ahead_hide(const struct qwen_session *s);

/* Forgets the drafts after the end, state and KV cache were replaced. */
void qwen_ahead_forget(struct qwen_session *s);

void qwen_ahead_free(struct qwen_ahead *a);

/*
 * Returns the bytes of one draft of a timeline: logits, and rows of the
 * journal.
 */
uint64_t qwen_ahead_bytes(const struct qwen_net *net);

/* Returns how many of the last tokens the recurrent state in memory lacks. */
size_t qwen_ahead_owed(const struct qwen_session *s);

/* ---- contributions of drafts to the recurrent state (journal.c) */

void qwen_journal_free(struct qwen_journal *j);

/* Creates the journal if the model has a recurrent state; 0, or -1. */
int qwen_journal_need(struct qwen_session *s);

/*
 * Applies the recorded rows of n tokens from position `from' on to the recurrent
 * state.
 */
void qwen_journal_replay(const struct qwen_session *s, size_t from, size_t n);

/* ---- the MTP block (hidden.c); without one these functions do nothing */

/* Keeps the last of the n hidden states at x, of positions from pos on. */
void qwen_hidden_keep(struct qwen_session *s, size_t pos, const float *x,
    size_t n);

/* Returns the bytes of the hidden states that a session keeps. */
size_t qwen_hidden_bytes(const struct qwen_net *net);

/* Returns the position of the first row of the block that is missing. */
size_t qwen_mtp_next_row(const struct qwen_session *s);

/*
 * Returns the MTP parts as qwen_mtp_parts() if every input of the next MTP row
 * is available, else 0.
 */
unsigned qwen_mtp_whole(const struct qwen_session *s);

/* Sets the hidden state at the last position. */
void qwen_hidden_set(struct qwen_session *s, const float *hidden);

/* Cuts the MTP data to the first n tokens. */
void qwen_mtp_cut(struct qwen_session *s, size_t n);

/* Copies the MTP data; `to' has its own memory for hidden states. */
void qwen_mtp_copy(struct qwen_session *to, const struct qwen_session *from);

/* Returns the first block that a pass may write to. */
size_t qwen_session_first_written(const struct qwen_session *s);

/* ---- checkpoints (checkpoint.c) */

/* Drops all checkpoints, and the data of the end. */
void qwen_session_drop_kept(struct qwen_session *s);

/*
 * Makes a checkpoint of the end, if requested; call it before tokens are added.
 */
int qwen_session_leave_end(struct qwen_session *s, struct qwen_err *err);

/*
 * Returns the tokens until the next checkpoint of keep (may be NULL), at most
 * n.  Sets *cp to 0 if there is none, 1 for a checkpoint, 2 for a named one.
 */
size_t qwen_checkpoints_next(const struct qwen_checkpoints *keep, uint64_t pos,
    size_t n, int *cp);

/*
 * Returns the maximum number of these checkpoints (NULL: 0) that exist at a
 * time while n_tokens are read, including the one being made.
 */
size_t qwen_checkpoints_most(const struct qwen_checkpoints *keep,
    uint64_t n_tokens);

#endif
