/* SPDX-License-Identifier: ISC */
/*
 * state.h - the records of a state, between saving and loading: qwen-state(5).
 * The face of this folder is qwen/state.h: others include nothing else of it.
 *
 * After the stream's header come records, each an array of five:
 *	[index, kind, fields, data, check]
 * check is the XXH3-64 of all bytes of the record before its own eight (and,
 * for record 0, of the header's bytes before those).  The record "end" holds
 * the counts and the XXH3-128 of all checks before it, so that no byte of
 * the file is outside some hash, and a record cannot be lost, doubled or moved.
 */
#ifndef QWEN_STATE_STATE_H
#define QWEN_STATE_STATE_H

#include <stddef.h>
#include <stdint.h>

#include <xxhash.h>

#include "qwen.h"
#include "wire/item.h"

enum {
	QWEN_PIECE_MAX = 1 << 19,	/* raw bytes that a record holds */
	QWEN_ALIGN = 64,		/* of data in the form without
					   compression */
	QWEN_FIELDS_MAX = 4096,		/* a writer's fields, except layers */
	QWEN_CHECK_BYTES = 8,
	QWEN_KIND_MAX = 24,
	QWEN_SAMPLER_MAX = 1024,	/* the sampling options as text */
	QWEN_OPTIONS_MAX = 2048,	/* all options of a run, likewise */
	QWEN_END_BYTES = 160,		/* of the end record, always */
	QWEN_ENTRY_BYTES = 88,		/* of a record in the index */
};

/* ------------------------------------------------------- codec.c: the bytes */

enum qwen_codec {
	QWEN_CODEC_NONE,
	QWEN_CODEC_ZSTD,	/* one zstd frame */
	QWEN_CODEC_ZSTD2,	/* the same of the low bytes of 2-byte numbers,
				   then of the high ones */
	QWEN_CODEC_ZSTD4,	/* likewise of 4-byte numbers */
};

const char *qwen_codec_name(enum qwen_codec c);
int qwen_codec_find(const unsigned char *name, size_t n, enum qwen_codec *out);

struct qwen_coder;

int qwen_coder_new(struct qwen_coder **out, struct qwen_err *err);
void qwen_coder_free(struct qwen_coder *c);

/*
 * Encode n bytes (at most QWEN_PIECE_MAX), numbers of width bytes, at the
 * level; level 0 stores.  *data points to the result: in buf, which has room
 * for n bytes, or raw itself where nothing is gained.  -1 if zstd fails.
 */
int qwen_coder_encode(struct qwen_coder *c, const void *raw, size_t n,
    unsigned width, int level, unsigned char *buf, enum qwen_codec *codec,
    const unsigned char **data, size_t *n_data, struct qwen_err *err);

/*
 * The n_raw bytes (at most QWEN_PIECE_MAX) that the data stand for: *raw is in
 * the coder, or data itself.  -1 unless they are exactly that many.
 */
int qwen_coder_decode(struct qwen_coder *c, enum qwen_codec codec,
    const unsigned char *data, size_t n_data, size_t n_raw,
    const unsigned char **raw, struct qwen_err *err);

/*
 * Where in n bytes of float16 (width 2) or float32 (4) the first number is that
 * is not finite; n if all are.
 */
size_t qwen_coder_finite(const unsigned char *p, size_t n, unsigned width);

/* ---------------------------------------------------- record.c: the framing */

/* What a record holds; section.c has a row for each. */
enum qwen_kind {
	QWEN_K_NONE,		/* what this version does not know */
	QWEN_K_INFO, QWEN_K_TOKENS, QWEN_K_KV, QWEN_K_MTP, QWEN_K_MTP_KV,
	/* of a position */
	QWEN_K_DELTA, QWEN_K_CONV, QWEN_K_LOGITS, QWEN_K_HIDDEN,
	QWEN_K_CHECKPOINT,
	QWEN_K_INDEX, QWEN_K_END,
	QWEN_K_EXTRA		/* the first of those in extra.c */
};

enum qwen_kind qwen_kind_find(const char *name);

/* Fields of a record: those of any kind, and then its section's own. */
enum qwen_field {
	QWEN_F_LAYER, QWEN_F_AT, QWEN_F_OFF, QWEN_F_LEN, QWEN_F_CODEC,
	QWEN_F_PAD, QWEN_F_SKIP,
	QWEN_F_OWN,
	/* info */
	QWEN_F_FORMAT = QWEN_F_OWN, QWEN_F_WRITER, QWEN_F_N_TOKENS,
	QWEN_F_KV_BLOCK, QWEN_F_LAYERS, QWEN_F_FROM, QWEN_F_PREFIX,
	QWEN_F_CONVERTED,
	/* mtp */
	QWEN_F_HEADS = QWEN_F_OWN, QWEN_F_SIZE, QWEN_F_EMBD, QWEN_F_FIRST,
	QWEN_F_MODEL,
	/* checkpoint */
	QWEN_F_NAMED = QWEN_F_OWN,
	/* end */
	QWEN_F_RECORDS = QWEN_F_OWN, QWEN_F_BYTES, QWEN_F_RAW, QWEN_F_TOTAL,
	QWEN_F_INDEX, QWEN_F_STEPS,
};

/* Of a record, what the index says of it. */
struct qwen_state_entry {
	enum qwen_kind	 kind;
	char		 name[QWEN_KIND_MAX];	/* of the kind */
	int		 has_data;
	enum qwen_codec	 codec;
	int64_t		 layer, at;	/* -1: none */
	uint64_t	 off, len;
	uint64_t	 offset, bytes;	/* in the stream of state */
	unsigned char	 check[QWEN_CHECK_BYTES];
};

struct qwen_state_rec {
	uint64_t		 index;
	struct qwen_state_entry	 e;
	int			 read;	/* not known by the index alone: */
	struct qwen_fields	 f;	/* by number */
	const unsigned char	*data;
	size_t			 n_data;
};

/* Bytes from which items are taken: the next one, of this type, or -1. */
struct qwen_state_bytes {
	const unsigned char	*p;
	size_t			 n;
};

int qwen_state_item(struct qwen_state_bytes *b, enum qwen_item_type type,
    struct qwen_item *it);

/* What has gone by of a state: kept by writer and reader alike. */
struct qwen_state_sum {
	XXH3_state_t	*header;	/* of the header's bytes */
	XXH3_state_t	*checks;	/* of the checks so far */
	uint64_t	 n;		/* records */
	uint64_t	 bytes;		/* stored, header included */
	uint64_t	 raw;		/* of all data, before encoding */
};

int qwen_state_sum_init(struct qwen_state_sum *s, const void *header, size_t n,
    struct qwen_err *err);
void qwen_state_sum_fini(struct qwen_state_sum *s);
void qwen_state_sum_total(const struct qwen_state_sum *s, struct qwen_fp *out);

/* A record has gone by. */
void qwen_state_sum_add(struct qwen_state_sum *s,
    const struct qwen_state_entry *e);

/* A record under construction, in the writer's buffer. */
struct qwen_state_put {
	unsigned char	*buf;
	size_t		 cap;
	size_t		 n;
	size_t		 n_fields;
	size_t		 fields_at;	/* where the head of the fields is */
};

/*
 * Begin record s->n of this kind, add its fields (at most 23, their order is
 * free), each by its key, and finish it: data, which stands for n_raw bytes and is aligned in
 * the stream if align is not 0, and check.  The buffer is large enough for
 * QWEN_FIELDS_MAX and the data.  s then counts the record.
 */
void qwen_state_put_begin(struct qwen_state_put *p,
    const struct qwen_state_sum *s, const char *kind);
void qwen_state_put_uint(struct qwen_state_put *p, const char *key,
    uint64_t v);
void qwen_state_put_text(struct qwen_state_put *p, const char *key,
    const char *s);
void qwen_state_put_bytes(struct qwen_state_put *p, const char *key,
    const void *s, size_t n);
void qwen_state_put_bool(struct qwen_state_put *p, const char *key, int v);
void qwen_state_put_string(struct qwen_state_put *p, const char *s);
void qwen_state_put_key(struct qwen_state_put *p, const char *key);
void qwen_state_put_array(struct qwen_state_put *p, size_t n);
void qwen_state_put_number(struct qwen_state_put *p, uint64_t v);
void qwen_state_put_finish(struct qwen_state_put *p, struct qwen_state_sum *s,
    const void *data, size_t n_data, uint64_t n_raw, size_t align);

/*
 * Finish a record of few fields around data that stay where they are: *data has
 * room for QWEN_FIELDS_MAX bytes before it and for the check after, and is set
 * to where the record then begins; returns its length.
 */
size_t qwen_state_put_around(struct qwen_state_put *p,
    struct qwen_state_sum *s, unsigned char **data, size_t n_data,
    uint64_t n_raw, size_t align);

/*
 * The record in the complete item of n bytes at p, the next one of s: its check
 * first, then its place, then its sense.  *rec points into p.
 */
int qwen_state_rec_decode(struct qwen_state_rec *rec, struct qwen_state_sum *s,
    const unsigned char *p, size_t n, struct qwen_err *err);

/* Put "state block 12 (kv of layer 3) at byte 4096: " in front of a message. */
int qwen_state_rec_fail(const struct qwen_state_rec *rec, struct qwen_err *err);

/*
 * The record number index, at offset of the stream, in the n bytes at p, its
 * check included; for record 0 the check begins with the n_head bytes of the
 * header.  QWEN_INDEX_ANY: one that is not the first, which knows its number.
 * Nothing is counted.
 */
#define QWEN_INDEX_ANY UINT64_MAX
int qwen_state_rec_parse(struct qwen_state_rec *rec, uint64_t index,
    uint64_t offset, const void *head, size_t n_head, const unsigned char *p,
    size_t n, struct qwen_err *err);

/* The record has the fields of its kind, which is a known one, and no others. */
int qwen_state_rec_want(const struct qwen_state_rec *rec,
    struct qwen_err *err);

/* ------------------------------------------------------- index.c: the index */

void qwen_state_entry_pack(const struct qwen_state_entry *e,
    unsigned char out[QWEN_ENTRY_BYTES]);

/* -1 unless it is what some record could have. */
int qwen_state_entry_unpack(struct qwen_state_entry *e,
    const unsigned char in[QWEN_ENTRY_BYTES], struct qwen_err *err);

/* A list of them that grows. */
struct qwen_state_list {
	struct qwen_state_entry	*entry;
	size_t			 n, cap;
};

int qwen_state_list_add(struct qwen_state_list *l,
    const struct qwen_state_entry *e, struct qwen_err *err);

/*
 * Follows a stream: hashes of the entries of all records before the index, and
 * of what the index says.
 */
struct qwen_state_follow {
	XXH3_state_t	*seen, *said;
	uint64_t	 n_seen;
	uint64_t	 n_said;	/* bytes */
	uint64_t	 offset;	/* of the index; 0: none yet */
};

int qwen_state_follow_init(struct qwen_state_follow *f, struct qwen_err *err);
void qwen_state_follow_fini(struct qwen_state_follow *f);
void qwen_state_follow_seen(struct qwen_state_follow *f,
    const struct qwen_state_entry *e);
void qwen_state_follow_said(struct qwen_state_follow *f, const void *raw,
    size_t n);
/* 0 if the index said what was seen. */
int qwen_state_follow_end(const struct qwen_state_follow *f,
    struct qwen_err *err);

/* --------------------------------------------------- layout.c: what is where */

/*
 * The MTP block's part of a state: keys and values, the row of position p in
 * slot p - 1, from a slot on.
 */
struct qwen_state_mtp {
	int			 there;
	struct qwen_state_layer	 layer;	/* its shape */
	uint64_t		 n_embd;	/* of a hidden state */
	struct qwen_fp		 model;	/* the file it is from */
	uint64_t		 first;	/* slot, a multiple of QWEN_KV_BLOCK */
};

/*
 * What a state consists of, by its info record, and how much of it has gone by:
 * each object in pieces without gaps, the positions of recurrent states
 * ascending, nothing missing.  The same for streams and for the index.
 */
struct qwen_state_layout {
	uint64_t		 n_vocab;
	unsigned		 format;	/* by the header, */
	enum qwen_kv		 k, v;		/* as that says */
	int			 converted;
	int			 part;
	uint64_t		 from, n_tokens;
	struct qwen_fp		 prefix;
	struct qwen_state_layer	*layer;
	size_t			 n_layer;
	struct qwen_state_mtp	 mtp;
	/* bytes that have come of each kind's objects, one for each layer or
	   one in all; of a position, of the one under way */
	uint64_t		*done;		/* [kind][n_done] */
	size_t			 n_done;
	int			 seen, named;	/* seen: there is a position */
	uint64_t		 at;
	/* once the end is reached */
	int			 recurrent, end_named, end_logits;
	struct qwen_checkpoint	*checkpoint;
	size_t			 n_checkpoint, cap_checkpoint;
};

void qwen_state_layout_fini(struct qwen_state_layout *l);

/* The format of a state with such keys and values: 1 if all are f16, else 2. */
unsigned qwen_state_format(const struct qwen_header *h);

/* The info record, which begins a layout that is zero but for n_vocab, k, v. */
int qwen_state_layout_info(struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_err *err);

/* A piece of an object, which must be its next one. */
int qwen_state_layout_add(struct qwen_state_layout *l,
    const struct qwen_state_entry *e, struct qwen_err *err);

/* The mark of a position. */
int qwen_state_layout_mark(struct qwen_state_layout *l, uint64_t at, int named,
    struct qwen_err *err);

/* Nothing is missing? */
int qwen_state_layout_end(struct qwen_state_layout *l, struct qwen_err *err);

/* The shapes are those of the model. */
struct qwen_session;
int qwen_state_layout_match(const struct qwen_state_layout *l,
    const struct qwen_session *s, struct qwen_err *err);

/* Bytes of 16 positions of a layer. */
uint64_t qwen_state_kv_block(const struct qwen_state_layer *l);
struct qwen_kv_shape qwen_state_kv_shape(const struct qwen_state_layer *l);

/* Bytes of a number of a piece; of kv and mtp-kv with blocks of this shape. */
unsigned qwen_state_width(enum qwen_kind kind,
    const struct qwen_state_layer *kv);

/* KV blocks of positions from .. n_tokens - 1: the first, and how many. */
uint64_t qwen_state_kv_first(const struct qwen_state_layout *l);
uint64_t qwen_state_kv_count(const struct qwen_state_layout *l);

/* The mtp record, of which there is one at most. */
int qwen_state_layout_mtp(struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_err *err);

/*
 * qwen_state_mtp_of fills *out for a session, whose model may have no MTP
 * block.  The other function returns 1 if the saved MTP data match the
 * session's model.
 */
int qwen_state_mtp_of(struct qwen_state_mtp *out, const struct qwen_session *s,
    struct qwen_err *err);
int qwen_state_mtp_fits(const struct qwen_state_mtp *of_state,
    const struct qwen_state_mtp *of_session);

/*
 * Blocks of a state of the tokens from .. n - 1, from *first on: they hold the
 * rows of these tokens, of which that of from can be in the block before.
 */
uint64_t qwen_state_mtp_blocks(const struct qwen_state_mtp *p, uint64_t from,
    uint64_t n, uint64_t *first);

/*
 * What decoded numbers must be like: whole and finite, and of the KV cache zero
 * in lanes after the end.
 */
int qwen_state_layout_check(const struct qwen_state_layout *l,
    const struct qwen_state_entry *e, const unsigned char *raw,
    struct qwen_err *err);

/* ------------------------------------------------------------------ extra.c */

/*
 * A copy of x for the first n tokens; whole: those are all, and what belongs to
 * the end is copied too.
 */
int qwen_state_extra_copy(struct qwen_state_extra *out,
    const struct qwen_state_extra *x, uint64_t n, int whole,
    struct qwen_err *err);

#endif
