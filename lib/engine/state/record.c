/* SPDX-License-Identifier: ISC */
/*
 * record.c - encodes and decodes one record of a state, with its check and its
 * place in the sequence.  This file knows the fields but not their use.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <cbor.h>

#include "base/err.h"
#include "engine/state/state.h"
#include "wire/record.h"

static const struct qwen_key fields[QWEN_F_OWN] = {
	[QWEN_F_LAYER] = { "layer", QWEN_SHAPE_UINT },
	[QWEN_F_AT] = { "at", QWEN_SHAPE_UINT },
	[QWEN_F_OFF] = { "off", QWEN_SHAPE_UINT },
	[QWEN_F_LEN] = { "len", QWEN_SHAPE_UINT },
	[QWEN_F_CODEC] = { "codec", QWEN_SHAPE_TEXT },
	[QWEN_F_PAD] = { "pad", QWEN_SHAPE_BYTES },
	[QWEN_F_SKIP] = { "skip", QWEN_SHAPE_BOOL },
};

/* Fills key with the fields of a kind, by number, and returns their count. */
static size_t
fields_of(enum qwen_kind kind, struct qwen_key key[QWEN_KEYS_MAX])
{
	const struct qwen_key *own = qwen_kinds[kind].own;
	size_t n;

	memcpy(key, fields, sizeof fields);
	for (n = 0; n < QWEN_OWN_MAX && own[n].name != NULL; n++)
		key[QWEN_F_OWN + n] = own[n];
	return QWEN_F_OWN + n;
}

/* ------------------------------------------------------------------ hashes */

int
qwen_state_counts_init(struct qwen_state_counts *s, const void *header,
    size_t n, struct qwen_err *err)
{
	memset(s, 0, sizeof *s);
	s->header = XXH3_createState();
	s->checks = qwen_fp_start();
	if (s->header == NULL || s->checks == NULL) {
		qwen_state_counts_fini(s);
		return qwen_oom(err);
	}
	XXH3_64bits_reset(s->header);
	XXH3_64bits_update(s->header, header, n);
	s->bytes = n;
	return 0;
}

void
qwen_state_counts_fini(struct qwen_state_counts *s)
{
	XXH3_freeState(s->header);
	XXH3_freeState(s->checks);
	memset(s, 0, sizeof *s);
}

void
qwen_state_counts_hash(const struct qwen_state_counts *s, struct qwen_fp *out)
{
	qwen_fp_get(s->checks, out);
}

/* Computes the check of the n bytes at p, which are record s->n. */
static void
check(const struct qwen_state_counts *s, const unsigned char *p, size_t n,
    unsigned char out[QWEN_CHECK_BYTES])
{
	XXH64_canonical_t c;
	XXH64_hash_t h;

	if (s->n == 0) {	/* includes the header */
		XXH3_64bits_update(s->header, p, n);
		h = XXH3_64bits_digest(s->header);
	} else
		h = XXH3_64bits(p, n);
	XXH64_canonicalFromHash(&c, h);
	memcpy(out, c.digest, QWEN_CHECK_BYTES);
}

void
qwen_state_counts_add(struct qwen_state_counts *s,
    const struct qwen_state_entry *e)
{
	XXH3_128bits_update(s->checks, e->check, QWEN_CHECK_BYTES);
	s->n++;
	s->bytes += e->bytes;
	s->raw += e->len;
}

/*
 * Counts the record of n bytes at p, check included, whose data decodes to
 * n_raw bytes.
 */
static void
add_record(struct qwen_state_counts *s, const unsigned char *p, size_t n,
    uint64_t n_raw)
{
	struct qwen_state_entry e = { .bytes = n, .len = n_raw };

	memcpy(e.check, p + n - QWEN_CHECK_BYTES, QWEN_CHECK_BYTES);
	qwen_state_counts_add(s, &e);
}

/* ----------------------------------------------------------------- writing */

static void
put_raw(struct qwen_state_builder *p, const void *s, size_t n)
{
	if (n > 0)
		memcpy(p->buf + p->n, s, n);
	p->n += n;
}

void
qwen_state_put_string(struct qwen_state_builder *p, const char *s)
{
	size_t n = strlen(s);

	p->n += cbor_encode_string_start(n, p->buf + p->n, p->cap - p->n);
	put_raw(p, s, n);
}

static void
put_bytes(struct qwen_state_builder *p, const void *s, size_t n)
{
	p->n += cbor_encode_bytestring_start(n, p->buf + p->n, p->cap - p->n);
	put_raw(p, s, n);
}

void
qwen_state_put_number(struct qwen_state_builder *p, uint64_t v)
{
	p->n += cbor_encode_uint(v, p->buf + p->n, p->cap - p->n);
}

void
qwen_state_put_array(struct qwen_state_builder *p, size_t n)
{
	p->n += cbor_encode_array_start(n, p->buf + p->n, p->cap - p->n);
}

/* The count of at most 23 fields takes one byte. */
void
qwen_state_put_key(struct qwen_state_builder *p, const char *key)
{
	size_t n = cbor_encode_map_start(++p->n_fields, p->buf + p->fields_at, 1);

	assert(n == 1);
	(void)n;
	qwen_state_put_string(p, key);
}

void
qwen_state_put_uint(struct qwen_state_builder *p, const char *key, uint64_t v)
{
	qwen_state_put_key(p, key);
	qwen_state_put_number(p, v);
}

void
qwen_state_put_text(struct qwen_state_builder *p, const char *key,
    const char *s)
{
	qwen_state_put_key(p, key);
	qwen_state_put_string(p, s);
}

void
qwen_state_put_bytes(struct qwen_state_builder *p, const char *key,
    const void *s, size_t n)
{
	qwen_state_put_key(p, key);
	put_bytes(p, s, n);
}

void
qwen_state_put_bool(struct qwen_state_builder *p, const char *key, int v)
{
	qwen_state_put_key(p, key);
	p->n += cbor_encode_bool(v != 0, p->buf + p->n, p->cap - p->n);
}

void
qwen_state_put_begin(struct qwen_state_builder *p,
    const struct qwen_state_counts *s, const char *kind)
{
	p->n = 0;
	p->n_fields = 0;
	qwen_state_put_array(p, 5);
	qwen_state_put_number(p, s->n);
	qwen_state_put_string(p, kind);
	p->fields_at = p->n;
	p->n += cbor_encode_map_start(0, p->buf + p->n, p->cap - p->n);
}

/*
 * Adds a field of zeros as the last field, so that data of n bytes begins at a
 * multiple of align in the stream.  At least 24 zeros, so that their CBOR head
 * always has two bytes.
 */
static void
pad(struct qwen_state_builder *p, const struct qwen_state_counts *s, size_t n,
    size_t align)
{
	static const unsigned char zero[24 + QWEN_ALIGN];
	unsigned char head[9];
	size_t at;

	qwen_state_put_key(p, "pad");
	at = p->n + 2 + 24 + cbor_encode_bytestring_start(n, head, sizeof head);
	put_bytes(p, zero, 24 + (align - (size_t)((s->bytes + at) % align)) %
	    align);
}

void
qwen_state_put_finish(struct qwen_state_builder *p, struct qwen_state_counts *s,
    const void *data, size_t n_data, uint64_t n_raw, size_t align)
{
	if (align != 0 && n_data > 0)
		pad(p, s, n_data, align);
	put_bytes(p, data, n_data);
	p->n += cbor_encode_bytestring_start(QWEN_CHECK_BYTES, p->buf + p->n,
	    p->cap - p->n);
	check(s, p->buf, p->n, p->buf + p->n);
	p->n += QWEN_CHECK_BYTES;
	add_record(s, p->buf, p->n, n_raw);
}

size_t
qwen_state_put_around(struct qwen_state_builder *p, struct qwen_state_counts *s,
    unsigned char **data, size_t n_data, uint64_t n_raw, size_t align)
{
	unsigned char *end = *data + n_data;
	size_t n;

	if (align != 0 && n_data > 0)
		pad(p, s, n_data, align);
	p->n += cbor_encode_bytestring_start(n_data, p->buf + p->n,
	    p->cap - p->n);
	*data -= p->n;
	memcpy(*data, p->buf, p->n);
	end += cbor_encode_bytestring_start(QWEN_CHECK_BYTES, end, 1);
	n = (size_t)(end - *data);
	check(s, *data, n, end);
	n += QWEN_CHECK_BYTES;
	add_record(s, *data, n, n_raw);
	return n;
}

/* ----------------------------------------------------------------- reading */

int
qwen_state_rec_fail(const struct qwen_state_rec *rec, struct qwen_err *err)
{
	const struct qwen_state_entry *e = &rec->e;
	int has_layer = (rec->f.there & 1u << QWEN_F_LAYER) != 0;
	char what[64] = "";

	if (e->name[0] != '\0' && (has_layer || e->layer >= 0))
		snprintf(what, sizeof what, " (%s of layer %llu)", e->name,
		    has_layer ? (unsigned long long)rec->f.v[QWEN_F_LAYER].n :
		    (unsigned long long)e->layer);
	else if (e->name[0] != '\0')
		snprintf(what, sizeof what, " (%s)", e->name);
	return qwen_fail_in(err, "state block %llu%s at byte %llu",
	    rec->index == QWEN_INDEX_ANY ? 0 :
	    (unsigned long long)rec->index, what,
	    (unsigned long long)e->offset);
}

int
qwen_state_item(struct qwen_state_bytes *b, enum qwen_cbor_item_type type,
    struct qwen_cbor_item *it)
{
	size_t want;

	if (qwen_cbor_item_decode(b->p, b->n, it, &want) != 1 ||
	    it->type != type)
		return -1;
	b->p += it->bytes;
	b->n -= it->bytes;
	return 0;
}

/* Reads [index, kind, fields, data, check]; check was read before. */
static int
read_parts(struct qwen_state_rec *rec, struct qwen_state_bytes b,
    struct qwen_err *err)
{
	struct qwen_key key[QWEN_KEYS_MAX];
	struct qwen_cbor_item it;

	if (qwen_state_item(&b, QWEN_ITEM_ARRAY, &it) < 0 || it.n != 5)
		return qwen_fail(err, QWEN_EFORMAT, "a block must be an array "
		    "of five");
	if (qwen_state_item(&b, QWEN_ITEM_UINT, &it) < 0)
		return qwen_fail(err, QWEN_EFORMAT, "the block has no number");
	if (rec->index == QWEN_INDEX_ANY)
		rec->index = it.n;
	if (it.n != rec->index)
		return qwen_fail(err, QWEN_EFORMAT,
		    "block %llu is out of order", (unsigned long long)it.n);
	if (qwen_state_item(&b, QWEN_ITEM_TEXT, &it) < 0 || it.n == 0 ||
	    it.n >= sizeof rec->e.name)
		return qwen_fail(err, QWEN_EFORMAT, "the block has no kind");
	memcpy(rec->e.name, it.s, it.n);
	rec->e.kind = qwen_kind_find(rec->e.name);
	if (qwen_fields_decode(&rec->f, key, fields_of(rec->e.kind, key), &b.p,
	    &b.n, err) < 0)
		return -1;
	if (qwen_state_item(&b, QWEN_ITEM_BYTES, &it) < 0)
		return qwen_fail(err, QWEN_EFORMAT, "the block has no data");
	rec->data = it.s;
	rec->n_data = (size_t)it.n;
	if (qwen_state_item(&b, QWEN_ITEM_BYTES, &it) < 0 ||
	    it.n != QWEN_CHECK_BYTES || b.n != 0)
		return qwen_fail(err, QWEN_EFORMAT, "the block has no checksum");
	return 0;
}

static int
has(const struct qwen_state_rec *rec, enum qwen_field f)
{
	return (rec->f.there & 1u << f) != 0;
}

/* Reads the fields that describe the data. */
static int
read_piece_fields(struct qwen_state_rec *rec, struct qwen_err *err)
{
	const struct qwen_cbor_item *f = rec->f.v;
	struct qwen_state_entry *e = &rec->e;

	if (has(rec, QWEN_F_LAYER))
		e->layer = (int64_t)f[QWEN_F_LAYER].n;
	if (has(rec, QWEN_F_AT))
		e->at = (int64_t)f[QWEN_F_AT].n;
	e->off = f[QWEN_F_OFF].n;
	if (f[QWEN_F_LEN].n > QWEN_PIECE_MAX)
		return qwen_fail(err, QWEN_ERANGE, "%llu bytes of data; the "
		    "limit is %d", (unsigned long long)f[QWEN_F_LEN].n,
		    QWEN_PIECE_MAX);
	e->len = f[QWEN_F_LEN].n;
	e->has_data = has(rec, QWEN_F_LEN) && has(rec, QWEN_F_CODEC);
	if (!e->has_data || qwen_codec_find(f[QWEN_F_CODEC].s,
	    (size_t)f[QWEN_F_CODEC].n, &e->codec) == 0)
		return 0;
	return qwen_fail(err, QWEN_EUNSUP, "unknown codec \"%.*s\"",
	    f[QWEN_F_CODEC].n < 20 ? (int)f[QWEN_F_CODEC].n : 20,
	    (const char *)f[QWEN_F_CODEC].s);
}

/*
 * Decodes record s->n from the n bytes at p, which begins where s ends.  Counts
 * nothing.
 */
static int
decode(struct qwen_state_rec *rec, const struct qwen_state_counts *s,
    const unsigned char *p, size_t n, struct qwen_err *err)
{
	struct qwen_state_bytes b = { p, n };
	unsigned char want[QWEN_CHECK_BYTES];
	int bad;

	memset(rec, 0, sizeof *rec);
	rec->index = s->n;
	rec->read = 1;
	rec->e = (struct qwen_state_entry){ .kind = QWEN_K_NONE, .layer = -1,
	    .at = -1, .offset = s->bytes, .bytes = n };
	if (n <= QWEN_CHECK_BYTES) {
		qwen_fail(err, QWEN_EFORMAT, "not a block of state");
		return qwen_state_rec_fail(rec, err);
	}
	check(s, p, n - QWEN_CHECK_BYTES, want);
	memcpy(rec->e.check, p + n - QWEN_CHECK_BYTES, QWEN_CHECK_BYTES);
	bad = memcmp(want, rec->e.check, QWEN_CHECK_BYTES) != 0;
	/* of a damaged record the fields are only used for the message */
	if (read_parts(rec, b, bad ? NULL : err) < 0 && !bad)
		return qwen_state_rec_fail(rec, err);
	if (bad)
		qwen_fail(err, QWEN_EFORMAT, "damaged: the checksum%s does "
		    "not match", rec->index == 0 ? " of header and block" : "");
	return bad || read_piece_fields(rec, err) < 0 ?
	    qwen_state_rec_fail(rec, err) : 0;
}

int
qwen_state_rec_decode(struct qwen_state_rec *rec, struct qwen_state_counts *s,
    const unsigned char *p, size_t n, struct qwen_err *err)
{
	if (decode(rec, s, p, n, err) < 0)
		return -1;
	qwen_state_counts_add(s, &rec->e);
	return 0;
}

int
qwen_state_rec_parse(struct qwen_state_rec *rec, uint64_t index,
    uint64_t offset, const void *head, size_t n_head, const unsigned char *p,
    size_t n, struct qwen_err *err)
{
	struct qwen_state_counts s = { 0 };
	int r;

	if (index == 0 && qwen_state_counts_init(&s, head, n_head, err) < 0)
		return -1;
	s.n = index;
	s.bytes = offset;
	r = decode(rec, &s, p, n, err);
	qwen_state_counts_fini(&s);
	return r;
}

int
qwen_state_rec_want(const struct qwen_state_rec *rec, struct qwen_err *err)
{
	const struct qwen_kind_row *k = &qwen_kinds[rec->e.kind];
	const uint32_t any = 1u << QWEN_F_PAD | 1u << QWEN_F_SKIP;
	struct qwen_key key[QWEN_KEYS_MAX];
	size_t f, n = fields_of(rec->e.kind, key);
	uint32_t own = (1u << n) - (1u << QWEN_F_OWN);
	uint32_t missing = (k->fields | (own & ~k->optional)) & ~rec->f.there;
	uint32_t more = rec->f.there & ~(k->fields | own | any);

	if (rec->e.kind == QWEN_K_NONE)
		return qwen_fail(err, QWEN_EUNSUP, "this version does not know "
		    "this kind of block");
	for (f = 0; f < n; f++) {
		if (missing & 1u << f)
			return qwen_fail(err, QWEN_EFORMAT,
			    "key \"%s\" is missing", key[f].name);
		if (more & 1u << f)
			return qwen_fail(err, QWEN_EFORMAT,
			    "key \"%s\" is not allowed here", key[f].name);
	}
	if (rec->f.unknown[0] != '\0')
		return qwen_fail(err, QWEN_EUNSUP,
		    "this version does not know key \"%s\"", rec->f.unknown);
	return k->width != 0 || rec->n_data == 0 ? 0 :
	    qwen_fail(err, QWEN_EFORMAT, "data is not allowed here");
}
