/* SPDX-License-Identifier: ISC */
/*
 * save.h - a state that is being written, from a session or from a file:
 * section.c says what it consists of, send.c encodes it on all threads and
 * writes it.
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

/* Data of a record to come, at one of three places. */
struct qwen_piece {
	enum qwen_kind		 kind;
	int64_t			 layer, pos;	/* -1: none */
	uint64_t		 off;
	size_t			 n;
	const void		*src;	/* n bytes; or NULL and */
	struct qwen_state_file	*file;	/* a record of a file, which may have */
	size_t			 record;	/* more; */
	size_t			 first;	/* or KV blocks from this one on, */
	size_t			 at;	/* from this byte of it */
	/* what an earlier save wrote of it; NULL: nothing */
	const struct qwen_state_entry *old;
};

/* A piece that is encoded. */
struct qwen_slot {
	unsigned char		*buf;	/* room, data, check */
	enum qwen_codec		 codec;
	size_t			 n_data;
	size_t			 ready;	/* its piece's number + 1 */
	struct qwen_kv_loss	 loss[2];	/* of keys and values that became
						   others */
};

struct qwen_sender {
	struct qwen_coder	*coder;
	unsigned char		*raw;	/* QWEN_STATE_MAX */
	unsigned char		*kv;	/* QWEN_PIECE_MAX, if any is converted */
	size_t			 bad;	/* the piece that failed; or SIZE_MAX */
	struct qwen_err		 err;
};

/* Of a file. */
struct qwen_convert {
	struct qwen_kv_convert	 c;	/* of what is written so far: its losses,
					   piece after piece in their order */
	const struct qwen_state_layer *layer;	/* as the file has them */
	struct qwen_state_layer	 mtp;
};

struct qwen_save {
	/* one of these, and what it holds */
	const struct qwen_session *s;
	struct qwen_state_file	*f;
	const int32_t		*tokens;
	uint64_t		 n_tokens;
	size_t			 n_vocab, n_layer;
	unsigned		 format;	/* by the header */
	const struct qwen_state_layer *layer;
	struct qwen_state_mtp	 mtp;
	int			 converted;	/* it is not what reading gives */
	/* keys and values that become others; NULL: they stay */
	struct qwen_convert	*convert;
	/* what is written of it */
	uint64_t		 from, to;
	int			 part;
	const struct qwen_kept	*kept;	/* the state at to; NULL: the end's */
	const struct qwen_state_opts *opts;
	struct qwen_state_steps	*steps;	/* of earlier saves; or NULL */
	size_t			 at_step;	/* entry to look at next */
	struct qwen_state_extra	 x;
	struct qwen_writer	*w;
	struct qwen_state_sum	 sum;
	struct qwen_state_put	 put;
	enum qwen_kind		 kind;	/* the section under way */
	struct qwen_state_entry	 entry;	/* of the record under way */
	struct qwen_state_list	 list;	/* what the index will say */
	uint64_t		 index;	/* where it begins */
	struct qwen_fp		 total;
	int			 level;
	size_t			 align;
	struct qwen_err		*err;
	/* what waits to be encoded and written */
	struct qwen_piece	*piece;
	size_t			 n_piece, cap_piece;
	/* send.c's */
	struct qwen_pool	*pool;
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
	int			 writing;	/* a thread is writing */
	int			 stop;
	int			 write_failed;
};

/*
 * For the sections.  A record without data: begin it, add the fields to v->put,
 * finish it.  begin writes all that waits.
 */
int qwen_save_begin(struct qwen_save *v, enum qwen_kind kind);
int qwen_save_finish(struct qwen_save *v);

/* The mark of a position. */
int qwen_save_mark(struct qwen_save *v, uint64_t at);

/* One more piece that waits: n bytes of the object at off; or NULL. */
struct qwen_piece *qwen_save_piece(struct qwen_save *v, enum qwen_kind kind,
    int64_t layer, int64_t at, uint64_t off, size_t n);

/* All n bytes of an object that lies in one place, until they are written. */
int qwen_save_object(struct qwen_save *v, enum qwen_kind kind, int64_t layer,
    int64_t at, const void *data, size_t n);

/* A record of KV blocks of v->f, which become others. */
int qwen_convert_record(struct qwen_save *v, size_t i);
/* Those of the piece, whose record was decoded to raw, and what they lose. */
int qwen_convert_blocks(const struct qwen_save *v, const struct qwen_piece *t,
    const unsigned char *raw, unsigned char *out, struct qwen_kv_loss loss[2],
    struct qwen_err *err);
/* A piece with this loss is written. */
void qwen_convert_done(struct qwen_save *v, const struct qwen_kv_loss loss[2]);

/* What v->to leaves of record i of a file, which has data. */
int qwen_save_record(struct qwen_save *v, struct qwen_state_file *f, size_t i);

/* The records of v->f of these kinds, in their order. */
int qwen_save_copy(struct qwen_save *v, enum qwen_kind first,
    enum qwen_kind last);

/* ---- steps.c: what the file has by earlier saves */
/* The entry of a piece, all of it, that need not be written again; or NULL. */
const struct qwen_state_entry *qwen_steps_find(struct qwen_save *v,
    const struct qwen_piece *t);
/* The state is written: what v->list says is what the file has now. */
void qwen_steps_done(struct qwen_save *v);

int qwen_send_init(struct qwen_save *v);
void qwen_send_fini(struct qwen_save *v);

/* Encode and write all pieces that wait, in their order. */
int qwen_send(struct qwen_save *v);

#endif
