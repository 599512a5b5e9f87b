/* SPDX-License-Identifier: ISC */
/*
 * save.c - a session to a stream of state, record by record, with buffers of
 * fixed size.  The KV cache goes out by positions, all layers of the first
 * ones before any of the next, so that a reader never has to make room for
 * positions of which nothing came.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "model/model.h"
#include "state/state.h"
#include "wire/record.h"

enum {
	GROUP_BLOCKS = 16,	/* KV blocks in a record: 256 positions */
	LEVEL = 1,		/* of zstd; higher ones gain nothing on floats */
	NONE = -1,
};

struct save {
	const struct qwen_session *s;
	struct qwen_writer	*w;
	struct qwen_state_sum	 sum;
	struct qwen_state_put	 put;
	struct qwen_coder	*coder;
	unsigned char		*raw;	/* QWEN_PIECE_MAX */
	int			 level;
	size_t			 align;
	struct qwen_err		*err;
};

/* What pieces of data belong to; layer and at may be NONE. */
struct object {
	const char	*kind;
	int64_t		 layer, at;
	unsigned	 width;		/* bytes of a number */
};

/* The record that is complete in v->put. */
static int
finish(struct save *v, const void *data, size_t n_data, uint64_t n_raw)
{
	qwen_state_put_finish(&v->put, &v->sum, data, n_data, n_raw, v->align);
	return qwen_write_state(v->w, v->put.buf, v->put.n, v->err);
}

/* n bytes of the object, at off. */
static int
put_piece(struct save *v, const struct object *o, uint64_t off,
    const void *raw, size_t n)
{
	struct qwen_state_put *p = &v->put;
	const unsigned char *data;
	enum qwen_codec codec;
	size_t n_data;

	if (qwen_coder_encode(v->coder, raw, n, o->width, v->level, &codec,
	    &data, &n_data, v->err) < 0)
		return -1;
	qwen_state_put_begin(p, &v->sum, o->kind,
	    3u + (o->layer != NONE) + (o->at != NONE));
	if (o->layer != NONE)
		qwen_state_put_uint(p, QWEN_F_LAYER, (uint64_t)o->layer);
	if (o->at != NONE)
		qwen_state_put_uint(p, QWEN_F_AT, (uint64_t)o->at);
	qwen_state_put_uint(p, QWEN_F_OFF, off);
	qwen_state_put_uint(p, QWEN_F_LEN, n);
	qwen_state_put_text(p, QWEN_F_CODEC, qwen_codec_name(codec));
	return finish(v, data, n_data, n);
}

/* All n bytes of an object that lies in one place. */
static int
put_object(struct save *v, const struct object *o, const void *data, size_t n)
{
	const unsigned char *p = data;
	size_t off, part;

	for (off = 0; off < n; off += part) {
		part = n - off < QWEN_PIECE_MAX ? n - off : QWEN_PIECE_MAX;
		if (put_piece(v, o, off, p + off, part) < 0)
			return -1;
	}
	return 0;
}

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
put_info(struct save *v)
{
	struct qwen_state_put *p = &v->put;
	size_t i, n = v->s->n_layer;

	if (n > QWEN_PIECE_MAX / 64)	/* a shape takes 53 bytes at most */
		return qwen_fail(v->err, QWEN_ERANGE, "%zu layers", n);
	qwen_state_put_begin(p, &v->sum, "info", 5);
	qwen_state_put_uint(p, QWEN_F_FORMAT, QWEN_STATE_FORMAT);
	qwen_state_put_text(p, QWEN_F_WRITER, "libqwen " QWEN_VERSION);
	qwen_state_put_uint(p, QWEN_F_N_TOKENS, v->s->n_tokens);
	qwen_state_put_uint(p, QWEN_F_KV_BLOCK, QWEN_KV_BLOCK);
	qwen_state_put_key(p, QWEN_F_LAYERS);
	qwen_state_put_array(p, n);
	for (i = 0; i < n; i++)
		put_shape(v, i);
	return finish(v, NULL, 0, 0);
}

/* KV blocks first .. first + n - 1 of a layer. */
static int
put_kv(struct save *v, size_t layer, size_t first, size_t n)
{
	const struct qwen_layer_state *l = &v->s->layer[layer];
	struct object o = { "kv", (int64_t)layer, NONE, 2 };
	size_t i, size = l->kv_block_bytes, part, off;
	uint64_t base = (uint64_t)first * size;

	if (n * size <= QWEN_PIECE_MAX) {
		for (i = 0; i < n; i++)
			memcpy(v->raw + i * size, l->block[first + i], size);
		return put_piece(v, &o, base, v->raw, n * size);
	}
	/* blocks larger than a record: each in pieces */
	for (i = 0; i < n; i++, base += size) {
		const char *p = (const char *)l->block[first + i];

		for (off = 0; off < size; off += part) {
			part = size - off < QWEN_PIECE_MAX ? size - off :
			    QWEN_PIECE_MAX;
			if (put_piece(v, &o, base + off, p + off, part) < 0)
				return -1;
		}
	}
	return 0;
}

static int
put_cache(struct save *v)
{
	const struct qwen_session *s = v->s;
	size_t n = (s->n_tokens + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
	size_t i, first, step, group = GROUP_BLOCKS;

	for (i = 0; i < s->n_layer; i++) {
		while (group > 1 && group * s->layer[i].kv_block_bytes >
		    QWEN_PIECE_MAX)
			group /= 2;
	}
	for (first = 0; first < n; first += step) {
		step = n - first < group ? n - first : group;
		for (i = 0; i < s->n_layer; i++) {
			if (s->layer[i].kv_block_bytes != 0 &&
			    put_kv(v, i, first, step) < 0)
				return -1;
		}
	}
	return 0;
}

/* DeltaNet and convolution, as they are after the last token. */
static int
put_recurrent(struct save *v)
{
	const struct qwen_session *s = v->s;
	int64_t at = (int64_t)s->n_tokens;
	size_t i;

	for (i = 0; i < s->n_layer; i++) {
		const struct qwen_layer_state *l = &s->layer[i];
		struct object delta = { "delta", (int64_t)i, at, 4 };
		struct object conv = { "conv", (int64_t)i, at, 4 };

		if (l->kv_block_bytes != 0)
			continue;
		if (put_object(v, &delta, l->s, l->n_s * sizeof *l->s) < 0 ||
		    put_object(v, &conv, l->conv, l->n_conv *
		    sizeof *l->conv) < 0)
			return -1;
	}
	return 0;
}

static int
put_logits(struct save *v)
{
	const struct qwen_session *s = v->s;
	struct object o = { "logits", NONE, (int64_t)s->n_tokens, 4 };

	if (!s->have_logits)
		return 0;
	return put_object(v, &o, s->logits,
	    s->model->hp.n_vocab * sizeof *s->logits);
}

static int
put_sampler(struct save *v, const struct qwen_state_extra *x)
{
	struct qwen_state_put *p = &v->put;

	if (x->sampler == NULL && x->n_pending == 0)
		return 0;
	qwen_state_put_begin(p, &v->sum, "sampler", 2);
	qwen_state_put_text(p, QWEN_F_OPTIONS,
	    x->sampler != NULL ? x->sampler : "");
	qwen_state_put_bytes(p, QWEN_F_PENDING, x->pending, x->n_pending);
	return finish(v, NULL, 0, 0);
}

/* Tokens behind a run, or a cut through it, make it a thing of the past. */
static int
put_run(struct save *v, const struct qwen_run *run)
{
	struct qwen_state_put *p = &v->put;

	if (run->options == NULL || run->from > v->s->n_tokens ||
	    run->count != v->s->n_tokens - run->from)
		return 0;
	qwen_state_put_begin(p, &v->sum, "run", 8);
	qwen_state_put_uint(p, QWEN_F_START, run->from);
	qwen_state_put_uint(p, QWEN_F_COUNT, run->count);
	qwen_state_put_uint(p, QWEN_F_INPUT, run->input);
	qwen_state_put_text(p, QWEN_F_OPTIONS, run->options);
	qwen_state_put_bool(p, QWEN_F_FINISHED, run->finished);
	qwen_state_put_bool(p, QWEN_F_AGAIN, run->again);
	qwen_state_put_bytes(p, QWEN_F_BASE, run->base.b,
	    run->has_base ? sizeof run->base.b : 0);
	qwen_state_put_bool(p, QWEN_F_SKIP, 1);
	return finish(v, NULL, 0, 0);
}

static int
put_extra(struct save *v, const struct qwen_state_extra *x)
{
	struct object o = { "generated", NONE, NONE, 1 };

	if (x == NULL)
		return 0;
	if (put_object(v, &o, x->generated,
	    x->n_generated * sizeof *x->generated) < 0)
		return -1;
	return put_sampler(v, x) < 0 || put_run(v, &x->run) < 0 ? -1 : 0;
}

static int
put_end(struct save *v, struct qwen_fp *fp)
{
	struct qwen_state_put *p = &v->put;

	qwen_state_sum_total(&v->sum, fp);
	qwen_state_put_begin(p, &v->sum, "end", 4);
	qwen_state_put_uint(p, QWEN_F_RECORDS, v->sum.n);
	qwen_state_put_uint(p, QWEN_F_BYTES, v->sum.bytes);
	qwen_state_put_uint(p, QWEN_F_RAW, v->sum.raw);
	qwen_state_put_bytes(p, QWEN_F_TOTAL, fp->b, sizeof fp->b);
	return finish(v, NULL, 0, 0);
}

static int
put_all(struct save *v, const struct qwen_state_extra *x, struct qwen_fp *fp)
{
	const struct qwen_session *s = v->s;
	struct object tokens = { "tokens", NONE, NONE, 4 };

	if (put_info(v) < 0 || put_object(v, &tokens, s->tokens,
	    s->n_tokens * sizeof *s->tokens) < 0)
		return -1;
	if (put_cache(v) < 0 || put_recurrent(v) < 0 || put_logits(v) < 0)
		return -1;
	return put_extra(v, x) < 0 || put_end(v, fp) < 0 ? -1 : 0;
}

static void
fini(struct save *v)
{
	qwen_state_sum_fini(&v->sum);
	qwen_coder_free(v->coder);
	free(v->put.buf);
	free(v->raw);
}

static int
init(struct save *v, const struct qwen_header *h)
{
	unsigned char buf[QWEN_HEADER_MAX];

	v->put.cap = QWEN_PIECE_MAX + QWEN_FIELDS_MAX;
	v->put.buf = qwen_alloc(1, v->put.cap);
	v->raw = qwen_alloc(1, QWEN_PIECE_MAX);
	if (v->put.buf == NULL || v->raw == NULL)
		return qwen_fail(v->err, QWEN_ENOMEM, "out of memory");
	if (qwen_coder_new(&v->coder, v->err) < 0)
		return -1;
	return qwen_state_sum_init(&v->sum, buf, qwen_header_encode(h, buf),
	    v->err);
}

int
qwen_state_save(const struct qwen_session *s,
    const struct qwen_state_extra *x, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err)
{
	int plain = opts != NULL && opts->no_compress;
	struct save v = { .s = s, .w = w, .err = err,
	    .level = plain ? 0 : LEVEL, .align = plain ? QWEN_ALIGN : 0 };
	struct qwen_header h;
	struct qwen_fp total;
	int r = -1;

	if (qwen_header_init(&h, QWEN_STREAM_STATE,
	    qwen_model_gguf(s->model), err) < 0)
		return -1;
	if (init(&v, &h) == 0 && qwen_write_header(w, &h, err) == 0 &&
	    put_all(&v, x, &total) == 0)
		r = 0;
	if (r == 0 && fp != NULL)
		*fp = total;
	fini(&v);
	return r;
}
