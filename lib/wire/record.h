/* SPDX-License-Identifier: ISC */
/*
 * record.h - decoding records: the keys, types and limits of qwen-stream(5),
 * independent of the transport.
 */
#ifndef QWEN_WIRE_RECORD_H
#define QWEN_WIRE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "qwen/stream.h"

/* RFC 8746: typed arrays, little-endian. */
enum {
	QWEN_TAG_SINT32LE = 78,
	QWEN_TAG_F32LE = 85,
	QWEN_TAG_F64LE = 86,
};

enum {
	QWEN_HEADER_MAX = 8192,		/* bytes of a header or a ready
					   record */
	QWEN_TOKENS_MAX = 1 << 20,	/* bytes of a record of tokens */
	QWEN_TOKENS_RUN = 1 << 16,	/* most ids that a writer puts in one
					   record, and most rows of a span */
	QWEN_ROWS_RUN = 1 << 17,	/* most numbers of rows that a writer puts
					   in one record */
	QWEN_PATH_MAX = 4096,		/* bytes of a ready record's path, with
					   NUL */
	QWEN_TRACE_MAX = 64 << 20,	/* bytes of a trace record */
};

/* Returns the size limit of a record that follows header h (or none). */
size_t qwen_record_limit(const struct qwen_header *h);

/* Returns 1 if the complete item at p begins like a header. */
int qwen_record_is_header(const unsigned char *p, size_t n);

/*
 * The numbers of a record, copied, since records have any alignment and byte
 * order.
 */
struct qwen_numbers {
	int32_t	*ids;
	size_t	 cap_ids;
	float	*logits;
	size_t	 cap_logits;
	char	 path[QWEN_PATH_MAX];	/* or the name of a mark or stage */
	struct qwen_span span;
};

/*
 * Decodes the record in the complete item of n bytes at p. h is the current
 * header, whose kind is 0 if there is none yet; a header record replaces it.
 * *rec points into nb, h or p.
 */
int qwen_record_decode(struct qwen_record *rec, const unsigned char *p,
    size_t n, struct qwen_header *h, struct qwen_numbers *nb,
    struct qwen_err *err);

/* Returns the name of a kind of streams: "tokens". */
const char *qwen_stream_name(enum qwen_stream_kind kind);

/*
 * Writes the CBOR of a header, at most QWEN_HEADER_MAX bytes, to buf; returns
 * the length.
 */
size_t qwen_header_encode(const struct qwen_header *h,
    unsigned char buf[QWEN_HEADER_MAX]);

/*
 * Computes the fingerprint of a model, or of an encoder of images: over its
 * hyperparameters, its tensors' names, types and shapes, and the first bytes of
 * each.
 */
int qwen_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);

/*
 * qwen_adapter_fingerprint hashes everything in an adapter's file that changes
 * a model.  qwen_header_add_adapter makes h the header of its model with this
 * adapter added after the others.
 */
int qwen_adapter_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);
void qwen_header_add_adapter(struct qwen_header *h,
    const struct qwen_fp *adapter, double scale);

/*
 * Hashes consecutive bytes with XXH3-128; qwen_fp_start returns NULL if out of
 * memory.
 */
struct XXH3_state_s;
struct XXH3_state_s *qwen_fp_start(void);
void qwen_fp_get(const struct XXH3_state_s *st, struct qwen_fp *out);

#endif
