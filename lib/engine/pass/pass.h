/* SPDX-License-Identifier: ISC */
/*
 * pass.h - one pass: tokens of several sessions through all layers, on the devices
 * where these are at home.
 */
#ifndef QWEN_PASS_PASS_H
#define QWEN_PASS_PASS_H

#include "engine/timeline/timeline.h"
#include "engine/watch/watch.h"

/* Maximum rows of logits computed together if no session has memory for them. */
#define QWEN_HEAD_ROWS 64

/* The progress of a part of qwen_eval_parts. */
struct qwen_progress {
	size_t	 done;
	size_t	 known;		/* tokens of done that were drafted and verified
				   before */
	size_t	 n_guess;	/* drafts of this part for which there is
				   room */
	size_t	 at;		/* its place in the current pass */
	int	 in;
};

/* What a pass reads of one session; struct qwen_share has its rows. */
struct qwen_pass_part {
	struct qwen_session	*s;
	const int32_t		*tokens;	/* tokens to append */
	size_t			 n_tokens;
	const struct qwen_span_rows *spans;	/* that they are part of */
	size_t			 n_spans;
	const int32_t		*guess;		/* draft tokens after them */
	size_t			 n_guess;
	/* which logits to compute (the last row, or all), or hidden states */
	enum qwen_logits	 logits;
	int			 hidden;
	int			 stop;		/* the last row is needed */
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);	/* receives the rows; may be
						   NULL */
	void			*arg;
	size_t			 told;		/* rows before this position
						   were given to row */
	int			 failed;	/* err is set */
	struct qwen_err		 err;
	/*
	 * The MTP block: whether its rows are made whole, or for keys and values
	 * alone; how many of them this pass makes.
	 */
	int			 whole;
	size_t			 n_mtp;
};

/*
 * Makes room for passes of n rows of n_share sessions of at most end tokens.
 * all: some part asks for the logits of all its tokens.
 */
int qwen_pass_fit(struct qwen_cache *c, size_t n, size_t n_share, size_t end,
    int all, struct qwen_err *err);

/* Adds the parts of half a layer, or of the head, to a plan (plan.c). */
void qwen_plan_half(struct qwen_plan *p, const struct qwen_model *m,
    size_t half);

/* Returns the bytes of such memory; UINT64_MAX on overflow. */
uint64_t qwen_pass_bytes(const struct qwen_model *m, size_t n, size_t n_share,
    size_t end);

/*
 * Runs one pass over all tokens of the parts; there must be room for them.  A part
 * that does not fail advances the end of its session.  layer is called after each
 * layer; or NULL.
 */
void qwen_pass_run(struct qwen_cache *c, struct qwen_pass_part *part,
    size_t n_part, void (*layer)(void *arg, size_t i), void *arg);

/*
 * The same, but a device may fail: returns 1, and no session has advanced.
 */
int qwen_pass_try(struct qwen_cache *c, struct qwen_pass_part *part,
    size_t n_part, void (*layer)(void *arg, size_t i), void *arg);

/*
 * Leaves the layers of devices that have failed to the CPU, and computes again
 * what these had of sessions (recover.c).  A session of which this was not
 * possible is marked: qwen_session_check().
 */
void qwen_recover(struct qwen_model *m);

/* Brings what a session has to its devices, as qwen_memory_send(). */
int qwen_pass_send(struct qwen_session *s, struct qwen_err *err);

/*
 * A pass in pieces (pieces.c), if the last layers are at home on other ranks.
 * qwen_pieces_run takes the rows of a pass from their embeddings through all
 * layers to the cache's pass.x; it returns 1, or 0 if it has done nothing since
 * the pass stays whole.  qwen_pieces_rows returns how many rows a piece has at most
 * in passes of up to n rows; qwen_pieces_fit makes room for such passes.
 */
int qwen_pieces_run(struct qwen_cache *c, struct qwen_pass *p);
size_t qwen_pieces_rows(const struct qwen_cache *c, size_t n);
int qwen_pieces_fit(struct qwen_cache *c, size_t n, size_t n_share);

/* Takes the rows from their embeddings through halves 0 to end - 1, to x. */
void qwen_pass_start(struct qwen_cache *c, struct qwen_pass *p, float *x,
    size_t end);

/*
 * Takes the rows of a pass from x, [n][n_embd], through n halves of layers from
 * `first' on, where these are at home, and back to x.  There is room for them, and
 * what their sessions have is where it belongs.
 */
void qwen_pass_some(struct qwen_cache *c, struct qwen_pass *p, float *x,
    size_t first, size_t n);

/*
 * Returns the tokens per pass for n tokens, if the caller requested `asked' (0:
 * the default).  A pass ends at each checkpoint of keep (may be NULL).
 */
size_t qwen_batch_size(const struct qwen_model *m, size_t asked, size_t n,
    const struct qwen_checkpoints *keep);

/*
 * Returns the row of numbers of a part's spans at a position of its session;
 * NULL: no span has one.
 */
const float *qwen_pass_span_row(const struct qwen_pass_part *p, size_t pos);

/*
 * The MTP block in a trunk's pass (mtp.c): before it, and at its end, when the
 * hidden states of all its rows are in the cache's pass.x.
 */
void qwen_mtp_begin(struct qwen_pass_part *part, size_t n_part);
void qwen_mtp_fill(const struct qwen_pass *p, struct qwen_pass_part *part);

#endif
