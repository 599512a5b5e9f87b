/* SPDX-License-Identifier: ISC */
/*
 * transport.c - libqwen-mpi.so: engine/mpi/calls.h by the MPI that mpicc builds
 * for.  MPI is global to a process, and so is the state of this file.
 */
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine/mpi/calls.h"

static MPI_Comm comm;
static int is_open;		/* between start and leave */
static int is_bad;		/* at exit, other ranks are to end */
static double patience_s;	/* how long exit() waits for them */

/* The others are to end, too. */
static void
end_others(int n)
{
	MPI_Request r;
	int i;

	for (i = 1; i < n; i++) {
		if (MPI_Isend(NULL, 0, MPI_BYTE, i, QWEN_MPI_END, comm, &r) ==
		    MPI_SUCCESS)
			MPI_Request_free(&r);
	}
}

/* Are all ranks here in time?  MPI_Finalize waits for them without limit. */
static int
meet(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	double start = MPI_Wtime();
	MPI_Request r;
	int done = 0;

	if (MPI_Ibarrier(comm, &r) != MPI_SUCCESS)
		return 0;
	while (MPI_Test(&r, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done &&
	    MPI_Wtime() - start < patience_s)
		nanosleep(&nap, NULL);
	return done;
}

static void
end(void)
{
	int done = 0, rank = 0, n = 0;

	if (MPI_Finalized(&done) != MPI_SUCCESS || done)
		return;
	/* a rank may stop at any point below, where MPI waits without limit */
	alarm(2 * (unsigned)patience_s + 1);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &n);
	if (is_bad || (is_open && rank > 0))
		MPI_Abort(comm, 1);
	if (rank == 0)
		end_others(n);
	if (!meet())
		MPI_Abort(comm, 1);
	MPI_Finalize();
}

/* MPI starts, or duplicates a communicator, without limit. */
static void
too_late(int sig)
{
	static const char why[] = "a rank of MPI does not start in time\n";

	(void)sig;
	_exit(write(STDERR_FILENO, why, sizeof why - 1) == -1 ? 2 : 1);
}

static int
begin(void)
{
	int on = 0, level;

	MPI_Initialized(&on);
	if (!on && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED,
	    &level) != MPI_SUCCESS)
		return -1;
	if (MPI_Comm_dup(MPI_COMM_WORLD, &comm) != MPI_SUCCESS ||
	    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
	    (!on && atexit(end) != 0))
		return -1;
	return 0;
}

static int
start(double deadline_s, int *rank, int *n, int *again)
{
	static int begun;

	if (is_open)
		return 1;
	*again = begun;
	if (!begun) {
		void (*was)(int) = signal(SIGALRM, too_late);
		int rc;

		alarm((unsigned)deadline_s + 1);
		rc = begin();
		alarm(0);
		signal(SIGALRM, was);
		if (rc < 0)
			return -1;
	}
	begun = is_open = 1;
	patience_s = deadline_s;
	return MPI_Comm_rank(comm, rank) == MPI_SUCCESS &&
	    MPI_Comm_size(comm, n) == MPI_SUCCESS ? 0 : -1;
}

static void
leave(void)
{
	is_open = 0;
}

static void
fail(void)
{
	is_bad = 1;
}

struct request {
	MPI_Request	r;
	int		is_receive;
};

static void *
send(int to, int tag, const void *p, size_t n, int sure)
{
	struct request *r = n <= INT_MAX ? calloc(1, sizeof *r) : NULL;

	if (r == NULL || (sure ? MPI_Issend : MPI_Isend)(p, (int)n, MPI_BYTE,
	    to, tag, comm, &r->r) != MPI_SUCCESS) {
		free(r);
		return NULL;
	}
	return r;
}

static void *
receive(int from, int tag, void *p, size_t n)
{
	struct request *r = n <= INT_MAX ? calloc(1, sizeof *r) : NULL;

	if (r == NULL || MPI_Irecv(p, (int)n, MPI_BYTE, from, tag, comm,
	    &r->r) != MPI_SUCCESS) {
		free(r);
		return NULL;
	}
	r->is_receive = 1;
	return r;
}

static int
test(void *request)
{
	struct request *r = request;
	int done = 0, rc = MPI_Test(&r->r, &done, MPI_STATUS_IGNORE);

	if (rc == MPI_SUCCESS && !done)
		return 0;
	free(request);
	return rc == MPI_SUCCESS ? 1 : -1;
}

/* Nothing may arrive in memory that is freed after this. */
static void
drop(void *request)
{
	struct request *r = request;

	if (r->is_receive)
		MPI_Cancel(&r->r);
	MPI_Request_free(&r->r);
	free(r);
}

static int
probe(int from, int tag, size_t *n)
{
	MPI_Status status;
	int any = 0, count = 0;

	if (MPI_Iprobe(from, tag, comm, &any, &status) != MPI_SUCCESS)
		return -1;
	if (any && MPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS)
		return -1;
	*n = (size_t)count;
	return any;
}

__attribute__((visibility("default")))
const struct qwen_mpi_calls qwen_mpi_calls = {
	.version = QWEN_MPI_CALLS_VERSION, .start = start, .leave = leave,
	.fail = fail, .send = send, .receive = receive, .test = test,
	.drop = drop, .probe = probe,
};
