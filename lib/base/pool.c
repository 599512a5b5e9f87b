/* SPDX-License-Identifier: ISC */
/*
 * pool.c - threads that share out the items of a job.
 *
 * A ticket, one 64-bit word, says it all: job number, items, next item.
 * Taking an item is one fetch-and-add, which tells both the job and whether
 * the item exists; so a thread that was late for one job simply gets an item
 * of the next, and the caller never waits for a thread that has none.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

/* ticket: job (12 bits) | items (26) | next item (26) */
#define ITEM_BITS 26
#define ITEM_MASK (((uint64_t)1 << ITEM_BITS) - 1)
#define MAX_ITEMS ((size_t)1 << 24)	/* at once; next item may overshoot */
#define SPINS 20000

struct worker {
	struct qwen_pool	*pool;
	int			 index;
	pthread_t		 thread;
};

struct qwen_pool {
	int		 n_threads;
	struct worker	*worker;	/* n_threads - 1 */
	int		 n_started;
	/* the job; written only while no item is to be had */
	qwen_pool_fn	*fn;
	void		*arg;
	size_t		 base;		/* added to every item */
	uint64_t	 job;
	_Alignas(64) _Atomic uint64_t ticket;
	_Alignas(64) _Atomic size_t done;
	_Alignas(64) _Atomic int sleeping;
	_Atomic int	 quit;
	pthread_mutex_t	 mutex;
	pthread_cond_t	 cond;
};

static void
relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static int
ready(uint64_t ticket)
{
	return (ticket & ITEM_MASK) < (ticket >> ITEM_BITS & ITEM_MASK);
}

/* Take items until there are none. */
static void
work(struct qwen_pool *p, int index)
{
	uint64_t t;

	while (ready(atomic_load_explicit(&p->ticket, memory_order_relaxed))) {
		t = atomic_fetch_add_explicit(&p->ticket, 1,
		    memory_order_acquire);
		if (!ready(t))
			return;
		p->fn(p->arg, p->base + (size_t)(t & ITEM_MASK), index);
		atomic_fetch_add_explicit(&p->done, 1, memory_order_release);
	}
}

static void
sleep_until_ready(struct qwen_pool *p)
{
	pthread_mutex_lock(&p->mutex);
	atomic_fetch_add(&p->sleeping, 1);
	while (!ready(atomic_load(&p->ticket)) && !atomic_load(&p->quit))
		pthread_cond_wait(&p->cond, &p->mutex);
	atomic_fetch_sub(&p->sleeping, 1);
	pthread_mutex_unlock(&p->mutex);
}

static void *
run_worker(void *arg)
{
	struct worker *w = arg;
	struct qwen_pool *p = w->pool;
	int spins = 0;

	while (!atomic_load_explicit(&p->quit, memory_order_relaxed)) {
		if (ready(atomic_load_explicit(&p->ticket,
		    memory_order_relaxed))) {
			work(p, w->index);
			spins = 0;
		} else if (++spins < SPINS) {
			relax();
		} else {
			sleep_until_ready(p);
			spins = 0;
		}
	}
	return NULL;
}

int
qwen_pool_new(struct qwen_pool **out, int n_threads, struct qwen_err *err)
{
	struct qwen_pool *p;
	int i;

	*out = NULL;
	if (n_threads < 1 || n_threads > QWEN_POOL_MAX_THREADS)
		return qwen_fail(err, QWEN_ERANGE, "%d threads: 1 to %d",
		    n_threads, QWEN_POOL_MAX_THREADS);
	p = qwen_alloc(1, sizeof *p);
	if (p == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	p->n_threads = n_threads;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->cond, NULL);
	p->worker = qwen_alloc((size_t)n_threads, sizeof *p->worker);
	if (p->worker == NULL) {
		qwen_pool_free(p);
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	}
	for (i = 0; i < n_threads - 1; i++) {
		p->worker[i].pool = p;
		p->worker[i].index = i + 1;
		if (pthread_create(&p->worker[i].thread, NULL, run_worker,
		    &p->worker[i]) != 0) {
			qwen_pool_free(p);
			return qwen_fail(err, QWEN_EIO,
			    "cannot start thread %d of %d", i + 2, n_threads);
		}
		p->n_started++;
	}
	*out = p;
	return 0;
}

void
qwen_pool_free(struct qwen_pool *p)
{
	int i;

	if (p == NULL)
		return;
	pthread_mutex_lock(&p->mutex);
	atomic_store(&p->quit, 1);
	pthread_cond_broadcast(&p->cond);
	pthread_mutex_unlock(&p->mutex);
	for (i = 0; i < p->n_started; i++)
		pthread_join(p->worker[i].thread, NULL);
	pthread_cond_destroy(&p->cond);
	pthread_mutex_destroy(&p->mutex);
	free(p->worker);
	free(p);
}

int
qwen_pool_threads(const struct qwen_pool *p)
{
	return p->n_threads;
}

/* Wait for items that others took; give the processor up if it takes long. */
static void
wait_done(struct qwen_pool *p, size_t n)
{
	int spins = 0;

	while (atomic_load_explicit(&p->done, memory_order_acquire) < n) {
		if (++spins < SPINS / 10)
			relax();
		else
			sched_yield();
	}
}

/* Items base .. base + n - 1, as many as a ticket can count. */
static void
run_some(struct qwen_pool *p, size_t base, size_t n)
{
	p->base = base;
	p->job++;
	atomic_store_explicit(&p->done, 0, memory_order_relaxed);
	atomic_store(&p->ticket, p->job << 2 * ITEM_BITS |
	    (uint64_t)n << ITEM_BITS);
	if (atomic_load(&p->sleeping) > 0) {
		pthread_mutex_lock(&p->mutex);
		pthread_cond_broadcast(&p->cond);
		pthread_mutex_unlock(&p->mutex);
	}
	work(p, 0);
	wait_done(p, n);
}

void
qwen_pool_run(struct qwen_pool *p, qwen_pool_fn *fn, void *arg, size_t n)
{
	size_t i, m;

	if (p->n_threads == 1 || n == 1) {
		for (i = 0; i < n; i++)
			fn(arg, i, 0);
		return;
	}
	p->fn = fn;
	p->arg = arg;
	for (i = 0; i < n; i += m) {
		m = n - i < MAX_ITEMS ? n - i : MAX_ITEMS;
		run_some(p, i, m);
	}
}
