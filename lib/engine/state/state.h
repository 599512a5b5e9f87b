/* SPDX-License-Identifier: ISC */
/*
 * state.h - the records of a state, for saving and loading: qwen-state(5).
 * Other folders include only qwen/state.h of this folder.
 *
 * The stream's header is followed by records.  Each record is an array of five:
 *	[index, kind, fields, data, check]
 * check is the XXH3-64 of all bytes of the record before check.  For record 0
 * the hash begins with the header's bytes.  The record "end" holds the counts
 * and the XXH3-128 of all checks before it.  So every byte of the file is
 * hashed, and a lost, duplicated or moved record is detected.
 */
#ifndef QWEN_STATE_STATE_H
#define QWEN_STATE_STATE_H

#include <stddef.h>
#include <stdint.h>

#include <xxhash.h>

#include "qwen.h"
#include "wire/item.h"

enum {
	QWEN_PIECE_MAX = 1 << 19,	/* maximum bytes of a record's data,
					   decoded */
	QWEN_ALIGN = 64,		/* alignment of data in the uncompressed
					   form */
	QWEN_FIELDS_MAX = 4096,		/* maximum bytes of a record's fields
					   when written, layers excepted */
	QWEN_CHECK_BYTES = 8,
	QWEN_KIND_MAX = 24,
	QWEN_SAMPLER_MAX = 1024,	/* bytes of the sampling options as
					   text */
	QWEN_OPTIONS_MAX = 2048,	/* bytes of all options of a run as
					   text */
	QWEN_END_BYTES = 160,		/* bytes of every end record */
	QWEN_ENTRY_BYTES = 88,		/* bytes of a record's index entry */
};

/* ------------------------------------------------------- codec.c: the bytes */

enum qwen_codec {
	QWEN_CODEC_NONE,
	QWEN_CODEC_ZSTD,	/* one zstd frame */
	QWEN_CODEC_ZSTD2,	/* one zstd frame: the low bytes of 2-byte
				   numbers, then their high bytes */
	QWEN_CODEC_ZSTD4,	/* likewise for 4-byte numbers, lowest bytes
				   first */
};

const char *qwen_codec_name(enum qwen_codec c);
int qwen_codec_find(const unsigned char *name, size_t n, enum qwen_codec *out);

struct qwen_coder;

int qwen_coder_new(struct qwen_coder **out, struct qwen_err *err);
void qwen_coder_free(struct qwen_coder *c);

/*
 * Encodes n bytes (at most QWEN_PIECE_MAX) of numbers of width bytes at this
 * zstd level; level 0 stores them.  *data points to the result: buf (room for n
 * bytes), or raw if encoding saves nothing.  Returns -1 on errors of zstd.
 */
int qwen_coder_encode(struct qwen_coder *c, const void *raw, size_t n,
    unsigned width, int level, unsigned char *buf, enum qwen_codec *codec,
    const unsigned char **data, size_t *n_data, struct qwen_err *err);

/*
 * Decodes data into n_raw bytes (at most QWEN_PIECE_MAX).  *raw points into the
 * coder, valid until its next call, or to data.  Returns -1 unless the result
 * has exactly n_raw bytes.
 */
int qwen_coder_decode(struct qwen_coder *c, enum qwen_codec codec,
    const unsigned char *data, size_t n_data, size_t n_raw,
    const unsigned char **raw, struct qwen_err *err);

/*
 * Returns the offset of the first NaN or infinite number in n bytes of float16
 * (width 2) or float32 (width 4); n if all are finite.
 */
size_t qwen_coder_finite(const unsigned char *p, size_t n, unsigned width);

/* ---------------------------------------------------- record.c: the framing */

/*
 * Kinds of records, in the order in which a state has them; an unknown kind is
 * QWEN_K_NONE.
 */
enum qwen_kind {
	QWEN_K_NONE,
	QWEN_K_INFO, QWEN_K_SPANS, QWEN_K_TOKENS, QWEN_K_KV, QWEN_K_MTP, QWEN_K_MTP_KV,
	/* data of a position */
	QWEN_K_DELTA, QWEN_K_CONV, QWEN_K_LOGITS, QWEN_K_HIDDEN,
	QWEN_K_CHECKPOINT,
	/* struct qwen_state_extra */
	QWEN_K_GENERATED, QWEN_K_SAMPLER, QWEN_K_RUN,
	QWEN_K_INDEX, QWEN_K_END,
	QWEN_N_KINDS
};

/* Fields of a record: first those of any kind, then those of one section. */
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
	/* sampler */
	QWEN_F_OPTIONS = QWEN_F_OWN, QWEN_F_PENDING, QWEN_F_MEMORY,
	/* run */
	QWEN_F_RUN_START = QWEN_F_OWN, QWEN_F_RUN_COUNT, QWEN_F_RUN_INPUT,
	QWEN_F_RUN_OPTIONS, QWEN_F_RUN_FINISHED, QWEN_F_RUN_AGAIN,
	QWEN_F_RUN_BASE,
};

enum { QWEN_OWN_MAX = 8 };

/* What all records of a kind have in common (kind.c). */
struct qwen_kind_row {
	const char	*name;
	uint32_t	 fields;	/* required fields before QWEN_F_OWN:
					   bits 1 << field */
	uint32_t	 optional;	/* own fields that may be missing */
	struct qwen_key	 own[QWEN_OWN_MAX];	/* from QWEN_F_OWN on */
	unsigned	 width;		/* bytes of a number of the data; 0: no
					   data */
	int		 skip;		/* readers that do not know this kind
					   may ignore its records */
	int		 waits;		/* opening a file by its index does not
					   read the data */
};

extern const struct qwen_kind_row qwen_kinds[QWEN_N_KINDS];

/* Returns the kind of this name, or QWEN_K_NONE. */
enum qwen_kind qwen_kind_find(const char *name);

/* The index entry of a record. */
struct qwen_state_entry {
	enum qwen_kind	 kind;
	char		 name[QWEN_KIND_MAX];	/* name of the kind */
	int		 has_data;
	enum qwen_codec	 codec;
	int64_t		 layer, at;	/* -1: does not apply */
	uint64_t	 off, len;
	uint64_t	 offset, bytes;	/* place in the stream */
	unsigned char	 check[QWEN_CHECK_BYTES];
};

/* Returns 1 if opening a file by its index does not read this record. */
static inline int
qwen_state_waits(const struct qwen_state_entry *e)
{
	return qwen_kinds[e->kind].waits && e->has_data;
}

struct qwen_state_rec {
	uint64_t		 index;
	struct qwen_state_entry	 e;
	int			 read;	/* the whole record was read; 0: only e
					   is known, from the index */
	struct qwen_fields	 f;	/* indexed by enum qwen_field */
	const unsigned char	*data;
	size_t			 n_data;
};

/*
 * Bytes from which CBOR items are read. qwen_state_item reads the next item; -1
 * if it is missing or has another type.
 */
struct qwen_state_bytes {
	const unsigned char	*p;
	size_t			 n;
};

int qwen_state_item(struct qwen_state_bytes *b, enum qwen_cbor_item_type type,
    struct qwen_cbor_item *it);

/* Counts and hashes of the records so far, for reading and writing. */
struct qwen_state_counts {
	XXH3_state_t	*header;	/* hash of the header */
	XXH3_state_t	*checks;	/* hash of the checks */
	uint64_t	 n;		/* number of records */
	uint64_t	 bytes;		/* bytes in the stream, header
					   included */
	uint64_t	 raw;		/* bytes of all data, decoded */
};

int qwen_state_counts_init(struct qwen_state_counts *s, const void *header,
    size_t n, struct qwen_err *err);
void qwen_state_counts_fini(struct qwen_state_counts *s);
void qwen_state_counts_hash(const struct qwen_state_counts *s,
    struct qwen_fp *out);

/* Counts a record that was read or written. */
void qwen_state_counts_add(struct qwen_state_counts *s,
    const struct qwen_state_entry *e);

/* A record under construction, in the writer's buffer. */
struct qwen_state_builder {
	unsigned char	*buf;
	size_t		 cap;
	size_t		 n;
	size_t		 n_fields;
	size_t		 fields_at;	/* offset of the map head of the
					   fields */
};

/*
 * Calls to write one record: begin starts record s->n of this kind; one call
 * per field adds its key and value (at most 23 fields, in any order); finish
 * appends data and check and counts the record in s. data encodes n_raw bytes;
 * if align is not 0, data is aligned in the stream.  The buffer must hold
 * QWEN_FIELDS_MAX bytes and the data.
 */
void qwen_state_put_begin(struct qwen_state_builder *p,
    const struct qwen_state_counts *s, const char *kind);
void qwen_state_put_uint(struct qwen_state_builder *p, const char *key,
    uint64_t v);
void qwen_state_put_text(struct qwen_state_builder *p, const char *key,
    const char *s);
void qwen_state_put_bytes(struct qwen_state_builder *p, const char *key,
    const void *s, size_t n);
void qwen_state_put_bool(struct qwen_state_builder *p, const char *key, int v);
void qwen_state_put_string(struct qwen_state_builder *p, const char *s);
void qwen_state_put_key(struct qwen_state_builder *p, const char *key);
void qwen_state_put_array(struct qwen_state_builder *p, size_t n);
void qwen_state_put_number(struct qwen_state_builder *p, uint64_t v);
void qwen_state_put_finish(struct qwen_state_builder *p,
    struct qwen_state_counts *s, const void *data, size_t n_data,
    uint64_t n_raw, size_t align);

/*
 * Finishes a record of few fields without copying its data.  *data needs room
 * for QWEN_FIELDS_MAX bytes before the data and for the check after it.  Sets
 * *data to the start of the record and returns the record's length.
 */
size_t qwen_state_put_around(struct qwen_state_builder *p,
    struct qwen_state_counts *s, unsigned char **data, size_t n_data,
    uint64_t n_raw, size_t align);

/*
 * Decodes the complete item of n bytes at p as the next record of s, and counts
 * it.  Checks the hash first, then the sequence, then the fields.  *rec points
 * into p.
 */
int qwen_state_rec_decode(struct qwen_state_rec *rec,
    struct qwen_state_counts *s, const unsigned char *p, size_t n,
    struct qwen_err *err);

/* Prefixes the message with "state block 12 (kv of layer 3) at byte 4096: ". */
int qwen_state_rec_fail(const struct qwen_state_rec *rec, struct qwen_err *err);

/*
 * Decodes record number index, at offset of the stream, from the n bytes at p,
 * which include the check.  For record 0 the hash begins with the n_head bytes
 * of the header.  QWEN_INDEX_ANY: the record gives its own number, and it is
 * not record 0. Counts nothing.
 */
#define QWEN_INDEX_ANY UINT64_MAX
int qwen_state_rec_parse(struct qwen_state_rec *rec, uint64_t index,
    uint64_t offset, const void *head, size_t n_head, const unsigned char *p,
    size_t n, struct qwen_err *err);

/*
 * Checks that the record, of a known kind, has exactly the fields of its kind.
 */
int qwen_state_rec_want(const struct qwen_state_rec *rec,
    struct qwen_err *err);

/* ------------------------------------------------------- index.c: the index */

void qwen_state_entry_pack(const struct qwen_state_entry *e,
    unsigned char out[QWEN_ENTRY_BYTES]);

/* Returns -1 if no record can have this entry. */
int qwen_state_entry_unpack(struct qwen_state_entry *e,
    const unsigned char in[QWEN_ENTRY_BYTES], struct qwen_err *err);

/* A growing list of entries. */
struct qwen_state_list {
	struct qwen_state_entry	*entry;
	size_t			 n, cap;
};

int qwen_state_list_add(struct qwen_state_list *l,
    const struct qwen_state_entry *e, struct qwen_err *err);

/*
 * Checks the index of a stream: hashes of the entries of all records before the
 * index, and of the entries that the index contains.
 */
struct qwen_index_check {
	XXH3_state_t	*of_records, *of_entries;
	uint64_t	 n_records;
	uint64_t	 n_bytes;	/* bytes of the index */
	uint64_t	 offset;	/* of the index in the stream; 0: none
					   yet */
};

int qwen_index_check_init(struct qwen_index_check *f, struct qwen_err *err);
void qwen_index_check_fini(struct qwen_index_check *f);
void qwen_index_check_record(struct qwen_index_check *f,
    const struct qwen_state_entry *e);
void qwen_index_check_entries(struct qwen_index_check *f, const void *raw,
    size_t n);
/* Returns 0 if the index matches the records; -1 with the error set if not. */
int qwen_index_check_end(const struct qwen_index_check *f,
    struct qwen_err *err);

/* ----------------------------------------- layout.c: the objects of a state */

/*
 * The MTP block's part of a state: its keys and values from a slot on.  The row
 * of position p is in slot p - 1.  No logit depends on it: readers that do not
 * know its records, or whose model has another MTP block, ignore it.
 */
struct qwen_state_mtp {
	int			 there;
	struct qwen_state_layer	 layer;	/* shape of its keys and values */
	uint64_t		 n_embd;	/* size of a hidden state */
	struct qwen_fp		 model;	/* fingerprint of the model file */
	uint64_t		 first;	/* first slot; a multiple of
					   QWEN_KV_BLOCK */
};

/*
 * The objects of a state, and how much of each was read.  The pieces of an
 * object must come without gaps, and positions in ascending order; at the end
 * every object must be complete.  Streams and indexes are checked alike.
 */
struct qwen_state_layout {
	struct qwen_state_info	 info;
	struct qwen_state_mtp	 mtp;
	/* only used for reading */
	struct qwen_state_layer	*layer;		/* info.layers */
	struct qwen_checkpoint	*checkpoint;	/* info.checkpoints */
	size_t			 cap_checkpoint;
	/*
	 * bytes read of each kind's objects: one object per layer, or one in
	 * all (for a kind of a position, of the current position)
	 */
	uint64_t		*done;		/* [kind][n_done] */
	size_t			 n_done;
	int			 has_position;	/* `at' is set */
	uint64_t		 at;	/* the current position */
	int			 named;	/* it is named */
};

void qwen_state_layout_fini(struct qwen_state_layout *l);

/*
 * Returns the format number of a state with this header: 3 if RoPE is
 * overridden, 1 if keys and values are f16, else 2.
 */
unsigned qwen_state_format(const struct qwen_header *h);

/*
 * Each returns 0, or -1 if the record or piece is wrong or does not continue
 * the state.  info: in *l, only the header is set.  add: a piece, which must
 * continue its object.  mark: a position.  end: checks that all objects are
 * complete, and sets what the info says about the end.
 */
int qwen_state_layout_info(struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_err *err);
int qwen_state_layout_mtp(struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_err *err);
int qwen_state_layout_add(struct qwen_state_layout *l,
    const struct qwen_state_entry *e, struct qwen_err *err);
int qwen_state_layout_mark(struct qwen_state_layout *l, uint64_t at, int named,
    struct qwen_err *err);
int qwen_state_layout_end(struct qwen_state_layout *l, struct qwen_err *err);

/* Returns 0 if the shapes are those of the session's model. */
struct qwen_session;
int qwen_state_layout_match(const struct qwen_state_layout *l,
    const struct qwen_session *s, struct qwen_err *err);

/* Returns 1 if the data of this kind are KV blocks. */
static inline int
qwen_kind_is_kv(enum qwen_kind kind)
{
	return kind == QWEN_K_KV || kind == QWEN_K_MTP_KV;
}

/* Returns the shape of a layer; -1: of the MTP block. */
static inline const struct qwen_state_layer *
qwen_state_layer_of(const struct qwen_state_layout *l, int64_t layer)
{
	return layer < 0 ? &l->mtp.layer : &l->info.layers[layer];
}

/* Returns the bytes of a KV block (16 positions) of a layer. */
uint64_t qwen_state_kv_block(const struct qwen_state_layer *l);
struct qwen_kv_shape qwen_state_kv_shape(const struct qwen_state_layer *l);

/*
 * Returns the number of KV blocks in an object of this kind, and sets *first to
 * the first one.  Those of the MTP block hold the rows of the state's tokens;
 * the row of its first token may lie in the block before.
 */
uint64_t qwen_state_blocks(const struct qwen_state_layout *l,
    enum qwen_kind kind, uint64_t *first);

/* Returns the bytes of the object of this kind, in this layer if it has one. */
uint64_t qwen_state_bytes(const struct qwen_state_layout *l,
    enum qwen_kind kind, int64_t layer);

/* Returns the bytes of one number of that object. */
unsigned qwen_state_width(const struct qwen_state_layout *l,
    enum qwen_kind kind, int64_t layer);

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
 * Decodes the data of a record.  Checks its fields and its numbers: none is
 * incomplete, NaN or infinite, and the KV cache is zero after the last token.
 * *raw points into the coder or to the record's data.
 */
int qwen_state_rec_data(const struct qwen_state_layout *l,
    const struct qwen_state_rec *rec, struct qwen_coder *c,
    const unsigned char **raw, struct qwen_err *err);

/* ------------------------------------------------------------------ extra.c */

/*
 * Copies x for the first n tokens. whole: n is all tokens, so data that belongs
 * to the end is copied too.
 */
int qwen_state_extra_copy(struct qwen_state_extra *out,
    const struct qwen_state_extra *x, uint64_t n, int whole,
    struct qwen_err *err);

#endif
