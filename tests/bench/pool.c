/* SPDX-License-Identifier: ISC */
/*
 * pool.c - time that an empty job takes a pool of threads, in microseconds, by
 * number of items; best of 20 rounds.
 *	make bench-pool			with one thread and two
 *	build/tests/bench/pool THREADS...
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/pool.h"

enum { JOBS = 20000, ROUNDS = 20 };

static void
nothing(void *arg, size_t item, int thread)
{
	(void)arg;
	(void)item;
	(void)thread;
}

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int
main(int argc, char **argv)
{
	static const size_t parts[] = { 2, 16, 128 };
	struct qwen_pool *p;
	struct qwen_err err;
	double t, best;
	size_t k;
	int a, i, r;

	for (a = 1; a < argc; a++) {
		if (qwen_pool_new(&p, atoi(argv[a]), &err) < 0) {
			fprintf(stderr, "pool: %s\n", err.msg);
			return 1;
		}
		for (k = 0; k < sizeof parts / sizeof parts[0]; k++) {
			for (best = 1, r = 0; r < ROUNDS; r++) {
				t = now_s();
				for (i = 0; i < JOBS; i++)
					qwen_pool_run(p, nothing, NULL,
					    parts[k]);
				t = (now_s() - t) / JOBS;
				best = t < best ? t : best;
			}
			printf("%s threads, %3zu parts: %.2f us\n", argv[a],
			    parts[k], best * 1e6);
		}
		qwen_pool_free(p);
	}
	return 0;
}
