/* SPDX-License-Identifier: ISC */
/*
 * message.h - what rank 0 asks of the others.  All ranks run the same program on
 * processors of one kind, so messages are structs; qwen_mpi_agree() compares
 * their versions.
 *
 * A rank has sessions and slots of its own, whose numbers rank 0 gives.  It
 * does what rank 0 says in this order, and answers nothing unless a comment says
 * so.
 */
#ifndef QWEN_MPI_MESSAGE_H
#define QWEN_MPI_MESSAGE_H

#include <stdint.h>

#include "engine/mpi/link.h"

enum qwen_mpi_what {
	/* make room for passes of a rows, b sessions and c tokens; answers with a
	   text that says why not, or with nothing */
	QWEN_MPI_FIT = 1,
	QWEN_MPI_RUN,		/* a pass: struct qwen_mpi_run */
	/* slot `id': a block of layer a follows; clear positions a .. b - 1;
	   answer with the blocks of all of the rank's attention layers */
	QWEN_MPI_SLOT_PUT, QWEN_MPI_SLOT_CLEAR, QWEN_MPI_SLOT_GET,
	/* session `id': make it, with a journal if a is 1, or end it */
	QWEN_MPI_STATE_NEW, QWEN_MPI_STATE_FREE,
	/* its recurrent states and journal follow, as in qwen_mpi_states();
	   answer with them; apply b tokens of the journal from position a on */
	QWEN_MPI_STATE_PUT, QWEN_MPI_STATE_GET, QWEN_MPI_REPLAY,
	QWEN_MPI_CLOSE,		/* the model is closed */
	QWEN_MPI_OPEN		/* another one is opened, or the same again */
};

struct qwen_mpi_command {
	uint32_t	what;
	uint32_t	id;
	uint64_t	a, b, c;
};

/*
 * A pass: this, its rows, its shares, the slots that follow each share's, and,
 * if `from' is 0, the stream: [n][n_embd].  Another rank's QWEN_MPI_ROWS are
 * struct qwen_mpi_good of each share, then the stream, and so is what the rank
 * sends to rank `to'.
 */
struct qwen_mpi_run {
	struct qwen_mpi_command	command;
	uint64_t		n, n_share;
	uint64_t		last;		/* of struct qwen_pass */
	uint64_t		first, n_half;	/* halves of layers */
	int32_t			from, to;	/* ranks */
};

struct qwen_mpi_row {
	uint64_t	slot;
	uint32_t	pos[3];
	int32_t		id;
};

struct qwen_mpi_good {
	uint64_t	bad, good;	/* of struct qwen_share */
};

/* A session's blocks are those of the pass before up to `same', then others. */
struct qwen_mpi_share {
	uint64_t	n, n_sure, pos, skip, want, owed;
	struct qwen_mpi_good good;
	uint32_t	id;		/* of the session */
	uint32_t	same, n_slot;
	uint32_t	unused;
};

#endif
