/* SPDX-License-Identifier: ISC */
/*
 * layout.c - the objects of a state, and whether they are complete.
 *
 * Sizes follow from the info record alone, so a state can be checked without
 * its model.  With a model, the shapes must be those of the model.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/session.h"
#include "engine/state/section.h"

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

unsigned
qwen_state_width(enum qwen_kind kind, const struct qwen_state_layer *kv)
{
	return (kind == QWEN_K_KV || kind == QWEN_K_MTP_KV) &&
	    kv->n[2] == QWEN_KV_F32 && kv->n[3] == QWEN_KV_F32 ?
	    (unsigned)sizeof(float) : qwen_section(kind)->width;
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
	l->n[2] = lay->k;
	l->n[3] = lay->v;
	return l->n[0] != 0 && l->n[1] != 0 && ((qwen_kv_width(lay->k) > 0 &&
	    qwen_kv_width(lay->v) > 0) || l->n[1] % QWEN_KV_GROUP == 0) ? 0 :
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
	const uint64_t blocks = qwen_state_kv_count(lay) + 1;

	struct qwen_cbor_item array, name, it;
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
		return qwen_fail(err, QWEN_ERANGE, "%llu layers: invalid",
		    (unsigned long long)array->n);
	l->n_layer = (size_t)array->n;
	l->n_done = l->n_layer > 0 ? l->n_layer : 1;
	l->layer = qwen_alloc(l->n_layer, sizeof *l->layer);
	l->done = qwen_alloc((QWEN_K_EXTRA + qwen_n_extra_sections) * l->n_done,
	    sizeof *l->done);
	if (l->layer == NULL || l->done == NULL)
		return qwen_oom(err);
	for (i = 0; i < l->n_layer; i++) {
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
	if ((rec->f.there & both) != both || prefix->n != sizeof l->prefix.b)
		return qwen_fail(err, QWEN_EFORMAT,
		    "a part must have \"from\" and \"prefix\"");
	l->part = 1;
	l->from = rec->f.v[QWEN_F_FROM].n;
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
	const struct qwen_cbor_item *f = rec->f.v;

	if (f[QWEN_F_FORMAT].n != l->format)
		return qwen_fail(err, QWEN_EUNSUP,
		    "state format %llu; this program reads %u",
		    (unsigned long long)f[QWEN_F_FORMAT].n, l->format);
	if (f[QWEN_F_KV_BLOCK].n != QWEN_KV_BLOCK)
		return qwen_fail(err, QWEN_EUNSUP,
		    "KV blocks of %llu positions; this program has %d",
		    (unsigned long long)f[QWEN_F_KV_BLOCK].n, QWEN_KV_BLOCK);
	l->n_tokens = f[QWEN_F_N_TOKENS].n;
	if (l->n_tokens > INT32_MAX)
		return qwen_fail(err, QWEN_ERANGE, "%llu tokens",
		    (unsigned long long)l->n_tokens);
	l->converted = (rec->f.there & 1u << QWEN_F_CONVERTED) != 0 &&
	    f[QWEN_F_CONVERTED].n != 0;
	if (take_part(l, rec, err) < 0 || take_shapes(l, rec, err) < 0)
		return -1;
	return 0;
}

int
qwen_state_layout_match(const struct qwen_state_layout *l,
    const struct qwen_session *s, struct qwen_err *err)
{
	size_t i, n_ctx = qwen_model_n_ctx(qwen_session_model(s));
	size_t n_layer = qwen_model_n_layer(qwen_session_model(s));
	struct qwen_state_layer want;

	if (l->n_tokens > n_ctx)
		return qwen_fail(err, QWEN_ERANGE,
		    "%llu tokens exceed the model's context of %zu",
		    (unsigned long long)l->n_tokens, n_ctx);
	if (l->n_layer != n_layer)
		return qwen_fail(err, QWEN_EMISMATCH,
		    "%zu layers, but the model has %zu", l->n_layer, n_layer);
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

uint64_t
qwen_state_mtp_blocks(const struct qwen_state_mtp *p, uint64_t from,
    uint64_t n, uint64_t *first)
{
	uint64_t begin = from > 0 ? from - 1 : 0, end = n > 0 ? n - 1 : 0;

	begin = begin > p->first ? begin : p->first;
	*first = begin / QWEN_KV_BLOCK;
	return !p->there || begin >= end ? 0 :
	    (end + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK - *first;
}

int
qwen_state_layout_mtp(struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_err *err)
{
	const struct qwen_cbor_item *f = rec->f.v;
	struct qwen_state_mtp *p = &l->mtp;
	const uint64_t most = 1 << 24;
	struct qwen_state_layer layer = { .kv = 1,
	    .n = { f[QWEN_F_HEADS].n, f[QWEN_F_SIZE].n } };

	if (p->there)
		return qwen_fail(err, QWEN_EFORMAT, "a second block of this "
		    "kind");
	if (f[QWEN_F_HEADS].n == 0 || f[QWEN_F_HEADS].n > most ||
	    f[QWEN_F_SIZE].n == 0 || f[QWEN_F_SIZE].n > most ||
	    f[QWEN_F_EMBD].n == 0 || f[QWEN_F_EMBD].n > most ||
	    !is_small((uint64_t[4]){ f[QWEN_F_HEADS].n, f[QWEN_F_SIZE].n,
	    4 * QWEN_KV_BLOCK, qwen_state_kv_count(l) + 2 }) ||
	    take_kv(l, &layer) < 0)
		return qwen_fail(err, QWEN_EFORMAT, "invalid shape");
	if (f[QWEN_F_FIRST].n % QWEN_KV_BLOCK != 0 ||
	    f[QWEN_F_FIRST].n >= l->n_tokens)
		return qwen_fail(err, QWEN_ERANGE, "from slot %llu of %llu",
		    (unsigned long long)f[QWEN_F_FIRST].n,
		    (unsigned long long)l->n_tokens);
	if (f[QWEN_F_MODEL].n != sizeof p->model.b)
		return qwen_fail(err, QWEN_ERANGE, "a fingerprint of %llu "
		    "bytes", (unsigned long long)f[QWEN_F_MODEL].n);
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

static int
incomplete(const char *kind, size_t layer, uint64_t got, uint64_t want,
    struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EFORMAT,
	    "%s of layer %zu is incomplete: %llu of %llu bytes", kind, layer,
	    (unsigned long long)got, (unsigned long long)want);
}

static uint64_t *
done_of(const struct qwen_state_layout *l, enum qwen_kind kind, size_t layer)
{
	return &l->done[kind * l->n_done + layer];
}

/*
 * Checks that the recurrent state of all layers is complete; *none is 1 if
 * there is none at all.
 */
static int
check_recurrent(const struct qwen_state_layout *l, int *none,
    struct qwen_err *err)
{
	size_t i, any = 0, layers = 0;
	uint64_t want, got;
	int k;

	for (i = 0; i < l->n_layer; i++) {
		any += *done_of(l, QWEN_K_DELTA, i) > 0 ||
		    *done_of(l, QWEN_K_CONV, i) > 0;
		layers += !l->layer[i].kv;
	}
	*none = any == 0 && layers > 0;
	for (i = 0; i < l->n_layer; i++) {
		for (k = QWEN_K_DELTA; k <= QWEN_K_CONV; k++) {
			want = qwen_section(k)->bytes(l, &l->layer[i]);
			got = *done_of(l, (enum qwen_kind)k, i);
			if (got != want)
				return incomplete(qwen_section(k)->name, i,
				    got, want, err);
		}
	}
	return 0;
}

static int
add_checkpoint(struct qwen_state_layout *l, struct qwen_err *err)
{
	struct qwen_checkpoint *c;
	uint64_t logits = *done_of(l, QWEN_K_LOGITS, 0);
	size_t i;

	if (qwen_grow(&l->checkpoint, &l->cap_checkpoint, l->n_checkpoint + 1,
	    sizeof *c) < 0)
		return qwen_oom(err);
	c = &l->checkpoint[l->n_checkpoint++];
	*c = (struct qwen_checkpoint){ .at = l->at, .named = l->named,
	    .logits = logits > 0, .bytes = logits };
	for (i = 0; i < l->n_layer; i++)
		c->bytes += *done_of(l, QWEN_K_DELTA, i) +
		    *done_of(l, QWEN_K_CONV, i);
	return 0;
}

/* Ends the current position: checks its objects and adds a checkpoint. */
static int
close_position(struct qwen_state_layout *l, struct qwen_err *err)
{
	int none = 0, r = check_recurrent(l, &none, err);
	uint64_t logits = *done_of(l, QWEN_K_LOGITS, 0);
	uint64_t all = l->n_vocab * sizeof(float);
	uint64_t hidden = *done_of(l, QWEN_K_HIDDEN, 0);
	int end = l->at == l->n_tokens;

	if (r < 0 && !(none && l->part && end && logits == 0))
		return qwen_fail_in(err, "state after %llu tokens",
		    (unsigned long long)l->at);
	if (logits != 0 && logits != all)
		return qwen_fail(err, QWEN_EFORMAT, "logits after %llu tokens "
		    "are incomplete: %llu of %llu bytes",
		    (unsigned long long)l->at, (unsigned long long)logits,
		    (unsigned long long)all);
	if (hidden != 0 && hidden != l->mtp.n_embd * sizeof(float))
		return qwen_fail(err, QWEN_EFORMAT, "hidden state after %llu "
		    "tokens: %llu bytes", (unsigned long long)l->at,
		    (unsigned long long)hidden);
	if (!end)
		return add_checkpoint(l, err);
	l->recurrent = r == 0;
	l->end_named = l->named;
	l->end_logits = logits > 0;
	return 0;
}

/* Makes `at' the current position; positions ascend. */
static int
set_position(struct qwen_state_layout *l, uint64_t at, struct qwen_err *err)
{
	if (l->has_position && at == l->at)
		return 0;
	if (at > l->n_tokens || (at <= l->from && at != l->n_tokens))
		return qwen_fail(err, QWEN_ERANGE, "after token %llu of %llu: "
		    "out of range", (unsigned long long)at,
		    (unsigned long long)l->n_tokens);
	if (l->has_position && at < l->at)
		return qwen_fail(err, QWEN_EFORMAT, "after token %llu, but "
		    "token %llu came before", (unsigned long long)at,
		    (unsigned long long)l->at);
	if (l->has_position && close_position(l, err) < 0)
		return -1;
	memset(done_of(l, QWEN_K_DELTA, 0), 0, (QWEN_K_HIDDEN + 1 -
	    QWEN_K_DELTA) * l->n_done * sizeof *l->done);
	l->named = 0;
	l->has_position = 1;
	l->at = at;
	return 0;
}

/*
 * Returns the layer of an entry, which must have this kind of data; NULL on
 * errors.
 */
static const struct qwen_state_layer *
find_layer(const struct qwen_state_layout *l, const struct qwen_state_entry *e,
    struct qwen_err *err)
{
	if (e->layer < 0 || (uint64_t)e->layer >= l->n_layer) {
		qwen_fail(err, QWEN_ERANGE, "layer out of range: the model has "
		    "%zu layers", l->n_layer);
		return NULL;
	}
	if (l->layer[e->layer].kv != (e->kind == QWEN_K_KV)) {
		qwen_fail(err, QWEN_EMISMATCH, "the model's layer has no %s",
		    e->name);
		return NULL;
	}
	return &l->layer[e->layer];
}

int
qwen_state_layout_add(struct qwen_state_layout *l,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const struct qwen_section *k = qwen_section(e->kind);
	const struct qwen_state_layer *p = NULL;
	uint64_t *done, total, block;
	int layered = (k->fields & 1u << QWEN_F_LAYER) != 0;
	int placed = (k->fields & 1u << QWEN_F_AT) != 0;

	if (layered && (p = find_layer(l, e, err)) == NULL)
		return -1;
	if (!layered && e->layer != -1)
		return qwen_fail(err, QWEN_EFORMAT, "%s does not belong to a "
		    "layer", e->name);
	if (!placed && e->at != -1)
		return qwen_fail(err, QWEN_EFORMAT, "%s does not belong to a "
		    "position", e->name);
	if (placed && set_position(l, (uint64_t)e->at, err) < 0)
		return -1;
	if (e->kind == QWEN_K_KV || e->kind == QWEN_K_MTP_KV) {
		block = qwen_state_kv_block(p != NULL ? p : &l->mtp.layer);
		if (block > 0 && block <= QWEN_PIECE_MAX &&
		    e->len % block != 0)
			return qwen_fail(err, QWEN_EFORMAT,
			    "it does not end at a block of 16 positions");
	}
	done = done_of(l, e->kind, layered ? (size_t)e->layer : 0);
	total = k->bytes(l, p);
	if (e->len == 0 || e->off != *done || e->len > total - *done)
		return qwen_fail(err, QWEN_EFORMAT, "bytes %llu to %llu do not "
		    "continue at %llu of %llu", (unsigned long long)e->off,
		    (unsigned long long)(e->off + e->len),
		    (unsigned long long)*done, (unsigned long long)total);
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

/* ------------------------------------------------------------------ the end */

int
qwen_state_layout_end(struct qwen_state_layout *l, struct qwen_err *err)
{
	uint64_t got, want;
	size_t i;

	if (*done_of(l, QWEN_K_TOKENS, 0) !=
	    qwen_section(QWEN_K_TOKENS)->bytes(l, NULL))
		return qwen_fail(err, QWEN_EFORMAT, "tokens are missing");
	for (i = 0; i < l->n_layer; i++) {
		got = *done_of(l, QWEN_K_KV, i);
		want = qwen_section(QWEN_K_KV)->bytes(l, &l->layer[i]);
		if (got != want)
			return incomplete("kv", i, got, want, err);
	}
	got = *done_of(l, QWEN_K_MTP_KV, 0);
	want = qwen_section(QWEN_K_MTP_KV)->bytes(l, NULL);
	if (got != want)
		return qwen_fail(err, QWEN_EFORMAT, "mtp-kv is incomplete: "
		    "%llu of %llu bytes", (unsigned long long)got,
		    (unsigned long long)want);
	if (set_position(l, l->n_tokens, err) < 0)
		return -1;
	return close_position(l, err);
}

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
	uint64_t used = l->n_tokens % QWEN_KV_BLOCK;
	uint64_t last = (qwen_state_kv_count(l) - 1) * block;
	unsigned any = 0;

	if (used == 0 || e->off + e->len <= last)
		return 0;
	for (i = e->off > last ? e->off : last; i < e->off + e->len; i++) {
		any |= qwen_kv_lane(&s, (size_t)(i - last)) >= used ?
		    raw[i - e->off] : 0;
	}
	return any == 0 ? 0 : qwen_fail(err, QWEN_EFORMAT,
	    "kv of layer %lld: positions after the last token",
	    (long long)e->layer);
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

int
qwen_state_layout_check(const struct qwen_state_layout *l,
    const struct qwen_state_entry *e, const unsigned char *raw,
    struct qwen_err *err)
{
	const struct qwen_section *k = qwen_section(e->kind);
	unsigned width = qwen_state_width(e->kind, e->kind == QWEN_K_KV ?
	    &l->layer[e->layer] : &l->mtp.layer);
	size_t i;

	if (e->off % width != 0 || e->len % width != 0)
		return qwen_fail(err, QWEN_EFORMAT, "incomplete number");
	/* data unknown to the model, or only for drafts, may be anything */
	if (k->copy == NULL || e->kind == QWEN_K_MTP_KV ||
	    e->kind == QWEN_K_HIDDEN)
		return 0;
	i = e->kind == QWEN_K_KV ? finite_kv(l, e, raw) :
	    qwen_coder_finite(raw, (size_t)e->len, width);
	if (i < e->len)
		return qwen_fail(err, QWEN_EFORMAT, "number %llu is NaN or "
		    "infinite", (unsigned long long)(e->off + i) / width);
	return e->kind == QWEN_K_KV ? check_lanes(l, e, raw, err) : 0;
}
