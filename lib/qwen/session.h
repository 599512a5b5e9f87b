/* SPDX-License-Identifier: ISC */
/*
 * qwen/session.h - sessions: the tokens read so far, and reading more.
 *
 * A program with one text at a time needs only the first half of this header.
 * Checkpoints serve to go back in a text, caches to hold many texts;
 * qwen/work.h uses both by itself.
 */
#ifndef QWEN_QWEN_SESSION_H
#define QWEN_QWEN_SESSION_H

#include "qwen/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One session, or timeline: the tokens evaluated so far with their KV cache and
 * recurrent state.  The model must outlive it.
 */
struct qwen_session;

/* Creates an empty session with its own cache, which grows as needed. */
int qwen_session_new(struct qwen_session **out, struct qwen_model *m,
    struct qwen_err *err);
void qwen_session_free(struct qwen_session *s);

/*
 * The session's model and its tokens; the tokens live until the next call that
 * changes the session.
 */
struct qwen_model *qwen_session_model(const struct qwen_session *s);
size_t qwen_session_n_tokens(const struct qwen_session *s);
const int32_t *qwen_session_tokens(const struct qwen_session *s);

/*
 * Returns the *n spans of the session, ascending; the last one may reach beyond
 * its end.  They live as long as the tokens.
 */
const struct qwen_span *qwen_session_spans(const struct qwen_session *s,
    size_t *n);

/*
 * Returns the n_vocab logits after the last token, or NULL if they were not
 * computed (empty session, or QWEN_LOGITS_NONE).  They live until the next call
 * that changes the session.
 */
const float *qwen_session_logits(const struct qwen_session *s);

enum qwen_logits { QWEN_LOGITS_LAST, QWEN_LOGITS_ALL, QWEN_LOGITS_NONE };

/*
 * Where to keep checkpoints while reading tokens.  A position is the number of
 * tokens before it.
 */
struct qwen_checkpoints {
	uint64_t	 every;	/* at multiples of this; 0: none */
	const uint64_t	*at;	/* and at these, ascending; they are named */
	size_t		 n_at;
};

struct qwen_eval {
	enum qwen_logits logits;
	size_t	batch;		/* tokens per pass; 0: a default.  Never changes
				   a result. */
	/*
	 * Called in order for each row of logits (pos is that of its token;
	 * n_vocab numbers).  If it returns nonzero, qwen_session_eval stops and
	 * fails with *err as set by the callback.  May be NULL.
	 */
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);
	/* Called now and then with the number of tokens done; may be NULL. */
	void	(*progress)(void *arg, size_t done, size_t total);
	void	*arg;
	/*
	 * Checkpoints to keep on the way, with logits unless logits is
	 * QWEN_LOGITS_NONE; may be NULL.  Changes no result.
	 */
	const struct qwen_checkpoints *keep;
	/*
	 * Pass hidden states after the output norm (qwen_model_n_embd numbers)
	 * to row instead of logits, as embeddings need.  The output head does
	 * not run, and the session has no logits.
	 */
	int	 hidden;
	/*
	 * Drafts of the tokens after the last one: see below.  Drafts change no
	 * result and cause no error: drafts that are invalid, too many, or
	 * without logits to verify them (QWEN_LOGITS_NONE, hidden) are not
	 * computed.
	 */
	const int32_t	*guess;
	size_t		 n_guess;	/* at most QWEN_GUESS_MAX are used */
	/*
	 * Called between two layers of a pass over several tokens. done is the
	 * number of tokens before the pass, plus the share of the pass's tokens
	 * that corresponds to its finished layers.  May be NULL.
	 */
	void	(*within)(void *arg, size_t done, size_t total);
	/*
	 * The spans that the tokens are part of, ascending; start is the
	 * position in the session.  Their tokens have the ids of qwen_span_id.
	 * A span may be read in several calls, each of which gets it, with its
	 * rows if it reads some of them.
	 */
	const struct qwen_span_rows *spans;
	size_t		 n_spans;
};

/*
 * Appends n tokens to the session; how may be NULL (logits of the last token).
 * QWEN_ERANGE for an id outside the vocabulary or more than n_ctx tokens,
 * QWEN_EMISMATCH for spans that are not those of the tokens; then nothing has
 * changed.  QWEN_ENUMERIC for a hidden state or logit that is NaN
 * or infinite; the message names the layer.  After QWEN_ENUMERIC, or when a
 * callback stopped it, the session must only be freed.
 */
int qwen_session_eval_sized(size_t size, struct qwen_session *s,
    const int32_t *tokens, size_t n, const struct qwen_eval *how,
    struct qwen_err *err);
#define qwen_session_eval(...) \
	qwen_session_eval_sized(sizeof(struct qwen_eval), __VA_ARGS__)

/*
 * Speculative decoding: drafts are tokens that may follow; they are computed in
 * the same pass.  They stay invisible (not in the tokens, logits, saved states
 * or forks) until they are verified: if the next tokens given to
 * qwen_session_eval or qwen_eval_parts equal the drafts, the session advances
 * over them without a pass.  Drafts passed to a call that needs no pass are
 * ignored.  The first token that differs drops the remaining drafts.  All
 * results are bit for bit those of a session without drafts.
 */
enum { QWEN_GUESS_MAX = 16 };

/* The drafts that are computed and not verified yet, in order. */
size_t qwen_session_n_guessed(const struct qwen_session *s);
const int32_t *qwen_session_guessed(const struct qwen_session *s);

/*
 * Drafts up to n tokens (at most QWEN_GUESS_MAX) after the token next, which
 * the session has not read, with the model's MTP block: each is the most likely
 * one after the draft before it. id and prob have room for n; prob[i] is the
 * block's probability of id[i] among the ids that it considers (the first ids
 * of the vocabulary, which are the frequent ones, and the last ones).  *n_out
 * is the number of drafts: 0 without an MTP block, for an empty session, or
 * with no room left.  The drafts depend only on the model, the tokens, and
 * where the session was restored or cut.  No other result changes.
 */
int qwen_session_draft(struct qwen_session *s, int32_t next, size_t n,
    int32_t *id, float *prob, size_t *n_out, struct qwen_err *err);

/*
 * Checkpoints.  A KV cache can be cut at any position, a recurrent state
 * cannot.  So the session keeps copies of the recurrent state (f32, lossless)
 * at some positions; a cut goes back to one of them and the caller reads the
 * tokens after it again.  Models without recurrent state keep only logits.  The
 * session drops checkpoints as they age, so that their number grows with the
 * logarithm of the length; it never drops named ones.
 */
struct qwen_checkpoint {
	uint64_t	 at;		/* number of tokens before it */
	int		 named;		/* requested; never dropped */
	int		 logits;	/* it has logits */
	uint64_t	 bytes;		/* of its state and logits */
};

/*
 * The checkpoints before the end, ascending; all zero if there is no i-th one.
 */
size_t qwen_session_n_checkpoints(const struct qwen_session *s);
void qwen_session_checkpoint(const struct qwen_session *s, size_t i,
    struct qwen_checkpoint *out);

/*
 * Keeps a checkpoint at the current end.  It costs nothing until tokens are
 * appended.  qwen_session_eval does this by itself where a session was restored
 * or rewound, since the end of a turn is where the next edit cuts.
 */
int qwen_session_keep(struct qwen_session *s, int named, struct qwen_err *err);

/*
 * Removes the checkpoint at the current end unless it is named: for a caller
 * that continues the same text, as when it resumes a run.
 */
void qwen_session_unkeep(struct qwen_session *s);

/*
 * Returns the distance at which a checkpoint takes about as much memory as the
 * KV cache between two of them: a power of two, at least 1024; 0 if the model
 * has no recurrent state.
 */
uint64_t qwen_model_checkpoint_every(const struct qwen_model *m);

/*
 * Cuts the session to the last position <= n that it can continue from: its
 * end, a checkpoint or 0; for models without recurrent state, n itself.  Sets
 * *at to this position.  The caller then evaluates tokens *at .. n - 1 of the
 * old or a new text.  want_logits: if position n has no logits, cut before it,
 * so that evaluating the tokens computes them.  QWEN_EFULL (a shared block must
 * be copied) changes nothing; after any other error the session must only be
 * freed.
 */
int qwen_session_rewind(struct qwen_session *s, size_t n, int want_logits,
    size_t *at, struct qwen_err *err);

/*
 * Memory that sessions share: the KV cache in blocks of 16 positions, the
 * recurrent states, and the scratch memory of a forward pass; so only one pass
 * at a time runs on the sessions of a cache.  Several sessions can share a
 * block; it is copied when one of them writes to it.  qwen_session_new creates
 * a cache for one session, without a limit.
 */
struct qwen_cache;

struct qwen_cache_usage {
	uint64_t	 limit;		/* of used; 0: no limit */
	uint64_t	 used;		/* bytes of blocks and states */
	uint64_t	 block_bytes;	/* 16 positions, all layers */
	uint64_t	 state_bytes;	/* recurrent state of one session */
	uint64_t	 n_blocks;	/* in use; a shared block counts once */
	uint64_t	 n_states;
};

/*
 * Creates a cache of at most limit bytes (0: no limit), allocated as needed;
 * checkpoints do not count.  The model must outlive it.  If it is freed before
 * its sessions, its memory lives until the last of them is freed.
 */
int qwen_cache_new(struct qwen_cache **out, struct qwen_model *m,
    uint64_t limit, struct qwen_err *err);
void qwen_cache_free(struct qwen_cache *c);

void qwen_cache_usage(const struct qwen_cache *c,
    struct qwen_cache_usage *out);

/*
 * For measurements: allocates n blocks and hands out free blocks in a shuffled
 * order, always the same.  Without this, blocks of a session are mostly
 * contiguous.
 */
int qwen_cache_scatter(struct qwen_cache *c, size_t n, struct qwen_err *err);

/* Returns the smallest limit with which one session of n tokens works. */
uint64_t qwen_cache_need(const struct qwen_model *m, uint64_t n_tokens);

/* Creates an empty session; QWEN_EFULL if there is no room for its state. */
int qwen_session_new_in(struct qwen_session **out, struct qwen_cache *c,
    struct qwen_err *err);

/*
 * Creates a second session with the same tokens in the same cache: shares
 * blocks, copies recurrent state and logits, has no checkpoints.  QWEN_EFULL as
 * above.
 */
int qwen_session_fork(struct qwen_session **out, const struct qwen_session *s,
    struct qwen_err *err);

/* The same in another cache of the same model: copies the blocks too. */
int qwen_session_fork_in(struct qwen_session **out, struct qwen_cache *c,
    const struct qwen_session *s, struct qwen_err *err);

/* What to evaluate in one session; an element for qwen_eval_parts. */
struct qwen_part {
	struct qwen_session	*s;
	const int32_t		*tokens;	/* to append */
	size_t			 n;		/* at least 1 */
	enum qwen_logits	 logits;
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);	/* this and the members below:
						   as in struct qwen_eval */
	void			*arg;
	int			 hidden;
	const int32_t		*guess;
	size_t			 n_guess;
	/*
	 * results: if failed, err says why and the session must only be freed
	 */
	int			 failed;
	struct qwen_err		 err;
	/* as in struct qwen_eval */
	const struct qwen_span_rows *spans;
	size_t			 n_spans;
};

/*
 * qwen_session_eval for several different sessions of one cache, in one pass
 * over the weights (or as many as the tokens need).  The results of each
 * session are bit for bit those that it has alone.  A value that is NaN or
 * infinite, or a row callback that stops, fails only its own part.  Returns -1
 * if nothing was changed: QWEN_EFULL (free a session and try again),
 * QWEN_ENOMEM, QWEN_ERANGE, QWEN_EMISMATCH. size is that of one element.
 */
int qwen_eval_parts_sized(size_t size, struct qwen_part *part, size_t n_part,
    struct qwen_err *err);
#define qwen_eval_parts(...) \
	qwen_eval_parts_sized(sizeof(struct qwen_part), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
