/* SPDX-License-Identifier: ISC */
/*
 * recover.c - a device has failed: the CPU becomes the home of its layers, and what
 * the device had of sessions is computed again from their tokens.
 *
 * A session goes back to where the host has all: its keys and values up to there,
 * and a checkpoint of the recurrent state, or the start.  The passes after that
 * write to the same memory, which other sessions may share: the bits are the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/pass/pass.h"

/* ----------------------------------------------------- which tokens are lost */

/* Returns the last position, at most `at', whose recurrent state the host has. */
static size_t
state_before(const struct qwen_session *s, size_t at)
{
	const struct qwen_kept *k = &s->end;
	size_t i;

	if ((k->recurrent != NULL || k->src != NULL) && k->c.at <= at)
		return (size_t)k->c.at;
	for (i = s->n_kept; i-- > 0;) {
		k = &s->kept[i];
		if ((k->recurrent != NULL || k->src != NULL) && k->c.at <= at)
			return (size_t)k->c.at;
	}
	return 0;
}

/*
 * Notes the tokens of a session that remote device r has, and the host lacks.  The
 * host's rows of the MTP block may be behind those of the trunk.
 */
static void
note_lost(struct qwen_session *s, size_t r)
{
	int has_mtp = s->mtp.hidden != NULL && s->model->place.home[QWEN_MIXER(
	    s->model->net.mtp.layer.index)] == r + 1;
	size_t at = s->n_tokens, b;

	for (b = 0; b < s->mem.n_slot; b++) {
		if ((s->mem.slot[b]->stale >> r & 1) == 0)
			continue;
		if (b * QWEN_KV_BLOCK + s->mem.slot[b]->filled < at)
			at = b * QWEN_KV_BLOCK + s->mem.slot[b]->filled;
		break;
	}
	if (b == s->mem.n_slot && (s->mem.stale >> r & 1) == 0)
		return;
	if (has_mtp && !s->converted)
		at = at > QWEN_HIDDEN_ROWS ? at - QWEN_HIDDEN_ROWS : 0;
	if (s->mem.recurrent_bytes > 0)
		at = state_before(s, at);
	if (!s->redo || at < s->redo_from)
		s->redo_from = at;
	if (!s->redo || s->n_tokens > s->redo_end)
		s->redo_end = s->n_tokens;
	s->redo = 1;
	s->redo_mtp |= has_mtp;
}

/* Remote device r has nothing any more. */
static void
forget_device(struct qwen_cache *c, size_t r)
{
	const unsigned char keep = (unsigned char)~(1u << r);
	struct qwen_session *s;
	struct qwen_slab *slab;
	size_t i;

	for (s = c->sessions; s != NULL; s = s->next) {
		s->mem.there &= keep;
		s->mem.stale &= keep;
	}
	for (slab = c->slab; slab != NULL; slab = slab->next) {
		for (i = 0; i < slab->n; i++) {
			slab->slot[i].there &= keep;
			slab->slot[i].stale &= keep;
		}
	}
}

/* Tells the user, once for each device. */
static void
tell(const struct qwen_model *m, const struct qwen_err *why)
{
	char text[sizeof why->msg + 96], again[64] = "";
	const struct qwen_session *s;
	const struct qwen_cache *c;
	size_t n = 0;

	for (c = m->caches; c != NULL; c = c->next) {
		for (s = c->sessions; s != NULL; s = s->next)
			n += s->redo ? s->redo_end - s->redo_from : 0;
	}
	if (n > 0)
		snprintf(again, sizeof again, ", and reads %zu token%s again",
		    n, n == 1 ? "" : "s");
	snprintf(text, sizeof text, "%s; the CPU continues%s", why->msg,
	    again);
	if (m->note != NULL)
		m->note(m->note_arg, text);
}

/* Makes the CPU the home of what device k has. */
static void
leave_device(struct qwen_model *m, size_t k, const struct qwen_err *why)
{
	size_t i, n = QWEN_HOMES(m->net.hp.n_layer);
	struct qwen_session *s;
	struct qwen_cache *c;

	for (c = m->caches; c != NULL; c = c->next) {
		for (s = c->sessions; s != NULL; s = s->next)
			note_lost(s, k - 1);
	}
	for (c = m->caches; c != NULL; c = c->next)
		forget_device(c, k - 1);
	for (i = 0; i < n; i++) {
		if (m->place.home[i] == k)
			m->place.home[i] = 0;
	}
	tell(m, why);
}

static void
leave_devices(struct qwen_model *m)
{
	struct qwen_err why;
	size_t k;

	while ((k = qwen_device_lost(m, &why)) != 0)
		leave_device(m, k, &why);
}

/* ------------------------------------------------------------ computing again */

/* The recurrent state at redo_from becomes that of the session. */
static int
take_state(struct qwen_session *s, struct qwen_err *err)
{
	const struct qwen_kept *k = NULL;
	size_t i;

	if (s->mem.recurrent_bytes == 0)
		return 0;
	for (i = 0; i < s->n_kept; i++) {
		if (s->kept[i].c.at == s->redo_from)
			k = &s->kept[i];
	}
	if (s->end.c.at == s->redo_from && s->redo_from > 0 &&
	    (s->end.recurrent != NULL || s->end.src != NULL))
		k = &s->end;
	qwen_state_changed(s);
	if (s->redo_from == 0)
		memset(s->mem.recurrent, 0, s->mem.recurrent_bytes);
	else if (k->src != NULL)
		return k->src->read(k->src, s, k->c.at, s->mem.recurrent, NULL,
		    NULL, &(int){ 0 }, err);
	else
		qwen_session_copy_recurrent(s, s->mem.recurrent, k->recurrent);
	return 0;
}

/* Lists the rows of the session's spans; fails if some are needed and gone. */
static int
list_rows(const struct qwen_session *s, struct qwen_span_rows **out,
    struct qwen_err *err)
{
	size_t i, k;

	if ((*out = qwen_alloc(s->n_rows + 1, sizeof **out)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < s->n_rows; i++)
		(*out)[i] = (struct qwen_span_rows){ s->rows[i]->span,
		    s->rows[i]->v };
	for (i = 0; i < s->n_span; i++) {
		const struct qwen_span *p = &s->span[i];

		if (p->start >= s->redo_end || p->start + p->n <= s->redo_from)
			continue;
		for (k = 0; k < s->n_rows && memcmp(&s->rows[k]->span, p,
		    sizeof *p) != 0; k++)
			;
		if (k == s->n_rows)
			return qwen_fail(err, QWEN_ENOMEM, "a card has failed, "
			    "and the rows of the image at position %llu are "
			    "no longer in memory: read the text again",
			    (unsigned long long)p->start);
	}
	return 0;
}

/*
 * Computes tokens from redo_from on, then the drafts that were not read.  Returns
 * 1 if one more device fails.
 */
static int
read_again(struct qwen_session *s, const int32_t *guess, size_t n_guess,
    const struct qwen_span_rows *rows, struct qwen_err *err)
{
	struct qwen_pass_part p = { .s = s, .guess = guess, .spans = rows,
	    .n_spans = s->n_rows };
	size_t batch, end = s->redo_end;

	if (s->redo_from == end)
		return 0;
	batch = qwen_batch_size(s->model, 0, end - s->redo_from, NULL);
	if (qwen_pass_fit(s->cache, batch + n_guess, 1, end + n_guess, 0,
	    err) < 0)
		return -1;
	for (s->n_tokens = s->redo_from; s->n_tokens < end;) {
		p.tokens = s->tokens + s->n_tokens;
		p.n_tokens = end - s->n_tokens < batch ? end - s->n_tokens :
		    batch;
		p.stop = s->n_tokens + p.n_tokens == end;
		p.n_guess = p.stop ? n_guess : 0;
		p.logits = p.n_guess > 0 ? QWEN_LOGITS_LAST : QWEN_LOGITS_NONE;
		if (qwen_pass_try(s->cache, &p, 1, NULL, NULL))
			return 1;
		if (p.failed) {
			if (err != NULL)
				*err = p.err;
			return -1;
		}
	}
	return 0;
}

/*
 * Notes which rows of the MTP block the passes are to compute: those that are lost.
 * The block had the rows before position `filled'.  A session that was converted is
 * not computed from further back than it must be, so there the block begins anew.
 */
static void
begin_block(struct qwen_session *s, size_t filled)
{
	size_t n = s->redo_from;

	if (!s->redo_mtp) {
		s->mtp.filled = s->redo_end;
		return;
	}
	s->mtp.filled = filled < n + 1 ? filled : n + 1;
	if (!s->converted)
		return;
	qwen_mtp_cut(s, n);
	s->mtp.from = (n + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK * QWEN_KV_BLOCK;
}

/*
 * Computes again what the session has lost.  Returns 1 if one more device fails.
 */
static int
try_again(struct qwen_session *s, size_t filled, const int32_t *guess,
    size_t n_guess)
{
	struct qwen_span_rows *rows = NULL;
	int rc;

	begin_block(s, filled);
	rc = list_rows(s, &rows, &s->why_lost) < 0 ||
	    take_state(s, &s->why_lost) < 0 ? -1 : read_again(s, guess, n_guess,
	    rows, &s->why_lost);
	free(rows);
	return rc;
}

/*
 * Computes again what the session has lost.  If the host has all rows of the MTP
 * block, the passes compute none, since these seem to be there, and the trunk's
 * last hidden states stay those that the session had.
 */
static void
rebuild(struct qwen_session *s)
{
	const struct qwen_mtp_state mtp = s->mtp;
	struct qwen_tracing *tracing = s->tracing;
	int32_t guess[QWEN_GUESS_MAX];
	size_t n = qwen_ahead_take(s, guess), end = s->redo_end;
	int have_logits = s->have_logits, redo_mtp, rc;

	s->tracing = NULL;
	while ((rc = try_again(s, mtp.filled, guess, n)) > 0)
		leave_devices(s->model);
	s->lost = rc < 0;
	s->n_tokens = end;
	redo_mtp = s->redo_mtp;
	if (!redo_mtp)
		s->mtp = mtp;
	s->redo = s->redo_mtp = 0;
	s->have_logits = have_logits && rc == 0;
	s->tracing = tracing;
	/* a state that is being saved has the rows of all tokens */
	if (rc == 0 && redo_mtp && mtp.filled >= end &&
	    qwen_session_mtp_ready(s) < 0)
		s->lost = (qwen_oom(&s->why_lost), 1);
}

static struct qwen_session *
first_lost(const struct qwen_model *m)
{
	struct qwen_session *s = NULL;
	struct qwen_cache *c;

	for (c = m->caches; c != NULL; c = c->next) {
		for (s = c->sessions; s != NULL; s = s->next) {
			if (s->redo)
				return s;
		}
	}
	return NULL;
}

void
qwen_recover(struct qwen_model *m)
{
	struct qwen_input_sums *inputs = m->inputs;
	struct qwen_session *s;

	m->inputs = NULL;
	leave_devices(m);
	while ((s = first_lost(m)) != NULL)
		rebuild(s);
	m->inputs = inputs;
}

int
qwen_pass_send(struct qwen_session *s, struct qwen_err *err)
{
	while (qwen_session_check(s, err) == 0) {
		if (qwen_memory_send(s, err) == 0)
			return 0;
		if (qwen_device_lost(s->model, NULL) == 0)
			return -1;
		qwen_recover(s->model);
	}
	return -1;
}
