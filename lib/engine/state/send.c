/* SPDX-License-Identifier: ISC */
/*
 * send.c - writes the pieces of a state.  Each thread takes the next piece,
 * encodes it into a slot, and writes the next pieces in order if no other
 * thread is writing.  The number of slots bounds memory; threads too far ahead
 * of writing sleep.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "engine/state/save.h"

enum { SLOT_BYTES = QWEN_SEND_ROOM + QWEN_STATE_MAX + 16 };

/* ----------------------------------------------------------------- encoding */

/* Returns the shape of the blocks of a piece. */
static const struct qwen_state_layer *
shape(const struct qwen_save *v, const struct qwen_save_piece *t)
{
	return t->layer < 0 ? &v->mtp.layer : &v->layer[t->layer];
}

static uint64_t
n_positions(const struct qwen_save *v, const struct qwen_save_piece *t)
{
	return t->kind == QWEN_K_MTP_KV ? v->to - 1 : v->to;
}

/*
 * Returns 1 if the state ends within a block of 16 positions and the piece
 * contains bytes of that block; *last is the offset of the block.
 */
static int
is_cut(const struct qwen_save *v, const struct qwen_save_piece *t,
    uint64_t *last)
{
	uint64_t end = n_positions(v, t), first = v->from / QWEN_KV_BLOCK;

	if ((t->kind != QWEN_K_KV && t->kind != QWEN_K_MTP_KV) ||
	    end % QWEN_KV_BLOCK == 0)
		return 0;
	if (t->kind == QWEN_K_MTP_KV)
		qwen_state_mtp_blocks(&v->mtp, v->from, v->to, &first);
	*last = (end / QWEN_KV_BLOCK - first) *
	    qwen_state_kv_block(shape(v, t));
	return t->off + t->n > *last;
}

/* Zeroes the positions after the end in the piece. */
static void
clear_rest(const struct qwen_save *v, const struct qwen_save_piece *t,
    unsigned char *p)
{
	const struct qwen_kv_shape s = qwen_state_kv_shape(shape(v, t));
	uint64_t last;
	size_t skip;

	if (!is_cut(v, t, &last))
		return;
	skip = t->off < last ? (size_t)(last - t->off) : 0;
	qwen_kv_clear_lanes(&s, p + skip,
	    (size_t)(t->off + skip - last), t->n - skip,
	    (size_t)(n_positions(v, t) % QWEN_KV_BLOCK));
}

/* Copies the KV blocks of a piece to dst. */
static void
gather(const struct qwen_save *v, const struct qwen_save_piece *t,
    unsigned char *dst)
{
	size_t size = (size_t)qwen_state_kv_block(shape(v, t));
	size_t i, part, at = t->at, b = t->first;
	/* the MTP block follows the layers */
	size_t layer = t->layer < 0 ? v->n_layer : (size_t)t->layer;

	for (i = 0; i < t->n; i += part, b++, at = 0) {
		part = size - at < t->n - i ? size - at : t->n - i;
		memcpy(dst + i, (const char *)*qwen_session_kv(v->s, layer,
		    b) + at, part);
	}
	clear_rest(v, t, dst);
}

/* Converts the blocks of the piece and zeroes the positions after the end. */
static int
convert(const struct qwen_save *v, const struct qwen_save_piece *t,
    struct qwen_sender *w, struct qwen_send_slot *slot,
    const struct qwen_state_rec *rec, const void **src)
{
	const unsigned char *raw;

	if (qwen_state_file_data(t->file, rec, w->coder, &raw, &w->err) < 0 ||
	    qwen_convert_blocks(v, t, raw, w->kv, slot->loss, &w->err) < 0)
		return -1;
	clear_rest(v, t, w->kv);
	*src = w->kv;
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
	const struct qwen_state_info *info = &t->file->info;
	struct qwen_state_rec rec;
	const unsigned char *raw = NULL;
	uint64_t last;
	int whole, cut = t->file == v->f && v->to < v->n_tokens &&
	    is_cut(v, t, &last);

	if (qwen_state_file_rec(t->file, t->record, &rec, w->raw,
	    &w->err) < 0)
		return -1;
	if (v->convert != NULL && (t->kind == QWEN_K_KV ||
	    t->kind == QWEN_K_MTP_KV))
		return convert(v, t, w, slot, &rec, src);
	whole = t->n == rec.e.len && !cut;
	/*
	 * the compressed form also contains uncoded records that zstd cannot
	 * shrink
	 */
	if (whole && (rec.e.codec != QWEN_CODEC_NONE ? v->level > 0 :
	    v->level == 0 || !info->mapped)) {
		slot->codec = rec.e.codec;
		slot->n_data = rec.n_data;
		memcpy(slot->buf + QWEN_SEND_ROOM, rec.data, rec.n_data);
		*src = NULL;
		return 0;
	}
	if (qwen_state_file_data(t->file, &rec, w->coder, &raw, &w->err) < 0)
		return -1;
	*src = raw;
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
	    qwen_state_width(t->kind, shape(v, t)), v->level, out,
	    &slot->codec, &data, &slot->n_data, &w->err) < 0)
		return -1;
	if (data != out)
		memcpy(out, data, slot->n_data);
	return 0;
}

/* ------------------------------------------------------------------ writing */

static int
write_piece(struct qwen_save *v, const struct qwen_save_piece *t,
    struct qwen_send_slot *slot)
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
		return qwen_state_list_add(&v->list, t->old, v->err);
	}
	strcpy(e.name, qwen_section(t->kind)->name);
	qwen_state_put_begin(p, &v->counts, e.name);
	if (e.layer >= 0)
		qwen_state_put_uint(p, "layer", (uint64_t)e.layer);
	if (e.at >= 0)
		qwen_state_put_uint(p, "at", (uint64_t)e.at);
	qwen_state_put_uint(p, "off", e.off);
	qwen_state_put_uint(p, "len", e.len);
	qwen_state_put_text(p, "codec", qwen_codec_name(e.codec));
	if (qwen_section(t->kind)->skip)
		qwen_state_put_bool(p, "skip", 1);
	if (v->convert != NULL)
		qwen_convert_done(v, slot->loss);
	rec = slot->buf + QWEN_SEND_ROOM;
	n = qwen_state_put_around(p, &v->counts, &rec, slot->n_data, t->n,
	    v->align);
	e.bytes = n;
	memcpy(e.check, rec + n - QWEN_CHECK_BYTES, QWEN_CHECK_BYTES);
	return qwen_state_list_add(&v->list, &e, v->err) < 0 ? -1 :
	    qwen_write_state(v->w, rec, n, v->err);
}

/*
 * Under the lock: writes the next piece if it is ready and no thread is
 * writing; returns 1 if it did something.
 */
static int
write_next(struct qwen_save *v)
{
	struct qwen_send_slot *slot = &v->slot[v->written % v->n_slot];
	size_t i = v->written;
	int r;

	if (v->writing || v->stop || i == v->n_piece || slot->ready != i + 1)
		return 0;
	v->writing = 1;
	pthread_mutex_unlock(&v->lock);
	r = write_piece(v, &v->piece[i], slot);
	pthread_mutex_lock(&v->lock);
	v->writing = 0;
	v->written++;
	if (r < 0)
		v->write_failed = v->stop = 1;
	pthread_cond_broadcast(&v->moved);
	return 1;
}

/*
 * With the lock held: waits for a slot and takes a piece to encode; returns 0
 * if there are no more.
 */
static int
next_piece(struct qwen_save *v, size_t *i)
{
	while (!v->stop && v->next < v->n_piece) {
		if (v->next < v->written + v->n_slot) {
			*i = v->next++;
			return 1;
		}
		if (!write_next(v))
			pthread_cond_wait(&v->moved, &v->lock);
	}
	return 0;
}

static void
work(void *arg, size_t item, int thread)
{
	struct qwen_save *v = arg;
	struct qwen_sender *w = &v->sender[item];
	struct qwen_send_slot *slot;
	size_t i;
	int r;

	(void)thread;
	pthread_mutex_lock(&v->lock);
	while (next_piece(v, &i)) {
		slot = &v->slot[i % v->n_slot];
		pthread_mutex_unlock(&v->lock);
		r = encode(v, &v->piece[i], w, slot);
		pthread_mutex_lock(&v->lock);
		if (r < 0) {
			w->failed = i;
			v->stop = 1;
			pthread_cond_broadcast(&v->moved);
			break;
		}
		slot->ready = i + 1;
		while (write_next(v))
			;
	}
	/* wait here, since pool threads spin while another thread writes */
	while (!v->stop && v->written < v->n_piece) {
		if (!write_next(v))
			pthread_cond_wait(&v->moved, &v->lock);
	}
	pthread_mutex_unlock(&v->lock);
}

/*
 * Reports the error of the first piece that failed; write errors are in *v->err
 * already.
 */
static int
first_failure(struct qwen_save *v)
{
	const struct qwen_sender *first = NULL;
	size_t i;

	for (i = 0; i < v->n_sender; i++) {
		const struct qwen_sender *w = &v->sender[i];

		if (w->failed != SIZE_MAX && (first == NULL ||
		    w->failed < first->failed))
			first = w;
	}
	if (!v->write_failed && first != NULL && v->err != NULL)
		*v->err = first->err;
	return -1;
}

int
qwen_send(struct qwen_save *v)
{
	size_t i;

	if (v->n_piece == 0)
		return 0;
	v->next = v->written = 0;
	for (i = 0; i < v->n_slot; i++)
		v->slot[i].ready = 0;
	qwen_pool_run(v->pool, work, v,
	    v->n_sender < v->n_piece ? v->n_sender : v->n_piece);
	if (v->stop)
		return first_failure(v);
	v->n_piece = 0;
	return 0;
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
		v->sender[i].failed = SIZE_MAX;
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
