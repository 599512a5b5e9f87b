/* SPDX-License-Identifier: ISC */
/*
 * save.c - a session to a stream of state, record by record.
 *
 * Pieces of data wait in a row of slots until it is full; then all threads
 * encode them, and they go out in their order.  The KV cache goes by positions,
 * all layers of the first ones before any of the next, so that a reader never
 * has to make room for positions of which nothing came.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "model/model.h"
#include "state/load.h"
#include "wire/record.h"

enum {
	GROUP_BLOCKS = 16,	/* KV blocks in a record: 256 positions */
	LEVEL = 1,		/* of zstd; higher ones gain nothing on floats */
	NONE = -1,
	SLOTS = 16,
	CODERS = 8,		/* threads that encode at once */
};

/* What pieces of data belong to; layer and at may be NONE. */
struct object {
	const char	*kind;
	int64_t		 layer, at;
	unsigned	 width;		/* bytes of a number */
};

/* A piece of data on its way out. */
struct slot {
	struct object	 o;
	uint64_t	 off;
	size_t		 n;
	const void	*src;		/* n bytes; or NULL, */
	struct qwen_state_file *file;	/* a record of a file, */
	size_t		 record;
	size_t		 first;		/* or KV blocks from this one, at */
	size_t		 at;		/* this byte of it */
	/* what encoding makes of it */
	unsigned char	*raw;		/* where the source is not one piece */
	unsigned char	*out;
	enum qwen_codec	 codec;
	const unsigned char *data;
	size_t		 n_data;
	int		 failed;
	struct qwen_err	 err;
};

struct save {
	const struct qwen_session *s;
	uint64_t		 from, to;
	const struct qwen_kept	*kept;	/* the state at to; NULL: the end's */
	const struct qwen_state_opts *opts;
	struct qwen_writer	*w;
	struct qwen_state_sum	 sum;
	struct qwen_state_put	 put;
	struct qwen_state_list	 list;	/* what the index will say */
	int			 level;
	size_t			 align;
	struct qwen_err		*err;
	struct slot		 slot[SLOTS];
	size_t			 n_slot;
	struct qwen_coder	*coder[CODERS];
	size_t			 n_coder;
	_Atomic size_t		 next;
};

/* ------------------------------------------------------------------ encoding */

/* The KV blocks of a slot, one after the other; nothing behind v->to. */
static void
gather(const struct save *v, struct slot *t)
{
	const struct qwen_layer_state *l = &v->s->layer[t->o.layer];
	size_t size = l->kv_block_bytes, i, part, at = t->at, b = t->first;
	size_t used = (size_t)(v->to % QWEN_KV_BLOCK);

	for (i = 0; i < t->n; i += part, b++, at = 0) {
		part = size - at < t->n - i ? size - at : t->n - i;
		memcpy(t->raw + i, (const char *)l->block[b] + at, part);
		if (used != 0 && b == v->to / QWEN_KV_BLOCK)
			qwen_session_clear_lanes(&v->s->model->hp,
			    t->raw + i, at, part, used);
	}
}

/*
 * A record that is in a file already: as it is there, or decoded where the
 * form without compression is made of one with.
 */
static int
fetch(const struct save *v, struct slot *t, struct qwen_coder *c, int *ready)
{
	struct qwen_state_rec rec;
	const unsigned char *raw;
	int packed;

	if (qwen_state_file_rec(t->file, t->record, &rec, t->raw,
	    &t->err) < 0)
		return -1;
	if (qwen_state_want(&rec, &t->err) < 0)
		return qwen_state_rec_fail(&rec, &t->err);
	packed = rec.codec != QWEN_CODEC_NONE;
	t->src = rec.data;
	*ready = packed && v->level > 0;
	if (*ready) {
		t->codec = rec.codec;
		t->data = rec.data;
		t->n_data = rec.n_data;
		return 0;
	}
	if (!packed)
		return 0;
	if (qwen_coder_decode(c, rec.codec, rec.data, rec.n_data, rec.len,
	    &raw, &t->err) < 0)
		return qwen_state_rec_fail(&rec, &t->err);
	memcpy(t->out, raw, rec.len);
	t->src = t->out;
	return 0;
}

static int
encode(const struct save *v, struct slot *t, struct qwen_coder *c)
{
	int ready = 0;

	if (t->file != NULL) {
		if (fetch(v, t, c, &ready) < 0)
			return -1;
		if (ready)
			return 0;
	} else if (t->src == NULL) {
		gather(v, t);
		t->src = t->raw;
	}
	return qwen_coder_encode(c, t->src, t->n, t->o.width, v->level, t->out,
	    &t->codec, &t->data, &t->n_data, &t->err);
}

/* Slots until there are none, with a coder of its own. */
static void
work(void *arg, size_t item, int thread)
{
	struct save *v = arg;
	size_t i;

	(void)thread;
	while ((i = atomic_fetch_add(&v->next, 1)) < v->n_slot)
		v->slot[i].failed = encode(v, &v->slot[i], v->coder[item]) < 0;
}

/* ------------------------------------------------------------------- writing */

/* The record that is complete in v->put. */
static int
finish(struct save *v, const void *data, size_t n_data,
    struct qwen_state_entry *e)
{
	e->offset = v->sum.bytes;
	qwen_state_put_finish(&v->put, &v->sum, data, n_data, e->len,
	    v->align);
	e->bytes = v->put.n;
	memcpy(e->check, v->put.buf + v->put.n - QWEN_CHECK_BYTES,
	    QWEN_CHECK_BYTES);
	if (qwen_state_list_add(&v->list, e, v->err) < 0)
		return -1;
	return qwen_write_state(v->w, v->put.buf, v->put.n, v->err);
}

static int
put_slot(struct save *v, const struct slot *t)
{
	struct qwen_state_put *p = &v->put;
	const struct object *o = &t->o;
	struct qwen_state_entry e = { .has_data = 1, .codec = t->codec,
	    .layer = o->layer, .at = o->at, .off = t->off, .len = t->n };

	strcpy(e.kind, o->kind);
	qwen_state_put_begin(p, &v->sum, o->kind,
	    3u + (o->layer != NONE) + (o->at != NONE));
	if (o->layer != NONE)
		qwen_state_put_uint(p, QWEN_F_LAYER, (uint64_t)o->layer);
	if (o->at != NONE)
		qwen_state_put_uint(p, QWEN_F_AT, (uint64_t)o->at);
	qwen_state_put_uint(p, QWEN_F_OFF, t->off);
	qwen_state_put_uint(p, QWEN_F_LEN, t->n);
	qwen_state_put_text(p, QWEN_F_CODEC, qwen_codec_name(t->codec));
	return finish(v, t->data, t->n_data, &e);
}

/* Encode and write what waits. */
static int
flush(struct save *v)
{
	size_t i;

	if (v->n_slot == 0)
		return 0;
	atomic_store(&v->next, 0);
	qwen_pool_run(v->s->model->pool, work, v,
	    v->n_coder < v->n_slot ? v->n_coder : v->n_slot);
	for (i = 0; i < v->n_slot; i++) {
		if (v->slot[i].failed) {
			if (v->err != NULL)
				*v->err = v->slot[i].err;
			return -1;
		}
		if (put_slot(v, &v->slot[i]) < 0)
			return -1;
	}
	v->n_slot = 0;
	return 0;
}

/* A record without data; the fields follow. */
static int
begin(struct save *v, const char *kind, size_t n_fields,
    struct qwen_state_entry *e)
{
	*e = (struct qwen_state_entry){ .layer = NONE, .at = NONE };
	strcpy(e->kind, kind);
	if (flush(v) < 0)
		return -1;
	qwen_state_put_begin(&v->put, &v->sum, kind, n_fields);
	return 0;
}

/* The next slot, for n bytes of the object at off; NULL: flushing failed. */
static struct slot *
take_slot(struct save *v, const struct object *o, uint64_t off, size_t n)
{
	struct slot *t;

	if (v->n_slot == SLOTS && flush(v) < 0)
		return NULL;
	t = &v->slot[v->n_slot];
	if (t->raw == NULL)
		t->raw = malloc(QWEN_STATE_MAX);
	if (t->out == NULL)
		t->out = malloc(QWEN_PIECE_MAX);
	if (t->raw == NULL || t->out == NULL) {
		qwen_fail(v->err, QWEN_ENOMEM, "out of memory");
		return NULL;
	}
	t->o = *o;
	t->off = off;
	t->n = n;
	t->src = NULL;
	t->file = NULL;
	v->n_slot++;
	return t;
}

/* All n bytes of an object that lies in one place, until they are written. */
static int
put_object(struct save *v, const struct object *o, const void *data, size_t n)
{
	const unsigned char *p = data;
	struct slot *t;
	size_t off, part;

	for (off = 0; off < n; off += part) {
		part = n - off < QWEN_PIECE_MAX ? n - off : QWEN_PIECE_MAX;
		if ((t = take_slot(v, o, off, part)) == NULL)
			return -1;
		t->src = p + off;
	}
	return 0;
}

/* ----------------------------------------------------------------- the kinds */

static void
put_shape(struct save *v, size_t layer)
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
is_part(const struct save *v)
{
	return v->from > 0 || v->opts->no_recurrent;
}

static int
put_info(struct save *v)
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
	return finish(v, NULL, 0, &e);
}

/* KV blocks first .. first + n - 1 of a layer, of which base are not saved. */
static int
put_kv(struct save *v, size_t layer, size_t base, size_t first, size_t n)
{
	struct object o = { "kv", (int64_t)layer, NONE, 2 };
	size_t size = v->s->layer[layer].kv_block_bytes, done, part;
	size_t total = n * size;
	struct slot *t;

	for (done = 0; done < total; done += part) {
		part = total - done;
		if (total > QWEN_PIECE_MAX) {	/* then n is 1 */
			part = part < QWEN_PIECE_MAX ? part : QWEN_PIECE_MAX;
		}
		t = take_slot(v, &o, (uint64_t)(first - base) * size + done,
		    part);
		if (t == NULL)
			return -1;
		t->first = first;
		t->at = done;
	}
	return 0;
}

static int
put_cache(struct save *v)
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
put_memory(struct save *v, uint64_t at, const void *recurrent,
    const float *logits)
{
	const struct qwen_session *s = v->s;
	const char *base = recurrent;
	struct object o = { "logits", NONE, (int64_t)at, 4 };
	size_t i;

	for (i = 0; i < s->n_layer; i++) {
		const struct qwen_layer_state *l = &s->layer[i];
		struct object delta = { "delta", (int64_t)i, (int64_t)at, 4 };
		struct object conv = { "conv", (int64_t)i, (int64_t)at, 4 };

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
put_left(struct save *v, struct qwen_state_file *f, uint64_t at)
{
	struct slot *t;
	size_t i;

	for (i = 0; i < f->list.n; i++) {
		const struct qwen_state_entry *e = &f->list.entry[i];
		struct object o = { .layer = e->layer, .at = e->at,
		    .width = 4 };

		if ((uint64_t)e->at != at || !e->has_data)
			continue;
		o.kind = strcmp(e->kind, "delta") == 0 ? "delta" :
		    strcmp(e->kind, "conv") == 0 ? "conv" :
		    strcmp(e->kind, "logits") == 0 ? "logits" : NULL;
		if (o.kind == NULL)
			continue;
		if ((t = take_slot(v, &o, e->off, (size_t)e->len)) == NULL)
			return -1;
		t->file = f;
		t->record = i;
	}
	return 0;
}

static int
put_mark(struct save *v, uint64_t at)
{
	struct qwen_state_entry e;

	if (begin(v, "checkpoint", 2, &e) < 0)
		return -1;
	e.at = (int64_t)at;
	qwen_state_put_uint(&v->put, QWEN_F_AT, at);
	qwen_state_put_bool(&v->put, QWEN_F_NAMED, 1);
	return finish(v, NULL, 0, &e);
}

static int
put_kept(struct save *v, const struct qwen_kept *k)
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
put_states(struct save *v)
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
put_sampler(struct save *v, const struct qwen_state_extra *x)
{
	struct qwen_state_entry e = { .kind = "sampler", .layer = NONE,
	    .at = NONE };

	if (flush(v) < 0)
		return -1;
	return qwen_state_put_sampler(&v->put, &v->sum, x) ?
	    finish(v, NULL, 0, &e) : 0;
}

static int
put_run(struct save *v, const struct qwen_run *run)
{
	struct qwen_state_entry e = { .kind = "run", .layer = NONE,
	    .at = NONE };

	if (flush(v) < 0)
		return -1;
	return qwen_state_put_run(&v->put, &v->sum, run, v->to) ?
	    finish(v, NULL, 0, &e) : 0;
}

static int
put_extra(struct save *v, const struct qwen_state_extra *x)
{
	struct object o = { "generated", NONE, NONE, 1 };

	if (put_object(v, &o, x->generated,
	    x->n_generated * sizeof *x->generated) < 0)
		return -1;
	return put_sampler(v, x) < 0 || put_run(v, &x->run) < 0 ? -1 : 0;
}

/* -------------------------------------------------------------- the last ones */

/* What the index says: the records so far. */
static int
put_index(struct save *v)
{
	struct object o = { "index", NONE, NONE, 1 };
	size_t i, n = v->list.n;
	unsigned char *b = qwen_alloc(n, QWEN_ENTRY_BYTES);
	int r;

	if (b == NULL)
		return qwen_fail(v->err, QWEN_ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		qwen_state_entry_pack(&v->list.entry[i],
		    b + i * QWEN_ENTRY_BYTES);
	r = put_object(v, &o, b, n * QWEN_ENTRY_BYTES) < 0 ? -1 : flush(v);
	free(b);
	return r;
}

static int
put_end(struct save *v, uint64_t index, struct qwen_fp *fp)
{
	struct qwen_state_entry e = { .kind = "end", .layer = NONE,
	    .at = NONE };

	if (flush(v) < 0)
		return -1;
	qwen_state_put_end(&v->put, &v->sum, index, fp);
	return finish(v, NULL, 0, &e);
}

static int
put_all(struct save *v, const struct qwen_state_extra *x, struct qwen_fp *fp)
{
	const struct qwen_session *s = v->s;
	struct object tokens = { "tokens", NONE, NONE, 4 };
	uint64_t index;

	if (put_info(v) < 0 || put_object(v, &tokens, s->tokens + v->from,
	    (size_t)(v->to - v->from) * sizeof *s->tokens) < 0)
		return -1;
	if (put_cache(v) < 0 || put_states(v) < 0 || put_extra(v, x) < 0 ||
	    flush(v) < 0)
		return -1;
	index = v->sum.bytes;
	return put_index(v) < 0 ? -1 : put_end(v, index, fp);
}

/* ---------------------------------------------------------- from end to end */

static void
fini(struct save *v)
{
	size_t i;

	qwen_state_sum_fini(&v->sum);
	for (i = 0; i < v->n_coder; i++)
		qwen_coder_free(v->coder[i]);
	for (i = 0; i < SLOTS; i++) {
		free(v->slot[i].raw);
		free(v->slot[i].out);
	}
	free(v->put.buf);
	free(v->list.entry);
}

static int
init(struct save *v, const struct qwen_header *h)
{
	size_t n = (size_t)qwen_pool_threads(v->s->model->pool);
	unsigned char buf[QWEN_HEADER_MAX];

	v->put.cap = QWEN_STATE_MAX + QWEN_FIELDS_MAX;
	v->put.buf = qwen_alloc(1, v->put.cap);
	if (v->put.buf == NULL)
		return qwen_fail(v->err, QWEN_ENOMEM, "out of memory");
	for (n = n < CODERS ? n : CODERS; v->n_coder < n; v->n_coder++) {
		if (qwen_coder_new(&v->coder[v->n_coder], v->err) < 0)
			return -1;
	}
	return qwen_state_sum_init(&v->sum, buf, qwen_header_encode(h, buf),
	    v->err);
}

/* The positions to save from and to, and where the state at the end is. */
static int
find_ends(struct save *v)
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
	struct save *v;
	int r = -1;

	if (qwen_header_init(&h, QWEN_STREAM_STATE,
	    qwen_model_gguf(s->model), err) < 0)
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
