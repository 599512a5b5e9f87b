/* SPDX-License-Identifier: ISC */
/*
 * pool.h - a pool of threads that share the items of a job.
 *
 * The caller works too, so a pool of n threads starts n - 1.  Consecutive items
 * mostly go to the same thread.  Between jobs the threads spin for a short
 * time, since the next job usually comes within microseconds, and then sleep.
 * Results never depend on which thread computes which item.
 */
#ifndef QWEN_BASE_POOL_H
#define QWEN_BASE_POOL_H

#include <stddef.h>

#include "qwen/base.h"

#define QWEN_POOL_MAX_THREADS 1024

struct qwen_pool;

/* thread is 0 .. n_threads - 1, for scratch memory. */
typedef void qwen_pool_fn(void *arg, size_t item, int thread);

int qwen_pool_new(struct qwen_pool **out, int n_threads, struct qwen_err *err);
void qwen_pool_free(struct qwen_pool *p);
int qwen_pool_threads(const struct qwen_pool *p);

/* Calls fn for items 0 .. n-1 on all threads; returns when all are done. */
void qwen_pool_run(struct qwen_pool *p, qwen_pool_fn *fn, void *arg, size_t n);

#endif
