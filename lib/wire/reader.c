/* SPDX-License-Identifier: ISC */
/*
 * reader.c - reads records from a descriptor.  The first byte tells CBOR from
 * plain decimal ids.  A CBOR record is decoded after all its bytes have
 * arrived.
 */
#define _GNU_SOURCE	/* F_SETPIPE_SZ */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/what.h"
#include "wire/item.h"
#include "wire/record.h"

enum {
	BUF_BYTES = 1 << 16,	/* initially; grows to the size of a record */
	PIPE_BYTES = 1 << 20,	/* what any user may set, by default */
	IDS_RUN = 4096,		/* most plain ids per record */
	DIGITS_MAX = 20,
};

enum mode { UNKNOWN, CBOR, PLAIN };

struct qwen_reader {
	int			 fd;
	struct qwen_reader_opts	 opts;
	struct qwen_header	 self;		/* opts.self points to it */
	struct qwen_header	 header;	/* current header; kind 0: none
						   yet */
	struct qwen_numbers	 nb;
	enum mode		 mode;
	int			 eof;
	int			 failed;	/* stays set */
	unsigned char		*buf;
	size_t			 cap;
	size_t			 start, end;	/* unused bytes */
	uint64_t		 offset;	/* of buf[start], in bytes */
	uint64_t		 n_records;
	uint64_t		 n_lines;	/* PLAIN */
	int			 line_open;	/* PLAIN: ids since the last
						   newline */
	int32_t			 run[IDS_RUN];
};

int
qwen_reader_open_sized(size_t size, struct qwen_reader **out, int fd,
    const struct qwen_reader_opts *opts, struct qwen_err *err)
{
	struct qwen_reader_opts own;
	struct qwen_reader *r;
	size_t head, cap;

	*out = NULL;
	if (QWEN_SIZED(opts, own, size, err) < 0)
		return -1;
	head = opts != NULL ? opts->n_head : 0;
	cap = head < BUF_BYTES ? BUF_BYTES : head;
	if ((r = qwen_alloc(1, sizeof *r)) == NULL ||
	    (r->buf = qwen_alloc(1, cap)) == NULL) {
		free(r);
		return qwen_oom(err);
	}
	r->fd = fd;
	r->cap = cap;
	if (opts != NULL)
		r->opts = *opts;
	if (head > 0)
		memcpy(r->buf, opts->head, head);
	r->end = head;
	if (r->opts.self != NULL) {
		r->self = *r->opts.self;
		r->opts.self = &r->self;
	}
	*out = r;
	return 0;
}

void
qwen_reader_close(struct qwen_reader *r)
{
	if (r == NULL)
		return;
	free(r->nb.ids);
	free(r->nb.logits);
	free(r->buf);
	free(r);
}

/* ------------------------------------------------------------------- bytes */

/*
 * Makes room after the bytes in use: moves them to the front, or grows the
 * buffer.
 */
static int
make_room(struct qwen_reader *r, struct qwen_err *err)
{
	if (r->start > 0) {
		/* less than one record is left */
		memmove(r->buf, r->buf + r->start, r->end - r->start);
		r->end -= r->start;
		r->start = 0;
	}
	return qwen_grow(&r->buf, &r->cap, r->end + 1, 1) < 0 ?
	    qwen_oom(err) : 0;
}

/* Reads more bytes: returns 1, 0 at the end, or -1. */
static int
fill(struct qwen_reader *r, struct qwen_err *err)
{
	struct pollfd p = { .fd = r->fd, .events = POLLIN };
	ssize_t n;

	if (r->eof)
		return 0;
	if (r->end == r->cap && make_room(r, err) < 0)
		return -1;
	while ((n = read(r->fd, r->buf + r->end, r->cap - r->end)) == -1) {
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			poll(&p, 1, -1);
		else if (errno != EINTR)
			return qwen_fail_errno(err, "read");
	}
	r->end += (size_t)n;
	r->eof = n == 0;
	return n > 0;
}

static void
use(struct qwen_reader *r, size_t n)
{
	r->start += n;
	r->offset += n;
}

/* -------------------------------------------------------------------- CBOR */

/* Waits until the record at start is complete; *n is its length. */
static int
complete(struct qwen_reader *r, size_t *n, struct qwen_err *err)
{
	size_t have, want, limit = qwen_record_limit(&r->header);
	struct qwen_cbor_scan sp = { 0 };
	const char *why;
	int got;

	for (;;) {
		have = r->end - r->start;
		got = qwen_cbor_scan_step(&sp, r->buf + r->start, have, limit,
		    &want, &why);
		if (got < 0)
			return qwen_fail(err, QWEN_EFORMAT, "%s", why);
		if ((got > 0 ? sp.off : want) > limit)
			return qwen_fail(err, QWEN_ERANGE, "record exceeds the "
			    "limit of %zu bytes", limit);
		*n = sp.off;
		if (got > 0)
			return 0;
		if ((got = fill(r, err)) < 0)
			return -1;
		if (got == 0)
			return qwen_fail(err, QWEN_EFORMAT, "the stream ends "
			    "within the record, after %zu bytes", have);
	}
}

/* The accepted kinds, "tokens or state". */
struct kinds { char s[48]; };

static struct kinds
welcome(const struct qwen_reader *r)
{
	struct kinds list = { "" };
	unsigned k;

	for (k = 1; k <= QWEN_STREAM_TRACE; k <<= 1) {
		if ((r->opts.kinds & k) == 0)
			continue;
		strcat(list.s, list.s[0] != '\0' ? " or " : "");
		strcat(list.s, qwen_stream_name(k));
	}
	return list;
}

static int
is_welcome(const struct qwen_reader *r, unsigned kind)
{
	return r->opts.kinds == 0 || (r->opts.kinds & kind) != 0;
}

/* Refuses a stream of a wrong kind or of another model. */
static int
check_header(const struct qwen_reader *r, struct qwen_err *err)
{
	if (!is_welcome(r, r->header.kind))
		return qwen_fail(err, QWEN_EMISMATCH, "a stream of %s, not of "
		    "%s", qwen_stream_name(r->header.kind), welcome(r).s);
	if (r->opts.self == NULL)
		return 0;
	return qwen_header_match(&r->header, r->opts.self, err);
}

/*
 * Enlarges the pipe for a state, which is large: with a pipe of the default
 * size, both ends wait for each other every 64 KiB.  Ignores failure: fd may
 * not be a pipe, or the user may have too many large pipes.
 */
static void
widen(const struct qwen_reader *r)
{
#ifdef F_SETPIPE_SZ
	if (r->header.kind == QWEN_STREAM_STATE)
		(void)fcntl(r->fd, F_SETPIPE_SZ, PIPE_BYTES);
#else
	(void)r;
#endif
}

const struct qwen_span *
qwen_reader_span(const struct qwen_reader *r)
{
	return &r->nb.span;
}

/* Checks that the caller takes the record: headers of a kind, and spans. */
static int
check_taken(const struct qwen_reader *r, const struct qwen_record *rec,
    struct qwen_err *err)
{
	if ((rec->kind == QWEN_REC_SPAN || rec->kind == QWEN_REC_ROWS) &&
	    !r->opts.spans)
		return qwen_fail(err, QWEN_EUNSUP, "the rows of an image, which "
		    "this program cannot read");
	return rec->kind == QWEN_REC_HEADER ? check_header(r, err) : 0;
}

static int
next_cbor(struct qwen_reader *r, struct qwen_record *rec, struct qwen_err *err)
{
	size_t n = 0;
	int got;

	if (r->start == r->end && (got = fill(r, err)) <= 0)
		return got;
	if (complete(r, &n, err) < 0 || qwen_record_decode(rec,
	    r->buf + r->start, n, &r->header, &r->nb, err) < 0 ||
	    check_taken(r, rec, err) < 0)
		/* a wrong stream is wrong as a whole, else say where */
		return r->n_records == 0 && err != NULL &&
		    err->code == QWEN_EMISMATCH ? -1 : qwen_fail_in(err, "record %llu at byte %llu",
		    (unsigned long long)r->n_records + 1,
		    (unsigned long long)r->offset);
	if (rec->kind == QWEN_REC_HEADER)
		widen(r);
	use(r, n);
	r->n_records++;
	return 1;
}

/* --------------------------------------------------------------- plain ids */

static int
is_space(unsigned char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static int
is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static int
bad_id(const struct qwen_reader *r, struct qwen_err *err)
{
	return qwen_fail_in(err, "line %llu, byte %llu",
	    (unsigned long long)r->n_lines + 1, (unsigned long long)r->offset);
}

/* Parses the id at start: returns 1; 0 if it is incomplete; -1. */
static int
take_id(struct qwen_reader *r, int32_t *out, struct qwen_err *err)
{
	const unsigned char *p = r->buf + r->start;
	size_t i, have = r->end - r->start;
	uint64_t v = 0, limit = r->opts.self != NULL ? r->self.n_vocab :
	    QWEN_VOCAB_MAX;

	for (i = 0; i < have && is_digit(p[i]); i++) {
		if (i == DIGITS_MAX - 1) {
			qwen_fail(err, QWEN_EFORMAT,
			    "a number too large for an id");
			return bad_id(r, err);
		}
		v = 10 * v + (unsigned)(p[i] - '0');
	}
	if (i < have && (i == 0 || !is_space(p[i]))) {
		qwen_fail(err, QWEN_EFORMAT, "not a decimal id: if this is "
		    "text, pipe it through qtok first");
		return bad_id(r, err);
	}
	if (i == have && !r->eof)
		return 0;
	if (v >= limit) {
		qwen_fail(err, QWEN_EFORMAT, "id %llu is outside the vocabulary "
		    "of %llu", (unsigned long long)v,
		    (unsigned long long)limit);
		return bad_id(r, err);
	}
	use(r, i);
	*out = (int32_t)v;
	return 1;
}

/*
 * Skips white space.  With opts.lines, stops at a newline and returns 1: it
 * ends a document that is not reported yet.
 */
static int
skip_space(struct qwen_reader *r)
{
	for (; r->start < r->end && is_space(r->buf[r->start]); use(r, 1)) {
		if (r->buf[r->start] != '\n')
			continue;
		if (r->opts.lines)
			return 1;
		r->n_lines++;
	}
	return 0;
}

/* Takes the ids that have arrived, up to the end of a line with opts.lines. */
static int
take_run(struct qwen_reader *r, size_t *n, int *newline, struct qwen_err *err)
{
	int got;

	for (*n = 0; *n < IDS_RUN; ++*n) {
		if ((*newline = skip_space(r)) != 0 || r->start == r->end)
			return 0;
		if ((got = take_id(r, &r->run[*n], err)) < 0)
			return -1;
		if (got == 0)
			return 0;
	}
	return 0;
}

static int
end_line(struct qwen_reader *r, struct qwen_record *rec)
{
	r->line_open = 0;
	rec->kind = QWEN_REC_END;
	return 1;
}

static int
next_plain(struct qwen_reader *r, struct qwen_record *rec, struct qwen_err *err)
{
	int newline;
	size_t n;

	memset(rec, 0, sizeof *rec);
	for (;;) {
		newline = 0;
		if (take_run(r, &n, &newline, err) < 0)
			return -1;
		if (n > 0)
			break;
		if (newline) {
			use(r, 1);
			r->n_lines++;
			return end_line(r, rec);
		}
		switch (fill(r, err)) {
		case -1:
			return -1;
		case 0:
			if (r->start < r->end)
				continue;	/* the last id ends at the end
						   of the file */
			return r->line_open ? end_line(r, rec) : 0;
		}
	}
	r->line_open = r->opts.lines;
	rec->kind = QWEN_REC_TOKENS;
	rec->ids = r->run;
	rec->n = n;
	return 1;
}

/* -------------------------------------------------------------- first bytes */

/* Reports what the input is instead of a stream, by its first bytes. */
static int
fail_sniff(const struct qwen_reader *r, struct qwen_err *err)
{
	const unsigned char *p = r->buf + r->start;
	enum qwen_what what = qwen_what(p, r->end - r->start);
	const char *got = qwen_what_name(what), *hint = "";

	if (what == QWEN_IS_GGUF)
		hint = ": give a model with -m";
	else if (what == QWEN_IS_JSON)
		hint = ": -f json cannot be read back, use -f cbor";
	else if (what == QWEN_IS_TEXT && is_digit(*p))
		got = "ids in plain text";
	else if (what == QWEN_IS_TEXT && is_welcome(r, QWEN_STREAM_TOKENS))
		hint = ": pipe it through qtok first";
	return qwen_fail(err, QWEN_EMISMATCH, "this is %s, not %s%s", got,
	    r->opts.kinds != 0 ? welcome(r).s : "a stream", hint);
}

/*
 * A CBOR stream never begins with a byte below 0x80, and a stream of this
 * project never with the bytes of a UTF-8 character.
 */
static int
sniff(struct qwen_reader *r, struct qwen_err *err)
{
	const unsigned char *p;
	int got;

	if (r->end == 0 && (got = fill(r, err)) <= 0)
		return got;
	p = r->buf + r->start;
	r->mode = *p < 0x80 ? PLAIN : CBOR;
	if (r->mode == PLAIN ? !is_welcome(r, QWEN_STREAM_TOKENS) ||
	    !(is_space(*p) || is_digit(*p)) :
	    qwen_what(p, r->end - r->start) == QWEN_IS_TEXT)
		return fail_sniff(r, err);
	return 1;
}

int
qwen_reader_next(struct qwen_reader *r, struct qwen_record *rec,
    struct qwen_err *err)
{
	int got = 1;

	if (r->failed)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the stream failed earlier");
	if (r->mode == UNKNOWN)
		got = sniff(r, err);
	if (got > 0)
		got = r->mode == PLAIN ? next_plain(r, rec, err) :
		    next_cbor(r, rec, err);
	r->failed = got < 0;
	return got;
}
