/* SPDX-License-Identifier: ISC */
/*
 * match.c - finds the stored prefixes of a prompt.  The prompt is hashed once,
 * at all positions where a file ends.  Each file whose hash matches extends the
 * known prefix.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"

/*
 * Collects the positions, without duplicates: 0, ends of files up to n, cuts.
 */
static size_t
collect(uint64_t *at, const struct qwen_store_scan *sc, size_t n,
    const struct qwen_store_cut *cut, size_t n_cut)
{
	size_t i, k = 0;

	at[k++] = 0;
	for (i = 0; i < sc->n_file && sc->file[i].n.end <= n; i++) {
		if (sc->file[i].n.end != at[k - 1])
			at[k++] = sc->file[i].n.end;
	}
	if (n_cut == 0)
		return k;
	for (i = 0; i < n_cut; i++)
		at[k++] = cut[i].at;
	return qwen_store_positions(at, k);
}

size_t
qwen_store_match_at(const struct qwen_store_match *w, uint64_t at)
{
	const struct qwen_store_match_step *s = bsearch(&at, w->step, w->n_step,
	    sizeof *s, qwen_store_by_position);

	return s != NULL ? (size_t)(s - w->step) : QWEN_STORE_NONE;
}

/*
 * Extends the prefix by a run that ends at s.  Of several chains, keeps the one
 * with the fewest files.
 */
static void
extend(struct qwen_store_match *w, struct qwen_store_match_step *s,
    const struct qwen_store_name *n, size_t file)
{
	size_t i = qwen_store_match_at(w, n->from);
	const struct qwen_store_match_step *p;

	if (i == QWEN_STORE_NONE)
		return;
	p = &w->step[i];
	if (!p->is_stored || !qwen_store_same(&p->hash, &n->parent) ||
	    (s->is_stored && s->depth <= p->depth + 1))
		return;
	s->is_stored = 1;
	s->kv = file;
	s->prev = i;
	s->depth = p->depth + 1;
}

/*
 * Files are sorted by end, so the step where a run begins is already computed.
 */
void
qwen_store_match_again(struct qwen_store_match *w,
    const struct qwen_store_scan *sc)
{
	const struct qwen_store_file *f;
	struct qwen_store_match_step *s;
	size_t i, k = 0;

	for (i = 0; i < sc->n_file; i++) {
		f = &sc->file[i];
		while (k < w->n_step && w->step[k].at < f->n.end)
			k++;
		if (k == w->n_step)
			return;
		s = &w->step[k];
		if (f->bad || s->at != f->n.end ||
		    !qwen_store_same(&s->hash, &f->n.hash))
			continue;
		if (f->n.kind == QWEN_STORE_CHECKPOINT)
			s->checkpoint = i;
		else
			extend(w, s, &f->n, i);
	}
}

int
qwen_store_match(struct qwen_store_match *w, const struct qwen_store_scan *sc,
    const int32_t *tokens, size_t n, const struct qwen_store_cut *cut,
    size_t n_cut, struct qwen_err *err)
{
	size_t i, n_at, cap = sc->n_file + n_cut + 1;
	uint64_t *at = malloc(cap * sizeof *at);
	struct qwen_fp *hash = NULL;
	int r = -1;

	memset(w, 0, sizeof *w);
	if (at == NULL)
		goto out;
	n_at = collect(at, sc, n, cut, n_cut);
	hash = malloc(n_at * sizeof *hash);
	w->step = calloc(n_at, sizeof *w->step);
	if (hash == NULL || w->step == NULL ||
	    qwen_store_hash(tokens, at, n_at, hash) < 0)
		goto out;
	w->n_step = n_at;
	for (i = 0; i < n_at; i++) {
		w->step[i].at = at[i];
		w->step[i].hash = hash[i];
		w->step[i].kv = w->step[i].prev = QWEN_STORE_NONE;
		w->step[i].checkpoint = QWEN_STORE_NONE;
	}
	w->step[0].is_stored = 1;
	qwen_store_match_again(w, sc);
	r = 0;
out:
	free(at);
	free(hash);
	if (r < 0) {
		qwen_store_match_fini(w);
		qwen_oom(err);
	}
	return r;
}

void
qwen_store_match_fini(struct qwen_store_match *w)
{
	free(w->step);
	memset(w, 0, sizeof *w);
}
