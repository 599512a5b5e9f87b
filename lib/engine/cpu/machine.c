/* SPDX-License-Identifier: ISC */
/*
 * machine.c - what the machine can do at best, as a measure for the kernels.
 *
 * Each figure is the best of many short rounds: what else runs on the machine
 * can only make a round slower.  Threads take pieces of a round as they come,
 * so that one which is held up does not stop the others.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "engine/cpu/kernel/kernel.h"

static const size_t piece_bytes = (size_t)4 << 20;
static const size_t least_bytes = (size_t)256 << 20;
static const double piece_s = 2e-4;	/* of arithmetic */
#define SECONDS_MAX 3600.0

struct work {
	struct qwen_pool	*pool;
	const struct qwen_probe	*probe;
	char			*buf;
	size_t			 n_pieces;	/* of the buffer */
	size_t			 steps;		/* of arithmetic in a piece */
	uint64_t		*sink;		/* a piece: results are used */
};

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
fill(void *arg, size_t i, int thread)
{
	struct work *w = arg;

	(void)thread;
	memset(w->buf + i * piece_bytes, (int)i + 1, piece_bytes);
}

static void
read_piece(void *arg, size_t i, int thread)
{
	struct work *w = arg;

	(void)thread;
	w->sink[i] = w->probe->read(w->buf + i * piece_bytes, piece_bytes);
}

/* From the lower half of the buffer to the upper. */
static void
copy_piece(void *arg, size_t i, int thread)
{
	struct work *w = arg;

	(void)thread;
	memcpy(w->buf + (w->n_pieces / 2 + i) * piece_bytes,
	    w->buf + i * piece_bytes, piece_bytes);
}

static void
int8_piece(void *arg, size_t i, int thread)
{
	struct work *w = arg;

	(void)thread;
	w->sink[i] = w->probe->int8(w->steps);
}

static void
f32_piece(void *arg, size_t i, int thread)
{
	struct work *w = arg;

	(void)thread;
	w->sink[i] = w->probe->f32(w->steps);
}

/* The most work a second of rounds of n pieces. */
static double
best(struct work *w, qwen_pool_fn *fn, size_t n, double work, double seconds)
{
	double start = now_s(), t0, t1, rate = 0;
	int rounds;

	for (rounds = 0, t1 = start; rounds < 3 || t1 - start < seconds;
	    rounds++) {
		t0 = now_s();
		qwen_pool_run(w->pool, fn, w, n);
		t1 = now_s();
		if (work / (t1 - t0) > rate)
			rate = work / (t1 - t0);
	}
	return rate;
}

/* Arithmetic: pieces long enough that sharing them out costs nothing. */
static double
best_macs(struct work *w, qwen_pool_fn *fn, size_t macs, double seconds)
{
	size_t n = (size_t)qwen_pool_threads(w->pool) * 8;
	double t = 0;

	if (n > w->n_pieces)
		n = w->n_pieces;
	for (w->steps = 64; t < piece_s && w->steps < 1u << 24; w->steps *= 2) {
		t = now_s();
		fn(w, 0, 0);
		t = now_s() - t;
	}
	return best(w, fn, n, (double)n * (double)w->steps * (double)macs,
	    seconds);
}

/* Of the last cache, or 0; sysconf(3) is no help, some say what a socket has. */
static size_t
cache_bytes(void)
{
	FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
	unsigned long kib = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%lu", &kib) != 1 || kib > 1ul << 22)
		kib = 0;
	fclose(f);
	return (size_t)kib << 10;
}

/* Far more than the last cache holds, within an eighth of the memory. */
static size_t
buffer_bytes(void)
{
	size_t n = 4 * cache_bytes();
	long pages = sysconf(_SC_PHYS_PAGES);

	if (n < least_bytes)
		n = least_bytes;
	if (pages > 0 && n / 4096 > (size_t)pages / 8)
		n = (size_t)pages / 8 * 4096;
	n -= n % (2 * piece_bytes);
	return n > 8 * piece_bytes ? n : 8 * piece_bytes;
}

static int
prepare(struct work *w, size_t bytes, int n_threads, struct qwen_err *err)
{
	w->n_pieces = bytes / piece_bytes;
	w->buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w->sink = qwen_alloc(w->n_pieces, sizeof *w->sink);
	if (w->buf == MAP_FAILED || w->sink == NULL)
		return qwen_oom(err);
	return qwen_pool_new(&w->pool, n_threads, err);
}

static void
measure(struct qwen_machine *out, struct work *w, double seconds)
{
	size_t n = w->n_pieces;
	double bytes = (double)n * (double)piece_bytes;

	qwen_pool_run(w->pool, fill, w, n);
	out->read = best(w, read_piece, n, bytes, seconds);
	out->copy = best(w, copy_piece, n / 2, bytes / 2, seconds);
	out->int8 = best_macs(w, int8_piece, w->probe->int8_macs, seconds);
	out->f32 = best_macs(w, f32_piece, w->probe->f32_macs, seconds);
}

int
qwen_machine_measure(struct qwen_machine *out, int n_threads, const char *cpu,
    double seconds, struct qwen_err *err)
{
	unsigned features = qwen_cpu_detect(), level;
	struct work w = { .buf = MAP_FAILED };
	struct qwen_kernels k;
	int rc;

	memset(out, 0, sizeof *out);
	if (!(seconds >= 0 && seconds <= SECONDS_MAX))
		return qwen_fail(err, QWEN_ERANGE,
		    "%g seconds: must be 0 to %g", seconds, SECONDS_MAX);
	if (cpu != NULL) {
		if (qwen_cpu_level(cpu, &level) < 0)
			return qwen_fail(err, QWEN_EUNSUP, "unknown "
			    "instruction-set level %s", cpu);
		features &= level;
	}
	qwen_kernels_init(&k, features, QWEN_NUMERICS);
	w.probe = k.probe->run.probe;
	if (n_threads == 0)
		n_threads = qwen_cpu_count();
	out->bytes = buffer_bytes();
	rc = prepare(&w, out->bytes, n_threads, err);
	if (rc == 0) {
		out->n_threads = n_threads;
		snprintf(out->variant, sizeof out->variant, "%s",
		    k.probe->name);
		snprintf(out->int8_op, sizeof out->int8_op, "%s",
		    w.probe->int8_op);
		measure(out, &w, seconds > 0 ? seconds : 0.1);
	}
	qwen_pool_free(w.pool);
	free(w.sink);
	if (w.buf != MAP_FAILED)
		munmap(w.buf, out->bytes);
	return rc;
}
