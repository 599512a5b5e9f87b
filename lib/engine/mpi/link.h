/* SPDX-License-Identifier: ISC */
/*
 * link.h - messages between ranks, with a limit on how long a rank may be silent.
 *
 * Rank 0 has the sessions and sends commands; the other ranks compute.  These
 * send a sign of life to rank 0 every second, also while they compute.
 * Rank 0 waits for a message as long as all ranks give signs; after `deadline_s'
 * without one the link has failed.  Then all functions fail at once, and
 * qwen_mpi_check() says which rank was silent.
 */
#ifndef QWEN_MPI_LINK_H
#define QWEN_MPI_LINK_H

#include <stdint.h>

#include "engine/mpi/calls.h"
#include "qwen/base.h"

enum { QWEN_MPI_NAME = 128, QWEN_MPI_RANKS_MAX = 256 };

struct qwen_mpi_peer {
	char	 name[QWEN_MPI_NAME];	/* for messages: host and layers */
	double	 seen_s;		/* when a sign of life came */
	void	*sign;			/* the request for the next one */
};

struct qwen_mpi_link {
	const struct qwen_mpi_calls *calls;
	void		*library;
	int		 rank, n;
	double		 deadline_s;
	struct qwen_mpi_peer *peer;	/* [n] */
	void		*own_sign;	/* of a rank that is not 0, on its way */
	double		 signed_s;	/* when it was sent */
	int		 again;		/* this is not the process's first link */
	int		 ended;		/* rank 0 needs this rank no more */
	int		 failed;
	char		 why[200];
};

/*
 * Opens the link of this process to all ranks.  QWEN_EUNSUP without the library,
 * or if MPI does not start.
 */
int qwen_mpi_open(struct qwen_mpi_link **out, double deadline_s,
    struct qwen_err *err);
void qwen_mpi_close(struct qwen_mpi_link *l);

/* -1 if the link has failed. */
int qwen_mpi_check(const struct qwen_mpi_link *l, struct qwen_err *err);

/*
 * The link fails: why is a format of the rank, " on " or "", and its name.
 * Returns -1.
 */
int qwen_mpi_fail(struct qwen_mpi_link *l, const char *why, int rank);

/* Sends n bytes; returns when p may change.  -1 if the link has failed. */
int qwen_mpi_send(struct qwen_mpi_link *l, int to, int tag, const void *p,
    size_t n);

/* Begins to send or receive; NULL, and the link has failed, without memory. */
void *qwen_mpi_begin_send(struct qwen_mpi_link *l, int to, int tag,
    const void *p, size_t n);
void *qwen_mpi_begin_receive(struct qwen_mpi_link *l, int from, int tag,
    void *p, size_t n);

/* Waits until what was begun is done; NULL is done.  -1: the link has failed. */
int qwen_mpi_wait(struct qwen_mpi_link *l, void *request);

/* Sets *request to NULL if what was begun is done.  Sending needs such calls. */
void qwen_mpi_progress(struct qwen_mpi_link *l, void **request);

/*
 * Waits for the next message and receives it into *buf, which grows.  Returns its
 * length, or -1: the link has failed, or rank 0 ends (l->ended).
 */
int64_t qwen_mpi_next(struct qwen_mpi_link *l, int from, int tag, void **buf,
    size_t *cap);

/*
 * A rank that is not 0 calls this while it computes: gives a sign of life when
 * it is time.
 */
void qwen_mpi_sign(struct qwen_mpi_link *l);

#endif
