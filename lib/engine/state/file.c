/* SPDX-License-Identifier: ISC */
/*
 * file.c - a state in a seekable file.  Its last record contains the position
 * of the index, and the index the positions of all other records.  A file
 * without an index is read sequentially.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/what.h"
#include "engine/state/read.h"
#include "wire/record.h"

enum { RECORD_MIN = 16 };	/* minimum bytes of a record */

/* ---------------------------------------------------------------- the index */

/* State of opening a file. */
struct opening {
	struct qwen_state_file	*f;
	uint64_t		 size;		/* length of the file */
	unsigned char		*buf;		/* QWEN_STATE_MAX bytes */
	uint64_t		 index;		/* offset of the index */
	unsigned char		*packed;	/* content of the index */
	size_t			 n_packed, cap_packed;
};

/*
 * Reads the next record of the file; of a record whose data can wait, only the
 * entry.
 */
static int
next_of_file(struct qwen_state_reader *v, struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct qwen_state_list *l = &v->f->list;
	size_t i = (size_t)v->counts.n;

	if (i == l->n)
		return qwen_fail(err, QWEN_EFORMAT, "the index is truncated");
	if (qwen_state_waits(&l->entry[i])) {
		memset(rec, 0, sizeof *rec);
		rec->index = i;
		rec->e = l->entry[i];
	} else if (qwen_state_file_rec(v->f, i, rec, v->buf, err) < 0)
		return -1;
	qwen_state_counts_add(&v->counts, &rec->e);
	return 0;
}

/* Reads the stream's header. */
static int
read_header(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_file *f = o->f;
	struct qwen_header h = { 0 };
	struct qwen_numbers nb = { 0 };
	struct qwen_record rec;
	struct qwen_cbor_scan sp = { 0 };
	enum qwen_what what;
	const char *why;
	size_t want, n = o->size < QWEN_HEADER_MAX ? (size_t)o->size :
	    QWEN_HEADER_MAX;

	if (n == 0)
		return qwen_fail(err, QWEN_EFORMAT, "the file is empty");
	if (qwen_state_read_at(f->fd, o->buf, n, 0, err) < 0)
		return -1;
	what = qwen_what(o->buf, n);
	if (what != QWEN_IS_STREAM && (what != QWEN_IS_OTHER ||
	    o->buf[0] < 0x80))
		return qwen_fail(err, QWEN_EMISMATCH, "this is %s, not a state%s",
		    qwen_what_name(what), what == QWEN_IS_GGUF ?
		    ": give a model with -m" : "");
	if (qwen_cbor_scan_step(&sp, o->buf, n, n, &want, &why) != 1)
		return qwen_fail(err, QWEN_EFORMAT, "not the header of a "
		    "stream");
	if (qwen_record_decode(&rec, o->buf, sp.off, &h, &nb, err) < 0)
		return qwen_fail_in(err, "header");
	if (rec.kind != QWEN_REC_HEADER || h.kind != QWEN_STREAM_STATE)
		return qwen_fail(err, QWEN_EMISMATCH,
		    "a stream of %s, not of state",
		    rec.kind == QWEN_REC_HEADER ? qwen_stream_name(h.kind) :
		    "something else");
	if ((f->head = qwen_alloc(1, sp.off)) == NULL)
		return qwen_oom(err);
	memcpy(f->head, o->buf, sp.off);
	f->n_head = sp.off;
	f->in.next = next_of_file;
	f->in.f = f;
	f->in.bytes = o->size;
	f->in.buf = o->buf;
	return qwen_state_reader_init(&f->in, NULL, &rec, err);
}

/*
 * Returns 1 if the QWEN_END_BYTES at p, at byte `at' of the file, are an end
 * record with an index.
 */
static int
is_end(struct qwen_state_rec *rec, const unsigned char *p, uint64_t at)
{
	return qwen_state_rec_parse(rec, QWEN_INDEX_ANY, at, NULL, 0, p,
	    QWEN_END_BYTES, NULL) == 0 && rec->index != 0 &&
	    rec->e.kind == QWEN_K_END && qwen_state_rec_want(rec, NULL) == 0 &&
	    (rec->f.there & 1u << QWEN_F_INDEX) != 0;
}

/*
 * Reads the end record, which has the position of the index.  Returns 1, or 0
 * if there is no such record.  Its other fields are checked later.
 */
static int
read_end(struct opening *o, struct qwen_state_entry *e, struct qwen_err *err)
{
	struct qwen_state_rec rec;
	uint64_t at = o->size - QWEN_END_BYTES;

	if (o->size < o->f->n_head + QWEN_END_BYTES)
		return 0;
	if (qwen_state_read_at(o->f->fd, o->buf, QWEN_END_BYTES, at, err) < 0)
		return -1;
	if (!is_end(&rec, o->buf, at))
		return 0;
	*e = rec.e;
	o->f->steps = rec.f.v[QWEN_F_STEPS].n != 0;
	o->index = rec.f.v[QWEN_F_INDEX].n;
	if (o->index < o->f->n_head || o->index >= at)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the index cannot begin at byte %llu",
		    (unsigned long long)o->index);
	return 1;
}

/* Reads the record of the index at byte at; *e is the entry of this record. */
static int
read_piece(struct opening *o, uint64_t at, struct qwen_state_entry *e,
    struct qwen_err *err)
{
	uint64_t left = o->size - QWEN_END_BYTES - at;
	size_t have = left < QWEN_STATE_MAX ? (size_t)left : QWEN_STATE_MAX;
	struct qwen_cbor_scan sp = { 0 };
	struct qwen_state_rec rec;
	const unsigned char *raw;
	const char *why;
	size_t want, n;

	if (qwen_state_read_at(o->f->fd, o->buf, have, at, err) < 0)
		return -1;
	if (qwen_cbor_scan_step(&sp, o->buf, have, have, &want, &why) != 1)
		return qwen_fail(err, QWEN_EFORMAT, "index at byte %llu: not a "
		    "block of state", (unsigned long long)at);
	if (qwen_state_rec_parse(&rec, QWEN_INDEX_ANY, at, NULL, 0, o->buf,
	    sp.off, err) < 0)
		return -1;
	/* the index cannot have more entries than records fit before it */
	n = o->n_packed + (size_t)rec.e.len;
	if (rec.e.kind != QWEN_K_INDEX || rec.e.len == 0 ||
	    qwen_state_rec_want(&rec, NULL) < 0 ||
	    n / QWEN_ENTRY_BYTES > o->index / RECORD_MIN)
		return qwen_fail(err, QWEN_EFORMAT,
		    "block %llu is not a piece of the index",
		    (unsigned long long)rec.index);
	if (qwen_coder_decode(o->f->in.coder, rec.e.codec, rec.data,
	    rec.n_data, (size_t)rec.e.len, &raw, err) < 0)
		return qwen_state_rec_fail(&rec, err);
	if (qwen_grow(&o->packed, &o->cap_packed, n, 1) < 0)
		return qwen_oom(err);
	memcpy(o->packed + o->n_packed, raw, (size_t)rec.e.len);
	o->n_packed = n;
	*e = rec.e;
	return 0;
}

/*
 * Unpacks and checks the index.  The records must follow each other without
 * gaps up to the index; in a file saved in steps they may lie anywhere before
 * it.
 */
static int
unpack_entries(struct opening *o, struct qwen_err *err)
{
	uint64_t at = o->f->n_head, i, n = o->n_packed / QWEN_ENTRY_BYTES;
	struct qwen_state_entry e;

	for (i = 0; i < n; i++) {
		if (qwen_state_entry_unpack(&e, o->packed +
		    i * QWEN_ENTRY_BYTES, err) < 0)
			return qwen_fail_in(err, "index of block %llu",
			    (unsigned long long)i);
		if (o->f->steps && e.offset >= at && e.offset < o->index)
			at = e.offset;
		if (e.offset != at || e.bytes < RECORD_MIN ||
		    e.bytes > o->index - at)
			return qwen_fail(err, QWEN_EFORMAT, "the index has "
			    "block %llu of %llu bytes at byte %llu, expected "
			    "at %llu", (unsigned long long)i,
			    (unsigned long long)e.bytes,
			    (unsigned long long)e.offset,
			    (unsigned long long)at);
		at = o->f->steps ? o->f->n_head : at + e.bytes;
		if (qwen_state_list_add(&o->f->list, &e, err) < 0)
			return -1;
	}
	return at == o->index || o->f->steps ? 0 : qwen_fail(err, QWEN_EFORMAT,
	    "the index is at byte %llu, but its last block ends at %llu",
	    (unsigned long long)o->index, (unsigned long long)at);
}

/*
 * Opens by the index: collects the entries of all records (those of the index
 * and the end, which the index does not contain, come last), then reads the
 * records.  Returns 1; 0 if there is no index; -1.
 */
static int
open_by_index(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_list own = { 0 };
	struct qwen_state_entry e = { 0 }, end;
	uint64_t at;
	size_t i;
	int r = read_end(o, &end, err);

	if (r <= 0)
		return r;
	for (at = o->index; r > 0 && at < o->size - QWEN_END_BYTES;
	    at += e.bytes) {
		if (read_piece(o, at, &e, err) < 0 ||
		    qwen_state_list_add(&own, &e, err) < 0)
			r = -1;
	}
	if (r > 0 && (unpack_entries(o, err) < 0 ||
	    qwen_state_list_add(&own, &end, err) < 0))
		r = -1;
	for (i = 0; r > 0 && i < own.n; i++)
		r = qwen_state_list_add(&o->f->list, &own.entry[i], err) < 0 ?
		    -1 : 1;
	free(own.entry);
	return r > 0 && qwen_state_read_all(&o->f->in, err) < 0 ? -1 : r;
}

/*
 * Sets o->size to the end of the last complete save, if a later save was
 * interrupted.  Returns 1; 0 if there is no complete save; -1.
 */
static int
find_last_save(struct opening *o, struct qwen_err *err)
{
	uint64_t at, last = 0, from = o->f->n_head;
	size_t n = 0, want;
	struct qwen_state_rec rec;
	struct qwen_cbor_scan sp;
	const char *why;
	int got;

	for (at = from; at < o->size; at += sp.off) {
		sp = (struct qwen_cbor_scan){ 0 };
		got = at == from + n ? 0 : qwen_cbor_scan_step(&sp, o->buf +
		    (at - from), n - (size_t)(at - from), QWEN_STATE_MAX, &want,
		    &why);
		if (got == 0) {		/* read more of the file, from at */
			n = o->size - at < QWEN_STATE_MAX ?
			    (size_t)(o->size - at) : QWEN_STATE_MAX;
			from = at;
			if (qwen_state_read_at(o->f->fd, o->buf, n, at, err) < 0)
				return -1;
			sp = (struct qwen_cbor_scan){ 0 };
			got = qwen_cbor_scan_step(&sp, o->buf, n, n, &want,
			    &why);
		}
		if (got != 1)
			break;
		if (sp.off == QWEN_END_BYTES && is_end(&rec, o->buf +
		    (at - from), at) && rec.f.v[QWEN_F_STEPS].n != 0)
			last = at + sp.off;
	}
	if (last > 0)
		o->size = last;
	return last > 0;
}

/* Reads all blocks, so that the message names the bad block. */
static int
open_by_reading(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_file *f = o->f;

	free(f->list.entry);
	memset(&f->list, 0, sizeof f->list);
	qwen_state_reader_fini(&f->in);
	f->in.list = &f->list;
	f->in.bytes = o->size;
	return qwen_state_read_through(&f->in, NULL, f->fd, err);
}

/* ------------------------------------------------------------------ opening */

/*
 * Returns 1 for the uncompressed form: all data is at multiples of QWEN_ALIGN.
 */
static int
is_mapped(const struct qwen_state_file *f)
{
	const uint64_t behind = 1 + QWEN_CHECK_BYTES;
	size_t i, any = 0;

	for (i = 0; i < f->list.n; i++) {
		const struct qwen_state_entry *e = &f->list.entry[i];

		if (e->len == 0)
			continue;
		if (e->codec != QWEN_CODEC_NONE || e->bytes < e->len + behind ||
		    (e->offset + e->bytes - behind - e->len) % QWEN_ALIGN != 0)
			return 0;
		any = 1;
	}
	return any != 0;
}

static void
fill_info(struct qwen_state_file *f, uint64_t size)
{
	struct qwen_state_info *p = &f->in.lay.info;
	size_t i;

	p->fp = f->in.total;
	p->tokens = f->in.tokens;
	p->spans = f->in.span;
	p->n_spans = f->in.n_span;
	p->mapped = is_mapped(f);
	p->stored = size;
	p->n_blocks = f->list.n;
	p->extra = &f->in.x;
	for (p->raw = 0, i = 0; i < f->list.n; i++)
		p->raw += f->list.entry[i].len;
}

static void
release(struct qwen_source *src)
{
	struct qwen_state_file *f = (struct qwen_state_file *)(void *)src;

	qwen_state_reader_fini(&f->in);
	free(f->list.entry);
	free(f->head);
	free(f->buf);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

static int
open_file(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_file *f = o->f;
	struct qwen_err first = { 0 };
	int got;

	if (read_header(o, err) < 0)
		return -1;
	got = open_by_index(o, &first);
	if (got == 0 && (got = find_last_save(o, &first)) > 0)
		got = open_by_index(o, &first);
	if (got > 0)
		return 0;
	if (got < 0 && f->steps) {
		if (err != NULL)
			*err = first;
		return -1;
	}
	if (got < 0 && first.code != QWEN_EFORMAT &&
	    first.code != QWEN_ERANGE && first.code != QWEN_EUNSUP) {
		if (err != NULL)
			*err = first;
		return -1;
	}
	if (open_by_reading(o, err) < 0)
		return -1;
	/* only the index is invalid */
	if (got < 0 && err != NULL)
		*err = first;
	return got;
}

int
qwen_state_open_fd(struct qwen_state_file **out, int fd, struct qwen_err *err)
{
	struct opening o = { .buf = qwen_alloc_large(1, QWEN_STATE_MAX) };
	struct qwen_state_file *f = qwen_alloc(1, sizeof *f);
	struct stat st;
	int r = -1;

	*out = NULL;
	if (f == NULL) {
		close(fd);
		free(o.buf);
		return qwen_oom(err);
	}
	o.f = f;
	f->fd = fd;
	f->src = (struct qwen_source){ .read = qwen_state_source_read,
	    .release = release, .refs = 1 };
	if (o.buf == NULL)
		qwen_oom(err);
	else if (fstat(fd, &st) < 0)
		qwen_fail_errno(err, "cannot open it");
	else if (!S_ISREG(st.st_mode))
		qwen_fail(err, QWEN_EUNSUP, "the file is not seekable");
	else {
		o.size = (uint64_t)st.st_size;
		r = open_file(&o, err);
	}
	f->in.buf = NULL;
	free(o.buf);
	free(o.packed);
	if (r < 0) {
		release(&f->src);
		return -1;
	}
	fill_info(f, o.size);
	*out = f;
	return 0;
}

int
qwen_state_open(struct qwen_state_file **out, const char *path,
    struct qwen_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	*out = NULL;
	if (fd < 0)
		return qwen_fail_errno(err, "cannot open it");
	return qwen_state_open_fd(out, fd, err);
}

void
qwen_state_close(struct qwen_state_file *f)
{
	if (f != NULL && --f->src.refs == 0)
		release(&f->src);
}

const struct qwen_state_info *
qwen_state_info(const struct qwen_state_file *f)
{
	return &f->in.lay.info;
}

void
qwen_state_block(const struct qwen_state_file *f, size_t i,
    struct qwen_state_block *out)
{
	const struct qwen_state_entry *e = &f->list.entry[i];

	if (i >= f->list.n) {
		*out = (struct qwen_state_block){ .kind = "", .codec = "",
		    .layer = -1, .at = -1 };
		return;
	}
	*out = (struct qwen_state_block){ .kind = e->name, .layer = e->layer,
	    .at = e->at, .off = e->off, .len = e->len, .offset = e->offset,
	    .bytes = e->bytes,
	    .codec = e->has_data ? qwen_codec_name(e->codec) : "" };
}

int
qwen_state_block_read(struct qwen_state_file *f, size_t i,
    const unsigned char **raw, size_t *n, struct qwen_err *err)
{
	const struct qwen_state_entry *e = &f->list.entry[i];
	struct qwen_state_rec rec;

	if (i >= f->list.n)
		return qwen_fail(err, QWEN_ERANGE, "block %zu of %zu", i,
		    f->list.n);
	if (f->buf == NULL && (f->buf = qwen_alloc(1, QWEN_STATE_MAX)) == NULL)
		return qwen_oom(err);
	if (qwen_state_file_rec(f, i, &rec, f->buf, err) < 0)
		return -1;
	*raw = f->buf;
	*n = (size_t)e->len;
	return e->len == 0 ? 0 : qwen_state_file_data(f, &rec, f->in.coder,
	    raw, err);
}
