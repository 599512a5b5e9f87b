/* SPDX-License-Identifier: ISC */
/*
 * engine_request.c - encodes and decodes requests to an engine.  Unknown keys
 * are refused: to answer without heeding them would be wrong.
 */
#include <math.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "wire/engine.h"
#include "wire/put.h"
#include "wire/record.h"

enum key {
	K_QWEN, K_KIND, K_N_VOCAB, K_VOCABULARY, K_MODEL, K_ID, K_TOKENS,
	K_MAX, K_SCORE, K_HIDDEN, K_LOGPROBS, K_SAMPLING, K_GRAMMAR, K_ENDING,
	K_LOGITS, K_MASK, K_BIAS_IDS, K_BIAS, K_KEEP, K_PRIORITY, K_DEADLINE, K_CANCEL,
	K_CACHED, K_STATS, K_PROGRESS, K_SPANS, K_ROWS, N_KEYS
};

_Static_assert((int)N_KEYS <= 32, "there is a bit for each");

static const struct qwen_key keys[N_KEYS] = {
	[K_QWEN] = { "qwen", QWEN_SHAPE_UINT },
	[K_KIND] = { "kind", QWEN_SHAPE_TEXT },
	[K_N_VOCAB] = { "n_vocab", QWEN_SHAPE_UINT },
	[K_VOCABULARY] = { "vocabulary", QWEN_SHAPE_FP },
	[K_MODEL] = { "model", QWEN_SHAPE_FP },
	[K_ID] = { "id", QWEN_SHAPE_TEXT },
	[K_TOKENS] = { "tokens", QWEN_SHAPE_IDS },
	[K_MAX] = { "max", QWEN_SHAPE_UINT },
	[K_SCORE] = { "score", QWEN_SHAPE_UINT },
	[K_HIDDEN] = { "hidden", QWEN_SHAPE_UINT },
	[K_LOGPROBS] = { "logprobs", QWEN_SHAPE_UINT },
	[K_SAMPLING] = { "sampling", QWEN_SHAPE_TEXT },
	[K_GRAMMAR] = { "grammar", QWEN_SHAPE_TEXT },
	[K_ENDING] = { "ending", QWEN_SHAPE_IDS },
	[K_LOGITS] = { "logits", QWEN_SHAPE_IDS },
	[K_MASK] = { "mask", QWEN_SHAPE_IDS },
	[K_BIAS_IDS] = { "bias_ids", QWEN_SHAPE_IDS },
	[K_BIAS] = { "bias", QWEN_SHAPE_ROW },
	[K_KEEP] = { "keep", QWEN_SHAPE_IDS },
	[K_PRIORITY] = { "priority", QWEN_SHAPE_UINT },
	[K_DEADLINE] = { "deadline_ms", QWEN_SHAPE_UINT },
	[K_CANCEL] = { "cancel", QWEN_SHAPE_TEXT },
	[K_CACHED] = { "cached", QWEN_SHAPE_IDS },
	[K_STATS] = { "stats", QWEN_SHAPE_TEXT },
	[K_PROGRESS] = { "progress", QWEN_SHAPE_UINT },
	[K_SPANS] = { "spans", QWEN_SHAPE_IDS },
	[K_ROWS] = { "rows", QWEN_SHAPE_ROW },
};

int
qwen_engine_request_shape(const char *name, size_t n, enum qwen_shape *out)
{
	size_t k;

	for (k = 0; k < N_KEYS; k++) {
		if (strlen(keys[k].name) == n &&
		    memcmp(keys[k].name, name, n) == 0) {
			*out = keys[k].shape;
			return 1;
		}
	}
	return 0;
}

void
qwen_engine_request_fini(struct qwen_engine_request *m)
{
	free(m->tokens);
	free(m->sampling);
	free(m->grammar);
	free(m->ending);
	free(m->logits);
	free(m->mask);
	free(m->bias_ids);
	free(m->bias);
	free(m->spans);
	free(m->rows);
	memset(m, 0, sizeof *m);
}

/* ------------------------------------------------------------------ values */

static int
has(const struct qwen_fields *f, enum key k)
{
	return (f->there >> k & 1) != 0;
}

static int
take_id(const struct qwen_cbor_item *it, char out[QWEN_ENGINE_ID + 1],
    struct qwen_err *err)
{
	if (it->n < 1 || it->n > QWEN_ENGINE_ID ||
	    memchr(it->s, '\0', it->n) != NULL ||
	    qwen_utf8_check((const char *)it->s, it->n) != it->n)
		return qwen_fail(err, QWEN_ERANGE, "an id must be 1 to %d "
		    "bytes of UTF-8 without NUL", QWEN_ENGINE_ID);
	memcpy(out, it->s, it->n);
	out[it->n] = '\0';
	return 0;
}

/*
 * Reads ids below limit; tokens may also have those of spans, below 0.  Allocates
 * the array even for no ids.
 */
static int
take_ids(const struct qwen_fields *f, enum key k, uint32_t limit,
    int32_t **out, size_t *n, struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[k];
	uint32_t id;
	size_t i;

	if (!has(f, k))
		return 0;
	*n = (size_t)it->n / 4;
	if ((*out = qwen_alloc(*n + 1, sizeof **out)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < *n; i++) {
		id = qwen_le32(it->s + 4 * i);
		if (id >= limit && !(id > INT32_MAX && (k == K_CACHED ||
		    (k == K_TOKENS && has(f, K_SPANS)))))
			return qwen_fail(err, QWEN_ERANGE, "%s: id %ld is "
			    "outside the vocabulary of %lu", keys[k].name,
			    (long)(int32_t)id, (unsigned long)limit);
		(*out)[i] = (int32_t)id;
	}
	return 0;
}

static int
take_text(const struct qwen_fields *f, enum key k, char **out, size_t *n,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[k];

	if (!has(f, k))
		return 0;
	if (memchr(it->s, '\0', it->n) != NULL ||
	    qwen_utf8_check((const char *)it->s, it->n) != it->n)
		return qwen_fail(err, QWEN_EFORMAT, "%s is not UTF-8 without "
		    "NUL", keys[k].name);
	if ((*out = qwen_alloc(it->n + 1, 1)) == NULL)
		return qwen_oom(err);
	memcpy(*out, it->s, it->n);
	*n = it->n;
	return 0;
}

enum { SPAN_NUMBERS = 8 };	/* start, n, height, width, hash */

static int
take_spans(struct qwen_engine_request *m, const struct qwen_fields *f,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_SPANS];
	size_t i, n = (size_t)it->n / 4;
	const unsigned char *p = it->s;

	if (!has(f, K_SPANS))
		return 0;
	if (n % SPAN_NUMBERS != 0)
		return qwen_fail(err, QWEN_EFORMAT, "spans: %zu numbers; a span "
		    "has %d", n, SPAN_NUMBERS);
	m->n_spans = n / SPAN_NUMBERS;
	if ((m->spans = qwen_alloc(m->n_spans + 1, sizeof *m->spans)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < m->n_spans; i++, p += 4 * SPAN_NUMBERS) {
		struct qwen_span *s = &m->spans[i].span;

		*s = (struct qwen_span){ .start = qwen_le32(p),
		    .n = qwen_le32(p + 4), .height = qwen_le32(p + 8),
		    .width = qwen_le32(p + 12) };
		memcpy(s->hash.b, p + 16, sizeof s->hash.b);
	}
	return 0;
}

/* Reads a row of finite numbers. */
static int
take_row(const struct qwen_fields *f, enum key k, float **out, size_t *n,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[k];
	size_t i;

	if (!has(f, k))
		return 0;
	*n = (size_t)it->n / 4;
	if ((*out = qwen_alloc(*n + 1, sizeof **out)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < *n; i++) {
		(*out)[i] = qwen_bits_f32(qwen_le32(it->s + 4 * i));
		if (!isfinite((*out)[i]))
			return qwen_fail(err, QWEN_ENUMERIC,
			    "%s %zu is not finite", keys[k].name, i);
	}
	return 0;
}

static int
take_bias(struct qwen_engine_request *m, const struct qwen_fields *f,
    uint32_t n_vocab, struct qwen_err *err)
{
	if (has(f, K_BIAS) != has(f, K_BIAS_IDS))
		return qwen_fail(err, QWEN_EFORMAT, "bias and bias_ids must be "
		    "given together");
	if (!has(f, K_BIAS))
		return 0;
	if (f->v[K_BIAS].n != f->v[K_BIAS_IDS].n)
		return qwen_fail(err, QWEN_EFORMAT, "bias and bias_ids differ "
		    "in length");
	return take_ids(f, K_BIAS_IDS, n_vocab, &m->bias_ids, &m->n_bias,
	    err) < 0 ? -1 : take_row(f, K_BIAS, &m->bias, &m->n_bias, err);
}

static int
take_keep(struct qwen_engine_request *m, const struct qwen_fields *f,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_KEEP];
	size_t i, n = has(f, K_KEEP) ? (size_t)it->n / 4 : 0;

	if (n > QWEN_ENGINE_KEEP)
		return qwen_fail(err, QWEN_ERANGE, "keep: %zu positions; the "
		    "limit is %d", n, QWEN_ENGINE_KEEP);
	for (i = 0; i < n; i++) {
		m->keep[i] = qwen_le32(it->s + 4 * i);
		if (m->keep[i] > m->n ||
		    m->keep[i] <= (i > 0 ? m->keep[i - 1] : 0))
			return qwen_fail(err, QWEN_ERANGE, "keep: positions "
			    "must ascend, from 1 to the number of tokens");
	}
	m->n_keep = n;
	return 0;
}

/* Reads a number of at most max; leaves *out unchanged if it is absent. */
static int
take_uint(const struct qwen_fields *f, enum key k, uint64_t max,
    uint64_t *out, struct qwen_err *err)
{
	if (!has(f, k))
		return 0;
	*out = f->v[k].n;
	if (*out > max)
		return qwen_fail(err, QWEN_ERANGE, "%s is %llu; the limit is "
		    "%llu", keys[k].name, (unsigned long long)*out,
		    (unsigned long long)max);
	return 0;
}

/* --------------------------------------------------- one function per kind */

static int
take_hello(struct qwen_engine_request *m, const struct qwen_fields *f,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *kind = &f->v[K_KIND];
	struct qwen_hello *h = &m->hello;

	if (f->v[K_QWEN].n != QWEN_STREAM_VERSION)
		return qwen_fail(err, QWEN_EUNSUP, "format version %llu; this "
		    "engine reads %d", (unsigned long long)f->v[K_QWEN].n,
		    QWEN_STREAM_VERSION);
	if (!has(f, K_KIND) || kind->n != 8 ||
	    memcmp(kind->s, "requests", 8) != 0)
		return qwen_fail(err, QWEN_EMISMATCH, "not the header of a "
		    "stream of requests");
	if ((h->has_vocab = has(f, K_VOCABULARY)) != 0)
		memcpy(h->vocab.b, f->v[K_VOCABULARY].s, sizeof h->vocab.b);
	if ((h->has_model = has(f, K_MODEL)) != 0)
		memcpy(h->model.b, f->v[K_MODEL].s, sizeof h->model.b);
	return 0;
}

/* Reads what to do with the tokens, and sets the kind. */
static int
take_what(struct qwen_engine_request *m, const struct qwen_fields *f,
    struct qwen_err *err)
{
	enum key k = has(f, K_SCORE) ? K_SCORE : K_HIDDEN;

	if (has(f, K_MAX) + has(f, K_SCORE) + has(f, K_HIDDEN) != 1)
		return qwen_fail(err, QWEN_EFORMAT, "give exactly one of max, "
		    "score and hidden");
	m->kind = has(f, K_MAX) ? QWEN_ENGINE_GENERATE : has(f, K_SCORE) ?
	    QWEN_ENGINE_SCORE : QWEN_ENGINE_HIDDEN;
	if (m->kind == QWEN_ENGINE_GENERATE) {
		m->max = f->v[K_MAX].n;
		return m->max > 0 ? 0 : qwen_fail(err, QWEN_ERANGE,
		    "max must be at least 1");
	}
	if (m->n == 0)
		return qwen_fail(err, QWEN_ERANGE, "the request has no tokens");
	return take_uint(f, k, m->n - 1, &m->from, err);
}

static int
take_job(struct qwen_engine_request *m, const struct qwen_fields *f,
    uint32_t n_vocab, struct qwen_err *err)
{
	uint64_t top = 0, priority = 0, progress = 0;
	size_t n_sampling;

	if (take_ids(f, K_TOKENS, n_vocab, &m->tokens, &m->n, err) < 0 ||
	    take_what(m, f, err) < 0 ||
	    take_uint(f, K_LOGPROBS, QWEN_ENGINE_TOP, &top, err) < 0 ||
	    take_uint(f, K_PRIORITY, QWEN_ENGINE_PRIORITY, &priority,
	    err) < 0 ||
	    take_uint(f, K_PROGRESS, 1, &progress, err) < 0 ||
	    take_uint(f, K_DEADLINE, UINT32_MAX, &m->deadline_ms, err) < 0 ||
	    take_text(f, K_SAMPLING, &m->sampling, &n_sampling, err) < 0 ||
	    take_text(f, K_GRAMMAR, &m->grammar, &m->n_grammar, err) < 0 ||
	    take_ids(f, K_ENDING, n_vocab, &m->ending, &m->n_ending,
	    err) < 0 ||
	    take_ids(f, K_LOGITS, n_vocab, &m->logits, &m->n_logits,
	    err) < 0 ||
	    take_ids(f, K_MASK, n_vocab, &m->mask, &m->n_mask, err) < 0)
		return -1;
	if (m->logits != NULL && m->kind != QWEN_ENGINE_HIDDEN)
		return qwen_fail(err, QWEN_EFORMAT, "\"logits\" is allowed "
		    "only with \"hidden\"");
	m->logprobs = has(f, K_LOGPROBS);
	m->n_top = (size_t)top;
	m->priority = (int)priority;
	m->progress = (int)progress;
	return take_bias(m, f, n_vocab, err) < 0 ||
	    take_spans(m, f, err) < 0 ||
	    take_row(f, K_ROWS, &m->rows, &m->n_rows, err) < 0 ? -1 :
	    take_keep(m, f, err);
}

/*
 * The keys that determine the kind of a request, and the other keys that it may
 * have.
 */
#define BIT(k) (1u << K_##k)
static const struct {
	enum key	 key;
	enum qwen_engine_request_kind kind;
	uint32_t	 may;
} kinds[] = {
	{ K_QWEN, QWEN_ENGINE_HELLO, BIT(KIND) | BIT(N_VOCAB) |
	    BIT(VOCABULARY) | BIT(MODEL) },
	{ K_TOKENS, QWEN_ENGINE_GENERATE, BIT(ID) | BIT(MAX) | BIT(SCORE) |
	    BIT(HIDDEN) | BIT(LOGPROBS) | BIT(SAMPLING) | BIT(GRAMMAR) |
	    BIT(ENDING) | BIT(LOGITS) | BIT(MASK) | BIT(BIAS_IDS) | BIT(BIAS) | BIT(KEEP) |
	    BIT(PRIORITY) | BIT(DEADLINE) | BIT(PROGRESS) | BIT(SPANS) |
	    BIT(ROWS) },
	{ K_CANCEL, QWEN_ENGINE_CANCEL, 0 },
	{ K_CACHED, QWEN_ENGINE_CACHED, BIT(ID) },
	{ K_STATS, QWEN_ENGINE_STATS, 0 },
};

static int
take_kind(struct qwen_engine_request *m, const struct qwen_fields *f,
    struct qwen_err *err)
{
	uint32_t other;
	size_t i, k;

	if (f->unknown[0] != '\0')
		return qwen_fail(err, QWEN_EUNSUP, "unknown key \"%s\"",
		    f->unknown);
	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (has(f, kinds[i].key))
			break;
	}
	if (i == sizeof kinds / sizeof kinds[0])
		return qwen_fail(err, QWEN_EFORMAT, "one of the keys tokens, "
		    "cancel, cached and stats is required");
	m->kind = kinds[i].kind;
	other = f->there & ~(kinds[i].may | 1u << kinds[i].key);
	for (k = 0; k < N_KEYS; k++) {
		if (other & 1u << k)
			return qwen_fail(err, QWEN_EFORMAT, "\"%s\" is not "
			    "allowed with \"%s\"", keys[k].name,
			    keys[kinds[i].key].name);
	}
	return 0;
}

/* Reads only the id, for the error event. */
static void
find_id(struct qwen_engine_request *m, const unsigned char *p, size_t n)
{
	static const struct qwen_key id = { "id", QWEN_SHAPE_TEXT };
	struct qwen_fields f;

	if (qwen_fields_decode(&f, &id, 1, &p, &n, NULL) < 0 ||
	    f.there == 0 || take_id(&f.v[0], m->id, NULL) < 0)
		m->id[0] = '\0';
}

static int
decode(struct qwen_engine_request *m, const unsigned char *p, size_t n,
    uint32_t n_vocab, struct qwen_err *err)
{
	struct qwen_fields f;
	enum key id;

	if (qwen_fields_decode(&f, keys, N_KEYS, &p, &n, err) < 0 ||
	    take_kind(m, &f, err) < 0)
		return -1;
	if (m->kind == QWEN_ENGINE_HELLO)
		return take_hello(m, &f, err);
	id = m->kind == QWEN_ENGINE_CANCEL ? K_CANCEL :
	    m->kind == QWEN_ENGINE_STATS ? K_STATS : K_ID;
	if (!has(&f, id))
		return qwen_fail(err, QWEN_EFORMAT, "key \"id\" is missing");
	if (take_id(&f.v[id], m->id, err) < 0)
		return -1;
	if (m->kind == QWEN_ENGINE_CACHED)
		return take_ids(&f, K_CACHED, n_vocab, &m->tokens, &m->n, err);
	return m->kind == QWEN_ENGINE_GENERATE ? take_job(m, &f, n_vocab, err) :
	    0;
}

int
qwen_engine_request_decode(struct qwen_engine_request *m,
    const unsigned char *p, size_t n,
    uint32_t n_vocab, struct qwen_err *err)
{
	memset(m, 0, sizeof *m);
	if (decode(m, p, n, n_vocab, err) == 0)
		return 0;
	find_id(m, p, n);
	return -1;
}

/* ----------------------------------------------------------------- writing */

static void
put_str(struct qwen_put *p, enum key k, const char *s)
{
	qwen_put_text(p, keys[k].name, s, strlen(s));
}

static void
put_hello(struct qwen_put *p, const struct qwen_hello *h)
{
	qwen_put_uint(p, keys[K_QWEN].name, QWEN_STREAM_VERSION);
	put_str(p, K_KIND, "requests");
	if (h->has_vocab)
		qwen_put_fp(p, keys[K_VOCABULARY].name, &h->vocab);
	if (h->has_model)
		qwen_put_fp(p, keys[K_MODEL].name, &h->model);
}

static void
put_keep(struct qwen_put *p, const struct qwen_engine_request *m)
{
	int32_t at[QWEN_ENGINE_KEEP];
	size_t i;

	for (i = 0; i < m->n_keep; i++)
		at[i] = (int32_t)m->keep[i];
	qwen_put_ids(p, keys[K_KEEP].name, at, m->n_keep);
}

static void
put_rows(struct qwen_put *p, const struct qwen_engine_request *m)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < m->n_spans; i++)
		n += m->spans[i].span.n;
	qwen_put_row_begin(p, keys[K_ROWS].name, m->n_rows);
	if (m->rows != NULL)
		qwen_put_row_part(p, m->rows, m->n_rows);
	for (i = 0; m->rows == NULL && i < m->n_spans; i++)
		qwen_put_row_part(p, m->spans[i].rows, m->n_rows / n *
		    m->spans[i].span.n);
	qwen_put_row_end(p);
}

static void
put_spans(struct qwen_put *p, const struct qwen_engine_request *m)
{
	int32_t *v = qwen_alloc(m->n_spans, SPAN_NUMBERS * sizeof *v);
	size_t i, j;

	for (i = 0; v != NULL && i < m->n_spans; i++) {
		const struct qwen_span *s = &m->spans[i].span;
		int32_t *to = v + SPAN_NUMBERS * i;

		to[0] = (int32_t)s->start;
		to[1] = (int32_t)s->n;
		to[2] = (int32_t)s->height;
		to[3] = (int32_t)s->width;
		for (j = 0; j < 4; j++)
			to[4 + j] = (int32_t)qwen_le32(s->hash.b + 4 * j);
	}
	p->t->failed |= v == NULL;
	if (v != NULL)
		qwen_put_ids(p, keys[K_SPANS].name, v,
		    SPAN_NUMBERS * m->n_spans);
	free(v);
	if (m->n_rows > 0)
		put_rows(p, m);
}

static void
put_job(struct qwen_put *p, const struct qwen_engine_request *m)
{
	put_str(p, K_ID, m->id);
	qwen_put_ids(p, keys[K_TOKENS].name, m->tokens, m->n);
	if (m->n_spans > 0)
		put_spans(p, m);
	if (m->kind == QWEN_ENGINE_GENERATE)
		qwen_put_uint(p, keys[K_MAX].name, m->max);
	else
		qwen_put_uint(p, keys[m->kind == QWEN_ENGINE_SCORE ? K_SCORE :
		    K_HIDDEN].name, m->from);
	if (m->logprobs)
		qwen_put_uint(p, keys[K_LOGPROBS].name, m->n_top);
	if (m->sampling != NULL)
		put_str(p, K_SAMPLING, m->sampling);
	if (m->grammar != NULL)
		qwen_put_text(p, keys[K_GRAMMAR].name, m->grammar,
		    m->n_grammar);
	if (m->ending != NULL)
		qwen_put_ids(p, keys[K_ENDING].name, m->ending, m->n_ending);
	if (m->logits != NULL)
		qwen_put_ids(p, keys[K_LOGITS].name, m->logits, m->n_logits);
	if (m->mask != NULL)
		qwen_put_ids(p, keys[K_MASK].name, m->mask, m->n_mask);
	if (m->bias != NULL) {
		qwen_put_ids(p, keys[K_BIAS_IDS].name, m->bias_ids, m->n_bias);
		qwen_put_row(p, keys[K_BIAS].name, m->bias, m->n_bias);
	}
	if (m->n_keep > 0)
		put_keep(p, m);
	if (m->progress)
		qwen_put_uint(p, keys[K_PROGRESS].name, 1);
	if (m->priority > 0)
		qwen_put_uint(p, keys[K_PRIORITY].name,
		    (uint64_t)m->priority);
	if (m->deadline_ms > 0)
		qwen_put_uint(p, keys[K_DEADLINE].name, m->deadline_ms);
}

void
qwen_engine_request_encode(const struct qwen_engine_request *m,
    struct qwen_text *t, int json)
{
	struct qwen_put p = { .t = t, .json = json };

	qwen_put_begin(&p);
	switch (m->kind) {
	case QWEN_ENGINE_HELLO:
		put_hello(&p, &m->hello);
		break;
	case QWEN_ENGINE_CANCEL:
		put_str(&p, K_CANCEL, m->id);
		break;
	case QWEN_ENGINE_STATS:
		put_str(&p, K_STATS, m->id);
		break;
	case QWEN_ENGINE_CACHED:
		put_str(&p, K_ID, m->id);
		qwen_put_ids(&p, keys[K_CACHED].name, m->tokens, m->n);
		break;
	default:
		put_job(&p, m);
	}
	qwen_put_end(&p);
}
