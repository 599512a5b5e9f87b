/* SPDX-License-Identifier: ISC */
/*
 * qwen/stream.h - streams of tokens, logits, state and traces.
 *
 * For programs that stand in a pipe with the tools: a reader gives records, a
 * writer takes them.
 */
#ifndef QWEN_QWEN_STREAM_H
#define QWEN_QWEN_STREAM_H

#include "qwen/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What flows between the tools: a CBOR sequence (RFC 8742) of records, typed
 * arrays as in RFC 8746.  The format is in qwen-stream(5).  A stream begins
 * with a header, which says what the records after it are and whose; headers
 * may recur, so streams can be concatenated.
 */

#define QWEN_STREAM_VERSION 1

enum {
	QWEN_EOG_MAX = 16,		/* end-of-generation ids in a header */
	QWEN_STATE_MAX = 1 << 20,	/* bytes of one record of state, in all */
	QWEN_MARK_MAX = 255,		/* bytes of the name of a mark */
	QWEN_TRACE_NAME = 64,		/* of a stage, NUL included */
};

/* Kinds of streams; bits, so that a reader can name those it takes. */
enum qwen_stream_kind {
	QWEN_STREAM_TOKENS = 1,
	QWEN_STREAM_LOGITS = 2,
	QWEN_STREAM_STATE = 4,
	QWEN_STREAM_TRACE = 8,
};

/*
 * Both sides fill it, and no size goes with it: records, readers and states
 * hold it or point to it.  It changes only with the libraries' names.
 */
struct qwen_header {
	enum qwen_stream_kind kind;
	uint32_t	 n_vocab;	/* ids are below it */
	struct qwen_fp	 vocab;		/* vocabulary */
	struct qwen_fp	 model;		/* all but TOKENS, */
	struct qwen_fp	 base;		/* likewise: of the model without its
					   adapters; zero: it has none */
	uint32_t	 numerics;	/* likewise */
	enum qwen_kv	 k, v;		/* likewise: how the cache has them */
	struct qwen_rope rope;		/* likewise, where not as in the file */
	size_t		 n_eog;		/* LOGITS: end-of-generation ids */
	int32_t		 eog[QWEN_EOG_MAX];
};

/*
 * The header of a stream of this kind from or for the model or vocabulary; with
 * numerics as QWEN_NUMERICS says.
 */
int qwen_header_init(struct qwen_header *h, enum qwen_stream_kind kind,
    const struct qwen_gguf *g, struct qwen_err *err);

/*
 * The model of the header with these adapters, of which all bytes are read;
 * those of scale 0 do not count.
 */
int qwen_header_adapt(struct qwen_header *h, const struct qwen_adapter *a,
    size_t n, struct qwen_err *err);

/* The same of a model as it computes: with its adapters, version, keys. */
struct qwen_model;
int qwen_model_header(struct qwen_header *h, const struct qwen_model *m,
    enum qwen_stream_kind kind, struct qwen_err *err);

/*
 * -1 and both sides in *err if what has the header h cannot be used by self:
 * of tokens, the vocabulary is another; of logits and state, also the model,
 * its adapters, the version of the arithmetic, or the kind of keys and values.
 */
int qwen_header_match(const struct qwen_header *h,
    const struct qwen_header *self, struct qwen_err *err);

/* The 32 hexadecimal digits of a fingerprint, into out; returns out. */
char *qwen_fp_hex(const struct qwen_fp *fp, char out[33]);

/*
 * Hash over hyperparameters, tensor directory and the first 64 bytes of each
 * tensor: milliseconds on a 20 GiB file.
 */
int qwen_model_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);

enum qwen_record_kind {
	QWEN_REC_HEADER = 1,
	QWEN_REC_TOKENS,	/* ids, n */
	QWEN_REC_END,		/* end of a document */
	QWEN_REC_LOGITS,	/* pos, logits, n; of the n best only: ids too */
	QWEN_REC_READY,		/* path, n_tokens, fp; among tokens or logits */
	QWEN_REC_STATE,		/* raw, n_raw: see qwen-state(5) */
	QWEN_REC_MARK,		/* path: its name; among tokens, a place to
				   go back to */
	QWEN_REC_TRACE,		/* trace */
};

/* What a stage of the forward pass has made of a token: qwen/trace.h. */
struct qwen_trace_value {
	const char	*stage;
	uint64_t	 position;	/* of the token */
	int32_t		 token;		/* its id */
	size_t		 n;		/* numbers: one of these */
	const float	*row;		/* of any value */
	const int32_t	*choices;	/* not negative */
};

/*
 * One record.  What it points to lives until the next call on the reader.
 */
struct qwen_record {
	enum qwen_record_kind kind;
	const struct qwen_header *header;	/* the one in force; NULL: the
						   stream is plain decimal ids */
	size_t		 n;
	const int32_t	*ids;		/* each in [0, n_vocab) */
	const float	*logits;	/* finite; best first if ids */
	uint64_t	 pos;		/* of the last token that this row has
					   seen; it predicts that at pos + 1 */
	float		 logsumexp;	/* over the whole row if it was cut
					   (ids != NULL): p = exp(l - this) */
	const char	*path;		/* of the file that is ready; or the
					   name of a mark, never empty */
	uint64_t	 n_tokens;	/* in it */
	struct qwen_fp	 fp;		/* and its fingerprint */
	struct qwen_trace_value trace;
	const unsigned char *raw;	/* the record as it came, framing */
	size_t		 n_raw;		/* included; of text, NULL */
};

struct qwen_reader_opts {
	/*
	 * Which kinds of streams are welcome, 0 for any.  Another one is an
	 * error before any of its records is seen.
	 */
	unsigned	 kinds;
	/*
	 * What headers must agree with, or NULL: streams of tokens by the
	 * vocabulary; of others by the model and numerics too.
	 */
	const struct qwen_header *self;
	/* Plain ids: a newline ends a document (otherwise it is just space). */
	int		 lines;
	/* Bytes that were read from fd before, to see what it is; copied. */
	const void	*head;
	size_t		 n_head;
};

struct qwen_reader;

/* opts may be NULL; it is copied.  fd stays the caller's. */
int qwen_reader_open_sized(size_t size, struct qwen_reader **out, int fd,
    const struct qwen_reader_opts *opts, struct qwen_err *err);
#define qwen_reader_open(...) \
	qwen_reader_open_sized(sizeof(struct qwen_reader_opts), __VA_ARGS__)
void qwen_reader_close(struct qwen_reader *r);

/*
 * The next record: 1, or 0 at the end of the stream, or -1.  Waits no longer
 * than until one record is complete.  Plain ids come as QWEN_REC_TOKENS, with
 * no header before them.  Memory is used for bytes that came, never for
 * bytes that were announced; a record beyond the limits of its kind fails.
 */
int qwen_reader_next(struct qwen_reader *r, struct qwen_record *rec,
    struct qwen_err *err);

enum qwen_format {
	QWEN_FORMAT_CBOR,
	QWEN_FORMAT_TEXT,	/* tokens: one id a line; logits: a row a line */
	QWEN_FORMAT_JSON,	/* one object a record, one line each */
	QWEN_FORMAT_RAW,	/* logits only: little-endian f32, no framing */
};

struct qwen_writer_opts {
	enum qwen_format format;
	/* TEXT: one document a line, ended by qwen_write_end. */
	int		 lines;
	/*
	 * Do not flush at record ends: the caller calls qwen_writer_flush
	 * before it waits for anything.  For many small records at speed.
	 */
	int		 buffered;
};

struct qwen_writer;

/* opts may be NULL.  fd stays the caller's. */
int qwen_writer_open_sized(size_t size, struct qwen_writer **out, int fd,
    const struct qwen_writer_opts *opts, struct qwen_err *err);
#define qwen_writer_open(...) \
	qwen_writer_open_sized(sizeof(struct qwen_writer_opts), __VA_ARGS__)

/* Free without flushing, for the way out after an error. */
void qwen_writer_free(struct qwen_writer *w);

/* Flush, free; -1 if the flush failed (freed all the same). */
int qwen_writer_close(struct qwen_writer *w, struct qwen_err *err);
int qwen_writer_flush(struct qwen_writer *w, struct qwen_err *err);

/*
 * Each writes one record (long runs of tokens: several) and flushes it.  In
 * formats that have no place for a record (a header in TEXT, say) it
 * writes nothing and succeeds.  A reader that went away is QWEN_EPIPE.
 */
int qwen_write_header(struct qwen_writer *w, const struct qwen_header *h,
    struct qwen_err *err);
int qwen_write_tokens(struct qwen_writer *w, const int32_t *ids, size_t n,
    struct qwen_err *err);
int qwen_write_end(struct qwen_writer *w, struct qwen_err *err);

int qwen_write_mark(struct qwen_writer *w, const char *name,
    struct qwen_err *err);

/*
 * Whether the n bytes can be the name of a mark: 1 to QWEN_MARK_MAX bytes of
 * UTF-8 without NUL.  -1 and QWEN_ERANGE if not.
 */
int qwen_mark_check(const char *name, size_t n, struct qwen_err *err);
int qwen_write_logits(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, struct qwen_err *err);

/*
 * The k best of a row (best first, equal ones by id), and the logarithm of the
 * sum of exp over all of it, so that probabilities stay right.
 */
int qwen_write_best(struct qwen_writer *w, uint64_t pos, const int32_t *ids,
    const float *logits, size_t k, float logsumexp, struct qwen_err *err);
/* Not for RAW. */
int qwen_write_trace(struct qwen_writer *w, const struct qwen_trace_value *v,
    struct qwen_err *err);
int qwen_write_ready(struct qwen_writer *w, const char *path,
    uint64_t n_tokens, const struct qwen_fp *fp, struct qwen_err *err);

/*
 * One complete CBOR item as it is, of at most QWEN_STATE_MAX bytes: a record of
 * a stream of state.  It must not be a map that begins with the key "qwen",
 * which is what a header is.  CBOR only.
 */
int qwen_write_state(struct qwen_writer *w, const void *item, size_t n,
    struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
