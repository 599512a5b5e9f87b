/* SPDX-License-Identifier: ISC */
/*
 * take.c - the records of a state into what is being loaded, kind by kind.
 *
 * Sizes follow from the model, never from the stream, and memory is taken
 * when the bytes for it are there.
 */
#include <math.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "model/model.h"
#include "state/load.h"

#define BIT(f) (1u << QWEN_F_##f)
#define PIECE (BIT(OFF) | BIT(LEN) | BIT(CODEC))

/* -------------------------------------------------------------- the pieces */

/*
 * The piece must be the next one of an object of total bytes; *raw is what it
 * holds.
 */
static int
take_piece(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    uint64_t done, uint64_t total, const unsigned char **raw, struct qwen_err *err)
{
	if (!v->have_info)
		return qwen_fail(err, QWEN_EFORMAT, "before the info block");
	if (rec->len == 0 || rec->off != done || rec->len > total - done)
		return qwen_fail(err, QWEN_EFORMAT, "bytes %llu to %llu, where "
		    "%llu of %llu came before", (unsigned long long)rec->off,
		    (unsigned long long)(rec->off + rec->len),
		    (unsigned long long)done, (unsigned long long)total);
	return qwen_coder_decode(v->coder, rec->codec, rec->data, rec->n_data,
	    rec->len, raw, err);
}

/* A piece of an object that lies at dst. */
static int
copy_piece(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    uint64_t *done, uint64_t total, void *dst, struct qwen_err *err)
{
	const unsigned char *raw;

	if (take_piece(v, rec, *done, total, &raw, err) < 0)
		return -1;
	memcpy((char *)dst + *done, raw, rec->len);
	*done += rec->len;
	return 0;
}

/* Room in *p for the piece, behind done bytes. */
static int
grow(void *p, const struct qwen_state_rec *rec, uint64_t done,
    struct qwen_err *err)
{
	size_t bytes;
	void *q;

	if (done > SIZE_MAX || qwen_add((size_t)done, rec->len, &bytes) < 0 ||
	    (q = realloc(*(void **)p, bytes)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	*(void **)p = q;
	return 0;
}

/* The layer that the record names, of the sort with or without a KV cache. */
static struct qwen_layer_state *
find_layer(struct qwen_state_in *v, const struct qwen_state_rec *rec, int kv,
    struct qwen_err *err)
{
	struct qwen_layer_state *l;

	if (rec->layer >= v->s->n_layer) {
		qwen_fail(err, QWEN_ERANGE, "the model has %zu layers",
		    v->s->n_layer);
		return NULL;
	}
	l = &v->s->layer[rec->layer];
	if ((l->kv_block_bytes != 0) != kv) {
		qwen_fail(err, QWEN_EMISMATCH, "the model's layer has no %s",
		    rec->kind);
		return NULL;
	}
	return l;
}

/* ---------------------------------------------------------------- the kinds */

/* Is the array at p, of n bytes at most, this name and these numbers? */
static int
is_shape(const unsigned char **p, const unsigned char *end, const char *name,
    const size_t *want, size_t n)
{
	struct qwen_item it;
	size_t i, unused;

	if (qwen_item_decode(*p, (size_t)(end - *p), &it, &unused) != 1 ||
	    it.type != QWEN_ITEM_ARRAY || it.n != n + 1)
		return 0;
	*p += it.bytes;
	if (qwen_item_decode(*p, (size_t)(end - *p), &it, &unused) != 1 ||
	    it.type != QWEN_ITEM_TEXT || it.n != strlen(name) ||
	    memcmp(it.s, name, it.n) != 0)
		return 0;
	*p += it.bytes;
	for (i = 0; i < n; i++) {
		if (qwen_item_decode(*p, (size_t)(end - *p), &it,
		    &unused) != 1 || it.type != QWEN_ITEM_UINT ||
		    it.n != want[i])
			return 0;
		*p += it.bytes;
	}
	return 1;
}

/* The shapes of the layers, which begin at p, are those of the model. */
static int
check_shapes(const struct qwen_state_in *v, const struct qwen_item *array,
    const unsigned char *p, const unsigned char *end, struct qwen_err *err)
{
	const struct qwen_hparams *h = &v->s->model->hp;
	size_t kv[] = { h->n_head_kv, h->n_embd_head };
	size_t delta[] = { h->n_head_v, h->dk, h->dv, h->conv_kernel - 1,
	    2 * h->n_head_k * h->dk + h->n_head_v * h->dv };
	size_t i;
	int ok;

	if (array->n != v->s->n_layer)
		return qwen_fail(err, QWEN_EMISMATCH,
		    "%llu layers, the model has %zu",
		    (unsigned long long)array->n, v->s->n_layer);
	p += array->bytes;
	for (i = 0; i < v->s->n_layer; i++) {
		ok = v->s->layer[i].kv_block_bytes != 0 ?
		    is_shape(&p, end, "kv", kv, 2) :
		    is_shape(&p, end, "delta", delta, 5);
		if (!ok)
			return qwen_fail(err, QWEN_EMISMATCH, "layer %zu has "
			    "another shape than in the model", i);
	}
	return 0;
}

static int
take_info(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct qwen_item *f = rec->f;
	size_t n_ctx = INT32_MAX;

	if (f[QWEN_F_FORMAT].n != QWEN_STATE_FORMAT)
		return qwen_fail(err, QWEN_EUNSUP,
		    "state format %llu, this program reads %d",
		    (unsigned long long)f[QWEN_F_FORMAT].n, QWEN_STATE_FORMAT);
	if (f[QWEN_F_KV_BLOCK].n != QWEN_KV_BLOCK)
		return qwen_fail(err, QWEN_EUNSUP,
		    "KV blocks of %llu positions, this program has %d",
		    (unsigned long long)f[QWEN_F_KV_BLOCK].n, QWEN_KV_BLOCK);
	if (v->s != NULL)
		n_ctx = v->s->model->hp.n_ctx;
	v->n_tokens = f[QWEN_F_N_TOKENS].n;
	if (v->n_tokens > n_ctx)
		return qwen_fail(err, QWEN_ERANGE,
		    "%llu tokens, the model's context is %zu",
		    (unsigned long long)v->n_tokens, n_ctx);
	v->have_info = 1;
	return v->s == NULL ? 0 : check_shapes(v, &f[QWEN_F_LAYERS],
	    rec->at[QWEN_F_LAYERS], rec->data, err);
}

static int
take_tokens(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	uint64_t i;

	if (grow(&v->tokens, rec, v->tokens_got, err) < 0 ||
	    copy_piece(v, rec, &v->tokens_got, v->n_tokens * sizeof *v->tokens,
	    v->tokens, err) < 0)
		return -1;
	if (v->tokens_got % sizeof *v->tokens != 0)
		return qwen_fail(err, QWEN_EFORMAT, "a token is cut in two");
	for (i = rec->off / 4; i < v->tokens_got / 4; i++) {
		if (v->tokens[i] < 0 || (size_t)v->tokens[i] >= v->n_vocab)
			return qwen_fail(err, QWEN_ERANGE, "token %ld is "
			    "outside the vocabulary of %zu",
			    (long)v->tokens[i], v->n_vocab);
	}
	return 0;
}

/* Blocks for the first n bytes of a layer's cache. */
static int
grow_cache(struct qwen_layer_state *l, uint64_t n, struct qwen_err *err)
{
	size_t want = (size_t)((n + l->kv_block_bytes - 1) / l->kv_block_bytes);
	uint16_t **list;

	if (want <= l->n_block)
		return 0;
	if ((list = realloc(l->block, want * sizeof *list)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	l->block = list;
	for (; l->n_block < want; l->n_block++) {
		list[l->n_block] = qwen_alloc(1, l->kv_block_bytes);
		if (list[l->n_block] == NULL)
			return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	}
	return 0;
}

static uint64_t
cache_bytes(const struct qwen_state_in *v, const struct qwen_layer_state *l)
{
	return (v->n_tokens + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK *
	    l->kv_block_bytes;
}

static int
take_kv(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	struct qwen_layer_state *l;
	const unsigned char *raw;
	uint64_t *done;
	size_t i, at, part;

	if (v->s == NULL)
		return 0;
	if ((l = find_layer(v, rec, 1, err)) == NULL)
		return -1;
	done = &v->got[rec->layer].kv;
	if (take_piece(v, rec, *done, cache_bytes(v, l), &raw, err) < 0 ||
	    grow_cache(l, *done + rec->len, err) < 0)
		return -1;
	for (i = 0; i < rec->len; i += part, *done += part) {
		at = (size_t)(*done % l->kv_block_bytes);
		part = l->kv_block_bytes - at < rec->len - i ?
		    l->kv_block_bytes - at : rec->len - i;
		memcpy((char *)l->block[*done / l->kv_block_bytes] + at,
		    raw + i, part);
	}
	return 0;
}

/*
 * State after the last token, or a checkpoint at an earlier one: those are for
 * whoever cuts a state, and passed over here.
 */
static int
is_checkpoint(const struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	if (!v->have_info)
		return qwen_fail(err, QWEN_EFORMAT, "before the info block");
	if (rec->pos > v->n_tokens)
		return qwen_fail(err, QWEN_ERANGE,
		    "after token %llu of %llu", (unsigned long long)rec->pos,
		    (unsigned long long)v->n_tokens);
	return v->s == NULL || rec->pos < v->n_tokens;
}

static int
take_recurrent(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	struct qwen_layer_state *l;
	int r = is_checkpoint(v, rec, err);

	if (r != 0)
		return r < 0 ? -1 : 0;
	if ((l = find_layer(v, rec, 0, err)) == NULL)
		return -1;
	if (rec->kind[0] == 'd')
		return copy_piece(v, rec, &v->got[rec->layer].delta,
		    (uint64_t)l->n_s * sizeof *l->s, l->s, err);
	return copy_piece(v, rec, &v->got[rec->layer].conv,
	    (uint64_t)l->n_conv * sizeof *l->conv, l->conv, err);
}

static int
take_logits(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	int r = is_checkpoint(v, rec, err);

	if (r != 0)
		return r < 0 ? -1 : 0;
	return copy_piece(v, rec, &v->logits_got,
	    (uint64_t)v->n_vocab * sizeof *v->s->logits, v->s->logits, err);
}

/* Pairs of position and number, ascending and apart. */
static int
take_generated(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const unsigned char *raw;
	uint64_t pos, n, past = 0;
	size_t i;

	if (rec->len % 16 != 0)
		return qwen_fail(err, QWEN_EFORMAT, "a pair is cut in two");
	if (take_piece(v, rec, v->generated_got, v->n_tokens * 16, &raw,
	    err) < 0)
		return -1;
	if (v->x.n_generated > 0)
		past = v->x.generated[v->x.n_generated - 1].pos +
		    v->x.generated[v->x.n_generated - 1].n + 1;
	for (i = 0; i < rec->len; i += 16) {
		pos = qwen_le64(raw + i);
		n = qwen_le64(raw + i + 8);
		if (pos < past || pos >= v->n_tokens || n == 0 ||
		    n > v->n_tokens - pos)
			return qwen_fail(err, QWEN_EFORMAT,
			    "%llu tokens generated at %llu",
			    (unsigned long long)n, (unsigned long long)pos);
		if (qwen_state_extra_generated(&v->x, pos, n, err) < 0)
			return -1;
		past = pos + n + 1;
	}
	v->generated_got += rec->len;
	return 0;
}

static int
take_sampler(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct qwen_item *text = &rec->f[QWEN_F_OPTIONS];
	const struct qwen_item *tail = &rec->f[QWEN_F_PENDING];

	if (v->have_sampler)
		return qwen_fail(err, QWEN_EFORMAT, "there already was one");
	if (text->n >= QWEN_SAMPLER_MAX || tail->n > sizeof v->x.pending ||
	    memchr(text->s, 0, (size_t)text->n) != NULL)
		return qwen_fail(err, QWEN_ERANGE, "%llu bytes of options, "
		    "%llu of text", (unsigned long long)text->n,
		    (unsigned long long)tail->n);
	v->have_sampler = 1;
	if ((v->x.sampler = qwen_alloc(1, (size_t)text->n + 1)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	memcpy(v->x.sampler, text->s, (size_t)text->n);
	memcpy(v->x.pending, tail->s, (size_t)tail->n);
	v->x.n_pending = (size_t)tail->n;
	return 0;
}

/* The run whose tokens are the last of the state. */
static int
take_run(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct qwen_item *f = rec->f, *text = &f[QWEN_F_OPTIONS];
	struct qwen_run *run = &v->x.run;

	if (!v->have_info || run->options != NULL)
		return qwen_fail(err, QWEN_EFORMAT, run->options != NULL ?
		    "there already was one" : "before the info block");
	if (f[QWEN_F_START].n > v->n_tokens ||
	    f[QWEN_F_COUNT].n != v->n_tokens - f[QWEN_F_START].n ||
	    f[QWEN_F_INPUT].n > f[QWEN_F_START].n)
		return qwen_fail(err, QWEN_ERANGE,
		    "%llu tokens from %llu of %llu, %llu before it",
		    (unsigned long long)f[QWEN_F_COUNT].n,
		    (unsigned long long)f[QWEN_F_START].n,
		    (unsigned long long)v->n_tokens,
		    (unsigned long long)f[QWEN_F_INPUT].n);
	run->has_base = f[QWEN_F_BASE].n != 0;
	if (text->n >= QWEN_OPTIONS_MAX ||
	    memchr(text->s, 0, (size_t)text->n) != NULL ||
	    (run->has_base && f[QWEN_F_BASE].n != sizeof run->base.b))
		return qwen_fail(err, QWEN_ERANGE, "%llu bytes of options, "
		    "%llu of a fingerprint", (unsigned long long)text->n,
		    (unsigned long long)f[QWEN_F_BASE].n);
	run->from = f[QWEN_F_START].n;
	run->count = f[QWEN_F_COUNT].n;
	run->input = f[QWEN_F_INPUT].n;
	run->finished = f[QWEN_F_FINISHED].n != 0;
	run->again = f[QWEN_F_AGAIN].n != 0;
	memcpy(run->base.b, f[QWEN_F_BASE].s, (size_t)f[QWEN_F_BASE].n);
	if ((run->options = qwen_alloc(1, (size_t)text->n + 1)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	memcpy(run->options, text->s, (size_t)text->n);
	return 0;
}

/* ------------------------------------------------------------------ the end */

static int
incomplete(const char *kind, size_t layer, uint64_t got, uint64_t want,
    struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EFORMAT,
	    "%s of layer %zu: %llu bytes of %llu", kind, layer,
	    (unsigned long long)got, (unsigned long long)want);
}

/*
 * The lanes of positions to come are zero, as in a session that was never
 * saved: K is [head][dimension][position], V [head][position][dimension].
 */
static int
check_tail(const struct qwen_state_in *v, size_t layer, struct qwen_err *err)
{
	const struct qwen_hparams *h = &v->s->model->hp;
	const struct qwen_layer_state *l = &v->s->layer[layer];
	size_t used = (size_t)(v->n_tokens % QWEN_KV_BLOCK);
	size_t i, k, n = h->n_head_kv * h->n_embd_head * QWEN_KV_BLOCK;
	const uint16_t *b;
	unsigned any = 0;

	if (used == 0)
		return 0;
	b = l->block[l->n_block - 1];
	for (i = 0; i < n; i += QWEN_KV_BLOCK) {
		for (k = used; k < QWEN_KV_BLOCK; k++)
			any |= b[i + k];
	}
	for (i = n; i < 2 * n; i++) {
		if ((i - n) / h->n_embd_head % QWEN_KV_BLOCK >= used)
			any |= b[i];
	}
	if (any == 0)
		return 0;
	return qwen_fail(err, QWEN_EFORMAT,
	    "kv of layer %zu: positions after the last token", layer);
}

static int
check_layers(const struct qwen_state_in *v, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < v->s->n_layer; i++) {
		const struct qwen_layer_state *l = &v->s->layer[i];
		const struct qwen_state_got *g = &v->got[i];

		if (l->kv_block_bytes != 0) {
			if (g->kv != cache_bytes(v, l))
				return incomplete("kv", i, g->kv,
				    cache_bytes(v, l), err);
			if (check_tail(v, i, err) < 0)
				return -1;
			continue;
		}
		if (g->delta != l->n_s * sizeof *l->s)
			return incomplete("delta", i, g->delta,
			    l->n_s * sizeof *l->s, err);
		if (g->conv != l->n_conv * sizeof *l->conv)
			return incomplete("conv", i, g->conv,
			    l->n_conv * sizeof *l->conv, err);
	}
	return 0;
}

static int
check_logits(const struct qwen_state_in *v, struct qwen_err *err)
{
	size_t i;

	if (v->logits_got == 0)
		return 0;
	if (v->logits_got != v->n_vocab * sizeof *v->s->logits)
		return qwen_fail(err, QWEN_EFORMAT, "logits: %llu bytes of %zu",
		    (unsigned long long)v->logits_got,
		    v->n_vocab * sizeof *v->s->logits);
	for (i = 0; i < v->n_vocab; i++) {
		if (!isfinite(v->s->logits[i]))
			return qwen_fail(err, QWEN_EFORMAT,
			    "the logit of token %zu is not finite", i);
	}
	return 0;
}

static int
take_end(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct qwen_item *f = rec->f;

	/* v->sum has counted this record too; v->total has not */
	if (f[QWEN_F_RECORDS].n != rec->index ||
	    f[QWEN_F_BYTES].n != rec->offset ||
	    f[QWEN_F_RAW].n != v->sum.raw)
		return qwen_fail(err, QWEN_EFORMAT, "the counts are wrong");
	if (f[QWEN_F_TOTAL].n != sizeof v->total.b ||
	    memcmp(f[QWEN_F_TOTAL].s, v->total.b, sizeof v->total.b) != 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the blocks are not those that were written");
	if (!v->have_info ||
	    v->tokens_got != v->n_tokens * sizeof *v->tokens)
		return qwen_fail(err, QWEN_EFORMAT, "tokens are missing");
	if (v->s != NULL && (check_layers(v, err) < 0 ||
	    check_logits(v, err) < 0))
		return -1;
	v->ended = 1;
	return 0;
}

static const struct kind {
	const char	*name;
	unsigned	 fields;
	int	(*take)(struct qwen_state_in *v, const struct qwen_state_rec *rec,
		    struct qwen_err *err);
} kinds[] = {
	{ "info", BIT(FORMAT) | BIT(WRITER) | BIT(N_TOKENS) | BIT(KV_BLOCK) |
	    BIT(LAYERS), take_info },
	{ "tokens", PIECE, take_tokens },
	{ "kv", PIECE | BIT(LAYER), take_kv },
	{ "delta", PIECE | BIT(LAYER) | BIT(AT), take_recurrent },
	{ "conv", PIECE | BIT(LAYER) | BIT(AT), take_recurrent },
	{ "logits", PIECE | BIT(AT), take_logits },
	{ "generated", PIECE, take_generated },
	{ "sampler", BIT(OPTIONS) | BIT(PENDING), take_sampler },
	{ "run", BIT(START) | BIT(COUNT) | BIT(INPUT) | BIT(OPTIONS) |
	    BIT(FINISHED) | BIT(AGAIN) | BIT(BASE), take_run },
	{ "end", BIT(RECORDS) | BIT(BYTES) | BIT(RAW) | BIT(TOTAL), take_end },
};

static const struct kind *
find_kind(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	}
	return NULL;
}

int
qwen_state_take(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct kind *k = find_kind(rec->kind);

	/* info comes first and once */
	if ((rec->index == 0) != (k == &kinds[0]))
		return qwen_fail(err, QWEN_EFORMAT, rec->index == 0 ?
		    "the first block is not info" : "info once more");
	if (k == NULL) {
		if ((rec->there & BIT(SKIP)) && rec->f[QWEN_F_SKIP].n == 1)
			return 0;
		return qwen_fail(err, QWEN_EUNSUP, "this kind of block is not "
		    "known to this version");
	}
	if (qwen_state_rec_want(rec, k->fields, 0, err) < 0)
		return -1;
	if ((k->fields & BIT(LEN)) == 0 && rec->n_data != 0)
		return qwen_fail(err, QWEN_EFORMAT, "data has no place here");
	return k->take(v, rec, err);
}
