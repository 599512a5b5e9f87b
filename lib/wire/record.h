/* SPDX-License-Identifier: ISC */
/*
 * record.h - between bytes and records: the keys, shapes and limits of
 * qwen-stream(5), apart from where the bytes come from.
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
	QWEN_HEADER_MAX = 8192,		/* bytes of a header or a ready record */
	QWEN_TOKENS_MAX = 1 << 20,	/* bytes of a record of tokens */
	QWEN_TOKENS_RUN = 1 << 16,	/* ids that a writer puts in one */
	QWEN_PATH_MAX = 4096,		/* of a ready record's path, with NUL */
	QWEN_TRACE_MAX = 64 << 20,	/* bytes of a record of a trace */
};

/* Most bytes that a record may have where the header h (or none) rules. */
size_t qwen_record_limit(const struct qwen_header *h);

/* Whether the complete item at p begins as a header does. */
int qwen_record_is_header(const unsigned char *p, size_t n);

/*
 * Numbers of a record, in memory of their own, since the bytes of a record
 * have any alignment and byte order.
 */
struct qwen_numbers {
	int32_t	*ids;
	size_t	 cap_ids;
	float	*logits;
	size_t	 cap_logits;
	char	 path[QWEN_PATH_MAX];	/* or the name of a mark, or stage */
};

/*
 * The record in the complete item of n bytes at p.  h is the header in force,
 * of which the kind may be 0 when there is none yet; a header record replaces
 * it.  What *rec points to is in nb, in h or at p.
 */
int qwen_record_decode(struct qwen_record *rec, const unsigned char *p,
    size_t n, struct qwen_header *h, struct qwen_numbers *nb,
    struct qwen_err *err);

/* Name of a kind of streams: "tokens". */
const char *qwen_stream_name(enum qwen_stream_kind kind);

/*
 * The CBOR of a header, at most QWEN_HEADER_MAX bytes, into buf; returns how
 * many.
 */
size_t qwen_header_encode(const struct qwen_header *h,
    unsigned char buf[QWEN_HEADER_MAX]);

/*
 * All that an adapter's file does to a model; and h, so far of a model, is of
 * that with an adapter of this fingerprint, after the others.
 */
int qwen_adapter_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);
void qwen_header_add_adapter(struct qwen_header *h,
    const struct qwen_fp *adapter, double scale);

/* XXH3-128 of bytes that come one after the other; start: NULL: no memory. */
struct XXH3_state_s;
struct XXH3_state_s *qwen_fp_start(void);
void qwen_fp_get(const struct XXH3_state_s *st, struct qwen_fp *out);

#endif
