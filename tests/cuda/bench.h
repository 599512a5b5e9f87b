/* SPDX-License-Identifier: ISC */
/*
 * bench.h - a card, and a pass of rows without a model, for tests of operations;
 * and the same rows in plain C.
 */
#ifndef BENCH_H
#define BENCH_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../kernel/random.h"
#include "../tap.h"
#include "engine/cuda/cuda.h"
#include "engine/cuda/kernel/group.h"
#include "engine/cuda/layout.h"
#include "engine/plain/plain.h"

enum { BENCH_ROWS = 160, BENCH_WIDTH = 4096 };

struct bench {
	struct qwen_cuda	 c;
	struct qwen_net		 net;
	struct qwen_cuda_work	 w;
	cu_ptr			 x, y;		/* [BENCH_ROWS][BENCH_WIDTH] */
	struct qwen_plain_work	 plain;
	const float		*from[BENCH_ROWS];
	float			*to[BENCH_ROWS];
};

/* Ends the test program if there is no card. */
static inline void __attribute__((unused))
bench_open(struct bench *b)
{
	size_t bytes = BENCH_ROWS * BENCH_WIDTH * sizeof(float);
	size_t groups = BENCH_WIDTH / QWEN_GROUP;
	struct qwen_err err = { 0 };

	memset(b, 0, sizeof *b);
	if (qwen_cuda_card_open(&b->c.card, 0, &err) < 0) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	b->w.c = &b->c;
	b->w.net = &b->net;
	b->x = qwen_cuda_alloc(b->c.card, bytes);
	b->y = qwen_cuda_alloc(b->c.card, bytes);
	b->w.array[QWEN_CUDA_GROUPS] = qwen_cuda_alloc(b->c.card, 2 *
	    BENCH_ROWS * groups * sizeof(struct dev_group));
	b->w.array[QWEN_CUDA_GROUPS_X] = qwen_cuda_alloc(b->c.card, 2 *
	    BENCH_ROWS * groups * sizeof(struct dev_group));
	b->plain.net = &b->net;
	b->plain.width = BENCH_WIDTH;
	b->plain.from = b->from;
	b->plain.to = b->to;
	b->plain.group = malloc(2 * groups * BENCH_ROWS *
	    sizeof *b->plain.group);
	b->plain.row = malloc(BENCH_WIDTH * sizeof(float));
	b->plain.unpacked = malloc(groups * sizeof *b->plain.unpacked);
}

static inline void __attribute__((unused))
bench_close(struct bench *b)
{
	size_t i;

	qwen_cuda_staging_free(&b->c);
	qwen_cuda_free(b->c.card, b->x);
	qwen_cuda_free(b->c.card, b->y);
	for (i = 0; i < QWEN_CUDA_ARRAYS; i++)
		qwen_cuda_free(b->c.card, b->w.array[i]);
	for (i = 0; i < b->c.n_owned; i++)
		qwen_cuda_free(b->c.card, b->c.owned[i]);
	free(b->c.owned);
	qwen_cuda_card_close(b->c.card);
	free(b->plain.group);
	free(b->plain.row);
	free(b->plain.unpacked);
}

/* Frees the weights that were put on the card. */
static inline void __attribute__((unused))
bench_forget(struct bench *b)
{
	while (b->c.n_owned > 0)
		qwen_cuda_free(b->c.card, b->c.owned[--b->c.n_owned]);
}

/*
 * Activations: spread out, so that a is from 1 to 7; some rows are large, of zeros, or tiny, and if bad is
 * set one has an infinity.
 */
static inline void __attribute__((unused))
bench_fill(float *x, size_t n, size_t row, int bad)
{
	size_t i;

	for (i = 0; i < n; i++) {
		switch (row % 8) {
		case 3:
			x[i] = i / 32 % 3 ? 1e30f : -1e30f;
			break;
		case 4:
			x[i] = i < n / 2 ? 0.0f : -0.0f;
			break;
		case 5:
			x[i] = ldexpf(random_float(), -54 - (int)(i % 17) -
			    (row % 3 == 1 ? 60 : 0));
			break;
		case 6:
			x[i] = bad && i == n - 1 ? INFINITY : random_float();
			break;
		default:
			x[i] = random_float() *
			    (0.2f + 1.3f * (float)(i / 32 % 8));
		}
	}
}

/* 1 if n numbers have the same bits; a NaN is like any other. */
static inline int __attribute__((unused))
bench_same(const float *a, const float *b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (memcmp(&a[i], &b[i], sizeof *a) != 0 &&
		    !(isnan(a[i]) && isnan(b[i])))
			return 0;
	}
	return 1;
}

#endif
