/* SPDX-License-Identifier: ISC */
/*
 * state_forge.h - states that are wrong in one place, with correct checksums:
 * damaged disks do not make them, but a hostile program can.
 *
 * A plan is a list of records of a session with zeros in its cache.  A case
 * edits the plan before it is written.
 */
#ifndef STATE_FORGE_H
#define STATE_FORGE_H

#include <math.h>

#include <cbor.h>
#include <zstd.h>

#include "state_util.h"

enum { TOKENS = 17, N_ITEMS = 400 };

struct item {
	const char	*kind;		/* NULL: data is the complete record */
	int64_t		 layer, at;	/* -1: not in the record */
	uint64_t	 off, len;
	const char	*codec;		/* NULL: the record has no data */
	const void	*data;
	size_t		 n_data;
	const char	*more;		/* an unknown key */
	int		 skip;		/* the record says that it may be
					   skipped */
	int		 no_len;
	uint64_t	 index_add;
	int		 mark;		/* a checkpoint mark; 2: of a named
					   one */
	const char	*options;	/* options of a sampler or run */
	size_t		 n_options, n_pending;
	int		 run;
	uint64_t	 start, count, input;
	size_t		 n_base;
	int		 mtp;
	uint64_t	 heads, size, embd, first;
	size_t		 n_model;
};

struct plan {
	const struct qwen_session *s;
	struct qwen_header h;
	struct item	 item[N_ITEMS];
	size_t		 n;
	/* info */
	uint64_t	 format, n_tokens, kv_block;
	size_t		 more_layers;
	uint64_t	 shape_add, shape_kv;	/* shape_kv: replaces both sizes
						   unless 0 */
	/* end */
	int		 no_end, flip_total;
	uint64_t	 records_add, bytes_add, raw_add;
	const char	*tail;
	/*
	 * index: write one; edit_index may change it when all else is written
	 */
	int		 index;
	void		(*edit_index)(struct plan *p, struct qwen_state_list *l);
	uint64_t	 index_add;	/* added to its offset in the end
					   record */
	int		 no_index_field, index_twice, index_after, index_empty;
	size_t		 index_cut;	/* bytes missing at its end */
	/* positions in item of the first record of each kind */
	size_t		 tokens, kv, delta, conv, logits;
	/* memory for data */
	unsigned char	 zero[QWEN_PIECE_MAX];
	unsigned char	 scratch[8192];
};

static inline struct item *
add_item(struct plan *p, const char *kind, int64_t layer, int64_t at,
    uint64_t off, uint64_t len)
{
	struct item *it = &p->item[p->n++];

	if (p->n > N_ITEMS || len > QWEN_PIECE_MAX)
		abort();
	*it = (struct item){ .kind = kind, .layer = layer, .at = at,
	    .off = off, .len = len, .codec = "none", .data = p->zero,
	    .n_data = (size_t)len };
	return it;
}

static inline void
add_object(struct plan *p, const char *kind, int64_t layer, int64_t at,
    uint64_t total)
{
	uint64_t off, part;

	for (off = 0; off < total; off += part) {
		part = total - off < QWEN_PIECE_MAX ? total - off :
		    QWEN_PIECE_MAX;
		add_item(p, kind, layer, at, off, part);
	}
}

/* Add a checkpoint before the end, with records like those of the end. */
static inline void
add_checkpoint(struct plan *p, int64_t at)
{
	size_t i, n = p->n, first = p->delta;
	struct item *it;

	/* the checkpoint's records come before those of the end */
	for (i = 0; i < n; i++) {
		if (p->item[i].at == TOKENS && i < first)
			first = i;
	}
	for (i = first; i < n; i++) {
		if (p->item[i].at != TOKENS)
			abort();
		it = &p->item[p->n++];
		*it = p->item[i];
	}
	for (i = first; i < n; i++)
		p->item[i].at = at;
	p->delta += n - first;
	p->conv += n - first;
	p->logits += n - first;
}

static inline struct item *
add_mark(struct plan *p, int64_t at)
{
	struct item *it = add_item(p, "checkpoint", -1, at, 0, 0);

	it->codec = NULL;
	it->mark = 2;
	return it;
}

static inline struct item *
add_sampler(struct plan *p, const char *options, size_t n, size_t n_pending)
{
	struct item *it = add_item(p, "sampler", -1, -1, 0, 0);

	it->codec = NULL;
	it->options = options;
	it->n_options = n;
	it->n_pending = n_pending;
	return it;
}

/* Add a run of the last three tokens, whose command had two input tokens. */
static inline struct item *
add_run(struct plan *p)
{
	struct item *it = add_item(p, "run", -1, -1, 0, 0);

	it->codec = NULL;
	it->run = 1;
	it->options = "n=5";
	it->n_options = 3;
	it->start = TOKENS - 3;
	it->count = 3;
	it->input = 2;
	it->n_base = 16;
	return it;
}

enum { MTP_HEADS = 2, MTP_SIZE = 8, MTP_EMBD = 12,
    MTP_KV = 2 * MTP_HEADS * MTP_SIZE * QWEN_KV_BLOCK * 2 };

/*
 * Add the data of an MTP block for 17 tokens, whose rows fill the first 16
 * slots: three items.  Return the first.
 */
static inline struct item *
add_mtp(struct plan *p)
{
	struct item *it = add_item(p, "mtp", -1, -1, 0, 0);

	it->codec = NULL;
	it->mtp = 1;
	it->heads = MTP_HEADS;
	it->size = MTP_SIZE;
	it->embd = MTP_EMBD;
	it->n_model = 16;
	add_object(p, "mtp-kv", -1, -1, MTP_KV);
	add_object(p, "hidden", -1, TOKENS, MTP_EMBD * 4);
	return it;
}

/* Make a plan of a correct state. */
static inline void
good_plan(struct plan *p, const struct qwen_session *s)
{
	const struct qwen_layer_state *l;
	struct qwen_err err;
	size_t i;

	memset(p, 0, sizeof *p);
	p->s = s;
	p->format = qwen_state_format(&(struct qwen_header){ .n_vocab = 1 });
	p->n_tokens = TOKENS;
	p->kv_block = QWEN_KV_BLOCK;
	if (qwen_header_init(&p->h, QWEN_STREAM_STATE, s->model->net.gguf,
	    &err) < 0)
		abort();
	add_item(p, "info", -1, -1, 0, 0)->codec = NULL;
	p->tokens = p->n;
	add_object(p, "tokens", -1, -1, TOKENS * 4);
	for (i = 0; i < s->mem.n_layer; i++) {
		l = &s->mem.layer[i];
		if (l->kv_block_bytes == 0)
			continue;
		p->kv = p->n;
		add_object(p, "kv", (int64_t)i, -1, 2 * l->kv_block_bytes);
	}
	for (i = 0; i < s->mem.n_layer; i++) {
		l = &s->mem.layer[i];
		if (l->kv_block_bytes != 0)
			continue;
		p->delta = p->n;
		add_object(p, "delta", (int64_t)i, TOKENS, l->n_s * 4);
		p->conv = p->n;
		add_object(p, "conv", (int64_t)i, TOKENS, l->n_conv * 4);
	}
	p->logits = p->n;
	add_object(p, "logits", -1, TOKENS, s->model->net.hp.n_vocab * 4);
}

/* ----------------------------------------------------------------- writing */

static inline void
forge_shape(struct qwen_state_builder *put, const struct plan *p, size_t layer)
{
	const struct qwen_hparams *h = &p->s->model->net.hp;

	if (p->s->mem.layer[layer].kv_block_bytes != 0) {
		qwen_state_put_array(put, 3);
		qwen_state_put_string(put, "kv");
		qwen_state_put_number(put, p->shape_kv != 0 ? p->shape_kv :
		    h->n_head_kv + p->shape_add);
		qwen_state_put_number(put, p->shape_kv != 0 ? p->shape_kv :
		    h->n_embd_head);
		return;
	}
	qwen_state_put_array(put, 6);
	qwen_state_put_string(put, "delta");
	qwen_state_put_number(put, h->n_head_v);
	qwen_state_put_number(put, h->dk);
	qwen_state_put_number(put, h->dv);
	qwen_state_put_number(put, h->conv_kernel - 1);
	qwen_state_put_number(put, 2 * h->n_head_k * h->dk +
	    h->n_head_v * h->dv);
}

static inline void
forge_info(struct qwen_state_builder *put, const struct plan *p)
{
	size_t i, n = p->s->mem.n_layer;

	qwen_state_put_uint(put, "format", p->format);
	qwen_state_put_text(put, "writer", "forge");
	qwen_state_put_uint(put, "n_tokens", p->n_tokens);
	qwen_state_put_uint(put, "kv_block", p->kv_block);
	qwen_state_put_key(put, "layers");
	qwen_state_put_array(put, n + p->more_layers);
	for (i = 0; i < n + p->more_layers; i++)
		forge_shape(put, p, i % n);
}

static inline void
forge_run(struct qwen_state_builder *put, const struct item *it)
{
	static const unsigned char base[24];

	qwen_state_put_uint(put, "start", it->start);
	qwen_state_put_uint(put, "count", it->count);
	qwen_state_put_uint(put, "input", it->input);
	qwen_state_put_bool(put, "finished", 1);
	qwen_state_put_bool(put, "again", 0);
	qwen_state_put_bytes(put, "base", base, it->n_base);
}

static inline void
forge_mtp(struct qwen_state_builder *put, const struct item *it)
{
	static const unsigned char model[24];

	qwen_state_put_uint(put, "heads", it->heads);
	qwen_state_put_uint(put, "size", it->size);
	qwen_state_put_uint(put, "embd", it->embd);
	qwen_state_put_uint(put, "first", it->first);
	qwen_state_put_bytes(put, "model", model, it->n_model);
}

static inline void
forge_fields(struct qwen_state_builder *put, const struct plan *p,
    const struct item *it)
{
	static const unsigned char pending[8];

	if (strcmp(it->kind, "info") == 0)
		forge_info(put, p);
	if (it->layer >= 0)
		qwen_state_put_uint(put, "layer", (uint64_t)it->layer);
	if (it->at >= 0)
		qwen_state_put_uint(put, "at", (uint64_t)it->at);
	if (it->codec != NULL) {
		qwen_state_put_uint(put, "off", it->off);
		if (!it->no_len)
			qwen_state_put_uint(put, "len", it->len);
		qwen_state_put_text(put, "codec", it->codec);
	}
	if (it->mark != 0)
		qwen_state_put_bool(put, "named", it->mark > 1);
	if (it->options != NULL) {
		qwen_state_put_key(put, "options");
		put->n += cbor_encode_string_start(it->n_options,
		    put->buf + put->n, put->cap - put->n);
		memcpy(put->buf + put->n, it->options, it->n_options);
		put->n += it->n_options;
		if (!it->run)
			qwen_state_put_bytes(put, "pending", pending,
			    it->n_pending);
	}
	if (it->run)
		forge_run(put, it);
	if (it->mtp)
		forge_mtp(put, it);
	if (it->more != NULL) {
		cbor_encode_map_start(++put->n_fields,
		    put->buf + put->fields_at, 1);
		qwen_state_put_string(put, it->more);
		qwen_state_put_number(put, 1);
	}
	if (it->skip) {
		qwen_state_put_key(put, "skip");
		put->buf[put->n++] = 0xf5;
	}
}

/* Write the index of the records; return its offset. */
static inline uint64_t
forge_index(struct bytes *out, struct qwen_state_builder *put,
    struct qwen_state_counts *sum, struct plan *p, struct qwen_state_list *list)
{
	uint64_t at = sum->bytes;
	unsigned char *b;
	size_t i, n, off, part;

	if (p->edit_index != NULL)
		p->edit_index(p, list);
	n = p->index_empty ? 0 : list->n * QWEN_ENTRY_BYTES - p->index_cut;
	b = qwen_alloc(list->n, QWEN_ENTRY_BYTES);
	for (i = 0; i < list->n; i++)
		qwen_state_entry_pack(&list->entry[i],
		    b + i * QWEN_ENTRY_BYTES);
	off = 0;
	do {
		part = n - off < QWEN_PIECE_MAX ? n - off : QWEN_PIECE_MAX;
		qwen_state_put_begin(put, sum, "index");
		qwen_state_put_uint(put, "off", off);
		qwen_state_put_uint(put, "len", part);
		qwen_state_put_text(put, "codec", "none");
		qwen_state_put_finish(put, sum, b + off, part, part, 0);
		bytes_add(out, put->buf, put->n);
		off += part;
	} while (off < n);
	free(b);
	return at;
}

static inline void
forge_end(struct bytes *out, struct qwen_state_builder *put,
    struct qwen_state_counts *sum, const struct plan *p, uint64_t index)
{
	static const unsigned char zero[QWEN_END_BYTES];
	int field = index != 0 && !p->no_index_field;
	struct qwen_fp total;

	qwen_state_counts_hash(sum, &total);
	total.b[5] ^= (unsigned char)p->flip_total;
	qwen_state_put_begin(put, sum, "end");
	qwen_state_put_uint(put, "records", sum->n + p->records_add);
	qwen_state_put_uint(put, "bytes", sum->bytes + p->bytes_add);
	qwen_state_put_uint(put, "raw", sum->raw + p->raw_add);
	qwen_state_put_bytes(put, "total", total.b, sizeof total.b);
	if (field)
		qwen_state_put_uint(put, "index", index + p->index_add);
	qwen_state_put_bytes(put, "pad", zero,
	    QWEN_END_BYTES - put->n - 16);
	qwen_state_put_finish(put, sum, NULL, 0, 0, 0);
	bytes_add(out, put->buf, put->n);
}

/* Add the correct index entry of the record in put. */
static inline void
forge_entry(struct qwen_state_list *list, const struct item *it,
    const struct qwen_state_builder *put, uint64_t offset)
{
	struct qwen_state_entry e = { .layer = it->layer, .at = it->at,
	    .has_data = it->codec != NULL, .offset = offset, .bytes = put->n };
	struct qwen_err err;

	snprintf(e.name, sizeof e.name, "%s", it->kind[0] != '\0' ? it->kind :
	    "none");
	if (it->codec != NULL) {
		e.off = it->off;
		e.len = it->len;
		if (qwen_codec_find((const unsigned char *)it->codec,
		    strlen(it->codec), &e.codec) < 0)
			e.codec = QWEN_CODEC_NONE;
	}
	memcpy(e.check, put->buf + put->n - QWEN_CHECK_BYTES,
	    QWEN_CHECK_BYTES);
	if (qwen_state_list_add(list, &e, &err) < 0)
		abort();
}

static inline void
write_item(struct bytes *out, struct qwen_state_builder *put,
    struct qwen_state_counts *sum, const struct plan *p, const struct item *it,
    struct qwen_state_list *list)
{
	uint64_t at = sum->bytes;

	if (it->kind == NULL) {
		bytes_add(out, it->data, it->n_data);
		return;
	}
	sum->n += it->index_add;
	qwen_state_put_begin(put, sum, it->kind);
	forge_fields(put, p, it);
	qwen_state_put_finish(put, sum, it->data, it->n_data,
	    it->no_len ? 0 : it->len, 0);
	sum->n -= it->index_add;
	forge_entry(list, it, put, at);
	bytes_add(out, put->buf, put->n);
}

static inline void
write_plan(struct bytes *out, struct plan *p)
{
	struct qwen_state_builder put = { 0 };
	struct qwen_state_list list = { 0 };
	struct qwen_state_counts sum;
	struct qwen_err err;
	unsigned char head[QWEN_HEADER_MAX];
	uint64_t index = 0;
	size_t i, n = qwen_header_encode(&p->h, head);

	put.cap = QWEN_PIECE_MAX + 65536;
	put.buf = qwen_alloc(1, put.cap);
	if (put.buf == NULL || qwen_state_counts_init(&sum, head, n, &err) < 0)
		abort();
	bytes_add(out, head, n);
	for (i = 0; i < p->n; i++)
		write_item(out, &put, &sum, p, &p->item[i], &list);
	if (p->index)
		index = forge_index(out, &put, &sum, p, &list);
	if (p->index_twice)
		forge_index(out, &put, &sum, p, &list);
	if (p->index_after) {
		struct item skip = { .kind = "thing", .layer = -1, .at = -1,
		    .skip = 1 };

		write_item(out, &put, &sum, p, &skip, &list);
	}
	if (!p->no_end)
		forge_end(out, &put, &sum, p, index);
	if (p->tail != NULL)
		bytes_add(out, p->tail, strlen(p->tail));
	qwen_state_counts_fini(&sum);
	free(list.entry);
	free(put.buf);
}

/* --------------------------------------------------------------- the cases */

static inline void
drop(struct plan *p, size_t i)
{
	memmove(p->item + i, p->item + i + 1,
	    (p->n - i - 1) * sizeof p->item[0]);
	p->n--;
}

/* Insert a copy of item i after it. */
static inline void
twice(struct plan *p, size_t i)
{
	memmove(p->item + i + 1, p->item + i, (p->n - i) * sizeof p->item[0]);
	p->n++;
}

/* Insert these bytes as a record before item i. */
static inline void
raw_record(struct plan *p, size_t i, const void *data, size_t n)
{
	twice(p, i);
	p->item[i] = (struct item){ .data = data, .n_data = n };
}

/*
 * Replace the data of item i by a zstd frame of n zero bytes, followed by
 * `more' bytes.
 */
static inline void
pack(struct plan *p, size_t i, const char *codec, size_t n, size_t more)
{
	size_t got = ZSTD_compress(p->scratch, sizeof p->scratch - more,
	    p->zero, n, 1);

	if (ZSTD_isError(got))
		abort();
	p->item[i].codec = codec;
	p->item[i].data = p->scratch;
	p->item[i].n_data = got + more;
}

/* Replace the float or integer at the start of item i's data. */
static inline void
set_first(struct plan *p, size_t i, const void *v)
{
	/* scratch has room for small objects only */
	if (p->item[i].n_data > sizeof p->scratch) {
		static unsigned char big[QWEN_PIECE_MAX];

		memcpy(big, v, 4);
		p->item[i].data = big;
		return;
	}
	memcpy(p->scratch, v, 4);
	p->item[i].data = p->scratch;
}

#define CASE(name) static inline void name(struct plan *p)

CASE(format_2) { p->format = 2; }
CASE(format_huge) { p->format = UINT64_MAX; }
CASE(kv_block_32) { p->kv_block = 32; }
CASE(tokens_past_context) { p->n_tokens = p->s->model->net.hp.n_ctx + 1; }
CASE(tokens_huge) { p->n_tokens = (uint64_t)1 << 63; }
CASE(tokens_wrap) { p->n_tokens = UINT64_MAX / 4 + 2; }
CASE(layer_more) { p->more_layers = 1; }
CASE(other_shape) { p->shape_add = 1; }
CASE(info_missing) { drop(p, 0); }
CASE(info_twice) { twice(p, 0); }
CASE(info_data) { p->item[0].n_data = 5; }
CASE(token_outside)
{
	int32_t id = (int32_t)p->s->model->net.hp.n_vocab;

	set_first(p, p->tokens, &id);
}
CASE(token_negative)
{
	int32_t id = -1;

	set_first(p, p->tokens, &id);
}
CASE(tokens_missing) { drop(p, p->tokens); }
CASE(tokens_more)
{
	p->item[p->tokens].len += 4;
	p->item[p->tokens].n_data += 4;
}
CASE(token_cut)
{
	p->item[p->tokens].len -= 2;
	p->item[p->tokens].n_data -= 2;
}
CASE(layer_outside) { p->item[p->kv].layer = (int64_t)p->s->mem.n_layer; }
CASE(layer_huge) { p->item[p->kv].layer = INT64_MAX; }
CASE(kv_of_delta) { p->item[p->kv].layer = p->item[p->delta].layer; }
CASE(delta_of_kv) { p->item[p->delta].layer = p->item[p->kv].layer; }
CASE(kv_gap) { p->item[p->kv].off = 16; }
CASE(kv_off_wraps) { p->item[p->kv].off = UINT64_MAX - 15; }
CASE(kv_missing) { drop(p, p->kv); }
CASE(kv_twice) { twice(p, p->kv); }
CASE(len_0) { p->item[p->kv].len = p->item[p->kv].n_data = 0; }
CASE(len_huge) { p->item[p->kv].len = UINT64_MAX; }
CASE(len_past_limit) { p->item[p->kv].len = QWEN_PIECE_MAX + 16; }
CASE(len_missing) { p->item[p->kv].no_len = 1; }
CASE(codec_unknown) { p->item[p->kv].codec = "lz4"; }
CASE(codec_empty) { p->item[p->kv].codec = ""; }
CASE(zstd_garbage) { p->item[p->kv].codec = "zstd"; }
CASE(zstd_nothing)
{
	p->item[p->kv].codec = "zstd2";
	p->item[p->kv].n_data = 0;
}
CASE(zstd_short)
{
	pack(p, p->kv, "zstd", (size_t)p->item[p->kv].len - 1, 0);
}
CASE(zstd_bomb) { pack(p, p->kv, "zstd2", QWEN_PIECE_MAX, 0); }
CASE(zstd_tail)
{
	pack(p, p->kv, "zstd2", (size_t)p->item[p->kv].len, 7);
}
CASE(zstd_two_frames)
{
	size_t n = (size_t)p->item[p->kv].len, a;

	pack(p, p->kv, "zstd", n / 2, 0);
	a = p->item[p->kv].n_data;
	memcpy(p->scratch + a, p->scratch, a);
	p->item[p->kv].n_data = 2 * a;
}
CASE(zstd2_odd)
{
	p->item[p->tokens].len--;
	pack(p, p->tokens, "zstd2", TOKENS * 4 - 1, 0);
}
CASE(data_short) { p->item[p->kv].n_data--; }
CASE(at_later) { p->item[p->delta].at = TOKENS + 1; }
CASE(at_earlier) { p->item[p->delta].at = TOKENS - 1; }
CASE(delta_missing) { drop(p, p->delta); }
CASE(conv_missing) { drop(p, p->conv); }
CASE(conv_twice) { twice(p, p->conv); }
CASE(logits_nan)
{
	float f = NAN;

	set_first(p, p->logits, &f);
}
CASE(kv_nan)
{
	uint16_t h[2] = { 0, 0x7e00 };

	set_first(p, p->kv, h);
}
CASE(kv_infinite)
{
	uint16_t h[2] = { 0xfc00, 0 };

	set_first(p, p->kv, h);
}
CASE(delta_nan)
{
	float f = NAN;

	set_first(p, p->delta, &f);
}
CASE(conv_infinite)
{
	float f = -INFINITY;

	set_first(p, p->conv, &f);
}
CASE(delta_torn)
{
	struct item it = p->item[p->delta];

	twice(p, p->delta);
	p->item[p->delta].len = p->item[p->delta].n_data = 6;
	p->item[p->delta + 1].off = 6;
	p->item[p->delta + 1].len = p->item[p->delta + 1].n_data = it.len - 6;
}
CASE(shape_wraps)
{
	/*
	 * 2^21 heads of size 2^21 in 2^16 blocks of 16 positions: 2^64 bytes,
	 * which wraps to 0
	 */
	p->shape_kv = 1 << 21;
	p->n_tokens = 1 << 20;
	drop(p, p->kv);
}
CASE(logits_cut)
{
	p->item[p->logits].len -= 4;
	p->item[p->logits].n_data -= 4;
}
CASE(logits_of_layer) { p->item[p->logits].layer = 0; }
CASE(kv_tail)
{
	/* position 17, which is after the last token, in the second block */
	static unsigned char v[QWEN_PIECE_MAX];
	struct item *it = &p->item[p->kv];
	size_t block = p->s->mem.layer[it->layer].kv_block_bytes;

	memset(v, 0, sizeof v);
	if (2 * block > sizeof v)
		abort();
	v[block + 2] = 1;
	it->data = v;
}
CASE(generated_half) { add_item(p, "generated", -1, -1, 0, 8); }
CASE(generated_none) { add_item(p, "generated", -1, -1, 0, 16); }
CASE(generated_past_end)
{
	add_item(p, "generated", -1, -1, 0, 16)->data = p->scratch;
	p->scratch[0] = TOKENS - 1;
	p->scratch[8] = 2;
}
CASE(generated_wraps)
{
	generated_past_end(p);
	memset(p->scratch + 8, 255, 8);
}
CASE(generated_overlap)
{
	add_item(p, "generated", -1, -1, 0, 32)->data = p->scratch;
	p->scratch[0] = 3;
	p->scratch[8] = 2;
	p->scratch[16] = 4;
	p->scratch[24] = 1;
}
/* Adds a span with a grid of 1 by 5, before the tokens. */
static void
add_span(struct plan *p, uint64_t start, uint64_t n)
{
	struct qwen_span span = { .start = start, .n = n, .height = 1,
	    .width = 5 };
	size_t at = p->item[1].kind != NULL &&
	    strcmp(p->item[1].kind, "spans") == 0 ? sizeof span : 0;
	struct item it;

	memcpy(p->scratch + at, &span, sizeof span);
	add_item(p, "spans", -1, -1, at, sizeof span)->data = p->scratch + at;
	it = p->item[p->n - 1];
	memmove(p->item + p->tokens + 1, p->item + p->tokens,
	    (p->n - 1 - p->tokens) * sizeof it);
	p->item[p->tokens++] = it;
}

CASE(span_late)
{
	add_item(p, "spans", -1, -1, 0, 40)->data = p->scratch;
	p->scratch[0] = 3;
	p->scratch[8] = 5;
}
/* The tokens are those of a text without spans. */
CASE(span_of_tokens) { add_span(p, 3, 5); }
CASE(span_short) { add_span(p, 3, 3); }
CASE(span_grid) { add_span(p, 3, 6); }
CASE(span_after_end) { add_span(p, TOKENS, 5); }
CASE(span_wraps) { add_span(p, UINT64_MAX - 2, 5); }
CASE(span_half) { add_item(p, "spans", -1, -1, 0, 20); }
CASE(spans_overlap)
{
	add_span(p, 3, 5);
	add_span(p, 7, 5);
}
CASE(sampler_twice)
{
	add_sampler(p, "temp=1", 6, 0);
	add_sampler(p, "temp=1", 6, 0);
}
CASE(sampler_nul) { add_sampler(p, "a\0b", 3, 0); }
CASE(sampler_long)
{
	memset(p->scratch, 'a', 2000);
	add_sampler(p, (const char *)p->scratch, 2000, 0);
}
CASE(pending_long) { add_sampler(p, "", 0, 5); }
CASE(run_twice)
{
	add_run(p);
	add_run(p);
}
CASE(run_short) { add_run(p)->count--; }
CASE(run_long) { add_run(p)->count++; }
CASE(run_start_huge) { add_run(p)->start = UINT64_MAX - 2; }
CASE(run_count_wraps)
{
	struct item *it = add_run(p);

	it->start = TOKENS + 1;
	it->count = UINT64_MAX;
}
CASE(run_input_long) { add_run(p)->input = TOKENS - 2; }
CASE(run_options_nul) { add_run(p)->options = "n\0" "5"; }
CASE(run_options_long)
{
	struct item *it = add_run(p);

	memset(p->scratch, 'a', 3000);
	it->options = (const char *)p->scratch;
	it->n_options = 3000;
}
CASE(run_base_short) { add_run(p)->n_base = 15; }
CASE(run_base_long) { add_run(p)->n_base = 17; }
CASE(mtp_twice)
{
	add_mtp(p);
	twice(p, p->n - 3);
}
CASE(mtp_no_heads) { add_mtp(p)->heads = 0; }
CASE(mtp_heads_huge) { add_mtp(p)->heads = UINT64_MAX; }
CASE(mtp_no_size) { add_mtp(p)->size = 0; }
CASE(mtp_no_embd) { add_mtp(p)->embd = 0; }
CASE(mtp_embd_huge) { add_mtp(p)->embd = (uint64_t)1 << 62; }
CASE(mtp_shape_wraps)
{
	struct item *it = add_mtp(p);

	it->heads = it->size = 1 << 24;
}
CASE(mtp_other_shape) { add_mtp(p)->heads++; }
CASE(mtp_first_in_block) { add_mtp(p)->first = 3; }
CASE(mtp_first_later) { add_mtp(p)->first = 32; }
CASE(mtp_first_end) { add_mtp(p)->first = 16; }
CASE(mtp_model_short) { add_mtp(p)->n_model = 15; }
CASE(mtp_model_long) { add_mtp(p)->n_model = 17; }
CASE(mtp_data) { add_mtp(p)->n_data = 1; }
CASE(mtp_kv_missing)
{
	add_mtp(p);
	drop(p, p->n - 2);
}
CASE(mtp_kv_twice)
{
	add_mtp(p);
	twice(p, p->n - 2);
}
CASE(mtp_kv_cut)
{
	add_mtp(p);
	p->item[p->n - 2].len -= 2;
	p->item[p->n - 2].n_data -= 2;
}
CASE(mtp_kv_of_layer)
{
	add_mtp(p);
	p->item[p->n - 2].layer = 0;
}
CASE(mtp_kv_alone)
{
	add_mtp(p);
	drop(p, p->n - 3);
	p->n--;
}
CASE(hidden_alone)
{
	add_mtp(p);
	drop(p, p->n - 3);
	drop(p, p->n - 2);
}
CASE(hidden_cut)
{
	add_mtp(p);
	p->item[p->n - 1].len -= 4;
	p->item[p->n - 1].n_data -= 4;
}
CASE(hidden_long)
{
	add_mtp(p);
	p->item[p->n - 1].len += 4;
	p->item[p->n - 1].n_data += 4;
}
CASE(hidden_elsewhere)
{
	add_mtp(p);
	p->item[p->n - 1].at = 3;
}
CASE(kind_unknown)
{
	add_item(p, "what", -1, -1, 0, 4);
}
CASE(kind_empty) { p->item[p->kv].kind = ""; }
CASE(kind_long) { p->item[p->kv].kind = "kvkvkvkvkvkvkvkvkvkvkvkvkvkv"; }
CASE(kind_escape) { p->item[p->kv].kind = "\033[2J"; }
CASE(key_unknown) { p->item[p->kv].more = "parent"; }
CASE(key_twice) { p->item[p->kv].more = "layer"; }
CASE(key_elsewhere) { p->item[p->kv].more = "raw"; }
CASE(end_records) { p->records_add = 1; }
CASE(end_bytes) { p->bytes_add = UINT64_MAX; }
CASE(end_raw) { p->raw_add = 1; }
CASE(end_total) { p->flip_total = 16; }
CASE(end_missing) { p->no_end = 1; }
CASE(end_early) { p->n = p->kv; }
CASE(bytes_after) { p->tail = "x"; }
CASE(record_after) { p->tail = "\x80"; }
CASE(index_jumps) { p->item[p->kv].index_add = 1; }
CASE(index_huge) { p->item[p->kv].index_add = UINT64_MAX; }
CASE(index_wrong_first) { p->item[0].index_add = 1; }
CASE(record_int) { raw_record(p, 1, "\x01", 1); }
CASE(record_map) { raw_record(p, 1, "\xa1\x01\x02", 3); }
CASE(record_empty) { raw_record(p, 1, "\x80", 1); }
CASE(record_text) { raw_record(p, 1, "hello", 5); }
CASE(record_deep)
{
	memset(p->scratch, 0x81, 4000);
	raw_record(p, 1, p->scratch, 4000);
}
CASE(record_open) { raw_record(p, 1, "\x9f\xff", 2); }
CASE(record_claims_array) { raw_record(p, 1, "\x9b\x10\0\0\0\0\0\0\0", 9); }
CASE(record_claims_bytes)
{
	raw_record(p, 1, "\x85\x01\x61k\xa0\x5b\x10\0\0\0\0\0\0\0", 14);
}
CASE(header_twice)
{
	size_t n = qwen_header_encode(&p->h, p->scratch);

	raw_record(p, 2, p->scratch, n);
}
CASE(header_model) { p->h.model.b[3] ^= 1; }
CASE(header_vocabulary) { p->h.vocab.b[3] ^= 1; }
CASE(header_numerics) { p->h.numerics++; }
CASE(header_n_vocab) { p->h.n_vocab++; }
CASE(header_tokens) { p->h.kind = QWEN_STREAM_TOKENS; }
CASE(header_logits) { p->h.kind = QWEN_STREAM_LOGITS; }

CASE(checkpoint_cut)
{
	add_checkpoint(p, 3);
	drop(p, p->delta - (p->n - p->delta));
}
CASE(checkpoint_at_0) { add_checkpoint(p, 0); }
CASE(checkpoint_later) { add_checkpoint(p, TOKENS + 1); }
CASE(checkpoint_behind)
{
	add_checkpoint(p, 5);
	add_checkpoint(p, 3);
}
CASE(checkpoint_twice)
{
	add_checkpoint(p, 5);
	add_checkpoint(p, 5);
}
CASE(checkpoint_nan)
{
	size_t at = p->logits;
	float f = NAN;

	add_checkpoint(p, 3);
	set_first(p, at, &f);
}
CASE(mark_alone)
{
	struct item it = *add_mark(p, 7);

	p->n--;
	twice(p, p->kv);
	p->item[p->kv] = it;
}
CASE(mark_later) { add_mark(p, TOKENS + 1); }
CASE(mark_behind) { add_mark(p, 3); }
CASE(mark_data)
{
	struct item *it = add_mark(p, TOKENS);

	it->n_data = 1;
}

/* Cases in which the index contradicts the records. */
#define INDEX(name, what) \
static inline void \
edit_##name(struct plan *p, struct qwen_state_list *l) \
{ \
	struct qwen_state_entry *e = l->entry; \
	(void)p; \
	(void)e; \
	what; \
} \
CASE(name) \
{ \
	p->index = 1; \
	p->edit_index = edit_##name; \
}

INDEX(index_kind, strcpy(e[p->kv].name, "thing"))
INDEX(index_kind_empty, e[p->kv].name[0] = '\0')
INDEX(index_kind_end, strcpy(e[p->kv].name, "end"))
INDEX(index_kind_index, strcpy(e[p->kv].name, "index"))
INDEX(index_kind_info, strcpy(e[p->kv].name, "info"))
INDEX(index_no_info, strcpy(e[0].name, "tokens"))
INDEX(index_layer, e[p->kv].layer = e[p->delta].layer)
INDEX(index_layer_huge, e[p->kv].layer = INT64_MAX)
INDEX(index_layer_negative, e[p->kv].layer = -2)
INDEX(index_at, e[p->delta].at = TOKENS - 1)
INDEX(index_at_kv, e[p->kv].at = TOKENS + 1)
INDEX(index_at_huge, e[p->delta].at = INT64_MIN)
INDEX(index_off, e[p->kv].off += 64)
INDEX(index_len, e[p->kv].len -= 64)
INDEX(index_len_0, e[p->kv].len = 0)
INDEX(index_len_huge, e[p->kv].len = UINT64_MAX)
INDEX(index_codec, e[p->kv].codec = QWEN_CODEC_ZSTD)
INDEX(index_no_codec, e[p->kv].has_data = 0)
INDEX(index_check, e[p->kv].check[3] ^= 1)
INDEX(index_offset, e[p->kv].offset++)
INDEX(index_offset_back, e[p->kv].offset = e[p->kv - 1].offset)
INDEX(index_offset_wraps, e[p->kv].offset = UINT64_MAX - 3)
INDEX(index_bytes, e[p->kv].bytes--)
INDEX(index_bytes_0, e[p->kv].bytes = 0)
INDEX(index_bytes_huge, e[l->n - 1].bytes = UINT64_MAX)
INDEX(index_border, e[p->kv].bytes++; e[p->kv + 1].offset++;
    e[p->kv + 1].bytes--)
INDEX(index_one_less, l->n--)
INDEX(index_one_more, struct qwen_state_entry x = e[l->n - 1];
    qwen_state_list_add(l, &x, NULL))
INDEX(index_exchange, struct qwen_state_entry x = e[p->delta];
    e[p->delta] = e[p->conv]; e[p->conv] = x)
CASE(index_cut)
{
	p->index = 1;
	p->index_cut = 1;
}
CASE(index_empty) { p->index = p->index_empty = 1; }
CASE(index_twice)
{
	p->index = p->index_twice = 1;
}
CASE(index_not_last) { p->index = p->index_after = 1; }
CASE(index_unsaid) { p->index = p->no_index_field = 1; }
CASE(index_elsewhere)
{
	p->index = 1;
	p->index_add = 1;
}
CASE(index_far)
{
	p->index = 1;
	p->index_add = (uint64_t)1 << 62;
}
CASE(index_early)
{
	p->index = 1;
	p->index_add = (uint64_t)-100;
}

static const struct forged {
	const char	*name;
	void		(*edit)(struct plan *p);
} forged[] = {
#define C(name) { #name, name }
	C(format_2), C(format_huge), C(kv_block_32), C(tokens_past_context),
	C(tokens_huge), C(tokens_wrap), C(layer_more), C(other_shape),
	C(info_missing), C(info_twice), C(info_data), C(token_outside),
	C(token_negative), C(tokens_missing), C(tokens_more), C(token_cut),
	C(layer_outside), C(layer_huge), C(kv_of_delta), C(delta_of_kv),
	C(kv_gap), C(kv_off_wraps), C(kv_missing), C(kv_twice), C(len_0),
	C(len_huge), C(len_past_limit), C(len_missing), C(codec_unknown),
	C(codec_empty), C(zstd_garbage), C(zstd_nothing), C(zstd_short),
	C(zstd_bomb), C(zstd_tail), C(zstd_two_frames), C(zstd2_odd),
	C(data_short), C(at_later), C(at_earlier), C(delta_missing),
	C(conv_missing), C(conv_twice), C(logits_nan), C(logits_cut),
	C(kv_nan), C(kv_infinite), C(delta_nan), C(conv_infinite),
	C(delta_torn), C(shape_wraps),
	C(logits_of_layer), C(kv_tail), C(generated_half), C(generated_none),
	C(generated_past_end), C(generated_wraps), C(generated_overlap),
	C(span_late), C(span_of_tokens), C(span_short), C(span_grid), C(span_after_end),
	C(span_wraps), C(span_half), C(spans_overlap),
	C(sampler_twice), C(sampler_nul), C(sampler_long), C(pending_long),
	C(run_twice), C(run_short), C(run_long), C(run_start_huge),
	C(run_count_wraps), C(run_input_long), C(run_options_nul),
	C(run_options_long), C(run_base_short), C(run_base_long),
	C(mtp_twice), C(mtp_no_heads), C(mtp_heads_huge), C(mtp_no_size),
	C(mtp_no_embd), C(mtp_embd_huge), C(mtp_shape_wraps),
	C(mtp_other_shape), C(mtp_first_in_block), C(mtp_first_later),
	C(mtp_first_end), C(mtp_model_short), C(mtp_model_long), C(mtp_data),
	C(mtp_kv_missing), C(mtp_kv_twice), C(mtp_kv_cut), C(mtp_kv_of_layer),
	C(mtp_kv_alone), C(hidden_alone), C(hidden_cut), C(hidden_long),
	C(hidden_elsewhere),
	C(kind_unknown), C(kind_empty), C(kind_long), C(kind_escape),
	C(key_unknown), C(key_twice), C(key_elsewhere), C(end_records),
	C(end_bytes), C(end_raw), C(end_total), C(end_missing), C(end_early),
	C(bytes_after), C(record_after), C(index_jumps), C(index_huge),
	C(index_wrong_first), C(record_int), C(record_map), C(record_empty),
	C(record_text), C(record_deep), C(record_open),
	C(record_claims_array), C(record_claims_bytes), C(header_twice),
	C(header_model), C(header_vocabulary), C(header_numerics),
	C(header_n_vocab), C(header_tokens), C(header_logits),
	C(checkpoint_cut), C(checkpoint_at_0), C(checkpoint_later),
	C(checkpoint_behind), C(checkpoint_twice), C(checkpoint_nan),
	C(mark_alone), C(mark_later), C(mark_behind), C(mark_data),
	C(index_kind), C(index_kind_empty), C(index_kind_end),
	C(index_kind_index), C(index_kind_info), C(index_no_info),
	C(index_layer), C(index_layer_huge), C(index_layer_negative),
	C(index_at), C(index_at_huge), C(index_off), C(index_len),
	C(index_len_0), C(index_len_huge), C(index_codec), C(index_no_codec),
	C(index_check), C(index_offset), C(index_offset_back),
	C(index_offset_wraps), C(index_bytes), C(index_bytes_0),
	C(index_bytes_huge), C(index_border), C(index_one_less),
	C(index_one_more), C(index_exchange), C(index_cut), C(index_twice),
	C(index_empty), C(index_at_kv),
	C(index_not_last), C(index_unsaid), C(index_elsewhere), C(index_far),
	C(index_early),
#undef C
};

enum { N_FORGED = sizeof forged / sizeof forged[0] };

#endif
