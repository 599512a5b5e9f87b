/* SPDX-License-Identifier: ISC */
/*
 * journal.c - what the recurrent state takes of tokens, by position: of guesses,
 * until they are in the state, and of the last tokens where these can be taken
 * back, over a state from before them.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/timeline.h"

/*
 * Tokens by which the state before those that can be taken back moves on at
 * once: a step reads and writes all of it.
 */
enum { STEP = 16 };

#define NOWHERE SIZE_MAX

void
qwen_journal_free(struct qwen_journal *j, size_t recurrent_bytes)
{
	if (j == NULL)
		return;
	qwen_unmap(j->row, j->row_bytes);
	qwen_unmap(j->base, recurrent_bytes);
	free(j);
}

/*
 * With rows for guesses, and for n tokens that can be taken back.  Memory is
 * used as it is touched: by few guesses a row of all layers, else all rows of
 * the layers that have such a state.
 */
static struct qwen_journal *
make(const struct qwen_session *s, size_t n)
{
	struct qwen_journal *j = qwen_alloc(1, sizeof *j);
	size_t width = qwen_journal_row_of(&s->model->net.hp).width, rows;

	if (j == NULL)
		return NULL;
	j->back = n;
	j->n_row = n == 0 ? QWEN_GUESS_MAX : n + QWEN_GUESS_MAX + STEP;
	j->base_at = s->n_tokens == 0 ? 0 : NOWHERE;
	if (qwen_mul(j->n_row, s->mem.n_layer, &rows) < 0 ||
	    qwen_mul(rows, width * sizeof(float), &j->row_bytes) < 0 ||
	    (j->row = qwen_map_zero(j->row_bytes)) == NULL || (n > 0 &&
	    (j->base = qwen_map_zero(s->mem.recurrent_bytes)) == NULL)) {
		qwen_journal_free(j, s->mem.recurrent_bytes);
		return NULL;
	}
	j->by_row = n == 0 ? s->mem.n_layer * width : width;
	j->by_layer = n == 0 ? width : j->n_row * width;
	return j;
}

int
qwen_journal_need(struct qwen_session *s)
{
	if (s->mem.recurrent_bytes > 0 && s->mem.journal == NULL) {
		qwen_memory_return(s);	/* devices make one, too */
		s->mem.journal = make(s, 0);
	}
	return s->mem.recurrent_bytes == 0 || s->mem.journal != NULL ? 0 : -1;
}

int
qwen_session_track(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	struct qwen_journal *j = NULL;

	if (n > QWEN_TRACK_MAX)
		return qwen_fail(err, QWEN_ERANGE, "tracking of %zu tokens; at "
		    "most %d are supported", n, QWEN_TRACK_MAX);
	if (s->mem.recurrent_bytes == 0 ||
	    (s->mem.journal != NULL && s->mem.journal->back == n))
		return 0;
	if (n > 0 && (j = make(s, n)) == NULL)
		return qwen_oom(err);
	qwen_ahead_cut(s, 0);
	qwen_ahead_catch_up(s);
	qwen_memory_return(s);
	qwen_journal_free(s->mem.journal, s->mem.recurrent_bytes);
	s->mem.journal = j;
	return 0;
}

/* ------------------------------------------------------------------- a pass */

void
qwen_journal_replay(const struct qwen_session *s, int base, size_t from,
    size_t n)
{
	const struct qwen_placement *p = &s->model->place;
	struct qwen_memory *m = (struct qwen_memory *)(uintptr_t)&s->mem;
	size_t i;

	for (i = 0; i < p->n; i++) {
		if (i > 0 && (m->there >> (i - 1) & 1) == 0)
			continue;
		p->on[i]->dev->replay(p->on[i], m, base, from, n);
		m->stale |= (unsigned char)(i > 0 ? 1u << (i - 1) : 0);
	}
}

void
qwen_journal_plan(struct qwen_session *s, struct qwen_share *p)
{
	struct qwen_journal *j = s->mem.journal;
	size_t end = p->pos + p->n_sure, to;

	p->base = 0;
	p->noted = p->n_sure;
	p->owed = qwen_ahead_owed(s);
	if (j == NULL || j->back == 0)
		return;
	if (p->n_sure > j->back) {
		p->base = p->n_sure - j->back;
		p->noted = p->base;
		j->base_at = p->pos + p->base;
		return;
	}
	p->noted = 0;
	if (j->base_at == NOWHERE) {
		qwen_ahead_catch_up(s);
		p->owed = 0;
		qwen_state_fetch(s);
		qwen_session_copy_recurrent(s, j->base, s->mem.recurrent);
		qwen_state_changed(s);
		j->base_at = p->pos;
	} else if (end + QWEN_GUESS_MAX - j->base_at > j->n_row) {
		to = end - j->back;
		qwen_journal_replay(s, 1, j->base_at, to - j->base_at);
		j->base_at = to;
	}
}

/* ---------------------------------------------------------------- going back */

int
qwen_journal_reaches(const struct qwen_session *s, size_t n)
{
	const struct qwen_journal *j = s->mem.journal;

	return j != NULL && j->back > 0 && j->base_at <= n &&
	    n <= s->n_tokens;
}

void
qwen_journal_go_back(struct qwen_session *s, size_t n)
{
	const struct qwen_journal *j = s->mem.journal;

	qwen_state_fetch(s);
	qwen_session_copy_recurrent(s, s->mem.recurrent, j->base);
	qwen_state_changed(s);
	if (n > j->base_at)
		qwen_journal_replay(s, 0, j->base_at, n - j->base_at);
}

void
qwen_journal_forget(struct qwen_session *s)
{
	if (s->mem.journal != NULL)
		s->mem.journal->base_at = NOWHERE;
}
