/* SPDX-License-Identifier: ISC */
/*
 * journal.c - the contributions of drafts to the recurrent state, which contains
 * them only after the next pass.
 */
#include "base/mem.h"
#include "engine/timeline/timeline.h"

void
qwen_journal_free(struct qwen_journal *j)
{
	if (j == NULL)
		return;
	qwen_unmap(j->row, j->row_bytes);
	free(j);
}

int
qwen_journal_need(struct qwen_session *s)
{
	struct qwen_journal *j;

	if (s->mem.recurrent_bytes == 0 || s->mem.journal != NULL)
		return 0;
	qwen_memory_return(s);	/* devices make room for it, too */
	if ((j = qwen_alloc(1, sizeof *j)) == NULL)
		return -1;
	j->by_layer = qwen_journal_row_of(&s->model->net.hp).width;
	j->by_row = s->mem.n_layer * j->by_layer;
	if (qwen_mul(j->by_row, QWEN_GUESS_MAX * sizeof *j->row,
	    &j->row_bytes) < 0 ||
	    (j->row = qwen_map_zero(j->row_bytes)) == NULL) {
		free(j);
		return -1;
	}
	s->mem.journal = j;
	return 0;
}

void
qwen_journal_replay(const struct qwen_session *s, size_t from, size_t n)
{
	const struct qwen_placement *p = &s->model->place;
	struct qwen_memory *m = (struct qwen_memory *)(uintptr_t)&s->mem;
	size_t i;

	for (i = 0; i < p->n; i++) {
		if (i > 0 && (m->there >> (i - 1) & 1) == 0)
			continue;
		p->on[i]->dev->replay(p->on[i], m, from, n);
		m->stale |= (unsigned char)(i > 0 ? 1u << (i - 1) : 0);
	}
}
