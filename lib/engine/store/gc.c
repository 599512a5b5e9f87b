/* SPDX-License-Identifier: ISC */
/*
 * gc.c - chooses the files to remove: first useless ones, then the least
 * recently used ones until the limit holds.
 *
 * A checkpoint can be removed at any time, a run only if no other run continues
 * it.  Using a run also uses the runs before it, so a run is never older than
 * its descendants.  Removing the oldest file first therefore removes
 * descendants first.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/tmpfile.h"
#include "engine/store/store.h"

enum {
	LITTER_S = 3600,	/* age in seconds at which no process needs an
				   orphan any more */
	GONE_S = 60,		/* age of a .gone- file in seconds; removing a
				   file takes milliseconds */
	ROUNDS = 3,
};

/* A model's folder. */
struct model {
	struct qwen_store_folder f;
	time_t		 now;		/* time of the folder's file system */
};

/* A file that can be chosen; sorted by last use. */
struct candidate {
	struct model	*model;
	size_t		 i;
	int64_t		 used;
};

struct gc {
	struct model	*model;
	size_t		 n_model, cap_model;
	struct candidate *candidate;
	size_t		 n_candidate;
	uint64_t	 total;		/* bytes of all files except the chosen
					   ones */
	uint64_t	 n_left;	/* number of these files */
};

/* ---------------------------------------------------------- existing files */

/* Returns 1 if the file exists and was not chosen yet. */
static int
is_left(const struct model *m, size_t i)
{
	return !m->f.sc.file[i].bad && !m->f.sc.file[i].to_remove;
}

static int
add_model(void *arg, struct qwen_store_folder *folder, struct qwen_err *err)
{
	struct gc *g = arg;
	struct qwen_store_scan *sc = &folder->sc;
	struct stat st;
	size_t i;
	int r;

	if (qwen_grow(&g->model, &g->cap_model, g->n_model + 1,
	    sizeof *g->model) < 0)
		return qwen_oom(err);
	for (i = 0; i < sc->n_file; i++) {
		r = qwen_store_stat(sc, i, &st);
		if (r == -1 && errno != ENOENT)
			return qwen_fail_errno(err, "a file in %s", sc->path);
		if (r == -1 || !S_ISREG(st.st_mode)) {
			sc->file[i].bad = 1;
			continue;
		}
		sc->file[i].used = qwen_store_used(&st);
		sc->file[i].bytes = (uint64_t)st.st_size;
		g->total += sc->file[i].bytes;
		g->n_left++;
	}
	g->model[g->n_model++] = (struct model){ .f = *folder };
	*folder = (struct qwen_store_folder){ .sc.fd = -1 };
	return 0;
}

static int
compare_use(const void *a, const void *b)
{
	const struct candidate *p = a, *q = b;

	if (p->used != q->used)
		return p->used < q->used ? -1 : 1;
	/* at equal times, children before their parents */
	return (p->i < q->i) - (p->i > q->i);
}

static void
fini(struct gc *g)
{
	size_t k;

	for (k = 0; k < g->n_model; k++)
		qwen_store_folder_fini(&g->model[k].f);
	free(g->model);
	free(g->candidate);
}

static int
init(struct gc *g, const struct qwen_store *st, struct qwen_err *err)
{
	size_t i, k;

	if (qwen_store_each(st, add_model, g, err) < 0)
		return -1;
	if ((g->candidate = qwen_alloc(g->n_left + 1,
	    sizeof *g->candidate)) == NULL)
		return qwen_oom(err);
	for (k = 0; k < g->n_model; k++) {
		for (i = 0; i < g->model[k].f.sc.n_file; i++) {
			if (is_left(&g->model[k], i))
				g->candidate[g->n_candidate++] =
				    (struct candidate){ &g->model[k], i,
				    g->model[k].f.sc.file[i].used };
		}
	}
	qsort(g->candidate, g->n_candidate, sizeof *g->candidate, compare_use);
	return 0;
}

/* ---------------------------------------------------------- choosing files */

static void
choose(struct gc *g, struct model *m, size_t i)
{
	struct qwen_store_scan *sc = &m->f.sc;
	struct qwen_store_file *f = &sc->file[i];
	size_t k, n;

	f->to_remove = 1;
	g->total -= f->bytes;
	g->n_left--;
	if (f->n.kind == QWEN_STORE_CHECKPOINT || f->n.from == 0)
		return;
	k = qwen_store_files_at(sc, f->n.from, &f->n.parent, &n);
	for (; n > 0; k++, n--) {
		if (sc->file[k].n.kind == QWEN_STORE_KV)
			m->f.tree.children[k]--;
	}
}

static int
has_checkpoint(const struct model *m, size_t i)
{
	size_t c = m->f.tree.checkpoint[i];

	return c != QWEN_STORE_NONE && is_left(m, c);
}

/*
 * Returns 1 if a run is useless: it has no children and no checkpoint, and the
 * model cannot continue from it.
 */
static int
is_dead_end(const struct model *m, size_t i)
{
	const struct qwen_store_name *n = &m->f.sc.file[i].n;

	return n->kind == QWEN_STORE_KV && is_left(m, i) &&
	    m->f.tree.children[i] == 0 && !has_checkpoint(m, i) &&
	    !qwen_store_any_cut(n);
}

/* Chooses a dead end, and then the runs before it that became dead ends. */
static void
choose_up(struct gc *g, struct model *m, size_t i)
{
	while (i != QWEN_STORE_NONE && is_dead_end(m, i)) {
		choose(g, m, i);
		i = m->f.tree.parent[i];
	}
}

/*
 * Chooses file i, with its checkpoint, unless a run continues it.  Returns 1 if
 * it was chosen.
 */
static int
choose_old(struct gc *g, struct model *m, size_t i)
{
	if (!is_left(m, i))
		return 0;
	if (m->f.sc.file[i].n.kind == QWEN_STORE_CHECKPOINT) {
		choose(g, m, i);
		choose_up(g, m, m->f.tree.parent[i]);
		return 1;
	}
	if (m->f.tree.children[i] > 0)
		return 0;
	if (has_checkpoint(m, i))
		choose(g, m, m->f.tree.checkpoint[i]);
	choose(g, m, i);
	choose_up(g, m, m->f.tree.parent[i]);
	return 1;
}

static void
choose_by_age(struct gc *g, uint64_t max)
{
	size_t i, hits = 1;

	while (max > 0 && g->total > max && hits > 0) {
		hits = 0;
		for (i = 0; i < g->n_candidate && g->total > max; i++)
			hits += (size_t)choose_old(g, g->candidate[i].model,
			    g->candidate[i].i);
	}
}

/* Chooses orphans and dead ends older than LITTER_S, children first. */
static void
choose_useless(struct gc *g, struct model *m)
{
	int64_t limit = ((int64_t)m->now - LITTER_S) * 1000000000;
	size_t i;

	for (i = m->f.sc.n_file; i-- > 0; ) {
		if (!is_left(m, i) || m->f.sc.file[i].used >= limit)
			continue;
		if (is_dead_end(m, i) || (!m->f.tree.reachable[i] &&
		    m->f.tree.children[i] == 0))
			choose(g, m, i);
	}
}

/* --------------------------------------------------------- temporary files */

/*
 * Returns the time of the folder's file system, whose clock may differ from
 * this machine's.
 */
static time_t
folder_time(const struct qwen_store_scan *sc)
{
	char temp[QWEN_STORE_TEMP_NAME];
	struct qwen_tmpfile d;
	struct stat st;
	time_t now = time(NULL);

	if (qwen_store_draft(&d, sc, temp, 0600, NULL) < 0)
		return now;
	if (fstat(d.fd, &st) == 0)
		now = st.st_mtime;
	qwen_tmpfile_drop(&d);
	return now;
}

static void
remove_temps(const struct qwen_store_scan *sc, time_t now,
    struct qwen_store_sweep *w)
{
	const char *name;
	struct stat st;
	size_t i;

	for (i = 0; i < sc->temp.n; i++) {
		name = sc->temp.name[i];
		if (fstatat(sc->fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1)
			continue;
		/* without file locks the age decides */
		if (!qwen_tmpfile_sweep(sc->fd, name) &&
		    (st.st_mtime >= now - LITTER_S ||
		    qwen_tmpfile_in_use(sc->fd, name) ||
		    unlinkat(sc->fd, name, 0) == -1))
			continue;
		w->others++;
		w->other_bytes += (uint64_t)st.st_size;
	}
}

/* ---------------------------------------------------------------------- gc */

/*
 * Runs one round: 1 if all chosen files were removed, 0 if not, -1 on errors.
 */
static int
round_of(const struct qwen_store *st, uint64_t max, int eager,
    struct qwen_store_gc_result *out, struct qwen_err *err)
{
	struct qwen_store_sweep w = { 0 };
	struct gc g = { 0 };
	struct model *m;
	uint64_t chosen;
	int r = init(&g, st, err);

	if (r == 0) {
		out->left_files = g.n_left;
		out->left_bytes = g.total;
	}
	for (m = g.model; r == 0 && m < g.model + g.n_model; m++) {
		m->now = folder_time(&m->f.sc);
		remove_temps(&m->f.sc, m->now, &w);
		choose_useless(&g, m);
	}
	if (max == QWEN_STORE_MAX_DEFAULT)
		max = qwen_disk_limit(st->dir, g.total);
	if (r == 0)
		choose_by_age(&g, max);
	chosen = out->left_files - g.n_left;
	for (m = g.model; r == 0 && m < g.model + g.n_model; m++) {
		w.gone_before = m->now - GONE_S;
		w.all_gone = eager;
		r = qwen_store_sweep(&m->f.sc, &w, err);
	}
	out->left_files -= w.chosen;
	out->left_bytes -= w.chosen_bytes;
	out->files += w.chosen + w.others;
	out->bytes += w.chosen_bytes + w.other_bytes;
	fini(&g);
	return r < 0 ? -1 : w.chosen == chosen;
}

/* Repeats rounds while other processes interfere. */
static int
collect(const struct qwen_store *st, uint64_t max, int eager,
    struct qwen_store_gc_result *out, struct qwen_err *err)
{
	int i, r = 0;

	memset(out, 0, sizeof *out);
	for (i = 0; i < ROUNDS && r == 0; i++)
		r = round_of(st, max, eager, out, err);
	return r < 0 ? -1 : 0;
}

int
qwen_store_gc(struct qwen_store *st, uint64_t max,
    struct qwen_store_gc_result *out, struct qwen_err *err)
{
	struct qwen_store_gc_result unused;

	return collect(st, max, 1, out != NULL ? out : &unused, err);
}

int
qwen_store_clean(struct qwen_store *st, struct qwen_err *err)
{
	struct qwen_store_gc_result unused;

	return collect(st, st->by_disk ? QWEN_STORE_MAX_DEFAULT : st->max, 0,
	    &unused, err);
}
