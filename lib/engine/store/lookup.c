/* SPDX-License-Identifier: ISC */
/*
 * lookup.c - restores the longest stored prefix of a prompt.
 *
 * All files of the prefix are opened before any is used, so that a sweep cannot
 * remove them in between.  If a file is unusable, the search continues without
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/session.h"
#include "engine/store/store.h"

enum {
	TRIES = 256,		/* maximum searches; each finds an unusable
				   file */
	RESCANS = 5,		/* maximum reads of the folder after files
				   vanished */
	PARTIALS = 16,		/* maximum runs opened to compare their first
				   tokens */
};

struct lookup {
	struct qwen_store *st;
	const struct qwen_header *model;
	const int32_t	*tokens;
	size_t		 n;
	struct qwen_store_scan sc;
	struct qwen_store_match match;
	int		 rescans;
	/* the result */
	struct qwen_state_file **chain;
	size_t		*file;		/* file of each run in the chain */
	size_t		 n_chain;
	size_t		 len;
	struct qwen_err	*err;
};

/* ---------------------------------------------------------- unusable files */

/*
 * Returns 1 for errors of the file's content, 0 for lack of memory, descriptors
 * or permissions.  An unsupported format is damage too: v1 contains only this
 * format.
 */
static int
is_damage(int code)
{
	return code == QWEN_EFORMAT || code == QWEN_ERANGE ||
	    code == QWEN_EMISMATCH || code == QWEN_EUNSUP ||
	    code == QWEN_ENUMERIC;
}

void
qwen_store_discard(struct qwen_store *st, struct qwen_store_scan *sc,
    size_t file, const struct qwen_err *err)
{
	char name[QWEN_STORE_NAME];
	struct qwen_err e;

	sc->file[file].bad = 1;
	qwen_store_name_format(&sc->file[file].n, name);
	if (!is_damage(err->code)) {
		qwen_store_warn(st, name, err);
		return;
	}
	e = *err;
	if (qwen_store_unlink(sc, file) == 0)
		qwen_fail(&e, err->code, "%s (removed)", err->msg);
	qwen_store_warn(st, name, &e);
}

void
qwen_store_touch(const struct qwen_store_scan *sc, size_t file)
{
	char name[QWEN_STORE_NAME];

	qwen_store_name_format(&sc->file[file].n, name);
	/* fails if another user owns the store */
	utimensat(sc->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

/*
 * Handles a file that could not be opened or has wrong content.  Returns 1 to
 * search again without it, -1 if that would not help.
 */
static int
skip_bad_file(struct lookup *l, size_t file, const struct qwen_err *err)
{
	struct stat st;

	if (err->code == QWEN_ENOMEM) {
		*l->err = *err;
		return -1;
	}
	/* it was removed, or removed and written again */
	if ((qwen_store_stat(&l->sc, file, &st) == -1 && errno == ENOENT) ||
	    (err->code == QWEN_EIO && l->rescans < RESCANS)) {
		l->sc.file[file].bad = 1;
		if (l->rescans++ < RESCANS &&
		    qwen_store_rescan(&l->sc, l->err) < 0)
			return l->err->code == QWEN_ENOMEM ? -1 : 1;
		return 1;
	}
	qwen_store_discard(l->st, &l->sc, file, err);
	return 1;
}

/* --------------------------------------------------------------- the chain */

static void
close_chain(struct lookup *l)
{
	while (l->n_chain > 0)
		qwen_state_close(l->chain[--l->n_chain]);
	free(l->chain);
	free(l->file);
	l->chain = NULL;
	l->file = NULL;
	l->len = 0;
}

/* Opens a file as file i of the chain; results as those of doubt(). */
static int
open_file(struct lookup *l, size_t i, size_t file)
{
	struct qwen_err err;

	if (qwen_store_node_open(&l->chain[i], &l->sc, file, l->model,
	    &err) < 0)
		return skip_bad_file(l, file, &err);
	l->file[i] = file;
	return 0;
}

/*
 * Opens the run as file i of the chain; all its tokens must be in the prompt.
 */
static int
open_run(struct lookup *l, size_t i, size_t file)
{
	const struct qwen_store_name *n = &l->sc.file[file].n;
	struct qwen_err err;
	int r;

	if ((r = open_file(l, i, file)) != 0)
		return r;
	if (qwen_store_node_common(l->chain[i], l->tokens + n->from,
	    l->n - (size_t)n->from) == n->end - n->from)
		return 0;
	qwen_fail(&err, QWEN_EFORMAT, "its tokens do not match its name");
	return skip_bad_file(l, file, &err);
}

/* Opens the runs up to the step, with room for one more file in the chain. */
static int
open_runs(struct lookup *l, size_t step)
{
	const struct qwen_store_match_step *s = &l->match.step[step];
	size_t i, n = s->depth;
	int r;

	close_chain(l);
	l->chain = qwen_alloc(n + 1, sizeof(*l->chain));
	l->file = qwen_alloc(n + 1, sizeof *l->file);
	if (l->chain == NULL || l->file == NULL)
		return qwen_oom(l->err);
	l->n_chain = n;
	for (i = n; i-- > 0; s = &l->match.step[s->prev]) {
		if ((r = open_run(l, i, s->kv)) != 0)
			return r;
	}
	return 0;
}

static int
open_checkpoint(struct lookup *l, size_t step)
{
	const struct qwen_store_match_step *s = &l->match.step[step];
	int r = open_file(l, l->n_chain, s->checkpoint);

	if (r != 0)
		return r;
	l->n_chain++;
	if (s->at < l->n || qwen_state_info(l->chain[l->n_chain - 1])->logits)
		return 0;
	/* the whole prompt, but without logits */
	l->sc.file[s->checkpoint].bad = 1;
	return 1;
}

/* ------------------------------------------ models without recurrent state */

/* A run whose first tokens the prompt shares. */
struct partial {
	size_t	 file;
	size_t	 step;		/* step where the run begins */
	uint64_t least, most;	/* bounds of the shared prefix, by the sketch */
};

static int
is_any_cut(const struct lookup *l)
{
	size_t i;

	for (i = 0; i < l->sc.n_file; i++) {
		if (l->sc.file[i].n.kind == QWEN_STORE_KV)
			return qwen_store_any_cut(&l->sc.file[i].n);
	}
	return 0;
}

/*
 * Finds runs that begin at a stored step of this prompt; returns their number.
 */
static size_t
find_partial(struct lookup *l, struct partial *partial)
{
	const struct qwen_store_file *f;
	size_t i, step, n = 0;

	for (i = 0; i < l->sc.n_file; i++) {
		f = &l->sc.file[i];
		if (f->bad || f->n.kind != QWEN_STORE_KV || f->n.from >= l->n)
			continue;
		step = qwen_store_match_at(&l->match, f->n.from);
		if (step == QWEN_STORE_NONE || !l->match.step[step].is_stored ||
		    !qwen_store_same(&l->match.step[step].hash, &f->n.parent))
			continue;
		partial[n++] = (struct partial){ i, step, f->n.from,
		    f->n.from };
	}
	return n;
}

/*
 * Returns the positions of all sketch levels of these runs within the prompt,
 * ascending, without duplicates.  NULL without memory.
 */
static uint64_t *
level_positions(const struct lookup *l, const struct partial *partial, size_t n,
    size_t *n_at)
{
	char *begins = qwen_alloc(l->match.n_step, 1);
	uint64_t *at = NULL, pos;
	size_t i, k, steps = 0, all = 0;

	if (begins == NULL)
		return NULL;
	for (i = 0; i < n; i++)
		begins[partial[i].step] = 1;
	for (i = 0; i < l->match.n_step; i++)
		steps += (size_t)begins[i];
	at = qwen_alloc(steps * QWEN_STORE_SKETCH + 1, sizeof *at);
	for (i = 0; at != NULL && i < l->match.n_step; i++) {
		for (k = 0; begins[i] && k < QWEN_STORE_SKETCH; k++) {
			pos = l->match.step[i].at + ((uint64_t)1 << k);
			if (pos <= l->n)
				at[all++] = pos;
		}
	}
	free(begins);
	*n_at = qwen_store_positions(at, all);
	return at;
}

/* Bounds the shared prefix by comparing the sketch with the prompt's hashes. */
static void
bound_shared(const struct lookup *l, struct partial *r, const uint64_t *at,
    const struct qwen_fp *hash, size_t n_at)
{
	const struct qwen_store_name *n = &l->sc.file[r->file].n;
	const uint64_t *p;
	uint64_t pos;
	unsigned k;

	r->most = n->end < l->n ? n->end : l->n;
	for (k = 0; k < n->n_sketch; k++) {
		pos = n->from + ((uint64_t)1 << k);
		if (pos > l->n)
			return;
		p = bsearch(&pos, at, n_at, sizeof *at, qwen_store_by_position);
		if (p == NULL || qwen_store_sketch(&hash[p - at]) !=
		    n->sketch[k]) {
			r->most = pos - 1;
			return;
		}
		r->least = pos;
	}
}

static int
best_first(const void *a, const void *b)
{
	const struct partial *p = a, *q = b;

	if (p->least != q->least)
		return p->least > q->least ? -1 : 1;
	return (p->most < q->most) - (p->most > q->most);
}

static int
bound_all(const struct lookup *l, struct partial *partial, size_t n)
{
	size_t i, n_at;
	uint64_t *at = level_positions(l, partial, n, &n_at);
	struct qwen_fp *hash = NULL;
	int r = -1;

	if (at == NULL)
		goto out;
	hash = malloc((n_at + 1) * sizeof *hash);
	if (hash == NULL || qwen_store_hash(l->tokens, at, n_at, hash) < 0)
		goto out;
	for (i = 0; i < n; i++)
		bound_shared(l, &partial[i], at, hash, n_at);
	qsort(partial, n, sizeof *partial, best_first);
	r = 0;
out:
	free(at);
	free(hash);
	return r;
}

/*
 * Opens the most promising runs and sets *best to the one that shares most
 * beyond l->len, and l->len to the shared length.
 */
static int
choose_partial(struct lookup *l, struct partial *partial, size_t n,
    struct partial *best)
{
	struct qwen_state_file *nd;
	size_t i, opened = 0, shared;
	uint64_t from;
	int r;

	for (i = 0; i < n && opened < PARTIALS; i++) {
		if (partial[i].most <= l->len)
			continue;
		opened++;
		l->n_chain = 1;
		if ((r = open_file(l, 0, partial[i].file)) != 0)
			return r;
		nd = l->chain[0];
		from = l->sc.file[partial[i].file].n.from;
		shared = qwen_store_node_common(nd, l->tokens + from,
		    l->n - (size_t)from);
		if (from + shared > l->len) {
			l->len = (size_t)from + shared;
			*best = partial[i];
		}
		qwen_state_close(nd);
		l->chain[0] = NULL;
	}
	return 0;
}

/*
 * Opens the chain to step and, if it helps, a run of which the prompt shares
 * the beginning.
 */
static int
open_partial(struct lookup *l, size_t step)
{
	struct partial *partial = malloc((l->sc.n_file + 1) * sizeof *partial),
	    best;
	size_t n, len;
	int r;

	best.file = QWEN_STORE_NONE;
	if (partial == NULL)
		return qwen_oom(l->err);
	n = find_partial(l, partial);
	if (bound_all(l, partial, n) < 0) {
		free(partial);
		return qwen_oom(l->err);
	}
	if ((r = open_runs(l, 0)) == 0) {
		l->len = (size_t)l->match.step[step].at;
		r = choose_partial(l, partial, n, &best);
	}
	free(partial);
	if (r != 0)
		return r;
	len = l->len;
	if (best.file != QWEN_STORE_NONE)
		step = best.step;
	if ((r = open_runs(l, step)) != 0)
		return r;
	if (best.file != QWEN_STORE_NONE) {
		if ((r = open_file(l, l->n_chain, best.file)) != 0)
			return r;
		l->n_chain++;
	}
	l->len = len;
	return 0;
}

static int
try_any_cut(struct lookup *l)
{
	size_t i = l->match.n_step;
	const struct qwen_store_match_step *s;
	int r;

	do
		s = &l->match.step[--i];
	while (!s->is_stored);
	if (s->at == l->n && s->checkpoint != QWEN_STORE_NONE) {
		if ((r = open_runs(l, i)) != 0 ||
		    (r = open_checkpoint(l, i)) != 0)
			return r;
		l->len = l->n;
		return 0;
	}
	if ((r = open_partial(l, i)) != 0)
		return r;
	/* without logits the last token must be evaluated again */
	if (l->len == l->n)
		l->len--;
	return 0;
}

/* --------------------------------------------- models with recurrent state */

static int
try_checkpoints(struct lookup *l)
{
	const struct qwen_store_match_step *s;
	size_t i = l->match.n_step;
	int r;

	do {
		if (i-- == 0)
			return 0;
		s = &l->match.step[i];
	} while (!s->is_stored || s->checkpoint == QWEN_STORE_NONE);
	if ((r = open_runs(l, i)) != 0 || (r = open_checkpoint(l, i)) != 0)
		return r;
	l->len = (size_t)s->at;
	return 0;
}

/* -------------------------------------------------------------- both kinds */

static int
locate(struct lookup *l)
{
	int i, r = 1;

	for (i = 0; i < TRIES && r == 1; i++) {
		qwen_store_match_fini(&l->match);
		close_chain(l);
		if (qwen_store_match(&l->match, &l->sc, l->tokens, l->n, NULL,
		    0, l->err) < 0)
			return -1;
		r = is_any_cut(l) ? try_any_cut(l) : try_checkpoints(l);
	}
	if (r != 0 || l->len == 0)
		close_chain(l);
	return r < 0 ? -1 : 0;
}

static void
fini(struct lookup *l)
{
	close_chain(l);
	qwen_store_match_fini(&l->match);
	qwen_store_scan_fini(&l->sc);
}

/* Returns 1 if there is a folder to search. */
static int
init(struct lookup *l, struct qwen_store *st, const struct qwen_header *model,
    const int32_t *tokens, size_t n, struct qwen_err *err)
{
	char name[QWEN_STORE_DIR_NAME];
	int r;

	memset(l, 0, sizeof *l);
	l->st = st;
	l->model = model;
	l->tokens = tokens;
	l->n = n;
	l->err = err;
	qwen_store_dir_format(model, name);
	r = qwen_store_scan(&l->sc, st, name, 0, err);
	if (r < 0 && err->code != QWEN_ENOMEM) {
		qwen_store_warn(st, "not used", err);
		r = 0;
	}
	return r == 1 && n == 0 ? 0 : r;
}

int
qwen_store_find(struct qwen_store *st, const struct qwen_header *model,
    const int32_t *tokens, size_t n, size_t *len, struct qwen_err *err)
{
	struct qwen_err unused;
	struct lookup l;
	int r;

	*len = 0;
	r = init(&l, st, model, tokens, n, err != NULL ? err : &unused);
	if (r == 1 && (r = locate(&l)) == 0)
		*len = l.len;
	fini(&l);
	return r;
}

/*
 * Finds the damaged file after a restore failed.  If all files are valid, the
 * last one is marked as bad.
 */
static int
find_bad_file(struct lookup *l, const struct qwen_err *why)
{
	struct qwen_err err;
	size_t i, hits = 0;
	int r = 1, good;

	for (i = 0; i < l->n_chain && r == 1; i++) {
		good = qwen_store_node_verify(&l->sc, l->file[i], 1,
		    &err) == 0;
		if (!good) {
			hits++;
			r = skip_bad_file(l, l->file[i], &err);
			if (l->rescans > 0)
				break;	/* the folder was read again: indices
					   changed */
		}
	}
	if (hits == 0) {
		qwen_store_warn(l->st, "not used", why);
		l->sc.file[l->file[l->n_chain - 1]].bad = 1;
	}
	return r;
}

static int
restore(struct lookup *l, struct qwen_session **out, struct qwen_model *m)
{
	struct qwen_session *s;
	struct qwen_err err;
	int i, r = 1;

	for (i = 0; i < TRIES && r == 1; i++) {
		if (locate(l) < 0)
			return -1;
		if (l->len == 0)
			return 0;
		if (qwen_state_restore(&s, NULL, m, l->chain, l->n_chain,
		    l->len, l->len == l->n, &err) == 0)
			break;
		if (err.code == QWEN_ENOMEM) {
			*l->err = err;
			return -1;
		}
		r = find_bad_file(l, &err);
	}
	if (i == TRIES || r < 0)
		return r < 0 ? -1 : 0;
	if (qwen_session_n_tokens(s) == 0 ||
	    qwen_session_n_tokens(s) > l->len ||
	    memcmp(qwen_session_tokens(s), l->tokens,
	    qwen_session_n_tokens(s) * sizeof *l->tokens) != 0) {
		qwen_session_free(s);
		return 0;
	}
	*out = s;
	return 0;
}

int
qwen_store_restore(struct qwen_store *st, struct qwen_session **out,
    struct qwen_model *m, const int32_t *tokens, size_t n,
    struct qwen_err *err)
{
	struct qwen_header self;
	struct qwen_err unused;
	struct lookup l;
	size_t i;
	int r;

	*out = NULL;
	if (err == NULL)
		err = &unused;
	if (qwen_model_header(&self, m, QWEN_STREAM_STATE, err) < 0)
		return -1;
	if ((r = init(&l, st, &self, tokens, n, err)) == 1)
		r = restore(&l, out, m);
	for (i = 0; *out != NULL && i < l.n_chain; i++)
		qwen_store_touch(&l.sc, l.file[i]);
	fini(&l);
	return r;
}
