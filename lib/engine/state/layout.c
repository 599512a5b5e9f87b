/* SPDX-License-Identifier: ISC */
/*
 * layout.c - the objects of a state, and whether they are complete.
 *
 * Sizes follow from the info record alone, so a state can be checked without
 * its model.  With a model, the shapes must be those of the model.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/state.h"
#include "engine/timeline/session.h"

#define BYTES_MAX ((uint64_t)1 << 48)	/* maximum bytes of an object */

/* -------------------------------------------------------------------- sizes */

uint64_t
qwen_state_kv_block(const struct qwen_state_layer *l)
{
	struct qwen_kv_shape s = qwen_state_kv_shape(l);

	return l->kv ? qwen_kv_block_bytes(&s) : 0;
}

struct qwen_kv_shape
qwen_state_kv_shape(const struct qwen_state_layer *l)
{
	return (struct qwen_kv_shape){ .n_head = (size_t)l->n[0],
	    .d = (size_t)l->n[1], .k = (enum qwen_kv)l->n[2],
	    .v = (enum qwen_kv)l->n[3] };
}

uint64_t
qwen_state_kv_position(const struct qwen_state_layer *l, uint64_t at,
    int *is_value)
{
	struct qwen_kv_shape s = qwen_state_kv_shape(l);
	uint64_t block = qwen_kv_block_bytes(&s);

	*is_value = at % block >= qwen_kv_v_at(&s, 0);
	return at / block * QWEN_KV_BLOCK + qwen_kv_lane(&s,
	    (size_t)(at % block));
}

unsigned
qwen_state_format(const struct qwen_header *h)
{
	return h->rope.kind != QWEN_ROPE_FILE ? 3 :
	    h->k == QWEN_KV_F16 && h->v == QWEN_KV_F16 ? 1 : 2;
}

uint64_t
qwen_state_blocks(const struct qwen_state_layout *l, enum qwen_kind kind,
    uint64_t *first)
{
	uint64_t begin = l->info.from, end = l->info.n_tokens;

	if (kind == QWEN_K_MTP_KV) {
		begin -= begin > 0;
		begin = begin > l->mtp.first ? begin : l->mtp.first;
		end = l->mtp.there && end > 0 ? end - 1 : 0;
	}
	*first = begin / QWEN_KV_BLOCK;
	return begin >= end ? 0 :
	    (end + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK - *first;
}

uint64_t
qwen_state_bytes(const struct qwen_state_layout *l, enum qwen_kind kind,
    int64_t layer)
{
	const struct qwen_state_layer *p = qwen_state_layer_of(l, layer);
	uint64_t first;

	switch (kind) {
	case QWEN_K_SPANS:	/* upper limit: one may begin before `from' */
		return ((l->info.n_tokens - l->info.from) / QWEN_SPAN_MIN + 2) *
		    sizeof(struct qwen_span);
	case QWEN_K_TOKENS:
		return (l->info.n_tokens - l->info.from) * sizeof(int32_t);
	case QWEN_K_KV:
	case QWEN_K_MTP_KV:
		return qwen_state_blocks(l, kind, &first) *
		    qwen_state_kv_block(p);
	case QWEN_K_DELTA:
		return p->kv ? 0 : p->n[0] * p->n[1] * p->n[2] * sizeof(float);
	case QWEN_K_CONV:
		return p->kv ? 0 : p->n[3] * p->n[4] * sizeof(float);
	case QWEN_K_LOGITS:
		return l->info.header.n_vocab * sizeof(float);
	case QWEN_K_HIDDEN:
		return l->mtp.n_embd * sizeof(float);
	case QWEN_K_GENERATED:	/* upper limit: a pair for each token */
		return l->info.n_tokens * 16;
	default:
		return 0;
	}
}

unsigned
qwen_state_width(const struct qwen_state_layout *l, enum qwen_kind kind,
    int64_t layer)
{
	const struct qwen_state_layer *p = qwen_state_layer_of(l, layer);

	return qwen_kind_is_kv(kind) && p->n[2] == QWEN_KV_F32 &&
	    p->n[3] == QWEN_KV_F32 ? (unsigned)sizeof(float) :
	    qwen_kinds[kind].width;
}

void
qwen_state_layout_fini(struct qwen_state_layout *l)
{
	free(l->layer);
	free(l->done);
	free(l->checkpoint);
	memset(l, 0, sizeof *l);
}

/* ----------------------------------------------------------------- the info */

/* Returns 1 if the product is at most BYTES_MAX; zeros are ignored. */
static int
is_small(const uint64_t v[4])
{
	uint64_t p = 1;
	int i;

	for (i = 0; i < 4; i++) {
		if (v[i] != 0 && p > BYTES_MAX / v[i])
			return 0;
		p *= v[i];
	}
	return 1;
}

/*
 * Sets the KV types of the header; -1 if heads of this shape cannot have them.
 */
static int
take_kv(const struct qwen_state_layout *lay, struct qwen_state_layer *l)
{
	const struct qwen_header *h = &lay->info.header;

	l->n[2] = h->k;
	l->n[3] = h->v;
	return l->n[0] != 0 && l->n[1] != 0 && ((qwen_kv_width(h->k) > 0 &&
	    qwen_kv_width(h->v) > 0) || l->n[1] % QWEN_KV_GROUP == 0) ? 0 :
	    -1;
}

/*
 * Reads ["kv", 2 numbers] or ["delta", 5 numbers]; -1 if the objects would be
 * too large.
 */
static int
take_shape(struct qwen_state_bytes *b, const struct qwen_state_layout *lay,
    struct qwen_state_layer *l)
{
	struct qwen_cbor_item array, name, it;
	uint64_t first, blocks = qwen_state_blocks(lay, QWEN_K_KV, &first) + 1;
	size_t i, n;

	if (qwen_state_item(b, QWEN_ITEM_ARRAY, &array) < 0 ||
	    qwen_state_item(b, QWEN_ITEM_TEXT, &name) < 0)
		return -1;
	l->kv = name.n == 2 && memcmp(name.s, "kv", 2) == 0;
	if (!l->kv && (name.n != 5 || memcmp(name.s, "delta", 5) != 0))
		return -1;
	n = l->kv ? 2 : 5;
	if (array.n != n + 1)
		return -1;
	for (i = 0; i < n; i++) {
		if (qwen_state_item(b, QWEN_ITEM_UINT, &it) < 0 ||
		    it.n > 1 << 24)
			return -1;
		l->n[i] = it.n;
	}
	if (l->kv)
		return take_kv(lay, l) == 0 && is_small((uint64_t[4]){
		    l->n[0], l->n[1], 8 * QWEN_KV_BLOCK, blocks }) ? 0 : -1;
	return is_small((uint64_t[4]){ l->n[0], l->n[1], l->n[2], 4 }) &&
	    is_small((uint64_t[4]){ l->n[3], l->n[4], 4, 1 }) ? 0 : -1;
}

static int
take_shapes(struct qwen_state_layout *l, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *array = &rec->f.v[QWEN_F_LAYERS];
	struct qwen_state_bytes b = { array->s,
	    (size_t)(rec->data - array->s) };
	size_t i;

	/* a shape takes several bytes, so this bounds the allocation */
	if (array->n > QWEN_STATE_MAX / 4)
		return qwen_fail(err, QWEN_ERANGE, "%" PRIu64 " layers: "
		    "invalid", array->n);
	l->info.n_layers = (size_t)array->n;
	l->n_done = l->info.n_layers > 0 ? l->info.n_layers : 1;
	l->info.layers = l->layer = qwen_alloc(l->info.n_layers,
	    sizeof *l->layer);
	l->done = qwen_alloc(QWEN_N_KINDS * l->n_done, sizeof *l->done);
	if (l->layer == NULL || l->done == NULL)
		return qwen_oom(err);
	for (i = 0; i < l->info.n_layers; i++) {
		if (take_shape(&b, l, &l->layer[i]) < 0)
			return qwen_fail(err, QWEN_EFORMAT, "layer %zu has an "
			    "invalid shape", i);
	}
	return 0;
}

/*
 * Reads the start of a part: "from" and "prefix" occur together or not at all.
 */
static int
take_part(struct qwen_state_layout *l, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const unsigned both = 1u << QWEN_F_FROM | 1u << QWEN_F_PREFIX;
	const struct qwen_cbor_item *prefix = &rec->f.v[QWEN_F_PREFIX];

	if ((rec->f.there & both) == 0)
		return 0;
	if ((rec->f.there & both) != both ||
	    prefix->n != sizeof l->info.prefix.b)
		return qwen_fail(err, QWEN_EFORMAT,
		    "a part must have \"from\" and \"prefix\"");
	l->info.part = 1;
	l->info.from = rec->f.v[QWEN_F_FROM].n;
	memcpy(l->info.prefix.b, prefix->s, sizeof l->info.prefix.b);
	if (l->info.from > l->info.n_tokens)
		return qwen_fail(err, QWEN_ERANGE, "a part from %" PRIu64
		    " to %" PRIu64, l->info.from, l->info.n_tokens);
	return 0;
}

int
qwen_state_layout_info(struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_err *err)
{
	const struct qwen_cbor_item *f = rec->f.v;
	unsigned format = qwen_state_format(&l->info.header);

	if (f[QWEN_F_FORMAT].n != format)
		return qwen_fail(err, QWEN_EUNSUP, "state format %" PRIu64
		    "; this program reads %u", f[QWEN_F_FORMAT].n, format);
	if (f[QWEN_F_KV_BLOCK].n != QWEN_KV_BLOCK)
		return qwen_fail(err, QWEN_EUNSUP, "KV blocks of %" PRIu64
		    " positions; this program has %d", f[QWEN_F_KV_BLOCK].n,
		    QWEN_KV_BLOCK);
	l->info.n_tokens = f[QWEN_F_N_TOKENS].n;
	if (l->info.n_tokens > INT32_MAX)
		return qwen_fail(err, QWEN_ERANGE, "%" PRIu64 " tokens",
		    l->info.n_tokens);
	l->info.converted = f[QWEN_F_CONVERTED].n != 0;
	return take_part(l, rec, err) < 0 ? -1 : take_shapes(l, rec, err);
}

int
qwen_state_layout_match(const struct qwen_state_layout *l,
    const struct qwen_session *s, struct qwen_err *err)
{
	const struct qwen_model *m = qwen_session_model(s);
	size_t i, n_ctx = qwen_model_n_ctx(m), n_layer = qwen_model_n_layer(m);
	struct qwen_state_layer want;

	if (l->info.n_tokens > n_ctx)
		return qwen_fail(err, QWEN_ERANGE, "%" PRIu64 " tokens exceed "
		    "the model's context of %zu", l->info.n_tokens, n_ctx);
	if (l->info.n_layers != n_layer)
		return qwen_fail(err, QWEN_EMISMATCH, "%zu layers, but the "
		    "model has %zu", l->info.n_layers, n_layer);
	for (i = 0; i < n_layer; i++) {
		qwen_session_shape(s, i, &want);
		if (l->layer[i].kv != want.kv || memcmp(l->layer[i].n, want.n,
		    sizeof want.n) != 0)
			return qwen_fail(err, QWEN_EMISMATCH, "layer %zu has "
			    "another shape than in the model", i);
	}
	return 0;
}

/* ------------------------------------------------------------ the MTP block */

int
qwen_state_layout_mtp(struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_err *err)
{
	const struct qwen_cbor_item *f = rec->f.v;
	struct qwen_state_mtp *p = &l->mtp;
	const uint64_t most = 1 << 24, n = l->info.n_tokens;
	struct qwen_state_layer layer = { .kv = 1,
	    .n = { f[QWEN_F_HEADS].n, f[QWEN_F_SIZE].n } };
	uint64_t first, blocks = qwen_state_blocks(l, QWEN_K_KV, &first) + 2;

	if (p->there)
		return qwen_fail(err, QWEN_EFORMAT, "a second block of this "
		    "kind");
	if (layer.n[0] > most || layer.n[1] > most ||
	    f[QWEN_F_EMBD].n == 0 || f[QWEN_F_EMBD].n > most ||
	    !is_small((uint64_t[4]){ layer.n[0], layer.n[1],
	    4 * QWEN_KV_BLOCK, blocks }) || take_kv(l, &layer) < 0)
		return qwen_fail(err, QWEN_EFORMAT, "invalid shape");
	if (f[QWEN_F_FIRST].n % QWEN_KV_BLOCK != 0 || f[QWEN_F_FIRST].n >= n)
		return qwen_fail(err, QWEN_ERANGE, "from slot %" PRIu64 " of %"
		    PRIu64, f[QWEN_F_FIRST].n, n);
	if (f[QWEN_F_MODEL].n != sizeof p->model.b)
		return qwen_fail(err, QWEN_ERANGE, "a fingerprint of %" PRIu64
		    " bytes", f[QWEN_F_MODEL].n);
	p->there = 1;
	p->layer = layer;
	p->n_embd = f[QWEN_F_EMBD].n;
	p->first = f[QWEN_F_FIRST].n;
	memcpy(p->model.b, f[QWEN_F_MODEL].s, sizeof p->model.b);
	return 0;
}

int
qwen_state_mtp_of(struct qwen_state_mtp *out, const struct qwen_session *s,
    struct qwen_err *err)
{
	const struct qwen_model *m = qwen_session_model(s);

	memset(out, 0, sizeof *out);
	if (!qwen_model_has_mtp(m))
		return 0;
	qwen_session_shape(s, qwen_model_n_layer(m), &out->layer);
	out->n_embd = qwen_model_n_embd(m);
	out->first = qwen_session_mtp_from(s);
	out->there = 1;
	return qwen_model_mtp_fp(m, &out->model, err);
}

int
qwen_state_mtp_fits(const struct qwen_state_mtp *a,
    const struct qwen_state_mtp *b)
{
	return a->there && b->there && a->n_embd == b->n_embd &&
	    memcmp(a->layer.n, b->layer.n, sizeof a->layer.n) == 0 &&
	    memcmp(&a->model, &b->model, sizeof a->model) == 0;
}

/* --------------------------------------------------------------- the pieces */

static uint64_t *
done_of(const struct qwen_state_layout *l, enum qwen_kind kind, int64_t layer)
{
	return &l->done[kind * l->n_done + (layer < 0 ? 0 : (size_t)layer)];
}

/* Returns -1 unless all bytes of the object were read. */
static int
check_complete(const struct qwen_state_layout *l, enum qwen_kind kind,
    int64_t layer, struct qwen_err *err)
{
	uint64_t got = *done_of(l, kind, layer);
	uint64_t want = qwen_state_bytes(l, kind, layer);
	char of[40] = "";

	if (got == want)
		return 0;
	if (layer >= 0)
		snprintf(of, sizeof of, " of layer %" PRId64, layer);
	return qwen_fail(err, QWEN_EFORMAT, "%s%s is incomplete: %" PRIu64
	    " of %" PRIu64 " bytes", qwen_kinds[kind].name, of, got, want);
}

/*
 * Returns -1 unless the recurrent state of all layers is complete.  *bytes is
 * what was read of it.
 */
static int
check_recurrent(const struct qwen_state_layout *l, uint64_t *bytes,
    struct qwen_err *err)
{
	enum qwen_kind k;
	int64_t i;
	int r = 0;

	*bytes = 0;
	for (i = 0; i < (int64_t)l->info.n_layers; i++) {
		for (k = QWEN_K_DELTA; k <= QWEN_K_CONV; k++) {
			*bytes += *done_of(l, k, i);
			if (r == 0)
				r = check_complete(l, k, i, err);
		}
	}
	return r;
}

static int
add_checkpoint(struct qwen_state_layout *l, uint64_t bytes, uint64_t logits,
    struct qwen_err *err)
{
	if (qwen_grow(&l->checkpoint, &l->cap_checkpoint,
	    l->info.n_checkpoints + 1, sizeof *l->checkpoint) < 0)
		return qwen_oom(err);
	l->info.checkpoints = l->checkpoint;
	l->checkpoint[l->info.n_checkpoints++] = (struct qwen_checkpoint){
	    .at = l->at, .named = l->named, .logits = logits > 0,
	    .bytes = bytes + logits };
	return 0;
}

/* Ends the current position: checks its objects and adds a checkpoint. */
static int
close_position(struct qwen_state_layout *l, struct qwen_err *err)
{
	uint64_t bytes, logits = *done_of(l, QWEN_K_LOGITS, -1);
	uint64_t all = qwen_state_bytes(l, QWEN_K_LOGITS, -1);
	uint64_t hidden = *done_of(l, QWEN_K_HIDDEN, -1);
	int r = check_recurrent(l, &bytes, err);
	int end = l->at == l->info.n_tokens;

	if (r < 0 && !(bytes == 0 && l->info.part && end && logits == 0))
		return qwen_fail_in(err, "state after %" PRIu64 " tokens",
		    l->at);
	if (logits != 0 && logits != all)
		return qwen_fail(err, QWEN_EFORMAT, "logits after %" PRIu64
		    " tokens are incomplete: %" PRIu64 " of %" PRIu64 " bytes",
		    l->at, logits, all);
	if (hidden != 0 && hidden != qwen_state_bytes(l, QWEN_K_HIDDEN, -1))
		return qwen_fail(err, QWEN_EFORMAT, "hidden state after %"
		    PRIu64 " tokens: %" PRIu64 " bytes", l->at, hidden);
	if (!end)
		return add_checkpoint(l, bytes, logits, err);
	l->info.recurrent = r == 0;
	l->info.named = l->named;
	l->info.logits = logits > 0;
	return 0;
}

/* Makes `at' the current position; positions ascend. */
static int
set_position(struct qwen_state_layout *l, uint64_t at, struct qwen_err *err)
{
	if (l->has_position && at == l->at)
		return 0;
	if (at > l->info.n_tokens ||
	    (at <= l->info.from && at != l->info.n_tokens))
		return qwen_fail(err, QWEN_ERANGE, "after token %" PRIu64
		    " of %" PRIu64 ": out of range", at, l->info.n_tokens);
	if (l->has_position && at < l->at)
		return qwen_fail(err, QWEN_EFORMAT, "after token %" PRIu64
		    ", but token %" PRIu64 " came before", at, l->at);
	if (l->has_position && close_position(l, err) < 0)
		return -1;
	memset(done_of(l, QWEN_K_DELTA, -1), 0, (QWEN_K_HIDDEN + 1 -
	    QWEN_K_DELTA) * l->n_done * sizeof *l->done);
	l->named = 0;
	l->has_position = 1;
	l->at = at;
	return 0;
}

/* Returns -1 unless the layer of the entry has this kind of data. */
static int
check_layer(const struct qwen_state_layout *l, const struct qwen_state_entry *e,
    struct qwen_err *err)
{
	if (e->layer < 0 || (uint64_t)e->layer >= l->info.n_layers)
		return qwen_fail(err, QWEN_ERANGE, "layer out of range: the "
		    "model has %zu layers", l->info.n_layers);
	if (l->layer[e->layer].kv != (e->kind == QWEN_K_KV))
		return qwen_fail(err, QWEN_EMISMATCH, "the model's layer has "
		    "no %s", e->name);
	return 0;
}

int
qwen_state_layout_add(struct qwen_state_layout *l,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const uint32_t fields = qwen_kinds[e->kind].fields;
	int layered = (fields & 1u << QWEN_F_LAYER) != 0;
	int placed = (fields & 1u << QWEN_F_AT) != 0;
	uint64_t *done, total, block;

	if (layered && check_layer(l, e, err) < 0)
		return -1;
	if ((!layered && e->layer != -1) || (!placed && e->at != -1))
		return qwen_fail(err, QWEN_EFORMAT, "%s does not belong to a "
		    "%s", e->name, !layered && e->layer != -1 ? "layer" :
		    "position");
	if (placed && set_position(l, (uint64_t)e->at, err) < 0)
		return -1;
	block = qwen_kind_is_kv(e->kind) ?
	    qwen_state_kv_block(qwen_state_layer_of(l, e->layer)) : 0;
	if (block > 0 && block <= QWEN_PIECE_MAX && e->len % block != 0)
		return qwen_fail(err, QWEN_EFORMAT, "it does not end at a "
		    "block of 16 positions");
	done = done_of(l, e->kind, e->layer);
	total = qwen_state_bytes(l, e->kind, e->layer);
	if (e->len == 0 || e->off != *done || e->len > total - *done)
		return qwen_fail(err, QWEN_EFORMAT, "bytes %" PRIu64 " to %"
		    PRIu64 " do not continue at %" PRIu64 " of %" PRIu64,
		    e->off, e->off + e->len, *done, total);
	*done += e->len;
	return 0;
}

int
qwen_state_layout_mark(struct qwen_state_layout *l, uint64_t at, int named,
    struct qwen_err *err)
{
	if (set_position(l, at, err) < 0)
		return -1;
	l->named = named;
	return 0;
}

int
qwen_state_layout_end(struct qwen_state_layout *l, struct qwen_err *err)
{
	int64_t i;

	if (*done_of(l, QWEN_K_TOKENS, -1) !=
	    qwen_state_bytes(l, QWEN_K_TOKENS, -1))
		return qwen_fail(err, QWEN_EFORMAT, "tokens are missing");
	for (i = 0; i < (int64_t)l->info.n_layers; i++) {
		if (check_complete(l, QWEN_K_KV, i, err) < 0)
			return -1;
	}
	if (check_complete(l, QWEN_K_MTP_KV, -1, err) < 0 ||
	    set_position(l, l->info.n_tokens, err) < 0)
		return -1;
	return close_position(l, err);
}

/* ----------------------------------------------------------------- the data */

/*
 * Checks that lanes after the last token are zero, as in a session that was
 * never saved.  K is [head][dimension][position], V
 * [head][position][dimension].
 */
static int
check_lanes(const struct qwen_state_layout *l, const struct qwen_state_entry *e,
    const unsigned char *raw, struct qwen_err *err)
{
	const struct qwen_state_layer *p = &l->layer[e->layer];
	struct qwen_kv_shape s = qwen_state_kv_shape(p);
	uint64_t block = qwen_state_kv_block(p), i;
	uint64_t used = l->info.n_tokens % QWEN_KV_BLOCK;
	uint64_t first, last = (qwen_state_blocks(l, QWEN_K_KV, &first) - 1) *
	    block;
	unsigned any = 0;

	if (used == 0 || e->off + e->len <= last)
		return 0;
	for (i = e->off > last ? e->off : last; i < e->off + e->len; i++) {
		any |= qwen_kv_lane(&s, (size_t)(i - last)) >= used ?
		    raw[i - e->off] : 0;
	}
	return any == 0 ? 0 : qwen_fail(err, QWEN_EFORMAT, "kv of layer %"
	    PRId64 ": positions after the last token", e->layer);
}

/*
 * Returns the offset of the first NaN or infinite number; e->len if there is
 * none.  Integer codes are always finite.
 */
static size_t
finite_kv(const struct qwen_state_layout *l, const struct qwen_state_entry *e,
    const unsigned char *raw)
{
	struct qwen_kv_shape s = qwen_state_kv_shape(&l->layer[e->layer]);

	if (s.k == s.v && qwen_kv_width(s.k) > 0)
		return qwen_coder_finite(raw, (size_t)e->len,
		    qwen_kv_width(s.k));
	return qwen_kv_finite(&s, raw, (size_t)(e->off %
	    qwen_kv_block_bytes(&s)), (size_t)e->len);
}

static int
check_numbers(const struct qwen_state_layout *l,
    const struct qwen_state_entry *e, const unsigned char *raw,
    struct qwen_err *err)
{
	unsigned width = qwen_state_width(l, e->kind, e->layer);
	size_t i;

	if (e->off % width != 0 || e->len % width != 0)
		return qwen_fail(err, QWEN_EFORMAT, "incomplete number");
	/* data unknown to the model, or only for drafts, may be anything */
	if (!qwen_kinds[e->kind].waits || e->kind == QWEN_K_MTP_KV ||
	    e->kind == QWEN_K_HIDDEN)
		return 0;
	i = e->kind == QWEN_K_KV ? finite_kv(l, e, raw) :
	    qwen_coder_finite(raw, (size_t)e->len, width);
	if (i < e->len)
		return qwen_fail(err, QWEN_EFORMAT, "number %" PRIu64 " is NaN "
		    "or infinite", (e->off + i) / width);
	return e->kind == QWEN_K_KV ? check_lanes(l, e, raw, err) : 0;
}

int
qwen_state_rec_data(const struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_coder *c,
    const unsigned char **raw, struct qwen_err *err)
{
	return qwen_state_rec_want(rec, err) < 0 ||
	    qwen_coder_decode(c, rec->e.codec, rec->data, rec->n_data,
	    (size_t)rec->e.len, raw, err) < 0 ? -1 :
	    check_numbers(l, &rec->e, *raw, err);
}

void
qwen_state_prefix(const int32_t *tokens, size_t n, struct qwen_fp *out)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(tokens, n * sizeof *tokens));
	memcpy(out->b, c.digest, sizeof out->b);
}
