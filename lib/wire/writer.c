/* SPDX-License-Identifier: ISC */
/*
 * writer.c - writes records to a descriptor, in each format.  Records go piece
 * by piece into one buffer of fixed size, which is flushed at the end of a
 * record.  CBOR and JSON have the same keys in the same order.
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
#include "base/sized.h"
#include "base/utf8.h"
#include "wire/record.h"

enum { BUF_BYTES = 1 << 16 };

struct qwen_writer {
	int			 fd;
	struct qwen_writer_opts	 opts;
	struct qwen_err		*err;	/* of the current call */
	int			 failed;	/* stays set */
	int			 line_used;	/* TEXT with lines: the line has
						   ids */
	int			 n_keys;	/* JSON: keys of the record so
						   far */
	unsigned char		*buf;		/* cap bytes */
	size_t			 n, cap;
	unsigned char		 own[];		/* usually, buf points here */
};

int
qwen_writer_open_sized(size_t size, struct qwen_writer **out, int fd,
    const struct qwen_writer_opts *opts, struct qwen_err *err)
{
	struct qwen_writer_opts own;

	*out = NULL;
	if (QWEN_SIZED(opts, own, size, err) < 0)
		return -1;
	if ((*out = qwen_alloc(1, sizeof **out + BUF_BYTES)) == NULL)
		return qwen_oom(err);
	(*out)->fd = fd;
	(*out)->buf = (*out)->own;
	(*out)->cap = BUF_BYTES;
	if (opts != NULL)
		(*out)->opts = *opts;
	return 0;
}

void
qwen_writer_free(struct qwen_writer *w)
{
	free(w);
}

/* ------------------------------------------------------------------ buffer */

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

/* Makes room for n bytes, much less than the buffer's size. */
static unsigned char *
room(struct qwen_writer *w, size_t n)
{
	if (w->cap - w->n < n)
		drain(w);
	return w->buf + w->n;
}

static void
put_bytes(struct qwen_writer *w, const void *p, size_t n)
{
	const unsigned char *s = p;
	size_t part;

	if (n >= w->cap) {	/* too long to be worth copying */
		drain(w);
		write_all(w, s, n);
		return;
	}
	for (; n > 0; s += part, n -= part) {
		room(w, 1);
		part = w->cap - w->n < n ? w->cap - w->n : n;
		memcpy(w->buf + w->n, s, part);
		w->n += part;
	}
}

static void
put_str(struct qwen_writer *w, const char *s)
{
	put_bytes(w, s, strlen(s));
}

/* Appends at most 127 bytes of formatted text. */
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
begin_record(struct qwen_writer *w, struct qwen_err *err)
{
	w->err = err;
	if (w->failed)
		return qwen_fail(err, QWEN_EIO, "an earlier write failed");
	return 0;
}

static int
end_record(struct qwen_writer *w)
{
	if (!w->opts.buffered)
		drain(w);
	return w->failed ? -1 : 0;
}

int
qwen_writer_flush(struct qwen_writer *w, struct qwen_err *err)
{
	if (begin_record(w, err) < 0)
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

/* ------------------------------------- a record with keys, in CBOR or JSON */

static int
is_json(const struct qwen_writer *w)
{
	return w->opts.format == QWEN_FORMAT_JSON;
}

static int
has_keys(const struct qwen_writer *w)
{
	return is_json(w) || w->opts.format == QWEN_FORMAT_CBOR;
}

/*
 * Writes a string.  In CBOR text must be UTF-8, so other strings are bytes; in
 * JSON invalid bytes become U+FFFD.
 */
static void
put_string(struct qwen_writer *w, const char *s)
{
	size_t n = strlen(s), used;
	char out[QWEN_JSON_CHAR];

	if (!is_json(w)) {
		w->n += qwen_utf8_check(s, n) == n ?
		    cbor_encode_string_start(n, room(w, 9), 9) :
		    cbor_encode_bytestring_start(n, room(w, 9), 9);
		put_bytes(w, s, n);
		return;
	}
	put_str(w, "\"");
	for (; n > 0; s += used, n -= used)
		put_bytes(w, out, qwen_json_char(s, n, &used, out));
	put_str(w, "\"");
}

static void
put_map(struct qwen_writer *w, size_t n)
{
	w->n_keys = 0;
	if (!is_json(w))
		w->n += cbor_encode_map_start(n, room(w, 9), 9);
}

static void
put_key(struct qwen_writer *w, const char *key)
{
	if (is_json(w)) {
		put_str(w, w->n_keys++ == 0 ? "{" : ",");
		put_string(w, key);
		put_str(w, ":");
	} else
		put_string(w, key);
}

static void
end_map(struct qwen_writer *w)
{
	if (is_json(w))
		put_str(w, "}\n");
}

static void
put_text(struct qwen_writer *w, const char *key, const char *s)
{
	put_key(w, key);
	put_string(w, s);
}

static void
put_uint(struct qwen_writer *w, const char *key, uint64_t v)
{
	put_key(w, key);
	if (is_json(w))
		putf(w, "%" PRIu64, v);
	else
		w->n += cbor_encode_uint(v, room(w, 9), 9);
}

static void
put_id(struct qwen_writer *w, const char *key, int32_t id)
{
	if (id >= 0) {
		put_uint(w, key, (uint64_t)id);
		return;
	}
	put_key(w, key);
	if (is_json(w))
		putf(w, "%" PRId32, id);
	else
		w->n += cbor_encode_negint((uint64_t)~id, room(w, 9), 9);
}

static void
put_fp(struct qwen_writer *w, const char *key, const struct qwen_fp *fp)
{
	char hex[33];

	put_key(w, key);
	if (is_json(w))
		putf(w, "\"%s\"", qwen_fp_hex(fp, hex));
	else {
		w->n += cbor_encode_bytestring_start(sizeof fp->b, room(w, 9),
		    9);
		put_bytes(w, fp->b, sizeof fp->b);
	}
}

/* Begins a typed array of n numbers of 4 bytes. */
static void
put_typed(struct qwen_writer *w, unsigned tag, size_t n)
{
	w->n += cbor_encode_tag(tag, room(w, 9), 9);
	w->n += cbor_encode_bytestring_start(4 * n, room(w, 9), 9);
}

static void
put_le32(struct qwen_writer *w, uint32_t v)
{
	qwen_put_le32(room(w, 4), v);
	w->n += 4;
}

static void
put_ids(struct qwen_writer *w, const char *key, const int32_t *ids, size_t n)
{
	size_t i;

	put_key(w, key);
	if (!is_json(w)) {
		put_typed(w, QWEN_TAG_SINT32LE, n);
		for (i = 0; i < n; i++)
			put_le32(w, (uint32_t)ids[i]);
		return;
	}
	put_str(w, "[");
	for (i = 0; i < n; i++)
		putf(w, "%s%" PRId32, i > 0 ? "," : "", ids[i]);
	put_str(w, "]");
}

/* Nine digits are enough to read the same float back. */
static void
json_number(struct qwen_writer *w, float f)
{
	if (isfinite(f))
		putf(w, "%.9g", (double)f);
	else
		put_str(w, "null");
}

static void
put_row(struct qwen_writer *w, const char *key, const float *row, size_t n)
{
	size_t i;

	put_key(w, key);
	if (!is_json(w)) {
		put_typed(w, QWEN_TAG_F32LE, n);
		for (i = 0; i < n; i++)
			put_le32(w, qwen_f32_bits(row[i]));
		return;
	}
	for (i = 0; i < n; i++) {
		put_str(w, i > 0 ? "," : "[");
		json_number(w, row[i]);
	}
	put_str(w, n > 0 ? "]" : "[]");
}

static void
put_header(struct qwen_writer *w, const struct qwen_header *h)
{
	int has_model = h->kind != QWEN_STREAM_TOKENS;
	int has_eog = h->kind == QWEN_STREAM_LOGITS;
	int has_kv = has_model && (h->k != QWEN_KV_F16 || h->v != QWEN_KV_F16);
	static const struct qwen_fp none;
	int has_base = has_model && memcmp(&h->base, &none, sizeof none) != 0;
	int has_rope = has_model && h->rope.kind != QWEN_ROPE_FILE;
	char rope[QWEN_ROPE_TEXT];

	put_map(w, 4u + 2u * (unsigned)has_model + (unsigned)has_base +
	    2u * (unsigned)has_kv + (unsigned)has_rope + (unsigned)has_eog);
	put_uint(w, "qwen", QWEN_STREAM_VERSION);
	put_text(w, "kind", qwen_stream_name(h->kind));
	put_uint(w, "n_vocab", h->n_vocab);
	put_fp(w, "vocabulary", &h->vocab);
	if (has_model) {
		put_fp(w, "model", &h->model);
		put_uint(w, "numerics", h->numerics);
	}
	if (has_base)
		put_fp(w, "base", &h->base);
	if (has_kv) {
		put_text(w, "keys", qwen_kv_name(h->k));
		put_text(w, "values", qwen_kv_name(h->v));
	}
	if (has_rope)
		put_text(w, "rope", qwen_rope_text(&h->rope, rope));
	if (has_eog)
		put_ids(w, "eog", h->eog, h->n_eog);
	end_map(w);
}

size_t
qwen_header_encode(const struct qwen_header *h,
    unsigned char buf[QWEN_HEADER_MAX])
{
	struct qwen_writer w = { .buf = buf, .cap = QWEN_HEADER_MAX };

	put_header(&w, h);
	return w.n;
}

/* ----------------------------------------------------------------- records */

int
qwen_write_header(struct qwen_writer *w, const struct qwen_header *h,
    struct qwen_err *err)
{
	if (begin_record(w, err) < 0)
		return -1;
	if (has_keys(w))
		put_header(w, h);
	return end_record(w);
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

int
qwen_write_tokens(struct qwen_writer *w, const int32_t *ids, size_t n,
    struct qwen_err *err)
{
	size_t part;

	for (; n > 0; ids += part, n -= part) {
		part = n < QWEN_TOKENS_RUN ? n : QWEN_TOKENS_RUN;
		if (begin_record(w, err) < 0)
			return -1;
		if (has_keys(w)) {
			put_map(w, 1);
			put_ids(w, "tokens", ids, part);
			end_map(w);
		} else if (w->opts.format == QWEN_FORMAT_TEXT)
			text_ids(w, ids, part);
		if (end_record(w) < 0)
			return -1;
	}
	return 0;
}

int
qwen_write_end(struct qwen_writer *w, struct qwen_err *err)
{
	if (begin_record(w, err) < 0)
		return -1;
	if (has_keys(w)) {
		put_map(w, 1);
		put_text(w, "end", "document");
		end_map(w);
	} else if (w->opts.format == QWEN_FORMAT_TEXT && w->opts.lines)
		put_str(w, "\n");
	w->line_used = 0;
	return end_record(w);
}

static int
no_rows(struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EUNSUP, "text cannot hold the rows of an "
	    "image: use -f cbor");
}

int
qwen_write_span(struct qwen_writer *w, const struct qwen_span *s,
    struct qwen_err *err)
{
	const int32_t grid[2] = { (int32_t)s->height, (int32_t)s->width };

	if (begin_record(w, err) < 0)
		return -1;
	if (!has_keys(w))
		return no_rows(err);
	put_map(w, 3);
	put_uint(w, "span", s->n);
	put_ids(w, "grid", grid, s->width > 0 ? 2 : 0);
	put_fp(w, "hash", &s->hash);
	end_map(w);
	return end_record(w);
}

int
qwen_write_rows(struct qwen_writer *w, const struct qwen_fp *hash,
    const float *rows, size_t n, struct qwen_err *err)
{
	size_t i, part;

	for (i = 0; i < n; i += part) {
		part = n - i < QWEN_ROWS_RUN ? n - i : QWEN_ROWS_RUN;
		if (begin_record(w, err) < 0)
			return -1;
		if (!has_keys(w))
			return no_rows(err);
		put_map(w, 2);
		put_row(w, "rows", rows + i, part);
		put_fp(w, "hash", hash);
		end_map(w);
		if (end_record(w) < 0)
			return -1;
	}
	return 0;
}

int
qwen_write_mark(struct qwen_writer *w, const char *name, struct qwen_err *err)
{
	if (begin_record(w, err) < 0 || qwen_mark_check(name, strlen(name),
	    err) < 0)
		return -1;
	if (has_keys(w)) {
		put_map(w, 1);
		put_text(w, "mark", name);
		end_map(w);
	}
	return end_record(w);
}

/* Writes a row of logits as a line, with ids if it has only the best. */
static void
text_row(struct qwen_writer *w, uint64_t pos, const int32_t *ids,
    const float *logits, size_t n)
{
	size_t i;

	putf(w, "%" PRIu64, pos);
	for (i = 0; i < n; i++) {
		put_str(w, " ");
		if (ids != NULL)
			putf(w, "%" PRId32 ":", ids[i]);
		putf(w, "%.9g", (double)logits[i]);
	}
	put_str(w, "\n");
}

int
qwen_write_logits(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, struct qwen_err *err)
{
	size_t i;

	if (begin_record(w, err) < 0)
		return -1;
	if (has_keys(w)) {
		put_map(w, 2);
		put_uint(w, "position", pos);
		put_row(w, "logits", logits, n);
		end_map(w);
	} else if (w->opts.format == QWEN_FORMAT_TEXT)
		text_row(w, pos, NULL, logits, n);
	else {
		for (i = 0; i < n; i++)
			put_le32(w, qwen_f32_bits(logits[i]));
	}
	return end_record(w);
}

int
qwen_write_best(struct qwen_writer *w, uint64_t pos, const int32_t *ids,
    const float *logits, size_t k, float logsumexp, struct qwen_err *err)
{
	if (begin_record(w, err) < 0)
		return -1;
	if (k == 0)
		return qwen_fail(err, QWEN_ERANGE, "a row needs at least one "
		    "best logit");
	if (w->opts.format == QWEN_FORMAT_RAW)
		return qwen_fail(err, QWEN_EUNSUP, "the raw format has only "
		    "complete rows");
	if (!has_keys(w)) {
		text_row(w, pos, ids, logits, k);
		return end_record(w);
	}
	put_map(w, 4);
	put_uint(w, "position", pos);
	put_key(w, "logsumexp");
	if (is_json(w))
		json_number(w, logsumexp);
	else
		w->n += cbor_encode_single(logsumexp, room(w, 9), 9);
	put_ids(w, "ids", ids, k);
	put_row(w, "logits", logits, k);
	end_map(w);
	return end_record(w);
}

/* Writes "name position token number ...". */
static void
text_trace(struct qwen_writer *w, const struct qwen_trace_value *v)
{
	size_t i;

	put_str(w, v->stage);
	putf(w, " %" PRIu64 " %" PRId32, v->position, v->token);
	for (i = 0; i < v->n; i++) {
		if (v->row != NULL)
			putf(w, " %.9g", (double)v->row[i]);
		else
			putf(w, " %" PRId32, v->choices[i]);
	}
	put_str(w, "\n");
}

int
qwen_write_trace(struct qwen_writer *w, const struct qwen_trace_value *v,
    struct qwen_err *err)
{
	if (begin_record(w, err) < 0)
		return -1;
	if (w->opts.format == QWEN_FORMAT_RAW)
		return qwen_fail(err, QWEN_EUNSUP, "a trace cannot be written "
		    "in raw format");
	if (!has_keys(w)) {
		text_trace(w, v);
		return end_record(w);
	}
	put_map(w, 4);
	put_text(w, "trace", v->stage);
	put_uint(w, "position", v->position);
	put_id(w, "token", v->token);
	if (v->row != NULL)
		put_row(w, "row", v->row, v->n);
	else
		put_ids(w, "choices", v->choices, v->n);
	end_map(w);
	return end_record(w);
}

int
qwen_write_ready(struct qwen_writer *w, const char *path, uint64_t n_tokens,
    const struct qwen_fp *fp, struct qwen_err *err)
{
	if (begin_record(w, err) < 0)
		return -1;
	if (strlen(path) >= QWEN_PATH_MAX)
		return qwen_fail(err, QWEN_ERANGE, "the path is too long");
	if (has_keys(w)) {
		put_map(w, 3);
		put_text(w, "ready", path);
		put_uint(w, "n_tokens", n_tokens);
		put_fp(w, "fingerprint", fp);
		end_map(w);
	}
	return end_record(w);
}

int
qwen_write_state(struct qwen_writer *w, const void *item, size_t n,
    struct qwen_err *err)
{
	if (begin_record(w, err) < 0)
		return -1;
	if (w->opts.format != QWEN_FORMAT_CBOR)
		return qwen_fail(err, QWEN_EUNSUP, "state can be written only "
		    "as CBOR");
	if (n > QWEN_STATE_MAX)
		return qwen_fail(err, QWEN_ERANGE, "record of state of %zu "
		    "bytes; the limit is %d", n, QWEN_STATE_MAX);
	put_bytes(w, item, n);
	return end_record(w);
}

/* --------------------------------------------------- fingerprints and marks */

char *
qwen_fp_hex(const struct qwen_fp *fp, char out[33])
{
	size_t i;

	for (i = 0; i < sizeof fp->b; i++)
		snprintf(out + 2 * i, 3, "%02x", fp->b[i]);
	return out;
}

int
qwen_mark_check(const char *s, size_t n, struct qwen_err *err)
{
	if (n >= 1 && n <= QWEN_MARK_MAX && memchr(s, '\0', n) == NULL &&
	    qwen_utf8_check(s, n) == n)
		return 0;
	return qwen_fail(err, QWEN_ERANGE, "the name of a mark must be 1 to %d "
	    "bytes of UTF-8 without NUL", QWEN_MARK_MAX);
}
