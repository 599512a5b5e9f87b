/* SPDX-License-Identifier: ISC */
/*
 * sweep.c - removes files so that no child loses its parent.
 *
 * The folder has no lock.  The order of steps of both sides keeps the tree
 * whole.  A process that inserts a child C of X (a run that continues X, or a
 * checkpoint at its end)
 *
 *	I1	renames C into place, and then
 *	I2	reads the folder; if X or a run before it is missing, writes
 *		it again from its own session, and repeats I2.
 *
 * A process that removes X
 *
 *	R1	renames X to a name that begins with .gone-, and then
 *	R2	reads the folder;
 *	R3	if X has a child, renames X back, else unlinks it.
 *
 * Each writes first and then reads, so at least one of the two sees the other.
 * If I1 comes before R2, R2 finds C and X is renamed back.  Otherwise R1 comes
 * before R2, I1 and I2, so I2 finds X missing and writes it again.  If both see
 * each other, X is renamed back over the new X, which has the same content;
 * nothing is lost.
 *
 * A parent W of X is removed after X or in the same sweep: at R2, C keeps X and
 * X keeps W.  If another process removes W while X has its .gone- name, R2
 * counts that name like X itself.  If X is renamed while the folder is read,
 * the reading may return neither name.  So R2 reads the folder until three
 * readings in a row are equal (a file that is renamed back can be missed
 * twice), at most READINGS times.
 *
 * A .gone- name has 16 digits that no other process uses, so R3 never unlinks a
 * file that another process has renamed.  With one common name, process P might
 * decide to unlink X; then Q restores X for a child, R renames it again, and P
 * unlinks the file that R is about to restore.  Files that a killed sweep left
 * under a .gone- name are first renamed to a new .gone- name (like R1; the
 * process that had renamed them no longer finds them), and then handled by R2
 * and R3.
 *
 * A reader opens all files before it reads the first one, and an open file
 * stays readable after unlink.  A reader that starts between R1 and R3 does not
 * find X: it reads the folder again, and finally uses a shorter prefix.
 *
 * If the listing of a folder is out of date (NFS), a child may lose its parent
 * after all.  The child is then an orphan: readers cannot reach it, so they
 * never read wrong data.  It is useful again once the parent is stored again;
 * otherwise it is removed after an hour.
 */
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"

enum {
	GONE_NAME = QWEN_STORE_NAME + 32,
	READINGS = 12,
	SAME = 3,
};

/* A run with a .gone- name. */
struct renamed {
	struct qwen_store_name n;
	char		 gone[GONE_NAME];
	uint64_t	 bytes;
	int		 chosen;	/* 0: left by another sweep */
	int		 needed;
};

struct sweep {
	const struct qwen_store_scan *sc;
	struct qwen_store_sweep *w;
	struct renamed	*renamed;
	size_t		 n_renamed;
};

/* R1: renames the file `name' to a new .gone- name. */
static int
rename_away(struct sweep *s, const struct qwen_store_name *n, const char *name,
    uint64_t bytes, int chosen)
{
	struct renamed *h = &s->renamed[s->n_renamed];
	char unique[QWEN_STORE_UNIQUE], final[QWEN_STORE_NAME];

	qwen_store_unique(unique);
	qwen_store_name_format(n, final);
	snprintf(h->gone, sizeof h->gone, QWEN_STORE_GONE "%s-%s", unique,
	    final);
	if (renameat(s->sc->fd, name, s->sc->fd, h->gone) == -1)
		return errno == ENOENT ? 0 : -1;
	h->n = *n;
	h->bytes = bytes;
	h->chosen = chosen;
	h->needed = 0;
	s->n_renamed++;
	return 0;
}

static void
count(struct sweep *s, int chosen, uint64_t bytes)
{
	*(chosen ? &s->w->chosen : &s->w->others) += 1;
	*(chosen ? &s->w->chosen_bytes : &s->w->other_bytes) += bytes;
}

/*
 * Removes a file: a checkpoint, which has no children, at once; a run by R1.
 */
static int
remove_file(struct sweep *s, size_t i)
{
	const struct qwen_store_file *f = &s->sc->file[i];
	char name[QWEN_STORE_NAME];
	struct stat st;

	if (qwen_store_stat(s->sc, i, &st) == -1)
		return errno == ENOENT ? 0 : -1;
	/* skip a file that was used or replaced meanwhile */
	if (S_ISDIR(st.st_mode) ||
	    (S_ISREG(st.st_mode) && qwen_store_used(&st) > f->used))
		return 0;
	/* links and special files are removed at once */
	if (f->n.kind == QWEN_STORE_KV && S_ISREG(st.st_mode)) {
		qwen_store_name_format(&f->n, name);
		return rename_away(s, &f->n, name, (uint64_t)st.st_size, 1);
	}
	if (qwen_store_unlink(s->sc, i) == -1)
		return errno == ENOENT ? 0 : -1;
	count(s, 1, (uint64_t)st.st_size);
	return 0;
}

/* Parses the file name in a .gone- name of a run. */
static int
parse_gone(struct qwen_store_name *n, const char *gone)
{
	const char *name = gone + strlen(QWEN_STORE_GONE);

	return strlen(name) < QWEN_STORE_UNIQUE ||
	    qwen_store_name_parse(n, name + QWEN_STORE_UNIQUE) < 0 ||
	    n->kind != QWEN_STORE_KV ? -1 : 0;
}

/* R1 for a file that another sweep, possibly killed, left. */
static int
take_over_gone(struct sweep *s, const char *gone)
{
	struct qwen_store_name n;
	struct stat st;

	if (parse_gone(&n, gone) < 0)
		return 0;
	if (fstatat(s->sc->fd, gone, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT ? 0 : -1;
	if (!s->w->all_gone && st.st_ctime >= s->w->gone_before)
		return 0;
	return rename_away(s, &n, gone, (uint64_t)st.st_size, 0);
}

/* Returns 1 if c is a run that continues p, or the checkpoint at its end. */
static int
is_child(const struct qwen_store_name *c, const struct qwen_store_name *p)
{
	return c->from == p->end && qwen_store_same(&c->parent, &p->hash);
}

static int
by_end(const void *a, const void *b)
{
	uint64_t p = ((const struct renamed *)a)->n.end;
	uint64_t q = ((const struct renamed *)b)->n.end;

	return (p > q) - (p < q);
}

/*
 * Returns the renamed run that c continues, or NULL; these runs are sorted by
 * end.
 */
static struct renamed *
parent_of(struct sweep *s, const struct qwen_store_name *c)
{
	size_t i;

	for (i = 0; i < s->n_renamed && s->renamed[i].n.end <= c->from; i++) {
		if (is_child(c, &s->renamed[i].n))
			return &s->renamed[i];
	}
	return NULL;
}

static void
need_parent(struct sweep *s, const struct qwen_store_name *c)
{
	struct renamed *p = parent_of(s, c);

	if (p != NULL)
		p->needed = 1;
}

/*
 * Returns 1 for a regular file, and for an entry that cannot be examined.
 * Folders and links with the name of a file need no parent.
 */
static int
is_file(const struct qwen_store_scan *now, size_t i)
{
	struct stat st;

	return qwen_store_stat(now, i, &st) == -1 || S_ISREG(st.st_mode);
}

static int
is_ours(const struct sweep *s, const char *gone)
{
	size_t i;

	for (i = 0; i < s->n_renamed; i++) {
		if (strcmp(s->renamed[i].gone, gone) == 0)
			return 1;
	}
	return 0;
}

/*
 * Marks the renamed runs that have children.  Returns a hash of the names that
 * were read.
 */
static uint64_t
need_parents(struct sweep *s, const struct qwen_store_scan *now)
{
	struct qwen_store_name n;
	const char *gone;
	uint64_t seen = 0;
	size_t i;

	for (i = 0; i < now->n_file; i++) {
		if (parent_of(s, &now->file[i].n) != NULL && is_file(now, i))
			need_parent(s, &now->file[i].n);
		seen += XXH3_64bits(&now->file[i].n, sizeof now->file[i].n);
	}
	for (i = 0; i < now->gone.n; i++) {
		gone = now->gone.name[i];
		if (parse_gone(&n, gone) == 0 && !is_ours(s, gone))
			need_parent(s, &n);
		seen += XXH3_64bits(gone, strlen(gone));
	}
	return seen;
}

/* R2: reads the folder until it is certain which renamed runs are needed. */
static int
look_again(struct sweep *s, struct qwen_err *err)
{
	struct qwen_store_scan now = { .path = s->sc->path, .fd = s->sc->fd };
	uint64_t seen = 0, before;
	size_t i = 0, same = 0;
	int r;

	qsort(s->renamed, s->n_renamed, sizeof *s->renamed, by_end);
	do {
		before = seen;
		r = qwen_store_rescan(&now, err);
		seen = need_parents(s, &now);
		same = seen == before ? same + 1 : 1;
	} while (r == 0 && same < SAME && ++i < READINGS);
	for (i = s->n_renamed; i-- > 0; ) {
		if (r < 0)
			s->renamed[i].needed = 1;
		if (s->renamed[i].needed)
			need_parent(s, &s->renamed[i].n);
	}
	now.path = NULL;
	now.fd = -1;
	qwen_store_scan_fini(&now);
	return r;
}

/*
 * R3: renames parents back before children, then unlinks children before
 * parents.  A file for which this fails keeps its .gone- name for a later
 * sweep.  Returns errno of the last failure, or 0.
 */
static int
decide(struct sweep *s)
{
	char name[QWEN_STORE_NAME];
	int failed = 0;
	size_t i;

	for (i = 0; i < s->n_renamed; i++) {
		if (!s->renamed[i].needed)
			continue;
		qwen_store_name_format(&s->renamed[i].n, name);
		if (renameat(s->sc->fd, s->renamed[i].gone, s->sc->fd, name) ==
		    -1 && errno != ENOENT)
			failed = errno;
	}
	for (i = s->n_renamed; i-- > 0; ) {
		if (s->renamed[i].needed)
			continue;
		if (unlinkat(s->sc->fd, s->renamed[i].gone, 0) == 0)
			count(s, s->renamed[i].chosen, s->renamed[i].bytes);
		else if (errno != ENOENT)
			failed = errno;
	}
	return failed;
}

int
qwen_store_sweep(const struct qwen_store_scan *sc, struct qwen_store_sweep *w,
    struct qwen_err *err)
{
	struct sweep s = { .sc = sc, .w = w };
	size_t i, n = sc->gone.n;
	int failed, r = 0;

	for (i = 0; i < sc->n_file; i++)
		n += (size_t)sc->file[i].to_remove;
	if (n == 0)
		return 0;
	if ((s.renamed = qwen_alloc(n, sizeof *s.renamed)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < sc->n_file && r == 0; i++) {
		if (sc->file[i].to_remove)
			r = remove_file(&s, i);
	}
	for (i = 0; i < sc->gone.n && r == 0; i++)
		r = take_over_gone(&s, sc->gone.name[i]);
	if (r < 0)
		qwen_fail_errno(err, "%s", sc->path);
	if (s.n_renamed > 0) {
		if (look_again(&s, r < 0 ? NULL : err) < 0)
			r = -1;
		failed = decide(&s);
		if (failed != 0 && r == 0) {
			errno = failed;
			r = qwen_fail_errno(err, "%s: some files could not be "
			    "removed", sc->path);
		}
	}
	free(s.renamed);
	return r;
}
