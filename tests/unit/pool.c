/* SPDX-License-Identifier: ISC */
/* pool.c - every item is done once, however the threads are scheduled. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/pool.h"
#include "../kernel/random.h"
#include "../tap.h"

#define MAX_ITEMS 5000

struct job {
	atomic_int	count[MAX_ITEMS];
	atomic_int	bad_thread;
	int		n_threads;
	size_t		n;
	/* written without atomics: the pool must order it */
	size_t		plain[MAX_ITEMS];
	size_t		number;
};

static void
mark(void *arg, size_t item, int thread)
{
	struct job *j = arg;

	if (item >= j->n || thread < 0 || thread >= j->n_threads) {
		atomic_fetch_add(&j->bad_thread, 1);
		return;
	}
	j->plain[item] = j->number;
	atomic_fetch_add_explicit(&j->count[item], 1, memory_order_relaxed);
}

/* One job of n items; 1 if each was done once, by a thread there is. */
static int
run_once(struct qwen_pool *p, struct job *j, size_t n)
{
	size_t i;
	int good;

	j->n = n;
	j->number++;
	for (i = 0; i < n; i++)
		atomic_store_explicit(&j->count[i], 0, memory_order_relaxed);
	qwen_pool_run(p, mark, j, n);
	good = atomic_load(&j->bad_thread) == 0;
	for (i = 0; i < n; i++)
		good = good && atomic_load_explicit(&j->count[i],
		    memory_order_relaxed) == 1 && j->plain[i] == j->number;
	return good;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
check_sizes(struct job *j)
{
	static const int threads[] = { 1, 2, 3, 4, 5, 8, 16, 33 };
	static const size_t sizes[] = { 0, 1, 2, 3, 5, 8, 17, 64, 257, 1000,
	    MAX_ITEMS };
	struct qwen_pool *p;
	size_t t, s;
	int r, good;

	for (t = 0; t < sizeof threads / sizeof threads[0]; t++) {
		j->n_threads = threads[t];
		good = qwen_pool_new(&p, threads[t], NULL) == 0 &&
		    qwen_pool_threads(p) == threads[t];
		for (r = 0; good && r < 20; r++) {
			for (s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
				good = good && run_once(p, j, sizes[s]);
		}
		ok(good, "%d threads: jobs of 0 to %d items", threads[t],
		    MAX_ITEMS);
		qwen_pool_free(p);
	}
}

/*
 * Jobs so short that threads are late for most of them; more of them than the
 * ticket has job numbers.
 */
static void
check_tiny(struct job *j, int n_threads, int n_job)
{
	struct qwen_pool *p;
	double start = now();
	int i, good;

	j->n_threads = n_threads;
	good = qwen_pool_new(&p, n_threads, NULL) == 0;
	for (i = 0; good && i < n_job; i++)
		good = run_once(p, j, random_u32() % 6);
	qwen_pool_free(p);
	ok(good, "%d threads: %d jobs of 0 to 5 items", n_threads, n_job);
	ok(now() - start < 300, "  in %.2f s", now() - start);
}

static void
count(void *arg, size_t item, int thread)
{
	unsigned char *seen = arg;

	(void)thread;
	seen[item]++;
}

/* More items than the ticket has room for. */
static void
check_many(void)
{
	size_t n = ((size_t)1 << 24) + 12345, i, bad = 0;
	unsigned char *seen = calloc(n, 1);
	struct qwen_pool *p = NULL;

	if (seen != NULL && qwen_pool_new(&p, 2, NULL) == 0)
		qwen_pool_run(p, count, seen, n);
	for (i = 0; seen != NULL && i < n; i++)
		bad += seen[i] != 1;
	ok(p != NULL && bad == 0, "%zu items", n);
	qwen_pool_free(p);
	free(seen);
}

static void
pause_ms(long ms)
{
	struct timespec t = { 0, ms * 1000000 };

	nanosleep(&t, NULL);
}

/* Between jobs all threads fall asleep; nobody may miss the next one. */
static void
check_sleepers(struct job *j)
{
	struct qwen_pool *p;
	int i, good;

	j->n_threads = 4;
	good = qwen_pool_new(&p, 4, NULL) == 0;
	for (i = 0; good && i < 40; i++) {
		pause_ms(i % 8);
		good = run_once(p, j, 16);
	}
	qwen_pool_free(p);
	ok(good, "jobs after pauses");
}

static void
wait_for_others(void *arg, size_t item, int thread)
{
	atomic_int *here = arg;
	double start = now();

	(void)item;
	(void)thread;
	atomic_fetch_add(here, 1);
	/* passes only if as many threads are inside at a time */
	while (atomic_load(here) < 3 && now() - start < 100)
		pause_ms(1);
}

static void
check_together(void)
{
	struct qwen_pool *p;
	atomic_int here = 0;
	double start = now();

	if (!ok(qwen_pool_new(&p, 3, NULL) == 0, "a pool of 3"))
		return;
	pause_ms(50);		/* they sleep by now */
	qwen_pool_run(p, wait_for_others, &here, 3);
	ok(atomic_load(&here) == 3 && now() - start < 90,
	    "three items are done by three threads, at the same time");
	qwen_pool_free(p);
}

/* A pool that is freed before its threads have begun, or while they spin. */
static void
check_short_lives(struct job *j)
{
	struct qwen_pool *p;
	int i, good = 1;

	for (i = 0; good && i < 200; i++) {
		j->n_threads = 1 + i % 9;
		good = qwen_pool_new(&p, j->n_threads, NULL) == 0;
		if (good && i % 3 != 0)
			good = run_once(p, j, (size_t)(i % 40));
		qwen_pool_free(p);
	}
	ok(good, "%d pools, made and freed", i);
	qwen_pool_free(NULL);
}

static void
check_limits(void)
{
	struct qwen_pool *p;
	struct qwen_err err = { 0 };

	ok(qwen_pool_new(&p, 0, &err) == -1 && p == NULL &&
	    err.code == QWEN_ERANGE, "no thread: %s", err.msg);
	ok(qwen_pool_new(&p, -5, &err) == -1 && p == NULL, "less: %s",
	    err.msg);
	ok(qwen_pool_new(&p, QWEN_POOL_MAX_THREADS + 1, &err) == -1 &&
	    p == NULL && err.code == QWEN_ERANGE, "too many: %s", err.msg);
}

/* Which thread takes SIGHUP; each item waits for some on the others. */
static void
look_at_signals(void *arg, size_t item, int thread)
{
	atomic_int *seen = arg;
	sigset_t set;

	(void)item;
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	atomic_fetch_or(&seen[sigismember(&set, SIGHUP) ? 1 : 0],
	    thread == 0 ? 1 : 2);
	if (sigismember(&set, SIGBUS))
		atomic_store(&seen[2], 1);
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Handlers of a program run in its own threads alone. */
static void
check_signals(void)
{
	atomic_int seen[3] = { 0 };	/* taken by, blocked in, bus blocked */
	struct qwen_pool *p;
	sigset_t set;
	int i;

	if (!ok(qwen_pool_new(&p, 2, NULL) == 0, "a pool of two"))
		return;
	/* until the other thread had some, too */
	for (i = 0; i < 1000 && atomic_load(&seen[1]) == 0; i++)
		qwen_pool_run(p, look_at_signals, seen, 40);
	qwen_pool_free(p);
	ok(atomic_load(&seen[0]) == 1 && atomic_load(&seen[1]) == 2 &&
	    atomic_load(&seen[2]) == 0,
	    "signals are for the caller's thread, but for one's own faults");
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	ok(!sigismember(&set, SIGHUP), "whose mask is as it was");
}

int
main(void)
{
	struct job *j = calloc(1, sizeof *j);

	if (j == NULL)
		return 1;
	check_limits();
	check_sizes(j);
	check_tiny(j, 2, 20000);
	check_tiny(j, 8, 10000);
	check_many();
	check_sleepers(j);
	check_together();
	check_short_lives(j);
	check_signals();
	free(j);
	return done_testing();
}
