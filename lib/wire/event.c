/* SPDX-License-Identifier: ISC */
/*
 * event.c - encodes and decodes events of an engine.  Decoding ignores unknown
 * keys, so that later engines can add keys.
 */
#include <math.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "base/kv.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "wire/engine.h"
#include "wire/put.h"
#include "wire/record.h"

enum key {
	K_QWEN, K_KIND, K_N_VOCAB, K_VOCABULARY, K_MODEL, K_NUMERICS, K_EOG,
	K_N_CTX, K_N_EMBD, K_N_SEQUENCES, K_STARTED, K_N_PROMPT, K_N_CACHED,
	K_ID, K_TOKEN, K_LOGPROB, K_TOP_IDS, K_TOP_LOGPROBS, K_SCORE, K_RANK,
	K_AT, K_HIDDEN, K_END, K_WHY, K_N_TOKENS, K_ERROR, K_MESSAGE, K_CACHED,
	K_N_STORED, K_STATS, K_KEYS, K_VALUES, K_ROPE, K_PROGRESS, K_N_READ,
	K_FEATURES, N_KEYS
};

_Static_assert((int)N_KEYS <= (int)QWEN_KEYS_MAX, "there is a bit for each");

static const struct qwen_key keys[N_KEYS] = {
	[K_QWEN] = { "qwen", QWEN_SHAPE_UINT },
	[K_KIND] = { "kind", QWEN_SHAPE_TEXT },
	[K_N_VOCAB] = { "n_vocab", QWEN_SHAPE_UINT },
	[K_VOCABULARY] = { "vocabulary", QWEN_SHAPE_FP },
	[K_MODEL] = { "model", QWEN_SHAPE_FP },
	[K_NUMERICS] = { "numerics", QWEN_SHAPE_UINT },
	[K_EOG] = { "eog", QWEN_SHAPE_IDS },
	[K_N_CTX] = { "n_ctx", QWEN_SHAPE_UINT },
	[K_N_EMBD] = { "n_embd", QWEN_SHAPE_UINT },
	[K_N_SEQUENCES] = { "n_sequences", QWEN_SHAPE_UINT },
	[K_STARTED] = { "started", QWEN_SHAPE_TEXT },
	[K_N_PROMPT] = { "n_prompt", QWEN_SHAPE_UINT },
	[K_N_CACHED] = { "n_cached", QWEN_SHAPE_UINT },
	[K_ID] = { "id", QWEN_SHAPE_TEXT },
	[K_TOKEN] = { "token", QWEN_SHAPE_UINT },
	[K_LOGPROB] = { "logprob", QWEN_SHAPE_FLOAT },
	[K_TOP_IDS] = { "top_ids", QWEN_SHAPE_IDS },
	[K_TOP_LOGPROBS] = { "top_logprobs", QWEN_SHAPE_REALS },
	[K_SCORE] = { "score", QWEN_SHAPE_FLOAT },
	[K_RANK] = { "rank", QWEN_SHAPE_UINT },
	[K_AT] = { "at", QWEN_SHAPE_UINT },
	[K_HIDDEN] = { "hidden", QWEN_SHAPE_ROW },
	[K_END] = { "end", QWEN_SHAPE_TEXT },
	[K_WHY] = { "why", QWEN_SHAPE_TEXT },
	[K_N_TOKENS] = { "n_tokens", QWEN_SHAPE_UINT },
	[K_ERROR] = { "error", QWEN_SHAPE_TEXT },
	[K_MESSAGE] = { "message", QWEN_SHAPE_TEXT },
	[K_CACHED] = { "cached", QWEN_SHAPE_TEXT },
	[K_N_STORED] = { "n_stored", QWEN_SHAPE_UINT },
	[K_STATS] = { "stats", QWEN_SHAPE_TEXT },
	[K_KEYS] = { "keys", QWEN_SHAPE_TEXT },
	[K_VALUES] = { "values", QWEN_SHAPE_TEXT },
	[K_ROPE] = { "rope", QWEN_SHAPE_TEXT },
	[K_PROGRESS] = { "progress", QWEN_SHAPE_TEXT },
	[K_N_READ] = { "n_read", QWEN_SHAPE_UINT },
	[K_FEATURES] = { "features", QWEN_SHAPE_TEXT },
};

static const struct qwen_key stats[QWEN_N_STATS] = {
	[QWEN_STAT_RUNNING] = { "running", QWEN_SHAPE_UINT },
	[QWEN_STAT_WAITING] = { "waiting", QWEN_SHAPE_UINT },
	[QWEN_STAT_CLIENTS] = { "clients", QWEN_SHAPE_UINT },
	[QWEN_STAT_REQUESTS] = { "requests", QWEN_SHAPE_UINT },
	[QWEN_STAT_CANCELLED] = { "cancelled", QWEN_SHAPE_UINT },
	[QWEN_STAT_READ] = { "read", QWEN_SHAPE_UINT },
	[QWEN_STAT_SHARED] = { "shared", QWEN_SHAPE_UINT },
	[QWEN_STAT_STORED] = { "stored", QWEN_SHAPE_UINT },
	[QWEN_STAT_CHOSEN] = { "chosen", QWEN_SHAPE_UINT },
	[QWEN_STAT_SCORED] = { "scored", QWEN_SHAPE_UINT },
	[QWEN_STAT_PASSES] = { "passes", QWEN_SHAPE_UINT },
	[QWEN_STAT_PREEMPTED] = { "preempted", QWEN_SHAPE_UINT },
	[QWEN_STAT_KEPT] = { "kept", QWEN_SHAPE_UINT },
	[QWEN_STAT_BYTES] = { "bytes", QWEN_SHAPE_UINT },
	[QWEN_STAT_LIMIT] = { "limit", QWEN_SHAPE_UINT },
	[QWEN_STAT_DROPPED] = { "dropped", QWEN_SHAPE_UINT },
};

/* The keys that determine the kind of an event. */
static const struct {
	enum key		key;
	enum qwen_event_kind	kind;
	enum key		id;	/* the key with the request id; N_KEYS:
					   none */
} kinds[] = {
	{ K_QWEN, QWEN_EVENT_HELLO, N_KEYS },
	{ K_STARTED, QWEN_EVENT_STARTED, K_STARTED },
	{ K_TOKEN, QWEN_EVENT_TOKEN, K_ID },
	{ K_SCORE, QWEN_EVENT_SCORE, K_ID },
	{ K_HIDDEN, QWEN_EVENT_HIDDEN, K_ID },
	{ K_END, QWEN_EVENT_END, K_END },
	{ K_CACHED, QWEN_EVENT_CACHED, K_CACHED },
	{ K_STATS, QWEN_EVENT_STATS, K_STATS },
	{ K_PROGRESS, QWEN_EVENT_PROGRESS, K_PROGRESS },
	{ K_ERROR, QWEN_EVENT_ERROR, N_KEYS },
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

void
qwen_event_fini(struct qwen_event *e)
{
	free(e->row);
	e->row = NULL;
}

/* ----------------------------------------------------------------- reading */

static int
has(const struct qwen_fields *f, enum key k)
{
	return (f->there >> k & 1) != 0;
}

/* Reads text of less than size bytes; "" if absent. */
static int
take_text(const struct qwen_fields *f, enum key k, char *out, size_t size,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[k];

	out[0] = '\0';
	if (!has(f, k))
		return 0;
	if (it->n >= size || memchr(it->s, '\0', it->n) != NULL ||
	    qwen_utf8_check((const char *)it->s, it->n) != it->n)
		return qwen_fail(err, QWEN_EFORMAT, "key \"%s\" is not text of "
		    "less than %zu bytes", keys[k].name, size);
	memcpy(out, it->s, it->n);
	out[it->n] = '\0';
	return 0;
}

/* Reads a KV cache type; f16 if the key is absent. */
static int
take_kv(const struct qwen_fields *f, enum key k, enum qwen_kv *out)
{
	*out = QWEN_KV_F16;
	return !has(f, k) ? 0 : qwen_kv_parse(out, f->v[k].s,
	    (size_t)f->v[k].n);
}

/* Does a list of words separated by blanks have this word? */
static int
has_word(const unsigned char *s, size_t n, const char *word)
{
	size_t len = strlen(word), i, end;

	for (i = 0; i < n; i = end + 1) {
		for (end = i; end < n && s[end] != ' '; end++)
			;
		if (end - i == len && memcmp(s + i, word, len) == 0)
			return 1;
	}
	return 0;
}

static int
take_hello(struct qwen_hello *h, const struct qwen_fields *f,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *kind = &f->v[K_KIND], *eog = &f->v[K_EOG];
	char rope[QWEN_ROPE_TEXT];
	size_t i;

	if (f->v[K_QWEN].n != QWEN_STREAM_VERSION)
		return qwen_fail(err, QWEN_EUNSUP, "format version %llu; this "
		    "program reads %d", (unsigned long long)f->v[K_QWEN].n,
		    QWEN_STREAM_VERSION);
	if (!has(f, K_KIND) || kind->n != 6 ||
	    memcmp(kind->s, "events", 6) != 0 || !has(f, K_VOCABULARY) ||
	    !has(f, K_MODEL) || !has(f, K_N_VOCAB) || !has(f, K_NUMERICS))
		return qwen_fail(err, QWEN_EFORMAT, "not the header of a "
		    "stream of events");
	h->has_vocab = h->has_model = 1;
	memcpy(h->vocab.b, f->v[K_VOCABULARY].s, sizeof h->vocab.b);
	memcpy(h->model.b, f->v[K_MODEL].s, sizeof h->model.b);
	h->n_eog = has(f, K_EOG) ? (size_t)eog->n / 4 : 0;
	if (f->v[K_N_VOCAB].n == 0 || f->v[K_N_VOCAB].n > QWEN_VOCAB_MAX ||
	    f->v[K_NUMERICS].n > UINT32_MAX || h->n_eog > QWEN_EOG_MAX)
		return qwen_fail(err, QWEN_ERANGE, "the header has a number "
		    "out of range");
	h->n_vocab = (uint32_t)f->v[K_N_VOCAB].n;
	h->numerics = (uint32_t)f->v[K_NUMERICS].n;
	for (i = 0; i < h->n_eog; i++)
		h->eog[i] = (int32_t)qwen_le32(eog->s + 4 * i);
	if (take_kv(f, K_KEYS, &h->k) < 0 || take_kv(f, K_VALUES, &h->v) < 0)
		return qwen_fail(err, QWEN_EUNSUP, "unknown KV cache type");
	if (has(f, K_ROPE) && (take_text(f, K_ROPE, rope, sizeof rope,
	    err) < 0 || qwen_rope_parse(&h->rope, rope) < 0))
		return qwen_fail(err, QWEN_EUNSUP, "unknown RoPE scaling");
	if (has(f, K_FEATURES))
		h->tells_progress = has_word(f->v[K_FEATURES].s,
		    (size_t)f->v[K_FEATURES].n, "progress");
	h->n_ctx = f->v[K_N_CTX].n;
	h->n_embd = f->v[K_N_EMBD].n;
	h->n_sequences = f->v[K_N_SEQUENCES].n;
	return 0;
}

static int
take_top(struct qwen_event *e, const struct qwen_fields *f,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *ids = &f->v[K_TOP_IDS],
	    *p = &f->v[K_TOP_LOGPROBS];
	uint64_t bits;
	size_t i;

	if (!has(f, K_TOP_IDS))
		return 0;
	e->n_top = (size_t)ids->n / 4;
	if (e->n_top > QWEN_ENGINE_TOP || !has(f, K_TOP_LOGPROBS) ||
	    p->n != 8 * e->n_top)
		return qwen_fail(err, QWEN_EFORMAT, "the best tokens and their "
		    "probabilities do not match");
	for (i = 0; i < e->n_top; i++) {
		e->top_ids[i] = (int32_t)qwen_le32(ids->s + 4 * i);
		bits = qwen_le64(p->s + 8 * i);
		memcpy(&e->top_logprobs[i], &bits, sizeof bits);
		if (!isfinite(e->top_logprobs[i]))
			return qwen_fail(err, QWEN_ENUMERIC,
			    "a probability is not finite");
	}
	return 0;
}

static int
take_logprob(struct qwen_event *e, const struct qwen_fields *f, enum key k,
    struct qwen_err *err)
{
	e->has_logprob = has(f, k);
	e->logprob = e->has_logprob ? f->v[k].f : 0;
	if (!isfinite(e->logprob))
		return qwen_fail(err, QWEN_ENUMERIC, "%s is not finite",
		    keys[k].name);
	return take_top(e, f, err);
}

static int
take_row(struct qwen_event *e, const struct qwen_fields *f,
    struct qwen_err *err)
{
	const struct qwen_cbor_item *it = &f->v[K_HIDDEN];
	size_t i;

	e->n_row = (size_t)it->n / 4;
	if ((e->row = qwen_alloc(e->n_row + 1, sizeof *e->row)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < e->n_row; i++) {
		e->row[i] = qwen_bits_f32(qwen_le32(it->s + 4 * i));
		if (!isfinite(e->row[i]))
			return qwen_fail(err, QWEN_ENUMERIC,
			    "number %zu is not finite", i);
	}
	return 0;
}

static int
take_stats(struct qwen_event *e, const unsigned char *p, size_t n,
    struct qwen_err *err)
{
	struct qwen_fields f;
	size_t i;

	if (qwen_fields_decode(&f, stats, QWEN_N_STATS, &p, &n, err) < 0)
		return -1;
	for (i = 0; i < QWEN_N_STATS; i++)
		e->stat[i] = f.v[i].n;
	return 0;
}

static int
take_event(struct qwen_event *e, const struct qwen_fields *f,
    const unsigned char *p, size_t n, struct qwen_err *err)
{
	e->n_prompt = f->v[K_N_PROMPT].n;
	e->n_cached = f->v[K_N_CACHED].n;
	e->n_stored = f->v[K_N_STORED].n;
	e->n_tokens = f->v[K_N_TOKENS].n;
	e->n_read = f->v[K_N_READ].n;
	e->at = f->v[K_AT].n;
	e->rank = f->v[K_RANK].n;
	if (take_text(f, K_WHY, e->why, sizeof e->why, err) < 0 ||
	    take_text(f, K_ERROR, e->error, sizeof e->error, err) < 0 ||
	    take_text(f, K_MESSAGE, e->message, sizeof e->message, err) < 0)
		return -1;
	switch (e->kind) {
	case QWEN_EVENT_HELLO:
		return take_hello(&e->hello, f, err);
	case QWEN_EVENT_TOKEN:
		if (f->v[K_TOKEN].n >= QWEN_VOCAB_MAX)
			return qwen_fail(err, QWEN_ERANGE,
			    "token out of range");
		e->token = (int32_t)f->v[K_TOKEN].n;
		return take_logprob(e, f, K_LOGPROB, err);
	case QWEN_EVENT_SCORE:
		return take_logprob(e, f, K_SCORE, err);
	case QWEN_EVENT_HIDDEN:
		return take_row(e, f, err);
	case QWEN_EVENT_STATS:
		return take_stats(e, p, n, err);
	default:
		return 0;
	}
}

int
qwen_event_decode(struct qwen_event *e, const unsigned char *p, size_t n,
    struct qwen_err *err)
{
	const unsigned char *at = p;
	struct qwen_fields f;
	size_t left = n, i;

	memset(e, 0, sizeof *e);
	if (qwen_fields_decode(&f, keys, N_KEYS, &at, &left, err) < 0)
		return -1;
	for (i = 0; i < N_KINDS && !has(&f, kinds[i].key); i++)
		;
	if (i == N_KINDS)
		return qwen_fail(err, QWEN_EUNSUP, "unknown kind of event");
	e->kind = kinds[i].kind;
	if (kinds[i].id != N_KEYS && (!has(&f, kinds[i].id) ||
	    take_text(&f, kinds[i].id, e->id, sizeof e->id, err) < 0 ||
	    e->id[0] == '\0'))
		return qwen_fail(err, QWEN_EFORMAT, "an event without a "
		    "request id");
	return take_event(e, &f, p, n, err);
}

/* ----------------------------------------------------------------- writing */

static void
put_str(struct qwen_put *p, enum key k, const char *s)
{
	qwen_put_text(p, keys[k].name, s, strlen(s));
}

static void
put_uint(struct qwen_put *p, enum key k, uint64_t v)
{
	qwen_put_uint(p, keys[k].name, v);
}

static void
put_hello(struct qwen_put *p, const struct qwen_hello *h)
{
	char rope[QWEN_ROPE_TEXT];

	put_uint(p, K_QWEN, QWEN_STREAM_VERSION);
	put_str(p, K_KIND, "events");
	put_uint(p, K_N_VOCAB, h->n_vocab);
	qwen_put_fp(p, keys[K_VOCABULARY].name, &h->vocab);
	qwen_put_fp(p, keys[K_MODEL].name, &h->model);
	put_uint(p, K_NUMERICS, h->numerics);
	if (h->k != QWEN_KV_F16 || h->v != QWEN_KV_F16) {
		put_str(p, K_KEYS, qwen_kv_name(h->k));
		put_str(p, K_VALUES, qwen_kv_name(h->v));
	}
	if (h->rope.kind != QWEN_ROPE_FILE)
		put_str(p, K_ROPE, qwen_rope_text(&h->rope, rope));
	qwen_put_ids(p, keys[K_EOG].name, h->eog, h->n_eog);
	put_uint(p, K_N_CTX, h->n_ctx);
	put_uint(p, K_N_EMBD, h->n_embd);
	put_uint(p, K_N_SEQUENCES, h->n_sequences);
	if (h->tells_progress)
		put_str(p, K_FEATURES, "progress");
}

static void
put_top(struct qwen_put *p, const struct qwen_event *e)
{
	if (e->n_top == 0)
		return;
	qwen_put_ids(p, keys[K_TOP_IDS].name, e->top_ids, e->n_top);
	qwen_put_reals(p, keys[K_TOP_LOGPROBS].name, e->top_logprobs,
	    e->n_top);
}

static void
put_error(struct qwen_put *p, const struct qwen_event *e)
{
	if (e->error[0] == '\0')
		return;
	put_str(p, K_ERROR, e->error);
	put_str(p, K_MESSAGE, e->message);
}

/* Writes everything except the id. */
static void
put_event(struct qwen_put *p, const struct qwen_event *e)
{
	size_t i;

	switch (e->kind) {
	case QWEN_EVENT_HELLO:
		put_hello(p, &e->hello);
		break;
	case QWEN_EVENT_TOKEN:
		put_uint(p, K_TOKEN, (uint64_t)e->token);
		if (e->has_logprob)
			qwen_put_real(p, keys[K_LOGPROB].name, e->logprob);
		put_top(p, e);
		break;
	case QWEN_EVENT_SCORE:
		put_uint(p, K_AT, e->at);
		qwen_put_real(p, keys[K_SCORE].name, e->logprob);
		put_uint(p, K_RANK, e->rank);
		put_top(p, e);
		break;
	case QWEN_EVENT_HIDDEN:
		put_uint(p, K_AT, e->at);
		qwen_put_row(p, keys[K_HIDDEN].name, e->row, e->n_row);
		break;
	case QWEN_EVENT_END:
		put_str(p, K_WHY, e->why);
		/* fallthrough */
	case QWEN_EVENT_STARTED:
	case QWEN_EVENT_CACHED:
		put_uint(p, K_N_PROMPT, e->n_prompt);
		put_uint(p, K_N_CACHED, e->n_cached);
		if (e->kind == QWEN_EVENT_CACHED)
			put_uint(p, K_N_STORED, e->n_stored);
		if (e->kind == QWEN_EVENT_END) {
			put_uint(p, K_N_TOKENS, e->n_tokens);
			put_error(p, e);
		}
		break;
	case QWEN_EVENT_PROGRESS:
		put_uint(p, K_N_PROMPT, e->n_prompt);
		put_uint(p, K_N_READ, e->n_read);
		break;
	case QWEN_EVENT_STATS:
		for (i = 0; i < QWEN_N_STATS; i++)
			qwen_put_uint(p, stats[i].name, e->stat[i]);
		break;
	case QWEN_EVENT_ERROR:
		put_error(p, e);
		break;
	}
}

void
qwen_event_encode(const struct qwen_event *e, struct qwen_text *t, int json)
{
	struct qwen_put p = { .t = t, .json = json };
	size_t i;

	qwen_put_begin(&p);
	for (i = 0; i < N_KINDS; i++) {
		if (kinds[i].kind == e->kind && kinds[i].id != N_KEYS)
			put_str(&p, kinds[i].id, e->id);
	}
	put_event(&p, e);
	qwen_put_end(&p);
}
