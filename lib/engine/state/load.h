/* SPDX-License-Identifier: ISC */
/* load.h - states that are being read, from a stream or from a file. */
#ifndef QWEN_STATE_LOAD_H
#define QWEN_STATE_LOAD_H

#include <pthread.h>

#include "engine/model/session.h"
#include "engine/state/section.h"

/*
 * The records of a state one after the other, into what they make.  They come
 * from a stream, which is read record by record; or from a file whose index is
 * known, then data that can wait is not read.
 */
struct qwen_state_in {
	struct qwen_reader	*r;		/* the stream; else NULL, and */
	const struct qwen_state_file *f;	/* the file, and */
	unsigned char		*buf;		/* QWEN_STATE_MAX for its
						   records */
	uint64_t		 bytes;	/* of the file, or 0 */
	struct qwen_session	*s;	/* NULL: without a model */
	size_t			 n_blocks;	/* of its KV cache, so far */
	pthread_rwlock_t	 blocks;	/* receive.c's: where they are */
	int			 decode_all;	/* also blocks that are not
						   needed: to check them without
						   keeping tokens */
	struct qwen_state_list	*list;	/* of what came, or NULL */
	struct qwen_state_layout lay;
	struct qwen_state_sum	 sum;
	struct qwen_state_follow follow;
	struct qwen_coder	*coder;
	struct qwen_state_extra	 x;
	int			 ended;
	int32_t			*tokens;
	size_t			 cap_tokens;
	struct qwen_kept	 kept;	/* the checkpoint under way */
	struct qwen_state_mtp	 mtp;	/* of s */
	float			*hidden;	/* at its end */
	struct qwen_fp		 total;	/* of the records before the last */
};

/* Records up to the end one, from where v->r or v->f stands. */
int qwen_state_take_all(struct qwen_state_in *v, struct qwen_err *err);

/*
 * The next record, which is counted; then take it: its place among the others,
 * its fields, and what it holds.  If what it holds is to be decoded and put to
 * *p, which may be done later and by another thread, 1.
 */
int qwen_state_next(struct qwen_state_in *v, struct qwen_state_rec *rec,
    struct qwen_err *err);
int qwen_state_take(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    struct qwen_state_target *p, struct qwen_err *err);

/* ---- receive.c: records of a stream up to the end one, into v->s */
int qwen_state_receive(struct qwen_state_in *v, struct qwen_err *err);

/* Blocks for n * 16 positions in all, though data is being put to others. */
int qwen_state_grow(struct qwen_state_in *v, size_t n, struct qwen_err *err);

/*
 * Ready for a stream with this header, for model m or (NULL) for none.  fini
 * frees what is left in *v.
 */
int qwen_state_in_init(struct qwen_state_in *v, struct qwen_model *m,
    const struct qwen_record *header, struct qwen_err *err);
void qwen_state_in_fini(struct qwen_state_in *v);

/*
 * All of the descriptor, a file or a pipe, into *v, which has no source yet, and
 * its header into *h: one state and nothing else.
 */
int qwen_state_read_through(struct qwen_state_in *v, struct qwen_model *m,
    int fd, struct qwen_header *h, struct qwen_err *err);

/* The header is one of a state for model m. */
int qwen_state_match(const struct qwen_header *h, struct qwen_model *m,
    struct qwen_err *err);

/* ---- file.c */

struct qwen_state_file {
	struct qwen_source	 src;	/* first: sessions hold it by this */
	int			 fd;
	unsigned char		*head;	/* the stream's header */
	size_t			 n_head;
	struct qwen_state_in	 in;	/* what was read of it */
	struct qwen_state_list	 list;	/* all records */
	int			 steps;	/* saved in steps: records of earlier
					   saves are between those, of which each
					   has the number that it got then */
	struct qwen_state_info	 info;
	unsigned char		*buf;	/* of block_read, if not NULL */
};

/* qwen_state_open of a descriptor, which is the file's whatever happens. */
int qwen_state_open_fd(struct qwen_state_file **out, int fd,
    struct qwen_err *err);

/* The file behind a source of checkpoints, or NULL. */
struct qwen_state_file *qwen_state_file_of(struct qwen_source *src);

/*
 * Record i, which fits in e->bytes at buf: read from the descriptor, checked,
 * and found to be what the index says.
 */
int qwen_state_file_rec(const struct qwen_state_file *f, size_t i,
    struct qwen_state_rec *rec, unsigned char *buf, struct qwen_err *err);

/* The same of bytes that are there already. */
int qwen_state_file_parse(const struct qwen_state_file *f, size_t i,
    struct qwen_state_rec *rec, const unsigned char *p, struct qwen_err *err);

/*
 * The data that a record of the file stands for, checked: in the coder, or
 * where the record is.
 */
int qwen_state_file_data(const struct qwen_state_file *f,
    const struct qwen_state_rec *rec, struct qwen_coder *c,
    const unsigned char **raw, struct qwen_err *err);

/*
 * Returns how many of n_threads threads (0: one per processor) are worth using
 * for `bytes' bytes.
 */
int qwen_state_threads(int n_threads, uint64_t bytes);

/* qwen_state_verify of a descriptor. */
int qwen_state_verify_fd(int fd, int n_threads, struct qwen_err *err);

/* Is its data left alone when a file is opened by its index? */
int qwen_state_can_wait(const struct qwen_state_entry *e);

/* ---- restore.c: what can wait read, checked and decoded, and no more */
struct qwen_pool;
int qwen_state_check_blocks(const struct qwen_state_file *f,
    struct qwen_pool *pool, struct qwen_err *err);

/* ---- restore.c: the read of struct qwen_source */
int qwen_state_source_read(struct qwen_source *src, struct qwen_session *s,
    uint64_t at, void *recurrent, float *logits, float *hidden, int *any,
    struct qwen_err *err);

#endif
