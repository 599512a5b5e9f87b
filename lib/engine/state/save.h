/* SPDX-License-Identifier: ISC */
/*
 * save.h - a state that is being written: save.c says what it consists of,
 * send.c encodes it on all threads and writes it.
 */
#ifndef QWEN_STATE_SAVE_H
#define QWEN_STATE_SAVE_H

#include <pthread.h>

#include "engine/state/load.h"

enum {
	QWEN_SEND_WORKERS = 12,	/* threads that encode at once */
	QWEN_SEND_AHEAD = 12,	/* encoded pieces that may wait to be written */
	QWEN_SEND_ROOM = QWEN_FIELDS_MAX,	/* in front of their data */
};

/* What pieces of data belong to; layer and at may be -1. */
struct qwen_object {
	const char	*kind;
	int64_t		 layer, at;
	unsigned	 width;		/* bytes of a number */
};

/* Data of a record to come, at one of three places. */
struct qwen_piece {
	struct qwen_object	 o;
	uint64_t		 off;
	size_t			 n;
	const void		*src;	/* n bytes; or NULL and */
	struct qwen_state_file	*file;	/* a record of a file, */
	size_t			 record;
	size_t			 first;	/* or KV blocks from this one on, */
	size_t			 at;	/* from this byte of it */
};

/* A piece that is encoded. */
struct qwen_slot {
	unsigned char		*buf;	/* room, data, check */
	enum qwen_codec		 codec;
	size_t			 n_data;
	size_t			 ready;	/* its piece's number + 1 */
};

struct qwen_sender {
	struct qwen_coder	*coder;
	unsigned char		*raw;	/* QWEN_STATE_MAX */
	size_t			 bad;	/* the piece that failed; or SIZE_MAX */
	struct qwen_err		 err;
};

struct qwen_save {
	const struct qwen_session *s;
	uint64_t		 from, to;
	const struct qwen_kept	*kept;	/* the state at to; NULL: the end's */
	const struct qwen_state_opts *opts;
	struct qwen_writer	*w;
	struct qwen_state_sum	 sum;
	struct qwen_state_put	 put;
	struct qwen_state_list	 list;	/* what the index will say */
	int			 level;
	size_t			 align;
	struct qwen_err		*err;
	/* what waits to be encoded and written */
	struct qwen_piece	*piece;
	size_t			 n_piece, cap_piece;
	/* send.c's */
	struct qwen_slot	 slot[QWEN_SEND_WORKERS +
				    QWEN_SEND_AHEAD];
	size_t			 n_slot;
	struct qwen_sender	 sender[QWEN_SEND_WORKERS];
	size_t			 n_sender;
	int			 have_lock;
	pthread_mutex_t		 lock;		/* of what follows, and ready */
	pthread_cond_t		 moved;
	size_t			 next;		/* piece to encode */
	size_t			 written;	/* pieces */
	int			 writing;	/* somebody is */
	int			 stop;
	int			 write_failed;
};

int qwen_send_init(struct qwen_save *v);
void qwen_send_fini(struct qwen_save *v);

/* Encode and write all pieces that wait, in their order. */
int qwen_send(struct qwen_save *v);

#endif
