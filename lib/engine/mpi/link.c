/* SPDX-License-Identifier: ISC */
/* link.c - the library of MPI, and messages with deadlines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/mpi/link.h"

#ifndef QPIPE_STATIC
#include <dlfcn.h>
#endif

static const double sign_s = 1;

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---------------------------------------------------------------- the library */

#ifdef QPIPE_STATIC
static int
load_library(struct qwen_mpi_link *l, struct qwen_err *err)
{
	(void)l;
	return qwen_fail(err, QWEN_EUNSUP, "static tools do not use MPI, which "
	    "is a shared library");
}
#else
/* The library stays loaded: it has a function that exit() calls. */
static int
load_library(struct qwen_mpi_link *l, struct qwen_err *err)
{
	if ((l->library = dlopen(QWEN_MPI_LIBRARY, RTLD_NOW |
	    RTLD_NODELETE)) == NULL)
		return qwen_fail(err, QWEN_EUNSUP, "no " QWEN_MPI_LIBRARY
		    " or no MPI: install qpipe's part for MPI");
	l->calls = dlsym(l->library, QWEN_MPI_SYMBOL);
	if (l->calls == NULL || l->calls->version != QWEN_MPI_CALLS_VERSION)
		return qwen_fail(err, QWEN_EUNSUP, QWEN_MPI_LIBRARY " is that "
		    "of another version of qpipe");
	return 0;
}
#endif

int
qwen_mpi_open(struct qwen_mpi_link **out, double deadline_s,
    struct qwen_err *err)
{
	struct qwen_mpi_link *l = qwen_alloc(1, sizeof *l);
	int rc;

	*out = NULL;
	if (l == NULL)
		return qwen_oom(err);
	l->deadline_s = deadline_s;
	if (load_library(l, err) < 0) {
		free(l);
		return -1;
	}
	rc = l->calls->start(deadline_s, &l->rank, &l->n, &l->again);
	if (rc != 0) {
		free(l);
		return rc > 0 ? qwen_fail(err, QWEN_EUNSUP, "another open "
		    "model uses the ranks of MPI") : qwen_fail(err,
		    QWEN_EUNSUP, "MPI does not start: start this program with "
		    "mpirun or srun");
	}
	*out = l;
	if (l->n > QWEN_MPI_RANKS_MAX)
		rc = qwen_fail(err, QWEN_ERANGE, "%d ranks; at most %d are "
		    "used", l->n, QWEN_MPI_RANKS_MAX);
	else if ((l->peer = qwen_alloc((size_t)l->n, sizeof *l->peer)) == NULL)
		rc = qwen_oom(err);
	if (rc == 0)
		return 0;
	qwen_mpi_close(l);
	*out = NULL;
	return -1;
}

void
qwen_mpi_close(struct qwen_mpi_link *l)
{
	int i;

	if (l == NULL)
		return;
	for (i = 0; l->peer != NULL && i < l->n; i++) {
		if (l->peer[i].sign != NULL)
			l->calls->drop(l->peer[i].sign);
	}
	if (l->own_sign != NULL)
		l->calls->drop(l->own_sign);
	l->calls->leave();
	free(l->peer);
	free(l);
}

/* ------------------------------------------------------------------- failures */

int
qwen_mpi_fail(struct qwen_mpi_link *l, const char *why, int rank)
{
	if (l->failed)
		return -1;
	l->failed = 1;
	snprintf(l->why, sizeof l->why, why, rank,
	    l->peer[rank].name[0] != '\0' ? " on " : "", l->peer[rank].name);
	l->calls->fail();
	return -1;
}

int
qwen_mpi_check(const struct qwen_mpi_link *l, struct qwen_err *err)
{
	return l->failed ? qwen_fail(err, QWEN_EIO, "%s", l->why) : 0;
}

/* Notes signs of life; fails if one of the other ranks was silent too long. */
static int
listen(struct qwen_mpi_link *l, double since_s, double now)
{
	struct qwen_mpi_peer *p;
	int i, rc;

	for (i = 1; i < l->n; i++) {
		p = &l->peer[i];
		if (p->sign != NULL && (rc = l->calls->test(p->sign)) != 0) {
			p->sign = NULL;
			if (rc < 0)
				return qwen_mpi_fail(l, "rank %d%s%s is lost", i);
			p->seen_s = now;
		}
		if (p->sign == NULL && (p->sign = l->calls->receive(i,
		    QWEN_MPI_ALIVE, NULL, 0)) == NULL)
			return qwen_mpi_fail(l, "rank %d%s%s is lost", i);
		if (now - (p->seen_s > since_s ? p->seen_s : since_s) >
		    l->deadline_s)
			return qwen_mpi_fail(l, "rank %d%s%s gives no sign of life", i);
	}
	return 0;
}

void
qwen_mpi_sign(struct qwen_mpi_link *l)
{
	double now = now_s();

	if (now - l->signed_s < sign_s)
		return;
	if (l->own_sign != NULL && l->calls->test(l->own_sign) == 0)
		return;
	l->own_sign = l->calls->send(0, QWEN_MPI_ALIVE, NULL, 0, 1);
	l->signed_s = now;
}

/*
 * What a rank does while it waits, since `since_s': -1 if it need not wait any
 * longer.  It sleeps more the longer it waits: the next token comes soon, the
 * next request perhaps tomorrow.
 */
static int
pass_time(struct qwen_mpi_link *l, double since_s)
{
	double now = now_s(), waited = now - since_s;
	struct timespec nap = { .tv_nsec = waited < 1 ? 20000 : waited < 10 ?
	    500000 : 5000000 };
	size_t n;

	if (l->failed)
		return -1;
	if (l->rank == 0 && listen(l, since_s, now) < 0)
		return -1;
	if (l->rank > 0) {
		qwen_mpi_sign(l);
		if (l->calls->probe(0, QWEN_MPI_END, &n) != 0)
			l->ended = 1;
	}
	if (l->ended)
		return -1;
	if (waited > 1e-3)
		nanosleep(&nap, NULL);
	return 0;
}

/* ------------------------------------------------------------------- messages */

int
qwen_mpi_wait(struct qwen_mpi_link *l, void *request)
{
	double since_s = request != NULL ? now_s() : 0;
	int rc;

	while (request != NULL && (rc = l->calls->test(request)) != 1) {
		if (rc < 0)
			return qwen_mpi_fail(l, "a message to or from rank %d%s%s was "
			    "lost", l->rank);
		if (pass_time(l, since_s) < 0) {
			l->calls->drop(request);
			return -1;
		}
	}
	return l->failed ? -1 : 0;
}

void
qwen_mpi_progress(struct qwen_mpi_link *l, void **request)
{
	int rc = *request != NULL && !l->failed ? l->calls->test(*request) : 0;

	if (rc != 0)
		*request = NULL;
	if (rc < 0)
		qwen_mpi_fail(l, "a message of rank %d%s%s was lost", l->rank);
}

void *
qwen_mpi_begin_send(struct qwen_mpi_link *l, int to, int tag, const void *p,
    size_t n)
{
	void *r = l->failed ? NULL : l->calls->send(to, tag, p, n, 0);

	if (r == NULL)
		qwen_mpi_fail(l, "no message can be sent to rank %d%s%s", to);
	return r;
}

void *
qwen_mpi_begin_receive(struct qwen_mpi_link *l, int from, int tag, void *p,
    size_t n)
{
	void *r = l->failed ? NULL : l->calls->receive(from, tag, p, n);

	if (r == NULL)
		qwen_mpi_fail(l, "no message can be received from rank %d%s%s", from);
	return r;
}

int
qwen_mpi_send(struct qwen_mpi_link *l, int to, int tag, const void *p,
    size_t n)
{
	void *r = qwen_mpi_begin_send(l, to, tag, p, n);

	return r != NULL ? qwen_mpi_wait(l, r) : -1;
}

int64_t
qwen_mpi_next(struct qwen_mpi_link *l, int from, int tag, void **buf,
    size_t *cap)
{
	double since_s = now_s();
	size_t n = 0;
	void *r;
	int rc;

	while ((rc = l->failed ? -1 : l->calls->probe(from, tag, &n)) == 0) {
		if (pass_time(l, since_s) < 0)
			return -1;
	}
	if (rc < 0)
		return qwen_mpi_fail(l, "a message of rank %d%s%s was lost", from);
	if (n > *cap) {
		free(*buf);
		*cap = 0;
		if ((*buf = qwen_alloc_large(n, 1)) == NULL)
			return qwen_mpi_fail(l, "no memory for a message of rank "
			    "%d%s%s", from);
		*cap = n;
	}
	r = qwen_mpi_begin_receive(l, from, tag, *buf, n);
	return r != NULL && qwen_mpi_wait(l, r) == 0 ? (int64_t)n : -1;
}
