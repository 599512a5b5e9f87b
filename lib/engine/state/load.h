/* SPDX-License-Identifier: ISC */
/* load.h - reading states from streams and files. */
#ifndef QWEN_STATE_LOAD_H
#define QWEN_STATE_LOAD_H

#include <pthread.h>

#include "engine/timeline/session.h"
#include "engine/state/section.h"

/*
 * A state that is being read.  The records come from a stream, one after the
 * other, or from a file with an index; from a file, data for which
 * qwen_state_can_wait holds is not read.
 */
struct qwen_state_reader {
	struct qwen_reader	*r;		/* the stream, or NULL: from
						   f */
	const struct qwen_state_file *f;	/* the file */
	unsigned char		*buf;		/* QWEN_STATE_MAX bytes for a
						   record of f */
	uint64_t		 bytes;	/* length of the file, or 0 */
	struct qwen_session	*s;	/* NULL: no model */
	size_t			 n_blocks;	/* number of KV blocks
						   allocated */
	pthread_rwlock_t	 blocks;	/* receive.c: guards the
						   addresses of KV blocks */
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
	int32_t			*tokens;
	size_t			 cap_tokens;
	struct qwen_kept	 kept;	/* the current checkpoint */
	struct qwen_state_mtp	 mtp;	/* the MTP block of s */
	float			*hidden;	/* hidden state at the end */
	struct qwen_fp		 total;	/* hash of the checks before the last
					   record */
};

/*
 * Reads all records up to the end record, from the current place of v->r or
 * v->f.
 */
int qwen_state_read_all(struct qwen_state_reader *v, struct qwen_err *err);

/*
 * qwen_state_next reads and counts the next record. qwen_state_use checks its
 * sequence and fields and uses its content.  It returns 1 if the data still has
 * to be decoded and placed at *p; the caller may do that later and in another
 * thread.
 */
int qwen_state_next(struct qwen_state_reader *v, struct qwen_state_rec *rec,
    struct qwen_err *err);
int qwen_state_use(struct qwen_state_reader *v,
    const struct qwen_state_rec *rec, struct qwen_state_target *p,
    struct qwen_err *err);

/* ---- receive.c: records of a stream, up to the end record, into v->s */
int qwen_state_receive(struct qwen_state_reader *v, struct qwen_err *err);

/*
 * Allocates KV blocks, n in all, while other threads may place data in existing
 * ones.
 */
int qwen_state_grow(struct qwen_state_reader *v, size_t n,
    struct qwen_err *err);

/*
 * Prepares *v for a stream with this header; m may be NULL. fini frees what *v
 * still owns.
 */
int qwen_state_reader_init(struct qwen_state_reader *v, struct qwen_model *m,
    const struct qwen_record *header, struct qwen_err *err);
void qwen_state_reader_fini(struct qwen_state_reader *v);

/*
 * Reads all of the descriptor, a file or pipe, into *v, which has no source
 * yet, and its header into *h. It must hold one state and nothing else.
 */
int qwen_state_read_through(struct qwen_state_reader *v, struct qwen_model *m,
    int fd, struct qwen_header *h, struct qwen_err *err);

/* Checks that the header is that of a state of model m. */
int qwen_state_match(const struct qwen_header *h, struct qwen_model *m,
    struct qwen_err *err);

/* ---- file.c */

struct qwen_state_file {
	struct qwen_source	 src;	/* first member: sessions refer to the
					   file by it */
	int			 fd;
	unsigned char		*head;	/* header of the stream */
	size_t			 n_head;
	struct qwen_state_reader content;	/* read when opening */
	struct qwen_state_list	 list;	/* entries of all records */
	int			 steps;	/* saved in steps: between the records
					   lie those of earlier saves, and each
					   record has the number from the save
					   that wrote it */
	struct qwen_state_info	 info;
	unsigned char		*buf;	/* for block_read; or NULL */
};

/* Like qwen_state_open; the file owns the descriptor, even on errors. */
int qwen_state_open_fd(struct qwen_state_file **out, int fd,
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

/*
 * Decodes and checks the data of a record of the file.  *raw points into the
 * coder or into the record.
 */
int qwen_state_file_data(const struct qwen_state_file *f,
    const struct qwen_state_rec *rec, struct qwen_coder *c,
    const unsigned char **raw, struct qwen_err *err);

/*
 * Returns how many of n_threads threads (0: one per processor) are worth using
 * for `bytes' bytes.
 */
int qwen_state_threads(int n_threads, uint64_t bytes);

/* qwen_state_verify for a descriptor. */
int qwen_state_verify_fd(int fd, int n_threads, struct qwen_err *err);

/* Returns 1 if opening a file by its index does not read this record's data. */
int qwen_state_can_wait(const struct qwen_state_entry *e);

/* ---- restore.c: read, check and decode the data that opening left unread */
struct qwen_pool;
int qwen_state_check_blocks(const struct qwen_state_file *f,
    struct qwen_pool *pool, struct qwen_err *err);

/* ---- restore.c: the read function of struct qwen_source */
int qwen_state_source_read(struct qwen_source *src, struct qwen_session *s,
    uint64_t at, void *recurrent, float *logits, float *hidden, int *any,
    struct qwen_err *err);

#endif
