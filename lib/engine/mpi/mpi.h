/* SPDX-License-Identifier: ISC */
/*
 * mpi.h - ranks of MPI as one device: runs of layers are computed by other
 * processes of the same program, on their CPUs.
 *
 * Rank 0 has the sessions, the first layers, the head and the MTP block.
 * Each other rank has a run of layers.  A pass goes from rank to rank, and from the
 * last one to rank 0; the CPU of rank 0 is another device of the placement.
 * Slots and states of sessions have numbers, which all ranks know them by.
 * In a process that is not rank 0, the device is home of the layers of all other
 * ranks, and pass/serve.c does what rank 0 says.
 */
#ifndef QWEN_MPI_MPI_H
#define QWEN_MPI_MPI_H

#include "base/text.h"
#include "engine/device.h"
#include "engine/mpi/message.h"

struct qwen_mpi {
	struct qwen_resident	 r;
	struct qwen_mpi_link	*link;
	unsigned char		*rank;		/* [n_layer] that has the layer */
	struct qwen_text	 out;		/* the message that is made */
	/* numbers that are not in use, and the next one, of slots and states */
	struct qwen_mpi_ids {
		uint32_t	*free;
		size_t		 n, cap;
		uint32_t	 next;
	} slots, states;
	/* the blocks of one slot, from all ranks: see qwen_mpi_slot_get() */
	struct qwen_mpi_got {
		void	*p;
		size_t	 cap, at;
	} *got;					/* [ranks] */
	uint32_t		 got_slot;	/* UINT32_MAX: none */
	size_t			 got_layer;	/* layers up to it were taken */
};

/* A slot's or a session's number; of a session, also the slots the ranks know. */
struct qwen_mpi_slot { uint32_t id; };
struct qwen_mpi_state {
	uint32_t	 id;
	uint32_t	*slot;
	size_t		 n_slot, cap_slot;
};

static inline struct qwen_mpi *
qwen_mpi_of(const struct qwen_resident *r)
{
	return (struct qwen_mpi *)(uintptr_t)r;
}

/* ---- which rank has what (split.c) */

/* What a list of devices says after "mpi". */
struct qwen_mpi_wish {
	size_t		n;		/* number of shares; 0: none given */
	unsigned	share[QWEN_MPI_RANKS_MAX];
	double		deadline_s;	/* 60 if none is given */
};

/* Reads ":SHARE:SHARE.../SECONDS"; QWEN_ERANGE if the text is something else. */
int qwen_mpi_wish_read(struct qwen_mpi_wish *out, const struct qwen_wish *wish,
    struct qwen_err *err);

/*
 * Sets the rank of each layer: ranks in order, each a run of layers, so that
 * the bytes of each are near its share of the model's.  Rank 0 has the head too,
 * and layers that deepstack vectors are added to.
 */
void qwen_mpi_split(const struct qwen_net *net, const double *share, size_t n,
    unsigned char *rank);

/* The same from a list's item, without MPI; sets *n to the number of ranks. */
int qwen_mpi_plan(const struct qwen_net *net, const struct qwen_wish *wish,
    unsigned char *rank, size_t *n, struct qwen_err *err);

/*
 * All ranks find out who computes what; net is this rank's.  The name of each rank
 * is set to its host and layers.
 */
int qwen_mpi_agree(struct qwen_mpi *d, const struct qwen_mpi_wish *wish,
    struct qwen_pool *pool, struct qwen_err *err);

/* Returns 1 if the layer is at home in the rank and has keys and values. */
static inline int
qwen_mpi_has_blocks(const struct qwen_mpi *d, size_t layer, int rank)
{
	return d->rank[layer] == rank &&
	    d->r.net->layer[layer].mixer == QWEN_ATTENTION;
}

static inline int
qwen_mpi_has_state(const struct qwen_mpi *d, size_t layer, int rank)
{
	return d->rank[layer] == rank &&
	    d->r.net->layer[layer].mixer == QWEN_DELTANET;
}

/* ---- commands (memory.c) */

/* Begins the message d->out; qwen_mpi_order sends it to a rank. */
void qwen_mpi_begin(struct qwen_mpi *d, enum qwen_mpi_what what, uint32_t id,
    uint64_t a, uint64_t b);
int qwen_mpi_order(struct qwen_mpi *d, int rank);

/* Returns 1 if the rank has any layer. */
int qwen_mpi_is_used(const struct qwen_mpi *d, int rank);

int qwen_mpi_slot_new(struct qwen_resident *r, void **own);
void qwen_mpi_slot_free(struct qwen_resident *r, void *own);
void qwen_mpi_slot_put(struct qwen_resident *r, void *own, size_t layer,
    const void *block);
void qwen_mpi_slot_get(struct qwen_resident *r, const void *own, size_t layer,
    void *block);
void qwen_mpi_slot_clear(struct qwen_resident *r, void *own, size_t from,
    size_t to);
int qwen_mpi_state_new(struct qwen_resident *r, const struct qwen_memory *m,
    void **own);
void qwen_mpi_state_free(struct qwen_resident *r, void *own);
void qwen_mpi_state_put(struct qwen_resident *r, const struct qwen_memory *m);
void qwen_mpi_state_get(struct qwen_resident *r, struct qwen_memory *m);
void qwen_mpi_replay(struct qwen_resident *r, struct qwen_memory *m,
    size_t from, size_t n);

/*
 * The recurrent states of a rank's layers, and their rows of the journal, in
 * messages: a byte for each layer, 1 if its numbers follow, 0 if all are zero;
 * then the numbers.  qwen_mpi_states_add appends them, qwen_mpi_states_take sets
 * them from n bytes; -1 if these are too few.
 */
void qwen_mpi_states_add(const struct qwen_mpi *d, int rank,
    const struct qwen_memory *m, struct qwen_text *out);
int qwen_mpi_states_take(const struct qwen_mpi *d, int rank,
    struct qwen_memory *m, const char *p, size_t n);

#endif
