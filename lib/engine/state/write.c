/* SPDX-License-Identifier: ISC */
/*
 * write.c - writes the records of a state.  Pieces of data are collected and
 * then written on all threads.  Each thread takes the next piece,
 * encodes it into a slot, and writes the next pieces in order if no other
 * thread is writing.  The number of slots bounds memory; threads too far ahead
 * of writing sleep.
 */
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "engine/state/write.h"

enum { SLOT_BYTES = QWEN_SEND_ROOM + QWEN_STATE_MAX + 16 };

/* ----------------------------------------------------------------- encoding */

/* Returns the shape of the blocks of a piece. */
static const struct qwen_state_layer *
shape(const struct qwen_save *v, const struct qwen_save_piece *t)
{
	return qwen_state_layer_of(&v->lay, t->layer);
}

/*
 * Returns 1 if the state ends within a block of 16 positions and the piece
 * contains bytes of that block; *last is the offset of the block, *used the
 * number of its positions.
 */
static int
is_cut(const struct qwen_save *v, const struct qwen_save_piece *t,
    uint64_t *last, size_t *used)
{
	uint64_t first, n, end = v->lay.info.n_tokens;

	if (!qwen_kind_is_kv(t->kind))
		return 0;
	end -= t->kind == QWEN_K_MTP_KV;
	n = qwen_state_blocks(&v->lay, t->kind, &first);
	*used = (size_t)(end % QWEN_KV_BLOCK);
	*last = (n - 1) * qwen_state_kv_block(shape(v, t));
	return *used != 0 && t->off + t->n > *last;
}

/* Zeroes the positions after the end in the piece. */
static void
clear_rest(const struct qwen_save *v, const struct qwen_save_piece *t,
    unsigned char *p)
{
	const struct qwen_kv_shape s = qwen_state_kv_shape(shape(v, t));
	uint64_t last;
	size_t skip, used;

	if (!is_cut(v, t, &last, &used))
		return;
	skip = t->off < last ? (size_t)(last - t->off) : 0;
	qwen_kv_clear_lanes(&s, p + skip, (size_t)(t->off + skip - last),
	    t->n - skip, used);
}

/* Copies the KV blocks of a piece to dst. */
static void
gather(const struct qwen_save *v, const struct qwen_save_piece *t,
    unsigned char *dst)
{
	size_t size = (size_t)qwen_state_kv_block(shape(v, t));
	size_t i, part, at = t->at, b = t->first;
	/* the MTP block follows the layers */
	size_t layer = t->layer < 0 ? v->lay.info.n_layers : (size_t)t->layer;

	for (i = 0; i < t->n; i += part, b++, at = 0) {
		part = size - at < t->n - i ? size - at : t->n - i;
		memcpy(dst + i, (const char *)*qwen_session_kv(v->s, layer,
		    b) + at, part);
	}
	clear_rest(v, t, dst);
}

/* Converts the blocks of a record and zeroes the positions after the end. */
static int
convert(const struct qwen_save *v, const struct qwen_save_piece *t,
    struct qwen_sender *w, struct qwen_send_slot *slot,
    const unsigned char *raw)
{
	const struct qwen_state_layer *from = qwen_state_layer_of(
	    &t->file->in.lay, t->layer), *to = shape(v, t);
	struct qwen_kv_convert c = { .vec = v->convert->vec,
	    .from = qwen_state_kv_shape(from), .to = qwen_state_kv_shape(to) };
	size_t size = (size_t)qwen_state_kv_block(to);
	size_t n = (size_t)qwen_state_kv_block(from), i;

	for (i = 0; i < t->n / size; i++) {
		if (qwen_kv_convert(&c, w->kv + i * size, raw + i * n,
		    &w->err) < 0)
			return -1;
	}
	memcpy(slot->loss, c.loss, sizeof c.loss);
	clear_rest(v, t, w->kv);
	return 0;
}

/*
 * Reads a record of a file.  If all of it is wanted, in this form, it is copied
 * encoded and *src is NULL; else it is decoded.
 */
static int
fetch(const struct qwen_save *v, const struct qwen_save_piece *t,
    struct qwen_sender *w, struct qwen_send_slot *slot, const void **src)
{
	int as_is, other = v->convert != NULL && qwen_kind_is_kv(t->kind);
	struct qwen_state_rec rec;
	const unsigned char *raw;
	uint64_t last;
	size_t used;
	int cut = t->file == v->f && v->lay.info.n_tokens < v->n_tokens &&
	    is_cut(v, t, &last, &used);

	if (qwen_state_file_rec(t->file, t->record, &rec, w->raw,
	    &w->err) < 0)
		return -1;
	/*
	 * the compressed form also contains uncoded records that zstd cannot
	 * shrink
	 */
	as_is = rec.e.codec != QWEN_CODEC_NONE ? v->level > 0 :
	    v->level == 0 || !t->file->in.lay.info.mapped;
	if (as_is && !other && !cut && t->n == rec.e.len) {
		slot->codec = rec.e.codec;
		slot->n_data = rec.n_data;
		memcpy(slot->buf + QWEN_SEND_ROOM, rec.data, rec.n_data);
		*src = NULL;
		return 0;
	}
	if (qwen_state_file_data(t->file, &rec, w->coder, &raw, &w->err) < 0)
		return -1;
	*src = raw;
	if (other) {
		*src = w->kv;
		return convert(v, t, w, slot, raw);
	}
	if (cut) {
		memmove(w->raw, raw, t->n);
		clear_rest(v, t, w->raw);
		*src = w->raw;
	}
	return 0;
}

/* Encodes piece t into the slot. */
static int
encode(const struct qwen_save *v, const struct qwen_save_piece *t,
    struct qwen_sender *w, struct qwen_send_slot *slot)
{
	unsigned char *out = slot->buf + QWEN_SEND_ROOM, *raw;
	const unsigned char *data;
	const void *src = t->src;

	memset(slot->loss, 0, sizeof slot->loss);
	if (t->old != NULL)
		return 0;
	if (t->file != NULL) {
		if (fetch(v, t, w, slot, &src) < 0)
			return -1;
		if (src == NULL)
			return 0;
	} else if (src == NULL) {
		/* uncoded data is gathered directly into the slot */
		raw = v->level > 0 ? w->raw : out;
		gather(v, t, raw);
		src = raw;
	}
	if (qwen_coder_encode(w->coder, src, t->n,
	    qwen_state_width(&v->lay, t->kind, t->layer), v->level, out,
	    &slot->codec, &data, &slot->n_data, &w->err) < 0)
		return -1;
	if (data != out)
		memcpy(out, data, slot->n_data);
	return 0;
}

/* ------------------------------------------------------------------ writing */

static int
write_piece(struct qwen_save *v, const struct qwen_save_piece *t,
    struct qwen_send_slot *slot, struct qwen_err *err)
{
	struct qwen_state_builder *p = &v->builder;
	struct qwen_state_entry e = { .kind = t->kind, .has_data = 1,
	    .codec = slot->codec, .layer = t->layer, .at = t->pos,
	    .off = t->off, .len = t->n, .offset = v->counts.bytes };
	unsigned char *rec;
	size_t n;

	if (t->old != NULL) {
		qwen_state_counts_add(&v->counts, t->old);
		/* the file does not grow */
		v->counts.bytes -= t->old->bytes;
		return qwen_state_list_add(&v->list, t->old, err);
	}
	strcpy(e.name, qwen_kinds[t->kind].name);
	qwen_state_put_begin(p, &v->counts, e.name);
	if (e.layer >= 0)
		qwen_state_put_uint(p, "layer", (uint64_t)e.layer);
	if (e.at >= 0)
		qwen_state_put_uint(p, "at", (uint64_t)e.at);
	qwen_state_put_uint(p, "off", e.off);
	qwen_state_put_uint(p, "len", e.len);
	qwen_state_put_text(p, "codec", qwen_codec_name(e.codec));
	if (qwen_kinds[t->kind].skip)
		qwen_state_put_bool(p, "skip", 1);
	for (n = 0; v->convert != NULL && n < 2; n++) {
		v->convert->loss[n].lost += slot->loss[n].lost;
		v->convert->loss[n].all += slot->loss[n].all;
	}
	rec = slot->buf + QWEN_SEND_ROOM;
	n = qwen_state_put_around(p, &v->counts, &rec, slot->n_data, t->n,
	    v->align);
	e.bytes = n;
	memcpy(e.check, rec + n - QWEN_CHECK_BYTES, QWEN_CHECK_BYTES);
	return qwen_state_list_add(&v->list, &e, err) < 0 ? -1 :
	    qwen_write_state(v->w, rec, n, err);
}

/* With the lock held: stops; the error is that of the earliest piece. */
static void
fail(struct qwen_save *v, size_t i, const struct qwen_err *err)
{
	if ((!v->stop || i < v->failed) && v->err != NULL)
		*v->err = *err;
	v->failed = !v->stop || i < v->failed ? i : v->failed;
	v->stop = 1;
}

/* With the lock held: writes piece i, which is encoded. */
static void
write_next(struct qwen_save *v, struct qwen_sender *w, size_t i)
{
	int r;

	v->writing = 1;
	pthread_mutex_unlock(&v->lock);
	r = write_piece(v, &v->piece[i], &v->slot[i % v->n_slot], &w->err);
	pthread_mutex_lock(&v->lock);
	v->writing = 0;
	v->written++;
	if (r < 0)
		fail(v, i, &w->err);
	pthread_cond_broadcast(&v->moved);
}

/* With the lock held: encodes the next piece. */
static void
encode_next(struct qwen_save *v, struct qwen_sender *w)
{
	size_t i = v->next++;
	struct qwen_send_slot *slot = &v->slot[i % v->n_slot];
	int r;

	pthread_mutex_unlock(&v->lock);
	r = encode(v, &v->piece[i], w, slot);
	pthread_mutex_lock(&v->lock);
	slot->ready = i + 1;
	if (r < 0)
		fail(v, i, &w->err);
	pthread_cond_broadcast(&v->moved);
}

/*
 * Threads without work wait here, since pool threads spin while another thread
 * writes.
 */
static void
work(void *arg, size_t item, int thread)
{
	struct qwen_save *v = arg;
	struct qwen_sender *w = &v->sender[item];
	size_t i;

	(void)thread;
	pthread_mutex_lock(&v->lock);
	while (!v->stop && (i = v->written) < v->n_piece) {
		if (!v->writing && v->slot[i % v->n_slot].ready == i + 1)
			write_next(v, w, i);
		else if (v->next < v->n_piece && v->next < i + v->n_slot)
			encode_next(v, w);
		else
			pthread_cond_wait(&v->moved, &v->lock);
	}
	pthread_mutex_unlock(&v->lock);
}

/*
 * Brings the blocks that the pieces have to the host, before threads read them: a
 * device takes one call at a time.
 */
static void
bring_blocks(const struct qwen_save *v, const struct qwen_save_piece *t)
{
	size_t size = (size_t)qwen_state_kv_block(shape(v, t)), b;
	size_t layer = t->layer < 0 ? v->lay.info.n_layers : (size_t)t->layer;

	for (b = 0; b * size < t->at + t->n; b++)
		qwen_session_kv(v->s, layer, t->first + b);
}

int
qwen_send(struct qwen_save *v)
{
	const struct qwen_save_piece *t;
	size_t i;

	if (v->n_piece == 0)
		return 0;
	for (t = v->piece; t < v->piece + v->n_piece; t++) {
		if (qwen_kind_is_kv(t->kind) && t->old == NULL &&
		    t->file == NULL && t->src == NULL)
			bring_blocks(v, t);
	}
	v->next = v->written = 0;
	for (i = 0; i < v->n_slot; i++)
		v->slot[i].ready = 0;
	qwen_pool_run(v->pool, work, v,
	    v->n_sender < v->n_piece ? v->n_sender : v->n_piece);
	v->n_piece = 0;
	return v->stop ? -1 : 0;
}

/* The kernel provides pages of the buffers only as pieces need them. */
int
qwen_send_init(struct qwen_save *v)
{
	size_t n = (size_t)qwen_pool_threads(v->pool), i;

	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->moved, NULL);
	v->have_lock = 1;
	v->n_sender = n < QWEN_SEND_WORKERS ? n : QWEN_SEND_WORKERS;
	v->n_slot = v->n_sender + QWEN_SEND_AHEAD;
	for (i = 0; i < v->n_sender; i++) {
		v->sender[i].raw = malloc(QWEN_STATE_MAX);
		if (v->convert != NULL)
			v->sender[i].kv = malloc(QWEN_PIECE_MAX);
		if (v->sender[i].raw == NULL ||
		    (v->convert != NULL && v->sender[i].kv == NULL) ||
		    qwen_coder_new(&v->sender[i].coder, v->err) < 0)
			return qwen_oom(v->err);
	}
	for (i = 0; i < v->n_slot; i++) {
		if ((v->slot[i].buf = malloc(SLOT_BYTES)) == NULL)
			return qwen_oom(v->err);
	}
	return 0;
}

void
qwen_send_fini(struct qwen_save *v)
{
	size_t i;

	for (i = 0; i < v->n_sender; i++) {
		qwen_coder_free(v->sender[i].coder);
		free(v->sender[i].raw);
		free(v->sender[i].kv);
	}
	for (i = 0; i < v->n_slot; i++)
		free(v->slot[i].buf);
	free(v->piece);
	if (v->have_lock) {
		pthread_cond_destroy(&v->moved);
		pthread_mutex_destroy(&v->lock);
	}
}

/* ------------------------------------------------------------------ records */

int
qwen_save_begin(struct qwen_save *v, enum qwen_kind kind)
{
	v->entry = (struct qwen_state_entry){ .kind = kind, .layer = -1,
	    .at = -1 };
	strcpy(v->entry.name, qwen_kinds[kind].name);
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
	uint64_t limit = qwen_state_bytes(&v->lay, e->kind, e->layer);
	uint64_t off = e->off, len = e->len, from, to;
	struct qwen_save_piece *t;

	if (v->convert != NULL && f == v->f && qwen_kind_is_kv(e->kind)) {
		from = qwen_state_kv_block(qwen_state_layer_of(&f->in.lay,
		    e->layer));
		to = qwen_state_kv_block(qwen_state_layer_of(&v->lay,
		    e->layer));
		if (off % from != 0 || len % from != 0)
			return qwen_fail(v->err, QWEN_EUNSUP, "its KV blocks "
			    "of %" PRIu64 " bytes are split", from);
		off = off / from * to;
		len = len / from * to;
	}
	if (off >= limit)
		return 0;
	t = qwen_save_add_piece(v, e->kind, e->layer, e->at, off,
	    (size_t)(len < limit - off ? len : limit - off));
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
	const uint64_t to = v->lay.info.n_tokens;
	const struct qwen_state_entry *e;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < v->f->list.n; i++) {
		e = &v->f->list.entry[i];
		if (e->kind < first || e->kind > last ||
		    (e->kind == QWEN_K_HIDDEN && !v->lay.mtp.there) ||
		    (e->at >= 0 && ((uint64_t)e->at > to ||
		    ((uint64_t)e->at < to && v->opts->no_checkpoints))))
			continue;
		r = e->kind == QWEN_K_CHECKPOINT ?
		    qwen_save_mark(v, (uint64_t)e->at) :
		    qwen_save_add_record(v, v->f, i);
	}
	return r;
}
