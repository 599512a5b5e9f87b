/* SPDX-License-Identifier: ISC */
/*
 * trie.c - builds the tree of a vocabulary's texts, for one walk over all
 * tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/grammar/trie.h"

void
qwen_trie_free(struct qwen_trie *t)
{
	size_t k;

	if (t == NULL)
		return;
	for (k = 0; k < QWEN_PLAIN_MASKS; k++)
		free(t->plain[k]);
	free(t->node);
	free(t->same);
	free(t);
}

/* A text to sort.  Its first eight bytes decide most comparisons. */
struct entry {
	uint64_t		 head;
	const unsigned char	*s;
	uint32_t		 len;
	int32_t			 id;
};

static int
compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	uint32_t n = x->len < y->len ? x->len : y->len;
	int c;

	if (x->head != y->head)
		return x->head < y->head ? -1 : 1;
	if ((c = memcmp(x->s, y->s, n)) != 0)
		return c;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static uint64_t
head(const unsigned char *s, size_t n)
{
	uint64_t h = 0;
	size_t i;

	for (i = 0; i < 8; i++)
		h = h << 8 | (i < n ? s[i] : 0);
	return h;
}

static size_t
common(const struct entry *a, const struct entry *b)
{
	size_t n = a->len < b->len ? a->len : b->len, i;

	for (i = 0; i < n && a->s[i] == b->s[i]; i++)
		;
	return i;
}

/* Builds the nodes from sorted texts; open has room for the longest path. */
static void
build(struct qwen_trie *t, const struct entry *e, size_t n, uint32_t *open)
{
	size_t i, k, depth = 0;

	for (i = 0; i < n; i++) {
		k = i > 0 ? common(&e[i - 1], &e[i]) : 0;
		if (i > 0 && k == e[i].len && e[i - 1].len == k) {
			t->same[e[i].id] = t->node[t->n - 1].id;
			t->node[t->n - 1].id = e[i].id;
			continue;
		}
		while (depth > k)
			t->node[open[--depth]].end = (uint32_t)t->n;
		for (; depth < e[i].len; depth++) {
			open[depth] = (uint32_t)t->n;
			t->node[t->n++] = (struct qwen_tnode){
				.byte = e[i].s[depth], .depth =
				(uint32_t)depth, .id = -1 };
		}
		t->node[t->n - 1].id = e[i].id;
	}
	while (depth > 0)
		t->node[open[--depth]].end = (uint32_t)t->n;
}

/* Returns the characters of a plain text; else QWEN_NOT_PLAIN. */
static unsigned char
count_plain(const unsigned char *s, size_t n)
{
	size_t i, chars = 0;
	uint32_t c;
	int len;

	for (i = 0; i < n; i += (size_t)len, chars++) {
		len = qwen_utf8_read(s + i, n - i, &c);
		if (s[i] < 0x20 || s[i] == '"' || s[i] == '\\' ||
		    chars == QWEN_PLAIN_MAX || len <= 0)
			return QWEN_NOT_PLAIN;
	}
	return (unsigned char)chars;
}

/* Sets plain of all nodes, and the masks. */
static void
mark_plain(struct qwen_trie *t, const struct qwen_pieces *p)
{
	size_t i, k;
	int32_t id;

	for (i = t->n; i-- > 0; ) {
		struct qwen_tnode *d = &t->node[i];

		for (id = d->id; id >= 0; id = t->same[id]) {
			struct qwen_str s = qwen_piece(p, id);

			d->plain = count_plain((const unsigned char *)s.s,
			    s.len);
			for (k = 0; k < QWEN_PLAIN_MASKS; k++) {
				if (d->plain <= 1u << k)
					t->plain[k][id / 64] |=
					    (uint64_t)1 << (id % 64);
			}
		}
		for (k = i + 1; k < d->end; k = t->node[k].end) {
			if (t->node[k].plain > d->plain)
				d->plain = t->node[k].plain;
		}
	}
}

static int
alloc_plain(struct qwen_trie *t)
{
	size_t k;

	for (k = 0; k < QWEN_PLAIN_MASKS; k++) {
		t->plain[k] = qwen_alloc((t->n_vocab + 63) / 64,
		    sizeof *t->plain[k]);
		if (t->plain[k] == NULL)
			return -1;
	}
	return 0;
}

int
qwen_trie_new(struct qwen_trie **out, const struct qwen_pieces *p,
    struct qwen_err *err)
{
	struct qwen_trie *t = qwen_alloc(1, sizeof *t);
	struct entry *e = qwen_alloc(p->n, sizeof *e);
	uint32_t *open = NULL;
	size_t i, n = 0, cap = 0;

	*out = NULL;
	if (t == NULL || e == NULL)
		goto fail;
	for (i = 0; i < p->n; i++) {
		struct qwen_str s = qwen_piece(p, (int32_t)i);

		if (s.len == 0)
			continue;
		e[n++] = (struct entry){ head((const unsigned char *)s.s,
		    s.len), (const unsigned char *)s.s, (uint32_t)s.len,
		    (int32_t)i };
		t->deepest = s.len > t->deepest ? s.len : t->deepest;
	}
	qsort(e, n, sizeof *e, compare);
	for (i = 0; i < n; i++)
		cap += e[i].len - (i > 0 ? common(&e[i - 1], &e[i]) : 0);
	t->node = qwen_alloc(cap, sizeof *t->node);
	t->same = qwen_alloc(p->n, sizeof *t->same);
	open = qwen_alloc(t->deepest, sizeof *open);
	t->n_vocab = p->n;
	if (t->node == NULL || t->same == NULL || open == NULL ||
	    alloc_plain(t) < 0)
		goto fail;
	memset(t->same, 0xff, p->n * sizeof *t->same);
	build(t, e, n, open);
	mark_plain(t, p);
	free(open);
	free(e);
	*out = t;
	return 0;
fail:
	free(open);
	free(e);
	qwen_trie_free(t);
	return qwen_oom(err);
}
