/* SPDX-License-Identifier: ISC */
/*
 * textmap.c - a hash table from token texts to ids.
 *
 * A quarter of a million insertions and searches must take only milliseconds.
 * So the key of a text of up to 7 bytes is the text itself, and only longer
 * texts are compared byte by byte.
 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/err.h"
#include "text/token/load.h"
#include "text/token/tok.h"

enum {
	BATCH = 32,
	SHORT = 7,		/* longest text that is its own key */
};

struct qwen_textslot {
	uint64_t	key;
	uint32_t	id;		/* + 1; 0: empty */
	uint32_t	text;		/* its offset, as in qwen_vocab */
};

#define LONG ((uint64_t)0xff << 56)	/* bits of the key of a longer text, a
					   hash */

static uint64_t
key_of(const char *s, size_t len)
{
	const char *end = s + len;

	if (len == 0)
		return 0;
	if (len <= SHORT)
		return qwen_load64(end - 8) >> (64 - 8 * len) |
		    (uint64_t)len << 56;
	return XXH3_64bits(s, len) | LONG;
}

void
qwen_textmap_begin(const struct qwen_textmap *m, struct qwen_textkey *k,
    const char *s, size_t len)
{
	k->s = s;
	k->len = len;
	k->key = key_of(s, len);
	k->slot = (size_t)((k->key ^ k->key >> 32) * 0x9e3779b97f4a7c15 >>
	    (64 - m->bits));
	__builtin_prefetch(&m->slot[k->slot]);
}

static const unsigned char *
text_of(const struct qwen_textmap *m, const struct qwen_textslot *slot)
{
	return m->v->tokens->data + slot->text;
}

static int
same(const struct qwen_textmap *m, const struct qwen_textslot *slot,
    const struct qwen_textkey *k)
{
	if (slot->key != k->key)
		return 0;
	return k->len <= SHORT ||
	    (qwen_load64(text_of(m, slot) - 8) == k->len &&
	    memcmp(text_of(m, slot), k->s, k->len) == 0);
}

int32_t
qwen_textmap_find(const struct qwen_textmap *m, const struct qwen_textkey *k)
{
	size_t i = k->slot;
	unsigned n;

	for (n = 0; n < m->reach && m->slot[i].id != 0; n++) {
		if (same(m, &m->slot[i], k))
			return (int32_t)(m->slot[i].id - 1);
		i = (i + 1) & m->mask;
	}
	return -1;
}

static int
insert(struct qwen_textmap *m, const struct qwen_textkey *k, size_t id)
{
	size_t i = k->slot;
	unsigned n;

	for (n = 1; m->slot[i].id != 0; n++) {
		if (same(m, &m->slot[i], k)) {
			m->duplicates++;
			return 0;
		}
		if (n == QWEN_PROBE_MAX)
			return -1;
		i = (i + 1) & m->mask;
	}
	if (m->reach < n)
		m->reach = n;
	m->slot[i] = (struct qwen_textslot){ k->key, (uint32_t)id + 1,
	    m->v->text[id] };
	return 0;
}

/* Inserts n tokens from id on, at most BATCH. */
static int
insert_batch(struct qwen_textmap *m, size_t id, size_t n, struct qwen_err *err)
{
	struct qwen_textkey k[BATCH];
	struct qwen_str s;
	size_t i;

	for (i = 0; i < n; i++) {
		s = qwen_vocab_text(m->v, id + i);
		qwen_textmap_begin(m, &k[i], s.s, s.len);
	}
	for (i = 0; i < n; i++) {
		if (qwen_vocab_type(m->v, id + i) != QWEN_TOKEN_UNUSED &&
		    insert(m, &k[i], id + i) < 0)
			return qwen_fail(err, QWEN_EFORMAT, "the texts of "
			    "tokens up to %zu were crafted to collide in the "
			    "hash table", id + i);
	}
	return 0;
}

int
qwen_textmap_init(struct qwen_textmap *m, const struct qwen_vocab *v,
    struct qwen_err *err)
{
	size_t cap, id, n;

	memset(m, 0, sizeof *m);
	m->v = v;
	m->bits = qwen_table_bits(v->n);
	cap = (size_t)1 << m->bits;
	m->mask = cap - 1;
	m->slot = qwen_table_alloc(cap, sizeof *m->slot);
	if (m->slot == NULL)
		return qwen_oom(err);
	for (id = 0; id < v->n; id += n) {
		n = v->n - id < BATCH ? v->n - id : BATCH;
		if (insert_batch(m, id, n, err) < 0) {
			qwen_textmap_fini(m);
			return -1;
		}
	}
	return 0;
}

void
qwen_textmap_fini(struct qwen_textmap *m)
{
	free(m->slot);
	m->slot = NULL;
}
