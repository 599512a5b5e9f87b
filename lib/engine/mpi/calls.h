/* SPDX-License-Identifier: ISC */
/*
 * calls.h - what libqwen asks of MPI: a table of functions in a shared object,
 * libqwen-mpi.so.0, which mpicc builds from lib/mpi for the MPI that is
 * installed.  So nothing else depends on MPI or on which one it is.
 *
 * Messages are bytes.  They arrive in order between two ranks with one tag.
 * One thread at a time calls these functions.
 */
#ifndef QWEN_MPI_CALLS_H
#define QWEN_MPI_CALLS_H

#include <stddef.h>

#define QWEN_MPI_LIBRARY "libqwen-mpi.so.0"
#define QWEN_MPI_SYMBOL "qwen_mpi_calls"

enum { QWEN_MPI_CALLS_VERSION = 1 };

/* Kinds of messages. */
enum qwen_mpi_tag {
	QWEN_MPI_COMMAND = 1,	/* from rank 0, see message.h */
	QWEN_MPI_REPLY,		/* to rank 0 */
	QWEN_MPI_ROWS,		/* the residual stream, from rank to rank */
	QWEN_MPI_ALIVE,		/* to rank 0: empty, now and then */
	QWEN_MPI_END		/* from rank 0: empty, its process ends */
};

struct qwen_mpi_calls {
	int	version;
	/*
	 * Starts MPI in this process unless it runs, and sets this process's rank
	 * and the number of ranks; *again is 1 if this is not the first start().
	 * Returns 1 if a start() without leave() came before, -1 if MPI does not
	 * start.  Ends the process if not all ranks have come deadline_s later,
	 * since MPI waits for them without limit.
	 *
	 * At exit(), rank 0 sends QWEN_MPI_END to the others, and all wait for
	 * each other, at most deadline_s.  Another rank that has not left, or any
	 * rank after fail(), ends all ranks at once.
	 */
	int	(*start)(double deadline_s, int *rank, int *n, int *again);
	/* ends what start began; the process may start again */
	void	(*leave)(void);
	void	(*fail)(void);
	/*
	 * Begin to send or receive n bytes; p stays until test() or drop().
	 * Return NULL without memory, or if MPI refuses.  sure: sent when it is
	 * received.
	 */
	void	*(*send)(int to, int tag, const void *p, size_t n, int sure);
	void	*(*receive)(int from, int tag, void *p, size_t n);
	/* 1: done, and the request is freed; 0: not yet; -1: failed, and freed */
	int	(*test)(void *request);
	/* gives a request up */
	void	(*drop)(void *request);
	/* Is there a message?  Sets its length.  1, 0, or -1 on errors. */
	int	(*probe)(int from, int tag, size_t *n);
};

#endif
