/* SPDX-License-Identifier: ISC */
/*
 * qwen/stream.h - streams of tokens, logits, states and traces.
 *
 * For programs in a pipe with the tools: a reader returns records, a writer
 * writes them.
 */
#ifndef QWEN_QWEN_STREAM_H
#define QWEN_QWEN_STREAM_H

#include "qwen/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A stream is a CBOR sequence (RFC 8742) of records, with typed arrays as in
 * RFC 8746; qwen-stream(5) has the format.  A stream begins with a header,
 * which says what the following records are and which model or vocabulary they
 * belong to.  Headers may repeat, so streams can be concatenated.
 */

#define QWEN_STREAM_VERSION 1

enum {
	QWEN_EOG_MAX = 16,		/* end-of-generation ids in a header */
	QWEN_STATE_MAX = 1 << 20,	/* of one record of state */
	QWEN_MARK_MAX = 255,		/* of the name of a mark */
	QWEN_TRACE_NAME = 64,		/* of a stage name, NUL included */
};

/* Kinds of streams; bits, so that a reader can name the kinds it accepts. */
enum qwen_stream_kind {
	QWEN_STREAM_TOKENS = 1,
	QWEN_STREAM_LOGITS = 2,
	QWEN_STREAM_STATE = 4,
	QWEN_STREAM_TRACE = 8,
};

/*
 * Program and library both fill it, and no size goes with it: records, readers
 * and states contain it or point to it.  It changes only with the libraries'
 * names.
 */
struct qwen_header {
	enum qwen_stream_kind kind;
	uint32_t	 n_vocab;	/* all ids are below it */
	struct qwen_fp	 vocab;		/* fingerprint of the vocabulary */
	struct qwen_fp	 model;		/* fingerprint of the model; TOKENS
					   streams have neither this nor the
					   members up to rope */
	struct qwen_fp	 base;		/* fingerprint of the model without
					   adapters; zero: there are no
					   adapters */
	uint32_t	 numerics;	/* version of the arithmetic */
	enum qwen_kv	 k, v;		/* KV cache types */
	struct qwen_rope rope;		/* RoPE scaling, if not the file's */
	size_t		 n_eog;		/* LOGITS: end-of-generation ids */
	int32_t		 eog[QWEN_EOG_MAX];
};

/*
 * Fills a header of the given kind for the model or vocabulary of g; numerics
 * is QWEN_NUMERICS.
 */
int qwen_header_init(struct qwen_header *h, enum qwen_stream_kind kind,
    const struct qwen_gguf *g, struct qwen_err *err);

/*
 * Changes the header's model fingerprint to that of the model with these
 * adapters.  Reads all bytes of the adapters.  Adapters of scale 0 do not
 * count.
 */
int qwen_header_adapt(struct qwen_header *h, const struct qwen_adapter *a,
    size_t n, struct qwen_err *err);

/* Fills a header for an open model: its adapters, numerics, KV types, RoPE. */
struct qwen_model;
int qwen_model_header(struct qwen_header *h, const struct qwen_model *m,
    enum qwen_stream_kind kind, struct qwen_err *err);

/*
 * Returns 0 if a stream with header h can be used by self, else -1, with both
 * sides in *err.  Compares the vocabulary; for logits and state also the model,
 * its adapters, the numerics version and the KV cache types.
 */
int qwen_header_match(const struct qwen_header *h,
    const struct qwen_header *self, struct qwen_err *err);

/* Writes the 32 hexadecimal digits of a fingerprint to out; returns out. */
char *qwen_fp_hex(const struct qwen_fp *fp, char out[33]);

enum qwen_record_kind {
	QWEN_REC_HEADER = 1,
	QWEN_REC_TOKENS,	/* ids, n */
	QWEN_REC_END,		/* end of a document */
	QWEN_REC_LOGITS,	/* pos, logits, n; also ids if only the n
				   best */
	QWEN_REC_READY,		/* path, n_tokens, fp; among tokens or logits */
	QWEN_REC_STATE,		/* raw, n_raw: see qwen-state(5) */
	QWEN_REC_MARK,		/* path: name; among tokens, a place to return
				   to */
	QWEN_REC_TRACE,		/* trace */
	QWEN_REC_SPAN,		/* ids, n: of rows instead of tokens; see
				   qwen_reader_span */
	QWEN_REC_ROWS,		/* logits, n, fp: numbers of the rows of the
				   span whose hash is fp */
};

/* One value of a stage of the forward pass for one token: qwen/trace.h. */
struct qwen_trace_value {
	const char	*stage;
	uint64_t	 position;	/* of the token */
	int32_t		 token;		/* its id */
	size_t		 n;		/* length of row, or of choices */
	const float	*row;		/* the values, which may include NaN; or
					   NULL */
	const int32_t	*choices;	/* expert numbers; or NULL */
};

/* A record.  Its pointers live until the next call on the reader. */
struct qwen_record {
	enum qwen_record_kind kind;
	const struct qwen_header *header;	/* the current one; NULL: the
						   stream is plain decimal
						   ids */
	size_t		 n;
	const int32_t	*ids;		/* each in [0, n_vocab) */
	const float	*logits;	/* finite; best first if ids is set; or
					   the numbers of rows */
	uint64_t	 pos;		/* position of the last token before the
					   prediction: the row predicts the
					   token at pos + 1 */
	float		 logsumexp;	/* over the whole row if the row was cut
					   (ids != NULL): p = exp(l -
					   logsumexp) */
	const char	*path;		/* of the completed file; or the name of
					   a mark, never empty */
	uint64_t	 n_tokens;	/* tokens in the completed file */
	struct qwen_fp	 fp;		/* its fingerprint */
	struct qwen_trace_value trace;
	const unsigned char *raw;	/* bytes of the record with framing;
					   NULL for plain ids */
	size_t		 n_raw;		/* length of raw */
};

struct qwen_reader_opts {
	/*
	 * Accepted kinds of streams, 0 for any.  The header of any other kind
	 * is an error.
	 */
	unsigned	 kinds;
	/*
	 * Header that streams must match, or NULL: streams of tokens by
	 * vocabulary, others also by model and numerics.
	 */
	const struct qwen_header *self;
	/*
	 * Plain ids: a newline ends a document (otherwise it is white space).
	 */
	int		 lines;
	/* Bytes already read from fd, to detect its contents; copied. */
	const void	*head;
	size_t		 n_head;
	/* Accept records of spans and rows, which are an error otherwise. */
	int		 spans;
};

struct qwen_reader;

/* Opens a reader. opts may be NULL; it is copied.  The caller keeps fd. */
int qwen_reader_open_sized(size_t size, struct qwen_reader **out, int fd,
    const struct qwen_reader_opts *opts, struct qwen_err *err);
#define qwen_reader_open(...) \
	qwen_reader_open_sized(sizeof(struct qwen_reader_opts), __VA_ARGS__)
void qwen_reader_close(struct qwen_reader *r);

/*
 * Gets the next record.  Returns 1, 0 at the end of the stream, or -1.  Waits
 * only until one record is complete.  Plain ids come as QWEN_REC_TOKENS without
 * a header.  Allocates memory for bytes received, never for announced lengths.
 * Fails for a record beyond the limits of its kind.
 */
int qwen_reader_next(struct qwen_reader *r, struct qwen_record *rec,
    struct qwen_err *err);

/*
 * Returns the span of the record that was just read, a QWEN_REC_SPAN; its start
 * is 0.
 */
const struct qwen_span *qwen_reader_span(const struct qwen_reader *r);

enum qwen_format {
	QWEN_FORMAT_CBOR,
	QWEN_FORMAT_TEXT,	/* tokens: an id per line; logits: a row per
				   line */
	QWEN_FORMAT_JSON,	/* one object per record and line */
	QWEN_FORMAT_RAW,	/* logits only: little-endian f32, no framing */
};

struct qwen_writer_opts {
	enum qwen_format format;
	/* TEXT: one document per line, ended by qwen_write_end. */
	int		 lines;
	/*
	 * Do not flush after each record: the caller calls qwen_writer_flush
	 * before it waits for anything.  Faster for many small records.
	 */
	int		 buffered;
};

struct qwen_writer;

/* Opens a writer. opts may be NULL.  The caller keeps fd. */
int qwen_writer_open_sized(size_t size, struct qwen_writer **out, int fd,
    const struct qwen_writer_opts *opts, struct qwen_err *err);
#define qwen_writer_open(...) \
	qwen_writer_open_sized(sizeof(struct qwen_writer_opts), __VA_ARGS__)

/* Frees the writer without flushing, for cleanup after an error. */
void qwen_writer_free(struct qwen_writer *w);

/* Flushes and frees the writer; -1 if the flush failed (it is freed anyway). */
int qwen_writer_close(struct qwen_writer *w, struct qwen_err *err);
int qwen_writer_flush(struct qwen_writer *w, struct qwen_err *err);

/*
 * Each function writes one record (long runs of tokens: several) and flushes
 * it.  If the format cannot represent a record (a header in TEXT, say), it
 * writes nothing and succeeds.  QWEN_EPIPE if the reader closed the pipe.
 */
int qwen_write_header(struct qwen_writer *w, const struct qwen_header *h,
    struct qwen_err *err);
int qwen_write_tokens(struct qwen_writer *w, const int32_t *ids, size_t n,
    struct qwen_err *err);
int qwen_write_end(struct qwen_writer *w, struct qwen_err *err);

/*
 * Writes a span in the place of its ids, without its rows.  QWEN_EUNSUP in
 * TEXT.
 */
int qwen_write_span(struct qwen_writer *w, const struct qwen_span *s,
    struct qwen_err *err);

/*
 * Writes n numbers of the rows of the span with this hash: all of them after the
 * span, in order, in as many calls as you like.  QWEN_EUNSUP in TEXT.
 */
int qwen_write_rows(struct qwen_writer *w, const struct qwen_fp *hash,
    const float *rows, size_t n, struct qwen_err *err);

int qwen_write_mark(struct qwen_writer *w, const char *name,
    struct qwen_err *err);

/*
 * Checks the name of a mark: 1 to QWEN_MARK_MAX bytes of UTF-8 without NUL.
 * Returns 0, or -1 with QWEN_ERANGE.
 */
int qwen_mark_check(const char *name, size_t n, struct qwen_err *err);
int qwen_write_logits(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, struct qwen_err *err);

/*
 * Writes the k best logits of a row (best first, equal ones by id), and the
 * logarithm of the sum of exp over the whole row, so that probabilities stay
 * exact.
 */
int qwen_write_best(struct qwen_writer *w, uint64_t pos, const int32_t *ids,
    const float *logits, size_t k, float logsumexp, struct qwen_err *err);
/* Not in RAW. */
int qwen_write_trace(struct qwen_writer *w, const struct qwen_trace_value *v,
    struct qwen_err *err);
int qwen_write_ready(struct qwen_writer *w, const char *path,
    uint64_t n_tokens, const struct qwen_fp *fp, struct qwen_err *err);

/*
 * Writes one complete CBOR item unchanged, of at most QWEN_STATE_MAX bytes: a
 * record of a stream of state.  It must not be a map that begins with the key
 * "qwen", as headers do.  CBOR only.
 */
int qwen_write_state(struct qwen_writer *w, const void *item, size_t n,
    struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
