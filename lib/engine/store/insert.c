/* SPDX-License-Identifier: ISC */
/*
 * insert.c - stores a session: the missing runs up to each checkpoint and up to
 * the end, and the checkpoints themselves.
 *
 * A file is first written as a draft (base/tmpfile.h) under a unique name.  Under
 * its final name it is complete, and every process that writes it writes the
 * same content.  Then the folder is read again, until nothing is missing;
 * sweep.c explains why this keeps the tree whole.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/tmpfile.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/session.h"
#include "engine/store/store.h"

enum {
	ROUNDS = 32,	/* other processes may keep removing files */
	/*
	 * Maximum runs in a chain, since a reader opens all files of a chain.
	 * Beyond it, a run from token 0 starts another chain.
	 */
	MAX_DEPTH = 160,
	/* For models without recurrent state, runs end at multiples of this, */
	GRID = 256,
	/* or of 1/16 of the largest power of two up to the position. */
	GRID_PART = 16,
};

struct insert {
	struct qwen_store *st;
	const struct qwen_session *s;
	int		 any_cut;
	struct qwen_store_cut *cut;	/* positions to cut at, ascending */
	size_t		 n_cut, cap_cut;
	struct qwen_store_scan sc;
	struct qwen_store_match match;
	uint64_t	 bytes;		/* bytes of the session's files */
	size_t		 written;	/* files written in this round */
	struct qwen_err	*err;
};

/* ---------------------------------------------------------------- the cuts */

/* Returns the first position after `at' where all sessions are cut. */
static uint64_t
next_on_grid(uint64_t at)
{
	uint64_t step = GRID;

	while (step * 2 * GRID_PART <= at)
		step *= 2;
	return (at / step + 1) * step;
}

/* Returns 1 if a span has begun so few rows before that its ids may be others'. */
static int
is_few_rows(const struct insert *v, uint64_t at)
{
	size_t i, n;
	const struct qwen_span *p = qwen_session_spans(v->s, &n);

	for (i = 0; i < n; i++) {
		if (p[i].start < at && at - p[i].start < QWEN_SPAN_MIN)
			return 1;
	}
	return 0;
}

static int
add_cut(struct insert *v, uint64_t at, int checkpoint)
{
	if (is_few_rows(v, at))
		return 0;
	if (qwen_grow(&v->cut, &v->cap_cut, v->n_cut + 1, sizeof *v->cut) < 0)
		return qwen_oom(v->err);
	v->cut[v->n_cut++] = (struct qwen_store_cut){ at, checkpoint };
	return 0;
}

/* Joins cuts at the same position. */
static void
join_cuts(struct insert *v)
{
	size_t i, n = 0;

	if (v->n_cut == 0)
		return;
	qsort(v->cut, v->n_cut, sizeof *v->cut, qwen_store_by_position);
	for (i = 0; i < v->n_cut; i++) {
		if (n > 0 && v->cut[n - 1].at == v->cut[i].at)
			v->cut[n - 1].checkpoint |= v->cut[i].checkpoint;
		else
			v->cut[n++] = v->cut[i];
	}
	v->n_cut = n;
}

static int
plan(struct insert *v)
{
	uint64_t at, end = qwen_session_n_tokens(v->s);
	struct qwen_checkpoint c;
	size_t i;

	for (i = 0; i < qwen_session_n_checkpoints(v->s); i++) {
		qwen_session_checkpoint(v->s, i, &c);
		if (c.at > 0 && c.at < end &&
		    add_cut(v, c.at, !v->any_cut || c.logits) < 0)
			return -1;
	}
	for (at = v->any_cut ? next_on_grid(0) : end; at < end;
	    at = next_on_grid(at)) {
		if (add_cut(v, at, 0) < 0)
			return -1;
	}
	if (add_cut(v, end, !v->any_cut ||
	    qwen_session_logits(v->s) != NULL) < 0)
		return -1;
	join_cuts(v);
	return 0;
}

/* ---------------------------------------------------------------- one file */

/*
 * Writes one file.  Returns 1 if it exists now, 0 if it exceeds the limit, -1
 * on errors.
 */
static int
write_file(struct insert *v, const struct qwen_store_name *n)
{
	char temp[QWEN_STORE_TEMP_NAME], name[QWEN_STORE_NAME];
	struct qwen_tmpfile d;
	struct stat st;
	int r = -1;

	if (qwen_store_draft(&d, &v->sc, temp, 0666, v->err) < 0)
		return -1;
	qwen_store_name_format(n, name);
	d.name = name;
	if (qwen_store_node_save(d.fd, v->s, n, v->err) < 0)
		goto out;
	if (fstat(d.fd, &st) == -1) {
		qwen_fail_errno(v->err, "%s", name);
		goto out;
	}
	r = 0;
	v->bytes += (uint64_t)st.st_size;
	if (v->st->max > 0 && v->bytes > v->st->max)
		goto out;
	if (qwen_tmpfile_commit(&d) == 0) {
		v->written++;
		v->st->written += (uint64_t)st.st_size;
		close(d.fd);
		return 1;
	}
	r = qwen_fail_errno(v->err, "%s", name);
out:
	qwen_tmpfile_drop(&d);
	return r;
}

/* ----------------------------------------------------------- missing files */

/* Sets the sketch: half a byte of the hash at each level of the run. */
static int
make_sketch(const struct insert *v, struct qwen_store_name *n)
{
	uint64_t at[QWEN_STORE_SKETCH];
	struct qwen_fp hash[QWEN_STORE_SKETCH];
	unsigned k;

	n->n_sketch = qwen_store_levels(n->end - n->from);
	for (k = 0; k < n->n_sketch; k++)
		at[k] = n->from + ((uint64_t)1 << k);
	if (qwen_store_hash(qwen_session_tokens(v->s), at, n->n_sketch,
	    hash) < 0)
		return qwen_oom(v->err);
	for (k = 0; k < n->n_sketch; k++)
		n->sketch[k] = qwen_store_sketch(&hash[k]);
	return 0;
}

/* Writes the run to s from the last step before s whose KV is stored. */
static int
write_run(struct insert *v, struct qwen_store_match_step *s)
{
	struct qwen_store_name n = { .kind = QWEN_STORE_KV, .hash = s->hash,
	    .end = s->at };
	struct qwen_store_match_step *p = s;
	int r;

	do
		p--;
	while (!p->is_stored);
	if (p->depth >= MAX_DEPTH)
		p = v->match.step;
	n.parent = p->hash;
	n.from = p->at;
	if (v->any_cut && make_sketch(v, &n) < 0)
		return -1;
	if ((r = write_file(v, &n)) != 1)
		return r;
	s->is_stored = 1;
	s->prev = (size_t)(p - v->match.step);
	s->depth = p->depth + 1;
	return 1;
}

static int
write_checkpoint(struct insert *v, const struct qwen_store_match_step *s)
{
	struct qwen_store_name n = { .kind = QWEN_STORE_CHECKPOINT,
	    .hash = s->hash, .end = s->at, .parent = s->hash, .from = s->at };

	return write_file(v, &n);
}

/*
 * Writes the missing files.  A checkpoint is written before its run, so that no
 * run of a model with recurrent state is ever useless.
 */
static int
write_missing(struct insert *v)
{
	struct qwen_store_match_step *s;
	size_t i;
	int r = 1;

	for (i = 0; i < v->n_cut && r == 1; i++) {
		s = &v->match.step[qwen_store_match_at(&v->match,
		    v->cut[i].at)];
		if (v->cut[i].checkpoint && s->checkpoint == QWEN_STORE_NONE)
			r = write_checkpoint(v, s);
		if (r == 1 && !s->is_stored)
			r = write_run(v, s);
		if (r == 1)
			qwen_store_match_again(&v->match, &v->sc);
	}
	return r;
}

/*
 * Adds up the bytes of the runs that are already stored; touch: marks them as
 * used.
 */
static void
visit_chain(struct insert *v, int touch)
{
	const struct qwen_store_match_step *s = v->match.step + v->match.n_step;
	struct stat st;

	v->bytes = 0;
	do
		s--;
	while (!s->is_stored);
	for (; s->at > 0 && s->kv != QWEN_STORE_NONE;
	    s = &v->match.step[s->prev]) {
		if (qwen_store_stat(&v->sc, s->kv, &st) == 0)
			v->bytes += (uint64_t)st.st_size;
		if (touch)
			qwen_store_touch(&v->sc, s->kv);
	}
}

static int
match(struct insert *v)
{
	qwen_store_match_fini(&v->match);
	return qwen_store_match(&v->match, &v->sc, qwen_session_tokens(v->s),
	    qwen_session_n_tokens(v->s), v->cut, v->n_cut, v->err);
}

/*
 * Returns 1 if the file is a run of the session whose parent is missing.  Its
 * end may be stored nevertheless, through other runs.
 */
static int
is_orphan(const struct insert *v, const struct qwen_store_file *f)
{
	const struct qwen_store_match *w = &v->match;
	size_t i;

	if (f->n.kind != QWEN_STORE_KV || f->bad ||
	    f->n.end > qwen_session_n_tokens(v->s))
		return 0;
	i = qwen_store_match_at(w, f->n.end);
	if (!qwen_store_same(&w->step[i].hash, &f->n.hash))
		return 0;
	i = qwen_store_match_at(w, f->n.from);
	return i == QWEN_STORE_NONE || !w->step[i].is_stored;
}

/*
 * Adds cuts where orphans of the session begin: the session that stored them
 * was cut elsewhere.  Returns 1 if there are more cuts now.
 */
static int
adopt(struct insert *v)
{
	size_t i, n = v->n_cut;

	for (i = 0; i < v->sc.n_file; i++) {
		if (is_orphan(v, &v->sc.file[i]) && v->sc.file[i].n.from > 0 &&
		    add_cut(v, v->sc.file[i].n.from, 0) < 0)
			return -1;
	}
	if (v->n_cut > n)
		join_cuts(v);
	return v->n_cut > n;
}

/*
 * Returns 1 if the file belongs to the session but what it continues is
 * missing.
 */
static int
is_unreachable(const struct insert *v, const struct qwen_store_file *f)
{
	const struct qwen_store_match_step *s;

	if (f->n.kind == QWEN_STORE_KV ||
	    f->n.end > qwen_session_n_tokens(v->s))
		return is_orphan(v, f);
	s = &v->match.step[qwen_store_match_at(&v->match, f->n.end)];
	return !s->is_stored && qwen_store_same(&s->hash, &f->n.hash);
}

/*
 * Removes the files of this session that cannot be reached.  Called if the
 * session does not fit, or if other processes keep removing its beginning.
 * Ignores errors.
 */
static void
give_up(struct insert *v)
{
	struct qwen_err *err = v->err, unused;
	struct qwen_store_sweep w = { 0 };
	size_t i;

	v->err = &unused;
	if (qwen_store_rescan(&v->sc, &unused) == 0 && match(v) == 0) {
		for (i = 0; i < v->sc.n_file; i++)
			v->sc.file[i].to_remove = is_unreachable(v,
			    &v->sc.file[i]);
		qwen_store_sweep(&v->sc, &w, &unused);
	}
	v->err = err;
}

/*
 * Returns 1 if everything is stored (as far as other processes allow), 0 if it
 * exceeds the limit, -1 on errors.
 */
static int
insert(struct insert *v)
{
	int i, r = 1;

	for (i = 0; i < ROUNDS; i++) {
		v->written = 0;
		if (match(v) < 0 || (r = adopt(v)) < 0 ||
		    (r > 0 && match(v) < 0))
			return -1;
		visit_chain(v, 0);
		if ((r = write_missing(v)) != 1)
			break;
		if (v->written == 0) {
			visit_chain(v, 1);
			return 1;
		}
		/* sync the names too, if the file system can */
		fsync(v->sc.fd);
		if (qwen_store_rescan(&v->sc, v->err) < 0)
			return -1;
	}
	give_up(v);
	return r;
}

static void
fini(struct insert *v)
{
	qwen_store_match_fini(&v->match);
	qwen_store_scan_fini(&v->sc);
	free(v->cut);
}

static int
open_folder(struct insert *v)
{
	char name[QWEN_STORE_DIR_NAME];
	struct qwen_header self;

	if (qwen_model_header(&self, qwen_session_model(v->s),
	    QWEN_STREAM_STATE, v->err) < 0)
		return -1;
	qwen_store_dir_format(&self, name);
	return qwen_store_scan(&v->sc, v->st, name, 1, v->err);
}

/*
 * Returns 1 if the limit must be checked now: with a fixed limit after each
 * insertion; with a limit by the disk after the first insertion, and then each
 * time a hundredth of the limit was written.
 */
static int
is_due(struct qwen_store *st)
{
	if (!st->by_disk)
		return st->max > 0;
	if (st->max == 0 || st->written == 0 || st->written < st->next)
		return 0;
	st->written = 0;
	st->next = st->max / 100;
	return 1;
}

int
qwen_store_insert(struct qwen_store *st, const struct qwen_session *s,
    struct qwen_err *err)
{
	struct qwen_err e;
	struct insert v = { .st = st, .s = s, .sc.fd = -1, .err = &e,
	    .any_cut = qwen_session_view(s).recurrent_bytes == 0 };
	int r = -1, litter = 0;

	/* a store must contain only what evaluating the tokens would give */
	if (qwen_session_n_tokens(s) == 0 || qwen_session_converted(s))
		return 0;
	e.code = QWEN_EIO;
	if (plan(&v) == 0 && open_folder(&v) >= 0) {
		litter = v.sc.temp.n + v.sc.gone.n > 0;
		r = insert(&v);
	}
	if (r == 0)
		qwen_fail(&e, QWEN_ERANGE, "the state of %zu tokens exceeds "
		    "the store's limit of %llu bytes", qwen_session_n_tokens(s),
		    (unsigned long long)st->max);
	if (r >= 0 && (is_due(st) || litter) && qwen_store_clean(st, &e) < 0)
		r = -1;
	fini(&v);
	if (r == 1)
		return 0;
	if (e.code != QWEN_ENOMEM) {
		qwen_store_warn(st, "not written", &e);
		return 0;
	}
	if (err != NULL)
		*err = e;
	return -1;
}
