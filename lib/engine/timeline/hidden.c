/* SPDX-License-Identifier: ISC */
/*
 * hidden.c - what a session keeps for the MTP block: the trunk's hidden states at
 * the last positions, and which rows of the block have keys and values (mtp.c in
 * pass/).
 */
#include <string.h>

#include "engine/timeline/timeline.h"

static float *
hidden_row(const struct qwen_session *s, size_t pos)
{
	return s->mtp.hidden + pos % QWEN_HIDDEN_ROWS *
	    s->model->net.hp.n_embd;
}

size_t
qwen_hidden_bytes(const struct qwen_net *net)
{
	return net->mtp.on ? QWEN_HIDDEN_ROWS * net->hp.n_embd * sizeof(float) :
	    0;
}

const float *
qwen_hidden_at(const struct qwen_session *s, size_t pos)
{
	const struct qwen_mtp_state *p = &s->mtp;

	return p->hidden != NULL && pos >= p->first && pos < p->end ?
	    hidden_row(s, pos) : NULL;
}

/* Notes that rows of n positions from pos on are there now. */
static void
note_hidden(struct qwen_mtp_state *p, size_t pos, size_t n)
{
	if (pos < p->first || pos > p->end)
		p->first = pos;
	p->end = pos + n;
	if (p->end - p->first > QWEN_HIDDEN_ROWS)
		p->first = p->end - QWEN_HIDDEN_ROWS;
}

void
qwen_hidden_keep(struct qwen_session *s, size_t pos, const float *x, size_t n)
{
	size_t i, row = s->model->net.hp.n_embd;

	for (i = n > QWEN_HIDDEN_ROWS ? n - QWEN_HIDDEN_ROWS : 0; i < n; i++)
		memcpy(hidden_row(s, pos + i), x + i * row, row * sizeof *x);
	note_hidden(&s->mtp, pos, n);
}

void
qwen_hidden_set(struct qwen_session *s, const float *hidden)
{
	if (s->mtp.hidden != NULL && s->n_tokens > 0)
		qwen_hidden_keep(s, s->n_tokens - 1, hidden, 1);
}

/* ------------------------------------------------------- which rows there are */

static size_t
round_up(size_t n)
{
	return (n + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK * QWEN_KV_BLOCK;
}

/* Returns the position of the first row that is missing, maybe after the end. */
static size_t
next_row(const struct qwen_mtp_state *p)
{
	return p->filled > p->from + 1 ? p->filled : p->from + 1;
}

size_t
qwen_session_first_written(const struct qwen_session *s)
{
	size_t at = s->n_tokens;

	if (s->mtp.hidden != NULL && next_row(&s->mtp) - 1 < at)
		at = next_row(&s->mtp) - 1;
	return at / QWEN_KV_BLOCK;
}

/* Are all hidden states there that the missing rows before n need? */
static int
can_catch_up(const struct qwen_mtp_state *p, size_t n)
{
	size_t at = next_row(p);

	return at >= n || (at - 1 >= p->first && n - 1 <= p->end);
}

unsigned
qwen_mtp_whole(const struct qwen_session *s)
{
	const struct qwen_mtp_state *p = &s->mtp;
	size_t n = s->n_tokens;

	if (p->hidden == NULL || p->from > 0 || (n > 0 &&
	    (!can_catch_up(p, n) || qwen_hidden_at(s, n - 1) == NULL)))
		return 0;
	return s->model->net.mtp.parts;
}

void
qwen_mtp_cut(struct qwen_session *s, size_t n)
{
	struct qwen_mtp_state *p = &s->mtp;

	if (p->filled > n)
		p->filled = n;
	if (p->end > n)
		p->end = n > p->first ? n : p->first;
	if (p->from > n || !can_catch_up(p, n))
		p->from = round_up(n);
}

void
qwen_mtp_copy(struct qwen_session *to, const struct qwen_session *from)
{
	float *own = to->mtp.hidden;

	if (own == NULL)
		return;
	to->mtp = from->mtp;
	to->mtp.hidden = own;
	memcpy(own, from->mtp.hidden, QWEN_HIDDEN_ROWS *
	    from->model->net.hp.n_embd * sizeof *own);
}

size_t
qwen_mtp_next_row(const struct qwen_session *s)
{
	return next_row(&s->mtp);
}

size_t
qwen_session_mtp_from(const struct qwen_session *s)
{
	return s->mtp.from;
}

void
qwen_session_mtp_set(struct qwen_session *s, size_t from, size_t n,
    const float *hidden)
{
	s->mtp.from = from;
	s->mtp.filled = n;
	if (hidden != NULL && n > 0)
		qwen_hidden_keep(s, n - 1, hidden, 1);
}
