/* SPDX-License-Identifier: ISC */
/*
 * file.c - a state in a file that can be read at any place: its last record
 * says where the index is, and the index where all else is.  A file without
 * an index is read through once instead.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/model.h"
#include "engine/state/load.h"
#include "wire/record.h"

enum { RECORD_MIN = 16 };	/* no record is shorter */

/* n bytes at offset: 0, or -1 if they are not there. */
static int
read_at(int fd, void *buf, size_t n, uint64_t offset, struct qwen_err *err)
{
	size_t done = 0;
	ssize_t got;

	while (done < n) {
		got = pread(fd, (char *)buf + done, n - done,
		    (off_t)(offset + done));
		if (got == 0)
			return qwen_fail(err, QWEN_EFORMAT,
			    "the file ends at byte %llu",
			    (unsigned long long)(offset + done));
		if (got < 0 && errno != EINTR)
			return qwen_fail_errno(err, "read");
		done += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

/* -------------------------------------------------------------- the records */

/* The parsed record is what the index says? */
static int
same_entry(const struct qwen_state_entry *a, const struct qwen_state_entry *b)
{
	return strcmp(a->kind, b->kind) == 0 && a->has_data == b->has_data &&
	    a->codec == b->codec && a->layer == b->layer && a->at == b->at &&
	    a->off == b->off && a->len == b->len &&
	    memcmp(a->check, b->check, sizeof a->check) == 0;
}

int
qwen_state_file_parse(const struct qwen_state_file *f, size_t i,
    struct qwen_state_rec *rec, const unsigned char *p, struct qwen_err *err)
{
	const struct qwen_state_entry *e = &f->list.entry[i];
	struct qwen_state_entry got;

	if (qwen_state_rec_parse(rec, i, e->offset, f->head, f->n_head, p,
	    (size_t)e->bytes, err) < 0)
		return -1;
	qwen_state_entry_of(&got, rec, p, (size_t)e->bytes);
	if (same_entry(&got, e))
		return 0;
	qwen_fail(err, QWEN_EFORMAT, "it is not what the index says");
	return qwen_state_rec_fail(rec, err);
}

int
qwen_state_file_rec(const struct qwen_state_file *f, size_t i,
    struct qwen_state_rec *rec, unsigned char *buf, struct qwen_err *err)
{
	const struct qwen_state_entry *e = &f->list.entry[i];

	if (read_at(f->fd, buf, (size_t)e->bytes, e->offset, err) < 0)
		return qwen_fail_in(err, "state block %zu", i);
	return qwen_state_file_parse(f, i, rec, buf, err);
}

/* ---------------------------------------------------------------- the index */

/* What opening goes through. */
struct opening {
	struct qwen_state_file	*f;
	uint64_t		 size;		/* of the file */
	unsigned char		*buf;		/* QWEN_STATE_MAX */
	uint64_t		 n;		/* records that are in the index */
	uint64_t		 index;		/* where it is */
	uint64_t		 n_all, raw;	/* as the end says */
	unsigned char		*packed;	/* the index */
	size_t			 n_packed;
	XXH3_state_t		*checks;
	int			 has_index;
};

/* The stream's header, at the front of the file. */
static int
read_header(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_file *f = o->f;
	struct qwen_header h = { 0 };
	struct qwen_numbers nb = { 0 };
	struct qwen_record rec;
	struct qwen_span sp = { 0 };
	const char *why;
	size_t want, n = o->size < QWEN_HEADER_MAX ? (size_t)o->size :
	    QWEN_HEADER_MAX;

	if (n == 0)
		return qwen_fail(err, QWEN_EFORMAT, "the file is empty");
	if (read_at(f->fd, o->buf, n, 0, err) < 0)
		return -1;
	if (o->buf[0] < 0x80)
		return qwen_fail(err, QWEN_EMISMATCH,
		    "a stream of plain text, not of state");
	if (qwen_span_step(&sp, o->buf, n, n, &want, &why) != 1)
		return qwen_fail(err, QWEN_EFORMAT, "header: not one of a "
		    "stream");
	if (qwen_record_decode(&rec, o->buf, sp.off, &h, &nb, err) < 0)
		return qwen_fail_in(err, "header");
	if (rec.kind != QWEN_REC_HEADER || h.kind != QWEN_STREAM_STATE)
		return qwen_fail(err, QWEN_EMISMATCH,
		    "a stream of %s, not of state",
		    rec.kind == QWEN_REC_HEADER ? qwen_stream_name(h.kind) :
		    "something else");
	if ((f->head = qwen_alloc(1, sp.off)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	memcpy(f->head, o->buf, sp.off);
	f->n_head = sp.off;
	f->info.header = h;
	f->in.lay.n_vocab = h.n_vocab;
	return 0;
}

/*
 * The number that a record begins with, for one whose place is not known
 * otherwise.
 */
static uint64_t
number_of(const unsigned char *p, size_t n)
{
	struct qwen_item it;
	size_t want;

	if (n < 2 || p[0] != 0x85 ||
	    qwen_item_decode(p + 1, n - 1, &it, &want) != 1)
		return 0;
	return it.n;
}

/* The end record; 1, or 0 if there is none that tells of an index. */
static int
read_end(struct opening *o, struct qwen_err *err)
{
	const unsigned fields = 1u << QWEN_F_RECORDS | 1u << QWEN_F_BYTES |
	    1u << QWEN_F_RAW | 1u << QWEN_F_TOTAL | 1u << QWEN_F_INDEX;
	struct qwen_state_file *f = o->f;
	struct qwen_state_rec rec;
	struct qwen_state_entry e;
	uint64_t at = o->size - QWEN_END_BYTES;

	if (o->size < f->n_head + QWEN_END_BYTES)
		return 0;
	if (read_at(f->fd, o->buf, QWEN_END_BYTES, at, err) < 0)
		return -1;
	o->n_all = number_of(o->buf, QWEN_END_BYTES);
	if (o->n_all == 0 || qwen_state_rec_parse(&rec, o->n_all, at, NULL, 0,
	    o->buf, QWEN_END_BYTES, NULL) < 0 ||
	    strcmp(rec.kind, "end") != 0 ||
	    qwen_state_rec_want(&rec, fields, 0, NULL) < 0 || rec.n_data != 0 ||
	    rec.f[QWEN_F_RECORDS].n != o->n_all ||
	    rec.f[QWEN_F_BYTES].n != at ||
	    rec.f[QWEN_F_TOTAL].n != sizeof f->info.fp.b)
		return 0;
	o->index = rec.f[QWEN_F_INDEX].n;
	o->raw = rec.f[QWEN_F_RAW].n;
	memcpy(f->info.fp.b, rec.f[QWEN_F_TOTAL].s, sizeof f->info.fp.b);
	o->has_index = 1;
	if (o->index < f->n_head || o->index >= at)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the index cannot be at byte %llu",
		    (unsigned long long)o->index);
	qwen_state_entry_of(&e, &rec, o->buf, QWEN_END_BYTES);
	/* until the others are there: behind them */
	return qwen_state_list_add(&f->list, &e, err) < 0 ? -1 : 1;
}

/* One record of the index, whose length is n. */
static int
take_index(struct opening *o, uint64_t at, size_t n, uint64_t number,
    struct qwen_state_entry *e, struct qwen_err *err)
{
	struct qwen_state_file *f = o->f;
	struct qwen_state_rec rec;
	const unsigned char *raw;
	unsigned char *more;

	if (qwen_state_rec_parse(&rec, number, at, NULL, 0, o->buf, n,
	    err) < 0)
		return -1;
	if (strcmp(rec.kind, "index") != 0 || qwen_state_rec_want(&rec,
	    1u << QWEN_F_OFF | 1u << QWEN_F_LEN | 1u << QWEN_F_CODEC, 0,
	    NULL) < 0 || rec.off != o->n_packed || rec.len == 0 ||
	    rec.len > o->n * QWEN_ENTRY_BYTES - o->n_packed)
		return qwen_fail(err, QWEN_EFORMAT,
		    "block %llu is not a piece of the index",
		    (unsigned long long)number);
	if (qwen_coder_decode(f->in.coder, rec.codec, rec.data, rec.n_data,
	    rec.len, &raw, err) < 0)
		return qwen_state_rec_fail(&rec, err);
	if ((more = realloc(o->packed, o->n_packed + rec.len)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	o->packed = more;
	memcpy(o->packed + o->n_packed, raw, rec.len);
	o->n_packed += rec.len;
	qwen_state_entry_of(e, &rec, o->buf, n);
	return 0;
}

/* The length of the record at byte at, in o->buf then. */
static int
read_rec(struct opening *o, uint64_t at, size_t *n, struct qwen_err *err)
{
	uint64_t left = o->size - QWEN_END_BYTES - at;
	size_t have = left < QWEN_STATE_MAX ? (size_t)left : QWEN_STATE_MAX;
	struct qwen_span sp = { 0 };
	const char *why;
	size_t want;

	if (read_at(o->f->fd, o->buf, have, at, err) < 0)
		return -1;
	if (qwen_span_step(&sp, o->buf, have, have, &want, &why) != 1)
		return qwen_fail(err, QWEN_EFORMAT, "index at byte %llu: not a "
		    "block of state", (unsigned long long)at);
	*n = sp.off;
	return 0;
}

/*
 * All records of the index: as many as the end leaves room for.  Their own
 * entries go into *own, since they are not in it.
 */
static int
read_index(struct opening *o, struct qwen_state_list *own, struct qwen_err *err)
{
	struct qwen_state_entry e;
	uint64_t at = o->index;
	size_t n;

	/* its first one has the number of records before it */
	if (read_rec(o, at, &n, err) < 0)
		return -1;
	o->n = number_of(o->buf, n);
	if (o->n == 0 || o->n >= o->n_all || o->n > o->index / RECORD_MIN)
		return qwen_fail(err, QWEN_EFORMAT, "an index of %llu blocks",
		    (unsigned long long)o->n);
	for (; at < o->size - QWEN_END_BYTES; at += n) {
		if (read_rec(o, at, &n, err) < 0 ||
		    take_index(o, at, n, o->n + own->n, &e, err) < 0 ||
		    qwen_state_list_add(own, &e, err) < 0)
			return -1;
	}
	if (o->n_packed != o->n * QWEN_ENTRY_BYTES || own->n + o->n != o->n_all)
		return qwen_fail(err, QWEN_EFORMAT, "the index is not whole");
	return 0;
}

/* Record after record without a gap up to the index. */
static int
take_entries(struct opening *o, struct qwen_state_list *list,
    struct qwen_err *err)
{
	uint64_t at = o->f->n_head, i;
	struct qwen_state_entry e;

	for (i = 0; i < o->n; i++) {
		if (qwen_state_entry_unpack(&e, o->packed +
		    i * QWEN_ENTRY_BYTES, err) < 0)
			return qwen_fail_in(err, "index of block %llu",
			    (unsigned long long)i);
		if (e.offset != at || e.bytes < RECORD_MIN ||
		    e.bytes > o->index - at)
			return qwen_fail(err, QWEN_EFORMAT, "the index has "
			    "block %llu, of %llu bytes, at byte %llu, where "
			    "%llu was due", (unsigned long long)i,
			    (unsigned long long)e.bytes,
			    (unsigned long long)e.offset,
			    (unsigned long long)at);
		at += e.bytes;
		if (qwen_state_list_add(list, &e, err) < 0)
			return -1;
	}
	return at == o->index ? 0 : qwen_fail(err, QWEN_EFORMAT,
	    "the index is at byte %llu, its last block ends at %llu",
	    (unsigned long long)o->index, (unsigned long long)at);
}

/* The fingerprint and the sum of sizes are those of the records. */
static int
check_total(struct opening *o, struct qwen_err *err)
{
	const struct qwen_state_list *l = &o->f->list;
	struct qwen_state_sum sum = { .checks = o->checks };
	struct qwen_fp total;
	uint64_t raw = 0;
	size_t i;

	XXH3_128bits_reset(o->checks);
	for (i = 0; i + 1 < l->n; i++) {
		XXH3_128bits_update(o->checks, l->entry[i].check,
		    QWEN_CHECK_BYTES);
		raw += l->entry[i].len;
	}
	qwen_state_sum_total(&sum, &total);
	if (raw != o->raw)
		return qwen_fail(err, QWEN_EFORMAT, "the counts are wrong");
	return memcmp(&total, &o->f->info.fp, sizeof total) == 0 ? 0 :
	    qwen_fail(err, QWEN_EFORMAT, "the index is not that of the blocks "
	    "that were written");
}

/* Entries of all records, those of the index and the end last. */
static int
join_lists(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_list all = { 0 }, own = { 0 };
	struct qwen_state_list *l = &o->f->list;
	size_t i;
	int r = -1;

	if (read_index(o, &own, err) < 0 || take_entries(o, &all, err) < 0)
		goto out;
	for (i = 0; i < own.n; i++) {
		if (qwen_state_list_add(&all, &own.entry[i], err) < 0)
			goto out;
	}
	if (qwen_state_list_add(&all, &l->entry[0], err) < 0)
		goto out;
	free(l->entry);
	*l = all;
	memset(&all, 0, sizeof all);
	r = check_total(o, err);
out:
	free(all.entry);
	free(own.entry);
	return r;
}

int
qwen_state_is_known(const struct qwen_state_entry *e)
{
	static const char *const names[] = { "kv", "delta", "conv", "logits" };
	size_t i;

	for (i = 0; i < 4; i++) {
		if (strcmp(e->kind, names[i]) == 0)
			return e->has_data;
	}
	return 0;
}

/* Go through the records by the index, and read those that are small. */
static int
take_records(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_file *f = o->f;
	struct qwen_state_rec rec;
	uint64_t i;

	for (i = 0; i < o->n; i++) {
		const struct qwen_state_entry *e = &f->list.entry[i];

		if (qwen_state_is_known(e)) {
			if (qwen_state_layout_add(&f->in.lay, e, err) < 0)
				return qwen_fail_in(err, "state block %llu (%s) "
				    "at byte %llu", (unsigned long long)i,
				    e->kind, (unsigned long long)e->offset);
			continue;
		}
		if (strcmp(e->kind, "index") == 0 ||
		    strcmp(e->kind, "end") == 0)
			return qwen_fail(err, QWEN_EFORMAT,
			    "block %llu of the index is %s",
			    (unsigned long long)i, e->kind);
		/* unknown kinds too: they must say that they can be skipped */
		if (qwen_state_file_rec(f, (size_t)i, &rec, o->buf, err) < 0)
			return -1;
		if (qwen_state_take(&f->in, &rec, e, err) < 0)
			return qwen_state_rec_fail(&rec, err);
	}
	return qwen_state_layout_end(&f->in.lay, err);
}

/* 1: opened by the index; 0: there is none; -1. */
static int
open_by_index(struct opening *o, struct qwen_err *err)
{
	int got = read_end(o, err);

	if (got <= 0)
		return got;
	return join_lists(o, err) < 0 || take_records(o, err) < 0 ? -1 : 1;
}

/* ------------------------------------------------------------ read through */

int
qwen_state_read_through(struct qwen_state_in *v, int fd, struct qwen_header *h,
    struct qwen_err *err)
{
	struct qwen_reader_opts opts = { .kinds = QWEN_STREAM_STATE };
	struct qwen_reader *r;
	struct qwen_record rec;
	int got, rc = -1;

	if (lseek(fd, 0, SEEK_SET) == -1 && errno != ESPIPE)
		return qwen_fail_errno(err, "cannot seek");
	if (qwen_reader_open(&r, fd, &opts, err) < 0)
		return -1;
	if ((got = qwen_reader_next(r, &rec, err)) == 0)
		qwen_fail(err, QWEN_EFORMAT, "the file is empty");
	if (got > 0 && rec.kind == QWEN_REC_HEADER)
		*h = *rec.header;
	if (got > 0 && qwen_state_in_init(v, NULL, &rec, err) == 0 &&
	    qwen_state_take_all(v, r, err) == 0)
		rc = qwen_reader_next(r, &rec, err) == 0 ? 0 :
		    qwen_fail(err, QWEN_EFORMAT,
		    "bytes follow the end of the state");
	qwen_reader_close(r);
	return rc;
}

/*
 * Without an index, or with one that was not believed: then this tells what is
 * wrong, by the block.
 */
static int
open_by_reading(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_file *f = o->f;
	struct qwen_header h;

	free(f->list.entry);
	memset(&f->list, 0, sizeof f->list);
	qwen_state_in_fini(&f->in);
	f->in.list = &f->list;
	if (qwen_state_read_through(&f->in, f->fd, &h, err) < 0)
		return -1;
	f->info.fp = f->in.total;
	return 0;
}

/* ------------------------------------------------------------------ together */

/* Without compression: every piece lies at a multiple of QWEN_ALIGN. */
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
	struct qwen_state_info *p = &f->info;
	const struct qwen_state_layout *l = &f->in.lay;
	size_t i;

	p->part = l->part;
	p->from = l->from;
	p->prefix = l->prefix;
	p->n_tokens = l->n_tokens;
	p->tokens = f->in.tokens;
	p->checkpoints = l->checkpoint;
	p->n_checkpoints = l->n_checkpoint;
	p->recurrent = l->recurrent;
	p->named = l->end_named;
	p->logits = l->end_logits;
	p->mapped = is_mapped(f);
	p->stored = size;
	p->n_blocks = f->list.n;
	p->layers = l->layer;
	p->n_layers = l->n_layer;
	p->extra = &f->in.x;
	for (p->raw = 0, i = 0; i < f->list.n; i++)
		p->raw += f->list.entry[i].len;
}

static void
release(struct qwen_source *src)
{
	struct qwen_state_file *f = (struct qwen_state_file *)(void *)src;

	qwen_state_in_fini(&f->in);
	free(f->list.entry);
	free(f->head);
	free(f->buf);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

struct qwen_state_file *
qwen_state_file_of(struct qwen_source *src)
{
	return src != NULL && src->release == release ?
	    (struct qwen_state_file *)(void *)src : NULL;
}

static int
open_file(struct opening *o, struct qwen_err *err)
{
	struct qwen_state_file *f = o->f;
	struct qwen_err first = { 0 };
	int got;

	if (read_header(o, err) < 0 || qwen_coder_new(&f->in.coder, err) < 0 ||
	    qwen_state_follow_init(&f->in.follow, err) < 0)
		return -1;
	if ((got = open_by_index(o, &first)) > 0)
		return 0;
	if (got < 0 && first.code != QWEN_EFORMAT &&
	    first.code != QWEN_ERANGE && first.code != QWEN_EUNSUP) {
		if (err != NULL)
			*err = first;
		return -1;
	}
	if (open_by_reading(o, err) < 0)
		return -1;
	/* all is well but for the index */
	if (got < 0 && err != NULL)
		*err = first;
	return got;
}

int
qwen_state_open_fd(struct qwen_state_file **out, int fd, struct qwen_err *err)
{
	struct opening o = { .checks = XXH3_createState() };
	struct qwen_state_file *f = qwen_alloc(1, sizeof *f);
	struct stat st;
	int r = -1;

	*out = NULL;
	o.f = f;
	if (f == NULL) {
		close(fd);
		XXH3_freeState(o.checks);
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	}
	f->fd = fd;
	f->src = (struct qwen_source){ .read = qwen_state_source_read,
	    .release = release, .refs = 1 };
	o.buf = qwen_alloc_large(1, QWEN_STATE_MAX);
	if (o.checks == NULL || o.buf == NULL)
		qwen_fail(err, QWEN_ENOMEM, "out of memory");
	else if (fstat(fd, &st) < 0)
		qwen_fail_errno(err, "cannot open it");
	else if (!S_ISREG(st.st_mode))
		qwen_fail(err, QWEN_EUNSUP, "not a file that can be read at "
		    "any place");
	else {
		o.size = (uint64_t)st.st_size;
		r = open_file(&o, err);
	}
	free(o.buf);
	free(o.packed);
	XXH3_freeState(o.checks);
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
	return &f->info;
}

void
qwen_state_block(const struct qwen_state_file *f, size_t i,
    struct qwen_state_block *out)
{
	const struct qwen_state_entry *e = &f->list.entry[i];

	*out = (struct qwen_state_block){ .kind = e->kind, .layer = e->layer,
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

	if (f->buf == NULL && (f->buf = qwen_alloc(1, QWEN_STATE_MAX)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	if (qwen_state_file_rec(f, i, &rec, f->buf, err) < 0)
		return -1;
	*raw = f->buf;
	*n = (size_t)e->len;
	if (e->len == 0)
		return 0;
	if (qwen_state_want(&rec, err) < 0 ||
	    qwen_coder_decode(f->in.coder, rec.codec, rec.data, rec.n_data,
	    rec.len, raw, err) < 0 ||
	    qwen_state_layout_check(&f->in.lay, e, *raw, err) < 0)
		return qwen_state_rec_fail(&rec, err);
	return 0;
}
