/* SPDX-License-Identifier: ISC */
/*
 * copy.c - a state from a file to a stream, without the model: cut at a
 * checkpoint, or in the other form.  Blocks are taken in the order of the file,
 * which is that of a writer; what need not change is not encoded again.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/model.h"
#include "engine/state/load.h"
#include "wire/record.h"

enum { LEVEL = 1, NONE = -1 };	/* of zstd, as in save.c */

struct copy {
	struct qwen_state_file	*f;
	uint64_t		 to;
	const struct qwen_state_opts *opts;
	struct qwen_writer	*w;
	struct qwen_state_sum	 sum;
	struct qwen_state_put	 put;
	struct qwen_state_list	 list;	/* what the index will say */
	struct qwen_coder	*coder;
	unsigned char		*raw, *out;	/* QWEN_PIECE_MAX each */
	unsigned char		*rec;		/* QWEN_STATE_MAX */
	struct qwen_err		*err;
};

/* ------------------------------------------------------------------- writing */

/* The record that is complete in c->put. */
static int
finish(struct copy *c, const void *data, size_t n_data,
    struct qwen_state_entry *e)
{
	e->offset = c->sum.bytes;
	qwen_state_put_finish(&c->put, &c->sum, data, n_data, e->len,
	    c->opts->no_compress ? QWEN_ALIGN : 0);
	e->bytes = c->put.n;
	memcpy(e->check, c->put.buf + c->put.n - QWEN_CHECK_BYTES,
	    QWEN_CHECK_BYTES);
	if (qwen_state_list_add(&c->list, e, c->err) < 0)
		return -1;
	return qwen_write_state(c->w, c->put.buf, c->put.n, c->err);
}

/* A record without data; the fields follow. */
static void
begin(struct copy *c, const char *kind, size_t n_fields,
    struct qwen_state_entry *e)
{
	*e = (struct qwen_state_entry){ .layer = NONE, .at = NONE };
	strcpy(e->kind, kind);
	qwen_state_put_begin(&c->put, &c->sum, kind, n_fields);
}

/* A piece of data, which is encoded: e says what and how. */
static int
put_data(struct copy *c, struct qwen_state_entry *e, const void *data,
    size_t n_data)
{
	struct qwen_state_put *p = &c->put;

	qwen_state_put_begin(p, &c->sum, e->kind,
	    3u + (e->layer != NONE) + (e->at != NONE));
	if (e->layer != NONE)
		qwen_state_put_uint(p, QWEN_F_LAYER, (uint64_t)e->layer);
	if (e->at != NONE)
		qwen_state_put_uint(p, QWEN_F_AT, (uint64_t)e->at);
	qwen_state_put_uint(p, QWEN_F_OFF, e->off);
	qwen_state_put_uint(p, QWEN_F_LEN, e->len);
	qwen_state_put_text(p, QWEN_F_CODEC, qwen_codec_name(e->codec));
	return finish(c, data, n_data, e);
}

/* The same of data that is not encoded, numbers of width bytes. */
static int
put_raw(struct copy *c, struct qwen_state_entry *e, const void *raw,
    unsigned width)
{
	const unsigned char *data;
	size_t n_data;

	if (qwen_coder_encode(c->coder, raw, (size_t)e->len, width,
	    c->opts->no_compress ? 0 : LEVEL, c->out, &e->codec, &data, &n_data,
	    c->err) < 0)
		return -1;
	return put_data(c, e, data, n_data);
}

/* ------------------------------------------------------------------ the data */

static unsigned
width_of(const struct qwen_state_entry *e)
{
	return strcmp(e->kind, "kv") == 0 ? 2 : 4;
}

/* How many bytes of its object the copy has. */
static uint64_t
object_bytes(const struct copy *c, const struct qwen_state_entry *e)
{
	if (strcmp(e->kind, "tokens") == 0)
		return c->to * sizeof(int32_t);
	if (strcmp(e->kind, "kv") == 0)
		return (c->to + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK *
		    qwen_state_kv_block(&c->f->info.layers[e->layer]);
	return UINT64_MAX;
}

/* Positions from c->to on of the n bytes at p, which lie at off of the cache. */
static void
clear_lanes(const struct copy *c, const struct qwen_state_layer *l,
    unsigned char *p, uint64_t off, size_t n)
{
	struct qwen_hparams h = { .n_head_kv = (size_t)l->n[0],
	    .n_embd_head = (size_t)l->n[1] };
	uint64_t last = c->to / QWEN_KV_BLOCK * qwen_state_kv_block(l);
	size_t skip, used = (size_t)(c->to % QWEN_KV_BLOCK);

	if (used == 0 || off + n <= last)
		return;
	skip = off < last ? (size_t)(last - off) : 0;
	qwen_session_clear_lanes(&h, p + skip, (size_t)(off + skip - last),
	    n - skip, used);
}

/* Does nothing of the piece change but, perhaps, its form? */
static int
is_whole(const struct copy *c, const struct qwen_state_entry *e,
    uint64_t limit)
{
	return c->to == c->f->info.n_tokens || (e->off + e->len <= limit &&
	    (strcmp(e->kind, "kv") != 0 || e->off + e->len < limit ||
	    c->to % QWEN_KV_BLOCK == 0));
}

/* As it is stored, if that is the form it is to have: 1, or 0, or -1. */
static int
copy_stored(struct copy *c, size_t i)
{
	struct qwen_state_entry e = c->f->list.entry[i];
	struct qwen_state_rec rec;
	int packed = e.codec != QWEN_CODEC_NONE;

	/* in the compressed form, what gains nothing is not packed either */
	if (packed ? c->opts->no_compress :
	    !c->opts->no_compress && c->f->info.mapped)
		return 0;
	if (qwen_state_file_rec(c->f, i, &rec, c->rec, c->err) < 0)
		return -1;
	return put_data(c, &e, rec.data, rec.n_data) < 0 ? -1 : 1;
}

static int
copy_piece(struct copy *c, size_t i)
{
	struct qwen_state_entry e = c->f->list.entry[i];
	uint64_t limit = object_bytes(c, &e);
	const unsigned char *raw;
	size_t n;
	int done;

	if (e.off >= limit)
		return 0;
	if (is_whole(c, &e, limit) && (done = copy_stored(c, i)) != 0)
		return done < 0 ? -1 : 0;
	if (qwen_state_block_read(c->f, i, &raw, &n, c->err) < 0)
		return -1;
	if (e.len > limit - e.off)
		e.len = limit - e.off;
	memcpy(c->raw, raw, (size_t)e.len);
	if (strcmp(e.kind, "kv") == 0)
		clear_lanes(c, &c->f->info.layers[e.layer], c->raw, e.off,
		    (size_t)e.len);
	return put_raw(c, &e, c->raw, width_of(&e));
}

/* ------------------------------------------------------------- other records */

static void
put_shape(struct copy *c, const struct qwen_state_layer *l)
{
	struct qwen_state_put *p = &c->put;
	size_t i, n = l->kv ? 2 : 5;

	qwen_state_put_array(p, 1 + n);
	qwen_state_put_string(p, l->kv ? "kv" : "delta");
	for (i = 0; i < n; i++)
		qwen_state_put_number(p, l->n[i]);
}

static int
put_info(struct copy *c)
{
	const struct qwen_state_info *info = &c->f->info;
	struct qwen_state_put *p = &c->put;
	struct qwen_state_entry e;
	size_t i;

	if (info->n_layers > QWEN_PIECE_MAX / 64)
		return qwen_fail(c->err, QWEN_ERANGE, "%zu layers",
		    info->n_layers);
	begin(c, "info", 5, &e);
	qwen_state_put_uint(p, QWEN_F_FORMAT, QWEN_STATE_FORMAT);
	qwen_state_put_text(p, QWEN_F_WRITER, "libqwen " QWEN_VERSION);
	qwen_state_put_uint(p, QWEN_F_N_TOKENS, c->to);
	qwen_state_put_uint(p, QWEN_F_KV_BLOCK, QWEN_KV_BLOCK);
	qwen_state_put_key(p, QWEN_F_LAYERS);
	qwen_state_put_array(p, info->n_layers);
	for (i = 0; i < info->n_layers; i++)
		put_shape(c, &info->layers[i]);
	return finish(c, NULL, 0, &e);
}

/* Bytes that are an object by themselves. */
static int
put_object(struct copy *c, const char *kind, const void *p, uint64_t n)
{
	struct qwen_state_entry e;
	uint64_t off;

	for (off = 0; off < n; off += e.len) {
		e = (struct qwen_state_entry){ .has_data = 1, .layer = NONE,
		    .at = NONE, .off = off };
		e.len = n - off < QWEN_PIECE_MAX ? n - off : QWEN_PIECE_MAX;
		strcpy(e.kind, kind);
		if (put_raw(c, &e, (const char *)p + off, 1) < 0)
			return -1;
	}
	return 0;
}

static int
put_mark(struct copy *c, uint64_t at)
{
	struct qwen_state_entry e;

	begin(c, "checkpoint", 2, &e);
	e.at = (int64_t)at;
	qwen_state_put_uint(&c->put, QWEN_F_AT, at);
	qwen_state_put_bool(&c->put, QWEN_F_NAMED, 1);
	return finish(c, NULL, 0, &e);
}

static int
put_extra(struct copy *c, const struct qwen_state_extra *x)
{
	struct qwen_state_entry e;

	if (put_object(c, "generated", x->generated,
	    x->n_generated * sizeof *x->generated) < 0)
		return -1;
	e = (struct qwen_state_entry){ .layer = NONE, .at = NONE,
	    .kind = "sampler" };
	if (qwen_state_put_sampler(&c->put, &c->sum, x) &&
	    finish(c, NULL, 0, &e) < 0)
		return -1;
	e = (struct qwen_state_entry){ .layer = NONE, .at = NONE,
	    .kind = "run" };
	return qwen_state_put_run(&c->put, &c->sum, &x->run, c->to) ?
	    finish(c, NULL, 0, &e) : 0;
}

/* -------------------------------------------------------------- from end to end */

/* Is the recurrent state at this position part of the copy? */
static int
is_kept(const struct copy *c, int64_t at)
{
	return at == NONE || (uint64_t)at == c->to ||
	    ((uint64_t)at < c->to && !c->opts->no_checkpoints);
}

static int
copy_record(struct copy *c, size_t i)
{
	static const char *const data[] = { "tokens", "kv", "delta", "conv",
	    "logits" };
	const struct qwen_state_entry *e = &c->f->list.entry[i];
	size_t k;

	if (!is_kept(c, e->at))
		return 0;
	if (strcmp(e->kind, "checkpoint") == 0)
		return put_mark(c, (uint64_t)e->at);
	for (k = 0; k < sizeof data / sizeof data[0]; k++) {
		if (strcmp(e->kind, data[k]) == 0)
			return copy_piece(c, i);
	}
	return 0;	/* made anew, or of no use to us */
}

static int
put_index(struct copy *c)
{
	size_t i, n = c->list.n;
	unsigned char *b = qwen_alloc(n, QWEN_ENTRY_BYTES);
	int r;

	if (b == NULL)
		return qwen_fail(c->err, QWEN_ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		qwen_state_entry_pack(&c->list.entry[i],
		    b + i * QWEN_ENTRY_BYTES);
	r = put_object(c, "index", b, n * QWEN_ENTRY_BYTES);
	free(b);
	return r;
}

static int
put_all(struct copy *c, const struct qwen_state_extra *x, struct qwen_fp *fp)
{
	struct qwen_state_entry e;
	uint64_t index;
	size_t i;

	if (put_info(c) < 0)
		return -1;
	for (i = 0; i < c->f->list.n; i++) {
		if (copy_record(c, i) < 0)
			return -1;
	}
	if (put_extra(c, x) < 0)
		return -1;
	index = c->sum.bytes;
	if (put_index(c) < 0)
		return -1;
	e = (struct qwen_state_entry){ .layer = NONE, .at = NONE,
	    .kind = "end" };
	qwen_state_put_end(&c->put, &c->sum, index, fp);
	return finish(c, NULL, 0, &e);
}

/* The state can be gone on from where it is cut. */
static int
check_cut(const struct copy *c)
{
	const struct qwen_state_info *info = &c->f->info;
	size_t i;

	if (info->part)
		return qwen_fail(c->err, QWEN_EUNSUP, "a part of a state, from "
		    "position %llu on", (unsigned long long)info->from);
	if (c->to == info->n_tokens)
		return 0;
	for (i = 0; i < info->n_checkpoints; i++) {
		if (info->checkpoints[i].at == c->to)
			return 0;
	}
	return qwen_fail(c->err, QWEN_ERANGE, "no checkpoint after %llu tokens",
	    (unsigned long long)c->to);
}

static int
init(struct copy *c)
{
	const struct qwen_header *h = &c->f->info.header;
	unsigned char buf[QWEN_HEADER_MAX];

	c->put.cap = QWEN_STATE_MAX + QWEN_FIELDS_MAX;
	if ((c->put.buf = qwen_alloc(1, c->put.cap)) == NULL ||
	    (c->raw = qwen_alloc(1, QWEN_PIECE_MAX)) == NULL ||
	    (c->out = qwen_alloc(1, QWEN_PIECE_MAX)) == NULL ||
	    (c->rec = qwen_alloc(1, QWEN_STATE_MAX)) == NULL)
		return qwen_fail(c->err, QWEN_ENOMEM, "out of memory");
	if (qwen_coder_new(&c->coder, c->err) < 0)
		return -1;
	return qwen_state_sum_init(&c->sum, buf, qwen_header_encode(h, buf),
	    c->err);
}

static void
fini(struct copy *c)
{
	qwen_state_sum_fini(&c->sum);
	qwen_coder_free(c->coder);
	free(c->put.buf);
	free(c->list.entry);
	free(c->raw);
	free(c->out);
	free(c->rec);
}

int
qwen_state_copy(struct qwen_state_file *f, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err)
{
	static const struct qwen_state_opts plain;
	struct copy c = { .f = f, .w = w, .err = err };
	struct qwen_state_extra x = { 0 };
	struct qwen_fp total;
	int r = -1;

	c.opts = opts != NULL ? opts : &plain;
	c.to = c.opts->to > 0 ? c.opts->to : f->info.n_tokens;
	if (check_cut(&c) == 0 && qwen_state_extra_copy(&x, f->info.extra, c.to,
	    c.to == f->info.n_tokens, err) == 0 && init(&c) == 0 &&
	    qwen_write_header(w, &f->info.header, err) == 0 &&
	    put_all(&c, &x, &total) == 0)
		r = 0;
	if (r == 0 && fp != NULL)
		*fp = total;
	qwen_state_extra_fini(&x);
	fini(&c);
	return r;
}
