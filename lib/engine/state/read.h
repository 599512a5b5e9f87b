/* SPDX-License-Identifier: ISC */
/* read.h - reading states from streams and files. */
#ifndef QWEN_STATE_READ_H
#define QWEN_STATE_READ_H

#include <pthread.h>

#include "engine/timeline/session.h"
#include "engine/state/state.h"

struct qwen_pool;

/*
 * A state that is being read.  next is the transport: it reads the next record.
 * A stream has every record; from a file with an index, only the entry of a
 * record is read if its kind waits.
 */
struct qwen_state_reader {
	int	(*next)(struct qwen_state_reader *v,
		    struct qwen_state_rec *rec, struct qwen_err *err);
	struct qwen_reader	*r;		/* the stream, */
	const struct qwen_state_file *f;	/* or the file */
	unsigned char		*buf;		/* QWEN_STATE_MAX bytes for a
						   record of f */
	uint64_t		 bytes;	/* length of the file, or 0 */
	struct qwen_session	*s;	/* NULL: no model */
	size_t			 n_blocks;	/* number of KV blocks
						   allocated */
	pthread_rwlock_t	 blocks;	/* guards the addresses of KV
						   blocks while s is filled */
	int			 decode_all;	/* decode also data that is not
						   kept, to check it; keep no
						   tokens */
	struct qwen_state_list	*list;	/* entries that were read, or NULL */
	struct qwen_state_layout lay;
	struct qwen_state_counts counts;
	struct qwen_index_check	 index;
	struct qwen_coder	*coder;
	struct qwen_state_extra	 x;
	int			 ended;
	struct qwen_span	*span;
	size_t			 n_span, cap_span;
	int32_t			*tokens;
	size_t			 cap_tokens;
	struct qwen_kept	 kept;	/* the current checkpoint */
	struct qwen_kept	 end;	/* the end: memory of s, and a hidden
					   state that the reader owns */
	struct qwen_state_mtp	 mtp;	/* the MTP block of s */
	struct qwen_fp		 total;	/* hash of the checks before the last
					   record */
};

/* ------------------------------------------------------------------- read.c */

/*
 * Prepares *v for a stream with this header; m may be NULL. fini frees what *v
 * still owns.
 */
int qwen_state_reader_init(struct qwen_state_reader *v, struct qwen_model *m,
    const struct qwen_record *header, struct qwen_err *err);
void qwen_state_reader_fini(struct qwen_state_reader *v);

/* Reads all records up to the end record; fills v->s if there is a model. */
int qwen_state_read_all(struct qwen_state_reader *v, struct qwen_err *err);

/* The transport of a stream, v->r. */
int qwen_state_next_of_stream(struct qwen_state_reader *v,
    struct qwen_state_rec *rec, struct qwen_err *err);

/*
 * Reads all of the descriptor, a file or pipe, into *v, which has no source
 * yet. It must hold one state and nothing else.
 */
int qwen_state_read_through(struct qwen_state_reader *v, struct qwen_model *m,
    int fd, struct qwen_err *err);

/* Checks that the header is that of a state of model m. */
int qwen_state_match(const struct qwen_header *h, struct qwen_model *m,
    struct qwen_err *err);

/* ------------------------------------------- place.c: pieces into a session */

/* Where the data of a piece goes. */
struct qwen_state_place {
	char		*object;	/* the piece's object in memory; NULL:
					   KV blocks of a session */
	size_t		 layer;		/* their layer; the MTP block follows
					   the others */
	uint64_t	 first, stop;	/* the first block of the object, and
					   the first that is not wanted */
	int		 mapped;	/* the data is in a mapping that lives
					   as long as the session */
};

/* Returns the memory of an object of a position; k has its data. */
char *qwen_state_object(const struct qwen_session *s,
    const struct qwen_state_entry *e, const struct qwen_kept *k);

/*
 * Makes `at' the current position of a stream: its data goes to the session
 * itself at the end of the state, and to a checkpoint before.
 */
int qwen_state_set_position(struct qwen_state_reader *v, uint64_t at,
    struct qwen_err *err);

/* Adds the current checkpoint, if there is one, to the session. */
int qwen_state_add_checkpoint(struct qwen_state_reader *v,
    struct qwen_err *err);

/*
 * Finds the place in v->s for the next piece of a stream, and makes room for
 * it.  Returns 1; 0 if the piece is not wanted; -1.
 */
int qwen_state_find_place(struct qwen_state_reader *v,
    const struct qwen_state_entry *e, struct qwen_state_place *p,
    struct qwen_err *err);

/* A piece on its way, and what the thread has that decodes it. */
struct qwen_state_job {
	uint64_t		 n;	/* number among the pieces, ascending */
	const struct qwen_state_layout *lay;
	struct qwen_state_rec	 rec;
	struct qwen_state_place	 place;
	const void		*arg;	/* for fetch */
	unsigned char		*buf;	/* QWEN_STATE_MAX bytes */
	struct qwen_coder	*coder;
	struct qwen_err		 err;
};

/* Where pieces come from. */
struct qwen_state_supply {
	void			*arg;
	struct qwen_session	*s;	/* NULL: only check the data */
	pthread_rwlock_t	*blocks;	/* see above; may be NULL */
	size_t			 n;	/* maximum number of pieces */
	/*
	 * Takes the next piece: 1; 0 after the last one; -1 with j->err set.
	 * One thread calls it at a time.
	 */
	int	(*next)(void *arg, struct qwen_state_job *j);
	/* Reads the record of a piece; NULL: next does it. */
	int	(*fetch)(struct qwen_state_job *j);
};

/*
 * Decodes, checks and places all pieces, on the threads of the pool.  Each
 * thread has one piece, so memory is bounded.  The error is that of the
 * earliest piece that failed.
 */
int qwen_state_place_all(const struct qwen_state_supply *p,
    struct qwen_pool *pool, struct qwen_err *err);

/* -------------------------------------------------- files: block.c, file.c */

struct qwen_state_file {
	struct qwen_source	 src;	/* first member: sessions refer to the
					   file by it */
	int			 fd;
	unsigned char		*head;	/* header of the stream */
	size_t			 n_head;
	struct qwen_state_reader in;	/* read when opening */
	struct qwen_state_list	 list;	/* entries of all records */
	int			 steps;	/* saved in steps: between the records
					   lie those of earlier saves, and each
					   record has the number from the save
					   that wrote it */
	unsigned char		*buf;	/* for block_read; or NULL */
};

/* Reads n bytes at offset: 0, or -1 if the file ends before. */
int qwen_state_read_at(int fd, void *buf, size_t n, uint64_t offset,
    struct qwen_err *err);

/* Returns the file that is this source of checkpoints, or NULL. */
struct qwen_state_file *qwen_state_file_of(struct qwen_source *src);

/*
 * Reads record i into buf (room for e->bytes), and checks its hash and its
 * index entry.
 */
int qwen_state_file_rec(const struct qwen_state_file *f, size_t i,
    struct qwen_state_rec *rec, unsigned char *buf, struct qwen_err *err);

/* The same for a record that is in memory. */
int qwen_state_file_parse(const struct qwen_state_file *f, size_t i,
    struct qwen_state_rec *rec, const unsigned char *p, struct qwen_err *err);

/* qwen_state_rec_data for a record of the file; the error names it. */
int qwen_state_file_data(const struct qwen_state_file *f,
    const struct qwen_state_rec *rec, struct qwen_coder *c,
    const unsigned char **raw, struct qwen_err *err);

/* Like qwen_state_open; the file owns the descriptor, even on errors. */
int qwen_state_open_fd(struct qwen_state_file **out, int fd,
    struct qwen_err *err);

/* ---------------------------------------------------------------- restore.c */

/* Reads, checks and decodes the data that opening left unread. */
int qwen_state_check_blocks(const struct qwen_state_file *f,
    struct qwen_pool *pool, struct qwen_err *err);

/* The read function of struct qwen_source. */
int qwen_state_source_read(struct qwen_source *src, struct qwen_session *s,
    uint64_t at, void *recurrent, float *logits, float *hidden, int *any,
    struct qwen_err *err);

/* ----------------------------------------------------------------- verify.c */

/*
 * Returns how many of n_threads threads (0: one per processor) are worth using
 * for `bytes' bytes.
 */
int qwen_state_threads(int n_threads, uint64_t bytes);

/* qwen_state_verify for a descriptor. */
int qwen_state_verify_fd(int fd, int n_threads, struct qwen_err *err);

#endif
