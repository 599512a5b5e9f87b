/* SPDX-License-Identifier: ISC */
/*
 * write.h - writing states, from a session or from a file. section.c determines
 * the records; write.c encodes them on all threads and writes them.
 */
#ifndef QWEN_STATE_WRITE_H
#define QWEN_STATE_WRITE_H

#include <pthread.h>

#include "engine/cpu/kv_convert.h"
#include "engine/state/read.h"

enum {
	QWEN_SEND_WORKERS = 12,	/* threads that encode */
	QWEN_SEND_AHEAD = 12,	/* encoded pieces that may wait for writing */
	QWEN_SEND_ROOM = QWEN_FIELDS_MAX,	/* bytes before the data of a
						   slot */
};

/*
 * The data of a record that will be written.  It is in one of three places: at
 * src, in a record of a file, or in KV blocks of the session.
 */
struct qwen_save_piece {
	enum qwen_kind		 kind;
	int64_t			 layer, pos;	/* -1: does not apply */
	uint64_t		 off;
	size_t			 n;
	const void		*src;	/* n bytes, or NULL */
	struct qwen_state_file	*file;	/* a file, or NULL; */
	size_t			 record;	/* its record, of n bytes or
						   more */
	size_t			 first;	/* in the session: the first KV
					   block, */
	size_t			 at;	/* and the first byte in that block */
	/* the entry of this piece from an earlier save, or NULL */
	const struct qwen_state_entry *old;
};

/* An encoded piece. */
struct qwen_send_slot {
	unsigned char		*buf;	/* QWEN_SEND_ROOM, data, check */
	enum qwen_codec		 codec;
	size_t			 n_data;
	size_t			 ready;	/* number of its piece + 1 */
	struct qwen_kv_loss	 loss[2];	/* error of converted keys and
						   values */
};

struct qwen_sender {
	struct qwen_coder	*coder;
	unsigned char		*raw;	/* QWEN_STATE_MAX bytes */
	unsigned char		*kv;	/* QWEN_PIECE_MAX bytes, for
					   conversion */
	struct qwen_err		 err;
};

struct qwen_save {
	/* the source: a session or a file, and its number of tokens */
	const struct qwen_session *s;
	struct qwen_state_file	*f;
	const int32_t		*tokens;
	uint64_t		 n_tokens;
	const struct qwen_span	*span;		/* of all tokens */
	size_t			 n_span;
	/* what is written, from lay.info.from to lay.info.n_tokens */
	struct qwen_state_layout lay;
	/*
	 * conversion of the keys and values of f, or NULL; with the losses of
	 * all pieces written so far, added in order
	 */
	struct qwen_kv_convert	*convert;
	const struct qwen_kept	*kept;	/* the checkpoint at its end; NULL: the
					   end of s */
	const struct qwen_state_opts *opts;
	struct qwen_state_steps	*steps;	/* of earlier saves, or NULL */
	size_t			 at_step;	/* next entry to compare */
	struct qwen_state_extra	 x;
	struct qwen_writer	*w;
	struct qwen_state_counts counts;
	struct qwen_state_builder builder;
	enum qwen_kind		 kind;	/* current section */
	struct qwen_state_entry	 entry;	/* entry of the current record */
	struct qwen_state_list	 list;	/* entries for the index */
	uint64_t		 index;	/* offset of the index */
	struct qwen_fp		 total;
	int			 level;
	size_t			 align;
	struct qwen_err		*err;
	/* pieces to encode and write */
	struct qwen_save_piece	*piece;
	size_t			 n_piece, cap_piece;
	/* used while pieces are written */
	struct qwen_pool	*pool;
	struct qwen_send_slot	 slot[QWEN_SEND_WORKERS +
				    QWEN_SEND_AHEAD];
	size_t			 n_slot;
	struct qwen_sender	 sender[QWEN_SEND_WORKERS];
	size_t			 n_sender;
	int			 have_lock;
	pthread_mutex_t		 lock;		/* guards the members below, and
						   ready */
	pthread_cond_t		 moved;
	size_t			 next;		/* next piece to encode */
	size_t			 written;	/* number of pieces written */
	int			 writing;	/* a thread is writing */
	int			 stop;		/* a piece failed: */
	size_t			 failed;	/* the earliest one */
};

/*
 * For the sections: writing a record without data.  Call begin, add the fields
 * to v->builder, then call finish. begin first writes all waiting pieces.
 */
int qwen_save_begin(struct qwen_save *v, enum qwen_kind kind);
int qwen_save_finish(struct qwen_save *v);

/* Writes the mark of a named position. */
int qwen_save_mark(struct qwen_save *v, uint64_t at);

/*
 * Adds a waiting piece: n bytes of the object, at offset off.  Returns NULL on
 * errors.
 */
struct qwen_save_piece *qwen_save_add_piece(struct qwen_save *v,
    enum qwen_kind kind, int64_t layer, int64_t at, uint64_t off, size_t n);

/*
 * Adds pieces for a whole object: n bytes at data, which must stay valid until
 * the pieces are written.
 */
int qwen_save_add_object(struct qwen_save *v, enum qwen_kind kind,
    int64_t layer, int64_t at, const void *data, size_t n);

/* Adds a piece for record i of a file, which has data, cut at the end. */
int qwen_save_add_record(struct qwen_save *v, struct qwen_state_file *f,
    size_t i);

/* Writes the records of v->f of these kinds, in their order. */
int qwen_save_copy_records(struct qwen_save *v, enum qwen_kind first,
    enum qwen_kind last);

/* ---- steps.c: what earlier saves wrote to the file */
/* Returns the entry of a piece that need not be written again, or NULL. */
const struct qwen_state_entry *qwen_steps_find(struct qwen_save *v,
    const struct qwen_save_piece *t);
/* After a complete save: notes v->list as the content of the file. */
void qwen_steps_done(struct qwen_save *v);

int qwen_send_init(struct qwen_save *v);
void qwen_send_fini(struct qwen_save *v);

/* Encodes and writes all waiting pieces, in their order. */
int qwen_send(struct qwen_save *v);

#endif
