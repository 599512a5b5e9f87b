/* SPDX-License-Identifier: ISC */
/*
 * decode.c - decodes the record in a complete CBOR item.
 *
 * A record is a map with text keys.  Unknown keys are ignored, so that later
 * writers can add keys.  All ids, lengths and numbers are checked here, so that
 * callers need not check them again.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "base/kv.h"
#include "base/mem.h"
#include "wire/item.h"
#include "wire/record.h"

enum key {
	K_QWEN, K_KIND, K_N_VOCAB, K_VOCABULARY, K_MODEL, K_NUMERICS, K_EOG,
	K_KEYS, K_VALUES, K_BASE, K_ROPE,
	K_TOKENS, K_END, K_POSITION, K_LOGITS, K_IDS, K_LOGSUMEXP,
	K_READY, K_N_TOKENS, K_FINGERPRINT, K_MARK,
	K_TRACE, K_TOKEN, K_ROW, K_CHOICES, K_SPAN, K_GRID, K_HASH,
	K_ROWS, N_KEYS
};

static const struct qwen_key keys[N_KEYS] = {
	[K_QWEN] = { "qwen", QWEN_SHAPE_UINT },
	[K_KIND] = { "kind", QWEN_SHAPE_TEXT },
	[K_N_VOCAB] = { "n_vocab", QWEN_SHAPE_UINT },
	[K_VOCABULARY] = { "vocabulary", QWEN_SHAPE_FP },
	[K_MODEL] = { "model", QWEN_SHAPE_FP },
	[K_NUMERICS] = { "numerics", QWEN_SHAPE_UINT },
	[K_EOG] = { "eog", QWEN_SHAPE_IDS },
	[K_KEYS] = { "keys", QWEN_SHAPE_TEXT },
	[K_VALUES] = { "values", QWEN_SHAPE_TEXT },
	[K_BASE] = { "base", QWEN_SHAPE_FP },
	[K_ROPE] = { "rope", QWEN_SHAPE_TEXT },
	[K_TOKENS] = { "tokens", QWEN_SHAPE_IDS },
	[K_END] = { "end", QWEN_SHAPE_TEXT },
	[K_POSITION] = { "position", QWEN_SHAPE_UINT },
	[K_LOGITS] = { "logits", QWEN_SHAPE_ROW },
	[K_IDS] = { "ids", QWEN_SHAPE_IDS },
	[K_LOGSUMEXP] = { "logsumexp", QWEN_SHAPE_FLOAT },
	[K_READY] = { "ready", QWEN_SHAPE_PATH },
	[K_N_TOKENS] = { "n_tokens", QWEN_SHAPE_UINT },
	[K_FINGERPRINT] = { "fingerprint", QWEN_SHAPE_FP },
	[K_MARK] = { "mark", QWEN_SHAPE_TEXT },
	[K_TRACE] = { "trace", QWEN_SHAPE_TEXT },
	[K_TOKEN] = { "token", QWEN_SHAPE_INT },
	[K_ROW] = { "row", QWEN_SHAPE_ROW },
	[K_CHOICES] = { "choices", QWEN_SHAPE_IDS },
	[K_SPAN] = { "span", QWEN_SHAPE_UINT },
	[K_GRID] = { "grid", QWEN_SHAPE_IDS },
	[K_HASH] = { "hash", QWEN_SHAPE_FP },
	[K_ROWS] = { "rows", QWEN_SHAPE_ROW },
};

static const struct {
	enum qwen_stream_kind	 kind;
	const char		*name;
} kinds[] = {
	{ QWEN_STREAM_TOKENS, "tokens" },
	{ QWEN_STREAM_LOGITS, "logits" },
	{ QWEN_STREAM_STATE, "state" },
	{ QWEN_STREAM_TRACE, "trace" },
};

const char *
qwen_stream_name(enum qwen_stream_kind kind)
{
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (kinds[i].kind == kind)
			return kinds[i].name;
	}
	return "unknown";
}

size_t
qwen_record_limit(const struct qwen_header *h)
{
	size_t row;

	switch (h->kind) {
	case QWEN_STREAM_TOKENS:
		return QWEN_TOKENS_MAX;
	case QWEN_STREAM_LOGITS:
		row = (size_t)8 * h->n_vocab + 256;
		return row > QWEN_HEADER_MAX ? row : QWEN_HEADER_MAX;
	case QWEN_STREAM_STATE:
		return QWEN_STATE_MAX;
	case QWEN_STREAM_TRACE:
		return QWEN_TRACE_MAX;
	}
	return QWEN_HEADER_MAX;
}

static int
text_is(const struct qwen_cbor_item *it, const char *s)
{
	return it->n == strlen(s) && memcmp(it->s, s, it->n) == 0;
}

int
qwen_record_is_header(const unsigned char *p, size_t n)
{
	struct qwen_cbor_item it;
	size_t at, want;

	if (qwen_cbor_item_decode(p, n, &it, &want) != 1 ||
	    it.type != QWEN_ITEM_MAP || it.n == 0)
		return 0;
	at = it.bytes;
	return qwen_cbor_item_decode(p + at, n - at, &it, &want) == 1 &&
	    it.type == QWEN_ITEM_TEXT && text_is(&it, keys[K_QWEN].name);
}

/* ------------------------------------------------------------------- values */

static int
has(const struct qwen_fields *f, enum key k)
{
	return (f->there >> k & 1) != 0;
}

static int
need(const struct qwen_fields *f, enum key k, struct qwen_err *err)
{
	if (has(f, k))
		return 0;
	return qwen_fail(err, QWEN_EFORMAT, "key \"%s\" is missing",
	    keys[k].name);
}

static int
get_ids(const struct qwen_cbor_item *it, const struct qwen_header *h,
    int32_t *out,
    struct qwen_err *err)
{
	uint32_t id;
	size_t i;

	for (i = 0; i < it->n / 4; i++) {
		id = qwen_le32(it->s + 4 * i);
		if (id >= h->n_vocab)
			return qwen_fail(err, QWEN_ERANGE, "id %ld is outside "
			    "the vocabulary of %lu", (long)(int32_t)id,
			    (unsigned long)h->n_vocab);
		out[i] = (int32_t)id;
	}
	return 0;
}

static int
get_row(const struct qwen_cbor_item *it, float *out, const char *what,
    struct qwen_err *err)
{
	size_t i, n = it->n / 4;

	for (i = 0; i < n; i++) {
		out[i] = qwen_bits_f32(qwen_le32(it->s + 4 * i));
		if (!isfinite(out[i]))
			return qwen_fail(err, QWEN_ENUMERIC,
			    "%s %zu is not finite", what, i);
	}
	return 0;
}

static void
get_fp(const struct qwen_fields *f, enum key k, struct qwen_fp *out)
{
	memcpy(out->b, f->v[k].s, sizeof out->b);
}

static int
get_kind(const struct qwen_fields *f, struct qwen_header *h, struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_KIND];
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (text_is(it, kinds[i].name)) {
			h->kind = kinds[i].kind;
			return 0;
		}
	}
	return qwen_fail(err, QWEN_EUNSUP, "unknown kind of stream \"%.*s\"",
	    it->n < 40 ? (int)it->n : 40, (const char *)it->s);
}

/* Reads a KV cache type; f16 if the key is absent. */
static int
get_kv(const struct qwen_fields *f, enum key k, enum qwen_kv *out,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[k];

	*out = QWEN_KV_F16;
	if (!has(f, k) || qwen_kv_parse(out, it->s, (size_t)it->n) == 0)
		return 0;
	return qwen_fail(err, QWEN_EUNSUP, "%s of unknown type \"%.*s\"",
	    keys[k].name, it->n < 40 ? (int)it->n : 40, (const char *)it->s);
}

/* Reads the RoPE scaling; that of the model file if the key is absent. */
static int
get_rope(const struct qwen_fields *f, struct qwen_rope *out,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_ROPE];
	char text[QWEN_ROPE_TEXT];

	*out = (struct qwen_rope){ .kind = QWEN_ROPE_FILE };
	if (!has(f, K_ROPE))
		return 0;
	snprintf(text, sizeof text, "%.*s", it->n < sizeof text ? (int)it->n :
	    (int)sizeof text, (const char *)it->s);
	if (it->n < sizeof text && qwen_rope_parse(out, text) == 0)
		return 0;
	return qwen_fail(err, QWEN_EUNSUP, "unknown RoPE scaling \"%s\"", text);
}

static int
get_eog(const struct qwen_fields *f, struct qwen_header *h, struct qwen_err *err)
{
	if (!has(f, K_EOG))
		return 0;
	h->n_eog = (size_t)f->v[K_EOG].n / 4;
	if (h->n_eog > QWEN_EOG_MAX)
		return qwen_fail(err, QWEN_ERANGE, "%zu end-of-generation "
		    "ids; the limit is %d", h->n_eog, QWEN_EOG_MAX);
	return get_ids(&f->v[K_EOG], h, h->eog, err);
}

/* -------------------------------------------------- one function per kind */

static int
take_header(const struct qwen_fields *f, struct qwen_header *out,
    struct qwen_err *err)
{
	struct qwen_header h = { .kind = QWEN_STREAM_TOKENS };

	if (f->v[K_QWEN].n != QWEN_STREAM_VERSION)
		return qwen_fail(err, QWEN_EUNSUP, "stream format version "
		    "%llu; this program reads %d",
		    (unsigned long long)f->v[K_QWEN].n, QWEN_STREAM_VERSION);
	if (need(f, K_KIND, err) < 0 || need(f, K_N_VOCAB, err) < 0 ||
	    need(f, K_VOCABULARY, err) < 0 || get_kind(f, &h, err) < 0)
		return -1;
	if (f->v[K_N_VOCAB].n == 0 || f->v[K_N_VOCAB].n > QWEN_VOCAB_MAX)
		return qwen_fail(err, QWEN_ERANGE, "n_vocab %llu is not in "
		    "1..%d", (unsigned long long)f->v[K_N_VOCAB].n,
		    QWEN_VOCAB_MAX);
	h.n_vocab = (uint32_t)f->v[K_N_VOCAB].n;
	get_fp(f, K_VOCABULARY, &h.vocab);
	if (h.kind != QWEN_STREAM_TOKENS) {
		if (need(f, K_MODEL, err) < 0 || need(f, K_NUMERICS, err) < 0)
			return -1;
		if (f->v[K_NUMERICS].n > UINT32_MAX)
			return qwen_fail(err, QWEN_ERANGE,
			    "numerics is out of range");
		if (get_kv(f, K_KEYS, &h.k, err) < 0 ||
		    get_kv(f, K_VALUES, &h.v, err) < 0 ||
		    get_rope(f, &h.rope, err) < 0)
			return -1;
		get_fp(f, K_MODEL, &h.model);
		if (has(f, K_BASE))
			get_fp(f, K_BASE, &h.base);
		h.numerics = (uint32_t)f->v[K_NUMERICS].n;
	}
	if (h.kind == QWEN_STREAM_LOGITS && get_eog(f, &h, err) < 0)
		return -1;
	*out = h;
	return 0;
}

/* Reads the n ids of a record. */
static int
take_ids(struct qwen_record *rec, const struct qwen_cbor_item *it,
    struct qwen_numbers *nb, struct qwen_err *err)
{
	rec->n = (size_t)it->n / 4;
	if (qwen_grow(&nb->ids, &nb->cap_ids, rec->n, sizeof *nb->ids) < 0)
		return qwen_oom(err);
	rec->ids = nb->ids;
	return get_ids(it, rec->header, nb->ids, err);
}

/*
 * Checks that the best come first, equal ones in order of id: callers need not
 * sort.
 */
static int
check_order(const float *v, const int32_t *ids, size_t n, struct qwen_err *err)
{
	size_t i;

	for (i = 1; i < n; i++) {
		if (v[i] > v[i - 1] ||
		    (v[i] == v[i - 1] && ids[i] <= ids[i - 1]))
			return qwen_fail(err, QWEN_EFORMAT,
			    "the best logits are not sorted");
	}
	return 0;
}

static int
take_best(struct qwen_record *rec, const struct qwen_fields *f,
    struct qwen_numbers *nb, struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_IDS];

	if (need(f, K_LOGSUMEXP, err) < 0)
		return -1;
	rec->logsumexp = (float)f->v[K_LOGSUMEXP].f;
	if (!isfinite(rec->logsumexp))
		return qwen_fail(err, QWEN_ENUMERIC, "logsumexp is not finite");
	if (it->n != f->v[K_LOGITS].n)
		return qwen_fail(err, QWEN_EFORMAT, "%zu ids for %zu logits",
		    (size_t)it->n / 4, rec->n);
	return take_ids(rec, it, nb, err) < 0 ? -1 :
	    check_order(nb->logits, nb->ids, rec->n, err);
}

static int
take_logits(struct qwen_record *rec, const struct qwen_fields *f,
    struct qwen_numbers *nb, struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_LOGITS];

	if (need(f, K_POSITION, err) < 0)
		return -1;
	rec->pos = f->v[K_POSITION].n;
	rec->n = (size_t)it->n / 4;
	if (rec->pos > INT64_MAX)
		return qwen_fail(err, QWEN_ERANGE, "position out of range");
	if (rec->n == 0 || rec->n > rec->header->n_vocab ||
	    (!has(f, K_IDS) && rec->n != rec->header->n_vocab))
		return qwen_fail(err, QWEN_EFORMAT, "%zu logits for a "
		    "vocabulary of %lu", rec->n,
		    (unsigned long)rec->header->n_vocab);
	if (qwen_grow(&nb->logits, &nb->cap_logits, rec->n,
	    sizeof *nb->logits) < 0)
		return qwen_oom(err);
	if (get_row(it, nb->logits, "logit", err) < 0)
		return -1;
	rec->logits = nb->logits;
	return has(f, K_IDS) ? take_best(rec, f, nb, err) : 0;
}

static int
take_ready(struct qwen_record *rec, const struct qwen_fields *f,
    struct qwen_numbers *nb, struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_READY];

	if (need(f, K_N_TOKENS, err) < 0 || need(f, K_FINGERPRINT, err) < 0)
		return -1;
	if (it->n == 0 || it->n >= sizeof nb->path ||
	    memchr(it->s, '\0', it->n) != NULL)
		return qwen_fail(err, QWEN_EFORMAT, "\"ready\" contains no "
		    "valid path");
	memcpy(nb->path, it->s, it->n);
	nb->path[it->n] = '\0';
	rec->path = nb->path;
	rec->n_tokens = f->v[K_N_TOKENS].n;
	get_fp(f, K_FINGERPRINT, &rec->fp);
	return 0;
}

static int
take_mark(struct qwen_record *rec, const struct qwen_fields *f,
    struct qwen_numbers *nb, struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_MARK];

	if (qwen_mark_check((const char *)it->s, it->n, err) < 0)
		return -1;
	memcpy(nb->path, it->s, it->n);
	nb->path[it->n] = '\0';
	rec->path = nb->path;
	return 0;
}

/* Reads a span, and makes its ids. */
static int
take_span(struct qwen_record *rec, const struct qwen_fields *f,
    struct qwen_numbers *nb, struct qwen_err *err)
{
	const struct qwen_cbor_item *grid = &f->v[K_GRID];
	struct qwen_span *p = &nb->span;
	size_t i;

	if (need(f, K_GRID, err) < 0 || need(f, K_HASH, err) < 0)
		return -1;
	*p = (struct qwen_span){ .n = f->v[K_SPAN].n };
	get_fp(f, K_HASH, &p->hash);
	if (grid->n == 8) {
		p->height = qwen_le32(grid->s);
		p->width = qwen_le32(grid->s + 4);
	}
	if (p->n < QWEN_SPAN_MIN || p->n > QWEN_TOKENS_RUN ||
	    (grid->n != 0 && (uint64_t)p->height * p->width != p->n))
		return qwen_fail(err, QWEN_ERANGE, "a span of %llu rows, with "
		    "a grid of %lu times %lu", (unsigned long long)p->n,
		    (unsigned long)p->height, (unsigned long)p->width);
	rec->n = (size_t)p->n;
	if (qwen_grow(&nb->ids, &nb->cap_ids, rec->n, sizeof *nb->ids) < 0)
		return qwen_oom(err);
	for (i = 0; i < rec->n; i++)
		nb->ids[i] = qwen_span_id(p, i);
	rec->ids = nb->ids;
	return 0;
}

/* Reads numbers of a span's rows. */
static int
take_rows(struct qwen_record *rec, const struct qwen_fields *f,
    struct qwen_numbers *nb, struct qwen_err *err)
{
	if (need(f, K_HASH, err) < 0)
		return -1;
	rec->n = (size_t)f->v[K_ROWS].n / 4;
	if (qwen_grow(&nb->logits, &nb->cap_logits, rec->n,
	    sizeof *nb->logits) < 0)
		return qwen_oom(err);
	if (get_row(&f->v[K_ROWS], nb->logits, "number", err) < 0)
		return -1;
	rec->logits = nb->logits;
	get_fp(f, K_HASH, &rec->fp);
	return 0;
}

/* Reads a stage name; printable, since users see it. */
static int
take_stage(const struct qwen_cbor_item *it, struct qwen_numbers *nb,
    struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < it->n && it->s[i] > ' ' && it->s[i] < 127; i++)
		;
	if (it->n == 0 || it->n >= QWEN_TRACE_NAME || i < it->n)
		return qwen_fail(err, QWEN_EFORMAT, "the stage name is not 1 "
		    "to %d printable characters", QWEN_TRACE_NAME - 1);
	memcpy(nb->path, it->s, it->n);
	nb->path[it->n] = '\0';
	return 0;
}

/* Reads expert numbers, which are not ids: any that are not negative. */
static int
take_choices(const struct qwen_cbor_item *it, size_t n, struct qwen_numbers *nb,
    struct qwen_err *err)
{
	size_t i;

	if (qwen_grow(&nb->ids, &nb->cap_ids, n, sizeof *nb->ids) < 0)
		return qwen_oom(err);
	for (i = 0; i < n; i++) {
		nb->ids[i] = (int32_t)qwen_le32(it->s + 4 * i);
		if (nb->ids[i] < 0)
			return qwen_fail(err, QWEN_ERANGE, "expert number %ld "
			    "is negative", (long)nb->ids[i]);
	}
	return 0;
}

static int
take_trace(struct qwen_record *rec, const struct qwen_fields *f,
    struct qwen_numbers *nb, struct qwen_err *err)
{
	int row = has(f, K_ROW);
	const struct qwen_cbor_item *it = &f->v[row ? K_ROW : K_CHOICES];
	const struct qwen_cbor_item *token = &f->v[K_TOKEN];
	struct qwen_trace_value *v = &rec->trace;
	int neg = token->type == QWEN_ITEM_NEGINT;
	size_t i;

	if (need(f, K_POSITION, err) < 0 || need(f, K_TOKEN, err) < 0 ||
	    (!row && need(f, K_CHOICES, err) < 0) ||
	    take_stage(&f->v[K_TRACE], nb, err) < 0)
		return -1;
	if (f->v[K_POSITION].n > INT64_MAX ||
	    token->n > (neg ? INT32_MAX : rec->header->n_vocab - UINT64_C(1)))
		return qwen_fail(err, QWEN_ERANGE, "position or token out of "
		    "range");
	v->stage = nb->path;
	v->position = f->v[K_POSITION].n;
	v->token = neg ? ~(int32_t)token->n : (int32_t)token->n;
	v->n = (size_t)it->n / 4;
	if (v->n == 0)
		return qwen_fail(err, QWEN_EFORMAT, "a stage without values");
	if (!row) {
		if (take_choices(it, v->n, nb, err) < 0)
			return -1;
		v->choices = nb->ids;
		return 0;
	}
	if (qwen_grow(&nb->logits, &nb->cap_logits, v->n,
	    sizeof *nb->logits) < 0)
		return qwen_oom(err);
	for (i = 0; i < v->n; i++)
		nb->logits[i] = qwen_bits_f32(qwen_le32(it->s + 4 * i));
	v->row = nb->logits;
	return 0;
}

/* The keys that determine the kind of a record. */
static const struct {
	enum key		key;
	enum qwen_record_kind	rec;
	unsigned		streams;	/* the kinds of streams that may
						   have it */
} records[] = {
	{ K_QWEN, QWEN_REC_HEADER, 15 },
	{ K_TOKENS, QWEN_REC_TOKENS, QWEN_STREAM_TOKENS },
	{ K_END, QWEN_REC_END, QWEN_STREAM_TOKENS },
	{ K_LOGITS, QWEN_REC_LOGITS, QWEN_STREAM_LOGITS },
	{ K_READY, QWEN_REC_READY, QWEN_STREAM_TOKENS | QWEN_STREAM_LOGITS },
	{ K_MARK, QWEN_REC_MARK, QWEN_STREAM_TOKENS },
	{ K_TRACE, QWEN_REC_TRACE, QWEN_STREAM_TRACE },
	{ K_SPAN, QWEN_REC_SPAN, QWEN_STREAM_TOKENS },
	{ K_ROWS, QWEN_REC_ROWS, QWEN_STREAM_TOKENS },
};

static int
take_kind(struct qwen_record *rec, const struct qwen_fields *f,
    const struct qwen_header *h, struct qwen_err *err)
{
	size_t i;
	int found = -1;

	for (i = 0; i < sizeof records / sizeof records[0]; i++) {
		if (!has(f, records[i].key))
			continue;
		if (found >= 0)
			return qwen_fail(err, QWEN_EFORMAT, "a record with "
			    "both \"%s\" and \"%s\"",
			    keys[records[found].key].name,
			    keys[records[i].key].name);
		found = (int)i;
	}
	if (found < 0)
		return qwen_fail(err, QWEN_EUNSUP, "unknown kind of record");
	rec->kind = records[found].rec;
	if (rec->kind == QWEN_REC_HEADER)
		return 0;
	if (h->kind == 0)
		return qwen_fail(err, QWEN_EFORMAT, "the stream does not begin "
		    "with a header");
	if ((records[found].streams & h->kind) == 0)
		return qwen_fail(err, QWEN_EFORMAT, "\"%s\" in a stream of %s",
		    keys[records[found].key].name, qwen_stream_name(h->kind));
	return 0;
}

int
qwen_record_decode(struct qwen_record *rec, const unsigned char *p, size_t n,
    struct qwen_header *h, struct qwen_numbers *nb, struct qwen_err *err)
{
	struct qwen_fields f;
	size_t left = n;

	memset(rec, 0, sizeof *rec);
	rec->header = h;
	rec->raw = p;
	rec->n_raw = n;
	if (h->kind == QWEN_STREAM_STATE && !qwen_record_is_header(p, n)) {
		rec->kind = QWEN_REC_STATE;
		return 0;
	}
	if (qwen_fields_decode(&f, keys, N_KEYS, &p, &left, err) < 0 ||
	    take_kind(rec, &f, h, err) < 0)
		return -1;
	switch (rec->kind) {
	case QWEN_REC_HEADER:
		if (!qwen_record_is_header(rec->raw, n))
			return qwen_fail(err, QWEN_EFORMAT, "a header must "
			    "begin with the key \"qwen\"");
		return take_header(&f, h, err);
	case QWEN_REC_TOKENS:
		return take_ids(rec, &f.v[K_TOKENS], nb, err);
	case QWEN_REC_LOGITS:
		return take_logits(rec, &f, nb, err);
	case QWEN_REC_READY:
		return take_ready(rec, &f, nb, err);
	case QWEN_REC_MARK:
		return take_mark(rec, &f, nb, err);
	case QWEN_REC_TRACE:
		return take_trace(rec, &f, nb, err);
	case QWEN_REC_SPAN:
		return take_span(rec, &f, nb, err);
	case QWEN_REC_ROWS:
		return take_rows(rec, &f, nb, err);
	case QWEN_REC_END:
		if (text_is(&f.v[K_END], "document"))
			return 0;
		return qwen_fail(err, QWEN_EUNSUP, "an end record of something "
		    "other than a document");
	case QWEN_REC_STATE:
		break;
	}
	return 0;
}

/* ---------------------------------------------------------------- matching */

static int
differ(const char *what, const struct qwen_fp *got,
    const struct qwen_fp *want, struct qwen_err *err)
{
	char a[33], b[33];

	return qwen_fail(err, QWEN_EMISMATCH, "made with another model: its "
	    "%s is %s, not %s; give that model with -m", what,
	    qwen_fp_hex(got, a), qwen_fp_hex(want, b));
}

static int
is_zero(const struct qwen_fp *fp)
{
	static const struct qwen_fp zero;

	return memcmp(fp, &zero, sizeof zero) == 0;
}

/* Reports that the models differ, or only their adapters. */
static int
differ_model(const struct qwen_header *h, const struct qwen_header *self,
    struct qwen_err *err)
{
	const struct qwen_fp *a = is_zero(&h->base) ? &h->model : &h->base;
	const struct qwen_fp *b = is_zero(&self->base) ? &self->model :
	    &self->base;

	if (memcmp(a, b, sizeof *a) != 0)
		return differ("fingerprint", a, b, err);
	return qwen_fail(err, QWEN_EMISMATCH, "made %s; see --lora",
	    is_zero(&self->base) ? "with an adapter, this run has none" :
	    is_zero(&h->base) ? "without an adapter, this run has one" :
	    "with another adapter than this run's, or another scale");
}

static int
differ_rope(const struct qwen_header *h, const struct qwen_header *self,
    struct qwen_err *err)
{
	char a[QWEN_ROPE_TEXT], b[QWEN_ROPE_TEXT];

	qwen_rope_text(&h->rope, a);
	qwen_rope_text(&self->rope, b);
	return qwen_fail(err, QWEN_EMISMATCH, "made with RoPE scaled %s%s, "
	    "this run is scaled %s%s; see --rope-scaling", *a != '\0' ? "by " :
	    "as the model says", a, *b != '\0' ? "by " :
	    "as the model says", b);
}

int
qwen_header_match(const struct qwen_header *h, const struct qwen_header *self,
    struct qwen_err *err)
{
	if (memcmp(&h->vocab, &self->vocab, sizeof h->vocab) != 0)
		return differ("vocabulary", &h->vocab, &self->vocab, err);
	if (h->kind == QWEN_STREAM_TOKENS || self->kind == QWEN_STREAM_TOKENS)
		return 0;
	if (memcmp(&h->model, &self->model, sizeof h->model) != 0)
		return differ_model(h, self, err);
	if (h->numerics != self->numerics)
		return qwen_fail(err, QWEN_EMISMATCH, "made by numerics "
		    "version %lu, this run uses %lu; see --numerics",
		    (unsigned long)h->numerics, (unsigned long)self->numerics);
	if (h->k != self->k || h->v != self->v)
		return qwen_fail(err, QWEN_EMISMATCH, "made with %s keys and "
		    "%s values, this run uses %s and %s; see --kv",
		    qwen_kv_name(h->k), qwen_kv_name(h->v),
		    qwen_kv_name(self->k), qwen_kv_name(self->v));
	return qwen_rope_same(&h->rope, &self->rope) ? 0 :
	    differ_rope(h, self, err);
}
