/* SPDX-License-Identifier: ISC */
/*
 * tree.c - parents and children of the files, from their names; folder by
 * folder.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"

int
qwen_store_same(const struct qwen_fp *a, const struct qwen_fp *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* Compares in the order of the scan. */
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

/*
 * Links a run to its parent.  Parents end earlier, so they come before it in
 * the scan.
 */
static void
link_run(struct qwen_store_tree *t, const struct qwen_store_scan *sc, size_t i,
    const struct qwen_fp *nothing)
{
	const struct qwen_store_name *f = &sc->file[i].n;
	size_t k, n;

	if (f->from == 0) {
		t->reachable[i] = qwen_store_same(&f->parent, nothing);
		return;
	}
	k = qwen_store_files_at(sc, f->from, &f->parent, &n);
	for (; n > 0; k++, n--) {
		if (sc->file[k].n.kind != QWEN_STORE_KV)
			continue;
		t->children[k]++;
		if (t->parent[i] == QWEN_STORE_NONE || !t->reachable[i]) {
			t->parent[i] = k;
			t->reachable[i] = t->reachable[k];
		}
	}
}

/*
 * Links a checkpoint to the runs of the same prefix, which come just before it.
 */
static void
link_checkpoint(struct qwen_store_tree *t, const struct qwen_store_scan *sc,
    size_t i)
{
	const struct qwen_store_name *f = &sc->file[i].n;
	size_t k;

	for (k = i; k > 0 && compare(&sc->file[k - 1].n, f->end,
	    &f->hash) == 0; k--) {
		t->checkpoint[k - 1] = i;
		if (t->parent[i] == QWEN_STORE_NONE || !t->reachable[i]) {
			t->parent[i] = k - 1;
			t->reachable[i] = t->reachable[k - 1];
		}
	}
}

/* --------------------------------------------------- the order of all files */

struct walker {
	const struct qwen_store_tree *tree;
	size_t		 n;
	size_t		*first, *next;	/* lists of the children of each file */
};

/*
 * Visits a run, its checkpoint, and the runs that continue it, without
 * recursion.
 */
static void
descend(struct walker *w, size_t root)
{
	const struct qwen_store_tree *t = w->tree;
	size_t i = root, depth = 0, c;

	for (;;) {
		t->order[w->n++] = (struct qwen_store_tree_entry){ i, depth };
		c = t->checkpoint[i];
		if (c != QWEN_STORE_NONE && t->parent[c] == i)
			t->order[w->n++] = (struct qwen_store_tree_entry){ c,
			    depth };
		if (w->first[i] != QWEN_STORE_NONE) {
			i = w->first[i];
			depth++;
			continue;
		}
		while (i != root && w->next[i] == QWEN_STORE_NONE) {
			i = t->parent[i];
			depth--;
		}
		if (i == root)
			return;
		i = w->next[i];
	}
}

/*
 * Fills order: trees first, then orphans. w->first and w->next have room for
 * all files.
 */
static void
set_order(struct walker *w, const struct qwen_store_scan *sc)
{
	const struct qwen_store_tree *t = w->tree;
	size_t i, p;
	int orphans;

	for (i = 0; i < sc->n_file; i++)
		w->first[i] = w->next[i] = QWEN_STORE_NONE;
	for (i = sc->n_file; i-- > 0; ) {
		p = t->parent[i];
		if (sc->file[i].n.kind != QWEN_STORE_KV || p == QWEN_STORE_NONE)
			continue;
		w->next[i] = w->first[p];
		w->first[p] = i;
	}
	for (orphans = 0; orphans < 2; orphans++) {
		for (i = 0; i < sc->n_file; i++) {
			if (t->parent[i] != QWEN_STORE_NONE ||
			    t->reachable[i] == orphans)
				continue;
			if (sc->file[i].n.kind == QWEN_STORE_KV)
				descend(w, i);
			else
				t->order[w->n++] =
				    (struct qwen_store_tree_entry){ i, 0 };
		}
	}
}

static int
link_files(struct qwen_store_tree *t, const struct qwen_store_scan *sc,
    struct qwen_err *err)
{
	size_t i, n = sc->n_file + 1;
	struct walker w = { .tree = t, .first = qwen_alloc(n, sizeof *w.first),
	    .next = qwen_alloc(n, sizeof *w.next) };
	struct qwen_fp nothing;
	uint64_t zero = 0;
	int r = -1;

	t->parent = qwen_alloc(n, sizeof *t->parent);
	t->children = qwen_alloc(n, sizeof *t->children);
	t->checkpoint = qwen_alloc(n, sizeof *t->checkpoint);
	t->reachable = qwen_alloc(n, 1);
	t->order = qwen_alloc(n, sizeof *t->order);
	if (w.first == NULL || w.next == NULL || t->parent == NULL ||
	    t->children == NULL || t->checkpoint == NULL ||
	    t->reachable == NULL || t->order == NULL || qwen_store_hash(NULL,
	    &zero, 1, &nothing) < 0) {
		qwen_oom(err);
		goto out;
	}
	for (i = 0; i < sc->n_file; i++)
		t->parent[i] = t->checkpoint[i] = QWEN_STORE_NONE;
	for (i = 0; i < sc->n_file; i++) {
		if (sc->file[i].n.kind == QWEN_STORE_KV)
			link_run(t, sc, i, &nothing);
		else
			link_checkpoint(t, sc, i);
	}
	set_order(&w, sc);
	r = 0;
out:
	free(w.first);
	free(w.next);
	return r;
}

void
qwen_store_folder_fini(struct qwen_store_folder *f)
{
	free(f->tree.parent);
	free(f->tree.children);
	free(f->tree.checkpoint);
	free(f->tree.reachable);
	free(f->tree.order);
	qwen_store_scan_fini(&f->sc);
}

int
qwen_store_each(const struct qwen_store *st,
    int (*fn)(void *arg, struct qwen_store_folder *f, struct qwen_err *err),
    void *arg, struct qwen_err *err)
{
	struct qwen_store_names names;
	int r = qwen_store_models(st, &names, err);
	size_t i;

	for (i = 0; i < names.n && r == 0; i++) {
		struct qwen_store_folder f = { .st = st };

		qwen_store_dir_parse(&f.model, names.name[i]);
		if (qwen_store_scan(&f.sc, st, names.name[i], 0, err) < 0 ||
		    link_files(&f.tree, &f.sc, err) < 0)
			r = -1;
		else
			r = fn(arg, &f, err);
		qwen_store_folder_fini(&f);
	}
	qwen_store_names_fini(&names);
	return r;
}
