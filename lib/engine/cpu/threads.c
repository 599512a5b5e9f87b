/* SPDX-License-Identifier: ISC */
/*
 * threads.c - how many threads to start where processors are siblings, which
 * share a core: one for each core, or one for each processor.  Products are
 * bound by what siblings share, so that two of them are as slow as one, or slower
 * where they fill its caches; waiting for memory they may overlap.  So it is
 * measured, once, and kept in the file of tune.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "engine/cpu/tune.h"

/*
 * Q8_0 of this shape: 36 MB, of which many tokens are multiplied by the first
 * eighth, and one by all.
 */
enum { ROWS = 8192, N_IN = 4096, TOKENS = 64, PART = 32 };

/* All processors must be so much faster. */
#define MARGIN 1.03

struct job {
	struct qwen_kernels	 k;
	const struct qwen_quant	*q;
	unsigned char		*w, *packed;
	struct qwen_q8		*x;
	float			*y;
	const void		*xp[TOKENS];
	float			*yp[TOKENS];
	const struct qwen_packing *packing;	/* of TOKENS; or NULL */
	struct qwen_pool	*pool;
	size_t			 n_tok, rows;
};

static void
job_fini(struct job *j)
{
	free(j->w);
	free(j->packed);
	free(j->x);
	free(j->y);
}

static int
job_init(struct job *j, unsigned features)
{
	const size_t groups = N_IN / QWEN_GROUP;
	const struct qwen_kernel *many;
	float row[N_IN];
	size_t i, bytes;

	memset(j, 0, sizeof *j);
	qwen_kernels_init(&j->k, features, 1);
	j->q = qwen_quant_find(QT_Q8_0);
	bytes = ROWS * qwen_quant_row_bytes(QT_Q8_0, N_IN);
	many = j->k.gemm[QT_Q8_0].by[qwen_token_class(TOKENS)];
	j->packing = many != NULL ? many->packing : NULL;
	j->w = qwen_alloc_large(bytes, 1);
	j->x = qwen_alloc_large(TOKENS * groups, sizeof *j->x);
	j->y = qwen_alloc_large((size_t)TOKENS * ROWS, sizeof *j->y);
	if (j->packing != NULL)
		j->packed = qwen_alloc_large(1, qwen_packed_bytes(j->packing,
		    TOKENS, N_IN));
	if (j->w == NULL || j->x == NULL || j->y == NULL ||
	    (j->packing != NULL && j->packed == NULL))
		return -1;
	memset(j->w, 0x31, bytes);	/* a scale of 0.16, weights of 49 */
	for (i = 0; i < N_IN; i++)
		row[i] = (float)(i % 7) - 3;
	for (i = 0; i < TOKENS; i++) {
		j->k.vec->run.vec->quantize(j->x + i * groups, row, N_IN);
		j->xp[i] = j->x + i * groups;
		j->yp[i] = j->y + i * ROWS;
	}
	if (j->packing != NULL)
		qwen_pack(j->packing, j->packed, j->xp, TOKENS, N_IN);
	return 0;
}

static void
part(void *arg, size_t item, int thread)
{
	struct job *j = arg;
	struct qwen_matmul m = { .w = j->w, .quant = j->q, .n_in = N_IN,
	    .row_bytes = qwen_quant_row_bytes(QT_Q8_0, N_IN), .x = j->xp,
	    .y = j->yp, .n_tok = j->n_tok, .r0 = item * PART,
	    .r1 = item * PART + PART, .packing = j->packing,
	    .packed = j->packed };

	(void)thread;
	qwen_multiply(j->k.matmul[QT_Q8_0], &j->k.gemm[QT_Q8_0], &m);
}

static void
all_parts(void *arg)
{
	struct job *j = arg;

	qwen_pool_run(j->pool, part, j, j->rows / PART);
}

static double
measure(struct job *j, size_t n_tok, size_t rows)
{
	j->n_tok = n_tok;
	j->rows = rows;
	return qwen_tune_best(all_parts, j);
}

/* Of many tokens, and of one; -1 without the threads. */
static int
times(struct job *j, int n_threads, double took[2])
{
	struct qwen_err err;

	if (qwen_pool_new(&j->pool, n_threads, &err) < 0)
		return -1;
	took[0] = measure(j, TOKENS, ROWS / 8);
	took[1] = measure(j, 1, ROWS);
	qwen_pool_free(j->pool);
	return 0;
}

/* The faster one, in the mean of both; n_all if that cannot be found out. */
static int
compare(unsigned features, int n_cores, int n_all)
{
	double cores[2], all[2];
	struct job *j = qwen_alloc(1, sizeof *j);
	int n = n_all;

	if (j == NULL)
		return n_all;
	if (job_init(j, features) == 0 && times(j, n_cores, cores) == 0 &&
	    times(j, n_all, all) == 0 && (all[0] / cores[0] +
	    all[1] / cores[1]) * MARGIN > 2)
		n = n_cores;
	job_fini(j);
	free(j);
	return n;
}

int
qwen_tune_threads(const char *path, unsigned features, int n_cores, int n_all)
{
	struct qwen_text text = { 0 };
	char line[64];
	const char *at;
	int n = 0;

	if (n_cores >= n_all)
		return n_all;
	qwen_tune_load(path, &text);
	snprintf(line, sizeof line, "\nthreads %d %d ", n_cores, n_all);
	/* the last one: what is found anew comes after what was nonsense */
	for (at = text.failed ? NULL : strstr(text.s, line); at != NULL;
	    at = strstr(at + 1, line))
		n = atoi(at + strlen(line));
	if (n != n_cores && n != n_all) {
		n = compare(features, n_cores, n_all);
		qwen_text_fmt(&text, "%s%d\n", line + 1, n);
		if (path != NULL && !text.failed)
			qwen_tune_save(path, &text);
	}
	qwen_text_fini(&text);
	return n;
}
