/* SPDX-License-Identifier: ISC */
/*
 * place.c - puts the pieces of a state into a session.  Each thread takes the
 * next piece, one thread at a time, and then decodes it into place while other
 * threads take and decode theirs.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "engine/state/read.h"

/* Maximum number of threads; each has its own buffers. */
enum { WORKERS_MAX = 16 };

/* ----------------------------------------------------- the places of pieces */

char *
qwen_state_object(const struct qwen_session *s,
    const struct qwen_state_entry *e, const struct qwen_kept *k)
{
	if (e->kind == QWEN_K_LOGITS)
		return (char *)k->logits;
	if (e->kind == QWEN_K_HIDDEN)
		return (char *)k->hidden;
	return (char *)k->recurrent + qwen_session_recurrent_at(s,
	    (size_t)e->layer, e->kind == QWEN_K_CONV);
}

int
qwen_state_add_checkpoint(struct qwen_state_reader *v, struct qwen_err *err)
{
	return v->s == NULL || v->kept.c.at == 0 ? 0 :
	    qwen_session_add_kept(v->s, &v->kept, err);
}

int
qwen_state_set_position(struct qwen_state_reader *v, uint64_t at,
    struct qwen_err *err)
{
	size_t n;

	if (v->s == NULL || v->kept.c.at == at)
		return 0;
	if (qwen_state_add_checkpoint(v, err) < 0)
		return -1;
	if (at == v->lay.info.n_tokens)
		return 0;
	v->kept.c.at = at;
	if ((n = qwen_session_view(v->s).recurrent_bytes) == 0)
		return 0;
	v->kept.recurrent = qwen_map_zero(n);
	return v->kept.recurrent != NULL ? 0 : qwen_oom(err);
}

/*
 * Allocates KV blocks, n in all, while other threads may place data in existing
 * ones.
 */
static int
grow(struct qwen_state_reader *v, uint64_t n, struct qwen_err *err)
{
	int rc;

	if (n <= v->n_blocks)
		return 1;
	pthread_rwlock_wrlock(&v->blocks);
	rc = qwen_session_grow(v->s, (size_t)n, err);
	pthread_rwlock_unlock(&v->blocks);
	if (rc < 0)
		return -1;
	v->n_blocks = (size_t)n;
	return 1;
}

int
qwen_state_find_place(struct qwen_state_reader *v,
    const struct qwen_state_entry *e, struct qwen_state_place *p,
    struct qwen_err *err)
{
	int fits = qwen_state_mtp_fits(&v->lay.mtp, &v->mtp);
	struct qwen_kept *k;
	uint64_t size;

	*p = (struct qwen_state_place){ .stop = UINT64_MAX };
	if (qwen_kind_is_kv(e->kind)) {
		if (e->kind == QWEN_K_MTP_KV && !fits)
			return 0;
		p->layer = e->layer < 0 ? v->lay.info.n_layers :
		    (size_t)e->layer;
		qwen_state_blocks(&v->lay, e->kind, &p->first);
		size = qwen_state_kv_block(qwen_state_layer_of(&v->lay,
		    e->layer));
		return grow(v, p->first + (e->off + e->len + size - 1) / size,
		    err);
	}
	if (qwen_state_set_position(v, (uint64_t)e->at, err) < 0)
		return -1;
	if (e->kind == QWEN_K_HIDDEN && !fits)
		return 0;
	k = v->kept.c.at != 0 ? &v->kept : &v->end;
	if (e->kind == QWEN_K_LOGITS && k->logits == NULL)
		k->logits = qwen_alloc_large(v->lay.info.header.n_vocab,
		    sizeof *k->logits);
	if (e->kind == QWEN_K_HIDDEN && k->hidden == NULL)
		k->hidden = qwen_alloc((size_t)v->mtp.n_embd,
		    sizeof *k->hidden);
	k->c.logits |= e->kind == QWEN_K_LOGITS && k->logits != NULL;
	p->object = qwen_state_object(v->s, e, k);
	return p->object != NULL ? 1 : qwen_oom(err);
}

/* Copies a piece to its blocks, or points the blocks into the mapped file. */
static void
put_blocks(struct qwen_session *s, const struct qwen_state_place *p,
    const struct qwen_state_entry *e, const unsigned char *raw)
{
	size_t size = qwen_session_view(s).kv_bytes;
	size_t i, part, at = (size_t)(e->off % size);
	uint64_t b = p->first + e->off / size;
	int in_place = p->mapped && at == 0 && e->len % size == 0 &&
	    (uintptr_t)raw % QWEN_ALIGN == 0;
	uint16_t **block;

	for (i = 0; i < e->len && b < p->stop; i += part, b++, at = 0) {
		part = size - at < e->len - i ? size - at : (size_t)e->len - i;
		block = qwen_session_kv(s, p->layer, (size_t)b);
		if (in_place)
			/* the mapping is private, so it may be written to */
			*block = (void *)(uintptr_t)(raw + i);
		else
			memcpy((char *)*block + at, raw + i, part);
	}
}

/* -------------------------------------------------------------- the threads */

struct placing {
	const struct qwen_state_supply *from;
	struct qwen_state_job	 job[WORKERS_MAX];
	size_t			 n_job;
	pthread_mutex_t		 taking;	/* guards next, and the members
						   below */
	int			 done;		/* there are no more pieces, or
						   one failed */
	const struct qwen_state_job *failed;	/* the earliest one, or NULL */
};

/* Decodes a piece and puts it into its place. */
static int
place(const struct qwen_state_supply *from, struct qwen_state_job *j)
{
	const unsigned char *raw;

	if (from->fetch != NULL && from->fetch(j) < 0)
		return -1;
	if (qwen_state_rec_data(j->lay, &j->rec, j->coder, &raw, &j->err) < 0)
		return qwen_state_rec_fail(&j->rec, &j->err);
	if (from->s == NULL)
		return 0;
	if (from->blocks != NULL)
		pthread_rwlock_rdlock(from->blocks);
	if (j->place.object != NULL)
		memcpy(j->place.object + j->rec.e.off, raw,
		    (size_t)j->rec.e.len);
	else
		put_blocks(from->s, &j->place, &j->rec.e, raw);
	if (from->blocks != NULL)
		pthread_rwlock_unlock(from->blocks);
	return 0;
}

/*
 * Pieces that were taken before a failure are still decoded, since the error of
 * the earliest piece is reported.
 */
static void
work(void *arg, size_t item, int thread)
{
	struct placing *p = arg;
	struct qwen_state_job *j = &p->job[item];
	int rc = 1;

	(void)thread;
	while (rc > 0) {
		pthread_mutex_lock(&p->taking);
		rc = p->done ? 0 : p->from->next(p->from->arg, j);
		p->done |= rc <= 0;
		pthread_mutex_unlock(&p->taking);
		if (rc > 0 && place(p->from, j) < 0)
			rc = -1;
	}
	if (rc == 0)
		return;
	pthread_mutex_lock(&p->taking);
	p->done = 1;
	if (p->failed == NULL || j->n < p->failed->n)
		p->failed = j;
	pthread_mutex_unlock(&p->taking);
}

static int
init(struct placing *p, size_t n, struct qwen_err *err)
{
	struct qwen_state_job *j;

	pthread_mutex_init(&p->taking, NULL);
	while (p->n_job < n) {
		j = &p->job[p->n_job++];
		if (qwen_coder_new(&j->coder, err) < 0)
			return -1;
		if ((j->buf = malloc(QWEN_STATE_MAX)) == NULL)
			return qwen_oom(err);
	}
	return 0;
}

static void
fini(struct placing *p)
{
	while (p->n_job-- > 0) {
		qwen_coder_free(p->job[p->n_job].coder);
		free(p->job[p->n_job].buf);
	}
	pthread_mutex_destroy(&p->taking);
	free(p);
}

int
qwen_state_place_all(const struct qwen_state_supply *from,
    struct qwen_pool *pool, struct qwen_err *err)
{
	size_t n = (size_t)qwen_pool_threads(pool);
	struct placing *p = qwen_alloc(1, sizeof *p);
	int rc;

	if (p == NULL)
		return qwen_oom(err);
	p->from = from;
	n = n < from->n ? n : from->n;
	rc = init(p, n < WORKERS_MAX ? n : WORKERS_MAX, err);
	if (rc == 0) {
		qwen_pool_run(pool, work, p, p->n_job);
		rc = p->failed != NULL ? -1 : 0;
		if (rc < 0 && err != NULL)
			*err = p->failed->err;
	}
	fini(p);
	return rc;
}
