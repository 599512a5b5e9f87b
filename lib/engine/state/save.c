/* SPDX-License-Identifier: ISC */
/*
 * save.c - saves the state of a session, or of a file without the model: cut at
 * a checkpoint, with other compression, or converted.  Blocks of a file are
 * written in the file's order, and unchanged blocks are not encoded again.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sized.h"
#include "engine/state/section.h"
#include "engine/state/write.h"
#include "wire/record.h"

enum { LEVEL = 1 };	/* of zstd; higher levels gain nothing on floats */

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

/* Saves from a source that is described in *v, with the range set. */
static int
save(struct qwen_save *v, const struct qwen_state_extra *x, struct qwen_fp *fp)
{
	const uint64_t to = v->lay.info.n_tokens;
	int r;

	v->level = v->opts->no_compress ? 0 : LEVEL;
	v->align = v->opts->no_compress ? QWEN_ALIGN : 0;
	r = x == NULL ? 0 : qwen_state_extra_copy(&v->x, x, to,
	    to == v->n_tokens, v->err);
	if (r == 0)
		r = init(v, &v->lay.info.header);
	for (v->kind = QWEN_K_INFO; r == 0 && v->kind < QWEN_N_KINDS;
	    v->kind++) {
		if (qwen_sections[v->kind].write != NULL)
			r = qwen_sections[v->kind].write(v);
	}
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
	struct qwen_state_info *p = &v->lay.info;
	size_t i;

	p->from = v->opts->from;
	p->n_tokens = v->opts->to > 0 ? v->opts->to : v->n_tokens;
	p->part = p->from > 0 || v->opts->no_recurrent;
	if (p->from > p->n_tokens || p->n_tokens > v->n_tokens)
		return qwen_fail(v->err, QWEN_ERANGE, "tokens %" PRIu64 " to %"
		    PRIu64 " of %" PRIu64 ": invalid range", p->from,
		    p->n_tokens, v->n_tokens);
	if (p->n_tokens == v->n_tokens)
		return 0;
	for (i = 0; i < qwen_session_n_checkpoints(s); i++) {
		if (qwen_session_kept(s, i)->c.at == p->n_tokens)
			v->kept = qwen_session_kept(s, i);
	}
	if (v->kept == NULL && qwen_session_view(s).recurrent_bytes > 0 &&
	    !v->opts->no_recurrent)
		return qwen_fail(v->err, QWEN_ERANGE, "there is no checkpoint "
		    "after %" PRIu64 " tokens", p->n_tokens);
	return 0;
}

/* Prepares the MTP block's part, computing it if that was deferred. */
static int
prepare_mtp(struct qwen_save *v)
{
	/* v->s is const for callers: the session stays the same for them */
	struct qwen_session *s = (struct qwen_session *)(uintptr_t)v->s;
	struct qwen_state_mtp *p = &v->lay.mtp;

	if (!qwen_model_has_mtp(qwen_session_model(s)) ||
	    qwen_session_mtp_ready(s) < 0)
		return 0;
	if (qwen_state_mtp_of(p, s, v->err) < 0)
		return -1;
	p->there = p->first < v->lay.info.n_tokens;
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
		return qwen_fail(err, QWEN_ERANGE, "a run with %" PRIu64
		    " tokens of input begins at %" PRIu64, x->run.input,
		    x->run.from);
	return 0;
}

int
qwen_state_save_sized(size_t size, const struct qwen_session *s,
    const struct qwen_state_extra *x, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err)
{
	struct qwen_model *m = qwen_session_model(s);
	size_t i, n_layer = qwen_model_n_layer(m), n_span = 0;
	struct qwen_state_layer *layer;
	struct qwen_state_opts own;
	struct qwen_save *v;
	int r = -1;

	if (QWEN_SIZED(opts, own, size, err) < 0 ||
	    check_extra(x, err) < 0)
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
		    .span = qwen_session_spans(s, &n_span), .n_span = n_span,
		    .lay.info = { .layers = layer, .n_layers = n_layer,
		    .converted = qwen_session_converted(s) },
		    .pool = qwen_model_pool(m) };
		r = qwen_model_header(&v->lay.info.header, m,
		    QWEN_STREAM_STATE, err) < 0 || set_range(v) < 0 ||
		    prepare_mtp(v) < 0 || qwen_session_fetch(s, err) < 0 ?
		    -1 : save(v, x, fp);
	}
	free(layer);
	free(v);
	return r;
}

/* Checks that the state can be continued from where it is cut. */
static int
check_cut(const struct qwen_state_info *info, uint64_t to,
    struct qwen_err *err)
{
	size_t i;

	if (info->part)
		return qwen_fail(err, QWEN_EUNSUP, "the file holds a part "
		    "of a state, from position %" PRIu64, info->from);
	if (to == info->n_tokens)
		return 0;
	for (i = 0; i < info->n_checkpoints; i++) {
		if (info->checkpoints[i].at == to)
			return 0;
	}
	return qwen_fail(err, QWEN_ERANGE, "there is no checkpoint after "
	    "%" PRIu64 " tokens", to);
}

/* Writes the file's state, cut at the end that *v has. */
static int
copy(struct qwen_save *v, struct qwen_fp *fp)
{
	const struct qwen_state_info *info = &v->f->in.lay.info;
	int r;

	if (qwen_pool_new(&v->pool, qwen_state_threads(v->opts->n_threads,
	    info->stored), v->err) < 0)
		return -1;
	r = check_cut(info, v->lay.info.n_tokens, v->err) < 0 ? -1 :
	    save(v, info->extra, fp);
	qwen_pool_free(v->pool);
	return r;
}

int
qwen_state_copy_sized(size_t size, struct qwen_state_file *f,
    struct qwen_writer *w, const struct qwen_state_opts *opts,
    struct qwen_fp *fp, struct qwen_err *err)
{
	const struct qwen_header *h = &f->in.lay.info.header;
	struct qwen_state_loss none;
	struct qwen_state_opts own;

	return QWEN_SIZED(opts, own, size, err) < 0 ? -1 :
	    qwen_state_convert(f, w, h->k, h->v, opts, &none, fp, err);
}

static double
share(const struct qwen_kv_loss *l)
{
	return l->all > 0 ? sqrt(l->lost / l->all) : 0;
}

/* Sets the types of keys and values to write, which differ from the file's. */
static void
set_types(struct qwen_save *v, struct qwen_state_layer *layer, enum qwen_kv k,
    enum qwen_kv kind_v)
{
	size_t i;

	for (i = 0; i <= v->lay.info.n_layers; i++) {
		struct qwen_state_layer *l = i < v->lay.info.n_layers ?
		    &layer[i] : &v->lay.mtp.layer;

		l->n[2] = l->kv ? k : l->n[2];
		l->n[3] = l->kv ? kind_v : l->n[3];
	}
	v->lay.info.header.k = k;
	v->lay.info.header.v = kind_v;
	v->lay.info.converted = 1;
}

int
qwen_state_convert_sized(size_t size, struct qwen_state_file *f,
    struct qwen_writer *w, enum qwen_kv kind_k, enum qwen_kv kind_v,
    const struct qwen_state_opts *opts, struct qwen_state_loss *loss,
    struct qwen_fp *fp, struct qwen_err *err)
{
	const struct qwen_state_info *info = &f->in.lay.info;
	const struct qwen_header *h = &info->header;
	int other = kind_k != h->k || kind_v != h->v;
	struct qwen_kv_convert c = { .vec = NULL };
	struct qwen_state_layer *layer;
	struct qwen_state_opts own;
	struct qwen_save *v;
	int r = -1;

	*loss = (struct qwen_state_loss){ 0 };
	if (QWEN_SIZED(opts, own, size, err) < 0)
		return -1;
	if (qwen_kv_head_bytes(kind_k, QWEN_KV_GROUP) >
	    qwen_kv_head_bytes(h->k, QWEN_KV_GROUP) ||
	    qwen_kv_head_bytes(kind_v, QWEN_KV_GROUP) >
	    qwen_kv_head_bytes(h->v, QWEN_KV_GROUP))
		return qwen_fail(err, QWEN_EUNSUP, "keys %s and values %s "
		    "cannot become %s and %s: the lost precision cannot be "
		    "restored", qwen_kv_name(h->k), qwen_kv_name(h->v),
		    qwen_kv_name(kind_k), qwen_kv_name(kind_v));
	layer = qwen_alloc(info->n_layers, sizeof *layer);
	v = qwen_alloc(1, sizeof *v);
	if (layer == NULL || v == NULL)
		qwen_oom(err);
	else {
		memcpy(layer, info->layers, info->n_layers * sizeof *layer);
		*v = (struct qwen_save){ .f = f, .w = w, .err = err,
		    .opts = opts != NULL ? opts : &plain,
		    .tokens = info->tokens, .n_tokens = info->n_tokens,
		    .span = info->spans, .n_span = info->n_spans,
		    .lay.info = { .header = *h, .n_tokens = info->n_tokens,
		    .converted = info->converted, .layers = layer,
		    .n_layers = info->n_layers }, .lay.mtp = f->in.lay.mtp };
		if (v->opts->to > 0)
			v->lay.info.n_tokens = v->opts->to;
		v->lay.mtp.there &= v->lay.mtp.first < v->lay.info.n_tokens;
		if (other) {
			qwen_kv_convert_init(&c);
			v->convert = &c;
			set_types(v, layer, kind_k, kind_v);
		}
		r = copy(v, fp);
		loss->keys = share(&c.loss[0]);
		loss->values = share(&c.loss[1]);
	}
	free(layer);
	free(v);
	return r;
}
