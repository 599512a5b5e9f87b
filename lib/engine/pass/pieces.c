/* SPDX-License-Identifier: ISC */
/*
 * pieces.c - a pass in pieces, one behind the other, so that all ranks are busy:
 * while rank 1 computes the first piece, rank 0 computes the second.
 *
 * Pieces are rows that follow one another.  A session's rows may be cut between
 * two tokens: each rank computes the pieces in order, so the keys, values and state
 * of the first are there for the second.
 */
#include <string.h>

#include "base/mem.h"
#include "engine/pass/pass.h"

enum { PIECES_MAX = 16, PIECE_ROWS = 64 };	/* at least so many rows */

/*
 * Returns the first half of a layer that other ranks compute, if they compute all
 * after it, and sets *at to their place; else SIZE_MAX.
 */
static size_t
first_of_ranks(const struct qwen_placement *place, size_t *at)
{
	size_t i, end = 2 * place->net->hp.n_layer;

	*at = place->home[end - 1];
	if (!place->on[*at]->dev->ranks)
		return SIZE_MAX;
	for (i = end; i > 0 && place->home[i - 1] == *at; i--)
		;
	return memchr(place->home, (int)*at, i) == NULL ? i : SIZE_MAX;
}

static size_t
n_pieces(const struct qwen_cache *c, size_t n)
{
	size_t at, most = n / PIECE_ROWS < PIECES_MAX ? n / PIECE_ROWS :
	    PIECES_MAX;

	return first_of_ranks(&c->model->place, &at) == SIZE_MAX || most < 2 ?
	    1 : most;
}

size_t
qwen_pieces_rows(const struct qwen_cache *c, size_t n)
{
	size_t k = n_pieces(c, n), most = (n + k - 1) / k + QWEN_GUESS_MAX;

	/* fewer rows than n may be too few for pieces */
	if (k > 1 && most < 2 * PIECE_ROWS)
		most = 2 * PIECE_ROWS;
	return k == 1 ? n : most;
}

int
qwen_pieces_fit(struct qwen_cache *c, size_t n, size_t n_share)
{
	struct qwen_pass_memory *m = &c->pass;
	size_t cap[2] = { m->cap_piece, m->cap_piece };

	if (n_pieces(c, n) == 1)
		return 0;
	if (qwen_grow(&m->piece_row, &cap[0], n, sizeof *m->piece_row) < 0 ||
	    qwen_grow(&m->piece_owner, &cap[1], n, sizeof *m->piece_owner) < 0)
		return -1;
	m->cap_piece = n;
	return qwen_grow(&m->piece_share, &m->cap_piece_share, n_share +
	    PIECES_MAX, sizeof *m->piece_share);
}

/* Returns where a piece from row `from' on ends, which has about `want' rows. */
static size_t
end_of(const struct qwen_pass *p, size_t from, size_t want)
{
	const struct qwen_share *s;
	size_t end = from + want;

	if (end >= p->n)
		return p->n;
	/* a draft stays with the token before it */
	s = &p->share[p->owner[end]];
	return end == s->first || end - s->first < s->n_sure ? end :
	    s->first + s->n;
}

/* Sets the part of a share that is in rows from .. end - 1. */
static void
cut_share(struct qwen_share *out, const struct qwen_share *s, size_t from,
    size_t end)
{
	size_t skip = from > s->first ? from - s->first : 0;
	size_t last = end < s->first + s->n ? end : s->first + s->n;

	*out = (struct qwen_share){ .mem = s->mem, .pos = s->pos + skip,
	    .n = last - s->first - skip, .skip = s->skip,
	    .owed = skip == 0 ? s->owed : 0 };
	out->n_sure = s->n_sure - skip < out->n ? s->n_sure - skip : out->n;
	out->want = s->want > skip ? s->want - skip : 0;
	out->want = out->want < out->n ? out->want : out->n;
	atomic_store(&out->bad, atomic_load(&s->bad));
	atomic_store(&out->good, atomic_load(&s->good));
}

/* Makes the piece of rows from .. end - 1, whose shares are at `share'. */
static struct qwen_pass
make_piece(const struct qwen_cache *c, const struct qwen_pass *p, size_t from,
    size_t end, struct qwen_share *share)
{
	const struct qwen_pass_memory *m = &c->pass;
	struct qwen_pass q = { .row = m->piece_row + from, .owner =
	    m->piece_owner + from, .share = share, .last = p->last };
	size_t i;

	memcpy(q.row, p->row + from, (end - from) * sizeof *q.row);
	for (i = p->owner[from]; i <= p->owner[end - 1]; i++)
		cut_share(&share[q.n_share++], &p->share[i], from, end);
	qwen_pass_number(&q);
	return q;
}

static void
lower(_Atomic size_t *to, const _Atomic size_t *from)
{
	size_t n = atomic_load(from);

	if (n < atomic_load(to))
		atomic_store(to, n);
}

int
qwen_pieces_run(struct qwen_cache *c, struct qwen_pass *p)
{
	struct qwen_placement *place = &c->model->place;
	size_t n = place->net->hp.n_layer, n_embd = place->net->hp.n_embd;
	size_t k = n_pieces(c, p->n), at, half, i, j, from, end, first;
	size_t want = (p->n + k - 1) / k;
	struct qwen_share *share = c->pass.piece_share;
	struct qwen_pass piece[PIECES_MAX];
	float *x = c->pass.x;

	if (k == 1)
		return 0;
	half = first_of_ranks(place, &at);
	for (i = from = 0; from < p->n; from = end, i++) {
		end = end_of(p, from, want);
		piece[i] = make_piece(c, p, from, end, share);
		share += piece[i].n_share;
		qwen_pass_start(c, &piece[i], x + from * n_embd, half);
		place->on[at]->dev->put(c->work[at], &piece[i],
		    x + from * n_embd);
		place->on[at]->dev->run(c->work[at], &piece[i], half,
		    2 * n - half);
	}
	k = i;
	for (i = from = first = 0; i < k; i++) {
		place->on[at]->dev->get(c->work[at], &piece[i], x);
		x += piece[i].n * n_embd;
		end = end_of(p, from, want);
		first = p->owner[from];
		for (j = 0; j < piece[i].n_share; j++) {
			lower(&p->share[first + j].bad,
			    &piece[i].share[j].bad);
			lower(&p->share[first + j].good,
			    &piece[i].share[j].good);
		}
		from = end;
	}
	if (p->last < n)
		qwen_pass_drop(p);
	return 1;
}
