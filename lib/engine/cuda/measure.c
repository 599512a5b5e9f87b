/* SPDX-License-Identifier: ISC */
/*
 * measure.c - how fast a card is: its memory, the bus to it, launches, and the
 * project's own product kernel.  Each figure begins with little work, which is
 * doubled until it takes long enough.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/kernel/rows.h"
#include "engine/cuda/layout.h"
#include "engine/cuda/load.h"

enum { FIRST = 1 << 16, BUFFER = 256 << 20, LAUNCHES = 64, RELAXED = 2 };

/* Seconds after which a piece of work is long enough. */
static const double enough = 0.02;

struct bench {
	struct qwen_cuda	 c;
	struct qwen_net		 net;
	cu_ptr			 a, b;		/* BUFFER bytes each, or less */
	size_t			 bytes;
	char			*host, *pinned;
	cu_exec			 exec;		/* a graph of LAUNCHES */
	struct qwen_weight	 weight;
	struct qwen_cuda_weight	 on;		/* it, in the buffer a */
	size_t			 rows;
};

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void work_fn(struct bench *b, size_t n);

/*
 * Returns n units of work a second, for n from `from', doubled up to `most'.  Each
 * is done once before it is timed.
 */
static double
rate(struct bench *b, work_fn *work, size_t from, size_t most)
{
	double start, took, best = 0;
	size_t n;

	for (n = from; n <= most; n *= 2) {
		work(b, n);
		qwen_cuda_sync(b->c.card);
		start = now();
		work(b, n);
		if (qwen_cuda_sync(b->c.card) < 0)
			return 0;
		took = now() - start;
		if (took > 0 && (double)n / took > best)
			best = (double)n / took;
		if (took > enough)
			break;
	}
	return best;
}

/* ---------------------------------------------------------------------- copies */

static void
copy(struct bench *b, size_t n)
{
	qwen_cuda_copy(b->c.card, b->a, b->b, n);
}

static void
put_pinned(struct bench *b, size_t n)
{
	qwen_cuda_put(b->c.card, b->a, b->pinned, n);
}

static void
get_pinned(struct bench *b, size_t n)
{
	qwen_cuda_get(b->c.card, b->pinned, b->a, n);
}

static void
put_host(struct bench *b, size_t n)
{
	qwen_cuda_put(b->c.card, b->a, b->host, n);
}

static void
get_host(struct bench *b, size_t n)
{
	qwen_cuda_get(b->c.card, b->host, b->a, n);
}

/* -------------------------------------------------------------------- launches */

/* Launches a kernel that does next to nothing. */
static void
launch(struct bench *b, size_t n)
{
	struct dev_add add = { .x = QWEN_CUDA_P(b->a), .y = QWEN_CUDA_P(b->b),
	    .n = 1 };
	struct qwen_cuda_launch l = { .module = "rows", .name = "add_rows",
	    .x = 1, .threads = 32 };

	for (; n > 0; n--)
		qwen_cuda_run(b->c.card, &l, &add, sizeof add);
}

static void
launch_graph(struct bench *b, size_t n)
{
	struct qwen_cuda_card *c = b->c.card;

	for (; n > 0 && c->failed == NULL; n -= LAUNCHES)
		qwen_cuda_note(c, "exec_run", c->cu.exec_run(b->exec,
		    c->stream));
}

static void
record(struct bench *b)
{
	struct qwen_cuda_card *c = b->c.card;
	cu_graph graph = NULL;

	launch(b, 1);	/* the kernel must be loaded */
	if (qwen_cuda_sync(c) < 0 || qwen_cuda_note(c, "capture",
	    c->cu.capture(c->stream, RELAXED)) < 0)
		return;
	launch(b, LAUNCHES);
	if (qwen_cuda_note(c, "capture_end", c->cu.capture_end(c->stream,
	    &graph)) < 0)
		return;
	qwen_cuda_note(c, "exec_new", c->cu.exec_new(&b->exec, graph, 0));
	qwen_cuda_note(c, "graph_free", c->cu.graph_free(graph));
}

/* -------------------------------------------------------------------- products */

/* Rows by a matrix of Q4_K, n multiply-adds in all. */
static void
multiply(struct bench *b, size_t n)
{
	struct qwen_cuda_work w = { .c = &b->c, .net = &b->net };
	struct qwen_cuda_rows x = { .groups = b->b, .n = b->rows };

	b->weight.n_out = n / b->rows / b->weight.n_in;
	b->on.n_out = (uint32_t)b->weight.n_out;
	qwen_cuda_multiply(&w, &b->on, &x, b->b + b->bytes / 2, b->on.n_out);
}

/* Returns multiply-adds a second; all weights and rows are zero. */
static double
products(struct bench *b)
{
	double best = 0, here;

	b->weight = (struct qwen_weight){ .quant = qwen_quant_find(QT_Q4_K),
	    .operand = QWEN_AS_Q8, .n_in = 256, .n_out = 64 };
	b->net.operands[QWEN_AS_Q8] = 1;
	b->on = (struct qwen_cuda_weight){ .of = &b->weight, .data = b->a,
	    .n_matrix = 1 };
	qwen_cuda_zero(b->c.card, b->a, b->bytes);
	qwen_cuda_zero(b->c.card, b->b, b->bytes);
	for (b->rows = 64; b->rows <= 512; b->rows *= 2) {
		b->weight.n_in = 4 * b->rows;
		b->on.n_in = (uint32_t)b->weight.n_in;
		b->on.row_bytes = qwen_cuda_row_bytes(&b->weight);
		here = rate(b, multiply, 64 * b->rows * b->weight.n_in,
		    (size_t)8192 * b->rows * b->weight.n_in);
		if (here < best)
			break;
		best = here;
	}
	return best;
}

/* --------------------------------------------------------------------- a card */

static int
take_memory(struct bench *b, struct qwen_err *err)
{
	uint64_t left = qwen_cuda_memory_left(b->c.card) / 4;

	b->bytes = left < BUFFER ? (size_t)left / 512 * 512 : BUFFER;
	b->a = qwen_cuda_alloc(b->c.card, b->bytes);
	b->b = qwen_cuda_alloc(b->c.card, b->bytes);
	b->host = qwen_alloc(1, b->bytes);
	b->pinned = qwen_cuda_pinned(b->c.card, b->bytes);
	if (b->bytes >= 64 << 20 && b->a != 0 && b->b != 0 && b->host != NULL &&
	    b->pinned != NULL)
		return 0;
	return qwen_cuda_check(b->c.card, err) < 0 ? -1 : qwen_fail(err,
	    QWEN_ENOMEM, "%s: too little memory to measure with: 256 MiB must "
	    "be free", b->c.card->name);
}

int
qwen_cuda_measure(int number, struct qwen_card_speed *out,
    struct qwen_err *err)
{
	struct bench b = { .bytes = 0 };
	struct qwen_cuda_card *c;
	int rc;

	if (qwen_cuda_card_open(&c, number, err) < 0)
		return -1;
	b.c.card = c;
	qwen_cuda_enter(c);
	*out = (struct qwen_card_speed){ .number = number, .peak = c->read };
	memcpy(out->name, c->name, sizeof out->name);
	if ((rc = take_memory(&b, err)) == 0) {
		record(&b);
		out->memory = 2 * rate(&b, copy, FIRST, b.bytes);
		out->put = rate(&b, put_pinned, FIRST, b.bytes);
		out->get = rate(&b, get_pinned, FIRST, b.bytes);
		out->put_pageable = rate(&b, put_host, FIRST, b.bytes);
		out->get_pageable = rate(&b, get_host, FIRST, b.bytes);
		out->launches = rate(&b, launch, LAUNCHES, 4096);
		out->graph_launches = rate(&b, launch_graph, LAUNCHES, 4096);
		out->int8 = products(&b);
		rc = qwen_cuda_check(c, err);
	}
	if (b.exec != NULL)
		c->cu.exec_free(b.exec);
	qwen_cuda_free(c, b.a);
	qwen_cuda_free(c, b.b);
	qwen_cuda_pinned_free(c, b.pinned);
	free(b.host);
	qwen_cuda_card_close(c);
	return rc;
}
