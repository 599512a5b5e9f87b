/* SPDX-License-Identifier: ISC */
/*
 * ahead.c - guesses of what follows a timeline: from the pass that computes them
 * until they are read, or others are.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "engine/timeline/timeline.h"

size_t
qwen_session_n_guessed(const struct qwen_session *s)
{
	return s->ahead != NULL ? s->ahead->n - s->ahead->at : 0;
}

const int32_t *
qwen_session_guessed(const struct qwen_session *s)
{
	return s->ahead != NULL ? s->ahead->id + s->ahead->at : NULL;
}

/* ------------------------------------------------------------------- memory */

void
qwen_ahead_free(struct qwen_ahead *a)
{
	if (a == NULL)
		return;
	qwen_unmap(a->logits, a->logits_bytes);
	free(a);
}

/* Floats from a row of logits to the next one. */
static size_t
row_width(const struct qwen_net *net)
{
	return (net->hp.n_vocab + 15) / 16 * 16;
}

uint64_t
qwen_ahead_bytes(const struct qwen_net *net)
{
	size_t i, n = row_width(net);

	for (i = 0; i < net->hp.n_layer; i++) {
		if (net->layer[i].mixer == QWEN_DELTANET)
			n += qwen_journal_row_of(&net->hp).width;
	}
	return n * sizeof(float);
}

/* For as many guesses as there may be, once. */
static int
make(struct qwen_session *s)
{
	size_t row = row_width(&s->model->net), i;
	struct qwen_ahead *a;

	if (qwen_journal_need(s) < 0)
		return -1;
	if (s->ahead != NULL)
		return 0;
	if ((a = qwen_alloc(1, sizeof *a)) == NULL)
		return -1;
	if (qwen_mul(row, QWEN_GUESS_MAX * sizeof *a->logits,
	    &a->logits_bytes) < 0 ||
	    (a->logits = qwen_map_zero(a->logits_bytes)) == NULL) {
		free(a);
		return -1;
	}
	for (i = 0; i < QWEN_GUESS_MAX; i++)
		a->row[i] = a->logits + i * row;
	s->ahead = a;
	return 0;
}

size_t
qwen_ahead_reserve(struct qwen_session *s, size_t end, const int32_t *guess,
    size_t n)
{
	const struct qwen_hparams *h = &s->model->net.hp;
	size_t i, blocks;

	n = n < QWEN_GUESS_MAX ? n : QWEN_GUESS_MAX;
	n = n < h->n_ctx - end ? n : h->n_ctx - end;
	for (i = 0; i < n && guess[i] >= 0 && (size_t)guess[i] < h->n_vocab;)
		i++;
	n = i;
	if (n == 0 || make(s) < 0)
		return 0;
	blocks = (end + n + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
	if (s->cache->block_bytes == 0 || blocks <= s->mem.n_slot ||
	    (qwen_cache_check(s->cache, blocks - s->mem.n_slot, 0, NULL) == 0 &&
	    qwen_session_grow(s, blocks, NULL) == 0))
		return n;
	return s->mem.n_slot * QWEN_KV_BLOCK - end;
}

/* ------------------------------------------------------------------ reading */

size_t
qwen_ahead_match(const struct qwen_session *s, const int32_t *tokens, size_t n)
{
	size_t most = qwen_session_n_guessed(s), i;
	const int32_t *id = qwen_session_guessed(s);

	for (i = 0; i < n && i < most && id[i] == tokens[i];)
		i++;
	return i;
}

void
qwen_ahead_read(struct qwen_session *s)
{
	struct qwen_ahead *a = s->ahead;
	float *row = s->logits;

	assert(a->at < a->n && s->n_tokens < s->cap_tokens);
	s->logits = a->row[a->at];
	a->row[a->at] = row;
	s->tokens[s->n_tokens++] = a->id[a->at++];
	a->owed++;
}

void
qwen_ahead_begin(struct qwen_session *s, const int32_t *guess, size_t n,
    size_t n_written)
{
	struct qwen_ahead *a = s->ahead;

	if (a == NULL)
		return;
	a->n = n;
	a->at = a->owed = 0;
	a->end = s->n_tokens + n_written;
	if (n > 0)
		memcpy(a->id, guess, n * sizeof *a->id);
}

/* ----------------------------------------------------------------- dropping */

/* Zeroes positions from .. to - 1 in the KV cache. */
static void
clear(const struct qwen_session *s, size_t from, size_t to)
{
	size_t b, first, last;

	for (b = from / QWEN_KV_BLOCK; b * QWEN_KV_BLOCK < to; b++) {
		first = b * QWEN_KV_BLOCK < from ? from % QWEN_KV_BLOCK : 0;
		last = to - b * QWEN_KV_BLOCK;
		qwen_block_clear(s, b, first, last < QWEN_KV_BLOCK ? last :
		    QWEN_KV_BLOCK);
	}
}

void
qwen_ahead_cut(struct qwen_session *s, size_t n)
{
	struct qwen_ahead *a = s->ahead;
	size_t end = s->n_tokens + n, blocks;

	if (a == NULL || a->end <= end)
		return;
	assert(n <= a->n - a->at);
	a->n = a->at + n;
	blocks = (end + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
	clear(s, end, a->end < blocks * QWEN_KV_BLOCK ? a->end :
	    blocks * QWEN_KV_BLOCK);
	qwen_session_trim(s, blocks);
	a->end = end;
}

size_t
qwen_ahead_owed(const struct qwen_session *s)
{
	return s->ahead != NULL && s->mem.recurrent_bytes > 0 ? s->ahead->owed : 0;
}

void
qwen_ahead_catch_up(const struct qwen_session *s)
{
	size_t owed = qwen_ahead_owed(s);

	if (owed == 0)
		return;
	qwen_journal_replay(s, s->n_tokens - owed, owed);
	s->ahead->owed = 0;
}

void
qwen_ahead_hide(const struct qwen_session *s)
{
	struct qwen_ahead *a = s->ahead;

	qwen_ahead_catch_up(s);
	if (a == NULL || a->end <= s->n_tokens)
		return;
	clear(s, s->n_tokens, a->end);
	a->n = a->at;
	a->end = s->n_tokens;
}

size_t
qwen_ahead_take(struct qwen_session *s, int32_t *guess)
{
	struct qwen_ahead *a = s->ahead;
	size_t n = qwen_session_n_guessed(s);

	if (n > 0)
		memcpy(guess, a->id + a->at, n * sizeof *guess);
	if (a != NULL && a->end > s->n_tokens)
		clear(s, s->n_tokens, a->end);
	qwen_ahead_forget(s);
	return n;
}

void
qwen_ahead_forget(struct qwen_session *s)
{
	if (s->ahead != NULL)
		s->ahead->n = s->ahead->at = s->ahead->owed =
		    s->ahead->end = 0;
}

int
qwen_session_cut_cache(struct qwen_session *s, size_t n, struct qwen_err *err)
{
	if (qwen_blocks_cut(s, n, err) < 0)
		return -1;
	qwen_ahead_forget(s);
	return 0;
}
