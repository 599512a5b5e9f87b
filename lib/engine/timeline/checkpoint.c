/* SPDX-License-Identifier: ISC */
/*
 * checkpoint.c - what a session keeps of positions before its end, so that it
 * can be cut there: the recurrent state, and the logits.
 */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/timeline/timeline.h"

enum { EVERY_MIN = 1024, STAY = 2 };	/* the last ones are never thinned */

/* ------------------------------------------------------------- their memory */

struct qwen_source *
qwen_source_ref(struct qwen_source *src)
{
	if (src != NULL)
		src->refs++;
	return src;
}

void
qwen_kept_fini(struct qwen_kept *k, size_t recurrent_bytes)
{
	qwen_unmap(k->recurrent, recurrent_bytes);
	free(k->logits);
	free(k->hidden);
	if (k->src != NULL && --k->src->refs == 0)
		k->src->release(k->src);
	memset(k, 0, sizeof *k);
}

void
qwen_session_drop_kept(struct qwen_session *s)
{
	while (s->n_kept > 0)
		qwen_kept_fini(&s->kept[--s->n_kept], s->mem.recurrent_bytes);
	qwen_kept_fini(&s->end, s->mem.recurrent_bytes);
	s->keep_end = 0;
}

/* Bytes of state and logits that a checkpoint has. */
static uint64_t
checkpoint_bytes(const struct qwen_session *s, int logits)
{
	uint64_t n = logits ? s->model->net.hp.n_vocab : 0;
	size_t i;

	for (i = 0; i < s->mem.n_layer; i++)
		n += s->mem.layer[i].n_s + s->mem.layer[i].n_conv;
	return n * sizeof(float);
}

int
qwen_session_add_kept(struct qwen_session *s, struct qwen_kept *k,
    struct qwen_err *err)
{
	struct qwen_kept *last = s->n_kept > 0 ? &s->kept[s->n_kept - 1] :
	    NULL;

	assert(last == NULL || last->c.at <= k->c.at);
	if (last != NULL && last->c.at == k->c.at) {
		k->c.named |= last->c.named;
		last->c.named = k->c.named;
		if (k->c.logits <= last->c.logits) {
			qwen_kept_fini(k, s->mem.recurrent_bytes);
			return 0;
		}
		qwen_kept_fini(last, s->mem.recurrent_bytes);
		s->n_kept--;
	}
	if (qwen_grow(&s->kept, &s->cap_kept, s->n_kept + 1,
	    sizeof *s->kept) < 0) {
		qwen_kept_fini(k, s->mem.recurrent_bytes);
		return qwen_oom(err);
	}
	k->c.bytes = checkpoint_bytes(s, k->c.logits);
	s->kept[s->n_kept++] = *k;
	memset(k, 0, sizeof *k);
	return 0;
}

const struct qwen_kept *
qwen_session_kept(const struct qwen_session *s, size_t i)
{
	assert(i < s->n_kept);
	return &s->kept[i];
}

/* Copy the end of the session into memory of its own. */
static int
copy_end(const struct qwen_session *s, struct qwen_kept *k,
    struct qwen_err *err)
{
	size_t n_vocab = s->model->net.hp.n_vocab, n_embd = s->model->net.hp.n_embd;
	const float *h = qwen_hidden_at(s, s->n_tokens - 1);

	qwen_ahead_catch_up(s);
	if (s->mem.recurrent_bytes > 0) {
		k->recurrent = qwen_map_zero(s->mem.recurrent_bytes);
		if (k->recurrent == NULL)
			goto nomem;
		qwen_state_fetch(s);
		qwen_session_copy_recurrent(s, k->recurrent, s->mem.recurrent);
	}
	if (qwen_session_check(s, err) < 0) {
		qwen_kept_fini(k, s->mem.recurrent_bytes);
		return -1;
	}
	if (s->have_logits) {
		k->logits = qwen_alloc_large(n_vocab, sizeof *k->logits);
		if (k->logits == NULL)
			goto nomem;
		memcpy(k->logits, s->logits, n_vocab * sizeof *k->logits);
		k->c.logits = 1;
	}
	if (h != NULL) {
		if ((k->hidden = qwen_alloc(n_embd, sizeof *h)) == NULL)
			goto nomem;
		memcpy(k->hidden, h, n_embd * sizeof *h);
	}
	return 0;
nomem:
	qwen_kept_fini(k, s->mem.recurrent_bytes);
	return qwen_fail(err, QWEN_ENOMEM, "out of memory for a checkpoint");
}

int
qwen_session_leave_end(struct qwen_session *s, struct qwen_err *err)
{
	struct qwen_kept k = s->end;
	int named = s->keep_end > 1;

	if (s->keep_end == 0 || s->n_tokens == 0 ||
	    (s->mem.recurrent_bytes == 0 && !s->have_logits && !named)) {
		qwen_kept_fini(&s->end, s->mem.recurrent_bytes);
		s->keep_end = 0;
		return 0;
	}
	memset(&s->end, 0, sizeof s->end);
	s->keep_end = 0;
	if (k.recurrent == NULL && k.logits == NULL && k.src == NULL &&
	    copy_end(s, &k, err) < 0)
		return -1;
	k.c.at = s->n_tokens;
	k.c.named = named;
	if (qwen_session_add_kept(s, &k, err) < 0)
		return -1;
	qwen_session_thin(s);
	return 0;
}

/* ------------------------------------------------------------ which and when */

uint64_t
qwen_model_checkpoint_every(const struct qwen_model *m)
{
	uint64_t state = 0, token = 0, every = EVERY_MIN;
	size_t i;

	for (i = 0; i < m->net.hp.n_layer; i++) {
		struct qwen_layer_state l = { 0 };

		qwen_layer_state_init(&l, &m->net.hp, i);
		token += l.kv_block_bytes / QWEN_KV_BLOCK;
		state += (l.n_s + l.n_conv) * sizeof(float);
	}
	if (state == 0)
		return 0;
	while (every < (uint64_t)1 << 20 && every * token < state)
		every *= 2;
	return every;
}

/* The first of n ascending positions that is after pos. */
static size_t
find_after(const uint64_t *at, size_t n, uint64_t pos)
{
	size_t lo = 0, hi = n, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (at[mid] <= pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

size_t
qwen_checkpoints_next(const struct qwen_checkpoints *keep, uint64_t pos,
    size_t n, int *cp)
{
	uint64_t left;
	size_t i;

	*cp = 0;
	if (keep == NULL)
		return n;
	if (keep->every > 0) {
		left = keep->every - pos % keep->every;
		*cp = left <= n;
		n = left < n ? (size_t)left : n;
	}
	i = find_after(keep->at, keep->n_at, pos);
	if (i < keep->n_at && keep->at[i] - pos <= n) {
		*cp = 2;
		n = (size_t)(keep->at[i] - pos);
	}
	return n;
}

int
qwen_session_keep(struct qwen_session *s, int named, struct qwen_err *err)
{
	int how = named ? 2 : 1;

	(void)err;
	if (s->n_tokens > 0 && s->keep_end < how)
		s->keep_end = how;
	return 0;
}

void
qwen_session_unkeep(struct qwen_session *s)
{
	if (s->keep_end == 1)
		s->keep_end = 0;
}

size_t
qwen_session_n_checkpoints(const struct qwen_session *s)
{
	return s->n_kept;
}

void
qwen_session_checkpoint(const struct qwen_session *s, size_t i,
    struct qwen_checkpoint *out)
{
	*out = i < s->n_kept ? s->kept[i].c : (struct qwen_checkpoint){ 0 };
}

/*
 * Returns 1 if a checkpoint's two neighbours are too near for it to stay, at
 * this distance from the end.
 */
static int
too_near(uint64_t from_end, uint64_t between, uint64_t every)
{
	uint64_t gap = from_end / 2;

	return between <= (gap > every ? gap : every);
}

void
qwen_session_thin(struct qwen_session *s)
{
	uint64_t every = s->every, newer = s->n_tokens, older, at;
	size_t i, n = s->n_kept, to = s->n_kept;

	if (every == 0)
		every = qwen_model_checkpoint_every(s->model);
	if (every == 0)
		every = EVERY_MIN;
	/* from the last to the first; those that stay gather at the back */
	for (i = n; i-- > 0; ) {
		at = s->kept[i].c.at;
		older = i > 0 ? s->kept[i - 1].c.at : 0;
		if (n - i > STAY && !s->kept[i].c.named &&
		    too_near(s->n_tokens - at, newer - older, every)) {
			qwen_kept_fini(&s->kept[i], s->mem.recurrent_bytes);
			continue;
		}
		newer = at;
		s->kept[--to] = s->kept[i];
	}
	if (to > 0)
		memmove(s->kept, s->kept + to, (n - to) * sizeof *s->kept);
	s->n_kept = n - to;
}

/* The same of positions alone; *n of them, with the last one at the end. */
static void
thin_positions(uint64_t *at, size_t *n, uint64_t every)
{
	uint64_t end = at[*n - 1], newer = end;
	size_t i, to = *n;

	for (i = *n; i-- > 0; ) {
		if (*n - i > STAY && too_near(end - at[i], newer - (i > 0 ?
		    at[i - 1] : 0), every))
			continue;
		newer = at[i];
		at[--to] = newer;
	}
	*n -= to;
	memmove(at, at + to, *n * sizeof *at);
}

/*
 * A new checkpoint exists before an old one goes. From one to the next but one,
 * the distance from the end grows by half: 2^64 tokens keep 220.
 */
size_t
qwen_checkpoints_most(const struct qwen_checkpoints *keep, uint64_t n_tokens)
{
	uint64_t at[256], pos;
	size_t n = 0, most = 0;

	if (keep == NULL)
		return 0;
	if (keep->every > 0) {
		for (pos = 0; n_tokens - pos > keep->every; ) {
			pos += keep->every;
			at[n++] = pos;
			most = n > most ? n : most;
			assert(n < sizeof at / sizeof at[0]);
			thin_positions(at, &n, keep->every);
		}
	}
	/* one at the end is no copy */
	for (n = 0; n < keep->n_at && keep->at[n] < n_tokens; n++)
		;
	return most + n;
}

/* ------------------------------------------------------------------ cutting */

/* Can the timeline go on from a position with or without logits, up to n? */
static int
serves(uint64_t at, int logits, size_t n, int want_logits)
{
	return at < n || (at == n && (logits || !want_logits));
}

/* Drop the checkpoints at or after n, but hand over what is there at n. */
static void
drop_behind(struct qwen_session *s, uint64_t n, struct qwen_kept *at)
{
	memset(at, 0, sizeof *at);
	while (s->n_kept > 0 && s->kept[s->n_kept - 1].c.at >= n) {
		struct qwen_kept *k = &s->kept[--s->n_kept];

		if (k->c.at == n)
			*at = *k;
		else
			qwen_kept_fini(k, s->mem.recurrent_bytes);
	}
}

/* The same of one that was left in a file. */
static int
read_source(struct qwen_session *s, const struct qwen_kept *k,
    struct qwen_err *err)
{
	float *hidden = NULL;
	int any = 0, rc;

	if (s->mtp.hidden != NULL && (hidden = qwen_alloc(
	    s->model->net.hp.n_embd, sizeof *hidden)) == NULL)
		return qwen_oom(err);
	rc = k->src->read(k->src, s, k->c.at, s->mem.recurrent, k->c.logits ?
	    s->logits : NULL, hidden, &any, err);
	if (rc == 0 && any)
		qwen_hidden_set(s, hidden);
	free(hidden);
	return rc;
}

/* The state of the checkpoint k becomes that of the session. */
static int
take_state(struct qwen_session *s, const struct qwen_kept *k,
    struct qwen_err *err)
{
	if (k->src != NULL) {
		if (read_source(s, k, err) < 0)
			return -1;
	} else {
		if (k->recurrent != NULL)
			qwen_session_copy_recurrent(s, s->mem.recurrent,
			    k->recurrent);
		if (k->logits != NULL)
			memcpy(s->logits, k->logits,
			    s->model->net.hp.n_vocab * sizeof *s->logits);
	}
	qwen_state_changed(s);
	s->have_logits = k->c.logits;
	if (k->hidden != NULL)
		qwen_hidden_set(s, k->hidden);
	return 0;
}

/* Cut to n, where there is a checkpoint, nothing, or no need for one. */
static int
cut(struct qwen_session *s, uint64_t n, struct qwen_err *err)
{
	struct qwen_kept k;

	if (qwen_session_cut_cache(s, (size_t)n, err) < 0)
		return -1;
	qwen_kept_fini(&s->end, s->mem.recurrent_bytes);
	s->keep_end = 0;
	drop_behind(s, n, &k);
	s->n_tokens = (size_t)n;
	s->have_logits = 0;
	qwen_mtp_cut(s, s->n_tokens);
	if (k.c.at == 0) {
		if (s->mem.recurrent != NULL)
			memset(s->mem.recurrent, 0, s->mem.recurrent_bytes);
		qwen_state_changed(s);
		return 0;
	}
	if (take_state(s, &k, err) < 0) {
		qwen_kept_fini(&k, s->mem.recurrent_bytes);
		return -1;
	}
	s->keep_end = k.c.named ? 2 : 1;
	s->end = k;
	return 0;
}

int
qwen_session_rewind(struct qwen_session *s, size_t n, int want_logits,
    size_t *at, struct qwen_err *err)
{
	size_t i, to = 0, last = n - (want_logits && n > 0);

	if (serves(s->n_tokens, s->have_logits, n, want_logits)) {
		*at = s->n_tokens;
		qwen_session_keep(s, 0, NULL);
		return 0;
	}
	for (i = s->n_kept; i-- > 0; ) {
		const struct qwen_checkpoint *c = &s->kept[i].c;

		if (serves(c->at, c->logits, n, want_logits)) {
			to = (size_t)c->at;
			break;
		}
	}
	/* without recurrent state, any position does that needs no logits */
	if (s->mem.recurrent_bytes == 0 && to < n)
		to = last;
	*at = to;
	return cut(s, to, err);
}
