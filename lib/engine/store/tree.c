/* SPDX-License-Identifier: ISC */
/* tree.c - which file hangs on which, from their names. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"

int
qwen_store_same(const struct qwen_fp *a, const struct qwen_fp *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* As files are sorted. */
static int
compare(const struct qwen_store_name *n, uint64_t end,
    const struct qwen_fp *hash)
{
	if (n->end != end)
		return n->end < end ? -1 : 1;
	return memcmp(&n->hash, hash, sizeof *hash);
}

size_t
qwen_store_files_at(const struct qwen_store_scan *sc, uint64_t end,
    const struct qwen_fp *hash, size_t *n)
{
	size_t lo = 0, hi = sc->n_file, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (compare(&sc->file[mid].n, end, hash) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (*n = 0; lo + *n < sc->n_file &&
	    compare(&sc->file[lo + *n].n, end, hash) == 0; ++*n)
		;
	return lo;
}

/* A run: its parents come before it in the scan, since they end earlier. */
static void
hang_run(struct qwen_store_tree *t, const struct qwen_store_scan *sc, size_t i,
    const struct qwen_fp *nothing)
{
	const struct qwen_store_name *f = &sc->file[i].n;
	size_t k, n;

	if (f->from == 0) {
		t->there[i] = qwen_store_same(&f->parent, nothing);
		return;
	}
	k = qwen_store_files_at(sc, f->from, &f->parent, &n);
	for (; n > 0; k++, n--) {
		if (sc->file[k].n.kind != QWEN_STORE_KV)
			continue;
		t->children[k]++;
		if (t->parent[i] == QWEN_STORE_NONE || !t->there[i]) {
			t->parent[i] = k;
			t->there[i] = t->there[k];
		}
	}
}

/* A checkpoint: runs of the same prefix come just before it. */
static void
hang_checkpoint(struct qwen_store_tree *t, const struct qwen_store_scan *sc,
    size_t i)
{
	const struct qwen_store_name *f = &sc->file[i].n;
	size_t k;

	for (k = i; k > 0 && compare(&sc->file[k - 1].n, f->end,
	    &f->hash) == 0; k--) {
		t->checkpoint[k - 1] = i;
		if (t->parent[i] == QWEN_STORE_NONE || !t->there[i]) {
			t->parent[i] = k - 1;
			t->there[i] = t->there[k - 1];
		}
	}
}

int
qwen_store_tree(struct qwen_store_tree *t, const struct qwen_store_scan *sc,
    struct qwen_err *err)
{
	size_t i, n = sc->n_file + 1;
	struct qwen_fp nothing;
	uint64_t zero = 0;

	t->parent = qwen_alloc(n, sizeof *t->parent);
	t->children = qwen_alloc(n, sizeof *t->children);
	t->checkpoint = qwen_alloc(n, sizeof *t->checkpoint);
	t->there = qwen_alloc(n, 1);
	if (t->parent == NULL || t->children == NULL ||
	    t->checkpoint == NULL || t->there == NULL ||
	    qwen_store_hash(NULL, &zero, 1, &nothing) < 0) {
		qwen_store_tree_fini(t);
		return qwen_oom(err);
	}
	for (i = 0; i < sc->n_file; i++)
		t->parent[i] = t->checkpoint[i] = QWEN_STORE_NONE;
	for (i = 0; i < sc->n_file; i++) {
		if (sc->file[i].n.kind == QWEN_STORE_KV)
			hang_run(t, sc, i, &nothing);
		else
			hang_checkpoint(t, sc, i);
	}
	return 0;
}

void
qwen_store_tree_fini(struct qwen_store_tree *t)
{
	free(t->parent);
	free(t->children);
	free(t->checkpoint);
	free(t->there);
	memset(t, 0, sizeof *t);
}
