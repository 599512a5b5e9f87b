/* SPDX-License-Identifier: ISC */
/*
 * receive.c - loads a session from a stream: each thread reads the next record,
 * one thread at a time, and decodes it into place while other threads read and
 * decode.  Each thread holds one record, so memory is bounded, and reading ends
 * with the state's last record.
 */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "engine/state/load.h"
#include "wire/record.h"

enum { WORKERS_MAX = 16 };

struct worker {
	struct qwen_coder	*coder;
	unsigned char		*buf;	/* data of the record, QWEN_STATE_MAX
					   bytes */
	struct qwen_state_rec	 rec;
	struct qwen_state_target	 copy;
	struct qwen_err		 err;
};

struct receive {
	struct qwen_state_reader	*v;
	struct worker		 worker[WORKERS_MAX];
	size_t			 n_worker;
	pthread_mutex_t		 lock;		/* guards the members below */
	pthread_cond_t		 moved;
	int			 reading;	/* a thread is reading */
	uint64_t		 first_failed;	/* number of the first record
						   that failed */
	const struct qwen_err	*why;		/* its error, or NULL */
};

int
qwen_state_grow(struct qwen_state_reader *v, size_t n, struct qwen_err *err)
{
	int rc;

	if (n <= v->n_blocks)
		return 0;
	pthread_rwlock_wrlock(&v->blocks);
	rc = qwen_session_grow(v->s, n, err);
	pthread_rwlock_unlock(&v->blocks);
	if (rc == 0)
		v->n_blocks = n;
	return rc;
}

/*
 * Reads the next record.  Returns 1 if its data is in w->buf, to be decoded; 0
 * if nothing is left to do; -1.
 */
static int
read_next(struct qwen_state_reader *v, struct worker *w)
{
	int rc;

	w->rec.index = v->counts.n;
	if (qwen_state_next(v, &w->rec, &w->err) < 0)
		return -1;
	if ((rc = qwen_state_use(v, &w->rec, &w->copy, &w->err)) < 0)
		return qwen_state_rec_fail(&w->rec, &w->err);
	if (rc > 0) {	/* the reader's buffer is reused for the next record */
		assert(w->rec.n_data <= QWEN_STATE_MAX);
		memcpy(w->buf, w->rec.data, w->rec.n_data);
		w->rec.data = w->buf;
	}
	return rc;
}

static int
decode(struct qwen_state_reader *v, struct worker *w)
{
	const struct qwen_state_entry *e = &w->rec.e;
	const unsigned char *raw;

	if (qwen_coder_decode(w->coder, e->codec, w->rec.data, w->rec.n_data,
	    (size_t)e->len, &raw, &w->err) < 0 ||
	    qwen_state_layout_check(&v->lay, e, raw, &w->err) < 0)
		return qwen_state_rec_fail(&w->rec, &w->err);
	pthread_rwlock_rdlock(&v->blocks);
	qwen_section(e->kind)->copy(&w->copy, e, raw);
	pthread_rwlock_unlock(&v->blocks);
	return 0;
}

/* With the lock held: notes the error of record i if it is the earliest. */
static void
fail_record(struct receive *r, uint64_t i, const struct qwen_err *why)
{
	if (r->why != NULL && r->first_failed < i)
		return;
	r->first_failed = i;
	r->why = why;
}

/*
 * Records read before a failure are still decoded, since the error of the
 * earliest record is reported.
 */
static void
work(void *arg, size_t item, int thread)
{
	struct receive *r = arg;
	struct worker *w = &r->worker[item];
	int rc;

	(void)thread;
	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (r->reading)
			pthread_cond_wait(&r->moved, &r->lock);
		if (r->why != NULL || r->v->ended)
			break;
		r->reading = 1;
		pthread_mutex_unlock(&r->lock);
		rc = read_next(r->v, w);
		pthread_mutex_lock(&r->lock);
		r->reading = 0;
		pthread_cond_signal(&r->moved);
		if (rc > 0) {
			pthread_mutex_unlock(&r->lock);
			rc = decode(r->v, w);
			pthread_mutex_lock(&r->lock);
		}
		if (rc < 0) {
			fail_record(r, w->rec.index, &w->err);
			break;
		}
	}
	pthread_cond_broadcast(&r->moved);
	pthread_mutex_unlock(&r->lock);
}

static void
fini(struct receive *r)
{
	size_t i;

	for (i = 0; i < r->n_worker; i++) {
		qwen_coder_free(r->worker[i].coder);
		free(r->worker[i].buf);
	}
	pthread_rwlock_destroy(&r->v->blocks);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->moved);
	free(r);
}

static int
init(struct receive *r, size_t n, struct qwen_err *err)
{
	pthread_rwlock_init(&r->v->blocks, NULL);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->moved, NULL);
	for (; r->n_worker < n; r->n_worker++) {
		struct worker *w = &r->worker[r->n_worker];

		if (qwen_coder_new(&w->coder, err) < 0)
			return -1;
		if ((w->buf = malloc(QWEN_STATE_MAX)) == NULL) {
			qwen_coder_free(w->coder);
			return qwen_oom(err);
		}
	}
	return 0;
}

int
qwen_state_receive(struct qwen_state_reader *v, struct qwen_err *err)
{
	struct qwen_pool *pool = qwen_model_pool(qwen_session_model(v->s));
	size_t n = (size_t)qwen_pool_threads(pool);
	struct receive *r = qwen_alloc(1, sizeof *r);
	int rc;

	if (r == NULL)
		return qwen_oom(err);
	r->v = v;
	rc = init(r, n < WORKERS_MAX ? n : WORKERS_MAX, err);
	if (rc == 0) {
		qwen_pool_run(pool, work, r, r->n_worker);
		rc = r->why != NULL ? -1 : 0;
		if (rc < 0 && err != NULL)
			*err = *r->why;
	}
	fini(r);
	return rc;
}
