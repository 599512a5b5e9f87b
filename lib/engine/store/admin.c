/* SPDX-License-Identifier: ISC */
/* admin.c - listing, verifying and removing what is in a store. */
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"

/* ----------------------------------------------------- all of it, in order */

/* A file of a model's folder, in its place in the tree. */
struct place {
	size_t	 file;
	size_t	 depth;
};

struct walker {
	const struct qwen_store_scan *sc;
	const struct qwen_store_tree *tree;
	struct place	*out;
	size_t		 n;
	size_t		*first, *next;	/* children of a file, as lists */
};

/* A run, its checkpoint, and what goes on from it, without recursion. */
static void
descend(struct walker *w, size_t root)
{
	size_t i = root, depth = 0, c;

	for (;;) {
		w->out[w->n++] = (struct place){ i, depth };
		c = w->tree->checkpoint[i];
		if (c != QWEN_STORE_NONE && w->tree->parent[c] == i)
			w->out[w->n++] = (struct place){ c, depth };
		if (w->first[i] != QWEN_STORE_NONE) {
			i = w->first[i];
			depth++;
			continue;
		}
		while (i != root && w->next[i] == QWEN_STORE_NONE) {
			i = w->tree->parent[i];
			depth--;
		}
		if (i == root)
			return;
		i = w->next[i];
	}
}

/* The files of the scan: trees first, then orphans. */
static int
put_in_order(struct place **out, const struct qwen_store_scan *sc,
    const struct qwen_store_tree *t, struct qwen_err *err)
{
	struct walker w = { .sc = sc, .tree = t };
	size_t i, p, n = sc->n_file + 1;
	int orphans;

	*out = w.out = qwen_alloc(n, sizeof *w.out);
	w.first = qwen_alloc(n, sizeof *w.first);
	w.next = qwen_alloc(n, sizeof *w.next);
	if (w.out == NULL || w.first == NULL || w.next == NULL)
		goto out;
	for (i = 0; i < sc->n_file; i++)
		w.first[i] = w.next[i] = QWEN_STORE_NONE;
	for (i = sc->n_file; i-- > 0; ) {
		p = t->parent[i];
		if (sc->file[i].n.kind != QWEN_STORE_KV || p == QWEN_STORE_NONE)
			continue;
		w.next[i] = w.first[p];
		w.first[p] = i;
	}
	for (orphans = 0; orphans < 2; orphans++) {
		for (i = 0; i < sc->n_file; i++) {
			if (t->parent[i] != QWEN_STORE_NONE ||
			    t->there[i] == orphans)
				continue;
			if (sc->file[i].n.kind == QWEN_STORE_KV)
				descend(&w, i);
			else
				w.out[w.n++] = (struct place){ i, 0 };
		}
	}
out:
	free(w.first);
	free(w.next);
	if (w.n == sc->n_file)
		return 0;
	free(*out);
	*out = NULL;
	return qwen_oom(err);
}

/* --------------------------------------------- each model's folder in turn */

struct folder {
	const char	*name;		/* below v1 */
	struct qwen_header model;
	struct qwen_store_scan sc;
	struct qwen_store_tree tree;
	struct place	*place;		/* sc.n_file of them */
};

static int
open_folder(struct folder *f, const struct qwen_store *st, const char *name,
    struct qwen_err *err)
{
	memset(f, 0, sizeof *f);
	f->name = name;
	qwen_store_dir_parse(&f->model, name);
	if (qwen_store_scan(&f->sc, st, name, 0, err) < 0 ||
	    qwen_store_tree(&f->tree, &f->sc, err) < 0)
		return -1;
	return put_in_order(&f->place, &f->sc, &f->tree, err);
}

static void
close_folder(struct folder *f)
{
	qwen_store_tree_fini(&f->tree);
	qwen_store_scan_fini(&f->sc);
	free(f->place);
}

static int
each_folder(const struct qwen_store *st,
    int (*fn)(void *arg, struct folder *f, struct qwen_err *err), void *arg,
    struct qwen_err *err)
{
	struct folder f;
	char **names;
	size_t i, n;
	int r = 0;

	if (qwen_store_models(st, &names, &n, err) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (r == 0) {
			r = open_folder(&f, st, names[i], err);
			if (r == 0)
				r = fn(arg, &f, err);
			close_folder(&f);
		}
		free(names[i]);
	}
	free(names);
	return r;
}

/* Path of a file below the store's folder. */
static char *
path_below(const struct folder *f, const struct qwen_store_name *n)
{
	char name[QWEN_STORE_NAME], *s;
	size_t size;

	qwen_store_name_format(n, name);
	size = sizeof "v1//" + strlen(f->name) + strlen(name);
	if ((s = malloc(size)) != NULL)
		snprintf(s, size, "v1/%s/%s", f->name, name);
	return s;
}

/* ----------------------------------------------------------------- listing */

struct qwen_store_list {
	struct qwen_store_entry *e;
	size_t		 n, cap;
};

static int
add_entry(struct qwen_store_list *l, const struct folder *f,
    const struct place *p)
{
	const struct qwen_store_name *n = &f->sc.file[p->file].n;
	char name[QWEN_STORE_NAME];
	struct stat st;

	qwen_store_name_format(n, name);
	if (fstatat(f->sc.fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return 0;	/* gone meanwhile */
	if (qwen_grow(&l->e, &l->cap, l->n + 1, sizeof *l->e) < 0)
		return -1;
	l->e[l->n] = (struct qwen_store_entry){ .kind = n->kind,
	    .model = f->model.model, .vocab = f->model.vocab,
	    .numerics = f->model.numerics, .prefix = n->hash, .from = n->from,
	    .end = n->end, .depth = p->depth,
	    .orphan = !f->tree.there[p->file], .bytes = (uint64_t)st.st_size,
	    .used = (int64_t)st.st_mtime, .path = path_below(f, n) };
	return l->e[l->n++].path != NULL ? 0 : -1;
}

static int
list_folder(void *arg, struct folder *f, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < f->sc.n_file; i++) {
		if (add_entry(arg, f, &f->place[i]) < 0)
			return qwen_oom(err);
	}
	return 0;
}

int
qwen_store_list(struct qwen_store_list **out, struct qwen_store *st,
    struct qwen_err *err)
{
	struct qwen_store_list *l = qwen_alloc(1, sizeof *l);

	*out = NULL;
	if (l == NULL)
		return qwen_oom(err);
	if (each_folder(st, list_folder, l, err) < 0) {
		qwen_store_list_free(l);
		return -1;
	}
	*out = l;
	return 0;
}

size_t
qwen_store_list_n(const struct qwen_store_list *l)
{
	return l->n;
}

const struct qwen_store_entry *
qwen_store_list_at(const struct qwen_store_list *l, size_t i)
{
	return &l->e[i];
}

void
qwen_store_list_free(struct qwen_store_list *l)
{
	size_t i;

	if (l == NULL)
		return;
	for (i = 0; i < l->n; i++)
		free((char *)l->e[i].path);
	free(l->e);
	free(l);
}

/* --------------------------------------------------------------- verifying */

struct verify {
	struct qwen_store *st;
	const struct qwen_store_verifier *v;
	int32_t		*tokens;	/* up to the run looked at */
	uint64_t	 n_tokens;
	size_t		 cap;
	uint64_t	 files, bad;
};

/* The tokens of the run behind those that it goes on from. */
static int
append(struct verify *v, const struct qwen_store_name *n, const int32_t *run)
{
	if (qwen_grow(&v->tokens, &v->cap, (size_t)n->end,
	    sizeof *v->tokens) < 0)
		return -1;
	memcpy(v->tokens + n->from, run,
	    (size_t)(n->end - n->from) * sizeof *run);
	v->n_tokens = n->end;
	return 0;
}

/*
 * The file's own checks, then its name.  Hashes of orphans cannot be made
 * again.
 */
static int
check_file(struct verify *v, const struct folder *f, const struct place *p,
    const char *path, struct qwen_err *err)
{
	const struct qwen_store_name *n = &f->sc.file[p->file].n;
	struct qwen_store_node *nd;
	struct qwen_fp hash;
	int r = 0;

	if (qwen_store_node_open(&nd, path, n, &f->model, err) < 0)
		return -1;
	if (qwen_state_verify(path, v->v->n_threads, err) < 0) {
		qwen_store_node_close(nd);
		return -1;
	}
	if (n->kind == QWEN_STORE_KV && f->tree.there[p->file]) {
		if (v->n_tokens < n->from)
			r = 0;	/* a run before it was bad */
		else if (append(v, n, qwen_store_node_tokens(nd)) < 0 ||
		    qwen_store_hash(v->tokens, &n->end, 1, &hash) < 0)
			r = qwen_oom(err);
		else if (!qwen_store_same(&hash, &n->hash))
			r = qwen_fail(err, QWEN_EFORMAT,
			    "its tokens are not those of its name");
	}
	/* a bad run says nothing about those that go on from it */
	if (r < 0)
		v->n_tokens = n->from;
	qwen_store_node_close(nd);
	return r;
}

static int
verify_place(struct verify *v, const struct folder *f, const struct place *p,
    struct qwen_err *err)
{
	const struct qwen_store_name *n = &f->sc.file[p->file].n;
	char name[QWEN_STORE_NAME], *path, *below;
	struct qwen_err e;
	struct stat st;

	qwen_store_name_format(n, name);
	if (fstatat(f->sc.fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return 0;	/* gone meanwhile */
	path = qwen_store_path(&f->sc, name);
	below = path_below(f, n);
	if (path == NULL || below == NULL) {
		free(path);
		free(below);
		return qwen_oom(err);
	}
	v->files++;
	if (v->n_tokens > n->from)
		v->n_tokens = n->from;
	if (check_file(v, f, p, path, &e) < 0) {
		if (e.code == QWEN_ENOMEM) {
			free(path);
			free(below);
			return qwen_oom(err);
		}
		v->bad++;
		if (v->v->remove)
			unlinkat(f->sc.fd, name, 0);
		v->v->bad(v->v->arg, below, e.msg);
	}
	if (v->v->progress != NULL)
		v->v->progress(v->v->arg, (uint64_t)st.st_size);
	free(path);
	free(below);
	return 0;
}

static int
verify_folder(void *arg, struct folder *f, struct qwen_err *err)
{
	struct verify *v = arg;
	size_t i;

	for (i = 0, v->n_tokens = 0; i < f->sc.n_file; i++) {
		if (verify_place(v, f, &f->place[i], err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_store_verify(struct qwen_store *st, const struct qwen_store_verifier *v,
    uint64_t *files, uint64_t *n_bad, struct qwen_err *err)
{
	struct verify arg = { .st = st, .v = v };
	int r = each_folder(st, verify_folder, &arg, err);

	*files = arg.files;
	*n_bad = arg.bad;
	free(arg.tokens);
	return r;
}

/* ---------------------------------------------------------------- removing */

struct removal {
	const char	*digits;	/* NULL: all */
	int		 models;	/* fitting ones, */
	int		 prefixes;	/* likewise; 2 for many */
	struct qwen_fp	 prefix;	/* the first fitting one */
	struct qwen_store_gc_result *out;
};

static int
begins(const struct qwen_fp *fp, const char *digits)
{
	char hex[33];

	return digits == NULL ||
	    strncmp(qwen_fp_hex(fp, hex), digits, strlen(digits)) == 0;
}

/* What do the digits mean? */
static int
find_folder(void *arg, struct folder *f, struct qwen_err *err)
{
	struct removal *v = arg;
	size_t i;

	(void)err;
	v->models += begins(&f->model.model, v->digits);
	for (i = 0; i < f->sc.n_file; i++) {
		const struct qwen_fp *fp = &f->sc.file[i].n.hash;

		if (!begins(fp, v->digits) || (v->prefixes == 1 &&
		    qwen_store_same(fp, &v->prefix)))
			continue;
		v->prefix = *fp;
		v->prefixes += v->prefixes < 2;
	}
	return 0;
}

/* Runs and checkpoints that are meant, and what comes behind those. */
static int
remove_folder(void *arg, struct folder *f, struct qwen_err *err)
{
	struct removal *v = arg;
	struct qwen_store_sweep w = { .gone_before = 0 };
	size_t i, k, *victim = qwen_alloc(f->sc.n_file + 1, sizeof *victim);
	int all = begins(&f->model.model, v->digits), r;
	size_t under = QWEN_STORE_NONE;

	if (victim == NULL)
		return qwen_oom(err);
	for (k = 0; k < f->sc.n_file; k++) {
		i = f->place[k].file;
		if (under != QWEN_STORE_NONE && f->place[k].depth <= under &&
		    (f->sc.file[i].n.kind == QWEN_STORE_KV ||
		    f->tree.parent[i] == QWEN_STORE_NONE))
			under = QWEN_STORE_NONE;
		if (all || under != QWEN_STORE_NONE ||
		    begins(&f->sc.file[i].n.hash, v->digits)) {
			victim[w.n++] = i;
			if (under == QWEN_STORE_NONE &&
			    f->sc.file[i].n.kind == QWEN_STORE_KV)
				under = f->place[k].depth;
		}
	}
	w.victim = victim;
	r = qwen_store_sweep(&f->sc, &w, err);
	v->out->files += w.victims + w.others;
	v->out->bytes += w.victim_bytes + w.other_bytes;
	free(victim);
	return r;
}

int
qwen_store_remove(struct qwen_store *st, const char *digits,
    struct qwen_store_gc_result *out, struct qwen_err *err)
{
	struct qwen_store_gc_result unused;
	struct removal v = { .digits = digits,
	    .out = out != NULL ? out : &unused };

	memset(v.out, 0, sizeof *v.out);
	if (digits != NULL) {
		if (each_folder(st, find_folder, &v, err) < 0)
			return -1;
		if (v.models + v.prefixes == 0)
			return qwen_fail(err, QWEN_ERANGE,
			    "no prefix and no model begins with %s", digits);
		if (v.models + v.prefixes > 1)
			return qwen_fail(err, QWEN_ERANGE,
			    "several prefixes or models begin with %s", digits);
	}
	return each_folder(st, remove_folder, &v, err);
}
