/* SPDX-License-Identifier: ISC */
/*
 * section.h - the table of what a state consists of: a row says all that
 * reading, writing, checking and showing need to know of a kind of records.
 *
 * A new section is a row and the two functions that it names: one takes it from
 * a record, one puts it into one.
 */
#ifndef QWEN_STATE_SECTION_H
#define QWEN_STATE_SECTION_H

#include "engine/state/state.h"

struct qwen_session;
struct qwen_state_in;
struct qwen_save;

/* Where data is to go. */
struct qwen_state_target {
	struct qwen_session	*s;
	void			*recurrent;	/* laid out as in s */
	float			*logits, *hidden;
	uint64_t		 first, stop;	/* KV blocks of s: the object's
						   first, and the first that is
						   not wanted */
	int			 mapped;	/* raw data stay where they are
						   as long as s lives */
};

/*
 * A member of struct qwen_state_extra that a section fills: by this it is
 * copied, freed, and shown as a struct qwen_state_value.
 */
struct qwen_member {
	const char	*name;		/* NULL: it is not shown */
	enum qwen_value_type type;
	size_t		 at, size;	/* offset; bytes, of a list of a row */
	size_t		 n_at;		/* offset of how many, or 0 */
	int		 owned;		/* it is a pointer to free() */
	unsigned	 width;		/* of a list, bytes of a number */
};

/* What all have that have data. */
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
	uint32_t	 fields;	/* bits 1 << field that it has, of those
					   before QWEN_F_OWN */
	struct qwen_key	 own[QWEN_OWN_MAX];	/* and those of its own, */
	uint32_t	 optional;	/* which must be there but for these */
	unsigned	 width;		/* bytes of a number of its data; 0: it
					   has no data */
	int		 skip;		/* of data: readers that do not know it
					   may ignore it */

	/* Of data: how long its object is, in this layer if it is of one. */
	uint64_t	(*bytes)(const struct qwen_state_layout *l,
			    const struct qwen_state_layer *layer);

	/*
	 * Data that can wait until it is wanted: put the piece where it goes.
	 * NULL: it is read at once, like what has no data.
	 */
	void		(*place)(const struct qwen_state_target *p,
			    const struct qwen_state_entry *e,
			    const unsigned char *raw);

	/*
	 * For the next piece of it in a stream: where it goes in v->s, with
	 * room there.  1; 0: it is not wanted.
	 */
	int		(*room)(struct qwen_state_in *v,
			    const struct qwen_state_entry *e,
			    struct qwen_state_target *p, struct qwen_err *err);

	/* A record of another kind whose fields and place are right, its data
	   decoded. */
	int		(*take)(struct qwen_state_in *v,
			    const struct qwen_state_rec *rec,
			    const unsigned char *raw, struct qwen_err *err);

	/* All records of it; those of a position are put by the first. */
	int		(*put)(struct qwen_save *v);

	/*
	 * What it holds beside the session, in extra.c.  group: qstate shows it
	 * as one, by the section's name, else each member by its own.
	 */
	const struct qwen_member *member;	/* up to one of size 0 */
	int		 group;

	/* What is left of it if only the first n tokens are; NULL: nothing. */
	void		(*cut)(struct qwen_state_extra *x, uint64_t n);
};

const struct qwen_section *qwen_section(enum qwen_kind kind);

/* ---- for the table, of the block that predicts: predict.c */
uint64_t qwen_predict_kv_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer);
uint64_t qwen_predict_hidden_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer);
void qwen_predict_place_kv(const struct qwen_state_target *p,
    const struct qwen_state_entry *e, const unsigned char *raw);
void qwen_predict_place_hidden(const struct qwen_state_target *p,
    const struct qwen_state_entry *e, const unsigned char *raw);
int qwen_predict_take(struct qwen_state_in *v,
    const struct qwen_state_rec *rec, const unsigned char *raw,
    struct qwen_err *err);
int qwen_predict_room_kv(struct qwen_state_in *v,
    const struct qwen_state_entry *e, struct qwen_state_target *p,
    struct qwen_err *err);
int qwen_predict_put(struct qwen_save *v);
int qwen_predict_put_kv(struct qwen_save *v);

/* A piece of KV blocks to those of a layer of the session (section.c). */
void qwen_state_target_blocks(const struct qwen_state_target *p, size_t layer,
    const struct qwen_state_entry *e, const unsigned char *raw);
/*
 * Pieces of KV blocks first .. first + n - 1, which are of size bytes each;
 * base of them are not saved.  layer -1: those of the block that predicts.
 */
int qwen_put_blocks(struct qwen_save *v, enum qwen_kind kind, int64_t layer,
    size_t size, size_t base, size_t first, size_t n);

/* Those from QWEN_K_EXTRA on. */
extern const struct qwen_section qwen_extras[];
extern const size_t qwen_n_extras;

#endif
