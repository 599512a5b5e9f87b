/* SPDX-License-Identifier: ISC */
/*
 * newest.c - where the memory of a session is newest: on the host, or on the
 * remote devices where its layers are at home.  Full blocks never change, so that
 * they are moved once.
 */
#include <string.h>

#include "base/err.h"
#include "engine/timeline/timeline.h"

static struct qwen_memory *
memory_of(const struct qwen_session *s)
{
	return (struct qwen_memory *)(uintptr_t)&s->mem;
}

/* Has layer i blocks, whose home is remote device r? */
static int
is_there(const struct qwen_session *s, size_t i, size_t r)
{
	return s->model->place.home[QWEN_MIXER(i)] == r + 1 &&
	    s->mem.layer[i].kv_block_bytes != 0;
}

/*
 * Returns the place of the first device with layers that has failed, of other ranks
 * or not; or 0.
 */
static size_t
failed_device(const struct qwen_model *m, int ranks, struct qwen_err *err)
{
	const struct qwen_placement *place = &m->place;
	size_t k;

	for (k = 1; k < place->n; k++) {
		const struct qwen_device *dev = place->on[k]->dev;

		if (dev->ranks == ranks && dev->check != NULL &&
		    memchr(place->home, (int)k,
		    QWEN_HOMES(m->net.hp.n_layer)) != NULL &&
		    dev->check(place->on[k], err) < 0)
			return k;
	}
	return 0;
}

size_t
qwen_device_lost(const struct qwen_model *m, struct qwen_err *err)
{
	return failed_device(m, 0, err);
}

/* Copies block b from remote device r. */
static void
get_block(const struct qwen_session *s, size_t b, size_t r)
{
	struct qwen_resident *on = s->model->place.on[1 + r];
	size_t i;

	for (i = 0; i < s->mem.n_layer; i++) {
		if (is_there(s, i, r))
			on->dev->slot_get(on, s->mem.slot[b]->own[r], i,
			    s->mem.layer[i].block[b]);
	}
}

void
qwen_block_fetch(const struct qwen_session *s, size_t b)
{
	struct qwen_kv_slot *slot = s->mem.slot[b];
	size_t r;

	while (slot->stale != 0) {
		for (r = 0; slot->stale >> r != 0; r++) {
			if ((slot->stale >> r & 1) != 0)
				get_block(s, b, r);
		}
		if (qwen_device_lost(s->model, NULL) == 0)
			slot->stale = 0;
		else
			s->model->recover(s->model);
	}
}

void
qwen_state_fetch(const struct qwen_session *s)
{
	struct qwen_memory *m = memory_of(s);
	struct qwen_resident *on;
	size_t r;

	while (m->stale != 0) {
		for (r = 0; m->stale >> r != 0; r++) {
			on = s->model->place.on[1 + r];
			if ((m->stale >> r & 1) != 0)
				on->dev->state_get(on, m);
		}
		if (qwen_device_lost(s->model, NULL) == 0)
			m->stale = 0;
		else
			s->model->recover(s->model);
	}
}

int
qwen_session_check(const struct qwen_session *s, struct qwen_err *err)
{
	if (!s->lost)
		return failed_device(s->model, 1, err) == 0 ? 0 : -1;
	if (err != NULL)
		*err = s->why_lost;
	return -1;
}

int
qwen_session_fetch(const struct qwen_session *s, struct qwen_err *err)
{
	size_t b;

	qwen_ahead_catch_up(s);
	for (b = 0; b < s->mem.n_slot; b++)
		qwen_block_fetch(s, b);
	qwen_state_fetch(s);
	return qwen_session_check(s, err);
}

void
qwen_blocks_changed(const struct qwen_session *s)
{
	size_t b;

	for (b = 0; b < s->mem.n_slot; b++)
		s->mem.slot[b]->there = s->mem.slot[b]->stale = 0;
}

void
qwen_state_changed(const struct qwen_session *s)
{
	memory_of(s)->there = memory_of(s)->stale = 0;
}

void
qwen_block_clear(const struct qwen_session *s, size_t b, size_t from,
    size_t to)
{
	struct qwen_kv_shape shape = qwen_kv_shape_of(&s->model->net.hp);
	struct qwen_kv_slot *slot = s->mem.slot[b];
	size_t i, r;

	for (i = 0; i < s->mem.n_layer; i++) {
		if (s->mem.layer[i].kv_block_bytes != 0)
			qwen_kv_clear(&shape, s->mem.layer[i].block[b], from,
			    to);
	}
	if (slot->filled > from)
		slot->filled = (unsigned char)from;
	for (r = 0; slot->there >> r != 0; r++) {
		if ((slot->there >> r & 1) != 0)
			s->model->place.on[1 + r]->dev->slot_clear(
			    s->model->place.on[1 + r], slot->own[r], from, to);
	}
}

/* Returns the end of the positions that have keys, drafts' included. */
static size_t
written_end(const struct qwen_session *s)
{
	return s->ahead != NULL && s->ahead->end > s->n_tokens ?
	    s->ahead->end : s->n_tokens;
}

/* Brings block b to remote device r. */
static int
send_block(const struct qwen_session *s, size_t b, size_t r)
{
	struct qwen_resident *on = s->model->place.on[1 + r];
	struct qwen_kv_slot *slot = s->mem.slot[b];
	size_t i = 0;

	if ((slot->there >> r & 1) != 0)
		return 0;
	if (slot->own[r] == NULL && on->dev->slot_new(on, &slot->own[r]) < 0)
		return -1;
	/* what nobody has written to is all zero */
	if (b * QWEN_KV_BLOCK >= written_end(s)) {
		on->dev->slot_clear(on, slot->own[r], 0, QWEN_KV_BLOCK);
		i = s->mem.n_layer;
	}
	for (; i < s->mem.n_layer; i++) {
		if (is_there(s, i, r))
			on->dev->slot_put(on, slot->own[r], i,
			    s->mem.layer[i].block[b]);
	}
	slot->there |= (unsigned char)(1u << r);
	return 0;
}

static int
send_state(struct qwen_session *s, size_t r)
{
	struct qwen_resident *on = s->model->place.on[1 + r];
	struct qwen_memory *m = &s->mem;

	if ((m->there >> r & 1) != 0 ||
	    (m->recurrent_bytes == 0 && !on->dev->ranks))
		return 0;
	if (m->own[r] == NULL && on->dev->state_new(on, m, &m->own[r]) < 0)
		return -1;
	if (m->recurrent_bytes > 0)
		on->dev->state_put(on, m);
	m->there |= (unsigned char)(1u << r);
	return 0;
}

/* Remote device r has failed, or has no memory for the session. */
static int
fail_memory(const struct qwen_session *s, size_t r, struct qwen_err *err)
{
	if (qwen_device_lost(s->model, err) != 0 ||
	    failed_device(s->model, 1, err) != 0)
		return -1;
	return qwen_fail(err, QWEN_ENOMEM, "device %s has no memory left for "
	    "a session of %zu tokens", s->model->place.on[1 + r]->dev->name,
	    s->n_tokens);
}

/* From now on block b is newest on remote device r. */
static void
leave_block(const struct qwen_session *s, size_t b, size_t r)
{
	struct qwen_kv_slot *slot = s->mem.slot[b];
	size_t first = b * QWEN_KV_BLOCK, n = s->n_tokens;

	if (slot->stale == 0)
		slot->filled = (unsigned char)(n <= first ? 0 : n - first <
		    QWEN_KV_BLOCK ? n - first : QWEN_KV_BLOCK);
	slot->stale |= (unsigned char)(1u << r);
}

int
qwen_memory_send(struct qwen_session *s, struct qwen_err *err)
{
	size_t b, r, first = qwen_session_first_written(s);

	for (r = 0; r + 1 < s->model->place.n; r++) {
		/* a device that is too small for any half of a layer */
		if (memchr(s->model->place.home, (int)(r + 1),
		    QWEN_HOMES(s->model->net.hp.n_layer)) == NULL)
			continue;
		if (send_state(s, r) < 0)
			return fail_memory(s, r, err);
		for (b = 0; b < s->mem.n_slot; b++) {
			if (send_block(s, b, r) < 0)
				return fail_memory(s, r, err);
			if (b >= first)
				leave_block(s, b, r);
		}
		if (s->mem.recurrent_bytes > 0)
			s->mem.stale |= (unsigned char)(1u << r);
	}
	return 0;
}

void
qwen_memory_return(struct qwen_session *s)
{
	size_t b;

	for (b = 0; b < s->mem.n_slot; b++)
		qwen_block_fetch(s, b);
	qwen_state_fetch(s);
	qwen_state_changed(s);
	qwen_memory_drop(s);
}

void
qwen_memory_drop(struct qwen_session *s)
{
	struct qwen_resident *const *on = s->model->place.on;
	size_t r;

	for (r = 0; r + 1 < s->model->place.n; r++) {
		if (s->mem.own[r] != NULL)
			on[1 + r]->dev->state_free(on[1 + r], s->mem.own[r]);
		s->mem.own[r] = NULL;
	}
}
