/* SPDX-License-Identifier: ISC */
/*
 * section.h - the table of the sections of a state.  A row has everything that
 * reading, writing, checking and showing need to know about a kind of record.
 *
 * To add a section, add a row and its two functions: read reads a record, write
 * writes the records.
 */
#ifndef QWEN_STATE_SECTION_H
#define QWEN_STATE_SECTION_H

#include "engine/state/state.h"

struct qwen_session;
struct qwen_state_reader;
struct qwen_save;

/* Where decoded data goes. */
struct qwen_state_target {
	struct qwen_session	*s;
	void			*recurrent;	/* laid out as in s */
	float			*logits, *hidden;
	uint64_t		 first, stop;	/* KV blocks of s: the first
						   block of the object, and the
						   first block that is not
						   wanted */
	int			 mapped;	/* raw is in a mapping that
						   lives as long as s */
};

/*
 * A field of struct qwen_state_extra that a section fills.  It is copied, freed
 * and shown (as struct qwen_state_value) by this description.
 */
struct qwen_extra_member {
	const char	*name;		/* NULL: not shown */
	enum qwen_value_type type;
	size_t		 at, size;	/* offset; bytes (for a list, of a
					   row) */
	size_t		 n_at;		/* offset of the count, or 0 */
	int		 owned;		/* a pointer to free() */
	unsigned	 width;		/* bytes of a number in a list */
};

/* The fields of every record that has data. */
#define QWEN_PIECE_FIELDS (1u << QWEN_F_OFF | 1u << QWEN_F_LEN | \
	1u << QWEN_F_CODEC)

#define QWEN_UINT(name) { name, QWEN_SHAPE_UINT }
#define QWEN_TEXT(name) { name, QWEN_SHAPE_TEXT }
#define QWEN_BYTES(name) { name, QWEN_SHAPE_BYTES }
#define QWEN_BOOL(name) { name, QWEN_SHAPE_BOOL }
#define QWEN_ARRAY(name) { name, QWEN_SHAPE_ARRAY }

enum { QWEN_OWN_MAX = 8 };

_Static_assert(QWEN_F_OWN + QWEN_OWN_MAX <= 32,
    "a record has one bit for each of its fields");

struct qwen_section {
	const char	*name;
	uint32_t	 fields;	/* bits 1 << field, for fields before
					   QWEN_F_OWN */
	struct qwen_key	 own[QWEN_OWN_MAX];	/* the section's own fields */
	uint32_t	 optional;	/* own fields that may be missing */
	unsigned	 width;		/* bytes of a number of the data; 0: no
					   data */
	int		 skip;		/* readers that do not know this kind
					   may ignore its records */

	/*
	 * With data: returns the bytes of the object, in this layer if it has
	 * one.
	 */
	uint64_t	(*bytes)(const struct qwen_state_layout *l,
			    const struct qwen_state_layer *layer);

	/*
	 * Copies a piece to its target.  Only for data that opening a file by
	 * its index leaves unread.  NULL: the data is read at once, like a
	 * record without data.
	 */
	void		(*copy)(const struct qwen_state_target *p,
			    const struct qwen_state_entry *e,
			    const unsigned char *raw);

	/*
	 * Sets the target in v->s for the next piece of a stream, and makes
	 * room for it.  Returns 1; 0 if the piece is not wanted; -1.
	 */
	int		(*set_target)(struct qwen_state_reader *v,
			    const struct qwen_state_entry *e,
			    struct qwen_state_target *p, struct qwen_err *err);

	/*
	 * For kinds without copy: reads a record whose fields and sequence
	 * were checked and whose data is decoded.
	 */
	int		(*read)(struct qwen_state_reader *v,
			    const struct qwen_state_rec *rec,
			    const unsigned char *raw, struct qwen_err *err);

	/*
	 * Writes all records of the section.  The first kind of a position
	 * writes those of all such kinds.
	 */
	int		(*write)(struct qwen_save *v);

	/*
	 * Its fields of struct qwen_state_extra, for sections in extra.c.
	 * group: qstate shows them as one group with the section's name; else
	 * each has its own name.
	 */
	const struct qwen_extra_member *member;	/* ends with a member
							   of size 0 */
	int		 group;

	/* Cuts its fields to the first n tokens.  NULL: they are dropped. */
	void		(*cut)(struct qwen_state_extra *x, uint64_t n);
};

const struct qwen_section *qwen_section(enum qwen_kind kind);

/* ---- mtp.c: the functions for the sections of the MTP block */
uint64_t qwen_state_mtp_kv_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer);
uint64_t qwen_state_mtp_hidden_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer);
void qwen_state_mtp_copy_kv(const struct qwen_state_target *p,
    const struct qwen_state_entry *e, const unsigned char *raw);
void qwen_state_mtp_copy_hidden(const struct qwen_state_target *p,
    const struct qwen_state_entry *e, const unsigned char *raw);
int qwen_state_mtp_read(struct qwen_state_reader *v,
    const struct qwen_state_rec *rec, const unsigned char *raw,
    struct qwen_err *err);
int qwen_state_mtp_set_target(struct qwen_state_reader *v,
    const struct qwen_state_entry *e, struct qwen_state_target *p,
    struct qwen_err *err);
int qwen_state_mtp_write(struct qwen_save *v);
int qwen_state_mtp_write_kv(struct qwen_save *v);

/* Copies a piece of KV blocks to a layer of the session (section.c). */
void qwen_state_copy_blocks(const struct qwen_state_target *p, size_t layer,
    const struct qwen_state_entry *e, const unsigned char *raw);
/*
 * Adds pieces for KV blocks first .. first + n - 1 of size bytes each.  Blocks
 * before base are not saved. layer -1: the MTP block.
 */
int qwen_save_add_blocks(struct qwen_save *v, enum qwen_kind kind,
    int64_t layer, size_t size, size_t base, size_t first, size_t n);

/* The sections from QWEN_K_EXTRA on. */
extern const struct qwen_section qwen_extra_sections[];
extern const size_t qwen_n_extra_sections;

#endif
