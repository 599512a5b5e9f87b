/* SPDX-License-Identifier: ISC */
/*
 * save.c - what a session's state consists of, record by record.
 *
 * The KV cache goes by positions, all layers of the first ones before any of
 * the next, so that a reader never has to make room for positions of which
 * nothing came.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/model.h"
#include "engine/state/save.h"
#include "wire/record.h"

enum {
	GROUP_BLOCKS = 16,	/* KV blocks in a record: 256 positions */
	LEVEL = 1,		/* of zstd; higher ones gain nothing on floats */
	NONE = -1,
};

/* ------------------------------------------------------------------ records */

/* The record without data that is complete in v->put. */
static int
finish(struct qwen_save *v, struct qwen_state_entry *e)
{
	e->offset = v->sum.bytes;
	qwen_state_put_finish(&v->put, &v->sum, NULL, 0, 0, 0);
	e->bytes = v->put.n;
	memcpy(e->check, v->put.buf + v->put.n - QWEN_CHECK_BYTES,
	    QWEN_CHECK_BYTES);
	if (qwen_state_list_add(&v->list, e, v->err) < 0)
		return -1;
	return qwen_write_state(v->w, v->put.buf, v->put.n, v->err);
}

/* A record without data; the fields follow. */
static int
begin(struct qwen_save *v, const char *kind, size_t n_fields,
    struct qwen_state_entry *e)
{
	*e = (struct qwen_state_entry){ .layer = NONE, .at = NONE };
	strcpy(e->kind, kind);
	if (qwen_send(v) < 0)
		return -1;
	qwen_state_put_begin(&v->put, &v->sum, kind, n_fields);
	return 0;
}

/* One more piece that waits: n bytes of the object at off; or NULL. */
static struct qwen_piece *
add_piece(struct qwen_save *v, const struct qwen_object *o, uint64_t off,
    size_t n)
{
	struct qwen_piece *more;
	size_t cap;

	if (v->n_piece == v->cap_piece) {
		cap = 2 * v->cap_piece + 64;
		if ((more = realloc(v->piece, cap * sizeof *more)) == NULL) {
			qwen_fail(v->err, QWEN_ENOMEM, "out of memory");
			return NULL;
		}
		v->piece = more;
		v->cap_piece = cap;
	}
	v->piece[v->n_piece] = (struct qwen_piece){ .o = *o, .off = off,
	    .n = n };
	return &v->piece[v->n_piece++];
}

/* All n bytes of an object that lies in one place, until they are written. */
static int
put_object(struct qwen_save *v, const struct qwen_object *o, const void *data,
    size_t n)
{
	const unsigned char *p = data;
	struct qwen_piece *t;
	size_t off, part;

	for (off = 0; off < n; off += part) {
		part = n - off < QWEN_PIECE_MAX ? n - off : QWEN_PIECE_MAX;
		if ((t = add_piece(v, o, off, part)) == NULL)
			return -1;
		t->src = p + off;
	}
	return 0;
}

/* ---------------------------------------------------------------- the kinds */

static void
put_shape(struct qwen_save *v, size_t layer)
{
	const struct qwen_hparams *h = &v->s->model->hp;
	struct qwen_state_put *p = &v->put;
	size_t key = h->n_head_k * h->dk, value = h->n_head_v * h->dv;

	if (v->s->layer[layer].kv_block_bytes != 0) {
		qwen_state_put_array(p, 3);
		qwen_state_put_string(p, "kv");
		qwen_state_put_number(p, h->n_head_kv);
		qwen_state_put_number(p, h->n_embd_head);
		return;
	}
	qwen_state_put_array(p, 6);
	qwen_state_put_string(p, "delta");
	qwen_state_put_number(p, h->n_head_v);
	qwen_state_put_number(p, h->dk);
	qwen_state_put_number(p, h->dv);
	qwen_state_put_number(p, h->conv_kernel - 1);
	qwen_state_put_number(p, 2 * key + value);
}

static int
is_part(const struct qwen_save *v)
{
	return v->from > 0 || v->opts->no_recurrent;
}

static int
put_info(struct qwen_save *v)
{
	struct qwen_state_put *p = &v->put;
	struct qwen_state_entry e;
	struct qwen_fp prefix;
	size_t i, n = v->s->n_layer;

	if (n > QWEN_PIECE_MAX / 64)	/* a shape takes 53 bytes at most */
		return qwen_fail(v->err, QWEN_ERANGE, "%zu layers", n);
	if (begin(v, "info", is_part(v) ? 7 : 5, &e) < 0)
		return -1;
	qwen_state_put_uint(p, QWEN_F_FORMAT, QWEN_STATE_FORMAT);
	qwen_state_put_text(p, QWEN_F_WRITER, "libqwen " QWEN_VERSION);
	qwen_state_put_uint(p, QWEN_F_N_TOKENS, v->to);
	qwen_state_put_uint(p, QWEN_F_KV_BLOCK, QWEN_KV_BLOCK);
	if (is_part(v)) {
		qwen_state_prefix(v->s->tokens, (size_t)v->from, &prefix);
		qwen_state_put_uint(p, QWEN_F_FROM, v->from);
		qwen_state_put_bytes(p, QWEN_F_PREFIX, prefix.b,
		    sizeof prefix.b);
	}
	qwen_state_put_key(p, QWEN_F_LAYERS);
	qwen_state_put_array(p, n);
	for (i = 0; i < n; i++)
		put_shape(v, i);
	return finish(v, &e);
}

/* KV blocks first .. first + n - 1 of a layer, of which base are not saved. */
static int
put_kv(struct qwen_save *v, size_t layer, size_t base, size_t first, size_t n)
{
	struct qwen_object o = { "kv", (int64_t)layer, NONE, 2 };
	size_t size = v->s->layer[layer].kv_block_bytes, done, part;
	size_t total = n * size;
	struct qwen_piece *t;

	for (done = 0; done < total; done += part) {
		part = total - done;
		if (total > QWEN_PIECE_MAX) {	/* then n is 1 */
			part = part < QWEN_PIECE_MAX ? part : QWEN_PIECE_MAX;
		}
		t = add_piece(v, &o, (uint64_t)(first - base) * size + done,
		    part);
		if (t == NULL)
			return -1;
		t->first = first;
		t->at = done;
	}
	return 0;
}

static int
put_cache(struct qwen_save *v)
{
	const struct qwen_session *s = v->s;
	size_t base = (size_t)(v->from / QWEN_KV_BLOCK);
	size_t n = (size_t)((v->to + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK);
	size_t i, first, step, group = GROUP_BLOCKS;

	if (v->from == v->to)
		return 0;
	for (i = 0; i < s->n_layer; i++) {
		while (group > 1 && group * s->layer[i].kv_block_bytes >
		    QWEN_PIECE_MAX)
			group /= 2;
	}
	for (first = base; first < n; first += step) {
		/* groups at the same places whatever the part begins with */
		step = group - first % group;
		step = n - first < step ? n - first : step;
		for (i = 0; i < s->n_layer; i++) {
			if (s->layer[i].kv_block_bytes != 0 &&
			    put_kv(v, i, base, first, step) < 0)
				return -1;
		}
	}
	return 0;
}

/* DeltaNet and convolution, and logits if not NULL, after at tokens. */
static int
put_memory(struct qwen_save *v, uint64_t at, const void *recurrent,
    const float *logits)
{
	const struct qwen_session *s = v->s;
	const char *base = recurrent;
	struct qwen_object o = { "logits", NONE, (int64_t)at, 4 };
	size_t i;

	for (i = 0; i < s->n_layer; i++) {
		const struct qwen_layer_state *l = &s->layer[i];
		struct qwen_object delta = { "delta", (int64_t)i, (int64_t)at, 4 };
		struct qwen_object conv = { "conv", (int64_t)i, (int64_t)at, 4 };

		if (l->kv_block_bytes != 0)
			continue;
		if (put_object(v, &delta, base + ((const char *)l->s -
		    (const char *)s->recurrent), l->n_s * sizeof *l->s) < 0 ||
		    put_object(v, &conv, base + ((const char *)l->conv -
		    (const char *)s->recurrent), l->n_conv *
		    sizeof *l->conv) < 0)
			return -1;
	}
	return logits == NULL ? 0 : put_object(v, &o, logits,
	    s->model->hp.n_vocab * sizeof *logits);
}

/* The same from the file where it was left. */
static int
put_left(struct qwen_save *v, struct qwen_state_file *f, uint64_t at)
{
	struct qwen_piece *t;
	size_t i;

	for (i = 0; i < f->list.n; i++) {
		const struct qwen_state_entry *e = &f->list.entry[i];
		struct qwen_object o = { .layer = e->layer, .at = e->at,
		    .width = 4 };

		if ((uint64_t)e->at != at || !e->has_data)
			continue;
		o.kind = strcmp(e->kind, "delta") == 0 ? "delta" :
		    strcmp(e->kind, "conv") == 0 ? "conv" :
		    strcmp(e->kind, "logits") == 0 ? "logits" : NULL;
		if (o.kind == NULL)
			continue;
		if ((t = add_piece(v, &o, e->off, (size_t)e->len)) == NULL)
			return -1;
		t->file = f;
		t->record = i;
	}
	return 0;
}

static int
put_mark(struct qwen_save *v, uint64_t at)
{
	struct qwen_state_entry e;

	if (begin(v, "checkpoint", 2, &e) < 0)
		return -1;
	e.at = (int64_t)at;
	qwen_state_put_uint(&v->put, QWEN_F_AT, at);
	qwen_state_put_bool(&v->put, QWEN_F_NAMED, 1);
	return finish(v, &e);
}

static int
put_kept(struct qwen_save *v, const struct qwen_kept *k)
{
	struct qwen_state_file *f = qwen_state_file_of(k->src);
	int r;

	r = f != NULL ? put_left(v, f, k->c.at) :
	    put_memory(v, k->c.at, k->recurrent, k->logits);
	if (r < 0)
		return -1;
	return k->c.named ? put_mark(v, k->c.at) : 0;
}

/* Checkpoints between the ends, and the state at the end. */
static int
put_states(struct qwen_save *v)
{
	const struct qwen_session *s = v->s;
	size_t i;

	for (i = 0; !v->opts->no_checkpoints && i < s->n_kept; i++) {
		if (s->kept[i].c.at > v->from && s->kept[i].c.at < v->to &&
		    put_kept(v, &s->kept[i]) < 0)
			return -1;
	}
	if (v->opts->no_recurrent)
		return 0;
	if (v->kept != NULL)
		return put_kept(v, v->kept);
	if (v->to < s->n_tokens)	/* no state is needed to go on */
		return 0;
	if (put_memory(v, v->to, s->recurrent,
	    s->have_logits ? s->logits : NULL) < 0)
		return -1;
	return s->keep_end > 1 && v->to > v->from ? put_mark(v, v->to) : 0;
}

static int
put_sampler(struct qwen_save *v, const struct qwen_state_extra *x)
{
	struct qwen_state_entry e = { .kind = "sampler", .layer = NONE,
	    .at = NONE };

	if (qwen_send(v) < 0)
		return -1;
	return qwen_state_put_sampler(&v->put, &v->sum, x) ?
	    finish(v, &e) : 0;
}

static int
put_run(struct qwen_save *v, const struct qwen_run *run)
{
	struct qwen_state_entry e = { .kind = "run", .layer = NONE,
	    .at = NONE };

	if (qwen_send(v) < 0)
		return -1;
	return qwen_state_put_run(&v->put, &v->sum, run, v->to) ?
	    finish(v, &e) : 0;
}

static int
put_extra(struct qwen_save *v, const struct qwen_state_extra *x)
{
	struct qwen_object o = { "generated", NONE, NONE, 1 };

	if (put_object(v, &o, x->generated,
	    x->n_generated * sizeof *x->generated) < 0)
		return -1;
	return put_sampler(v, x) < 0 || put_run(v, &x->run) < 0 ? -1 : 0;
}

/* ------------------------------------------------------------ the last ones */

/* What the index says: the records so far. */
static int
put_index(struct qwen_save *v)
{
	struct qwen_object o = { "index", NONE, NONE, 1 };
	size_t i, n = v->list.n;
	unsigned char *b = qwen_alloc(n, QWEN_ENTRY_BYTES);
	int r;

	if (b == NULL)
		return qwen_fail(v->err, QWEN_ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		qwen_state_entry_pack(&v->list.entry[i],
		    b + i * QWEN_ENTRY_BYTES);
	r = put_object(v, &o, b, n * QWEN_ENTRY_BYTES) < 0 ? -1 : qwen_send(v);
	free(b);
	return r;
}

static int
put_end(struct qwen_save *v, uint64_t index, struct qwen_fp *fp)
{
	struct qwen_state_entry e = { .kind = "end", .layer = NONE,
	    .at = NONE };

	if (qwen_send(v) < 0)
		return -1;
	qwen_state_put_end(&v->put, &v->sum, index, fp);
	return finish(v, &e);
}

static int
put_all(struct qwen_save *v, const struct qwen_state_extra *x,
    struct qwen_fp *fp)
{
	const struct qwen_session *s = v->s;
	struct qwen_object tokens = { "tokens", NONE, NONE, 4 };
	uint64_t index;

	if (put_info(v) < 0 || put_object(v, &tokens, s->tokens + v->from,
	    (size_t)(v->to - v->from) * sizeof *s->tokens) < 0)
		return -1;
	if (put_cache(v) < 0 || put_states(v) < 0 || put_extra(v, x) < 0 ||
	    qwen_send(v) < 0)
		return -1;
	index = v->sum.bytes;
	return put_index(v) < 0 ? -1 : put_end(v, index, fp);
}

/* ---------------------------------------------------------- from end to end */

static void
fini(struct qwen_save *v)
{
	qwen_send_fini(v);
	qwen_state_sum_fini(&v->sum);
	free(v->put.buf);
	free(v->list.entry);
}

static int
init(struct qwen_save *v, const struct qwen_header *h)
{
	unsigned char buf[QWEN_HEADER_MAX];

	/* the shapes of the layers take the most */
	v->put.cap = QWEN_PIECE_MAX + QWEN_FIELDS_MAX;
	if ((v->put.buf = malloc(v->put.cap)) == NULL)
		return qwen_fail(v->err, QWEN_ENOMEM, "out of memory");
	return qwen_send_init(v) < 0 ? -1 : qwen_state_sum_init(&v->sum, buf,
	    qwen_header_encode(h, buf), v->err);
}

/* The positions to save from and to, and where the state at the end is. */
static int
find_ends(struct qwen_save *v)
{
	const struct qwen_session *s = v->s;
	size_t i;

	v->from = v->opts->from;
	v->to = v->opts->to > 0 ? v->opts->to : s->n_tokens;
	if (v->from > v->to || v->to > s->n_tokens)
		return qwen_fail(v->err, QWEN_ERANGE, "tokens %llu to %llu of "
		    "%zu", (unsigned long long)v->from,
		    (unsigned long long)v->to, s->n_tokens);
	for (i = 0; v->to < s->n_tokens && i < s->n_kept; i++) {
		if (s->kept[i].c.at == v->to)
			v->kept = &s->kept[i];
	}
	if (v->kept == NULL && v->to < s->n_tokens &&
	    s->recurrent_bytes > 0 && !v->opts->no_recurrent)
		return qwen_fail(v->err, QWEN_ERANGE,
		    "no checkpoint after %llu tokens",
		    (unsigned long long)v->to);
	return 0;
}

int
qwen_state_save(const struct qwen_session *s,
    const struct qwen_state_extra *x, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err)
{
	static const struct qwen_state_opts plain;
	static const struct qwen_state_extra none;
	struct qwen_state_extra cut = { 0 };
	struct qwen_header h;
	struct qwen_fp total;
	struct qwen_save *v;
	int r = -1;

	if (qwen_state_header(&h, s->model, err) < 0)
		return -1;
	if ((v = qwen_alloc(1, sizeof *v)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	v->s = s;
	v->opts = opts != NULL ? opts : &plain;
	v->w = w;
	v->err = err;
	v->level = v->opts->no_compress ? 0 : LEVEL;
	v->align = v->opts->no_compress ? QWEN_ALIGN : 0;
	x = x != NULL ? x : &none;
	if (find_ends(v) == 0 && qwen_state_extra_copy(&cut, x, v->to,
	    v->to == s->n_tokens, err) == 0 && init(v, &h) == 0 &&
	    qwen_write_header(w, &h, err) == 0 && put_all(v, &cut, &total) == 0)
		r = 0;
	if (r == 0 && fp != NULL)
		*fp = total;
	qwen_state_extra_fini(&cut);
	fini(v);
	free(v);
	return r;
}
