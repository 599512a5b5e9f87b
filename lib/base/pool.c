/* SPDX-License-Identifier: ISC */
/*
 * pool.c - a pool of threads that share the items of a job.
 *
 * Every thread has its own range of items, so that one thread reads
 * neighbouring memory in order.  A thread that has finished its range takes
 * items from other ranges.  A ticket, one 64-bit word, describes a range: job
 * number, end, next item.  Taking an item is one fetch-and-add, which returns
 * both the job and whether the item exists.  So a thread that was late for one
 * job simply gets an item of the next, and the caller never waits for a thread
 * that has no item.
 */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

/* ticket: job (12 bits) | end of the range (26) | next item (26) */
#define ITEM_BITS 26
#define ITEM_MASK (((uint64_t)1 << ITEM_BITS) - 1)
#define MAX_ITEMS ((size_t)1 << 24)	/* per job; next item may overshoot */

/*
 * Waiting has three phases: spin, since the next job usually comes within
 * microseconds; then yield the processor, perhaps to the threads waited for, on
 * a machine with more threads than processors; then sleep.
 */
#define SPINS	2000
#define YIELDS	2000

/*
 * With more threads than this, several share a range: each range costs the
 * caller a write to a cache line that another processor holds.
 */
#define MAX_RANGES 16

/* Minimum stack of a thread, in bytes; kernels use up to 128 KiB. */
#define STACK ((size_t)512 << 10)

struct range {
	_Alignas(64) _Atomic uint64_t ticket;
};

struct worker {
	struct qwen_pool	*pool;
	int			 index;
	pthread_t		 thread;
};

struct qwen_pool {
	int		 n_threads;
	struct worker	*worker;	/* n_threads - 1 */
	int		 n_started;
	int		 running;
	/* the job; written only while no thread can take an item */
	qwen_pool_fn	*fn;
	void		*arg;
	size_t		 base;		/* added to every item */
	int		 n_ranges;
	struct range	 range[MAX_RANGES];
	_Alignas(64) _Atomic uint64_t job;	/* counts up */
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

/* Takes items of a range until none are left. */
static void
work_range(struct qwen_pool *p, struct range *r, int index)
{
	uint64_t t;

	while (ready(atomic_load_explicit(&r->ticket, memory_order_relaxed))) {
		t = atomic_fetch_add_explicit(&r->ticket, 1,
		    memory_order_acquire);
		if (!ready(t))
			return;
		p->fn(p->arg, p->base + (size_t)(t & ITEM_MASK), index);
		atomic_fetch_add_explicit(&p->done, 1, memory_order_release);
	}
}

/* Works on the thread's own range first, then on the ranges after it. */
static void
work(struct qwen_pool *p, int index)
{
	int own = (int)((long)index * p->n_ranges / p->n_threads), i;

	for (i = own; i < p->n_ranges; i++)
		work_range(p, &p->range[i], index);
	for (i = 0; i < own; i++)
		work_range(p, &p->range[i], index);
}

static void
sleep_after(struct qwen_pool *p, uint64_t job)
{
	pthread_mutex_lock(&p->mutex);
	atomic_fetch_add(&p->sleeping, 1);
	while (atomic_load(&p->job) == job && !atomic_load(&p->quit))
		pthread_cond_wait(&p->cond, &p->mutex);
	atomic_fetch_sub(&p->sleeping, 1);
	pthread_mutex_unlock(&p->mutex);
}

static void *
run_worker(void *arg)
{
	struct worker *w = arg;
	struct qwen_pool *p = w->pool;
	uint64_t seen = 0, job;
	int spins = 0;

	while (!atomic_load_explicit(&p->quit, memory_order_relaxed)) {
		job = atomic_load_explicit(&p->job, memory_order_acquire);
		if (job != seen) {
			seen = job;
			work(p, w->index);
			spins = 0;
		} else if (++spins < SPINS) {
			relax();
		} else if (spins < SPINS + YIELDS) {
			sched_yield();
		} else {
			sleep_after(p, seen);
			spins = 0;
		}
	}
	return NULL;
}

/*
 * Blocks signals in the thread: handlers may be written for the caller's own
 * threads only.  Signals raised by the thread itself stay unblocked.
 */
static int
start(struct worker *w)
{
	static const int own[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV,
	    SIGSYS, SIGTRAP };
	pthread_attr_t attr;
	sigset_t others, old;
	size_t i, size;
	int rc;

	if ((rc = pthread_attr_init(&attr)) != 0)
		return rc;
	/* the default is ulimit -s, or less in other libcs */
	if (pthread_attr_getstacksize(&attr, &size) != 0 || size < STACK)
		pthread_attr_setstacksize(&attr, STACK);
	sigfillset(&others);
	for (i = 0; i < sizeof own / sizeof own[0]; i++)
		sigdelset(&others, own[i]);
	pthread_sigmask(SIG_BLOCK, &others, &old);
	rc = pthread_create(&w->thread, &attr, run_worker, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

int
qwen_pool_new(struct qwen_pool **out, int n_threads, struct qwen_err *err)
{
	struct qwen_pool *p;
	int i;

	*out = NULL;
	if (n_threads < 1 || n_threads > QWEN_POOL_MAX_THREADS)
		return qwen_fail(err, QWEN_ERANGE, "%d threads: must be 1 to "
		    "%d", n_threads, QWEN_POOL_MAX_THREADS);
	p = aligned_alloc(_Alignof(struct qwen_pool), sizeof *p);
	if (p == NULL)
		return qwen_oom(err);
	memset(p, 0, sizeof *p);
	p->n_threads = n_threads;
	p->n_ranges = n_threads < MAX_RANGES ? n_threads : MAX_RANGES;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->cond, NULL);
	p->worker = qwen_alloc((size_t)n_threads, sizeof *p->worker);
	if (p->worker == NULL) {
		qwen_pool_free(p);
		return qwen_oom(err);
	}
	for (i = 0; i < n_threads - 1; i++) {
		p->worker[i].pool = p;
		p->worker[i].index = i + 1;
		if (start(&p->worker[i]) != 0) {
			qwen_pool_free(p);
			/* the system does not say which */
			return qwen_fail(err, QWEN_ENOMEM, "cannot start "
			    "thread %d of %d: out of memory or over the thread "
			    "limit", i + 2, n_threads);
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

/* Waits for items that other threads took; yields if it takes long. */
static void
wait_done(struct qwen_pool *p, size_t n)
{
	int spins = 0;

	while (atomic_load_explicit(&p->done, memory_order_acquire) < n) {
		if (++spins < SPINS)
			relax();
		else
			sched_yield();
	}
}

/* Runs items base .. base + n - 1, at most as many as a ticket can count. */
static void
run_some(struct qwen_pool *p, size_t base, size_t n)
{
	uint64_t job = atomic_load(&p->job) + 1, first, end;
	size_t i, nr = (size_t)p->n_ranges;

	assert(n > 0 && n <= MAX_ITEMS);
	p->base = base;
	atomic_store_explicit(&p->done, 0, memory_order_relaxed);
	for (i = 0; i < nr; i++) {
		first = n * i / nr;
		end = n * (i + 1) / nr;
		atomic_store_explicit(&p->range[i].ticket,
		    job << 2 * ITEM_BITS | end << ITEM_BITS | first,
		    memory_order_release);
	}
	atomic_store(&p->job, job);
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
	/* one job at a time, no nested jobs */
	assert(!p->running);
	p->running = 1;
	p->fn = fn;
	p->arg = arg;
	for (i = 0; i < n; i += m) {
		m = n - i < MAX_ITEMS ? n - i : MAX_ITEMS;
		run_some(p, i, m);
	}
	p->running = 0;
}
