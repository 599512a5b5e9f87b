/* SPDX-License-Identifier: ISC */
/*
 * merges.c - reads the merges of a file, lines "left right", into a table from
 * two neighbouring ids to the rank and the result of their merge.
 *
 * This takes most of the time to open a tokenizer.  So lines are processed in
 * batches: the memory for each line is prefetched while other lines are
 * processed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/token/tok.h"

enum { BATCH = 64 };

struct line {
	struct qwen_str		s;
	struct qwen_textkey	left, right;
	uint32_t		left_id, right_id, id;
};

struct build {
	struct qwen_merges	*m;
	const struct qwen_vocab	*v;
	struct qwen_textmap	 map;
	uint32_t		 next;	/* expected result of the next merge */
	char			*text;	/* buffer for a merged text */
};

static int
fail_merge(const struct line *l, size_t rank, const char *what,
    struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EFORMAT, "merge %zu '%.*s': %s", rank,
	    l->s.len > 80 ? 80 : (int)l->s.len, l->s.s, what);
}

/* Returns the offset of the first space from i on, or the length. */
static size_t
find_space(const struct qwen_str *s, size_t i)
{
	const char *at = i < s->len ? memchr(s->s + i, ' ', s->len - i) : NULL;

	return at == NULL ? s->len : (size_t)(at - s->s);
}

/* Splits a line in two and begins to look up both tokens. */
static int
begin_merge(const struct build *b, struct line *l, size_t rank,
    struct qwen_err *err)
{
	size_t sp;

	if (l->s.len > QWEN_TEXT_MAX)
		return qwen_fail(err, QWEN_EFORMAT, "merge %zu is %zu bytes "
		    "long; at most %d are supported", rank, l->s.len,
		    QWEN_TEXT_MAX);
	sp = find_space(&l->s, 1);
	if (sp + 1 >= l->s.len || l->s.s[0] == ' ' ||
	    find_space(&l->s, sp + 1) != l->s.len)
		return fail_merge(l, rank,
		    "not two tokens separated by a space",
		    err);
	qwen_textmap_begin(&b->map, &l->left, l->s.s, sp);
	qwen_textmap_begin(&b->map, &l->right, l->s.s + sp + 1,
	    l->s.len - sp - 1);
	return 0;
}

static int
joins_to(const struct build *b, const struct line *l, uint32_t id)
{
	struct qwen_str s;

	if (id >= b->v->n)
		return 0;
	s = qwen_vocab_text(b->v, id);
	return s.len == l->left.len + l->right.len &&
	    memcmp(s.s, l->left.s, l->left.len) == 0 &&
	    memcmp(s.s + l->left.len, l->right.s, l->right.len) == 0 &&
	    qwen_vocab_type(b->v, id) != QWEN_TOKEN_UNUSED;
}

/*
 * Returns the token that a line makes.  Most files number tokens in the order
 * of their merges: so try the next id before a search.
 */
static int32_t
result(struct build *b, const struct line *l)
{
	struct qwen_textkey k;
	char *text = b->text + 8;

	if (b->map.duplicates == 0 && joins_to(b, l, b->next))
		return (int32_t)b->next;
	memcpy(text, l->left.s, l->left.len);
	memcpy(text + l->left.len, l->right.s, l->right.len);
	qwen_textmap_begin(&b->map, &k, text, l->left.len + l->right.len);
	return qwen_textmap_find(&b->map, &k);
}

static int
resolve(struct build *b, struct line *l, size_t rank, struct qwen_err *err)
{
	int32_t left = qwen_textmap_find(&b->map, &l->left);
	int32_t right = qwen_textmap_find(&b->map, &l->right);
	int32_t id = result(b, l);
	uint64_t hash;

	if (left < 0)
		return fail_merge(l, rank, "its left side is not a token", err);
	if (right < 0)
		return fail_merge(l, rank, "its right side is not a token",
		    err);
	if (id < 0)
		return fail_merge(l, rank, "its result is not a token", err);
	l->left_id = (uint32_t)left;
	l->right_id = (uint32_t)right;
	l->id = (uint32_t)id;
	b->next = l->id + 1;
	hash = qwen_merge_hash(l->left_id, l->right_id);
	__builtin_prefetch(&b->m->slot[qwen_merge_home(b->m, hash)], 1);
	return 0;
}

/* Returns the byte that a text of one character stands for, or -1. */
static int
one_byte(const char *s, size_t n)
{
	size_t len;
	int byte;

	if (n == 0 || n > 2)
		return -1;
	byte = qwen_bytemap_read((const unsigned char *)s, n, &len);
	return len == n ? byte : -1;
}

static int
insert(struct qwen_merges *m, const struct line *l, size_t rank,
    struct qwen_err *err)
{
	uint64_t hash = qwen_merge_hash(l->left_id, l->right_id);
	size_t i = qwen_merge_home(m, hash), bit;
	int left, right;
	unsigned n;

	if (qwen_merge_find(m, l->left_id, l->right_id).rank != 0)
		return 0;		/* the first of equal merges counts */
	for (n = 1; m->slot[i] != 0; n++) {
		if (n == QWEN_PROBE_MAX)
			return qwen_fail(err, QWEN_EFORMAT, "the merges up to "
			    "%zu were crafted to collide in the hash table",
			    rank);
		i = (i + 1) & m->mask;
	}
	if (m->reach < n)
		m->reach = n;
	bit = qwen_merge_bit(m, hash);
	m->filter[bit / 64] |= (uint64_t)1 << bit % 64;
	m->slot[i] = qwen_merge_tag(m, hash) | (uint32_t)(rank + 1);
	m->by_rank[rank + 1] = (struct qwen_merge){ l->left_id, l->right_id,
	    l->id };
	left = one_byte(l->left.s, l->left.len);
	right = one_byte(l->right.s, l->right.len);
	if (left >= 0 && right >= 0)
		m->bytes[left << 8 | right] = (struct qwen_pair){
		    (uint32_t)rank + 1, l->id };
	return 0;
}

static int
add_all(struct build *b, const struct qwen_gguf_kv *kv, struct qwen_err *err)
{
	struct line l[BATCH];
	size_t pos = 0, rank, i, n;

	for (rank = 0; rank < kv->n; rank += n) {
		n = kv->n - rank < BATCH ? (size_t)kv->n - rank : BATCH;
		for (i = 0; i < n; i++) {
			qwen_gguf_next_str(kv, &pos, &l[i].s);
			if (begin_merge(b, &l[i], rank + i, err) < 0)
				return -1;
		}
		for (i = 0; i < n; i++) {
			if (resolve(b, &l[i], rank + i, err) < 0)
				return -1;
		}
		for (i = 0; i < n; i++) {
			if (insert(b->m, &l[i], rank + i, err) < 0)
				return -1;
		}
	}
	return 0;
}

/*
 * Finds the token of each byte; all must exist, so that every text has ids.  In
 * all known files they are the first tokens.
 */
static int
find_bytes(int32_t id_of[256], const struct qwen_vocab *v,
    struct qwen_err *err)
{
	unsigned byte, left = 256;
	struct qwen_str s;
	char text[4];
	size_t id;
	int is;

	for (byte = 0; byte < 256; byte++)
		id_of[byte] = -1;
	for (id = 0; id < v->n && left > 0; id++) {
		s = qwen_vocab_text(v, id);
		is = one_byte(s.s, s.len);
		if (is < 0 || id_of[is] >= 0 ||
		    qwen_vocab_type(v, id) == QWEN_TOKEN_UNUSED)
			continue;
		id_of[is] = (int32_t)id;
		left--;
	}
	for (byte = 0; byte < 256; byte++) {
		if (id_of[byte] < 0)
			return qwen_fail(err, QWEN_EFORMAT, "the vocabulary "
			    "has no token for byte %u ('%.*s')", byte,
			    (int)qwen_bytemap_write(byte, text), text);
	}
	return 0;
}

static int
allocate(struct qwen_merges *m, size_t n, struct qwen_err *err)
{
	m->bits = qwen_table_bits(n);
	m->mask = ((size_t)1 << m->bits) - 1;
	m->rank_mask = (uint32_t)m->mask;
	m->slot = qwen_table_alloc(m->mask + 1, sizeof *m->slot);
	m->filter = calloc((m->mask + 1) / 16, sizeof *m->filter);
	m->by_rank = qwen_table_alloc(n + 1, sizeof *m->by_rank);
	m->bytes = calloc(1 << 16, sizeof *m->bytes);
	if (m->slot == NULL || m->filter == NULL || m->by_rank == NULL ||
	    m->bytes == NULL)
		return qwen_oom(err);
	return 0;
}

static int
find_merges(const struct qwen_gguf *g, const struct qwen_gguf_kv **out,
    struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv;

	kv = *out = qwen_gguf_find(g, "tokenizer.ggml.merges");
	if (kv == NULL || kv->type != QWEN_GGUF_ARRAY ||
	    (kv->elem != QWEN_GGUF_STRING && kv->n > 0))
		return qwen_fail(err, QWEN_EFORMAT,
		    "tokenizer.ggml.merges is %s", kv == NULL ? "missing" :
		    "not an array of strings");
	if (kv->n > QWEN_MERGES_MAX)
		return qwen_fail(err, QWEN_EUNSUP, "%llu merges; at most %d "
		    "are supported", (unsigned long long)kv->n,
		    QWEN_MERGES_MAX);
	return 0;
}

int
qwen_merges_check(const struct qwen_gguf *g, const struct qwen_vocab *v,
    struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv;
	int32_t byte_id[256];

	if (find_merges(g, &kv, err) < 0)
		return -1;
	return find_bytes(byte_id, v, err);
}

int
qwen_merges_init(struct qwen_merges *m, const struct qwen_gguf *g,
    const struct qwen_vocab *v, struct qwen_err *err)
{
	struct build b = { .m = m, .v = v, .next = 256 };
	const struct qwen_gguf_kv *kv;
	int rc = -1;

	memset(m, 0, sizeof *m);
	if (find_merges(g, &kv, err) < 0 ||
	    find_bytes(m->byte_id, v, err) < 0 ||
	    allocate(m, (size_t)kv->n, err) < 0 ||
	    qwen_textmap_init(&b.map, v, err) < 0)
		goto out;
	b.text = calloc(1, 8 + QWEN_TEXT_MAX);
	if (b.text == NULL) {
		qwen_oom(err);
		goto out;
	}
	rc = add_all(&b, kv, err);
out:
	qwen_textmap_fini(&b.map);
	free(b.text);
	if (rc < 0)
		qwen_merges_fini(m);
	return rc;
}

void
qwen_merges_fini(struct qwen_merges *m)
{
	free(m->filter);
	free(m->slot);
	free(m->by_rank);
	free(m->bytes);
	m->filter = NULL;
	m->slot = NULL;
	m->by_rank = NULL;
	m->bytes = NULL;
}
