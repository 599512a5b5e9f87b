/* SPDX-License-Identifier: ISC */
/*
 * engine.h - the protocol of engines, qwen-engine(5): requests and events, to
 * and from bytes, independent of their transport.
 */
#ifndef QWEN_WIRE_ENGINE_H
#define QWEN_WIRE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "qwen/stream.h"
#include "wire/item.h"

enum {
	QWEN_ENGINE_MAX = 16 << 20,	/* bytes of a request, without rows */
	QWEN_EVENT_MAX = 1 << 20,	/* of an event */
	QWEN_ENGINE_ID = 128,		/* of an id, without the NUL */
	QWEN_ENGINE_TOP = 64,		/* best tokens per token */
	QWEN_ENGINE_KEEP = 64,		/* positions to keep */
	QWEN_ENGINE_PRIORITY = 1000,	/* the highest */
};

/* ----------------------------------------------------------------- records */

/* Received bytes, and the records in them.  Initially zero. */
struct qwen_inbox {
	unsigned char	*buf;
	size_t		 start, end, cap;
	struct qwen_cbor_scan span;		/* of the record at start */
};

/*
 * Returns where to read the next bytes to, and their largest number *n; NULL if
 * out of memory. qwen_inbox_added adds the n bytes that were read.
 */
unsigned char *qwen_inbox_reserve(struct qwen_inbox *in, size_t *n);
void qwen_inbox_added(struct qwen_inbox *in, size_t n);

/*
 * Gets the next CBOR record, of at most limit bytes, valid until the next call.
 * Returns 1; 0 if it is incomplete; -1 if it is invalid or too long.
 */
int qwen_inbox_next(struct qwen_inbox *in, size_t limit,
    const unsigned char **p, size_t *n, struct qwen_err *err);

/* The same for a line, without its line feed. */
int qwen_inbox_line(struct qwen_inbox *in, size_t limit,
    const unsigned char **p, size_t *n, struct qwen_err *err);
void qwen_inbox_fini(struct qwen_inbox *in);

/* ----------------------------------------------------------------- headers */

/* The header that each side sends first. */
struct qwen_hello {
	int		 has_vocab, has_model;	/* optional in requests */
	uint32_t	 n_vocab;
	struct qwen_fp	 vocab, model;
	/* only in events */
	uint32_t	 numerics;
	enum qwen_kv	 k, v;
	struct qwen_rope rope;
	uint64_t	 n_ctx, n_embd, n_sequences;
	int		 tells_progress;	/* can report progress if
						   requested */
	size_t		 n_eog;
	int32_t		 eog[QWEN_EOG_MAX];
};

/* ---------------------------------------------------------------- requests */

enum qwen_engine_request_kind {
	QWEN_ENGINE_HELLO = 1,
	QWEN_ENGINE_GENERATE,
	QWEN_ENGINE_SCORE,
	QWEN_ENGINE_HIDDEN,
	QWEN_ENGINE_CANCEL,	/* cancel the request of this id */
	QWEN_ENGINE_CACHED,	/* how many tokens are cached? */
	QWEN_ENGINE_STATS,
};

/* Arrays are owned, and NULL if the key is absent. */
struct qwen_engine_request {
	enum qwen_engine_request_kind kind;
	char		 id[QWEN_ENGINE_ID +
	    1];	/* "" for QWEN_ENGINE_HELLO */
	struct qwen_hello hello;
	int32_t		*tokens;	/* ids are below n_vocab; those of spans
					   are below 0 */
	size_t		 n;
	uint64_t	 max;		/* GENERATE: at least 1 */
	uint64_t	 from;		/* SCORE, HIDDEN: 0 .. n - 1 */
	int		 logprobs;	/* report log-probabilities, and the
					   n_top best tokens */
	size_t		 n_top;
	char		*sampling;	/* options, as qwen_sampler_describe
					   writes them */
	char		*grammar;	/* n_grammar bytes of GBNF */
	size_t		 n_grammar;
	int32_t		*ending;	/* NULL: those of the model */
	size_t		 n_ending;
	int32_t		*logits;	/* HIDDEN: the logits of these ids
					   instead of states; empty: of the
					   classes */
	size_t		 n_logits;
	int32_t		*mask;
	size_t		 n_mask;
	int32_t		*bias_ids;
	float		*bias;		/* finite */
	size_t		 n_bias;
	size_t		 keep[QWEN_ENGINE_KEEP];	/* ascending, 1 .. n */
	size_t		 n_keep;
	int		 priority;
	uint64_t	 deadline_ms;	/* ms after its arrival; 0: none */
	int		 progress;	/* report the progress of reading */
	struct qwen_span_rows *spans;	/* that the tokens are part of; after
					   decoding, their rows are NULL */
	size_t		 n_spans;
	float		*rows;		/* n_rows numbers: the rows of all
					   spans, finite; to encode, or NULL:
					   the spans have their rows */
	size_t		 n_rows;
};

/*
 * Decodes the request in a complete record; checks ids against n_vocab.
 * Returns -1 if it is not a request; then only id is set, if it could be read,
 * else "". qwen_engine_request_fini frees what the request owns, also after -1.
 */
int qwen_engine_request_decode(struct qwen_engine_request *m,
    const unsigned char *p, size_t n,
    uint32_t n_vocab, struct qwen_err *err);
void qwen_engine_request_encode(const struct qwen_engine_request *m,
    struct qwen_text *t,
    int json);
void qwen_engine_request_fini(struct qwen_engine_request *m);

/*
 * Sets *out to the type that a key of a request must have.  Returns 1, or 0 for
 * an unknown key.
 */
int qwen_engine_request_shape(const char *key, size_t n, enum qwen_shape *out);

/* ------------------------------------------------------------------ events */

enum qwen_event_kind {
	QWEN_EVENT_HELLO = 1,
	QWEN_EVENT_STARTED,	/* n_prompt, n_cached */
	QWEN_EVENT_TOKEN,	/* token; logprob, top */
	QWEN_EVENT_SCORE,	/* at, logprob, rank; top */
	QWEN_EVENT_HIDDEN,	/* at, row: a state, or logits */
	QWEN_EVENT_END,		/* why, n_prompt, n_cached, n_tokens; error,
				   message */
	QWEN_EVENT_CACHED,	/* n_prompt, n_cached (in memory), n_stored */
	QWEN_EVENT_STATS,
	QWEN_EVENT_PROGRESS,	/* n_prompt, n_read */
	QWEN_EVENT_ERROR,	/* belongs to no request: error, message */
};

/* Statistics of an engine, in the order of qwen-engine(5). */
enum qwen_event_stat {
	QWEN_STAT_RUNNING, QWEN_STAT_WAITING, QWEN_STAT_CLIENTS,
	QWEN_STAT_REQUESTS, QWEN_STAT_CANCELLED, QWEN_STAT_READ,
	QWEN_STAT_SHARED, QWEN_STAT_STORED, QWEN_STAT_CHOSEN,
	QWEN_STAT_SCORED, QWEN_STAT_PASSES, QWEN_STAT_PREEMPTED,
	QWEN_STAT_KEPT, QWEN_STAT_BYTES, QWEN_STAT_LIMIT, QWEN_STAT_DROPPED,
	QWEN_N_STATS
};

struct qwen_event {
	enum qwen_event_kind kind;
	char		 id[QWEN_ENGINE_ID + 1];
	struct qwen_hello hello;
	uint64_t	 n_prompt, n_cached, n_stored, n_tokens, n_read;
	int32_t		 token;
	int		 has_logprob;
	double		 logprob;	/* finite */
	uint64_t	 at, rank;
	size_t		 n_top;
	int32_t		 top_ids[QWEN_ENGINE_TOP];
	double		 top_logprobs[QWEN_ENGINE_TOP];
	float		*row;		/* owned after decoding */
	size_t		 n_row;
	char		 why[32], error[32];
	char		 message[240];
	uint64_t	 stat[QWEN_N_STATS];
};

/* The same as for requests, except that the decoder ignores unknown keys. */
int qwen_event_decode(struct qwen_event *e, const unsigned char *p, size_t n,
    struct qwen_err *err);
void qwen_event_encode(const struct qwen_event *e, struct qwen_text *t,
    int json);
void qwen_event_fini(struct qwen_event *e);

#endif
