/* SPDX-License-Identifier: ISC */
/*
 * encode.c - encodes text that comes in parts: finds special tokens, splits the
 * rest into pieces, and merges each piece.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/token/load.h"
#include "text/token/nfc.h"
#include "text/token/tok.h"

enum {
	WINDOW = 1 << 16,	/* bytes of text encoded at a time */
	PIECES = 256,		/* pieces split at a time */
	CACHE_SHIFT = 15,	/* log2 of the number of cached pieces */
	CACHE_KEY = 15,		/* longest cached piece, in bytes */
	CACHE_IDS = 3,		/* most ids of a cached piece */
};

/*
 * A cached piece.  Most pieces were seen before.  Each has one slot; a new
 * piece replaces the one in its slot.
 */
struct memo {
	uint64_t	key[2];		/* the bytes; the last byte is the
					   length */
	int32_t		id[CACHE_IDS];
	uint32_t	n;
};

struct qwen_tok_encoder {
	const struct qwen_tok		*t;
	const struct qwen_specials	*special;
	unsigned char	*buf;		/* text not encoded yet */
	size_t		 n, cap;
	size_t		 searched;	/* no special token begins before this
					   offset */
	struct qwen_nfc	*nfc;		/* NULL: no normalisation */
	struct qwen_text norm;		/* normalised text not encoded yet */
	struct qwen_pre_resume resume;	/* of the first piece not encoded yet */
	int32_t		*ids;
	size_t		 n_ids, cap_ids;
	struct memo	*cache;
	void		*cache_mem;	/* to free(); cache is an aligned part
					   of it */
	struct qwen_bpe_scratch scratch;
};

int
qwen_tok_encoder_new(struct qwen_tok_encoder **out, const struct qwen_tok *t,
    unsigned flags, struct qwen_err *err)
{
	struct qwen_tok_encoder *e;

	*out = NULL;
	if ((t->what & QWEN_TOK_ENCODE) == 0)
		return qwen_fail(err, QWEN_EUNSUP,
		    "the tokenizer was not opened to encode");
	e = calloc(1, sizeof *e);
	if (e == NULL)
		return qwen_oom(err);
	e->t = t;
	e->special = &t->special[(flags & QWEN_TOK_SPECIAL) != 0];
	/* calloc: unused pages cost nothing */
	e->cache_mem = calloc((1 << CACHE_SHIFT) + 2, sizeof *e->cache);
	if (e->cache_mem == NULL) {
		free(e);
		return qwen_oom(err);
	}
	e->cache = (struct memo *)(((uintptr_t)e->cache_mem + 63) &
	    ~(uintptr_t)63);
	if (t->nfc && qwen_nfc_new(&e->nfc, err) < 0) {
		qwen_tok_encoder_free(e);
		return -1;
	}
	*out = e;
	return 0;
}

void
qwen_tok_encoder_free(struct qwen_tok_encoder *e)
{
	if (e == NULL)
		return;
	free(e->buf);
	free(e->ids);
	free(e->cache_mem);
	free(e->scratch.mem);
	qwen_nfc_free(e->nfc);
	qwen_text_fini(&e->norm);
	free(e);
}

/* Drops the text, keeps the memory. */
static void
reset(struct qwen_tok_encoder *e)
{
	e->n = e->searched = e->norm.n = 0;
	memset(&e->resume, 0, sizeof e->resume);
	if (e->norm.failed)
		qwen_text_fini(&e->norm);
	if (e->nfc != NULL)
		qwen_nfc_reset(e->nfc);
}

/* Makes room for n ids, and for the CACHE_IDS that encode_short() may copy. */
static int
reserve_ids(struct qwen_tok_encoder *e, size_t n, struct qwen_err *err)
{
	return qwen_grow(&e->ids, &e->cap_ids, e->n_ids + n + CACHE_IDS,
	    sizeof *e->ids) < 0 ? qwen_oom(err) : 0;
}

static int
append(struct qwen_tok_encoder *e, const unsigned char *text, size_t n,
    struct qwen_err *err)
{
	if (n > SIZE_MAX - e->n - QWEN_PRE_SLACK ||
	    qwen_grow(&e->buf, &e->cap, e->n + n + QWEN_PRE_SLACK, 1) < 0)
		return qwen_oom(err);
	if (n > 0)
		memcpy(e->buf + e->n, text, n);
	e->n += n;
	memset(e->buf + e->n, 0, QWEN_PRE_SLACK);
	return 0;
}

/* ---------------------------------------------------------------- pieces */

/* Encodes a piece without the cache. */
static int
encode_long(struct qwen_tok_encoder *e, const unsigned char *p, size_t n,
    struct qwen_err *err)
{
	int64_t k = qwen_bpe(&e->t->merges, p, n, e->ids + e->n_ids,
	    &e->scratch, err);

	if (k < 0)
		return -1;
	e->n_ids += (size_t)k;
	return 0;
}

/* Packs the bytes of a piece of at most CACHE_KEY bytes and its length. */
static inline void
make_key(const unsigned char *p, size_t n, uint64_t key[2])
{
	key[0] = qwen_load64(p);
	key[1] = qwen_load64(p + 8);
	if (n < 8) {
		key[0] &= ((uint64_t)1 << 8 * n) - 1;
		key[1] = 0;
	} else
		key[1] &= ((uint64_t)1 << 8 * (n - 8)) - 1;
	key[1] |= (uint64_t)n << 56;
}

static inline struct memo *
cache_slot(const struct qwen_tok_encoder *e, const uint64_t key[2])
{
	uint64_t h = (key[0] ^ key[1] * 0x9fb21c651e98df25) *
	    0x9e3779b97f4a7c15;

	return &e->cache[(h ^ h << 20) >> (64 - CACHE_SHIFT)];
}

/* Encodes a short piece, from the cache if it is there. */
static inline void
encode_short(struct qwen_tok_encoder *e, const unsigned char *p, size_t n)
{
	int32_t *ids = e->ids + e->n_ids;
	struct memo *m;
	uint64_t key[2];
	size_t k;

	make_key(p, n, key);
	m = cache_slot(e, key);
	if (m->key[0] == key[0] && m->key[1] == key[1]) {
		memcpy(ids, m->id, sizeof m->id);
		e->n_ids += m->n;
		return;
	}
	k = (size_t)qwen_bpe(&e->t->merges, p, n, ids, NULL, NULL);
	e->n_ids += k;
	if (k <= CACHE_IDS) {
		memcpy(m->key, key, sizeof key);
		memcpy(m->id, ids, sizeof m->id);
		m->n = (uint32_t)k;
	}
}

static int
encode_pieces(struct qwen_tok_encoder *e, const unsigned char *p,
    const size_t *ends, size_t n, struct qwen_err *err)
{
	size_t i, begin = 0, len;

	if (reserve_ids(e, ends[n - 1], err) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		len = ends[i] - begin;
		if (len == 1)
			e->ids[e->n_ids++] = e->t->merges.byte_id[p[begin]];
		else if (len <= CACHE_KEY)
			encode_short(e, p + begin, len);
		else if (encode_long(e, p + begin, len, err) < 0)
			return -1;
		begin = ends[i];
	}
	return 0;
}

/*
 * Encodes text without special tokens, from *pos to end.  Moves *pos to the
 * text that must wait for more; final: none is to come.
 */
static int
encode_text(struct qwen_tok_encoder *e, const unsigned char *buf, size_t *pos,
    size_t end, int final, struct qwen_err *err)
{
	size_t ends[PIECES], k;

	do {
		k = e->t->pre->split(buf + *pos, end - *pos, final,
		    &e->resume, ends, PIECES);
		if (k == 0)
			break;
		if (encode_pieces(e, buf + *pos, ends, k, err) < 0)
			return -1;
		*pos += ends[k - 1];
	} while (k == PIECES);
	return 0;
}

/* The same for text in the encoder's buffer, normalised if nfc is set. */
static int
encode_fragment(struct qwen_tok_encoder *e, size_t *pos, size_t end, int final,
    struct qwen_err *err)
{
	static const char slack[QWEN_PRE_SLACK];
	size_t n, at = 0;

	if (e->nfc == NULL)
		return encode_text(e, e->buf, pos, end, final, err);
	if (qwen_nfc_put(e->nfc, e->buf + *pos, end - *pos, final, &e->norm,
	    err) < 0)
		return -1;
	*pos = end;
	n = e->norm.n;
	qwen_text_add(&e->norm, slack, sizeof slack);
	if (e->norm.failed)
		return qwen_oom(err);
	e->norm.n = n;
	if (encode_text(e, (const unsigned char *)e->norm.s, &at, n, final,
	    err) < 0)
		return -1;
	e->norm.n -= at;
	if (at > 0)
		memmove(e->norm.s, e->norm.s + at, e->norm.n);
	return 0;
}

/* Encodes the text in the buffer as far as its ids are certain. */
static int
encode(struct qwen_tok_encoder *e, int final, struct qwen_err *err)
{
	size_t pos = 0, at, len;
	int32_t id;

	for (;;) {
		at = qwen_specials_find(e->special, e->buf, e->searched, e->n,
		    final, &id, &len);
		e->searched = at;
		if (encode_fragment(e, &pos, at, final || len > 0, err) < 0)
			return -1;
		if (len == 0)
			break;
		if (reserve_ids(e, 1, err) < 0)
			return -1;
		e->ids[e->n_ids++] = id;
		pos = e->searched = at + len;
	}
	if (pos > 0) {
		e->n -= pos;
		e->searched -= pos;
		memmove(e->buf, e->buf + pos, e->n + QWEN_PRE_SLACK);
	}
	return 0;
}

/* ------------------------------------------------------------- public part */

static int
feed(struct qwen_tok_encoder *e, const unsigned char *p, size_t n,
    struct qwen_err *err)
{
	size_t part;

	for (; n > 0; p += part, n -= part) {
		part = n < WINDOW ? n : WINDOW;
		if (append(e, p, part, err) < 0 || encode(e, 0, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_tok_encoder_feed(struct qwen_tok_encoder *e, const void *text, size_t n,
    const int32_t **ids, size_t *n_ids, struct qwen_err *err)
{
	*ids = NULL;
	*n_ids = e->n_ids = 0;
	if (feed(e, text, n, err) < 0) {
		reset(e);
		return -1;
	}
	*ids = e->ids;
	*n_ids = e->n_ids;
	return 0;
}

int
qwen_tok_encoder_finish(struct qwen_tok_encoder *e, const int32_t **ids,
    size_t *n_ids, struct qwen_err *err)
{
	int rc;

	*ids = NULL;
	*n_ids = e->n_ids = 0;
	rc = e->nfc != NULL ? append(e, NULL, 0, err) : 0;
	if (rc == 0 && (e->n > 0 || e->nfc != NULL))
		rc = encode(e, 1, err);
	reset(e);
	if (rc < 0)
		return -1;
	*ids = e->ids;
	*n_ids = e->n_ids;
	return 0;
}

/* Takes the encoder's ids if rc is 0, and frees the encoder. */
static int
take_ids(struct qwen_tok_encoder *e, int rc, int32_t **ids, size_t *n_ids)
{
	if (rc == 0) {
		*ids = e->ids;
		*n_ids = e->n_ids;
		e->ids = NULL;
	}
	qwen_tok_encoder_free(e);
	return rc;
}

int
qwen_tok_encode(const struct qwen_tok *t, const void *text, size_t n,
    unsigned flags, int32_t **ids, size_t *n_ids, struct qwen_err *err)
{
	struct qwen_tok_encoder *e;
	int rc;

	*ids = NULL;
	*n_ids = 0;
	if (qwen_tok_encoder_new(&e, t, flags, err) < 0)
		return -1;
	rc = feed(e, text, n, err) < 0 || append(e, NULL, 0, err) < 0 ||
	    reserve_ids(e, 0, err) < 0 || encode(e, 1, err) < 0 ? -1 : 0;
	return take_ids(e, rc, ids, n_ids);
}

/* ----------------------------------------------------------- trusted text */

/*
 * Returns the length of the special token at i that ends at n or before; 0:
 * none.
 */
static size_t
special_at(const struct qwen_specials *s, const unsigned char *p, size_t i,
    size_t n, int32_t *id)
{
	size_t len;

	return i < n && qwen_specials_find(s, p, i, n, 1, id, &len) == i ?
	    len : 0;
}

/*
 * Finds the first token from i on that is USER_DEFINED, or special with all
 * bytes trusted; if both begin there, the longer one.
 */
static size_t
find_trusted(const struct qwen_tok_encoder *e, const unsigned char *trusted,
    size_t i, int32_t *id, size_t *len)
{
	const struct qwen_specials *any = &e->t->special[0];
	const struct qwen_specials *all = &e->t->special[1];
	size_t at, most, k, end;
	int32_t other;

	for (;; i = at + 1) {
		*len = 0;
		at = qwen_specials_find(all, e->buf, i, e->n, 1, id, &most);
		if (most == 0)
			return at;
		for (end = at; end < at + most && trusted[end] != 0; end++)
			;
		*len = special_at(any, e->buf, at, at + most, id);
		k = special_at(all, e->buf, at, end, &other);
		if (k > *len) {
			*len = k;
			*id = other;
		}
		if (*len > 0)
			return at;
	}
}

static int
encode_trusted(struct qwen_tok_encoder *e, const unsigned char *trusted,
    struct qwen_err *err)
{
	size_t pos = 0, at = 0, len;
	int32_t id;

	do {
		at = find_trusted(e, trusted, at, &id, &len);
		if (encode_fragment(e, &pos, at, 1, err) < 0)
			return -1;
		if (len == 0)
			return 0;
		if (reserve_ids(e, 1, err) < 0)
			return -1;
		e->ids[e->n_ids++] = id;
		pos = at += len;
	} while (pos < e->n);
	return 0;
}

int
qwen_tok_encode_trusted(const struct qwen_tok *t, const void *text,
    const unsigned char *trusted, size_t n, int32_t **ids, size_t *n_ids,
    struct qwen_err *err)
{
	struct qwen_tok_encoder *e;
	int rc;

	*ids = NULL;
	*n_ids = 0;
	if (qwen_tok_encoder_new(&e, t, QWEN_TOK_SPECIAL, err) < 0)
		return -1;
	rc = append(e, text, n, err) < 0 || reserve_ids(e, 0, err) < 0 ||
	    encode_trusted(e, trusted, err) < 0 ? -1 : 0;
	return take_ids(e, rc, ids, n_ids);
}

int32_t
qwen_tok_named(const struct qwen_tok *t, const void *text, size_t n)
{
	const unsigned char *p = text;
	size_t i = 0, len;
	int32_t id = -1;

	if ((t->what & QWEN_TOK_ENCODE) == 0)
		return -1;
	while ((i = qwen_specials_find(&t->special[1], p, i, n, 1, &id,
	    &len)) < n) {
		if (qwen_vocab_type(&t->v, (size_t)id) == QWEN_TOKEN_CONTROL)
			return id;
		i += len;
	}
	return -1;
}
