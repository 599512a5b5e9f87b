/* SPDX-License-Identifier: ISC */
/*
 * device.h - the seam between sessions, which are lists of tokens with memory,
 * and the devices that compute with them.
 *
 * Each layer of a model has a home, one device.  A pass takes rows of several
 * sessions through runs of layers: `run' goes from residual stream to residual
 * stream of the device, and put and get move the stream where homes change.
 * What a session has of keys, values and recurrent states is in the layout of
 * state files (quant/kv.h, session.h), in the memory of the host or, for the
 * layers at home there, in the device's own; slots and sessions know which of
 * the two is newest, and are moved when somebody needs them (newest.c).
 * The CPU works in the memory of the host.
 *
 * Every device gives the same bits, those of qwen-numerics(7).  So homes may
 * change at any time between passes.
 */
#ifndef QWEN_DEVICE_H
#define QWEN_DEVICE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "engine/net/net.h"
#include "engine/quant/kv.h"
#include "qwen.h"

/* ---- the memory of a session */

/* Devices of a model that have a memory of their own, at most. */
enum { QWEN_REMOTE_MAX = 8 };

/* The state of one layer in the memory of the host. */
struct qwen_layer_state {
	/* attention layers: blocks of kv_block_bytes; else NULL */
	uint16_t	**block;
	size_t		  n_block;
	size_t		  kv_block_bytes;
	/* DeltaNet layers: n_s and n_conv floats; else NULL */
	float		 *s;
	size_t		  n_s;
	float		 *conv;
	size_t		  n_conv;
};

/*
 * Memory for the blocks of all attention layers at QWEN_KV_BLOCK positions, in
 * the order of layers.  If a block is in a mapped file, its layer's part is
 * unused.  Bit i of the last two is about the layers at home in remote device i.
 */
struct qwen_kv_slot {
	char			*data;
	size_t			 refs;	/* number of sessions */
	int			 dirty;	/* was used before: not all zero */
	struct qwen_kv_slot	*next;	/* next free slot */
	void			*own[QWEN_REMOTE_MAX];	/* of the device; NULL:
							   none yet */
	unsigned char		 there;	/* the device's copy is valid */
	unsigned char		 stale;	/* the host's copy is not */
	unsigned char		 filled;	/* if stale: positions that the
						   host has nevertheless */
};

/*
 * Contributions of drafts to the recurrent state: that of a position is in row
 * position % QWEN_GUESS_MAX, for each DeltaNet layer: see qwen_journal_row_of().
 */
struct qwen_journal {
	float	*row;
	size_t	 by_row, by_layer;	/* floats from one row, or layer, to the
					   next */
	size_t	 row_bytes;
};

/* Returns the shape of the attention layers. */
static inline struct qwen_kv_shape
qwen_kv_shape_of(const struct qwen_hparams *h)
{
	return (struct qwen_kv_shape){ .n_head = h->n_head_kv,
	    .d = h->n_embd_head, .k = h->k, .v = h->v };
}

/* Keys and values, recurrent states and journal of one session. */
struct qwen_memory {
	size_t			 n_layer;	/* with the MTP block's */
	struct qwen_layer_state	*layer;
	struct qwen_kv_slot	**slot;		/* n_slot is every layer's
						   n_block */
	size_t			 n_slot;
	size_t			 cap_slot;	/* of all lists of blocks */
	void			*recurrent;	/* s and conv of all layers */
	size_t			 recurrent_bytes;
	struct qwen_journal	*journal;	/* NULL: no drafts so far */
	/* as in a slot, for recurrent states and journal */
	void			*own[QWEN_REMOTE_MAX];
	unsigned char		 there, stale;
};

/* Returns the row of a position in a layer. */
static inline float *
qwen_journal_row(const struct qwen_journal *j, size_t layer, size_t pos)
{
	return j->row + pos % QWEN_GUESS_MAX * j->by_row + layer * j->by_layer;
}

/*
 * Offsets in a row: the input of the convolution is first, then k and v as the
 * rule takes them, then the gates.
 */
struct qwen_journal_row {
	size_t	k, v, gates, width;
};
struct qwen_journal_row qwen_journal_row_of(const struct qwen_hparams *h);

/* ---- a pass */

/*
 * One row of a pass.  The trunk takes the embedding of the token, or the vector
 * in its place; the MTP block takes both, zeros for the embedding of a row of a
 * span, and for a NULL vector.
 */
struct qwen_input {
	int32_t		 id;	/* below 0: a row of a span */
	const float	*vec;	/* [n_embd]; or NULL, in the MTP block for 0 */
	const float	*embd;	/* [n_embd] in the MTP block: in the place of an
				   embedding, if id is below 0; NULL: 0 */
	const float	*deep;	/* [n_deepstack][n_embd] to add to the results
				   of the first layers, or NULL */
	size_t		 slot;	/* index of its keys and values; attention sees
				   all up to it */
	uint32_t	 pos[3];	/* RoPE's position: time, height, width;
					   all equal for text */
};

/* The rows of one session in a pass, which follow one another. */
struct qwen_share {
	struct qwen_memory	*mem;
	size_t			 first, n;	/* rows of the pass */
	size_t			 n_sure;	/* rows of tokens; those after
						   them are drafts */
	size_t			 pos;	/* position, and slot, of the first row */
	size_t			 skip;	/* number of KV blocks before that of
					   slot 0 */
	/*
	 * Results of rows before this row are not read after the last layer: for
	 * them, its mixer only has to update the state.
	 */
	size_t			 want;
	/*
	 * The recurrent state lacks the last `owed' tokens before the pass, which
	 * the journal has.  Drafts of the pass go to the journal alone.
	 */
	size_t			 owed;
	/* out: first place with a NaN or infinity (QWEN_PLACE_), or SIZE_MAX */
	_Atomic size_t		 bad;
	/* out: number of drafts before the first one with a NaN or infinity */
	_Atomic size_t		 good;
	/* for see(): NULL: not traced; the index of row 0 among what is traced */
	struct qwen_tracing	*tracing;
	size_t			 told;
};

/* Places of a pass where numbers are checked. */
#define QWEN_PLACE_EMBEDDING	0
#define QWEN_PLACE_MIXER(layer)	(2 * (layer) + 1)
#define QWEN_PLACE_FFN(layer)	(2 * (layer) + 2)

/*
 * Stages of a pass, in the order of computation; watch/stages.c has their names
 * and shapes.
 */
enum qwen_trace_kind {
	QWEN_TRACE_EMBED,
	/* inputs of the MTP block */
	QWEN_TRACE_ENORM, QWEN_TRACE_HNORM, QWEN_TRACE_EH_PROJ,
	QWEN_TRACE_Q, QWEN_TRACE_GATE, QWEN_TRACE_K, QWEN_TRACE_V,
	QWEN_TRACE_Q_ROPE, QWEN_TRACE_K_ROPE,
	QWEN_TRACE_SCORES, QWEN_TRACE_PROBS,	/* one per head */
	QWEN_TRACE_ATTN_OUT,
	QWEN_TRACE_QKV, QWEN_TRACE_Z, QWEN_TRACE_CONV,
	QWEN_TRACE_DECAY, QWEN_TRACE_BETA,
	QWEN_TRACE_DELTA_OUT, QWEN_TRACE_DELTA_NORM,
	QWEN_TRACE_MIXER, QWEN_TRACE_MIXER_RESIDUAL,
	QWEN_TRACE_ROUTER, QWEN_TRACE_EXPERTS, QWEN_TRACE_WEIGHTS,
	QWEN_TRACE_SHARED,
	QWEN_TRACE_EXPERTS_GATE, QWEN_TRACE_EXPERTS_UP, QWEN_TRACE_EXPERTS_ACT,
	QWEN_TRACE_SHARED_GATE, QWEN_TRACE_SHARED_UP, QWEN_TRACE_SHARED_ACT,
	QWEN_TRACE_MLP_GATE, QWEN_TRACE_MLP_UP, QWEN_TRACE_MLP_ACT,
	QWEN_TRACE_FFN, QWEN_TRACE_RESIDUAL,
	/* outputs of the MTP block */
	QWEN_TRACE_HEAD_NORM, QWEN_TRACE_HEAD,
	QWEN_TRACE_NORM, QWEN_TRACE_LOGITS,
	QWEN_TRACE_N
};

/*
 * What an operation has computed: rows t .. t + n - 1 of a stage, `stride'
 * numbers apart, each of `pieces' pieces of `width' numbers, `step' apart
 * (pieces 0: one piece, as wide as the stage).  Of routed experts, row i is of
 * row at[i] / used of the pass, and of that row's expert number at[i] % used;
 * used 0: no experts.
 *
 * kind QWEN_TRACE_SCORES has the queries as the kernels of attention take them.
 *
 * If w is set, x is instead what the n_w weights will be multiplied with: rows
 * at[i], or the first n if at is NULL; for matrix e of a stack.
 */
struct qwen_seen {
	enum qwen_trace_kind	 kind;
	size_t			 layer;
	const void		*x;
	size_t			 stride;
	size_t			 t, n;
	size_t			 pieces, width, step;
	const uint32_t		*at;
	size_t			 used;
	const struct qwen_weight *const	*w;
	size_t			 n_w, e;
};

struct qwen_pass {
	struct qwen_input	*row;	/* [n] */
	uint32_t		*owner;	/* [n] index of each row's share */
	size_t			 n;
	struct qwen_share	*share;
	size_t			 n_share;
	/*
	 * The device of this layer drops, after its mixer, the rows before their
	 * share's `want' (qwen_pass_drop); SIZE_MAX: all rows stay.
	 */
	size_t			 last;
	/*
	 * the hook, called after each operation; several threads may call it for
	 * different rows; NULL: the pass is not watched
	 */
	void	(*see)(const struct qwen_pass *p, const struct qwen_seen *what);
	void			*watch;		/* for see() */
	/* called after each layer; or NULL */
	void	(*layer)(void *arg, size_t i);
	void			*arg;
};

/*
 * Notes that row t has a NaN or infinity, for threads too.  place numbers the
 * steps of the pass (QWEN_PLACE_); the first bad place of a share is reported.
 */
void qwen_note_bad(const struct qwen_pass *p, size_t t, size_t place);

/* Returns 1 if in some share all numbers of tokens are finite so far. */
int qwen_any_good(const struct qwen_pass *p);

/* Sets n, owner, and first of each share, from the shares' n. */
void qwen_pass_number(struct qwen_pass *p);

/* Writes the indices of all wanted rows; returns how many they are. */
size_t qwen_pass_wanted(const struct qwen_pass *p, uint32_t *at);

/* Drops the rows that are not wanted; the others move to the front. */
void qwen_pass_drop(struct qwen_pass *p);

/* The heads of a model: which rows of logits. */
enum qwen_head {
	QWEN_HEAD_OUTPUT,
	QWEN_HEAD_MTP,		/* the MTP block's */
	QWEN_HEAD_DRAFT		/* those of its rows that drafts are chosen from:
				   see qwen_draft_rows() */
};

/*
 * Returns the number of rows of the MTP block's head among which a draft is
 * chosen: the *first ones, then those at its end.
 */
size_t qwen_draft_rows(const struct qwen_net *net, size_t *first);

/* ---- devices */

/*
 * What has a home: the halves of all layers, 2 * i the mixer and 2 * i + 1 the
 * feed-forward part of layer i, the MTP block's after the trunk's; then the head.
 */
#define QWEN_MIXER(layer)	(2 * (layer))
#define QWEN_FFN(layer)		(2 * (layer) + 1)
#define QWEN_HEAD(n_layer)	(2 * (n_layer) + 2)
#define QWEN_HOMES(n_layer)	(2 * (n_layer) + 3)

/* What a device holds of a model; what follows the members is the device's. */
struct qwen_resident {
	const struct qwen_device	*dev;
	const struct qwen_net		*net;
	const unsigned char	*home;	/* [QWEN_HOMES] where each half of a
						   layer is: its index in the
						   placement */
	size_t				 index;	/* the device's own */
};

/* The memory of passes on a device, one per cache. */
struct qwen_work {
	struct qwen_resident		*r;
};

/*
 * A model on its devices.  The CPU is always there, for what no other device can
 * do; it is first, and works in the memory of the host.
 */
struct qwen_placement {
	const struct qwen_net	*net;
	struct qwen_pool	*pool;		/* the host's threads */
	struct qwen_resident	*on[1 + QWEN_REMOTE_MAX];	/* remote device i
								   is on[1 + i] */
	size_t			 n;
	unsigned char	*home;	/* [QWEN_HOMES] index in on */
};

struct qwen_engine;

/* What is asked of a device. */
struct qwen_wish {
	int		 number;	/* of a card */
	uint64_t	 bytes;		/* it may take; 0: all that is free */
	const char	*text;		/* what follows the name of a device with
					   ranks, n_text bytes */
	size_t		 n_text;
};

/*
 * All functions are for what is at home in the device.  Errors are memory
 * alone, unless a comment says otherwise; where a function returns nothing, it
 * cannot fail, since `fit' was called for a pass of this size.
 */
struct qwen_device {
	const char	*name;
	int		 remote;	/* has a memory of its own */
	int		 numbered;	/* there are several, from 0 on */
	/*
	 * It is other processes, which have their own devices: it reads its own
	 * item of a list, later items leave its layers alone, and it has a state of
	 * every session, also of those without recurrent states.
	 */
	int		 ranks;

	/*
	 * open holds the weights of all whose home is index.  What it cannot
	 * compute, or has no room for, gets the CPU, 0, as its home.
	 */
	int	(*open)(struct qwen_resident **out, struct qwen_engine *e,
		    const struct qwen_net *net, unsigned char *home,
		    size_t index, const struct qwen_wish *wish,
		    struct qwen_err *err);
	void	(*close)(struct qwen_resident *r);
	/*
	 * Chooses homes as open does, and holds nothing; what is free is asked of
	 * the device if the wish has no bytes.  Errors are those of opening it.
	 * NULL: it takes all that it is given.
	 */
	int	(*plan)(const struct qwen_net *net, unsigned char *home,
		    size_t index, const struct qwen_wish *wish,
		    struct qwen_err *err);

	/* Room for passes of n rows, whose sessions have at most end tokens. */
	int	(*work_new)(struct qwen_work **out, struct qwen_resident *r,
		    struct qwen_err *err);
	void	(*work_free)(struct qwen_work *w);
	int	(*fit)(struct qwen_work *w, size_t n, size_t n_share, size_t end,
		    struct qwen_err *err);
	/*
	 * -1 if the device has failed since it was opened, and then it does
	 * nothing any more; or NULL: it cannot fail
	 */
	int	(*check)(const struct qwen_resident *r, struct qwen_err *err);
	/* its bytes; UINT64_MAX on overflow */
	uint64_t (*bytes)(const struct qwen_resident *r, size_t n,
		    size_t n_share, size_t end);

	/*
	 * A pass.  embed sets the residual stream of all rows from the trunk's
	 * embedding, join from the MTP block's inputs; put and get copy it, [n]
	 * [n_embd].  run takes it through n halves of layers from `first' on.  norm
	 * makes the normed rows that head multiplies, and copies them to hidden, [n]
	 * [n_embd], unless it is NULL.  head writes the logits of the rows at[i],
	 * or of the first n, to y[i].  embed, join, norm and head are NULL if the
	 * embedding, the MTP block and the head are never at home there.
	 */
	void	(*embed)(struct qwen_work *w, const struct qwen_pass *p);
	void	(*join)(struct qwen_work *w, const struct qwen_pass *p);
	void	(*put)(struct qwen_work *w, const struct qwen_pass *p,
		    const float *x);
	void	(*get)(struct qwen_work *w, const struct qwen_pass *p, float *x);
	void	(*run)(struct qwen_work *w, struct qwen_pass *p, size_t first,
		    size_t n);
	void	(*norm)(struct qwen_work *w, const struct qwen_pass *p,
		    enum qwen_head head, float *hidden);
	void	(*head)(struct qwen_work *w, const struct qwen_pass *p,
		    enum qwen_head head, const uint32_t *at, size_t n,
		    float *const *y);

	/* For users who want to know; or NULL, but for the CPU. */
	int	(*profile)(struct qwen_resident *r, int on);
	size_t	(*stats)(const struct qwen_resident *r, int by_purpose,
		    struct qwen_kernel_stat *out, size_t max);
	size_t	(*describe)(const struct qwen_resident *r, char *buf,
		    size_t size);

	/*
	 * Recurrent states: replay applies the journal's rows of n tokens from
	 * position `from' on.  The CPU does so for all layers whose home is not
	 * `there'.
	 */
	void	(*replay)(struct qwen_resident *r, struct qwen_memory *m,
		    size_t from, size_t n);

	/*
	 * Remote devices alone.  Blocks of a slot: put and get copy that of a layer,
	 * clear zeroes positions from .. to - 1 of all layers.
	 */
	int	(*slot_new)(struct qwen_resident *r, void **own);
	void	(*slot_free)(struct qwen_resident *r, void *own);
	void	(*slot_put)(struct qwen_resident *r, void *own, size_t layer,
		    const void *block);
	void	(*slot_get)(struct qwen_resident *r, const void *own,
		    size_t layer, void *block);
	void	(*slot_clear)(struct qwen_resident *r, void *own, size_t from,
		    size_t to);
	/*
	 * Recurrent states, with the journal's rows if m has one: put
	 * and get copy them from and to the memory of the host.
	 */
	int	(*state_new)(struct qwen_resident *r,
		    const struct qwen_memory *m, void **own);
	void	(*state_free)(struct qwen_resident *r, void *own);
	void	(*state_put)(struct qwen_resident *r, const struct qwen_memory *m);
	void	(*state_get)(struct qwen_resident *r, struct qwen_memory *m);
};

/* The CPU, the device of lib/engine/plain, NVIDIA's cards, other ranks of MPI. */
extern const struct qwen_device qwen_cpu_device, qwen_plain_device,
    qwen_cuda_device, qwen_mpi_device;

#endif
