/* SPDX-License-Identifier: ISC */
/* admin.c - listing, verifying and removing the files of a store. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "engine/store/store.h"

/* ----------------------------------------------------------------- listing */

struct qwen_store_list {
	struct qwen_store_entry *e;
	size_t		 n, cap;
};

/* Returns the path relative to the store's folder. */
static const char *
below(const struct qwen_store_folder *f, const char *path)
{
	return path + strlen(f->st->dir) + 1;
}

static int
add_entry(struct qwen_store_list *l, const struct qwen_store_folder *f,
    const struct qwen_store_tree_entry *p, struct qwen_err *err)
{
	const struct qwen_store_name *n = &f->sc.file[p->file].n;
	struct stat st;
	char *path;
	int r = 0;

	if (qwen_grow(&l->e, &l->cap, l->n + 1, sizeof *l->e) < 0 ||
	    (path = qwen_store_path(&f->sc, p->file)) == NULL)
		return qwen_oom(err);
	if (qwen_store_stat(&f->sc, p->file, &st) == -1) {
		if (errno != ENOENT)	/* the file was not just removed */
			r = qwen_fail_errno(err, "%s", path);
		free(path);
		return r;
	}
	l->e[l->n] = (struct qwen_store_entry){ .kind = n->kind,
	    .model = f->model.model, .vocab = f->model.vocab,
	    .numerics = f->model.numerics, .k = f->model.k, .v = f->model.v,
	    .rope = f->model.rope, .prefix = n->hash, .from = n->from,
	    .end = n->end, .depth = p->depth,
	    .orphan = !f->tree.reachable[p->file],
	    .bytes = (uint64_t)st.st_size,
	    .used = (int64_t)st.st_mtime, .path = path };
	memmove(path, below(f, path), strlen(below(f, path)) + 1);
	l->n++;
	return 0;
}

static int
list_folder(void *arg, struct qwen_store_folder *f, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < f->sc.n_file; i++) {
		if (add_entry(arg, f, &f->tree.order[i], err) < 0)
			return -1;
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
	if (qwen_store_each(st, list_folder, l, err) < 0) {
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

enum { VERIFY_TRIES = 5 };	/* other processes may replace the file each
				   time */

struct verify {
	struct qwen_store *st;
	const struct qwen_store_verifier *v;
	int32_t		*tokens;	/* tokens up to the current run */
	uint64_t	 n_tokens;
	size_t		 cap;
	uint64_t	 files, bad;
};

/*
 * Appends the tokens of the run to those that it continues; -1 without memory.
 */
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
 * Checks a file and its name.  The hash of an orphan cannot be checked, since
 * the tokens before it are missing.
 */
static int
check_file(struct verify *v, const struct qwen_store_folder *f, size_t file,
    struct qwen_err *err)
{
	const struct qwen_store_name *n = &f->sc.file[file].n;
	struct qwen_state_file *nd;
	struct qwen_fp hash;
	int r;

	if (qwen_store_node_open(&nd, &f->sc, file, &f->model, err) < 0)
		return -1;
	r = qwen_store_node_verify(&f->sc, file, v->v->n_threads, err);
	if (r == 0 && n->kind == QWEN_STORE_KV && f->tree.reachable[file]) {
		if (v->n_tokens < n->from)
			r = 0;	/* a run before it is bad */
		else if (append(v, n, qwen_state_info(nd)->tokens) < 0 ||
		    qwen_store_hash(v->tokens, &n->end, 1, &hash) < 0)
			r = qwen_oom(err);
		else if (!qwen_store_same(&hash, &n->hash))
			r = qwen_fail(err, QWEN_EFORMAT,
			    "its tokens do not match its name");
		/*
		 * if a run is bad, the runs that continue it cannot be checked
		 */
		if (r < 0)
			v->n_tokens = n->from;
	}
	qwen_state_close(nd);
	return r;
}

/*
 * Checks a file while other processes may remove it and write it again.  The
 * result counts only if the name belongs to the same file before and after.
 * Returns 1 if the file is valid, 0 and *err if it is bad, -1 if it was
 * removed.
 */
static int
check_present(struct verify *v, const struct qwen_store_folder *f, size_t file,
    struct stat *st, struct qwen_err *err)
{
	struct stat now;
	int i, r = -1;

	for (i = 0; i < VERIFY_TRIES; i++) {
		if (qwen_store_stat(&f->sc, file, st) == -1 && errno == ENOENT)
			return -1;
		r = check_file(v, f, file, err) == 0;
		if (r || err->code == QWEN_ENOMEM)
			return r;
		if (qwen_store_stat(&f->sc, file, &now) == 0 &&
		    now.st_ino == st->st_ino && now.st_dev == st->st_dev)
			return 0;
	}
	return r;
}

static int
verify_file(struct verify *v, const struct qwen_store_folder *f, size_t file,
    struct qwen_err *err)
{
	const struct qwen_store_name *n = &f->sc.file[file].n;
	struct qwen_err e = { 0 };
	struct stat st = { 0 };
	char *path;
	int r = 0, is;

	if ((path = qwen_store_path(&f->sc, file)) == NULL)
		return qwen_oom(err);
	if (v->n_tokens > n->from)
		v->n_tokens = n->from;
	is = check_present(v, f, file, &st, &e);
	v->files += is >= 0;
	if (is == 0 && e.code != QWEN_ENOMEM) {
		v->bad++;
		v->v->bad(v->v->arg, below(f, path), e.msg);
		if (v->v->remove && qwen_store_unlink(&f->sc, file) == -1 &&
		    errno != ENOENT)
			r = qwen_fail_errno(err, "%s: not removed", path);
	}
	free(path);
	if (e.code == QWEN_ENOMEM)
		return qwen_oom(err);
	if (v->v->progress != NULL && is >= 0)
		v->v->progress(v->v->arg, (uint64_t)st.st_size);
	return r;
}

static int
verify_folder(void *arg, struct qwen_store_folder *f, struct qwen_err *err)
{
	struct verify *v = arg;
	size_t i;

	for (i = 0, v->n_tokens = 0; i < f->sc.n_file; i++) {
		if (verify_file(v, f, f->tree.order[i].file, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_store_verify_sized(size_t size, struct qwen_store *st,
    const struct qwen_store_verifier *v, uint64_t *files, uint64_t *n_bad,
    struct qwen_err *err)
{
	struct verify arg = { .st = st };
	struct qwen_store_verifier own;
	int r = QWEN_SIZED(v, own, size, err);

	arg.v = v;
	if (r == 0)
		r = qwen_store_each(st, verify_folder, &arg, err);
	*files = arg.files;
	*n_bad = arg.bad;
	free(arg.tokens);
	return r;
}

/* ---------------------------------------------------------------- removing */

struct removal {
	const char	*digits;	/* leading digits; NULL: everything */
	int		 models;	/* number of matching models */
	int		 prefixes;	/* number of matching prefixes; 2:
					   several */
	struct qwen_fp	 prefix;	/* the first match */
	struct qwen_store_gc_result *out;
};

static int
begins(const struct qwen_fp *fp, const char *digits)
{
	char hex[33];

	return digits == NULL ||
	    strncmp(qwen_fp_hex(fp, hex), digits, strlen(digits)) == 0;
}

/* Counts the models and prefixes that begin with the digits. */
static int
find_folder(void *arg, struct qwen_store_folder *f, struct qwen_err *err)
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

/* Removes matching runs and checkpoints, and everything that continues them. */
static int
remove_folder(void *arg, struct qwen_store_folder *f, struct qwen_err *err)
{
	struct removal *v = arg;
	/* remove also what an interrupted removal left: it contains prompts */
	struct qwen_store_sweep w = { .all_gone = v->digits == NULL };
	int all = begins(&f->model.model, v->digits), r;
	size_t i, k, under = QWEN_STORE_NONE;

	for (k = 0; k < f->sc.n_file; k++) {
		const struct qwen_store_tree_entry *p = &f->tree.order[k];
		struct qwen_store_file *file = &f->sc.file[i = p->file];

		if (under != QWEN_STORE_NONE && p->depth <= under &&
		    (file->n.kind == QWEN_STORE_KV ||
		    f->tree.parent[i] == QWEN_STORE_NONE))
			under = QWEN_STORE_NONE;
		file->to_remove = all || under != QWEN_STORE_NONE ||
		    begins(&file->n.hash, v->digits);
		if (file->to_remove && under == QWEN_STORE_NONE &&
		    file->n.kind == QWEN_STORE_KV)
			under = p->depth;
	}
	r = qwen_store_sweep(&f->sc, &w, err);
	v->out->files += w.chosen + w.others;
	v->out->bytes += w.chosen_bytes + w.other_bytes;
	return r;
}

static int
count_left(void *arg, struct qwen_store_folder *f, struct qwen_err *err)
{
	struct qwen_store_gc_result *out = arg;
	struct stat st;
	size_t i;

	for (i = 0; i < f->sc.n_file; i++) {
		if (qwen_store_stat(&f->sc, i, &st) == -1) {
			if (errno == ENOENT)
				continue;
			return qwen_fail_errno(err, "a file in %s", f->sc.path);
		}
		out->left_files++;
		out->left_bytes += S_ISREG(st.st_mode) ?
		    (uint64_t)st.st_size : 0;
	}
	return 0;
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
		if (qwen_store_each(st, find_folder, &v, err) < 0)
			return -1;
		if (v.models + v.prefixes == 0)
			return qwen_fail(err, QWEN_ERANGE,
			    "no prefix or model begins with %s", digits);
		if (v.models + v.prefixes > 1)
			return qwen_fail(err, QWEN_ERANGE,
			    "%s is ambiguous: several prefixes or models begin "
			    "with it", digits);
	}
	return qwen_store_each(st, remove_folder, &v, err) < 0 ? -1 :
	    qwen_store_each(st, count_left, v.out, err);
}
