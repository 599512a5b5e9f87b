/* SPDX-License-Identifier: ISC */
/*
 * qwen/session.h - timelines: what was read, and reading more.
 *
 * A program with one text at a time needs the first half of this header.
 * Checkpoints are for going back in a text, caches for many texts at a time;
 * qwen/work.h runs these by itself.
 */
#ifndef QWEN_QWEN_SESSION_H
#define QWEN_QWEN_SESSION_H

#include "qwen/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One timeline: the tokens evaluated so far with their KV cache and recurrent
 * state.  The model must outlive it.
 */
struct qwen_session;

/* An empty timeline, with memory of its own that grows with it. */
int qwen_session_new(struct qwen_session **out, struct qwen_model *m,
    struct qwen_err *err);
void qwen_session_free(struct qwen_session *s);

/* Its model, and the tokens; these live until the next call that changes it. */
struct qwen_model *qwen_session_model(const struct qwen_session *s);
size_t qwen_session_n_tokens(const struct qwen_session *s);
const int32_t *qwen_session_tokens(const struct qwen_session *s);

/*
 * The logits that follow the last token, n_vocab of them, or NULL when they
 * were not computed (nothing evaluated, or QWEN_LOGITS_NONE).  Valid until the
 * next call that changes the session.
 */
const float *qwen_session_logits(const struct qwen_session *s);

enum qwen_logits { QWEN_LOGITS_LAST, QWEN_LOGITS_ALL, QWEN_LOGITS_NONE };

/*
 * Where checkpoints are kept while tokens are read.  A position is the number
 * of tokens before it.
 */
struct qwen_checkpoints {
	uint64_t	 every;	/* at multiples of this; 0: at none */
	const uint64_t	*at;	/* and at these, ascending; named ones */
	size_t		 n_at;
};

struct qwen_eval {
	enum qwen_logits logits;
	size_t	batch;		/* tokens computed together; 0: a default.
				   Never changes a result. */
	/*
	 * Called in order for each row of logits (position of its token,
	 * n_vocab numbers); non-zero stops the evaluation: qwen_session_eval
	 * fails with *err as the callback left it.  May be NULL.
	 */
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);
	/* Called now and then with the tokens done in this call; may be NULL. */
	void	(*progress)(void *arg, size_t done, size_t total);
	void	*arg;
	/*
	 * Checkpoints to keep on the way, with their logits unless logits is
	 * QWEN_LOGITS_NONE; may be NULL.  Changes no result.
	 */
	const struct qwen_checkpoints *keep;
	/*
	 * Rows are not logits but the hidden states after the output norm,
	 * qwen_model_n_embd numbers: what embeddings are made of.  The head is
	 * not run, and the session has no logits.
	 */
	int	 hidden;
	/*
	 * What may follow the last token: see below.  They change no result,
	 * and nothing fails by them: of what is wrong, too much, or without
	 * logits to choose by (QWEN_LOGITS_NONE, hidden), none are computed.
	 */
	const int32_t	*guess;
	size_t		 n_guess;	/* QWEN_GUESS_MAX count */
	/*
	 * Called between two layers of a pass over several tokens.  done is the
	 * number of tokens before the pass, plus the share of the pass's own
	 * tokens that corresponds to its finished layers.  May be NULL.
	 */
	void	(*within)(void *arg, size_t done, size_t total);
};

/*
 * Append n tokens to the timeline; how may be NULL (logits of the last one).
 * Ids outside the vocabulary and more tokens than n_ctx fail with QWEN_ERANGE
 * before anything changes.  A hidden state or logit that is not finite fails
 * with QWEN_ENUMERIC and names the layer; after that, or when a callback stops
 * it, the session is of no use.
 */
int qwen_session_eval_sized(size_t size, struct qwen_session *s,
    const int32_t *tokens, size_t n, const struct qwen_eval *how,
    struct qwen_err *err);
#define qwen_session_eval(...) \
	qwen_session_eval_sized(sizeof(struct qwen_eval), __VA_ARGS__)

/*
 * Guesses: tokens that may follow, computed in the same pass over the weights.
 * Nothing is seen of them (tokens, logits, states that are saved, forks) until
 * they are read: where the tokens of qwen_session_eval or qwen_eval_parts are
 * the ones that were guessed, the end moves on over them without a pass, and
 * guesses that come with a call that needs none are left out.  The first token
 * that is another one drops what is left.  All results are those of a session
 * without guesses, bit for bit.
 */
enum { QWEN_GUESS_MAX = 16 };

/* Those that are computed and not read yet, in order. */
size_t qwen_session_n_guessed(const struct qwen_session *s);
const int32_t *qwen_session_guessed(const struct qwen_session *s);

/*
 * What may follow the token next, which the session has not read: a chain of up
 * to n drafts (QWEN_GUESS_MAX at most) by the block of the model that predicts,
 * each the best by the one before it.  id and prob have room for n; prob[i] is
 * the probability that the block gives id[i], among the ids that it looks at (the
 * first ones of the vocabulary, which are the frequent ones, and the last
 * ones).  *n_out of them are there: 0 without such a block, for an empty
 * session, and where there is no room.  Depends on the model and the tokens
 * alone, and on where the session was restored or cut; changes no result of
 * others.
 */
int qwen_session_draft(struct qwen_session *s, int32_t next, size_t n,
    int32_t *id, float *prob, size_t *n_out, struct qwen_err *err);

/*
 * Checkpoints.  A KV cache can be cut at any position, a recurrent state
 * cannot: so the session keeps copies of it (f32, lossless) at some positions,
 * from which a cut replays the tokens between.  Models without recurrent state
 * keep the logits alone.  They are dropped as they age, so that their number
 * grows with the logarithm of the length; named ones stay.
 */
struct qwen_checkpoint {
	uint64_t	 at;		/* tokens before it */
	int		 named;		/* asked for: never thinned */
	int		 logits;	/* those that follow it are there */
	uint64_t	 bytes;		/* of state and logits */
};

/* Those before the end, ascending; all zero if there is no such one. */
size_t qwen_session_n_checkpoints(const struct qwen_session *s);
void qwen_session_checkpoint(const struct qwen_session *s, size_t i,
    struct qwen_checkpoint *out);

/*
 * Keep one at the present end, of which it costs nothing before tokens are
 * appended.  qwen_session_eval does so itself where a session was restored
 * or rewound, since the end of a turn is where the next edit cuts.
 */
int qwen_session_keep(struct qwen_session *s, int named, struct qwen_err *err);

/*
 * Keep none there after all, unless it is named: what follows belongs to what
 * was before, as when a run is gone on with.
 */
void qwen_session_unkeep(struct qwen_session *s);

/*
 * The distance at which checkpoints take about as much room as the KV cache
 * between them, a power of two, 1024 at least; 0 if the model has no recurrent
 * state.
 */
uint64_t qwen_model_checkpoint_every(const struct qwen_model *m);

/*
 * Cut the timeline to the last position <= n from which it can go on: the end,
 * a checkpoint or 0, and for models without recurrent state n itself.  *at is
 * that position; what came after it is gone, and the caller evaluates tokens
 * *at .. n - 1 (of the old timeline or a new one).  want_logits: of n itself
 * logits must be there, else the cut is before it, so that going on gives them.
 * QWEN_EFULL (a block that is shared has to be copied) changes nothing; after
 * another error the session is of no use.
 */
int qwen_session_rewind(struct qwen_session *s, size_t n, int want_logits,
    size_t *at, struct qwen_err *err);

/*
 * From here on the last n tokens can be taken back, QWEN_TRACK_MAX at most:
 * qwen_session_rewind goes there as if each of them had a checkpoint without
 * logits, and nothing is evaluated.  It takes memory for a second recurrent
 * state and what 32 tokens more than n have put into it.  Forks and saved
 * states are without.  0 ends it; nothing is needed, nor done, for models
 * without recurrent state.  QWEN_ERANGE, QWEN_ENOMEM: nothing has changed.
 */
enum { QWEN_TRACK_MAX = 64 };

int qwen_session_track(struct qwen_session *s, size_t n, struct qwen_err *err);

/*
 * Memory that timelines share: the KV cache in blocks of 16 positions, the
 * recurrent states, and what a forward pass computes with, so that one pass at
 * a time goes over the sessions of a cache.  A block can belong to several
 * sessions, and is copied when one of them writes to it.  qwen_session_new
 * makes a cache for one session, without a limit.
 */
struct qwen_cache;

struct qwen_cache_usage {
	uint64_t	 limit;		/* of used; 0: none */
	uint64_t	 used;		/* bytes of blocks and states */
	uint64_t	 block_bytes;	/* 16 positions, all layers */
	uint64_t	 state_bytes;	/* recurrent state of one timeline */
	uint64_t	 n_blocks;	/* in use; a shared one counts once */
	uint64_t	 n_states;
};

/*
 * A cache of at most limit bytes (0: no limit), which are taken as they are
 * needed; checkpoints do not count.  The model must outlive it.  It can be
 * freed before its sessions: then it goes with the last of them.
 */
int qwen_cache_new(struct qwen_cache **out, struct qwen_model *m,
    uint64_t limit, struct qwen_err *err);
void qwen_cache_free(struct qwen_cache *c);

void qwen_cache_usage(const struct qwen_cache *c,
    struct qwen_cache_usage *out);

/*
 * For measurements: make n blocks, and hand out what is free in an order that
 * is mixed up, always in the same way.  Blocks of a timeline otherwise mostly
 * follow one another.
 */
int qwen_cache_scatter(struct qwen_cache *c, size_t n, struct qwen_err *err);

/* The least limit with which one timeline of n tokens works. */
uint64_t qwen_cache_need(const struct qwen_model *m, uint64_t n_tokens);

/* An empty timeline; QWEN_EFULL if there is no room for its state. */
int qwen_session_new_in(struct qwen_session **out, struct qwen_cache *c,
    struct qwen_err *err);

/*
 * A second timeline with the same past, in the cache of the first: blocks are
 * shared, recurrent state and logits copied, checkpoints left.  QWEN_EFULL as
 * above.
 */
int qwen_session_fork(struct qwen_session **out, const struct qwen_session *s,
    struct qwen_err *err);

/* The same in another cache of the same model: blocks are copied too. */
int qwen_session_fork_in(struct qwen_session **out, struct qwen_cache *c,
    const struct qwen_session *s, struct qwen_err *err);

/* What one timeline wants of qwen_eval_parts. */
struct qwen_part {
	struct qwen_session	*s;
	const int32_t		*tokens;	/* to append */
	size_t			 n;		/* at least 1 */
	enum qwen_logits	 logits;
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);	/* as in struct qwen_eval, */
	void			*arg;
	int			 hidden;	/* and these too */
	const int32_t		*guess;
	size_t			 n_guess;
	/* set by the call: not done, err says why; the session is of no use */
	int			 failed;
	struct qwen_err		 err;
};

/*
 * qwen_session_eval for several sessions of one cache, each of them once, in
 * one pass over the weights (or as many as their tokens need).  The results of
 * each are those it has alone, bit for bit.  A number that is not finite, or a
 * row function that stops, fails the part it belongs to and no other.  Returns
 * -1 where nothing has changed: QWEN_EFULL (give up a session, and try again),
 * QWEN_ENOMEM, QWEN_ERANGE, QWEN_EMISMATCH.  The size is that of an element.
 */
int qwen_eval_parts_sized(size_t size, struct qwen_part *part, size_t n_part,
    struct qwen_err *err);
#define qwen_eval_parts(...) \
	qwen_eval_parts_sized(sizeof(struct qwen_part), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
