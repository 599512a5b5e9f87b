/* SPDX-License-Identifier: ISC */
/*
 * gc.c - which files go: first what is of no use to anybody, then, down to the
 * limit, what was not used for the longest time.
 *
 * A checkpoint can go at any time.  Of the runs only those can that no other
 * one goes on from; they were last used when the last of their descendants was
 * or later, so the oldest go first without any of them being in the way.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"

enum {
	LITTER_S = 3600,	/* nobody is at it any more */
	GONE_S = 60,		/* nor at this, which takes milliseconds */
	ROUNDS = 3,
};

struct file {
	int64_t		 used;
	uint64_t	 bytes;
	int		 there;		/* and not chosen yet */
	int		 chosen;
};

/* A model's folder. */
struct model {
	struct qwen_store_scan sc;
	struct qwen_store_tree tree;
	struct file	*file;
	time_t		 now;		/* there */
};

/* All that can be chosen, oldest first. */
struct item {
	struct model	*model;
	size_t		 i;
	int64_t		 used;
};

struct gc {
	struct model	*model;
	size_t		 n_model;
	struct item	*item;
	size_t		 n_item;
	uint64_t	 total;		/* bytes, less what is chosen */
	uint64_t	 n_left;	/* files, likewise */
};

/* ----------------------------------------------------------- what there is */

static int
stat_files(struct model *m, struct gc *g, struct qwen_err *err)
{
	char name[QWEN_STORE_NAME];
	struct stat st;
	size_t i;

	m->file = qwen_alloc(m->sc.n_file + 1, sizeof *m->file);
	if (m->file == NULL)
		return qwen_oom(err);
	for (i = 0; i < m->sc.n_file; i++) {
		qwen_store_name_format(&m->sc.file[i].n, name);
		if (fstatat(m->sc.fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1 ||
		    !S_ISREG(st.st_mode))
			continue;
		m->file[i].there = 1;
		m->file[i].used = qwen_store_used(&st);
		m->file[i].bytes = (uint64_t)st.st_size;
		g->total += m->file[i].bytes;
		g->n_left++;
	}
	return 0;
}

static int
by_use(const void *a, const void *b)
{
	const struct item *p = a, *q = b;

	if (p->used != q->used)
		return p->used < q->used ? -1 : 1;
	/* of one time: children before their parents */
	return (p->i < q->i) - (p->i > q->i);
}

static int
sort_files(struct gc *g, struct qwen_err *err)
{
	struct item *p;
	size_t i, k;

	g->item = p = qwen_alloc(g->n_left + 1, sizeof *g->item);
	if (p == NULL)
		return qwen_oom(err);
	for (k = 0; k < g->n_model; k++) {
		for (i = 0; i < g->model[k].sc.n_file; i++) {
			if (!g->model[k].file[i].there)
				continue;
			*p++ = (struct item){ &g->model[k], i,
			    g->model[k].file[i].used };
		}
	}
	g->n_item = (size_t)(p - g->item);
	if (g->n_item > 0)
		qsort(g->item, g->n_item, sizeof *g->item, by_use);
	return 0;
}

static void
fini(struct gc *g)
{
	size_t k;

	for (k = 0; k < g->n_model; k++) {
		qwen_store_tree_fini(&g->model[k].tree);
		qwen_store_scan_fini(&g->model[k].sc);
		free(g->model[k].file);
	}
	free(g->model);
	free(g->item);
	memset(g, 0, sizeof *g);
}

static int
init(struct gc *g, const struct qwen_store *st, struct qwen_err *err)
{
	char **names;
	size_t i, n;
	int r = 0;

	memset(g, 0, sizeof *g);
	if (qwen_store_models(st, &names, &n, err) < 0)
		return -1;
	if ((g->model = qwen_alloc(n + 1, sizeof *g->model)) == NULL)
		r = qwen_oom(err);
	for (i = 0; i < n && r == 0; i++) {
		struct model *m = &g->model[g->n_model++];

		r = qwen_store_scan(&m->sc, st, names[i], 0, err);
		if (r >= 0 && (r = qwen_store_tree(&m->tree, &m->sc, err)) == 0)
			r = stat_files(m, g, err);
	}
	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
	if (r < 0 || sort_files(g, err) < 0) {
		fini(g);
		return -1;
	}
	return 0;
}

/* --------------------------------------------------------------- what goes */

static void
choose(struct gc *g, struct model *m, size_t i)
{
	struct qwen_store_scan *sc = &m->sc;
	size_t k, n;

	m->file[i].there = 0;
	m->file[i].chosen = 1;
	g->total -= m->file[i].bytes;
	g->n_left--;
	if (sc->file[i].n.kind == QWEN_STORE_CHECKPOINT ||
	    sc->file[i].n.from == 0)
		return;
	k = qwen_store_files_at(sc, sc->file[i].n.from, &sc->file[i].n.parent,
	    &n);
	for (; n > 0; k++, n--) {
		if (sc->file[k].n.kind == QWEN_STORE_KV)
			m->tree.children[k]--;
	}
}

static int
has_checkpoint(const struct model *m, size_t i)
{
	size_t c = m->tree.checkpoint[i];

	return c != QWEN_STORE_NONE && m->file[c].there;
}

/* A run that leads to nothing: no way on from it, nor any from its end. */
static int
is_dead_end(const struct model *m, size_t i)
{
	return m->sc.file[i].n.kind == QWEN_STORE_KV && m->file[i].there &&
	    m->tree.children[i] == 0 && !has_checkpoint(m, i) &&
	    !qwen_store_any_cut(&m->sc.file[i].n);
}

/* Then nor do those before it that were there for its sake. */
static void
choose_up(struct gc *g, struct model *m, size_t i)
{
	while (i != QWEN_STORE_NONE && is_dead_end(m, i)) {
		choose(g, m, i);
		i = m->tree.parent[i];
	}
}

/* The oldest, which goes unless another one needs it. */
static int
choose_old(struct gc *g, struct model *m, size_t i)
{
	if (!m->file[i].there)
		return 0;
	if (m->sc.file[i].n.kind == QWEN_STORE_CHECKPOINT) {
		choose(g, m, i);
		choose_up(g, m, m->tree.parent[i]);
		return 1;
	}
	if (m->tree.children[i] > 0)
		return 0;
	if (has_checkpoint(m, i))
		choose(g, m, m->tree.checkpoint[i]);
	choose(g, m, i);
	choose_up(g, m, m->tree.parent[i]);
	return 1;
}

static void
choose_by_age(struct gc *g, uint64_t max)
{
	size_t i, hits = 1;

	while (max > 0 && g->total > max && hits > 0) {
		hits = 0;
		for (i = 0; i < g->n_item && g->total > max; i++)
			hits += (size_t)choose_old(g, g->item[i].model,
			    g->item[i].i);
	}
}

/* Orphans and dead ends, children first, once they have had their time. */
static void
choose_useless(struct gc *g, struct model *m)
{
	int64_t limit = ((int64_t)m->now - LITTER_S) * 1000000000;
	size_t i;

	for (i = m->sc.n_file; i-- > 0; ) {
		if (!m->file[i].there || m->file[i].used >= limit)
			continue;
		if (is_dead_end(m, i) || (!m->tree.there[i] &&
		    m->tree.children[i] == 0))
			choose(g, m, i);
	}
}

/* ------------------------------------------------------------- temporaries */

/* The folder's idea of the present, which is not that of this machine. */
static time_t
folder_time(const struct qwen_store_scan *sc)
{
	char name[sizeof QWEN_STORE_TEMP + QWEN_STORE_UNIQUE];
	char unique[QWEN_STORE_UNIQUE];
	struct stat st;
	time_t now = time(NULL);
	int fd;

	qwen_store_unique(unique);
	snprintf(name, sizeof name, QWEN_STORE_TEMP "%s", unique);
	fd = openat(sc->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd == -1)
		return now;
	if (fstat(fd, &st) == 0)
		now = st.st_mtime;
	close(fd);
	unlinkat(sc->fd, name, 0);
	return now;
}

/* Whether a writer still holds its lock, where there are locks. */
static int
is_locked(const struct qwen_store_scan *sc, const char *name)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd, r;

	fd = openat(sc->fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK |
	    O_CLOEXEC);
	if (fd == -1)
		return 0;
	r = fcntl(fd, F_SETLK, &lock) == -1 &&
	    (errno == EAGAIN || errno == EACCES);
	close(fd);
	return r;
}

static void
remove_temps(const struct qwen_store_scan *sc, time_t now,
    struct qwen_store_sweep *w)
{
	struct stat st;
	size_t i;

	for (i = 0; i < sc->n_temp; i++) {
		if (fstatat(sc->fd, sc->temp[i], &st, AT_SYMLINK_NOFOLLOW) ==
		    -1 || st.st_mtime >= now - LITTER_S ||
		    is_locked(sc, sc->temp[i]))
			continue;
		if (unlinkat(sc->fd, sc->temp[i], 0) == 0) {
			w->others++;
			w->other_bytes += (uint64_t)st.st_size;
		}
	}
}

/* ---------------------------------------------------------------- together */

static int
sweep_model(struct model *m, int eager, struct qwen_store_sweep *w,
    struct qwen_err *err)
{
	size_t i, n = m->sc.n_file, *victim = qwen_alloc(n + 1, sizeof *victim);
	int64_t *used = qwen_alloc(n + 1, sizeof *used);
	int r = -1;

	if (victim == NULL || used == NULL) {
		qwen_oom(err);
		goto out;
	}
	for (i = 0, w->n = 0; i < n; i++) {
		if (m->file[i].chosen) {
			victim[w->n] = i;
			used[w->n++] = m->file[i].used;
		}
	}
	w->victim = victim;
	w->used = used;
	w->gone_before = eager ? m->now + LITTER_S : m->now - GONE_S;
	r = qwen_store_sweep(&m->sc, w, err);
out:
	free(victim);
	free(used);
	return r;
}

/* One round: 1 if all that was chosen has gone, 0 if not. */
static int
round_of(const struct qwen_store *st, uint64_t max, int eager,
    struct qwen_store_gc_result *out, struct qwen_err *err)
{
	struct qwen_store_sweep w = { 0 };
	uint64_t chosen;
	size_t k;
	struct gc g;
	int r = 0;

	if (init(&g, st, err) < 0)
		return -1;
	out->left_files = g.n_left;
	out->left_bytes = g.total;
	for (k = 0; k < g.n_model; k++) {
		g.model[k].now = folder_time(&g.model[k].sc);
		remove_temps(&g.model[k].sc, g.model[k].now, &w);
		choose_useless(&g, &g.model[k]);
	}
	choose_by_age(&g, max);
	chosen = out->left_files - g.n_left;
	for (k = 0; k < g.n_model && r == 0; k++)
		r = sweep_model(&g.model[k], eager, &w, err);
	out->left_files -= w.victims;
	out->left_bytes -= w.victim_bytes;
	out->files += w.victims + w.others;
	out->bytes += w.victim_bytes + w.other_bytes;
	fini(&g);
	return r < 0 ? -1 : w.victims == chosen;
}

/* Again if others came in between. */
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

	return collect(st, st->max, 0, &unused, err);
}
