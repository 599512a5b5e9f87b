/* SPDX-License-Identifier: ISC */
/* trie.c - the texts of a vocabulary as a tree, to be walked once for all. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "grammar/trie.h"

void
qwen_trie_free(struct qwen_trie *t)
{
	if (t == NULL)
		return;
	free(t->node);
	free(t->same);
	free(t);
}

/* A text to sort: its first eight bytes, so that most need no second look. */
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

/* Nodes in the order of a walk; each knows where its subtree ends. */
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
	if (t->node == NULL || t->same == NULL || open == NULL)
		goto fail;
	memset(t->same, 0xff, p->n * sizeof *t->same);
	t->n_vocab = p->n;
	build(t, e, n, open);
	free(open);
	free(e);
	*out = t;
	return 0;
fail:
	free(open);
	free(e);
	qwen_trie_free(t);
	return qwen_fail(err, QWEN_ENOMEM, "a tree of %zu tokens", p->n);
}
