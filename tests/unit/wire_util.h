/* SPDX-License-Identifier: ISC */
/* wire_util.h - streams in memory for the tests of lib/wire. */
#ifndef WIRE_UTIL_H
#define WIRE_UTIL_H

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "qwentext.h"

/* A growing array of bytes. */
struct bytes {
	unsigned char	*p;
	size_t		 n, cap;
};

static inline void
bytes_add(struct bytes *b, const void *p, size_t n)
{
	if (b->n + n + 1 > b->cap) {
		b->cap = 2 * (b->n + n) + 64;
		if ((b->p = realloc(b->p, b->cap)) == NULL)
			abort();
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
	b->p[b->n] = '\0';
}

static inline void __attribute__((format(printf, 2, 3), unused))
bytes_addf(struct bytes *b, const char *fmt, ...)
{
	char s[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof s, fmt, ap);
	va_end(ap);
	bytes_add(b, s, strlen(s));
}

static inline void
bytes_free(struct bytes *b)
{
	free(b->p);
	memset(b, 0, sizeof *b);
}

/* Return a descriptor from which exactly these bytes can be read. */
static inline int
fd_of(const void *p, size_t n)
{
	FILE *f = tmpfile();
	int fd;

	if (f == NULL || fwrite(p, 1, n, f) != n || fflush(f) == EOF ||
	    (fd = dup(fileno(f))) == -1 || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	fclose(f);
	return fd;
}

/* Append all bytes of the file at a descriptor. */
static inline void __attribute__((unused))
bytes_of_fd(struct bytes *b, int fd)
{
	char buf[4096];
	ssize_t n;

	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, buf, sizeof buf)) > 0)
		bytes_add(b, buf, (size_t)n);
}

/* Append all values of a record, as text. */
static inline void
describe(struct bytes *log, const struct qwen_record *rec)
{
	const struct qwen_header *h = rec->header;
	char hex[33];
	size_t i;

	bytes_addf(log, "%d n=%zu", rec->kind, rec->n);
	if (rec->kind == QWEN_REC_HEADER) {
		bytes_addf(log, " kind=%d vocab=%u %s num=%u", h->kind,
		    h->n_vocab, qwen_fp_hex(&h->vocab, hex), h->numerics);
		bytes_addf(log, " %s eog", qwen_fp_hex(&h->model, hex));
		for (i = 0; i < h->n_eog; i++)
			bytes_addf(log, " %d", h->eog[i]);
	}
	for (i = 0; rec->ids != NULL && i < rec->n; i++)
		bytes_addf(log, " %d", rec->ids[i]);
	for (i = 0; rec->logits != NULL && i < rec->n; i++)
		bytes_addf(log, " %a", (double)rec->logits[i]);
	if (rec->kind == QWEN_REC_LOGITS)
		bytes_addf(log, " pos=%llu lse=%a",
		    (unsigned long long)rec->pos, (double)rec->logsumexp);
	if (rec->kind == QWEN_REC_READY)
		bytes_addf(log, " %s %llu %s", rec->path,
		    (unsigned long long)rec->n_tokens,
		    qwen_fp_hex(&rec->fp, hex));
	if (rec->kind == QWEN_REC_MARK)
		bytes_addf(log, " %s", rec->path);
	if (rec->kind == QWEN_REC_TRACE)
		bytes_addf(log, " %s %llu %d n=%zu", rec->trace.stage,
		    (unsigned long long)rec->trace.position,
		    (int)rec->trace.token, rec->trace.n);
	for (i = 0; rec->trace.row != NULL && i < rec->trace.n; i++)
		bytes_addf(log, " %a", (double)rec->trace.row[i]);
	for (i = 0; rec->trace.choices != NULL && i < rec->trace.n; i++)
		bytes_addf(log, " %d", (int)rec->trace.choices[i]);
	if (rec->kind == QWEN_REC_STATE)
		bytes_add(log, rec->raw, rec->n_raw);
	bytes_addf(log, "\n");
}

/*
 * Read all records and describe them in log (may be NULL).  Return 0 at the end
 * of the stream, or -1 with *err.
 */
static inline int
read_all(int fd, const struct qwen_reader_opts *o, struct bytes *log,
    struct qwen_err *err)
{
	struct qwen_reader *r;
	struct qwen_record rec;
	struct bytes none = { 0 };
	int got;

	if (log == NULL)
		log = &none;
	if (qwen_reader_open(&r, fd, o, err) < 0)
		return -1;
	while ((got = qwen_reader_next(r, &rec, err)) > 0)
		describe(log, &rec);
	qwen_reader_close(r);
	bytes_free(&none);
	return got;
}

static inline int
read_bytes(const void *p, size_t n, const struct qwen_reader_opts *o,
    struct bytes *log, struct qwen_err *err)
{
	int fd = fd_of(p, n), r = read_all(fd, o, log, err);

	close(fd);
	return r;
}

/* Write a small stream with every kind of record. */
static inline void
sample_stream(struct bytes *out, enum qwen_format format)
{
	static const unsigned char state[] = { 0x82, 0x01, 0x43, 'a', 'b', 'c' };
	static const int32_t ids[] = { 0, 7, 255, 256, 591 };
	static const float row[] = { -1.5f, 3.25f, 0.0f, 3.25f, -0.0f, 1e-30f };
	struct qwen_writer_opts o = { .format = format };
	struct qwen_header h = { .kind = QWEN_STREAM_TOKENS, .n_vocab = 592 };
	struct qwen_writer *w;
	struct qwen_err err;
	size_t i;
	int fd = fd_of("", 0), bad = 0;

	for (i = 0; i < 16; i++) {
		h.vocab.b[i] = (unsigned char)(17 * i);
		h.model.b[i] = (unsigned char)(255 - i);
	}
	if (qwen_writer_open(&w, fd, &o, &err) < 0)
		abort();
	bad |= qwen_write_header(w, &h, &err);
	bad |= qwen_write_tokens(w, ids, 5, &err);
	bad |= qwen_write_end(w, &err);
	bad |= qwen_write_tokens(w, ids + 2, 1, &err);
	bad |= qwen_write_mark(w, "caf\303\251 \"1\"", &err);
	bad |= qwen_write_ready(w, "dir/state.cbor", 6, &h.model, &err);
	h.kind = QWEN_STREAM_LOGITS;
	h.n_vocab = 6;
	h.numerics = 1;
	h.n_eog = 2;
	h.eog[0] = 2;
	h.eog[1] = 5;
	bad |= qwen_write_header(w, &h, &err);
	bad |= qwen_write_logits(w, 5, row, 6, &err);
	bad |= qwen_write_top(w, 300, row, 6, 3, &err);
	h.kind = QWEN_STREAM_TRACE;
	bad |= qwen_write_header(w, &h, &err);
	bad |= qwen_write_trace(w, &(struct qwen_trace_value){ "blk.0.ffn", 7,
	    5, 3, (const float[]){ 0.5f, INFINITY, -0.0f }, NULL }, &err);
	bad |= qwen_write_trace(w, &(struct qwen_trace_value){
	    "blk.0.router.experts", 7, 5, 2, NULL,
	    (const int32_t[]){ 511, 0 } }, &err);
	bad |= qwen_write_trace(w, &(struct qwen_trace_value){ "norm", 8,
	    INT32_MIN, 1, (const float[]){ 2 }, NULL }, &err);
	if (format == QWEN_FORMAT_CBOR) {
		h.kind = QWEN_STREAM_STATE;
		bad |= qwen_write_header(w, &h, &err);
		bad |= qwen_write_state(w, state, sizeof state, &err);
	}
	bad |= qwen_writer_close(w, &err);
	if (bad)
		abort();
	bytes_of_fd(out, fd);
	close(fd);
}

#endif
