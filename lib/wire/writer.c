/* SPDX-License-Identifier: ISC */
/*
 * writer.c - records to a descriptor, in each of the formats.  One sink with a
 * bounded buffer; a record is put there piece by piece and flushed at its end.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cbor.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "wire/record.h"

enum { BUF_BYTES = 1 << 16 };

struct qwen_writer {
	int			 fd;
	struct qwen_writer_opts	 opts;
	struct qwen_err		*err;	/* of the call under way */
	int			 failed;	/* and stays so */
	int			 line_used;	/* TEXT with lines */
	size_t			 n;
	unsigned char		 buf[BUF_BYTES];
};

int
qwen_format_parse(const char *name, enum qwen_format *out)
{
	static const char *const names[] = { "cbor", "text", "json", "raw" };
	size_t i;

	for (i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(name, names[i]) == 0) {
			*out = (enum qwen_format)i;
			return 0;
		}
	}
	return -1;
}

int
qwen_writer_open(struct qwen_writer **out, int fd,
    const struct qwen_writer_opts *opts, struct qwen_err *err)
{
	if ((*out = qwen_alloc(1, sizeof **out)) == NULL)
		return qwen_oom(err);
	(*out)->fd = fd;
	if (opts != NULL)
		(*out)->opts = *opts;
	return 0;
}

void
qwen_writer_free(struct qwen_writer *w)
{
	if (w == NULL)
		return;
	free(w);
}

/* ---------------------------------------------------------------- the sink */

static void
write_all(struct qwen_writer *w, const unsigned char *p, size_t n)
{
	struct pollfd fd = { .fd = w->fd, .events = POLLOUT };
	size_t done = 0;
	ssize_t got;

	while (done < n && !w->failed) {
		got = write(w->fd, p + done, n - done);
		if (got >= 0)
			done += (size_t)got;
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			poll(&fd, 1, -1);
		else if (errno != EINTR) {
			qwen_fail_errno(w->err, "write");
			w->failed = 1;
		}
	}
}

static void
drain(struct qwen_writer *w)
{
	write_all(w, w->buf, w->n);
	w->n = 0;
}

/* Room for n more bytes, which is much less than the buffer. */
static unsigned char *
room(struct qwen_writer *w, size_t n)
{
	if (BUF_BYTES - w->n < n)
		drain(w);
	return w->buf + w->n;
}

static void
put_bytes(struct qwen_writer *w, const void *p, size_t n)
{
	const unsigned char *s = p;
	size_t part;

	if (n >= BUF_BYTES) {	/* more than it is worth to copy */
		drain(w);
		write_all(w, s, n);
		return;
	}
	for (; n > 0; s += part, n -= part) {
		room(w, 1);
		part = BUF_BYTES - w->n < n ? BUF_BYTES - w->n : n;
		memcpy(w->buf + w->n, s, part);
		w->n += part;
	}
}

static void
put_str(struct qwen_writer *w, const char *s)
{
	put_bytes(w, s, strlen(s));
}

/* At most 128 bytes of text. */
static void __attribute__((format(printf, 2, 3)))
putf(struct qwen_writer *w, const char *fmt, ...)
{
	unsigned char *p = room(w, 128);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf((char *)p, 128, fmt, ap);
	va_end(ap);
	w->n += (size_t)(n < 128 ? n : 127);
}

static int
begin(struct qwen_writer *w, struct qwen_err *err)
{
	w->err = err;
	if (w->failed)
		return qwen_fail(err, QWEN_EIO, "an earlier write failed");
	return 0;
}

static int
end(struct qwen_writer *w)
{
	if (!w->opts.buffered)
		drain(w);
	return w->failed ? -1 : 0;
}

int
qwen_writer_flush(struct qwen_writer *w, struct qwen_err *err)
{
	if (begin(w, err) < 0)
		return -1;
	drain(w);
	return w->failed ? -1 : 0;
}

int
qwen_writer_close(struct qwen_writer *w, struct qwen_err *err)
{
	int r;

	if (w == NULL)
		return 0;
	r = qwen_writer_flush(w, err);
	qwen_writer_free(w);
	return r;
}

/* ------------------------------------------------------- CBOR, piece by piece */

static void
put_map(struct qwen_writer *w, size_t n)
{
	w->n += cbor_encode_map_start(n, room(w, 9), 9);
}

static void
put_key(struct qwen_writer *w, const char *key)
{
	size_t n = strlen(key);

	w->n += cbor_encode_string_start(n, room(w, 9), 9);
	put_bytes(w, key, n);
}

/* The head of a typed array of n numbers of 4 bytes. */
static void
put_typed(struct qwen_writer *w, unsigned tag, size_t n)
{
	w->n += cbor_encode_tag(tag, room(w, 9), 9);
	w->n += cbor_encode_bytestring_start(4 * n, room(w, 9), 9);
}

static void
put_ids(struct qwen_writer *w, const int32_t *ids, size_t n)
{
	size_t i;

	put_typed(w, QWEN_TAG_SINT32LE, n);
	for (i = 0; i < n; i++) {
		qwen_put_le32(room(w, 4), (uint32_t)ids[i]);
		w->n += 4;
	}
}

static void
put_f32(struct qwen_writer *w, float f)
{
	qwen_put_le32(room(w, 4), qwen_f32_bits(f));
	w->n += 4;
}

static void
put_row(struct qwen_writer *w, const float *row, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		put_f32(w, row[i]);
}

/* -------------------------------------------------------------------- JSON */

static void
json_ids(struct qwen_writer *w, const int32_t *ids, size_t n)
{
	size_t i;

	put_str(w, "[");
	for (i = 0; i < n; i++)
		putf(w, "%s%" PRId32, i > 0 ? "," : "", ids[i]);
	put_str(w, "]");
}

/* Nine digits give back the same float. */
static void
json_number(struct qwen_writer *w, float f)
{
	if (isfinite(f))
		putf(w, "%.9g", (double)f);
	else
		put_str(w, "null");
}

static void
json_fp(struct qwen_writer *w, const char *key, const struct qwen_fp *fp)
{
	char hex[33];

	putf(w, ",\"%s\":\"%s\"", key, qwen_fp_hex(fp, hex));
}

/* Bytes that are no UTF-8 become U+FFFD: JSON has no other place for them. */
static void
json_string(struct qwen_writer *w, const char *s)
{
	char out[QWEN_JSON_CHAR];
	size_t n = strlen(s), used;

	put_str(w, "\"");
	for (; n > 0; s += used, n -= used)
		put_bytes(w, out, qwen_json_char(s, n, &used, out));
	put_str(w, "\"");
}

static void
json_header(struct qwen_writer *w, const struct qwen_header *h)
{
	putf(w, "{\"qwen\":%d,\"kind\":\"%s\",\"n_vocab\":%" PRIu32,
	    QWEN_STREAM_VERSION, qwen_stream_name(h->kind), h->n_vocab);
	json_fp(w, "vocabulary", &h->vocab);
	if (h->kind != QWEN_STREAM_TOKENS) {
		json_fp(w, "model", &h->model);
		putf(w, ",\"numerics\":%" PRIu32, h->numerics);
	}
	if (h->kind == QWEN_STREAM_LOGITS) {
		put_str(w, ",\"eog\":");
		json_ids(w, h->eog, h->n_eog);
	}
	put_str(w, "}\n");
}

/* ----------------------------------------------------------------- records */

int
qwen_write_header(struct qwen_writer *w, const struct qwen_header *h,
    struct qwen_err *err)
{
	unsigned char buf[QWEN_HEADER_MAX];

	if (begin(w, err) < 0)
		return -1;
	if (w->opts.format == QWEN_FORMAT_CBOR)
		put_bytes(w, buf, qwen_header_encode(h, buf));
	else if (w->opts.format == QWEN_FORMAT_JSON)
		json_header(w, h);
	return end(w);
}

static void
text_ids(struct qwen_writer *w, const int32_t *ids, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (!w->opts.lines)
			putf(w, "%" PRId32 "\n", ids[i]);
		else {
			putf(w, "%s%" PRId32, w->line_used ? " " : "", ids[i]);
			w->line_used = 1;
		}
	}
}

static void
one_run(struct qwen_writer *w, const int32_t *ids, size_t n)
{
	switch (w->opts.format) {
	case QWEN_FORMAT_CBOR:
		put_map(w, 1);
		put_key(w, "tokens");
		put_ids(w, ids, n);
		break;
	case QWEN_FORMAT_TEXT:
		text_ids(w, ids, n);
		break;
	case QWEN_FORMAT_JSON:
		put_str(w, "{\"tokens\":");
		json_ids(w, ids, n);
		put_str(w, "}\n");
		break;
	case QWEN_FORMAT_RAW:
		break;
	}
}

int
qwen_write_tokens(struct qwen_writer *w, const int32_t *ids, size_t n,
    struct qwen_err *err)
{
	size_t part;

	for (; n > 0; ids += part, n -= part) {
		part = n < QWEN_TOKENS_RUN ? n : QWEN_TOKENS_RUN;
		if (begin(w, err) < 0)
			return -1;
		one_run(w, ids, part);
		if (end(w) < 0)
			return -1;
	}
	return 0;
}

int
qwen_write_end(struct qwen_writer *w, struct qwen_err *err)
{
	if (begin(w, err) < 0)
		return -1;
	if (w->opts.format == QWEN_FORMAT_CBOR) {
		put_map(w, 1);
		put_key(w, "end");
		put_key(w, "document");
	} else if (w->opts.format == QWEN_FORMAT_JSON)
		put_str(w, "{\"end\":\"document\"}\n");
	else if (w->opts.format == QWEN_FORMAT_TEXT && w->opts.lines)
		put_str(w, "\n");
	w->line_used = 0;
	return end(w);
}

int
qwen_write_mark(struct qwen_writer *w, const char *name, struct qwen_err *err)
{
	if (begin(w, err) < 0)
		return -1;
	if (qwen_mark_check(name, strlen(name), err) < 0)
		return -1;
	if (w->opts.format == QWEN_FORMAT_CBOR) {
		put_map(w, 1);
		put_key(w, "mark");
		put_key(w, name);
	} else if (w->opts.format == QWEN_FORMAT_JSON) {
		put_str(w, "{\"mark\":");
		json_string(w, name);
		put_str(w, "}\n");
	}
	return end(w);
}

static void
cbor_position(struct qwen_writer *w, size_t n_keys, uint64_t pos)
{
	put_map(w, n_keys);
	put_key(w, "position");
	w->n += cbor_encode_uint(pos, room(w, 9), 9);
}

int
qwen_write_logits(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, struct qwen_err *err)
{
	size_t i;

	if (begin(w, err) < 0)
		return -1;
	switch (w->opts.format) {
	case QWEN_FORMAT_CBOR:
		cbor_position(w, 2, pos);
		put_key(w, "logits");
		put_typed(w, QWEN_TAG_F32LE, n);
		put_row(w, logits, n);
		break;
	case QWEN_FORMAT_RAW:
		put_row(w, logits, n);
		break;
	case QWEN_FORMAT_TEXT:
		putf(w, "%" PRIu64, pos);
		for (i = 0; i < n; i++)
			putf(w, " %.9g", (double)logits[i]);
		put_str(w, "\n");
		break;
	case QWEN_FORMAT_JSON:
		putf(w, "{\"position\":%" PRIu64 ",\"logits\":[", pos);
		for (i = 0; i < n; i++) {
			put_str(w, i > 0 ? "," : "");
			json_number(w, logits[i]);
		}
		put_str(w, "]}\n");
		break;
	}
	return end(w);
}

/* ------------------------------------------------------------ the best few */

static void
cbor_best(struct qwen_writer *w, uint64_t pos, const int32_t *ids,
    const float *logits, size_t k, float lse)
{
	size_t i;

	cbor_position(w, 4, pos);
	put_key(w, "logsumexp");
	w->n += cbor_encode_single(lse, room(w, 9), 9);
	put_key(w, "ids");
	put_ids(w, ids, k);
	put_key(w, "logits");
	put_typed(w, QWEN_TAG_F32LE, k);
	for (i = 0; i < k; i++)
		put_f32(w, logits[i]);
}

static void
json_best(struct qwen_writer *w, uint64_t pos, const int32_t *ids,
    const float *logits, size_t k, float lse)
{
	size_t i;

	putf(w, "{\"position\":%" PRIu64 ",\"logsumexp\":", pos);
	json_number(w, lse);
	put_str(w, ",\"ids\":");
	json_ids(w, ids, k);
	put_str(w, ",\"logits\":[");
	for (i = 0; i < k; i++) {
		put_str(w, i > 0 ? "," : "");
		json_number(w, logits[i]);
	}
	put_str(w, "]}\n");
}

static void
text_best(struct qwen_writer *w, uint64_t pos, const int32_t *ids,
    const float *logits, size_t k)
{
	size_t i;

	putf(w, "%" PRIu64, pos);
	for (i = 0; i < k; i++)
		putf(w, " %" PRId32 ":%.9g", ids[i], (double)logits[i]);
	put_str(w, "\n");
}

int
qwen_write_best(struct qwen_writer *w, uint64_t pos, const int32_t *ids,
    const float *logits, size_t k, float logsumexp, struct qwen_err *err)
{
	if (begin(w, err) < 0)
		return -1;
	if (k == 0 || w->opts.format == QWEN_FORMAT_RAW)
		return qwen_fail(err, QWEN_EUNSUP, "raw rows are whole rows");
	if (w->opts.format == QWEN_FORMAT_CBOR)
		cbor_best(w, pos, ids, logits, k, logsumexp);
	else if (w->opts.format == QWEN_FORMAT_JSON)
		json_best(w, pos, ids, logits, k, logsumexp);
	else
		text_best(w, pos, ids, logits, k);
	return end(w);
}

int
qwen_write_ready(struct qwen_writer *w, const char *path, uint64_t n_tokens,
    const struct qwen_fp *fp, struct qwen_err *err)
{
	unsigned char buf[QWEN_HEADER_MAX];

	if (begin(w, err) < 0)
		return -1;
	if (strlen(path) >= QWEN_PATH_MAX)
		return qwen_fail(err, QWEN_ERANGE, "the path is too long");
	if (w->opts.format == QWEN_FORMAT_CBOR)
		put_bytes(w, buf, qwen_ready_encode(path, n_tokens, fp, buf));
	else if (w->opts.format == QWEN_FORMAT_JSON) {
		put_str(w, "{\"ready\":");
		json_string(w, path);
		putf(w, ",\"n_tokens\":%" PRIu64, n_tokens);
		json_fp(w, "fingerprint", fp);
		put_str(w, "}\n");
	}
	return end(w);
}

int
qwen_write_state(struct qwen_writer *w, const void *item, size_t n,
    struct qwen_err *err)
{
	if (begin(w, err) < 0)
		return -1;
	if (w->opts.format != QWEN_FORMAT_CBOR)
		return qwen_fail(err, QWEN_EUNSUP, "state has no other form "
		    "than CBOR");
	if (n > QWEN_STATE_MAX)
		return qwen_fail(err, QWEN_ERANGE, "a record of state of %zu "
		    "bytes; the limit is %d", n, QWEN_STATE_MAX);
	put_bytes(w, item, n);
	return end(w);
}
