/* SPDX-License-Identifier: ISC */
/*
 * layout.c - what a state consists of, and whether all of it is there.
 *
 * Sizes follow from the info record alone, so that a state can be checked
 * without its model; with a model, the shapes must be the model's.
 */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/model.h"
#include "engine/state/state.h"

#define BYTES_MAX ((uint64_t)1 << 48)	/* of one object */

/* -------------------------------------------------------------------- sizes */

uint64_t
qwen_state_kv_block(const struct qwen_state_layer *l)
{
	return l->kv ? 2 * l->n[0] * l->n[1] * QWEN_KV_BLOCK *
	    sizeof(uint16_t) : 0;
}

uint64_t
qwen_state_delta_bytes(const struct qwen_state_layer *l)
{
	return l->kv ? 0 : l->n[0] * l->n[1] * l->n[2] * sizeof(float);
}

uint64_t
qwen_state_conv_bytes(const struct qwen_state_layer *l)
{
	return l->kv ? 0 : l->n[3] * l->n[4] * sizeof(float);
}

uint64_t
qwen_state_kv_first(const struct qwen_state_layout *l)
{
	return l->from / QWEN_KV_BLOCK;
}

uint64_t
qwen_state_kv_count(const struct qwen_state_layout *l)
{
	return l->from == l->n_tokens ? 0 : (l->n_tokens + QWEN_KV_BLOCK - 1) /
	    QWEN_KV_BLOCK - qwen_state_kv_first(l);
}

void
qwen_state_layout_fini(struct qwen_state_layout *l)
{
	free(l->layer);
	free(l->kv);
	free(l->delta);
	free(l->conv);
	free(l->checkpoint);
	memset(l, 0, sizeof *l);
}

/* ----------------------------------------------------------------- the info */

/* Items one after the other. */
struct items {
	const unsigned char	*p, *end;
};

static int
next(struct items *b, enum qwen_item_type type, struct qwen_item *it)
{
	size_t unused;

	if (qwen_item_decode(b->p, (size_t)(b->end - b->p), it, &unused) != 1 ||
	    it->type != type)
		return -1;
	b->p += it->bytes;
	return 0;
}

/* ["kv", 2 numbers] or ["delta", 5 numbers], of which no product wraps. */
static int
take_shape(struct items *b, struct qwen_state_layer *l)
{
	struct qwen_item array, name, it;
	size_t i, n;

	if (next(b, QWEN_ITEM_ARRAY, &array) < 0 ||
	    next(b, QWEN_ITEM_TEXT, &name) < 0)
		return -1;
	l->kv = name.n == 2 && memcmp(name.s, "kv", 2) == 0;
	if (!l->kv && (name.n != 5 || memcmp(name.s, "delta", 5) != 0))
		return -1;
	n = l->kv ? 2 : 5;
	if (array.n != n + 1)
		return -1;
	for (i = 0; i < n; i++) {
		if (next(b, QWEN_ITEM_UINT, &it) < 0 || it.n > 1 << 24)
			return -1;
		l->n[i] = it.n;
	}
	/* numbers below 2^24: two of them multiply well, and four bytes */
	if (l->kv)
		return l->n[0] * l->n[1] > 0 &&
		    l->n[0] * l->n[1] <= BYTES_MAX / 64 ? 0 : -1;
	return l->n[0] * l->n[1] <= BYTES_MAX / 4 / (l->n[2] + 1) &&
	    l->n[3] * l->n[4] <= BYTES_MAX / 4 ? 0 : -1;
}

static int
take_shapes(struct qwen_state_layout *l, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct qwen_item *array = &rec->f[QWEN_F_LAYERS];
	struct items b = { rec->at[QWEN_F_LAYERS] + array->bytes, rec->data };
	size_t i;

	/* each takes several bytes, which are there */
	if (array->n > QWEN_STATE_MAX / 4)
		return qwen_fail(err, QWEN_ERANGE, "%llu layers",
		    (unsigned long long)array->n);
	l->n_layer = (size_t)array->n;
	l->layer = qwen_alloc(l->n_layer, sizeof *l->layer);
	l->kv = qwen_alloc(l->n_layer, sizeof *l->kv);
	l->delta = qwen_alloc(l->n_layer, sizeof *l->delta);
	l->conv = qwen_alloc(l->n_layer, sizeof *l->conv);
	if (l->layer == NULL || l->kv == NULL || l->delta == NULL ||
	    l->conv == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	for (i = 0; i < l->n_layer; i++) {
		if (take_shape(&b, &l->layer[i]) < 0)
			return qwen_fail(err, QWEN_EFORMAT, "layer %zu has no "
			    "shape that there is", i);
	}
	return 0;
}

/* A part begins at from, and both fields say so. */
static int
take_part(struct qwen_state_layout *l, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const unsigned both = 1u << QWEN_F_FROM | 1u << QWEN_F_PREFIX;
	const struct qwen_item *prefix = &rec->f[QWEN_F_PREFIX];

	if ((rec->there & both) == 0)
		return 0;
	if ((rec->there & both) != both || prefix->n != sizeof l->prefix.b)
		return qwen_fail(err, QWEN_EFORMAT,
		    "a part without \"from\" or \"prefix\"");
	l->part = 1;
	l->from = rec->f[QWEN_F_FROM].n;
	memcpy(l->prefix.b, prefix->s, sizeof l->prefix.b);
	if (l->from > l->n_tokens)
		return qwen_fail(err, QWEN_ERANGE, "a part from %llu to %llu",
		    (unsigned long long)l->from,
		    (unsigned long long)l->n_tokens);
	return 0;
}

int
qwen_state_layout_info(struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_err *err)
{
	const struct qwen_item *f = rec->f;

	if (f[QWEN_F_FORMAT].n != QWEN_STATE_FORMAT)
		return qwen_fail(err, QWEN_EUNSUP,
		    "state format %llu, this program reads %d",
		    (unsigned long long)f[QWEN_F_FORMAT].n, QWEN_STATE_FORMAT);
	if (f[QWEN_F_KV_BLOCK].n != QWEN_KV_BLOCK)
		return qwen_fail(err, QWEN_EUNSUP,
		    "KV blocks of %llu positions, this program has %d",
		    (unsigned long long)f[QWEN_F_KV_BLOCK].n, QWEN_KV_BLOCK);
	l->n_tokens = f[QWEN_F_N_TOKENS].n;
	if (l->n_tokens > INT32_MAX)
		return qwen_fail(err, QWEN_ERANGE, "%llu tokens",
		    (unsigned long long)l->n_tokens);
	if (take_part(l, rec, err) < 0 || take_shapes(l, rec, err) < 0)
		return -1;
	l->have_info = 1;
	return 0;
}

/* Is the shape that of layer i of the model? */
static int
same_shape(const struct qwen_state_layer *l, const struct qwen_session *s,
    size_t i)
{
	const struct qwen_hparams *h = &s->model->hp;
	int kv = s->layer[i].kv_block_bytes != 0;

	if (l->kv != kv)
		return 0;
	if (kv)
		return l->n[0] == h->n_head_kv && l->n[1] == h->n_embd_head;
	return l->n[0] == h->n_head_v && l->n[1] == h->dk &&
	    l->n[2] == h->dv && l->n[3] == h->conv_kernel - 1 &&
	    l->n[4] == 2 * h->n_head_k * h->dk + h->n_head_v * h->dv;
}

int
qwen_state_layout_match(const struct qwen_state_layout *l,
    const struct qwen_session *s, struct qwen_err *err)
{
	size_t i;

	if (l->n_tokens > s->model->hp.n_ctx)
		return qwen_fail(err, QWEN_ERANGE,
		    "%llu tokens, the model's context is %zu",
		    (unsigned long long)l->n_tokens, s->model->hp.n_ctx);
	if (l->n_layer != s->n_layer)
		return qwen_fail(err, QWEN_EMISMATCH,
		    "%zu layers, the model has %zu", l->n_layer, s->n_layer);
	for (i = 0; i < l->n_layer; i++) {
		if (!same_shape(&l->layer[i], s, i))
			return qwen_fail(err, QWEN_EMISMATCH, "layer %zu has "
			    "another shape than in the model", i);
	}
	return 0;
}

/* --------------------------------------------------------------- the pieces */

/* The piece must be the next one of an object of total bytes. */
static int
take_piece(const struct qwen_state_entry *e, uint64_t *done, uint64_t total,
    struct qwen_err *err)
{
	if (e->len == 0 || e->off != *done || e->len > total - *done)
		return qwen_fail(err, QWEN_EFORMAT, "bytes %llu to %llu, where "
		    "%llu of %llu came before", (unsigned long long)e->off,
		    (unsigned long long)(e->off + e->len),
		    (unsigned long long)*done, (unsigned long long)total);
	*done += e->len;
	return 0;
}

static int
incomplete(const char *kind, size_t layer, uint64_t got, uint64_t want,
    struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EFORMAT,
	    "%s of layer %zu: %llu bytes of %llu", kind, layer,
	    (unsigned long long)got, (unsigned long long)want);
}

/* Recurrent state of all layers is there; of none: *none. */
static int
check_recurrent(const struct qwen_state_layout *l, int *none,
    struct qwen_err *err)
{
	size_t i, any = 0, layers = 0;

	for (i = 0; i < l->n_layer; i++) {
		any += l->delta[i] > 0 || l->conv[i] > 0;
		layers += !l->layer[i].kv;
	}
	*none = any == 0 && layers > 0;
	for (i = 0; i < l->n_layer; i++) {
		const struct qwen_state_layer *p = &l->layer[i];

		if (l->delta[i] != qwen_state_delta_bytes(p))
			return incomplete("delta", i, l->delta[i],
			    qwen_state_delta_bytes(p), err);
		if (l->conv[i] != qwen_state_conv_bytes(p))
			return incomplete("conv", i, l->conv[i],
			    qwen_state_conv_bytes(p), err);
	}
	return 0;
}

static int
add_checkpoint(struct qwen_state_layout *l, struct qwen_err *err)
{
	struct qwen_checkpoint *more, *c;
	size_t i, cap;

	if (l->n_checkpoint == l->cap_checkpoint) {
		cap = 2 * l->cap_checkpoint + 8;
		more = realloc(l->checkpoint, cap * sizeof *more);
		if (more == NULL)
			return qwen_fail(err, QWEN_ENOMEM, "out of memory");
		l->checkpoint = more;
		l->cap_checkpoint = cap;
	}
	c = &l->checkpoint[l->n_checkpoint++];
	*c = (struct qwen_checkpoint){ .at = l->at, .named = l->named,
	    .logits = l->logits > 0, .bytes = l->logits };
	for (i = 0; i < l->n_layer; i++)
		c->bytes += l->delta[i] + l->conv[i];
	return 0;
}

/* The position under way ends. */
static int
close_position(struct qwen_state_layout *l, struct qwen_err *err)
{
	int none = 0, r = check_recurrent(l, &none, err);
	int end = l->at == l->n_tokens;

	if (r < 0 && !(none && l->part && end && l->logits == 0))
		return qwen_fail_in(err, "state after %llu tokens",
		    (unsigned long long)l->at);
	if (l->logits != 0 && l->logits != l->n_vocab * sizeof(float))
		return qwen_fail(err, QWEN_EFORMAT, "logits after %llu tokens: "
		    "%llu bytes of %llu", (unsigned long long)l->at,
		    (unsigned long long)l->logits,
		    (unsigned long long)(l->n_vocab * sizeof(float)));
	if (!end)
		return add_checkpoint(l, err);
	l->recurrent = r == 0;
	l->end_named = l->named;
	l->end_logits = l->logits > 0;
	return 0;
}

/* What follows is of the position at: the one under way, or a later one. */
static int
go_to(struct qwen_state_layout *l, uint64_t at, struct qwen_err *err)
{
	if (l->seen && at == l->at)
		return 0;
	if (at > l->n_tokens || (at <= l->from && at != l->n_tokens))
		return qwen_fail(err, QWEN_ERANGE, "after token %llu of %llu",
		    (unsigned long long)at, (unsigned long long)l->n_tokens);
	if (l->seen && at < l->at)
		return qwen_fail(err, QWEN_EFORMAT, "after token %llu, where "
		    "%llu came before", (unsigned long long)at,
		    (unsigned long long)l->at);
	if (l->seen && close_position(l, err) < 0)
		return -1;
	if (l->n_layer > 0) {
		memset(l->delta, 0, l->n_layer * sizeof *l->delta);
		memset(l->conv, 0, l->n_layer * sizeof *l->conv);
	}
	l->logits = 0;
	l->named = 0;
	l->seen = 1;
	l->at = at;
	return 0;
}

/* The layer of an entry, with or without a KV cache. */
static const struct qwen_state_layer *
find_layer(const struct qwen_state_layout *l, const struct qwen_state_entry *e,
    int kv, struct qwen_err *err)
{
	if (e->layer < 0 || (uint64_t)e->layer >= l->n_layer) {
		qwen_fail(err, QWEN_ERANGE, "the model has %zu layers",
		    l->n_layer);
		return NULL;
	}
	if (l->layer[e->layer].kv != kv) {
		qwen_fail(err, QWEN_EMISMATCH, "the model's layer has no %s",
		    e->kind);
		return NULL;
	}
	return &l->layer[e->layer];
}

static int
add_kv(struct qwen_state_layout *l, const struct qwen_state_entry *e,
    struct qwen_err *err)
{
	const struct qwen_state_layer *p = find_layer(l, e, 1, err);
	uint64_t block;

	if (p == NULL)
		return -1;
	block = qwen_state_kv_block(p);
	if (block <= QWEN_PIECE_MAX && e->len % block != 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "it ends within a block of 16 positions");
	return take_piece(e, &l->kv[e->layer], qwen_state_kv_count(l) * block,
	    err);
}

static int
add_recurrent(struct qwen_state_layout *l, const struct qwen_state_entry *e,
    struct qwen_err *err)
{
	const struct qwen_state_layer *p = find_layer(l, e, 0, err);

	if (p == NULL || go_to(l, (uint64_t)e->at, err) < 0)
		return -1;
	if (e->kind[0] == 'd')
		return take_piece(e, &l->delta[e->layer],
		    qwen_state_delta_bytes(p), err);
	return take_piece(e, &l->conv[e->layer], qwen_state_conv_bytes(p),
	    err);
}

int
qwen_state_layout_add(struct qwen_state_layout *l,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	if (!l->have_info)
		return qwen_fail(err, QWEN_EFORMAT, "before the info block");
	if (strcmp(e->kind, "tokens") == 0)
		return take_piece(e, &l->tokens, (l->n_tokens - l->from) *
		    sizeof(int32_t), err);
	if (strcmp(e->kind, "generated") == 0)
		return take_piece(e, &l->generated, l->n_tokens * 16, err);
	if (strcmp(e->kind, "kv") == 0)
		return add_kv(l, e, err);
	if (strcmp(e->kind, "delta") == 0 || strcmp(e->kind, "conv") == 0)
		return add_recurrent(l, e, err);
	if (strcmp(e->kind, "logits") == 0)
		return go_to(l, (uint64_t)e->at, err) < 0 ? -1 :
		    take_piece(e, &l->logits, l->n_vocab * sizeof(float), err);
	return 0;
}

int
qwen_state_layout_mark(struct qwen_state_layout *l, uint64_t at, int named,
    struct qwen_err *err)
{
	if (go_to(l, at, err) < 0)
		return -1;
	l->named = named;
	return 0;
}

/* ------------------------------------------------------------------ the end */

int
qwen_state_layout_end(struct qwen_state_layout *l, struct qwen_err *err)
{
	size_t i;

	if (!l->have_info ||
	    l->tokens != (l->n_tokens - l->from) * sizeof(int32_t))
		return qwen_fail(err, QWEN_EFORMAT, "tokens are missing");
	for (i = 0; i < l->n_layer; i++) {
		uint64_t want = qwen_state_kv_count(l) *
		    qwen_state_kv_block(&l->layer[i]);

		if (l->kv[i] != want)
			return incomplete("kv", i, l->kv[i], want, err);
	}
	if (go_to(l, l->n_tokens, err) < 0)
		return -1;
	return close_position(l, err);
}

/*
 * The lanes of positions to come are zero, as in a session that was never
 * saved: K is [head][dimension][position], V [head][position][dimension].
 */
static int
check_lanes(const struct qwen_state_layout *l, const struct qwen_state_entry *e,
    const unsigned char *raw, struct qwen_err *err)
{
	const struct qwen_state_layer *p = &l->layer[e->layer];
	uint64_t block = qwen_state_kv_block(p), half = block / 4, i, lane;
	uint64_t used = l->n_tokens % QWEN_KV_BLOCK;
	uint64_t last = (qwen_state_kv_count(l) - 1) * block;
	unsigned any = 0;

	if (used == 0 || e->off + e->len <= last)
		return 0;
	for (i = e->off > last ? e->off : last; i < e->off + e->len; i++) {
		uint64_t k = (i - last) / 2;

		lane = k < half ? k % QWEN_KV_BLOCK :
		    (k - half) / p->n[1] % QWEN_KV_BLOCK;
		any |= lane >= used ? raw[i - e->off] : 0;
	}
	return any == 0 ? 0 : qwen_fail(err, QWEN_EFORMAT,
	    "kv of layer %lld: positions after the last token",
	    (long long)e->layer);
}

int
qwen_state_layout_check(const struct qwen_state_layout *l,
    const struct qwen_state_entry *e, const unsigned char *raw,
    struct qwen_err *err)
{
	uint64_t i;
	float f;

	if (strcmp(e->kind, "kv") == 0)
		return check_lanes(l, e, raw, err);
	if (strcmp(e->kind, "logits") != 0)
		return 0;
	if (e->off % sizeof f != 0 || e->len % sizeof f != 0)
		return qwen_fail(err, QWEN_EFORMAT, "a logit is cut in two");
	for (i = 0; i < e->len; i += sizeof f) {
		memcpy(&f, raw + i, sizeof f);
		if (!isfinite(f))
			return qwen_fail(err, QWEN_EFORMAT,
			    "the logit of token %llu is not finite",
			    (unsigned long long)((e->off + i) / sizeof f));
	}
	return 0;
}
