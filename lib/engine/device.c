/* SPDX-License-Identifier: ISC */
/* device.c - what devices and those who use them agree on. */
#include <assert.h>

#include "engine/device.h"

/* Sets *least to the smaller of itself and n. */
static void
lower(_Atomic size_t *least, size_t n)
{
	size_t old = atomic_load(least);

	while (n < old && !atomic_compare_exchange_weak(least, &old, n))
		;
}

void
qwen_note_bad(const struct qwen_pass *p, size_t t, size_t place)
{
	struct qwen_share *s = &p->share[p->owner[t]];

	if (t - s->first < s->n_sure)
		lower(&s->bad, place);
	else
		lower(&s->good, t - s->first - s->n_sure);
}

int
qwen_any_good(const struct qwen_pass *p)
{
	size_t i;

	for (i = 0; i < p->n_share; i++) {
		if (atomic_load(&p->share[i].bad) == SIZE_MAX)
			return 1;
	}
	return 0;
}

void
qwen_pass_number(struct qwen_pass *p)
{
	size_t i, t;

	p->n = 0;
	for (i = 0; i < p->n_share; i++) {
		struct qwen_share *s = &p->share[i];

		s->first = p->n;
		for (t = 0; t < s->n; t++)
			p->owner[p->n++] = (uint32_t)i;
	}
}

size_t
qwen_pass_wanted(const struct qwen_pass *p, uint32_t *at)
{
	size_t i, t, n = 0;

	for (i = 0; i < p->n_share; i++) {
		const struct qwen_share *s = &p->share[i];

		for (t = s->want; t < s->n; t++)
			at[n++] = (uint32_t)(s->first + t);
	}
	return n;
}

void
qwen_pass_drop(struct qwen_pass *p)
{
	size_t i, t, n = 0;

	for (i = 0; i < p->n_share; i++) {
		struct qwen_share *s = &p->share[i];

		for (t = s->want; t < s->n; t++)
			p->row[n++] = p->row[s->first + t];
		s->n -= s->want;
		s->n_sure -= s->want;
		s->pos += s->want;
		s->want = 0;
	}
	qwen_pass_number(p);
}

struct qwen_journal_row
qwen_journal_row_of(const struct qwen_hparams *h)
{
	struct qwen_journal_row j;

	j.k = qwen_delta_row_of(h).z;
	j.v = j.k + h->n_head_k * h->dk;
	j.gates = j.v + h->n_head_v * h->dv;
	j.width = (j.gates + 2 * h->n_head_v + 15) / 16 * 16;
	return j;
}

size_t
qwen_draft_rows(const struct qwen_net *net, size_t *first)
{
	enum { LAST_ROWS = 512 };	/* of control tokens */
	size_t rest = net->hp.n_vocab - net->mtp.n_first;

	*first = net->mtp.n_first;
	return *first + (rest < LAST_ROWS ? rest : LAST_ROWS);
}
