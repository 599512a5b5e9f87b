/* SPDX-License-Identifier: ISC */
/*
 * agree.c - when a model is opened: rank 0 compares what the ranks have opened,
 * and gives each its layers, by the speed of its host's memory and what is free
 * of it.
 */
#define _GNU_SOURCE	/* gethostname */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/mpi/mpi.h"
#include "engine/net/lora.h"

/* What a rank says of itself. */
struct about {
	char		version[16];	/* of the program */
	uint64_t	model;		/* hash of what changes results */
	double		speed;		/* bytes a second, read from memory */
	double		memory;		/* bytes available; 0: not known */
	char		host[64];
};

/* What rank 0 answers; rank[n_layer] follows if ok. */
struct verdict {
	uint64_t	ok;
};

/* ---------------------------------------------------------------- this rank */

/* FNV-1a */
static void
hash(uint64_t *h, const void *p, size_t n)
{
	const unsigned char *b = p;

	while (n-- > 0)
		*h = (*h ^ *b++) * 0x100000001b3;
}

/* The names and sizes of all tensors, and a few bytes of each. */
static void
hash_file(uint64_t *h, const struct qwen_gguf *g)
{
	enum { SAMPLE_BYTES = 64 };
	const struct qwen_gguf_tensor *t;
	size_t i;

	for (i = 0; i < qwen_gguf_n_tensors(g); i++) {
		t = qwen_gguf_tensor(g, i);
		hash(h, t->name, strlen(t->name) + 1);
		hash(h, &t->type, sizeof t->type);
		hash(h, &t->bytes, sizeof t->bytes);
		if (t->data != NULL)
			hash(h, t->data, t->bytes < SAMPLE_BYTES ?
			    (size_t)t->bytes : SAMPLE_BYTES);
	}
}

/* Returns a hash of the model, its adapters, and options that change results. */
static uint64_t
model_hash(const struct qwen_net *net)
{
	const struct qwen_hparams *h = &net->hp;
	uint64_t all = 0xcbf29ce484222325, v[] = { net->numerics, h->k, h->v,
	    h->rope.kind, h->rope.factor, h->rope.n_orig, h->n_ctx };
	size_t i;

	hash(&all, v, sizeof v);
	hash_file(&all, net->gguf);
	for (i = 0; i < qwen_loras_n(net); i++) {
		const struct qwen_adapter_file *a = qwen_loras_get(net, i);

		hash_file(&all, a->g);
		hash(&all, &a->scale, sizeof a->scale);
	}
	return all;
}

enum { PIECE = 1 << 20, PIECES = 96 };

struct reading {
	const uint64_t	*p;
	uint64_t	 sum[PIECES];
};

static void
read_piece(void *arg, size_t i, int thread)
{
	struct reading *r = arg;
	const uint64_t *p = r->p + i * (PIECE / sizeof *p);
	uint64_t sum = 0;
	size_t k;

	(void)thread;
	for (k = 0; k < PIECE / sizeof *p; k++)
		sum += p[k];
	r->sum[i] = sum;
}

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns the bytes a second that all threads read, which decoding is bound by. */
static double
memory_speed(struct qwen_pool *pool)
{
	struct reading r = { .p = qwen_alloc_large(PIECES, PIECE) };
	double best = 1e30, t;
	int i;

	if (r.p == NULL)
		return 0;
	memset((void *)(uintptr_t)r.p, 1, (size_t)PIECES * PIECE);
	for (i = 0; i < 3; i++) {
		t = now_s();
		qwen_pool_run(pool, read_piece, &r, PIECES);
		t = now_s() - t;
		best = t < best ? t : best;
	}
	free((void *)(uintptr_t)r.p);
	return best > 0 ? (double)PIECES * PIECE / best : 0;
}

static struct about
about_me(const struct qwen_mpi *d, const struct qwen_mpi_wish *wish,
    struct qwen_pool *pool)
{
	struct about a = { .model = model_hash(d->r.net) };

	snprintf(a.version, sizeof a.version, "%s", QWEN_VERSION);
	if (gethostname(a.host, sizeof a.host) == -1 || a.host[0] == '\0')
		snprintf(a.host, sizeof a.host, "a host without a name");
	a.host[sizeof a.host - 1] = '\0';
	/* nobody needs it if the shares are given */
	a.speed = wish->n == 0 && d->link->n > 1 ? memory_speed(pool) : 0;
	a.memory = 1024.0 * (double)qwen_number_in("/proc/meminfo", "",
	    "MemAvailable:", 0);
	return a;
}

/* -------------------------------------------------------------------- rank 0 */

/*
 * Sets the shares by speed.  A host with too little memory for that has less; the
 * others share the rest.
 */
static void
choose_shares(const struct about *a, size_t n, double bytes, double *share)
{
	double left = bytes, speed = 0;
	size_t i;
	int again = 1;

	for (i = 0; i < n; i++) {
		share[i] = -1;
		speed += a[i].speed;
	}
	while (again && speed > 0) {
		for (again = 0, i = 0; i < n; i++) {
			if (share[i] >= 0 || a[i].memory <= 0 ||
			    left * a[i].speed / speed <= a[i].memory)
				continue;
			share[i] = a[i].memory;
			left -= a[i].memory;
			speed -= a[i].speed;
			again = 1;
		}
	}
	for (i = 0; i < n; i++) {
		if (share[i] < 0)
			share[i] = speed > 0 && left > 0 ? left * a[i].speed /
			    speed : 1;
	}
}

/* Returns the bytes of the model's tensors. */
static double
model_bytes(const struct qwen_net *net)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < qwen_gguf_n_tensors(net->gguf); i++)
		sum += (double)qwen_gguf_tensor(net->gguf, i)->bytes;
	return sum;
}

static void
name_ranks(struct qwen_mpi *d, const struct about *a)
{
	size_t i, first, last, n = d->r.net->hp.n_layer;
	int k;

	for (k = 0; k < d->link->n; k++) {
		for (first = n, last = i = 0; i < n; i++) {
			if (d->rank[i] != k)
				continue;
			first = first < i ? first : i;
			last = i;
		}
		if (first == n)
			snprintf(d->link->peer[k].name, QWEN_MPI_NAME,
			    "%s, no layers,", a[k].host);
		else
			snprintf(d->link->peer[k].name, QWEN_MPI_NAME,
			    "%s, layers %zu-%zu,", a[k].host, first, last);
	}
}

/* Receives what all ranks say, and compares it. */
static int
ask_all(struct qwen_mpi *d, struct about *a, struct qwen_err *err)
{
	struct qwen_mpi_link *l = d->link;
	void *request;
	int i;

	for (i = 1; i < l->n; i++) {
		request = qwen_mpi_begin_receive(l, i, QWEN_MPI_REPLY, &a[i],
		    sizeof a[i]);
		if (request == NULL || qwen_mpi_wait(l, request) < 0)
			return qwen_mpi_check(l, err);
		a[i].host[sizeof a[i].host - 1] = '\0';
		snprintf(l->peer[i].name, QWEN_MPI_NAME, "%s", a[i].host);
		if (memcmp(a[i].version, a[0].version, sizeof a[i].version) != 0)
			return qwen_fail(err, QWEN_EMISMATCH, "rank %d on %s "
			    "runs another version of qpipe: %.15s", i,
			    a[i].host, a[i].version);
		if (a[i].model != a[0].model)
			return qwen_fail(err, QWEN_EMISMATCH, "rank %d on %s "
			    "has opened another model file, or has other "
			    "options", i, a[i].host);
	}
	return 0;
}

static int
choose(struct qwen_mpi *d, const struct about *a,
    const struct qwen_mpi_wish *wish, struct qwen_err *err)
{
	double share[QWEN_MPI_RANKS_MAX];
	size_t i, n = (size_t)d->link->n;

	if (wish->n > 0 && wish->n != n)
		return qwen_fail(err, QWEN_ERANGE, "mpi: %zu shares for %zu "
		    "ranks", wish->n, n);
	choose_shares(a, n, model_bytes(d->r.net), share);
	for (i = 0; i < wish->n; i++)
		share[i] = wish->share[i];
	qwen_mpi_split(d->r.net, share, n, d->rank);
	name_ranks(d, a);
	return 0;
}

/* Tells all other ranks their layers, or that there is nothing to do. */
static int
tell_all(struct qwen_mpi *d, int ok)
{
	struct verdict v = { .ok = (uint64_t)ok };
	int i;

	d->out.n = 0;
	qwen_text_add(&d->out, &v, sizeof v);
	if (ok)
		qwen_text_add(&d->out, d->rank, d->r.net->hp.n_layer);
	for (i = 1; i < d->link->n; i++) {
		if (qwen_mpi_order(d, i) < 0)
			return -1;
	}
	return 0;
}

static int
lead(struct qwen_mpi *d, const struct qwen_mpi_wish *wish, struct about *a,
    struct qwen_err *err)
{
	if (ask_all(d, a, err) < 0 || choose(d, a, wish, err) < 0) {
		tell_all(d, 0);
		return -1;
	}
	tell_all(d, 1);
	return qwen_mpi_check(d->link, err);
}

/* ------------------------------------------------------------- other ranks */

static int
follow(struct qwen_mpi *d, const struct about *me, struct qwen_err *err)
{
	size_t n = d->r.net->hp.n_layer;
	struct verdict v = { 0 };
	void *p = NULL;
	size_t cap = 0;
	int64_t got;

	if (qwen_mpi_send(d->link, 0, QWEN_MPI_REPLY, me, sizeof *me) == 0 &&
	    (got = qwen_mpi_next(d->link, 0, QWEN_MPI_COMMAND, &p,
	    &cap)) >= (int64_t)sizeof v) {
		memcpy(&v, p, sizeof v);
		d->link->ended = !v.ok;
		v.ok = v.ok && (size_t)got == sizeof v + n;
		if (v.ok)
			memcpy(d->rank, (char *)p + sizeof v, n);
	}
	free(p);
	if (!v.ok)
		return qwen_fail(err, QWEN_EPIPE, "rank 0 does not need this "
		    "rank");
	return 0;
}

int
qwen_mpi_agree(struct qwen_mpi *d, const struct qwen_mpi_wish *wish,
    struct qwen_pool *pool, struct qwen_err *err)
{
	struct about *a = qwen_alloc((size_t)d->link->n, sizeof *a);
	int rc;

	if (a == NULL)
		return qwen_oom(err);
	a[0] = about_me(d, wish, pool);
	rc = d->link->rank == 0 ? lead(d, wish, a, err) :
	    follow(d, &a[0], err);
	free(a);
	return rc;
}
