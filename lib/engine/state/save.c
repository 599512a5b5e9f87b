/* SPDX-License-Identifier: ISC */
/*
 * save.c - writes the state of a session, or of a file without the model: cut
 * at a checkpoint, with other compression, or converted.  Blocks of a file are
 * written in the file's order, and unchanged blocks are not encoded again.
 */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sized.h"
#include "engine/state/save.h"
#include "wire/record.h"

enum { LEVEL = 1 };	/* of zstd; higher levels gain nothing on floats */

/* ------------------------------------------------------------------ records */

int
qwen_save_begin(struct qwen_save *v, enum qwen_kind kind)
{
	v->entry = (struct qwen_state_entry){ .kind = kind, .layer = -1,
	    .at = -1 };
	strcpy(v->entry.name, qwen_section(kind)->name);
	if (qwen_send(v) < 0)
		return -1;
	qwen_state_put_begin(&v->builder, &v->counts, v->entry.name);
	return 0;
}

int
qwen_save_finish(struct qwen_save *v)
{
	struct qwen_state_entry *e = &v->entry;

	e->offset = v->counts.bytes;
	qwen_state_put_finish(&v->builder, &v->counts, NULL, 0, 0, 0);
	e->bytes = v->builder.n;
	memcpy(e->check, v->builder.buf + v->builder.n - QWEN_CHECK_BYTES,
	    QWEN_CHECK_BYTES);
	if (qwen_state_list_add(&v->list, e, v->err) < 0)
		return -1;
	return qwen_write_state(v->w, v->builder.buf, v->builder.n, v->err);
}

int
qwen_save_mark(struct qwen_save *v, uint64_t at)
{
	if (qwen_save_begin(v, QWEN_K_CHECKPOINT) < 0)
		return -1;
	v->entry.at = (int64_t)at;
	qwen_state_put_uint(&v->builder, "at", at);
	qwen_state_put_bool(&v->builder, "named", 1);
	return qwen_save_finish(v);
}

struct qwen_save_piece *
qwen_save_add_piece(struct qwen_save *v, enum qwen_kind kind, int64_t layer,
    int64_t at, uint64_t off, size_t n)
{
	if (qwen_grow(&v->piece, &v->cap_piece, v->n_piece + 1,
	    sizeof *v->piece) < 0) {
		qwen_oom(v->err);
		return NULL;
	}
	v->piece[v->n_piece] = (struct qwen_save_piece){ .kind = kind,
	    .layer = layer, .pos = at, .off = off, .n = n };
	v->piece[v->n_piece].old = v->steps != NULL ?
	    qwen_steps_find(v, &v->piece[v->n_piece]) : NULL;
	return &v->piece[v->n_piece++];
}

int
qwen_save_add_object(struct qwen_save *v, enum qwen_kind kind, int64_t layer,
    int64_t at, const void *data, size_t n)
{
	const unsigned char *p = data;
	struct qwen_save_piece *t;
	size_t off, part;

	for (off = 0; off < n; off += part) {
		part = n - off < QWEN_PIECE_MAX ? n - off : QWEN_PIECE_MAX;
		if ((t = qwen_save_add_piece(v, kind, layer, at, off,
		    part)) == NULL)
			return -1;
		t->src = p + off;
	}
	return 0;
}

int
qwen_save_add_record(struct qwen_save *v, struct qwen_state_file *f, size_t i)
{
	const struct qwen_state_entry *e = &f->list.entry[i];
	uint64_t limit = UINT64_MAX, left, first;
	struct qwen_save_piece *t;

	if (v->convert != NULL && f == v->f && (e->kind == QWEN_K_KV ||
	    e->kind == QWEN_K_MTP_KV))
		return qwen_convert_record(v, i);
	if (e->kind == QWEN_K_TOKENS)
		limit = v->to * sizeof(int32_t);
	else if (e->kind == QWEN_K_KV)
		limit = (v->to + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK *
		    qwen_state_kv_block(&v->layer[e->layer]);
	else if (e->kind == QWEN_K_MTP_KV)
		limit = qwen_state_mtp_blocks(&v->mtp, 0, v->to, &first) *
		    qwen_state_kv_block(&v->mtp.layer);
	if (e->off >= limit)
		return 0;
	left = limit - e->off;
	t = qwen_save_add_piece(v, e->kind, e->layer, e->at, e->off,
	    (size_t)(e->len < left ? e->len : left));
	if (t == NULL)
		return -1;
	t->file = f;
	t->record = i;
	return 0;
}

int
qwen_save_copy_records(struct qwen_save *v, enum qwen_kind first,
    enum qwen_kind last)
{
	const struct qwen_state_entry *e;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < v->f->list.n; i++) {
		e = &v->f->list.entry[i];
		if (e->kind < first || e->kind > last ||
		    (e->kind == QWEN_K_HIDDEN && !v->mtp.there) ||
		    (e->at >= 0 && ((uint64_t)e->at > v->to ||
		    ((uint64_t)e->at < v->to && v->opts->no_checkpoints))))
			continue;
		r = e->kind == QWEN_K_CHECKPOINT ?
		    qwen_save_mark(v, (uint64_t)e->at) :
		    qwen_save_add_record(v, v->f, i);
	}
	return r;
}

/* ------------------------------------------------------------- a whole save */

static void
fini(struct qwen_save *v)
{
	qwen_send_fini(v);
	qwen_state_counts_fini(&v->counts);
	qwen_state_extra_fini(&v->x);
	free(v->builder.buf);
	free(v->list.entry);
}

static int
init(struct qwen_save *v, const struct qwen_header *h)
{
	unsigned char buf[QWEN_HEADER_MAX];

	/* the shapes of the layers are the largest fields */
	v->builder.cap = QWEN_PIECE_MAX + QWEN_FIELDS_MAX;
	if ((v->builder.buf = malloc(v->builder.cap)) == NULL)
		return qwen_oom(v->err);
	if (qwen_send_init(v) < 0 || qwen_state_counts_init(&v->counts, buf,
	    qwen_header_encode(h, buf), v->err) < 0)
		return -1;
	v->steps = v->s != NULL ? v->opts->steps : NULL;
	if (v->steps == NULL || qwen_state_steps_bytes(v->steps) == 0)
		return qwen_write_header(v->w, h, v->err);
	/* the file has its header; new records are appended */
	v->counts.bytes = qwen_state_steps_bytes(v->steps);
	return 0;
}

/* Writes the sections first .. stop - 1. */
static int
write_sections(struct qwen_save *v, enum qwen_kind first, enum qwen_kind stop)
{
	for (v->kind = first; v->kind < stop; v->kind++) {
		if (qwen_section(v->kind)->write != NULL &&
		    qwen_section(v->kind)->write(v) < 0)
			return -1;
	}
	return 0;
}

/* Saves from a source that is described in *v, with from and to set. */
static int
save(struct qwen_save *v, const struct qwen_header *h,
    const struct qwen_state_extra *x, struct qwen_fp *fp)
{
	int r;

	v->format = qwen_state_format(h);
	v->level = v->opts->no_compress ? 0 : LEVEL;
	v->align = v->opts->no_compress ? QWEN_ALIGN : 0;
	r = x == NULL ? 0 : qwen_state_extra_copy(&v->x, x, v->to,
	    v->to == v->n_tokens, v->err);
	if (r == 0)
		r = init(v, h);
	if (r == 0 && (write_sections(v, QWEN_K_INFO, QWEN_K_INDEX) < 0 ||
	    write_sections(v, QWEN_K_EXTRA, QWEN_K_EXTRA +
	    qwen_n_extra_sections) < 0 ||
	    write_sections(v, QWEN_K_INDEX, QWEN_K_EXTRA) < 0))
		r = -1;
	if (r == 0 && fp != NULL)
		*fp = v->total;
	if (r == 0 && v->steps != NULL)
		qwen_steps_done(v);
	fini(v);
	return r;
}

static const struct qwen_state_opts plain;

/* Sets the range of positions to save, and the checkpoint at its end. */
static int
set_range(struct qwen_save *v)
{
	const struct qwen_session *s = v->s;
	size_t i;

	v->from = v->opts->from;
	v->to = v->opts->to > 0 ? v->opts->to : v->n_tokens;
	v->part = v->from > 0 || v->opts->no_recurrent;
	if (v->from > v->to || v->to > v->n_tokens)
		return qwen_fail(v->err, QWEN_ERANGE, "tokens %llu to %llu of "
		    "%llu: invalid range", (unsigned long long)v->from,
		    (unsigned long long)v->to, (unsigned long long)v->n_tokens);
	for (i = 0; v->to < v->n_tokens &&
	    i < qwen_session_n_checkpoints(s); i++) {
		if (qwen_session_kept(s, i)->c.at == v->to)
			v->kept = qwen_session_kept(s, i);
	}
	if (v->kept == NULL && v->to < v->n_tokens &&
	    qwen_session_view(s).recurrent_bytes > 0 && !v->opts->no_recurrent)
		return qwen_fail(v->err, QWEN_ERANGE,
		    "there is no checkpoint after %llu tokens",
		    (unsigned long long)v->to);
	return 0;
}

/* Prepares the MTP block's part, computing it if that was deferred. */
static int
prepare_mtp(struct qwen_save *v)
{
	/* v->s is const for callers: the session stays the same for them */
	struct qwen_session *s = (struct qwen_session *)(uintptr_t)v->s;

	if (!qwen_model_has_mtp(qwen_session_model(s)) ||
	    qwen_session_mtp_ready(s) < 0)
		return 0;
	if (qwen_state_mtp_of(&v->mtp, s, v->err) < 0)
		return -1;
	v->mtp.there = v->mtp.first < v->to;
	return 0;
}

/* Rejects extras of the caller that could not be read back. */
static int
check_extra(const struct qwen_state_extra *x, struct qwen_err *err)
{
	if (x != NULL && x->n_pending > sizeof x->pending)
		return qwen_fail(err, QWEN_ERANGE, "an incomplete character of "
		    "%zu bytes", x->n_pending);
	if (x != NULL && x->run.options != NULL && x->run.input > x->run.from)
		return qwen_fail(err, QWEN_ERANGE, "a run with %llu tokens of "
		    "input begins at %llu", (unsigned long long)x->run.input,
		    (unsigned long long)x->run.from);
	return 0;
}

int
qwen_state_save_sized(size_t size, const struct qwen_session *s,
    const struct qwen_state_extra *x, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err)
{
	struct qwen_model *m = qwen_session_model(s);
	size_t i, n_layer = qwen_model_n_layer(qwen_session_model(s));
	struct qwen_state_layer *layer;
	struct qwen_state_opts own;
	struct qwen_header h;
	struct qwen_save *v;
	int r = -1;

	if (QWEN_SIZED(opts, own, size, err) < 0 ||
	    check_extra(x, err) < 0 ||
	    qwen_model_header(&h, m, QWEN_STREAM_STATE, err) < 0)
		return -1;
	v = qwen_alloc(1, sizeof *v);
	layer = qwen_alloc(n_layer, sizeof *layer);
	if (v == NULL || layer == NULL)
		qwen_oom(err);
	else {
		for (i = 0; i < n_layer; i++)
			qwen_session_shape(s, i, &layer[i]);
		*v = (struct qwen_save){ .s = s, .w = w, .err = err,
		    .opts = opts != NULL ? opts : &plain,
		    .tokens = qwen_session_tokens(s),
		    .n_tokens = qwen_session_n_tokens(s),
		    .n_vocab = qwen_model_n_vocab(m), .layer = layer,
		    .n_layer = n_layer, .pool = qwen_model_pool(m),
		    .converted = qwen_session_converted(s) };
		r = set_range(v) < 0 || prepare_mtp(v) < 0 ? -1 :
		    save(v, &h, x, fp);
	}
	free(layer);
	free(v);
	return r;
}

/* Checks that the state can be continued from where it is cut. */
static int
check_cut(const struct qwen_save *v)
{
	const struct qwen_state_info *info = &v->f->info;
	size_t i;

	if (info->part)
		return qwen_fail(v->err, QWEN_EUNSUP, "the file holds a part "
		    "of a state, from position %llu",
		    (unsigned long long)info->from);
	if (v->to == info->n_tokens)
		return 0;
	for (i = 0; i < info->n_checkpoints; i++) {
		if (info->checkpoints[i].at == v->to)
			return 0;
	}
	return qwen_fail(v->err, QWEN_ERANGE, "there is no checkpoint after "
	    "%llu tokens", (unsigned long long)v->to);
}

/*
 * Writes the file's state with header h, whose KV types differ when converting.
 */
static int
copy(struct qwen_save *v, const struct qwen_header *h,
    const struct qwen_state_opts *opts, struct qwen_fp *fp)
{
	const struct qwen_state_info *info = &v->f->info;
	int r = -1;

	v->opts = opts != NULL ? opts : &plain;
	if (qwen_pool_new(&v->pool, qwen_state_threads(v->opts->n_threads,
	    info->stored), v->err) < 0)
		return -1;
	v->tokens = info->tokens;
	v->n_tokens = info->n_tokens;
	v->n_vocab = (size_t)info->header.n_vocab;
	v->n_layer = info->n_layers;
	v->to = v->opts->to > 0 ? v->opts->to : v->n_tokens;
	v->mtp.there &= v->mtp.first < v->to;
	if (check_cut(v) == 0)
		r = save(v, h, info->extra, fp);
	qwen_pool_free(v->pool);
	return r;
}

int
qwen_state_copy_sized(size_t size, struct qwen_state_file *f,
    struct qwen_writer *w, const struct qwen_state_opts *opts,
    struct qwen_fp *fp, struct qwen_err *err)
{
	struct qwen_state_opts own;
	struct qwen_save *v;
	int r;

	if (QWEN_SIZED(opts, own, size, err) < 0)
		return -1;
	if ((v = qwen_alloc(1, sizeof *v)) == NULL)
		return qwen_oom(err);
	*v = (struct qwen_save){ .f = f, .w = w, .err = err,
	    .layer = f->info.layers, .mtp = f->content.lay.mtp,
	    .converted = f->content.lay.converted };
	r = copy(v, &f->info.header, opts, fp);
	free(v);
	return r;
}

/* Returns the file's layers with the KV types of h. */
static struct qwen_state_layer *
converted_layers(const struct qwen_state_info *info,
    const struct qwen_header *h)
{
	struct qwen_state_layer *l = qwen_alloc(info->n_layers, sizeof *l);
	size_t i;

	for (i = 0; l != NULL && i < info->n_layers; i++) {
		l[i] = info->layers[i];
		if (l[i].kv) {
			l[i].n[2] = h->k;
			l[i].n[3] = h->v;
		}
	}
	return l;
}

static void
set_loss(struct qwen_state_loss *out, const struct qwen_kv_convert *c)
{
	const struct qwen_kv_loss *k = &c->loss[0], *v = &c->loss[1];

	out->keys = k->all > 0 ? sqrt(k->lost / k->all) : 0;
	out->values = v->all > 0 ? sqrt(v->lost / v->all) : 0;
}

int
qwen_state_convert_sized(size_t size, struct qwen_state_file *f,
    struct qwen_writer *w, enum qwen_kv kind_k, enum qwen_kv kind_v,
    const struct qwen_state_opts *opts, struct qwen_state_loss *loss,
    struct qwen_fp *fp, struct qwen_err *err)
{
	struct qwen_convert c = { .layer = f->info.layers,
	    .mtp = f->content.lay.mtp.layer };
	struct qwen_header h = f->info.header;
	struct qwen_state_layer *layer;
	struct qwen_state_opts own;
	struct qwen_save *v;
	int r = -1;

	*loss = (struct qwen_state_loss){ 0 };
	if (QWEN_SIZED(opts, own, size, err) < 0)
		return -1;
	if (kind_k == h.k && kind_v == h.v)
		return qwen_state_copy(f, w, opts, fp, err);
	if (qwen_kv_head_bytes(kind_k, QWEN_KV_GROUP) >
	    qwen_kv_head_bytes(h.k, QWEN_KV_GROUP) ||
	    qwen_kv_head_bytes(kind_v, QWEN_KV_GROUP) >
	    qwen_kv_head_bytes(h.v, QWEN_KV_GROUP))
		return qwen_fail(err, QWEN_EUNSUP, "keys %s and values %s "
		    "cannot become %s and %s: the lost precision cannot be "
		    "restored", qwen_kv_name(h.k), qwen_kv_name(h.v),
		    qwen_kv_name(kind_k), qwen_kv_name(kind_v));
	h.k = kind_k;
	h.v = kind_v;
	layer = converted_layers(&f->info, &h);
	v = qwen_alloc(1, sizeof *v);
	if (layer == NULL || v == NULL)
		qwen_oom(err);
	else {
		qwen_kv_convert_init(&c.c);
		*v = (struct qwen_save){ .f = f, .w = w, .err = err,
		    .layer = layer, .mtp = f->content.lay.mtp, .converted = 1,
		    .convert = &c };
		v->mtp.layer.n[2] = kind_k;
		v->mtp.layer.n[3] = kind_v;
		r = copy(v, &h, opts, fp);
		set_loss(loss, &c.c);
	}
	free(layer);
	free(v);
	return r;
}
